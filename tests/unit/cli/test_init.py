"""``init``: what it writes works at once, and nothing of somebody's is touched."""

from pathlib import Path

import pytest

from tests.calling import call
from worker.cli.check import starting_files
from worker.config import load_config


def test_what_it_writes_is_checked_and_tested_with_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    done = call("init", "new/here")

    written = [Path(line) for line in done.out.splitlines()]
    assert done.code == 0
    assert {str(file) for file in written} >= {"new/here/config.yaml", "new/here/rules/tests/pause-cancelled.yaml"}
    assert "cd new/here, then campaign-worker check" in done.err
    monkeypatch.chdir("new/here")
    checked, tested = call("check", "--strict"), call("test")
    assert (checked.code, tested.code) == (0, 0), checked.both + tested.both
    assert "2 rules, 0 errors, 0 warnings" in checked.err
    assert "13 tests, 0 failed" in tested.err
    assert load_config(Path("config.yaml")).embedded


def test_an_editor_finds_the_schema_that_each_file_names(tmp_path: Path) -> None:
    call("init", str(tmp_path))

    for file in tmp_path.rglob("*.yaml"):
        first = file.read_text("utf-8").partition("\n")[0]
        assert first.startswith("# yaml-language-server: $schema=")
        assert (file.parent / first.partition("=")[2]).is_file(), first


def test_where_one_of_the_files_is_there_nothing_is_written(tmp_path: Path) -> None:
    mine = tmp_path / "rules" / "pause-cancelled.yaml"
    mine.parent.mkdir()
    mine.write_text("mine", "utf-8")

    call("init", str(tmp_path)).fails(1, f"error: {mine} is there already, so nothing was written")
    assert mine.read_text("utf-8") == "mine"
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [mine]


def test_a_folder_that_cannot_be_written_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")

    call("init", str(tmp_path / "file" / "below")).fails(2, "cannot be written: Not a directory")


def test_where_one_file_cannot_be_written_none_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {**starting_files(), "config.yaml/last": ""}
    monkeypatch.setattr("worker.cli.check.starting_files", lambda: texts)

    call("init", str(tmp_path)).fails(2, "config.yaml cannot be written")
    assert not [file for file in tmp_path.rglob("*") if file.is_file()], "the next call would refuse what is there"


def test_a_missing_config_names_it(tmp_path: Path) -> None:
    call("status", config=tmp_path / "config.yaml").fails(2, "`campaign-worker init` writes one to start from")
