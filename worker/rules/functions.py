"""What conditions can do with values: one table of operators and one of functions, for `check` and for evaluation.

Each row says which kinds it takes, what it gives, and how. Values are Python's: a text is a str, a number a float, a
whole number an int of 64 bits, a time a datetime. What cannot be done raises `CannotEvaluate`;
what takes more steps than one evaluation has raises `TooCostly`.
"""

import operator
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from math import floor, fsum, inf, isfinite, trunc
from statistics import fmean
from types import NoneType
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from worker.rules.cel import INT_MAX, INT_MIN
from worker.rules.facts import NUMBERS, Run
from worker.rules.registry import ANY, BOOL, DOUBLE, DURATION, INT, LIST, NUMERIC, STRING, TIMESTAMP, WORDS, Kind, Type
from worker.rules.spelling import parse_duration

TEXT_STEP: Final = 32
PATTERN_MAX: Final = 1_000
"""How large a regular expression may be, compiled."""
SPAN_MAX: Final = timedelta(microseconds=INT_MAX // 1000)
"""The longest duration of the standard: 64 bits of nanoseconds."""

Value: TypeAlias = "bool | int | float | str | datetime | timedelta | list[Value] | dict[str, Value] | None"

KIND_OF: Final[Mapping[type, Kind]] = {
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    datetime: "timestamp",
    timedelta: "duration",
    NoneType: "null",
    list: "list",
    dict: "object",
}
_ORDERED: Final = frozenset({bool, int, float, str, datetime, timedelta})


class CannotEvaluate(Exception):
    """A part has no value: something is missing, or of the wrong kind. `&&` and `||` can do without it."""


def words_of(value: object) -> str:
    """What kind of value it is, for a message."""
    return WORDS[KIND_OF[value.__class__]]


# --- comparing ---


def compare(name: str, left: Value, right: Value) -> bool:
    """How two values lie to one another."""
    kind, other = left.__class__, right.__class__
    if kind is other and kind in _ORDERED:
        return bool(COMPARED[name](left, right))
    if kind in NUMBERS and other in NUMBERS:  # a whole number beside a double is one
        return bool(COMPARED[name](float(left), float(right)))  # type: ignore[arg-type] # they are numbers
    raise CannotEvaluate(f"{words_of(left)} and {words_of(right)} have no order")


COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def member(run: Run, item: Value, container: Value) -> bool:
    """Whether a list has an item, or a record a field."""
    if isinstance(container, list):
        run.spend(len(container))
        return any(run.equal(item, one) for one in container)
    if isinstance(container, dict):
        return isinstance(item, str) and item in container
    raise CannotEvaluate(f"'in' takes a list on its right, and this is {words_of(container)}")


def item_of(container: Value, key: Value) -> Value:
    """What stands in a list at a place, or in a record under a name."""
    if isinstance(container, dict) and isinstance(key, str):
        if key not in container:
            raise CannotEvaluate(f"there is no field '{key}'")
        return container[key]
    if isinstance(container, list) and key.__class__ in NUMBERS:
        place = trunc(key) if isfinite(key) else -1  # type: ignore[arg-type] # a number, as was just asked
        if place != key or not 0 <= place < len(container):
            raise CannotEvaluate(f"a list of {len(container)} has no place {key}")
        return container[place]
    raise CannotEvaluate(f"{words_of(container)} has no [{words_of(key)}]")


# --- arithmetic ---


def _whole(number: int) -> int:
    if not INT_MIN <= number <= INT_MAX:
        raise CannotEvaluate("a whole number is too large")
    return number


def _divided(left: int, right: int) -> int:
    if right == 0:
        raise CannotEvaluate("it is divided by 0")
    quotient = abs(left) // abs(right)
    return _whole(quotient if (left < 0) is (right < 0) else -quotient)


def _rest(left: int, right: int) -> int:
    return left - right * _divided(left, right) if right != -1 else 0


def _quotient(left: float, right: float) -> float:
    """A quotient that is no finite number is an error, unlike in the standard: nobody means infinite."""
    found = left / right if right else float("nan")
    if not isfinite(found):
        raise CannotEvaluate("a quotient is not a finite number: it is divided by 0")
    return found


def _span(duration: timedelta) -> timedelta:
    if abs(duration) > SPAN_MAX:
        raise CannotEvaluate("a duration is longer than 292 years")
    return duration


def _times(add: Callable[[datetime, timedelta], datetime]) -> Callable[[datetime, timedelta], datetime]:
    def moved(moment: datetime, duration: timedelta) -> datetime:
        try:
            return add(moment, duration)
        except OverflowError:
            raise CannotEvaluate("a time lies beyond the years 1 to 9999") from None

    return moved


_later, _earlier = _times(operator.add), _times(operator.sub)

ARITHMETIC: Final[Mapping[tuple[str, Kind, Kind], tuple[Type, Callable[..., Value]]]] = {
    ("+", "int", "int"): (INT, lambda a, b: _whole(a + b)),
    ("-", "int", "int"): (INT, lambda a, b: _whole(a - b)),
    ("*", "int", "int"): (INT, lambda a, b: _whole(a * b)),
    ("/", "int", "int"): (INT, _divided),
    ("%", "int", "int"): (INT, _rest),
    ("+", "double", "double"): (DOUBLE, operator.add),
    ("-", "double", "double"): (DOUBLE, operator.sub),
    ("*", "double", "double"): (DOUBLE, operator.mul),
    ("/", "double", "double"): (DOUBLE, _quotient),
    ("+", "string", "string"): (STRING, operator.add),
    ("+", "list", "list"): (LIST, operator.add),
    ("-", "timestamp", "timestamp"): (DURATION, lambda a, b: _span(a - b)),
    ("+", "timestamp", "duration"): (TIMESTAMP, _later),
    ("+", "duration", "timestamp"): (TIMESTAMP, lambda a, b: _later(b, a)),
    ("-", "timestamp", "duration"): (TIMESTAMP, _earlier),
    ("+", "duration", "duration"): (DURATION, lambda a, b: _span(a + b)),
    ("-", "duration", "duration"): (DURATION, lambda a, b: _span(a - b)),
}
_CLASS_OF: Final = {kind: class_ for class_, kind in KIND_OF.items()}
_BY_CLASS: Final = {
    (name, _CLASS_OF[left], _CLASS_OF[right]): how for (name, left, right), (_, how) in ARITHMETIC.items()
}


def combined(run: Run, name: str, left: Value, right: Value) -> Value:
    """The value of ``left + right`` and its like."""
    how = _BY_CLASS.get((name, left.__class__, right.__class__))
    if how is None:
        raise CannotEvaluate(f"{words_of(left)} and {words_of(right)} cannot be combined by '{name}'")
    found = how(left, right)
    if isinstance(found, str | list):
        run.spend(len(found))
    return found


def negated(value: Value) -> Value:
    """The number with the other sign."""
    if value.__class__ is int:
        return _whole(-value)
    if isinstance(value, float):
        return -value
    raise CannotEvaluate(f"'-' takes a number, and this is {words_of(value)}")


# --- functions ---


def _integer(value: Value) -> Value:
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(seconds=1)
    if isinstance(value, str):
        if not re.fullmatch(r"-?[0-9]{1,19}", value):
            raise CannotEvaluate(f"'{value[:40]}' is not a whole number")
        return _whole(int(value))
    if isinstance(value, float):
        # The largest and the smallest are themselves out of reach: a double that spells them may have been rounded.
        if not abs(value) < INT_MAX:
            raise CannotEvaluate("a number is too large for a whole number")
        return int(value)
    return value


def _double(value: "str | float") -> Value:
    if isinstance(value, str) and not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value):
        raise CannotEvaluate(f"'{value[:40]}' is not a number")
    return float(value)


