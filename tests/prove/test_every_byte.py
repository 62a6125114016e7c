"""The ledger's files, cut or changed at every byte: what is left is a whole prefix, or it is refused.

The files are those of a real ledger whose process was killed. Of the write-ahead log it is known from its own bytes how
many commits are whole; exactly these must be there, in every table, and where one that is missing had sent something,
the ledger must be refused. A mark may be read rightly or refused, and never let a ledger pass that has forgotten a
sending. SQLite's file has no checksums: there a changed bit may be refused, said by whoever looks, found by
``log --verify``, or found by nobody; the last is counted and told, and is never in the action log.

`make test` takes places of each; `make prove` every byte of the mark, of the log every byte of a head and every
thirteenth of a page. ``BYTES_STEP=1`` takes all.
"""

import os
from collections import Counter
from collections.abc import Iterable

import pytest

from tests.prove.damage import (
    MARK_SLOT,
    PAGE,
    Found,
    Left,
    in_memory,
    killed,
    looked_at,
    of_file,
    of_mark,
    of_wal,
    opened,
    put,
    settled,
)
from tests.unit.ledger.examples import after
from worker.engine.operators import after_restore
from worker.ledger.upkeep import accept_restore
from worker.model.commits import Move
from worker.model.errors import NotSafe
from worker.model.writes import Write

pytestmark = pytest.mark.timeout(0)
PARTS = 4
STEP = int(os.environ.get("BYTES_STEP", "13"))
GO_ON = 8
"""At one place in so many, what stands is gone on with and what is refused is opened again."""


def of_the_log(left: Left, step: int) -> list[int]:
    """Every byte of the log's head and of the heads of its frames, and each so manieth of their pages."""
    size = len(left.files["-wal"])
    heads = [at for at in range(size) if at < 32 or (at - 32) % (24 + PAGE) < 24]
    return sorted({*heads, *range(0, size, step)})


def walk_the_log(places: Iterable[int]) -> Counter[str]:
    left, seen = killed(), Counter[str]()
    with in_memory() as folder:
        for number, at in enumerate(places):
            for cut in (True, False):
                became, wrong = of_wal(folder, left, at, cut=cut, on=number % GO_ON == 0)
                assert not wrong, f"{'cut' if cut else 'one bit changed'} at byte {at} of the log: {wrong}"
                seen[f"{'cut' if cut else 'changed'}, {became}"] += 1
    return seen


def walk_the_mark(places: Iterable[int], more: int) -> Counter[str]:
    left, seen = killed(more), Counter[str]()
    with in_memory() as folder:
        for at in places:
            for cut, lost in ((True, True), (True, False), (False, True), (False, False)):
                became, wrong = of_mark(folder, left, at, cut=cut, lost=lost)
                assert not wrong, f"{'cut' if cut else 'one bit changed'} at byte {at} of the mark, {lost=}: {wrong}"
                seen[f"{'cut' if cut else 'changed'}{', a sending lost' if lost else ''}, {became}"] += 1
    return seen


def walk_the_file(places: Iterable[int]) -> Counter[str]:
    files, seen = settled(), Counter[str]()
    with in_memory() as folder:
        right = looked_at(folder, files)
        for at in places:
            became, wrong = of_file(folder, files, right, at)
            assert not wrong, f"one bit changed at byte {at} of the file: {wrong}"
            seen[became] += 1
    return seen


def test_a_log_cut_or_changed_anywhere_is_a_whole_prefix_or_refused() -> None:
    left = killed()
    ends = {end + by for end in left.ends for by in (-1, 0, 1)}
    heads = {frame + by for frame in left.frames[::5] for by in (0, 4, 9, 17)}
    size = len(left.files["-wal"])
    seen = walk_the_log(sorted(({0, 1, 9, 18, 30, 31} | ends | heads | {*range(40, size, size // 60)}) - {size}))
    assert set(seen) == {"cut, stands", "cut, refused", "changed, stands", "changed, refused"}, seen


def by_ann(write: Write) -> Move:
    return after_restore(write, by="ann", now=after(200))


def test_what_was_refused_goes_on_once_a_person_accepts_it_and_every_open_write_waits_for_one() -> None:
    left, accepted = killed(), 0
    with in_memory() as folder:
        for end in (0, *left.ends):
            put(folder, {**left.files, "-wal": left.files["-wal"][: end + 1]})
            if not isinstance(opened(folder), NotSafe):
                continue
            accept_restore(f"sqlite:///{folder}/worker.db", by="ann", now=after(200), restored=by_ann)
            found = opened(folder)
            assert isinstance(found, Found)
            assert found.whole
            assert {write.state for write in found.writes} == {"confirmed", "needs_human"}
            accepted += 1
    assert 0 < accepted < len(left.ends)


@pytest.mark.parametrize("more", [0, 1], ids=["the newest first", "the newest second"])
def test_a_mark_cut_or_changed_anywhere_lets_no_ledger_pass_that_forgot_a_sending(more: int) -> None:
    edges = {0, 1, 150, MARK_SLOT - 1, MARK_SLOT, MARK_SLOT + 1, 2 * MARK_SLOT - 1}
    seen = walk_the_mark(sorted(edges | {*range(7, 180, 19)} | {*range(180, 2 * MARK_SLOT, 611)}), more)
    assert {"cut, stands", "changed, stands"} <= set(seen), "a ledger that lacks nothing is not refused for every harm"


def test_a_changed_file_is_refused_or_said_to_be_damaged_and_its_log_never_lies() -> None:
    size = len(settled()[""])
    seen = walk_the_file([18, *range(100, size, size // 60)])
    assert seen["no difference"], seen
    assert len(seen) > 2, seen


@pytest.mark.prove
@pytest.mark.parametrize("part", range(PARTS))
def test_every_byte_of_the_log(part: int) -> None:
    seen = walk_the_log(of_the_log(killed(), STEP)[part::PARTS])
    print(f"write-ahead log, part {part}: {sum(seen.values())} openings: {dict(sorted(seen.items()))}")  # noqa: T201


@pytest.mark.prove
@pytest.mark.parametrize("more", [0, 1])
def test_every_byte_of_the_mark(more: int) -> None:
    seen = walk_the_mark(range(2 * MARK_SLOT), more)
    print(f"mark, newest in slot {more}: {sum(seen.values())} openings: {dict(sorted(seen.items()))}")  # noqa: T201


@pytest.mark.prove
@pytest.mark.parametrize("part", range(PARTS))
def test_every_so_manieth_byte_of_the_file(part: int) -> None:
    size = len(settled()[""])
    places = sorted({at for at in range(size) if at < 100 or at % PAGE < 32} | {*range(0, size, 2 * STEP - 1)})
    seen = walk_the_file(places[part::PARTS])
    print(f"file, part {part}: {sum(seen.values())} openings: {dict(sorted(seen.items()))}")  # noqa: T201
