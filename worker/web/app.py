"""Which address shows what, how an answer is made, and how it is served: a few questions to the ledger, a view, a
template, on a thread and a loop of their own beside the daemon.

Templates escape everything by themselves, and a name that a template misspells is an error and not an empty place.
Whatever asks the ledger waits for its turn (see `Turns`); what says whether the daemon is alive does not. The same
process, because the page's figures and the sign of life are the daemon's; another loop, so that a slow browser is never
waited for where cycles run. If the page falls over, the daemon goes on, and a stop never waits long for it.
"""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar, cast
from urllib.parse import parse_qs, quote, unquote

import uvicorn
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from worker import __version__
from worker.engine.explaining import STANDINGS
from worker.engine.operators import NO_REASON
from worker.engine.ports import unhealthy
from worker.ledger.log import HASH_BEGIN_MIN, Head, csv_head, csv_lines, json_lines
from worker.ledger.tables import storable
from worker.model.commits import KINDS, REASONS, LogFilter
from worker.model.errors import NotAllowed, UsageError, WorkerError, printable
from worker.model.exchange import Clock
from worker.model.facts import EVENT_FIELDS
from worker.rules.spelling import duration_meant, parse_duration
from worker.web.door import FORM_COOKIE, Door, Forms, Visitor, cookie_of, place_of
from worker.web.pages import PAGES, Act, NoSuchPage, PageParts, PageRequest, Shown, link
from worker.web.views import (
    EVENT_FIELDS_ASKED,
    ago,
    day_and_time,
    iso,
    lasting,
    log_asked,
    plain,
    request_id,
    spelled,
    timed,
    tone_of,
)
from worker.writes.life import MOVES
from worker.writes.undo import may_have_effect

T = TypeVar("T")
STOP_WITHIN_S = 5.0
CONNECTIONS_MAX = 512
PEER_MAX = 64
"""Connections of one place. One more takes that of the longest silent, or longest not let in."""
HEAD_WITHIN_S = 10.0
"""A connection on which no request has begun for so long is closed."""
ANSWER_WITHIN_S = 600.0
"""The longest that one answer may take to be read: an export of a large log over a slow line."""
HEAD_BYTES_MAX = 32 * 1024


