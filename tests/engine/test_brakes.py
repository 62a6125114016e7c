"""Every brake, from a config and a rule file to the twin's books: what it holds, until when, and what lets it go."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.calling import PAUSE
from tests.worlds import (
    BOOST_DRAFTS,
    HOUR,
    MINUTE,
    OTHER,
    PARTNER,
    RUN,
    Town,
    draft,
    happening,
    in_town,
    several,
    tenant,
    world,
)
from worker.cli.common import engine_settings
from worker.config import read_config
from worker.engine.operators import approved, rejected
from worker.engine.views import EngineSettings
from worker.model.facts import PartnerId, RuleId


def told(config: str) -> EngineSettings:
    """What the daemon makes of a config."""
    return replace(engine_settings(read_config(Path("config.yaml"), config)), settle=timedelta(seconds=20))


def held(here: Town) -> set[tuple[str, str | None]]:
    return {(write.state, write.held_by or write.reason) for write in here.writes() if not write.final}


def booked(here: Town) -> int:
    return len(here.effects())


async def change(here: Town, *events: str, **fields: Any) -> None:  # noqa: ANN401 - fields of an event
    for event in events:
        here.set(event, **(fields or {"status": "cancelled"}))
    await here.run(9)


# --- how many ------------------------------------------------------------------------------------------------------


@in_town(
    world(*several(happening, 7, client_campaign_status="PAUSED")),
    PAUSE.replace("do:", "priority: 1\n    do:") + RUN.split("rules:\n")[1],
    settings=told("safety: {writes_per_hour: 2, gap: {longer_than: 4h}}"),
    watched=6,
)
async def test_writes_per_hour_holds_what_goes_beyond_until_the_first_is_an_hour_old(here: Town) -> None:
    await change(here, *(f"e{number}" for number in range(1, 8)), frontend_status="FLAGGED")
    assert booked(here) == 2
    assert held(here) == {("planned", "writes_per_hour")}
    first = min(write.first_sent_at for write in here.writes() if write.first_sent_at)
    assert {write.held_until for write in here.writes() if write.held_by} == {first + timedelta(hours=1)}
    await change(here, "e3", "e4", status="cancelled", client_campaign_status="RUNNING")
    await here.until(lambda: booked(here) == 4, "what only stops spending is exempt")
    here.loop.jump(HOUR)
    await here.run(15)
    ran = [one.eid for one in here.effects() if one.after == "RUNNING"]
    assert ran == ["e1", "e2", "e5", "e6"], "two more go by themselves, where run-flagged is not overruled by then"


@in_town(
    world(*several(happening, 2)),
    "rules:\n  - id: hide\n    when: event.status == 'archived'\n    do: [{frontend_status: HIDDEN}]\n",
    settings=told("safety: {writes_per_hour: 1}"),
    watched=6,
)
async def test_of_a_step_whose_first_half_the_hour_held_nobody_is_asked_either(here: Town) -> None:
    """The first half of the pair went by itself, and the other one waited for approval."""
    await change(here, "e1", "e2", status="archived")
    for _ in range(4):
        here.loop.jump(HOUR)
        await here.run(30)
    assert here.log("waiting") == []
    assert set(here.states()) == {"confirmed"}


SURGES = [
    ("safety: {surge: {events: 2, within: 10m}}", PAUSE, "the config's surge"),
    ("mode: live", PAUSE + "    surge: {events: 2, within: 10m}\n", "the rule's own"),
    (
        "safety: {surge: {events: 2, within: 10m}}",
        PAUSE + "    surge: {events: 9, within: 1m}\n",
        "a rule only narrows",
    ),
]


@pytest.mark.parametrize(("config", "rules", "reason"), SURGES, ids=[one[2] for one in SURGES])
@pytest.mark.parametrize(("verdict", "effects"), [(approved, 4), (rejected, 0)])
@in_town(world(*several(happening, 5)), lambda rules: rules, settings=told, watched=6)
async def test_a_surge_holds_its_first_as_well_and_one_command_decides_the_whole_burst(
    here: Town, reason: str, verdict: Callable[..., Any], effects: int
) -> None:
    await change(here, "e1", "e2", "e3", "e4")
    assert held(here) == {("waiting", "surge")}, reason
    assert "fires for 4 events within 10m; more than 2 need approval" in here.writes()[0].why
    assert booked(here) == 0
    here.decide(verdict)
    await here.until(lambda: all(write.final for write in here.writes()), "decided")
    await here.run(15)
    assert (booked(here), len(here.writes())) == (effects, 4)


@in_town(world(*several(happening, 5)), PAUSE, settings=told(SURGES[0][0]), watched=6)
async def test_a_surge_counts_what_went_before_within_its_window_and_no_longer(here: Town) -> None:
    await change(here, "e1", "e2")
    assert booked(here) == 2
    await change(here, "e3")
    assert held(here) == {("waiting", "surge")}
    await change(here, "e4")
    assert held(here) == {("waiting", "surge")}, "later ones wait as well while it lasts"
    here.loop.jump(11 * MINUTE)
    await change(here, "e5")
    assert booked(here) == 3
    here.decide(approved)
    await here.until(lambda: booked(here) == 5, "let go")


# --- how much ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "sent", "reason"),
    [
        ("safety: {spend: {per_day: 1200, per_event: null}}", 2, "two of 500 fit into a day of 1200"),
        ("safety: {spend: {per_event: 499}}", 0, "no event may cost 500"),
    ],
)
@in_town(world(draft("e1"), draft("e2"), draft("e3")), BOOST_DRAFTS, settings=told)
async def test_spend_holds_the_budget_that_would_pass_the_limit(here: Town, sent: int, reason: str) -> None:
    await here.run(24)
    assert len(here.effects("boost")) == sent, reason
    assert held(here) == {("planned", "spend")}
    until = {write.held_until for write in here.writes() if write.held_by == "spend"}
    first = min((write.first_sent_at for write in here.writes() if write.first_sent_at), default=None)
    assert until == {first + timedelta(days=1) if first else None}


# --- how often -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "reason", "wait"),
    [
        ("cooldown: 2h", "cooldown", 2 * HOUR),
        ("cooldown: 3d", "cooldown", 72 * HOUR),
        ("limit: {per_event_per_day: 1}", "limit", 24 * HOUR),
    ],
)
@in_town(
    world(happening("e1"), happening("e2")),
    lambda key: f"{PAUSE}    {key}\n",
    settings=told("safety: {gap: {longer_than: 7d}}"),
    watched=6,
)
async def test_a_rule_that_acted_is_held_for_its_event_and_acts_in_time(here: Town, reason: str, wait: float) -> None:
    await change(here, "e1")
    assert booked(here) == 1
    sent_at = here.only.first_sent_at
    assert sent_at is not None
    await here.becomes("e1", 6, status="active", client_campaign_status="RUNNING")
    await change(here, "e1", "e2")
    assert [one.eid for one in here.effects()] == ["e1", "e2"], "it is the event that has to wait"
    record = here.log("held")[-1]
    until = (sent_at + timedelta(seconds=wait)).strftime("until %Y-%m-%dT%H:%M:%SZ")
    assert (record["reason"], record["event"]) == (reason, "e1")
    assert record["why"].endswith(until)
    here.loop.jump(wait - 2 * MINUTE)
    await here.run(6)
    assert booked(here) == 2, "not yet"
    here.loop.jump(2 * MINUTE)
    await here.until(lambda: booked(here) == 3, "held, not lost")


# --- silences ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("then", "states", "effects"), [("ask", {("waiting", "gap")}, 0), ("act", set(), 1), ("reobserve", set(), 0)]
)
@in_town(
    world(happening("e1"), happening("e2")),
    PAUSE,
    settings=lambda then: told(f"safety: {{gap: {{longer_than: 30m, then: {then}}}}}"),
    watched=45,
)
async def test_a_first_look_after_a_silence_does_as_the_config_says(
    here: Town, then: str, states: set[tuple[str, str]], effects: int
) -> None:
    here.set("e1", status="cancelled")
    await here.restart(31 * MINUTE)
    await here.run(15)
    assert held(here) == states
    assert booked(here) == effects
    if then == "reobserve":
        assert here.log("held")[-1]["reason"] == "gap"
    if then == "ask":
        here.decide(approved)
        await here.until(lambda: booked(here) == 1, "let go")


@in_town(world(happening("e1")), PAUSE, settings=told("safety: {gap: {longer_than: 30m}}"))
async def test_a_write_that_was_held_for_too_long_asks_before_it_goes_off_at_an_odd_hour(here: Town) -> None:
    here.halt()
    await here.run(6)
    await change(here, "e1")
    here.loop.jump(31 * MINUTE)
    await here.run(6)
    here.resume()
    await here.run(9)
    assert (held(here), booked(here)) == ({("waiting", "gap")}, 0)


# --- people --------------------------------------------------------------------------------------------------------

HALTS: list[tuple[PartnerId | None, RuleId | None, set[tuple[str, str]], str]] = [
    (None, None, set(), "everything"),
    (PARTNER, None, {(OTHER, "PAUSED"), (OTHER, "HIDDEN")}, "one partner"),
    (None, RuleId("pause-cancelled"), {(PARTNER, "HIDDEN"), (OTHER, "HIDDEN")}, "one rule"),
    (PARTNER, RuleId("pause-cancelled"), {(PARTNER, "HIDDEN"), (OTHER, "PAUSED"), (OTHER, "HIDDEN")}, "both"),
]


@pytest.mark.parametrize(("partner", "rule", "sent", "reason"), HALTS, ids=[one[3] for one in HALTS])
@in_town(
    world(happening("e1"), happening("e2"), more=(tenant(OTHER, happening("e1"), happening("e2")),)),
    PAUSE + "  - id: hide-archived\n    when: event.status == 'archived'\n    do: [{frontend_status: HIDDEN}]\n",
    settings=told("mode: live"),
    watched=6,
)
async def test_a_halt_holds_what_it_covers_until_its_time_is_over_and_nothing_else(
    here: Town, partner: PartnerId | None, rule: RuleId | None, sent: set[tuple[str, str]], reason: str
) -> None:
    until = here.clock.now() + timedelta(minutes=5)
    here.halt(partner=partner, rule=rule, until=until, because="looking")
    for one in (PARTNER, OTHER):
        here.set("e1", partner=one, status="cancelled")
        here.set("e2", partner=one, status="archived")
    await here.run(12)
    seen = {(one.partner, one.after) for one in here.effects() if one.operation != "set_last_updated_on_fe"}
    assert {one for one in seen if one[1] in ("PAUSED", "HIDDEN")} == sent, reason
    assert {(write.held_by, write.held_until) for write in here.writes() if write.held_by == "halt"} == {
        ("halt", until)
    }
    assert all("halted by ann: looking" in write.why for write in here.writes() if write.held_by == "halt")
    here.loop.jump(5 * MINUTE)
    await here.until(lambda: set(here.states()) == {"confirmed"}, "over by itself")


MODES = [
    ("mode: approve", PAUSE, ("waiting", "mode"), "the config asks"),
    ("mode: live", PAUSE + "    mode: approve\n", ("waiting", "mode"), "the rule asks, which is stricter"),
    ("mode: approve", PAUSE + "    mode: live\n", ("waiting", "mode"), "a rule cannot be laxer"),
    ("mode: shadow", PAUSE, ("shadowed", "mode"), "shadow decides and logs only"),
    ("mode: approve", PAUSE + "    mode: shadow\n", ("shadowed", "mode"), "one rule in shadow"),
    ("mode: shadow", PAUSE + "    mode: live\n", ("shadowed", "mode"), "nothing is laxer than shadow"),
]


@pytest.mark.parametrize(("config", "rules", "expected", "reason"), MODES, ids=[one[3] for one in MODES])
@in_town(world(happening("e1")), lambda rules: rules, settings=told, watched=6)
async def test_a_mode_sends_nothing_or_asks_a_person(here: Town, expected: tuple[str, str], reason: str) -> None:
    await change(here, "e1")
    assert (here.only.state, here.only.reason) == expected, reason
    assert booked(here) == 0
    if expected[0] == "waiting":
        here.decide(approved)
        await here.until(lambda: here.states() == ["confirmed"], "let go")
        (said,) = here.log("approved")
        assert (said["by"], said["write"], said["why"]) == ("ann", 1, "let go: looked")
