"""Compiled conditions and computed values: facts in, a judgement out, with words that a person can check.

The closures of `worker.rules.compiled` say true, false or an error; here an error becomes *unknown*, and the words name
the fact that is missing and why, because "unknown" alone helps nobody. It evaluates and never waits or reads.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from worker.model.facts import Json, Known, Unknown, spelled
from worker.model.rules import Judgement, Scope, Truth
from worker.rules.cel import parse
from worker.rules.compiled import Closure, compiled
from worker.rules.durations import duration_text
from worker.rules.functions import CannotEvaluate, Run, TooCostly, Value
from worker.rules.registry import LOCAL
from worker.rules.syntax import Node, Path, free_paths

PartKind: TypeAlias = Literal["and", "or", "not", "leaf"]
_KINDS: Mapping[str, PartKind] = {"and": "and", "or": "or", "not": "not"}
SHOWN_LENGTH_MAX = 60
SHOWN_PATHS_MAX = 6
ERRORS = (CannotEvaluate, TooCostly, RecursionError)
_TRUTHS: Mapping[object, Truth] = {True: Truth.TRUE, False: Truth.FALSE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A text that was compiled. Two are equal if their texts are. ``names`` are those of facts and of `now`."""

    source: str
    tree: Node = field(compare=False, repr=False)
    paths: tuple[Path, ...] = field(compare=False, repr=False)
    names: frozenset[str] = field(compare=False)
    closure: Closure = field(compare=False, repr=False)

    def run(self, scope: Scope) -> Value:
        """Its value. Raises what stands in `ERRORS`."""
        return self.closure(Run(values_of(scope, self.names)))


class CelCondition(Expression):
    """A ``when``."""

    __slots__ = ()

    def judge(self, scope: Scope) -> Judgement:
        """True, false or unknown, and why."""
        try:
            value = self.run(scope)
        except ERRORS as error:
            return self._unknown(scope, _words(error), costly=isinstance(error, TooCostly))
        if not isinstance(value, bool):
            return self._unknown(scope, f"the result is {_short(value)}, neither true nor false")
        why = "; ".join(_shown(path, scope) for path in self.paths[:SHOWN_PATHS_MAX])
        return Judgement(truth=_TRUTHS[value], why=why or f"'{self.source}' is constant")

    def truth(self, scope: Scope) -> Truth:
        """The same without the words, which take longer than the judging."""
        try:
            value = self.run(scope)
        except ERRORS:
            return Truth.UNKNOWN
        return _TRUTHS[value] if value is True or value is False else Truth.UNKNOWN

    def _unknown(self, scope: Scope, error: str, *, costly: bool = False) -> Judgement:
        missing = {path.text: why for path in self.paths if (why := missing_words(path, scope)) is not None}
        if costly or not missing:
            return Judgement(truth=Truth.UNKNOWN, why="; ".join((error, *self._gaps(scope))))
        return Judgement(truth=Truth.UNKNOWN, why="; ".join(dict.fromkeys(missing.values())), unknown=tuple(missing))

    def _gaps(self, scope: Scope) -> Iterator[str]:
        """Fields missing in the items of a list: no path leads there, but they may be what the error is about."""
        for name in sorted(self.names):
            fact = scope.fact(name)
            if isinstance(fact, Known):
                yield from (f"{place} is unknown: {why}" for place, why in sorted(fact.gaps.items()))


