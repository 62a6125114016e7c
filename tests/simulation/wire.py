"""The wire between a simulated worker and the twin: where requests are counted, lost, held up, or cut by a death.

It keeps what a wire-tap would have seen of every write, for the judge: when its first byte left, what the ledger on
disk said at that moment, and when its sender heard the end of it.
"""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Protocol

import httpx

from tests.simulation.disk import Disk
from tests.simulation.history import Read, Wire
from tests.simulation.kernel import KEPT_S, Kept, Socket, Timers
from tests.simulation.loop import OWNER, START_S, Killed, SimLoop
from tests.simulation.points import SHOWN_NOTHING, WRONG_OBJECT, Harm, Points
from tests.twin import BASE_URLS, TwinTransport, twin_request
from worker.api.transport import HAND_OVER
from worker.sandbox.faults import Fault, FaultPlan, Match
from worker.sandbox.service import Twin
from worker.sandbox.settings import Delivery, Hang, TwinAnswer, TwinRequest
from worker.sandbox.world import SeenRequest

BEFOREHAND = frozenset({"person_before", "rule_gone", "rule_renamed", "denied", "clock", "disk_full", "cache", "moved"})
"""What others do in the moment of a request, before the service looks at it."""


def _beside(harm: Harm, path: str, status: int | None) -> bool:
    """Whether it changes nothing of an answer: nothing is asked of the event that vanishes, or a 404 has no fields."""
    elsewhere = harm.fault == "vanish" and path != "/events/" and f"/{harm.params['eid']}" not in path
    return elsewhere or (harm.fault == "missing_fields" and status == 404)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What stands between the worker and the service for a while, and answers as of when it came. ``stubborn``: also
    whoever asks for what is so now."""

    from_s: float
    until_s: float
    stubborn: bool


class Around(Protocol):
    """What the wire needs of the world."""

    loop: SimLoop
    twin: Twin
    points: Points

    @property
    def disk(self) -> Disk: ...

    tapped: list[Wire]
    reads: list[Read]
    throttled: list[float]
    unsigned: list[float]
    life: int
    timers: Timers
    cache: Cache | None
    moved_s: float | None
    cut_off: set[str]

    def later(self, seconds: float, do: Callable[[], object]) -> None: ...
    def tell(self, text: str) -> None: ...
    def latency(self) -> float: ...
    def kill(self, owner: str, *, power: bool = False) -> None: ...
    def meddle(self, harm: Harm, request: TwinRequest) -> None: ...


@dataclass(slots=True)
class Crossing:
    """One request on its way."""

    request: TwinRequest
    kind: str
    harm: Harm | None
    does: str = ""
    kept: Kept | None = None
    tapped: Wire | None = field(default=None)


class SimTransport(TwinTransport):
    """The way of one process to the twin, by connections as this socket makes them."""

    def __init__(self, around: Around, sleep: Callable[[float], Awaitable[object]], socket: Socket) -> None:
        super().__init__(around.twin, clock=around.loop.time, sleep=sleep)
        self._around = around
        self._socket = socket
        self._owner = OWNER.get()
        self._idle: list[Kept] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        around, owner = self._around, OWNER.get()
        asked = twin_request(request, await request.aread())
        kind = "read" if asked.is_read else "sign in" if asked.is_sign_in else "write"
        harm = around.points.cross(kind, f"{asked.method} {asked.path}")
        if asked.is_sign_in and harm is not None:
            around.unsigned.append(around.loop.now)
        if owner in around.cut_off:
            raise httpx.ConnectError("no way there", request=request)
        crossing = Crossing(request=asked, kind=kind, harm=harm, does="" if harm is None else harm.does)
        if crossing.does == "stall_before" and harm is not None:
            await self._stalled(owner, harm.seconds)
        if crossing.does == "kill_before":
            self._die(owner)
        crossing.kept = self._connected()
        response = await self._crossed(crossing, request, owner)
        if crossing.tapped is not None:
            crossing.tapped.heard_s = around.loop.time()
        if request.headers.get("connection", "").lower() != "close":
            crossing.kept.used_s = around.loop.time()
            self._idle.append(crossing.kept)
        return response

    def _connected(self) -> Kept:
        """A connection that was kept, or a new one."""
        now = self._around.loop.time()
        while self._idle:
            kept = self._idle.pop()
            if now - kept.used_s <= KEPT_S:
                return kept
        return Kept(made_s=now, used_s=now)

    async def aclose(self) -> None:
        self._idle.clear()

    async def _crossed(self, crossing: Crossing, request: httpx.Request, owner: str) -> httpx.Response:
        around, harm, asked = self._around, crossing.harm, crossing.request
        if not OWNER.get() or not around.loop.alive(OWNER.get()):
            raise Killed
        with request.extensions.get(HAND_OVER, nullcontext)():  # the last check: it may still say no
            if harm is not None and harm.does in BEFOREHAND:
                around.meddle(harm, asked)
            handed = await self._handed_over(crossing, owner)
        delivery = await self._retransmitted(crossing, request, owner) if handed is None else handed
        if harm is not None and harm.does == "person_after":
            around.meddle(harm, asked)
        if crossing.does in ("kill_after", "power"):
            self._die(owner, power=crossing.does == "power")
        try:
            response = await self._delivered(delivery, request)
        except (httpx.TransportError, asyncio.CancelledError):
            if crossing.tapped is not None:
                crossing.tapped.heard_s = around.loop.time()
            raise
        if crossing.does == "kill_answer":
            self._die(owner)
        if crossing.does == "stall_after" and harm is not None:
            await self._stalled(owner, harm.seconds)
        return response

    async def _handed_over(self, crossing: Crossing, owner: str) -> Delivery | None:
        """The request is handed to the kernel: right after the last check, or once a stop between the two is over. What
        comes of it; None where its packets are lost for a while."""
        harm = crossing.harm
        if harm is not None and harm.does == "stall_at_byte":
            told: asyncio.Future[Delivery] = self._around.loop.create_future()
            self._around.tell(f"{owner} is stopped for {harm.seconds:g} s at the byte")
            self._around.loop.stall(owner, harm.seconds, lambda: told.set_result(self._arrived(crossing, owner)))
            return await told
        if harm is not None and harm.does.startswith("lost"):
            crossing.tapped = self._tap(crossing.request, owner, harm)
            crossing.tapped.reached = False
            return None
        return self._arrived(crossing, owner)

    async def _retransmitted(self, crossing: Crossing, request: httpx.Request, owner: str) -> Delivery:
        """The kernel sends the packets anew as long as its socket tells it to, also when nobody is there any more."""
        harm, tapped = crossing.harm, crossing.tapped
        assert harm is not None
        assert tapped is not None
        around, gone, socket = self._around, [False], self._socket
        told: asyncio.Future[Delivery | None] = around.loop.create_future()

        def arrives() -> None:
            left = gone[0] or not around.loop.alive(owner)
            if left and socket.discards:
                return
            delivery = self._arrived(crossing, owner)
            if not left and not told.done():
                told.set_result(delivery)

        def given_up() -> None:
            if around.loop.alive(owner) and not told.done():
                told.set_result(None)

        if socket.gives_up_s is not None and harm.seconds > socket.gives_up_s:
            around.later(socket.gives_up_s, given_up)
        else:
            around.later(harm.seconds, arrives)
        if harm.does == "lost_killed":
            self._die(owner)
        if harm.does == "lost_stopped":
            await self._stalled(owner, harm.seconds + 2.0)
        try:
            async with asyncio.timeout(request.extensions["timeout"]["read"]):
                delivery = await told
        except TimeoutError:
            raise httpx.ReadTimeout("no answer", request=request) from None
        finally:
            gone[0] = True
            tapped.heard_s = around.loop.time()
        if delivery is None:
            raise httpx.ReadError("the kernel gave it up", request=request)
        return delivery

    def _arrived(self, crossing: Crossing, owner: str) -> Delivery:
        """The request enters the network, and the service answers it."""
        around, harm, asked = self._around, crossing.harm, crossing.request
        if crossing.kind == "write":
            crossing.tapped = crossing.tapped or self._tap(asked, owner, harm)
            crossing.tapped.entered_s = around.loop.time()
        as_of_s = self._as_of_s(crossing)
        delivery = self._by_the_cache(self._answered(crossing, as_of_s), as_of_s)
        if not isinstance(delivery, Hang):
            delivery = replace(delivery, delay_s=delivery.delay_s + around.latency())
        seen = around.twin.books.requests[-1]
        if crossing.tapped is not None:
            crossing.tapped.request_id, crossing.tapped.reached = seen.request_id, seen.reached
        self._note(crossing, owner, seen, as_of_s)
        past = "" if as_of_s is None else f" as of {as_of_s - START_S:.3f}"
        around.tell(
            f"{owner} {asked.method} {asked.path} {dict(asked.query) or ''} {_body(asked)} -> {seen.status}{past}"
        )
        return self._first_of_two(crossing, delivery)

    def _first_of_two(self, crossing: Crossing, delivery: Delivery) -> Delivery:
        """What comes first on the connection: an answer that is there once more comes before the one asked for."""
        kept = crossing.kept
        if kept is None:
            return delivery
        again, kept.again = kept.again, delivery if crossing.does == "twice" else None
        return delivery if again is None else again

    def _as_of_s(self, crossing: Crossing) -> float | None:
        """Which moment is shown, where that is a past one: a kept connection may lead to a place that nobody writes to
        any more, and a cache may stand in between."""
        around, kept = self._around, crossing.kept
        if not crossing.request.is_read or kept is None:
            return None
        now, moved_s, cache = around.loop.time(), around.moved_s, around.cache
        if moved_s is not None and kept.made_s < moved_s:
            return moved_s
        if cache is None or not cache.from_s <= now < cache.until_s:
            return None
        fresh = "no-cache" in crossing.request.headers.get("cache-control", "")
        return None if fresh and not cache.stubborn else cache.from_s

    def _answered(self, crossing: Crossing, as_of_s: float | None) -> Delivery:
        """The twin's answer, with this fault and no other where one is asked for."""
        around, asked, harm = self._around, crossing.request, crossing.harm
        now = around.loop.time()
        kind, params = ("", {}) if harm is None else (harm.fault, harm.params)
        if as_of_s is not None:
            kind, params = "stale_reads", {"by_s": now - as_of_s}
        if not kind:
            return around.twin.answer(asked, now)
        match = Match(method=asked.method, path=f"^{re.escape(asked.path)}$")
        standing = around.twin.faults
        around.twin.faults = FaultPlan((Fault(match=match, kind=kind, params=params),))  # type: ignore[arg-type]  # the menu's words
        try:
            return around.twin.answer(asked, now)
        finally:
            around.twin.faults = standing

    def _by_the_cache(self, delivery: Delivery, as_of_s: float | None) -> Delivery:
        """An answer of a cache says how old it is."""
        cache = self._around.cache
        if cache is None or as_of_s != cache.from_s or not isinstance(delivery, TwinAnswer):
            return delivery
        age = str(math.ceil(self._around.loop.time() - as_of_s))
        return replace(delivery, headers={**delivery.headers, "age": age})

    def _note(self, crossing: Crossing, owner: str, seen: SeenRequest, as_of_s: float | None) -> None:
        asked, harm = crossing.request, crossing.harm
        now, status = self._around.loop.time(), seen.status
        if status == 429:
            self._around.throttled.append(now)
        if asked.is_read:
            harm = None if harm is not None and _beside(harm, asked.path, status) else harm
            whole = status in (200, 404) and harm is None  # a 404 says that there is none
            lie = status == 404 and harm is not None and bool(harm.fault)
            named = not asked.path.endswith("/campaigns")  # a list of campaigns does not say whose it is
            foreign = status == 200 and harm is not None and harm.name == WRONG_OBJECT and named
            self._around.reads.append(
                Read(
                    at_s=now,
                    owner=owner,
                    path=asked.path,
                    whole=whole,
                    partly=status == 200 and harm is not None and harm.name not in SHOWN_NOTHING,
                    lie=lie,
                    foreign=foreign,
                    request_id=seen.request_id,
                    partner=asked.partner,
                    as_of_s=as_of_s,
                    told=as_of_s is not None
                    and self._around.cache is not None
                    and as_of_s == self._around.cache.from_s,
                )
            )

    def _tap(self, asked: TwinRequest, owner: str, harm: Harm | None) -> Wire:
        around = self._around
        query = "&".join(f"{key}={value}" for key, value in asked.query)
        tapped = Wire(
            owner=owner,
            at_s=around.loop.time(),
            method=asked.method,
            url=f"{BASE_URLS[asked.host]}{asked.path}{'?' if query else ''}{query}",
            request_id="",
            reached=True,
            sending_seq=around.disk.last_sending(),
            mark_seq=around.disk.marked_to(owner, asked.partner),
            life=around.life,
            partner=asked.partner,
            harm="" if harm is None else harm.name,
            heard_s=None,
            entered_s=None,
        )
        around.tapped.append(tapped)
        return tapped

    async def _stalled(self, owner: str, seconds: float) -> None:
        self._around.tell(f"{owner} is stalled for {seconds:g} s")
        self._around.loop.stall(owner, seconds)
        await asyncio.sleep(0)

    def _die(self, owner: str, *, power: bool = False) -> None:
        self._around.kill(owner, power=power)
        raise Killed(owner)


def _body(asked: TwinRequest) -> str:
    return asked.body.decode("utf-8", "replace") if asked.body and not asked.is_sign_in else ""
