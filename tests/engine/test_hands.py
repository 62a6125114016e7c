"""More than one hand on a target: rules, a person, the service; a stop has the last word over what may still land."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.builders import cases
from tests.engine.test_each import BUDGETS, budgets, published
from tests.worlds import CAMPAIGN, PARTNER, Town, draft, happening, in_town, rules_of, world
from worker.model.facts import RuleId
from worker.sandbox.faults import Kind
from worker.sandbox.world import Happening

STATUS = "client_campaign_status"
STOP = "{id: stop, when: event.status == 'cancelled', do: [pause]%s}"
GO = "{id: go, when: event.frontend_status == 'FLAGGED', do: [run]%s}"


@cases(
    "stop, go, together, value",
    ("", "", True, "PAUSED", "a tie in one look"),
    ("", "", False, "PAUSED", "a tie in later looks"),
    ("", ", priority: 1", True, "RUNNING", "priority in one look"),
    ("", ", priority: 1", False, "RUNNING", "priority in later looks"),
)
@in_town(
    world(happening("e1", client_campaign_status="IDLE")), lambda stop, go: rules_of(STOP % stop, GO % go), watched=6
)
async def test_of_two_opposite_wishes_one_is_done_once_and_the_other_held(
    here: Town, together: bool, value: str
) -> None:
    here.set("e1", frontend_status="FLAGGED")
    if not together:
        await here.run(12)
    await here.becomes("e1", 60, status="cancelled")
    assert here.event().record[STATUS] == value
    assert here.twin.books.repeated == ()
    sent = [one.after for one in here.effects()]
    assert sent == (["RUNNING", "PAUSED"] if value == "PAUSED" and not together else [value]), "and no to and fro"
    loser = "go" if value == "PAUSED" else "stop"
    if together or value == "RUNNING":
        assert [one["reason"] for one in here.log("held") if one["rule"] == loser][-1] == "conflict"
    if value == "RUNNING":
        here.set("e1", frontend_status="DEFAULT")
        await here.until(lambda: here.effects()[-1].after == "PAUSED", "the loser acts once the other has ended")


@in_town(
    world(happening("e1")),
    rules_of(
        "{id: a, when: event.status == 'cancelled', do: [pause]}",
        "{id: b, when: event.frontend_status == 'CANCELLED', do: [pause], priority: 2}",
    ),
)
async def test_equal_wishes_are_one_write_of_the_highest_priority_and_both_firings_name_it(here: Town) -> None:
    await here.sees("confirmed", status="cancelled", frontend_status="CANCELLED")
    assert (here.only.key.rule, here.only.rules) == ("b", ("b", "a"))
    assert {one["rule"] for one in here.log("fired")} == {"a", "b"}
    assert len(here.effects()) == 1


@pytest.mark.parametrize(
    ("do", "path", "kind", "params"),
    [
        ("boost", "/boost$", "answer_before", {}),
        ("boost", "/boost$", "answer_after", {}),
        ("run", f"/{STATUS}$", "late_effect", {"after_s": 10.0}),
    ],
)
@in_town(
    lambda do: world(draft("e1", category="new", client_campaign_status="PAUSED" if do == "run" else "RUNNING")),
    lambda do: rules_of(
        f"{{id: first, when: event.category == 'new' && event.status == 'active', do: [{do}]}}", STOP % ""
    ),
)
async def test_a_pause_is_never_held_up_by_an_unknown_boost_or_run(
    here: Town, do: str, path: str, kind: Kind, params: dict[str, float]
) -> None:
    here.fault(kind, None, path, status=503, **params)
    here.fault("answer_before", "GET", "/setup_processes/", status=500, times=None, skip=1)
    await here.until(lambda: here.states() == ["unknown"], "nobody knows")
    here.set("e1", status="cancelled")
    await here.until(lambda: "PAUSED" in [one.after for one in here.effects()], "paused", limit=24)
    assert here.writes()[0].state == ("unknown" if do == "boost" else "confirmed")
    here.twin.faults.clear()
    await here.run(60)
    assert here.event().record[STATUS] == "PAUSED", "and so it stays"


def with_clusters(event: Happening, *tcs: str) -> Happening:
    """The event, with clusters that a boost starts campaigns for."""
    return replace(event, tc_run_id=7, clusters=tuple({"tc": tc, "tc_run_id": 7} for tc in tcs))


STOP_FIRST = """
rules:
  - {id: pause-cancelled, when: event.status == 'cancelled', priority: 10, do: [pause]}
  - {id: run-flagged, when: event.frontend_status == 'FLAGGED' && event.status == 'active', do: [run]}
