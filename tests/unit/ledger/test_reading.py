"""Commands read beside a daemon, from what is not there yet, and from disks that nobody can write to."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from errno import EPERM
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.unit.ledger.examples import (
    ACME,
    E1,
    NOW,
    RULE,
    after,
    become,
    fired,
    intent,
    key,
    memory,
    moved,
    open_ledger,
    place_in,
    plan,
    planned,
    sent,
)
from worker.ledger import mark as marks
from worker.ledger import reading
from worker.ledger.mark import Mark, read_mark
from worker.ledger.places import LedgerPlace, holder
from worker.ledger.reading import open_reading
from worker.ledger.sql import SqlLedger, draft_of
from worker.model.commits import Commit, DaemonStatus, LogFilter
from worker.model.errors import LedgerUnwritable, NotFound
from worker.model.facts import WriteId
from worker.web.views import writes_json

NOBODY = 65534


def test_what_does_not_exist_reads_as_empty_and_is_not_made(tmp_path: Path) -> None:
    with open_reading(f"sqlite:///{tmp_path}/worker.db") as reader:
        assert list(reader.log(LogFilter())) == []
        assert reader.writes() == []
        assert reader.state_counts() == {}
        assert reader.status() is None
        assert reader.halts(NOW) == ()
        assert reader.verify() is None
        assert reader.partner_memory(ACME) is None
        with pytest.raises(NotFound):
            reader.backup(tmp_path / "b.db")

    assert list(tmp_path.iterdir()) == []


def test_a_new_ledger_knows_nothing(ledger: SqlLedger) -> None:
    assert ledger.partner_memory(ACME) is None
    assert ledger.observed(ACME) == ()
    assert ledger.history(ACME).changes == ()
    assert tuple(ledger.all_rule_memories(ACME)) == ()
    assert ledger.write(WriteId(1)) is None
    assert ledger.open_writes() == ()
    assert ledger.episode_writes(ACME, E1, RULE, 1) == ()
    assert ledger.first_sendings(ACME, NOW) == {}
    assert list(ledger.firings(ACME, NOW)) == []
    assert ledger.halts(NOW) == ()


def test_the_daemons_word_is_kept(ledger: SqlLedger) -> None:
    status = DaemonStatus(pid=4, since=NOW, seen_at=after(1), body={"a": [1, 1.0, None]})

    for said in (replace(status, pid=3, body={"cycle_ms": 5}), status):
        ledger.save_status(said)

    assert repr(ledger.status()) == repr(status)


def test_the_memories_of_a_partner_come_a_page_at_a_time_and_each_once(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PAGE_MEMORIES", 3)
    events, rules = ("e1", "e2", "e10", "e3"), ("r2", "r1")
    stored = [memory(event=event, rule=rule) for event in events for rule in rules]
    ledger.apply(Commit(at=NOW, memory=tuple(stored)))
    found = list(ledger.all_rule_memories(ACME))
    assert found == list(ledger.rule_memories(ACME))
    assert len(found) == len(stored)


def test_a_reader_in_mid_transaction_holds_up_no_sending(ledger: SqlLedger, tmp_path: Path) -> None:
    (write,) = planned(ledger)
    with open_reading(f"sqlite:///{tmp_path}/worker.db") as reader, reader._store.reading() as connection:
        count = "SELECT count(*) FROM action_log"
        assert connection.exec_driver_sql(count).fetchone() == (1,)
        sent(ledger, write, after(1))
        assert connection.exec_driver_sql(count).fetchone() == (1,), "one reader, one moment"


def test_a_reader_cannot_write(ledger: SqlLedger, tmp_path: Path) -> None:
    with (
        open_reading(f"sqlite:///{tmp_path}/worker.db") as reader,
        pytest.raises(LedgerUnwritable, match="readonly"),
        reader._store.writing() as connection,
    ):
        connection.exec_driver_sql("DELETE FROM action_log")


def test_reading_takes_no_lock_and_leaves_no_file(tmp_path: Path) -> None:
    open_ledger(tmp_path).close()

    with open_reading(f"sqlite:///{tmp_path}/worker.db") as reader:
        reader.writes()

    assert holder(place_in(tmp_path)) is None
    assert not place_in(tmp_path).lock.exists()


def test_a_write_is_printed_with_the_fields_of_the_contract(ledger: SqlLedger) -> None:
    (write,) = planned(ledger, plan(key(4, position=2), intent("run")))
    held = become(ledger, write, "planned", after(1), held_by="surge", held_until=after(60.5), before={"a": 1})

    assert json.dumps(writes_json(held)) == (
        '{"id": 1, "state": "planned", "reason": "condition", "partner": "partner-id-acme", "event": "e1", '
        '"rule": "pause-cancelled", "rules": [], "episode": 4, "position": 2, "item": "", "action": "run", '
        '"attempt": 0, "planned_at": "2026-01-31T12:00:00.000Z", "changed_at": "2026-01-31T12:00:01.000Z", '
        '"held_by": "surge", "held_until": "2026-01-31T12:01:00.500Z", "confirmed_by": null, "before": {"a": 1}, '
        '"why": "status is cancelled", "wanted": {}, "params": {}}'
    ), "in this order, too"


def test_writes_can_be_narrowed_and_come_oldest_first(ledger: SqlLedger) -> None:
    one, two, three = planned(
        ledger,
        plan(key(1)),
        plan(key(1, event="e2", rule="other"), state="waiting"),
        plan(key(1, partner="partner-id-other")),
    )

    assert ledger.writes() == [one, two, three]
    assert ledger.writes(state="waiting") == ledger.writes(event="e2") == ledger.writes(rule="other") == [two]
    assert ledger.writes(partner=ACME, state="planned") == [one]


@pytest.fixture(params=[True, False], ids=["links", "no links"])
def any_disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that knows no second name of a file, as most sticks and many shares."""
    if not request.param:
        monkeypatch.setattr(os, "link", Mock(side_effect=PermissionError(EPERM, "Operation not permitted")))


