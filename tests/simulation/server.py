"""The database server of a fleet: SQLite underneath, and what a PostgreSQL would do to those who are connected to it.

The ledger's own statements, locks and checks run unchanged: the few functions that only a server has are given to
SQLite. One transaction runs at a time. What can befall one beside its neighbours is played all the same: a process that
is stopped before its commit holds its rows and locks while the others go on, the server ends what stands for too long
or is in somebody's way, links are cut or say nothing, and the answer to a commit gets lost.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import UUID

from sqlalchemy import Connection, func, select, text

from tests.simulation.disk import Disk, SimConnection, failing, shared_engine
from tests.simulation.history import Owned
from tests.simulation.loop import OWNER, START_S, SimLoop
from tests.simulation.points import Harm
from tests.virtual import EPOCH
from worker.ledger import mark, ownership, postgres, rows
from worker.ledger.database import Store
from worker.ledger.postgres import PostgresStore
from worker.ledger.tables import UtcTime, replicas, time_text
from worker.model.errors import LedgerUnwritable

URL = "postgresql://simulated/ledger"
STANDS_S = 3.0
"""A transaction in which nothing happens for longer is ended by the server."""
SILENT_S = 10.0
"""So long the worker waits for an answer."""
CHANGES = ("INSERT", "UPDATE", "DELETE")


class ServersTime(UtcTime):
    """A server answers with a moment, SQLite with its text."""

    cache_ok = True

    def process_result_value(self, value: Any, dialect: Any) -> datetime | None:  # noqa: ANN401 - as its base has it
        return value if isinstance(value, datetime) else super().process_result_value(value, dialect)


@dataclass(slots=True)
class Standing:
    """A transaction that stands before its end. ``rows``: what it holds of `partners`; ``shared``: whether it records
    an attempt or a decision; ``ended``: by the server, because it was in the way."""

    owner: str
    rows: frozenset[str]
    shared: bool
    ended: bool = False


@dataclass(slots=True)
class Held:
    """What the transaction that runs now has taken hold of, and has changed."""

    rows: set[str] = field(default_factory=set)
    shared: bool = False
    changes: list[tuple[str, Sequence[Any]]] = field(default_factory=list)

    def changes_in(self, text: str) -> bool:
        """Whether any statement that changes something says this."""
        return any(text in statement for statement, _ in self.changes)


class Server(Disk):
    """The database, and who can reach it. ``cut``: whose links are; ``silent``: whose links say nothing; ``names``: the
    process behind each replica's id; ``owned``: whose each partner was, from when on; ``unheard``: the record
    of each sending whose commit is there, and who made it does not know."""

    def __init__(
        self,
        folder: Path,
        cross: Callable[[str, str], Harm | None],
        kill: Callable[[str], None],
        chance: Random,
        loop: SimLoop,
    ) -> None:
        super().__init__(folder, cross, kill, chance)
        self.loop = loop
        self.down = False
        self.cut: set[str] = set()
        self.silent: set[str] = set()
        self.timeline = 1
        self.names: dict[str, str] = {}
        self.states: dict[str, Path] = {}
        self.owned: list[Owned] = []
        self.unheard: list[int] = []
        self.meanwhile: Callable[[str], None] = lambda _what: None
        self.standing: list[Standing] = []
        self.held_now = Held()
        self._draw = Random(chance.random())
        self._owners: dict[str, tuple[str | None, int]] = {}
        self._anew = True

    @property
    def url(self) -> str:
        return URL

    def now(self) -> datetime:
        """By the server's clock."""
        return EPOCH + timedelta(seconds=self.loop.now - START_S)

    # Who is connected

    def connect(self) -> "ServerConnection":
        """A new connection of whoever asks."""
        owner = OWNER.get()
        self.require_reached(owner)
        made = sqlite3.connect(self.file, timeout=0.0, isolation_level=None, factory=ServerConnection)
        made.disk, made.owner, made.turn = self, owner, self.turn
        functions: dict[str, tuple[int, Callable[..., Any]]] = {
            "clock_timestamp": (0, lambda: time_text(self.now())),
            "gen_random_uuid": (0, lambda: self._named(owner)),
            "pg_advisory_xact_lock": (1, lambda key: self._locked(key, alone=True)),
            "pg_advisory_xact_lock_shared": (1, lambda key: self._locked(key, alone=False)),
            "set_config": (3, lambda _name, value, _local: value),
            "servers_name": (0, lambda: f"7, timeline {self.timeline:08}"),
        }
        for name, (arguments, function) in functions.items():
            made.create_function(name, arguments, function)
        if owner:
            self.open.setdefault(owner, []).append(made)
        return made

    def require_reached(self, owner: str) -> None:
        """Raises the driver's error where nothing comes through."""
        if self.down or owner in self.cut:
            raise failing(sqlite3.SQLITE_CANTOPEN, "connection refused")
        if owner in self.silent:
            self.loop.stand(owner, SILENT_S)
            raise failing(sqlite3.SQLITE_CANTOPEN, f"no answer within {SILENT_S:g} s")

    def _named(self, owner: str) -> str:
        drawn = str(UUID(int=self._draw.getrandbits(128), version=4))
        self.names[drawn] = owner
        return drawn

    # Locks

    def _locked(self, key: int, *, alone: bool) -> int:
        if key == postgres.SENDINGS:
            self.held_now.shared = not alone
            self._in_the_way(lambda one: alone and one.shared)
        return 0

    def hold(self, chains: Sequence[str]) -> None:
        """The transaction that runs takes hold of these rows."""
        self.held_now.rows.update(chains)
        self._in_the_way(lambda one: bool(one.rows & set(chains)))

    def _in_the_way(self, is_it: Callable[[Standing], bool]) -> None:
        """Whoever needs what a transaction that stands holds waits until the server has ended that."""
        for one in self.standing:
            one.ended = one.ended or is_it(one)

    # What is seen of it from outside

    def note(self, connection: sqlite3.Connection) -> None:
        """Notes after a commit whose each partner is from now on, and how long the log is, where either may be new."""
        anew, self._anew = self._anew, False
        if anew or self.held_now.changes_in("partners"):
            self._note_owners(connection)
        if anew or self.held_now.changes_in("action_log"):
            upto = self.stamped(connection)
            if not self.stamps or self.stamps[-1][0] != upto:
                self.stamps.append((upto, self.moment()))

    def _note_owners(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT partner, owner, epoch FROM partners WHERE epoch > 0").fetchall()
        found = {str(partner): (owner, int(epoch)) for partner, owner, epoch in rows}
        for partner, (owner, epoch) in found.items():
            if self._owners.get(partner) != (owner, epoch):
                name = "" if owner is None else self.names.get(owner, "")
                self.owned.append(Owned(at_s=self.loop.now, partner=partner, owner=name, epoch=epoch, id=owner))
        self._owners = found

    def rows(self) -> list[dict[str, Any]]:
        """The action log in the order in which its records came; ``seq`` is that, and ``number`` that of its chain."""
        try:
            columns = [str(column[1]) for column in self._asked("PRAGMA table_info(action_log)")]
            spelled = ", ".join(f'"{name}"' for name in columns)
            asked = f"SELECT {spelled} FROM action_log ORDER BY id"  # noqa: S608 - the table's own columns
            found = [dict(zip(columns, row, strict=True)) for row in self._asked(asked)]
        except sqlite3.DatabaseError:
            return []
        numbers = [int(row.pop("id")) for row in found]
        return [{**row, "number": row["seq"], "seq": came} for row, came in zip(found, numbers, strict=True)]

    def stamped(self, connection: sqlite3.Connection) -> int:
        return int(connection.execute("SELECT coalesce(max(id), 0) FROM action_log").fetchone()[0])

    def last(self) -> int:
        """The number of the newest record."""
        return int(self._asked("SELECT coalesce(max(id), 0) FROM action_log")[0][0])

    def last_sending(self) -> int:
        return int(self._asked("SELECT coalesce(max(id), 0) FROM action_log WHERE kind = 'sending'")[0][0])

    def marked_to(self, owner: str, partner: str) -> int:
        """How far what a replica keeps on its own disk has got in a partner's chain."""
        try:
            kept = json.loads((self.states[owner] / mark.FILE).read_text("utf-8"))["chains"].get(partner, [0])
        except FileNotFoundError:
            return -1
        asked = f"SELECT id FROM action_log WHERE chain = '{partner}' AND seq = {int(kept[0])}"  # noqa: S608 - ours
        return next((int(row[0]) for row in self._asked(asked)), -1)

    # A process that ends, and a server that is put back

    def power_cut(self) -> None:
        """The server stands elsewhere."""

    def as_left(self) -> None:
        """The same."""

    def reap(self, owner: str) -> None:
        """The server notices that a client is gone."""
        for connection in self.open.pop(owner, []):
            connection.close()

    def put_back(self, content: bytes, wal: bytes) -> None:
        """An older state of the database; every connection is lost."""
        whole, self._anew = self._whole(content, wal), True
        self.remove()
        self.turn += 1
        self.file.write_bytes(whole)


class ServerCursor(sqlite3.Cursor):
    """Notes what its transaction changes, so that it can be done once more."""

    connection: "ServerConnection"

    def execute(self, statement: str, values: Any = (), /) -> "ServerCursor":  # noqa: ANN401 - as its base has it
        if statement.startswith(CHANGES):
            self.connection.disk.held_now.changes.append((statement, values))
        super().execute(statement, values)
        return self

    def executemany(self, statement: str, rows: Any, /) -> "ServerCursor":  # noqa: ANN401 - as its base has it
        if statement.startswith(CHANGES):
            self.connection.disk.held_now.changes.extend((statement, values) for values in rows)
        super().executemany(statement, rows)
        return self


class ServerConnection(SimConnection):
    """A connection to the server, whose link can be cut at any statement that begins or ends a transaction."""

    disk: Server
    warned: str | None = None

    def cursor(self, factory: Any = ServerCursor) -> Any:  # noqa: ANN401 - as its base has it
        return super().cursor(factory)

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:  # noqa: ANN401 - as its base has it
        if statement.startswith("BEGIN"):
            self.disk.held_now = Held()
            self.disk.require_reached(self.owner)
            self._require_same()
            harm = self.disk.harm("server", self.owner)
            if harm is not None and harm.seconds:
                self.disk.loop.stand(self.owner, harm.seconds)
            if harm is not None:
                raise failing(sqlite3.SQLITE_CANTOPEN, "server closed the connection unexpectedly")
            self.writes = statement == "BEGIN IMMEDIATE"
        return sqlite3.Connection.execute(self, statement, *values)

    def _require_same(self) -> None:
        if self.turn != self.disk.turn:
            raise failing(sqlite3.SQLITE_CANTOPEN, "server closed the connection unexpectedly")

    def commit(self) -> None:
        if not self.in_transaction or not self.writes:
            sqlite3.Connection.commit(self)
            return
        self.writes = False
        sending = self.disk.held_now.changes_in("INTO attempts")
        harm = self.disk.harm("server sending" if sending else "server commit", self.owner)
        does = "" if harm is None else harm.does
        if does == "kill_before":
            self.disk.die(self.owner)
        if does == "lost":
            raise failing(sqlite3.SQLITE_IOERR, "server closed the connection unexpectedly")
        if does == "stands" and harm is not None:
            if "meanwhile" in harm.params:
                self.disk.meanwhile(str(harm.params["meanwhile"]))
            self._stands(harm.seconds)
        sqlite3.Connection.commit(self)
        self.disk.commits += 1
        self.disk.note(self)
        if does == "kill_after":
            self.disk.die(self.owner)
        if sending and does in ("warned", "unheard"):
            self.disk.unheard.append(self.disk.last_sending())
        if does == "warned":
            self.warned = "canceling wait for synchronous replication due to user request"
        if does == "unheard" and harm is not None:
            if harm.seconds:
                self.disk.loop.stand(self.owner, harm.seconds)
            raise failing(sqlite3.SQLITE_IOERR, "no answer to a commit that is there")

    def _stands(self, seconds: float) -> None:
        """The process is stopped here, and others go on beside what it holds; then its changes are made, as nobody who
        needed what it held can have come before. Raises the driver's error where the server has ended it."""
        held, numbers = self.disk.held_now, self._numbers()
        sqlite3.Connection.rollback(self)
        standing = Standing(owner=self.owner, rows=frozenset(held.rows), shared=held.shared)
        self.disk.standing.append(standing)
        try:
            self.disk.loop.stand(self.owner, seconds)
        finally:
            self.disk.standing.remove(standing)
        lost = standing.ended or seconds > STANDS_S or self.disk.down or self.owner in self.disk.cut
        self._require_same()
        if lost or (numbers != self._numbers() and held.changes_in("INTO writes")):
            raise failing(sqlite3.SQLITE_IOERR, "terminating connection due to idle-in-transaction timeout")
        self.disk.held_now = Held(changes=held.changes)
        sqlite3.Connection.execute(self, "BEGIN IMMEDIATE")
        for statement, values in held.changes:
            sqlite3.Connection.execute(self, statement, values).fetchall()

    def _numbers(self) -> int:
        """How many writes there are of others: a number that was told must be the one that is stored."""
        inside = self.disk.held_now.changes
        mine = sum("INTO writes" in statement for statement, _ in inside) if self.in_transaction else 0
        return int(sqlite3.Connection.execute(self, "SELECT count(*) FROM writes").fetchone()[0]) - mine


class ServerStore(PostgresStore):
    """Transactions as on PostgreSQL."""

    def __init__(self, server: Server) -> None:
        super().__init__(shared_engine(server.connect), "the simulated ledger")
        self._server = server

    def chains(self, partners: Any) -> Sequence[str]:  # noqa: ANN401 - as its base has it
        found = super().chains(partners)
        self._server.hold(found)
        return found

    def begin(self, connection: Connection, *, writing: bool) -> None:
        raw: Any = connection.connection.driver_connection
        raw.warned = None
        raw.execute("BEGIN IMMEDIATE" if writing else "BEGIN")

    def in_words(self, error: BaseException) -> LedgerUnwritable | None:
        if not isinstance(error, sqlite3.Error):
            return None
        return LedgerUnwritable(f"{self.name} cannot be used: {error}", hint="nothing is sent until it can be")


@contextmanager
def listening(server: Server) -> Iterator[None]:
    """While the block lasts, a ledger on PostgreSQL is on this server."""

    def store(_url: str) -> Store:
        return ServerStore(server)

    clock, of = func.clock_timestamp(type_=ServersTime()), replicas.c
    with (
        patch.object(postgres, "postgres_store", store),
        patch.object(mark, "_SERVER", text("SELECT servers_name()")),
        patch.object(rows, "_SERVER_TIME", select(clock)),
        patch.object(ownership, "_SAID", select(clock.label("now"), of.id, of.state, of.beat)),
    ):
        yield
