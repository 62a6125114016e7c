"""``run``: the daemon."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from typing import Annotated

import typer

from worker.api.transport import ready_the_kernel
from worker.cli.common import config_of, duration, exposed_files, ledger_url, unvouched_lines
from worker.cli.output import counted, say
from worker.cli.page import Pulse
from worker.cli.signals import leave_process_1, stopping
from worker.cli.wiring import running_daemon
from worker.config import Config, WebPage, resolve
from worker.engine.daemon import Daemon
from worker.engine.ports import CycleReport
from worker.ledger.places import place_of
from worker.ledger.reading import LedgerReader, open_reading
from worker.logs import configure, logger, tell
from worker.messages.digest import Notice
from worker.messages.outbox import AppriseChannel, Outbox, Subscriber
from worker.model.errors import WorkerError
from worker.model.records import Record
from worker.rules.load import examine
from worker.system import SystemClock, utc_now
from worker.web.metrics import Meter

app = typer.Typer()

# Tells systemd how the daemon is: started, alive, stopping. A few lines to a socket, and nothing where there is none.
#
# ``READY=1`` says that the ledger is held and open, so that what waits for this unit may start; it does not wait for
# the service, which is tried on while it cannot be reached. ``WATCHDOG=1`` comes with the beats of the daemon's own
# loop: a loop that stands is started anew by the service manager, which is always safe.

SOCKET_ENV = "NOTIFY_SOCKET"


class Supervisor:
    """The service manager, as the environment names it; deaf where it names none."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get(SOCKET_ENV, "")
        self._address = "\0" + address[1:] if address.startswith("@") else address

    @property
    def listening(self) -> bool:
        """Somebody wants to be told."""
        return bool(self._address)

    def ready(self) -> None:
        """The daemon holds its ledger and begins to look."""
        self.tell("READY=1\nSTATUS=watching")

    def alive(self) -> None:
        """The loop moves."""
        self.tell("WATCHDOG=1")

    def stopping(self) -> None:
        """What is in flight is awaited; nothing new begins."""
        self.tell("STOPPING=1\nSTATUS=awaiting what is in flight")

    def tell(self, words: str) -> None:
        """Sends, and goes on if nobody takes it: a supervisor that is gone is no reason to stop."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
                line.sendto(words.encode(), socket.MSG_DONTWAIT, self._address)
        except OSError:
            return


# What runs beside the daemon in the same process: the page, figures, messages, the pulse, the service manager.
#
# None of it can hold the daemon up: page and messages have threads of their own, figures are counters, the service
# manager is told without waiting. It ends before the ledger is closed.


class Beside:
    """Made before the daemon, because keys and addresses must be right before anything starts: raises `UsageError`."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._page = _nothing if config.web is None else _page_of(config, config.web)
        self._subscribers = [
            Subscriber(
                key=one.url.key, send=AppriseChannel(resolve(one.url, os.environ).reveal(), one.url.key).send, on=one.on
            )
            for one in config.notify
        ]
        self._supervisor = Supervisor()
        self._outbox: Outbox | None = None
        self._log: LedgerReader | None = None
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
                self._reading(),
                self._telling(),
                self._page(rules=lambda: daemon.rules, pulse=pulse, meter=self.meter, alarm=self.alarm),
            ):
                self._supervisor.ready()
                yield
                self._supervisor.stopping()
        finally:
            beating.cancel()

    def head(self) -> Mapping[str, str]:
        """The end of the log's chain, for the line of a cycle: kept where the log is not, it shows a log that was
        written anew. Nothing where it cannot be read now."""
        with suppress(WorkerError):
            return {} if self._log is None else {"log_head": str(self._log.head())}
        return {}

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with open_reading(ledger_url(self._config)) as log:
            self._log = log
            try:
                yield
            finally:
                self._log = None

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

    def _sent(self, subscriber: Subscriber, notice: Notice) -> None:
        taken = not subscriber.digest.failing
        self.meter.message(taken=taken)
        if taken:
            logger().info("message_sent", to=subscriber.key, things=notice.count)
        else:
            logger().warning("message_not_sent", to=subscriber.key, things=notice.count)


