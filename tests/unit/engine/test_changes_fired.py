"""Rules with `on_change` once they have fired: unsent writes, their own effects, shared writes, editing."""

from dataclasses import replace
from typing import Any

import pytest

from tests.polls import BUDGET_500, E1, HOUR, MINUTE, Story, a_rule, a_story, course, on_tcs, seen, tcs, told
from tests.worlds import rule_set
from worker.model.facts import FactKey, RuleId
from worker.model.rules import Rule, Watch
from worker.model.writes import State

ACTIVE = "event.status == 'active'"
CLUSTERS = FactKey(name="clusters")


# What becomes of a firing that is not sent yet.


def unsent(rule: Rule | None = None) -> Story:
    story = a_story(rule or on_tcs(), confirming=False)
    assert told(story, "a b") == "01"
    return story


@pytest.mark.parametrize(
    ("looks", "reason"),
    [
        ("a, b r, a r: skipped no_longer_holds, b r", "back at the baseline, which is the baseline again"),
        ("a, b r, ?, U", "it outlives what is unknown"),
        ("a, b r, c r & r: skipped superseded", "a limit counts it no more where another takes its place"),
        ("a, b r, F r: skipped no_longer_holds, T, c r", "false ends it and forgets the baseline: b is the new one"),
    ],
)
def test_a_write_that_was_not_sent(looks: str, reason: str) -> None:
    assert course(a_story(on_tcs(per_rule_per_day=1), confirming=False), looks) == looks, reason


def test_a_newer_value_takes_the_place_of_an_unsent_write_against_the_original_baseline() -> None:
    story = unsent()
    looks = "b+c r & r: skipped superseded"
    assert course(story, looks) == looks
    context = story.write("r").intent.context
    assert context["previous"] == {"suggested_tcs": tcs("a")}
    assert (context["added"], context["removed"]) == (tcs("b", "c"), tcs("a"))
    looks = "a r: skipped no_longer_holds"
    assert course(story, looks) == looks, "and back is back at the original one"


def test_once_it_was_sent_the_baseline_has_moved() -> None:
    story = unsent()
    story.send(story.write("r"), "unknown", effect=False)
    looked = seen(story, "a").look()
    assert (looked.fired, looked.moved) == (["r"], [])
    assert story.write("r").intent.context["previous"] == {"suggested_tcs": tcs("b")}


def test_a_write_that_ended_unsent_leaves_the_baseline_where_it_moved() -> None:
    story = unsent()
    story.end(story.write("r"), "skipped", "already_so")
    assert told(story, "b a") == "01"


def watching_both() -> Story:
    rule = a_rule("r", ACTIVE, on_change=[Watch(fact="suggested_tcs"), Watch(fact="clusters")], parameters=BUDGET_500)
    return a_story(rule, confirming=False).put(CLUSTERS, [{"tc": "x"}])


def test_back_at_the_baseline_does_not_depend_on_other_watched_facts() -> None:
    story = watching_both()
    assert told(story, "a b") == "01"
    story.blind(CLUSTERS)
    looks = "a r: skipped no_longer_holds"
    assert course(story, looks) == looks, "an unknown fact makes no extra firing"
    assert story.put(CLUSTERS, [{"tc": "x"}]).fires() == []


def test_one_of_two_changes_taken_back_is_a_newer_change_against_the_original_baselines() -> None:
    story = watching_both()
    told(story, "a")
    story.put(CLUSTERS, [{"tc": "y"}])
    looks = "b r, a r & r: skipped superseded"
    assert course(story, looks) == looks
    context = story.write("r").intent.context
    assert (context["added"], context["removed"]) == ([{"tc": "y"}], [{"tc": "x"}])


# What a rule's own writes change.


def on_campaigns(*more: str, **keys: Any) -> Story:  # noqa: ANN401 - fields of Story
    """A rule that pauses, and watches what it writes."""
    watch = Watch(fact="event", by=("client_campaign_status", *more))
    story = a_story(a_rule("r", None, "pause", on_change=[watch]), **keys)
    story.event(client_campaign_status="NEW").look()
    return story


