"""Which address shows what, and how an answer is made: a few questions to the ledger, a view, a template.

Templates escape everything by themselves, and a name that a template misspells is an error and not an empty place.
Whatever asks the ledger waits for its turn (see ``turns``); what says whether the daemon is alive does not.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qs, quote, unquote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from worker import __version__
from worker.engine.ports import unhealthy
from worker.ledger.log import csv_head, csv_lines, json_lines
from worker.model.commits import LogFilter
from worker.model.errors import NotFound, UsageError, WorkerError, printable
from worker.model.exchange import Clock
from worker.model.facts import Json
from worker.model.records import KINDS, REASONS
from worker.rules.durations import parse_duration
from worker.web.door import FORM_COOKIE, Door, Forms, Visitor, cookie_of
from worker.web.pages import PAGES, Asking, Decisions, NoSuchPage, NotAllowed, PageParts, Said, Samples, Shown, link
from worker.web.views import day_and_time, log_asked
from worker.writes.life import MOVES

# One page at a time, and never more than half of the time: a busy page must slow no cycle.
#
# Page and daemon share one interpreter, which runs one of them at a time. So pages are made one after the other, on a
# thread beside the page's own loop, and after each the next one waits for as long as that one took. Somebody who leafs
# through the log notices nothing; a hundred browsers at once wait for each other, not the daemon for them. Who would
# wait too long is turned away at once.

T = TypeVar("T")
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


# The log as a file for auditors, narrowed as the page is: JSON lines or CSV, oldest first, with the chain's head.
#
# It is made in pieces, each in its own turn, so that an export of months holds up neither the page nor the daemon. The
# head stands in a header of the answer and in the file's name: with it, an export of the whole log can be verified on
# another machine.

FORMS: Mapping[str, str] = {"jsonl": "application/jsonl", "csv": "text/csv"}
PIECE = 500


async def exported(parts: PageParts, turns: Turns, form: str, query: Mapping[str, str]) -> Response:
    """The records that an address asks for, as a file."""
    asked = log_asked(query, parts.clock.now())
    unsupported = [name for name in ("kind", "reason", "until") if name in asked.given]
    if asked.problems or unsupported:
        words = "; ".join([*asked.problems, *(f"{name}: an export cannot be narrowed by it" for name in unsupported)])
        return PlainTextResponse(words + "\n", 400)
    wanted = asked.wanted
    narrowed = LogFilter(
        since=wanted.since, partner=wanted.partner, event=wanted.event, rule=wanted.rule, write=wanted.write
    )
    seq, head = await turns.run(parts.ledger.head)
    headers = {
        "Content-Disposition": f'attachment; filename="campaign-worker-log-{seq}-{head[:12]}.{form}"',
        "X-Chain-Head": f"{seq}:{head}",
    }
    pieces = _pieces(parts, turns, narrowed, form)
    return StreamingResponse(pieces, headers=headers, media_type=f"{FORMS[form]}; charset=utf-8")


async def _pieces(parts: PageParts, turns: Turns, wanted: LogFilter, form: str) -> AsyncIterator[str]:
    if form == "csv":
        yield csv_head()
    after = 0
    while True:
        page = replace(wanted, after_seq=after, limit=PIECE)
        records: list[dict[str, Json]] = await turns.run(lambda page=page: list(parts.ledger.log(page)))  # type: ignore[misc]
        if not records:
            return
        yield csv_lines(records) if form == "csv" else json_lines(records)
        last = records[-1]["seq"]
        after = last if isinstance(last, int) else after


# A person's decision, from a form to the operator's own code.
#
# What a form says is checked here, whether the one who sends it may, and the name that a password or token proved is
# put beside it. The decision itself is made by the port, which is the same code that the commands use.

BECAUSE_MAX = 1_000
FIELDS_MAX = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a form asks for. ``what`` is one of `WHAT`; ``ids`` are writes; ``up_to`` bounds a whole rule's writes."""

    what: str
    ids: tuple[int, ...] = ()
    rule: str = ""
    partner: str = ""
    up_to: int = 0
    lasting: str = ""
    because: str = ""
    token: str = ""
    back: str = "/"

    def allow(self, visitor: Visitor) -> None:
        """Raises `NotAllowed` for somebody who may not decide so."""
        needed, _ = WHAT[self.what]
        if needed not in visitor.may:
            raise NotAllowed(
                f"{visitor.name or 'whoever reaches this page'} may not {needed}",
                hint="web.users in the config says who may: {password: …, may: [view, approve, operate]}",
            )

    def do(self, decisions: Decisions, visitor: Visitor) -> tuple[str, ...]:
        """Decides, and says what was done. Raises `WorkerError` where nothing was."""
        if not self.because:
            raise UsageError("say why", hint="it is kept in the log, and an auditor will read it")
        said = Said(because=self.because, by=f"{visitor.name} (page)", up_to=visitor.up_to)
        _, does = WHAT[self.what]
        return does(self, decisions, said)


