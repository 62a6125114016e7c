"""What one process knows of one partner between two cycles.

Only what can be lost without harm lives here alone: the last facts, the rows of evidence, the running tasks. Memory and
writes are in the ledger; ``memories`` is a copy of what is stored there, replaced only after a commit succeeded.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from worker.engine.looks import products_off
from worker.engine.recording import Stored
from worker.model.commits import OF_PARTNER, PartnerMemory, RuleMemory
from worker.model.facts import (
    EventId,
    Fact,
    FactKey,
    Known,
    Observation,
    PartnerId,
    Place,
    RuleId,
    Unknown,
    WriteId,
)
from worker.model.writes import State, Write
from worker.reading.plan import Delays, Habits
from worker.rules.registry import BUILT_IN_REGISTRY
from worker.writes.life import Settling

Pair = tuple[EventId, RuleId]

EVENT = FactKey(name="event")
PARTNER = FactKey(name="partner")
NOT_LISTED = object()
_SHARED = BUILT_IN_REGISTRY.shared


@dataclass(slots=True)
class TaskWatch:
    """Task reads of one write: how many were made, when the next is due (monotonic), and what the last said."""

    due: float
    reads: int = 0
    verdict: str = "unread"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAt:
    """A write that is not looked at by reads of its own before monotonic ``until``, unless its ``life`` has changed.
    ``place``: its event and target; whoever settles there may have been what held it."""

    until: float
    times: int
    life: tuple[State, int, bool]
    place: tuple[EventId, str]


def life_of(write: Write) -> tuple[State, int, bool]:
    """What ends a rest when it changes: a person's verdict, an approval, an attempt."""
    return write.state, write.attempt, write.approved


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsWanted:
    """Facts that rules want of one event beside its own record, and how much a change of them matters, against 1."""

    keys: frozenset[FactKey]
    weight: float = 1.0


