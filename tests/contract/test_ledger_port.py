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
    become,
    fired,
    in_memory_ledger,
    intent,
    key,
    memory,
    moved,
    no_brake,
    open_ledger,
    plan,
    planned,
    record,
    sent,
    to_sending,
)
from worker.engine.ports import Ledger
from worker.ledger.log import hash_of
from worker.ledger.sql import SqlLedger
from worker.model.commits import Commit, DaemonStatus, Hold, LogFilter, PartnerMemory
from worker.model.errors import StateConflict
from worker.model.facts import PartnerId, WriteId


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


@pytest.fixture
def port(made: SqlLedger) -> Ledger:
    """The same object, seen through the port: mypy proves that it fits."""
    return made


def test_a_new_ledger_knows_nothing(port: Ledger) -> None:
    assert port.partner_memory(ACME) is None
    assert port.observed(ACME) == ()
    assert port.history(ACME).changes == ()
    assert tuple(port.all_rule_memories(ACME)) == ()
    assert port.write(WriteId(1)) is None
    assert port.open_writes() == ()
    assert port.episode_writes(ACME, E1, RULE, 1) == ()
    assert port.first_sendings(ACME, NOW) == {}
    assert list(port.firings(ACME, NOW)) == []
    assert port.halts(NOW) == ()


def test_a_commit_is_there_as_a_whole(port: Ledger) -> None:
    partner = PartnerMemory(partner=ACME, listed_at=after(1), gone={E1: after(1)})

    (write,) = port.apply(
        Commit(at=after(1), records=(fired(),), memory=(memory(1),), partner=partner, plans=(plan(),))
    )

    assert port.partner_memory(ACME) == partner
    assert tuple(port.all_rule_memories(ACME)) == (memory(1),)
    assert port.open_writes(ACME) == (write,)
    assert port.open_writes(PartnerId("other")) == ()
    assert list(port.firings(ACME, NOW)) == [(RULE, E1, NOW)]


def test_a_conflict_leaves_nothing_of_a_commit(port: Ledger) -> None:
    (write,) = port.apply(Commit(at=NOW, plans=(plan(),)))
    port.apply(Commit(at=after(1), moves=(moved(write, "waiting", after(1)),)))

    with pytest.raises(StateConflict):
        port.apply(
            Commit(at=after(2), records=(fired(),), plans=(plan(key(2)),), moves=(moved(write, "skipped", after(2)),))
        )

    assert [found.state for found in port.open_writes()] == ["waiting"]
    assert list(port.firings(ACME, NOW)) == []


def test_a_brake_lets_nothing_be_recorded_and_is_handed_back(port: Ledger) -> None:
    (write,) = port.apply(Commit(at=NOW, plans=(plan(),)))
    brake = Hold(reason="spend", why="used up")

    assert record(port, to_sending(write, after(1)), lambda _: brake, amount=None) is brake
    assert port.write(write.id) == write
    assert port.first_sendings(ACME, NOW) == {}
    assert record(port, to_sending(write, after(2)), no_brake, amount=None) is None
    assert list(port.first_sendings(ACME, NOW)[E1, RULE]) == [after(2)]


def test_a_write_can_go_through_its_whole_life(made: SqlLedger) -> None:
    (write,) = planned(made, plan(key(1), intent("create_draft", budget=5.0)))
    unknown = become(made, sent(made, write, after(1)), "unknown", after(2), unknown_since=after(2))
    applied = become(made, sent(made, unknown, after(3)), "applied", after(4))
    done = become(made, applied, "confirmed", after(5), confirmed_by="read")

    assert made.write(write.id) == done
    assert made.open_writes() == ()
    assert made.verify() is None


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
