"""A look with very much to judge: everything else goes on in between, and nothing is decided otherwise for it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.engine.test_daemon import Told, no_budget
from tests.engine.test_long_lists import Folder
from tests.worlds import PARTNER, PAUSE, Town, happening, town, world
from worker.engine.cycle import BREATH
from worker.engine.daemon import Daemon
from worker.engine.parts import Parts
from worker.model.commits import Commit
from worker.model.errors import LedgerUnwritable

HOUR = 3600.0
EVENTS = [f"e{number}" for number in range(10, 50)]
FEW = 4
"""Rules and events judged in one go; the daemon's own number is much greater."""
HELD = """  - id: wait-a-while
    when: event.category == 'party'
    for: 30s
    do: [pause]
"""


class Watched:
    """Counts the commits of a ledger, and how often anything else had a turn between two of them."""

    def __init__(self, here: Town, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turns = 0
        self.turns_between: list[int] = []
        apply = here.ledger.apply

        def noted(commit: Commit) -> Any:  # noqa: ANN401 - as the ledger's
            self.turns_between.append(self.turns)
            self.turns = 0
            return apply(commit)

        monkeypatch.setattr(here.ledger, "apply", noted)

    async def beside(self) -> None:
        """Something else that this process does: a page, a heartbeat, a signal."""
        while True:
            await asyncio.sleep(BREATH.total_seconds() / 4)
            self.turns += 1


def test_everything_else_has_its_turn_while_a_long_look_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(here: Town) -> None:
        watched = Watched(here, monkeypatch)
        beside = asyncio.ensure_future(watched.beside())
        await here.run(1)
        beside.cancel()
        _, *between = watched.turns_between
        assert len(between) >= 9, "forty pairs, four at once"
        assert min(between[:9]) > 0, "something else had a turn between two portions"

    with town(tmp_path, world(*map(happening, EVENTS)), PAUSE, pairs_at_once=FEW) as (_, play):
        play(script)


def test_a_stop_in_the_middle_of_a_long_look_is_heard_and_loses_nothing(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        told = Told()
        parts = Parts(clock=here.clock, service=here.worker.service, ledger=here.worker.ledger, settings=here.settings)
        daemon = Daemon(parts, source=Folder(PAUSE), reporter=told, pid=1, budgets=no_budget)
        running = asyncio.ensure_future(daemon.run())

        def judged() -> int:
            return sum(one.looked_at is not None for one in here.ledger.observed(PARTNER))

        while not judged():
            await here.clock.sleep(BREATH.total_seconds() / 4)
        asked = here.at
        daemon.stop()
        await running
        assert here.at - asked < 0.1
        assert 0 < judged() < len(EVENTS), "it was stopped in the middle"
        assert here.log("fired") == []
        await here.kill()
        here.start()
        await here.until(lambda: here.states() == ["confirmed"], "the one that is cancelled is paused", HOUR)
        assert judged() == len(EVENTS)

    events = [happening(one, status="cancelled" if one == EVENTS[-1] else "active") for one in EVENTS]
    with town(tmp_path, world(*events), PAUSE, pairs_at_once=FEW) as (_, play):
        play(script)


def test_a_surge_is_counted_over_all_portions_of_a_look(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(60)
        assert set(here.states()) == {"waiting"}
        assert len(here.states()) == len(EVENTS)
        assert here.effects() == []

    with town(tmp_path, world(*(happening(one, status="cancelled") for one in EVENTS)), PAUSE, pairs_at_once=FEW) as (
        _,
        play,
    ):
        play(script)


async def story(here: Town) -> None:
    """Events change, some fire, some are held; the worker restarts after a silence."""
    await here.run(30)
    here.set("e12", status="cancelled")
    here.set("e20", category="party")
    await here.run(60)
    here.set("e12", status="active")
    await here.kill()
    here.loop.jump(2 * HOUR)
    here.set("e30", status="cancelled")
    here.start()
    await here.run(60)


def played(folder: Path, pairs_at_once: int) -> list[tuple[Any, ...]]:
    folder.mkdir()
    told: list[tuple[Any, ...]] = []

    async def script(here: Town) -> None:
        await story(here)
        told.extend(
            (one["kind"], one["event"], one["rule"], one["episode"], one["reason"])
            for one in here.log()
            if one["kind"] not in ("evidence", "started")
        )

    with town(folder, world(*map(happening, EVENTS)), PAUSE + HELD, pairs_at_once=pairs_at_once) as (_, play):
        play(script)
    return told


def test_in_portions_everything_is_decided_as_in_one_go(tmp_path: Path) -> None:
    at_once = played(tmp_path / "at-once", 100_000)
    assert played(tmp_path / "in-portions", FEW) == at_once
    assert ("waiting", "e30", "pause-cancelled", 1, "gap") in at_once


def test_a_long_look_that_is_under_way_is_known_to_take_long(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        state = here.worker.states[PARTNER]
        looking = asyncio.ensure_future(here.worker.cycle.run(state))
        while not looking.done() and state.look_s == 0.0:
            await here.clock.sleep(BREATH.total_seconds())
        assert not looking.done()
        await looking
        assert state.look_s > 10 * BREATH.total_seconds()

    with town(tmp_path, world(*map(happening, EVENTS)), PAUSE, pairs_at_once=FEW) as (_, play):
        play(script)


def test_rules_that_change_in_the_middle_of_a_long_look_are_those_of_the_next(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        state = here.worker.states[PARTNER]
        looking = asyncio.ensure_future(here.worker.cycle.run(state))
        while not state.calm.until:
            await here.clock.sleep(BREATH.total_seconds() / 2)
        here.rules.current = await Folder(PAUSE.replace("cancelled", "archived")).load()
        await looking
        assert here.log("fired") == []
        await here.run(20)
        assert {one["event"] for one in here.log("fired")} == {"e49"}

    states = {"e48": "cancelled", "e49": "archived"}
    events = [happening(one, status=states.get(one, "active")) for one in EVENTS]
    with town(tmp_path, world(*events), PAUSE, pairs_at_once=FEW) as (_, play):
        play(script)


def test_a_ledger_that_cannot_even_be_read_is_said_in_the_report_of_the_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> int:
        raise LedgerUnwritable("the disk is failing")

    async def script(here: Town) -> None:
        await here.run(4)
        with monkeypatch.context() as patch:
            patch.setattr(here.ledger, "last_seq", fail)
            await here.run(3)
        assert here.reports[-1].error == "the disk is failing"
        await here.run(4)
        assert here.reports[-1].error is None

    with town(tmp_path, world(happening("e1")), PAUSE) as (_, play):
        play(script)


def test_of_events_for_which_nothing_holds_no_memory_is_stored_and_none_is_missed(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(30)
        assert list(here.ledger.all_rule_memories(PARTNER)) == []
        noted = {one.event: one.looked_at for one in here.ledger.observed(PARTNER) if one.looked_at is not None}
        assert set(noted) == set(EVENTS)
        await here.kill()
        here.start()
        await here.run(30)
        again = {one.event: one.looked_at for one in here.ledger.observed(PARTNER) if one.looked_at is not None}
        assert again == noted, "noted once"
        here.set("e12", status="cancelled")
        await here.until(lambda: here.states() == ["confirmed"], "it is paused, as an event that was looked at", HOUR)
        assert [one.event for one in here.ledger.all_rule_memories(PARTNER)] == ["e12"]

    with town(tmp_path, world(*map(happening, EVENTS)), PAUSE) as (_, play):
        play(script)
