"""The whole worker against the whole twin, in one process, under virtual time.

Real core, real client, real ledger; the twin's books and manners judge at the end of every world. A test says what the
rules are, lets things happen at virtual seconds, and looks at what the books and the ledger then say.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache, wraps
from inspect import Parameter, Signature, isfunction, signature
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from tests.twin import BASE_URLS, TwinTransport
from tests.virtual import EPOCH, VirtualClock, VirtualLoop, run_virtually
from worker.api.assumptions import assumptions_from
from worker.api.client import ApiService, ApiSettings
from worker.api.exchanges import ReadResponse
from worker.api.requests import Account, Hosts
from worker.api.transport import Transports
from worker.engine.cycle import Cycle
from worker.engine.derived import told
from worker.engine.operators import Word, resolved
from worker.engine.ports import CycleReport, Ledger, Parts, RulesInUse
from worker.engine.state import PartnerState
from worker.engine.views import DecidingSettings as Deciding
from worker.engine.views import EngineSettings
from worker.guards import Limits
from worker.ledger.sql import SqlLedger
from worker.model.commits import HANDED_OVER, MESSAGE, Commit, LogFilter, Move, Record
from worker.model.errors import LedgerUnwritable
from worker.model.exchange import SecretValue
from worker.model.facts import CustomFact, PartnerId
from worker.model.rules import RuleSet
from worker.model.writes import Write
from worker.reading.gate import Gate, Pacer
from worker.rules.load import read_rules
from worker.rules.registry import with_custom
from worker.sandbox.changes import By, EventChange, PartnerChange
from worker.sandbox.faults import Fault, Kind, Match
from worker.sandbox.service import Twin
from worker.sandbox.settings import TwinSettings
from worker.sandbox.world import Happening, Tenant, TwinWorld

PARTNER = PartnerId("partner-id-one")
OTHER = PartnerId("partner-id-two")
CAMPAIGN = "/client_campaign_status$"
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

PAUSE = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled' || event.frontend_status == 'CANCELLED'
    do: [pause]
"""
RUN = """
rules:
  - id: run-flagged
    when: event.frontend_status == 'FLAGGED'
    do: [run]
"""
BOOST_DRAFTS = """
rules:
  - id: boost-drafts
    when: event.status == 'active' && setup.state == 'DRAFT'
    do: [boost]
"""
BOOST = """
rules:
  - id: boost-on-new-clusters
    on_change: suggested_tcs
    with: {budget: 500, goal: ROAS}
    when: event.status == 'active' && setup.state == 'DRAFT'
    do: [boost]
"""
QUICK = EngineSettings(
    deciding=Deciding(),
    limits=Limits(),
    interval=timedelta(seconds=3),
    timeout=timedelta(seconds=10),
    stop_within=timedelta(seconds=20),
    settle=timedelta(seconds=20),
    evidence_reads=3,
    evidence_within=timedelta(minutes=15),
    confirm_within=timedelta(minutes=2),
    max_attempts=3,
)


@dataclass
class Running:
    """One worker process's worth of parts; ends with a restart."""

    cycle: Cycle
    states: dict[PartnerId, PartnerState]
    ledger: SqlLedger
    service: ApiService
    gate: Gate[ReadResponse]
    pacer: Pacer
    defects: list[tuple[Mapping[str, Any], Exception]] = field(default_factory=list)


