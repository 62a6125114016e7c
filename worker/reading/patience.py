"""What the service has asked for outlives the process that heard it: ``Retry-After`` is kept across a restart.

The daemon saves with its status until when each partner is to be left alone, and whoever starts next begins with that.
Times are of the wall clock there, because no other one goes on; a wait that is longer than the longest there can be was
stamped by a clock that was wrong, and is none.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from worker.model.commits import DaemonStatus
from worker.model.exchange import Clock
from worker.model.facts import Json
from worker.model.ids import PartnerId
from worker.model.moments import spelled
from worker.reading.pacer import Pacer
from worker.reading.pacing import LONGEST_RETRY_AFTER

KEY = "asked_to_wait"
"""In the body of the daemon's status: partners, and until when."""


class Patience:
    """The waits of one process's pacer, to be said and to be taken over."""

    def __init__(self, pacer: Pacer, clock: Clock) -> None:
        self._pacer = pacer
        self._clock = clock

    def said(self) -> dict[str, Json]:
        """For the status: until when each partner is to be left alone; of who need not wait nothing."""
        now, since = self._clock.now(), self._clock.monotonic()
        waits = {partner: until - since for partner, until in self._pacer.blocked().items()}
        return {KEY: {partner: spelled(now + timedelta(seconds=s)) for partner, s in waits.items() if s > 0.0}}

    def take_over(self, status: DaemonStatus | None) -> None:
        """Begins with what the process before had been asked for."""
        waits = status.body.get(KEY) if status is not None else None
        for partner, until in waits.items() if isinstance(waits, Mapping) else ():
            left = self._left(until)
            if timedelta(0) < left <= LONGEST_RETRY_AFTER:
                self._pacer.wait(PartnerId(partner), left)

    def _left(self, until: Json) -> timedelta:
        try:
            return datetime.fromisoformat(str(until)) - self._clock.now()
        except (ValueError, TypeError):  # nothing that this program has written
            return timedelta(0)
