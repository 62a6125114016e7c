"""How fast the ledger could be at the least: its own statements, asked of SQLite again with nothing around them.

What a few writes ask is noted, and the ledger as it was before is copied. Then the same statements with the same values
run on the copy, with the same settings, the same commits and a block overwritten and synced in place of each mark. What
is left out is all that makes and judges them: Python's part of the ledger.
"""

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event

from worker.ledger.database import make_durable
from worker.ledger.mark import SLOT_BYTES
from worker.ledger.places import LedgerPlace
from worker.ledger.sql import SqlLedger

WAL_PAGES = 1_100
"""A little more than the log has when SQLite moves it into the file."""
Statement = tuple[str, Any, bool]
"""Text, values, and whether these are many rows."""


@dataclass(slots=True)
class Noted:
    """The transactions that were committed, each with its statements."""

    transactions: list[list[Statement]] = field(default_factory=lambda: [[]])

    def add(self, text: str, values: Any, *, many: bool = False) -> None:  # noqa: ANN401 - as the driver takes it
        """One more statement of the transaction under way."""
        self.transactions[-1].append((text, values, many))

    def committed(self) -> None:
        """The next one belongs to another transaction."""
        self.transactions.append([])


@contextmanager
def noting(ledger: SqlLedger) -> Iterator[Noted]:
    """What the ledger asks while the block lasts. It must not fail meanwhile."""
    noted = Noted()
    engine = ledger._store.engine  # noqa: SLF001 - a measurement looks beneath the surface

    def begun(_connection: Connection) -> None:
        noted.add("BEGIN IMMEDIATE", ())

    def asked(_connection: Connection, _cursor: Any, text: str, values: Any, _context: Any, many: bool) -> None:  # noqa: ANN401, FBT001 - as SQLAlchemy tells it
        noted.add(text, list(values) if many else values, many=many)

    heard = (("begin", begun), ("before_cursor_execute", asked), ("commit", lambda _connection: noted.committed()))
    for name, hears in heard:
        event.listen(engine, name, hears)
    try:
        yield noted
    finally:
        for name, hears in heard:
            event.remove(engine, name, hears)


class Bare:
    """A copy of the ledger and of its mark, on which statements are run as they are."""

    def __init__(self, ledger: SqlLedger, file: Path) -> None:
        file.unlink(missing_ok=True)
        ledger.backup(file)
        self._connection = sqlite3.connect(file, isolation_level=None, cached_statements=256)
        make_durable(self._connection, LedgerPlace(file=file))
        self._lengthen_the_log()
        self._mark = os.open(file.with_suffix(".bare-mark"), os.O_RDWR | os.O_CREAT)
        os.pwrite(self._mark, bytes(SLOT_BYTES), 0)
        os.fsync(self._mark)

    def _lengthen_the_log(self) -> None:
        """The ledger's write-ahead log is overwritten from its start again and again; one that grows is slower."""
        self._connection.execute("PRAGMA synchronous=OFF")
        for _ in range(WAL_PAGES):
            self._connection.execute("UPDATE meta SET id = id")
        self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        self._connection.execute("PRAGMA synchronous=FULL")

    def run(self, transactions: Iterable[list[Statement]], *, marked: bool = False) -> float:
        """Runs them, with one mark after all of them or with none; milliseconds."""
        connection, began = self._connection, time.perf_counter()
        for statements in transactions:
            for text, values, many in statements:
                if many:
                    connection.executemany(text, values)
                else:
                    connection.execute(text, values).fetchall()
            connection.commit()
        if marked:
            os.pwrite(self._mark, b"x" * SLOT_BYTES, 0)
            os.fdatasync(self._mark)
        return (time.perf_counter() - began) * 1000

    def close(self) -> None:
        """Ends the copy's connection."""
        self._connection.close()
        os.close(self._mark)
