"""The truths of many conditions at one look, each question put to the engine once for all events that answer alike.

Most rules put the same few questions to ten thousand events: is the status this text, is the share above that number.
So conditions are taken apart at ``&&``, ``||`` and ``!`` into questions. What a question finds depends on the values of
the fields that it names and on nothing else; where such a value was met before, of this event or of another, its answer
is known. A field that is only compared with numbers has as many kinds of values as there are gaps between the numbers.
The engine stays the only judge of a question; all that is found out here is whether it has judged this one before.

Answers are put together as the engine does it: three-valued, an error being unknown. Conditions on the clock, on what
has changed, or on facts with parameters are not for this: see `covers`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Final, TypeAlias

from worker.model.facts import Fact, FactKey, Json, Known, Observation
from worker.model.rules import Rule, Scope, Truth
from worker.rules.cel import slice_of
from worker.rules.conditions import CelCondition, of_program
from worker.rules.evaluate import keys_for
from worker.rules.registry import BUILT_IN, LOCAL
from worker.rules.syntax import Node, Path, path_of

KEPT_MAX = 4096
"""Kinds of values remembered of one field, and combinations of answers; beyond it the remembering begins anew."""
EXACT_MAX = float(1 << 53)
"""Numbers up to here are told apart by doubles."""

Verdict: TypeAlias = tuple[int, int]
"""Which conditions are true and which unknown, as bits in the order of the conditions; the others are false."""
Kind: TypeAlias = "str | int | tuple[object, ...] | None"
"""What the questions about a value can tell of it: equal kinds have equal answers. None: it is like no other."""
_Formula: TypeAlias = Callable[[int, int], Truth]

_NO_FACT: Final = ("no fact",)
_NO_FIELD: Final = ("no field",)


def covers(rule: Rule) -> bool:
    """Whether the truth of the rule's condition follows from facts without parameters, whatever the time."""
    condition = rule.when
    if not isinstance(condition, CelCondition) or "now" in condition.names or condition.names & LOCAL:
        return False
    return not any(name in BUILT_IN and BUILT_IN[name].takes for name in condition.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    bit: int
    rule: Rule
    condition: CelCondition


@dataclass(slots=True)
class _Place:
    """The questions about the same fields. ``marks``: the numbers that these are compared with, where nothing else is
    asked of a number; None where anything may be."""

    paths: tuple[Path, ...]
    keys: tuple[FactKey, ...]
    questions: list[_Question] = field(default_factory=list)
    marks: list[float] | None = field(default_factory=list)
    known: dict[Kind, Verdict] = field(default_factory=dict)

    def add(self, question: _Question) -> None:
        self.questions.append(question)
        numbers = _compared_with(question.condition.tree)
        self.marks = None if self.marks is None or numbers is None else sorted({*self.marks, *numbers})

    def kind(self, facts: Mapping[FactKey, Fact]) -> Kind:
        """What the questions here can tell of these facts."""
        if len(self.paths) == 1:
            return _kind(self.paths[0], facts.get(self.keys[0]), self.marks)
        kinds = tuple(_kind(path, facts.get(key), None) for path, key in zip(self.paths, self.keys, strict=True))
        return None if None in kinds else kinds


class Verdicts:
    """The conditions of rules, all of which it `covers`. ``of`` gives the same truths as the very same object."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._bits: dict[str, int] = {}
        self._places: dict[tuple[Path, ...], _Place] = {}
        self._together: dict[Verdict, Verdict] = {}
        self._formulas = _Formulas()
        covered = [(rule, rule.when) for rule in rules if isinstance(rule.when, CelCondition)]
        for index, (rule, whole) in enumerate(covered):
            self._formulas.add(1 << index, self._of_node(rule, whole, whole.tree))
        self._of_records: dict[FactKey, list[tuple[str, _Place]]] = {}
        self._others: list[_Place] = []
        for place in self._places.values():
            if len(place.paths) == 1 and len(place.paths[0].fields) == 1:
                self._of_records.setdefault(place.keys[0], []).append((place.paths[0].fields[0], place))
            else:
                self._others.append(place)

    def of(self, observation: Observation, now: datetime) -> Verdict:
        """Which are true and which unknown. ``now`` makes no difference."""
        true = unknown = 0
        facts = observation.facts
        for key, places in self._of_records.items():
            fact = facts.get(key)
            record = fact.value if isinstance(fact, Known) else None
            for name, place in places:
                if isinstance(record, dict):  # the same as `_Place.kind`, without a call for what most values are
                    value = record.get(name, _NO_FIELD)
                    marks = place.marks
                    if value.__class__ is str or value is _NO_FIELD:
                        kind: Kind = value
                    elif value.__class__ is float and marks is not None:
                        kind = bisect_left(marks, value) + bisect_right(marks, value)
                    else:
                        kind = _kind_of(value, marks)  # type: ignore[arg-type] # `_NO_FIELD` was met above
                else:
                    kind = place.kind(facts)
                answers = place.known.get(kind) or _asked(place, kind, observation, now)
                true |= answers[0]
                unknown |= answers[1]
        for place in self._others:
            kind = place.kind(facts)
            answers = place.known.get(kind) or _asked(place, kind, observation, now)
            true |= answers[0]
            unknown |= answers[1]
        answered = (true, unknown)
        verdict = self._together.get(answered)
        if verdict is None:
            _make_room(self._together)
            verdict = self._together[answered] = self._formulas.of(true, unknown)
        return verdict

    def _of_node(self, rule: Rule, whole: CelCondition, node: Node) -> "_Asked | _Formula":
        if node.kind not in ("and", "or", "not"):
            return _Asked(bits=self._question(rule, whole, node), every=True)
        below = [self._of_node(rule, whole, child) for child in node.children]
        flat = [one.bits for one in below if isinstance(one, _Asked) and one.bits.bit_count() == 1]
        if node.kind != "not" and len(flat) == len(below):
            bits = 0
            for one in flat:
                bits |= one
            return _Asked(bits=bits, every=node.kind == "and")
        parts = [one.truth if isinstance(one, _Asked) else one for one in below]
        return _negation(parts[0]) if node.kind == "not" else _junction(parts, every=node.kind == "and")

    def _question(self, rule: Rule, whole: CelCondition, node: Node) -> int:
        """The bit of a question, which many conditions may ask."""
        text = whole.source[node.start : node.end]
        known = self._bits.get(text)
        if known is not None:
            return known
        bit = self._bits[text] = 1 << len(self._bits)
        one = whole if node is whole.tree else of_program(slice_of(whole.program, node), whole.contexts)
        keys = tuple(FactKey(name=path.name) for path in one.paths)
        place = self._places.setdefault(one.paths, _Place(paths=one.paths, keys=keys))
        place.add(_Question(bit=bit, rule=rule, condition=one))
        return bit


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Questions of which every one, or any one, has to be true."""

    bits: int
    every: bool

    def truth(self, true: int, unknown: int) -> Truth:
        """What these answers make of it."""
        if true & self.bits == self.bits if self.every else true & self.bits:
            return Truth.TRUE
        open_still = (true | unknown) & self.bits
        return Truth.UNKNOWN if (open_still == self.bits if self.every else open_still) else Truth.FALSE


@dataclass(slots=True)
class _Formulas:
    """How each condition follows from answers; flat ones are only bits to be compared."""

    every: list[tuple[int, int]] = field(default_factory=list)
    any: list[tuple[int, int]] = field(default_factory=list)
    others: list[tuple[int, _Formula]] = field(default_factory=list)

    def add(self, index: int, formula: "_Asked | _Formula") -> None:
        if not isinstance(formula, _Asked):
            self.others.append((index, formula))
        else:
            (self.every if formula.every else self.any).append((index, formula.bits))

    def of(self, true: int, unknown: int) -> Verdict:
        """The truths of all conditions under these answers."""
        found = maybe = 0
        either = true | unknown
        for index, bits in self.every:
            if either & bits == bits:
                if true & bits == bits:
                    found |= index
                else:
                    maybe |= index
        for index, bits in self.any:
            if either & bits:
                if true & bits:
                    found |= index
                else:
                    maybe |= index
        for index, formula in self.others:
            truth = formula(true, unknown)
            found |= index if truth is Truth.TRUE else 0
            maybe |= index if truth is Truth.UNKNOWN else 0
        return found, maybe


def _junction(parts: Sequence[_Formula], *, every: bool) -> _Formula:
    """``&&`` or ``||``: one false, or one true, decides, whatever is unknown."""
    decides, else_ = (Truth.FALSE, Truth.TRUE) if every else (Truth.TRUE, Truth.FALSE)

    def truth(true: int, unknown: int) -> Truth:
        found = {part(true, unknown) for part in parts}
        if decides in found:
            return decides
        return Truth.UNKNOWN if Truth.UNKNOWN in found else else_

    return truth


def _negation(part: _Formula) -> _Formula:
    opposite = {Truth.TRUE: Truth.FALSE, Truth.FALSE: Truth.TRUE, Truth.UNKNOWN: Truth.UNKNOWN}
    return lambda true, unknown: opposite[part(true, unknown)]


def _asked(place: _Place, kind: Kind, observation: Observation, now: datetime) -> Verdict:
    """What the engine says to the questions about some fields; it is remembered of everything of that kind."""
    true = unknown = 0
    for question in place.questions:
        scope = Scope(observation=observation, keys=keys_for(question.rule, observation, now), now=now)
        truth = question.condition.truth(scope)
        true |= question.bit if truth is Truth.TRUE else 0
        unknown |= question.bit if truth is Truth.UNKNOWN else 0
    if kind is not None:
        _make_room(place.known)
        place.known[kind] = (true, unknown)
    return true, unknown


def _kind(path: Path, fact: Fact | None, marks: list[float] | None) -> Kind:
    if not isinstance(fact, Known):
        return _NO_FACT
    value = fact.value
    for depth, name in enumerate(path.fields, start=1):
        if not isinstance(value, dict):
            return None
        if name not in value:
            return _NO_FIELD if depth == len(path.fields) else None
        value = value[name]
    return _kind_of(value, marks)


def _kind_of(value: Json, marks: list[float] | None) -> Kind:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return type(value), value
    if isinstance(value, int | float):
        number = _double(value)
        return (float, number) if marks is None else bisect_left(marks, number) + bisect_right(marks, number)
    return None


def _double(number: float) -> float:
    """The number as conditions see it."""
    try:
        return float(number)
    except OverflowError:
        return inf if number > 0 else -inf


def _compared_with(tree: Node) -> tuple[float, ...] | None:
    """The numbers that a field is compared with, if that is all that the question does; None if it does more."""
    if tree.kind != "compare":
        return None
    left, right = tree.children
    if path_of(left) is None:
        left, right = right, left
    if path_of(left) is None or (tree.text == "in" and left is not tree.children[0]):
        return None
    others = right.children if right.kind == "list" else (right,)
    numbers = tuple(_numbers(others))
    return None if None in numbers else tuple(one for one in numbers if isinstance(one, float))


def _numbers(nodes: Sequence[Node]) -> Iterator["float | str | None"]:
    """What each literal is: a number, a text for anything that is none, None for what is no literal or too large."""
    for node in nodes:
        sign, literal = (-1.0, node.children[0]) if node.kind == "negate" else (1.0, node)
        value = literal.value
        if literal.kind != "literal" or literal.literal == "bytes":
            yield None
        elif literal.literal in ("int", "uint", "double") and isinstance(value, int | float):
            number = sign * _double(value)
            yield number if abs(number) < EXACT_MAX else None
        else:
            yield literal.literal


def _make_room(known: dict[Kind, Verdict] | dict[Verdict, Verdict]) -> None:
    if len(known) >= KEPT_MAX:
        known.clear()
