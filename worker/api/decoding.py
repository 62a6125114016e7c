"""What each answer means as a fact. Pure.

A decoder gives `Known` or `Unknown` for any answer whatsoever, or raises `Malformed`, which its caller turns into
`Unknown`: what is not understood is unknown, with the reason in words. None of them asks for anything.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from operator import is_
from types import MappingProxyType

import msgspec
from msgspec.structs import astuple

from worker.api.assumptions import Assumptions
from worker.api.wire import (
    NOTHING,
    Leaf,
    Malformed,
    cleaned,
    decimal_from,
    event_from,
    found_at,
    full,
    lacking,
    leaf_of,
    must_be_whole,
    number_from,
    parsed,
    record_from,
    run_id_from,
)
from worker.model.facts import (
    BUDGET_RANGE_FIELDS,
    CLUSTER_FIELDS,
    DEFAULTS_FIELDS,
    EVENT_FIELDS,
    PARTNER_FIELDS,
    PREDICTION_FIELDS,
    RADIUS_FIELDS,
    SETUP_FIELDS,
    EventId,
    Fact,
    Field,
    FieldType,
    Json,
    Known,
    Scalar,
    Trace,
    Unknown,
)

# Reads the pages of a list of events for the fields that somebody needs, and knows again what says nothing new.
#
# Most of what a page says is what it said before, and of what is new most stands in fields that no rule looks at. So
# an item is decoded by msgspec into a row of the needed fields, the rest of it is passed over, and the row is compared
# with the one before: where they are equal, the item is the very object that it was. Nobody has to look at that again.
# Where the needed fields change, because the rules did, everything is read anew: nothing is ever old in a field that
# counts.
#
# What is not as simple as that (a number beyond all bounds, half a character, no array of items) is read by
# `worker.api.wire`, slowly, which also says what is wrong with it.

ITEM_DEPTH = 2
"""How deep in an answer its items stand."""
_PLAIN: frozenset[FieldType] = frozenset({"string", "timestamp"})
_NUMBERS: frozenset[FieldType] = frozenset({"integer", "number"})
_NOTHING = msgspec.Raw(b"")
_anything = msgspec.json.Decoder()

Row = msgspec.Struct


class Item(msgspec.Struct):
    """What one item said: the row, and the object that was made of it. ``comparable``: an equal row says the same."""

    row: Row
    value: dict[str, Json]
    comparable: bool


class Envelope(msgspec.Struct, kw_only=True):
    """The answer around the items. Other members than these say nothing that anybody reads."""

    items: list[Row]
    total: object = None
    limit: object = None
    page: object = None


OF_PAGE = tuple(name for name in Envelope.__struct_fields__ if name != "items")
"""What a page says of itself."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Decodes pages for some fields. ``nothing``: the values of a row that has none of them."""

    names: tuple[str, ...]
    nothing: tuple[object, ...]
    kinds: tuple[FieldType | None, ...]
    decoder: "msgspec.json.Decoder[Envelope]"

    def item(self, row: Row, before: "Item | None") -> "Item":
        """What an item says. ``before``: what it said last, of which all is taken over that is still so. Raises
        `Malformed`, and msgspec's errors."""
        old = self.nothing if before is None else astuple(before.row)
        value: dict[str, Json] = {} if before is None else dict(before.value)
        kept, comparable = list(old), True
        for index, part in enumerate(astuple(row)):
            if part is old[index] or part == old[index]:
                continue
            name = self.names[index]
            if part is msgspec.UNSET or part is _NOTHING:
                del value[name]
                kept[index] = part
            elif isinstance(part, msgspec.Raw):  # equal to the last byte, or not equal
                value[name] = cleaned(_anything.decode(part), ITEM_DEPTH + 1)
                kept[index] = part.copy()
            else:
                comparable &= part is None or self.kinds[index] in _NUMBERS or isinstance(part, str)
                kept[index] = value[name] = cleaned(part, ITEM_DEPTH + 1)
        return Item(type(row)(*kept), value, comparable)


