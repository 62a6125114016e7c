"""Virtual time: an event loop whose clock jumps to the next timer, so that hours of the worker pass in no time.

Real code runs on real asyncio, and nothing sleeps: where no callback is ready, "waiting" moves the loop's time. One
that waits for what nobody will do is a defect of the caller, and raises.
"""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from selectors import SelectorKey, SelectSelector


class _Jumping(SelectSelector):
    """Waits for no file: it moves the time of its loop by the time that it was asked to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Nothing is ever ready."""
        if timeout is None:
            raise RuntimeError("every task waits for something that nobody will do")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop under virtual time."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds of virtual time."""
        return self._jumping.now

    def move_to(self, second: float) -> None:
        """It is that second now, to the last digit; for who has seen to it that nobody waits for one before."""
        self._jumping.now = max(self._jumping.now, second)


class VirtualClock:
    """The `Clock` port on a virtual loop: it shows ``start`` now."""

    def __init__(self, loop: VirtualLoop, start: datetime) -> None:
        self._loop = loop
        self._start = start
        self._began = loop.time()

    def now(self) -> datetime:
        """The time of day."""
        return self._start + timedelta(seconds=self._loop.time() - self._began)

    def monotonic(self) -> float:
        """See `Clock`."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Moves time, where nobody else has anything to do before."""
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.get_running_loop().create_future(), max(0.0, seconds))