"""


@pytest.mark.parametrize("late_s", [4.0, 9.0, 17.0])
@in_town(world(happening("e1", client_campaign_status="PAUSED")), STOP_FIRST)
async def test_a_late_run_that_lands_after_the_pause_is_paused_again(here: Town, late_s: float) -> None:
    here.fault("late_effect", "PUT", CAMPAIGN, status=429, after_s=late_s)
    await here.sees("unknown", frontend_status="FLAGGED")
    await here.becomes("e1", 120, status="cancelled")
    values = [one.after for one in here.effects()]
    assert values[-1] in ("PAUSED", {"client_campaign_status": "PAUSED"}), here.story()
    assert {write.state for write in here.writes()} <= {"confirmed", "skipped"}, here.story()
    if late_s == 17.0:
        assert [one["reason"] for one in here.log("held")] == ["target_busy"], here.story()
        landed, paused = here.log("confirmed")[0], here.log("sending")[1]
        assert seconds_between(landed, paused) <= here.settings.interval.total_seconds(), here.story()


@pytest.mark.parametrize(
    ("before", "held"), [(None, ["target_busy"]), ("PAUSED", ["target_busy"]), ("RUNNING", [])], ids=str
)
@in_town(
    world(draft("e1")),
    rules_of(
        "{id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}",
        "{id: boost-drafts, when: \"event.status == 'active' && setup.state == 'DRAFT'\", do: [boost]}",
    ),
)
async def test_a_late_boost_runs_nothing_of_a_cancelled_event(here: Town, before: str | None, held: list[str]) -> None:
    """A boost runs the event's campaigns: while one may still land, nothing is paused already, nor for good."""
    here.set("e1", client_campaign_status=before)
    here.fault("late_effect", "POST", "/boost$", status=429, after_s=15.0)
    await here.until(lambda: here.states() == ["unknown"], "the boost is unknown")
    await here.becomes("e1", 120, status="cancelled")
    assert here.event().record["client_campaign_status"] == "PAUSED", here.story()
    assert here.states() == ["confirmed", "confirmed"], here.story()
    assert [one["reason"] for one in here.log("held")] == held, here.story()
    assert len(here.effects("boost")) == 1
    if held:
        landed, paused = here.log("confirmed")[0], here.log("sending")[1]
        assert seconds_between(landed, paused) <= here.settings.interval.total_seconds(), "it goes at once"


BOOSTED_BESIDE = """
rules:
  - {id: boost-drafts, when: "event.status == 'active' && setup.state == 'DRAFT'", do: [boost]}
  - id: start-jazz
    when: event.frontend_status == 'FLAGGED'
    do: [{create_campaign: {tc: jazz, tc_run_id: 7}}]
"""


@in_town(world(with_clusters(draft("e1"), "jazz")), BOOSTED_BESIDE)
async def test_no_campaign_is_created_beside_a_boost_that_may_still_start_it(here: Town) -> None:
    """What a boost publishes starts a campaign for each cluster; one that is created beside it is a second one."""
    here.fault("late_effect", "POST", "/boost$", status=429, after_s=15.0)
    await here.until(lambda: here.states() == ["unknown"], "the boost is unknown")
    await here.becomes("e1", 120, frontend_status="FLAGGED")
    record = here.event()
    assert [one["tc"] for one in record.campaigns] == ["jazz"], here.story()
    assert here.states() == ["confirmed", "skipped"], here.story()
    assert [one["reason"] for one in here.log("held")] == ["target_busy"], here.story()


def seconds_between(first: dict[str, Any], then: dict[str, Any]) -> float:
    return (datetime.fromisoformat(then["at"]) - datetime.fromisoformat(first["at"])).total_seconds()


