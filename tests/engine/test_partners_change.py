"""Partners that the account's token names no longer, or names anew, while the worker runs."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from tests.engine.test_daemon import Edited, Told, daemon_of, no_budget
from tests.unit.engine.test_fleet import Paces, Rows
from tests.worlds import OTHER, PARTNER, PAUSE, Town, draft, happening, plays, rule_set, tenant, world
from worker.engine.daemon import Daemon
from worker.engine.ports import Fleet, Parts, ServersClock
from worker.ledger.sql import SqlLedger
from worker.model.facts import PartnerId
from worker.sandbox.changes import SettingsChange
from worker.sandbox.settings import TwinSettings


class Jobs:
    """A scheduler whose jobs the test does itself, partner by partner."""

    def __init__(self) -> None:
        self.partners: list[PartnerId] = []

    def add_job(self, _job: object, _when: object, *, args: tuple[object, PartnerId], **_options: object) -> None:
        self.partners.append(args[1])

    def remove_job(self, name: str) -> None:
        self.partners.remove(PartnerId(name.removeprefix("cycle ")))


def names(here: Town, *partners: str) -> None:
    """From its next sign-in on, the account is for these partners."""
    users = [{"username": "sandbox", "password": "sandbox", "partners": list(partners)}]
    here.twin.change(SettingsChange(settings={"users": users}), here.loop.time())


def asked(here: Town, partner: str) -> int:
    return sum(seen.partner == partner for seen in here.twin.books.requests)


async def lived(here: Town, daemon: Daemon, jobs: Jobs, seconds: float, fleet: Fleet | None = None) -> None:
    """What the daemon's jobs do: who the partners are, in a fleet the beat, and a cycle for each."""
    scheduler, ends = cast("AsyncIOScheduler", jobs), here.loop.time() + seconds
    while here.loop.time() < ends:
        await daemon._refresh(scheduler)
        if fleet is not None:
            fleet.beat(daemon._named)
            daemon._renew(scheduler, daemon._named)
            fleet.give_back(daemon._busy)
        for partner in list(jobs.partners):
            await daemon._one_cycle(partner)
        await asyncio.sleep(3)


def test_a_partner_that_leaves_the_token_rests_and_comes_back_as_after_a_silence(tmp_path: Path) -> None:
    told, jobs = Told(), Jobs()

    async def script(here: Town) -> None:
        daemon = daemon_of(here, told, Edited(PAUSE))
        daemon._take_rules(await Edited(PAUSE).load(), "")

        await lived(here, daemon, jobs, 9)
        assert sorted(jobs.partners) == [PARTNER, OTHER]
        here.ledger.append_halt(because="look first", by="me", at=here.clock.now())
        here.set("e1", partner=OTHER, status="cancelled")
        await lived(here, daemon, jobs, 9)
        assert (here.only.state, here.only.held_by) == ("planned", "halt")

        names(here, PARTNER)
        await lived(here, daemon, jobs, 30)
        assert jobs.partners == [PARTNER]
        assert told.said.count("partner_lost") == 1
        assert (here.only.state, here.only.held_by) == ("planned", "partner_gone"), here.story()
        before = asked(here, OTHER)
        here.ledger.resume_halts(because="go on", by="me", at=here.clock.now())
        here.set("e1", status="cancelled")
        here.set("e2", partner=OTHER, status="cancelled")
        await lived(here, daemon, jobs, 30)
        assert asked(here, OTHER) == before, "not one request more for a partner that is not ours"
        assert [(one.partner, one.eid) for one in here.effects()] == [(PARTNER, "e1")], "the others go on"

        names(here, PARTNER, OTHER)
        await lived(here, daemon, jobs, 60)
        assert sorted(jobs.partners) == [PARTNER, OTHER]
        states = {(write.key.partner, write.key.event): write.state for write in here.writes()}
        assert states == {
            (PARTNER, "e1"): "confirmed",
            (OTHER, "e1"): "confirmed",  # fired before it left: an open episode that still holds
            (OTHER, "e2"): "waiting",  # first seen after the silence, so a person is asked
        }
        assert len(here.effects()) == 2

    settings: dict[str, Any] = {"twin": TwinSettings(token_lifetime_s=15)}
    place = world(happening("e1"), more=(tenant(OTHER, happening("e1"), happening("e2")),))
    plays(script, tmp_path, place, **settings)


def test_in_a_fleet_what_a_partner_had_unsent_says_that_it_is_gone_before_it_is_given_back(tmp_path: Path) -> None:
    told, jobs, rows = Told(), Jobs(), Rows()
    rows.records = {PARTNER: "1", OTHER: "2"}

    async def script(here: Town) -> None:
        clock = ServersClock(here.clock)
        fleet = Fleet(rows, Paces(), clock)
        daemon = daemon_of(here, told, Edited(PAUSE), clock=clock, fleet=fleet)
        daemon._take_rules(await Edited(PAUSE).load(), "")

        await lived(here, daemon, jobs, 9, fleet)
        assert sorted(jobs.partners) == [PARTNER, OTHER]
        here.ledger.append_halt(because="look first", by="me", at=here.clock.now())
        here.set("e1", partner=OTHER, status="cancelled")
        await lived(here, daemon, jobs, 9, fleet)
        assert (here.only.state, here.only.held_by) == ("planned", "halt")
        names(here, PARTNER)
        await lived(here, daemon, jobs, 9, fleet)
        assert (jobs.partners, told.said.count("partner_lost"), set(rows.epochs)) == ([PARTNER], 1, {PARTNER})
        assert (here.only.state, here.only.held_by) == ("planned", "partner_gone"), here.story()

    place = world(happening("e1"), more=(tenant(OTHER, happening("e1"), happening("e2")),))
    plays(script, tmp_path, place, twin=TwinSettings(token_lifetime_s=15))