def _string(value: Value) -> Value:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _shortest(value)
    if isinstance(value, timedelta):
        seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
        sign = "-" if value < timedelta(0) else ""
        return f"{sign}{f'{seconds}.{micros:06}'.rstrip('0').rstrip('.') if micros else seconds}s"
    if isinstance(value, datetime):
        text = value.astimezone(UTC).isoformat().removesuffix("+00:00")
        return (text.rstrip("0") if "." in text else text) + "Z"
    return str(value)


def _shortest(number: float) -> str:
    """As the standard's own implementation: no .0, and an exponent from 21 digits on."""
    text = repr(number)
    mantissa, _, exponent = text.partition("e")
    if exponent and 0 < int(exponent) < 21:
        return f"{number:.0f}"
    return text if exponent else mantissa.removesuffix(".0")


def _timestamp(value: str | int) -> Value:
    with suppress(ValueError, OverflowError):  # it is told below
        if isinstance(value, str) and _RFC_3339.fullmatch(value):
            return datetime.fromisoformat(value).astimezone(UTC)
        if isinstance(value, int):
            return EPOCH + timedelta(seconds=value)
    hint = "write it as 2026-01-31T00:00:00Z, to the microsecond at most"
    raise CannotEvaluate(f"'{str(value)[:40]}' is no time; {hint}")