@in_town(world(happening("e1", client_campaign_status="PAUSED")), STOP_FIRST, ask=True, settle=timedelta(minutes=2))
async def test_a_pause_that_an_unknown_run_held_goes_on_at_once_after_a_person_settled_that(here: Town) -> None:
    here.fault("answer_before", "PUT", CAMPAIGN, status=500)
    await here.sees("needs_human", frontend_status="FLAGGED")
    here.set("e1", status="cancelled")
    await here.until(lambda: len(here.log("held")) == 1, "the pause is held")
    await here.run(9)
    here.resolve(here.writes()[0], applied=True)
    await here.until(lambda: here.states() == ["confirmed", "skipped"], "it is paused already", 30)
    settled, skipped = here.log("confirmed")[0], here.log("skipped")[0]
    assert seconds_between(settled, skipped) <= here.settings.interval.total_seconds(), here.story()


@in_town(
    world(happening("e1", client_campaign_status="PAUSED")), STOP_FIRST.replace(" && event.status == 'active'", "")
)
async def test_an_attempt_that_a_person_grants_waits_while_a_stronger_wish_stands(here: Town) -> None:
    """Found by the simulation: scene "stop overtakes", its first write with "hang after"."""
    here.fault("hang_after", "PUT", CAMPAIGN)
    await here.sees("sending", frontend_status="FLAGGED")
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states()[:1] == ["needs_human"], "a person is asked for the run")
    run = here.writes()[0]
    assert run.key.partner == PARTNER
    here.resolve(run, applied=False)
    await here.run(30)
    assert here.states() == ["planned", "confirmed"], here.story()
    assert here.writes()[0].held_by == "conflict"
    here.set("e1", status="active")
    await here.until(lambda: here.states()[0] == "confirmed", "the run may act once the other ends")


OPTIMISATION = "/campaign_optimisation_status$"
WIND_DOWN = """
rules:
  - id: wind-down
    when: event.predicted_sales_share > 0.8
    do:
      - optimisation: "OFF"
      - pause
  - id: pause-cancelled
    priority: 100
    when: event.status == 'cancelled'
    do: [pause]
"""


@in_town(world(happening("e1", campaign_optimisation_status="ON")), WIND_DOWN, watched=6)
async def test_a_wish_does_not_fall_with_the_earlier_step_of_another_rule(here: Town) -> None:
    """The pause of the cancelled event joined the second step of the other rule, and was skipped with it when the
    service refused the first (found by somebody who tried to break the promise)."""
    here.fault("answer_before", "PUT", OPTIMISATION, status=503)
    here.fault("answer_before", "PUT", OPTIMISATION, status=422, skip=1)
    here.set("e1", predicted_sales_share=0.9)
    await here.until(lambda: "unknown" in here.states(), "the first step is unknown")
    here.set("e1", status="cancelled")
    await here.until(lambda: len(here.effects("set_client_campaign_status")) == 1, "paused at once", limit=20)
    await here.run(90)
    ends = {(str(one.key.rule), one.intent.action): (one.state, one.reason) for one in here.writes()}
    assert ends["pause-cancelled", "pause"][0] == "confirmed"
    assert ends["wind-down", "pause"][0] in ("skipped", "planned"), here.story()
    assert len(here.effects("set_client_campaign_status")) == 1


@pytest.mark.parametrize("both", [False, True])
@in_town(world(happening("e1")), WIND_DOWN.replace('      - optimisation: "OFF"\n', ""), watched=6)
async def test_a_halt_of_one_rule_holds_a_shared_write_only_if_others_are_halted_too(here: Town, both: bool) -> None:
    here.halt(rule=RuleId("wind-down"))
    if both:
        here.halt(rule=RuleId("pause-cancelled"))
    here.set("e1", predicted_sales_share=0.9)
    await here.until(lambda: here.states() == ["planned"], "held")
    await here.becomes("e1", 60, status="cancelled")
    assert here.only.rules == ("wind-down", "pause-cancelled")
    assert here.only.state == ("planned" if both else "confirmed"), here.story()


BEHIND = "{id: second, when: event.frontend_status == 'FLAGGED', do: [pause], %s}"


@pytest.mark.parametrize("key", ["cooldown: 2h", "limit: {per_event_per_day: 1}", "limit: {per_rule_per_day: 1}"])
@in_town(world(happening("e1")), lambda key: rules_of(STOP % ", priority: 1", BEHIND % key))
async def test_a_shared_write_counts_for_the_pace_of_each_rule_that_it_stands_for(here: Town, key: str) -> None:
    await here.sees("confirmed", status="cancelled", frontend_status="FLAGGED")
    assert here.only.rules == ("stop", "second")
    await here.becomes("e1", 9, status="active", client_campaign_status="RUNNING", frontend_status="DEFAULT")
    await here.becomes("e1", 9, frontend_status="FLAGGED")
    assert [(one["rule"], one["reason"]) for one in here.log("held")] == [("second", key.partition(":")[0])]


