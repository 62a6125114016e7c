"""What holds of wishes that meet, in any story: equal ones share one write, and no rule acts against a stronger one."""

from collections import defaultdict
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.polls import E1, Story, a_rule, a_set
from tests.unit.engine.test_decide_properties import TURNS, Turn, begun, played, rules
from worker.model.facts import RuleId
from worker.model.rules import RuleSet
from worker.model.writes import Write

pytestmark = pytest.mark.timeout(60)
EXAMPLES = 25
UNSENT = ("planned", "waiting")
WANTS = ("pause", "run", "optimisation OFF")


def unsent(story: Story) -> list[Write]:
    """Writes that could still go."""
    return [write for write in story.writes.values() if write.state in UNSENT]


@settings(deadline=None, max_examples=EXAMPLES)
@given(of=rules(), turns=TURNS)
def test_equal_wishes_of_several_rules_never_wait_as_several_writes(of: RuleSet, turns: list[Turn]) -> None:
    alone_is_right(of, turns)


def test_a_write_that_waits_for_a_person_holds_no_stronger_rule_back() -> None:
    when = "event.status == 'active'"
    weak = a_rule("a", when, "pause", priority=0, mode="approve")
    strong = a_rule("b", f"{when} && setup.state == 'DRAFT'", "pause", priority=1)
    turns: list[Turn] = [("status", 0, 0, 3), ("status", 0, 0, 3), ("setup", 0, 1, 3)]
    story = alone_is_right(a_set(weak, strong), turns)
    assert {write.state for write in unsent(story) if write.key.rule == "b"} == {"planned"}


def test_a_newer_change_shares_the_write_that_a_stronger_rule_has_planned_meanwhile() -> None:
    when = "event.status == 'active'"
    strong = a_rule("a", when, "optimisation OFF", hold_for=timedelta(minutes=1))
    weak = a_rule("c", when, "optimisation OFF", on_change="setup", mode="approve")
    turns: list[Turn] = [("status", 0, 0, 3), ("setup", 0, 2, 3), ("status", 0, 0, 60), ("setup", 0, 1, 3)]

    story = alone_is_right(a_set(strong, weak), turns)

    assert {write.rules for write in unsent(story)} == {("a",), ("a", "c")}


@pytest.mark.parametrize("priority", [0, 1])
def test_who_wants_what_another_is_in_the_midst_of_shares_the_rest(priority: int) -> None:
    when = "event.status == 'active'"
    first = a_rule("a", when, "create_draft 500", "boost")
    later = a_rule("b", f"{when} && setup.state == 'DRAFT'", "create_draft 500", "boost", priority=priority)
    drafted: Turn = ("send", 0, 0, 3)

    story = alone_is_right(a_set(first, later), [("status", 0, 0, 3), drafted, ("status", 0, 0, 3)])

    of_e1 = [write for write in story.writes.values() if write.key.event == E1]
    assert [(write.intent.action, write.state, write.rules) for write in of_e1] == [
        ("create_draft", "confirmed", ("a",)),
        ("boost", "planned", ("a", "b")),
    ]
    assert [(one.rule, one.reason) for one in story.records if one.kind == "fired" and one.event == E1] == [
        ("a", "condition"),
        ("b", "shared"),
    ]


def alone_is_right(of: RuleSet, turns: list[Turn]) -> Story:
    """Plays the story, and looks at each turn that equal wishes have one write; but one that was already waiting for a
    person, on behalf of a weaker rule, stands for no stronger one."""
    story, order = begun(of), sorted(of.rules, key=lambda rule: (-rule.priority, rule.id))
    ranks = {rule.id: rank for rank, rule in enumerate(order)}
    for turn in turns:
        played(story, turn)
        wishes: defaultdict[tuple[str, str, str], list[Write]] = defaultdict(list)
        for write in unsent(story):
            if not write.first_sent_at:
                wishes[write.key.event, write.intent.target, write.intent.wish].append(write)
        for equal in wishes.values():
            strongest = min((write.key.rule for write in equal), key=lambda rule: ranks[rule])
            since = min(write.id for write in equal if write.key.rule == strongest)
            others = [write for write in equal if write.key.rule != strongest]
            assert all(write.state == "waiting" and write.id < since for write in others)
    return story


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
