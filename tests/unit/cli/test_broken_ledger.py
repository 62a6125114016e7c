"""A ledger that is damaged, a folder, or nowhere: what is wrong is said, and what to do, and never to begin anew."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.builders import cases
from tests.calling import call, settle_in
from tests.unit.ledger.examples import NOW, key, open_ledger, place_in, plan, planned, sent

EVERY_KIND = (
    ("status",),
    ("log",),
    ("writes",),
    ("run", "--for", "1s"),
    ("approve", "1"),
    ("ledger", "accept-restore"),
)
"""Those that read, those that send, and those that store a word of an operator's."""
SEEN = ("is damaged: ", "nothing is sent", "newest backup", "ledger accept-restore", "never with an empty ledger")


@pytest.mark.parametrize("kept", [20_000, 600, 40])
@pytest.mark.parametrize("arguments", EVERY_KIND, ids=" ".join)
def test_a_ledger_that_was_cut_off_is_damaged_and_nobody_is_told_to_check_the_path(
    config: Path, arguments: tuple[str, ...], kept: int
) -> None:
    file = place_in(config.parent).file
    cut = file.read_bytes()[:kept]
    file.write_bytes(cut)

    done = call(*arguments, config=config)

    done.fails(3, *SEEN)
    assert "check the path" not in done.err
    assert file.read_bytes() == cut, "it is kept as it is"


def test_a_damaged_page_is_said_where_it_is_met(config: Path) -> None:
    file = place_in(config.parent).file
    whole = file.read_bytes()
    file.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))

    call("log", config=config).fails(3, *SEEN)


def test_after_the_backup_is_put_back_accept_restore_goes_on(config: Path) -> None:
    place = place_in(config.parent)
    assert call("ledger", "backup", str(config.parent / "backup.db"), config=config).code == 0
    with open_ledger(config.parent) as ledger:
        sent(ledger, planned(ledger, plan(key(2, event="e2")))[0], NOW)
    place.file.write_bytes(place.file.read_bytes()[:600])
    assert call("status", config=config).code == 3

    (config.parent / "backup.db").replace(place.file)

    assert call("ledger", "accept-restore", config=config).code == 0
    assert call("status", config=config).code == 0


@pytest.mark.parametrize("arguments", EVERY_KIND, ids=" ".join)
def test_a_folder_in_place_of_the_ledger_is_said_to_be_one(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    config = settle_in(tmp_path)
    (tmp_path / "worker.db").mkdir()

    call(*arguments, config=config).fails(3, "worker.db is a folder; `ledger:` names a file")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("run", "--for", "1s"), 3), (("status",), 0), (("writes",), 0), (("approve", "1"), 1), (("log", "--verify"), 1)],
)
def test_a_folder_that_there_is_not_is_named(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    config = settle_in(tmp_path, "ledger: sqlite:///var/ledger/worker.db\n")

    missing = f"there is no folder {tmp_path / 'var' / 'ledger'} for the ledger worker.db"
    call(*arguments, config=config).tells(code, missing, "create the folder, or correct `ledger:`")
    assert not (tmp_path / "var").exists()


UNMADE = ("the backup /nonexistent/x.db cannot be written: No such file or directory", "the ledger itself is as it was")


@cases(
    "place, words",
    *((folder, (f"{folder} is a folder", "name a file in it")) for folder in (".", "..", "/")),
    ("/nonexistent/x.db", UNMADE),
)
def test_a_backup_that_cannot_be_made_accuses_the_place_of_the_backup(
    config: Path, place: str, words: tuple[str, ...]
) -> None:
    call("ledger", "backup", place, config=config).fails(1, *words)


def test_a_ledger_that_was_put_back_with_its_mark_can_be_accepted_by_who_knows_it(config: Path) -> None:
    call("ledger", "accept-restore", config=config).fails(1, "add --in-step")
    assert call("writes", "--state", "sending", "--format", "json", config=config).out != "[]\n", "nothing was changed"
    done = call("ledger", "accept-restore", "--in-step", config=config)

    assert (done.code, "a halt that was set after this ledger was copied is not in it" in done.err) == (0, True)
    assert "put back together" in call("log", "--format", "jsonl", config=config).out


def test_a_number_that_only_the_index_tells_rightly_is_damage(config: Path) -> None:
    """SQLite walks a chain by the index and prints a record by its row: a bit of the row was told by nobody."""
    file = place_in(config.parent).file
    index = "name = 'ix_action_log_chain'"
    with closing(sqlite3.connect(file)) as raw:
        raw.execute("PRAGMA writable_schema = ON")
        kept = raw.execute(f"SELECT * FROM sqlite_master WHERE {index}").fetchone()  # noqa: S608
        raw.execute(f"DELETE FROM sqlite_master WHERE {index}")  # noqa: S608
        raw.commit()
    with closing(sqlite3.connect(file)) as raw:
        raw.execute("UPDATE action_log SET seq = seq + 64 WHERE seq = 1")
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", kept)
        raw.commit()

    call("log", "--verify", config=config).fails(3, *SEEN)
