"""One request on the wire and the whole of its answer, each on a connection of its own.

A library that repeats a request or follows a redirect by itself would break the one promise of the worker, so nothing
here is left to it: requests go straight to a transport, past the client that would keep cookies, follow redirects, and
take proxies or credentials from the environment. Bodies are bounded and so is the time that one request may take.

It judges nothing: what an answer means is said elsewhere.
"""

import asyncio
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast

import httpx

from worker.api.breaks import Unreadable
from worker.api.connection import HAND_OVER, Fence, OneConnection, kernel_fence
from worker.model.facts import Json

READ_BYTES_MAX = 8 * 1024 * 1024
WRITE_BYTES_MAX = 1024 * 1024
VALUES_MAX = 100_000
"""Commas and brackets of an answer. A page of 1,000 events has half as many; what has more takes memory by the gigabyte
and holds up everything else while it is read."""
UNPACKS = zlib.MAX_WBITS | 16
"""How zlib is asked for gzip."""
WHOLE_REQUEST = 3.0
"""A request may take this many time-outs in all: each part of a dripping answer would be in time for ever."""
AGENT = "campaign-worker"
ALWAYS = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip",
    "Cache-Control": "no-cache",
    "Connection": "close",
    "User-Agent": AGENT,
}
"""No answer from a store between: any of them may become evidence."""

TransportFactory = Callable[[], httpx.AsyncBaseTransport]


class Stale(Exception):
    """Too late to send, noticed before the first byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transports:
    """Where requests go: the network, or in tests a function. ``fence``: what a write's bytes are handed over in."""

    reads: TransportFactory = OneConnection
    writes: TransportFactory = OneConnection
    fence: Fence = kernel_fence


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

    async def read(self, sending: Sending) -> Whole:
        """One request that changes nothing: reads and sign-in."""
        return await self._whole(self._transports.reads, sending, READ_BYTES_MAX)

    async def write(self, sending: Sending, late: Callable[[], bool]) -> Whole:
        """One request that may change something. Raises `Stale` where ``late`` says so before the first byte: making
        the connection may have taken long, or the process may have been stopped in it."""

        @contextmanager
        def hand_over() -> Iterator[None]:
            with self._transports.fence():  # first: a stop after the check must not outlast it
                if late():
                    raise Stale
                yield

        if late():
            raise Stale
        headers = {**sending.headers, "Accept-Encoding": "identity"}
        handed = replace(sending, headers=headers, extensions={HAND_OVER: hand_over})
        return await self._whole(self._transports.writes, handed, WRITE_BYTES_MAX)

    async def _whole(self, made: TransportFactory, sending: Sending, bytes_max: int) -> Whole:
        request = httpx.Request(
            sending.method,
            sending.url,
            headers={**ALWAYS, **sending.headers},
            content=sending.content,
            extensions={"timeout": self._timeout, **sending.extensions},
        )
        async with made() as transport, asyncio.timeout(self._timeout_s * WHOLE_REQUEST):
            response = await transport.handle_async_request(request)
            response.request = request
            try:
                content, broken = await _content(response, bytes_max)
            finally:
                await response.aclose()
        return Whole(status=response.status_code, headers=response.headers, content=content, broken=broken)


async def _content(response: httpx.Response, bytes_max: int) -> tuple[bytes, Exception | None]:
    """The body as far as it came, and what broke it off: plain or packed once, and bounded before it is unpacked."""
    packed = response.headers.get("content-encoding", "").strip().lower()
    if packed not in ("", "identity", "gzip"):
        return b"", Unreadable("it is packed otherwise than as gzip, once")
    unpack = zlib.decompressobj(UNPACKS) if packed == "gzip" else None
    content = bytearray()
    try:
        async for part in cast("httpx.AsyncByteStream", response.stream):
            content += part if unpack is None else unpack.decompress(part, bytes_max + 1 - len(content))
            if len(content) > bytes_max or (unpack is not None and unpack.unconsumed_tail):
                return b"", Unreadable(f"an answer of more than {bytes_max} bytes")
    except httpx.HTTPError as error:
        return b"", error
    except zlib.error:
        return b"", Unreadable("what is packed in it is no gzip")
    if unpack is not None and content and not unpack.eof:
        return b"", Unreadable("what is packed in it has no end")
    if sum(map(content.count, b",[{")) > VALUES_MAX:
        return b"", Unreadable(f"an answer of more than {VALUES_MAX:,} values: ask for smaller pages (poll.page_size)")
    return bytes(content), None
