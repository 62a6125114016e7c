"""The sandbox as a Starlette application, and that application on a socket of this machine.

The service's three hosts are mounted under their base paths; beside them are the page and the control paths of the
sandbox's operator, which answer this machine only, also when a browser on it was talked into asking. What the service
answers is decided elsewhere: here it becomes responses, broken connections and silence. Clock and sleep are handed in.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn
from jinja2 import Template
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from worker.sandbox.changes import FaultChange, ResetChange, SettingsChange, change_from
from worker.sandbox.faults import Fault, Match
from worker.sandbox.reads import is_whole
from worker.sandbox.service import ROWS, Twin
from worker.sandbox.settings import Cut, Hang, Host, Json, SandboxInputError, TwinRequest, TwinSettings, read_as
from worker.sandbox.world import BookedEffect, Happening, Outside, SeenRequest, Violation

BASES: dict[Host, str] = {"api": "/api/v3", "media": "/api/media", "cr": "/cr"}
Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[object]]


def sandbox_app(service: Twin, *, clock: Clock, sleep: Sleep) -> Starlette:
    """The service under its base paths, control paths and page beside it."""
    hosts = [Mount(base, ServedHost(service, host, clock, sleep)) for host, base in BASES.items()]
    control = Control(service, clock)
    operators = [
        Route("/", control.page),
        Route("/_sandbox/rows", control.rows),
        Route("/_sandbox/books", control.books),
        Route("/_sandbox/violations", control.violations),
        Route("/_sandbox/requests", control.requests),
        Route("/_sandbox/faults", control.faults, methods=["GET", "POST", "DELETE"]),
        Route("/_sandbox/change", control.change, methods=["POST"]),
        Route("/_sandbox/settings", control.settings, methods=["GET", "POST"]),
        Route("/_sandbox/reset", control.reset, methods=["POST"]),
    ]
    return Starlette(
        routes=[*hosts, Mount("/", ThisMachineOnly(Router(operators)))],
        exception_handlers={SandboxInputError: _unprocessable},
    )


class ConnectionCutError(ConnectionError):
    """The connection was to break, and nobody is there to break it."""


class ServedHost:
    """One host of the service as an ASGI application."""

    def __init__(self, service: Twin, host: Host, clock: Clock, sleep: Sleep) -> None:
        self._service = service
        self._host: Host = host
        self._clock = clock
        self._sleep = sleep

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        asked = TwinRequest(
            method=request.method,
            host=self._host,
            path=scope["raw_path"].decode("latin-1").removeprefix(BASES[self._host]),
            query=tuple(request.query_params.multi_items()),
            headers=dict(request.headers),
            body=await request.body(),
        )
        delivery = self._service.answer(asked, self._clock())
        if isinstance(delivery, Hang):
            await _until_gone(receive)
            return
        if delivery.delay_s > 0:
            await self._sleep(delivery.delay_s)
        if isinstance(delivery, Cut):
            await _cut(delivery, scope, receive, send)
            return
        await Response(delivery.body, delivery.status, delivery.headers)(scope, receive, send)


async def _cut(cut: Cut, scope: Scope, receive: Receive, send: Send) -> None:
    connection: asyncio.Transport | None = scope.get("state", {}).get("connection")
    if connection is None:
        raise ConnectionCutError(f"the connection of {scope['client']} cannot be cut here")
    if cut.at == "in_body":
        # One byte more is promised than will ever come, however long the part that is sent.
        promised = {**cut.headers, "content-length": str(2 * len(cut.partial_body) + 1)}
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in promised.items()]
        await send({"type": "http.response.start", "status": cut.status, "headers": headers})
        await send({"type": "http.response.body", "body": cut.partial_body, "more_body": True})
    if cut.reset:
        # With no lingering, closing sends a reset and throws away what was not yet sent.
        raw = connection.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.abort()
    await _until_gone(receive)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


# Control


class ThisMachineOnly:
    """Nobody but this machine, and no page of another site that a browser here has open."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        name = request.headers.get("host", "").lower()
        name = name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name
        from_here = request.client is not None and request.client.host in ("127.0.0.1", "::1")
        app = self._app
        if not from_here or name not in ("127.0.0.1", "localhost", "[::1]") or "origin" in request.headers:
            app = JSONResponse({"error": "the control paths answer this machine only"}, status_code=403)
        await app(scope, receive, send)


async def _unprocessable(_: Request, wrong: Exception) -> Response:
    return JSONResponse({"error": str(wrong)}, status_code=422)


