"""Short budgets and many writes: what must go out goes out, and the looks go on meanwhile."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.worlds import BOOST, BOOST_DRAFTS, PAUSE, Town, draft, happening, in_town, plays, world
from worker.engine.views import DecidingSettings as Deciding
from worker.guards import Limits
from worker.sandbox.settings import TwinSettings

MINUTE, HOUR = 60.0, 3600.0
MANY = Deciding(surge=replace(Deciding().surge, events=1000))


@pytest.mark.parametrize("per_minute", [90, 30, 10])
def test_a_boost_is_sent_under_a_small_budget_too(tmp_path: Path, per_minute: int) -> None:
    async def script(here: Town) -> None:
        await here.run(2 * MINUTE)
        here.suggest("e1", 2)
        await here.until(lambda: here.states() == ["confirmed"], "boosted", limit=10 * MINUTE)

    plays(script, tmp_path, world(draft("e1")), BOOST, requests_per_minute=per_minute)


@pytest.mark.parametrize("per_minute", [20, 10, 4])
def test_a_pause_is_sent_under_a_tiny_budget_too(tmp_path: Path, per_minute: int) -> None:
    async def script(here: Town) -> None:
        await here.run(60)
        here.set("e1", status="cancelled")
        await here.until(lambda: here.states() == ["confirmed"], "paused", limit=5 * MINUTE)

    plays(script, tmp_path, world(happening("e1")), PAUSE, requests_per_minute=per_minute)


@in_town(world(*(draft(f"e{number}") for number in range(1, 9))), BOOST, twin=TwinSettings(rate_limit_per_minute=60))
async def test_a_service_that_allows_less_than_the_configured_budget_still_gets_its_boost(here: Town) -> None:
    await here.run(60)
    here.suggest("e1", 2)
    await here.until(lambda: "confirmed" in here.states(), "boosted", limit=20 * MINUTE)


@in_town(
    world(*(happening(f"e{number:02}", client_campaign_status="PAUSED") for number in range(36))),
    "rules: [{id: run-again, when: event.status == 'active', do: [run]}]",
    requests_per_minute=40,
    deciding=MANY,
)
async def test_what_was_proved_absent_is_sent_again_before_what_was_never_sent(here: Town) -> None:
    here.fault("answer_before", "PUT", "/client_campaign_status$", status=429)
    await here.until(lambda: any(one.attempt == 2 for one in here.writes()), "sent again", limit=10 * MINUTE)
    assert sum(one.attempt == 0 for one in here.writes()) >= 10, "the others still wait for their first turn"
    await here.until(lambda: set(here.states()) == {"confirmed"}, "all run", limit=10 * MINUTE)


@in_town(
    world(*(draft(f"e{number}") for number in range(40))),
    BOOST_DRAFTS,
    ask=True,
    deciding=MANY,
    limits=Limits(writes_per_hour=1000),
)
async def test_many_writes_before_a_person_do_not_slow_the_looks(here: Town) -> None:
    here.fault("answer_before", "POST", "/boost$", status=500, times=1000)
    await here.until(lambda: here.states().count("needs_human") >= 36, "all before a person", limit=HOUR)
    await here.run(MINUTE)
    slow = [one.took_ms for one in here.reports[-5:]]
    assert max(slow) < 6_000, f"cycles took {slow} ms"


@in_town(
    world(*(draft(f"e{number}") for number in range(40))), BOOST_DRAFTS, deciding=MANY, limits=Limits(writes_per_hour=1)
)
async def test_many_writes_held_by_a_brake_do_not_slow_the_looks(here: Town) -> None:
    await here.until(lambda: here.states().count("planned") >= 38, "all held", limit=HOUR)
    await here.run(3 * MINUTE)
    slow = [one.took_ms for one in here.reports[-5:]]
    assert max(slow) < 6_000, f"cycles took {slow} ms"


@in_town(
    world(*(draft(f"e{number}") for number in range(30)), happening("cancelled")),
    PAUSE + BOOST.replace("\nrules:\n", ""),
    deciding=MANY,
)
async def test_a_pause_goes_out_before_the_boosts_that_wait_with_it(here: Town) -> None:
    """A cancelled event costs money every minute; a boost that comes a minute later costs nothing."""
    await here.run(15)
    for number in range(30):
        here.suggest(f"e{number}", 2)
    await here.run(6)
    here.set("cancelled", status="cancelled")
    await here.until(lambda: bool(here.effects("set_client_campaign_status")), "paused", limit=MINUTE)
    assert len(here.effects("boost")) < 25, "the line was still long"
