"""Presence is proof, absence is not: what reads make of an unsettled write."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.builders import NOW, a_policy, a_write, cases
from tests.unit.writes.course import ACCEPTED, Course, after_lost_attempt
from worker.model.commits import Says
from worker.model.writes import State
from worker.writes.life import Settling, TaskFailed, may_resend

SHORT = a_policy(settle=timedelta(seconds=6))
"""Three reads, three seconds apart, six seconds after the attempt."""


@cases(
    "looks, sendable",
    ("3 6 9", True, "three reads, apart, the last after settle"),
    ("0 3 6", True, "exactly an interval and exactly settle suffice"),
    ("3 6", False, "two reads are no row of three"),
    ("1 2 7", False, "reads too close together count once"),
    ("5 6 7 8", False, "a burst counts as two"),
    ("0 2.9 5.9 9", True, "the close one is left out"),
    ("3 6 ?9 12", False, "the row starts anew"),
    ("3 ?6 9 12 15", True, "three in a row after the one that could not tell"),
    ("3 6 ?9", False, "a read that cannot tell is not the third"),
    ("100", False, "time alone makes nothing sendable"),
    ("?100 ?200 ?300", False, "nothing was learnt"),
)
def test_a_write_is_sendable_only_by_a_whole_row(looks: str, sendable: bool) -> None:
    """``looks``: so many seconds after the attempt a read says *not there*, or with a ? that it cannot tell."""
    course = after_lost_attempt(a_write(), SHORT)
    ended = course.now_s
    for look in looks.split():
        course.now_s = ended + float(look.removeprefix("?"))
        course.look("cannot_tell" if look.startswith("?") else "not_there")
    assert course.state() == "unknown"
    assert (course.follows() == "send") is sendable


def test_the_back_off_must_be_over_as_well() -> None:
    policy = a_policy(settle=timedelta(0), evidence_reads=1)
    course = after_lost_attempt(a_write(), policy).absent(1)
    assert course.follows() == "read", "three seconds after the first attempt, five are waited for"
    course.absent(1)
    assert course.follows() == "send"


def test_the_back_off_grows_with_each_attempt() -> None:
    settling = Settling(ended=0.0, absent=3, last_read=200.0)
    twice = a_write(state="unknown", attempt=2)
    assert not may_resend(twice, settling, a_policy(), 9.9)
    assert may_resend(twice, settling, a_policy(), 10.0)


def test_after_a_restart_settle_and_the_row_begin_anew() -> None:
    course = after_lost_attempt(a_write(), SHORT).absent(2).restart()
    course.after(600.0).look("not_there", ago=600.0)
    assert course.follows() == "read"
    course.settling = Settling(ended=course.now_s)
    course.absent(2)
    assert course.follows() == "read", "reads of the process before count no more"
    course.absent(1)
    assert course.follows() == "send"


def test_a_process_that_knows_nothing_of_a_write_trusts_only_reads_begun_now() -> None:
    course = Course(a_write(state="unknown"), SHORT)
    step = course.look("there", ago=0.5)
    assert step.move is None, "when the attempt ended is not known, so the read may be older than it"
    assert step.settling == Settling(ended=course.now_s)


@pytest.mark.parametrize("state", ["applied", "unknown", "needs_human"])
def test_presence_confirms_from_every_unsettled_state(state: State) -> None:
    course = Course(a_write(state=state, absent_proved=state == "needs_human"))
    step = course.look("there")
    assert (course.state(), course.write.confirmed_by, course.write.reason) == ("confirmed", "read", "read")
    assert not course.write.absent_proved
    assert (step.settling, step.then) == (None, "rest")


@pytest.mark.parametrize("says", ["not_there", "cannot_tell"])
def test_a_write_unknown_for_longer_than_evidence_within_goes_to_a_person(says: Says) -> None:
    course = after_lost_attempt(a_write(), a_policy(settle=timedelta(hours=1)))
    course.after(15 * 60 - 1).look(says)
    assert course.state() == "unknown"
    course.after(1).look(says)
    assert (course.state(), course.write.reason) == ("needs_human", "no_evidence")
    assert not course.write.absent_proved


def test_a_long_outage_before_a_restart_leaves_the_new_process_a_fair_time_to_look() -> None:
    since = NOW - timedelta(days=1)
    course = Course(a_write(state="unknown", unknown_since=since), SHORT, settling=Settling(ended=1000.0))
    course.absent(2)
    assert course.state() == "unknown", "it may yet be proved absent, by reads of this process alone"
    course.absent(1)
    assert course.follows() == "read", "unknown for longer than evidence_within: it is never sent again by itself"
    course.after(3.0).look("cannot_tell")
    assert course.state() == "needs_human", "a day and twice settle are long enough"


@pytest.mark.parametrize("says", ["not_there", "cannot_tell"])
def test_processes_that_end_too_soon_have_their_time_to_look_together(says: Says) -> None:
    """``looked_at``: what the ledger has of the first of them that looked at it late."""
    since = NOW - timedelta(days=1)
    late = Settling(ended=1000.0, looked_at=NOW - timedelta(seconds=11))
    course = Course(a_write(state="unknown", unknown_since=since), SHORT, settling=late)
    course.look(says)
    assert course.state() == "unknown", "twice settle are not over"
    course.after(1.0).look(says)
    assert (course.state(), course.write.reason, course.follows()) == ("needs_human", "no_evidence", "read")


def test_an_unknown_write_without_a_date_is_unknown_since_now() -> None:
    course = Course(a_write(state="unknown", unknown_since=None), SHORT, settling=Settling(ended=1000.0))
    course.absent(4)
    assert course.state() == "unknown"


@cases(
    "stricter, third, code",
    ({}, "third_value", "third_value", "another value is there, also after a whole row"),
    ({"toggle": True}, None, "toggle", "a second send would undo the first, whenever that became known"),
    ({"ask": True}, None, "ask", "on_unknown: ask, also where the rule or the config said so only later"),
    ({"reads_back": False}, None, "no_readback", "no read can tell"),
)
def test_for_a_person_after_a_whole_row(stricter: dict[str, Any], third: str | None, code: str) -> None:
    course = after_lost_attempt(a_write(), SHORT).absent(3)
    assert course.follows() == "send"
    course.policy = replace(SHORT, **stricter)
    course.after(3.0).look("cannot_tell" if third else "not_there", third=third)
    assert (course.state(), course.write.reason, course.follows()) == ("needs_human", code, "read")
    assert course.write.absent_proved is (third is None)


@cases(
    "says, third, seconds",
    ("not_there", None, 120.0, "reads disagree"),
    ("cannot_tell", "third_value", 120.0, "another value disagrees as well"),
    ("cannot_tell", None, 900.0, "what cannot be read says nothing for much longer"),
)
def test_applied_and_never_confirmed_becomes_unconfirmed(says: Says, third: str | None, seconds: float) -> None:
    course = Course(a_write())
    course.attempt(ACCEPTED)
    course.after(seconds).look(says, third=third)
    assert (course.state(), course.follows()) == ("applied", "read")
    course.after(1.0).look(says, third=third)
    assert (course.state(), course.write.reason, course.follows()) == ("unconfirmed", "never_confirmed", "rest")


@cases(
    "says, accepted_ago, looked_ago, ends",
    ("not_there", 121, 240, "needs_human", "reads of several processes disagreed for twice settle"),
    ("not_there", 121, 239, "applied", "their time together is not over"),
    ("not_there", 120, 240, "applied", "confirm_within is not over"),
    ("not_there", 999, None, "applied", "none before this one has looked: it has its own time"),
    ("cannot_tell", 901, 240, "needs_human", "what cannot be read says nothing for much longer"),
    ("cannot_tell", 900, 240, "applied", "as before"),
    ("there", 999, 999, "confirmed", "presence is proof"),
)
def test_an_applied_write_that_several_processes_never_saw_goes_to_a_person(
    says: Says, accepted_ago: int, looked_ago: int | None, ends: State
) -> None:
    """Not `unconfirmed`, which is final: the wall clock alone may be wrong."""
    looked_at = None if looked_ago is None else NOW - timedelta(seconds=looked_ago)
    write = a_write(state="applied", changed_at=NOW - timedelta(seconds=accepted_ago))
    course = Course(write, settling=Settling(ended=1000.0, looked_at=looked_at))
    course.look(says)
    assert course.state() == ends
    if ends == "needs_human":
        assert (course.write.reason, course.follows()) == ("no_evidence", "read")


def test_a_failed_task_after_a_2xx_goes_to_a_person() -> None:
    course = Course(a_write())
    course.attempt(ACCEPTED)
    step = course.take(TaskFailed(state="FAILURE"))
    assert (course.state(), course.write.reason, step.then) == ("needs_human", "task_failed", "read")
    assert "FAILURE" in course.write.why
    assert step.settling is not None, "it is still watched"


@pytest.mark.parametrize("state", ["unknown", "needs_human"])
def test_a_failed_task_proves_nothing_where_there_was_no_2xx(state: State) -> None:
    course = Course(a_write(state=state))
    step = course.take(TaskFailed(state="FAILURE"))
    assert (step.move, step.then) == (None, "read")


def test_absence_frees_the_target_of_what_is_before_a_person_and_never_makes_it_sendable() -> None:
    course = Course(a_write(state="needs_human"), SHORT, settling=Settling(ended=1000.0))
    assert [course.absent(1).write.absent_proved for _ in range(3)] == [False, False, True]
    for _ in range(20):
        assert course.after(3.0).look("not_there").move is None, "a proof that stands is not stored again"
        assert (course.state(), course.follows()) == ("needs_human", "read")