@in_town(
    world(happening("e1"), happening("e2")),
    rules_of(STOP % ", priority: 1, mode: approve", BEHIND % "limit: {per_rule_per_day: 1}"),
)
async def test_the_limit_of_a_rule_counts_a_shared_write_that_is_not_sent_yet(here: Town) -> None:
    await here.sees("waiting", status="cancelled", frontend_status="FLAGGED")
    await here.becomes("e2", 9, status="cancelled", frontend_status="FLAGGED")
    assert [(one["event"], one["rule"]) for one in here.log("held")] == [("e2", "second")], here.story()


@in_town(world(happening("e1")), rules_of(STOP % ", priority: 1", BEHIND % "on_unknown: ask"))
async def test_a_shared_write_is_put_before_an_operator_at_once_where_any_of_its_rules_asks(here: Town) -> None:
    here.fault("answer_before", "PUT", CAMPAIGN, status=500)
    await here.cancelled("unknown")
    here.set("e1", frontend_status="FLAGGED")
    await here.until(lambda: here.states() == ["needs_human"], "asked for by who joined later", 15)


JOINED = "{id: go, when: event.frontend_status == 'FLAGGED' && %s, do: [run], %s}"


@pytest.mark.parametrize(
    ("when", "keys", "state", "held_by"),
    [
        ("true", "mode: approve", "waiting", None),
        ("permissions.size() >= 0", "priority: 0", "planned", "assumption"),
        ("true", "description: halted", "planned", "halt"),
    ],
)
@in_town(
    world(happening("e1", client_campaign_status="PAUSED", frontend_status="FLAGGED", category="tired")),
    lambda when, keys: rules_of("{id: first, when: event.category == 'tired', do: [run]}", JOINED % (when, keys)),
    unconfirmed_facts={"permissions": ("some.key",)},
)
async def test_a_shared_write_goes_out_for_no_rule_that_may_not_send_it_in_the_name_of_one_that_has_ended(
    here: Town, when: str, keys: str, state: str, held_by: str | None
) -> None:
    for rule in ("first", "go"):
        here.halt(rule=RuleId(rule))
    await here.run(12)
    assert here.only.rules == ("first", "go")
    here.set("e1", category="awake")
    await here.run(9)
    here.resume(rule=RuleId("first"))
    if held_by != "halt":
        here.resume(rule=RuleId("go"))
    await here.run(30)
    assert (here.only.state, here.only.held_by, here.effects()) == (state, held_by, []), here.story()


HELD = {
    "after a wait": ("{id: held, when: event.category == 'tired', do: [pause, {wait: 1m}, run]}",),
    "an undo": (
        "{id: rest, when: event.category == 'tired', do: [pause]}",
        "{id: held, when: event.capacity < 350.0, do: [{undo: rest}]}",
    ),
    "of each": ("{id: held, when: event.capacity < 350.0, do: [{edit_cluster: {each: campaigns, budget: 50}}]}",),
}
JAZZ = "[{edit_cluster: {tc: jazz, tc_run_id: 1, budget: 1}}]"
CHEAP = "{id: cheap, priority: 1, when: event.status == 'cancelled', do: " + JAZZ + "}"


@pytest.mark.parametrize("kind", HELD)
@in_town(world(published("e1", BUDGETS)), lambda kind: rules_of(STOP % ", priority: 1", CHEAP, *HELD[kind]), watched=6)
async def test_what_was_held_goes_out_against_no_stronger_wish_that_came_meanwhile(here: Town) -> None:
    """What only the event tells of a rule's wishes counted for none: when the halt was over, the campaigns ran."""
    await here.becomes("e1", 30, category="tired")
    here.halt(rule="held")
    await here.becomes("e1", 60, capacity=300)
    held = [one.id for one in here.writes() if one.held_by == "halt"]
    await here.becomes("e1", 30, status="cancelled")
    here.resume(rule="held")
    await here.run(60)
    assert {(one.state, one.reason) for one in here.writes() if one.id in held} == {("skipped", "conflict")}
    assert here.event().record[STATUS] == "PAUSED"
    assert budgets(here)["jazz"] == 1.0
