"""Rules that can want opposite things of one target, and what the daemon would do about it."""

import pytest

from worker.engine.quarrels import quarrels
from worker.rules.load import read_rules
from worker.rules.registry import BUILT_IN_REGISTRY


def told(*rules: str) -> list[str]:
    loaded = read_rules({"r.yaml": "rules:\n" + "".join(f"  - {rule}\n" for rule in rules)})
    found = quarrels(loaded, BUILT_IN_REGISTRY)
    assert all((one.severity, one.code) == ("warning", "conflict") for one in found)
    return [one.message for one in found]


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        ("do: [pause]", "do: [run]", "'a' wins because it stops spending"),
        ("do: [run]", "do: [pause]", "'b' wins because it stops spending"),
        ("do: [pause]", "do: [run], priority: 3", "'b' wins by its priority"),
        ("do: [pause], priority: 3", "do: [run]", "'a' wins by its priority"),
        ("do: [optimisation: OFF]", "do: [optimisation: ON]", "'a' wins because it stops spending"),
        ("do: [frontend_status: HIDDEN]", "do: [frontend_status: FLAGGED]", "neither acts"),
        (
            "do: [create_draft: {goal: ROAS, total_budget: 5}]",
            "do: [create_draft: {goal: ROAS, total_budget: 6}]",
            "neither acts",
        ),
        ("do: [pause], partners: [p]", "do: [run], partners: [q, p]", "'a' wins because it stops spending"),
        ("do: [pause]", "do: [run], on_change: suggested_tcs", "'a' wins because it stops spending"),
    ],
)
def test_rules_that_want_opposite_things_are_told_with_what_comes_of_it(first: str, second: str, outcome: str) -> None:
    [found] = told(f"{{id: a, when: event.status == 'x', {first}}}", f"{{id: b, when: event.city == 'y', {second}}}")
    assert found.endswith(f"where both are true, {outcome}")
    assert "(r.yaml:2)" in found, "the other place is named"


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ("do: [pause]", "do: [pause]", "equal wishes share one write"),
        ("do: [pause]", "do: [optimisation: ON]", "two targets"),
        ("do: [pause], enabled: false", "do: [run]", "a disabled rule wishes nothing"),
        ("do: [pause], partners: [p]", "do: [run], partners: [q]", "no partner has both"),
        ("do: [frontend_status: HIDDEN]", "do: [frontend_status: '=event.city']", "what is computed differs by event"),
        ("do: [pause], when: event.city == 'z'", "do: [run]", "no event is in two cities"),
        (
            "do: [pause], when: event.capacity > 500.0 && event.status == 'x'",
            "do: [run], when: event.city == 'y' && event.capacity <= 500.0",
            "no hall is both large and small",
        ),
    ],
)
def test_what_cannot_meet_is_not_told(first: str, second: str, reason: str) -> None:
    rules = [
        f"{{id: {name}, {'' if 'when' in rule else default}{rule}}}"
        for name, rule, default in (
            ("a", first, "when: event.status == 'x', "),
            ("b", second, "when: event.city == 'y', "),
        )
    ]
    assert told(*rules) == [], reason


def test_a_change_without_a_condition_can_meet_anything() -> None:
    [found] = told("{id: a, on_change: suggested_tcs, do: [run]}", "{id: b, when: event.city == 'y', do: [pause]}")
    assert found.endswith("'b' wins because it stops spending")


def test_one_rule_may_pause_and_then_run() -> None:
    assert told("{id: a, when: event.status == 'x', do: [pause, run]}") == []


def test_a_long_wish_is_cut_short() -> None:
    draft = "create_draft: {goal: ROAS, total_budget: 5, text: %s}"
    [found] = told(*(f"{{id: {one}, when: event.city == 'y', do: [{draft % (one * 99)}]}}" for one in ("a", "b")))
    assert found.count("…") == 2
