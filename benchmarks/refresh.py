"""CPU of reading the whole list again: 10,000 events of 48 fields on 100 pages, under 20 rules.

The worker's own cycle (client, pacing, decoding, state, decision, ledger), against the least that anybody could do:
the same pages over the same HTTP client, decoded by msgspec into plain objects, and nothing else. Both get prepared
bytes from the same transport. Five lists: the same bytes as before; one event in a hundred has changed, on every page,
or every event, in fields that neither a rule nor the document names, so that the page is another one and nothing is to
be decided; and the same in fields that rules look at, which the worker also decides on, logs and stores. For scale,
decoding with ``json.loads`` has a line too.

Virtual time, so that waits cost nothing. Before the measuring stands the first look of all, some 30 s. ``EVENTS`` and
``RUNS`` change the size. CPU milliseconds. The script ends with 1 where a list that has not changed takes more than 1.3
times what httpx and msgspec take, or where reading one that has takes more than 5% of a core in the time in which the
default request quota lets it be read.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import httpx
import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

from benchmarks.rivals import origin
from tests.twin import BASE_URLS, TwinTransport
from tests.virtual import VirtualLoop, run_virtually
from tests.worlds import PARTNER, QUICK, Town, happening, rule_set, world
from worker.engine.daemon import keep
from worker.engine.state import PartnerState
from worker.engine.views import DecidingSettings as Deciding
from worker.sandbox.service import Twin

EVENTS = int(os.environ.get("EVENTS", "10000"))
RUNS = int(os.environ.get("RUNS", "5"))
PAGE, OTHERS, RULES = 100, 30, 20
WANTED = 1.3
"""Times httpx and msgspec, for a list that has not changed."""
PER_MINUTE, SHARE = 300, 0.05
"""The default of `requests.per_minute`, and how much of a core reading may take at that pace."""
UNSEEN = ("other_7", "other_8")
"""Fields that neither a rule nor the document names."""
SEEN = ("predicted_sales_share", "capacity", "other_7")
LEAST = "httpx and msgspec, nothing else"
BARE: dict[str, Callable[[bytes], Any]] = {LEAST: msgspec.json.decode, "httpx and json.loads": json.loads}
CHANGED: dict[str, tuple[float, tuple[str, ...]]] = {
    "the worker: the same bytes": (0.0, ()),
    "the worker: one event in a hundred has changed, in what no rule looks at": (0.01, UNSEEN),
    "the worker: every event has changed, in what no rule looks at": (1.0, UNSEEN),
    "the worker: one event in a hundred has changed, in what rules look at": (0.01, SEEN),
    "the worker: every event has changed, in what rules look at": (1.0, SEEN),
}
"""Which share of the events of each page has changed, and in which fields."""
DECIDED = frozenset(name for name, (_, fields) in CHANGED.items() if fields == SEEN)
"""Where more is done than to read."""
Record = dict[str, Any]


class Prepared(TwinTransport):
    """The twin, but that pages of the list come from bytes that were made before."""

    pages: list[bytes]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events/"):
            body = self.pages[int(request.url.params.get("page", "1")) - 1]
            return httpx.Response(200, content=body, headers={"content-type": "application/json"}, request=request)
        return await super().handle_async_request(request)


class Here(Town):
    """A town whose client reads prepared pages."""

    transports: list[Prepared]

    def wire(self, twin: Twin) -> TwinTransport:
        made = Prepared(twin, clock=self.loop.time, sleep=self.clock.sleep)
        self.transports.append(made)
        return made


def events() -> list[Record]:
    """The events of the service, with more fields than the document names."""
    chance = Random(20261121)
    more = [{f"other_{index}": chance.random() for index in range(OTHERS)} for _ in range(EVENTS)]
    return [dict(happening(f"e{number:05}", **more[number]).record) for number in range(EVENTS)]


def change(chance: Random, found: list[Record], share: float, fields: tuple[str, ...]) -> None:
    """Some events on every page have other values in these fields; none of them turns a condition."""
    for first in range(0, len(found), PAGE):
        for index in chance.sample(range(first, first + PAGE), round(PAGE * share)):
            found[index] = {**found[index], **{field: other(chance, field) for field in fields}}


def other(chance: Random, field: str) -> float:
    """Another value of a field."""
    if field == "capacity":
        return chance.randint(100, 900)
    return round(chance.uniform(0.1, 0.9), 6)


def pages_of(found: list[Record]) -> list[bytes]:
    """The answers of the service."""
    numbers = range(1, len(found) // PAGE + 1)
    return [
        json.dumps(
            {"total": EVENTS, "limit": PAGE, "page": page, "items": found[(page - 1) * PAGE : page * PAGE]}
        ).encode()
        for page in numbers
    ]


def rules() -> str:
    """Rules that look at the events' records, none of which is true."""
    texts = [
        f"event.status == 'cancelled' && event.city == 'City {index}'"
        if index % 2
        else f"event.predicted_sales_share > 0.9{index:02} || event.capacity > {1000 + index}.0"
        for index in range(RULES)
    ]
    return "rules:\n" + "".join(f'  - {{id: r{n:02}, when: "{text}", do: [pause]}}\n' for n, text in enumerate(texts))


