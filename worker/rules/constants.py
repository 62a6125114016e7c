"""Conditions that can never, or must always, be true, and pairs that exclude each other.

A condition is taken apart into alternatives, each a list of claims that hold together: a value is among these literals
or is not, lies between these numbers, or a part that is not understood holds or does not. An alternative whose claims
contradict each other is impossible, and a condition of impossible alternatives is never true; one whose opposite is
never true is always true. What is not certain is None. Only what follows from the text and the document is claimed; an
undocumented value, or a set that the document leaves open, can be anything.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

from worker.rules.celtypes import Type
from worker.rules.compiled import parse_time
from worker.rules.durations import parse_duration
from worker.rules.syntax import Node, path_of

ALTERNATIVES_MAX = 256
"""A condition of more alternatives than this is not judged."""
_INFINITY = float("inf")
_Literal: TypeAlias = tuple[str, str | int | float | bool | None]
_MIRRORED: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_ORDERED = frozenset({"<", "<=", ">", ">="})
_OPPOSITE: Mapping[str, str] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """Something about one value. ``among``: it is one of these literals, or none of them where ``outside``. Else
    ``operator`` and ``bound``: how it lies to a number. Neither: the part itself holds, or does not where ``outside``.
    """

    subject: str
    among: frozenset[_Literal] | None = None
    outside: bool = False
    operator: str = ""
    bound: float = 0.0


_Alternatives: TypeAlias = "list[frozenset[_Claim]] | None"


def constant_truth(node: Node, names: Mapping[str, Type]) -> bool | None:
    """The truth of a condition that is the same whatever the facts say; None where it depends on them."""
    if _impossible(_alternatives(node, wanted=True), names):
        return False
    return True if _impossible(_alternatives(node, wanted=False), names) else None


def exclude_each_other(first: Node, second: Node, names: Mapping[str, Type]) -> bool:
    """Whether the two can certainly not be true at once."""
    return _impossible(_both(_alternatives(first, wanted=True), _alternatives(second, wanted=True)), names)


def only_value(node: Node, subject: str) -> str | None:
    """The one value that a path must have wherever the condition is true, in words; None where there may be several."""
    found: set[_Literal] = set()
    for claims in _alternatives(node, wanted=True) or ():
        sets = [one.among for one in claims if one.subject == subject and one.among is not None and not one.outside]
        if not sets:
            return None
        found |= frozenset.intersection(*sets)
    if len(found) != 1:
        return None
    ((kind, value),) = found
    return f"'{value}'" if kind == "string" else str(value).lower()


def _impossible(alternatives: _Alternatives, names: Mapping[str, Type]) -> bool:
    return alternatives is not None and all(_contradicts(one, names) for one in alternatives)


def _alternatives(node: Node, *, wanted: bool) -> _Alternatives:
    """What a condition's being true, or false where that is ``wanted``, can come down to. None: too many ways."""
    if node.kind == "literal" and isinstance(node.value, bool):
        return [frozenset()] if node.value == wanted else []
    if node.kind == "not":
        return _alternatives(node.children[0], wanted=not wanted)
    if node.kind in ("and", "or"):
        parts = [_alternatives(child, wanted=wanted) for child in node.children]
        if (node.kind == "and") != wanted:
            return _either(parts)
        found = parts[0]
        for part in parts[1:]:
            found = _both(found, part)
        return found
    if node.kind == "if":
        test, yes, no = node.children
        first = _both(_alternatives(test, wanted=True), _alternatives(yes, wanted=wanted))
        return _either([first, _both(_alternatives(test, wanted=False), _alternatives(no, wanted=wanted))])
    return _of_claim(node, wanted=wanted)


def _either(parts: Iterable[_Alternatives]) -> _Alternatives:
    found: list[frozenset[_Claim]] = []
    for part in parts:
        if part is None:
            return None
        found.extend(part)
    return found if len(found) <= ALTERNATIVES_MAX else None


def _both(first: _Alternatives, second: _Alternatives) -> _Alternatives:
    if first == [] or second == []:
        return []
    if first is None or second is None or len(first) * len(second) > ALTERNATIVES_MAX:
        return None
    return [left | right for left, right in product(first, second)]


def _of_claim(node: Node, *, wanted: bool) -> _Alternatives:
    """A part that combines nothing."""
    if node.kind == "compare":
        left, right = node.children
        holds = _of_literals(_value(left), node.text, _value(right)) if left.kind == right.kind == "literal" else None
        if holds is not None:
            return [frozenset()] if holds == wanted else []
        claim = _of_members(left, right, wanted=wanted) if node.text == "in" else _of_comparison(node, wanted=wanted)
        if claim is not None:
            return [frozenset({claim})]
    if node.kind in ("select", "index", "ident"):
        return [frozenset({_Claim(subject=_spelled(node), among=frozenset({("bool", wanted)}))})]
    return [frozenset({_Claim(subject=_spelled(node), outside=not wanted)})]


def _of_literals(left: _Literal, operator: str, right: _Literal) -> bool | None:
    if operator in ("==", "!="):
        return (left == right) == (operator == "==")
    first, second = left[1], right[1]
    if not isinstance(first, int | float) or not isinstance(second, int | float):
        return None
    low, high = (first, second) if operator in ("<", "<=") else (second, first)
    return low < high or (operator in ("<=", ">=") and low == high)


