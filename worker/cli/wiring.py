"""Builds the parts and hands them in: the only place that knows which client, which ledger and which clock.

Everything else of the worker is given what it needs. What a config means for the engine is decided in
`worker.cli.common`, for every command alike.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

from worker.api.client import ApiService, ApiSettings
from worker.api.exchanges import ReadResponse, retry_after
from worker.api.probe import Probed, probed
from worker.api.requests import Account, Hosts
from worker.api.transport import Transports
from worker.cli.common import assumptions_of, clock_of, engine_settings, in_force, ledger_url, no_ledger
from worker.cli.trial import USUAL, Bounds, try_out
from worker.config import Config, resolve
from worker.config.addresses import service_of
from worker.engine.daemon import Daemon, Reporter
from worker.engine.explaining import last_poll
from worker.engine.ports import Fleet, Parts, RulesInUse, ServersClock
from worker.engine.rehearsal import Rehearsal, Remembered
from worker.engine.views import sendings_reach
from worker.ledger.lock import SenderLock
from worker.ledger.places import files_of, holder, named, tried, unread
from worker.ledger.reading import SERVICE, LedgerReader, open_reading
from worker.ledger.sql import SqlLedger, draft_of
from worker.model.commits import Record
from worker.model.errors import LedgerUnwritable, NotFound, NotSafe, Problem, UsageError
from worker.model.exchange import Clock, SecretValue
from worker.model.facts import EventId, Json, PartnerId
from worker.model.rules import RuleSet
from worker.reading.gate import Gate, Pacer
from worker.reading.pacing import LONGEST_RETRY_AFTER
from worker.rules.load import examined, files_hash, hash_of, texts_of
from worker.rules.spelling import counted, duration_text
from worker.system import SystemClock, new_random, utc_now

if TYPE_CHECKING:  # what only some commands need in memory: a whole service with a web server, and figures
    from worker.sandbox.app import Address
    from worker.sandbox.service import Twin
    from worker.web.metrics import Meter

FIRST_EVENT_IN = timedelta(days=30)
"""When the embedded sandbox's first event takes place, from today."""
STILL_SO = timedelta(minutes=1)
"""What was seen within this time need not be read again for a plan."""
SANDBOX_USER = "sandbox"
"""Who the embedded sandbox lets in; no secret."""


class FolderSource:
    """The config's rules as the daemon sees them: a hash that costs little, a load that is whole or nothing."""

    def __init__(self, config: Config, bounds: Bounds = USUAL) -> None:
        self._path, self._registry, self._bounds = config.rules, config.registry, bounds
        self._loaded: RuleSet | None = None

    def files_hash(self) -> str:
        """See `worker.rules.load.files_hash`."""
        return files_hash(self._path)

    async def load(self) -> RuleSet:
        """The rule set; see `_read`."""
        return await self._read(*texts_of(self._path))

    async def _read(self, texts: Mapping[str, str], unreadable: tuple[Problem, ...] = ()) -> RuleSet:
        """The rule set, tried in a child first and then read beside the loop; the same as before where its files say
        the same. Raises `InputErrors` with every mistake."""
        if unreadable or self._loaded is None or hash_of(texts) != self._loaded.hash:
            await try_out(self._path, texts, self._registry, self._bounds)
            found = await asyncio.to_thread(examined, texts, unreadable, self._registry)
            self._loaded = found.without_errors().rules
        return self._loaded


class PublishedSource(FolderSource):
    """The rules that somebody has published, the same for every replica of a fleet; none before that."""

    def __init__(self, config: Config, ledger: SqlLedger) -> None:
        super().__init__(config)
        self._ledger, self._generation = ledger, 0

    def files_hash(self) -> str:
        """The generation in force; the last one that was known while the ledger cannot be asked."""
        with suppress(LedgerUnwritable):
            self._generation = self._ledger.generation()
        return f"generation {self._generation}"

    async def load(self) -> RuleSet:
        """The rule set in force; from now on the ledger takes no decisions under another."""
        found = self._ledger.published()
        rules = await self._read({} if found is None else found.files)
        self._ledger.decides_under(0 if found is None else found.generation)
        return rules


