"""The daemon's sign of life: a task on its loop that says when it last moved.

A process can stand and do nothing: a loop that hangs neither decides nor settles, and looks well from outside. The page
asks the pulse for ``/healthz``, and the service manager is told by it.
"""

from collections.abc import Callable

from worker.model.exchange import Clock

BEAT_S = 1.0


class Pulse:
    """Beats on the loop where `beating` runs; may be asked from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.monotonic()

    def silence(self) -> float:
        """For how long the loop has not moved, in seconds; less than a beat or two where all is well."""
        return self._clock.monotonic() - self._last

    async def beating(self, told: Callable[[], None] = lambda: None) -> None:
        """Beats until it is cancelled; ``told`` is called at every beat."""
        while True:
            self._last = self._clock.monotonic()
            told()
            await self._clock.sleep(BEAT_S)
