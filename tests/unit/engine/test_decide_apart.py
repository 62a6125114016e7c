"""A portion of a look: what fires nothing is decided on alone, and comes to the same as if all was decided at once."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.looks import PARTNER, START, Story, a_rule, a_story
from worker.engine.decide import Decision, decide, decide_apart
from worker.engine.looks import Look, Settings
from worker.model.facts import EventId, Observation
from worker.model.rules import Rule, RuleSet
from worker.rules.cron import CronTimes

QUIET, CALLED_OFF, WAITS, OVER = (EventId(name) for name in ("quiet", "called-off", "waits", "over"))
PAUSE = a_rule("pause", "event.status == 'cancelled'")
FOR_A_WHILE = a_rule("wait", "event.city == 'x'", hold_for=timedelta(minutes=1))


def many(*rules: Rule) -> Story:
    """Events that are quiet, fire, are held, and end what waits for a person."""
    story = a_story(*rules, confirming=False, settings=Settings(mode="approve"))
    story.facts.clear()
    for event in (QUIET, CALLED_OFF, WAITS, OVER):
        story.event(event, city="y")
    story.event(OVER, status="cancelled")
    story.look()
    story.event(OVER, status="active")
    story.event(CALLED_OFF, status="cancelled")
    story.event(WAITS, city="x")
    return story


def looked(story: Story, monkeypatch: pytest.MonkeyPatch) -> tuple[RuleSet, Look, Settings]:
    """What the next look would be decided from."""
    given: list[tuple[RuleSet, Look, Settings]] = []

    def note(rules: RuleSet, look: Look, settings: Settings) -> Decision:
        given.append((rules, look, settings))
        return decide(rules, look, settings)

    monkeypatch.setattr("tests.looks.decide", note)
    story.look()
    return given[-1]


def said(*decisions: Decision) -> tuple[set[str], ...]:
    """All that several decisions come to, in no order."""

    def all_of(name: str) -> set[str]:
        return {repr(one) for decision in decisions for one in getattr(decision.commit, name)}

    judged = {repr(one) for decision in decisions for one in decision.judged.items()}
    held = {repr(one) for decision in decisions for one in decision.held.items()}
    return (*(all_of(name) for name in ("memory", "records", "moves", "plans")), judged, held)


def only(look: Look, events: Iterable[EventId]) -> Look:
    among = set(events)
    return replace(look, observations={event: one for event, one in look.observations.items() if event in among})


def test_what_fires_is_left_alone_and_both_parts_together_are_the_whole_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules, look, settings = looked(many(PAUSE, FOR_A_WHILE), monkeypatch)
    apart, together = decide_apart(rules, look, settings)

    assert together == {CALLED_OFF}
    assert [one.before.key.event for one in apart.commit.moves] == [OVER], "its condition no longer holds"
    assert apart.commit.plans == ()
    assert {event for event, _ in apart.held} == {WAITS}
    assert not any(event == CALLED_OFF for event, _ in [*apart.memories, *apart.judged])
    assert said(apart, decide(rules, only(look, together), settings)) == said(decide(rules, look, settings))


def test_a_time_that_was_missed_is_said_once_for_all_and_so_not_in_a_portion() -> None:
    daily = a_rule("daily", "event.status == 'active'", at=CronTimes(source="0 13 * * *"))
    story = a_story(daily)
    story.look()
    observations = {
        event: Observation(partner=PARTNER, event=event, facts=facts) for event, facts in story.facts.items()
    }
    late = START + timedelta(days=2)
    look = Look(
        partner=PARTNER, now=late, memory=story.memory, observations=observations, memories=dict(story.memories)
    )
    apart, together = decide_apart(story.rules, look, story.settings)

    assert together == set(observations)
    assert apart.commit.empty
    assert [one.reason for one in decide(story.rules, look, story.settings).commit.records] == ["missed"]
