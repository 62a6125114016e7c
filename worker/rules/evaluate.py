"""From the tree of a condition to what it is of an event: a closure for each part, made once, run for each event.

Where an error in one part of ``&&``, ``||``, ``all`` or ``exists`` leaves the others to decide, they do, in whatever
order they stand; one that is left makes the whole *unknown*, in words that name what is missing. Facts are JSON as the
service gave it, and become values where a condition takes hold of them: numbers are doubles, times are times.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf
from typing import Any, Final, TypeAlias

from worker.model.facts import FactKey, Json, Known, Observation, parse_time, spelled
from worker.model.rules import Judgement, Rule, Scope, Truth
from worker.rules.cel import (
    RECORDED,
    SINCE,
    THEN,
    WRITE,
    BadSyntax,
    Node,
    Path,
    free_paths,
    names_of,
    parse,
    past_name,
    path_of,
    walk,
)
from worker.rules.facts import NOT_READ, STEPS_MAX, Run, TooCostly, gaps, missing_words, short, shown, values_of
from worker.rules.functions import (
    COMPARED,
    FUNCTIONS,
    MACRO_ABOUT,
    CannotEvaluate,
    Value,
    combined,
    compare,
    item_of,
    member,
    negated,
    words_of,
)
from worker.rules.registry import ANY, BUILT_IN, LOCAL, MADE, Type
from worker.rules.spelling import duration_text

SHOWN_PATHS_MAX: Final = 6
ERRORS: Final = (CannotEvaluate, TooCostly, RecursionError)
_TRUTHS: Final[Mapping[bool, Truth]] = {True: Truth.TRUE, False: Truth.FALSE}
Closure: TypeAlias = Callable[[Run], Value]
Bound: TypeAlias = Mapping[str, "tuple[str, Type | None]"]
"""The names that macros around a part bind: where in a run each stands; for what is still JSON, its type."""
_Json: TypeAlias = tuple[Closure, Type]
"""What gives a value still as JSON, and the documented type of it."""
NOTHING_BOUND: Final[Bound] = {}
EVENTS: Final = "events"
COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {**COMPARED, "==": operator.eq, "!=": operator.ne}
"""How two texts, or two doubles, are compared."""


def compiled(node: Node, bound: Bound = NOTHING_BOUND) -> Closure:
    """The function that gives the value of a part. It raises `CannotEvaluate` and `TooCostly`."""
    json = _json(node, bound)
    if json is not None:
        get, known = json
        return lambda run: value_of(run, get(run), known)
    made = _COMPILERS[node.kind](node, bound)
    return _once(made) if node.kind in ("call", "macro") and not bound and names_of(node) == {EVENTS} else made


def _once(of: Closure) -> Closure:
    """What is about all events and not about one is the same for each of them: it is evaluated once for a list."""
    last: list[Any] = [None, None, None]

    def once(run: Run) -> Value:
        events = run.values.get(EVENTS)
        if events is None or last[0] is not events:
            try:
                last[:] = events, of(run), None
            except CannotEvaluate as error:
                last[:] = events, None, error
        if last[2] is not None:
            raise last[2]
        value: Value = last[1]
        return value

    return once


def item_steps(bodies: Sequence[Node]) -> int:
    """What a macro takes for each item beside what depends on values: a step for each part, and two for itself."""
    return 2 + sum(1 for body in bodies for _ in walk(body))


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
    below = (known.fields or {}).get(name, ANY)
    return (lambda run: _field(get(run), name)), below


def _unconverted(node: Node, bound: Bound) -> Closure:
    """For what asks only how large something is, or what is in it."""
    json = _json(node, bound)
    return compiled(node, bound) if json is None else json[0]


def _type_of(name: str) -> Type | None:
    """The documented type of a fact; ``previous`` has facts for fields. None for what is no JSON."""
    name = name.partition(THEN)[0]
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


def place_of_field(node: Node) -> tuple[str, str] | None:
    """The fact and the field, where a part is one of the other, as it is."""
    path = path_of(node)
    if path is None or len(path.fields) != 1 or path.name == "now":
        return None
    json = _json(node, NOTHING_BOUND)
    return None if json is None or json[1].kind == "timestamp" else (path.name, path.fields[0])


def value_of(run: Run, value: "Json | Value", known: Type) -> Value:
    """A value of the service as conditions see it. A time that is none is no value, and never a text."""
    if isinstance(value, float) or (isinstance(value, str) and known.kind != "timestamp"):
        return value  # most are one of these
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
        found: dict[str, Value] = {}
        for name, part in value.items():
            with suppress(CannotEvaluate):  # a time that is none is left out
                found[name] = value_of(run, part, (known.fields or {}).get(name, ANY))
        return found
    if known.kind == "timestamp" and isinstance(value, str):
        moment = parse_time(value)
        if moment is None:
            raise CannotEvaluate(f"'{value[:40]}' is no time")
        return moment
    return value


# --- parts that combine others ---


def _literal(node: Node, _bound: Bound) -> Closure:
    value = node.value
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
    return lambda run: not _true(part(run), "!")


def _negate(node: Node, bound: Bound) -> Closure:
    part = compiled(node.children[0], bound)
    return lambda run: negated(part(run))


def _if(node: Node, bound: Bound) -> Closure:
    test, yes, no = (compiled(child, bound) for child in node.children)
    return lambda run: yes(run) if _true(test(run), "?") else no(run)


def _true(value: Value, taker: str) -> bool:
    if value is True or value is False:
        return value
    raise CannotEvaluate(f"'{taker}' takes true or false, and this is {words_of(value)}")


def _logic(node: Node, bound: Bound) -> Closure:
    parts = [compiled(child, bound) for child in node.children]
    return _decided(lambda _run: parts, *((False, "&&") if node.kind == "and" else (True, "||")))


def _decided(parts: Callable[[Run], Iterable[Closure]], decides: bool, taker: str) -> Closure:  # noqa: FBT001 - the value that is looked for
    """One part that is what decides is enough, whatever the others are; else an error in any is one of the whole."""

    def decided(run: Run) -> Value:
        error = ""
        for part in parts(run):
            try:
                value = part(run)
            except CannotEvaluate as caught:
                error = error or str(caught)
                continue
            if value is decides:
                return decides
            if value is not True and value is not False:
                error = error or f"'{taker}' takes true or false, and this is {words_of(value)}"
        if error:
            raise CannotEvaluate(error)
        return not decides

    return decided


def _compare(node: Node, bound: Bound) -> Closure:
    left, right = (compiled(child, bound) for child in node.children)
    name = node.text
    if name == "in":
        return _member(node.children[1], left, right)
    if name in ("==", "!="):
        return lambda run: run.equal(left(run), right(run)) is (name == "==")
    return lambda run: compare(name, left(run), right(run))


def _member(listed: Node, item: Closure, container: Closure) -> Closure:
    if listed.kind != "list" or any(one.literal != "string" for one in listed.children):
        return lambda run: member(run, item(run), container(run))
    texts = frozenset(one.value for one in listed.children)

    def among(run: Run) -> Value:
        value = item(run)
        return value.__class__ is str and value in texts

    return among


def _arithmetic(node: Node, bound: Bound) -> Closure:
    left, right = (compiled(child, bound) for child in node.children)
    name = node.text
    return lambda run: combined(run, name, left(run), right(run))


def _call(node: Node, bound: Bound) -> Closure:
    if node.text in _SPECIAL and not node.method:
        takes = 2 if node.text in RECORDED else 1
        if len(node.children) != takes or not (node.text == "known" or path_of(node.children[0], frozenset(bound))):
            raise BadSyntax(node.at, f"'{node.text}' takes a field of a fact", f"write {MACRO_ABOUT[node.text]}")
        return _SPECIAL[node.text](node, bound)
    if node.text == "has":
        record, name = _unconverted(node.children[0].children[0], bound), node.children[0].text
        return lambda run: name in _record(record(run))
    function = FUNCTIONS.get(node.text)
    take = _unconverted if node.text == "size" else compiled
    arguments = [take(child, bound) for child in node.children]
    if function is None or not function.takes_so_many(len(arguments)):
        raise BadSyntax(node.at, f"'{node.text}' is no function, or is not called so")
    call = function.call
    return lambda run: call(run, [argument(run) for argument in arguments])


def _known(node: Node, bound: Bound) -> Closure:
    """Whether there is a value. Of what nobody has asked for yet it cannot be said."""
    asked = compiled(node.children[0], bound)
    names = [f"{NOT_READ}{path.name}" for path in free_paths(node.children[0], frozenset(bound))]

    def known(run: Run) -> Value:
        if any(name in run.values for name in names):
            raise CannotEvaluate("it was not read yet")
        try:
            asked(run)
        except CannotEvaluate:
            return False
        return True

    return known


def _ago(node: Node, bound: Bound) -> Closure:
    """The same field of the fact as it was then."""
    return compiled(_then(node.children[0], node), bound)


def _then(node: Node, call: Node) -> Node:
    if node.kind == "ident":
        return replace(node, text=past_name(node.text, call))
    return replace(node, children=(_then(node.children[0], call), *node.children[1:]))


def _since(node: Node, bound: Bound) -> Closure:
    """The field less what it was when the write was sent that the rule comes after, which is kept with that write."""
    return _less(node, bound, compiled(_kept(node.children[0]), bound))


def _kept(node: Node) -> Node:
    if node.kind != "ident":
        return replace(node, children=(_kept(node.children[0]), *node.children[1:]))
    kept = replace(node, kind="select", text=SINCE, children=(replace(node, text=WRITE),))
    return replace(node, kind="select", children=(kept,))


def _less(node: Node, bound: Bound, then: Closure) -> Closure:
    now = compiled(node.children[0], bound)

    def less(run: Run) -> Value:
        values = now(run), then(run)
        if any(one.__class__ is not float for one in values):
            raise CannotEvaluate(f"'{node.text}' takes a number")
        return combined(run, "-", *values)

    return less


_SPECIAL: Final[Mapping[str, Callable[[Node, Bound], Closure]]] = {
    "known": _known,
    "ago": _ago,
    "delta": lambda node, bound: _less(node, bound, _ago(node, bound)),
    SINCE: _since,
}


def _record(value: Value) -> "dict[str, Value]":
    if isinstance(value, dict):
        return value
    raise CannotEvaluate(f"{words_of(value)} has no fields")


def _macro(node: Node, bound: Bound) -> Closure:
    target, variable, *bodies = node.children
    slot = f"{variable.text}@{node.at}"  # no name, and no other macro's
    json = _json(target, bound)
    over, known = (compiled(target, bound), None) if json is None else (json[0], json[1].items or ANY)
    *tests, last = (compiled(body, {**bound, variable.text: (slot, known)}) for body in bodies)
    steps, name = item_steps(bodies), node.text

    def each(run: Run) -> Iterator[Value]:
        """Binds one item after the other."""
        items = over(run)
        if not isinstance(items, list | dict):
            raise CannotEvaluate(f"'{name}' goes over a list, and this is {words_of(items)}")
        for item in items:
            run.spend(steps)
            run.values[slot] = item
            yield item

    def chosen(run: Run) -> list[Value]:
        items = (item for item in each(run) if _true(last(run), name))
        return [item if known is None else value_of(run, item, known) for item in items]

    if name in ("all", "exists"):
        return _decided(lambda run: (last for _ in each(run)), name == "exists", name)
    if name == "map":
        return lambda run: [last(run) for _ in each(run) if all(_true(test(run), name) for test in tests)]
    return chosen if name == "filter" else lambda run: len(chosen(run)) == 1


_COMPILERS: Final[Mapping[str, Callable[[Node, Bound], Closure]]] = {
    "literal": _literal,
    "ident": lambda node, bound: _named(bound.get(node.text, (node.text, None))[0]),
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


# --- conditions and computed values ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A text that was compiled: a ``when``, or a value of ``do``, which is written behind a ``=``. Two are equal if
    their texts are. ``names`` are those of facts and of ``now``; ``past``: those of facts as they were."""

    source: str
    tree: Node = field(compare=False, repr=False)
    paths: tuple[Path, ...] = field(compare=False, repr=False)
    names: frozenset[str] = field(compare=False)
    past: frozenset[str] = field(compare=False)
    closure: Closure = field(compare=False, repr=False)

    def judge(self, scope: Scope) -> Judgement:
        """True, false or unknown, and why."""
        try:
            value = self.closure(Run(values_of(scope, (*self.names, *self.past))))
            if isinstance(value, bool):
                seen = "; ".join(dict.fromkeys(shown(path, scope) for path in self.paths[:SHOWN_PATHS_MAX]))
                return Judgement(truth=_TRUTHS[value], why=seen or f"'{self.source}' is constant")
            error: Exception = CannotEvaluate(f"the result is {short(value)}, neither true nor false")
        except ERRORS as caught:
            error = caught
        missing = {path.text: why for path in self.paths if (why := missing_words(path, scope)) is not None}
        if missing and not isinstance(error, TooCostly):
            why = "; ".join(dict.fromkeys(missing.values()))
            return Judgement(truth=Truth.UNKNOWN, why=why, unknown=tuple(missing))
        return Judgement(truth=Truth.UNKNOWN, why="; ".join((_words(error), *gaps(self.names, scope))))

    def truth(self, scope: Scope) -> Truth:
        """The same without the words, which take longer than the judging."""
        try:
            value = self.closure(Run(values_of(scope, (*self.names, *self.past))))
        except ERRORS:
            return Truth.UNKNOWN
        return _TRUTHS[value] if isinstance(value, bool) else Truth.UNKNOWN

    def value(self, scope: Scope) -> Json:
        """The value as JSON. Raises `ValueError` with the reason."""
        run = Run(values_of(scope, (*self.names, *self.past)))
        try:
            return _spelled(run, self.closure(run))
        except ERRORS as error:
            missing = [why for path in self.paths if (why := missing_words(path, scope)) is not None]
            raise ValueError("; ".join(dict.fromkeys(missing)) or _words(error)) from None


