"""One poll of one partner, as news to decide on: the list of events, then the facts that rules need.

Only what was seen in this poll is news; the rest keeps its memory untouched. An event missing from a complete list is
asked for by itself before anything is concluded; while it answers 404 it is out of sight and frozen. Nothing here
decides, and nothing is written: what must be remembered is part of the news.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil, floor
from typing import Protocol
from zlib import crc32

from worker.engine.derived import with_writes
from worker.engine.episodes import asks_later, due_now, may_be_due
from worker.engine.ports import Listing, Stage, Urgency
from worker.engine.state import EVENT, OF_THE_WORKER, PARTNER, FactsWanted, PartnerState, Stored
from worker.engine.views import PARTNER_FACTS_EVERY, active_rules, names_read
from worker.model.commits import OF_PARTNER, PartnerMemory, Record
from worker.model.errors import WorkerError
from worker.model.facts import UNREAD, EventId, Fact, FactKey, Known, Observation, Trace, Unknown, record_of
from worker.model.rules import Rule, RuleSet
from worker.reading.pacing import Want, choose, delays, facts_per_poll
from worker.rules.facts import lacks_defaults, runtime_in_days, scope_of, worth_keeping

ACCOUNT = frozenset({"permissions", "features"})
"""What the account may do for the partner: fetched when the partner is first looked at, and again after a change."""
GONE_AGAIN = timedelta(minutes=5)
"""How soon an event that answered 404 is asked for again, later after a tenth of the time that it is gone; being listed
brings it back at once."""
EXPECTED_EVERY = timedelta(seconds=60)
RESET_AT_LEAST = 4
"""Fewer events than this vanishing at once are not taken for a reset of the service."""
MEMORY_EVERY = timedelta(seconds=30)
"""How often the time of the last complete list is stored, or twice as often, not for all partners at once. A silence is
measured a little too long, never too short."""
PAIRS_AT_ONCE = 10_000
"""So many pairs of a rule and an event are one piece of news: all else that the process does waits for a piece."""
BREATH = timedelta(milliseconds=5)
"""How long everything else has between two pieces."""
ROUNDS = 4
"""Rounds of fact reads in one poll: parameters first, then what they give the key to."""
SIDE_BY_SIDE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What a part of a poll has shown, as of ``at``. ``events``: those that may be decided otherwise for it; ``more``:
    it is not all that was seen then, and nothing is to be done about it yet.

    ``listing``: the list as far as it was read, and ``in_sight``: how many events there are. ``memory`` is the
    partner's new memory; ``store`` says whether it is worth a commit.
    """

    at: datetime
    listing: Listing
    memory: PartnerMemory
    events: Sequence[EventId] = ()
    more: bool = False
    in_sight: int = 0
    store: bool = False
    records: tuple[Record, ...] = ()


class Polling(Protocol):
    """Who polls for a cycle: `Reader`, or a record of what it saw once."""

    def poll(self, state: PartnerState) -> AsyncIterator[News]: ...


@dataclass(slots=True, kw_only=True)
class _Poll:
    """One poll while it is under way, under these ``rules``. ``part_began``: when the part of the list began that is
    being read, in monotonic seconds. ``facts``: how many were read between its pages."""

    rules: RuleSet
    began: datetime
    part_began: float
    facts: int = 0


class EventByEvent(Stage):
    """A stage in which a defect at one event stops no other one."""

    def failing(
        self, state: PartnerState, work: Callable[[Sequence[EventId]], object], events: Sequence[EventId]
    ) -> frozenset[EventId]:
        """Does the work, which can be done twice, for all events; those at which it fails by themselves. They are
        decided on in none of this poll's news, and again in the next."""
        try:
            work(events)
        except WorkerError:
            raise
        except Exception as defect:  # noqa: BLE001 - it is told
            if len(events) < 2:
                for event in events:
                    self.broken(state, event, defect)
                    state.due.pop(event, None)
                state.undecided |= {*events}
                return frozenset(events)
            half = len(events) // 2
            return self.failing(state, work, events[:half]) | self.failing(state, work, events[half:])
        return frozenset()

    def broken(self, state: PartnerState, event: EventId, defect: Exception) -> None:
        """Tells of a defect, once; in the status it stands until it is over."""
        said = self._scrubbed(f"event {event}: {defect!r}")
        if state.defects.get(event) != said:
            self._defect({"partner": state.partner, "event": event}, defect)
        state.defects[event] = state.last_error = said


