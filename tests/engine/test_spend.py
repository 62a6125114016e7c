"""The brake on money, with real drafts: what was compared is what is booked."""

from dataclasses import replace
from functools import partial

import pytest

from tests.builders import spending
from tests.worlds import BOOST_DRAFTS, QUICK, Town, draft, happening, in_town, several, world
from worker.engine.explaining import wanted_of
from worker.engine.operators import approved, rejected
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
    here.change("e1", setup={"goal": "ROAS", "total_budget": 900})
    here.resolve(here.only, applied=False)
    await here.until(lambda: here.states() == ["confirmed"], "boosted with 900")
    back = draft("e2", total_budget=500)
    here.change("e2", add=True, set=back.record, setup=back.setup)
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
@in_town(world(*published("e1", "e2", "e3", "e4")), lambda rules: rules, limits=lambda limits: limits)
async def test_a_raise_counts_with_what_it_adds(here: Town, sent: int) -> None:
    await here.run(60)
    assert len(here.effects("edit_cluster")) == sent, here.story()
    assert {one.held_by for one in here.writes() if not one.final} <= {"spend"}


@in_town(
    world(*published("e1", "e2")), raising("spend: {per_week: 25}"), deciding=replace(QUICK.deciding, gap_then="act")
)
async def test_the_week_is_remembered_over_a_restart_and_forgotten_after_seven_days(here: Town) -> None:
    await here.run(60)
    assert here.states() == ["confirmed", "planned"]
    await here.restart(6.9 * 24 * 3600)
    await here.run(150)
    assert here.states() == ["confirmed", "planned"], "and nobody is asked"
    await here.restart(0.1 * 24 * 3600)
    await here.run(150)
    assert here.states() == ["confirmed", "confirmed"], here.story()


COMPUTED = """
rules:
  - id: raise
    when: event.status == 'active' && setup.state == 'PUBLISHED'
    limit: {per_event_per_day: 1}
    spend: {per_day: 25}
    MODE
    do: [{edit_cluster: {tc: rock, tc_run_id: 1, budget: "=BUDGET"}}]
"""


def computed(head: str = "", budget: str = "campaigns[0]['budget'] * 1.2") -> str:
    return COMPUTED.replace("MODE", head).replace("BUDGET", budget)


@pytest.mark.parametrize("asked", [False, True])
@in_town(world(*published("e1", "e2")), lambda asked: computed("mode: approve" if asked else ""), watched=30)
async def test_what_was_held_for_long_is_computed_anew_and_asked_again(here: Town, asked: bool) -> None:
    """The second write is held for a day; meanwhile its campaign was given another budget."""
    if asked:
        here.decide(approved)
    await here.run(60)
    first, second = here.writes()
    assert (first.state, second.state, second.held_by) == ("confirmed", "planned", "spend"), here.story()
    event = second.key.event
    campaign = [{"tc": "rock", "tc_run_id": 1, "budget": 50}]
    here.change(event, campaigns=campaign)
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


SHARED = """
rules:
  - {id: a, when: event.capacity > 0.0, do: [{update_draft: {total_budget: 700}}]}
  - {id: b, when: event.status == 'active', do: [{update_draft: {total_budget: 700}}]}
"""


@in_town(world(draft("e1")), SHARED, limits=spending(per_day=100))
async def test_what_is_computed_anew_goes_by_no_text_of_a_rule_that_has_left_it(here: Town) -> None:
    await here.until(lambda: [one.held_by for one in here.writes()] == ["spend"], "200 more than there are")
    here.use(SHARED.replace("700", "580", 1))
    await here.run(9)
    await here.clock.sleep(2 * 3600)
    await here.run(150)
    assert (here.only.rules, here.only.held_by, here.effects()) == (("b",), "spend", [])
    assert here.only.intent.params["total_budget"] == 700.0


HOURLY = "  - {id: other, when: event.city == 'Berlin', do: [{optimisation: 'ON'}]}\n"


@in_town(
    world(*published("e1", "e2"), happening("e3", campaign_optimisation_status="OFF")),
    computed("mode: approve") + HOURLY,
    limits=replace(spending(), writes_per_hour=1),
    deciding=replace(QUICK.deciding, gap_then="act"),
    watched=30,
)
async def test_what_another_brake_holds_after_that_is_computed_anew_all_the_same(here: Town) -> None:
    """Approved, held by ``spend`` for a day, and then by ``writes_per_hour``: the approval of yesterday is over."""
    here.decide(approved)
    await here.run(60)
    await here.clock.sleep(3600)
    await here.run(150)
    second = here.writes()[1]
    assert (second.state, second.held_by) == ("planned", "spend"), here.story()
    await here.clock.sleep(23 * 3600 - 420)
    await here.becomes("e3", 360, city="Berlin")
    second = here.writes()[1]
    assert (second.state, second.held_by) == ("planned", "spend"), here.story()
    assert "writes_per_hour: 1 writes in the last hour" in second.why
    await here.clock.sleep(3600)
    await here.run(150)
    second = here.writes()[1]
    assert (second.state, second.reason, second.attempt) == ("waiting", "spend", 0), here.story()


@pytest.mark.parametrize("asked", [False, True])
@in_town(
    world(*(replace(one, defaults={"total_budget": 500, "goal": "ROAS"}) for one in published("e1", "e2"))),
    lambda asked: computed("mode: approve" if asked else "", "defaults.total_budget * 0.24"),
    watched=30,
)
async def test_what_cannot_be_computed_anew_is_held_and_goes_by_no_fact_of_yesterday(here: Town, asked: bool) -> None:
    """The fact that the value is computed from stands in no condition, and cannot be read when the day is over."""
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


