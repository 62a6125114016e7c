"""Which facts, and of records which fields, the texts of rules name: what explains a decision, what is worth keeping.

Read off the syntax trees once for a rule set. A fact that is named as a whole, or by a condition without a tree, counts
with all of its fields. Nothing is evaluated.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from worker.model.facts import Fact, Json, Known
from worker.model.rules import Computed, Condition, Rule
from worker.rules.conditions import CelCondition, ComputedValue
from worker.rules.registry import BUILT_IN, LOCAL
from worker.rules.syntax import Path

Fields = frozenset[str] | None
"""Fields of a record; None for all of it."""


def decides(rule: Rule) -> Mapping[str, Fields]:
    """What the rule's condition and its ``on_change`` look at, by the fact's name."""
    found: dict[str, Fields] = {}
    if rule.when is not None:
        _add(found, _paths(rule.when))
    for watch in rule.on_change:
        by = frozenset(watch.by) if watch.by and _is_record(watch.fact) else None
        found[watch.fact] = _joined(found.get(watch.fact, frozenset()), by)
    return found


def looked_at(rules: Iterable[Rule]) -> Mapping[str, Fields]:
    """What any of the rules names, in computed values too."""
    found: dict[str, Fields] = {}
    for rule in rules:
        for name, fields in decides(rule).items():
            found[name] = _joined(found.get(name, frozenset()), fields)
        for step in rule.do:
            for value in step.params.values():
                if isinstance(value, Computed):
                    _add(found, _paths(value))
    return found


def worth_keeping(rules: Iterable[Rule]) -> Mapping[str, Fields]:
    """Of every record what rules may be written about: its documented fields, and those that a rule names."""
    named = looked_at(rules)
    found: dict[str, Fields] = {}
    for name, fact in BUILT_IN.items():
        if fact.type.kind == "object" and fact.type.fields is not None and name not in LOCAL:
            found[name] = _joined(frozenset(fact.type.fields), named.get(name, frozenset()))
    return found


def narrowed(fact: Fact, fields: Fields) -> Fact:
    """The fact with these fields only. What is no record, what is unknown, and what has no others stays as it is."""
    if fields is None or not isinstance(fact, Known) or not isinstance(fact.value, dict):
        return fact
    if fields.issuperset(fact.value) and fields.issuperset(fact.gaps):
        return fact
    whole = fact.value
    value: dict[str, Json] = {name: whole[name] for name in _in_order(fields) if name in whole}
    gaps = {name: why for name, why in fact.gaps.items() if name in fields} if fact.gaps else fact.gaps
    return Known(value=value, read_at=fact.read_at, gaps=gaps)


@lru_cache(maxsize=256)
def _in_order(fields: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(fields))


def _paths(text: Condition | Computed) -> Iterable[Path]:
    if isinstance(text, CelCondition | ComputedValue):
        return text.paths
    return [Path(name=name, fields=()) for name in text.names]


def _add(found: dict[str, Fields], paths: Iterable[Path]) -> None:
    for path in paths:
        if path.name not in LOCAL:
            own = frozenset({path.fields[0]}) if path.fields and _is_record(path.name) else None
            found[path.name] = _joined(found.get(path.name, frozenset()), own)


def _joined(one: Fields, other: Fields) -> Fields:
    return None if one is None or other is None else one | other


def _is_record(name: str) -> bool:
    return name in BUILT_IN and BUILT_IN[name].type.kind == "object"
