"""What is said where a search finds nothing: an empty table looks like an answer, and mostly it is a misspelt name."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from worker.cli.output import counted, say
from worker.ledger.reading import LedgerReader
from worker.rules.nearest import meant

FIELDS: Final[tuple[Literal["partner", "event", "rule"], ...]] = ("partner", "event", "rule")
SHOWN: Final = 5


def say_nothing_found(ledger: LedgerReader, asked: Mapping[str, str | None], what: str) -> None:
    """Says on stderr that no record, or no write, is as asked for, and which of the names the worker has never met.

    ``asked``: what was typed for each of `FIELDS`, None where nothing was. ``what``: ``record`` or ``write``.
    """
    strange = strangers(ledger, asked)
    for line in strange:
        say(line)
    if not strange:
        say(f"no {what} is as asked for" if any(asked.values()) else f"there is no {what} yet")


def strangers(ledger: LedgerReader, asked: Mapping[str, str | None]) -> tuple[str, ...]:
    """A sentence for each name, of those typed for `FIELDS`, that the worker has never met."""
    found: list[str] = []
    for field in FIELDS:
        name = asked.get(field)
        known = ledger.known(field) if name is not None else ()
        if name is not None and name not in known:
            found.append(f"nothing is known of {field} '{name}'{meant(name, known) or f'; {_counted(field, known)}'}")
    return tuple(found)


def _counted(field: str, known: Sequence[str]) -> str:
    if not known:
        return f"the ledger knows no {field} yet"
    return f"the ledger knows {counted(len(known), field)}, such as {', '.join(known[:SHOWN])}"
