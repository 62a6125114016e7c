"""A pause is never held up by an unknown run, and has the last word whatever becomes of that run."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.worlds import PARTNER, Town, draft, happening, in_town, world
from worker.sandbox.world import Happening


def with_clusters(event: Happening, *tcs: str) -> Happening:
    """The event, with clusters that a boost starts campaigns for."""
    return replace(event, tc_run_id=7, clusters=tuple({"tc": tc, "tc_run_id": 7} for tc in tcs))


RULES = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled'
    priority: 10
    do: [pause]
  - id: run-flagged
    when: event.frontend_status == 'FLAGGED' && event.status == 'active'
    do: [run]
"""


@pytest.mark.parametrize("late_s", [4.0, 9.0, 17.0])
@in_town(world(happening("e1", client_campaign_status="PAUSED")), RULES)
async def test_a_late_run_that_lands_after_the_pause_is_paused_again(here: Town, late_s: float) -> None:
    await here.run(6)
    here.fault("late_effect", "PUT", "/client_campaign_status$", status=429, after_s=late_s)
    here.set("e1", frontend_status="FLAGGED")
    await here.until(lambda: here.states() == ["unknown"], "the run is unknown")
    here.set("e1", status="cancelled")
    await here.run(120)
    values = [one.after for one in here.effects()]
    assert values[-1] in ("PAUSED", {"client_campaign_status": "PAUSED"}), here.story()
    assert {write.state for write in here.writes()} <= {"confirmed", "skipped"}, here.story()


BOOSTED = """
rules:
  - {id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}
  - {id: boost-drafts, when: "event.status == 'active' && setup.state == 'DRAFT'", do: [boost]}
"""


@pytest.mark.parametrize(
    ("before", "held"), [(None, ["target_busy"]), ("PAUSED", ["target_busy"]), ("RUNNING", [])], ids=str
)
@in_town(world(draft("e1")), BOOSTED)
async def test_a_late_boost_runs_no_campaign_of_a_cancelled_event(
    here: Town, before: str | None, held: list[str]
) -> None:
    """A boost runs the event's campaigns: while one may still land, nothing is paused already, nor for good."""
    here.set("e1", client_campaign_status=before)
    here.fault("late_effect", "POST", "/boost$", status=429, after_s=15.0)
    await here.until(lambda: here.states() == ["unknown"], "the boost is unknown")
    here.set("e1", status="cancelled")
    await here.run(120)
    record = here.twin.world.at(PARTNER, "e1")
    assert record is not None
    assert record.record["client_campaign_status"] == "PAUSED", here.story()
    assert here.states() == ["confirmed", "confirmed"], here.story()
    assert [one["reason"] for one in here.log("held")] == held, here.story()
    assert len(here.effects("boost")) == 1
    if held:
        landed, paused = here.log("confirmed")[0], here.log("sending")[1]
        assert seconds_between(landed, paused) <= here.settings.interval.total_seconds(), "it goes at once"


BOOSTED_BESIDE = """
rules:
  - {id: boost-drafts, when: "event.status == 'active' && setup.state == 'DRAFT'", do: [boost]}
  - id: start-jazz
    when: event.frontend_status == 'FLAGGED'
    do: [{create_campaign: {tc: jazz, tc_run_id: 7}}]
"""


@in_town(world(with_clusters(draft("e1"), "jazz")), BOOSTED_BESIDE)
async def test_no_campaign_is_created_beside_a_boost_that_may_still_start_it(here: Town) -> None:
    """What a boost publishes starts a campaign for each cluster; one that is created beside it is a second one."""
    here.fault("late_effect", "POST", "/boost$", status=429, after_s=15.0)
    await here.until(lambda: here.states() == ["unknown"], "the boost is unknown")
    here.set("e1", frontend_status="FLAGGED")
    await here.run(120)
    record = here.twin.world.at(PARTNER, "e1")
    assert record is not None
    assert [one["tc"] for one in record.campaigns] == ["jazz"], here.story()
    assert here.states() == ["confirmed", "skipped"], here.story()
    assert [one["reason"] for one in here.log("held")] == ["target_busy"], here.story()


def seconds_between(first: dict[str, Any], then: dict[str, Any]) -> float:
    return (datetime.fromisoformat(then["at"]) - datetime.fromisoformat(first["at"])).total_seconds()


@in_town(world(happening("e1", client_campaign_status="PAUSED")), RULES)
async def test_a_pause_that_a_late_run_held_goes_within_an_interval_after_that_run_is_confirmed(here: Town) -> None:
    await here.run(6)
    here.fault("late_effect", "PUT", "/client_campaign_status$", status=429, after_s=17.0)
    here.set("e1", frontend_status="FLAGGED")
    await here.until(lambda: here.states() == ["unknown"], "the run is unknown")
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed", "confirmed"], "the pause came after the run")
    assert [one["reason"] for one in here.log("held")] == ["target_busy"], here.story()
    landed, paused = here.log("confirmed")[0], here.log("sending")[1]
    assert seconds_between(landed, paused) <= here.settings.interval.total_seconds(), here.story()


@in_town(world(happening("e1", client_campaign_status="PAUSED")), RULES, ask=True, settle=timedelta(minutes=2))
async def test_a_pause_that_an_unknown_run_held_goes_on_within_an_interval_after_a_person_settled_that(
    here: Town,
) -> None:
    await here.run(6)
    here.fault("answer_before", "PUT", "/client_campaign_status$", status=500)
    here.set("e1", frontend_status="FLAGGED")
    await here.until(lambda: here.states() == ["needs_human"], "a person is asked for the run")
    here.set("e1", status="cancelled")
    await here.until(lambda: len(here.log("held")) == 1, "the pause is held")
    await here.run(9)
    here.resolve(here.writes()[0], applied=True)
    await here.until(lambda: here.states() == ["confirmed", "skipped"], "it is paused already", 30)
    settled, skipped = here.log("confirmed")[0], here.log("skipped")[0]
    assert seconds_between(settled, skipped) <= here.settings.interval.total_seconds(), here.story()


@in_town(world(happening("e1", client_campaign_status="PAUSED")), RULES.replace(" && event.status == 'active'", ""))
async def test_an_attempt_that_a_person_grants_waits_while_a_stronger_wish_stands(here: Town) -> None:
    """Found by the simulation: scene "stop overtakes", its first write with "hang after"."""
    await here.run(6)
    here.fault("hang_after", "PUT", "/client_campaign_status$")
    here.set("e1", frontend_status="FLAGGED")
    await here.until(lambda: here.states() == ["sending"], "the run is under way")
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states()[:1] == ["needs_human"], "a person is asked for the run")
    run = here.writes()[0]
    assert run.key.partner == PARTNER
    here.resolve(run, applied=False)
    await here.run(30)
    assert here.states() == ["planned", "confirmed"], here.story()
    assert here.writes()[0].held_by == "conflict"
    here.set("e1", status="active")
    await here.until(lambda: here.states()[0] == "confirmed", "the run may act once the other ends")
