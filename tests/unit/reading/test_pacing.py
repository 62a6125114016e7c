"""The pace of one partner: a budget that is never exceeded, and a back-off that covers everything and passes."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.reading.virtual import VirtualClock, no_chance
from worker.model.exchange import Urgency
from worker.model.ids import PartnerId
from worker.reading import pacing
from worker.reading.pacer import LOOK_AFTER, Pacer
from worker.reading.pacing import Pace

HALL = PartnerId("partner-id-hall")
CLUB = PartnerId("partner-id-club")
HALF_CHANCE = 0.5


def struck(pace: Pace, now: float, *, began: float | None = None, retry_after: timedelta | None = None) -> Pace:
    return pacing.struck(
        pace, began=now if began is None else began, now=now, retry_after=retry_after, chance=HALF_CHANCE
    )


@pytest.mark.parametrize(
    ("strikes", "retry_after", "chance", "expected_s", "reason"),
    [
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
    ],
)
def test_the_wait_after_a_429(
    strikes: int, retry_after: timedelta | None, chance: float, expected_s: float, reason: str
) -> None:
    assert pacing.pause(strikes, retry_after, chance).total_seconds() == pytest.approx(expected_s), reason


def test_a_429_forbids_everything_until_its_wait_is_over() -> None:
    pace = struck(pacing.fresh(300, 0.0), 10.0)

    assert pacing.wait_s(pace, 10.0) == pytest.approx(7.5)
    assert pacing.wait_s(pace, 17.5) == 0.0


def test_a_429_halves_the_budget_down_to_a_floor() -> None:
    pace = pacing.fresh(100, 0.0)
    seen = []
    for round_ in range(1, 7):
        pace = struck(pace, round_ * 0.001)
        seen.append(pace.budget)

    assert seen == [50, 25, 12.5, 10, 10, 10]


def test_a_budget_below_the_floor_is_left_alone() -> None:
    assert struck(pacing.fresh(4, 0.0), 1.0).budget == 4


def test_answers_of_requests_already_under_way_are_one_storm() -> None:
    pace = struck(pacing.fresh(320, 0.0), 10.0, began=9.0)
    again = struck(pace, 10.2, began=9.5)

    assert (again.budget, again.strikes, again.blocked_until) == (160, 1, pace.blocked_until)


def test_a_longer_wait_asked_for_in_the_same_storm_counts() -> None:
    pace = struck(pacing.fresh(320, 0.0), 10.0, began=9.0)
    again = struck(pace, 10.2, began=9.5, retry_after=timedelta(seconds=60))

    assert again.blocked_until == pytest.approx(70.2)
    assert again.strikes == 1


def test_only_a_success_begun_after_the_back_off_ends_it() -> None:
    pace = struck(pacing.fresh(300, 0.0), 10.0)

    before = pacing.eased(pace, began=9.0, now=12.0)
    after = pacing.eased(pace, began=18.0, now=18.1)

    assert before.strikes == 1, "it was under way before the service lost patience"
    assert after.strikes == 0


def test_the_budget_comes_back_by_a_twentieth_a_minute_once_the_wait_is_over() -> None:
    pace = struck(pacing.fresh(300, 0.0), 0.0, retry_after=timedelta(seconds=60))

    assert pacing.budget_now(pace, 59.0) == 150
    assert pacing.budget_now(pace, 120.0) == pytest.approx(165)
    assert pacing.budget_now(pace, 6000.0) == 300


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
    for _ in range(10):
        assert pacing.wait_s(pace, 0.0) == 0.0
        pace = pacing.taken(pace, 0.0)

    assert pacing.wait_s(pace, 0.0) > 0.0


@pytest.mark.parametrize(
    ("urgencies", "reason"),
    [
        ([Urgency.WRITE, Urgency.EVIDENCE, Urgency.STOPPING, Urgency.PREFLIGHT], "what serves writes"),
        ([Urgency.WRITE, Urgency.LISTING, Urgency.FACT], "writes before looks, and the list before single facts"),
    ],
)
def test_the_most_urgent_waits_least(urgencies: list[Urgency], reason: str) -> None:
    clock = VirtualClock()
    pacer = Pacer(per_minute=60, clock=clock, chance=no_chance)
    order: list[Urgency] = []

    async def one(urgency: Urgency) -> None:
        await pacer.turn(HALL, urgency)
        order.append(urgency)

    async def story() -> None:
        await pacer.turn(HALL, Urgency.FACT)
        await pacer.turn(HALL, Urgency.FACT)
        await asyncio.gather(*(one(urgency) for urgency in reversed(urgencies)))

    clock.run(story())

    assert order == urgencies, reason


def test_however_much_there_is_to_settle_the_looks_go_on() -> None:
    clock = VirtualClock()
    pacer = Pacer(per_minute=60, clock=clock, chance=no_chance)
    order: list[Urgency] = []

    async def one(urgency: Urgency) -> None:
        await pacer.turn(HALL, urgency)
        order.append(urgency)

    async def story() -> None:
        waiting = [asyncio.ensure_future(one(Urgency.EVIDENCE)) for _ in range(30)]
        await one(Urgency.LISTING)
        await one(Urgency.LISTING)
        await asyncio.gather(*waiting)

    clock.run(story())

    looks = [place for place, urgency in enumerate(order) if urgency is Urgency.LISTING]
    assert len(looks) == 2
    assert looks[1] - looks[0] <= LOOK_AFTER + 1


@pytest.mark.parametrize("per_minute", [6, 12, 60, 300])
def test_places_are_saved_up_and_used_at_once_within_the_budget_of_any_minute(per_minute: int) -> None:
    clock = VirtualClock()
    pacer = Pacer(per_minute=per_minute, clock=clock, chance=no_chance)
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
                assert places.take()
                left.append(clock.monotonic())
            assert not places.take(), "six were kept, not seven"

    async def story() -> None:
        looking = asyncio.ensure_future(look())
        await write()
        await looking

    clock.run(story())

    assert len(together) == 3
    left.sort()
    for first, beyond in zip(left, left[per_minute:], strict=False):
        assert beyond - first > 59.99, "one more than the budget within a minute"


def test_places_that_are_given_back_are_there_for_others() -> None:
    clock = VirtualClock()
    pacer = Pacer(per_minute=60, clock=clock, chance=no_chance)

    async def story() -> float:
        places = await pacer.keep(HALL, Urgency.PREFLIGHT, 2)
        places.give_back()
        assert not places.take()
        await pacer.turn(HALL, Urgency.FACT)
        return clock.monotonic()

    assert clock.run(story()) == 0.0


def test_who_goes_away_gives_back_what_was_saved_for_it() -> None:
    clock = VirtualClock()
    pacer = Pacer(per_minute=60, clock=clock, chance=no_chance)

    async def story() -> float:
        saving = asyncio.ensure_future(pacer.keep(HALL, Urgency.PREFLIGHT, 30))
        await clock.sleep(3.0)
        saving.cancel()
        await asyncio.gather(saving, return_exceptions=True)
        await pacer.turn(HALL, Urgency.FACT)
        return clock.monotonic()

    assert clock.run(story()) == 3.0


def test_kept_places_do_not_leave_against_a_429_that_came_meanwhile() -> None:
    clock = VirtualClock()
    pacer = Pacer(per_minute=300, clock=clock, chance=no_chance)

    async def story() -> None:
        places = await pacer.keep(HALL, Urgency.PREFLIGHT, 3)
        assert places.take()
        pacer.throttled(HALL, began=0.0, retry_after=timedelta(seconds=30))
        assert not places.take()
        await clock.sleep(30.0)
        assert places.take(), "what is left of them is still kept"

    clock.run(story())


def test_someone_more_urgent_who_shares_a_place_brings_it_forward() -> None:
    clock = VirtualClock()
    pacer = Pacer(per_minute=60, clock=clock, chance=no_chance)
    order: list[str] = []

    async def story() -> None:
        while pacing.wait_s(pacer.pace(HALL), clock.monotonic()) == 0.0:
            await pacer.turn(HALL, Urgency.FACT)
        first, second = pacer.queue(HALL, Urgency.FACT), pacer.queue(HALL, Urgency.FACT)
        first.granted.add_done_callback(lambda _: order.append("first"))
        second.granted.add_done_callback(lambda _: order.append("second"))
        pacer.hurry(HALL, second, Urgency.EVIDENCE)
        await asyncio.gather(pacer.granted(first), pacer.granted(second))

    clock.run(story())

    assert order == ["second", "first"]


def test_one_partner_never_slows_another() -> None:
    clock = VirtualClock()
    pacer = Pacer(per_minute=60, clock=clock, chance=no_chance)

    async def story() -> float:
        pacer.throttled(HALL, began=0.0, retry_after=timedelta(minutes=5))
        waiting = asyncio.ensure_future(pacer.turn(HALL, Urgency.WRITE))
        await pacer.turn(CLUB, Urgency.FACT)
        at = clock.monotonic()
        await waiting
        return at

    assert clock.run(story()) == 0.0
    assert clock.monotonic() == pytest.approx(300)


def test_a_back_off_that_begins_while_others_wait_holds_them_too() -> None:
    clock = VirtualClock()
    pacer = Pacer(per_minute=60, clock=clock, chance=no_chance)

    async def story() -> None:
        while pacing.wait_s(pacer.pace(HALL), clock.monotonic()) == 0.0:
            await pacer.turn(HALL, Urgency.FACT)
        waiting = asyncio.ensure_future(pacer.turn(HALL, Urgency.WRITE))
        await asyncio.sleep(0)
        pacer.throttled(HALL, began=0.0, retry_after=timedelta(seconds=30))
        await waiting

    clock.run(story())

    assert clock.monotonic() >= 30.0


def test_who_stops_waiting_takes_no_request_with_him() -> None:
    clock = VirtualClock()
    pacer = Pacer(per_minute=60, clock=clock, chance=no_chance)

    async def story() -> float:
        while pacing.wait_s(pacer.pace(HALL), clock.monotonic()) == 0.0:
            await pacer.turn(HALL, Urgency.FACT)
        leaving = asyncio.ensure_future(pacer.turn(HALL, Urgency.WRITE))
        staying = asyncio.ensure_future(pacer.turn(HALL, Urgency.FACT))
        await asyncio.sleep(0)
        leaving.cancel()
        await staying
        return clock.monotonic()

    assert clock.run(story()) == pytest.approx(1.0, abs=0.1)


def test_closing_ends_all_waiting() -> None:
    clock = VirtualClock()
    pacer = Pacer(per_minute=60, clock=clock, chance=no_chance)

    async def story() -> bool:
        pacer.throttled(HALL, began=0.0, retry_after=timedelta(minutes=10))
        waiting = asyncio.ensure_future(pacer.turn(HALL, Urgency.WRITE))
        await asyncio.sleep(0)
        await pacer.aclose()
        await asyncio.gather(waiting, return_exceptions=True)
        return waiting.cancelled()

    assert clock.run(story())
    assert clock.monotonic() == 0.0


def test_status_sees_the_budget_of_each_partner_and_what_was_used_of_it() -> None:
    clock = VirtualClock()
    pacer = Pacer(per_minute=300, clock=clock, chance=no_chance)

    async def story() -> list[int]:
        await pacer.turn(HALL, Urgency.FACT)
        await clock.sleep(30.0)
        await pacer.turn(HALL, Urgency.FACT)
        seen = [pacer.last_minute(HALL), pacer.last_minute(CLUB)]
        await clock.sleep(30.0)
        seen.append(pacer.last_minute(HALL))
        await pacer.turn(HALL, Urgency.FACT)
        return [*seen, pacer.last_minute(HALL)]

    assert clock.run(story()) == [2, 0, 1, 2]
    pacer.throttled(HALL, began=60.0, retry_after=None)
    assert (pacer.budget(HALL), pacer.budget(CLUB)) == (150, 300)
    assert pacer.blocked_until(HALL) == 65.0
