"""A wait between two steps: as long as it says, over restarts, and then only if the condition still holds."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.test_undo import undo
from tests.worlds import CAMPAIGN, PARTNER, QUICK, Town, draft, happening, in_town, rules_of, several, world
from worker.engine.operators import approved, rejected
from worker.model.rules import Surge

HOUR, DAY = 3600.0, 86400.0
REST = """
rules:
  - id: rest-for-two-days
    when: event.status == 'active' && event.client_campaign_status == 'RUNNING' && event.category == 'tired'
    do:
      - pause
      - wait: 2d
      - run
      - notify: it runs again
"""


async def sleeps(here: Town, seconds: float) -> None:
    await here.kill()
    await here.clock.sleep(seconds)
    here.start()


@in_town(world(happening("e1", category="tired")), REST)
async def test_the_next_step_comes_when_the_wait_is_over_and_not_before_over_restarts(here: Town) -> None:
    await here.run(30)
    assert [(one.intent.action, one.state, one.held_by) for one in here.writes()] == [
        ("pause", "confirmed", None),
        ("wait", "planned", "wait"),
    ]
    pause, wait = here.writes()
    assert wait.held_until == pause.changed_at + timedelta(days=2)
    await sleeps(here, 1.9 * DAY)
    await here.run(150)
    assert len(here.effects("set_client_campaign_status")) == 1
    await sleeps(here, 0.1 * DAY)
    await here.run(150)
    assert [(one.intent.action, one.state) for one in here.writes()] == [
        ("pause", "confirmed"),
        ("wait", "confirmed"),
        ("run", "confirmed"),
        ("notify", "confirmed"),
    ]
    assert here.texts == ["it runs again"]
    assert len(here.log("fired")) == 1


@pytest.mark.parametrize(("then", "ends"), [("ask", "waiting"), ("reobserve", "waiting"), ("act", "confirmed")])
@in_town(
    world(happening("e1", category="tired")),
    REST,
    deciding=lambda then: replace(QUICK.deciding, gap_then=then),
    watched=30,
)
async def test_what_comes_after_a_wait_that_was_over_long_ago_asks_as_a_firing_does(here: Town, ends: str) -> None:
    """Nobody looked for days after the wait had ended: what it runs now would be run at an odd hour."""
    await sleeps(here, 5 * DAY)
    await here.run(60)
    run, told = here.writes()[2:]
    assert (run.intent.action, run.state) == ("run", ends), here.story()
    if ends == "waiting":
        assert (run.reason, told.state) == ("gap", "planned"), here.story()
        here.decide(approved)
        await here.run(60)
    assert here.states() == ["confirmed"] * 4, here.story()


@in_town(world(happening("e1", category="tired")), REST.replace("2d", "10m"))
async def test_what_comes_after_a_wait_that_ended_while_its_rule_was_disabled_asks_as_a_firing_does(here: Town) -> None:
    rules = REST.replace("2d", "10m")
    await here.run(30)
    here.use(rules.replace("do:", "enabled: false\n    do:"))
    await here.run(900)
    assert here.states() == ["confirmed", "planned"]
    here.use(rules)
    await here.run(60)
    run = here.writes()[2]
    assert (run.intent.action, run.state, run.reason) == ("run", "waiting", "gap"), here.story()
    here.decide(approved)
    await here.run(60)
    assert here.campaigns() == ["PAUSED", "RUNNING"]


HIDE = """
rules:
  - id: hide-for-a-day
    when: event.frontend_status == 'DEFAULT'
    do: [{frontend_status: HIDDEN}, {wait: 1d}, {frontend_status: DEFAULT}]
"""


@pytest.mark.parametrize(("by_hand", "then"), [(None, "planned"), ("FLAGGED", "skipped")])
@in_town(world(happening("e1")), HIDE, watched=60)
async def test_what_the_rule_has_set_counts_as_before_while_it_stands(
    here: Town, by_hand: str | None, then: str
) -> None:
    if by_hand:
        here.set("e1", by="person", frontend_status=by_hand)
    await here.run(30)
    (wait,) = [one for one in here.writes() if one.intent.action == "wait"]
    assert wait.state == then
    if not by_hand:
        await sleeps(here, DAY)
        await here.run(60)
        assert [one.state for one in here.writes()] == ["confirmed"] * 5


@in_town(world(happening("e1", category="tired")), REST.replace("do:", "mode: approve\n    do:"), watched=9)
async def test_an_approval_is_for_what_is_planned_and_the_wait_asks_nobody(here: Town) -> None:
    for _ in range(2):
        assert [(one.intent.action, one.state) for one in here.writes()] == [("pause", "waiting"), ("wait", "planned")]
        await here.clock.sleep(2 * HOUR)
        await here.run(9)
    here.decide(approved)
    await here.run(60)
    await sleeps(here, 2 * DAY)
    await here.run(60)
    assert [(one.intent.action, one.state) for one in here.writes()] == [
        ("pause", "confirmed"),
        ("wait", "confirmed"),
        ("run", "waiting"),
        ("notify", "waiting"),
    ]


NEWER = """
rules:
  - id: after-a-change
    on_change: {fact: event, by: [capacity]}
    when: size([previous.event.capacity]) == 1
    do: [{wait: 1h}, pause, {wait: 1h}, run]