class Town:
    """A twin and a worker that watches it. ``at`` counts from the start of the test, in virtual seconds."""

    def __init__(self, loop: VirtualLoop, twin: Twin, folder: Path, rules: RuleSet, settings: EngineSettings) -> None:
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.twin = twin
        self.settings = settings
        self.rules = RulesInUse(rules)
        self.assumptions: Mapping[str, Any] = {}
        self.facts: Mapping[str, CustomFact] = {}
        self.reports: list[CycleReport] = []
        self.folder = folder
        self.partners = tuple(PartnerId(one) for one in twin.world.tenants)
        self._zero = loop.time()
        self.running: Running | None = None

    @property
    def at(self) -> float:
        return self.loop.time() - self._zero

    @property
    def worker(self) -> Running:
        assert self.running is not None, "the worker is not started"
        return self.running

    @property
    def ledger(self) -> SqlLedger:
        return self.worker.ledger

    def start(self, *partners: PartnerId, ledger: type[SqlLedger] = SqlLedger) -> None:
        """Starts a worker process, for all partners or for these: nothing but the ledger is carried over."""
        _lay_out(self.folder)
        opened = ledger.open(self.ledger_url, clock_now=self.clock.now)
        service, gate, pacer = self.client(self.twin)
        defects: list[tuple[Mapping[str, Any], Exception]] = []
        cycle = Cycle(self._parts(service, opened, defects))
        states = {partner: cycle.load(partner) for partner in partners or self.partners}
        self.running = Running(
            cycle=cycle, states=states, ledger=opened, service=service, gate=gate, pacer=pacer, defects=defects
        )

    def tell(self, heard: Callable[[Record], None]) -> None:
        """From now on each record that the worker stores is told, as the log of a daemon tells it."""
        self.worker.ledger.tells(heard)

    def _parts(self, service: ApiService, ledger: Ledger, defects: list[tuple[Mapping[str, Any], Exception]]) -> Parts:
        return Parts(
            clock=self.clock,
            service=service,
            ledger=ledger,
            settings=self.settings,
            rules=self.rules,
            defect=lambda of, error: defects.append((of, error)),
            stopping=lambda: False,
        )

    @property
    def ledger_url(self) -> str:
        return f"sqlite:///{self.folder / 'worker.db'}"

    def client(self, twin: Twin) -> tuple[ApiService, Gate[ReadResponse], Pacer]:
        """The client of a new process, with a gate and a pace of its own."""
        chance = Random(7).random
        pacer = Pacer(per_minute=self.settings.requests_per_minute, clock=self.clock, chance=chance)
        gate: Gate[ReadResponse] = Gate(pacer=pacer, clock=self.clock, floor_s=self.settings.interval.total_seconds())

        def transport() -> TwinTransport:
            return self.wire(twin)

        service = ApiService(
            settings=ApiSettings(
                hosts=Hosts(api=BASE_URLS["api"], cr=BASE_URLS["cr"], media=BASE_URLS["media"]),
                timeout=self.settings.timeout,
                page_size=self.settings.page_size,
                assumptions=assumptions_from(self.assumptions)[0],
                facts=self.facts,
                transports=Transports(reads=transport, writes=transport),
            ),
            account=Account(username=SecretValue("sandbox"), password=SecretValue("sandbox")),
            gate=gate,
            pacing=pacer,
            clock=self.clock,
            chance=chance,
        )
        return service, gate, pacer

    def wire(self, twin: Twin) -> TwinTransport:
        """What carries the client's requests to the twin."""
        return TwinTransport(twin, clock=self.loop.time, sleep=self.clock.sleep)

    async def kill(self) -> None:
        """Ends the worker process at once: what was in flight stays in flight at the twin, nothing is recorded."""
        worker = self.worker
        tasks = [task for state in worker.states.values() for task in state.running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await worker.gate.aclose()
        await worker.pacer.aclose()
        await worker.service.aclose()
        worker.ledger.close()
        self.running = None

    async def run(self, seconds: float) -> None:
        """Lets the worker do its cycles for so long."""
        ends = self.loop.time() + seconds
        while self.loop.time() < ends:
            began = self.loop.time()
            for state in self.worker.states.values():
                self.reports.append(await self.worker.cycle.run(state))
            rest = self.settings.interval.total_seconds() - (self.loop.time() - began)
            await self.clock.sleep(max(rest, 0.01))
        assert self.worker.defects == []

    async def until(self, true: Callable[[], bool], what: str, limit: float = 1200.0) -> None:
        """Runs until something is so."""
        ends = self.loop.time() + limit
        while not true():
            assert self.loop.time() < ends, f"within {limit} s never: {what}; {self.story()}"
            await self.run(self.settings.interval.total_seconds())

    async def restart(self, after: float = 0.0) -> None:
        """The worker process ends, and after so many seconds another one begins, with nothing but the ledger."""
        await self.kill()
        self.loop.jump(after)
        self.start()

    async def sees(self, *states: str, **fields: Any) -> None:
        """Watched for a while, e1 changes, and what the rules made of that comes to these states."""
        await self.run(6)
        self.set("e1", **fields)
        await self.until(lambda: self.states() == [*states], f"{states}")

    async def cancelled(self, *states: str) -> None:
        """e1 is cancelled, as above."""
        await self.sees(*states, status="cancelled")

    def event(self, eid: str = "e1", partner: PartnerId = PARTNER) -> Happening:
        """An event as the twin has it now."""
        found = self.twin.world.at(partner, eid)
        assert found is not None
        return found

    def change(self, event: str, partner: PartnerId = PARTNER, **parts: Any) -> None:
        """Something happens to parts of an event; ``set`` is for its fields."""
        self.twin.change(EventChange(event=event, partner=partner, **parts), self.loop.time())

    def set(self, event: str, partner: PartnerId = PARTNER, by: By = "world", **fields: Any) -> None:
        """Something happens to fields of an event, by the world or by a person."""
        self.change(event, partner, by=by, set=fields)

    async def becomes(self, event: str, seconds: float, by: By = "world", **fields: Any) -> None:
        """Something happens to fields of an event, and so many seconds go by."""
        self.set(event, by=by, **fields)
        await self.run(seconds)

    def become(self, partner: PartnerId = PARTNER, **fields: Any) -> None:
        """Something happens to the record of a partner."""
        self.twin.change(PartnerChange(partner=partner, set=fields), self.loop.time())

    def halt(self, **of: Any) -> None:
        """An operator stops sending; ``of``: of which rule or partner, until when, why."""
        self.ledger.append_halt(**{"because": "look first", "by": "ann", "at": self.clock.now(), **of})

    def resume(self, **of: Any) -> None:
        """An operator lets it go on."""
        self.ledger.resume_halts(**{"because": "go on", "by": "ann", "at": self.clock.now(), **of})

    def suggest(self, event: str, *runs: int, partner: PartnerId = PARTNER) -> None:
        """Other clusters are suggested for an event."""
        items = [{"tc": f"cluster {run}", "tc_run_id": str(run)} for run in runs]
        self.change(event, partner, suggested_tcs=items)

    def fault(self, kind: Kind, method: str | None = None, path: str | None = None, **more: Any) -> None:
        """Something goes wrong with the next requests that match."""
        times = more.pop("times", 1)
        skip = more.pop("skip", 0)
        match = Match(method=method, path=path)
        self.twin.faults.add(Fault(match=match, kind=kind, times=times, skip=skip, params=more))

    def writes(self) -> list[Write]:
        return self.ledger.writes()

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The records by which messages of rules were given."""
        return [one for one in self.log("confirmed") if one["action"] == MESSAGE]

    @property
    def texts(self) -> list[str]:
        """What rules have said."""
        return [one["why"].removeprefix(HANDED_OVER) for one in self.messages]

    def campaigns(self, event: str = "e1") -> list[Any]:
        """What the campaigns of an event were set to, one after the other."""
        return [one.after for one in self.effects("set_client_campaign_status") if one.eid == event]

    @property
    def only(self) -> Write:
        """The one write that there is."""
        found = self.writes()
        assert len(found) == 1, [(write.id, write.state) for write in found]
        return found[0]

    def decide(self, verdict: Callable[..., Move], *only: Write) -> None:
        """One word of an operator about all writes that wait for one, or about these."""
        now, chosen = self.clock.now(), only or [one for one in self.writes() if one.state == "waiting"]
        moves = tuple(verdict(one, because="looked", by="ann", now=now) for one in chosen)
        self.ledger.apply(Commit(at=now, moves=moves))

    def use(self, rules: str) -> None:
        """The rules are edited."""
        self.rules.current = rule_set(rules)

    def resolve(self, write: Write, *, applied: bool) -> None:
        """An operator has looked whether a write took effect, and says so."""
        word = Word(because="looked", by="ann", at=self.clock.now())
        said = resolved(write, word, applied=applied, settings=self.settings)
        self.ledger.apply(Commit(at=word.at, moves=(said,)))

    def log(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The records as people are told them: of changes with whose doing they were."""
        records: list[dict[str, Any]] = list(told(self.ledger, self.ledger.log(LogFilter())))
        return [record for record in records if kind is None or record["kind"] == kind]

    def effects(self, operation: str | None = None) -> list[Any]:
        return [one for one in self.twin.books.effects if operation is None or one.operation == operation]

    def states(self) -> list[str]:
        return [write.state for write in self.writes()]

    def story(self) -> str:
        """What happened, for a failing test."""
        lines = [f"{one['at'][11:]} {one['kind']} {one['reason']} {one['write']}: {one['why']}" for one in self.log()]
        return "\n".join(["", *lines[-60:], *(str(one.error) for one in self.reports[-3:] if one.error)])

    def judge(self) -> None:
        """What must hold at the end of every world."""
        assert [str(one) for one in self.twin.violations()] == []
        assert self.ledger.verify() is None


def happening(eid: str, **fields: Any) -> Happening:
    """An event of the twin: running campaigns, active, nothing set up."""
    record = {
        "id": eid,
        "title": f"Event {eid}",
        "start_date_time": "2026-06-01T19:00:00Z",
        "city": "Leipzig",
        "venue_name": "Werk 2",
        "hall_name": "Halle A",
        "capacity": 400,
        "category": "concert",
        "special_ad_category": None,
        "predicted_sales_share": 0.4,
        "status": "active",
        "frontend_status": "DEFAULT",
        "campaign_status": "RUNNING",
        "client_campaign_status": "RUNNING",
        "campaign_optimisation_status": "ON",
        "ad_campaign_optimisation_status": "ON",
        "campaign_event_series": [],
        "benchmark": {"prediction": {"value": 0.5, "benchmark": 0.4}},
        **fields,
    }
    return Happening(record=record)


def several(of: Callable[..., Happening], count: int, first: int = 1, **fields: Any) -> tuple[Happening, ...]:
    """So many events of the twin: e1, e2, …"""
    return tuple(of(f"e{number}", **fields) for number in range(first, first + count))


def draft(eid: str, total_budget: float = 500, goal: str = "ROAS", **fields: Any) -> Happening:
    """An event with a draft, and suggested clusters."""
    setup = {"goal": goal, "total_budget": total_budget}
    suggested = ({"tc": "cluster 1", "tc_run_id": "1"},)
    return replace(happening(eid, **fields), setup=setup, suggested_tcs=suggested)


def world(*events: Happening, partner: PartnerId = PARTNER, more: tuple[Tenant, ...] = ()) -> TwinWorld:
    """A world of one partner, or of more."""
    return TwinWorld((tenant(partner, *events), *more))


def tenant(partner: PartnerId, *events: Happening) -> Tenant:
    """One partner with these events."""
    record = {
        "id": f"client of {partner}",
        "name": str(partner),
        "domain": "example.org",
        "currency": "EUR",
        "vertical": "concerts",
        "demand_prediction": True,
        "campaign_recommendations": True,
        "status": "active",
        "pricing_tier": "standard",
        "campaign_pricing_model": "share",
        "ner_active": False,
    }
    return Tenant(partner_id=partner, record=record, events=events)


def rules_of(*given: str) -> str:
    """The text of a rule file with these rules, each in braces."""
    return "rules:\n" + "".join(f"  - {one}\n" for one in given)


@lru_cache(maxsize=256)
def rule_set(text: str) -> RuleSet:
    """The rules of a text; what many worlds share is read once."""
    return read_rules({"rules.yaml": text}).rules


@lru_cache(maxsize=1)
def _blank() -> Mapping[str, bytes]:
    """The files of a new ledger, as opening one makes them."""
    with TemporaryDirectory() as folder:
        SqlLedger.open(f"sqlite:///{folder}/worker.db", clock_now=lambda: EPOCH).close()
        return {file.name: file.read_bytes() for file in sorted(Path(folder).iterdir())}


def _lay_out(folder: Path) -> None:
    """A new ledger where there is none; making its tables anew for every world would take longer than most worlds."""
    if not (folder / "worker.db").exists() and not (folder / "worker.db.mark").exists():
        for name, content in _blank().items():
            (folder / name).write_bytes(content)


class Disk:
    """The ledger's disk, as these commits meet it: ``full``; or ``unsure``: so many of them are stored, and reported as
    failed all the same."""

    def __init__(
        self, here: Town, of: Callable[[Commit], bool] = lambda _: True, *, full: bool = False, unsure: int = 0
    ) -> None:
        self.full, self.unsure, self.failed, self._of = full, unsure, 0, of
        self._stored = here.ledger.apply
        here.ledger.apply = self.apply  # type: ignore[method-assign]

    def apply(self, commit: Commit) -> tuple[Write, ...]:
        concerned = self._of(commit)
        self.failed += concerned and (self.full or self.unsure > 0)
        if concerned and self.full:
            raise LedgerUnwritable("the disk is full")
        made = self._stored(commit)
        if concerned and self.unsure:
            self.unsure -= 1
            raise LedgerUnwritable("the sync failed")
        return made


def has_told(kind: str) -> Callable[[Commit], bool]:
    """Commits with a record of that kind."""
    return lambda commit: any(one.kind == kind for one in commit.records)


def takes_testimony(here: Town) -> None:
    """From now on what the ledger is told of what is another's is stored, as in a fleet."""

    def testify(records: Sequence[Record]) -> bool:
        here.ledger.apply(Commit(at=here.clock.now(), records=tuple(records)))
        return True

    here.ledger.testify = testify  # type: ignore[method-assign]


async def paused_and_not_logged(here: Town) -> None:
    """A read of the event confirms the pause of e1, and the lists that would log the change fail for a while."""
    await here.run(6)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["applied"], "sent", 30)
    here.fault("answer_before", "GET", "/events/$", times=2, status=500)
    await here.until(lambda: here.states() == ["confirmed"], "paused", 30)


