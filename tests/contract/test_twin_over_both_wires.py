"""The twin behaves alike in-process and over a real socket, as far as a client can see.

What a client concludes from a broken connection decides whether money is spent twice, so the simulation, which runs
in-process, is worth only as much as this likeness.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
import pytest

from tests.builders import cases
from tests.twin import BASE_URLS, TwinTransport
from worker.sandbox.app import SandboxError, serving
from worker.sandbox.faults import Fault, Kind, Match
from worker.sandbox.service import Twin
from worker.sandbox.settings import Host
from worker.sandbox.start import FIRST_PARTNER, demo_world

PAUSE = "/events/e1/client_campaign_status?client_campaign_status=PAUSED"
SHORT_S = 0.2


class VirtualTime:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Wire:
    """A client, the service that it talks to, and where its bases are."""

    client: httpx.AsyncClient
    service: Twin
    bases: Mapping[Host, str]
    time: VirtualTime

    async def send(
        self,
        method: str,
        target: str,
        host: Host = "api",
        **rest: Any,  # noqa: ANN401  # whatever httpx takes
    ) -> httpx.Response:
        return await self.client.request(method, self.bases[host] + target, **rest)

    def breaks(self, kind: Kind, method: str | None = None, **params: object) -> None:
        self.service.faults.add(Fault(kind=kind, match=Match(method=method), params=params))


@asynccontextmanager
async def wired(wire: str) -> AsyncIterator[Wire]:
    virtual = VirtualTime()
    service = Twin(demo_world(), origin_s=100.0)
    if wire == "in-process":
        transport = TwinTransport(service, clock=virtual.clock, sleep=virtual.sleep)
        async with httpx.AsyncClient(transport=transport, timeout=SHORT_S) as client:
            yield await _signed_in(Wire(client=client, service=service, bases=BASE_URLS, time=virtual))
        return
    async with (
        serving(service, clock=virtual.clock, sleep=asyncio.sleep) as address,
        httpx.AsyncClient(timeout=httpx.Timeout(5.0, read=SHORT_S)) as client,
    ):
        hosts: tuple[Host, ...] = ("api", "cr", "media")
        bases = {host: address.url(host) for host in hosts}
        yield await _signed_in(Wire(client=client, service=service, bases=bases, time=virtual))


async def _signed_in(wire: Wire) -> Wire:
    tokens = (await wire.send("POST", "/auth", json={"username": "sandbox", "password": "sandbox"})).json()
    wire.client.headers["Authorization"] = f"Bearer {tokens['AccessToken']}"
    wire.client.headers["X-Preferred-Partner-Id"] = FIRST_PARTNER
    return wire


@pytest.fixture(params=["in-process", "socket"])
async def it(request: pytest.FixtureRequest) -> AsyncIterator[Wire]:
    """Over each wire."""
    async with wired(request.param) as wire:
        yield wire


async def test_an_ordinary_call_is_answered(it: Wire) -> None:
    listed = await it.send("GET", "/events/?limit=2")
    paused = await it.send("PUT", PAUSE)

    assert (listed.status_code, len(listed.json()["items"])) == (200, 2)
    assert listed.headers["x-request-id"].startswith("twin-")
    assert (paused.status_code, paused.content) == (204, b"")


async def test_the_three_bases_are_three_services(it: Wire) -> None:
    edited = await it.send("PUT", "/events/e1?event_type=a&partner_product=b", host="cr")
    media = await it.send("POST", "/media", host="media", content=b"x")

    assert (edited.status_code, media.status_code) == (200, 201)
    assert (await it.send("GET", "/events/e1", host="cr")).status_code == 405


async def test_an_encoded_segment_arrives_as_one_segment(it: Wire) -> None:
    answer = await it.send("GET", "/events/a%2Fb%20%26%20%D1%8E")

    assert answer.status_code == 404
    assert it.service.books.requests[-1].path == "/events/a%2Fb%20%26%20%D1%8E"
    assert answer.json()["message"] == "no such event"


async def test_repeated_query_keys_arrive_in_order(it: Wire) -> None:
    await it.send("POST", "/events/e1/series?event_series=e3&event_series=e2")

    assert (await it.send("GET", "/events/e1")).json()["campaign_event_series"] == ["e3", "e2"]


@cases(
    "kind, reset, expected, effects",
    ("cut_before", True, httpx.ReadError, 0, "reset before"),
    ("cut_after", True, httpx.ReadError, 1, "reset after"),
    ("cut_before", False, httpx.RemoteProtocolError, 0, "closed before"),
    ("cut_after", False, httpx.RemoteProtocolError, 1, "closed after"),
)
async def test_a_cut_is_a_broken_connection_and_says_nothing_of_the_effect(
    it: Wire, kind: Kind, reset: bool, expected: type[Exception], effects: int
) -> None:
    it.breaks(kind, "PUT", reset=reset)
    with pytest.raises(expected):
        await it.send("PUT", PAUSE)

    assert len(it.service.books.effects) == effects
    assert it.service.books.writes_sent == 1
    assert (await it.send("GET", "/events/e2")).status_code == 200, "the next connection is a new one"


@pytest.mark.parametrize("reset", [True, False])
async def test_a_body_that_breaks_off_is_an_error_and_not_a_short_answer(it: Wire, reset: bool) -> None:
    it.breaks("cut_body", "GET", reset=reset)
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        await it.send("GET", "/events/")


@pytest.mark.parametrize(("kind", "effects"), [("hang_before", 0), ("hang_after", 1), ("slow", 1)])
async def test_what_hangs_or_is_slow_ends_with_the_clients_patience(it: Wire, kind: Kind, effects: int) -> None:
    it.breaks("slow", "GET", delay_s=0.01)
    assert (await it.send("GET", "/events/e1")).status_code == 200, "within its patience"
    it.breaks(kind, "PUT", **({"delay_s": 3 * SHORT_S} if kind == "slow" else {}))
    with pytest.raises(httpx.ReadTimeout):
        await it.send("PUT", PAUSE)

    assert len(it.service.books.effects) == effects


async def test_in_process_a_connection_that_never_came_about_left_no_byte() -> None:
    async with wired("in-process") as it:
        it.breaks("no_connection", "PUT")
        with pytest.raises(httpx.ConnectError):
            await it.send("PUT", PAUSE)

        assert it.service.books.writes_sent == 0


async def test_in_process_waiting_happens_on_the_clock_that_was_handed_in() -> None:
    async with wired("in-process") as it:
        it.breaks("slow", "GET", delay_s=0.1)
        it.breaks("hang_before", "GET")
        await it.send("GET", "/events/e1")
        with pytest.raises(httpx.ReadTimeout):
            await it.send("GET", "/events/e2")

        assert it.time.slept == [0.1, SHORT_S]


async def test_in_process_nobody_answers_elsewhere() -> None:
    async with wired("in-process") as it:
        with pytest.raises(httpx.ConnectError, match="the sandbox is not at"):
            await it.client.get("http://elsewhere.invalid/api/v3/status/")


async def test_a_port_that_is_taken_is_named() -> None:
    async with serving(Twin(demo_world()), clock=time.monotonic, sleep=anyio.sleep) as address:
        with pytest.raises(SandboxError, match=f"port {address.port} cannot be used"):
            async with serving(Twin(demo_world()), clock=time.monotonic, sleep=anyio.sleep, port=address.port):
                pass


async def test_no_answer_of_a_kept_connection_waits_until_its_head_has_been_acknowledged() -> None:
    took = []
    async with (
        serving(Twin(demo_world()), clock=time.monotonic, sleep=anyio.sleep) as address,
        httpx.AsyncClient(base_url=address.url("api"), trust_env=False) as client,
    ):
        for _ in range(30):
            began = time.monotonic()
            await client.get("/status/")
            took.append(time.monotonic() - began)
    assert min(took[10:]) < 0.035, "a reader's system acknowledges after 40 ms"


async def test_a_hanging_client_does_not_keep_the_server_from_ending(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    async with wired("socket") as it:
        it.breaks("hang_before", "GET")
        with pytest.raises(httpx.ReadTimeout):
            await it.send("GET", "/events/e1")
