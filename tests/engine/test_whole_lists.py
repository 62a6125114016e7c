"""Presence is proof, absence is not: lists in pages, names that are kept otherwise, rounded numbers, a late refusal."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.engine.test_actions import rule
from tests.worlds import Town, draft, happening, in_town, world
from worker.model.facts import Json
from worker.sandbox.settings import TwinSettings, changed_settings
from worker.sandbox.world import Happening

ITEMS = {"campaigns.items": "items"}
PAGED: Mapping[str, Json] = {"campaigns_shape": "page", "campaigns_limit": 2}
PATH = "/campaigns/$"


def create(tc: str = "jazz", run: int = 7) -> str:
    return rule(f"[{{create_campaign: {{tc: '{tc}', tc_run_id: {run}}}}}]")


def with_campaigns(*names: str, run: int = 7) -> Happening:
    """An event with campaigns of these clusters, the newest last."""
    campaigns = tuple({"campaign_id": f"c{n}", "tc": tc, "tc_run_id": run} for n, tc in enumerate(names))
    return replace(happening("e1"), tc_run_id=run, campaigns=campaigns)


def many(count: int) -> Happening:
    return with_campaigns(*(f"cluster {n}" for n in range(count)))


def fires(here: Town) -> None:
    here.set("e1", status="cancelled")


@dataclass(frozen=True)
class Case:
    """``ends``: what became of each write, with what holds it or its reason; ``sent``: requests on the wire; ``fault``:
    what the first write meets; ``why``: said of it."""

    place: Happening
    ends: list[str]
    sent: int
    rules: str = field(default_factory=create)
    settings: Mapping[str, Json] = field(default_factory=dict)
    fault: Mapping[str, Any] | None = None
    why: str = ""


LOST: Mapping[str, Any] = {"kind": "answer_after", "method": "POST", "path": PATH, "status": 429}
DRAFT_LOST = {**LOST, "method": "PUT", "path": "/setup_processes/"}
SO, HELD, DONE, OTHER = (
    ["skipped already_so"],
    ["planned target_unreadable"],
    ["confirmed read"],
    "needs_human other_value",
)
UNSEEN = ["needs_human no_evidence"]
LIMITED: Mapping[str, Json] = {"campaigns_shape": "limited", "campaigns_limit": 2}
WHOLE: Mapping[str, Json] = {"numbers_shown": "whole"}
HAS_JAZZ = with_campaigns("a", "b", "jazz")
SUMMER = replace(draft("e1"), setup={"goal": "ROAS", "total_budget": 500, "name": "summer"})
NAMED = rule("[{update_draft: {extra: {name: 'Summer '}}}]")
A_BIT_MORE = rule("[{update_draft: {total_budget: 500.4}}]")
JAZZ_AT_120 = replace(draft("e1"), published=True, campaigns=({"tc": "jazz", "tc_run_id": 7, "budget": 120},))
A_BIT_LESS = rule("[{edit_cluster: {tc: jazz, tc_run_id: 7, budget: 119.5}}]")
EDITED = (
    "[{write: {method: PUT, host: cr, path: '/events/{eid}', query: {event_type: concert, partner_product: campaign}}}]"
)
CASES = {
    "a campaign on the second page is not created again": Case(HAS_JAZZ, SO, 0, settings=PAGED),
    "a campaign that was started in secret is found on the last page": Case(
        with_campaigns("a", "b", "c", "d"), DONE, 1, settings=PAGED, fault=LOST
    ),
    "a campaign that no page shows is started once more": Case(
        with_campaigns("a", "b", "c"), DONE, 2, settings=PAGED, fault={**LOST, "kind": "answer_before"}
    ),
    "where no later page can be asked for, no campaign is started": Case(
        HAS_JAZZ, HELD, 0, settings={**PAGED, "page_parameter": "p"}, why="see the assumption events.page_parameter"
    ),
    "where a list is as long as its limit, no campaign is started": Case(
        HAS_JAZZ, HELD, 0, settings=LIMITED, why="as long as its limit of 2"
    ),
    "what a part of the list shows is there": Case(with_campaigns("a", "jazz", "b"), SO, 0, settings=LIMITED),
    "a list cut off at twenty in silence holds a new campaign back": Case(
        many(25), HELD, 0, create("cluster 22"), {"campaigns_limit": 20}
    ),
    "a campaign that a list cut off in silence never shows is not sent again": Case(
        many(10), UNSEEN, 1, settings={"campaigns_limit": 10}, fault=LOST
    ),
    "a campaign that is booked under the newest run is started once": Case(
        replace(many(0), tc_run_id=9), [OTHER], 1, create(run=7), {"campaign_run": "newest"}, LOST
    ),
    "a campaign of a newer run may be the one": Case(with_campaigns("jazz", run=9), HELD, 0, create(run=7)),
    "a campaign of an older run is another": Case(with_campaigns("jazz", run=7), DONE, 1, create(run=9)),
    "a budget that is shown rounded as it was before is sent once": Case(
        draft("e1"), ["unconfirmed never_confirmed"], 1, A_BIT_MORE, WHOLE
    ),
    "so it is where its answer is lost": Case(draft("e1"), UNSEEN, 1, A_BIT_MORE, WHOLE, DRAFT_LOST),
    "a clusters budget that is shown rounded is sent once": Case(
        JAZZ_AT_120, UNSEEN, 1, A_BIT_LESS, WHOLE, {**LOST, "path": "/campaigns_setup$"}
    ),
    **{
        f"two rules that spell one cluster otherwise, with {how}, start one campaign": Case(
            happening("e1"),
            DONE + SO,
            1,
            create("jazz\u00e9") + create(tc).split("rules:\n")[1].replace("id: r", "id: s"),
        )
        for how, tc in {"a blank": "jazz\u00e9 ", "an accent of its own": "jazze\u0301"}.items()
    },
    **{
        f"a campaign that is there in another spelling, {spelling}, is not started again": Case(
            with_campaigns(there), ends, 0, create("Caf\u00e9 ")
        )
        for spelling, there, ends in (
            ("trimmed", "Caf\u00e9", SO),
            ("decomposed", "Cafe\u0301 ", SO),
            ("lower", "caf\u00e9 ", HELD),
        )
    },
    **{
        f"{what} that is kept in another spelling, {spelling}, is sent once": Case(
            place, [end], 1, rules, {"text_spelling": spelling}, fault
        )
        for what, place, rules, fault, spelling, end in (
            ("a campaign", many(0), create("Caf\u00e9 "), LOST, "trimmed", "confirmed read"),
            ("a campaign", many(0), create("Caf\u00e9 "), LOST, "decomposed", "confirmed read"),
            ("a campaign", many(0), create("Caf\u00e9 "), LOST, "lower", OTHER),
            ("a text of a draft", SUMMER, NAMED, DRAFT_LOST, "trimmed", "confirmed read"),
            ("a text of a draft", SUMMER, NAMED, DRAFT_LOST, "lower", "needs_human no_evidence"),
        )
    },
    **{
        f"a refusal, {status}, of a token that had just worked proves nothing of what no read shows: {do}": Case(
            draft("e1"),
            [*first, "needs_human no_readback"],
            1 + len(first),
            rule(do),
            fault={"kind": "answer_after", "method": "PUT", "path": path, "status": status},
        )
        for status in (401, 403)
        for do, path, first in (
            ("[reset_setup]", "/reset_campaigns_setup$", []),
            ("[{frontend_status: HIDDEN}]", "/last_updated_on_fe/", DONE),
            (EDITED, "/events/e1$", []),
        )
    },
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@in_town(
    lambda case: world(case.place),
    lambda case: case.rules,
    twin=lambda case: changed_settings(TwinSettings(), case.settings),
    assumptions=lambda case: ITEMS if "campaigns_shape" in case.settings else None,
    watched=6,
)
async def test_what_a_list_does_not_show_is_no_proof_and_what_it_shows_is(here: Town, case: Case) -> None:
    if case.fault is not None:
        here.fault(**case.fault)
    fires(here)
    await here.run(60 if case.sent == 0 else 1200)
    writes = here.writes()
    assert [f"{write.state} {write.held_by or write.reason}" for write in writes] == case.ends, here.story()
    assert (here.twin.books.writes_sent, here.twin.books.repeated) == (case.sent, ())
    assert case.why in writes[0].why


@in_town(
    world(HAS_JAZZ),
    rule("[pause]", "size(campaigns) > 0 && !campaigns.exists(c, c.tc == 'jazz')"),
    twin=changed_settings(TwinSettings(), LIMITED),
    assumptions=ITEMS,
)
async def test_a_condition_on_a_list_that_is_not_whole_is_unknown(here: Town) -> None:
    await here.run(30)
    assert here.log("fired") == []
    here.change("e1", campaigns=[{"tc": "a", "tc_run_id": 7}])
    await here.until(lambda: len(here.log("fired")) == 1, "a list that is whole by its own word")


@in_town(world(many(0)), create(), watched=6)
async def test_a_list_that_has_gained_another_campaign_meanwhile_is_for_a_person_at_once(here: Town) -> None:
    here.fault("answer_before", "POST", PATH, status=429)
    fires(here)
    await here.until(lambda: here.states() == ["unknown"], "sent, and nobody knows")
    here.change("e1", campaigns=[{"tc": "Jazz Club", "tc_run_id": 7}])
    await here.until(lambda: here.states() == ["needs_human"], "a third value", 30)
    assert here.only.reason == "other_value"
    assert here.twin.books.writes_sent == 1


@pytest.mark.parametrize("answer", [200, 429])
@in_town(
    world(replace(draft("e1"), published=True, campaigns=({"tc": "jazz", "tc_run_id": 7, "budget": 100},))),
    rule("[{edit_cluster: {tc: jazz, tc_run_id: 7, budget: 120}}]"),
    watched=6,
)
async def test_a_clusters_budget_that_is_shown_as_a_text_is_confirmed(here: Town, answer: int) -> None:
    here.fault("answer_after", "POST", "/campaigns_setup$", status=answer)
    fires(here)
    await here.until(lambda: here.effects() != [], "sent")
    here.fault("wrong_types", "GET", "/campaigns$", times=1000, fields={"budget": "120.00"})
    await here.until(lambda: here.only.final, "settled")
    assert (here.only.state, here.only.attempt) == ("confirmed", 1), here.story()


@pytest.mark.parametrize("status", [401, 403])
@in_town(world(many(2)), create(), watched=6)
async def test_a_refusal_of_what_spends_proves_nothing_where_reads_lag(here: Town, status: int) -> None:
    """It was taken for not sent: the read before the next attempt, a little old, did not show the campaign, and it was
    created twice."""
    here.fault("answer_after", "POST", PATH, status=status)
    here.fault("stale_reads", "GET", "/events/e1/campaigns$", times=4, by_s=20.0)
    fires(here)
    await here.run(1200)
    assert here.states() == ["confirmed"], here.story()
    assert here.twin.books.repeated == (), here.story()
    assert len(here.effects()) == 1, here.story()
