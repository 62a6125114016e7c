"""The daemon's own work: a partner that is closed to us, a defect, and stopping at once."""

import asyncio
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from tests.worlds import PARTNER, PAUSE, Town, happening, in_town, takes_testimony, tenant, world
from worker.engine.daemon import Daemon, RuleSource
from worker.engine.ports import BEAT_S, CycleReport, Fleet, Parts, Service
from worker.ledger.sql import SqlLedger
from worker.model.commits import Commit, DaemonStatus
from worker.model.errors import LedgerUnwritable, OwnershipLost
from worker.model.facts import Json, PartnerId
from worker.model.rules import RuleSet
from worker.rules.load import read_rules


class Told:
    """Keeps what the daemon says."""

    def __init__(self) -> None:
        self.reports: list[CycleReport] = []
        self.said: list[str] = []
        self.errors: list[str] = []

    def cycle(self, report: CycleReport) -> None:
        self.reports.append(report)

    def note(self, message: str, **_keys: object) -> None:
        self.said.append(message)

    def alarm(self, message: str, **keys: object) -> None:
        self.said.append(message)
        self.errors.append(str(keys.get("error")))


class NoRules:
    """A folder that stays as it is."""

    def files_hash(self) -> str:
        return "same"

    async def load(self) -> RuleSet:
        return RuleSet()


def no_budget(_partner: PartnerId) -> Mapping[str, Json]:
    return {}


def daemon_of(here: Town, told: Told | None = None, source: RuleSource | None = None, **parts: Any) -> Daemon:  # noqa: ANN401 - fields of Parts
    """A daemon over the town's service and ledger, whose work the test has it do."""
    usual: dict[str, Any] = {"clock": here.clock, "service": here.worker.service, "ledger": here.worker.ledger}
    given = Parts(**{**usual, "settings": here.settings, **parts})
    return Daemon(given, source=source or NoRules(), reporter=told or Told(), pid=1, budgets=no_budget)


def watching(here: Town, told: Told, **parts: Any) -> Daemon:  # noqa: ANN401 - fields of Parts
    """A daemon that has taken up its partner."""
    daemon = daemon_of(here, told, **parts)
    list(daemon._partners.take_up((PARTNER,)))
    return daemon


@in_town(world(happening("e1")))
async def test_a_partner_that_refuses_us_is_left_in_peace_for_five_minutes(here: Town) -> None:
    here.fault("answer_before", "GET", "^/events/", times=100, status=403, code="error.unauthorized")
    daemon = watching(here, told := Told())
    asked = []
    for wait in (290.0, 20.0, 0.0):
        await daemon._one_cycle(PARTNER)
        asked.append(len(here.twin.books.requests))
        await here.clock.sleep(wait)
    assert asked[0] == asked[1] < asked[2]
    assert told.said == ["partner_denied"] * 2


@in_town(world(happening("e1")))
async def test_a_partner_whose_looks_fail_for_a_minute_is_told_of_once_and_once_when_it_is_over(here: Town) -> None:
    daemon = watching(here, told := Told())

    async def look(times: int) -> list[str]:
        told.said.clear()
        for _ in range(times):
            await daemon._one_cycle(PARTNER)
            await here.clock.sleep(12)
        return told.said

    here.fault("answer_before", "GET", "^/events/", times=2, status=503)
    assert await look(8) == [], "a failure that is soon over is nothing"
    here.fault("answer_before", "GET", "^/events/", times=10_000, status=503)
    assert await look(30) == ["partner_failing"]
    assert "503" in told.errors[0]
    here.twin.faults.clear()
    assert await look(8) == ["partner_well"]