@dataclass(slots=True)
class Rows:
    """The items of one list as they were read last, by id, and its pages. ``needed``: the fields that were asked for;
    `read` is for one set of them at a time."""

    needed: frozenset[str] = frozenset()
    _pages: dict[int, tuple[bytes, Json | Malformed]] = field(default_factory=dict)
    _items: dict[str, Item] = field(default_factory=dict)

    def read(self, number: int, needed: frozenset[str], raw: bytes) -> Json | Malformed:
        """The JSON of a page, its items with the needed fields only, or how it is malformed. What says nothing new is
        the object that it was: a page, or an item of one."""
        needed |= {"id"}
        if needed != self.needed:
            self.needed = needed
            self._pages.clear()
            self._items.clear()
        digest, last = sha256(raw).digest(), self._pages.get(number)
        if last is not None and last[0] == digest:
            return last[1]
        content: Json | Malformed
        try:
            content = self._decoded(raw, last[1] if last is not None else None)
        except Malformed as error:
            content = error
        self._pages[number] = (digest, content)
        return content

    def only(self, ids: Iterable[str]) -> None:
        """Forgets all other items."""
        self._items = {eid: self._items[eid] for eid in ids if eid in self._items}

    def _decoded(self, raw: bytes, last: Json | Malformed) -> Json:
        reader = reader_for(self.needed)
        try:
            page = reader.decoder.decode(raw)
            items: list[Json] = [self._item(reader, row) for row in page.items]
            content: dict[str, Json] = {name: cleaned(getattr(page, name), 1) for name in OF_PAGE}
            content["items"] = items
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return self._slowly(raw)
        return last if not isinstance(last, Malformed) and _as_before(last, content) else content

    def _item(self, reader: Reader, row: Row) -> Json:
        eid = row.f0  # type: ignore[attr-defined] # the id, which is the first of every row
        known = self._items.get(eid) if isinstance(eid, str) else None
        if known is not None and known.row == row:
            return known.value
        item = reader.item(row, known)
        if isinstance(eid, str):
            if item.comparable:
                self._items[eid] = item
            else:
                self._items.pop(eid, None)
        return item.value

    def _slowly(self, raw: bytes) -> Json:
        """As `parsed`, with the items' needed fields only. Raises `Malformed`."""
        content = parsed(raw)
        items = content.get("items") if isinstance(content, dict) else None
        if isinstance(items, list):
            items[:] = [
                {name: part for name, part in item.items() if name in self.needed} if isinstance(item, dict) else item
                for item in items
            ]
        return content


@lru_cache(maxsize=16)
def reader_for(needed: frozenset[str]) -> Reader:
    """How pages are decoded for these fields, the id among them. Fields of a row are numbered, because the service's
    may be called anything."""
    names = ("id", *sorted(needed - {"id"}))
    fields = [EVENT_FIELDS.get(name) for name in names]
    row = msgspec.defstruct(
        "EventRow",
        [(f"f{index}", *_typed(one)) for index, one in enumerate(fields)],
        rename={f"f{index}": name for index, name in enumerate(names)},
        gc=False,
    )
    page = msgspec.defstruct("EventPage", [("items", list[row])], bases=(Envelope,), kw_only=True)  # type: ignore[valid-type]
    kinds = tuple(None if one is None else one.type for one in fields)
    nothing = tuple(_typed(one)[1] for one in fields)
    return Reader(names=names, nothing=nothing, kinds=kinds, decoder=msgspec.json.Decoder(page))


def _typed(described: Field | None) -> tuple[object, object]:
    """The type of a field of a row, and what stands there where an item lacks it. Values of two types that are equal
    must not meet: a number that should be one is never true or false, and what may be anything is compared as it is
    spelled."""
    if described is not None and described.type in _PLAIN:
        return object, msgspec.UNSET
    if described is not None and described.type in _NUMBERS:
        return int | float | msgspec.UnsetType | None, msgspec.UNSET
    return msgspec.Raw, _NOTHING


