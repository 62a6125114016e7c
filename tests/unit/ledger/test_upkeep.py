"""A restored ledger goes on only after a person said so, and then trusts nothing that it remembers."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.ledger.examples import (
    ACME,
    E1,
    NOW,
    RULE,
    URL,
    after,
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
from worker.ledger.lock import SenderLock
from worker.ledger.mark import read_mark
from worker.ledger.sql import SqlLedger
from worker.ledger.tables import REVISION
from worker.ledger.upkeep import Accepted, Upgraded, accept_restore, upgrade
from worker.model.commits import Commit, LogFilter, Move
from worker.model.errors import NotFound, NotSafe
from worker.model.ids import PartnerId
from worker.model.memory import EPISODE_JUMP, Baseline, PartnerMemory
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


def test_a_ledger_of_the_first_revision_is_upgraded_with_all_that_it_holds(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        (write,) = planned(ledger)
        held = become(ledger, write, "waiting", after(5), due_since=after(9))
    connection = sqlite3.connect(tmp_path / "worker.db")
    with connection:
        for table in ("conditions", "evaluations", "observed", "observations"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("ALTER TABLE writes DROP COLUMN due_since")
        connection.execute("ALTER TABLE attempts DROP COLUMN task_reads")
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    connection.close()
    with pytest.raises(NotSafe, match="revision 0001"):
        open_ledger(tmp_path)

    assert upgrade(URL, now=NOW, folder=tmp_path) == Upgraded(before="0001", after=REVISION)

    with open_ledger(tmp_path) as ledger:
        assert ledger.observed(ACME) == ()
        assert ledger.write(write.id) == replace(held, due_since=held.changed_at), "as old as they were"
        assert sent(ledger, become(ledger, held, "planned", after(6)), after(7)).attempt == 1


def test_a_newer_ledger_is_not_upgraded_backwards(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger._store.run_alone("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(NotSafe, match="newer"):
        upgrade(URL, now=NOW, folder=tmp_path)
