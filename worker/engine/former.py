"""What watched facts were before they became what they are, kept until the log has told it.

A value that comes and goes between two logs is two changes, perhaps of two hands, so all in between are kept too. A
field that an answer lacks has not changed yet: what it was when it was read last is kept until it is read again, or
what it became meanwhile would be in no record.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from worker.engine.whose import Since
from worker.model.facts import Fact, FactKey, Json, Known
from worker.model.ids import EventId

UNLOGGED_MOST = 16
"""So many values of a fact are kept between two logs; of more, the newest takes the place of the one before it."""

Place = tuple[EventId, FactKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class Was:
    """A watched fact as it was. ``seen_to``: how far the log had come when it was seen last to be so; 0 of what another
    process saw."""

    fact: Known
    seen_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Records of changes that may be stored or not: told after log record ``after_seq``, of so many former values."""

    after_seq: int
    values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Telling:
    """What is in records that are about to be stored, and what had been lacking until then."""

    olds: tuple[Was, ...]
    lacked: tuple[Was, ...]


@dataclass(slots=True)
class Former:
    """The former values of one partner's facts. ``before``: of those that say something else than when that was last
    logged, oldest first; ``lacked``: fields that a fact has lacked since they were read last, as they were then;
    ``laid_aside``: facts that nobody looks at any more, as they were then; ``unsure``: of which an earlier process
    stored what is known, and the log may tell more."""

    before: dict[Place, tuple[Was, ...]] = field(default_factory=dict)
    lacked: dict[Place, tuple[Was, ...]] = field(default_factory=dict)
    laid_aside: dict[Place, Was] = field(default_factory=dict)
    unsure: dict[Place, Since] = field(default_factory=dict)
    _doubts: dict[Place, Doubt] = field(default_factory=dict)
    _telling: dict[Place, _Telling] = field(default_factory=dict)
    _telling_after: int = 0

    def note(self, place: Place, was: Was) -> None:
        """What a fact was, which says something else now."""
        self.before[place] = (*self.before.get(place, ())[: UNLOGGED_MOST - 1], was)

    def values(self, place: Place, now: Known, is_told: Callable[[int], bool]) -> Iterator[Was]:
        """What the fact was, which is ``now`` so, as far as it is still to be told; oldest first. ``is_told``: whether
        a log record after that one tells a change of it."""
        lacked, olds = self.lacked.get(place, ()), self.before[place]
        doubt = self._doubts.get(place)
        if doubt is not None and is_told(doubt.after_seq):
            olds, dropped = olds[doubt.values :], (*lacked, *olds[: doubt.values])  # all of a look are in one commit
            lacked = lacking(dropped, olds[0].fact if olds else now)
            self.unsure.pop(place, None)
        yield from lacked
        yield from olds

    def tells(self, place: Place, now: Fact | None, log_seq: int) -> None:
        """What a fact was goes into the records of this look, which are still to be stored. ``log_seq``: how far the
        log has come."""
        if not self._telling:
            self._telling_after = log_seq
        telling = _Telling(olds=self.before.pop(place), lacked=self.lacked.pop(place, ()))
        self._telling[place] = telling
        self._doubts.pop(place, None)
        still = lacking((*telling.lacked, *telling.olds), now) if isinstance(now, Known) else ()
        if still:
            self.lacked[place] = still

    def told(self) -> None:
        """They are stored."""
        for place in self._telling:
            if place not in self.lacked:
                self.unsure.pop(place, None)
        self._telling.clear()

    def tells_again(self) -> None:
        """They may not be stored: the next look tells what the log then lacks."""
        for place, telling in self._telling.items():
            self.before[place] = (*telling.olds, *self.before.get(place, ()))[:UNLOGGED_MOST]
            self._doubts[place] = Doubt(after_seq=self._telling_after, values=len(telling.olds))
            self.lacked.pop(place, None)
            if telling.lacked:
                self.lacked[place] = telling.lacked
        self._telling.clear()

    def forget(self, place: Place) -> None:
        """Nothing from before counts any more."""
        for known in (self.before, self.lacked, self.laid_aside, self.unsure, self._doubts, self._telling):
            known.pop(place, None)


def lacking(olds: tuple[Was, ...], now: Known) -> tuple[Was, ...]:
    """Those fields of former values that a fact lacks, each as it was read last; oldest first."""
    missing = set(now.gaps)
    found: list[Was] = []
    for old in reversed(olds if missing else ()):
        value: dict[str, Json] = {}
        if isinstance(old.fact.value, Mapping):
            value = {name: was for name, was in old.fact.value.items() if name in missing}
        if value:
            missing -= value.keys()
            found.append(Was(fact=Known(value=value, read_at=old.fact.read_at), seen_to=old.seen_to))
    return tuple(reversed(found))
