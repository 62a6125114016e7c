"""A database that was put back, or is another server's: what a replica keeps on its disk shows it, and nobody sends."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import delete, insert, select, text, update

from tests.calling import call
from tests.contract.postgres import Server, running
from tests.unit.ledger.examples import ACME, NOW, after, become, key, memory, plan, planned, sent
from worker.ledger.ownership import Membership
from worker.ledger.reading import open_reading
from worker.ledger.sql import SqlLedger
from worker.ledger.tables import metadata, revision_table
from worker.model.commits import Commit, DaemonStatus, LogFilter
from worker.model.errors import LedgerUnwritable, NotSafe, SendingUnmarked
from worker.model.facts import Json


@contextmanager
def replica(url: str, folder: Path) -> Iterator[SqlLedger]:
    with SqlLedger.open(url, clock_now=lambda: NOW) as ledger:
        ledger.remember_in(folder)
        yield ledger


def send(ledger: SqlLedger, number: int = 1) -> None:
    (write,) = planned(ledger, plan(key(number)))
    become(ledger, sent(ledger, write, after(number)), "applied", after(number))


def another_runs(ledger: SqlLedger) -> None:
    Membership(ledger._store).beat("running")


def put_back(url: str, ledger: SqlLedger) -> None:
    """As a backup from before the last sending would do, whose connections it ends."""
    with SqlLedger.open(url, clock_now=lambda: NOW) as other, other._store.writing() as connection:
        connection.execute(text("DELETE FROM action_log WHERE id > 1"))
    ledger._store.close()


@contextmanager
def put_back_beneath(url: str) -> Iterator[None]:
    """What happens meanwhile is undone, as by a dump that is played back into the tables: no connection ends."""
    with SqlLedger.open(url, clock_now=lambda: NOW) as other:
        with other._store.writing() as connection:
            was = {table: connection.execute(select(table)).all() for table in metadata.sorted_tables}
        yield
        with other._store.writing() as connection:
            for table, rows in was.items():
                connection.execute(delete(table))
                if rows:
                    connection.execute(insert(table), [row._asdict() for row in rows])


def test_what_was_put_back_beneath_an_open_connection_is_noticed_by_the_next_transaction(
    url: str, tmp_path: Path, config: Path
) -> None:
    with replica(url, tmp_path / "one") as ledger:
        (write,) = planned(ledger)
        with put_back_beneath(url):
            become(ledger, sent(ledger, write, after(1)), "applied", after(2))
        ledger.mark_words()
        assert ledger.open_writes() == (write,), "nothing that was read says that it was sent"

        with pytest.raises(LedgerUnwritable, match="was restored: record 3 of partner-id-acme"):
            sent(ledger, write, after(3))

        planned(ledger, plan(key(2)))
        with pytest.raises(LedgerUnwritable, match="was restored"):
            sent(ledger, write, after(4))
        assert "was restored" in call("status", config=config).out, "it is noted for all"
        assert call("ledger", "accept-restore", config=config).code == 0
        send(ledger, 3)


def test_the_right_database_is_gone_on_with_once_it_is_in_its_place_again(url: str, tmp_path: Path) -> None:
    with replica(url, tmp_path / "one") as ledger:
        send(ledger)
        with put_back_beneath(url):
            put_back(url, ledger)
            planned(ledger, plan(key(2)))
            ledger.mark_words()
            assert ledger.refused() is not None
        ledger._store.close()
        send(ledger, 3)


def test_what_commands_add_to_a_partners_chain_keeps_no_replica_from_going_on(url: str, tmp_path: Path) -> None:
    with replica(url, tmp_path / "one") as ledger, SqlLedger.open(url, clock_now=lambda: NOW) as other:
        ledger.apply(Commit(at=NOW, memory=(memory(0),)))
        for number in (1, 2):
            other.append_halt(partner=ACME, because="a look first", by="ann", at=NOW)
            send(ledger, number)


def test_what_was_sent_by_is_kept_before_the_byte_and_found_again(url: str, tmp_path: Path) -> None:
    with replica(url, tmp_path) as ledger:
        send(ledger)
        kept = json.loads((tmp_path / "ledger.json").read_text())
        ((chain, (seq, digest)),) = kept["chains"].items()
        (record,) = ledger.log(LogFilter(chain=chain, after_seq=seq - 1, limit=1))
        assert (record["kind"], record["hash"]) == ("sending", digest)
    with replica(url, tmp_path) as ledger:
        send(ledger, 2)


def test_nothing_is_sent_where_that_cannot_be_kept(url: str, tmp_path: Path) -> None:
    with replica(url, tmp_path / "state") as ledger:
        (tmp_path / "state").rename(tmp_path / "gone")
        send(ledger)
        assert (tmp_path / "state" / "ledger.json").exists(), "what it knows it knows without the folder, too"
        shutil.rmtree(tmp_path / "state")
        (tmp_path / "state").write_text("in its place")
        with pytest.raises(SendingUnmarked, match=r"ledger\.json cannot be written"):
            send(ledger, 2)


def test_a_running_replica_sends_no_more_from_a_ledger_that_forgot_and_goes_on_once_it_is_accepted(
    url: str, tmp_path: Path, config: Path
) -> None:
    with replica(url, tmp_path / "one") as ledger, replica(url, tmp_path / "two") as other:
        send(ledger)
        put_back(url, ledger)
        (write,) = planned(ledger, plan(key(2)))
        for one in (ledger, other):
            with pytest.raises(LedgerUnwritable, match="was restored"):
                sent(one, write, after(2))
        assert "was restored" in call("status", config=config).out
        with pytest.raises(NotSafe, match="was restored"), replica(url, tmp_path / "one"):
            pass

        assert call("ledger", "accept-restore", config=config).code == 0

        assert [one.state for one in ledger.open_writes()] == ["needs_human", "needs_human"]
        for number, one in enumerate((ledger, other), start=3):
            send(one, number)
        assert call("ledger", "accept-restore", config=config).code == 1, "there is nothing amiss"


def test_a_replica_that_was_cut_off_while_the_ledger_was_upgraded_sends_and_stores_nothing(
    url: str, tmp_path: Path
) -> None:
    with replica(url, tmp_path) as ledger:
        (write,) = planned(ledger)
        with SqlLedger.open(url, clock_now=lambda: NOW) as other, other._store.writing() as connection:
            connection.execute(update(revision_table).values(version_num="one of later"))
        with pytest.raises(LedgerUnwritable, match="upgraded meanwhile: it has revision one of later"):
            sent(ledger, write, after(1))
        ledger._store.close()
        with pytest.raises(LedgerUnwritable, match="upgraded meanwhile"):
            planned(ledger, plan(key(2)))


def test_a_database_that_was_made_anew_is_said_to_be_another_until_somebody_accepts_it(
    url: str, postgres: Server, tmp_path: Path, config: Path
) -> None:
    with (
        replica(url, tmp_path / "one") as ledger,
        replica(url, tmp_path / "two") as other,
        postgres.connect() as beside,
    ):
        send(ledger)
        assert other.open_writes()
        schema = url.rpartition("%3D")[2]
        beside.execute(f"DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}".encode())
        assert call("rules", "publish", config=config).code == 0
        (write,) = planned(other, plan(key(2)))
        with pytest.raises(LedgerUnwritable, match="it has the id"):
            sent(other, write, after(2))
        assert other.open_writes()
        assert "it has the id" in call("status", config=config).out
        with pytest.raises(LedgerUnwritable, match="was restored: record"):
            planned(ledger, plan(key(3)))
        assert ledger.open_writes()
        assert call("ledger", "accept-restore", config=config).code == 0
        for number, one in enumerate((ledger, other), start=4):
            send(one, number)


@pytest.mark.parametrize("what", ["system", "timeline"])
def test_another_server_or_timeline_is_another_ledger(what: str, url: str, tmp_path: Path) -> None:
    with replica(url, tmp_path) as ledger:
        send(ledger)
    file = tmp_path / "ledger.json"
    kept: dict[str, Json] = json.loads(file.read_text())
    system, _, timeline = str(kept["server"]).partition(", timeline ")
    kept["server"] = f"7{system}, timeline {timeline}" if what == "system" else f"{system}, timeline 00000002"
    file.write_text(json.dumps(kept))
    with pytest.raises(NotSafe, match=r"its server is .* and was .*timeline") as caught, replica(url, tmp_path):
        pass
    assert "accept-restore" in caught.value.hint


def test_a_folder_of_another_ledger_stops_nobody_else(url: str, postgres: Server, tmp_path: Path) -> None:
    with replica(postgres.ledger(), tmp_path / "other") as ledger:
        send(ledger)
    with replica(url, tmp_path / "own") as ledger:
        send(ledger)
        with pytest.raises(NotSafe, match="is of another ledger") as caught, replica(url, tmp_path / "other"):
            pass
        assert "state_dir" in caught.value.hint
        send(ledger, 2)


def test_without_a_mark_a_replica_joins_beside_another_or_where_nothing_was_sent(url: str, tmp_path: Path) -> None:
    with replica(url, tmp_path / "first") as ledger:
        send(ledger)
        for _ in range(2):  # a refused one keeps nothing that would let it in
            with pytest.raises(NotSafe, match="no other replica runs"), replica(url, tmp_path / "new"):
                pass
        another_runs(ledger)
        with replica(url, tmp_path / "new") as joined:
            send(joined, 2)


def test_where_every_mark_is_lost_a_person_says_so(url: str, tmp_path: Path, config: Path) -> None:
    with replica(url, tmp_path / "first") as ledger:
        send(ledger)
    assert call("ledger", "accept-restore", config=config).code == 1
    assert call("ledger", "accept-restore", "--in-step", config=config).code == 0
    with replica(url, tmp_path / "new") as ledger:
        send(ledger, 2)


def test_a_mark_that_cannot_be_read_is_no_mark(url: str, tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text("{")
    with pytest.raises(NotSafe, match="cannot be read"), replica(url, tmp_path):
        pass


def test_an_upgrade_waits_for_the_last_replica(url: str, tmp_path: Path, config: Path) -> None:
    with replica(url, tmp_path / "first") as ledger:
        assert "nothing to do" in call("ledger", "upgrade", config=config).err
        another_runs(ledger)
        done = call("ledger", "upgrade", config=config)
    assert (done.code, "1 replicas run on" in done.err) == (3, True)
    with open_reading(url) as reader:
        assert reader.made


def test_what_no_start_would_take_and_what_replicas_run_on_is_taken_to_no_other_service(
    url: str, tmp_path: Path, config: Path
) -> None:
    new = "http://127.0.0.1:2/api/v3"
    config.write_text(config.read_text().replace("http://127.0.0.1:1/api/v3", new))
    arguments = ("ledger", "moved", "--to", new, "--because", "it has a new name")
    with replica(url, tmp_path / "one") as ledger:
        ledger.save_status(DaemonStatus(pid=1, since=NOW, seen_at=NOW, body={"service": "http://127.0.0.1:1/api/v3"}))
        send(ledger)
        fleet = Membership(ledger._store)
        fleet.beat("running")
        beside = call(*arguments, config=config)
        assert (beside.code, "1 replicas run on" in beside.err) == (3, True), beside.err
        fleet.leave()
        put_back(url, ledger)
        planned(ledger, plan(key(2)))
        forgot = call(*arguments, config=config)
        assert (forgot.code, "was restored" in forgot.err) == (3, True), forgot.err


def test_a_replica_that_was_cut_off_while_the_ledger_was_taken_to_another_service_is_out(
    url: str, tmp_path: Path, config: Path
) -> None:
    """It went on at the old one, beside those that were started for the new."""
    old, new = "http://127.0.0.1:1/api/v3", "http://127.0.0.1:2/api/v3"
    with SqlLedger.open(url, clock_now=lambda: NOW) as ledger:
        ledger.remember_in(tmp_path / "one", old)
        ledger.save_status(DaemonStatus(pid=1, since=NOW, seen_at=NOW, body={"service": old}))
        send(ledger)
        config.write_text(config.read_text().replace(old, new))
        assert call("ledger", "moved", "--to", new, "--because", "a new name", config=config).code == 0
        (write,) = planned(ledger, plan(key(2)))
        for _ in range(2):  # on the connection that it had, and on the next
            with pytest.raises(LedgerUnwritable, match=f"taken to the service {new}"):
                sent(ledger, write, after(2))


def test_what_to_do_before_an_upgrade_is_what_a_server_can(url: str, tmp_path: Path, config: Path) -> None:
    with SqlLedger.open(url, clock_now=lambda: NOW) as ledger, ledger._store.writing() as connection:
        connection.execute(update(revision_table).values(version_num="0007"))
    done = call("writes", config=config)
    assert (done.code, "take a backup with `pg_dump`" in done.err) == (3, True)


def test_nothing_is_no_ledger_to_upgrade(url: str, tmp_path: Path, config: Path) -> None:
    (tmp_path / "worker.db").touch()
    for ledger in (url, "sqlite:///worker.db"):
        config.write_text(config.read_text().replace(url, ledger))
        done = call("ledger", "upgrade", config=config)
        assert (done.code, "is empty; nothing was changed" in done.err) == (1, True)
    with replica(url, tmp_path / "first") as begun:
        send(begun)


def test_a_halt_that_was_forgotten_is_noticed_by_whoever_saw_it(url: str, tmp_path: Path) -> None:
    with replica(url, tmp_path / "one") as ledger, replica(url, tmp_path / "two") as other:
        planned(ledger)
        other.append_halt(because="a look first", by="ann", at=NOW)
        ledger.mark_words()
        put_back(url, ledger)
        (write,) = ledger.open_writes()
        with pytest.raises(LedgerUnwritable, match="record 1 of the fleet, which a replica has seen"):
            sent(other, write, after(1))


def without_the_old_connection(ledger: SqlLedger) -> None:
    with pytest.raises(LedgerUnwritable, match="cannot be used"):
        ledger.open_writes()


def test_a_snapshot_of_the_servers_disk_that_was_put_back_is_noticed_by_who_runs_on(tmp_path: Path) -> None:
    with running() as server:
        data, snapshot = server.folder / "data", server.folder / "snapshot"
        url = server.ledger()
        with replica(url, tmp_path / "one") as ledger, replica(url, tmp_path / "two") as other:
            send(ledger)
            server.stop()
            subprocess.run(["cp", "-a", data, snapshot], check=True)
            server.start()
            without_the_old_connection(ledger)
            send(ledger, 2)
            server.stop()
            data.rename(server.folder / "lost")
            snapshot.rename(data)
            server.start()
            for one in (ledger, other):
                without_the_old_connection(one)
            (write,) = planned(ledger, plan(key(2)))
            for one in (ledger, other):
                with pytest.raises(LedgerUnwritable, match=r"record \d of partner-id-acme, which a replica has seen"):
                    sent(one, write, after(2))
