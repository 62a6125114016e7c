"""The client's reads over its own transport, gate and pace: facts for every answer, and manners at all times."""

import asyncio
from datetime import timedelta
from email.utils import format_datetime

import httpx
import pytest

from tests.builders import cases
from tests.unit.api.world import (
    CLUB,
    E1,
    FLOOR_S,
    HALL,
    Answer,
    Behaviour,
    World,
    answer,
    assumed,
    broken,
    event,
    id_token,
    in_world,
    page,
)
from tests.virtual import last
from worker.api import transport
from worker.model.errors import NotSafe, Unreachable
from worker.model.exchange import TaskState
from worker.model.facts import CustomFact, EventId, Fact, Json, Known, PartnerId, Scalar, Unknown

TASK = "/events/e1/client_campaign_status/task"


def code(fact: Fact) -> str:
    return fact.code if isinstance(fact, Unknown) else "known"


@in_world()
async def test_a_fact_carries_where_it_came_from_and_when_its_request_began(world: World) -> None:
    world.on("/events/e1/suggested_tcs", world.slowly(2.0, answer([{"tc": "a", "tc_run_id": "1"}], x_request_id="r-1")))

    await world.clock.sleep(7.0)
    fact = await world.read("suggested_tcs", params=(("budget", 500.0), ("goal", "ROAS")))

    assert isinstance(fact, Known)
    assert fact.trace is not None
    assert (fact.trace.get, fact.trace.status, fact.trace.x_request_id, fact.trace.began) == (
        "/events/e1/suggested_tcs?budget=500&goal=ROAS",
        200,
        "r-1",
        7.0,
    )
    assert fact.read_at.second == 7


@pytest.mark.parametrize(("age", "seconds"), [("0", 0), (" 600 ", 600), ("2147483648", 2147483648)])
@in_world()
async def test_an_answer_from_a_store_began_as_much_earlier_as_it_is_old(world: World, age: str, seconds: int) -> None:
    world.on("/events/e1", answer(event(), age=age))
    now = world.clock.now()
    await world.clock.sleep(7.0)
    fact = await world.read()

    assert isinstance(fact, Known)
    assert fact.trace is not None
    assert fact.trace.began == 7.0 - seconds
    assert fact.read_at == now + timedelta(seconds=7 - seconds)


@pytest.mark.parametrize(
    ("name", "path", "status"), [("event", "/events/e1", 200), ("setup", "/setup_processes/e1", 404)]
)
@pytest.mark.parametrize("age", ["", "soon", "-5", "6.5", "5, 600", "0x10", "\u00b2", "1" * 11])
@in_world()
async def test_an_answer_whose_age_cannot_be_told_is_evidence_of_nothing(
    world: World, name: str, path: str, status: int, age: str
) -> None:
    world.on(path, httpx.Response(status, json=event(), headers=[(b"Age", age.encode("latin-1"))]))

    fact = await world.read(name)

    assert isinstance(fact, Unknown)
    assert "Age" in fact.why


@pytest.mark.parametrize("made", [answer(None, 429, age="soon", retry_after="9"), broken(429, retry_after="9")])
@in_world()
async def test_a_429_is_one_however_old_it_says_it_is_and_whatever_becomes_of_its_body(
    world: World, made: Answer | Behaviour
) -> None:
    world.on("/events/e1", made)

    await world.read()

    assert world.pacer.blocked_until(HALL) == 9.0


@pytest.mark.parametrize("ahead", [-1, 0, 1])
@in_world()
async def test_a_wait_until_a_date_is_as_long_as_the_service_means_whatever_the_clock_is_here(
    world: World, ahead: int
) -> None:
    now, until = (
        format_datetime(world.clock.now() + timedelta(hours=ahead, seconds=more), usegmt=True) for more in (0, 40)
    )
    world.on("/events/e1", answer(None, 429, date=now, retry_after=until))

    await world.read()

    assert world.pacer.blocked_until(HALL) == 40.0


