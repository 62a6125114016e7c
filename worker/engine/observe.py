"""One look at one partner: the list, the events that dropped out of it, and the facts that rules need.

Only what was seen in this look becomes an observation; the rest keeps its memory untouched. An event missing from a
complete list is asked for by itself before anything is concluded; while it answers 404 it is out of sight and frozen.
Nothing here decides, and nothing is written: what must be remembered is handed to the cycle.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil, floor
from typing import Protocol
from zlib import crc32

from worker.engine.factreads import FactReader
from worker.engine.looks import shut
from worker.engine.parts import Parts
from worker.engine.ports import Listing, Urgency
from worker.engine.state import EVENT, PARTNER, PartnerState
from worker.model.commits import PartnerMemory, Record
from worker.model.exchange import PartOfList
from worker.model.facts import (
    EventId,
    Fact,
    FactKey,
    Known,
    Unknown,
)
from worker.model.rules import Rule
from worker.reading.plan import Want, choose, delays, facts_per_look, requests_in

ACCOUNT = frozenset({"permissions", "features"})
"""What the account may do for the partner: fetched when the partner is first looked at, and again after a change."""
PARTNER_FACTS_EVERY = timedelta(seconds=60)
"""How often facts of the whole partner are read where no rule names them; its product flags guard every write."""
GONE_AGAIN = timedelta(minutes=5)
"""How often an event that answered 404 is asked for again; being listed brings it back at once."""
FIRINGS_BY_PARTS = 5
"""With more firings than this, the rest of a long list is decided on as a whole: a surge is counted over all of it."""
ROUNDS_PER_INTERVAL = 2
"""How often facts are read between the pages of a long list: seldom enough to choose among all that are wanted."""
EXPECTED_EVERY = timedelta(seconds=60)
RESET_AT_LEAST = 4
"""Fewer events than this vanishing at once are not taken for a reset of the service."""
MEMORY_EVERY = timedelta(seconds=30)
"""How often the time of the last complete list is stored, or twice as often, not for all partners at once. A silence is
measured a little too long, never too short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """What one part of a look saw. ``in_sight``: the events whose facts count now; ``only``: those of which this part
    learnt anything, None for all. ``pages``: see `Listing`. ``memory`` is the partner's new memory; ``store`` says
    whether it is worth a commit. ``denied``: the service refused our credentials."""

    in_sight: AbstractSet[EventId]
    memory: PartnerMemory
    store: bool
    records: tuple[Record, ...]
    complete: bool
    only: AbstractSet[EventId] | None = None
    room: int = 0
    pages: int = 1
    denied: bool = False
    why: str = ""


Tell = Callable[[Polled], int]
"""Hears of a part of a look; how many firings there were in the parts so far."""


class Polling(Protocol):
    """Who looks at a partner for a cycle: `Observer`, or a record of what it saw once."""

    async def events(self, state: PartnerState, tell: Tell) -> Polled: ...
    async def facts(self, state: PartnerState, seen: Polled) -> Polled: ...


@dataclass(slots=True, kw_only=True)
class Course:
    """One look while it is under way. ``handled``: what its pages showed so far of events that were decided on before
    the list is whole. ``heard``: the share of the pages that was; ``room``: fact reads that are due since;
    ``fired``: firings so far; ``listed_at``: when its first pages were answered."""

    began: datetime
    rules: list[Rule]
    tell: Tell
    handled: dict[EventId, Known] = field(default_factory=dict)
    heard: float = 0.0
    fired: int = 0
    room: float = 0.0
    listed_at: float | None = None


