"""`run` at its start: what is said before the first look."""

import asyncio
import json
import os
import re
import resource
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.calling import call, settle_in
from tests.engine.test_daemon import Told
from tests.unit.ledger.examples import NOW, place_in
from worker.cli.common import ledger_url
from worker.cli.wiring import FolderSource, running_daemon
from worker.config import load_config
from worker.ledger.lock import SenderLock
from worker.ledger.reading import open_reading
from worker.ledger.sql import SqlLedger
from worker.model.commits import DaemonStatus
from worker.model.facts import Json
from worker.system import utc_now


def test_a_run_on_the_sandbox_says_that_nothing_is_real_and_what_does_not_begin_anew(config: Path) -> None:
    """An empty config is one, and nobody may take it for the real service."""
    call("run", "--for", "1ms", config=config).tells(
        0,
        "the service is the embedded sandbox: no real event is looked at, and nothing real is changed\n",
        '; mode live: writes of 1 rule are sent"',
        "set `api.base_url`",
        f"it begins anew at every start, and the ledger {config.parent / 'worker.db'} does not",
        "remove worker.db*",
    )
    assert (config.parent / "worker.db").exists(), "nothing is thrown away"


def test_a_worker_says_at_its_start_whether_it_acts(tmp_path: Path) -> None:
    rules = """
rules:
  - {id: a, when: event.status == 'cancelled', do: [pause]}
  - {id: b, when: event.status == 'archived', do: [pause], mode: shadow}
  - {id: c, when: event.status == 'gone', do: [pause], enabled: false}
"""
    config = settle_in(tmp_path, "mode: approve\n", rules)

    done = call("run", "--for", "1ms", config=config)

    said = "; mode approve: writes of 1 rule wait for an operator; writes of 1 rule are only logged"
    assert f'{said}"' in done.err
    (record,) = json.loads(call("log", "--kind", "started", "--format", "json", config=config).out)
    assert record["why"].endswith(said)


def test_a_worker_takes_as_many_open_files_as_it_may_have(config: Path) -> None:
    """With 1,020 partners and the usual 1,024 files 11 were held as strangers, and edited rules could not be tried."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        call("run", "--for", "1ms", config=config).tells(0)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_who_may_not_run_on_a_ledger_is_not_told_to_remove_it(config: Path) -> None:
    with SenderLock.acquire(place_in(config.parent), now=NOW):
        held = call("run", "--for", "1ms", config=config)
    place_in(config.parent).mark.unlink()
    lost = call("run", "--for", "1ms", config=config)

    held.fails(3, f"is held by process {os.getpid()}")
    lost.fails(3, "mark")
    assert "anew" not in held.err
    assert "to begin anew" not in lost.err


def test_a_ledger_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    config = settle_in(tmp_path, "ledger: sqlite:////proc/worker.db\n")
    call("run", "--for", "1ms", config=config).fails(3, "/proc/worker.db")


def test_what_the_service_asked_for_is_kept_by_whoever_starts_next(tmp_path: Path) -> None:
    """Retry-After: the wait of the process before stands in its last status, and in that of this one as well."""
    until = utc_now().replace(microsecond=0) + timedelta(minutes=10)
    asked: dict[str, Json] = {"partner-id-aurora-live": until.isoformat().replace("+00:00", "Z")}
    config, url = settle_in(tmp_path), f"sqlite:///{tmp_path / 'worker.db'}"
    with SqlLedger.open(url, clock_now=utc_now) as ledger:
        body: dict[str, Json] = {"asked_to_wait": asked}
        ledger.save_status(DaemonStatus(pid=1, since=until, seen_at=until, body=body))

    assert call("run", "--for", "1ms", config=config).code == 0

    with open_reading(url) as reader:
        status = reader.status()
    assert status is not None
    assert status.pid != 1
    said = status.body["asked_to_wait"]
    assert isinstance(said, dict)
    ((partner, when),) = said.items()
    assert partner == "partner-id-aurora-live"
    assert abs(datetime.fromisoformat(str(when)) - until) < timedelta(seconds=1)


def test_a_ledger_that_others_may_read_is_told_of_with_the_remedy(config: Path) -> None:
    config.parent.chmod(0o755)
    (config.parent / "worker.db").chmod(0o644)

    remedy = f"chmod 600 {config.parent / 'worker.db'}"
    call("run", "--for", "1ms", config=config).tells(0, "others on this machine may read worker.db", remedy)


def test_each_cycle_tells_the_head_of_the_log(config: Path) -> None:
    done = call("run", "--for", "4s", config=config)

    cycles = [one for one in map(json.loads, re.findall(r"^{.*}$", done.err, re.MULTILINE)) if one["event"] == "cycle"]
    assert cycles, done.err
    for line in cycles:
        against = call("log", "--verify", "--against", line["log_head"], config=config)
        assert (against.code, against.out[:15]) == (0, "the chain holds"), against.both


def test_how_long_the_service_wants_to_be_left_alone_is_on_disk_at_once(config: Path) -> None:
    """A process that was killed within the next seconds took it along, and the next one asked at once."""
    read = load_config(config)

    async def heard() -> None:
        async with running_daemon(read, FolderSource(read), reporter=Told(), tell=lambda _: None) as daemon:
            service: Any = daemon._service
            service._pacing.throttled("partner-id-one", began=0.0, retry_after=timedelta(minutes=10))

    asyncio.run(heard())

    with open_reading(ledger_url(read)) as ledger:
        said = ledger.status()
    assert said is not None
    assert "partner-id-one" in str(said.body["asked_to_wait"])
