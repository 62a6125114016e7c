"""How commands print data: a table for a person, JSON for a script, nothing else on stdout."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from worker.model.facts import Json

WIDTH = 200
WORDS = frozenset({"why", "is", "last error", "because", "what its answers were"})
WORDS_MIN = 30
NAME_MIN = 8
GAP = 2
"""Between two columns."""


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
    """One JSON document."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")


def print_line(value: Mapping[str, Json]) -> None:
    """One JSON object on one line, flushed, so that a follower sees it at once."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def print_table(title: str, names: Sequence[str], rows: Iterable[Sequence[Json]]) -> None:
    """A table for a person; values are shown as text, never as markup or as orders to a terminal. Where there is little
    room, the words keep theirs and the names are folded."""
    screen = console()
    cells = [[_text(cell) for cell in row] for row in rows]
    table = Table(
        title=title,
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, GAP - 1, 0, 0),
    )
    for name, width in zip(names, _widths(names, cells, screen.width), strict=True):
        table.add_column(name, overflow="fold", width=width)
    for row in cells:
        table.add_row(*row)
    screen.print(table)


def _widths(names: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """How wide each column is: as it needs, or narrowed from the widest on until all fit."""
    columns = zip(names, *rows, strict=True)
    widths = [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in columns]
    least = [WORDS_MIN if name in WORDS else NAME_MIN for name in names]
    while sum(widths) > room - GAP * len(names):
        wide = [(width, at) for at, width in enumerate(widths) if width > least[at]]
        if not wide:
            break
        widths[max(wide)[1]] -= 1
    return widths


def console() -> Console:
    """The console of stdout; wide where there is no terminal and nobody sets COLUMNS, so that little is folded."""
    told = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(markup=False, highlight=False, width=None if told else WIDTH)


def counted(number: int, noun: str) -> str:
    """``1 rule``, ``2 rules``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def say(message: str) -> None:
    """A line for a person, on stderr."""
    print(message, file=sys.stderr)


def _text(value: Json) -> str:
    if value is None:
        return ""
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def moment_shown(at: Json) -> Json:
    """A time of a record for a table: ``2026-03-01 12:00:06``, which is UTC as all of them."""
    return f"{at[:10]} {at[11:19]}" if isinstance(at, str) else at


def printable(text: str) -> str:
    """The text without what a terminal would obey; some of it was written by the service, or by its users."""
    return "".join(one if one.isprintable() or one == "\n" else "\ufffd" for one in text)
