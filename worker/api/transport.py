"""One request on the wire and the whole of its answer, each on a connection of its own.

A library that repeats a request or follows a redirect by itself would break the one promise of the worker, so nothing
here is left to it: requests go straight to a transport, past the client that would keep cookies, follow redirects, and
take proxies or credentials from the environment. Bodies are bounded and so is the time that one request may take.

Nothing is kept from one request to the next. A kept connection may lead to a place that the service has left, and what
comes on it may be the answer to something else; the one gate hands each answer to whoever asks, evidence included, so
each must be good enough for evidence. A write, moreover, must not meet a connection that died unseen.

A write's *last byte* is bounded. The whole request goes to the kernel in one call, within a fence: a timer of the
kernel's that ends the process where it is stopped between the last check and that call. What the kernel has taken it
sends for one time-out at most, and it discards what is left when the connection is closed, or its process has died.

It judges nothing: what an answer means is said elsewhere.
"""

import asyncio
import json
import signal
import socket
import ssl
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import cast

import h11
import httpx

from worker.model.errors import NotSafe
from worker.model.facts import Json

WINDOW_S = 2.0
"""The longest from the last check until the kernel has the request; it takes microseconds. With `api.timeout` before
it, `api.timeout` in the kernel after it, and the kernel's first pause of up to 3 s, no byte leaves later than
2 x `api.timeout` + 5 s after the attempt was recorded."""
HEAD_MAX = 100 * 1024
"""Bytes of the head of an answer."""
PART_BYTES = 64 * 1024
PARTS_MAX, PARTS_AT_ONCE = 40_000, 1_000
"""Parts of an answer: a service that writes its JSON value by value sends so many. After a thousand the others have
their turn, because those that have come would else be taken without a pause."""
INTERIM_MAX = 20
NEXT_ADDRESS_S = 0.25
"""How long one address of a name is tried before the next is tried beside it."""
PORTS = {"http": 80, "https": 443}
HAND_OVER = "hand_over"
"""The request's extension that a write carries: within it, the bytes go to the kernel. Entering it may say no."""

PAGE_BYTES_MAX = 4 * 1024 * 1024
ANSWER_BYTES_MAX = 1024 * 1024
"""Bytes of a page of the list, and of any other answer."""
VALUES_MAX = 40_000
"""Commas and brackets of an answer. A page of 1,000 events has some 25,000; what has more takes memory by the gigabyte
and holds up everything else while it is read."""
UNPACKS = zlib.MAX_WBITS | 16
"""How zlib is asked for gzip."""
WHOLE_REQUEST = 3.0
"""A request may take this many time-outs in all: each part of a dripping answer would be in time for ever."""
ALWAYS = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip",
    "Cache-Control": "no-cache",
    "Connection": "close",
    "User-Agent": "campaign-worker",
}
"""No answer from a store between: any of them may become evidence."""

PARTNER_HEADER = "X-Preferred-Partner-Id"

Fence = Callable[[], AbstractContextManager[None]]
TransportFactory = Callable[[], httpx.AsyncBaseTransport]
Counted = Callable[[str, str, str, str | None], None]
"""Told of each request on the wire: read, write or sign_in, for which partner (empty where it is for none), the status,
``none`` where there was no answer, and the Retry-After. It must not raise."""


class Unreadable(Exception):
    """A body beyond a bound, or packed otherwise than asked for; what it would have said is not known. Its text is
    ours, and holds nothing of the body."""


