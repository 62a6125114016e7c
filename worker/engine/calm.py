"""Which events a look may pass over, because it could not decide anything else about them than the last one did.

An event is calm once a look at it changed nothing, no write of it is under way, and until the clock can change that.
Whatever is learnt of it ends its calm: a fact that says something else, a memory that was changed, its absence from the
list, another rule set. To look at a calm event costs time and finds nothing; to pass over one that is not loses a
decision: where in doubt, there is no calm.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zlib import crc32

from worker.model.ids import EventId

LOOKED_AT_AGAIN = timedelta(minutes=30)
"""A calm event is looked at again after this time, and at the latest after twice as long, not all at once."""


@dataclass(slots=True)
class Calm:
    """The calm events of one partner, each until a moment. ``under``: the rules and the state of the partner for which
    that was found out."""

    until: dict[EventId, datetime] = field(default_factory=dict)
    under: object = None

    def only_under(self, under: object) -> None:
        """Ends all calm that was found under anything else."""
        if under != self.under:
            self.until.clear()
            self.under = under

    def stir(self, event: EventId) -> None:
        """Something about the event is otherwise than it was."""
        self.until.pop(event, None)

    def stir_all(self) -> None:
        """Something about the partner is otherwise than it was."""
        self.until.clear()

    def keep(self, event: EventId, until: datetime) -> None:
        """The event need not be looked at before then, as long as nothing stirs it."""
        self.until[event] = until

    def stirred(self, events: Iterable[EventId], now: datetime) -> list[EventId]:
        """Those that must be looked at, in order."""
        until = self.until
        return sorted(event for event in events if (at := until.get(event)) is None or at <= now)


def horizon(event: EventId, now: datetime) -> datetime:
    """Until when an event is calm at the most; not the same for all, so that no look has all of them at once."""
    return now + LOOKED_AT_AGAIN * (1.0 + crc32(event.encode()) % 1000 / 1000.0)
