"""What `plan` takes over 10,000 events beside a running worker, which has observed them, under 20 rules.

The copy of the ledger, the decision on all events, and what it writes down of 100 of them, in CPU seconds; the start of
a process is not in it. Beside it a plain script (``plain``) that judges the same conditions on the events that it
kept, which is all that a dry run does elsewhere. The claim to meet is 10 s. ``EVENTS``, ``RULES`` and ``RUNS`` change
the size.
"""

import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

from benchmarks import plain
from benchmarks.first_look import CONDITIONS_OF_ALL, EVENTS, RULES, RUNS, TEXT, spread
from benchmarks.rivals import origin
from tests.rehearsing import rehearsed
from tests.virtual import VirtualLoop, run_virtually
from tests.worlds import QUICK, Town, happening, rule_set, world
from worker.sandbox.service import Twin

MOVED = 100
MOST_S = 10.0
MOVED_ONES = "event.category == 'moved'"
PAUSE = f"  - {{id: pause-moved, when: {MOVED_ONES}, do: [pause]}}\n"


def planned(folder: Path) -> tuple[float, float]:
    """CPU seconds of the plan, and of the plain script."""
    loop = VirtualLoop()
    settings = replace(QUICK, page_size=100, requests_per_minute=6000)
    twin = Twin(world(*(happening(f"e{number:05}") for number in range(EVENTS))))
    here = Town(loop, twin, folder, rule_set(TEXT), settings)

    async def script() -> tuple[float, float]:
        here.start()
        await here.run(60)
        for number in range(MOVED):
            here.set(f"e{number:05}", category="moved")
        await here.run(30)
        assert here.writes() == []
        here.rules.current = rule_set(TEXT + PAUSE)  # as in another folder than the worker's
        began = time.process_time()
        found = await rehearsed(here, beside=True)
        took = time.process_time() - began
        assert len(found.rows) == MOVED, found
        async with plain.reader(here.twin, loop, 1000) as read:
            plain.keep(folder / "plain.db", await read())
        began = time.process_time()
        assert plain.judged([*CONDITIONS_OF_ALL, MOVED_ONES], plain.kept(folder / "plain.db")) == MOVED
        return took, time.process_time() - began

    took = run_virtually(loop, script())
    here.ledger.close()
    loop.close()
    return took


def main() -> None:
    """Measures and prints."""
    found = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as name:
            found.append(planned(Path(name)))
    own, bare = (list(one) for one in zip(*found, strict=True))
    middle = statistics.median(own)
    print(origin())
    print(f"plan beside a worker, {EVENTS} events under {RULES} rules and one more; CPU seconds of {RUNS} runs")
    print("| what | min | median | max | ratio |\n|---|---|---|---|---|")
    print(f"| a plain script | {spread(bare)} | 1.0 |")
    print(f"| the worker's plan | {spread(own)} | {middle / statistics.median(bare):.1f} |")
    if middle > MOST_S:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
