"""Reads the facts that cost a request each, of single events, while a look has room for them.

Which of them is read next is the plan's to say (`worker.reading.plan`); what rules want of an event is found out anew
whenever something was learnt of it. Nothing here decides.
"""

import asyncio
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime

from worker.engine.episodes import may_be_due
from worker.engine.parts import Parts
from worker.engine.ports import Urgency
from worker.engine.state import EVENT, FactsWanted, PartnerState
from worker.model.actions import ACTIONS
from worker.model.facts import EventId, FactKey, Known, Observation
from worker.model.rules import Rule, Scope, Truth
from worker.reading.plan import Want, choose
from worker.rules.facts import keys_for, lacks_defaults, runtime_in_days
from worker.rules.registry import LOCAL

# Which facts a rule wants of an event, given what is already known. Pure.
#
# A fact that costs a request is wanted only while the rest of the condition can still be true: the condition is judged
# without it, and a definite false means that it cannot matter. Facts that ``on_change`` watches or ``do`` computes with
# are wanted while the condition is not definitely false.

HIGHEST_PRIORITY = 5
"""Priorities beyond this do not make an event more urgent still."""
SOON_DAYS, FAR_DAYS = 7, 90


def scope_of(rule: Rule, observation: Observation, now: datetime) -> Scope:
    """The rule's scope over these facts."""
    return Scope(observation=observation, keys=keys_for(rule, observation, now), now=now)


def wanted_keys(rule: Rule, observation: Observation, now: datetime) -> frozenset[FactKey]:
    """The facts that can still make a difference to the rule for this event."""
    if not may_be_due(rule, now):
        return frozenset()
    scope = scope_of(rule, observation, now)
    possible = _truth(rule, scope) is not Truth.FALSE
    in_condition = rule.when.names if rule.when is not None else frozenset()
    wanted: set[FactKey] = set()
    for name in names_read(rule):
        key = scope.keys.get(name)
        if key is None:
            if possible and lacks_defaults(rule, name):
                wanted.add(FactKey(name="defaults"))
        elif possible or (name in in_condition and _could_without(rule, scope, key)):
            wanted.add(key)
            if lacks_defaults(rule, name):
                wanted.add(FactKey(name="defaults"))
    return frozenset(wanted)


def unread_keys(rule: Rule, observation: Observation, now: datetime) -> frozenset[FactKey]:
    """The wanted facts that were never read."""
    return frozenset(key for key in wanted_keys(rule, observation, now) if key not in observation.facts)


def names_read(rule: Rule) -> Iterable[str]:
    """The facts that the rule names, and with ``repeat: enforce`` those that show its targets."""
    names = set(rule.names) - LOCAL
    if rule.repeat == "enforce":
        names |= {fact for step in rule.do for fact in ACTIONS[step.action].reads}
    return sorted(names)


def asks_more(rule: Rule, shared: AbstractSet[str]) -> bool:
    """Whether the rule can want any fact of a single event beside the event's own record. ``shared``: the facts of the
    whole partner."""
    return any(name != "event" and name not in shared for name in names_read(rule))


def _truth(rule: Rule, scope: Scope) -> Truth:
    return Truth.TRUE if rule.when is None else rule.when.judge(scope).truth


def _could_without(rule: Rule, scope: Scope, key: FactKey) -> bool:
    facts = {one: fact for one, fact in scope.observation.facts.items() if one != key}
    without = replace(scope, observation=replace(scope.observation, facts=facts))
    return _truth(rule, without) is not Truth.FALSE


def weight_of(priorities: Iterable[int], observation: Observation, now: datetime) -> float:
    """How much it matters to see soon what changes of this event, against 1: twice as much for each step in the highest
    priority of the rules that want anything of it, up to 32 times; twice as much in the last days before it starts, and
    half as much while that is months away."""
    highest = max(priorities, default=0)
    weight = 2.0 ** max(-HIGHEST_PRIORITY, min(highest, HIGHEST_PRIORITY))
    days = runtime_in_days(observation, now)
    if days is None:
        return weight
    return weight * (2.0 if days <= SOON_DAYS else 0.5 if days >= FAR_DAYS else 1.0)


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
                del state.facts[event][key]
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
