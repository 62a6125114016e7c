"""The actions that a rule can name: one table for validation, docs, planning, guards and evidence.

Each row says what it writes, on which target, whether doing it twice or wrongly can cost money, and what shows its
effect. How the request looks is the client's business (`worker.api.requests`), because it depends on assumptions.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from math import inf, isfinite
from typing import Any, Literal

from worker.model.endpoints import Endpoint, endpoint
from worker.model.facts import EVENT_FIELDS, GOALS, Json, number_of, parts_of, whole_of

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
    "channel",
    "duration",
    "rule",
]
"""``eids``: a list of event ids. ``any``: any JSON. ``channel``: a name under ``notify`` in the config. ``rule``: a
rule's id. From ``host`` to ``confirm``, the parts of a request that a rule makes by hand, in which ``{eid}``,
``{partner_id}`` and ``{client_id}`` are filled in (`worker.rules.actions`)."""
Spends = Literal["never", "always", "unless_off", "with_budget", "unless_said"]
"""``unless_off``: all but the value that stops spending; ``with_budget``: where money is among what is sent;
``unless_said``: unless the rule says ``spends: false``."""
Shown = Literal["field", "setup", "campaign", "series", "confirm", "answer", "handover", "clock", "undone"]
"""What shows the effect: a field of the event, the setup, one campaign among the event's campaigns, the members of the
event's series, a condition of the rule's own on a fresh GET; nothing but the answer, because no read can; or that it
was handed over, because it is a message and no request; or the clock, because it is only a time; or what the writes
show that it becomes."""
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
WAIT = "wait"
"""The step that is only a time."""
UNDO, AFTER = "undo", "after"
"""The step that becomes the writes which put back what another rule's have changed; and how it names the rule that its
own comes after."""
UNDO_STEPS = 2
"""The most writes, one after the other, that put back one target."""
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
class Action:
    """One row of the table. ``shape``: how it is written in ``do``: a bare word, ``name: value`` or ``name: {…}``. One
    that takes a value and has more than one parameter may be written as a mapping too.

    ``target``: what it writes to within the event; names in braces stand for its parameters. A message has none.
    ``extra_params``: it takes parameters that nobody names, under ``extra``.
    ``value``: the value that the action's name implies. ``stops``: values that do nothing but stop spending.
    ``null_is_so``: a null there means that there is nothing to do.
    ``items``: the writes that it makes, one after the other; ``unseen``: those of them that no read can show.
    ``creates``: it makes what is not there; whatever else is there then is somebody else's.
    ``also_by``: the action whose effect may make the same: what it publishes starts campaigns (API section 3.2).
    ``each``: with ``each: added`` it makes one write for each item of the list that changed.
    ``in_order``: none goes before an older one on the same target, also where that one is held.
    ``needs``: states of the setup in which the service takes it; empty for any.
    ``task``: the service works on it in a task whose state can be read afterwards.
    ``semantics``: the assumption that says whether it sets its value or flips it.
    ``brings``: fields of the event that the document says it sets beside its target, and to what.
    ``writes``: (fact, field) that it changes; an empty field is the whole fact. ``assumptions``: keys of the register
    that its request or its evidence depend on. ``calls``: the rows that it writes to, which no rule writes to by hand.
    ``for_good``: why no undo puts back what it does; empty where one may.
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
    also_by: str = ""
    each: bool = False
    in_order: bool = False
    spends: Spends
    shown: Shown
    budget: Budget = "own"
    needs: tuple[str, ...] = ()
    task: bool = False
    semantics: str | None = None
    writes: tuple[tuple[str, str], ...] = ()
    brings: Mapping[str, str] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    calls: tuple[Endpoint, ...] = ()
    for_good: str = ""
    example: str

    @property
    def bare(self) -> str | None:
        """The parameter of an action that is written as ``name: value``."""
        return next(iter(self.params)) if self.shape == "value" else None

    @property
    def either(self) -> bool:
        """Whether it is written as ``name: value`` or as ``name: {…}``."""
        return self.shape == "value" and len(self.params) > 1

    @property
    def message(self) -> bool:
        """Whether it is a message to people, which the service never hears of."""
        return self.shown == "handover"

    @property
    def own_fact(self) -> str:
        """The fact in which its target's own fields stand; empty where none shows them."""
        return _OWN_FACTS.get(self.shown, "")

    @property
    def reads(self) -> tuple[str, ...]:
        """The facts that show before, already-so and evidence."""
        shown = {**_OWN_FACTS, "series": "event"}.get(self.shown, "")
        return tuple(name for name in ("setup" if self.needs and shown != "setup" else "", shown) if name)

    @property
    def beside(self) -> tuple[str, ...]:
        """Parameters that may also stand beside the action's name, as in ``{edit_cluster: {…}, each: added}``."""
        return ("each",) if self.each else tuple(name for name in self.params if name == "confirm")

    @property
    def required(self) -> tuple[str, ...]:
        """The parameters that must be there."""
        return tuple(name for name, one in self.params.items() if one.required)

    def written(self, params: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
        """What a write with these parameters changes: of a setup also the fields that the document does not name."""
        named = params if self.shown == "setup" and self.extra_params else ()
        places = (*self.writes, *(("setup", name) for name in named), *(("event", name) for name in self.brings))
        return tuple(dict.fromkeys(places))


EVERY_WRITE = ("auth.denied",)
"""What every write depends on: which answers mean that it was turned away at the door and did not happen."""

_CLIENT_STATUS = ("client_campaign_status.query", "client_campaign_status.semantics", "task.succeeded", "task.failed")
_SETUP_FIELDS = (("setup", "state"), ("setup", "goal"), ("setup", "total_budget"))
_TC = Param(type="string", required=True, of_item=True, about="taste cluster")
_RUN = Param(type="integer", required=True, of_item=True, about="run of the clusters")
_GOAL = Param(type="goal", about="goal of the campaign")
_TOTAL_BUDGET = Param(type="number", about="budget in the partner's currency")
_BUDGET = Param(type="number", about="budget of the cluster in the partner's currency")
_DRAFT = {
    "tcs": Param(type="texts", about="taste clusters"),
    **dict.fromkeys(
        ("integration_details", "conversion_id", "custom_event_type", "lead_form_id"),
        Param(type="any", about="as the default campaign parameters have it"),
    ),
}
"""What the document names among the default campaign parameters (section 2.5) beside goal and budget."""


def _sets(name: str, target: str, about: str, **more: Any) -> Action:  # noqa: ANN401  # fields of Action
    """An action that sets a field of the event, by the PUT of the field's own name."""
    keys = f"{target}.query", f"{target}.semantics"
    row = Action(
        name=name,
        about=about,
        shape="word",
        target=target,
        spends="unless_off",
        shown="field",
        semantics=keys[1],
        writes=(("event", target),),
        assumptions=keys,
        calls=(endpoint("PUT", f"/events/{{eid}}/{target}"),),
        example=f"do: [{name}]",
    )
    return replace(row, **more)


def _switches(name: str, target: str, about: str) -> Action:
    params = {"value": Param(type="on_off", required=True, about="ON or OFF")}
    example = f'do: [{{{name}: "OFF"}}]'
    return _sets(name, target, about, shape="value", params=params, stops=("OFF",), example=example)


_TOGGLES = (
    _sets(
        "pause",
        "client_campaign_status",
        "pause all campaigns of the event; nothing to do where the event has no campaign status",
        value="PAUSED",
        stops=("PAUSED",),
        null_is_so=True,
        task=True,
        assumptions=_CLIENT_STATUS,
    ),
    _sets(
        "run",
        "client_campaign_status",
        "run all campaigns of the event",
        value="RUNNING",
        spends="always",
        task=True,
        assumptions=_CLIENT_STATUS,
    ),
    _switches("optimisation", "campaign_optimisation_status", "switch automated optimisation ON or OFF"),
    _switches(
        "ad_optimisation",
        "ad_campaign_optimisation_status",
        "switch automated optimisation of the ad campaigns ON or OFF",
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
        writes=(("event", "frontend_status"),),
        assumptions=("frontend_status.query", "last_updated_on_fe.query"),
        calls=(
            endpoint("PUT", "/events/{eid}/setup_frontend_status"),
            endpoint("PUT", "/events/last_updated_on_fe/{eid}", "cr"),
        ),
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
        writes=_SETUP_FIELDS,
        assumptions=("setup.state_field", "setup.draft", "setup.after_publish"),
        calls=(endpoint("POST", "/setup_processes/{eid}"),),
        for_good="the service offers nothing that takes a draft away",
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
        assumptions=("setup.state_field", "setup.draft", "setup.others"),
        calls=(endpoint("PUT", "/setup_processes/{eid}"),),
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
        writes=(("setup", "state"),),
        brings={"client_campaign_status": "RUNNING"},
        assumptions=("setup.state_field", "setup.draft", "setup.published", "setup.after_publish", "boost.body"),
        calls=(endpoint("POST", "/setup_processes/{eid}/boost"),),
        for_good="what is published cannot be unpublished",
        example="do: [boost]",
    ),
    Action(
        name="reset_setup",
        about="reset the event's campaigns and setup; what it leaves cannot be read back",
        shape="word",
        target="setup",
        spends="always",
        shown="answer",
        writes=(*_SETUP_FIELDS, ("campaigns", "")),
        calls=(endpoint("PUT", "/events/{eid}/reset_campaigns_setup"),),
        for_good="what a reset took away cannot be brought back",
        example="do: [reset_setup]",
    ),
)

_CAMPAIGNS = ("campaigns.items", "cluster.budget")
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
        writes=(("campaigns", ""),),
        assumptions=("setup.state_field", "setup.published", "setup.after_publish", "setup.others", *_CAMPAIGNS),
        calls=(endpoint("POST", "/campaigns_setup"),),
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
        also_by="boost",
        each=True,
        spends="always",
        shown="campaign",
        writes=(("campaigns", ""),),
        assumptions=("create_campaign.query", *_CAMPAIGNS),
        calls=(endpoint("POST", "/campaigns/"),),
        for_good="the service offers nothing that takes a campaign away",
        example='do: [{create_campaign: {tc: "jazz & soul", tc_run_id: 7}}]',
    ),
)


