"""A rule folder over recorded observations: what it would have decided, look by look, with the daemon's `decide`. Pure.

A look happens where something was observed to change, and where the clock alone can change a decision; the looks
between could decide nothing else. A write that would have been sent is taken to succeed at once, and what the writes
that were really made have changed is left out, so that a rule is replayed against a world in
which it acted, and no other did. Approvals, halts, the budget of requests and the brakes of the sending are not
replayed: what waits for a person goes on waiting.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Literal

from worker.engine.decide import decide
from worker.engine.due import JUST_AFTER, Clocked, Glanced, clocked, next_due
from worker.engine.factreads import names_read, unread_keys
from worker.engine.looks import EngineSettings, Look, firings_reach, sendings_reach
from worker.engine.recording import memory_of
from worker.engine.whose import effect_of
from worker.guards.checks import Situation, first_no, setup_state, target_says
from worker.model.actions import ACTIONS
from worker.model.commits import MEMORY, OF_PARTNER, SILENCE, Commit, History, Observed, PartnerMemory, RuleMemory
from worker.model.facts import EventId, Fact, FactKey, Json, Known, Observation, PartnerId, RuleId, Unknown, WriteId
from worker.model.rules import Rule, RuleSet, Truth
from worker.model.writes import Plan, State, Write
from worker.rules.facts import Fields, looked_at, narrowed

# What was observed, as it stands at one moment of a replay: without what our own writes changed, with what the
# replayed ones would have changed.
#
# Both are laid over what was observed, field by field, until the observation itself changes that field by another hand:
# then somebody did something there, and what they did counts.


@dataclass(slots=True)
class Past:
    """``facts`` and ``shared``: what the replay sees. ``observed``: what was recorded. ``laid_over``: fields in which
    the two differ on purpose. ``made``: what writes that were really made were to change, and from when on."""

    shared: dict[FactKey, Fact] = field(default_factory=dict)
    facts: dict[EventId, dict[FactKey, Fact]] = field(default_factory=dict)
    observed: dict[tuple[EventId, FactKey], Fact] = field(default_factory=dict)
    laid_over: dict[tuple[EventId, FactKey], set[str]] = field(default_factory=dict)
    made: dict[tuple[EventId, FactKey], list[tuple[datetime, dict[str, Json]]]] = field(default_factory=dict)

    def without(self, writes: Iterable[Write]) -> None:
        """The effects of these writes are not to be seen: a replay makes its own."""
        for write in writes:
            effect = effect_of(write.intent, lambda _name: None) if write.sent else None
            if effect is not None and isinstance(effect.value, dict) and write.first_sent_at is not None:
                place = (write.key.event, FactKey(name=effect.fact))
                self.made.setdefault(place, []).append((write.first_sent_at, dict(effect.value)))

    def take(self, one: Observed) -> None:
        """A fact as it was observed. What it changes is not laid over any more, unless a write of ours changed it."""
        place = (one.event, one.key)
        old, self.observed[place] = self.observed.get(place), one.fact
        if one.event == OF_PARTNER:
            self.shared[one.key] = one.fact
            return
        facts = self.facts.setdefault(one.event, {})
        mine = facts.get(one.key)
        changed = _differing(old, one.fact)
        ours = self._ours(place, one, changed) if changed else set[str]()
        fields = (self.laid_over.get(place, set()) - changed) | ours
        if fields and isinstance(mine, Known) and isinstance(mine.value, dict):
            kept = {name: mine.value.get(name) for name in fields}
            facts[one.key] = _with(one.fact, kept)
            self.laid_over[place] = fields
        else:
            facts[one.key] = one.fact
            self.laid_over.pop(place, None)

    def _ours(self, place: tuple[EventId, FactKey], one: Observed, changed: set[str]) -> set[str]:
        """The fields that now are as a write of ours, sent before, was to make them; each write counts once."""
        value = one.fact.value if isinstance(one.fact, Known) and isinstance(one.fact.value, dict) else {}
        found: set[str] = set()
        for sent_at, wanted in self.made.get(place, ()):
            for name in [name for name in wanted if name in changed and sent_at <= one.at]:
                if value.get(name) == wanted[name]:
                    del wanted[name]
                    found.add(name)
        return found

    def lay_over(self, write: Write, now: datetime) -> None:
        """The effect of a write that was not really made."""
        facts = self.facts.setdefault(write.key.event, {})

        def value_of(name: str) -> Json:
            fact = facts.get(FactKey(name=name))
            return fact.value if isinstance(fact, Known) else None

        effect = effect_of(write.intent, value_of)
        if effect is None or not isinstance(effect.value, dict):
            return
        key = FactKey(name=effect.fact)
        self.laid_over.setdefault((write.key.event, key), set()).update(effect.value)
        old = facts.get(key)
        base = old if isinstance(old, Known) and not effect.whole else Known(value={}, read_at=now)
        facts[key] = _with(base, effect.value)

    def observation(self, partner: PartnerId, event: EventId) -> Observation:
        """All that is known of the event now."""
        return Observation(partner=partner, event=event, facts={**self.shared, **self.facts.get(event, {})})


def _differing(old: Fact | None, new: Fact) -> set[str]:
    before = old.value if isinstance(old, Known) and isinstance(old.value, dict) else {}
    after = new.value if isinstance(new, Known) and isinstance(new.value, dict) else {}
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def _with(fact: Fact, fields: Mapping[str, Json]) -> Fact:
    if not isinstance(fact, Known) or not isinstance(fact.value, dict):
        return fact
    gaps = {name: why for name, why in fact.gaps.items() if name not in fields}
    return replace(fact, value={**fact.value, **fields}, gaps=gaps)


# Writes that were made beside writes that a rule folder would have made: new, gone, earlier, later, or the same. Pure.
#
# They are told apart by what they do and not by who does it: a pause of an event is the same write under a renamed
# rule. Of several that do the same, those nearest in time belong together. A skipped write did nothing, on either
# side; but one that was made at the same time and only ended before it could be sent is none that would be new: a
# replay sends at once.

ENDED_BEFORE = frozenset({"no_longer_holds", "sequence"})
"""Reasons of skipped writes that were wanted all the same when they were planned."""
Place = tuple[str, str, str, str, str]
Kind = Literal["new", "gone", "earlier", "later", "same"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One write as it was made, as it would be made, or both."""

    kind: Kind
    made: Write | None
    would: Write | None

    @property
    def write(self) -> Write:
        """Either of the two."""
        found = self.made if self.made is not None else self.would
        if found is None:
            raise ValueError("a difference between nothing and nothing")
        return found

    @property
    def at(self) -> datetime:
        """The earlier of the two moments."""
        return min(one.planned_at for one in (self.made, self.would) if one is not None)


