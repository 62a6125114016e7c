"""`undo` as a step: what another rule did is put back by rule, once, and only where nobody has changed it since."""

from typing import Any

import pytest

from tests.engine.test_each import BUDGETS, budgets, published
from tests.engine.test_undo import undo
from tests.worlds import Town, happening, in_town, world
from worker.engine.operators import approved, rejected
from worker.guards import Limits
from worker.model.rules import SpendLimits

REST = """
rules:
  - id: rest
    when: event.category == 'tired'
    do: [pause]
  - id: put-back
    after: rest
    when: since(event.capacity) < -10.0
    do: [{undo: after}]
"""
STRONG = REST.replace("do: [pause]", "priority: 5\n    do: [pause]")
RUN_AGAIN = "  - {id: run-again, when: event.city == 'Oslo', do: [run]}\n"


def changes(here: Town, event: str = "e1") -> list[Any]:
    return [one.after for one in here.effects() if one.eid == event]


def by(here: Town, rule: str) -> list[tuple[str, str, str]]:
    return [(one.intent.action, one.state, one.reason) for one in here.writes() if one.key.rule == rule]


async def rested(here: Town) -> None:
    await here.run(6)
    here.set("e1", category="tired")
    await here.until(lambda: "confirmed" in here.states(), "rests")


async def worse(here: Town, capacity: int = 300) -> None:
    await here.becomes("e1", 60, capacity=capacity)


@in_town(world(happening("e1")), REST)
async def test_what_made_it_worse_is_put_back_once(here: Town) -> None:
    await rested(here)
    await here.run(60)
    assert by(here, "put-back") == []
    await worse(here)
    assert by(here, "put-back") == [("run", "confirmed", "read")]
    (said,) = here.log("undone")
    assert (said["write"], said["reason"], said["by"], said["why"]) == (1, "undo", "worker", "rule put-back")
    await worse(here, 200)
    await here.restart(3600)
    await worse(here, 100)
    assert changes(here) == ["PAUSED", "RUNNING"]


@in_town(world(happening("e1")), REST)
async def test_what_somebody_has_changed_since_is_left_alone_and_told(here: Town) -> None:
    await rested(here)
    await here.becomes("e1", 30, by="person", client_campaign_status="RUNNING")
    await here.becomes("e1", 30, by="person", client_campaign_status="PAUSED")
    await worse(here)
    assert by(here, "put-back") == [("undo", "refused", "no_undo")]
    assert "somebody else has changed event.client_campaign_status" in here.writes()[-1].why
    assert len(changes(here)) == 1


@in_town(world(happening("e1")), STRONG + RUN_AGAIN)
async def test_an_undo_ends_the_wish_of_the_rule_also_a_stronger_one_and_for_other_rules(here: Town) -> None:
    await rested(here)
    await here.becomes("e1", 30, city="Oslo")
    assert by(here, "run-again") == []
    assert [one["reason"] for one in here.log("held") if one["rule"] == "run-again"] == ["conflict"]
    await worse(here)
    assert by(here, "put-back") == [("run", "confirmed", "read")]
    assert by(here, "run-again") == [("run", "skipped", "already_so")]


@in_town(world(happening("e1")), STRONG.replace("after: rest", "mode: approve\n    after: rest") + RUN_AGAIN)
async def test_an_undo_that_waits_for_approval_ends_no_wish_and_nothing_goes_round_it(here: Town) -> None:
    await rested(here)
    here.set("e1", city="Oslo")
    await worse(here)
    assert (by(here, "put-back"), by(here, "run-again")) == ([("run", "waiting", "mode")], [])
    here.decide(rejected)
    await here.run(30)
    assert (by(here, "run-again"), changes(here)) == ([], ["PAUSED"])


@in_town(
    world(happening("e1")), REST + "  - id: keep\n    priority: 5\n    when: event.city == 'Oslo'\n    do: [pause]\n"
)
async def test_a_stronger_wish_of_a_third_rule_holds_an_undo(here: Town) -> None:
    await rested(here)
    await here.becomes("e1", 30, city="Oslo")
    await worse(here)
    assert by(here, "put-back") == []
    assert [one["reason"] for one in here.log("held") if one["rule"] == "put-back"] == ["conflict"]
    await here.becomes("e1", 60, city="Bonn")
    assert by(here, "put-back") == [("run", "confirmed", "read")]


@in_town(
    world(happening("e1")),
    REST.replace("[pause]", "[{frontend_status: HIDDEN}, {optimisation: 'OFF'}]").replace(
        "[{undo: after}]", "[{undo: after}, {notify: \"='less by ' + string(since(event.capacity))\"}]"
    ),
)
async def test_an_action_of_two_requests_is_put_back_whole_and_the_steps_behind_it_follow(here: Town) -> None:
    await rested(here)
    await here.run(60)
    await worse(here)
    assert by(here, "put-back") == [
        ("frontend_status", "confirmed", "read"),
        ("optimisation", "confirmed", "read"),
        ("frontend_status", "confirmed", "answer"),
        ("notify", "confirmed", "answer"),
    ]
    assert here.texts == ["less by -100"]


@in_town(
    world(happening("e1")),
    REST.replace("do: [{undo: after}]", "mode: approve\n    do: [{undo: after}]").replace(
        "since(event.capacity) < -10.0", "event.capacity < 350.0"
    ),
)
async def test_a_newer_firing_takes_the_place_of_an_undo_that_still_waits(here: Town) -> None:
    await rested(here)
    await worse(here)
    assert by(here, "put-back") == [("run", "waiting", "mode")]
    await here.becomes("e1", 30, category="awake", client_campaign_status="RUNNING")
    await here.becomes("e1", 60, category="tired")
    assert by(here, "put-back")[1:] == [("run", "waiting", "mode")]
    assert by(here, "put-back")[0][1] == "skipped"
    here.decide(approved)
    await here.run(60)
    assert by(here, "put-back")[1:] == [("run", "confirmed", "read")]


