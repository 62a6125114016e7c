"""Whatever stops the process: a request that has not left by its time does not leave.

The worker is the real program. It stops itself in the one place where nothing of its own could notice: after its last
check, in the very call that hands the request to the kernel.
"""

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processes import WORKER, Home, Sandbox, home, sandbox, until

pytestmark = [pytest.mark.timeout(180), pytest.mark.skipif(sys.platform != "linux", reason="`run` needs Linux")]
CONTAINED = ("unshare", "--pid", "--fork", "--kill-child")
needs_unshare = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="a process 1 of one's own takes root and unshare"
)
FORGIVEN = ("task_without_put",)
"""After a death between record and byte nobody knows whether a PUT left; its task is read all the same."""
STOPS = """
import os, signal, socket
from worker.__main__ import main
send = socket.socket.send
def stopped(self, content, *flags):
    if bytes(content[:4]) == b"PUT ":
        os.kill(os.getpid(), signal.SIGSTOP)
    return send(self, content, *flags)
socket.socket.send = stopped
main()
"""
"""The worker, stopped in the call that sends a PUT."""
IGNORES = """
import os, signal, sys
signal.signal(signal.SIGALRM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
os.execv(sys.argv[1], sys.argv[1:])
"""
WINDOW_S = 2.0
"""How long that call may take, by docs/proof.md."""


def status(pid: int, field: str) -> str:
    """One line of what the kernel says of a process."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(line.split(":", 1)[1].strip() for line in lines if line.startswith(f"{field}:"))


def has(mask: str, number: signal.Signals) -> bool:
    return bool(int(mask, 16) >> (number - 1) & 1)


def child_of(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return int(child)


def puts(box: Sandbox) -> list[Any]:
    return [one for one in box.get("requests") if one["method"] == "PUT"]


def stopped_and_woken(where: Home, pid: int) -> None:
    """Waits until the worker stands before its byte, and wakes it when that byte is overdue."""
    until(lambda: status(pid, "State").startswith("T"), "it is stopped in the call")
    assert where.states == ["sending"], "recorded, and not sent"
    until(lambda: has(status(pid, "ShdPnd"), signal.SIGALRM), "its end waits for it", 3 * WINDOW_S)
    os.kill(pid, signal.SIGCONT)


def test_a_worker_stopped_between_its_last_check_and_its_byte_is_ended_when_it_wakes(tmp_path: Path) -> None:
    """Also where its parent left it alarms that are ignored and blocked."""
    with sandbox(tmp_path, forgiven=FORGIVEN) as box:
        where = home(tmp_path, box)
        command = (sys.executable, "-c", STOPS, "--config", str(where.config), "run")
        with where.started(sys.executable, "-c", IGNORES, *command) as first:
            where.watches()
            box.cancel("e3")
            until(where.writes, "a pause is planned")
            stopped_and_woken(where, first.process.pid)
            assert first.process.wait(timeout=20) == -signal.SIGALRM
        assert puts(box) == [], "no byte of it arrived"
        with where.worker() as second:
            where.comes_to("confirmed")
            assert second.stop() == 0
        assert len(puts(box)) == 1
        assert box.get("books")["repeated"] == 0
        assert where.writes()[0]["attempt"] == 2


@needs_unshare
def test_a_worker_that_is_process_1_of_a_container_is_ended_likewise(tmp_path: Path) -> None:
    with sandbox(tmp_path) as box:
        where = home(tmp_path, box)
        with where.started(*CONTAINED, sys.executable, "-c", STOPS, "--config", str(where.config), "run") as container:
            where.watches()
            box.cancel("e3")
            until(where.writes, "a pause is planned")
            stopped_and_woken(where, child_of(child_of(container.process.pid)))
            assert container.process.wait(timeout=20) == 128 + signal.SIGALRM
        assert puts(box) == [], "no byte of it arrived"


@needs_unshare
def test_process_1_passes_on_what_stops_it_and_takes_in_who_lost_its_parent(tmp_path: Path) -> None:
    orphan = 'sh -c "sleep 0.1 & exec sleep 0" ; exec "$@"'
    with sandbox(tmp_path) as box:
        where = home(tmp_path, box)
        command = (*WORKER, "--config", str(where.config), "run")
        with where.started(*CONTAINED, "sh", "-c", orphan, "sh", *command) as container:
            where.watches()
            first = child_of(container.process.pid)
            child_of(first)  # one: the orphan was taken in
            os.kill(first, signal.SIGTERM)
            assert container.process.wait(timeout=40) == 0
        assert "Traceback" not in container.errors


@pytest.mark.parametrize("gone", ["socket.TCP_USER_TIMEOUT", "signal.setitimer"])
def test_a_system_that_cannot_bound_the_last_byte_writes_nothing(tmp_path: Path, gone: str) -> None:
    without = f"import signal, socket; del {gone}; from worker.__main__ import main; main()"
    with sandbox(tmp_path) as box:
        where = home(tmp_path, box)
        command = (sys.executable, "-c", without, "--config", str(where.config), "run")
        with where.started(*command) as running:
            assert running.process.wait(timeout=40) == 3, running.errors
        words = (gone.split(".")[1], "nothing was sent", "run it on Linux")
        assert [word for word in words if word not in running.errors] == []
        assert not (tmp_path / "worker.db").exists()
        assert box.get("requests") == []