def differences(made: Iterable[Write], would: Iterable[Write], tolerance: timedelta) -> list[Difference]:
    """All of them, by event and time. Within ``tolerance`` two moments are the same."""
    made = list(made)
    left, right = _by_effect(made), _by_effect(would)
    ended = [one for one in made if one.state == "skipped" and one.reason in ENDED_BEFORE]

    def was_planned(one: Difference) -> bool:
        """Whether a write that would be new was planned then, and came to nothing."""
        here = [other for other in ended if _place(other) == _place(one.write)]
        return one.kind == "new" and any(abs(other.planned_at - one.at) <= tolerance for other in here)

    found: list[Difference] = []
    for effect in sorted({*left, *right}):
        found.extend(_matched(left.get(effect, []), right.get(effect, []), tolerance))
    found = [one for one in found if not was_planned(one)]
    return sorted(found, key=lambda one: (one.write.key.event, one.at, one.write.intent.order))


def _place(write: Write) -> Place:
    key, intent = write.key, write.intent
    return (key.event, intent.target, intent.action, intent.wish, key.item)


def _by_effect(writes: Iterable[Write]) -> dict[Place, list[Write]]:
    found: dict[Place, list[Write]] = {}
    for write in writes:
        if write.state != "skipped" and not write.undo:
            found.setdefault(_place(write), []).append(write)
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