REST_2 = """
rules:
  - {id: rest, when: event.category == 'tired', do: [pause]}
  - {id: put-back, when: event.capacity < 350.0, do: [{undo: rest}]}
"""


@in_town(world(happening("e1")), REST_2)
async def test_by_its_name_a_rule_is_undone_by_what_may_have_had_an_effect_and_else_nothing_is(here: Town) -> None:
    await worse(here)
    assert here.writes() == []
    assert [one["rule"] for one in here.log("fired")] == ["put-back"]
    here.set("e1", capacity=400)
    await rested(here)
    await worse(here)
    assert by(here, "put-back") == [("run", "confirmed", "read")]


RAISE = """
rules:
  - {id: raise, when: event.category == 'hot', do: [{edit_cluster: {each: campaigns, budget: 700}}]}
  - {id: put-back, after: raise, when: since(event.capacity) < -10.0, do: [{undo: after}]}
"""


@in_town(world(published("e1", BUDGETS)), RAISE, limits=Limits(spend=SpendLimits(per_day=2200.0)), watched=6)
async def test_each_of_several_writes_is_put_back_to_its_own_value_and_no_spending_limit_holds_it(here: Town) -> None:
    await here.becomes("e1", 60, category="hot")
    assert budgets(here) == {"jazz": 700.0, "opera": 700.0, "rock": 700.0}
    await worse(here)
    assert budgets(here) == dict(BUDGETS)
    assert {one[1] for one in by(here, "put-back")} == {"confirmed"}
    await here.becomes("e1", 30, category="cold", capacity=500)
    await here.becomes("e1", 60, category="hot")
    assert [one.held_by for one in here.writes() if one.key.rule == "raise"][3:].count("spend") == 2


@in_town(world(published("e1", BUDGETS)), RAISE, watched=6)
async def test_of_several_writes_at_least_those_are_put_back_that_nobody_has_changed(here: Town) -> None:
    await here.becomes("e1", 60, category="hot")
    undo(here, *(one.id for one in here.writes() if one.key.item == "rock:1"))
    await here.run(60)
    assert budgets(here) == {"jazz": 700.0, "opera": 700.0, "rock": 10.0}
    await worse(here)
    assert budgets(here) == dict(BUDGETS)
    assert len(by(here, "put-back")) == 2


@in_town(
    world(happening("e1")),
    REST.replace("< -10.0", "< -10.0 && event.client_campaign_status == 'PAUSED'").replace(
        "[{undo: after}]", "[{wait: 1m}, {undo: after}, {optimisation: 'OFF'}]"
    ),
)
async def test_an_undo_after_a_wait_leaves_the_condition_of_the_steps_behind_it_as_it_was(here: Town) -> None:
    """Of what it had put back nothing was known, and the next step was held for ever."""
    await rested(here)
    await worse(here)
    await here.run(60)
    assert by(here, "put-back")[1:] == [("run", "confirmed", "read"), ("optimisation", "confirmed", "read")]


@in_town(
    world(happening("e1")),
    REST_2.replace("[pause]", "[{frontend_status: HIDDEN}]")
    + "  - {id: put-back-too, when: event.capacity < 350.0, do: [{undo: rest}]}\n",
)
async def test_two_rules_that_fire_at_once_put_back_once(here: Town) -> None:
    """The second request of the pair, which no read shows, was made by both."""
    await rested(here)
    await worse(here)
    assert len([one for one in here.effects() if one.operation == "last_updated_on_fe"]) == 2, here.story()
    assert len(here.log("undone")) == 1
    assert by(here, "put-back-too") == [("undo", "refused", "no_undo")]


LATER = """
rules:
  - id: rest
    when: event.category == 'tired'
    do:
      - edit_cluster: {tc: jazz, tc_run_id: 1, budget: 70}
      - wait: 2m
      - edit_cluster: {tc: jazz, tc_run_id: 1, budget: 50}
  - {id: put-back, when: event.capacity < 350.0, do: [{undo: rest}]}
"""


@pytest.mark.parametrize("priority", [0, 5])
@in_town(
    world(published("e1", BUDGETS)),
    lambda priority: LATER.replace("put-back, when", f"put-back, priority: {priority}, when"),
)
async def test_what_is_put_back_while_its_rule_waits_is_not_made_anew(here: Town) -> None:
    """The wait ended for the undo, as for a stronger wish, and the rule began once more when that was done."""
    await rested(here)
    await worse(here)
    await here.run(150)
    assert [one.after["budget"] for one in here.effects("edit_cluster")] == [70.0, 100.0], here.story()
    assert by(here, "rest")[1:] == [("wait", "confirmed", "wait"), ("edit_cluster", "skipped", "undo")]


@in_town(world(published("e1", BUDGETS)), LATER.replace("put-back, when", "put-back, mode: approve, when"))
async def test_an_undo_that_its_rule_has_given_up_keeps_no_later_step_back(here: Town) -> None:
    await rested(here)
    await worse(here)
    assert by(here, "put-back") == [("edit_cluster", "waiting", "mode")]
    await worse(here, 400)
    await here.run(30)
    assert by(here, "put-back") == [("edit_cluster", "skipped", "no_longer_holds")]
    assert budgets(here)["jazz"] == 50.0, here.story()
