"""Whose doing a change was that a look has seen: the worker's own, or another hand's.

The ledger alone tells, so that a process knows it of what the one before it has sent. A write of ours that may have had
an effect and makes the field what it is has made it so, once: what makes it so again is somebody else.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import chain
from typing import Protocol

from worker.engine.effects import effect_of
from worker.model.actions import ACTIONS
from worker.model.commits import LogFilter
from worker.model.facts import Json
from worker.model.ids import EventId, PartnerId
from worker.model.records import Record
from worker.model.writes import Write
from worker.writes.undo import may_have_effect

EVENT, SETUP = "event", "setup"


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
class Since:
    """Since when the log may tell more than a trail does: a time, and a record after which it is looked for."""

    at: datetime
    seq: int


class Told(Protocol):
    """What is asked of the ledger. Raises `LedgerUnwritable` where it cannot be read."""

    def target_writes(self, partner: PartnerId, event: EventId, target: str) -> tuple[Write, ...]: ...
    def log(self, wanted: LogFilter) -> Iterator[dict[str, Json]]: ...


def is_ours(ledger: Told, place: WatchedField, values: tuple[Json, Json], beside: Iterable[Record]) -> bool:
    """Whether a write of ours did it, and no record tells so yet, nor any ``beside`` it that is still to be stored.

    ``values``: what the field was, and what it is.
    """
    sent = [
        write
        for target in _targets(place.fact, place.field)
        for write in ledger.target_writes(place.partner, place.event, target)
        if may_have_effect(write) and _makes(write, place, values)
    ]
    if not sent:
        return False
    since = (record["facts"] for record in _changes_told(ledger, place, max(write.sent_seq for write in sent)))
    return not any(_tells_so(facts, place, values[1]) for facts in chain(since, (one.facts for one in beside)))


def _tells_so(facts: object, place: WatchedField, value: Json) -> bool:
    """Whether a record with these facts tells that the worker made the field so."""
    named = facts if isinstance(facts, Mapping) else {}
    return place.name in named and named[place.name] == value and named["ours"] is True


def last_told(ledger: Told, place: WatchedField, known: Json, since: Since) -> Json:
    """What the newest record that tells of the field says that it has become, where it goes on from what is ``known``:
    it is of that time or later, or tells of a change from that, by whatever clock. Else what is known."""
    last, fresh = known, False
    for record in _changes_told(ledger, place, since.seq):
        facts, at = record["facts"], record["at"]
        if isinstance(facts, Mapping) and place.name in facts:
            last = facts[place.name]
            fresh = facts["before"] == known or (isinstance(at, str) and datetime.fromisoformat(at) >= since.at)
    return last if fresh else known


def _changes_told(ledger: Told, place: WatchedField, after_seq: int) -> Iterator[Mapping[str, Json]]:
    for record in ledger.log(LogFilter(partner=place.partner, event=place.event, after_seq=after_seq)):
        if record["kind"] == "observed":
            yield record


@cache
def _targets(fact: str, field: str) -> tuple[str, ...]:
    """The targets whose writes can change the field."""
    if fact == SETUP:
        return (SETUP,)
    written = (row.target for row in ACTIONS.values() if (fact, field) in row.writes)
    brought = (row.target for row in ACTIONS.values() if field in dict(row.brings))
    return tuple(dict.fromkeys(chain(written, brought)))


def _makes(write: Write, place: WatchedField, values: tuple[Json, Json]) -> bool:
    """Whether the write's effect makes the field what it is."""
    was, now_is = values
    brought = dict(ACTIONS[write.intent.action].brings)
    if place.fact == EVENT and place.field in brought:
        return brought[place.field] == now_is
    effect = effect_of(write.intent, lambda fact: {place.field: was} if fact == place.fact else None)
    made = effect.value if effect is not None and effect.fact == place.fact else None
    return isinstance(made, Mapping) and place.field in made and made[place.field] == now_is