@in_world()
async def test_every_read_says_who_asks_and_for_whom(world: World) -> None:
    world.on("/events/e1", answer(event()))

    await world.read(partner=CLUB)

    headers = world.seen[-1].headers
    assert headers["authorization"] == "Bearer access-1"
    assert headers["x-preferred-partner-id"] == CLUB
    assert "authorization" not in world.seen[0].headers, "the sign-in has nothing to show yet"


@cases(
    "made, expected",
    (answer(event()), "known", "an event"),
    (answer({"detail": "no"}, 404), "gone", "a 404 where it is no answer"),
    (answer(None, 500), "unreadable", "the service failed"),
    (answer(None, 429), "unreadable", "the service asks for patience"),
    (answer(None, 302, location="https://api.example/api/v3/events/e1"), "unreadable", "it is not followed"),
    (answer(None), "malformed", "null is no event"),
    (httpx.Response(200, content=b"<html>"), "malformed", "not JSON"),
    (httpx.Response(204), "malformed", "nothing at all"),
    (answer(event("e2")), "malformed", "another event than the one asked for"),
    (answer({"status": "active"}), "malformed", "nobody's event"),
    (httpx.ReadTimeout("slow"), "unreadable", "no answer in time"),
    (httpx.ConnectError("refused"), "unreadable", "no connection"),
    (RuntimeError("a fault of ours"), "unreadable", "a read never raises"),
    (broken(), "unreadable", "the body breaks off"),
    (httpx.Response(200, content=b" " * (transport.ANSWER_BYTES_MAX + 1)), "unreadable", "longer than any answer"),
)
@in_world()
async def test_every_answer_is_a_fact(world: World, made: Answer | Behaviour, expected: str) -> None:
    world.on("/events/e1", made)

    fact = await world.read()

    assert code(fact) == expected
    assert fact.trace is not None
    assert len(world.asked("/events/e1")) == 1


@in_world()
async def test_an_account_may_act_for_thousands_of_partners(world: World) -> None:
    named = [f"partner-id-the-concert-hall-of-town-{number:04}" for number in range(3_000)]
    world.on("/auth", answer({"AccessToken": "access", "IdToken": id_token(*named), "ExpiresIn": 3600}))
    assert await world.service.partners() == tuple(named)


@in_world()
async def test_a_sign_in_that_is_too_much_is_one_whatever_becomes_of_its_body(world: World) -> None:
    world.on("/auth", broken(429, retry_after="90"))

    for at in (0.0, 60.0, 91.0):
        await world.clock.sleep(at - world.clock.monotonic())
        await world.read()

    assert world.asked("/auth") == [0.0, 91.0]


@cases(
    "denial",
    (answer(None, 401), "the token expired early"),
    (answer(None, 403), "or was revoked"),
    (answer({"errors": [{"code": "error.auth.missing_token"}]}, 400), "or so the body says"),
)
@in_world()
async def test_a_read_that_is_denied_is_repeated_once_with_a_new_token(world: World, denial: httpx.Response) -> None:
    world.on("/events/e1", denial, answer(event()))

    await world.api.partners()
    await world.clock.sleep(600.0)
    assert code(await world.read()) == "known"
    assert world.asked("/events/e1") == [600.0, 603.0], "the repeat keeps the floor"
    assert world.seen[-1].headers["authorization"] == "Bearer access-2"


@in_world()
async def test_a_denial_that_a_new_token_does_not_cure_is_no_reason_to_sign_in_again_and_again(world: World) -> None:
    world.on("/features", answer(None, 403))
    world.on("/events/e1", answer(event()))

    await world.api.partners()
    await world.clock.sleep(600.0)
    seen = []
    while world.clock.monotonic() < 800.0:
        seen.append(code(await world.read("features")))
    seen.append(code(await world.read()))

    assert set(seen[:-1]) == {"denied"}
    assert seen[-1] == "known"
    assert len(world.asked("/auth")) == 2