def _page_of(config: Config, web: WebPage) -> Callable[..., AbstractContextManager[None]]:
    """What serves the page. Raises `UsageError` for a secret that is missing or too short."""
    from worker.cli.page import Page  # noqa: PLC0415 - a web server, for those who asked for a page

    return Page(config, web).beside


@contextmanager
def _nothing(**_parts: object) -> Iterator[None]:
    """Nobody asked for a page."""
    yield


class LogReporter:
    """Tells of cycles and troubles in the log of the process, counts them, and passes alarms on."""

    def __init__(self, beside: Beside) -> None:
        self._beside = beside

    def cycle(self, report: CycleReport) -> None:
        """One canonical line per cycle."""
        self._beside.meter.cycle(report, utc_now())
        log = logger()
        level = log.warning if report.error else log.info
        shown = {} if report.error is None else {"error": report.error}
        level(
            "cycle",
            partner=report.partner,
            events=report.events,
            complete=report.complete,
            fired=report.fired,
            open_writes=report.open_writes,
            took_ms=report.took_ms,
            **self._beside.head(),
            **shown,
        )

    def note(self, message: str, **keys: object) -> None:
        """Something worth knowing."""
        logger().info(message, **keys)

    def alarm(self, message: str, **keys: object) -> None:
        """Something that a person should look at."""
        logger().warning(message, **keys)
        self._beside.alarm(message, keys)


@app.command("run")
def run(
    context: typer.Context,
    lasting: Annotated[str | None, typer.Option("--for", help="End after that long, for instance 10m.")] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also log evidence, holds and observations.")
    ] = False,
) -> None:
    """Run the worker: look every poll.interval, decide by the rules, write with guards, and log it all.

    SIGTERM, Ctrl-C and a terminal that is closed (SIGHUP) stop it cleanly: nothing new is recorded, what is in flight
    is awaited up to stop_within.

    Example: campaign-worker --config staging.yaml run --for 10m
    """
    leave_process_1()
    ready_the_kernel()
    ends = duration(lasting, "--for")
    config = config_of(context)
    configure(verbose=verbose)
    for key, why in config.unused_keys().items():
        logger().warning("config_key_not_used", key=key, why=why)
    for problem in (*config.warnings, *exposed_files(config)):
        say("\n".join(problem.lines))
    rules = examine(config.rules, config.registry).rules.rules
    for line in unvouched_lines(config, rules):
        say(line)
    asyncio.run(_run(config, ends))


def earlier_worlds(config: Config) -> tuple[str, ...]:
    """What to say where the service is the embedded sandbox, which an empty config means as well; and that it begins
    anew where the ledger does not. Nothing is thrown away for it: the same line in a config could be a slip, and the
    ledger that of the real service."""
    if not config.embedded:
        return ()
    with open_reading(ledger_url(config)) as ledger:
        remembered = sum(ledger.state_counts().values())
    if not remembered:
        return (
            "the service is the embedded sandbox: no real event is looked at, and nothing real is changed",
            "    for the real one, set `api.base_url` in the config",
        )
    file = place_of(ledger_url(config)).file
    return (
        f"the embedded sandbox begins anew at every start; the ledger {file} does not",
        f"    it remembers {counted(remembered, 'write')} of earlier worlds; what is open is settled against this one",
        f"    to begin anew yourself, remove {file.name}* there; for the real service, name another `ledger`",
    )


async def _run(config: Config, ends: timedelta | None) -> None:
    loop, asked, numbers = asyncio.get_running_loop(), asyncio.Event(), stopping()
    for number in numbers:
        loop.add_signal_handler(number, asked.set)
    beside = Beside(config)
    async with running_daemon(
        config, reporter=LogReporter(beside), tell=beside.told(tell), pid=os.getpid(), meter=beside.meter
    ) as daemon:
        for line in earlier_worlds(config):  # of a ledger that this process may go on with, and of no other
            say(line)
        for number in numbers:
            loop.add_signal_handler(number, daemon.stop)
        if asked.is_set():
            daemon.stop()
        async with beside.serving(daemon):
            await daemon.run(lasting=ends)
