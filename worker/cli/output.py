"""How commands print data: a table for an operator, JSON for a script, nothing else on stdout."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from threading import Event, Thread
from typing import Annotated, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from worker.model.errors import printable
from worker.model.facts import Json
from worker.rules.spelling import duration_text
from worker.system import SystemClock

WIDTH = 200
WORDS = frozenset({"why", "is", "last error", "because"})
SPEAKING = frozenset({"why", "is", "because"})
"""Words that need no name before them."""
NUMBERS = frozenset({"id", "seq", "write", "undone_by"})
KEYS = NUMBERS | {"state", "kind", "event"}
"""What the next command asks for, or what a row is known by; without any of them that is the first column."""
TIMES = frozenset({"at", "changed_at"})
STYLES = {
    **dict.fromkeys(("confirmed", "approved"), "green"),
    **dict.fromkeys(("waiting", "unknown", "unconfirmed", "halted"), "yellow"),
    **dict.fromkeys(("needs_human", "rejected", "refused", "rules_refused"), "red"),
    **dict.fromkeys(("fired", "sending", "applied"), "cyan"),
}
"""How a state or a kind shows itself on a terminal that has colours."""
COLOURED = frozenset({"state", "kind"})
WORDS_MIN = 30
GAP = 2
"""Between two columns."""
PROGRESS_EVERY_S = 2.0
INDENT = 4
Columns = Mapping[str, Sequence[str]]
"""The cells of each column, as they are shown."""


Format = Annotated[Literal["table", "json"], typer.Option("--format", help="table or json.")]
LogFormat = Annotated[
    Literal["table", "json", "jsonl", "csv"],
    typer.Option("--format", help="table, json, jsonl (one record a line) or csv."),
]


def put(text: str) -> None:
    """Text as it is, which a log's hash needs; but a terminal gets it without what it would obey."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)


def print_json(value: object) -> None:
    """One JSON document."""
    put(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def print_table(title: str, names: Sequence[str], rows: Iterable[Sequence[Json]]) -> None:
    """A table for an operator; values are shown as text, never as markup or as orders to a terminal.

    Where a terminal has little room the sentences fold; then what says nothing is left out; then times lose their year.
    Where that is not enough, each row is a block of lines: what an operator types into the next command is whole at any
    width.
    """
    cells = [[_text(cell) for cell in row] for row in rows]
    columns: Columns = {name: [row[place] for row in cells] for place, name in enumerate(names)}
    keys = KEYS.intersection(names) or {names[0]}
    if not _is_told():
        _print_as_table(console(_least(columns)), title, columns)
        return
    screen = console()
    short_title, fewer = _without_the_same(title, columns, keys)
    shorter = {name: [one[5:] for one in found] if name in TIMES else found for name, found in fewer.items()}
    for head, tried in ((title, columns), (short_title, fewer), (short_title, shorter)):
        if _least(tried) <= screen.width:
            _print_as_table(screen, head, tried)
            return
    _print_blocks(screen, short_title, fewer, keys)


def _least(columns: Columns) -> int:
    """The room that a table needs: only sentences are folded."""
    widths = {
        name: max(cell_len(line) for cell in (name, *cells) for line in cell.split("\n"))
        for name, cells in columns.items()
    }
    return sum((min(width, WORDS_MIN) if name in WORDS else width) + GAP for name, width in widths.items())


def _without_the_same(title: str, columns: Columns, keys: AbstractSet[str]) -> tuple[str, Columns]:
    """Without empty columns; and where there is one partner only, it stands in the title."""
    kept = {name: cells for name, cells in columns.items() if name in keys or any(cells)}
    partners = set(filter(None, kept.get("partner", ())))
    if "partner" not in keys and len(partners) == 1:
        del kept["partner"]
        title = f"{title} (partner {partners.pop()})"
    return title, kept


def _print_as_table(screen: Console, title: str, columns: Columns) -> None:
    padding = (0, GAP - 1, 0, 0)
    table = Table(
        title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, show_edge=False, padding=padding
    )
    for name in columns:
        table.add_column(name, overflow="fold", no_wrap=name not in WORDS)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*(_styled(name, cell) for name, cell in zip(columns, row, strict=True)))
    screen.print(table)


def _styled(name: str, cell: str) -> Text:
    return Text(cell, style=STYLES.get(cell, "") if name in COLOURED else "")


def _print_blocks(screen: Console, title: str, columns: Columns, keys: AbstractSet[str]) -> None:
    """Each row as a line of its keys, and below it, indented, what else it has: the names, then the words."""
    screen.print(Text(title, style="table.title"))
    for row in zip(*columns.values(), strict=True):
        cells = [(name, cell) for name, cell in zip(columns, row, strict=True) if cell]
        head = [
            Text(f"{name} {cell}") if name in NUMBERS else _styled(name, cell) for name, cell in cells if name in keys
        ]
        screen.print(Text("  ", style="bold", overflow="ignore").join(head))
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


def say(message: str) -> None:
    """A line for an operator, on stderr; where nobody reads that, or its disk is full, the command goes on."""
    with suppress(OSError):
        print(printable(message), file=sys.stderr)


@contextmanager
def answering(code: int) -> Iterator[None]:
    """What is printed within tells of an answer that is known. The command ends with its code also where nobody reads
    on; only where that is 0 it matters that the output is lost."""
    with suppress(OSError if code else BrokenPipeError):
        yield
    if code:
        raise typer.Exit(code)


@contextmanager
def going_on(what: str) -> Iterator[Callable[[str], None]]:
    """Says on stderr every two seconds that it goes on, and with what; the block may say how far it has come by now."""
    done, began, said = Event(), SystemClock().monotonic(), [what]

    def tell() -> None:
        while not done.wait(PROGRESS_EVERY_S):
            say(f"{SystemClock().monotonic() - began:.0f} s: {said[-1]}")

    Thread(target=tell, daemon=True).start()
    try:
        yield lambda by_now: said.__setitem__(0, by_now)
    finally:
        done.set()


def _text(value: Json) -> str:
    if value is None:
        return ""
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def when(at: datetime, now: datetime) -> str:
    """A time with its distance from now, the less exact the longer: ``2026-03-01 12:00:00 UTC (2h5m ago)``."""
    seconds = round((now - at).total_seconds())
    exact = 1 if abs(seconds) < 3_600 else 60 if abs(seconds) < 86_400 else 3_600
    distance = duration_text(timedelta(seconds=abs(seconds) // exact * exact))
    return f"{at:%Y-%m-%d %H:%M:%S} UTC ({f'{distance} ago' if seconds >= 0 else f'in {distance}'})"
