"""What an undo puts back, and what it leaves alone: one verdict for each case, without a service."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import pytest

from tests.builders import NOW, a_write
from worker.model.actions import ACTIONS
from worker.model.facts import Json
from worker.model.ids import RuleId, WriteId
from worker.model.rules import Step
from worker.model.writes import FINAL, NO_RULE, State, Write
from worker.writes.undo import Foreign, Undoing, may_have_effect, undoing


def sent(number: int, action: str = "pause", before: Json = "RUNNING", **changes: Any) -> Write:  # noqa: ANN401 - fields of Write
    """A confirmed write, the ``number``-th of its target."""
    write = a_write(action, "confirmed", before=before, params=changes.pop("params", None), **changes)
    at = NOW + timedelta(minutes=number)
    return replace(write, id=WriteId(number), last_sent_at=at, first_sent_at=at)


def nobody(_write: Write) -> str | None:
    return None


def said(found: Undoing) -> list[tuple[int, bool, str]]:
    return [(one.write.id, one.cannot, one.why) for one in found.kept]


def of(chosen: Sequence[Write], history: Sequence[Write] = (), foreign: Foreign = nobody) -> Undoing:
    return undoing(chosen, history or chosen, foreign)


@pytest.mark.parametrize(
    ("action", "params", "before", "step"),
    [
        ("pause", {}, "RUNNING", Step(action="run")),
        ("run", {}, "PAUSED", Step(action="pause")),
        ("optimisation", {"value": "OFF"}, "ON", Step(action="optimisation", params={"value": "ON"})),
        ("ad_optimisation", {"value": "ON"}, "OFF", Step(action="ad_optimisation", params={"value": "OFF"})),
        (
            "frontend_status",
            {"value": "HIDDEN"},
            "FLAGGED",
            Step(action="frontend_status", params={"value": "FLAGGED"}),
        ),
    ],
)
def test_the_value_before_is_put_back(action: str, params: dict[str, Json], before: str, step: Step) -> None:
    write = sent(1, action, before, params=params)
    found = of([write]).put_back
    assert found is not None
    assert (found.step, list(found.back.values()), found.undoes) == (step, [before], (write,))
    assert found.left == write.intent.wanted


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (sent(1, "boost", {"state": "DRAFT"}), "what is published cannot be unpublished"),
        (sent(1, "create_draft", {"state": "NONE"}), "the service offers nothing that takes a draft away"),
        (sent(1, before=None), "client_campaign_status was None before it, which no write can set"),
        (sent(1, before_known=False), "what was there before it is not known"),
    ],
)
def test_what_cannot_be_undone_is_named_and_says_why(write: Write, why: str) -> None:
    found = of([write])
    assert (found.put_back, said(found)) == (None, [(1, True, why)])


def test_every_action_is_either_put_back_or_named() -> None:
    for name in ACTIONS:
        params = {"value": "ON" if "optimisation" in name else "HIDDEN"}
        write = sent(1, name, "OFF" if "optimisation" in name else "DEFAULT", params=params)
        found = of([write])
        assert (found.put_back is None) == bool(found.kept), name


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


def test_writes_that_follow_each_other_are_undone_together() -> None:
    one = sent(1, "frontend_status", "DEFAULT", params={"value": "FLAGGED"}, item="event")
    two = sent(2, "frontend_status", "FLAGGED", params={"value": "HIDDEN"}, item="event")
    found = of([one, two]).put_back
    assert found is not None
    assert ([write.id for write in found.undoes], found.back) == ([2, 1], {"frontend_status": "DEFAULT"})
    assert found.left == {"frontend_status": "HIDDEN"}


@pytest.mark.parametrize(
    ("before", "between", "reason"),
    [
        ("CANCELLED", None, "a person set something else in between"),
        ("FLAGGED", "other", "a write that is not to be undone came in between"),
    ],
)
def test_only_what_followed_without_a_break_is_undone(before: str, between: str | None, reason: str) -> None:
    one = sent(1, "frontend_status", "DEFAULT", params={"value": "FLAGGED"}, item="event")
    other = sent(2, "frontend_status", "FLAGGED", params={"value": "FLAGGED"}, item="event")
    last = sent(3, "frontend_status", before, params={"value": "HIDDEN"}, item="event")
    history = [one, other, last] if between else [one, last]
    found = of([one, last], history)
    assert found.put_back is not None
    assert (found.put_back.undoes, found.put_back.back) == ((last,), {"frontend_status": before}), reason
    assert said(found) == [(1, False, "the target was changed between it and write 3, and that is what is put back")]


def test_what_came_before_a_write_that_cannot_be_undone_stays_as_well() -> None:
    earlier, one, last = sent(1), sent(2), sent(3, before=None)
    found = of([earlier, one, last])
    assert found.put_back is None
    assert said(found)[1:] == [
        (2, False, "write 3 after it is not undone"),
        (1, False, "write 3 after it is not undone"),
    ]


@pytest.mark.parametrize(("rule", "whose"), [(RuleId("r2"), "rule r2"), (NO_RULE, "an undo")])
def test_a_later_write_of_our_own_is_another_hand(rule: RuleId, whose: str) -> None:
    one, later = sent(1), sent(2, "run", "PAUSED")
    later = replace(later, key=replace(later.key, rule=rule))
    found = of([one], [one, later])
    assert (found.put_back, said(found)) == (None, [(1, False, f"write 2 of {whose} has set the target since")])


@pytest.mark.parametrize(("state", "planned"), [("planned", True), ("waiting", True), ("skipped", False)])
def test_an_undo_that_is_under_way_is_not_planned_twice(state: State, planned: bool) -> None:
    one, undo = sent(1), a_write("run", state, attempt=0)
    undo = replace(undo, id=WriteId(2), key=replace(undo.key, rule=NO_RULE))
    found = of([one], [one, undo])
    assert (found.put_back is None) is planned
    assert said(found) == ([(1, False, "write 2 is to put the target back already")] if planned else [])


def test_a_later_write_that_came_to_nothing_is_no_hand_at_all() -> None:
    one, later = sent(1), sent(2, "run", "PAUSED")
    assert of([one], [one, replace(later, state="rejected")]).put_back is not None


def test_another_hand_that_was_observed_since_keeps_everything_as_it_is() -> None:
    found = of([sent(1), sent(2, before="PAUSED")], foreign=lambda write: f"a person, after {write.id}")
    assert found.put_back is None
    assert said(found) == [(1, False, "a person, after 2"), (2, False, "a person, after 2")]


@pytest.mark.parametrize("state", get_args(State))
def test_only_what_was_sent_and_may_have_come_to_something_can_be_undone(state: State) -> None:
    had = state in ("sending", "applied", "unknown", "needs_human", "confirmed", "unconfirmed", "cancelled")
    assert may_have_effect(a_write(state=state)) is had
    assert not may_have_effect(a_write(state=state, attempt=0)), "nothing was sent"
    assert not may_have_effect(a_write(state=state, attempt=2, uncounted=2)), "no byte of it left"
    if state in ("needs_human", "cancelled"):
        assert not may_have_effect(a_write(state=state, absent_proved=True))
    assert had or state in FINAL or state in ("planned", "waiting")