@contextmanager
def kernel_fence() -> Iterator[None]:
    """Ends this process by SIGALRM if it takes longer than `WINDOW_S`, however it is stopped in it."""
    signal.setitimer(signal.ITIMER_REAL, WINDOW_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def ready_the_kernel() -> None:
    """SIGALRM ends this process from now on, whatever its parent left it. Raises `NotSafe` where this system cannot
    bound the last byte of a write."""
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        with kernel_fence():
            armed = signal.getitimer(signal.ITIMER_REAL)[0] > 0.0
        with socket.socket() as tried:
            tried.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1)
            _discard(tried, WINDOW_S)
    except (AttributeError, OSError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
    else:
        if armed:
            return
        why = "its timer does not run"
    said = f"this system cannot keep a request from leaving after its attempt has ended ({why}); nothing was sent"
    raise NotSafe(said, hint="run it on Linux, with setitimer and the socket option TCP_USER_TIMEOUT allowed")


@cache
def trust() -> ssl.SSLContext:
    """Whose certificates are believed, read once: a bundle that is exchanged beneath a running process changes nothing
    until the next start."""
    try:
        context = httpx.create_ssl_context()
    except OSError as error:
        raise OSError(f"the certificates that SSL_CERT_FILE names cannot be read: {error}") from error
    context.set_alpn_protocols(["http/1.1"])
    return context


class OneConnection(httpx.AsyncBaseTransport):
    """Makes a request on a connection of its own. Raises `httpx.ConnectError` or `httpx.ConnectTimeout` for whatever
    fails before the first byte of the request, and what ``hand_over`` raises."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request, and the head of its answer; the body is read from the response, whose end closes it all."""
        hand_over: Fence | None = request.extensions.get(HAND_OVER)
        timeout_s: float = request.extensions["timeout"]["connect"]
        talk = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_MAX)
        whole = _spelled(talk, request, await request.aread())
        answer = await _connected(request.url, talk, timeout_s, discards=hand_over is not None)
        try:
            with (hand_over or nullcontext)():
                answer.writer.write(whole)
            left = answer.writer.transport.get_write_buffer_size() + answer.raw.get_write_buffer_size()
            if hand_over is not None and left:
                raise httpx.WriteError("the kernel did not take the whole request at once")  # noqa: TRY301
            head = await answer.head()
        except BaseException:
            await answer.aclose()
            raise
        return httpx.Response(head.status_code, headers=head.headers.raw_items(), stream=answer)


@dataclass(kw_only=True)
class _Answer(httpx.AsyncByteStream):
    """A connection, and the answer as it comes. ``raw``: what is below TLS, where there is TLS."""

    talk: h11.Connection
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    raw: asyncio.WriteTransport
    timeout_s: float

    async def head(self) -> h11.Response:
        """Its status and headers; interim answers are none."""
        for _ in range(INTERIM_MAX):
            event = await self._event()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise httpx.RemoteProtocolError("the service ended without an answer")
        raise httpx.RemoteProtocolError(f"{INTERIM_MAX} interim answers, and no other")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for number in range(1, PARTS_MAX + 1):
            event = await self._event()
            if not isinstance(event, h11.Data):
                return
            yield bytes(event.data)
            if number % PARTS_AT_ONCE == 0:
                await asyncio.sleep(0)  # noqa: TID251 - others have their turn, and it waits for no time
        raise httpx.RemoteProtocolError(f"more than {PARTS_MAX:,} parts: ask for smaller pages (poll.page_size)")

    async def aclose(self) -> None:
        """Closes the connection at once: nothing is flushed, and no goodbye is waited for."""
        self.raw.abort()
        with suppress(OSError):  # how it ended before is known already
            await self.writer.wait_closed()

    async def _event(self) -> object:
        """What comes next of it; what goes wrong is raised as the rest of the client knows it."""
        try:
            while (event := self.talk.next_event()) is h11.NEED_DATA:
                async with asyncio.timeout(self.timeout_s):
                    part = await self.reader.read(PART_BYTES)
                if not part and self.talk.their_state is h11.SEND_RESPONSE:
                    raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
                self.talk.receive_data(part)
        except TimeoutError as error:
            raise httpx.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpx.ReadError(str(error)) from error
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        return event


def _spelled(talk: h11.Connection, request: httpx.Request, content: bytes) -> bytes:
    """The whole request, head and body."""
    head = h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
    parts = (head, *([h11.Data(data=content)] if content else []), h11.EndOfMessage())
    return b"".join(talk.send(part) or b"" for part in parts)


