"""The brake on money, with real drafts: what was compared is what is booked."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders import spending
from tests.worlds import BOOST_DRAFTS, PARTNER, QUICK, Town, draft, happening, in_town, plays, world
from worker.engine.operators import approved, rejected
from worker.guards import Limits
from worker.sandbox.changes import EventChange
from worker.sandbox.world import Happening

CREATE_AND_BOOST = """
rules:
  - id: set-up
    when: event.status == 'active' && setup.state == 'NONE'
    do: [{create_draft: {goal: ROAS, total_budget: 500}}, boost]
"""


@in_town(world(draft("e1")), BOOST_DRAFTS, limits=spending(per_day=1300.0), ask=True)
async def test_a_boost_after_not_applied_is_booked_with_the_budget_that_it_commits(here: Town) -> None:
    here.fault("answer_before", "POST", "/boost$", status=500)
    await here.until(lambda: here.states() == ["needs_human"], "asked")
    parts = {"setup": {"goal": "ROAS", "total_budget": 900}}
    here.twin.change(EventChange(event="e1", partner=PARTNER, **parts), here.loop.time())
    here.resolve(here.only, applied=False)
    await here.until(lambda: here.states() == ["confirmed"], "boosted with 900")
    back = draft("e2", total_budget=500)
    new = EventChange(event="e2", partner=PARTNER, add=True, set=back.record, setup=back.setup)
    here.twin.change(new, here.loop.time())
    await here.run(30)
    second = here.writes()[1]
    assert (second.key.event, second.state, second.held_by) == ("e2", "planned", "spend"), here.story()
    assert "900 sent in 24 hours; with 500 it would be 1400" in second.why


@in_town(world(happening("e1")), CREATE_AND_BOOST, limits=spending(per_event=500.0))
async def test_a_draft_and_its_boost_in_one_do_are_one_budget(here: Town) -> None:
    await here.until(lambda: here.states() == ["confirmed", "confirmed"], "created and published", limit=120)
    assert len(here.effects("boost")) == 1


def published(*events: str, budget: float = 100) -> tuple[Happening, ...]:
    """Published setups with one campaign each."""
    setup = {"goal": "ROAS", "total_budget": 500}
    campaign = {"tc": "rock", "tc_run_id": 1, "budget": budget}
    return tuple(replace(happening(eid), setup=setup, published=True, campaigns=(campaign,)) for eid in events)


RAISE = """
rules:
  - id: raise
    when: event.status == 'active' && setup.state == 'PUBLISHED'
    SPEND
    do: [{edit_cluster: {tc: rock, tc_run_id: 1, budget: 120}}]
"""


def raising(spend: str = "") -> str:
    return RAISE.replace("    SPEND\n", f"    {spend}\n" if spend else "")


@pytest.mark.parametrize(
    ("rules", "limits", "sent"),
    [
        (raising(), spending(per_day=45), 2),
        (raising(), spending(per_week=65), 3),
        (raising(), spending(per_event=19), 0),
        (raising("spend: {per_day: 25}"), spending(), 1),
        (raising("spend: {per_week: 25}"), spending(per_day=1000), 1),
        (raising("spend: {per_event: 20}"), spending(), 4),
    ],
)
def test_a_raise_counts_with_what_it_adds(tmp_path: Path, rules: str, limits: Limits, sent: int) -> None:
    async def script(here: Town) -> None:
        await here.run(60)
        assert len(here.effects("edit_cluster")) == sent, here.story()
        assert {one.held_by for one in here.writes() if not one.final} <= {"spend"}

    plays(script, tmp_path, world(*published("e1", "e2", "e3", "e4")), rules, limits=limits)


@in_town(
    world(*published("e1", "e2")), raising("spend: {per_week: 25}"), deciding=replace(QUICK.deciding, gap_then="act")
)
async def test_the_week_is_remembered_over_a_restart_and_forgotten_after_seven_days(here: Town) -> None:
    await here.run(60)
    assert here.states() == ["confirmed", "planned"]
    await here.kill()
    await here.clock.sleep(6.9 * 24 * 3600)
    here.start()
    await here.run(150)
    assert here.states() == ["confirmed", "planned"], "and nobody is asked"
    await here.kill()
    await here.clock.sleep(0.1 * 24 * 3600)
    here.start()
    await here.run(150)
    assert here.states() == ["confirmed", "confirmed"], here.story()


COMPUTED = """
rules:
  - id: raise
    when: event.status == 'active' && setup.state == 'PUBLISHED'
    limit: {per_event_per_day: 1}
    MODE
    spend: {per_day: 25}
    do: [{edit_cluster: {tc: rock, tc_run_id: 1, budget: "=campaigns[0]['budget'] * 1.2"}}]
