"""Every action as a deed that can be tried: a rule, a world in which it fires, and what others do to its target.

The table stands beside the registry of actions and is compared with it: an action without a deed fails the proof.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.worlds import PARTNER, Town, draft, happening
from worker.sandbox.changes import EventChange
from worker.sandbox.world import Happening

Hand = Callable[[Town], None]
"""Another hand on the event's target, at this moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One action that fires for the event e1 once it is cancelled.

    ``method`` and ``path``: its request, which meets the outcome; a message has none. ``item``: which of its writes
    that is. ``effect``: what the books call it. ``shown``: a read can show it. ``so``: another hand brings the very
    same about; ``otherwise``: something that is neither as before nor as wanted. None where there is no such thing.
    """

    action: str
    do: str
    place: tuple[Happening, ...]
    method: str = ""
    path: str = ""
    item: str = ""
    effect: str = ""
    shown: bool = True
    so: Hand | None = None
    otherwise: Hand | None = None
    asks_first: bool = False

    @property
    def rules(self) -> str:
        """Its rule file."""
        return f"rules:\n  - id: r\n    when: event.status == 'cancelled'\n    do: {self.do}\n"


def by_hand(parts: Mapping[str, object] | None = None, /, **fields: object) -> Hand:
    """A person sets these parts, and these fields, of the event."""

    def act(here: Town) -> None:
        change = EventChange(event="e1", partner=PARTNER, by="person", set=fields, **(parts or {}))
        here.twin.change(change, here.loop.time())

    return act


def published(*campaigns: dict[str, object]) -> Happening:
    """An event whose setup is published, with these campaigns."""
    return replace(draft("e1"), published=True, campaigns=campaigns)


def setup(**fields: object) -> Hand:
    """A person leaves this setup."""
    return by_hand({"setup": {"goal": "ROAS", "total_budget": 500, **fields}})


def campaigns(**fields: object) -> Hand:
    """A person leaves one campaign, with these fields."""
    return by_hand({"campaigns": [{"tc": "cluster 1", "tc_run_id": 1, **fields}]})


def _field(action: str, name: str, value: str, before: str, do: str = "") -> Deed:
    return Deed(
        action=action,
        do=do or f"[{action}]",
        place=(happening("e1", **{name: before}),),
        method="PUT",
        path=f"/{name}$",
        effect=f"set_{name}",
        so=by_hand(**{name: value}),
        otherwise=by_hand(**{name: None}),
    )


HIDDEN = by_hand(frontend_status="HIDDEN")
ONE = {"tc": "cluster 1", "tc_run_id": 1, "budget": 10}
IN_SERIES = {"campaign_event_series": ["e2", "e3"]}
OTHERS = (happening("e2"), happening("e3"))
CALL = "method: PUT, host: cr, path: '/events/{eid}', query: {event_type: x, partner_product: y, hall_name: closed}"
CONFIRM = "confirm: {get: '/events/{eid}', when: response.hall_name == 'closed'}"

DEEDS: Mapping[str, Deed] = {
    "pause": _field("pause", "client_campaign_status", "PAUSED", "RUNNING"),
    "run": _field("run", "client_campaign_status", "RUNNING", "PAUSED"),
    "optimisation off": _field("optimisation", "campaign_optimisation_status", "OFF", "ON", "[{optimisation: 'OFF'}]"),
    "optimisation on": _field("optimisation", "campaign_optimisation_status", "ON", "OFF", "[{optimisation: 'ON'}]"),
    "ad_optimisation off": _field(
        "ad_optimisation", "ad_campaign_optimisation_status", "OFF", "ON", "[{ad_optimisation: 'OFF'}]"
    ),
    "frontend_status": Deed(
        action="frontend_status",
        do="[{frontend_status: HIDDEN}]",
        place=(happening("e1"),),
        method="PUT",
        path="/setup_frontend_status$",
        item="event",
        effect="set_frontend_status",
        so=HIDDEN,
        otherwise=by_hand(frontend_status="FLAGGED"),
    ),
    "frontend_status, its second write": Deed(
        action="frontend_status",
        do="[{frontend_status: HIDDEN}]",
        place=(happening("e1"),),
        method="PUT",
        path="/last_updated_on_fe/",
        item="cr",
        effect="last_updated_on_fe",
        shown=False,
    ),
    "create_draft": Deed(
        action="create_draft",
        do="[{create_draft: {goal: ROAS, total_budget: 500}}]",
        place=(happening("e1"),),
        method="POST",
        path="/setup_processes/e1$",
        effect="create_setup",
        so=setup(),
        otherwise=setup(total_budget=900),
    ),
    "update_draft": Deed(
        action="update_draft",
        do="[{update_draft: {total_budget: 750}}]",
        place=(draft("e1"),),
        method="PUT",
        path="/setup_processes/e1$",
        effect="update_setup",
        so=setup(total_budget=750),
        otherwise=setup(total_budget=900),
    ),
    "boost": Deed(
        action="boost",
        do="[boost]",
        place=(draft("e1"),),
        method="POST",
        path="/boost$",
        effect="boost",
        so=by_hand({"published": True}),
        otherwise=setup(total_budget=900),
    ),
    "reset_setup": Deed(
        action="reset_setup",
        do="[reset_setup]",
        place=(draft("e1"),),
        method="PUT",
        path="/reset_campaigns_setup$",
        effect="reset_setup",
        shown=False,
    ),
    "edit_cluster": Deed(
        action="edit_cluster",
        do="[{edit_cluster: {tc: cluster 1, tc_run_id: 1, budget: 20}}]",
        place=(published(ONE),),
        method="POST",
        path="/campaigns_setup$",
        effect="edit_cluster",
        so=campaigns(budget=20),
        otherwise=campaigns(budget=30),
    ),
    "create_campaign": Deed(
        action="create_campaign",
        do="[{create_campaign: {tc: cluster 1, tc_run_id: 1}}]",
        place=(published(),),
        method="POST",
        path="/campaigns/$",
        effect="create_campaign",
        so=campaigns(),
    ),
    "series_add": Deed(
        action="series_add",
        do="[{series_add: [e2, e3]}]",
        place=(happening("e1"), *OTHERS),
        method="POST",
        path="/series$",
        effect="series_add",
        so=by_hand(**IN_SERIES),
        otherwise=by_hand(campaign_event_series=["e2"]),
    ),
    "series_remove": Deed(
        action="series_remove",
        do="[{series_remove: [e2, e3]}]",
        place=(happening("e1", **IN_SERIES), *OTHERS),
        method="DELETE",
        path="/series$",
        effect="series_remove",
        so=by_hand(campaign_event_series=[]),
        otherwise=by_hand(campaign_event_series=["e2"]),
    ),
    "write, with confirm": Deed(
        action="write",
        do=f"[{{write: {{{CALL}, {CONFIRM}}}}}]",
        place=(happening("e1"),),
        method="PUT",
        path="^/events/e1$",
        effect="edit_event",
        so=by_hand(hall_name="closed"),
        otherwise=by_hand(hall_name="under repair"),
    ),
    "write, without confirm": Deed(
        action="write",
        do=f"[{{write: {{{CALL}}}}}]",
        place=(happening("e1"),),
        method="PUT",
        path="^/events/e1$",
        effect="edit_event",
        shown=False,
    ),
    "write, a DELETE": Deed(
        action="write",
        do="[{write: {method: DELETE, path: /daily_revenue_summary, query: {eid: '{eid}'}}}]",
        place=(happening("e1"),),
        method="DELETE",
        path="^/daily_revenue_summary$",
        effect="clear_sales",
        shown=False,
        asks_first=True,
    ),
    "notify": Deed(action="notify", do="[{notify: e1 is cancelled}]", place=(happening("e1"),), shown=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What becomes of the deed's request. ``faults``: of the twin, each with its parameters. ``happens``: whether this
    request has its effect, soon or late.

    ``means``: what the worker may make of it: accepted, a no, proven not sent, or unknown. ``hand``: another hand acts,
    with the request (so), or as soon as nobody knows what became of it (otherwise). ``asked``: the reason for which a
    person is needed although a read can show the effect.
    """

    means: str
    happens: bool = False
    kind: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    times: int = 1
    hand: str = ""
    asked: str = ""
    only: str = ""
    """What it is tried with: ``task`` for actions with a task, ``message`` for messages; everything else for all."""


