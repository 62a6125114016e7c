"""What one process knows of one partner between two cycles.

Only what can be lost without harm lives here alone: the last facts, the rows of evidence, the running tasks. Memory and
writes are in the ledger; ``memories`` is a copy of what is stored there, replaced only after a commit succeeded.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from worker.engine.derived import EVENTS, PastAsked, of_all
from worker.engine.ports import Ledger
from worker.engine.views import products_off
from worker.model.actions import ACTIONS
from worker.model.commits import (
    KEPT,
    MEMORY,
    OF_PARTNER,
    SILENCE,
    Change,
    Changes,
    Commit,
    Doing,
    Observed,
    PartnerMemory,
    Record,
    RuleMemory,
    stored_form,
)
from worker.model.errors import StateConflict
from worker.model.facts import (
    EVENT_FIELDS,
    PARTNER_FIELDS,
    SETUP_FIELDS,
    EventId,
    Fact,
    FactKey,
    Json,
    Known,
    Observation,
    PartnerId,
    Place,
    RuleId,
    Unknown,
    WriteId,
    record_of,
    spelled,
)
from worker.model.rules import Rule, RuleSet
from worker.model.writes import State, Write
from worker.reading.pacing import Delays, Habits
from worker.rules.facts import Fields, looked_at, narrowed, paths_named, windows_of, worth_keeping
from worker.rules.registry import BUILT_IN_REGISTRY, MADE
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
    """What ends a rest when it changes: an operator's verdict, an approval, an attempt."""
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
    what the last logged evidence of a write said, and when; ``shown``: a read that showed its effect while its
    answer was awaited, or the ledger could not take it.
    ``listed_for``: the fields of an event that the list was read for last; ``lacking``: events that it has not shown
    since those are others, so that a field may seem to be missing which nobody has asked for.
    ``due``: when an event is to be decided on again though nothing is learnt of it; one that is not there at once.
    ``due_under``: what that also depends on. ``wanted``: the facts that rules want of an event beside its own record;
    only events of which any is wanted; ``habits``: how often those facts were found changed;
    ``waited``: events of which facts were read because a wait between two steps is over.
    ``products_off``: the product flags that the partner's record said are off, when it was read last; ``shut``: rules
    that one keeps from looking, with why, as it was last said; ``missed``: times of rules that went by, and are not
    told yet. ``claimed``: events whose facts a pre-flight is about to read.
    ``in_flight``: writes whose attempt is recorded and whose outcome is not, and since when, in monotonic seconds.
    ``quiet_until``: monotonic second before which the partner is left in peace. ``listed_at``: when its list, or the
    first pages of a long one, was answered last, in monotonic seconds; ``pages``: how many of how many of the list
    have been read, while it is; ``poll_s``: how long the last complete poll
    took; ``expected``: how soon changes are seen now, as found out last, good until ``expected_until``.
    ``failing_since``: the first of the polls that have failed since the last whole one.
    ``left``: the service no longer names it; nothing more is sent. ``defects``: what was told of events at which this
    program failed, and ``undecided``: those that could not be decided on. ``read_up_to``: the newest record when a
    person's changes of the ledger's memory were last looked for.
    """

    partner: PartnerId
    memory: PartnerMemory
    memories: dict[Pair, RuleMemory]
    stored: "Stored"
    facts: dict[EventId, dict[FactKey, Fact]] = field(default_factory=dict)
    shared: dict[FactKey, Fact] = field(default_factory=dict)
    due: dict[EventId, datetime] = field(default_factory=dict)
    due_under: object = None
    wanted: dict[EventId, FactsWanted] = field(default_factory=dict)
    habits: Habits = field(default_factory=Habits)
    waited: set[EventId] = field(default_factory=set)
    products_off: frozenset[str] = frozenset()
    shut: Mapping[RuleId, str] = field(default_factory=dict)
    missed: Mapping[tuple[RuleId, datetime], Sequence[EventId]] = field(default_factory=dict)
    known: set[EventId] = field(default_factory=set)
    listed_for: object = NOT_LISTED
    lacking: set[EventId] = field(default_factory=set)
    settling: dict[WriteId, Settling] = field(default_factory=dict)
    tasks_of_service: dict[WriteId, TaskWatch] = field(default_factory=dict)
    said: dict[WriteId, tuple[str, float]] = field(default_factory=dict)
    shown: dict[WriteId, Fact] = field(default_factory=dict)
    running: dict[WriteId, asyncio.Task[None]] = field(default_factory=dict)
    rests: dict[WriteId, RetryAt] = field(default_factory=dict)
    claimed: Counter[EventId] = field(default_factory=Counter)
    in_flight: dict[WriteId, float] = field(default_factory=dict)
    quiet_until: float = float("-inf")
    listed_at: float = float("-inf")
    pages: tuple[int, int] | None = None
    poll_s: float = 0.0
    expected: Delays | None = None
    expected_until: float = float("-inf")
    failing_since: float | None = None
    failing_told: bool = False
    left: bool = False
    defects: dict[EventId, str] = field(default_factory=dict)
    undecided: frozenset[EventId] = frozenset()
    read_up_to: int = 0
    last_ok_at: datetime | None = None
    last_error: str | None = None

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
        """A write has moved on: what rests on a target that it sets, which it may have held, is looked at again at
        once."""
        place = (write.key.event, write.intent.target)
        places = {place, *((write.key.event, name) for name in ACTIONS[write.intent.action].brings)}
        for held in [one for one, rest in self.rests.items() if rest.place in places and one != write.id]:
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
        yield from (((OF_PARTNER, key), fact) for key, fact in self.shared.items() if key.name not in MADE)

    def observe(self, event: EventId, key: FactKey, fact: Fact) -> bool:
        """Keeps a fact, of the event or of the partner; an older answer never replaces a newer one. Whether it says
        something else than before."""
        if key is not EVENT and (key in self.shared or key.name in _SHARED):
            event = OF_PARTNER
        store = self.shared if event == OF_PARTNER else self.facts.setdefault(event, {})
        old = store.get(key)
        if old is not None and _older(fact, old):
            return False
        store[key] = fact
        if key == PARTNER and isinstance(fact, Known):
            self.products_off = products_off(fact)
        if old is not None and _says_the_same(old, fact):
            return False
        self.stored.saw((event, key), fact)
        if event == OF_PARTNER:
            self.due.clear()
        else:
            self.due.pop(event, None)
        return True

    def listed(self, needed: object, events: Iterable[EventId]) -> None:
        """A list that was read for the ``needed`` fields has shown these events."""
        if needed != self.listed_for:
            self.listed_for, self.lacking = needed, set(self.facts)
        if self.lacking:
            self.lacking.difference_update(events)

    def list_whole(self, events: Iterable[EventId], now: datetime) -> None:
        """Keeps what the partner's events are, for rules that ask about all of them."""
        found, old = of_all({event: self.fact(event, EVENT) for event in events}, now), self.shared.get(EVENTS)
        if old is not None and _says_the_same(old, found):
            found = replace(old, read_at=now)
        else:
            self.due.clear()
        self.shared[EVENTS] = found

    def under(self, circumstances: object) -> None:
        """What every decision about this partner also depends on; where that is new, everything is decided on anew."""
        if circumstances != self.due_under:
            self.due.clear()
            self.due_under = circumstances

    def stirred(self, events: Iterable[EventId], now: datetime) -> list[EventId]:
        """Those of which something was learnt, or whose time has come, in order."""
        due = self.due
        return sorted(event for event in events if (at := due.get(event)) is None or at <= now)

    def observation(self, event: EventId) -> Observation:
        """All that is known of the event now."""
        return Observation(partner=self.partner, event=event, facts=self.merged(event))

    def merged(self, event: EventId) -> dict[FactKey, Fact]:
        """The event's facts over the partner's."""
        return {**self.shared, **self.facts.get(event, {})}

    def past_asked(self, rules: Sequence[Rule], now: datetime, gap: timedelta) -> PastAsked:
        """What the rules ask of the record, which lacks what was seen since."""
        told = self.stored
        unstored = partial(told.unstored, now=now)
        known = PastAsked(memory=self.memory, rules=rules, now=now, gap=gap, listed_at=told.listed_at)
        return replace(known, changing=told.seen, unstored=unstored)


