"""A ledger that can be read and that `run` would refuse: nobody who looks at it is told that all is well."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import cases
from tests.calling import call, settle_in
from tests.unit.ledger.examples import NOW, after, key, older_mark, open_ledger, place_in, plan, planned, run_sql, sent
from worker.ledger.lock import SenderLock
from worker.ledger.mark import SLOT_BYTES


def without_mark(folder: Path) -> None:
    place_in(folder).mark.unlink()


def with_an_empty_mark(folder: Path) -> None:
    place_in(folder).mark.write_bytes(b"")


def with_half_a_mark(folder: Path) -> None:
    """The newer half is spoilt where the ledger shows no sending after the older one: one may be lost."""
    body = bytearray(place_in(folder).mark.read_bytes())
    older = 1 - body.index(b'"seq": 2') // SLOT_BYTES
    body[older * SLOT_BYTES] ^= 1
    place_in(folder).mark.write_bytes(body)


def another(folder: Path) -> Path:
    """A folder beside it with a ledger of its own, which has sent as much."""
    other = folder / "other"
    other.mkdir()
    with open_ledger(other) as ledger:
        sent(ledger, planned(ledger, plan(key(7, event="e7")))[0], NOW)
    return other


def with_the_mark_of_another(folder: Path) -> None:
    shutil.copy(place_in(another(folder)).mark, place_in(folder).mark)


def with_the_file_of_another(folder: Path) -> None:
    shutil.copy(place_in(another(folder)).file, place_in(folder).file)


def put_back_and_gone_on_with(folder: Path) -> None:
    """A backup in the ledger's place, and as many records as were lost: the end is there, and is another."""
    place, mark = place_in(folder), place_in(folder).mark.read_bytes()
    backup = folder / "backup.db"
    assert call("ledger", "backup", str(backup), config=folder / "config.yaml").code == 0
    with open_ledger(folder) as ledger:
        sent(ledger, planned(ledger, plan(key(2, event="e2")))[0], after(1))
    newer = place.mark.read_bytes()
    backup.replace(place.file)
    place.mark.write_bytes(mark)
    with open_ledger(folder) as ledger:
        sent(ledger, planned(ledger, plan(key(3, event="e3")))[0], after(2))
    place.mark.write_bytes(newer)


@cases(
    "spoil, words",
    (without_mark, "worker.db.mark is missing"),
    (with_an_empty_mark, "worker.db.mark cannot be read"),
    (with_half_a_mark, "shows no sending after that, so one may be lost"),
    (with_the_mark_of_another, "worker.db.mark belongs to another ledger"),
    (with_the_file_of_another, "worker.db.mark belongs to another ledger"),
    (put_back_and_gone_on_with, "it is not what had reached seq 4"),
)
def test_what_run_would_say_is_said_by_all_who_look(config: Path, spoil: Callable[[Path], None], words: str) -> None:
    spoil(config.parent)

    verified = call("log", "--verify", config=config)
    shown, found = call("status", config=config), call("status", "--format", "json", config=config).json
    healthy, listed = call("status", "--healthy", config=config), call("writes", "--format", "json", config=config)
    ran = call("run", "--for", "1s", config=config)

    ran.fails(3, words, "accept-restore")
    verified.says(1, words)
    verified.tells(1, "accept-restore")
    assert verified.out.startswith("the chain holds, but its end cannot be checked: ")
    assert words in found["ledger_refused"]
    assert "`campaign-worker run` will refuse it" in found["ledger_refused"]
    assert (shown.code, "will refuse it" in " ".join(shown.out.split())) == (0, True)
    healthy.fails(1, words)
    assert (listed.code, len(listed.json)) == (0, len(found["writes"]) and sum(found["writes"].values()))
    assert words in listed.err


def test_a_running_daemon_whose_ledger_it_could_not_be_started_on_again_is_not_healthy(config: Path) -> None:
    without_mark(config.parent)

    with SenderLock.acquire(place_in(config.parent), now=NOW):
        call("status", "--healthy", config=config).fails(1, "worker.db.mark is missing", "will refuse it")


def test_a_log_that_was_cut_off_with_its_mark_taken_away_is_not_said_to_hold(config: Path) -> None:
    with open_ledger(config.parent) as ledger:
        sent(ledger, planned(ledger, plan(key(2, event="e2")))[0], after(1))
    run_sql(config.parent, "DELETE FROM action_log WHERE seq > 2")
    assert "it ends at record 2 and has no record 4" in call("log", "--verify", config=config).out
    without_mark(config.parent)

    done = call("log", "--verify", config=config)

    assert (done.code, "the chain holds: " in done.out) == (1, False)
    assert "its end was cut off" in done.out, "the ledger itself says where its chain ends"


def test_a_backup_in_the_place_of_the_ledger_is_said_by_status_to_be_one(config: Path) -> None:
    assert call("ledger", "backup", str(config.parent / "backup.db"), config=config).code == 0
    with open_ledger(config.parent) as ledger:
        sent(ledger, planned(ledger, plan(key(2, event="e2")))[0], after(1))
    (config.parent / "backup.db").replace(place_in(config.parent).file)

    assert "was restored or lost records" in call("status", "--format", "json", config=config).json["ledger_refused"]
    assert call("status", "--healthy", config=config).code == 1
    assert "its end was cut off" in call("log", "--verify", config=config).out


def test_a_broken_chain_is_said_to_be_broken_whatever_its_mark_says(config: Path) -> None:
    without_mark(config.parent)
    run_sql(config.parent, "UPDATE action_log SET why = 'nothing' WHERE seq = 1")

    done = call("log", "--verify", config=config)

    assert (done.code, "the chain is broken at seq 1" in done.out) == (1, True)


def test_of_a_ledger_that_run_would_take_nothing_more_is_said(config: Path) -> None:
    found = call("status", "--format", "json", config=config)

    assert (found.json["ledger_refused"], found.err) == (None, "")
    assert "refuse" not in call("status", config=config).both
    assert call("writes", config=config).err == ""
    assert call("log", "--verify", config=config).code == 0
    older_mark(config.parent)
    assert call("log", "--verify", config=config).code == 0


def test_a_ledger_put_back_to_before_a_halt_that_was_said_while_no_daemon_ran_is_refused(config: Path) -> None:
    backup = config.parent / "backup.db"
    assert call("ledger", "backup", str(backup), config=config).code == 0
    assert call("halt", "--because", "prices are wrong", config=config).code == 0
    assert call("status", "--format", "json", config=config).json["ledger_refused"] is None
    backup.replace(place_in(config.parent).file)

    call("run", "--for", "1s", config=config).fails(3, "was restored or lost records")


def test_a_new_ledger_whose_first_start_was_cut_short_is_new_and_not_lost(tmp_path: Path) -> None:
    config = settle_in(tmp_path)
    open_ledger(tmp_path).close()
    without_mark(tmp_path)

    done = call("log", "--verify", config=config)

    assert (done.code, done.out) == (0, "the chain holds: 0 records\n")
    assert call("status", "--format", "json", config=config).json["ledger_refused"] is None


@pytest.mark.parametrize("more", [(), ("--against", f"0:{'0' * 64}")])
def test_where_there_is_no_ledger_nothing_holds(tmp_path: Path, more: tuple[str, ...]) -> None:
    done = call("log", "--verify", *more, config=settle_in(tmp_path))
    done.fails(1, f"there is no ledger {tmp_path / 'worker.db'}", "--config names another config")