def test_a_change_that_its_own_write_made_moves_the_baseline_and_fires_nothing() -> None:
    story = on_campaigns()
    assert story.event(client_campaign_status="RUNNING").fires() == ["r"], "and the story pauses it"
    assert story.fires() == []
    assert story.event(client_campaign_status="RUNNING").fires() == ["r"], "another hand's change is one"


def test_a_change_of_another_hand_while_its_own_write_is_under_way_is_a_change() -> None:
    story = on_campaigns("status", confirming=False)
    assert story.event(status="cancelled").fires() == ["r"]
    story.send(story.write("r"), "unknown")
    assert story.event(status="archived").fires() == ["r"], "status is not what the rule writes"
    before = {"status": "cancelled", "client_campaign_status": "PAUSED"}
    assert story.write("r").intent.context["previous"] == {"event": before}


@pytest.mark.parametrize(
    ("state", "more", "fires"),
    [
        ("unknown", {}, []),
        ("confirmed", {"confirmed_by": "read"}, []),
        ("skipped", {"absent_proved": True}, ["r"]),
        ("rejected", {}, ["r"]),
    ],
)
@pytest.mark.parametrize("ended", [False, True], ids=["the newer one is under way", "the newer one has ended"])
def test_what_an_earlier_firing_has_written_is_no_change_however_late_it_shows(
    state: State, more: dict[str, Any], fires: list[str], ended: bool
) -> None:
    watch = Watch(fact="event", by=("city", "client_campaign_status"))
    story = a_story(a_rule("r", None, "pause", on_change=[watch]), confirming=False).event(city="Ulm")
    story.look()
    assert story.event(city="Bonn").fires() == ["r"]
    early = story.write("r")
    story.send(early, "unknown", effect=False)
    assert story.event(city="Kiel").fires() == ["r"]
    if ended:
        story.end(story.write("r"), "cancelled")
    story.now += MINUTE
    story.writes[early.id] = replace(story.writes[early.id], state=state, changed_at=story.now, **more)
    assert story.event(client_campaign_status="PAUSED").fires() == fires
    assert story.event(city="Mainz").fires() == ["r"], "which nobody has written"


def test_another_value_than_its_own_write_wanted_is_a_change() -> None:
    story = on_campaigns(confirming=False)
    story.event(client_campaign_status="RUNNING").look()
    story.send(story.write("r"), "unknown", effect=False)
    assert story.event(client_campaign_status="BROKEN").fires() == ["r"]


def test_a_whole_record_moves_with_its_own_effect() -> None:
    story = a_story(a_rule("r", None, "create_draft 500", on_change="setup"), confirming=False)
    story.setup(state="NONE", hint="old").look()
    assert story.setup(hint="new").fires() == ["r"]
    story.send(story.write("r"), "unknown")
    assert story.setup(created_at="now").fires() == [], "the service adds more to a new draft than was asked for"
    assert story.setup(hint="newer").fires() == ["r"]


# Who keeps a shared write alive.


def shared() -> Story:
    """``owner`` and then ``r`` want the same; the write belongs to the one that came first."""
    owner = a_rule("owner", "event.city == 'here'", "pause")
    story = a_story(owner, on_tcs(), confirming=False).event(city="here")
    told(story, "a")
    assert seen(story, "b").fires() == ["r=owner"]
    return story


def test_a_shared_write_lives_on_while_a_change_wants_it() -> None:
    assert seen(shared(), "a").look().moved == [], "its owner wants it"
    story = shared()
    assert story.event(city="there").look().moved == [], "the change still wants it"
    assert seen(story, "a").look().moved == ["owner: skipped no_longer_holds"], "now nobody does"


def test_a_change_that_shares_a_write_wishes_until_that_is_final() -> None:
    story = shared()
    story.reload(*story.rules.rules, a_rule("s", "event.title == 'x'", "run"))
    assert story.event(city="there", title="x").look().held == ["s: conflict"]
    assert story.send(story.write("owner")).fires() == ["s"]


