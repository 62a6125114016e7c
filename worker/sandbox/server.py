"""The twin on a real socket of this machine, for people, for the demo and for tests with real processes.

A true cut needs the TCP connection itself, which ASGI hides: the protocol notes each connection under its client's
address, and a cut closes exactly that one, with a reset where one was asked for.

Never listens beyond loopback and never reads a clock: clock and sleep are handed in.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from worker.sandbox.app import Client, Sleep, TwinApp
from worker.sandbox.service import Service

HOST = "127.0.0.1"
DEFAULT_PORT = 8700
GRACE_S = 1
# With no lingering, closing sends a reset and throws away what was not yet sent.
LINGER_RESET = struct.pack("ii", 1, 0)


class SandboxError(RuntimeError):
    """The sandbox cannot be served; says what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where a served sandbox is."""

    port: int

    @property
    def base_url(self) -> str:
        return f"http://{HOST}:{self.port}/api/v3"

    @property
    def cr_url(self) -> str:
        return f"http://{HOST}:{self.port}/cr"

    @property
    def media_url(self) -> str:
        return f"http://{HOST}:{self.port}/api/media"

    @property
    def control_url(self) -> str:
        return f"http://{HOST}:{self.port}/_sandbox"


@dataclass(frozen=True, kw_only=True, slots=True)
class Time:
    """The two things that the server needs of a clock, both in seconds."""

    clock: Callable[[], float]
    sleep: Sleep


class Connections:
    """The open connections by their client's address."""

    def __init__(self) -> None:
        self._open: dict[Client, asyncio.Transport] = {}

    def opened(self, client: Client, transport: asyncio.Transport) -> None:
        self._open[client] = transport

    def closed(self, client: Client) -> None:
        self._open.pop(client, None)

    def abort(self, client: Client, *, reset: bool) -> None:
        transport = self._open.pop(client, None)
        if transport is None:
            return
        raw = transport.get_extra_info("socket")
        if reset and raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        transport.abort()


def _noting(connections: Connections) -> type[H11Protocol]:
    """uvicorn's own protocol that also tells which connection is whose."""

    class NotingProtocol(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if self.client is not None:
                connections.opened(self.client, transport)

        def connection_lost(self, exc: Exception | None) -> None:
            if self.client is not None:
                connections.closed(self.client)
            super().connection_lost(exc)

    return NotingProtocol


class _Quiet(uvicorn.Server):
    """A server inside another program: signals are that program's affair."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(service: Service, *, time: Time, port: int = 0) -> AsyncIterator[Address]:
    """Serves on loopback for as long as the block lasts. Port 0: any free one, told by the address."""
    connections = Connections()
    app = TwinApp(service, clock=time.clock, sleep=time.sleep, abort=connections.abort)
    config = uvicorn.Config(
        app,
        http=_noting(connections),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Quiet(config)
    with _listening(port) as listener:
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield Address(port=listener.getsockname()[1])
        finally:
            server.should_exit = True
            await running


async def serve(service: Service, *, time: Time, port: int = 0, started: Callable[[Address], None]) -> None:
    """Serves until SIGINT or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with serving(service, time=time, port=port) as address:
        started(address)
        await stop.wait()


def _listening(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as wrong:
        listener.close()
        raise SandboxError(f"port {port} cannot be used ({wrong.strerror}): name another one, or 0") from None
    # From here on connections wait in line, so nobody has to wait until the server is up.
    listener.listen()
    return listener


def print_address(address: Address) -> None:
    """The lines that an operator copies into a config."""
    print(  # noqa: T201  # standard error is what this function is for
        f"base_url: {address.base_url}\ncr_url: {address.cr_url}\nmedia_url: {address.media_url}",
        file=sys.stderr,
        flush=True,
    )


def run_sandbox(
    *, time: Time, service: Service, port: int = DEFAULT_PORT, announce: Callable[[Address], None] = print_address
) -> None:
    """What the `sandbox` command does: serves until it is told to stop. Raises SandboxError for a port that cannot be
    used."""
    asyncio.run(serve(service, time=time, port=port, started=announce))
