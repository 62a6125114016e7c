"""Partners that the account names no longer, or anew, or under two ids."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import cast

import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from tests.engine.test_daemon import Edited, Told, daemon_of, no_budget, watcher
from tests.twin import BASE_URLS
from tests.unit.engine.test_fleet import Paces, Rows
from tests.worlds import CAMPAIGN, MINUTE, OTHER, PARTNER, PAUSE, Town, draft, happening, in_town, tenant, world
from worker.engine.daemon import Daemon
from worker.engine.ports import Fleet, Parts, ServersClock
from worker.ledger.sql import SqlLedger
from worker.model.exchange import Clock
from worker.model.facts import PartnerId
from worker.sandbox.changes import SettingsChange
from worker.sandbox.faults import Fault, Match
from worker.sandbox.settings import TwinSettings
from worker.sandbox.world import Happening, TwinWorld

QUICK_TOKENS = TwinSettings(token_lifetime_s=15)
BOTH = world(happening("e1"), more=(tenant(OTHER, happening("e1"), happening("e2")),))
"""Two partners, each with an event e1."""


def one_partner(of: Callable[[str], Happening], number: str) -> TwinWorld:
    """Both partners have an event e1, and their records are of one partner; ``number``: as the second one spells it."""
    other = tenant(OTHER, of("e1"))
    return world(of("e1"), more=(replace(other, record={**other.record, "id": number}),))


class Jobs:
    """A scheduler whose jobs the test does itself, partner by partner."""

    def __init__(self) -> None:
        self.partners: list[PartnerId] = []

    def add_job(
        self, _job: object, _when: object, *, args: tuple[object, object, PartnerId], **_options: object
    ) -> None:
        self.partners.append(args[-1])

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
            await daemon._identify()
            daemon._renew(scheduler, daemon._named)
            fleet.give_back(daemon._busy)
        for partner in list(jobs.partners):
            await daemon._one_cycle(partner)
        await asyncio.sleep(3)


@in_town(BOTH, twin=QUICK_TOKENS)
async def test_a_partner_that_leaves_the_token_rests_and_comes_back_as_after_a_silence(here: Town) -> None:
    told, jobs = Told(), Jobs()
    daemon = await watcher(here, told)

    await lived(here, daemon, jobs, 9)
    assert sorted(jobs.partners) == [PARTNER, OTHER]
    here.halt()
    here.set("e1", partner=OTHER, status="cancelled")
    await lived(here, daemon, jobs, 9)
    assert (here.only.state, here.only.held_by) == ("planned", "halt")

    names(here, PARTNER)
    await lived(here, daemon, jobs, 30)
    assert jobs.partners == [PARTNER]
    assert told.said.count("partner_lost") == 1
    assert (here.only.state, here.only.held_by) == ("planned", "partner_gone"), here.story()
    before = asked(here, OTHER)
    here.resume()
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


@in_town(BOTH, page_size=1)
async def test_the_poll_of_a_partner_that_leaves_ends(here: Town) -> None:
    """Of a long list it went on to ask for the rest, and fired by it."""
    daemon, jobs = await watcher(here, Told()), cast("AsyncIOScheduler", Jobs())
    await daemon._refresh(jobs)
    here.set("e1", partner=OTHER, status="cancelled")
    here.fault("slow", "GET", "^/events/$", delay_s=2.0)
    polling = asyncio.ensure_future(daemon._until_ended(daemon._poll, jobs, OTHER))
    await asyncio.sleep(1)
    daemon._renew(jobs, (PARTNER,))
    before = asked(here, OTHER)
    await polling
    await asyncio.sleep(10)
    assert before
    assert (asked(here, OTHER), here.log("fired")) == (before, [])


@in_town(BOTH, twin=QUICK_TOKENS)
async def test_in_a_fleet_what_a_partner_had_unsent_says_that_it_is_gone_before_it_is_given_back(here: Town) -> None:
    told, jobs, rows = Told(), Jobs(), Rows()
    clock = ServersClock(here.clock)
    fleet = Fleet(rows, Paces(), clock)
    daemon = await watcher(here, told, clock=clock, fleet=fleet)

    await lived(here, daemon, jobs, 9, fleet)
    assert sorted(jobs.partners) == [PARTNER, OTHER]
    here.halt()
    here.set("e1", partner=OTHER, status="cancelled")
    await lived(here, daemon, jobs, 9, fleet)
    assert (here.only.state, here.only.held_by) == ("planned", "halt")
    names(here, PARTNER)
    await lived(here, daemon, jobs, 9, fleet)
    assert (jobs.partners, told.said.count("partner_lost"), set(rows.epochs)) == ([PARTNER], 1, {PARTNER})
    assert (here.only.state, here.only.held_by) == ("planned", "partner_gone"), here.story()


@in_town(world(happening("e1")))
async def test_in_a_fleet_the_log_of_each_replica_tells_whom_it_watches_and_whom_it_left(here: Town) -> None:
    told, rows = Told(), Rows()
    clock = ServersClock(here.clock)
    daemon = daemon_of(here, told, clock=clock, fleet=(fleet := Fleet(rows, Paces(), clock)))
    daemon._named = (PARTNER,)
    sharing = asyncio.ensure_future(daemon._share(fleet, cast("AsyncIOScheduler", Jobs())))
    for taken_away in (False, True, False):
        rows.taken_away = taken_away
        await asyncio.sleep(0.9)
    sharing.cancel()
    assert told.said == ["partner_found", "partner_left", "partner_found"]


@in_town(one_partner(happening, f"client of {PARTNER}"))
async def test_in_a_fleet_a_former_name_that_comes_back_is_not_watched_beside_the_new_one(here: Town) -> None:
    """What this replica had heard of it before the service renamed it was believed for ever."""
    jobs, clock, rows = Jobs(), ServersClock(here.clock), Rows()
    daemon = daemon_of(here, clock=clock, fleet=(fleet := Fleet(rows, Paces(), clock)))
    daemon._named = (PARTNER, OTHER)
    daemon._identities.known, rows.known = {*daemon._named}, [OTHER]
    for partner in daemon._named:
        here.ledger.identify(partner, f"client of {PARTNER}", [partner], here.clock.now())
    sharing = asyncio.ensure_future(daemon._share(fleet, cast("AsyncIOScheduler", jobs)))
    await here.clock.sleep(5)
    assert jobs.partners == [OTHER]
    sharing.cancel()


@in_town(BOTH)
async def test_in_a_fleet_partners_that_take_long_to_load_are_taken_up_in_several_beats(here: Town) -> None:
    """A replica that loaded all it had taken over said nothing for longer than its lease, and lost all, for ever."""
    jobs, rows, seconds = Jobs(), Rows(), count(step=2)
    daemon = await watcher(here, fleet=(fleet := Fleet(rows, Paces(), ServersClock(here.clock))))
    daemon._clock = cast("Clock", SimpleNamespace(now=here.clock.now, monotonic=lambda: next(seconds)))
    daemon._identities.known = {PARTNER, OTHER}
    for taken_up in (1, 2):
        fleet.beat([PARTNER, OTHER])
        daemon._renew(cast("AsyncIOScheduler", jobs), (PARTNER, OTHER))
        assert len(jobs.partners) == taken_up


@in_town(BOTH, twin=QUICK_TOKENS, evidence_within=timedelta(minutes=5))
async def test_what_is_unknown_of_a_partner_that_is_gone_is_put_before_an_operator(here: Town) -> None:
    daemon, jobs = await watcher(here), Jobs()
    await lived(here, daemon, jobs, 9)
    here.fault("answer_before", "PUT", CAMPAIGN, times=None, status=503)
    here.set("e1", partner=OTHER, status="cancelled")
    await lived(here, daemon, jobs, 6)
    assert here.states() == ["unknown"]
    names(here, PARTNER)
    await lived(here, daemon, jobs, 330)
    assert (here.only.state, here.only.reason) == ("needs_human", "partner_gone"), here.story()


@in_town(world(happening("e1")), PAUSE, watched=6)
async def test_what_was_being_sent_is_unknown_to_the_next_process_also_while_nobody_can_sign_in(here: Town) -> None:
    here.fault("hang_before", "PUT", CAMPAIGN)
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


ONCE = "rules: [{id: reset-cancelled, when: event.status == 'cancelled', do: [reset_setup]}]"


@pytest.mark.parametrize("unread", [0, 3])
@in_town(one_partner(draft, f"client of {PARTNER}"), ONCE, twin=QUICK_TOKENS)
async def test_a_partner_that_the_service_renames_begins_with_what_a_person_lets_go(here: Town, unread: int) -> None:
    """``unread``: so often its record cannot be read at first; then nobody knows, and it may be."""
    daemon, jobs = await watcher(here, told := Told(), rules=ONCE), Jobs()
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
    assert told.said.count("partner_held") == bool(unread), "the old name is none under which it is watched"


@in_town(one_partner(draft, f"client of {PARTNER}"), ONCE, twin=QUICK_TOKENS)
async def test_a_partner_that_gets_its_old_name_back_begins_with_what_a_person_lets_go_too(here: Town) -> None:
    """It was written in the log only: what had been done under the other name was done again."""
    for name in (PARTNER, OTHER, PARTNER):
        names(here, name)
        await here.restart()
        daemon, jobs = await watcher(here, rules=ONCE), Jobs()
        await lived(here, daemon, jobs, 18)
        if name == OTHER:
            for partner in (PARTNER, OTHER):
                here.set("e1", partner=partner, status="cancelled")
            await lived(here, daemon, jobs, 18)
    assert [(one.key.partner, one.state, one.reason) for one in here.writes()] == [
        (OTHER, "confirmed", "answer"),
        (PARTNER, "waiting", "restored"),
    ], here.story()


@in_town(
    world(happening("e1"), more=(tenant(OTHER, happening("e9")),)), PAUSE, twin=TwinSettings(token_lifetime_s=3600)
)
async def test_a_record_that_is_not_answered_after_a_restart_is_taken_as_it_was_seen(here: Town) -> None:
    first, jobs = await watcher(here), Jobs()
    await lived(here, first, jobs, 9)
    here.fault("answer_before", "PUT", None, status=429)
    here.set("e1", status="cancelled")
    while here.states() != ["unknown"]:
        await lived(here, first, jobs, 3)
    await here.clock.sleep(1200)
    again, jobs = await watcher(here), Jobs()
    here.fault("hang_before", "GET", "/partners/$")
    await lived(here, again, jobs, 30)
    assert here.states() != ["needs_human"]


def cancel_both(here: Town) -> None:
    here.set("e1", status="cancelled")
    here.set("e1", partner=OTHER, status="cancelled")


@in_town(one_partner(happening, f" Client of\u200b {PARTNER}".upper()), twin=QUICK_TOKENS)
async def test_who_turns_up_later_and_is_one_that_is_watched_already_is_held(here: Town) -> None:
    told, jobs = Told(), Jobs()
    live = partial(lived, here, await watcher(here, told), jobs)
    names(here, OTHER)
    await live(20)
    assert jobs.partners == [OTHER]
    names(here, PARTNER, OTHER)
    await live(40)
    assert jobs.partners == [OTHER], "it comes first by its name, and the other has done everything so far"
    assert told.said.count("partner_held") == 1
    cancel_both(here)
    await live(40)
    assert [one.partner for one in here.effects()] == [OTHER]

    await here.restart()
    jobs = Jobs()
    again = await watcher(here, told)
    await lived(here, again, jobs, 20)
    assert jobs.partners == [OTHER], "and after a restart"
    names(here, OTHER)
    await lived(here, again, jobs, 40)
    assert again._identities.held == {}, "it is named no more"


@in_town(BOTH)
async def test_while_nobody_knows_who_they_are_they_wait_and_are_watched_once_it_is_known(here: Town) -> None:
    told, jobs = Told(), Jobs()
    here.fault("answer_before", "GET", "^/partners/", times=10_000, status=503)
    live = partial(lived, here, await watcher(here, told), jobs)
    cancel_both(here)
    await live(60)
    assert jobs.partners == []
    assert here.effects() == [], "no write goes out without the record, which guards it"
    assert told.errors[-1].startswith(f"it may be the same as another partner: the record of {OTHER} cannot be")
    assert asked(here, OTHER) < 10, "it is only asked who it is, and less and less often"
    here.twin.faults.clear()
    await live(90)
    assert sorted(jobs.partners) == [PARTNER, OTHER]
    assert sorted(one.partner for one in here.effects()) == [PARTNER, OTHER]


@in_town(BOTH)
async def test_one_of_whom_nothing_can_be_read_keeps_no_other_from_being_watched(here: Town) -> None:
    told, jobs = Told(), Jobs()
    live = partial(lived, here, await watcher(here, told), jobs)
    shut = Match(method="GET", path="^/partners/", partner=PARTNER)
    here.twin.faults.add(Fault(match=shut, kind="answer_before", times=10_000, params={"status": 403}))
    cancel_both(here)
    await live(60)
    assert jobs.partners == [OTHER]
    assert [one.partner for one in here.effects()] == [OTHER]
    assert told.said.count("partner_held") == 1
    assert [(one["partner"], one["reason"]) for one in here.log("held")] == [(PARTNER, "same_partner")]


@in_town(one_partner(happening, f" Client of\u200b {PARTNER}".upper()))
async def test_what_the_held_one_had_planned_says_why_it_rests(here: Town) -> None:
    here.halt()
    cancel_both(here)
    await here.until(lambda: here.states() == ["planned", "planned"], "an older program watched both")
    here.resume()
    await lived(here, await watcher(here), Jobs(), 40)
    ends = {write.key.partner: (write.state, write.held_by) for write in here.writes()}
    assert ends == {PARTNER: ("confirmed", None), OTHER: ("planned", "same_partner")}


@in_town(world(happening("e1", status="cancelled")), late_s=25.0)
async def test_a_partner_that_was_handed_over_is_listed_before_its_own_record_may_be_read_again(here: Town) -> None:
    """8.3: whoever had it had read that a moment ago, and the list waited for its floor: lists were 5.6 s apart."""
    await here.clock.sleep(10)
    record = f"{BASE_URLS['api']}/partners/"
    here.worker.gate.take_over(PARTNER, {"waits_s": {record: 2.9}}, ago_s=0.0, goodbye=True)
    began = here.loop.time()
    await here.until(lambda: here.states() == ["confirmed"], "paused", MINUTE)
    first = {path: at_s - began for at_s, path in reversed([(one.at_s, one.path) for one in here.twin.books.requests])}
    assert first["/events/"] <= 1.0
    assert first["/partners/"] > 2.8, "the floor is kept, and nothing is decided before it is known"
    assert first["/events/e1/client_campaign_status"] >= first["/partners/"]