"""


@in_town(world(happening("e1")), NEWER, deciding=replace(QUICK.deciding, gap_then="act"), watched=9)
async def test_a_newer_firing_ends_the_wait_and_begins_at_the_first_step(here: Town) -> None:
    await here.becomes("e1", 9, capacity=500)
    await here.becomes("e1", 9, capacity=600)
    assert [(one.intent.action, one.key.episode, one.state, one.reason) for one in here.writes()] == [
        ("wait", 1, "skipped", "superseded"),
        ("wait", 2, "planned", "change"),
    ]
    await sleeps(here, 0.99 * HOUR)
    await here.run(120)
    assert [one.intent.action for one in here.writes()][2:] == ["pause", "wait"]
    await sleeps(here, 0.99 * HOUR)
    await here.run(120)
    assert here.writes()[-1].intent.action == "run"
    assert here.states()[1:] == ["confirmed"] * 4


HELD = """
rules:
  - id: rest
    WHEN
    when: event.status == 'active'
    HOLDS
    do: [pause, {wait: 12m}, run]
"""
AT, CHANGE = 'at: "*/5 * * * *"', "on_change: {fact: event, by: capacity}"


@pytest.mark.parametrize("when", [AT, CHANGE], ids=["at its next times", "a newer change"])
@pytest.mark.parametrize("holds", ["limit: {per_event_per_day: 1}", "limit: {per_rule_per_day: 1}", "cooldown: 2h"])
@in_town(world(happening("e1")), lambda when, holds: HELD.replace("WHEN", when).replace("HOLDS", holds), watched=6)
async def test_a_wait_goes_on_while_a_key_of_its_rule_holds_the_next_firing(here: Town, holds: str) -> None:
    """What comes after it never came for a rule with `at`, and for a change not before the key let the next one go."""
    await here.becomes("e1", 300, capacity=500)
    await here.becomes("e1", 660, capacity=600)
    assert here.campaigns() == ["PAUSED", "RUNNING"], here.story()
    assert [one["reason"] for one in here.log("held") if not one["write"]] == [holds.partition(":")[0]], "said once"


TWO_A_DAY = """
rules:
  - id: rest-a-moment
    when: event.frontend_status == 'FLAGGED'
    limit: {per_rule_per_day: 2}
    do: [{optimisation: "OFF"}, {wait: 30s}, {ad_optimisation: "OFF"}]
"""


@in_town(world(happening("e1"), happening("e2")), TWO_A_DAY)
async def test_what_comes_after_a_wait_is_no_firing_more_for_a_limit(here: Town) -> None:
    here.set("e1", frontend_status="FLAGGED")
    await here.until(lambda: any(one.over for one in here.writes()), "its wait is over")
    await here.becomes("e2", 3, frontend_status="FLAGGED")
    assert [one["event"] for one in here.log("fired")] == ["e1", "e2"]
    assert [one for one in here.log("held") if one["reason"] == "limit"] == []


COSTLY = """
rules:
  - id: rest-while-small
    when: event.client_campaign_status == 'RUNNING' && size(clusters) < 2
    do: [pause, {wait: 2d}, run]
