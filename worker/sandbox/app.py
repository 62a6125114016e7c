"""The twin as an ASGI application, with the control paths of its operator beside the service's own.

The service's paths are taken raw, before anyone decodes a percent sign. What ASGI cannot say, that a connection
breaks, is asked of the server by a function that is handed in. The control paths answer this machine only, also when
a browser on it was talked into asking.

Never decides what the service answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, fields
from html import escape
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from worker.sandbox.changes import ChangeError, FaultChange, ResetChange, SettingsChange, change_from
from worker.sandbox.faults import Fault, FaultError, fault_from
from worker.sandbox.rows import ROWS
from worker.sandbox.service import Service
from worker.sandbox.settings import Answer, Cut, Hang, Host, Json, Record, Settings, SettingsError, TwinRequest
from worker.sandbox.world import Effect, Outside, Seen, Violation

# One page that shows the sandbox at work: events, what was asked, what took effect.
#
# Plain HTML that reloads itself. Never runs a script and never offers a button: changes go through the control paths.

MAX_ROWS = 60
RELOAD_S = 2
STYLE = (
    "body{font:14px system-ui,sans-serif;margin:1.5rem;color:#222;background:#fff}"
    "table{border-collapse:collapse;margin:.4rem 0 1.6rem}th{text-align:left}"
    "td,th{padding:.15rem .7rem .15rem 0;border-bottom:1px solid #ddd;vertical-align:top}"
    ".bad{color:#a00;font-weight:600}"
)


def page(service: Service) -> str:
    """The whole page as it is now."""
    summary = service.books.summary()
    violations = service.violations()
    effects = list(service.books.effects)[-MAX_ROWS:][::-1]
    requests = list(service.books.requests)[-MAX_ROWS:][::-1]

    def at(clock_s: float) -> str:
        return f"{service.story_s(clock_s):.3f}"

    parts = [
        _verdict(summary, len(violations)),
        _otherwise(service),
        *(_events(service, partner) for partner in service.world.partners),
        "<p>Times are seconds from the first request, when the story began.</p>",
        "<h2>Effects</h2>",
        _table(
            ("seq", "at", "partner", "event", "operation", "before", "after", "repeated", "request"),
            (
                (e.seq, at(e.at_s), e.partner, e.eid, e.operation, e.before, e.after, e.repeated, e.request_id)
                for e in effects
            ),
        ),
        "<h2>Requests</h2>",
        _table(
            ("seq", "at", "method", "host", "path", "query", "partner", "status", "fault"),
            (
                (r.seq, at(r.at_s), r.method, r.host, r.path, _query(r.query), r.partner, r.status, r.fault or "")
                for r in requests
            ),
        ),
        "<h2>Violations</h2>",
        _table(
            ("at", "kind", "partner", "method", "path", "detail"),
            ((at(v.at_s), v.kind, v.partner, v.method, v.path, v.detail) for v in violations[-MAX_ROWS:][::-1]),
        ),
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Sandbox</title>'
        f'<meta http-equiv="refresh" content="{RELOAD_S}"><style>{STYLE}</style></head>'
        f"<body><h1>Sandbox</h1>{''.join(parts)}</body></html>"
    )


def _verdict(summary: Record, violations: int) -> str:
    return (
        f"<p>writes sent {summary['writes_sent']}, effects {summary['effects']}, "
        f"<span{_mark(summary['repeated'])}>repeated {summary['repeated']}</span>, "
        f"<span{_mark(violations)}>violations {violations}</span></p>"
    )


def _otherwise(service: Service) -> str:
    """What is not as usual here: settings, faults that are still to come, steps of the story that could not be told."""
    usual = Settings()
    names = [each.name for each in fields(Settings) if each.name != "users"]
    changed = [(name, getattr(service.settings, name), getattr(usual, name)) for name in names]
    changed = [row for row in changed if row[1] != row[2]]
    faults = [(fault.kind, _match(fault), fault.times, dict(fault.params)) for fault in service.faults.left]
    parts: list[tuple[str, tuple[str, ...], list[tuple[Json, ...]]]] = [
        ("Settings", ("setting", "is", "usually"), [*changed]),
        ("Faults to come", ("kind", "for", "times", "params"), [*faults]),
        ("Steps of the story that could not be told", ("step",), [(line,) for line in service.untold]),
    ]
    return "".join(f"<h2>{escape(title)}</h2>{_table(names, rows)}" for title, names, rows in parts if rows)


def _match(fault: Fault) -> str:
    match = fault.match
    return " ".join(part for part in (match.host, match.method, match.path, match.partner) if part) or "anything"


def _events(service: Service, partner: str) -> str:
    found = service.world.listing(partner)[:MAX_ROWS]
    names = ("status", "frontend_status", "campaign_status", "client_campaign_status")
    rows = (
        (
            each.eid,
            each.record.get("title"),
            *(each.record.get(name) for name in names),
            "NONE" if each.setup is None else "PUBLISHED" if each.published else "DRAFT",
            len(each.campaigns),
        )
        for each in found
    )
    return f"<h2>{escape(partner)}</h2>" + _table(("id", "title", *names, "setup", "campaigns"), rows)


def _query(pairs: tuple[tuple[str, str], ...]) -> str:
    return "&".join(f"{key}={value}" for key, value in pairs)


def _mark(many: Json) -> str:
    return ' class="bad"' if many else ""


def _table(names: tuple[str, ...], rows: Iterable[tuple[Json, ...]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = ("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"


BASES: tuple[tuple[str, Host], ...] = (("/api/v3", "api"), ("/api/media", "media"), ("/cr", "cr"))
MAX_BODY_BYTES = 64 * 1024 * 1024
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
Sleep = Callable[[float], Awaitable[object]]
Client = tuple[str, int]


class ConnectionCutError(ConnectionError):
    """The connection was to break, and nobody is there to break it."""


def cannot_abort(client: Client, *, reset: bool) -> None:
    raise ConnectionCutError(f"connection of {client[0]}:{client[1]} cut (reset={reset})")


class TwinApp:
    """ASGI application: the service under its base paths, control and page beside it."""

    def __init__(
        self,
        service: Service,
        *,
        clock: Callable[[], float],
        sleep: Sleep,
        abort: Callable[..., None] = cannot_abort,
    ) -> None:
        self._service = service
        self._clock = clock
        self._sleep = sleep
        self._abort = abort
        self._control = _control(service, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        place = _place(scope) if scope["type"] == "http" else None
        if place is None:
            await self._control(scope, receive, send)
            return
        body = await _body(receive)
        if body is None:
            await send(_start(413, {}, 0))
            await send({"type": "http.response.body", "body": b""})
            return
        request = TwinRequest(
            method=scope["method"],
            host=place[0],
            path=place[1],
            query=tuple(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)),
            headers={key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]},
            body=body,
        )
        await self._serve(request, scope, receive, send)

    async def _serve(self, request: TwinRequest, scope: Scope, receive: Receive, send: Send) -> None:
        delivery = self._service.answer(request, self._clock())
        if isinstance(delivery, Hang):
            await _gone(receive)
            return
        if delivery.delay_s > 0:
            await self._sleep(delivery.delay_s)
        if isinstance(delivery, Answer):
            await send(_start(delivery.status, delivery.headers, len(delivery.body)))
            await send({"type": "http.response.body", "body": delivery.body})
            return
        await self._cut(delivery, scope, receive, send)

    async def _cut(self, cut: Cut, scope: Scope, receive: Receive, send: Send) -> None:
        if cut.at == "in_body":
            # One byte more is promised than will ever come, however long the part that is sent.
            await send(_start(cut.status, cut.headers, 2 * len(cut.partial_body) + 1))
            await send({"type": "http.response.body", "body": cut.partial_body, "more_body": True})
        self._abort(tuple(scope["client"]), reset=cut.reset)
        await _gone(receive)


def _place(scope: Scope) -> tuple[Host, str] | None:
    """The host and the raw path below its base."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8")
    path = raw.decode("latin-1").partition("?")[0]
    for base, host in BASES:
        if path.startswith(base + "/"):
            return host, path[len(base) :]
    return None


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None when it is too large, or the client left before it was complete."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)