class Observer:
    """Looks at one partner, again and again."""

    def __init__(self, parts: Parts) -> None:
        self._clock = parts.clock
        self._service = parts.service
        self._settings = parts.settings
        self._rules = parts.rules
        self._reader = FactReader(parts)

    async def events(self, state: PartnerState, tell: Tell) -> Polled:
        """The list, and whoever dropped out of it. Never raises for what the service does: that is unknown, and said
        in ``why``.

        ``tell`` hears what some pages of a long list show of events that are known and still the same, and facts read
        meanwhile: a cancelled event must not wait until all others were listed. Whatever needs the whole list to be
        understood (a new event, a missing one, another one under an old id) is in what is given back.
        """
        if state.shared.get(PARTNER) is None:
            await self._read_shared(state, self._looking(state))
        rules = self._looking(state)
        under = (self._rules.current, state.products_off)
        same_rules = state.wanted_under == under and state.stored.rules is self._rules.current
        course = Course(began=self._clock.now(), rules=rules, tell=tell)

        async def hear(part: PartOfList) -> None:
            course.listed_at = course.listed_at or self._clock.monotonic()
            if same_rules:
                await self._hear(state, course, part)

        needed = self._rules.needed
        listing = await self._service.listing(state.partner, hear, needed)
        state.listed(needed, listing.events)
        now, state.listed_at = self._clock.now(), course.listed_at or self._clock.monotonic()
        memory = self._gap(state.memory, course.began)
        in_sight = _taken_in(state, course, listing)
        room = self._room(state, listing, course)
        memory, records = self._replaced(state, memory, now)
        if listing.complete:
            memory, reset = self._reset(state, memory, in_sight, now)
            records.extend(reset)
            room -= await self._ask_for_missing(state, in_sight, room)
            if memory.reset_at is not None and _many_lost(state, memory, in_sight):
                memory = _lost(state, memory, in_sight, now)
        memory = self._sight(state, memory, in_sight, now)
        self._reader.want(state, rules, state.calm.stirred(in_sight, now) if state.wanted_under == under else in_sight)
        state.wanted_under = under
        if listing.complete:
            memory = replace(memory, listed_at=now)
            state.last_ok_at, state.last_error = now, None
        else:
            state.last_error = listing.why
        return Polled(
            in_sight=in_sight,
            memory=memory,
            store=_worth_storing(state.memory, memory),
            records=tuple(records),
            complete=listing.complete,
            room=room,
            pages=listing.pages,
            denied=listing.code == "denied",
            why=listing.why,
        )

    async def facts(self, state: PartnerState, seen: Polled) -> Polled:
        """The facts that cost a request each, of the partner and of the events in sight, while room is left."""
        rules = self._looking(state)
        news = await self._read_shared(state, rules)
        changed = await self._reader.read_facts(state, rules, seen.in_sight, seen.room)
        self._expect(state, seen)
        return replace(seen, memory=state.memory, store=False, records=(), only=None if news else changed)

    def _expect(self, state: PartnerState, seen: Polled) -> None:
        """Finds out anew how soon changes are seen; now and then, because it takes all wanted facts together."""
        now = self._clock.monotonic()
        if not seen.complete or now < state.expected_until:
            return
        wants = self._reader.wants(state, seen.in_sight, fresh=False)
        state.expected = delays(wants, seen.pages, self._service.budget(state.partner), self._settings.interval)
        state.expected_until = now + EXPECTED_EVERY.total_seconds()

    def _looking(self, state: PartnerState) -> list[Rule]:
        """The rules that look at this partner now."""
        rules = [rule for rule in self._rules.current.rules if rule.looks_at(state.partner)]
        off = shut(rules, state.products_off)
        return [rule for rule in rules if rule.id not in off] if off else rules

    def _gap(self, memory: PartnerMemory, began: datetime) -> PartnerMemory:
        """A silence longer than ``gap.longer_than`` makes every first look after it a look with care. A last list that
        is stamped as far in the future says nothing of how long it was."""
        if memory.listed_at is None or abs(began - memory.listed_at) <= self._settings.deciding.gap:
            return memory
        return replace(memory, after_gap_at=began)

    async def _hear(self, state: PartnerState, course: Course, part: PartOfList) -> None:
        """Takes in some pages of a list of which others are still to come, and what facts are due by now."""
        if course.fired > FIRINGS_BY_PARTS:
            return
        changed: set[EventId] = set()
        known, gone = state.known, state.memory.gone
        for event, fact in part.events.items():
            if event not in known or event in gone:
                continue
            if state.says_it_again(event, fact):
                course.handled[event] = fact
                continue
            old = state.fact(event, EVENT)
            if old is None or _is_another(old, fact):
                continue
            course.handled[event] = fact
            if state.observe(event, EVENT, fact):
                changed.add(event)
        at_once = self._settings.pairs_at_once
        if len(state.calm.portions(sorted(changed), len(course.rules), at_once, self._clock.now())) < 2:  # else later
            self._reader.want(state, course.rules, sorted(changed))
            self._tell(state, course, changed)
        share = part.pages / part.of_pages
        course.heard += share
        course.room += self._facts_per_look(state, part.of_pages) * share
        per_interval = requests_in(self._settings.interval, self._service.budget(state.partner))
        if course.room >= max(1.0, per_interval / ROUNDS_PER_INTERVAL):
            room, in_sight = floor(course.room), state.known - state.memory.gone.keys()
            course.room -= room
            self._tell(state, course, await self._reader.read_facts(state, course.rules, in_sight, room))

    def _tell(self, state: PartnerState, course: Course, events: AbstractSet[EventId]) -> None:
        if events:
            memory = self._gap(state.memory, course.began)
            course.fired = course.tell(
                Polled(in_sight=events, only=events, memory=memory, store=False, records=(), complete=False)
            )

    def _room(self, state: PartnerState, listing: Listing, course: Course) -> int:
        """How many facts are still to be read in this look. Those due while the list was read have been. Rather one too
        many, and a look that takes a little longer, than a pace that is not used and never finds that it may grow."""
        return max(1, ceil(course.room + self._facts_per_look(state, listing.pages) * (1.0 - course.heard)))

    def _facts_per_look(self, state: PartnerState, pages: int) -> float:
        return facts_per_look(self._service.budget(state.partner), self._settings.interval, pages)

    def _reset(
        self, state: PartnerState, memory: PartnerMemory, listed: set[EventId], now: datetime
    ) -> tuple[PartnerMemory, list[Record]]:
        if not _many_lost(state, memory, listed):
            return memory, []
        known = state.known - memory.gone.keys()
        lost = known - listed
        if _recent(memory.reset_at, now):
            return replace(memory, reset_at=now), []
        why = f"{len(lost)} of {len(known)} events vanished from the list at once; what comes back waits for approval"
        record = Record(at=now, kind="observed", reason="reset", why=why, partner=state.partner)
        return replace(memory, reset_at=now), [record]

    def _replaced(
        self, state: PartnerState, memory: PartnerMemory, now: datetime
    ) -> tuple[PartnerMemory, list[Record]]:
        """A reset that gives the ids to other events at once, so that none is seen to vanish. What was known of the
        events before is forgotten: compared with it, everything would have changed."""
        stored = state.stored
        changed = [event for event, key in stored.seen if key == EVENT and event in stored.facts]
        others = [one for one in changed if _is_another(stored.facts[one].get(EVENT), state.fact(one, EVENT))]
        known = len(state.known - memory.gone.keys())
        if len(others) < RESET_AT_LEAST or 2 * len(others) <= known:
            return memory, []
        for event in others:
            now_there = state.facts[event][EVENT]
            state.forget(event)
            state.facts[event] = {EVENT: now_there}
            stored.saw((event, EVENT), now_there)
        why = f"{len(others)} of {known} events became others under their ids; what they lead to waits for approval"
        record = Record(at=now, kind="observed", reason="reset", why=why, partner=state.partner)
        returned = {**memory.returned, **dict.fromkeys(others, now)}
        fresh = [] if _recent(memory.reset_at, now) else [record]
        return replace(memory, reset_at=now, returned=returned), fresh

    async def _ask_for_missing(self, state: PartnerState, in_sight: set[EventId], room: int) -> int:
        """Reads the known events that the list lacks, one by one; those that answer are in sight after all."""
        now = self._clock.monotonic()
        missing = [event for event in sorted(state.known - in_sight) if self._worth_asking(state, event, now)]
        wants = [Want(event=event, key=EVENT, read_at=state.checked_gone.get(event)) for event in missing]
        chosen = choose(wants, room, now, self._settings.interval)
        await self._reader.read(state, chosen)
        for want in chosen:
            state.checked_gone[want.event] = now
            if isinstance(state.fact(want.event, EVENT), Known):
                in_sight.add(want.event)
                state.lacking.discard(want.event)
        return len(chosen)

    def _worth_asking(self, state: PartnerState, event: EventId, now: float) -> bool:
        if event not in state.memory.gone:
            return True
        last = state.checked_gone.get(event)
        return last is None or now - last >= GONE_AGAIN.total_seconds()

    def _sight(
        self, state: PartnerState, memory: PartnerMemory, in_sight: set[EventId], now: datetime
    ) -> PartnerMemory:
        """Who went out of sight and who came back. A failed read is neither."""
        gone, returned = dict(memory.gone), dict(memory.returned)
        for event in state.known - in_sight:
            fact = state.fact(event, EVENT)
            if _is_gone(fact) and event not in gone:
                gone[event] = now
        for event in in_sight:
            if event in gone:
                del gone[event]
                returned[event] = now
        state.known |= in_sight
        if gone == memory.gone and returned == memory.returned:
            return memory
        return replace(memory, gone=gone, returned=returned)

    async def _read_shared(self, state: PartnerState, rules: Iterable[Rule]) -> bool:
        """Facts of the whole partner: those that rules name, the partner record that guards every write, and what the
        account may do, once and again when the partner's record has changed. Whether any says something else now."""
        changed: list[FactKey] = []
        named = {name for rule in rules for name in rule.names} & self._settings.shared
        for key in [PARTNER, *(FactKey(name=name) for name in sorted((named | ACCOUNT) - {PARTNER.name}))]:
            old = state.shared.get(key)
            if self._still_good(key, old, named=key.name in named, anew=PARTNER in changed):
                continue
            fact = await self._service.read(state.partner, None, key, urgency=Urgency.FACT)
            if state.observe_shared(key, fact):
                changed.append(key)
        return bool(changed)

    def _still_good(self, key: FactKey, old: Fact | None, *, named: bool, anew: bool) -> bool:
        """Whether a fact of the whole partner need not be read now."""
        unnamed_account = key.name in ACCOUNT and not named
        if old is None or old.trace is None or (isinstance(old, Unknown) and not unnamed_account):
            return False
        if unnamed_account and isinstance(old, Known):
            return not anew
        every = self._settings.interval if named else PARTNER_FACTS_EVERY
        return self._clock.monotonic() - old.trace.began < every.total_seconds()


