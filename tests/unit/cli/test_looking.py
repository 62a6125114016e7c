"""`log`, `writes` and `status`: what they show, what they say where there is nothing, and what they must not hide."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.builders import cases
from tests.calling import call, settle_in
from tests.unit.ledger.examples import ACME, NOW, key, open_ledger, place_in, plan, planned
from worker.cli.log import exchanged
from worker.ledger.lock import SenderLock
from worker.model.commits import Commit, DaemonStatus, of_write
from worker.model.facts import Json
from worker.system import utc_now

READING = (("log",), ("log", "--verify"), ("writes",), ("status",))
THEN = "2026-01-31T12:00:00Z"
RULES: Json = {"hash": "abcdef0123456789", "loaded_at": THEN, "error": None, "ids": ["pause-cancelled"]}
WATCHED: dict[str, Json] = {"last_ok_at": THEN, "last_error": None, "requests_per_minute": 30, "budget": 300}


def say_as_daemon(config: Path, pid: int, at: datetime, **more: Json) -> None:
    """What a daemon says of itself."""
    body: dict[str, Json] = {"cycle_ms": 120, "unreachable": None, "rules": RULES, "partners": {ACME: WATCHED}, **more}
    with open_ledger(config.parent) as ledger:
        ledger.save_status(DaemonStatus(pid=pid, since=at, seen_at=at, body=body))


@contextmanager
def daemon(config: Path, at: datetime) -> Iterator[None]:
    """A process, this one, that holds the ledger since then."""
    with SenderLock.acquire(place_in(config.parent), now=at):
        yield


@pytest.mark.parametrize(
    "command",
    [("log",), ("log", "--write", "2"), ("writes",), ("explain", "--event", "e\x1b[2J\x9b2J\u202e")],
    ids=" ".join,
)
def test_a_name_from_the_service_orders_a_terminal_about_in_no_table(config: Path, command: tuple[str, ...]) -> None:
    with open_ledger(config.parent) as ledger:
        planned(ledger, plan(key(event="e\x1b[2J\x9b2J\u202e")))
    shown = call(*command, config=config)
    assert shown.code == 0
    assert [one for one in shown.out if not one.isprintable() and one != "\n"] == []
    assert "e\ufffd[2J\ufffd2J\ufffd" in shown.out


def test_the_life_of_a_write_shows_what_was_sent_and_the_whole_log_keeps_its_lines_short(config: Path) -> None:
    with open_ledger(config.parent) as ledger:
        (write,) = ledger.writes()
        record = of_write(write, at=NOW, kind="sending", reason="condition", why="attempt 1")
        request: dict[str, Json] = {"method": "PUT", "url": "http://x/e1?status=RUNNING", "body": None}
        ledger.apply(Commit(at=NOW, records=(replace(record, request=request),)))
    assert "PUT http://x/e1?status=RUNNING" in call("log", "--write", "1", config=config).out
    assert "PUT" not in call("log", config=config).out


# a ledger that is gone


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_a_ledger_that_is_gone_but_for_its_mark_is_never_read_as_an_empty_one(
    config: Path, arguments: tuple[str, ...]
) -> None:
    place_in(config.parent).file.unlink()

    call(*arguments, config=config).fails(3, "was lost: only its mark worker.db.mark is there", "accept-restore")
    place_in(config.parent).file.write_bytes(b"")
    assert call(*arguments, config=config).code == 3, "nor is an emptied one"


def test_status_says_that_a_ledger_is_gone_from_under_a_running_daemon(config: Path) -> None:
    with daemon(config, NOW):
        place_in(config.parent).file.unlink()
        done = call("status", config=config)
        healthy = call("status", "--healthy", config=config)

    done.fails(3, f"was lost: only its mark worker.db.mark is there; process {os.getpid()} still runs on it")
    assert (healthy.code, healthy.err[:24]) == (1, "not healthy: the ledger ")


@pytest.mark.parametrize("arguments", [("log",), ("writes",), ("status",)], ids=" ".join)
def test_what_was_never_made_is_empty_and_said_to_be_missing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = call(*arguments, config=settle_in(tmp_path))

    assert done.code == 0
    assert f"there is no ledger {tmp_path / 'worker.db'} yet" in done.err
    beside = call(*arguments, "--format", "json", config=tmp_path / "config.yaml")
    assert (json.loads(beside.out) is not None, beside.err != "") == (True, True), "JSON stays JSON"
    assert not (tmp_path / "worker.db").exists()


def test_what_was_never_made_cannot_be_followed(tmp_path: Path) -> None:
    """It would wait for ever."""
    call("log", "--follow", config=settle_in(tmp_path)).fails(1, "`campaign-worker run` makes it")


# searching


def test_who_follows_or_plans_by_a_misspelt_name_is_told_so(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("worker.cli.log.pause", interrupted)
    followed = call("log", "--follow", "--rule", "pause-canceled", config=config)
    with daemon(config, NOW):
        partner = call("plan", "--partner", "partner-id-acne", config=config)
        event = call("plan", "--event", "e1x", config=config)
    rule = call("plan", "--rule", "nope", config=config)

    assert followed.err == "nothing is known of rule 'pause-canceled'; did you mean 'pause-cancelled'?\n"
    partner.fails(1, "nothing is known of partner 'partner-id-acne'; did you mean 'partner-id-acme'?")
    event.fails(1, "nothing is known of event 'e1x'; did you mean 'e1'?")
    rule.fails(1, "nothing is known of rule 'nope'; there is 1 rule, such as pause-cancelled")


@cases(
    "arguments, said",
    (("log", "--event", "nope"), "nothing is known of event 'nope'; there is 1 event, such as e1"),
    (("log", "--event", "E1x"), "nothing is known of event 'E1x'; did you mean 'e1'?"),
    (("log", "--rule", "pause-canceled"), "of rule 'pause-canceled'; did you mean 'pause-cancelled'?"),
    (("log", "--write", "99"), "there is no write 99"),
    (("log", "--write", "9" * 23), f"there is no write {'9' * 23}"),
    (("log", "--write", f"-{'9' * 23}"), f"there is no write -{'9' * 23}"),
    (("writes", "--partner", "nope"), "there is 1 partner, such as partner-id-acme"),
    (("writes", "--rule", "nope"), "nothing is known of rule 'nope'; there is 1 rule, such as pause-cancelled"),
)
@pytest.mark.parametrize("output", ["table", "json"])
def test_an_id_that_nobody_knows_is_told_of_with_what_there_is_and_exits_1(
    config: Path, arguments: tuple[str, ...], said: str, output: str
) -> None:
    done = call(*arguments, "--format", output, config=config)

    assert done.code == 1
    assert said in done.err
    assert done.out == ("" if output == "table" else "[]\n")


@cases(
    "arguments, said",
    (("log", "--since", "1h", "--event", "e1"), "no record is as asked for", "nothing lately"),
    (("log", "--rule", "never-fired"), "no record is as asked for", "nothing of a rule"),
    (("writes", "--rule", "never-fired"), "no write is as asked for", "no write of a rule"),
    (("writes", "--state", "waiting"), "no write is as asked for", "nothing in a state"),
)
def test_what_is_known_and_has_nothing_to_show_is_an_empty_answer(
    config: Path, arguments: tuple[str, ...], said: str
) -> None:
    never = "rules: [{id: never-fired, when: event.status == 'cancelled', do: [pause]}]\n"
    (config.parent / "rules" / "more.yaml").write_text(never, "utf-8")

    done = call(*arguments, "--format", "json", config=config)

    assert (done.code, done.out) == (0, "[]\n")
    assert said in done.err


def test_a_search_that_finds_something_says_nothing_more(config: Path) -> None:
    done = call("log", "--event", "e1", "--format", "jsonl", config=config)

    assert done.err == ""
    assert [json.loads(line)["kind"] for line in done.out.splitlines()] == ["planned", "sending"]


def test_a_head_with_a_number_that_no_log_reaches_is_one_that_this_log_lacks(config: Path) -> None:
    done = call("log", "--verify", "--against", f"99999999999999999999999:{'0' * 64}", config=config)

    assert (done.code, done.err) == (1, "")
    assert "has no record 99999999999999999999999" in done.out


NO_TIME = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "3000000d", "soon")


@cases(
    "arguments, said",
    *((("log", "--since", since), f"--since: '{since}' is no time") for since in NO_TIME),
    (("log", "--verify", "--follow"), "--verify looks at the whole log"),
    (("log", "--verify", "--event", "e1"), "--verify looks at the whole log"),
    (("log", "--verify", "--since", "1h"), "--verify looks at the whole log"),
    (("log", "--kind", "sendign"), "there is no kind 'sendign'; did you mean 'sending'?"),
    (("writes", "--state", "needs-human"), "there is no state 'needs-human'; did you mean 'needs_human'?"),
)
def test_what_cannot_be_asked_for_is_wrong_usage(config: Path, arguments: tuple[str, ...], said: str) -> None:
    call(*arguments, config=config).fails(2, said)


def test_status_says_how_far_a_first_list_is(config: Path) -> None:
    body: dict[str, Json] = {"partners": {"partner-id-acme": {"last_ok_at": None, "first_list": [40, 200]}}}
    with open_ledger(config.parent) as ledger:
        ledger.save_status(DaemonStatus(pid=1, since=NOW, seen_at=NOW, body=body))

    assert "none yet: 40 of 200 pages of the first list are read" in call("status", config=config).out


# status


def test_what_an_earlier_daemon_said_is_not_told_of_one_that_is_only_starting(config: Path) -> None:
    say_as_daemon(config, os.getpid(), NOW)

    with daemon(config, NOW + timedelta(seconds=1)):
        found = call("status", "--format", "json", config=config).json
        shown = call("status", config=config).out
        healthy = call("status", "--healthy", config=config)

    assert (found["running"], found["pid"], found["since"]) == (True, os.getpid(), None)
    assert (found["partners"], found["cycle_ms"], found["rules"]["loaded_at"]) == ({}, None, None)
    assert "is only starting" in shown
    healthy.fails(1, "no partner is watched yet")


def test_a_rule_folder_that_is_gone_is_not_said_to_differ(config: Path) -> None:
    say_as_daemon(config, os.getpid(), NOW)
    (config.parent / "rules").rename(config.parent / "elsewhere")

    shown = call("status", config=config)

    shown.says(0, "cannot be read; `campaign-worker check` says why")
    assert "to be taken up" not in shown.out


def test_a_daemon_that_ended_is_told_of_as_ended_and_why(config: Path) -> None:
    say_as_daemon(config, 4711, NOW, ended="the service refused the sign-in with status 401", unreachable="x")

    found = call("status", "--format", "json", config=config).json

    assert (found["running"], found["pid"], found["since"], found["unreachable"]) == (False, None, None, None)
    assert found["ended"] == {"at": "2026-01-31T12:00:00Z", "why": "the service refused the sign-in with status 401"}
    assert (found["partners"][ACME]["last_ok_at"], found["partners"][ACME]["budget"]) == (WATCHED["last_ok_at"], None)
    last = "does not run; last heard of 2026-01-31 12:00:00 UTC"
    call("status", config=config).says(0, last, "refused the sign-in with status 401")


def test_a_daemon_that_was_killed_is_said_to_have_ended_without_a_word(config: Path) -> None:
    say_as_daemon(config, 4711, NOW)

    assert "ended without a word" in call("status", config=config).out


def test_the_table_of_status_is_for_a_person(config: Path) -> None:
    now = utc_now()
    watched = {**WATCHED, "last_ok_at": now.isoformat()}
    assert call("halt", "--because", "look", "--for", "2h", config=config).code == 0

    with daemon(config, now):
        say_as_daemon(config, os.getpid(), now, partners={str(ACME): watched})
        shown, found = call("status", config=config), call("status", "--format", "json", config=config)
        healthy = call("status", "--healthy", config=config)

    assert found.json["halts"][0]["until"].endswith("Z"), "spelled as every other time"
    assert ("None" in shown.out, "{" in shown.out, healthy.code) == (False, False, 0)
    running = f"runs as process {os.getpid()} since {now:%Y-%m-%d}"
    words = ("1 in force", "hash abcdef012345: pause-cancelled", "took 120 ms", "1 sending", "every partner")
    shown.says(0, running, *words)


def test_on_a_fresh_folder_status_says_so_in_words(tmp_path: Path) -> None:
    shown = " ".join(call("status", config=settle_in(tmp_path)).out.split())

    words = ("does not run, and never did on this ledger", "none loaded yet", "to be taken up at the next start")
    assert [one for one in words if one not in shown] == []
    assert ("None" in shown, "differ" in shown) == (False, False)


# what the life of a write tells of the wire: who must settle it has to know what was sent, and under which id


POST: Json = {"method": "POST", "url": "http://x/e1", "body": {"goal": "ROAS"}}
PUT: Json = {"method": "PUT", "url": "http://x/e1?status=RUNNING", "body": None}
ANSWER: Json = {"status": 429, "x_request_id": "id-7", "retry_after": 7.0, "took_ms": 12}
SENT = ["POST http://x/e1", 'body {"goal": "ROAS"}', "before: null"]


@cases(
    "record, lines",
    ({"request": PUT, "before": "DEFAULT"}, ["PUT http://x/e1?status=RUNNING", 'before: "DEFAULT"'], "sent"),
    (
        {"request": POST, "before": None, "response": ANSWER},
        [*SENT, "answered 429 in 12 ms, x-request-id id-7, Retry-After 7.0 s"],
        "sent with a body and answered",
    ),
    ({"response": {"error": "connection reset"}}, [], "why has the words already"),
    ({"evidence": {"get": "/e1", "status": None, "x_request_id": None}}, ["GET /e1: no answer"], "read in vain"),
    ({"evidence": {"get": "/e1", "status": 200, "x_request_id": "id-8"}}, ["GET /e1: 200, x-request-id id-8"], "read"),
    ({"kind": "planned", "request": None, "response": None, "evidence": None}, [], "nothing"),
)
def test_a_record_says_in_words_what_went_over_the_wire(record: dict[str, Json], lines: list[str]) -> None:
    assert list(exchanged(record)) == lines
