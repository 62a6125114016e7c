"""One write for each campaign or cluster of an event, from the rule file to the service's own books."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.rehearsing import rehearsed
from tests.worlds import QUICK, Town, happening, in_town, world
from worker.engine.operators import approved
from worker.model.rules import Surge
from worker.sandbox.settings import Record
from worker.sandbox.world import Happening

RAISE = """
rules:
  - id: raise-all
    when: event.status == 'active' && setup.state == 'PUBLISHED'
    cooldown: 1d
    do:
      - edit_cluster: {each: EACH, budget: "=min([each.budget * 1.2, 500.0])"}
      - notify: raised
"""
BUDGETS: Mapping[str, float] = {"jazz": 100, "opera": 450, "rock": 10}


def published(eid: str, budgets: Mapping[str, float], status: str = "active") -> Happening:
    campaigns: tuple[Record, ...] = tuple(
        {"tc": tc, "tc_run_id": 1, "budget": budget} for tc, budget in budgets.items()
    )
    setup = {"goal": "ROAS", "total_budget": 500}
    return replace(happening(eid, status=status), setup=setup, published=True, campaigns=campaigns)


def rule(each: str) -> str:
    return RAISE.replace("EACH", each).replace("min([each.budget * 1.2, 500.0])", "each.budget * 1.2")


def budgets(here: Town, event: str = "e1") -> dict[str, Any]:
    found = here.event(event)
    return {str(one["tc"]): one["budget"] for one in found.campaigns}


@pytest.mark.parametrize(
    ("each", "changed"),
    [
        ("campaigns", {"jazz": 120.0, "opera": 540.0, "rock": 12.0}),
        ("{of: campaigns, where: each.budget < 400.0}", {"jazz": 120.0, "rock": 12.0}),
        ("{of: campaigns, where: each.budget > 9000.0}", {}),
    ],
    ids=["every campaign", "only those where the condition holds", "none, and the next step starts"],
)
@in_town(world(published("e1", BUDGETS)), rule)
async def test_every_campaign_gets_its_own_value_and_its_own_write(here: Town, changed: dict[str, float]) -> None:
    await here.run(60)
    assert budgets(here) == {**BUDGETS, **changed}
    assert [one.key.item for one in here.writes()] == [*(f"{tc}:1" for tc in changed), ""]
    assert set(here.states()) == {"confirmed"}
    assert here.texts == ["raised"]


@in_town(world(published("e1", BUDGETS)), rule("{of: campaigns, where: each.share > 0.5}"))
async def test_an_item_of_which_nothing_can_be_told_holds_the_firing_and_a_plan_says_nothing_of_it(here: Town) -> None:
    """It said that the campaign does not exist."""
    await here.run(60)
    assert here.writes() == []
    assert "each.where" in here.log("held")[-1]["why"]
    await here.kill()
    found = await rehearsed(here)
    here.start()
    row = next(one for one in found.rows if one.write.intent.action == "edit_cluster")
    assert (row.becomes, row.reason) == ("held", "fact_unknown")
    assert (row.before_known, row.before) == (False, None)


@in_town(world(published("e1", BUDGETS)), rule("campaigns").replace("cooldown: 1d", "cooldown: 1d\n    mode: approve"))
async def test_an_item_that_is_gone_before_the_send_is_refused_and_the_others_are_sent(here: Town) -> None:
    await here.until(lambda: len(here.writes()) == 4, "waiting")
    left = [{"tc": "jazz", "tc_run_id": 1, "budget": 100}, {"tc": "rock", "tc_run_id": 1, "budget": 10}]
    here.change("e1", campaigns=left)
    await here.run(9)
    here.decide(approved)
    await here.run(60)
    assert {one.key.item: (one.state, one.reason) for one in here.writes() if one.key.item} == {
        "jazz:1": ("confirmed", "read"),
        "opera:1": ("refused", "gone"),
        "rock:1": ("confirmed", "read"),
    }


@pytest.mark.parametrize(("allowed", "sent"), [(5, False), (6, True)])
@in_town(
    world(published("e1", BUDGETS), published("e2", BUDGETS, status="idle"), published("e3", {})),
    rule("campaigns"),
    deciding=lambda allowed: replace(QUICK.deciding, surge=Surge(events=allowed, within=timedelta(minutes=10))),
    watched=30,
)
async def test_a_surge_counts_the_writes_of_each(here: Town, sent: bool) -> None:
    """Two events with three campaigns are six writes, also one after the other. One without campaigns is none."""
    await here.becomes("e2", 60, status="active")
    states = [one.state for one in here.writes() if one.key.event == "e2" and one.key.item]
    assert states == (["confirmed"] if sent else ["waiting"]) * 3


WATCHES = """
rules:
  - id: raise-on-change
    on_change: WATCHED
    limit: {per_event_per_day: 5}
    do: [{edit_cluster: {each: campaigns, budget: "=each.budget * 1.2"}}]
