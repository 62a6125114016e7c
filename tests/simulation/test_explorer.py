"""Every order of up to so many events of one write: none sends twice, none loses an effect, none is left for ever."""

import os
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.simulation.explorer import LAST_BYTE, At, Found, Step, explore
from worker.model.exchange import Accepted, Refused, Uncertain
from worker.model.writes import Write
from worker.writes.evidence import TargetRead
from worker.writes.life import (
    MOVES,
    Attempted,
    FoundSending,
    Input,
    Next,
    Policy,
    Settling,
    Unwanted,
    advance,
    and_then,
    move,
)

EVENTS = int(os.environ.get("EXPLORE", "8"))
"""So many events in a row; `make prove` walks 16 (`LONG`)."""
LONG = 16
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "spends": ("run", {}),
    "stops spending": ("pause", {}),
    "is put before a person": ("run", {"ask": True}),
    "is a toggle": ("run", {"toggle": True}),
    "cannot be read back": ("run", {"reads_back": False}),
}
NOT_OF_ONE_WRITE = {
    ("planned", "waiting"), ("waiting", "planned"), ("waiting", "cancelled"), ("waiting", "skipped"),  # approvals
    ("planned", "cancelled"), ("unknown", "cancelled"), ("needs_human", "cancelled"),  # edited rules
    ("planned", "refused"), ("planned", "confirmed"),  # the pre-flight's
    ("applied", "planned"),  # an opposite write that it overtook landed after it
}  # fmt: skip


BY_WHOM = pytest.mark.parametrize("last_byte", [0, LAST_BYTE], ids=["one process", "a fleet"])


@pytest.mark.parametrize("depth", [EVENTS, pytest.param(LONG, marks=pytest.mark.prove)])
@BY_WHOM
@pytest.mark.parametrize("kind", KINDS)
def test_no_order_of_events_breaks_the_promise(kind: str, last_byte: int, depth: int) -> None:
    action, policy = KINDS[kind]
    found = explore(action, depth=depth, last_byte=last_byte, **policy)
    assert found.complaints == {}
    assert found.worlds > 800, "the walk was cut short"


@pytest.mark.parametrize("depth", [EVENTS - 2, pytest.param(LONG - 6, marks=pytest.mark.prove)])
@BY_WHOM
def test_no_order_of_events_breaks_it_where_a_pause_overtakes_a_run(last_byte: int, depth: int) -> None:
    found = explore("run", "pause", depth=depth, last_byte=last_byte)
    assert found.complaints == {}
    assert found.worlds > 3_000, "the walk was cut short"


def test_a_pause_that_forgets_what_it_overtook_is_found() -> None:
    found = explore("run", "pause", depth=7, step=_takes(_nothing_overtaken))
    assert "all is settled, and the target is not as the last write wants it" in found.complaints


def test_all_moves_of_one_write_are_walked() -> None:
    walked = {made for action, policy in KINDS.values() for made in explore(action, depth=EVENTS, **policy).moves}
    table = {(state, after) for state, reached in MOVES.items() for after in reached}
    assert table - walked == NOT_OF_ONE_WRITE


def _lost_is_refused(event: Input) -> Input:
    if isinstance(event, Attempted) and isinstance(event.outcome, Uncertain) and event.outcome.answer is not None:
        return Attempted(outcome=Refused(answer=event.outcome.answer, why="no"))
    return event


def _accepted_is_refused(event: Input) -> Input:
    if isinstance(event, Attempted) and isinstance(event.outcome, Accepted):
        return Attempted(outcome=Refused(answer=event.outcome.answer, why="no"))
    return event


def _any_read_is_absence(event: Input) -> Input:
    if isinstance(event, TargetRead) and event.evidence.says == "cannot_tell":
        return replace(event, evidence=replace(event.evidence, says="not_there", third=None))
    return event


