"""`decide` as a whole: sequences, editing of rules, many events, and what one commit holds."""

from datetime import timedelta
from typing import Any

import pytest

from tests.polls import E1, HOUR, MINUTE, PARTNER, START, Story, a_rule, a_set, a_story
from worker.engine.decide import decide
from worker.engine.views import DecidingSettings, PollView, sendings_reach
from worker.model.commits import PartnerMemory, RuleMemory
from worker.model.facts import EventId, FactKey, Json, Known, Observation, RuleId
from worker.model.rules import Truth

X, Y = "event.city == 'x' || event.city == 'xy'", "event.city == 'y' || event.city == 'xy'"
NO_DRAFT = "event.status == 'active' && setup.state == 'NONE'"


def remembered(story: Story, rule: str) -> RuleMemory:
    return story.memories[E1, RuleId(rule)]


# Sequences.


def started(*do: str, **keys: Any) -> Story:  # noqa: ANN401 - fields of Rule
    story = a_story(a_rule("r", NO_DRAFT, *(do or ("create_draft 500", "boost")), **keys), confirming=False)
    assert story.look().planned == [f"r: {text.split()[0]}" for text in do or ("create_draft 500", "boost")]
    return story


def test_a_sequence_keeps_its_condition_while_it_runs() -> None:
    story = started()
    create, boost = (story.write("r", index) for index in (0, 1))
    story.send(create, "unknown")
    assert story.look().moved == [], "the draft is there, by its own doing"
    story.end(story.write("r", 0), "confirmed")
    assert story.look().moved == []
    story.send(boost, "applied")
    assert story.look().moved == []
    story.end(story.write("r", 1), "confirmed")
    assert story.look().outcome == ([], [], [], [])
    assert not remembered(story, "r").open, "it is over, and its condition is false"


def test_a_sequence_ends_with_what_it_has_not_changed_itself() -> None:
    story = started()
    story.send(story.write("r", 0), "unknown")
    story.event(status="archived")
    assert story.look().moved == ["r: skipped no_longer_holds"]
    story.event(status="active")
    assert story.fires() == [], "its episode is over, so the draft counts again"


def test_a_sequence_ends_with_what_another_hand_did_before_its_first_step_was_sent() -> None:
    story = started()
    story.setup(state="DRAFT", goal="ROAS", total_budget=1.0)
    assert story.look().moved == ["r: skipped no_longer_holds"] * 2


def test_a_field_that_could_not_be_seen_at_the_firing_is_not_made_up_later() -> None:
    story = a_story(a_rule("r", "event.city == 'x'", "create_draft 500", "boost"), confirming=False)
    story.blind("setup")
    story.event(city="x")
    story.look()
    story.send(story.write("r", 0), "confirmed")
    story.setup(goal="ROAS")
    assert story.look().moved == []


def test_a_single_step_is_judged_on_what_is_there() -> None:
    story = started("create_draft 500")
    story.send(story.write("r"), "unknown")
    assert story.look().outcome == ([], [], [], [])
    assert not remembered(story, "r").open


# Many rules, many events, one commit.


def test_every_event_has_its_own_memory() -> None:
    story = a_story(a_rule("r", X))
    story.event(EventId("e2"), city="x")
    story.event(city="")
    assert story.fires() == ["r@e2"]
    story.event(city="x")
    assert story.fires() == ["r"]


def test_an_event_that_is_not_seen_is_not_touched() -> None:
    story = a_story(a_rule("r", X), confirming=False)
    story.event(city="x")
    story.look()
    story.facts.clear()
    assert story.look().commit.empty
    assert story.states("r") == ["planned"]


@pytest.mark.parametrize("restarting", [False, True])
def test_while_the_partners_product_is_off_nothing_is_known_and_its_return_is_as_after_a_gap(restarting: bool) -> None:
    story = a_story(a_rule("fired", X), a_rule("later", Y), confirming=False, restarting=restarting)
    story.event(city="x")
    story.look()
    story.put("partner", {"campaign_recommendations": False})
    story.event(city="y")
    looked = story.look()
    assert looked.outcome == ([], [], [], []), "unknown closes nothing and opens nothing"
    assert {judgement.truth for judgement in looked.decision.judged.values()} == {Truth.UNKNOWN}
    assert story.look().commit.empty
    story.put("partner", {"campaign_recommendations": True})
    looked = story.look()
    assert (looked.planned, looked.moved) == (["later: pause waiting gap"], ["fired: skipped no_longer_holds"])


@pytest.mark.parametrize("flag", [True, None, "off"])
def test_only_a_definite_no_is_a_product_that_is_off(flag: Json) -> None:
    story = a_story(a_rule("r", X))
    story.put("partner", {"campaign_recommendations": flag})
    story.event(city="x")
    assert story.fires() == ["r"]


@pytest.mark.parametrize("restarting", [False, True])
def test_nothing_is_stored_of_a_look_that_says_nothing_new(restarting: bool) -> None:
    story = a_story(
        a_rule("fires", X), a_rule("not", Y), a_rule("unknown", "setup.goal == 'ROAS'"), restarting=restarting
    )
    story.event(city="x")
    assert {memory.rule for memory in story.look().commit.memory} == {"fires"}, (
        "false, or unknown, is nothing to remember"
    )
    for _ in range(3):
        assert story.look(MINUTE).commit.empty


def test_a_first_look_after_a_silence_is_stored_or_the_next_process_would_take_its_own_for_it() -> None:
    story = a_story(a_rule("r", X))
    story.event(city="")
    story.look()
    story.silence(2 * HOUR)
    story.look()
    story.restart()
    story.event(city="x")
    assert story.look().planned == ["r: pause"]


def test_what_each_condition_was_is_told_for_explaining() -> None:
    story = a_story(a_rule("known", X), a_rule("unknown", "setup.goal == 'ROAS'"))
    story.event(city="y")
    judged = story.look().decision.judged
    assert {rule: judgement.truth for (_, rule), judgement in judged.items()} == {
        "known": Truth.FALSE,
        "unknown": Truth.UNKNOWN,
    }


def test_a_look_needs_nothing_but_facts() -> None:
    facts = {FactKey(name="event"): Known(value={"city": "x"}, read_at=START)}
    look = PollView(
        partner=PARTNER,
        now=START,
        memory=PartnerMemory(partner=PARTNER),
        observations={E1: Observation(partner=PARTNER, event=E1, facts=facts)},
        memories={},
    )
    [plan] = decide(a_set(a_rule("r", X)), look, DecidingSettings()).commit.plans
    assert plan.key.episode == 1


def test_first_attempts_matter_for_a_day_or_for_the_longest_cooldown() -> None:
    assert sendings_reach([]) == timedelta(days=1)
    assert sendings_reach([a_rule("r", X, cooldown=HOUR), a_rule("s", X)]) == timedelta(days=1)
    assert sendings_reach([a_rule("r", X, cooldown=timedelta(days=3))]) == timedelta(days=3)


def test_what_a_rule_was_given_to_look_at_can_be_asked_for_afterwards() -> None:
    rule = a_rule("r", "event.status == 'active'")
    story = a_story(rule)
    story.event(status="active")
    decision = story.look().decision
    fact = decision.scope(E1, rule).fact("event")
    assert isinstance(fact, Known)
    assert isinstance(fact.value, dict)
    assert fact.value["status"] == "active"
