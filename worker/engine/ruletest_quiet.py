"""How far a rule test may jump: over every look that can change nothing.

What the clock alone can change is told by `worker.engine.due`; here the late effects of scripted answers are added.
While a write is planned, being sent, applied or unknown nothing is jumped over; one for a person is jumped over only
where its reads can say nothing new, and one that waits for approval changes by facts alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from worker.engine.due import Clocked, Glanced, next_due
from worker.engine.ruletest_books import Books
from worker.model.facts import Observation
from worker.model.ids import EventId
from worker.model.rules import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """Finds the next moment for the rules of one test. ``late_effect``: when the next one lands, if any."""

    rules: tuple[tuple[Rule, Clocked], ...]
    late_effect: Callable[[], datetime | None]

    def until(
        self, books: Books, observations: Mapping[EventId, Observation], now: datetime, horizon: datetime
    ) -> datetime:
        """The first moment after ``now`` at which a look may decide otherwise; ``horizon`` where there is none
        before it."""
        landing = self.late_effect()
        first = landing if landing is not None and now < landing < horizon else horizon
        sendings = books.sendings(now)
        for rule, clock in self.rules:
            for event, observation in observations.items():
                pair = (event, rule.id)
                glanced = Glanced(memory=books.memories.get(pair), sendings=sendings.get(pair, ()))
                first = next_due(rule, clock, observation, glanced, (now, first))
        return first
