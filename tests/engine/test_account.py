"""The life of an account: products that are switched off, permissions that change, tokens that end, and resets."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.worlds import BOOST, OTHER, PARTNER, PAUSE, Town, draft, happening, in_town, plays, tenant, world
from worker.sandbox.changes import PartnerChange, ResetChange, SignOutChange
from worker.sandbox.settings import TwinSettings

FORECAST = """
rules:
  - id: pause-hopeless
    when: lookout_prediction_benchmark.value < 0.1
    do: [pause]
  - id: pause-cancelled
    when: event.status == 'cancelled'
    do: [pause]
"""
HOPELESS = {"prediction": {"value": 0.05, "benchmark": 0.5}}


def switch(here: Town, **flags: Any) -> None:  # noqa: ANN401 - fields of the service's records
    here.twin.change(PartnerChange(partner=PARTNER, set=flags), here.loop.time())


def paused(here: Town) -> list[str]:
    return sorted(effect.eid for effect in here.effects("set_client_campaign_status"))


def held(here: Town, reason: str) -> list[tuple[str | None, str]]:
    return [(record["rule"], record["why"]) for record in here.log("held") if record["reason"] == reason]


@in_town(world(happening("e1"), happening("e2")), FORECAST)
async def test_without_the_forecasting_product_rules_that_need_it_rest_and_say_so(here: Town) -> None:
    await here.run(9)
    switch(here, demand_prediction=False)
    await here.run(60)
    here.twin.books.requests.clear()
    here.set("e1", benchmark=HOPELESS)
    here.set("e2", status="cancelled")
    await here.run(30)
    assert paused(here) == ["e2"], "the other rule goes on"
    assert held(here, "product_off") == [
        (
            "pause-hopeless",
            "the partner's demand_prediction is off, and the rule needs it: lookout_prediction_benchmark",
        )
    ], "said once, and not of every event"
    asked = [seen.path for seen in here.twin.books.requests if "lookout" in seen.path]
    assert asked == [], "an area that is off is not asked for"
    switch(here, demand_prediction=True)
    await here.run(75)
    assert here.states() == ["confirmed", "waiting"], "its return is as after a gap"


@in_town(world(happening("e1")), FORECAST)
async def test_a_write_that_waits_for_its_turn_is_held_once_the_area_of_its_condition_is_off(here: Town) -> None:
    await here.run(57)
    switch(here, demand_prediction=False)
    here.set("e1", benchmark=HOPELESS)
    here.fault("answer_before", "GET", "lookout", times=None, status=503, skip=1)
    await here.run(90)
    assert (here.only.state, here.only.held_by) == ("planned", "product_off")
    assert here.effects() == []


@in_town(world(happening("e1")))
async def test_without_the_campaign_product_no_rule_that_writes_looks(here: Town) -> None:
    switch(here, campaign_recommendations=False)
    here.set("e1", status="cancelled")
    await here.run(30)
    assert here.writes() == []
    assert held(here, "product_off") == [
        ("pause-cancelled", "the partner's campaign_recommendations is off, and the rule needs it: pause")
    ]


def observed(here: Town) -> list[str]:
    return [record["why"] for record in here.log("observed")]


def test_permissions_and_features_are_read_for_each_partner_and_again_after_a_change(tmp_path: Path) -> None:
    account = ("/permissions", "/features")

    async def script(here: Town) -> None:
        here.start(PARTNER, OTHER)
        await here.run(30)
        asked = [(seen.path, seen.partner) for seen in here.twin.books.requests if seen.path in account]
        assert sorted(asked) == sorted((path, partner) for path in account for partner in (PARTNER, OTHER))
        change = PartnerChange(partner=PARTNER, set={"pricing_tier": "plus"}, permissions=["a"])
        here.twin.change(change, here.loop.time())
        await here.run(63)
        later = [(seen.path, seen.partner) for seen in here.twin.books.requests if seen.path in account]
        assert sorted(later[4:]) == [(path, PARTNER) for path in sorted(account)]
        assert observed(here) == [
            "partner.pricing_tier changed from 'standard' to 'plus'",
            "permissions changed: gained ['a'], lost nothing",
        ]

    plays(script, tmp_path, world(happening("e1"), more=(tenant(OTHER, happening("e1")),)))


WATCH = f"{BOOST}{PAUSE.replace('rules:', '').lstrip(chr(10))}"
RESETS = {
    "gone for a while, and back under the same ids": {"reset_takes_s": 8},
    "gone for good": {"reset_result": "empty"},
    "back at once under other ids": {"reset_result": "new_ids"},
}


async def at_work(here: Town) -> None:
    """One event is cancelled and paused, one draft gets other clusters and is published."""
    await here.run(9)
    here.set("e1", status="cancelled")
    here.suggest("e2", 7)
    await here.until(lambda: here.states() == ["confirmed"] * 2, "a pause and a boost", 60)
    await here.run(6)


def after_reset(here: Town, before: int) -> None:
    assert len(here.effects()) == 2, "nothing was sent"
    assert [state for state in here.states()[2:] if state != "waiting"] == []
    records = [record for record in here.log("observed") if record["seq"] > before]
    assert [record["reason"] for record in records] == ["reset"], [record["why"] for record in records]


@pytest.mark.parametrize("settings", RESETS.values(), ids=RESETS)
def test_the_weekly_reset_sends_nothing_and_is_one_record(settings: dict[str, Any], tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await at_work(here)
        before = here.log()[-1]["seq"]
        here.twin.change(ResetChange(), here.loop.time())
        await here.run(45)
        after_reset(here, before)

    events = (happening("e1"), draft("e2"), *(happening(f"e{number}") for number in range(3, 7)))
    plays(script, tmp_path, world(*events), WATCH, twin=TwinSettings(**settings))


@in_town(world(*(happening("e1"), draft("e2"), *(happening(f"e{number}") for number in range(3, 7)))), WATCH)
async def test_a_reset_that_gives_the_ids_to_other_events_is_none_of_their_changes(here: Town) -> None:
    await at_work(here)
    before = here.log()[-1]["seq"]
    for number in range(1, 7):
        new: dict[str, Any] = {
            "title": f"Another {number}",
            "start_date_time": "2026-09-09T19:00:00Z",
            "status": "cancelled",
        }
        here.set(f"e{number}", client_campaign_status="RUNNING", capacity=99, **new)
    await here.run(90)
    after_reset(here, before)
    assert here.states()[2:] == ["waiting"] * 5, "what runs though cancelled waits; e1 was paused in its episode"


def auth_calls(here: Town) -> list[tuple[float, str, int | None]]:
    auth = [seen for seen in here.twin.books.requests if seen.path.startswith("/auth")]
    return [(round(seen.at_s, 3), seen.path, seen.status) for seen in auth]


@in_town(world(happening("e1")), twin=TwinSettings(token_lifetime_s=300))
async def test_a_sign_in_that_is_told_to_slow_down_stops_nothing_else(here: Town) -> None:
    """The token lives five minutes and is due after four; for the last minute of its life no new one is to be had."""
    await here.run(230)
    here.fault("answer_before", "POST", "^/auth$", times=2, status=429)
    await here.run(120)
    assert all(report.complete for report in here.reports), "every list was whole"
    assert here.worker.service.budget(PARTNER) == here.settings.requests_per_minute
    calls = auth_calls(here)
    assert [status for _, _, status in calls] == [200, 429, 429, 200]
    waits = [later[0] - sooner[0] for sooner, later in pairwise(calls)]
    assert min(waits) >= 5.0


REFRESHED: dict[str, Any] = {
    "assumptions": {"auth.refresh": {"path": "/auth/refresh", "body": {"RefreshToken": "{refresh_token}"}}},
    "twin": TwinSettings(token_lifetime_s=50, refresh_path="/auth/refresh"),
}


@in_town(world(happening("e1")), **REFRESHED)
async def test_a_token_is_refreshed_when_the_operator_vouches_for_it_and_a_password_reset_signs_in_anew(
    here: Town,
) -> None:
    await here.run(100)
    assert [path for _, path, _ in auth_calls(here)] == ["/auth", "/auth/refresh", "/auth/refresh"]
    here.twin.change(SignOutChange(), here.loop.time())
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"], "the pause is confirmed", 30)
    assert auth_calls(here)[3][1:] == ("/auth", 200), "the refresh token is worth nothing, and is not tried"
    await here.run(60)
    assert auth_calls(here)[4][1:] == ("/auth/refresh", 200)
    assert len(here.effects()) == 1


@in_town(world(happening("e1")), **REFRESHED)
async def test_a_refresh_that_fails_is_followed_by_a_sign_in(here: Town) -> None:
    here.fault("answer_before", "POST", "^/auth/refresh$", status=400)
    await here.run(60)
    assert [(path, status) for _, path, status in auth_calls(here)] == [
        ("/auth", 200),
        ("/auth/refresh", 400),
        ("/auth", 200),
    ]
    assert all(report.complete for report in here.reports)
