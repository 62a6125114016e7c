"""One simulated world: the twin, one or two workers on one ledger, the people around them, and everything that happens.

`play` runs a scene under a seed to its healed end and hands the judge a `History`. Whatever is drawn follows from the
seed alone; the trace says what happened, step by step, and is the same to the byte for the same seed.
"""

import asyncio
import atexit
import hashlib
import math
import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from tests.simulation import history
from tests.simulation.disk import Disk, anothers, mounted
from tests.simulation.kernel import Timers
from tests.simulation.loop import OWNER, START_S, SimLoop
from tests.simulation.people import People
from tests.simulation.points import DENIED_S, FULL_S, SETTLE_S, Harm, Points
from tests.simulation.process import Process, SimClock, SimScheduler
from tests.simulation.scenes import OWN_MIND, Law, Scene, Turn, spelled
from tests.simulation.wire import Cache
from tests.twin import BASE_URLS
from tests.virtual import EPOCH
from tests.worlds import PARTNER, QUICK, happening, rule_set, world
from worker.api.assumptions import Assumptions, assumptions_from
from worker.engine import daemon
from worker.engine.views import EngineSettings
from worker.guards import Limits
from worker.model.facts import PartnerId
from worker.model.rules import RuleSet, SpendLimits, Surge
from worker.sandbox.changes import EventChange, ResetChange, SettingsChange, SignOutChange
from worker.sandbox.service import Twin
from worker.sandbox.settings import TwinRequest, TwinSettings, User
from worker.sandbox.world import Happening, TwinWorld

USUAL: EngineSettings = replace(
    QUICK,
    settle=timedelta(seconds=SETTLE_S),
    evidence_within=timedelta(minutes=2),
    confirm_within=timedelta(minutes=1),
    requests_per_minute=1500,
)
HEAL_S = 1500.0
"""The longest that a healed world is given."""
TOKEN_S = 60.0
"""Short, so that renewing it happens."""
LOOK_S = 3.0
STEP_S = 1.0
"""How often it is asked whether a story is over before its time, because all that was to go wrong in it has."""
_THIS_PROCESS = f"process {os.getpid()}"
WHOLE_LOOKS = 3
MOMENT_S = 0.001
"""What happens in the moment of a request happens before it."""
NOTICED_S = 12.0
"""So long it takes until somebody sees that a worker sends no more, because its files are not what they were."""
LATER_S = 7200.0
"""How far the end of time lies behind the end of a world."""
ELSEWHERE = "http://elsewhere.invalid/api/v3"
RESTORES = ("restore", "restore beneath", "exchange beneath")
UNHELD = {"lose lock beneath", "exchange beneath"}
"""What a process holds is in neither file any more that another one would look at."""
SHM = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it


