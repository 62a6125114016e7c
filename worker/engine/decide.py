"""`decide`: from rules, memory and what was seen to the new memory and the writes to plan. Pure.

One pass over one partner's events at one moment. It glances at every (rule, event), lets standing wishes and priorities
sort out the candidates, counts surges over all of them, and only then plans. The daemon, `plan`, the rule tests and the
simulation call this very function; what it gives is recorded in one transaction or not at all.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from worker.engine.changes import extra_facts, glance_at_change
from worker.engine.conflicts import judge_conflicts, order_of, standing_wishes
from worker.engine.episodes import glance_at_condition
from worker.engine.looks import Candidate, Glance, Glimpse, Look, Settings, silence_before
from worker.engine.overlay import overlaid
from worker.engine.planning import Planner, strictest
from worker.model.commits import Brake, Commit, Move
from worker.model.ids import EventId, RuleId
from worker.model.memory import RuleMemory
from worker.model.records import Record
from worker.model.rules import Judgement, Rule, RuleSet, Scope, Truth
from worker.model.writes import Write
from worker.rules.evaluate import keys_for
from worker.writes.states import move


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one pass gives. ``commit`` holds what must be stored; ``memories`` the memory of every pair looked at, of
    which ``commit.memory`` is the part worth storing; ``judged`` what each condition was, for explaining."""

    commit: Commit
    memories: Mapping[tuple[EventId, RuleId], RuleMemory]
    judged: Mapping[tuple[EventId, RuleId], Judgement]


def decide(rules: RuleSet, look: Look, settings: Settings) -> Decision:
    """Judges every rule for every observed event. Raises nothing for bad facts: those are unknown."""
    active = [rule for rule in rules.rules if rule.enabled and _for_partner(rule, look)]
    writes: dict[EventId, list[Write]] = {}
    for write in look.writes:
        writes.setdefault(write.key.event, []).append(write)
    run = _Pass(look=look, settings=settings)
    winners: list[Candidate] = []
    for event in look.observations:
        winners.extend(run.event(event, active, tuple(writes.get(event, ()))))
    planner = Planner(look=look, settings=settings)
    planner.plan(sorted(winners, key=lambda one: (one.event, order_of(one))))
    for candidate in winners:
        run.remember(candidate.glimpse, candidate.fired)
    return run.decision(planner)


def _for_partner(rule: Rule, look: Look) -> bool:
    return rule.partners is None or look.partner in rule.partners


