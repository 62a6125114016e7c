"""Builds the parts and hands them in: the only place that knows which client, which ledger and which clock.

Everything else of the worker is given what it needs. What a config means for the engine is decided here as well, so
that `run`, `resolve` and `check` cannot read it differently.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from worker.api.addresses import hosts_from
from worker.api.assumptions import Assumptions, assumptions_from
from worker.api.auth import Credentials
from worker.api.client import ApiService, ApiSettings
from worker.api.counting import counting
from worker.api.probe import Probed, probed
from worker.api.readings import CustomFact
from worker.api.replies import Reply
from worker.api.secret import Secret
from worker.api.transport import Transports
from worker.cli.messages import LogNotifier
from worker.cli.opening import ledger_url
from worker.cli.rulesource import FolderSource
from worker.config import Config, resolve
from worker.engine.daemon import Daemon, Reporter
from worker.engine.looks import Settings
from worker.engine.parts import Parts
from worker.engine.settings import EngineSettings
from worker.engine.told import Tell, ToldLedger
from worker.guards.situation import Limits
from worker.ledger.lock import SenderLock
from worker.ledger.mark import lost
from worker.ledger.places import place_of
from worker.ledger.sql import SqlLedger
from worker.model.actions import ACTIONS
from worker.model.errors import NotFound
from worker.model.facts import Json
from worker.model.ids import PartnerId
from worker.model.rules import Surge
from worker.reading.gate import Gate
from worker.reading.pacer import Pacer
from worker.rules.durations import duration_text
from worker.sandbox.server import Address, Time, serving
from worker.sandbox.service import Service
from worker.sandbox.start import built
from worker.system import SystemClock, new_random, utc_now

if TYPE_CHECKING:
    from worker.web.metrics import Meter  # every command comes through here, and only `run` measures

SANDBOX_USER = "sandbox"
"""Who the embedded twin lets in; no secret."""
FIRST_EVENT_IN = timedelta(days=30)
"""When the embedded sandbox's first event takes place, from today."""


def operators_ledger(config: Config) -> SqlLedger:
    """The ledger for an operator's short transaction; never a new one, which no daemon would look at."""
    place = place_of(config.ledger, config.folder)
    if not place.file.exists():
        if place.mark.exists():
            raise lost(place)
        raise NotFound(
            f"there is no ledger {place.file}; nothing was changed",
            hint="name the daemon's config with --config; a ledger is made by `campaign-worker run`",
        )
    return writer_of(config)


def writer_of(config: Config) -> SqlLedger:
    """The ledger for writing; made where there is none."""
    return SqlLedger.open(ledger_url(config), clock_now=utc_now)


def assumptions_of(config: Config) -> Assumptions:
    """The register with the operator's values; `load_config` has checked them."""
    return assumptions_from(config.assumptions)[0]


def engine_settings(config: Config) -> EngineSettings:
    """What the config means for the engine."""
    safety = config.safety
    assumptions = assumptions_of(config)
    vouched = assumptions.vouched | config.vouched
    unvouched: Mapping[str, tuple[str, ...]] = {}
    if not config.local:
        leaning = {name: tuple(key for key in row.assumptions if key not in vouched) for name, row in ACTIONS.items()}
        unvouched = {name: keys for name, keys in leaning.items() if keys}
    return EngineSettings(
        deciding=Settings(
            mode=config.mode,
            gap=safety.gap.longer_than,
            gap_then=safety.gap.then,
            surge=Surge(events=safety.surge.events, within=safety.surge.within),
        ),
        limits=Limits(
            writes_per_hour=safety.writes_per_hour,
            spend_per_event=safety.spend.per_event,
            spend_per_day=safety.spend.per_day,
            held_longer_than=safety.gap.longer_than,
        ),
        interval=config.poll.interval,
        timeout=config.api.timeout,
        stop_within=config.stop_within,
        settle=safety.settle,
        evidence_reads=safety.evidence_reads,
        evidence_within=safety.evidence_within,
        confirm_within=safety.confirm_within,
        max_attempts=safety.max_attempts,
        ask=safety.on_unknown == "ask",
        ask_spending=not config.local and "safety.settle" not in vouched,
        toggles=frozenset(name for name, row in ACTIONS.items() if row.semantics and assumptions.flips(row.semantics)),
        unvouched=unvouched,
        requests_per_minute=config.requests.per_minute,
        page_size=config.poll.page_size,
        only_partners=frozenset(config.partners) if config.partners is not None else None,
        shared=config.registry.shared,
        observations_kept=config.observations.keep,
    )


def vouched_lines(config: Config) -> tuple[str, ...]:
    """The assumptions that the operator vouches for, for `check` to print."""
    return tuple(f"vouched for: {key}" for key in sorted(config.vouched))