async def _connected(url: httpx.URL, talk: h11.Connection, timeout_s: float, *, discards: bool) -> _Answer:
    """A connection to the place of an address. ``discards``: what it has not delivered dies with it."""
    raw: asyncio.WriteTransport | None = None
    host = url.raw_host.decode("ascii")
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(
                host, url.port or PORTS[url.scheme], happy_eyeballs_delay=NEXT_ADDRESS_S
            )
            raw = writer.transport
            if discards:
                _discard(raw.get_extra_info("socket"), timeout_s)
            if url.scheme == "https":
                await writer.start_tls(trust(), server_hostname=host)
    except BaseException as error:
        if raw is not None:
            raw.abort()
        if isinstance(error, TimeoutError):
            raise httpx.ConnectTimeout(f"not within {timeout_s:g} s") from error
        if isinstance(error, Exception):
            raise httpx.ConnectError(str(error) or type(error).__name__) from error
        raise
    return _Answer(talk=talk, reader=reader, writer=writer, raw=raw, timeout_s=timeout_s)


def _discard(tcp: socket.socket, timeout_s: float) -> None:
    """What the kernel has not delivered within this time is discarded, and whatever is left when the socket is closed;
    where the first is not to be had, `run` does not begin, and `demo` does with a twin of its own."""
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if (option := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:
        tcp.setsockopt(socket.IPPROTO_TCP, option, max(1, round(timeout_s * 1000)))


class Stale(Exception):
    """Too late to send, noticed before the first byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transports:
    """Where requests go: the network, or in tests a function. ``fence``: what a write's bytes are handed over in."""

    reads: TransportFactory = OneConnection
    writes: TransportFactory = OneConnection
    fence: Fence = kernel_fence
    counted: Counted = lambda *_: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """An answer. ``broken``: why its body is not all there; the status was said all the same."""

    status: int
    headers: httpx.Headers
    content: bytes = field(repr=False)
    broken: Exception | None = None


def request_of(method: str, url: httpx.URL, headers: Mapping[str, str], body: Json = None) -> httpx.Request:
    """A request, with a JSON body unless that is None. The same body gives the same bytes."""
    text = "" if body is None else json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    typed = {"Content-Type": "application/json"} if text else {}
    return httpx.Request(method, url, headers={**ALWAYS, **headers, **typed}, content=text.encode("utf-8", "replace"))


class Wire:
    """Makes requests. Raises whatever the transport raises before an answer begins, and `TimeoutError`."""

    def __init__(self, *, transports: Transports, timeout_s: float) -> None:
        self._transports = transports
        self._timeout_s = timeout_s

    async def read(self, request: httpx.Request, bytes_max: int = ANSWER_BYTES_MAX) -> Whole:
        """One request that changes nothing: reads and sign-in."""
        return await self._whole(self._transports.reads, request, bytes_max)

    async def write(self, request: httpx.Request, late: Callable[[], bool]) -> Whole:
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
        request.headers["Accept-Encoding"] = "identity"
        request.extensions = {HAND_OVER: hand_over}
        return await self._whole(self._transports.writes, request, ANSWER_BYTES_MAX)

    async def _whole(self, made: TransportFactory, request: httpx.Request, bytes_max: int) -> Whole:
        request.extensions = {**request.extensions, "timeout": httpx.Timeout(self._timeout_s).as_dict()}
        kind = "write" if HAND_OVER in request.extensions else "sign_in" if request.method == "POST" else "read"
        partner = request.headers.get(PARTNER_HEADER, "")
        async with made() as transport, asyncio.timeout(self._timeout_s * WHOLE_REQUEST):
            try:
                response = await transport.handle_async_request(request)
            except BaseException:
                self._transports.counted(kind, partner, "none", None)
                raise
            self._transports.counted(kind, partner, str(response.status_code), response.headers.get("retry-after"))
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
            if unpack is not None and unpack.unused_data:
                return b"", Unreadable("something follows what is packed in it")
    except httpx.HTTPError as error:
        return b"", error
    except zlib.error:
        return b"", Unreadable("what is packed in it is no gzip")
    if unpack is not None and content and not unpack.eof:
        return b"", Unreadable("what is packed in it has no end")
    if sum(map(content.count, b",[{")) > VALUES_MAX:
        return b"", Unreadable(f"an answer of more than {VALUES_MAX:,} values: ask for smaller pages (poll.page_size)")
    return bytes(content), None
