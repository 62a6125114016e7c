"""One deed, one outcome, one death: plays it to its end and says what must have come of it.

The process dies exactly at a step of the write's life: from that moment on nothing of it is stored or sent. A new one
is started on the same ledger. Whoever is asked looks at the twin's books and tells the truth.
"""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Literal

from tests.prove.deeds import Deed, Outcome
from tests.prove.play import Life, in_town
from tests.virtual import run_virtually
from tests.worlds import QUICK, Town, world
from worker.engine.operators import Word, approved, rejected, resolved
from worker.ledger.sql import SqlLedger
from worker.model.actions import ACTIONS
from worker.model.commits import Commit, Hold, Move, Sending
from worker.model.writes import Write
from worker.sandbox.faults import Fault, Match
from worker.sandbox.service import Twin
from worker.sandbox.settings import Delivery, TwinRequest

Step = Literal[
    "never",
    "deciding",
    "decided",
    "recording",
    "recorded",
    "on the wire",
    "answered",
    "answer recorded",
    "read",
    "reading recorded",
    "ending",
    "ended",
]
"""When the process dies: before or after each of its commits, and with its request at the service."""
LOSES: frozenset[str] = frozenset({"recorded", "on the wire", "answered"})
"""Deaths after which nobody knows what became of the attempt."""
SETTINGS = replace(QUICK, settle=timedelta(seconds=15), evidence_within=timedelta(seconds=45), requests_per_minute=600)
DENIES = ("answer_before", "expired_token")
"""How the twin refuses our credentials, where nothing is sent by it."""
PATIENCE_S = 1500.0
QUIET_S = 6.0
"""How long it is watched after its end: nothing may follow."""
LOOK_S = 3.0
DOWN_S = 2.0
LATE_S = 15.0
"""How long a person waits before looking, where an effect can come late."""
ALL_READS = Match(method="GET")


@dataclass(slots=True)
class Fate:
    """Whether the process lives, and when it dies."""

    step: Step
    dead: bool = False
    met: bool = False

    def alive(self) -> None:
        """Nothing is done by the dead."""
        if self.dead:
            raise asyncio.CancelledError

    def at(self, step: Step) -> None:
        """The process dies here, if this is where it is to die."""
        if step == self.step and not self.met:
            self.met = self.dead = True
            raise asyncio.CancelledError


@dataclass(slots=True)
class Trial:
    """A deed that meets an outcome and a death. ``unknown``: nobody knew for a while what became of it."""

    deed: Deed
    outcome: Outcome
    fate: Fate
    here: Town
    unknown: bool = False

    def concerns(self, write: Write) -> bool:
        return not self.deed.item or write.key.item == self.deed.item

    @property
    def write(self) -> Write:
        """The write that meets the outcome."""
        (found,) = [one for one in self.here.writes() if self.concerns(one)]
        return found

    @property
    def effects(self) -> int:
        if not self.deed.method:
            return len(self.here.messages)
        return len(self.here.effects(self.deed.effect))

    @property
    def arrived(self) -> int:
        """How many of the deed's requests reached the service; of messages, how many were given."""
        if not self.deed.method:
            return len(self.here.messages)
        meant = Match(method=self.deed.method, path=self.deed.path)
        return sum(one.reached and _like(meant, one.method, one.path) for one in self.here.twin.books.requests)

    def became_unknown(self) -> None:
        """Nobody knows what became of it: now the other hand acts, or the reads begin to fail."""
        if self.unknown:
            return
        self.unknown = True
        if self.outcome.hand == "otherwise" and self.deed.otherwise is not None:
            self.deed.otherwise(self.here)
        if self.outcome.hand == "blind":
            self.here.twin.faults.add(Fault(match=ALL_READS, kind="answer_before", times=None, params={"status": 500}))


def _like(meant: Match, method: str, path: str) -> bool:
    return method == meant.method and re.search(meant.path or "", path) is not None


class MortalLedger(SqlLedger):
    """The real ledger of a process that can die before and after each commit."""

    trial: ClassVar[Trial]

    def apply(self, commit: Commit) -> tuple[Write, ...]:
        """Stores, and dies where it is to die."""
        fate = self.trial.fate
        fate.alive()
        steps = self._steps(commit)
        for before, _ in steps:
            fate.at(before)
        made = super().apply(commit)
        if any(one.after.unknown_since is not None and self.trial.concerns(one.after) for one in commit.moves):
            self.trial.became_unknown()
        for _, after in steps:
            fate.at(after)
        return made

    def record_sending(self, sending: Sending) -> Hold | None:
        """The attempt's record, with a death before and after it."""
        self.trial.fate.alive()
        if not self.trial.concerns(sending.move.after):
            return super().record_sending(sending)
        self.trial.fate.at("recording")
        brake = super().record_sending(sending)
        self.trial.fate.at("recorded")
        return brake

    def _steps(self, commit: Commit) -> list[tuple[Step, Step]]:
        found: list[tuple[Step, Step]] = []
        if commit.plans:
            found.append(("deciding", "decided"))
        for move in commit.moves:
            if self.trial.concerns(move.before):
                if move.before.state == "sending":
                    found.append(("answered", "answer recorded"))
                elif move.after.final or move.after.state == "needs_human":
                    found.append(("ending", "ended"))
        writes = {one.id for one in self.writes() if self.trial.concerns(one)} if commit.records else set()
        if any(record.kind == "evidence" and record.write in writes for record in commit.records):
            found.append(("read", "reading recorded"))
        return found