def _older(new: Fact, old: Fact) -> bool:
    """Whether what was read before says nothing against what was read after it: a value, or that there is none."""
    told = isinstance(old, Known) or old.code == "gone"
    return told and isinstance(new, Known) and _began(new) < _began(old)


def _says_the_same(old: Fact, new: Fact) -> bool:
    """Whether nothing can be decided otherwise for the new one: when it was read does not matter."""
    return same(old, new) and not (isinstance(old, Unknown) and isinstance(new, Unknown) and old.why != new.why)


def _began(fact: Fact) -> float:
    return fact.trace.began if fact.trace is not None else 0.0


# What the ledger holds of a partner's facts, and what was seen since: it is stored with the next commit, whatever for.
#
# A change is one row, and one record for each field of it that some rule looks at, in the very transaction that decides
# on it. `Stored` is a copy of what is there, taken over only after a commit succeeded, so a quiet cycle writes nothing,
# and there is nothing that would have to be brought into line after a crash.

WATCHED: Mapping[str, Iterable[str]] = {"event": EVENT_FIELDS, "setup": SETUP_FIELDS}
"""Facts whose changes are worth a record, field by field, with their documented fields."""
WHOLE, SCALAR = "", "="
"""In place of a field: all of a fact, whatever it is, and where it is neither a list nor a record."""
OF_THE_PARTNER = {"partner": tuple(PARTNER_FIELDS), "permissions": (WHOLE,), "features": (WHOLE,)}
"""What of the facts of the whole partner is worth a record, besides what rules name."""
OF_THE_WORKER = (EVENTS, KEPT, MEMORY, SILENCE)
"""What is kept as if it were a fact of the partner, and is not read."""
OF_THE_RECORD = ("after_gap_at", "reset_at", "restored_at", "gone", "returned")
"""What of a partner's memory is kept with the changes: silences, resets, and who was out of sight."""
UNSTORED_MOST = 16
"""So many values of a fact are kept until they can be stored; of more, the newest takes the place of the one before."""
SILENCE_LONGER_THAN = timedelta(minutes=1)
"""A time without a complete list that is kept as a silence."""
FORGET_EVERY = timedelta(minutes=1)
KEPT_LONGER = timedelta(hours=1)
"""So much longer than a rule asks back: what a field was at that time is told by the change after it."""
NOT_YET = 1 << 62
"""The numbers of records that have none yet begin here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What one commit is to store. ``counts``: how many of the values seen of each fact are in it; ``looked_at``: the
    events of which a poll is noted, and when."""

    changes: tuple[Change, ...]
    counts: Mapping[Place, int]
    looked_at: Mapping[EventId, datetime] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Stored:
    """``facts``: as they stand in the ledger, and ``looked_at``: the last noted polls; ``lacked``: of records, what the
    fields that cannot be read now were when they were read last. ``seen``: what each fact was since, oldest first; what
    came and went is two changes, perhaps of two hands. ``anew``: facts that the ledger has of another event,
    which had the same id. ``rules``: the rules by which fields are ``kept``, and ``watched``. ``trial``: a commit of
    which nobody knows whether it is stored. ``keep``: how long changes stay. ``stamped_at``: the time of the newest
    change."""

    partner: PartnerId
    keep: timedelta = timedelta(days=7)
    facts: dict[EventId, dict[FactKey, Fact]] = field(default_factory=dict)
    looked_at: dict[EventId, datetime] = field(default_factory=dict)
    lacked: dict[Place, Mapping[str, Json]] = field(default_factory=dict)
    seen: dict[EventId, dict[FactKey, list[Fact]]] = field(default_factory=dict)
    anew: set[Place] = field(default_factory=set)
    rules: RuleSet | None = None
    kept: Mapping[str, Fields] = field(default_factory=dict)
    watched: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    listed_at: datetime | None = None
    forgot_at: datetime | None = None
    stamped_at: datetime | None = None
    trial: Trial | None = None

    def load(self, observed: Iterable[Observed]) -> None:
        """Takes what the ledger holds."""
        for one in observed:
            self.stamped_at = max(self.stamped_at or one.at, one.at)
            self.facts.setdefault(one.event, {})[one.key] = one.fact
            if one.last:
                self.lacked[one.event, one.key] = one.last
            if one.looked_at is not None:
                self.looked_at[one.event] = one.looked_at

    def saw(self, place: Place, fact: Fact) -> None:
        """A fact says something else than before, as whoever calls knows it; the ledger may know that already."""
        event, key = place
        values = self.seen.get(event, {}).get(key)
        if values is None:
            facts = self.facts.setdefault(event, {})
            if same(facts.get(key), fact):
                facts[key] = fact
            else:
                self.seen.setdefault(event, {})[key] = [fact]
            return
        tried = self.trial.counts.get(place, 0) if self.trial is not None else 0
        if len(values) - tried >= UNSTORED_MOST:
            values.pop()
        values.append(fact)

    def forget(self, event: EventId) -> None:
        """What comes back under its id may be another event: nothing from before counts any more."""
        self.anew.update((event, key) for key in self.facts.get(event, ()))
        self.seen.pop(event, None)

    def under(self, rules: RuleSet, known: Iterable[tuple[Place, Fact]]) -> None:
        """Under other rules other fields are worth keeping, of everything that is ``known``."""
        if self.rules is rules:
            return
        for facts in self.facts.values():
            facts.update({key: narrowed(fact, self.kept.get(key.name)) for key, fact in facts.items()})
        self.rules, self.kept, self.watched = rules, worth_keeping(rules.rules), watched_fields(rules.rules)
        for (event, key), fact in known:
            self.seen.setdefault(event, {}).setdefault(key, [fact])

    def polled(self, memory: PartnerMemory, now: datetime, *, complete: bool) -> None:
        """What a poll says of the partner as a whole. ``complete``: the list was had as a whole."""
        told = {name: stored_form(getattr(memory, name)) for name in OF_THE_RECORD}
        self.saw((OF_PARTNER, MEMORY), Known(value=told, read_at=now))
        self._saw_kept(self._keeps(), now)
        if complete:
            if self.listed_at is not None and now - self.listed_at > SILENCE_LONGER_THAN:
                self.saw((OF_PARTNER, SILENCE), Known(value={"since": spelled(self.listed_at)}, read_at=now))
            self.listed_at = now

    def commit(
        self, ledger: Ledger, commit: Commit, events: Iterable[EventId] | None, looked_at: tuple[EventId, ...] = ()
    ) -> tuple[Write, ...]:
        """Stores the commit, and with it what was seen of these events, or of all. Raises as the ledger does.
        ``looked_at``: events of which it is noted.

        A commit that is reported as failed may be stored all the same. Whether it is, the ledger says before the next.
        """
        if self.trial is not None and self.trial.changes and _holds(ledger, self.partner, self.trial.changes[-1].now):
            self.took(self.trial)
        self.trial = None
        ahead = (self.stamped_at or commit.at) - commit.at
        if ahead > KEPT_LONGER:  # by the clock that was ahead so much more was dropped
            self._saw_kept(max(timedelta(0), self._keeps() - ahead), commit.at)
            self._saw_kept(self._keeps(), commit.at)
        trial, set_back = self.attempt(commit.at, events), ahead > timedelta(0)
        if trial.changes or looked_at or set_back:
            trial = replace(trial, looked_at=dict.fromkeys(looked_at, commit.at))
            before = commit.at - self._keeps()
            old = set_back or self.forgot_at is None or before - self.forgot_at >= FORGET_EVERY
            forget = before if old and trial.changes else None
            stored = Changes(
                partner=self.partner, changes=trial.changes, looked_at=looked_at, forget=forget, set_back=set_back
            )
            commit = replace(commit, records=(*self.records(trial.changes), *commit.records), changes=stored)
            self.forgot_at = forget or self.forgot_at
        self.trial = trial
        try:
            made = ledger.apply(commit)
        except StateConflict:
            self.trial = None
            raise
        self.took(trial)
        if trial.changes or set_back:
            self.stamped_at = commit.at
        return made

    def _saw_kept(self, length: timedelta, now: datetime) -> None:
        kept: dict[str, Json] = {"seconds": length.total_seconds(), "config": self.keep.total_seconds()}
        self.saw((OF_PARTNER, KEPT), Known(value=kept, read_at=now))

    def _keeps(self) -> timedelta:
        """How long changes are kept: as the config says, or as long as a rule asks for."""
        asked = windows_of(self.rules.rules if self.rules is not None else ()).values()
        return max([self.keep, *(window + KEPT_LONGER for window in asked)])

    def unstored(self, event: EventId, now: datetime) -> list[Doing]:
        """The changes of an event's fields that will be recorded with the next commit, as if they were."""
        found = enumerate(self.records(self.attempt(now, [event]).changes))
        return [Doing(NOT_YET + number, now, one.kind, None, None, one.facts) for number, one in found]

    def attempt(self, now: datetime, events: Iterable[EventId] | None) -> Trial:
        """What was seen of these events, or of all, as it is to be stored at ``now``."""
        if self.rules is None:
            return Trial(changes=(), counts={})
        chosen = self.seen if events is None else [event for event in events if event in self.seen]
        places = [(event, key) for event in chosen for key in self.seen[event]]
        changes = tuple(change for place in places for change in self._changes(place, now))
        return Trial(changes=changes, counts={(event, key): len(self.seen[event][key]) for event, key in places})

    def took(self, trial: Trial) -> None:
        """It is in the ledger."""
        self.trial = None
        self.looked_at.update(trial.looked_at)
        for change in trial.changes:
            place = (change.now.event, change.now.key)
            self.lacked.pop(place, None)
            if change.now.last:
                self.lacked[place] = change.now.last
        for (event, key), count in trial.counts.items():
            values = self.seen.get(event, {}).pop(key, [])
            if values[:count]:
                self.facts.setdefault(event, {})[key] = values[:count][-1]
            if values[count:]:
                self.seen[event][key] = values[count:]
            elif not self.seen.get(event):
                self.seen.pop(event, None)
            self.anew.discard((event, key))

    def _changes(self, place: Place, now: datetime) -> Iterator[Change]:
        """The changes of one fact, in what is worth keeping of it."""
        event, key = place
        known, fields = self.facts.get(event, {}).get(key), self.kept.get(key.name)
        before = None
        if known is not None:
            last = {} if place in self.anew else self.lacked.get(place, {})
            before = Observed(event=event, key=key, fact=narrowed(known, fields), at=now, last=last)
        for fact in self.seen[event][key]:
            new = narrowed(replace(fact, trace=None) if fact.trace is not None else fact, fields)
            if before is not None and same(before.fact, new):
                continue
            after = Observed(event=event, key=key, fact=new, at=now)
            if key.name in self.watched and place not in self.anew:
                after = replace(after, last=_missed(before, after))
            yield Change(now=after, before=before)
            before = after

    def records(self, changes: Iterable[Change]) -> Iterator[Record]:
        """A record for each change of a field that a rule in force looks at or writes. What cannot be read has not
        changed yet; what another event was, under the same id, is nobody's change."""
        for change in changes:
            now, before = change.now, change.before
            if before is None or (now.event, now.key) in self.anew:
                continue
            was, now_is, fact = _last_known(before), _fields(now), now.key.name
            event = None if now.event == OF_PARTNER else now.event
            for name in OF_THE_PARTNER.get(fact) or self.watched.get(fact, ()):
                if name in was and name in now_is and _differ(was[name], now_is[name]):
                    said = (fact if name in (WHOLE, SCALAR) else f"{fact}.{name}", was[name], now_is[name])
                    yield _changed(self.partner, event, said, now.at)


