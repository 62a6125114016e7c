"""From the bytes of an answer to what the model can hold: JSON, records without ill-typed fields, pages, whole lists.

What an answer says wrongly must not look like a value: a condition compares a text with a number as plain "false", and
"false" would be acted on. So a documented field that is missing or ill-typed is taken out and named in the gaps, and an
answer of the wrong shape as a whole is `Malformed`. Fields that the document does not name are kept.

The only home of ``Any``: two libraries return it, and it ends at their call. Nothing here asks the service anything.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeAlias

import jmespath
from jmespath.exceptions import JMESPathError

from worker.model.facts import EVENT_FIELDS, NO_GAPS, Field, FieldType, Json, UnknownCode, object_of, parts_of

LONGEST_NUMBER = 300
"""Digits. A longer number is beyond what a double can hold, and every number is a double in conditions."""
EXACT_MAX = float(1 << 53)
"""Up to here every whole number is a double; beyond it a number with an exponent names none exactly."""
DEEPEST = 64
"""Levels of nesting. The document's records have four; a deeper answer is no record of it."""
ITEMS_MAX = 2_000
"""Items of a page; `poll.page_size` asks for 1,000 at most."""
NAME_MAX = 500
"""Characters of an event's id and of a cluster's name."""
SHOWN_MAX = 80
"""Characters of a value that is wrong that are told: an answer may hold one of megabytes."""
FAULTS_MAX = 20
"""Items of a page that are no events; what comes after so many is not looked at."""

_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_SPELLED = re.compile(rb"\\u[dD][89a-fA-F]")


class NoValue(ValueError):
    """An answer gives no value; the text says why, and ``code`` in one word."""

    def __init__(self, why: str, code: UnknownCode) -> None:
        super().__init__(why)
        self.code: UnknownCode = code


class Malformed(NoValue):
    """The answer is not what the document says it is; the text says where."""

    def __init__(self, why: str) -> None:
        super().__init__(why, "malformed")


Gaps: TypeAlias = Mapping[str, str]
"""The documented fields that a value lacks, or has wrongly, with the reason."""
CheckedRecord: TypeAlias = tuple[dict[str, Json], Gaps]
"""An object of the document, less its missing and ill-typed fields, and those fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """One page of a list (API section 2.4). ``faults``: what keeps the list from being complete, in words.

    ``total``, ``limit``, ``page`` and ``pages`` are None where the answer does not say them well. ``more``: whether it
    names a next page. ``ids`` in order, with repeats.
    """

    records: Mapping[str, CheckedRecord]
    ids: tuple[str, ...]
    total: int | None
    limit: int | None
    page: int | None
    pages: int | None
    more: bool
    faults: tuple[str, ...] = ()


def parsed(content: bytes) -> Json:
    """The JSON of an answer. Raises `Malformed` for anything that is not JSON, NaN and Infinity included, and where a
    name stands twice in an object: which of the two is meant is a guess. Halves of characters, which no store can keep,
    become the replacement character."""
    try:
        value: Any = _DECODER.decode(content.decode("utf-8-sig"))
    except RecursionError:
        raise Malformed("the answer is nested too deeply") from None
    except Malformed:
        raise
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise Malformed("the answer is not JSON") from None
    except ValueError as error:
        raise Malformed(f"in the answer {error}") from None
    if _deeper(value, DEEPEST):
        raise Malformed("the answer is nested too deeply")
    if _SURROGATE_SPELLED.search(content):
        value = json.loads(_SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False)))
    found: Json = value
    return found


def found_at(path: str, value: Json) -> Json:
    """What a JMESPath expression finds. Raises `Malformed` where it cannot be applied, or finds what is no JSON."""
    try:
        found = json.dumps(jmespath.search(path, value))
    except (JMESPathError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise Malformed(f"{path} cannot be applied to the answer: {type(error).__name__}") from None
    return parsed(found.encode())


def record_from(value: Json, fields: Mapping[str, Field], what: str) -> CheckedRecord:
    """An object, checked against a table of the document. Raises `Malformed` where it is no object."""
    if not isinstance(value, dict):
        raise Malformed(f"{what} is {_kind(value)}, not an object")
    checked = dict(value)
    gaps: dict[str, str] = {}
    for name, field in fields.items():
        if name not in value:
            gaps[name] = "missing in the answer"
        elif fault := ill_typed(value[name], field):
            gaps[name] = fault
            del checked[name]
        elif field.type == "integer" and isinstance(value[name], float):
            checked[name] = integer_from(value[name])
    return checked, gaps or NO_GAPS


def ill_typed(value: Json, field: Field) -> str | None:
    """Why the value cannot be what the document says; None where it can."""
    if value is None:
        return None if field.nullable else "null, which the document does not allow"
    fits = _FITS[field.type](value)
    return None if fits else f"{_kind(value)}, where the document says {field.type}"


def integer_from(value: Json) -> int | None:
    """A whole number, also one spelled ``500.0``; a boolean is none, nor is 1e300."""
    number = number_from(value)
    if number is None or not number.is_integer():
        return None
    if isinstance(value, int):
        return value
    return int(number) if abs(number) <= EXACT_MAX else None


def number_from(value: Json) -> float | None:
    """A finite number; a boolean is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def decimal_from(value: Json) -> float | None:
    """A number that arrives as a text, as the expected value does (API section 2.5)."""
    if not isinstance(value, str) or not _DECIMAL.fullmatch(value.strip()):
        return None
    return number_from(float(value))


