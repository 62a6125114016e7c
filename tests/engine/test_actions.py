"""Every action through the twin: what it writes, what shows it, and what becomes of it when an answer is lost."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.worlds import PARTNER, Town, draft, happening, in_town, plays, world
from worker.model.facts import RuleId
from worker.sandbox.changes import EventChange
from worker.sandbox.faults import Kind
from worker.sandbox.settings import TwinSettings
from worker.sandbox.world import Happening


def rule(do: str, when: str = "event.status == 'cancelled'", head: str = "") -> str:
    """One rule that fires for a cancelled event."""
    return f"rules:\n  - id: r\n    when: {when}\n    {head}\n    do: {do}\n"


def published(eid: str = "e1", *clusters: int) -> Happening:
    """An event whose setup is published, with campaigns for these clusters."""
    campaigns = tuple({"tc": f"cluster {one}", "tc_run_id": one, "budget": 10} for one in clusters)
    return replace(draft(eid), published=True, campaigns=campaigns)


def fires(here: Town) -> None:
    here.set("e1", status="cancelled")


def setup_of(here: Town) -> dict[str, object]:
    found = here.twin.world.at(PARTNER, "e1")
    assert found is not None
    return dict(found.setup or {})


# --- drafts --------------------------------------------------------------------------------------------------------


@in_town(world(draft("e1")), rule("[{update_draft: {goal: VISIBILITY, total_budget: 750, extra: {note: {by: r}}}}]"))
async def test_a_draft_is_changed_and_the_change_is_read_back(here: Town) -> None:
    await here.run(6)
    fires(here)
    await here.until(lambda: here.states() == ["confirmed"], "the draft is changed")
    assert setup_of(here) == {"goal": "VISIBILITY", "total_budget": 750, "note": {"by": "r"}}
    assert (here.only.confirmed_by, here.only.intent.spends) == ("read", True)
    assert here.only.before == {"state": "DRAFT", "goal": "ROAS", "total_budget": 500}


@pytest.mark.parametrize(
    ("do", "place", "reason"),
    [
        ("[{update_draft: {total_budget: 750}}]", happening("e1"), "no_draft"),
        ("[{update_draft: {total_budget: 750}}]", published(), "no_draft"),
        ("[{update_draft: {total_budget: 1000000}}]", draft("e1"), "budget_range"),
        ("[{update_draft: {total_budget: 600, extra: {totalBudget: 1000000}}}]", draft("e1"), "budget_range"),
        ("[{create_draft: {goal: ROAS, total_budget: 1000000}}]", happening("e1"), "budget_range"),
        ("[boost]", draft("e1", total_budget=1000000), "budget_range"),
        ("[{edit_cluster: {tc: a, tc_run_id: 1, budget: 1000000}}]", published(), "budget_range"),
        ("[{create_campaign: {tc: a, tc_run_id: 1, budget: 1000000}}]", happening("e1"), "budget_range"),
        ("[{edit_cluster: {tc: a, tc_run_id: 1, budget: 10}}]", draft("e1"), "not_published"),
        ("[{edit_cluster: {tc: a, tc_run_id: 1, budget: 10}}]", happening("e1"), "not_published"),
    ],
)
def test_what_the_service_would_not_take_is_refused_and_not_sent(
    tmp_path: Path, do: str, place: Happening, reason: str
) -> None:
    async def script(here: Town) -> None:
        await here.run(6)
        fires(here)
        await here.until(lambda: here.states() == ["refused"], "a guard says no for good")
        assert here.only.reason == reason
        assert here.twin.books.writes_sent == 0

    plays(script, tmp_path, world(place), rule(do))


TWO_CHANGES = """
rules:
  - {id: a, when: event.status == 'cancelled', do: [{update_draft: {total_budget: 750}}]}
  - {id: b, when: event.status == 'cancelled', do: [{update_draft: {goal: VISIBILITY}}]}
