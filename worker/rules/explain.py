"""A condition taken apart: each part with its own truth, and under it the values it saw and since when they are known.

The parts are those of the syntax tree, and each is judged by the engine that judges the whole, so that an explanation
cannot disagree with the decision.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from worker.model.facts import Json, Known, spelled
from worker.model.rules import Scope, Truth
from worker.rules.cel import Node, Path
from worker.rules.evaluate import Expression, expression_of
from worker.rules.facts import missing_words
from worker.rules.registry import LOCAL

PartKind: TypeAlias = Literal["and", "or", "not", "leaf"]
_KINDS: Mapping[str, PartKind] = {"and": "and", "or": "or", "not": "not"}


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


def explained(condition: Expression, scope: Scope) -> Explained:
    """The whole condition and all its parts over these facts."""
    return _explained(condition.source, condition.tree, scope)


def _explained(text: str, node: Node, scope: Scope) -> Explained:
    part = expression_of(text[node.start : node.end], node)
    kind = _KINDS.get(node.kind, "leaf")
    judgement = part.judge(scope)
    return Explained(
        kind=kind,
        source=part.source,
        offset=node.start,
        truth=judgement.truth,
        why=judgement.why,
        values=tuple(_values(part, scope)) if kind == "leaf" else (),
        parts=() if kind == "leaf" else tuple(_explained(text, child, scope) for child in node.children),
    )


def _values(condition: Expression, scope: Scope) -> Iterator[SeenValue]:
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
