"""A fleet in a simulated world: two to five replicas of the real worker, each on a host of its own, on one server.

The town is the same, with its people, its wire and its troubles; what is new is who shares the partners out, and what
befalls a link, a host or the server. The judge gets one history for each partner, as if it were alone.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, cast

from tests.simulation import history
from tests.simulation.case import LAST_BYTE_S
from tests.simulation.people import WHO
from tests.simulation.points import Points
from tests.simulation.process import Folder, Process, SimClock
from tests.simulation.scenes import Scene
from tests.simulation.server import URL, Server, listening
from tests.simulation.sharing import UNSTORED
from tests.simulation.town import NOTICED_S, WHOLE_LOOKS, Town, assumed, happenings, service_of
from tests.twin import BASE_URLS
from tests.worlds import happening, rule_set, tenant
from worker.api.exchanges import ReadResponse
from worker.cli.wiring import PublishedSource
from worker.engine.ports import Fleet, ServersClock
from worker.ledger.sql import SqlLedger
from worker.model.errors import WorkerError
from worker.model.facts import PartnerId
from worker.model.rules import RuleSet
from worker.reading.gate import Gate, Pacer
from worker.sandbox.service import Twin
from worker.sandbox.world import TwinWorld

PARTNERS = tuple(PartnerId(f"partner-id-{name}") for name in ("north", "east", "south", "west", "mid"))
EVEN_S = 64.0
"""So long after a change the partners are shared out evenly."""
NAMED_AGAIN_S = 70.0
"""So long after the service named no partner somebody can hear of it first."""
LINKS = ("cut from the service", "cut from the ledger", "silent ledger")


class Published(PublishedSource):
    """The rules that were published, read without a child."""

    def __init__(self, ledger: SqlLedger) -> None:
        self._ledger, self._generation = ledger, 0

    async def _read(self, texts: Mapping[str, str], unreadable: Any = ()) -> RuleSet:  # noqa: ANN401, ARG002 - as its base has it
        return rule_set(texts.get("rules.yaml", "rules: []\n"))


@dataclass(slots=True)
class Replica(Process):
    """One process of a fleet. ``host``: on which machine; ``state``: its folder there."""

    host: int = 0
    state: Path = field(default_factory=Path)

    @contextmanager
    def _held(self) -> Iterator[SqlLedger]:
        with SqlLedger.open(URL, clock_now=self.clock.now) as ledger:
            moment = self.clock.monotonic()
            self._servers.heard(cast("Server", self.disk).now(), moment, moment)
            yield ledger

    @property
    def _servers(self) -> ServersClock:
        assert isinstance(self.clock, ServersClock)
        return self.clock

    def _sends_under(self, ledger: SqlLedger) -> None:
        ledger.remember_in(self.state)

    def _fleet(self, ledger: SqlLedger, pacer: Pacer, gate: Gate[ReadResponse]) -> Fleet:
        fleet = Fleet(ledger.join(), gate, self._servers)
        pacer.struck = fleet.save_pace
        return fleet

    def _source(self, ledger: SqlLedger) -> Folder:
        return Published(ledger)


class FleetTown(Town):
    """The world around a fleet."""

    disk: Server

    def __init__(self, scene: Scene, seed: int, points: Points, folder: Path) -> None:
        self.partners = PARTNERS[: scene.partners]
        chance = Random(f"hosts {seed}")
        self.skews = [timedelta(seconds=chance.choice([0.0, 0.0, 3.0, -600.0, 7200.0])) for _ in range(scene.replicas)]
        self.away: dict[int, float] = {}
        self.troubles: list[history.Trouble] = []
        self.dropped: list[tuple[str, float]] = []
        self.harmed_s: list[float] = []
        self.denied: list[tuple[float, float]] = []
        self.over_s = 0.0
        super().__init__(scene, seed, points, folder)
        self.settings = replace(self.settings, late_s=LAST_BYTE_S)

    def _service(self) -> Twin:
        of: defaultdict[PartnerId, list[Any]] = defaultdict(list)
        for one in happenings(self.scene):
            of[self.partner_of(one.eid)].append(one)
        for number, partner in enumerate(self.partners, start=1):
            if not of[partner]:
                of[partner].append(happening(f"e{10 * len(self.partners) + number}"))
        return service_of(self.scene, TwinWorld(tenant(one, *of[one]) for one in self.partners))

    def wall(self) -> datetime:
        """The server's, by which all go, whatever becomes of the clocks of their hosts."""
        return self.disk.now()

    def _disk(self, folder: Path, chance: Random) -> Server:
        server = Server(folder, self._crossed, self.kill, chance, self.loop)
        server.meanwhile = lambda what: self.later(1.0, lambda: self._meanwhile(what))
        return server

    def _meanwhile(self, what: str) -> None:
        """What people do while a transaction stands."""
        if what == "halt":
            self.people.halt(8.0)
        else:
            self._edit(what, self.scene.laws[0].id)

    def _crossed(self, what: str, owner: str) -> Any:  # noqa: ANN401 - a harm or none
        harm = self._cross(what, owner)
        if harm is not None:
            self.harmed_s.append(self.loop.now)
            self._befell(harm.name, owner, harm.seconds)
        return harm

    @contextmanager
    def mounted(self) -> Iterator[None]:
        with super().mounted(), listening(self.disk):
            yield

    # Processes

    def _process(self, name: str, booted_s: float) -> Process:
        hosts = {one.host for one in self.running if isinstance(one, Replica)}
        host = next(one for one in range(len(self.skews)) if one not in hosts)
        state = Path(self._folder) / f"host-{host}"
        self.disk.states[name] = state

        def wall() -> datetime:
            return super(FleetTown, self).wall() + self.skews[host]

        return Replica(
            name=name,
            around=self,
            disk=self.disk,
            clock=ServersClock(SimClock(self.loop, wall, booted_s)),
            settings=self.settings,
            folder=self.rules,
            assumed=assumed(tuple(self.scene.assumed.items())),
            service=BASE_URLS["api"],
            tell=self.tell,
            seed=self._seed,
            defects=self.defects,
            began_s=self.loop.now,
            host=host,
            state=state,
        )

    def start_if_none(self) -> None:
        """Every host has its process; a killed one is away for a while."""
        if self.over:
            return
        while len(self.running) < len(self.skews):
            self.start()

    def kill(self, owner: str, *, power: bool = False, down_s: float | None = None) -> None:  # noqa: ARG002 - no disk here is lost
        if self.loop.alive(owner):
            self._befell("killed", owner, 0.0)
        super().kill(owner, down_s=self.scene.down_s if down_s is None else down_s)
        self._back_s = 0.0
        self.disk.cut.discard(owner)

    # The story

    async def play(self) -> None:
        self._publish()
        self.start_if_none()
        await super().play()

    def start(self) -> None:
        if len(self.running) < len(self.skews):
            super().start()

    def _befell(self, kind: str, owner: str, seconds: float) -> None:
        self.troubles.append(
            history.Trouble(kind=kind, owner=owner, at_s=self.loop.now, until_s=self.loop.now + seconds)
        )

    def _to_processes(self, does: str, details: Mapping[str, Any]) -> None:
        running = self.running
        if not running:
            return
        one, seconds = self._victim(running, details), details.get("seconds", 0.0)
        self.tell(f"{does} befalls {one.name}")
        match does:
            case "stall":
                self._befell(does, one.name, seconds)
                self.loop.stall(one.name, seconds)
            case "stop":
                if one.daemon is not None:
                    self._befell(does, one.name, 0.0)
                    one.daemon.stop()
            case "clock":
                self.skews[one.host if isinstance(one, Replica) else 0] += timedelta(seconds=seconds)
            case _:
                self.kill(one.name)

    def _to_service(self, does: str, details: Mapping[str, Any]) -> None:
        if does in LINKS:
            self._cut(does, details)
        elif does == "server down":
            self._befell(does, "", details["seconds"])
            self.disk.down, self.disk.turn = True, self.disk.turn + 1
            self.later(details["seconds"], self._up)
        else:
            super()._to_service(does, details)

    def _victim(self, running: list[Process], details: Mapping[str, Any]) -> Process:
        """Whom a turn befalls: one by number, or whoever has the first partner."""
        owner = next((one.owner for one in reversed(self.disk.owned) if one.partner == self.partners[0]), "")
        number = next((at for at, one in enumerate(running) if one.name == owner), 0)
        return running[int(details.get("of", number)) % len(running)]

    def _cut(self, does: str, details: Mapping[str, Any]) -> None:
        running = self.running
        if not running:
            return
        owner = self._victim(running, details).name
        links = {"cut from the service": self.cut_off, "cut from the ledger": self.disk.cut}.get(does, self.disk.silent)
        self.tell(f"{does}: {owner}")
        self._befell(does, owner, details["seconds"])
        links.add(owner)
        self.later(details["seconds"], lambda: links.discard(owner))

    def _up(self) -> None:
        self.disk.down = False

    def _deny(self, seconds: float) -> None:
        super()._deny(seconds)
        self.denied.append((self.loop.now, self.loop.now + seconds + NAMED_AGAIN_S))

    def _ledger_lost(self, _does: str) -> None:
        """The server is put back to what it was, beneath those who run; somebody accepts that in the end."""
        self.logs.append(self.disk.rows())
        self.stamps.append(self.disk.stamps)
        self.lost.append(self.loop.now)
        self.life += 1
        self.disk.put_back(*self.chance.choice(self._backups[-4:]))
        kept = self.disk.last()
        self.disk.stamps = [(seq, at_s) for seq, at_s in self.disk.stamps if seq <= kept]
        self._befell("restored", "", NOTICED_S)
        self._all_back_s = max(self._all_back_s, self.loop.now + NOTICED_S)
        self.later(NOTICED_S, self.people.accept_restore)

    def _note_if_blank(self) -> None:
        """Each host knows the ledger on its own disk."""

    def _edit(self, does: str, rule: str) -> None:
        before = {law.id for law in (*self.scene.laws, *self.renamed)} - {rule for rule, _ in self.dropped}
        super()._edit(does, rule)
        self._publish(before)

    def _publish(self, before: set[str] = frozenset()) -> None:  # type: ignore[assignment]  # never changed
        """Somebody puts the rules into force; tried again where the ledger cannot be reached."""
        now = self.wall()
        try:
            with SqlLedger.open(URL, clock_now=self.wall) as ledger:
                ledger.publish({"rules.yaml": self.rules.text}, why="as they are", by=WHO, at=now)
        except WorkerError as problem:
            self.tell(f"nothing was published: {problem}")
            self.later(2.0, lambda: self._publish(before))
            return
        there = {str(rule.id) for rule in rule_set(self.rules.text).rules}
        self.dropped = [one for one in self.dropped if one[0] not in there]
        self.dropped += [(rule, self.loop.now) for rule in before - there]

    async def _heal(self) -> None:
        self._up()
        for links in (self.cut_off, self.disk.cut, self.disk.silent):
            links.clear()
        self.start_if_none()
        await super()._heal()

    def _looked(self) -> bool:
        since_s, self.over_s = max(self.healed_s, self._all_back_s), self.loop.now
        changed_s = max([self.healed_s, *(one.began_s for one in self.processes.values())])
        if self.scene.partners > 1 and self.loop.now < changed_s + EVEN_S and not self.scene.kill_steps:
            return False
        looks = [one.partner for one in self.reads if one.path == "/events/" and one.whole and one.at_s > since_s]
        return all(looks.count(partner) >= WHOLE_LOOKS for partner in self.partners)

    def _apart(self, whole: history.History) -> tuple[history.History, ...]:
        """What concerns each partner, as if it were the only one."""
        events = {one.eid: str(self.partner_of(one.eid)) for _, _, one in self.versions if one is not None}
        sharing = history.Sharing(
            partner="",
            partners=self.partners,
            events=events,
            owned=self.disk.owned,
            names=self.disk.names,
            troubles=self.troubles,
            harmed_s=self.harmed_s,
            dropped=self.dropped,
            unheard=self.disk.unheard,
            over_s=self.over_s,
            per_minute=self.settings.requests_per_minute,
            denied=self.denied,
            unsigned=self.unsigned,
        )
        return tuple(self._of(whole, replace(sharing, partner=str(one))) for one in self.partners)

    def _of(self, whole: history.History, sharing: history.Sharing) -> history.History:
        partner, mine = (
            sharing.partner,
            {"", "*"} | {one for one, of in sharing.events.items() if of == sharing.partner},
        )
        logs = [[row for row in rows if row["partner"] in (None, partner)] for rows in whole.logs]
        numbers = {row["write"] for rows in logs for row in rows}
        seen = [one for one in self.twin.books.requests if one.partner == partner]
        return replace(
            whole,
            unstored=whole.unstored or any(one.kind in UNSTORED for one in self.troubles),
            slowed=True,
            harmed=True,
            clock_moved=False,
            logs=logs,
            writes=[one for one in whole.writes if one[0] in numbers],
            effects=[one for one in whole.effects if one.event in mine],
            others=[one for one in whole.others if one.event in mine],
            wire=[one for one in whole.wire if one.partner == partner],
            reads=[one for one in whole.reads if one.partner == partner],
            throttled=[one.at_s for one in seen if one.status == 429],
            versions=[one for one in whole.versions if one.event in mine],
            violations=[
                (one.kind, one.at_s, f"{one.method} {one.path}: {one.detail}")
                for one in self.twin.violations()
                if one.partner == partner
            ],
            sharing=replace(sharing, asked=[one.at_s for one in seen]),
        )
