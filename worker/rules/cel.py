"""From the text of a condition to its tree: the grammar of CEL, with the place of every part.

What JSON and a clock have no use for is no part of it, and says so where it stands: bytes, unsigned numbers, messages.
Offsets count characters of the text. Nothing here knows what a name means, and nothing is evaluated.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

LiteralKind = Literal["", "int", "double", "string", "bool", "null"]

RECORDED: frozenset[str] = frozenset({"ago", "delta"})
"""What is asked of the recorded changes: of a field, and how long ago."""
WRITE, SINCE = "write", "since"
"""The last write of the rule that this one comes after, and what is asked of a field since then."""
THEN: Final = "@"
"""Stands between the name of a fact and how long ago it was so."""
MACROS: frozenset[str] = frozenset({"all", "exists", "exists_one", "map", "filter"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One part. ``start`` to ``end`` is its text; ``at`` the place to complain about (a name, an operator).

    ``kind``: literal, ident, select, index, call, macro, list, map, not, negate, and, or, if, compare or arithmetic.
    ``text`` is the name, field, function, operator or literal. ``children``: a call's target, if ``method``, then its
    arguments; a macro's target, variable and bodies; a map's keys and values in turn. ``value`` of a literal.
    """

    kind: str
    start: int
    end: int
    at: int
    text: str = ""
    children: "tuple[Node, ...]" = ()
    method: bool = False
    literal: LiteralKind = ""
    value: "str | int | float | bool | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A chain of fields from a name: ``event.benchmark.prediction``. What a fact was is a fact of its own, whose name
    says when: ``event@24h``."""

    name: str
    fields: tuple[str, ...]

    @property
    def text(self) -> str:
        """As an operator would write it."""
        if self.name == WRITE and self.fields[:1] == (SINCE,):
            return f"{'.'.join(self.fields[1:])} at write.at"
        name, _, then = self.name.partition(THEN)
        path = ".".join((name, *self.fields))
        return f"ago({path}, '{then}')" if then else path


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, in the order of the text."""
    stack = [node]
    while stack:
        one = stack.pop()
        yield one
        stack.extend(reversed(one.children))


def path_of(node: Node, bound: frozenset[str] = frozenset()) -> Path | None:
    """The chain of fields that a node is, or None: ``event.x`` and ``event['x']`` alike."""
    fields: list[str] = []
    while node.kind in ("select", "index"):
        if node.kind == "select":
            fields.append(node.text)
        elif node.children[1].literal == "string":
            fields.append(str(node.children[1].value))
        else:
            return None
        node = node.children[0]
    if node.kind != "ident" or node.text in bound:
        return None
    return Path(name=node.text, fields=tuple(reversed(fields)))


def meaning_of(node: Node) -> str:
    """The same text for parts that mean the same, however they are spaced: ``event.x`` is ``event['x']``."""
    path = path_of(node)
    if path is not None:
        return path.text
    parts = ", ".join(meaning_of(child) for child in node.children)
    return f"{node.kind} {node.text} {'.' if node.method else ''}({parts})"


def free_idents(node: Node, bound: frozenset[str] = frozenset()) -> Iterator[tuple[Node, frozenset[str]]]:
    """Where names stand that no macro binds, in the order of the text, with those that macros bind there."""
    if node.kind == "ident" and node.text not in bound:
        yield node, bound
    for child, names in _within(node, bound):
        yield from free_idents(child, names)


def _within(node: Node, bound: frozenset[str]) -> Iterator[tuple[Node, frozenset[str]]]:
    """The parts of a node, each with the names that macros bind there."""
    if node.kind != "macro":
        yield from ((child, bound) for child in node.children)
        return
    target, variable, *bodies = node.children
    yield target, bound
    yield from ((body, bound | {variable.text}) for body in bodies)


def free_paths(node: Node, bound: frozenset[str] = frozenset()) -> Iterator[Path]:
    """The longest chains from names that no macro binds."""
    path = path_of(node, bound)
    if path is not None:
        yield path
        return
    recorded = node.kind == "call" and node.text in RECORDED and len(node.children) == 2
    since = node.kind == "call" and node.text == SINCE and len(node.children) == 1
    for child, names in _within(node, bound):
        for path in free_paths(child, names):
            yield path
            if recorded:
                yield replace(path, name=past_name(path.name, node))
            elif since:
                yield Path(name=WRITE, fields=(SINCE, path.name, *path.fields))


def past_name(name: str, call: Node) -> str:
    """The name of a fact as it was when a call of `RECORDED` asks for it."""
    return f"{name}{THEN}{call.children[-1].value}"


def fields_in(tree: Node) -> frozenset[str]:
    """Every field that a text names, of whatever."""
    selects = {node.text for node in walk(tree) if node.kind == "select"}
    indexed = (node.children[1] for node in walk(tree) if node.kind == "index")
    return frozenset(selects | {str(one.value) for one in indexed if one.literal == "string"})


