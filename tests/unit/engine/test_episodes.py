"""Rules without `on_change`: episodes, `for`, `cooldown`, `limit`, `repeat: enforce`, first looks after a silence."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.polls import E1, HOUR, INTERVAL, MINUTE, Story, a_rule, a_story, approved
from worker.engine.views import DecidingSettings
from worker.model.facts import EventId, RuleId
from worker.model.writes import State

CANCELLED = "event.status == 'cancelled'"
GONE_QUIET = timedelta(hours=2)


def seen(story: Story, truth: str) -> Story:
    """One status that makes the condition true, false or unknown."""
    return story.blind("event") if truth == "?" else story.event(status="cancelled" if truth == "T" else "active")


@pytest.mark.parametrize(
    ("looks", "fires", "reason"),
    [
        ("FT", "01", "false opens nothing; it opens at a definite true"),
        ("?T", "01", "unknown opens nothing, and before the first true is no stretch of anything"),
        ("TT", "10", "true at the first look opens an episode and fires; one episode fires once"),
        ("T?T", "100", "unknown closes nothing, so the true after it is the same episode"),
        ("TF?T", "1001", "unknown resets nothing: the episode is closed before as after"),
        ("T??????T", "10000000", "however long it is unknown"),
        ("TFTFT", "10101", "it closes at a definite false, and each stretch of true is an episode of its own"),
    ],
)
def test_an_episode_is_one_stretch_of_true_and_fires_once(looks: str, fires: str, reason: str) -> None:
    story = a_story(a_rule("r", CANCELLED))
    told = ""
    for truth in looks:
        seen(story, truth)
        told += str(len(story.fires()))
    assert told == fires, reason


def test_a_write_not_yet_sent_is_skipped_when_its_episode_closes_and_not_when_it_is_unknown() -> None:
    story = a_story(a_rule("r", CANCELLED), confirming=False)
    seen(story, "T").look()
    assert seen(story, "?").look().moved == [], "unknown closes nothing"
    assert seen(story, "F").look().moved == ["r: skipped no_longer_holds"]


@pytest.mark.parametrize(
    ("state", "proved", "ends", "reason"),
    [
        ("waiting", False, True, "a write that waits is not sent"),
        ("unknown", False, False, "it may have taken effect: only reading settles it"),
        ("applied", False, False, "it has taken effect"),
        ("needs_human", False, False, "nobody knows, so nothing ends it"),
        ("needs_human", True, True, "its last attempt is proved absent"),
    ],
)
def test_what_a_closing_episode_ends(state: State, proved: bool, ends: bool, reason: str) -> None:
    story = a_story(a_rule("r", CANCELLED), confirming=False)
    seen(story, "T").look()
    write = story.write("r")
    story.writes[write.id] = replace(write, state=state, absent_proved=proved, attempt=0 if state == "waiting" else 1)
    assert seen(story, "F").look().moved == (["r: skipped no_longer_holds"] if ends else []), reason


@pytest.mark.parametrize(
    ("looks", "fires", "reason"),
    [
        ("TTTT", "0001", "it counts from the first definite true look"),
        ("TT?T", "0001", "unknown resets nothing, and the time goes on"),
        ("TTT?T", "00001", "unknown fires nothing, even once the time is over"),
        ("TTFTTTT", "0000001", "a definite false restarts it"),
        ("?TTTT", "00001", "unknown starts nothing"),
    ],
)
@pytest.mark.parametrize("restarting", [False, True])
def test_for_counts_from_the_first_definite_true_look(looks: str, fires: str, reason: str, restarting: bool) -> None:
    story = a_story(a_rule("r", CANCELLED, hold_for=timedelta(minutes=3)), restarting=restarting)
    told = ""
    for truth in looks:
        seen(story, truth)
        told += str(len(story.fires(MINUTE)))
    assert told == fires, reason


def test_a_silence_longer_than_the_gap_restarts_for_and_a_shorter_one_does_not() -> None:
    stories = [a_story(a_rule("r", CANCELLED, hold_for=timedelta(minutes=40))) for _ in range(2)]
    for story, length, fires in zip(stories, (50 * MINUTE, GONE_QUIET), (["r"], []), strict=True):
        seen(story, "T").look()
        assert story.silence(length).fires() == fires, f"after a silence of {length}"
    story = stories[-1]
    assert story.fires(timedelta(minutes=39)) == []
    assert story.look(MINUTE).planned == ["r: pause waiting gap"]


def test_what_was_only_remembered_is_said_once_and_does_not_fire_later_in_its_episode() -> None:
    story = a_story(a_rule("r", CANCELLED), settings=DecidingSettings(gap_then="reobserve"))
    story.look()
    seen(story, "T")
    story.silence(GONE_QUIET)
    assert [story.look().held for _ in range(3)] == [["r: gap"], [], []]


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


def test_the_first_definite_look_is_the_first_after_a_silence() -> None:
    story = a_story(a_rule("r", CANCELLED))
    story.look()
    story.silence(GONE_QUIET)
    seen(story, "?").look()
    assert seen(story, "T").look().planned == ["r: pause waiting gap"], "unknown was no look at it"


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


@pytest.mark.parametrize(
    ("keys", "gaps_min", "fires", "reason"),
    [
        (
            {"cooldown": timedelta(minutes=30)},
            [10, 10, 10, 1],
            "00010",
            "held until the cooldown is over, and not lost",
        ),
        ({"cooldown": timedelta(days=3)}, [60 * 24, 60 * 24, 60 * 24], "0001", "a cooldown may be longer than a day"),
        ({"per_event_per_day": 1}, [60, 60 * 22, 60, 1], "00010", "over 24 rolling hours"),
    ],
)
def test_cooldown_and_limit_hold_and_do_not_lose(
    keys: dict[str, Any], gaps_min: list[int], fires: str, reason: str
) -> None:
    story = a_story(a_rule("r", CANCELLED, **keys))
    assert seen(story, "T").fires() == ["r"]
    seen(story, "F").look()
    told = str(len(seen(story, "T").fires()))
    for gap in gaps_min:
        told += str(len(story.fires(gap * MINUTE)))
    assert told == fires + "0" * (len(told) - len(fires)), reason


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


def test_limit_holds_until_the_oldest_of_the_day_is_a_day_old() -> None:
    story = a_story(a_rule("r", CANCELLED, per_event_per_day=2))
    fired = 0
    for truth in "TFTFT":
        seen(story, truth)
        fired += len(story.fires(HOUR))
    assert fired == 2
    assert story.records[-1].reason == "limit"
    assert story.fires(timedelta(hours=19)) == []
    assert story.fires(HOUR) == ["r"]


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
    optimised = a_story(a_rule("r", CANCELLED, "optimisation OFF", repeat="enforce"))
    assert seen(optimised, "T").fires() == ["r"]
    optimised.put("event", {"status": "cancelled"})
    assert optimised.fires(HOUR) == [], "the answer lacks the target's field, which is no drift"


def test_an_event_without_campaigns_has_not_drifted() -> None:
    story = enforced().event(client_campaign_status=None)
    assert story.fires(HOUR) == [], "null: there is nothing to pause"


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


@pytest.mark.parametrize("reason", ["conflict", "rule_edited"])
def test_enforce_goes_on_after_a_write_that_nobody_said_no_to(reason: str) -> None:
    story = a_story(a_rule("r", CANCELLED, repeat="enforce"), confirming=False)
    seen(story, "T").look()
    assert story.end(story.write("r"), "cancelled", reason).look(HOUR).planned == ["r: pause"]


def test_enforce_goes_on_after_the_condition_was_false() -> None:
    story = a_story(a_rule("r", CANCELLED, repeat="enforce"), confirming=False)
    seen(story, "T").look()
    story.end(story.write("r"), "cancelled").look(HOUR)
    seen(story, "F").look()
    assert seen(story, "T").fires() == ["r"]


def test_enforce_keeps_to_the_limit() -> None:
    story = enforced(per_event_per_day=1).event(client_campaign_status="RUNNING")
    assert story.look(HOUR).held == ["r: limit"]
    assert story.fires(timedelta(hours=23)) == ["r"]


def test_enforce_acts_on_its_status_field_where_one_of_two_writes_cannot_be_read_back() -> None:
    story = a_story(a_rule("r", CANCELLED, "frontend_status HIDDEN", repeat="enforce"))
    assert story.event(frontend_status="DEFAULT", status="cancelled").fires() == ["r"]
    assert story.fires(HOUR) == [], "as wanted"
    assert story.event(frontend_status="DEFAULT").fires() == ["r"]


def test_drift_that_is_first_seen_after_a_silence_waits_and_later_drift_does_not() -> None:
    story = enforced().event(client_campaign_status="RUNNING").silence(GONE_QUIET)
    assert story.look().planned == ["r: pause waiting gap"]
    approved(story, story.write("r"))
    story.look()
    story.event(client_campaign_status="RUNNING")
    assert story.look(HOUR).planned == ["r: pause"], "the wanted value was read in between"


def test_a_rule_that_first_fired_after_a_silence_enforces_like_any_other_later() -> None:
    story = a_story(a_rule("r", CANCELLED, repeat="enforce"))
    story.look()
    seen(story, "T")
    assert story.silence(GONE_QUIET).look().planned == ["r: pause waiting gap"]
    approved(story, story.write("r"))
    story.look()
    assert story.event(client_campaign_status="RUNNING").look(HOUR).planned == ["r: pause"]


def test_drift_is_only_remembered_where_the_config_says_so() -> None:
    story = a_story(a_rule("r", CANCELLED, repeat="enforce"), settings=DecidingSettings(gap_then="reobserve"))
    seen(story, "T").look()
    story.event(client_campaign_status="RUNNING")
    assert story.silence(GONE_QUIET).look().held == ["r: gap"]
    assert story.fires(HOUR) == []
    assert story.memories[E1, RuleId("r")].episode == 1, "no number is used up by what did not fire"


def test_an_enforcing_rule_whose_value_cannot_be_computed_leaves_the_target_alone() -> None:
    rule = a_rule("r", CANCELLED, "create_draft =defaults.total_budget * 2.0", repeat="enforce")
    story = a_story(rule).put("defaults", {"total_budget": 100.0})
    assert seen(story, "T").fires() == ["r"]
    story.put("setup", {"state": "NONE"})
    assert story.blind("defaults").fires(HOUR) == []
