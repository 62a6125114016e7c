"""A rule folder over recorded changes: the daemon's own cycle, with the record in place of the service.

Each poll of the record is a poll again, and so is every moment at which the clock alone can change a decision. Where
the same write was really made then, what became of it becomes of it here: approved when somebody approved it, landed
when it was seen to land. The effect of one that would be new is laid over the record at once, and that of one that
would be gone is left out of it, field by field, until somebody else changes that field.
"""

import heapq
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Literal, cast

from worker.engine.decide import Decision
from worker.engine.derived import effect_of, recorded_memory
from worker.engine.observe import News, unread_keys
from worker.engine.operators import Word, approved, rejected, reopening, spoken
from worker.engine.playing import Bench, Play, VirtualClock, VirtualLoop, WorldService, amount_shown, open_way
from worker.engine.ports import Listing
from worker.engine.state import EVENT, OF_THE_RECORD, PartnerState
from worker.engine.views import EngineSettings, names_read
from worker.model.actions import UNDO
from worker.model.commits import MEMORY, OF_PARTNER, SILENCE, Commit, History, Observed, PartnerMemory, RuleMemory
from worker.model.exchange import Accepted, Answered, Outcome, Refused, Uncertain, WriteRequest
from worker.model.facts import UNREAD, EventId, Fact, FactKey, Json, Known, PartnerId, Place, RuleId, Trace, WriteId
from worker.model.rules import RuleSet, Truth
from worker.model.writes import UNSENT, Intent, Plan, Write, WriteKey
from worker.writes.evidence import CONFIRM, fact_key

NOT_RECORDED = replace(UNREAD, why="it was not recorded")
RESTLESS_EVERY = timedelta(minutes=1)
"""How often a poll is made that only a condition on the clock asks for, of which nothing can be foretold."""


class Past:
    """The world as it was recorded, up to now. ``observed``: as it was; ``facts``: as it would have been, which differs
    in the fields that are ``laid_over`` it on purpose. ``memory``: the silences, resets and events out of sight.
    ``fresh``: what has changed since the last poll. ``to_hide``: what writes that would be gone were to change.
    ``way``: of what no rule looks at, values that stand in no write's way. ``listed``: a silence is a time without
    polls."""

    listed = True

    def __init__(self, partner: PartnerId, way: Mapping[str, Json], clock: VirtualClock) -> None:
        self.clock = clock
        self.version = 0
        self.memory = PartnerMemory(partner=partner)
        self.observed: dict[Place, Fact] = {}
        self.facts: dict[Place, Fact] = {}
        self.laid_over: dict[Place, set[str]] = {}
        self.to_hide: dict[Place, list[tuple[Write, dict[str, Json]]]] = {}
        self.fresh: dict[Place, None] = {}
        self._way = way
        self._done: set[tuple[EventId, FactKey]] = set()

    @property
    def events(self) -> Iterable[EventId]:
        """Every event that was met so far."""
        return {event for event, key in self.observed if key == EVENT}

    def fact(self, event: EventId, key: FactKey, now: datetime) -> Fact:
        """One fact of the event or of its partner."""
        if key.name == CONFIRM:  # what it read is in no record: only whether the write took effect
            return Known(value={"when": (event, key) in self._done, "response": None}, read_at=now)
        found = self.facts.get((event, key)) or self.facts.get((OF_PARTNER, key))
        if key.name in self._way and (found is None or found == UNREAD):  # nobody had asked, or not since
            return Known(value=self._way[key.name], read_at=now)
        return found or NOT_RECORDED

    def take(self, one: Observed) -> None:
        """A fact as it was observed. What it changes is not laid over any more, unless a write that would be gone did
        that."""
        if one.key == MEMORY:
            self.memory = recorded_memory(self.memory.partner, one.fact)
        if one.key.name.startswith("#"):
            return  # what the worker kept of itself: of a silence, of how long it keeps changes
        place = (one.event, one.key)
        old, self.observed[place] = self.observed.get(place), one.fact
        mine, changed = self.facts.get(place), _differing(old, one.fact)
        hidden = self._hidden(place, one, changed) if changed and old is not None else set[str]()
        fields = (self.laid_over.get(place, set()) - changed) | hidden
        self.facts[place] = one.fact
        self.laid_over.pop(place, None)
        if fields and isinstance(mine, Known) and isinstance(mine.value, dict):
            self.facts[place] = _with(one.fact, {name: mine.value.get(name) for name in fields})
            self.laid_over[place] = fields
        self.fresh[place] = None

    def hide(self, writes: Iterable[Write]) -> None:
        """The effects of these writes are not to be seen, but of those that turn out to be made here too."""
        for write in writes:
            effect = effect_of(write.intent, lambda _name: None) if write.sent else None
            if effect is not None and isinstance(effect.value, dict):
                place = (write.key.event, FactKey(name=effect.fact))
                self.to_hide.setdefault(place, []).append((write, dict(effect.value)))

    def show(self, write: Write) -> None:
        """This one is made here too: what it did counts."""
        effect = effect_of(write.intent, lambda _name: None)
        left = self.to_hide.get((write.key.event, FactKey(name=effect.fact)), []) if effect is not None else []
        left[:] = [one for one in left if one[0].id != write.id]

    def _hidden(self, place: Place, one: Observed, changed: set[str]) -> set[str]:
        """The fields that now are as a write that would be gone was to make them; each counts once."""
        value = one.fact.value if isinstance(one.fact, Known) and isinstance(one.fact.value, dict) else {}
        found: set[str] = set()
        for write, wanted in self.to_hide.get(place, ()):
            sent = write.first_sent_at is not None and write.first_sent_at <= one.at
            for name in [name for name in wanted if sent and name in changed and value.get(name) == wanted[name]]:
                del wanted[name]
                found.add(name)
        return found

    def take_effect(self, event: EventId, intent: Intent) -> None:
        """The effect of a write that was not really made, or not yet."""
        self.version += 1

        def value_of(name: str) -> Json:
            fact = self.facts.get((event, FactKey(name=name)))
            return fact.value if isinstance(fact, Known) else None

        effect = effect_of(intent, value_of)
        if effect is None:
            self._done.add((event, fact_key(intent)))
            return
        place = (event, FactKey(name=effect.fact))
        old = self.facts.get(place)
        read_at = self.clock.now()
        if isinstance(effect.value, dict):
            self.laid_over.setdefault(place, set()).update(effect.value)
            base = old if isinstance(old, Known) and not effect.whole else Known(value={}, read_at=read_at)
            self.facts[place] = _with(base, effect.value)
        else:
            self.facts[place] = Known(value=effect.value, read_at=read_at)
        self.fresh[place] = None