"""


@pytest.mark.parametrize(
    "watched", ["campaigns", "{fact: campaigns, by: budget}", "{fact: campaigns, by: [tc, budget]}"]
)
@in_town(world(published("e1", BUDGETS)), lambda watched: WATCHES.replace("WATCHED", watched))
async def test_a_rule_that_watches_the_campaigns_that_it_raises_goes_off_at_no_raise_of_its_own(here: Town) -> None:
    """It raised all of them by a fifth again and again, as often as its pace allowed."""
    for amount, fired in ((110.0, 1), (500.0, 2)):
        await here.run(9)
        now = {**budgets(here), "jazz": amount}
        here.change("e1", by="person", campaigns=published("e1", now).campaigns)
        await here.run(15)
        assert len(here.log("fired")) == fired, here.story()
    assert budgets(here) == {"jazz": 600.0, "opera": 648.0, "rock": 14.4}


def daily(budgets: Mapping[str, float]) -> tuple[Record, ...]:
    return tuple({"tc": tc, "tc_run_id": 1, "daily_budget": each, "budget": 7.0} for tc, each in budgets.items())


@in_town(
    world(replace(published("e1", BUDGETS), campaigns=daily(BUDGETS))),
    WATCHES.replace("WATCHED", "{fact: campaigns, by: budget}"),
    assumptions={"cluster.budget": "daily_budget"},
)
async def test_a_budget_that_the_service_calls_otherwise_is_read_sent_and_proved_under_that_name(here: Town) -> None:
    await here.run(9)
    here.change("e1", by="person", campaigns=daily({**BUDGETS, "jazz": 110}))
    await here.run(15)
    assert here.states() == ["confirmed"] * 3, here.story()
    assert here.event("e1").campaigns == daily({"jazz": 132.0, "opera": 540.0, "rock": 12.0})


QUARREL = """
rules:
  - id: stronger
    priority: 5
    when: event.status == 'active' && setup.state == 'PUBLISHED'
    do: [{edit_cluster: {each: {of: campaigns, where: each.tc == 'jazz'}, budget: 200}}]
  - id: weaker
    when: event.status == 'active' && setup.state == 'PUBLISHED'
    do: [{edit_cluster: {each: campaigns, budget: 50}}]
"""


@in_town(world(published("e1", BUDGETS)), QUARREL)
async def test_two_rules_that_want_other_values_of_one_campaign_go_by_priority(here: Town) -> None:
    await here.until(lambda: bool(here.effects("edit_cluster")), "sent")
    assert {one.key.rule for one in here.writes()} == {"stronger"}
    assert [one["reason"] for one in here.log("held")][-1:] == ["conflict"]


SHARE = """
rules:
  - id: share
    when: event.status == 'active' && setup.state == 'PUBLISHED'
    do: [{edit_cluster: {each: {of: clusters, where: each.size_share > 0.2}, budget: "=each.size_share * 1000.0"}}]
"""
CLUSTERS = tuple({"tc": tc, "tc_run_id": 1, "size_share": share} for tc, share in (("jazz", 0.5), ("rock", 0.1)))


@in_town(world(replace(published("e1", BUDGETS), clusters=CLUSTERS)), SHARE)
async def test_clusters_are_items_too(here: Town) -> None:
    await here.run(60)
    assert budgets(here)["jazz"] == 500.0
    assert [one.key.item for one in here.writes()] == ["jazz:1"]
