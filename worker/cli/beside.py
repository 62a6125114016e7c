"""What runs beside the daemon in the same process: the page, figures, messages, the pulse, the service manager.

None of it can hold the daemon up: page and messages have threads of their own, figures are counters, the service
manager is told without waiting. It ends before the ledger is closed.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager

from worker.cli.opening import ledger_url
from worker.cli.pulse import Pulse
from worker.cli.systemd import Supervisor
from worker.config import Config, WebPage, resolve
from worker.engine.daemon import Daemon
from worker.ledger.places import place_of
from worker.ledger.reading import open_reading
from worker.logs import logger
from worker.messages.channel import AppriseChannel
from worker.messages.outbox import Outbox, Sent, Subscriber
from worker.model.records import Record
from worker.system import SystemClock
from worker.web.metrics import Meter


class Beside:
    """Made before the daemon, because keys and addresses must be right before anything starts: raises `UsageError`."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._page = _nothing if config.web is None else _page_of(config, config.web)
        self._subscribers = [
            Subscriber(
                key=one.url.key, channel=AppriseChannel(resolve(one.url, os.environ).reveal(), one.url.key), on=one.on
            )
            for one in config.notify
        ]
        self._supervisor = Supervisor()
        self._outbox: Outbox | None = None
        self.meter = Meter()

    def told(self, tell: Callable[[Record], None]) -> Callable[[Record], None]:
        """Tells of a record as ``tell`` does, and counts it."""

        def both(record: Record) -> None:
            self.meter.record(record)
            tell(record)

        return both

    def alarm(self, name: str, keys: Mapping[str, object]) -> None:
        """The daemon cries out; who asked to be told is."""
        if self._outbox is not None:
            self._outbox.alarm(name, keys)

    @asynccontextmanager
    async def serving(self, daemon: Daemon) -> AsyncIterator[None]:
        """Everything beside a daemon, for as long as the block lasts."""
        pulse = Pulse(SystemClock())
        beating = asyncio.ensure_future(pulse.beating(self._supervisor.alive))
        try:
            with (
                self._telling(),
                self._page(rules=lambda: daemon.rules, pulse=pulse, meter=self.meter, alarm=self.alarm),
            ):
                self._supervisor.ready()
                yield
                self._supervisor.stopping()
        finally:
            beating.cancel()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Messages, where somebody asked for them."""
        if not self._subscribers:
            yield
            return
        url = ledger_url(self._config)
        with open_reading(url) as ledger:
            outbox = Outbox(
                self._subscribers,
                ledger=ledger,
                place=place_of(url).file,
                seconds=SystemClock().monotonic,
                told=self._sent,
            )
            with outbox:
                self._outbox = outbox
                try:
                    yield
                finally:
                    self._outbox = None

    def _sent(self, sent: Sent) -> None:
        self.meter.message(taken=sent.taken)
        if sent.taken:
            logger().info("message_sent", to=sent.key, things=sent.count)
        else:
            logger().warning("message_not_sent", to=sent.key, things=sent.count)


def _page_of(config: Config, web: WebPage) -> Callable[..., AbstractContextManager[None]]:
    """What serves the page. Raises `UsageError` for a secret that is missing or too short."""
    from worker.cli.page import Page  # noqa: PLC0415 - a web server, for those who asked for a page

    return Page(config, web).beside


@contextmanager
def _nothing(**_parts: object) -> Iterator[None]:
    """Nobody asked for a page."""
    yield
