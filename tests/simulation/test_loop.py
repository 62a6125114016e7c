"""The loop itself: order by the seed, time that jumps, and processes that die or stand still."""

import asyncio
import sqlite3
from contextvars import Context
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.simulation.disk import Disk, SimConnection, mounted
from tests.simulation.kernel import Socket, Timers, socket_of
from tests.simulation.loop import OWNER, START_S, Deadlock, Killed, SimLoop
from tests.simulation.mutations import flaw
from worker.api.transport import WINDOW_S
from worker.ledger import database as store
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


def test_what_a_stopped_process_was_about_to_do_it_does_when_it_wakes_or_never_where_it_is_dead_by_then() -> None:
    loop = made()
    did: list[tuple[str, float]] = []

    async def story() -> None:
        for name in ("w1", "w2", "w3"):
            loop.stall(name, 10.0, lambda name=name: did.append((name, loop.time() - START_S)))  # type: ignore[misc]
        loop.waking = lambda name: loop.kill(name) if name == "w3" else None
        await asyncio.sleep(5.0)
        assert loop.stalled("w1")
        loop.kill("w2")
        await asyncio.sleep(60.0)
        assert not loop.stalled("w1")

    loop.run(story())
    assert did == [("w1", 10.0)], "a signal that came meanwhile is delivered first"


def test_the_kernel_ends_a_process_that_was_stopped_at_the_byte_and_no_other() -> None:
    loop = made()
    timers = Timers(loop)
    ended: list[str] = []

    async def hand_over(name: str, seconds: float) -> None:
        with timers.fence():
            loop.stall(name, seconds)
            await asyncio.sleep(0)

    async def story() -> None:
        loop.waking = lambda name: ended.append(name) if timers.ran_out(name) else None
        for name, seconds in (("w1", WINDOW_S - 0.1), ("w2", WINDOW_S + 0.1)):
            owned(loop, name, hand_over(name, seconds))
        await asyncio.sleep(60.0)
        loop.stall("w1", 60.0)  # nowhere near a byte
        await asyncio.sleep(100.0)

    loop.run(story())
    assert ended == ["w2"]


def test_what_the_kernel_was_told_is_read_off_a_real_socket() -> None:
    assert socket_of(7.0) == Socket(discards=True, gives_up_s=7.0)
    with flaw("api.transport:_discard", ("tcp.setsockopt", "0 and tcp.setsockopt"))():
        assert socket_of(7.0) == Socket(discards=False, gives_up_s=7.0)


def test_a_ledger_that_is_exchanged_goes_on_as_another_file_for_whoever_has_it_open(tmp_path: Path) -> None:
    disk = Disk(tmp_path, lambda _what, _owner: None, lambda _owner: None, Random(1))
    before = disk.content()
    opened = sqlite3.connect(disk.file)
    opened.execute("CREATE TABLE newer (number)")
    disk.restore(*before)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        opened.execute("SELECT * FROM newer")
    opened.execute("CREATE TABLE newest (number)")
    disk.exchange(*before)
    assert opened.execute("SELECT count(*) FROM newest").fetchone() == (0,), "this one does not see it"
    anew = sqlite3.connect(disk.file)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        anew.execute("SELECT * FROM newest")
    for one in (opened, anew):
        one.close()


@pytest.mark.parametrize("level", ["FULL", "NORMAL"])
def test_a_power_cut_takes_what_was_not_synced_and_nothing_else(tmp_path: Path, level: str) -> None:
    disk = Disk(tmp_path, lambda _what, _owner: None, lambda _owner: None, Random(1))
    context = Context()
    context.run(OWNER.set, "w1")

    def write() -> None:
        with store._opener(place_of(disk.url), "mode=rw")() as connection:
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
