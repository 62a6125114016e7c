"""One pass for one partner: poll, decide, act.

What a poll shows is decided on piece by piece, and is in the ledger before it is acted on. Attempts and rounds of
evidence run beside the next poll, one task per write, so that a slow answer delays no poll. A ledger that cannot be
written stops everything that writes: memory stays as it was, and the next cycle tries again.
"""

import asyncio
from collections import Counter
from contextlib import suppress

from worker.engine.deciding import Decider
from worker.engine.execute import Executor
from worker.engine.observe import Polling, Reader
from worker.engine.ports import CycleReport, Parts, Stage
from worker.engine.settle import Settler
from worker.engine.state import PartnerState, Stored
from worker.model.commits import PartnerMemory
from worker.model.errors import LedgerUnwritable, StateConflict, WorkerError
from worker.model.facts import PartnerId, RuleId
from worker.model.rules import Truth
from worker.model.writes import Write


class Cycle(Stage):
    """Runs a cycle of a partner. One serves all partners, whose cycles may overlap."""

    def __init__(self, parts: Parts, reader: Polling | None = None) -> None:
        super().__init__(parts)
        self._reader: Polling = reader or Reader(parts)
        self._decider = Decider(parts)
        self._settler = Settler(parts)
        self._executor = Executor(parts, self._settler)

    def load(self, partner: PartnerId) -> PartnerState:
        """What the ledger remembers of the partner; rows found in ``sending`` become unknown, or do in the first cycle,
        if another process holds the ledger now."""
        read_up_to = self._ledger.last_seq(partner)
        memories = {(one.event, one.rule): one for one in self._ledger.all_rule_memories(partner)}
        memory = self._ledger.partner_memory(partner) or PartnerMemory(partner=partner)
        stored = Stored(partner=partner, keep=self._settings.observations_kept, listed_at=memory.listed_at)
        stored.load(self._ledger.observed(partner))
        state = PartnerState(partner=partner, memory=memory, memories=memories, read_up_to=read_up_to, stored=stored)
        state.known = {*stored.looked_at, *(event for event, _ in memories), *memory.gone}
        for write in self._ledger.open_writes(partner):
            if write.state == "sending":
                with suppress(LedgerUnwritable):
                    self._settler.found_sending(state, write)
        return state

    async def run(self, state: PartnerState) -> CycleReport:
        """One cycle. Never raises for the service or the ledger; says in the report what was wrong."""
        began, fired, open_writes, ok_before = self._clock.monotonic(), 0, 0, state.last_ok_at
        judged, news, error, conflict = Counter[tuple[RuleId, Truth]](), None, None, False
        try:
            async for news in self._reader.poll(state):
                decision, writes = self._decider.decide(state, news)
                if not news.more:
                    self._act(state, writes)
                fired += sum(1 for one in decision.commit.records if one.kind == "fired")
                judged.update((rule, judgement.truth) for (_, rule), judgement in decision.judged.items())
                open_writes = len(writes)
        except (LedgerUnwritable, StateConflict) as problem:
            error = self._failed(state, problem)
            if isinstance(problem, StateConflict):  # nothing was decided: again and again so, it is an alarm
                state.last_ok_at, conflict = ok_before, True
        complete = news is not None and news.listing.complete and not conflict
        took_s = self._clock.monotonic() - began
        if complete:
            state.poll_s = took_s
        return CycleReport(
            partner=state.partner,
            events=news.in_sight if news is not None else 0,
            complete=complete,
            fired=fired,
            open_writes=open_writes,
            took_ms=round(took_s * 1000),
            denied=news is not None and news.listing.code == "denied",
            error=error or (news and news.listing.why) or (state.last_error if state.undecided else None) or None,
            judged=judged,
        )

    def _failed(self, state: PartnerState, problem: LedgerUnwritable | StateConflict) -> str:
        """Where memory was not what the decision rested on, it is read anew. Where the ledger cannot be written, what
        the poll shows of unsettled writes is kept, and stored later."""
        if isinstance(problem, StateConflict):
            self._decider.reload(state)
            state.last_error = f"decided anew in the next cycle: {problem}"
            return state.last_error
        state.last_error = str(problem)
        with suppress(LedgerUnwritable):
            for write in self._ledger.open_writes(state.partner):
                with suppress(LedgerUnwritable):
                    self._settler.confirm_seen(state, (write,))
        return str(problem)

    async def drain(self, state: PartnerState) -> None:
        """Waits for the running attempts and rounds of evidence."""
        while state.running:
            await asyncio.gather(*state.running.values(), return_exceptions=True)

    def _act(self, state: PartnerState, writes: tuple[Write, ...]) -> None:
        """Starts what each open write needs now, unless its task of an earlier cycle still runs."""
        if self._stopping():
            return
        state.keep_only({write.id for write in writes})
        state.waited = {write.key.event for write in writes if write.over}
        for write in writes:
            try:
                self._settler.confirm_seen(state, (write,))
                if write.state == "sending" and write.id not in state.running:
                    self._settler.found_sending(state, write)
                elif write.id not in state.running and self._needs_tending(state, write):
                    self.tend(state, write)
            except WorkerError:
                raise
            except Exception as defect:  # noqa: BLE001 - as in `_tend`
                self._broke(state, write, defect)

    def _broke(self, state: PartnerState, write: Write, defect: Exception) -> None:
        state.last_error = self._scrubbed(f"write {write.id}: {defect!r}")
        self._defect({"write": int(write.id), "state": write.state}, defect)

    def _needs_tending(self, state: PartnerState, write: Write) -> bool:
        """What is held, or needs an operator, is tended less and less often; polls of its event still count."""
        rests = write.state in ("planned", "needs_human") and state.resting(write, self._clock.monotonic())
        return write.state not in ("waiting", "sending") and not rests

    def tend(self, state: PartnerState, write: Write) -> None:
        """Starts the next step of this write's life, beside everything else."""
        state.running[write.id] = asyncio.ensure_future(self._tend(state, write))

    async def _tend(self, state: PartnerState, write: Write) -> None:
        """One step of one write's life; what it cannot finish now, a later cycle goes on with."""
        try:
            if write.state == "planned":
                await self._executor.attempt(state, write)
            elif await self._settler.settle(state, write) == "send" and not self._stopping():
                current = self._ledger.write(write.id)
                if current is not None and current.state == "unknown":
                    await self._executor.attempt(state, current)
        except (LedgerUnwritable, StateConflict) as problem:
            state.last_error = str(problem)
        except Exception as defect:  # noqa: BLE001 - a defect in one write must stop no other, and be seen
            self._broke(state, write, defect)
        finally:
            state.running.pop(write.id, None)
