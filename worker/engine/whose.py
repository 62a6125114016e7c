"""Whose doing a change was that a look has seen: the worker's own, or another hand's; and what the log tells already.

The ledger alone tells, so that a process knows it of what the one before it has sent. A write of ours that may have had
an effect and makes the field what it is has made it so, unless a record says so already, or its effect was read before
the field was seen to be something else: what makes it so again is somebody else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from itertools import chain
from typing import Protocol

from worker.model.actions import ACTIONS
from worker.model.facts import EventId, Json, Known, PartnerId, Place
from worker.model.records import Record, ToldChange
from worker.model.writes import Intent, Write
from worker.writes.evidence import SERIES, members
from worker.writes.undo import may_have_effect

# What a write that took effect makes of a fact: for worlds that are not the service, as rule tests and replays are.
#
# One table, by how an action's effect is shown. What the service would change beside it is not known, and not guessed.

NO_SETUP: Mapping[str, Json] = {"state": "NONE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A fact, and what becomes of it. ``whole``: the value takes the place of the old one; else its fields do."""

    fact: str
    value: Json
    whole: bool = False


def effect_of(intent: Intent, value_of: Callable[[str], Json]) -> Effect | None:
    """The effect on a fact; None where no fact shows it. ``value_of``: what a fact is now."""
    row = ACTIONS[intent.action]
    match row.shown:
        case "field":
            return Effect(fact="event", value=dict(intent.wanted))
        case "setup" if row.creates:
            return Effect(fact="setup", value={"state": "DRAFT", **intent.params}, whole=True)
        case "setup":
            return Effect(fact="setup", value=dict(intent.wanted))
        case "campaign":
            campaigns = _with_campaign(value_of("campaigns"), intent.params)
            return Effect(fact="campaigns", value=campaigns, whole=True)
        case "series":
            return Effect(fact="event", value={SERIES: _with_members(value_of("event"), intent.params, row.value)})
        case "answer" if row.target == "setup":
            return Effect(fact="setup", value=dict(NO_SETUP), whole=True)
        case _:
            return None


def _with_campaign(campaigns: Json, params: Mapping[str, Json]) -> Json:
    """The campaigns with one of this name that has these values."""
    known = [one for one in campaigns if isinstance(one, dict)] if isinstance(campaigns, list) else []
    name = (params["tc"], params["tc_run_id"])
    same = [one for one in known if (one.get("tc"), one.get("tc_run_id")) == name]
    others = [one for one in known if one not in same]
    changed: dict[str, Json] = {**(same[0] if same else {}), **params}
    return [*others, changed]


def _with_members(event: Json, params: Mapping[str, Json], way: str | None) -> Json:
    """The series with these events in it, or out of it."""
    now = event.get(SERIES) if isinstance(event, dict) else None
    others = [one for one in now if one not in members(params)] if isinstance(now, list) else []
    return [*others, *members(params)] if way == "in" else others


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


# What watched facts were before they became what they are, kept until the log has told it.
#
# A value that comes and goes between two logs is two changes, perhaps of two hands, so all in between are kept too. A
# field that an answer lacks has not changed yet: what it was when it was read last is kept until it is read again, or
# what it became meanwhile would be in no record.

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
