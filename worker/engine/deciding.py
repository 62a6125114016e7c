"""From what a look saw to what is stored: `decide` over the events that could be decided otherwise, in one commit.

The shell around the pure core. It collects what the core may know, leaves out the events that are calm, stores the
decision as one transaction with the records of what was seen, and only then takes it over into this process's memory.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime

from worker.engine.calm import horizon
from worker.engine.decide import Decision, decide
from worker.engine.due import Clocked, Glanced, clocked, next_due
from worker.engine.edits import Edited, edits_of, in_one, reopened_by
from worker.engine.looks import Look, firings_reach, sendings_reach
from worker.engine.observe import Seen
from worker.engine.parts import Parts
from worker.engine.products import shut
from worker.engine.recording import Recorder, Sight
from worker.engine.state import PartnerState
from worker.model.commits import Commit
from worker.model.errors import LedgerUnwritable
from worker.model.facts import Observation
from worker.model.ids import EventId, RuleId
from worker.model.memory import RuleMemory
from worker.model.records import Record
from worker.model.replacing import replace
from worker.model.rules import Rule, RuleSet
from worker.model.trail import Trail
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
        self._clocked: tuple[str, dict[RuleId, Clocked]] = ("", {})

    def decide(self, state: PartnerState, seen: Seen) -> Decision | None:
        """Decides and stores; None where nothing was learnt that could be decided on. Raises `LedgerUnwritable` and
        `StateConflict`; then this process's memory is as it was."""
        if seen.only is not None and not seen.only:
            return None
        self._take_up(state)
        rules, now, before = self._rules.current, self._clock.now(), state.memory
        seen = replace(seen, memory=replace(seen.memory, denied_at=before.denied_at, denied_until=before.denied_until))
        state.calm.only_under(_circumstances(state, seen, rules))
        if state.kept.rules is None:
            state.calm.stir_all()  # its trail is compared anew, of every event
        writes = self._ledger.open_writes(state.partner)
        stirred = state.calm.stirred(seen.in_sight if seen.only is None else seen.only & seen.in_sight, now)
        if seen.only is None:
            stirred = sorted({*stirred, *self._recorder.next_due(state.kept, seen.in_sight, len(rules.rules))})
        edits = list(edits_of(rules, writes, state.memories, now))
        reopen = reopened_by(edits, state.memories)
        look = self._look(state, seen, stirred, writes, edits, reopen)
        decision = decide(rules, look, self._settings.deciding)
        off = shut((rule for rule in rules.rules if rule.looks_at(state.partner)), state.products_off)
        commit = replace(
            decision.commit,
            records=(*seen.records, *_shut_records(state, off, now), *decision.commit.records),
            memory=tuple({**reopen, **{(one.event, one.rule): one for one in decision.commit.memory}}.values()),
            partner=seen.memory if seen.store else None,
            moves=in_one(edits, decision.commit.moves),
        )
        decision = replace(decision, commit=commit)
        sight = Sight(observations=look.observations, memory=seen.memory, rules=rules, complete=seen.complete)
        self._store(state, commit, self._recorder.trail(state.kept, sight, decision))
        state.memories.update(reopen)
        state.memories.update(decision.memories)
        state.frozen_under = _frozen_under(state, rules)
        state.shut = off
        state.memory = seen.memory if seen.store else replace(seen.memory, listed_at=before.listed_at)
        self._keep_calm(state, look, decision, {write.key.event for write in writes})
        self._decided(decision)
        return decision

    def reload(self, state: PartnerState) -> None:
        """Memory as it is stored: what this process believed was decided on something that is no longer so."""
        with suppress(LedgerUnwritable):
            self._read_memories(state)

    def _take_up(self, state: PartnerState) -> None:
        """Memory that a person has reopened in the ledger (`again`) since the last look."""
        newest = self._ledger.last_seq()
        if newest > state.read_up_to and self._ledger.reopened(state.partner, state.read_up_to):
            self._read_memories(state)
        state.read_up_to = newest

    def _read_memories(self, state: PartnerState) -> None:
        stored = {(memory.event, memory.rule): memory for memory in self._ledger.rule_memories(state.partner)}
        state.memories.update(stored)
        state.calm.stir_all()

    def _store(self, state: PartnerState, commit: Commit, trail: Trail | None) -> None:
        """The decision and its trail in one transaction; where the ledger cannot take both, the decision alone."""
        if trail is not None:
            try:
                self._ledger.apply(replace(commit, trail=trail))
                self._recorder.stored(state.kept, trail)
            except LedgerUnwritable:
                self._recorder.rest(state.kept, commit.at)
            else:
                return
        if not commit.empty:
            self._ledger.apply(commit)

    def _look(
        self,
        state: PartnerState,
        seen: Seen,
        stirred: list[EventId],
        writes: tuple[Write, ...],
        edits: list[Edited],
        reopen: Memories,
    ) -> Look:
        rules, now = self._rules.current, self._clock.now()
        now_is = {one.write.id: one.change.after for one in edits}
        surges = firings_reach(rules.rules, self._settings.deciding)
        standing = (now_is.get(write.id, write) for write in writes)
        return Look(
            partner=state.partner,
            now=now,
            memory=seen.memory,
            observations={event: state.observation(event) for event in stirred},
            memories={**_memories_for(state, rules, stirred), **reopen},
            writes=tuple(write for write in standing if not write.final),
            sendings=self._ledger.first_sendings(state.partner, now - sendings_reach(rules.rules)) if stirred else {},
            firings=self._ledger.firings(state.partner, now - surges) if stirred else (),
            ended=lambda event, rule, episode: self._ledger.episode_writes(state.partner, event, rule, episode),
        )

    def _keep_calm(self, state: PartnerState, look: Look, decision: Decision, busy: Collection[EventId]) -> None:
        """Marks the events for which this look changed nothing."""
        commit = decision.commit
        lively = {
            *busy,
            *(memory.event for memory in commit.memory),
            *(plan.key.event for plan in commit.plans),
            *(change.after.key.event for change in commit.moves),
        }
        rules = [rule for rule in self._rules.current.rules if rule.enabled]
        for event, observation in look.observations.items():
            if event not in lively:
                state.calm.keep(event, self._due(rules, observation, state, look))

    def _due(self, rules: list[Rule], observation: Observation, state: PartnerState, look: Look) -> datetime:
        clocks = self._clocks(self._rules.current)
        first = horizon(observation.event, look.now)
        for rule in rules:
            pair = (observation.event, rule.id)
            glanced = Glanced(memory=state.memories.get(pair), sendings=look.sendings.get(pair, ()))
            first = next_due(rule, clocks[rule.id], observation, glanced, (look.now, first))
        return first

    def _clocks(self, rules: RuleSet) -> dict[RuleId, Clocked]:
        """How each rule depends on the clock, found out once for a rule set."""
        known, clocks = self._clocked
        if known != rules.hash or not clocks:
            clocks = {rule.id: clocked(rule) for rule in rules.rules}
            self._clocked = (rules.hash, clocks)
        return clocks


