"""The wire between a simulated worker and the twin: where requests are counted, lost, held up, or cut by a death.

It keeps what a wire-tap would have seen of every write, for the judge: when its first byte left, what the ledger on
disk said at that moment, and when its sender heard the end of it.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Protocol

import httpx

from tests.simulation.disk import Disk
from tests.simulation.history import Read
from tests.simulation.loop import OWNER, Killed, SimLoop
from tests.simulation.points import SHOWN_NOTHING, WRONG_OBJECT, Harm, Points
from worker.api.connection import HAND_OVER
from worker.ledger.mark import read_mark
from worker.ledger.places import LedgerPlace
from worker.model.replacing import replace
from worker.sandbox.books import Seen
from worker.sandbox.delivery import Delivery, Hang, TwinRequest
from worker.sandbox.faults import Fault, FaultPlan, Match
from worker.sandbox.service import Service
from worker.sandbox.transport import TwinTransport

BEFOREHAND = frozenset({"person_before", "rule_gone", "rule_renamed", "denied", "clock", "disk_full"})
"""What others do in the moment of a request, before the service looks at it."""


@dataclass(slots=True, kw_only=True)
class Tapped:
    """One write on the wire. ``sending_seq``: the newest ``sending`` on disk when its first byte left; ``mark_seq``:
    how far the mark beside the ledger had got. ``heard_s``: when the sender knew an end of it; None: never.
    ``life``: which of the ledger's lives it belongs to."""

    owner: str
    at_s: float
    method: str
    url: str
    request_id: str
    reached: bool
    sending_seq: int
    mark_seq: int
    life: int
    harm: str = ""
    heard_s: float | None = None


class Around(Protocol):
    """What the wire needs of the world."""

    loop: SimLoop
    twin: Service
    points: Points
    disk: Disk
    tapped: list[Tapped]
    reads: list[Read]
    throttled: list[float]
    life: int

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
    tapped: Tapped | None = field(default=None)


class SimTransport(TwinTransport):
    """The way of one process to the twin."""

    def __init__(self, around: Around, sleep: Callable[[float], Awaitable[object]]) -> None:
        super().__init__(around.twin, clock=around.loop.time, sleep=sleep)
        self._around = around

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        around, owner = self._around, OWNER.get()
        asked = self._twin_request(request, await request.aread())
        kind = "read" if asked.is_read else "sign in" if asked.is_sign_in else "write"
        harm = around.points.cross(kind, f"{asked.method} {asked.path}")
        crossing = Crossing(request=asked, kind=kind, harm=harm, does="" if harm is None else harm.does)
        if crossing.does == "stall_before" and harm is not None:
            await self._stalled(owner, harm.seconds)
        if crossing.does == "kill_before":
            self._die(owner)
        self._first_byte(request)
        delivery_response = await self._crossed(crossing, request, owner)
        if crossing.tapped is not None:
            crossing.tapped.heard_s = around.loop.time()
        return delivery_response

    def _first_byte(self, request: httpx.Request) -> None:
        """What a write's bytes are handed over in; it may still say no."""
        if not OWNER.get() or not self._around.loop.alive(OWNER.get()):
            raise Killed
        with request.extensions.get(HAND_OVER, nullcontext)():
            pass

    async def _crossed(self, crossing: Crossing, request: httpx.Request, owner: str) -> httpx.Response:
        around, harm, asked = self._around, crossing.harm, crossing.request
        if harm is not None and harm.does in BEFOREHAND:
            around.meddle(harm, asked)
        if crossing.kind == "write":
            crossing.tapped = self._tap(asked, owner, harm)
        delivery = self._answered(asked, harm)
        if not isinstance(delivery, Hang):
            delivery = replace(delivery, delay_s=delivery.delay_s + around.latency())
        seen = around.twin.books.requests[-1]
        if crossing.tapped is not None:
            crossing.tapped.request_id, crossing.tapped.reached = seen.request_id, seen.reached
        self._note(asked, owner, seen, harm)
        around.tell(f"{owner} {asked.method} {asked.path} {dict(asked.query) or ''} {_body(asked)} -> {seen.status}")
        if harm is not None and harm.does == "person_after":
            around.meddle(harm, asked)
        if crossing.does in ("kill_after", "power"):
            self._die(owner, power=crossing.does == "power")
        try:
            response = await self._delivered(delivery, request)
        except httpx.TransportError:
            if crossing.tapped is not None:
                crossing.tapped.heard_s = around.loop.time()
            raise
        if crossing.does == "kill_answer":
            self._die(owner)
        if crossing.does == "stall_after" and harm is not None:
            await self._stalled(owner, harm.seconds)
        return response

    def _answered(self, asked: TwinRequest, harm: Harm | None) -> Delivery:
        """The twin's answer, with this fault and no other where one is asked for."""
        around = self._around
        if harm is None or not harm.fault:
            return around.twin.answer(asked, around.loop.time())
        match = Match(method=asked.method, path=f"^{re.escape(asked.path)}$")
        standing = around.twin.faults
        around.twin.faults = FaultPlan((Fault(match=match, kind=harm.fault, params=harm.params),))  # type: ignore[arg-type]  # the menu's words
        try:
            return around.twin.answer(asked, around.loop.time())
        finally:
            around.twin.faults = standing

    def _note(self, asked: TwinRequest, owner: str, seen: Seen, harm: Harm | None) -> None:
        now, status = self._around.loop.time(), seen.status
        if status == 429:
            self._around.throttled.append(now)
        if asked.is_read:
            whole = status in (200, 404) and harm is None  # a 404 says that there is none
            lie = status == 404 and harm is not None
            foreign = status == 200 and harm is not None and harm.name == WRONG_OBJECT
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
                )
            )

    def _tap(self, asked: TwinRequest, owner: str, harm: Harm | None) -> Tapped:
        around = self._around
        mark = read_mark(LedgerPlace(file=around.disk.file))
        host = next(str(base) for name, base, _ in self._bases if name == asked.host)
        query = "&".join(f"{key}={value}" for key, value in asked.query)
        tapped = Tapped(
            owner=owner,
            at_s=around.loop.time(),
            method=asked.method,
            url=f"{host}{asked.path}{'?' if query else ''}{query}",
            request_id="",
            reached=True,
            sending_seq=around.disk.last_sending(),
            mark_seq=-1 if mark is None else mark.seq,
            life=around.life,
            harm="" if harm is None else harm.name,
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