def unvouched_lines(config: Config) -> tuple[str, ...]:
    """What must be confirmed before writes go off; nothing against the sandbox and loopback."""
    settings = engine_settings(config)
    keys = sorted({key for missing in settings.unvouched.values() for key in missing})
    lines = [f"not vouched for, so writes that lean on it are held: {key}" for key in keys]
    if settings.ask_spending:
        lines.append("not vouched for, so unknown writes that spend go to a person at once: safety.settle")
    return tuple(lines)


@asynccontextmanager
async def running_daemon(
    config: Config,
    *,
    reporter: Reporter,
    tell: Tell,
    pid: int,
    address: Address | None = None,
    meter: "Meter | None" = None,
) -> AsyncIterator[Daemon]:
    """A daemon with everything it needs, ready to `run`; everything is closed at the end of the block. ``address``: an
    embedded twin that runs already; without it one is started where the config asks for it. ``meter``: counts requests
    and times commits.

    Raises `NotSafe` where the ledger is held, restored or cannot be written, and `UsageError` for missing credentials.
    """
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        if address is None and config.embedded:
            twin = built(None, None, clock.now() + FIRST_EVENT_IN)
            address = await stack.enter_async_context(twin_served(twin, clock))
        secrets = _credentials(config, embedded=address is not None)
        place = place_of(config.ledger, config.folder)
        stack.enter_context(SenderLock.acquire(place, now=clock.now()))
        ledger = stack.enter_context(writer_of(config))
        service, pacer = await _client(stack, config, clock, _api_settings(config, address, meter), secrets)
        stored = ledger if meter is None else meter.timed(ledger, clock.monotonic)
        parts = Parts(
            clock=clock,
            service=service,
            ledger=ToldLedger(stored, tell),
            settings=engine_settings(config),
            scrubbed=service.scrubbed,
            notifier=LogNotifier(),
        )
        source = FolderSource(config.rules, config.registry)

        def budgets(partner: PartnerId) -> Mapping[str, Json]:
            return {
                "requests_per_minute": pacer.last_minute(partner),
                "budget": round(pacer.budget(partner)),
            }

        yield Daemon(parts, source=source, reporter=reporter, pid=pid, budgets=budgets)


async def probe_of(config: Config, only: str) -> Probed:
    """One probe of the config's service. It holds the ledger's lock while it reads, so that no daemon starts beside it
    and asks the same again within the floor. Raises `NotSafe` beside a running daemon, before anything is asked."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        stack.enter_context(SenderLock.acquire(place_of(config.ledger, config.folder), now=clock.now()))
        secrets = _credentials(config, embedded=config.embedded)
        address = None
        if config.embedded:
            twin = built(None, None, clock.now() + FIRST_EVENT_IN)
            address = await stack.enter_async_context(twin_served(twin, clock))
        service, _ = await _client(stack, config, clock, _api_settings(config, address, None), secrets)
        settle = duration_text(config.safety.settle)
        return await probed(service, clock, assumptions_of(config), settle=settle, only=only)


async def _client(
    stack: AsyncExitStack, config: Config, clock: SystemClock, settings: ApiSettings, secrets: Credentials
) -> tuple[ApiService, Pacer]:
    """The client with its gate and its pace, closed with the stack."""
    random = new_random()
    pacer = Pacer(per_minute=config.requests.per_minute, clock=clock, chance=random.random)
    stack.push_async_callback(pacer.aclose)
    gate: Gate[Reply] = Gate(pacer=pacer, clock=clock, floor_s=config.poll.interval.total_seconds())
    stack.push_async_callback(gate.aclose)
    service = ApiService(
        settings=settings,
        credentials=secrets,
        gate=gate,
        pacing=pacer,
        clock=clock,
        chance=random.random,
    )
    stack.push_async_callback(service.aclose)
    return service, pacer


def twin_served(twin: Service, clock: SystemClock) -> AbstractAsyncContextManager[Address]:
    """The twin on a free loopback port while the block lasts."""
    return serving(twin, time=Time(clock=clock.monotonic, sleep=clock.sleep))


def _credentials(config: Config, *, embedded: bool) -> Credentials:
    if embedded:
        return Credentials(username=Secret(SANDBOX_USER), password=Secret(SANDBOX_USER))
    username, password = (resolve(secret, os.environ) for secret in (config.username, config.password))
    return Credentials(username=Secret(username.reveal()), password=Secret(password.reveal()))


def _api_settings(config: Config, address: Address | None, meter: "Meter | None") -> ApiSettings:
    if address is not None:
        hosts = hosts_from(address.base_url, address.cr_url, address.media_url)
    else:
        hosts = hosts_from(config.api.base_url, config.api.cr_url, config.api.media_url)
    return ApiSettings(
        hosts=hosts,
        timeout=config.api.timeout,
        page_size=config.poll.page_size,
        partners=config.partners,
        operator_prefix=config.operator_prefix,
        assumptions=assumptions_of(config),
        facts={name: CustomFact(name=name, get=fact.get, value=fact.value) for name, fact in config.facts.items()},
        transports=Transports() if meter is None else counting(meter.request),
    )
