"""A restored ledger goes on only after a person said so, and then trusts nothing that it remembers."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

from tests.unit.ledger.examples import (
    ACME,
    E1,
    NOW,
    RULE,
    URL,
    after,
    as_stored,
    become,
    intent,
    key,
    kinds,
    memory,
    open_ledger,
    place_in,
    plan,
    planned,
    sent,
)
from worker.engine.operators import after_restore
from worker.ledger.database import MIGRATIONS
from worker.ledger.lock import SenderLock
from worker.ledger.mark import read_mark
from worker.ledger.sql import SqlLedger
from worker.ledger.tables import REVISION
from worker.ledger.upkeep import Accepted, Upgraded, accept_restore, upgrade
from worker.model.commits import EPISODE_JUMP, Baseline, Commit, LogFilter, Move, PartnerMemory
from worker.model.errors import NotFound, NotSafe
from worker.model.facts import PartnerId
from worker.model.writes import Write


def restored(folder: Path) -> tuple[Write, ...]:
    """A ledger put back to before its last sends: planned, waiting, unknown and skipped writes, and memory."""
    with open_ledger(folder) as ledger:
        waits, sends, unknown, over = planned(
            ledger,
            plan(key(1), state="waiting"),
            plan(key(2)),
            plan(key(1, event="e2"), intent("run")),
            plan(key(3)),
        )
        unknown = become(ledger, sent(ledger, unknown, after(1)), "unknown", after(2), absent_proved=True)
        over = become(ledger, over, "skipped", after(2))
        open_memory = replace(
            memory(3),
            do_hash="d",
            open=True,
            fired=True,
            looked_at=after(1),
            baselines={"suggested_tcs": Baseline(value=[1], seen_at=after(1))},
            pending={"suggested_tcs": [2]},
            stopped="rejected",
        )
        ledger.apply(
            Commit(at=after(3), memory=(open_memory,), partner=PartnerMemory(partner=ACME, listed_at=after(3)))
        )
        ledger.backup(folder / "backup.db")
        sent(ledger, sends, after(4))
    (folder / "backup.db").replace(folder / "worker.db")
    return waits, sends, unknown, over


def accepted_restore(folder: Path) -> Accepted:
    """What the command does, ten seconds later."""

    def restored(write: Write) -> Move:
        return after_restore(write, by="ann", now=after(10))

    return accept_restore(URL, by="ann", now=after(10), restored=restored, folder=folder)


def test_every_write_that_is_not_final_is_put_before_a_person(tmp_path: Path) -> None:
    waits, sends, unknown, over = restored(tmp_path)

    accepted = accepted_restore(tmp_path)

    assert accepted.needs_human == (waits.id, sends.id, unknown.id)
    with open_ledger(tmp_path) as ledger:
        assert ledger.writes(state="skipped") == [over]
        for write in ledger.writes(state="needs_human"):
            assert (write.reason, write.changed_at, write.absent_proved) == ("restored", after(10), False)
        records = list(ledger.log(LogFilter(since=after(10))))
        assert kinds(records) == ["ledger_restored", "needs_human", "needs_human", "needs_human"]
        assert {record["by"] for record in records} == {"ann"}
        assert "restored" in str(records[0]["why"])
        assert ledger.verify() is None


def test_memory_keeps_its_raised_episode_number_and_what_is_to_be_compared_is_forgotten(tmp_path: Path) -> None:
    restored(tmp_path)

    assert accepted_restore(tmp_path).memories == 1

    with open_ledger(tmp_path) as ledger:
        (found,) = ledger.rule_memories(ACME)
    expected = replace(memory(3 + EPISODE_JUMP), do_hash="d", stopped="rejected")
    assert found == expected, "not open: what is true at the next look opens an episode, which then waits"


def test_every_partner_known_to_the_ledger_or_not_is_remembered_as_restored(tmp_path: Path) -> None:
    restored(tmp_path)

    accepted_restore(tmp_path)

    with open_ledger(tmp_path) as ledger:
        known = ledger.partner_memory(ACME)
        stranger = ledger.partner_memory(PartnerId("partner-id-new"))
    assert known == PartnerMemory(partner=ACME, listed_at=after(3), restored_at=after(10))
    assert stranger == PartnerMemory(partner=PartnerId("partner-id-new"), restored_at=after(10))


def test_an_accepted_ledger_is_another_one_so_that_the_lost_one_cannot_come_back_unnoticed(tmp_path: Path) -> None:
    restored(tmp_path)
    old = (tmp_path / "worker.db").read_bytes()

    accepted_restore(tmp_path)

    open_ledger(tmp_path).close()
    (tmp_path / "worker.db").write_bytes(old)
    with pytest.raises(NotSafe, match="another ledger"):
        open_ledger(tmp_path)


def test_a_ledger_lost_altogether_starts_anew_and_knows_that_it_did(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        (write,) = planned(ledger)
        sent(ledger, write, after(1))
    (tmp_path / "worker.db").unlink()

    accepted = accepted_restore(tmp_path)

    assert (accepted.needs_human, accepted.memories) == ((), 0)
    with open_ledger(tmp_path) as ledger:
        assert kinds(list(ledger.log(LogFilter()))) == ["ledger_restored"]
        assert ledger.partner_memory(ACME) == PartnerMemory(partner=ACME, restored_at=after(10))


@pytest.mark.parametrize("harm", ["missing", "torn"])
def test_a_mark_that_is_missing_or_torn_can_be_accepted(tmp_path: Path, harm: str) -> None:
    with open_ledger(tmp_path) as ledger:
        planned(ledger)
    place_in(tmp_path).mark.unlink() if harm == "missing" else place_in(tmp_path).mark.write_text("{")

    accepted_restore(tmp_path)

    mark = read_mark(place_in(tmp_path))
    assert mark is not None
    with open_ledger(tmp_path) as ledger:
        assert mark.seq == ledger.last_seq()


def test_there_is_nothing_to_accept_where_ledger_and_mark_are_in_step(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        planned(ledger)

    with pytest.raises(NotFound, match="in step") as caught:
        accepted_restore(tmp_path)

    assert caught.value.exit_code == 1
    with SqlLedger.open_reading(URL, tmp_path) as reader:
        assert reader.state_counts() == {"planned": 1}


def test_neither_is_done_under_a_process_that_sends(tmp_path: Path) -> None:
    restored(tmp_path)

    with SenderLock.acquire(place_in(tmp_path), now=NOW):
        with pytest.raises(NotSafe, match="held by process"):
            accepted_restore(tmp_path)
        with pytest.raises(NotSafe, match="held by process"):
            upgrade(URL, now=after(10), folder=tmp_path)


def test_what_does_not_exist_can_be_neither_accepted_nor_upgraded(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        accepted_restore(tmp_path)
    with pytest.raises(NotFound):
        upgrade(URL, now=NOW, folder=tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_upgrading_a_current_ledger_changes_nothing(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        (write,) = planned(ledger)

    assert upgrade(URL, now=NOW, folder=tmp_path) == Upgraded(before=REVISION, after=REVISION)

    with open_ledger(tmp_path) as ledger:
        assert ledger.episode_writes(ACME, E1, RULE, 1) == (write,)


def turn_back(folder: Path, revision: str) -> None:
    """Puts a ledger of an older revision in the place of this one, with all of its rows that such a one can hold."""
    file, older = folder / "worker.db", folder / "older.db"
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    engine = create_engine(f"sqlite:///{older}")
    with engine.begin() as made:
        config.attributes["connection"] = made
        command.upgrade(config, revision)
    engine.dispose()
    with closing(sqlite3.connect(older)) as connection, connection:
        connection.execute("ATTACH ? AS newer", (str(file),))
        tables = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name != 'alembic_version'"
        for (table,) in connection.execute(tables).fetchall():
            columns = connection.execute(f"PRAGMA main.table_info({table})").fetchall()
            names = ", ".join(f'"{column[1]}"' for column in columns)
            connection.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM newer.{table}")  # noqa: S608 - ours
    older.replace(file)


def test_a_ledger_that_went_by_times_has_its_order_from_the_log(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        one, two = planned(ledger, plan(key(1)), plan(key(2), intent("run")))
        rows = [sent(ledger, one, after(60)), sent(ledger, two, after(1))]
        rows[0] = become(ledger, rows[0], "unknown", after(2))
    turn_back(tmp_path, "0004")

    assert upgrade(URL, now=NOW, folder=tmp_path) == Upgraded(before="0004", after=REVISION)

    with open_ledger(tmp_path) as ledger:
        assert ledger.open_writes() == tuple(rows)


def test_a_ledger_of_the_first_revision_is_upgraded_with_all_that_it_holds(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        (write,) = planned(ledger)
        held = become(ledger, write, "waiting", after(5), due_since=after(9))
    turn_back(tmp_path, "0001")
    with pytest.raises(NotSafe, match="revision 0001"):
        open_ledger(tmp_path)

    assert upgrade(URL, now=NOW, folder=tmp_path) == Upgraded(before="0001", after=REVISION)

    with open_ledger(tmp_path) as ledger:
        assert ledger.observed(ACME) == ()
        as_stored(ledger, replace(held, due_since=held.changed_at))  # as old as they were
        assert sent(ledger, become(ledger, held, "planned", after(6)), after(7)).attempt == 1


def test_attempts_of_an_older_ledger_count_after_its_upgrade_as_before(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        one, other = planned(ledger, plan(), plan(key(2, event="e2"), intent("boost", budget=30.0)))
        stopped, boosted = sent(ledger, one, after(1)), sent(ledger, other, after(1), amount=30.0)
        ledger.note_task_read(stopped)
        before = ledger.sending_view(stopped, after(3)), ledger.first_sendings(ACME, NOW), list(ledger.log(LogFilter()))
    turn_back(tmp_path, "0003")

    assert upgrade(URL, now=NOW, folder=tmp_path) == Upgraded(before="0003", after=REVISION)

    with open_ledger(tmp_path) as ledger:
        again = ledger.sending_view(stopped, after(3)), ledger.first_sendings(ACME, NOW), list(ledger.log(LogFilter()))
        assert again == before
        assert [one.amount for one in again[0].booked] == [30.0]
        assert again[0].sent_last_hour == (after(1),)
        assert (ledger.task_reads(stopped), ledger.task_reads(boosted)) == (1, 0)
        assert ledger.verify() is None


def test_a_newer_ledger_is_not_upgraded_backwards(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger._store.run_alone("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(NotSafe, match="newer"):
        upgrade(URL, now=NOW, folder=tmp_path)
