"""Lets the requests of each partner leave one by one, none before its time, and keeps places for a write's last look.

Two lines stand before one door. What serves a write (evidence, pre-flights, the writes themselves) goes first, but
after every third request of that line one of the other leaves, if one waits: a worker that only settles is blind, and
a cancelled event that nobody sees costs more than a confirmation that comes a second later.

A pre-flight is worth nothing in parts: all its facts must be young when its write leaves. So it asks for its places at
once, they are saved up while the budget is short, and then all of it leaves together. Saving never lets more requests
leave in any minute than the budget allows, because what has left is counted over a sliding minute as well.

One partner never slows another: no two lines share anything. Clock and chance are handed in.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from heapq import heappop, heappush
from itertools import count

from worker.model.exchange import Clock, Places, Urgency
from worker.model.ids import PartnerId
from worker.reading.pacing import Pace, budget_now, eased, fresh, given_back, struck, taken, wait_s

MINUTE_S = 60.0
LOOK_AFTER = 3
"""So many requests may serve writes before one that looks leaves, where both wait."""
CROWDED_WAIT_S = 0.25
"""How soon it is tried again where kept places alone fill the minute: they are used or given back within seconds."""

Line = list[tuple[Urgency, int, "Turn"]]


@dataclass(slots=True)
class Turn:
    """One asker in the line. ``saved``: how many of the ``places`` it asks for it has by now. ``keeps``: granted, they
    are kept until they are used or given back; else the request leaves at once."""

    granted: "asyncio.Future[None]"
    urgency: Urgency
    places: int = 1
    keeps: bool = False
    saved: int = 0


@dataclass(slots=True)
class Door:
    """What is known of one partner. ``left``: when requests left, in monotonic seconds, over the last minute. ``kept``:
    places that were granted and not used yet. ``served``: requests for writes since one that looks left."""

    pace: Pace
    writing: Line = field(default_factory=list)
    looking: Line = field(default_factory=list)
    left: deque[float] = field(default_factory=deque)
    kept: int = 0
    served: int = 0
    walker: "asyncio.Task[None] | None" = None

    def line_of(self, urgency: Urgency) -> Line:
        """The line in which such an asker stands."""
        return self.looking if urgency >= Urgency.LISTING else self.writing

    def next_line(self, now: float) -> Line | None:
        """Whose turn it is; None where nobody waits. Who has gone away gives back what was saved for it."""
        for line in (self.writing, self.looking):
            while line and line[0][2].granted.done():
                gone = heappop(line)[2]
                if gone.granted.cancelled():
                    self.pace = given_back(self.pace, gone.saved, now)
                    gone.saved = 0
        if not self.writing or (self.looking and self.served >= LOOK_AFTER):
            return self.looking or None
        return self.writing

    def crowded_for_s(self, turn: Turn, now: float) -> float:
        """Seconds until the last minute has room for all that the turn asks; 0.0 for now.

        What left before the last 429 does not count: the budget was another one then.
        """
        while self.left and self.left[0] <= now - MINUTE_S:
            self.left.popleft()
        most = max(turn.places, int(budget_now(self.pace, now)))
        if len(self.left) + self.kept + turn.places <= most:
            return 0.0
        counted = [at for at in self.left if at > self.pace.struck_at]
        beyond = len(counted) + self.kept + turn.places - most
        if beyond <= 0:
            return 0.0
        return counted[beyond - 1] + MINUTE_S - now if beyond <= len(counted) else CROWDED_WAIT_S


class KeptPlaces:
    """Places in the budget of one partner, kept for requests that must leave together."""

    def __init__(self, pacer: "Pacer", partner: PartnerId, places: int) -> None:
        self._pacer = pacer
        self._partner = partner
        self._places = places

    def take(self) -> bool:
        """Whether a request may leave at once on one of these places; then it is counted."""
        if self._places == 0 or not self._pacer.use_kept(self._partner):
            return False
        self._places -= 1
        return True

    def give_back(self) -> None:
        """What was not needed is there for others again."""
        self._pacer.give_back(self._partner, self._places)
        self._places = 0


class Pacer:
    """The doors of all partners."""

    def __init__(self, *, per_minute: float, clock: Clock, chance: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._chance = chance
        self._doors: dict[PartnerId, Door] = {}
        self._number = count()

    async def turn(self, partner: PartnerId, urgency: Urgency) -> None:
        """Waits until a request of this urgency may leave, and counts it."""
        await self.granted(self.queue(partner, urgency))

    async def keep(self, partner: PartnerId, urgency: Urgency, places: int) -> KeptPlaces:
        """Waits until so many requests may leave at once. What is not used must be given back."""
        await self.granted(self._stand(partner, urgency, places, keeps=True))
        return KeptPlaces(self, partner, places)

    def queue(self, partner: PartnerId, urgency: Urgency) -> Turn:
        """A place in the line, for those who may have to move forward later: see ``hurry``."""
        return self._stand(partner, urgency, 1)

    async def granted(self, turn: Turn) -> None:
        """Waits for the turn. A cancelled wait gives its place back."""
        try:
            await turn.granted
        except asyncio.CancelledError:
            turn.granted.cancel()
            raise

    def hurry(self, partner: PartnerId, turn: Turn, urgency: Urgency) -> None:
        """Somebody more urgent waits for the same answer."""
        if not turn.granted.done() and urgency < turn.urgency:
            turn.urgency = urgency
            heappush(self._door(partner).line_of(urgency), (urgency, next(self._number), turn))

    def serve(self, turn: Turn, places: Places) -> None:
        """Lets a waiting turn leave on a place that somebody has kept for the same answer."""
        if not turn.granted.done() and places.take():
            turn.granted.set_result(None)

    def use_kept(self, partner: PartnerId) -> bool:
        """One kept place becomes a request, unless a 429 has come meanwhile; see `KeptPlaces`."""
        door, now = self._door(partner), self._clock.monotonic()
        if now < door.pace.blocked_until:
            return False
        door.kept -= 1
        door.left.append(now)
        return True

    def give_back(self, partner: PartnerId, places: int) -> None:
        """Kept places that nobody needs; see `KeptPlaces`."""
        door = self._door(partner)
        door.kept -= places
        door.pace = given_back(door.pace, places, self._clock.monotonic())

    def throttled(self, partner: PartnerId, *, began: float, retry_after: timedelta | None) -> None:
        """A 429 came back, on a read or a write."""
        now, door = self._clock.monotonic(), self._door(partner)
        door.pace = struck(door.pace, began=began, now=now, retry_after=retry_after, chance=self._chance())

    def answered(self, partner: PartnerId, *, began: float) -> None:
        """An answer that was no 429 came back."""
        door = self._door(partner)
        door.pace = eased(door.pace, began=began, now=self._clock.monotonic())

    def pace(self, partner: PartnerId) -> Pace:
        """The partner's pace as last counted."""
        return self._door(partner).pace

    def blocked_until(self, partner: PartnerId) -> float:
        """Monotonic second until which a 429 forbids every request of the partner."""
        return self.pace(partner).blocked_until

    def blocked(self) -> dict[PartnerId, float]:
        """The same of every partner that was ever asked for anything, or is waited for."""
        return {partner: door.pace.blocked_until for partner, door in self._doors.items()}

    def wait(self, partner: PartnerId, wait: timedelta) -> None:
        """No request of the partner leaves for so long: a process before this one was asked for patience."""
        door, until = self._door(partner), self._clock.monotonic() + wait.total_seconds()
        door.pace = replace(door.pace, blocked_until=max(door.pace.blocked_until, until))

    def budget(self, partner: PartnerId) -> float:
        """Requests per minute that the partner is allowed now; for `status`."""
        return budget_now(self.pace(partner), self._clock.monotonic())

    def last_minute(self, partner: PartnerId) -> int:
        """Requests of the partner that left in the last 60 seconds; for `status`."""
        since = self._clock.monotonic() - MINUTE_S
        return sum(at > since for at in self._door(partner).left)

    async def aclose(self) -> None:
        """Ends all waiting; whoever still waits is cancelled."""
        doors, self._doors = list(self._doors.values()), {}
        walkers = [door.walker for door in doors if door.walker is not None]
        for door in doors:
            for _, _, turn in (*door.writing, *door.looking):
                turn.granted.cancel()
        for walker in walkers:
            walker.cancel()
        await asyncio.gather(*walkers, return_exceptions=True)

    def _door(self, partner: PartnerId) -> Door:
        if partner not in self._doors:
            self._doors[partner] = Door(pace=fresh(self._per_minute, self._clock.monotonic()))
        return self._doors[partner]

    def _stand(self, partner: PartnerId, urgency: Urgency, places: int, *, keeps: bool = False) -> Turn:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turn = Turn(granted=granted, urgency=urgency, places=places, keeps=keeps)
        door = self._door(partner)
        nobody = door.next_line(self._clock.monotonic()) is None
        heappush(door.line_of(urgency), (urgency, next(self._number), turn))
        if nobody:
            self._serve_now(door)
        if not turn.granted.done() and door.walker is None:
            door.walker = asyncio.ensure_future(self._walk(door))
        return turn

    def _serve_now(self, door: Door) -> float:
        """Lets leave whoever may leave now; the seconds until the next may, 0.0 where nobody waits any more."""
        while (line := door.next_line(now := self._clock.monotonic())) is not None:
            turn = line[0][2]
            if turn.saved < turn.places:
                wait = wait_s(door.pace, now)
                if wait > 0.0:
                    return wait
                self._save(door, line, turn, now)
                continue
            crowded = max(door.crowded_for_s(turn, now), door.pace.blocked_until - now)
            if crowded > 0.0:
                return crowded
            heappop(line)
            self._grant(door, turn, now)
        return 0.0

    def _save(self, door: Door, line: Line, turn: Turn, now: float) -> None:
        """One request of the budget goes to this turn."""
        door.pace = taken(door.pace, now)
        turn.saved += 1
        if line is door.looking:
            door.served = 0
        else:
            door.served += 1

    def _grant(self, door: Door, turn: Turn, now: float) -> None:
        if turn.keeps:
            door.kept += turn.places
        else:
            door.left.append(now)
        turn.granted.set_result(None)

    async def _walk(self, door: Door) -> None:
        """Serves one partner's lines until both are empty."""
        try:
            while (wait := self._serve_now(door)) > 0.0:
                await self._clock.sleep(wait)
        finally:
            door.walker = None