def _series(name: str, value: str, method: str, about: str, example: str) -> Action:
    return Action(
        name=name,
        about=about,
        shape="value",
        params={"value": Param(type="eids", required=True, about="event ids")},
        target="series",
        value=value,
        spends="never",
        shown="series",
        writes=(("event", "campaign_event_series"),),
        calls=(endpoint(method, "/events/{eid}/series"),),
        example=example,
    )


_SERIES = (
    _series("series_add", "in", "POST", "add events to the event's series", "do: [{series_add: [e7, e8]}]"),
    _series("series_remove", "out", "DELETE", "take events out of the event's series", "do: [{series_remove: [e7]}]"),
)

_OTHERS = (
    Action(
        name="notify",
        about=(
            "a message to people, on request again while the condition holds, and one when it ends; it asks nothing of "
            "the service, and is done once it is handed over"
        ),
        shape="value",
        params={
            "text": Param(type="string", required=True, about="the message"),
            "to": Param(type="channel", about="the name of one entry of notify in the config; default: all that ask"),
            "remind": Param(type="duration", about="say it again after each such time, while the condition holds"),
            "ended": Param(type="string", about="what is said once the condition does not hold any more"),
        },
        target="",
        spends="never",
        shown="handover",
        example="do: [pause, {notify: the campaigns of a cancelled event are paused}]",
    ),
    Action(
        name=WAIT,
        about=(
            "wait so long after the step before is confirmed; what follows is planned then, by the facts as they are "
            "then, and only if the condition still holds"
        ),
        shape="value",
        params={"value": Param(type="duration", required=True, about="how long")},
        target="",
        spends="never",
        shown="clock",
        example="do: [pause, {wait: 2d}, run]",
    ),
    Action(
        name=UNDO,
        about=(
            "put back what the last firing of another rule changed on the event, as the command undo does: the values "
            "recorded before, where nobody has changed them since; after: of the rule that this one comes after"
        ),
        shape="value",
        params={"value": Param(type="rule", required=True, about="the id of the rule, or after")},
        target="",
        spends="never",
        shown="undone",
        for_good="an undo is not undone",
        example="do: [{undo: after}]",
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
        for_good="what it changes is not known",
        example=(
            'do: [{write: {host: cr, method: PUT, path: "/events/{eid}", query: {event_type: concert, partner_product: '
            'campaign, city: Leipzig}, confirm: {get: "/events/{eid}", when: response.city == "Leipzig"}}}]'
        ),
    ),
)

