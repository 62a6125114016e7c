"""Commands whose exit code is their answer, where nobody reads what they print."""

import os
import subprocess
import sys
from pathlib import Path

from tests.builders import cases
from worker.ledger.sql import SqlLedger
from worker.model.commits import LogFilter
from worker.system import utc_now

RULE = "rules:\n  - {id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}\n"
BROKEN = "rules:\n" + "".join(f"  - {{id: r{number}, when: event.statu == 'x', do: [pause]}}\n" for number in range(99))
"""More mistakes than fit into a buffer."""
TESTS = "tests:\n" + "".join(
    f"  - name: {'paused ' * 25}\n"
    "    given: {event: {id: e1, status: STATUS}}\n"
    "    steps: [{at: 0s, expect: [{rule: pause-cancelled, action: pause}]}]\n"
    for _ in range(50)
)


@cases(
    "command, status, rule, code",
    ("check", "cancelled", RULE, 0, "right rules"),
    ("check", "cancelled", BROKEN, 2, "wrong rules"),
    ("test", "cancelled", RULE, 0, "tests that pass"),
    ("test", "active", RULE, 1, "tests that fail"),
    ("schema", "active", RULE, 0, "no answer"),
)
def test_the_answer_is_the_same_where_nobody_reads_on(
    tmp_path: Path, command: str, status: str, rule: str, code: int
) -> None:
    (tmp_path / "rules" / "tests").mkdir(parents=True)
    (tmp_path / "config.yaml").write_text("rules: rules\n", encoding="utf-8")
    (tmp_path / "rules" / "one.yaml").write_text(rule, encoding="utf-8")
    (tmp_path / "rules" / "tests" / "one.yaml").write_text(TESTS.replace("STATUS", status), encoding="utf-8")
    arguments = (command, *(["rules"] if command == "schema" else []))
    done = unread(tmp_path, *arguments, errors=code == 0)
    assert done.returncode == code, done.stderr
    assert b"Traceback" not in (done.stderr or b"")


def test_what_changes_the_ledger_is_done_once_whatever_the_words_are(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/worker.db"
    (tmp_path / "config.yaml").write_text(f"rules: rules\nledger: {url}\n", encoding="utf-8")
    SqlLedger.open(url, clock_now=utc_now).close()
    assert unread(tmp_path, "--config", "config.yaml", "halt", "--because", "test", errors=False).returncode == 0
    with SqlLedger.open(url, clock_now=utc_now) as ledger:
        assert [record["kind"] for record in ledger.log(LogFilter())] == ["halted"]


def unread(folder: Path, *arguments: str, errors: bool = True) -> "subprocess.CompletedProcess[bytes]":
    """The command, with a pipe that nobody reads; ``errors``: but for its stderr."""
    read, written = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "worker", *arguments]
    with os.fdopen(written, "wb") as nobody:
        heard = subprocess.PIPE if errors else nobody
        return subprocess.run(command, cwd=folder, stdout=nobody, stderr=heard, check=False)
