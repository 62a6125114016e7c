"""A restored ledger goes on only after a person said so, and then trusts nothing that it remembers."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from tests.unit.ledger.examples import (
    ACME,
    E1,
    NOW,
    RULE,
    after,
    become,
    intent,
    key,
    kinds,
    mark_in,
    memory,
    older_ledger,
    open_ledger,
    place_in,
    plan,
    planned,
    run_alone,
    sent,
)
from worker.engine.operators import after_restore
from worker.ledger.lock import SenderLock
from worker.ledger.tables import REVISION, REVISIONS, metadata
from worker.ledger.upkeep import RestoreAccepted, accept_restore, upgrade
from worker.model.commits import Baseline, Change, Changes, Commit, LogFilter, Move, Observed, PartnerMemory
from worker.model.errors import NotFound, NotSafe
from worker.model.facts import EventId, FactKey, Known, PartnerId, RuleId, WriteId
from worker.model.writes import Write

PARTNER = PartnerId("partner-id-one")
HALTED = datetime(2026, 3, 1, 12, 1, tzinfo=UTC)
INDEXES = "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY 1"
COLUMNS = """
SELECT m.name, c.name, c.type, c."notnull", c.dflt_value, c.pk FROM sqlite_master m, pragma_table_info(m.name) c
WHERE m.type = 'table' ORDER BY 1, 2
"""


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


def accepted_restore(folder: Path) -> RestoreAccepted:
    """What the command does, ten seconds later."""

    def restored(write: Write) -> Move:
        return after_restore(write, by="ann", now=after(10))

    return accept_restore(f"sqlite:///{folder}/worker.db", by="ann", now=after(10), restored=restored)


def test_what_is_open_is_put_before_a_person_and_nothing_that_is_remembered_is_trusted(tmp_path: Path) -> None:
    waits, sends, unknown, over = restored(tmp_path)

    accepted = accepted_restore(tmp_path)

    assert (accepted.needs_human, accepted.memories) == ((waits.id, sends.id, unknown.id), 1)
    with open_ledger(tmp_path) as ledger:
        assert ledger.writes(state="skipped") == [over]
        for write in ledger.writes(state="needs_human"):
            assert (write.reason, write.changed_at, write.absent_proved) == ("restored", after(10), False)
        records = list(ledger.log(LogFilter(since=after(10))))
        assert kinds(records) == ["ledger_restored", "needs_human", "needs_human", "needs_human"]
        assert {record["by"] for record in records} == {"ann"}
        assert "restored" in str(records[0]["why"])
        assert ledger.verify() is None
        # not open: what is true at the next look opens an episode, which then waits; nothing is left to be compared
        assert ledger.rule_memories(ACME) == (replace(memory(1_000_003), do_hash="d", stopped="rejected"),)
        new = PartnerId("partner-id-new")
        assert ledger.partner_memory(ACME) == PartnerMemory(partner=ACME, listed_at=after(3), restored_at=after(10))
        assert ledger.partner_memory(new) == PartnerMemory(partner=new, restored_at=after(10)), "known or not"


def test_no_event_counts_as_looked_at_any_more(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        (write,) = planned(ledger, plan(key(1)))
        one = Observed(event=E1, key=FactKey(name="event"), fact=Known(value={}, read_at=NOW), at=NOW)
        seen = Changes(partner=ACME, changes=(Change(now=one, before=None),), looked_at=(E1,))
        ledger.apply(Commit(at=NOW, changes=seen))
        assert [one.looked_at for one in ledger.observed(ACME)] == [NOW]
        ledger.backup(tmp_path / "backup.db")
        sent(ledger, write, after(4))
    (tmp_path / "backup.db").replace(tmp_path / "worker.db")

    accepted_restore(tmp_path)

    with open_ledger(tmp_path) as ledger:
        assert [one.looked_at for one in ledger.observed(ACME)] == [None]


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

    mark = mark_in(tmp_path)
    with open_ledger(tmp_path) as ledger:
        assert mark.seq == ledger.last_seq()


def test_neither_is_done_under_a_process_that_sends(tmp_path: Path) -> None:
    restored(tmp_path)

    with SenderLock.acquire(place_in(tmp_path), now=NOW):
        with pytest.raises(NotSafe, match="held by process"):
            accepted_restore(tmp_path)
        with pytest.raises(NotSafe, match="held by process"):
            upgrade(f"sqlite:///{tmp_path}/worker.db", now=after(10))


def test_what_does_not_exist_can_be_neither_accepted_nor_upgraded(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        accepted_restore(tmp_path)
    with pytest.raises(NotFound):
        upgrade(f"sqlite:///{tmp_path}/worker.db", now=NOW)

    assert list(tmp_path.iterdir()) == []


def test_upgrading_a_current_ledger_changes_nothing(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        (write,) = planned(ledger)

    assert upgrade(f"sqlite:///{tmp_path}/worker.db", now=NOW) == REVISION

    with open_ledger(tmp_path) as ledger:
        assert ledger.episode_writes(ACME, E1, RULE, 1) == (write,)


@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_a_ledger_of_every_revision_before_is_taken_over_with_all_that_is_open(tmp_path: Path, revision: str) -> None:
    older_ledger(tmp_path, revision)
    with pytest.raises(NotSafe, match=f"revision {revision}") as refused:
        open_ledger(tmp_path)
    assert "`campaign-worker ledger backup FILE`, then run `campaign-worker ledger upgrade`" in refused.value.hint

    assert upgrade(f"sqlite:///{tmp_path}/worker.db", now=NOW) == revision

    assert_same_tables(tmp_path)
    with open_ledger(tmp_path) as ledger:
        assert ledger.refused() is None
        assert ledger.verify() is None
        records: list[dict[str, Any]] = list(ledger.log(LogFilter()))
        assert len(records) == 36
        states = {one.id: one.state for one in ledger.writes()}
        assert states == {1: "confirmed", 2: "needs_human", 3: "confirmed", 4: "waiting", 5: "sending"}
        for write in ledger.writes():
            sendings = [one["seq"] for one in records if (one["write"], one["kind"]) == (write.id, "sending")]
            assert write.sent_seq == max(sendings, default=0), "the order is that of the log"
            assert write.changed_seq == max(
                one["seq"] for one in records if (one["write"], one["kind"]) == (write.id, write.state)
            )
            assert write.due_since <= write.changed_at
        (halt,) = ledger.halts(HALTED)
        assert (halt.rule, halt.because, halt.by) == ("hide-archived", "a look first", "ann")
        fired = {(one.event, one.rule): one for one in ledger.rule_memories(PARTNER) if one.fired}
        assert fired[EventId("e6"), RuleId("pause-cancelled")].episode == 1
        partner = ledger.partner_memory(PARTNER)
        assert partner is not None
        if revision < "0006":
            assert set(partner.rules) == {one.rule for one in ledger.rule_memories(PARTNER)}, "they have looked"
        head = ledger.head()
        assert (head.seq, head.hash) == (records[-1]["seq"], records[-1]["hash"]), "the chain goes on from its end"
        sending = ledger.write(WriteId(5))
        assert sending is not None
        limited = replace(sending, intent=replace(sending.intent, stops=False))
        assert len(ledger.sending_view(limited, sending.changed_at).sent_last_hour) == 2
        assert bool(ledger.observed(PARTNER)) == (revision > "0001"), "facts are kept since the second"
        settled = become(ledger, sending, "unknown", after(7))
        assert sent(ledger, settled, after(8)).attempt == 2


@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_an_attempt_that_a_restore_left_open_stops_no_upgrade(tmp_path: Path, revision: str) -> None:
    """A program of before left it so; a person then let the write be sent again, and that attempt was cut short."""
    older_ledger(tmp_path, revision)
    with closing(sqlite3.connect(tmp_path / "worker.db")) as connection, connection:
        names = ", ".join(f'"{column[1]}"' for column in connection.execute("PRAGMA table_info(attempts)"))
        second = names.replace('"attempt"', "2")
        connection.execute(f"INSERT INTO attempts ({names}) SELECT {second} FROM attempts WHERE write = 5")  # noqa: S608
        connection.execute("UPDATE writes SET attempt = 2 WHERE id = 5")
    upgrade(f"sqlite:///{tmp_path}/worker.db", now=NOW)
    with closing(sqlite3.connect(tmp_path / "worker.db")) as connection:
        found = connection.execute("SELECT attempt, outcome FROM attempts WHERE write = 5").fetchall()
    assert found == [(1, "unknown"), (2, "open")]


def test_the_tables_of_a_new_ledger_are_those_of_the_program(tmp_path: Path) -> None:
    open_ledger(tmp_path).close()
    assert_same_tables(tmp_path)


def assert_same_tables(folder: Path) -> None:
    """They are the same however they came about."""
    engine = create_engine(f"sqlite:///{folder / 'plain.db'}")
    metadata.create_all(engine)
    engine.dispose()
    with closing(sqlite3.connect(folder / "worker.db")) as made, closing(sqlite3.connect(folder / "plain.db")) as plain:
        for asked in (INDEXES, COLUMNS):
            assert sorted(made.execute(asked).fetchall()) == sorted(plain.execute(asked).fetchall())


def test_a_newer_ledger_is_not_upgraded_backwards(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        run_alone(ledger, "UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(NotSafe, match="newer"):
        upgrade(f"sqlite:///{tmp_path}/worker.db", now=NOW)
