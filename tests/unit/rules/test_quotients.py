"""Divisions: a quotient that is not finite is an error wherever it stands, and `check` warns of what may be 0."""

import pytest

from tests.builders import a_fact, a_scope
from worker.model.facts import Json
from worker.model.rules import Truth
from worker.rules.cel import parse
from worker.rules.check import by_zero
from worker.rules.evaluate import expression, leaves
from worker.rules.load import read_rules

ZERO: dict[str, Json] = {"a": 1.0, "b": 0.0, "l": [2.0, 0.0], "m": {"x": 0.0}, "tiny": 1e-320}
SCOPE = a_scope({"f": a_fact(ZERO)})


@pytest.mark.parametrize(
    "source",
    [
        "f.a / f.b > 4.0",
        "f.a / f.tiny > 4.0",
        "f.a > 0.0 ? f.a / f.b > 4.0 : false",
        "f.l.all(x, f.a / x > 0.1)",
        "[f.a / f.b][0] > 4.0",
        "f.a / f.b > 4.0 && f.a == 1.0",
        "1 / 0 == 1",
    ],
)
def test_a_quotient_that_is_not_finite_is_unknown(source: str) -> None:
    judgement = expression(source).judge(SCOPE)
    assert judgement.truth is Truth.UNKNOWN
    assert "divided by 0" in judgement.why


@pytest.mark.parametrize(
    ("source", "truth"),
    [
        ("f.b > 0.0 && f.a / f.b > 4.0", Truth.FALSE),
        ("f.a / f.b > 4.0 || f.a == 1.0", Truth.TRUE),
        ("f.l.exists(x, f.a / x == 0.5)", Truth.TRUE),
        ("7 / 2 == 3", Truth.TRUE),
    ],
)
def test_every_other_quotient_is_as_ever(source: str, truth: Truth) -> None:
    assert expression(source).truth(SCOPE) is truth


def test_the_part_with_the_quotient_is_unknown_by_itself_as_explain_shows_it() -> None:
    whole = expression("f.a == 1.0 && f.a / f.b > 4.0")
    assert [one.truth(SCOPE) for one in leaves(whole)] == [Truth.TRUE, Truth.UNKNOWN]


def test_a_field_that_is_missing_is_still_said_to_be() -> None:
    assert expression("f.m.y / 2.0 > 1.0").judge(SCOPE).why == "f.m has no field 'y'"


@pytest.mark.parametrize(
    ("source", "warned"),
    [
        ("a.x / b.y > 4.0", ["b.y"]),
        ("a.x / b.y > 4.0 && b.y > 0.0", []),
        ("b.y > 0.0 && a.x / b.y > 4.0", []),
        ("0.0 < b.y && a.x / b.y > 4.0", []),
        ("b['y'] > 0.0 && a.x / b.y > 4.0", []),
        ("size( b ) > 0 && a.x / double(size(b)) > 4.0", []),
        ("0.0 > b.y && a.x / b.y > 4.0", []),
        ("b.y != 0.0 && (a.x > 1.0 && a.x / b.y > 4.0)", []),
        ("b.y >= 0.0 && a.x / b.y > 4.0", ["b.y"]),
        ("b.y < 100.0 && a.x / b.y > 4.0", ["b.y"]),
        ("b.y > a.x && a.x / b.y > 4.0", ["b.y"]),
        ("b.z > 0.0 && a.x / b.y > 4.0", ["b.y"]),
        ("b.y == 0.0 || a.x / b.y > 4.0", []),
        ("b.y > 0.0 || a.x / b.y > 4.0", ["b.y"]),
        ("!(b.y == 0.0) && a.x / b.y > 4.0", []),
        ("!(b.y > 0.0 || a.x > 1.0) && a.x / b.y > 4.0", ["b.y"]),
        ("!(b.y == 0.0 || a.x > 1.0) && a.x / b.y > 4.0", []),
        ("(b.y > 0.0 || a.x > 1.0) && a.x / b.y > 4.0", ["b.y"]),
        ("b.y > 0.0 ? a.x / b.y > 4.0 : a.x / b.y < 0.0", ["b.y"]),
        ("b.y == 0.0 ? true : a.x / b.y > 4.0", []),
        ("a.x / b.y > 4.0 ? b.y > 0.0 : false", ["b.y"]),
        ("a.x in [1.0] && a.x / b.y > 4.0", ["b.y"]),
        ("a.x / double(size(b)) > 4.0", ["size(b)"]),
        ("size(b) > 0 && a.x / double(size(b)) > 4.0", []),
        ("a.x / b['y'] / a.z > 4.0", ["a.z", "b['y']"]),
        ("c.exists(i, a.x / i > 4.0)", ["i"]),
        ("a.x / 2.0 > 4.0 && a.x * b.y > 4.0 && a.x / (b.y + 1.0) > 2.0", []),
    ],
)
def test_a_divisor_that_may_be_zero_is_found(source: str, warned: list[str]) -> None:
    tree = parse(source)
    assert [source[one.start : one.end] for one in by_zero(tree)] == warned


@pytest.mark.parametrize(
    ("rule", "warnings"),
    [
        (
            "when: event.capacity / event.predicted_sales_share > 4.0, do: [pause]",
            ["event.predicted_sales_share may be 0, and what is divided by 0 is unknown"],
        ),
        (
            "when: event.status == 'x', do: [{update_draft: {total_budget: '=5.0 / event.capacity'}}]",
            ["event.capacity may be 0, and what is divided by 0 is unknown"],
        ),
        (
            "when: event.status == 'x', do: [{update_draft: {total_budget: '=5.0 / double(size(campaigns))'}}]",
            ["size(campaigns) may be 0, and what is divided by 0 is unknown"],
        ),
        ("when: event.capacity > 0.0, do: [{update_draft: {total_budget: '=5.0 / event.capacity'}}]", []),
        ("on_change: clusters, do: [{edit_cluster: {each: added, budget: '=5.0 / double(size(added))'}}]", []),
    ],
)
def test_check_warns_of_a_division_at_its_place_with_the_way_out(rule: str, warnings: list[str]) -> None:
    found = read_rules({"r.yaml": f"rules: [{{id: a, {rule}}}]"}).warnings
    assert [one.message for one in found] == warnings
    assert all(one.hint and one.code == "zero" and one.line == 1 for one in found)