EVENT = FactKey(name="event")
RESTLESS_EVERY = timedelta(minutes=1)
"""How often a condition is looked at that depends on the clock in a way that only looking tells."""
Pair = tuple[EventId, RuleId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What came of it. ``writes``: in the order in which they would have been planned; ``unseen``: for how many events
    a rule wanted a fact, by its key, that nobody had recorded; ``looks``: how many were made."""

    writes: tuple[Write, ...]
    unseen: Mapping[tuple[RuleId, str], int]
    looks: int


class Replay:
    """One partner's past under one rule set."""

    def __init__(self, partner: PartnerId, rules: RuleSet, settings: EngineSettings) -> None:
        self._partner = partner
        self._rules = rules
        self._settings = settings
        self._interval = settings.interval
        self._active = [rule for rule in rules.rules if rule.looks_at(partner)]
        self._clocks: dict[RuleId, Clocked] = {rule.id: clocked(rule) for rule in self._active}
        self._fields = _fields_that_matter(self._active)
        self._past = Past()
        self._memory = PartnerMemory(partner=partner)
        self._memories: dict[Pair, RuleMemory] = {}
        self._writes: dict[WriteId, Write] = {}
        self._open: dict[EventId, dict[WriteId, Write]] = {}
        self._episodes: dict[tuple[EventId, RuleId, int], list[WriteId]] = {}
        self._targets: dict[tuple[EventId, str], list[WriteId]] = {}
        self._sent: dict[Pair, list[datetime]] = {}
        self._firings: list[tuple[RuleId, EventId, datetime]] = []
        self._due: list[tuple[datetime, EventId]] = []
        self._due_of: dict[EventId, datetime] = {}
        self._asking = {rule.id: rule for rule in self._active if set(names_read(rule)) - {EVENT.name}}
        self._unseen: dict[tuple[RuleId, FactKey], set[EventId]] = {}
        self._looks = 0
        self._until = datetime.max.replace(tzinfo=UTC)

    def run(self, history: History, until: datetime, made: Iterable[Write] = ()) -> Replayed:
        """From the history's beginning to its end, and on the clock alone until ``until``. ``made``: the writes that
        were really made meanwhile, whose effects are not to be seen."""
        self._until = until + JUST_AFTER  # the last look was at that very moment, and is one of them
        self._past.without(made)
        for one in history.start:
            self._take(one)
        if history.start:
            begins = history.start[0].at
            self._look(begins, self._in_sight())
        for at, group in groupby(history.changes, key=lambda one: one.at):
            self._step(at, list(group))
        self._let_pass(self._until)
        return Replayed(writes=tuple(self._writes.values()), unseen=self._never_seen(), looks=self._looks)

    # what was observed

    def _step(self, at: datetime, changes: list[Observed]) -> None:
        """What one cycle saw to be otherwise."""
        silent = next((one.fact for one in changes if one.key == SILENCE), None)
        self._let_pass(at if silent is None else _silent_since(silent) or at)
        stirred: set[EventId] = set()
        for one in changes:
            stirred |= self._take(one)
        late = [event for event, due in self._due_of.items() if due <= at] if silent is not None else []
        self._look(at, sorted({*stirred, *late} - self._memory.gone.keys()))

    def _take(self, one: Observed) -> set[EventId]:
        """Takes one fact; the events of which something else may be decided now."""
        if one.key == SILENCE:
            return set()
        if one.key == MEMORY:
            before, self._memory = self._memory, memory_of(self._partner, one.fact)
            everybody = replace(before, gone={}, returned={}) != replace(self._memory, gone={}, returned={})
            return set(self._past.facts) if everybody else {*before.gone} - {*self._memory.gone}
        before_fact = self._past.observed.get((one.event, one.key))
        self._past.take(one)
        if one.event == OF_PARTNER:
            return set(self._past.facts)
        fields = self._fields.get(one.key.name, frozenset())
        if before_fact is not None and _alike(narrowed(before_fact, fields), narrowed(one.fact, fields)):
            return set()
        return {one.event}

    def _in_sight(self) -> list[EventId]:
        return sorted(self._past.facts.keys() - self._memory.gone.keys())

    # time

    def _let_pass(self, until: datetime) -> None:
        """Looks that only the clock asks for; a cycle may have been a little later, and never before."""
        while self._due and self._due[0][0] < until:
            at, events = self._due[0][0], set[EventId]()
            while self._due and self._due[0][0] == at:
                _, event = heapq.heappop(self._due)
                if self._due_of.get(event) == at:
                    del self._due_of[event]
                    events.add(event)
            self._look(at, sorted(events - self._memory.gone.keys()))

    def _wake(self, event: EventId, at: datetime) -> None:
        if self._due_of.get(event) != at:
            self._due_of[event] = at
            heapq.heappush(self._due, (at, event))

    # looks

    def _look(self, at: datetime, events: list[EventId]) -> None:
        if not events:
            return
        self._looks += 1
        observations = {event: self._past.observation(self._partner, event) for event in events}
        pairs = [(event, rule.id) for event in events for rule in self._active]
        look = Look(
            partner=self._partner,
            now=at,
            memory=self._memory,
            observations=observations,
            memories={pair: self._memories[pair] for pair in pairs if pair in self._memories},
            writes=tuple(one for event in events for one in self._open.get(event, {}).values()),
            sendings={pair: self._sendings(pair, at) for pair in pairs if pair in self._sent},
            firings=self._recent_firings(at),
            ended=self._of_episode,
            on_target=self._on_target,
        )
        decision = decide(self._rules, look, self._settings.deciding)
        self._memories.update(decision.memories)
        lively = self._stored(decision.commit, at)
        for (event, rule), judged in decision.judged.items():
            if judged.truth is not Truth.FALSE:
                self._note_unseen(observations[event], rule, at)
        for event in events:
            self._calm(event, at, lively=event in lively)

    def _stored(self, commit: Commit, at: datetime) -> set[EventId]:
        """What a ledger and an executor do with a decision; the events that are to be looked at again soon."""
        for change in commit.moves:
            self._keep(change.after)
        for record in commit.records:
            if record.kind == "fired" and record.rule is not None and record.event is not None:
                self._firings.append((record.rule, record.event, at))
        for plan in commit.plans:
            self._plan(plan, at)
        changed = {memory.event for memory in commit.memory} | {change.after.key.event for change in commit.moves}
        return changed | {plan.key.event for plan in commit.plans}

    def _plan(self, plan: Plan, at: datetime) -> None:
        """A write, and what becomes of it: there already, refused, before a person, or done at once."""
        write = plan.write(len(self._writes) + 1, at)
        self._episodes.setdefault((plan.key.event, plan.key.rule, plan.key.episode), []).append(write.id)
        self._targets.setdefault((plan.key.event, plan.intent.target), []).append(write.id)
        if plan.state == "planned":
            facts = {key.name: fact for key, fact in self._past.facts.get(plan.key.event, {}).items()}
            situation = Situation(write=write, now=at, limits=self._settings.limits, facts=facts)
            no = first_no((setup_state, target_says), situation)
            if no is not None and no.way in ("skip", "refuse"):
                state: State = "skipped" if no.way == "skip" else "refused"
                write = replace(write, state=state, reason=no.reason, why=no.why)
            else:
                write = replace(write, state="confirmed", attempt=1, first_sent_at=at, last_sent_at=at)
                sent = self._sent.setdefault((plan.key.event, plan.key.rule), [])
                if not sent or sent[-1] != at:
                    sent.append(at)
                self._past.lay_over(write, at)
        self._keep(write)

    def _keep(self, write: Write) -> None:
        self._writes[write.id] = write
        of_event = self._open.setdefault(write.key.event, {})
        if write.final:
            of_event.pop(write.id, None)
        else:
            of_event[write.id] = write

    def _calm(self, event: EventId, at: datetime, *, lively: bool) -> None:
        """When the event is to be looked at next, if nothing is observed before."""
        if lively:
            self._wake(event, at + self._interval)
            return
        first = horizon = self._until  # what comes after the end need not be found
        observation = self._past.observation(self._partner, event)
        for rule in self._active:
            pair = (event, rule.id)
            glanced = Glanced(memory=self._memories.get(pair), sendings=self._sendings(pair, at))
            first = min(first, next_due(rule, self._clocks[rule.id], observation, glanced, (at, first)))
        if first < horizon:
            self._wake(event, first if first > at else at + RESTLESS_EVERY)

    def _sendings(self, pair: Pair, at: datetime) -> list[datetime]:
        reach = at - sendings_reach(self._active)
        return [one for one in self._sent.get(pair, ()) if one >= reach]

    def _recent_firings(self, at: datetime) -> list[tuple[RuleId, EventId, datetime]]:
        reach = at - firings_reach(self._active, self._settings.deciding)
        if self._firings and self._firings[0][2] < reach:
            self._firings = [one for one in self._firings if one[2] >= reach]
        return self._firings

    def _of_episode(self, event: EventId, rule: RuleId, episode: int) -> tuple[Write, ...]:
        return tuple(self._writes[one] for one in self._episodes.get((event, rule, episode), ()))

    def _on_target(self, event: EventId, target: str) -> tuple[Write, ...]:
        return tuple(self._writes[one] for one in self._targets.get((event, target), ()))

    def _note_unseen(self, observation: Observation, rule_id: RuleId, at: datetime) -> None:
        """Facts that the rule would have had read now, and that are not there."""
        rule = self._asking.get(rule_id)
        for key in unread_keys(rule, observation, at) if rule is not None else ():
            self._unseen.setdefault((rule_id, key), set()).add(observation.event)

    def _never_seen(self) -> Mapping[tuple[RuleId, str], int]:
        """Of these the ones that nobody recorded at any time: no rule of that time had them read, or not so."""
        found: dict[tuple[RuleId, str], int] = {}
        for (rule_id, key), events in self._unseen.items():
            never = [event for event in events if (event, key) not in self._past.observed]
            if never and (OF_PARTNER, key) not in self._past.observed:
                found[rule_id, key.text] = len(never)
        return found


def _fields_that_matter(rules: list[Rule]) -> dict[str, Fields]:
    """Of each fact the fields that decide anything: those that rules name, parameters of facts, enforced targets."""
    found = dict(looked_at(rules))
    steps = [ACTIONS[step.action] for rule in rules if rule.repeat == "enforce" for step in rule.do]
    for name in {"defaults", *(fact for row in steps for fact in row.reads if fact != EVENT.name)}:
        found[name] = None
    event = found.get(EVENT.name, frozenset())
    targets = {field for row in steps for fact, field in row.writes if fact == EVENT.name}
    found[EVENT.name] = None if event is None or "" in targets else event | targets | {"start_date_time"}
    return found


def _silent_since(fact: Fact) -> datetime | None:
    since = fact.value.get("since") if isinstance(fact, Known) and isinstance(fact.value, dict) else None
    return datetime.fromisoformat(since) if isinstance(since, str) else None


def _alike(one: Fact, other: Fact) -> bool:
    if isinstance(one, Known) and isinstance(other, Known):
        return one.value == other.value and one.gaps == other.gaps
    return isinstance(one, Unknown) and isinstance(other, Unknown) and one.code == other.code
