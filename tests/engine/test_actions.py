"""Every action through the twin: what it writes, what shows it, and what becomes of it when an answer is lost."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import cases
from tests.worlds import CAMPAIGN, PARTNER, QUICK, Town, draft, happening, in_town, rules_of, world
from worker.engine.operators import approved
from worker.guards import Limits
from worker.model.facts import RuleId
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


def setup_of(here: Town) -> dict[str, object]:
    return dict(here.event().setup or {})


# --- drafts --------------------------------------------------------------------------------------------------------


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
@in_town(lambda place: world(place, more=()), rule)
async def test_what_the_service_would_not_take_is_refused_and_not_sent(here: Town, reason: str) -> None:
    await here.cancelled("refused")
    assert here.only.reason == reason
    assert here.twin.books.writes_sent == 0


TWO_CHANGES = """
rules:
  - {id: a, when: event.status == 'cancelled', do: [{update_draft: {total_budget: 750}}]}
  - {id: b, when: event.status == 'cancelled', do: [{update_draft: {goal: VISIBILITY}}]}
"""


@in_town(world(draft("e1")), TWO_CHANGES)
async def test_changes_of_a_draft_go_one_after_the_other_and_a_slow_one_is_never_cut_off(here: Town) -> None:
    here.fault("slow", "PUT", "/setup_processes/", delay_s=9.0)
    await here.cancelled("confirmed", "confirmed")
    puts = [one for one in here.twin.books.requests if one.method == "PUT"]
    assert [one.fault for one in puts] == ["slow", None]
    assert puts[1].at_s >= puts[0].at_s + 9, "the second left after the first was answered"
    assert setup_of(here) == {"goal": "VISIBILITY", "total_budget": 750}
    assert [one.status for one in puts] == [200, 200], "nobody hung up on the slow one"


@in_town(world(draft("e1")), TWO_CHANGES, watched=6)
async def test_an_older_change_of_a_draft_that_is_held_is_not_overtaken_by_a_newer_one(here: Town) -> None:
    here.halt(rule=RuleId("a"))
    await here.becomes("e1", 30, status="cancelled")
    assert here.effects() == []
    held = {write.key.rule: write.held_by for write in here.writes()}
    assert held == {"a": "halt", "b": "target_busy"}
    here.resume(rule=RuleId("a"))
    await here.until(lambda: here.states() == ["confirmed", "confirmed"], "in their order")
    assert [one.after["goal"] for one in here.effects()] == ["ROAS", "VISIBILITY"], "the older one first"


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


def of_state(here: Town, state: str) -> set[str]:
    """The items whose writes are in this state."""
    return {write.key.item for write in here.writes() if write.state == state}


@in_town(world(published()), EACH, limits=Limits(writes_per_hour=1))
async def test_what_was_added_and_is_held_still_is_added_at_the_next_change_and_under_another_text(here: Town) -> None:
    here.suggest("e1", 1)
    await here.run(9)
    here.suggest("e1", 1, 2, 3)
    await here.until(lambda: sorted(here.states()) == ["confirmed", "planned"], "one write an hour")
    sent, left = of_state(here, "confirmed"), of_state(here, "planned")
    here.suggest("e1", 1, 2, 3, 4)
    await here.run(9)
    assert of_state(here, "planned") == left | {"cluster 4:4"}
    here.suggest("e1", 1, 2, 3)
    await here.run(9)
    assert of_state(here, "planned") == left
    here.use(EACH.replace("10.0", "20.0"))
    await here.run(9)
    assert (of_state(here, "planned"), of_state(here, "cancelled")) == (left, left)
    here.suggest("e1", 1, *(int(item[-1]) for item in sent))
    await here.run(9)
    assert (of_state(here, "planned"), of_state(here, "confirmed")) == (set(), sent)


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
    here.change("e1", clusters=clusters, tc_run_id=4)
    await here.run(9)
    here.change("e1", clusters=[*clusters, jazz], tc_run_id=5)
    await here.until(lambda: here.states() == ["confirmed"], "the added one is edited")
    assert [one.target for one in here.effects("edit_cluster")] == ["campaign:jazz & soul/blues:5"]


# --- what cannot be read back --------------------------------------------------------------------------------------

WITHOUT_CONFIRM = """
      - write:
          {method: PUT, host: cr, path: "/events/{eid}", query: {event_type: concert, partner_product: campaign}}"""
ANSWERS: dict[Kind, dict[str, Any]] = {"slow": {"delay_s": 1}, "answer_after": {"status": 429}, "cut_before": {}}


@pytest.mark.parametrize("kind", ANSWERS)
@cases(
    "do, path, before",
    ("[reset_setup]", "/reset_campaigns_setup$", [], "reset_setup"),
    ("[{frontend_status: HIDDEN}]", "/last_updated_on_fe/", ["confirmed"], "frontend_status"),
    (WITHOUT_CONFIRM, "^/events/e1$", [], "a write without confirm"),
)
@in_town(world(draft("e1")), rule)
async def test_what_no_read_shows_is_for_its_answer_or_a_person(
    here: Town, path: str, before: list[str], kind: Kind
) -> None:
    here.fault(kind, "PUT", path, **ANSWERS[kind])
    end, told = ("confirmed", ("answer", "answer")) if kind == "slow" else ("needs_human", ("no_readback", None))
    await here.cancelled(*before, end)
    sent = here.twin.books.writes_sent
    await here.run(60)
    assert (here.states(), here.twin.books.writes_sent) == ([*before, end], sent), (
        "and it is never sent again by itself"
    )
    assert (here.writes()[-1].reason, here.writes()[-1].confirmed_by) == told


@in_town(world(happening("e1")), rule("[{frontend_status: HIDDEN}]"), watched=6)
async def test_the_second_half_of_a_pair_goes_only_while_the_first_is_seen_as_it_was_set(here: Town) -> None:
    """The service's rule: CANCELLED where the event is, and only there. Somebody cancels it between the two."""
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states()[:1] == ["applied"], "the first is sent")
    here.halt()
    await here.until(lambda: here.states() == ["confirmed", "planned"], "and seen")
    here.set("e1", by="person", frontend_status="CANCELLED")
    here.resume()
    await here.run(30)
    assert (here.states(), here.writes()[1].held_by) == (["confirmed", "planned"], "no_longer_holds")
    here.set("e1", by="person", frontend_status="HIDDEN")
    await here.until(lambda: here.states() == ["confirmed", "confirmed"], "and once it is so again")