def _shut_records(state: PartnerState, off: Mapping[RuleId, str], now: datetime) -> list[Record]:
    """What is said once of each rule that a product keeps from looking."""
    new = {rule: why for rule, why in off.items() if state.shut.get(rule) != why}
    return [
        Record(at=now, kind="held", reason="product_off", why=why, partner=state.partner, rule=rule)
        for rule, why in new.items()
    ]


def _circumstances(state: PartnerState, seen: Seen, rules: RuleSet) -> object:
    """What a decision about any event also depends on: the rules, and what marks the partner's silences."""
    memory = seen.memory
    return rules, memory.after_gap_at, memory.reset_at, memory.restored_at, state.products_off


def _frozen_under(state: PartnerState, rules: RuleSet) -> object:
    return rules, state.products_off


def _memories_for(state: PartnerState, rules: RuleSet, events: list[EventId]) -> Memories:
    """The memories of these events; and all of those that a change of rules or of the product now freezes."""
    memories: Memories = {}
    if state.frozen_under != _frozen_under(state, rules):
        off = shut(rules.rules, state.products_off)
        looking = {rule.id for rule in rules.rules if rule.looks_at(state.partner)} - off.keys()
        memories = {pair: memory for pair, memory in state.memories.items() if pair[1] not in looking}
    for event in events:
        for rule in rules.rules:
            pair = (event, rule.id)
            memory = state.memories.get(pair)
            if memory is not None:
                memories[pair] = memory
    return memories
