"""From facts to the values a condition sees, converted once for all the conditions of one event.

Converting a record for the engine costs a hundred times what a condition costs, so contexts are kept and shared as long
as the same observation is looked at with the same parameters at the same moment, and of a record only the fields that
some condition names are converted. Both are savings and nothing else: a context is only taken from the store when it
would be built of the very same objects again, and a field that no condition names is seen by none.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf

from worker.model.facts import FactKey, Json, Known, Observation
from worker.model.rules import Scope
from worker.rules.cel import CelValue, Context, context_of
from worker.rules.celtypes import Type
from worker.rules.registry import BUILT_IN
from worker.rules.syntax import Path

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
        self._fields: dict[str, set[str] | None] = {}

    def register(self, paths: Iterable[Path]) -> None:
        """Takes note of what a condition will look at: single fields, or the whole of a fact."""
        for path in paths:
            known = self._fields.setdefault(path.name, set())
            if not path.fields:
                self._fields[path.name] = None
            elif known is not None:
                known.add(path.fields[0])
        self._kept = []

    def of(self, scope: Scope) -> Context:
        """The context of a scope. Raises `CannotEvaluate` where a value is beyond the engine."""
        if scope.extra:
            return context_of(values_of(scope, self._fields))
        for kept in self._kept:
            same = kept.observation is scope.observation and kept.now == scope.now
            if same and (kept.keys is scope.keys or kept.keys == scope.keys):
                return kept.context
        context = context_of(values_of(scope, self._fields))
        if len(self._kept) >= KEPT_MAX or (self._kept and self._kept[0].observation is not scope.observation):
            self._kept = []
        self._kept.append(_Kept(observation=scope.observation, keys=dict(scope.keys), now=scope.now, context=context))
        return context


def values_of(scope: Scope, fields: Mapping[str, AbstractSet[str] | None]) -> dict[str, CelValue]:
    """The values of the names, with these fields of records (None: all). Unknown facts are left out: the engine then
    meets something undefined, which is unknown."""
    values: dict[str, CelValue] = {"now": scope.now}
    for name, key in scope.keys.items():
        fact = scope.observation.get(key) if name in fields else None
        if isinstance(fact, Known):
            documented = BUILT_IN.get(name)
            value = _named(fact.value, fields[name])
            values[name] = _typed(value, documented.type if documented is not None else None)
    for name, value in scope.extra.items():
        values[name] = _plain(value)
    return values


def _named(value: Json, fields: AbstractSet[str] | None) -> Json:
    """A record without the fields that nobody looks at."""
    if fields is None or not isinstance(value, dict):
        return value
    return {name: value[name] for name in fields if name in value}


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
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
