"""Which events a look may pass over, because it could not decide anything else about them than the last one did.

An event is calm once a look at it changed nothing, no write of it is under way, and until the clock can change that.
Whatever is learnt of it ends its calm: a fact that says something else, a memory that was changed, its absence from the
list, another rule set. To look at a calm event costs time and finds nothing; to pass over one that is not loses a
decision: where in doubt, there is no calm.

Of an event that was calm until a fact said something else it is still known what its conditions were; see
`worker.engine.screening` for what that is good for.
"""

import heapq
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from zlib import crc32

from worker.model.ids import EventId
from worker.rules.verdicts import Verdict

LOOKED_AT_AGAIN = timedelta(minutes=30)
"""A calm event is looked at again after this time, and at the latest after twice as long, not all at once."""


class Rest(NamedTuple):
    """What an event was that a fact has stirred: calm until then, its conditions so."""

    until: datetime
    verdict: Verdict


@dataclass(slots=True)
class Calm:
    """The calm events of one partner, each until a moment. ``under``: the rules and the state of the partner for which
    that was found out. ``learnt``: events that only a fact has stirred, with when their calm would have ended."""

    until: dict[EventId, datetime] = field(default_factory=dict)
    learnt: dict[EventId, datetime] = field(default_factory=dict)
    under: object = None
    _verdicts: dict[EventId, Verdict] = field(default_factory=dict)
    _ends: list[tuple[datetime, EventId]] = field(default_factory=list)

    def only_under(self, under: object) -> None:
        """Ends all calm that was found under anything else."""
        if under != self.under:
            self.stir_all()
            self.under = under

    def stir(self, event: EventId) -> None:
        """Something about the event is otherwise than it was."""
        self.until.pop(event, None)
        self.learnt.pop(event, None)

    def learn(self, event: EventId) -> None:
        """A fact of the event says something else; all else about it is as it was."""
        until = self.until.pop(event, None)
        if until is not None:
            self.learnt[event] = until

    def stir_all(self) -> None:
        """Something about the partner is otherwise than it was."""
        self.until.clear()
        self.learnt.clear()
        self._verdicts.clear()
        self._ends.clear()

    def keep(self, event: EventId, until: datetime, verdict: Verdict | None = None) -> None:
        """The event need not be looked at before then, as long as nothing stirs it. ``verdict``: what its conditions
        are, if nothing but that can matter when a fact of it changes."""
        self.learnt.pop(event, None)
        if verdict is None:
            self._verdicts.pop(event, None)
        else:
            self._verdicts[event] = verdict
        self._calm(event, until)

    def stay(self, event: EventId) -> None:
        """The event is as calm as it was before a fact of it changed, and its conditions are the same."""
        self._calm(event, self.learnt.pop(event))

    def _calm(self, event: EventId, until: datetime) -> None:
        """Calm until then, and no longer: its end is noted each time, because that of what was stirred is dropped."""
        self.until[event] = until
        heapq.heappush(self._ends, (until, event))
        if len(self._ends) > 2 * len(self.until) + 64:
            self._ends = [(at, one) for one, at in self.until.items()]
            heapq.heapify(self._ends)

    def rest(self, event: EventId, now: datetime) -> Rest | None:
        """What the event was, if nothing but a fact of it has changed since."""
        until, verdict = self.learnt.get(event), self._verdicts.get(event)
        return None if until is None or verdict is None or until <= now else Rest(until=until, verdict=verdict)

    def stirred(self, events: AbstractSet[EventId], now: datetime) -> list[EventId]:
        """Those that must be looked at, in order. Calm that has ended by now is over for good."""
        while self._ends and self._ends[0][0] <= now:
            at, event = heapq.heappop(self._ends)
            if self.until.get(event) == at:
                del self.until[event]
        calm = self.until  # asked one by one: to subtract two views builds the set of all events first
        return sorted([event for event in events if event not in calm])

    def portions(self, events: Sequence[EventId], rules: int, pairs: int, now: datetime) -> list[list[EventId]]:
        """The events in portions of at most so many pairs of a rule and an event to judge. One that only a fact has
        stirred counts as one pair: mostly it is passed over once its conditions were glanced at."""
        found: list[list[EventId]] = []
        room = 0
        for event in events:
            weight = max(1, rules) if self.rest(event, now) is None else 1
            if room < weight:
                found.append([])
                room = max(pairs, weight)
            room -= weight
            found[-1].append(event)
        return found


def horizon(event: EventId, now: datetime) -> datetime:
    """Until when an event is calm at the most; not the same for all, so that no look has all of them at once."""
    return now + LOOKED_AT_AGAIN * (1.0 + crc32(event.encode()) % 1000 / 1000.0)