"""


@in_town(world(draft("e1")), TWO_CHANGES)
async def test_changes_of_a_draft_go_one_after_the_other_and_a_slow_one_is_never_cut_off(here: Town) -> None:
    await here.run(6)
    here.fault("slow", "PUT", "/setup_processes/", delay_s=9.0)
    fires(here)
    await here.until(lambda: here.states() == ["confirmed", "confirmed"], "both changes are there")
    puts = [one for one in here.twin.books.requests if one.method == "PUT"]
    assert [one.fault for one in puts] == ["slow", None]
    assert puts[1].at_s >= puts[0].at_s + 9, "the second left after the first was answered"
    assert setup_of(here) == {"goal": "VISIBILITY", "total_budget": 750}
    assert [one.status for one in puts] == [200, 200], "nobody hung up on the slow one"


@in_town(world(draft("e1")), TWO_CHANGES)
async def test_an_older_change_of_a_draft_that_is_held_is_not_overtaken_by_a_newer_one(here: Town) -> None:
    await here.run(6)
    here.ledger.append_halt(because="wait", by="me", at=here.clock.now(), rule=RuleId("a"))
    fires(here)
    await here.run(30)
    assert here.effects() == []
    held = {write.key.rule: write.held_by for write in here.writes()}
    assert held == {"a": "halt", "b": "target_busy"}
    here.ledger.resume_halts(because="done", by="me", at=here.clock.now(), rule=RuleId("a"))
    await here.until(lambda: here.states() == ["confirmed", "confirmed"], "in their order")
    assert [one.after["goal"] for one in here.effects()] == ["ROAS", "VISIBILITY"], "the older one first"


@in_town(
    world(happening("e1")),
    rule(
        "[{create_draft: {goal: ROAS, total_budget: 500}}, {update_draft: {total_budget: 600}}, boost]",
        "event.status == 'cancelled' && setup.state == 'NONE'",
    ),
)
async def test_a_draft_is_created_changed_and_published_by_one_rule(here: Town) -> None:
    await here.run(6)
    fires(here)
    await here.until(lambda: here.states() == ["confirmed"] * 3, "all three steps are done")
    assert [one.operation for one in here.effects()] == ["create_setup", "update_setup", "boost"]


# --- clusters and campaigns ----------------------------------------------------------------------------------------

EACH = """
rules:
  - id: r
    on_change: suggested_tcs
    with: {budget: 500, goal: ROAS}
    when: event.status == 'active' && setup.state == 'PUBLISHED'
    do: [{edit_cluster: {each: added, budget: "=10.0 * double(size(added))"}}]
