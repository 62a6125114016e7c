"""Real processes over real sockets and files: killed, doubled, starved of disk, misconfigured, stopped.

Everything is judged from outside: exit codes, the commands' own output, the sandbox's books.
"""

import json
from pathlib import Path

import pytest

from tests.acceptance.processes import BOOST, Home, home, room, sandbox, until, watched
from tests.worlds import PAUSE

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("kind", ["hang_before", "hang_after"])
def test_kill_9_while_a_boost_is_in_flight_ends_in_one_effect(tmp_path: Path, kind: str) -> None:
    with sandbox(tmp_path) as box:
        where = home(tmp_path, box, [BOOST], timeout="30s")
        box.fault(kind, "POST", "/boost$")
        box.set("e4", title="boost me")
        with where.worker() as first:
            where.comes_to("sending")
            until(lambda: [one for one in box.get("requests") if one["path"].endswith("/boost")], "and in flight")
            first.kill()
        assert where.states == ["sending"]
        with where.worker() as second:
            where.comes_to("confirmed")
            assert second.stop() == 0
        boosts = [one for one in box.effects() if one["operation"] == "boost"]
        assert len(boosts) == 1
        assert box.get("books")["repeated"] == 0
        assert where.writes()[0]["attempt"] == (2 if kind == "hang_before" else 1)
        assert "the chain holds" in where.call("log", "--verify").stdout


def test_a_typing_slip_exits_2_with_file_line_column_and_the_nearest_name(tmp_path: Path) -> None:
    with sandbox(tmp_path) as box:
        where = home(tmp_path, box, [PAUSE.replace("event.status", "event.statsu")])
        done = where.call("run", check=2)
        assert "rules-0.yaml:4:17: " in done.stderr
        assert "statsu" in done.stderr
        assert "'status'" in done.stderr
        levels = [json.loads(line)["level"] for line in done.stderr.splitlines()]
        assert set(levels) == {"error"}, "who filters the log by its level sees why nothing runs"
        assert where.call("check", check=2).stdout.count("rules-0.yaml:4:17: ") == 1


GREEDY = "rules: []\n# \N{GRINNING FACE}" + "\n" * 4_900_000
"""Few bytes that take many to read: each line's place is noted, and one sign makes each character four bytes."""


@pytest.mark.parametrize(("text", "said"), [("rules: [", "broken.yaml:1:"), (GREEDY, "more than 200 MB of memory")])
def test_a_rule_file_broken_while_running_leaves_the_last_good_set_in_force(
    tmp_path: Path, text: str, said: str
) -> None:
    with watched(tmp_path) as (box, where, running):
        good = where.json("status")["rules"]["hash"]
        where.rule(text, "broken.yaml")
        until(lambda: where.json("status")["rules"]["error"], "the error is said")
        assert said in where.json("status")["rules"]["error"]
        assert where.json("status")["rules"]["hash"] == good
        assert [one["kind"] for one in where.log()].count("rules_refused") == 1
        box.cancel("e3")
        where.comes_to("confirmed")
        (where.folder / "rules" / "broken.yaml").unlink()
        until(lambda: where.json("status")["rules"]["error"] is None, "the mended folder is taken up")
        assert running.stop() == 0


def test_a_full_disk_sends_nothing_and_the_worker_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with watched(tmp_path) as (box, where, running):
        room(running.process, 1)
        box.cancel("e3")
        until(lambda: "ledger" in running.errors and "cannot be used" in running.errors, "the trouble is said")
        requests = len(box.get("requests"))
        until(lambda: len(box.get("requests")) > requests + 4, "it goes on looking")
        assert box.get("books")["writes_sent"] == 0, "no ledger, no write"
        room(running.process)
        where.comes_to("confirmed")
        assert running.stop() == 0
        assert len(box.effects()) == 1
        assert "the chain holds" in where.call("log", "--verify").stdout


@pytest.mark.parametrize(
    ("password", "words", "code"),
    [
        ("", "CAMPAIGN_WORKER_PASSWORD", 2),
        ("wrong", "refused", 3),
        ("sandbox", "the account belongs to no partner", 3),
    ],
)
def test_an_account_that_cannot_work_ends_it_at_the_start(tmp_path: Path, password: str, words: str, code: int) -> None:
    with sandbox(tmp_path, "--set", "users=[{username: sandbox, password: sandbox, partners: []}]") as box:
        where = home(tmp_path, box)
        where.environment["CAMPAIGN_WORKER_PASSWORD"] = password
        assert words in where.call("run", check=code).stderr
        assert where.writes() == []


def test_a_service_that_cannot_be_reached_is_tried_on_and_status_says_so(tmp_path: Path) -> None:
    where = Home(folder=tmp_path)
    where.config.write_text("api: {base_url: 'http://127.0.0.1:9/api/v3'}\n", encoding="utf-8")
    where.rule(PAUSE)
    with where.worker() as running:
        until(lambda: where.json("status")["unreachable"], "status says so")
        assert running.process.poll() is None
        assert running.stop() == 0


FRONTEND = "rules: [{id: hide-archived, when: event.status == 'archived', do: [{frontend_status: HIDDEN}]}]"


@pytest.mark.parametrize(("verdict", "sent"), [("--applied", 2), ("--not-applied", 3)])
def test_a_person_settles_what_no_read_can_show(tmp_path: Path, verdict: str, sent: int) -> None:
    with watched(tmp_path, FRONTEND) as (box, where, running):
        box.fault("answer_after", "PUT", "/last_updated_on_fe/", params={"status": 500})
        box.set("e3", status="archived")
        where.comes_to("confirmed", "needs_human")
        assert "99" in where.call("resolve", "2", "99", verdict, "--because", "looked", check=1).stderr
        assert where.states[1] == "needs_human", "all of the given writes, or none"
        where.call("resolve", "2", verdict, "--because", "looked at the page")
        where.comes_to("confirmed", "confirmed")
        where.call("resolve", "2", verdict, "--because", "again", check=1)
        assert running.stop() == 0
        assert box.get("books")["writes_sent"] == sent
        (resolved,) = (one for one in where.log("--write", "2") if one["kind"] == "resolved")
        assert resolved["by"] not in (None, "worker")
