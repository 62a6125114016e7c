"""Refusals of the credentials in a row: whose they are, and what ends the row."""

from dataclasses import replace
from datetime import datetime, timedelta

from tests.builders import NOW, PARTNER, a_policy, a_write, cases
from tests.unit.writes.course import ACCEPTED, BROKEN, DENIED, LOST, NO_CONNECTION, REFUSED, STALE, Course
from worker.model.commits import PartnerMemory
from worker.model.exchange import NotSent, Outcome
from worker.model.writes import Write
from worker.writes.life import CREDENTIALS_HOLD, Attempted, after_outcome, in_a_row

NEW = PartnerMemory(partner=PARTNER)


def minute(number: int) -> datetime:
    return NOW + timedelta(minutes=number)


def sent_at(number: int) -> Write:
    return a_write(state="sending", last_sent_at=minute(number))


def after(*attempts: tuple[int, int, Outcome]) -> PartnerMemory:
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
    memory = after(*attempts)
    assert memory.denied_at == (None if since is None else minute(since))
    assert memory.denied_until == (None if until is None else minute(until) + CREDENTIALS_HOLD)


def test_a_write_that_was_never_sent_is_second_to_nothing() -> None:
    assert not in_a_row(replace(NEW, denied_at=NOW), a_write())


@cases(
    "outcome, held_by, denied",
    (DENIED, "credentials", 1, "the second refusal in a row of the partner, and the first of the write"),
    (NO_CONNECTION, "backoff", 0, "no other outcome is held for the credentials"),
)
def test_the_row_of_the_partner_holds_a_write_that_was_refused_once(
    outcome: Outcome, held_by: str, denied: int
) -> None:
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
    refused = after((0, 1, DENIED))
    assert after_outcome(refused, message, ACCEPTED, minute(3)) == refused
