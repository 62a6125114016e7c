"""Rules with `on_change`: baselines, pending changes, what is compared, and when a change is judged."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.builders import cases
from tests.polls import BUDGET_500, HOUR, MINUTE, TCS, a_rule, a_story, course, on_tcs, seen, tcs, told
from worker.engine.views import DecidingSettings
from worker.model.facts import FactKey, Json
from worker.model.rules import Watch
from worker.model.writes import State
from worker.writes.life import move

ACTIVE = "event.status == 'active'"
CLUSTERS = FactKey(name="clusters")
GONE_QUIET = timedelta(hours=2)
SUGGESTED, BY_TC, OF_GOAL = Watch(fact="suggested_tcs"), Watch(fact="clusters"), Watch(fact="setup", by=("goal",))


@cases(
    "looks, fires",
    ("a a", "00", "the same value is no change"),
    ("a b b", "010", "each change fires once"),
    ("a b c", "011", "the first value seen is remembered, and each other one fires: an episode of its own"),
    ("a b a", "011", "back after it was judged is another change"),
    ("a ? a", "000", "unknown keeps the baseline"),
    ("a ? b", "001", "unknown keeps the baseline, and what came after it is a change"),
    ("? a b", "001", "unknown is no value to remember"),
    ("0 a b", "001", "an empty list is not computed yet: no value"),
    ("a 0 a", "000", "an empty list is no change"),
    ("a 0 b", "001", "an empty list keeps the baseline"),
    ("a+b b+a", "00", "a set: order is no change"),
    ("a U b T", "0001", "unknown keeps a change pending until it can be judged"),
    ("a U b a T", "00000", "a return to the baseline drops it"),
    ("a F b T", "0000", "while the rest is false it need not be read: the next value seen is a new one"),
    ("a F T b", "0001", "and changes count from there"),
    ("a U b F T", "00000", "false consumes a pending change"),
    ("a U b ? T b", "000001", "a change that cannot be seen now may be gone again; it is judged once it is seen"),
)
@pytest.mark.parametrize("restarting", [False, True])
def test_a_change_fires_once_against_what_is_remembered(looks: str, fires: str, restarting: bool) -> None:
    assert told(a_story(on_tcs(), restarting=restarting), looks) == fires


@cases(
    "watch, first, then, changed",
    (SUGGESTED, tcs("a", run="12"), tcs("a", run=12), False, '"12" against 12 is no change'),
    (SUGGESTED, tcs("a", run=12), tcs("a", run=13), True, "the same cluster in another run is another one"),
    (SUGGESTED, tcs("a") + tcs("a"), tcs("a"), False, "a set: twice is once"),
    (SUGGESTED, [{"tc": "a"}], tcs("b"), False, "without its documented fields it is no value, so b was the first"),
    (BY_TC, [{"tc": "a", "x": 1}], [{"tc": "a", "x": 2}], False, "by tc"),
    (BY_TC, [{"tc": "a"}], [{"tc": "b"}], True, "by tc"),
    (BY_TC, [], [{"tc": "b"}], False, "empty is not computed yet"),
    (replace(BY_TC, by=("tc", "x")), [{"tc": "a", "x": 1}], [{"tc": "a", "x": 2}], True, "only these fields"),
    (Watch(fact="campaigns", by=("tc",)), [], [{"tc": "a"}], True, "an empty list of others is a value"),
    (OF_GOAL, {"goal": "ROAS", "n": 1}, {"goal": "ROAS", "n": 2}, False, "only the goal"),
    (OF_GOAL, {"state": "NONE"}, {"goal": "ROAS"}, False, "a field not there is no value"),
    (Watch(fact="campaigns"), [{"tc": "a"}, {"tc": "b"}], [{"tc": "b"}, {"tc": "a"}], False, "another order"),
    (Watch(fact="campaigns"), [{"tc": "a"}, {"tc": "b"}], [{"tc": "b"}, {"tc": "b"}], True, "one is another"),
    (Watch(fact="setup", by=("of",)), {"of": ["a", "b"]}, {"of": ["b", "a"]}, False, "also in a record"),
    (Watch(fact="expected_value"), 1.0, 1, False, "a number is a number"),
    (Watch(fact="expected_value"), 1.0, 2.0, True, "another number"),
)
def test_what_is_compared(watch: Watch, first: Json, then: Json, changed: bool) -> None:
    story = a_story(a_rule("r", ACTIVE, on_change=[watch], parameters=BUDGET_500))
    key = FactKey(name=watch.fact, params=TCS.params if watch.fact in ("expected_value", "suggested_tcs") else ())
    story.put(key, first).look()
    assert bool(story.put(key, then).fires()) == changed


BUDGET_600 = FactKey(name="suggested_tcs", params=(("budget", 600.0), ("goal", "ROAS")))


def test_other_parameters_are_another_baseline() -> None:
    story = a_story(replace(on_tcs(), parameters={"goal": "ROAS"})).put("defaults", {"total_budget": 500.0})
    assert story.put(TCS, tcs("a")).fires() == []
    story.put("defaults", {"total_budget": 600.0})
    assert story.put(BUDGET_600, tcs("b")).fires() == [], "the first value under the new parameters is remembered"
    assert story.blind("defaults").fires() == [], "unknown parameters keep it"
    story.put("defaults", {"total_budget": 600.0})
    assert story.put(BUDGET_600, tcs("c")).fires() == ["r"]


def test_a_pending_change_waits_while_the_parameters_of_its_fact_are_not_known() -> None:
    story = a_story(replace(on_tcs(f"{ACTIVE} && setup.state == 'DRAFT'"), parameters={"goal": "ROAS"}))
    story.put("defaults", {"total_budget": 500.0}).setup(state="DRAFT")
    seen(story, "a").look()
    story.blind("setup")
    assert seen(story, "b").look().held == ["r: fact_unknown"]
    assert story.blind("defaults").fires() == [], "as at the first poll after a start"
    story.put("defaults", {"total_budget": 500.0})
    assert story.setup(state="DRAFT").fires() == ["r"]


def test_a_condition_on_the_change_can_consume_it_and_what_it_was_against_is_kept_with_the_write() -> None:
    story = a_story(on_tcs(f"{ACTIVE} && size(added) > 0 && 'suggested_tcs' in previous"))
    assert told(story, "a+b b b+a a+c") == "0011", "removed only: false consumes it, and b is the baseline then"
    context = story.write("r").intent.context
    assert (context["added"], context["removed"]) == (tcs("c"), tcs("b"))
    assert context["previous"] == {"suggested_tcs": tcs("a", "b")}


STATUS = Watch(fact="event", by=("status",))
CANCELLED_BEFORE = "previous.event.status == 'cancelled' && event.status != 'archived'"


@cases(
    "watch, when, statuses, fires",
    (STATUS, CANCELLED_BEFORE, "active cancelled active", "001", "a state that was seen at one poll is a state"),
    (STATUS, CANCELLED_BEFORE, "active cancelled archived active", "0000", "archived is a state as well"),
    (STATUS, "event.status == 'active'", "cancelled active active cancelled active", "01001", "becomes active"),
    (replace(STATUS, after=("active",)), None, "active cancelled active", "001", "to"),
    (replace(STATUS, before=("cancelled",)), None, "active cancelled archived active", "0010", "from"),
    (
        replace(STATUS, before=("cancelled", "archived"), after=("active",)),
        None,
        "active cancelled archived active ? archived active cancelled",
        "00010010",
        "from and to, of several",
    ),
    (replace(STATUS, after=("cancelled",)), None, "cancelled active", "00", "the first value never fires"),
)
@pytest.mark.parametrize("restarting", [False, True])
def test_a_value_that_was_judged_is_the_baseline(
    watch: Watch, when: str | None, statuses: str, fires: str, restarting: bool
) -> None:
    story = a_story(a_rule("r", when, on_change=[watch]), restarting=restarting)
    found = ""
    for status in statuses.split():
        if status == "?":
            story.blind("event")
        else:
            story.event(status=status)
        found += "1" if story.fires() else "0"
    assert found == fires


def test_what_is_not_asked_for_is_the_baseline_at_once_but_for_a_value_that_has_to_hold() -> None:
    watch = replace(STATUS, after=("active",))
    paced = a_story(a_rule("r", None, on_change=[watch], cooldown=HOUR))
    held = a_story(a_rule("r", None, on_change=[watch], hold_for=MINUTE))
    for story in (paced, held):
        for status in ("cancelled", "active", "cancelled", "active"):
            story.event(status=status).look()
    assert paced.look(HOUR).fired == ["r"], "the second time is held by the cooldown, and not lost"
    assert held.look(MINUTE).fired == ["r"]


def test_what_is_not_asked_for_is_the_baseline_at_once_also_while_another_change_has_to_hold() -> None:
    turns = replace(STATUS, before=("cancelled",), after=("active",))
    rule = a_rule("r", None, on_change=[turns, Watch(fact="suggested_tcs")], parameters=BUDGET_500, hold_for=MINUTE)
    story = a_story(rule)
    for status, suggested in (
        ("cancelled", "a"),
        ("cancelled", "b"),
        ("archived", "b"),
        ("active", "b"),
        ("active", "a"),
    ):
        assert story.event(status=status).put(TCS, tcs(suggested)).fires() == []
    assert story.fires(MINUTE) == [], "from archived to active"


def test_what_is_not_asked_for_ends_nothing_that_another_change_has_fired() -> None:
    turns = replace(STATUS, before=("active",), after=("cancelled",))
    rule = a_rule("r", None, on_change=[turns, Watch(fact="suggested_tcs")], parameters=BUDGET_500)
    story = a_story(rule, confirming=False).event(status="active").put(TCS, tcs("a"))
    assert (story.look().fired, story.put(TCS, tcs("b")).look().fired) == ([], ["r"])
    for status in ("archived", "cancelled", "archived"):
        assert story.event(status=status).look().outcome == ([], [], [], [])
    assert story.put(TCS, tcs("a")).look().moved == ["r: skipped no_longer_holds"], "back where it was"


def test_a_false_condition_consumes_nothing_that_is_held() -> None:
    story = a_story(a_rule("r", "event.city == 'Ulm'", on_change=[STATUS], hold_for=MINUTE))
    for status, city in (("active", "Ulm"), ("cancelled", "Ulm"), ("cancelled", "Oslo")):
        assert story.event(status=status, city=city).fires() == []
    story.event(status="cancelled", city="Ulm")
    assert story.look(MINUTE).fired == ["r"], "what counts is the condition when the value has held"


def test_false_ends_what_was_not_sent_and_keeps_what_costs_nothing_to_know() -> None:
    story = a_story(a_rule("r", None, "pause", on_change=[replace(STATUS, after=("active",))]), confirming=False)
    for status in ("cancelled", "active"):
        story.event(status=status).look()
    assert story.event(status="archived").look().moved == ["r: skipped no_longer_holds"]
    assert story.event(status="active").fires() == ["r"]


def test_facts_of_other_kinds_have_a_previous_and_no_lists() -> None:
    watches = (Watch(fact="setup", by=("state",)), Watch(fact="suggested_tcs"))
    story = a_story(a_rule("r", ACTIVE, on_change=watches, parameters=BUDGET_500)).setup()
    story.look()
    assert story.setup(state="DRAFT").fires() == ["r"]
    assert story.write("r").intent.context["previous"] == {"setup": {"state": "NONE"}}, "nothing is known of the other"
    assert story.write("r").intent.context["added"] == []


def test_for_holds_until_the_new_value_has_held_and_another_new_value_restarts_it() -> None:
    for looks, fires, reason in (
        ("a b b b b", "00001", "three minutes after b was first seen"),
        ("a b c c c c", "000001", "another new value restarts it"),
        ("a b a b b b b", "0000001", "a return to the baseline drops it"),
        ("a b ? b b", "00001", "unknown neither drops nor restarts it"),
        ("a b ? ? ? b", "000001", "what cannot be seen when its time comes does not fire"),
        ("a b b F T b b b", "00000000", "false drops it, and b is the new baseline"),
    ):
        assert told(a_story(on_tcs(hold_for=3 * MINUTE)), looks, MINUTE) == fires, reason


def test_for_restarts_after_a_silence_and_what_fires_then_waits() -> None:
    story = a_story(on_tcs(hold_for=3 * MINUTE))
    told(story, "a b")
    story.silence(GONE_QUIET)
    assert [story.look(MINUTE).planned for _ in range(4)] == [[], [], [], ["r: pause waiting gap"]]


def test_a_cooldown_holds_a_change_and_does_not_lose_it_and_is_logged_anew_the_next_time() -> None:
    story = a_story(on_tcs(cooldown=HOUR))
    looks = "a, b r, c r: cooldown, b, c r: cooldown, c/59, c/1 r"
    assert course(story, looks) == looks
    assert story.write("r").intent.context["previous"] == {"suggested_tcs": tcs("b")}


@pytest.mark.parametrize("then", ["ask", "act", "reobserve"])
@pytest.mark.parametrize(("kept", "planned"), [(58.5, "r: pause"), (59.5, "r: pause waiting gap")])
def test_what_unknown_kept_for_longer_than_the_gap_waits_for_a_person(then: str, kept: float, planned: str) -> None:
    story = a_story(on_tcs(), settings=DecidingSettings(gap_then=then))  # type: ignore[arg-type]  # a table of texts
    told(story, "a U b")
    assert story.look(MINUTE).outcome == ([], [], [], []), "said once: held for a fact that is unknown"
    told(story, "U", timedelta(minutes=kept))
    assert seen(story, "T").look().planned == [planned]


def test_what_its_own_keys_held_for_longer_than_the_gap_does_not_wait() -> None:
    story = a_story(on_tcs(hold_for=2 * HOUR))
    told(story, "a b")
    told(story, "U", HOUR)
    assert seen(story, "T").look(HOUR).planned == ["r: pause"]


@pytest.mark.parametrize(
    ("then", "planned"), [("ask", ["r: pause waiting gap"]), ("act", ["r: pause"]), ("reobserve", [])]
)
def test_what_changed_during_a_silence(then: str, planned: list[str]) -> None:
    story = a_story(on_tcs(), settings=DecidingSettings(gap_then=then))  # type: ignore[arg-type]  # a table of texts
    told(story, "a")
    seen(story, "b")
    assert story.silence(GONE_QUIET).look().planned == planned
    told(story, "F T")
    assert seen(story, "c").look().planned == ["r: pause"], "an ordinary look again"


@pytest.mark.parametrize("word", ["none", "yes", "no"])
def test_a_newer_value_takes_the_place_of_a_firing_that_waits_and_waits_as_well(word: str) -> None:
    """What it writes is compared with what was before the silence, too: a yes to the one before was none to that."""
    story = a_story(on_tcs(), confirming=False)
    told(story, "a")
    seen(story, "b")
    assert story.silence(GONE_QUIET).look().planned == ["r: pause waiting gap"]
    waiting = story.write("r")
    if word != "none":
        state: State = "planned" if word == "yes" else "cancelled"
        decided = move(waiting, state, at=story.now, reason="person", why=word, approved=word == "yes")
        story.writes[waiting.id] = decided.after
    assert seen(story, "c").look().planned == ["r: pause" if word == "no" else "r: pause waiting gap"]
    assert story.write("r").intent.context["previous"] == {"suggested_tcs": tcs("b" if word == "no" else "a")}


@pytest.mark.parametrize(
    ("reason", "planned"), [("gap", "waiting gap"), ("reset", "waiting reset"), ("surge", ""), ("mode", "")]
)
def test_so_does_one_in_the_place_of_a_write_that_was_put_before_a_person_later(reason: str, planned: str) -> None:
    story = a_story(on_tcs(), confirming=False)
    told(story, "a b")
    held = move(story.write("r"), "waiting", at=story.now, reason=reason, why="held for long, or the service was reset")
    story.writes[held.after.id] = held.after
    assert seen(story, "c").look().planned == [f"r: pause {planned}".rstrip()]


def test_a_value_not_read_at_the_first_look_after_a_silence_is_still_of_the_silence() -> None:
    story = a_story(on_tcs())
    told(story, "a")
    seen(story, "?")
    story.silence(GONE_QUIET).look()
    assert seen(story, "b").look().planned == ["r: pause waiting gap"], "an unreadable fact must not make it laxer"


def test_for_after_a_silence_ends_also_while_another_watched_fact_stays_unknown() -> None:
    rule = a_rule("r", ACTIVE, on_change=[Watch(fact="suggested_tcs"), Watch(fact="clusters")], parameters=BUDGET_500)
    story = a_story(replace(rule, hold_for=MINUTE)).put(CLUSTERS, [{"tc": "x"}])
    told(story, "a")
    story.blind(CLUSTERS)
    seen(story, "b")
    story.silence(GONE_QUIET).look()
    assert story.look(MINUTE).planned == ["r: pause waiting gap"]
    story.put(CLUSTERS, [{"tc": "y"}]).look()
    assert story.look(MINUTE).planned == ["r: pause waiting gap"], "this one was not seen since the silence either"


def test_a_change_that_only_comes_in_another_order_goes_on_and_one_that_is_taken_back_in_one_is_taken_back() -> None:
    campaigns: list[Json] = [{"tc": "a"}, {"tc": "b"}, {"tc": "c"}]
    rule = a_rule("r", ACTIVE, on_change=[Watch(fact="campaigns")], hold_for=MINUTE)
    key = FactKey(name="campaigns")
    story = a_story(rule, confirming=False).put(key, campaigns[:2])
    story.look()
    assert story.put(key, campaigns).fires() == []
    assert story.put(key, campaigns[::-1]).look(MINUTE).planned == ["r: pause"], "the minute goes on"
    assert story.put(key, campaigns[1::-1]).look().moved == ["r: skipped no_longer_holds"]
