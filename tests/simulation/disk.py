"""The ledger's disk: real SQLite files that can fail, fill up, be cut off, and outlive the process that wrote them.

A killed process leaves its files as the operating system would: what was committed is there, nothing is checkpointed or
tidied. A power cut is harder: of the write-ahead log only that survives which was synced, as SQLite's own setting says.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.pool import NullPool

from tests.simulation.loop import OWNER, Killed
from tests.simulation.points import Harm
from tests.virtual import EPOCH
from worker.ledger import database, sql
from worker.ledger import mark as marks
from worker.ledger.mark import Mark
from worker.ledger.places import LedgerPlace
from worker.ledger.sql import SqlLedger
from worker.ledger.tables import REVISION
from worker.model.errors import LedgerUnwritable

FINAL = ("confirmed", "unconfirmed", "rejected", "refused", "skipped", "shadowed", "cancelled")
FULL = 2
"""What ``PRAGMA synchronous`` answers for FULL."""


class Disk:
    """One machine's ledger, its mark, and who has them open."""

    def __init__(
        self, folder: Path, cross: Callable[[str, str], Harm | None], kill: Callable[[str], None], chance: Random
    ) -> None:
        self.file = folder / "worker.db"
        self.mark = folder / "worker.db.mark"
        self._cross = cross
        self._kill = kill
        self._chance = chance
        self.open: dict[str, list[SimConnection]] = {}
        self.synced = 0
        self.full = False
        self.held = False
        self.turn = 0
        self.lasting: tuple[str, ...] = ("writes_per_hour", "spend", "conflict")
        self.cut_to: int | None = None
        self.stamps: list[tuple[int, float]] = []
        self.moment: Callable[[], float] = lambda: 0.0
        self._left: tuple[bytes, bytes] | None = None
        self._outside: sqlite3.Connection | None = None
        self.commits = 0
        self._open: tuple[int, list[tuple[str, str]]] = (-1, [])
        self._wal = f"{self.file}-wal"
        for name, content in blank().items():
            (folder / name).write_bytes(content)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.file}"

    @property
    def wal(self) -> Path:
        return self.file.with_name("worker.db-wal")

    def harm(self, what: str, owner: str) -> Harm | None:
        """What goes wrong here; nothing for those around the workers."""
        return self._cross(what, owner) if owner else None

    def die(self, owner: str) -> None:
        """The process is dead now, and the files are what they are at this moment."""
        self._kill(owner)
        raise Killed(owner)

    def as_left(self) -> None:
        """Keeps the files as a process leaves them that ends without a word."""
        content, wal = self.content()
        if self.cut_to is not None:
            wal, self.cut_to = wal[: self.cut_to], None
        self._left = content, wal

    def content(self) -> tuple[bytes, bytes]:
        """A backup of the files as they are."""
        wal = self.wal.read_bytes() if self.wal.exists() else b""
        return (self.file.read_bytes() if self.file.exists() else b"", wal)

    def wal_bytes(self) -> int:
        """How long the write-ahead log is; -1 where there is none."""
        try:
            return os.stat(self._wal).st_size  # noqa: PTH116 - at every commit: a path object takes as long as the commit
        except FileNotFoundError:
            return -1

    def power_cut(self) -> None:
        """Of what was written and never synced, no more than a torn part is there."""
        size = max(0, self.wal_bytes())
        if size > self.synced:
            self.cut_to = self._chance.randint(self.synced, size - 1)

    def torn(self, before: bytes, after: bytes) -> bytes:
        """A file of which only a part of what is new got to the disk; a new file is there as a whole, or not at all."""
        if len(before) != len(after):
            return before or after
        changed = [at for at in range(len(after)) if before[at] != after[at]]
        if not changed:
            return after
        cut = changed[self._chance.randrange(len(changed))]
        return after[:cut] + before[cut:]

    def reap(self, owner: str) -> None:
        """Closes what the dead process had open, and puts the files back as it left them."""
        self.look_away()
        for connection in self.open.pop(owner, []):
            with suppress(sqlite3.Error):
                connection.close()
        if self._left is not None:
            content, wal = self._left
            self._left = None
            if not self.open:
                self.put(content, wal)

    def put(self, content: bytes, wal: bytes) -> None:
        """These bytes are the ledger now."""
        self.remove()
        self.file.write_bytes(content)
        if wal:
            self.wal.write_bytes(wal)
        self.synced = len(wal)

    def exchange(self, content: bytes, wal: bytes) -> None:
        """Another file has the ledger's name, while whoever had it open goes on with the one that had it before."""
        whole = self._whole(content, wal)
        self.remove()
        self.turn += 1
        self.file.write_bytes(whole)
        self.synced = 0

    def restore(self, content: bytes, wal: bytes) -> None:
        """An older copy is written over the ledger, by SQLite's own means, while its worker has it open."""
        with TemporaryDirectory() as folder:
            older = Path(folder) / "older.db"
            older.write_bytes(self._whole(content, wal))
            source, target = sqlite3.connect(older), sqlite3.connect(self.file)
            try:
                source.backup(target)
            finally:
                source.close()
                target.close()
        self.commits += 1
        self.synced = max(0, self.wal_bytes())

    def _whole(self, content: bytes, wal: bytes) -> bytes:
        """One file in the place of two."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / "whole.db"
            file.write_bytes(content)
            if wal:
                file.with_name("whole.db-wal").write_bytes(wal)
            connection = sqlite3.connect(file)
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                connection.close()
            return file.read_bytes()

    def remove(self) -> None:
        """The ledger's file is gone, with what SQLite keeps beside it."""
        self.look_away()
        for end in ("", "-wal", "-shm"):
            self.file.with_name(f"worker.db{end}").unlink(missing_ok=True)

    def look_away(self) -> None:
        """Those around the worker have the file open no longer: it is about to be another one."""
        if self._outside is not None:
            self._outside.close()
            self._outside = None
            self._open = (-1, [])

    def _asked(self, question: str) -> list[tuple[Any, ...]]:
        """What any reader of the file is told. Opening it again for each question would take longer than the answer."""
        if self._outside is None:
            named = f"file:{self.file}?mode=rw"  # whoever looks makes no file
            self._outside = sqlite3.connect(named, uri=True, factory=Dropped)
        try:
            return self._outside.execute(question).fetchall()
        except sqlite3.DatabaseError:
            self.look_away()
            raise

    def rows(self) -> list[dict[str, Any]]:
        """The action log as any reader of the file sees it, oldest first."""
        if not self.file.exists():
            return []
        try:
            names = [str(column[1]) for column in self._asked("PRAGMA table_info(action_log)") if column[1] != "id"]
            columns = ", ".join(f'"{name}"' for name in names)
            asked = f"SELECT {columns} FROM action_log ORDER BY seq"  # noqa: S608 - the table's own columns
            return [dict(zip(names, row, strict=True)) for row in self._asked(asked)]
        except sqlite3.DatabaseError:
            return []

    def writes(self) -> list[tuple[int, str, int]]:
        """Number, state and attempt of every write, as the table has them."""
        if not self.file.exists():
            return []
        found = self._asked("SELECT id, state, attempt FROM writes ORDER BY id")
        return [(int(number), str(state), int(attempt)) for number, state, attempt in found]

    def open_writes(self) -> list[tuple[str, str]]:
        """Event and state of every write that is not final, nor held by what is in ``lasting``, for as long as that
        lasts; one that nobody has where the file cannot be read."""
        if self._open[0] != self.commits:
            try:
                self._open = (
                    self.commits,
                    [(str(event), str(state)) for event, state in self._asked(_open(self.lasting))],
                )
            except sqlite3.DatabaseError:
                return [("", "unreadable")]
        return self._open[1]

    def marked_to(self, _owner: str, _partner: str) -> int:
        """How far the mark beside the ledger has got; -1 where there is none."""
        mark = marks.read_mark(LedgerPlace(file=self.file))
        return -1 if mark is None else mark.seq

    def last_sending(self) -> int:
        """The number of the newest committed ``sending``, as another process would read it now."""
        return int(self._asked("SELECT coalesce(max(seq), 0) FROM action_log WHERE kind = 'sending'")[0][0])


