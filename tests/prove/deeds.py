"""Every action as a deed that can be tried: a rule, a world in which it fires, and what others do to its target.

The table stands beside the registry of actions and is compared with it: an action without a deed fails the proof.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import yaml

from tests.worlds import PARTNER, Town, draft, happening, several
from worker.sandbox.changes import EventChange
from worker.sandbox.world import Happening

Hand = Callable[[Town], None]
"""Another hand on the event's target, at this moment."""


@dataclass(frozen=True, slots=True)
class Deed:
    """One action that fires for the event e1 once it is cancelled.

    ``do``: of its rule. ``request``: method and path of what meets the outcome; a message has none. ``effect``: what
    the books call it. ``place``: the world in which it fires. ``item``: which of its writes that is. ``shown``: a read
    can show it. ``so``: another hand brings the very same about; ``otherwise``: something that is neither as before nor
    as wanted. None where there is no such thing.
    """

    do: str
    request: str = ""
    effect: str = ""
    _: KW_ONLY
    place: tuple[Happening, ...] = (happening("e1"),)
    item: str = ""
    shown: bool = True
    so: Hand | None = None
    otherwise: Hand | None = None
    asks_first: bool = False

    @property
    def action(self) -> str:
        (step,) = yaml.safe_load(self.do)
        return step if isinstance(step, str) else str(next(iter(step)))

    @property
    def method(self) -> str:
        return self.request.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.request.partition(" ")[2]

    @property
    def rules(self) -> str:
        return f"rules:\n  - id: r\n    when: event.status == 'cancelled'\n    do: {self.do}\n"


def by_hand(parts: Mapping[str, object] | None = None, /, **fields: object) -> Hand:
    """A person sets these parts, and these fields, of the event."""

    def act(here: Town) -> None:
        change = EventChange(event="e1", partner=PARTNER, by="person", set=fields, **(parts or {}))
        here.twin.change(change, here.loop.time())

    return act


def published(*campaigns: dict[str, object]) -> Happening:
    return replace(draft("e1"), published=True, campaigns=campaigns)


def setup(**fields: object) -> Hand:
    return by_hand({"setup": {"goal": "ROAS", "total_budget": 500, **fields}})


def campaigns(**fields: object) -> Hand:
    return by_hand({"campaigns": [{"tc": "cluster 1", "tc_run_id": 1, **fields}]})


def _field(do: str, name: str, value: str, before: str) -> Deed:
    return Deed(
        do,
        f"PUT /{name}$",
        f"set_{name}",
        place=(happening("e1", **{name: before}),),
        so=by_hand(**{name: value}),
        otherwise=by_hand(**{name: None}),
    )


IN_SERIES = {"campaign_event_series": ["e2", "e3"]}
CALL = "method: PUT, host: cr, path: '/events/{eid}', query: {event_type: x, partner_product: y, hall_name: closed}"