@pytest.mark.usefixtures("any_disk")
def test_a_backup_is_one_moment_and_opens_as_a_ledger(ledger: SqlLedger, tmp_path: Path) -> None:
    (write,) = planned(ledger)
    target = tmp_path / "backup.db"

    with open_reading(f"sqlite:///{tmp_path}/worker.db") as reader:
        reader.backup(target)
    become(ledger, write, "skipped", after(1))

    with open_reading(f"sqlite:///{tmp_path}/backup.db") as copy:
        assert copy.writes() == [write]
        assert copy.verify() is None
    assert not list(tmp_path.glob(".backup*"))


@pytest.mark.usefixtures("any_disk")
def test_a_backup_never_replaces_a_file(ledger: SqlLedger, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")

    with pytest.raises(NotFound, match="exists already"):
        ledger.backup(target)

    assert target.read_text() == "precious"
    assert not list(tmp_path.glob(".precious*"))


def test_a_draft_knows_the_writes_of_its_moment_and_its_own(ledger: SqlLedger, url: str) -> None:
    over = become(ledger, planned(ledger)[0], "skipped", after(1))
    (opened,) = planned(ledger, plan(key(2)))
    with draft_of(url, now=after(2), reach=timedelta(0)) as draft:
        (more,) = planned(ledger, plan(key(3)))
        become(ledger, more, "skipped", after(3))
        (own,) = planned(draft, plan(key(4)))
        assert own.id == more.id
        assert draft.writes() == [over, opened, own], "what a daemon has done meanwhile is not of its moment"


# On a disk that nobody can write to. A test run as root may write anywhere, so another user does the reading there.

AS_ANOTHER = """
import json, os, sys
sys.path.insert(0, sys.argv[2])
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from worker.ledger.reading import open_reading
from worker.ledger.sql import SqlLedger
from worker.model.commits import LogFilter
from worker.model.errors import NotSafe
import worker.ledger.sql
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
folder = Path(sys.argv[1])
with open_reading(f"sqlite:///{folder}/worker.db") as reader:
    print(json.dumps([len(list(reader.log(LogFilter()))), len(reader.writes()), reader.made, str(reader.refused())]))
    with TemporaryDirectory() as other:
        reader.backup(Path(other) / "backup.db")
try:
    SqlLedger.open(f"sqlite:///{folder}/worker.db", clock_now=lambda: datetime.now(UTC))
except NotSafe as error:
    print(error.exit_code)
"""


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users can look into, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp())
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def read_as_another(folder: Path) -> list[Any]:
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    root = Path(__file__).resolve().parents[3]
    run = subprocess.run(
        [sys.executable, "-c", AS_ANOTHER, str(folder), str(root)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def fill(folder: Path) -> SqlLedger:
    ledger = open_ledger(folder)
    (write,) = planned(ledger)
    ledger.apply(Commit(at=NOW, records=(fired(),), memory=(memory(1),), moves=(moved(write, "skipped", after(1)),)))
    return ledger


@pytest.mark.timeout(20)
def test_a_ledger_left_tidily_is_read_from_a_read_only_disk_and_refused_for_writing(shared_folder: Path) -> None:
    fill(shared_folder).close()
    assert not place_in(shared_folder).wal.exists()

    assert read_as_another(shared_folder) == [[3, 1, True, "None"], 3]


@pytest.mark.timeout(20)
def test_a_ledger_in_use_is_read_from_a_read_only_view_of_it(shared_folder: Path) -> None:
    with fill(shared_folder):
        assert read_as_another(shared_folder) == [[3, 1, True, "None"], 3]


@pytest.mark.timeout(20)
def test_what_a_crash_left_in_the_wal_is_not_passed_over_on_a_read_only_disk(shared_folder: Path) -> None:
    live = shared_folder / "live"
    live.mkdir()
    with fill(live):
        copies = [shutil.copy(live / name, shared_folder / name) for name in ("worker.db", "worker.db-wal")]
    shutil.rmtree(live)
    assert all(Path(copy).stat().st_size for copy in copies)

    with pytest.raises(AssertionError, match=r"was not closed: some of it is in its -wal still"):
        read_as_another(shared_folder)


def test_a_daemon_that_sends_while_the_mark_is_looked_at_makes_no_ledger_look_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(1, 100))

    def sending(place: LedgerPlace) -> Mark | None:
        """Reads the mark, and the daemon has sent before and after that."""
        with monkeypatch.context() as daemons_own:
            daemons_own.setattr(marks, "read_mark", read_mark)
            send()
            mark = read_mark(place)
            send()
        return mark

    with open_ledger(tmp_path) as daemon, open_reading(f"sqlite:///{tmp_path}/worker.db") as reader:

        def send() -> None:
            (write,) = planned(daemon, plan(key(event=f"e{next(numbers)}")))
            sent(daemon, write, NOW)

        send()
        monkeypatch.setattr(marks, "read_mark", sending)
        assert reader.refused() is None
        assert reader.verify() is None
        assert next(numbers) == 6, "the mark was looked at by each, and once"