def embedded_sandbox(clock: Clock, service: "Twin | None" = None) -> AbstractAsyncContextManager["Address"]:
    """The sandbox on a free loopback port while the block lasts; a new one, unless the service is given. It is imported
    here: a whole service with a web server, which a daemon that works on the real one need not have in its memory."""
    from worker.sandbox.app import serving  # noqa: PLC0415 - see above
    from worker.sandbox.start import built  # noqa: PLC0415

    service = service or built(None, None, clock.now() + FIRST_EVENT_IN)
    return serving(service, clock=clock.monotonic, sleep=clock.sleep)


def operators_ledger(config: Config) -> SqlLedger:
    """The ledger for an operator's short transaction; never a new one, which no daemon would look at, and never one
    that a running process does not read: raises `NotSafe`, also for a halt, which would stop nothing."""
    url = ledger_url(config)
    other = unread(files_of(url))
    if other is not None:
        raise NotSafe(f"{other}; nothing was changed", hint=other.hint)
    with open_reading(url) as ledger:
        if not ledger.made:
            missing = no_ledger(url)
            raise NotFound(f"{missing}; nothing was changed", hint=missing.hint)
    return SqlLedger.open(url, clock_now=utc_now)


def mark_unattended(config: Config, now: datetime) -> None:
    """Moves the mark to a word that was said while no daemon runs, as a daemon does soon after it was said."""
    if (place := files_of(config.ledger, config.folder)) is not None:
        with suppress(NotSafe), SenderLock.acquire(place, now=now), operators_ledger(config) as ledger:
            ledger.mark_words()


def require_fleet(config: Config) -> None:
    """Raises `UsageError` for a ledger in a file, which one worker has for itself."""
    if files_of(config.ledger, config.folder) is not None:
        why = "this is for workers that share a database, and the ledger of this config is a file"
        hint = f"its worker needs none of it, and takes up {config.rules} by itself; see docs/fleet.md"
        raise UsageError(why, hint=hint)


def fleets_ledger(config: Config) -> SqlLedger:
    """The ledger of a fleet, made where there is none yet."""
    return SqlLedger.open(ledger_url(config), clock_now=utc_now)


@asynccontextmanager
async def running_daemon(
    config: Config,
    source: FolderSource | None,
    *,
    reporter: Reporter,
    tell: Callable[[Record], None],
    address: "Address | None" = None,
    meter: "Meter | None" = None,
) -> AsyncIterator[Daemon]:
    """A daemon with everything it needs, ready to `run`; everything is closed at the end of the block. ``address``: an
    embedded sandbox that runs already; without it one is started where the config asks for it. ``meter``: counts
    requests and times commits. ``source``: of the rules; in a fleet they are those that were published.

    Raises `NotSafe` where the ledger is held, restored or cannot be written, and `UsageError` for missing credentials.
    """
    clock = clock_of(config)
    async with AsyncExitStack() as stack:
        address = address or await _embedded(stack, config, clock)
        secrets = _credentials(config, sandbox=address is not None)
        ledger, fleet = _held_ledger(stack, config, clock), None
        ledger.tells(tell)
        transports = transports_of(meter, reporter, clock)
        settings = _api_settings(config, address, transports)
        service, pacer, gate = await _client(stack, config, clock, secrets, settings)
        if isinstance(clock, ServersClock):
            fleet = Fleet(ledger.join(), gate, clock)
            pacer.struck = fleet.save_pace
        stored = ledger if meter is None else meter.timed(ledger, clock.monotonic)
        parts = Parts(
            clock=clock,
            service=service,
            ledger=stored,
            settings=engine_settings(config),
            scrubbed=service.scrubbed,
            fleet=fleet,
        )
        if fleet is None:
            pacer.go_on_waiting(ledger.status())
            pacer.struck = lambda _partner: daemon.say()  # a process that is killed has still said how long to wait

        def budgets(partner: PartnerId) -> Mapping[str, Json]:
            return {"requests_per_minute": pacer.last_minute(partner), "budget": round(pacer.pace(partner).budget)}

        def more() -> Mapping[str, Json]:
            return {SERVICE: service_of(config.api.base_url), **pacer.waits()}

        source = source or PublishedSource(config, ledger)
        daemon = Daemon(parts, source=source, reporter=reporter, pid=os.getpid(), budgets=budgets, waits=more)
        yield daemon


