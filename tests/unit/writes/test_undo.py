"""What an undo puts back, and what it leaves alone: one verdict for each case, without a service."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import pytest

from tests.builders import NOW, a_rule, a_write, cases
from worker.model.actions import ACTIONS
from worker.model.commits import Commit
from worker.model.facts import Json, RuleId, WriteId
from worker.model.rules import RuleStep
from worker.model.writes import FINAL, NO_RULE, Plan, State, Write
from worker.writes.intents import Planned
from worker.writes.undo import (
    Foreign,
    NotUndone,
    Undo,
    Undoing,
    last_firing,
    left_now,
    may_have_effect,
    put_back_by,
    undo_steps,
    undoing,
    wish_ended,
)


def sent(number: int, action: str = "pause", before: Json = "RUNNING", **changes: Any) -> Write:  # noqa: ANN401 - fields of Write
    """A confirmed write, the ``number``-th of its target."""
    write = a_write(action, "confirmed", before=before, params=changes.pop("params", None), **changes)
    at = NOW + timedelta(minutes=number)
    return replace(write, id=WriteId(number), last_sent_at=at, first_sent_at=at)


_E7: list[Json] = ["e7"]
_E8: list[Json] = ["e8"]
CLUSTER: dict[str, Json] = {"tc": "jazz", "tc_run_id": 7}


def nobody(_write: Write) -> str | None:
    return None


def said(found: Undoing) -> list[tuple[int, bool, str]]:
    return [(one.write.id, one.cannot, one.why) for one in found.kept]


def of(chosen: Sequence[Write], history: Sequence[Write] = (), foreign: Foreign = nobody) -> Undoing:
    return undoing(chosen, history or chosen, foreign)


@pytest.mark.parametrize(
    ("action", "params", "before", "step"),
    [
        ("pause", {}, "RUNNING", RuleStep(action="run")),
        ("run", {}, "PAUSED", RuleStep(action="pause")),
        ("optimisation", {"value": "OFF"}, "ON", RuleStep(action="optimisation", params={"value": "ON"})),
        ("ad_optimisation", {"value": "ON"}, "OFF", RuleStep(action="ad_optimisation", params={"value": "OFF"})),
        (
            "frontend_status",
            {"value": "HIDDEN"},
            "FLAGGED",
            RuleStep(action="frontend_status", params={"value": "FLAGGED"}),
        ),
    ],
)
def test_the_value_before_is_put_back(action: str, params: dict[str, Json], before: str, step: RuleStep) -> None:
    write = sent(1, action, before, params=params)
    found = of([write]).put_back
    assert found is not None
    assert (found.steps, list(found.back.values()), found.undoes) == ((step,), [before], (write,))
    assert found.left == write.intent.wanted


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (sent(1, "boost", {"state": "DRAFT"}), "what is published cannot be unpublished"),
        (sent(1, "create_draft", {"state": "NONE"}), "the service offers nothing that takes a draft away"),
        (
            sent(1, "create_campaign", {"exists": False}, params=CLUSTER),
            "the service offers nothing that takes a campaign away",
        ),
        (sent(1, "reset_setup", None), "what a reset took away cannot be brought back"),
        (
            sent(1, "update_draft", {"state": "DRAFT"}, params={"colour": 1}),
            "what its colour was before it is not known",
        ),
        (sent(1, "edit_cluster", None, params={**CLUSTER, "budget": 5}), "what its budget was before it is not known"),
        (sent(1, "series_add", ["e7"], params={"value": ["e7"]}), "all of it was so before it"),
        (sent(1, before=None), "client_campaign_status was None before it, which no write can set"),
        (sent(1, before_known=False), "what was there before it is not known"),
    ],
)
def test_what_cannot_be_undone_is_named_and_says_why(write: Write, why: str) -> None:
    found = of([write])
    assert (found.put_back, said(found)) == (None, [(1, True, why)])


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_is_either_put_back_or_named(name: str) -> None:
    values: dict[str, Json] = {"on_off": "ON", "frontend_status": "HIDDEN", "eids": ["e7"], "integer": 7, "number": 5.0}
    ordinary = {one: values.get(param.type, "ROAS") for one, param in ACTIONS[name].params.items()}
    if name == "undo":
        assert ACTIONS[name].for_good, "it becomes other actions"
        return
    write = sent(1, name, "OFF" if ordinary.get("value") == "ON" else "DEFAULT", params=ordinary)
    found = of([write])
    assert (found.put_back is None) == bool(found.kept), name


@pytest.mark.parametrize(
    ("action", "params", "before", "steps", "left"),
    [
        (
            "update_draft",
            {"total_budget": 750.0, "colour": "red"},
            {"state": "DRAFT", "goal": "ROAS", "total_budget": 500.0, "colour": "blue"},
            (RuleStep(action="update_draft", params={"total_budget": 500.0, "colour": "blue"}),),
            {"total_budget": 750.0, "colour": "red"},
        ),
        (
            "edit_cluster",
            {"tc": "jazz", "tc_run_id": 7, "budget": 120},
            {"exists": True, "budget": 80},
            (RuleStep(action="edit_cluster", params={"tc": "jazz", "tc_run_id": 7, "budget": 80}),),
            {"budget": 120},
        ),
        (
            "series_add",
            {"value": ["e7", "e8"]},
            ["e7"],
            (RuleStep(action="series_remove", params={"value": _E8}),),
            {"e8": True},
        ),
        (
            "series_remove",
            {"value": ["e7", "e8"]},
            ["e7"],
            (RuleStep(action="series_add", params={"value": _E7}),),
            {"e7": False},
        ),
    ],
)
def test_records_and_series_are_put_back_field_by_field(
    action: str, params: dict[str, Json], before: Json, steps: tuple[RuleStep, ...], left: dict[str, Json]
) -> None:
    found = of([sent(1, action, before, params=params)]).put_back
    assert found is not None
    assert (found.steps, found.left, found.guarded) == (steps, left, not action.startswith("series"))
    assert len(found.words()) == len(left)


def budget(number: int, to: float, before: float, **more: Json) -> Write:
    """A change of the draft's budget, and of other fields that were 0 before."""
    was: Json = {"state": "DRAFT", "total_budget": before, **dict.fromkeys(more, 0)}
    return sent(number, "update_draft", was, params={"total_budget": to, **more})


