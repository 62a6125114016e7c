"""Counts requests where they leave, for those who draw curves of them: what kind, for whom, and what was answered.

It stands around the transport, below everything that could repeat or redirect, so that what is counted is what was on
the wire. It changes nothing and judges nothing; what it is told to tell must not raise.
"""

from collections.abc import Callable
from typing import Literal

import httpx

from worker.api.connection import OneConnection
from worker.api.transport import Transports

Kind = Literal["read", "write", "sign_in"]
Counted = Callable[[Kind, str, str], None]
"""Told of the kind, the partner (empty where it is for none) and the status, ``none`` where there was no answer."""
PARTNER_HEADER = "X-Preferred-Partner-Id"


class CountingTransport(httpx.AsyncBaseTransport):
    """Passes each request on and tells of it."""

    def __init__(self, inner: httpx.AsyncBaseTransport, kind: Kind, counted: Counted) -> None:
        self._inner = inner
        self._kind: Kind = kind
        self._counted = counted

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        kind: Kind = "sign_in" if request.method == "POST" and self._kind == "read" else self._kind
        partner = request.headers.get(PARTNER_HEADER, "")
        try:
            response = await self._inner.handle_async_request(request)
        except BaseException:
            self._counted(kind, partner, "none")
            raise
        self._counted(kind, partner, str(response.status_code))
        return response

    async def aclose(self) -> None:
        """Closes what it stands around."""
        await self._inner.aclose()


def counting(counted: Counted) -> Transports:
    """The network's transports, counted."""
    return Transports(
        reads=lambda: CountingTransport(OneConnection(), "read", counted),
        writes=lambda: CountingTransport(OneConnection(), "write", counted),
    )