def names_of(node: Node) -> frozenset[str]:
    """The names that a condition takes from outside."""
    return frozenset(path.name for path in free_paths(node))


# --- slips of the pen: what is written so in another language, told by the word at which the grammar stopped ---

_ALTERNATIVES: Mapping[str, str] = {
    "and": "&&",
    "or": "||",
    "not": "!(…) around what is denied, as in !(event.city in ['Ulm'])",
    "&": "&&",
    "|": "||",
    "=": "==",
    "=>": "a comma behind the name, as in list.exists(x, x.budget > 5.0)",
    "#": "// for a comment",
    "is": "==, and != for 'is not'",
    "equals": "==",
    "like": "text.contains('part')",
}
_OF_TEXTS = frozenset({"contains", "startsWith", "endsWith", "matches"})
_CURLY = frozenset("`\u00b4\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb")


def slip(before: str, found: str) -> str:
    """The remedy of a slip that is known from other languages; empty where it is none of them."""
    if found in _CURLY:
        return "write ': texts stand in straight quotes, and editors and chats make curly ones of them"
    if len(found) == 1 and not found.isprintable():
        return "type a plain space in its place; it cannot be seen, and often comes along when text is copied"
    if found.lower() in _ALTERNATIVES:
        return f"write {_ALTERNATIVES[found.lower()]}"
    if re.search(r"(^|[\s(])not\s*$", before):
        return "write !(…): ! stands for not"
    if found == ">" and before.rstrip().endswith("<"):
        return "write !="
    if before[-1:].isdigit() and found[:1] in (",", "_"):
        return "write a point before decimals, and nothing between thousands: 1000.5"
    if found in _OF_TEXTS:
        return f"write it behind the text, with what it takes in brackets: text.{found}('part')"
    if found in ("ms", "s", "m", "h", "d") and (number := re.search(r"(\d+(?:\.\d+)?)\s*$", before)):
        return f"write duration('{number[1]}{found}'); in ago, delta and since '{number[1]}{found}' alone"
    share = re.search(r"(\d+(?:\.\d+)?)\s*%\s*$", before + found)
    return f"write {float(share[1]) / 100:g}: a share is a number from 0 to 1" if share is not None else ""


def named(found: str) -> str:
    """What stands there, so that it can be found: in quotes, or by its number where it cannot be seen."""
    if len(found) == 1 and not found.isprintable():
        return f"the character U+{ord(found):04X}"
    return f"'{found}'"


# --- the grammar ---

