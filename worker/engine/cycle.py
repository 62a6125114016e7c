"""One pass for one partner: observe, decide, execute, settle.

The look and the decision are one step after the other; attempts and rounds of evidence run beside the next cycle, one
task per write, so that a slow answer delays no look. What a cycle decided is in the ledger before it is acted on.
A ledger that cannot be written stops everything that writes: memory stays as it was, and the next cycle tries again.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from worker.engine.decide import Decision
from worker.engine.deciding import Decider
from worker.engine.execute import Executor
from worker.engine.observe import Observer, Polled, Polling
from worker.engine.parts import Parts
from worker.engine.ports import CycleReport
from worker.engine.recording import Recorder
from worker.engine.settle import Settler
from worker.engine.state import PartnerState
from worker.model.commits import PartnerMemory
from worker.model.errors import LedgerUnwritable, StateConflict
from worker.model.facts import EventId, PartnerId, RuleId
from worker.model.rules import Truth
from worker.model.writes import Write

WATCHED_AGAIN = timedelta(minutes=2)
"""At least this often the target of a write that is before a person is read by itself."""
BREATH = timedelta(milliseconds=20)
"""How long everything else has between two portions of a long look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What one pass of a cycle came to. ``left``: the cycle is over before its end, and the next begins anew."""

    fired: int = 0
    open_writes: int = 0
    error: str | None = None
    left: bool = False
    judged: Counter[tuple[RuleId, Truth]] = field(default_factory=Counter)

    def and_then(self, later: "Done | None") -> "Done":
        """This pass and a later one as one; None is a pass that had nothing to decide on."""
        if later is None:
            return self
        error, left = self.error or later.error, self.left or later.left
        judged = self.judged + later.judged
        return replace(later, fired=self.fired + later.fired, error=error, left=left, judged=judged)

    @property
    def goes_on(self) -> bool:
        """Whether the cycle has its next step."""
        return self.error is None and not self.left


class Cycle:
    """Runs the cycles of one partner."""

    def __init__(self, parts: Parts, reader: Polling | None = None) -> None:
        self._clock = parts.clock
        self._ledger = parts.ledger
        self._settings = parts.settings
        self._rules = parts.rules
        self._stopping = parts.stopping
        self._defect = parts.defect
        self._observer: Polling = reader or Observer(parts)
        self._recorder = Recorder(parts)
        self._decider = Decider(parts, self._recorder)
        self._settler = Settler(parts, self._recorder)
        self._executor = Executor(parts, self._settler)

    def load(self, partner: PartnerId) -> PartnerState:
        """What the ledger remembers of the partner; rows found in ``sending`` become unknown, in the first cycle where
        another process holds the ledger now."""
        read_up_to = self._ledger.last_seq()
        memories = {(one.event, one.rule): one for one in self._ledger.all_rule_memories(partner)}
        memory = self._ledger.partner_memory(partner) or PartnerMemory(partner=partner)
        stored = self._recorder.load(partner, memory)
        state = PartnerState(partner=partner, memory=memory, memories=memories, read_up_to=read_up_to, stored=stored)
        state.known = {*stored.looked_at, *(event for event, _ in memories), *memory.gone}
        for write in self._ledger.open_writes(partner):
            if write.state == "sending":
                with suppress(LedgerUnwritable):
                    self._settler.found_sending(state, write)
        return state

    async def run(self, state: PartnerState) -> CycleReport:
        """One cycle. Never raises for the service or the ledger; says in the report what was wrong.

        What the list alone shows is decided and acted on at once, page by page where it is long; the facts that cost a
        request each come after it and between.
        """
        began = self._clock.monotonic()
        done = Done()

        def tell(part: Polled) -> int:
            nonlocal done
            done = done.and_then(self._pass(state, part))
            return done.fired

        seen = await self._observer.events(state, tell)
        done = done.and_then(await self._whole(state, seen, began))
        if done.goes_on:
            done = done.and_then(await self._whole(state, await self._observer.facts(state, seen), began))
        took_s = self._clock.monotonic() - began
        if seen.complete:
            state.look_s = took_s
        return CycleReport(
            partner=state.partner,
            events=len(seen.in_sight),
            complete=seen.complete,
            fired=done.fired,
            open_writes=done.open_writes,
            took_ms=round(took_s * 1000),
            denied=seen.denied,
            error=done.error or seen.why or None,
            judged=done.judged,
        )

    async def _whole(self, state: PartnerState, seen: Polled, began: float) -> Done | None:
        """Decides on all that a look has seen. Where that is much to judge, what fires nothing is decided and stored in
        portions, and everything else that this process does goes on between them; what fires is decided at the end, all
        of it at once, because a surge is counted over a whole look. A look that is left in between has lost nothing:
        what it has not decided on is looked at by the next."""
        try:
            portions = self._decider.portions(state, seen) if seen.only is None else []
        except LedgerUnwritable as problem:
            return self._failed(state, problem)
        if len(portions) < 2:
            return self._pass(state, seen)
        rules, complete, done = self._rules.current, seen.complete, Done()
        together = set[EventId]()
        for portion in portions:
            try:
                decision, others = self._decider.decide_apart(state, seen, portion)
                writes = self._ledger.open_writes(state.partner)
                self._act(state, writes)
            except (LedgerUnwritable, StateConflict) as problem:
                return done.and_then(self._failed(state, problem))
            done = done.and_then(Done(open_writes=len(writes), judged=_judged(decision)))
            together |= others
            seen = replace(seen, records=(), store=False, complete=False)
            if complete:
                state.look_s = max(state.look_s, self._clock.monotonic() - began)
            await self._clock.sleep(BREATH.total_seconds())
            if self._stopping() or self._rules.current is not rules:
                return replace(done, left=True)
        return done.and_then(self._pass(state, replace(seen, only=frozenset(together))))

    def _pass(self, state: PartnerState, seen: Polled) -> Done | None:
        """Decides on what was seen, and starts what follows from it; None where nothing was learnt."""
        try:
            decision = self._decider.decide(state, seen)
            if decision is None:
                return None
            writes = self._ledger.open_writes(state.partner)
            self._act(state, writes)
        except (LedgerUnwritable, StateConflict) as problem:
            return self._failed(state, problem)
        fired = sum(1 for one in decision.commit.records if one.kind == "fired")
        return Done(fired=fired, open_writes=len(writes), judged=_judged(decision))

    def _failed(self, state: PartnerState, problem: LedgerUnwritable | StateConflict) -> Done:
        """Nothing of a decision is known to be stored."""
        if isinstance(problem, StateConflict):
            self._decider.reload(state)
            return Done(error=f"decided anew in the next cycle: {problem}")
        state.last_error = str(problem)
        self._glance_all(state)
        return Done(error=str(problem))

    def _glance_all(self, state: PartnerState) -> None:
        """What this look shows of unsettled writes is seen also while nothing can be stored, and stored later."""
        with suppress(LedgerUnwritable):
            for write in self._ledger.open_writes(state.partner):
                with suppress(LedgerUnwritable):
                    self._settler.glance(state, (write,))

    async def drain(self, state: PartnerState) -> None:
        """Waits for the running attempts and rounds of evidence."""
        while state.running:
            await asyncio.gather(*state.running.values(), return_exceptions=True)

    def _act(self, state: PartnerState, writes: tuple[Write, ...]) -> None:
        """Starts what each open write needs now, unless its task of an earlier cycle still runs."""
        if self._stopping():
            return
        state.keep_only({write.id for write in writes})
        self._settler.glance(state, writes)
        for write in writes:
            if write.state == "sending" and write.id not in state.running:
                self._settler.found_sending(state, write)
            elif write.id not in state.running and self._needs_tending(state, write):
                self.tend(state, write)

    def tend(self, state: PartnerState, write: Write) -> None:
        """Starts the next step of this write's life, beside everything else."""
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
        await self._executor.attempt(state, current)


def _judged(decision: Decision) -> Counter[tuple[RuleId, Truth]]:
    """How many conditions were evaluated, by rule and by what they were."""
    return Counter((rule, judgement.truth) for (_, rule), judgement in decision.judged.items())
