"""The one gate for every read: nobody asks the same thing twice within the floor, whoever asks.

Cycle, pre-flight, evidence, `plan` and `probe` ask here, so that two of them never make two requests of one question:
who comes while a request is under way shares its answer (``began`` tells everybody how old it is), and a stored answer
serves whoever can live with its age. The floor counts from the last *answer*, because a slow service must not be asked
again the moment it has managed to reply. A resource that fails waits longer, up to ten seconds.

`floor_until` is the policy, pure; `Gate` waits. It never looks into an answer beyond its verdict.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Generic, Literal, Protocol, TypeVar

from worker.model.commits import DaemonStatus
from worker.model.exchange import Clock, Places, Urgency
from worker.model.facts import Json, PartnerId, spelled
from worker.reading.pacing import (
    LONGEST_RETRY_AFTER,
    SENT_WITHIN,
    SHORTEST_SLEEP_S,
    Pace,
    eased,
    fresh,
    given_back,
    shrunken,
    struck,
    taken,
    wait_s,
)

# Lets the requests of each partner leave one by one, none before its time, and keeps places for a write's last poll.
#
# Two lines stand before one door. What serves a write (evidence, pre-flights, the writes themselves) goes first, but
# after every third request of that line one of the other leaves, if one waits: a worker that only settles is blind,
# and a cancelled event that nobody sees costs more than a confirmation that comes a second later.
#
# A pre-flight is worth nothing in parts: all its facts must be young when its write leaves. So it asks for its places
# at once and they are saved up. Then its requests leave closer together than the pace, the write last and as long
# after the others as its facts stay young. Where a 429 has taught a lower pace, nobody else leaves meanwhile: what the
# service counts has been let rest, and of all requests the write is the least likely to meet a 429. Saving never lets
# more requests leave in any minute than the config allows, because what has left is counted over a sliding minute as
# well.
#
# One partner never slows another: no two lines share anything. Clock and chance are handed in.

MINUTE_S = 60.0
READ_AFTER = 3
"""So many requests may serve writes before one that polls leaves, where both wait."""
CROWDED_WAIT_S = 0.25
"""How soon it is tried again where kept places alone fill the minute: they are used or given back within seconds."""
UNLEASED_WAIT_S = 0.25
"""The same where it is not known whose the partners are."""
ALONE_WAIT_S = 0.05
"""The same where others wait for a pre-flight to be over."""
AT_ONCE = 3
"""So few requests need not be spread, while no 429 has taught a lower pace: a pause must not wait."""
ANSWERS_TAKEN = 0.2
"""How much the newest answer counts in how long answers take."""

KEY = "asked_to_wait"
"""In the body of the daemon's status: partners, and until when."""

Line = list[tuple[Urgency, int, "Waiter"]]


@dataclass(slots=True)
class Waiter:
    """One asker in the line. ``saved``: how many requests of the ``needed`` ones it has by now. ``keeps``: granted, its
    ``places`` are kept until they are used or given back; else the request leaves at once."""

    granted: "asyncio.Future[None]"
    urgency: Urgency
    places: int = 1
    needed: int = 1
    keeps: bool = False
    saved: int = 0


