"""Whatever the service answers, a read says what stands there or that it does not know; and it never raises.

A share of the cases runs with every test run; ``make prove`` runs the whole of them. ``CASES_FROM`` chooses the seed of
the long one; a failure names its seed and its case.
"""

import asyncio
import base64
import json
import os
from collections import Counter
from collections.abc import Coroutine, Iterable
from datetime import UTC, datetime
from random import Random
from typing import Any

import httpx
import pytest

from tests.contract.malformed import E1, Answer, answers, complaint, good, key_of, path_of
from tests.unit.api.world import HALL, World, answer, id_token
from tests.virtual import last
from worker.api.assumptions import assumptions_from
from worker.api.facts import FACT_SOURCES
from worker.model.errors import WorkerError
from worker.model.exchange import Listing, Urgency
from worker.model.facts import RECORDS, CustomFact, Fact, FactKey, Json, Known, Observation, PartnerId
from worker.model.rules import Scope, Truth
from worker.rules.evaluate import expression

FACTS = tuple(FACT_SOURCES)
TASK = "/events/e1/client_campaign_status/task"
SHORT, LONG = 5, 30
"""Cases of each fact, in tens."""
FROM = int(os.environ.get("CASES_FROM", "1"))
FIELDS = {
    (name, field): expression(f"{name}.{field} == {name}.{field}") for name, of in RECORDS.items() for field in of
}


def drawn(seed: int, whole: str, count: int) -> list[Answer]:
    found = answers(Random(seed), whole)
    return [next(found) for _ in range(count)]


def play(world: World, story: Coroutine[Any, Any, None]) -> None:
    """Plays a long story while time goes on by itself: many cases need no clock and must not look stuck for it."""

    async def tick() -> None:
        while True:
            await world.clock.sleep(1.0)

    async def whole() -> None:
        ticking = asyncio.ensure_future(tick())
        await story
        ticking.cancel()

    world.clock.run(whole())


def read_all(name: str, made: Iterable[Answer]) -> list[tuple[Answer, Fact]]:
    """Each answer read by a partner of its own, so that no floor and no back-off stands between two of them."""
    world, path = World(), path_of(name)
    found: list[tuple[Answer, Fact]] = []

    async def story() -> None:
        for number, one in enumerate(made):
            world.rules[path] = lambda _, one=one: one.make()  # type: ignore[misc]
            partner = PartnerId(f"partner-id-{number}")
            fact = await world.service.read(partner, E1, key_of(name), urgency=Urgency.FACT)
            found.append((one, fact))

    play(world, story())
    return found


def unjudged(name: str, fact: Fact) -> list[str]:
    """The documented fields that the fact does not know, and of which a condition can say something all the same."""
    if name not in RECORDS or not isinstance(fact, Known) or not isinstance(fact.value, dict):
        return []
    seen = Observation(partner=HALL, event=E1, facts={FactKey(name=name): fact})
    scope = Scope(observation=seen, keys={name: FactKey(name=name)}, now=fact.read_at)
    missing = [field for field in RECORDS[name] if field not in fact.value]
    return [field for field in missing if FIELDS[name, field].judge(scope).truth is not Truth.UNKNOWN]