# --- series --------------------------------------------------------------------------------------------------------


@in_town(
    world(happening("e1", campaign_event_series=["e3", "e9"]), happening("e2"), happening("e3")),
    rule("[{series_add: [e2]}, {series_remove: [e3]}]"),
)
async def test_events_join_a_series_and_leave_it(here: Town) -> None:
    here.fault("answer_after", "POST", "/series$", status=429)
    here.fault("answer_before", "DELETE", "/series$", status=503)
    await here.cancelled("confirmed", "confirmed")
    assert here.event().record["campaign_event_series"] == ["e9", "e2"]
    assert [write.before for write in here.writes()] == [[], ["e3"]]
    assert len(here.effects()) == 2


# --- other dialects ------------------------------------------------------------------------------------------------


@in_town(
    world(published("e1", 1)),
    rule("[{edit_cluster: {tc: cluster 1, tc_run_id: 1, budget: 20}}]"),
    twin=TwinSettings(setup_after_publish="absent", campaigns_shape="items"),
    assumptions={"setup.after_publish": "absent", "campaigns.items": "items"},
)
async def test_clusters_are_edited_where_a_published_setup_answers_404(here: Town) -> None:
    await here.cancelled("confirmed")


EDIT = """
rules:
  - id: r
    when: event.status == 'cancelled'
    do:
      - write:
          host: cr
          method: PUT
          path: /events/{eid}
          query: {event_type: concert, partner_product: campaign, hall_name: "closed for {client_id}"}
          spends: false
        confirm: {get: "/events/{eid}", when: response.hall_name.startsWith('closed')}
"""
CLEAR = """
rules:
  - id: r
    when: event.status == 'cancelled'
    do: [{write: {method: DELETE, path: /daily_revenue_summary, query: {eid: "{eid}"}}}]
"""


