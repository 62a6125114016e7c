"""The only door to CEL: compiles and runs conditions with one library, and reads their syntax tree with another.

The Rust engine evaluates; it is fast and absorbs errors in ``&&`` and ``||`` as the standard says, but gives no tree.
cel-python's parser gives a tree with places and is used once, at load; it takes a quarter of a second to import, so it
is imported when the first condition is read. Both must accept a text. What is known of the engine's traps stands here:
it has no unit ``d`` for durations, so literals are rewritten before it sees them; it takes a double divided by 0.0 for
infinite, so quotients are rewritten to be errors where they are not finite; an integer and a double compare but do not
add; a name that is not defined, a missing key and a wrong type are three different exceptions, and one here.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import cel

from worker.rules.durations import parse_duration
from worker.rules.placed import placed
from worker.rules.slips import named, slip
from worker.rules.syntax import MACROS, LiteralKind, Node, NodeKind, walk

if TYPE_CHECKING:
    from celpy.celparser import CELParser
    from lark import Token, Tree

SOURCE_LENGTH_MAX: Final = 4_000

CelValue: TypeAlias = (
    "bool | int | float | str | bytes | datetime | timedelta | list[CelValue] | dict[str, CelValue] | None"
)

_ENGINE_ERROR = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_QUOTES = "close it with the quote it began with; a pattern is written r'…'"
_UNEXPECTED = "parts are joined by && or ||, a text stands in quotes, and a list in square brackets"
_UNFINISHED = "write what is to be compared, or remove the operator at its end"
_BRACKETS: Mapping[str, str] = {"(": ")", "[": "]", "{": "}"}
_TEXTS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_NOT_FINITE = "a quotient is not a finite number: it is divided by 0"
_RUN_ERRORS = (LookupError, RuntimeError, TypeError, ValueError, ArithmeticError)


class BadSyntax(Exception):
    """A text that is not a condition: where, why, and what to do."""

    def __init__(self, offset: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.offset = offset
        self.hint = hint


class CannotEvaluate(Exception):
    """The engine met an error: something undefined, missing, or of the wrong type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Values of names, converted for the engine once and used by many programs."""

    engine: cel.Context = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A compiled condition: its text, its tree, and the engine's program."""

    source: str
    tree: Node = field(repr=False)
    engine: cel.Program = field(repr=False, compare=False)

    def run(self, context: Context) -> object:
        """The value. Raises `CannotEvaluate`."""
        try:
            return self.engine.execute(context.engine)
        except _RUN_ERRORS as error:
            raise CannotEvaluate(_words(error)) from None


def context_of(values: Mapping[str, CelValue]) -> Context:
    """The values, ready for the engine. Names that are not given are undefined. Raises `CannotEvaluate`."""
    try:
        return Context(engine=cel.Context(variables=dict(values)))
    except _RUN_ERRORS as error:
        raise CannotEvaluate(_words(error)) from None


@lru_cache(maxsize=1_000)
def compile_source(source: str) -> Program:
    """Reads and compiles a text; one that was compiled before is the same program. Raises `BadSyntax`."""
    if not source.strip():
        raise BadSyntax(0, "the condition is empty", "remove the key, or write what must be true")
    if len(source) > SOURCE_LENGTH_MAX:
        raise BadSyntax(0, f"the condition is longer than {SOURCE_LENGTH_MAX} characters", "split the rule")
    _compiled(source)
    tree = _parsed(source)
    return Program(source=source, tree=tree, engine=_compiled(_for_engine(source, tree)))


def slice_of(program: Program, node: Node) -> Program:
    """The program of one part, to be evaluated by itself. Names that a macro around it binds are undefined there."""
    return compile_source(program.source[node.start : node.end])


def _compiled(source: str) -> cel.Program:
    try:
        return cel.compile(source)
    except ValueError as error:
        match = _ENGINE_ERROR.search(str(error))
        line, column, words = match.groups() if match else ("1", "1", "not a condition that CEL understands")
        raise _said_plainly(source, _offset(source, int(line), int(column)), words) from None


def _offset(source: str, line: int, column: int) -> int:
    lines = source.split("\n")
    before = sum(len(one) + 1 for one in lines[: line - 1])
    return min(before + column - 1, len(source))


def _said_plainly(source: str, offset: int, words: str) -> BadSyntax:
    """The engine's grammar talk in a person's words, with the remedy of the usual slips."""
    words = words.removeprefix("Syntax error: ")
    if "recursion limit" in words.lower():
        return BadSyntax(0, "the condition is nested too deeply", "split the rule")
    rest = source[offset:]
    word = re.match(r"\w+|&&|\|\||[=!<>]=|\S", rest)
    found = word.group() if word is not None else rest[:1]
    hint = slip(source[:offset], found)
    if not rest.strip():
        return BadSyntax(len(source.rstrip()), "the condition ends too early", hint or _open_bracket(source))
    if words.startswith(("token recognition", "mismatched", "extraneous", "no viable", "missing")):
        if found in {"'", '"'}:
            return BadSyntax(offset, "this text is not closed, or has an escape that CEL does not know", _QUOTES)
        return BadSyntax(offset, f"{named(found)} is not expected here", hint or _UNEXPECTED)
    if words.startswith("invalid int"):
        return BadSyntax(offset, "this whole number is too large", "give it a decimal point, as in 1000.0")
    return BadSyntax(offset, words, hint)