@in_town(world(happening("e1")), interval=timedelta(seconds=10))
async def test_records_that_another_process_keeps_out_of_the_ledger_are_stored_later_and_only_a_long_wait_is_told(
    here: Town, tmp_path: Path
) -> None:
    told = Told()
    here.ledger.in_a_loop()
    daemon = daemon_of(here, told)
    tool = sqlite3.connect(tmp_path / "worker.db", isolation_level=None)
    tool.execute("BEGIN EXCLUSIVE")
    task = asyncio.ensure_future(daemon.run())
    await asyncio.sleep(4)
    assert told.said == ["no_rules"], "a moment is nothing"
    await asyncio.sleep(7)
    assert [*dict.fromkeys(told.said)] == ["no_rules", "ledger_unwritable", "partner_found"]
    tool.close()
    assert here.log() == []
    daemon.stop()
    await task
    assert [record["kind"] for record in here.log()] == ["rules_loaded", "started", "stopped"]


class Edited:
    """A rule file that somebody edits while the daemon runs."""

    def __init__(self, text: str) -> None:
        self.text = text

    def files_hash(self) -> str:
        return f"hash of {self.text}"

    async def load(self) -> RuleSet:
        return replace(read_rules({"r.yaml": self.text}).rules, hash=self.files_hash())


async def watcher(here: Town, told: Told | None = None, rules: str = PAUSE, **parts: Any) -> Daemon:  # noqa: ANN401 - what a test says in keywords
    """A daemon with rules, whose jobs the test does itself."""
    daemon = daemon_of(here, told, Edited(rules), **parts)
    daemon._take_rules(await Edited(rules).load(), "")
    return daemon


@in_town(world(happening("e1")))
async def test_an_edited_rule_is_taken_up_a_broken_one_is_not_and_status_says_since_when(here: Town) -> None:
    good = "rules: [{id: a, when: event.status == 'cancelled', do: [pause]}]"
    source = Edited(good)
    daemon = daemon_of(here, source=source)
    daemon._take_rules(await source.load(), source.files_hash())

    async def rules_after(seconds: float) -> dict[str, Json]:
        """What `status` reads once the daemon has looked at the folder again."""
        await asyncio.sleep(seconds)
        await daemon._reload()
        daemon._save_status()
        said = here.worker.ledger.status()
        assert said is not None
        rules = said.body["rules"]
        assert isinstance(rules, dict)
        return rules

    first = await rules_after(10)
    assert first["hash"] == first["files_hash"]
    assert (first["error"], first["refused_at"]) == (None, None)

    source.text = good.replace("pause", "puase")
    broken = await rules_after(10)
    assert (broken["hash"], broken["loaded_at"]) == (first["hash"], first["loaded_at"]), "the last good set stays"
    assert broken["files_hash"] == source.files_hash()
    assert "unknown action 'puase'" in str(broken["error"])
    source.text += " # still wrong"
    assert (await rules_after(10))["refused_at"] == broken["refused_at"], "since the first refusal"

    source.text = good
    assert await rules_after(10) == first, "the same set again, and in force all the while"
    source.text = good.replace("cancelled", "archived")
    edited = await rules_after(10)
    assert edited["hash"] == edited["files_hash"] == source.files_hash()
    assert str(edited["loaded_at"]) > str(broken["refused_at"])


@in_town(world(happening("e1")))
async def test_published_rules_that_the_ledger_did_not_give_are_asked_for_again(here: Town) -> None:
    """The ledger would store nothing under the rules before: a replica that stayed with them did nothing for ever."""

    class Published(Edited):
        cut_off = True

        async def load(self) -> RuleSet:
            if self.cut_off:
                raise LedgerUnwritable("no answer within 10 s")
            return await super().load()

    source, told = Published("rules: [{id: a, when: event.status == 'cancelled', do: [pause]}]"), Told()
    daemon = daemon_of(here, told, source)
    await daemon._reload()
    assert not daemon.rules.rules
    source.cut_off = False
    await daemon._reload()
    assert [rule.id for rule in daemon.rules.rules] == ["a"]
    assert told.said == [], "nobody is told of a ledger that was away for a moment, or that the rules are wrong"


