"""How commands print data: a table for a person, JSON for a script, nothing else on stdout."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from worker.model.errors import printable
from worker.model.facts import Json

WIDTH = 200
WORDS = frozenset({"why", "is", "last error", "because", "what its answers were"})
SPEAKING = frozenset({"why", "is", "because"})
"""Words that need no name before them."""
NUMBERS = frozenset({"id", "seq", "write", "undone_by"})
KEYS = NUMBERS | {"state", "kind", "event"}
"""What the next command asks for, or what a row is known by; without any of them that is the first column."""
TIMES = frozenset({"at", "changed_at"})
WORDS_MIN = 30
GAP = 2
"""Between two columns."""
INDENT = 4


class Format(StrEnum):
    """``--format`` of commands that print data."""

    table = "table"
    json = "json"


class LogFormat(StrEnum):
    """``--format`` of ``log``."""

    table = "table"
    json = "json"
    jsonl = "jsonl"
    csv = "csv"


def print_json(value: object) -> None:
    """One JSON document. A number that is not finite, which an older ledger may hold, is a text in it."""
    try:
        text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    except ValueError:
        text = json.dumps(json.loads(json.dumps(value), parse_constant=str), ensure_ascii=False, indent=2)
    sys.stdout.write(text + "\n")


def print_line(value: Mapping[str, Json]) -> None:
    """One JSON object on one line, flushed, so that a follower sees it at once."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def print_table(title: str, names: Sequence[str], rows: Iterable[Sequence[Json]]) -> None:
    """A table for a person; values are shown as text, never as markup or as orders to a terminal.

    Where a terminal has little room the sentences fold first; then what says nothing is left out and times lose their
    year; then the rest folds between words. Where that is not enough, each row is a block of lines: what a person types
    into the next command is whole at any width.
    """
    cells = zip(names, *([_text(cell) for cell in row] for row in rows), strict=True)
    columns = [_Column(name=name, cells=tuple(found)) for name, *found in cells]
    keys = KEYS.intersection(names) or {names[0]}
    screen = console(_room(columns, [column.least(keys) for column in columns]))
    if _is_told() and _room(columns, [column.width_unfolded for column in columns]) > screen.width:
        title, columns = _without_the_same(title, columns, keys)
        short = [column.with_short_times() for column in columns]
        if _room(short, [column.least(keys) for column in short]) > screen.width:
            _print_blocks(screen, title, columns, keys)
            return
        columns = short
    table = Table(
        title=title,
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, GAP - 1, 0, 0),
    )
    for column, width in zip(columns, _widths(columns, keys, screen.width), strict=True):
        table.add_column(column.name, overflow="fold", width=width)
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    screen.print(table)


@dataclass(frozen=True, kw_only=True)
class _Column:
    """One column, its cells as they are shown; a log has many, so they are measured once."""

    name: str
    cells: tuple[str, ...]

    @cached_property
    def width(self) -> int:
        """As it needs."""
        return max(cell_len(line) for cell in (self.name, *self.cells) for line in cell.split("\n"))

    @property
    def width_unfolded(self) -> int:
        """With nothing folded but the words."""
        return min(self.width, WORDS_MIN) if self.name in WORDS else self.width

    def least(self, keys: AbstractSet[str]) -> int:
        """What it cannot do without: only sentences fold within a word."""
        if self.name in keys or self.name in WORDS:
            return self.width_unfolded
        return self._longest_word

    @cached_property
    def _longest_word(self) -> int:
        return max(cell_len(word) for cell in (self.name, *self.cells) for word in cell.split())

    def with_short_times(self) -> "_Column":
        """A column of `moment_shown` without the year."""
        return replace(self, cells=tuple(cell[5:] for cell in self.cells)) if self.name in TIMES else self


def _room(columns: Sequence[_Column], widths: Sequence[int]) -> int:
    return sum(widths) + GAP * len(columns)


def _widths(columns: Sequence[_Column], keys: AbstractSet[str], room: int) -> list[int]:
    """How wide each column is: as it needs, or narrowed until all fit: the words, then from the widest on."""
    widths = [column.width for column in columns]
    for least in ([column.width_unfolded for column in columns], [column.least(keys) for column in columns]):
        while _room(columns, widths) > room:
            wide = [(width, at) for at, width in enumerate(widths) if width > least[at]]
            if not wide:
                break
            widths[max(wide)[1]] -= 1
    return widths


def _without_the_same(title: str, columns: Sequence[_Column], keys: AbstractSet[str]) -> tuple[str, list[_Column]]:
    """Without empty columns; and where there is one partner only, it stands in the title."""
    kept = [column for column in columns if column.name in keys or any(column.cells)]
    for column in kept:
        found = set(filter(None, column.cells))
        if column.name == "partner" and column.name not in keys and len(found) == 1:
            kept.remove(column)
            return f"{title} (partner {found.pop()})", kept
    return title, kept


def _print_blocks(screen: Console, title: str, columns: Sequence[_Column], keys: AbstractSet[str]) -> None:
    """Each row as a line of its keys, and below it, indented, what else it has: the names, then the words."""
    screen.print(Text(title, style="table.title"))
    for row in zip(*(column.cells for column in columns), strict=True):
        cells = [(column.name, cell) for column, cell in zip(columns, row, strict=True) if cell]
        head = [f"{name} {cell}" if name in NUMBERS else cell for name, cell in cells if name in keys]
        screen.print(Text("  ".join(head), style="bold", overflow="ignore"))
        rest = "; ".join(f"{name}: {cell}" for name, cell in cells if name not in keys | WORDS)
        words = [cell if name in SPEAKING else f"{name}: {cell}" for name, cell in cells if name in WORDS]
        for text in filter(None, (rest, *words)):
            screen.print(Padding(Text(text), (0, 0, 0, INDENT), expand=False))


def console(least: int = 0) -> Console:
    """The console of stdout; wide where nobody says how wide it is (``least`` or more), so that little is folded."""
    return Console(markup=False, highlight=False, width=None if _is_told() else max(WIDTH, least))


def _is_told() -> bool:
    """Whether the room is known: stdout is a terminal, or somebody sets COLUMNS."""
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def counted(number: int, noun: str) -> str:
    """``1 rule``, ``2 rules``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def say(message: str) -> None:
    """A line for a person, on stderr."""
    print(printable(message), file=sys.stderr)


def _text(value: Json) -> str:
    if value is None:
        return ""
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def moment_shown(at: Json) -> Json:
    """A time of a record for a table: ``2026-03-01 12:00:06``, which is UTC as all of them."""
    return f"{at[:10]} {at[11:19]}" if isinstance(at, str) else at