@in_world()
async def test_what_a_good_token_does_not_open_is_no_reason_to_sign_in_again(world: World) -> None:
    closed = {"permissions": "/permissions", "features": "/features", "clusters": "/events/e1/clusters"}
    world.rules |= dict.fromkeys(closed.values(), lambda _: answer(None, 403))
    world.on("/events/", *[page("e1")] * 100, answer(None, 401), page("e1"))

    whole = []
    while world.clock.monotonic() < 600.0:
        whole.append((await last(world.service.listing(HALL))).complete)
        assert {code(await world.read(name)) for name in closed} == {"denied"}
    assert all(whole), "the list that is denied is read anew with another token"
    assert len(world.asked("/auth")) == 2


@pytest.mark.parametrize("renewal", [answer(None, 503), answer(None, 401), httpx.ReadTimeout("slow"), None])
@in_world()
async def test_what_a_token_does_not_open_for_one_partner_stops_no_other(world: World, renewal: Answer | None) -> None:
    """Whatever becomes of the sign-in that is tried for it, and however long that takes."""
    again = world.slowly(20.0, answer({"AccessToken": "access-9", "ExpiresIn": 3600})) if renewal is None else renewal
    world.on("/auth", world.signed_in, again)
    world.on(
        "/events/", lambda seen: page("e1") if seen.headers["x-preferred-partner-id"] == HALL else answer(None, 403)
    )
    read: dict[PartnerId, list[bool]] = {HALL: [], CLUB: []}

    async def polled(partner: PartnerId) -> None:
        while world.clock.monotonic() < 400.0:
            read[partner].append((await last(world.service.listing(partner))).complete)

    await asyncio.gather(polled(HALL), polled(CLUB))

    assert all(read[HALL])
    assert len(read[HALL]) >= 400 // FLOOR_S - 1
    assert not any(read[CLUB])
    assert 1 < len(world.asked("/auth")) <= 12, "it is tried all the same: the account may have come to the partner"


@pytest.mark.parametrize("failing", [0, 1, 3])
@in_world()
async def test_a_token_that_opens_nothing_any_more_is_renewed_for_all(world: World, failing: int) -> None:
    """Also where signing in fails at first: that is no refusal, after which a partner is left alone for minutes."""
    good = {"Bearer access-1"}
    world.on("/auth", world.signed_in, *[answer(None, 503)] * failing, world.signed_in)
    world.on("/events/", lambda seen: page("e1") if seen.headers["authorization"] in good else answer(None, 401))

    codes, whole = set[str | None](), False
    while world.clock.monotonic() < 90.0:
        if world.clock.monotonic() > 5.0:
            good = {f"Bearer access-{number}" for number in range(2, 9)}
        lists = await asyncio.gather(*(last(world.service.listing(one)) for one in (HALL, CLUB)))
        codes |= {one.code for one in lists}
        whole = all(one.complete for one in lists)

    assert whole
    assert "denied" not in codes
    assert len(world.asked("/auth")) == failing + 2


@in_world()
async def test_a_token_of_a_moment_ago_is_not_renewed_for_a_denial(world: World) -> None:
    world.on("/features", answer(None, 403))

    assert code(await world.read("features")) == "denied"
    assert len(world.asked("/auth")) == 1


@in_world()
async def test_a_list_that_a_young_token_has_opened_is_read_anew_when_the_token_ends(world: World) -> None:
    """A poll that is denied is the last one for five minutes, so a token that was revoked is not taken for it."""
    world.on("/events/", page("e1"), answer(None, 401), page("e1"))

    assert [(await last(world.service.listing(HALL))).complete for _ in range(2)] == [True, True]
    assert world.asked("/auth") == [0.0, 6.0], "with the repeat, which keeps the floor"


