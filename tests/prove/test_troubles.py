"""Real processes at the worst moments: frozen between record and send, a clock that jumps, an end that is too short.

Judged from outside: exit codes, the commands' output, the sandbox's books. The clock is moved for one process alone,
by a small library that stands before the C library's; without a C compiler that proof is skipped, and says so.
"""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.acceptance.processes import Sandbox, home, sandbox, until

pytestmark = [pytest.mark.prove, pytest.mark.timeout(0)]
FIRST = "partner-id-aurora-live"
PUT = ("PUT", "/client_campaign_status$")
FREEZES_ITSELF = """
import asyncio, os, signal, sys
from pathlib import Path
from worker.config import load_config
from worker.cli.wiring import FolderSource, running_daemon

frozen = []

class Quiet:
    def __getattr__(self, name):
        return lambda *said, **more: None

def tell(record):
    # told once `sending` is on disk, and before the request is made
    if record.kind == "sending" and not frozen:
        frozen.append(record)
        os.kill(os.getpid(), signal.SIGSTOP)

async def main():
    config = load_config(Path(sys.argv[1]))
    async with running_daemon(config, FolderSource(config), reporter=Quiet(), tell=tell) as daemon:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, daemon.stop)
        await daemon.run()

asyncio.run(main())
"""
MOVED_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The wall clock alone, moved by as many seconds as the file says. */
int clock_gettime(clockid_t which, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(which, at);
    if (which == CLOCK_REALTIME) {
        FILE *file = fopen(getenv("MOVED_BY"), "r");
        long seconds = 0;
        if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
        at->tv_sec += seconds;
    }
    return result;
}
"""


def looks(box: Sandbox, after: int) -> int:
    """How often the list was read since so many requests."""
    return sum(one["path"] == "/events/" for one in box.get("requests")[after:])


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "T"


def test_a_process_stopped_between_record_and_send_does_not_send_when_it_wakes_too_late(tmp_path: Path) -> None:
    with sandbox(tmp_path) as box:
        where = home(tmp_path, box, timeout="2s")
        with where.started(sys.executable, "-c", FREEZES_ITSELF, str(where.config)) as running:
            box.cancel("e3")
            until(lambda: running.process.poll() is not None or stopped(running.process.pid), "it stopped itself")
            assert running.process.poll() is None, running.errors
            wakes_at = time.monotonic() + 3
            assert where.states == ["sending"]
            until(lambda: time.monotonic() > wakes_at, "longer than api.timeout")
            assert box.get("books")["writes_sent"] == 0
            running.process.send_signal(signal.SIGCONT)
            until(lambda: where.states == ["confirmed"], "done in the end")
            assert running.stop() == 0
        kinds = [
            (one["kind"], one["attempt"])
            for one in where.log("--write", "1")
            if one["kind"] not in ("evidence", "held")
        ]
        assert kinds[:4] == [("planned", None), ("sending", 1), ("planned", 1), ("sending", 2)]
        assert box.get("books")["writes_sent"] == 1
        assert len(box.effects()) == 1


def test_what_stop_within_could_not_await_is_unknown_at_the_next_start_and_settled_by_reading(tmp_path: Path) -> None:
    with sandbox(tmp_path) as box:
        where = home(tmp_path, box, timeout="30s")
        where.told("stop_within: 1s")
        with where.worker() as running:
            box.fault("hang_after", *PUT)
            box.cancel("e3")
            until(lambda: len(box.effects()) == 1, "it took effect, and no answer comes")
            began = time.monotonic()
            assert running.stop() == 0
            assert time.monotonic() - began < 15
        assert where.states == ["sending"]
        with where.worker() as running:
            until(lambda: where.states == ["confirmed"], "confirmed by reading")
            assert running.stop() == 0
        assert box.get("books")["writes_sent"] == 1


@pytest.mark.parametrize("by", [365 * 86400, -3600], ids=["a year ahead", "back an hour"])
def test_a_wall_clock_that_jumps_stops_no_look_and_repeats_nothing(tmp_path: Path, by: int) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to move a clock with")
    library, moved_by = tmp_path / "clock.so", tmp_path / "moved_by"
    (tmp_path / "clock.c").write_text(MOVED_CLOCK, "utf-8")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "clock.c", "-ldl"], check=True)
    moved_by.write_text("0", "utf-8")
    with sandbox(tmp_path) as box:
        where = home(tmp_path, box)
        where.environment |= {"LD_PRELOAD": str(library), "MOVED_BY": str(moved_by)}
        with where.worker() as running:
            box.cancel("e3")
            until(lambda: where.states == ["confirmed"], "before the jump")
            box.fault("answer_before", *PUT, params={"status": 500})
            box.cancel("e5")
            until(lambda: where.states[1:] == ["unknown"], "unknown while the clock jumps")
            moved_by.write_text(str(by), "utf-8")
            seen = len(box.get("requests"))
            until(lambda: looks(box, seen) > 2, "it looks on")
            box.cancel("e6")
            until(lambda: where.states[2:] == ["confirmed"], "after the jump")
            until(lambda: where.states[1] in ("confirmed", "needs_human"), "settled, or before a person")
            assert running.stop() == 0
        assert ("clock_set_back" in running.errors) is (by < 0)
        assert box.get("books")["repeated"] == 0
