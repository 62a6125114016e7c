"""``run``: the daemon."""

import asyncio
import os
from datetime import timedelta
from typing import Annotated

import typer

from worker.api.connection import ready_the_kernel
from worker.cli.app import app, invocation
from worker.cli.beside import Beside
from worker.cli.common import config_of, duration
from worker.cli.configs import unvouched_lines
from worker.cli.opening import ledger_url
from worker.cli.output import counted, say
from worker.cli.signals import leave_process_1, stopping
from worker.cli.wiring import running_daemon
from worker.config import Config
from worker.engine.report import CycleReport
from worker.ledger.places import place_of
from worker.ledger.reading import open_reading
from worker.logs import configure, logger, tell
from worker.rules.load import examine
from worker.system import utc_now


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
    config = config_of(invocation(context))
    configure(verbose=verbose)
    for key, why in config.unused_keys().items():
        logger().warning("config_key_not_used", key=key, why=why)
    for problem in config.warnings:
        say(str(problem))
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
