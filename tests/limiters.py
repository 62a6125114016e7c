"""Rate limits as services have them, modelled; and a worker's steady work behind one, in virtual time.

The pacer is the real one, the clock is virtual. Eight readers want more than any limit allows, and now and then a
write asks for its pre-flight: reads that must be young when it leaves, and the write itself.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from random import Random
from typing import Literal, Protocol

from tests.virtual import VirtualClock, VirtualLoop, run_virtually
from worker.model.exchange import Urgency
from worker.model.facts import PartnerId
from worker.reading.gate import Pacer

PARTNER = PartnerId("partner-id-hall")
INTERVAL_S = 3.0
READERS = 8
ANSWER_S = 0.05
ON_THE_WAY_S = 0.005
"""Requests arrive up to so much later than they left, each differently."""
WRITE_EVERY_S = 120.0
PREFLIGHT_READS = 4
"""A boost leans on the event, its setup, the suggested clusters and the budget range."""
FOUND_S, MEASURED_S = 300.0, 600.0

Rate = Callable[[float], float]
"""What is allowed at a second, in requests a minute."""


class Limiter(Protocol):
    """What stands before a service."""

    def admits(self, at: float, per_minute: float) -> bool: ...


@dataclass(slots=True)
class TokenBucket:
    """As nginx, Envoy and most gateways count. ``burst``: requests that pass at once after a rest."""

    burst: float
    tokens: float = float("inf")
    counted_at: float = 0.0

    def admits(self, at: float, per_minute: float) -> bool:
        self.tokens = min(self.burst, self.tokens + per_minute / 60.0 * (at - self.counted_at))
        self.counted_at = at
        if self.tokens < 1.0:
            return False
        self.tokens -= 1.0
        return True


@dataclass(slots=True)
class FixedWindow:
    """So many in each minute of the clock."""

    window: int = -1
    passed: int = 0

    def admits(self, at: float, per_minute: float) -> bool:
        if int(at // 60.0) != self.window:
            self.window, self.passed = int(at // 60.0), 0
        self.passed += 1
        return self.passed <= per_minute


@dataclass(slots=True)
class SlidingWindow:
    """So many in any 60 seconds."""

    passed: deque[float] = field(default_factory=deque)

    def admits(self, at: float, per_minute: float) -> bool:
        while self.passed and self.passed[0] <= at - 60.0:
            self.passed.popleft()
        if len(self.passed) >= per_minute:
            return False
        self.passed.append(at)
        return True


@dataclass(slots=True)
class Strays:
    """A limiter, and a 429 in each minute that has nothing to do with it."""

    of: Limiter
    next_at: float = 30.0

    def admits(self, at: float, per_minute: float) -> bool:
        if at >= self.next_at:
            self.next_at = at + 60.0
            return False
        return self.of.admits(at, per_minute)


LIMITERS: dict[str, Callable[[], Limiter]] = {
    "token bucket, burst 1": lambda: TokenBucket(burst=1.0),
    "token bucket, burst 4": lambda: TokenBucket(burst=4.0),
    "token bucket, burst 20": lambda: TokenBucket(burst=20.0),
    "fixed minute": FixedWindow,
    "sliding minute": SlidingWindow,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request that left: when, what for, and whether it passed."""

    at: float
    kind: Literal["read", "write"]
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """What came of the work behind a limit. ``written``: how long each write took to get through, in seconds."""

    seen: list[Seen]
    written: list[float]
    rate: Rate

    def used(self, begin: float, end: float) -> float:
        """The share of what was allowed that was used."""
        allowed = sum(self.rate(second) for second in range(int(begin), int(end))) / 60.0
        return sum(one.passed for one in self._between(begin, end)) / allowed

    def refused(self, begin: float, end: float, kind: str = "") -> float:
        """The share of the answers that were 429."""
        those = [one for one in self._between(begin, end) if kind in ("", one.kind)]
        return sum(not one.passed for one in those) / max(1, len(those))

    def found_s(self, since: float = 0.0) -> float:
        """How long it took after ``since`` until a minute used 80% of what was allowed, with at most 5% of 429."""
        minutes = range(int(since), int(self.seen[-1].at) - 60)
        fine = (at for at in minutes if self.used(at, at + 60.0) >= 0.8 and self.refused(at, at + 60.0) <= 0.05)
        return next(fine, float("inf")) - since

    def _between(self, begin: float, end: float) -> list[Seen]:
        return [one for one in self.seen if begin <= one.at < end]


@dataclass(slots=True, kw_only=True)
class Work:
    """A worker's requests, and the limit that they meet."""

    loop: VirtualLoop
    limiter: Limiter
    rate: Rate
    chance: Random
    pacer: Pacer
    began: float
    seen: list[Seen] = field(default_factory=list)
    written: list[float] = field(default_factory=list)

    async def ask(self, kind: Literal["read", "write"]) -> bool:
        left = self.loop.time()
        at = left - self.began
        passed = self.limiter.admits(at + self.chance.random() * ON_THE_WAY_S, self.rate(at))
        self.seen.append(Seen(at=at, kind=kind, passed=passed))
        await asyncio.sleep(ANSWER_S)
        if passed:
            self.pacer.answered(PARTNER, began=left)
        else:
            self.pacer.throttled(PARTNER, began=left, retry_after=None)
        return passed

    async def read(self) -> None:
        while True:
            await self.pacer.turn(PARTNER, Urgency.FACT)
            await self.ask("read")

    async def write(self) -> None:
        """Writes now and then; what was held tries again later and later."""
        while True:
            await asyncio.sleep(WRITE_EVERY_S * (0.5 + self.chance.random()))
            wanted, rest_s = self.loop.time(), INTERVAL_S
            while not await self._attempt():
                await asyncio.sleep(rest_s)
                rest_s = min(60.0, 2.0 * rest_s)
            self.written.append(self.loop.time() - wanted)

    async def _attempt(self) -> bool:
        places = await self.pacer.keep(PARTNER, Urgency.PREFLIGHT, PREFLIGHT_READS + 1)
        by = self.loop.time() + 0.9 * INTERVAL_S
        try:
            for _ in range(PREFLIGHT_READS):
                if not (await places.take() and await self.ask("read")):
                    return False
            return await places.take(by=by) and await self.ask("write")
        finally:
            places.give_back()


def steady_work(
    limiter: Limiter, rate: Rate, *, nominal: float, seed: int = 1, lasts_s: float = FOUND_S + MEASURED_S
) -> Behind:
    """A worker that wants more than is allowed, for so long."""
    loop, chance = VirtualLoop(), Random(seed)
    pacer = Pacer(per_minute=nominal, clock=VirtualClock(loop), chance=chance.random, interval_s=INTERVAL_S)
    work = Work(loop=loop, limiter=limiter, rate=rate, chance=chance, pacer=pacer, began=loop.time())

    async def play() -> None:
        tasks = [asyncio.ensure_future(one) for one in (work.write(), *(work.read() for _ in range(READERS)))]
        await asyncio.sleep(lasts_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await pacer.aclose()

    with closing(loop):
        run_virtually(loop, play())
    return Behind(seen=work.seen, written=work.written, rate=rate)
