"""The first look at 10,000 events under 20 rules: how long it keeps the process to itself, and what it takes.

Whatever else the process does (a stop, the page, other partners) waits for as long as a look does not let it. So a task
beside the look takes a turn whenever it may, and notes how much the processor did between two turns. The worker's own
cycle on the in-process twin, once in portions as the daemon does it, and once all in one go. Virtual time, so that
waits cost nothing; ``EVENTS`` and ``RULES`` change the size.
"""

import asyncio
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

from benchmarks.idle import CONDITIONS
from tests.virtual import VirtualLoop, run_virtually
from tests.worlds import PARTNER, QUICK, Town, happening, rule_set, world
from worker.sandbox.service import Twin

EVENTS = int(os.environ.get("EVENTS", "10000"))
RULES = int(os.environ.get("RULES", "20"))
TEXT = "rules:\n" + "".join(
    f"  - id: rule-{number}\n    when: {CONDITIONS[number % len(CONDITIONS)]}\n    do: [pause]\n"
    for number in range(RULES)
)


def looked(folder: Path) -> tuple[float, list[float]]:
    """CPU seconds of the first look, and of each of its holds."""
    loop = VirtualLoop()
    settings = replace(QUICK, page_size=100, requests_per_minute=6000)
    twin = Twin(world(*(happening(f"e{number:05}") for number in range(EVENTS))))
    here = Town(loop, twin, folder, rule_set(TEXT), settings)
    holds: list[float] = []

    async def beside() -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.process_time()
            holds.append(now - last)
            last = now

    async def script() -> float:
        here.start()
        turns = asyncio.ensure_future(beside())
        began = time.process_time()
        report = await here.worker.cycle.run(here.worker.states[PARTNER])
        took = time.process_time() - began
        await asyncio.sleep(0.01)
        turns.cancel()
        assert (report.complete, report.events, report.fired) == (True, EVENTS, 0), report.error
        return took

    took = run_virtually(loop, script())
    here.ledger.close()
    loop.close()
    return took, holds


def main() -> None:
    """Measures and prints."""
    print(f"the first look at {EVENTS} events under {RULES} rules; CPU seconds")
    print("| the look | holds of 10 ms or more | their median | the longest |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        took, holds = looked(Path(name))
    long = sorted(hold for hold in holds if hold >= 0.01)
    print(f"| {took:.1f} | {len(long)} | {long[len(long) // 2]:.2f} | {long[-1]:.2f} |", flush=True)


main()
