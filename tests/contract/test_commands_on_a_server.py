"""Every command works from any host that reaches the database, and says what to do where it is not reached."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.calling import Called, call
from tests.contract.postgres import Server
from tests.unit.ledger.examples import ACME, NOW, after, become, fired, key, memory, moved, plan, planned, sent
from tests.web.scene import scene
from worker.ledger.sql import SqlLedger
from worker.model.commits import Commit, PartnerMemory
from worker.system import SystemClock

READING = (
    *(("status",), ("log",), ("log", "--verify"), ("writes",), ("explain", "--event", "e1"), ("plan",)),
    ("backtest",),
)
DECIDING = (
    *(("approve", "1"), ("reject", "1"), ("resolve", "1", "--applied", "--because", "seen")),
    *(("again", "1", "--because", "once more"), ("undo", "1", "--because", "a slip")),
    *(("halt", "--because", "a look first"), ("resume", "--because", "seen")),
)
Host = Callable[..., Called]


@pytest.fixture
def host(config: Path) -> Host:
    """The command line of a host that has a config, and nothing else."""
    return partial(call, config=config)


@pytest.fixture
def made(url: str, host: Host) -> Host:
    """A ledger with a write that waits for approval."""
    with SqlLedger.open(url, clock_now=lambda: NOW) as ledger:
        (write,) = planned(ledger, plan(key()))
        partner = PartnerMemory(partner=ACME, listed_at=NOW)
        ledger.apply(Commit(at=NOW, records=(fired(),), memory=(memory(1),), partner=partner))
        ledger.apply(Commit(at=after(1), moves=(moved(write, "waiting", after(1)),)))
    return host


def test_what_is_stored_is_read(made: Host) -> None:
    status = made("status", "--format", "json").json
    assert (status["replicas"], status["writes"]) == ([], {"waiting": 1})
    assert json.loads(made("writes", "--format", "json").out)[0]["state"] == "waiting"
    assert made("log", "--verify").out.startswith("the chain of partner-id-acme holds: 3 records")
    assert [json.loads(line)["kind"] for line in made("log", "--format", "jsonl").out.splitlines()] == [
        *("planned", "fired", "waiting")
    ]
    assert made("explain", "--event", "e1").code == 0


@pytest.mark.parametrize("path", ["/event?event", "/log.json?event", "/log.csv?event", "/events?text", "/writes?rule"])
def test_a_page_finds_nothing_by_what_no_database_could_hold(made: Host, tmp_path: Path, path: str) -> None:
    with scene(tmp_path) as page:
        answer = httpx.get(f"{page.address}{path}=%00", trust_env=False)
    assert answer.status_code == (404 if path == "/event?event" else 200)
    assert "the ledger cannot be used" not in answer.text


def test_what_is_decided_is_stored_for_all(made: Host, tmp_path: Path) -> None:
    assert made("approve", "1", "--because", "seen").code == 0
    assert json.loads(made("writes", "--format", "json").out)[0]["state"] == "planned"
    assert made("halt", "--because", "a look first").code == 0
    (halt,) = made("status", "--format", "json").json["halts"]
    assert halt["because"] == "a look first"
    assert made("resume", "--because", "seen").code == 0
    assert made("reject", "1", "--because", "no").code == 0
    assert made("again", "1", "--because", "once more").code == 0
    assert made("log", "--verify").code == 0


def test_a_backup_is_for_the_databases_own_tools(made: Host, tmp_path: Path) -> None:
    done = made("ledger", "backup", str(tmp_path / "copy.db"))
    assert (done.code, "pg_dump" in done.err) == (1, True)


@pytest.mark.parametrize("command", DECIDING)
def test_no_operators_word_makes_a_ledger(command: tuple[str, ...], host: Host, url: str, postgres: Server) -> None:
    done = host(*command)
    assert done.code == 1
    assert "there is no ledger postgres on" in done.err
    assert "nothing was changed" in done.err
    with postgres.connect() as connection:
        schema = url.rpartition("%3D")[2]
        tables = connection.execute("SELECT 1 FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
    assert tables == []


@pytest.mark.parametrize("command", [*READING, *DECIDING])
def test_a_server_that_is_not_reached_ends_any_command_with_its_place_and_a_remedy(
    command: tuple[str, ...], host: Host, config: Path, url: str
) -> None:
    config.write_text(config.read_text().replace(url, "postgresql://ann@127.0.0.1:1/campaigns"))
    done = host(*command)
    assert done.code == 3, done.err
    assert "the ledger campaigns on 127.0.0.1:1 cannot be used: connection failed" in done.err
    assert "check host and port" in done.err


def test_what_is_decided_on_a_host_whose_clock_is_off_has_the_servers_time(
    made: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = SystemClock().now
    monkeypatch.setattr(SystemClock, "now", lambda _: true() + timedelta(hours=2))
    assert made("halt", "--for", "1h", "--because", "a look first").code == 0
    (halt,) = made("status", "--format", "json").json["halts"]
    assert abs(datetime.fromisoformat(halt["until"]) - true() - timedelta(hours=1)) < timedelta(minutes=1)
    said = made("log", "--since", "10m", "--format", "jsonl").out.splitlines()
    (at,) = [datetime.fromisoformat(one["at"]) for one in map(json.loads, said) if one["kind"] == "halted"]
    assert abs(at - true()) < timedelta(minutes=1)


def test_what_may_still_be_sent_cannot_be_said_not_to_have_taken_effect(url: str, host: Host) -> None:
    """Else it would be sent again, and then once more by a worker that is gone and wakes."""
    now = SystemClock().now()
    with SqlLedger.open(url, clock_now=lambda: now) as ledger:
        young, old = planned(ledger, plan(key()), plan(key(2, event="e2")))
        for write, at in ((young, now - timedelta(seconds=20)), (old, now - timedelta(seconds=40))):
            stored = become(ledger, sent(ledger, write, at), "unknown", at)
            become(ledger, stored, "needs_human", at)
    told = host("resolve", str(young.id), "--not-applied", "--because", "it is not there")
    until = now + timedelta(seconds=5)
    assert (told.code, f"may still leave a worker until {until:%H:%M:%S} UTC; nothing was changed" in told.err) == (
        1,
        True,
    )
    assert host("resolve", str(old.id), "--not-applied", "--because", "it is not there").code == 0
    assert host("resolve", str(young.id), "--applied", "--because", "it is there").code == 0
