"""What cannot have been written is damage: the opening says so, or whoever asks, and never as an error of SQLite."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.builders import cases
from tests.unit.ledger.examples import ACME, E1, NOW, after, fired, memory, open_ledger, place_in, planned, sent
from worker.ledger.reading import LedgerReader, open_reading
from worker.ledger.tables import DAMAGED_HINT, readable
from worker.model.commits import Commit, DaemonStatus, LogFilter, PartnerMemory
from worker.model.errors import LedgerDamaged, LedgerUnwritable, NotSafe

Asked = Callable[[LedgerReader], object]


def written(folder: Path) -> None:
    with open_ledger(folder) as ledger:
        (write,) = planned(ledger)
        ledger.apply(
            Commit(at=NOW, records=(fired(),), memory=(memory(),), partner=PartnerMemory(partner=ACME, listed_at=NOW))
        )
        sent(ledger, write, after(1))
        ledger.save_status(DaemonStatus(pid=7, since=NOW, seen_at=NOW, body={}))
        ledger.append_halt(because="a look first", by="ann", at=NOW)


def spoil(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "worker.db")) as connection, connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.executescript(statement)


@cases(
    "statement, asked",
    ("UPDATE writes SET wanted = '{'", lambda one: one.open_writes(), "JSON that is none"),
    ("UPDATE writes SET planned_at = '2026-01-3112:00'", lambda one: one.open_writes(), "a time that is none"),
    ("UPDATE writes SET state = 'unknowm'", lambda one: one.open_writes(), "a state that no write can be in"),
    ("UPDATE writes SET rules = x'5b5d00'", lambda one: one.writes(), "no text"),
    ("UPDATE rule_memory SET body = '{\"partner\": 1'", lambda one: one.rule_memories(ACME, E1), "half an object"),
    ("UPDATE rule_memory SET body = '[]'", lambda one: one.rule_memories(ACME), "no object"),
    ("UPDATE rule_memory SET body = '{}'", lambda one: one.rule_memories(ACME), "nothing that has no default"),
    ("UPDATE partners SET body = '1'", lambda one: one.partner_memory(ACME), "another kind of value"),
    ("UPDATE halts SET at = 'once'", lambda one: one.halts(NOW), "a time that is none"),
    ("UPDATE daemon_status SET body = '{'", lambda one: one.status(), "JSON that is none"),
    ("UPDATE daemon_status SET body = 'null'", lambda one: one.status(), "another kind of value"),
    ("UPDATE action_log SET at = 'once' WHERE kind = 'fired'", lambda one: one.firings(ACME, NOW), "a time"),
    ("UPDATE rule_memory SET event = x'00ff'", lambda one: one.known("event"), "a name that is none"),
    ("UPDATE writes SET why = CAST(x'ff' AS TEXT)", lambda one: one.open_writes(), "a text that is none"),
)
def test_a_value_that_cannot_have_been_written_is_damage(tmp_path: Path, statement: str, asked: Asked) -> None:
    written(tmp_path)
    spoil(tmp_path, statement)

    with open_ledger(tmp_path) as ledger, pytest.raises(LedgerUnwritable, match="is damaged: ") as caught:
        asked(ledger)

    assert caught.value.exit_code == 3
    assert caught.value.hint == DAMAGED_HINT


@cases(
    "statement, words",
    ("DELETE FROM meta", "it says nothing of itself", "a ledger without its identity fits no mark"),
    ("DELETE FROM alembic_version", "which revision", "nothing is read that may have another shape"),
    ("ALTER TABLE meta RENAME TO metb", "no table meta", "one of its tables has another name"),
    ("DROP TABLE action_log; DROP TABLE meta", "no table action_log", "what is left is a ledger's all the same"),
    ("UPDATE sqlite_master SET sql = CAST(x'ff4352' AS TEXT) WHERE name = 'halts'", "", "its schema is no text"),
)
def test_a_ledger_that_does_not_say_what_it_is_is_damaged(tmp_path: Path, statement: str, words: str) -> None:
    written(tmp_path)
    spoil(tmp_path, statement)

    with pytest.raises(NotSafe, match=f"is damaged: .*{words}") as caught:
        open_ledger(tmp_path)

    assert caught.value.hint == DAMAGED_HINT


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE action_log SET why = CAST(why AS BLOB) WHERE seq = 2",
        "UPDATE action_log SET at = CAST(at AS BLOB) WHERE seq = 2",
        "UPDATE action_log SET facts = '{' WHERE seq = 2",
    ],
)
def test_a_record_that_is_no_text_any_more_breaks_the_chain_where_it_stands(tmp_path: Path, statement: str) -> None:
    written(tmp_path)
    spoil(tmp_path, statement)

    with open_reading(f"sqlite:///{tmp_path}/worker.db") as reader:
        broken = reader.verify()
        lines = reader.log(LogFilter())
        assert next(lines)["seq"] == 1
        with pytest.raises(NotSafe, match="cannot be read") as caught:
            next(lines)

    assert broken is not None
    assert broken.seq == 2
    assert "--verify" in caught.value.hint


def test_a_ledger_that_says_nothing_of_itself_is_refused_as_damaged(tmp_path: Path) -> None:
    written(tmp_path)
    spoil(tmp_path, "DELETE FROM meta")

    with open_reading(f"sqlite:///{tmp_path}/worker.db") as reader:
        assert "says nothing of itself" in str(reader.refused())
        assert reader.verify() is None


def test_a_ledger_that_cannot_be_asked_at_all_is_an_error_and_no_refusal(tmp_path: Path) -> None:
    written(tmp_path)

    with open_reading(f"sqlite:///{tmp_path}/worker.db") as reader:
        reader.close()
        place_in(tmp_path).file.unlink()
        with pytest.raises(LedgerUnwritable, match="unable to open") as caught:
            reader.refused()
    assert "folder exists" in caught.value.hint


def test_what_is_damage_already_is_told_in_its_own_words() -> None:
    @readable
    def read() -> None:
        raise LedgerDamaged("the innermost word", hint="h")

    with pytest.raises(LedgerDamaged, match=r"^the innermost word$"):
        read()