@dataclass(slots=True)
class PartnerPace:
    """What is known of one partner. ``left``: when requests left, in monotonic seconds, over the last minute. ``kept``:
    places that were granted and not used yet; until ``alone_until`` nobody else leaves while there are any.
    ``close_since``: since then requests have left closer together than the pace.
    ``served``: requests for writes since one that polls left. ``answer_s``: how long answers take of late."""

    pace: Pace
    writing: Line = field(default_factory=list)
    reading: Line = field(default_factory=list)
    left: deque[float] = field(default_factory=deque)
    kept: int = 0
    alone_until: float = float("-inf")
    close_since: float = float("inf")
    served: int = 0
    answer_s: float = 0.0
    walker: "asyncio.Task[None] | None" = None

    def line_of(self, urgency: Urgency) -> Line:
        """The line in which such an asker stands."""
        return self.reading if urgency >= Urgency.LISTING else self.writing

    def next_line(self, now: float) -> Line | None:
        """Whose turn it is; None where nobody waits. Who has gone away gives back what was saved for it."""
        for line in (self.writing, self.reading):
            while line and line[0][2].granted.done():
                gone = heappop(line)[2]
                if gone.granted.cancelled():
                    self.pace = given_back(self.pace, gone.saved, now)
                    gone.saved = 0
        if not self.writing or (self.reading and self.served >= READ_AFTER):
            return self.reading or None
        return self.writing

    def crowded_for_s(self, turn: Waiter, now: float) -> float:
        """Seconds until the last minute has room for all that the turn asks; 0.0 for now."""
        while self.left and self.left[0] <= now - MINUTE_S:
            self.left.popleft()
        beyond = len(self.left) + self.kept + turn.places - max(turn.places, int(self.pace.nominal))
        if beyond <= 0:
            return 0.0
        return self.left[beyond - 1] + MINUTE_S - now if beyond <= len(self.left) else CROWDED_WAIT_S

    def within_s(self, interval_s: float, places: int) -> float:
        """Over how many seconds a pre-flight and its write can be spread: its last answers are waited for, where they
        take longer than the next request does to leave."""
        within_s = SENT_WITHIN * interval_s
        quick = 2.0 * self.answer_s * max(1, places - 1) <= within_s
        return within_s if quick else max(0.0, within_s - 2.0 * self.answer_s)

    def needed_for(self, places: int, interval_s: float) -> int:
        """How many requests are saved up for so many places: all; but of what a shrunken pace gives while they leave
        alone, all but one."""
        if not shrunken(self.pace):
            return places
        meanwhile = int(self.pace.budget / 60.0 * self.within_s(interval_s, places)) - 1
        return max(1, places - max(0, meanwhile))


class KeptPlaces:
    """Places of one partner, kept for a pre-flight and its write."""

    def __init__(self, door: PartnerPace, places: int, clock: Clock, interval_s: float) -> None:
        self._door = door
        self._places = places
        self._clock = clock
        at_once = places <= AT_ONCE and not shrunken(door.pace)
        self._spacing_s = 0.0 if at_once else 60.0 / door.pace.budget
        self._gap_s = min(self._spacing_s, door.within_s(interval_s, places) / max(1, places - 1))
        self._last_at = float("-inf")

    async def take(self, *, by: float | None = None) -> bool:
        """Waits until a request may leave on one of these places, a little after the one before it, and counts it.
        False where none is left or a 429 forbids it.

        ``by``: for the write; it leaves as long after the last read as the pace wants, but no later than this
        monotonic second.
        """
        if self._places == 0 or self._blocked():
            return False
        self._places -= 1
        door = self._door
        due = self._last_at + self._gap_s
        if by is not None:
            due = max(due, min(by, self._last_at + self._spacing_s))
        self._last_at = max(due, self._clock.monotonic())
        try:
            while (left := due - self._clock.monotonic()) > 0.0:
                await self._clock.sleep(max(left, SHORTEST_SLEEP_S))
        finally:
            door.kept -= 1
        if self._blocked():
            return False
        now = self._clock.monotonic()
        door.left.append(now)
        if shrunken(door.pace):
            door.pace = replace(door.pace, room=0.0, room_at=now)
            if self._gap_s < self._spacing_s:
                door.close_since = min(door.close_since, now)
        return True

    def give_back(self) -> None:
        """What was not needed is there for others again."""
        self._door.kept -= self._places
        self._door.pace = given_back(self._door.pace, self._places, self._clock.monotonic())
        self._places = 0

    def _blocked(self) -> bool:
        return self._clock.monotonic() < self._door.pace.blocked_until


