"""One process sends; the kernel knows which, and forgets it when it dies."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.ledger.examples import NOW, place_in
from worker.ledger.lock import SenderLock
from worker.ledger.places import LedgerPlace, exchanged, held_since, holder, said_by_holder
from worker.model.errors import NotSafe

ROOT = Path(__file__).resolve().parents[3]
HOLD = """
import sys
sys.path.insert(0, sys.argv[2])
from datetime import UTC, datetime
from pathlib import Path
from worker.ledger.lock import SenderLock
from worker.ledger.places import LedgerPlace
from worker.model.errors import NotSafe
try:
    SenderLock.acquire(LedgerPlace(file=Path(sys.argv[1])), now=datetime(2026, 1, 31, tzinfo=UTC))
    print("held", flush=True)
except NotSafe as error:
    print(error, flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(place: LedgerPlace) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that tried to take the lock, and what it said. It stays until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(place.file), str(ROOT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_the_holder_is_named_and_its_release_is_seen(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    assert (holder(place), list(tmp_path.iterdir())) == (None, []), "it was never taken"

    with SenderLock.acquire(place, now=NOW) as lock:
        assert holder(place) == os.getpid()
        assert json.loads(place.lock.read_text()) == {"pid": os.getpid(), "since": "2026-01-31T12:00:00.000Z"}

    assert holder(place) is None
    assert place.lock.exists(), "a lock on a deleted file would keep nobody out"
    lock.release()


@pytest.mark.timeout(20)
def test_a_killed_holder_holds_nothing_though_its_pid_still_stands_in_the_file(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    with another_process(place) as (process, said):
        assert said == "held"
        assert holder(place) == process.pid
        with pytest.raises(NotSafe, match=f"held by process {process.pid}") as caught:
            SenderLock.acquire(place, now=NOW)
        assert caught.value.exit_code == 3
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert json.loads(place.lock.read_text())["pid"] == process.pid

    assert holder(place) is None
    SenderLock.acquire(place, now=NOW).release()


def test_a_recycled_pid_fools_nobody(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    place.lock.write_text(json.dumps({"pid": os.getpid()}))

    assert holder(place) is None, "that process lives, but holds nothing"
    SenderLock.acquire(place, now=NOW).release()


def test_a_lock_whose_text_is_not_written_yet_is_held_all_the_same(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    with SenderLock.acquire(place, now=NOW):
        place.lock.write_text("")

        assert holder(place) == 0
        with pytest.raises(NotSafe, match="just starting"):
            SenderLock.acquire(place, now=NOW)


def test_who_looks_is_told_which_file_the_holder_opened_and_whether_another_lies_there_now(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    place.file.write_bytes(b"the ledger")
    with SenderLock.acquire(place, now=NOW) as lock:
        assert exchanged(place) is None, "it has opened none yet"
        lock.note(place, {"mode": "live"})
        assert (holder(place), held_since(place), exchanged(place)) == (os.getpid(), NOW, None)
        assert said_by_holder(place)["mode"] == "live"

        (tmp_path / "copy").write_bytes(b"the ledger")
        (tmp_path / "copy").replace(place.file)

        other = exchanged(place)
        assert other is not None
        assert f"is not the file that process {os.getpid()} runs on" in str(other)
        assert f"kill {os.getpid()}" in other.hint
        place.file.unlink()
        assert exchanged(place) is None, "that it is gone is said by others"
    place.file.write_bytes(b"the ledger")

    assert exchanged(place) is None, "nobody runs any more"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"pid": 1}', "4711"])
def test_a_text_that_says_nothing_of_the_holder_is_no_error(tmp_path: Path, text: str) -> None:
    place = place_in(tmp_path)
    place.file.write_bytes(b"the ledger")
    with SenderLock.acquire(place, now=NOW):
        place.lock.write_text(text)

        assert (exchanged(place), held_since(place)) == (None, None)
        assert said_by_holder(place).get("mode") is None
