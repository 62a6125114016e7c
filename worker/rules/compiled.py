"""From the tree of a condition to a function that gives its value: one closure for each part, made once.

Where an error in one part of ``&&``, ``||``, ``all`` or ``exists`` leaves the others to decide, they do, in whatever
order they stand; an error that is left is raised. Facts are JSON as the service gave it and become values where a
condition takes hold of them, so that what nobody names is never converted: numbers are doubles, times are times.
"""

import operator
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import inf
from typing import Any, Final, TypeAlias

from worker.model.facts import Json
from worker.rules.celtypes import ANY, Type
from worker.rules.functions import (
    COMPARED,
    FUNCTIONS,
    TYPES,
    CannotEvaluate,
    Run,
    Value,
    combined,
    compare,
    equal,
    item_of,
    member,
    negated,
    words_of,
)
from worker.rules.registry import BUILT_IN
from worker.rules.syntax import Node, path_of, walk

Closure: TypeAlias = Callable[[Run], Value]
Bound: TypeAlias = Mapping[str, "tuple[str, Type | None]"]
"""The names that macros around a part bind: where in a run each stands; for what is still JSON, its type."""
_Json: TypeAlias = tuple[Closure, Type]
"""What gives a value still as JSON, and the documented type of it."""
NOTHING_BOUND: Final[Bound] = {}
COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {**COMPARED, "==": operator.eq, "!=": operator.ne}
"""How two texts, or two doubles, are compared."""


def compiled(node: Node, bound: Bound = NOTHING_BOUND) -> Closure:
    """The function that gives the value of a part. It raises `CannotEvaluate` and `TooCostly`."""
    json = _json(node, bound)
    return _converted(*json) if json is not None else _COMPILERS[node.kind](node, bound)


def weight(node: Node) -> int:
    """How many steps a part takes, but for what depends on the values."""
    return sum(1 for _ in walk(node))


# --- facts: from JSON to values ---


def _json(node: Node, bound: Bound) -> _Json | None:
    """A fact, an item of one, or something below it; None for anything else."""
    if node.kind == "ident":
        name, known = bound.get(node.text, (node.text, _type_of(node.text)))
        return None if known is None else (_named(name), known)
    base = _json(node.children[0], bound) if node.kind in ("select", "index") else None
    if base is None:
        return None
    get, known = base
    if node.kind == "index" and node.children[1].literal != "string":
        key = compiled(node.children[1], bound)
        return (lambda run: item_of(get(run), key(run))), known.items or ANY
    name = node.text if node.kind == "select" else str(node.children[1].value)
    place = (
        _field_of_fact(node.children[0].text, name)
        if node.children[0].kind == "ident" and node.children[0].text not in bound
        else None
    )
    return place or (lambda run: _field(get(run), name)), (known.fields or {}).get(name, ANY)


def _unconverted(node: Node, bound: Bound) -> Closure:
    """For what asks only how large something is, or what is in it."""
    json = _json(node, bound)
    return compiled(node, bound) if json is None else json[0]


def _type_of(name: str) -> Type | None:
    """The documented type of a fact; ``previous`` has facts for fields. None for what is no JSON."""
    if name == "now":
        return None
    if name == "previous":
        return Type(kind="object", fields={fact.name: fact.type for fact in BUILT_IN.values()})
    return BUILT_IN[name].type if name in BUILT_IN else ANY


def _named(name: str) -> Closure:
    def named(run: Run) -> Value:
        try:
            value: Value = run.values[name]
        except KeyError:
            raise CannotEvaluate(f"{name} is not known") from None
        return value

    return named


def _field(record: Value, name: str) -> Value:
    try:
        return record[name]  # type: ignore[index,call-overload] # what has no fields is told below
    except (KeyError, TypeError):
        raise CannotEvaluate(f"there is no field '{name}'") from None


def _field_of_fact(fact: str, name: str) -> Closure:
    """What most conditions take hold of, in one step."""

    def field(run: Run) -> Value:
        try:
            value: Value = run.values[fact][name]
        except (KeyError, TypeError):
            raise CannotEvaluate(f"{fact} has no field '{name}'") from None
        return value

    return field


def place_of_field(node: Node, bound: Bound = NOTHING_BOUND) -> tuple[str, str] | None:
    """The fact and the field, where a part is one of the other, as it is."""
    path = path_of(node, frozenset(bound))
    if path is None or len(path.fields) != 1 or path.name == "now":
        return None
    json = _json(node, bound)
    return None if json is None or json[1].kind == "timestamp" else (path.name, path.fields[0])


def _converted(get: Closure, known: Type) -> Closure:
    if known.kind == "timestamp":
        return lambda run: value_of(run, get(run), known)

    def value(run: Run) -> Value:
        found = get(run)
        kind = found.__class__
        return found if kind is str or kind is float else value_of(run, found, known)

    return value


