"""Whatever the service answers, a read says what stands there or that it does not know; and it never raises.

A share of the cases runs with every test run; ``make prove`` runs the whole of them. ``CASES_FROM`` chooses the seed of
the long one; a failure names its seed and its case.
"""

import base64
import json
import os
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

import httpx
import pytest

from tests.builders import cases
from tests.contract.malformed import E1, Answer, answers, complaint, good, key_of, path_of
from tests.unit.api.world import HALL, World, answer, assumed, id_token
from tests.virtual import last
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Something that is read: from where, a whole answer, and what is said of one that is spoilt, whose ``judge``
    fails where it was taken for what it is not. ``anew``: each case has a world of its own, for it is a sign-in."""

    name: str
    path: str
    whole: str
    judge: Callable[[World, PartnerId, Answer], Coroutine[Any, Any, str]]
    world: Callable[[], World] = World
    anew: bool = False

    def check(self, seed: int, cases: int) -> Counter[str]:
        """Each answer is read by a partner of its own, so that no floor and no back-off stands between two of them."""
        seen: Counter[str] = Counter()
        world = self.world()
        for number, one in enumerate(drawn(seed, self.whole, cases)):
            world = self.world() if self.anew else world
            world.rules[self.path] = lambda _, one=one: one.make()  # type: ignore[misc]
            try:
                word = world.clock.run(self.judge(world, PartnerId(f"partner-id-{number}"), one))
            except AssertionError as wrong:
                raise AssertionError(f"{self.name}, seed {seed}, case {number} ({one.kind}): {wrong}") from wrong
            seen[f"{one.kind}, {word}"] += 1
        return seen


def known(fact: Fact) -> str:
    return "known" if isinstance(fact, Known) else "unknown"


def unjudged(name: str, fact: Fact) -> list[str]:
    """The documented fields that the fact does not know, and of which a condition can say something all the same."""
    if name not in RECORDS or not isinstance(fact, Known) or not isinstance(fact.value, dict):
        return []
    seen = Observation(partner=HALL, event=E1, facts={FactKey(name=name): fact})
    scope = Scope(observation=seen, keys={name: FactKey(name=name)}, now=fact.read_at)
    missing = [field for field in RECORDS[name] if field not in fact.value]
    return [field for field in missing if FIELDS[name, field].judge(scope).truth is not Truth.UNKNOWN]


def read_of(name: str) -> Read:
    """A fact is what its answer says, and a condition knows no more of it."""

    async def judge(world: World, partner: PartnerId, one: Answer) -> str:
        fact = await world.service.read(partner, E1, key_of(name), urgency=Urgency.FACT)
        said = complaint(name, one, fact)
        assert said is None, said
        assert unjudged(name, fact) == [], "a condition takes a gap for a value"
        return known(fact)

    return Read(name=name, path=path_of(name), whole=good(name), judge=judge)


def pages() -> list[dict[str, Json]]:
    event: dict[str, Json] = json.loads(good("event"))
    events = [{**event, "id": f"e{number}"} for number in range(1, 6)]
    return [
        {"total": 5, "limit": 2, "page": number + 1, "pages": 3, "items": [*events[2 * number : 2 * number + 2]]}
        for number in range(3)
    ]


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

    world.clock.run(story())
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


async def own_fact(world: World, partner: PartnerId, one: Answer) -> str:
    """A fact of the config is what its path finds, and nothing where that finds nothing."""
    fact = await world.service.read(partner, E1, FactKey(name="spend"), urgency=Urgency.FACT)
    said = one.content[0] if one.content is not None else None
    found = said.get("spend") if isinstance(said, dict) else None
    assert (fact.value if isinstance(fact, Known) else None) == found, fact
    return known(fact)


async def task(world: World, partner: PartnerId, one: Answer) -> str:
    """A task has ended only where the answer says so in a word that the operator vouches for."""
    found = await world.service.task_state(partner, E1)
    said = one.content[0] if one.content is not None else None
    data = said.get("data") if isinstance(said, dict) else None
    right = isinstance(data, dict) and data.get("state") == "SUCCESS"
    assert (found.verdict == "succeeded") is right, found
    assert found.verdict != "failed", found
    return found.verdict


async def named_by(world: World) -> tuple[PartnerId, ...] | str:
    """The partners that a sign-in names, or why there are none."""
    try:
        return await world.service.partners()
    except WorkerError as error:
        return f"{error} {error.hint}"


async def sign_in(world: World, _partner: PartnerId, one: Answer) -> str:
    """A sign-in that is not understood says so, and its partners are those that its own answer names, or none."""
    partners = await named_by(world)
    if isinstance(partners, str):
        assert "access-1" not in partners, partners
        return "refused"
    assert one.content is not None, partners
    assert partners in (("partner-id-hall",), ()), partners
    return "signed in"


async def groups(world: World, _partner: PartnerId, one: Answer) -> str:
    """What stands inside an IdToken names the partners of its own group list, or nobody."""
    payload = json.dumps(one.content[0]).encode() if one.content is not None else b"\xff" + CLAIMS.encode()
    token = f"head.{base64.urlsafe_b64encode(payload).decode()}.tail"
    world.rules["/auth"] = lambda _: answer({"AccessToken": "access-1", "IdToken": token})
    partners = await named_by(world)
    if isinstance(partners, str):
        return "refused"
    listed = one.content[0].get("idp:groups") if one.content and isinstance(one.content[0], dict) else None
    assert isinstance(listed, list), partners
    assert set(partners) <= {group for group in listed if isinstance(group, str)}, partners
    return "signed in"


async def refresh(world: World, _partner: PartnerId, one: Answer) -> str:
    """A refresh that is not understood is none, and leaves the partners as they were."""
    said = (await world.api.refreshed()).why
    assert "access-9" not in said, said
    whole = one.content[0] if one.content is not None and isinstance(one.content[0], dict) else {}
    assert said or isinstance(whole.get("AccessToken"), str), "taken for a token"
    return "refused" if said else "signed in"


async def confirmation(world: World, partner: PartnerId, one: Answer) -> str:
    """What a rule's own ``confirm`` reads is the answer itself with its status, or unknown."""
    key = FactKey(name="confirm", params=(("get", "/events/{eid}/attribution_model"),))
    fact = await world.service.read(partner, E1, key, urgency=Urgency.EVIDENCE)
    wanted = None if one.content is None else {"status": 200, "body": one.content[0]}
    assert (fact.value if isinstance(fact, Known) else None) == wanted, fact
    return known(fact)


