"""The service for a rehearsal: everything is read and weighed as always, and what would be sent stops right there.

An attempt that has passed every guard waits in `send` for ever, as one whose answer never comes; whoever rehearses ends
it. So the daemon's code needs no second branch for "do not really send", and cannot take the wrong one.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from datetime import timedelta

from worker.engine.ports import Listing, Places, Service, Urgency
from worker.model.exchange import Message, TaskState, TellPart, WriteRequest, told_nobody
from worker.model.facts import Fact, FactKey, Json
from worker.model.ids import EventId, PartnerId, WriteId
from worker.model.outcomes import NotSent, Outcome
from worker.model.writes import Intent, Write

_TENDED: ContextVar[WriteId | None] = ContextVar("tended", default=None)
"""The write that the running task is about; tasks that it starts inherit it."""


class Unsent:
    """A `Service` that sends nothing. ``asked``: the facts that a write's pre-flight asked for; ``held``: requests that
    would be on the wire now, by write."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.asked: dict[WriteId, set[FactKey]] = {}
        self.held: dict[WriteId, Mapping[str, Json]] = {}
        self.changed = asyncio.Event()

    def tending(self, write: Write) -> None:
        """Within the task of a write: what it asks from here on is counted for it."""
        _TENDED.set(write.id)

    async def partners(self) -> tuple[PartnerId, ...]:
        """See `Service`."""
        return await self._service.partners()

    async def listing(
        self, partner: PartnerId, told: TellPart = told_nobody, needed: frozenset[str] | None = None
    ) -> Listing:
        """See `Service`."""
        return await self._service.listing(partner, told, needed)

    async def read(
        self,
        partner: PartnerId,
        event: EventId | None,
        key: FactKey,
        *,
        urgency: Urgency,
        max_age: timedelta = timedelta(0),
        places: Places | None = None,
    ) -> Fact:
        """See `Service`."""
        write = _TENDED.get()
        if write is not None:
            self.asked.setdefault(write, set()).add(key)
        return await self._service.read(partner, event, key, urgency=urgency, max_age=max_age, places=places)

    async def keep_places(
        self, partner: PartnerId, event: EventId, keys: Iterable[FactKey], *, urgency: Urgency
    ) -> Places:
        """See `Service`."""
        return await self._service.keep_places(partner, event, keys, urgency=urgency)

    async def task_state(self, partner: PartnerId, event: EventId) -> TaskState:
        """Never asked: tasks are read after a PUT of one's own only."""
        return TaskState(state=f"the task of {event} of {partner} is not read in a rehearsal", verdict="unreadable")

    def request_for(self, partner: PartnerId, event: EventId, intent: Intent, item: str) -> WriteRequest:
        """See `Service`."""
        return self._service.request_for(partner, event, intent, item)

    def url(self, request: WriteRequest) -> str:
        """See `Service`."""
        return self._service.url(request)

    async def send(self, partner: PartnerId, request: WriteRequest, *, not_after: float) -> Outcome:
        """Notes what would have been sent, and waits until the rehearsal ends."""
        write = _TENDED.get()
        if write is None:
            return NotSent(cause="stale", why=f"a rehearsal sends nothing for {partner}, now or after {not_after}")
        await self._for_ever(write, request.as_json(self.url(request)))
        raise AssertionError("nobody ends this wait but a cancellation")

    async def hand_over(self, message: Message) -> None:
        """The same for a message of a rule."""
        await self._for_ever(message.write, {"method": "NOTIFY", "url": "message", "body": message.text})

    async def _for_ever(self, write: WriteId, request: Mapping[str, Json]) -> None:
        self.held[write] = request
        self.changed.set()
        await asyncio.get_running_loop().create_future()

    def budget(self, partner: PartnerId) -> float:
        """See `Service`."""
        return self._service.budget(partner)

    async def ready_to_write(
        self, partner: PartnerId, places: Places | None = None, *, by: float | None = None
    ) -> None:
        """See `Service`."""
        await self._service.ready_to_write(partner, places, by=by)
