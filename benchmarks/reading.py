"""How soon a change is seen under a budget: 10,000 events on 100 pages, at 60, 300 and 1,200 requests a minute.

The worker's own cycle (client, pacing, plan, rules, ledger) runs under virtual time against a service that answers at
once. Three questions, each against two marks: the bound that the budget sets, and a poller that asks every event and
its four facts in turn, at the same budget, for the same changes.

- ``list``: a field of the list (an event is cancelled). The bound is half a sweep over the pages.
- ``fact``: a fact that costs a request per event (its suggested clusters), of which only a tenth of the events can
  still meet the condition; a tenth of those change twenty times as often as the others, which the worker has to find
  out. The bound is square-root sharing, with the rates known, of the budget less what the list took.
- ``soon``: 1,000 events and a budget that is not short, up to the first byte of the write. The bound is half the
  interval, and the requests on the way.

*Requests a change* is what it took to find one change, and what the poller in turn would need to find it as soon.

``REQUESTS`` changes how many requests each world lasts (default 12,000); arguments name the questions that are asked.
``--record`` keeps the figures in benchmarks/recorded/delays.json, of which `make docs` draws docs/delays.svg.
Deterministic. Beyond the tables, the script ends with 1 where a target is missed.
"""

import json
import os
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import sqrt
from pathlib import Path
from random import Random
from statistics import fmean
from typing import NamedTuple

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

from tests.twin import TwinTransport
from tests.virtual import EPOCH, VirtualLoop, run_virtually
from tests.worlds import PARTNER, PAUSE, QUICK, Town, happening, rule_set, world
from worker.engine.views import DecidingSettings as Deciding
from worker.model.rules import Surge
from worker.model.writes import Mode
from worker.sandbox.changes import EventChange
from worker.sandbox.service import Twin

EVENTS, PAGE = 10_000, 100
REQUESTS = int(os.environ.get("REQUESTS", "12000"))
BUDGETS = (60, 300, 1200)
LIVELY, OFTEN = 10, 20.0
"""One event in ten that can still meet the condition changes so many times as often as the others."""
CHANGES_A_REQUEST = 1 / 12
"""Changes of facts in the whole world for each request of the budget, so that each budget meets the same task. One that
changes often does so about once between two of its readings."""
FACT_LASTS = 6.0
"""A fact's world lasts so many times ``REQUESTS``: two dozen visits to each event that is wanted, so that most of what
is measured comes after most has been learnt."""
LEARNING = 0.5
"""The share of a fact's world that is only for finding out how often each changes; what changes later is measured."""
FACTS_OF_EACH = 4
WATCH = """
rules:
  - id: other-clusters
    on_change: suggested_tcs
    with: {budget: 500, goal: ROAS}
    when: event.category == 'open'
    do: [boost]
"""


@dataclass(slots=True)
class Seen:
    """When each request left, as the service saw it: of facts by event, of writes by event."""

    facts: dict[str, list[float]] = field(default_factory=dict)
    writes: dict[str, float] = field(default_factory=dict)
    requests: int = 0


