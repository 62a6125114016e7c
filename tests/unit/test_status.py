"""`campaign-worker status`: the rules in force beside the files as they are now."""

import json
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from tests.builders import cases
from tests.calling import call, settle_in
from tests.unit.ledger.examples import open_ledger
from worker.ledger.lock import SenderLock
from worker.ledger.places import place_of, said_by_holder
from worker.model.commits import DaemonStatus
from worker.model.facts import Json
from worker.rules.load import files_hash
from worker.system import utc_now

SINCE = "2026-03-01T12:00:00Z"


@cases(
    "daemon, line",
    ({"hash": "FILES", "loaded_at": SINCE}, "the same", "nothing was edited"),
    (
        {"hash": "c0ffee", "loaded_at": SINCE, "error": "r.yaml:1:1: wrong", "refused_at": SINCE},
        "so the last good rules stay in force: r.yaml:1:1: wrong",
        "edited, and broken",
    ),
    ({"hash": "c0ffee", "loaded_at": SINCE}, "to be taken up at the next start", "edited while nothing runs"),
    ({}, "to be taken up at the next start", "never started"),
)
def test_the_rules_in_force_are_set_against_the_files(tmp_path: Path, daemon: Mapping[str, str], line: str) -> None:
    config = settle_in(tmp_path)
    on_disk = files_hash(tmp_path / "rules")
    rules: dict[str, Json] = {key: on_disk if value == "FILES" else value for key, value in daemon.items()}
    with open_ledger(tmp_path, now := utc_now()) as ledger:
        ledger.save_status(DaemonStatus(pid=1, since=now, seen_at=now, body={"rules": rules}))

    assert line in " ".join(call("status", config=config).out.split())
    assert call("status", "--format", "json", config=config).json["rules"] == {
        **dict.fromkeys(("hash", "loaded_at", "error", "refused_at")),
        "ids": [],
        **rules,
        "files_hash": on_disk,
    }


def told(config: Path) -> tuple[str, Json]:
    """What `status` says of the config: its row, and its object."""
    rows = call("status", config=config).out.splitlines()
    said: Json = call("status", "--format", "json", config=config).json["config"]
    return " ".join(" ".join(row for row in rows if row.startswith("config ")).split()), said


@cases(
    "text, changed",
    ("mode: shadow\n", False, "nothing was edited"),
    ("# a comment\npoll: {interval: 3s}\nmode: shadow\n", False, "the same, in other words"),
    ("mode: live\n", True, "what a person could take for being in force"),
    ("mode: shadow\nsafety: {settle: 2m}\n", True, "vouched for by now, though it is the default"),
    ("mode: shadow\nsafety: {writes_per_hour: 5}\n", True, "a brake that does not hold yet"),
)
def test_what_is_in_force_is_set_against_the_config_as_it_is_now(tmp_path: Path, text: str, changed: bool) -> None:
    config = settle_in(tmp_path, "mode: shadow\n")
    assert told(config) == (
        "config mode shadow, service sandbox, from the next start",
        {"mode": "shadow", "service": "sandbox", "changed": None},
    )
    assert call("run", "--for", "1ms", config=config).code == 0
    place = place_of("sqlite:///worker.db", tmp_path)
    said = said_by_holder(place)

    config.write_text(text, encoding="utf-8")
    with SenderLock.acquire(place, now=utc_now()) as lock:
        lock.note(place, {name: value for name, value in said.items() if name in ("config", "mode", "service")})
        row, found = told(config)

    assert found == {"mode": "shadow", "service": "sandbox", "changed": changed}
    more = "; the file says otherwise by now, which counts from the next start" if changed else ""
    assert row == f"config mode shadow, service sandbox{more}"


@cases(
    "since, seen_at, current",
    (1, 2, True, "it goes on"),
    (1, -3600, True, "the clock was set back while it runs"),
    (-60, -30, False, "the words of the one before, that had the same pid"),
)
def test_what_the_running_daemon_said_of_itself_is_told_from_what_the_one_before_did(
    tmp_path: Path, since: int, seen_at: int, current: bool
) -> None:
    config, now = settle_in(tmp_path), utc_now()
    began, said_at = now + timedelta(seconds=since), now + timedelta(seconds=seen_at)
    with open_ledger(tmp_path) as ledger:
        ledger.save_status(DaemonStatus(pid=os.getpid(), since=began, seen_at=said_at, body={"cycle_ms": 7}))
        with SenderLock.acquire(place_of("sqlite:///worker.db", tmp_path), now=now):
            found = json.loads(call("status", "--format", "json", config=config).out)
    assert found["running"] is True
    assert found["cycle_ms"] == (7 if current else None)


def test_of_a_daemon_that_says_nothing_of_its_config_nothing_is_made_up(tmp_path: Path) -> None:
    config = settle_in(tmp_path)
    with SenderLock.acquire(place_of("sqlite:///worker.db", tmp_path), now=utc_now()):
        assert told(config) == ("", {"mode": None, "service": None, "changed": None})


def test_a_short_quota_of_requests_is_not_called_a_budget_which_is_money(tmp_path: Path) -> None:
    config, now = settle_in(tmp_path), utc_now()
    said: Json = {"last_ok_at": now.isoformat(), "seen_after_s": {"list": 1.5, "facts": 4.0}, "short": True}
    with open_ledger(tmp_path, now) as ledger:
        ledger.save_status(DaemonStatus(pid=1, since=now, seen_at=now, body={"partners": {"partner-id-a": said}}))
    shown = call("status", config=config).out
    assert "1.5 s, 4 s for facts of single events; the request quota is short" in " ".join(shown.split())
    assert "budget" not in shown
