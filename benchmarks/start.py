"""What a start takes with 10,000 events under 20 rules: the daemon for the first time, and again on what it knows.

Real processes over real sockets, from the start of the interpreter until every event was decided on. Beside it, turn
by turn, a script that starts, signs in and reads the same pages with httpx and `json.loads`, and nothing else. By the
clock the worker is held to its request quota (600 a minute, one at a time at the beginning), so look at the CPU.

``EVENTS`` and ``RUNS`` change the size. Ends with 1 where a start on what is known takes more than 3 s of CPU.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

from benchmarks.idle import EVENTS, PAGE, READER, cpu_s, daemon, ended, met, resident_mb, twin
from benchmarks.rivals import origin

RUNS = int(os.environ.get("RUNS", "3"))
MOST_S = 3.0
BARE, FIRST, AGAIN = "httpx and `json.loads`, one process", "the worker, first start", "the worker, started again"
Start = tuple[float, float, float]


def started(folder: Path, base_url: str) -> tuple[Start, list[str]]:
    """Seconds, CPU seconds and megabytes of the daemon until it has decided on all, and the partners."""
    began = time.monotonic()
    worker = daemon(folder, base_url)
    try:
        partners = met(folder, worker, every_s=0.02)
        return (time.monotonic() - began, cpu_s(worker.pid), resident_mb(worker.pid)), partners
    finally:
        ended(worker)


def bare(base_url: str, partners: list[str]) -> Start:
    """The same of a process that only reads."""
    began = time.monotonic()
    reader = subprocess.Popen([sys.executable, "-c", READER, base_url, str(PAGE), "once", *partners])
    _, status, used = os.wait4(reader.pid, 0)
    reader.returncode = os.waitstatus_to_exitcode(status)
    assert reader.returncode == 0, "the bare reader failed"
    return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def main() -> None:
    """Measures and prints."""
    times: dict[str, list[Start]] = {BARE: [], FIRST: [], AGAIN: []}
    with tempfile.TemporaryDirectory() as name:
        service, base_url = twin(Path(name))
        try:
            partners = list[str]()
            for turn in range(RUNS):
                folder = Path(name, str(turn))
                folder.mkdir()
                for what in (FIRST, AGAIN):
                    took, partners = started(folder, base_url)
                    times[what].append(took)
                times[BARE].append(bare(base_url, partners))
        finally:
            ended(service)
    base = statistics.median(one[1] for one in times[BARE])
    print(origin(["httpx"]))
    print(f"start with {EVENTS} events under 20 rules, {RUNS} runs")
    print("| what | CPU s: min | median | max | ratio | s by the clock | MB |\n|---|---|---|---|---|---|---|")
    for what, found in times.items():
        clock, cpu, memory = (sorted(one) for one in zip(*found, strict=True))
        middle = statistics.median(cpu)
        spread = f"{cpu[0]:.2f} | {middle:.2f} | {cpu[-1]:.2f} | {middle / base:.1f}"
        print(f"| {what} | {spread} | {statistics.median(clock):.1f} | {statistics.median(memory):.0f} |")
    sys.exit(1 if statistics.median(one[1] for one in times[AGAIN]) > MOST_S else 0)


if __name__ == "__main__":
    main()
