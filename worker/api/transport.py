"""One request on the wire and the whole of its answer: pooled for reads, on a connection of its own for each write.

A library that repeats a request or follows a redirect by itself would break the one promise of the worker, so nothing
here is left to it: requests go straight to its transport, past the client that would keep cookies, follow redirects,
and take proxies or credentials from the environment; and a write never meets a connection that may have died unseen.
Bodies are bounded and so is the time that one request may take.

It judges nothing: what an answer means is said elsewhere.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

import httpx

from worker.model.facts import Json

READ_BYTES_MAX = 32 * 1024 * 1024
WRITE_BYTES_MAX = 1024 * 1024
WHOLE_REQUEST = 3.0
"""A request may take this many time-outs in all: each part of a dripping answer would be in time for ever."""
AGENT = "campaign-worker"
ALWAYS = {"Accept": "application/json", "Accept-Encoding": "gzip", "Connection": "keep-alive", "User-Agent": AGENT}

SNIFFIO = "sniffio"

TransportFactory = Callable[[], httpx.AsyncBaseTransport]


class Stale(Exception):
    """Too late to send, noticed before the first byte."""


class TooLong(Exception):
    """A body beyond the bound; what it would have said is not known."""


def _search_once() -> None:
    """The library asks several times a request whether `sniffio` is installed, and each time every folder of the path
    is searched for it: two milliseconds a request. That it is not there is found out once."""
    if SNIFFIO not in sys.modules and find_spec(SNIFFIO) is None:
        sys.modules[SNIFFIO] = None  # type: ignore[assignment] # Python's own way to say so


def pooled() -> httpx.AsyncBaseTransport:
    """Connections for reads: kept, and never more than a partner's budget needs at once."""
    _search_once()
    return httpx.AsyncHTTPTransport(retries=0, limits=httpx.Limits(max_connections=100, max_keepalive_connections=20))


def single_use() -> httpx.AsyncBaseTransport:
    """One connection for one write: what was never used before cannot have been closed unseen."""
    _search_once()
    return httpx.AsyncHTTPTransport(retries=0, limits=httpx.Limits(max_connections=1, max_keepalive_connections=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Transports:
    """Where requests go: the network, or in tests a function."""

    reads: TransportFactory = pooled
    writes: TransportFactory = single_use


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """One request as bytes and headers."""

    method: str
    url: httpx.URL
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    content: bytes | None = field(default=None, repr=False)
    extensions: Mapping[str, object] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """An answer. ``broken``: why its body is not all there; the status was said all the same."""

    status: int
    headers: httpx.Headers
    content: bytes = field(repr=False)
    broken: Exception | None = None


def json_content(body: Json) -> tuple[dict[str, str], bytes | None]:
    """Headers and bytes of a JSON body; none for None. The same body gives the same bytes."""
    if body is None:
        return {}, None
    content = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
    return {"Content-Type": "application/json"}, content


class Wire:
    """Makes requests. Raises whatever the transport raises before an answer begins, and `TimeoutError`."""

    def __init__(self, *, transports: Transports, timeout_s: float) -> None:
        self._transports = transports
        self._timeout_s = timeout_s
        self._timeout = httpx.Timeout(timeout_s).as_dict()
        self._reads: httpx.AsyncBaseTransport | None = None

    async def read(self, sending: Sending) -> Whole:
        """One request over a kept connection: reads and sign-in."""
        if self._reads is None:
            self._reads = self._transports.reads()
        return await self._whole(self._reads, sending, READ_BYTES_MAX)

    async def write(self, sending: Sending, late: Callable[[], bool]) -> Whole:
        """One request over a connection of its own, which is closed after it. Raises `Stale` where ``late`` says so
        before the first byte: making the connection may have taken long, or the process may have been stopped in it."""

        async def before(step: str, _: Mapping[str, object]) -> None:
            if step.endswith("send_request_headers.started") and late():
                raise Stale

        headers = {**sending.headers, "Connection": "close", "Accept-Encoding": "identity"}
        alone = replace(sending, headers=headers, extensions={"trace": before})
        if late():
            raise Stale
        async with self._transports.writes() as transport:
            return await self._whole(transport, alone, WRITE_BYTES_MAX)

    async def aclose(self) -> None:
        """Closes the kept connections."""
        if self._reads is not None:
            await self._reads.aclose()
            self._reads = None

    async def _whole(self, transport: httpx.AsyncBaseTransport, sending: Sending, bytes_max: int) -> Whole:
        request = httpx.Request(
            sending.method,
            sending.url,
            headers={**ALWAYS, **sending.headers},
            content=sending.content,
            extensions={"timeout": self._timeout, **sending.extensions},
        )
        async with asyncio.timeout(self._timeout_s * WHOLE_REQUEST):
            response = await transport.handle_async_request(request)
            response.request = request
            try:
                content, broken = await _content(response, bytes_max)
            finally:
                await response.aclose()
        return Whole(status=response.status_code, headers=response.headers, content=content, broken=broken)


async def _content(response: httpx.Response, bytes_max: int) -> tuple[bytes, Exception | None]:
    """The body as far as it came, and what broke it off."""
    parts: list[bytes] = []
    size = 0
    try:
        async for part in response.aiter_bytes():
            size += len(part)
            if size > bytes_max:
                return b"", TooLong(f"an answer of more than {bytes_max} bytes")
            parts.append(part)
    except httpx.HTTPError as error:
        return b"", error
    return b"".join(parts), None
