"""Tells browsers that there is something new to see, so that none has to ask again and again (server-sent events).

However many watch, the ledger is asked once in `LOOK_EVERY_S`, and nobody who watches is waited for: a stream has its
own place on the page's loop, there are only so many of them, and each ends by itself. A browser then opens it anew.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from worker.model.errors import WorkerError
from worker.model.exchange import Clock

NEWS = "/news"
STREAMS_MAX = 32
LOOK_EVERY_S = 2.0
STREAM_FOR_S = 540.0
"""Less than the time that one answer may take."""


class Watchers:
    """``newest`` says in one word what there is to see now: another word is news."""

    def __init__(self, newest: Callable[[], str], clock: Clock) -> None:
        self._newest = newest
        self._clock = clock
        self._looking = asyncio.Lock()
        self._word, self._until = "", float("-inf")
        self._streams = 0

    @property
    def full(self) -> bool:
        """Whether so many watch that nobody else can."""
        return self._streams >= STREAMS_MAX

    async def stream(self) -> AsyncIterator[str]:
        """The word of now and each other one that follows. A comment in between, or nobody would notice a browser that
        has gone."""
        self._streams += 1
        try:
            said, ends = "", self._clock.monotonic() + STREAM_FOR_S
            while self._clock.monotonic() < ends:
                word = await self._look()
                yield f"data: {word}\n\n" if word != said else ":\n\n"
                said = word
                await self._clock.sleep(LOOK_EVERY_S)
        except WorkerError:  # the ledger cannot be read now; the browser asks again
            return
        finally:
            self._streams -= 1

    async def _look(self) -> str:
        async with self._looking:
            now = self._clock.monotonic()
            if now >= self._until:
                self._word = await asyncio.to_thread(self._newest)
                self._until = now + LOOK_EVERY_S / 2
            return self._word
