"""The ledger under real processes: killed in mid-transaction, read while written, written by two at once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.ledger.examples import after, become, older_mark, open_ledger, place_in
from worker.ledger.mark import read_mark
from worker.ledger.reading import open_reading
from worker.model.commits import LogFilter

ROOT = Path(__file__).resolve().parents[2]
BEGIN = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from tests.unit.ledger.examples import *
from worker.ledger.reading import open_reading
folder = Path(sys.argv[1])
"""
WRITE = """
ledger = open_ledger(folder)
for episode in range(100_000):
    (write,) = planned(ledger, plan(key(episode, event=f"e{episode}")))
    sent(ledger, write, after(1))
    print(write.id, flush=True)
"""
PLAN = """
ledger = open_ledger(folder)
for episode in range(100_000):
    (write,) = planned(ledger, plan(key(episode, event=f"operator-{episode}")))
    print(write.id, flush=True)
"""
READ = """
seen = 0
while seen < 50:
    with open_reading(f"sqlite:///{folder}/worker.db") as reader:
        found = reader.verify()
        if found is not None:
            sys.exit(found.why)
        counted = len(list(reader.writes()))
        if counted < seen:
            sys.exit("writes went away")
        seen = counted
print("done", flush=True)
"""


@contextmanager
def process(script: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + script, str(folder), str(ROOT)], stdout=subprocess.PIPE, text=True
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def numbers(started: subprocess.Popen[str], count: int) -> list[int]:
    assert started.stdout is not None
    return [int(started.stdout.readline()) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 7, 20])
def test_what_was_recorded_before_a_kill_is_there_and_the_chain_is_whole(tmp_path: Path, count: int) -> None:
    with process(WRITE, tmp_path) as writer:
        recorded = numbers(writer, count)
        writer.send_signal(signal.SIGKILL)
        writer.wait()

    with open_ledger(tmp_path) as ledger:
        assert ledger.verify() is None
        states = {int(write.id): write.state for write in ledger.writes()}
        assert all(states[number] == "sending" for number in recorded)
        told = [record["write"] for record in ledger.log(LogFilter()) if record["kind"] == "sending"]
        assert told == [number for number, state in states.items() if state == "sending"]


def test_a_kill_between_commit_and_mark_leaves_a_ledger_ahead_of_its_mark(tmp_path: Path) -> None:
    with open_ledger(tmp_path):
        pass
    before = read_mark(place_in(tmp_path))
    older_mark(tmp_path)
    gate = tmp_path / "worker.db.mark.new"
    os.mkfifo(gate)
    with process(WRITE, tmp_path) as writer:
        handle = os.open(gate, os.O_RDONLY)  # meets the writer where it opens the new mark
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        os.close(handle)
    gate.unlink()

    assert read_mark(place_in(tmp_path)) == before
    with open_ledger(tmp_path) as ledger:
        assert ledger.state_counts() == {"sending": 1}, "recovery takes it for unknown"
        assert ledger.verify() is None
        (write,) = ledger.open_writes()
        become(ledger, write, "unknown", after(2))


def test_readers_see_a_whole_chain_at_every_moment_while_another_process_writes(tmp_path: Path) -> None:
    with process(WRITE, tmp_path) as writer:
        numbers(writer, 1)
        with process(READ, tmp_path) as reader:
            assert reader.stdout is not None
            for _ in range(200):
                numbers(writer, 1)
            assert reader.stdout.readline() == "done\n"


def test_a_sender_and_an_operator_that_start_and_write_at_once_make_one_ledger_and_one_chain(tmp_path: Path) -> None:
    with process(WRITE, tmp_path) as one, process(PLAN, tmp_path) as other:
        mine, theirs = numbers(one, 30), numbers(other, 30)

    assert not set(mine) & set(theirs)
    with open_reading(f"sqlite:///{tmp_path}/worker.db") as reader:
        assert reader.verify() is None
        assert set(mine) <= {write.id for write in reader.writes(state="sending")}
        assert set(theirs) <= {write.id for write in reader.writes(state="planned")}


OPEN = """
import sys
from pathlib import Path
from worker.ledger import sql

made = sql.set_up

def noted(connection, now):
    before = set(sys.modules)
    made(connection, now)
    print(*sorted({name.split(".")[0] for name in set(sys.modules) - before}))

sql.set_up = noted
from tests.unit.ledger.examples import NOW, open_ledger
open_ledger(Path(sys.argv[1]), NOW).close()
"""


def test_whoever_waits_for_a_new_ledger_waits_for_no_module_to_be_loaded(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", OPEN, tmp_path], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "\n", "all that is loaded within the transaction holds up the others"
