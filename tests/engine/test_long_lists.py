"""A list that is longer than the budget: what its pages show is acted on as they come, and facts are read between."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from tests.engine.test_daemon import Told, watcher
from tests.worlds import (
    BOOST,
    BOOST_DRAFTS,
    HOUR,
    MINUTE,
    PARTNER,
    PAUSE,
    Town,
    draft,
    happening,
    in_town,
    several,
    world,
)
from worker.engine.partners import said_of
from worker.engine.ports import CycleReport, unhealthy
from worker.engine.views import DecidingSettings as Deciding
from worker.model.facts import Json

NUMBERS = range(10, 50)


def look(here: Town) -> "asyncio.Task[CycleReport]":
    """A look that is under way."""
    return asyncio.ensure_future(here.worker.cycle.run(here.worker.states[PARTNER]))


async def pass_until(here: Town, true: Callable[[], bool], limit: float = MINUTE) -> None:
    ends = here.at + limit
    while not true() and here.at < ends:
        await here.clock.sleep(0.2)


@in_town(world(*several(happening, 40, first=10)), PAUSE, page_size=2, requests_per_minute=60, watched=MINUTE)
async def test_a_cancelled_event_on_the_first_page_is_paused_while_the_others_are_still_to_be_asked(here: Town) -> None:
    here.set("e11", status="cancelled")
    began, whole = here.at, look(here)
    await pass_until(here, lambda: bool(here.effects("set_client_campaign_status")))
    assert here.at - began < 10.0
    assert not whole.done(), "the list of twenty pages takes twenty seconds"
    report = await whole
    assert (report.complete, report.fired, report.events) == (True, 1, 40)
    await here.run(MINUTE)
    assert here.states() == ["confirmed"]
    assert len(here.log("fired")) == 1


@in_town(world(*several(happening, 40, first=10)), PAUSE, page_size=2, requests_per_minute=60, watched=MINUTE)
async def test_an_edit_by_other_hands_is_recorded_once_however_many_pages_the_list_has(here: Town) -> None:
    here.set("e10", by="person", client_campaign_status="PAUSED")
    await here.becomes("e49", MINUTE, by="person", client_campaign_status="PAUSED")
    assert [one["event"] for one in here.log("observed")] == ["e10", "e49"]


@in_town(world(*several(happening, 40, first=10)), PAUSE, page_size=2, requests_per_minute=60, watched=MINUTE)
async def test_a_reset_of_every_id_is_known_before_the_first_page_is_decided_on(here: Town) -> None:
    for number in NUMBERS:
        start = "2026-09-01T20:00:00Z"
        here.set(f"e{number}", title=f"Another {number}", start_date_time=start, status="cancelled")
    await here.run(2 * MINUTE)
    assert [one["reason"] for one in here.log("observed") if one["event"] is None] == ["reset"]
    assert here.effects() == []
    assert set(here.states()) <= {"waiting"}


@in_town(world(*several(happening, 40, first=10)), PAUSE, page_size=2, requests_per_minute=60, watched=MINUTE)
async def test_a_burst_in_a_long_list_is_counted_in_parts_and_no_more_than_the_limit_goes_unasked(here: Town) -> None:
    for number in NUMBERS:
        here.set(f"e{number}", status="cancelled")
    await here.run(2 * MINUTE)
    assert 0 < len(here.effects()) <= 25, "the first parts"
    assert len(here.effects()) + here.states().count("waiting") == len(NUMBERS)
    assert {one["reason"] for one in here.log("planned") + here.log("waiting")} <= {None, "surge", "condition"}


@in_town(world(*several(happening, 40, first=10)), PAUSE, page_size=2, requests_per_minute=60)
async def test_how_far_a_first_list_is_is_told_until_it_is_read(here: Town) -> None:
    def said() -> Json:
        return said_of(here.worker.states[PARTNER], here.clock.now()).get("first_list")

    first = look(here)
    await pass_until(here, lambda: said() is not None)
    pages, of_pages = cast("list[int]", said())
    assert 0 < pages < of_pages == 20
    await first
    assert said() is None, "it is read"
    later = look(here)
    await here.clock.sleep(9)
    assert not later.done()
    assert said() is None, "later lists are no news"
    await later


@in_town(
    world(draft("e10"), *several(happening, 39, first=11, status="over")), BOOST, page_size=2, requests_per_minute=40
)
async def test_facts_are_read_and_acted_on_between_the_pages(here: Town) -> None:
    await here.run(5 * MINUTE)
    here.suggest("e10", 2)
    before = len(here.reports)
    await here.until(lambda: bool(here.effects("boost")), "boosted", limit=5 * MINUTE)
    assert len(here.reports) - before <= 4
    state = here.worker.states[PARTNER]
    assert state.expected is not None
    assert state.expected.short
    assert state.expected.wanted > 0
    said = said_of(state, here.clock.now())
    assert said["short"] is True
    assert isinstance(said["look_s"], float)
    assert said["look_s"] > 30.0, "twenty-one pages, ten facts, and the write's own requests"


@pytest.mark.parametrize(("per_minute", "said"), [(60, ["budget_short"]), (3000, [])])
@in_town(world(*several(draft, 40, first=10)), BOOST, page_size=2, requests_per_minute=lambda per_minute: per_minute)
async def test_a_budget_that_is_too_short_is_said_once_and_a_long_look_follows_at_once(
    here: Town, said: list[str]
) -> None:
    daemon = await watcher(here, told := Told(), BOOST)
    list(daemon._partners.take_up((PARTNER,)))
    began = here.at
    looks = asyncio.ensure_future(daemon._poll(AsyncIOScheduler(timezone="UTC"), PARTNER))
    await here.clock.sleep(3 * MINUTE)
    daemon.stop()
    await looks
    assert [one for one in told.said if one.startswith("budget")] == said
    taken = sum(one.took_ms for one in told.reports) / 1000
    assert taken == pytest.approx(here.at - began, abs=5.0) if said else len(told.reports) <= 2


@in_town(world(*several(happening, 40, first=10)), PAUSE, page_size=2, requests_per_minute=60)
async def test_a_long_look_is_no_sickness_and_a_silence_is(here: Town) -> None:
    await here.run(2 * MINUTE)
    now = here.clock.now()
    body: dict[str, Json] = {"partners": {str(PARTNER): said_of(here.worker.states[PARTNER], now)}}
    interval = here.settings.interval
    assert unhealthy(body, now + timedelta(seconds=30), interval) is None
    assert "old" in str(unhealthy(body, now + timedelta(seconds=100), interval))
    assert unhealthy(body, now - timedelta(seconds=30), interval) is None
    assert "ahead of the clock" in str(unhealthy(body, now - timedelta(hours=1), interval)), "it was set back since"


@in_town(world(*several(happening, 60)), BOOST_DRAFTS, watched=6)
async def test_events_that_are_listed_no_more_and_answer_leave_room_for_the_facts_of_the_others(here: Town) -> None:
    here.fault("vanish", "GET", "^/events/$", times=1_000, eid=[f"e{number}" for number in range(31, 61)])
    await here.run(2 * MINUTE)
    for event in ("e3", "e50"):
        here.change(event, setup={"goal": "ROAS", "total_budget": 500.0})
    await here.until(lambda: {one.key.event for one in here.writes()} == {"e3", "e50"}, "both are seen", 45)


@in_town(world(*several(happening, 24)), watched=6)
async def test_events_that_are_gone_are_asked_for_ever_less_often_and_are_back_once_they_are_listed(here: Town) -> None:
    for number in range(5, 25):
        here.change(f"e{number}", remove=True)
    await here.run(1.5 * HOUR)
    before = here.loop.time()
    await here.run(0.5 * HOUR)
    asked = [one for one in here.twin.books.requests if one.path.startswith("/events/e") and one.at_s > before]
    assert 20 * 2 <= len(asked) <= 20 * 3
    here.change("e9", add=True, set=happening("e9", status="cancelled").record)
    await here.run(6)
    assert [(one.key.event, one.state) for one in here.writes()] == [("e9", "waiting")]


LATER = "rules: [{id: later, when: event.status == 'cancelled', for: 1m, do: [pause]}]"
SHORT_GAP = Deciding(gap=5 * timedelta(minutes=1))


@in_town(world(*several(happening, 6)), LATER, watched=6, page_size=3, deciding=SHORT_GAP)
async def test_while_no_list_is_whole_what_its_pages_show_is_not_a_first_poll_after_a_silence_each_time(
    here: Town,
) -> None:
    here.fault("reordered_pages", "GET", "^/events/$", times=1_000)
    await here.run(6 * MINUTE)
    await here.becomes("e1", 2 * MINUTE, status="cancelled")
    assert here.states() == ["confirmed"], here.story()
