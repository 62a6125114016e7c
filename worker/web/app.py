"""Which address shows what, and how an answer is made: a few questions to the ledger, a view, a template.

Templates escape everything by themselves, and a name that a template misspells is an error and not an empty place.
Whatever asks the ledger waits for its turn (see ``turns``); what says whether the daemon is alive does not.
"""

import asyncio
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from urllib.parse import quote, unquote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from worker import __version__
from worker.engine.health import unhealthy
from worker.model.errors import UsageError, WorkerError, printable
from worker.model.records import KINDS, REASONS
from worker.web.acts import Act, act_of
from worker.web.door import FORM_COOKIE, Door, Forms, Visitor, cookie_of
from worker.web.exports import FORMS, exported
from worker.web.pages import PAGES, Asking, NoSuchPage, Shown, link
from worker.web.parts import NotAllowed, PageParts
from worker.web.samples import Samples
from worker.web.turns import TooBusy, Turns
from worker.web.views import day_and_time
from worker.writes.states import MOVES

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
