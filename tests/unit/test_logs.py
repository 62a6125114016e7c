"""The one door of the log: who should read stderr and does not keeps nobody waiting, and is told what is missing."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

import pytest

from tests.builders import cases

pytestmark = pytest.mark.timeout(60)
KEPT = 10


@dataclass(frozen=True, slots=True)
class Stalled:
    """A process whose stderr is a full pipe, and the end of that which nobody reads."""

    process: "subprocess.Popen[str]"
    pipe: IO[bytes]

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()


@contextmanager
def stalled(script: str) -> Iterator[Stalled]:
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writes, b"\n" * 4096)
    os.set_blocking(writes, True)
    begin = "import sys, warnings\nfrom worker import logs\nfrom worker.logs import configure, logger\n"
    command = [sys.executable, "-c", begin + script]
    with (
        os.fdopen(reads, "rb") as pipe,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=writes, text=True) as process,
    ):
        os.close(writes)
        try:
            yield Stalled(process, pipe)
        finally:
            process.kill()


def test_what_finds_too_much_waiting_is_dropped_and_counted_in_its_place() -> None:
    script = f"""
logs.WAITING_MAX = {KEPT}
configure()
for number in range(100):
    logger().info("line", number=number)
print("all said", flush=True)
sys.stdin.readline()
logger().info("again")
"""
    with stalled(script) as one:
        assert one.process.stdout is not None
        assert one.process.stdout.readline() == "all said\n"
        lines = (line.decode() for line in one.pipe if line.strip())
        kept = 0
        for line in lines:
            assert f'"number": {kept},' in line or f'"number": {kept}}}' in line
            kept += 1
            if kept == KEPT:
                break
        one.say("go on")
        rest = list(lines)
    if '"line"' in rest[0]:  # the thread had one of them in hand already
        kept, rest = kept + 1, rest[1:]
    assert '"event": "log_lines_dropped"' in rest[0]
    assert f'"lines": {100 - kept}' in rest[0]
    assert '"event": "again"' in rest[1]
    assert len(rest) == 2


SAYINGS = """
import asyncio, threading
configure()
logger().info("line", number=1)
print("a word", "for a person", file=sys.stderr)
warnings.warn("of a library")
logging.getLogger("uvicorn").error("fell over")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start(); thread.join()
print('error: "quoted"', file=sys.stderr)
raise RuntimeError("a page of Python")
"""


def on_a_terminal(script: str, **environment: str) -> str:
    """What a process says there."""
    variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")} | environment
    here, there = os.openpty()
    with os.fdopen(there), os.fdopen(here, "rb", 0) as terminal:
        subprocess.run([sys.executable, "-c", script], stderr=there, env=variables, check=True, timeout=30)
        return terminal.read(4096).decode()


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_on_a_terminal_the_log_has_colours_unless_none_are_wanted(environment: dict[str, str], coloured: bool) -> None:
    said = on_a_terminal("from worker.logs import configure, logger\nconfigure()\nlogger().info('x')", **environment)

    assert ("\x1b[" in said) == coloured, said


def test_on_a_terminal_no_name_from_the_service_is_obeyed() -> None:
    script = r"""
import sys
from worker.logs import configure, logger
configure()
logger().info("recorded", event_id="e\x1b]0;title\x07", write=7)
"""
    said = on_a_terminal(script)

    assert "\x1b]0;" not in said
    assert "e\ufffd]0;title\ufffd" in said
    assert "write" in said


def test_where_a_program_reads_it_the_log_is_json_to_its_last_line() -> None:
    begin = "import logging, sys, warnings\nfrom worker.logs import configure, logger\n"

    done = subprocess.run([sys.executable, "-c", begin + SAYINGS], capture_output=True, text=True, check=False)

    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert all({"event", "level", "timestamp"} <= line.keys() for line in lines)
    said = {line["text"]: line["level"] for line in lines if line["event"] == "said"}
    assert said["a word for a person"] == "info"
    assert said["ERROR:uvicorn:fell over"] == "error"
    assert said['error: "quoted"'] == "error"
    assert said["ZeroDivisionError: division by zero"] == said["RuntimeError: a page of Python"] == "error"
    assert next(level for text, level in said.items() if text.endswith("UserWarning: of a library")) == "warning"


@cases(
    "last, code",
    ("print('a line', file=sys.stderr)", 0, "a line"),
    ("warnings.warn('of a library')", 0, "a warning"),
    ("sys.exit('a word on the way out')", 1, "a word at the end"),
    ("raise RuntimeError('a page of Python')", 1, "an error"),
    ("import logging; logging.getLogger('uvicorn').error('fell over')", 0, "a library's word"),
)
def test_a_process_ends_though_nobody_reads_what_it_says_last(last: str, code: int) -> None:
    with stalled(f"configure()\n{last}\n") as one:
        assert one.process.wait(timeout=30) == code
