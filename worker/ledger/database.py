"""The ledger's database: transactions by SQLAlchemy, and how one on a SQLite file is opened.

Everything of a transaction is durable when it is left, or nothing of it. After an error of the database the connection
is thrown away, so nothing half done can be committed later, and the next transaction starts afresh and works again when
the database does. Nothing here knows a table.

A file: every writing transaction is BEGIN IMMEDIATE, so what it reads cannot change before it commits. WAL and
synchronous=FULL are set on every connection and read back: a commit that returns is on the disk. A commit whose sync
failed was reported as failed and may yet be found after a power cut; that is safe, because nothing was sent for it.

How a server is reached stands in ``postgres``, which is loaded where a ledger needs it.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from threading import RLock
from typing import Any
from weakref import finalize

from sqlalchemy import Connection, Engine, Executable, Row, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, StaticPool

from worker.ledger.places import LedgerPlace, identity, left_to_its_owner, torn
from worker.ledger.tables import DAMAGED_HINT, damaged
from worker.model.commits import Record
from worker.model.errors import LedgerUnwritable, NotSafe

Values = Mapping[str, object]

STOOD_IDLE = "25P03"
"""What PostgreSQL calls a transaction that it has given up, because it waited for the client."""


class Store(ABC):
    """Transactions on one ledger. ``place``: its files, where it has any; ``name``: as errors name it."""

    def __init__(self, engine: Engine, name: str, place: LedgerPlace | None = None) -> None:
        self.engine = engine
        self.name = name
        self.place = place
        self.lasting = True
        """Whether the ledger outlives this process."""
        self.refused: LedgerUnwritable | None = None
        """Why nothing is written any more, whatever comes: the ledger is not what it was."""
        self.in_a_loop = False
        """Whether a transaction that writes waits a moment only for other processes: whoever asks has a loop to keep
        moving, and asks again by itself."""
        self.tell: Callable[[Record], None] = lambda _record: None
        """Who is told of each record once it is stored."""
        self.meet: Callable[[Connection], None] = lambda _connection: None
        """Who looks at each connection that was made, before anything else is done on it."""
        self._files: dict[str, tuple[int, int] | None] = {}
        """What must lie where it did."""
        self._turn: AbstractContextManager[object] = nullcontext()
        self._at_rest: list[Connection] = []
        """The connection that the next transaction takes: to take one from SQLAlchemy's pool costs more than most
        statements."""

    def chains(self, partners: Iterable[str | None]) -> Sequence[str]:  # noqa: ARG002 - those of a fleet are otherwise
        """The chains in which these partners' records are, None for what concerns all: where one process writes,
        there is one chain, without a name."""
        return ("",)

    def begin_sending(self, connection: Connection) -> None:  # noqa: B027 - see below
        """Begins a transaction that records an attempt, which a halt that is under way waits for, or goes before.
        Where one writes at a time there is nothing to do."""

    def begin_halt(self, connection: Connection) -> None:  # noqa: B027 - as above
        """Begins one that forbids attempts: once those that are under way have ended, and before any other."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one state of the ledger and changes nothing."""
        return self._transaction(writing=False)

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that nobody else writes in between; all of it is durable on leaving, or none of it."""
        self.require_same()
        return self._transaction(writing=True)

    def require_same(self) -> None:
        """Raises `LedgerUnwritable` where the files are not those that were opened: what is written to a file that was
        removed is seen by nobody else, and lost with this process."""
        if self.refused is not None:
            raise self.refused
        for file, known in self._files.items():
            if identity(file) != known:
                what = "" if self.name.endswith(file) else f": {file} is not the one that it opened"
                hint = "stop the worker, see which file is the right one, and start again"
                raise LedgerUnwritable(f"{self.name} was replaced or removed while it was in use{what}", hint=hint)

    def rows(self, asked: Executable, values: Values | None = None) -> Sequence[Row[*tuple[Any, ...]]]:
        """Every row of the answer to one question."""
        with self.reading() as connection:
            return connection.execute(asked, values).all()

    @abstractmethod
    def begin(self, connection: Connection, *, writing: bool) -> None:
        """Begins a transaction; one that writes, once nobody else is in one."""

    def require_certain(self, connection: Connection) -> None:  # noqa: B027 - that to a file is
        """Raises `LedgerUnwritable` where nothing may rest on the commit that was just made."""

    @abstractmethod
    def in_words(self, error: BaseException) -> LedgerUnwritable | None:
        """The driver's error in the words of the error tree; None for any other error."""

    def spoils(self, error: BaseException) -> bool:
        """Whether the connection on which this happened is of no use any more."""
        return not isinstance(error, Exception) or self.in_words(error) is not None

    @contextmanager
    def _transaction(self, *, writing: bool) -> Iterator[Connection]:
        """The driver's errors are raised in the ledger's words, and end the connection. What was read is read, also
        where a server has given up its transaction meanwhile, because nothing was asked in it for long."""
        connection, read = None, False
        with self._turn:
            try:
                connection = self.taken()
                with connection.begin():
                    self.begin(connection, writing=writing)
                    yield connection
                    read = not writing
                self.require_certain(connection)
            except BaseException as error:
                found = error.orig or error if isinstance(error, DBAPIError) else error
                if connection is not None and self.spoils(found):
                    connection.invalidate()
                said = self.in_words(found)
                if said is None:
                    raise
                if not read or getattr(found, "sqlstate", None) != STOOD_IDLE:
                    raise said from found
            finally:
                if connection is not None:
                    self.give_back(connection)

    def taken(self) -> Connection:
        """A connection that nobody else has; to be given back."""
        with suppress(IndexError):
            return self._at_rest.pop()
        connection = self.engine.connect()
        with on_failure(connection.close):
            self.meet(connection)
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keeps one connection, and closes any other."""
        if connection.invalidated or self._at_rest:
            connection.close()
        else:
            self._at_rest.append(connection)

    def close(self) -> None:
        """Closes every connection; a later transaction opens one again."""
        while self._at_rest:
            self._at_rest.pop().close()


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

FILE_HINTS = {
    sqlite3.SQLITE_FULL: "free some space on its disk",
    sqlite3.SQLITE_READONLY: "make the file and its folder writable for this user",
    sqlite3.SQLITE_IOERR: "look at the disk: it is failing, full or over quota",
    sqlite3.SQLITE_BUSY: "another process holds the ledger in a transaction; find it with `fuser` or `lsof`",
    sqlite3.SQLITE_LOCKED: "another process holds the ledger in a transaction; find it with `fuser` or `lsof`",
    sqlite3.SQLITE_CANTOPEN: "check that the folder exists and that this user may write to it",
    sqlite3.SQLITE_NOTADB: "the file is no SQLite database; check the path",
}
HEADER = b"SQLite format 3\0"
"""How each file of SQLite's begins."""
NOT_UTF8 = "Could not decode to UTF-8"
"""How Python's own error about a stored text begins; it has no code."""


