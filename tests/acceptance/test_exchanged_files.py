"""Files removed, linked, exchanged and put back beneath a running worker: it sends nothing more, and nobody else does.

Real processes on real files, as a deploy script, a backup tool or a slip of the hand would meet them.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.acceptance.processes import Home, Sandbox, Worker, home, sandbox, until, watched

pytestmark = pytest.mark.timeout(180)
TOLD_ITS_OWN = "ledger_unwritable"


def confirmed(where: Home, number: int) -> None:
    until(lambda: where.states == ["confirmed"] * number, f"{number} confirmed")


def looks_on(box: Sandbox) -> None:
    """The worker has looked twice more: whatever it wanted to do on what it saw first, it would have done."""
    for _ in range(3):
        box.await_look()


@contextmanager
def running(folder: Path) -> Iterator[tuple[Sandbox, Home, Worker]]:
    """A worker that has paused the first cancelled event."""
    with watched(folder) as (box, where, worker):
        box.cancel("e3")
        confirmed(where, 1)
        yield box, where, worker


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(("-wal", "-shm"), marks=pytest.mark.prove),
        ("-wal",),
        pytest.param(("-shm",), marks=pytest.mark.prove),
    ],
    ids=" and ".join,
)
def test_a_log_removed_beneath_the_worker_stops_all_sends_and_no_halt_says_that_it_worked(
    tmp_path: Path, gone: tuple[str, ...]
) -> None:
    with running(tmp_path) as (box, where, worker):
        for end in gone:
            (tmp_path / f"worker.db{end}").unlink()
        halt = where.call("halt", "--because", "prices are wrong", check=3)
        assert "halted:" not in halt.stderr
        assert f"kill {worker.process.pid}" in halt.stderr
        box.cancel("e5")
        until(lambda: "was replaced or removed" in worker.errors, "it says so itself")
        looks_on(box)
        assert f"beneath process {worker.process.pid}" in where.call("status", check=3).stderr
        assert where.call("status", "--healthy", check=1).stderr.startswith("not healthy")
        assert len(box.effects()) == 1, "nothing is sent"
        assert worker.stop() == 0
        with where.worker() as again:
            confirmed(where, 2)
            assert again.stop() == 0
        assert [one["target"] for one in box.effects()].count("e3") <= 1
        assert box.get("books")["repeated"] == 0
        assert "the chain holds" in where.call("log", "--verify").stdout


def by_a_link_to_the_file(folder: Path) -> str:
    (folder / "other").mkdir()
    (folder / "other" / "linked.db").symlink_to(folder / "worker.db")
    return f"{folder}/other/linked.db"


def by_a_link_to_the_folder(folder: Path) -> str:
    (folder / "elsewhere").symlink_to(folder)
    return f"{folder}/elsewhere/worker.db"


def by_a_hard_link(folder: Path) -> str:
    (folder / "other").mkdir()
    os.link(folder / "worker.db", folder / "other" / "worker.db")
    return f"{folder}/other/worker.db"


@pytest.mark.parametrize(
    "another",
    [
        pytest.param(by_a_link_to_the_file, marks=pytest.mark.prove),
        pytest.param(by_a_link_to_the_folder, marks=pytest.mark.prove),
        by_a_hard_link,
    ],
)
def test_no_second_worker_starts_by_another_name_of_the_ledger(tmp_path: Path, another: Callable[[Path], str]) -> None:
    with running(tmp_path) as (box, where, worker):
        second = Home(folder=tmp_path / "second")
        second.folder.mkdir()
        second.config.write_text(f"{where.config.read_text()}ledger: sqlite:///{another(tmp_path)}\n")
        shutil.copytree(where.folder / "rules", second.folder / "rules")
        refused = second.call("run", "--for", "9s", check=3).stderr
        halt = second.call("halt", "--because", "prices are wrong", check=None)
        if another is by_a_hard_link:
            assert "has 2 names (hard links)" in refused
            assert (halt.returncode, f"process {worker.process.pid} runs on" in halt.stderr) == (3, True)
        else:
            assert f"held by process {worker.process.pid}" in refused
            assert halt.returncode == 0
            assert len(where.json("status")["halts"]) == 1, "one file, one halt"
        assert len(box.effects()) == 1
        assert worker.stop() == 0
        if another is by_a_hard_link:
            said = where.call("run", "--for", "9s", check=3).stderr
            assert "-samefile" in said, "it says how to give it one name again"
            assert where.call("halt", "--because", "prices", check=3).stdout == ""
            (tmp_path / "other" / "worker.db").unlink()
            where.call("run", "--for", "4s")


def removed(folder: Path) -> None:
    (folder / "worker.db.lock").unlink()


def replaced(folder: Path) -> None:
    (folder / "empty").touch()
    (folder / "empty").replace(folder / "worker.db.lock")


@pytest.mark.parametrize("harm", [removed, pytest.param(replaced, marks=pytest.mark.prove)])
def test_a_lock_removed_by_a_script_lets_no_second_worker_in_and_the_first_sends_nothing_more(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    with running(tmp_path) as (box, where, worker):
        pid = worker.process.pid
        harm(tmp_path)
        assert f"held by process {pid}, whose lock worker.db.lock was removed" in where.call("run", check=3).stderr
        box.cancel("e5")
        until(lambda: "lock" in worker.errors and TOLD_ITS_OWN in worker.errors, "it says so itself")
        looks_on(box)
        status = where.json("status")
        assert (status["running"], status["pid"]) == (True, pid)
        assert "its lock worker.db.lock was removed" in status["ledger_refused"]
        halt = where.call("halt", "--because", "prices are wrong", check=3)
        assert f"kill {pid}" in halt.stderr
        assert len(box.effects()) == 1, "nothing is sent"
        assert worker.stop() == 0
        with where.worker() as again:
            confirmed(where, 2)
            assert again.stop() == 0
        assert box.get("books")["repeated"] == 0


def test_a_ledger_put_back_beneath_the_worker_is_noticed_before_the_next_send_and_by_the_next_start(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as (box, where, worker):
        where.call("ledger", "backup", str(tmp_path / "backup.db"))
        box.cancel("e5")
        confirmed(where, 2)
        before = (tmp_path / "worker.db.mark").read_bytes()
        with (
            closing(sqlite3.connect(tmp_path / "backup.db")) as backup,
            closing(sqlite3.connect(tmp_path / "worker.db", timeout=30)) as ledger,
        ):
            backup.backup(ledger)  # through SQLite, into the very file: no name and no number changes
        box.cancel("e6")
        until(lambda: "was restored" in worker.errors, "it says so itself")
        looks_on(box)
        assert len(box.effects()) == 2, "nothing is sent on what somebody put back"
        assert (tmp_path / "worker.db.mark").read_bytes() == before, "the mark never goes back"
        assert "was restored" in where.json("status")["ledger_refused"]
        assert worker.stop() == 0
        assert "accept-restore" in where.call("run", check=3).stderr
        where.call("ledger", "accept-restore")
        with where.worker() as again:
            until(lambda: "waiting" in where.states, "what is true at first is asked for")
            assert again.stop() == 0
        assert len(box.effects()) == 2


def test_a_ledger_of_staging_does_not_keep_production_from_being_seen(tmp_path: Path) -> None:
    (tmp_path / "production").mkdir()
    with sandbox(tmp_path) as staging, sandbox(tmp_path / "production") as production:
        where = home(tmp_path, staging)
        with where.worker() as worker:
            staging.cancel("e3")
            confirmed(where, 1)
            moved = ("ledger", "moved", "--because", "it goes live", "--to")
            beside = where.call(*moved, staging.base_url, check=3).stderr
            assert f"held by process {worker.process.pid}" in beside
            assert worker.stop() == 0
        production.cancel("e3")
        home(tmp_path, production)
        refused = where.call("run", "--for", "9s", check=3).stderr
        assert staging.base_url in refused
        assert production.base_url in refused
        assert production.get("requests") == [], "nothing is asked for"
        where.call(*moved, production.base_url)
        with where.worker() as live:
            where.comes_to("confirmed", "waiting")
            where.call("approve", "2")
            confirmed(where, 2)
            assert live.stop() == 0
        assert [one["target"] for one in production.effects()] == [staging.effects()[0]["target"]]
        told = [one for one in where.log() if one["kind"] == "ledger_restored"]
        assert [("it goes live" in one["why"], production.base_url in one["why"]) for one in told] == [(True, True)]
