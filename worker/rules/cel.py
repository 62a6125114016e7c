"""From the text of a condition to its tree: the grammar of CEL, with the place of every part.

What JSON and a clock have no use for is no part of it, and says so where it stands: bytes, unsigned numbers, messages.
Nothing here knows what a name means, and nothing is evaluated.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from worker.rules.slips import named, slip
from worker.rules.syntax import MACROS, LiteralKind, Node, NodeKind

SOURCE_LENGTH_MAX: Final = 4_000
DEPTH_MAX: Final = 64
"""Brackets in brackets, and operators on operators: what somebody writes has a few."""
INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1

TYPE_NAMES: Final = frozenset({"bool", "int", "double", "string", "list", "map", "null_type", "type"})
"""Names of types: what ``type(x)`` is compared with."""
_BINDING: Final[Mapping[str, int]] = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 5),
}
_CHAINED: Final = frozenset({1, 2})
_KINDS: Final[Mapping[int, NodeKind]] = {1: "or", 2: "and", 3: "compare", 4: "arithmetic", 5: "arithmetic"}
_TOKEN = re.compile(
    r"""(?P<skipped>[ \t\r\n\f]+|//[^\n]*)
    |(?P<double>\d*\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    |(?P<int>0x[0-9a-fA-F]+|\d+)
    |(?P<raw>[rR](?:'''[\s\S]*?'''|\"\"\"[\s\S]*?\"\"\"|'[^'\n\r]*'|"[^"\n\r]*"))
    |(?P<text>'''(?:\\[\s\S]|[^\\])*?'''|\"\"\"(?:\\[\s\S]|[^\\])*?\"\"\"
        |'(?!'')(?:\\.|[^'\\\n\r])*'|"(?!"")(?:\\.|[^"\\\n\r])*")
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>&&|\|\||[=!<>]=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|([\s\S]?))")
_ESCAPED: Final[Mapping[str, str]] = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    **{sign: sign for sign in "\\?\"'`"},
}
_TEXTS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
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


def parse(source: str) -> Node:
    """The tree of a condition. Raises `BadSyntax`."""
    if not source.strip():
        raise BadSyntax(0, "the condition is empty", "remove the key, or write what must be true")
    if len(source) > SOURCE_LENGTH_MAX:
        raise BadSyntax(0, f"the condition is longer than {SOURCE_LENGTH_MAX} characters", "split the rule")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    """A word of the text. ``kind`` is a group of `_TOKEN`, ``end`` where the text ends, ``bad`` where nothing fits."""

    kind: str
    text: str
    start: int
    end: int


