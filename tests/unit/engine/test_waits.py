"""Waits between two steps, and the limit of a whole rule, as the decision sees them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.polls import HOUR, MINUTE, Story, a_rule, a_story
from tests.unit.engine.test_times import FIVE_PAST, started, to
from worker.model.facts import EventId
from worker.model.rules import Rule, Watch
from worker.model.writes import Write

CANCELLED = "event.status == 'cancelled'"


def waiting(story: Story, over: bool = True) -> Write:
    """The wait of the story, as the executor leaves it: over, and held without an end; or held for an hour yet."""
    (wait,) = [one for one in story.writes.values() if one.waits and not one.final]
    held = replace(wait, held_by="wait", held_until=None if over else story.now + HOUR)
    story.writes[wait.id] = held
    return held


def begun(*rules: Rule) -> Story:
    story = a_story(*rules, confirming=False).event(status="cancelled", category="a")
    story.look()
    story.event(category="b").look()
    story.writes = {number: one for number, one in story.writes.items() if one.waits}
    return story


def test_a_wait_that_was_held_by_something_else_is_not_over() -> None:
    story = begun(a_rule("r", CANCELLED, "pause", "wait 3600", "run"))
    held = waiting(story)
    story.writes[held.id] = replace(held, held_by="sequence")
    assert story.look(2 * HOUR).planned == []


def test_an_unknown_condition_keeps_the_wait_and_a_value_that_cannot_be_computed_holds_it() -> None:
    story = begun(a_rule("r", CANCELLED, "wait 3600", "create_draft =setup.total_budget"))
    waiting(story)
    assert story.blind("event").look(HOUR).outcome == ([], [], [], [])
    assert story.event(status="cancelled").look().held == ["r: fact_unknown"]


@pytest.mark.parametrize(
    ("status", "planned", "moved"), [("cancelled", ["r: run"], "confirmed"), ("on", [], "skipped")]
)
def test_a_rule_with_at_asks_its_condition_when_the_wait_is_over(status: str, planned: list[str], moved: str) -> None:
    story = started(a_rule("r", CANCELLED, "wait 3600", "run", at=FIVE_PAST), confirming=False)
    story.event(status="cancelled").look(to(story, 5))
    waiting(story, over=False)
    assert story.event(status=status).look(MINUTE).outcome == ([], [], [], [])
    waiting(story)
    over = story.look(HOUR)
    assert over.planned == planned
    assert [one.split()[1] for one in over.moved] == [moved]


@pytest.mark.parametrize("watched", [(), (Watch(fact="event", by=("category",)),)])
def test_a_stronger_opposite_wish_holds_what_comes_after_a_wait_and_is_said_once(watched: tuple[Watch, ...]) -> None:
    story = begun(
        a_rule("r", CANCELLED, "wait 3600", "run", on_change=watched),
        a_rule("stronger", "event.capacity > 5.0", "pause", priority=1),
    )
    waiting(story, over=False)
    story.event(capacity=9).look()
    waiting(story)
    over = story.look(HOUR)
    assert (over.planned, over.held) == ([], ["r: conflict"])
    assert [story.look().held for _ in range(3)] == [[]] * 3
    assert story.event(capacity=1).look().planned == ["r: run"]


def three(story: Story) -> list[EventId]:
    events = [EventId(f"e{number}") for number in (1, 2, 3)]
    for event in events:
        story.event(event, status="cancelled")
    return events


def test_a_rule_fires_for_as_many_events_a_day_as_it_may_and_the_others_are_held() -> None:
    story = a_story(a_rule("r", CANCELLED, per_rule_per_day=2))
    three(story)
    looked = story.look()
    assert (looked.fired, looked.held) == (["r", "r@e2"], ["r: limit"])
    assert story.look(23 * HOUR).fired == []
    assert story.look(2 * HOUR).fired == ["r@e3"]


def test_a_firing_of_which_something_was_sent_counts_once_whatever_waits_of_it() -> None:
    story = a_story(a_rule("r", CANCELLED, "pause", "optimisation OFF", per_rule_per_day=2)).event(status="cancelled")
    story.look()
    last = max(story.writes.values(), key=lambda one: one.id)
    story.writes[last.id] = replace(last, state="planned", attempt=0)
    three(story)
    assert story.look(timedelta(minutes=1)).fired == ["r@e2"]