class Shortened(TwinTransport):
    """The twin, but that pages of the list come from prepared bytes: what is measured is the worker."""

    def __init__(self, twin: Twin, town: Town, seen: Seen, latency_s: float) -> None:
        super().__init__(twin, clock=town.loop.time, sleep=town.clock.sleep)
        self._town, self._seen, self._latency_s = town, seen, latency_s
        self._pages: dict[int, bytes] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        parts = request.url.path.split("/")
        self._seen.requests += 1
        if request.method == "PUT":
            self._seen.writes.setdefault(parts[-2], self._town.at)
        if parts[-1] == "suggested_tcs":
            self._seen.facts.setdefault(parts[-2], []).append(self._town.at)
        if self._latency_s:
            await self._town.clock.sleep(self._latency_s)
        if request.url.path.endswith("/events/"):
            body = self._page(int(request.url.params.get("page", "1")))
            return httpx.Response(200, content=body, headers={"content-type": "application/json"}, request=request)
        return await super().handle_async_request(request)

    def _page(self, number: int) -> bytes:
        if number not in self._pages:
            events = self._town.twin.world.listing(PARTNER, None)
            items = [one.record for one in events[(number - 1) * PAGE : number * PAGE]]
            answer = {"total": len(events), "limit": PAGE, "page": number, "items": items}
            self._pages[number] = json.dumps(answer).encode()
        return self._pages[number]

    def forget(self, event: int) -> None:
        """The page of an event that has changed is made anew."""
        self._pages.pop(event // PAGE + 1, None)


def name(number: int) -> str:
    """The id of an event; the list is in the order of ids."""
    return f"e{number:05}"


class Hall(Town):
    """A town whose client is watched; see `Shortened`."""

    def prepare(self, latency_s: float) -> None:
        """Puts the watch on the wire. Before `start`."""
        self.seen = Seen()
        self.short = Shortened(self.twin, self, self.seen, latency_s)

    def wire(self, twin: Twin) -> TwinTransport:
        assert twin is self.twin
        return self.short

    def cancel(self, event: int) -> None:
        """The event is called off."""
        self.set(name(event), status="cancelled")
        self.short.forget(event)


Happening = tuple[float, int]
"""A second, and the number of the event to which something happens then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one world gave: the mean delay in seconds, of how many changes, and what it cost. ``happened``: all changes,
    those included that happened before any was measured."""

    delay_s: float
    changes: int
    happened: int
    requests: int
    facts_per_s: float
    cpu_s: float


def play(
    events: int, rules: str, budget: int, script: "Script", latency_s: float = 0.0, mode: Mode = "shadow"
) -> Found:
    """One world from start to end. The worker meets every event first; only then does anything happen."""
    loop = VirtualLoop()
    surge = Surge(events=events, within=timedelta(minutes=10))  # what is measured is reading, not brakes
    deciding = Deciding(mode=mode, surge=surge)
    limits = replace(QUICK.limits, writes_per_hour=100_000)
    settings = replace(QUICK, deciding=deciding, limits=limits, page_size=PAGE, requests_per_minute=budget)
    crowd = [happening(name(number), category="open" if number % 10 == 0 else "closed") for number in range(events)]
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        town = Hall(loop, Twin(world(*crowd)), Path(folder), rule_set(rules), settings)
        town.prepare(latency_s)

        async def run() -> None:
            town.start()
            while not town.reports or not town.reports[-1].complete:
                await town.run(3)
            await script(town)

        run_virtually(loop, run())
        found = script.found(town, time.process_time() - began)
        town.ledger.close()
    loop.close()
    return found


class Script:
    """What happens in one world, and how it is judged."""

    def __init__(self, happenings: list[Happening], lasting_s: float) -> None:
        self.happenings, self.lasting_s = happenings, lasting_s
        self.measured = happenings
        self.zero = 0.0
        self.asked_before = 0

    async def __call__(self, town: Hall) -> None:
        self.zero, self.asked_before = town.at, town.seen.requests
        for at, event in self.happenings:
            town.loop.call_at(town.loop.time() + at, self.happen, town, event)
        await town.run(self.lasting_s)

    def happen(self, town: Hall, event: int) -> None:
        raise NotImplementedError

    def delays(self, town: Hall) -> list[float]:
        raise NotImplementedError

    def found(self, town: Hall, cpu_s: float) -> Found:
        """The mean of what was found; what was never found is a fault of the benchmark and ends it."""
        delays = self.delays(town)
        lasted = town.at - self.zero
        return Found(
            delay_s=fmean(delays),
            changes=len(delays),
            happened=len(self.happenings),
            requests=town.seen.requests - self.asked_before,
            facts_per_s=sum(at > self.zero for each in town.seen.facts.values() for at in each) / lasted,
            cpu_s=cpu_s,
        )


class Cancelled(Script):
    """Events are called off; found when the rule fired, which is on the record."""

    def happen(self, town: Hall, event: int) -> None:
        town.cancel(event)

    def delays(self, town: Hall) -> list[float]:
        fired = {one["event"]: datetime.fromisoformat(one["at"]) for one in town.log("fired")}
        found = []
        for at, event in self.happenings:
            assert name(event) in fired, f"{name(event)} was called off at {at:.0f} s and never seen"
            found.append((fired[name(event)] - EPOCH).total_seconds() - self.zero - at)
        return found


class Paused(Cancelled):
    """The same, up to the first byte of the write."""

    def delays(self, town: Hall) -> list[float]:
        return [town.seen.writes[name(event)] - self.zero - at for at, event in self.happenings]


class Clustered(Script):
    """Other clusters are suggested; found when that was asked for the first time after the change."""

    def happen(self, town: Hall, event: int) -> None:
        items = [{"tc": "other", "tc_run_id": str(round(town.at * 1000))}]
        change = EventChange(event=name(event), partner=PARTNER, suggested_tcs=items)
        town.twin.change(change, town.loop.time())

    def __init__(self, happenings: list[Happening], lasting_s: float) -> None:
        super().__init__(happenings, lasting_s)
        self.measured = [(at, event) for at, event in happenings if at >= lasting_s * LEARNING]

    def delays(self, town: Hall) -> list[float]:
        found = []
        for at, event in self.measured:
            reads = town.seen.facts.get(name(event), [])
            later = bisect_right(reads, self.zero + at)
            if later < len(reads):
                found.append(reads[later] - self.zero - at)
        assert len(found) > 0.8 * len(self.measured), "the world ended too soon"
        return found


def in_turn(happenings: Iterable[Happening], budget: int, events: int) -> float:
    """The poller that asks for every event and its four facts, one after the other: its mean delay. An event's own
    record is the first of its five, and what it shows is found at once."""
    each_s = (1 + FACTS_OF_EACH) * 60.0 / budget
    return fmean((event * each_s - at) % (events * each_s) for at, event in happenings)


def square_root_bound(budget_per_s: float, rates: list[float]) -> float:
    """The least mean delay with which so many reads a second can see changes that come at these rates."""
    roots = sum(sqrt(rate) for rate in rates)
    return roots * roots / (2.0 * budget_per_s * sum(rates))


def list_world(budget: int) -> list[str]:
    """A field of the list."""
    chance = Random(budget)
    lasting = (
        REQUESTS * 60.0 / budget
    )  # three or four in a sweep: more than five are a burst, for which the whole counts
    sweep = EVENTS / PAGE * 60.0 / budget
    hits = chance.sample(range(EVENTS), 400)
    happenings = sorted((chance.uniform(0.0, lasting - 4 * sweep), event) for event in hits)
    found = play(EVENTS, PAUSE, budget, Cancelled(happenings, lasting))
    bound = max(1.5, sweep / 2.0)
    return row("list", budget, found, Marks(bound, in_turn(happenings, budget, EVENTS)), (1.15, 100.0))


def fact_world(budget: int) -> list[str]:
    """A fact of single events."""
    chance = Random(budget)
    lasting = REQUESTS * FACT_LASTS * 60.0 / budget
    able = range(0, EVENTS, 10)
    weights = [OFTEN if chance.random() < 1.0 / LIVELY else 1.0 for _ in able]
    count = round(REQUESTS * FACT_LASTS * CHANGES_A_REQUEST)
    hits = chance.choices(able, weights, k=count)
    happenings = sorted((chance.uniform(0.0, lasting), event) for event in hits)
    script = Clustered(happenings, lasting)
    found = play(EVENTS, WATCH, budget, script)
    bound = square_root_bound(found.facts_per_s, weights)
    naive, evenly = in_turn(script.measured, budget, EVENTS), len(able) / found.facts_per_s / 2.0
    return row("fact", budget, found, Marks(bound, naive, evenly), (1.15, 15.0))


def soon_world(latency_s: float) -> list[str]:
    """1,000 events, and a budget that is not short, up to the first byte of the write."""
    chance = Random(3)
    lasting = 1500.0
    hits = chance.sample(range(1000), 100)
    happenings = sorted((10.0 + index * 14.0 + chance.uniform(0.0, 10.0), event) for index, event in enumerate(hits))
    found = play(1000, PAUSE, 1200, Paused(happenings, lasting), latency_s=latency_s, mode="live")
    bound = 1.5 + 2 * latency_s
    what = f"soon, answers after {latency_s * 1000:.0f} ms"
    return row(what, 1200, found, Marks(bound, in_turn(happenings, 1200, 1000)), (1.1, 1.0))


MISSED: list[str] = []
RECORDED: list[dict[str, str | float | None]] = []
RECORD = Path(__file__).resolve().parent / "recorded" / "delays.json"


class Marks(NamedTuple):
    """What a delay is measured against, in seconds. ``evenly``: the list first, and then those events in turn that can
    still meet the condition."""

    bound: float
    in_turn: float
    evenly: float | None = None


def row(what: str, budget: int, found: Found, marks: Marks, targets: tuple[float, float]) -> list[str]:
    """A line of the table; what misses its target is noted."""
    over, sooner = found.delay_s / marks.bound, marks.in_turn / found.delay_s
    if over > targets[0] or sooner < targets[1]:
        MISSED.append(f"{what} at {budget}: {over:.2f} x the bound (at most {targets[0]}), {sooner:.0f} x sooner")
    each = found.requests / found.happened
    RECORDED.append(
        {
            "what": what,
            "budget": budget,
            "delay_s": round(found.delay_s, 2),
            "bound_s": round(marks.bound, 2),
            "in_turn_s": round(marks.in_turn, 1),
            "evenly_s": None if marks.evenly is None else round(marks.evenly, 1),
        }
    )
    cells = [what, f"{budget:,}", f"{found.changes}", f"{found.delay_s:.1f}", f"{marks.bound:.1f}", f"{over:.2f}"]
    cells += [f"{marks.in_turn:,.0f}", f"{sooner:,.0f}", f"{each:,.1f}", f"{each * sooner:,.0f}", f"1/{sooner:,.0f}"]
    return [*cells, f"{found.cpu_s:.0f}"]


HEAD = ("what", "budget", "changes", "mean delay s", "bound s", "ratio", "in turn s", "sooner",
        "requests a change", "in turn, as soon", "share", "CPU s")  # fmt: skip


def record() -> None:
    """Keeps the figures beside those of other questions."""
    stands = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else []
    fresh = {(one["what"], one["budget"]) for one in RECORDED}
    kept = [one for one in stands if (one["what"], one["budget"]) not in fresh]
    RECORD.parent.mkdir(exist_ok=True)
    lines = sorted(json.dumps(one) for one in (*kept, *RECORDED))
    RECORD.write_text("[\n  " + ",\n  ".join(lines) + "\n]\n", encoding="utf-8")


def main() -> None:
    """Measures and prints."""
    worlds: list[tuple[Callable[..., list[str]], tuple[float | int, ...]]] = [
        *((list_world, (budget,)) for budget in BUDGETS),
        *((fact_world, (budget,)) for budget in BUDGETS),
        (soon_world, (0.0,)),
        (soon_world, (0.2,)),
    ]
    wanted = [one for one in sys.argv[1:] if one != "--record"]
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}", flush=True)
    for make, arguments in worlds:
        if not wanted or make.__name__.split("_")[0] in wanted:
            print(f"| {' | '.join(make(*arguments))} |", flush=True)
    for one in MISSED:
        print(f"missed: {one}")
    if "--record" in sys.argv:
        record()
    sys.exit(1 if MISSED else 0)


main()