def _holds(ledger: Ledger, partner: PartnerId, tried: Observed) -> bool:
    """Whether a fact stands in the ledger as a commit would have stored it."""
    found = (one for one in ledger.observed(partner, tried.event) if (one.event, one.key) == (tried.event, tried.key))
    return any(one.at == tried.at and same(one.fact, tried.fact) for one in found)


def watched_fields(rules: Iterable[Rule]) -> Mapping[str, tuple[str, ...]]:
    """The fields that some rule names or writes, by fact; and as a whole what a rule with ``on_change`` compares. Of
    other facts no list that is only named: it may be long, and what fires tells of it."""
    rules = list(rules)
    named = looked_at(rules)
    found: dict[str, tuple[str, ...]] = {}
    for name, documented in WATCHED.items():
        fields = named.get(name, frozenset())
        steps = (ACTIONS[step.action] for rule in rules for step in rule.do)
        written = {field for row in steps for fact, field in row.writes if fact == name}
        found[name] = tuple(sorted((set(documented) if fields is None else fields) | (written - {""})))
    others = dict.fromkeys((path.name, *path.fields[:1]) for path in paths_named(rules) if path.name not in WATCHED)
    for name, *part in others:
        found[name] = (*found.get(name, ()), *(part or [SCALAR]))
    compared = {watch.fact for rule in rules for watch in rule.on_change} - WATCHED.keys()
    return {**found, **dict.fromkeys(compared, (WHOLE,))}