def _as_before(last: Json, content: dict[str, Json]) -> bool:
    """Whether a page shows the very same items as before, and says the same of itself."""
    if not isinstance(last, dict):
        return False
    before, now = last.get("items"), content["items"]
    if not (isinstance(before, list) and isinstance(now, list) and len(before) == len(now)):
        return False
    said, says = ([(type(page.get(name)), page.get(name)) for name in OF_PAGE] for page in (last, content))
    return said == says and all(map(is_, before, now))


SURELY_PERCENT = 2.0
"""No event sells twice its capacity, so a share from here on is a percentage."""
_SHARES = ("value", "benchmark")
NO_SETUP: Mapping[str, Json] = MappingProxyType({"state": "NONE"})
"""What is known of an event without a setup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What a decoder knows beside the answer: for which event, when, under which assumptions, and what its headers say
    of a list's extent."""

    event: EventId | None
    read_at: datetime
    trace: Trace
    assumptions: Assumptions
    params: tuple[tuple[str, Scalar], ...] = ()
    headers: Mapping[str, Json] = field(default_factory=lambda: NOTHING)

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
    """The setup with its ``state`` in the document's words; a 404 never comes here. Its fields are not shown (API
    section 4.5); where one says whose it is, and that is another event than was asked for, nothing is known."""
    if not isinstance(value, dict):
        raise Malformed("the setup is not an object")
    whose = value.get("eid")
    if whose is not None and str(whose) != asking.event:
        raise Malformed(f"asked for the setup of event {asking.event}, and that of {str(whose)[:80]!r} answered")
    name = asking.assumptions.text("setup.state_field")
    state, fault = _setup_state(value.get(name), name, asking.assumptions)
    record = record_from({**value, "state": state}, SETUP_FIELDS, "the setup")
    if fault is None:
        return asking.known(record.value, record.gaps)
    kept = {field: part for field, part in record.value.items() if field != "state"}
    return asking.known(kept, {**record.gaps, "state": fault})


def clusters_fact(value: Json, asking: Asking) -> Fact:
    """The clusters, each with the run of the answer. Gaps are named by cluster, as ``clusters[0].label``."""
    found = value.get("clusters") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(found, list):
        raise Malformed("clusters is not an array")
    if not found:
        return asking.not_computed("clusters")
    must_be_whole(leaf_of(found, value, asking.headers), "the list of clusters")
    run = run_id_from(value.get("tc_run_id"))
    if run is None:
        raise Malformed("tc_run_id is not an integer")
    clusters: list[Json] = []
    gaps: dict[str, str] = {}
    for number, item in enumerate(found):
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
    must_be_whole(leaf_of(value, value, asking.headers), "the list of suggested clusters")
    return asking.known([_campaign_name(item, f"item {number}") for number, item in enumerate(value, start=1)])


def campaigns_leaf(value: Json, asking: Asking) -> Leaf:
    """One answer of the list of campaigns, each with its tc and tc_run_id. Raises `Malformed`."""
    found = found_at(asking.assumptions.text("campaigns.items"), value)
    if not isinstance(found, list):
        raise Malformed("the campaigns are not an array where the assumption campaigns.items looks for them")
    campaigns: list[Json] = []
    for number, item in enumerate(found, start=1):
        name = _campaign_name(item, f"campaign {number}")
        campaigns.append({**(item if isinstance(item, dict) else {}), **name})
    return leaf_of(campaigns, value, asking.headers)


def campaigns_fact(value: Json, asking: Asking) -> Fact:
    """The event's campaigns by one answer."""
    leaf = campaigns_leaf(value, asking)
    return campaigns_of([leaf], lacking([leaf]), asking)