@dataclass(slots=True)
class Rules:
    """The rule folder; may be edited while workers run."""

    text: str

    def files_hash(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    async def load(self) -> RuleSet:
        return rule_set(self.text)


@dataclass(slots=True)
class Played:
    """What a world left behind."""

    histories: tuple[history.History, ...]
    trace: list[str]
    points: Points
    steps: int
    virtual_s: float
    broke: list[str]

    @property
    def history(self) -> history.History:
        """The first partner's."""
        return self.histories[0]

    @property
    def told(self) -> str:
        return "\n".join(self.trace) + "\n"


class Town:
    """The world around the workers."""

    partners: tuple[PartnerId, ...] = (PARTNER,)

    def __init__(self, scene: Scene, seed: int, points: Points, folder: Path) -> None:
        self.scene = scene
        self.chance = Random(f"town {seed}")
        self.loop = SimLoop(Random(f"loop {seed}"))  # type: ignore[abstract]  # what nobody asks for stays so
        if scene.kill_steps:
            self.loop.between = self._between
        self.timers = Timers(self.loop)
        self.loop.waking = self._waking
        self.points = points
        self.points.rates, self.points.chance, self.points.tell = scene.rates, Random(f"points {seed}"), self.tell
        self.points.moment = lambda: self.loop.now - START_S
        self.versions: list[tuple[float, str, Happening | None]] = []
        self.twin = self._recorded(self._service())
        self.disk = self._disk(folder, Random(f"disk {seed}"))
        self.disk.moment = self.loop.time
        if OWN_MIND & scene.twin.keys():  # what is there may be what is wanted, and nobody can tell
            self.disk.lasting += ("target_unreadable",)
        self.rules = Rules(scene.rules)
        self.renamed: tuple[Law, ...] = ()
        self.settings = _settings(scene)
        self.people = People(self)
        self._noted()
        self._wall = (START_S, self.skew), EPOCH
        self.processes: dict[str, Process] = {}
        self._restored_from = any(turn.does in RESTORES for turn in scene.turns)
        self._backups: list[tuple[bytes, bytes]] = [self.disk.content()]
        self._dying: list[str] = []
        self._kill_steps = list(scene.kill_steps)
        self._back_s = 0.0
        self._all_back_s = 0.0
        self._seed = seed
        self._folder = str(folder)

    def _noted(self) -> None:
        """What is noted for the judge, and how the world is, before anything has happened."""
        self.campaigns = {one.eid: len(one.campaigns) for one in self._events()}
        self.trace: list[str] = []
        self.tapped: list[history.Wire] = []
        self.reads: list[history.Read] = []
        self.throttled: list[float] = []
        self.unsigned: list[float] = []
        self.cache: Cache | None = None
        self.moved_s: float | None = None
        self.cut_off: set[str] = set()
        self.life = 0
        self.logs: list[list[dict[str, Any]]] = []
        self.stamps: list[list[tuple[int, float]]] = []
        self.lost: list[float] = []
        self.unheld: list[tuple[float, float]] = []
        self.unlocked_s = math.inf
        self._taken_beneath: dict[str, float] = {}
        self.lives: dict[str, history.Life] = {}
        self.halts: list[tuple[float, float]] = []
        self.told_to_stop: dict[str, float] = {}
        self.cramped: list[tuple[float, float]] = []
        self.rule_halts: list[tuple[str, float, float]] = []
        self.defects: list[str] = []
        self.edited: set[str] = set()
        self.blank: set[int] = set()
        self.skew = timedelta(0)
        self.elsewhere = False
        self.healed_s = 0.0
        self.over = False
        self.buried = False

    def partner_of(self, event: str) -> PartnerId:
        """Whose event it is: they have the events by turns."""
        return self.partners[(int("".join(takewhile(str.isdigit, event[1:]))) - 1) % len(self.partners)]

    def _events(self) -> list[Happening]:
        return [one for partner in self.partners for one in self.twin.world.listing(partner)]

    def _service(self) -> Twin:
        return service_of(self.scene, world(*happenings(self.scene)))

    def _disk(self, folder: Path, chance: Random) -> Disk:
        return Disk(folder, self._cross, self.kill, chance)

    def _recorded(self, twin: Twin) -> Twin:
        """The twin, with every version of its events kept: it forgets them after an hour itself."""
        put = twin.world.put

        def kept(partner: str, event: str, at: Happening | None, at_s: float) -> None:
            self.versions.append((at_s, event, at))
            put(partner, event, at, at_s)

        listed = [one for partner in self.partners for one in twin.world.listing(partner)]
        self.versions.extend((0.0, one.eid, one) for one in listed)
        twin.world.put = kept  # type: ignore[method-assign,assignment]  # noted
        return twin

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """While the block lasts, the ledger's code finds its files here."""
        with mounted(self.disk):
            yield

    # Told

    def tell(self, text: str) -> None:
        if not self.buried:
            said = text.replace(self._folder, "FOLDER").replace(_THIS_PROCESS, "process PID")
            self.trace.append(f"{self.loop.now - START_S:9.3f} {said}")

    def latency(self) -> float:
        """How long this answer is under way."""
        return round(self.chance.choice(self.scene.latencies_s), 3)

    def wall(self) -> datetime:
        moment = self.loop.now, self.skew
        if moment != self._wall[0]:
            self._wall = moment, EPOCH + timedelta(seconds=moment[0] - START_S) + moment[1]
        return self._wall[1]

    # Processes

    @property
    def running(self) -> list[Process]:
        return [one for one in self.processes.values() if not one.ended and self.loop.alive(one.name)]

    def start(self) -> None:
        """Another worker process; it finds out by itself whether it may."""
        name = f"w{len(self.processes) + 1}"
        booted_s = self.chance.choice([0.0, self.loop.now - 3.0, START_S - 5_000_000.0])
        self._begin(self._process(name, booted_s))

    def _process(self, name: str, booted_s: float) -> Process:
        return Process(
            name=name,
            around=self,
            disk=self.disk,
            clock=SimClock(self.loop, self.wall, booted_s),
            settings=self.settings,
            folder=self.rules,
            assumed=assumed(tuple(self.scene.assumed.items())),
            service=ELSEWHERE if self.elsewhere else BASE_URLS["api"],
            tell=self.tell,
            seed=self._seed,
            defects=self.defects,
            began_s=self.loop.now,
        )

    def _begin(self, process: Process) -> None:
        name = process.name
        self.processes[name] = process
        self.tell(f"{name} starts")
        context = Context()
        context.run(OWNER.set, name)
        task = self.loop.create_task(process.live(), context=context)
        task.add_done_callback(lambda done: self._ended(process, done), context=Context())

    def _ended(self, process: Process, done: "asyncio.Task[None]") -> None:
        """A process that ended by itself. One that said why is dealt with by a person, and started again."""
        if not self.loop.alive(process.name):
            return
        problem = None if done.cancelled() else done.exception()
        if problem is not None:
            self.defects.append(f"{process.name} broke: {problem!r}")
            process.ended = repr(problem)
        self._note_end(process, process.ended)
        process.reap()
        if self.over or "is held by" in process.ended:
            return
        if "accept-restore" in process.ended or "restored" in process.ended or "lost" in process.ended:
            self.people.accept_restore()
        if f"belongs to the service {ELSEWHERE}" in process.ended:
            self.people.take_back()
        self.elsewhere = False  # somebody reads what it says
        self.later(3.0, self.start_if_none)

    def _note_end(self, process: Process, how: str) -> None:
        self.lives[process.name] = history.Life(
            owner=process.name,
            from_s=process.began_s,
            to_s=self.loop.now,
            how=how,
            elsewhere=process.service == ELSEWHERE,
        )

    def start_if_none(self) -> None:
        if self.loop.now < self._back_s:
            self.later(self._back_s - self.loop.now, self.start_if_none)
        elif not self.running and not self.over:
            self.start()

    def kill(self, owner: str, *, power: bool = False, down_s: float | None = None) -> None:
        """SIGKILL, or the power goes: nothing of the process runs any more."""
        victims = [one.name for one in self.running] if power else [owner]
        victims = [one for one in victims if self.loop.alive(one)]
        if not victims:
            return
        if power:
            self.disk.power_cut()
        self.disk.as_left()
        for victim in victims:
            self.loop.kill(victim)
            self._note_end(self.processes[victim], "killed")
            self.tell(f"{victim} is killed{' by a power cut' if power else ''}")
        self._dying.extend(victims)
        self.loop.after = self._after_step
        away_s = self.scene.down_s if down_s is None else down_s
        self._back_s = max(self._back_s, self.loop.now + away_s)
        self.later(away_s, self.start_if_none)

    def later(self, seconds: float, do: Callable[[], object]) -> None:
        """In so many seconds, by nobody's process."""
        Context().run(self.loop.call_later, seconds, do)

    def _between(self, owner: str) -> None:
        if self._kill_steps and self.loop.steps >= self._kill_steps[0] and not self.points.healed:
            self._kill_steps.pop(0)
            self.kill(owner)

    def _waking(self, owner: str) -> None:
        if self.timers.ran_out(owner):
            self.tell(f"{owner} was stopped for too long at the byte")
            self.kill(owner)

    def _after_step(self) -> None:
        self.loop.after = None
        while self._dying:
            self.processes[self._dying.pop()].reap()

    def _cross(self, what: str, owner: str) -> Harm | None:
        if not self.loop.alive(owner):
            self.disk.die(owner)
        return self.points.cross(what, owner)

    # The story

    async def play(self) -> None:
        """The whole scene, to its healed end."""
        self.start()
        for turn in self.scene.turns:
            await self._until(turn.at)
            if self._restored_from and turn.does not in RESTORES:
                self._backups.append(self.disk.content())
            self.tell(f"turn {turn}")
            self._do(turn)
        await self._ends()
        await self._heal()

    async def _ends(self) -> None:
        """The time of the story is over, or all that was to go wrong in it has."""
        if not self.points.planned:
            await self._until(self.scene.lasts_s)
        for _ in range(math.ceil(START_S + self.scene.lasts_s - self.loop.now)):
            if self.points.spent:
                return
            await asyncio.sleep(STEP_S)

    async def _until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, START_S + at - self.loop.now))

    def _do(self, turn: Turn) -> None:
        details = turn.details
        match turn.does:
            case "set":
                self.change(details["event"], by=details["by"], set=details["set"])
            case "suggest":
                run = details["run"]
                tcs = [{"tc": f"cluster {run}", "tc_run_id": str(run)}] if run else []  # 0: not computed yet
                self.change(details["event"], suggested_tcs=tcs)
            case "setup":
                self.change(details["event"], by="person", setup=details["setup"])
            case "task fails":
                self.change(details["event"], task_fails=True)
            case "kill" | "power" | "silence" | "stop" | "stall" | "second" | "clock" | "elsewhere":
                self._to_processes(turn.does, details)
            case "backup":
                self._backups = [self.disk.content()]
            case "approve" | "reject" | "halt" | "halt rule" | "undo" | "again":
                self._to_people(turn.does, details)
            case "edit" | "remove rule" | "rename rule":
                self._edit(turn.does, details["rule"])
            case "restore beneath" | "exchange beneath" | "lose lock beneath":
                self._beneath(turn.does)
            case "restore" | "lose ledger" | "lose mark" | "flip a bit" | "swap ledger":
                self._ledger_lost(turn.does)
                self._note_if_blank()
            case _:
                self._to_service(turn.does, details)

    def _to_processes(self, does: str, details: Mapping[str, Any]) -> None:
        if does == "second":
            self.start()
            return
        if does == "clock":
            self.skew += timedelta(seconds=details["seconds"])
            return
        if not self.running:
            return
        process = self.running[0]
        self.elsewhere = does == "elsewhere"
        if does == "stall":
            self.loop.stall(process.name, details["seconds"])
        elif does == "stop":
            if process.daemon is not None:
                process.daemon.stop()
                self.told_to_stop.setdefault(process.name, self.loop.now)
        else:
            self.kill(process.name, power=does == "power", down_s=4000.0 if does == "silence" else None)

    def _to_people(self, does: str, details: Mapping[str, Any]) -> None:
        match does:
            case "halt":
                self.people.halt(details["seconds"])
            case "halt rule":
                self.people.halt_rule(details["rule"], details["seconds"])
            case "undo":
                self.people.undo(details["rule"])
            case "again":
                self.people.again(details["rule"], details.get("event"))
            case _:
                self.people.decide(approve=does == "approve")

    def _to_service(self, does: str, details: Mapping[str, Any]) -> None:
        now = self.loop.now
        match does:
            case "deny":
                self._deny(details["seconds"])
            case "sign out":
                self.twin.change(SignOutChange(), now)
            case "disk full":
                self._disk_full(details["seconds"])
            case "hold ledger":
                self._held(details["seconds"])
            case "reset":
                self.twin.change(SettingsChange(settings={"reset_result": details["result"]}), now)
                self.twin.change(ResetChange(), now)
            case "remove":
                found = self.at(details["event"])
                if found is not None:
                    self.change(details["event"], remove=True)
                    self._all_back_s = max(self._all_back_s, self.loop.now + details["seconds"])
                    self.later(details["seconds"], lambda: self._back(found))
            case _:
                raise AssertionError(f"nobody knows how to {does}")

    def _back(self, gone: Happening) -> None:
        """What was taken away is there again, unless a reset has made it meanwhile."""
        if self.at(gone.eid) is None:
            self.twin.world.put(self.partner_of(gone.eid), gone.eid, gone, self.loop.now)

    def _edit(self, does: str, rule: str) -> None:
        """Somebody changes the rule's text, so that it is another one to the worker, or its name, or takes it away.
        Under another name it goes on as it was, unless it had been taken away or changed before."""
        name = f"{rule}-renamed"
        goes_on = rule not in self.edited or name in {law.id for law in self.renamed} - self.edited
        self.edited |= {rule, name, *(law.id for law in self.renamed)}  # all others get their first text and name again
        self.renamed = ()
        old = next(law for law in self.scene.laws if law.id == rule)
        laws = tuple(law for law in self.scene.laws if law is not old)
        if does == "edit":
            laws += (replace(old, text=f"description: edited\n    priority: 3\n    {_without_priority(old.text)}"),)
        elif does == "rename rule":
            self.renamed = (replace(old, id=name),)
            if goes_on:
                self.edited.discard(name)
            laws += self.renamed
        self.rules.text = spelled(laws)

    def _deny(self, seconds: float) -> None:
        """Access is withdrawn for a while."""
        nobody = User(username="sandbox", password="sandbox", partners=())
        self.twin.settings = replace(self.twin.settings, users=(nobody,))
        self.twin.sessions.revoke_all()
        self.later(seconds, self._allow)

    def _allow(self) -> None:
        if self.twin.settings.users != TwinSettings().users:
            self.twin.settings = replace(self.twin.settings, users=TwinSettings().users)
            self.twin.sessions.revoke_all()  # what a token says of its partners is as old as the token

    def _disk_full(self, seconds: float) -> None:
        self.disk.full = True
        self.cramped.append((self.loop.now, self.loop.now + seconds))
        self.later(seconds, self._room)

    def _held(self, seconds: float) -> None:
        """A tool keeps the ledger in a transaction of its own."""
        self.disk.held = True
        self.cramped.append((self.loop.now, self.loop.now + seconds))
        self.later(seconds, self._room)

    def _room(self) -> None:
        self.disk.full = self.disk.held = False

    def _note_if_blank(self) -> None:
        """Where the mark is gone, and the ledger too or one was restored in which nothing was recorded yet, the machine
        looks as if no worker had ever run on it."""
        if not self.disk.mark.exists() and not self.disk.rows():
            self.blank.add(self.life)

    def _ledger_lost(self, does: str) -> None:
        """The machine is down, and its ledger or mark is not what it was when it comes back."""
        if self.running:
            self.kill(self.running[0].name, power=True)
        self._after_step()
        if does == "lose mark":
            self.disk.mark.unlink(missing_ok=True)
            return
        left = self.disk.content()  # before anybody looks into it: the last reader would tidy up
        self.logs.append(self.disk.rows())
        self.stamps.append(self.disk.stamps)
        self.lost.append(self.loop.now)
        self.disk.stamps = [] if does == "lose ledger" else list(self.disk.stamps)
        self.life += 1
        if does == "lose ledger":
            self.disk.remove()
            return
        if does == "swap ledger":
            self.disk.put(anothers(), b"")
            self.disk.stamps = []
            return
        content, wal = self.chance.choice(self._backups[-4:]) if does == "restore" else left
        if does == "flip a bit" and wal:
            place = self.chance.randrange(len(wal))
            wal = wal[:place] + bytes([wal[place] ^ (1 << self.chance.randrange(8))]) + wal[place + 1 :]
        self.disk.put(content, wal)
        kept = len(self.disk.rows())
        self.disk.stamps = [(seq, at_s) for seq, at_s in self.disk.stamps if seq <= kept]

    def _beneath(self, does: str) -> None:
        """The ledger is exchanged, or its lock removed, while the worker runs. Somebody sees it in the end, and starts
        the worker anew."""
        if not self.running:
            return
        self._all_back_s = max(self._all_back_s, self.loop.now + NOTICED_S)
        self.later(NOTICED_S, self._anew)
        self._taken_beneath[does] = self.loop.now
        if does == "lose lock beneath":
            self.unlocked_s = min(self.unlocked_s, self.loop.now)
            self.disk.file.with_name("worker.db.lock").unlink(missing_ok=True)
        if self._taken_beneath.keys() >= UNHELD:
            self.unheld.append((min(self._taken_beneath[one] for one in UNHELD), self.loop.now))
        if does == "lose lock beneath":
            return
        self.people.look_at_halts()
        self.logs.append(self.disk.rows())
        self.stamps.append(self.disk.stamps)
        self.lost.append(self.loop.now)
        self.life += 1
        put = self.disk.restore if does == "restore beneath" else self.disk.exchange
        put(*self.chance.choice(self._backups[-4:]))
        kept = len(self.disk.rows())
        self.disk.stamps = [(seq, at_s) for seq, at_s in self.disk.stamps if seq <= kept]
        self._note_if_blank()

    def _anew(self) -> None:
        for process in () if self.over else self.running:
            self.tell(f"somebody stops {process.name}")
            self.kill(process.name)

    # What happens in the moment of a request

    def meddle(self, harm: Harm, request: TwinRequest) -> None:
        """What else happens in the very moment of a request."""
        match harm.does:
            case "clock":
                self.skew += timedelta(seconds=harm.seconds)
            case "rule_gone":
                self._edit("remove rule", self.scene.laws[0].id)
            case "rule_renamed":
                self._edit("rename rule", self.scene.laws[0].id)
            case "denied":
                self._deny(DENIED_S)
            case "disk_full":
                self._disk_full(FULL_S)
            case "cache":
                stubborn = bool(harm.params.get("stubborn"))
                began_s = self.loop.now - MOMENT_S
                self.cache = Cache(from_s=began_s, until_s=began_s + harm.seconds, stubborn=stubborn)
            case "moved":
                self.moved_s = self.loop.now - MOMENT_S
            case "person_before" | "person_after":
                self._person(request)
            case _:
                raise AssertionError(harm)

    def _person(self, request: TwinRequest) -> None:
        """A person sets what the request is about to what it is not."""
        name = request.segments[-1]
        found = self.at(request.segments[1]) if name in _TWO_VALUED else None
        if found is not None:
            one, other = _TWO_VALUED[name]
            self.change(request.segments[1], by="person", set={name: other if found.record.get(name) == one else one})

    def at(self, event: str) -> Happening | None:
        self.twin.advance(self.loop.now)  # what is due by now has happened
        return self.twin.world.at(self.partner_of(event), event)

    def change(self, event: str, **change: Any) -> None:  # noqa: ANN401 - fields of the twin's change
        if self.at(event) is not None:
            self.twin.change(EventChange(event=event, partner=self.partner_of(event), **change), self.loop.now)

    # The end

    async def _heal(self) -> None:
        """No more troubles; what is late lands; people decide what waits for them; and the workers get time."""
        self.points.healed = True
        self.healed_s = self.loop.now
        self.twin.faults.clear()
        self._allow()
        self._room()
        self.cache = self.moved_s = None
        self.elsewhere = False
        self.people.resume()
        self.tell("healed")
        await asyncio.sleep(max(0.0, self._back_s - self.loop.now))
        ends = self.loop.now + HEAL_S
        quiet = 0
        while quiet < 1 and self.loop.now < ends:
            await asyncio.sleep(LOOK_S)
            if self.people.still_halted():
                self.people.resume()
            if self.loop.now - self.healed_s > 6 * LOOK_S:
                self.people.decide(approve=True)
                self.people.resolve_all()
            settled = not self.people.open_writes() and self._looked()
            quiet = quiet + 1 if settled else 0
        self.over = True
        for process in self.running:
            if process.daemon is not None:
                process.daemon.stop()
        await asyncio.sleep(25.0)

    def _looked(self) -> bool:
        """Whether the worker that runs now has had some whole looks since it was healed and every event was there."""
        since_s = max(self.healed_s, self._all_back_s)
        return any(one.reports is not None and one.reports.whole(since_s) >= WHOLE_LOOKS for one in self.running)

    def histories(self) -> tuple[history.History, ...]:
        """For the judge, when all is over: one for each partner."""
        ended_s = self.loop.now
        for process in self.running:
            self._note_end(process, "left running")
            self.kill(process.name)
        self._after_step()
        self.buried = True
        self.twin.advance(self.loop.now + LATER_S)
        from tests.simulation.telling import told_history  # noqa: PLC0415 - both speak of the other

        return self._apart(told_history(self, ended_s))

    def _apart(self, whole: history.History) -> tuple[history.History, ...]:
        return (whole,)


