"""What `fleet` and `status` say of the workers that share a ledger."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert, text, update

from tests.builders import cases
from tests.calling import Called, call, settle_in
from tests.unit.ledger.examples import ACME, NOW
from worker.engine.ports import unhealthy
from worker.ledger.sql import SqlLedger
from worker.ledger.tables import partners, replicas
from worker.model.commits import Commit, DaemonStatus, PartnerMemory
from worker.model.facts import Json, PartnerId, spelled

SERVICE = "http://127.0.0.1:1/api/v3"
OTHER = PartnerId("partner-id-other")


class Fleet:
    """Rows as replicas leave them: ``old`` was not heard of for a minute."""

    def __init__(self, url: str, config: Path) -> None:
        self.config = config
        self.ledger = SqlLedger.open(url, clock_now=lambda: NOW)
        with self.ledger._store.reading() as connection:
            self.now: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
        self.ledger.save_status(DaemonStatus(pid=7, since=NOW, seen_at=self.now, body={"service": SERVICE}))
        for partner in (ACME, OTHER):
            self.ledger.apply(Commit(at=NOW, partner=PartnerMemory(partner=partner, listed_at=NOW)))

    def replica(self, name: str, beat: datetime, **said: Json) -> None:
        told = {"id": name, "host": "here", "pid": 7, "version": "1", "state": "live", "since": self.now, "beat": beat}
        with self.ledger._store.writing() as connection:
            connection.execute(insert(replicas).values(**told, body=said))

    def own(self, partner: PartnerId, owner: str) -> None:
        with self.ledger._store.writing() as connection:
            row = update(partners).where(partners.c.partner == partner)
            connection.execute(row.values(owner=owner, epoch=1, owned_since=self.now))

    def __call__(self, *arguments: str) -> Called:
        return call(*arguments, config=self.config)


@pytest.fixture
def fleet(url: str, config: Path) -> Fleet:
    return Fleet(url, config)


def test_fleet_names_who_runs_and_whose_each_partner_is(fleet: Fleet) -> None:
    listed = spelled(fleet.now)
    fleet.replica("a1", fleet.now, partners={ACME: {"last_ok_at": listed}})
    fleet.replica("b2", fleet.now - timedelta(minutes=1))
    fleet.own(ACME, "a1")

    said = fleet("fleet", "--format", "json").json

    assert [(one["id"], one["state"], one["pid"]) for one in said["replicas"]] == [("a1", "live", 7), ("b2", "gone", 7)]
    assert [one["lag_ms"] >= 60_000 for one in said["replicas"]] == [False, True]
    assert [(one["partner"], one["owner"], one["listed_at"]) for one in said["partners"]] == [
        (ACME, "a1", listed),
        (OTHER, None, spelled(NOW)),
    ]
    assert "nobody" in fleet("fleet").out


def test_status_says_what_each_owner_says(fleet: Fleet) -> None:
    listed = spelled(fleet.now)
    fleet.replica("a1", fleet.now, partners={ACME: {"last_ok_at": listed}}, rules={"ids": ["r"]}, cycle_ms=5)
    fleet.own(ACME, "a1")

    assert "partner-id-other: the last complete cycle is" in fleet("status", "--healthy").err
    fleet.replica("b2", fleet.now, partners={OTHER: {"last_ok_at": listed}, ACME: {"last_ok_at": None}}, cycle_ms=7)
    fleet.own(OTHER, "b2")
    fleet("rules", "publish")
    said = fleet("status", "--format", "json").json

    assert [one["id"] for one in said["replicas"]] == ["a1", "b2"]
    assert {"pid", "since"}.isdisjoint(said)
    assert (said["running"], said["cycle_ms"], said["rules"]["generation"], said["rules"]["ids"]) == (True, 7, 1, ["r"])
    assert {name: one["last_ok_at"] for name, one in said["partners"].items()} == {ACME: listed, OTHER: listed}
    assert fleet("status", "--healthy").code == 0
    assert "2 replicas of a fleet" in fleet("status").out


def test_what_is_late_goes_by_the_interval_of_the_owner_wherever_it_is_asked(fleet: Fleet) -> None:
    """A monitor's config knows of no other interval than the usual one."""
    for seconds, code in ((40, 0), (50, 1)):
        listed = spelled(fleet.now - timedelta(seconds=seconds))
        said: Json = {"last_ok_at": listed, "look_s": 0.1, "interval_s": 15.0}
        fleet.replica(f"a{code}", fleet.now, partners={ACME: said, OTHER: said})
        fleet.own(ACME, f"a{code}")
        fleet.own(OTHER, f"a{code}")
        assert fleet("status", "--healthy").code == code


