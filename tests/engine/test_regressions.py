"""Defects found by reading the code against its contract; each test failed on the code as it was found."""

from dataclasses import replace
from typing import Any

import pytest

from tests.worlds import (
    BOOST,
    CAMPAIGN,
    MINUTE,
    PARTNER,
    PAUSE,
    Disk,
    Town,
    draft,
    happening,
    has_told,
    in_town,
    rules_of,
    world,
)
from worker.engine.views import DecidingSettings as Deciding

RUN_AND_PAUSE = """
rules:
  - {id: pause-cancelled, when: event.status == 'cancelled', priority: 10, do: [pause]}
  - {id: run-flagged, when: event.frontend_status == 'FLAGGED', do: [run]}
"""


@in_town(world(happening("e1")), watched=10)
async def test_01_a_read_that_said_there_counts_even_if_nobody_was_looking_at_it_just_then(here: Town) -> None:
    """4.2.3: one read begun after the attempt that says *there*, ordinary looks included, confirms for good."""
    here.fault("answer_after", "PUT", CAMPAIGN, status=500)
    here.fault("slow", "GET", "/client_campaign_status/task$", delay_s=9)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["unknown"], "hidden effect")
    await here.until(lambda: bool(here.log("observed")) and "PAUSED" in here.log("observed")[-1]["why"], "seen")
    await here.becomes("e1", 5 * MINUTE, by="person", client_campaign_status="RUNNING")
    assert len(here.campaigns()) == 1, here.story()


@in_town(world(happening("e1", client_campaign_status="PAUSED")), RUN_AND_PAUSE)
async def test_03_a_run_that_a_pause_overtook_is_not_switched_on_again(here: Town) -> None:
    """Absence is no proof where our own opposite write has put the field back."""
    here.fault("hang_after", "PUT", CAMPAIGN)
    await here.sees("sending", frontend_status="FLAGGED")
    await here.becomes("e1", 16 * MINUTE, status="cancelled")
    assert here.campaigns() == ["RUNNING", "PAUSED"], here.story()
    proved = [write for write in here.writes() if write.intent.action == "run" and write.absent_proved]
    assert not proved, "it took effect, and the worker says that it is proved absent" + here.story()


@in_town(
    world(happening("e1")),
    rules_of("{id: pause-premium, when: partner.pricing_tier == 'premium', do: [pause]}"),
    watched=10,
)
async def test_07_a_fact_of_the_partner_does_not_grow_old_with_an_event(here: Town) -> None:
    """Pre-flight stores partner facts as the event's own, which from then on stand before the partner's."""
    here.become(pricing_tier="premium")
    await here.until(lambda: here.states() == ["confirmed"], "paused")
    here.become(pricing_tier="standard")
    await here.becomes("e1", MINUTE, by="person", client_campaign_status="RUNNING")
    here.become(pricing_tier="premium")
    await here.run(2 * MINUTE)
    assert here.states() == ["confirmed", "confirmed"], "the second episode" + here.story()


@in_town(
    world(happening("e1")),
    rules_of(
        "{id: a-cancelled, when: event.status == 'cancelled', do: [pause]}",
        "{id: b-hidden, when: event.frontend_status == 'CANCELLED', do: [pause]}",
    ),
    watched=10,
)
async def test_09_a_rule_that_joins_a_write_in_preflight_is_not_forgotten(here: Town) -> None:
    """hold() and move() write a row from a snapshot taken before the awaits; what joined meanwhile must stay."""
    here.fault("answer_before", "GET", "/events/e1$", status=500, times=4, delay_s=8)
    here.fault("slow", "GET", "/events/e1$", times=1, delay_s=8)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["planned"], "planned, its pre-flight under way")
    here.set("e1", frontend_status="CANCELLED")
    await here.until(lambda: set(here.only.rules) == {"a-cancelled", "b-hidden"}, "the other rule joins")
    await here.becomes("e1", 3 * MINUTE, status="active")
    assert here.campaigns() == ["PAUSED"], here.story()


@pytest.mark.parametrize("key", ["partners: [partner-id-two]", "mode: approve"], ids=["narrowed", "approve"])
@in_town(world(happening("e1")), watched=10)
async def test_11_and_12_a_rule_narrowed_to_others_or_put_into_approve_mode_sends_nothing(here: Town, key: str) -> None:
    here.halt()
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["planned"], "held")
    here.use(f"{PAUSE}    {key}\n")
    await here.run(10)
    here.resume()
    await here.run(MINUTE)
    assert here.campaigns() == [], here.story()


