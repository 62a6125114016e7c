"""Presence is proof, absence is not: lists in pages, names that are kept otherwise, rounded numbers, a late refusal."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.worlds import PARTNER, Town, draft, happening, in_town, plays, world
from worker.model.facts import Json
from worker.sandbox.changes import EventChange
from worker.sandbox.settings import TwinSettings, changed_settings
from worker.sandbox.world import Happening

ITEMS = {"campaigns.items": "items"}
PAGED: Mapping[str, Json] = {"campaigns_shape": "page", "campaigns_limit": 2}
PATH = "/campaigns/$"


def rule(do: str, when: str = "event.status == 'cancelled'") -> str:
    return f"rules:\n  - id: r\n    when: {when}\n    do: {do}\n"


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


@dataclass(frozen=True, kw_only=True)
class End:
    """What became of the writes, and of the first of them; ``sent``: requests on the wire."""

    states: list[str]
    reasons: list[str]
    held_by: str | None
    why: str
    sent: int
    effects: int


def played(
    folder: Path,
    place: Happening,
    rules: str,
    settings: Mapping[str, Json],
    *,
    tells: Mapping[str, Any] | None = None,
    fault: Mapping[str, Any] | None = None,
    seconds: float = 1200.0,
) -> End:
    """The rule fires, the first write meets the fault, and much time goes by."""

    async def script(here: Town) -> None:
        await here.run(6)
        if fault is not None:
            here.fault(fault["kind"], fault["method"], fault["path"], **fault.get("params", {"status": 429}))
        fires(here)
        await here.run(seconds)
        writes = here.writes()
        ends.append(
            End(
                states=here.states(),
                reasons=[write.reason for write in writes],
                held_by=writes[0].held_by,
                why=writes[0].why,
                sent=here.twin.books.writes_sent,
                effects=len(here.effects()),
            )
        )

    ends: list[End] = []
    plays(script, folder, world(place), rules, twin=changed_settings(TwinSettings(), settings), assumptions=tells)
    return ends[0]


LOST: Mapping[str, Any] = {"kind": "answer_after", "method": "POST", "path": PATH}
UNHEARD: Mapping[str, Any] = {"kind": "answer_before", "method": "POST", "path": PATH}


# --- lists in pages ------------------------------------------------------------------------------------------------


def test_a_campaign_on_the_second_page_is_not_created_again(tmp_path: Path) -> None:
    end = played(tmp_path, with_campaigns("a", "b", "jazz"), create(), PAGED, tells=ITEMS, seconds=60)
    assert (end.states, end.reasons) == (["skipped"], ["already_so"])
    assert end.sent == 0


@pytest.mark.parametrize("other", ["jazz\u00e9 ", "jazze\u0301"], ids=["a blank", "an accent of its own"])
def test_two_rules_that_spell_one_cluster_otherwise_start_one_campaign(tmp_path: Path, other: str) -> None:
    rules = create("jazz\u00e9") + create(other).replace("rules:\n", "").replace("id: r", "id: s")
    end = played(tmp_path, happening("e1"), rules, {}, seconds=60)
    assert (end.states, end.reasons) == (["confirmed", "skipped"], ["read", "already_so"])
    assert (end.sent, end.effects) == (1, 1)


def test_a_campaign_that_was_started_in_secret_is_found_on_the_last_page(tmp_path: Path) -> None:
    end = played(tmp_path, with_campaigns("a", "b", "c", "d"), create(), PAGED, tells=ITEMS, fault=LOST, seconds=60)
    assert end.states == ["confirmed"]
    assert end.sent == 1


def test_a_campaign_that_no_page_shows_is_started_once_more(tmp_path: Path) -> None:
    end = played(tmp_path, with_campaigns("a", "b", "c"), create(), PAGED, tells=ITEMS, fault=UNHEARD, seconds=120)
    assert end.states == ["confirmed"]
    assert (end.sent, end.effects) == (2, 1)


@pytest.mark.parametrize(
    ("settings", "tells", "why"),
    [
        ({**PAGED, "page_parameter": "p"}, ITEMS, "see the assumption events.page_parameter"),
        ({"campaigns_shape": "limited", "campaigns_limit": 2}, ITEMS, "as long as its limit of 2"),
    ],
)
def test_where_the_rest_of_the_list_cannot_be_had_no_campaign_is_started(
    tmp_path: Path, settings: dict[str, Json], tells: dict[str, Any], why: str
) -> None:
    end = played(tmp_path, with_campaigns("a", "b", "jazz"), create(), settings, tells=tells, seconds=60)
    assert (end.states, end.held_by) == (["planned"], "target_unreadable")
    assert end.sent == 0
    assert why in end.why


def test_what_a_part_of_the_list_shows_is_there(tmp_path: Path) -> None:
    settings: dict[str, Json] = {"campaigns_shape": "limited", "campaigns_limit": 2}
    end = played(tmp_path, with_campaigns("a", "jazz", "b"), create(), settings, tells=ITEMS, seconds=60)
    assert (end.states, end.reasons) == (["skipped"], ["already_so"])


def test_a_list_cut_off_at_twenty_in_silence_holds_a_new_campaign_back(tmp_path: Path) -> None:
    end = played(tmp_path, many(25), create("cluster 22"), {"campaigns_limit": 20}, seconds=60)
    assert (end.states, end.held_by) == (["planned"], "target_unreadable")
    assert end.sent == 0


def test_a_campaign_that_a_list_cut_off_in_silence_never_shows_is_not_sent_again(tmp_path: Path) -> None:
    end = played(tmp_path, many(10), create(), {"campaigns_limit": 10}, fault=LOST)
    assert (end.states, end.reasons) == (["needs_human"], ["no_evidence"])
    assert end.sent == 1


def test_a_condition_on_a_list_that_is_not_whole_is_unknown(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(30)
        assert here.log("fired") == []
        change = EventChange(event="e1", partner=PARTNER, campaigns=[{"tc": "a", "tc_run_id": 7}])
        here.twin.change(change, here.loop.time())
        await here.until(lambda: len(here.log("fired")) == 1, "a list that is whole by its own word")

    rules = rule("[pause]", "size(campaigns) > 0 && !campaigns.exists(c, c.tc == 'jazz')")
    settings = changed_settings(TwinSettings(), {"campaigns_shape": "limited", "campaigns_limit": 2})
    plays(script, tmp_path, world(with_campaigns("a", "b", "jazz")), rules, twin=settings, assumptions=ITEMS)


@in_town(world(many(0)), create())
async def test_a_list_that_has_gained_another_campaign_meanwhile_is_for_a_person_at_once(here: Town) -> None:
    await here.run(6)
    here.fault("answer_before", "POST", PATH, status=429)
    fires(here)
    await here.until(lambda: here.states() == ["unknown"], "sent, and nobody knows")
    change = EventChange(event="e1", partner=PARTNER, campaigns=[{"tc": "Jazz Club", "tc_run_id": 7}])
    here.twin.change(change, here.loop.time())
    await here.until(lambda: here.states() == ["needs_human"], "a third value", 30)
    assert here.only.reason == "other_value"
    assert here.twin.books.writes_sent == 1


# --- names and texts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelling", "state"), [("trimmed", "confirmed"), ("decomposed", "confirmed"), ("lower", "needs_human")]
)
def test_a_campaign_that_is_kept_in_another_spelling_is_started_once(tmp_path: Path, spelling: str, state: str) -> None:
    end = played(tmp_path, many(0), create("Caf\u00e9 "), {"text_spelling": spelling}, fault=LOST)
    assert end.states == [state]
    assert end.sent == 1


@pytest.mark.parametrize("spelling", ["trimmed", "decomposed", "lower"])
def test_a_campaign_that_is_there_in_another_spelling_is_not_started_again(tmp_path: Path, spelling: str) -> None:
    there = {"trimmed": "Caf\u00e9", "decomposed": "Cafe\u0301 ", "lower": "caf\u00e9 "}[spelling]
    end = played(tmp_path, with_campaigns(there), create("Caf\u00e9 "), {}, seconds=60)
    assert (end.states, end.held_by) in [(["skipped"], None), (["planned"], "target_unreadable")]
    assert end.sent == 0


def test_a_campaign_that_is_booked_under_the_newest_run_is_started_once(tmp_path: Path) -> None:
    place = replace(many(0), tc_run_id=9)
    end = played(tmp_path, place, create(run=7), {"campaign_run": "newest"}, fault=LOST)
    assert (end.states, end.reasons) == (["needs_human"], ["other_value"])
    assert end.sent == 1


@pytest.mark.parametrize(("there", "wanted", "sent"), [(9, 7, 0), (7, 9, 1)])
def test_a_campaign_of_a_newer_run_may_be_the_one_and_one_of_an_older_run_is_another(
    tmp_path: Path, there: int, wanted: int, sent: int
) -> None:
    end = played(tmp_path, with_campaigns("jazz", run=there), create(run=wanted), {}, seconds=60)
    assert end.states == (["confirmed"] if sent else ["planned"])
    assert end.sent == sent


@pytest.mark.parametrize(("spelling", "state"), [("trimmed", "confirmed"), ("lower", "needs_human")])
def test_a_text_of_a_draft_that_is_kept_in_another_spelling_is_written_once(
    tmp_path: Path, spelling: str, state: str
) -> None:
    place = draft("e1")
    place = replace(place, setup={**(place.setup or {}), "name": "summer"})
    fault = {**LOST, "method": "PUT", "path": "/setup_processes/"}
    do = rule("[{update_draft: {extra: {name: 'Summer '}}}]")
    end = played(tmp_path, place, do, {"text_spelling": spelling}, fault=fault)
    assert end.states == [state]
    assert end.sent == 1


# --- numbers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lost", "ends"), [(True, ["needs_human"]), (False, ["unconfirmed"])])
def test_a_budget_that_is_shown_rounded_as_it_was_before_is_sent_once(
    tmp_path: Path, lost: bool, ends: list[str]
) -> None:
    fault = {**LOST, "method": "PUT", "path": "/setup_processes/"} if lost else None
    do = rule("[{update_draft: {total_budget: 500.4}}]")
    end = played(tmp_path, draft("e1", total_budget=500), do, {"numbers_shown": "whole"}, fault=fault)
    assert end.states == ends
    assert end.sent == 1


def test_a_clusters_budget_that_is_shown_rounded_is_sent_once(tmp_path: Path) -> None:
    place = replace(draft("e1"), published=True, campaigns=({"tc": "jazz", "tc_run_id": 7, "budget": 120},))
    fault = {**LOST, "path": "/campaigns_setup$"}
    do = rule("[{edit_cluster: {tc: jazz, tc_run_id: 7, budget: 119.5}}]")
    end = played(tmp_path, place, do, {"numbers_shown": "whole"}, fault=fault)
    assert end.states == ["needs_human"]
    assert end.sent == 1


# --- a refusal after the effect ------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [200, 429])
@in_town(
    world(replace(draft("e1"), published=True, campaigns=({"tc": "jazz", "tc_run_id": 7, "budget": 100},))),
    rule("[{edit_cluster: {tc: jazz, tc_run_id: 7, budget: 120}}]"),
)
async def test_a_clusters_budget_that_is_shown_as_a_text_is_confirmed(here: Town, answer: int) -> None:
    await here.run(6)
    here.fault("answer_after", "POST", "/campaigns_setup$", status=answer)
    fires(here)
    await here.until(lambda: here.effects() != [], "sent")
    here.fault("wrong_types", "GET", "/campaigns$", times=1000, fields={"budget": "120.00"})
    await here.until(lambda: here.only.final, "settled")
    assert (here.only.state, here.only.attempt) == ("confirmed", 1), here.story()


@pytest.mark.parametrize("status", [401, 403])
@in_town(world(many(2)), create())
async def test_a_refusal_of_what_spends_proves_nothing_where_reads_lag(here: Town, status: int) -> None:
    """It was taken for not sent: the read before the next attempt, a little old, did not show the campaign, and it was
    created twice."""
    await here.run(6)
    here.fault("answer_after", "POST", PATH, status=status)
    here.fault("stale_reads", "GET", "/events/e1/campaigns$", times=4, by_s=20.0)
    fires(here)
    await here.run(1200)
    assert here.states() == ["confirmed"], here.story()
    assert here.twin.books.repeated == (), here.story()
    assert len(here.effects()) == 1, here.story()


EDITED = (
    "[{write: {method: PUT, host: cr, path: '/events/{eid}', query: {event_type: concert, partner_product: campaign}}}]"
)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(
    ("do", "path", "states"),
    [
        ("[reset_setup]", "/reset_campaigns_setup$", ["needs_human"]),
        ("[{frontend_status: HIDDEN}]", "/last_updated_on_fe/", ["confirmed", "needs_human"]),
        (EDITED, "/events/e1$", ["needs_human"]),
    ],
)
def test_a_refusal_of_a_token_that_had_just_worked_proves_nothing_of_what_no_read_shows(
    tmp_path: Path, do: str, path: str, states: list[str], status: int
) -> None:
    fault = {"kind": "answer_after", "method": "PUT", "path": path, "params": {"status": status}}
    end = played(tmp_path, draft("e1"), rule(do), {}, fault=fault, seconds=120)
    assert (end.states, end.reasons[-1]) == (states, "no_readback")
    assert end.sent == len(states)