def test_a_partner_that_no_replica_is_told_of_any_more_is_missed_by_nobody(fleet: Fleet) -> None:
    """Once a partner was taken out of every config, the fleet was called not healthy for ever."""
    acme: Json = {ACME: {"last_ok_at": spelled(fleet.now)}}
    fleet.replica("a1", fleet.now, partners=acme, named=[ACME])
    fleet.own(ACME, "a1")
    fleet.own(OTHER, "that was killed")
    assert fleet("status", "--healthy").code == 0
    assert fleet("fleet", "--format", "json").json["partners"][1]["listed_at"] == spelled(NOW)
    fleet.replica("b2", fleet.now, partners={}, named=[ACME, OTHER])
    assert "partner-id-other" in fleet("status", "--healthy").err


@cases(
    "beat, command, code, said",
    (timedelta(minutes=-1), ("status", "--healthy"), 1, "no replica runs", "nobody is healthy where none runs"),
    (timedelta(minutes=1), ("probe",), 3, "in use by 1 replica", "none is probed beside one"),
    (timedelta(0), ("ledger", "accept-restore", "--in-step"), 3, "stop them first", "nothing is accepted beside one"),
)
def test_commands_that_ask_whether_a_replica_runs(
    fleet: Fleet, beat: timedelta, command: tuple[str, ...], code: int, said: str
) -> None:
    fleet.replica("a1", fleet.now + beat)
    done = fleet(*command)
    assert (done.code, said in done.err) == (code, True)


def test_the_page_is_ready_by_what_all_say(fleet: Fleet) -> None:
    fleet.replica("a1", fleet.now, partners={ACME: {"last_ok_at": spelled(fleet.now)}})
    fleet.own(ACME, "a1")
    fleet.replica("b2", fleet.now, partners={OTHER: {"last_ok_at": spelled(fleet.now)}})
    fleet.own(OTHER, "b2")
    said = fleet.ledger.status()
    assert said is not None
    assert unhealthy(said.body, fleet.now, timedelta(seconds=3)) is None
    assert fleet.ledger.refused_for(SERVICE) is None
    assert fleet.ledger.refused_for("https://other.example/api/v3") is not None


@pytest.mark.parametrize("command", [("fleet",), ("rules", "publish")])
def test_a_ledger_in_a_file_has_no_fleet(tmp_path: Path, command: tuple[str, ...]) -> None:
    call(*command, config=settle_in(tmp_path)).fails(2, "is a file", "takes up")


def test_a_published_set_that_no_replica_takes_up_is_told_of_wherever_somebody_looks(fleet: Fleet) -> None:
    error, listed = "unknown fact 'mine'", spelled(fleet.now)
    rules: Json = {"hash": "the one before", "ids": ["r"], "error": error, "refused_at": listed}
    fleet.replica("a1", fleet.now, partners={ACME: {"last_ok_at": listed}, OTHER: {"last_ok_at": listed}}, rules=rules)
    fleet.own(ACME, "a1")
    fleet.own(OTHER, "a1")
    fleet("rules", "publish")
    assert f"a replica decides nothing under them: {error}" in " ".join(fleet("status").out.split())
    healthy = fleet("status", "--healthy")
    assert (healthy.code, error in healthy.err) == (1, True)


def test_a_partner_is_not_made_known_by_the_name_that_somebody_resumes(fleet: Fleet) -> None:
    assert fleet("resume", "--partner", "harbour", "--because", "go on").code == 1
    known = [one["partner"] for one in fleet("fleet", "--format", "json").json["partners"]]
    assert known == [ACME, OTHER]