Script = Callable[[Town], Awaitable[None]]


@contextmanager
def town(
    folder: Path,
    place: TwinWorld,
    rules: str = PAUSE,
    *,
    settings: EngineSettings = QUICK,
    twin: TwinSettings | None = None,
    facts: Mapping[str, str | CustomFact] | None = None,
    assumptions: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Iterator[tuple[Town, Callable[[Script], None]]]:
    """A town, and how to play a script in it; judged when the block ends. ``facts``: the config's own, or their GET."""
    loop = VirtualLoop()
    service = Twin(place, settings=twin or TwinSettings())
    given = (facts or {}).items()
    own = {name: one if isinstance(one, CustomFact) else CustomFact(name=name, get=one) for name, one in given}
    registry = with_custom(own)
    read = read_rules({"rules.yaml": rules}, registry).rules if facts else rule_set(rules)
    made = Town(loop, service, folder, read, replace(settings, shared=registry.shared, every=registry.every, **changes))
    made.facts, made.assumptions = own, assumptions or {}

    def play(script: Script) -> None:
        async def whole() -> None:
            if made.running is None:
                made.start()
            await script(made)

        run_virtually(loop, whole())

    try:
        yield made, play
        made.judge()
    finally:
        if made.running is not None:
            made.running.ledger.close()
        loop.close()


def plays(script: Script, folder: Path, place: TwinWorld, rules: str = PAUSE, **more: Any) -> None:
    """Plays a script in a town of its own; ``more``: what else a town is told."""
    with town(folder, place, rules, **more) as (_, play):
        play(script)


def _needed(function: Callable[..., Any]) -> list[str]:
    return [one.name for one in signature(function).parameters.values() if one.default is one.empty]


def in_town(
    place: TwinWorld | Callable[..., TwinWorld],
    rules: str | Callable[..., str] = PAUSE,
    watched: float = 0,
    **more: Any,
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Makes a script a test: it is played in a town of its own, and is given that and what else it names. What is a
    function is made of the test's parameters; ``watched``: for so many seconds before the script begins."""
    told = {"place": place, "rules": rules, **more}
    made_of = {name: _needed(one) for name, one in told.items() if isfunction(one)}

    def made(script: Callable[..., Any]) -> Callable[..., None]:
        _, *named = signature(script).parameters.values()
        folder = Parameter("tmp_path", Parameter.KEYWORD_ONLY)

        @wraps(script)
        def test(**given: Any) -> None:
            of_script = {one.name: given[one.name] for one in named}
            of_town: dict[str, Any] = {
                name: one(*(given[of] for of in made_of[name])) if name in made_of else one
                for name, one in told.items()
            }
            of_town["place"] = deepcopy(of_town["place"])

            async def whole(here: Town) -> None:
                await here.run(watched)
                await script(here, **of_script)

            plays(whole, given["tmp_path"], **of_town)

        columns = (Parameter(of, folder.kind) for names in made_of.values() for of in names)
        asked = {one.name: one for one in (folder, *columns, *(one.replace(kind=folder.kind) for one in named))}
        test.__signature__ = Signature([*asked.values()])  # type: ignore[attr-defined] # what pytest is to give it
        return test

    return made


__all__ = ["EPOCH", "OTHER", "PARTNER"]
