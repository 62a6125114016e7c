"""The twin behind a real HTTP client without a socket: for tests and for the simulation, on any clock.

Deliveries become what the client's library would have seen: a cut is a connection error, a hang is a read that times
out, a delay is waited for. Which kind of error it is decides whether a client may know that nothing was sent, so the
kinds are kept apart as strictly as on a wire.

Never reads a clock and never sleeps by itself: both are handed in. The only file of the sandbox that knows httpx.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import lru_cache
from urllib.parse import parse_qsl

import httpx

from worker.sandbox.service import Service
from worker.sandbox.settings import Answer, Cut, Delivery, Hang, Host, TwinRequest

# A client without a read timeout would hang for ever, and so would its test.
HANG_LIMIT_S = 3600.0

BASE_URLS: Mapping[Host, str] = {
    "api": "http://sandbox.invalid/api/v3",
    "cr": "http://sandbox.invalid/cr",
    "media": "http://sandbox.invalid/api/media",
}


class TwinTransport(httpx.AsyncBaseTransport):
    """Mounts a service under the given base URLs. `clock` says when a request arrives, `sleep` waits on that clock."""

    def __init__(
        self,
        service: Service,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]],
        base_urls: Mapping[Host, str] | None = None,
    ) -> None:
        self._service = service
        self._clock = clock
        self._sleep = sleep
        self._bases = _bases(tuple((base_urls or BASE_URLS).items()))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        delivery = self._service.answer(self._twin_request(request, body), self._clock())
        return await self._delivered(delivery, request)

    def _twin_request(self, request: httpx.Request, body: bytes) -> TwinRequest:
        raw_path, _, query = request.url.raw_path.decode("ascii").partition("?")
        place = _place_of(request.url)
        for host, base, prefix in self._bases:
            if raw_path.startswith(prefix + "/") and _place_of(base) == place:
                return TwinRequest(
                    method=request.method,
                    host=host,
                    path=raw_path[len(prefix) :],
                    query=tuple(parse_qsl(query, keep_blank_values=True)),
                    headers={
                        key.decode("ascii").lower(): value.decode("latin-1") for key, value in request.headers.raw
                    },
                    body=body,
                )
        raise httpx.ConnectError(f"the sandbox is not at {request.url}", request=request)

    async def _delivered(self, delivery: Delivery, request: httpx.Request) -> httpx.Response:
        timeout_s = _read_timeout_s(request)
        if isinstance(delivery, Hang):
            await self._sleep(HANG_LIMIT_S if timeout_s is None else timeout_s)
            raise httpx.ReadTimeout("the sandbox hangs", request=request)
        if timeout_s is not None and delivery.delay_s > timeout_s:
            await self._sleep(timeout_s)
            raise httpx.ReadTimeout("the sandbox is slow", request=request)
        if delivery.delay_s > 0:
            await self._sleep(delivery.delay_s)
        if isinstance(delivery, Answer):
            headers = {**delivery.headers, "content-length": str(len(delivery.body))}
            return httpx.Response(delivery.status, headers=headers, stream=_Whole(delivery.body), request=request)
        if delivery.at == "in_body":
            return httpx.Response(
                delivery.status, headers=dict(delivery.headers), stream=_Broken(delivery, request), request=request
            )
        raise _cut_error(delivery, request)


@lru_cache(maxsize=100)
def _bases(urls: tuple[tuple[Host, str], ...]) -> tuple[tuple[Host, httpx.URL, str], ...]:
    """Host, address and path of each; the longest path first, so that no base hides another one below it."""
    addresses = [(host, httpx.URL(url.rstrip("/"))) for host, url in urls]
    found = [(host, address, address.raw_path.decode("ascii").rstrip("/")) for host, address in addresses]
    return tuple(sorted(found, key=lambda base: len(base[2]), reverse=True))


def _place_of(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


class _Whole(httpx.AsyncByteStream):
    """A body that arrives in one piece; as a stream, so that it is read as any other body is."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


class _Broken(httpx.AsyncByteStream):
    """A body that breaks off."""

    def __init__(self, cut: Cut, request: httpx.Request) -> None:
        self._cut = cut
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._cut.partial_body:
            yield self._cut.partial_body
        raise _cut_error(self._cut, self._request)


def _cut_error(cut: Cut, request: httpx.Request) -> httpx.TransportError:
    if cut.at == "before_request":
        return httpx.ConnectError("all connection attempts failed", request=request)
    if cut.reset:
        return httpx.ReadError("connection reset", request=request)
    return httpx.RemoteProtocolError("the server disconnected", request=request)


def _read_timeout_s(request: httpx.Request) -> float | None:
    timeout = request.extensions.get("timeout")
    value = timeout.get("read") if isinstance(timeout, dict) else None
    return float(value) if isinstance(value, int | float) else None
