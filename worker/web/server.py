"""Serves the page on a thread and a loop of its own, beside the daemon.

The same process, because the page's figures and the sign of life are the daemon's; another loop, so that a slow browser
is never waited for where cycles run. If the page falls over, the daemon goes on, and a stop never waits long for it.
"""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from worker.model.errors import UsageError, WorkerError
from worker.model.exchange import Clock

STOP_WITHIN_S = 5.0
CONNECTIONS_MAX = 512
PEER_MAX = 64
"""Connections of one address. One more takes the place of the one that has been silent for longest."""
HEAD_WITHIN_S = 10.0
"""A connection on which no request has begun for so long is closed."""
ANSWER_WITHIN_S = 600.0
"""The longest that one answer may take to be read: an export of a large log over a slow line."""
HEAD_BYTES_MAX = 32 * 1024


class Deadlined(H11Protocol):
    """A connection that may not be held for nothing: a silent one is closed in time, and gives way to others before."""

    since = 0.0
    """When its last request began, or it was made, on the loop's clock."""
    seen: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a connection, in the place of the one that has been silent for longest where there are too many."""
        super().connection_made(transport)
        self.since = self.loop.time()
        others = [one for one in self.connections if isinstance(one, Deadlined) and one is not self]
        same = [one for one in others if one.peer == self.peer]
        crowd = same if len(same) >= PEER_MAX else others if len(others) >= CONNECTIONS_MAX else []
        if crowd:
            least = min((one for one in crowd if not one.busy), key=lambda one: one.since, default=self)
            least.connections.discard(least)
            least.transport.abort()
        self._watch()

    @property
    def peer(self) -> str:
        """The address at the other end."""
        return self.client[0] if self.client else ""

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
        return socket.create_server((host, port), family=family, backlog=CONNECTIONS_MAX)
    except OSError as error:
        hint = "another program has it, or the address is not this machine's; choose another one in web.listen"
        raise UsageError(f"web.listen: {host}:{port} cannot be had: {error.strerror or error}", hint=hint) from error


# Tells browsers that there is something new to see, so that none has to ask again and again (server-sent events).
#
# However many watch, the ledger is asked once in `LOOK_EVERY_S`, and nobody who watches is waited for: a stream has its
# own place on the page's loop, there are only so many of them, and each ends by itself. A browser then opens it anew.

NEWS = "/news"
STREAMS_MAX = 32
LOOK_EVERY_S = 2.0
STREAM_FOR_S = 540.0
"""Less than the time that one answer may take."""


class Watchers:
    """``newest`` says in one word what there is to see now: another word is news."""

    def __init__(self, newest: Callable[[], str], clock: Clock) -> None:
        self._newest = newest
        self._clock = clock
        self._looking = asyncio.Lock()
        self._word, self._until = "", float("-inf")
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
                word = await self._look()
                yield f"data: {word}\n\n" if word != said else ":\n\n"
                said = word
                await self._clock.sleep(LOOK_EVERY_S)
        except WorkerError:  # the ledger cannot be read now; the browser asks again
            return
        finally:
            self._streams -= 1

    async def _look(self) -> str:
        async with self._looking:
            now = self._clock.monotonic()
            if now >= self._until:
                self._word = await asyncio.to_thread(self._newest)
                self._until = now + LOOK_EVERY_S / 2
            return self._word