"""


@pytest.mark.parametrize("asked", [False, True])
def test_what_was_held_for_long_is_computed_anew_and_asked_again(tmp_path: Path, asked: bool) -> None:
    """The second write is held for a day; meanwhile its campaign was given another budget."""

    async def script(here: Town) -> None:
        await here.run(30)
        if asked:
            here.decide(approved)
        await here.run(60)
        first, second = here.writes()
        assert (first.state, second.state, second.held_by) == ("confirmed", "planned", "spend"), here.story()
        event = second.key.event
        campaign = [{"tc": "rock", "tc_run_id": 1, "budget": 50}]
        here.twin.change(EventChange(event=event, partner=PARTNER, campaigns=campaign), here.loop.time())
        await here.clock.sleep(24 * 3600)
        await here.run(150)
        second = here.writes()[1]
        if asked:
            assert (second.state, second.reason, second.approved) == ("waiting", "spend", False), here.story()
            here.decide(approved)
            await here.run(60)
            second = here.writes()[1]
        assert second.state == "confirmed", here.story()
        assert second.intent.params["budget"] == 60.0

    rules = COMPUTED.replace("    MODE\n", "    mode: approve\n" if asked else "")
    plays(script, tmp_path, world(*published("e1", "e2")), rules)


def test_what_another_brake_holds_after_that_is_computed_anew_all_the_same(tmp_path: Path) -> None:
    """Approved, held by ``spend`` for a day, and then by ``writes_per_hour``: the approval of yesterday is over."""

    async def script(here: Town) -> None:
        await here.run(30)
        here.decide(approved)
        await here.run(60)
        await here.clock.sleep(3600)
        await here.run(150)
        second = here.writes()[1]
        assert (second.state, second.held_by) == ("planned", "spend"), here.story()
        await here.clock.sleep(23 * 3600 - 420)
        here.set("e3", city="Berlin")
        await here.run(360)
        second = here.writes()[1]
        assert (second.state, second.held_by) == ("planned", "spend"), here.story()
        assert "writes_per_hour: 1 writes in the last hour" in second.why
        await here.clock.sleep(3600)
        await here.run(150)
        second = here.writes()[1]
        assert (second.state, second.reason, second.attempt) == ("waiting", "spend", 0), here.story()

    hourly = """  - id: other
    when: event.city == 'Berlin'
    do: [{optimisation: 'ON'}]
