"""Statements that are compiled once: the same answer as SQLAlchemy's own, each time with the values of that time."""

from pathlib import Path

import pytest
from sqlalchemy import text

from tests.unit.ledger.examples import ACME, open_ledger, planned
from worker.ledger.database import Prepared, given
from worker.ledger.rows import ALL_WRITES, write_of
from worker.ledger.sql import SqlLedger
from worker.ledger.tables import writes
from worker.model.errors import LedgerUnwritable

_OF_EVENT = Prepared(ALL_WRITES.where(writes.c.partner == given("of"), writes.c.state.in_(["planned"])))


def test_a_prepared_question_is_answered_as_sqlalchemy_would(ledger: SqlLedger) -> None:
    planned(ledger)

    with ledger._store.reading() as connection:
        found = _OF_EVENT.run(connection, {"of": ACME}).fetchall()
        expected = connection.execute(ALL_WRITES).all()
    assert [write_of(row) for row in found] == [write_of(row) for row in expected] != []
    assert ledger._store.rows(_OF_EVENT, {"of": "somebody else"}) == []
    assert [write_of(row) for row in ledger._store.rows(_OF_EVENT, {"of": ACME})] == [write_of(row) for row in found]


def test_a_value_that_nobody_gave_is_an_error_and_asks_nothing(ledger: SqlLedger) -> None:
    with pytest.raises(KeyError):
        ledger._store.rows(_OF_EVENT, {})


def test_a_disk_that_fails_a_single_question_is_said_in_the_ledgers_words_and_works_again(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        missing = Prepared(text("SELECT 1 FROM no_table"))
        with pytest.raises(LedgerUnwritable, match="cannot be used"):
            ledger._store.rows(missing)
        assert ledger.last_seq() == 0