class Pacer:
    """The doors of all partners. ``interval_s``: how old the facts of a write may become."""

    def __init__(
        self, *, per_minute: float, clock: Clock, chance: Callable[[], float], interval_s: float = 3.0
    ) -> None:
        self._interval_s = interval_s
        self._per_minute = per_minute
        self._clock = clock
        self._chance = chance
        self._doors: dict[PartnerId, PartnerPace] = {}
        self._number = count()
        self.leased_until = float("inf")
        """In a fleet: from this monotonic second on no request leaves, because the partners may be another's."""
        self.struck: Callable[[PartnerId], object] = lambda partner: None  # noqa: ARG005 - nobody wants to know
        """In a fleet: told of each 429."""

    async def turn(self, partner: PartnerId, urgency: Urgency) -> None:
        """Waits until a request of this urgency may leave, and counts it."""
        await self.granted(self.queue(partner, urgency))

    async def keep(self, partner: PartnerId, urgency: Urgency, places: int) -> KeptPlaces:
        """Waits until so many requests may leave together. What is not used must be given back."""
        await self.granted(self._stand(partner, urgency, places, keeps=True))
        return KeptPlaces(self._door(partner), places, self._clock, self._interval_s)

    def queue(self, partner: PartnerId, urgency: Urgency) -> Waiter:
        """A place in the line, for those who may have to move forward later: see ``hurry``."""
        return self._stand(partner, urgency, 1)

    async def granted(self, turn: Waiter) -> None:
        """Waits for the turn. A cancelled wait gives its place back."""
        try:
            await turn.granted
        except asyncio.CancelledError:
            turn.granted.cancel()
            raise

    def hurry(self, partner: PartnerId, turn: Waiter, urgency: Urgency) -> None:
        """Somebody more urgent waits for the same answer."""
        if not turn.granted.done() and urgency < turn.urgency:
            turn.urgency = urgency
            heappush(self._door(partner).line_of(urgency), (urgency, next(self._number), turn))

    def serve(self, turn: Waiter) -> None:
        """Lets a waiting turn leave: somebody has taken a kept place for the same answer."""
        if not turn.granted.done():
            turn.granted.set_result(None)

    def heard(self, partner: PartnerId, reply: "Reply", *, began: float) -> None:
        """What an answer to a read says of the pace."""
        if reply.verdict == "throttled":
            self.throttled(partner, began=began, retry_after=reply.retry_after)
        elif reply.verdict == "answered":
            self.answered(partner, began=began)

    def throttled(self, partner: PartnerId, *, began: float, retry_after: timedelta | None) -> None:
        """A 429 came back, on a read or a write."""
        now, door = self._clock.monotonic(), self._door(partner)
        close = began >= door.close_since
        door.pace = struck(door.pace, began=began, now=now, retry_after=retry_after, chance=self._chance(), close=close)
        self.struck(partner)

    def answered(self, partner: PartnerId, *, began: float) -> None:
        """An answer that was no 429 came back."""
        door = self._door(partner)
        door.pace = eased(door.pace, began=began)
        door.answer_s += ANSWERS_TAKEN * (self._clock.monotonic() - began - door.answer_s)

    def pace(self, partner: PartnerId) -> Pace:
        """The partner's pace as last counted."""
        return self._door(partner).pace

    def blocked_until(self, partner: PartnerId) -> float:
        """Monotonic second until which a 429 forbids every request of the partner."""
        return self.pace(partner).blocked_until

    # What the service has asked for outlives the process that heard it: ``Retry-After`` is kept across a restart.
    #
    # The daemon saves with its status until when each partner is to be left alone, and whoever starts next begins with
    # that. Times are of the wall clock there, because no other one goes on; a wait that is longer than the longest
    # there can be was stamped by a clock that was wrong, and is none.

    def waits(self) -> dict[str, Json]:
        """For the status: until when each partner is to be left alone; of who need not wait nothing."""
        now, since = self._clock.now(), self._clock.monotonic()
        waits = {partner: door.pace.blocked_until - since for partner, door in self._doors.items()}
        return {KEY: {partner: spelled(now + timedelta(seconds=s)) for partner, s in waits.items() if s > 0.0}}

    def go_on_waiting(self, status: DaemonStatus | None) -> None:
        """Begins with what the process before had been asked for."""
        waits = status.body.get(KEY) if status is not None else None
        for partner, until in waits.items() if isinstance(waits, Mapping) else ():
            try:
                left = datetime.fromisoformat(str(until)) - self._clock.now()
            except (ValueError, TypeError):  # nothing that this program has written
                continue
            if timedelta(0) < left <= LONGEST_RETRY_AFTER:
                door, at = self._door(PartnerId(partner)), self._clock.monotonic() + left.total_seconds()
                door.pace = replace(door.pace, blocked_until=max(door.pace.blocked_until, at))

    def said(self, partner: PartnerId) -> dict[str, Json]:
        """What another process must know that goes on with the partner: for how long a 429 forbids requests, what has
        been learnt of the limit, and how long ago those of the last minute left."""
        now, door = self._clock.monotonic(), self._door(partner)
        blocked_s = max(0.0, door.pace.blocked_until - now)
        left_s: list[Json] = [round(now - at, 3) for at in door.left if at > now - MINUTE_S]
        return {"blocked_s": round(blocked_s, 3), "budget": round(door.pace.budget, 3), "left_s": left_s}

    def take_over(self, partner: PartnerId, said: Mapping[str, Json], *, ago_s: float, goodbye: bool) -> None:
        """Goes on with the pace that another process left so long ago; a wait that this one was asked for when it had
        the partner before, and could not store, goes on as well. Without a goodbye nobody knows what was asked since:
        the last minute counts as used up."""
        now, heard = self._clock.monotonic(), self.blocked_until(partner)
        door = self._doors[partner] = PartnerPace(pace=fresh(self._per_minute, now))
        blocked_s, budget, left_s = said.get("blocked_s"), said.get("budget"), said.get("left_s")
        if isinstance(blocked_s, int | float):
            heard = max(heard, now + min(blocked_s - ago_s, LONGEST_RETRY_AFTER.total_seconds()))
        door.pace = replace(door.pace, blocked_until=max(now, heard))
        if isinstance(budget, int | float) and 0.0 < budget < door.pace.nominal:
            door.pace = replace(door.pace, budget=budget, low=budget, ceiling=budget)
        if not goodbye:
            places = int(door.pace.nominal)
            left_s = [MINUTE_S * (places - number) / places for number in range(places)]
            ago_s = 0.0
        if isinstance(left_s, list):
            door.left.extend(now - s - ago_s for s in left_s if isinstance(s, int | float))
            door.pace = replace(door.pace, room=0.0, room_at=now)

    def last_minute(self, partner: PartnerId) -> int:
        """Requests of the partner that left in the last 60 seconds; for `status`."""
        since = self._clock.monotonic() - MINUTE_S
        return sum(at > since for at in self._door(partner).left)

    async def aclose(self) -> None:
        """Ends all waiting; whoever still waits is cancelled."""
        doors, self._doors = list(self._doors.values()), {}
        walkers = [door.walker for door in doors if door.walker is not None]
        for door in doors:
            for _, _, turn in (*door.writing, *door.reading):
                turn.granted.cancel()
        for walker in walkers:
            walker.cancel()
        await asyncio.gather(*walkers, return_exceptions=True)

    def _door(self, partner: PartnerId) -> PartnerPace:
        if partner not in self._doors:
            self._doors[partner] = PartnerPace(pace=fresh(self._per_minute, self._clock.monotonic()))
        return self._doors[partner]

    def _stand(self, partner: PartnerId, urgency: Urgency, places: int, *, keeps: bool = False) -> Waiter:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        door = self._door(partner)
        needed = door.needed_for(places, self._interval_s)
        turn = Waiter(granted=granted, urgency=urgency, places=places, needed=needed, keeps=keeps)
        nobody = door.next_line(self._clock.monotonic()) is None
        heappush(door.line_of(urgency), (urgency, next(self._number), turn))
        if nobody:
            self._serve_now(door)
        if not turn.granted.done() and door.walker is None:
            door.walker = asyncio.ensure_future(self._walk(door))
        return turn

    def _serve_now(self, door: PartnerPace) -> float:
        """Lets leave whoever may leave now; the seconds until the next may, 0.0 where nobody waits any more."""
        while (line := door.next_line(now := self._clock.monotonic())) is not None:
            if now >= self.leased_until:
                return UNLEASED_WAIT_S
            if door.kept > 0 and now < door.alone_until:
                return max(SHORTEST_SLEEP_S, min(door.alone_until - now, ALONE_WAIT_S))
            turn = line[0][2]
            if turn.saved < turn.needed:
                wait = wait_s(door.pace, now)
                if wait > 0.0:
                    return wait
                self._save(door, line, turn, now)
            if turn.saved < turn.needed:
                continue
            crowded = max(door.crowded_for_s(turn, now), door.pace.blocked_until - now)
            if crowded > 0.0:
                return crowded
            heappop(line)
            self._grant(door, turn, now)
        return 0.0

    def _save(self, door: PartnerPace, line: Line, turn: Waiter, now: float) -> None:
        """One request of the budget goes to this turn."""
        door.pace = taken(door.pace, now)
        turn.saved += 1
        door.served = 0 if line is door.reading else door.served + 1

    def _grant(self, door: PartnerPace, turn: Waiter, now: float) -> None:
        if turn.keeps:
            door.kept += turn.places
            if shrunken(door.pace):
                door.alone_until = now + self._interval_s
        else:
            door.left.append(now)
            door.close_since = float("inf")
        turn.granted.set_result(None)

    async def _walk(self, door: PartnerPace) -> None:
        """Serves one partner's lines until both are empty."""
        try:
            while (wait := self._serve_now(door)) > 0.0:
                await self._clock.sleep(wait)
        finally:
            door.walker = None


