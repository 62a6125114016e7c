"""`decide` as a whole: sequences, editing of rules, many events, and what one commit holds."""

from dataclasses import replace
from typing import Any

import pytest

from tests.polls import E1, HOUR, MINUTE, Story, a_rule, a_story
from worker.model.commits import RuleMemory
from worker.model.facts import RuleId
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
    looked = story.send(create, "unknown").look()
    assert looked.moved == []
    assert looked.decision.judged[E1, RuleId("r")].truth is Truth.TRUE, "the draft is there, by its own doing"
    assert story.blind("setup").look().moved == [], "and what cannot be read stays so"
    story.setup(state="DRAFT")
    assert story.end(story.write("r", 0), "confirmed").look().moved == []
    assert story.send(boost, "applied").look().moved == []
    assert story.end(story.write("r", 1), "confirmed").look().outcome == ([], [], [], [])
    assert not remembered(story, "r").open, "it is over, and its condition is false"


def test_a_sequence_ends_with_what_it_has_not_changed_itself() -> None:
    story = started()
    story.send(story.write("r", 0), "unknown")
    assert story.event(status="archived").look().moved == ["r: skipped no_longer_holds"]
    assert story.event(status="active").fires() == [], "its episode is over, so the draft counts again"


def test_a_sequence_ends_with_a_field_beside_those_that_it_writes() -> None:
    when = "setup.state == 'NONE' && setup['id'] == 7.0 && (event.city == 'x' || setup.goal == 'CLICKS')"
    story = a_story(a_rule("r", when, "create_draft 500", "boost"), confirming=False).setup(id=7).event(city="x")
    story.look()
    story.send(story.write("r", 0), "unknown")
    assert story.event(city="").look().moved == [], "a goal was not known at the firing"
    assert story.setup(id=8).look().moved == ["r: skipped no_longer_holds"]


def test_a_sequence_ends_with_what_another_hand_did_before_its_first_step_was_sent() -> None:
    story = started().setup(state="DRAFT", goal="ROAS", total_budget=1.0)
    assert story.look().moved == ["r: skipped no_longer_holds"] * 2


def test_a_sequence_that_does_not_say_what_it_fired_on_is_judged_on_what_is_there() -> None:
    story = started()
    for write in [*story.writes.values()]:
        story.writes[write.id] = replace(write, intent=replace(write.intent, context={}))
    assert story.send(story.write("r", 0), "unknown").look().moved == ["r: skipped no_longer_holds"]


def test_a_field_that_could_not_be_seen_at_the_firing_is_not_made_up_later() -> None:
    story = a_story(a_rule("r", "event.city == 'x'", "create_draft 500", "boost"), confirming=False).blind("setup")
    story.event(city="x").look()
    story.send(story.write("r", 0), "confirmed")
    assert story.setup(goal="ROAS").look().moved == []


def test_a_single_step_is_judged_on_what_is_there() -> None:
    story = started("create_draft 500")
    assert story.send(story.write("r"), "unknown").look().outcome == ([], [], [], [])
    assert not remembered(story, "r").open


# Many rules, many events, one commit.


@pytest.mark.parametrize("restarting", [False, True])
def test_while_the_partners_product_is_off_nothing_is_known_and_its_return_is_as_after_a_gap(restarting: bool) -> None:
    story = a_story(a_rule("fired", X), a_rule("later", Y), confirming=False, restarting=restarting).event(city="x")
    story.look()
    story.put("partner", {"campaign_recommendations": False})
    looked = story.event(city="y").look()
    assert looked.outcome == ([], [], [], []), "unknown closes nothing and opens nothing"
    assert {judgement.truth for judgement in looked.decision.judged.values()} == {Truth.UNKNOWN}
    assert story.look().commit.empty
    looked = story.put("partner", {"campaign_recommendations": True}).look()
    assert (looked.planned, looked.moved) == (["later: pause waiting gap"], ["fired: skipped no_longer_holds"])


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
    story = a_story(a_rule("r", X)).event(city="")
    story.look()
    story.silence(2 * HOUR).look()
    story.restart()
    assert story.event(city="x").look().planned == ["r: pause"]
