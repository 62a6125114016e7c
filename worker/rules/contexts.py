"""From facts to the values a condition sees, converted once for all the conditions of one event.

Converting a record for the engine costs a hundred times what a condition costs, so contexts are kept and shared as long
as the same observation is looked at with the same parameters at the same moment. That is a saving and nothing else: a
context is only taken from the store when it would be built of the very same objects again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf

from worker.model.facts import FactKey, Json, Known, Observation
from worker.model.rules import Scope
from worker.rules.cel import CelValue, Context, context_of
from worker.rules.celtypes import Type
from worker.rules.registry import BUILT_IN

KEPT_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    observation: Observation
    keys: Mapping[str, FactKey]
    now: datetime
    context: Context


class Contexts:
    """The contexts of the observation looked at last. The observation is held, so that its identity stays its own."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []

    def of(self, scope: Scope) -> Context:
        """The context of a scope. Raises `CannotEvaluate` where a value is beyond the engine."""
        if scope.extra:
            return context_of(values_of(scope))
        for kept in self._kept:
            same = kept.observation is scope.observation and kept.now == scope.now
            if same and (kept.keys is scope.keys or kept.keys == scope.keys):
                return kept.context
        context = context_of(values_of(scope))
        if len(self._kept) >= KEPT_MAX or (self._kept and self._kept[0].observation is not scope.observation):
            self._kept = []
        self._kept.append(_Kept(observation=scope.observation, keys=dict(scope.keys), now=scope.now, context=context))
        return context


def values_of(scope: Scope) -> dict[str, CelValue]:
    """The values by name. Unknown facts are left out: the engine then meets something undefined, which is unknown."""
    values: dict[str, CelValue] = {"now": scope.now}
    for name, key in scope.keys.items():
        fact = scope.observation.get(key)
        if isinstance(fact, Known):
            documented = BUILT_IN.get(name)
            values[name] = _typed(fact.value, documented.type if documented is not None else None)
    for name, value in scope.extra.items():
        values[name] = _plain(value)
    return values


def _typed(value: Json, known: Type | None) -> CelValue:
    """A documented value: numbers as doubles, times as times. A time that is none is left out, never guessed."""
    if isinstance(value, dict) and known is not None and known.fields is not None:
        fields: dict[str, CelValue] = {}
        for name, part in value.items():
            documented = known.fields.get(name)
            if documented is not None and documented.kind == "timestamp" and isinstance(part, str):
                moment = parse_time(part)
                if moment is not None:
                    fields[name] = moment
            else:
                fields[name] = _plain(part)
        return fields
    return _plain(value)


def _plain(value: Json) -> CelValue:
    if isinstance(value, bool) or value is None or isinstance(value, str | float):
        return value
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return inf if value > 0 else -inf
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {name: _plain(part) for name, part in value.items()}


def parse_time(text: str) -> datetime | None:
    """The moment of an ISO 8601 text, UTC where it names no zone; None where it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
