"""Each fact that the worker can read: the request that asks for it, and what its answer means. Pure.

One table, from the fact's name to its row of the document, its parameters and its decoder, so that a new fact is one
row. A decoder gives `Known` or `Unknown` for any answer whatsoever and never raises: what is not understood is unknown,
with the reason in words. Facts of the operator's own making go through the same door.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from urllib.parse import parse_qsl, quote

from worker.api.addresses import filled, path_of
from worker.api.assumptions import Assumptions
from worker.api.endpoints import endpoint
from worker.api.shapes import path_objection
from worker.api.wire import Malformed, decimal_from, event_from, found_at, record_from, run_id_from
from worker.model.document import (
    BUDGET_RANGE_FIELDS,
    CLUSTER_FIELDS,
    DEFAULTS_FIELDS,
    PARTNER_FIELDS,
    SETUP_FIELDS,
)
from worker.model.facts import Fact, FactKey, Json, Known, Scalar, Trace, Unknown
from worker.model.ids import EventId, PartnerId

NO_SETUP: Mapping[str, Json] = MappingProxyType({"state": "NONE"})
"""What is known of an event without a setup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What a decoder knows beside the answer: for which event, when, and under which assumptions."""

    event: EventId | None
    read_at: datetime
    trace: Trace
    assumptions: Assumptions

    def known(self, value: Json, gaps: Mapping[str, str] | None = None) -> Known:
        """A fact of this answer."""
        if gaps:
            return Known(value=value, read_at=self.read_at, gaps=gaps, trace=self.trace)
        return Known(value=value, read_at=self.read_at, trace=self.trace)

    def unknown(self, error: Malformed) -> Unknown:
        """No fact: the answer is not what the document says."""
        return Unknown(code="malformed", why=str(error), read_at=self.read_at, trace=self.trace)

    def not_computed(self, what: str) -> Unknown:
        """The service has not finished: an empty list is no value (API section 4.4)."""
        return Unknown(code="not_computed", why=f"{what} is empty", read_at=self.read_at, trace=self.trace)


Decoder = Callable[[Json, Asking], Fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One fact: its path, its query parameters and its decoder. ``per_event``: whether the path names an event."""

    path: str
    query: tuple[tuple[str, str], ...] = ()
    params: tuple[str, ...] = ()
    decode: Decoder

    @property
    def per_event(self) -> bool:
        """Whether it takes an event to ask."""
        return "{eid}" in self.path or any("{eid}" in text for _, text in self.query)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A reading made concrete: what goes on the wire. ``path`` is encoded, ``query`` is not."""

    path: str
    query: tuple[tuple[str, str], ...]
    decode: Decoder


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomFact:
    """A fact of the operator's own: what to GET, with {eid} and {partner_id} filled in, and a JMESPath into it."""

    name: str
    get: str
    value: str


def decoded(question: Question, value: Json, asking: Asking) -> Fact:
    """What an answer says. Never raises."""
    try:
        return question.decode(value, asking)
    except Malformed as error:
        return asking.unknown(error)


def question_for(
    readings: Mapping[str, Reading], partner: PartnerId, event: EventId | None, key: FactKey
) -> Question | str:
    """The request of a fact; a text says why it has none."""
    reading = readings.get(key.name)
    if reading is None:
        return f"there is no fact {key.name}"
    if reading.per_event and event is None:
        return f"{key.name} is read for one event"
    given = dict(key.params)
    if lacking := [name for name in reading.params if name not in given]:
        return f"{key.name} needs {' and '.join(lacking)}"
    asked = tuple((name, spelled(given[name])) for name in reading.params)
    fixed = filled(dict(reading.query), {"eid": event or "", "partner_id": partner})
    path = path_of(reading.path, eid=event or "", partner_id=partner)
    return Question(path=path, query=(*fixed, *asked), decode=reading.decode)


