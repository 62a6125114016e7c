"""The life of an account: products off, permissions, tokens that end, refusals, and resets."""

from itertools import pairwise

import pytest

from tests.worlds import (
    BOOST,
    CAMPAIGN,
    MINUTE,
    OTHER,
    PARTNER,
    PAUSE,
    Town,
    draft,
    happening,
    in_town,
    rules_of,
    several,
    tenant,
    world,
)
from worker.sandbox.changes import PartnerChange, ResetChange, SignOutChange
from worker.sandbox.settings import TwinSettings

FORECAST = """
rules:
  - {id: pause-hopeless, when: lookout_prediction_benchmark.value < 0.1, do: [pause]}
  - {id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}
"""
HOPELESS = {"prediction": {"value": 0.05, "benchmark": 0.5}}


def paused(here: Town) -> list[str]:
    return sorted(effect.eid for effect in here.effects("set_client_campaign_status"))


def held(here: Town, reason: str) -> list[tuple[str | None, str]]:
    return [(record["rule"], record["why"]) for record in here.log("held") if record["reason"] == reason]


@in_town(world(happening("e1"), happening("e2")), FORECAST, watched=9)
async def test_without_the_forecasting_product_rules_that_need_it_rest_and_say_so(here: Town) -> None:
    here.become(demand_prediction=False)
    await here.run(60)
    here.twin.books.requests.clear()
    here.set("e1", benchmark=HOPELESS)
    await here.becomes("e2", 30, status="cancelled")
    assert paused(here) == ["e2"], "the other rule goes on"
    assert held(here, "product_off") == [
        (
            "pause-hopeless",
            "the partner's demand_prediction is off, and the rule needs it: lookout_prediction_benchmark",
        )
    ], "said once, and not of every event"
    asked = [seen.path for seen in here.twin.books.requests if "lookout" in seen.path]
    assert asked == [], "an area that is off is not asked for"
    here.fault("answer_before", "GET", "^/partners/$", times=3, status=500)
    await here.run(90)
    assert [one["rule"] for one in here.log("fired")] == ["pause-cancelled"], "nor switched on by a read that failed"
    here.become(demand_prediction=True)
    await here.run(75)
    assert here.states() == ["confirmed", "waiting"], "its return is as after a gap"


@in_town(world(happening("e1")), FORECAST, watched=57)
async def test_a_write_that_waits_for_its_turn_is_held_once_the_area_of_its_condition_is_off(here: Town) -> None:
    here.become(demand_prediction=False)
    here.set("e1", benchmark=HOPELESS)
    here.fault("answer_before", "GET", "lookout", times=None, status=503, skip=1)
    await here.run(90)
    assert (here.only.state, here.only.held_by) == ("planned", "product_off")
    assert here.effects() == []


@in_town(world(happening("e1"), more=(tenant(OTHER, happening("e1")),)))
async def test_permissions_and_features_are_read_for_each_partner_and_again_after_a_change(here: Town) -> None:
    account = ("/permissions", "/features")
    await here.run(30)
    asked = [(seen.path, seen.partner) for seen in here.twin.books.requests if seen.path in account]
    assert sorted(asked) == sorted((path, partner) for path in account for partner in (PARTNER, OTHER))
    change = PartnerChange(partner=PARTNER, set={"pricing_tier": "plus"}, permissions=["a"])
    here.twin.change(change, here.loop.time())
    await here.run(63)
    later = [(seen.path, seen.partner) for seen in here.twin.books.requests if seen.path in account]
    assert sorted(later[4:]) == [(path, PARTNER) for path in sorted(account)]
    assert [record["why"] for record in here.log("observed")] == [
        "partner.pricing_tier changed from 'standard' to 'plus'",
        "permissions changed: gained ['a'], lost nothing",
    ]


RESETS = {
    "gone for a while, and back under the same ids": {"reset_takes_s": 8},
    "gone for good": {"reset_result": "empty"},
    "back at once under other ids": {"reset_result": "new_ids"},
}


@pytest.mark.parametrize("settings", RESETS.values(), ids=RESETS)
@in_town(
    world(happening("e1"), draft("e2"), *several(happening, 4, first=3)),
    BOOST + PAUSE.removeprefix("\nrules:\n"),
    twin=lambda settings: TwinSettings(**settings),
    watched=9,
)
async def test_the_weekly_reset_sends_nothing_and_is_one_record(here: Town) -> None:
    here.set("e1", status="cancelled")
    here.suggest("e2", 7)
    await here.until(lambda: here.states() == ["confirmed"] * 2, "a pause and a boost", 60)
    await here.run(6)
    before = here.log()[-1]["seq"]
    here.twin.change(ResetChange(), here.loop.time())
    await here.run(45)
    assert len(here.effects()) == 2, "nothing was sent"
    assert set(here.states()[2:]) <= {"waiting"}
    assert [one["reason"] for one in here.log("observed") if one["seq"] > before] == ["reset"]


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