DEEDS: Mapping[str, Deed] = {
    "pause": _field("[pause]", "client_campaign_status", "PAUSED", "RUNNING"),
    "run": _field("[run]", "client_campaign_status", "RUNNING", "PAUSED"),
    "optimisation off": _field("[{optimisation: 'OFF'}]", "campaign_optimisation_status", "OFF", "ON"),
    "optimisation on": _field("[{optimisation: 'ON'}]", "campaign_optimisation_status", "ON", "OFF"),
    "ad_optimisation off": _field("[{ad_optimisation: 'OFF'}]", "ad_campaign_optimisation_status", "OFF", "ON"),
    "frontend_status": Deed(
        "[{frontend_status: HIDDEN}]",
        "PUT /setup_frontend_status$",
        "set_frontend_status",
        item="event",
        so=by_hand(frontend_status="HIDDEN"),
        otherwise=by_hand(frontend_status="FLAGGED"),
    ),
    "frontend_status, its second write": Deed(
        "[{frontend_status: HIDDEN}]", "PUT /last_updated_on_fe/", "last_updated_on_fe", item="cr", shown=False
    ),
    "create_draft": Deed(
        "[{create_draft: {goal: ROAS, total_budget: 500}}]",
        "POST /setup_processes/e1$",
        "create_setup",
        so=setup(),
        otherwise=setup(total_budget=900),
    ),
    "update_draft": Deed(
        "[{update_draft: {total_budget: 750}}]",
        "PUT /setup_processes/e1$",
        "update_setup",
        place=(draft("e1"),),
        so=setup(total_budget=750),
        otherwise=setup(total_budget=900),
    ),
    "boost": Deed(
        "[boost]",
        "POST /boost$",
        "boost",
        place=(draft("e1"),),
        so=by_hand({"published": True}),
        otherwise=setup(total_budget=900),
    ),
    "reset_setup": Deed(
        "[reset_setup]", "PUT /reset_campaigns_setup$", "reset_setup", place=(draft("e1"),), shown=False
    ),
    "edit_cluster": Deed(
        "[{edit_cluster: {tc: cluster 1, tc_run_id: 1, budget: 20}}]",
        "POST /campaigns_setup$",
        "edit_cluster",
        place=(published({"tc": "cluster 1", "tc_run_id": 1, "budget": 10}),),
        so=campaigns(budget=20),
        otherwise=campaigns(budget=30),
    ),
    "create_campaign": Deed(
        "[{create_campaign: {tc: cluster 1, tc_run_id: 1}}]",
        "POST /campaigns/$",
        "create_campaign",
        place=(published(),),
        so=campaigns(),
    ),
    "series_add": Deed(
        "[{series_add: [e2, e3]}]",
        "POST /series$",
        "series_add",
        place=several(happening, 3),
        so=by_hand(**IN_SERIES),
        otherwise=by_hand(campaign_event_series=["e2"]),
    ),
    "series_remove": Deed(
        "[{series_remove: [e2, e3]}]",
        "DELETE /series$",
        "series_remove",
        place=(happening("e1", **IN_SERIES), happening("e2"), happening("e3")),
        so=by_hand(campaign_event_series=[]),
        otherwise=by_hand(campaign_event_series=["e2"]),
    ),
    "write, with confirm": Deed(
        f"[{{write: {{{CALL}, confirm: {{get: '/events/{{eid}}', when: response.hall_name == 'closed'}}}}}}]",
        "PUT ^/events/e1$",
        "edit_event",
        so=by_hand(hall_name="closed"),
        otherwise=by_hand(hall_name="under repair"),
    ),
    "write, without confirm": Deed(f"[{{write: {{{CALL}}}}}]", "PUT ^/events/e1$", "edit_event", shown=False),
    "write, a DELETE": Deed(
        "[{write: {method: DELETE, path: /daily_revenue_summary, query: {eid: '{eid}'}}}]",
        "DELETE ^/daily_revenue_summary$",
        "clear_sales",
        shown=False,
        asks_first=True,
    ),
    "notify": Deed("[{notify: e1 is cancelled}]", shown=False),
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


TOO_MANY = Outcome(means="unknown", kind="answer_before", params={"status": 429})
OUTCOMES: Mapping[str, Outcome] = {
    "2xx": Outcome(means="accepted", happens=True),
    "2xx, slow": Outcome(means="accepted", happens=True, kind="slow", params={"delay_s": 4.0}),
    "2xx, no JSON": Outcome(means="accepted", happens=True, kind="cut_json"),
    "2xx, a web page": Outcome(means="unknown", happens=True, kind="garbage"),
    "2xx, the task fails": Outcome(means="accepted", asked="task_failed", only="task"),
    **_answers(),
    "429, with Retry-After": Outcome(means="unknown", kind="answer_before", params={"status": 429, "retry_after": 7}),
    "429, three times in a row": replace(TOO_MANY, times=3, asked="attempts"),
    "429, and no read answers": replace(TOO_MANY, hand="blind", asked="no_evidence"),
    "429, applied, and no read answers": replace(
        TOO_MANY, happens=True, kind="answer_after", hand="blind", asked="no_evidence"
    ),
    "429, and something else is there": replace(TOO_MANY, hand="otherwise", asked="third_value"),
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
