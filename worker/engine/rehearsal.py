"""What each rule would do now: the daemon's own cycle, up to the send, on a ledger that is thrown away.

There is no second implementation of anything: the cycle looks, decides, reads its pre-flights and asks its guards; only
the send never answers. What a rehearsal tells is read off the draft ledger afterwards: the writes it planned or found
open and where each of them came to stand, and the firings that something holds.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from worker.engine.cycle import Cycle
from worker.engine.decide import Decision
from worker.engine.execute import Outward
from worker.engine.ports import CycleReport, Parts
from worker.engine.preflight import Preflight, WhoAsks
from worker.engine.settle import as_judged
from worker.engine.state import PARTNER, PartnerState
from worker.model.commits import Brake
from worker.model.exchange import Outcome, WriteRequest
from worker.model.facts import EventId, Json, Known, PartnerId, RuleId, WriteId
from worker.model.rules import Rule
from worker.model.writes import UNSETTLED, Intent, State, Write, WriteKey
from worker.writes.evidence import fact_key, target_value
from worker.writes.intents import NotComputable, Planned, Wanted, plan_steps, reads_back, wanted

LONGEST = timedelta(minutes=5)
"""How long a rehearsal goes on looking for facts that the budget has not let it read, and waiting for pre-flights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Requests, now or once nothing holds it: facts of the pre-flight, the write itself, the least that confirms it."""

    preflight: int
    write: int
    confirm: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One write that would be made, or is open already, or that a held firing would lead to.

    ``id``: of a write that the ledger has; None for a new one. ``becomes``: the state it would come to; ``held`` for a
    firing that something holds. ``request``: what would be sent, where nothing holds it. ``wanted``: what it does and
    spends.
    """

    id: WriteId | None
    key: WriteKey
    rules: tuple[RuleId, ...]
    intent: Intent
    becomes: State | str
    reason: str
    why: str
    until: datetime | None
    before_known: bool
    before: Json
    request: Mapping[str, Json] | None
    cost: Cost
    wanted: Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """What came of one partner. ``looks``: how many it took to read what rules want; ``unread``: facts that nobody has
    read in time."""

    partner: PartnerId
    report: CycleReport
    looks: int
    unread: int
    rows: tuple[Row, ...]


@dataclass(slots=True)
class _Noted:
    """What was decided, look after look: the newest hold of each pair, and the writes that were planned."""

    rules: Mapping[RuleId, Rule]
    held: dict[tuple[EventId, RuleId], tuple[Brake, tuple[Planned, ...], int]] = field(default_factory=dict)
    planned: list[WriteKey] = field(default_factory=list)

    def take(self, decision: Decision) -> None:
        """One decision."""
        for event, rule_id in decision.judged:
            self.held.pop((event, rule_id), None)
        for (event, rule_id), brake in decision.held.items():
            memory = decision.memories.get((event, rule_id))
            steps = _steps(decision, event, self.rules[rule_id])
            self.held[event, rule_id] = (brake, steps, memory.episode if memory is not None else 0)
        self.planned.extend(plan.key for plan in decision.commit.plans)


def _steps(decision: Decision, event: EventId, rule: Rule) -> tuple[Planned, ...]:
    """What the firing would lead to, as far as its values can be computed now."""
    try:
        return plan_steps(rule, decision.scope(event, rule), {})
    except NotComputable:
        return ()


