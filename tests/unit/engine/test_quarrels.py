"""Rules that can want opposite things of one target, and what the daemon would do about it."""

import pytest

from tests.builders import cases
from worker.engine.checking import ping_pongs, quarrels
from worker.rules.load import read_rules
from worker.rules.registry import BUILT_IN_REGISTRY


def told(*rules: str) -> list[str]:
    loaded = read_rules({"r.yaml": "rules:\n" + "".join(f"  - {rule}\n" for rule in rules)})
    found = quarrels(loaded, BUILT_IN_REGISTRY)
    assert all((one.severity, one.code) == ("warning", "conflict") for one in found)
    return [one.message for one in found]


def of_two(first: str, second: str) -> list[str]:
    """Two rules whose conditions can both be true, where they name none and watch nothing."""
    whens = {"a": (first, "when: event.status == 'x', "), "b": (second, "when: event.city == 'y', ")}
    own = ("when", "on_change")
    return told(
        *(f"{{id: {name}, {'' if rule.startswith(own) else when}{rule}}}" for name, (rule, when) in whens.items())
    )


A_STOPS, B_STOPS = (f"'{name}' wins because it stops spending" for name in "ab")
DRAFT = "do: [create_draft: {goal: ROAS, total_budget: %d}]"
LOW, HIGH = "when: expected_value < 3.0, do: [pause]", "when: expected_value > 4.0, do: [run], with: {budget: 9}"
GROWN = "when: size(added) > 0, do: [run], on_change: suggested_tcs"
SMALL = "when: event.city == 'y' && event.capacity <= 500.0, do: [run]"


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        ("do: [pause]", "do: [run]", A_STOPS),
        ("do: [run]", "do: [pause]", B_STOPS),
        ("do: [optimisation: OFF]", "do: [optimisation: ON]", A_STOPS),
        ("do: [frontend_status: HIDDEN]", "do: [frontend_status: FLAGGED]", "neither acts"),
        (DRAFT % 5, DRAFT % 6, "neither acts"),
        ("do: [pause], partners: [p]", "do: [run], partners: [q, p]", A_STOPS),
        ("do: [pause]", "when: event.city == 'y', do: [run], on_change: suggested_tcs", A_STOPS),
        ("on_change: suggested_tcs, do: [run]", "do: [pause]", B_STOPS),
        ("do: [pause]", "do: [optimisation: ON, wait: 2h, run]", A_STOPS),
        (f"{LOW}, with: {{budget: 500}}", HIGH, A_STOPS),
        (LOW, HIGH, A_STOPS),
        ("when: size(added) == 0, do: [pause], on_change: clusters", GROWN, A_STOPS),
    ],
)
def test_rules_that_want_opposite_things_are_told_with_what_comes_of_it(first: str, second: str, outcome: str) -> None:
    [found] = of_two(first, second)
    assert found.endswith(f"where both are true, {outcome}")
    assert "(r.yaml:2)" in found, "the other place is named"


def test_a_rule_that_enforces_two_values_of_one_target_is_told() -> None:
    rule = "{id: a, when: event.status == 'x', do: [pause, optimisation: ON, run], repeat: REPEAT}"
    found = told(rule.replace("REPEAT", "enforce"))
    assert found == ["'a' enforces client_campaign_status to be PAUSED, and RUNNING"]
    assert not told(rule.replace("REPEAT", "once")), "each is done once"


@cases(
    "first, second",
    ("do: [pause]", "do: [pause]", "equal wishes share one write"),
    ("do: [pause]", "do: [run], priority: 3", "it is said which one wins"),
    ("do: [pause]", "do: [optimisation: ON]", "two targets"),
    ("do: [pause], enabled: false", "do: [run]", "a disabled rule wishes nothing"),
    ("do: [pause], partners: [p]", "do: [run], partners: [q]", "no partner has both"),
    ("do: [frontend_status: HIDDEN]", "do: [frontend_status: '=event.city']", "what is computed differs by event"),
    ("when: event.city == 'z', do: [pause]", "do: [run]", "no event is in two cities"),
    ("when: event.capacity > 500.0 && event.status == 'x', do: [pause]", SMALL, "no hall is both large and small"),
    (f"{LOW}, with: {{budget: 9}}", HIGH, "one value is not both low and high"),
)
def test_what_cannot_meet_is_not_told(first: str, second: str) -> None:
    assert of_two(first, second) == []


