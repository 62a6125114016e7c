"""A rule folder over recorded observations: what it would have decided, look by look, with the daemon's `decide`. Pure.

A look happens where something was observed to change, and where the clock alone can change a decision; the looks
between could decide nothing else. A write that would have been sent is taken to succeed at once, and what the writes
that were really made have changed is left out (`worker.engine.past`), so that a rule is replayed against a world in
which it acted, and no other did. Approvals, halts, the budget of requests and the brakes of the sending are not
replayed: what waits for a person goes on waiting.
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby

from worker.engine.decide import decide
from worker.engine.due import JUST_AFTER, Clocked, Glanced, clocked, next_due
from worker.engine.looks import Look, firings_reach, sendings_reach
from worker.engine.needs import names_read, unread_keys
from worker.engine.past import Past
from worker.engine.recording import memory_of
from worker.engine.settings import EngineSettings
from worker.guards.checks import first_no
from worker.guards.situation import Situation
from worker.guards.target import setup_state, target_says
from worker.model.actions import ACTIONS
from worker.model.commits import Commit
from worker.model.facts import Fact, FactKey, Known, Observation, Unknown
from worker.model.ids import EventId, PartnerId, RuleId, WriteId
from worker.model.memory import PartnerMemory, RuleMemory
from worker.model.rules import Rule, RuleSet, Truth
from worker.model.trail import MEMORY, OF_PARTNER, SILENCE, History, Observed
from worker.model.writes import Plan, State, Write
from worker.rules.mentions import Fields, looked_at, narrowed

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
