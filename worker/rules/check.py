"""Static checks of a condition: everything that is known to be wrong before the first event is looked at.

At run time a misspelt field is one more unknown and a rule that silently never fires; here it is an error with a place
and the right name. Only what the API document says is used: what it leaves open is never complained of. Comparing with
a value outside a documented set is a warning, because the document can be older than the service.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from worker.model.errors import Code
from worker.rules import remedies
from worker.rules.cel import RECORDED, SINCE, WRITE, Node, Path, meaning_of, path_of, walk
from worker.rules.evaluate import COMPARISONS, item_steps
from worker.rules.facts import STEPS_MAX, Run, TooCostly
from worker.rules.functions import ARITHMETIC, EPOCH, FUNCTIONS, KIND_OF, CannotEvaluate, Function, Value
from worker.rules.registry import (
    ANY,
    BOOL,
    DOUBLE,
    INT,
    ITEM,
    LOCAL,
    MADE,
    NUMERIC,
    WORDS,
    Kind,
    Type,
    comparable,
    ordered,
)
from worker.rules.spelling import duration_meant

_FIELDS = frozenset({"ident", "select", "index"})
_SIZES = frozenset({"size", "sum", "min", "max", "avg", "abs", "round", *RECORDED, SINCE})
_SPANS: Mapping[str, tuple[int, int]] = {"getMonth": (0, 11), "getDate": (1, 31), "getDayOfWeek": (0, 6)}
"""Parts of a time that people count otherwise, and what they can be."""
_NOTHING: frozenset[str] = frozenset()
SHORT, LONG = 100, 1_000
"""How long lists may be: a condition that cannot be evaluated over short ones is refused, over long ones warned of."""
Severity: TypeAlias = Literal["error", "warning"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found, at an offset of the condition's text."""

    offset: int
    message: str
    hint: str = ""
    severity: Severity = "error"
    code: Code = "type"


def check_condition(
    tree: Node, names: Mapping[str, Type], *, boolean: bool = True, whole: Node | None = None
) -> tuple[Finding, ...]:
    """All findings of one condition, in the order of its text. ``boolean``: its value must be true or false.
    ``whole``: the condition with what its names stand for, where it has any."""
    check = _Check(names)
    result = check.type_of(tree, {})
    if boolean:
        check.ask_truth(tree, result, "a condition is true or false")
    check.price(whole or tree, None if whole is None else tree.start)
    return tuple(sorted(check.findings, key=lambda finding: finding.offset))


def type_of(tree: Node, names: Mapping[str, Type]) -> Type:
    """What a text gives, as far as that is known."""
    return _Check(names).type_of(tree, {})


def steps(node: Node, items: int) -> int:
    """What an evaluation takes of its steps at the most, where lists of the service have so many items."""
    if node.kind != "macro":
        taken = sum(steps(child, items) for child in node.children)
        looks_through = node.text == "in" and node.children[1].kind != "list"
        return taken + (_length(node.children[1], items) if looks_through else 0)
    target, _, *bodies = node.children
    each = item_steps(bodies) + sum(steps(body, items) for body in bodies)
    return steps(target, items) + _length(target, items) * each


def _length(node: Node, items: int) -> int:
    """How long a list is at the most."""
    if node.kind == "list":
        return len(node.children)
    if node.kind == "macro":
        return _length(node.children[0], items)
    if node.kind in ("arithmetic", "if"):
        lengths = [_length(child, items) for child in node.children[-2:]]
        return sum(lengths) if node.kind == "arithmetic" else max(lengths)
    return items


