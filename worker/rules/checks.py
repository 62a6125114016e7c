"""Static checks of a condition: everything that is known to be wrong before the first event is looked at.

At run time a misspelt field is one more unknown and a rule that silently never fires; here it is an error with a place
and the right name. Only what the API document says is used: what it leaves open is never complained of. Comparing with
a value outside a documented set is a warning, because the document can be older than the service.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from worker.model.document import EVENT_FIELDS
from worker.rules.celtypes import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    NULL,
    NUMERIC,
    STRING,
    TIMESTAMP,
    Type,
    comparable,
    ordered,
)
from worker.rules.durations import parse_duration
from worker.rules.functions import FUNCTIONS, MACRO_ABOUT, Function
from worker.rules.nearest import meant, nearest
from worker.rules.syntax import Node, NodeKind, path_of

_LITERAL_TYPES: Mapping[str, Type] = {
    "int": INT,
    "uint": INT,
    "double": DOUBLE,
    "string": STRING,
    "bytes": BYTES,
    "bool": BOOL,
    "null": NULL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found, at an offset of the condition's text."""

    offset: int
    message: str
    hint: str = ""
    severity: Literal["error", "warning"] = "error"
    code: str = "condition"


def check_condition(tree: Node, names: Mapping[str, Type], *, boolean: bool = True) -> tuple[Finding, ...]:
    """All findings of one condition, in the order of its text. ``boolean``: its value must be true or false."""
    check = _Check(names)
    result = check.type_of(tree, {})
    if boolean and result.kind not in ("bool", "any"):
        check.find(tree.start, f"a condition is true or false, and this is {result.words}", "compare it with something")
    return tuple(sorted(check.findings, key=lambda finding: finding.offset))