def test_what_others_changed_of_the_same_record_counts_only_where_it_is_the_same_field() -> None:
    mine = budget(1, 500.0, 300.0)
    goal = sent(2, "update_draft", {"state": "DRAFT", "goal": "ROAS"}, params={"goal": "VISIBILITY"})
    assert of([mine], [mine, goal]).put_back is not None
    again = budget(3, 700.0, 500.0)
    assert said(of([mine], [mine, goal, again])) == [(1, False, "write 3 of rule r1 has set the target since")]


def test_nothing_below_a_publishing_is_undone() -> None:
    mine, boost = budget(1, 500.0, 300.0), sent(2, "boost", {"state": "DRAFT"})
    assert said(of([mine, boost])) == [
        (2, True, "what is published cannot be unpublished"),
        (1, False, "write 2 after it is not undone"),
    ]


def test_the_second_half_of_a_pair_goes_with_the_first_and_never_alone() -> None:
    params: dict[str, Json] = {"value": "HIDDEN"}
    first = sent(1, "frontend_status", "DEFAULT", params=params, item="event")
    second = sent(2, "frontend_status", None, params=params, item="cr", before_known=False)
    both = of([first, second])
    assert both.put_back is not None
    assert (both.put_back.undoes, both.kept) == ((first,), ())
    alone = of([second], [first, second])
    assert alone.put_back is None
    assert [one[:2] for one in said(alone)] == [(2, True)]


