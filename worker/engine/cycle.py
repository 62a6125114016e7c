"""One pass for one partner: observe, decide, execute, settle.

The look and the decision are one step after the other; attempts and rounds of evidence run beside the next cycle, one
task per write, so that a slow answer delays no look. What a cycle decided is in the ledger before it is acted on.
A ledger that cannot be written stops everything that writes: memory stays as it was, and the next cycle tries again.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from worker.engine.decide import Decision, decide, edited_writes, reopened
from worker.engine.execute import Executor
from worker.engine.looks import Look, sendings_reach
from worker.engine.observe import Observer, Seen
from worker.engine.parts import Parts
from worker.engine.recording import Recorder, Sight
from worker.engine.settle import Settler
from worker.engine.state import PartnerState
from worker.model.commits import Commit, Move
from worker.model.errors import LedgerUnwritable, StateConflict
from worker.model.ids import EventId, PartnerId, RuleId
from worker.model.memory import PartnerMemory, RuleMemory
from worker.model.trail import Trail
from worker.model.writes import Write

WATCHED_AGAIN = timedelta(minutes=2)
"""At least this often the target of a write that is before a person is read by itself."""
SURGE_MAX = timedelta(hours=24)
"""The longest window a surge can look back over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleReport:
    """One canonical line per cycle."""

    partner: PartnerId
    events: int
    complete: bool
    fired: int
    open_writes: int
    took_ms: int
    denied: bool = False
    error: str | None = None