def run_id_from(value: Json) -> int | None:
    """A cluster run: an integer that some lists return as a string (API section 2.1)."""
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"\d{1,18}", value, re.ASCII) else None
    return integer_from(value)


def moment_from(text: str) -> datetime | None:
    """An ISO 8601 date and time; one without a zone is UTC, as the document says of all of them."""
    if not _MOMENT.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def page_from(value: Json, needed: frozenset[str] | None = None) -> EventPage:
    """One page of events, of each the ``needed`` fields, None for all. Ill-formed items are left out and named; a page
    without items is `Malformed`."""
    if not isinstance(value, dict):
        raise Malformed(f"the page is {_kind(value)}, not an object")
    items = value.get("items")
    if not isinstance(items, list):
        raise Malformed(f"items of the page is {_kind(items)}, not an array")
    if len(items) > ITEMS_MAX:
        raise Malformed(f"the page has {len(items)} items, and no page that is asked for has more than {ITEMS_MAX}")
    faults: list[str] = []
    records: dict[str, CheckedRecord] = {}
    ids: list[str] = []
    for number, item in enumerate(items, start=1):
        if len(faults) >= FAULTS_MAX:
            faults.append(f"the items after {number - 1} were not read: too many are wrong")
            break
        try:
            eid, record = event_from(_narrowed(item, needed))
        except Malformed as error:
            faults.append(f"item {number}: {error}")
            continue
        ids.append(eid)
        records[eid] = record
    counts = {name: integer_from(value.get(name)) for name in ("total", "limit", "page", "pages")}
    for name, least in (("total", 0), ("limit", 1), ("page", 1)):
        if (count := counts[name]) is None or count < least:
            faults.append(f"its {name} is {value.get(name)!r:.{SHOWN_MAX}}, and no number from {least} on")
            counts[name] = None
    more, said = bool(value.get("nextPage")), tuple(faults)
    return EventPage(records=records, ids=tuple(ids), **counts, more=more, faults=said)


def _narrowed(item: Json, needed: frozenset[str] | None) -> Json:
    if needed is None or not isinstance(item, dict):
        return item
    parts = ((name, part) for name, part in item.items() if name in needed or name == "id")
    return {name: _kept_once(part) if isinstance(part, str) else part for name, part in parts}


@lru_cache(maxsize=4096)
def _kept_once(text: str) -> str:
    """The text itself: thousands of events have the same city, category and status, and each would keep its own."""
    return text


def event_from(value: Json) -> tuple[str, CheckedRecord]:
    """An event and its id. Raises `Malformed` for one without a usable id: nothing could be said of anything."""
    record, gaps = record_from(value, EVENT_FIELDS, "the event")
    eid = record.get("id")
    if not usable_name(eid):
        odd = f"it is empty, is longer than {NAME_MAX} characters or holds a NUL"
        raise Malformed(f"an event without a usable id: {gaps.get('id', odd)}")
    return str(eid), (record, gaps)


def usable_name(text: Json) -> bool:
    """Whether the ledger can go by it, whichever database it is in: longer names, or a NUL in one, would end every
    transaction about the partner on a server."""
    return isinstance(text, str) and bool(text.strip()) and len(text) <= NAME_MAX and "\0" not in text


def strings_in(value: Json) -> frozenset[str]:
    """Every text of an answer, wherever it stands: the structure of error bodies is not shown (API section 7)."""
    if isinstance(value, str):
        return frozenset({value})
    return frozenset[str]().union(*map(strings_in, parts_of(value)))


_FITS: Mapping[FieldType, Callable[[Json], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: integer_from(value) is not None,
    "number": lambda value: number_from(value) is not None,
    "boolean": lambda value: isinstance(value, bool),
    "timestamp": lambda value: isinstance(value, str) and moment_from(value) is not None,
    "list": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "any": lambda _value: True,
}


def _no_constant(name: str) -> float:
    raise Malformed(f"the answer holds {name}, which is not JSON")


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Malformed("the answer holds a number that is out of range")
    return number


def _int(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise Malformed("the answer holds a number that is out of range")
    return int(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=object_of, parse_constant=_no_constant, parse_float=_float, parse_int=_int
)


def _deeper(value: Json, levels: int) -> bool:
    """Whether a value has more levels of objects and arrays than that."""
    return levels < 0 or any(isinstance(part, dict | list) and _deeper(part, levels - 1) for part in parts_of(value))


def _kind(value: Json) -> str:
    return "null" if value is None else _KINDS[type(value)]


_KINDS: Mapping[type, str] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "an array",
    dict: "an object",
}