"""
    rules = COMPUTED.replace("    MODE\n", "    mode: approve\n") + hourly
    other = happening("e3", campaign_optimisation_status="OFF")
    limits, gap = replace(spending(), writes_per_hour=1), replace(QUICK.deciding, gap_then="act")
    plays(script, tmp_path, world(*published("e1", "e2"), other), rules, limits=limits, deciding=gap)


@pytest.mark.parametrize("asked", [False, True])
def test_what_cannot_be_computed_anew_is_held_and_goes_by_no_fact_of_yesterday(tmp_path: Path, asked: bool) -> None:
    """The fact that the value is computed from stands in no condition, and cannot be read when the day is over."""

    async def script(here: Town) -> None:
        await here.run(30)
        if asked:
            here.decide(approved)
        await here.run(60)
        second = here.writes()[1]
        assert (second.state, second.held_by) == ("planned", "spend"), here.story()
        here.fault("answer_before", "GET", "/default_campaigns_parameters$", status=500, times=40)
        await here.clock.sleep(24 * 3600)
        await here.run(30)
        second = here.writes()[1]
        assert (second.state, second.held_by, second.attempt) == ("planned", "spend", 0), here.story()
        assert "fact_unknown" in second.why
        await here.until(lambda: here.writes()[1].state == ("waiting" if asked else "confirmed"), "read again")

    rules = COMPUTED.replace("    MODE\n", "    mode: approve\n" if asked else "")
    rules = rules.replace("campaigns[0]['budget'] * 1.2", "defaults.total_budget * 0.24")
    events = [replace(one, defaults={"total_budget": 500, "goal": "ROAS"}) for one in published("e1", "e2")]
    plays(script, tmp_path, world(*events), rules)


AGO = COMPUTED.replace("campaigns[0]['budget'] * 1.2", "ago(event.capacity, '10m') * 0.3").replace("    MODE\n", "")


@in_town(world(*published("e1", "e2")), AGO)
async def test_a_value_of_the_past_is_computed_anew_as_well(here: Town) -> None:
    await here.run(700)
    assert here.states() == ["confirmed", "planned"], here.story()
    await here.clock.sleep(24 * 3600)
    await here.run(800)
    assert here.states() == ["confirmed", "confirmed"], here.story()


@in_town(
    world(*published("e1", "e2")),
    COMPUTED.replace("    MODE\n", "").replace("do: [", "do: [{optimisation: 'OFF'}, {wait: 30s}, "),
)
async def test_a_step_after_a_wait_is_computed_anew_as_what_comes_after_it(here: Town) -> None:
    await here.run(180)
    states = [(one.intent.action, one.state) for one in here.writes()]
    assert states.count(("edit_cluster", "confirmed")) == states.count(("edit_cluster", "planned")) == 1, here.story()
    await here.clock.sleep(24 * 3600)
    await here.run(180)
    assert here.states() == ["confirmed"] * 6, here.story()


@in_town(world(*published("e1", "e2")), raising(), limits=spending(per_day=25), ask=True)
async def test_what_a_person_took_for_not_applied_counts_again_once_it_is_seen_there(here: Town) -> None:
    """The effect lands after the verdict; the pre-flight of the next attempt finds it, and sends nothing."""
    here.fault("late_effect", "POST", "campaigns_setup$", after_s=25, status=500)
    await here.run(30)
    assert here.states() == ["needs_human", "planned"], here.story()
    here.resolve(here.writes()[0], applied=False)
    await here.run(240)
    first, second = here.writes()
    assert (first.state, first.attempt) == ("confirmed", 1), here.story()
    assert (second.state, second.held_by) == ("planned", "spend"), here.story()
    assert len(here.effects("edit_cluster")) == 1


LIMITED = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled'
    limit: {per_rule_per_day: 3}
    do: [pause]
"""


@in_town(
    world(*(happening(f"e{number}") for number in range(1, 7))),
    LIMITED,
    deciding=replace(QUICK.deciding, gap_then="act"),
)
async def test_a_rule_acts_for_no_more_events_a_day_than_its_limit(here: Town) -> None:
    """Of all its events, also those of one poll; over a restart; and the others are held, not lost."""
    await here.run(6)
    for number in (1, 2, 3, 4, 5):
        here.set(f"e{number}", status="cancelled")
    await here.run(30)
    assert here.states() == ["confirmed"] * 3, here.story()
    held = [one for one in here.log("held") if one["reason"] == "limit"]
    assert {one["event"] for one in held} == {"e4", "e5"}
    await here.kill()
    await here.clock.sleep(23 * 3600)
    here.start()
    here.set("e6", status="cancelled")
    await here.run(150)
    assert len(here.writes()) == 3
    await here.clock.sleep(3600)
    await here.run(150)
    assert here.states() == ["confirmed"] * 6


@in_town(world(*(happening(f"e{number}") for number in range(1, 5))), LIMITED.replace("do:", "mode: approve\n    do:"))
async def test_the_limit_of_a_rule_counts_what_waits_to_be_sent(here: Town) -> None:
    await here.run(6)
    for number in (1, 2, 3, 4):
        here.set(f"e{number}", status="cancelled")
        await here.run(6)
    assert here.states() == ["waiting"] * 3
    here.decide(rejected, here.writes()[0])
    await here.run(90)
    assert here.states() == ["cancelled", *["waiting"] * 3], "what was rejected makes room"