@pytest.mark.parametrize(
    ("kind", "params", "sent"),
    [
        ("slow", {"delay_s": 1}, 1),
        ("answer_after", {"status": 429}, 1),
        ("answer_before", {"status": 429}, 2),
        ("cut_after", {}, 1),
        ("late_effect", {"status": 503, "after_s": 12.0}, 1),
    ],
)
@in_town(world(happening("e1")), EDIT)
async def test_a_write_with_confirm_takes_effect_once(
    here: Town, kind: Kind, params: dict[str, object], sent: int
) -> None:
    here.fault(kind, "PUT", "^/events/e1$", **params)
    await here.cancelled("confirmed")
    assert here.event().record["hall_name"] == f"closed for client of {PARTNER}"
    assert (here.only.confirmed_by, here.only.intent.spends) == ("read", False)
    assert (here.twin.books.writes_sent, len(here.effects())) == (sent, 1)
    assert here.only.before["when"] is False  # type: ignore[index,call-overload]


@cases(
    "event, rules",
    (happening("e1", hall_name="closed"), EDIT, "a confirm that is true"),
    (happening("e1", campaign_event_series=["e2"]), rule("[{series_add: [e2]}]"), "an event in the series"),
    (happening("e1", campaign_event_series=["e2"]), rule("[{series_remove: [e3]}]"), "an event that is in no series"),
)
@in_town(lambda event: world(event, happening("e2")), lambda rules: rules)
async def test_what_is_so_already_is_not_sent(here: Town) -> None:
    await here.cancelled("skipped")
    assert (here.only.reason, here.twin.books.writes_sent) == ("already_so", 0)


@in_town(world(happening("e1", hall_name=7)), EDIT)
async def test_a_write_whose_confirm_cannot_be_judged_is_held(here: Town) -> None:
    await here.cancelled("planned")
    await here.run(30)
    assert (here.states(), here.only.held_by) == (["planned"], "target_unreadable")
    assert "startsWith" in here.only.why, "a number does not start with anything"
    here.set("e1", hall_name="Halle A")
    await here.until(lambda: here.states() == ["confirmed"], "once it can")


@in_town(
    world(happening("e1")),
    EDIT.replace('get: "/events/{eid}", when: response.hall_name', 'get: "/nowhere/{eid}", when: response.x'),
)
async def test_what_confirm_does_not_find_is_not_there_only_if_the_event_answers(here: Town) -> None:
    here.fault("answer_before", "PUT", "^/events/e1$", status=429, times=9)
    await here.cancelled("needs_human")
    assert (here.only.reason, here.only.attempt) == ("attempts", 3)
    assert here.effects() == []


@in_town(world(happening("e1")), CLEAR)
async def test_a_delete_waits_for_a_person_in_live_mode_too(here: Town) -> None:
    await here.cancelled("waiting")
    await here.run(30)
    assert (here.only.reason, here.twin.books.writes_sent) == ("delete", 0)
    here.decide(approved)
    await here.until(lambda: here.states() == ["confirmed"], "and then it goes")
    assert [one.operation for one in here.effects()] == ["clear_sales"]


# --- messages ------------------------------------------------------------------------------------------------------


@in_town(
    world(happening("e1")),
    rules_of("{id: r, when: event.status == 'cancelled', do: [pause, {notify: \"=event.title + ' is paused'\"}]}"),
)
async def test_a_message_goes_out_once_after_the_step_before_it_is_confirmed(here: Town) -> None:
    here.fault("answer_after", "PUT", CAMPAIGN, status=429)
    await here.cancelled("confirmed", "confirmed")
    assert (here.texts, here.messages[0]["event"], here.messages[0]["rule"]) == (["Event e1 is paused"], "e1", "r")
    confirmed = [one["write"] for one in here.log("confirmed")]
    assert confirmed == [1, 2]
    assert here.twin.books.writes_sent == 1, "a message asks nothing of the service"
    assert here.writes()[1].confirmed_by == "answer"
    request = next(one["request"] for one in here.log("sending") if one["write"] == 2)
    assert request == {"method": "NOTIFY", "url": "message", "body": "Event e1 is paused"}


@in_town(
    world(happening("e1")),
    "rules:"
    + "".join(f"\n  - {{id: {one}, when: event.status == 'cancelled', do: [{{notify: look}}]}}" for one in "abc"),
    settings=replace(QUICK, limits=Limits(writes_per_hour=1)),
)
async def test_rules_with_the_same_message_have_each_their_own_and_no_limit_of_writes_counts_it(here: Town) -> None:
    await here.cancelled(*["confirmed"] * 3)
    assert sorted(one["rule"] for one in here.messages) == ["a", "b", "c"]
