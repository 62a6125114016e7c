"""Compiled conditions and computed values: facts in, a judgement out, with words that a person can check.

The engine says true, false or an error; here an error becomes *unknown*, and the words name the fact that is missing
and why, because "unknown" alone helps nobody. It evaluates and never waits, reads or remembers (but for the contexts
that are shared between the conditions of one event).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from worker.model.facts import Json, Known, Unknown, spelled
from worker.model.rules import Judgement, Scope, Truth
from worker.rules.cel import CannotEvaluate, Program, compile_source, slice_of
from worker.rules.contexts import Contexts
from worker.rules.durations import duration_text
from worker.rules.registry import LOCAL
from worker.rules.syntax import Node, Path, free_paths, names_of

PartKind: TypeAlias = Literal["and", "or", "not", "leaf"]
_KINDS: Mapping[str, PartKind] = {"and": "and", "or": "or", "not": "not"}
SHOWN_LENGTH_MAX = 60
SHOWN_PATHS_MAX = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class CelCondition:
    """A compiled ``when``. Two are equal if their texts are."""

    program: Program
    contexts: Contexts = field(compare=False, repr=False)
    names: frozenset[str]
    paths: tuple[Path, ...]

    @property
    def source(self) -> str:
        """The text as written."""
        return self.program.source

    @property
    def tree(self) -> Node:
        """The syntax tree, with places."""
        return self.program.tree

    def judge(self, scope: Scope) -> Judgement:
        """True, false or unknown, and why."""
        truth, error = self._evaluated(scope)
        if truth is Truth.UNKNOWN:
            return self._unknown(scope, error)
        why = "; ".join(_shown(path, scope) for path in self.paths[:SHOWN_PATHS_MAX])
        return Judgement(truth=truth, why=why or f"'{self.source}' is constant")

    def truth(self, scope: Scope) -> Truth:
        """The same without the words, which take longer than the judging."""
        return self._evaluated(scope)[0]

    def _evaluated(self, scope: Scope) -> tuple[Truth, str]:
        try:
            value = self.program.run(self.contexts.of(scope))
        except CannotEvaluate as error:
            return Truth.UNKNOWN, str(error)
        if value is True or value is False:
            return (Truth.TRUE if value else Truth.FALSE), ""
        return Truth.UNKNOWN, f"the result is {_short(value)}, neither true nor false"

    def _gaps(self, scope: Scope) -> Iterator[str]:
        """Fields missing in the items of a list: no path leads there, but they may be what the error is about."""
        for name in sorted(self.names):
            fact = scope.fact(name)
            if isinstance(fact, Known):
                yield from (f"{place} is unknown: {why}" for place, why in sorted(fact.gaps.items()))

    def _unknown(self, scope: Scope, error: str) -> Judgement:
        missing = {path.text: why for path in self.paths if (why := missing_words(path, scope)) is not None}
        why = "; ".join(dict.fromkeys(missing.values())) or "; ".join((error, *self._gaps(scope)))
        return Judgement(truth=Truth.UNKNOWN, why=why, unknown=tuple(missing))


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedValue:
    """A value of ``do`` that begins with ``=``."""

    program: Program
    contexts: Contexts = field(compare=False, repr=False)
    names: frozenset[str]
    paths: tuple[Path, ...]

    @property
    def source(self) -> str:
        """The text as written, without the ``=``."""
        return self.program.source

    @property
    def tree(self) -> Node:
        """The syntax tree, with places."""
        return self.program.tree

    def value(self, scope: Scope) -> Json:
        """The value as JSON. Raises `ValueError` with the reason."""
        try:
            return _json(self.program.run(self.contexts.of(scope)))
        except CannotEvaluate as error:
            missing = [why for path in self.paths if (why := missing_words(path, scope)) is not None]
            raise ValueError("; ".join(dict.fromkeys(missing)) or str(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a condition, to be judged by itself. ``offset``: where it stands in the condition's text."""

    kind: PartKind
    source: str
    offset: int
    condition: CelCondition
    parts: "tuple[Part, ...]" = ()


def condition(source: str, contexts: Contexts | None = None) -> CelCondition:
    """Compiles a condition without static checks. Raises `BadSyntax`."""
    return of_program(compile_source(source), contexts)


def of_program(program: Program, contexts: Contexts | None = None) -> CelCondition:
    """The condition of a compiled text."""
    paths, shared = _registered(program, contexts)
    return CelCondition(program=program, contexts=shared, names=names_of(program.tree), paths=paths)


def computed(program: Program, contexts: Contexts | None = None) -> ComputedValue:
    """The computed value of a compiled text."""
    paths, shared = _registered(program, contexts)
    return ComputedValue(program=program, contexts=shared, names=names_of(program.tree), paths=paths)


def parts(whole: CelCondition) -> Part:
    """The tree of ``&&``, ``||``, ``!`` and what they combine, each part with a program of its own."""
    return _part(whole, whole.tree)


def _part(whole: CelCondition, node: Node) -> Part:
    own = of_program(slice_of(whole.program, node), whole.contexts)
    below = tuple(_part(whole, child) for child in node.children) if node.kind in _KINDS else ()
    return Part(kind=_KINDS.get(node.kind, "leaf"), source=own.source, offset=node.start, condition=own, parts=below)


def leaves(part: Part) -> Iterator[Part]:
    """The parts that combine nothing, in the order of the text."""
    if not part.parts:
        yield part
    for one in part.parts:
        yield from leaves(one)


def _registered(program: Program, contexts: Contexts | None) -> tuple[tuple[Path, ...], Contexts]:
    paths = tuple(dict.fromkeys(free_paths(program.tree)))
    shared = contexts if contexts is not None else Contexts()
    shared.register(paths)
    return paths, shared


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


def _json(value: object) -> Json:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        return spelled(value)
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, list):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _json(part) for name, part in value.items()}
    raise CannotEvaluate(f"the result is {_short(value)}, which no request can carry")