def duration_of(text: str) -> timedelta:
    """The duration of a text, which may have a sign."""
    try:
        return -parse_duration(text[1:]) if text.startswith("-") else parse_duration(text)
    except ValueError as error:
        raise CannotEvaluate(str(error)) from None


@lru_cache(maxsize=64)
def _pattern(text: str) -> Any:  # noqa: ANN401 - RE2 says nothing of its types
    """RE2's: linear in the text that is searched, whatever the pattern is."""
    import re2  # noqa: PLC0415 - for the few rules that search, and no command that reads none

    options = re2.Options()
    options.max_mem, options.log_errors = 1 << 18, False
    try:
        pattern = re2.compile(text, options)
    except (re2.error, UnicodeError) as error:
        why = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else "it cannot be read"
        raise CannotEvaluate(f"this pattern is not one that RE2 knows: {why}") from None
    if pattern.programsize > PATTERN_MAX:
        raise CannotEvaluate("this pattern is too large")
    return pattern


def _matches(text: str, pattern: str) -> Value:
    try:
        return _pattern(pattern).search(text) is not None
    except UnicodeError:
        raise CannotEvaluate("a text is not Unicode") from None


MACHINES_OWN: Final = "localtime"
"""Stands among the zones of many machines, and is another one on each."""


@lru_cache(maxsize=64)
def _zone(text: str) -> tzinfo:
    offset = re.fullmatch(r"([+-]?)([0-9]{2}):([0-9]{2})", text)
    try:
        if offset is not None:
            away = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
            return timezone(-away if offset[1] == "-" else away)
        return ZoneInfo("" if text == MACHINES_OWN else text)  # of which there is none
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CannotEvaluate(f"'{text[:40]}' is no time zone; write 'Europe/Berlin' or '+02:00'") from None


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_Parts: TypeAlias = Callable[[datetime], int]


def _search(text: str, pattern: str) -> int:
    return 1 + len(text) * int(_pattern(pattern).programsize) // TEXT_STEP


# Of numbers, or of one list of them: the result is a double, whatever kind of numbers they are.


def _over(name: str, how: Callable[[list[float]], float]) -> Callable[..., Value]:
    def over(*values: Value) -> Value:
        numbers = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        for one in numbers:
            if one.__class__ not in NUMBERS:
                raise CannotEvaluate(f"'{name}' takes numbers, and one of these is {words_of(one)}")
        if not numbers and how is not fsum:
            raise CannotEvaluate(f"'{name}' of an empty list is nothing")
        try:
            found = float(how([float(one) for one in numbers]))  # type: ignore[arg-type] # numbers, as was just asked
        except (OverflowError, ValueError):
            found = inf
        if not isfinite(found):
            raise CannotEvaluate(f"'{name}' is no finite number")
        return found

    return over


