"""`campaign-worker check` as its user meets it: everything at once, whatever is wrong with config and rules."""

from pathlib import Path
from time import process_time

import pytest

from tests.calling import Called, call

RULE = "rules:\n  - {id: a, when: event.status == 'cancelled', do: [pause]}\n"
WRONG = "rules:\n  - {id: a, when: spend > 5.0 && event.statsu == 'x', do: [pause]}\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a rule."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "r.yaml").write_text(RULE, encoding="utf-8")
    return tmp_path


def called(home: Path, config: str, *options: str) -> Called:
    (home / "config.yaml").write_text(config, encoding="utf-8")
    return call("check", *options, config=home / "config.yaml")


def test_a_good_set_exits_0_and_says_what_it_costs(home: Path) -> None:
    done = called(home, "rules: rules\n", "--events", "100")
    assert done.code == 0, done.both
    assert (
        "with 100 events a partner (--events N): at most 21 of the 300 requests a minute that are allowed" in done.err
    )
    assert "1 rule, 0 errors, 1 warning" in done.err, "no test reaches it"


def test_a_file_of_the_folder_is_checked_among_the_others_and_told_alone(home: Path) -> None:
    """What it names may stand in another file, and what is wrong there is not its business."""
    (home / "rules" / "names.yaml").write_text("define: {small: event.capacity < 300.0}\n", encoding="utf-8")
    (home / "rules" / "broken.yaml").write_text(WRONG.replace("id: a", "id: b"), encoding="utf-8")
    using = "rules:\n  - {id: c, after: a, when: small, do: [{undo: after}]}\n"
    (home / "rules" / "using.yaml").write_text(using, encoding="utf-8")
    done = called(home, "rules: rules\n", "--strict", str(home / "rules" / "using.yaml"))
    assert (done.code, done.out) == (0, "")
    assert "1 rule, 0 errors, 0 warnings" in done.err
    (home / "rules" / "using.yaml").write_text(using.replace("small", "smal"), encoding="utf-8")
    wrong = called(home, "rules: rules\n", str(home / "rules" / "using.yaml"))
    assert wrong.code == 2
    assert "did you mean 'small'?" in wrong.out
    (home / "rules" / "summer" / "tests").mkdir(parents=True)
    (home / "rules" / "using.yaml").rename(home / "rules" / "summer" / "using.yaml")
    (home / "rules" / "summer" / "using.yaml").write_text(using, encoding="utf-8")
    part = called(home, "rules: rules\n", str(home / "rules" / "summer"))
    assert (part.code, "no rule test reaches rule 'c'" in part.out) == (0, True), "a folder within it is no other"
    assert "1 rule, 0 errors, 1 warning" in part.err
    reached = "tests:\n  - {name: it, rules: [c], steps: [{at: 0s, expect: []}]}\n"
    (home / "rules" / "tests").mkdir()
    (home / "rules" / "tests" / "using.yaml").write_text(reached, encoding="utf-8")
    (home / "rules" / "summer" / "tests").rmdir()
    assert "0 warnings" in called(home, "rules: rules\n", str(home / "rules" / "summer")).err, "tests beside all of it"
    elsewhere = home / "using.yaml"
    elsewhere.write_text(using, encoding="utf-8")
    assert called(home, "rules: rules\n", str(elsewhere)).code == 2, "it is not of that folder"


def test_a_file_is_looked_at_once_however_often_it_is_named(home: Path) -> None:
    rules, tests = home / "rules", home / "rules" / "tests"
    tests.mkdir()
    (tests / "t.yaml").write_text("tests: []\n", encoding="utf-8")
    done = called(home, "rules: rules\n", str(rules / "r.yaml"), str(rules), f"{rules}/../rules", str(rules / "r.yaml"))
    assert (done.code, done.err.count("requests a minute")) == (0, 1)
    assert "1 rule, 0 errors, 1 warning" in done.err
    amiss = called(home, "rules: rules\n", str(rules), str(tests), str(home / "none"))
    assert "this is a file of rule tests" in amiss.out, "a folder of rules does not hold its tests"
    assert "there is no such file" in amiss.out


def test_a_file_of_another_kind_is_told_for_what_it_is(home: Path) -> None:
    config, rules = home / "config.yaml", home / "rules" / "r.yaml"
    assert "this is a config\n" in called(home, "poll: {interval: 3s}\n", str(config)).out
    assert "campaign-worker --config PATH check" in called(home, "poll: {interval: 3s}\n", str(config)).out
    tested = call("test", str(rules), config=config)
    assert (tested.code, "this is a file of rules\n" in tested.err) == (2, True), tested.both
    assert "campaign-worker check PATH" in tested.err


