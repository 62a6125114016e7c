"""An auditor gets a file and a head, and needs nothing else to see whether the one belongs to the other."""

import io
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import typer

from tests.unit.ledger.examples import NOW, fired
from worker.cli.app import app
from worker.cli.log import heads_of
from worker.cli.log import log as log_command
from worker.ledger.sql import SqlLedger
from worker.model.commits import Commit
from worker.model.errors import UsageError
from worker.model.facts import RuleId

RECORDS = 5
FORMS = ("jsonl", "csv", "json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text("{}\n", "utf-8")
    with SqlLedger.open(f"sqlite:///{tmp_path}/worker.db", clock_now=lambda: NOW) as ledger:
        records = tuple(fired(NOW + timedelta(seconds=one), why=f"=look {one}") for one in range(RECORDS))
        ledger.apply(Commit(at=NOW, records=records))
    return tmp_path


def call(folder: Path, *arguments: str) -> int:
    """Runs ``log`` as the shell would; the code it ends with."""
    assert log_command is not None
    try:
        ended = app(["--config", str(folder / "config.yaml"), "log", *arguments], standalone_mode=False)
    except typer.Exit as stop:
        return stop.exit_code
    return ended if isinstance(ended, int) else 0


def exported(folder: Path, form: str, capsys: pytest.CaptureFixture[str]) -> tuple[Path, str]:
    """The file of an export, and the head that was said beside it."""
    assert call(folder, "--format", form) == 0
    said = capsys.readouterr()
    file = folder / f"log.{form}"
    file.write_text(said.out, "utf-8", newline="")
    return file, said.err.strip().removeprefix("head ")


@pytest.mark.parametrize("form", FORMS)
def test_an_export_is_verified_with_nothing_but_the_file_and_the_head(
    folder: Path, form: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    file, head = exported(folder, form, capsys)
    elsewhere = tmp_path_factory.mktemp("another machine")
    assert call(elsewhere, "--verify", "--from", str(file), "--against", head) == 0
    assert capsys.readouterr().out == f"the chain holds from the first record: {RECORDS} records; head {head}\n"


def without(file: Path, form: str, *left_out: int) -> None:
    """The export less these records."""
    text = file.read_text("utf-8")
    if form == "json":
        kept = [one for one in json.loads(text) if one["seq"] not in left_out]
        file.write_text(json.dumps(kept, indent=2), "utf-8")
        return
    lines = text.splitlines(keepends=True)
    first = 1 if form == "csv" else 0  # the line of record 1
    places = {first + seq - 1 for seq in left_out}
    file.write_text("".join(line for place, line in enumerate(lines) if place not in places), "utf-8")


@pytest.mark.parametrize("form", FORMS)
def test_a_word_that_was_changed_is_found_out(folder: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    file, head = exported(folder, form, capsys)
    file.write_text(file.read_text("utf-8").replace("look 3", "look 4"), "utf-8")
    assert call(folder, "--verify", "--from", str(file), "--against", head) == 1
    assert "record 4 was changed" in capsys.readouterr().out


@pytest.mark.parametrize("form", FORMS)
def test_an_end_that_was_cut_off_is_found_out(folder: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    file, head = exported(folder, form, capsys)
    without(file, form, 5)
    assert call(folder, "--verify", "--from", str(file), "--against", head) == 1
    assert "its end was cut off" in capsys.readouterr().out


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        ((3,), "the chain is broken at seq 3: record 3 is missing: 4 stands in its place"),
        ((1, 4), "the chain is broken at seq 1: record 1 is missing"),
        ((1, 2, 3, 4), "the chain is broken at seq 1: record 1 is missing: 5 stands in its place"),
        ((2, 4, 5), "the chain is broken at seq 2: record 2 is missing"),
    ],
    ids=["one in the middle", "several", "all but the head's", "the head's own as well"],
)
@pytest.mark.parametrize("bound", [True, False], ids=["with the head", "without it"])
def test_an_export_with_records_left_out_does_not_hold(
    folder: Path,
    form: str,
    left_out: tuple[int, ...],
    words: str,
    bound: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, head = exported(folder, form, capsys)
    without(file, form, *left_out)
    against = ("--against", head) if bound else ()

    assert call(folder, "--verify", "--from", str(file), *against) == 1
    assert words in capsys.readouterr().out


def test_a_narrowed_export_does_not_hold(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SqlLedger.open(f"sqlite:///{folder}/worker.db", clock_now=lambda: NOW) as ledger:
        other = replace(fired(NOW, why="other"), rule=RuleId("other-rule"))
        ledger.apply(Commit(at=NOW, records=(other, fired(NOW + timedelta(seconds=9)))))
    assert call(folder, "--verify") == 0
    head = capsys.readouterr().out.split("head ")[1].strip()
    assert call(folder, "--format", "csv", "--rule", "other-rule") == 0
    part = folder / "part.csv"
    part.write_text(capsys.readouterr().out, "utf-8", newline="")

    assert call(folder, "--verify", "--from", str(part), "--against", head) == 1
    assert "record 1 is missing" in capsys.readouterr().out


def test_records_that_came_after_the_head_are_not_what_was_exported_with_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, head = exported(folder, "jsonl", capsys)
    with SqlLedger.open(f"sqlite:///{folder}/worker.db", clock_now=lambda: NOW) as ledger:
        ledger.apply(Commit(at=NOW, records=(fired(NOW, why="later"),)))
    later, _ = exported(folder, "jsonl", capsys)

    assert call(folder, "--verify", "--from", str(later), "--against", head) == 1
    assert f"broken at seq {RECORDS + 1}: what stands after the head came later" in capsys.readouterr().out


def test_the_ledger_itself_is_held_against_a_head_of_earlier(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, head = exported(folder, "jsonl", capsys)
    assert call(folder, "--verify", "--against", head) == 0
    assert f"the chain holds: {RECORDS} records; head {head}" in capsys.readouterr().out
    other = head.replace(head[-6:], "0" * 6)
    assert call(folder, "--verify", "--against", other) == 1
    assert "another hash than the head" in capsys.readouterr().out
    later = head.replace("5:", "9:")
    assert call(folder, "--verify", "--against", later) == 1
    assert "has no record 9" in capsys.readouterr().out


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_log_has_a_head_too(tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text("{}\n", "utf-8")
    with SqlLedger.open(f"sqlite:///{tmp_path}/worker.db", clock_now=lambda: NOW):
        pass
    file, head = exported(tmp_path, form, capsys)
    assert head.splitlines()[-1].endswith("0:" + "0" * 64)
    if form != "jsonl":
        assert call(tmp_path, "--verify", "--from", str(file)) == 0
    assert call(tmp_path, "--verify", "--from", str(file), "--against", "0:" + "0" * 64) == 0


def test_an_empty_file_is_no_export_unless_the_head_says_that_the_log_was_empty(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "e.csv"
    empty.write_bytes(b"")
    with pytest.raises(UsageError, match=r"e\.csv: this is no export: it is empty"):
        call(folder, "--verify", "--from", str(empty))
    assert capsys.readouterr().out == ""
    assert call(folder, "--verify", "--from", str(empty), "--against", f"0:{'0' * 64}") == 0
    assert "holds from the first record: 0 records" in capsys.readouterr().out
    assert call(folder, "--verify", "--from", str(empty), "--against", f"5:{'a' * 64}") == 1
    assert "its end was cut off" in capsys.readouterr().out


def test_a_part_has_no_head_of_its_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(folder, "--format", "jsonl", "--rule", "pause-cancelled") == 0
    assert "head" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--against", "5:abc", "--verify"), "SEQ:HASH"),
        (("--against", "5:" + "a" * 11, "--verify"), "SEQ:HASH"),
        (("--against", "5:" + "a" * 65, "--verify"), "SEQ:HASH"),
        (("--from", "x"), "go with --verify"),
        (("--verify", "--from", "there is none"), "cannot be read"),
        (("--verify", "--from", "config.yaml"), "no export"),
        (("--verify", "--follow"), "cannot be narrowed"),
    ],
)
def test_wrong_usage_says_what_to_do(
    folder: Path, arguments: Sequence[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(UsageError, match=words):
        call(folder, *arguments)


def test_an_export_may_come_from_a_pipe(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, head = exported(folder, "csv", capsys)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert call(folder, "--verify", "--from", "-", "--against", head) == 0


def test_no_head_is_no_head() -> None:
    assert heads_of(None) == []


@pytest.mark.parametrize("digits", [12, 13, 64])
def test_the_beginning_of_a_hash_is_enough_to_know_the_log_by(
    folder: Path, digits: int, capsys: pytest.CaptureFixture[str]
) -> None:
    file, head = exported(folder, "jsonl", capsys)
    begun = head[: head.index(":") + 1 + digits]
    other = begun[:-1] + ("0" if begun[-1] != "0" else "1")

    assert call(folder, "--verify", "--against", begun) == 0
    assert call(folder, "--verify", "--from", str(file), "--against", begun) == 0
    assert call(folder, "--verify", "--against", other) == 1
    assert call(folder, "--verify", "--from", str(file), "--against", other) == 1
