"""From the bytes of an answer to what the model can hold: parsed JSON, records without ill-typed fields, pages.

What an answer says wrongly must not look like a value: a condition engine compares a text with a number as plain
"false", and "false" would be acted on. So a documented field that is missing or ill-typed is taken out and named in the
gaps, and an answer of the wrong shape as a whole is `Malformed`. Fields that the document does not name are kept.

The only home of ``Any``: two libraries return it, and it ends at their call. Nothing here asks the service anything.
"""

import json
import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from worker.model.facts import EVENT_FIELDS, NO_GAPS, Field, FieldType, Json

# A secret that cannot be printed by accident.
#
# Passwords and tokens travel in this wrapper, so that no log line, exception or dataclass repr can show one: the text
# comes out of ``reveal`` only, and that is called where a request is built and nowhere else.


class Secret:
    """A secret text, or where to get it now: a file may be replaced while the process runs."""

    __slots__ = ("_source",)

    def __init__(self, source: str | Callable[[], str]) -> None:
        self._source = source

    def reveal(self) -> str:
        """The text itself."""
        return self._source if isinstance(self._source, str) else self._source()

    def __repr__(self) -> str:
        return "Secret(…)"

    def __str__(self) -> str:
        return "…"


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


# How much of a list an answer holds, by its own word, and the rest of it. Pure, but for asking through its caller.
#
# Only a whole list says what is not in it. The document shows pages for the list of events (API section 2.4), and of
# the campaigns of an event nothing at all (section 4.5). So whatever an answer says of more than it holds is heard:
# the document's envelope, what other services write in its place, and their headers. The rest is asked for, page by
# page; where it cannot be had the list is no fact, and what was read of it only shows what is there.
#
# What says nothing is taken for whole, as a list without an envelope mostly is; but one as long as a page may be is
# marked (`Trace.full`), and proves no absence.

