"""Plays a story: the worker's cycles in a task of their own, and beside it whatever the story does to it.

At the end everything is healed, persons decide what waits for them, and the worker gets the time it needs.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.prove.stories import LAG_MAX_S, LATE_MAX_S, STORY_S, Step, Story
from tests.virtual import EPOCH, VirtualLoop, run_virtually
from tests.worlds import PARTNER, QUICK, Town, happening, rule_set, world
from worker.engine.operators import Word, approved, rejected, resolved
from worker.engine.views import EngineSettings
from worker.model.commits import Commit
from worker.model.errors import StateConflict
from worker.model.writes import Write
from worker.sandbox.changes import EventChange, PartnerChange, ResetChange, SettingsChange, SignOutChange
from worker.sandbox.service import Twin
from worker.sandbox.world import Happening

SETTINGS: EngineSettings = replace(
    QUICK, evidence_within=timedelta(minutes=2), confirm_within=timedelta(minutes=1), requests_per_minute=600
)
HEALED_S = 400.0
"""The longest that a healed world is given; it is left sooner where nothing is open any more."""
LOOK_S = 15.0
NOTICED_S = 75.0
"""That a product is on again is noticed within so long: the partner's own record is read once a minute."""


@dataclass(slots=True)
class Played:
    """What a story left behind. ``starts``: when a worker process began to look, in the loop's time."""

    story: Story
    here: Town
    starts: list[float] = field(default_factory=list)
    kills: list[float] = field(default_factory=list)
    halts: list[tuple[float, float]] = field(default_factory=list)

    def explained(self, what: str) -> str:
        """A failure in full: seed, story and log."""
        if self.here.running is None:
            return f"{what}\n{self.story}"
        log = [
            f"  {one['at'][14:23]} w{one['write'] or '-'} {one['event'] or ''} {one['rule'] or ''} {one['kind']} "
            f"{one['reason'] or ''}: {one['why']}"
            for one in self.here.log()
        ]
        wire = [
            f"  {self.clock(one.at_s)} {one.method} {one.path} {dict(one.query)} -> {one.status} {one.fault or ''}"
            for one in self.here.twin.books.requests
            if one.method != "GET" and one.path != "/auth"
        ]
        return "\n".join([what, str(self.story), "log:", *log, "on the wire:", *wire])

    def clock(self, at_s: float) -> str:
        """A moment of the loop as the log would spell it."""
        return (EPOCH + timedelta(seconds=at_s - 1000.0)).strftime("%M:%S.%f")[:9]


class Complaint(AssertionError):
    """What is wrong with a played story, with its seed and everything that happened."""


