"""Statements that are compiled once and then run on SQLite's own cursor, for what every look and every write asks.

SQLAlchemy builds, keys and wraps a statement anew for each call; for the few that stand between a decision and its
first byte this took ten times as long as SQLite's own work. They are still written in SQLAlchemy's Core, beside the
tables, and run inside the same transaction on the same connection; only the way there is shorter. What comes back are
SQLite's plain values: a boolean is 0 or 1.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, cast

from sqlalchemy import BindParameter, Column, ColumnElement, Executable, UnaryExpression, bindparam
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.operators import custom_op

from worker.ledger.connections import Connection, Values

NO_VALUES: Values = {}
_WANTED = object()


def given(name: str) -> BindParameter[Any]:
    """A value that comes with each call. SQLAlchemy's own required ones cannot stand beside a list of fixed values."""
    return bindparam(name, value=_WANTED)


def unindexed(column: Column[Any]) -> ColumnElement[Any]:
    """The column in a condition by which SQLite shall not look for the rows: another one leaves fewer, which it cannot
    know without statistics."""
    return UnaryExpression(column, operator=custom_op("+"))


class Prepared:
    """One statement. ``columns``: those that an insert or update sets from the values given with each call."""

    def __init__(self, statement: Executable, columns: Iterable[str] | None = None) -> None:
        self._statement = statement
        self._columns = None if columns is None else list(columns)

    def run(self, connection: Connection, values: Values = NO_VALUES) -> sqlite3.Cursor:
        """Runs it in the connection's transaction. Raises `KeyError` where a value is missing, and SQLite's errors."""
        text, order = self._compiled
        return connection.raw.execute(text, order(values))

    def run_many(self, connection: Connection, rows: Iterable[Values]) -> sqlite3.Cursor:
        """Runs it once for each row."""
        text, order = self._compiled
        return connection.raw.executemany(text, [order(row) for row in rows])

    def run_rows(self, connection: Connection, rows: Iterable[Sequence[object]]) -> sqlite3.Cursor:
        """The same with each row's values in the order of ``columns``."""
        text, _ = self._compiled
        return connection.raw.executemany(text, map(self._arranged, rows))

    @cached_property
    def _arranged(self) -> Callable[[Sequence[object]], Any]:
        """Puts the values of ``columns`` into the order of the question marks."""
        columns = self._columns or []
        return itemgetter(*(columns.index(name) for name in self._compiled[1].names))

    @cached_property
    def _compiled(self) -> tuple[str, "Order"]:
        """The text and the order of its values. Compiled when first run: most commands need none of it."""
        options = {"render_postcompile": True}
        made = cast(Any, self._statement).compile(
            dialect=sqlite.dialect(), column_keys=self._columns, compile_kwargs=options
        )
        compiled = cast(SQLCompiler, made)
        wanted = {name for name, bind in compiled.binds.items() if bind.required or bind.value is _WANTED}
        fixed = {name: value for name, value in compiled.params.items() if name not in wanted}
        return compiled.string, Order(compiled.positiontup or [], fixed)


class Order:
    """Puts named values into the order in which a statement has its question marks."""

    def __init__(self, names: Iterable[str], fixed: Values) -> None:
        self.names = tuple(names)
        self._fixed = {name: value for name, value in fixed.items() if name in self.names}
        self._pick = itemgetter(*self.names) if len(self.names) > 1 else None

    def __call__(self, values: Values) -> tuple[object, ...]:
        """The values of one call; those that the statement itself has need not be given."""
        given = {**self._fixed, **values} if self._fixed else values
        if self._pick is None:
            return tuple(given[name] for name in self.names)
        return cast("tuple[object, ...]", self._pick(given))
