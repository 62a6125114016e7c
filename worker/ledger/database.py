"""Which revision a ledger has, and bringing it to the program's own.

A ledger is created or refused, never changed in passing: an older one waits for `campaign-worker ledger upgrade`, so
that a backup can be taken first, and a newer one is left alone, because a program cannot know what it would break.
Alembic runs from the package itself, without an ini file, inside a transaction that the caller owns.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, RLock
from types import TracebackType
from typing import Any, Final, Protocol, cast

import sqlalchemy
from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    CursorResult,
    Engine,
    Executable,
    UnaryExpression,
    bindparam,
    create_engine,
    text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.operators import custom_op

from worker.ledger.places import LedgerPlace, holder, identity, torn
from worker.ledger.tables import DAMAGED_HINT, REVISION, REVISIONS, damaged
from worker.model.errors import LedgerUnwritable, NotSafe

# SQLite's connections: which are kept, who has one, and one transaction on one of them.
#
# Between a decision and its first byte stand three transactions, so their way is short: a connection is taken, begun
# and given back without anything in between. SQLAlchemy, which builds every statement, gets the same connection lent,
# but only for statements that are not compiled beforehand, and for migrations. Two threads never have one connection
# at the same time. Nothing here knows a file, a table, or what an error means.

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


# Statements that are compiled once and then run on SQLite's own cursor, for what every look and every write asks.
#
# SQLAlchemy builds, keys and wraps a statement anew for each call; for the few that stand between a decision and its
# first byte this took ten times as long as SQLite's own work. They are still written in SQLAlchemy's Core, beside the
# tables, and run inside the same transaction on the same connection; only the way there is shorter. What comes back are
# SQLite's plain values: a boolean is 0 or 1.

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


# Connections and transactions: how the ledger's file is opened, and what happens when the disk says no.
#
# Every writing transaction is BEGIN IMMEDIATE, so what it reads cannot change before it commits. WAL and
# synchronous=FULL are set on every connection and read back: a commit that returns is on the disk. After any error the
# connection is thrown away, so nothing half done can be committed later, and the next transaction starts afresh and
# works again when there is room. A commit whose sync failed was reported as failed and may yet be found after a power
# cut; that is safe, because nothing was sent for it. Nothing here knows a table.

BUSY_TIMEOUT_S = 5.0
"""So long a transaction waits for other processes' before it fails."""
TRIES = 5_000
"""So often one that writes asks meanwhile."""
TRY_MS = 1
"""So long SQLite waits at each."""
TRIES_IN_A_LOOP = 50
"""So often one asks that must not stand: its answers, its page's sign of life and its end wait for it."""
IN_VAIN = 40
"""After a wait in vain each of so many others asks once only, so that they do not stand one after the other."""
WAL_KEPT_BYTES = 64 * 1024 * 1024
FULL = 2
"""What ``PRAGMA synchronous`` answers for FULL."""

HINTS = {
    sqlite3.SQLITE_FULL: "free some space on its disk",
    sqlite3.SQLITE_READONLY: "make the file and its folder writable for this user",
    sqlite3.SQLITE_IOERR: "look at the disk: it is failing, full or over quota",
    sqlite3.SQLITE_BUSY: "another process holds the ledger in a transaction; find it with `fuser` or `lsof`",
    sqlite3.SQLITE_LOCKED: "another process holds the ledger in a transaction; find it with `fuser` or `lsof`",
    sqlite3.SQLITE_CANTOPEN: "check that the folder exists and that this user may write to it",
    sqlite3.SQLITE_NOTADB: "the file is no SQLite database; check the path",
}
WRITING = "BEGIN IMMEDIATE"
HEADER = b"SQLite format 3\0"
"""How each file of SQLite's begins."""
NOT_UTF8 = "Could not decode to UTF-8"
"""How Python's own error about a stored text begins; it has no code."""


Row = tuple[Any, ...]
"""A row as SQLite gives it."""


