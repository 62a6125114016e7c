"""An evaluation is stored where it says something new, and is always the newest of its pair."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from worker.engine.recording import same, too_early, worth_storing
from worker.model.commits import Evaluation, SeenFact
from worker.model.facts import EventId, Fact, FactKey, Known, PartnerId, RuleId, Unknown

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
EVENT = FactKey(name="event")


def known(status: str = "active", at: datetime = NOW, **gaps: str) -> Known:
    return Known(value={"status": status}, read_at=at, gaps=gaps)


def unknown(code: Any = "unreadable", why: str = "500") -> Unknown:  # noqa: ANN401 - one of the codes
    return Unknown(code=code, why=why, read_at=LATER)


def an_evaluation(fact: Fact | None = None, at: datetime = NOW, **changes: Any) -> Evaluation:  # noqa: ANN401 - fields
    one = Evaluation(
        partner=PartnerId("partner-id-acme"),
        event=EventId("e1"),
        rule=RuleId("r"),
        ending="false",
        when_hash="w",
        at=at,
        since=at,
        why="in words",
        facts={"event": SeenFact(key=EVENT, fact=fact or known())},
    )
    return replace(one, **changes)


@pytest.mark.parametrize(
    ("new", "stored", "reason"),
    [
        ({"fact": known(at=LATER)}, False, "when a fact was read decides nothing"),
        ({"why": "in other words"}, False, "nor do the words"),
        ({"fact": known("cancelled")}, True, "another value"),
        ({"fact": known(title="is missing")}, True, "a value that is missing now"),
        ({"ending": "true"}, True, "another ending"),
        ({"ending": "held", "reason": "for"}, True, "a hold"),
        ({"when_hash": "v"}, True, "another text"),
        ({"episode": 2}, True, "another episode"),
        ({"extra": {"added": [1]}}, True, "another change"),
        ({"until": LATER}, True, "held until another time"),
    ],
)
def test_it_is_stored_where_its_ending_or_what_decided_is_new(new: dict[str, Any], stored: bool, reason: str) -> None:
    found = worth_storing(an_evaluation(at=LATER, **new), [an_evaluation()])
    assert (found is not None) == stored, reason


def test_the_first_of_a_pair_and_every_firing_are_stored() -> None:
    assert worth_storing(an_evaluation(), []) is not None
    fired = an_evaluation(ending="fired", reason="condition")
    assert worth_storing(fired, [fired]) is not None


def test_an_ending_that_goes_on_keeps_its_beginning_and_a_new_one_begins_now() -> None:
    before = an_evaluation()
    goes_on = worth_storing(an_evaluation(known("cancelled"), at=LATER), [before])
    begins = worth_storing(an_evaluation(at=LATER, ending="true"), [before])
    assert goes_on is not None
    assert begins is not None
    assert (goes_on.at, goes_on.since) == (LATER, NOW)
    assert (begins.at, begins.since) == (LATER, LATER)


def test_the_newest_is_the_newest_also_where_the_clock_was_set_back() -> None:
    found = worth_storing(an_evaluation(ending="true", at=NOW), [an_evaluation(at=LATER)])
    assert found is not None
    assert found.at > LATER


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


@pytest.mark.parametrize(
    ("evaluation", "expected", "reason"),
    [
        (an_evaluation(unknown("unread"), ending="unknown"), True, "nobody has asked yet"),
        (an_evaluation(unknown(), ending="unknown"), False, "somebody asked, and it could not be read"),
        (an_evaluation(unknown("unread")), False, "what is definitely false needs no more"),
        (an_evaluation(ending="unknown", facts={}), True, "not even its parameters are known"),
    ],
)
def test_what_nobody_has_asked_for_yet_can_wait_for_one_look(
    evaluation: Evaluation, expected: bool, reason: str
) -> None:
    assert too_early(evaluation, {"event": None}) is expected, reason
