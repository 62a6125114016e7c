"""From what a look saw to what is stored: `decide` over the events that could be decided otherwise, in one commit.

The shell around the pure core. It collects what the core may know, leaves out the events that are calm, stores the
decision as one transaction with the records of what was seen, and only then takes it over into this process's memory.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from worker.engine.decide import Decision, decide, decide_apart
from worker.engine.due import Glanced, Screen, horizon, next_due
from worker.engine.looks import Look, asks_sendings, firings_reach, sendings_reach, shut, under
from worker.engine.observe import Polled
from worker.engine.parts import Parts
from worker.engine.planning import Edited, asked_anew, edits_of, in_one, reopened_by
from worker.engine.recording import Recorder
from worker.engine.state import PartnerState
from worker.model.commits import Commit, Record, RuleMemory
from worker.model.errors import LedgerUnwritable
from worker.model.facts import EventId, Observation, RuleId
from worker.model.rules import Rule, RuleSet
from worker.model.writes import Write

Memories = dict[tuple[EventId, RuleId], RuleMemory]


class Decider:
    """Decides for one partner after the other. One instance serves all; what differs is in the state handed in."""

    def __init__(self, parts: Parts, recorder: Recorder) -> None:
        self._clock = parts.clock
        self._ledger = parts.ledger
        self._settings = parts.settings
        self._rules = parts.rules
        self._recorder = recorder
        self._decided = parts.decided
        self._screened: RuleSet | None = None
        self._screens: dict[tuple[RuleId, ...], Screen] = {}

    def decide(self, state: PartnerState, seen: Polled) -> Decision | None:
        """Decides and stores; None where nothing was learnt that could be decided on. Raises `LedgerUnwritable` and
        `StateConflict`; then this process's memory is as it was."""
        if seen.only is not None and not seen.only:
            return None
        begun = self._begin(state, seen)
        return self._finish(state, begun, decide(begun.rules, begun.look, self._settings.deciding))

    def portions(self, state: PartnerState, seen: Polled) -> list[list[EventId]]:
        """The events that a whole look has to judge, in portions that hold up nobody for long. One is all of them."""
        self._prepare(state, seen)
        now = self._clock.now()
        stirred = state.calm.stirred(self._in_sight(state, seen), now)
        return state.calm.portions(stirred, len(self._rules.current.rules), self._settings.pairs_at_once, now)

    def decide_apart(
        self, state: PartnerState, seen: Polled, portion: list[EventId]
    ) -> tuple[Decision, frozenset[EventId]]:
        """Decides and stores what can be decided of a portion alone; see `worker.engine.decide.decide_apart`. Raises as
        `decide` does. What the whole look saw is stored with the first portion: one look is one moment to whoever plays
        it again."""
        begun = self._begin(state, replace(seen, only=frozenset(portion)))
        decision, together = decide_apart(begun.rules, begun.look, self._settings.deciding)
        begun.found.busy = {*begun.found.busy, *together}
        return self._finish(state, begun, decision), together

    def _judges(self, state: PartnerState) -> bool:
        """Whether the list was read for what the rules look at. After an edit during a look, a field that nobody asked
        for would be taken for one that the event lacks."""
        return self._rules.needed == state.listed_for

    def _in_sight(self, state: PartnerState, seen: Polled) -> AbstractSet[EventId]:
        """The events that the rules can be judged for."""
        if not self._judges(state):
            return frozenset()
        return seen.in_sight - state.lacking if state.lacking else seen.in_sight

    def _prepare(self, state: PartnerState, seen: Polled) -> None:
        """Takes up what makes more of the events worth a look."""
        self._take_up(state)
        state.calm.only_under(_circumstances(state, seen, self._rules.current))

    def _begin(self, state: PartnerState, seen: Polled) -> "_Begun":
        before, rules = state.memory, self._rules.current
        ours = {name: getattr(before, name) for name in ("denied_at", "denied_until", "rules", "away", "back")}
        seen = replace(seen, memory=replace(seen.memory, **ours))
        self._prepare(state, seen)
        writes = self._ledger.open_writes(state.partner)
        found, now = self._sort_out(state, seen, {write.key.event for write in writes}), self._clock.now()
        memory = under(seen.memory, [rule.id for rule in found.screen.rules], now)
        seen = replace(seen, memory=memory, store=seen.store or memory is not seen.memory)
        edits = asked_anew(seen.memory, edits_of(rules, writes, state.memories, now), writes, now)
        reopen = reopened_by(edits, state.memories)
        look = self._look(state, seen, found, (writes, edits, reopen))
        return _Begun(seen=seen, rules=rules, found=found, look=look, edits=edits, reopen=reopen)

    def _finish(self, state: PartnerState, begun: "_Begun", decision: Decision) -> Decision:
        """Stores what was decided, and takes it over."""
        seen, rules, reopen, before = begun.seen, begun.rules, begun.reopen, state.memory
        off = shut((rule for rule in rules.rules if rule.looks_at(state.partner)), state.products_off)
        commit = replace(
            decision.commit,
            records=(*seen.records, *_shut_records(state, off, begun.look.now), *decision.commit.records),
            memory=tuple({**reopen, **{(one.event, one.rule): one for one in decision.commit.memory}}.values()),
            partner=seen.memory if seen.store else None,
            moves=in_one(begun.edits, decision.commit.moves),
        )
        decision = replace(decision, commit=commit)
        self._store(state, commit, seen, decision.looked_at)
        _take(state, commit.memory)
        state.shut = off
        state.memory = seen.memory if seen.store else replace(seen.memory, listed_at=before.listed_at)
        self._keep_calm(state, begun.look, decision, begun.found)
        self._decided(decision)
        return decision

    def reload(self, state: PartnerState) -> None:
        """Memory as it is stored: what this process believed was decided on something that is no longer so."""
        with suppress(LedgerUnwritable):
            self._read_memories(state)

    def _take_up(self, state: PartnerState) -> None:
        """Memory that a person has reopened in the ledger (`again`) since the last look, and what a commit may have
        stored that was reported as failed."""
        newest = self._ledger.last_seq()
        reopened = newest > state.read_up_to and self._ledger.reopened(state.partner, state.read_up_to)
        if reopened or state.in_doubt:
            self._read_memories(state)
        state.read_up_to = newest

    def _read_memories(self, state: PartnerState) -> None:
        _take(state, self._ledger.all_rule_memories(state.partner))
        state.calm.stir_all()
        state.in_doubt = False

    def _store(self, state: PartnerState, commit: Commit, seen: Polled, looked_at: tuple[EventId, ...]) -> None:
        """The decision with what was seen, in one transaction. Under rules by which nothing can be judged yet, nothing
        is compared: the next look does that, of every event."""
        state.in_doubt = True  # until the ledger has taken it
        if self._judges(state):
            state.stored.under(self._rules.current, state.known_facts())
            self._recorder.looked(state.stored, seen.memory, commit.at, complete=seen.complete)
            self._recorder.apply(state.stored, commit, looked_at=looked_at)
        else:
            self._ledger.apply(commit)
        state.in_doubt = False

    def _sort_out(self, state: PartnerState, seen: Polled, busy: Collection[EventId]) -> "_SortedOut":
        """Which of the events that were stirred are looked at, by which rules, and which stay calm after all."""
        now, screen = self._clock.now(), self._screen(state)
        in_sight = self._in_sight(state, seen)
        stirred = state.calm.stirred(in_sight if seen.only is None else seen.only & in_sight, now)
        found = _SortedOut(screen=screen, busy=busy)
        for event in stirred:
            observation = found.observations[event] = state.observation(event)
            rest = state.calm.rest(event, now)
            if rest is None or event in busy or event in seen.memory.returned:
                found.looked_at.append(event)
                continue
            verdict = screen.verdict(observation)
            rules = screen.needed(rest.verdict, verdict)
            if rules:
                found.looked_at.append(event)
                found.only[event] = rules
                found.until[event] = rest.until
            else:
                found.passed.append(event)
        return found

    def _look(
        self,
        state: PartnerState,
        seen: Polled,
        found: "_SortedOut",
        under_way: tuple[tuple[Write, ...], list[Edited], Memories],
    ) -> Look:
        rules, now = self._rules.current, self._clock.now()
        writes, edits, reopen = under_way
        now_is = {one.write.id: one.change.after for one in edits}
        surges = firings_reach(rules.rules, self._settings.deciding)
        standing = (now_is.get(write.id, write) for write in writes)
        any_ = bool(found.looked_at)
        reach = sendings_reach(rules.rules) if any_ and asks_sendings(rules.rules) else None
        return Look(
            partner=state.partner,
            now=now,
            memory=seen.memory,
            observations={event: found.observations[event] for event in found.looked_at},
            memories={**_memories_for(state, rules, found), **reopen},
            looked_at=state.stored.looked_at,
            writes=tuple(write for write in standing if not write.final),
            sendings={} if reach is None else self._ledger.first_sendings(state.partner, now - reach),
            firings=self._ledger.firings(state.partner, now - surges) if any_ else (),
            only=found.only,
            ended=lambda event, rule, episode: self._ledger.episode_writes(state.partner, event, rule, episode),
            on_target=lambda event, target: self._ledger.target_writes(state.partner, event, target),
        )

    def _keep_calm(self, state: PartnerState, look: Look, decision: Decision, found: "_SortedOut") -> None:
        """Marks the events for which this look changed nothing."""
        commit, screen = decision.commit, found.screen
        lively = {
            *found.busy,
            *(memory.event for memory in commit.memory),
            *(plan.key.event for plan in commit.plans),
            *(change.after.key.event for change in commit.moves),
        }
        for event in found.passed:
            state.calm.stay(event)
        for event, observation in look.observations.items():
            if event in lively:
                state.calm.stir(event)
                continue
            verdict = screen.verdict(observation)
            lasting = event not in look.memory.returned and screen.settled(verdict, event, state.memories)
            state.calm.keep(event, self._due(found, observation, state, look), verdict if lasting else None)

    def _due(self, found: "_SortedOut", observation: Observation, state: PartnerState, look: Look) -> datetime:
        event, screen = observation.event, found.screen
        first = found.until.get(event) or horizon(event, look.now, self._settings.looked_at_again)
        for rule in screen.timed(look.only.get(event, screen.rules)):
            pair = (event, rule.id)
            glanced = Glanced(memory=state.memories.get(pair), sendings=look.sendings.get(pair, ()))
            first = next_due(rule, screen.clocks[rule.id], observation, glanced, (look.now, first))
        return first

    def _screen(self, state: PartnerState) -> Screen:
        """The rules that look at this partner; partners with the same rules share what is known of their conditions."""
        rules = self._rules.current
        if self._screened is not rules:
            self._screened, self._screens = rules, {}
        off = shut(rules.rules, state.products_off)
        looking = tuple(rule for rule in rules.rules if rule.looks_at(state.partner) and rule.id not in off)
        ids = tuple(rule.id for rule in looking)
        if ids not in self._screens:
            self._screens[ids] = Screen(looking)
        return self._screens[ids]


