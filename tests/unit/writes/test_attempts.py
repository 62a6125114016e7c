"""Every outcome of an attempt, and what follows from it; refusals of the credentials in a row."""

from dataclasses import replace
from datetime import datetime, timedelta

from tests.builders import NOW, PARTNER, a_policy, a_write, cases
from tests.unit.writes.course import ACCEPTED, BROKEN, DENIED, LOST, NO_CONNECTION, REFUSED, STALE, Course
from worker.model.commits import PartnerMemory
from worker.model.exchange import NotSent, Outcome
from worker.model.writes import State, Write
from worker.writes.life import CREDENTIALS_HOLD, Attempted, FoundSending, Then, after_outcome, in_a_row


@cases(
    "outcome, state, code, then",
    (ACCEPTED, "applied", "accepted", "read", "2xx: whether it took effect is shown by reading"),
    (REFUSED, "rejected", "refused_by_service", "rest", "the service said no: nothing happened, nothing will"),
    (LOST, "unknown", "ambiguous", "read", "a 429 may hide an effect"),
    (BROKEN, "unknown", "ambiguous", "read", "a broken connection may hide an effect"),
    (NO_CONNECTION, "planned", "not_sent", "send", "no byte left"),
    (STALE, "planned", "not_sent", "send", "a process that slept does not send"),
    (DENIED, "planned", "denied", "send", "a refusal of our credentials ends as not sent"),
)
def test_each_outcome_has_its_state(outcome: Outcome, state: State, code: str, then: Then) -> None:
    step = Course(a_write()).attempt(outcome)
    assert step.move is not None
    assert (step.move.after.state, step.move.after.reason, step.then) == (state, code, then)
    assert outcome is not REFUSED or step.move.after.why == REFUSED.why
    held = ["held"] if step.move.after.held_by is not None else []
    assert [record.kind for record in step.move.records] == [state, *held]


@cases(
    "action, ago, state",
    ("reset_setup", timedelta(seconds=3), "needs_human", "the token had just worked: it may have taken effect"),
    ("reset_setup", timedelta(seconds=3.1), "planned", "the token may have ended"),
    ("reset_setup", None, "planned", "the token never worked"),
    ("pause", timedelta(0), "planned", "what it left can be read"),
)
def test_a_refusal_of_a_token_that_had_just_worked(action: str, ago: timedelta | None, state: State) -> None:
    course = Course(a_write(action), a_policy(reads_back=action == "pause"))
    course.attempt(replace(DENIED, accepted_ago=ago))
    assert course.state() == state
    assert (course.write.reason == "no_readback") is (state == "needs_human")
    assert course.write.counted == (1 if state == "needs_human" else 0)


def test_what_cannot_be_read_back_is_confirmed_by_its_2xx() -> None:
    course = Course(a_write("frontend_status", params={"value": "HIDDEN"}, item="cr"), a_policy(reads_back=False))
    step = course.attempt(ACCEPTED)
    assert (course.state(), course.write.confirmed_by, step.then) == ("confirmed", "answer", "rest")
    assert step.move is not None
    assert [record.kind for record in step.move.records] == ["applied", "confirmed"], "no state is passed over"


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


def test_unknown_is_counted_from_when_it_first_was() -> None:
    course = Course(a_write())
    course.attempt(LOST)
    first = course.write.unknown_since
    course.proved_absent().attempt(BROKEN)
    assert course.state() == "unknown"
    assert course.write.unknown_since == first


@cases(
    "outcomes, held_by, seconds",
    ([DENIED, DENIED], "credentials", 300, "a second denial in a row holds for five minutes"),
    ([DENIED, NO_CONNECTION, DENIED], None, None, "an attempt that met nobody was not refused"),
    ([DENIED, STALE, DENIED], None, None, "an attempt that was not made was not refused"),
    ([DENIED, LOST, DENIED], None, None, "an attempt with an unknown outcome was not refused"),
    ([NO_CONNECTION], "backoff", 5, "what met nobody is made again after a back-off"),
    ([STALE], "backoff", 5, "and what was not made"),
    ([STALE, NO_CONNECTION], "backoff", 10, "which doubles"),
)
def test_what_was_not_sent_is_held(outcomes: list[Outcome], held_by: str | None, seconds: int | None) -> None:
    course = Course(a_write())
    for outcome in outcomes:
        course.attempt(outcome)
        if outcome is LOST:
            course.proved_absent()
    until = None if seconds is None else NOW + timedelta(seconds=seconds)
    assert (course.state(), course.write.held_by, course.write.held_until) == ("planned", held_by, until)


