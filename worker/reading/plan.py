"""What to read next under a budget. Pure.

The list of events is read every cycle and is not planned here. What is planned are the reads that cost a request per
event: what was never read comes first, then what was read longest ago, so that nothing starves; and never more than the
cycle's share of the budget, so that the next list is not late.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from math import floor

from worker.model.facts import FactKey
from worker.model.ids import EventId

WRITE_RESERVE = 0.2
"""Share of the budget that fact reads leave to writes, evidence and pre-flights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """A fact that some rule needs. ``read_at``: when it was last asked, in monotonic seconds; None for never."""

    event: EventId
    key: FactKey
    read_at: float | None = None

    @property
    def place(self) -> tuple[EventId, FactKey]:
        """What is wanted, whenever it was asked last."""
        return self.event, self.key


def allowance(per_minute: float, interval: timedelta, spent: int) -> int:
    """How many fact reads one cycle may make, after the ``spent`` requests of its list. At least one, or rules that
    need such a fact would never see it."""
    share = per_minute * interval.total_seconds() / 60.0
    return max(1, floor(share * (1.0 - WRITE_RESERVE)) - spent)


def choose(wants: Iterable[Want], room: int, now: float, interval: timedelta) -> list[Want]:
    """The next reads: never read first, then the longest ago; those asked within the floor are left for later."""
    due = [one for one in wants if one.read_at is None or now - one.read_at >= interval.total_seconds()]
    due.sort(key=lambda one: (one.read_at is not None, one.read_at or 0.0, one.event, one.key.text))
    return due[: max(0, room)]
