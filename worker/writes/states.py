"""The state machine of a write: one table and one door.

Every change of state in the worker is made by `move`; a pair that the table lacks is a programming error and raises
before anything is stored. The one exception has a function of its own, `restored`: what becomes of open writes where a
person accepts a restored ledger. The pictures in docs/operating.md and docs/reference.md are drawn from this table.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from worker.model.commits import Move
from worker.model.records import Record, of_write
from worker.model.writes import State, Write

MOVES: Mapping[State, tuple[State, ...]] = {
    "planned": ("waiting", "sending", "refused", "skipped", "cancelled", "confirmed"),
    "waiting": ("planned", "cancelled", "skipped"),
    "sending": ("applied", "unknown", "rejected", "planned"),
    "applied": ("confirmed", "unconfirmed", "needs_human", "planned"),
    "unknown": ("confirmed", "sending", "skipped", "cancelled", "needs_human"),
    "needs_human": ("confirmed", "planned", "skipped", "cancelled"),
    "confirmed": (),
    "unconfirmed": (),
    "rejected": (),
    "refused": (),
    "skipped": (),
    "shadowed": (),
    "cancelled": (),
}
"""``applied`` goes to ``planned`` only where an overtaken opposite write landed afterwards."""

RESTORED: frozenset[State] = frozenset(state for state, after in MOVES.items() if after)
"""What leads to ``needs_human`` whatever the table says, once a person accepts a restored ledger: nobody knows what
became of these writes since the backup. Only `restored` makes this move."""


class IllegalMove(Exception):
    """The table has no such move. A defect of the worker, never of its input."""


def move(write: Write, to: State, *, at: datetime, reason: str, why: str, **changes: Any) -> Move:  # noqa: ANN401 - fields of Write
    """The move of ``write`` to state ``to``, with its record. ``changes`` are further fields of the write; one that
    begins a hold is recorded as well.

    A hold ends with every change of state. How long a write is held counts from when it could first be sent: an attempt
    that is proven unsent begins nothing anew. Raises `IllegalMove`.
    """
    if to not in MOVES[write.state]:
        raise IllegalMove(f"a write cannot go from {write.state} to {to}")
    fields: dict[str, Any] = {"held_by": None, "held_until": None, **changes}
    if (to == "planned" and write.state != "sending") or (to == "sending" and write.state == "unknown"):
        fields["due_since"] = at
    after = replace(write, state=to, changed_at=at, reason=reason, why=why, **fields)
    records = [of_write(after, at=at, kind=to, reason=reason, why=why)]
    if after.held_by is not None:
        records.append(of_write(after, at=at, kind="held", reason=after.held_by, why=why))
    return Move(before=write, after=after, records=tuple(records))


def restored(write: Write, *, at: datetime, moved_to: str = "") -> Move:
    """The move of a write that was not final in a ledger that a person accepted as restored, or took to another service
    (``moved_to``). Raises `IllegalMove`."""
    if write.state not in RESTORED:
        raise IllegalMove(f"a write that is {write.state} stays so when its ledger is restored")
    why = f"was {write.state} when the ledger was backed up; what happened to it since is not known"
    if moved_to:
        why = f"was {write.state} when the ledger was taken to {moved_to}; what it came to there is not known"
    after = replace(
        write,
        state="needs_human",
        reason="restored",
        why=why,
        changed_at=at,
        held_by=None,
        held_until=None,
        absent_proved=False,
    )
    return Move(
        before=write, after=after, records=(of_write(after, at=at, kind="needs_human", reason="restored", why=why),)
    )


def and_then(first: Move, to: State, *, at: datetime, reason: str, why: str, **changes: Any) -> Move:  # noqa: ANN401 - fields of Write
    """Two moves made at once, where the first leaves nothing to wait for; each has its record."""
    second = move(first.after, to, at=at, reason=reason, why=why, **changes)
    return Move(before=first.before, after=second.after, records=(*first.records, *second.records))


def hold(write: Write, *, at: datetime, reason: str, why: str, until: datetime | None = None) -> Move | None:
    """The write stays where it is and says what holds it; None where it already says so.

    A record is made only when the reason changes, so that a long hold does not fill the log.
    """
    if write.held_by == reason and write.held_until == until:
        return None
    records: tuple[Record, ...] = ()
    if write.held_by != reason:
        records = (of_write(write, at=at, kind="held", reason=reason, why=why),)
    return Move(before=write, after=replace(write, held_by=reason, held_until=until, why=why), records=records)


def note(write: Write, **changes: Any) -> Move:  # noqa: ANN401 - fields of Write
    """A change of a write's own fields without a change of state and without a record."""
    return Move(before=write, after=replace(write, **changes))