_TWO_VALUED = {
    "client_campaign_status": ("RUNNING", "PAUSED"),
    "campaign_optimisation_status": ("ON", "OFF"),
    "ad_campaign_optimisation_status": ("ON", "OFF"),
}


def _without_priority(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if "priority" not in line)


def happenings(scene: Scene) -> list[Happening]:
    """The events of a scene as its service has them in the beginning."""
    events = []
    for given in scene.events:
        fields = {name: value for name, value in given.items() if name not in ("id", "setup", "campaigns")}
        suggested = ({"tc": "cluster 1", "tc_run_id": "1"},)
        parts = {"setup": given.get("setup"), "campaigns": given.get("campaigns", ())}
        events.append(replace(happening(given["id"], **fields), suggested_tcs=suggested, **parts))
    return events


def service_of(scene: Scene, place: TwinWorld) -> Twin:
    """The scene's service, in this world."""
    twin = TwinSettings(**{"token_lifetime_s": TOKEN_S, **scene.twin})
    return Twin(place, settings=twin, origin_s=START_S)


@lru_cache(maxsize=20)
def assumed(given: tuple[tuple[str, Any], ...]) -> Assumptions:
    """What the worker is told of a service that has a mind of its own."""
    return assumptions_from(dict(given))[0]


LIMITS = ("writes_per_hour", "spend_per_week", "spend_per_day", "spend_per_event")