def measured(folder: Path) -> dict[str, list[float]]:
    """CPU seconds of the bare readers and of the worker's cycles over each kind of list, turn by turn."""
    loop, chance, found = VirtualLoop(), Random(1), events()
    crowd = [happening(str(one["id"])) for one in found[:1]]
    settings = replace(QUICK, page_size=PAGE, requests_per_minute=60_000, deciding=Deciding(mode="shadow"))
    Here.transports = []
    here = Here(loop, Twin(world(*crowd)), folder, rule_set(rules()), settings)
    times: dict[str, list[float]] = {name: [] for name in (*BARE, *CHANGED)}
    Prepared.pages = pages_of(found)
    transport = Prepared(Twin(world()), clock=loop.time, sleep=here.clock.sleep)

    async def cycle(state: PartnerState) -> float:
        began = time.process_time()
        report = await here.worker.cycle.run(state)
        took = time.process_time() - began
        assert (report.complete, report.events, report.fired) == (True, EVENTS, 0), report
        await here.clock.sleep(4)
        return took

    async def script() -> None:
        here.start()
        state = here.worker.states[PARTNER]
        while len(state.due) < EVENTS:
            await here.run(3)
        keep()  # as the daemon does after a first look
        async with httpx.AsyncClient(transport=transport, base_url=BASE_URLS["api"]) as client:
            await bare(client, json.loads)
            for _ in range(RUNS):
                for name, (share, fields) in CHANGED.items():
                    change(chance, found, share, fields)
                    Prepared.pages = pages_of(found)
                    times[name].append(await cycle(state))
                for name, decode in BARE.items():
                    times[name].append(await bare(client, decode))

    run_virtually(loop, script())
    here.ledger.close()
    loop.close()
    return times


async def bare(client: httpx.AsyncClient, decode: Callable[[bytes], Any]) -> float:
    """CPU seconds of the same pages, read and decoded, and nothing else."""
    began = time.process_time()
    seen = []
    for page in range(1, EVENTS // PAGE + 1):
        answer = await client.get("/events/", params={"limit": PAGE, "page": page})
        seen.append(decode(answer.content))
    return time.process_time() - began


def main() -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder))
    middles = {name: statistics.median(times) for name, times in found.items()}
    base = middles[LEAST]
    print(origin(["httpx", "msgspec"]))
    print(f"{EVENTS} events on pages of {PAGE}, {RULES} rules, {RUNS} runs; CPU milliseconds")
    print("| what | min | median | max | ratio |\n|---|---|---|---|---|")
    for name, times in found.items():
        spread = f"{min(times) * 1e3:.0f} | {middles[name] * 1e3:.0f} | {max(times) * 1e3:.0f}"
        print(f"| {name} | {spread} | {middles[name] / base:.2f} |")
    most = SHARE * 60.0 * (EVENTS / PAGE) / PER_MINUTE
    late = any(middles[name] > most for name in CHANGED if name not in DECIDED)
    sys.exit(1 if late or middles["the worker: the same bytes"] > WANTED * base else 0)


if __name__ == "__main__":
    main()
