"""The first look at 10,000 events under 20 rules: how long it keeps the process to itself, and what it takes.

Whatever else the process does (a stop, the page, other partners) waits for the turn of the loop that is under way. So
each turn is timed, by what the processor did in it, also that in which the daemon takes what lasts from the garbage
collector. The worker's own cycle on the in-process twin. Virtual time, so that waits cost nothing; ``EVENTS`` and
``RULES`` change the size. Ends with 1 where a turn takes longer than a tenth of a second.
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
from worker.engine.daemon import keep, seldom
from worker.sandbox.service import Twin

EVENTS = int(os.environ.get("EVENTS", "10000"))
RULES = int(os.environ.get("RULES", "20"))
MOST_S = 0.1
TEXT = "rules:\n" + "".join(
    f"  - id: rule-{number}\n    when: {CONDITIONS[number % len(CONDITIONS)]}\n    do: [pause]\n"
    for number in range(RULES)
)


class Turns(VirtualLoop):
    """A loop that notes how long each of its turns takes the processor."""

    def __init__(self) -> None:
        super().__init__()
        self.took: list[float] = []

    def _run_once(self) -> None:
        began = time.process_time()
        super()._run_once()  # type: ignore[misc]  # asyncio's own
        self.took.append(time.process_time() - began)


def looked(folder: Path) -> tuple[float, list[float]]:
    """CPU seconds of the first look, and of each turn of the loop."""
    loop = Turns()
    settings = replace(QUICK, page_size=100, requests_per_minute=6000)
    twin = Twin(world(*(happening(f"e{number:05}") for number in range(EVENTS))))
    here = Town(loop, twin, folder, rule_set(TEXT), settings)

    async def script() -> float:
        seldom()
        here.start()
        began = time.process_time()
        report = await here.worker.cycle.run(here.worker.states[PARTNER])
        took = time.process_time() - began
        await asyncio.sleep(0.01)
        keep()
        assert (report.complete, report.events, report.fired) == (True, EVENTS, 0), report.error
        return took

    took = run_virtually(loop, script())
    here.ledger.close()
    loop.close()
    return took, loop.took


def main() -> None:
    """Measures and prints."""
    print(f"the first look at {EVENTS} events under {RULES} rules; CPU seconds")
    print("| the look | holds of 10 ms or more | their median | the longest |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        took, holds = looked(Path(name))
    long = sorted(hold for hold in holds if hold >= 0.01)
    print(f"| {took:.1f} | {len(long)} | {long[len(long) // 2]:.2f} | {long[-1]:.2f} |", flush=True)
    if long[-1] > MOST_S:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
