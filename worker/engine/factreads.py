"""Reads the facts that cost a request each, of single events, while a look has room for them.

Which of them is read next is the plan's to say (`worker.reading.plan`); what rules want of an event is found out anew
whenever something was learnt of it. Nothing here decides.
"""

import asyncio
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from worker.engine.needs import asks_more, wanted_keys, weight_of
from worker.engine.parts import Parts
from worker.engine.ports import Urgency
from worker.engine.state import EVENT, FactsWanted, PartnerState
from worker.model.facts import FactKey, Known
from worker.model.ids import EventId
from worker.model.rules import Rule
from worker.reading.plan import Want, choose

ROUNDS = 4
"""Rounds of fact reads in one look: parameters first, then what they give the key to."""
SIDE_BY_SIDE = 8


class FactReader:
    """Reads facts of single events. One instance serves all partners."""

    def __init__(self, parts: Parts) -> None:
        self._clock = parts.clock
        self._service = parts.service
        self._settings = parts.settings

    async def read_facts(
        self, state: PartnerState, rules: list[Rule], in_sight: AbstractSet[EventId], room: int
    ) -> set[EventId]:
        """Reads per-event facts while room is left: parameters first, then what they give the key to. The events of
        which something else is known now."""
        tried: set[tuple[EventId, FactKey]] = set()
        changed: set[EventId] = set()
        for turn in range(ROUNDS):
            wants = [want for want in self.wants(state, in_sight, fresh=turn > 0) if want.place not in tried]
            chosen = choose(wants, room, self._clock.monotonic(), self._settings.interval)
            if not chosen:
                break
            tried |= {want.place for want in chosen}
            room -= len(chosen)
            learnt = await self.read(state, chosen)
            self.want(state, rules, sorted(learnt))
            changed |= learnt
        return changed

    def want(self, state: PartnerState, rules: list[Rule], events: Iterable[EventId]) -> None:
        """Finds out anew which facts rules want of these events. Those that none wants any more are forgotten: an old
        value must not stand for today's when they are wanted again."""
        now = self._clock.now()
        asking = [rule for rule in rules if asks_more(rule, self._settings.shared)]
        for event in events:
            seen = state.observation(event)
            by_rule = [(rule.priority, wanted_keys(rule, seen, now) - {EVENT}) for rule in asking]
            wanted = {key for _, keys in by_rule for key in keys}
            facts = state.facts.get(event, {})
            for key in [key for key in facts if key not in wanted and key != EVENT]:
                state.lay_aside(event, key)
            own = frozenset(key for key in wanted if key not in state.shared)
            if own:
                weight = weight_of((priority for priority, keys in by_rule if keys), seen, now)
                state.wanted[event] = FactsWanted(keys=own, weight=weight)
            else:
                state.wanted.pop(event, None)

    def wants(self, state: PartnerState, in_sight: AbstractSet[EventId], *, fresh: bool) -> list[Want]:
        """What rules want of every event in sight. ``fresh``: only what was never read, for the later rounds."""
        return [
            Want(
                event=event,
                key=key,
                read_at=_asked_at(state, event, key),
                weight=wanted.weight,
                rate=state.habits.rate((event, key)),
            )
            for event, wanted in state.wanted.items()
            if event in in_sight and not state.claimed[event]
            for key in wanted.keys
            if not fresh or key not in state.facts.get(event, {})
        ]

    async def read(self, state: PartnerState, wants: Iterable[Want]) -> set[EventId]:
        """Reads side by side; the events of which something else is known now."""
        gate = asyncio.Semaphore(SIDE_BY_SIDE)
        changed: set[EventId] = set()

        async def one(want: Want) -> None:
            async with gate:
                fact = await self._service.read(state.partner, want.event, want.key, urgency=Urgency.FACT)
                known = isinstance(state.fact(want.event, want.key), Known)
                says_else = state.observe(want.event, want.key, fact)
                if says_else:
                    changed.add(want.event)
                if known and isinstance(fact, Known) and want.read_at is not None and fact.trace is not None:
                    after_s = max(0.0, fact.trace.began - want.read_at)
                    state.habits.visited(want.place, changed=says_else, after_s=after_s)

        await asyncio.gather(*(one(want) for want in wants))
        return changed


def _asked_at(state: PartnerState, event: EventId, key: FactKey) -> float | None:
    fact = state.facts.get(event, {}).get(key)
    return fact.trace.began if fact is not None and fact.trace is not None else None
