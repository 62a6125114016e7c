"""A condition taken apart: each part with its own truth, and under it the values it saw and since when they are known.

The parts are those of the syntax tree, and each is judged by the engine that judges the whole, so that an explanation
cannot disagree with the decision.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from worker.model.facts import Json, Known, spelled
from worker.model.rules import Scope, Truth
from worker.rules.conditions import CelCondition, Part, PartKind, missing_words, parts
from worker.rules.registry import LOCAL
from worker.rules.syntax import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenValue:
    """What stood at a path. ``missing`` says why there was nothing, and is empty where there was. ``read_at``: when the
    fact was read; None for what the worker knows by itself."""

    path: str
    value: Json = None
    missing: str = ""
    read_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One part of a condition: its text, where it stands in the whole, what it was and by which values. ``values`` only
    where the part combines no others."""

    kind: PartKind
    source: str
    offset: int
    truth: Truth
    why: str
    values: tuple[SeenValue, ...] = ()
    parts: "tuple[Explained, ...]" = ()


def explained(condition: CelCondition, scope: Scope) -> Explained:
    """The whole condition and all its parts over these facts."""
    return _explained(parts(condition), scope)


def _explained(part: Part, scope: Scope) -> Explained:
    judgement = part.condition.judge(scope)
    return Explained(
        kind=part.kind,
        source=part.source,
        offset=part.offset,
        truth=judgement.truth,
        why=judgement.why,
        values=() if part.parts else tuple(_values(part.condition, scope)),
        parts=tuple(_explained(one, scope) for one in part.parts),
    )


def _values(condition: CelCondition, scope: Scope) -> Iterator[SeenValue]:
    for path in condition.paths:
        missing = missing_words(path, scope)
        fact = scope.fact(path.name) if path.name not in LOCAL else None
        read_at = fact.read_at if fact is not None else None
        if missing is not None:
            yield SeenValue(path=path.text, missing=missing, read_at=read_at)
        else:
            yield SeenValue(path=path.text, value=_value(path, scope), read_at=read_at)


def _value(path: Path, scope: Scope) -> Json:
    if path.name == "now":
        return spelled(scope.now)
    if path.name in LOCAL:
        value: Json = scope.extra[path.name]
    else:
        fact = scope.fact(path.name)
        value = fact.value if isinstance(fact, Known) else None
    for name in path.fields:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
