"""Every outcome of an attempt, and what follows from it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.builders import NOW, a_policy, a_write
from tests.unit.writes.course import (
    ACCEPTED,
    BROKEN,
    DENIED,
    LOST,
    NO_CONNECTION,
    REFUSED,
    STALE,
    Course,
)
from worker.model.exchange import NotSent, Outcome, Refused
from worker.model.writes import State
from worker.writes.life import FoundSending, Policy, Then, attempts_left, backoff


@pytest.mark.parametrize(
    ("outcome", "state", "code", "then", "reason"),
    [
        (ACCEPTED, "applied", "accepted", "read", "2xx: whether it took effect is shown by reading"),
        (REFUSED, "rejected", "refused_by_service", "rest", "the service said no: nothing happened, nothing will"),
        (LOST, "unknown", "ambiguous", "read", "a 429 may hide an effect"),
        (BROKEN, "unknown", "ambiguous", "read", "a broken connection may hide an effect"),
        (NO_CONNECTION, "planned", "not_sent", "send", "no byte left"),
        (STALE, "planned", "not_sent", "send", "a process that slept does not send"),
        (DENIED, "planned", "denied", "send", "a refusal of our credentials ends as not sent"),
    ],
)
def test_each_outcome_has_its_state(outcome: Outcome, state: State, code: str, then: Then, reason: str) -> None:
    step = Course(a_write()).attempt(outcome)
    assert step.move is not None
    assert (step.move.after.state, step.move.after.reason, step.then) == (state, code, then), reason
    held = ["held"] if step.move.after.held_by is not None else []
    assert [record.kind for record in step.move.records] == [state, *held]


@pytest.mark.parametrize(
    ("action", "ago", "state", "reason"),
    [
        ("reset_setup", timedelta(seconds=3), "needs_human", "the token had just worked: it may have taken effect"),
        ("reset_setup", timedelta(seconds=3.1), "planned", "the token may have ended"),
        ("reset_setup", None, "planned", "the token never worked"),
        ("pause", timedelta(0), "planned", "what it left can be read"),
    ],
)
def test_a_refusal_of_a_token_that_had_just_worked_is_no_proof_where_no_read_shows_the_effect(
    action: str, ago: timedelta | None, state: State, reason: str
) -> None:
    course = Course(a_write(action), a_policy(reads_back=action == "pause"))
    course.attempt(replace(DENIED, accepted_ago=ago))
    assert course.state() == state, reason
    assert (course.write.reason == "no_readback") is (state == "needs_human")
    assert course.write.counted == (1 if state == "needs_human" else 0)


@pytest.mark.parametrize("outcome", [ACCEPTED, LOST, BROKEN])
def test_what_may_have_taken_effect_is_looked_for_from_the_end_of_the_attempt(outcome: Outcome) -> None:
    course = Course(a_write()).send().after(7.0)
    step = course.answer(outcome)
    assert step.settling is not None
    assert step.settling.ended == course.now_s
    assert (step.settling.absent, step.settling.last_read) == (0, None), "no read of before counts"


@pytest.mark.parametrize("outcome", [REFUSED, NO_CONNECTION, STALE, DENIED])
def test_what_had_no_effect_needs_no_evidence(outcome: Outcome) -> None:
    assert Course(a_write()).attempt(outcome).settling is None


@pytest.mark.parametrize(
    ("outcome", "counted", "reason"),
    [
        (ACCEPTED, 1, "it was sent"),
        (LOST, 1, "it may have been taken"),
        (NO_CONNECTION, 0, "no byte left"),
        (STALE, 0, "it was not sent"),
        (DENIED, 0, "the attempt ends as not sent"),
    ],
)
def test_attempts_proven_not_sent_do_not_count(outcome: Outcome, counted: int, reason: str) -> None:
    course = Course(a_write())
    course.attempt(outcome)
    assert course.write.attempt == 1, "attempt grows at sending, whatever becomes of it"
    assert course.write.counted == counted, reason
    assert course.write.sent == (counted > 0)


def test_attempts_proven_not_sent_never_use_up_the_attempts() -> None:
    course = Course(a_write())
    for _ in range(20):
        course.attempt(NO_CONNECTION)
    assert course.state() == "planned"
    assert attempts_left(course.write, course.policy)


@pytest.mark.parametrize(
    ("why", "words"), [("no such event", "the service answered 400: nothing happened: no such event"), ("", "happened")]
)
def test_a_rejection_says_what_the_service_said(why: str, words: str) -> None:
    course = Course(a_write())
    course.attempt(Refused(answer=REFUSED.answer, why=why))
    assert course.write.why.endswith(words)


# --- what cannot be settled by reading -----------------------------------------------------------------------------


def test_what_cannot_be_read_back_is_confirmed_by_its_2xx() -> None:
    course = Course(a_write("frontend_status", params={"value": "HIDDEN"}, item="cr"), a_policy(reads_back=False))
    step = course.attempt(ACCEPTED)
    assert (course.state(), course.write.confirmed_by, step.then) == ("confirmed", "answer", "rest")
    assert step.move is not None
    assert [record.kind for record in step.move.records] == ["applied", "confirmed"], "no state is passed over"


@pytest.mark.parametrize(
    ("policy", "code", "reason"),
    [
        (a_policy(reads_back=False), "no_readback", "no read can tell"),
        (a_policy(toggle=True), "toggle", "a second send would undo the first"),
        (a_policy(ask=True), "ask", "on_unknown: ask"),
        (a_policy(ask=True, toggle=True, reads_back=False), "no_readback", "the strongest reason is said"),
    ],
)
def test_an_unknown_outcome_goes_to_a_person_at_once(policy: Policy, code: str, reason: str) -> None:
    course = Course(a_write(), policy)
    step = course.attempt(LOST)
    assert (course.state(), course.write.reason) == ("needs_human", code), reason
    assert step.move is not None
    assert [record.kind for record in step.move.records] == ["unknown", "needs_human"], "no state is passed over"
    assert course.write.unknown_since == NOW


@pytest.mark.parametrize("policy", [a_policy(toggle=True), a_policy(ask=True)])
def test_a_clear_outcome_goes_to_nobody(policy: Policy) -> None:
    for outcome, state in ((ACCEPTED, "applied"), (REFUSED, "rejected"), (NO_CONNECTION, "planned")):
        course = Course(a_write(), policy)
        course.attempt(outcome)
        assert course.state() == state


def test_a_row_found_in_sending_is_unknown() -> None:
    course = Course(a_write()).send()
    step = course.take(FoundSending())
    assert (course.state(), course.write.reason, step.then) == ("unknown", "crash", "read")
    assert course.write.counted == 1, "it may have been sent"
    assert step.settling is not None
    assert step.settling.ended == course.now_s, "settle begins with this process"


def test_a_replica_that_is_gone_may_still_let_out_a_byte_for_a_while() -> None:
    course = Course(a_write(), a_policy(settle=timedelta(seconds=60))).send()
    step = course.take(FoundSending(late_s=25.0))
    assert (course.state(), course.write.reason, step.then) == ("unknown", "takeover", "read")
    assert course.absent(28).follows() == "read", "84 s after the takeover: it may have ended 25 s after it"
    assert course.absent(1).follows() == "send"


def test_what_such_a_replica_has_done_is_seen_at_once() -> None:
    course = Course(a_write()).send()
    course.take(FoundSending(late_s=25.0))
    course.after(1.0).look("there")
    assert course.state() == "confirmed"


def test_a_toggle_found_in_sending_goes_to_a_person() -> None:
    course = Course(a_write(), a_policy(toggle=True)).send()
    course.take(FoundSending())
    assert (course.state(), course.write.reason) == ("needs_human", "toggle")


def test_unknown_is_counted_from_when_it_first_was() -> None:
    course = Course(a_write())
    course.attempt(LOST)
    first = course.write.unknown_since
    course.proved_absent().attempt(BROKEN)
    assert course.state() == "unknown"
    assert course.write.unknown_since == first


# --- credentials and back-off --------------------------------------------------------------------------------------


def test_a_first_denial_is_followed_by_a_new_attempt_without_a_hold() -> None:
    course = Course(a_write())
    course.attempt(DENIED)
    assert (course.write.held_by, course.write.held_until) == (None, None), "sign in anew, once, and send again"


def test_a_second_denial_in_a_row_holds_for_five_minutes() -> None:
    course = Course(a_write())
    course.attempt(DENIED)
    course.attempt(DENIED)
    assert course.state() == "planned"
    assert (course.write.held_by, course.write.held_until) == ("credentials", NOW + timedelta(minutes=5))


def test_each_further_denial_holds_again() -> None:
    course = Course(a_write())
    for _ in range(3):
        course.attempt(DENIED)
    assert course.write.held_by == "credentials", "tried again every five minutes"


@pytest.mark.parametrize(
    ("between", "reason"),
    [
        (NO_CONNECTION, "an attempt that met nobody was not refused"),
        (STALE, "an attempt that was not made was not refused"),
        (LOST, "an attempt with an unknown outcome was not refused"),
    ],
)
def test_denials_that_are_not_in_a_row_hold_nothing(between: Outcome, reason: str) -> None:
    course = Course(a_write())
    course.attempt(DENIED)
    course.attempt(between)
    if between is LOST:
        course.proved_absent()
    course.attempt(DENIED)
    assert course.write.held_by is None, reason


def test_an_accepted_attempt_forgets_the_denial_before_it() -> None:
    course = Course(a_write())
    course.attempt(DENIED)
    course.attempt(ACCEPTED)
    assert course.write.denied == 0


@pytest.mark.parametrize("outcome", [NO_CONNECTION, STALE])
def test_an_attempt_that_was_not_sent_is_made_again_after_a_back_off(outcome: NotSent) -> None:
    course = Course(a_write())
    course.attempt(outcome)
    assert (course.write.held_by, course.write.held_until) == ("backoff", NOW + timedelta(seconds=5))
    course.attempt(outcome)
    assert course.write.held_until == NOW + timedelta(seconds=10), "it doubles"


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(0, 5), (1, 5), (2, 10), (3, 20), (4, 40), (5, 60), (6, 60), (1_000_000, 60)]
)
def test_the_back_off_doubles_up_to_a_minute(attempts: int, seconds: int) -> None:
    assert backoff(attempts) == timedelta(seconds=seconds)