def test_what_is_shown_as_a_text_is_followed_as_the_number_that_it_spells() -> None:
    one = budget(1, 500.0, 300.0)
    shown: Json = {"state": "DRAFT", "total_budget": "500.00"}
    found = of([one, sent(2, "update_draft", shown, params={"total_budget": 700.0})])
    assert found.put_back is not None
    assert (found.put_back.back, found.kept) == ({"total_budget": 300.0}, ())


@pytest.mark.parametrize(
    ("before", "between", "why"),
    [
        ("CANCELLED", False, "the target was changed between it and write 3, and that is what is put back"),
        ("FLAGGED", True, "write 2 of rule r1 has set the target since"),
    ],
)
def test_only_what_followed_without_a_break_is_undone(before: str, between: bool, why: str) -> None:
    one = sent(1, "frontend_status", "DEFAULT", params={"value": "FLAGGED"}, item="event")
    other = sent(2, "frontend_status", "FLAGGED", params={"value": "FLAGGED"}, item="event")
    last = sent(3, "frontend_status", before, params={"value": "HIDDEN"}, item="event")
    history = [one, other, last] if between else [one, last]
    found = of([one, last], history)
    assert found.put_back is not None
    assert (found.put_back.undoes, found.put_back.back) == ((last,), {"frontend_status": before})
    assert said(found) == [(1, False, why)]


@pytest.mark.parametrize(("rule", "whose"), [(RuleId("r2"), "rule r2"), (NO_RULE, "an undo")])
def test_a_later_write_of_our_own_is_another_hand(rule: RuleId, whose: str) -> None:
    one, later = sent(1), sent(2, "run", "PAUSED")
    context: dict[str, Json] = {} if rule else {"undoes": [9]}
    later = replace(later, key=replace(later.key, rule=rule), intent=replace(later.intent, context=context))
    found = of([one], [one, later])
    assert (found.put_back, said(found)) == (None, [(1, False, f"write 2 of {whose} has set the target since")])


@pytest.mark.parametrize(("state", "planned"), [("planned", True), ("waiting", True), ("skipped", False)])
def test_an_undo_that_is_under_way_is_not_planned_twice(state: State, planned: bool) -> None:
    one, undo = sent(1), a_write("run", state, attempt=0)
    undo = replace(undo, id=WriteId(2), intent=replace(undo.intent, context={"undoes": [1]}))
    found = of([one], [one, undo])
    assert (found.put_back is None) is planned
    assert said(found) == ([(1, False, "write 2 is to put the target back already")] if planned else [])


def test_writes_that_together_changed_nothing_are_named() -> None:
    there, back = sent(1), sent(2, "run", "PAUSED")
    assert said(of([there, back])) == [
        (2, False, "together they left it as it was"),
        (1, False, "together they left it as it was"),
    ]


def test_a_later_write_that_came_to_nothing_is_no_hand_at_all() -> None:
    one, later = sent(1), sent(2, "run", "PAUSED")
    assert of([one], [one, replace(later, state="rejected")]).put_back is not None


def test_another_hand_that_was_observed_since_keeps_everything_as_it_is() -> None:
    found = of([sent(1), sent(2, before="PAUSED")], foreign=lambda write: f"a person, after {write.id}")
    assert found.put_back is None
    assert said(found) == [(2, False, "a person, after 2"), (1, False, "write 2 after it is not undone")]


@pytest.mark.parametrize("state", get_args(State))
def test_only_what_was_sent_and_may_have_come_to_something_can_be_undone(state: State) -> None:
    had = state in ("sending", "applied", "unknown", "needs_human", "confirmed", "unconfirmed", "cancelled")
    assert may_have_effect(a_write(state=state)) is had
    assert not may_have_effect(a_write(state=state, attempt=0)), "nothing was sent"
    assert not may_have_effect(a_write(state=state, attempt=2, uncounted=2)), "no byte of it left"
    if state in ("needs_human", "cancelled"):
        assert not may_have_effect(a_write(state=state, absent_proved=True))
    assert had or state in FINAL or state in ("planned", "waiting")


