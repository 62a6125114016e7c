"""The pace of one partner: a budget that is never exceeded, and a back-off that covers everything and passes."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import cases
from tests.unit.reading.virtual import VirtualClock, no_chance, virtually
from worker.model.exchange import Urgency
from worker.model.facts import PartnerId
from worker.reading import pacing
from worker.reading.gate import READ_AFTER, Pacer
from worker.reading.pacing import Pace

HALL = PartnerId("partner-id-hall")
CLUB = PartnerId("partner-id-club")
HALF_CHANCE = 0.5


def struck(pace: Pace, now: float, *, began: float | None = None, retry_after: timedelta | None = None) -> Pace:
    return pacing.struck(
        pace, began=now if began is None else began, now=now, retry_after=retry_after, chance=HALF_CHANCE
    )


@cases(
    "strikes, retry_after, chance, expected_s",
    (1, None, 0.0, 5.0, "the document's lower bound for a missing header"),
    (1, None, 0.99, 9.95, "with jitter up to twice as much"),
    (2, None, 0.0, 10.0, "the second doubles"),
    (3, None, 0.0, 20.0, "and the third again"),
    (4, None, 0.0, 30.0, "so that with jitter none waits for longer than a minute"),
    (50, None, 0.99, 59.7, "never beyond a minute"),
    (1, timedelta(seconds=2), 0.9, 2.0, "what the service asks for is what it gets, without jitter"),
    (9, timedelta(seconds=90), 0.0, 90.0, "also where we would have waited for less"),
    (1, timedelta(days=3650), 0.0, 900.0, "but no longer than a quarter of an hour"),
    (1, timedelta(0), 0.0, 5.0, "no wait at all is no answer"),
)
def test_the_wait_after_a_429(strikes: int, retry_after: timedelta | None, chance: float, expected_s: float) -> None:
    assert pacing.pause(strikes, retry_after, chance).total_seconds() == pytest.approx(expected_s)


def test_a_429_soon_after_the_last_lowers_the_pace_by_a_third_down_to_a_floor() -> None:
    pace = replace(pacing.fresh(100, 0.0), used=100.0)
    seen = []
    for round_ in range(1, 9):
        pace = struck(pace, round_ * 0.001)
        seen.append(round(pace.budget))

    assert seen == [65, 42, 27, 18, 12, 10, 10, 10]


def used(pace: Pace, now: float, seconds: float) -> tuple[Pace, float]:
    """A pace that was used to the full for so long."""
    until = now + seconds
    while (now := now + pacing.wait_s(pace, now)) < until:
        pace = pacing.taken(pace, now)
    return pace, until


def test_the_pace_returns_to_just_below_the_last_429_stays_there_and_then_tries_more() -> None:
    pace, now = used(pacing.fresh(300, 0.0), 0.0, 60.0)
    pace = pacing.eased(struck(pace, now), began=now + 7.5)
    seen = []
    for _ in range(6):
        pace, now = used(pace, now, 30.0)
        seen.append(round(pace.budget))

    assert seen == sorted(seen)
    assert seen[0] > 275, "it returns quickly"
    assert seen[2] - seen[1] <= 3, "it stays there"
    assert seen[2] < 290
    assert seen[-1] == 300, "it tries more, and never more than the config allows"


def test_a_pace_that_nobody_uses_does_not_grow() -> None:
    pace, now = used(pacing.fresh(300, 0.0), 0.0, 60.0)
    pace = pacing.eased(struck(pace, now), began=now + 7.5)
    for _ in range(300):
        now += 3.0
        pace = pacing.taken(pace, now)

    assert pace.budget == pytest.approx(270, abs=3), "twenty a minute prove nothing of 270"


def test_a_429_of_requests_that_left_close_together_says_little_of_the_pace() -> None:
    pace, now = used(pacing.fresh(300, 0.0), 0.0, 60.0)
    alone = pacing.struck(pace, began=now, now=now, retry_after=None, chance=HALF_CHANCE, close=True)
    again = pacing.struck(alone, began=now + 8, now=now + 8, retry_after=None, chance=HALF_CHANCE, close=True)

    assert [alone.budget, again.budget] == pytest.approx([270, 243])
    assert again.ceiling == pace.ceiling
    assert again.strikes == 2, "but it is waited out like any other"


def test_a_budget_below_the_floor_is_left_alone() -> None:
    assert struck(pacing.fresh(4, 0.0), 1.0).budget == 4


def test_answers_of_requests_already_under_way_are_one_storm() -> None:
    pace = struck(pacing.fresh(320, 0.0), 10.0, began=9.0)
    again = struck(pace, 10.2, began=9.5)

    assert (again.budget, again.strikes, again.blocked_until) == (pace.budget, 1, pace.blocked_until)


def test_a_longer_wait_asked_for_in_the_same_storm_counts() -> None:
    pace = struck(pacing.fresh(320, 0.0), 10.0, began=9.0)
    again = struck(pace, 10.2, began=9.5, retry_after=timedelta(seconds=60))

    assert again.blocked_until == pytest.approx(70.2)
    assert again.strikes == 1


def test_only_a_success_begun_after_the_back_off_ends_it() -> None:
    pace = struck(pacing.fresh(300, 0.0), 10.0)

    before = pacing.eased(pace, began=9.0)
    after = pacing.eased(pace, began=18.0)

    assert before.strikes == 1, "it was under way before the service lost patience"
    assert after.strikes == 0


@settings(deadline=None, max_examples=30)
@given(
    per_minute=st.integers(min_value=1, max_value=600),
    idles=st.lists(st.floats(min_value=0.0, max_value=20.0), max_size=30),
)
def test_no_sixty_seconds_hold_more_requests_than_the_budget(per_minute: int, idles: list[float]) -> None:
    now, left = 0.0, []
    pace = pacing.fresh(per_minute, now)
    for idle in [*idles, *[0.0] * 60]:
        now += idle
        while (wait := pacing.wait_s(pace, now)) > 0.0:
            now += wait
        pace = pacing.taken(pace, now)
        left.append(now)

    for first, beyond in zip(left, left[per_minute:], strict=False):
        assert beyond - first > 59.99, "one more than the budget within a minute"


def test_a_rested_partner_may_ask_a_few_at_once() -> None:
    pace = pacing.fresh(300, 0.0)
    for _ in range(4):
        assert pacing.wait_s(pace, 0.0) == 0.0
        pace = pacing.taken(pace, 0.0)

    assert pacing.wait_s(pace, 0.0) > 0.0


def test_once_a_429_has_taught_a_lower_pace_requests_leave_one_by_one() -> None:
    pace = pacing.eased(struck(pacing.fresh(120, 0.0), 0.0), began=7.5)

    pace = pacing.taken(pace, 60.0)

    assert pacing.wait_s(pace, 60.0) == pytest.approx(60.0 / pace.budget)


def paced(per_minute: float = 60) -> tuple[VirtualClock, Pacer]:
    clock = VirtualClock()
    return clock, Pacer(per_minute=per_minute, clock=clock, chance=no_chance)


def with_pacer(per_minute: float = 60, *, taught: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """A test is given a pacer and its clock, and runs in its time. ``taught``: some 90% of the pace, by a 429."""

    def make() -> tuple[VirtualClock, tuple[VirtualClock, Pacer]]:
        clock, pacer = paced(per_minute)
        if taught:
            pacer._door(HALL).pace = replace(pacer.pace(HALL), used=per_minute, passed=1000)
            pacer.throttled(HALL, began=1000.0, retry_after=None)
        return clock, (clock, pacer)

    return virtually(make)


async def used_up(clock: VirtualClock, pacer: Pacer) -> None:
    """Whatever may leave at once has left."""
    while pacing.wait_s(pacer.pace(HALL), clock.monotonic()) == 0.0:
        await pacer.turn(HALL, Urgency.FACT)


@cases(
    "urgencies",
    ([Urgency.WRITE, Urgency.EVIDENCE, Urgency.STOPPING, Urgency.PREFLIGHT], "what serves writes"),
    ([Urgency.WRITE, Urgency.LISTING, Urgency.FACT], "writes before looks, and the list before single facts"),
)
@with_pacer()
async def test_the_most_urgent_waits_least(clock: VirtualClock, pacer: Pacer, urgencies: list[Urgency]) -> None:
    order: list[Urgency] = []

    async def one(urgency: Urgency) -> None:
        await pacer.turn(HALL, urgency)
        order.append(urgency)

    await pacer.turn(HALL, Urgency.FACT)
    await pacer.turn(HALL, Urgency.FACT)
    await asyncio.gather(*(one(urgency) for urgency in reversed(urgencies)))
    assert order == urgencies


@with_pacer()
async def test_however_much_there_is_to_settle_the_looks_go_on(clock: VirtualClock, pacer: Pacer) -> None:
    order: list[Urgency] = []

    async def one(urgency: Urgency) -> None:
        await pacer.turn(HALL, urgency)
        order.append(urgency)

    waiting = [asyncio.ensure_future(one(Urgency.EVIDENCE)) for _ in range(30)]
    await one(Urgency.LISTING)
    await one(Urgency.LISTING)
    await asyncio.gather(*waiting)
    looks = [place for place, urgency in enumerate(order) if urgency is Urgency.LISTING]
    assert len(looks) == 2
    assert looks[1] - looks[0] <= READ_AFTER + 1


@pytest.mark.parametrize("per_minute", [6, 12, 60, 300])
def test_places_are_saved_up_and_used_together_within_the_budget_of_any_minute(per_minute: int) -> None:
    clock, pacer = paced(per_minute)
    left: list[float] = []
    together: list[float] = []

    async def look() -> None:
        while clock.monotonic() < 400.0:
            await pacer.turn(HALL, Urgency.LISTING)
            left.append(clock.monotonic())
            await clock.sleep(1.0)

    async def write() -> None:
        for _ in range(3):
            places = await pacer.keep(HALL, Urgency.PREFLIGHT, 6)
            together.append(clock.monotonic())
            for _ in range(6):
                assert await places.take()
                left.append(clock.monotonic())
            assert left[-1] - together[-1] < 3.0, "the facts are young when the write leaves"
            assert not await places.take(), "six were kept, not seven"

    async def story() -> None:
        looking = asyncio.ensure_future(look())
        await write()
        await looking

    clock.run(story())

    assert len(together) == 3
    left.sort()
    for first, beyond in zip(left, left[per_minute:], strict=False):
        assert beyond - first > 59.99, "one more than the budget within a minute"


@with_pacer()
async def test_places_that_are_given_back_are_there_for_others(clock: VirtualClock, pacer: Pacer) -> None:
    places = await pacer.keep(HALL, Urgency.PREFLIGHT, 2)
    begin = clock.monotonic()
    places.give_back()
    assert not await places.take()
    await pacer.turn(HALL, Urgency.FACT)
    assert clock.monotonic() - begin == 0.0


@with_pacer()
async def test_who_goes_away_gives_back_what_was_saved_for_it(clock: VirtualClock, pacer: Pacer) -> None:
    saving = asyncio.ensure_future(pacer.keep(HALL, Urgency.PREFLIGHT, 30))
    await clock.sleep(3.0)
    saving.cancel()
    await asyncio.gather(saving, return_exceptions=True)
    await pacer.turn(HALL, Urgency.FACT)
    assert clock.monotonic() == 3.0


@with_pacer(300)
async def test_kept_places_do_not_leave_against_a_429_that_came_meanwhile(clock: VirtualClock, pacer: Pacer) -> None:
    places = await pacer.keep(HALL, Urgency.PREFLIGHT, 4)
    assert await places.take()
    waiting = asyncio.ensure_future(places.take())
    await asyncio.sleep(0)
    pacer.throttled(HALL, began=0.0, retry_after=timedelta(seconds=30))
    assert not await waiting
    assert not await places.take()
    await clock.sleep(30.0)
    assert await places.take(), "what is left of them is still kept"


@with_pacer()
async def test_someone_more_urgent_who_shares_a_place_brings_it_forward(clock: VirtualClock, pacer: Pacer) -> None:
    order: list[str] = []
    await used_up(clock, pacer)
    first, second = pacer.queue(HALL, Urgency.FACT), pacer.queue(HALL, Urgency.FACT)
    first.granted.add_done_callback(lambda _: order.append("first"))
    second.granted.add_done_callback(lambda _: order.append("second"))
    pacer.hurry(HALL, second, Urgency.EVIDENCE)
    await asyncio.gather(pacer.granted(first), pacer.granted(second))
    assert order == ["second", "first"]


@with_pacer()
async def test_a_back_off_that_begins_while_others_wait_holds_them_too(clock: VirtualClock, pacer: Pacer) -> None:
    await used_up(clock, pacer)
    waiting = asyncio.ensure_future(pacer.turn(HALL, Urgency.WRITE))
    await asyncio.sleep(0)
    pacer.throttled(HALL, began=0.0, retry_after=timedelta(seconds=30))
    await waiting
    assert clock.monotonic() >= 30.0


@with_pacer()
async def test_who_stops_waiting_takes_no_request_with_him(clock: VirtualClock, pacer: Pacer) -> None:
    await used_up(clock, pacer)
    leaving = asyncio.ensure_future(pacer.turn(HALL, Urgency.WRITE))
    staying = asyncio.ensure_future(pacer.turn(HALL, Urgency.FACT))
    await asyncio.sleep(0)
    leaving.cancel()
    await staying
    assert clock.monotonic() == pytest.approx(1.0, abs=0.1)


@with_pacer()
async def test_closing_ends_all_waiting(clock: VirtualClock, pacer: Pacer) -> None:
    pacer.throttled(HALL, began=0.0, retry_after=timedelta(minutes=10))
    waiting = asyncio.ensure_future(pacer.turn(HALL, Urgency.WRITE))
    await asyncio.sleep(0)
    await pacer.aclose()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    assert clock.monotonic() == 0.0


@with_pacer(300)
async def test_status_sees_the_budget_of_each_partner_and_what_is_used_of_it(clock: VirtualClock, pacer: Pacer) -> None:
    await pacer.turn(HALL, Urgency.FACT)
    await clock.sleep(30.0)
    await pacer.turn(HALL, Urgency.FACT)
    seen = [pacer.last_minute(HALL), pacer.last_minute(CLUB)]
    await clock.sleep(30.0)
    seen.append(pacer.last_minute(HALL))
    await pacer.turn(HALL, Urgency.FACT)
    assert [*seen, pacer.last_minute(HALL)] == [2, 0, 1, 2]
    pacer.throttled(HALL, began=60.0, retry_after=None)
    assert (pacer.pace(HALL).budget, pacer.pace(CLUB).budget) == (97.5, 300)
    assert pacer.blocked_until(HALL) == 65.0


async def taken(clock: VirtualClock, pacer: Pacer, count: int, by_s: float) -> list[float]:
    """When so many places were taken, counted from when they were kept; the last of them by then at the latest."""
    places = await pacer.keep(HALL, Urgency.PREFLIGHT, count)
    began, left = clock.monotonic(), []
    for number in range(1, count + 1):
        assert await places.take(by=began + by_s if number == count else None)
        left.append(clock.monotonic() - began)
    return left


@with_pacer(60, taught=True)
async def test_a_write_leaves_as_long_after_its_reads_as_its_facts_are_young(clock: VirtualClock, pacer: Pacer) -> None:
    left = await taken(clock, pacer, 4, by_s=2.7)
    assert left == pytest.approx([0.0, 0.9, 1.8, 2.7]), "as evenly as the interval lets it"


@with_pacer(300, taught=True)
async def test_a_write_that_has_time_waits_for_the_pace(clock: VirtualClock, pacer: Pacer) -> None:
    assert await taken(clock, pacer, 2, by_s=2.7) == pytest.approx([0.0, 60.0 / 270.0])


@cases(
    "takes, least_s, most_s",
    (2, 1.9, 2.3, "a whole pace after the write, so that it does not meet what the write has used up"),
    (1, 2.9, 3.1, "a pre-flight that stalls is worth nothing after an interval"),
)
@with_pacer(60, taught=True)
async def test_nobody_else_leaves_before_the_write_has_and_not_for_longer_than_an_interval(
    clock: VirtualClock, pacer: Pacer, takes: int, least_s: float, most_s: float
) -> None:
    places = await pacer.keep(HALL, Urgency.PREFLIGHT, 2)
    began = clock.monotonic()
    look = asyncio.ensure_future(pacer.turn(HALL, Urgency.LISTING))
    for _ in range(takes):
        assert await places.take(by=began + 1.0)
    await look
    assert least_s <= clock.monotonic() - began <= most_s