_ROWS = (*_TOGGLES, *_SETUP, *_CLUSTERS, *_SERIES, *_OTHERS)
ACTIONS: Mapping[str, Action] = {
    row.name: row if not row.target else replace(row, assumptions=(*row.assumptions, *EVERY_WRITE)) for row in _ROWS
}


# What the values of an action may be, and what of them is money. Pure, and the only place that says either.
#
# A value is judged by the table of actions, wherever it comes from: `check` reads what a rule's text gives by the same
# types, and what is computed is judged when the rule fires. Money is known by its key, at any depth, because the
# service takes more parameters than its document names.

MONEY: frozenset[str] = frozenset({"budget", "spend", "bid", "amount", "cost", "price", "cap"})
"""The words of a key, or their plurals, under which every number is money."""
_WITHIN = ("budget", "spend", "amount", "cost", "price")
"""Those that are money within another word too; ``forbid`` and ``capacity`` are none."""
_PLAIN = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
"""A decimal that every reader reads alike."""
SHOWN_LENGTH_MAX = 60
_WORD = re.compile(r"[A-Z]+s?(?![a-z])|[A-Z]?[a-z]+|\d+")
_CENT = Decimal("0.01")
_HALF_A_CENT = 0.005
"""What is less is no budget once it is rounded."""
_EXACT = Context(prec=400)
"""Enough digits for the cents of the largest double."""


