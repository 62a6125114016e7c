"""The twin behind a real HTTP client without a socket: for tests and for the simulation, on any clock.

Deliveries become what the client's library would have seen: a cut is a connection error, a hang is a read that times
out, a delay is waited for. Which kind of error it is decides whether a client may know that nothing was sent, so the
kinds are kept apart as strictly as on a wire. Not over ASGI: there a request has no timeouts and no broken connections,
an answer cannot come apart from its effect, and each request would take about twice as long.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from urllib.parse import parse_qsl

import httpx

from worker.sandbox.service import Twin
from worker.sandbox.settings import Cut, Delivery, Hang, Host, TwinRequest

# A client without a read timeout would hang for ever, and so would its test.
HANG_LIMIT_S = 3600.0

BASE_URLS: Mapping[Host, str] = {
    "api": "http://sandbox.invalid/api/v3",
    "cr": "http://sandbox.invalid/cr",
    "media": "http://sandbox.invalid/api/media",
}


class TwinTransport(httpx.AsyncBaseTransport):
    """Mounts a service under `BASE_URLS`. `clock` says when a request arrives, `sleep` waits on that clock."""

    def __init__(
        self, service: Twin, *, clock: Callable[[], float], sleep: Callable[[float], Awaitable[object]]
    ) -> None:
        self._service = service
        self._clock = clock
        self._sleep = sleep

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asked = twin_request(request, await request.aread())
        return await self._delivered(self._service.answer(asked, self._clock()), request)

    async def _delivered(self, delivery: Delivery, request: httpx.Request) -> httpx.Response:
        patience_s = request.extensions.get("timeout", {}).get("read") or HANG_LIMIT_S
        if isinstance(delivery, Hang) or delivery.delay_s > patience_s:
            await self._sleep(patience_s)
            raise httpx.ReadTimeout("the sandbox hangs or is slow", request=request)
        if delivery.delay_s > 0:
            await self._sleep(delivery.delay_s)
        if isinstance(delivery, Cut):
            if delivery.at != "in_body":
                raise _cut_error(delivery, request)
            broken = CutStream(delivery, request)
            return httpx.Response(delivery.status, headers=dict(delivery.headers), stream=broken, request=request)
        headers = {**delivery.headers, "content-length": str(len(delivery.body))}
        return httpx.Response(delivery.status, headers=headers, stream=httpx.ByteStream(delivery.body), request=request)


def twin_request(request: httpx.Request, body: bytes) -> TwinRequest:
    """What the service sees of a client's request. Raises a connection error where nobody listens."""
    url, _, query = str(request.url).partition("?")
    for host, base in BASE_URLS.items():
        if url.startswith(base + "/"):
            return TwinRequest(
                method=request.method,
                host=host,
                path=url.removeprefix(base),
                query=tuple(parse_qsl(query, keep_blank_values=True)),
                headers={key.decode("ascii").lower(): value.decode("latin-1") for key, value in request.headers.raw},
                body=body,
            )
    raise httpx.ConnectError(f"the sandbox is not at {request.url}", request=request)


class CutStream(httpx.AsyncByteStream):
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