class Nemesis:
    """Does to one town what the story says."""

    def __init__(self, played: Played) -> None:
        self._played = played
        self._here = played.here
        self._life: asyncio.Task[None] | None = None
        self._later: list[asyncio.Task[None]] = []
        self._was_off = False

    async def play(self) -> None:
        """The whole story, to the healed end."""
        self._begin()
        for step in self._played.story.steps:
            await self._here.clock.sleep(step.at - self._here.at)
            await self._do(step)
            self._look_after()
        await self._here.clock.sleep(STORY_S - self._here.at)
        await asyncio.gather(*self._later)
        await self._heal()

    async def play_until(self, at: float, changes: Iterable[Step]) -> None:
        """The story up to a second, and the end of the worker there; then these changes, which it has not seen."""
        self._begin()
        for step in self._played.story.steps:
            if step.at >= at:
                break
            await self._here.clock.sleep(step.at - self._here.at)
            await self._do(step)
            self._look_after()
        await self._here.clock.sleep(at - self._here.at)
        for task in self._later:
            task.cancel()
        await self._end()
        for step in changes:
            await self._do(step)
        await self._here.clock.sleep(LATE_MAX_S + LAG_MAX_S)  # what was under way has landed

    def _begin(self) -> None:
        if self._here.running is None:
            self._here.start()
        self._played.starts.append(self._here.loop.time())
        self._life = asyncio.ensure_future(self._live())

    async def _live(self) -> None:
        """What the daemon does: quiet for one interval, then cycle after cycle."""
        await self._here.clock.sleep(self._here.settings.interval.total_seconds())
        while True:
            await self._here.run(self._here.settings.interval.total_seconds())

    def _look_after(self) -> None:
        """A worker that ended by itself is a failure of its own."""
        if self._life is not None and self._life.done():
            self._life.result()

    async def _end(self) -> None:
        """The worker process is gone."""
        if self._life is not None:
            self._life.cancel()
            with suppress(asyncio.CancelledError):
                await self._life
        await self._here.kill()

    async def _kill(self, down_s: float) -> None:
        await self._end()
        self._played.kills.append(self._here.loop.time())
        if down_s > 60:
            self._here.loop.jump(down_s)
        else:
            await self._here.clock.sleep(down_s)
        self._begin()

    async def _do(self, step: Step) -> None:
        details = dict(step.details)
        match step.does:
            case "world" | "person":
                self._set(details, by="person" if step.does == "person" else "world")
            case "fault":
                self._here.fault(details.pop("kind"), details.pop("method"), details.pop("path", None), **details)
            case "kill" | "silence":
                await self._kill(details["down_s"])
            case "freeze":
                self._here.loop.jump(details["for_s"])
            case "suggest":
                if self._at(details["event"]) is not None:
                    self._here.suggest(details["event"], details["run"])
            case "people_decide":
                self._decide(approve=details["approve"])
            case _:
                self._rare(step)

    def _rare(self, step: Step) -> None:
        details, twin, now = step.details, self._here.twin, self._here.loop.time()
        match step.does:
            case "setup":
                self._change(details["event"], by="person", setup=details["setup"])
            case "task_fails":
                self._change(details["event"], task_fails=True)
            case "remove":
                found = self._at(details["event"])
                if found is not None:
                    self._change(details["event"], remove=True)
                    back = EventChange(event=details["event"], partner=PARTNER, add=True, set=dict(found.record))
                    self._after(details["for_s"], lambda: twin.change(back, self._here.loop.time()))
            case "product_off":
                self._product(on=False)
                self._after(details["for_s"], lambda: self._product(on=True))
            case "halt":
                self._halt(details["for_s"])
            case "reset":
                twin.change(SettingsChange(settings={"reset_result": details["result"]}), now)
                twin.change(ResetChange(), now)
            case "sign_out":
                twin.change(SignOutChange(), now)
            case _:
                raise AssertionError(f"nobody knows how to {step.does}")

    def _after(self, wait_s: float, do: Any) -> None:  # noqa: ANN401 - any call without arguments
        async def later() -> None:
            await self._here.clock.sleep(wait_s)
            do()

        self._later.append(asyncio.ensure_future(later()))

    def _set(self, details: dict[str, Any], by: Any) -> None:  # noqa: ANN401 - the twin's two words
        if self._at(details["event"]) is not None:
            self._here.set(details["event"], by=by, **details["set"])

    def _at(self, event: str) -> Happening | None:
        return self._here.twin.world.at(PARTNER, event)

    def _change(self, event: str, **change: Any) -> None:  # noqa: ANN401 - fields of EventChange
        if self._at(event) is not None:
            self._here.twin.change(EventChange(event=event, partner=PARTNER, **change), self._here.loop.time())

    def _product(self, *, on: bool) -> None:
        change = PartnerChange(partner=PARTNER, set={"campaign_recommendations": on})
        self._here.twin.change(change, self._here.loop.time())
        self._was_off = self._was_off or not on

    def _halt(self, for_s: float) -> None:
        if self._here.running is None:
            return
        now = self._here.clock.now()
        began = self._here.loop.time()
        self._here.ledger.append_halt(
            because="let me look", by="somebody", at=now, until=now + timedelta(seconds=for_s)
        )
        self._played.halts.append((began, began + for_s))

    def _decide(self, *, approve: bool) -> None:
        """Somebody decides everything that waits for approval."""
        for write in self._here.ledger.open_writes() if self._here.running is not None else ():
            if write.state == "waiting":
                verdict = approved if approve else rejected
                change = verdict(write, because="looked", by="somebody", now=self._here.clock.now())
                with suppress(StateConflict):
                    self._here.ledger.apply(Commit(at=self._here.clock.now(), moves=(change,)))

    def _resolve(self, write: Write) -> None:
        """Somebody looks at the service and says what is there."""
        now, settings = self._here.clock.now(), self._here.settings
        word = Word(because="looked at it", by="somebody", at=now)
        change = resolved(write, word, applied=self._is_there(write), settings=settings)
        with suppress(StateConflict):
            self._here.ledger.apply(Commit(at=now, moves=(change,)))

    def _is_there(self, write: Write) -> bool:
        found = self._at(write.key.event)
        if found is None:
            return False
        if write.key.item == "cr":
            return found.last_updated_on_fe is not None
        if write.intent.target != "setup":
            return bool(found.record.get(write.intent.target) == write.intent.wanted[write.intent.target])
        return found.setup is not None and (write.intent.action == "create_draft" or found.published)

    async def _heal(self) -> None:
        here = self._here
        here.twin.faults.clear()
        self._product(on=True)
        ends = here.loop.time() + HEALED_S
        await here.clock.sleep(2 * LOOK_S)
        while here.loop.time() < ends:
            self._look_after()
            self._decide(approve=True)
            for write in here.ledger.open_writes():
                if write.state == "needs_human":
                    self._resolve(write)
            await here.clock.sleep(LOOK_S)
            noticed = not self._was_off or here.loop.time() - ends + HEALED_S > NOTICED_S
            if noticed and not here.ledger.open_writes():
                break
        await here.clock.sleep(LOOK_S)
        self._look_after()
        if self._life is not None:
            self._life.cancel()
            with suppress(asyncio.CancelledError):
                await self._life


@contextmanager
def played(folder: Path, story: Story) -> Iterator[Played]:
    """Plays a story in a folder of its own; what is left can be looked at until the block ends."""
    loop = VirtualLoop()
    twin = twin_of(story)
    here = Town(loop, twin, folder, rule_set(story.rules), SETTINGS)
    found = Played(story=story, here=here)
    try:
        run_virtually(loop, Nemesis(found).play())
        yield found
    except Exception as problem:
        if isinstance(problem, Complaint):
            raise
        raise Complaint(found.explained(f"the worker or its story broke: {problem!r}")) from problem
    finally:
        if here.running is not None:
            here.running.ledger.close()
        loop.close()


def twin_of(story: Story) -> Twin:
    """The service as the story begins."""
    return Twin(world(*(_happening(one) for one in story.events)))


def _happening(given: dict[str, Any]) -> Happening:
    fields = {name: value for name, value in given.items() if name not in ("id", "setup")}
    suggested = ({"tc": "cluster 1", "tc_run_id": "1"},)
    return replace(happening(given["id"], **fields), setup=given.get("setup"), suggested_tcs=suggested)
