"""Rules without `on_change`: episodes, `for`, `cooldown`, `limit`, `repeat: enforce`, first looks after a silence."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.builders import cases
from tests.polls import E1, HOUR, INTERVAL, MINUTE, Story, a_rule, a_story, approved, course
from worker.engine.views import DecidingSettings
from worker.model.facts import EventId, RuleId
from worker.model.writes import State

CANCELLED = "event.status == 'cancelled'"
GONE_QUIET = timedelta(hours=2)


def seen(story: Story, look: str) -> Story:
    """The condition is true, false or unknown, or the target has ``drifted``; ``~`` before it: after two hours in which
    nobody looked."""
    if look.startswith("~"):
        story.silence(GONE_QUIET)
    if look.endswith("drifted"):
        return story.event(client_campaign_status="RUNNING")
    return story.blind("event") if look.endswith("?") else story.event(status=STATUSES[look[-1]])


STATUSES = {"T": "cancelled", "F": "active"}


@cases(
    "keys, looks",
    ({}, "F, T r", "false opens nothing; it opens at a definite true"),
    ({}, "?, T r", "unknown opens nothing, and before the first true is no stretch of anything"),
    ({}, "T r, T", "true at the first look opens an episode and fires; one episode fires once"),
    ({}, "T r, ?, T", "unknown closes nothing, so the true after it is the same episode"),
    ({}, "T r, F, ?, T r", "unknown resets nothing: the episode is closed before as after"),
    ({}, "T r, ?, ?, ?, ?, ?, ?, T", "however long it is unknown"),
    ({}, "T r, F, T r, F, T r", "it closes at a definite false, and each stretch of true is one of its own"),
    ({"cooldown": 30 * MINUTE}, "T r, F, T r: cooldown, T/10, T/10, T/10 r, T", "held until it is over, and not lost"),
    ({"cooldown": 72 * HOUR}, "T r, F, T r: cooldown, T/1440, T/1440, T/1440 r", "it may be longer than a day"),
    ({"per_event_per_day": 1}, "T r, F, T r: limit, T/60, T/1320, T/60 r, T", "over 24 rolling hours"),
    ({"per_event_per_day": 2}, "T r, F/60, T/60 r, F/60, T/60 r: limit, T/1140, T/60 r", "until one is a day old"),
)
@pytest.mark.parametrize("restarting", [False, True])
def test_an_episode_is_one_stretch_of_true_and_fires_once(keys: dict[str, Any], looks: str, restarting: bool) -> None:
    story = a_story(a_rule("r", CANCELLED, **keys), restarting=restarting)
    assert course(story, looks, seen, MINUTE) == looks


@cases(
    "state, proved, ends",
    ("planned", False, True, "a write that is planned is not sent"),
    ("waiting", False, True, "nor is one that waits"),
    ("unknown", False, False, "it may have taken effect: only reading settles it"),
    ("applied", False, False, "it has taken effect"),
    ("needs_human", False, False, "nobody knows, so nothing ends it"),
    ("needs_human", True, True, "its last attempt is proved absent"),
)
def test_what_a_closing_episode_ends(state: State, proved: bool, ends: bool) -> None:
    story = a_story(a_rule("r", CANCELLED), confirming=False)
    seen(story, "T").look()
    write = story.write("r")
    sent = state not in ("planned", "waiting")
    story.writes[write.id] = replace(write, state=state, absent_proved=proved, attempt=int(sent))
    assert seen(story, "?").look().moved == [], "unknown closes nothing"
    assert seen(story, "F").look().moved == (["r: skipped no_longer_holds"] if ends else [])


@cases(
    "looks",
    ("T r: for, T, T, T r", "it counts from the first definite true look"),
    ("T r: for, T, ? r: fact_unknown, T r", "unknown resets nothing, and the time goes on"),
    ("T r: for, T, T, ? r: fact_unknown, T r", "unknown fires nothing, even once the time is over"),
    ("T r: for, T, F, T r: for, T, T, T r", "a definite false restarts it"),
    ("?, T r: for, T, T, T r", "unknown starts nothing"),
)
@pytest.mark.parametrize("restarting", [False, True])
def test_for_counts_from_the_first_definite_true_look(looks: str, restarting: bool) -> None:
    story = a_story(a_rule("r", CANCELLED, hold_for=3 * MINUTE), restarting=restarting)
    assert course(story, looks, seen, MINUTE) == looks


@cases(
    "keys, then, looks, episode",
    ({"hold_for": 40 * MINUTE}, "ask", "T r: for, ~T, T/39, T/1 r & r: pause waiting gap", 1, "for begins anew"),
    ({"hold_for": 40 * MINUTE}, "ask", "T r: for, T/50 r", 1, "no longer than the gap, it restarts nothing"),
    ({}, "ask", "F, ~?, T r & r: pause waiting gap", 1, "unknown is no look at it, so this one is the first"),
    ({}, "reobserve", "F, ~T r: gap, T, T", 1, "what is only remembered is said once, and does not fire later"),
    ({"repeat": "enforce"}, "reobserve", "T r, ~drifted r: gap, drifted/60", 1, "nor does drift: no number is used up"),
)
def test_the_first_look_after_a_silence(keys: Any, then: Any, looks: str, episode: int) -> None:  # noqa: ANN401
    story = a_story(a_rule("r", CANCELLED, **keys), settings=DecidingSettings(gap_then=then))
    assert course(story, looks, seen) == looks
    assert story.memories[E1, RuleId("r")].episode == episode


@pytest.mark.parametrize("restarting", [False, True])
def test_a_new_ledger_rule_or_event_is_no_gap(restarting: bool) -> None:
    story = a_story(a_rule("old", CANCELLED), restarting=restarting)
    story.look()
    story.silence(GONE_QUIET).look()
    story.reload(a_rule("old", CANCELLED), a_rule("new", "event.status == 'active'"))
    assert story.look().planned == ["new: pause"], "the rule is new, so nothing was missed"
    assert story.event(EventId("e2"), status="cancelled").look().planned == ["old: pause"], "the event is new"
    story.event(EventId("e3"))
    story.blind("event", event=EventId("e3")).look()
    story.event(EventId("e3"), status="cancelled")
    assert story.look().planned == ["old: pause"], "a new event whose facts could not be read at once is still new"


def test_an_event_that_comes_back_is_as_after_a_gap_and_after_a_reset_it_is_called_so() -> None:
    for reset, reason in ((False, "gap"), (True, "reset")):
        story = a_story(a_rule("r", CANCELLED), settings=DecidingSettings(gap_then="act" if reset else "ask"))
        story.look()
        seen(story, "T")
        at = story.now + MINUTE
        story.memory = replace(story.memory, returned={E1: at}, reset_at=at if reset else None)
        assert story.look(2 * MINUTE).planned == [f"r: pause waiting {reason}"]


def test_after_a_restored_ledger_what_is_true_at_the_first_look_waits_known_or_not() -> None:
    story = a_story(a_rule("r", CANCELLED)).event(EventId("e2"), status="cancelled")
    story.look()
    story.now += MINUTE
    story.memory = replace(story.memory, restored_at=story.now)
    story.memories.clear()
    story.event(EventId("e3"), status="cancelled")
    seen(story, "T")
    story.stored = {key: replace(memory, episode=0) for key, memory in story.stored.items()}
    story.writes.clear()
    assert story.look().planned == ["r: pause waiting restored"] * 3
    story.event(EventId("e3"), status="active").look()
    story.event(EventId("e3"), status="cancelled")
    assert story.look().planned == ["r: pause"], "only the first look is one after the restored ledger"


def test_a_rule_that_comes_as_a_clock_is_set_back_was_not_looked_at_before() -> None:
    """Found by world 20926577: its first look after a restored ledger was an ordinary one, and asked nobody."""
    story = a_story(a_rule("old", "event.status == 'archived'"))
    story.memory = replace(story.memory, restored_at=story.now)
    story.look()
    story.now -= 30 * MINUTE
    seen(story.reload(a_rule("new", CANCELLED)), "T")
    assert story.look().planned == ["new: pause waiting restored"]


def test_a_held_firing_is_logged_when_its_reason_changes_and_names_until_when() -> None:
    story = a_story(a_rule("r", CANCELLED, hold_for=MINUTE, cooldown=timedelta(minutes=30)))
    seen(story, "T")
    assert [story.look(after).held for after in (INTERVAL, INTERVAL)] == [["r: for"], []]
    story.look(MINUTE)
    seen(story, "F").look()
    seen(story, "T").look()
    assert story.look(MINUTE).held == ["r: cooldown"]
    assert story.records[-1].why.endswith("Z"), "it says until when"
    assert seen(story, "?").look().held == ["r: fact_unknown"]


def test_cooldown_and_limit_count_from_what_was_sent() -> None:
    story = a_story(a_rule("r", CANCELLED, cooldown=HOUR, per_event_per_day=1), confirming=False)
    for _ in range(3):
        assert seen(story, "T").fires() == ["r"], "what was never sent holds nothing"
        seen(story, "F").look()


# What `repeat` means beside `once`.


def enforced(**keys: Any) -> Story:  # noqa: ANN401 - fields of Rule
    story = a_story(a_rule("r", CANCELLED, repeat="enforce", **keys))
    assert seen(story, "T").fires() == ["r"]
    return story


def test_enforce_opens_a_new_episode_when_the_target_has_drifted_no_sooner_than_the_cooldown() -> None:
    for keys, wait in (({}, 10 * MINUTE), ({"cooldown": MINUTE}, MINUTE), ({"cooldown": HOUR}, HOUR)):
        story = enforced(**keys)
        assert story.fires(2 * HOUR) == [], "the target is as wanted"
        assert story.event(client_campaign_status="RUNNING").fires() == ["r"], "drifted, and the cooldown is long over"
        assert story.event(client_campaign_status="RUNNING").look().held == ["r: cooldown"]
        assert story.fires(wait - 2 * INTERVAL) == []
        assert story.fires(INTERVAL) == ["r"]
        assert [write.key.episode for write in story.writes.values()] == [1, 2, 3]


def test_enforce_acts_only_on_what_it_sees() -> None:
    story = enforced().event(client_campaign_status="RUNNING").blind("event")
    assert story.fires(HOUR) == [], "neither the condition nor the target is known"
    assert story.put("event", {"status": "cancelled"}).fires(HOUR) == [], "a field that is not there has not drifted"
    assert story.event(client_campaign_status=None).fires(HOUR) == [], "null: there is nothing to pause"


def test_enforce_waits_until_the_last_write_is_final() -> None:
    story = a_story(a_rule("r", CANCELLED, repeat="enforce"), confirming=False)
    seen(story, "T").look()
    assert story.send(story.write("r"), "unknown", effect=False).fires(HOUR) == []
    assert story.end(story.write("r"), "confirmed").fires() == ["r"]


@pytest.mark.parametrize("end", ["rejected", "refused", "unconfirmed", "cancelled"])
def test_enforce_stops_after_a_bad_end_until_the_wanted_value_was_read_once(end: State) -> None:
    story = a_story(a_rule("r", CANCELLED, repeat="enforce"), confirming=False)
    seen(story, "T").look()
    assert story.end(story.write("r"), end).look(HOUR).held == ["r: drift"], "it stops, and says so"
    assert story.look(HOUR).outcome == ([], [], [], []), "once"
    story.event(client_campaign_status="PAUSED").look()
    assert story.event(client_campaign_status="RUNNING").fires() == ["r"], "the wanted value has been read once"


@pytest.mark.parametrize("end", ["rejected", "refused", "unconfirmed", "cancelled"])
def test_enforce_stops_after_a_bad_end_of_a_write_that_it_shared_and_not_of_any_other(end: State) -> None:
    enforcing = a_rule("z", CANCELLED, repeat="enforce")
    story = a_story(a_rule("a", CANCELLED, mode="approve", priority=1), enforcing, confirming=False)
    assert seen(story, "T").look().fired == ["a", "z=a"]
    assert story.end(story.write("a"), end).look(HOUR).held == ["z: drift"]
    story.event(client_campaign_status="PAUSED").look()
    assert story.event(client_campaign_status="RUNNING").fires() == ["z"], "the wanted value has been read once"
    story.end(story.write("z"), "confirmed")
    assert story.fires(HOUR) == ["z"], "what it shares no more says nothing of a later firing of its own"


@pytest.mark.parametrize(
    ("reason", "looks"),
    [("conflict", "T/60 r"), ("rule_edited", "T/60 r"), ("person", "T/60 r: drift, F, T r")],
    ids=["another rule was stronger", "the rule was edited", "somebody said no, and its condition was false since"],
)
def test_enforce_goes_on_where_nobody_said_no_to_what_is_true_now(reason: str, looks: str) -> None:
    story = a_story(a_rule("r", CANCELLED, repeat="enforce"), confirming=False)
    seen(story, "T").look()
    assert course(story.end(story.write("r"), "cancelled", reason), looks, seen) == looks


def test_enforce_keeps_to_the_limit() -> None:
    looks = "drifted/60 r: limit, drifted/1380 r"
    assert course(enforced(per_event_per_day=1), looks, seen) == looks


def test_enforce_acts_on_its_status_field_where_one_of_two_writes_cannot_be_read_back() -> None:
    story = a_story(a_rule("r", CANCELLED, "frontend_status HIDDEN", repeat="enforce"))
    assert story.event(frontend_status="DEFAULT", status="cancelled").fires() == ["r"]
    assert story.fires(HOUR) == [], "as wanted"
    assert story.event(frontend_status="DEFAULT").fires() == ["r"]


@pytest.mark.parametrize("looks", ["T r, ~drifted", "F, ~T"], ids=["drift was seen first", "it had not fired before"])
def test_later_drift_does_not_wait_once_what_waited_after_a_silence_was_let_go(looks: str) -> None:
    story = a_story(a_rule("r", CANCELLED, repeat="enforce"))
    assert course(story, looks, seen) == f"{looks} r & r: pause waiting gap"
    approved(story, story.write("r"))
    story.look()
    assert course(story, "drifted/60 r", seen) == "drifted/60 r", "the wanted value was read in between"


def test_an_enforcing_rule_whose_value_cannot_be_computed_leaves_the_target_alone() -> None:
    rule = a_rule("r", CANCELLED, "create_draft =defaults.total_budget * 2.0", repeat="enforce")
    story = a_story(rule).put("defaults", {"total_budget": 100.0})
    assert seen(story, "T").fires() == ["r"]
    story.put("setup", {"state": "NONE"})
    assert story.blind("defaults").fires(HOUR) == []