def _settings(scene: Scene) -> EngineSettings:
    settings = USUAL
    if "mode" in scene.settings:
        settings = replace(settings, deciding=replace(settings.deciding, mode=scene.settings["mode"]))
    if "surge" in scene.settings:
        surge = Surge(events=scene.settings["surge"], within=timedelta(minutes=10))
        settings = replace(settings, deciding=replace(settings.deciding, surge=surge))
    own = {name: scene.settings[name] for name in ("page_size", "requests_per_minute") if name in scene.settings}
    settings = replace(settings, **own)
    limits = {name: scene.settings[name] for name in LIMITS if name in scene.settings}
    if limits:
        hourly = {"writes_per_hour": limits.pop("writes_per_hour")} if "writes_per_hour" in limits else {}
        spend = SpendLimits(**{name.removeprefix("spend_"): limit for name, limit in limits.items()})
        settings = replace(settings, limits=Limits(**hourly, spend=spend))
    return settings


def _where(problem: BaseException) -> str:
    last = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


@lru_cache(maxsize=1)
def place() -> Path:
    """Where ledgers of simulated worlds live: in memory where the system has such a place."""
    made = Path(tempfile.mkdtemp(prefix="simulation-", dir=SHM if SHM.is_dir() else None))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _town(scene: Scene, seed: int, points: Points, folder: Path) -> Town:
    if not scene.replicas:
        return Town(scene, seed, points, folder)
    from tests.simulation.fleet import FleetTown  # noqa: PLC0415 - a town of another kind

    return FleetTown(scene, seed, points, folder)


def play(scene: Scene, seed: int, points: Points | None = None) -> Played:
    """Plays a scene under a seed, with what is to go wrong at its points."""
    folder = Path(tempfile.mkdtemp(dir=place()))
    broke: list[str] = []
    try:
        town = _town(scene, seed, points or Points(), folder)
        with town.mounted(), patch.object(daemon, "AsyncIOScheduler", SimScheduler):
            try:
                town.loop.run(town.play())
            except Exception as problem:  # noqa: BLE001 - whatever it is, it is this world's, and said with its seed
                broke.append(f"{problem!r} at {_where(problem)}")
            town.over = True
            found = town.histories()
            town.loop.bury()
        town.defects.extend(town.loop.troubles)
        town.trace.append(f"{town.loop.steps} steps, choices {town.loop.choices:016x}")
        return Played(
            histories=found,
            trace=town.trace,
            points=town.points,
            steps=town.loop.steps,
            virtual_s=town.loop.now - START_S,
            broke=broke,
        )
    finally:
        with suppress(OSError):
            shutil.rmtree(folder)
