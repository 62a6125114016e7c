"""Static checks of a condition: everything that is known to be wrong before the first event is looked at.

At run time a misspelt field is one more unknown and a rule that silently never fires; here it is an error with a place
and the right name. Only what the API document says is used: what it leaves open is never complained of. Comparing with
a value outside a documented set is a warning, because the document can be older than the service.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from worker.model.findings import Code
from worker.rules.celtypes import (
    ANY,
    BOOL,
    DOUBLE,
    INT,
    NULL,
    NUMERIC,
    STRING,
    TYPE,
    WORDS,
    Kind,
    Type,
    comparable,
    ordered,
)
from worker.rules.durations import duration_meant
from worker.rules.functions import ARITHMETIC, EPOCH, FUNCTIONS, CannotEvaluate, Function, Run, TooCostly, Value
from worker.rules.remedies import (
    compared,
    macro_usage,
    other_value,
    pair,
    presence,
    remedy,
    remedy_in,
    remedy_of,
    spelled,
    unknown_field,
    unknown_function,
    unknown_name,
    usage,
)
from worker.rules.syntax import Node, NodeKind, path_of

KINDS: tuple[Kind, ...] = get_args(Kind)
_LITERAL_TYPES: Mapping[str, Type] = {
    "int": INT,
    "double": DOUBLE,
    "string": STRING,
    "bool": BOOL,
    "null": NULL,
    "type": TYPE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found, at an offset of the condition's text."""

    offset: int
    message: str
    hint: str = ""
    severity: Literal["error", "warning"] = "error"
    code: Code = "type"