def _answers() -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for status in (400, 404, 405, 410, 413, 415, 422):
        refusal = {"status": status, "code": "error.invalid"}
        found[f"{status}, nothing happened"] = Outcome(means="no", kind="answer_before", params=refusal)
        found[f"{status}, a lie"] = Outcome(means="no", happens=True, kind="answer_after", params=refusal)
    for status in (302, 408, 409, 418, 425, 429, 451, 500, 502, 503, 504):
        answer = {"status": status}
        found[f"{status}, nothing happened"] = Outcome(means="unknown", kind="answer_before", params=answer)
        found[f"{status}, applied"] = Outcome(means="unknown", happens=True, kind="answer_after", params=answer)
        late = {**answer, "after_s": 12.0}
        if status in (429, 500, 503):
            found[f"{status}, applied late"] = Outcome(means="unknown", happens=True, kind="late_effect", params=late)
    return found


OUTCOMES: Mapping[str, Outcome] = {
    "2xx": Outcome(means="accepted", happens=True),
    "2xx, slow": Outcome(means="accepted", happens=True, kind="slow", params={"delay_s": 4.0}),
    "2xx, no JSON": Outcome(means="accepted", happens=True, kind="garbage"),
    "2xx, the task fails": Outcome(means="accepted", asked="task_failed", only="task"),
    **_answers(),
    "429, with Retry-After": Outcome(means="unknown", kind="answer_before", params={"status": 429, "retry_after": 7}),
    "429, three times in a row": Outcome(
        means="unknown", kind="answer_before", params={"status": 429}, times=3, asked="attempts"
    ),
    "429, and no read answers": Outcome(
        means="unknown", kind="answer_before", params={"status": 429}, hand="blind", asked="no_evidence"
    ),
    "429, applied, and no read answers": Outcome(
        means="unknown", happens=True, kind="answer_after", params={"status": 429}, hand="blind", asked="no_evidence"
    ),
    "429, and something else is there": Outcome(
        means="unknown", kind="answer_before", params={"status": 429}, hand="otherwise", asked="third_value"
    ),
    "409, it is so already": Outcome(means="unknown", kind="answer_before", params={"status": 409}, hand="so"),
    "401": Outcome(means="not sent", kind="answer_before", params={"status": 401}),
    "403": Outcome(means="not sent", kind="answer_before", params={"status": 403}),
    "400 with a code that denies": Outcome(
        means="not sent", kind="answer_before", params={"status": 400, "code": "error.auth.missing_token"}
    ),
    "401, the token is dead": Outcome(means="not sent", kind="expired_token"),
    "401, twice in a row": Outcome(means="not sent", kind="answer_before", params={"status": 401}, times=2),
    "no connection": Outcome(means="not sent", kind="no_connection"),
    "no connection, three times": Outcome(means="not sent", kind="no_connection", times=3),
    "reset before": Outcome(means="unknown", kind="cut_before"),
    "closed before": Outcome(means="unknown", kind="cut_before", params={"reset": False}),
    "reset after": Outcome(means="unknown", happens=True, kind="cut_after"),
    "closed after": Outcome(means="unknown", happens=True, kind="cut_after", params={"reset": False}),
    "2xx, cut short": Outcome(means="unknown", happens=True, kind="cut_body"),
    "time-out before": Outcome(means="unknown", kind="hang_before"),
    "time-out after": Outcome(means="unknown", happens=True, kind="hang_after"),
    "too slow": Outcome(means="unknown", happens=True, kind="slow", params={"delay_s": 15.0}),
    "taken": Outcome(means="accepted", happens=True, only="message"),
}