@in_world()
async def test_many_denied_at_once_share_one_new_sign_in(world: World) -> None:
    events = [EventId(f"e{number}") for number in range(4)]
    for one in events:
        world.on(f"/events/{one}", answer(None, 401), answer(event(one)))

    await world.api.partners()
    await world.clock.sleep(600.0)
    assert {code(fact) for fact in await asyncio.gather(*(world.read(event=one) for one in events))} == {"known"}
    assert len(world.asked("/auth")) == 2


@in_world()
async def test_refused_credentials_are_denied_facts_and_lists_and_partners_that_are_an_error(world: World) -> None:
    world.on("/auth", answer({"password": "s3cret"}, 401))

    with pytest.raises(NotSafe) as caught:
        await world.service.partners()
    assert "s3cret" not in str(caught.value)
    assert code(await world.read()) == "denied"
    listing = await last(world.service.listing(HALL))
    assert (listing.complete, listing.code, "401" in listing.why) == (False, "denied", True)
    assert len(world.asked("/auth")) == 1


@in_world()
async def test_a_service_that_is_not_there_is_unreachable_and_not_unsafe(world: World) -> None:
    world.on("/auth", httpx.ConnectError("refused"))

    with pytest.raises(Unreachable):
        await world.service.partners()
    assert code(await world.read()) == "unreadable"


@in_world()
async def test_what_keeps_everybody_from_signing_in_does_not_grow_with_everybody_who_is_told(world: World) -> None:
    world.on("/auth", answer(None, 429, retry_after="900"))

    lengths = []
    for _ in range(20):
        with pytest.raises(Unreachable) as caught:
            await world.service.partners()
        lengths.append(len(caught.traceback))

    assert lengths[1:] == [lengths[1]] * 19
    assert world.asked("/auth") == [0.0]


def test_partners_are_discovered_or_named() -> None:
    discovering, named = World(), World(partners=(PartnerId("partner-id-x"),))

    assert discovering.clock.run(discovering.service.partners()) == (HALL, CLUB)
    assert named.clock.run(named.service.partners()) == ("partner-id-x",)
    assert len(named.asked("/auth")) == 1, "credentials are tried at start in both cases"


@cases(
    "after_publish, campaigns, expected",
    ("readable", answer(None, 500), {"state": "NONE"}, "a 404 is an answer: no draft"),
    ("absent", answer([{"tc": "a", "tc_run_id": 1}]), {"state": "PUBLISHED"}, "its campaigns tell"),
    ("absent", answer([]), {"state": "NONE"}, "it has none"),
    ("absent", answer(None, 500), None, "nobody knows"),
)
def test_a_setup_that_answers_404(after_publish: str, campaigns: httpx.Response, expected: Json) -> None:
    world = World(assumptions=assumed(setup__after_publish=after_publish))
    world.on("/events/e1/campaigns", campaigns)

    fact = world.clock.run(world.read("setup"))

    assert (fact.value if isinstance(fact, Known) else None) == expected
    assert fact.trace is not None
    assert fact.trace.get == "/setup_processes/e1"


@pytest.mark.parametrize("campaigns", [[], [{"tc": "a", "tc_run_id": 1}]])
@in_world(assumptions=assumed(setup__after_publish="absent"))
async def test_a_setup_of_which_campaigns_tell_is_as_old_as_their_answer(world: World, campaigns: Json) -> None:
    """Their request may have left before an attempt that the setup is read for, and then proves nothing of it."""
    world.on("/events/e1/campaigns", world.slowly(5.0, answer(campaigns)))

    polled = asyncio.ensure_future(world.read("campaigns"))
    await world.clock.sleep(2.0)
    fact = await world.read("setup")
    await polled

    assert isinstance(fact, Known)
    assert fact.trace is not None
    assert (fact.trace.get, fact.trace.began) == ("/setup_processes/e1", 0.0)


@in_world()
async def test_a_fact_that_cannot_be_asked_for_asks_nothing(world: World) -> None:
    assert code(await world.read("weather")) == "unreadable"
    assert world.seen == []