@dataclass(slots=True)
class PartnerState:
    """One partner, as this process knows it.

    ``stored``: what the ledger holds of its facts, and what is to be stored. ``known``: events met so far. ``said``:
    what the last logged evidence of a write said, and when; ``shown``: a read that showed its effect while the ledger
    could not take it.
    ``listed_for``: the fields of an event that the list was read for last; ``lacking``: events that it has not shown
    since those are others, so that a field may seem to be missing which nobody has asked for.
    ``due``: when an event is to be decided on again though nothing is learnt of it; one that is not there at once.
    ``due_under``: what that also depends on. ``wanted``: the facts that rules want of an event beside its own record;
    only events of which any is wanted; ``habits``: how often those facts were found changed.
    ``shut``: rules that a product of the partner keeps from looking, with why, as it was last said; ``missed``: times
    of rules that went by, and are not told yet. ``claimed``: events whose facts a pre-flight is about to read.
    ``in_flight``: writes whose attempt is recorded and whose outcome is not.
    ``quiet_until``: monotonic second before which the partner is left in peace. ``listed_at``: when its list, or the
    first pages of a long one, was answered last, in monotonic seconds; ``look_s``: how long the last complete look
    took; ``expected``: how soon changes are seen now, as found out last, good until ``expected_until``.
    ``left``: the service no longer names it; nothing more is sent. ``read_up_to``: the newest record when a person's
    changes of the ledger's memory were last looked for.
    """

    partner: PartnerId
    memory: PartnerMemory
    memories: dict[Pair, RuleMemory]
    stored: Stored
    facts: dict[EventId, dict[FactKey, Fact]] = field(default_factory=dict)
    shared: dict[FactKey, Fact] = field(default_factory=dict)
    due: dict[EventId, datetime] = field(default_factory=dict)
    due_under: object = None
    wanted: dict[EventId, FactsWanted] = field(default_factory=dict)
    habits: Habits = field(default_factory=Habits)
    shut: Mapping[RuleId, str] = field(default_factory=dict)
    missed: Mapping[tuple[RuleId, datetime], Sequence[EventId]] = field(default_factory=dict)
    known: set[EventId] = field(default_factory=set)
    listed_for: object = NOT_LISTED
    lacking: set[EventId] = field(default_factory=set)
    checked_gone: dict[EventId, float] = field(default_factory=dict)
    settling: dict[WriteId, Settling] = field(default_factory=dict)
    tasks_of_service: dict[WriteId, TaskWatch] = field(default_factory=dict)
    said: dict[WriteId, tuple[str, float]] = field(default_factory=dict)
    shown: dict[WriteId, Fact] = field(default_factory=dict)
    running: dict[WriteId, asyncio.Task[None]] = field(default_factory=dict)
    rests: dict[WriteId, RetryAt] = field(default_factory=dict)
    claimed: Counter[EventId] = field(default_factory=Counter)
    in_flight: set[WriteId] = field(default_factory=set)
    quiet_until: float = float("-inf")
    listed_at: float = float("-inf")
    look_s: float = 0.0
    expected: Delays | None = None
    expected_until: float = float("-inf")
    left: bool = False
    read_up_to: int = 0
    last_ok_at: datetime | None = None
    last_error: str | None = None

    @property
    def products_off(self) -> frozenset[str]:
        """The product flags that the partner's record says are off, as it was read last."""
        return products_off(self.shared.get(PARTNER))

    def trouble(self, now: datetime) -> str | None:
        """What is wrong with this partner, in words for people."""
        until = self.memory.denied_until
        denied = None
        if until is not None and now < until:
            denied = f"credentials: the service refuses them for writes, which are held until {until:%H:%M:%S} UTC"
        return "; ".join(filter(None, (denied, self.last_error))) or None

    def keep_only(self, open_writes: Collection[WriteId]) -> None:
        """Forgets what is known of writes that have ended. What another process has ended may have held any of those
        that rest."""
        if any(write not in open_writes for write in self.settling):
            self.rests.clear()
        for known in (self.settling, self.tasks_of_service, self.said, self.rests, self.shown):
            for write in [one for one in known if one not in open_writes]:
                known.pop(write)

    def rest(self, write: Write, now: float, first_s: float, longest_s: float) -> None:
        """What a pre-flight or a read of its own could not bring further is tried again later, twice as late each
        time, so that many writes that wait take no requests from those that can go on."""
        before = self.rests.get(write.id)
        times = before.times + 1 if before is not None and before.life == life_of(write) else 1
        wait_s = min(first_s * (1 << min(times - 1, 8)), longest_s)
        place = (write.key.event, write.intent.target)
        self.rests[write.id] = RetryAt(until=now + wait_s, times=times, life=life_of(write), place=place)

    def wake_beside(self, write: Write) -> None:
        """A write has moved on: what rests on the same target, which it may have held, is looked at again at once."""
        place = (write.key.event, write.intent.target)
        for held in [one for one, rest in self.rests.items() if rest.place == place and one != write.id]:
            del self.rests[held]

    def resting(self, write: Write, now: float) -> bool:
        """Whether the write still rests."""
        rest = self.rests.get(write.id)
        return rest is not None and now < rest.until and rest.life == life_of(write)

    def fact(self, event: EventId, key: FactKey) -> Fact | None:
        """The last fact of that key, of the event or of the partner."""
        own = self.facts.get(event, {}).get(key)
        return own if own is not None else self.shared.get(key)

    def forget(self, event: EventId) -> None:
        """Nothing is known of the event any more: what comes back under its id may be another one."""
        self.facts.pop(event, None)
        self.stored.forget(event)

    def known_facts(self) -> Iterator[tuple[Place, Fact]]:
        """Every fact that is known now, with its place."""
        for event, facts in self.facts.items():
            yield from (((event, key), fact) for key, fact in facts.items())
        yield from (((OF_PARTNER, key), fact) for key, fact in self.shared.items())

    def observe(self, event: EventId, key: FactKey, fact: Fact) -> bool:
        """Keeps a fact, of the event or of the partner; an older answer never replaces a newer one. Whether it says
        something else than before."""
        if key is not EVENT and (key in self.shared or key.name in _SHARED):
            return self.observe_shared(key, fact)
        store = self.facts.setdefault(event, {})
        old = store.get(key)
        if old is not None and _older(fact, old):
            return False
        store[key] = fact
        if old is not None and _says_the_same(old, fact):
            return False
        self.stored.saw((event, key), fact)
        self.due.pop(event, None)
        return True

    def listed(self, needed: object, events: Iterable[EventId]) -> None:
        """A list that was read for the ``needed`` fields has shown these events."""
        if needed != self.listed_for:
            self.listed_for, self.lacking = needed, set(self.facts)
        if self.lacking:
            self.lacking.difference_update(events)

    def under(self, circumstances: object) -> None:
        """What every decision about this partner also depends on; where that is new, everything is decided on anew."""
        if circumstances != self.due_under:
            self.due.clear()
            self.due_under = circumstances

    def stirred(self, events: Iterable[EventId], now: datetime) -> list[EventId]:
        """Those of which something was learnt, or whose time has come, in order."""
        due = self.due
        return sorted(event for event in events if (at := due.get(event)) is None or at <= now)

    def observe_shared(self, key: FactKey, fact: Fact) -> bool:
        """Keeps a fact of the whole partner; see `observe`."""
        old = self.shared.get(key)
        if old is not None and _older(fact, old):
            return False
        self.shared[key] = fact
        if old is not None and _says_the_same(old, fact):
            return False
        self.stored.saw((OF_PARTNER, key), fact)
        self.due.clear()
        return True

    def observation(self, event: EventId) -> Observation:
        """All that is known of the event now."""
        return Observation(partner=self.partner, event=event, facts=self.merged(event))

    def merged(self, event: EventId) -> dict[FactKey, Fact]:
        """The event's facts over the partner's."""
        return {**self.shared, **self.facts.get(event, {})}


def _older(new: Fact, old: Fact) -> bool:
    """Whether what was read before says nothing against what was read after it: a value, or that there is none."""
    told = isinstance(old, Known) or old.code == "gone"
    return told and isinstance(new, Known) and _began(new) < _began(old)


def _says_the_same(old: Fact, new: Fact) -> bool:
    """Whether nothing can be decided otherwise for the new one: when it was read does not matter."""
    if isinstance(old, Known) and isinstance(new, Known):
        return (old.value is new.value or old.value == new.value) and old.gaps == new.gaps
    if isinstance(old, Unknown) and isinstance(new, Unknown):
        return (old.code, old.why) == (new.code, new.why)
    return False


def _began(fact: Fact) -> float:
    return fact.trace.began if fact.trace is not None else 0.0
