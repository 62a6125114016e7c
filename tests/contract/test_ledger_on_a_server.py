"""A ledger on PostgreSQL where the server, the link or the address is not as it should be: told, and never for ever."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from sqlalchemy import RowMapping

from tests.builders import cases
from tests.contract.link import Link
from tests.contract.postgres import SERVER_USER, USER, Server
from tests.unit.ledger.examples import (
    ACME,
    NOW,
    after,
    become,
    fired,
    in_memory_ledger,
    intent,
    key,
    moved,
    no_brake,
    plan,
    planned,
    record,
    to_sending,
)
from worker.ledger import postgres as server_side
from worker.ledger import rows
from worker.ledger.log import hash_of, recording, verified
from worker.ledger.reading import open_reading
from worker.ledger.sql import SqlLedger
from worker.ledger.upkeep import accept_restore
from worker.model.commits import Commit, LogFilter, Move, Record, Sending
from worker.model.errors import LedgerUnwritable, NotSafe, StateConflict
from worker.model.facts import PartnerId
from worker.model.writes import Write

OTHER = PartnerId("partner-id-other")
PUT_BACK = """UPDATE partners p SET seq = l.seq, hash = l.hash FROM action_log l
WHERE p.partner = '{acme}' AND l.chain = p.partner AND l.seq = 2"""


def opened(url: str) -> SqlLedger:
    return SqlLedger.open(url, clock_now=lambda: NOW)


@pytest.fixture
def link(postgres: Server) -> Iterator[Link]:
    made = postgres.link()
    yield made
    made.close()


@cases(
    "url, words",
    ("postgresql://ann@127.0.0.1:1/ledger", ("ledger on 127.0.0.1:1", "efused"), "no port"),
    ("postgresql://ann@/ledger?host=/nowhere", ("ledger on /nowhere", "No such file"), "no socket"),
)
def test_a_server_that_is_not_there_is_told_with_its_place_and_what_to_do(url: str, words: tuple[str, ...]) -> None:
    for door in (opened, open_reading):
        with pytest.raises(NotSafe) as caught:
            door(url)
        assert caught.value.exit_code == 3
        assert all(word in str(caught.value) for word in words)
        assert "check host and port" in caught.value.hint


def test_a_database_or_user_that_there_is_not_is_named_with_a_remedy(postgres: Server) -> None:
    for url in (postgres.url("now%20here"), postgres.url().replace("worker@", "nobody@")):
        with pytest.raises(NotSafe, match=r"ledger (now here|postgres) on .*does not exist") as caught:
            opened(url)
        assert "create it" in caught.value.hint


def test_what_only_the_driver_would_take_of_an_address_is_no_defect(postgres: Server) -> None:
    with pytest.raises(NotSafe, match='invalid connection option "autocommit"') as caught:
        opened(f"{postgres.url()}&autocommit=yes")
    assert "take it out" in caught.value.hint


@contextmanager
def settled(connection: "psycopg.Connection[tuple[object, ...]]", setting: str, value: str) -> Iterator[None]:
    """A setting of the server's while the block lasts."""
    usual = connection.execute(f"SHOW {setting}".encode()).fetchone()

    def change(statement: str, wanted: object) -> None:
        connection.execute(statement.encode())
        connection.execute("SELECT pg_reload_conf()")
        while connection.execute(f"SHOW {setting}".encode()).fetchone() != wanted:
            pass

    change(f"ALTER SYSTEM SET {setting} = {value}", (value,))
    try:
        yield
    finally:
        change(f"ALTER SYSTEM RESET {setting}", usual)


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_may_lose_what_it_acknowledged_is_not_used(url: str, postgres: Server, setting: str) -> None:
    refused = pytest.raises(NotSafe, match=f"{setting} is off")
    with postgres.connect() as connection, settled(connection, setting, "off"), refused:
        opened(url)
    opened(url).close()


def test_a_standby_is_not_used(url: str, postgres: Server) -> None:
    postgres.stop()
    signal = postgres.folder / "data" / "standby.signal"
    signal.touch()
    postgres.start()
    try:
        with pytest.raises(LedgerUnwritable, match="server is a standby"):
            opened(url)
    finally:
        postgres.stop()
        signal.unlink()
        postgres.start()
    opened(url).close()


def test_what_a_session_would_do_by_default_is_no_matter(postgres: Server) -> None:
    otherwise = (
        "synchronous_commit=off default_transaction_isolation=serializable client_encoding=latin1 datestyle=German"
    )
    by_default = "".join(f"%20-c{one.replace('=', '%3D')}" for one in otherwise.split())
    with opened(f"{postgres.ledger()}{by_default}&connect_timeout=0") as ledger:
        planned(ledger)
        ledger.apply(Commit(at=NOW, records=(fired(why="\u20ac"),)))
        ledger.join().beat("running")
        with ledger._store.writing() as connection:
            raw: Any = connection.connection.driver_connection
            assert int(raw.info.get_parameters()["connect_timeout"]) == server_side.CONNECT_S, "0 is without end"
            asked = "SELECT current_setting('synchronous_commit'), current_setting('transaction_isolation')"
            assert tuple(connection.exec_driver_sql(asked).one()) == ("on", "read committed")


