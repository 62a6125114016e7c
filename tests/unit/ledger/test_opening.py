"""A ledger is made, opened or refused; what was restored, lost, newer or not ours is never sent from."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection

from tests.builders import cases
from tests.unit.ledger.examples import NOW, after, mark_in, memory, open_ledger, place_in, planned, run_sql, sent
from worker.ledger import reading, sql
from worker.ledger.database import create_file, make_durable
from worker.ledger.mark import SLOT_BYTES
from worker.ledger.migrations import revision_of
from worker.ledger.places import place_of
from worker.ledger.reading import LedgerReader, open_reading
from worker.ledger.tables import REVISION
from worker.model.commits import Commit
from worker.model.errors import LedgerUnwritable, NotSafe, UsageError


def openings(folder: Path) -> list[Callable[[], LedgerReader]]:
    """Both ways in."""
    return [lambda: open_ledger(folder), lambda: open_reading(f"sqlite:///{folder}/worker.db")]


def test_the_first_opening_makes_a_ledger_that_is_durable_by_its_own_word_and_its_mark(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger, ledger._store.reading() as connection:
        assert ledger.last_seq() == 0
        assert connection.exec_driver_sql("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.exec_driver_sql("PRAGMA synchronous").fetchone() == (2,)

    mark = mark_in(tmp_path)
    assert (mark.seq, len(mark.ledger_id)) == (0, 32)
    open_ledger(tmp_path).close()


def test_a_place_that_cannot_hold_a_wal_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(NotSafe, match="journal memory"):
        make_durable(connection, place_in(tmp_path))


def test_a_newer_ledger_is_refused_by_name_and_left_alone(tmp_path: Path) -> None:
    open_ledger(tmp_path).close()
    run_sql(tmp_path, "UPDATE alembic_version SET version_num = '9999'")

    for opening in openings(tmp_path):
        with pytest.raises(NotSafe) as caught:
            opening()
        assert "9999" in str(caught.value)
        assert REVISION in str(caught.value)
        assert caught.value.exit_code == 3
        assert caught.value.hint


def test_somebody_elses_database_is_refused_and_not_touched(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "worker.db")) as connection:
        connection.execute("CREATE TABLE photos (id INTEGER)")
    before = (tmp_path / "worker.db").read_bytes()

    with pytest.raises(NotSafe, match="no ledger of campaign-worker"):
        open_ledger(tmp_path)

    assert (tmp_path / "worker.db").read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "worker.db").write_text("partners: discover\n" * 100)

    for opening in openings(tmp_path):
        with pytest.raises(NotSafe, match="is not a ledger") as caught:
            opening()
        assert "check the path" in caught.value.hint

    assert (tmp_path / "worker.db").read_text() == "partners: discover\n" * 100


@cases(
    "url",
    ("postgresql+psycopg://user:secret@db/worker", "another database, which is named without its password"),
    ("sqlite://", "in memory: nothing survives"),
    ("sqlite:///:memory:", "in memory by another name"),
    ("sqlite:///worker.db?mode=ro", "options would bypass what is set and read back"),
    ("worker.db", "no URL"),
)
def test_only_a_sqlite_file_has_a_place(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        place_of(url)

    assert caught.value.exit_code == 2
    assert "sqlite:///worker.db" in caught.value.hint
    assert "secret" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize("lacking", ["its mark", "its tables"])
def test_a_first_start_that_was_cut_short_is_still_a_first_start(tmp_path: Path, lacking: str) -> None:
    if lacking == "its mark":
        open_ledger(tmp_path).close()
        place_in(tmp_path).mark.unlink()
    else:
        (tmp_path / "worker.db").touch()

    with open_ledger(tmp_path) as ledger:
        planned(ledger)
    mark_in(tmp_path)


def test_a_ledger_that_another_process_makes_meanwhile_is_not_taken_for_a_lost_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked(connection: Connection, name: str) -> str:
        """It was empty still, and is made, with its mark, before anything comes of that."""
        revision = revision_of(connection, name)
        monkeypatch.undo()
        open_ledger(tmp_path).close()
        return revision

    for module, opening in zip((sql, reading), openings(tmp_path), strict=True):
        for file in tmp_path.iterdir():
            file.unlink()
        create_file(place_in(tmp_path))
        monkeypatch.setattr(module, "revision_of", looked)
        opening().close()


def restored(folder: Path) -> None:
    shutil.copyfile(folder / "backup.db", folder / "worker.db")


def restored_with_its_mark_cut(folder: Path) -> None:
    place = place_in(folder)
    place.mark.write_bytes(place.mark.read_bytes()[:SLOT_BYTES])
    restored(folder)


@cases(
    "harm",
    (lambda folder: (folder / "worker.db").unlink(), "the ledger is gone, and with it every send"),
    (lambda folder: (folder / "worker.db").write_bytes(b""), "the same, by truncation"),
    (restored, "a backup older than the last send"),
    (restored_with_its_mark_cut, "what is left of the mark is older than the send"),
)
def test_what_was_restored_or_lost_is_not_sent_from(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    with open_ledger(tmp_path) as ledger:
        (write,) = planned(ledger)
        ledger.backup(tmp_path / "backup.db")
        sent(ledger, write, after(1))
    harm(tmp_path)

    with pytest.raises(NotSafe) as caught:
        open_ledger(tmp_path)

    assert not isinstance(caught.value, LedgerUnwritable)
    assert caught.value.exit_code == 3
    assert "accept-restore" in caught.value.hint


def test_a_refused_ledger_is_left_as_it_is_with_what_its_write_ahead_log_still_holds(tmp_path: Path) -> None:
    names = ("worker.db", "worker.db-wal", "worker.db.mark")
    with open_ledger(tmp_path) as ledger:
        (write,) = planned(ledger)
        sent(ledger, write, after(1))
        killed = {name: (tmp_path / name).read_bytes() for name in names}
    spoilt = bytearray(killed["worker.db-wal"])
    spoilt[100] ^= 1
    killed["worker.db-wal"] = bytes(spoilt)
    for name, content in killed.items():
        (tmp_path / name).write_bytes(content)

    with pytest.raises(NotSafe, match="lost records"):
        open_ledger(tmp_path)

    assert {name: (tmp_path / name).read_bytes() for name in names} == killed


def test_a_mark_that_was_just_being_written_needs_nobody(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        (write,) = planned(ledger)
        sent(ledger, write, after(1))
    mark = place_in(tmp_path).mark
    body = bytearray(mark.read_bytes())
    newest = body.index(b'"seq": 2') // SLOT_BYTES
    body[newest * SLOT_BYTES + 60] ^= 1
    mark.write_bytes(body)

    with open_ledger(tmp_path) as again:
        assert again.state_counts() == {"sending": 1}, "its sending came first: recovery takes it for unknown"


def test_memory_without_records_is_not_taken_for_a_first_start(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.apply(Commit(at=NOW, memory=(memory(0),)))
    place_in(tmp_path).mark.unlink()

    with pytest.raises(NotSafe, match="mark"):
        open_ledger(tmp_path)
