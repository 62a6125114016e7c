"""SQLite's connections: which are kept, who has one, and one transaction on one of them.

Between a decision and its first byte stand three transactions, so their way is short: a connection is taken, begun and
given back without anything in between. SQLAlchemy, which builds every statement, gets the same connection lent, but
only for statements that are not compiled beforehand, and for migrations. Two threads never have one connection at the
same time. Nothing here knows a file, a table, or what an error means.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Lock, RLock
from typing import Any, Protocol

import sqlalchemy
from sqlalchemy import CursorResult, Engine, Executable, create_engine
from sqlalchemy.pool import StaticPool

Values = Mapping[str, object]


class Connection:
    """A connection to SQLite, and SQLAlchemy's view of it once somebody needs that."""

    __slots__ = ("_core", "raw")

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.raw = raw
        self._core: sqlalchemy.Connection | None = None

    @property
    def core(self) -> sqlalchemy.Connection:
        """SQLAlchemy on the same connection. It is always within a transaction and never ends one: the owner does."""
        if self._core is None:
            self._core = _engine(lambda: _Lent(self.raw)).connect()
            self._core.begin()
        return self._core

    def execute(
        self, statement: Executable, values: Values | Sequence[Values] | None = None
    ) -> CursorResult[*tuple[Any, ...]]:
        """Runs a statement that was built for this one time."""
        return self.core.execute(statement, values)

    def close(self) -> None:
        """Ends it, with whatever it had not committed."""
        if self._core is not None:
            self._core.close()
            self._core = None
        with suppress(sqlite3.Error):
            self.raw.close()


class Connections(Protocol):
    """Where a transaction has its connection from."""

    def take(self) -> Connection:
        """One that nobody else uses until it is given back."""
        ...

    def give(self, connection: Connection, *, failed: bool) -> None:
        """Gives it back. ``failed``: after an error of SQLite it is not to be trusted."""
        ...

    def close(self) -> None:
        """Closes what nobody has taken."""
        ...


class Kept:
    """Connections to a file. One is kept open; who finds it taken gets another, which is closed after its use."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], first: sqlite3.Connection | None = None) -> None:
        self._connect = connect
        self._kept = None if first is None else Connection(first)
        self._closed = False
        self._lock = Lock()

    def take(self) -> Connection:
        """The kept one, or a new one. Raises what connecting raises."""
        with self._lock:
            kept, self._kept = self._kept, None
        return kept or Connection(self._connect())

    def give(self, connection: Connection, *, failed: bool) -> None:
        """Keeps it for the next, unless it failed or one is kept already."""
        with self._lock:
            keep = not (failed or self._closed) and self._kept is None
            if keep:
                self._kept = connection
        if not keep:
            connection.close()

    def close(self) -> None:
        """Closes the kept one. A later transaction opens one again, for itself alone."""
        with self._lock:
            self._closed = True
            kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()


class Sole:
    """The one connection to a database in memory, which is lost with it: threads take turns, and no error ends it."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._connection = Connection(raw)
        self._lock = RLock()

    def take(self) -> Connection:
        """Waits until no other thread has it."""
        self._lock.acquire()
        return self._connection

    def give(self, connection: Connection, *, failed: bool) -> None:  # noqa: ARG002 - there is no other
        """Lets the next thread have it."""
        self._lock.release()

    def close(self) -> None:
        """Ends the database."""
        with self._lock:
            self._connection.close()


class _Lent:
    """A connection as SQLAlchemy gets it: everything but ending a transaction, or the connection itself."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the driver has
        return getattr(self._raw, name)

    def commit(self) -> None:
        """Not by SQLAlchemy."""

    def rollback(self) -> None:
        """Not by SQLAlchemy."""

    def close(self) -> None:
        """Not by SQLAlchemy."""


def _engine(connect: Callable[[], Any]) -> Engine:
    return create_engine("sqlite://", creator=connect, poolclass=StaticPool)