def test_in_a_fleet_the_log_of_each_replica_tells_whom_it_watches_and_whom_it_left(tmp_path: Path) -> None:
    told, rows = Told(), Rows()

    async def script(here: Town) -> None:
        clock = ServersClock(here.clock)
        daemon = daemon_of(here, told, clock=clock, fleet=(fleet := Fleet(rows, Paces(), clock)))
        daemon._named = (PARTNER,)
        sharing = asyncio.ensure_future(daemon._share(fleet, cast("AsyncIOScheduler", Jobs())))
        for taken_away in (False, True, False):
            rows.taken_away = taken_away
            await asyncio.sleep(0.9)
        sharing.cancel()
        assert told.said == ["partner_found", "partner_left", "partner_found"]

    plays(script, tmp_path, world(happening("e1")))


def test_what_is_unknown_of_a_partner_that_is_gone_is_put_before_an_operator(tmp_path: Path) -> None:
    jobs = Jobs()

    async def script(here: Town) -> None:
        daemon = daemon_of(here, source=Edited(PAUSE))
        daemon._take_rules(await Edited(PAUSE).load(), "")
        await lived(here, daemon, jobs, 9)
        here.fault("answer_before", "PUT", "/client_campaign_status$", times=None, status=503)
        here.set("e1", partner=OTHER, status="cancelled")
        await lived(here, daemon, jobs, 6)
        assert here.states() == ["unknown"]
        names(here, PARTNER)
        await lived(here, daemon, jobs, 330)
        assert (here.only.state, here.only.reason) == ("needs_human", "partner_gone"), here.story()

    place = world(happening("e1"), more=(tenant(OTHER, happening("e1")),))
    within = timedelta(minutes=5)
    plays(script, tmp_path, place, twin=TwinSettings(token_lifetime_s=15), evidence_within=within)


def test_what_was_being_sent_is_unknown_to_the_next_process_also_while_nobody_can_sign_in(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(6)
        here.fault("hang_before", "PUT", "/client_campaign_status$")
        here.set("e1", status="cancelled")
        await here.until(lambda: here.states() == ["sending"], "under way", 30)
        await here.kill()
        here.fault("no_connection", "POST", "/auth$", times=None)
        service, gate, pacer = here.client(here.twin)
        with SqlLedger.open(here.ledger_url, clock_now=here.clock.now) as ledger:
            parts = Parts(clock=here.clock, service=service, ledger=ledger, settings=here.settings)
            daemon = Daemon(parts, source=Edited(PAUSE), reporter=Told(), pid=1, budgets=no_budget)
            running = asyncio.ensure_future(daemon.run())
            await here.clock.sleep(30)
            assert [one.state for one in ledger.writes()] == ["unknown"]
            daemon.stop()
            await running
        for one in (service, gate, pacer):
            await one.aclose()
        here.twin.faults.clear()
        here.start()

    plays(script, tmp_path, world(happening("e1")), PAUSE)


ONCE = "rules: [{id: reset-cancelled, when: event.status == 'cancelled', do: [reset_setup]}]"


@pytest.mark.parametrize("unread", [0, 3])
def test_a_partner_that_the_service_renames_begins_with_what_a_person_lets_go(tmp_path: Path, unread: int) -> None:
    """``unread``: so often its record cannot be read at first; then nobody knows, and it may be."""
    jobs = Jobs()

    async def script(here: Town) -> None:
        daemon = daemon_of(here, source=Edited(ONCE))
        daemon._take_rules(rule_set(ONCE), "")
        names(here, PARTNER)
        for partner in (PARTNER, OTHER):
            here.set("e1", partner=partner, status="cancelled")
        await lived(here, daemon, jobs, 60)
        if unread:
            here.fault("answer_before", "GET", "/partners/$", status=500, times=unread)
        names(here, OTHER)
        await lived(here, daemon, jobs, 60)
        assert [(one.key.partner, one.state, one.reason) for one in here.writes()] == [
            (PARTNER, "confirmed", "answer"),
            (OTHER, "waiting", "restored"),
        ]

    other = tenant(OTHER, draft("e1"))
    same = replace(other, record={**other.record, "id": f"client of {PARTNER}"})
    plays(script, tmp_path, world(draft("e1"), more=(same,)), ONCE, twin=TwinSettings(token_lifetime_s=15))


def test_a_record_that_is_not_answered_after_a_restart_is_taken_as_it_was_seen(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        first, jobs = daemon_of(here, source=Edited(PAUSE)), Jobs()
        first._take_rules(await Edited(PAUSE).load(), "")
        await lived(here, first, jobs, 9)
        here.fault("answer_before", "PUT", None, status=429)
        here.set("e1", status="cancelled")
        while here.states() != ["unknown"]:
            await lived(here, first, jobs, 3)
        await here.clock.sleep(1200)
        again, jobs = daemon_of(here, source=Edited(PAUSE)), Jobs()
        again._take_rules(await Edited(PAUSE).load(), "")
        here.fault("hang_before", "GET", "/partners/$")
        await lived(here, again, jobs, 30)
        assert here.states() != ["needs_human"]

    place = world(happening("e1"), more=(tenant(OTHER, happening("e9")),))
    plays(script, tmp_path, place, PAUSE, twin=TwinSettings(token_lifetime_s=3600))