PAGES_MAX = 50
"""Pages read of the campaigns of one event."""
_TOTAL = re.compile(
    r"total(count|items|results|elements|records|rows|hits|size)?|(odata|item|record|result)?count|hits"
)
_PAGES = re.compile(r"pages|totalpages|pages?total|(num)?pagecount|numpages|lastpage")
_NEXT = re.compile(r"(odata)?next\w*|has(next|more)\w*|more\w*|cursor|after|(is)?truncated|partial|continuation\w*")
_LAST = re.compile(r"(is)?last")
_LIMIT = re.compile(r"limit|pagesize|perpage")
_WRAPPERS = re.compile(r"data|results?|meta(data)?|pagination|paging|page(info|able)?|links|cursors")
"""What lists say of themselves and where, each name in lower case and without what is no letter or digit; ``last``
says that there is no next page."""
_DEEP = 3
"""Records within records beside a list in which such words are looked for."""
_ROUND = (10, 25)
NOTHING: Mapping[str, Json] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One answer of a list: its items, and what it says of all of them. None where it does not say; ``more``: what it
    names as the next page, False where it says that there is none."""

    items: list[Json]
    total: int | None = None
    pages: int | None = None
    limit: int | None = None
    more: Json = None


def leaf_of(items: list[Json], value: Json, headers: Mapping[str, Json] = NOTHING) -> Leaf:
    """One answer, in which these items were found. ``headers``: as `said_in_headers`."""
    said = [*headers.items(), *_beside(value, items)]
    named = [part or False for name, part in said if _NEXT.fullmatch(name)]
    named += [not part for name, part in said if _LAST.fullmatch(name) and isinstance(part, bool)]
    return Leaf(
        items=items,
        total=_largest(said, _TOTAL),
        pages=_largest(said, _PAGES),
        limit=_largest(said, _LIMIT),
        more=next((part for part in named if part), False if named else None),
    )


def said_in_headers(headers: Mapping[str, str]) -> Mapping[str, Json]:
    """What headers say of a list's extent, by the same names: the relation ``next`` of a Link, totals, a next page, and
    the range that an answer is of."""
    said: dict[str, Json] = {}
    if re.search(r"""rel\s*=\s*["']?[^"',;]*\bnext\b""", headers.get("link", ""), re.IGNORECASE):
        said["next"] = True
    for name in headers:
        bare = _bare(name).removeprefix("x")
        if _TOTAL.fullmatch(bare) or _PAGES.fullmatch(bare) or bare == "nextpage":
            said[bare] = headers[name]
    if "content-range" in headers:
        said["total"] = headers["content-range"].rpartition("/")[2].strip()
    return said


def lacking(leaves: Sequence[Leaf]) -> str:
    """What these pages, which are the first of a list, lack of it by their own word; empty where they lack nothing."""
    first, last = leaves[0], leaves[-1]
    held = sum(len(leaf.items) for leaf in leaves)
    if first.total is not None and held < first.total:
        return f"it holds {held} of {first.total}"
    if first.pages is not None and len(leaves) < first.pages:
        return f"it is {len(leaves)} of {first.pages} pages"
    if last.more:
        return "it names a next page"
    if (first.pages is not None or any(leaf.more for leaf in leaves)) and not all(leaf.items for leaf in leaves[1:]):
        return "a page that it told of is empty"
    if len(leaves) > 1 and (last.total != first.total or _twice(leaves)):
        return "it changed while it was read"
    if first.total is None and first.pages is None and last.more is None and last.limit is not None:
        return f"it is as long as its limit of {last.limit}" if len(last.items) >= last.limit else ""
    return ""


def must_be_whole(leaf: Leaf, what: str) -> None:
    """Raises `Malformed` for an answer that holds a part of what it is to tell."""
    if lacks := lacking([leaf]):
        raise Malformed(f"{what} is not whole: {lacks}")


def next_page(leaves: Sequence[Leaf]) -> int:
    """The number of the page after these."""
    named = integer_from(leaves[-1].more)
    return named if named is not None else len(leaves) + 1


def full(leaf: Leaf) -> bool:
    """Whether a list that says nothing of its extent is as long as a page often is: then it may have been cut off."""
    if (leaf.total, leaf.pages, leaf.limit, leaf.more) != (None, None, None, None):
        return False
    return len(leaf.items) >= min(_ROUND) and any(len(leaf.items) % one == 0 for one in _ROUND)


async def pages_of(first: Leaf, ask: Callable[[int], Awaitable[Leaf]]) -> tuple[Sequence[Leaf], str]:
    """All pages of a list from its first, and what they lack of it. ``ask`` raises `Malformed` for a page that cannot
    be had, or is none."""
    leaves = [first]
    while (lacks := lacking(leaves)) and len(leaves) < PAGES_MAX:
        number = next_page(leaves)
        try:
            leaf = await ask(number)
        except Malformed as error:
            return leaves, f"{lacks}; page {number}: {error}"
        if any(leaf.items == one.items for one in leaves):
            return leaves, f"{lacks}; page {number} answered as one before it; see the assumption events.page_parameter"
        leaves.append(leaf)
    return leaves, lacks


def _beside(value: Json, items: list[Json], deep: int = _DEEP) -> Iterator[tuple[str, Json]]:
    """What an answer says beside its list, wherever it stands."""
    if isinstance(value, dict) and deep:
        for name, part in value.items():
            yield _bare(name), part
            if part is not items and _WRAPPERS.fullmatch(_bare(name)):
                yield from _beside(part, items, deep - 1)


def _bare(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def _largest(said: Sequence[tuple[str, Json]], names: re.Pattern[str]) -> int | None:
    numbers = [number for name, part in said if names.fullmatch(name) and (number := run_id_from(part)) is not None]
    return max(numbers, default=None)


def _twice(leaves: Sequence[Leaf]) -> bool:
    """Whether an item of one page stands on another too: something went from page to page, and another was missed."""
    return any(item in other.items for at, leaf in enumerate(leaves) for item in leaf.items for other in leaves[:at])


def lists_in(value: Json, deep: int = _DEEP) -> Iterator[list[Json]]:
    """The lists of an answer that are not items of another."""
    if isinstance(value, list):
        yield value
    elif isinstance(value, dict) and deep:
        for part in value.values():
            yield from lists_in(part, deep - 1)
