"""The client's writes: one request, once, on a connection of its own, and one of four outcomes for whatever happens."""

import asyncio
import json
from datetime import timedelta

import httpx
import pytest

from tests.builders import cases
from tests.unit.api.world import CLUB, CR, E1, HALL, Answer, Behaviour, World, answer, broken, event, in_world
from worker.api import transport
from worker.api.requests import Hosts
from worker.model.errors import UsageError
from worker.model.exchange import Accepted, NotSent, Outcome, Refused, Uncertain, WriteRequest
from worker.model.facts import EventId, Json
from worker.model.writes import Intent

PAUSE = "/events/e1/client_campaign_status"
LATE = 1e9


def intent(action: str = "pause", **params: Json) -> Intent:
    return Intent(action=action, target="t", wish="w", params=params)


async def send(world: World, made: Intent | None = None, item: str = "", *, not_after: float = LATE) -> Outcome:
    request = world.service.request_for(HALL, E1, made or intent(), item)
    await world.service.ready_to_write(HALL)
    return await world.service.send(HALL, request, not_after=not_after)


@cases(
    "made, expected",
    (httpx.Response(204), Accepted, "as documented"),
    (answer({"detail": "no"}, 422), Refused, "the service's no"),
    (answer(None, 307, location="https://api.example/api/v3/elsewhere"), Uncertain, "never followed"),
    (httpx.ConnectError("refused"), NotSent, "no byte left"),
    (httpx.ReadTimeout("slow"), Uncertain, "perhaps it works on it"),
    (RuntimeError("a fault of ours"), Uncertain, "nobody knows"),
    (broken(200), Uncertain, "a yes that breaks off"),
    (broken(422), Uncertain, "a no that breaks off is no no"),
    (broken(401), Uncertain, "nor is a denial"),
    (httpx.Response(200, content=b"x" * (transport.ANSWER_BYTES_MAX + 1)), Uncertain, "longer than any answer"),
)
@in_world()
async def test_every_end_of_an_attempt_is_an_outcome_and_one_request(
    world: World, made: Answer | Behaviour, expected: type
) -> None:
    world.on(PAUSE, made)

    outcome = await send(world)

    assert isinstance(outcome, expected)
    assert len(world.asked(PAUSE)) == 1


@in_world()
async def test_a_write_is_the_documents_request_with_the_headers_of_every_call(world: World) -> None:
    world.on(PAUSE, httpx.Response(204))

    await send(world)

    seen = world.seen[-1]
    assert (seen.method, seen.target) == ("PUT", f"/api/v3{PAUSE}?client_campaign_status=PAUSED")
    assert seen.headers["authorization"] == "Bearer access-1"
    assert seen.headers["x-preferred-partner-id"] == HALL
    assert seen.headers["connection"] == "close"
    assert seen.headers["content-length"] == "0"
    assert seen.body == b""


@in_world()
async def test_a_body_is_json_and_the_same_every_time(world: World) -> None:
    world.on("/setup_processes/e1", answer(None, 201))
    draft = intent("create_draft", goal="ROAS", total_budget=500.0, name="München")

    await send(world, draft)
    await send(world, draft)

    first, second = (seen for seen in world.seen if seen.path == "/setup_processes/e1")
    assert first.body == second.body
    assert json.loads(first.body) == {"goal": "ROAS", "total_budget": 500.0, "name": "München"}
    assert first.headers["content-type"] == "application/json"


@in_world()
async def test_the_second_call_of_a_frontend_status_goes_to_the_ingest_service(world: World) -> None:
    world.rules["/v1/events/last_updated_on_fe/e1"] = lambda _: httpx.Response(200)
    cancelled = intent("frontend_status", value="CANCELLED")
    request = world.service.request_for(HALL, E1, cancelled, "cr")

    assert isinstance(await send(world, cancelled, "cr"), Accepted)
    assert (world.seen[-1].host, world.seen[-1].target) == (
        "ingest.example",
        "/v1/events/last_updated_on_fe/e1?status=CANCELLED",
    )
    assert world.service.url(request) == f"{CR}/events/last_updated_on_fe/e1?status=CANCELLED"


@in_world(hosts=Hosts(api="https://api.example/api/v3"))
async def test_without_the_ingest_address_the_log_line_cannot_be_made_and_nothing_is_sent(world: World) -> None:
    request = world.service.request_for(HALL, E1, intent("frontend_status", value="HIDDEN"), "cr")

    with pytest.raises(UsageError) as caught:
        world.service.url(request)
    outcome = await world.service.send(HALL, request, not_after=LATE)

    assert "api.cr_url" in caught.value.hint
    assert isinstance(outcome, NotSent), "proven: there was nowhere to send it"
    assert [seen.path for seen in world.seen] == ["/auth"]


