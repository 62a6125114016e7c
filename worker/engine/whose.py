"""Whose doing a change was that a look has seen: the worker's own, or another hand's; and what the log tells already.

The ledger alone tells, so that a process knows it of what the one before it has sent. A write of ours that may have had
an effect and makes the field what it is has made it so, unless a record says so already, or its effect was read before
the field was seen to be something else: what makes it so again is somebody else.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import chain
from typing import Protocol

from worker.engine.effects import effect_of
from worker.model.actions import ACTIONS
from worker.model.facts import Json
from worker.model.ids import EventId, PartnerId
from worker.model.records import Record, ToldChange
from worker.model.writes import Write
from worker.writes.undo import may_have_effect


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedField:
    """A field of a fact of one event."""

    partner: PartnerId
    event: EventId
    fact: str
    field: str

    @property
    def name(self) -> str:
        """As rules and records name it."""
        return f"{self.fact}.{self.field}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a field was, and what it is. ``seen_to``: how far the log had come when it was seen last to be what it was;
    0 where another process saw that: then the log may tell."""

    was: Json
    now_is: Json
    seen_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """Since when the log may tell more than a trail does: a time, and a record after which it is looked for."""

    at: datetime
    seq: int


class Told(Protocol):
    """What is asked of the ledger. Raises `LedgerUnwritable` where it cannot be read, or is damaged."""

    def last_seq(self) -> int: ...
    def target_writes(self, partner: PartnerId, event: EventId, target: str) -> tuple[Write, ...]: ...
    def changes_told(self, partner: PartnerId, event: EventId, after_seq: int) -> Sequence[ToldChange]: ...


def is_ours(ledger: Told, field: WatchedField, change: Change, beside: Iterable[Record]) -> bool:
    """Whether a write of ours did it. ``beside``: records of this look, which are still to be stored; each of them that
    tells of the same as our doing stands for one write, the oldest first."""
    makers = [
        write
        for target in _targets(field.fact, field.field)
        for write in ledger.target_writes(field.partner, field.event, target)
        if may_have_effect(write) and _makes(write, field, change)
    ]
    if not makers:
        return False
    stored = ledger.changes_told(field.partner, field.event, min(write.sent_seq for write in makers))
    told = [one for one in stored if field.name in one.facts]
    credited_to = max((one.seq for one in told if _says_ours(one.facts, field, change)), default=0)
    seen_to = change.seen_to or max((one.seq for one in told if one.facts[field.name] == change.was), default=0)
    left = sorted((one for one in makers if one.sent_seq > credited_to), key=lambda one: one.sent_seq)
    credited = sum(one.facts is not None and _says_ours(one.facts, field, change) for one in beside)
    return not all(_was_there_before(one, seen_to) for one in left[credited:])


def _says_ours(facts: Mapping[str, Json], field: WatchedField, change: Change) -> bool:
    return field.name in facts and facts[field.name] == change.now_is and facts["ours"] is True


def last_told(
    told: Iterable[ToldChange], field: WatchedField, known: tuple[Json, ...], since: datetime
) -> tuple[Json, ...]:
    """What the newest record that tells of the field says that it has become, where it goes on from what is ``known``
    ``since`` then, or from nothing: it is of that time or later, or tells of a change from that, by whatever clock.
    Else what is known."""
    last, fresh = known, False
    for one in told:
        if field.name in one.facts:
            last, fresh = (one.facts[field.name],), one.facts["before"] in known or one.at >= since
    return last if fresh else known


def is_told(ledger: Told, fact: tuple[PartnerId, EventId, str], after_seq: int) -> bool:
    """Whether a record after that one tells a change of a fact of the event."""
    partner, event, name = fact
    told = ledger.changes_told(partner, event, after_seq)
    return any(field.startswith(f"{name}.") for one in told for field in one.facts)


@cache
def _targets(fact: str, field: str) -> tuple[str, ...]:
    """The targets whose writes can change the field."""
    if fact == "setup":
        return ("setup",)
    written = (row.target for row in ACTIONS.values() if (fact, field) in row.writes)
    brought = (row.target for row in ACTIONS.values() if field in dict(row.brings))
    return tuple(dict.fromkeys(chain(written, brought)))


def _was_there_before(write: Write, seen_to: int) -> bool:
    """Whether a read had shown the write's effect before the field was seen to be what it was before this change."""
    return write.confirmed_by == "read" and write.changed_seq <= seen_to


def _makes(write: Write, field: WatchedField, change: Change) -> bool:
    """Whether the write's effect makes the field what it is."""
    brought = dict(ACTIONS[write.intent.action].brings)
    if field.fact == "event" and field.field in brought:
        return brought[field.field] == change.now_is
    effect = effect_of(write.intent, lambda fact: {field.field: change.was} if fact == field.fact else None)
    made = effect.value if effect is not None and effect.fact == field.fact else None
    return isinstance(made, Mapping) and field.field in made and made[field.field] == change.now_is
