"""Virtual time for tests: an event loop whose clock jumps to the next timer instead of waiting.

Real code, real asyncio, no sleeping: when nothing is ready, the selector "waits" by moving the loop's time. A test that
takes an hour of the worker's time takes milliseconds of ours.
"""

import asyncio
import selectors
from collections.abc import AsyncIterator, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")
EPOCH = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
"""Wall time at virtual second 0 of every test."""


class _JumpingSelector(selectors.SelectSelector):
    """Never blocks: it moves the time of its loop by the time it was asked to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("every task waits for something that nobody will do")
            self.now += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop under virtual time."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def jump(self, seconds: float) -> None:
        """Moves time as a suspended process would see it: nothing ran meanwhile."""
        self._jumping.now += seconds

    def put_back(self, to: float) -> None:
        """It is that second again, for those who begin now; whoever ran meanwhile must have ended."""
        self._jumping.now = to

    def close(self) -> None:
        """Ends the generators that are still open, as `asyncio.run` does."""
        if not self.is_closed():
            self.run_until_complete(self.shutdown_asyncgens())
        super().close()


class VirtualClock:
    """The clock port over a virtual loop. ``skew`` moves the wall clock alone."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._start = loop.time()
        self.skew = timedelta(0)

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self._loop.time() - self._start) + self.skew

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


def run_virtually(loop: VirtualLoop, work: Coroutine[Any, Any, T]) -> T:
    """Runs to the end under virtual time, and leaves nothing running."""
    try:
        return loop.run_until_complete(work)
    finally:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))


async def last(items: AsyncIterator[T]) -> T:
    """The last of them: a list that was read to its end."""
    found = [item async for item in items]
    return found[-1]
