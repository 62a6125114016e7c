"""`campaign-worker test` as an operator runs it: exit codes, what is printed, and the JUnit report.

The shipped rules are tested by a process of its own. The others go through the same door in this one: each new
interpreter would cost more than all that is asked of it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests import calling
from tests.calling import Called
from worker.cli.test import SIDE_BY_SIDE_MAX
from worker.engine.ruletests import Ran

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
RULES = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled'
    do: [pause]
  - id: run-again
    when: event.status == 'active' && event.city == 'Ulm'
    do: [run]
"""
TESTS = """
tests:
  - name: a cancelled event is paused <once>
    rules: [pause-cancelled]
    given: {event: {id: e1, status: active, client_campaign_status: RUNNING}}
    steps:
      - {at: 0s, expect: []}
      - at: 6s
        set: {event: {status: cancelled}}
        expect: [{rule: pause-cancelled, action: pause}]
"""
FAILING = """
  - name: this one expects too much
    given: {event: {status: active, client_campaign_status: RUNNING}}
    steps:
      - {at: 9s, expect: [{rule: pause-cancelled, action: pause}]}
"""


def call(folder: Path, *arguments: str) -> Called:
    with chdir(folder):
        return calling.call("test", *arguments)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a config, two rules and a test of one of them."""
    (tmp_path / "config.yaml").write_text("rules: my-rules\n", encoding="utf-8")
    (tmp_path / "my-rules" / "tests").mkdir(parents=True)
    (tmp_path / "my-rules" / "r.yaml").write_text(RULES, encoding="utf-8")
    (tmp_path / "my-rules" / "tests" / "t.yaml").write_text(TESTS, encoding="utf-8")
    return tmp_path


def add(home: Path, text: str, name: str = "t.yaml") -> None:
    file = home / "my-rules" / "tests" / name
    file.write_text((file.read_text(encoding="utf-8") if file.exists() else "") + text, encoding="utf-8")


def test_the_shipped_rules_pass_and_every_one_was_seen_to_fire_and_to_hold_back() -> None:
    command = [sys.executable, "-m", "worker", "test", "--format", "json"]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["failed"] == 0
    assert said["passed"] == len(said["tests"]) > 10
    assert (said["never_fired"], said["never_held_back"]) == ([], [])


def test_what_no_test_saw_is_told_at_the_end(home: Path) -> None:
    done = call(home)
    assert done.code == 0
    assert done.out.splitlines() == [
        "ok      a cancelled event is paused <once>",
        "no test saw these rules fire: run-again",
        "no test saw these rules hold back: run-again",
    ]
    assert "1 test, 0 failed" in done.err


def test_a_failure_says_what_was_expected_what_fired_and_why_not(home: Path) -> None:
    add(home, FAILING)
    done = call(home)
    assert done.code == 1
    lines = done.out.splitlines()
    assert "FAILED  this one expects too much  (my-rules/tests/t.yaml:12)" in lines
    assert "    step at 9s (line 15), expect:" in lines
    assert "      - expected pause-cancelled: pause" in lines
    assert "        pause-cancelled did not fire for e1: false: event.status is 'active'" in lines
    said = call(home, "--format", "json").json
    assert (said["passed"], said["failed"]) == (1, 1)
    assert said["tests"][1]["failures"][0]["missing"] == ["pause-cancelled: pause"]


def test_what_a_terminal_would_obey_is_shown_and_not_sent(home: Path) -> None:
    add(home, FAILING.replace("this one", r'"\e[31mthis').replace("too much", r'too\e[0m much"'))
    assert "FAILED  \ufffd[31mthis expects too\ufffd[0m much" in call(home).out


def test_a_wrong_name_stops_everything_with_its_place(home: Path) -> None:
    add(home, "  - {name: b, rules: [pause-canceled], steps: [{at: 0s}]}\n")
    done = call(home, "--junit", "report.xml")
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("my-rules/tests/t.yaml:11:"), done.err
    assert "unknown rule 'pause-canceled'; did you mean" in done.err
    assert not (home / "report.xml").exists(), "nothing ran"


def test_the_junit_report_counts_and_names_every_test(home: Path) -> None:
    add(home, FAILING)
    assert call(home, "--junit", "report.xml").code == 1
    whole = ET.parse(home / "report.xml").getroot()  # noqa: S314 - our own file
    assert (whole.tag, whole.get("tests"), whole.get("failures"), whole.get("errors")) == ("testsuites", "2", "1", "0")
    (suite,) = whole
    assert (suite.tag, suite.get("name")) == ("testsuite", "my-rules/tests/t.yaml")
    good, bad = suite
    assert (good.get("name"), len(good)) == ("a cancelled event is paused <once>", 0)
    assert bad[0].tag == "failure"
    assert "expected pause-cancelled: pause" in str(bad[0].text)


def test_files_folders_and_rules_beside_the_tests_can_be_named(home: Path, tmp_path: Path) -> None:
    for path in ("my-rules", "my-rules/tests", "my-rules/tests/t.yaml"):
        assert "1 test," in call(home, path).err
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copytree(home / "my-rules", bare / "others")
    for path in ("others", "others/tests", "others/tests/t.yaml"):
        done = call(bare, path)
        assert (done.code, "1 test, 0 failed" in done.err) == (0, True), done.err
    assert call(bare).code == 2, "without a config and without a path there is nothing to run"
    missing = call(home, "nowhere")
    assert (missing.code, missing.err.splitlines()[0]) == (2, "nowhere: there is no such file or folder")


def test_without_tests_all_rules_are_unseen(home: Path) -> None:
    (home / "my-rules" / "tests" / "t.yaml").unlink()
    done = call(home)
    assert done.code == 1, "nothing was tested"
    assert "no test saw these rules fire: pause-cancelled, run-again" in done.out
    assert "there are no rule tests" in done.err


def test_a_mistake_in_a_rule_is_told_too(home: Path) -> None:
    (home / "my-rules" / "r.yaml").write_text(RULES.replace("event.city", "event.citty"), encoding="utf-8")
    done = call(home)
    assert done.code == 2
    assert "my-rules/r.yaml:7:" in done.err


def test_many_files_side_by_side_say_what_they_say_one_after_the_other(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        add(home, TESTS + (FAILING if number == 1 else ""), f"t{number}.yaml")

    def said(large: int) -> tuple[int, str, list[dict[str, Any]]]:
        monkeypatch.setattr("worker.cli.test.LARGE", large)
        called = call(home, "--format", "json")
        found = [{**one, "took_ms": 0} for one in called.json["tests"]]
        return called.code, called.err, found

    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1})
    together = said(0)
    assert together == said(10**9)
    assert len(together[2]) == 5

    add(home, "tests: [{name: a, stepz: []}]", "wrong.yaml")
    add(home, "tests: [{name: b, rules: [nope], steps: [{at: 0s}]}]", "wrong-too.yaml")
    monkeypatch.setattr("worker.cli.test.LARGE", 0)
    called = call(home)
    assert (called.code, called.out) == (2, "")
    assert "wrong.yaml:1" in called.err
    assert "unknown rule 'nope'" in called.err


def test_however_many_processors_there_are_few_processes_run_the_tests(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On 32 processors the page's run took 1.3 GB beside the worker, whose service or container may have 1 GB."""
    started: list[int] = []

    def forked(share: Callable[[Sequence[str]], list[Ran]], parts: Sequence[Sequence[str]]) -> list[Ran]:
        started.append(len(parts))
        return [ran for part in parts for ran in share(part)]

    for number in range(6):
        add(home, TESTS, f"t{number}.yaml")
    monkeypatch.setattr("worker.cli.test.LARGE", 0)
    monkeypatch.setattr("worker.cli.test._forked", forked)
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(32)))
    assert call(home).code == 0
    assert started == [SIDE_BY_SIDE_MAX]