def _held_ledger(stack: AsyncExitStack, config: Config, clock: Clock) -> SqlLedger:
    """The ledger for a daemon, closed with the stack: a file for this process alone, a database for any number."""
    place = files_of(config.ledger, config.folder)
    lock = None if place is None else stack.enter_context(SenderLock.acquire(place, now=clock.now()))
    ledger = stack.enter_context(SqlLedger.open(ledger_url(config), clock_now=utc_now))
    _require_service(ledger, config)
    ledger.in_a_loop()
    if lock is None or place is None:
        folder = state_dir(config)
        stack.callback(os.close, _alone_in(folder))
        ledger.remember_in(folder, service_of(config.api.base_url))
    else:
        lock.note(place, in_force(config))
        ledger.sends_under(lock.identity)
    return ledger


def state_dir(config: Config) -> Path:
    """The replica's own folder."""
    return config.folder / (config.state_dir or ".")


def _alone_in(folder: Path) -> int:
    """A handle that holds a replica's own folder. Of two that wrote there, each would take away what shows the other
    that the ledger has forgotten something. Raises `NotSafe` where another has it, or it cannot be had."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        why = f"state_dir: {folder} cannot be made: {error.strerror}"
        raise NotSafe(why, hint="name a folder on this replica's own disk") from error
    if tried(handle, fcntl.LOCK_EX):
        return handle
    os.close(handle)
    raise NotSafe(f"state_dir: {folder} is in use by another worker", hint="give each worker a folder of its own")


async def probe_of(config: Config, only: str) -> Probed:
    """One probe of the config's service. It holds the ledger's lock while it reads, so that no daemon starts beside it
    and asks the same again within the floor. Raises `NotSafe` beside a running daemon, before anything is asked."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        place = files_of(config.ledger, config.folder)
        if place is None:
            _require_no_replica(ledger_url(config))
        else:
            stack.enter_context(SenderLock.acquire(place, now=clock.now()))
        secrets = _credentials(config, sandbox=config.embedded)
        address = await _embedded(stack, config, clock)
        service, _, _ = await _client(stack, config, clock, secrets, _api_settings(config, address))
        settle = duration_text(config.safety.settle)
        return await probed(service, clock, assumptions_of(config), settle=settle, only=only)


def _require_no_replica(url: str) -> None:
    with open_reading(url) as ledger:
        alive = [one for one in ledger.replicas() if one.alive]
    if alive:
        first = f"process {alive[0].pid} on {alive[0].host}"
        raise NotSafe(f"{named(url)} is in use by {counted(len(alive), 'replica')}: {first}", hint="stop them first")


@asynccontextmanager
async def rehearsing(
    config: Config, rules: RuleSet, *, event: str | None, partner: str | None, within: timedelta | None
) -> AsyncIterator[tuple[Rehearsal, ...]]:
    """A rehearsal of each partner that the daemon watches, by what that one saw: beside a running daemon, and for a
    minute after it. Else the service is read, for so long after its list is there; None: to the end.

    Raises `NotSafe` where the daemon would not start either, and `UsageError` for missing credentials.
    """
    clock, url = clock_of(config), ledger_url(config)
    settings, only = engine_settings(config), EventId(event) if event is not None else None
    place = files_of(url)

    def asked_about(partners: Iterable[str]) -> list[PartnerId]:
        names = [one for one in map(PartnerId, partners) if partner in (None, one)]
        return [one for one in names if settings.only_partners is None or one in settings.only_partners]

    with open_reading(url) as stored:
        beside = any(one.alive for one in stored.replicas()) if place is None else holder(place) is not None
        _require_service(stored, config)
        watched = cast("Mapping[str, Json]", said.body.get("partners") or {}) if (said := stored.status()) else {}
        seen = {one: last_poll(stored, one) for one in asked_about(watched or stored.known("partner"))}
    now = clock.now()
    remembered = beside or (bool(seen) and all(at is not None and now - at <= STILL_SO for at in seen.values()))
    async with AsyncExitStack() as stack:
        draft = stack.enter_context(draft_of(url, now=now, reach=sendings_reach(rules.rules)))
        secrets = _credentials(config, sandbox=config.embedded or remembered)
        address = (_nowhere() if config.embedded else None) if remembered else await _embedded(stack, config, clock)
        client, _, _ = await _client(stack, config, clock, secrets, _api_settings(config, address))
        rehearsals: list[Rehearsal] = []
        for one in seen if remembered else asked_about(await client.partners()):
            service = Remembered(only, client, clock, None if remembered else client, within)
            parts = Parts(clock=clock, service=service, ledger=draft, settings=settings, rules=RulesInUse(rules))
            seen_at = (seen[one] or now) if remembered else None
            rehearsals.append(Rehearsal(parts, one, service, seen_at=seen_at, beside=beside))
        yield tuple(rehearsals)