@lru_cache(maxsize=5)
def _open(lasting: tuple[str, ...]) -> str:
    """The question for the writes that are not final, nor held by what lasts."""
    held, final = (", ".join(f"'{one}'" for one in those) for those in (lasting, FINAL))
    return (  # words of ours
        f"SELECT event, state FROM writes AS one WHERE state NOT IN ({final}) "  # noqa: S608
        f"AND NOT (state = 'planned' AND coalesce(held_by, '') IN ({held})) "
        f"AND NOT (state = 'planned' AND held_by = 'sequence' AND EXISTS (SELECT 1 FROM writes AS other WHERE "
        f"other.event = one.event AND other.rule = one.rule AND other.episode = one.episode "
        f"AND other.state = 'planned' AND other.held_by IN ({held})))"
    )


class Dropped(sqlite3.Connection):
    """One that is let go as a killed process lets it go: the system closes it. Python 3.13 warns of any other."""

    def __del__(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # it was never opened
            self.close()


class SimConnection(Dropped):
    """A connection whose commits can fail."""

    disk: Disk
    owner = ""
    turn = 0
    writes = False
    safe = False

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == "BEGIN IMMEDIATE":
            self.begins()
        elif statement == "BEGIN" and self.disk.harm("look", self.owner) is not None:
            raise failing(sqlite3.SQLITE_IOERR, "disk I/O error")
        return super().execute(statement, *values)

    def begins(self) -> None:
        """BEGIN IMMEDIATE: here another process may be in the way, or the disk is full."""
        self.writes = True
        if self.disk.held and self.owner:
            raise failing(sqlite3.SQLITE_BUSY, "database is locked")
        harm = self.disk.harm("begin", self.owner)
        if harm is None:
            return
        if harm.does == "busy":
            raise failing(sqlite3.SQLITE_BUSY, "database is locked")
        if harm.does == "io":
            raise failing(sqlite3.SQLITE_IOERR, "disk I/O error")
        if harm.does == "kill":
            self.disk.die(self.owner)

    def commit(self) -> None:
        if not self.in_transaction or not self.writes:
            super().commit()
            return
        self.writes = False
        if self.disk.full and self.owner:
            raise failing(sqlite3.SQLITE_FULL, "database or disk is full")
        harm = self.disk.harm("commit", self.owner)
        does = "" if harm is None else harm.does
        if does == "full":
            raise failing(sqlite3.SQLITE_FULL, "database or disk is full")
        if does == "sync_lost":
            raise failing(sqlite3.SQLITE_IOERR, "disk I/O error")
        if does == "kill_before":
            self.disk.die(self.owner)
        before = max(0, self.disk.wal_bytes()) if does == "torn" else 0
        super().commit()
        self.disk.commits += 1
        self._synced()
        if does != "torn":  # of a torn one nothing is there afterwards
            self._stamp()
        if does == "sync_fails":
            raise failing(sqlite3.SQLITE_IOERR, "disk I/O error")
        if does == "torn":
            size = max(0, self.disk.wal_bytes())
            self.disk.cut_to = before + (size - before) * 2 // 3
        if does in ("kill_after", "torn"):
            self.disk.die(self.owner)

    def _stamp(self) -> None:
        """Notes when the records up to the newest were committed, by the simulation's own clock; of a file that is the
        ledger no more nobody asks."""
        if self.turn != self.disk.turn:
            return
        seq = self.execute("SELECT coalesce(max(seq), 0) FROM action_log").fetchone()[0]
        stamps = self.disk.stamps
        if not stamps or stamps[-1][0] != seq:
            stamps.append((int(seq), self.disk.moment()))

    def _synced(self) -> None:
        """Notes how much of the write-ahead log would survive a power cut."""
        if not self.safe:
            self.safe = self.execute("PRAGMA synchronous").fetchone()[0] >= FULL
        size = self.disk.wal_bytes()
        if self.safe and size >= 0:
            self.disk.synced = size


def failing(code: int, text: str) -> sqlite3.OperationalError:
    """SQLite's own error."""
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


@contextmanager
def mounted(disk: Disk) -> Iterator[None]:
    """While the block lasts, the ledger's code finds its files on this disk."""
    real_mark = marks.write_mark

    def connector(place: LedgerPlace, query: str) -> Callable[[], sqlite3.Connection]:
        def connect() -> sqlite3.Connection:
            made = sqlite3.connect(
                f"{place.file.as_uri()}?{query}",
                uri=True,
                timeout=0.0,  # nobody lets go while one thread waits
                isolation_level=None,
                check_same_thread=False,
                factory=SimConnection,
            )
            made.disk, made.owner, made.turn = disk, OWNER.get(), disk.turn
            if made.owner:
                disk.open.setdefault(made.owner, []).append(made)
            return made

        return connect

    def write_mark(place: LedgerPlace, mark: Mark, *, anew: bool = False) -> None:
        owner = OWNER.get()
        harm = disk.harm("mark", owner)
        if harm is not None and harm.does == "full":
            raise LedgerUnwritable(f"the ledger's mark {place.mark.name} cannot be written: no space left", hint="")
        if harm is not None and harm.does == "kill_before":
            disk.die(owner)
        before = place.mark.read_bytes() if place.mark.exists() else b""
        real_mark(place, mark, anew=anew)
        if harm is not None and harm.does == "torn" and not anew:  # a file that is renamed is whole
            place.mark.write_bytes(disk.torn(before, place.mark.read_bytes()))
        if harm is not None and harm.does in ("kill_after", "torn"):
            disk.die(owner)

    with (
        patch.object(database, "_opener", connector),
        patch.object(database, "TRY_MS", 0),
        patch.object(database, "TRIES", 1),
        patch.object(database, "engine_of", shared_engine),
        patch.object(sql, "write_mark", write_mark),
        patch.object(sql, "migrate", tables_of_a_new_one),
    ):
        yield


@lru_cache(maxsize=1)
def _dialect_of() -> Engine:
    """One engine that every simulated one shares its dialect and its compiled statements with."""
    engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(":memory:", isolation_level=None))
    engine.connect().close()
    return engine


