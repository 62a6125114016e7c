"""The truths of many conditions over one event, as bits: what a look at it could find, before anything is decided."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from worker.model.facts import FactKey, Known, Observation
from worker.model.rules import Rule
from worker.rules.compiled import COMPARISONS, Closure, place_of_field
from worker.rules.conditions import ERRORS, CelCondition
from worker.rules.functions import STEPS_MAX, Run, Value
from worker.rules.registry import BUILT_IN, LOCAL

Verdict: TypeAlias = tuple[int, int]
"""Which conditions are true and which unknown, as bits in the order of the conditions; the others are false."""
_Conditions: TypeAlias = list[tuple[int, Closure]]
_Question: TypeAlias = tuple[type, Callable[[object, object], bool], Value, _Conditions]
"""What a field is compared with, how, and which conditions are false where that is."""


def covers(rule: Rule) -> bool:
    """Whether the truth of the rule's condition follows from facts without parameters, whatever the time."""
    condition = rule.when
    if not isinstance(condition, CelCondition) or "now" in condition.names or condition.names & LOCAL:
        return False
    return not any(name in BUILT_IN and BUILT_IN[name].takes for name in condition.names)


class Verdicts:
    """The conditions of rules, all of which it `covers`. Most begin by comparing a field, as in ``event.status ==
    'active' && …``, and most are false by that: so it is asked first, once for all that begin alike."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        conditions = [rule.when for rule in rules if isinstance(rule.when, CelCondition)]
        names = sorted({name for condition in conditions for name in condition.names})
        self._keys = [(name, FactKey(name=name)) for name in names]
        self._others: _Conditions = []
        self._fields: dict[tuple[str, str], dict[tuple[str, Value], _Question]] = {}
        for index, condition in enumerate(conditions):
            first = condition.tree.children[0] if condition.tree.kind == "and" else condition.tree
            place = place_of_field(first.children[0]) if first.text in COMPARISONS else None
            those = self._others
            if place is not None and first.children[1].literal in ("string", "double"):
                how, value = COMPARISONS[first.text], first.children[1].value
                questions = self._fields.setdefault(place, {})
                those = questions.setdefault((first.text, value), (value.__class__, how, value, []))[3]
            those.append((1 << index, condition.closure))

    def of(self, observation: Observation) -> Verdict:
        """Which are true and which unknown."""
        facts = ((name, observation.facts.get(key)) for name, key in self._keys)
        run = Run({name: fact.value for name, fact in facts if isinstance(fact, Known)})
        true = unknown = 0
        for bit, closure in self._open(run):
            run.left = STEPS_MAX
            try:
                value = closure(run)
            except ERRORS:
                unknown |= bit
                continue
            if value is True:
                true |= bit
            elif value is not False:
                unknown |= bit
        return true, unknown

    def _open(self, run: Run) -> Iterator[tuple[int, Closure]]:
        """The conditions that are not false by the field that they begin with."""
        yield from self._others
        for (fact, name), questions in self._fields.items():
            record = run.values.get(fact)
            found = record.get(name) if isinstance(record, dict) else None
            for kind, how, value, those in questions.values():
                if found.__class__ is not kind or how(found, value):
                    yield from those