@dataclass(slots=True, kw_only=True)
class _SortedOut:
    """What a look is to look at. ``observations``: of all events that were stirred. ``only``: the rules that look at
    an event, where not all do, and ``until`` when its calm would have ended; ``passed``: events that stay calm.
    ``busy``: events with writes under way."""

    screen: Screen
    busy: Collection[EventId]
    observations: dict[EventId, Observation] = field(default_factory=dict)
    looked_at: list[EventId] = field(default_factory=list)
    only: dict[EventId, list[Rule]] = field(default_factory=dict)
    until: dict[EventId, datetime] = field(default_factory=dict)
    passed: list[EventId] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """What a decision is made from."""

    seen: Polled
    rules: RuleSet
    found: _SortedOut
    look: Look
    edits: list[Edited]
    reopen: Memories


def _take(state: PartnerState, memories: Iterable[RuleMemory]) -> None:
    state.memories.update({(one.event, one.rule): one for one in memories})


def _shut_records(state: PartnerState, off: Mapping[RuleId, str], now: datetime) -> list[Record]:
    """What is said once of each rule that a product keeps from looking."""
    new = {rule: why for rule, why in off.items() if state.shut.get(rule) != why}
    return [
        Record(at=now, kind="held", reason="product_off", why=why, partner=state.partner, rule=rule)
        for rule, why in new.items()
    ]


def _circumstances(state: PartnerState, seen: Polled, rules: RuleSet) -> object:
    """What a decision about any event also depends on: the rules, and what marks the partner's silences."""
    memory = seen.memory
    return rules, memory.after_gap_at, memory.reset_at, memory.restored_at, state.products_off


def _memories_for(state: PartnerState, rules: RuleSet, found: _SortedOut) -> Memories:
    """The memories of these events and of the rules that look at each."""
    pairs = ((event, rule.id) for event in found.looked_at for rule in found.only.get(event, rules.rules))
    return {pair: state.memories[pair] for pair in pairs if pair in state.memories}