class Rehearsal:
    """Rehearses one partner. ``parts``: the daemon's, with a draft for a ledger. ``beside``: a daemon is running, and
    what the ledger calls sending is in that one's hands."""

    def __init__(self, parts: Parts, partner: PartnerId, *, beside: bool) -> None:
        self._partner = partner
        self._beside = beside
        self._requests: dict[WriteId, Mapping[str, Json]] = {}
        self._stands = asyncio.Event()
        self._noted = _Noted(rules={rule.id: rule for rule in parts.rules.current.rules})
        self._cycle = Cycle(replace(parts, decided=self._noted.take, instead=self._sent))
        self._outward = Outward(parts)
        self._preflight = Preflight(parts)
        self._asking = WhoAsks(parts)
        self._clock = parts.clock
        self._ledger = parts.ledger
        self._interval = parts.settings.interval

    async def run(self) -> Rehearsed:
        """Looks until every wanted fact was read, or for as long as is bearable."""
        open_before = {write.id: write for write in self._ledger.open_writes(self._partner)}
        state = self._cycle.load(self._partner)
        ends = self._clock.monotonic() + LONGEST.total_seconds()
        looks = 0
        while True:
            looks += 1
            report = await self._cycle.run(state)
            await self._settled(state, ends)
            unread = _unread(state)
            if not unread or report.error is not None or self._clock.monotonic() >= ends:
                break
            await self._clock.sleep(self._interval.total_seconds())
        await self._stopped(state)
        rows = sorted([*self._writes(state, open_before), *self._held(state)], key=_order)
        return Rehearsed(partner=self._partner, report=report, looks=looks, unread=unread, rows=tuple(rows))

    async def _sent(self, write: Write, request: WriteRequest) -> Outcome:
        """What has passed every guard stands here for ever, as an attempt whose answer never comes."""
        self._requests[write.id] = self._outward.spelled(request)
        self._stands.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody ends this wait but a cancellation")

    async def _settled(self, state: PartnerState, ends: float) -> None:
        """Waits for every task that still does something."""
        while self._clock.monotonic() < ends:
            busy = [task for write, task in state.running.items() if write not in self._requests]
            if not busy:
                return
            self._stands.clear()
            rest = self._clock.sleep(ends - self._clock.monotonic())
            waits = [asyncio.ensure_future(self._stands.wait()), asyncio.ensure_future(rest)]
            await asyncio.wait([*busy, *waits], return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _stopped(self, state: PartnerState) -> None:
        """Ends what waits in `send`, without recording an outcome: the draft says sending, and is thrown away."""
        tasks = list(state.running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _writes(self, state: PartnerState, before: Mapping[WriteId, Write]) -> Sequence[Row]:
        found: dict[WriteId, Write] = {}
        for write_id, write in before.items():
            in_flight = self._beside and write.state == "sending"
            found[write_id] = write if in_flight else self._ledger.write(write_id) or write
        for key in self._noted.planned:
            for write in self._ledger.episode_writes(key.partner, key.event, key.rule, key.episode):
                found[write.id] = write
        return [self._row(state, write, known=write.id in before) for write in found.values()]

    def _held(self, state: PartnerState) -> Sequence[Row]:
        """Firings that something holds: there is no write yet, but for what it would be."""
        now = self._clock.now()
        rows: list[Row] = []
        for (event, rule), (brake, steps, episode) in sorted(self._noted.held.items(), key=lambda one: one[0]):
            for step in steps:
                key = WriteKey(
                    partner=state.partner,
                    event=event,
                    rule=rule,
                    episode=episode,
                    position=step.position,
                    item=step.item,
                )
                write = Write(
                    id=WriteId(0),
                    key=key,
                    intent=step.intent,
                    state="planned",
                    reason=brake.reason,
                    why=brake.why,
                    rules=(rule,),
                    planned_at=now,
                    changed_at=now,
                    due_since=now,
                    held_until=brake.until,
                )
                rows.append(replace(self._row(state, write, known=False), becomes="held"))
        return rows

    def _row(self, state: PartnerState, write: Write, *, known: bool) -> Row:
        readable, value = self._before(state, write)
        return Row(
            id=write.id if known else None,
            key=write.key,
            rules=write.rules,
            intent=write.intent,
            becomes=write.state if write.id not in self._requests else "sending",
            reason=write.held_by if write.state == "planned" and write.held_by else write.reason,
            why=write.why,
            until=write.held_until,
            before_known=readable,
            before=value,
            request=self._requests.get(write.id),
            cost=self._cost(state, write),
            wanted=wanted(write.intent, write.key.item, value, self._currency(state)),
        )

    def _currency(self, state: PartnerState) -> str:
        fact = state.shared.get(PARTNER)
        record = fact.value if isinstance(fact, Known) else None
        return str(record.get("currency") or "") if isinstance(record, Mapping) else ""

    def _before(self, state: PartnerState, write: Write) -> tuple[bool, Json]:
        if write.before_known or not reads_back(write.intent, write.key.item):
            return write.before_known, write.before
        key = fact_key(write.intent)
        fact = state.fact(write.key.event, key)
        return target_value(write.intent, as_judged(key, fact)) if fact is not None else (False, None)

    def _cost(self, state: PartnerState, write: Write) -> Cost:
        """What it costs from now on, or would once nothing holds it."""
        if write.final or write.state in UNSETTLED - {"sending"}:
            return Cost(preflight=0, write=0, confirm=0)
        keys = self._preflight.keys(state, write, self._asking.rules(state, write))
        return Cost(preflight=len(keys), write=1, confirm=1 if reads_back(write.intent, write.key.item) else 0)


def _order(row: Row) -> tuple[str, str, int, int]:
    return row.key.event, row.key.rule, row.key.episode, row.intent.order


def _unread(state: PartnerState) -> int:
    """Facts that rules want and that nobody has asked for yet."""
    return sum(
        1 for event, wanted in state.wanted.items() for key in wanted.keys if key not in state.facts.get(event, {})
    )
