"""The door to the shell: lost output, the help, and what the table of commands promises."""

import io
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, redirect_stderr, redirect_stdout
from inspect import cleandoc
from pathlib import Path
from typing import TextIO

import pytest
from typer.testing import CliRunner

from tests.builders import cases
from tests.calling import call, settle_in
from tests.reference.commands import commands
from tests.unit.rules.test_files import folder_of_somebody, without_rights
from worker.cli.app import COMMANDS, app, flowing, main

LONG = ("schema", "config")
"""More than fits into a buffer."""
SHORT = ("--version",)
HELP = ("--help",)
INVALID = "Error: Invalid value for"


def ended(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    return stop.value.code


@cases(
    "arguments, said",
    (("log", "--format", "xml"), f"{INVALID} '--format': 'xml' is not one of 'table', 'json', 'jsonl', 'csv'."),
    (("approve", "abc"), f"{INVALID} 'ids': it must be a valid integer\n"),
    (("log", "--write", "1.5"), f"{INVALID} '--write': it must be a valid integer\n"),
    (("sandbox", "--port", "99999"), f"{INVALID} '--port': it must be less than or equal to 65535"),
    (("check", "--events", "0"), f"{INVALID} '--events': it must be greater than or equal to 1\n"),
    (("check", "--events", "9" * 23), f"{INVALID} '--events': it must be less than or equal to 100000000\n"),
    (("wirtes",), "Did you mean 'writes'"),
    (("check", "9" * 300), f"error: {'9' * 300}: File name too long"),
)
def test_a_wrong_argument_is_told_in_words_for_a_person(arguments: tuple[str, ...], said: str) -> None:
    call(*arguments).fails(2, said)


@pytest.mark.parametrize("arguments", [LONG, SHORT, HELP, ("schema", "--help")], ids=" ".join)
def test_a_reader_that_has_had_enough_is_no_error(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    said = io.StringIO()

    with open(writing, "w", encoding="utf-8") as pipe, redirect_stdout(pipe), redirect_stderr(said):  # noqa: PTH123
        code = ended(*arguments)

    assert (code, said.getvalue()) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
@pytest.mark.parametrize("arguments", [LONG, SHORT, HELP, ("schema", "--help")], ids=" ".join)
def test_a_full_disk_is_said_in_a_line(arguments: tuple[str, ...]) -> None:
    said = io.StringIO()

    with Path("/dev/full").open("w", encoding="utf-8") as full, redirect_stdout(full), redirect_stderr(said):
        code = ended(*arguments)

    assert code == 1
    assert said.getvalue().splitlines()[0] == "error: the output cannot be written: No space left on device"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
def test_an_error_is_worth_more_than_where_the_output_went(tmp_path: Path) -> None:
    config = settle_in(tmp_path, rules="rules: [")
    said = io.StringIO()

    with Path("/dev/full").open("w", encoding="utf-8") as full, redirect_stdout(full), redirect_stderr(said):
        code = ended("--config", str(config), "check")

    assert code == 2
    assert "1 error" in said.getvalue()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
@cases(
    "arguments, stream, code",
    (("check", "nowhere"), redirect_stdout, 2, "a mistake, without its answer"),
    (("check", "nowhere"), redirect_stderr, 2, "a mistake, without a word beside it"),
    (("check",), redirect_stderr, 0, "nothing amiss"),
    (("status", "--healthy"), redirect_stderr, 1, "not healthy"),
)
def test_the_answer_is_the_exit_code_also_where_it_cannot_be_written(
    tmp_path: Path,
    arguments: tuple[str, ...],
    stream: Callable[[TextIO], AbstractContextManager[TextIO]],
    code: int,
) -> None:
    config = settle_in(tmp_path)
    out, said = io.StringIO(), io.StringIO()

    full = io.TextIOWrapper(open("/dev/full", "wb", 0), write_through=True)  # noqa: PTH123, SIM115
    with redirect_stdout(out), redirect_stderr(said), full, stream(full):
        found = ended("--config", str(config), *arguments)

    assert found == code


@pytest.mark.parametrize("arguments", [("check",), ("check", "--format", "json")], ids=" ".join)
def test_a_name_that_no_text_can_have_is_printed_all_the_same(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    config = settle_in(tmp_path, rules="rules: [")
    (tmp_path / "rules" / "rules.yaml").rename(os.fsdecode(os.fsencode(tmp_path / "rules") + b"/\xff.yaml"))
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")

    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        code = ended("--config", str(config), *arguments)

    out.seek(0)
    assert code == 2
    assert "the file ends inside of a bracket" in out.read()


@pytest.mark.parametrize(
    "arguments", [("check", "rules/a.yaml"), ("test", "rules/a.yaml"), ("init", "rules/new"), ("status",), ("halt",)]
)
def test_what_this_user_may_not_read_is_told_with_its_remedy(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with folder_of_somebody() as folder:
        config = settle_in(folder)
        config.write_text("ledger: sqlite:///rules/worker.db", "utf-8")
        (folder / "rules").chmod(0o700)
        monkeypatch.chdir(folder)
        because = ("--because", "x") if arguments == ("halt",) else ()

        with without_rights():
            done = call(*arguments, *because, config=config)

    done.fails(2, ": Permission denied\n    let this user read it, and the folders above it, or call the command as")


def test_the_help_says_of_every_command_what_its_own_help_says() -> None:
    told = {command.path: cleandoc(command.about).split("\n\n")[0].replace("\n", " ") for command in commands()}

    assert {name: told[name] for name in COMMANDS} == COMMANDS
    assert set(COMMANDS) == {path for path in told if path and " " not in path}


@pytest.mark.parametrize("arguments", [(), ("log",), ("ledger",), ("ledger", "accept-restore")], ids=" ".join)
def test_the_help_shows_no_value_for_a_flag_which_takes_none(arguments: tuple[str, ...]) -> None:
    done = call(*arguments, "--help")

    assert done.code == 0
    assert "<bool>" not in done.out
    assert "--help" in done.out


LEDGER = ("backup", "upgrade", "accept-restore", "moved")
CALLS = [
    *((name,) for name in COMMANDS if name not in ("demo", "ledger", "rules")),
    *(("ledger", name) for name in LEDGER),
    ("rules", "publish"),
]
"""All but `demo`, which takes nothing, and the groups that only lead on."""


@pytest.mark.parametrize("command", CALLS, ids=" ".join)
def test_each_help_shows_a_whole_call(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    about = call(*command, "--help").out.partition("─")[0].partition("Usage: ")[2].partition("\n")[2]

    assert f"campaign-worker {' '.join(command)}" in about or f" {' '.join(command)} --" in about


def test_no_paragraph_of_a_help_is_broken_where_the_code_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    lines = [line.strip() for line in call("explain", "--help").out.splitlines()]

    begin = next(place for place, line in enumerate(lines) if line.startswith("The daemon's own code decides"))
    paragraph = lines[begin : lines.index("", begin)]
    assert all(len(line) > 60 for line in paragraph[:-1]), paragraph


def test_what_stands_apart_stays_apart() -> None:
    text = """One.

    Two, which goes
    on.

    Example: this
    """
    assert flowing(cleandoc(text)) == "One.\n\nTwo, which goes on.\n\nExample: this"


# what a shell offers behind an option: the names that config, rules and ledger know


def offered(config: Path, *words: str, begun: str = "") -> Sequence[str]:
    """What bash is told for these words, the last of which is only begun."""
    line = " ".join(["campaign-worker", "--config", str(config), *words, begun])
    asked = {"_CAMPAIGN_WORKER_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) + 3)}
    return CliRunner().invoke(app, [], prog_name="campaign-worker", env=asked).stdout.split()


@cases(
    "words, begun, names",
    (("writes", "--state"), "need", ["needs_human"], "a state"),
    (("log", "--kind"), "plan", ["planned"], "a kind"),
    (("writes", "--event"), "", ["e1"], "an event of a write"),
    (("log", "--rule"), "p", ["pause-cancelled"], "a rule that begins so"),
    (("log", "--rule"), "x", [], "no rule begins so"),
    (("approve", "--rule"), "", ["pause-cancelled"], "a rule to approve of"),
    (("explain", "--event"), "", ["e1"], "an event to explain"),
    (("halt", "--partner"), "", ["partner-id-acme"], "a partner"),
)
def test_names_are_completed(config: Path, words: tuple[str, ...], begun: str, names: list[str]) -> None:
    assert offered(config, *words, begun=begun) == names


def test_where_nothing_can_be_read_nothing_is_offered(tmp_path: Path) -> None:
    assert offered(tmp_path / "none.yaml", "log", "--rule") == []