class _Parser:
    """Reads the tokens one after the other; ``_ended`` is where the last one did, which is where its part ends."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._ended = 0
        self._depth = 0
        self._token = self._read()

    def whole(self) -> Node:
        """The tree of the whole text."""
        tree = self._choice()
        if self._token.kind != "end":
            raise self._unexpected()
        return tree

    def _read(self) -> _Token:
        while True:
            found = _TOKEN.match(self._source, self._at)
            if found is None:
                kind = "bad" if self._at < len(self._source) else "end"
                return _Token(kind=kind, text=self._source[self._at : self._at + 1], start=self._at, end=self._at)
            self._at = found.end()
            if found.lastgroup != "skipped":
                kind = "sign" if found[0] == "in" else str(found.lastgroup)
                return _Token(kind=kind, text=found[0], start=found.start(), end=found.end())

    def _take(self) -> _Token:
        taken, self._ended = self._token, self._token.end
        self._token = self._read()
        return taken

    def _sees(self, *signs: str) -> bool:
        return self._token.kind == "sign" and self._token.text in signs

    def _expect(self, sign: str) -> _Token:
        if not self._sees(sign):
            raise self._unexpected()
        return self._take()

    def _made(
        self, kind: NodeKind, start: int, children: Sequence[Node], at: _Token | None = None, *, method: bool = False
    ) -> Node:
        """A node that ends here. ``at``: the token that names it, and to complain about."""
        place, text = (start, "") if at is None else (at.start, at.text)
        return Node(
            kind=kind, start=start, end=self._ended, at=place, text=text, children=tuple(children), method=method
        )

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise _too_deep()
        start = self._token.start
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
        start = self._token.start
        node = self._unary()
        while (binding := _BINDING.get(self._token.text, 0) if self._token.kind == "sign" else 0) >= least:
            operator = self._take()
            parts = [node, self._operation(binding + 1)]
            while binding in _CHAINED and self._sees(operator.text):
                self._take()
                parts.append(self._operation(binding + 1))
            node = self._made(_KINDS[binding], start, parts, None if binding in _CHAINED else operator)
        return node

    def _unary(self) -> Node:
        signs: list[_Token] = []
        while self._sees("!", "-"):
            if signs and signs[-1].text != self._token.text:
                raise self._unexpected()
            signs.append(self._take())
        negative = bool(signs) and signs[-1].text == "-" and self._token.kind in ("int", "double")
        node = self._member(signs.pop() if negative else None)
        for sign in reversed(signs):
            node = self._made("not" if sign.text == "!" else "negate", sign.start, [node])
        return node

    def _member(self, minus: _Token | None) -> Node:
        """A value, and what follows it: fields, places and calls. ``minus``: the sign of a number."""
        start = self._token.start if minus is None else minus.start
        node = self._primary() if minus is None else self._literal(minus)
        while self._sees(".", "["):
            if self._take().text == "[":
                index = self._choice()
                self._expect("]")
                node = self._made("index", start, [node, index])
                continue
            name = self._token
            if name.kind != "name":
                raise self._unexpected()
            self._take()
            node = self._call(start, name, [node]) if self._sees("(") else self._made("select", start, [node], name)
        return node

    def _primary(self) -> Node:
        token = self._token
        if token.kind not in ("sign", "bad", "end"):
            if token.kind != "name":
                return self._literal()
            self._take()
            if self._sees("("):
                return self._call(token.start, token, [])
            return self._word(token) if token.text in _WORDS else self._made("ident", token.start, [], token)
        if not self._sees("(", "[", "{"):
            raise self._unexpected()
        self._take()
        if token.text == "(":
            node = self._choice()
            self._expect(")")
            return node
        if token.text == "[":
            return self._made("list", token.start, self._items("]"))
        return self._made("map", token.start, self._items("}", pairs=True))

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
        if target and name.text in MACROS:
            if len(children) not in (3, 4 if name.text == "map" else 3) or children[1].kind != "ident":
                raise BadSyntax(name.start, f"'{name.text}' takes a name and a condition", _as_in(name.text))
            return self._made("macro", start, children, name, method=True)
        if name.text == "has" and not target and (len(children) != 1 or children[0].kind != "select"):
            raise BadSyntax(name.start, "has() takes a field", "write has(event.field)")
        return self._made("call", start, children, name, method=bool(target))

    def _literal(self, minus: _Token | None = None) -> Node:
        token = self._take()
        kind, value = _LITERALS[token.kind](token)
        text = token.text if minus is None else f"-{token.text}"
        if minus is not None and isinstance(value, int | float):
            value = -value
        if kind == "int" and not INT_MIN <= int(value or 0) <= INT_MAX:
            raise BadSyntax(token.start, "this whole number is too large", "give it a decimal point, as in 1000.0")
        start = token.start if minus is None else minus.start
        return Node(kind="literal", start=start, end=token.end, at=start, text=text, literal=kind, value=value)

    def _word(self, token: _Token) -> Node:
        kind, value = _WORDS[token.text]
        return replace(self._made("literal", token.start, [], token), literal=kind, value=value)

    def _unexpected(self) -> BadSyntax:
        """The word at which the grammar stops, with the remedy of the usual slips."""
        token, source = self._token, self._source
        word = re.match(r"\w+|&&|\|\||[=!<>]=|\S", source[token.start :])
        found = word[0] if word is not None else token.text
        if token.kind == "end":
            before = source.rstrip()
            return BadSyntax(len(before), "the condition ends too early", slip(before, "") or _open_bracket(source))
        if token.kind == "bad" and found in ("'", '"'):
            return BadSyntax(token.start, "this text is not closed", _QUOTES)
        glued = self._ended == token.start and token.start > 0
        if glued and found in ("u", "U") and source[token.start - 1].isalnum():
            return BadSyntax(token.start, "numbers without a sign are not known here", "leave the u out")
        if glued and token.kind in ("text", "raw"):
            return BadSyntax(self._ended - 1, "bytes are not known here: the service has none", "write a text, '…'")
        return BadSyntax(
            token.start, f"{named(found)} is not expected here", slip(source[: token.start], found) or _UNEXPECTED
        )


def _as_in(macro: str) -> str:
    return f"write list.{macro}(x, …)"


def _number_of(token: _Token) -> tuple[LiteralKind, int]:
    return "int", int(token.text, 16 if token.text[:2] == "0x" else 10)


def _double_of(token: _Token) -> tuple[LiteralKind, float]:
    return "double", float(token.text)


def _raw_of(token: _Token) -> tuple[LiteralKind, str]:
    quotes = 3 if token.text[1:4] in ("'''", '"""') else 1
    return "string", token.text[1 + quotes : -quotes]


def _text_of(token: _Token) -> tuple[LiteralKind, str]:
    quotes = 3 if token.text[:3] in ("'''", '"""') else 1

    def plain(escape: re.Match[str]) -> str:
        code = escape[1] or escape[2] or escape[3]
        number = int(code, 16) if code else int(escape[4], 8) if escape[4] else None
        if number is not None and number <= sys.maxunicode and not 0xD800 <= number <= 0xDFFF:
            return chr(number)
        if number is None and escape[5] in _ESCAPED:
            return _ESCAPED[escape[5]]
        place = token.start + quotes + escape.start()
        raise BadSyntax(place, f"{escape[0]} is no escape that CEL knows", "write \\\\ for a backslash, or r'…'")

    return "string", _ESCAPE.sub(plain, token.text[quotes:-quotes])


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


_LITERALS: Final[Mapping[str, Callable[[_Token], tuple[LiteralKind, "int | float | str"]]]] = {
    "int": _number_of,
    "double": _double_of,
    "raw": _raw_of,
    "text": _text_of,
}
_WORDS: Final[Mapping[str, tuple[LiteralKind, "bool | str | None"]]] = {
    "true": ("bool", True),
    "false": ("bool", False),
    "null": ("null", None),
    **{name: ("type", name) for name in TYPE_NAMES},
}