def check_condition(tree: Node, names: Mapping[str, Type], *, boolean: bool = True) -> tuple[Finding, ...]:
    """All findings of one condition, in the order of its text. ``boolean``: its value must be true or false."""
    check = _Check(names)
    result = check.type_of(tree, {})
    if boolean and result.kind not in ("bool", "any"):
        check.find(tree.start, f"a condition is true or false, and this is {result.words}", compared(tree, result))
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
            "and": self._logic,
            "or": self._logic,
            "not": self._logic,
            "negate": self._negate,
            "compare": self._compare,
            "arithmetic": self._arithmetic,
            "if": self._choice,
        }

    def find(self, offset: int, message: str, hint: str = "", *, code: Code = "type") -> None:
        """Notes a finding. A value outside a documented set is a warning: the document can be older."""
        severity: Literal["error", "warning"] = "warning" if code == "set" else "error"
        self.findings.append(Finding(offset=offset, message=message, hint=hint, severity=severity, code=code))

    def type_of(self, node: Node, bound: Mapping[str, Type]) -> Type:
        """The type of a part, after everything wrong in it was noted."""
        return self._by_kind[node.kind](node, bound)

    def _literal(self, node: Node, _bound: Mapping[str, Type]) -> Type:
        return _LITERAL_TYPES[node.literal]

    def _record(self, node: Node, bound: Mapping[str, Type]) -> Type:
        for index, child in enumerate(node.children):
            found = self.type_of(child, bound)
            if index % 2 == 0 and found.kind not in ("string", "any"):
                message = f"a field of a record has a text for its name, and this is {found.words}"
                self.find(child.start, message, "write {'name': …}")
        return Type(kind="object")

    def _name(self, node: Node, bound: Mapping[str, Type]) -> Type:
        known = bound.get(node.text) or self._names.get(node.text)
        if known is not None:
            return known
        message, hint = unknown_name(node.text, {**self._names, **bound})
        self.find(node.at, message, hint, code="fact")
        return ANY

    def _select(self, node: Node, bound: Mapping[str, Type]) -> Type:
        target = self.type_of(node.children[0], bound)
        base = spelled(node.children[0])
        if target.kind == "any" or (target.kind == "object" and target.fields is None):
            return ANY
        if target.kind != "object" or target.fields is None:
            look = f"look at its items: {base}.exists(x, x.{node.text} == …)"
            hint = look if target.kind == "list" else f"write {base} alone"
            self.find(node.at, f"{base} is {target.words} and has no field '{node.text}'", hint)
            return ANY
        if node.text in target.fields:
            return target.fields[node.text]
        message, hint = unknown_field(base, node.text, target.fields)
        self.find(node.at, message, hint, code="field")
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
            hint = "a list has places, [0]; a record has fields, ['name']"
            self.find(index.start, f"{spelled(node.children[0])} is {target.words} and has no [{by.words}]", hint)
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
                message = f"{symbol} takes true or false, and this is {found.words}"
                self.find(child.start, message, compared(child, found))
        return BOOL

    def _negate(self, node: Node, bound: Mapping[str, Type]) -> Type:
        found = self.type_of(node.children[0], bound)
        if found.kind not in NUMERIC | {"any"}:
            self.find(node.start, f"'-' takes a number, and this is {found.words}", "remove the '-'")
        return found if found.kind in NUMERIC else ANY

    def _choice(self, node: Node, bound: Mapping[str, Type]) -> Type:
        condition, yes, no = (self.type_of(child, bound) for child in node.children)
        if condition.kind not in ("bool", "any"):
            message = f"'?' takes true or false, and this is {condition.words}"
            self.find(node.children[0].start, message, compared(node.children[0], condition))
        return replace(yes, values=()) if yes.kind == no.kind else ANY

    def _compare(self, node: Node, bound: Mapping[str, Type]) -> Type:
        left, right = node.children
        types = self.type_of(left, bound), self.type_of(right, bound)
        if node.text == "in":
            self._member(node, *types)
        elif node.text in ("==", "!="):
            self._equal(node, *types)
        elif not ordered(*types):
            self.find(node.at, f"{pair(node, types)} have no order", remedy_of(node, types))
        return BOOL

    def _equal(self, node: Node, left: Type, right: Type) -> None:
        if not comparable(left, right):
            hint = remedy_of(node, (left, right))
            if "null" in (left.kind, right.kind):
                hint = "the API document allows no null here; where one comes, the field is unknown"
            self.find(node.at, f"{pair(node, (left, right))} can never be equal", hint)
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
                message = f"{left.words} is never in a list of {right.items.words}"
                self.find(node.at, message, remedy_in(left, right.items))
        elif right.kind == "object":
            path = path_of(listed)
            if item.literal == "string" and right.fields is not None and str(item.value) in right.fields and path:
                message, hint = presence(f"{path.text}.{item.value}")
                self.find(item.start, message, hint, code="presence")
        elif right.kind != "any":
            hint = "for texts: text.contains('part')" if right.kind == "string" else "write a list: x in ['a', 'b']"
            self.find(node.at, f"'in' takes a list on its right, and this is {right.words}", hint)

    def _among(self, node: Node, known: Type, value: Node) -> None:
        """A literal that a field with a documented set of values is compared with."""
        if known.values and value.literal == "string" and value.value not in known.values:
            said = other_value(spelled(node), known, str(value.value))
            if said is not None:
                self.find(value.start, *said, code="set")

    def _arithmetic(self, node: Node, bound: Mapping[str, Type]) -> Type:
        left, right = (self.type_of(child, bound) for child in node.children)
        divisor = node.children[1]
        if node.text in ("/", "%") and divisor.literal in ("int", "double") and not divisor.value:
            self.find(divisor.start, "what is divided by 0 is unknown", "divide by another number", code="zero")
        if "any" in (left.kind, right.kind):
            self._any_with_integer(node, left, right)
            return ANY
        if {left.kind, right.kind} == {"int", "double"}:
            self._mixed(node, left)
            return DOUBLE
        row = ARITHMETIC.get((node.text, left.kind, right.kind))
        if row is not None:
            return row[0]
        if node.text == "%" and left.kind == right.kind == "double":
            self.find(node.at, "'%' takes whole numbers only", "write int(…) around both sides")
        else:
            told = f"{pair(node, (left, right))} cannot be combined by '{node.text}'"
            self.find(node.at, told, remedy((left, right)))
        return ANY

    def _any_with_integer(self, node: Node, left: Type, right: Type) -> None:
        """What is not documented may be a number, and every number from the service is a double."""
        unknown, other = node.children if left.kind == "any" else node.children[::-1]
        if path_of(unknown) is not None and other.literal == "int" and {left.kind, right.kind} == {"any", "int"}:
            self._mixed(node, left if left.kind == "int" else DOUBLE)

    def _mixed(self, node: Node, left: Type) -> None:
        """CEL adds a whole number to a whole number and a double to a double, and nothing else."""
        whole, other = node.children if left.kind == "int" else node.children[::-1]
        written = (
            f"{whole.text}.0"
            if whole.literal == "int"
            else f"double({spelled(whole)})"
            if path_of(whole)
            else "double(…) around it"
        )
        both = whole.literal == "int" and other.literal == "double"
        message = (
            f"{whole.text} is a whole number and {other.text} is not"
            if both
            else ("arithmetic of a number from the service with a whole number")
        )
        hint = f"write {written}; every number from the service is a double, and CEL mixes none with whole numbers"
        self.find(whole.start, f"{message}: '{node.text}' takes two of a kind", hint, code="integer")

    def _call(self, node: Node, bound: Mapping[str, Type]) -> Type:
        if node.text == "has" and not node.method:
            return self._has(node, bound)
        types = tuple(self.type_of(child, bound) for child in node.children)
        function = FUNCTIONS.get(node.text)
        if function is None:
            message, hint = unknown_function(node.text)
            self.find(node.at, message, hint, code="function")
            return ANY
        callable_so = function.method if node.method else function.plain
        if not callable_so or not function.takes_so_many(len(types)):
            self.find(node.at, f"'{node.text}' is not called so", f"write {usage(function)}", code="function")
            return function.gives
        before = len(self.findings)
        for child, found, wanted in zip(node.children, types, function.takes, strict=False):
            if found.kind != "any" and found.kind not in wanted:
                takes = " or ".join(WORDS[kind] for kind in KINDS if kind in wanted)
                hint = "write x in list" if (node.text, found.kind) == ("contains", "list") else f"it takes {takes}"
                self.find(child.start, f"'{node.text}' does not take {found.words}", hint)
        if len(self.findings) == before:
            self._written_out(node, function)
        return function.gives

    def _written_out(self, node: Node, function: Function) -> None:
        """What a call makes of arguments that are written out is known now: an error is one each time."""
        first, last = node.children[0], node.children[-1]
        if node.text == "duration" and first.literal != "string":
            self.find(first.start, "duration takes a text in quotes", "write duration('7d')", code="value")
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
            self.find(place.start, said, hint or told or f"write {usage(function)}", code="value")

    def _has(self, node: Node, bound: Mapping[str, Type]) -> Type:
        for child in node.children:
            path = path_of(child)
            before = len(self.findings)
            target = self.type_of(child.children[0], bound) if child.children else ANY
            known = target.fields is not None and child.text in target.fields
            if known and path is not None and len(self.findings) == before:
                message, hint = presence(path.text)
                self.find(node.at, message, hint, code="presence")
        return BOOL

    def _macro(self, node: Node, bound: Mapping[str, Type]) -> Type:
        target, variable, *bodies = node.children
        over = self.type_of(target, bound)
        if over.kind not in ("list", "any", "object"):
            message = f"'{node.text}' goes over a list, and {spelled(target)} is {over.words}"
            self.find(node.at, message, macro_usage(node.text))
        item = over.items if over.kind == "list" and over.items is not None else ANY
        inner = {**bound, variable.text: item}
        results = [self.type_of(body, inner) for body in bodies]
        wrong = len(bodies) > (2 if node.text == "map" else 1)
        if wrong:
            self.find(node.at, f"'{node.text}' takes a name and a condition", macro_usage(node.text), code="function")
        if node.text != "map" and not wrong and results[0].kind not in ("bool", "any"):
            message = f"'{node.text}' takes a condition, and this is {results[0].words}"
            self.find(bodies[0].start, message, compared(bodies[0], results[0]))
        if node.text == "filter":
            return over
        return Type(kind="list", items=replace(results[-1], values=())) if node.text == "map" else BOOL
