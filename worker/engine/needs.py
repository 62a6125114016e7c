"""Which facts a rule wants of an event, given what is already known. Pure.

A fact that costs a request is wanted only while the rest of the condition can still be true: the condition is judged
without it, and a definite false means that it cannot matter. Facts that ``on_change`` watches or ``do`` computes with
are wanted while the condition is not definitely false.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime

from worker.engine.times import may_be_due
from worker.model.actions import ACTIONS
from worker.model.facts import FactKey, Observation
from worker.model.rules import Rule, Scope, Truth
from worker.rules.evaluate import keys_for
from worker.rules.parameters import lacks_defaults, runtime_in_days
from worker.rules.registry import LOCAL

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