@contextmanager
def pooled(server: Server, *, ignores: str) -> Iterator[str]:
    """A real PgBouncer, which gives each transaction a session that others had before, with what a start may name."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no pgbouncer here: Debian's package has it")
    settings = {
        "pool_mode": "transaction",
        "listen_port": str(6000 + os.getpid() % 1000),
        "unix_socket_dir": str(server.folder),
        "auth_type": "any",
        "ignore_startup_parameters": ignores,
    }
    config = server.folder / f"{ignores}.ini"
    databases = f"[databases]\npostgres = host={server.folder} user={USER}\n[pgbouncer]\n"
    config.write_text(databases + "\n".join(f"{name} = {value}" for name, value in settings.items()))
    user = ["-u", SERVER_USER] if SERVER_USER else []
    with subprocess.Popen([program, "-q", *user, str(config)], stderr=subprocess.DEVNULL) as pooler:
        try:
            while not (server.folder / f".s.PGSQL.{settings['listen_port']}").exists():
                assert pooler.poll() is None, "it did not start"
            yield server.url() + f"&port={settings['listen_port']}"
        finally:
            pooler.terminate()


def test_a_pooler_that_shares_sessions_is_refused_with_the_way_out(postgres: Server) -> None:
    """What a session has set would hold for another one: a commit that is to be on the disk would not be."""
    with pooled(postgres, ignores="extra_float_digits") as url, pytest.raises(NotSafe) as caught:
        opened(url)
    assert "a pooler stands before the server: name the server itself" in caught.value.hint
    with pooled(postgres, ignores="options") as url, pytest.raises(NotSafe, match="lock_timeout is 0") as caught:
        opened(url)
    assert "without a pooler" in caught.value.hint


def test_two_that_make_a_ledger_at_once_make_one(url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        for ledger in pool.map(opened, [url] * 4):
            ledger.close()
    with open_reading(url) as reader:
        assert reader.made
        assert reader.last_seq() == 0


def test_a_ledger_that_nobody_made_reads_as_an_empty_one(postgres: Server) -> None:
    with open_reading(postgres.ledger()) as reader:
        assert not reader.made
        assert reader.open_writes() == ()


def test_a_ledger_of_another_revision_waits(url: str) -> None:
    with opened(url) as ledger, ledger._store.writing() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    for door in (opened, open_reading):
        with pytest.raises(NotSafe, match="newer than this program"):
            door(url)


def test_writers_at_once_go_on_from_each_others_end(url: str) -> None:
    ledgers = [opened(url) for _ in range(4)]

    def write(at: int) -> None:
        for number in range(10):
            ledgers[at].apply(Commit(at=NOW, records=(fired(event=f"e{at}-{number}"),)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert ledgers[0].verify() is None
    assert ledgers[0].last_seq(ACME) == 40
    for ledger in ledgers:
        ledger.close()


def test_each_partner_has_a_chain_and_what_concerns_all_has_another(postgres: Server) -> None:
    with opened(postgres.ledger()) as ledger:
        ledger.apply(Commit(at=NOW, records=(fired(), Record(at=NOW, kind="started", why="here"), fired(after(1)))))
        ledger.apply(Commit(at=NOW, records=(replace(fired(after(2)), partner=OTHER),)))
        told = [(one["chain"], one["seq"]) for one in ledger.log(LogFilter())]
        assert told == [(ACME, 1), ("", 1), (ACME, 2), (OTHER, 1)]
        assert {chain: head.seq for chain, head in ledger.heads().items()} == {ACME: 2, "": 1, OTHER: 1}
        ends, broken = verified(ledger.log(LogFilter()), [ledger.head(ACME), ledger.head(), ledger.head(OTHER)])
        assert (ends, broken) == (ledger.heads(), None)
        assert ledger.verify() is None


@cases(
    "statement, seq, words",
    ("DELETE FROM action_log WHERE chain = '{acme}' AND seq = 3", 3, "its end was cut off", "the last taken out"),
    ("DELETE FROM action_log WHERE chain = '{acme}' AND seq = 1", 1, "record 1 is missing", "the first taken out"),
    ("UPDATE action_log SET chain = 'elsewhere' WHERE chain = '{acme}'", 1, "its end was cut off", "all renamed"),
    ("UPDATE action_log SET replica = 'another' WHERE seq = 2 AND chain = '{acme}'", 2, "was changed", "another's"),
    (PUT_BACK, 3, "more than its partner", "its end put back"),
    ("DELETE FROM partners WHERE partner = '{acme}'", 1, "more than its partner", "no end"),
)
def test_what_was_done_to_one_of_the_chains_is_found(postgres: Server, statement: str, seq: int, words: str) -> None:
    with opened(postgres.ledger()) as ledger:
        for number in range(3):
            ledger.apply(Commit(at=NOW, records=(fired(after(number)), replace(fired(), partner=OTHER))))
        with ledger._store.writing() as connection:
            connection.exec_driver_sql(statement.format(acme=ACME))
        broken = ledger.verify()
        assert broken is not None
        assert (broken.chain, broken.seq, words in broken.why) == (ACME, seq, True), broken


def test_the_log_is_told_by_time_whichever_chain_was_written_first(postgres: Server) -> None:
    with opened(postgres.ledger()) as ledger:
        ledger.apply(Commit(at=NOW, records=(fired(after(2)), fired(after(4)))))
        ledger.apply(Commit(at=NOW, records=tuple(replace(fired(after(at)), partner=OTHER) for at in (1, 3, 5))))
        both = [str(one["chain"]) for one in ledger.log(LogFilter())]
        assert both == [OTHER, ACME, OTHER, ACME, OTHER]
        assert [str(one["chain"]) for one in ledger.log(LogFilter(limit=2))] == both[:2]
        assert [one["seq"] for one in ledger.log(LogFilter(partner=OTHER))] == [1, 2, 3]


def test_what_came_in_a_transaction_that_ended_later_is_news_all_the_same(url: str) -> None:
    with opened(url) as one, opened(url) as other:
        one.apply(Commit(at=NOW, records=(fired(),)))
        known = {chain: head.seq for chain, head in one.heads().items()}
        with recording(one._store, [ACME]) as (_, journal):
            journal.add([fired(after(1), why="begun first")])
            journal.flush()
            other.apply(Commit(at=NOW, records=(replace(fired(after(2)), partner=OTHER, why="ended first"),)))
            news = list(other.log_after(known, LogFilter()))
            assert [record["why"] for record in news] == ["ended first"]
            known |= {str(record["chain"]): int(str(record["seq"])) for record in news}
        assert [record["why"] for record in other.log_after(known, LogFilter())] == ["begun first"]


def test_of_two_processes_one_records_the_sending(url: str) -> None:
    with opened(url) as one, opened(url) as other:
        (write,) = planned(one)
        sending = Sending(move=to_sending(write, after(1)), check=no_brake, amount=None)
        assert one.record_sending(sending) is None
        with pytest.raises(StateConflict):
            other.record_sending(sending)
        assert [record["kind"] for record in other.log(LogFilter())].count("sending") == 1


def test_a_silent_link_ends_the_call_and_another_link_serves_the_next(url: str, postgres: Server, link: Link) -> None:
    with opened(postgres.through(link, url)) as ledger, patch.object(server_side, "DEADLINE_S", 0.2):
        (write,) = planned(ledger)
        link.silent.set()
        began = time.monotonic()
        with pytest.raises(LedgerUnwritable, match=r"no answer within 0.2 s"):
            become(ledger, write, "waiting", after(1))
        assert time.monotonic() - began < 5
        link.silent.clear()
        (again,) = ledger.open_writes()
        assert again.state == "planned"
        become(ledger, again, "waiting", after(2))


def test_a_link_that_takes_nothing_more_ends_the_call_too(url: str, postgres: Server, link: Link) -> None:
    with opened(postgres.through(link, url)) as ledger, patch.object(server_side, "DEADLINE_S", 0.5):
        planned(ledger)
        link.stopped.set()
        began = time.monotonic()
        with pytest.raises(LedgerUnwritable, match=r"no answer within 0.5 s"):
            ledger.apply(Commit(at=NOW, records=(fired(why="long" * 8_000_000),)))
        assert time.monotonic() - began < 5


def test_a_commit_without_an_answer_is_an_error_and_may_be_there(url: str, postgres: Server, link: Link) -> None:
    commit = server_side.Bounded.commit

    def cut(connection: server_side.Bounded) -> None:
        link.silent.set()
        commit(connection)

    with opened(postgres.through(link, url)) as ledger, patch.object(server_side, "DEADLINE_S", 0.2):
        (write,) = planned(ledger)
        sending = Sending(move=to_sending(write, after(1)), check=no_brake, amount=None)
        with patch.object(server_side.Bounded, "commit", cut), pytest.raises(LedgerUnwritable, match="no answer"):
            ledger.record_sending(sending)
    with opened(url) as other:
        assert other.state_counts() == {"sending": 1}, "the server has it: whoever starts takes it for unknown"
        assert other.verify() is None


def test_a_commit_that_a_standby_may_not_have_is_an_error(url: str, postgres: Server) -> None:
    silent = f"{url}%20-cclient_min_messages%3Derror"
    with opened(silent) as ledger, postgres.connect() as beside, settled(beside, "synchronous_standby_names", "nobody"):
        beside.execute("SET synchronous_commit = local")
        with ThreadPoolExecutor(1) as pool:
            planning = pool.submit(planned, ledger)
            waits = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            while beside.execute(waits.encode()).fetchone() is None:
                assert not planning.done(), planning.result()
            with pytest.raises(LedgerUnwritable, match="warned of a commit: canceling wait for synchronous") as caught:
                planning.result()
    assert "standbys" in caught.value.hint
    with opened(url) as other:
        assert len(other.open_writes()) == 1, "it is there, and may be lost with this disk"


def test_who_stands_in_a_transaction_loses_what_others_wait_for(url: str) -> None:
    short = {**server_side.SETTINGS, "idle_in_transaction_session_timeout": "200ms"}
    with patch.object(server_side, "SETTINGS", short), opened(url) as stopped, opened(url) as other:
        (write,) = planned(stopped)

        def stands(view: object) -> None:
            other.append_halt(because="now", by="ann", at=NOW)

        with pytest.raises(LedgerUnwritable):
            stopped.record_sending(Sending(move=to_sending(write, after(1)), check=stands, amount=None))
        assert [halt.because for halt in other.halts(NOW)] == ["now"]
        assert other.state_counts() == {"planned": 1}, "nothing was recorded against the halt"


def test_what_takes_long_to_take_in_is_read_all_the_same_and_a_ledger_that_is_long_can_be_accepted(url: str) -> None:
    short = {**server_side.SETTINGS, "idle_in_transaction_session_timeout": "100ms"}
    write_of = rows.write_of

    def slowly(row: RowMapping) -> Write:
        time.sleep(0.3)
        return write_of(row)

    def to_an_operator(write: Write) -> Move:
        time.sleep(0.3)
        return moved(write, "needs_human", after(1), reason="restored")

    with patch.object(server_side, "SETTINGS", short):
        with opened(url) as ledger:
            (write,) = planned(ledger)
            with patch.object(rows, "write_of", slowly):
                assert ledger.writes() == [write]
            assert ledger.writes() == [write], "on a connection anew"
        done = accept_restore(url, by="ann", now=NOW, restored=to_an_operator, in_step=True)
    assert done.needs_human == (write.id,)


def test_text_that_no_database_holds_is_stored_without_it(postgres: Server) -> None:
    with opened(postgres.ledger()) as ledger:
        ledger.apply(Commit(at=NOW, records=(fired(facts={"a\0b": "half \ud800 and \0"}),), plans=(plan(),)))
        assert ledger.verify() is None
        (write,) = ledger.open_writes(ACME)
        ledger.apply(Commit(at=NOW, moves=(moved(write, "waiting", after(1), why="zero \0"),)))
        assert ledger.open_writes(ACME)[0].why == "zero \ufffd"
        cluster = "campaign:a\0b:7"
        planned(ledger, plan(key(2), intent("edit_cluster", target=cluster)))
        (found,) = ledger.target_writes(ACME, write.key.event, cluster)
        assert found.intent.target == "campaign:a\ufffdb:7", "found by the name that the service gives it"


def test_a_server_that_starts_again_is_found_again(postgres: Server) -> None:
    with opened(postgres.ledger()) as ledger:
        planned(ledger)
        postgres.stop()
        with pytest.raises(LedgerUnwritable, match="cannot be used"):
            planned(ledger, plan())
        postgres.start()
        assert len(ledger.open_writes()) == 1
        assert ledger.verify() is None


def test_every_ledger_writes_the_same_log_to_the_byte(tmp_path: Path, postgres: Server) -> None:
    ends = []
    for made in (opened(f"sqlite:///{tmp_path}/worker.db"), in_memory_ledger(NOW), opened(postgres.ledger())):
        with made as ledger:
            (write,) = planned(ledger)
            record(ledger, to_sending(write, after(1)), no_brake, amount=None)
            ends.append([{**one, "chain": ""} for one in ledger.log(LogFilter())])
    assert ends[0] == ends[1]
    with_another_name = [hash_of({**one, "chain": ACME, "prev": ends[2][0]["prev"]}) for one in ends[0][:1]]
    assert with_another_name == [ends[2][0]["hash"]], "but for the name of its chain, a server's record is the same"
    for linked in ("prev", "hash"):
        for one in (*ends[0], *ends[2]):
            del one[linked]
    assert ends[0] == ends[2]
