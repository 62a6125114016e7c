"""A ledger is made, opened or refused; what was restored, lost, newer or not ours is never sent from."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.ledger.examples import NOW, after, fired, memory, open_ledger, place_in, planned, sent
from worker.ledger.database import make_durable
from worker.ledger.mark import SLOT_BYTES, Mark, read_mark, write_mark
from worker.ledger.migrations import require_current
from worker.ledger.places import place_of
from worker.ledger.reading import LedgerReader, open_reading
from worker.ledger.tables import REVISION
from worker.model.commits import Commit
from worker.model.errors import LedgerUnwritable, NotSafe, UsageError


def openings(folder: Path) -> list[Callable[[], LedgerReader]]:
    """Both ways in."""
    return [lambda: open_ledger(folder), lambda: open_reading(f"sqlite:///{folder}/worker.db")]


def copy(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes())


def test_the_first_opening_makes_ledger_and_mark(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        assert ledger.last_seq() == 0

    mark = read_mark(place_in(tmp_path))
    assert mark is not None
    assert (mark.seq, len(mark.ledger_id)) == (0, 32)
    open_ledger(tmp_path).close()


def test_two_ledgers_never_share_an_id(tmp_path: Path) -> None:
    ids = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        open_ledger(tmp_path / name).close()
        mark = read_mark(place_in(tmp_path / name))
        assert mark is not None
        ids.add(mark.ledger_id)
    assert len(ids) == 2


def test_the_file_is_durable_by_its_own_word(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger, ledger._store.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.exec_driver_sql("PRAGMA synchronous").fetchone() == (2,)


def test_a_place_that_cannot_hold_a_wal_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(":memory:")

    with pytest.raises(NotSafe, match="journal memory"):
        make_durable(connection, place_in(tmp_path))
    connection.close()


def test_a_newer_ledger_is_refused_by_name_and_left_alone(tmp_path: Path) -> None:
    open_ledger(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "worker.db")
    with connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()

    for opening in openings(tmp_path):
        with pytest.raises(NotSafe) as caught:
            opening()
        assert "9999" in str(caught.value)
        assert REVISION in str(caught.value)
        assert caught.value.exit_code == 3
        assert caught.value.hint


def test_an_older_ledger_waits_for_an_upgrade_after_a_backup(tmp_path: Path) -> None:
    place = place_of(f"sqlite:///{tmp_path}/worker.db")
    with pytest.raises(NotSafe, match=r"revision 0001.*needs 0002") as caught:
        require_current("0001", "the ledger", known=("0001", "0002"), place=place)

    assert "ledger backup" in caught.value.hint
    assert "ledger upgrade" in caught.value.hint


def test_somebody_elses_database_is_refused_and_not_touched(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "worker.db")
    connection.execute("CREATE TABLE photos (id INTEGER)")
    connection.close()
    before = (tmp_path / "worker.db").read_bytes()

    with pytest.raises(NotSafe, match="no ledger of campaign-worker"):
        open_ledger(tmp_path)

    assert (tmp_path / "worker.db").read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "worker.db").write_text("partners: discover\n" * 100)

    for opening in openings(tmp_path):
        with pytest.raises(NotSafe, match="not a ledger"):
            opening()

    assert (tmp_path / "worker.db").read_text() == "partners: discover\n" * 100


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnwritable) as caught:
        open_ledger(tmp_path / "nowhere")

    assert "nowhere" in str(caught.value)
    assert "folder exists" in caught.value.hint


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://db/worker", "another database"),
        ("sqlite://", "in memory: nothing survives"),
        ("sqlite:///:memory:", "in memory by another name"),
        ("sqlite:///worker.db?mode=ro", "options would bypass what is set and read back"),
        ("worker.db", "no URL"),
    ],
)
def test_only_a_sqlite_file_can_be_a_ledger(url: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        place_of(url)

    assert caught.value.exit_code == 2, reason
    assert "sqlite:///worker.db" in caught.value.hint


def test_postgresql_is_said_to_be_unsupported_by_name() -> None:
    with pytest.raises(UsageError, match="postgresql is not supported"):
        place_of("postgresql+psycopg://user:secret@db/worker")


def test_no_message_repeats_a_password(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        place_of("postgresql://user:secret@db/worker")

    assert "secret" not in str(caught.value) + caught.value.hint


def test_a_first_start_cut_short_before_its_mark_is_still_a_first_start(tmp_path: Path) -> None:
    open_ledger(tmp_path).close()
    place_in(tmp_path).mark.unlink()

    open_ledger(tmp_path).close()

    assert read_mark(place_in(tmp_path)) is not None


def test_a_first_start_cut_short_before_its_tables_is_still_a_first_start(tmp_path: Path) -> None:
    (tmp_path / "worker.db").touch()

    with open_ledger(tmp_path) as ledger:
        planned(ledger)


def _no_mark(folder: Path) -> None:
    place_in(folder).mark.unlink()


def _no_ledger(folder: Path) -> None:
    (folder / "worker.db").unlink()


def _emptied(folder: Path) -> None:
    (folder / "worker.db").write_bytes(b"")


def _restored(folder: Path) -> None:
    copy(folder / "backup.db", folder / "worker.db")


def _from_another(folder: Path) -> None:
    write_mark(place_in(folder), Mark(ledger_id="another", seq=0, hash="0" * 64))


def _torn(folder: Path) -> None:
    place_in(folder).mark.write_text('{"ledger": ')


def _newest_mark_spoilt(folder: Path) -> None:
    place = place_in(folder)
    body = bytearray(place.mark.read_bytes())
    newest = body.index(b'"seq": 2') // SLOT_BYTES
    body[newest * SLOT_BYTES + 60] ^= 1
    place.mark.write_bytes(body)


def _restored_with_its_newest_mark_spoilt(folder: Path) -> None:
    _newest_mark_spoilt(folder)
    _restored(folder)


def _restored_with_its_mark_cut(folder: Path) -> None:
    place = place_in(folder)
    place.mark.write_bytes(place.mark.read_bytes()[:SLOT_BYTES])
    _restored(folder)


def _other_history(folder: Path) -> None:
    mark = read_mark(place_in(folder))
    assert mark is not None
    write_mark(place_in(folder), Mark(ledger_id=mark.ledger_id, seq=1, hash="f" * 64))


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (_no_mark, "the mark is gone: was this file put here?"),
        (_no_ledger, "the ledger is gone, and with it every send"),
        (_emptied, "the same, by truncation"),
        (_restored, "a backup older than the last send"),
        (_from_another, "another ledger's mark"),
        (_torn, "a mark that cannot be read shows nothing"),
        (_restored_with_its_newest_mark_spoilt, "what is left of the mark is older than the send"),
        (_restored_with_its_mark_cut, "the same, where the end of the mark is gone"),
        (_other_history, "as long, but not the same"),
    ],
)
def test_what_was_restored_or_lost_is_not_sent_from(tmp_path: Path, harm: Callable[[Path], None], reason: str) -> None:
    with open_ledger(tmp_path) as ledger:
        (write,) = planned(ledger)
        ledger.backup(tmp_path / "backup.db")
        sent(ledger, write, after(1))
    harm(tmp_path)

    with pytest.raises(NotSafe) as caught:
        open_ledger(tmp_path)

    assert not isinstance(caught.value, LedgerUnwritable), reason
    assert caught.value.exit_code == 3, reason
    assert "accept-restore" in caught.value.hint, reason


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
    _newest_mark_spoilt(tmp_path)

    with open_ledger(tmp_path) as again:
        assert again.state_counts() == {"sending": 1}, "its sending came first: recovery takes it for unknown"


def test_memory_without_records_is_not_taken_for_a_first_start(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.apply(Commit(at=NOW, memory=(memory(0),)))
    place_in(tmp_path).mark.unlink()

    with pytest.raises(NotSafe, match="mark"):
        open_ledger(tmp_path)


def test_a_ledger_ahead_of_its_mark_is_fine(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        (write,) = planned(ledger)
        before_sending = read_mark(place_in(tmp_path))
        sent(ledger, write, after(1))
        ledger.apply(Commit(at=NOW, records=(fired(),)))
    assert before_sending is not None
    write_mark(place_in(tmp_path), before_sending)

    with open_ledger(tmp_path) as again:
        stored = again.write(write.id)

    assert stored is not None
    assert stored.state == "sending", "a crash between commit and mark: recovery takes it for unknown"