async def _gone(receive: Receive) -> None:
    """Waits until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        continue


def _start(status: int, headers: Mapping[str, str], length: int) -> Message:
    named = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in headers.items()]
    if status != 204:
        named.append((b"content-length", str(length).encode()))
    return {"type": "http.response.start", "status": status, "headers": named}


# Control


def _control(service: Service, clock: Callable[[], float]) -> Starlette:
    control = _Control(service, clock)
    return Starlette(
        routes=[
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
    )


class _Control:
    """What the operator of the sandbox may see and do."""

    def __init__(self, service: Service, clock: Callable[[], float]) -> None:
        self._service = service
        self._clock = clock

    async def page(self, request: Request) -> Response:
        return _only_here(request) or HTMLResponse(page(self._service))

    async def rows(self, request: Request) -> Response:
        """Every row that is served: for whom, and whether its form is the document's or our own."""
        found = [
            {
                "methods": row.methods,
                "host": row.host,
                "path": "/" + "/".join(row.pattern),
                "who": row.who,
                "form": "documented" if row.shown else "our own",
            }
            for row in ROWS
        ]
        return _only_here(request) or JSONResponse(found)

    async def books(self, request: Request) -> Response:
        books = self._service.books
        body = {
            **books.summary(),
            "list": self._told(books.effects),
            "outside": self._told(books.outside),
        }
        return _only_here(request) or JSONResponse(body)

    async def violations(self, request: Request) -> Response:
        return _only_here(request) or JSONResponse(self._told(self._service.violations()))

    async def requests(self, request: Request) -> Response:
        """All requests, or those after `?since=SEQ`."""
        since = request.query_params.get("since", "0")
        after = int(since) if since.isdigit() else 0
        seen = [each for each in self._service.books.requests if each.seq > after]
        return _only_here(request) or JSONResponse(self._told(seen))

    def _told(self, happened: Iterable[Effect | Outside | Seen | Violation]) -> list[dict[str, object]]:
        """What happened, with its time in seconds of the story: the clock's own begin means nothing to anybody."""
        return [{**asdict(one), "at_s": self._service.story_s(one.at_s)} for one in happened]

    async def faults(self, request: Request) -> Response:
        if refused := _only_here(request):
            return refused
        if request.method == "DELETE":
            self._service.faults.clear()
        elif request.method == "POST":
            try:
                given = await _given(request)
                wanted = [fault_from(_record(each)) for each in (given if isinstance(given, list) else [given])]
            except (FaultError, ChangeError) as wrong:
                return _wrong(wrong)
            for fault in wanted:
                self._service.change(FaultChange(fault=fault), self._clock())
        return JSONResponse([asdict(fault) for fault in self._service.faults.left])

    async def change(self, request: Request) -> Response:
        if refused := _only_here(request):
            return refused
        try:
            change = change_from(_record(await _given(request)), self._service.settings)
            self._service.change(change, self._clock())
        except (ChangeError, SettingsError) as wrong:
            return _wrong(wrong)
        return JSONResponse({"changed": True})

    async def settings(self, request: Request) -> Response:
        if refused := _only_here(request):
            return refused
        if request.method == "POST":
            try:
                wanted = SettingsChange(settings=_record(await _given(request)))
                self._service.change(wanted, self._clock())
            except (ChangeError, SettingsError) as wrong:
                return _wrong(wrong)
        return JSONResponse(asdict(self._service.settings))

    async def reset(self, request: Request) -> Response:
        if refused := _only_here(request):
            return refused
        self._service.change(ResetChange(), self._clock())
        return JSONResponse({"reset": True})


def _only_here(request: Request) -> Response | None:
    """Nobody but this machine, and no page of another site that a browser here has open."""
    name = request.headers.get("host", "").lower()
    name = name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name
    from_here = request.client is not None and request.client.host in ("127.0.0.1", "::1")
    if from_here and name in LOOPBACK_NAMES and "origin" not in request.headers:
        return None
    return JSONResponse({"error": "the control paths answer this machine only"}, status_code=403)


async def _given(request: Request) -> Json:
    try:
        found: Json = json.loads(await request.body() or b"{}")
    except ValueError:
        raise ChangeError("the body is not JSON") from None
    return found


def _record(given: Json) -> Mapping[str, Json]:
    if not isinstance(given, dict):
        raise ChangeError("the body is a JSON object")
    return given


def _wrong(wrong: ValueError) -> Response:
    return JSONResponse({"error": str(wrong)}, status_code=422)


# The twin on a real socket of this machine, for people, for the demo and for tests with real processes.
#
# A true cut needs the TCP connection itself, which ASGI hides: the protocol notes each connection under its client's
# address, and a cut closes exactly that one, with a reset where one was asked for.
#
# Never listens beyond loopback and never reads a clock: clock and sleep are handed in.

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