class SqliteStore(Store):
    """Transactions on a SQLite file, or on a database in memory, where there is no ``place``."""

    def __init__(self, engine: Engine, place: LedgerPlace | None, *, anchor: sqlite3.Connection | None = None) -> None:
        super().__init__(engine, "the ledger in memory" if place is None else f"the ledger {place.file}", place)
        self._anchor = anchor
        # One connection stays open all the time, so SQLite itself never exchanges its files meanwhile.
        watched = () if place is None or anchor is None else (place.file, place.wal, place.shm)
        self._files |= {str(one): identity(str(one)) for one in watched}
        self._in_vain = 0
        if place is None:
            self.lasting = False
            self._turn = RLock()  # threads take turns on the one connection that there is

    def begin(self, connection: Connection, *, writing: bool) -> None:
        """Begins a transaction; one that writes, once no other process is in one. SQLite's own wait soon asks ten times
        a second only, and seldom meets the moment in which a process that writes without a pause lets go: an operator's
        command would fail beside a busy worker. So a connection that writes waits for a millisecond, again and again.
        """
        raw: Any = connection.connection.driver_connection
        if not writing:
            raw.execute("BEGIN")
            return
        tries = TRIES
        if self.in_a_loop:
            tries = 1 if self._in_vain % IN_VAIN else min(TRIES, TRIES_IN_A_LOOP)
        for left in reversed(range(tries)):
            try:
                raw.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                busy = code_of(error) == sqlite3.SQLITE_BUSY
                if busy and left:
                    continue
                self._in_vain += busy
                raise
            else:
                self._in_vain = 0
                return

    def in_words(self, error: BaseException) -> LedgerUnwritable | None:
        """See `Store`."""
        return unwritable(self.name, error) if isinstance(error, sqlite3.Error) else None

    def spoils(self, error: BaseException) -> bool:
        """A connection that only had to wait too long is as good as before; that of one in memory is all there is."""
        return self.place is not None and super().spoils(error) and code_of(error) != sqlite3.SQLITE_BUSY

    def run_alone(self, statement: str, *values: str) -> None:
        """Runs one statement outside a transaction, for what SQLite allows nowhere else."""
        with self.reading() as connection:
            raw: Any = connection.connection.driver_connection
            raw.execute("COMMIT")
            raw.execute(statement, values)

    def close(self) -> None:
        """See `Store`."""
        super().close()
        if self._anchor is not None:
            self._anchor.close()


def unwritable(name: str, error: sqlite3.Error) -> LedgerUnwritable:
    """SQLite's error in the words of the error tree."""
    code = code_of(error)
    if code == sqlite3.SQLITE_CORRUPT or str(error).startswith(NOT_UTF8):
        return LedgerUnwritable(f"{name} is damaged: {error}", hint=DAMAGED_HINT)
    hint = FILE_HINTS.get(code, "look at the disk and at the file's permissions")
    return LedgerUnwritable(f"{name} cannot be used: {error}", hint=f"{hint}; nothing is sent until it can be written")


