"""The first look at 10,000 events under 20 rules: how long it keeps the process to itself, and what it takes.

Whatever else the process does (a stop, the page, other partners) waits for the turn of the loop that is under way. So
each turn is timed, by what the processor did in it, also that in which the daemon takes what lasts from the garbage
collector. The worker's own cycle on the in-process twin, beside a plain script (``plain``) that reads the same pages,
judges the same conditions and keeps the events. Virtual time, so that waits cost nothing; ``EVENTS``, ``RULES`` and
``RUNS`` change the size. Ends with 1 where a turn takes longer than a tenth of a second.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

from benchmarks import plain
from benchmarks.idle import CONDITIONS
from benchmarks.rivals import origin
from tests.virtual import VirtualLoop, run_virtually
from tests.worlds import PARTNER, QUICK, Town, happening, rule_set, world
from worker.engine.daemon import keep, seldom
from worker.sandbox.service import Twin

EVENTS = int(os.environ.get("EVENTS", "10000"))
RULES = int(os.environ.get("RULES", "20"))
RUNS = int(os.environ.get("RUNS", "3"))
PAGE = 100
MOST_S = 0.1
CONDITIONS_OF_ALL = [CONDITIONS[number % len(CONDITIONS)] for number in range(RULES)]
TEXT = "rules:\n" + "".join(
    f"  - id: rule-{number}\n    when: {text}\n    do: [pause]\n" for number, text in enumerate(CONDITIONS_OF_ALL)
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
    settings = replace(QUICK, page_size=PAGE, requests_per_minute=6000)
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


def scripted(folder: Path) -> float:
    """CPU seconds of the plain script."""
    loop = VirtualLoop()
    twin = Twin(world(*(happening(f"e{number:05}") for number in range(EVENTS))))

    async def script() -> float:
        async with plain.reader(twin, loop, PAGE) as read:
            began = time.process_time()
            events = await read()
            assert (len(events), plain.judged(CONDITIONS_OF_ALL, events)) == (EVENTS, 0)
            plain.keep(folder / "plain.db", events)
            return time.process_time() - began

    took = run_virtually(loop, script())
    loop.close()
    return took


def spread(times: list[float]) -> str:
    """Least, median, most."""
    return f"{min(times):.2f} | {statistics.median(times):.2f} | {max(times):.2f}"


def main() -> None:
    """Measures and prints."""
    own, bare, holds = list[float](), list[float](), list[float]()
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as name:
            took, turns = looked(Path(name))
            own.append(took)
            holds += turns
            bare.append(scripted(Path(name)))
    long = sorted(hold for hold in holds if hold >= 0.01)
    print(origin())
    print(f"the first look at {EVENTS} events under {RULES} rules; CPU seconds of {RUNS} runs")
    print("| what | min | median | max | ratio |\n|---|---|---|---|---|")
    print(f"| a plain script | {spread(bare)} | 1.0 |")
    print(f"| the worker | {spread(own)} | {statistics.median(own) / statistics.median(bare):.1f} |")
    print(
        f"turns of 10 ms or more: {len(long)}, their median {statistics.median(long):.2f}, the longest {long[-1]:.2f}"
    )
    if long[-1] > MOST_S:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
