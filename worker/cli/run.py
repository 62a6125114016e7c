"""``run``: the daemon, and what lives beside it in the same process: log lines, figures, messages, the page.

Nothing beside the daemon can hold it up: page and messages have threads of their own, figures are counters, the service
manager is told without waiting. It ends before the ledger is closed.
"""

import asyncio
import os
import resource
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import timedelta
from typing import Annotated

import typer

from worker.api.transport import ready_the_kernel
from worker.cli.common import config_of, duration, ledger_url, ledger_warnings, unconfirmed_lines
from worker.cli.output import say
from worker.cli.signals import leave_process_1, stopping
from worker.cli.wiring import FolderSource, running_daemon, state_dir
from worker.config import Config, resolve
from worker.engine.daemon import Daemon
from worker.engine.ports import CycleReport
from worker.ledger.places import files_of, place_of
from worker.ledger.reading import LedgerReader, open_reading
from worker.logs import configure, logger, tell
from worker.messages import AppriseChannel, Outbox, Subscriber
from worker.model.commits import Record
from worker.model.errors import WorkerError
from worker.model.exchange import Clock
from worker.model.facts import Json, PartnerId
from worker.system import SystemClock
from worker.web.metrics import Meter

app = typer.Typer()

SOCKET_ENV = "NOTIFY_SOCKET"
BEAT_S = 1.0


@app.command("run")
def run(
    context: typer.Context,
    lasting: Annotated[str | None, typer.Option("--for", help="End after that long, for instance 10m.")] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also log evidence, holds and observations.")
    ] = False,
) -> None:
    """Run the worker: poll every poll.interval, decide by the rules, write with guards, and log it all.

    SIGTERM, Ctrl-C and a terminal that is closed (SIGHUP) stop it cleanly: nothing new is recorded, what is in flight
    is awaited up to stop_within.

    Example: campaign-worker --config staging.yaml run --for 10m
    """
    leave_process_1()
    ready_the_kernel()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each partner may have a connection at the same time
    configure(verbose=verbose)
    ends = duration(lasting, "--for")
    config = config_of(context)
    for problem in (*config.warnings, *ledger_warnings(config)):
        say("\n".join(problem.lines))
    asyncio.run(_run(config, ends))


async def _run(config: Config, ends: timedelta | None) -> None:
    loop, asked, numbers = asyncio.get_running_loop(), asyncio.Event(), stopping()
    for number in numbers:
        loop.add_signal_handler(number, asked.set)
    source = None if files_of(config.ledger, config.folder) is None else FolderSource(config)
    for line in () if source is None else unconfirmed_lines(config, (await source.load()).rules):
        say(line)
    beside = Beside(config)
    async with running_daemon(config, source, reporter=beside, tell=beside.tell, meter=beside.meter) as daemon:
        for line in of_the_sandbox(config):  # of a ledger that this process may go on with, and of no other
            say(line)
        for number in numbers:
            loop.add_signal_handler(number, daemon.stop)
        if asked.is_set():
            daemon.stop()
        async with beside.serving(daemon):
            await daemon.run(lasting=ends)


def of_the_sandbox(config: Config) -> tuple[str, ...]:
    """What to say where the service is the embedded sandbox, which an empty config means as well, and begins anew where
    the ledger does not. Nothing is thrown away for it: the same line in a config could be a slip, and the ledger that
    of the real service."""
    if not config.embedded:
        return ()
    file = place_of(ledger_url(config)).file
    return (
        "the service is the embedded sandbox: no real event is looked at, and nothing real is changed",
        f"    it begins anew at every start, and the ledger {file} does not: remove {file.name}* there for that",
        "    for the real service, set `api.base_url` in the config, and name another `ledger`",
    )


