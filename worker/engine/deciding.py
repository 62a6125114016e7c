"""From news to what is stored: `decide` over the events that the news is of, in one commit.

The shell around the pure core. It collects what the core may know, stores the decision as one transaction with the
records of what was seen, and only then takes it over into this process's memory.
"""

from collections import ChainMap
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from worker.engine.decide import Decision, decide
from worker.engine.due import Screen
from worker.engine.looks import Look, asks_sendings, firings_reach, sendings_reach, shut, under
from worker.engine.observe import News
from worker.engine.planning import asked_anew, edits_of, in_one, reopened_by
from worker.engine.ports import Parts
from worker.engine.state import PartnerState
from worker.model.commits import OF_PARTNER, PartnerMemory, Record, RuleMemory
from worker.model.errors import LedgerUnwritable
from worker.model.facts import EventId, RuleId
from worker.model.rules import Rule, RuleSet
from worker.model.writes import Write

OURS = ("denied_at", "denied_until", "rules", "away", "back")
"""What of a partner's memory is not the poll's to say."""


class Decider:
    """Decides for one partner after the other. One instance serves all; what differs is in the state handed in."""

    def __init__(self, parts: Parts) -> None:
        self._ledger = parts.ledger
        self._settings = parts.settings
        self._rules = parts.rules
        self._decided = parts.decided
        self._screens: dict[tuple[str, ...], Screen] = {}
        self._screened: RuleSet | None = None

    def decide(self, state: PartnerState, news: News) -> tuple[Decision, tuple[Write, ...]]:
        """Decides and stores. The open writes after it. Raises `LedgerUnwritable` and `StateConflict`; then this
        process's memory is as it was."""
        self._take_up(state)
        rules, now, before = self._rules.current, news.at, state.memory
        looking = [rule for rule in rules.rules if rule.looks_at(state.partner)]
        off = shut(looking, state.products_off)
        screen = self._screen(rules, [rule for rule in looking if rule.id not in off])
        ours = replace(news.memory, **{name: getattr(before, name) for name in OURS})
        memory = under(ours, [rule.id for rule in screen.rules], now)
        writes = self._ledger.open_writes(state.partner)
        edits = asked_anew(memory, edits_of(rules, writes, state.memories, now), writes, now)
        reopen = reopened_by(edits, state.memories)
        edited = {one.write.id: one.change.after for one in edits}
        standing = tuple(one for write in writes if not (one := edited.get(write.id, write)).final)
        look = self._look(state, news, memory, screen, standing, reopen)
        decision = decide(rules, look, self._settings.deciding)
        store = news.store or memory is not ours
        commit = replace(
            decision.commit,
            records=(*news.records, *_shut_records(state, off, now), *decision.commit.records),
            memory=tuple({**reopen, **{(one.event, one.rule): one for one in decision.commit.memory}}.values()),
            partner=memory if store else None,
            moves=in_one(edits, decision.commit.moves),
        )
        decision = replace(decision, commit=commit)
        state.stored.under(rules, state.known_facts())
        state.stored.looked(memory, now, complete=news.listing.complete)
        events = {*news.events, OF_PARTNER} if news.more else None
        state.stored.commit(self._ledger, commit, events, decision.looked_at)
        self._decided(decision)
        _take(state, commit.memory)
        state.shut, state.missed = off, decision.missed
        state.memory = memory if store else replace(memory, listed_at=before.listed_at)
        self._note_due(state, look, decision, screen, writes)
        changed = commit.plans or commit.moves
        return decision, self._ledger.open_writes(state.partner) if changed else writes

    def reload(self, state: PartnerState) -> None:
        """Memory as it is stored: what this process believed was decided on something that is no longer so."""
        with suppress(LedgerUnwritable):
            self._read_memories(state)

    def _take_up(self, state: PartnerState) -> None:
        """Memory that a person has reopened in the ledger (`again`) since the last look, and what a commit may have
        stored that was reported as failed."""
        newest = self._ledger.last_seq()
        reopened = newest > state.read_up_to and self._ledger.reopened(state.partner, state.read_up_to)
        if reopened or state.stored.trial is not None:
            self._read_memories(state)
        state.read_up_to = newest

    def _read_memories(self, state: PartnerState) -> None:
        _take(state, self._ledger.all_rule_memories(state.partner))
        state.due.clear()

    def _look(
        self,
        state: PartnerState,
        news: News,
        memory: PartnerMemory,
        screen: Screen,
        writes: tuple[Write, ...],
        reopen: dict[tuple[EventId, RuleId], RuleMemory],
    ) -> Look:
        rules, now, partner = screen.rules, news.at, state.partner
        memories = ChainMap(reopen, state.memories) if reopen else state.memories
        observations = {event: state.observation(event) for event in news.events}
        surges, reach = firings_reach(rules, self._settings.deciding), sendings_reach(rules)
        asked = bool(observations)
        return Look(
            partner=partner,
            now=now,
            memory=memory,
            observations=observations,
            memories=memories,
            looked_at=state.stored.looked_at,
            writes=writes,
            sendings=self._ledger.first_sendings(partner, now - reach) if asked and asks_sendings(rules) else {},
            firings=self._ledger.firings(partner, now - surges) if asked else (),
            more=news.more,
            missed=state.missed,
            only={event: screen.concerned(seen, memories) for event, seen in observations.items()},
            ended=lambda event, rule, episode: self._ledger.episode_writes(partner, event, rule, episode),
            on_target=lambda event, target: self._ledger.target_writes(partner, event, target),
            of_rule=lambda event, rule: self._ledger.writes(event=event, partner=partner, rule=rule),
        )

    def _note_due(
        self, state: PartnerState, look: Look, decision: Decision, screen: Screen, writes: Iterable[Write]
    ) -> None:
        """Notes when the events are due again: at once where this look has changed anything, or a write is open."""
        commit = decision.commit
        lively = {
            *(write.key.event for write in writes),
            *(memory.event for memory in commit.memory),
            *(plan.key.event for plan in commit.plans),
            *(change.after.key.event for change in commit.moves),
        }
        for event, observation in look.observations.items():
            if event in lively:
                state.due.pop(event, None)
            else:
                state.due[event] = screen.due(observation, state.memories, look.sendings, look.now)

    def _screen(self, rules: RuleSet, looking: list[Rule]) -> Screen:
        """Partners with the same rules share one."""
        if self._screened is not rules:
            self._screened, self._screens = rules, {}
        ids = tuple(rule.id for rule in looking)
        if ids not in self._screens:
            self._screens[ids] = Screen(looking, self._settings.looked_at_again)
        return self._screens[ids]


def _take(state: PartnerState, memories: Iterable[RuleMemory]) -> None:
    state.memories.update({(one.event, one.rule): one for one in memories})


def _shut_records(state: PartnerState, off: Mapping[RuleId, str], now: datetime) -> list[Record]:
    """What is said once of each rule that a product keeps from looking."""
    new = {rule: why for rule, why in off.items() if state.shut.get(rule) != why}
    return [
        Record(at=now, kind="held", reason="product_off", why=why, partner=state.partner, rule=rule)
        for rule, why in new.items()
    ]