def spelled(value: Scalar) -> str:
    """A parameter as it goes into a query: 500.0 as 500, and no exponents."""
    if isinstance(value, str):
        return value
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def custom_objection(fact: CustomFact) -> str | None:
    """What is wrong with a fact of the config; None where nothing is."""
    if not fact.get.startswith("/"):
        return "get is a path of the service that begins with /"
    if unknown := [name for name in re.findall(r"\{([^{}]*)\}", fact.get) if name not in ("eid", "partner_id")]:
        return f"nothing fills in {{{unknown[0]}}} in get"
    said = path_objection(fact.value)
    return None if said is None else f"value: {said}"


def readings_with(custom: Mapping[str, CustomFact]) -> Mapping[str, Reading]:
    """All facts by name: the documented ones and the operator's own."""
    return MappingProxyType({**READINGS, **{name: _custom(fact) for name, fact in custom.items()}})


def event_fact(value: Json, asking: Asking) -> Fact:
    eid, record = event_from(value)
    if asking.event is not None and eid != asking.event:
        raise Malformed(f"asked for event {asking.event}, and event {eid} answered")
    return asking.known(record.value, record.gaps)


def partner_fact(value: Json, asking: Asking) -> Fact:
    """The partner's record. Its id may be a number (API section 2.1, client_id); it is kept as a text."""
    number = run_id_from(value.get("id")) if isinstance(value, dict) else None
    if isinstance(value, dict) and number is not None:
        value = {**value, "id": str(value["id"] if isinstance(value["id"], str) else number)}
    record = record_from(value, PARTNER_FIELDS, "the partner")
    return asking.known(record.value, record.gaps)


def setup_fact(value: Json, asking: Asking) -> Fact:
    """The setup with its ``state`` in the document's words; a 404 never comes here."""
    if not isinstance(value, dict):
        raise Malformed("the setup is not an object")
    name = asking.assumptions.text("setup.state_field")
    state, fault = _setup_state(value.get(name), name, asking.assumptions)
    record = record_from({**value, "state": state}, SETUP_FIELDS, "the setup")
    if fault is None:
        return asking.known(record.value, record.gaps)
    kept = {field: part for field, part in record.value.items() if field != "state"}
    return asking.known(kept, {**record.gaps, "state": fault})


def clusters_fact(value: Json, asking: Asking) -> Fact:
    """The clusters, each with the run of the answer. Gaps are named by cluster, as ``clusters[0].label``."""
    if not isinstance(value, dict) or not isinstance(value.get("clusters"), list):
        raise Malformed("clusters is not an array")
    found = value["clusters"]
    if not found:
        return asking.not_computed("clusters")
    run = run_id_from(value.get("tc_run_id"))
    if run is None:
        raise Malformed("tc_run_id is not an integer")
    clusters: list[Json] = []
    gaps: dict[str, str] = {}
    for number, item in enumerate(found if isinstance(found, list) else []):
        record = record_from(item, CLUSTER_FIELDS, f"clusters[{number}]")
        if not record.value.get("tc"):
            raise Malformed(f"clusters[{number}] has no tc")
        clusters.append({**record.value, "tc_run_id": run})
        gaps |= {f"clusters[{number}].{field}": why for field, why in record.gaps.items()}
    return asking.known(clusters, gaps)


def suggested_tcs_fact(value: Json, asking: Asking) -> Fact:
    if not isinstance(value, list):
        raise Malformed("the suggested clusters are not an array")
    if not value:
        return asking.not_computed("the list of suggested clusters")
    return asking.known([_campaign_name(item, f"item {number}") for number, item in enumerate(value, start=1)])


def campaigns_fact(value: Json, asking: Asking) -> Fact:
    """The event's campaigns, each with its tc and tc_run_id; none is a value."""
    found = found_at(asking.assumptions.text("campaigns.items"), value)
    if not isinstance(found, list):
        raise Malformed("the campaigns are not an array where the assumption campaigns.items looks for them")
    campaigns: list[Json] = []
    for number, item in enumerate(found, start=1):
        name = _campaign_name(item, f"campaign {number}")
        campaigns.append({**(item if isinstance(item, dict) else {}), **name})
    return asking.known(campaigns)


def expected_value_fact(value: Json, asking: Asking) -> Fact:
    number = decimal_from(value.get("expected_value")) if isinstance(value, dict) else None
    if number is None:
        raise Malformed("expected_value is not a number in a text")
    return asking.known(number)