@pytest.mark.parametrize("reached", ["all of them", "a child first"])
def test_who_interrupts_tests_that_run_side_by_side_reads_no_traceback(home: Path, reached: str) -> None:
    (home / "my-rules" / "r.yaml").write_text(RULES.replace("event.city == 'Ulm'", "string(now) == 'x'"), "utf-8")
    for number in range(2):
        add(home, "tests: [{name: each poll counts, steps: [{at: 300d}]}]", f"long{number}.yaml")
    script = (
        "import os; from worker.cli import app, test; test.LARGE = 0; os.sched_getaffinity = lambda _: {0, 1}\n"
        "app.main(['test'])"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, cwd=home, env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        if reached == "all of them":
            os.killpg(process.pid, signal.SIGINT)
        else:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text("ascii")
            os.kill(int(children.split()[0]), signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert b"each poll counts" in first, "a child is at work"
    assert process.returncode == 130
    assert b"Traceback" not in said


def test_a_value_that_a_documented_field_cannot_have_is_a_mistake(home: Path) -> None:
    add(
        home,
        """
tests:
  - name: it would pass for the wrong reason
    given:
      event: {frontend_status: CANCELED, start_date_time: tomorrow, status: postponed, city: null}
    steps: [{at: 0s, expect: []}]
""",
        "wrong.yaml",
    )
    called = call(home)
    assert called.code == 2
    assert "wrong.yaml:5:32: event.frontend_status cannot be 'CANCELED'; did you mean 'CANCELLED'?" in called.err
    assert "wrong.yaml:5:59: event.start_date_time is a time, and cannot be 'tomorrow'" in called.err
    assert "event.status" not in called.err, "the document says that there are others"
    assert "event.city" not in called.err, "null is said on purpose"