def _of_members(item: Node, listed: Node, *, wanted: bool) -> _Claim | None:
    if listed.kind != "list" or any(one.kind != "literal" for one in listed.children):
        return None
    values = frozenset(_value(one) for one in listed.children)
    return _Claim(subject=_spelled(item), among=values, outside=not wanted)


def _of_comparison(node: Node, *, wanted: bool) -> _Claim | None:
    left, right = node.children
    operator = node.text
    if left.kind == "literal" or _moment(left) is not None:
        left, right, operator = right, left, _MIRRORED[operator]
    if not wanted:
        operator = _OPPOSITE[operator]
    if right.kind != "literal" and (moment := _moment(right)) is not None:
        return _Claim(subject=_spelled(left), operator=operator, bound=moment) if operator in _ORDERED else None
    if right.kind != "literal":
        same = operator in ("==", "!=")
        return _Claim(subject=" == ".join(map(_spelled, (left, right))), outside=operator == "!=") if same else None
    if operator in ("==", "!="):
        return _Claim(subject=_spelled(left), among=frozenset({_value(right)}), outside=operator == "!=")
    kind, bound = _value(right)
    if kind != "number" or not isinstance(bound, int | float):
        return None
    return _Claim(subject=_spelled(left), operator=operator, bound=float(bound))


def _moment(node: Node) -> float | None:
    """The seconds of a duration, or of a time since 1970, that is written out; None for anything else."""
    if node.kind != "call" or node.method or len(node.children) != 1 or node.children[0].literal != "string":
        return None
    text = str(node.children[0].value)
    if node.text == "timestamp":
        at = parse_time(text)
        return None if at is None else at.timestamp()
    if node.text != "duration":
        return None
    # One that is misspelt is a mistake of the rule, and was found before anybody asks for claims.
    return (-1.0 if text.startswith("-") else 1.0) * parse_duration(text.removeprefix("-")).total_seconds()


def _value(node: Node) -> _Literal:
    """A literal, apart from those of other kinds that Python takes for equal."""
    return ("number" if node.literal in ("int", "uint", "double") else node.literal, node.value)


def _spelled(node: Node) -> str:
    """The same text for parts that mean the same, however they are spaced: ``event.x`` is ``event['x']``."""
    path = path_of(node)
    if path is not None:
        return path.text
    parts = ", ".join(_spelled(child) for child in node.children)
    return f"{node.kind} {node.text} {'.' if node.method else ''}({parts})"


@dataclass(slots=True)
class _Room:
    """What is left for one value: these literals (None: any) and these numbers."""

    among: frozenset[_Literal] | None
    without: set[_Literal] = field(default_factory=set)
    low: tuple[float, bool] = (-_INFINITY, False)
    high: tuple[float, bool] = (_INFINITY, False)
    ordered: bool = False

    def take(self, claim: _Claim) -> None:
        """Makes the room as much smaller as the claim says."""
        if claim.operator:
            self.ordered = True
            limit = (claim.bound, claim.operator in ("<", ">"))
            if claim.operator in (">", ">="):
                self.low = max(self.low, limit)
            else:
                self.high = min(self.high, limit, key=lambda one: (one[0], not one[1]))
            return
        among = claim.among or frozenset()
        if claim.outside:
            self.without |= among
        else:
            self.among = among if self.among is None else self.among & among

    @property
    def empty(self) -> bool:
        """Nothing is left."""
        if self.among is not None:
            return not any(self._inside(one) for one in self.among - self.without)
        (low, above), (high, below) = self.low, self.high
        alone = ("number", low) in self.without or above or below
        return self.ordered and (low > high or (low == high and alone))

    def _inside(self, one: _Literal) -> bool:
        kind, value = one
        if not self.ordered:
            return True
        if kind != "number" or not isinstance(value, int | float):
            return False
        (low, above), (high, below) = self.low, self.high
        return (value > low if above else value >= low) and (value < high if below else value <= high)


def _contradicts(claims: frozenset[_Claim], names: Mapping[str, Type]) -> bool:
    opaque = {(claim.subject, claim.outside) for claim in claims if claim.among is None and not claim.operator}
    if any((subject, not outside) in opaque for subject, outside in opaque):
        return True
    rooms: dict[str, _Room] = {}
    for claim in claims:
        if claim.among is not None or claim.operator:
            room = rooms.setdefault(claim.subject, _Room(among=_documented(claim.subject, names)))
            if claim.subject.startswith("call size ") and claim.operator:
                room.low = max(room.low, (0.0, False))
            room.take(claim)
    return any(room.empty for room in rooms.values())


def _documented(subject: str, names: Mapping[str, Type]) -> frozenset[_Literal] | None:
    """All values that a field can have; None where the document does not say."""
    name, *fields = subject.split(".")
    found: Type | None = names.get(name)
    for part in fields:
        found = (found.fields or {}).get(part) if found is not None else None
    if found is None:
        return None
    if found.kind == "bool":
        return frozenset({("bool", True), ("bool", False)})
    if found.open_set or found.nullable or not found.values:
        return None
    return frozenset(("string", value) for value in found.values)
