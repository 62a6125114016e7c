"""What stalls beside the worker holds up nothing: who should read its log, a tool that keeps the ledger to itself."""

import os
import signal
import sqlite3
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from tests.acceptance.processes import WORKER, free_port, home, sandbox, supervised, until, watched

pytestmark = pytest.mark.timeout(180)
PUT = ("PUT", "/client_campaign_status$")
HELD_S = 12.0
STOOD_S = 3.0
"""A beat is due every second; on a busy machine it may come a little late."""
STOPS_WITHIN_S = 10.0


def test_a_tool_that_holds_the_ledger_stops_no_loop_and_turns_no_answer_into_a_time_out(tmp_path: Path) -> None:
    with sandbox(tmp_path) as box:
        where = home(tmp_path, box, timeout="6s")
        port = free_port()
        where.told(f"web: {{listen: 127.0.0.1:{port}}}")
        with supervised(tmp_path, where) as heard, where.worker() as running:
            where.watches()
            box.fault("slow", *PUT, params={"delay_s": 2.5})
            box.cancel("e3")
            where.comes_to("sending")
            lists = len(box.get("requests"))
            tool = sqlite3.connect(where.folder / "worker.db", isolation_level=None)
            tool.execute("BEGIN EXCLUSIVE")
            began = time.monotonic()
            until(lambda: time.monotonic() - began >= HELD_S, "the tool has held it for long enough")
            alive = httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5, trust_env=False)
            assert alive.text == "alive\n"
            assert len(box.get("requests")) >= lists + 3, "it goes on polling"
            tool.execute("ROLLBACK")
            tool.close()
            during = [at for word, at in heard if word == "WATCHDOG=1" and began <= at <= began + HELD_S]
            stood = max(then - at for at, then in pairwise(during))
            assert stood < STOOD_S, running.errors
            where.comes_to("confirmed")
            assert running.stop() == 0
        told = [one for one in where.log() if one["kind"] in ("applied", "unknown")]
        assert [(one["kind"], one["response"]["status"]) for one in told] == [("applied", 204)]


def test_a_worker_whose_ledger_is_held_stops_when_it_is_told_to(tmp_path: Path) -> None:
    with watched(tmp_path) as (box, where, running):
        tool = sqlite3.connect(where.folder / "worker.db", isolation_level=None)
        tool.execute("BEGIN EXCLUSIVE")
        box.await_look()
        running.process.terminate()
        assert running.process.wait(timeout=STOPS_WITHIN_S) == 0
        tool.close()


@pytest.mark.parametrize("verbose", [(), ("--verbose",)])
def test_a_log_that_nobody_reads_keeps_no_cancelled_event_running_and_no_worker_from_its_end(
    tmp_path: Path, verbose: tuple[str, ...]
) -> None:
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    with sandbox(tmp_path) as box:
        where = home(tmp_path, box)
        try:
            while True:
                os.write(writes, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(writes, True)
        command = [*WORKER, "--config", str(where.config), "run", *verbose]
        process = subprocess.Popen(command, stdout=writes, stderr=writes, env=where.environ())
        try:
            where.watches()
            box.cancel("e3")
            where.comes_to("confirmed")
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
            process.wait()
            os.close(reads)
            os.close(writes)
        assert [one["after"] for one in box.effects("client_campaign_status")] == ["PAUSED"]
