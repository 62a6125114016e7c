"""The mark: replaced with one sync, without touching what stands: the old or the new one at any moment."""

import os
from pathlib import Path
from unittest.mock import Mock, call

import pytest

from tests.builders import NOW, cases
from tests.unit.ledger.examples import mark_in, older_mark, open_ledger, place_in, planned, sent
from worker.ledger import mark as marks
from worker.ledger.lock import SenderLock
from worker.ledger.mark import SLOT_BYTES, SLOTS, Mark, read_mark, write_mark
from worker.ledger.places import LedgerPlace
from worker.ledger.sql import create
from worker.model.errors import LedgerUnwritable, NotSafe

OLD, NEW = (Mark(ledger_id="a" * 32, seq=seq, hash=f"{seq:064x}") for seq in (7, 8))
NEXT = Mark(ledger_id=OLD.ledger_id, seq=9, hash="9" * 64)


def place_with(folder: Path, *marks: Mark) -> LedgerPlace:
    place = place_in(folder)
    for mark in marks:
        write_mark(place, mark)
    return place


def identity(place: LedgerPlace) -> int:
    return place.mark.stat().st_ino


def test_marks_follow_one_another_in_the_same_file(tmp_path: Path) -> None:
    place = place_with(tmp_path, OLD)
    file = identity(place)

    for mark in (NEW, NEXT):
        write_mark(place, mark)
        assert read_mark(place) == mark

    assert identity(place) == file
    assert place.mark.stat().st_size == SLOTS * SLOT_BYTES


@pytest.mark.parametrize("which", [(OLD, NEW), (OLD, NEW, NEXT)])
@pytest.mark.parametrize("end_first", [False, True], ids=["its beginning", "its end"])
def test_a_mark_of_which_only_a_part_got_to_the_disk_is_the_old_or_the_new_one(
    tmp_path: Path, which: tuple[Mark, ...], end_first: bool
) -> None:
    *_, before, after = which
    place = place_with(tmp_path, *which[:-1])
    old = place.mark.read_bytes()
    write_mark(place, after)
    new = place.mark.read_bytes()
    seen = set()

    for cut in range(0, len(new), 13):
        place.mark.write_bytes(old[:cut] + new[cut:] if end_first else new[:cut] + old[cut:])
        found = read_mark(place)
        assert found in (before, after), f"cut after {cut} bytes"
        seen.add(found)

    assert seen == {before, after}


def test_a_spoilt_block_leaves_the_mark_before_it_and_can_be_written_over(tmp_path: Path) -> None:
    place = place_with(tmp_path, OLD, NEW)
    body = bytearray(place.mark.read_bytes())
    newest = body.index(NEW.hash.encode()) // SLOT_BYTES
    body[newest * SLOT_BYTES : (newest + 1) * SLOT_BYTES] = bytes(SLOT_BYTES)
    place.mark.write_bytes(body)
    file = identity(place)

    assert read_mark(place) == OLD
    write_mark(place, NEXT)

    assert read_mark(place) == NEXT
    assert identity(place) == file
    assert OLD.hash.encode() in place.mark.read_bytes(), "the one that was whole was not touched"


@cases(
    "mark",
    (OLD, "an older one: the ledger was restored, and that was accepted"),
    (Mark(ledger_id="b" * 32, seq=99, hash="c" * 64), "another ledger's"),
)
def test_a_mark_that_does_not_follow_is_a_new_file_without_the_one_before(tmp_path: Path, mark: Mark) -> None:
    place = place_with(tmp_path, OLD, NEW)

    write_mark(place, mark)

    assert read_mark(place) == mark
    assert NEW.hash.encode() not in place.mark.read_bytes()