@cases(
    "code, words",
    ("error.auth.missing_token", "no access token that the service accepts came with the request", "no token"),
    ("error.auth.not_authorized", "this account may not do this for this partner", "not this account"),
    ("error.unauthorized", "only administrators of the service may do this", "no administrator"),
)
@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_the_three_documented_refusals_are_told_apart(code: str, words: str, status: int) -> None:
    for made in (answer({"error": {"code": code}}, status), httpx.Response(status, content=code.encode())):
        world = World()
        world.on("/features", made)

        fact = world.clock.run(world.read("features"))

        assert isinstance(fact, Unknown)
        assert (fact.code, fact.why) == ("denied", f"the service answered {status}: {code}: {words}")


@in_world(facts={"legacy": CustomFact(name="legacy", get="/x/{client_id}/y?for={eid}", value="@")})
async def test_a_legacy_path_gets_the_internal_id_that_the_partners_record_holds(world: World) -> None:
    world.on("/partners/", answer({"id": 4101}))
    world.on("/x/4101/y", answer({"n": 1}))

    assert [code(await world.read("legacy")) for _ in range(2)] == ["known", "known"]
    assert len(world.asked("/partners/")) == 1


@in_world(facts={"legacy": CustomFact(name="legacy", get="/x/{client_id}", value="@")})
async def test_without_the_partners_record_a_legacy_path_is_not_asked_for(world: World) -> None:
    world.on("/partners/", answer(None, 500))

    fact = await world.read("legacy")

    assert isinstance(fact, Unknown)
    assert "client_id" in fact.why
    assert [seen.path for seen in world.seen] == ["/auth", "/partners/"]


@in_world()
async def test_events_that_ask_the_very_same_share_one_answer_within_the_floor(world: World) -> None:
    params = (("goal", "ROAS"), ("has_pixel", "true"), ("lead_form_id", ""))
    path = "/setup_processes/call_to_action/"
    world.on(path, answer(["BUY_TICKETS"]))

    for number in range(20):
        assert code(await world.read("call_to_action", event=EventId(f"e{number}"), params=params)) == "known"

    assert world.asked(path) == [0.0]


@cases(
    "made, expected",
    (answer({"data": {"state": "SUCCESS"}}), TaskState(state="SUCCESS", verdict="succeeded")),
    (answer({"data": {"state": "FAILURE"}}), TaskState(state="FAILURE", verdict="failed")),
    (answer({"data": {"state": "PENDING"}}), TaskState(state="PENDING", verdict="running")),
    (answer({"data": {"state": "x" * 100_000}}), TaskState(state="x" * 80, verdict="running")),
    (
        answer({"data": {"state": "FAILURE"}}, age="9"),
        TaskState(state="the answer comes from a store, and may be of another task", verdict="unreadable"),
    ),
    (answer({"data": {"state": 1}}), TaskState(state="no data.state in the answer", verdict="unreadable")),
    (answer({"data": None}), TaskState(state="no data.state in the answer", verdict="unreadable")),
    (answer(None, 500), TaskState(state="the service answered 500", verdict="unreadable")),
)
@in_world()
async def test_the_state_of_a_task(world: World, made: httpx.Response, expected: TaskState) -> None:
    world.on(TASK, made)

    assert await world.service.task_state(HALL, E1) == expected


@in_world()
async def test_task_reads_wait_for_the_pace_and_not_for_the_floor(world: World) -> None:
    world.on(TASK, answer({"data": {"state": "PENDING"}}), answer(None, 429), answer({"data": {"state": "SUCCESS"}}))

    for _ in range(3):
        await world.service.task_state(HALL, E1)

    assert world.asked(TASK) == [0.0, 0.0, 5.0]


