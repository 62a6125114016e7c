"""Every name that a rule can use: facts, and the keys of a rule. One registry feeds check, schema, docs and --help.

Actions have their table in `worker.model.actions`, because guards and evidence need it too; the names are collected
here so that nobody looks in two places. Custom facts of a config are added with `with_custom`. It never reads anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, Literal, cast

from worker.model.actions import ACTIONS
from worker.model.endpoints import FACT_ROWS
from worker.model.facts import EVENT_FIELDS, LISTS, RECORDS, CustomFact, FactKind, Field, Json

# What a condition's parts can be, as far as the API document says: the types that static checks compare.
#
# A type is a claim about values that reach a condition: ill-typed documented fields are taken out before, so a
# documented field has its documented type or is unknown. What the document does not describe is ``any`` and is never
# complained of.

Kind = Literal["any", "bool", "int", "double", "string", "timestamp", "duration", "null", "list", "object"]

WORDS: Mapping[Kind, str] = {
    "any": "anything",
    "bool": "true or false",
    "int": "a whole number",
    "double": "a number",
    "string": "a text",
    "timestamp": "a time",
    "duration": "a duration",
    "null": "null",
    "list": "a list",
    "object": "a record",
}
NUMERIC: frozenset[Kind] = frozenset({"int", "double"})
ORDERED: frozenset[Kind] = frozenset({"int", "double", "string", "timestamp", "duration", "bool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """One type. ``values``: the documented values of a text, all of them unless ``open_set``.

    ``fields``: the documented fields of a record, None where none is documented; ``more``: others are documented to be
    there, too; ``only``: there are no others, so none is written ``['x']``. ``items``: the type of a list's items.
    """

    kind: Kind
    nullable: bool = False
    values: tuple[str, ...] = ()
    open_set: bool = False
    fields: "Mapping[str, Type] | None" = None
    items: "Type | None" = None
    more: bool = False
    only: bool = False

    @property
    def words(self) -> str:
        """The type in words, for a message."""
        return WORDS[self.kind]


ANY = Type(kind="any")
BOOL = Type(kind="bool")
INT = Type(kind="int")
DOUBLE = Type(kind="double")
STRING = Type(kind="string")
TIMESTAMP = Type(kind="timestamp")
DURATION = Type(kind="duration")
NULL = Type(kind="null")
LIST = Type(kind="list", items=ANY)

_OF_FIELD: Mapping[str, Kind] = {"integer": "double", "number": "double", "boolean": "bool"}
"""What the document calls otherwise."""


def of_field(field: Field) -> Type:
    """The type of a documented field. Every number from the service is a double in conditions."""
    return Type(
        kind=_OF_FIELD.get(field.type) or cast("Kind", field.type),
        nullable=field.nullable,
        values=field.values,
        open_set=field.open_set,
        items=ANY if field.type == "list" else None,
    )


def of_record(fields: Mapping[str, Field]) -> Type:
    """The type of a record with these documented fields; others may be there, reached with ``['name']``."""
    return Type(kind="object", fields={name: of_field(field) for name, field in fields.items()})


def comparable(left: Type, right: Type) -> bool:
    """Whether ``==`` between the two can ever be true."""
    if "any" in (left.kind, right.kind):
        return True
    if "null" in (left.kind, right.kind):
        other = right if left.kind == "null" else left
        return other.nullable or other.kind == "null"
    return left.kind == right.kind or {left.kind, right.kind} <= NUMERIC


def ordered(left: Type, right: Type) -> bool:
    """Whether ``<`` between the two can mean anything."""
    if "any" in (left.kind, right.kind):
        return {left.kind, right.kind} <= ORDERED | {"any"}
    return comparable(left, right) and left.kind in ORDERED


# The facts that a rule can name: what each is, where it is read, what it costs, which product it belongs to.
#
# One table for `check`, the schemas, the docs and the reading planner. How an answer becomes a fact is the client's
# business (`worker.api.facts`); here is what a rule may say of it. It never reads anything.

Level = Literal["event", "partner", "local", "made"]
"""Whose the fact is: one event's, the whole partner's, the rule's own, or made of what the worker keeps."""
Product = Literal["", "campaign_recommendations", "demand_prediction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactName:
    """One fact. ``takes``: keys of ``with``. ``every``: it is asked no more often.

    ``product``: the partner's flag that must be on for it (API section 2.2); empty where it is always there.
    """

    name: str
    level: Level
    type: Type
    about: str
    get: str = ""
    section: str = ""
    takes: tuple[str, ...] = ()
    product: Product = ""
    every: timedelta | None = None
    example: str = ""

    @property
    def per_event_request(self) -> bool:
        """Whether reading it costs a request for each event: the event's own record is read with the list."""
        return self.level == "event" and self.name != "event"


_CAMPAIGN = Type(kind="object", fields={"tc": ANY, "tc_run_id": ANY, "budget": DOUBLE}, more=True)

_WRITTEN = {field for action in ACTIONS.values() for fact, field in action.writes if fact == "event"}
SET_FIELDS: tuple[str, ...] = tuple(name for name, known in EVENT_FIELDS.items() if known.values and name in _WRITTEN)
"""The fields of an event that an action sets."""
_WHO = Type(kind="string", values=("worker", "external", "unseen"))
_SET_BY = Type(
    kind="object",
    only=True,
    fields={
        **dict.fromkeys(SET_FIELDS, _WHO),
        **{f"{field}_rules": Type(kind="list", items=STRING) for field in SET_FIELDS},
    },
)

_LAST_WRITE = Type(
    kind="object",
    only=True,
    fields={
        "at": TIMESTAMP,
        "action": Type(kind="string", values=tuple(name for name, action in ACTIONS.items() if action.target)),
        "before": ANY,
        "wanted": ANY,
    },
)

_OPEN = "the form of the answer is not documented"
CAMPAIGNS: Final = "campaign_recommendations"
DEMAND: Final = "demand_prediction"
OF_CAMPAIGNS: Final = frozenset({"4.4", "4.5"})
"""The sections of the document whose rows belong to the campaign product."""


def _read(name: str, about: str, example: str, **more: Any) -> FactName:  # noqa: ANN401  # fields of FactName
    """A fact that is read, as its row of the document has it: of one event where its path or query names one."""
    row, fields = FACT_ROWS[name], RECORDS.get(name) or LISTS.get(name)
    record = of_record(fields) if fields is not None else ANY
    fact = FactName(
        name=name,
        level="event" if "{eid}" in row.path or "event_id" in row.query else "partner",
        type=Type(kind="list", items=record) if name in LISTS else record,
        about=about,
        get=f"GET {row.path}",
        section=row.section,
        takes=tuple(one for one in row.query if one != "event_id"),
        product=CAMPAIGNS if row.section in OF_CAMPAIGNS else "",
        example=example,
    )
    return replace(fact, **more)


_FACTS: tuple[FactName, ...] = (
    _read(
        "event",
        "the event's record; read with the list of events, so it costs nothing extra",
        "event.status == 'cancelled'",
        get="GET /events/",
    ),
    _read("partner", "the partner's record", "partner.currency == 'EUR'"),
    _read("setup", "the event's setup process; setup.state is NONE without one", "setup.state == 'DRAFT'"),
    _read(
        "suggested_tcs",
        "recommended taste clusters for a budget and goal; unknown while the list is empty (not computed yet)",
        "suggested_tcs.exists(t, t.tc == 'rock')",
    ),
    _read(
        "clusters",
        "the event's taste clusters; unknown while the list is empty (not computed yet)",
        "clusters.exists(c, c.metric_pred > 4.0)",
    ),
    _read(
        "expected_value",
        "expected value of the campaigns for a budget and goal, as a number",
        "expected_value > 1000.0",
        type=DOUBLE,
    ),
    _read(
        "defaults",
        "the event's default campaign parameters; budget and goal of other facts default to these",
        "defaults.total_budget * 1.2",
    ),
    _read("budget_range", "lowest and highest budget for a runtime", "budget_range.lower_limit <= 500.0"),
    _read(
        "campaigns",
        "the event's campaigns; where their tc and tc_run_id stand is the assumption campaigns.items",
        "size(campaigns) > 0",
        type=Type(kind="list", items=_CAMPAIGN),
    ),
    _read(
        "permissions",
        "the user's permissions for the partner; the form of an item is not documented",
        "'campaigns' in permissions",
        type=LIST,
    ),
    _read(
        "features",
        "the partner's feature flags; the form of an item is not documented",
        "'boost' in features",
        type=LIST,
    ),
    _read(
        "adplatform",
        "whether the ad platform is connected; where the answer says so is the assumption adplatform.connected",
        "adplatform.connected",
        type=Type(kind="object", fields={"connected": BOOL}),
        product="",
    ),
    FactName(
        name="now",
        level="local",
        type=TIMESTAMP,
        about="the moment of this look, UTC",
        example="event.start_date_time - now < duration('7d')",
    ),
    FactName(
        name="events",
        level="made",
        type=Type(kind="list", items=of_record(EVENT_FIELDS)),
        about="all of the partner's events as they were listed last; unknown until the list was read whole once",
        example="events.filter(e, e.city == event.city && e.status == 'active').size() > 3",
    ),
    FactName(
        name="set_by",
        level="made",
        type=_SET_BY,
        about="who set the value that a field of the event has: worker, external, or unseen (no poll saw it change); "
        "and by which rules",
        example="set_by.client_campaign_status == 'external'",
    ),
    FactName(
        name="write",
        level="made",
        type=_LAST_WRITE,
        about="in a rule with after: that rule's last confirmed write on the event that is not undone: when it was "
        "confirmed (at), its action, and what its target was before and shall be (before, wanted)",
        example="now - write.at > duration('2d')",
    ),
    FactName(
        name="previous",
        level="local",
        type=Type(kind="object"),
        about="in a rule with on_change: the remembered values of the watched facts, by the fact's name",
        example="size(previous.suggested_tcs) > 2",
    ),
    FactName(
        name="added",
        level="local",
        type=Type(kind="list", items=ANY),
        about="in a rule with on_change: the items that the watched list has gained",
        example="size(added) > 0",
    ),
    FactName(
        name="removed",
        level="local",
        type=Type(kind="list", items=ANY),
        about="in a rule with on_change: the items that the watched list has lost",
        example="size(removed) == 0",
    ),
    FactName(
        name="each",
        level="local",
        type=ANY,
        about="in an action with each: the item of the list that the write is for",
        example="each.budget * 1.2",
    ),
    _read("statistics", f"the event's statistics; {_OPEN}", "statistics.tickets > 100.0"),
    _read(
        "tenant_statistics",
        f"statistics over all of the partner's events; {_OPEN}",
        "tenant_statistics.active > 10.0",
        product=DEMAND,
    ),
    _read(
        "lookout_prediction",
        f"the demand prediction curve; {_OPEN}",
        "size(lookout_prediction.curve) > 0",
        product=DEMAND,
    ),
    _read(
        "lookout_prediction_benchmark",
        "the prediction beside its benchmark; the service gives fractions or percents, here they are fractions always "
        "(assumptions lookout_benchmark.at and lookout_benchmark.unit)",
        "lookout_prediction_benchmark.value < lookout_prediction_benchmark.benchmark",
        product=DEMAND,
    ),
    _read(
        "daily_revenue_summary",
        f"revenue and tickets by day, in the partner's currency; {_OPEN}",
        "daily_revenue_summary.days.exists(d, d.tickets > 0.0)",
        product=DEMAND,
    ),
    _read("tickets", f"the event's ticket categories; {_OPEN}", "tickets.exists(t, t.available > 0.0)", product=DEMAND),
    _read(
        "series",
        f"sibling events; their ids alone are in event.campaign_event_series, at no cost; {_OPEN}",
        "size(series) > 1",
    ),
    _read(
        "available_events_for_series",
        f"events that can join the series; {_OPEN}",
        "size(available_events_for_series) > 0",
    ),
    _read(
        "flagged_events",
        f"the partner's flagged events; event.frontend_status says it of each, at no cost; {_OPEN}",
        "size(flagged_events) < 10",
    ),
    _read("venues", f"the partner's venues; {_OPEN}", "size(venues) > 1"),
    _read(
        "call_to_action",
        "the calls to action that a goal allows; the form of an item is not documented",
        "'BUY_TICKETS' in call_to_action",
        level="event",
        type=LIST,
    ),
    _read(
        "suggested_radius",
        "radius suggestions around a place",
        "suggested_radius.exists(r, r.suggested_radius > 20.0)",
        level="event",
    ),
    _read("event_types", f"event types of the ad platform; {_OPEN}", "'Purchase' in event_types"),
    _read("campaign_results", f"results of the event's campaigns; {_OPEN}", "size(campaign_results.results) > 0"),
    _read("adplatform_insights", f"impressions, clicks and ad spend; {_OPEN}", "adplatform_insights.spend > 100.0"),
    _read(
        "attribution_model",
        f"the event's attribution model; {_OPEN}, and the path may change",
        "attribution_model.attribution_model == 'last_click'",
    ),
)

LOCAL: frozenset[str] = frozenset(fact.name for fact in _FACTS if fact.level == "local")
MADE: frozenset[str] = frozenset(fact.name for fact in _FACTS if fact.level == "made")
"""Facts that are made of what the worker keeps: nothing is read for them."""
ITEM = "each"
"""The key of an action that makes one write for each item of a list, and the item in its values."""
CHANGE: frozenset[str] = frozenset({"previous", "added", "removed"})
"""Names that exist only where ``on_change`` does."""
BUILT_IN: Mapping[str, FactName] = {fact.name: fact for fact in _FACTS}

ADDED = "added"
"""The list that ``each`` takes the items of that the watched list has gained."""


FROM_DEFAULTS: frozenset[str] = frozenset({"budget", "goal", "lead_form_id"})
"""Parameters that come from the event's default campaign parameters where a rule does not give them."""
WITHOUT_DEFAULT: frozenset[str] = frozenset({"has_pixel"})
"""Parameters that a rule must give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """The names of one installation: the built-in facts and the config's own. ``assumed``: parameters that its
    assumptions name, by action. ``channels``: the names under ``notify``; None where no config says.
    ``ingest``: whether the address of the event-ingest service is known. ``cluster_budget``: what the service is
    assumed to call a cluster's budget."""

    facts: Mapping[str, FactName] = field(default_factory=lambda: BUILT_IN)
    assumed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    channels: frozenset[str] | None = None
    ingest: bool = True
    cluster_budget: str = "budget"

    @property
    def shared(self) -> frozenset[str]:
        """Facts of the whole partner."""
        return frozenset(name for name, fact in self.facts.items() if fact.level == "partner")

    @property
    def every(self) -> Mapping[str, timedelta]:
        """How soon at the soonest facts are asked again, where the config says so."""
        return {name: fact.every for name, fact in self.facts.items() if fact.every is not None}

    def watchable(self) -> frozenset[str]:
        """Facts that ``on_change`` can watch: all that are read."""
        return frozenset(name for name, fact in self.facts.items() if fact.level not in ("local", "made"))


BUILT_IN_REGISTRY = Registry()
_OF_KIND: Mapping[FactKind, Type] = {
    "number": DOUBLE,
    "text": STRING,
    "bool": BOOL,
    "list": LIST,
    "record": Type(kind="object"),
}


def with_custom(
    custom: Mapping[str, CustomFact],
    assumptions: Mapping[str, Json] | None = None,
    channels: frozenset[str] | None = None,
) -> Registry:
    """The registry with a config's own facts, with the parameters to which its assumptions give a value, and with the
    names of those who take messages. What the service answers to a custom fact is not documented: it is of the type
    that the config says, or of any."""
    own = {
        name: FactName(
            name=name,
            level="event" if "{eid}" in fact.get else "partner",
            type=_OF_KIND[fact.type] if fact.type is not None else ANY,
            every=fact.every,
            about=f"a fact of the config: {fact.value} of the answer",
            get=f"GET {fact.get}",
            example=f"{name} != null",
        )
        for name, fact in custom.items()
    }
    given = {
        key: [name for name, text in query.items() if "{" not in str(text)]
        for key, query in (assumptions or {}).items()
        if key.endswith(".query") and isinstance(query, dict)
    }
    budget = str((assumptions or {}).get("cluster.budget", "budget"))
    assumed = {
        name: frozenset(one for key in row.assumptions for one in given.get(key, ())) - {budget}
        for name, row in ACTIONS.items()
    }
    return Registry(facts={**BUILT_IN, **own}, assumed=assumed, channels=channels, cluster_budget=budget)
