"""What watched facts were before they became what they are, kept until the log has told it.

A value that comes and goes between two logs is two changes, perhaps of two hands, so all in between are kept too. A
field that an answer lacks has not changed yet: what it was when it was read last is kept until it is read again, or
what it became meanwhile would be in no record.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from worker.engine.whose import Since
from worker.model.facts import Json, Known, Place

UNLOGGED_MOST = 16
"""So many values of a fact are kept between two logs; of more, the newest takes the place of the one before it."""


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
        self._keep(place, (*self.before.get(place, ()), was))

    def values(self, place: Place, now: Known, is_told: Callable[[int], bool]) -> tuple[Was, ...]:
        """What the fact was, which is ``now`` so, as far as it is still to be told; oldest first. ``is_told``: whether
        a log record after that one tells a change of it."""
        doubt = self._doubts.get(place)
        if doubt is not None and is_told(doubt.after_seq):  # then all are, which are in one commit
            olds = self.before[place]
            told, self.before[place] = olds[: doubt.values], olds[doubt.values :]
            self._lacks(place, (*self.lacked.get(place, ()), *told), next((one.fact for one in olds[len(told) :]), now))
            self._doubts.pop(place)
            self.unsure.pop(place, None)
        return (*self.lacked.get(place, ()), *self.before[place])

    def tells(self, place: Place, now: Known, log_seq: int) -> None:
        """What a fact was goes into the records of this look, which are still to be stored. ``log_seq``: how far the
        log has come."""
        if not self._telling:
            self._telling_after = log_seq
        telling = _Telling(olds=self.before.pop(place), lacked=self.lacked.get(place, ()))
        self._telling[place] = telling
        self._doubts.pop(place, None)
        self._lacks(place, (*telling.lacked, *telling.olds), now)

    def told(self) -> None:
        """They are stored."""
        for place in self._telling:
            if not self.lacked.get(place):
                self.unsure.pop(place, None)
        self._telling.clear()

    def tells_again(self) -> None:
        """They may not be stored: the next look tells what the log then lacks."""
        for place, telling in self._telling.items():
            self._doubts[place] = Doubt(after_seq=self._telling_after, values=len(telling.olds))
            self._keep(place, (*telling.olds, *self.before.get(place, ())))
            self.lacked[place] = telling.lacked
        self._telling.clear()

    def _keep(self, place: Place, olds: tuple[Was, ...]) -> None:
        """Keeps so many of them. Of those that may be told already none takes the place of one that is not."""
        doubt = self._doubts.get(place)
        if len(olds) > UNLOGGED_MOST:
            olds = (*olds[: UNLOGGED_MOST - 1], olds[-1])
            if doubt is not None and doubt.values >= UNLOGGED_MOST:
                self._doubts[place] = Doubt(after_seq=doubt.after_seq, values=UNLOGGED_MOST - 1)
        self.before[place] = olds

    def _lacks(self, place: Place, olds: tuple[Was, ...], now: Known) -> None:
        """Keeps what a fact lacks, of what it was."""
        self.lacked.pop(place, None)
        if still := lacking(olds, now):
            self.lacked[place] = still

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