class Store:
    """Transactions on one ledger. ``place`` is None for one in memory."""

    def __init__(
        self, connections: Connections, place: LedgerPlace | None, *, anchor: sqlite3.Connection | None = None
    ) -> None:
        self.connections = connections
        self.place = place
        self.refused: LedgerUnwritable | None = None
        """Why nothing is written any more, whatever comes: the ledger is not what it was."""
        self._file = "" if place is None else str(place.file)
        self._anchor = anchor
        watched = () if place is None or anchor is None else (place.file, place.wal, place.shm)
        self._files = {str(one): identity(str(one)) for one in watched}
        self.in_a_loop = False
        """Whether a transaction that writes waits a moment only for other processes: whoever asks has a loop to keep
        moving, and asks again by itself."""
        self._in_vain = 0

    def reading(self) -> "Turn":
        """A transaction that sees one state of the ledger and changes nothing."""
        return Turn(self, "BEGIN")

    def writing(self) -> "Turn":
        """A transaction that nobody else writes in between; all of it is durable on leaving, or none of it."""
        self.require_same()
        return Turn(self, WRITING)

    def begin_writing(self, raw: sqlite3.Connection) -> None:
        """Begins a transaction once no other process is in one. SQLite's own wait soon asks ten times a second only,
        and seldom meets the moment in which a process that writes without a pause lets go: an operator's command would
        fail beside a busy worker. So a connection that writes waits for a millisecond, again and again."""
        tries = TRIES
        if self.in_a_loop:
            tries = 1 if self._in_vain % IN_VAIN else min(TRIES, TRIES_IN_A_LOOP)
        for left in reversed(range(tries)):
            try:
                raw.execute(WRITING)
            except sqlite3.OperationalError as error:
                busy = code_of(error) == sqlite3.SQLITE_BUSY
                if busy and left:
                    continue
                self._in_vain += busy
                raise
            else:
                self._in_vain = 0
                return

    def require_same(self) -> None:
        """Raises `LedgerUnwritable` where the files are not those that were opened: what is written to a file that was
        removed is seen by nobody else, and lost with this process. One connection stays open all the time, so SQLite
        itself never exchanges them meanwhile."""
        if self.refused is not None:
            raise self.refused
        for file, known in self._files.items():
            if identity(file) != known:
                what = "" if file == self._file else f": {file} is not the one that it opened"
                raise LedgerUnwritable(
                    f"{self.name} was replaced or removed while it was in use{what}",
                    hint="stop the worker, see which file is the right one, and start again",
                )

    def rows(self, asked: Prepared, values: Values = NO_VALUES) -> list[Row]:
        """Every row of the answer to one question. It sees one state of the ledger, without a transaction around it."""
        with Turn(self) as connection:
            return asked.run(connection, values).fetchall()

    def run_alone(self, statement: str, *values: str) -> None:
        """Runs one statement outside a transaction, for what SQLite allows nowhere else."""
        with Turn(self) as connection:
            connection.raw.execute(statement, values)

    def close(self) -> None:
        """Closes every connection; a later transaction opens one again."""
        self.connections.close()
        if self._anchor is not None:
            self._anchor.close()

    @property
    def name(self) -> str:
        """As errors name it."""
        return f"the ledger {self._file}" if self._file else "the ledger in memory"


class Turn:
    """One use of a connection: a transaction, or without ``begin`` a single statement.

    SQLAlchemy and Python's driver would begin late and deferred; each here says what it is at once. A class and no
    generator, because two of those around each transaction take as long as the connection itself.
    """

    __slots__ = ("_begin", "_connection", "_store")

    def __init__(self, store: Store, begin: str = "") -> None:
        self._store = store
        self._begin = begin

    def __enter__(self) -> Connection:
        try:
            self._connection = connection = self._store.connections.take()
        except sqlite3.Error as error:
            raise unwritable(self._store.name, error) from error
        if self._begin:
            try:
                if self._begin == WRITING:
                    self._store.begin_writing(connection.raw)
                else:
                    connection.raw.execute(self._begin)
            except BaseException as error:
                self._undo(error)
                raise
        return connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._undo(error)
            return
        if self._begin:
            try:
                self._connection.raw.commit()
            except BaseException as failure:
                self._undo(failure)
                raise
        self._store.connections.give(self._connection, failed=False)

    def _undo(self, error: BaseException) -> None:
        """Nothing of it stays. SQLite's own errors are raised in the ledger's words, and end the connection, unless it
        only had to wait too long; so does an interruption, after which SQLAlchemy's view of the connection answers
        nothing any more."""
        found = error.orig if isinstance(error, DBAPIError) else error
        failed = isinstance(found, sqlite3.Error) and code_of(found) != sqlite3.SQLITE_BUSY
        failed = failed or not isinstance(error, Exception)
        try:
            self._connection.raw.rollback()
        except sqlite3.Error:
            failed = True
        self._store.connections.give(self._connection, failed=failed)
        if isinstance(found, sqlite3.Error):
            raise unwritable(self._store.name, found) from error