def test_the_mark_of_an_older_program_is_read_and_then_replaced(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        (write,) = planned(ledger)
        older_mark(tmp_path)

    with open_ledger(tmp_path) as ledger:
        sent(ledger, write, write.planned_at)
        assert mark_in(tmp_path).seq == ledger.last_seq()


def test_a_mark_that_cannot_be_opened_is_an_unwritable_ledger(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    place.mark.mkdir()

    with pytest.raises(LedgerUnwritable, match="mark"):
        write_mark(place, OLD)


def test_a_mark_that_another_user_made_is_replaced_where_its_folder_allows_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_with(tmp_path, OLD)
    really_open = os.open

    def refuse(path: str | Path, flags: int, *more: int) -> int:
        if path == place.mark and flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return really_open(path, flags, *more)

    monkeypatch.setattr(os, "open", refuse)
    write_mark(place, NEW)

    assert read_mark(place) == NEW


def test_what_a_command_of_roots_has_made_is_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A halt by root, while no worker ran, left a mark that the worker could not read: it did not start any more. So it
    was with the file and the lock that root's `ledger accept-restore` made."""
    owner, given, place = tmp_path.stat(), Mock(), place_in(tmp_path)
    monkeypatch.setattr(os, "chown", given)
    SenderLock.acquire(place, now=NOW).release()
    create(place, NOW)
    write_mark(place, OLD)
    made = place.mark.with_name(f"{place.mark.name}.new")
    assert given.call_args_list == [
        call(file, owner.st_uid, owner.st_gid, follow_symlinks=False) for file in (place.lock, place.file, made)
    ]

    SenderLock.acquire(place, now=NOW).release()
    assert given.call_count == 3, "what was there keeps its owner"
    given.side_effect = PermissionError(1, "Operation not permitted")
    write_mark(place, NEW, anew=True)
    assert read_mark(place) == NEW, "nothing depends on it"


def test_a_mark_that_this_user_may_not_read_is_not_taken_for_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "read_bytes", Mock(side_effect=PermissionError(13, "Permission denied")))
    with pytest.raises(NotSafe, match="Permission denied") as caught:
        read_mark(place_in(tmp_path))
    assert "chown" in caught.value.hint


def test_a_mark_whose_sync_failed_is_written_as_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_with(tmp_path, OLD)
    file = identity(place)

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(marks, "_sync", fail)
    write_mark(place, NEW)

    assert read_mark(place) == NEW
    assert identity(place) != file, "what reads show of the old one may not be on the disk"
    assert OLD.hash.encode() not in place.mark.read_bytes()


@cases(
    "marks, kept, left",
    ((OLD, NEW), SLOT_BYTES, OLD, "the older one is left, and nothing shows that there was a newer"),
    ((OLD, NEW), 600, OLD, "the same within what fills the slot"),
    ((OLD, NEW, NEXT), SLOT_BYTES, NEXT, "the newest one is left, and nothing shows that it is"),
)
def test_a_mark_that_was_cut_off_says_that_a_newer_one_may_be_missing(
    tmp_path: Path, marks: tuple[Mark, ...], kept: int, left: Mark
) -> None:
    place = place_with(tmp_path, *marks)
    place.mark.write_bytes(place.mark.read_bytes()[:kept])

    found = mark_in(tmp_path)

    assert (found, found.alone) == (left, True)
    later = Mark(ledger_id=OLD.ledger_id, seq=10, hash="8" * 64)
    write_mark(place, later)
    after = mark_in(tmp_path)
    assert (after, after.alone) == (later, False), "the next one makes the file whole again"


def test_a_mark_whose_only_line_was_changed_is_not_taken_for_one_of_an_older_program(tmp_path: Path) -> None:
    place = place_with(tmp_path, OLD)
    place.mark.write_bytes(place.mark.read_bytes()[:SLOT_BYTES].replace(b'"seq": 7', b'"seq": 5'))

    with pytest.raises(NotSafe, match="damaged"):
        read_mark(place)


@pytest.mark.parametrize(
    "body",
    [
        b'{"ledger":"x","seq":1e999,"hash":"y"}',
        b'{"ledger":"x","seq":9223372036854775808,"hash":"y"}',
        b"[" * 9000,
        bytes(SLOTS * SLOT_BYTES),
    ],
)
def test_a_mark_that_no_program_wrote_is_refused_in_words(tmp_path: Path, body: bytes) -> None:
    place = LedgerPlace(file=tmp_path / "worker.db")
    place.mark.write_bytes(body)
    with pytest.raises(NotSafe, match="cannot be read"):
        read_mark(place)
