"""One suite over every ledger: what the engine relies on holds on a disk, in memory and on a server alike."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.postgres import Server
from tests.unit.ledger.examples import (
    ACME,
    E1,
    NOW,
    RULE,
    after,
    in_memory_ledger,
    no_brake,
    open_ledger,
    plan,
    planned,
    record,
    sent,
    to_sending,
)
from worker.ledger.log import hash_of
from worker.ledger.sql import SqlLedger
from worker.model.commits import Commit, DaemonStatus, Hold, LogFilter
from worker.model.facts import WriteId


@pytest.fixture(params=["file", "memory", "server"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlLedger]:
    if request.param == "file":
        opened = open_ledger(tmp_path)
    elif request.param == "memory":
        opened = in_memory_ledger(NOW)
    else:
        server: Server = request.getfixturevalue("postgres")
        opened = SqlLedger.open(server.ledger(), clock_now=lambda: NOW)
    with opened as ledger:
        yield ledger


def test_a_new_ledger_knows_nothing(made: SqlLedger) -> None:
    assert made.partner_memory(ACME) is None
    assert made.observed(ACME) == ()
    assert made.history(ACME).changes == ()
    assert tuple(made.all_rule_memories(ACME)) == ()
    assert made.write(WriteId(1)) is None
    assert made.open_writes() == ()
    assert made.episode_writes(ACME, E1, RULE, 1) == ()
    assert made.first_sendings(ACME, NOW) == {}
    assert list(made.firings(ACME, NOW)) == []
    assert made.halts(NOW) == ()


def test_a_brake_lets_nothing_be_recorded_and_is_handed_back(made: SqlLedger) -> None:
    (write,) = made.apply(Commit(at=NOW, plans=(plan(),)))
    brake = Hold(reason="spend", why="used up")

    assert record(made, to_sending(write, after(1)), lambda _: brake, amount=None) is brake
    assert made.write(write.id) == write
    assert made.first_sendings(ACME, NOW) == {}
    assert record(made, to_sending(write, after(2)), no_brake, amount=None) is None
    assert list(made.first_sendings(ACME, NOW)[E1, RULE]) == [after(2)]


def test_the_daemons_word_is_kept(made: SqlLedger) -> None:
    status = DaemonStatus(pid=4, since=NOW, seen_at=after(1), body={"a": [1, 1.0, None]})

    for said in (replace(status, pid=3, body={"cycle_ms": 5}), status):
        made.save_status(said)

    assert repr(made.status()) == repr(status)


def test_all_write_the_same_log_to_the_byte(tmp_path: Path, postgres: Server) -> None:
    ends = []
    server = SqlLedger.open(postgres.ledger(), clock_now=lambda: NOW)
    for made in (open_ledger(tmp_path), in_memory_ledger(NOW), server):
        with made as ledger:
            (write,) = planned(ledger)
            sent(ledger, write, after(1))
            ends.append([{**record, "chain": ""} for record in ledger.log(LogFilter())])
    assert ends[0] == ends[1]
    with_another_name = [hash_of({**record, "chain": ACME, "prev": ends[2][0]["prev"]}) for record in ends[0][:1]]
    assert with_another_name == [ends[2][0]["hash"]], "but for the name of its chain, a server's record is the same"
    for linked in ("prev", "hash"):
        for one in (*ends[0], *ends[2]):
            del one[linked]
    assert ends[0] == ends[2]
