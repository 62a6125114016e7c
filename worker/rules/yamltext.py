"""YAML with places: every value knows where in the file it stands, down to a character inside a text.

Errors in rules and config are only useful with line and column, and a condition is a language inside a YAML text, so
positions must survive quoting, folding and indentation. Composed with PyYAML's safe composer: no tag builds an object.
Plain scalars keep their spelling, so that ``OFF`` stays the word OFF where a word is wanted, whatever YAML 1.1 thinks.
It never reads a file and never decides what a key means.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import yaml

from worker.model.errors import InputErrors, Problem
from worker.model.facts import Json
from worker.model.findings import Code
from worker.rules.scalars import offsets_of
from worker.rules.yamlwords import in_words

NODES_MAX = 50_000
DEPTH_MAX = 50
TEXT_MAX_BYTES = 1_000_000

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
# A leading zero makes no number: 007 is somebody's id, and YAML 1.1 would even read it as octal.
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
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
        """The whole number, where one is written."""
        return int(self.text) if self.plain and _INTEGER.fullmatch(self.text) else None

    @property
    def number(self) -> int | float | None:
        """The number, where one is written; whole ones stay whole."""
        if self.integer is not None:
            return self.integer
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
    def json(self) -> Json:
        """The values as JSON."""
        return [item.json for item in self.items]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """A mapping, in the order written; keys are unique."""

    document: Document = field(repr=False)
    entries: "tuple[tuple[Scalar, Value], ...]"
    start: int

    def get(self, name: str) -> "Value | None":
        """The value under a key, or None."""
        return next((value for key, value in self.entries if key.text == name), None)

    def key(self, name: str) -> Scalar | None:
        """The key itself, for its place."""
        return next((key for key, _ in self.entries if key.text == name), None)

    @property
    def json(self) -> Json:
        """The values as JSON."""
        return {key.text: value.json for key, value in self.entries}


Value: TypeAlias = Scalar | Items | Entries


def compose(document: Document) -> Value | None:
    """The one value of a text; None for an empty one. Raises `InputErrors`."""
    if len(document.text) > TEXT_MAX_BYTES:
        raise InputErrors(
            (Problem(file=document.file, message=f"longer than {TEXT_MAX_BYTES} characters", code="file"),)
        )
    try:
        node = yaml.compose(document.text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        index, message, hint = in_words(error, document.text)
        raise InputErrors((document.problem(index, f"not valid YAML: {message}", hint=hint, code="yaml"),)) from None
    except yaml.reader.ReaderError as error:
        message = f"not valid YAML: the character U+{int(error.character):04X} is not allowed"
        hint = "remove it; it is invisible, and often comes along when text is copied"
        raise InputErrors((document.problem(int(error.position), message, hint=hint, code="yaml"),)) from None
    if node is None:
        return None
    walk = _Walk(document)
    value = walk.value(node, 0)
    if walk.problems:
        raise InputErrors(tuple(walk.problems))
    return value


class _Loader(yaml.SafeLoader):
    """Stops at the first level too deep: composing deep texts to the end takes the square of their length."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next node, as PyYAML composes it."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            event = self.peek_event()  # type: ignore[no-untyped-call]  # the published types leave it out
            raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=event.start_mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


class _Walk:
    """From PyYAML's nodes to values, with the limits that keep aliases from growing without end."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._count = 0
        self.problems: list[Problem] = []

    def value(self, node: yaml.Node, depth: int) -> Value:
        self._count += 1
        start = node.start_mark.index
        if depth > DEPTH_MAX or self._count > NODES_MAX:
            what = "nested too deeply" if depth > DEPTH_MAX else f"more than {NODES_MAX} values"
            raise InputErrors((self._document.problem(start, what, hint="split the file", code="yaml"),))
        if (node.tag or "").startswith("!"):
            what = f"{node.tag} is taken for a tag of YAML, because a value begins with !"
            self._complain(start, what, 'put the whole value in double quotes: "!(…)"')
        if isinstance(node, yaml.SequenceNode):
            items = tuple(self.value(item, depth + 1) for item in node.value)
            return Items(document=self._document, items=items, start=start)
        if isinstance(node, yaml.MappingNode):
            return Entries(document=self._document, entries=tuple(self._entries(node, depth)), start=start)
        end = node.end_mark.index
        return Scalar(
            document=self._document, text=node.value, plain=getattr(node, "style", None) is None, start=start, end=end
        )

    def _entries(self, node: yaml.MappingNode, depth: int) -> Iterator[tuple[Scalar, Value]]:
        seen: dict[str, Scalar] = {}
        merged: list[tuple[Scalar, Value]] = []
        for key_node, value_node in node.value:
            key = self.value(key_node, depth + 1)
            value = self.value(value_node, depth + 1)
            if not isinstance(key, Scalar):
                self._complain(key.start, "a key must be a word", "quote it, if it begins with a bracket")
            elif key.plain and key.text == "<<":
                merged.extend(self._merged(value))
            elif key.text in seen:
                first = self._document.line_of(seen[key.text].start)
                self._complain(
                    key.start, f"'{key.text}' is given twice; first on line {first}", "remove one of the two"
                )
            else:
                seen[key.text] = key
                yield key, value
        for key, value in merged:
            if key.text not in seen:
                seen[key.text] = key
                yield key, value

    def _merged(self, value: Value) -> Iterator[tuple[Scalar, Value]]:
        sources = value.items if isinstance(value, Items) else (value,)
        for source in sources:
            if isinstance(source, Entries):
                yield from source.entries
            else:
                self._complain(
                    source.start, "'<<' merges a mapping, or a list of mappings", "quote '<<', if it is a key"
                )

    def _complain(self, index: int, message: str, hint: str) -> None:
        self.problems.append(self._document.problem(index, message, hint=hint, code="yaml"))