def act_of(body: str) -> Act:
    """The decision of a form. Raises `UsageError` for what is no decision."""
    try:
        given = parse_qs(body, keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise UsageError("the form has too many fields", hint="decide fewer writes at once") from error
    what = _one(given, "what")
    if what not in WHAT:
        raise UsageError("the form does not say what to do", hint="go back and press one of its buttons")
    return Act(
        what=what,
        ids=tuple(dict.fromkeys(_number(text) for text in given.get("id", []))),
        rule=_one(given, "rule"),
        partner=_one(given, "partner"),
        up_to=_number(_one(given, "up_to") or "0"),
        lasting=_one(given, "lasting"),
        because=_one(given, "because")[:BECAUSE_MAX],
        token=_one(given, "token"),
        back=_one(given, "back") or "/",
    )


def _approve(act: Act, decisions: Decisions, said: Said) -> tuple[str, ...]:
    return decisions.approve(_meant(act, decisions), said)


def _reject(act: Act, decisions: Decisions, said: Said) -> tuple[str, ...]:
    return decisions.reject(_meant(act, decisions), said)


def _applied(act: Act, decisions: Decisions, said: Said) -> tuple[str, ...]:
    return decisions.resolve(act.ids, said, applied=True)


def _not_applied(act: Act, decisions: Decisions, said: Said) -> tuple[str, ...]:
    return decisions.resolve(act.ids, said, applied=False)


def _halt(act: Act, decisions: Decisions, said: Said) -> tuple[str, ...]:
    try:
        lasting = parse_duration(act.lasting) if act.lasting else None
    except ValueError as error:
        raise UsageError(f"for how long: {error}", hint="leave it empty to halt until somebody resumes") from error
    return decisions.halt(said, partner=act.partner, rule=act.rule, lasting=lasting)


def _resume(act: Act, decisions: Decisions, said: Said) -> tuple[str, ...]:
    return decisions.resume(said, partner=act.partner, rule=act.rule)


def _meant(act: Act, decisions: Decisions) -> tuple[int, ...]:
    """The writes by number, or all of a rule that the person has seen."""
    if not act.rule:
        return act.ids
    found = decisions.waiting_of(act.rule, up_to=act.up_to)
    if not found:
        raise NotFound(f"rule {act.rule} has no write that waits any more", hint="look again")
    return found


WHAT: Mapping[str, tuple[str, Callable[[Act, Decisions, Said], tuple[str, ...]]]] = {
    "approve": ("approve", _approve),
    "reject": ("approve", _reject),
    "applied": ("operate", _applied),
    "not_applied": ("operate", _not_applied),
    "halt": ("operate", _halt),
    "resume": ("operate", _resume),
}
"""What somebody must be allowed to for each, and what does it."""


def _one(given: Mapping[str, list[str]], name: str) -> str:
    return given.get(name, [""])[-1].strip()


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise UsageError(f"{text[:40]!r} is no number of a write", hint="go back and reload")
    return int(text)


HERE = Path(__file__).parent
SAID_COOKIE = "campaign_worker_said"
FORM_BYTES_MAX = 64 * 1024
FORM_WITHIN_S = 10.0
READY_FOR_S = 1.0
STUCK_S = 30.0
"""A loop that has not moved for so long does not decide and does not settle: only a new start helps."""


def application(parts: PageParts, samples: Samples) -> ASGIApp:
    """The page, behind its door."""
    site = Site(parts, samples)
    routes = [
        *(Route(path, partial(site.page, make), methods=["GET"]) for path, make in PAGES.items()),
        *(Route(f"/log.{form}", partial(site.export, form), methods=["GET"]) for form in FORMS),
        Route("/act", site.act, methods=["POST"]),
        Route("/metrics", site.metrics, methods=["GET"]),
        Route("/healthz", site.alive, methods=["GET"]),
        Route("/readyz", site.ready, methods=["GET"]),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    inner = Starlette(routes=routes, exception_handlers={404: site.missing, WorkerError: site.trouble})
    return Door(inner, keys=parts.keys, clock=parts.clock, refused=parts.refused)


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
    made.filters["when"] = day_and_time
    made.globals.update(
        link=link, kinds=sorted(KINDS), reasons=sorted(REASONS), states=list(MOVES), version=__version__
    )
    for name in made.list_templates(("html",)):
        made.get_template(name)  # compiled at the start, so that the first page is as quick as any other
    return made


def _shown(value: object) -> object:
    """A text without what turns the direction of reading or cannot be seen: an id must look like what it is."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else printable(value, "\n\t")


class Site:
    """Answers requests."""

    def __init__(self, parts: PageParts, samples: Samples) -> None:
        self._parts = parts
        self._samples = samples
        self._forms = Forms(parts.entropy())
        self._turns = Turns(parts.clock)
        self._templates = templates()
        self._probing = asyncio.Lock()
        self._unready: str | None = None
        self._ready_until = float("-inf")

    async def page(self, make: Callable[[Asking], Shown], request: Request) -> Response:
        """One of the pages."""
        asking = Asking(
            parts=self._parts, samples=self._samples, query=request.query_params, now=self._parts.clock.now()
        )
        cookie = cookie_of(request.headers, FORM_COOKIE) or self._parts.entropy()

        def drawn() -> str:
            return self._drawn(request, make(asking), cookie, halted=bool(self._parts.ledger.halts(asking.now)))

        try:
            answer = HTMLResponse(await self._turns.run(drawn))
        except TooBusy:
            return _too_busy()
        except NoSuchPage as error:
            return self._words(request, 404, "Nothing there", str(error))
        if not cookie_of(request.headers, FORM_COOKIE):
            _keep(request, answer, FORM_COOKIE, cookie)
        if cookie_of(request.headers, SAID_COOKIE):
            answer.delete_cookie(SAID_COOKIE)
        return answer

    async def export(self, form: str, request: Request) -> Response:
        """The log as a file, narrowed as the page is."""
        return await exported(self._parts, self._turns, form, request.query_params)

    async def act(self, request: Request) -> Response:
        """A person's decision. Afterwards the browser is sent back, so that a reload does not decide again."""
        visitor: Visitor = request.state.visitor
        try:
            act = act_of(await _body(request))
            act.allow(visitor)
            if visitor.how != "token" and not self._forms.own(request.headers, act.token, visitor):
                words = "This form is from before the page was started anew. Go back, reload, and decide again."
                return self._words(request, 403, "Nothing was changed", words)
            said = await self._turns.run(lambda: act.do(self._parts.decisions, visitor))
        except TooBusy:
            return _too_busy()
        except WorkerError as error:
            status = 403 if isinstance(error, NotAllowed) else 400 if isinstance(error, UsageError) else 409
            return self._words(request, status, "Nothing was changed", f"{error}. {error.hint}".rstrip(" ."))
        answer = RedirectResponse(_back(act), status_code=303)
        _keep(request, answer, SAID_COOKIE, quote("; ".join(said)[:1500]))
        return answer

    async def metrics(self, _request: Request) -> Response:
        """What Prometheus asks for."""
        try:
            measured = await self._turns.run(self._parts.measured)
        except TooBusy:
            return _too_busy()
        return Response(measured.body, headers={"Content-Type": measured.media_type})

    async def alive(self, _request: Request) -> Response:
        """Whether a new start would help: no, unless the daemon's loop has stopped moving."""
        silence = self._parts.silence()
        if silence > STUCK_S:
            return PlainTextResponse(f"the daemon's loop has not moved for {silence:.0f} s\n", 503)
        return PlainTextResponse("alive\n")

    async def ready(self, _request: Request) -> Response:
        """Whether it does its work: a complete look at every partner, younger than three intervals."""
        ready = await self._readiness() is None
        return PlainTextResponse("ready\n" if ready else "not ready\n", 200 if ready else 503)

    async def _readiness(self) -> str | None:
        """Why it is not ready; asked of the ledger once a second, outside of the queue that pages wait in: neither do
        probes keep people out, nor people them."""
        now = self._parts.clock.monotonic()
        async with self._probing:
            if now >= self._ready_until:
                self._unready = await asyncio.to_thread(self._why_unready)
                self._ready_until = now + READY_FOR_S
        return self._unready

    def _why_unready(self) -> str | None:
        try:
            status, amiss = self._parts.ledger.status(), self._parts.amiss()
        except WorkerError as error:
            return str(error)
        if amiss is not None:
            return amiss
        now = self._parts.clock.now()
        return "it has not started yet" if status is None else unhealthy(status.body, now, self._parts.interval)

    async def missing(self, request: Request, _error: Exception) -> Response:
        """An address that is none."""
        return self._words(request, 404, "Nothing there", "There is no such page.")

    async def trouble(self, request: Request, error: Exception) -> Response:
        """The ledger cannot be read."""
        hint = error.hint if isinstance(error, WorkerError) else ""
        return self._words(request, 503, "This cannot be shown now", f"{error}. {hint}".rstrip(" ."))

    def _words(self, request: Request, status: int, title: str, words: str) -> Response:
        """A page that asks nothing of the ledger."""
        shown = Shown(template="words.html", title=title, values={"words": words})
        cookie = cookie_of(request.headers, FORM_COOKIE)
        return HTMLResponse(self._drawn(request, shown, cookie, halted=False), status_code=status)

    def _drawn(self, request: Request, shown: Shown, cookie: str, *, halted: bool) -> str:
        visitor: Visitor = request.state.visitor
        address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return self._templates.get_template(shown.template).render(
            title=shown.title,
            path=request.url.path,
            here=address,
            token=self._forms.token(cookie, visitor),
            said=unquote(cookie_of(request.headers, SAID_COOKIE)),
            visitor=visitor,
            any_halt=halted,
            **shown.values,
        )


def _back(act: Act) -> str:
    """Where the form was; never another host's address."""
    return act.back if act.back.startswith("/") and not act.back.startswith(("//", "/\\")) else "/"


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
    return body.decode("utf-8", errors="replace")


def _keep(request: Request, answer: Response, name: str, value: str) -> None:
    """A cookie that no script can read and no other site can send."""
    secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    answer.set_cookie(name, value, httponly=True, samesite="strict", secure=secure)


def _too_busy() -> Response:
    return PlainTextResponse("Too many are asking at once; nothing was done. Try again.\n", 503, {"Retry-After": "5"})