def unwritable(name: str, error: sqlite3.Error) -> LedgerUnwritable:
    """SQLite's error in the words of the error tree."""
    code = code_of(error)
    if code == sqlite3.SQLITE_CORRUPT or str(error).startswith(NOT_UTF8):
        return LedgerUnwritable(f"{name} is damaged: {error}", hint=DAMAGED_HINT)
    hint = HINTS.get(code, "look at the disk and at the file's permissions")
    return LedgerUnwritable(f"{name} cannot be used: {error}", hint=f"{hint}; nothing is sent until it can be written")


def code_of(error: BaseException | None) -> int:
    """SQLite's primary code of an error, 0 for any other."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def writing_store(place: LedgerPlace) -> Store:
    """For the file of a ledger that exists; a connection never makes one, or a deleted ledger would come back empty."""
    try:
        first = _writable(place, mode="rw")
        try:
            anchor = _probed(_connector(place, "mode=rw"))
        except BaseException:
            first.close()
            raise
    except sqlite3.Error as error:
        raise unwritable(f"the ledger {place.file}", error) from error
    return Store(Kept(lambda: _writable(place, mode="rw"), first), place, anchor=anchor)


def create_file(place: LedgerPlace) -> None:
    """Makes the empty file in WAL mode, and closes it again."""
    try:
        _writable(place, mode="rwc").close()
    except sqlite3.Error as error:
        raise unwritable(f"the ledger {place.file}", error) from error


def reading_store(place: LedgerPlace) -> Store:
    """For the file of a ledger that exists: never writes, never creates, works beside a daemon and on a read-only disk.

    A WAL database needs its shared-memory file even for reading. Where that cannot be made, nobody can be writing here,
    so the file is read as it stands; if committed pages still wait in the WAL, a copy of both is read instead.
    """
    if place.file.is_dir():
        raise NotSafe(
            f"{place.file} is a folder; `ledger:` names a file", hint="write for instance sqlite:///worker.db"
        )
    half = torn(place)
    if half is not None:
        raise half
    connect = _connector(place, "mode=ro")
    try:
        probed = _probed(connect)
    except sqlite3.OperationalError as error:
        if code_of(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise unwritable(f"the ledger {place.file}", error) from error
        return _reading_without_shared_memory(place)
    except sqlite3.DatabaseError as error:
        if _begins_like_one(place):
            raise NotSafe(f"the ledger {place.file} is damaged: {error}", hint=DAMAGED_HINT) from error
        raise NotSafe(f"{place.file} is not a ledger: {error}", hint="check the path in `ledger:`") from error
    except UnicodeDecodeError as error:  # what SQLite complains of is itself no text
        raise damaged("its schema cannot be read", f"the ledger {place.file}") from error
    return Store(Kept(connect, probed), place)


def _begins_like_one(place: LedgerPlace) -> bool:
    """Whether the file is one of SQLite's, if a broken one. Only for a file that SQLite itself would not read: closing
    it drops the locks that this process holds on it."""
    try:
        with place.file.open("rb") as opened:
            return opened.read(len(HEADER)) == HEADER
    except OSError:
        return False


def memory_store() -> Store:
    """One that lives as long as the object, for tests and for what does not exist yet."""
    return Store(Sole(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)), None)


def _reading_without_shared_memory(place: LedgerPlace) -> Store:
    try:
        if place.wal.exists() and place.wal.stat().st_size > 0:
            return Store(Sole(_copied(place)), place)
        connect = _connector(place, "mode=ro&immutable=1")
        return Store(Kept(connect, _probed(connect)), place)
    except (sqlite3.Error, OSError) as error:
        hint = "check that this user may read the file and its folder"
        raise NotSafe(f"the ledger {place.file} cannot be read: {error}", hint=hint) from error


def _copied(place: LedgerPlace) -> sqlite3.Connection:
    """File and WAL, joined in memory."""
    memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    with TemporaryDirectory() as folder:
        copy = LedgerPlace(file=Path(folder) / "copy.db")
        for source, target in ((place.file, copy.file), (place.wal, copy.wal)):
            target.write_bytes(source.read_bytes())
        connection = sqlite3.connect(copy.file)
        try:
            connection.backup(memory)
        finally:
            connection.close()
    return memory


def _connector(place: LedgerPlace, query: str) -> Callable[[], sqlite3.Connection]:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(
            f"{place.file.as_uri()}?{query}",
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )

    return connect


def _probed(connect: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
    """A connection through which the file was read."""
    connection = connect()
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _writable(place: LedgerPlace, *, mode: str) -> sqlite3.Connection:
    connection = _connector(place, f"mode={mode}")()
    try:
        make_durable(connection, place)
        connection.execute(f"PRAGMA busy_timeout={TRY_MS}")
    except BaseException:
        connection.close()
        raise
    return connection


def make_durable(connection: sqlite3.Connection, place: LedgerPlace) -> None:
    """Sets WAL and synchronous=FULL and reads both back. Raises `NotSafe` where SQLite answers anything else."""
    journal = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA fullfsync=ON")  # macOS: a plain sync leaves the data in the drive's cache
    connection.execute(f"PRAGMA journal_size_limit={WAL_KEPT_BYTES}")
    synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
    if journal != "wal" or synchronous != FULL:
        raise NotSafe(
            f"the ledger {place.file} cannot be made durable: journal {journal}, synchronous {synchronous}",
            hint="put it on a local disk; network file systems cannot hold a ledger",
        )


MIGRATIONS: Final = Path(__file__).parent / "migrations"
NOTHING: Final = ""
"""The revision of a file without tables: one whose creation was cut short."""
_TABLES = Prepared(text("SELECT name FROM sqlite_master WHERE type = 'table'"))
_REVISION = Prepared(text("SELECT version_num FROM alembic_version"))


def revision_of(connection: Connection, name: str) -> str:
    """The revision stored in the file, `NOTHING` for an empty one. Raises `NotSafe` for somebody else's database."""
    tables = {name for (name,) in _TABLES.run(connection)}
    if not tables:
        return NOTHING
    if not {"alembic_version", "action_log", "meta"} <= tables:
        raise NotSafe(f"{name} is a database, but no ledger of campaign-worker", hint="check the path in `ledger:`")
    revision = next((str(found) for (found,) in _REVISION.run(connection)), None)
    if revision is None:
        raise damaged("it does not say which revision it has", name)
    return revision


