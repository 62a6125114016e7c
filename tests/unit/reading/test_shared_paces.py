"""The pace, the floor and what the service has asked for go on in the next process, in a fleet with the partner."""

import asyncio
from datetime import timedelta
from typing import cast

import pytest

from tests.builders import cases
from tests.unit.reading.test_gate import CLUB, FLOOR_S, HALL, World, in_world
from tests.unit.reading.virtual import BEGIN, VirtualClock, no_chance
from worker.model.commits import DaemonStatus
from worker.model.exchange import Urgency
from worker.model.facts import Json, PartnerId
from worker.reading.gate import MINUTE_S, Pacer


def pacer(clock: VirtualClock, per_minute: float = 60) -> Pacer:
    return Pacer(per_minute=per_minute, clock=clock, chance=no_chance)


async def turns(clock: VirtualClock, pace: Pacer, count: int) -> list[float]:
    left = []
    for _ in range(count):
        await pace.turn(HALL, Urgency.LISTING)
        left.append(clock.monotonic())
    return left


def test_the_quota_holds_over_two_processes() -> None:
    clock = VirtualClock()
    first, second = pacer(clock), pacer(clock)

    async def story() -> list[float]:
        before = await turns(clock, first, 30)
        second.take_over(HALL, first.said(HALL), ago_s=0.0, goodbye=True)
        return [*before, *await turns(clock, second, 90)]

    left = clock.run(story())
    for begin in left:
        assert sum(begin <= at < begin + MINUTE_S for at in left) <= 60


def test_without_a_goodbye_the_quota_counts_as_used_up_and_is_not_forbidden() -> None:
    clock = VirtualClock()
    pace = pacer(clock)
    pace.take_over(HALL, {}, ago_s=0.0, goodbye=False)
    left = clock.run(turns(clock, pace, 60))
    assert 0.0 < left[0] <= 2.0, "a partner that was taken over is asked for again"
    assert left[-1] >= MINUTE_S - 2.0, "at the pace of a minute that was used up"
    assert pace.last_minute(HALL) <= 60


@pytest.mark.parametrize(("goodbye", "ago_s"), [(True, 0.0), (True, 40.0), (False, 40.0), (False, 700.0)])
def test_a_wait_that_the_service_asked_for_goes_on(goodbye: bool, ago_s: float) -> None:
    clock = VirtualClock()
    first, second = pacer(clock), pacer(clock)
    first.throttled(HALL, began=0.0, retry_after=timedelta(seconds=90))
    second.take_over(HALL, first.said(HALL), ago_s=ago_s, goodbye=goodbye)
    assert second.blocked_until(HALL) == pytest.approx(max(0.0, 90.0 - ago_s))
    assert second.pace(HALL).budget == pytest.approx(first.pace(HALL).budget), "and what was learnt of the limit"


@pytest.mark.parametrize(("stored", "goodbye"), [({}, False), ({"blocked_s": 5.0}, True)])
def test_a_wait_that_could_not_be_stored_goes_on_where_the_partner_comes_back(
    stored: dict[str, Json], goodbye: bool
) -> None:
    """It was heard while the ledger was away, and with the ledger the partner went."""
    clock = VirtualClock()
    pace = pacer(clock)
    pace.throttled(HALL, began=0.0, retry_after=timedelta(seconds=90))
    clock.seconds = 20.0
    pace.take_over(HALL, stored, ago_s=30.0, goodbye=goodbye)
    assert pace.blocked_until(HALL) == pytest.approx(90.0)
    assert clock.run(turns(clock, pace, 1)) == [pytest.approx(90.0, abs=1.0)]


def test_who_asks_is_told_of_each_429() -> None:
    pace = pacer(VirtualClock())
    told: list[PartnerId] = []
    pace.struck = told.append
    pace.throttled(HALL, began=0.0, retry_after=None)
    assert told == [HALL]


def test_no_request_leaves_while_nobody_knows_whose_the_partner_is() -> None:
    clock = VirtualClock()
    pace = pacer(clock)
    pace.leased_until = 5.0

    async def story() -> list[float]:
        (soon,) = await turns(clock, pace, 1)
        clock.seconds = 6.0
        turn = pace.queue(HALL, Urgency.EVIDENCE)
        await clock.sleep(10.0)
        assert not turn.granted.done()
        pace.leased_until = 100.0
        await pace.granted(turn)
        return [soon, clock.monotonic()]

    assert clock.run(story()) == [0.0, pytest.approx(16.0, abs=0.5)]


@in_world()
async def test_a_place_that_was_kept_lets_nothing_leave_once_the_lease_is_over(world: World) -> None:
    places = await world.pacer.keep(HALL, Urgency.PREFLIGHT, 1)
    world.gate.lease(world.clock.monotonic())
    fetch = world.fetch("/events/e1")
    asked = asyncio.ensure_future(world.gate.ask(HALL, "/events/e1", fetch, urgency=Urgency.PREFLIGHT, places=places))
    await world.clock.sleep(10.0)
    assert not asked.done()
    world.gate.lease(100.0)
    await asked
    assert world.clock.monotonic() == pytest.approx(10.0, abs=0.5)