class _Check:
    """One walk over one tree. ``bound``: the names that macros around the place bind."""

    def __init__(self, names: Mapping[str, Type]) -> None:
        self._names = names
        self.findings: list[Finding] = []
        self._by_kind: Mapping[NodeKind, Callable[[Node, Mapping[str, Type]], Type]] = {
            "literal": self._literal,
            "ident": self._name,
            "select": self._select,
            "index": self._index,
            "call": self._call,
            "macro": self._macro,
            "list": self._list,
            "map": self._record,
            "message": self._record,
            "and": self._logic,
            "or": self._logic,
            "not": self._logic,
            "negate": self._negate,
            "compare": self._compare,
            "arithmetic": self._arithmetic,
            "if": self._choice,
        }

    def find(self, offset: int, message: str, hint: str = "", severity: Literal["error", "warning"] = "error") -> None:
        """Notes a finding."""
        self.findings.append(Finding(offset=offset, message=message, hint=hint, severity=severity))

    def type_of(self, node: Node, bound: Mapping[str, Type]) -> Type:
        """The type of a part, after everything wrong in it was noted."""
        return self._by_kind[node.kind](node, bound)

    def _literal(self, node: Node, _bound: Mapping[str, Type]) -> Type:
        return _LITERAL_TYPES[node.literal]

    def _record(self, node: Node, bound: Mapping[str, Type]) -> Type:
        for child in node.children:
            self.type_of(child, bound)
        return Type(kind="object")

    def _name(self, node: Node, bound: Mapping[str, Type]) -> Type:
        known = bound.get(node.text) or self._names.get(node.text)
        if known is not None:
            return known
        message, hint = f"unknown fact '{node.text}'", ""
        values = _values_like(node.text)
        if values:
            message = f"unknown fact '{node.text}'; a text stands in quotes, as in {' or '.join(values)}"
        elif node.text in EVENT_FIELDS:
            message += f"; did you mean 'event.{node.text}'?"
        else:
            message += meant(node.text, {**self._names, **bound})
            if nearest(node.text, self._names) is None:
                hint = "a text stands in quotes; facts of your own are declared under `facts` in the config"
        self.find(node.at, message, hint)
        return ANY

    def _select(self, node: Node, bound: Mapping[str, Type]) -> Type:
        target = self.type_of(node.children[0], bound)
        base = _spelled(node.children[0])
        if target.kind == "any" or (target.kind == "object" and target.fields is None):
            return ANY
        if target.kind != "object" or target.fields is None:
            hint = f"look at its items: {base}.exists(x, x.{node.text} == …)" if target.kind == "list" else ""
            self.find(node.at, f"{base} is {target.words} and has no field '{node.text}'", hint)
            return ANY
        if node.text in target.fields:
            return target.fields[node.text]
        hint = f"a field that the API document does not name is written {base}['{node.text}']"
        self.find(node.at, f"{base} has no documented field '{node.text}'{meant(node.text, target.fields)}", hint)
        return ANY

    def _index(self, node: Node, bound: Mapping[str, Type]) -> Type:
        target = self.type_of(node.children[0], bound)
        index = node.children[1]
        by = self.type_of(index, bound)
        if target.kind == "list" and by.kind in ("int", "any"):
            return target.items or ANY
        if target.kind == "object" and by.kind in ("string", "any"):
            return (target.fields or {}).get(str(index.value), ANY)
        if target.kind != "any":
            self.find(index.start, f"{_spelled(node.children[0])} is {target.words} and has no [{by.words}]")
        return ANY

    def _list(self, node: Node, bound: Mapping[str, Type]) -> Type:
        types = [self.type_of(child, bound) for child in node.children]
        kinds = {item.kind for item in types}
        item = replace(types[0], values=()) if len(kinds) == 1 else ANY
        return Type(kind="list", items=item)

    def _logic(self, node: Node, bound: Mapping[str, Type]) -> Type:
        symbol = {"and": "&&", "or": "||", "not": "!"}[node.kind]
        for child in node.children:
            found = self.type_of(child, bound)
            if found.kind not in ("bool", "any"):
                self.find(
                    child.start, f"{symbol} takes true or false, and this is {found.words}", "compare it with something"
                )
        return BOOL

    def _negate(self, node: Node, bound: Mapping[str, Type]) -> Type:
        found = self.type_of(node.children[0], bound)
        if found.kind not in NUMERIC | {"any"}:
            self.find(node.start, f"'-' takes a number, and this is {found.words}")
        return found if found.kind in NUMERIC else ANY

    def _choice(self, node: Node, bound: Mapping[str, Type]) -> Type:
        condition, yes, no = (self.type_of(child, bound) for child in node.children)
        if condition.kind not in ("bool", "any"):
            self.find(node.children[0].start, f"'?' takes true or false, and this is {condition.words}")
        return replace(yes, values=()) if yes.kind == no.kind else ANY

    def _compare(self, node: Node, bound: Mapping[str, Type]) -> Type:
        left, right = node.children
        types = self.type_of(left, bound), self.type_of(right, bound)
        if node.text == "in":
            self._member(node, *types)
        elif node.text in ("==", "!="):
            self._equal(node, *types)
        elif not ordered(*types):
            self.find(node.at, f"{_pair(node, types)} have no order", _remedy(types))
        return BOOL

    def _equal(self, node: Node, left: Type, right: Type) -> None:
        if not comparable(left, right):
            hint = _remedy((left, right))
            if "null" in (left.kind, right.kind):
                hint = "the API document allows no null here; where one comes, the field is unknown"
            self.find(node.at, f"{_pair(node, (left, right))} can never be equal", hint)
            return
        self._among(node.children[0], left, node.children[1])
        self._among(node.children[1], right, node.children[0])

    def _member(self, node: Node, left: Type, right: Type) -> None:
        item, listed = node.children
        if right.kind == "list":
            if listed.kind == "list":
                for value in listed.children:
                    self._among(item, left, value)
            if right.items is not None and not comparable(left, right.items):
                self.find(
                    node.at, f"{left.words} is never in a list of {right.items.words}", _remedy((left, right.items))
                )
        elif right.kind == "object":
            path = path_of(listed)
            if item.literal == "string" and right.fields is not None and str(item.value) in right.fields and path:
                self.find(item.start, _present(f"{path.text}.{item.value}"), "compare the field with a value")
        elif right.kind != "any":
            hint = "for texts: text.contains('part')" if right.kind == "string" else ""
            self.find(node.at, f"'in' takes a list on its right, and this is {right.words}", hint)

    def _among(self, node: Node, known: Type, value: Node) -> None:
        """A literal that a field with a documented set of values is compared with."""
        if not known.values or value.literal != "string" or value.value in known.values:
            return
        text, base = str(value.value), _spelled(node)
        near = nearest(text, known.values)
        if not known.open_set:
            tail = f"; did you mean '{near}'?" if near else ""
            allowed = ", ".join(known.values)
            self.find(value.start, f"{base} is never '{text}'{tail} (it is one of {allowed})", severity="warning")
        elif near is not None:
            message = f"{base} is not known to be '{text}'; did you mean '{near}'?"
            self.find(value.start, message, "other values than the documented ones are possible", severity="warning")

    def _arithmetic(self, node: Node, bound: Mapping[str, Type]) -> Type:
        left, right = (self.type_of(child, bound) for child in node.children)
        if "any" in (left.kind, right.kind):
            self._any_with_integer(node, left, right)
            return ANY
        kinds, symbol = {left.kind, right.kind}, node.text
        if kinds == {"int", "double"}:
            self._mixed(node, left)
            return DOUBLE
        if len(kinds) == 1 and left.kind in NUMERIC:
            if symbol == "%" and left.kind == "double":
                self.find(node.at, "'%' takes whole numbers only", "write int(…) around both sides")
            return replace(left, values=())
        result = _TIMES.get((left.kind, symbol, right.kind))
        if result is None:
            self.find(node.at, f"{_pair(node, (left, right))} cannot be combined by '{symbol}'", _remedy((left, right)))
            return ANY
        return result

    def _any_with_integer(self, node: Node, left: Type, right: Type) -> None:
        """What is not documented may be a number, and every number from the service is a double."""
        unknown, other = node.children if left.kind == "any" else node.children[::-1]
        if path_of(unknown) is not None and other.literal == "int" and {left.kind, right.kind} == {"any", "int"}:
            self._mixed(node, left if left.kind == "int" else DOUBLE)

    def _mixed(self, node: Node, left: Type) -> None:
        whole = node.children[0] if left.kind == "int" else node.children[1]
        written = f"{whole.text}.0" if whole.literal == "int" else f"double({_spelled(whole)})"
        message = "arithmetic of a number from the service with a whole number"
        self.find(
            whole.start, f"{message}; write {written}", "every number from the service is a double, and CEL mixes none"
        )

    def _call(self, node: Node, bound: Mapping[str, Type]) -> Type:
        if node.text == "has" and not node.method:
            return self._has(node, bound)
        types = tuple(self.type_of(child, bound) for child in node.children)
        function = FUNCTIONS.get(node.text)
        if function is None:
            self.find(node.at, f"unknown function '{node.text}'{meant(node.text, {**FUNCTIONS, **MACRO_ABOUT})}")
            return ANY
        callable_so = function.method if node.method else function.plain
        if not callable_so or len(types) != len(function.takes):
            self.find(node.at, f"'{node.text}' is written {_usage(function)}")
        else:
            for child, found, wanted in zip(node.children, types, function.takes, strict=True):
                if found.kind != "any" and found.kind not in wanted:
                    self.find(child.start, f"'{node.text}' does not take {found.words}")
            self._literal_argument(node)
        return function.gives

    def _literal_argument(self, node: Node) -> None:
        if node.text != "duration":
            return
        argument = node.children[0]
        if argument.literal != "string":
            self.find(argument.start, "duration takes a text in quotes, as in duration('7d')")
            return
        try:
            parse_duration(str(argument.value).removeprefix("-"))
        except ValueError as error:
            self.find(argument.start, str(error))

    def _has(self, node: Node, bound: Mapping[str, Type]) -> Type:
        for child in node.children:
            path = path_of(child)
            before = len(self.findings)
            target = self.type_of(child.children[0], bound) if child.children else ANY
            known = target.fields is not None and child.text in target.fields
            if known and path is not None and len(self.findings) == before:
                self.find(node.at, _present(path.text), "compare the field with a value; null is written null")
        return BOOL

    def _macro(self, node: Node, bound: Mapping[str, Type]) -> Type:
        target, variable, *bodies = node.children
        over = self.type_of(target, bound)
        if over.kind not in ("list", "any", "object"):
            self.find(node.at, f"'{node.text}' goes over a list, and {_spelled(target)} is {over.words}")
        item = over.items if over.kind == "list" and over.items is not None else ANY
        inner = {**bound, variable.text: item}
        results = [self.type_of(body, inner) for body in bodies]
        wrong = len(bodies) > (2 if node.text == "map" else 1)
        if wrong:
            self.find(node.at, f"'{node.text}' takes a name and a condition")
        if node.text != "map" and not wrong and results[0].kind not in ("bool", "any"):
            self.find(bodies[0].start, f"'{node.text}' takes a condition, and this is {results[0].words}")
        if node.text == "filter":
            return over
        return Type(kind="list", items=replace(results[-1], values=())) if node.text == "map" else BOOL


