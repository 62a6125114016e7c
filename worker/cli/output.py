"""How commands print data: a table for a person, JSON for a script, nothing else on stdout."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from rich.console import Console
from rich.table import Table

from worker.model.facts import Json


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
    """A table for a person; values are shown as text, never as markup."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
    console().print(table)


def console() -> Console:
    """The console of stdout; as wide as it takes where there is no terminal, so that nothing is cut."""
    return Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else 200)


def counted(number: int, noun: str) -> str:
    """``1 rule``, ``2 rules``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def say(message: str) -> None:
    """A line for a person, on stderr."""
    print(message, file=sys.stderr)


def _text(value: Json) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