def test_the_floor_of_each_resource_goes_with_its_partner() -> None:
    first, second = World(), World()

    async def before() -> dict[str, Json]:
        await first.gate.ask(HALL, "/events/", first.fetch("list"), urgency=Urgency.LISTING)
        await first.gate.ask(CLUB, "/events/", first.fetch("list"), urgency=Urgency.LISTING)
        await first.clock.sleep(1.0)
        return first.gate.handed_over(HALL)

    said = first.clock.run(before())
    waits = cast("dict[str, float]", said["waits_s"])
    assert waits == {"/events/": pytest.approx(FLOOR_S - 1.0, abs=0.2)}
    second.gate.take_over(HALL, said, ago_s=0.5, goodbye=True)
    assert second.gate.opens_at(HALL, "/events/") == pytest.approx(waits["/events/"] - 0.5)
    assert second.gate.opens_at(HALL, "/other") == 0.0
    second.gate.take_over(HALL, {}, ago_s=0.0, goodbye=True)
    assert first.gate.opens_at(CLUB, "/events/") > first.clock.monotonic(), "of another's nothing is forgotten"


@in_world(slow_s=50.0)
async def test_what_is_under_way_of_a_partner_that_is_handed_over_ends(world: World) -> None:
    asked = world.gate.ask(HALL, "/events/", world.fetch("list"), urgency=Urgency.LISTING)
    task = asyncio.ensure_future(asked)
    await world.clock.sleep(1.0)
    waits = {"/events/": FLOOR_S}
    said = world.gate.handed_over(HALL)["waits_s"]
    assert said == waits, "the service has been asked, and the next one must know"
    assert world.gate.handed_over(HALL)["waits_s"] == said, "and also where the first word of it was lost"
    with pytest.raises(BaseException):  # noqa: B017, PT011 - whoever waited is cancelled
        await task
    assert world.clock.monotonic() == 1.0


# over a restart, by the wall clock, and only what can be true


class Machine(VirtualClock):
    """A clock of a machine that was started at another time than the wall clock says."""

    def __init__(self, *, booted: float) -> None:
        super().__init__()
        self.booted = booted

    def monotonic(self) -> float:
        return self.seconds - self.booted


def started(*, at: float, booted: float = 0.0) -> tuple[Machine, Pacer]:
    clock = Machine(booted=booted)
    clock.seconds = at
    return clock, Pacer(per_minute=300, clock=clock, chance=no_chance)


def status(body: dict[str, Json]) -> DaemonStatus:
    return DaemonStatus(pid=1, since=BEGIN, seen_at=BEGIN, body=body)


def test_a_wait_goes_on_in_the_next_process_and_on_another_boot() -> None:
    _, pacer = started(at=1000.0)
    pacer.throttled(HALL, began=999.0, retry_after=timedelta(minutes=10))
    pacer.answered(CLUB, began=999.0)
    said = pacer.waits()

    clock, after = started(at=1060.0, booted=1050.0)
    after.go_on_waiting(status(said))

    assert after.blocked_until(HALL) - clock.monotonic() == pytest.approx(540.0)
    assert list(cast("dict[str, Json]", said["asked_to_wait"])) == [HALL], "whoever need not wait is not spoken of"
    assert after.waits() == said, "and the one after it is told the same"


def test_a_longer_wait_that_was_heard_meanwhile_is_not_cut_short() -> None:
    clock, pacer = started(at=0.0)
    pacer.throttled(HALL, began=0.0, retry_after=timedelta(minutes=5))
    until = pacer.blocked_until(HALL)
    pacer.go_on_waiting(status({"asked_to_wait": {str(HALL): clock.now().replace(second=9).isoformat()}}))
    assert pacer.blocked_until(HALL) == until


@cases(
    "body",
    (None, "of nobody, at the first start"),
    ({"asked_to_wait": {HALL: "2030-01-01T00:00:00Z"}}, "one that is over"),
    ({}, "of a program before this one"),
    ({"asked_to_wait": None}, "nothing"),
    ({"asked_to_wait": {HALL: "soon"}}, "no time"),
    ({"asked_to_wait": {HALL: 7}}, "a number"),
    ({"asked_to_wait": {HALL: "2030-01-01T00:10:00"}}, "no zone"),
    ({"asked_to_wait": {HALL: "2030-01-01T00:15:01Z"}}, "by a clock that was wrong"),
)
def test_what_cannot_be_a_wait_holds_nobody(body: dict[str, Json] | None) -> None:
    _, pacer = started(at=0.0)
    pacer.go_on_waiting(status(body) if body is not None else None)
    assert pacer.waits() == {"asked_to_wait": {}}
