"""Which partners' looks have failed for so long that a person should know. Pure.

One look that failed is nothing: the next one comes in seconds. When none gets through for a minute, nothing is decided
for that partner, and somebody who watches no figures would not learn of it. It is told once, and once that it is over.
A partner that refuses us has an alarm of its own.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from worker.engine.report import CycleReport
from worker.model.ids import PartnerId

FAILING_AFTER = timedelta(minutes=1)
"""From the first of the looks that failed."""


@dataclass(slots=True)
class Failing:
    """What was heard of every partner so far. Seconds are monotonic."""

    _since: dict[PartnerId, float] = field(default_factory=dict)
    _told: set[PartnerId] = field(default_factory=set)

    def turned(self, report: CycleReport, now_s: float) -> Literal["failing", "well"] | None:
        """What there is to tell after this look; None for nothing new."""
        partner = report.partner
        if report.complete:
            self._since.pop(partner, None)
            if partner not in self._told:
                return None
            self._told.remove(partner)
            return "well"
        if report.error is None or report.denied:
            return None
        since = self._since.setdefault(partner, now_s)
        if partner in self._told or now_s - since < FAILING_AFTER.total_seconds():
            return None
        self._told.add(partner)
        return "failing"
