"""Commands whose exit code is their answer, where nobody reads what they print."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RULE = "rules:\n  - {id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}\n"
TEST = """
tests:
  - name: paused
    given: {event: {id: e1, status: STATUS}}
    steps: [{at: 0s, expect: [{rule: pause-cancelled, action: pause}]}]
"""


@pytest.mark.parametrize(
    ("command", "status", "rule", "code"),
    [
        ("check", "cancelled", RULE, 0),
        ("check", "cancelled", RULE.replace("status", "statu"), 2),
        ("test", "cancelled", RULE, 0),
        ("test", "active", RULE, 1),
        ("schema", "active", RULE, 0),
    ],
)
def test_the_answer_is_the_same_where_nobody_reads_on(
    tmp_path: Path, command: str, status: str, rule: str, code: int
) -> None:
    (tmp_path / "rules" / "tests").mkdir(parents=True)
    (tmp_path / "config.yaml").write_text("rules: rules\n", encoding="utf-8")
    (tmp_path / "rules" / "one.yaml").write_text(rule, encoding="utf-8")
    (tmp_path / "rules" / "tests" / "one.yaml").write_text(TEST.replace("STATUS", status), encoding="utf-8")
    read, written = os.pipe()
    os.close(read)
    arguments = [sys.executable, "-m", "worker", command, *(["rules"] if command == "schema" else [])]
    with os.fdopen(written, "wb") as nobody:
        done = subprocess.run(arguments, cwd=tmp_path, stdout=nobody, stderr=subprocess.PIPE, check=False)
    assert done.returncode == code, done.stderr
    assert b"Traceback" not in done.stderr