def _require_service(ledger: LedgerReader, config: Config) -> None:
    """Raises `NotSafe` where the ledger belongs to another service than the config's."""
    other = ledger.refused_for(service_of(config.api.base_url))
    if other is not None:
        raise other


async def _embedded(stack: AsyncExitStack, config: Config, clock: Clock) -> "Address | None":
    """The sandbox that the config asks for, for as long as the stack lasts."""
    return await stack.enter_async_context(embedded_sandbox(clock)) if config.embedded else None


def _nowhere() -> "Address":
    """Where the embedded sandbox of another process is: requests can be spelled, and nobody answers."""
    from worker.sandbox.app import Address  # noqa: PLC0415 - see `embedded_sandbox`

    return Address(port=0)


async def _client(
    stack: AsyncExitStack, config: Config, clock: Clock, secrets: Account, settings: ApiSettings
) -> tuple[ApiService, Pacer, Gate[ReadResponse]]:
    """The client with its gate and its pace, closed with the stack."""
    chance, interval_s = new_random().random, config.poll.interval.total_seconds()
    pacer = Pacer(per_minute=config.requests.per_minute, clock=clock, chance=chance, interval_s=interval_s)
    stack.push_async_callback(pacer.aclose)
    gate: Gate[ReadResponse] = Gate(pacer=pacer, clock=clock, floor_s=interval_s)
    stack.push_async_callback(gate.aclose)
    service = ApiService(settings=settings, account=secrets, gate=gate, pacing=pacer, clock=clock, chance=chance)
    stack.push_async_callback(service.aclose)
    return service, pacer, gate


def _credentials(config: Config, *, sandbox: bool) -> Account:
    if sandbox:
        return Account(username=SecretValue(SANDBOX_USER), password=SecretValue(SANDBOX_USER))
    return Account(
        username=resolve(config.credentials.username, os.environ),
        password=resolve(config.credentials.password, os.environ),
    )


def _api_settings(config: Config, address: "Address | None", transports: Transports | None = None) -> ApiSettings:
    if address is not None:
        hosts = Hosts(api=address.url("api"), cr=address.url("cr"), media=address.url("media"))
    else:
        hosts = Hosts(api=config.api.base_url, cr=config.api.cr_url, media=config.media_url)
    return ApiSettings(
        hosts=hosts,
        timeout=config.api.timeout,
        page_size=config.poll.page_size,
        partners=config.partners,
        operator_prefix=config.operator_prefix,
        assumptions=assumptions_of(config),
        facts=config.own_facts,
        transports=transports or Transports(),
    )


def transports_of(meter: "Meter | None", reporter: Reporter, clock: Clock) -> Transports:
    """The network, its requests counted; a service that asks for longer than it is left alone is told of."""
    if meter is None:
        return Transports()

    def counted(kind: str, partner: str, status: str, asked: str | None) -> None:
        wait = retry_after(asked, clock.now())
        meter.request(kind, partner, status, wait)
        if wait is not None and wait > LONGEST_RETRY_AFTER:
            reporter.alarm("retry_after_long", partner=partner, asked_s=round(wait.total_seconds()))

    return Transports(counted=counted)
