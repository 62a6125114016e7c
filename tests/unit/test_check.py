"""`campaign-worker check` as its user meets it: everything at once, whatever is wrong with config and rules."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from worker.cli.app import app

RULE = "rules:\n  - {id: a, when: event.status == 'cancelled', do: [pause]}\n"
WRONG = "rules:\n  - {id: a, when: spend > 5.0 && event.statsu == 'x', do: [pause]}\n"


def check(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a rule."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "r.yaml").write_text(RULE, encoding="utf-8")
    return tmp_path


def called(home: Path, config: str, *options: str) -> Result:
    (home / "config.yaml").write_text(config, encoding="utf-8")
    return check("--config", str(home / "config.yaml"), "check", *options)


def test_a_good_set_exits_0_and_says_what_it_costs(home: Path) -> None:
    done = called(home, "rules: rules\n", "--events", "100")
    assert done.exit_code == 0, done.output
    assert "taken that it has 100 events (--events N)" in done.stderr
    assert "1 rule, 0 errors, 1 warning" in done.stderr, "no test reaches it"


def test_a_broken_config_hides_no_broken_rule(home: Path) -> None:
    """Its facts are known by their names, so that no right rule is called wrong for them."""
    (home / "rules" / "r.yaml").write_text(WRONG, encoding="utf-8")
    done = called(home, "mode: lives\nfacts: {spend: {gett: /x}}\npoll: 3\nassumptions: {nothing: 1}\n")
    assert done.exit_code == 2
    told = [line for line in done.stdout.splitlines() if line.startswith(str(home))]
    assert [line.removeprefix(str(home)).split(": ")[0] for line in told] == [
        *("/config.yaml:1:7", "/config.yaml:2:16", "/config.yaml:2:17", "/config.yaml:3:7", "/config.yaml:4:15"),
        "/rules/r.yaml:2:40",
    ]


@pytest.mark.parametrize("config", ["a: [", "- a", "facts: 3\nrules: rules\n", "rules: {}\n"])
def test_a_config_that_is_none_is_told_and_nothing_breaks(home: Path, config: str) -> None:
    done = called(home, config)
    assert done.exit_code == 2
    assert f"{home}/config.yaml:" in done.stdout
    assert not isinstance(done.exception, Exception)


def test_without_a_config_named_files_are_checked_all_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    assert check("check", "rules").exit_code == 0
    assert check("check").exit_code == 2, "there is nothing that says which rules"
    assert check("check", "nowhere").exit_code == 2


def test_no_line_of_a_config_shows_a_secret(home: Path) -> None:
    config = (
        "passwrod: hunter2\ncredentials: {username: tom, password: hunter2}\nmode: lives\n"
        'api: {base_url: "https://tom:hunter2@host/x y"}\nnotify: [{url: hunter2, on: [hunter2]}]\n'
        "ledger: hunter2\n"
    )
    for text in (config, config + "x: [", "{password: hunter2, mode: lives}", "? hunter2\n: {}\n"):
        done = called(home, text)
        assert done.exit_code == 2
        assert "hunter2" not in "\n".join(line for line in done.stdout.splitlines() if " | " in line)
    assert "  3 | mode: lives\n    |       ^" in called(home, config).stdout, "what is no secret is shown"


def test_a_script_is_told_the_same_as_a_person(home: Path) -> None:
    (home / "rules" / "r.yaml").write_text(WRONG, encoding="utf-8")
    done = called(home, "facts: {spend: {get: '/x/{eid}'}}\n", "--format", "json")
    assert done.exit_code == 2
    said: dict[str, Any] = json.loads(done.stdout)
    [problem] = [one for one in said["problems"] if one["severity"] == "error"]
    assert problem == {
        "file": str(home / "rules" / "r.yaml"),
        "line": 2,
        "column": 40,
        "severity": "error",
        "code": "field",
        "message": "event has no documented field 'statsu'; did you mean 'status'?",
        "remedy": "write event.status; a field that the API document does not name is written event['statsu']",
        "source": WRONG.splitlines()[1],
    }
    assert said["rules"] == 0
    assert said["requests"][0]["budget"] == 300