def test_an_accepted_attempt_forgets_the_denial_before_it() -> None:
    course = Course(a_write())
    course.attempt(DENIED)
    course.attempt(ACCEPTED)
    assert course.write.denied == 0


NEW = PartnerMemory(partner=PARTNER)


def minute(number: int) -> datetime:
    return NOW + timedelta(minutes=number)


def sent_at(number: int) -> Write:
    return a_write(state="sending", last_sent_at=minute(number))


def remembered(*attempts: tuple[int, int, Outcome]) -> PartnerMemory:
    """The memory after attempts: sent in this minute, ended in that one, like this."""
    memory = NEW
    for sent, ended, outcome in attempts:
        memory = after_outcome(memory, sent_at(sent), outcome, minute(ended))
    return memory


@cases(
    "attempts, since, until",
    ([(0, 1, DENIED)], 1, None, "the first: a new token may help"),
    ([(0, 2, DENIED), (1, 3, DENIED)], 2, None, "under way together, with one token: one refusal"),
    ([(0, 1, DENIED), (2, 3, DENIED)], 1, 3, "the second in a row, whichever write it is"),
    ([(0, 1, DENIED), (2, 3, DENIED), (8, 9, DENIED)], 1, 9, "tried again after the hold, and refused again"),
    ([(0, 1, DENIED), (2, 3, NO_CONNECTION), (4, 5, DENIED)], 1, 5, "no connection says nothing of credentials"),
    ([(0, 1, DENIED), (2, 3, STALE)], 1, None, "nor does what was not sent at all"),
    ([(0, 1, DENIED), (2, 3, ACCEPTED), (4, 5, DENIED)], 5, None, "let in meanwhile: the row is broken"),
    ([(0, 1, DENIED), (2, 3, REFUSED)], None, None, "a refusal of the write is an answer to one let in"),
    ([(0, 1, DENIED), (2, 3, LOST)], 1, None, "a 429 may be given before anybody looks at the token"),
    ([(0, 1, DENIED), (2, 3, BROKEN), (4, 5, DENIED)], 1, 5, "a broken connection shows nothing"),
    ([(0, 1, DENIED), (2, 3, DENIED), (8, 9, ACCEPTED)], None, None, "let in again: nothing is held any more"),
    ([(60, 61, DENIED), (1, 2, DENIED)], 2, None, "the clock was set back: nobody knows which came first"),
    ([(60, 61, DENIED), (1, 2, DENIED), (3, 4, DENIED)], 2, 4, "and the row goes on from there, not an hour later"),
    ([(0, 1, ACCEPTED)], None, None, "as it should be"),
)
def test_a_row_of_refusals(attempts: list[tuple[int, int, Outcome]], since: int | None, until: int | None) -> None:
    memory = remembered(*attempts)
    assert memory.denied_at == (None if since is None else minute(since))
    assert memory.denied_until == (None if until is None else minute(until) + CREDENTIALS_HOLD)


def test_a_write_that_was_never_sent_is_second_to_nothing() -> None:
    assert not in_a_row(replace(NEW, denied_at=NOW), a_write())


@cases(
    "outcome, held_by, denied",
    (DENIED, "credentials", 1, "the second refusal in a row of the partner, and the first of the write"),
    (NO_CONNECTION, "backoff", 0, "no other outcome is held for the credentials"),
)
def test_the_row_of_the_partner_holds_a_write(outcome: Outcome, held_by: str, denied: int) -> None:
    course = Course(a_write()).send()
    course.take(Attempted(outcome=outcome, denied_before=True))
    assert (course.write.held_by, course.write.denied) == (held_by, denied)


def test_a_refusal_of_what_spends_may_hide_the_effect() -> None:
    course = Course(a_write(), a_policy(spends=True))
    course.attempt(DENIED)
    assert (course.write.state, course.write.reason, course.write.counted) == ("unknown", "ambiguous", 1)
    course.proved_absent()
    assert course.follows() == "send", "reads have settled it"


def test_what_never_left_for_want_of_a_token_is_not_unknown() -> None:
    course = Course(a_write(), a_policy(spends=True))
    course.attempt(NotSent(cause="denied", why="the service refused the credentials"))
    assert course.write.state == "planned"


def test_a_message_that_was_handed_over_shows_nothing_of_credentials() -> None:
    message = a_write("notify", "sending", params={"text": "x"}, last_sent_at=minute(2))
    refused = remembered((0, 1, DENIED))
    assert after_outcome(refused, message, ACCEPTED, minute(3)) == refused
