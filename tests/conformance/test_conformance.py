"""The public cases of CEL, from its specification's own repository: each holds, or is refused with a message."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from worker.rules.cel import BadSyntax, parse
from worker.rules.check import check_condition
from worker.rules.evaluate import compiled
from worker.rules.facts import Run
from worker.rules.functions import CannotEvaluate, Value
from worker.rules.registry import ANY

CASES = json.loads(Path(__file__).with_name("cases.json").read_text("utf-8"))
ERROR = object()


class NoSuchValue(Exception):
    """The service has no such value, and neither has a clock: bytes, unsigned numbers, types, messages."""


def value_of(spelled: list[Any]) -> Any:  # noqa: ANN401 # a value, or `ERROR`
    kind, value = spelled
    if kind == "list":
        return [value_of(one) for one in value]
    if kind == "map":
        return {text_of(key): value_of(one) for key, one in value}
    if kind == "Duration":
        return timedelta(seconds=int(value.get("seconds", 0)), microseconds=int(value.get("nanos", 0)) // 1000)
    if kind == "Timestamp":
        return datetime.fromtimestamp(int(value.get("seconds", 0)), UTC)
    makers: dict[str, Any] = {
        "bool": lambda: value == "true",
        "int": lambda: int(value, 0),
        "double": lambda: float(value),
        "string": lambda: value,
        "null": lambda: None,
        "error": lambda: ERROR,
    }
    if kind not in makers:
        raise NoSuchValue
    return makers[kind]()


def text_of(key: list[Any]) -> str:
    if key[0] != "string":
        raise NoSuchValue
    return str(key[1])


def outcome(case: dict[str, Any]) -> tuple[str, object]:
    """What is refused, and why, or what it gives."""
    try:
        bound = {name: value_of(value) for name, value in case.get("with", {}).items()}
        tree = parse(case["text"])
    except NoSuchValue:
        return "refused", "a value of a kind that the service does not have"
    except BadSyntax as error:
        return "refused", f"{error}; {error.hint}"
    found = [one for one in check_condition(tree, dict.fromkeys(bound, ANY), boolean=False) if one.severity == "error"]
    if found:
        return "refused", found[0].message
    values = {name: value for name, value in bound.items() if value is not ERROR}
    try:
        return "gives", compiled(tree, {name: (name, None) for name in bound})(Run(values))
    except CannotEvaluate:
        return "gives", ERROR


def same(found: Value, wanted: Value) -> bool:
    """Equal and of one class all the way down."""
    if found.__class__ is not wanted.__class__:
        return False
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[name], wanted[name]) for name in found)
    if isinstance(found, float) and isinstance(wanted, float) and isnan(wanted):
        return isnan(found)
    return found == wanted


def holds(case: dict[str, Any], found: object) -> bool:
    try:
        wanted = value_of(case["gives"])
    except NoSuchValue:
        return False
    return found is wanted if ERROR in (found, wanted) else same(found, wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_public_case_holds_or_is_refused(case: dict[str, Any]) -> None:
    how, found = outcome(case)
    assert how == "refused" or holds(case, found), f"{case['text']} gives {found!r} and not {case['gives']}"


def test_most_cases_hold_and_the_others_say_why() -> None:
    told = [outcome(case) for case in CASES]
    assert Counter(how for how, _ in told) == {"gives": 626, "refused": 598}, "none may be lost unseen"
    assert all(why for how, why in told if how == "refused")
