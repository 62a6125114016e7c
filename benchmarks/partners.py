"""A thousand partners of ten events: whether every one of them is looked at every 3 seconds, and what that takes.

The whole daemon (scheduler, client, pacing, rules, ledger) and the twin in one process, on real time, with two rules
and nothing happening, once every partner was met. Where a partner's next look began two intervals after the one before,
or later, the looks between are counted as skipped. Beside it, in the same run, the least that anybody could do: the
same requests, as many a second, with bare httpx and `json.loads` against the same twin. The twin's work is in both.

``PARTNERS``, ``EVENTS`` (of each) and ``SECONDS`` change the size (1,000, 10 and 60). Ends with 1 where a look was
skipped.
"""

import asyncio
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

from tests.twin import BASE_URLS, TwinTransport
from tests.virtual import VirtualLoop
from tests.worlds import PAUSE, QUICK, Town, happening, rule_set, tenant
from worker.engine.daemon import Daemon
from worker.engine.ports import CycleReport, Parts
from worker.ledger.sql import SqlLedger
from worker.model.facts import Json, PartnerId
from worker.model.rules import RuleSet
from worker.sandbox.service import Twin
from worker.sandbox.world import TwinWorld
from worker.system import SystemClock

PARTNERS = int(os.environ.get("PARTNERS", "1000"))
EVENTS = int(os.environ.get("EVENTS", "10"))
SECONDS = float(os.environ.get("SECONDS", "60"))
EVERY_S = QUICK.interval.total_seconds()
PATIENCE_S = 300.0
RULES = (
    PAUSE
    + """  - id: run-flagged
    when: event.frontend_status == 'FLAGGED' && event.predicted_sales_share > 0.9
    do: [run]
"""
)
IDS = [PartnerId(f"partner-id-{number:04}") for number in range(PARTNERS)]


def twin() -> Twin:
    """The twin of all partners; nothing ever happens in it."""
    return Twin(TwinWorld(tenant(one, *(happening(f"{one[-4:]}-{number}") for number in range(EVENTS))) for one in IDS))


class Rules:
    """The rules, which stay as they are."""

    def files_hash(self) -> str:
        """Always the same."""
        return "same"

    async def load(self) -> RuleSet:
        """The rules."""
        return rule_set(RULES)


@dataclass(slots=True)
class Heard:
    """Hears of every look: when it ended, how long it took, and what went wrong. ``slow``: the longest turn that the
    event loop kept to itself."""

    ended: dict[PartnerId, list[float]] = field(default_factory=dict)
    took_ms: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)

    def cycle(self, report: CycleReport) -> None:
        """One look."""
        assert report.complete, report.error
        self.ended.setdefault(report.partner, []).append(time.monotonic() - report.took_ms / 1e3)
        self.took_ms.append(report.took_ms)

    def note(self, message: str, **_: object) -> None:
        """Something worth knowing."""
        self.said.append(message)

    def alarm(self, message: str, **keys: object) -> None:
        """Something that a person should look at."""
        self.said.append(f"{message} {keys}")

    async def turns(self) -> None:
        """How late a timer of 50 ms comes, again and again: nobody else has a turn meanwhile either."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.05)
            self.late_s.append(time.monotonic() - began - 0.05)


def nothing(_: PartnerId) -> Mapping[str, Json]:
    """No figures of budgets."""
    return {}


async def played(folder: Path) -> tuple[Heard, float, float, int]:
    """The daemon for so long, once it has met everybody; processor seconds, seconds, and megabytes resident."""
    clock = SystemClock()
    here = Town(VirtualLoop(), twin(), folder, rule_set(RULES), replace(QUICK, requests_per_minute=600))
    here.clock = clock  # type: ignore[assignment] # real time
    here.wire = lambda twin: TwinTransport(twin, clock=clock.monotonic, sleep=clock.sleep)  # type: ignore[method-assign]
    service, gate, pacer = here.client(here.twin)
    heard = Heard()
    with SqlLedger.open(f"sqlite:///{folder / 'worker.db'}", clock_now=clock.now) as ledger:
        parts = Parts(clock=clock, service=service, ledger=ledger, settings=here.settings)
        daemon = Daemon(parts, source=Rules(), reporter=heard, pid=os.getpid(), budgets=nothing)
        running = asyncio.ensure_future(daemon.run())
        deadline = time.monotonic() + PATIENCE_S
        while sum(len(ended) > 3 for ended in heard.ended.values()) < PARTNERS:
            assert time.monotonic() < deadline, f"{len(heard.ended)} partners met; {heard.said[-3:]}"
            assert not running.done(), running.exception()
            await asyncio.sleep(1)
        heard.ended.clear()
        heard.took_ms.clear()
        turns = asyncio.ensure_future(heard.turns())
        began, used = time.monotonic(), time.process_time()
        await asyncio.sleep(SECONDS)
        used, took = time.process_time() - used, time.monotonic() - began
        turns.cancel()
        daemon.stop()
        await running
        await gate.aclose()
        await pacer.aclose()
        await service.aclose()
    return heard, used, took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def bare(requests: int) -> float:
    """Processor seconds of so many of the same requests, decoded, and nothing else."""
    clock = SystemClock()
    transport = TwinTransport(twin(), clock=clock.monotonic, sleep=clock.sleep)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URLS["api"]) as client:
        signed = await client.post("/auth", json={"username": "sandbox", "password": "sandbox"})
        token = json.loads(signed.content)["AccessToken"]
        used = time.process_time()
        for number in range(requests):
            head = {"Authorization": f"Bearer {token}", "X-Preferred-Partner-Id": IDS[number % PARTNERS]}
            answer = await client.get("/events/", params={"limit": 100}, headers=head)
            assert len(json.loads(answer.content)["items"]) == EVENTS
        return time.process_time() - used


def main() -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as folder:
        heard, used, took, memory_kb = asyncio.run(played(Path(folder)))
    looks = [len(ended) for ended in heard.ended.values()]
    gaps = [later - one for ended in heard.ended.values() for one, later in pairwise(ended)]
    skipped = sum(max(0, round(gap / EVERY_S) - 1) for gap in gaps)
    base = asyncio.run(bare(sum(looks)))
    print(f"{PARTNERS} partners of {EVENTS} events, 2 rules, {took:.0f} s; the twin in the same process")
    print("| what | min | median | max |\n|---|---|---|---|")
    for name, values in (
        ("looks at one partner", looks),
        ("s from a look to the partner's next", gaps),
        ("ms that a look took", heard.took_ms),
        ("ms that the event loop was late", [late * 1e3 for late in heard.late_s]),
    ):
        print(f"| {name} | {min(values):.1f} | {statistics.median(values):.1f} | {max(values):.1f} |")
    print(f"looks skipped: {skipped}; partners without a look: {PARTNERS - len(looks)}; {sorted(set(heard.said))}")
    print(f"CPU: {100 * used / took:.0f}% of one core, {memory_kb / 1e3:.0f} MB at the most")
    print(f"the same {sum(looks)} requests alone: {100 * base / took:.0f}%; ratio {used / base:.1f}")
    sys.exit(1 if skipped or len(looks) < PARTNERS else 0)


main()