class ComputedValue(Expression):
    """A value of ``do`` that begins with ``=``; its text is the one without it."""

    __slots__ = ()

    def value(self, scope: Scope) -> Json:
        """The value as JSON. Raises `ValueError` with the reason."""
        run = Run(values_of(scope, self.names))
        try:
            return _json(run, self.closure(run))
        except ERRORS as error:
            missing = [why for path in self.paths if (why := missing_words(path, scope)) is not None]
            raise ValueError("; ".join(dict.fromkeys(missing)) or _words(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a condition, to be judged by itself. ``offset``: where it stands in the condition's text."""

    kind: PartKind
    source: str
    offset: int
    condition: CelCondition
    parts: "tuple[Part, ...]" = ()


def condition(source: str) -> CelCondition:
    """Compiles a condition without static checks. Raises `BadSyntax`."""
    return condition_of(source, parse(source))


def condition_of(source: str, tree: Node) -> CelCondition:
    """The condition of a tree, which may be a part of another."""
    paths = tuple(dict.fromkeys(free_paths(tree)))
    names = frozenset(path.name for path in paths)
    return CelCondition(source=source, tree=tree, paths=paths, names=names, closure=compiled(tree))


def computed(source: str) -> ComputedValue:
    """Compiles a computed value without static checks. Raises `BadSyntax`."""
    return computed_of(condition(source))


def computed_of(one: CelCondition) -> ComputedValue:
    """The same text as a value."""
    return ComputedValue(source=one.source, tree=one.tree, paths=one.paths, names=one.names, closure=one.closure)


def parts(whole: CelCondition) -> Part:
    """The tree of ``&&``, ``||``, ``!`` and what they combine, each part with a condition of its own."""
    return _part(whole.source, whole.tree)


def _part(text: str, node: Node) -> Part:
    source = text[node.start : node.end]
    below = tuple(_part(text, child) for child in node.children) if node.kind in _KINDS else ()
    kind = _KINDS.get(node.kind, "leaf")
    return Part(kind=kind, source=source, offset=node.start, condition=condition_of(source, node), parts=below)


def leaves(part: Part) -> Iterator[Part]:
    """The parts that combine nothing, in the order of the text."""
    if not part.parts:
        yield part
    for one in part.parts:
        yield from leaves(one)


def values_of(scope: Scope, names: "frozenset[str] | Sequence[str]") -> dict[str, Any]:
    """What these names stand for. Unknown facts are left out: a part that takes hold of one has no value."""
    values: dict[str, Any] = {"now": scope.now}
    for name in names:
        if name in scope.extra:
            values[name] = scope.extra[name]
        elif (key := scope.keys.get(name)) is not None:
            fact = scope.observation.facts.get(key)
            if isinstance(fact, Known):
                values[name] = fact.value
    return values


def _words(error: Exception) -> str:
    return "values are nested too deeply" if isinstance(error, RecursionError) else str(error)


def missing_words(path: Path, scope: Scope) -> str | None:
    """Why a path has no value, in words; None where it has one."""
    if path.name == "now":
        return None
    if path.name in LOCAL:
        return None if path.name in scope.extra else f"{path.name} is unknown: no watched value has changed"
    key = scope.keys.get(path.name)
    if key is None:
        return f"{path.name} is unknown: its parameters are not known yet"
    fact = scope.observation.get(key)
    if isinstance(fact, Unknown):
        return f"{path.name} is unknown: {fact.why}"
    return _missing_field(path, fact)


def _missing_field(path: Path, fact: Known) -> str | None:
    value: Json = fact.value
    spelled = path.name
    for depth, name in enumerate(path.fields):
        if depth == 0 and name in fact.gaps:
            return f"{path.name}.{name} is unknown: {fact.gaps[name]}"
        if not isinstance(value, dict):
            return f"{spelled} is {_short(value)} and has no field '{name}'"
        if name not in value:
            return f"{spelled} has no field '{name}'"
        value = value[name]
        spelled += f".{name}"
    return None


def _shown(path: Path, scope: Scope) -> str:
    missing = missing_words(path, scope)
    if missing is not None:
        return missing
    if path.name == "now":
        return f"now is {scope.now:%Y-%m-%dT%H:%M:%SZ}"
    value: object = scope.extra.get(path.name) if path.name in LOCAL else _known(path, scope)
    for name in path.fields:
        value = value[name] if isinstance(value, dict) and name in value else None
    if isinstance(value, list):
        return f"{path.text} has {len(value)} {'item' if len(value) == 1 else 'items'}"
    return f"{path.text} is {_short(value)}"


def _known(path: Path, scope: Scope) -> object:
    fact = scope.fact(path.name)
    return fact.value if isinstance(fact, Known) else None


def _short(value: object) -> str:
    if isinstance(value, str):
        text = f"'{value}'"
    elif isinstance(value, bool | float | int) or value is None:
        text = json.dumps(value)
    elif isinstance(value, dict):
        text = f"a record of {len(value)} fields"
    elif isinstance(value, list):
        text = f"a list of {len(value)}"
    else:
        text = str(value)
    return text if len(text) <= SHOWN_LENGTH_MAX else text[: SHOWN_LENGTH_MAX - 1] + "…"


def _json(run: Run, value: object) -> Json:
    run.spend(1)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        return spelled(value)
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, list):
        return [_json(run, item) for item in value]
    if isinstance(value, dict):
        return {str(name): _json(run, part) for name, part in value.items()}
    raise CannotEvaluate(f"the result is {_short(value)}, which no request can carry")
