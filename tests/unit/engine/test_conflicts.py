"""Several rules on one target: priority, ties, standing wishes, and what is stopped before it is sent."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.builders import cases
from tests.polls import BUDGET_500, HOUR, TCS, Story, a_rule, a_story, course, tcs
from worker.model.rules import Rule
from worker.model.writes import Mode

X, Y = "event.city == 'x' || event.city == 'xy'", "event.city == 'y' || event.city == 'xy'"


RUNS, RUNS_FIRST = a_rule("a", X, "run"), a_rule("a", X, "run", priority=1)
PAUSES, PAUSES_FIRST = a_rule("b", Y, "pause"), a_rule("b", Y, "pause", priority=1)
DRY_RUNS, DRY_PAUSES = replace(RUNS, mode="shadow"), replace(PAUSES, mode="shadow")


def at(story: Story, city: str) -> Story:
    """Whose condition holds now: x, y, xy, or with ``-`` nobody's."""
    return story.event(city=city.strip("-"))


@cases(
    "first, second, fires",
    (("run", 1), ("pause", 0), ["a"], "the higher priority wins, also where it spends"),
    (("run", 0), ("pause", 1), ["b"], "the higher priority wins"),
    (("run", 0), ("pause", 0), ["b"], "on a tie the wish that stops spending wins"),
    (("optimisation ON", 0), ("optimisation OFF", 0), ["b"], "of any target"),
    (("frontend_status HIDDEN", 0), ("frontend_status FLAGGED", 0), [], "neither stops spending, so neither acts"),
    (("create_draft 500", 0), ("create_draft 600", 0), [], "two drafts are opposite"),
    (("run", 0), ("optimisation OFF", 1), ["a", "b"], "other targets do not meet"),
    (("create_draft 500", 0), ("boost", 1), ["a", "b"], "creating and publishing are not opposite"),
    (("create_draft =100.0 * 5.0", 0), ("create_draft 600", 1), ["a", "b"], "a computed value is no standing wish"),
)
def test_of_two_opposite_wishes_in_one_look(first: tuple[str, int], second: tuple[str, int], fires: list[str]) -> None:
    rules = (a_rule("a", X, first[0], priority=first[1]), a_rule("b", Y, second[0], priority=second[1]))
    story = a_story(*rules)
    assert at(story, "xy").fires() == fires


@cases(
    "rules, looks",
    ((RUNS_FIRST, PAUSES), "x a, xy b: conflict, xy, y b", "a higher priority holds, said once, until its wish ends"),
    ((RUNS, PAUSES), "x a, xy b", "a lower one holds nobody: a tie, and the other stops spending"),
    ((replace(RUNS_FIRST, enabled=False), PAUSES), "xy b", "a disabled rule wishes nothing"),
    ((replace(RUNS_FIRST, mode="shadow"), PAUSES), "xy a & b & a: run shadowed mode", "a shadow moves no live rule"),
    ((DRY_RUNS, PAUSES_FIRST), "xy b & a: conflict", "a shadow rule shows what it would do beside the live ones"),
    ((DRY_RUNS, DRY_PAUSES), "xy b & a: conflict & b: pause shadowed mode", "and beside other shadows"),
)
def test_a_wish_that_stands(rules: tuple[Rule, ...], looks: str) -> None:
    assert course(a_story(*rules), looks, at) == looks


def test_unknown_keeps_a_wish() -> None:
    story = a_story(a_rule("a", "setup.state == 'DRAFT'", "run", priority=1), PAUSES)
    story.setup(state="DRAFT").look()
    story.blind("setup")
    assert at(story, "y").look().held == ["b: conflict"]


@pytest.mark.parametrize(
    ("keys", "reason"),
    [({"hold_for": HOUR}, "for"), ({"cooldown": timedelta(hours=2)}, "cooldown"), ({"per_event_per_day": 1}, "limit")],
)
def test_a_rule_wishes_as_long_as_its_episode_is_open_also_while_its_firing_is_held(
    keys: dict[str, Any], reason: str
) -> None:
    story = a_story(a_rule("a", X, "pause", priority=1, **keys), a_rule("b", Y, "run"))
    if reason != "for":
        assert at(story, "x").fires() == ["a"]
        at(story, "").look()
    assert at(story, "xy").look().held == [f"a: {reason}", "b: conflict"]
    assert at(story, "y").fires() == ["b"]


