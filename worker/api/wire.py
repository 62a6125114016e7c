"""From the bytes of an answer to what the model can hold: parsed JSON, records without ill-typed fields, pages.

What an answer says wrongly must not look like a value: a condition engine compares a text with a number as plain
"false", and "false" would be acted on. So a documented field that is missing or ill-typed is taken out and named in the
gaps, and an answer of the wrong shape as a whole is `Malformed`. Fields that the document does not name are kept.

The only home of ``Any``: two libraries return it, and it ends at their call. Nothing here asks the service anything.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from worker.model.document import EVENT_FIELDS, Field, FieldType
from worker.model.facts import NO_GAPS, Json

LONGEST_NUMBER = 300
"""Digits. A longer number is beyond what a double can hold, and every number is a double in conditions."""
BEYOND = 10**LONGEST_NUMBER
EXACT_MAX = float(1 << 53)
"""Up to here every whole number is a double; beyond it a number with an exponent names none exactly."""
FAULTS_MAX = 20
"""Items of a page that are no events; what comes after so many is not looked at."""
DEEPEST = 64
"""Levels of nesting. The document's records have four; a deeper answer is no record of it."""

WORD_MAX = 40
WORDS_KEPT = 4096
"""Words of answers that are kept once however often they occur: states, cities, genres. Most values are such words."""

_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Malformed(ValueError):
    """The answer is not what the document says it is; the text says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An object of the document, less its missing and ill-typed fields; those stand in ``gaps`` with the reason."""

    value: dict[str, Json]
    gaps: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a list (API section 2.4). ``faults``: what keeps the list from being complete, in words.

    ``total``, ``limit`` and ``page`` are None where the answer does not say them well. ``ids`` in order, with repeats.
    """

    records: Mapping[str, Record]
    ids: tuple[str, ...]
    total: int | None
    limit: int | None
    page: int | None
    faults: tuple[str, ...] = ()


def parsed(content: bytes, depth: int = 0) -> Json:
    """The JSON of an answer, or of a part of one, ``depth`` levels down. Raises `Malformed` for anything that is not
    JSON, NaN and Infinity included."""
    try:
        value: Any = json.loads(
            content.decode("utf-8-sig"), parse_constant=_no_constant, parse_float=_float, parse_int=_int
        )
    except RecursionError:
        raise Malformed("the answer is nested too deeply") from None
    except ValueError as error:
        why = str(error) if isinstance(error, Malformed) else "the answer is not JSON"
        raise Malformed(why) from None
    return cleaned(value, depth)


def found_at(path: str, value: Json) -> Json:
    """What a JMESPath expression finds. Raises `Malformed` where it cannot be applied."""
    try:
        found: Any = jmespath.search(path, value)
    except (JMESPathError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise Malformed(f"{path} cannot be applied to the answer: {type(error).__name__}") from None
    return cleaned(found, 0)


def record_from(value: Json, fields: Mapping[str, Field], what: str) -> Record:
    """An object, checked against a table of the document. Raises `Malformed` where it is no object. What is well-formed
    as a whole is not copied."""
    if not isinstance(value, dict):
        raise Malformed(f"{what} is {_kind(value)}, not an object")
    changed: dict[str, Json] = {}
    gaps: dict[str, str] = {}
    for name, field in fields.items():
        if name not in value:
            gaps[name] = "missing in the answer"
            continue
        fault = ill_typed(value[name], field)
        if fault is not None:
            gaps[name] = fault
        elif field.type == "integer" and isinstance(value[name], float):
            changed[name] = integer_from(value[name])
    if not gaps and not changed:
        return Record(value=value, gaps=NO_GAPS)
    kept = {name: part for name, part in value.items() if name not in gaps}
    return Record(value={**kept, **changed}, gaps=gaps)


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


def event_from(value: Json) -> tuple[str, Record]:
    """An event and its id. Raises `Malformed` for one without a usable id: nothing could be said of anything."""
    record = record_from(value, EVENT_FIELDS, "the event")
    eid = record.value.get("id")
    if not isinstance(eid, str) or not eid.strip():
        raise Malformed(f"an event without a usable id: {record.gaps.get('id', 'the id is empty')}")
    return eid, record


def page_from(value: Json, event_of: Callable[[Json], tuple[str, Record]] = event_from) -> Page:
    """One page of events. Ill-formed items are left out and named; a page without items is `Malformed`. ``event_of``:
    as `event_from`."""
    if not isinstance(value, dict):
        raise Malformed(f"the page is {_kind(value)}, not an object")
    items = value.get("items")
    if not isinstance(items, list):
        raise Malformed(f"items of the page is {_kind(items)}, not an array")
    faults: list[str] = []
    records: dict[str, Record] = {}
    ids: list[str] = []
    for number, item in enumerate(items, start=1):
        if len(faults) >= FAULTS_MAX:
            faults.append(f"the items after {number - 1} were not read: too many are wrong")
            break
        try:
            eid, record = event_of(item)
        except Malformed as error:
            faults.append(f"item {number}: {error}")
            continue
        ids.append(eid)
        records[eid] = record
    total, limit, page = (integer_from(value.get(name)) for name in ("total", "limit", "page"))
    if total is None or total < 0:
        faults.append(f"total is {value.get('total')!r}, not a count")
        total = None
    if limit is None or limit < 1:
        faults.append(f"limit is {value.get('limit')!r}, not a page size")
        limit = None
    return Page(records=records, ids=tuple(ids), total=total, limit=limit, page=page, faults=tuple(faults))


def strings_in(value: Json) -> frozenset[str]:
    """Every text of an answer, wherever it stands: the structure of error bodies is not shown (API section 7)."""
    found: set[str] = set()
    rest: list[Json] = [value]
    while rest:
        match rest.pop():
            case str() as text:
                found.add(text)
            case list() as items:
                rest.extend(items)
            case dict() as members:
                rest.extend(members.values())
            case _:
                pass
    return frozenset(found)


_FITS: Mapping[FieldType, Callable[[Json], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: integer_from(value) is not None,
    "number": lambda value: number_from(value) is not None,
    "boolean": lambda value: isinstance(value, bool),
    "timestamp": lambda value: isinstance(value, str) and moment_from(value) is not None,
    "list": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
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


@lru_cache(maxsize=WORDS_KEPT)
def _once(word: str) -> str:
    """The same word, as the object that it was when it last occurred."""
    return word


def cleaned(value: object, depth: int) -> Json:
    """The value as `Json`. Halves of characters, which no store can keep, become the replacement character."""
    if depth > DEEPEST:
        raise Malformed("the answer is nested too deeply")
    if isinstance(value, str):  # most values are, and most of these are plain
        text = value if value.isascii() else _SURROGATE.sub("\ufffd", value)
        return _once(text) if len(text) <= WORD_MAX else text
    match value:
        case dict():
            return {str(cleaned(str(name), depth)): cleaned(part, depth + 1) for name, part in value.items()}
        case list():
            return [cleaned(part, depth + 1) for part in value]
        case bool() | float() | None:
            return value
        case int():
            if not -BEYOND < value < BEYOND:
                raise Malformed("the answer holds a number that is out of range")
            return value
        case _:
            raise Malformed(f"a {type(value).__name__} is not JSON")


def _kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "an array"
        case dict():
            return "an object"
