"""What an operator's word does: to a write through the same door as everything else, to memory as an edit does. Pure.

The commands store what comes of it in a short transaction of their own; a running daemon sees it in its next cycle.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from worker.engine.edits import reopened, with_remembered
from worker.engine.settings import EngineSettings, policy_for
from worker.model.commits import MemoryChange, Move
from worker.model.errors import WorkerError
from worker.model.facts import Json
from worker.model.ids import EventId, PartnerId, RuleId
from worker.model.memory import RuleMemory
from worker.model.records import Record, of_write
from worker.model.writes import State, Write
from worker.writes.life import Verdict, advance
from worker.writes.states import move, restored

WITHOUT_EFFECT: frozenset[State] = frozenset({"rejected", "refused", "skipped", "shadowed", "cancelled"})
"""States that ``again`` reopens: the write ended, and nothing came of it."""


Memories = Mapping[tuple[PartnerId, EventId, RuleId], RuleMemory]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A person's word: why, who, and when."""

    because: str
    by: str
    at: datetime


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


def approved(write: Write, *, because: str, by: str, now: datetime, amount: float | None = None) -> Move:
    """The move of an ``approve``: a waiting write is planned again, and still passes every guard. ``amount``: what the
    one who approves it was shown that it spends."""
    facts: Mapping[str, Json] | None = None if amount is None else {"amount": amount}
    change = move(write, "planned", at=now, reason="person", why=because, approved=True)
    return _decided(write, "approved", change, by, facts)


def rejected(write: Write, *, because: str, by: str, now: datetime) -> Move:
    """The move of a ``reject``: the write ends as cancelled, and its episode does not plan it again."""
    return _decided(write, "resolved", move(write, "cancelled", at=now, reason="person", why=because), by)


def _decided(write: Write, kind: str, change: Move, by: str, facts: Mapping[str, Json] | None = None) -> Move:
    """The person's word first, then the state that follows from it; both say who it was."""
    word = "let go" if kind == "approved" else "rejected"
    said = of_write(write, at=change.after.changed_at, kind=kind, reason="person", why=f"{word}: {change.after.why}")
    said = replace(said, facts=facts)
    return replace(change, records=tuple(replace(record, by=by) for record in (said, *change.records)))


def after_restore(write: Write, *, by: str, now: datetime, moved_to: str = "") -> Move:
    """The move of a write that was open in a ledger that a person accepts as restored, or takes to another service."""
    change = restored(write, at=now, moved_to=moved_to)
    return replace(change, records=tuple(replace(record, by=by) for record in change.records))


def last_of_its_rule(write: Write, memories: Memories) -> bool:
    """Whether the write's episode is the last one of its rule and event: what came later has taken its place."""
    memory = memories.get((write.key.partner, write.key.event, write.key.rule))
    return memory is not None and memory.episode == write.key.episode


def reopening(writes: Iterable[Write], memories: Memories) -> list[MemoryChange]:
    """What ``again`` changes: the memory of the rule whose write it is, and of those that share it still."""
    changes: dict[tuple[PartnerId, EventId, RuleId], MemoryChange] = {}
    for write in writes:
        for rule in dict.fromkeys((write.key.rule, *write.rules)):
            pair = (write.key.partner, write.key.event, rule)
            memory = memories.get(pair)
            if memory is not None and (rule == write.key.rule or (memory.open and memory.fired)):
                changes.setdefault(pair, MemoryChange(before=memory, after=_reopened(memory, write)))
    return list(changes.values())


def spoken(write: Write, kind: str, word: Word) -> Record:
    """The record of a person's word about a write."""
    return replace(of_write(write, at=word.at, kind=kind, reason="person", why=word.because), by=word.by)


def _reopened(memory: RuleMemory, write: Write) -> RuleMemory:
    """The next true look opens another episode, and a change is pending again against the baseline before it.

    The number after the closed episode is used up, so that a daemon which decides at this very moment on the memory as
    it was cannot store it over this one: its commit is behind the ledger, and it decides anew.
    """
    closed = reopened(with_remembered(memory, write))
    forced = memory.forced if memory.looked_at is None else None
    return replace(closed, episode=memory.episode + 1, forced=forced, waited=None, asked=None, stopped=None, held=None)
