"""Each fact that the worker can read: the request that asks for it, and what its answer means. Pure.

One table, from the fact's name to its row of the document, its parameters and its decoder, so that a new fact is one
row. Facts of the operator's own making go through the same door.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from urllib.parse import parse_qsl, quote

from worker.api.addresses import filled_text, path_of
from worker.api.decoding import (
    Asking,
    Decoder,
    adplatform_fact,
    benchmark_fact,
    budget_range_fact,
    campaigns_fact,
    clusters_fact,
    defaults_fact,
    event_fact,
    expected_value_fact,
    list_fact,
    open_fact,
    partner_fact,
    radius_fact,
    setup_fact,
    suggested_tcs_fact,
)
from worker.api.extent import leaf_of, lists_in, must_be_whole
from worker.api.shapes import path_objection
from worker.api.wire import Malformed, found_at
from worker.model.endpoints import endpoint
from worker.model.facts import Fact, FactKey, Json, Scalar
from worker.model.ids import EventId, PartnerId

CONFIRM = "confirm"
"""The name of a fact that no table has: what a write's own ``confirm`` reads."""
PLACEHOLDERS: frozenset[str] = frozenset({"eid", "partner_id", "client_id"})
"""What is filled in where a fact of the operator's own names it."""


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
        return self.names("eid")

    def names(self, placeholder: str) -> bool:
        """Whether a placeholder stands in it."""
        return any(f"{{{placeholder}}}" in text for text in (self.path, *(text for _, text in self.query)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A reading made concrete: what goes on the wire. ``path`` is encoded, ``query`` is not. ``params``: the fact's own
    parameters. ``shared``: nothing in it names an event, so that several events may ask the very same."""

    path: str
    query: tuple[tuple[str, str], ...]
    decode: Decoder
    params: tuple[tuple[str, Scalar], ...] = ()
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomFact:
    """A fact of the operator's own: what to GET, with {eid}, {partner_id} and {client_id} filled in, and a JMESPath
    into its answer."""

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
    readings: Mapping[str, Reading], partner: PartnerId, event: EventId | None, key: FactKey, client: str = ""
) -> Question | str:
    """The request of a fact; a text says why it has none. ``client``: the partner's internal id, for {client_id}."""
    if key.name == CONFIRM:
        return _confirmation(partner, event, dict(key.params))
    reading = readings.get(key.name)
    if reading is None:
        return f"there is no fact {key.name}"
    if reading.per_event and event is None:
        return f"{key.name} is read for one event"
    given = dict(key.params)
    if lacking := [name for name in reading.params if name not in given]:
        return f"{key.name} needs {' and '.join(lacking)}"
    asked = tuple((name, spelled(given[name])) for name in reading.params)
    names = {"eid": event or "", "partner_id": partner, "client_id": client}
    fixed = tuple((name, filled_text(text, names)) for name, text in reading.query)
    return Question(
        path=path_of(reading.path, **names),
        query=(*fixed, *asked),
        decode=reading.decode,
        params=key.params,
        shared=not reading.per_event,
    )


def _confirmation(partner: PartnerId, event: EventId | None, given: Mapping[str, Scalar]) -> Question:
    """What a rule's own ``confirm`` reads. Its answer is a fact as it is, with its status: what it says of the write is
    for the rule's condition to tell; of a part of a list it could tell nothing."""
    path, _, query = str(given["get"]).partition("?")
    names = {"eid": event or "", "partner_id": partner, "client_id": str(given.get("client_id", ""))}

    def decode(value: Json, asking: Asking) -> Fact:
        for items in lists_in(value):
            must_be_whole(leaf_of(items, value, asking.headers), "a list that confirm reads")
        return asking.known({"status": asking.trace.status, "body": value})

    return Question(
        path=path_of(written_path(path), **names),
        query=tuple((name, filled_text(text, names)) for name, text in parse_qsl(query, keep_blank_values=True)),
        decode=decode,
    )


def written_path(path: str) -> str:
    """A path as somebody wrote it, with what no address may hold spelled out; its placeholders stay."""
    return quote(path, safe="/%{}:@!$&'()*+,;=-._~")


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
    if unknown := [name for name in re.findall(r"\{([^{}]*)\}", fact.get) if name not in PLACEHOLDERS]:
        return f"nothing fills in {{{unknown[0]}}} in get"
    said = path_objection(fact.value)
    return None if said is None else f"value: {said}"


def readings_with(custom: Mapping[str, CustomFact]) -> Mapping[str, Reading]:
    """All facts by name: the documented ones and the operator's own."""
    return MappingProxyType({**READINGS, **{name: _custom(fact) for name, fact in custom.items()}})


def _custom(fact: CustomFact) -> Reading:
    path, _, query = fact.get.partition("?")

    def decode(value: Json, asking: Asking) -> Fact:
        found = found_at(fact.value, value)
        if found is None:
            raise Malformed(f"{fact.value} finds nothing, or null, in the answer")
        return asking.known(found)

    return Reading(
        path=written_path(path),
        query=tuple(parse_qsl(query, keep_blank_values=True)),
        decode=decode,
    )


def _documented(path: str, decode: Decoder = open_fact, *, without: tuple[str, ...] = (), **fixed: str) -> Reading:
    """A row of the document, asked with all its parameters but those that are optional or always the same."""
    params = tuple(name for name in endpoint("GET", path).query if name not in fixed and name not in without)
    return Reading(path=path, query=tuple(fixed.items()), params=params, decode=decode)


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
        "statistics": _documented("/events/{eid}/statistics"),
        "tenant_statistics": _documented("/events/statistics"),
        "lookout_prediction": _documented("/events/{eid}/lookout_prediction"),
        "lookout_prediction_benchmark": _documented("/events/{eid}/lookout_prediction_benchmark", benchmark_fact),
        "daily_revenue_summary": _documented("/daily_revenue_summary/", event_id="{eid}"),
        "tickets": _documented("/events/{eid}/tickets"),
        "series": _documented("/events/{eid}/series"),
        "available_events_for_series": _documented("/events/{eid}/available_events_for_series"),
        "flagged_events": _documented("/events/flagged/"),
        "venues": _documented("/events/venues", without=("city", "venue")),
        "call_to_action": _documented("/setup_processes/call_to_action/", list_fact),
        "suggested_radius": _documented("/adplatform_targeting/suggested_radius", radius_fact),
        "event_types": _documented("/setup_processes/event_types"),
        "campaign_results": _documented("/integrations/adplatform/events/{eid}/campaign_results"),
        "adplatform_insights": _documented("/integrations/adplatform/events/{eid}/adplatform_insights"),
        "attribution_model": _documented("/events/{eid}/attribution_model"),
    }
)