@in_world()
async def test_a_sign_in_that_takes_too_long_makes_the_attempt_stale(world: World) -> None:
    world.on("/auth", world.slowly(20.0, world.signed_in(None)))  # type: ignore[arg-type]  # asks nothing of it

    outcome = await world.service.send(HALL, request(), not_after=10.0)

    assert isinstance(outcome, NotSent)
    assert outcome.cause == "stale"


@pytest.mark.parametrize(
    ("made", "cause"),
    [(answer(None, 401), "denied"), (answer(None, 503), "connect"), (httpx.ReadTimeout("slow"), "connect")],
)
@in_world()
async def test_without_a_token_nothing_is_sent(world: World, made: Answer, cause: str) -> None:
    world.on("/auth", made)

    outcome = await send(world)

    assert isinstance(outcome, NotSent)
    assert outcome.cause == cause
    assert {seen.path for seen in world.seen} == {"/auth"}


@in_world()
async def test_after_a_denial_the_next_attempt_has_a_new_token(world: World) -> None:
    world.on(PAUSE, answer(None, 401), httpx.Response(204))

    first, second = await send(world), await send(world)

    assert isinstance(first, NotSent)
    assert first.answer is not None
    assert first.answer.status == 401
    assert isinstance(second, Accepted)
    assert world.seen[-1].headers["authorization"] == "Bearer access-2"


@in_world()
async def test_a_429_on_a_write_slows_every_request_of_its_partner(world: World) -> None:
    world.on(PAUSE, answer(None, 429, retry_after="20", x_request_id="r-9"), httpx.Response(204))
    world.on("/events/e1", answer(event()))

    outcome = await send(world)
    await asyncio.gather(world.read(), world.read(partner=CLUB), send(world))

    assert isinstance(outcome, Uncertain)
    assert outcome.answer is not None
    assert (outcome.answer.retry_after, outcome.answer.x_request_id) == (timedelta(seconds=20), "r-9")
    assert world.asked(PAUSE) == [0.0, 20.0]
    assert world.asked("/events/e1") == pytest.approx([0.0, 20.0], abs=0.2), "each after the other, at a lower pace"


@in_world()
async def test_a_write_that_was_ready_is_not_sent_into_a_back_off_that_began_meanwhile(world: World) -> None:
    world.on(PAUSE, httpx.Response(204))

    await world.service.ready_to_write(HALL)
    world.pacer.throttled(HALL, began=0.0, retry_after=timedelta(seconds=30))
    outcome = await world.service.send(HALL, request(), not_after=LATE)

    assert isinstance(outcome, NotSent)
    assert world.asked(PAUSE) == []


@in_world(per_minute=60)
async def test_writes_go_before_reads(world: World) -> None:
    world.on(PAUSE, httpx.Response(204))
    for number in range(20):
        world.on(f"/events/e{number}", answer(event(f"e{number}")))

    reads = [asyncio.ensure_future(world.read(event=EventId(f"e{number}"))) for number in range(20)]
    await world.clock.sleep(2.0)
    await send(world)
    await asyncio.gather(*reads)

    paths = [seen.path for seen in world.seen if seen.path != "/auth"]
    assert paths.index(PAUSE) <= 5, paths


@in_world()
async def test_how_long_an_attempt_took_is_measured_by_our_own_clock(world: World) -> None:
    world.on(PAUSE, world.slowly(1.25, httpx.Response(204)))

    outcome = await send(world)

    assert isinstance(outcome, Accepted)
    assert outcome.answer.took_ms == 1250


@in_world()
async def test_cancelling_an_attempt_is_the_only_thing_that_raises(world: World) -> None:
    world.on(PAUSE, world.slowly(100.0, httpx.Response(204)))

    sending = asyncio.ensure_future(send(world))
    await world.clock.sleep(1.0)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert sending.cancelled()


@in_world(per_minute=30)
async def test_the_budget_counts_writes_too(world: World) -> None:
    world.on(PAUSE, httpx.Response(204))

    for _ in range(4):
        await send(world)

    step = 1.0 / (30 / 60.0)
    assert world.asked(PAUSE) == pytest.approx([0.0, step, 2 * step, 3 * step], abs=0.01)


def request() -> WriteRequest:
    return World().service.request_for(HALL, E1, intent(), "")


@in_world()
async def test_a_refusal_says_how_long_before_the_service_had_accepted_the_token(world: World) -> None:
    world.on(PAUSE, answer(None, 403))
    world.on("/events/e1", answer(event()))
    found: list[timedelta | None] = []
    for wait_s, partner in ((None, HALL), (0.0, HALL), (2.0, HALL), (0.0, CLUB)):
        if wait_s is not None:
            await world.read(partner=HALL)
            await world.clock.sleep(wait_s)
        request = world.service.request_for(partner, E1, intent(), "")
        outcome = await world.service.send(partner, request, not_after=LATE)
        assert isinstance(outcome, NotSent)
        found.append(outcome.accepted_ago)

    now, soon = timedelta(0), timedelta(seconds=2)
    assert found == [now, now, soon, now], "what a sign-in has just brought was accepted, too"