@in_world(page_size=2)
async def test_a_list_is_read_page_by_page_and_each_page_has_its_floor(world: World) -> None:
    by_page = {None: page("e1", "e2", total=3, limit=2), "2": page("e3", number=2, total=3, limit=2)}
    world.on("/events/", lambda seen: by_page[dict(httpx.QueryParams(seen.target.partition("?")[2])).get("page")])

    first, second = await last(world.service.listing(HALL)), await last(world.service.listing(HALL))
    assert (first.complete, second.complete) == (True, True)
    targets = [(seen.at, seen.target) for seen in world.seen if seen.path == "/events/"]
    assert targets == [
        (0.0, "/api/v3/events/?limit=2"),
        (0.0, "/api/v3/events/?limit=2&page=2"),
        (3.0, "/api/v3/events/?limit=2"),
        (3.0, "/api/v3/events/?limit=2&page=2"),
    ]


@in_world(page_size=1, assumptions=assumed(events__page_parameter="p"))
async def test_the_page_parameter_is_an_assumption(world: World) -> None:
    world.on("/events/", page("e1", total=2, limit=1), page("e2", number=2, total=2, limit=1))

    assert (await last(world.service.listing(HALL))).complete
    assert world.seen[-1].target == "/api/v3/events/?limit=1&p=2"


@in_world(quiet_s=FLOOR_S)
async def test_nothing_is_asked_but_the_sign_in_before_a_new_process_has_waited_one_floor(world: World) -> None:
    world.on("/events/", page("e1"))

    await world.service.partners()
    await last(world.service.listing(HALL))

    assert [(seen.at, seen.path) for seen in world.seen] == [(0.0, "/auth"), (3.0, "/events/")]


@in_world()
async def test_a_token_that_grows_old_while_a_read_waits_is_renewed_before_it_leaves(world: World) -> None:
    world.on("/events/e1", answer(None, 429, retry_after="900"), answer(event()))
    world.on("/auth", lambda seen: answer({"AccessToken": f"access-at-{seen.at:.0f}", "ExpiresIn": 600}))

    await world.read()
    await world.read()

    assert world.seen[-1].headers["authorization"] == "Bearer access-at-900"


@in_world()
async def test_closing_leaves_nothing_behind(world: World) -> None:
    world.on("/events/e1", answer(event()))

    await world.read(max_age_s=timedelta(seconds=1).total_seconds())
    await world.gate.aclose()
    await world.pacer.aclose()
    await world.api.aclose()


# --- lists that are not whole --------------------------------------------------------------------------------------

CAMPAIGNS = "/events/e1/campaigns"


def campaigns(*names: str, **said: Json) -> httpx.Response:
    items: list[Json] = [{"tc": tc, "tc_run_id": 7} for tc in names]
    return answer({"items": items, **said} if said else items)


