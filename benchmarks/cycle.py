"""CPU of one quiet cycle: 1,000 and 10,000 events in which nothing happens, under two rules, on the in-process twin.

Against the least that anybody could do: the same pages read through the same HTTP client and decoded by ``json.loads``.
The twin's own work is in both. Virtual time, so that waits cost nothing; ``RUNS`` changes the number of cycles.
"""

import os
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

from benchmarks.plain import reader
from tests.virtual import VirtualClock, VirtualLoop, run_virtually
from tests.worlds import PARTNER, PAUSE, QUICK, Town, happening, rule_set, world
from worker.sandbox.service import Twin

RUNS = int(os.environ.get("RUNS", "5"))
PAGE = 1000
FLAGGED = """  - id: run-flagged
    when: event.frontend_status == 'FLAGGED' && event.predicted_sales_share > 0.9
    do: [run]
"""


def twin_of(events: int) -> Twin:
    """A twin whose events are all quiet."""
    return Twin(world(*(happening(f"e{number:05}") for number in range(events))))


def cycles(events: int, folder: Path) -> list[float]:
    """CPU seconds of quiet cycles, once every event was met and is at rest."""
    loop = VirtualLoop()
    settings = replace(QUICK, page_size=PAGE, requests_per_minute=6000)
    here = Town(loop, twin_of(events), folder, rule_set(PAUSE + FLAGGED), settings)
    times: list[float] = []

    async def script() -> None:
        here.start()
        state = here.worker.states[PARTNER]
        while len(times) < RUNS:
            quiet = len(state.due) == events
            began = time.process_time()
            report = await here.worker.cycle.run(state)
            if quiet:
                times.append(time.process_time() - began)
            assert report.complete, report.error
            assert (report.events, report.fired) == (events, 0)
            await here.clock.sleep(4)

    run_virtually(loop, script())
    here.ledger.close()
    loop.close()
    return times


def bare_reads(events: int) -> list[float]:
    """CPU seconds of the same pages, read and decoded, and nothing else."""
    loop = VirtualLoop()
    times: list[float] = []

    async def script() -> None:
        async with reader(twin_of(events), loop, PAGE) as read:
            for _ in range(RUNS + 1):
                began = time.process_time()
                seen = len(await read())
                times.append(time.process_time() - began)
                assert seen == events
                await VirtualClock(loop).sleep(4)

    run_virtually(loop, script())
    loop.close()
    return times[1:]


def main() -> None:
    """Measures and prints."""
    print(f"one quiet cycle, 2 rules, pages of {PAGE}, {RUNS} cycles; CPU milliseconds")
    print(f"{'what':<44}{'min':>9}{'median':>9}{'max':>9}{'ratio':>8}")
    for events in (1000, 10_000):
        bare = bare_reads(events)
        with tempfile.TemporaryDirectory() as folder:
            own = cycles(events, Path(folder))
        base = statistics.median(bare)
        for name, times in (("httpx and json.loads", bare), ("the worker's cycle", own)):
            middle = statistics.median(times)
            spread = f"{min(times) * 1e3:>9.1f}{middle * 1e3:>9.1f}{max(times) * 1e3:>9.1f}"
            print(f"{f'{events:>6} events: {name}':<44}{spread}{middle / base:>8.1f}")


main()