class Deadlined(H11Protocol):
    """A connection that may not be held for nothing: a silent one is closed in time, and gives way to others before, as
    does that of whom the door has not let in."""

    since = 0.0
    """When its last request began, or it was made, on the loop's clock."""
    seen: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a connection, in the place of the one that has waited for longest where there are too many."""
        super().connection_made(transport)
        self.since = self.loop.time()
        others = [one for one in self.connections if isinstance(one, Deadlined) and one is not self]
        same = [one for one in others if one.peer == self.peer]
        crowd = same if len(same) >= PEER_MAX else others if len(others) >= CONNECTIONS_MAX else []
        if crowd:
            least = min((one for one in crowd if not one.let_in), key=lambda one: one.since, default=self)
            least.connections.discard(least)
            least.transport.abort()
        self._watch()

    @property
    def peer(self) -> str:
        """Where the other end is."""
        return place_of(self.client[0]) if self.client else ""

    @property
    def let_in(self) -> bool:
        """Whether somebody whom the door has let in waits on it for an answer."""
        return self.busy and "visitor" in self.scope.get("state", {})

    @property
    def busy(self) -> bool:
        """Whether a request has begun on it, and its answer has not left whole."""
        unread = self.transport.get_write_buffer_size() > 0
        return bool(self.cycle) and (unread or not self.cycle.response_complete)

    def send_400_response(self, msg: str) -> None:
        """Says that this is no HTTP; where an answer to what came before is being made, a second one would break it."""
        if self.busy:
            self.transport.close()
        else:
            super().send_400_response(msg)

    def shutdown(self) -> None:
        """Ends it as soon as its answer is whole; a stream of news, which has no end to wait for, at once."""
        if self.busy and self.scope["path"] == NEWS:
            self.transport.abort()
        else:
            super().shutdown()

    def _watch(self) -> None:
        """Closes it where nothing came of it in time; looks again a second later where something may."""
        if self not in self.connections:
            return
        if self.cycle is not self.seen:
            self.seen, self.since = self.cycle, self.loop.time()
        if self.loop.time() - self.since >= (ANSWER_WITHIN_S if self.busy else HEAD_WITHIN_S):
            self.transport.abort()
            return
        self.loop.call_later(1.0, self._watch)


class PageServer:
    """Listens from `__enter__` to `__exit__`. ``failed`` is told once, where the page falls over."""

    def __init__(self, app: ASGIApp, *, host: str, port: int, failed: Callable[[BaseException], None]) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="error",  # or each request that is none would be a line, as many as a stranger likes
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,  # who asks is told by the connection, not by a header that anybody can write
            http=Deadlined,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)
        self._socket = listening(host, port)
        self._failed = failed
        self._thread = threading.Thread(target=self._run, name="page", daemon=True)

    @property
    def port(self) -> int:
        """The port that is listened on; chosen by the system where 0 was asked for."""
        return int(self._socket.getsockname()[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(STOP_WITHIN_S)
        self._socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve(sockets=[self._socket]))
        except BaseException as error:  # noqa: BLE001 - whatever it was, the daemon goes on without its page
            self._failed(error)


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises `UsageError` where it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=CONNECTIONS_MAX)
    except OSError as error:
        hint = "another program has it, or the address is not this machine's; choose another one in web.listen"
        raise UsageError(f"web.listen: {host}:{port} cannot be had: {error.strerror or error}", hint=hint) from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited; else a body waits for its head
    return listener


# Tells browsers that there is something new to see, so that none has to ask again and again (server-sent events).
#
# However many watch, the ledger is asked once in `ASK_EVERY_S`, and nobody who watches is waited for: a stream has its
# own place on the page's loop, there are only so many of them, and each ends by itself. A browser then opens it anew.

NEWS = "/news"
STREAMS_MAX = 32
ASK_EVERY_S = 2.0
STREAM_FOR_S = 540.0
"""Less than the time that one answer may take."""


class Asked(Generic[T]):
    """What was found, which is looked for anew once in so many seconds at most, on another thread, however many ask."""

    def __init__(self, find: Callable[[], T], clock: Clock, every_s: float) -> None:
        self._find, self._clock, self._every_s = find, clock, every_s
        self._one_by_one = asyncio.Lock()
        self._found: list[T] = []
        self._until = float("-inf")

    async def now(self) -> T:
        """What is so by now, or was a moment ago."""
        async with self._one_by_one:
            if (now := self._clock.monotonic()) >= self._until:
                self._found = [await asyncio.to_thread(self._find)]
                self._until = now + self._every_s
            return self._found[0]


class Watchers:
    """``newest`` says in one word what there is to see now: another word is news."""

    def __init__(self, newest: Callable[[], str], clock: Clock) -> None:
        self._newest = Asked(newest, clock, ASK_EVERY_S / 2)
        self._clock = clock
        self._streams = 0

    @property
    def full(self) -> bool:
        """Whether so many watch that nobody else can."""
        return self._streams >= STREAMS_MAX

    async def stream(self) -> AsyncIterator[str]:
        """The word of now and each other one that follows. A comment in between, or nobody would notice a browser that
        has gone."""
        self._streams += 1
        try:
            said, ends = "", self._clock.monotonic() + STREAM_FOR_S
            while self._clock.monotonic() < ends:
                word = await self._newest.now()
                yield f"data: {word}\n\n" if word != said else ":\n\n"
                said = word
                await self._clock.sleep(ASK_EVERY_S)
        except WorkerError:  # the ledger cannot be read now; the browser asks again
            return
        finally:
            self._streams -= 1


HERE = Path(__file__).parent
BLANKS = "\n\t\u00a0\u2009\u202f\u3000"
"""Shown as they are, though not printable: those that titles in French, German or Japanese are written with."""
SAID_COOKIE = "campaign_worker_said"
SAID_MAX = 2_000
"""Characters of what was decided, as a cookie has them: a browser drops one of more than 4,096, a proxy its answer."""
FORM_BYTES_MAX = 64 * 1024
FORM_WITHIN_S = 10.0
READY_FOR_S = 1.0
ALIVE_EVERY_S = 10
STUCK_S = 30.0
"""A loop that has not moved for so long does not decide and does not settle: only a new start helps."""
EXPORTS: Mapping[str, str] = {"jsonl": "application/jsonl; charset=utf-8", "csv": "text/csv; charset=utf-8"}
PIECE = 500
"""Records of an export that are read in one turn."""
HEADS_MAX = 2_000
"""Characters of heads in one header: a proxy takes 4 kB of headers by default, and answers 502 to more."""


def application(parts: PageParts) -> ASGIApp:
    """The page, behind its door."""
    site = Site(parts)
    routes = [
        *(Route(path, partial(site.page, make), methods=["GET"]) for path, make in PAGES.items()),
        *(Route(json_path(path), partial(site.as_json, make), methods=["GET"]) for path, make in PAGES.items()),
        *(Route(f"/log.{form}", partial(site.export, form), methods=["GET"]) for form in EXPORTS),
        Route(NEWS, site.news, methods=["GET"]),
        Route("/act", site.act, methods=["POST"]),
        Route("/metrics", site.metrics, methods=["GET"]),
        Route("/healthz", site.alive, methods=["GET"]),
        Route("/readyz", site.ready, methods=["GET"]),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    errors = {404: site.missing, NoSuchPage: site.missing, TooBusy: site.busy, WorkerError: site.trouble}
    inner = Starlette(routes=routes, exception_handlers=errors)
    return Door(inner, keys=parts.keys, clock=parts.clock, refused=parts.refused)


def json_path(path: str) -> str:
    """Where a page stands for programs."""
    return f"{path if path != '/' else '/now'}.json"


class Site:
    """Answers requests."""

    def __init__(self, parts: PageParts) -> None:
        self._parts = parts
        self._forms = Forms(parts.entropy())
        self._turns = Turns(parts.clock)
        self._news = Watchers(self._newest, parts.clock)
        self._templates = templates()
        self._ready = Asked(self._is_ready, parts.clock, READY_FOR_S)

    async def page(self, make: Callable[[PageRequest], Shown], request: Request) -> Response:
        """One of the pages."""
        known = cookie_of(request.headers, FORM_COOKIE)
        asking, cookie = self._asking(request), known or self._parts.entropy()

        def drawn() -> str:
            seen = self._newest()  # before the page: what comes meanwhile is news
            return self._drawn(request, make(asking), cookie, halted=bool(asking.ledger.halts(asking.now)), seen=seen)

        answer = HTMLResponse(await self._turns.run(drawn))
        if not known:
            _keep(request, answer, FORM_COOKIE, cookie)
        if cookie_of(request.headers, SAID_COOKIE):
            answer.delete_cookie(SAID_COOKIE)
        return answer

    async def as_json(self, make: Callable[[PageRequest], Shown], request: Request) -> Response:
        """The same page for programs, which do not see that more is shown than they asked for."""
        asking = self._asking(request)
        values = (await self._turns.run(lambda: make(asking))).values
        problems = getattr(values.get("asked"), "problems", ())
        return _json({"error": "; ".join(problems)}, 400) if problems else _json({"at": asking.now, **values})

    def _asking(self, request: Request) -> PageRequest:
        query = {name: storable(text) for name, text in request.query_params.items()}
        return PageRequest(parts=self._parts, query=query, now=self._parts.clock.now())

    async def export(self, form: str, request: Request) -> Response:
        """The log as a file for auditors, narrowed as the page is, oldest first. It ends with the head of each chain as
        it is now, which stands in a header of the answer, and in the file's name that of the chain without one: with
        them, an export of the whole log can be verified on another machine. Of so many chains that a proxy would refuse
        their header, that one alone; of a partner that was asked for, its own."""
        asking = self._asking(request)
        asked = log_asked(asking.query, asking.now)
        if asked.problems:
            return PlainTextResponse("; ".join(asked.problems) + "\n", 400)
        heads = await self._turns.run(self._parts.ledger.heads)
        head = heads.get("", Head())
        asked_for = [one for chain, one in heads.items() if chain and asked.wanted.partner in (None, chain)]
        ends = [str(head), *(str(replace(one, hash=one.hash[:HASH_BEGIN_MIN])) for one in asked_for)]
        headers = {
            "Content-Disposition": f'attachment; filename="campaign-worker-log-{head.seq}-{head.hash[:12]}.{form}"',
            "X-Chain-Head": ", ".join(ends if sum(map(len, ends)) <= HEADS_MAX else ends[:1]),
        }
        wanted = replace(asked.wanted, before_id=None)  # the whole of what is asked for, and not one page of it
        return StreamingResponse(self._exported(wanted, form, heads), headers=headers, media_type=EXPORTS[form])

    async def _exported(self, wanted: LogFilter, form: str, heads: Mapping[str, Head]) -> AsyncIterator[str]:
        """In pieces, each in its own turn, so that an export of months holds up neither the page nor the daemon."""
        if form == "csv":
            yield csv_head()
        log = self._parts.ledger.log(wanted)
        found = (one for one in log if cast(int, one["seq"]) <= heads.get(str(one["chain"]), Head()).seq)
        while records := await self._turns.run(lambda: list(islice(found, PIECE))):
            yield csv_lines(records) if form == "csv" else json_lines(records)

    async def news(self, _request: Request) -> Response:
        """Tells whoever listens that a page would look different now."""
        if self._news.full:
            raise TooBusy
        headers = {"X-Accel-Buffering": "no"}  # or nginx keeps it to itself
        return StreamingResponse(self._news.stream(), headers=headers, media_type="text/event-stream")

    def _newest(self) -> str:
        """The number of the last record, and the daemon's sign of life, which is no news more often than this."""
        status = self._parts.ledger.status()
        alive = 0 if status is None else int(status.seen_at.timestamp() // ALIVE_EVERY_S)
        return f"{sum(head.seq for head in self._parts.ledger.heads().values())} {alive}"

    async def act(self, request: Request) -> Response:
        """An operator's decision. Afterwards the browser is sent back, so that a reload does not decide again."""
        visitor: Visitor = request.state.visitor
        form = form_of(await _body(request))
        needed = NEEDED[form.one("what")]
        if needed not in visitor.may:
            hint = "web.users in the config says who may: {password: …, may: [view, approve, operate]}"
            raise NotAllowed(f"{visitor.name or 'whoever reaches this page'} may not {needed}", hint=hint)
        if visitor.how != "token" and not self._forms.own(request.headers, form.one("token"), visitor):
            why = "This form is from before the page was started anew. Go back"
            if not cookie_of(request.headers, FORM_COOKIE):
                why = "Your browser sent no cookie with this form. Allow cookies for this page"
            return self._words(request, 403, "Nothing was changed", f"{why}, reload, and decide again.")
        act = form.act()
        said = await self._turns.run(lambda: self._parts.decide(act, visitor))
        answer = RedirectResponse(_back(form.one("back")), status_code=303)
        words = quote("; ".join(said).replace(" -> ", " → "))
        words = words if len(words) <= SAID_MAX else f"{words[:SAID_MAX].rpartition('%20')[0]}{quote(' …')}"
        _keep(request, answer, SAID_COOKIE, words)
        return answer

    async def metrics(self, _request: Request) -> Response:
        """What Prometheus asks for."""
        measured = await self._turns.run(self._parts.measured)
        return Response(measured, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def alive(self, _request: Request) -> Response:
        """Whether a new start would help: no, unless the daemon's loop has stopped moving."""
        silence = self._parts.silence()
        if silence > STUCK_S:
            return PlainTextResponse(f"the daemon's loop has not moved for {silence:.0f} s\n", 503)
        return PlainTextResponse("alive\n")

    async def ready(self, _request: Request) -> Response:
        """Whether it does its work: a complete poll of every partner, younger than three intervals. Asked of the ledger
        once a second at most, outside of the line that pages wait in: no password is needed for it, and neither do
        probes keep people out, nor people them."""
        ready = await self._ready.now()
        return PlainTextResponse("ready\n" if ready else "not ready\n", 200 if ready else 503)

    def _is_ready(self) -> bool:
        of = self._parts
        try:
            status, amiss = of.ledger.status(), of.amiss()
        except WorkerError:
            return False
        return amiss is None and status is not None and unhealthy(status.body, of.clock.now(), of.interval) is None

    async def missing(self, request: Request, error: Exception) -> Response:
        """An address that is none, or at which there is nothing."""
        words = str(error) if isinstance(error, NoSuchPage) else "There is no such page."
        return self._words(request, 404, "Nothing there", words)

    async def busy(self, _request: Request, _error: Exception) -> Response:
        """Who would wait too long."""
        words = "Too many are asking at once; nothing was done. Try again.\n"
        return PlainTextResponse(words, 503, {"Retry-After": "5"})

    async def trouble(self, request: Request, error: Exception) -> Response:
        """The ledger cannot be read, or what was to be decided cannot be."""
        words = f"{error}. {getattr(error, 'hint', '')}".rstrip(" .")
        if request.method != "POST":
            return self._words(request, 503, "This cannot be shown now", words)
        status = 403 if isinstance(error, NotAllowed) else 400 if isinstance(error, UsageError) else 409
        return self._words(request, status, "Nothing was changed", words)

    def _words(self, request: Request, status: int, title: str, words: str) -> Response:
        """A page that asks nothing of the ledger."""
        if request.url.path.endswith(".json"):
            return _json({"error": words}, status)
        shown = Shown(template="words.html", title=title, values={"words": words})
        cookie = cookie_of(request.headers, FORM_COOKIE)
        return HTMLResponse(self._drawn(request, shown, cookie, halted=False), status_code=status)

    def _drawn(self, request: Request, shown: Shown, cookie: str, *, halted: bool, seen: str = "") -> str:
        visitor: Visitor = request.state.visitor
        now = self._parts.clock.now()
        address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return self._templates.get_template(shown.template).render(
            title=shown.title,
            path=request.url.path,
            here=address,
            token=self._forms.token(cookie, visitor),
            said=unquote(cookie_of(request.headers, SAID_COOKIE)),
            visitor=visitor,
            any_halt=halted,
            seen=seen,
            live=seen and not {"before", "after"} & set(request.query_params),
            in_json=request.url.path in PAGES and json_path(request.url.path) + address[len(request.url.path) :],
            now=now,
            ago=partial(ago, now=now),
            **shown.values,
            **shown.drawn,
        )


def _json(value: Mapping[str, object], status: int = 200) -> Response:
    return Response(json.dumps(plain(value)), status, media_type="application/json")


@cache
def templates() -> Environment:
    """Templates that escape everything and forgive no misspelt name."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        when=day_and_time, iso=iso, tone=tone_of, spelled=spelled, request_id=request_id, lasting=lasting
    )
    made.tests.update(timed=timed, undoable=may_have_effect)
    made.globals.update(link=link, kinds=KINDS, reasons=REASONS, states=list(MOVES), version=__version__)
    made.globals.update(standings=STANDINGS, fields_asked={one: EVENT_FIELDS[one].values for one in EVENT_FIELDS_ASKED})
    for name in made.list_templates(("html",)):
        made.get_template(name)  # compiled at the start, so that the first page is as quick as any other
    return made


def _shown(value: object) -> object:
    """Nothing for what is not there, and a text without what turns the direction of reading or cannot be seen: an id
    must look like what it is."""
    if value is None:
        return ""
    return value if isinstance(value, Markup) or not isinstance(value, str) else printable(value, BLANKS)


# One page at a time, and never more than half of the time: a busy page must slow no cycle.
#
# Page and daemon share one interpreter, which runs one of them at a time. So pages are made one after the other, on a
# thread beside the page's own loop, and after each the next one waits for as long as that one took. Somebody who leafs
# through the log notices nothing; a hundred browsers at once wait for each other, not the daemon for them. Who would
# wait too long is turned away at once.

WAITING_MAX = 40
REST_MAX_S = 0.5


class TooBusy(Exception):
    """More are waiting than can be answered soon."""


class Turns:
    """Runs work one by one, with a rest after each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._free = asyncio.Lock()
        self._waiting = 0
        self._rested_at = float("-inf")

    async def run(self, work: Callable[[], T]) -> T:
        """The result of the work, made on another thread. Raises `TooBusy` where the line is too long."""
        if self._waiting >= WAITING_MAX:
            raise TooBusy
        self._waiting += 1
        try:
            async with self._free:
                await self._clock.sleep(self._rested_at - self._clock.monotonic())
                began = self._clock.monotonic()
                try:
                    return await asyncio.to_thread(work)
                finally:
                    ended = self._clock.monotonic()
                    self._rested_at = ended + min(ended - began, REST_MAX_S)
        finally:
            self._waiting -= 1


# An operator's decision, from a form. What it says is checked here; the decision itself is made by the port, which is
# the code of the commands.

BECAUSE_MAX = 1_000
FIELDS_MAX = 2_000
NEEDED: Mapping[str, str] = {
    **dict.fromkeys(("approve", "reject"), "approve"),
    **dict.fromkeys(("applied", "not_applied", "halt", "resume", "undo"), "operate"),
}
"""What somebody must be allowed to, for each thing that a form can ask for."""


class FilledForm(dict[str, list[str]]):
    """What somebody filled in."""

    def one(self, name: str) -> str:
        """The last value of a field; empty without one."""
        return storable(self.get(name, [""])[-1].strip())

    def of_writes(self, name: str) -> Iterator[tuple[int, str]]:
        """A field that says something of each write, as ``NUMBER:WORD``. Raises `UsageError`."""
        for number, _, said in (text.partition(":") for text in self.get(name, [])):
            yield _number(number), said

    def act(self) -> Act:
        """What it asks for. Raises `UsageError` for what cannot be decided."""
        because, lasting = self.one("because")[:BECAUSE_MAX], self.one("lasting")
        if not because and self.one("what") in ("approve", "reject"):
            because = NO_REASON
        if not because:
            raise UsageError("say why", hint="it is kept in the log, and an auditor will read it")
        try:
            length = parse_duration(lasting) if lasting else None
        except ValueError as error:
            hint = f"write {duration_meant(lasting)}, or leave it empty to halt until somebody resumes"
            raise UsageError(f"for how long: {error}", hint=hint) from error
        return Act(
            what=self.one("what"),
            ids=tuple(dict.fromkeys(_number(text) for text in self.get("id", []))),
            rule=self.one("rule"),
            partner=self.one("partner"),
            shown={number: _number(cents) / 100 for number, cents in self.of_writes("shown")},
            stood=dict(self.of_writes("stood")),
            lasting=length,
            because=because,
        )


def form_of(body: str) -> FilledForm:
    """A form that asks for something that can be decided. Raises `UsageError` for any other."""
    try:
        form = FilledForm(parse_qs(body, keep_blank_values=True, max_num_fields=FIELDS_MAX))
    except ValueError as error:
        raise UsageError("the form has too many fields", hint="decide fewer writes at once") from error
    if form.one("what") not in NEEDED:
        raise UsageError("the form does not say what to do", hint="go back and press one of its buttons")
    return form


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise UsageError(f"{text[:40]!r} is no number of a write", hint="go back and reload")
    return int(text)


def _back(address: str) -> str:
    """Where the form was; never another host's address."""
    return address if address.startswith("/") and not address.startswith(("//", "/\\")) else "/"


async def _body(request: Request) -> str:
    body = b""
    try:
        async with asyncio.timeout(FORM_WITHIN_S):
            async for part in request.stream():
                body += part
                if len(body) > FORM_BYTES_MAX:
                    raise UsageError("the form is too long", hint="decide fewer writes at once, or with the commands")
    except TimeoutError:
        raise UsageError(f"the form did not come within {FORM_WITHIN_S:.0f} s", hint="send it again") from None
    except ClientDisconnect:
        raise UsageError("the form did not come whole", hint="send it again") from None
    return body.decode("utf-8", errors="replace")


def _keep(request: Request, answer: Response, name: str, value: str) -> None:
    """A cookie that no script can read, and no other site send with a form. With a link from there it comes: who was
    given another one then would have no form taken any more that lies open beside it."""
    secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    answer.set_cookie(name, value, httponly=True, samesite="lax", secure=secure)
