"""Plays a story: the worker's cycles in a task of their own, and beside it whatever the story does to it.

At the end everything is healed, persons decide what waits for them, and the worker gets the time it needs.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.prove.stories import LAG_MAX_S, LATE_MAX_S, STORY_S, Step, Story
from tests.simulation.people import is_there
from tests.virtual import VirtualLoop, run_virtually
from tests.worlds import PARTNER, QUICK, Town, happening, rule_set, world
from worker.engine.operators import approved, rejected
from worker.engine.views import EngineSettings
from worker.ledger.sql import SqlLedger
from worker.model.errors import StateConflict
from worker.sandbox.changes import ResetChange, SettingsChange, SignOutChange
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


class Life:
    """The worker's processes in a town, one after the other: each does its cycles in a task of its own."""

    def __init__(self, here: Town, ledger: type[SqlLedger] = SqlLedger) -> None:
        self._here, self._ledger = here, ledger
        self._running: asyncio.Task[None] | None = None

    def begin(self) -> None:
        if self._here.running is None:
            self._here.start(ledger=self._ledger)
        self._running = asyncio.ensure_future(self._live())

    async def _live(self) -> None:
        """What the daemon does: quiet for one interval, then cycle after cycle."""
        interval_s = self._here.settings.interval.total_seconds()
        await self._here.clock.sleep(interval_s)
        while True:
            await self._here.run(interval_s)

    def look_after(self) -> None:
        """A worker that ended by itself is a failure of its own."""
        if self._running is not None and self._running.done():
            self._running.result()

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running

    async def die(self) -> None:
        """The process is gone, and nothing but the ledger is left."""
        await self.stop()
        await self._here.kill()


@contextmanager
def in_town(folder: Path, twin: Twin, rules: str, settings: EngineSettings) -> Iterator[Town]:
    """A town whose loop and ledger are closed where the block ends; until then what is left can be looked at."""
    loop = VirtualLoop()
    here = Town(loop, twin, folder, rule_set(rules), settings)
    try:
        yield here
    finally:
        if here.running is not None:
            here.running.ledger.close()
        loop.close()


class Nemesis:
    """Does to one town what the story says."""

    def __init__(self, here: Town, story: Story) -> None:
        self._here, self._story, self._life = here, story, Life(here)
        self._later: list[asyncio.Task[None]] = []
        self._was_off = False

    async def play(self) -> None:
        """The whole story, to the healed end."""
        await self._play(STORY_S)
        await asyncio.gather(*self._later)
        await self._heal()

    async def play_until(self, at: float, changes: Iterable[Step]) -> None:
        """The story up to a second, and the end of the worker there; then these changes, which it has not seen."""
        await self._play(at)
        for task in self._later:
            task.cancel()
        await self._life.die()
        for step in changes:
            await self._do(step)
        await self._here.clock.sleep(LATE_MAX_S + LAG_MAX_S)  # what was under way has landed

    async def _play(self, until: float) -> None:
        self._life.begin()
        for step in self._story.steps:
            if step.at >= until:
                break
            await self._here.clock.sleep(step.at - self._here.at)
            await self._do(step)
            self._life.look_after()
        await self._here.clock.sleep(until - self._here.at)

    async def _kill(self, down_s: float) -> None:
        await self._life.die()
        if down_s > 60:
            self._here.loop.jump(down_s)
        else:
            await self._here.clock.sleep(down_s)
        self._life.begin()

    async def _do(self, step: Step) -> None:
        details, here = dict(step.details), self._here
        event = details.pop("event", "")
        if event and self._at(event) is None:
            return
        match step.does:
            case "world" | "person":
                here.set(event, by="person" if step.does == "person" else "world", **details["set"])
            case "fault":
                here.fault(details.pop("kind"), details.pop("method"), details.pop("path", None), **details)
            case "kill" | "silence":
                await self._kill(details["down_s"])
            case "freeze":
                here.loop.jump(details["for_s"])
            case "suggest":
                here.suggest(event, details["run"])
            case "people_decide":
                self._decide(approved if details["approve"] else rejected)
            case _:
                self._rare(step.does, event, details)

    def _rare(self, does: str, event: str, details: dict[str, Any]) -> None:
        here, now = self._here, self._here.loop.time()
        match does:
            case "setup":
                here.change(event, by="person", setup=details["setup"])
            case "task_fails":
                here.change(event, task_fails=True)
            case "remove":
                record = dict(here.event(event).record)
                here.change(event, remove=True)
                self._after(details["for_s"], lambda: here.change(event, add=True, set=record))
            case "product_off":
                self._was_off = True
                here.become(campaign_recommendations=False)
                self._after(details["for_s"], lambda: here.become(campaign_recommendations=True))
            case "halt":
                here.halt(until=here.clock.now() + timedelta(seconds=details["for_s"]))
            case "reset":
                here.twin.change(SettingsChange(settings={"reset_result": details["result"]}), now)
                here.twin.change(ResetChange(), now)
            case "sign_out":
                here.twin.change(SignOutChange(), now)
            case _:
                raise AssertionError(f"nobody knows how to {does}")

    def _after(self, wait_s: float, do: Callable[[], None]) -> None:
        async def later() -> None:
            await self._here.clock.sleep(wait_s)
            do()

        self._later.append(asyncio.ensure_future(later()))

    def _at(self, event: str) -> Happening | None:
        return self._here.twin.world.at(PARTNER, event)

    def _decide(self, verdict: Callable[..., Any]) -> None:
        """Somebody decides everything that waits for approval."""
        for write in self._here.ledger.open_writes():
            if write.state == "waiting":
                with suppress(StateConflict):
                    self._here.decide(verdict, write)

    async def _heal(self) -> None:
        here = self._here
        here.twin.faults.clear()
        here.become(campaign_recommendations=True)
        ends = here.loop.time() + HEALED_S
        await here.clock.sleep(2 * LOOK_S)
        while here.loop.time() < ends:
            self._life.look_after()
            self._decide(approved)
            for write in here.ledger.open_writes():
                if write.state == "needs_human":
                    with suppress(StateConflict):
                        found = self._at(write.key.event)
                        here.resolve(write, applied=found is not None and is_there(found, write))
            await here.clock.sleep(LOOK_S)
            noticed = not self._was_off or here.loop.time() - ends + HEALED_S > NOTICED_S
            if noticed and not here.ledger.open_writes():
                break
        await here.clock.sleep(LOOK_S)
        self._life.look_after()
        await self._life.stop()


@contextmanager
def beginning(folder: Path, story: Story) -> Iterator[tuple[Town, Nemesis]]:
    """The service as the story begins, and who will play it."""
    with in_town(folder, Twin(world(*map(_happening, story.events))), story.rules, SETTINGS) as here:
        try:
            yield here, Nemesis(here, story)
        except Exception as problem:
            told = here.story() if here.running is not None else ""
            raise AssertionError(f"{problem}\n{story}\n{told}") from problem


def play(folder: Path, story: Story) -> None:
    """Plays a story to its end."""
    with beginning(folder, story) as (here, nemesis):
        run_virtually(here.loop, nemesis.play())


def _happening(given: dict[str, Any]) -> Happening:
    fields = {name: value for name, value in given.items() if name not in ("id", "setup")}
    suggested = ({"tc": "cluster 1", "tc_run_id": "1"},)
    return replace(happening(given["id"], **fields), setup=given.get("setup"), suggested_tcs=suggested)
