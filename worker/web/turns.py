"""One page at a time, and never more than half of the time: a busy page must slow no cycle.

Page and daemon share one interpreter, which runs one of them at a time. So pages are made one after the other, on a
thread beside the page's own loop, and after each the next one waits for as long as that one took. Somebody who leafs
through the log notices nothing; a hundred browsers at once wait for each other, not the daemon for them. Who would wait
too long is turned away at once.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from worker.model.exchange import Clock

T = TypeVar("T")
WAITING_MAX = 40
REST_MAX_S = 0.5


class TooBusy(Exception):
    """More are waiting than can be answered soon."""


class Turns:
    """Runs work one by one, with a rest after each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._free = asyncio.Lock()
        self._waiting = 0
        self._rested_at = float("-inf")

    async def run(self, work: Callable[[], T]) -> T:
        """The result of the work, made on another thread. Raises `TooBusy` where the line is too long."""
        if self._waiting >= WAITING_MAX:
            raise TooBusy
        self._waiting += 1
        try:
            async with self._free:
                await self._clock.sleep(self._rested_at - self._clock.monotonic())
                began = self._clock.monotonic()
                try:
                    return await asyncio.to_thread(work)
                finally:
                    ended = self._clock.monotonic()
                    self._rested_at = ended + min(ended - began, REST_MAX_S)
        finally:
            self._waiting -= 1
