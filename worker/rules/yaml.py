"""YAML with places: every value knows where in the file it stands, down to a character inside a text.

Composed with PyYAML's base loader: no tag builds an object, and plain words keep their spelling, so that ``OFF`` stays
OFF. What the parser complains of is put into the words of somebody who has never seen its grammar. Reads no file.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from yaml.composer import Composer
from yaml.resolver import BaseResolver

from worker.model.errors import Code, InputErrors, Problem
from worker.model.facts import Json

NODES_MAX = 500_000
DEPTH_MAX = 50
TEXT_MAX_BYTES = 5_000_000

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
# A leading zero makes no number: 007 is somebody's id, and YAML 1.1 would even read it as octal.
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,39})")
_INTEGER_END = 10**18
_NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]{0,39})(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,3})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The text of one file, and how its places become problems. ``quoted``: its lines may be shown with a finding; a
    file in which somebody may have written a secret shows none."""

    file: str
    text: str = field(repr=False)
    quoted: bool = True
    _breaks: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_breaks", tuple(one.start() for one in re.finditer("\n", self.text)))

    def line_of(self, index: int) -> int:
        """The line of a character, from 1."""
        return bisect_left(self._breaks, index) + 1

    def problem(
        self, index: int, message: str, *, hint: str = "", code: Code = "value", severity: str = "error"
    ) -> Problem:
        """A finding at a character of the text."""
        index = max(0, min(index, len(self.text)))
        line = self.line_of(index)
        begin = self._breaks[line - 2] + 1 if line > 1 else 0
        end = self._breaks[line - 1] if line <= len(self._breaks) else len(self.text)
        source = self.text[begin:end].rstrip() if self.quoted else ""
        return Problem(
            file=self.file,
            line=line,
            column=index - begin + 1,
            message=message,
            hint=hint,
            code=code,
            severity=severity,
            source=source,
        )