def same(old: Fact | None, new: Fact) -> bool:
    """Whether two facts say the same, whenever they were read, and in whatever words nothing is known."""
    if isinstance(new, Known):
        return isinstance(old, Known) and (old.value is new.value or old.value == new.value) and old.gaps == new.gaps
    return isinstance(old, Unknown) and old.code == new.code


def _fields(one: Observed) -> dict[str, Json]:
    """What is compared of a fact: the fields of a record, or the value of any other."""
    if not isinstance(one.fact, Known) or one.key.name in WATCHED:
        return record_of(one.fact)
    parts = {SCALAR: one.fact.value, **record_of(one.fact)}
    scalars = {name: value for name, value in parts.items() if not isinstance(value, list | dict)}
    return {**scalars, WHOLE: one.fact.value}


def _last_known(before: Observed) -> dict[str, Json]:
    """Every field as it was read last."""
    return {**before.last, **_fields(before)}


def _missed(before: Observed | None, new: Observed) -> dict[str, Json]:
    """What the fields that ``new`` lacks, or all of one that cannot be read, were when they were read last."""
    known = {} if before is None else _last_known(before)
    gaps = new.fact.gaps if isinstance(new.fact, Known) else known
    return {name: known[name] for name in gaps if name in known}


def _gained_and_lost(was: list[Json], now_is: list[Json]) -> tuple[list[Json], list[Json]]:
    return [one for one in now_is if one not in was], [one for one in was if one not in now_is]


def _differ(was: Json, now_is: Json) -> bool:
    """Whether a value became another one; a list in another order did not."""
    if isinstance(was, list) and isinstance(now_is, list):
        return any(_gained_and_lost(was, now_is))
    return was != now_is


def _changed(partner: PartnerId, event: EventId | None, said: tuple[str, Json, Json], at: datetime) -> Record:
    name, was, now_is = said
    why = f"{name} changed from {was!r} to {now_is!r}"
    if isinstance(was, list) and isinstance(now_is, list):
        gained, lost = _gained_and_lost(was, now_is)
        why = f"{name} changed: gained {gained or 'nothing'}, lost {lost or 'nothing'}"
    return Record(at=at, kind="observed", why=why, partner=partner, event=event, facts={name: now_is, "before": was})