@pytest.mark.parametrize(("after", "meet"), [("q", True), ("p", False)])
def test_the_writes_of_two_rules_are_two(after: str, meet: bool) -> None:
    first = "{id: p, when: event.status == 'x', do: [optimisation: OFF]}"
    second = "{id: q, when: event.status == 'y', do: [ad_optimisation: OFF]}"
    pause = "{id: a, after: p, when: write.before == 'ON', do: [pause]}"
    run = f"{{id: b, after: {after}, when: write.before == 'OFF', do: [run]}}"
    assert bool(told(first, second, pause, run)) is meet


def test_many_rules_are_told_in_one_line_for_each_target() -> None:
    pausing = [
        f"{{id: p{one}, when: event.capacity > {one}.0, do: [pause, frontend_status: HIDDEN]}}" for one in range(8)
    ]
    running = [f"{{id: r{one}, when: event.city == 'c{one}', do: [run]}}" for one in range(2)]

    found = told(*pausing, *running, "{id: flag, when: event.city == 'y', do: [frontend_status: FLAGGED]}")

    assert found[0] == (
        "10 rules can want opposite things of client_campaign_status: "
        "PAUSED by p0, p1, p2, p3, p4 and 3 more; RUNNING by r0, r1"
    )
    assert found[1].startswith("9 rules can want opposite things of frontend_status: HIDDEN by p0, ")
    assert len(found) == 2


def test_only_those_that_can_meet_an_opposite_one_are_counted() -> None:
    apart = [
        f"{{id: {do}-{one}, when: event.city == '{one}', do: [{do}]}}" for do, one in (("pause", "a"), ("run", "b"))
    ]

    assert told(*apart) == []
    [found] = told(*apart, "{id: run-c, when: event.city == 'c' || event.city == 'a', do: [run]}")
    assert "rule 'run-c'" in found
    assert "rule 'pause-a'" in found


def test_a_long_wish_is_cut_short() -> None:
    draft = "create_draft: {goal: ROAS, total_budget: 5, extra: {text: %s}}"
    [found] = told(*(f"{{id: {one}, when: event.city == 'y', do: [{draft % (one * 99)}]}}" for one in ("a", "b")))
    assert found.count("…") == 2


def back_and_forth(first: str, second: str) -> list[str]:
    text = f"rules:\n  - {{id: a, {first}}}\n  - {{id: b, {second}}}\n"
    found = ping_pongs(read_rules({"r.yaml": text}))
    assert all((one.severity, one.code) == ("warning", "ping_pong") for one in found)
    return [one.message for one in found]


HIDDEN = "when: event.frontend_status == 'HIDDEN'"
PAUSED = "when: event.client_campaign_status == 'PAUSED'"
CREATES = f"{PAUSED}, do: [create_campaign: {{tc: a, tc_run_id: 1}}]"
OPTIMISES = f"{HIDDEN}, do: [optimisation: 'ON']"
HIDES = "when: event.campaign_optimisation_status == 'ON', do: [frontend_status: HIDDEN]"
BOTH_FIELDS = "'b' writes event.frontend_status, and 'a' event.campaign_optimisation_status"


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        (OPTIMISES, HIDES, BOTH_FIELDS),
        ("on_change: {fact: event, by: [frontend_status]}, do: [optimisation: 'ON']", HIDES, BOTH_FIELDS),
        ("on_change: campaigns, do: [pause]", CREATES, "'b' writes campaigns, and 'a' event.client_campaign_status"),
        (
            f"{PAUSED}, do: [update_draft: {{total_budget: 5}}]",
            "when: setup.total_budget < 10.0, do: [boost]",
            "'b' writes event.client_campaign_status, and 'a' setup.total_budget",
        ),
        (
            "on_change: setup, do: [frontend_status: HIDDEN], partners: [p, q]",
            f"{HIDDEN}, do: [update_draft: {{total_budget: 5}}], partners: [q]",
            "'b' writes setup.total_budget, and 'a' event.frontend_status",
        ),
    ],
)
def test_two_rules_that_watch_what_the_other_writes_are_told(first: str, second: str, what: str) -> None:
    (found,) = back_and_forth(first, second)
    assert found.endswith(f"watch what the other writes: {what}")
    assert "(r.yaml:2)" in found, "the other place is named"


@cases(
    "first, second",
    (OPTIMISES, "when: event.campaign_optimisation_status == 'ON', do: [pause]", "only one starts the other"),
    (f"{HIDDEN}, do: [frontend_status: DEFAULT]", f"{HIDDEN}, do: [frontend_status: DEFAULT]", "both do the same"),
    (f"{OPTIMISES}, enabled: false", HIDES, "one rests"),
    (f"{OPTIMISES}, partners: [p]", f"{HIDES}, partners: [q]", "no partner has both"),
)
def test_rules_that_cannot_start_each_other_for_ever_are_left_alone(first: str, second: str) -> None:
    assert back_and_forth(first, second) == []
