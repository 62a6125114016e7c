"""The one gate: the same question is not asked twice within the floor, whoever asks it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from tests.builders import cases
from tests.unit.reading.virtual import VirtualClock, no_chance, stories_in
from worker.model.exchange import Places, Urgency
from worker.model.facts import PartnerId
from worker.reading import gate as gates
from worker.reading.gate import Gate, LastRequest, Pacer, Verdict, floor_until

HALL = PartnerId("partner-id-hall")
CLUB = PartnerId("partner-id-club")
FLOOR_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    number: int
    verdict: Verdict = "answered"
    retry_after: timedelta | None = None
    heavy: bool = False


class World:
    """A gate on a clock of its own, and a service that counts what it is asked and takes ``slow_s`` to answer."""

    def __init__(self, *, quiet_s: float | None = 0.0, slow_s: float = 0.0) -> None:
        self.clock = VirtualClock()
        self.pacer = Pacer(per_minute=600, clock=self.clock, chance=no_chance)
        self.gate: Gate[Told] = Gate(pacer=self.pacer, clock=self.clock, floor_s=FLOOR_S, quiet_s=quiet_s)
        self.begun: list[tuple[float, str]] = []
        self.slow_s = slow_s
        self.verdict: Verdict = "answered"
        self.heavy = False

    def fetch(self, name: str) -> Callable[[], Awaitable[Told]]:
        async def once() -> Told:
            self.begun.append((self.clock.monotonic(), name))
            await self.clock.sleep(self.slow_s)
            return Told(number=len(self.begun), verdict=self.verdict, heavy=self.heavy)

        return once

    async def ask(
        self,
        address: str = "/events/e1",
        *,
        partner: PartnerId = HALL,
        urgency: Urgency = Urgency.FACT,
        max_age: timedelta = timedelta(0),
    ) -> int:
        told = await self.gate.ask(partner, address, self.fetch(address), urgency=urgency, max_age=max_age)
        return told.number

    def times(self) -> list[float]:
        return [round(at, 2) for at, _ in self.begun]


in_world = stories_in(World)


@in_world(slow_s=2.0)
async def test_the_floor_counts_from_the_last_answer(world: World) -> None:
    await world.ask()
    await world.ask()
    assert world.times() == [0.0, 5.0], "two seconds for the answer, three for the floor"


@in_world()
async def test_other_resources_and_other_partners_have_floors_of_their_own(world: World) -> None:
    await asyncio.gather(world.ask("/events/e1"), world.ask("/events/e2"), world.ask("/events/e1", partner=CLUB))
    assert world.times() == [0.0, 0.0, 0.0]


@in_world(slow_s=1.0)
async def test_who_comes_while_a_request_is_under_way_shares_its_answer_whoever_gives_up(world: World) -> None:
    first, second = asyncio.ensure_future(world.ask()), asyncio.ensure_future(world.ask())
    await world.clock.sleep(0.5)
    first.cancel()
    assert [*await asyncio.gather(second, world.ask())] == [1, 1]
    assert len(world.begun) == 1


@cases(
    "max_age_s, expected",
    (0.0, 2, "nothing stored will do"),
    (2.5, 2, "age counts from the begin: the answer is three seconds old, though it came one second ago"),
    (3.5, 1, "young enough"),
)
@in_world(slow_s=2.0)
async def test_a_stored_answer_serves_who_can_live_with_its_age(world: World, max_age_s: float, expected: int) -> None:
    await world.ask()
    await world.clock.sleep(1.0)
    assert await world.ask(max_age=timedelta(seconds=max_age_s)) == expected


@in_world(slow_s=2.0)
async def test_a_heavy_answer_is_shared_and_not_kept(world: World) -> None:
    world.heavy = True
    both = await asyncio.gather(world.ask(), world.ask())
    assert [*both, await world.ask(max_age=timedelta(minutes=1))] == [1, 1, 2]
    assert world.times() == [0.0, 5.0], "the floor holds all the same"


def test_a_floor_beyond_ten_seconds_is_kept_by_failures_too() -> None:
    asked: LastRequest[Told] = LastRequest(reply=None, began=0.0, ended=100.0, failures=5)

    assert floor_until(asked, 30.0) == 130.0


@in_world()
async def test_failures_slow_their_own_resource_and_no_other(world: World) -> None:
    world.verdict = "failed"
    for _ in range(3):
        await world.ask("/events/e1")
    world.verdict = "answered"
    await world.ask("/events/e2")
    await world.ask("/events/e1")
    await world.ask("/events/e1")
    assert world.times() == [0.0, 3.0, 9.0, 9.0, 19.0, 22.0]


@in_world()
async def test_a_failing_fetch_reaches_everyone_who_waits_and_holds_the_floor(world: World) -> None:
    async def broken() -> Told:
        raise ArithmeticError("a fault of ours")

    asks = [world.gate.ask(HALL, "/events/e1", broken, urgency=Urgency.FACT) for _ in range(2)]
    found: list[object] = list(await asyncio.gather(*asks, return_exceptions=True))
    await world.ask()
    assert all(isinstance(one, ArithmeticError) for one in found)
    assert world.times() == [3.0]


@in_world()
async def test_evidence_that_waits_for_a_fact_brings_it_forward(world: World) -> None:
    order: list[str] = []

    async def one(address: str, urgency: Urgency) -> None:
        await world.ask(address, urgency=urgency)
        order.append(address)

    world.pacer.throttled(HALL, began=0.0, retry_after=timedelta(seconds=5))
    facts = [asyncio.ensure_future(one(f"/events/e{number}", Urgency.FACT)) for number in range(60)]
    await world.clock.sleep(1.0)
    await one("/events/e59", Urgency.EVIDENCE)
    await asyncio.gather(*facts)
    assert order[:2] == ["/events/e59", "/events/e59"], "it was last in the line, and two waited for it"


@in_world()
async def test_who_kept_places_waits_for_no_line_alone_or_with_others(world: World) -> None:
    times: dict[str, float] = {}

    async def one(address: str, places: Places | None) -> None:
        fetch, urgency = world.fetch(address), Urgency.FACT
        await world.gate.ask(HALL, address, fetch, urgency=urgency, places=places)
        times[address] = world.clock.monotonic()

    places = await world.pacer.keep(HALL, Urgency.PREFLIGHT, 3)
    crowd = [asyncio.ensure_future(one(f"/events/e{number}", None)) for number in range(40)]
    await asyncio.sleep(0)
    await asyncio.gather(one("/mine", places), one("/events/e39", places))
    await asyncio.gather(*crowd)
    assert times["/mine"] == 0.0
    assert times["/events/e39"] == 0.0, "it was last in the line, and left on the place of who joined it"
    assert times["/events/e38"] > 1.0


@in_world()
async def test_a_place_serves_a_question_that_still_waits_for_its_floor(world: World) -> None:
    places = await world.pacer.keep(HALL, Urgency.PREFLIGHT, 1)
    first = asyncio.ensure_future(world.ask("/events/e1"))
    await world.clock.sleep(1.0)
    await first
    again = asyncio.ensure_future(world.ask("/events/e1"))
    await world.clock.sleep(0.5)
    crowd = [asyncio.ensure_future(world.ask(f"/crowd/{number}")) for number in range(60)]
    fetch = world.fetch("/events/e1")
    await world.gate.ask(HALL, "/events/e1", fetch, urgency=Urgency.PREFLIGHT, places=places)
    at = world.clock.monotonic()
    await asyncio.gather(again, *crowd)
    assert at == world.gate.opens_at(HALL, "/events/e1") - FLOOR_S == 3.0


@in_world(quiet_s=None)
async def test_a_new_process_asks_nothing_before_the_floor_has_passed(world: World) -> None:
    await world.ask(urgency=Urgency.WRITE)
    assert world.times() == [3.0], "the one before it may have asked the same a moment ago"


@in_world()
async def test_answers_that_nobody_can_use_any_more_are_forgotten(world: World) -> None:
    world.gate._forget_at = 10
    for number in range(10):
        await world.ask(f"/events/{number}")
    await world.clock.sleep(gates.KEPT_S + 1)
    await world.ask("/events/new")
    assert len(world.gate._asked) == 1


@in_world()
async def test_what_still_has_its_floor_is_not_forgotten(world: World) -> None:
    world.gate._floor_s, world.gate._forget_at = 2.0 * gates.KEPT_S, 1
    await world.ask("/events/old")
    await world.clock.sleep(gates.KEPT_S + 1)
    await world.ask("/events/new")
    await world.ask("/events/old")
    assert world.times()[-1] == 2.0 * gates.KEPT_S


@in_world(slow_s=1000.0)
async def test_closing_ends_what_is_under_way(world: World) -> None:
    asking = asyncio.ensure_future(world.ask())
    await world.clock.sleep(1.0)
    await world.gate.aclose()
    await asyncio.gather(asking, return_exceptions=True)
    assert asking.cancelled()