@in_town(
    world(happening("e1")),
    assumptions={"auth.refresh": {"path": "/auth/refresh", "body": {"RefreshToken": "{refresh_token}"}}},
    twin=TwinSettings(token_lifetime_s=50, refresh_path="/auth/refresh"),
)
async def test_a_token_is_refreshed_where_the_operator_says_so_and_a_password_reset_signs_in_anew(here: Town) -> None:
    await here.run(100)
    assert [path for _, path, _ in auth_calls(here)] == ["/auth", "/auth/refresh", "/auth/refresh"]
    here.twin.change(SignOutChange(), here.loop.time())
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"], "the pause is confirmed", 30)
    assert auth_calls(here)[3][1:] == ("/auth", 200), "the refresh token is worth nothing, and is not tried"
    await here.run(60)
    assert auth_calls(here)[4][1:] == ("/auth/refresh", 200)
    assert len(here.effects()) == 1


def sent(here: Town) -> int:
    """Writes on the wire."""
    return sum(one.method == "PUT" for one in here.twin.books.requests)


def cancel(here: Town, *events: str) -> None:
    for event in events:
        here.set(event, status="cancelled")


@in_town(world(happening("e1")), watched=10)
async def test_a_process_that_is_killed_with_the_answer_leaves_the_next_one_the_refusal(here: Town) -> None:
    here.fault("answer_before", "PUT", CAMPAIGN, status=401)
    cancel(here, "e1")
    await here.until(lambda: any(one["reason"] == "denied" for one in here.log("planned")), "refused")
    memory = here.ledger.partner_memory(PARTNER)
    assert memory is not None
    assert memory.denied_at == here.only.changed_at, "it is stored with the answer"


@in_town(world(happening("e1"), happening("e2")), watched=10)
async def test_a_second_refusal_in_a_row_holds_every_write_of_the_partner_over_a_restart(here: Town) -> None:
    here.fault("answer_before", "PUT", CAMPAIGN, status=403, times=3)
    cancel(here, "e1")
    await here.until(lambda: sent(here) == 2, "refused twice")
    cancel(here, "e2")
    await here.run(MINUTE)
    assert sent(here) == 2, "the other write of the partner is not even tried"
    assert {write.held_by for write in here.writes()} == {"credentials"}, here.story()
    assert {one["write"] for one in here.log("held") if one["reason"] == "credentials"} == {1, 2}
    assert "refuses them" in (here.worker.states[PARTNER].trouble(here.clock.now()) or "")

    await here.restart()
    await here.run(3 * MINUTE)
    assert sent(here) == 2, "a new process remembers" + here.story()
    await here.run(2 * MINUTE)
    assert sent(here) == 3, "after five minutes one write tries for all" + here.story()
    await here.until(lambda: here.states() == ["confirmed", "confirmed"], "let in again", limit=6 * MINUTE)
    assert here.worker.states[PARTNER].trouble(here.clock.now()) is None


@in_town(
    world(happening("e1"), happening("e2")),
    rules_of(
        "{id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}",
        "{id: rest-hidden, when: event.frontend_status == 'HIDDEN', do: [{optimisation: 'OFF'}]}",
    ),
    watched=10,
)
async def test_two_writes_refused_one_after_the_other_are_two_in_a_row(here: Town) -> None:
    here.fault("answer_before", "PUT", "/e1" + CAMPAIGN, status=403)
    cancel(here, "e1")
    await here.until(lambda: sent(here) == 1, "the first refusal")
    here.halt(rule=here.only.key.rule)
    here.fault("answer_before", "PUT", "/campaign_optimisation_status$", status=403)
    here.set("e2", frontend_status="HIDDEN")
    await here.until(lambda: sent(here) == 2, "the second one, of another write")
    here.resume()
    await here.run(MINUTE)
    assert sent(here) == 2, here.story()
    assert [write.held_by for write in here.writes()] == ["credentials", "credentials"], here.story()


@in_town(world(happening("e1"), more=(tenant(OTHER, happening("f1")),)), watched=10)
async def test_the_refusals_of_one_partner_hold_no_other(here: Town) -> None:
    here.fault("answer_before", "PUT", "/e1" + CAMPAIGN, status=403, times=100)
    here.set("e1", status="cancelled")
    here.set("f1", status="cancelled", partner=OTHER)
    await here.run(MINUTE)
    assert here.states() == ["planned", "confirmed"], here.story()