def value_of(run: Run, value: "Json | Value", known: Type) -> Value:
    """A value of the service as conditions see it. A time that is none is no value, and never a text."""
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return inf if value > 0 else -inf
    if isinstance(value, list):
        run.spend(len(value))
        return [value_of(run, item, known.items or ANY) for item in value]
    if isinstance(value, dict):
        run.spend(len(value))
        fields = known.fields or {}
        found: dict[str, Value] = {}
        for name, part in value.items():
            of_field = fields.get(name, ANY)
            if of_field.kind != "timestamp" or not isinstance(part, str):
                found[name] = value_of(run, part, of_field)
            elif (moment := parse_time(part)) is not None:
                found[name] = moment
        return found
    if known.kind == "timestamp" and isinstance(value, str):
        moment = parse_time(value)
        if moment is None:
            raise CannotEvaluate(f"'{value[:40]}' is no time")
        return moment
    return value


def parse_time(text: str) -> datetime | None:
    """The moment of an ISO 8601 text, UTC where it names no zone; None where it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


# --- parts that combine others ---


def _ident(node: Node, bound: Bound) -> Closure:
    return _named(bound[node.text][0] if node.text in bound else node.text)


def _literal(node: Node, _bound: Bound) -> Closure:
    value: Value = TYPES[node.text] if node.literal == "type" else node.value
    return lambda _run: value


def _select(node: Node, bound: Bound) -> Closure:
    record, name = compiled(node.children[0], bound), node.text
    return lambda run: item_of(record(run), name)


def _index(node: Node, bound: Bound) -> Closure:
    container, key = (compiled(child, bound) for child in node.children)
    return lambda run: item_of(container(run), key(run))


def _list(node: Node, bound: Bound) -> Closure:
    items = [compiled(child, bound) for child in node.children]
    return lambda run: [item(run) for item in items]


def _map(node: Node, bound: Bound) -> Closure:
    keys = [compiled(child, bound) for child in node.children[::2]]
    values = [compiled(child, bound) for child in node.children[1::2]]

    def record(run: Run) -> Value:
        found: dict[str, Value] = {}
        for key, value in zip(keys, values, strict=True):
            name = key(run)
            if not isinstance(name, str) or name in found:
                raise CannotEvaluate("the names of a record's fields are texts, each of its own")
            found[name] = value(run)
        return found

    return record


def _not(node: Node, bound: Bound) -> Closure:
    part = compiled(node.children[0], bound)

    def opposite(run: Run) -> Value:
        value = part(run)
        if value is True or value is False:
            return not value
        raise CannotEvaluate(f"! takes true or false, and this is {words_of(value)}")

    return opposite


def _negate(node: Node, bound: Bound) -> Closure:
    part = compiled(node.children[0], bound)
    return lambda run: negated(part(run))


def _if(node: Node, bound: Bound) -> Closure:
    test, yes, no = (compiled(child, bound) for child in node.children)

    def chosen(run: Run) -> Value:
        value = test(run)
        if value is True or value is False:
            return yes(run) if value else no(run)
        raise CannotEvaluate(f"? takes true or false, and this is {words_of(value)}")

    return chosen


def _logic(node: Node, bound: Bound) -> Closure:
    """``&&`` and ``||``: one part that is false, or true, decides; else an error in any part is one of the whole."""
    parts = [compiled(child, bound) for child in node.children]
    decides, symbol = (False, "&&") if node.kind == "and" else (True, "||")

    def junction(run: Run) -> Value:
        error = ""
        for part in parts:
            try:
                value = part(run)
            except CannotEvaluate as caught:
                error = error or str(caught)
                continue
            if value is decides:
                return decides
            if value is not True and value is not False:
                error = error or f"{symbol} takes true or false, and this is {words_of(value)}"
        if error:
            raise CannotEvaluate(error)
        return not decides

    return junction


def _compare(node: Node, bound: Bound) -> Closure:
    left, right = (compiled(child, bound) for child in node.children)
    name, other = node.text, node.children[1]
    if name == "in":
        return _member(node, bound)
    if name in COMPARED:

        def asked(run: Run) -> Value:
            return compare(name, left(run), right(run))
    else:
        same = name == "=="

        def asked(run: Run) -> Value:
            return equal(run, left(run), right(run)) is same

    place = place_of_field(node.children[0], bound)
    if place is None or other.literal not in ("string", "double"):
        return asked
    return _asked_of_field(*place, name, other.value, asked)


def _asked_of_field(fact: str, field: str, name: str, value: Value, asked: Closure) -> Closure:
    """What most conditions ask: a field of a fact against a text or a number. It takes half the time so."""
    kind, how = value.__class__, COMPARISONS[name]

    def beside(run: Run) -> Value:
        try:
            found = run.values[fact][field]
        except (KeyError, TypeError):
            raise CannotEvaluate(f"{fact} has no field '{field}'") from None
        return how(found, value) if found.__class__ is kind else asked(run)

    return beside


def _member(node: Node, bound: Bound) -> Closure:
    item, container = (compiled(child, bound) for child in node.children)
    listed = node.children[1]
    if listed.kind == "list" and all(one.literal == "string" for one in listed.children):
        texts = frozenset(one.value for one in listed.children)

        def among(run: Run) -> Value:
            value = item(run)
            return value.__class__ is str and value in texts

        return among
    return lambda run: member(run, item(run), container(run))


def _arithmetic(node: Node, bound: Bound) -> Closure:
    left, right = (compiled(child, bound) for child in node.children)
    name = node.text
    return lambda run: combined(run, name, left(run), right(run))


def _call(node: Node, bound: Bound) -> Closure:
    if node.text == "has":
        record, name = _unconverted(node.children[0].children[0], bound), node.children[0].text

        def present(run: Run) -> Value:
            value = record(run)
            if not isinstance(value, dict):
                raise CannotEvaluate(f"{words_of(value)} has no fields")
            return name in value

        return present
    function = FUNCTIONS.get(node.text)
    argument_of = _unconverted if node.text == "size" else compiled
    arguments = [argument_of(child, bound) for child in node.children]
    if function is None or not function.takes_so_many(len(arguments)):
        wrong = f"'{node.text}' is not called so" if function else f"unknown function '{node.text}'"

        def unknown(_run: Run) -> Value:
            raise CannotEvaluate(wrong)

        return unknown
    call = function.call
    return lambda run: call(run, [argument(run) for argument in arguments])


# --- macros ---


def _macro(node: Node, bound: Bound) -> Closure:
    target, variable, *bodies = node.children
    slot = f"{variable.text}@{node.at}"  # no name, and no other macro's
    json = _json(target, bound)
    over, known = (compiled(target, bound), None) if json is None else (json[0], json[1].items or ANY)
    inner = {**bound, variable.text: (slot, known)}
    steps = sum(weight(body) for body in bodies)

    def items(run: Run) -> "list[Value]":
        found = over(run)
        if isinstance(found, list):
            return found
        if isinstance(found, dict):
            return list(found)
        raise CannotEvaluate(f"'{node.text}' goes over a list, and this is {words_of(found)}")

    parts = [compiled(body, inner) for body in bodies]
    if node.text in ("all", "exists"):
        return _quantified(node.text, items, slot, parts[0], steps)
    if node.text == "map":
        return _mapped(items, slot, parts, steps)
    test = parts[0]

    def chosen(run: Run) -> "list[Value]":
        found = []
        for item in items(run):
            run.spend(steps)
            run.values[slot] = item
            if _truth(test(run), node.text):
                found.append(item if known is None else value_of(run, item, known))
        return found

    return chosen if node.text == "filter" else lambda run: len(chosen(run)) == 1


def _quantified(name: str, items: "Callable[[Run], list[Value]]", slot: str, test: Closure, steps: int) -> Closure:
    decides = name == "exists"

    def quantified(run: Run) -> Value:
        error = ""
        for item in items(run):
            run.spend(steps)
            run.values[slot] = item
            try:
                if _truth(test(run), name) is decides:
                    return decides
            except CannotEvaluate as caught:
                error = error or str(caught)
        if error:
            raise CannotEvaluate(error)
        return not decides

    return quantified


def _mapped(items: "Callable[[Run], list[Value]]", slot: str, parts: list[Closure], steps: int) -> Closure:
    *tests, give = parts

    def mapped(run: Run) -> Value:
        found = []
        for item in items(run):
            run.spend(steps)
            run.values[slot] = item
            if all(_truth(test(run), "map") for test in tests):
                found.append(give(run))
        return found

    return mapped


def _truth(value: Value, macro: str) -> bool:
    if value is True or value is False:
        return value
    raise CannotEvaluate(f"'{macro}' takes a condition, and this is {words_of(value)}")


_COMPILERS: Final[Mapping[str, Callable[[Node, Bound], Closure]]] = {
    "literal": _literal,
    "ident": _ident,
    "select": _select,
    "index": _index,
    "call": _call,
    "macro": _macro,
    "list": _list,
    "map": _map,
    "not": _not,
    "negate": _negate,
    "and": _logic,
    "or": _logic,
    "if": _if,
    "compare": _compare,
    "arithmetic": _arithmetic,
}
