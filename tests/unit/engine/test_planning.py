"""From firings to plans: surge, mode, sharing of equal wishes, and what a newer firing replaces."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import cases
from tests.polls import BUDGET_500, MINUTE, TCS, Story, a_rule, a_story, course, tcs
from worker.engine.views import DecidingSettings
from worker.model.facts import EventId
from worker.model.rules import Rule, RuleStep, Surge

X, Y = "event.city == 'x' || event.city == 'xy'", "event.city == 'y' || event.city == 'xy'"


def of(number: int) -> EventId:
    """One of many events."""
    return EventId(f"n{number}")


def on_tcs(rule_id: str, *do: str, **keys: Any) -> Rule:  # noqa: ANN401 - fields of Rule
    return a_rule(rule_id, "event.status == 'active'", *do, on_change="suggested_tcs", parameters=BUDGET_500, **keys)


# Mode and partners.


@pytest.mark.parametrize("away", [(a_rule("r", X, enabled=False),), ()], ids=["disabled", "removed"])
def test_a_rule_that_has_acted_keeps_its_memory_while_it_is_away(away: tuple[Rule, ...]) -> None:
    story = a_story(a_rule("r", X)).event(city="x")
    story.look()
    story.reload(*away)
    story.event(city="")
    for _ in range(2):
        story.look()
    story.reload(a_rule("r", X))
    assert story.event(city="x").fires() == [], "its memory is as it was: the episode is open and has fired"
    story.event(city="").look()
    assert story.event(city="x").look().planned == ["r: pause"]


@pytest.mark.parametrize("told_at_once", [True, False])
def test_a_rule_that_was_removed_waits_with_what_it_finds_when_it_returns(told_at_once: bool) -> None:
    story = a_story(a_rule("r", X)).event(city="")
    story.look()
    assert story.reload().look().commit.empty
    assert story.memory.away == {"r": story.now}
    story.reload(a_rule("r", X))
    if not told_at_once:
        story.blind("event").look()
    assert story.event(city="x").look().planned == ["r: pause waiting gap"]


# Surge.


def many(*numbers: int, rule: Rule | None = None, **keys: Any) -> Story:  # noqa: ANN401 - fields of Rule
    story = a_story(
        rule or a_rule("r", X, **keys), settings=DecidingSettings(surge=Surge(events=2, within=10 * MINUTE))
    )
    story.confirming = False
    fire(story, *numbers)
    return story


def fire(story: Story, *numbers: int) -> None:
    for number in numbers:
        story.event(of(number), city="x")


def test_a_surge_over_several_looks_makes_every_unsent_write_of_the_rule_wait() -> None:
    story = many(1, 2)
    story.look()
    story.send(story.write("r", 0), "unknown", effect=False)
    fire(story, 3)
    looked = story.look()
    assert looked.planned == ["r: pause waiting surge"]
    assert looked.moved == ["r: waiting surge"], "one of the two is under way already"
    fire(story, 4)
    assert story.look().planned == ["r: pause waiting surge"], "and each later one"
    fire(story, 5)
    assert story.look(11 * MINUTE).planned == ["r: pause"], "until the window has passed"


def test_the_same_event_counts_once_and_other_rules_do_not_count() -> None:
    story = many(1)
    for city in "x", "", "x", "", "x":
        story.event(of(1), city=city).look()
    assert {write.state for write in story.writes.values()} == {"planned", "skipped"}
    story.reload(*(a_rule(name, X, f"frontend_status {status}") for name, status in (("a", "HIDDEN"), ("b", "HIDDEN"))))
    story.event(of(2), city="x")
    assert "waiting" not in story.states("a")


def test_what_was_approved_does_not_wait_again() -> None:
    story = many(1)
    story.look()
    write = story.write("r")
    story.writes[write.id] = replace(write, approved=True)
    fire(story, 2, 3)
    assert story.look().moved == []


def test_firings_that_a_clock_which_was_ahead_has_stamped_are_none_of_the_last_minutes() -> None:
    story = many(1, 2)
    story.look(120 * MINUTE)
    fire(story, 3)
    assert story.look(-60 * MINUTE).planned == ["r: pause"], "an hour before them"
    fire(story, 4, 5)
    assert story.look(-9 * MINUTE).planned == ["r: pause waiting surge"] * 2, "so near it may be order alone"


# Values that are computed.


def test_a_value_that_cannot_be_computed_holds_the_firing_and_does_not_lose_it() -> None:
    story = a_story(a_rule("r", X, "create_draft =defaults.total_budget * 2.0")).event(city="x")
    looked = story.look()
    assert (looked.fired, looked.held) == ([], ["r: fact_unknown"])
    assert story.look().outcome == ([], [], [], []), "said once"
    assert story.put("defaults", {"total_budget": 100.0}).fires() == ["r"]
    assert story.write("r").intent.params["total_budget"] == 200.0


def test_a_firing_that_cannot_be_computed_is_none_for_others_in_a_surge() -> None:
    story = many(1, 2, rule=a_rule("r", X, "create_draft =defaults.total_budget * 2.0")).event(of(3), city="x")
    for number in (1, 2):
        story.put("defaults", {"total_budget": 100.0}, of(number))
    assert story.look().planned == ["r: create_draft"] * 2


# Equal wishes.


@pytest.mark.parametrize("first", ["each", "plain"])
def test_an_action_for_each_of_a_list_and_a_plain_one_share_an_equal_wish(first: str) -> None:
    each = on_tcs("each")
    each = replace(each, do=(RuleStep(action="edit_cluster", params={"budget": 120.0}, each="added"),))
    one = RuleStep(action="edit_cluster", params={"tc": "b", "tc_run_id": 1, "budget": 120.0})
    story = a_story(each, replace(a_rule("plain", X), do=(one,)), confirming=False).event(city="").put(TCS, tcs("a"))
    story.setup(state="PUBLISHED").look()
    for rule in (first, "plain" if first == "each" else "each"):
        if rule == "each":
            story.put(TCS, tcs("a", "b"))
        else:
            story.event(city="x")
        story.look()
    assert [write.key.rule for write in story.writes.values()] == [first]
    assert set(story.write(first).rules) == {"each", "plain"}


def test_equal_wishes_of_computed_values_share_too() -> None:
    story = a_story(a_rule("a", X, "create_draft =250.0 * 2.0"), a_rule("b", X, "create_draft 500"), confirming=False)
    assert story.event(city="x").fires() == ["a", "b=a"]
    assert story.write("a").rules == ("a", "b")


A, B, C, D = (a_rule(name, when) for name, when in zip("abcd", (X, Y, Y, Y), strict=True))


AS_ASKS = replace(A, mode="approve", priority=1)
SEVERAL = (a_rule("a", X, "optimisation OFF"), a_rule("b", X), a_rule("c", X), D)


@cases(
    "rules, looks, shared",
    ((A, B, C), "x a, xy b=a & c=a, xy", ["abc"], "two rules may join an open write in one look"),
    ((A, B), "xy a & b=a, y, - a: skipped no_longer_holds", ["ab"], "it lives on while one rule wants it"),
    ((A, B), "xy a & b=a, x", ["ab"], "also where that is only its owner"),
    ((A, B), "x a, y b & a: skipped no_longer_holds", ["a", "b"], "what ends in the same look is not shared"),
    ((A, B), "xy a & b=a, y, xy a & a: skipped superseded, y", ["ab", "ab"], "who fires again stands for both as well"),
    ((AS_ASKS, B), "x a & a: pause waiting mode, xy b=a", ["ab"], "what waits for a stronger rule is shared"),
    ((A, a_rule("b", Y, "pause", "optimisation OFF")), "xy a & b", ["a", "b", "b"], "a sequence only as a whole"),
    (SEVERAL, "x a & b & c=b, xy d=b", ["a", "bcd"], "only the write of the same wish is joined"),
)
def test_an_open_write_is_shared(rules: tuple[Rule, ...], looks: str, shared: list[str]) -> None:
    def at(story: Story, city: str) -> Story:
        return story.event(city=city.strip("-"))

    story = a_story(*rules, confirming=False)
    assert course(story, looks, at) == looks
    assert ["".join(write.rules) for write in story.writes.values()] == shared
    assert story.look().outcome == ([], [], [], [])


def test_a_shadow_stands_for_no_live_rule_and_no_shadow_keeps_a_write_alive() -> None:
    story = a_story(a_rule("a", X, mode="shadow"), a_rule("b", Y), a_rule("c", X, mode="shadow"), confirming=False)
    looked = story.event(city="xy").look()
    assert looked.fired == ["a", "b", "c=a"]
    assert looked.planned == ["a: pause shadowed mode", "b: pause"]
    assert story.write("b").rules == ("b",)


def test_joining_and_a_surge_are_one_move_of_a_write() -> None:
    story = many(1, rule=a_rule("r", X))
    story.look()
    story.reload(a_rule("r", X), a_rule("s", Y))
    story.event(of(1), city="xy")
    fire(story, 2, 3)
    looked = story.look()
    assert "s@n1=r" in looked.fired
    write = story.write("r", 0)
    assert (write.state, write.reason, write.rules) == ("waiting", "surge", ("r", "s"))


# What a newer firing replaces.


def test_a_newer_firing_with_another_value_leaves_the_older_write_to_the_rule_that_wants_it() -> None:
    rule = on_tcs("r", "create_draft =defaults.total_budget * 1.0")
    story = a_story(rule, a_rule("s", X, "create_draft 100"), confirming=False).put("defaults", {"total_budget": 100.0})
    for names in ("a", "b"):
        story.put(TCS, tcs(names)).look()
    assert story.event(city="x").fires() == ["s=r"]
    story.put("defaults", {"total_budget": 200.0})
    looked = story.put(TCS, tcs("c")).look()
    assert (looked.fired, looked.moved) == (["r"], [])
    assert [write.rules for write in story.writes.values()] == [("s",), ("r",)]


def test_a_firing_says_what_it_was_decided_on() -> None:
    text = f"({X}) && setup.state == 'NONE' && partner.currency == 'EUR' || budget_range.lower_limit > 9.0"
    story = a_story(a_rule("r", text, "boost")).put("partner", {"currency": "EUR", "name": "Acme"})
    story.blind("budget_range").event(city="x").look()
    read_at = "2026-03-01T12:00:00Z"
    assert story.records[0].facts == {
        "event": {"value": {"city": "x"}, "read_at": read_at},
        "partner": {"value": {"currency": "EUR"}, "read_at": read_at},
        "setup": {"value": {"state": "NONE"}, "read_at": read_at},
    }, "of a record only what the text names, and nothing of what could not be read"