def _open_bracket(source: str) -> str:
    """The remedy for an end that comes too early: which bracket is open, if any."""
    opened: list[int] = []
    for index, char in enumerate(_TEXTS.sub(lambda text: " " * len(text.group()), source)):
        if char in _BRACKETS:
            opened.append(index)
        elif char in _BRACKETS.values() and opened:
            opened.pop()
    if not opened:
        return _UNFINISHED
    bracket = source[opened[-1]]
    return f"close the {bracket} before '{source[opened[-1] + 1 :][:20].strip()}' with {_BRACKETS[bracket]}"


@lru_cache(maxsize=1)
def _parser() -> "CELParser":
    from celpy.celparser import CELParser  # noqa: PLC0415 - a quarter of a second that most commands never need

    return CELParser()


def _parsed(source: str) -> Node:
    from celpy.celparser import CELParseError  # noqa: PLC0415 - as above

    try:
        return _Reader(source).node(placed(_parser().parse(source), source))
    except CELParseError as error:
        offset = _offset(source, error.line, error.column) if error.line and error.column else 0
        raise BadSyntax(offset, "this cannot be read here", "write it more simply") from None
    except RecursionError:
        raise BadSyntax(0, "the condition is nested too deeply", "split the rule") from None


def _for_engine(source: str, tree: Node) -> str:
    """The source with each literal of ``duration('7d')`` in a unit that the engine knows, and each quotient that is not
    finite as an error: only of a finite number is the difference from itself 0."""
    edits: list[tuple[int, int, str]] = []
    for node in walk(tree):
        if node.kind == "call" and node.text == "duration" and not node.method and len(node.children) == 1:
            argument = node.children[0]
            if argument.literal == "string":
                edits.append((argument.start, argument.end, _engine_duration(str(argument.value))))
        if node.kind == "arithmetic" and node.text == "/":
            edits.append((node.end, node.end, f"].map(q, q - q == 0.0 ? q : {{}}['{_NOT_FINITE}'])[0]"))
            edits.append((node.start, node.start, "["))
    for start, end, spelled in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        source = source[:start] + spelled + source[end:]
    return source


def _engine_duration(text: str) -> str:
    sign, spelled = ("-", text[1:]) if text.startswith("-") else ("", text)
    try:
        return f"'{sign}{round(parse_duration(spelled).total_seconds() * 1000)}ms'"
    except ValueError:
        return repr(text)  # the static check has said it already, with its place


def _words(error: Exception) -> str:
    if isinstance(error, KeyError):
        return _NOT_FINITE if _NOT_FINITE in error.args else f"there is no field {error}"
    return str(error).split(". ", 1)[0].split("\n", 1)[0].removesuffix(".")


_OPERATORS: Final[Mapping[str, str]] = {
    "relation_lt": "<",
    "relation_le": "<=",
    "relation_gt": ">",
    "relation_ge": ">=",
    "relation_eq": "==",
    "relation_ne": "!=",
    "relation_in": "in",
    "addition_add": "+",
    "addition_sub": "-",
    "multiplication_mul": "*",
    "multiplication_div": "/",
    "multiplication_mod": "%",
}
_LITERALS: Final[Mapping[str, LiteralKind]] = {
    "INT_LIT": "int",
    "UINT_LIT": "uint",
    "FLOAT_LIT": "double",
    "STRING_LIT": "string",
    "MLSTRING_LIT": "string",
    "BYTES_LIT": "bytes",
    "BOOL_LIT": "bool",
    "NULL_LIT": "null",
}

_LEVELS: Final = frozenset(
    {
        "expr",
        "conditionalor",
        "conditionaland",
        "relation",
        "addition",
        "multiplication",
        "unary",
        "member",
        "primary",
        "paren_expr",
    }
)