class Reader(EventByEvent):
    """Polls."""

    async def poll(self, state: PartnerState) -> AsyncIterator[News]:
        """The list, and whoever dropped out of it; then the facts that cost a request each, while there is time.

        Never raises for what the service does: that is unknown, and said in the listing. A list that takes longer than
        an interval comes in parts of one interval each, because a cancelled event must not wait until all others are
        listed; but whatever needs the whole list to be understood (a new event, a missing one, another one under an old
        id) comes at its end. It ends early when the worker stops or other rules are in force: the next one reads anew.
        """
        poll = _Poll(rules=self._rules.current, began=self._clock.now(), part_began=self._clock.monotonic())
        edited = state.stored.rules is not poll.rules
        handed_over = state.stored.rules is None and self._settings.late_s  # another replica may just have read it
        if edited and not handed_over:
            await self._read_shared(state)
        kept = state.stored.kept if state.stored.rules is poll.rules else worth_keeping(poll.rules.rules)
        needed, listed_at = kept.get("event"), None
        async for listing in self._service.listing(state.partner, needed):
            listed_at = listed_at or self._clock.monotonic()
            if state.shared.get(PARTNER) is None:
                await self._read_shared(state)
            if self._over(poll):
                return
            state.pages = (listing.pages - listing.left, listing.pages) if listing.left else None
            news = self._of_part if listing.left else self._of_list
            if not listing.left:
                state.listed_at = listed_at
                state.listed(needed, listing.events)
            async for piece in news(state, poll, listing):
                yield piece

    def _over(self, poll: _Poll) -> bool:
        return self._stopping() or self._rules.current is not poll.rules

    async def _of_part(self, state: PartnerState, poll: _Poll, listing: Listing) -> AsyncIterator[News]:
        """After each interval, what pages show of events that are known and still the same, and facts due by then."""
        early = self._clock.monotonic() - poll.part_began < self._settings.interval.total_seconds()
        if early or state.stored.rules is not poll.rules:
            return
        known = state.known - state.memory.gone.keys()
        changed = [
            event
            for event, fact in listing.events.items()
            if event in known
            and (old := state.fact(event, EVENT)) is not None
            and not _is_another(old, fact)
            and state.observe(event, EVENT, fact)
        ]
        async for piece in self._pieces(state, poll, self._news(state, poll, listing), sorted(changed)):
            yield piece
        share = 1.0 - listing.left / listing.pages
        room = floor(self._facts_per_poll(state, listing) * share) - poll.facts
        learnt = await self.read_facts(state, known - state.lacking, room)
        poll.facts += max(0, room)
        async for piece in self._pieces(state, poll, self._news(state, poll, listing), sorted(learnt)):
            yield piece
        poll.part_began = self._clock.monotonic()

    async def _of_list(self, state: PartnerState, poll: _Poll, listing: Listing) -> AsyncIterator[News]:
        """What the whole list shows, and then the facts of the partner and of the events in sight."""
        in_sight = _taken_in(state, listing)
        listed = len(in_sight)
        news = self._news(state, poll, listing)
        now = news.at  # a return that is later than the first poll after it would make a second one
        memory, records = _replaced(state, news.memory, now)
        if listing.complete:
            if (why := _lost_at_once(state, memory, in_sight)) is not None:
                records += _reset_record(state, memory, now, why)
                memory = replace(memory, reset_at=now)
            poll.facts += await self._ask_for_missing(state, in_sight, self._room(state, poll, listing))
            if memory.reset_at is not None and _lost_at_once(state, memory, in_sight) is not None:
                memory = _lost(state, memory, in_sight, now)
        memory = _sight(state, memory, in_sight, now)
        if listing.complete:
            memory = replace(memory, listed_at=now, listed=listed)
            state.last_ok_at, state.last_error = now, None
            if any("events" in rule.names for rule in poll.rules.rules):
                state.list_whole(state.known - memory.gone.keys(), now)
        else:
            state.last_error = listing.why
        self._stir_faded(state)
        state.under((poll.rules, memory.after_gap_at, memory.reset_at, memory.restored_at, state.memory.ahead_of(now)))
        store = _worth_storing(state.memory, memory)
        at = self._clock.now()  # what was missing is seen now, and may have waited for a back-off
        news = replace(news, at=at, memory=memory, records=tuple(records), store=store, in_sight=len(in_sight))
        stirred = state.stirred(in_sight, at)
        if not stirred:
            yield news
        async for piece in self._pieces(state, poll, news, stirred):
            yield piece
        of_partner = await self._read_shared(state)
        learnt = await self.read_facts(state, in_sight, self._room(state, poll, listing))
        self._expect(state, listing, in_sight)
        news = replace(self._news(state, poll, listing), in_sight=len(in_sight))
        events = state.stirred(in_sight, news.at) if of_partner else sorted(learnt)
        async for piece in self._pieces(state, poll, news, events):
            yield piece

    def _news(self, state: PartnerState, poll: _Poll, listing: Listing) -> News:
        return News(at=self._clock.now(), listing=listing, memory=self._gap(state.memory, poll.began))

    async def _pieces(
        self, state: PartnerState, poll: _Poll, news: News, events: Sequence[EventId]
    ) -> AsyncIterator[News]:
        """News of so many events as can be decided on without holding up anybody for long."""
        rules = self._active(state)
        at_once = max(1, PAIRS_AT_ONCE // max(1, len(rules)))
        for first in range(0, len(events), at_once):
            if len(events) > at_once:
                await self._clock.sleep(BREATH.total_seconds())
            if self._over(poll):
                return
            piece, more = events[first : first + at_once], first + at_once < len(events)
            yield replace(news, events=self._want(state, rules, piece), more=more)
            news = replace(news, store=False, records=())

    async def read_facts(self, state: PartnerState, in_sight: AbstractSet[EventId], room: int) -> set[EventId]:
        """Reads per-event facts while room is left: parameters first, then what they give the key to. The events of
        which something else is known now."""
        rules, tried, changed = self._active(state), set[tuple[EventId, FactKey]](), set[EventId]()
        for turn in range(ROUNDS):
            wants = [
                want
                for want in _wants(state, in_sight, self._settings.every, fresh=turn > 0)
                if want.place not in tried
            ]
            chosen = choose(wants, room, self._clock.monotonic(), self._settings.interval)
            if not chosen:
                break
            tried |= {want.place for want in chosen}
            room -= len(chosen)
            learnt = await self._read(state, chosen)
            changed |= {*self._want(state, rules, sorted(learnt))}
        return changed

    async def _read(self, state: PartnerState, wants: Iterable[Want]) -> set[EventId]:
        """Reads side by side; the events of which something else is known now."""
        gate, changed = asyncio.Semaphore(SIDE_BY_SIDE), set[EventId]()

        async def one(want: Want) -> None:
            async with gate:
                fact = await self._fact(state, want)
                known = isinstance(state.fact(want.event, want.key), Known)
                says_else = state.observe(want.event, want.key, fact)
                if says_else:
                    changed.add(want.event)
                if known and isinstance(fact, Known) and want.read_at is not None and fact.trace is not None:
                    after_s = max(0.0, fact.trace.began - want.read_at)
                    state.habits.visited(want.place, changed=says_else, after_s=after_s)

        await asyncio.gather(*(one(want) for want in wants))
        return changed

    async def _fact(self, state: PartnerState, want: Want) -> Fact:
        began = self._clock.monotonic()
        try:
            return await self._service.read(state.partner, want.event, want.key, urgency=Urgency.FACT)
        except WorkerError:
            raise
        except Exception as defect:  # noqa: BLE001 - an answer that this program fails at is an unknown fact
            self.broken(state, want.event, defect)
            why = f"this program failed at the answer: {type(defect).__name__}"
            return Unknown(code="unreadable", why=why, read_at=self._clock.now(), trace=Trace(get="", began=began))

    def _want(self, state: PartnerState, rules: list[Rule], events: Sequence[EventId]) -> list[EventId]:
        """Finds out anew which facts rules want of these events; those at which that does not fail."""
        broken = self.failing(state, lambda some: self._want_all(state, rules, some), events)
        return [event for event in events if event not in broken]

    def _want_all(self, state: PartnerState, rules: list[Rule], events: Sequence[EventId]) -> None:
        now, known = self._clock.now(), state.memories
        free = {"event", *self._settings.shared}  # what is read once for all events
        asking = [rule for rule in rules if any(name not in free for name in names_read(rule))]
        found = {event: state.observation(event) for event in events}
        asked_of = state.past_asked(asking, now, self._settings.deciding.gap)
        later = [rule for rule in asking if asks_later(rule, now)]
        others = [rule for rule in asking if rule not in later]
        for event, seen in with_writes(found, self._ledger, asked_of).items():
            asked = [one for one in others if (was := known.get((event, one.id))) is None or due_now(one, was, now)]
            by_rule = [(rule.priority, wanted_keys(rule, seen, now) - {EVENT}) for rule in (*asked, *later)]
            wanted = {key for _, keys in by_rule for key in keys}
            facts = state.facts.get(event, {})
            waited = facts if event in state.waited else ()
            self._keep_only(state.stored, event, facts, {EVENT, *wanted, *waited})
            own = frozenset(key for key in wanted if key not in state.shared)
            if own:
                weight = weight_of((priority for priority, keys in by_rule if keys), seen, now)
                state.wanted[event] = FactsWanted(keys=own, weight=weight)
            else:
                state.wanted.pop(event, None)

    def _keep_only(
        self, stored: Stored, event: EventId, facts: dict[FactKey, Fact], wanted: AbstractSet[FactKey]
    ) -> None:
        """Facts that none wants any more are forgotten: an old value must not stand for today's when they are wanted
        again, and of a time in which nobody read them the record tells nothing."""
        kept = wanted | self._young(facts)
        for key in facts.keys() - kept:
            del facts[key]
        told, seen = stored.facts.get(event, {}), stored.seen.get(event, {})
        for key in [one for one in told if one not in kept and one not in seen and isinstance(told[one], Known)]:
            stored.saw((event, key), UNREAD)

    def _young(self, facts: Mapping[FactKey, Fact]) -> set[FactKey]:
        """Those that are not asked again yet, because the config says how often."""
        now, every = self._clock.monotonic(), self._settings.every
        asked = {key: fact.trace.began for key, fact in facts.items() if key.name in every and fact.trace is not None}
        return {key for key, at in asked.items() if now - at < every[key.name].total_seconds()}

    def _stir_faded(self, state: PartnerState) -> None:
        """What was read for as long as the config says, and is not wanted any more, is not known any more."""
        for event, facts in state.facts.items() if self._settings.every else ():
            seldom = {key: fact for key, fact in facts.items() if key.name in self._settings.every}
            wanted = state.wanted[event].keys if event in state.wanted else frozenset[FactKey]()
            if seldom.keys() - wanted - self._young(seldom):
                state.due.pop(event, None)

    async def _ask_for_missing(self, state: PartnerState, in_sight: set[EventId], room: int) -> int:
        """Reads the known events that the list lacks, one by one, and leaves half of the room to facts where they are
        wanted; those that answer are in sight after all."""
        now = self._clock.now()
        every = {event: max(GONE_AGAIN, (now - at) / 10).total_seconds() for event, at in state.memory.gone.items()}
        wants = [
            Want(event=event, key=EVENT, read_at=_asked_at(state, event, EVENT), every_s=every.get(event, 0.0))
            for event in state.known - in_sight
        ]
        room -= min(room // 2, len(state.wanted))
        chosen = choose(wants, room, self._clock.monotonic(), self._settings.interval)
        await self._read(state, chosen)
        for want in chosen:
            if isinstance(state.fact(want.event, EVENT), Known):
                in_sight.add(want.event)
                state.lacking.discard(want.event)
        return len(chosen)

    async def _read_shared(self, state: PartnerState) -> bool:
        """Facts of the whole partner: those that rules name, the partner record that guards every write, and what the
        account may do, once and again when the partner's record has changed. Whether any says something else now."""
        changed: list[FactKey] = []
        named = {name for rule in self._active(state) for name in rule.names} & self._settings.shared
        keys = [PARTNER, *(FactKey(name=name) for name in sorted((named | ACCOUNT) - {PARTNER.name}))]
        self._keep_only(state.stored, OF_PARTNER, state.shared, {*keys, *OF_THE_WORKER})
        for key in keys:
            old = state.shared.get(key)
            if self._still_good(key, old, named=key.name in named, anew=PARTNER in changed):
                continue
            young = self._settings.interval  # of several partners each was asked a moment ago who it is
            fact = await self._service.read(state.partner, None, key, urgency=Urgency.FACT, max_age=young)
            if state.observe(OF_PARTNER, key, fact):
                changed.append(key)
        return bool(changed)

    def _still_good(self, key: FactKey, old: Fact | None, *, named: bool, anew: bool) -> bool:
        """Whether a fact of the whole partner need not be read now."""
        if old is not None and key.name in self._settings.every:
            return key in self._young({key: old})
        unnamed_account = key.name in ACCOUNT and not named
        if old is None or old.trace is None or (isinstance(old, Unknown) and not unnamed_account):
            return False
        if unnamed_account and isinstance(old, Known):
            return not anew
        every = self._settings.interval if named else PARTNER_FACTS_EVERY
        return self._clock.monotonic() - old.trace.began < every.total_seconds()

    def _active(self, state: PartnerState) -> list[Rule]:
        """The rules that look at this partner now."""
        return active_rules(self._rules.current, state.partner, state.products_off)[0]

    def _room(self, state: PartnerState, poll: _Poll, listing: Listing) -> int:
        """How many facts are still to be read in this poll. Those due while the list was read have been. Rather one too
        many, and a poll that takes a little longer, than a pace that is not used and never finds that it may grow."""
        return max(1, ceil(self._facts_per_poll(state, listing) - poll.facts))

    def _facts_per_poll(self, state: PartnerState, listing: Listing) -> float:
        return facts_per_poll(self._service.budget(state.partner), self._settings.interval, listing.pages)

    def _expect(self, state: PartnerState, listing: Listing, in_sight: AbstractSet[EventId]) -> None:
        """Finds out anew how soon changes are seen; now and then, because it takes all wanted facts together."""
        now = self._clock.monotonic()
        if not listing.complete or now < state.expected_until:
            return
        wants = _wants(state, in_sight, self._settings.every, fresh=False)
        state.expected = delays(wants, listing.pages, self._service.budget(state.partner), self._settings.interval)
        state.expected_until = now + EXPECTED_EVERY.total_seconds()

    def _gap(self, memory: PartnerMemory, began: datetime) -> PartnerMemory:
        """A silence longer than ``gap.longer_than`` makes every first poll after it a poll with care; while no list is
        whole, one poll in so long. A last list that is stamped as far in the future says nothing of how long it was."""
        known = memory.listed_at and max(memory.listed_at, memory.after_gap_at or memory.listed_at)
        if known is None or abs(began - known) <= self._settings.deciding.gap:
            return memory
        return replace(memory, after_gap_at=began)


# What the list says of events that come, go, and become others. Pure, but for what is kept in the state.


def _taken_in(state: PartnerState, listing: Listing) -> set[EventId]:
    """Keeps what the list says of each event. The events that are there; not one that a read of its own, made later
    than the list, did not find."""
    for event, fact in listing.events.items():
        state.observe(event, EVENT, fact)
    return {event for event in listing.events if not _is_gone(state.facts[event].get(EVENT))}


def _is_gone(fact: Fact | None) -> bool:
    """Whether the event answered 404 by itself; a list that was read before does not bring it back."""
    return isinstance(fact, Unknown) and fact.code == "gone"


def _is_another(old: Fact | None, new: Fact | None) -> bool:
    """Whether the event that has the id now is not the one that had it: both its title and its start are others."""
    was, now_is = record_of(old), record_of(new)
    named = ("title", "start_date_time")
    return was is not now_is and all(one in was and one in now_is and was[one] != now_is[one] for one in named)


def _replaced(state: PartnerState, memory: PartnerMemory, now: datetime) -> tuple[PartnerMemory, list[Record]]:
    """A reset that gives the ids to other events at once, so that none is seen to vanish. What was known of the events
    before is forgotten: compared with it, everything would have changed."""
    stored = state.stored
    changed = [event for event, keys in stored.seen.items() if EVENT in keys and event in stored.facts]
    others = [one for one in changed if _is_another(stored.facts[one].get(EVENT), state.fact(one, EVENT))]
    known = _listed_before(state, memory)
    if len(others) < RESET_AT_LEAST or 2 * len(others) <= known:
        return memory, []
    for event in others:
        now_there = state.facts[event][EVENT]
        state.forget(event)
        state.facts[event] = {EVENT: now_there}
        stored.saw((event, EVENT), now_there)
    why = f"{len(others)} of {known} events became others under their ids; what they lead to waits for approval"
    returned = {**memory.returned, **dict.fromkeys(others, now)}
    return replace(memory, reset_at=now, returned=returned), _reset_record(state, memory, now, why)


def _reset_record(state: PartnerState, memory: PartnerMemory, now: datetime, why: str) -> list[Record]:
    """A reset goes on for a while: its later waves belong to it."""
    if memory.reset_at is not None and now - memory.reset_at < timedelta(minutes=10):
        return []
    return [Record(at=now, kind="observed", reason="reset", why=why, partner=state.partner)]


def _listed_before(state: PartnerState, memory: PartnerMemory) -> int:
    """How many events the last whole list showed; all that are known where an older program did not say it."""
    return len(state.known - memory.gone.keys()) if memory.listed is None else memory.listed


def _lost_at_once(state: PartnerState, memory: PartnerMemory, in_sight: set[EventId]) -> str | None:
    """What is said of a reset of the service: more than half of the events that the last whole list showed are missing.
    Those that have left it one by one, and answer by themselves, have not vanished at once."""
    before = _listed_before(state, memory)
    lost = before - len(in_sight & (state.known - memory.gone.keys()))
    if before < RESET_AT_LEAST or 2 * lost <= before:
        return None
    return f"{lost} of {before} events vanished from the list at once; what comes back waits for approval"


def _lost(state: PartnerState, memory: PartnerMemory, in_sight: set[EventId], now: datetime) -> PartnerMemory:
    """After a reset everything that vanished is out of sight at once, whether a read of its own has said so or not; and
    forgotten, because what comes back under its id may be another event."""
    for event in state.known - in_sight:
        state.forget(event)
    return replace(memory, gone={**dict.fromkeys(state.known - in_sight, now), **memory.gone})


def _sight(state: PartnerState, memory: PartnerMemory, in_sight: set[EventId], now: datetime) -> PartnerMemory:
    """Who went out of sight and who came back. A failed read is neither."""
    away = {event: now for event in state.known - in_sight if _is_gone(state.fact(event, EVENT))}
    back = in_sight & memory.gone.keys()
    state.known |= in_sight
    if not back and away.keys() <= memory.gone.keys():
        return memory
    gone = {event: at for event, at in {**away, **memory.gone}.items() if event not in back}
    return replace(memory, gone=gone, returned={**memory.returned, **dict.fromkeys(back, now)})


def _worth_storing(old: PartnerMemory, new: PartnerMemory) -> bool:
    if replace(old, listed_at=new.listed_at, listed=new.listed) != new:
        return True
    if new.listed_at is None:
        return False
    every = MEMORY_EVERY * (0.5 + crc32(new.partner.encode()) % 500 / 1000.0)
    return old.listed_at is None or not timedelta(0) <= new.listed_at - old.listed_at < every


# Which facts a rule wants of an event, given what is already known. Pure.
#
# A fact that costs a request is wanted only while the rest of the condition can still be true: the condition is judged
# without it, and a definite false means that it cannot matter. Facts that ``on_change`` watches or ``do`` computes with
# are wanted while the condition is not definitely false.

HIGHEST_PRIORITY = 5
"""Priorities beyond this do not make an event more urgent still."""
SOON_DAYS, FAR_DAYS = 7, 90


def wanted_keys(rule: Rule, observation: Observation, now: datetime) -> frozenset[FactKey]:
    """The facts that can still make a difference to the rule for this event."""
    if not may_be_due(rule, now):
        return frozenset()
    scope = scope_of(rule, observation, now)
    possible = rule.may_hold(scope)
    in_condition = rule.when.names if rule.when is not None else frozenset()
    wanted: set[FactKey] = set()
    for name in names_read(rule):
        key = scope.keys.get(name)
        could = possible or (key is not None and name in in_condition and rule.may_hold(scope.without(name)))
        if could and key is not None:
            wanted.add(key)
        if could and lacks_defaults(rule, name):
            wanted.add(FactKey(name="defaults"))
    return frozenset(wanted)


def unread_keys(rule: Rule, observation: Observation, now: datetime) -> frozenset[FactKey]:
    """The wanted facts that were never read."""
    return frozenset(key for key in wanted_keys(rule, observation, now) if key not in observation.facts)


def weight_of(priorities: Iterable[int], observation: Observation, now: datetime) -> float:
    """How much it matters to see soon what changes of this event, against 1: twice as much for each step in the highest
    priority of the rules that want anything of it, up to 32 times; twice as much in the last days before it starts, and
    half as much while that is months away."""
    highest = max(priorities, default=0)
    weight = 2.0 ** max(-HIGHEST_PRIORITY, min(highest, HIGHEST_PRIORITY))
    days = runtime_in_days(observation, now)
    if days is None:
        return weight
    return weight * (2.0 if days <= SOON_DAYS else 0.5 if days >= FAR_DAYS else 1.0)


def _wants(
    state: PartnerState, in_sight: AbstractSet[EventId], every: Mapping[str, timedelta], *, fresh: bool
) -> list[Want]:
    """What rules want of every event in sight. ``fresh``: only what was never read, for the later rounds."""
    return [
        Want(
            event=event,
            key=key,
            read_at=_asked_at(state, event, key),
            weight=wanted.weight,
            rate=state.habits.rate((event, key)),
            every_s=every[key.name].total_seconds() if key.name in every else 0.0,
        )
        for event, wanted in state.wanted.items()
        if event in in_sight and not state.claimed[event]
        for key in wanted.keys
        if not fresh or key not in state.facts.get(event, {})
    ]


def _asked_at(state: PartnerState, event: EventId, key: FactKey) -> float | None:
    fact = state.facts.get(event, {}).get(key)
    return fact.trace.began if fact is not None and fact.trace is not None else None
