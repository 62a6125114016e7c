"""What a reset of the service makes of writes that were decided on before it."""

from datetime import timedelta
from typing import Any

import pytest

from tests.builders import NOW, a_write, cases
from worker.engine.planning import Edited, asked_anew, decided_before, reset_objection
from worker.model.commits import PartnerMemory
from worker.model.facts import EventId, PartnerId, RuleId
from worker.model.writes import State, Write
from worker.writes.life import move, note

SECOND = timedelta(seconds=1)
LATER = NOW + 60 * SECOND


def memory(write: Write, *, back: timedelta, reset: timedelta | None) -> PartnerMemory:
    """A partner whose event came back then, and that was reset then."""
    event, reset_at = EventId(write.key.event), None if reset is None else NOW + reset
    return PartnerMemory(partner=PartnerId(write.key.partner), returned={event: NOW + back}, reset_at=reset_at)


@cases(
    "changes, back, reset, before",
    ({}, SECOND, SECOND, True, "back with the reset"),
    ({}, 2 * SECOND, SECOND, True, "back after it"),
    ({}, SECOND, None, False, "back without any"),
    ({}, SECOND, 2 * SECOND, False, "back before it"),
    ({}, timedelta(0), timedelta(0), False, "decided on at that look"),
    ({"due_since": NOW + 2 * SECOND}, SECOND, SECOND, False, "let go since"),
    ({"due_since": NOW + 2 * SECOND, "last_sent_at": NOW}, SECOND, SECOND, False, "sent before, and let go since"),
    (
        {"due_since": NOW + 2 * SECOND, "last_sent_at": NOW, "reason": "overtaken"},
        SECOND,
        SECOND,
        True,
        "sent before, and overtaken",
    ),
    ({}, 90 * SECOND, SECOND, False, "back at a time that has not come"),
)
def test_a_write_was_decided_on_before_the_reset_unless_a_person_has_let_it_go_since(
    changes: dict[str, Any], back: timedelta, reset: timedelta | None, before: bool
) -> None:
    write = a_write(state="planned", **changes)
    assert decided_before(memory(write, back=back, reset=reset), write, LATER) is before


@pytest.mark.parametrize("state", ["waiting", "sending", "applied", "unknown", "needs_human", "confirmed"])
def test_only_what_is_planned_is_moved_and_only_what_is_unknown_is_held(state: State) -> None:
    write = a_write(state=state)
    reset = memory(write, back=SECOND, reset=SECOND)
    assert asked_anew(reset, [], [write], LATER) == []
    no = reset_objection(reset, write, LATER)
    assert (no is not None and (no.way, no.reason) == ("hold", "reset")) is (state == "unknown")


def test_an_approval_of_before_the_reset_is_taken_back() -> None:
    write = a_write(state="planned", approved=True)
    (one,) = asked_anew(memory(write, back=SECOND, reset=SECOND), [], [write], LATER)
    after = one.change.after
    assert (one.left, after.state, after.reason, after.approved) == ((), "waiting", "reset", False)


def test_an_edit_of_the_same_look_stays_and_what_it_ends_waits_for_nobody() -> None:
    write = a_write(state="planned")
    left = (RuleId("gone"),)
    stays = Edited(write=write, change=note(write, rules=(RuleId("other"),)), left=left)
    ends = Edited(write=write, change=move(write, "cancelled", at=LATER, reason="rule_gone", why="gone"), left=left)
    reset = memory(write, back=SECOND, reset=SECOND)
    (one,) = asked_anew(reset, [stays], [write], LATER)
    assert (one.left, one.change.before, one.change.after.state) == (left, write, "waiting")
    assert one.change.after.rules == (RuleId("other"),)
    assert asked_anew(reset, [ends], [write], LATER) == [ends]
