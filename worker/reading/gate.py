"""The one gate for every read: nobody asks the same thing twice within the floor, whoever asks.

Cycle, pre-flight, evidence, `plan` and `probe` ask here, so that two of them never make two requests of one question:
who comes while a request is under way shares its answer (``began`` tells everybody how old it is), and a stored answer
serves whoever can live with its age. The floor counts from the last *answer*, because a slow service must not be asked
again the moment it has managed to reply. A resource that fails waits longer, up to ten seconds.

`floor_until` is the policy, pure; `Gate` waits. It never looks into an answer beyond its verdict.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, Literal, Protocol, TypeVar

from worker.model.exchange import Clock, Places, Urgency
from worker.model.facts import PartnerId
from worker.reading.pacer import Pacer, Waiter

LONGEST_FAILURE_WAIT_S = 10.0
"""A resource that keeps failing is asked at least this often, unless the floor is longer."""
KEPT_S = 600.0
"""Answers older than this are forgotten once there are many: no asker is content with one."""
MANY = 5_000

Verdict = Literal["answered", "throttled", "failed"]


class Reply(Protocol):
    """What the gate must know of an answer: whether the service answered, asked for patience, or failed."""

    @property
    def verdict(self) -> Verdict: ...
    @property
    def retry_after(self) -> timedelta | None: ...
    @property
    def heavy(self) -> bool: ...


ReplyT = TypeVar("ReplyT", bound=Reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRequest(Generic[ReplyT]):
    """The last request of one resource, in monotonic seconds. ``failures``: in a row, this one included."""

    reply: ReplyT | None
    began: float
    ended: float
    failures: int = 0


@dataclass(slots=True)
class Flight(Generic[ReplyT]):
    """A request that is waiting to leave or under way, with everybody who shares it."""

    task: "asyncio.Task[ReplyT]"
    urgency: Urgency
    places: Places | None = None
    turn: Waiter | None = None


def floor_until(asked: LastRequest[ReplyT], floor_s: float) -> float:
    """The monotonic second before which the resource is not asked again."""
    if asked.failures == 0:
        return asked.ended + floor_s
    doubled = floor_s * (1 << min(asked.failures - 1, 16))
    return asked.ended + max(floor_s, min(doubled, LONGEST_FAILURE_WAIT_S))


def serves(asked: LastRequest[ReplyT], max_age: timedelta, now: float) -> bool:
    """Whether a stored answer is young enough. Age counts from the request's begin: what came later is not in it."""
    return now - asked.began < max_age.total_seconds()


class Gate(Generic[ReplyT]):
    """The floor of each resource, over the pace of each partner.

    ``quiet_s``: nothing is asked within this time of the gate's making, because a process that ended just before may
    have asked the same; by default the floor.
    """

    def __init__(self, *, pacer: Pacer, clock: Clock, floor_s: float, quiet_s: float | None = None) -> None:
        self._pacer = pacer
        self._clock = clock
        self._floor_s = floor_s
        self._open_at = clock.monotonic() + (floor_s if quiet_s is None else quiet_s)
        self._asked: dict[tuple[PartnerId, str], LastRequest[ReplyT]] = {}
        self._flights: dict[tuple[PartnerId, str], Flight[ReplyT]] = {}
        self._forget_at = MANY

    async def ask(
        self,
        partner: PartnerId,
        address: str,
        fetch: Callable[[], Awaitable[ReplyT]],
        *,
        urgency: Urgency,
        max_age: timedelta = timedelta(0),
        places: Places | None = None,
    ) -> ReplyT:
        """The answer of one resource: stored, shared, or fetched when floor and pace allow it.

        ``address``: host, path and query. ``fetch`` makes one request and does not raise for what the service does.
        ``places``: room in the budget that the asker has kept; the request leaves on it without waiting in the line.
        """
        key = (partner, address)
        asked = self._asked.get(key)
        if asked is not None and asked.reply is not None and serves(asked, max_age, self._clock.monotonic()):
            return asked.reply
        flight = self._flights.get(key)
        if flight is None:
            flight = self._start(key, fetch, urgency, places)
        elif places is not None:
            await self._lend(flight, places)
        elif urgency < flight.urgency:
            flight.urgency = urgency
            if flight.turn is not None:
                self._pacer.hurry(partner, flight.turn, urgency)
        return await asyncio.shield(flight.task)

    def opens_at(self, partner: PartnerId, address: str) -> float:
        """The monotonic second from which the resource may be asked again."""
        asked = self._asked.get((partner, address))
        return self._open_at if asked is None else max(self._open_at, floor_until(asked, self._floor_s))

    async def _lend(self, flight: Flight[ReplyT], places: Places) -> None:
        """Somebody who kept a place waits for the same answer."""
        if flight.turn is None:
            flight.places = flight.places or places
        elif not flight.turn.granted.done() and await places.take():
            self._pacer.serve(flight.turn)

    async def aclose(self) -> None:
        """Ends every flight; whoever still waits is cancelled."""
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(
        self,
        key: tuple[PartnerId, str],
        fetch: Callable[[], Awaitable[ReplyT]],
        urgency: Urgency,
        places: Places | None,
    ) -> Flight[ReplyT]:
        task = asyncio.ensure_future(self._fly(key, fetch))
        flight = Flight(task=task, urgency=urgency, places=places)
        self._flights[key] = flight
        task.add_done_callback(lambda done: self._landed(key, done))
        return flight

    def _landed(self, key: tuple[PartnerId, str], task: "asyncio.Task[ReplyT]") -> None:
        self._flights.pop(key, None)
        if not task.cancelled():
            task.exception()  # marks it as seen: those who waited have it, and there may be none of them left

    async def _fly(self, key: tuple[PartnerId, str], fetch: Callable[[], Awaitable[ReplyT]]) -> ReplyT:
        partner, _ = key
        flight = self._flights[key]
        await self._wait_for_floor(key)
        if flight.places is None or not await flight.places.take():
            flight.turn = self._pacer.queue(partner, flight.urgency)
            await self._pacer.granted(flight.turn)
        began = self._clock.monotonic()
        try:
            reply = await fetch()
        except BaseException:
            self._keep(key, reply=None, began=began)
            raise
        self._keep(key, reply=reply, began=began)
        if reply.verdict == "throttled":
            self._pacer.throttled(partner, began=began, retry_after=reply.retry_after)
        elif reply.verdict == "answered":
            self._pacer.answered(partner, began=began)
        return reply

    async def _wait_for_floor(self, key: tuple[PartnerId, str]) -> None:
        until = self.opens_at(*key)
        while (left := until - self._clock.monotonic()) > 0.0:
            await self._clock.sleep(max(left, 0.001))

    def _keep(self, key: tuple[PartnerId, str], *, reply: ReplyT | None, began: float) -> None:
        now = self._clock.monotonic()
        before = self._asked.get(key)
        failed = reply is None or reply.verdict == "failed"
        failures = (before.failures if before is not None else 0) + 1 if failed else 0
        kept = None if reply is None or reply.heavy else reply
        self._asked[key] = LastRequest(reply=kept, began=began, ended=now, failures=failures)
        if len(self._asked) > self._forget_at:
            self._asked = {known: asked for known, asked in self._asked.items() if now - asked.ended < KEPT_S}
            self._forget_at = max(MANY, 2 * len(self._asked))