def not_utf8(file: Path, error: UnicodeDecodeError, *, quoted: bool = True) -> Problem:
    """Where in a file the first byte stands that is no UTF-8."""
    document = Document(file=str(file), text=error.object.decode("utf-8", "replace"), quoted=quoted)
    hint = "save the file as UTF-8; most editors ask for the encoding under `Save as`"
    at = len(error.object[: error.start].decode("utf-8"))
    return document.problem(at, "is not UTF-8: a byte cannot be read", hint=hint, code="file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """One text, number or word. ``plain`` if it stands without quotes and is not a block."""

    document: Document = field(repr=False)
    text: str
    plain: bool
    start: int
    end: int

    @property
    def is_null(self) -> bool:
        """Nothing is written here."""
        return self.plain and self.text in _NULLS

    @property
    def boolean(self) -> bool | None:
        """True or false where it is written so; quoted words are texts."""
        word = self.text.lower()
        if not self.plain:
            return None
        return True if word in _TRUE else False if word in _FALSE else None

    @property
    def integer(self) -> int | None:
        """The whole number, where one is written that is not too large to count with."""
        number = self.number
        return number if isinstance(number, int) and abs(number) < _INTEGER_END else None

    @property
    def number(self) -> int | float | None:
        """The number, where one is written; whole ones stay whole, to the last digit: one may be an id."""
        if self.plain and _INTEGER.fullmatch(self.text):
            return int(self.text)
        return float(self.text) if self.plain and _NUMBER.fullmatch(self.text) else None

    @property
    def json(self) -> Json:
        """The value as JSON. Only ``true`` and ``false`` are booleans here: ``OFF`` is a word."""
        if self.is_null:
            return None
        if self.plain and self.text.lower() in ("true", "false"):
            return self.text.lower() == "true"
        number = self.number
        return self.text if number is None else number

    def index_of(self, offset: int) -> int:
        """Where in the file the character ``offset`` of the text stands."""
        places = offsets_of(self.document.text[self.start : self.end], self.text)
        if places is None:
            return self.start
        return self.start + places[min(offset, len(places) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A list."""

    document: Document = field(repr=False)
    items: "tuple[Value, ...]"
    start: int

    @property
    def parts(self) -> "tuple[Value, ...]":
        """What stands in it."""
        return self.items

    @property
    def json(self) -> Json:
        """The values as JSON."""
        return [item.json for item in self.items]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """A mapping, in the order written; keys are unique. ``named``: each key with its value, by its text."""

    document: Document = field(repr=False)
    named: "Mapping[str, tuple[Scalar, Value]]"
    start: int

    @property
    def parts(self) -> "tuple[Value, ...]":
        """What stands in it."""
        return tuple(value for _, value in self.named.values())

    def get(self, name: str) -> "Value | None":
        """The value under a key, or None."""
        return self.named[name][1] if name in self.named else None

    def key(self, name: str) -> Scalar | None:
        """The key itself, for its place."""
        return self.named[name][0] if name in self.named else None

    @property
    def json(self) -> Json:
        """The values as JSON."""
        return {name: value.json for name, (_, value) in self.named.items()}


Value: TypeAlias = Scalar | Items | Entries


def compose(document: Document) -> Value | None:
    """The one value of a text; None for an empty one. Raises `InputErrors`."""
    if len(document.text) > TEXT_MAX_BYTES:
        raise InputErrors(
            (Problem(file=document.file, message=f"longer than {TEXT_MAX_BYTES} characters", code="file"),)
        )
    try:
        try:
            parser = yaml.BaseLoader if _READ_OTHERWISE.search(document.text) else QUICK
            node = _Nodes(document, parser(document.text)).get_single_node()
        except yaml.YAMLError:  # Python's own parser has the last word, and `_in_words` knows how it complains
            node = _Nodes(document, yaml.BaseLoader(document.text)).get_single_node()
    except yaml.MarkedYAMLError as error:
        index, message, hint = _in_words(error, document.text)
        raise InputErrors((document.problem(index, f"not valid YAML: {message}", hint=hint, code="yaml"),)) from None
    except yaml.reader.ReaderError as error:
        message = f"not valid YAML: the character U+{int(error.character):04X} is not allowed"
        hint = "remove it; it is invisible, and often comes along when text is copied"
        raise InputErrors((document.problem(int(error.position), message, hint=hint, code="yaml"),)) from None
    reader = _ValueReader(document)
    value = None if node is None else reader.value(node)
    if reader.problems:
        raise InputErrors(tuple(reader.problems))
    return value


QUICK: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Where PyYAML was built with it, libyaml: it takes a tenth of the time."""
_READ_OTHERWISE = re.compile("[\t\x85\u2028\u2029\ufeff\ud800-\udfff]")
"""What the two parsers do not read alike: what a file says must not depend on how PyYAML was built."""


class _Nodes(Composer, BaseResolver):
    """PyYAML's composer, which calls itself, with a bound on nesting, and words for names that lead nowhere."""

    def __init__(self, document: Document, parser: Any) -> None:  # noqa: ANN401 - whichever it is
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self.check_event, self.get_event, self.peek_event = parser.check_event, parser.get_event, parser.peek_event
        self._document = document
        self._depth = 0
        self._open: set[str] = set()

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()
        anchor, start = event.anchor or "", event.start_mark.index
        if self._depth > DEPTH_MAX:
            self._refuse(start, "not valid YAML: nested too deeply", "split the file")
        elif isinstance(event, yaml.AliasEvent) and anchor in self._open:
            self._refuse(start, "this alias stands inside of what it names", "write out what is meant")
        elif isinstance(event, yaml.AliasEvent) and anchor not in self.anchors:
            self._refuse(start, "this alias names no anchor", "quote the value, if the * was not meant so")
        elif not isinstance(event, yaml.AliasEvent) and anchor in self.anchors:
            self._refuse(start, "this anchor is given twice", "name one of them otherwise")
        self._depth += 1
        self._open.add(anchor)
        found = super().compose_node(parent, index)
        self._open.discard(anchor)
        self._depth -= 1
        return found

    def _refuse(self, index: int, message: str, hint: str) -> None:
        raise InputErrors((self._document.problem(index, message, hint=hint, code="yaml"),))


class _ValueReader:
    """From nodes to values, with the limit that keeps aliases from growing without end."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._count = 0
        self._read: dict[int, tuple[Value, int]] = {}
        self.problems: list[Problem] = []

    def value(self, node: yaml.Node) -> Value:
        """The value of a node. One that aliases name counts each time as if it were written out."""
        start = node.start_mark.index
        known = self._read.get(id(node))
        if known is not None:
            self._counted(known[1], start)
            return known[0]
        before = self._count
        self._counted(1, start)
        if node.tag.startswith("!") and node.tag != "!":
            self._complain(start, *_A_TAG)
        found = self._of_kind(node, start)
        self._read[id(node)] = found, self._count - before
        return found

    def _of_kind(self, node: yaml.Node, start: int) -> Value:
        if isinstance(node, yaml.ScalarNode):
            end = node.end_mark.index
            start = _BEFORE.match(self._document.text, start, end).end()  # type: ignore[union-attr] # it may be nothing
            if _NO_CHARACTER.search(node.value):  # no file has it in its name, and no database in a text
                hint = "write the character itself, or leave it out"
                self._complain(start, "\\0, and \\ud800 to \\udfff, are no characters of a text", hint)
            return Scalar(document=self._document, text=node.value, plain=not node.style, start=start, end=end)
        if isinstance(node, yaml.SequenceNode):
            items = tuple(self.value(one) for one in node.value)
            return Items(document=self._document, items=items, start=start)
        return Entries(document=self._document, named=self._entries(node.value), start=start)

    def _entries(self, pairs: list[tuple[yaml.Node, yaml.Node]]) -> Mapping[str, tuple[Scalar, Value]]:
        found: dict[str, tuple[Scalar, Value]] = {}
        merged: list[tuple[Scalar, Value]] = []
        for key, value in ((self.value(key), self.value(value)) for key, value in pairs):
            if not isinstance(key, Scalar):
                self._complain(key.start, "a key must be a word", "quote it, if it begins with a bracket")
            elif key.plain and key.text == "<<":
                merged.extend(self._merged(value))
            elif key.text in found:
                first = self._document.line_of(found[key.text][0].start)
                what = f"'{key.text}' is given twice; first on line {first}"
                self._complain(key.start, what, "remove one of the two")
            else:
                found[key.text] = key, value
        for key, value in merged:
            found.setdefault(key.text, (key, value))
        return found

    def _merged(self, value: Value) -> Iterator[tuple[Scalar, Value]]:
        for source in value.items if isinstance(value, Items) else (value,):
            if isinstance(source, Entries):
                yield from source.named.values()
            else:
                what = "'<<' merges a mapping, or a list of mappings"
                self._complain(source.start, what, "quote '<<', if it is a key")

    def _counted(self, more: int, start: int) -> None:
        self._count += more
        if self._count > NODES_MAX:
            what = f"more than {NODES_MAX} values"
            raise InputErrors((self._document.problem(start, what, hint="split the file", code="yaml"),))

    def _complain(self, index: int, message: str, hint: str) -> None:
        self.problems.append(self._document.problem(index, message, hint=hint, code="yaml"))


_BEFORE = re.compile(r"(?:(?:[&!]\S*|#[^\n]*)\s+)*")
"""What may stand before a value: an anchor, a tag, a comment."""
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")
_CLOSING: Mapping[str, str] = {"[": "]", "{": "}", "'": "'", '"': '"'}
_OF_A_SIGN = re.compile("cannot start any token|alias|anchor|directive|block scalar|node content")
_A_TAG = "this is taken for a tag of YAML, because it begins with !", 'put the whole value in double quotes: "!(…)"'
_QUOTE = "put the whole value in double quotes, or write it on the next line after `|`"

_COPIED = "type a plain space in its place; it cannot be seen, and often comes along when text is copied"
_ODD_SPACE = re.compile("(?m:^ *|[:-] *)[\u00a0\u2000-\u200b\u202f\u3000]")

_INDENT = "indent it like the lines that it stands beside"


def _in_words(error: yaml.MarkedYAMLError, text: str) -> tuple[int, str, str]:
    """The place, what is wrong, and the remedy."""
    mark = error.problem_mark or error.context_mark
    index = mark.index if mark is not None else 0
    if odd := [*_ODD_SPACE.finditer(text, 0, index)]:
        sign = text[odd[-1].end() - 1]
        return odd[-1].end() - 1, f"the character U+{ord(sign):04X} is no space that YAML knows", _COPIED
    context, problem = error.context or "", error.problem or ""
    if "single document" in context:
        return index, "a file holds one document", "remove the --- line, or split the file"
    opened = error.context_mark.index if error.context_mark is not None else index
    if "flow" in context and text[opened : opened + 1] in _CLOSING:
        bracket = text[opened]
        hint = f"close it with {_CLOSING[bracket]}, and put a comma between its items"
        return opened, f"this {bracket} is not closed, or a comma is missing behind one of its items", hint
    if "flow" in context and index >= len(text.rstrip()):
        return index, "the file ends inside of a bracket", "close it with ] or }"
    if "quoted scalar" in context and "escape" in problem:
        return index, "this is no escape", "write \\\\ for a backslash, or use single quotes"
    if "quoted scalar" in context:
        quote = text[opened : opened + 1]
        return opened, f"this {quote} is not closed", f"close it with {quote}"
    return _outside_of_quotes(text, index, opened, f"{context}, {problem}".strip(", "))


def _outside_of_quotes(text: str, index: int, opened: int, said: str) -> tuple[int, str, str]:
    found = text[index : index + 1]
    begin = text.rfind("\n", 0, index) + 1
    if text[begin:].lstrip(" ").startswith("\t"):
        return index, "a tab cannot indent", "use spaces, two for each level"
    if found == "\t":
        return index, "a tab stands here", "write a space in its place, or take it away at the end of the line"
    if "tag" in said:
        return opened, *_A_TAG
    if _OF_A_SIGN.search(said):
        return opened, f"a value cannot begin with {text[opened : opened + 1]}", _QUOTE
    above = re.search(r"(?:\A|\n)[ -]*\w+:(?=\S)[^\n]*\n[^\n]*\Z", text[:index])
    if "mapping values are not allowed" in said and above is not None:
        colon = text.index(":", above.start()) + 1
        return colon, "a space is missing behind this colon", "write it as in id: pause-cancelled"
    if "mapping values are not allowed" in said and re.fullmatch(r"\w+", text[:index].rpartition("\n")[2].strip()):
        return index, "this line is indented further than its neighbours, and so belongs to the value above", _INDENT
    if "mapping values are not allowed" in said:
        return index, "a colon followed by a space cannot stand in a value without quotes", _QUOTE
    if "could not find expected ':'" in said:
        hint = "write `key: value`, or indent the line further than the one it goes on from"
        return opened, "a line without a colon", hint
    if (sign := text[begin:index].partition(":")[2].lstrip()[:1]) in _CLOSING:
        return index, f"a value that begins with {sign} ends with {_CLOSING[sign]}, and this goes on", _QUOTE
    return index, "this does not stand where it belongs", _INDENT


_BLOCK_HEADER = re.compile(r"[|>][^\n]*\n?")
_DOUBLED = re.compile(r"(?P<code>)''|.", re.DOTALL)
_BLANK = re.compile(r"\\[trnvfNLP_]")
_HEX = r"(?P<code>(?<=x)[0-9a-fA-F]{2}|(?<=u)[0-9a-fA-F]{4}|(?<=U)[0-9a-fA-F]{8})"
_ESCAPE = re.compile(rf"\\[xuU]{_HEX}|\\?.", re.DOTALL)


def offsets_of(raw: str, text: str) -> list[int] | None:
    """For each character of ``text``, and for its end, the offset in ``raw``, which is the scalar as it is written."""
    if raw.startswith(('"', "'")):
        return _by_visible(_quoted_units(raw), text)
    header = _BLOCK_HEADER.match(raw)
    begin = header.end() if header is not None else 0
    return _by_visible([(raw[index], index) for index in range(begin, len(raw))], text)


def _quoted_units(raw: str) -> list[tuple[str, int]]:
    """The characters within quotes; a doubled quote is one, and so is what a backslash spells."""
    escape = _DOUBLED if raw[0] == "'" else _ESCAPE
    found = [*escape.finditer(raw, 1, max(1, len(raw) - 1))]
    units = [(chr(int(one["code"], 16)) if one["code"] else _BLANK.sub(" ", one[0])[-1], one.start()) for one in found]
    return [*units, (" ", max(len(raw) - 1, 0))]


def _by_visible(units: list[tuple[str, int]], text: str) -> list[int] | None:
    """Matches the visible characters one by one; white space stands right behind what comes before it."""
    visible = [(char, index) for char, index in units if not char.isspace()]
    places: list[int] = []
    position = 0
    last = visible[0][1] if visible else (units[0][1] if units else 0)
    for char in text:
        if char.isspace():
            places.append(last)
            last += 1
            continue
        if position >= len(visible) or visible[position][0] != char:
            return None
        places.append(visible[position][1])
        last = visible[position][1] + 1
        position += 1
    return [*places, last]
