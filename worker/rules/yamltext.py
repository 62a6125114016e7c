"""YAML with places: every value knows where in the file it stands, down to a character inside a text.

Errors in rules and config are only useful with line and column, and a condition is a language inside a YAML text, so
positions must survive quoting, folding and indentation. Composed with PyYAML's safe composer: no tag builds an object.
Plain scalars keep their spelling, so that ``OFF`` stays the word OFF where a word is wanted, whatever YAML 1.1 thinks.
It never reads a file and never decides what a key means.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import yaml

from worker.model.errors import InputErrors, Problem
from worker.model.facts import Json
from worker.model.findings import Code
from worker.rules.scalars import offsets_of
from worker.rules.yamlwords import in_words

NODES_MAX = 500_000
DEPTH_MAX = 50
TEXT_MAX_BYTES = 5_000_000

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


class _Mark(Protocol):
    index: int


class _Event(Protocol):
    """What the parsers say next. Not every kind has each of these: `_KINDS` tells the kinds apart."""

    start_mark: _Mark
    end_mark: _Mark
    anchor: str | None
    tag: str | None
    value: str
    style: str | None


class _Events(Protocol):
    """What both of PyYAML's parsers are: a text in, one event after another out."""

    def __init__(self, stream: str) -> None: ...
    def get_event(self) -> _Event: ...


_SCALAR, _LIST, _MAPPING, _ALIAS, _END, _NOTHING = range(6)
_KINDS: Mapping[type, int] = {
    yaml.ScalarEvent: _SCALAR,
    yaml.SequenceStartEvent: _LIST,
    yaml.MappingStartEvent: _MAPPING,
    yaml.AliasEvent: _ALIAS,
    yaml.SequenceEndEvent: _END,
    yaml.MappingEndEvent: _END,
    yaml.StreamEndEvent: _NOTHING,
    yaml.DocumentStartEvent: _END,
}
SLOW: type[_Events] = yaml.BaseLoader
"""What a text means, and what is wrong with it, is what this one says."""
FAST: type[_Events] = getattr(yaml, "CBaseLoader", SLOW)
"""Over libyaml, where PyYAML was built with it: several times as fast."""
_APART = re.compile(r"[\t\x85\u2028\u2029\ufeff]|[?!](?:[\s,\[\]{}]|$)")
"""What the two are known to read apart; a text with any of it is read the slow way."""


def compose(document: Document) -> Value | None:
    """The one value of a text; None for an empty one. Raises `InputErrors`."""
    if len(document.text) > TEXT_MAX_BYTES:
        raise InputErrors(
            (Problem(file=document.file, message=f"longer than {TEXT_MAX_BYTES} characters", code="file"),)
        )
    fast = None if _APART.search(document.text) else _tried(document)
    return fast if fast is not None else read_by(SLOW, document)


def _tried(document: Document) -> Value | None:
    """The value by the fast way; None where anything is wrong with the text, which the slow one then says."""
    try:
        return read_by(FAST, document)
    except InputErrors:
        return None


def read_by(parser: type[_Events], document: Document) -> Value | None:
    """The value of a text by this parser. Raises `InputErrors`."""
    try:
        events = parser(document.text)
        builder = _Builder(document, events)
        value = builder.whole()
    except (yaml.MarkedYAMLError, yaml.reader.ReaderError) as error:
        raise InputErrors((_problem(document, error),)) from None
    if builder.problems:
        raise InputErrors(tuple(builder.problems))
    return value


def _problem(document: Document, error: yaml.MarkedYAMLError | yaml.reader.ReaderError) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError):
        index, message, hint = in_words(error, document.text)
        return document.problem(index, f"not valid YAML: {message}", hint=hint, code="yaml")
    message = f"not valid YAML: the character U+{int(error.character):04X} is not allowed"
    hint = "remove it; it is invisible, and often comes along when text is copied"
    return document.problem(int(error.position), message, hint=hint, code="yaml")