def _many_lost(state: PartnerState, memory: PartnerMemory, seen: set[EventId]) -> bool:
    """More than half of the events that were in sight are missing at once."""
    known = state.known - memory.gone.keys()
    return len(known) >= RESET_AT_LEAST and 2 * len(known - seen) > len(known)


def _is_another(old: Fact | None, new: Fact | None) -> bool:
    """Whether the event that has the id now is not the one that had it: both its title and its start are others."""
    if not (isinstance(old, Known) and isinstance(new, Known)):
        return False
    was, now_is = old.value, new.value
    if was is now_is:
        return False
    if not (isinstance(was, dict) and isinstance(now_is, dict)):
        return False
    return all(name in was and name in now_is and was[name] != now_is[name] for name in ("title", "start_date_time"))


def _taken_in(state: PartnerState, course: Course, listing: Listing) -> set[EventId]:
    """Keeps what the list says of each event, unless its page was taken in as it came. The events that are there."""
    there = set[EventId](listing.events)
    for event, fact in listing.events.items():
        if course.handled.get(event) is not fact:
            if state.says_it_again(event, fact):
                continue
            state.observe(event, EVENT, fact)
        known = state.fact(event, EVENT)
        if known is not fact and _is_gone(known):  # by a read of its own that was made later than the list
            there.discard(event)
    return there


def _is_gone(fact: Fact | None) -> bool:
    """Whether the event answered 404 by itself; a list that was read before does not bring it back."""
    return isinstance(fact, Unknown) and fact.code == "gone"


def _lost(state: PartnerState, memory: PartnerMemory, in_sight: set[EventId], now: datetime) -> PartnerMemory:
    """After a reset everything that vanished is out of sight at once, whether a read of its own has said so or not; and
    forgotten, because what comes back under its id may be another event."""
    for event in state.known - in_sight:
        state.forget(event)
    return replace(memory, gone={**dict.fromkeys(state.known - in_sight, now), **memory.gone})


def _recent(at: datetime | None, now: datetime) -> bool:
    """A reset goes on for a while: its later waves belong to it."""
    return at is not None and now - at < timedelta(minutes=10)


def _worth_storing(old: PartnerMemory, new: PartnerMemory) -> bool:
    if replace(old, listed_at=new.listed_at) != new:
        return True
    if new.listed_at is None:
        return False
    every = MEMORY_EVERY * (0.5 + crc32(new.partner.encode()) % 500 / 1000.0)
    return old.listed_at is None or abs(new.listed_at - old.listed_at) >= every
