"""The actions that a rule can name: one table for validation, docs, planning, guards and evidence.

Each row says what it writes, on which target, whether doing it twice or wrongly can cost money, and what shows its
effect. How the request looks is the client's business (`worker.api.requests`), because it leans on assumptions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from worker.model.facts import EVENT_FIELDS, GOALS

# The shape of one row of the table of actions: everything that tells one action from another.
#
# Checking, schema, docs, planning, guards, evidence and rule tests go by these fields and by no action's name, so that
# a new action of a known kind is one row of `worker.model.actions` and one request of `worker.api.requests`.

ParamType = Literal[
    "string",
    "number",
    "integer",
    "goal",
    "on_off",
    "frontend_status",
    "eids",
    "texts",
    "any",
    "host",
    "method",
    "path",
    "query",
    "body",
    "flag",
    "confirm",
]
"""``eids``: a list of event ids. ``any``: any JSON. From ``host`` on, the parts of a request that a rule makes by hand,
in which ``{eid}``, ``{partner_id}`` and ``{client_id}`` are filled in (`worker.rules.calls`)."""
Spends = Literal["never", "always", "unless_off", "with_budget", "unless_said"]
"""``unless_off``: all but the value that stops spending; ``with_budget``: where money is among what is sent;
``unless_said``: unless the rule says ``spends: false``."""
Shown = Literal["field", "setup", "campaign", "series", "confirm", "answer", "handover"]
"""What shows the effect: a field of the event, the setup, one campaign among the event's campaigns, the members of the
event's series, a condition of the rule's own on a fresh GET; nothing but the answer, because no read can; or that it
was handed over, because it is a message and no request."""
Budget = Literal["own", "draft"]
"""Whose budget a write commits: one among its own parameters, if it has one, or that of the draft it publishes."""

_OWN_FACTS: Mapping[Shown, str] = {"field": "event", "setup": "setup", "campaign": "campaigns"}
BUDGETS: tuple[str, ...] = ("total_budget", "budget")
"""Parameters that are a budget, in the partner's currency: those that the service's budget range is for."""
WORDS: Mapping[ParamType, tuple[str, ...]] = {
    "goal": GOALS,
    "on_off": ("ON", "OFF"),
    "frontend_status": EVENT_FIELDS["frontend_status"].values,
}
"""The parameters that are one of a few words."""
EXTRA = "extra"
"""The key of an action under which parameters stand that neither the document nor an assumption names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One parameter of an action. ``of_item``: with ``each`` it comes from the item, where it is not written."""

    type: ParamType
    required: bool = False
    of_item: bool = False
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A row of the document that belongs to an action: no rule writes to it by hand."""

    method: str
    path: str
    host: Literal["api", "cr"] = "api"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One row of the table. ``shape``: how it is written in ``do``: a bare word, ``name: value`` or ``name: {…}``.

    ``target``: what it writes to within the event; names in braces stand for its parameters. A message has none.
    ``extra_params``: it takes parameters that nobody names, under ``extra``.
    ``value``: the value that the action's name implies. ``stops``: values that do nothing but stop spending.
    ``null_is_so``: a null there means that there is nothing to do.
    ``items``: the writes that it makes, one after the other; ``unseen``: those of them that no read can show.
    ``creates``: it makes what is not there; whatever else is there then is somebody else's.
    ``each``: with ``each: added`` it makes one write for each item of the list that changed.
    ``in_order``: none goes before an older one on the same target, also where that one is held.
    ``needs``: states of the setup in which the service takes it; empty for any.
    ``task``: the service works on it in a task whose state can be read afterwards.
    ``semantics``: the assumption that says whether it sets its value or flips it.
    ``brings``: fields of the event that the document says it sets beside its target.
    ``reads``: names of the facts that show before, already-so and evidence. ``writes``: (fact, field) that it changes;
    an empty field is the whole fact. ``assumptions``: keys of the register that its request or its evidence lean on.
    """

    name: str
    about: str
    shape: Literal["word", "value", "mapping"]
    params: Mapping[str, Param] = field(default_factory=dict)
    extra_params: bool = False
    target: str
    value: str | None = None
    stops: tuple[str, ...] = ()
    null_is_so: bool = False
    items: tuple[str, ...] = ("",)
    unseen: tuple[str, ...] = ()
    creates: bool = False
    each: bool = False
    in_order: bool = False
    spends: Spends
    shown: Shown
    budget: Budget = "own"
    needs: tuple[str, ...] = ()
    task: bool = False
    semantics: str | None = None
    reads: tuple[str, ...]
    writes: tuple[tuple[str, str], ...]
    brings: tuple[tuple[str, str], ...] = ()
    assumptions: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    section: str
    example: str

    @property
    def bare(self) -> str | None:
        """The parameter of an action that is written as ``name: value``."""
        return next(iter(self.params)) if self.shape == "value" else None

    @property
    def own_fact(self) -> str:
        """The fact in which its target's own fields stand; empty where none shows them."""
        return _OWN_FACTS.get(self.shown, "")

    @property
    def beside(self) -> tuple[str, ...]:
        """Parameters that may also stand beside the action's name, as in ``{edit_cluster: {…}, each: added}``."""
        return ("each",) if self.each else tuple(name for name in self.params if name == "confirm")

    @property
    def required(self) -> tuple[str, ...]:
        """The parameters that must be there."""
        return tuple(name for name, one in self.params.items() if one.required)

    @property
    def commits(self) -> bool:
        """Whether it always carries a budget."""
        return self.budget == "draft" or any(name in BUDGETS for name in self.required)

    def written(self, params: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
        """What a write with these parameters changes: of a setup also the fields that the document does not name."""
        if self.shown != "setup" or not self.extra_params:
            return self.writes
        return tuple(dict.fromkeys((*self.writes, *(("setup", name) for name in params))))


EVERY_WRITE = ("auth.denied",)
"""What every write leans on: which answers mean that it was turned away at the door and did not happen."""

_CLIENT_STATUS = ("client_campaign_status.query", "client_campaign_status.semantics", "task.succeeded", "task.failed")
_CLIENT_STATUS_CALL = Call(method="PUT", path="/events/{eid}/client_campaign_status")
_SETUP_FIELDS = (("setup", "state"), ("setup", "goal"), ("setup", "total_budget"))
_TC = Param(type="string", required=True, of_item=True, about="taste cluster")
_RUN = Param(type="integer", required=True, of_item=True, about="run of the clusters")
_MEMBERS = Param(type="eids", required=True, about="event ids")
_GOAL = Param(type="goal", about="goal of the campaign")
_TOTAL_BUDGET = Param(type="number", about="budget in the partner's currency")
_BUDGET = Param(type="number", about="budget of the cluster in the partner's currency")
_DRAFT = {
    "tcs": Param(type="texts", about="taste clusters"),
    "integration_details": Param(type="any", about="as the default campaign parameters have it"),
    "conversion_id": Param(type="any", about="as the default campaign parameters have it"),
    "custom_event_type": Param(type="any", about="as the default campaign parameters have it"),
    "lead_form_id": Param(type="any", about="as the default campaign parameters have it"),
}
"""What the document names among the default campaign parameters (section 2.5) beside goal and budget."""

_TOGGLES = (
    Action(
        name="pause",
        about="pause all campaigns of the event; nothing to do where the event has no campaign status",
        shape="word",
        target="client_campaign_status",
        value="PAUSED",
        stops=("PAUSED",),
        null_is_so=True,
        spends="unless_off",
        shown="field",
        task=True,
        semantics="client_campaign_status.semantics",
        reads=("event",),
        writes=(("event", "client_campaign_status"),),
        assumptions=_CLIENT_STATUS,
        calls=(_CLIENT_STATUS_CALL,),
        section="3.2",
        example="do: [pause]",
    ),
    Action(
        name="run",
        about="run all campaigns of the event",
        shape="word",
        target="client_campaign_status",
        value="RUNNING",
        spends="always",
        shown="field",
        task=True,
        semantics="client_campaign_status.semantics",
        reads=("event",),
        writes=(("event", "client_campaign_status"),),
        assumptions=_CLIENT_STATUS,
        calls=(_CLIENT_STATUS_CALL,),
        section="3.2",
        example="do: [run]",
    ),
    Action(
        name="optimisation",
        about="switch automated optimisation ON or OFF",
        shape="value",
        params={"value": Param(type="on_off", required=True, about="ON or OFF")},
        target="campaign_optimisation_status",
        stops=("OFF",),
        spends="unless_off",
        shown="field",
        semantics="campaign_optimisation_status.semantics",
        reads=("event",),
        writes=(("event", "campaign_optimisation_status"),),
        assumptions=("campaign_optimisation_status.query", "campaign_optimisation_status.semantics"),
        calls=(Call(method="PUT", path="/events/{eid}/campaign_optimisation_status"),),
        section="3.2",
        example='do: [{optimisation: "OFF"}]',
    ),
    Action(
        name="ad_optimisation",
        about="switch automated optimisation of the ad campaigns ON or OFF",
        shape="value",
        params={"value": Param(type="on_off", required=True, about="ON or OFF")},
        target="ad_campaign_optimisation_status",
        stops=("OFF",),
        spends="unless_off",
        shown="field",
        semantics="ad_campaign_optimisation_status.semantics",
        reads=("event",),
        writes=(("event", "ad_campaign_optimisation_status"),),
        assumptions=("ad_campaign_optimisation_status.query", "ad_campaign_optimisation_status.semantics"),
        calls=(Call(method="PUT", path="/events/{eid}/ad_campaign_optimisation_status"),),
        section="3.2",
        example='do: [{ad_optimisation: "OFF"}]',
    ),
    Action(
        name="frontend_status",
        about="set what users see: two writes, the second on the event-ingest service cannot be read back",
        shape="value",
        params={"value": Param(type="frontend_status", required=True, about="DEFAULT, FLAGGED, HIDDEN, CANCELLED")},
        target="frontend_status",
        items=("event", "cr"),
        unseen=("cr",),
        spends="never",
        shown="field",
        reads=("event",),
        writes=(("event", "frontend_status"),),
        assumptions=("frontend_status.query", "last_updated_on_fe.query"),
        calls=(
            Call(method="PUT", path="/events/{eid}/setup_frontend_status"),
            Call(method="PUT", path="/events/last_updated_on_fe/{eid}", host="cr"),
        ),
        section="3.2",
        example="do: [{frontend_status: HIDDEN}]",
    ),
)

_SETUP = (
    Action(
        name="create_draft",
        about="create the event's setup process",
        shape="mapping",
        params={"goal": replace(_GOAL, required=True), "total_budget": replace(_TOTAL_BUDGET, required=True), **_DRAFT},
        extra_params=True,
        target="setup",
        spends="always",
        shown="setup",
        creates=True,
        reads=("setup",),
        writes=_SETUP_FIELDS,
        assumptions=("setup.state_field", "setup.draft"),
        calls=(Call(method="POST", path="/setup_processes/{eid}"),),
        section="4.5",
        example="do: [{create_draft: {goal: ROAS, total_budget: 500}}]",
    ),
    Action(
        name="update_draft",
        about="change fields of the event's draft, in the order in which changes were decided; refused without a draft",
        shape="mapping",
        params={"goal": _GOAL, "total_budget": _TOTAL_BUDGET, **_DRAFT},
        extra_params=True,
        target="setup",
        in_order=True,
        spends="with_budget",
        shown="setup",
        needs=("DRAFT",),
        reads=("setup",),
        writes=(),
        assumptions=("setup.state_field", "setup.draft"),
        calls=(Call(method="PUT", path="/setup_processes/{eid}"),),
        section="4.5",
        example="do: [{update_draft: {total_budget: 750}}]",
    ),
    Action(
        name="boost",
        about="publish the event's draft; refused where there is none",
        shape="word",
        target="setup",
        value="PUBLISHED",
        spends="always",
        shown="setup",
        budget="draft",
        needs=("DRAFT", "PUBLISHED"),
        reads=("setup",),
        writes=(("setup", "state"),),
        brings=(("client_campaign_status", "RUNNING"),),
        assumptions=("setup.state_field", "setup.draft", "setup.published", "setup.after_publish", "boost.body"),
        calls=(Call(method="POST", path="/setup_processes/{eid}/boost"),),
        section="4.5",
        example="do: [boost]",
    ),
    Action(
        name="reset_setup",
        about="reset the event's campaigns and setup; what it leaves cannot be read back",
        shape="word",
        target="setup",
        spends="always",
        shown="answer",
        reads=(),
        writes=(*_SETUP_FIELDS, ("campaigns", "")),
        calls=(Call(method="PUT", path="/events/{eid}/reset_campaigns_setup"),),
        section="3.2",
        example="do: [reset_setup]",
    ),
)

_CLUSTERS = (
    Action(
        name="edit_cluster",
        about=(
            "edit one cluster of a published setup; with each: added, one write for each cluster that the watched list "
            "has gained, which then gives tc and tc_run_id"
        ),
        shape="mapping",
        params={"tc": _TC, "tc_run_id": _RUN, "budget": _BUDGET},
        extra_params=True,
        target="campaign:{tc}:{tc_run_id}",
        each=True,
        spends="always",
        shown="campaign",
        needs=("PUBLISHED",),
        reads=("setup", "campaigns"),
        writes=(("campaigns", ""),),
        assumptions=("setup.state_field", "setup.published", "setup.after_publish", "campaigns.items"),
        calls=(Call(method="POST", path="/campaigns_setup"),),
        section="4.5",
        example='do: [{edit_cluster: {tc: "jazz & soul", tc_run_id: 7, budget: 120}}]',
    ),
    Action(
        name="create_campaign",
        about="start a campaign for one cluster; every one that arrives is one more, so none is started where one is",
        shape="mapping",
        params={"tc": _TC, "tc_run_id": _RUN, "budget": _BUDGET},
        extra_params=True,
        target="campaign:{tc}:{tc_run_id}",
        creates=True,
        each=True,
        spends="always",
        shown="campaign",
        reads=("campaigns",),
        writes=(("campaigns", ""),),
        assumptions=("create_campaign.query", "campaigns.items"),
        calls=(Call(method="POST", path="/campaigns/"),),
        section="4.5",
        example='do: [{create_campaign: {tc: "jazz & soul", tc_run_id: 7}}]',
    ),
)

_SERIES = (
    Action(
        name="series_add",
        about="add events to the event's series",
        shape="value",
        params={"value": _MEMBERS},
        target="series",
        value="in",
        spends="never",
        shown="series",
        reads=("event",),
        writes=(("event", "campaign_event_series"),),
        calls=(Call(method="POST", path="/events/{eid}/series"),),
        section="4.2",
        example="do: [{series_add: [e7, e8]}]",
    ),
    Action(
        name="series_remove",
        about="take events out of the event's series",
        shape="value",
        params={"value": _MEMBERS},
        target="series",
        value="out",
        spends="never",
        shown="series",
        reads=("event",),
        writes=(("event", "campaign_event_series"),),
        calls=(Call(method="DELETE", path="/events/{eid}/series"),),
        section="4.2",
        example="do: [{series_remove: [e7]}]",
    ),
)

_OTHERS = (
    Action(
        name="notify",
        about="a message to people; it asks nothing of the service, and is done once it is handed over",
        shape="value",
        params={"value": Param(type="string", required=True, about="the message")},
        target="",
        spends="never",
        shown="handover",
        reads=(),
        writes=(),
        section="6",
        example="do: [pause, {notify: the campaigns of a cancelled event are paused}]",
    ),
    Action(
        name="write",
        about=(
            "any other write of the service; with confirm, a condition on a fresh GET shows its effect; a DELETE "
            "always waits for approval"
        ),
        shape="mapping",
        params={
            "method": Param(type="method", required=True, about="how it writes"),
            "path": Param(type="path", required=True, about="below the host's base; {eid} is the event"),
            "host": Param(type="host", about="api unless given; cr is the event-ingest service"),
            "query": Param(type="query", about="query parameters; a list repeats its name"),
            "body": Param(type="body", about="JSON body"),
            "spends": Param(type="flag", about="false: it can cost no money, not even twice or wrongly"),
            "confirm": Param(type="confirm", about="{get, when}: what to GET, and the condition on its response"),
        },
        target="{method} {path}",
        spends="unless_said",
        shown="confirm",
        reads=(),
        writes=(),
        section="4",
        example=(
            'do: [{write: {host: cr, method: PUT, path: "/events/{eid}", query: {event_type: concert, partner_product: '
            'campaign, city: Leipzig}, confirm: {get: "/events/{eid}", when: response.city == "Leipzig"}}}]'
        ),
    ),
)

_ROWS = (*_TOGGLES, *_SETUP, *_CLUSTERS, *_SERIES, *_OTHERS)
ACTIONS: Mapping[str, Action] = {
    row.name: row if row.shown == "handover" else replace(row, assumptions=(*row.assumptions, *EVERY_WRITE))
    for row in _ROWS
}