def campaigns_of(leaves: Sequence[Leaf], lacks: str, asking: Asking) -> Fact:
    """The event's campaigns by these pages; none is a value. A list that lacks something is no fact, but shows what is
    in it."""
    campaigns = [item for leaf in leaves for item in leaf.items]
    if lacks:
        why = f"the list of campaigns is not whole: {lacks}"
        return Unknown(code="unreadable", why=why, read_at=asking.read_at, trace=asking.trace, part=campaigns)
    return Known(value=campaigns, read_at=asking.read_at, trace=replace(asking.trace, full=full(leaves[0])))


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
    """Permissions, features and calls to action: arrays whose items the document does not show (API section 2.7)."""
    if not isinstance(value, list):
        raise Malformed("the answer is not an array")
    must_be_whole(leaf_of(value, value, asking.headers), "the array")
    return asking.known(value)


def adplatform_fact(value: Json, asking: Asking) -> Fact:
    connected = found_at(asking.assumptions.text("adplatform.connected"), value)
    if not isinstance(connected, bool):
        raise Malformed("the assumption adplatform.connected does not lead to true or false in the answer")
    return asking.known({"connected": connected})


def open_fact(value: Json, asking: Asking) -> Fact:
    """An answer whose form the document does not show: JSON as it came. Null says nothing."""
    if value is None:
        raise Malformed("the answer is null")
    return asking.known(value)


def radius_fact(value: Json, asking: Asking) -> Fact:
    """Radius suggestions (API section 2.5). Gaps are named by suggestion, as ``suggested_radius[0].city_id``."""
    if not isinstance(value, list):
        raise Malformed("the suggestions are not an array")
    records = [record_from(item, RADIUS_FIELDS, f"suggestion {number}") for number, item in enumerate(value, start=1)]
    gaps = {f"[{n}].{field}": why for n, record in enumerate(records) for field, why in record.gaps.items()}
    return asking.known([record.value for record in records], gaps)


def benchmark_fact(value: Json, asking: Asking) -> Fact:
    """A prediction beside its benchmark, as fractions. Which unit the service used must be told from the two numbers
    (API section 2.3): with ``lookout_benchmark.unit: auto``, both up to 1 are fractions, one from 2 on makes percents,
    and what lies between is not told apart, so both are unknown."""
    found = found_at(asking.assumptions.text("lookout_benchmark.at"), value)
    if not isinstance(found, dict):
        raise Malformed("the assumption lookout_benchmark.at does not lead to a record in the answer")
    unit, fault = ("count", "") if ("type", "ticket_count") in asking.params else _unit(found, asking.assumptions)
    whole = 100.0 if unit == "percent" else 1.0
    numbers = {name: number / whole for name in _SHARES if (number := number_from(found.get(name))) is not None}
    record = record_from({**found, **numbers, "unit": unit}, PREDICTION_FIELDS, "the benchmark")
    if not fault:
        return asking.known(record.value, record.gaps)
    kept = {name: part for name, part in record.value.items() if name not in PREDICTION_FIELDS}
    return asking.known(kept, dict.fromkeys(PREDICTION_FIELDS, fault))


def _unit(found: Mapping[str, Json], assumptions: Assumptions) -> tuple[str, str]:
    """fraction or percent, or why neither can be said."""
    said = assumptions.text("lookout_benchmark.unit")
    if said != "auto":
        return said, ""
    numbers = [abs(number) for name in _SHARES if (number := number_from(found.get(name))) is not None]
    largest = max(numbers, default=0.0)
    if largest <= 1.0:
        return "fraction", ""
    if largest >= SURELY_PERCENT:
        return "percent", ""
    return "", f"{largest:g} may be a fraction or a percentage; see the assumption lookout_benchmark.unit"


def setup_without_record(campaigns: Fact, absent: Known) -> Fact:
    """A setup that answered 404, where a published one does so too: its campaigns tell (``setup.after_publish``)."""
    if isinstance(campaigns, Unknown) and not campaigns.part:
        why = f"the setup answers 404, and its campaigns, which would tell, are unknown: {campaigns.why}"
        return replace(campaigns, why=why, read_at=absent.read_at, trace=absent.trace)
    there = campaigns.part if isinstance(campaigns, Unknown) else campaigns.value
    return replace(absent, value={"state": "PUBLISHED"}) if there else absent


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
