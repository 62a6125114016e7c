"""Group commit: who is ready in the same turn is recorded together, and nobody is let go before it is on the disk."""

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from tests.unit.ledger.examples import NOW, after, intent, key, moved, no_brake, plan, planned, to_sending
from tests.virtual import VirtualClock, VirtualLoop
from worker.engine.execute import GROUP, Together
from worker.engine.ports import Ledger
from worker.ledger.sql import SqlLedger, in_memory_ledger
from worker.model.commits import Brake, Commit, LogFilter, Sending
from worker.model.errors import LedgerUnwritable, StateConflict
from worker.model.writes import Write

FULL = Brake(reason="writes_per_hour", why="full")


class CountedLedger:
    """The ledger in memory, which says what each of its commits held and can be made to fail."""

    def __init__(self) -> None:
        self.real = in_memory_ledger(NOW)
        self.groups: list[list[int]] = []
        self.outcomes: list[list[int]] = []
        self.full = False

    def record_sendings(self, group: Sequence[Sending]) -> tuple[Brake | None, ...]:
        self._room()
        brakes = self.real.record_sendings(group)
        self.groups.append([one.move.before.id for one in group])
        return brakes

    def apply(self, commit: Commit) -> tuple[Write, ...]:
        self._room()
        made = self.real.apply(commit)
        self.outcomes.append([one.before.id for one in commit.moves])
        return made

    def _room(self) -> None:
        if self.full:
            raise LedgerUnwritable("no space left")

    def kinds(self, write: Write) -> str | None:
        found = self.real.write(write.id)
        return None if found is None else found.state


def made(count: int) -> tuple[CountedLedger, Together, tuple[Write, ...]]:
    ledger = CountedLedger()
    clock = VirtualClock(cast(VirtualLoop, asyncio.get_running_loop()))
    writes = planned(ledger.real, *(plan(key(event=f"e{number}"), intent("run")) for number in range(count)))
    return ledger, Together(cast(Ledger, ledger), clock), writes


def ready(write: Write, check: Callable[..., Brake | None] = no_brake) -> Callable[[], Sending]:
    return lambda: Sending(move=to_sending(write, after(1)), check=check, amount=None)


async def test_all_that_are_ready_in_one_turn_share_a_commit_in_the_order_in_which_they_asked() -> None:
    ledger, together, writes = made(5)

    await asyncio.gather(*(together.sending(ready(write)) for write in writes[::-1]))

    assert ledger.groups == [[write.id for write in writes[::-1]]]


async def test_nobody_is_let_go_before_the_commit() -> None:
    ledger, together, writes = made(3)
    seen: list[list[str | None]] = []

    async def attempt(write: Write) -> None:
        recorded = await together.sending(ready(write))
        assert recorded.sending is not None
        seen.append([ledger.kinds(one) for one in writes])

    await asyncio.gather(*map(attempt, writes))

    assert seen == [["sending"] * 3] * 3


async def test_a_group_is_no_larger_than_its_limit_and_none_is_forgotten() -> None:
    ledger, together, writes = made(2 * GROUP + 1)

    await asyncio.gather(*(together.sending(ready(write)) for write in writes))

    assert [len(group) for group in ledger.groups] == [GROUP, GROUP, 1]


async def test_a_commit_that_fails_fails_its_whole_group() -> None:
    ledger, together, writes = made(3)
    ledger.full = True

    found = await asyncio.gather(*(together.sending(ready(write)) for write in writes), return_exceptions=True)

    assert [type(one) for one in found] == [LedgerUnwritable] * 3
    assert {ledger.kinds(write) for write in writes} == {"planned"}


async def test_one_that_is_in_the_way_holds_up_no_other() -> None:
    ledger, together, (first, moved_meanwhile, broken, last) = made(4)
    ledger.real.apply(Commit(at=NOW, moves=(moved(moved_meanwhile, "cancelled", after(0.5)),)))

    def defect(_: object) -> Brake | None:
        raise RuntimeError("a defect in a brake")

    found = await asyncio.gather(
        together.sending(ready(first)),
        together.sending(ready(moved_meanwhile)),
        together.sending(ready(broken, defect)),
        together.sending(ready(last)),
        return_exceptions=True,
    )

    assert [type(one).__name__ for one in found] == ["Recorded", "StateConflict", "RuntimeError", "Recorded"]
    assert [ledger.kinds(one) for one in (first, broken, last)] == ["sending", "planned", "sending"]
    assert ledger.real.verify() is None


async def test_a_brake_comes_back_to_its_own_write() -> None:
    _, together, (free, held) = made(2)

    found = await asyncio.gather(together.sending(ready(free)), together.sending(ready(held, lambda _: FULL)))

    assert [one.brake for one in found] == [None, FULL]


async def test_who_no_longer_waits_or_no_longer_wants_is_not_recorded() -> None:
    ledger, together, (gone, unwilling, broken, wanted) = made(4)

    def defect() -> Sending:
        raise RuntimeError("a defect in the last look")

    tasks = [
        asyncio.ensure_future(together.sending(asked)) for asked in (ready(gone), lambda: None, defect, ready(wanted))
    ]
    await asyncio.sleep(0)  # all have asked, and the turn is not over
    tasks[0].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)

    assert ledger.groups == [[wanted.id]]
    assert isinstance(found[0], asyncio.CancelledError)
    assert not isinstance(found[1], BaseException)
    assert found[1].sending is None
    assert isinstance(found[2], RuntimeError)
    assert [ledger.kinds(one) for one in (gone, unwilling, broken)] == ["planned"] * 3


async def under_way(together: Together, writes: Sequence[Write]) -> list[Write]:
    recorded = await asyncio.gather(*(together.sending(ready(write)) for write in writes))
    return [one.sending.move.after for one in recorded if one.sending is not None]


async def test_answers_heard_in_one_turn_are_one_commit_before_what_is_to_be_sent_next() -> None:
    ledger, together, writes = made(4)
    sending = await under_way(together, writes[:3])

    await asyncio.gather(
        together.sending(ready(writes[3])), *(together.outcome(moved(one, "applied", after(2))) for one in sending)
    )

    assert ledger.outcomes == [[one.id for one in sending]]
    assert [ledger.kinds(one) for one in writes] == [*["applied"] * 3, "sending"]
    assert [one["kind"] for one in _log(ledger.real)][-1] == "sending"


async def test_an_answer_is_stored_also_for_who_no_longer_waits() -> None:
    ledger, together, writes = made(1)
    (sending,) = await under_way(together, writes)
    task = asyncio.ensure_future(together.outcome(moved(sending, "applied", after(2))))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    await asyncio.sleep(0)
    assert ledger.kinds(sending) == "applied"


async def test_an_answer_that_cannot_be_stored_is_said_to_each_and_a_conflict_only_to_its_own() -> None:
    ledger, together, writes = made(2)
    first, last = await under_way(together, writes)
    told = [moved(first, "applied", after(2)), moved(last, "applied", after(2))]
    ledger.full = True
    found = await asyncio.gather(*map(together.outcome, told), return_exceptions=True)
    assert [type(one) for one in found] == [LedgerUnwritable] * 2

    ledger.full = False
    ledger.real.apply(Commit(at=after(2), moves=(moved(first, "unknown", after(2)),)))
    found = await asyncio.gather(*map(together.outcome, told), return_exceptions=True)

    assert isinstance(found[0], StateConflict)
    assert found[1] is None
    assert ledger.kinds(last) == "applied"


def _log(ledger: SqlLedger) -> list[dict[str, object]]:
    return [dict(one) for one in ledger.log(LogFilter())]
