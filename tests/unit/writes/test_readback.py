"""What weakens an absence, and that nothing weakens a presence: the one way from a read to `advance`."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.builders import NOW, a_fact, a_write, cases, event_fact, setup_fact, unreadable
from worker.model.commits import Says
from worker.model.facts import Fact, WriteId
from worker.model.writes import Write
from worker.writes.evidence import COVERED, RUNNING, SILENT, TargetRead, needs_event, read_of

LATER = NOW + timedelta(seconds=5)
CREATE = a_write("create_draft", "unknown", params={"goal": "ROAS", "total_budget": 500.0})
CALL = a_write("write", "unknown", params={"confirm": {"get": "/x", "when": "true"}})
NONE = setup_fact("NONE")


def read(write: Write, fact: Fact, *others: Write, answered: bool = True, running: bool = False) -> TargetRead:
    return read_of(write, fact, others, began=7.0, running=running, event_answered=answered)


@pytest.mark.parametrize(
    ("answered", "says", "why"), [(True, "not_there", "as before"), (False, "cannot_tell", SILENT)]
)
def test_a_404_says_not_there_only_if_the_event_answered_after_it(answered: bool, says: Says, why: str) -> None:
    created = replace(CREATE, before={"state": "NONE"}, before_known=True)
    evidence = read(created, NONE, answered=answered).evidence
    assert evidence.says == says
    assert why in evidence.why


@cases(
    "write, fact, needed",
    (replace(CREATE, before={"state": "NONE"}, before_known=True), NONE, True, "a 404 that says not there"),
    (a_write("boost", "unknown"), NONE, False, "a draft that is gone is a third value, not an absence"),
    (a_write("boost", "unknown"), setup_fact("DRAFT"), False, "the setup itself answered"),
    (CREATE, unreadable(), False, "nothing was read"),
    (CALL, a_fact({"absent": True}), True, "what confirm asked for was not there, and may be the very effect"),
    (CALL, a_fact({"holds": True}), False, "confirm found something"),
    (
        a_write("pause", "unknown"),
        event_fact(client_campaign_status="RUNNING"),
        False,
        "the event is what was read",
    ),
)
def test_when_the_event_is_asked_for_too(write: Write, fact: Fact, needed: bool) -> None:
    assert needs_event(write, fact) is needed


@cases(
    "other, says",
    (a_write("run", "applied"), "cannot_tell", "the run may be what reads show"),
    (a_write("run", "rejected"), "not_there", "the service refused the run: nothing of it shows"),
    (a_write("run", "planned"), "not_there", "the run was never sent"),
    (a_write("run", "planned", attempt=1, uncounted=1, last_sent_at=LATER), "not_there", "proven unsent"),
    (a_write("run", "confirmed", last_sent_at=NOW - timedelta(seconds=9)), "not_there", "the run went before it"),
    (a_write("pause", "confirmed"), "not_there", "the same wish"),
)
def test_what_an_opposite_write_of_ours_has_covered_cannot_be_told(other: Write, says: Says) -> None:
    pause = a_write("pause", "unknown")
    other = replace(other, id=WriteId(9))
    evidence = read(pause, event_fact(client_campaign_status="RUNNING"), pause, other).evidence
    assert evidence.says == says
    assert (evidence.why == COVERED) is (says == "cannot_tell")


@pytest.mark.parametrize("status", ["RUNNING", None])
def test_a_read_whose_task_still_runs_cannot_tell(status: str | None) -> None:
    """Neither absence nor a third value is believed while the service is still at work on it."""
    evidence = read(a_write("pause", "unknown"), event_fact(client_campaign_status=status), running=True).evidence
    assert (evidence.says, evidence.third) == ("cannot_tell", None)
    assert RUNNING in evidence.why


def test_presence_is_weakened_by_nothing() -> None:
    pause, run = a_write("pause", "unknown"), replace(a_write("run", "applied"), id=WriteId(9))
    look = read(pause, event_fact(client_campaign_status="PAUSED"), run, answered=False, running=True)
    assert look.evidence.says == "there"


def test_what_else_advance_must_know_is_handed_on() -> None:
    earlier = replace(a_write("run", "unknown", last_sent_at=NOW - timedelta(seconds=9)), id=WriteId(9))
    look = read(a_write("pause", "applied"), event_fact(client_campaign_status="PAUSED"), earlier, running=True)
    assert (look.began, look.overtook) == (7.0, "unsettled")
    assert read(a_write("run", "applied"), event_fact(client_campaign_status="RUNNING"), earlier).overtook is None