def expression(source: str) -> Expression:
    """Compiles a text without static checks. Raises `BadSyntax`."""
    return expression_of(source, parse(source))


def expression_of(source: str, tree: Node) -> Expression:
    """The expression of a tree, which may be a part of another. Raises `BadSyntax`."""
    paths = tuple(dict.fromkeys(free_paths(tree)))
    names = frozenset(path.name for path in paths)
    past = frozenset(name for name in names if THEN in name)
    return Expression(source=source, tree=tree, paths=paths, names=names - past, past=past, closure=compiled(tree))


def leaves(whole: Expression) -> Iterator[Expression]:
    """The parts that combine no others by ``&&``, ``||`` or ``!``, in the order of the text."""

    def below(node: Node) -> Iterator[Expression]:
        if node.kind not in ("and", "or", "not"):
            yield expression_of(whole.source[node.start : node.end], node)
        for child in node.children if node.kind in ("and", "or", "not") else ():
            yield from below(child)

    return below(whole.tree)


def _words(error: Exception) -> str:
    return "values are nested too deeply" if isinstance(error, RecursionError) else str(error)


def _spelled(run: Run, value: Value) -> Json:
    """A value as a request carries it."""
    run.spend(1)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        return spelled(value)
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, list):
        return [_spelled(run, item) for item in value]
    return {name: _spelled(run, part) for name, part in value.items()}


# --- many conditions over one event ---

Verdict: TypeAlias = tuple[int, int]
"""Which conditions are true and which unknown, as bits in the order of the conditions; the others are false."""
_Conditions: TypeAlias = list[tuple[int, Closure]]
_Question: TypeAlias = tuple[type, Callable[[object, object], bool], Value, _Conditions]
"""What a field is compared with, how, and which conditions are false where that is."""


def covers(rule: Rule) -> bool:
    """Whether the truth of the rule's condition follows from facts without parameters, whatever the time."""
    condition = rule.when
    if not isinstance(condition, Expression) or "now" in condition.names or condition.names & (LOCAL | MADE):
        return False
    if condition.past or any((node.kind, node.text) == ("call", "known") for node in walk(condition.tree)):
        return False
    return not any(name in BUILT_IN and BUILT_IN[name].takes for name in condition.names)


class Verdicts:
    """The conditions of rules, all of which it `covers`. Most begin by comparing a field, as in ``event.status ==
    'active' && …``, and most are false by that: so it is asked first, once for all that begin alike."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        conditions = [rule.when for rule in rules if isinstance(rule.when, Expression)]
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