def an_undo(*undone: int, state: State = "planned", **left: Json) -> Write:
    """An undo that was planned for these writes, of what they had ``left``."""
    undo = sent(9, "run", "PAUSED")
    context: dict[str, Json] = {"undoes": list(undone), "left": left or {"client_campaign_status": "PAUSED"}}
    key = replace(undo.key, rule=NO_RULE)
    return replace(undo, key=key, state=state, attempt=0, intent=replace(undo.intent, context=context))


UNPROVED = sent(2, "pause", "RUNNING", absent_proved=True)
"""A write that an undo was planned for, and that proved absent after that."""


@cases(
    "undo, history, expected",
    (an_undo(1), [sent(1)], {"client_campaign_status": "PAUSED"}, "what it left"),
    (an_undo(2), [UNPROVED], {"client_campaign_status": "RUNNING"}, "nothing of ours is there: what is put back"),
    (an_undo(1, 2), [sent(1), UNPROVED], {"client_campaign_status": "PAUSED"}, "what the other one left"),
    (an_undo(1, 3), [sent(1), sent(3, "run", "PAUSED")], {"client_campaign_status": "RUNNING"}, "the newest"),
    (an_undo(1), [sent(1), sent(3, "run", "PAUSED")], {"client_campaign_status": "PAUSED"}, "others do not count"),
    (an_undo(1), [sent(1, before="STOPPED")], {"client_campaign_status": "RUNNING"}, "what cannot be undone"),
)
def test_an_undo_must_find_what_is_left_of_its_writes(
    undo: Write, history: list[Write], expected: dict[str, Json]
) -> None:
    assert left_now(undo, history) == expected


def test_an_undo_of_members_of_a_series_asks_nothing_of_the_target() -> None:
    undo = an_undo(1)
    assert left_now(replace(undo, intent=replace(undo.intent, context={"undoes": [1]})), [sent(1)]) is None


@cases(
    "write, undo, expected",
    (sent(1), an_undo(1), 9, "it is about to be put back"),
    (sent(1), an_undo(2), None, "another one is"),
    (sent(1), an_undo(1, state="waiting"), 9, "it is, once a person approves that"),
    (sent(1), an_undo(1, state="skipped"), None, "the undo is over, and a verdict came after it"),
    (a_write("pause", "planned", id=WriteId(1)), an_undo(1, state="skipped"), 9, "its attempt never left"),
    (a_write("pause", "planned", id=WriteId(1)), an_undo(1, state="cancelled"), None, "a person rejected the undo"),
)
def test_who_is_about_to_put_a_write_back(write: Write, undo: Write, expected: int | None) -> None:
    found = put_back_by(write, [write, undo])
    assert (None if found is None else found.id) == expected


def firing(*writes: Write) -> tuple[tuple[int, ...], int]:
    found = last_firing(writes, "some-rule")
    return tuple(one.id for one in found.standing), found.first


def of_rule(write: Write, rule: str, episode: int = 1, **changes: Any) -> Write:  # noqa: ANN401 - fields of Write
    return replace(write, key=replace(write.key, rule=RuleId(rule), episode=episode), **changes)


def test_the_last_firing_of_a_rule_is_what_of_its_last_episode_stands() -> None:
    first, second = of_rule(sent(1), "some-rule"), of_rule(sent(2, "run", "PAUSED"), "some-rule", 2)
    other = of_rule(sent(3), "another")
    assert firing() == ((), 0)
    assert firing(other) == ((), 0)
    assert firing(first, second, other) == ((2,), 2)
    assert firing(first, second, replace(other, rules=(RuleId("another"), RuleId("some-rule")))) == ((3,), 3)


