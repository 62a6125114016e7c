"""Facts: what one read said, when it was asked for, and what could not be known.

A fact is `Known` or `Unknown`, never half of both and never a default: a failed, malformed or missing answer is a value
of its own so that nothing can mistake it for "changed" or "cleared". What is *known to be absent* is a value (an event
without a draft has the setup ``{"state": "NONE"}``).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Literal, NewType, TypeAlias, Union, overload

# Identifiers that must not be mixed up.
#
# A partner id, an event id and a rule id are all strings; giving each its own type lets the type checker find the call
# that hands one for another. They are never parsed here: what a partner id looks like is the business of sign-in.

PartnerId = NewType("PartnerId", str)
"""Public, stable id of a tenant: ``partner-id-<slug>`` or ``<operator prefix><digits>`` (API section 2.1)."""

EventId = NewType("EventId", str)
"""``eid``, stable for the life of the event, unique only within one partner (API section 2.1)."""

RuleId = NewType("RuleId", str)
WriteId = NewType("WriteId", int)
"""Number of a write in the ledger, counted from 1."""


# How a moment is spelled wherever people and programs read it, as ISO 8601 with a Z for UTC.


@overload
def spelled(at: datetime) -> str: ...
@overload
def spelled(at: None) -> None: ...
def spelled(at: datetime | None) -> str | None:
    """``2026-03-01T12:00:00Z``; None for no moment. A fraction of a second is kept as it is."""
    return None if at is None else at.isoformat().replace("+00:00", "Z")


def parse_time(text: str) -> datetime | None:
    """The moment of an ISO 8601 text, UTC where it names no zone; None where it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


Json: TypeAlias = Union[bool, int, float, str, "list[Json]", "dict[str, Json]", None]
Scalar: TypeAlias = str | int | float