def _presence_is_missed(event: Input) -> Input:
    if isinstance(event, TargetRead) and event.evidence.says == "there":
        return replace(event, evidence=replace(event.evidence, says="not_there"))
    return event


def _nothing_overtaken(event: Input) -> Input:
    return replace(event, overtook=None) if isinstance(event, TargetRead) else event


def _takes(change: Any) -> Step:  # noqa: ANN401 - of an input
    def step(write: Write, known: Settling | None, event: Input, policy: Policy, at: At) -> Next:
        return advance(write, known, change(event), policy, at)

    return step


def _young_reads(write: Write, known: Settling | None, event: Input, policy: Policy, at: At) -> Next:
    """A read counts from when it came, not from when it began."""
    event = replace(event, began=at[1]) if isinstance(event, TargetRead) else event
    return advance(write, known, event, policy, at)


def _not_from_the_last_byte(write: Write, known: Settling | None, event: Input, policy: Policy, at: At) -> Next:
    """A replica that takes over counts from its takeover."""
    return advance(write, replace(known, late_s=0.0) if known else None, event, policy, at)


def _found_is_unsent(write: Write, known: Settling | None, event: Input, policy: Policy, at: At) -> Next:
    """A row found in ``sending`` is sent again."""
    if not isinstance(event, FoundSending):
        return advance(write, known, event, policy, at)
    back = move(write, "planned", at=at[0], reason="not_sent", why="the process ended")
    return Next(move=back, settling=None, then="send")


def _unknown_ends_unwanted(write: Write, known: Settling | None, event: Input, policy: Policy, at: At) -> Next:
    """What is not wanted any more ends, whatever became of it."""
    if not isinstance(event, Unwanted) or write.state != "unknown":
        return advance(write, known, event, policy, at)
    end = move(write, "skipped", at=at[0], reason="no_longer_holds", why="the condition is false")
    return Next(move=end, settling=None, then="rest")


def _accepted_is_done(write: Write, known: Settling | None, event: Input, policy: Policy, at: At) -> Next:
    """A 2xx is believed, and by reading at that."""
    said = advance(write, known, event, policy, at)
    if not isinstance(event, Attempted) or said.move is None or said.move.after.state != "applied":
        return said
    done = and_then(said.move, "confirmed", at=at[0], reason="read", why="2xx", confirmed_by="read")
    return Next(move=done, settling=None, then="rest")


def _never_given_up(write: Write, known: Settling | None, event: Input, policy: Policy, at: At) -> Next:
    """Reads that say nothing are made for ever."""
    said = advance(write, known, event, policy, at)
    up = said.move is not None and (said.move.before.state, said.move.after.state) == ("unknown", "needs_human")
    return Next(move=None, settling=said.settling, then="read") if up else said


AGAIN = "sent again although its effect is there or may still come"
LOST = "skipped, and its effect is there or may still come"
ENDLESS = "left alone, it comes to no end"


@pytest.mark.parametrize(
    ("step", "policy", "complaint"),
    [
        (advance, {"settle": timedelta(0)}, LOST),
        (_takes(_any_read_is_absence), {}, LOST),
        (_takes(_presence_is_missed), {}, LOST),
        (_young_reads, {}, LOST),
        (_not_from_the_last_byte, {}, AGAIN),
        (_found_is_unsent, {}, AGAIN),
        (_takes(_lost_is_refused), {}, "rejected, and its effect is there or may still come"),
        (_takes(_accepted_is_refused), {}, "rejected, and its effect is there or may still come"),
        (_unknown_ends_unwanted, {}, LOST),
        (_accepted_is_done, {}, "confirmed, and nothing happened"),
        (_never_given_up, {}, ENDLESS),
    ],
)
def test_a_life_that_breaks_it_is_found(step: Step, policy: dict[str, Any], complaint: str) -> None:
    found: Found = explore("run", depth=7, last_byte=LAST_BYTE, step=step, **policy)
    assert complaint in found.complaints
