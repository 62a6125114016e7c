"""The budget's last hours, kept in memory: one sample a while of what the daemon says of itself in the ledger.

Prometheus keeps the long history; this is for those who have none, and it is gone with the process.
"""

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta

from worker.ledger.browsing import LedgerBrowser
from worker.model.leafing import Outcomes, Settled
from worker.web.charts import Sample, samples_of

EVERY = timedelta(seconds=20)
KEPT = timedelta(hours=6)
SAMPLES_MAX = 20_000
COUNTED_FOR = timedelta(minutes=1)
Counted = tuple[tuple[Outcomes, ...], tuple[Settled, ...]]


class Samples:
    """A bounded history. One thread takes samples, others look at them."""

    def __init__(self) -> None:
        self._kept: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self._counted: tuple[datetime, Counted] | None = None

    def take(self, ledger: LedgerBrowser, now: datetime) -> None:
        """Keeps what the ledger says now."""
        status = ledger.status()
        if status is None:
            return
        self._kept.extend(samples_of(status.body, now))
        while self._kept and now - self._kept[0].at > KEPT:
            self._kept.popleft()

    def counted(self, ledger: LedgerBrowser, now: datetime, since: datetime) -> Counted:
        """The counts of weeks, which change slowly and take a walk over every write: made anew once a minute."""
        if self._counted is None or now - self._counted[0] >= COUNTED_FOR:
            self._counted = (now, (ledger.daily(since), ledger.settled(since)))
        return self._counted[1]

    def all(self) -> Sequence[Sample]:
        """Every sample, oldest first."""
        return tuple(self._kept)