def shared_engine(connect: Callable[[], Any]) -> Engine:
    """An engine as the ledger makes it; compiling its statements anew for every world would take longer than most."""
    first = _dialect_of()
    engine = Engine(NullPool(connect), first.dialect, first.url)
    engine._compiled_cache = first._compiled_cache
    return engine


def tables_of_a_new_one(connection: Connection) -> None:
    """What the migrations make in an empty file, without running them: that takes longer than most worlds."""
    for statement in blank_tables():
        connection.exec_driver_sql(statement)
    connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{REVISION}')")  # noqa: S608 - a word of ours


@lru_cache(maxsize=1)
def blank_tables() -> tuple[str, ...]:
    """How the tables and indexes of a new ledger are made."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "worker.db"
        file.write_bytes(blank()["worker.db"])
        connection = sqlite3.connect(file)
        try:
            found = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
            return tuple(str(statement) for (statement,) in found)
        finally:
            connection.close()


@lru_cache(maxsize=1)
def anothers() -> bytes:
    """The ledger of another machine."""
    return _new_one()["worker.db"]


@lru_cache(maxsize=1)
def blank() -> Mapping[str, bytes]:
    """The files of a new ledger; making its tables anew for every world would take longer than most worlds."""
    return _new_one()


def _new_one() -> Mapping[str, bytes]:
    with TemporaryDirectory() as folder:
        SqlLedger.open(f"sqlite:///{folder}/worker.db", clock_now=lambda: EPOCH).close()
        return {file.name: file.read_bytes() for file in sorted(Path(folder).iterdir())}