@in_town(world(happening("e1")))
async def test_14_a_log_line_that_fails_at_sending_leaves_no_row_in_sending(here: Town) -> None:
    failed: list[object] = []

    def tell(record: Any) -> None:
        if record.kind == "sending" and not failed:
            failed.append(record)
            raise BrokenPipeError

    here.tell(tell)
    await here.run(10)
    await here.becomes("e1", 30 * MINUTE, status="cancelled")
    assert here.states() != ["sending"], here.story()


@in_town(world(replace(draft("e1"), lower_limit=5.0, upper_limit=50.0)), BOOST, watched=15)  # 150 to 1500 for a month
async def test_18_a_budget_is_judged_by_the_range_for_the_days_to_the_event(here: Town) -> None:
    """API 8: the range is for a given runtime; 3.1: whole days from now to the start, at least 1."""
    here.suggest("e1", 2)
    await here.run(3 * MINUTE)
    assert here.states() == ["confirmed"], here.story()


BY_TWO = """
rules:
  - {id: a-cancelled, when: event.status == 'cancelled', do: [pause]}
  - {id: b-cancelled, when: event.status == 'cancelled', do: [pause]}
"""


@in_town(world(happening("e1")), BY_TWO)
async def test_20_a_joined_rule_still_gets_its_effect_when_the_owner_of_an_unknown_write_is_removed(here: Town) -> None:
    here.fault("answer_before", "PUT", CAMPAIGN, status=500)
    await here.cancelled("unknown")
    here.use(BY_TWO.replace("  - {id: a-cancelled, when: event.status == 'cancelled', do: [pause]}\n", ""))
    await here.run(10 * MINUTE)
    assert here.campaigns() == ["PAUSED"], here.story()


@in_town(
    world(happening("e1"), happening("e2", start_date_time="9999-12-31T23:59:59-05:00")),
    PAUSE + "  - {id: late, when: event.start_date_time < timestamp('2020-01-01T00:00:00Z'), do: [run]}\n",
    watched=10,
)
async def test_21_one_event_with_an_odd_date_does_not_blind_the_partner(here: Town) -> None:
    await here.becomes("e1", MINUTE, status="cancelled")
    assert here.campaigns() == ["PAUSED"], here.story()


@in_town(world(happening("e1")))
async def test_24_reads_that_fail_for_two_minutes_are_no_disagreement(here: Town) -> None:
    """4.1: applied becomes unconfirmed where reads disagree; reads that fail say nothing."""
    await here.cancelled("applied")
    here.fault("answer_before", "GET", "^/events/", status=500, times=120)
    await here.run(10 * MINUTE)
    assert here.states() == ["confirmed"], here.story()


@in_town(world(draft("e1"), happening("e2")), "rules: [{id: boost-drafts, when: setup.state == 'DRAFT', do: [boost]}]")
async def test_28_nothing_is_sent_for_an_event_that_answers_404_by_itself(here: Town) -> None:
    """3.2: while an event answers 404 by itself its facts are unknown and its unsent writes held."""
    here.halt()
    await here.until(lambda: here.states() == ["planned"], "held")
    here.fault("answer_before", "GET", "/events/e1$", status=404, times=1000)
    here.fault("vanish", "GET", "^/events/$", times=1000, eid="e1")
    await here.run(30)
    here.resume()
    await here.run(MINUTE)
    assert len(here.effects("boost")) == 0, here.story()


@in_town(world(happening("e1", client_campaign_status="PAUSED")), RUN_AND_PAUSE, watched=10)
async def test_29_a_pause_that_was_accepted_is_not_sent_again_because_reads_lag(here: Town) -> None:
    """4.2.8 sends anew only if the overtaken write landed *after* it; this one had landed before."""
    here.fault("answer_after", "PUT", CAMPAIGN, status=500)
    here.set("e1", frontend_status="FLAGGED")
    here.fault("slow", "GET", "/client_campaign_status/task$", delay_s=1)
    await here.until(lambda: here.states() == ["unknown"], "the run is unknown")
    await here.clock.sleep(1)
    here.twin.settings = replace(here.twin.settings, task_effect="when_done", task_duration_s=8.0)
    await here.becomes("e1", 3 * MINUTE, status="cancelled")
    assert here.twin.books.summary()["repeated"] == 0, here.story()
    assert [one for one in here.campaigns() if one == "PAUSED"] == ["PAUSED"], here.story()


NAMES = [f"e{number:02}" for number in range(24)]