def test_a_broken_config_hides_no_broken_rule(home: Path) -> None:
    """Its facts are known by their names, so that no right rule is called wrong for them."""
    (home / "rules" / "r.yaml").write_text(WRONG, encoding="utf-8")
    done = called(home, "mode: lives\nfacts: {spend: {gett: /x}}\npoll: 3\nassumptions: {nothing: 1}\n")
    assert done.code == 2
    told = [line for line in done.out.splitlines() if line.startswith(str(home))]
    assert [line.removeprefix(str(home)).split(": ")[0] for line in told] == [
        *("/config.yaml:1:7", "/config.yaml:2:16", "/config.yaml:2:17", "/config.yaml:3:7", "/config.yaml:4:15"),
        "/rules/r.yaml:2:40",
    ]


@pytest.mark.parametrize("config", ["a: [", "- a", "facts: 3\nrules: rules\n", "rules: {}\n"])
def test_a_config_that_is_none_is_told_and_nothing_breaks(home: Path, config: str) -> None:
    done = called(home, config)
    assert done.code == 2
    assert f"{home}/config.yaml:" in done.out


def test_without_a_config_named_files_are_checked_all_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    assert call("check", "rules").code == 0
    assert call("check").code == 2, "there is nothing that says which rules"
    assert call("check", "nowhere").code == 2


def test_no_line_of_a_config_shows_a_secret(home: Path) -> None:
    config = (
        "passwrod: hunter2\ncredentials: {username: tom, password: hunter2}\nmode: lives\n"
        'api: {base_url: "https://tom:hunter2@host/x y"}\nnotify: [{url: hunter2, on: [hunter2]}]\n'
        "ledger: hunter2\n"
    )
    for text in (config, config + "x: [", "{password: hunter2, mode: lives}", "? hunter2\n: {}\n"):
        done = called(home, text)
        assert done.code == 2
        assert "hunter2" not in "\n".join(line for line in done.out.splitlines() if " | " in line)
    assert "  3 | mode: lives\n    |       ^" in called(home, config).out, "what is no secret is shown"


def test_a_script_is_told_the_same_as_a_person(home: Path) -> None:
    (home / "rules" / "r.yaml").write_text(WRONG, encoding="utf-8")
    done = called(home, "facts: {spend: {get: '/x/{eid}'}}\n", "--format", "json")
    assert done.code == 2
    said = done.json
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
    assert said["requests"] == [], "what broken rules would cost nobody knows"
    (home / "rules" / "r.yaml").write_text(RULE, encoding="utf-8")
    sound = called(home, "", "--format", "json").json
    assert sound["requests"][0]["budget"] == 300


def test_errors_come_first_and_warnings_of_a_kind_are_folded(home: Path) -> None:
    costly = [f"  - {{id: c{one}, when: setup.goal == 'g{one}', do: [pause]}}\n" for one in range(9)]
    wrong = "  - {id: w, when: event.statsu == 'x', do: [pause]}\n"
    (home / "rules" / "r.yaml").write_text("rules:\n" + "".join(costly) + wrong + wrong.replace("w,", "w2,"), "utf-8")
    done = called(home, "")
    told = [line.removeprefix(f"{home}/rules/") for line in done.out.splitlines() if line.startswith(str(home))]
    assert [line.partition(":")[2].partition(":")[0] for line in told[:2]] == ["11", "12"], (
        "every error, before all else"
    )
    assert done.out.count("reads setup of every event") == 3
    places = ", ".join(f"{home}/rules/r.yaml:{line}:20" for line in (5, 6, 7, 8, 9))
    assert f"6 more warnings of this kind (cost; --format json has all): {places} and 1 more\n" in done.out
    assert "requests a minute" not in done.err, "what broken rules would cost nobody knows"
    assert called(home, "", "--format", "json").json["problems"][-1]["line"] == 10


def test_500_rules_are_checked_in_2_seconds_and_100_lines(home: Path) -> None:
    kinds = (
        "{id: pause-N, when: \"event.status == 'cancelled' && event.capacity > N.0\", do: [pause]}",
        "{id: run-N, when: \"event.status == 'active' && event.city == 'cN'\", do: [run]}",
        "{id: sold-N, when: \"event.city == 'cN' && event.predicted_sales_share > 0.9\", do: [pause]}",
        "{id: boost-N, on_change: suggested_tcs, when: \"setup.state == 'DRAFT' && event.city == 'cN'\", do: [boost]}",
        "{id: draft-N, when: setup.total_budget < N.0, do: [{update_draft: {total_budget: N}}]}",
    )
    rules = "".join(f"  - {kinds[one % 5].replace('N', str(one))}\n" for one in range(500))
    (home / "rules" / "r.yaml").write_text(f"rules:\n{rules}", "utf-8")
    began = process_time()
    done = called(home, "")
    assert process_time() - began < 2
    assert "500 rules, 0 errors" in done.err
    assert len(done.out.splitlines()) <= 100
