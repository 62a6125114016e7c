"""A disk that says no stops sending, leaves nothing half done, and is forgiven when there is room again."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.ledger.examples import (
    NOW,
    after,
    fired,
    no_brake,
    place_in,
    plan,
    planned,
    raw_of,
    record,
    run_alone,
    sent,
    to_sending,
)
from worker.ledger import database as store
from worker.ledger.mark import read_mark
from worker.ledger.sql import SqlLedger
from worker.model.commits import Commit
from worker.model.errors import LedgerUnwritable

LONG = "x" * 200_000


def fill_disk(ledger: SqlLedger) -> None:
    """No page more than there is: the limit belongs to the connection, so it goes when the connection is discarded."""
    run_alone(ledger, "PRAGMA max_page_count=1")


def test_a_full_disk_undoes_the_commit_and_the_next_one_succeeds(ledger: SqlLedger, tmp_path: Path) -> None:
    fill_disk(ledger)

    with pytest.raises(LedgerUnwritable) as caught:
        ledger.apply(Commit(at=NOW, records=(fired(why=LONG),), plans=(plan(),)))

    assert caught.value.exit_code == 3
    assert "free some space" in caught.value.hint
    assert ledger.last_seq() == 0
    assert ledger.writes() == []
    planned(ledger)
    assert ledger.verify() is None


def test_on_a_full_disk_nothing_is_recorded_as_sending_and_the_mark_stays(ledger: SqlLedger, tmp_path: Path) -> None:
    (write,) = planned(ledger)
    before = read_mark(place_in(tmp_path))
    big = to_sending(write, after(1))
    fill_disk(ledger)

    with pytest.raises(LedgerUnwritable):
        record(ledger, type(big)(before=big.before, after=big.after, records=(fired(why=LONG),)), no_brake, amount=None)

    assert ledger.write(write.id) == write
    assert read_mark(place_in(tmp_path)) == before
    sent(ledger, write, after(2))


def tries_of(ledger: SqlLedger, at: int, then: Callable[[], object]) -> list[str]:
    """Each BEGIN IMMEDIATE of the ledger's from now on. Something happens at the one of that number."""
    tries: list[str] = []

    def traced(statement: str) -> None:
        if statement == "BEGIN IMMEDIATE":
            tries.append(statement)
            if len(tries) == at:
                then()

    with ledger._store.reading() as connection:
        raw_of(connection).set_trace_callback(traced)
    return tries


def test_a_ledger_that_somebody_holds_too_long_is_unwritable_and_then_works_again(
    ledger: SqlLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "TRIES", 20)
    other = sqlite3.connect(tmp_path / "worker.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    tries = tries_of(ledger, 0, lambda: None)

    with pytest.raises(LedgerUnwritable, match="locked") as caught:
        planned(ledger)

    assert len(tries) == 20
    assert "another process" in caught.value.hint
    other.execute("ROLLBACK")
    other.close()
    planned(ledger)


def test_a_ledger_that_somebody_lets_go_for_a_moment_only_is_written_to_in_that_moment(
    ledger: SqlLedger, tmp_path: Path
) -> None:
    """A process that writes without a pause has the ledger nearly all the time. SQLite's own wait asks sixty times in
    its five seconds, at moments that are mostly too late."""
    other = sqlite3.connect(tmp_path / "worker.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    tries = tries_of(ledger, 200, lambda: other.execute("ROLLBACK"))

    planned(ledger)
    other.close()

    assert len(tries) == 200
    assert store.TRIES >= 1000 * store.BUSY_TIMEOUT_S, "a moment is no longer than that"


def test_who_has_a_loop_to_keep_moving_waits_a_moment_and_after_that_in_vain_not_at_all(
    ledger: SqlLedger, tmp_path: Path
) -> None:
    """Many that ask one after the other, each for a moment, would be a long stand."""
    ledger.in_a_loop()
    other = sqlite3.connect(tmp_path / "worker.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    tries = tries_of(ledger, 0, lambda: None)

    for _ in range(30):
        with pytest.raises(LedgerUnwritable, match="locked"):
            planned(ledger)
    assert ledger.writes() == [], "what only reads is not kept waiting"

    assert len(tries) == store.TRIES_IN_A_LOOP + 29
    assert store.TRIES_IN_A_LOOP * store.TRY_MS <= 50
    other.execute("ROLLBACK")
    planned(ledger)
    other.execute("BEGIN EXCLUSIVE")
    tries.clear()
    with pytest.raises(LedgerUnwritable, match="locked"):
        planned(ledger)
    assert len(tries) == store.TRIES_IN_A_LOOP, "one that succeeded has its moment again"
    other.close()


def test_a_writer_that_asks_in_vain_for_long_waits_a_moment_now_and_then(ledger: SqlLedger, tmp_path: Path) -> None:
    """Else one that never pauses for longer than that would starve it."""
    ledger.in_a_loop()
    other = sqlite3.connect(tmp_path / "worker.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    tries = tries_of(ledger, 0, lambda: None)
    for _ in range(2 * store.IN_VAIN):
        with pytest.raises(LedgerUnwritable, match="locked"):
            planned(ledger)
    assert len(tries) == 2 * (store.TRIES_IN_A_LOOP + store.IN_VAIN - 1)
    other.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_ledger_taken_away_under_a_running_worker_is_written_to_no_more(
    ledger: SqlLedger, tmp_path: Path, replaced: bool
) -> None:
    (write,) = planned(ledger)
    ledger.backup(tmp_path / "backup.db")
    (tmp_path / "worker.db").unlink()
    if replaced:
        (tmp_path / "backup.db").rename(tmp_path / "worker.db")

    with pytest.raises(LedgerUnwritable, match="replaced or removed"):
        record(ledger, to_sending(write, after(1)), no_brake, amount=None)
