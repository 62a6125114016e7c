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
from worker.model.replacing import replace
from worker.model.writes import Write
from worker.writes.undo import may_have_effect

EVENT, SETUP = "event", "setup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A field of a fact of one event."""

    partner: PartnerId
    event: EventId
    fact: str
    field: str

    @property
    def name(self) -> str:
        """As rules and records name it."""
        return f"{self.fact}.{self.field}"


class Told(Protocol):
    """What is asked of the ledger. Raises `LedgerUnwritable` where it cannot be read."""

    def target_writes(self, partner: PartnerId, event: EventId, target: str) -> tuple[Write, ...]: ...
    def log(self, wanted: LogFilter) -> Iterator[dict[str, Json]]: ...


def is_ours(ledger: Told, place: Place, values: tuple[Json, Json], beside: Iterable[Record]) -> bool:
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
    since = _changes_told(ledger, replace(_about(place), after_seq=max(write.sent_seq for write in sent)))
    told = chain(since, (one.facts for one in beside if one.facts is not None))
    return not any(place.name in one and one[place.name] == values[1] and one["ours"] is True for one in told)


def last_told(ledger: Told, place: Place, since: datetime) -> tuple[Json, ...]:
    """The value of the field in the newest record since then that tells of it; empty where none does."""
    told = _changes_told(ledger, replace(_about(place), since=since))
    return tuple([facts[place.name] for facts in told if place.name in facts][-1:])


def _about(place: Place) -> LogFilter:
    return LogFilter(partner=place.partner, event=place.event)


def _changes_told(ledger: Told, wanted: LogFilter) -> Iterator[Mapping[str, Json]]:
    for record in ledger.log(wanted):
        facts = record["facts"]
        if record["kind"] == "observed" and isinstance(facts, Mapping):
            yield facts


@cache
def _targets(fact: str, field: str) -> tuple[str, ...]:
    """The targets whose writes can change the field."""
    if fact == SETUP:
        return (SETUP,)
    written = (row.target for row in ACTIONS.values() if (fact, field) in row.writes)
    brought = (row.target for row in ACTIONS.values() if field in dict(row.brings))
    return tuple(dict.fromkeys(chain(written, brought)))


def _makes(write: Write, place: Place, values: tuple[Json, Json]) -> bool:
    """Whether the write's effect makes the field what it is."""
    was, now_is = values
    brought = dict(ACTIONS[write.intent.action].brings)
    if place.fact == EVENT and place.field in brought:
        return brought[place.field] == now_is
    effect = effect_of(write.intent, lambda fact: {place.field: was} if fact == place.fact else None)
    made = effect.value if effect is not None and effect.fact == place.fact else None
    return isinstance(made, Mapping) and place.field in made and made[place.field] == now_is
