"""An auditor gets a file and a head, and needs nothing else to see whether the one belongs to the other."""

import io
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
import typer

from tests.unit.ledger.examples import NOW, fired
from worker.cli.app import app
from worker.cli.log import log as log_command
from worker.cli.verifying import head_of
from worker.ledger.sql import SqlLedger
from worker.model.commits import Commit
from worker.model.errors import UsageError

RECORDS = 5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text("{}\n", "utf-8")
    with SqlLedger.open("sqlite:///worker.db", clock_now=lambda: NOW, folder=tmp_path) as ledger:
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


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_an_export_is_verified_with_nothing_but_the_file_and_the_head(
    folder: Path, form: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    file, head = exported(folder, form, capsys)
    elsewhere = tmp_path_factory.mktemp("another machine")
    assert call(elsewhere, "--verify", "--from", str(file), "--against", head) == 0
    assert capsys.readouterr().out == f"the chain holds from the first record: {RECORDS} records; head {head}\n"


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [line.replace("look 3", "look 4") for line in lines], "record 4 was changed"),
        (lambda lines: lines[:-1], "its end was cut off"),
    ],
    ids=["a word is changed", "the end is cut off"],
)
def test_a_file_that_was_touched_is_found_out(
    folder: Path, form: str, change: object, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(change)
    file, head = exported(folder, form, capsys)
    lines: Sequence[str] = change(file.read_text("utf-8").splitlines(keepends=True))
    file.write_text("".join(lines), "utf-8")
    assert call(folder, "--verify", "--from", str(file), "--against", head) == 1
    assert words in capsys.readouterr().out


def test_a_part_of_the_log_holds_and_is_called_a_part(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _ = exported(folder, "jsonl", capsys)
    lines = file.read_text("utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[2:]), "utf-8")
    assert call(folder, "--verify", "--from", str(file)) == 0
    assert "at 1 place others are not there" in capsys.readouterr().out


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


def test_an_empty_log_has_a_head_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text("{}\n", "utf-8")
    with SqlLedger.open("sqlite:///worker.db", clock_now=lambda: NOW, folder=tmp_path):
        pass
    file, head = exported(tmp_path, "csv", capsys)
    assert head.splitlines()[-1].endswith("0:" + "0" * 64)
    assert call(tmp_path, "--verify", "--from", str(file)) == 0


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
    assert head_of(None) is None
