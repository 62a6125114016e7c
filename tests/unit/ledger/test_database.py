"""Who has which connection: never two threads one, never one that failed, and nothing half done stays."""

import gc
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, get_ident

import pytest
from sqlalchemy import Connection, func, select

from tests.builders import cases
from tests.unit.ledger.examples import open_ledger, place_in, planned, raw_of
from worker.ledger.database import SqliteStore, Store, engine_of, memory_store
from worker.ledger.tables import writes
from worker.model.errors import LedgerUnwritable

PLACE = place_in(Path("anywhere"))
COUNT = select(func.count()).select_from(writes)


def connecting(file: Path) -> tuple[Callable[[], sqlite3.Connection], list[sqlite3.Connection]]:
    made: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        made.append(sqlite3.connect(file, isolation_level=None, check_same_thread=False))
        return made[-1]

    return connect, made


def closed(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return True
    return False


def test_one_connection_serves_one_transaction_after_the_other(tmp_path: Path) -> None:
    connect, made = connecting(tmp_path / "any.db")
    store = SqliteStore(engine_of(connect), PLACE)
    for _ in range(3):
        with store.reading():
            pass
        store.run_alone("SELECT 1")
    assert len(made) == 1
    store.close()
    assert closed(made[0])
    with store.reading():
        pass
    assert len(made) == 2, "who comes after the end gets one all the same"
    store.close()


def test_threads_at_once_have_a_connection_each_and_one_of_those_is_kept(tmp_path: Path) -> None:
    connect, made = connecting(tmp_path / "any.db")
    store, all_in = SqliteStore(engine_of(connect), PLACE), Barrier(4)

    def read(_: int) -> sqlite3.Connection:
        with store.reading() as connection:
            all_in.wait(5)
            used: sqlite3.Connection = raw_of(connection)
            return used

    with ThreadPoolExecutor(4) as pool:
        used = list(pool.map(read, range(4)))
    assert len(set(map(id, used))) == len(made) == 4
    assert sorted(closed(one) for one in made) == [False, True, True, True]


def test_threads_take_turns_on_a_database_in_memory() -> None:
    store, inside, go_on = memory_store(), Event(), Event()
    order: list[int] = []

    def first() -> int:
        with store.reading():
            inside.set()
            assert go_on.wait(5)
            order.append(get_ident())
        return get_ident()

    def second() -> int:
        assert inside.wait(5)
        go_on.set()
        with store.reading():
            order.append(get_ident())
        return get_ident()

    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(work) for work in (first, second)]
    assert order == [one.result() for one in asked]


def test_a_database_in_memory_is_let_go_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    """`test` without any tests ended with a traceback of SQLAlchemy's on stderr."""
    raw = raw_of(memory_store().taken())
    gc.collect()
    assert (closed(raw), caplog.records) == (True, [])
    store = memory_store()
    store.give_back(store.taken())
    del store
    gc.collect()
    assert caplog.records == []


@cases(
    "statement, error, kept",
    ("SELECT * FROM no_table", LedgerUnwritable, False, "the database's own: its connection is not used again"),
    ("SELECT 1", ZeroDivisionError, True, "one of the program, which says nothing of the connection"),
)
def test_of_a_transaction_that_ends_in_an_error_nothing_stays(
    tmp_path: Path, statement: str, error: type[Exception], kept: bool
) -> None:
    used: list[sqlite3.Connection] = []

    def fail(store: Store) -> None:
        with store.writing() as connection:
            used.append(raw_of(connection))
            connection.exec_driver_sql("DELETE FROM writes")
            connection.exec_driver_sql(statement)
            raise ZeroDivisionError

    with open_ledger(tmp_path) as ledger:
        planned(ledger)
        with pytest.raises(error):
            fail(ledger._store)
        assert closed(used[0]) is not kept
        with ledger._store.reading() as connection:
            assert (raw_of(connection) is used[0]) is kept
            assert connection.execute(COUNT).scalar_one() == 1


def test_a_connection_of_a_ledger_that_is_another_is_closed(tmp_path: Path) -> None:
    def another(_: Connection) -> None:
        raise LedgerUnwritable("it is another ledger")

    connect, made = connecting(tmp_path / "any.db")
    store = SqliteStore(engine_of(connect), PLACE)
    store.meet = another
    with pytest.raises(LedgerUnwritable, match="another"), store.reading():
        pass
    assert [closed(one) for one in made] == [True], "one more a second would be all that a server lets in"


def test_a_statement_that_was_interrupted_leaves_the_next_transaction_one_that_answers(tmp_path: Path) -> None:
    class Interrupted(sqlite3.Cursor):
        def execute(self, *_: object) -> sqlite3.Cursor:  # type: ignore[override]
            raise KeyboardInterrupt

    class Interruptible(sqlite3.Connection):
        patient = True

        def cursor(self, *_: object) -> sqlite3.Cursor:  # type: ignore[override]
            return super().cursor() if self.patient else super().cursor(Interrupted)

    def stop(store: Store) -> None:
        with store.writing() as connection:
            assert connection.execute(select(1)).scalar_one() == 1
            assert isinstance(raw_of(connection), Interruptible)
            raw_of(connection).patient = False
            connection.execute(select(1))

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "any.db", isolation_level=None, factory=Interruptible)

    store = SqliteStore(engine_of(connect), PLACE)
    with pytest.raises(KeyboardInterrupt):
        stop(store)
    with store.reading() as connection:
        assert connection.execute(select(1)).scalar_one() == 1
    store.close()