def on_tcs(rule_id: str, *do: str, **keys: Any) -> Rule:  # noqa: ANN401 - fields of Rule
    return a_rule(rule_id, "event.status == 'active'", *do, on_change="suggested_tcs", parameters=BUDGET_500, **keys)


def test_a_change_rule_wishes_until_its_write_is_final() -> None:
    story = a_story(on_tcs("a", "run", priority=1), PAUSES, confirming=False).put(TCS, tcs("k"))
    story.look()
    assert story.put(TCS, tcs("l")).fires() == ["a"]
    assert at(story, "y").look().held == ["b: conflict"]
    assert story.send(story.write("a"), "unknown", effect=False).fires() == []
    assert story.end(story.write("a"), "confirmed").fires() == ["b"]


def test_a_loser_with_many_rules_above_it_is_told_of_one() -> None:
    story = a_story(a_rule("a", X, "run", priority=2), PAUSES_FIRST, a_rule("c", X, "run"))
    looked = at(story, "xy").look()
    assert looked.fired == ["a"]
    assert looked.held == ["b: conflict", "c: conflict"], "b's wish stands too, while its episode is open"
    assert "rule b (priority 1) wants client_campaign_status to be PAUSED" in story.records[1].why


# What fired before a stronger wish came, and is not sent yet.


@pytest.mark.parametrize("mode", ["live", "approve"])
def test_no_unsent_write_goes_out_against_a_stronger_wish_that_came_later(mode: Mode) -> None:
    story = a_story(replace(RUNS, mode=mode), PAUSES_FIRST, confirming=False)
    at(story, "x").look()
    looked = at(story, "xy").look()
    assert (looked.fired, looked.moved) == (["b"], ["a: skipped conflict"])
    assert story.look().held == ["a: conflict"]
    story.send(story.write("b"))
    assert at(story, "x").fires() == ["a"], "it may act once the other ends"
    assert [write.key.episode for write in story.writes.values() if write.key.rule == "a"] == [1, 2]


def test_a_tie_that_neither_wins_stops_no_write_that_was_there_first() -> None:
    rules = (a_rule("a", X, "frontend_status HIDDEN"), a_rule("b", Y, "frontend_status FLAGGED"))
    looks = "x a, xy b: conflict"
    assert course(a_story(*rules, confirming=False), looks, at) == looks


def test_a_write_that_was_sent_is_not_stopped() -> None:
    story = a_story(RUNS, PAUSES_FIRST, confirming=False)
    at(story, "x").look()
    story.send(story.write("a"), "unknown", effect=False)
    assert at(story, "xy").look().moved == []


def test_a_shared_write_is_not_stopped_while_one_of_its_rules_is_strong_enough() -> None:
    strong = a_rule("s", "event.title == 's'", "run", priority=2)
    story = a_story(RUNS, strong, PAUSES_FIRST, confirming=False)
    assert story.event(city="x", title="s").fires() == ["a=s", "s"]
    looked = at(story, "xy").look()
    assert (looked.moved, looked.held) == ([], ["b: conflict"])
    looked = story.event(title="").look()
    assert (looked.fired, looked.moved) == (["b"], ["s: skipped conflict"]), "the strong one is gone"


def test_an_unsent_change_against_a_stronger_wish_is_consumed() -> None:
    story = a_story(on_tcs("a", "run"), PAUSES_FIRST, confirming=False).put(TCS, tcs("k"))
    story.look()
    story.put(TCS, tcs("l")).look()
    assert at(story, "y").look().moved == ["a: skipped conflict"]
    assert at(story, "").fires() == []


def test_the_write_of_a_rule_that_does_not_look_now_is_left_alone() -> None:
    asks = replace(RUNS, mode="approve")
    story = a_story(asks, PAUSES_FIRST)
    at(story, "x").look()
    story.reload(replace(asks, enabled=False), PAUSES_FIRST)
    assert at(story, "xy").look().moved == []
    assert story.states("a") == ["waiting"]
