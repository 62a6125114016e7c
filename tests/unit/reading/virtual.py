"""A clock that tests own: it stands still until everything waits, and then goes to the next wake-up."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from functools import wraps
from heapq import heappop, heappush
from inspect import Signature, signature
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
IDLE_AFTER = 100
"""Turns of the event loop after which whoever has not finished is taken to wait for the clock."""


class VirtualClock:
    """Time from zero, moved by ``run`` only."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = count()

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        heappush(self._sleepers, (self.seconds + max(0.0, seconds), next(self._number), woken))
        await woken

    def run(self, story: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end in virtual time. A wait that nothing will end is an error."""
        return asyncio.run(self._drive(story))

    async def _drive(self, story: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(story)
        while True:
            for _ in range(IDLE_AFTER):
                if task.done():
                    return task.result()
                await asyncio.sleep(0)
            if not self._sleepers:
                task.cancel()
                raise AssertionError("everything waits, and nothing will ever wake it")
            wake_at, _, woken = heappop(self._sleepers)
            self.seconds = max(self.seconds, wake_at)
            if not woken.done():
                woken.set_result(None)


def virtually(make: Callable[[], tuple[VirtualClock, tuple[Any, ...]]]) -> Callable[[Callable[..., Any]], Any]:
    """Makes a story a test, which runs in the time of a clock; ``make``: that clock, and what the story is given."""

    def made(story: Callable[..., Any]) -> Callable[..., None]:
        @wraps(story)
        def test(**cases: Any) -> None:  # noqa: ANN401 - what a table has
            clock, given = make()
            clock.run(story(*given, **cases))

        left = [one.replace(kind=one.KEYWORD_ONLY) for one in signature(story).parameters.values()]
        test.__signature__ = Signature(left[len(make()[1]) :])  # type: ignore[attr-defined] # what pytest is to give it
        return test

    return made


def stories_in(make: Callable[..., Any]) -> Callable[..., Callable[[Callable[..., Any]], Any]]:
    """The decorator for stories in what is made so and has a clock; it takes what that is made with."""

    def told(**of: Any) -> Callable[[Callable[..., Any]], Any]:  # noqa: ANN401 - whatever such a world takes
        def one() -> tuple[VirtualClock, tuple[Any, ...]]:
            world = make(**of)
            return world.clock, (world,)

        return virtually(one)

    return told


def no_chance() -> float:
    """The least that could be drawn."""
    return 0.0
