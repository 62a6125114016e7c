"""One simulated worker process: the real daemon with its real client, ledger and lock, on clocks of its own.

Only three things are ours: the clocks, the wire, and the scheduler's timer (APScheduler reads the system's clock by
itself, so a small one with the same face stands in for it).
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, Protocol, cast

from apscheduler.jobstores.base import JobLookupError

from tests.simulation.disk import Disk
from tests.simulation.kernel import socket_of
from tests.simulation.loop import SimLoop
from tests.simulation.wire import Around, SimTransport
from tests.twin import BASE_URLS
from worker.api.assumptions import Assumptions
from worker.api.client import ApiService, ApiSettings
from worker.api.exchanges import ReadResponse
from worker.api.requests import Account, Hosts
from worker.api.transport import Transports
from worker.engine.daemon import Daemon
from worker.engine.ports import CycleReport, Fleet, Parts, ServersClock
from worker.engine.views import EngineSettings
from worker.ledger.lock import SenderLock
from worker.ledger.places import place_of
from worker.ledger.reading import SERVICE
from worker.ledger.sql import SqlLedger
from worker.model.errors import WorkerError
from worker.model.exchange import SecretValue
from worker.model.facts import Json, PartnerId
from worker.model.rules import RuleSet
from worker.reading.gate import Gate, Pacer

CLOCK: ContextVar["SimClock"] = ContextVar("CLOCK")
DEFECTS: ContextVar[list[str]] = ContextVar("DEFECTS")
logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL + 1)  # a killed process rolls nothing back
_HOSTS = Hosts(api=BASE_URLS["api"], cr=BASE_URLS["cr"], media=BASE_URLS["media"])


class SimClock:
    """Wall time and boot time of one process, apart: the wall can jump, the boot clock begins anew with the machine."""

    def __init__(self, loop: SimLoop, wall: Callable[[], datetime], booted_s: float) -> None:
        self._loop = loop
        self._wall = wall
        self._booted_s = booted_s

    def now(self) -> datetime:
        return self._wall()

    def monotonic(self) -> float:
        return self._loop.now - self._booted_s

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class Folder(Protocol):
    """Where the rules come from."""

    def files_hash(self) -> str: ...
    async def load(self) -> RuleSet: ...


@dataclass(slots=True)
class Job:
    """One thing that is done again and again."""

    id: str
    work: Callable[..., Any]
    args: tuple[Any, ...]
    trigger: Any
    next_run_time: datetime
    owner: "SimScheduler"
    running: "asyncio.Task[Any] | None" = None

    def modify(self, *, next_run_time: datetime) -> None:
        self.next_run_time = next_run_time
        self.owner.wakeup()


class SimScheduler:
    """The face of APScheduler that the daemon uses: jobs by the wall clock, no two runs of one at a time."""

    def __init__(self, timezone: str) -> None:
        assert timezone == "UTC"
        self.running = False
        self._clock = CLOCK.get()
        self._defects = DEFECTS.get()
        self._jobs: dict[str, Job] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add_job(self, work: Callable[..., Any], trigger: Any, *, id: str, args: Any = (), **options: Any) -> None:  # noqa: A002 - the face of APScheduler
        now = self._clock.now()
        first = options.get("next_run_time") or trigger.get_next_fire_time(None, now)
        self._jobs[id] = Job(id=id, work=work, args=tuple(args), trigger=trigger, next_run_time=first, owner=self)
        self.wakeup()

    def remove_job(self, id: str) -> None:  # noqa: A002 - as above
        del self._jobs[id]

    def modify_job(self, id: str, *, next_run_time: datetime) -> None:  # noqa: A002 - as above
        if id not in self._jobs:
            raise JobLookupError(id)
        moment = timedelta(microseconds=1)  # as time goes on by itself where it is real
        self._jobs[id].modify(next_run_time=max(next_run_time, self._clock.now() + moment))

    def get_jobs(self) -> list[Job]:
        return list(self._jobs.values())

    def start(self) -> None:
        self.running = True
        self.wakeup()

    def shutdown(self, *, wait: bool) -> None:
        assert not wait
        self.running = False
        for job in self._jobs.values():
            if job.running is not None:
                job.running.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def wakeup(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.running:
            self._timer = asyncio.get_running_loop().call_later(0.0, self._look)

    async def _run(self, job: Job) -> None:
        try:
            await job.work(*job.args)
        except Exception as defect:  # noqa: BLE001 - what APScheduler would log, and go on
            self._defects.append(f"{job.id} ended in {defect!r}")

    def _look(self) -> None:
        if not self.running:
            return
        now = self._clock.now()
        for job in list(self._jobs.values()):
            if job.next_run_time > now:
                continue
            if job.running is None or job.running.done():
                job.running = asyncio.ensure_future(self._run(job))
            job.next_run_time = job.trigger.get_next_fire_time(job.next_run_time, now)
        wait = min((job.next_run_time - now for job in self._jobs.values()), default=timedelta(seconds=3))
        self._timer = asyncio.get_running_loop().call_later(max(0.0, wait.total_seconds()), self._look)


@dataclass(slots=True)
class Reports:
    """Who is told of what happens beside the records."""

    tell: Callable[[str], None]
    defects: list[str]
    moment: Callable[[], float]
    looks: list[float] = field(default_factory=list)

    def cycle(self, report: CycleReport) -> None:
        if report.complete and report.error is None:
            self.looks.append(self.moment())

    def whole(self, since_s: float) -> int:
        """How many whole looks there were since a moment."""
        return sum(at_s > since_s for at_s in self.looks)

    def note(self, message: str, **keys: object) -> None:
        self.tell(f"note {message}")

    def alarm(self, message: str, **keys: object) -> None:
        if message == "defect" or keys.get("hint") == "this is a defect":
            self.defects.append(f"{message} {keys}")
        self.tell(f"alarm {message}")


def no_budgets(_partner: PartnerId) -> Mapping[str, Json]:
    return {}


@dataclass(slots=True)
class Process:
    """One life of a worker. ``ended``: why it is over; empty while it runs."""

    name: str
    around: Around
    disk: Disk
    clock: SimClock | ServersClock
    settings: EngineSettings
    folder: Folder
    assumed: Assumptions
    service: str
    tell: Callable[[str], None]
    seed: int
    defects: list[str]
    ended: str = ""
    lock: SenderLock | None = None
    daemon: Daemon | None = None
    reports: Reports | None = None
    began_s: float = field(default=0.0)

    async def live(self) -> None:
        """From the lock to the end."""
        CLOCK.set(cast("SimClock", self.clock.own if isinstance(self.clock, ServersClock) else self.clock))
        DEFECTS.set(self.defects)
        try:
            await self._run()
            self.ended = "stopped"
        except WorkerError as problem:
            self.ended = f"{type(problem).__name__}: {problem}"
        self.tell(f"{self.name} ended: {self.ended}")

    async def _run(self) -> None:
        with self._held() as ledger:
            chance = Random(self.seed).random
            pacer = Pacer(per_minute=self.settings.requests_per_minute, clock=self.clock, chance=chance)
            gate: Gate[ReadResponse] = Gate(
                pacer=pacer, clock=self.clock, floor_s=self.settings.interval.total_seconds()
            )
            service = self._client(gate, pacer, chance)
            self.reports = Reports(
                tell=lambda text: self.tell(f"{self.name} {text}"), defects=self.defects, moment=self.around.loop.time
            )
            fleet = self._fleet(ledger, pacer, gate)
            parts = Parts(
                clock=self.clock,
                service=service,
                ledger=ledger,
                settings=self.settings,
                fleet=fleet,
            )
            if fleet is None:
                pacer.go_on_waiting(ledger.status())
            other = ledger.refused_for(self.service)
            if other is not None:
                raise other
            ledger.in_a_loop()
            self._sends_under(ledger)
            self.daemon = Daemon(
                parts,
                source=self._source(ledger),
                reporter=self.reports,
                pid=int(self.name[1:]),
                budgets=no_budgets,
                waits=lambda: {SERVICE: self.service, **pacer.waits()},
            )
            await self.daemon.run()
            await service.aclose()
            await gate.aclose()
            await pacer.aclose()

    @contextmanager
    def _held(self) -> Iterator[SqlLedger]:
        """The ledger, which is this process's alone."""
        self.lock = SenderLock.acquire(place_of(self.disk.url), now=self.clock.now())
        with self.lock, SqlLedger.open(self.disk.url, clock_now=self.clock.now) as ledger:
            yield ledger

    def _sends_under(self, ledger: SqlLedger) -> None:
        if self.lock is not None:
            self.lock.note(place_of(self.disk.url), {})
            ledger.sends_under(self.lock.identity)

    def _fleet(self, _ledger: SqlLedger, _pacer: Pacer, _gate: Gate[ReadResponse]) -> Fleet | None:
        return None

    def _source(self, _ledger: SqlLedger) -> Folder:
        return self.folder

    def _client(self, gate: Gate[ReadResponse], pacer: Pacer, chance: Callable[[], float]) -> ApiService:
        def transport() -> SimTransport:
            return SimTransport(self.around, self.clock.sleep, socket_of(self.settings.timeout.total_seconds()))

        return ApiService(
            settings=ApiSettings(
                hosts=_HOSTS,
                timeout=self.settings.timeout,
                page_size=self.settings.page_size,
                assumptions=self.assumed,
                transports=Transports(reads=transport, writes=transport, fence=self.around.timers.fence),
            ),
            account=Account(username=SecretValue("sandbox"), password=SecretValue("sandbox")),
            gate=gate,
            pacing=pacer,
            clock=self.clock,
            chance=chance,
        )

    def reap(self) -> None:
        """What the kernel does for a dead process: its lock is free, its files are as they are."""
        if self.lock is not None:
            self.lock.release()
        self.disk.reap(self.name)