def defaults_fact(value: Json, asking: Asking) -> Fact:
    record = record_from(value, DEFAULTS_FIELDS, "the default parameters")
    return asking.known(record.value, record.gaps)


def budget_range_fact(value: Json, asking: Asking) -> Fact:
    record = record_from(value, BUDGET_RANGE_FIELDS, "the budget range")
    return asking.known(record.value, record.gaps)


def list_fact(value: Json, asking: Asking) -> Fact:
    """Permissions and features: arrays whose items the document does not show (API section 2.7)."""
    if not isinstance(value, list):
        raise Malformed("the answer is not an array")
    return asking.known(value)


def adplatform_fact(value: Json, asking: Asking) -> Fact:
    connected = found_at(asking.assumptions.text("adplatform.connected"), value)
    if not isinstance(connected, bool):
        raise Malformed("the assumption adplatform.connected does not lead to true or false in the answer")
    return asking.known({"connected": connected})


def setup_without_record(campaigns: Fact, absent: Known) -> Fact:
    """A setup that answered 404, where a published one does so too: its campaigns tell (``setup.after_publish``)."""
    if isinstance(campaigns, Unknown):
        why = f"the setup answers 404, and its campaigns, which would tell, are unknown: {campaigns.why}"
        return replace(campaigns, why=why, read_at=absent.read_at, trace=absent.trace)
    return replace(absent, value={"state": "PUBLISHED"}) if campaigns.value else absent


def _setup_state(word: Json, name: str, assumptions: Assumptions) -> tuple[str, str | None]:
    if isinstance(word, str) and word in assumptions.words("setup.draft"):
        return "DRAFT", None
    if isinstance(word, str) and word in assumptions.words("setup.published"):
        return "PUBLISHED", None
    said = "is missing" if word is None else f"is {word!r}"
    return "", f"the setup's field {name} {said}; see setup.state_field, setup.draft and setup.published"


def _campaign_name(item: Json, what: str) -> dict[str, Json]:
    if not isinstance(item, dict):
        raise Malformed(f"{what} is not an object")
    tc, run = item.get("tc"), run_id_from(item.get("tc_run_id"))
    if not isinstance(tc, str) or not tc or run is None:
        raise Malformed(f"{what} has no usable tc and tc_run_id")
    return {"tc": tc, "tc_run_id": run}


def _custom(fact: CustomFact) -> Reading:
    path, _, query = fact.get.partition("?")

    def decode(value: Json, asking: Asking) -> Fact:
        found = found_at(fact.value, value)
        if found is None:
            raise Malformed(f"{fact.value} finds nothing, or null, in the answer")
        return asking.known(found)

    return Reading(
        path=quote(path, safe="/%{}:@!$&'()*+,;=-._~"),
        query=tuple(parse_qsl(query, keep_blank_values=True)),
        decode=decode,
    )


def _documented(path: str, decode: Decoder) -> Reading:
    return Reading(path=path, params=endpoint("GET", path).query, decode=decode)


READINGS: Mapping[str, Reading] = MappingProxyType(
    {
        "event": _documented("/events/{eid}", event_fact),
        "partner": _documented("/partners/", partner_fact),
        "setup": _documented("/setup_processes/{eid}", setup_fact),
        "suggested_tcs": _documented("/events/{eid}/suggested_tcs", suggested_tcs_fact),
        "clusters": _documented("/events/{eid}/clusters", clusters_fact),
        "expected_value": _documented("/events/{eid}/campaigns_expected_value", expected_value_fact),
        "defaults": _documented("/events/{eid}/default_campaigns_parameters", defaults_fact),
        "budget_range": _documented("/events/{eid}/budget_min_max", budget_range_fact),
        "campaigns": _documented("/events/{eid}/campaigns", campaigns_fact),
        "permissions": _documented("/permissions", list_fact),
        "features": _documented("/features", list_fact),
        "adplatform": _documented("/integrations/connect/adplatform/status", adplatform_fact),
    }
)
