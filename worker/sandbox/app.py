"""The twin as an ASGI application, with the control paths of its operator beside the service's own.

The service's paths are taken raw, before anyone decodes a percent sign. What ASGI cannot say, that a connection
breaks, is asked of the server by a function that is handed in. The control paths answer this machine only, also when
a browser on it was talked into asking.

Never decides what the service answers.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from worker.sandbox.books import Effect, Outside, Seen
from worker.sandbox.changes import ChangeError, FaultChange, ResetChange, SettingsChange, change_from
from worker.sandbox.delivery import Answer, Cut, Hang, Host, Json, TwinRequest
from worker.sandbox.faults import FaultError, fault_from
from worker.sandbox.page import page
from worker.sandbox.rows import ROWS
from worker.sandbox.service import Service
from worker.sandbox.settings import SettingsError
from worker.sandbox.watch import Violation

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
