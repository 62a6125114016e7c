"""The service as the ledger remembers it: the facts that a running daemon has observed, in place of reading them again.

Two processes that read would together be faster than the service allows. So beside a running daemon `plan` looks at
what that daemon has seen; what it has not read is unknown here and says so. Nothing is ever asked of the network.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Protocol, cast

from worker.engine.playing import Offline
from worker.engine.ports import Clock, Ledger, Listing, Places, Urgency
from worker.engine.state import EVENT
from worker.model.commits import (
    OF_PARTNER,
    Brake,
    Commit,
    Observed,
    PartnerMemory,
    Record,
    Sending,
    of_write,
)
from worker.model.exchange import NotSent, Outcome, TaskState, WriteRequest
from worker.model.facts import EventId, Fact, FactKey, Known, PartnerId, Trace, Unknown
from worker.model.writes import Intent, Write

NOT_READ = "the running daemon has not read it"


class Memories(Protocol):
    """What of a ledger is needed: what was observed, and who is out of sight."""

    def observed(self, partner: PartnerId, event: EventId | None = None) -> Iterable[Observed]: ...
    def partner_memory(self, partner: PartnerId) -> PartnerMemory | None: ...


class Spelling(Protocol):
    """What of the real service works without asking it anything."""

    def request_for(self, partner: PartnerId, event: EventId, intent: Intent, item: str) -> WriteRequest: ...
    def url(self, request: WriteRequest) -> str: ...


class Remembered(Offline):
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

    async def listing(self, partner: PartnerId, _needed: frozenset[str] | None = None) -> AsyncIterator[Listing]:
        """Every event that the daemon saw last, as one complete list."""
        now = self._clock.now()
        events = {
            event: fact
            for (event, key) in self._of(partner)
            if key == EVENT and isinstance(fact := self._fact(partner, event, key), Known)
        }
        yield Listing(events=events, complete=True, began_at=now, ended_at=now)

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


# A ledger that tells what it has recorded, after it has.
#
# The log lines of the daemon and the progress of the demo are made from the very records of the action log, so that
# what a person sees and what an auditor reads cannot differ. Nothing is told of a transaction that failed.

Tell = Callable[[Record], None]


def telling(ledger: Ledger, tell: Tell) -> Ledger:
    """The same ledger, which tells each record once it is stored."""
    return cast("Ledger", _Telling(ledger, tell))


class _Telling:
    """What is stored is stored, whether it could be told or not: a log line that fails (a closed pipe, a full disk)
    must not look like a commit that failed."""

    def __init__(self, ledger: Ledger, tell: Tell) -> None:
        self._ledger = ledger
        self._telling = tell

    def __getattr__(self, name: str) -> object:
        """Every other question is the ledger's own."""
        return getattr(self._ledger, name)

    def apply(self, commit: Commit) -> tuple[Write, ...]:
        """Stores, then tells: the records, those of the moves, and one for each new write."""
        made = self._ledger.apply(commit)
        self._tell(commit.records)
        for change in commit.moves:
            self._tell(change.records)
        for write in made:
            record = of_write(write, at=commit.at, kind=write.state, reason=write.reason, why=write.why)
            self._tell([replace(record, by=commit.by)])
        return made

    def record_sending(self, sending: Sending) -> Brake | None:
        """Stores the attempt, then tells it; one that a brake held tells nothing."""
        brake = self._ledger.record_sending(sending)
        if brake is None:
            self._tell(sending.move.records)
        return brake

    def _tell(self, records: Iterable[Record]) -> None:
        for record in records:
            with suppress(Exception):
                self._telling(record)
