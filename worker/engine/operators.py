"""What an operator's verdict does to a write: through the same door as everything else. Pure.

The commands store the move in a short transaction of their own; a running daemon sees it in its next cycle.
"""

from dataclasses import replace
from datetime import datetime

from worker.engine.settings import EngineSettings, policy_for
from worker.model.commits import Move
from worker.model.errors import WorkerError
from worker.model.records import of_write
from worker.model.writes import Write
from worker.writes.life import Verdict, advance
from worker.writes.states import move


def resolved(write: Write, *, applied: bool, because: str, by: str, now: datetime, settings: EngineSettings) -> Move:
    """The move of a ``resolve``: confirmed by a person, or planned again for exactly one more attempt."""
    policy = policy_for(write, None, settings)
    step = advance(write, None, Verdict(applied=applied, because=because), policy, (now, 0.0))
    if step.move is None:
        raise WorkerError(f"write {write.id} cannot be resolved from {write.state}")
    said = "it took effect" if applied else "it did not take effect; one more attempt is allowed"
    verdict = of_write(write, at=now, kind="resolved", reason="person", why=f"{said}: {because}")
    records = (replace(verdict, by=by), *(replace(record, by=by) for record in step.move.records))
    return replace(step.move, records=records)


def approved(write: Write, *, because: str, by: str, now: datetime) -> Move:
    """The move of an ``approve``: a waiting write is planned again, and still passes every guard."""
    return _decided(write, "approved", move(write, "planned", at=now, reason="person", why=because, approved=True), by)


def rejected(write: Write, *, because: str, by: str, now: datetime) -> Move:
    """The move of a ``reject``: the write ends as cancelled, and its episode does not plan it again."""
    return _decided(write, "resolved", move(write, "cancelled", at=now, reason="person", why=because), by)


def _decided(write: Write, kind: str, change: Move, by: str) -> Move:
    """The person's word first, then the state that follows from it; both say who it was."""
    word = "let go" if kind == "approved" else "rejected"
    said = of_write(write, at=change.after.changed_at, kind=kind, reason="person", why=f"{word}: {change.after.why}")
    return replace(change, records=tuple(replace(record, by=by) for record in (said, *change.records)))