@in_town(world(happening("e1")))
async def test_what_was_to_be_said_of_a_partner_that_was_lost_since_is_said_and_stops_nothing(here: Town) -> None:
    """It could not be stored at once, and when it could, the partner was another's: each status after it failed."""
    daemon = daemon_of(here)
    apply, away = here.ledger.apply, LedgerUnwritable("no answer within 10 s")
    answers: list[Exception] = [away, OwnershipLost("it is another's")]

    def lost(commit: Commit) -> object:
        if PARTNER in commit.partners and answers:
            raise answers.pop(0)
        return apply(commit)

    takes_testimony(here)
    here.ledger.apply = lost  # type: ignore[assignment,method-assign]
    daemon._record("held", "it is the same partner as another", partner=PARTNER, reason="same_partner")
    daemon._save_status()
    daemon._save_status()
    assert [one["why"] for one in here.log("held")] == ["it is the same partner as another"]
    assert here.ledger.status() is not None


@in_town(world(happening("e1")))
async def test_in_a_fleet_each_record_is_told_by_one(here: Town) -> None:
    fleet = SimpleNamespace(mine={PARTNER}, replica="a", speaks=True)
    daemon = daemon_of(here, fleet=cast("Fleet", fleet))
    assert [daemon.tells({"partner": one, "replica": "b"}) for one in (PARTNER, "another")] == [True, False]
    assert [daemon.tells({"partner": None, "replica": one}) for one in ("a", "b", "")] == [True, False, True]
    fleet.speaks = False
    assert not daemon.tells({"partner": None, "replica": ""})


class Broken:
    """A service's client with a defect, which tells what it holds."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError("header: Bearer s3cret")


@in_town(world(happening("e1")))
async def test_what_a_defect_says_is_told_without_the_secrets_that_the_client_has_in_hand(here: Town) -> None:
    broken, scrubbed = cast("Service", Broken()), lambda text: text.replace("s3cret", "(gone)")
    daemon = watching(here, told := Told(), service=broken, scrubbed=scrubbed)
    await daemon._one_cycle(PARTNER)
    assert told.errors == ["RuntimeError('header: Bearer (gone)')"]
    assert [state.last_error for state in daemon._partners] == told.errors, "which status would show"


class Due:
    """A scheduler that only notes when a partner is due again."""

    def __init__(self) -> None:
        self.at: datetime | None = None

    def modify_job(self, _name: str, *, next_run_time: datetime) -> None:
        self.at = next_run_time


@in_town(world(happening("e1")), requests_per_minute=600)
async def test_a_look_is_due_when_the_list_may_be_asked_again_so_none_waits_and_none_is_skipped(here: Town) -> None:
    told, due = Told(), Due()
    daemon = watching(here, told)
    here.fault("slow", "GET", "^/events/", times=1000, delay_s=0.4)
    await here.clock.sleep(4)
    for _ in range(20):
        await daemon._poll(cast("AsyncIOScheduler", due), PARTNER)
        assert due.at is not None
        left = due.at - here.clock.now()
        assert timedelta(0) < left <= here.settings.interval
        await here.clock.sleep(left.total_seconds())
    assert len(told.reports) == 20
    assert max(one.took_ms for one in told.reports[1:]) < 500, "what the answer takes, and no wait before it"


class Counting(SqlLedger):
    """Counts how often the daemon's word of itself is stored."""

    saved = 0

    def save_status(self, status: DaemonStatus) -> None:
        type(self).saved += 1
        super().save_status(status)


THIRTY = [PartnerId(f"partner-id-{number}") for number in range(30)]