def object_of(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """The object of JSON with these names, in which none stands twice: which of the two is meant is a guess."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"{twice[:80]!r} stands twice in one object")
    return found


def number_of(value: object) -> int | float | None:
    """The number that a value is; a boolean is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def parts_of(value: Json) -> Iterable[Json]:
    """What an object or an array holds; nothing of anything else."""
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def whole_of(value: object) -> int | None:
    """The whole number that a value is, also where it is spelled as a text: so some lists spell a run of clusters."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() else None
    number = number_of(value)
    return int(number) if isinstance(number, int) or (number is not None and number.is_integer()) else None


UnknownCode = Literal["unreadable", "malformed", "gone", "not_computed", "denied", "product_off", "unread"]
"""Why a fact is unknown. ``gone``: a 404 where one is not an answer; ``unread``: nobody has asked yet."""

NO_GAPS: Mapping[str, str] = MappingProxyType({})
"""Nothing is missing; one for all facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactKey:
    """A fact's name with the parameters it was asked with: other parameters are another fact.

    ``params`` is sorted by name and holds resolved values only (``(("budget", 500.0), ("goal", "ROAS"))``).
    """

    name: str
    params: tuple[tuple[str, Scalar], ...] = ()

    def __hash__(self) -> int:
        """Of the name alone, which is quick and nearly always enough: every fact of every poll is found by it."""
        return hash(self.name)

    @property
    def text(self) -> str:
        """A stable spelling, used as the key in the ledger: ``suggested_tcs?budget=500.0&goal=ROAS``."""
        if not self.params:
            return self.name
        return self.name + "?" + "&".join(f"{name}={value}" for name, value in self.params)


Place = tuple[EventId, FactKey]
"""A fact of an event."""


FactKind = Literal["number", "text", "bool", "list", "record"]
"""What the value of a fact of the config can be said to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomFact:
    """A fact of the config: what to GET, with {eid}, {partner_id} and {client_id} filled in, and the JMESPath to its
    value. ``{eid}`` in the path makes it per event. ``every``: it is asked no more often; ``type``: what its value must
    be, or it is unknown."""

    name: str
    get: str
    value: str = "@"
    every: timedelta | None = None
    type: FactKind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Where a fact came from, for the log: path and query asked, status answered, the service's request id.

    ``began`` is when its request began, in monotonic seconds: order and age are judged by it, never by ``read_at``.
    ``full``: a list as long as a page may be, of which nothing says whether there is more.
    """

    get: str
    began: float = 0.0
    status: int | None = None
    x_request_id: str | None = None
    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A well-formed answer.

    ``value`` holds JSON as the service gave it, less documented fields that were missing or ill-typed: those stand in
    ``gaps`` (field to reason), so that a condition that names one meets an error and not a wrong value.
    ``read_at`` is the moment the request *began* (UTC): what happened later may not be in it.
    """

    value: Json
    read_at: datetime
    gaps: Mapping[str, str] = field(default_factory=lambda: NO_GAPS)
    trace: Trace | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """No answer that can be used, and why, in words for an operator. ``part``: what was read of a list that is not
    whole: it shows what is there, and never what is not."""

    code: UnknownCode
    why: str
    read_at: datetime | None = None
    trace: Trace | None = field(default=None, compare=False)
    part: Json = field(default=None, compare=False)


Fact: TypeAlias = Known | Unknown

UNREAD = Unknown(code="unread", why="not read yet")


def record_of(fact: Fact | None) -> dict[str, Json]:
    """The fields of a record that is known; none of anything else."""
    return fact.value if isinstance(fact, Known) and isinstance(fact.value, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All that is known of one event at one poll. ``until``:
    when what a fact was some time ago, which stands among the facts, is next another value."""

    partner: PartnerId
    event: EventId
    facts: Mapping[FactKey, Fact]
    until: datetime | None = None

    def get(self, key: FactKey) -> Fact:
        """The fact, or `UNREAD`."""
        return self.facts.get(key, UNREAD)


# The fields that the API document names, with their types and values: one table for decoding, checking and docs.
#
# Why in the model: the client takes ill-typed documented fields out of an answer, `check` finds a misspelt field or a
# value outside its set, and the docs list them, all from here. Fields that are not in a table are passed on untouched
# and reached with ``event['name']``. Nothing here is guessed: sets of values that the document calls open are marked
# so.

FieldType = Literal["string", "integer", "number", "boolean", "timestamp", "list", "object", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One documented field. ``values`` is empty where any is allowed; ``open_set`` where the document says "others"."""

    type: FieldType
    nullable: bool = False
    values: tuple[str, ...] = ()
    open_set: bool = False
    section: str
    about: str


GOALS: tuple[str, ...] = ("UTILIZATION", "ROAS", "VISIBILITY", "LINK_CLICKS")
"""The goal enum (API section 2.5). Lower-case tickets, revenue and reach are no goals."""

EVENT_FIELDS: Mapping[str, Field] = {
    "id": Field(type="string", section="2.3", about="event id"),
    "title": Field(type="string", section="2.3", about="title as the organiser wrote it"),
    "start_date_time": Field(type="timestamp", section="2.3", about="start, UTC"),
    "city": Field(type="string", section="2.3", about="city"),
    "venue_name": Field(type="string", section="2.3", about="venue"),
    "hall_name": Field(type="string", section="2.3", about="hall within the venue"),
    "capacity": Field(type="integer", section="2.3", about="seats or admissions"),
    "category": Field(type="string", section="2.3", about="category"),
    "special_ad_category": Field(type="string", nullable=True, section="2.3", about="special ad category, or null"),
    "predicted_sales_share": Field(type="number", section="2.3", about="predicted share sold, a fraction"),
    "status": Field(
        type="string",
        values=("active", "archived", "cancelled"),
        open_set=True,
        section="3.1",
        about="backend lifecycle; values beyond the three are possible",
    ),
    "frontend_status": Field(
        type="string", values=("DEFAULT", "FLAGGED", "HIDDEN", "CANCELLED"), section="3.1", about="state shown to users"
    ),
    "campaign_status": Field(
        type="string",
        values=("RUNNING", "OPEN", "CLOSED", "IGNORED"),
        section="3.1",
        about="roll-up of the campaign product's state",
    ),
    "client_campaign_status": Field(
        type="string", values=("RUNNING", "PAUSED"), section="3.1", about="the user's pause/run toggle of the campaigns"
    ),
    "campaign_optimisation_status": Field(
        type="string", values=("ON", "OFF"), section="3.1", about="automated optimisation"
    ),
    "ad_campaign_optimisation_status": Field(
        type="string", values=("ON", "OFF"), section="3.1", about="automated optimisation of the ad campaigns"
    ),
    "campaign_event_series": Field(type="list", section="2.3", about="event ids of the series"),
    "benchmark": Field(type="object", section="2.3", about="prediction.value and .benchmark: fractions or percents"),
}

PARTNER_FIELDS: Mapping[str, Field] = {
    "id": Field(type="string", section="2.2", about="the partner's id as returned (client_id)"),
    "name": Field(type="string", section="2.2", about="name"),
    "domain": Field(type="string", section="2.2", about="domain"),
    "currency": Field(type="string", section="2.2", about="currency code"),
    "vertical": Field(type="string", section="2.2", about="vertical"),
    "demand_prediction": Field(type="boolean", section="2.2", about="forecasting product enabled"),
    "campaign_recommendations": Field(type="boolean", section="2.2", about="campaign product enabled"),
    "status": Field(type="string", section="2.2", about="status; values not shown"),
    "pricing_tier": Field(type="string", section="2.2", about="pricing tier; values not shown"),
    "campaign_pricing_model": Field(type="string", section="2.2", about="pricing model; values not shown"),
    "ner_active": Field(type="boolean", section="2.2", about="flag, meaning not shown"),
}

SETUP_FIELDS: Mapping[str, Field] = {
    "state": Field(
        type="string",
        values=("NONE", "DRAFT", "PUBLISHED"),
        section="3.1",
        about="NONE without a setup; which field of the record says so is the assumption setup.state_field",
    ),
    "goal": Field(type="string", values=GOALS, section="2.6", about="goal"),
    "total_budget": Field(type="number", section="2.6", about="budget in the partner's currency"),
}

DEFAULTS_FIELDS: Mapping[str, Field] = {
    "total_budget": Field(type="number", section="2.5", about="default budget"),
    "goal": Field(type="string", values=GOALS, section="2.5", about="default goal"),
    "tcs": Field(type="list", section="2.5", about="taste cluster names"),
    "integration_details": Field(type="list", section="2.5", about="integration details"),
    "conversion_id": Field(type="any", nullable=True, section="2.5", about="conversion id; the document gives no type"),
    "custom_event_type": Field(
        type="any", nullable=True, section="2.5", about="custom event type; the document gives no type"
    ),
    "lead_form_id": Field(type="any", nullable=True, section="2.5", about="lead form id; the document gives no type"),
}

BUDGET_RANGE_FIELDS: Mapping[str, Field] = {
    "upper_limit": Field(type="number", section="2.5", about="highest budget"),
    "lower_limit": Field(type="number", section="2.5", about="lowest budget"),
}

CLUSTER_FIELDS: Mapping[str, Field] = {
    "tc": Field(type="string", section="2.5", about="taste cluster name"),
    "label": Field(type="string", section="2.5", about="label"),
    "metric_pred": Field(type="number", section="2.5", about="0 to 5, higher buys likelier"),
    "reach_estimate": Field(type="number", section="2.5", about="reach"),
    "size_share": Field(type="number", section="2.5", about="share of the reachable audience"),
}

SUGGESTED_TC_FIELDS: Mapping[str, Field] = {
    "tc": Field(type="string", section="2.5", about="taste cluster name"),
    "tc_run_id": Field(type="integer", section="2.1", about="cluster run; comes as a string in this list"),
}

PREDICTION_TYPES: tuple[str, ...] = ("capacity", "ticket_count")
"""Modes of the two lookout_prediction paths (API section 4.2): percentage, absolute values."""

DISTANCE_UNITS: tuple[str, ...] = ("mile", "kilometer")
"""Units of the radius suggestion (API section 4.4). ``km`` is refused by the service."""

QUERY_VALUES: Mapping[str, tuple[str, ...]] = {
    "goal": GOALS,
    "type": PREDICTION_TYPES,
    "distance_unit": DISTANCE_UNITS,
    "has_pixel": ("true", "false"),
}
"""The query parameters whose values the document lists; anything else is an invalid request (API section 7)."""

RADIUS_FIELDS: Mapping[str, Field] = {
    "suggested_radius": Field(type="number", section="2.5", about="radius, in the unit that was asked for"),
    "distance_unit": Field(type="string", section="2.5", about="unit of the radius"),
    "city_id": Field(type="string", section="2.5", about="the ad platform's id of the city"),
}

PREDICTION_FIELDS: Mapping[str, Field] = {
    "value": Field(type="number", section="2.3", about="the prediction; a share is always a fraction here"),
    "benchmark": Field(type="number", section="2.3", about="what it is compared with, in the same unit"),
    "unit": Field(
        type="string",
        values=("fraction", "percent", "count"),
        section="2.3",
        about="how the service gave the two numbers; count where tickets were asked for",
    ),
}

RECORDS: Mapping[str, Mapping[str, Field]] = {
    "event": EVENT_FIELDS,
    "partner": PARTNER_FIELDS,
    "setup": SETUP_FIELDS,
    "defaults": DEFAULTS_FIELDS,
    "budget_range": BUDGET_RANGE_FIELDS,
    "lookout_prediction_benchmark": PREDICTION_FIELDS,
}
"""The facts that are records, with the fields that the document names."""
LISTS: Mapping[str, Mapping[str, Field]] = {
    "suggested_tcs": SUGGESTED_TC_FIELDS,
    "clusters": {**CLUSTER_FIELDS, "tc_run_id": SUGGESTED_TC_FIELDS["tc_run_id"]},
    "suggested_radius": RADIUS_FIELDS,
}
"""Those that are lists of records, with the fields of an item. A cluster gets the run of the answer it came in, which
is what an action on it needs."""