"""


@pytest.mark.parametrize("grown", [False, True])
@in_town(world(replace(happening("e1"), clusters=({"tc": "a", "tc_run_id": 1},))), COSTLY, watched=30)
async def test_facts_that_nobody_reads_while_it_waits_are_read_when_it_is_over(here: Town, grown: bool) -> None:
    """After the pause the rest of the condition is false, so that its costly part is not looked at any more."""
    await sleeps(here, 2 * DAY)
    if grown:
        clusters = [{"tc": "a", "tc_run_id": 1}, {"tc": "b", "tc_run_id": 1}]
        here.change("e1", clusters=clusters)
    await here.run(90)
    assert here.states() == (["confirmed", "skipped"] if grown else ["confirmed"] * 3)


@in_town(
    world(*(happening(f"e{number}") for number in range(12))),
    REST,
    deciding=replace(QUICK.deciding, surge=Surge(events=4, within=timedelta(minutes=4))),
    requests_per_minute=60,
)
async def test_steps_after_waits_that_end_together_are_counted_for_a_surge(here: Town) -> None:
    """The waits of twelve events end while the worker is down; a few at each look are seen to be over."""
    for number in range(12):
        here.set(f"e{number}", category="tired")
        await here.run(30)
        await here.clock.sleep(60)
    assert len(here.effects("set_client_campaign_status")) == 12, here.story()
    await sleeps(here, 2 * DAY)
    await here.run(300)
    runs = [one for one in here.writes() if one.intent.action == "run"]
    assert sum(one.sent for one in runs) <= 4, here.story()
    assert {(one.state, one.reason) for one in runs if not one.sent} == {("waiting", "surge")}


@in_town(world(*several(happening, 8)), REST + "    surge: {events: 3, within: 30m}\n")
async def test_in_a_surge_a_wait_of_before_asks_nobody(here: Town) -> None:
    for number in range(1, 9):
        here.set(f"e{number}", category="tired")
        await here.run(30 if number == 1 else 0)
    await here.run(9)
    assert {one.state for one in here.writes() if one.intent.action == "wait"} == {"planned"}
    assert [one.state for one in here.writes() if one.intent.action == "pause"] == ["confirmed", *["waiting"] * 7]


ESCALATE = """
rules:
  - id: escalate
    when: event.client_campaign_status == 'RUNNING' && event.category == 'hidden'
    do: [{notify: {text: it is hidden, remind: 1m}}, pause, {wait: 3m}, run]
"""


@in_town(world(happening("e1")), ESCALATE, watched=6)
async def test_a_message_that_is_said_again_is_no_step_that_others_wait_for(here: Town) -> None:
    """The wait began anew with each."""
    await here.becomes("e1", 30, category="hidden")
    await here.run(240)
    assert here.campaigns() == ["PAUSED", "RUNNING"], here.story()


LAUNCH = """
rules:
  - id: launch
    when: setup.state == 'DRAFT' && event.client_campaign_status == 'STATUS'
    do: [boost, {wait: 10m}, {ad_optimisation: "OFF"}]