@pytest.mark.parametrize("waves", [[NAMES], [NAMES[:14], NAMES]], ids=["one wave", "a second wave"])
@in_town(world(*map(happening, NAMES)), watched=20)
async def test_19_and_31_what_comes_back_after_a_reset_waits_even_if_not_asked_for(
    here: Town, waves: list[list[str]]
) -> None:
    """3.2: if more than half of a partner's events vanish at once, what comes back waits for approval."""
    for gone in waves:
        for name in gone:
            here.change(name, remove=True)
        await here.run(3)
        for name in gone:
            status = "cancelled" if gone == NAMES else "active"
            here.change(name, add=True, set=happening(name, status=status).record)
        await here.run(30)
    await here.run(MINUTE)
    assert here.effects() == []


@in_town(
    world(happening("e1")),
    rules_of(
        "{id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}",
        "{id: pause-sold, when: event.predicted_sales_share > 0.8, do: [pause]}",
    ),
    deciding=replace(Deciding(), mode="approve"),
)
async def test_32_a_decision_whose_commit_only_seemed_to_fail_is_told_once(here: Town) -> None:
    """A sync that fails may leave the commit on the disk; stored anew, the log would tell a firing twice (found by the
    simulation, seed 6018070)."""
    await here.cancelled("waiting")
    disk = Disk(here, has_told("fired"), unsure=1)
    await here.becomes("e1", 30, predicted_sales_share=0.9)
    assert disk.failed, "it came to that"
    assert [one["rule"] for one in here.log("fired")] == ["pause-cancelled", "pause-sold"], here.story()


@in_town(world(happening("e1")), watched=6)
async def test_nothing_is_sent_for_a_rule_that_went_while_its_facts_were_read_anew(here: Town) -> None:
    """The rules are replaced in the middle of a pre-flight: its write was judged under those of before."""
    here.set("e1", status="cancelled")
    here.fault("slow", "GET", "/events/e1$", delay_s=1)
    await here.worker.cycle.run(here.worker.states[PARTNER])
    await here.clock.sleep(0.2)
    assert here.only.state == "planned"
    here.use(PAUSE.replace("pause-cancelled", "another"))
    await here.run(3)
    gone = here.writes()[0]
    assert (gone.state, gone.reason, gone.attempt) == ("cancelled", "rule_gone", 0), here.story()


KEEP_ON = """
rules:
  - id: keep-on
    on_change: {fact: event, by: campaign_optimisation_status}
    on_unknown: ask
    do: [{optimisation: "ON"}]
"""


@in_town(world(happening("e1")), KEEP_ON, watched=6)
async def test_an_effect_that_shows_after_its_write_has_ended_is_no_change_for_its_rule_either(here: Town) -> None:
    """3.2: a change that the rule's own write made fires nothing, also one that an operator knew of before any read."""
    here.fault("answer_before", "PUT", "/campaign_optimisation_status$", status=500)
    here.set("e1", campaign_optimisation_status="OFF")
    await here.until(lambda: here.states() == ["needs_human"], "nobody knows", MINUTE)
    here.resolve(here.only, applied=True)
    await here.run(6)
    await here.becomes("e1", 6, campaign_optimisation_status="ON")
    assert len(here.log("fired")) == 1
    here.set("e1", campaign_optimisation_status="OFF")
    await here.until(lambda: len(here.effects()) == 1, "a change that is another's is one", MINUTE)


@in_town(world(happening("e1")))
async def test_a_rejected_write_says_once_what_the_service_answered(here: Town) -> None:
    here.fault("answer_before", "PUT", CAMPAIGN, status=422)
    await here.cancelled("rejected")
    said = 'the service answered 422, and nothing happened: {"error":'
    assert here.only.why.startswith(said), here.story()
    assert here.only.why.count("the service answered") == 1


TELLS_AND_PAUSES = """
rules:
  - {id: told, on_change: {fact: event, by: [city, client_campaign_status]}, do: [{notify: another}, pause]}
"""


@in_town(world(happening("e1")), TELLS_AND_PAUSES, watched=6)
async def test_what_an_operator_sets_after_the_service_has_refused_it_is_a_change_for_the_rule(here: Town) -> None:
    """It was taken for the rule's own doing, though nothing had come of that."""
    here.fault("answer_before", "PUT", CAMPAIGN, status=400)
    await here.becomes("e1", 12, city="Ulm")
    await here.becomes("e1", 12, by="person", client_campaign_status="PAUSED")
    assert here.texts == ["another", "another"], here.story()
