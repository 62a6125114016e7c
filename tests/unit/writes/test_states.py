"""The state table is the contract's, there is one door, and an input in another state stores nothing."""

from collections.abc import Mapping
from datetime import timedelta
from typing import get_args

import pytest

from tests.builders import NOW, a_policy, a_write, cases
from tests.unit.writes.course import ACCEPTED, DENIED, LOST, REFUSED, Course, seen
from worker.model.commits import Says
from worker.model.writes import FINAL, UNSENT, UNSETTLED, State
from worker.writes.evidence import TargetRead
from worker.writes.life import MOVES, Attempted, FoundSending, IllegalMove, Input, Policy, Verdict, hold, move, restored

STATES: tuple[State, ...] = get_args(State)
LATER = NOW + timedelta(seconds=30)

CONTRACT: Mapping[State, set[State]] = {
    "planned": {"waiting", "sending", "refused", "skipped", "cancelled", "confirmed"},
    "waiting": {"planned", "cancelled", "skipped"},
    "sending": {"applied", "unknown", "rejected", "planned"},
    "applied": {"confirmed", "unconfirmed", "needs_human", "planned"},  # planned: an overtaken write landed afterwards
    "unknown": {"confirmed", "sending", "skipped", "cancelled", "needs_human"},
    "needs_human": {"confirmed", "planned", "skipped", "cancelled"},
}


@pytest.mark.parametrize("state", STATES)
def test_the_moves_from_a_state_are_those_of_the_contract(state: State) -> None:
    assert set(MOVES[state]) == CONTRACT.get(state, set())


def test_the_groups_of_states_are_those_of_the_contract() -> None:
    assert set(FINAL) == {"confirmed", "unconfirmed", "rejected", "refused", "skipped", "shadowed", "cancelled"}
    assert set(UNSETTLED) == {"sending", "applied", "unknown", "needs_human"}, "these hold their target"
    assert set(UNSENT) == {"planned", "waiting"}


@pytest.mark.parametrize(("start", "to"), [(start, to) for start in STATES for to in STATES], ids=str)
def test_the_door_lets_through_what_the_table_has_and_nothing_else(start: State, to: State) -> None:
    write = a_write(state=start)
    if to in MOVES[start]:
        assert move(write, to, at=LATER, reason="person", why="said so").after.state == to
    else:
        with pytest.raises(IllegalMove, match=f"from {start} to {to}"):
            move(write, to, at=LATER, reason="person", why="said so")


@cases(
    "start, to, anew",
    ("waiting", "planned", True, "a person let it go just now"),
    ("needs_human", "planned", True, "a person allowed one more attempt just now"),
    ("applied", "planned", True, "it is sent anew, because what it overtook landed"),
    ("sending", "planned", False, "proven unsent: it is held as long as before"),
    ("planned", "sending", False, "it may yet be proven unsent"),
    ("unknown", "sending", True, "until now it was not held, but unknown"),
    ("planned", "waiting", False, "it does not become due by waiting"),
)
def test_since_when_a_write_could_be_sent(start: State, to: State, anew: bool) -> None:
    after = move(a_write(state=start), to, at=LATER, reason="person", why="said so").after
    assert after.due_since == (LATER if anew else NOW)


@cases(
    "held_by, reason, recorded",
    ("halt", "target_busy", ["target_busy"], "another reason is recorded"),
    ("halt", "halt", [], "only lasting longer is stored without a record"),
)
def test_a_hold_is_recorded_when_its_reason_changes(held_by: str, reason: str, recorded: list[str]) -> None:
    found = hold(a_write(held_by=held_by, held_until=NOW), at=NOW, reason=reason, why="", until=LATER)
    assert found is not None
    assert (found.after.held_by, found.after.held_until) == (reason, LATER)
    assert [record.reason for record in found.records] == recorded


def test_a_hold_that_says_nothing_new_is_nothing() -> None:
    write = a_write(held_by="halt", held_until=LATER, why="said so")
    assert hold(write, at=NOW, reason="halt", why="said so", until=LATER) is None


@pytest.mark.parametrize("state", STATES)
def test_a_restored_ledger_puts_every_write_that_is_not_final_before_a_person(state: State) -> None:
    write = a_write(state=state, held_by="halt", held_until=LATER, absent_proved=True)
    if state in FINAL:
        with pytest.raises(IllegalMove):
            restored(write, at=LATER)
        return
    after = restored(write, at=LATER).after
    assert (after.state, after.reason, after.changed_at) == ("needs_human", "restored", LATER)
    assert (after.held_by, after.held_until, after.absent_proved) == (None, None, False), "nothing is proved any more"
    assert state in after.why
    assert after.attempt == write.attempt


def test_a_write_of_a_ledger_that_is_taken_to_another_service_says_to_which() -> None:
    (record,) = restored(a_write(state="planned"), at=LATER, moved_to="https://new.example").records
    assert record.why.startswith("was planned when the ledger was taken to https://new.example")


ATTEMPTS = [Attempted(outcome=outcome) for outcome in (ACCEPTED, REFUSED, DENIED, LOST)]
VERDICTS = [Verdict(applied=applied, because="seen") for applied in (True, False)]
LOOKS = [TargetRead(evidence=seen(says), began=2000.0) for says in get_args(Says)]

TAKEN: list[tuple[list[Input], set[State], str]] = [
    ([*ATTEMPTS], {"sending"}, "only what is being sent has an outcome"),
    ([FoundSending()], {"sending"}, "only a row in sending was being sent"),
    ([*VERDICTS], {"needs_human"}, "a person judges what only a person can tell"),
    ([*LOOKS], {"applied", "unknown", "needs_human"}, "reads say something of what was sent and is not settled"),
]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("inputs", "states", "reason"), TAKEN)
@pytest.mark.parametrize("policy", [a_policy(), a_policy(reads_back=False), a_policy(toggle=True)])
def test_an_input_that_the_state_does_not_know_is_refused(
    inputs: list[Input], states: set[State], reason: str, state: State, policy: Policy
) -> None:
    for one in inputs:
        course = Course(a_write(state=state), policy)
        if state in states:
            course.take(one)
        else:
            with pytest.raises(IllegalMove):
                course.take(one)
            assert course.write == a_write(state=state), reason