"""


@in_town(world(published()), EACH)
async def test_each_of_twenty_added_clusters_is_a_write_with_a_life_of_its_own(here: Town) -> None:
    here.suggest("e1", 1)
    await here.run(9)
    here.fault("answer_after", "POST", "/campaigns_setup$", status=429, skip=2)
    here.fault("answer_before", "POST", "/campaigns_setup$", status=422, skip=1)
    here.fault("answer_before", "POST", "/campaigns_setup$", status=429)
    here.suggest("e1", *range(1, 22))
    await here.until(lambda: len(here.writes()) == 20, "one write for each")
    await here.until(lambda: all(write.final for write in here.writes()), "each comes to its end")
    states = here.states()
    assert (states.count("confirmed"), states.count("rejected")) == (19, 1)
    assert len(here.effects("edit_cluster")) == 19
    assert {write.key.item for write in here.writes()} == {f"cluster {one}:{one}" for one in range(2, 22)}
    assert {write.key.position for write in here.writes()} == {0}
    assert here.twin.books.repeated == ()


@in_town(world(published()), EACH)
async def test_a_change_that_only_takes_clusters_away_writes_nothing_and_ends(here: Town) -> None:
    here.suggest("e1", 1, 2)
    await here.run(9)
    here.suggest("e1", 1)
    await here.run(9)
    assert (len(here.log("fired")), here.writes()) == (1, [])
    here.suggest("e1", 1, 3)
    await here.until(lambda: here.states() == ["confirmed"], "the next change is a change of its own")


@in_town(world(published()), EACH.replace("suggested_tcs", "clusters").replace("with: {budget: 500, goal: ROAS}", ""))
async def test_clusters_that_are_compared_by_name_are_edited_with_the_run_they_have_now(here: Town) -> None:
    clusters = [{"tc": "rock", "label": "Rock", "metric_pred": 3.0, "reach_estimate": 10, "size_share": 0.1}]
    jazz = {**clusters[0], "tc": "jazz & soul/blues"}
    change = EventChange(event="e1", partner=PARTNER, clusters=clusters, tc_run_id=4)
    here.twin.change(change, here.loop.time())
    await here.run(9)
    change = EventChange(event="e1", partner=PARTNER, clusters=[*clusters, jazz], tc_run_id=5)
    here.twin.change(change, here.loop.time())
    await here.until(lambda: here.states() == ["confirmed"], "the added one is edited")
    assert [one.target for one in here.effects("edit_cluster")] == ["campaign:jazz & soul/blues:5"]


CAMPAIGN = "[{create_campaign: {tc: cluster 1, tc_run_id: 1, budget: 20}}]"


@pytest.mark.parametrize(
    ("kind", "params", "sent"),
    [
        ("answer_after", {"status": 429}, 1),
        ("answer_before", {"status": 429}, 2),
        ("cut_after", {}, 1),
        ("late_effect", {"status": 503, "after_s": 12.0}, 1),
    ],
)
@in_town(world(happening("e1")), rule(CAMPAIGN))
async def test_a_campaign_is_started_once_whatever_becomes_of_the_answer(
    here: Town, kind: Kind, params: dict[str, object], sent: int
) -> None:
    await here.run(6)
    here.fault(kind, "POST", "/campaigns/$", **params)
    fires(here)
    await here.until(lambda: here.states() == ["confirmed"], "there is one campaign")
    assert (here.twin.books.writes_sent, len(here.effects("create_campaign"))) == (sent, 1)


# --- what cannot be read back --------------------------------------------------------------------------------------

UNSEEN = [
    ("[reset_setup]", "/reset_campaigns_setup$", ["confirmed"], ["needs_human"]),
    (
        "[{frontend_status: HIDDEN}]",
        "/last_updated_on_fe/",
        ["confirmed", "confirmed"],
        ["confirmed", "needs_human"],
    ),
]


@pytest.mark.parametrize(("do", "path", "good", "lost"), UNSEEN)
@pytest.mark.parametrize("kind", ["answer_after", "cut_before"])
def test_what_cannot_be_read_back_goes_to_a_person_after_an_unknown_outcome(
    tmp_path: Path, do: str, path: str, good: list[str], lost: list[str], kind: Kind
) -> None:
    async def script(here: Town) -> None:
        await here.run(6)
        here.fault(kind, "PUT", path, **({"status": 429} if kind.startswith("answer") else {}))
        fires(here)
        await here.until(lambda: here.states() == lost, "a person must look")
        sent = here.twin.books.writes_sent
        await here.run(60)
        assert (here.states(), here.twin.books.writes_sent) == (lost, sent), "and it is never sent again by itself"
        assert here.writes()[-1].reason == "no_readback"

    plays(script, tmp_path, world(draft("e1")), rule(do))


@pytest.mark.parametrize(("do", "path", "good", "lost"), UNSEEN)
def test_what_cannot_be_read_back_is_confirmed_by_its_answer(
    tmp_path: Path, do: str, path: str, good: list[str], lost: list[str]
) -> None:
    async def script(here: Town) -> None:
        await here.run(6)
        fires(here)
        await here.until(lambda: here.states() == good, "the answer is the confirmation")
        assert here.writes()[-1].confirmed_by == "answer"

    plays(script, tmp_path, world(draft("e1")), rule(do))


# --- series --------------------------------------------------------------------------------------------------------


@in_town(
    world(happening("e1", campaign_event_series=["e3", "e9"]), happening("e2"), happening("e3")),
    rule("[{series_add: [e2]}, {series_remove: [e3]}]"),
)
async def test_events_join_a_series_and_leave_it(here: Town) -> None:
    await here.run(6)
    here.fault("answer_after", "POST", "/series$", status=429)
    here.fault("answer_before", "DELETE", "/series$", status=503)
    fires(here)
    await here.until(lambda: here.states() == ["confirmed", "confirmed"], "in, and out")
    found = here.twin.world.at(PARTNER, "e1")
    assert found is not None
    assert found.record["campaign_event_series"] == ["e9", "e2"]
    assert [write.before for write in here.writes()] == [[], ["e3"]]
    assert len(here.effects()) == 2


@in_town(
    world(happening("e1", campaign_event_series=["e2"]), happening("e2")),
    rule("[{series_add: [e2]}, {series_remove: [e3]}]"),
)
async def test_what_is_in_the_series_already_is_not_added_again(here: Town) -> None:
    await here.run(6)
    fires(here)
    await here.until(lambda: here.states() == ["skipped", "skipped"], "so already")
    assert here.twin.books.writes_sent == 0


# --- other dialects ------------------------------------------------------------------------------------------------


def test_clusters_are_edited_where_a_published_setup_answers_404(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(6)
        fires(here)
        await here.until(lambda: here.states() == ["confirmed"], "published, told from the campaigns")

    twin = TwinSettings(setup_after_publish="absent", campaigns_shape="items")
    do = "[{edit_cluster: {tc: cluster 1, tc_run_id: 1, budget: 20}}]"
    said = {"setup.after_publish": "absent", "campaigns.items": "items"}
    plays(script, tmp_path, world(published("e1", 1)), rule(do), twin=twin, assumptions=said)
