"""Rules with `at`: looked at only at their times, each of them an episode, and what is missed is told and left."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.polls import E1, HOUR, INTERVAL, MINUTE, PARTNER, START, Story, a_rule, a_story, on_tcs, seen
from worker.engine.deciding import clocked, next_due
from worker.engine.episodes import JUST_AFTER, momentary, next_poll
from worker.engine.observe import wanted_keys
from worker.engine.views import DecidingSettings
from worker.model.commits import RuleMemory
from worker.model.facts import EventId, FactKey, Observation, RuleId
from worker.model.rules import Rule
from worker.rules.spelling import CronTimes

CANCELLED = "event.status == 'cancelled'"
DAY = 24 * HOUR
FIVE_PAST = CronTimes(source="5 12 * * *")
"""Five minutes after a story begins, and every day after."""
MEMORY = RuleMemory(partner=PARTNER, event=E1, rule=RuleId("r"))


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


ASKED, WATCHED = at_five_past("event.status == 'active'"), on_tcs(at=FIVE_PAST)
OFTEN = on_tcs(at=CronTimes(source="5-59/10 12 * * *"))


@pytest.mark.parametrize(
    ("rule", "looks", "fires", "held", "reason"),
    [
        (ASKED, "F 0.1, F 5, T 6, T 1445", "0001", [], "what is not true at the time waits for the next one"),
        (ASKED, "F 0.1, T 5, T 6, T 7, T 8, T 9", "010000", [], "a time is dealt with once"),
        (ASKED, "T 7", "1", [], "two minutes after it a new rule acts on it"),
        (ASKED, "T 10.1", "0", [], "more than five minutes after, it does not; what was before it is not told"),
        (ASKED, "F 0.1, U 5, U 5.1, T 9, T 9.1", "00010", ["fact_unknown"], "unknown is waited for, and that is said"),
        (ASKED, "F 0.1, U 5, T 30", "001", ["fact_unknown"], "as long"),
        (ASKED, "F 0.1, U 5, T 64.9, T 65", "0010", ["fact_unknown"], "as an hour"),
        (ASKED, "F 0.1, U 5, U 65.1, T 65.2", "0000", ["fact_unknown", "missed"], "after that it is missed, and left"),
        (WATCHED, "a 0.1, b 1, c 2, c 5, d 6", "00010", ["at", "at"], "a change waits for the time, and is told once"),
        (WATCHED, "a 0.1, b 1, a 2, a 5, b 6", "00000", ["at", "at"], "what is taken back before it fires nothing"),
        (WATCHED, "a 0.1, b 1, F 5, T 6", "0000", ["at"], "a false condition at the time consumes it"),
        (WATCHED, "a 0.1, b 1, b 11, b 1445", "0001", ["at", "missed"], "it is told as missed, and waits for the next"),
        (WATCHED, "a 0.1, b 1, U 5, T 6", "0001", ["at", "fact_unknown"], "unknown at the time, judged soon after it"),
        (OFTEN, "a 0.1, b 1, U 5, U 15, T 22", "00001", ["at", "fact_unknown"], "as long at the next time, too"),
    ],
)
@pytest.mark.parametrize("restarting", [False, True])
def test_conditions_and_changes_are_judged_at_the_time(
    rule: Rule, looks: str, fires: str, held: list[str], reason: str, restarting: bool
) -> None:
    """A look is what is seen, as `seen` spells it, and so many minutes after the beginning."""
    story = a_story(rule, settings=DecidingSettings(gap=9 * DAY), restarting=restarting)
    fired, told = "", list[str]()
    for look in looks.split(", "):
        shown, minutes = look.split()
        looked = seen(story, shown).look(to(story, float(minutes)))
        fired, told = fired + str(len(looked.fired)), told + looked.held
    assert (fired, told) == (fires, [f"r: {one}" for one in held]), reason


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


def test_with_for_a_clock_that_was_ahead_makes_no_time_wait_for_it() -> None:
    story = started(at_five_past(hold_for=4 * MINUTE)).event(status="cancelled")
    story.now += 4 * MINUTE
    story.look()
    story.now = START + INTERVAL
    story.look()
    assert story.fires(to(story, 5)) == ["r"], "true since the clock is right, and not since what it had come to"


def test_an_episode_lasts_until_its_writes_are_final_and_so_does_its_wish() -> None:
    rules = (at_five_past(None, rule_id="night"), a_rule("morning", None, "run", at=CronTimes(source="30 12 * * *")))
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


def test_what_a_time_looks_back_to_is_read_for_an_hour() -> None:
    rule = at_five_past("delta(statistics.tickets, '3h') > 0.0")
    seen_now, memory = Observation(partner=PARTNER, event=E1, facts={}), replace(MEMORY, at_time=START + 5 * MINUTE)
    tomorrow, tickets = START + DAY + 5 * MINUTE, {FactKey(name="statistics")}
    edges = {one: wanted_keys(rule, seen_now, tomorrow - 3 * HOUR + one) for one in (-MINUTE, 0 * HOUR, HOUR)}
    assert edges == {-MINUTE: frozenset(), 0 * HOUR: tickets, HOUR: tickets}
    assert next_poll(rule, memory, START + 2 * HOUR) == tomorrow - 3 * HOUR
    assert next_poll(rule, memory, tomorrow - 2 * HOUR) == tomorrow - 2 * HOUR + JUST_AFTER
    assert next_poll(rule, memory, tomorrow - HOUR) == tomorrow


def test_what_is_asked_for_at_a_time_only_is_not_waited_for() -> None:
    assert momentary([at_five_past()])
    assert not momentary([at_five_past(), a_rule("other", CANCELLED)])
    assert not momentary([on_tcs(at=FIVE_PAST)])


def test_between_its_times_nothing_is_said_of_its_condition() -> None:
    story = started()
    assert story.look().decision.judged == {}
    assert (E1, RuleId("r")) in story.look(to(story, 5)).decision.judged
