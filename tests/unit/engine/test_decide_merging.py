"""What holds of wishes that meet, in any story: equal ones share one write, and no rule acts against a stronger one."""

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.looks import Story, a_rule, a_set
from tests.unit.engine.test_decide_properties import TURNS, Turn, begun, played, rules
from worker.model.ids import RuleId
from worker.model.rules import RuleSet
from worker.model.writes import Write

EXAMPLES = 25
UNSENT = ("planned", "waiting")
WANTS = ("pause", "run", "optimisation OFF")


def unsent(story: Story) -> list[Write]:
    """Writes that could still go."""
    return [write for write in story.writes.values() if write.state in UNSENT]


@pytest.mark.timeout(60)
@settings(deadline=None, max_examples=EXAMPLES)
@given(of=rules(), turns=TURNS)
def test_equal_wishes_of_several_rules_never_wait_as_several_writes(of: RuleSet, turns: list[Turn]) -> None:
    story = begun(of)
    for turn in turns:
        played(story, turn)
        wishes = defaultdict(set)
        for write in unsent(story):
            if not write.first_sent_at:
                wishes[write.key.event, write.intent.target, write.intent.wish].add(write.key.rule)
        shared = {wish: names for wish, names in wishes.items() if len(names) > 1}
        assert not shared


@pytest.mark.timeout(60)
@settings(deadline=None, max_examples=EXAMPLES)
@given(first=st.sampled_from(WANTS), second=st.sampled_from(WANTS), priorities=st.permutations((0, 1)), turns=TURNS)
def test_no_rule_plans_against_a_stronger_wish_that_stands(
    first: str, second: str, priorities: list[int], turns: list[Turn]
) -> None:
    when = "event.status == 'active'"
    of = a_set(a_rule("a", when, first, priority=priorities[0]), a_rule("b", when, second, priority=priorities[1]))
    weaker = RuleId("a" if priorities[0] < priorities[1] else "b")
    opposite = {first, second} == {"pause", "run"}
    story = begun(of)
    for turn in turns:
        played(story, turn)
        mine = [write for write in story.writes.values() if write.key.rule == weaker]
        if opposite:
            assert mine == [], "both are true together, so the weaker one never acts"
        if first == second:
            assert all(write.key.rule != weaker for write in story.writes.values()), "an equal wish is shared"
