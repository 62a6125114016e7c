"""While a sequence runs, its condition is judged without what the sequence itself has changed."""

import pytest

from tests.polls import E1, START, Story, a_rule, a_story
from worker.engine.changes import overlaid, with_fields, written_values
from worker.model.facts import FactKey, Json, Known, Observation
from worker.model.rules import Scope

SETUP = FactKey(name="setup")
DRAFT: dict[str, Json] = {"state": "DRAFT", "goal": "ROAS", "total_budget": 500.0, "id": 7}
RULE = a_rule("r", "event.status == 'active'", "create_draft 500", "boost")


def running() -> Story:
    story = a_story(RULE, confirming=False)
    story.look()
    story.put("setup", DRAFT)
    return story


def setup_seen(story: Story) -> Json:
    writes = [write for write in story.writes.values() if not write.final]
    fact = overlaid(observed(story), writes, story.rules.rules[0]).get(SETUP)
    assert isinstance(fact, Known)
    return fact.value


def observed(story: Story) -> Observation:
    return Observation(partner=story.memory.partner, event=E1, facts=story.facts[E1])


@pytest.mark.parametrize(
    ("first", "second", "expected", "reason"),
    [
        ("planned", "planned", DRAFT, "nothing was sent: another hand made the draft"),
        ("unknown", "planned", {"state": "NONE", "id": 7}, "the draft may be the first step's, as at the firing"),
        ("confirmed", "planned", {"state": "NONE", "id": 7}, "the first step is done"),
        ("confirmed", "applied", {"state": "NONE", "id": 7}, "both steps write the state"),
    ],
)
def test_fields_that_sent_steps_write_keep_their_value_from_the_firing(
    first: str, second: str, expected: Json, reason: str
) -> None:
    story = running()
    for index, state in ((0, first), (1, second)):
        if state != "planned":
            story.send(story.write("r", index), state, effect=False)  # type: ignore[arg-type]  # a table of states
    assert setup_seen(story) == expected, reason


def test_a_rule_of_one_step_and_writes_without_what_was_seen_change_nothing() -> None:
    story = running()
    write = story.write("r", 0)
    story.send(write, "unknown", effect=False)
    seen = observed(story)
    assert overlaid(seen, [story.write("r", 0)], a_rule("r", None, "create_draft 500")) is seen
    assert overlaid(seen, [], RULE) is seen


def test_what_cannot_be_read_stays_so() -> None:
    story = running().blind("setup")
    seen = observed(story)
    assert with_fields(seen, [("setup", "state"), ("other", "x")], {"setup.state": "NONE"}).facts == seen.facts


def test_only_fields_that_are_there_are_kept() -> None:
    story = running().put("setup", {"state": "NONE"})
    keys = {"setup": SETUP}
    assert written_values(RULE, Scope(observation=observed(story), keys=keys, now=START)) == {"setup.state": "NONE"}
    story.blind("setup")
    assert written_values(RULE, Scope(observation=observed(story), keys=keys, now=START)) == {}
