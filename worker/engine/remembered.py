"""The service as it is remembered: facts that a running daemon has observed, or that were read just now.

Two processes that read would together be faster than the service allows. So beside a running daemon `plan` goes by what
that daemon has seen. Else it reads the service, each resource once, for as long as somebody waits; what was not read by
then is unknown, and says so. Nothing is ever sent.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol, cast

from worker.engine.observe import News, Reader
from worker.engine.playing import WorldService
from worker.engine.ports import Clock, Ledger, Listing, Parts, Places, Service, Urgency
from worker.engine.state import EVENT, PartnerState
from worker.model.commits import OF_PARTNER, Brake, Commit, Record, Sending, of_write
from worker.model.exchange import WriteRequest
from worker.model.facts import UNREAD, EventId, Fact, FactKey, Known, PartnerId, Place, Unknown
from worker.model.writes import Intent, Write


class Spelling(Protocol):
    """What of the real service works without asking it anything."""

    def request_for(self, partner: PartnerId, event: EventId, intent: Intent, item: str) -> WriteRequest: ...
    def url(self, request: WriteRequest) -> str: ...


class Memory:
    """A world that stands still: the facts of one partner that are known, of all events or of ``only`` one."""

    version = 0
    listed = True

    def __init__(self, only: EventId | None = None) -> None:
        self.only = only
        self.facts: dict[Place, Fact] = {}

    def recall(self, state: PartnerState) -> None:
        """What a daemon has seen, as the ledger holds it. Whether it still is so is the daemon's business."""
        for event, facts in state.stored.facts.items():
            if self.only in (None, event) or event == OF_PARTNER:
                self.facts.update({(event, key): fact for key, fact in facts.items()})
        for event in state.memory.gone:
            self.facts[event, EVENT] = Unknown(code="gone", why="the service answered 404")

    @property
    def events(self) -> Iterable[EventId]:
        """Those whose own record is known."""
        return [event for event, key in self.facts if key == EVENT]

    def place(self, event: EventId, key: FactKey) -> Place | None:
        """Where the fact is, of the event or of the partner; None where nobody has read it."""
        return next((one for one in ((event, key), (OF_PARTNER, key)) if one in self.facts), None)

    def fact(self, event: EventId, key: FactKey, now: datetime) -> Fact:
        """One fact as it is known."""
        place = self.place(event, key)
        return replace(UNREAD, read_at=now) if place is None else self.facts[place]

    def take_effect(self, event: EventId, intent: Intent) -> None:
        """Never: nothing is sent."""


class Remembered(WorldService):
    """A `Service` and a reader over what is known. ``ask``: who is asked for what is not, ``within`` so long after the
    list was read; without it nobody is. ``events``, ``facts``: how many were read; ``not_read``: what was asked for in
    vain."""

    def __init__(
        self, memory: Memory, spelling: Spelling, clock: Clock, ask: Service | None, within: timedelta | None
    ) -> None:
        super().__init__(memory, clock, spelling.request_for)
        self.url = spelling.url  # type: ignore[method-assign] # as the real client spells it
        self._memory = memory
        self._ask = ask
        self._within = within
        self._ends: float | None = None
        self.events: int | None = None
        self.facts = 0
        self.not_read: set[Place] = set()

    def recall(self, state: PartnerState) -> None:
        """Takes what the ledger remembers, where nobody is asked."""
        if self._ask is None:
            self._memory.recall(state)

    async def listing(self, partner: PartnerId, needed: frozenset[str] | None = None) -> AsyncIterator[Listing]:
        """The list, or the one event that is asked about."""
        lists = super().listing(partner) if self._ask is None else self._ask.listing(partner, needed)
        async for found in lists if self._ask is None or self._memory.only is None else self._one(partner):
            self._memory.facts.update({(event, EVENT): fact for event, fact in found.events.items()})
            self.events = len(found.events)
            if self._within is not None:
                self._ends = self._clock.monotonic() + self._within.total_seconds()
            yield found if self._memory.only is None else replace(found, complete=False)

    async def _one(self, partner: PartnerId) -> AsyncIterator[Listing]:
        """The one event, as if it were a list that says nothing of the others."""
        now, event = self._clock.now(), self._memory.only or EventId("")
        fact = await cast(Service, self._ask).read(partner, event, EVENT, urgency=Urgency.FACT)
        events = {event: fact} if isinstance(fact, Known) else {}
        why = fact.why if isinstance(fact, Unknown) else ""
        yield Listing(events=events, complete=False, why=why, began_at=now)

    async def read(
        self,
        partner: PartnerId,
        event: EventId | None,
        key: FactKey,
        *,
        urgency: Urgency,
        max_age: timedelta = timedelta(0),
        places: Places | None = None,  # noqa: ARG002 - nothing is waited for but the answer
    ) -> Fact:
        """The fact as it is known, else as the service says now; unknown where nobody says so in time."""
        place = self._memory.place(event or OF_PARTNER, key)
        if self._memory.only is not None and event not in (None, self._memory.only):
            return Unknown(code="unread", why="another event is asked about", read_at=self._clock.now())
        if place is None and self._ask is not None:
            place = (event or OF_PARTNER, key)
            left = None if self._ends is None else max(0.0, self._ends - self._clock.monotonic())
            with suppress(TimeoutError):
                asked = self._ask.read(partner, event, key, urgency=urgency, max_age=max_age)
                self._memory.facts[place] = await asyncio.wait_for(asked, left)
                self.facts += 1
        if place is None or place not in self._memory.facts:
            self.not_read.add((event or OF_PARTNER, key))
            return Unknown(code="unread", why=self._words, read_at=self._clock.now())
        return self._read(event or OF_PARTNER, key)

    @property
    def _words(self) -> str:
        if self._ask is None:
            return "the running daemon has not read it"
        return f"it was not read within {self._within.total_seconds() if self._within else 0:g} s"


class Gathered:
    """A reader that tells nothing before it has read everything: what a plan decides on is of one moment."""

    def __init__(self, parts: Parts) -> None:
        self._reader = Reader(parts)

    async def poll(self, state: PartnerState) -> AsyncIterator[News]:
        """The list and every fact that rules want, as one piece of news."""
        pieces = [news async for news in self._reader.poll(state)]
        events = {event for news in pieces for event in news.events}
        if pieces:
            yield replace(pieces[0], at=pieces[-1].at, events=sorted(events), more=False)


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