class Control:
    """What the operator of the sandbox may see and do."""

    def __init__(self, service: Twin, clock: Clock) -> None:
        self._service = service
        self._clock = clock

    async def page(self, _: Request) -> Response:
        return HTMLResponse(page(self._service))

    async def rows(self, _: Request) -> Response:
        """Every row that is served: for whom, and whether its form is the document's or our own."""
        found = [
            {
                "methods": row.methods.split(),
                "host": row.host,
                "path": row.path,
                "who": row.who,
                "form": "documented" if row.shown else "our own",
            }
            for row in ROWS
        ]
        return JSONResponse(found)

    async def books(self, _: Request) -> Response:
        books = self._service.books
        both = {"list": told(self._service, books.effects), "outside": told(self._service, books.outside)}
        return JSONResponse({**books.summary(), **both})

    async def violations(self, _: Request) -> Response:
        return JSONResponse(told(self._service, self._service.violations()))

    async def requests(self, request: Request) -> Response:
        """All requests, or those after `?since=SEQ`."""
        since = request.query_params.get("since", "0")
        after = int(since) if is_whole(since) else 0
        return JSONResponse(told(self._service, (one for one in self._service.books.requests if one.seq > after)))

    async def faults(self, request: Request) -> Response:
        if request.method == "DELETE":
            self._service.faults.clear()
        elif request.method == "POST":
            given = await _json(request)
            wanted = [read_as(Fault, one, ("fault",)) for one in (given if isinstance(given, list) else [given])]
            for fault in wanted:
                self._service.change(FaultChange(fault=fault), self._clock())
        return JSONResponse([asdict(fault) for fault in self._service.faults.left])

    async def change(self, request: Request) -> Response:
        change = change_from(await _json(request), self._service.settings)
        self._service.change(change, self._clock())
        return JSONResponse({"changed": True})

    async def settings(self, request: Request) -> Response:
        if request.method == "POST":
            wanted = read_as(SettingsChange, {"settings": await _json(request)})
            self._service.change(wanted, self._clock())
        return JSONResponse(asdict(self._service.settings))

    async def reset(self, _: Request) -> Response:
        self._service.change(ResetChange(), self._clock())
        return JSONResponse({"reset": True})


async def _json(request: Request) -> Json:
    try:
        found: Json = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        raise SandboxInputError("the body is not JSON") from None
    return found


MAX_ROWS = 60


def page(service: Twin) -> str:
    """One page that shows the sandbox at work, as it is now."""
    is_now, usual = asdict(service.settings), asdict(TwinSettings())
    changed = [name for name in usual if name != "users" and is_now[name] != usual[name]]
    requests, violations = list(service.books.requests), service.violations()
    template = Template(Path(__file__).with_name("page.html").read_text("utf-8"), autoescape=True)
    text: str = template.render(
        summary={**service.books.summary(), "violations": len(violations)},
        settings=[{"setting": name, "is": is_now[name], "usually": usual[name]} for name in changed],
        faults=[{**asdict(fault), "match": _spelled(fault.match)} for fault in service.faults.left],
        untold=[{"step": line} for line in service.untold],
        partners={
            partner: [_shown(event) for event in service.world.listing(partner)[:MAX_ROWS]]
            for partner in service.world.tenants
        },
        effects=told(service, service.books.effects[-MAX_ROWS:]),
        requests=[{**seen, "query": urlencode(seen["query"])} for seen in told(service, requests[-MAX_ROWS:])],
        violations=told(service, violations[-MAX_ROWS:]),
    )
    return text


def told(service: Twin, happened: Iterable[BookedEffect | Outside | SeenRequest | Violation]) -> list[dict[str, Any]]:
    """What happened, with its time in seconds of the story: the clock's own begin means nothing to anybody."""
    return [{**asdict(one), "at_s": service.story_s(one.at_s)} for one in happened]


def _spelled(match: Match) -> str:
    return " ".join(part for part in (match.host, match.method, match.path, match.partner) if part) or "anything"


def _shown(event: Happening) -> dict[str, Json]:
    setup = "NONE" if event.setup is None else "PUBLISHED" if event.published else "DRAFT"
    return {**event.record, "setup": setup, "campaigns": len(event.campaigns)}


# On a socket

HOST = "127.0.0.1"
DEFAULT_PORT = 8700
GRACE_S = 1


class SandboxError(RuntimeError):
    """The sandbox cannot be served; says what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where a served sandbox is."""

    port: int

    def url(self, host: Host) -> str:
        """The base of one of the service's three hosts."""
        return f"http://{HOST}:{self.port}{BASES[host]}"


class TellingProtocol(H11Protocol):
    """uvicorn's own protocol; each request also learns its connection, which ASGI hides and a cut has to break."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "connection": transport}


class InnerServer(uvicorn.Server):
    """A server inside another program: signals are that program's affair."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(service: Twin, *, clock: Clock, sleep: Sleep, port: int = 0) -> AsyncIterator[Address]:
    """Serves on loopback for as long as the block lasts. Port 0: any free one, told by the address."""
    config = uvicorn.Config(
        sandbox_app(service, clock=clock, sleep=sleep),
        http=TellingProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = InnerServer(config)
    with _listening(port) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited; else a body waits for its head
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield Address(port=listener.getsockname()[1])
        finally:
            server.should_exit = True
            await running


def _listening(port: int) -> socket.socket:
    try:
        # It listens from here on, so that connections wait in line and nobody has to wait until the server is up.
        return socket.create_server((HOST, port))
    except OSError as wrong:
        raise SandboxError(f"port {port} cannot be used ({wrong.strerror}): name another one, or 0") from None


async def serve(service: Twin, *, clock: Clock, sleep: Sleep, port: int = DEFAULT_PORT) -> None:
    """What the `sandbox` command does: prints the addresses for a config, and serves until SIGINT or SIGTERM. Raises
    SandboxError for a port that cannot be used."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with serving(service, clock=clock, sleep=sleep, port=port) as address:
        print(  # noqa: T201  # standard error is for this
            f"base_url: {address.url('api')}\ncr_url: {address.url('cr')}\nmedia_url: {address.url('media')}",
            file=sys.stderr,
            flush=True,
        )
        await stop.wait()
