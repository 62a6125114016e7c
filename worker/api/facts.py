"""Each fact that the worker can read: the request that asks for it, and what its answer means. Pure.

One table, from the fact's name to its row of the document, its parameters and its decoder, so that a new fact is one
row. Facts of the operator's own making go through the same door. A decoder gives the fact's value and gaps for an
answer, or raises `NoValue`, which makes the fact unknown, with the reason in words. None of them asks for anything.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import parse_qsl

from worker.api.answers import (
    SHOWN_MAX,
    Gaps,
    Malformed,
    NoValue,
    decimal_from,
    event_from,
    found_at,
    number_from,
    record_from,
    run_id_from,
    usable_name,
)
from worker.api.assumptions import Assumptions
from worker.api.exchanges import ReadResponse
from worker.api.listing import Leaf, full, leaf_of, lists_in, must_be_whole
from worker.api.requests import filled_text, path_of, spelled, written_path
from worker.model.endpoints import FACT_ROWS, Endpoint
from worker.model.facts import (
    BUDGET_RANGE_FIELDS,
    CLUSTER_FIELDS,
    DEFAULTS_FIELDS,
    NO_GAPS,
    PARTNER_FIELDS,
    PREDICTION_FIELDS,
    RADIUS_FIELDS,
    SETUP_FIELDS,
    CustomFact,
    EventId,
    Fact,
    FactKey,
    FactKind,
    Field,
    Json,
    Known,
    PartnerId,
    Scalar,
    Unknown,
)

CONFIRM = "confirm"
"""The name of a fact that no table has: what a write's own ``confirm`` reads."""
SURELY_PERCENT = 2.0
"""No event sells twice its capacity, so a share from here on is a percentage."""
SHARES = ("value", "benchmark")
NO_SETUP: Mapping[str, Json] = MappingProxyType({"state": "NONE"})
"""What is known of an event without a setup."""