"""


@in_town(world(draft("e1", client_campaign_status="PAUSED")), LAUNCH.replace("STATUS", "PAUSED"))
async def test_what_a_boost_brings_along_ends_no_sequence_of_its_own(here: Town) -> None:
    await here.until(lambda: here.states() == ["confirmed"] * 3, "a boost runs the campaigns: that was its own doing")


@in_town(world(draft("e1")), LAUNCH.replace("STATUS", "RUNNING"))
async def test_what_a_person_takes_back_of_what_a_boost_brings_along_ends_the_wait_after_it(here: Town) -> None:
    await here.until(lambda: "confirmed" in here.states(), "boosted")
    await here.becomes("e1", 1200, by="person", client_campaign_status="PAUSED")
    assert [one.state for one in here.writes() if one.intent.action != "boost"] == ["skipped"], here.story()
    assert here.effects("set_ad_campaign_optimisation_status") == []


def of_clusters(*steps: str) -> str:
    head = "rules:\n  - id: more\n    cooldown: 1h\n    when: event.frontend_status == 'FLAGGED'\n    do:\n"
    return head + "".join(f"      - {step}\n" for step in steps)


ROCK = {"tc": "rock", "tc_run_id": 7, "budget": 100}
ON_ROCK = replace(draft("e1"), published=True, tc_run_id=7, campaigns=(ROCK,))
DRAFT = 'update_draft: {total_budget: "=setup.total_budget * 1.2"}'
CREATE = "create_campaign: {tc: jazz, tc_run_id: 7}"
EACH = "edit_cluster: {each: campaigns, budget: 50}"
RAISE = 'edit_cluster: {each: campaigns, budget: "=each.budget * 1.2"}'


@pytest.mark.parametrize(
    ("place", "before", "after", "by_hand", "ends"),
    [
        (ON_ROCK, CREATE, EACH, {}, {"rock": 50, "jazz": 50}),
        (ON_ROCK, RAISE, RAISE, {}, {"rock": 120}),
        (ON_ROCK, RAISE, RAISE.replace("1.2", "1.5"), {}, {"rock": 150}),
        (ON_ROCK, RAISE, RAISE, {"campaigns": [{**ROCK, "budget": 200}]}, {"rock": 240}),
        (draft("e1"), DRAFT, DRAFT.replace("1.2", "1.5"), {}, 750),
        (draft("e1"), DRAFT, DRAFT.replace("1.2", "1.5"), {"setup": {"total_budget": 700}}, 1050),
    ],
)
@in_town(lambda place: world(place, more=()), lambda before, after: of_clusters(before, "wait: 10m", after), watched=6)
async def test_what_comes_after_a_wait_is_computed_from_what_is_there_then_but_for_what_a_step_has_set(
    here: Town, by_hand: dict[str, Any], ends: dict[str, float] | float
) -> None:
    here.set("e1", frontend_status="FLAGGED")
    await here.until(lambda: "confirmed" in here.states(), "the first step")
    if by_hand:
        here.change("e1", **by_hand)
    await here.run(900)
    event = here.event()
    budgets = {one["tc"]: one.get("budget") for one in event.campaigns}
    assert (budgets or (event.setup or {})["total_budget"]) == ends, here.story()


@pytest.mark.parametrize("between", ["wait: 10m", "frontend_status: FLAGGED"])
@in_town(world(ON_ROCK))
async def test_what_an_undo_has_put_back_no_later_step_of_the_firing_sets_again(here: Town, between: str) -> None:
    first, then = (f"edit_cluster: {{tc: rock, tc_run_id: 7, budget: {budget}}}" for budget in (120, 150))
    here.use(of_clusters(first, between, then, "pause"))
    await here.run(6)
    here.set("e1", frontend_status="FLAGGED")
    await here.until(lambda: here.states()[:1] == ["confirmed"], "the first step")
    undo(here, 1)
    await here.run(900)
    assert [one["budget"] for one in here.event().campaigns] == [100], here.story()
    ends = {one.intent.action: (one.state, one.reason) for one in here.writes()[2:] if not one.undo}
    assert ends["edit_cluster"] == ("skipped", "undo"), here.story()
    assert ends["pause"] == ("confirmed", "read"), "what is about something else goes on"


@in_town(
    world(happening("e1", category="tired")),
    rules_of(
        "{id: for-a-while, when: event.category == 'tired', do: [pause, {wait: 10m}, run]}",
        "{id: for-longer, when: event.category == 'tired', do: [pause, {wait: 20m}, run]}",
    ),
)
async def test_a_rule_whose_wait_is_over_wants_what_comes_behind_it_and_no_more_what_came_before(here: Town) -> None:
    """Each stood for its pause as long as its episode was open: they held each other for ever."""
    await here.run(900)
    assert here.campaigns() == ["PAUSED"], "a tie is won by what stops spending"
    await here.run(600)
    assert here.campaigns() == ["PAUSED", "RUNNING"]


@in_town(
    world(happening("e1", category="tired", frontend_status="FLAGGED")),
    rules_of(
        "{id: off, when: event.category == 'tired', do: [{optimisation: \"OFF\"}]}",
        "{id: on, when: event.frontend_status == 'FLAGGED', do: [{wait: 10s}, {optimisation: \"ON\"}]}",
    ),
    watched=30,
)
async def test_what_held_a_rule_at_the_end_of_its_wait_holds_it_no_more_once_it_has_acted(here: Town) -> None:
    """The page said so for as long as the episode was open."""

    def held() -> list[str | None]:
        return [one.held for one in here.ledger.rule_memories(PARTNER) if one.rule == "on"]

    assert held() == ["conflict"], here.story()
    await here.becomes("e1", 30, category="awake")
    assert here.writes()[-1].state == "confirmed"
    assert held() == [None]


STOPPED = """
rules:
  - {id: rest, priority: 5, MODEwhen: event.category == 'tired', do: [pause, {wait: 10m}, run]}
  - {id: stop, when: event.frontend_status == 'FLAGGED', do: [pause]}
"""


@pytest.mark.parametrize("mode", ["", "mode: approve, "])
@in_town(world(happening("e1", category="tired")), lambda mode: STOPPED.replace("MODE", mode))
async def test_a_rule_wants_nothing_of_what_comes_behind_a_wait_that_never_began(here: Town, mode: str) -> None:
    """Refused by the service or by an operator, its pause stood for the run behind it, and held what pauses."""
    here.fault("answer_before", "PUT", CAMPAIGN, status=422, times=0 if mode else 1)
    await here.run(9)
    here.decide(rejected)
    await here.run(9)
    assert here.states()[1:] == ["skipped"]
    await here.becomes("e1", 30, frontend_status="FLAGGED")
    assert here.campaigns() == ["PAUSED"], here.story()


@in_town(
    world(happening("e1", category="tired")),
    rules_of(
        "{id: over, priority: 5, when: event.category == 'tired', do: [pause]}",
        "{id: blip, when: event.frontend_status == 'FLAGGED', do: [run, {optimisation: \"OFF\"}, pause]}",
    ),
    watched=9,
)
async def test_a_step_of_which_a_later_one_sets_the_opposite_is_a_wish_too(here: Town) -> None:
    """Only the last counted: the first was sent against what a rule of higher priority wants."""
    await here.becomes("e1", 60, frontend_status="FLAGGED")
    assert here.campaigns() == ["PAUSED"], here.story()
