"""The functions that a condition can call: what they take and what they give.

The list is what the engine has, found by calling it, less what is of no use here; `check` refuses every other name,
because the engine would only say so at run time, as one more unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from worker.rules.celtypes import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function. ``target``: kinds it can be called on as a method, empty where it cannot; ``takes``: the kinds of
    its arguments when called by itself (a method's first argument is its target). ``plain``: callable without one."""

    name: str
    takes: tuple[frozenset[Kind], ...]
    gives: Type
    method: bool = False
    plain: bool = True
    about: str


_TEXT: frozenset[Kind] = frozenset({"string"})
_SIZED: frozenset[Kind] = frozenset({"string", "bytes", "list", "object"})
_NUMBER: frozenset[Kind] = frozenset({"int", "double", "string"})
_TIME: frozenset[Kind] = frozenset({"timestamp"})
_SPAN: frozenset[Kind] = frozenset({"timestamp", "duration"})
_EVERY: frozenset[Kind] = frozenset(
    {"bool", "int", "double", "string", "bytes", "timestamp", "duration", "null", "list", "object"}
)


def _getter(name: str, kinds: frozenset[Kind], about: str) -> Function:
    return Function(name=name, takes=(kinds,), gives=INT, method=True, plain=False, about=about)


FUNCTIONS: Mapping[str, Function] = {
    one.name: one
    for one in (
        Function(name="size", takes=(_SIZED,), gives=INT, method=True, about="length of a list, record or text"),
        Function(
            name="contains",
            takes=(_TEXT | {"list"}, _EVERY),
            gives=BOOL,
            method=True,
            plain=False,
            about="whether a text or list contains something",
        ),
        Function(
            name="startsWith", takes=(_TEXT, _TEXT), gives=BOOL, method=True, plain=False, about="how a text begins"
        ),
        Function(name="endsWith", takes=(_TEXT, _TEXT), gives=BOOL, method=True, plain=False, about="how a text ends"),
        Function(
            name="matches",
            takes=(_TEXT, _TEXT),
            gives=BOOL,
            method=True,
            plain=False,
            about="whether a regular expression is found",
        ),
        Function(name="duration", takes=(_TEXT,), gives=DURATION, about="a duration: duration('7d'); text only"),
        Function(name="timestamp", takes=(_TEXT,), gives=TIMESTAMP, about="a time: timestamp('2026-01-31T00:00:00Z')"),
        Function(name="int", takes=(_NUMBER,), gives=INT, about="a whole number, cut off"),
        Function(name="uint", takes=(_NUMBER,), gives=INT, about="an unsigned whole number"),
        Function(name="double", takes=(_NUMBER,), gives=DOUBLE, about="a number that arithmetic takes"),
        Function(
            name="string",
            takes=(frozenset({"string", "bytes", "int", "double", "timestamp", "duration"}),),
            gives=STRING,
            about="as text",
        ),
        Function(name="bytes", takes=(_TEXT,), gives=BYTES, about="as bytes"),
        Function(name="type", takes=(_EVERY,), gives=STRING, about="the name of the type"),
        Function(name="dyn", takes=(_EVERY,), gives=ANY, about="the same value, without type checks"),
        _getter("getFullYear", _TIME, "the year, UTC"),
        _getter("getMonth", _TIME, "the month, UTC, January is 0"),
        _getter("getDate", _TIME, "the day of the month, UTC, from 1"),
        _getter("getDayOfMonth", _TIME, "the day of the month, UTC, from 0"),
        _getter("getDayOfYear", _TIME, "the day of the year, UTC, from 0"),
        _getter("getDayOfWeek", _TIME, "the day of the week, UTC, Sunday is 0"),
        _getter("getHours", _SPAN, "the hour, UTC; of a duration all its hours"),
        _getter("getMinutes", _SPAN, "the minute; of a duration all its minutes"),
        _getter("getSeconds", _SPAN, "the second; of a duration all its seconds"),
        _getter("getMilliseconds", _SPAN, "the millisecond; of a duration all its milliseconds"),
    )
}

MACRO_ABOUT: Mapping[str, str] = {
    "has": "whether an undocumented field is there: has(event.x)",
    "all": "whether a condition holds for every item: list.all(x, …)",
    "exists": "whether it holds for at least one: list.exists(x, …)",
    "exists_one": "whether it holds for exactly one: list.exists_one(x, …)",
    "map": "a value for every item: list.map(x, …)",
    "filter": "the items for which it holds: list.filter(x, …)",
}
