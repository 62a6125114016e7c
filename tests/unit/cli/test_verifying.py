"""An auditor gets a file and a head, and needs nothing else to see whether the one belongs to the other."""

import io
import json
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from tests.builders import cases
from tests.calling import Called, call, settle_in
from tests.unit.ledger.examples import NOW, fired, open_ledger
from worker.model.commits import Commit

RECORDS = 5
FORMS = ("jsonl", "csv", "json")
Log = Callable[..., Called]


def log_in(folder: Path, *whys: str) -> Log:
    """The command `log` in a folder whose ledger has these records."""
    config = settle_in(folder)
    with open_ledger(folder) as ledger:
        records = tuple(fired(NOW + timedelta(seconds=place), why=why) for place, why in enumerate(whys))
        ledger.apply(Commit(at=NOW, records=records))
    return lambda *arguments: call("log", *arguments, config=config)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return log_in(tmp_path, *(f"=look {one}" for one in range(RECORDS)))


def exported(log: Log, form: str, folder: Path) -> tuple[Path, str]:
    """The file of an export, and the head that was said beside it."""
    done = log("--format", form)
    assert done.code == 0
    file = folder / f"log.{form}"
    file.write_text(done.out, "utf-8", newline="")
    return file, done.err.strip().removeprefix("head ")


@pytest.mark.parametrize("form", FORMS)
def test_an_export_is_verified_with_nothing_but_the_file_and_the_head(
    log: Log, form: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file, head = exported(log, form, tmp_path)
    elsewhere = settle_in(tmp_path_factory.mktemp("another machine"))
    done = call("log", "--verify", "--from", str(file), "--against", head, config=elsewhere)
    assert done.code == 0
    assert done.out == f"the chain holds from the first record: {RECORDS} records; head {head}\n"


def without(file: Path, form: str, left_out: int) -> None:
    """The export less this record."""
    text = file.read_text("utf-8")
    if form == "json":
        kept = [one for one in json.loads(text) if one["seq"] != left_out]
        file.write_text(json.dumps(kept, indent=2), "utf-8")
        return
    lines = text.splitlines(keepends=True)
    del lines[left_out - (form != "csv")]  # a CSV begins with its names
    file.write_text("".join(lines), "utf-8")


@pytest.mark.parametrize("form", FORMS)
def test_a_changed_word_a_cut_end_and_a_record_left_out_are_found_out(log: Log, form: str, tmp_path: Path) -> None:
    file, head = exported(log, form, tmp_path)
    whole = file.read_text("utf-8")
    file.write_text(whole.replace("look 3", "look 4"), "utf-8")
    changed = log("--verify", "--from", str(file), "--against", head)
    file.write_text(whole, "utf-8", newline="")
    without(file, form, 5)
    cut = log("--verify", "--from", str(file), "--against", head)
    without(file, form, 3)
    narrowed = log("--verify", "--from", str(file))

    assert (changed.code, "record 4 was changed" in changed.out) == (1, True)
    assert (cut.code, "its end was cut off" in cut.out) == (1, True)
    assert (narrowed.code, "record 3 is missing: 4 stands in its place" in narrowed.out) == (1, True)


def test_an_export_is_held_against_every_head_that_is_given(log: Log, tmp_path: Path) -> None:
    file, head = exported(log, "jsonl", tmp_path)
    first = f"1:{json.loads(file.read_text('utf-8').splitlines()[0])['hash']}"

    def held(*heads: str) -> int:
        return log("--verify", "--from", str(file), *(word for one in heads for word in ("--against", one))).code

    for wrong in (f"1:{'0' * 12}", f"{RECORDS}:{'0' * 12}"):
        assert (held(wrong, head), held(head, wrong)) == (1, 1)
    assert (held(first, head), held(head, first)) == (0, 0)


def test_the_ledger_itself_is_held_against_a_head_of_earlier(log: Log, tmp_path: Path) -> None:
    _, head = exported(log, "jsonl", tmp_path)
    right = log("--verify", "--against", head)
    later = log("--verify", "--against", head.replace("5:", "9:"))

    assert (right.code, f"the chain holds: {RECORDS} records; head {head}" in right.out) == (0, True)
    assert (later.code, "has no record 9" in later.out) == (1, True)


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_log_has_a_head_too(tmp_path: Path, form: str) -> None:
    log = log_in(tmp_path)
    file, head = exported(log, form, tmp_path)
    assert head.splitlines()[-1].endswith("0:" + "0" * 64)
    if form != "jsonl":
        assert log("--verify", "--from", str(file)).code == 0
    assert log("--verify", "--from", str(file), "--against", "0:" + "0" * 64).code == 0


def test_an_empty_file_is_no_export_unless_the_head_says_that_the_log_was_empty(log: Log, tmp_path: Path) -> None:
    empty = tmp_path / "e.csv"
    empty.write_bytes(b"")
    bare = log("--verify", "--from", str(empty))
    of_none = log("--verify", "--from", str(empty), "--against", f"0:{'0' * 64}")
    of_some = log("--verify", "--from", str(empty), "--against", f"5:{'a' * 64}")

    bare.fails(2, "e.csv: this is no export: it is empty")
    assert (of_none.code, "holds from the first record: 0 records" in of_none.out) == (0, True)
    assert (of_some.code, "its end was cut off" in of_some.out) == (1, True)


def test_a_part_has_no_head_of_its_own(log: Log) -> None:
    done = log("--format", "jsonl", "--rule", "pause-cancelled")
    assert (done.code, "head" in done.err) == (0, False)


@cases(
    "arguments, words",
    (("--against", "5:abc", "--verify"), "SEQ:HASH", "no hash"),
    (("--against", "5:" + "a" * 11, "--verify"), "SEQ:HASH", "too short a hash"),
    (("--against", "5:" + "a" * 65, "--verify"), "SEQ:HASH", "too long a hash"),
    (("--from", "x"), "go with --verify", "a file and nothing to do"),
    (("--verify", "--from", "there is none"), "cannot be read", "a file that is not there"),
    (("--verify", "--from", "rules/rules.yaml"), "no export", "another file"),
)
def test_wrong_usage_says_what_to_do(
    log: Log, arguments: Sequence[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log(*arguments).fails(2, words)


def test_a_quote_that_is_not_closed_makes_no_export(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, head = exported(log, "csv", tmp_path)
    file.write_text(file.read_text("utf-8").replace("'=look 3", '"look 3'), "utf-8")
    monkeypatch.setattr("worker.ledger.log.CELL_MAX", 100)
    log("--verify", "--from", str(file), "--against", head).fails(2, "this is no export: field larger than")


def test_an_export_may_come_from_a_pipe(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, head = exported(log, "csv", tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert log("--verify", "--from", "-", "--against", head).code == 0


@pytest.mark.parametrize("digits", [12, 13, 64])
def test_the_beginning_of_a_hash_is_enough_to_know_the_log_by(log: Log, digits: int, tmp_path: Path) -> None:
    file, head = exported(log, "jsonl", tmp_path)
    begun = head[: head.index(":") + 1 + digits]
    other = begun[:-1] + ("0" if begun[-1] != "0" else "1")

    for source in ((), ("--from", str(file))):
        assert log("--verify", *source, "--against", begun).code == 0
        wrong = log("--verify", *source, "--against", other)
        assert (wrong.code, "another hash than the head" in wrong.out) == (1, True)