def _rounded(number: "int | float") -> Value:
    """To the next whole number, and a half away from 0, as everybody but a machine does."""
    if not isfinite(number):
        raise CannotEvaluate("'round' takes a finite number")
    whole = floor(abs(number))
    found = float(whole + (abs(number) - whole >= 0.5))
    return -found if found and number < 0 else found


def _size_of(*values: Value) -> int:
    return sum(len(one) for one in values if isinstance(one, list))


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function. ``takes``: the kinds of its arguments; a method's first one is its target. ``plain``: callable
    without one. ``optional``: how many of the last can be left out; ``many``: the last can be given again and again.
    ``steps``: what a call takes beside being made and its texts being read."""

    name: str
    takes: tuple[frozenset[Kind], ...]
    gives: Type
    about: str
    how: Callable[..., Value]
    method: bool = False
    plain: bool = True
    optional: int = 0
    many: bool = False
    steps: Callable[..., int] | None = None

    def takes_so_many(self, arguments: int) -> bool:
        """Whether it can be called with this many."""
        return len(self.takes) - self.optional <= arguments and (self.many or arguments <= len(self.takes))

    def kinds(self, arguments: int) -> "tuple[frozenset[Kind], ...]":
        """What so many arguments may be."""
        return (*self.takes, *self.takes[-1:] * (arguments - len(self.takes)))

    def call(self, run: Run, values: list[Value]) -> Value:
        """The value of a call."""
        for value, kinds in zip(values, self.kinds(len(values)) if self.many else self.takes, strict=False):
            if KIND_OF[value.__class__] not in kinds:
                raise CannotEvaluate(f"'{self.name}' does not take {words_of(value)}")
            if value.__class__ is str:
                run.spend(len(value) // TEXT_STEP)
        if self.steps is not None:
            run.spend(self.steps(*values))
        return self.how(*values)


_TEXT: frozenset[Kind] = frozenset({"string"})
_SIZED: frozenset[Kind] = frozenset({"string", "list", "object"})
_NUMBER: frozenset[Kind] = NUMERIC | {"string"}
_TIME: frozenset[Kind] = frozenset({"timestamp"})
_MOMENT: frozenset[Kind] = frozenset({"string", "int"})
_SPAN: frozenset[Kind] = frozenset({"timestamp", "duration"})
_MILLISECOND: Final = timedelta(milliseconds=1)
_EVERY: frozenset[Kind] = frozenset(KIND_OF.values())


def _function(
    name: str, kinds: frozenset[Kind], gives: Type, how: Callable[..., Value], about: str, *, method: bool = False
) -> Function:
    return Function(name=name, takes=(kinds,), gives=gives, how=how, about=about, method=method)


def _of_texts(
    name: str, about: str, how: Callable[[str, str], Value], steps: Callable[[str, str], int] | None = None
) -> Function:
    takes = (_TEXT, _TEXT)
    return Function(name=name, takes=takes, gives=BOOL, how=how, about=about, method=True, plain=False, steps=steps)


def _getter(name: str, about: str, part: _Parts, unit: timedelta | None = None) -> Function:
    """A part of a time, in UTC or in a zone; ``unit``: also how many of these a duration has."""

    def how(value: "datetime | timedelta", zone: str | None = None) -> Value:
        if isinstance(value, timedelta):
            if zone is not None or unit is None:
                raise CannotEvaluate(f"'{name}' takes no time zone for a duration")
            count = abs(value) // unit * (-1 if value < timedelta(0) else 1)
            return count if unit > _MILLISECOND else abs(count) % 1000
        try:
            return part(value if zone is None else value.astimezone(_zone(zone)))
        except OverflowError:
            raise CannotEvaluate("a time lies beyond the years 1 to 9999") from None

    takes = (_TIME if unit is None else _SPAN, _TEXT)
    return Function(name=name, takes=takes, gives=INT, about=about, how=how, method=True, plain=False, optional=1)


_SEVERAL: frozenset[Kind] = NUMERIC | {"list"}


def _of_numbers(name: str, how: Callable[[list[float]], float], about: str) -> Function:
    over = _over(name, how)
    return Function(name=name, takes=(_SEVERAL,), gives=DOUBLE, about=about, how=over, many=True, steps=_size_of)


FUNCTIONS: Mapping[str, Function] = {
    one.name: one
    for one in (
        _function("size", _SIZED, INT, len, "how long a list, record or text is", method=True),
        _of_texts("contains", "whether a text has another in it; for lists write x in list", lambda a, b: b in a),
        _of_texts("startsWith", "how a text begins", str.startswith),
        _of_texts("endsWith", "how a text ends", str.endswith),
        _of_texts("matches", "whether a regular expression (RE2) is found", _matches, _search),
        _function("duration", _TEXT, DURATION, duration_of, "duration('7d'); text only"),
        _function("timestamp", _MOMENT, TIMESTAMP, _timestamp, "a time: timestamp('2026-01-31T00:00:00Z')"),
        _function("int", _NUMBER | _TIME, INT, _integer, "a whole number, cut off; of a time the seconds since 1970"),
        _function("double", _NUMBER, DOUBLE, _double, "a number that arithmetic takes"),
        _function("string", _NUMBER | _SPAN | {"bool"}, STRING, _string, "as text"),
        _of_numbers("sum", fsum, "the sum of numbers, or of a list: sum(campaigns.map(c, c.budget)); of none 0.0"),
        _of_numbers("min", min, "the least of numbers, or of a list: min([setup.total_budget * 1.2, 500.0])"),
        _of_numbers("max", max, "the greatest of numbers, or of a list"),
        _of_numbers("avg", fmean, "the mean of numbers, or of a list; of an empty list nothing, as min and max"),
        _function("abs", NUMERIC, DOUBLE, lambda value: abs(float(value)), "a number without its sign"),
        _function("round", NUMERIC, DOUBLE, _rounded, "the nearest whole number, a half away from 0"),
        _function("dyn", _EVERY, ANY, lambda value: value, "the same value, without type checks"),
        _getter("getFullYear", "the year, in UTC or in a zone as 'Europe/Berlin' or '+02:00'", lambda at: at.year),
        _getter("getMonth", "the month, January is 0", lambda at: at.month - 1),
        _getter("getDate", "the day of the month, from 1", lambda at: at.day),
        _getter("getDayOfMonth", "the day of the month, from 0", lambda at: at.day - 1),
        _getter("getDayOfYear", "the day of the year, from 0", lambda at: at.timetuple().tm_yday - 1),
        _getter("getDayOfWeek", "the day of the week, Sunday is 0", lambda at: at.isoweekday() % 7),
        _getter("getHours", "the hour; of a duration all its hours", lambda at: at.hour, timedelta(hours=1)),
        _getter("getMinutes", "the minute; of a duration all its minutes", lambda at: at.minute, timedelta(minutes=1)),
        _getter("getSeconds", "the second; of a duration all its seconds", lambda at: at.second, timedelta(seconds=1)),
        _getter("getMilliseconds", "the millisecond in its second", lambda at: at.microsecond // 1000, _MILLISECOND),
    )
}

MACRO_ABOUT: Mapping[str, str] = {
    "known": "whether a field is known, which is never unknown once it was asked for: known(statistics.tickets)",
    "ago": "what a field was, by the recorded changes; unknown where they do not reach: ago(event.capacity, '24h')",
    "delta": "now less then, of a number: delta(statistics.tickets, '3d')",
    "since": "in a rule with after, a number now less what it was when that write was sent: since(statistics.tickets)",
    "has": "whether an undocumented field is there: has(event.x)",
    "all": "whether a condition holds for every item: list.all(x, …)",
    "exists": "whether it holds for at least one: list.exists(x, …)",
    "exists_one": "whether it holds for exactly one: list.exists_one(x, …)",
    "map": "a value for every item: list.map(x, …)",
    "filter": "the items for which it holds: list.filter(x, …)",
}