def _differing(old: Fact | None, new: Fact) -> set[str]:
    before = old.value if isinstance(old, Known) and isinstance(old.value, dict) else {}
    after = new.value if isinstance(new, Known) and isinstance(new.value, dict) else {}
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def _with(fact: Fact, fields: Mapping[str, Json]) -> Fact:
    if not isinstance(fact, Known) or not isinstance(fact.value, dict):
        return fact
    gaps = {name: why for name, why in fact.gaps.items() if name not in fields}
    return replace(fact, value={**fact.value, **fields}, gaps=gaps)


class Recorded(WorldService):
    """The service and the reader of a replay: both tell what the record says. ``made``: the writes that were really
    made meanwhile; ``here``: those of them that were made here too."""

    def __init__(self, past: Past, bench: Bench, recording: "Recording", made: Iterable[Write]) -> None:
        super().__init__(past, past.clock, bench.request_for)
        self.reader = self
        self.here: dict[WriteId, WriteKey] = {}
        self._past = past
        self._tolerance = recording.tolerance
        self._said = recording.said
        self._rules = bench.rules.rules
        self._left: dict[Effect, list[Write]] = {}
        self._same: dict[WriteKey, Write | None] = {}
        self._in_sight: frozenset[EventId] = frozenset()
        for write in made:
            self._left.setdefault(_effect(write), []).append(write)

    def same_as(self, write: Write) -> Write | None:
        """The write that was really made then and does the same, if there is one: each is the same as one at most."""
        if write.key not in self._same:
            left = self._left.get(_effect(write), [])
            near = [one for one in left if abs(one.planned_at - write.planned_at) <= self._tolerance]
            found = min(near, key=lambda one: abs(one.planned_at - write.planned_at), default=None)
            if found is not None:
                left.remove(found)
                self._past.show(found)
                self.here[found.id] = write.key
            self._same[write.key] = found
        return self._same[write.key]

    async def attempt(self, write: Write, request: WriteRequest) -> Outcome:
        """What became of the same write then; one that was not made takes effect at once."""
        made, now = self.same_as(write), self._clock.now()
        if made is None or not made.sent or (made.state == "confirmed" and made.changed_at <= now):
            return await super().attempt(write, request)
        if any(one.write == made.id and one.kind == "approved" and one.word.at > now for one in self._said):
            return await super().attempt(write, request)  # it had to wait for somebody then, and here it does not
        self.sent += 1
        if made.state == "rejected":
            return Refused(answer=Answered(status=400), why=made.why)
        if made.state not in ("confirmed", "unconfirmed", "applied", "sending"):
            return Uncertain(why=made.why)
        if made.state == "confirmed":
            self.lands(write, made.changed_at)
        return Accepted(answer=Answered(status=200))

    def known_to_land(self, write: Write) -> bool:
        """The record has it."""
        return any(one.key == write.key for _, one in self.landing)

    async def poll(self, state: PartnerState) -> AsyncIterator[News]:
        """What a poll showed then: the record's memory of silences and of who was out of sight, and what changed."""
        past, now = self._past, self._clock.now()
        met, trace = len(state.known), Trace(get="the record", began=self._clock.monotonic())
        for event, key in past.fresh:
            state.observe(event, key, replace(past.facts[event, key], trace=trace))
        told = {event for event, _ in past.fresh}  # what a guard lacked may be among it, and is asked of nobody else
        state.known |= told - {OF_PARTNER}
        state.rests = {write: rest for write, rest in state.rests.items() if rest.place[0] not in told}
        past.fresh.clear()
        memory = replace(state.memory, **{name: getattr(past.memory, name) for name in OF_THE_RECORD})
        if not self._in_sight or len(state.known) != met or memory.gone != state.memory.gone:
            self._in_sight = frozenset(state.known - memory.gone.keys())
        store, memory = memory != state.memory, replace(memory, listed_at=now)
        state.last_ok_at = now
        if any("events" in rule.names for rule in self._rules):
            state.list_whole(self._in_sight, now)
        state.under((memory.after_gap_at, memory.reset_at, memory.restored_at))
        listing = Listing(events={}, complete=True)
        events = state.stirred(self._in_sight, now)
        yield News(at=now, listing=listing, memory=memory, events=events, in_sight=len(self._in_sight), store=store)


