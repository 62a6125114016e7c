"""Attempts recorded together: one commit and one mark for all, and to each the same answer as if it came alone."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from tests.unit.ledger.examples import (
    ACME,
    NOW,
    after,
    become,
    commits,
    fired,
    intent,
    key,
    kinds,
    memory,
    no_brake,
    older_mark,
    open_ledger,
    place_in,
    plan,
    planned,
    sent,
    to_sending,
)
from worker.ledger.mark import read_mark
from worker.ledger.sql import SqlLedger, in_memory_ledger
from worker.model.commits import Brake, Commit, LogFilter, Sending, SendingView
from worker.model.errors import SendingUnmarked, StateConflict
from worker.model.writes import Write

FULL = Brake(reason="writes_per_hour", why="full")


def group(
    writes: Sequence[Write],
    at: datetime,
    check: Callable[[SendingView], Brake | None] = no_brake,
    amount: float | None = None,
) -> list[Sending]:
    return [Sending(move=to_sending(write, at), check=check, amount=amount) for write in writes]


def many(ledger: SqlLedger, count: int, action: str = "run") -> tuple[Write, ...]:
    return planned(ledger, *(plan(key(event=f"e{number}"), intent(action)) for number in range(count)))


def test_a_group_is_one_commit_and_one_mark_and_stands_in_its_order(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        writes = many(ledger, 5)
        before = commits(tmp_path)

        assert ledger.record_sendings(group(writes[::-1], after(1))) == (None,) * 5

        assert commits(tmp_path) == before + 1
        log = list(ledger.log(LogFilter(after_seq=5)))
        assert kinds(log) == ["sending"] * 5
        assert [record["write"] for record in log] == [write.id for write in writes[::-1]]
        mark = read_mark(place_in(tmp_path))
        assert mark is not None
        assert (mark.seq, mark.hash) == (10, log[-1]["hash"])
        assert ledger.verify() is None


def test_a_brake_holds_its_own_write_and_no_other(ledger: SqlLedger) -> None:
    first, held, last = many(ledger, 3)
    wanted = group([first, held, last], after(1))
    wanted[1] = replace(wanted[1], check=lambda _: FULL)

    assert ledger.record_sendings(wanted) == (None, FULL, None)

    assert [write.state for write in ledger.writes()] == ["sending", "planned", "sending"]
    assert kinds(list(ledger.log(LogFilter(after_seq=3)))) == ["sending", "sending"]


def test_a_group_of_which_all_are_held_moves_no_mark(ledger: SqlLedger, tmp_path: Path) -> None:
    before = read_mark(place_in(tmp_path))

    assert ledger.record_sendings(group(many(ledger, 2), after(1), lambda _: FULL)) == (FULL, FULL)

    assert read_mark(place_in(tmp_path)) == before


def test_a_row_that_changed_meanwhile_undoes_the_whole_group(ledger: SqlLedger, tmp_path: Path) -> None:
    first, moved = many(ledger, 2)
    become(ledger, moved, "cancelled", after(1))
    before = read_mark(place_in(tmp_path))

    with pytest.raises(StateConflict):
        ledger.record_sendings(group([first, moved], after(2)))

    assert ledger.write(first.id) == first
    assert read_mark(place_in(tmp_path)) == before
    assert ledger.verify() is None


def test_without_its_mark_every_write_of_the_group_is_named_and_none_that_was_held(
    ledger: SqlLedger, tmp_path: Path
) -> None:
    first, held, last = many(ledger, 3)
    wanted = group([first, held, last], after(1))
    wanted[1] = replace(wanted[1], check=lambda _: FULL)
    older_mark(tmp_path)
    (tmp_path / "worker.db.mark.new").mkdir()

    with pytest.raises(SendingUnmarked) as caught:
        ledger.record_sendings(wanted)

    assert [write.id for write in caught.value.writes] == [first.id, last.id]


CASES = (
    "first attempts",
    "sent again",
    "only stops",
    "money",
    "money of yesterday",
    "halted",
    "one target",
    "a message",
)


def prepared(ledger: SqlLedger, case: str) -> tuple[tuple[Write, ...], list[datetime], float | None]:
    """Writes that are ready at once, when each is stamped, and the money that each carries."""
    times = [after(number / 1000) for number in range(4)]
    amount: float | None = None
    if case == "one target":
        return planned(ledger, *(plan(key(number), intent("run")) for number in range(1, 5))), times, amount
    if case == "a message":
        message = replace(intent("notify"), target="")
        return planned(ledger, *(plan(key(event=f"e{n}"), message) for n in range(4))), times, amount
    writes = many(ledger, 4, "pause" if case == "only stops" else "create_draft")
    if case == "sent again":
        again = [become(ledger, sent(ledger, one, after(-9), 50.0), "unknown", after(-8)) for one in writes[:2]]
        return (*again, *writes[2:]), times, 70.0
    if case == "money":
        amount = 100.0
    if case == "money of yesterday":
        (old,) = planned(ledger, plan(key(9), intent("create_draft")))
        sent(ledger, old, after(-13 * 3600), amount=30.0)
        amount = 100.0
        times = [after(-13 * 3600 + 1), *times[1:3], after(13 * 3600)]
    if case == "halted":
        ledger.append_halt(because="a minute", by="anna", at=NOW, until=after(0.002))
        times = [after(0.003), *times[1:]]
    return writes, times, amount


@pytest.mark.parametrize("case", CASES)
def test_each_write_of_a_group_is_shown_what_it_would_be_shown_alone(case: str) -> None:
    def shown(*, together: bool) -> tuple[list[SendingView], list[dict[str, object]]]:
        ledger = in_memory_ledger(NOW)
        ledger.apply(Commit(at=NOW, records=(fired(),), memory=(memory(),)))
        writes, times, amount = prepared(ledger, case)
        views: list[SendingView] = []
        wanted = [
            Sending(move=to_sending(write, at), check=views.append, amount=amount)
            for write, at in zip(writes, times, strict=True)
        ]
        for part in [wanted] if together else [[one] for one in wanted]:
            ledger.record_sendings(part)
        return views, [dict(one) for one in ledger.log(LogFilter())]

    together, alone = shown(together=True), shown(together=False)

    assert together[0] == alone[0]
    assert together[1] == alone[1], "the log is the same to the byte"
    assert len(together[0]) == 4


def test_a_cap_with_room_for_two_lets_two_of_a_group_through(ledger: SqlLedger) -> None:
    def at_most_two(view: SendingView) -> Brake | None:
        return FULL if len(view.sent_last_hour) >= 2 else None

    assert ledger.record_sendings(group(many(ledger, 4), after(1), at_most_two)) == (None, None, FULL, FULL)
    assert len(ledger.first_sendings(ACME, NOW)) == 2