class Beside:
    """Tells of cycles, records and troubles: in the log of the process, in figures, in messages, on the page. Made
    before the daemon, because keys and addresses must be right before anything starts: raises `UsageError`."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._page = None
        if config.web is not None:
            from worker.cli.page import ServedPage  # noqa: PLC0415 - a web server, for those who asked for a page

            self._page = ServedPage(config, config.web)
        channels = ((one, resolve(one.url, os.environ).reveal()) for one in config.notify)
        self._subscribers = [
            Subscriber(key=one.url.key, name=one.name, send=AppriseChannel(url, one.url.key).send, on=frozenset(one.on))
            for one, url in channels
        ]
        self._outbox: Outbox | None = None
        self._log: LedgerReader | None = None
        self.meter = Meter()

    def tell(self, record: Record) -> None:
        """A record was stored."""
        self.meter.record(record)
        tell(record)

    def cycle(self, report: CycleReport) -> None:
        """One canonical line per cycle."""
        self.meter.cycle(report)
        level = logger().warning if report.error else logger().info
        shown = {} if report.error is None else {"error": report.error}
        level(
            "cycle",
            partner=report.partner,
            events=report.events,
            complete=report.complete,
            fired=report.fired,
            open_writes=report.open_writes,
            took_ms=report.took_ms,
            **self._head(report.partner),
            **shown,
        )

    def _head(self, partner: PartnerId) -> Mapping[str, str]:
        """The end of the chain of the partner's records, for the line of a cycle: kept where the log is not, it shows a
        log that was written anew. Nothing where it cannot be read now."""
        with suppress(WorkerError):
            return {} if self._log is None else {"log_head": str(self._log.head(partner))}
        return {}

    def note(self, message: str, **keys: object) -> None:
        """Something worth knowing, such as that what was cried out is over."""
        logger().info(message, **keys)
        self._tell_on(message, keys)

    def alarm(self, message: str, **keys: object) -> None:
        """Something that an operator should look at."""
        logger().warning(message, **keys)
        self._tell_on(message, keys)

    def _tell_on(self, message: str, keys: Mapping[str, object]) -> None:
        """Who asked to be told is."""
        if self._outbox is not None:
            self._outbox.alarm(message, keys)

    @asynccontextmanager
    async def serving(self, daemon: Daemon) -> AsyncIterator[None]:
        """Messages, the page and the service manager's signs of life, for as long as the block lasts."""
        pulse = Pulse(SystemClock())
        beating = asyncio.ensure_future(pulse.beating())
        try:
            with ExitStack() as stack:
                self._log = stack.enter_context(open_reading(ledger_url(self._config)))
                if self._subscribers:
                    self._outbox = stack.enter_context(self._messages(stack, daemon.tells))
                if self._page is not None:
                    stack.enter_context(self._page.served(daemon, pulse.silence, self.meter, self.alarm))
                tell_supervisor("READY=1\nSTATUS=watching")
                yield
                tell_supervisor("STOPPING=1\nSTATUS=awaiting what is in flight")
        finally:
            self._log = None
            beating.cancel()

    def _messages(self, stack: ExitStack, tells: Callable[[Mapping[str, Json]], bool]) -> Outbox:
        url = ledger_url(self._config)
        place = files_of(url)
        return Outbox(
            self._subscribers,
            ledger=stack.enter_context(open_reading(url)),
            place=state_dir(self._config) / "messages" if place is None else place.file,
            seconds=SystemClock().monotonic,
            told=self._sent,
            tells=tells,
        )

    def _sent(self, to: str, things: int, taken: bool) -> None:  # noqa: FBT001 - what the outbox says
        self.meter.message(taken=taken)
        level, said = (logger().info, "message_sent") if taken else (logger().warning, "message_not_sent")
        level(said, to=to, things=things)


class Pulse:
    """The daemon's sign of life: beats on the loop where `beating` runs; may be asked from any thread. A process can
    stand and do nothing: a loop that hangs neither decides nor settles, and looks well from outside."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.monotonic()

    def silence(self) -> float:
        """For how long the loop has not moved, in seconds; less than a beat or two where all is well."""
        return self._clock.monotonic() - self._last

    async def beating(self) -> None:
        """Beats until it is cancelled. The service manager is told of every beat."""
        while True:
            self._last = self._clock.monotonic()
            tell_supervisor("WATCHDOG=1")
            await self._clock.sleep(BEAT_S)


def tell_supervisor(words: str, environment: Mapping[str, str] = os.environ) -> None:
    """Tells systemd, where the environment names its socket, how the daemon is.

    ``READY=1`` says that the ledger is held and open, so that what waits for this unit may start; it does not wait for
    the service. ``WATCHDOG=1`` comes with the beats of the daemon's own loop: a loop that stands is started anew, which
    is always safe. A manager that is gone is no reason to stop.
    """
    address = environment.get(SOCKET_ENV, "")
    if not address:
        return
    place = "\0" + address[1:] if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
        line.sendto(words.encode(), socket.MSG_DONTWAIT, place)
