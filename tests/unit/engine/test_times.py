"""Rules with `at`: looked at only at their times, each of them an episode, and what is missed is told and left."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.polls import E1, HOUR, MINUTE, PARTNER, START, Story, a_rule, a_story, on_tcs, seen
from worker.engine.decide import decide
from worker.engine.deciding import clocked, next_due
from worker.engine.episodes import JUST_AFTER, momentary
from worker.engine.observe import wanted_keys
from worker.engine.views import DecidingSettings, PollView
from worker.model.facts import EventId, FactKey, Observation, RuleId
from worker.model.rules import Rule
from worker.rules.spelling import CronTimes

CANCELLED = "event.status == 'cancelled'"
DAY = 24 * HOUR
FIVE_PAST = CronTimes(source="5 12 * * *")
"""Five minutes after a story begins, and every day after."""
E2 = EventId("e2")


def at_five_past(when: str | None = CANCELLED, *do: str, rule_id: str = "r", **keys: Any) -> Rule:  # noqa: ANN401 - fields of Rule
    return replace(a_rule(rule_id, when, *do, at=FIVE_PAST), **keys)


def started(*rules: Rule, **keys: Any) -> Story:  # noqa: ANN401 - fields of Story
    """A story whose first look is made, three seconds after it begins."""
    story = a_story(*(rules or (at_five_past(),)), **keys)
    assert story.look().outcome == ([], [], [], [])
    return story


def to(story: Story, minutes: float) -> timedelta:
    """How long until so many minutes after the beginning."""
    return START + timedelta(minutes=minutes) - story.now


def test_what_is_not_true_at_the_time_waits_for_the_next_one() -> None:
    story = started(at_five_past(), settings=DecidingSettings(gap=2 * DAY))
    assert story.look(to(story, 5)).outcome == ([], [], [], [])
    assert story.event(status="cancelled").fires(to(story, 6)) == []
    assert story.fires(to(story, 5 + 1440)) == ["r"]


@pytest.mark.parametrize("minutes", [9, 30, 64.9])
def test_an_unknown_condition_is_waited_for_as_long_as_an_hour(minutes: float) -> None:
    story = started(restarting=True).blind("event")
    assert story.look(to(story, 5)).held == ["r: fact_unknown"]
    assert story.look().outcome == ([], [], [], [])
    assert story.event(status="cancelled").fires(to(story, minutes)) == ["r"]
    assert story.fires() == []


def test_after_an_hour_the_time_is_missed_and_left() -> None:
    story = started().blind("event")
    story.look(to(story, 5))
    assert story.look(to(story, 65.1)).held == ["r: missed"]
    assert story.event(status="cancelled").fires() == []


def test_facts_that_were_lacking_until_the_next_time_are_told_and_the_next_time_begins() -> None:
    rule = replace(at_five_past(), at=CronTimes(source="5-59/10 12 * * *"))
    story = started(rule, restarting=True).blind("event")
    assert story.look(to(story, 5)).held == ["r: fact_unknown"]
    assert story.look(to(story, 14.9)).held == []
    looked = story.look(to(story, 15))
    assert looked.held == ["r: fact_unknown", "r: missed"]
    assert story.look().held == []
    assert story.event(status="cancelled").fires(to(story, 22)) == ["r"], "and has its own time to be read"
    assert story.fires(to(story, 25)) == ["r"]


def test_a_time_that_nobody_looked_at_is_told_once_for_all_its_events_and_left() -> None:
    story = a_story(at_five_past())
    for number in range(2, 13):
        story.event(EventId(f"e{number}"))
    story.look()
    looked = story.event(status="cancelled").look(to(story, 11))
    assert looked.outcome == ([], ["r: missed"], [], [])
    (record,) = [one for one in looked.commit.records if one.kind == "held"]
    assert "2026-03-01T12:05Z went by, and is left: 12 events" in record.why
    assert story.look().outcome == ([], [], [], [])


@pytest.mark.parametrize(
    ("first_look", "fires", "reason"),
    [
        (7.0, ["r"], "two minutes after the time it is not missed"),
        (10.1, [], "more than five minutes after, it is; and what was before its first look is not told"),
    ],
)
def test_a_new_rule_acts_only_on_a_time_that_is_not_missed(first_look: float, fires: list[str], reason: str) -> None:
    story = a_story(at_five_past()).event(status="cancelled")
    looked = story.look(to(story, first_look))
    assert (looked.fired, looked.held) == (fires, []), reason


@pytest.mark.parametrize("restarting", [False, True])
def test_a_time_is_dealt_with_once_also_over_restarts(restarting: bool) -> None:
    story = started(at_five_past(), restarting=restarting).event(status="cancelled")
    fired = [story.fires(to(story, 5 + minute)) for minute in range(5)]
    assert fired == [["r"], [], [], [], []]


def test_a_clock_that_is_set_back_brings_no_time_again() -> None:
    story = started().event(status="cancelled")
    assert story.fires(to(story, 5)) == ["r"]
    story.now -= 10 * MINUTE
    assert [story.fires(MINUTE) for _ in range(15)] == [[]] * 15


def test_a_rule_that_rested_is_told_of_no_missed_time() -> None:
    story = started().reload(replace(at_five_past(), enabled=False))
    story.look()
    story.look(to(story, 30))
    assert story.reload(at_five_past()).look().outcome == ([], [], [], [])


def test_what_paced_the_rule_for_too_long_makes_its_time_a_missed_one() -> None:
    story = started(at_five_past(cooldown=25 * HOUR), settings=DecidingSettings(gap=9 * DAY)).event(status="cancelled")
    assert story.fires(to(story, 5)) == ["r"]
    assert story.look(to(story, 5 + 1440)).held == ["r: cooldown"]
    assert story.look(to(story, 7 + 1440)).held == []
    assert story.look(to(story, 11 + 1440)).held == ["r: missed"]
    assert story.fires(to(story, 200 + 1440)) == [], "the cooldown is over, and the time as well"
    assert story.fires(to(story, 5 + 2880)) == ["r"]
    assert [write.key.episode for write in story.writes.values()] == [1, 3]


def test_a_silence_before_the_time_waits_for_a_person_only_where_the_time_is_its_first_look() -> None:
    story = started(settings=DecidingSettings(gap=HOUR)).event(status="cancelled")
    assert story.silence(DAY + to(story, 5)).look(timedelta()).planned == ["r: pause waiting gap"]
    story = started(settings=DecidingSettings(gap=HOUR)).event(status="cancelled")
    assert story.silence(DAY + to(story, -60)).look(timedelta()).outcome[0] == []
    assert story.look(DAY + to(story, 5)).planned == ["r: pause"]


def test_after_a_silence_it_may_only_be_remembered() -> None:
    story = started(settings=DecidingSettings(gap=HOUR, gap_then="reobserve")).event(status="cancelled")
    assert story.silence(DAY + to(story, 5)).look(timedelta()).held == ["r: gap"]
    assert story.look().outcome == ([], [], [], [])


def test_with_for_it_is_known_at_the_time_since_when_it_holds() -> None:
    story = started(at_five_past(hold_for=4 * MINUTE), settings=DecidingSettings(gap=9 * DAY)).event(status="cancelled")
    story.look(to(story, 2))
    assert story.look(to(story, 5)).held == ["r: for"]
    assert story.fires(to(story, 6)) == ["r"], "within five minutes of its time it has held for long enough"
    story.event(status="active").look()
    story.event(status="cancelled").look(to(story, 1440))
    story.blind("event").look(to(story, 1441))
    assert story.event(status="cancelled").fires(to(story, 1445)) == ["r"]


def test_an_episode_lasts_until_its_writes_are_final_and_so_does_its_wish() -> None:
    rules = (
        a_rule("night", None, "pause", at=CronTimes(source="5 12 * * *")),
        a_rule("morning", None, "run", at=CronTimes(source="30 12 * * *")),
    )
    story = started(*rules)
    assert story.fires(to(story, 5)) == ["night"]
    story.look()
    assert story.fires(to(story, 30)) == ["morning"], "what was paused in the evening runs in the morning"
    waiting = started(*rules, confirming=False)
    assert waiting.fires(to(waiting, 5)) == ["night"]
    waiting.look()
    assert waiting.look(to(waiting, 30)).held == ["morning: conflict"]
    assert waiting.send(waiting.write("night")).fires(to(waiting, 31)) == [], "a time that lost is dealt with"


def test_a_standing_wish_of_another_rule_holds_a_time_back() -> None:
    rules = (a_rule("stop", CANCELLED), at_five_past(None, "run", rule_id="go"))
    story = started(*rules).event(status="cancelled")
    assert story.fires() == ["stop"]
    assert story.look(to(story, 5)).held == ["go: conflict"]


def test_a_new_time_takes_the_place_of_what_an_older_one_could_not_send() -> None:
    story = started(at_five_past(), confirming=False, settings=DecidingSettings(gap=9 * DAY)).event(status="cancelled")
    story.look(to(story, 5))
    assert story.look(to(story, 5 + 1440)).moved == ["r: skipped superseded"]
    assert story.event(status="active").look(to(story, 5 + 2880)).moved == ["r: skipped no_longer_holds"]


def test_a_change_waits_for_the_time_and_is_judged_then() -> None:
    story = a_story(on_tcs(at=FIVE_PAST))
    seen(story, "a").look()
    looked = seen(story, "b").look(to(story, 1))
    assert (looked.fired, looked.held) == ([], ["r: at"])
    assert seen(story, "c").look(to(story, 2)).held == [], "said once"
    assert story.fires(to(story, 5)) == ["r"]
    assert seen(story, "d").fires(to(story, 6)) == [], "the time is dealt with"


def test_a_change_that_is_taken_back_before_the_time_fires_nothing() -> None:
    story = a_story(on_tcs(at=FIVE_PAST))
    for look, minutes in (("a", 0.1), ("b", 1), ("a", 2)):
        seen(story, look).look(to(story, minutes))
    assert story.fires(to(story, 5)) == []
    assert seen(story, "b").fires(to(story, 6)) == [], "nothing was pending at the time"


def test_a_false_condition_at_the_time_consumes_the_change() -> None:
    story = a_story(on_tcs(at=FIVE_PAST))
    for look, minutes in (("a", 0.1), ("b", 1), ("F", 5)):
        seen(story, look).look(to(story, minutes))
    assert seen(story, "T").fires(to(story, 6)) == []


def test_a_change_whose_time_is_missed_is_told_and_waits_for_the_next_one() -> None:
    story = a_story(on_tcs(at=FIVE_PAST), settings=DecidingSettings(gap=9 * DAY))
    seen(story, "a").look()
    seen(story, "b").look(to(story, 1))
    assert story.look(to(story, 11)).held == ["r: missed"]
    assert story.fires(to(story, 5 + 1440)) == ["r"]


def test_a_change_that_cannot_be_judged_at_the_time_is_judged_within_five_minutes() -> None:
    story = a_story(on_tcs(at=FIVE_PAST))
    seen(story, "a").look()
    seen(story, "b").look(to(story, 1))
    assert seen(story, "U").look(to(story, 5)).held == ["r: fact_unknown"]
    assert seen(story, "T").fires(to(story, 6)) == ["r"]


def test_nothing_is_read_for_a_rule_between_its_times() -> None:
    rule = at_five_past("setup.state == 'DRAFT'")
    seen_now = Observation(partner=a_story().memory.partner, event=E1, facts={})
    assert wanted_keys(rule, seen_now, START) == frozenset()
    assert wanted_keys(rule, seen_now, START + 6 * MINUTE) == {FactKey(name="setup")}
    assert wanted_keys(rule, seen_now, START + 66 * MINUTE) == frozenset()
    held = replace(rule, hold_for=MINUTE)
    assert wanted_keys(held, seen_now, START) == {FactKey(name="setup")}, "with for it is looked at all the while"


def test_the_clock_can_change_a_rule_with_at_when_its_time_comes() -> None:
    story = started()
    rule = story.rules.rules[0]
    seen_now = Observation(partner=story.memory.partner, event=E1, facts=story.facts[E1])

    def due_at() -> datetime:
        memory = story.memories.get((E1, RuleId("r")))
        return next_due(rule, clocked(rule), seen_now, memory, (), (story.now, story.now + 2 * DAY))

    assert due_at() == START + 5 * MINUTE
    story.blind("event").look(to(story, 6))
    assert due_at() == START + 65 * MINUTE + JUST_AFTER, "it waits for facts, and is over after an hour"
    story.look(to(story, 66))
    assert due_at() == START + 5 * MINUTE + DAY
    story = started()
    story.look(to(story, 0))
    story.now = START + 6 * MINUTE
    assert due_at() == story.now, "a time that has come and was not looked at"
    story.event(status="active").look()
    assert due_at() == START + 5 * MINUTE + DAY
    fresh = next_due(rule, clocked(rule), seen_now, None, (), (story.now, story.now + HOUR))
    assert fresh == story.now


def test_what_is_asked_for_at_a_time_only_is_not_waited_for() -> None:
    assert momentary([at_five_past()])
    assert not momentary([at_five_past(), a_rule("other", CANCELLED)])
    assert not momentary([on_tcs(at=FIVE_PAST)])


def test_between_its_times_nothing_is_said_of_its_condition() -> None:
    story = started()
    assert story.look().decision.judged == {}
    assert (E1, RuleId("r")) in story.look(to(story, 5)).decision.judged


def test_a_time_that_was_missed_is_said_once_for_all_events_also_where_they_come_in_pieces() -> None:
    daily = a_rule("daily", "event.status == 'active'", at=CronTimes(source="0 13 * * *"))
    story = a_story(daily)
    story.look()
    events = [EventId("e1"), EventId("e2")]
    facts = next(iter(story.facts.values()))
    late = START + timedelta(days=2)
    known = next(iter(story.memories.values()))
    look = PollView(
        partner=PARTNER,
        now=late,
        memory=story.memory,
        observations={},
        memories={(event, daily.id): replace(known, event=event) for event in events},
    )

    def of(event: EventId) -> dict[EventId, Observation]:
        return {event: Observation(partner=PARTNER, event=event, facts=facts)}

    first = decide(story.rules, replace(look, observations=of(events[0]), more=True), story.settings)
    second = decide(story.rules, replace(look, observations=of(events[1]), missed=first.missed), story.settings)

    assert first.commit.records == ()
    (record,) = second.commit.records
    assert record.reason == "missed"
    assert "2 events (e1, e2)" in record.why
    assert second.missed == {}
