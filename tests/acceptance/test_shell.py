"""What only a process shows: how much is loaded for so little, and an interrupt before a command is ready for it."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.processes import WORKER, until
from tests.calling import settle_in
from worker.cli.signals import stopping

HEAVY = frozenset({"apscheduler", "httpx", "jmespath", "pydantic", "re2", "sqlalchemy", "starlette", "uvicorn"})
COUNT = """
import json, sys
from worker.__main__ import main
try:
    main()
except SystemExit:
    sys.stderr.write(json.dumps(sorted(sys.modules)))
"""
MODULES_MAX = {"--version": 350, "--help": 450}
"""Python itself and typer are some 250; rich, which draws the help, is 80 more."""


def loaded_by(folder: Path, *arguments: str) -> set[str]:
    """The modules that a call loads."""
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("option", list(MODULES_MAX))
def test_what_needs_nothing_loads_nothing(tmp_path: Path, option: str) -> None:
    loaded = loaded_by(tmp_path, option)

    assert loaded & HEAVY == set()
    assert len(loaded) <= MODULES_MAX[option]


@pytest.mark.parametrize(("command", "needs"), [("status", {"sqlalchemy"}), ("check", set[str]())])
def test_a_command_that_asks_nothing_of_the_service_loads_no_client_and_no_server(
    tmp_path: Path, command: str, needs: set[str]
) -> None:
    settle_in(tmp_path)

    loaded = loaded_by(tmp_path, command)

    assert loaded & HEAVY <= {"jmespath", "pydantic", *needs}


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_stream_that_the_shell_closed_is_no_error_and_nothing_else_gets_its_number(
    tmp_path: Path, closed: str
) -> None:
    settle_in(tmp_path)

    def called(*arguments: str) -> "subprocess.CompletedProcess[str]":
        line = ["sh", "-c", f'"$0" "$@" {closed}', *WORKER, *arguments]
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)

    done, looked = called("run", "--for", "1ms"), called("status")

    assert (done.returncode, looked.returncode) == (0, 0), done.stderr + looked.stderr
    assert "Traceback" not in done.stderr + looked.stderr


def catches_signals(process: "subprocess.Popen[str]") -> bool:
    """Whether the process has begun to wait for SIGTERM, which is long before anything else is loaded."""
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{process.pid}/status").read_text("utf-8"), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


def heard() -> None:
    """In the process to be: an interrupt is heard also where these tests run in the background, where it is ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="tells what a process waits for")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["run", "demo"])
def test_an_interrupt_while_everything_is_loaded_ends_it_without_a_word(
    tmp_path: Path, command: str, number: signal.Signals
) -> None:
    settle_in(tmp_path)
    process = subprocess.Popen(
        [*WORKER, command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heard,  # noqa: PLW1509 - there is one thread here
    )
    until(lambda: catches_signals(process), "it waits for signals")

    process.send_signal(number)
    out, err = process.communicate(timeout=30)

    assert (out, err) == ("", "")
    assert process.returncode in (0, 128 + number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_in_the_middle_of_the_demo_ends_it_in_one_line(tmp_path: Path, number: signal.Signals) -> None:
    lines = tmp_path / "stderr"
    with lines.open("w") as told:
        process = subprocess.Popen([*WORKER, "demo"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=told, text=True)
        until(lambda: "confirmed" in lines.read_text("utf-8"), "a first write is confirmed, and others are open")

        process.send_signal(number)
        out, _ = process.communicate(timeout=60)

    said = lines.read_text("utf-8")
    assert (process.returncode, out) == (128 + number, "")
    assert said.endswith("stopped before the end of the story; nothing is left of it\n")
    assert not re.search("Traceback|ERROR", said)
    assert said.index("a service is simulated") < said.index("fired"), "the story is told first"


def test_a_terminal_that_is_closed_stops_the_daemon_as_sigterm_does(tmp_path: Path) -> None:
    settle_in(tmp_path)
    lines = tmp_path / "stderr"
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever tests under nohup ignores it, and so would a child
    with lines.open("w") as told:
        process = subprocess.Popen([*WORKER, "run"], cwd=tmp_path, stderr=told)
        signal.signal(signal.SIGHUP, before)
        until(lambda: '"started"' in lines.read_text("utf-8"), "it has started")

        process.send_signal(signal.SIGHUP)

        assert process.wait(timeout=60) == 0
    assert '"stopped"' in lines.read_text("utf-8")


def test_under_nohup_a_closed_terminal_is_no_end() -> None:
    before = signal.getsignal(signal.SIGHUP)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert signal.SIGHUP not in stopping()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert stopping() == (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
