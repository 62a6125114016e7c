"""What runs beside the daemon in the same process: the page, figures, the pulse, the service manager.

None of it can hold the daemon up: the page has a thread of its own, figures are counters, the service manager is told
without waiting. It ends before the ledger is closed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from worker.cli.page import page_beside, page_keys
from worker.cli.pulse import Pulse
from worker.cli.systemd import Supervisor
from worker.config import Config
from worker.engine.daemon import Daemon
from worker.model.records import Record
from worker.system import SystemClock
from worker.web.metrics import Meter


class Beside:
    """Made before the daemon, because its keys must be right before anything starts: raises `UsageError`."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._keys = page_keys(config)
        self._supervisor = Supervisor()
        self.meter = Meter()

    def told(self, tell: Callable[[Record], None]) -> Callable[[Record], None]:
        """Tells of a record as ``tell`` does, and counts it."""

        def both(record: Record) -> None:
            self.meter.record(record)
            tell(record)

        return both

    @asynccontextmanager
    async def serving(self, daemon: Daemon) -> AsyncIterator[None]:
        """Everything beside a daemon, for as long as the block lasts."""
        pulse = Pulse(SystemClock())
        beating = asyncio.ensure_future(pulse.beating(self._supervisor.alive))
        try:
            with page_beside(self._config, keys=self._keys, rules=lambda: daemon.rules, pulse=pulse, meter=self.meter):
                self._supervisor.ready()
                yield
                self._supervisor.stopping()
        finally:
            beating.cancel()