class Cycle:
    """Runs the cycles of one partner."""

    def __init__(self, parts: Parts) -> None:
        self._clock = parts.clock
        self._ledger = parts.ledger
        self._settings = parts.settings
        self._rules = parts.rules
        self._stopping = parts.stopping
        self._defect = parts.defect
        self._observer = Observer(parts)
        self._recorder = Recorder(parts)
        self._settler = Settler(parts)
        self._executor = Executor(parts, self._settler)

    def load(self, partner: PartnerId) -> PartnerState:
        """What the ledger remembers of the partner; rows found in ``sending`` become unknown."""
        read_up_to = self._ledger.last_seq()
        memories = {(memory.event, memory.rule): memory for memory in self._ledger.rule_memories(partner)}
        memory = self._ledger.partner_memory(partner) or PartnerMemory(partner=partner)
        kept = self._recorder.load(partner, memory)
        state = PartnerState(partner=partner, memory=memory, memories=memories, read_up_to=read_up_to, kept=kept)
        state.known = {event for event, _ in memories} | set(memory.gone)
        for write in self._ledger.open_writes(partner):
            if write.state == "sending":
                self._settler.found_sending(state, write)
        return state

    async def run(self, state: PartnerState) -> CycleReport:
        """One cycle. Never raises for the service or the ledger; says in the report what was wrong."""
        began = self._clock.monotonic()
        rules = self._rules.current
        seen = await self._observer.look(state, rules.rules)
        error: str | None = seen.why or None
        decision: Decision | None = None
        try:
            decision = self._decide(state, seen)
            writes = self._ledger.open_writes(state.partner)
            self._act(state, writes)
        except LedgerUnwritable as problem:
            error, writes = str(problem), ()
            state.last_error = error
        except StateConflict as problem:
            self._reload(state)
            error, writes = f"decided anew in the next cycle: {problem}", ()
        fired = 0 if decision is None else sum(1 for one in decision.commit.records if one.kind == "fired")
        return CycleReport(
            partner=state.partner,
            events=len(seen.observations),
            complete=seen.complete,
            fired=fired,
            open_writes=len(writes),
            took_ms=round((self._clock.monotonic() - began) * 1000),
            denied=seen.denied,
            error=error,
        )

    def _reload(self, state: PartnerState) -> None:
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
        state.memories = {**state.memories, **stored}

    async def drain(self, state: PartnerState) -> None:
        """Waits for the running attempts and rounds of evidence."""
        while state.running:
            await asyncio.gather(*state.running.values(), return_exceptions=True)

    def _decide(self, state: PartnerState, seen: Seen) -> Decision:
        self._take_up(state)
        rules = self._rules.current
        now = self._clock.now()
        before = state.memory
        remembered = replace(seen.memory, denied_at=before.denied_at, denied_until=before.denied_until)
        writes = self._ledger.open_writes(state.partner)
        edits = list(edited_writes(rules, writes, now))
        memories = _with_edits(state.memories, edits)
        now_is = {write.id: change.after for write, change in edits}
        standing = (now_is.get(write.id, write) for write in writes)
        look = Look(
            partner=state.partner,
            now=now,
            memory=remembered,
            observations=seen.observations,
            memories=memories,
            writes=tuple(write for write in standing if not write.final),
            sendings=self._ledger.first_sendings(state.partner, now - sendings_reach(rules.rules)),
            firings=self._ledger.firings(state.partner, now - SURGE_MAX),
            ended=lambda event, rule, episode: self._ledger.episode_writes(state.partner, event, rule, episode),
        )
        decision = decide(rules, look, self._settings.deciding)
        changed = {pair: memory for pair, memory in memories.items() if memory is not state.memories.get(pair)}
        stored = {**changed, **{(one.event, one.rule): one for one in decision.commit.memory}}
        commit = replace(
            decision.commit,
            records=(*seen.records, *decision.commit.records),
            memory=tuple(stored.values()),
            partner=remembered if seen.store else None,
            moves=_in_one(edits, decision.commit.moves),
        )
        sight = Sight(observations=seen.observations, memory=seen.memory, rules=rules, complete=seen.complete)
        self._store(state, commit, self._recorder.trail(state.kept, sight, replace(decision, commit=commit)))
        state.memories = {**memories, **decision.memories}
        state.memory = remembered if seen.store else replace(remembered, listed_at=before.listed_at)
        return replace(decision, commit=commit)

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

    def _act(self, state: PartnerState, writes: tuple[Write, ...]) -> None:
        """Starts what each open write needs now, unless its task of an earlier cycle still runs."""
        if self._stopping():
            return
        for write in writes:
            self._settler.glance(state, write)
            if write.state == "sending" and write.id not in state.running:
                self._settler.found_sending(state, write)
            elif write.id not in state.running and self._needs_tending(state, write):
                state.running[write.id] = asyncio.ensure_future(self._tend(state, write))

    def _needs_tending(self, state: PartnerState, write: Write) -> bool:
        """What waits for a person or for a brake is looked at less and less often; looks at its event still count."""
        if write.state in ("waiting", "sending"):
            return False
        rests = write.state in ("planned", "needs_human")
        return not (rests and state.resting(write, self._clock.monotonic()))

    async def _tend(self, state: PartnerState, write: Write) -> None:
        """One step of one write's life; what it cannot finish now, a later cycle goes on with."""
        try:
            if write.state == "planned":
                await self._executor.attempt(state, write)
                return
            then = await self._settler.settle(state, write)
            if write.state == "needs_human":
                interval_s = self._settings.interval.total_seconds()
                state.rest(write, self._clock.monotonic(), interval_s, WATCHED_AGAIN.total_seconds())
            if then == "send" and not self._stopping():
                await self._send_again(state, write)
        except (LedgerUnwritable, StateConflict) as problem:
            state.last_error = str(problem)
        except Exception as defect:  # noqa: BLE001 - a defect in one write must stop no other, and be seen
            state.last_error = f"write {write.id}: {defect!r}"
            self._defect(write, defect)
        finally:
            state.running.pop(write.id, None)

    async def _send_again(self, state: PartnerState, write: Write) -> None:
        current = self._ledger.write(write.id)
        if current is None or current.state != "unknown":
            return
        asked = (self._rules.current.get(rule) for rule in (current.rules or (current.key.rule,)))
        if not current.undo and not any(asked):
            self._settler.forget_rule(current)
            return
        await self._executor.attempt(state, current)


def _in_one(edits: list[tuple[Write, Move]], moves: tuple[Move, ...]) -> tuple[Move, ...]:
    """One move for each write, also where an edit and the decision both changed it."""
    found = {write.id: change for write, change in edits}
    for change in moves:
        earlier = found.get(change.before.id)
        found[change.before.id] = (
            change
            if earlier is None
            else replace(change, before=earlier.before, records=(*earlier.records, *change.records))
        )
    return tuple(found.values())


def _with_edits(
    memories: dict[tuple[EventId, RuleId], RuleMemory], edits: list[tuple[Write, Move]]
) -> dict[tuple[EventId, RuleId], RuleMemory]:
    """The memories of pairs whose unsent writes an edit cancelled: they may fire again."""
    result = dict(memories)
    for write, change in edits:
        pair = (write.key.event, write.key.rule)
        memory = result.get(pair)
        if memory is not None and change.after.reason == "rule_edited" and memory.episode == write.key.episode:
            result[pair] = reopened(memory)
    return result