_TIMES: Mapping[tuple[str, str, str], Type] = {
    ("timestamp", "-", "timestamp"): DURATION,
    ("timestamp", "+", "duration"): TIMESTAMP,
    ("duration", "+", "timestamp"): TIMESTAMP,
    ("timestamp", "-", "duration"): TIMESTAMP,
    ("duration", "+", "duration"): DURATION,
    ("duration", "-", "duration"): DURATION,
    ("string", "+", "string"): STRING,
    ("bytes", "+", "bytes"): BYTES,
    ("list", "+", "list"): Type(kind="list", items=ANY),
}


def _present(path: str) -> str:
    return f"{path} is documented: where it is missing it is unknown, and this would take it for false"


def _spelled(node: Node) -> str:
    path = path_of(node)
    return path.text if path is not None else "this"


def _pair(node: Node, types: tuple[Type, Type]) -> str:
    left, right = (
        f"{path.text} ({found.words})" if (path := path_of(child)) is not None else found.words
        for child, found in zip(node.children, types, strict=True)
    )
    return f"{left} and {right}"


def _remedy(types: tuple[Type, ...]) -> str:
    kinds = {found.kind for found in types}
    if kinds == {"timestamp", "string"}:
        return "write timestamp('2026-01-31T00:00:00Z')"
    if "duration" in kinds and kinds & {"string", "int", "double"}:
        return "write duration('7d')"
    if kinds & NUMERIC and "string" in kinds:
        return "write the number without quotes"
    if kinds == {"bool", "string"}:
        return "write true or false without quotes"
    return ""


def _values_like(name: str) -> list[str]:
    """Comparisons that somebody could have meant who wrote a documented value without quotes."""
    return [
        f"event.{field} == '{value}'"
        for field, documented in EVENT_FIELDS.items()
        for value in documented.values
        if value.lower() == name.lower()
        or (len(name) > 4 and nearest(name, [value]) and name[0].lower() == value[0].lower() and name.isupper())
    ]


def _usage(function: Function) -> str:
    arguments = ["text" if wanted == frozenset({"string"}) else "value" for wanted in function.takes]
    if function.plain:
        return f"{function.name}({', '.join(arguments)})"
    return f"{arguments[0]}.{function.name}({', '.join(arguments[1:])})"
