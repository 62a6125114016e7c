"""A person's verdict, and what ends a write that nobody wants any more."""

from datetime import timedelta

import pytest

from tests.builders import NOW, a_policy, a_write, cases
from tests.unit.writes.course import LOST, Course
from worker.model.writes import State
from worker.writes.life import Settling, Unwanted, attempts_left

UNWANTED = Unwanted(reason="no_longer_holds", why="the condition is false")
PROOF = Settling(ended=0.0, absent=3, last_read=200.0)


def test_applied_confirms_by_the_person() -> None:
    course = Course(a_write(state="needs_human"))
    step = course.verdict(applied=True)
    write = course.write
    assert (write.state, write.confirmed_by, write.reason, write.why) == (
        "confirmed",
        "person",
        "person",
        "looked it up",
    )
    assert (step.settling, step.then) == (None, "rest")


def test_not_applied_plans_it_again_through_all_guards() -> None:
    course = Course(a_write(state="needs_human", absent_proved=True))
    step = course.verdict(applied=False)
    assert (course.state(), course.write.reason, course.write.absent_proved) == ("planned", "person", False)
    assert (step.settling, step.then) == (None, "send")


@pytest.mark.parametrize("made", [1, 2, 3, 5])
@pytest.mark.parametrize("allowed", [1, 3, 10])
def test_not_applied_grants_exactly_one_more_attempt(made: int, allowed: int) -> None:
    policy = a_policy(max_attempts=allowed)
    course = Course(a_write(state="needs_human", attempt=made), policy)
    course.verdict(applied=False)
    assert attempts_left(course.write, policy)
    course.attempt(LOST)
    assert not attempts_left(course.write, policy)
    course.proved_absent()
    assert (course.state(), course.write.reason) == ("needs_human", "attempts")


def test_after_a_verdict_the_next_unknown_is_a_new_one() -> None:
    long_ago = NOW - timedelta(days=2)
    course = Course(a_write(state="needs_human", unknown_since=long_ago))
    course.verdict(applied=False)
    course.attempt(LOST)
    assert course.write.unknown_since == NOW, "a person settled the one before"
    course.after(14 * 60).look("cannot_tell")
    assert course.state() == "unknown", "evidence_within counts from this attempt"


@cases(
    "state, settling, absent_proved, ends",
    ("planned", None, False, True, "nothing was sent"),
    ("waiting", None, False, True, "nothing was sent"),
    ("sending", None, False, False, "it is on its way"),
    ("applied", PROOF, False, False, "the service took it: only reads settle it"),
    ("unknown", PROOF, False, True, "proved absent"),
    ("unknown", Settling(ended=0.0, absent=2, last_read=200.0), False, False, "the row is short"),
    ("unknown", Settling(ended=0.0, absent=3, last_read=100.0), False, False, "settle is not over"),
    ("unknown", Settling(ended=0.0), False, False, "nothing was read"),
    ("unknown", None, False, False, "this process has looked at nothing"),
    ("needs_human", None, True, True, "its last attempt is proved absent"),
    ("needs_human", PROOF, False, False, "not proved absent yet"),
    ("confirmed", None, False, False, "it is final"),
    ("skipped", None, False, False, "it is final"),
)
def test_unwanted_ends_only_what_had_no_effect(
    state: State, settling: Settling | None, absent_proved: bool, ends: bool
) -> None:
    course = Course(a_write(state=state, absent_proved=absent_proved), settling=settling)
    step = course.take(UNWANTED)
    assert (step.move is not None) is ends
    if ends:
        assert (course.state(), course.write.reason, course.write.why) == ("skipped", UNWANTED.reason, UNWANTED.why)
        assert (step.settling, step.then) == (None, "rest")
    else:
        assert (step.settling, step.then) == (settling, "read")