@pytest.mark.parametrize(("state", "standing"), [("confirmed", (1,)), ("applied", (2,)), ("unconfirmed", (2,))])
def test_a_write_does_not_stand_once_its_undo_is_confirmed(state: State, standing: tuple[int, ...]) -> None:
    first, second = of_rule(sent(1), "some-rule"), of_rule(sent(2, "run", "PAUSED"), "some-rule", 2)
    intent = replace(sent(3).intent, context={"undoes": [2]})
    undo = of_rule(replace(sent(3), state=state, intent=intent), "", 1)
    assert firing(first, second, undo)[0] == standing


def test_what_shows_no_effect_of_its_own_is_no_write_to_come_after() -> None:
    whole = of_rule(sent(1, "frontend_status", "DEFAULT", params={"value": "HIDDEN"}), "some-rule")
    half = replace(whole, id=WriteId(2), key=replace(whole.key, item="cr"))
    message = replace(of_rule(sent(3), "some-rule"), intent=replace(sent(3).intent, target=""))
    assert firing(whole, half, message) == ((1,), 1)


def test_a_firing_keeps_its_number_where_a_part_of_it_is_undone() -> None:
    first = of_rule(sent(1, "edit_cluster", {"budget": 5}, params={**CLUSTER, "budget": 9}), "some-rule")
    second = replace(first, id=WriteId(2), key=replace(first.key, item="rock:7"))
    undo = of_rule(replace(sent(3), intent=replace(sent(3).intent, context={"undoes": [1]})), "", 1)
    assert firing(first, second, undo) == ((2,), 1)


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        ("planned", True),
        ("applied", True),
        ("confirmed", True),
        ("waiting", False),
        ("skipped", False),
        ("refused", False),
    ],
)
def test_the_wish_behind_a_write_ends_with_its_undo(state: State, ended: bool) -> None:
    mine, other = of_rule(sent(1), "some-rule", 3), of_rule(sent(2), "another")
    undo = of_rule(replace(sent(4), state=state, intent=replace(sent(4).intent, context={"undoes": [1]})), "puts-back")
    assert wish_ended([mine, other, undo], "some-rule", 3) is ended
    assert not wish_ended([mine, other, undo], "some-rule", 4), "a newer firing wishes anew"
    assert not wish_ended([mine, other, undo], "another", 1)
    shared = replace(mine, rules=(RuleId("some-rule"), RuleId("shares")))
    assert wish_ended([shared, undo], "shares", 1) is ended


def test_an_undo_is_stored_in_one_commit() -> None:
    assert Undo().commit("ann", NOW) == Commit(at=NOW, by="ann")


def the_steps(found: Undo, after: int = -1) -> list[Planned]:
    do = (RuleStep(action="pause"), RuleStep(action="wait"), RuleStep(action="undo", params={"value": "other"}))
    return list(undo_steps(a_rule(*do), lambda named: found if named == "other" else Undo(), {"k": 1}, after)[0])


def test_the_step_of_a_rule_becomes_the_writes_of_the_undo_in_its_place() -> None:
    intents = [
        replace(sent(1, action).intent, target="series", order=turn) for turn, action in enumerate(("run", "pause"))
    ]
    key = replace(sent(1).key, rule=NO_RULE)
    plans = [
        Plan(key=replace(key, position=turn), intent=intent, state="planned", reason="undo", why=f"undo {turn}")
        for turn, intent in enumerate(intents)
    ]
    plans.append(replace(plans[0], key=replace(key, item="cr")))
    made = the_steps(Undo(plans=plans, kept=[NotUndone(write=sent(7), why="it stays")]), after=1)
    assert [(one.position, one.item, one.intent.order) for one in made] == [
        (2, "series", 2),
        (2, "series 1", 3),
        (2, "cr", 2),
        (2, "client_campaign_status of 7", 2),
    ]
    assert [(one.why, one.fault, one.reason) for one in made[1:]] == [
        ("undo 1", "", "bad_value"),
        ("undo 0", "", "bad_value"),
        ("", "write 7 is left as it is: it stays", "no_undo"),
    ]
    assert dict(made[0].intent.context) == {"k": 1}
    assert the_steps(Undo(plans=plans)) == [], "what comes after a wait is planned when it is over"
