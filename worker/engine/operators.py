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