def fault_of(name: str, param: Param, value: Json) -> str:
    """What is wrong with a value for a parameter, in words; empty where nothing is. Null is no matter of this: what is
    computed and null is not known."""
    if not _finite(value) or not isfinite(money_in({name: value}) or 0.0):
        return f"is {shown(value)}, which is not finite"
    words = WORDS.get(param.type)
    if words is not None:
        return "" if value in words else f"is {shown(value)}, and is one of {', '.join(words)}"
    wanted, fits = _WANTED.get(param.type, ("", lambda _value: True))
    if not fits(value):
        return f"is {shown(value)}, and must be {wanted}"
    text = uncounted({name: value})
    return "" if text is None else f"has money as {shown(text)}, which cannot be counted"


def uncounted(params: object) -> str | None:
    """The first text that is money, holds a digit and is no plain decimal: ``99,999`` and ``500 EUR`` may be money to
    the service, and nobody here can tell how much. What a rule computes is passed over. None where there is none."""
    texts = (one for one in _under_money(params, money=False) if isinstance(one, str))
    return next((one for one in texts if any(map(str.isdigit, one)) and not _PLAIN.fullmatch(one)), None)


def money_in(params: Json) -> float | None:
    """The sum of what is money in some parameters: numbers, and texts that read as one, under a key with a word of
    `MONEY` or below one. None where there is no such key with a number; what is below zero counts as nothing."""
    found = tuple(max(number, 0.0) for one in _under_money(params, money=False) if (number := _number(one)) is not None)
    return sum(found) if found else None


def money_fields(record: Mapping[str, Json]) -> dict[str, Json]:
    """Of a record, the fields with money in them."""
    return {name: part for name, part in record.items() if money_in({name: part}) is not None}


def budgets_in(params: Mapping[str, Json]) -> tuple[float, ...]:
    """The budgets that the service's range is for: those of a draft or of a cluster, however their keys are spelled."""
    found = (_number(value) for name, value in params.items() if "_".join(words_in(name)) in BUDGETS)
    return tuple(number for number in found if number is not None)


def words_in(key: str) -> tuple[str, ...]:
    """The words of a key: ``daily_budget``, ``daily-budget`` and ``dailyBudget`` have the same two, ``dailybudget`` is
    one word of its own."""
    return tuple(word.lower() for word in _WORD.findall(key))


def in_cents(params: Mapping[str, Json]) -> dict[str, Json]:
    """The parameters with their budgets in whole cents, half a cent up."""
    return {name: cents(value) if name in BUDGETS else value for name, value in params.items()}


def cents(value: Json) -> Json:
    """A number in whole cents, half a cent up; anything else as it is."""
    if not isinstance(value, float) or not isfinite(value):
        return value
    return float(Decimal(repr(value)).quantize(_CENT, rounding=ROUND_HALF_UP, context=_EXACT))


def money_text(amount: float, currency: str = "") -> str:
    """An amount in a sentence, to the cent: of 1234567.5 nothing is left out."""
    return f"{f'{amount:.2f}'.rstrip('0').rstrip('.')} {currency}".rstrip()


def shown(value: Json) -> str:
    """A value in a sentence, short."""
    text = f"the text {value!r}" if isinstance(value, str) else str(value)
    return text if len(text) <= SHOWN_LENGTH_MAX else text[: SHOWN_LENGTH_MAX - 1] + "…"


def _under_money(value: object, *, money: bool) -> Iterator[object]:
    """Each single value under a key that is money, or below one."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _under_money(part, money=money or _is_money(name))
    elif isinstance(value, list):
        for part in value:
            yield from _under_money(part, money=money)
    elif money:
        yield value


def _is_money(key: str) -> bool:
    if any(word in key.lower() for word in _WITHIN):
        return True
    return any(word in MONEY or word.removesuffix("s") in MONEY for word in words_in(key))


def _number(value: object) -> float | None:
    """The number that a value is, or that a text reads as."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except OverflowError:
        return inf
    except ValueError:
        return None


def _finite(value: Json) -> bool:
    return all(map(_finite, parts_of(value))) and (not isinstance(value, float) or isfinite(value))


def _is_text(value: Json) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_texts(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_text(one) for one in value)


_WANTED: Mapping[ParamType, tuple[str, Callable[[Json], bool]]] = {
    "string": ("a text", _is_text),
    "number": ("a number above 0", lambda value: (number_of(value) or 0) >= _HALF_A_CENT),
    "integer": ("a whole number", lambda value: whole_of(value) is not None),
    "eids": ("a list of event ids, as texts", _is_texts),
    "texts": ("a list of texts", _is_texts),
    "query": ("a mapping of names to values", lambda value: isinstance(value, dict)),
}
"""What each type takes, in words and as a question. A type that is not here takes any JSON."""
