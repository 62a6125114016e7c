"""While a sequence runs, its condition is judged without what the sequence itself has changed.

A rule that creates a draft and then boosts it is true only while there is no draft; after its first step that would be
false, and the second would never be sent. So the fields that an earlier, already sent action of the same ``do`` writes
keep the value they had at the firing, which stands in the context of every write of that firing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from worker.model.actions import ACTIONS
from worker.model.facts import FactKey, Json, Known, Observation
from worker.model.rules import Rule, Scope
from worker.model.writes import Write


def written_values(rule: Rule, scope: Scope) -> dict[str, Json]:
    """The fields that the rule's actions write, as they are now: ``{"setup.state": "NONE"}``; unreadable ones not."""
    found: dict[str, Json] = {}
    for step in rule.do:
        for name, field in ACTIONS[step.action].written(step.params):
            fact = scope.fact(name)
            if isinstance(fact, Known) and not field:
                found[name] = fact.value
            elif isinstance(fact, Known) and isinstance(fact.value, Mapping) and field in fact.value:
                found[f"{name}.{field}"] = fact.value[field]
    return found


def overlaid(observation: Observation, writes: Sequence[Write], rule: Rule) -> Observation:
    """The observation as the firing saw it, in the fields that the running sequence's sent actions write."""
    if len(rule.do) < 2:
        return observation
    context = next((write.intent.context.get("written") for write in writes), None)
    if not isinstance(context, Mapping):
        return observation
    pending = min(write.intent.order for write in writes)
    return with_fields(observation, _fields_before(rule, writes, pending), context)


def with_fields(observation: Observation, fields: Iterable[tuple[str, str]], values: Mapping[str, Json]) -> Observation:
    """The observation with these (fact, field) pairs set to their values at the firing; what was unknown then is
    unknown again. An empty field is the whole fact."""
    facts = dict(observation.facts)
    for name, field in fields:
        key = FactKey(name=name)
        fact = facts.get(key)
        if isinstance(fact, Known) and not field:
            facts.pop(key)
            if name in values:
                facts[key] = replace(fact, value=values[name])
        elif isinstance(fact, Known) and isinstance(fact.value, dict):
            value = {part: old for part, old in fact.value.items() if part != field}
            if f"{name}.{field}" in values:
                value[field] = values[f"{name}.{field}"]
            facts[key] = replace(fact, value=value)
    return replace(observation, facts=facts)


def _fields_before(rule: Rule, writes: Sequence[Write], pending: int) -> set[tuple[str, str]]:
    """What the sent actions write: those before the first unfinished one, and unfinished ones that were sent."""
    first = next(write for write in writes if write.intent.order == pending)
    done = {pair for step in rule.do[: first.key.position] for pair in ACTIONS[step.action].written(step.params)}
    return done | {pair for write in writes if write.sent for pair in fields_of(write)}


def fields_of(write: Write) -> tuple[tuple[str, str], ...]:
    """The (fact, field) pairs that a write changes."""
    return ACTIONS[write.intent.action].written(write.intent.params)
