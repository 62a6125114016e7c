"""What is sent is a value of its parameter, and what is money counts, whatever its key is called."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import spending
from tests.engine.test_actions import rule
from tests.engine.test_again import again
from tests.worlds import Town, draft, happening, in_town, world
from worker.engine.views import DecidingSettings as Deciding
from worker.messages import note_of
from worker.model.writes import Mode
from worker.sandbox.world import Happening


def of(do: str) -> str:
    """A rule of one action."""
    return rule(f"[{{{do}}}]")


def other(do: str) -> str:
    """One more rule of one action."""
    return f"  - {{id: other, when: event.status == 'cancelled', do: [{{{do}}}]}}\n"


NO_NUMBER = "update_draft: {total_budget: '=event.title'}"
WANTED = "[{update_draft: {total_budget: \"=event['wanted']\"}}]"


def published(**fields: Any) -> Happening:  # noqa: ANN401 - fields of the twin's event
    return replace(draft("e1", **fields), published=True, campaigns=({"tc": "a", "tc_run_id": 1, "budget": 10},))


async def fires(here: Town, seconds: float = 30) -> None:
    await here.run(6)
    await here.becomes("e1", seconds, status="cancelled")


def kinds(here: Town) -> list[str]:
    return [one["kind"] for one in here.log() if one["rule"] == "r" and one["kind"] != "observed"]


@pytest.mark.parametrize(
    ("do", "said"),
    [
        ("edit_cluster: {tc: a, tc_run_id: 1, budget: \"='99999'\"}", "the text '99999', and must be a number"),
        ("edit_cluster: {tc: a, tc_run_id: 1, budget: '=1e308 * 10.0'}", "budget is inf, which is not finite"),
        ("edit_cluster: {tc: '=event.capacity', tc_run_id: 1, budget: 5}", "tc is 400.0, and must be a text"),
        ("edit_cluster: {tc: a, tc_run_id: 1, extra: {x: {y: ['=1e308 * 10.0']}}}", "x is {'y': [inf]}, which is not"),
        ("update_draft: {total_budget: '=event.capacity * 0.0'}", "total_budget is 0.0, and must be a number above 0"),
        ("update_draft: {tcs: [rock, '=event.capacity']}", "tcs is ['rock', 400.0], and must be a list of texts"),
        ("frontend_status: '=event.city'", "value is the text 'Leipzig', and is one of DEFAULT"),
        ("series_add: ['=event.capacity']", "value is [400.0], and must be a list of event ids"),
        ("update_draft: {extra: {daily_budget: \"='99,999'\"}}", "daily_budget has money as the text '99,999'"),
        ("notify: '=event.capacity'", "text is 400.0, and must be a text"),
        (
            "write: {method: PUT, host: cr, path: '/events/{eid}', query: '=event.city', spends: false}",
            "query is the text 'Leipzig', and must be a mapping",
        ),
    ],
)
@in_town(world(published()), of, limits=spending(per_event=1000.0))
async def test_a_computed_value_of_the_wrong_type_is_refused_and_nothing_is_sent(here: Town, said: str) -> None:
    await fires(here, 120)
    assert set(here.states()) == {"refused"}, here.story()
    assert {one.reason for one in here.writes()} == {"bad_value"}
    assert said in here.writes()[0].why
    assert kinds(here)[:2] == ["fired", "refused"]
    assert len(here.log("refused")) == len(here.writes()), "said once, and nothing is tried for ever"
    told = note_of(here.log("refused")[0], frozenset({"refused"}))
    assert told is not None, "whoever asked to be told of refusals is"
    assert said in told.text
    assert here.twin.books.writes_sent == 0
    assert here.texts == []


@pytest.mark.parametrize("mode", ["shadow", "approve", "live"])
@in_town(
    world(happening("e1")),
    rule('[{create_draft: {goal: ROAS, total_budget: "=event.title"}}, boost]'),
    deciding=lambda mode: Deciding(mode=mode),
)
async def test_a_value_is_judged_in_every_mode(here: Town, mode: Mode) -> None:
    await fires(here)
    after = "skipped" if mode == "live" else "shadowed" if mode == "shadow" else "waiting"
    assert here.states() == ["refused", after], "and what comes after it is not sent"
    assert here.twin.books.writes_sent == 0


@in_town(world(draft("e1", wanted="much")), rule(WANTED) + other("update_draft: {goal: VISIBILITY}"))
async def test_a_refused_value_blocks_nobody_and_its_rule_fires_again_when_asked(here: Town) -> None:
    await fires(here)
    await here.until(lambda: "confirmed" in here.states(), "another rule's write on the same target goes out")
    assert sorted(here.states()) == ["confirmed", "refused"]
    await here.becomes("e1", 30, wanted=600)
    assert sorted(here.states()) == ["confirmed", "refused"], "the episode counts as fired"
    again(here)
    await here.until(lambda: here.states().count("confirmed") == 2, "with the number that the field has now")
    assert here.effects()[-1].after["total_budget"] == 600


@in_town(world(draft("e1")), of(NO_NUMBER) + other(NO_NUMBER))
async def test_two_rules_with_the_same_wrong_value_are_refused_each_for_itself(here: Town) -> None:
    await fires(here)
    assert here.states() == ["refused", "refused"]
    assert [one.rules for one in here.writes()] == [("other",), ("r",)]


@in_town(world(draft("e1", wanted="much")), rule(WANTED, head="repeat: enforce\n    cooldown: 1m"))
async def test_an_enforced_rule_stops_at_a_refused_value(here: Town) -> None:
    await fires(here, 300)
    assert here.states() == ["refused"]
    await here.becomes("e1", 300, wanted=700)
    assert here.states() == ["refused"], "until the value was there once, or the condition was false"


@pytest.mark.parametrize(
    ("do", "why"),
    [
        ("edit_cluster: {tc: a, tc_run_id: 1, extra: {bid: '=event.special_ad_category'}}", "is null"),
        ("edit_cluster: {tc: a, tc_run_id: 1, budget: \"=event['nothing']\"}", "event has no field 'nothing'"),
        ("update_draft: {total_budget: '=event.capacity / (event.capacity - 400.0)'}", "divided by 0"),
    ],
)
@in_town(world(published()), of)
async def test_a_value_that_is_not_known_is_held_until_the_episode_closes(here: Town, why: str) -> None:
    await fires(here, 60)
    assert here.writes() == []
    (held,) = here.log("held")
    assert (held["reason"], why in held["why"]) == ("fact_unknown", True), held["why"]
    await here.becomes("e1", 30, status="active")
    assert here.twin.books.writes_sent == 0


MORE_MONEY = {"eid": "{eid}", "tc": "{tc}", "tc_run_id": "{tc_run_id}", "daily_budget": "5000"}


@pytest.mark.parametrize(
    "do",
    [
        "edit_cluster: {tc: a, tc_run_id: 1, extra: {daily_budget: 99999}}",
        "edit_cluster: {tc: a, tc_run_id: 1, budget: 600, extra: {bid-cap: 600}}",
        "edit_cluster: {tc: a, tc_run_id: 1, extra: {targeting: [{maxPrice: \"='99999'\"}]}}",
        "create_campaign: {tc: b, tc_run_id: 1, extra: {spendCap: 99999}}",
        "write: {method: PUT, host: cr, path: '/events/{eid}', body: [{cost: {value: 99999}}]}",
        "create_campaign: {tc: by assumption, tc_run_id: 1}",
    ],
)
@in_town(
    world(published()),
    of,
    limits=spending(per_event=1000.0),
    assumptions=lambda do: {"create_campaign.query": MORE_MONEY} if "by assumption" in do else None,
)
async def test_money_under_any_name_counts_for_the_limit(here: Town) -> None:
    await fires(here)
    assert (here.only.state, here.only.held_by) == ("planned", "spend"), here.story()
    assert here.twin.books.writes_sent == 0


@in_town(
    world(draft("e1")),
    of("update_draft: {extra: {pacing: {daily_cap: 50}}}") + other("update_draft: {extra: {capacity: 50}}"),
)
async def test_a_draft_that_is_changed_spends_where_any_money_is_in_it(here: Town) -> None:
    await fires(here)
    assert {one.key.rule: one.intent.spends for one in here.writes()} == {"r": True, "other": False}


@in_town(
    world(draft("e1")),
    rule(
        "[{update_draft: {goal: VISIBILITY, extra: {note: {by: r}, bid_cap: 2}}},"
        " {create_campaign: {tc: b, tc_run_id: 1, extra: {daily_budget: 50}}}]"
    ),
)
async def test_what_stands_under_extra_is_sent_beside_the_others(here: Town) -> None:
    await here.cancelled("confirmed", "confirmed")
    bodies = [one["request"] for one in here.log("sending")]
    assert bodies[0]["body"] == {"goal": "VISIBILITY", "note": {"by": "r"}, "bid_cap": 2}
    assert "tc=b&tc_run_id=1&daily_budget=50" in bodies[1]["url"]


@pytest.mark.parametrize(
    ("value", "sent"), [('"=1000.0 / 3.0"', 333.33), ('"=500.005"', 500.01), ("500.005", 500.01), ("600", 600.0)]
)
@in_town(world(draft("e1")), lambda value: of(f"update_draft: {{total_budget: {value}}}"))
async def test_a_budget_is_planned_in_whole_cents(here: Town, sent: float) -> None:
    await here.cancelled("confirmed")
    assert [one.after["total_budget"] for one in here.effects()] == [sent]