@in_town(world(*published("e1", "e2")), computed(budget="ago(event.capacity, '10m') * 0.3"))
async def test_a_value_of_the_past_is_computed_anew_as_well(here: Town) -> None:
    await here.run(700)
    assert here.states() == ["confirmed", "planned"], here.story()
    await here.clock.sleep(24 * 3600)
    await here.run(800)
    assert here.states() == ["confirmed", "confirmed"], here.story()


@in_town(world(*published("e1", "e2")), computed().replace("do: [", "do: [{optimisation: 'OFF'}, {wait: 30s}, "))
async def test_a_step_after_a_wait_is_computed_anew_as_what_comes_after_it(here: Town) -> None:
    await here.run(180)
    states = [(one.intent.action, one.state) for one in here.writes()]
    assert states.count(("edit_cluster", "confirmed")) == states.count(("edit_cluster", "planned")) == 1, here.story()
    await here.clock.sleep(24 * 3600)
    await here.run(180)
    assert here.states() == ["confirmed"] * 6, here.story()


TWICE = """
rules:
  - id: raise-twice
    when: event.status == 'active'
    limit: {per_event_per_day: 1}
    do: [FIRST, SECOND]
"""
CLUSTERS = '{edit_cluster: {each: campaigns, budget: "=each.budget * BY"}}'
OF_DRAFT = '{update_draft: {total_budget: "=setup.total_budget * BY"}}'


@pytest.mark.parametrize("pause", ["", "{wait: 1m}, "], ids=["at once", "after a wait"])
@pytest.mark.parametrize(
    ("place", "step"),
    [(published("e1")[0], CLUSTERS), (draft("e1", total_budget=100), OF_DRAFT)],
    ids=["of a cluster", "of a draft"],
)
@in_town(
    lambda place: world(place, more=()),
    lambda step, pause: TWICE.replace("FIRST", step.replace("BY", "1.2")).replace(
        "SECOND", pause + step.replace("BY", "1.5")
    ),
    limits=spending(per_day=45),
)
async def test_a_second_step_is_computed_anew_from_what_was_there_before_the_first_as_well(here: Town) -> None:
    """It was computed from what the first step had made of it, and raised by four fifths what was to be by a half."""
    await here.run(180)
    assert here.writes()[-1].held_by == "spend", here.story()
    await here.clock.sleep(24 * 3600)
    await here.run(180)
    last = here.writes()[-1]
    assert last.state == "confirmed", here.story()
    assert 150.0 in last.intent.params.values()


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


@in_town(world(*several(happening, 4)), LIMITED.replace("do:", "mode: approve\n    do:"), watched=6)
async def test_the_limit_of_a_rule_counts_what_waits_to_be_sent(here: Town) -> None:
    for number in (1, 2, 3, 4):
        here.set(f"e{number}", status="cancelled")
        await here.run(6)
    assert here.states() == ["waiting"] * 3
    here.decide(rejected, here.writes()[0])
    await here.run(90)
    assert here.states() == ["cancelled", *["waiting"] * 3], "what was rejected makes room"


TWO_BUDGETS = replace(draft("e1"), setup={"goal": "ROAS", "total_budget": 500, "daily_budget": 50})


async def let_go_as_shown(here: Town) -> float | None:
    """Somebody approves what waits, by the amount that is shown."""
    amount = wanted_of(here.ledger, here.only).amount
    here.decide(partial(approved, amount=amount))
    await here.run(30)
    return amount


@in_town(world(TWO_BUDGETS), BOOST_DRAFTS, deciding=replace(QUICK.deciding, mode="approve"))
async def test_who_approves_a_boost_is_shown_all_the_money_of_the_draft_and_is_asked_once(here: Town) -> None:
    await here.until(lambda: here.states() == ["waiting"], "it waits")
    assert wanted_of(here.ledger, here.only).spends == "spends 550 EUR"
    assert await let_go_as_shown(here) == 550
    assert here.states() == ["confirmed"], here.story()


@in_town(world(draft("e1")), BOOST_DRAFTS, deciding=replace(QUICK.deciding, mode="approve"))
async def test_who_approves_a_boost_that_never_left_is_shown_the_draft_as_it_is_by_now(here: Town) -> None:
    await here.until(lambda: here.states() == ["waiting"], "it waits")
    here.fault("no_connection", "POST", "/boost$", times=1)
    here.decide(partial(approved, amount=500))
    await here.until(lambda: here.only.uncounted == 1, "it did not leave")
    here.change("e1", setup={"goal": "ROAS", "total_budget": 900})
    await here.until(lambda: here.states() == ["waiting"], "it would spend more by now")
    assert here.only.reason == "moved"
    assert await let_go_as_shown(here) == 900
    assert here.states() == ["confirmed"], here.story()


BY_TITLE = computed(budget="120").replace("tc: rock", 'tc: "=event.title"')


@in_town(world(*(replace(one, record={**one.record, "title": "rock"}) for one in published("e1", "e2"))), BY_TITLE)
async def test_what_would_be_for_another_cluster_by_now_is_refused(here: Town) -> None:
    await here.run(60)
    assert here.states() == ["confirmed", "planned"], here.story()
    here.set(here.writes()[1].key.event, title="jazz")
    await here.clock.sleep(24 * 3600)
    await here.run(150)
    second = here.writes()[1]
    assert (second.state, second.reason, second.attempt) == ("refused", "gone", 0), here.story()