class _Reader:
    """From the parser's tree, one level of precedence a node, to ours."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._by_rule: Mapping[str, Callable[[Tree[Token]], Node]] = {
            "expr": self._choice,
            "conditionalor": self._junction,
            "conditionaland": self._junction,
            "relation": self._binary,
            "addition": self._binary,
            "multiplication": self._binary,
            "unary": self._unary,
            "member_dot": self._select,
            "member_dot_arg": self._method,
            "member_index": self._index,
            "member_object": self._collection,
            "dot_ident_arg": self._call,
            "ident_arg": self._call,
            "dot_ident": self._ident,
            "ident": self._ident,
            "list_lit": self._collection,
            "map_lit": self._collection,
            "literal": self._literal,
        }

    def node(self, tree: "Tree[Token]") -> Node:
        """The node of a subtree; levels without an operator of their own vanish."""
        while tree.data in _LEVELS and len(tree.children) == 1:
            tree = _subtree(tree.children[0])
        return self._by_rule[str(tree.data)](tree)

    def _choice(self, tree: "Tree[Token]") -> Node:
        return self._made("if", tree, tree.children)

    def _junction(self, tree: "Tree[Token]") -> Node:
        """A chain of one operator becomes one node with many children, so that depth does not grow with length."""
        rule, chain = tree.data, []
        top = tree
        while tree.data == rule and len(tree.children) == 2:
            chain.append(_subtree(tree.children[1]))
            tree = _subtree(tree.children[0])
        return self._made("or" if rule == "conditionalor" else "and", top, [tree, *reversed(chain)])

    def _binary(self, tree: "Tree[Token]") -> Node:
        operator, right = _subtree(tree.children[0]), _subtree(tree.children[1])
        left = _subtree(operator.children[0])
        symbol = _OPERATORS[str(operator.data)]
        at = max(self._source.find(symbol, left.meta.end_pos, right.meta.start_pos), left.meta.end_pos)
        return Node(
            kind="compare" if tree.data == "relation" else "arithmetic",
            start=tree.meta.start_pos,
            end=tree.meta.end_pos,
            at=at,
            text=symbol,
            children=(self.node(left), self.node(right)),
        )

    def _unary(self, tree: "Tree[Token]") -> Node:
        kind = _subtree(tree.children[0]).data
        return self._made("not" if kind == "unary_not" else "negate", tree, tree.children[1:])

    def _select(self, tree: "Tree[Token]") -> Node:
        name = _token(tree.children[1])
        return self._made("select", tree, tree.children[:1], name=name)

    def _method(self, tree: "Tree[Token]") -> Node:
        name = _token(tree.children[1])
        made = self._made("call", tree, [tree.children[0], *self._arguments(tree.children[2:])], name=name)
        macro = name.value in MACROS and len(made.children) >= 3 and made.children[1].kind == "ident"
        return Node(
            kind="macro" if macro else "call",
            start=made.start,
            end=made.end,
            at=made.at,
            text=made.text,
            children=made.children,
            method=True,
        )

    def _index(self, tree: "Tree[Token]") -> Node:
        return self._made("index", tree, tree.children)

    def _call(self, tree: "Tree[Token]") -> Node:
        return self._made("call", tree, self._arguments(tree.children[1:]), name=_token(tree.children[0]))

    def _ident(self, tree: "Tree[Token]") -> Node:
        return self._made("ident", tree, [], name=_token(tree.children[0]))

    def _collection(self, tree: "Tree[Token]") -> Node:
        kinds: Mapping[str, NodeKind] = {"list_lit": "list", "map_lit": "map", "member_object": "message"}
        return self._made(kinds[str(tree.data)], tree, self._arguments(tree.children))

    def _literal(self, tree: "Tree[Token]") -> Node:
        token = _token(tree.children[0])
        value = cel.compile(token.value).execute()
        return Node(
            kind="literal",
            start=tree.meta.start_pos,
            end=tree.meta.end_pos,
            at=tree.meta.start_pos,
            text=token.value,
            literal=_LITERALS[token.type],
            value=None if isinstance(value, bytes) else value,
        )

    def _arguments(self, children: "list[Tree[Token] | Token]") -> "list[Tree[Token] | Token]":
        """What stands between the brackets: the grammar wraps it, and leaves the wrapper out where there is nothing."""
        found: list[Tree[Token] | Token] = []
        for child in (one for one in children if not isinstance(one, str)):
            found.extend(child.children if child.data in {"exprlist", "mapinits", "fieldinits"} else [child])
        return [child for child in found if not isinstance(child, str)]

    def _made(
        self, kind: NodeKind, tree: "Tree[Token]", children: "list[Tree[Token] | Token]", name: "Token | None" = None
    ) -> Node:
        start = tree.meta.start_pos
        return Node(
            kind=kind,
            start=start,
            end=tree.meta.end_pos,
            at=start if name is None or name.start_pos is None else name.start_pos,
            text="" if name is None else name.value,
            children=tuple(self.node(_subtree(child)) for child in children),
        )


def _subtree(child: "Tree[Token] | Token") -> "Tree[Token]":
    if isinstance(child, str):
        raise TypeError(f"the parser gave a word where it promised a part: {child!r}")
    return child


def _token(child: "Tree[Token] | Token") -> "Token":
    if not isinstance(child, str):
        raise TypeError(f"the parser gave a part where it promised a word: {child.data!r}")
    return child