_KINDS: Mapping[type, FactKind] = {bool: "bool", int: "number", float: "number", str: "text", list: "list"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FactAnswer:
    """An answer with its JSON, and what it was asked for."""

    reply: ReadResponse
    content: Json
    event: EventId | None
    params: Mapping[str, Scalar]
    assumptions: Assumptions

    def whole_list(self, items: list[Json], what: str) -> list[Json]:
        """These items of it. Raises `Malformed` where they are a part of what it is to tell."""
        must_be_whole(leaf_of(items, self.content, self.reply.headers), what)
        return items


Decoder: TypeAlias = Callable[[FactAnswer], tuple[Json, Gaps]]
"""Gives what an answer says, and the fields that it lacks or says wrongly. Raises `NoValue`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactSource:
    """Where a fact is read: its path, its query, the parameters that a rule gives, and its decoder."""

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
class FactRequest:
    """One fact's request. ``path`` is encoded, ``query`` is not. ``shared``: nothing in it names an event, so that
    several events may ask the very same."""

    path: str
    query: tuple[tuple[str, str], ...]
    decode: Decoder
    shared: bool = False


def request_for_fact(
    sources: Mapping[str, FactSource], partner: PartnerId, event: EventId | None, key: FactKey, client: str = ""
) -> FactRequest | str:
    """The request of a fact; a text says why it has none. ``client``: the partner's internal id, for {client_id}."""
    given = dict(key.params)
    if key.name == CONFIRM:
        path, query = _path_and_query(str(given["get"]))
        source = FactSource(path=path, query=query, decode=_confirmation)
        client = str(given.get("client_id", ""))
    elif key.name not in sources:
        return f"there is no fact {key.name}"
    else:
        source = sources[key.name]
    if source.per_event and event is None:
        return f"{key.name} is read for one event"
    if lacking := [name for name in source.params if name not in given]:
        return f"{key.name} needs {' and '.join(lacking)}"
    names = {"eid": event or "", "partner_id": partner, "client_id": client}
    fixed = tuple((name, filled_text(text, names)) for name, text in source.query)
    asked = tuple((name, spelled(given[name])) for name in source.params)
    shared = not source.per_event and key.name != CONFIRM
    return FactRequest(path=path_of(source.path, **names), query=(*fixed, *asked), decode=source.decode, shared=shared)


def sources_with(own: Mapping[str, CustomFact]) -> Mapping[str, FactSource]:
    """All facts by name: the documented ones and the operator's own."""
    return MappingProxyType({**FACT_SOURCES, **{name: _own_source(fact) for name, fact in own.items()}})


def _own_source(fact: CustomFact) -> FactSource:
    path, query = _path_and_query(fact.get)

    def decode(answer: FactAnswer) -> tuple[Json, Gaps]:
        found = found_at(fact.value, answer.content)
        if found is None:
            raise Malformed(f"{fact.value} finds nothing, or null, in the answer")
        if fact.type not in (None, kind := _KINDS.get(type(found), "record")):
            raise Malformed(f"{fact.value} finds a {kind} in the answer, and the config says {fact.type}")
        return found, NO_GAPS

    return FactSource(path=path, query=query, decode=decode)


def _path_and_query(get: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    path, _, query = get.partition("?")
    return written_path(path), tuple(parse_qsl(query, keep_blank_values=True))


def _confirmation(answer: FactAnswer) -> tuple[Json, Gaps]:
    """What a rule's own ``confirm`` reads, as it is, with its status: what it says of the write is for the rule's
    condition to tell; of a part of a list it could tell nothing. ``full``: one may have been cut off in silence."""
    leaves = [leaf_of(items, answer.content, answer.reply.headers) for items in lists_in(answer.content)]
    for leaf in leaves:
        must_be_whole(leaf, "a list that confirm reads")
    cut = any(map(full, leaves))
    return {"status": answer.reply.status, "body": answer.content, **({"full": True} if cut else {})}, NO_GAPS


def _event(answer: FactAnswer) -> tuple[Json, Gaps]:
    eid, record = event_from(answer.content)
    if answer.event is not None and eid != answer.event:
        raise Malformed(f"asked for event {answer.event}, and event {eid} answered")
    return record


def _partner(answer: FactAnswer) -> tuple[Json, Gaps]:
    """The partner's record. Its id may be a number (API section 2.1, client_id); it is kept as a text."""
    value = answer.content
    number = run_id_from(value.get("id")) if isinstance(value, dict) else None
    if isinstance(value, dict) and number is not None:
        value = {**value, "id": str(value["id"] if isinstance(value["id"], str) else number)}
    return record_from(value, PARTNER_FIELDS, "the partner")


def _setup(answer: FactAnswer) -> tuple[Json, Gaps]:
    """The setup with its ``state`` in the document's words; a 404 never comes here. Its fields are not shown (API
    section 4.5); where one says whose it is, and that is another event than was asked for, nothing is known."""
    value, assumptions = answer.content, answer.assumptions
    if not isinstance(value, dict):
        raise Malformed("the setup is not an object")
    whose = value.get("eid")
    if whose is not None and str(whose) != answer.event:
        raise Malformed(f"asked for the setup of event {answer.event}, and that of {whose!r:.{SHOWN_MAX}} answered")
    name = assumptions.text("setup.state_field")
    word = value.get(name)
    for key, state in (("setup.draft", "DRAFT"), ("setup.published", "PUBLISHED")):
        if word in assumptions.words(key):
            return record_from({**value, "state": state}, SETUP_FIELDS, "the setup")
    said = "is missing" if word is None else f"is {word!r:.{SHOWN_MAX}}"
    why = f"the setup's field {name} {said}; see setup.state_field, setup.draft and setup.published"
    record, gaps = record_from({**value, "state": None}, SETUP_FIELDS, "the setup")
    return record, {**gaps, "state": why}


def setup_without_record(campaigns: Fact, absent: Known) -> Fact:
    """A setup that answered 404, where a published one does so too: its campaigns tell (``setup.after_publish``). It is
    as old as the older answer: somebody may have asked for the campaigns before whatever the setup is read for."""
    if absent.trace is not None and campaigns.trace is not None and campaigns.trace.began < absent.trace.began:
        absent = replace(absent, trace=replace(absent.trace, began=campaigns.trace.began))
    if isinstance(campaigns, Unknown) and not campaigns.part:
        why = f"the setup answers 404, and its campaigns, which would tell, are unknown: {campaigns.why}"
        return replace(campaigns, why=why, read_at=absent.read_at, trace=absent.trace)
    there = campaigns.part if isinstance(campaigns, Unknown) else campaigns.value
    return replace(absent, value={"state": "PUBLISHED"}) if there else absent


def _clusters(answer: FactAnswer) -> tuple[Json, Gaps]:
    """The clusters, each with the run of the answer. Gaps are named by cluster, as ``clusters[0].label``."""
    value = answer.content
    found = value.get("clusters") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(found, list):
        raise Malformed("clusters is not an array")
    if not found:
        raise NoValue("clusters is empty", "not_computed")
    answer.whole_list(found, "the list of clusters")
    run = run_id_from(value.get("tc_run_id"))
    if run is None:
        raise Malformed("tc_run_id is not an integer")
    clusters: list[Json] = []
    gaps: dict[str, str] = {}
    for number, item in enumerate(found):
        record, lacking = record_from(item, CLUSTER_FIELDS, f"clusters[{number}]")
        if not usable_name(record.get("tc")):
            raise Malformed(f"clusters[{number}] has no usable tc")
        clusters.append({**record, "tc_run_id": run})
        gaps |= {f"clusters[{number}].{name}": why for name, why in lacking.items()}
    return clusters, gaps


def _suggested_tcs(answer: FactAnswer) -> tuple[Json, Gaps]:
    value = answer.content
    if not isinstance(value, list):
        raise Malformed("the suggested clusters are not an array")
    if not value:
        raise NoValue("the list of suggested clusters is empty", "not_computed")
    answer.whole_list(value, "the list of suggested clusters")
    return [_campaign_name(item, f"item {number}") for number, item in enumerate(value, start=1)], NO_GAPS


def campaigns_leaf(answer: FactAnswer) -> Leaf:
    """One answer of the list of campaigns, each with its tc and tc_run_id, and its budget under that name. Raises
    `Malformed`."""
    found = found_at(answer.assumptions.text("campaigns.items"), answer.content)
    if not isinstance(found, list):
        raise Malformed("the campaigns are not an array where the assumption campaigns.items looks for them")
    campaigns: list[Json] = []
    for number, item in enumerate(found, start=1):
        name = _campaign_name(item, f"campaign {number}")
        campaigns.append({**_with_budget(item, answer.assumptions.text("cluster.budget")), **name})
    return replace(leaf_of(found, answer.content, answer.reply.headers), items=campaigns)


def _with_budget(item: Json, own: str) -> dict[str, Json]:
    """A campaign whose budget stands under the service's ``own`` name for it: what else it calls budget is not."""
    fields = item if isinstance(item, dict) else {}
    budget = {"budget": fields[own]} if own in fields else {}
    return {name: value for name, value in fields.items() if name not in (own, "budget")} | budget


def _campaign_name(item: Json, what: str) -> dict[str, Json]:
    if not isinstance(item, dict):
        raise Malformed(f"{what} is not an object")
    tc, run = item.get("tc"), run_id_from(item.get("tc_run_id"))
    if not usable_name(tc) or run is None:
        raise Malformed(f"{what} has no usable tc and tc_run_id")
    return {"tc": tc, "tc_run_id": run}


def _expected_value(answer: FactAnswer) -> tuple[Json, Gaps]:
    number = decimal_from(answer.content.get("expected_value")) if isinstance(answer.content, dict) else None
    if number is None:
        raise Malformed("expected_value is not a number in a text")
    return number, NO_GAPS


def _record(fields: Mapping[str, Field], what: str) -> Decoder:
    return lambda answer: record_from(answer.content, fields, what)


def _array(answer: FactAnswer) -> tuple[Json, Gaps]:
    """Permissions, features and calls to action: arrays whose items the document does not show (API section 2.7)."""
    if not isinstance(answer.content, list):
        raise Malformed("the answer is not an array")
    return answer.whole_list(answer.content, "the array"), NO_GAPS


def _adplatform(answer: FactAnswer) -> tuple[Json, Gaps]:
    connected = found_at(answer.assumptions.text("adplatform.connected"), answer.content)
    if not isinstance(connected, bool):
        raise Malformed("the assumption adplatform.connected does not lead to true or false in the answer")
    return {"connected": connected}, NO_GAPS


def _as_it_came(answer: FactAnswer) -> tuple[Json, Gaps]:
    """An answer whose form the document does not show. Null says nothing."""
    if answer.content is None:
        raise Malformed("the answer is null")
    return answer.content, NO_GAPS


def _suggested_radius(answer: FactAnswer) -> tuple[Json, Gaps]:
    """Radius suggestions (API section 2.5). Gaps are named by suggestion, as ``[0].city_id``."""
    if not isinstance(answer.content, list):
        raise Malformed("the suggestions are not an array")
    numbered = enumerate(answer.content, start=1)
    records = [record_from(item, RADIUS_FIELDS, f"suggestion {number}") for number, item in numbered]
    gaps = {f"[{n}].{name}": why for n, (_, lacking) in enumerate(records) for name, why in lacking.items()}
    return [record for record, _ in records], gaps


def _benchmark(answer: FactAnswer) -> tuple[Json, Gaps]:
    """A prediction beside its benchmark, as fractions. Which unit the service used must be told from the two numbers
    (API section 2.3): with ``lookout_benchmark.unit: auto``, both up to 1 are fractions, one from 2 on makes percents,
    and what lies between is not told apart, so both are unknown."""
    found = found_at(answer.assumptions.text("lookout_benchmark.at"), answer.content)
    if not isinstance(found, dict):
        raise Malformed("the assumption lookout_benchmark.at does not lead to a record in the answer")
    numbers = {name: number for name in SHARES if (number := number_from(found.get(name))) is not None}
    largest = max(map(abs, numbers.values()), default=0.0)
    unit = answer.assumptions.text("lookout_benchmark.unit")
    if answer.params.get("type") == "ticket_count":
        unit = "count"
    elif unit == "auto" and 1.0 < largest < SURELY_PERCENT:
        why = f"{largest:g} may be a fraction or a percentage; see the assumption lookout_benchmark.unit"
        kept = {name: part for name, part in found.items() if name not in PREDICTION_FIELDS}
        return kept, dict.fromkeys(PREDICTION_FIELDS, why)
    elif unit == "auto":
        unit = "fraction" if largest <= 1.0 else "percent"
    whole = 100.0 if unit == "percent" else 1.0
    shares = {name: number / whole for name, number in numbers.items()}
    return record_from({**found, **shares, "unit": unit}, PREDICTION_FIELDS, "the benchmark")


_DECODERS: Mapping[str, Decoder] = {
    "event": _event,
    "partner": _partner,
    "setup": _setup,
    "suggested_tcs": _suggested_tcs,
    "clusters": _clusters,
    "expected_value": _expected_value,
    "defaults": _record(DEFAULTS_FIELDS, "the default parameters"),
    "budget_range": _record(BUDGET_RANGE_FIELDS, "the budget range"),
    "permissions": _array,
    "features": _array,
    "adplatform": _adplatform,
    "lookout_prediction_benchmark": _benchmark,
    "call_to_action": _array,
    "suggested_radius": _suggested_radius,
}
"""How an answer becomes a fact, where the document shows its form."""


def _documented(row: Endpoint) -> FactSource:
    """A row of the document, asked with all its parameters: that of the event is filled in, a rule gives the others."""
    query = tuple((name, "{eid}") for name in row.query if name == "event_id")
    params = tuple(name for name in row.query if name != "event_id")
    return FactSource(path=row.path, query=query, params=params, decode=_DECODERS.get(row.fact, _as_it_came))


FACT_SOURCES: Mapping[str, FactSource] = MappingProxyType({name: _documented(row) for name, row in FACT_ROWS.items()})