class MortalService(Twin):
    """The twin, which hears nothing more of a dead process, and at which another hand can be a moment sooner."""

    trial: Trial

    def answer(self, request: TwinRequest, now_s: float) -> Delivery:
        """The service's answer; the process may die while it is on its way."""
        trial = self.trial
        trial.fate.alive()
        meant = Match(method=trial.deed.method, path=trial.deed.path).hits(request) and bool(trial.deed.method)
        if meant and trial.outcome.hand == "so" and trial.deed.so is not None:
            trial.deed.so(trial.here)
        delivery = super().answer(request, now_s)
        if meant:
            trial.fate.at("on the wire")
        return delivery


def expected(deed: Deed, outcome: Outcome, died: Step, *, spends: bool) -> tuple[str, int, set[str]]:
    """What must come of it: the write's last state, its own effects, and why a person is asked. ``spends``: made twice,
    it costs money."""
    lost = died in LOSES
    asked: set[str] = set()
    if lost and not deed.shown:
        asked.add("no_readback")
    arrived = died in ("on the wire", "answered")
    means = "unknown" if arrived else outcome.means
    if means == "no":
        return "rejected", int(outcome.happens), asked
    if means == "unknown" and not deed.shown:
        asked.add("no_readback")
    if means == "not sent" and outcome.kind in DENIES and not deed.shown:
        asked.add("no_readback")  # the token had just worked, and no read shows whether the write did
    if means == "not sent" and outcome.kind in DENIES and spends and deed.shown and outcome.times > 1:
        asked.add("no_evidence")  # unknown, and the credentials are held for longer than evidence is waited for here
    unknown = means == "unknown" or lost
    if outcome.asked == "task_failed" and not arrived:
        asked.add("task_failed")
    if outcome.asked == "attempts" and deed.shown:
        asked.add("attempts")
    if outcome.hand == "blind" and unknown:
        asked.add("no_evidence")
    if outcome.hand == "otherwise" and unknown:
        asked.add("other_value" if ACTIONS[deed.action].creates else "third_value")
        return "cancelled", 0, asked
    return "confirmed", 0 if outcome.hand == "so" else 1, asked


def fits(deed: Deed, outcome: Outcome) -> bool:
    """Whether there is such a thing: a task, a message, another value, a read that can fail to show."""
    if outcome.only == "message" or not deed.method:
        return outcome.only == "message" and not deed.method
    if outcome.only == "task":
        return ACTIONS[deed.action].task
    if outcome.hand == "otherwise":
        return deed.otherwise is not None
    if outcome.hand == "so":
        return deed.so is not None
    return outcome.hand != "blind" or deed.shown


@contextmanager
def tried(folder: Path, deed: Deed, outcome: Outcome, step: Step) -> Iterator[Trial]:
    """Plays a trial in a folder of its own; what is left can be looked at until the block ends."""
    first, *others = deed.place
    first = replace(first.with_fields({"status": "cancelled"}), task_fails=outcome.only == "task")
    twin = MortalService(world(first, *others))
    with in_town(folder, twin, deed.rules, SETTINGS) as here:
        trial = Trial(deed=deed, outcome=outcome, fate=Fate(step=step), here=here)
        twin.trial = trial
        if outcome.kind and deed.method:
            here.fault(outcome.kind, deed.method, deed.path, times=outcome.times, **outcome.params)  # type: ignore[arg-type]
        ledger = type("ThisLedger", (MortalLedger,), {"trial": trial})
        run_virtually(here.loop, _Lives(trial, ledger).play())
        yield trial


class _Lives:
    """The processes of one trial, one after the other, and the person beside them."""

    def __init__(self, trial: Trial, ledger: type[SqlLedger]) -> None:
        self._trial, self._here = trial, trial.here
        self._life = Life(trial.here, ledger)

    async def play(self) -> None:
        """To the end of the write, and somewhat further."""
        trial, here = self._trial, self._here
        self._life.begin()
        ends = here.loop.time() + PATIENCE_S
        rest = 0.0
        while rest < QUIET_S:
            assert here.loop.time() < ends, f"it never ends: {here.story()}"
            await here.clock.sleep(LOOK_S)
            await self._again_if_dead()
            writes = [one for one in here.writes() if trial.concerns(one)]
            rest = rest + LOOK_S if writes and all(one.final for one in writes) else 0.0
            for write in writes:
                await self._person(write)
        await self._life.stop()

    async def _again_if_dead(self) -> None:
        if self._trial.fate.dead:
            await self._life.die()
            self._trial.fate.dead = False
            await self._here.clock.sleep(DOWN_S)
            self._life.begin()
        else:
            self._life.look_after()

    async def _person(self, write: Write) -> None:
        """Lets go what must be asked first; says the truth of what nobody else can know, once reads answer again."""
        trial, here = self._trial, self._here
        if write.state == "waiting" and trial.deed.asks_first:
            self._apply(approved(write, because="looked", by="ann", now=here.clock.now()))
        if write.state != "needs_human":
            return
        if trial.outcome.hand == "blind":
            here.twin.faults.clear()
            await here.clock.sleep(30.0)
        if trial.outcome.kind == "late_effect":
            await here.clock.sleep(LATE_S)
        await self._again_if_dead()
        now = here.clock.now()
        current = here.ledger.write(write.id)
        if current is None or current.state != "needs_human":
            return  # a read has shown it meanwhile
        if trial.outcome.hand == "otherwise":
            self._apply(rejected(current, because="somebody else was there", by="ann", now=now))
            return
        applied = trial.effects > 0
        word = Word(because="the books say so", by="ann", at=now)
        self._apply(resolved(current, word, applied=applied, settings=here.settings))

    def _apply(self, move: Move) -> None:
        SqlLedger.apply(self._here.ledger, Commit(at=self._here.clock.now(), moves=(move,)))