# Editing, and rules that come and go.


def test_editing_what_a_change_does_plans_it_anew_as_long_as_nothing_was_sent() -> None:
    story = a_story(on_tcs(hold_for=MINUTE), confirming=False)
    told(story, "a b b", MINUTE)
    assert story.states("r") == ["planned"]
    looked = story.reload(on_tcs(ACTIVE, "optimisation OFF", hold_for=MINUTE)).look()
    assert looked.planned == ["r: optimisation"], "b has held long enough already"
    assert story.states("r") == ["cancelled", "planned"]
    assert story.write("r").intent.context["previous"] == {"suggested_tcs": tcs("a")}


def test_editing_does_not_drop_a_newer_change_that_is_pending() -> None:
    story = a_story(on_tcs(), confirming=False)
    told(story, "a b")
    story.reload(on_tcs(hold_for=MINUTE))
    told(story, "c")
    story.reload(on_tcs(ACTIVE, "optimisation OFF", hold_for=MINUTE))
    assert [story.look(MINUTE).planned, story.states("r")] == [["r: optimisation"], ["cancelled", "planned"]]
    assert story.write("r").intent.context["added"] == tcs("c")


@pytest.mark.parametrize("restarting", [False, True])
def test_a_rule_that_was_disabled_keeps_its_memory_and_returns_as_after_a_gap(restarting: bool) -> None:
    story = a_story(on_tcs(), restarting=restarting)
    told(story, "a")
    story.reload(on_tcs(enabled=False))
    assert told(story, "b c") == "00"
    assert story.stored[E1, RuleId("r")].baselines
    assert story.reload(on_tcs()).look().planned == ["r: pause waiting gap"]
    assert story.write("r").intent.context["previous"] == {"suggested_tcs": tcs("a")}
    told(story, "F T")
    assert seen(story, "d").look().planned == ["r: pause"]


def test_a_losing_change_is_consumed() -> None:
    strong = a_rule("strong", "event.title == 'x'", "run", priority=1)
    story = a_story(strong, on_tcs()).event(title="x", client_campaign_status="PAUSED")
    looks = "a strong, b r: conflict"
    assert course(story, looks) == looks
    assert story.event(title="y").fires() == [], "it is not judged again"
    assert told(story, "c") == "1"


def test_what_cannot_be_computed_keeps_a_change_pending_and_after_too_long_a_person_decides() -> None:
    story = a_story(on_tcs(ACTIVE, "create_draft =defaults.total_budget * 2.0"))
    told(story, "a")
    assert seen(story, "b").look().held == ["r: fact_unknown"]
    assert story.put("defaults", {"total_budget": 100.0}).look().fired == ["r"]
    assert story.write("r").intent.params["total_budget"] == 200.0
    story.blind("defaults")
    told(story, "c")
    story.now += 2 * HOUR
    assert story.put("defaults", {"total_budget": 100.0}).look().planned == ["r: create_draft waiting gap"]


def test_nothing_is_stored_of_a_look_that_says_nothing_new() -> None:
    story = a_story(on_tcs())
    told(story, "a")
    for look in ("a", "?", "U", "T"):
        assert seen(story, look).look().commit.empty, f"after {look!r}"


WAIT_FIRST = """
rules:
  - id: r
    on_change: {fact: event, by: [city]}
    when: event.status == 'active'
    do: [{wait: 1m}, run]
"""


def test_a_wait_whose_change_is_taken_back_in_its_last_read_plans_nothing() -> None:
    """The poll that shows the wait to be over also shows the value back where it was."""
    story = Story(rules=rule_set(WAIT_FIRST), confirming=False)
    story.event(city="Ulm").look()
    assert story.event(city="Bonn").look().planned == ["r: wait"]
    wait = story.write("r")
    story.writes[wait.id] = replace(wait, held_by="wait", held_until=None)
    assert story.event(city="Ulm").look().planned == []
    assert (story.write("r").state, story.write("r").reason) == ("skipped", "no_longer_holds")
