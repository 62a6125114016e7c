"""The loop itself: order by the seed, time that jumps, and processes that die or stand still."""

import asyncio
import sqlite3
from contextvars import Context
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.simulation.disk import Disk, SimConnection, mounted
from tests.simulation.loop import OWNER, START_S, Deadlock, Killed, SimLoop
from worker.ledger import store
from worker.ledger.places import place_of


def made(seed: int = 1) -> SimLoop:
    return SimLoop(Random(seed))  # type: ignore[abstract]  # what nobody asks for stays so


def owned(loop: SimLoop, owner: str, work: Any) -> "asyncio.Task[None]":  # noqa: ANN401 - a coroutine
    context = Context()
    context.run(OWNER.set, owner)
    return loop.create_task(work, context=context)


def order(seed: int) -> list[int]:
    """In which order twenty callbacks run that are all ready at once."""
    loop = made(seed)
    seen: list[int] = []

    async def story() -> None:
        for number in range(20):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(1.0)

    loop.run(story())
    return seen


def test_the_seed_and_nothing_else_picks_what_runs_next() -> None:
    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(2)) == list(range(20))


def test_time_jumps_to_the_next_timer_and_waiting_for_nothing_is_an_error() -> None:
    loop = made()

    async def story() -> float:
        await asyncio.sleep(3600.0)
        return loop.time()

    assert loop.run(story()) == START_S + 3600.0

    async def nothing() -> None:
        await loop.create_future()

    with pytest.raises(Deadlock):
        loop.run(nothing())


def test_a_killed_process_runs_nothing_more_not_even_its_clean_up() -> None:
    loop = made()
    did: list[str] = []

    async def work() -> None:
        try:
            while True:
                await asyncio.sleep(1.0)
                did.append("step")
        finally:
            did.append("clean-up")

    async def story() -> None:
        owned(loop, "w1", work())
        await asyncio.sleep(2.5)
        loop.kill("w1")
        await asyncio.sleep(60.0)

    loop.run(story())
    assert did == ["step", "step"]


def test_a_stalled_process_goes_on_where_it_was_while_others_never_stopped() -> None:
    loop = made()
    seen: list[tuple[str, float]] = []

    async def work(name: str) -> None:
        for _ in range(4):
            await asyncio.sleep(1.0)
            seen.append((name, loop.time() - START_S))

    async def story() -> None:
        owned(loop, "w1", work("w1"))
        owned(loop, "w2", work("w2"))
        await asyncio.sleep(1.5)
        loop.stall("w1", 10.0)
        await asyncio.sleep(60.0)

    loop.run(story())
    assert [at for name, at in seen if name == "w2"] == [1.0, 2.0, 3.0, 4.0]
    assert [at for name, at in seen if name == "w1"] == [1.0, 11.5, 12.5, 13.5]


@pytest.mark.parametrize("level", ["FULL", "NORMAL"])
def test_a_power_cut_takes_what_was_not_synced_and_nothing_else(tmp_path: Path, level: str) -> None:
    disk = Disk(tmp_path, lambda _what, _owner: None, lambda _owner: None, Random(1))
    context = Context()
    context.run(OWNER.set, "w1")

    def write() -> None:
        with store._connector(place_of(disk.url), "mode=rw")() as connection:
            assert isinstance(connection, SimConnection)
            connection.execute(f"PRAGMA synchronous={level}")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE kept (number)")
            connection.execute("INSERT INTO kept VALUES (1)")
            connection.commit()

    with mounted(disk):
        context.run(write)
        disk.power_cut()
        disk.as_left()
        disk.reap("w1")
    found = sqlite3.connect(disk.file)
    there = found.execute("SELECT count(*) FROM sqlite_master WHERE name = 'kept'").fetchone()[0]
    found.close()
    assert there == (level == "FULL")


def test_a_dead_process_cannot_touch_the_world() -> None:
    loop = made()
    loop.kill("w1")
    assert not loop.alive("w1")
    assert issubclass(Killed, BaseException)
    assert not issubclass(Killed, Exception), "no handler of the worker may catch it"