class _Check:
    """One walk over one tree; each kind of node has the method of its name. ``bound``: the names that macros around the
    place bind."""

    def __init__(self, names: Mapping[str, Type]) -> None:
        self._names = names
        self.findings: list[Finding] = []
        self._special = {"has": self._has, "known": self._known, **dict.fromkeys((*RECORDED, SINCE), self._recorded)}

    def find(
        self, offset: int, message: str, hint: str = "", *, code: Code = "type", severity: Severity = "error"
    ) -> None:
        """Notes a finding."""
        self.findings.append(Finding(offset=offset, message=message, hint=hint, severity=severity, code=code))

    def ask_truth(self, node: Node, found: Type, wanted: str) -> None:
        """Notes what is neither true nor false where only that will do."""
        if found.kind not in ("bool", "any"):
            self.find(node.start, f"{wanted}, and this is {found.words}", remedies.compared(node, found))

    def price(self, tree: Node, place: int | None) -> None:
        """Notes a condition that is unknown where lists are not even long, or where they are. ``place``: where to say
        so, if not where it is written."""
        if steps(tree, LONG) <= STEPS_MAX:
            return
        longest = bisect_right(range(1, LONG), STEPS_MAX, key=lambda items: steps(tree, items))
        innermost = max((node for node in walk(tree) if node.kind == "macro"), key=lambda node: node.at)
        severity: Severity = "error" if longest < SHORT else "warning"
        message = f"for lists of more than {longest} items this takes too many steps, and is unknown"
        hint = "go over fewer lists within lists, or over what filter(…) leaves of them; or split the rule"
        self.find(innermost.at if place is None else place, message, hint, code="steps", severity=severity)

    def type_of(self, node: Node, bound: Mapping[str, Type]) -> Type:
        """The type of a part, after everything wrong in it was noted."""
        found: Type = getattr(self, f"_{node.kind}")(node, bound)
        return found

    def _literal(self, node: Node, _bound: Mapping[str, Type]) -> Type:
        return Type(kind=KIND_OF[node.value.__class__])

    def _map(self, node: Node, bound: Mapping[str, Type]) -> Type:
        for index, child in enumerate(node.children):
            found = self.type_of(child, bound)
            if index % 2 == 0 and found.kind not in ("string", "any"):
                message = f"a field of a record has a text for its name, and this is {found.words}"
                self.find(child.start, message, "write {'name': …}")
        return Type(kind="object")

    def _ident(self, node: Node, bound: Mapping[str, Type]) -> Type:
        known = bound.get(node.text) or self._names.get(node.text)
        if known is not None:
            return known
        message, hint = remedies.unknown_name(node.text, {**self._names, **bound})
        self.find(node.at, message, hint, code="fact")
        return ANY

    def _select(self, node: Node, bound: Mapping[str, Type]) -> Type:
        return self._field(node, node.text, self.type_of(node.children[0], bound))

    def _field(self, node: Node, name: str, target: Type) -> Type:
        base = remedies.spelled(node.children[0])
        if target.kind == "any" or (target.kind == "object" and target.fields is None):
            return ANY
        if target.kind != "object" or target.fields is None:
            hint = remedies.without_fields(base, name, target)
            self.find(node.at, f"{base} is {target.words} and has no field '{name}'", hint)
            return ANY
        if name in target.fields or target.more:
            return target.fields.get(name, ANY)
        message, hint = remedies.unknown_field(base, name, target)
        self.find(node.children[-1].start if node.kind == "index" else node.at, message, hint, code="field")
        return ANY

    def _index(self, node: Node, bound: Mapping[str, Type]) -> Type:
        target = self.type_of(node.children[0], bound)
        index = node.children[1]
        by = self.type_of(index, bound)
        if target.kind == "list" and by.kind in (*NUMERIC, "any"):
            return target.items or ANY
        if target.only and index.literal == "string":
            return self._field(node, str(index.value), target)
        if target.kind == "object" and by.kind in ("string", "any"):
            return (target.fields or {}).get(str(index.value), ANY)
        if target.kind != "any":
            hint = "a list has places, [0]; a record has fields, ['name']"
            message = f"{remedies.spelled(node.children[0])} is {target.words} and has no [{by.words}]"
            self.find(index.start, message, hint)
        return ANY

    def _list(self, node: Node, bound: Mapping[str, Type]) -> Type:
        types = [self.type_of(child, bound) for child in node.children]
        kinds = {item.kind for item in types}
        item = replace(types[0], values=()) if len(kinds) == 1 else ANY
        return Type(kind="list", items=item)

    def _logic(self, node: Node, bound: Mapping[str, Type]) -> Type:
        symbol = {"and": "&&", "or": "||", "not": "!"}[node.kind]
        for child in node.children:
            self.ask_truth(child, self.type_of(child, bound), f"{symbol} takes true or false")
        return BOOL

    _and = _or = _not = _logic

    def _negate(self, node: Node, bound: Mapping[str, Type]) -> Type:
        found = self.type_of(node.children[0], bound)
        if found.kind not in NUMERIC | {"any"}:
            self.find(node.start, f"'-' takes a number, and this is {found.words}", "remove the '-'")
        return found if found.kind in NUMERIC else ANY

    def _if(self, node: Node, bound: Mapping[str, Type]) -> Type:
        condition, yes, no = (self.type_of(child, bound) for child in node.children)
        self.ask_truth(node.children[0], condition, "'?' takes true or false")
        return replace(yes, values=()) if yes.kind == no.kind else ANY

    def _compare(self, node: Node, bound: Mapping[str, Type]) -> Type:
        left, right = node.children
        types = self.type_of(left, bound), self.type_of(right, bound)
        if node.text == "in":
            self._member(node, *types)
        elif node.text in ("==", "!="):
            self._equal(node, *types)
        elif not ordered(*types):
            self.find(node.at, f"{remedies.pair(node, types)} have no order", remedies.remedy_of(node, types))
        return BOOL

    def _equal(self, node: Node, left: Type, right: Type) -> None:
        if not comparable(left, right):
            hint = remedies.remedy_of(node, (left, right))
            if "null" in (left.kind, right.kind):
                hint = "the API document allows no null here; where one comes, the field is unknown"
            self.find(node.at, f"{remedies.pair(node, (left, right))} can never be equal", hint)
            return
        self._among(node.children[0], left, node.children[1])
        self._among(node.children[1], right, node.children[0])

    def _member(self, node: Node, left: Type, right: Type) -> None:
        item, listed = node.children
        if right.kind == "list":
            if listed.kind == "list":
                for value in listed.children:
                    self._among(item, left, value)
                    if right.items == ANY and value.kind == "literal":
                        self._one_of(value, left)
            if right.items is not None and not comparable(left, right.items):
                message = f"{left.words} is never in a list of {right.items.words}"
                self.find(node.at, message, remedies.remedy_in(left, right.items))
        elif right.kind == "object":
            path = path_of(listed)
            if item.literal == "string" and right.fields is not None and str(item.value) in right.fields and path:
                message, hint = remedies.presence(f"{path.text}.{item.value}")
                self.find(item.start, message, hint, code="presence")
        elif right.kind != "any":
            hint = "for texts: text.contains('part')" if right.kind == "string" else "write a list: x in ['a', 'b']"
            self.find(node.at, f"'in' takes a list on its right, and this is {right.words}", hint)

    def _one_of(self, value: Node, left: Type) -> None:
        """A literal among others of another kind, in a list in which something is looked for."""
        found = self.type_of(value, {})
        if found.kind != "null" and not comparable(left, found):
            message = f"{value.text} is {found.words}, and never equal to {left.words}"
            self.find(value.start, message, remedies.remedy_in(left, found))

    def _among(self, node: Node, known: Type, value: Node) -> None:
        """A literal that a field with a documented set of values is compared with."""
        if known.values and value.literal == "string" and value.value not in known.values:
            said = remedies.other_value(remedies.spelled(node), known, str(value.value))
            if said is not None:
                self.find(value.start, *said, code="set", severity="warning")  # the document can be older
        least, most = _SPANS.get(node.text, (0, 0)) if node.kind == "call" else (0, 0)
        if most and isinstance(value.value, int | float) and not least <= value.value <= most:
            hint = f"it is {FUNCTIONS[node.text].about.partition(';')[0]}, and goes from {least} to {most}"
            self.find(value.start, f"{node.text} is never {value.text}", hint, code="set", severity="warning")

    def _arithmetic(self, node: Node, bound: Mapping[str, Type]) -> Type:
        left, right = (self.type_of(child, bound) for child in node.children)
        divisor = node.children[1]
        if node.text in ("/", "%") and divisor.literal in ("int", "double") and not divisor.value:
            self.find(divisor.start, "what is divided by 0 is unknown", "divide by another number", code="value")
        sides = zip((left, right), node.children, strict=True)
        told = {found.kind for found, child in sides if found.kind != "any" or path_of(child) is not None}
        if node.text == "%" and told - {"int"} and told <= {"int", "double", "any"}:
            hint = f"write {remedies.as_kind(node, (left, right), 'int')}"
            self.find(node.at, "'%' takes whole numbers only", hint, code="integer")
            return INT
        if "any" in (left.kind, right.kind):
            self._any_with_integer(node, left, right)
            return ANY
        if {left.kind, right.kind} == {"int", "double"}:
            self._mixed(node, left)
            return DOUBLE
        row = ARITHMETIC.get((node.text, left.kind, right.kind))
        if row is not None:
            return row[0]
        message = f"{remedies.pair(node, (left, right))} cannot be combined by '{node.text}'"
        self.find(node.at, message, remedies.combined(node, (left, right)))
        return ANY

    def _any_with_integer(self, node: Node, left: Type, right: Type) -> None:
        """What is not documented may be a number, and every number from the service is a double."""
        unknown, other = node.children if left.kind == "any" else node.children[::-1]
        if path_of(unknown) is not None and other.literal == "int" and {left.kind, right.kind} == {"any", "int"}:
            self._mixed(node, left if left.kind == "int" else DOUBLE)

    def _mixed(self, node: Node, left: Type) -> None:
        """CEL adds a whole number to a whole number and a double to a double, and nothing else."""
        whole, other = node.children if left.kind == "int" else node.children[::-1]
        written = f"double({remedies.spelled(whole)})" if path_of(whole) else "double(…) around it"
        message = "arithmetic of a number from the service with a whole number"
        if whole.literal == "int":
            written = f"{whole.text}.0"
            if other.literal == "double":
                message = f"{whole.text} is a whole number and {other.text} is not"
        hint = f"write {written}; every number from the service is a double, and CEL mixes none with whole numbers"
        self.find(whole.start, f"{message}: '{node.text}' takes two of a kind", hint, code="integer")

    def _call(self, node: Node, bound: Mapping[str, Type]) -> Type:
        special = self._special.get(node.text)
        if special is not None and not node.method:
            return special(node, bound)
        types = tuple(self.type_of(child, bound) for child in node.children)
        function = FUNCTIONS.get(node.text)
        if special is not None:
            self.find(node.at, f"'{node.text}' is not called so", remedies.macro_usage(node.text), code="function")
            return ANY
        if function is None:
            message, hint = remedies.unknown_function(node, types[0] if node.method else ANY)
            if node.text in self._names and not node.method:
                hint = f"{node.text} is a name: write it without brackets"
            self.find(node.at, message, hint, code="function")
            return ANY
        callable_so = function.method if node.method else function.plain
        if not callable_so or not function.takes_so_many(len(types)):
            self.find(node.at, f"'{node.text}' is not called so", f"write {remedies.usage(function)}", code="function")
            return function.gives
        if node.text in ("getHours", "getDayOfWeek") and len(types) == 1 and types[0].kind == "timestamp":
            hint = f"write {node.text}('Europe/Berlin'), or {node.text}('UTC')"
            self.find(node.at, "without a zone this is told by UTC", hint, code="zone", severity="warning")
        before = len(self.findings)
        for child, found, wanted in zip(node.children, types, function.kinds(len(types)), strict=False):
            items = found.items if function.many and len(types) == 1 else None
            if items is not None and items.kind not in (*NUMERIC, "any"):
                message = f"'{node.text}' takes numbers, and an item of this list is {items.words}"
                self.find(child.start, message, "take a number of each: list.map(x, x.budget)")
            elif function.many and len(types) > 1 and found.kind == "list":
                self.find(child.start, f"'{node.text}' takes numbers, or one list of them", "join the lists with +")
            if found.kind != "any" and found.kind not in wanted:
                hint = remedies.taken(function, child, found, " or ".join(WORDS[one] for one in KINDS if one in wanted))
                self.find(child.start, f"'{node.text}' does not take {found.words}", hint)
        if len(self.findings) == before:
            self._written_out(node, function)
        return function.gives

    def _written_out(self, node: Node, function: Function) -> None:
        """What a call makes of arguments that are written out is known now: an error is one each time."""
        first, last = node.children[0], node.children[-1]
        if node.text == "duration" and first.literal != "string":
            self.find(first.start, "duration takes a text in quotes", "write duration('7d')", code="value")
        elif node.text == "matches" and "\b" in str(last.value):
            said = "\\b in quotes is a backspace, and no edge of a word"
            self.find(last.start, said, f"write r{last.text}: behind an r a backslash is one", code="value")
        elif node.text == "matches" and last.literal == "string":
            self._tried(last, function, ["", last.value], "write a pattern of RE2, as in r'(?i)open.air'")
        elif function.optional and len(node.children) > 1 and last.literal == "string":
            self._tried(last, function, [EPOCH, last.value], "")
        elif all(child.kind == "literal" for child in node.children):
            written = str(first.value).removeprefix("-")
            hint = f"write {duration_meant(written)}" if node.text == "duration" else ""
            self._tried(first, function, [one.value for one in node.children], hint)

    def _tried(self, place: Node, function: Function, values: list[Value], hint: str) -> None:
        try:
            function.call(Run({}), values)
        except (CannotEvaluate, TooCostly) as error:
            said, _, told = str(error).partition("; ")
            self.find(place.start, said, hint or told or f"write {remedies.usage(function)}", code="value")

    def _recorded(self, node: Node, bound: Mapping[str, Type]) -> Type:
        """``ago``, ``delta`` and ``since``: a field of a fact; of the first two how long ago, as it is written."""
        windowed, example = node.text in RECORDED, "event.capacity" if node.text == "ago" else "statistics.tickets"
        usage = f"{node.text}({example}, '24h')" if windowed else f"since({example})"
        what = node.children[0] if len(node.children) == 1 + windowed else node
        path = path_of(what, frozenset(bound))
        outside = (LOCAL | MADE) - {ITEM} if windowed else LOCAL | MADE
        if path is None or path.name in outside or (path.fields == () and path.name == ITEM):
            said = "a computed value" if path is None and what.kind != "literal" else remedies.spelled(what)
            message = f"'{node.text}' takes a field of a fact" + (" and how long ago" if windowed else "")
            message += "" if what is node else f", and {said} is no such field"
            hint = f"write {usage}"
            if path is not None and path.name == ITEM and path.fields:
                hint = f"what is kept with a write is of the event and not of an item: write delta({path.text}, '1d')"
            elif not windowed and (said.startswith(WRITE) or what.kind == "literal"):
                hint = "the time since the write is now - write.at, as in now - write.at > duration('2d')"
            self.find(what.start, message, hint, code="function")
            return ANY
        found = self.type_of(what, bound)
        if node.text != "ago" and found.kind not in (*NUMERIC, "any"):
            self.find(what.start, f"'{node.text}' takes a number, and this is {found.words}", "ago(…) gives any value")
        if windowed:
            self._window(node, path)
        elif WRITE not in self._names:
            self.find(node.at, "'since' exists only in a rule with after", "write it there", code="function")
        return found if node.text == "ago" else DOUBLE

    def _window(self, node: Node, path: Path) -> None:
        window = node.children[1]
        text = str(window.value)
        if window.literal != "string":
            message = "how long ago is written out, so that it is known what must be kept"
            self.find(window.start, message, f"write {node.text}({path.text}, '24h')", code="value")
        elif text.startswith("-"):
            self.find(window.start, "how long ago has no sign", f"write '{text[1:]}'", code="value")
        else:
            meant = duration_meant(text)
            self._tried(window, FUNCTIONS["duration"], [text], f"write {meant}" if " " in meant else f"write '{meant}'")

    def _known(self, node: Node, bound: Mapping[str, Type]) -> Type:
        asked = node.children[0] if len(node.children) == 1 else node
        before = len(self.findings)
        if asked is not node:
            self.type_of(asked, bound)
        if path_of(asked) is None and asked.text not in {*RECORDED, SINCE} and len(self.findings) == before:
            self.find(node.at, "known takes a field", "write known(statistics.tickets)", code="function")
        return BOOL

    def _has(self, node: Node, bound: Mapping[str, Type]) -> Type:
        field = node.children[0]
        before = len(self.findings)
        target = self.type_of(field.children[0], bound)
        path = path_of(field)
        if path is not None and field.text in (target.fields or {}) and len(self.findings) == before:
            message, hint = remedies.presence(path.text)
            self.find(node.at, message, hint, code="presence")
        return BOOL

    def _macro(self, node: Node, bound: Mapping[str, Type]) -> Type:
        target, variable, *bodies = node.children
        over = self.type_of(target, bound)
        if over.kind not in ("list", "any", "object"):
            message = f"'{node.text}' goes over a list, and {remedies.spelled(target)} is {over.words}"
            self.find(node.at, message, remedies.macro_usage(node.text))
        item = over.items or ANY
        inner = {**bound, variable.text: item}
        results = [self.type_of(body, inner) for body in bodies]
        if node.text != "map":
            self.ask_truth(bodies[0], results[0], f"'{node.text}' takes a condition")
        if node.text == "filter":
            return Type(kind="list", items=item)
        return Type(kind="list", items=replace(results[-1], values=())) if node.text == "map" else BOOL


