"""How soon a page answers over a ledger of months, and whether pages slow the daemon beside them.

First 100,000 records and every kind of page, one after the other: over a real socket, through the door, from the
ledger's file, without the rest that the page takes after each answer, because somebody who reads gives it more rest.
Then the daemon's cycles on that ledger, in turns without and with readers who never rest, in processes of their own;
both sides of a ratio are measured in the same run. ``RECORDS``, ``TIMES``, ``READERS`` and ``ROUNDS`` change the sizes.
"""

import asyncio
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Event
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

import httpx

from tests.crowded import crowded, last_moment
from tests.virtual import VirtualLoop, run_virtually
from tests.web.scene import FixedClock, scene
from tests.worlds import PARTNER, PAUSE, QUICK, Town, happening, rule_set, world
from worker.sandbox.service import Twin

RECORDS = int(os.environ.get("RECORDS", "100000"))
TIMES = int(os.environ.get("TIMES", "15"))
READERS = int(os.environ.get("READERS", "20"))
ROUNDS = int(os.environ.get("ROUNDS", "6"))
CYCLES = 10
"""Cycles of each round."""
EVENTS = 1000
LIMIT_MS = 200.0
PAGES = (
    "/",
    "/log",
    "/log?event=event-4",
    "/log?rule=rare-rule",
    "/log?kind=needs_human",
    "/log?reason=halt",
    "/writes",
    "/writes?rule=rare-rule",
    "/write?id=7000",
    "/event?event=event-4",
    "/events?text=199",
    "/rules",
    "/rule?rule=pause-cancelled",
    "/charts",
    "/metrics",
)
CROWD = ("/", "/event?event=event-4", "/writes?state=waiting")
"""Pages that grow with one event's history, and with how much waits."""
BUSY = ("/", "/log", "/event?event=event-4", "/charts")


def spread(times: list[float]) -> str:
    """Milliseconds: least, middle, most."""
    return "".join(f"{one * 1e3:10.1f}" for one in (min(times), statistics.median(times), max(times)))


def each_page(folder: Path, pages: tuple[str, ...]) -> list[str]:
    """Prints every page's times, and returns those that were too slow; the first answers count as any other."""
    slow = []
    print(f"\n{'page':<32}{'min':>10}{'median':>10}{'max':>10}   ms of {TIMES}, one after the other")
    with (
        scene(folder, clock=FixedClock(last_moment(RECORDS))) as shown,
        httpx.Client(base_url=shown.address, trust_env=False) as client,
    ):
        for path in pages:
            times = []
            for _ in range(TIMES):
                began = time.perf_counter()
                answer = client.get(path)
                times.append(time.perf_counter() - began)
                assert answer.status_code == 200, f"{path}: {answer.status_code}"
            print(f"{path:<32}{spread(times)}")
            slow += [path] if statistics.median(times) * 1e3 > LIMIT_MS else []
    return slow


@dataclass(frozen=True)
class RestingClock(FixedClock):
    """As the daemon's page has it: after each answer it rests."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def reading(address: str, wanted: Event, over: Event) -> None:
    """Somebody who asks for one page after the other, as long as that is wanted."""
    with httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
        while not over.is_set():
            if not wanted.wait(0.2):
                continue
            for path in BUSY:
                with suppress(httpx.HTTPError):
                    client.get(path)


def for_them_to_begin_or_end() -> None:
    """A moment of real time; the daemon's own, virtual, stands still meanwhile."""
    time.sleep(0.2)


def beside_readers(folder: Path) -> None:
    """Prints how long cycles take without and with readers, in turns."""
    wanted, over = multiprocessing.Event(), multiprocessing.Event()
    times: dict[bool, list[float]] = {False: [], True: []}
    loop = VirtualLoop()
    twin = Twin(world(*(happening(f"e{number:05}") for number in range(EVENTS))))
    here = Town(loop, twin, folder, rule_set(PAUSE), replace(QUICK, page_size=1000, requests_per_minute=6000))
    with scene(folder, clock=RestingClock(last_moment(RECORDS))) as shown:
        readers = [
            multiprocessing.Process(target=reading, args=(shown.address, wanted, over), daemon=True)
            for _ in range(READERS)
        ]

        async def script() -> None:
            here.start()
            state = here.worker.states[PARTNER]
            for number in range(3 + 2 * ROUNDS * CYCLES):
                busy = number >= 3 and (number - 3) // CYCLES % 2 == 1
                (wanted.set if busy else wanted.clear)()
                for_them_to_begin_or_end()
                began = time.perf_counter()
                report = await here.worker.cycle.run(state)
                took = time.perf_counter() - began
                assert report.complete, report.error
                if number >= 3:
                    times[busy].append(took)
                await here.clock.sleep(4)

        for one in readers:
            one.start()
        run_virtually(loop, script())
        over.set()
        wanted.set()
        for one in readers:
            one.join(60)
    here.ledger.close()
    loop.close()
    print(f"\n{'one quiet cycle, 1,000 events':<32}{'min':>10}{'median':>10}{'max':>10}   ms of {len(times[False])}")
    for busy, name in ((False, "nobody reads"), (True, f"{READERS} read without a rest")):
        print(f"{name:<32}{spread(times[busy])}")
    middle = [statistics.median(times[busy]) for busy in (False, True)]
    more = f"{(middle[1] - middle[0]) * 1e3:.0f} ms of the {QUICK.interval.total_seconds():.0f} s between two looks"
    print(f"ratio {middle[1] / middle[0]:.1f}: readers take {more}")


def main() -> None:
    """Measures and prints; ends with 1 where a page was too slow."""
    with tempfile.TemporaryDirectory() as name:
        months, crowd = Path(name) / "months", Path(name) / "crowd"
        for folder, events, waiting in ((months, 2000, 1), (crowd, 9, 600)):
            (folder / "rules").mkdir(parents=True)
            (folder / "config.yaml").write_text("{}\n", "utf-8")
            with crowded(folder, records=RECORDS, events=events, waiting=waiting) as ledger:
                size = (folder / "worker.db").stat().st_size / 1e6
                print(f"{folder.name}: {ledger.last_seq()} records of {events} events, {waiting} wait, {size:.0f} MB")
        slow = each_page(months, PAGES)
        slow += each_page(crowd, CROWD)
        beside_readers(months)
    if slow:
        sys.exit(f"slower than {LIMIT_MS:.0f} ms: {', '.join(slow)}")


if __name__ == "__main__":
    main()
