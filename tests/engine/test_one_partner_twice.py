"""Two ids of one partner: found at once, later, or not to be told; whoever was watched first stays it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from tests.engine.test_daemon import Edited, Told, daemon_of
from tests.engine.test_partners_change import Jobs, asked, names
from tests.worlds import OTHER, PARTNER, PAUSE, Town, happening, in_town, tenant, world
from worker.rules.load import read_rules
from worker.sandbox.faults import Fault, Match
from worker.sandbox.settings import TwinSettings
from worker.sandbox.world import TwinWorld

Live = Callable[[float], Awaitable[None]]


def twice() -> TwinWorld:
    """Both partners have the event e1, and both records have one id, which the service spells in two ways."""
    other = tenant(OTHER, happening("e1"))
    return world(
        happening("e1"), more=(replace(other, record={**other.record, "id": f" Client of\u200b {PARTNER}".upper()}),)
    )


def watching(here: Town, told: Told, jobs: Jobs) -> Live:
    """A daemon whose jobs the test does itself."""
    daemon = daemon_of(here, told, Edited(PAUSE))
    daemon._take_rules(read_rules({"r.yaml": PAUSE}).rules, "")

    async def live(seconds: float) -> None:
        ends = here.loop.time() + seconds
        while here.loop.time() < ends:
            await daemon._refresh(cast("AsyncIOScheduler", jobs))
            for partner in list(jobs.partners):
                await daemon._one_cycle(partner)
            await asyncio.sleep(3)

    return live


def cancel_both(here: Town) -> None:
    here.set("e1", status="cancelled")
    here.set("e1", partner=OTHER, status="cancelled")


QUICK_TOKENS: dict[str, Any] = {"twin": TwinSettings(token_lifetime_s=15)}


@in_town(twice(), **QUICK_TOKENS)
async def test_who_turns_up_later_and_is_one_that_is_watched_already_is_held(here: Town) -> None:
    told, jobs = Told(), Jobs()
    live = watching(here, told, jobs)
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

    await here.kill()
    here.start()
    jobs = Jobs()
    await watching(here, told, jobs)(20)
    assert jobs.partners == [OTHER], "and after a restart"


@in_town(world(happening("e1"), more=(tenant(OTHER, happening("e1")),)))
async def test_while_nobody_knows_who_they_are_the_second_waits_and_is_watched_once_it_is_known(here: Town) -> None:
    told, jobs = Told(), Jobs()
    here.fault("answer_before", "GET", "^/partners/", times=10_000, status=503)
    live = watching(here, told, jobs)
    cancel_both(here)
    await live(60)
    assert jobs.partners == [PARTNER]
    assert here.effects() == [], "no write goes out without the record, which guards it"
    assert told.errors[-1].startswith(f"it may be the same as another partner: the record of {PARTNER} cannot be")
    assert asked(here, OTHER) < 10, "it is only asked who it is, and less and less often"
    here.twin.faults.clear()
    await live(90)
    assert sorted(jobs.partners) == [PARTNER, OTHER]
    assert sorted(one.partner for one in here.effects()) == [PARTNER, OTHER]


@in_town(world(happening("e1"), more=(tenant(OTHER, happening("e1")),)))
async def test_one_of_whom_nothing_can_be_read_keeps_no_other_from_being_watched(here: Town) -> None:
    told, jobs = Told(), Jobs()
    live = watching(here, told, jobs)
    shut = Match(method="GET", path="^/partners/", partner=PARTNER)
    here.twin.faults.add(Fault(match=shut, kind="answer_before", times=10_000, params={"status": 403}))
    cancel_both(here)
    await live(60)
    assert jobs.partners == [OTHER]
    assert [one.partner for one in here.effects()] == [OTHER]
    assert told.said.count("partner_held") == 1
    assert [(one["partner"], one["reason"]) for one in here.log("held")] == [(PARTNER, "same_partner")]


@in_town(twice())
async def test_what_the_held_one_had_planned_says_why_it_rests(here: Town) -> None:
    here.start(PARTNER, OTHER)
    here.ledger.append_halt(because="look first", by="me", at=here.clock.now())
    cancel_both(here)
    await here.until(lambda: here.states() == ["planned", "planned"], "an older program watched both")
    here.ledger.resume_halts(because="go on", by="me", at=here.clock.now())
    live = watching(here, Told(), Jobs())
    await live(40)
    ends = {write.key.partner: (write.state, write.held_by) for write in here.writes()}
    assert ends == {PARTNER: ("confirmed", None), OTHER: ("planned", "same_partner")}