# --- divisions by what may be 0: unknown, which nobody sees until the field is 0 for the first time ---


def by_zero(node: Node, safe: frozenset[str] = _NOTHING) -> Iterator[Node]:
    """The divisors of a text that may be 0: fields and sizes of which nothing around them says that they are not.
    ``safe``: the meanings of those that are known not to be."""
    if node.kind in ("and", "or"):
        for child in node.children:
            others = [one for one in node.children if one is not child]
            beside = (nonzero(one, where=node.kind == "and") for one in others)
            yield from by_zero(child, safe.union(*beside))
    elif node.kind == "if":
        test, yes, no = node.children
        yield from by_zero(test, safe)
        yield from by_zero(yes, safe | nonzero(test, where=True))
        yield from by_zero(no, safe | nonzero(test, where=False))
    else:
        divisor = bare(node.children[1]) if node.kind == "arithmetic" and node.text == "/" else None
        if divisor is not None and _may_be(divisor) and meaning_of(divisor) not in safe:
            yield divisor
        for child in node.children:
            yield from by_zero(child, safe)


def nonzero(node: Node, *, where: bool = True) -> frozenset[str]:
    """The meanings of what cannot be 0 where a condition is true, or where it is false."""
    if node.kind == "not":
        return nonzero(node.children[0], where=not where)
    if node.kind == ("and" if where else "or"):
        return _NOTHING.union(*(nonzero(child, where=where) for child in node.children))
    if node.kind != "compare" or node.text not in COMPARISONS:
        return _NOTHING
    left, right = node.children
    at_zero, found = COMPARISONS[node.text], set[str]()
    if isinstance(left.value, int | float) and at_zero(left.value, 0) is not where:
        found.add(meaning_of(bare(right)))
    if isinstance(right.value, int | float) and at_zero(0, right.value) is not where:
        found.add(meaning_of(bare(left)))
    return frozenset(found)


def bare(node: Node) -> Node:
    """A number without what makes another kind of number of it."""
    while node.kind == "call" and node.text in ("double", "int") and not node.method:
        node = node.children[0]
    return node


def _may_be(divisor: Node) -> bool:
    return divisor.kind in _FIELDS or (divisor.kind == "call" and divisor.text in _SIZES)