class _Builder:
    """From a parser's events to values, with the limits that keep aliases from growing without end.

    No tag is looked at: what a word means is decided by who reads it.
    """

    def __init__(self, document: Document, events: _Events) -> None:
        self._document = document
        self._next = events.get_event
        self._count = 0
        self._anchors: dict[str, tuple[Value, int] | None] = {}
        self.problems: list[Problem] = []

    def whole(self) -> Value | None:
        """The one value of the stream; None for an empty one."""
        self._next()
        if _KINDS[type(self._next())] == _NOTHING:
            return None
        value = self._value(self._next(), 0)
        self._next()
        event = self._next()
        if _KINDS[type(event)] != _NOTHING:
            what = "not valid YAML: a file holds one document"
            self._complain(event.start_mark.index, what, "remove the --- line, or split the file")
        return value

    def _value(self, event: _Event, depth: int) -> Value:
        start = event.start_mark.index
        if depth > DEPTH_MAX:
            what = "not valid YAML: nested too deeply"
            raise InputErrors((self._document.problem(start, what, hint="split the file", code="yaml"),))
        self._counted(1, start)
        kind = _KINDS[type(event)]
        if kind == _ALIAS:
            return self._named(event)
        before = self._count
        if event.anchor is not None:
            self._begun(event.anchor, start)
        if event.tag is not None and event.tag.startswith("!") and event.tag != "!":
            what = f"{event.tag} is taken for a tag of YAML, because a value begins with !"
            self._complain(start, what, 'put the whole value in double quotes: "!(…)"')
        value = self._of_kind(kind, event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._count - before
        return value

    def _of_kind(self, kind: int, event: _Event, depth: int) -> Value:
        start = event.start_mark.index
        if kind == _SCALAR:
            return self._scalar(event, start)
        if kind == _LIST:
            items: list[Value] = []
            while _KINDS[type(one := self._next())] != _END:
                items.append(self._value(one, depth + 1))
            return Items(document=self._document, items=tuple(items), start=start)
        return Entries(document=self._document, entries=tuple(self._entries(depth)), start=start)

    def _scalar(self, event: _Event, start: int) -> Scalar:
        end = event.end_mark.index
        while start == end and self._document.text[start - 1 : start].isspace() and not event.value:
            start = end = start - 1  # libyaml puts some empty values behind the space, and PyYAML before it
        return Scalar(document=self._document, text=event.value, plain=not event.style, start=start, end=end)

    def _begun(self, anchor: str, start: int) -> None:
        if anchor in self._anchors:
            self._complain(start, f"the anchor &{anchor} is given twice", "name one of them otherwise")
        self._anchors[anchor] = None

    def _named(self, event: _Event) -> Value:
        """What an alias stands for. It counts as if it were written out, for whoever reads the values."""
        start = event.start_mark.index
        anchor = event.anchor or ""
        known = self._anchors.get(anchor)
        if known is None:
            inside = anchor in self._anchors
            what = "stands inside of what it names" if inside else "names no anchor"
            hint = "write out what is meant" if inside else "quote the value, if the * was not meant so"
            self._complain(start, f"the alias *{anchor} {what}", hint)
            return Scalar(document=self._document, text="", plain=True, start=start, end=start)
        value, count = known
        self._counted(count, start)
        return value

    def _counted(self, more: int, start: int) -> None:
        self._count += more
        if self._count > NODES_MAX:
            what = f"more than {NODES_MAX} values"
            raise InputErrors((self._document.problem(start, what, hint="split the file", code="yaml"),))

    def _entries(self, depth: int) -> Iterator[tuple[Scalar, Value]]:
        seen: dict[str, Scalar] = {}
        merged: list[tuple[Scalar, Value]] = []
        while _KINDS[type(event := self._next())] != _END:
            key = self._value(event, depth + 1)
            value = self._value(self._next(), depth + 1)
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