SOURCE_LENGTH_MAX: Final = 4_000
WITH_NAMES_MAX: Final = 100_000
"""The same, where what names stand for was put in."""
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DEPTH_MAX: Final = 64
"""Brackets in brackets, and operators on operators: what somebody writes has a few."""
INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
_BINDING: Final[Mapping[str, int]] = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 5),
}
_CHAINED: Final = frozenset({1, 2})
_KINDS: Final[Mapping[int, str]] = {1: "or", 2: "and", 3: "compare", 4: "arithmetic", 5: "arithmetic"}
_Token: TypeAlias = re.Match[str]
"""A word of the text; its kind is the group of `_TOKEN` that found it."""
_TOKEN = re.compile(
    r"""(?P<skipped>[ \t\r\n\f]+|//[^\n]*)
    |(?P<double>\d*\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    |(?P<int>0x[0-9a-fA-F]+|\d+)
    |(?P<raw>[rR](?:'''[\s\S]*?'''|\"\"\"[\s\S]*?\"\"\"|'[^'\n\r]*'|"[^"\n\r]*"))
    |(?P<text>'''(?:\\[\s\S]|[^\\])*?'''|\"\"\"(?:\\[\s\S]|[^\\])*?\"\"\"
        |'(?!'')(?:\\.|[^'\\\n\r])*'|"(?!"")(?:\\.|[^"\\\n\r])*")
    |(?P<sign>&&|\|\||[=!<>]=|[-+*/%<>!?:.,()\[\]{}]|in\b)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<end>\Z)|(?P<bad>.)""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|([\s\S]?))")
_ESCAPED: Final = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))
_BRACKETS: Final[Mapping[str, str]] = {"(": ")", "[": "]", "{": "}"}
_QUOTES = "close it with the quote it began with; a pattern is written r'…'"
_UNEXPECTED = "parts are joined by && or ||, a text stands in quotes, and a list in square brackets"
_UNFINISHED = "write what is to be compared, or remove the operator at its end"


class BadSyntax(Exception):
    """A text that is not a condition: where, why, and what to do."""

    def __init__(self, offset: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.offset = offset
        self.hint = hint


def parse(source: str, longest: int = SOURCE_LENGTH_MAX) -> Node:
    """The tree of a condition. Raises `BadSyntax`."""
    if not source.strip():
        raise BadSyntax(0, "the condition is empty", "remove the key, or write what must be true")
    if len(source) > longest:
        raise BadSyntax(0, f"the condition is longer than {longest} characters", "split the rule")
    tree = _Parser(source).whole()
    if _height(tree) > DEPTH_MAX:
        raise _too_deep()
    return tree


def _height(tree: Node) -> int:
    level, height = [tree], 0
    while level:
        level, height = [child for node in level for child in node.children], height + 1
    return height


def _too_deep() -> BadSyntax:
    return BadSyntax(0, "the condition is nested too deeply", "split the rule")


class _Parser:
    """Reads the tokens one after the other; ``_ended`` is where the last one did, which is where its part ends."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._ended = 0
        self._depth = 0
        self._opened: list[_Token] = []
        self._tokens = (found for found in _TOKEN.finditer(source) if found.lastgroup != "skipped")
        self._token = next(self._tokens)

    def whole(self) -> Node:
        """The tree of the whole text."""
        tree = self._choice()
        if self._token.lastgroup != "end":
            raise self._unexpected()
        return tree

    def _take(self) -> _Token:
        taken, self._ended = self._token, self._token.end()
        if taken[0] in _BRACKETS:
            self._opened.append(taken)
        elif taken[0] in _BRACKETS.values():
            self._opened.pop()
        self._token = next(self._tokens)
        return taken

    def _sees(self, *signs: str) -> bool:
        return self._token.lastgroup == "sign" and self._token[0] in signs

    def _expect(self, sign: str) -> _Token:
        if not self._sees(sign):
            raise self._unexpected()
        return self._take()

    def _made(
        self, kind: str, start: int, children: Sequence[Node], at: _Token | None = None, *, method: bool = False
    ) -> Node:
        """A node that ends here. ``at``: the token that names it, and to complain about."""
        place, text = (start, "") if at is None else (at.start(), at[0])
        return Node(
            kind=kind, start=start, end=self._ended, at=place, text=text, children=tuple(children), method=method
        )

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise _too_deep()
        start = self._token.start()
        node = self._operation(1)
        if self._sees("?"):
            self._take()
            yes = self._operation(1)
            self._expect(":")
            node = self._made("if", start, [node, yes, self._choice()])
        self._depth -= 1
        return node

    def _operation(self, least: int) -> Node:
        """Operators that bind as tightly as ``least`` or tighter. A chain of && or || is one node with many children,
        so that depth does not grow with length."""
        start = self._token.start()
        node = self._unary()
        while (binding := _BINDING.get(self._token[0], 0) if self._token.lastgroup == "sign" else 0) >= least:
            operator = self._take()
            parts = [node, self._operation(binding + 1)]
            while binding in _CHAINED and self._sees(operator[0]):
                self._take()
                parts.append(self._operation(binding + 1))
            node = self._made(_KINDS[binding], start, parts, None if binding in _CHAINED else operator)
        return node

    def _unary(self) -> Node:
        signs: list[_Token] = []
        while self._sees("!", "-"):
            if signs and signs[-1][0] != self._token[0]:
                raise self._unexpected()
            signs.append(self._take())
        negative = bool(signs) and signs[-1][0] == "-" and self._token.lastgroup in ("int", "double")
        node = self._member(signs.pop() if negative else None)
        for sign in reversed(signs):
            node = self._made("not" if sign[0] == "!" else "negate", sign.start(), [node])
        return node

    def _member(self, minus: _Token | None) -> Node:
        """A value, and what follows it: fields, places and calls. ``minus``: the sign of a number."""
        start = (minus or self._token).start()
        node = self._primary() if minus is None else self._literal(minus)
        while self._sees(".", "["):
            if self._take()[0] == "[":
                index = self._choice()
                self._expect("]")
                node = self._made("index", start, [node, index])
                continue
            name = self._token
            if name.lastgroup != "name":
                raise self._unexpected()
            self._take()
            node = self._call(start, name, [node]) if self._sees("(") else self._made("select", start, [node], name)
        return node

    def _primary(self) -> Node:
        token = self._token
        if token.lastgroup not in ("sign", "bad", "end"):
            if token.lastgroup != "name":
                return self._literal()
            self._take()
            if self._sees("("):
                return self._call(token.start(), token, [])
            return self._word(token) if token[0] in _WORDS else self._made("ident", token.start(), [], token)
        if not self._sees("(", "[", "{"):
            raise self._unexpected()
        self._take()
        if token[0] == "(":
            node = self._choice()
            self._expect(")")
            return node
        if token[0] == "[":
            return self._made("list", token.start(), self._items("]"))
        return self._made("map", token.start(), self._items("}", pairs=True))

    def _items(self, closing: str, *, pairs: bool = False) -> list[Node]:
        """What stands between brackets, up to the closing one."""
        found: list[Node] = []
        while not self._sees(closing):
            found.append(self._choice())
            if pairs:
                self._expect(":")
                found.append(self._choice())
            if not self._sees(","):
                break
            self._take()
        self._expect(closing)
        return found

    def _call(self, start: int, name: _Token, target: list[Node]) -> Node:
        self._take()
        children = [*target, *self._items(")")]
        if target and name[0] in MACROS:
            if len(children) not in (3, 4 if name[0] == "map" else 3) or children[1].kind != "ident":
                message = f"'{name[0]}' takes a name and a condition"
                raise BadSyntax(name.start(), message, f"write list.{name[0]}(x, …)")
            return self._made("macro", start, children, name, method=True)
        if name[0] == "has" and not target and (len(children) != 1 or children[0].kind != "select"):
            raise BadSyntax(name.start(), "has() takes a field", "write has(event.field)")
        return self._made("call", start, children, name, method=bool(target))

    def _literal(self, minus: _Token | None = None) -> Node:
        token = self._take()
        kind: LiteralKind = "string"
        value: int | float | str
        if token.lastgroup == "int":
            kind, value = "int", int(token[0], 16 if token[0].startswith("0x") else 10)
            value = value if minus is None else -value
            if not INT_MIN <= value <= INT_MAX:
                hint = "give it a decimal point, as in 1000.0"
                raise BadSyntax(token.start(), "this whole number is too large", hint)
        elif token.lastgroup == "double":
            kind, value = "double", float(token[0]) if minus is None else -float(token[0])
        else:
            value = _text_of(token)
        start, text = (token.start(), token[0]) if minus is None else (minus.start(), f"-{token[0]}")
        return Node(kind="literal", start=start, end=token.end(), at=start, text=text, literal=kind, value=value)

    def _word(self, token: _Token) -> Node:
        kind, value = _WORDS[token[0]]
        return replace(self._made("literal", token.start(), [], token), literal=kind, value=value)

    def _unclosed(self) -> str:
        """The remedy for an end that comes too early: which bracket is open, if any."""
        if not self._opened:
            return _UNFINISHED
        bracket = self._opened[-1]
        behind = self._source[bracket.end() :][:20].strip()
        return f"close the {bracket[0]} before '{behind}' with {_BRACKETS[bracket[0]]}"

    def _unexpected(self) -> BadSyntax:
        """The word at which the grammar stops, with the remedy of the usual slips."""
        token, source = self._token, self._source
        word = re.match(r"\w+|&&|\|\||[=!<>]=|=>|\S", source[token.start() :])
        found = word[0] if word is not None else token[0]
        if token.lastgroup == "end":
            before = source.rstrip()
            return BadSyntax(len(before), "the condition ends too early", slip(before, "") or self._unclosed())
        if token.lastgroup == "bad" and found in ("'", '"'):
            return BadSyntax(token.start(), "this text is not closed", _QUOTES)
        glued = self._ended == token.start() and token.start() > 0
        if glued and found in ("u", "U") and source[token.start() - 1].isalnum():
            return BadSyntax(token.start(), "numbers without a sign are not known here", "leave the u out")
        if glued and token.lastgroup in ("text", "raw"):
            return BadSyntax(self._ended - 1, "bytes are not known here: the service has none", "write a text, '…'")
        hint = slip(source[: token.start()], found) or _UNEXPECTED
        return BadSyntax(token.start(), f"{named(found)} is not expected here", hint)


def _text_of(token: _Token) -> str:
    """The text that a literal stands for."""
    spelled = token[0][1:] if token.lastgroup == "raw" else token[0]
    quotes = 3 if spelled[:3] in ("'''", '"""') else 1
    inside = spelled[quotes:-quotes]
    if token.lastgroup == "raw":
        return inside
    return _ESCAPE.sub(lambda escape: _character(escape, token.start() + quotes), inside)


def _character(escape: re.Match[str], offset: int) -> str:
    code = escape[1] or escape[2] or escape[3]
    number = int(code, 16) if code else int(escape[4], 8) if escape[4] else None
    if number is None and escape[5] in _ESCAPED:
        return _ESCAPED[escape[5]]
    if number is None or number > sys.maxunicode or 0xD800 <= number <= 0xDFFF:
        hint = "write \\\\ for a backslash, or r'…'"
        raise BadSyntax(offset + escape.start(), f"{escape[0]} is no escape that CEL knows", hint)
    return chr(number)


_WORDS: Final[Mapping[str, tuple[LiteralKind, bool | None]]] = {
    "true": ("bool", True),
    "false": ("bool", False),
    "null": ("null", None),
}