def require_current(
    revision: str, name: str, known: tuple[str, ...] = REVISIONS, *, place: LedgerPlace | None = None
) -> None:
    """Raises `NotSafe` unless it is the program's own revision, the last of those it knows. ``place``: where to look
    for a daemon that an older program left running: nothing can be halted there, and it sends on."""
    if revision == known[-1]:
        return
    if revision in known:
        hint = "take a backup with `campaign-worker ledger backup FILE`, then run `campaign-worker ledger upgrade`"
        pid = None if place is None else holder(place)
        if pid is not None and pid != os.getpid():
            older = f"process {pid}, of the program from before, still runs on it and sends"
            hint = f"{older}: stop it (kill {pid}); {hint}"
        raise NotSafe(f"{name} has revision {revision}, this program needs {known[-1]}", hint=hint)
    raise NotSafe(
        f"{name} has revision {revision}, which is newer than this program's {known[-1]}",
        hint="install the version of campaign-worker that wrote it, or restore the backup taken before the upgrade",
    )


def ready_to_migrate() -> None:
    """Loads what `migrate` needs. On a busy machine that takes seconds, so it is done before the transaction begins
    that others wait for."""
    import alembic.command  # noqa: PLC0415 - a quarter of a second that reading a ledger need not wait for
    import alembic.config  # noqa: PLC0415
    import alembic.context  # noqa: PLC0415, F401


def migrate(connection: Connection) -> None:
    """Brings the tables to the program's revision, within the caller's transaction."""
    from alembic import command  # noqa: PLC0415 - see above
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection.core
    command.upgrade(config, REVISION)