class _Pass:
    """The state of one pass: what was remembered, held and ended so far."""

    def __init__(self, *, look: Look, settings: Settings) -> None:
        self._look = look
        self._settings = settings
        self._memories: dict[tuple[EventId, RuleId], RuleMemory] = {}
        self._stored: dict[tuple[EventId, RuleId], RuleMemory] = {}
        self._judged: dict[tuple[EventId, RuleId], Judgement] = {}
        self._records: list[Record] = []
        self._moves: dict[int, Move] = {}

    def event(self, event: EventId, rules: list[Rule], writes: tuple[Write, ...]) -> list[Candidate]:
        """Glances at one event with every rule; the candidates that may fire."""
        candidates: list[Candidate] = []
        for rule in rules:
            glimpse = self._glimpse(rule, event, tuple(write for write in writes if write.key.rule == rule.id))
            glance = glance_at_change(glimpse) if rule.on_change else glance_at_condition(glimpse)
            self._take(glimpse, glance)
            if glance.candidate is not None:
                candidates.append(glance.candidate)
        self._spare_shared(writes)
        if not candidates:
            return []
        memories = {rule.id: memory for rule in rules if (memory := self._memories.get((event, rule.id)))}
        winners, losers = judge_conflicts(candidates, standing_wishes(rules, memories, writes))
        for candidate, brake in losers:
            self._hold(candidate.glimpse, candidate.dropped, brake)
        return [candidate for candidate in winners if self._goes(candidate)]

    def remember(self, glimpse: Glimpse, memory: RuleMemory) -> None:
        """Keeps the memory; it is stored if it says more than when the rule was last looked at."""
        key = (memory.event, memory.rule)
        self._memories[key] = memory
        known = self._look.memories.get(key)
        quiet = known is not None and known.looked_at is not None and glimpse.after is None
        if known is not None and quiet and replace(memory, looked_at=known.looked_at) == known:
            return
        if known is None and memory.looked_at is None and not memory.baselines and not memory.open:
            return
        self._stored[key] = memory

    def decision(self, planner: Planner) -> Decision:
        """Everything, as one commit."""
        moves = {**self._moves}
        for one in planner.moves:
            moves.setdefault(int(one.before.id), one)
        commit = Commit(
            at=self._look.now,
            records=(*self._records, *planner.records),
            memory=tuple(self._stored.values()),
            moves=tuple(moves.values()),
            plans=tuple(planner.plans),
        )
        return Decision(commit=commit, memories=self._memories, judged=self._judged)

    def _glimpse(self, rule: Rule, event: EventId, writes: tuple[Write, ...]) -> Glimpse:
        look = self._look
        known = look.memories.get((event, rule.id))
        memory = known or RuleMemory(partner=look.partner, event=event, rule=rule.id)
        memory = replace(memory, when_hash=rule.when_hash)
        seen = look.observations[event]
        running = tuple(write for write in writes if write.key.episode == memory.episode)
        observation = overlaid(seen, running, rule) if running else seen
        scope = Scope(observation=observation, keys=keys_for(rule, observation, look.now), now=look.now)
        glimpse = Glimpse(
            rule=rule,
            memory=memory,
            scope=scope,
            judgement=Judgement(truth=Truth.TRUE, why="no condition"),
            now=look.now,
            settings=self._settings,
            writes=writes,
            sendings=look.sendings.get((event, rule.id), ()),
            after=silence_before(look.memory, known, event),
            episode_writes=lambda episode: look.ended(event, rule.id, episode),
        )
        if rule.on_change:
            scope = replace(scope, extra=extra_facts(memory, glimpse))
        judgement = rule.when.judge(scope) if rule.when is not None else glimpse.judgement
        self._judged[(event, rule.id)] = judgement
        return replace(glimpse, scope=scope, judgement=judgement)

    def _take(self, glimpse: Glimpse, glance: Glance) -> None:
        for end in glance.ends:
            step = move(end.write, "skipped", at=self._look.now, reason=end.reason, why=end.why)
            self._moves[int(end.write.id)] = step
        if glance.held is not None:
            self._hold(glimpse, glance.memory, glance.held)
        else:
            self.remember(glimpse, glance.memory)

    def _spare_shared(self, writes: tuple[Write, ...]) -> None:
        """A write that stands for the wishes of several rules lives on while the episode of any of them is open."""
        for write in writes:
            others = (self._memories.get((write.key.event, rule)) for rule in write.rules if rule != write.key.rule)
            if any(memory is not None and memory.open and memory.fired for memory in others):
                self._moves.pop(int(write.id), None)

    def _goes(self, candidate: Candidate) -> bool:
        """After a silence, ``reobserve`` only remembers what would have fired."""
        if candidate.forced != "gap" or self._settings.gap_then != "reobserve":
            return True
        why = "first look after a silence: remembered, not acted on"
        self._hold(candidate.glimpse, candidate.dropped, Brake(reason="gap", why=why))
        return False

    def _hold(self, glimpse: Glimpse, memory: RuleMemory, brake: Brake) -> None:
        """Remembers what holds the firing; a record is made only when the reason changes."""
        if memory.held != brake.reason:
            self._records.append(_held_record(glimpse, memory, brake, self._look.now))
        self.remember(glimpse, replace(memory, held=brake.reason))


def _held_record(glimpse: Glimpse, memory: RuleMemory, brake: Brake, now: datetime) -> Record:
    until = f" until {brake.until:%Y-%m-%dT%H:%M:%SZ}" if brake.until is not None else ""
    return Record(
        at=now,
        kind="held",
        reason=brake.reason,
        why=brake.why + until,
        partner=memory.partner,
        event=memory.event,
        rule=glimpse.rule.id,
        episode=memory.episode or None,
    )


def edited_writes(rules: RuleSet, writes: tuple[Write, ...], now: datetime) -> Iterator[tuple[Write, Move]]:
    """Unsent writes whose rule is gone or whose ``do`` or ``with`` was edited: they are cancelled.

    Writes in flight or unsettled are left alone: they are settled by reading.
    """
    for write in writes:
        if write.state not in ("planned", "waiting"):
            continue
        rule = rules.get(write.key.rule)
        if rule is None:
            why = f"rule {write.key.rule} was removed before this was sent"
            yield write, move(write, "cancelled", at=now, reason="rule_gone", why=why)
        elif rule.enabled and rule.do_hash != write.intent.do_hash:
            why = f"rule {rule.id} was edited before this was sent; it is planned anew"
            yield write, move(write, "cancelled", at=now, reason="rule_edited", why=why)


def reopened(memory: RuleMemory) -> RuleMemory:
    """The memory of a pair whose unsent writes were cancelled by an edit: the next true look is a new episode, and a
    change is pending again."""
    if memory.before_firing:
        return replace(memory, open=False, fired=False, baselines=dict(memory.before_firing), before_firing={})
    return replace(memory, open=False, fired=False, true_since=memory.true_since)


__all__ = ["Decision", "decide", "edited_writes", "reopened", "strictest"]