def check_facts(seed: int, cases: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    for name in FACTS:
        made = drawn(seed, good(name), cases)
        for number, (one, fact) in enumerate(read_all(name, made)):
            said = complaint(name, one, fact)
            assert said is None, f"{name}, seed {seed}, case {number} ({one.kind}): {said}"
            assert unjudged(name, fact) == [], (
                f"{name}, seed {seed}, case {number}: a condition takes a gap for a value"
            )
            seen[f"{one.kind}, {'known' if isinstance(fact, Known) else 'unknown'}"] += 1
    return seen


def pages() -> list[dict[str, Json]]:
    event = dict(answer_of("event"))
    events = [{**event, "id": f"e{number}"} for number in range(1, 6)]
    return [
        {"total": 5, "limit": 2, "page": number + 1, "pages": 3, "items": [*events[2 * number : 2 * number + 2]]}
        for number in range(3)
    ]


def answer_of(name: str) -> dict[str, Json]:
    found = httpx.Response(200, content=good(name)).json()
    assert isinstance(found, dict)
    return found


def check_listings(seed: int, cases: int) -> Counter[str]:
    """One page of three is spoilt: the list is whole only where it shows every event, and each event's own record."""
    seen: Counter[str] = Counter()
    rng, whole = Random(seed), pages()
    spoilt = [rng.randrange(3) for _ in range(cases)]
    texts = [httpx.Response(200, json=page).text for page in whole]
    made = [drawn(seed * 1000 + number, texts[place], 1)[0] for number, place in enumerate(spoilt)]
    world = World(page_size=2)
    current: dict[str, httpx.Response | Exception] = {}

    def page(request: httpx.QueryParams) -> httpx.Response | Exception:
        return current[str(request.get("page") or 1)]

    world.rules["/events/"] = lambda asked: page(httpx.QueryParams(asked.target.partition("?")[2]))

    async def story() -> None:
        for number, (place, one) in enumerate(zip(spoilt, made, strict=True)):
            current.update({str(n + 1): answer(part) for n, part in enumerate(whole)})
            current[str(place + 1)] = one.make()
            listing = await last(world.service.listing(PartnerId(f"partner-id-{number}")))
            said = of_listing(listing, one)
            assert said is None, f"list, seed {seed}, case {number} ({one.kind}, page {place + 1}): {said}"
            seen[f"{one.kind}, {'whole' if listing.complete else 'not whole'}"] += 1

    play(world, story())
    return seen


def of_listing(listing: Listing, one: Answer) -> str | None:
    if listing.complete and len(listing.events) != 5:
        return f"called whole with {sorted(listing.events)}"
    if listing.complete and one.content is None:
        return "called whole, and one page is none"
    for event, fact in listing.events.items():
        if not isinstance(fact.value, dict) or fact.value.get("id") != event:
            return f"{event} is {fact.value!r}"
        whole = Answer(kind="", make=lambda: answer(None), content=({**fact.value, "id": E1},))
        renamed = Known(value={**fact.value, "id": E1}, read_at=fact.read_at, gaps=fact.gaps)
        if (said := complaint("event", whole, renamed)) is not None:
            return f"{event}: {said}"
    return None


def check_own_facts(seed: int, cases: int) -> Counter[str]:
    """A fact of the config is what its path finds, and nothing where that finds nothing."""
    seen: Counter[str] = Counter()
    own = CustomFact(name="spend", get="/integrations/adplatform/events/{eid}/adplatform_insights", value="[spend][0]")
    world = World(facts={"spend": own})
    made = drawn(seed, good("adplatform_insights"), cases)

    async def story() -> None:
        for number, one in enumerate(made):
            world.rules[path_of("adplatform_insights")] = lambda _, one=one: one.make()  # type: ignore[misc]
            partner, key = PartnerId(f"partner-id-{number}"), FactKey(name="spend")
            fact = await world.service.read(partner, E1, key, urgency=Urgency.FACT)
            said = one.content[0] if one.content is not None else None
            found = said.get("spend") if isinstance(said, dict) else None
            assert (fact.value if isinstance(fact, Known) else None) == found, (
                f"own, seed {seed}, case {number}: {fact}"
            )
            seen[f"{one.kind}, {'known' if isinstance(fact, Known) else 'unknown'}"] += 1

    play(world, story())
    return seen


def check_tasks(seed: int, cases: int) -> Counter[str]:
    """A task has ended only where the answer says so in a word that the operator vouches for."""
    seen: Counter[str] = Counter()
    made = drawn(seed, '{"data": {"state": "SUCCESS", "since": 7}}', cases)
    world = World()

    async def story() -> None:
        for number, one in enumerate(made):
            world.rules[TASK] = lambda _, one=one: one.make()  # type: ignore[misc]
            found = await world.service.task_state(PartnerId(f"partner-id-{number}"), E1)
            said = one.content[0] if one.content is not None else None
            data = said.get("data") if isinstance(said, dict) else None
            right = isinstance(data, dict) and data.get("state") == "SUCCESS"
            assert (found.verdict == "succeeded") is right, f"task, seed {seed}, case {number}: {found}"
            assert found.verdict != "failed", f"task, seed {seed}, case {number}: {found}"
            seen[f"{one.kind}, {found.verdict}"] += 1

    play(world, story())
    return seen


async def named_by(world: World) -> tuple[PartnerId, ...] | str:
    """The partners that a sign-in names, or why there are none."""
    try:
        return await world.service.partners()
    except WorkerError as error:
        return f"{error} {error.hint}"


def check_sign_ins(seed: int, cases: int) -> Counter[str]:
    """A sign-in that is not understood says so, and its partners are those that its own answer names, or none."""
    seen: Counter[str] = Counter()
    tokens = {
        "AccessToken": "access-1",
        "IdToken": id_token("partner-id-hall", "newsletter"),
        "RefreshToken": "refresh-1",
        "ExpiresIn": 3600,
    }
    for number, one in enumerate(drawn(seed, httpx.Response(200, json=tokens).text, cases)):
        world = World()
        world.rules["/auth"] = lambda _, one=one: one.make()  # type: ignore[misc]
        partners = world.clock.run(named_by(world))
        if isinstance(partners, str):
            assert "access-1" not in partners, f"sign-in, seed {seed}, case {number}: {partners}"
            seen[f"{one.kind}, refused"] += 1
            continue
        assert one.content is not None, f"sign-in, seed {seed}, case {number} ({one.kind}): {partners}"
        assert partners in (("partner-id-hall",), ()), f"sign-in, seed {seed}, case {number}: {partners}"
        seen[f"{one.kind}, signed in"] += 1
    return seen


def check_groups(seed: int, cases: int) -> Counter[str]:
    """What stands inside an IdToken names the partners of its own group list, or nobody."""
    seen: Counter[str] = Counter()
    claims = json.dumps({"sub": "7", "idp:groups": ["partner-id-hall", "newsletter"], "name": "partner-id-trap"})
    for number, one in enumerate(drawn(seed, claims, cases)):
        payload = json.dumps(one.content[0]).encode() if one.content is not None else b"\xff" + claims.encode()
        token = f"head.{base64.urlsafe_b64encode(payload).decode()}.tail"
        world = World()
        world.rules["/auth"] = lambda _, token=token: answer({"AccessToken": "access-1", "IdToken": token})  # type: ignore[misc]
        partners = world.clock.run(named_by(world))
        groups = one.content[0].get("idp:groups") if one.content and isinstance(one.content[0], dict) else None
        if not isinstance(partners, str):
            where = f"groups, seed {seed}, case {number} ({one.kind})"
            assert isinstance(groups, list), f"{where}: {partners}"
            assert set(partners) <= {group for group in groups if isinstance(group, str)}, f"{where}: {partners}"
        seen[f"{one.kind}, {'refused' if isinstance(partners, str) else 'signed in'}"] += 1
    return seen


def check_refreshes(seed: int, cases: int) -> Counter[str]:
    """A refresh that is not understood is none, and leaves the partners as they were."""
    seen: Counter[str] = Counter()
    vouched, _ = assumptions_from(
        {"auth.refresh": {"path": "/auth/refresh", "body": {"RefreshToken": "{refresh_token}"}}}
    )
    tokens = {
        "AccessToken": "access-9",
        "IdToken": id_token("partner-id-club"),
        "ExpiresIn": 600,
        "TokenType": "Bearer",
    }
    for number, one in enumerate(drawn(seed, json.dumps(tokens), cases)):
        world = World(assumptions=vouched)
        world.rules["/auth/refresh"] = lambda _, one=one: one.make()  # type: ignore[misc]
        said = world.clock.run(world.api.refreshed())
        where = f"refresh, seed {seed}, case {number} ({one.kind})"
        assert "access-9" not in said, f"{where}: {said}"
        whole = one.content[0] if one.content is not None and isinstance(one.content[0], dict) else {}
        assert said or isinstance(whole.get("AccessToken"), str), f"{where}: taken for a token"
        seen[f"{one.kind}, {'refused' if said else 'signed in'}"] += 1
    return seen


def check_confirmations(seed: int, cases: int) -> Counter[str]:
    """What a rule's own ``confirm`` reads is the answer itself with its status, or unknown."""
    seen: Counter[str] = Counter()
    world, key = World(), FactKey(name="confirm", params=(("get", "/events/{eid}/attribution_model"),))
    made = drawn(seed, good("attribution_model"), cases)

    async def story() -> None:
        for number, one in enumerate(made):
            world.rules["/events/e1/attribution_model"] = lambda _, one=one: one.make()  # type: ignore[misc]
            fact = await world.service.read(PartnerId(f"partner-id-{number}"), E1, key, urgency=Urgency.EVIDENCE)
            wanted = None if one.content is None else {"status": 200, "body": one.content[0]}
            found = fact.value if isinstance(fact, Known) else None
            assert found == wanted, f"confirm, seed {seed}, case {number} ({one.kind}): {fact}"
            seen[f"{one.kind}, {'known' if isinstance(fact, Known) else 'unknown'}"] += 1

    play(world, story())
    return seen


def check_published_setups(seed: int, cases: int) -> Counter[str]:
    """Where a published setup answers 404, its campaigns tell, and only where they are read as they are."""
    seen: Counter[str] = Counter()
    vouched, _ = assumptions_from({"setup.after_publish": "absent"})
    world = World(assumptions=vouched)
    made = drawn(seed, good("campaigns"), cases)

    async def story() -> None:
        for number, one in enumerate(made):
            world.rules["/events/e1/campaigns"] = lambda _, one=one: one.make()  # type: ignore[misc]
            partner = PartnerId(f"partner-id-{number}")
            fact = await world.service.read(partner, E1, FactKey(name="setup"), urgency=Urgency.FACT)
            where = f"setup, seed {seed}, case {number} ({one.kind})"
            if isinstance(fact, Known):
                assert one.content is not None, f"{where}: {fact.value!r}"
                state = "PUBLISHED" if one.content[0] else "NONE"
                assert isinstance(one.content[0], list), f"{where}: {fact.value!r}"
                assert fact.value == {"state": state}, f"{where}: {fact.value!r}"
            seen[f"{one.kind}, {'known' if isinstance(fact, Known) else 'unknown'}"] += 1

    play(world, story())
    return seen


OTHER_PATHS = (
    *(check_listings, check_own_facts, check_tasks, check_sign_ins),
    *(check_groups, check_refreshes, check_confirmations, check_published_setups),
)


def run_cases(seed: int, tens: int) -> Counter[str]:
    """So many tens of cases of each fact, and as many of each other path."""
    seen = check_facts(seed, 10 * tens)
    for check in OTHER_PATHS:
        seen.update(check(seed, 10 * tens))
    return seen


def test_a_few_malformed_answers_of_every_read_path_are_unknown() -> None:
    seen = run_cases(1, SHORT)

    assert seen.total() == 10 * SHORT * (len(FACTS) + len(OTHER_PATHS))
    assert sum(count for kind, count in seen.items() if kind.endswith(", unknown")) > seen.total() // 3


@pytest.mark.parametrize("name", FACTS)
def test_the_well_formed_answer_is_known_or_the_cases_would_prove_nothing(name: str) -> None:
    whole = Answer(kind="whole", make=lambda: httpx.Response(200, content=good(name)), content=None)

    (_, fact), *_ = read_all(name, [whole])

    assert isinstance(fact, Known)
    assert complaint(name, whole, fact) is not None, "a judge that sees nothing wrong here would see nothing anywhere"


RECORD: dict[str, Json] = {"id": "e1", "status": "active", "capacity": 400, "special_ad_category": None}


@pytest.mark.parametrize(
    ("name", "said", "claimed", "reason"),
    [
        ("event", {**RECORD, "status": 7}, {**RECORD, "status": 7}, "an ill-typed field was kept"),
        ("event", {**RECORD, "status": "cancelled"}, RECORD, "a field was changed"),
        ("event", {**RECORD, "id": "e2"}, {**RECORD, "id": "e2"}, "another event answered"),
        ("event", [RECORD], RECORD, "a record was made of a list"),
        ("budget_range", {"lower_limit": 1}, {"lower_limit": 1}, "a missing field was passed over"),
        ("suggested_tcs", [], [], "not computed was taken for empty"),
        ("suggested_tcs", [{"tc": "a"}], [{"tc": "a", "tc_run_id": 1}], "a run was made up"),
        ("campaigns", [{"tc": "a", "tc_run_id": 1}, {}], [{"tc": "a", "tc_run_id": 1}], "an item was left out"),
        ("clusters", {"clusters": [{"tc": "a"}]}, [{"tc": "a", "tc_run_id": 0}], "a cluster of no run"),
        ("expected_value", {"expected_value": "n/a"}, 0.0, "a text became a number"),
        ("adplatform", {"connected": "yes"}, {"connected": True}, "a word became a flag"),
        ("permissions", {"a": 1}, ["a"], "a record became a list"),
        ("tickets", None, [], "null became a list"),
        ("lookout_prediction_benchmark", {"value": 3}, {"value": 0.3, "unit": "percent"}, "a number was made up"),
    ],
)
def test_the_judge_complains_of_what_a_client_might_make_of_it(
    name: str, said: Json, claimed: Json, reason: str
) -> None:
    gone = {field: "" for field in RECORDS.get(name, {}) if not isinstance(claimed, dict) or field not in claimed}
    gaps = {} if name == "budget_range" else gone
    fact = Known(value=claimed, read_at=datetime(2030, 1, 1, tzinfo=UTC), gaps=gaps)

    assert complaint(name, Answer(kind="", make=lambda: answer(None), content=(said,)), fact) is not None, reason


@pytest.mark.prove
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(FROM, FROM + 3))
def test_malformed_answers_of_every_read_path_are_unknown(seed: int) -> None:
    seen = run_cases(seed, LONG)

    shown = ", ".join(f"{count} {what}" for what, count in sorted(seen.items()))
    print(f"\nseed {seed}: {seen.total()} cases: {shown}")  # noqa: T201
    assert seen.total() >= 9000, "three seeds are more than 20,000 cases"
