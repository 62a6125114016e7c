"""The last look before a write: every fact its condition uses, read just now, and its target with them.

All floors are waited for first, and the budget's places for all reads and the write are kept together, so that the
answers are of one moment also where the budget is short. What another reader has asked a moment ago is taken over. The
event comes last, so that it answers after a setup that is not there (a 404 alone proves nothing). What has
become older than the interval meanwhile is read again, a few times, and then the write is held: nothing is sent on an
old fact.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from worker.engine.attempts import still_holds
from worker.engine.needs import scope_of
from worker.engine.outward import as_judged
from worker.engine.parts import Parts
from worker.engine.ports import Places, Urgency
from worker.engine.products import off_fact
from worker.engine.state import EVENT, PARTNER, PartnerState
from worker.model.actions import ACTIONS
from worker.model.facts import Fact, FactKey, Known, Observation, Unknown
from worker.model.rules import Judgement, Rule
from worker.model.writes import Write
from worker.reading.pacing import SENT_WITHIN
from worker.rules.parameters import runtime_in_days
from worker.rules.registry import LOCAL
from worker.writes.evidence import fact_key
from worker.writes.intents import budgets_of, reads_back

ROUNDS = 3
"""How often facts that have grown too old are read again before the write is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """The fresh facts by key and by name, and the condition on them. ``young_until``: the monotonic second by which the
    write must leave, with room for recording it."""

    facts: Mapping[FactKey, Fact]
    named: Mapping[str, Fact]
    judgement: Judgement
    in_time: bool
    young_until: float

    @property
    def throttled(self) -> bool:
        """Whether a read of it met a 429."""
        return any(fact.trace is not None and fact.trace.status == 429 for fact in self.facts.values())


class Preflight:
    """Reads what a write leans on, and judges its condition on it."""

    def __init__(self, parts: Parts) -> None:
        self._clock = parts.clock
        self._service = parts.service
        self._settings = parts.settings

    @asynccontextmanager
    async def together(self, state: PartnerState, write: Write, rules: tuple[Rule, ...]) -> AsyncIterator[Places]:
        """Within, the reads of this write's pre-flight and the write itself need not wait for floors or budget; and
        looks leave the facts of its event alone, which would raise the floors anew."""
        # Behind many first sends the evidence of one that is sent again would grow too old.
        first = write.intent.stops or write.state == "unknown"
        urgency = Urgency.STOPPING if first else Urgency.PREFLIGHT
        keys = self.keys(state, write, rules)
        event = write.key.event
        state.claimed[event] += 1
        try:
            places = await self._service.keep_places(write.key.partner, event, keys, urgency=urgency)
            try:
                yield places
            finally:
                places.give_back()
        finally:
            state.claimed[event] -= 1

    async def read(
        self, state: PartnerState, write: Write, rules: tuple[Rule, ...], earlier: tuple[Write, ...], places: Places
    ) -> Fresh:
        """One pre-flight. ``rules`` are those the write stands for; one of them must still hold."""
        keys = self.keys(state, write, rules)
        facts: dict[FactKey, Fact] = {}
        for _ in range(ROUNDS):
            stale = [key for key in keys if self._too_old(facts.get(key))]
            if not stale:
                break
            for part in ([key for key in stale if key != EVENT], [key for key in stale if key == EVENT]):
                for key, fact in await self._read_all(state, write, part, places):
                    facts[key] = fact
                    state.observe(write.key.event, key, fact)
        named = {key.name: fact for key, fact in facts.items()}
        named.setdefault("partner", state.shared.get(PARTNER, Unknown(code="unread", why="not read yet")))
        judgement = self._judge(state, write, rules, earlier, facts)
        began = [fact.trace.began for fact in facts.values() if isinstance(fact, Known) and fact.trace is not None]
        oldest = min(began, default=self._clock.monotonic())
        return Fresh(
            facts=facts,
            named=named,
            judgement=judgement,
            in_time=self.still(facts),
            young_until=oldest + SENT_WITHIN * self._settings.interval.total_seconds(),
        )

    def still(self, facts: Mapping[FactKey, Fact]) -> bool:
        """Whether every one of these facts is still younger than the interval."""
        return not any(self._too_old(fact) for fact in facts.values())

    def _too_old(self, fact: Fact | None) -> bool:
        if fact is None:
            return True
        if not isinstance(fact, Known):
            return False
        age = self._clock.monotonic() - (fact.trace.began if fact.trace else float("-inf"))
        return age >= self._settings.interval.total_seconds()

    def keys(self, state: PartnerState, write: Write, rules: tuple[Rule, ...]) -> list[FactKey]:
        """The facts that this write leans on."""
        event = write.key.event
        seen = Observation(partner=write.key.partner, event=event, facts=state.merged(event))
        now = self._clock.now()
        keys = {EVENT}
        for rule in rules:
            scope = scope_of(rule, seen, now)
            in_when = rule.when.names if rule.when is not None else frozenset()
            names = set(in_when) | {watch.fact for watch in rule.on_change} - LOCAL
            keys |= {scope.keys[name] for name in names if name in scope.keys}
        row = ACTIONS[write.intent.action]
        keys |= {FactKey(name=name) for name in row.reads}
        if reads_back(write.intent, write.key.item):
            keys.add(fact_key(write.intent))
        if row.budget == "draft" or budgets_of(write.intent):
            keys.add(self._budget_key(rules, seen, now))
        return sorted(keys, key=lambda key: (key != EVENT, key.text))

    def _budget_key(self, rules: tuple[Rule, ...], seen: Observation, now: datetime) -> FactKey:
        given = next(
            (rule.parameters["runtime_in_days"] for rule in rules if "runtime_in_days" in rule.parameters), None
        )
        days = given if given is not None else runtime_in_days(seen, now)
        return FactKey(name="budget_range", params=() if days is None else (("runtime_in_days", days),))

    async def _read_all(
        self, state: PartnerState, write: Write, keys: list[FactKey], places: Places
    ) -> list[tuple[FactKey, Fact]]:
        partner_keys = set(state.shared)
        proof = self._proof(write) if write.state == "unknown" else frozenset[str]()

        off = state.products_off

        async def one(key: FactKey) -> tuple[FactKey, Fact]:
            if (shut := off_fact(key.name, off)) is not None:
                return key, shut
            event = None if key in partner_keys else write.key.event
            young = timedelta(0) if key.name in proof else self._settings.interval / 2
            fact = await self._service.read(
                write.key.partner, event, key, urgency=Urgency.PREFLIGHT, max_age=young, places=places
            )
            return key, as_judged(key, fact)

        return list(await asyncio.gather(*(one(key) for key in keys)))

    def _proof(self, write: Write) -> frozenset[str]:
        """The facts that must be read anew before an unknown write is sent again: its target, and the event after it,
        unless the two are one answer."""
        target = fact_key(write.intent)
        same = dict(target.params).get("get") == "/events/{eid}"
        return frozenset({target.name} if same else {target.name, EVENT.name})

    def _judge(
        self,
        state: PartnerState,
        write: Write,
        rules: tuple[Rule, ...],
        earlier: tuple[Write, ...],
        facts: Mapping[FactKey, Fact],
    ) -> Judgement:
        """Whether what the write stands for still holds by these facts."""
        event = write.key.event
        seen = Observation(partner=write.key.partner, event=event, facts={**state.merged(event), **facts})
        return still_holds(write, rules, earlier, seen, state.memories, self._clock.now())