# Writes that were made beside writes that a rule folder would have made: new, gone, earlier, later, or the same. Pure.
#
# They are told apart by what they do and not by who does it: a pause of an event is the same write under a renamed
# rule. Of several that do the same, those nearest in time belong together. A skipped write did nothing, on either
# side; but one that was made at the same time and only ended before it could be sent is none that would be new: a
# replay sends at once. For that it also skips at once what the last poll of the record has only planned.

ENDED_BEFORE = frozenset({"no_longer_holds", "sequence"})
"""Reasons of skipped writes that were wanted all the same when they were planned."""
Effect = tuple[str, str, str, str, str]
Kind = Literal["new", "gone", "earlier", "later", "same"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One write as it was made, as it would be made, or both."""

    kind: Kind
    made: Write | None
    would: Write | None

    @property
    def write(self) -> Write:
        """Either of the two: there always is one."""
        return cast(Write, self.made or self.would)

    @property
    def at(self) -> datetime:
        """The earlier of the two moments."""
        return min(one.planned_at for one in (self.made, self.would) if one is not None)


def differences(made: Sequence[Write], would: Sequence[Write], tolerance: timedelta) -> list[Difference]:
    """All of them, by event and time. Within ``tolerance`` two moments are the same."""
    left, right = _by_effect(made), _by_effect(would)
    ended: dict[Kind, list[Write]] = {
        "new": [one for one in made if one.state == "skipped" and one.reason in ENDED_BEFORE],
        "gone": [one for one in would if one.state == "skipped"],
    }

    def was_planned(one: Difference) -> bool:
        """Whether a write of one side was planned on the other, too, and came to nothing there; one that the record
        leaves as it was planned has come to nothing yet."""
        here = [other for other in ended.get(one.kind, ()) if _effect(other) == _effect(one.write)]
        left_so = one.made is None or one.made.state == "planned"
        return left_so and any(abs(other.planned_at - one.at) <= tolerance for other in here)

    found: list[Difference] = []
    for effect in sorted({*left, *right}):
        found.extend(_matched(left.get(effect, []), right.get(effect, []), tolerance))
    found = [one for one in found if not was_planned(one)]
    return sorted(found, key=lambda one: (one.write.key.event, one.at, one.write.intent.order))


def _effect(write: Write) -> Effect:
    key, intent = write.key, write.intent
    item = "" if intent.action == UNDO else key.item  # of what is not undone it is the number of the write
    return (key.event, intent.target, intent.action, intent.wish, item)


def _by_effect(writes: Iterable[Write]) -> dict[Effect, list[Write]]:
    found: dict[Effect, list[Write]] = {}
    for write in writes:
        if write.state != "skipped" and not write.by_operator:
            found.setdefault(_effect(write), []).append(write)
    return found


def _matched(made: Sequence[Write], would: Sequence[Write], tolerance: timedelta) -> Iterable[Difference]:
    """Nearest first, under the same rule before another one."""
    pairs = sorted(
        (abs(one.planned_at - other.planned_at), one.key.rule != other.key.rule, left, right)
        for left, one in enumerate(made)
        for right, other in enumerate(would)
    )
    lefts, rights = set(range(len(made))), set(range(len(would)))
    for distance, _, left, right in pairs:
        if left in lefts and right in rights:
            lefts.remove(left)
            rights.remove(right)
            later = would[right].planned_at > made[left].planned_at
            kind: Kind = "same" if distance <= tolerance else "later" if later else "earlier"
            yield Difference(kind=kind, made=made[left], would=would[right])
    yield from (Difference(kind="gone", made=made[left], would=None) for left in sorted(lefts))
    yield from (Difference(kind="new", made=None, would=would[right]) for right in sorted(rights))


# One partner's past under one rule set.


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What came of it. ``writes``: in the order in which they would have been planned; ``unseen``: for how many events
    a rule wanted a fact, by its key, that nobody had recorded; ``polls``: how many were made."""

    writes: tuple[Write, ...]
    unseen: Mapping[tuple[RuleId, str], int]
    polls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What somebody said of a write that was really made: ``approved``, ``rejected`` or ``again``."""

    kind: Literal["approved", "rejected", "again"]
    write: WriteId
    word: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What the ledger holds of one partner. ``begins``: where its changes do, and ``until``: the last poll; ``made``:
    every write; ``before``: those that were planned before it begins, as they stood then, and ``sent``: their attempts
    by then; ``said``: what was said of them since, in order. ``tolerance``: two writes within it may be the same."""

    partner: PartnerId
    history: History
    begins: datetime
    until: datetime
    made: Sequence[Write]
    before: Sequence[Write]
    sent: Sequence[Mapping[str, Json]]
    said: Sequence[Said]
    tolerance: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What one poll of the record saw, or somebody's word, which the next poll heard."""

    at: datetime
    changes: tuple[Observed, ...] = ()
    said: Said | None = None

    @property
    def silent_since(self) -> datetime | None:
        """Since when nobody had looked, where that was long."""
        silence = next((one.fact for one in self.changes if one.key == SILENCE), None)
        since = silence.value.get("since") if isinstance(silence, Known) and isinstance(silence.value, dict) else None
        return datetime.fromisoformat(since) if isinstance(since, str) else None


class Replay(Play):
    """Plays one recording under a rule set."""

    def __init__(self, recording: Recording, bench: Bench) -> None:
        self._loop = VirtualLoop()
        self._recording = recording
        self._scratch = bench.ledger
        self._scratch.clear()
        self._scratch.recall(recording.before, recording.sent)
        rules = [rule for rule in bench.rules.rules if rule.applies_to(recording.partner)]
        self._asking = {rule.id: rule for rule in rules if set(names_read(rule)) - {EVENT.name}}
        self._unseen: dict[tuple[RuleId, FactKey], set[EventId]] = {}
        self._plans: list[Plan] = []
        unsent = [one for one in recording.before if one.state in UNSENT]
        over = {one.id for one in recording.before} - {one.id for one in unsent}
        since = [one for one in recording.made if one.id not in over and not one.by_operator]
        clock = VirtualClock(self._loop, recording.begins)
        self._past = Past(recording.partner, open_way(rules), clock)
        self._past.hide(since)
        self._recorded = Recorded(self._past, bench, recording, since)
        for write in unsent:
            self._recorded.same_as(write)
        self._remember(recording.before, bench.rules)
        bench = replace(bench, settings=_patient(bench.settings, recording))
        super().__init__(bench, self._recorded, clock, partner=recording.partner, stride=RESTLESS_EVERY)

    def _remember(self, before: Iterable[Write], rules: RuleSet) -> None:
        """A rule that had fired before the record begins is taken to be in that episode still: what was true all the
        time does not fire again, and what has turned false meanwhile closes it at the first poll. One that comes after
        another rule has come after all that this one wrote by then."""
        memories: dict[tuple[EventId, RuleId], RuleMemory] = {}
        for write in before:
            rule = rules.get(write.key.rule)
            if rule is not None and not write.by_operator:
                memories[write.key.event, rule.id] = RuleMemory(
                    partner=write.key.partner,
                    event=write.key.event,
                    rule=rule.id,
                    do_hash=rule.do_hash,
                    episode=write.key.episode,
                    open=True,
                    fired=True,
                    fired_at=write.planned_at,
                    after=write.id,
                )
        self._scratch.apply(Commit(at=self._recording.begins, memory=tuple(memories.values())))

    def run(self) -> Iterator[datetime]:
        """From the record's beginning to the last poll; gives each moment that is reached."""
        for one in self._recording.history.start:
            self._past.take(one)
        if self._recording.history.start:
            self._poll_at(self._recording.begins)
        polls = groupby(self._recording.history.changes, key=lambda one: one.at)  # the list first, then single facts
        seen = (Moment(at=at, changes=tuple(changes)) for at, changes in polls)
        said = (Moment(at=one.word.at, said=one) for one in self._recording.said)
        for moment in heapq.merge(seen, said, key=lambda one: one.at):
            self._let_pass(moment.silent_since or moment.at - self._settings.interval)
            for one in moment.changes:
                self._past.take(one)
            if moment.said is not None:
                self._hear(moment.said)
            self._poll_at(moment.at)
            yield moment.at
        self._let_pass(self._recording.until)
        self._poll_at(self._recording.until)
        self._loop.close()

    @property
    def found(self) -> Replayed:
        """What came of it: each write with why it was planned."""
        made = self._ledger.writes(partner=self._recording.partner)
        plans = {one.key: one for one in self._plans}
        new = [(one, plans[one.key]) for one in made if one.key in plans]
        writes = tuple(replace(one, reason=plan.reason, why=plan.why) for one, plan in new)
        return Replayed(writes=writes, unseen=self._never_seen(), polls=self.polls)

    def _let_pass(self, until: datetime) -> None:
        """Looks that only the clock asks for, up to a moment. Within an interval before a poll of the record there was
        none: that one is the look."""
        after = until - self._clock.start
        self._loop.run_until_complete(self.until(after, including=True))
        self._jumped_to(after)

    def _poll_at(self, at: datetime) -> None:
        self._loop.run_until_complete(self.poll(at - self._clock.start))

    def _hear(self, said: Said) -> None:
        """Somebody's word of a write that is made here too."""
        key, word, state = self._recorded.here.get(said.write), said.word, self.state
        if key is None:
            return
        of_episode = self._ledger.episode_writes(key.partner, key.event, key.rule, key.episode)
        for write in [one for one in of_episode if one.key == key]:
            if said.kind == "again":
                memories = {(key.partner, *pair): one for pair, one in state.memories.items() if pair[0] == key.event}
                changes = reopening([write], memories, self._ledger) if write.final else []
                self._scratch.reopen(changes, [spoken(write, "again", word)] if changes else [])
            elif said.kind == "approved" and write.state == "waiting":
                amount = amount_shown(state, write)
                move = approved(write, because=word.because, by=word.by, now=word.at, amount=amount)
                self._ledger.apply(Commit(at=word.at, moves=(move,)))
            elif said.kind == "rejected" and write.state in ("waiting", "planned", "needs_human"):
                move = rejected(write, because=word.because, by=word.by, now=word.at)
                self._ledger.apply(Commit(at=word.at, moves=(move,)))

    def _take(self, decision: Decision) -> None:
        """Also which of the writes were really made too, and which facts the poll would have read."""
        super()._take(decision)
        now, state = decision.commit.at, self.state
        for plan in decision.commit.plans:
            self._plans.append(plan)
            self._recorded.same_as(plan.write(0, now))
        for (event, rule_id), judged in decision.judged.items():
            rule = self._asking.get(rule_id) if judged.truth is not Truth.FALSE else None
            for key in unread_keys(rule, state.observation(event), now) if rule is not None else ():
                self._unseen.setdefault((rule_id, key), set()).add(event)

    def _never_seen(self) -> Mapping[tuple[RuleId, str], int]:
        """Of these the ones that nobody recorded at any time: no rule of that time had them read, or not so."""
        found: dict[tuple[RuleId, str], int] = {}
        for (rule_id, key), events in self._unseen.items():
            never = [event for event in events if (event, key) not in self._past.observed]
            if never and (OF_PARTNER, key) not in self._past.observed:
                found[rule_id, key.text] = len(never)
        return found


def _patient(settings: EngineSettings, recording: Recording) -> EngineSettings:
    """The config's numbers; a calm event needs no poll, and what was confirmed late then is waited for here too."""
    landed = [(one.first_sent_at, one.changed_at) for one in recording.made if one.state == "confirmed"]
    took = [at - sent_at + RESTLESS_EVERY for sent_at, at in landed if sent_at is not None]
    calm = recording.until - recording.begins + RESTLESS_EVERY
    return replace(settings, decided_again=calm, confirm_within=max([settings.confirm_within, *took]))