LONGEST_FAILURE_WAIT_S = 10.0
"""A resource that keeps failing is asked at least this often, unless the floor is longer."""
KEPT_S = 600.0
"""Answers older than this, and than the floor, are forgotten once there are many: no asker is content with one."""
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
    """A request that is waiting to leave or under way (``left``), with everybody who shares it."""

    task: "asyncio.Task[ReplyT]"
    urgency: Urgency
    places: Places | None = None
    turn: Waiter | None = None
    left: bool = False


def floor_until(asked: LastRequest[ReplyT], floor_s: float) -> float:
    """The monotonic second before which the resource is not asked again."""
    doubled = floor_s * (1 << min(max(0, asked.failures - 1), 16))
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

    def lease(self, until: float) -> None:
        """In a fleet: no request leaves from this monotonic second on."""
        self._pacer.leased_until = until

    def said(self, partner: PartnerId) -> dict[str, Json]:
        """In a fleet: what is known of the partner's pace."""
        return self._pacer.said(partner)

    def handed_over(self, partner: PartnerId) -> dict[str, Json]:
        """Ends the partner's flights; what is known of its pace, and for how long each of its resources must still not
        be asked, by anybody."""
        now = self._clock.monotonic()
        for key, flight in self._flights.items():
            if key[0] == partner:
                flight.task.cancel()
                if flight.left:  # it is answered now, as nobody hears
                    self._asked[key] = LastRequest(reply=None, began=now, ended=now)
        asked = {key: one for key, one in self._asked.items() if key[0] == partner}
        self._asked |= {key: replace(one, reply=None) for key, one in asked.items()}
        waits = {key[1]: floor_until(one, self._floor_s) - now for key, one in asked.items()}
        left: dict[str, Json] = {address: round(wait, 3) for address, wait in waits.items() if wait > 0.0}
        return {**self.said(partner), "waits_s": left}

    def take_over(self, partner: PartnerId, said: Mapping[str, Json], *, ago_s: float, goodbye: bool) -> None:
        """Goes on with the pace and the floors that another process left so long ago; see `Pacer.take_over`."""
        self._pacer.take_over(partner, said, ago_s=ago_s, goodbye=goodbye)
        now, waits = self._clock.monotonic(), said.get("waits_s")
        for address, wait in waits.items() if isinstance(waits, Mapping) else ():
            if isinstance(wait, int | float) and wait > ago_s:
                ended = now + wait - ago_s - self._floor_s
                self._asked[partner, address] = LastRequest(reply=None, began=ended, ended=ended)

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
        while self._clock.monotonic() >= self._pacer.leased_until:  # its place was granted while it had a lease
            await self._clock.sleep(UNLEASED_WAIT_S)
        began, flight.left = self._clock.monotonic(), True
        try:
            reply = await fetch()
        except BaseException:
            self._keep(key, reply=None, began=began)
            raise
        self._keep(key, reply=reply, began=began)
        self._pacer.heard(partner, reply, began=began)
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
            kept_s = max(KEPT_S, self._floor_s)
            self._asked = {known: asked for known, asked in self._asked.items() if now - asked.ended < kept_s}
            self._forget_at = max(MANY, 2 * len(self._asked))
