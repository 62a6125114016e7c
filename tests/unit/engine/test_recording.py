"""What was seen since the last commit is told once, field by field, also after a commit that nobody is sure of."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.worlds import rule_set
from worker.engine.state import UNSTORED_MOST, Stored, same
from worker.model.facts import EventId, Fact, FactKey, Known, PartnerId, Unknown, UnknownCode

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
EVENT = FactKey(name="event")
E1 = EventId("e1")


def known(status: str | None = "active", /, at: datetime = NOW, **gaps: str) -> Known:
    return Known(value={"status": status} if status is not None else {}, read_at=at, gaps=gaps)


def unknown(code: UnknownCode = "unreadable", why: str = "500") -> Unknown:
    return Unknown(code=code, why=why, read_at=LATER)


@pytest.mark.parametrize("tried", [0, UNSTORED_MOST])
def test_of_too_many_values_the_newest_stays(tried: int) -> None:
    found = Stored(partner=PartnerId("p"))
    found.under(rule_set("rules: [{id: r, when: event.status == 'cancelled', do: [pause]}]"), ())
    found.saw((E1, EVENT), known("a"))
    found.took(found.attempt(NOW, None))
    for number in range(tried):
        found.saw((E1, EVENT), known(f"v{number}"))
    found.trial = found.attempt(NOW, None)
    for number in range(3 * UNSTORED_MOST):
        found.saw((E1, EVENT), known(f"w{number}"))
    found.took(found.trial)
    assert len(found.seen[E1][EVENT]) == UNSTORED_MOST
    last = [one.facts or {} for one in found.records(found.attempt(LATER, None).changes)][-1]
    assert (last["before"], last["event.status"]) == (f"w{UNSTORED_MOST - 2}", f"w{3 * UNSTORED_MOST - 1}")


@pytest.mark.parametrize(
    ("old", "new", "expected", "reason"),
    [
        (known(), known(at=LATER), True, "read again"),
        (known(), known("cancelled"), False, "another value"),
        (known(), known(title="is missing"), False, "another gap"),
        (known(), unknown(), False, "not readable any more"),
        (unknown(), known(), False, "readable again"),
        (unknown(), unknown(why="timed out after 10.02 s"), True, "nothing is known, in whatever words"),
        (unknown(), unknown("gone"), False, "nothing is known for another reason"),
        (None, unknown(), False, "never seen before"),
        (None, known(), False, "never seen before"),
    ],
)
def test_facts_are_the_same_where_they_say_the_same(old: Fact | None, new: Fact, expected: bool, reason: str) -> None:
    assert same(old, new) is expected, reason