@in_town(world(happening("e1"), more=tuple(tenant(partner, happening(f"e-{partner}")) for partner in THIRTY)))
async def test_with_many_partners_not_every_look_is_a_commit_and_the_last_word_is_stored(here: Town) -> None:
    await here.kill()
    here.start(ledger=Counting)
    daemon = daemon_of(here)
    list(daemon._partners.take_up(THIRTY))
    Counting.saved = 0
    keeping = asyncio.ensure_future(daemon._keep_time(AsyncIOScheduler(timezone="UTC")))
    await asyncio.gather(*(daemon._one_cycle(partner) for partner in THIRTY))
    assert Counting.saved <= 4
    await here.clock.sleep(2 * here.settings.interval.total_seconds())
    said = here.ledger.status()
    assert said is not None
    found = said.body["partners"]
    assert isinstance(found, dict)
    assert all(isinstance(one, dict) and one["last_ok_at"] is not None for one in found.values())
    before = Counting.saved
    await here.clock.sleep(4 * here.settings.interval.total_seconds())
    assert Counting.saved > before, "it is alive, whatever its looks do"
    keeping.cancel()


class Endless(Edited):
    """An edited folder that takes very long to read."""

    edited = False

    def files_hash(self) -> str:
        return f"{super().files_hash()} {self.edited}"

    async def load(self) -> RuleSet:
        if self.edited:
            await asyncio.Event().wait()
        return await super().load()


@in_town(world(happening("e1")))
async def test_a_stop_in_the_middle_of_a_job_is_no_failure(here: Town, caplog: pytest.LogCaptureFixture) -> None:
    """Who edited the rules and restarted the worker found a page of Python in its log."""
    source = Endless(PAUSE)
    daemon = daemon_of(here, source=source)
    running = asyncio.ensure_future(daemon.run())
    await asyncio.sleep(10)
    source.edited = True
    await asyncio.sleep(10)
    daemon.stop()
    await running
    await asyncio.sleep(1)
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []


@in_town(world(happening("e1")))
async def test_a_stop_waits_for_no_sign_in(here: Town) -> None:
    here.fault("hang_before", "POST", "/auth", times=None)
    daemon = daemon_of(here)
    running = asyncio.ensure_future(daemon.run())
    await asyncio.sleep(4)
    daemon.stop()
    await asyncio.wait_for(running, 1)


@in_town(world(happening("e1")))
async def test_who_polls_seldom_says_how_it_is_at_once_all_the_same(here: Town) -> None:
    """Of two partners that were polled together the second was said to be unread until the next poll."""
    await here.kill()
    here.start(ledger=Counting)
    daemon = daemon_of(here, settings=replace(here.settings, interval=timedelta(minutes=10)))
    keeping = asyncio.ensure_future(daemon._keep_time(AsyncIOScheduler(timezone="UTC")))
    Counting.saved = 0
    daemon.say()
    daemon.say()
    await here.clock.sleep(4.0)
    assert Counting.saved == 2
    await here.clock.sleep(60.0)
    assert Counting.saved == 2, "there is nothing new"
    keeping.cancel()


@in_town(world(happening("e1")))
async def test_a_daemon_of_a_fleet_that_is_told_to_stop_asks_no_more_who_its_partners_are(here: Town) -> None:
    """It gave them back in that moment, and whoever has them now asks the same."""
    daemon = daemon_of(here, fleet=cast("Fleet", SimpleNamespace(mine={PARTNER})))
    daemon._named = (PARTNER, PartnerId("another"))
    daemon.stop()
    here.fault("answer_before", "GET", "^/partners/", times=1, status=500)
    await daemon._identify()
    assert len(here.twin.faults.left) == 1, "and nobody met it"


@in_town(world(happening("e1")))
async def test_a_daemon_of_a_fleet_says_goodbye_once_it_has_given_everything_back(here: Town) -> None:
    """With many partners that takes longer than a lease: it goes on beating meanwhile."""
    did, left = list[str](), iter([True, True, False])

    def give_back(_: object) -> bool:
        did.append("gave back")
        return next(left)

    fleet = SimpleNamespace(stop=lambda: did.append("stopped"), give_back=give_back, leave=lambda: did.append("left"))
    daemon, began = daemon_of(here, fleet=cast("Fleet", fleet)), here.clock.monotonic()
    await daemon._finish(AsyncIOScheduler())
    assert did == ["stopped", "gave back", "gave back", "gave back", "left"]
    assert here.clock.monotonic() - began == 2 * BEAT_S