async def published_setup(world: World, partner: PartnerId, one: Answer) -> str:
    """Where a published setup answers 404, its campaigns tell, and only where they are read as they are."""
    fact = await world.service.read(partner, E1, FactKey(name="setup"), urgency=Urgency.FACT)
    if isinstance(fact, Known):
        assert one.content is not None, fact.value
        assert isinstance(one.content[0], list), fact.value
        assert fact.value == {"state": "PUBLISHED" if one.content[0] else "NONE"}
    return known(fact)


INSIGHTS = "/integrations/adplatform/events/{eid}/adplatform_insights"
SPEND = {"spend": CustomFact(name="spend", get=INSIGHTS, value="[spend][0]")}
REFRESH: Json = {"path": "/auth/refresh", "body": {"RefreshToken": "{refresh_token}"}}
CLAIMS = json.dumps({"sub": "7", "idp:groups": ["partner-id-hall", "newsletter"], "name": "partner-id-trap"})
TOKENS: dict[str, Json] = {
    "AccessToken": "access-1",
    "IdToken": id_token("partner-id-hall", "newsletter"),
    "RefreshToken": "refresh-1",
    "ExpiresIn": 3600,
}
RENEWED = {"AccessToken": "access-9", "IdToken": id_token("partner-id-club"), "ExpiresIn": 600, "TokenType": "Bearer"}
OTHER_READS = (
    Read(
        name="own",
        path=path_of("adplatform_insights"),
        whole=good("adplatform_insights"),
        judge=own_fact,
        world=lambda: World(facts=SPEND),
    ),
    Read(name="task", path=TASK, whole='{"data": {"state": "SUCCESS", "since": 7}}', judge=task),
    Read(name="sign-in", path="/auth", whole=json.dumps(TOKENS), judge=sign_in, anew=True),
    Read(name="groups", path="/auth", whole=CLAIMS, judge=groups, anew=True),
    Read(
        name="refresh",
        path="/auth/refresh",
        whole=json.dumps(RENEWED),
        judge=refresh,
        world=lambda: World(assumptions=assumed(auth__refresh=REFRESH)),
        anew=True,
    ),
    Read(name="confirm", path=path_of("attribution_model"), whole=good("attribution_model"), judge=confirmation),
    Read(
        name="setup",
        path=path_of("campaigns"),
        whole=good("campaigns"),
        judge=published_setup,
        world=lambda: World(assumptions=assumed(setup__after_publish="absent")),
    ),
)
READS = (*map(read_of, FACTS), *OTHER_READS)


def run_cases(seed: int, tens: int) -> Counter[str]:
    """So many tens of cases of everything that is read."""
    return sum((one.check(seed, 10 * tens) for one in READS), check_listings(seed, 10 * tens))


def test_a_few_malformed_answers_of_every_read_path_are_unknown() -> None:
    seen = run_cases(1, SHORT)

    assert seen.total() == 10 * SHORT * (len(READS) + 1)
    assert sum(count for kind, count in seen.items() if kind.endswith(", unknown")) > seen.total() // 3


@pytest.mark.parametrize("name", FACTS)
def test_the_well_formed_answer_is_known_or_the_cases_would_prove_nothing(name: str) -> None:
    whole = Answer(kind="whole", make=lambda: httpx.Response(200, content=good(name)), content=None)

    world = World()
    world.rules[path_of(name)] = lambda _: whole.make()
    fact = world.clock.run(world.service.read(HALL, E1, key_of(name), urgency=Urgency.FACT))

    assert isinstance(fact, Known)
    assert complaint(name, whole, fact) is not None, "a judge that sees nothing wrong here would see nothing anywhere"


RECORD: dict[str, Json] = {"id": "e1", "status": "active", "capacity": 400, "special_ad_category": None}


@cases(
    "name, said, claimed",
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
)
def test_the_judge_complains_of_what_a_client_might_make_of_it(name: str, said: Json, claimed: Json) -> None:
    gone = {field: "" for field in RECORDS.get(name, {}) if not isinstance(claimed, dict) or field not in claimed}
    gaps = {} if name == "budget_range" else gone
    fact = Known(value=claimed, read_at=datetime(2030, 1, 1, tzinfo=UTC), gaps=gaps)

    assert complaint(name, Answer(kind="", make=lambda: answer(None), content=(said,)), fact) is not None


@pytest.mark.prove
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(FROM, FROM + 3))
def test_malformed_answers_of_every_read_path_are_unknown(seed: int) -> None:
    seen = run_cases(seed, LONG)

    shown = ", ".join(f"{count} {what}" for what, count in sorted(seen.items()))
    print(f"\nseed {seed}: {seen.total()} cases: {shown}")  # noqa: T201
    assert seen.total() >= 9000, "three seeds are more than 20,000 cases"
