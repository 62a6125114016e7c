"""What weakens an absence, and that nothing weakens a presence: the one way from a read to `advance`."""

from dataclasses import replace
from datetime import timedelta

from tests.builders import NOW, a_fact, a_write, cases, event_fact, setup_fact, unreadable
from worker.model.commits import Says
from worker.model.facts import Fact, WriteId
from worker.model.writes import Write
from worker.writes.evidence import COVERED, RUNNING, SILENT, TargetRead, needs_event, read_of

LATER = NOW + timedelta(seconds=5)
CREATE = a_write("create_draft", "unknown", params={"goal": "ROAS", "total_budget": 500.0})
CREATED = replace(CREATE, before={"state": "NONE"}, before_known=True)
CALL = a_write("write", "unknown", params={"confirm": {"get": "/x", "when": "true"}})
NONE = setup_fact("NONE")


def read(write: Write, fact: Fact, *others: Write, answered: bool = True, running: bool = False) -> TargetRead:
    return read_of(write, fact, others, began=7.0, running=running, event_answered=answered)


PAUSE, RUN = a_write("pause", "unknown"), replace(a_write("run", "applied"), id=WriteId(9))
RUNNING_EVENT, PAUSED_EVENT = (event_fact(client_campaign_status=status) for status in ("RUNNING", "PAUSED"))


@cases(
    "look, says, why",
    (read(CREATED, NONE), "not_there", "as before", "a 404 after which the event answered"),
    (read(CREATED, NONE, answered=False), "cannot_tell", SILENT, "a 404 after which it did not"),
    (read(PAUSE, RUNNING_EVENT, running=True), "cannot_tell", RUNNING, "no absence while the task is at work"),
    (read(PAUSE, event_fact(client_campaign_status=None), running=True), "cannot_tell", RUNNING, "nor a third value"),
    (read(PAUSE, PAUSED_EVENT, RUN, answered=False, running=True), "there", "", "presence is weakened by nothing"),
)
def test_what_weakens_an_absence(look: TargetRead, says: Says, why: str) -> None:
    assert (look.evidence.says, look.evidence.third) == (says, None)
    assert why in look.evidence.why


@cases(
    "write, fact, needed",
    (CREATED, NONE, True, "a 404 that says not there"),
    (a_write("boost", "unknown"), NONE, False, "a draft that is gone is a third value, not an absence"),
    (a_write("boost", "unknown"), setup_fact("DRAFT"), False, "the setup itself answered"),
    (CREATE, unreadable(), False, "nothing was read"),
    (CALL, a_fact({"absent": True}), True, "what confirm asked for was not there, and may be the very effect"),
    (CALL, a_fact({"holds": True}), False, "confirm found something"),
    (PAUSE, RUNNING_EVENT, False, "the event is what was read"),
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
    evidence = read(PAUSE, RUNNING_EVENT, PAUSE, replace(other, id=WriteId(9))).evidence
    assert evidence.says == says
    assert (evidence.why == COVERED) is (says == "cannot_tell")


def test_what_else_advance_must_know_is_handed_on() -> None:
    earlier = replace(a_write("run", "unknown", last_sent_at=NOW - timedelta(seconds=9)), id=WriteId(9))
    look = read(a_write("pause", "applied"), PAUSED_EVENT, earlier, running=True)
    assert (look.began, look.overtook) == (7.0, "unsettled")
    assert read(a_write("run", "applied"), RUNNING_EVENT, earlier).overtook is None