def code_of(error: BaseException | None) -> int:
    """SQLite's primary code of an error, 0 for any other."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def engine_of(connect: Callable[[], sqlite3.Connection]) -> Engine:
    """An engine on what this makes. A `Store` keeps one connection of it; who finds that taken gets another, which is
    closed after its use."""
    return create_engine("sqlite://", creator=connect, poolclass=NullPool)


def writing_store(place: LedgerPlace) -> SqliteStore:
    """For the file of a ledger that exists; a connection never makes one, or a deleted ledger would come back empty."""
    try:
        anchor = _probed(lambda: _writable(place, mode="rw"))
    except sqlite3.Error as error:
        raise unwritable(f"the ledger {place.file}", error) from error
    return SqliteStore(engine_of(lambda: _writable(place, mode="rw")), place, anchor=anchor)


def create_file(place: LedgerPlace) -> None:
    """Makes the empty file in WAL mode, and closes it again."""
    try:
        _writable(place, mode="rwc").close()
        left_to_its_owner(place.file)
    except sqlite3.Error as error:
        raise unwritable(f"the ledger {place.file}", error) from error


def reading_store(place: LedgerPlace) -> SqliteStore:
    """For the file of a ledger that exists: never writes, never creates, works beside a daemon and on a read-only disk.

    A WAL database needs its shared-memory file even for reading. Where that cannot be made, nobody can be writing here,
    so the file is read as it stands, unless committed pages still wait in the WAL.
    """
    if place.file.is_dir():
        hint = "write for instance sqlite:///worker.db"
        raise NotSafe(f"{place.file} is a folder; `ledger:` names a file", hint=hint)
    half = torn(place)
    if half is not None:
        raise half
    try:
        return _probed_store(place, "mode=ro")
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


def _begins_like_one(place: LedgerPlace) -> bool:
    """Whether the file is one of SQLite's, if a broken one. Only for a file that SQLite itself would not read: closing
    it drops the locks that this process holds on it."""
    try:
        with place.file.open("rb") as opened:
            return opened.read(len(HEADER)) == HEADER
    except OSError:
        return False


def memory_store() -> SqliteStore:
    """One that lives as long as the object, for tests and for what does not exist yet."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    # Not reset when it is given back, which may be after its end: each transaction has ended by then.
    only: dict[str, Any] = {"poolclass": StaticPool, "pool_reset_on_return": None}
    store = SqliteStore(create_engine("sqlite://", creator=lambda: connection, **only), None)
    finalize(store, connection.close)
    return store


def _reading_without_shared_memory(place: LedgerPlace) -> SqliteStore:
    try:
        if place.wal.exists() and place.wal.stat().st_size > 0:
            why = f"the ledger {place.file} was not closed: some of it is in its -wal still, and cannot be read here"
            raise NotSafe(why, hint="copy both to a folder where this user may write, and name the copy in `ledger:`")
        return _probed_store(place, "mode=ro&immutable=1")
    except (sqlite3.Error, OSError) as error:
        hint = "check that this user may read the file and its folder"
        raise NotSafe(f"the ledger {place.file} cannot be read: {error}", hint=hint) from error


def _opener(place: LedgerPlace, query: str) -> Callable[[], sqlite3.Connection]:
    options: dict[str, Any] = {"timeout": BUSY_TIMEOUT_S, "isolation_level": None, "check_same_thread": False}
    return partial(sqlite3.connect, f"{place.file.as_uri()}?{query}", uri=True, **options)


@contextmanager
def on_failure(close: Callable[[], object]) -> Iterator[None]:
    """Closes what was opened if what is to be done with it first fails; else it stays open."""
    try:
        yield
    except BaseException:
        close()
        raise


def _probed_store(place: LedgerPlace, query: str) -> SqliteStore:
    """A store that keeps the connection through which the file was read. Raises what SQLite says."""
    connect = _opener(place, query)
    store = SqliteStore(engine_of(lambda: _probed(connect)), place)
    try:
        store.give_back(store.taken())
    except DBAPIError as error:
        raise error.orig or error from error
    return store


def _probed(connect: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
    """A connection through which the file was read."""
    connection = connect()
    with on_failure(connection.close):
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return connection


def _writable(place: LedgerPlace, *, mode: str) -> sqlite3.Connection:
    connection = _opener(place, f"mode={mode}")()
    with on_failure(connection.close):
        make_durable(connection, place)
        connection.execute(f"PRAGMA busy_timeout={TRY_MS}")
    return connection


def make_durable(connection: sqlite3.Connection, place: LedgerPlace) -> None:
    """Sets WAL and synchronous=FULL and reads both back. Raises `NotSafe` where SQLite answers anything else."""
    journal = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA fullfsync=ON")  # macOS: a plain sync leaves the data in the drive's cache
    connection.execute(f"PRAGMA journal_size_limit={WAL_KEPT_BYTES}")
    synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
    if journal != "wal" or synchronous != FULL:
        why = f"the ledger {place.file} cannot be made durable: journal {journal}, synchronous {synchronous}"
        raise NotSafe(why, hint="put it on a local disk; network file systems cannot hold a ledger")