def names(found: Fact) -> list[Json]:
    listed = found.part if isinstance(found, Unknown) else found.value
    return [one["tc"] for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


@in_world(assumptions=assumed(campaigns__items="items"))
async def test_a_list_of_campaigns_is_read_page_by_page_and_is_as_old_as_the_first(world: World) -> None:
    world.on(
        CAMPAIGNS,
        world.slowly(1.0, campaigns("a", "b", total=3, limit=2, page=1, pages=2, nextPage=2)),
        world.slowly(1.0, campaigns("c", total=3, limit=2, page=2, pages=2, nextPage=None)),
    )
    found = await world.read("campaigns")

    assert isinstance(found, Known)
    assert names(found) == ["a", "b", "c"]
    assert found.trace is not None
    assert found.trace.began == world.asked(CAMPAIGNS)[0]
    assert [seen.target for seen in world.seen[-2:]] == ["/api/v3" + CAMPAIGNS, "/api/v3" + CAMPAIGNS + "?page=2"]


@cases(
    "second, why",
    (answer(None, 500), "page 2: the service answered 500"),
    (answer({"items": [{"no": "name"}]}), "page 2: campaign 1 has no usable tc"),
    (answer(None, 404), "page 2: the service answered 404"),
    (httpx.Response(200, content=b"{"), "page 2: the answer is not JSON"),
    (campaigns("a", "b", total=3), "page 2 answered as one before it; see the assumption events.page_parameter"),
    (campaigns("b", total=3), "it changed while it was read"),
    (campaigns(total=3), "it holds 2 of 3"),
)
@in_world(assumptions=assumed(campaigns__items="items"))
async def test_a_list_of_which_a_page_cannot_be_had_shows_only_what_is_there(
    world: World, second: httpx.Response, why: str
) -> None:
    world.on(CAMPAIGNS, campaigns("a", "b", total=3), second)
    found = await world.read("campaigns")

    assert isinstance(found, Unknown)
    assert found.why.startswith("the list of campaigns is not whole: ")
    assert why in found.why
    assert names(found)[:2] == ["a", "b"]


@in_world(assumptions=assumed(campaigns__items="items"))
async def test_a_list_that_changed_while_it_was_read_is_not_asked_for_pages_that_there_are_not(world: World) -> None:
    world.on(CAMPAIGNS, campaigns("a", "b", total=3), campaigns("c", "d", total=4), campaigns(total=4))
    found = await world.read("campaigns")

    assert isinstance(found, Unknown)
    assert found.why == "the list of campaigns is not whole: it changed while it was read", "no parameter is to blame"
    assert len(world.asked(CAMPAIGNS)) == 2


@in_world(assumptions=assumed(campaigns__items="items"))
async def test_a_list_without_an_end_is_not_read_for_ever(world: World) -> None:
    world.on(CAMPAIGNS, lambda seen: campaigns(seen.target, has_more=True))
    found = await world.read("campaigns")

    assert isinstance(found, Unknown)
    assert len(world.asked(CAMPAIGNS)) == 50


@in_world()
async def test_a_header_that_names_a_next_page_is_heard(world: World) -> None:
    first = httpx.Response(200, json=[{"tc": "a", "tc_run_id": 7}], headers={"link": '<?page=2>; rel="next"'})
    world.on(CAMPAIGNS, first, campaigns("b"))
    found = await world.read("campaigns")

    assert isinstance(found, Known)
    assert names(found) == ["a", "b"]


@in_world()
async def test_a_long_list_that_says_nothing_of_its_length_is_marked(world: World) -> None:
    world.on(CAMPAIGNS, campaigns(*"abcdefghij"), campaigns(*"abcdefghijk"))

    found = [await world.read("campaigns"), await world.read("campaigns")]
    assert [one.trace.full if one.trace is not None else None for one in found] == [True, False]


CONFIRM = (("get", "/events/e1/series"), ("when", "size(response.items) == 1"))
CLUSTERS: Json = {"tc_run_id": 7, "clusters": [{"tc": "a"}]}
SUGGESTED: Json = [{"tc": "a", "tc_run_id": "7"}]


@cases(
    "name, params, path, body",
    ("clusters", (), "/events/e1/clusters", CLUSTERS, "clusters"),
    ("confirm", CONFIRM, "/events/e1/series", {"items": [{"id": "e1"}]}, "what a rule confirms by"),
    ("suggested_tcs", (("budget", 500.0), ("goal", "ROAS")), "/events/e1/suggested_tcs", SUGGESTED, "suggestions"),
    ("permissions", (), "/permissions", ["events:read"], "permissions"),
)
@in_world()
async def test_a_part_of_another_list_is_no_fact(
    world: World, name: str, params: tuple[tuple[str, Scalar], ...], path: str, body: Json
) -> None:
    def holding(total: str) -> httpx.Response:
        beside = {**body, "total": int(total)} if isinstance(body, dict) else body
        return httpx.Response(200, json=beside, headers={} if isinstance(body, dict) else {"x-total-count": total})

    world.on(path, holding("2"), holding("1"))

    part, whole = await world.read(name, params=params), await world.read(name, params=params)
    assert isinstance(part, Unknown)
    assert "is not whole: it holds 1 of 2" in part.why
    assert isinstance(whole, Known)
