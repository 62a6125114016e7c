"""The service as the ledger remembers it: the facts that a running daemon has observed, in place of reading them again.

Two processes that read would together be faster than the service allows. So beside a running daemon `plan` looks at
what that daemon has seen; what it has not read is unknown here and says so. Nothing is ever asked of the network.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from worker.engine.ports import Clock, Listing, Places, Urgency
from worker.engine.state import EVENT
from worker.model.exchange import TaskState, TellPart, WriteRequest, told_nobody
from worker.model.facts import Fact, FactKey, Known, Trace, Unknown
from worker.model.ids import EventId, PartnerId
from worker.model.memory import PartnerMemory
from worker.model.outcomes import NotSent, Outcome
from worker.model.trail import OF_PARTNER, Observed
from worker.model.writes import Intent

NOT_READ = "the running daemon has not read it"


class Memories(Protocol):
    """What of a ledger is needed: what was observed, and who is out of sight."""

    def observed(self, partner: PartnerId, event: EventId | None = None) -> Iterable[Observed]: ...
    def partner_memory(self, partner: PartnerId) -> PartnerMemory | None: ...


class Spelling(Protocol):
    """What of the real service works without asking it anything."""

    def request_for(self, partner: PartnerId, event: EventId, intent: Intent, item: str) -> WriteRequest: ...
    def url(self, request: WriteRequest) -> str: ...


class EveryPlace:
    """Room without end: nothing is asked of the service."""

    async def take(self, *, by: float | None = None) -> bool:  # noqa: ARG002 - nothing is waited for
        """Always."""
        return True

    def give_back(self) -> None:
        """Nothing was kept."""


class Remembered:
    """A `Service` made of a ledger. ``shared``: the facts of the whole partner."""

    def __init__(self, memories: Memories, spelling: Spelling, clock: Clock, shared: frozenset[str]) -> None:
        self._memories = memories
        self._spelling = spelling
        self._clock = clock
        self._shared = shared
        self._facts: dict[PartnerId, dict[tuple[EventId, FactKey], Fact]] = {}

    async def partners(self) -> tuple[PartnerId, ...]:
        """Nobody is signed in here; who the partners are is known to whoever rehearses."""
        return ()

    async def listing(
        self, partner: PartnerId, _told: TellPart = told_nobody, _needed: frozenset[str] | None = None
    ) -> Listing:
        """Every event that the daemon saw last, as one complete list."""
        now = self._clock.now()
        events = {
            event: fact
            for (event, key) in self._of(partner)
            if key == EVENT and isinstance(fact := self._fact(partner, event, key), Known)
        }
        return Listing(events=events, complete=True, began_at=now, ended_at=now)

    async def read(
        self,
        partner: PartnerId,
        event: EventId | None,
        key: FactKey,
        *,
        urgency: Urgency,  # noqa: ARG002 - nothing is waited for
        max_age: timedelta = timedelta(0),  # noqa: ARG002 - nothing is younger than what is there
        places: Places | None = None,  # noqa: ARG002 - nothing is waited for
    ) -> Fact:
        """The fact as the daemon saw it last."""
        return self._fact(partner, OF_PARTNER if event is None or key.name in self._shared else event, key)

    async def keep_places(
        self,
        partner: PartnerId,  # noqa: ARG002 - nothing is waited for
        event: EventId,  # noqa: ARG002 - as above
        keys: Iterable[FactKey],  # noqa: ARG002 - as above
        *,
        urgency: Urgency,  # noqa: ARG002 - as above
    ) -> Places:
        """At once."""
        return EveryPlace()

    async def task_state(self, partner: PartnerId, event: EventId) -> TaskState:  # noqa: ARG002
        """Never asked."""
        return TaskState(state=NOT_READ, verdict="unreadable")

    def request_for(self, partner: PartnerId, event: EventId, intent: Intent, item: str) -> WriteRequest:
        """See `Service`."""
        return self._spelling.request_for(partner, event, intent, item)

    def url(self, request: WriteRequest) -> str:
        """See `Service`."""
        return self._spelling.url(request)

    async def send(self, partner: PartnerId, request: WriteRequest, *, not_after: float) -> Outcome:  # noqa: ARG002
        """Never."""
        return NotSent(cause="connect", why="a ledger cannot send")

    def budget(self, partner: PartnerId) -> float:  # noqa: ARG002
        """Without end."""
        return float(1_000_000)

    async def ready_to_write(
        self, partner: PartnerId, places: Places | None = None, *, by: float | None = None
    ) -> None:
        """At once."""

    def _of(self, partner: PartnerId) -> dict[tuple[EventId, FactKey], Fact]:
        if partner not in self._facts:
            memory = self._memories.partner_memory(partner)
            facts = {(one.event, one.key): one.fact for one in self._memories.observed(partner)}
            for event in memory.gone if memory is not None else ():
                facts[event, EVENT] = Unknown(code="gone", why="the service answered 404")
            self._facts[partner] = facts
        return self._facts[partner]

    def _fact(self, partner: PartnerId, event: EventId, key: FactKey) -> Fact:
        """The fact as if it had been read now: whether it still is so is the daemon's business."""
        trace = Trace(get="the ledger", began=self._clock.monotonic())
        fact = self._of(partner).get((event, key))
        if fact is None:
            return Unknown(code="unread", why=NOT_READ, read_at=self._clock.now(), trace=trace)
        return replace(fact, trace=trace)
