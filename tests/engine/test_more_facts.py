"""Rules over every fact that the service gives beside the main ones, against the twin."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.builders import cases
from tests.worlds import PAUSE, Town, happening, in_town, several, world
from worker.model.facts import CustomFact
from worker.sandbox.world import Happening

EVENTS = 12


def rule(when: str, given: str = "{}") -> str:
    return f'rules:\n  - {{id: a, when: "{when}", with: {given}, do: [pause]}}\n'


def sold(eid: str, **fields: Any) -> Happening:  # noqa: ANN401 - fields of the service's records
    """An event with sales, clusters and a campaign."""
    sales = ({"date": "2026-01-02", "tickets": 40, "revenue": 1400.0},)
    cluster = {"tc": "a", "label": "A", "metric_pred": 4.0, "reach_estimate": 9000, "size_share": 0.2}
    campaign = {"tc": "a", "tc_run_id": 1, "status": "ACTIVE"}
    return replace(happening(eid, **fields), sales=sales, clusters=(cluster,), campaigns=(campaign,), published=True)


MANY = """
rules:
  - id: forecast
    with: {start_date: 2026-01-01, end_date: 2026-01-31}
    when: |
      event.id == 'e1'
      && tenant_statistics.active == 3.0
      && lookout_prediction.curve.exists(p, p.value > 0.3 && p.value < 1.0)
      && daily_revenue_summary.days.exists(d, d.revenue > 1000.0)
      && daily_revenue_summary.currency == 'EUR'
      && tickets.exists(t, t.category == 'premium')
      && series.exists(s, s.id == 'e3')
      && size(flagged_events) == 1
    do: [pause]
  - id: campaigns
    with: {goal: ROAS, has_pixel: true, lead_form_id: ""}
    when: |
      event.id == 'e2'
      && statistics.tickets == 40.0
      && 'BUY_TICKETS' in call_to_action
      && suggested_radius.exists(r, r.suggested_radius > 40.0)
      && 'Purchase' in event_types
      && campaign_results.results.exists(r, r.tc == 'a')
      && adplatform_insights.spend > 10.0
      && attribution_model.attribution_model == 'last_click'
    do: [pause]
  - id: otherwise
    with: {type: ticket_count, distance_unit: mile}
    when: |
      event.id == 'e3'
      && lookout_prediction.curve.exists(p, p.value > 100.0)
      && suggested_radius.exists(r, r.suggested_radius < 26.0)
      && size(daily_revenue_summary.days) == 0
      && available_events_for_series.exists(e, e.id == 'e2')
      && venues.exists(v, v.city == 'Leipzig')
    do: [pause]
"""


@in_town(world(sold("e1", campaign_event_series=["e3"]), sold("e2"), sold("e3", frontend_status="FLAGGED")), MANY)
async def test_a_rule_can_lean_on_every_read_of_the_service(here: Town) -> None:
    await here.until(lambda: len(here.effects()) == 3, "a pause by each rule", 60)


@in_town(
    world(
        *[
            happening(eid, benchmark={"prediction": {"value": value, "benchmark": benchmark}})
            for eid, (value, benchmark) in {
                "e1": (0.2, 0.5),
                "e2": (20.0, 50.0),
                "e3": (0.45, 0.5),
                "e4": (45.0, 50.0),
                "e5": (1.3, 1.4),
            }.items()
        ]
    ),
    rule("lookout_prediction_benchmark.value < 0.3 && lookout_prediction_benchmark.benchmark > 0.4"),
)
async def test_a_prediction_far_below_its_benchmark_is_so_in_fractions_and_in_percents(here: Town) -> None:
    """The numbers of e2 and e4 are percents: as they stand, each would be above the rule's bound."""
    await here.run(30)
    assert sorted(effect.eid for effect in here.effects()) == ["e1", "e2"]


def asked(here: Town, path: str) -> list[float]:
    return [seen.at_s for seen in here.twin.books.requests if seen.path == path]


ACTIONS_ASKED = rule("'NOTHING' in call_to_action", "{goal: ROAS, has_pixel: true, lead_form_id: ''}")


@cases(
    "asks, path",
    (rule("tally.running > 99.0"), "/events/statistics", "a fact of the whole partner"),
    (ACTIONS_ASKED, "/setup_processes/call_to_action/", "what events ask in the same words"),
)
@in_town(world(*several(happening, EVENTS, first=0)), lambda asks: asks, facts={"tally": "/events/statistics"})
async def test_what_is_one_for_all_events_is_read_once_a_look(here: Town, path: str) -> None:
    await here.run(9)
    assert len(asked(here, path)) == 3, "however many events there are"
    assert max(report.took_ms for report in here.reports) < 3500


SELDOM = timedelta(seconds=30)
FACTS = {
    "tally": CustomFact(name="tally", get="/events/statistics", every=2 * SELDOM),
    "own": CustomFact(name="own", get="/events/{eid}/statistics", value="tickets", every=SELDOM, type="number"),
    "text": CustomFact(name="text", get="/events/{eid}/tickets", value="@", every=SELDOM, type="text"),
}


@in_town(
    world(happening("e1")),
    rule("event.city == 'Ulm' && own >= 0.0 && tally.active > 0.0 || text == 'never'"),
    facts=FACTS,
)
async def test_a_fact_of_the_config_is_asked_no_more_often_than_it_says(here: Town) -> None:
    await here.run(89)
    assert asked(here, "/events/statistics")[1] - asked(here, "/events/statistics")[0] >= 60.0
    for path, times in (("/events/e1/statistics", 3), ("/events/e1/tickets", 3), ("/events/statistics", 2)):
        assert len(asked(here, path)) == times, (path, asked(here, path))
    before = len(asked(here, "/events/e1/statistics"))
    await here.becomes("e1", 15, city="Ulm")
    assert here.states() == ["confirmed"], "what is asked so seldom is fresh as long"
    assert len(asked(here, "/events/e1/statistics")) - before <= 1


@pytest.mark.parametrize(("every", "times", "within"), [(SELDOM, 1, 12), (None, 999, 60)], ids=["once", "always"])
@in_town(
    world(happening("e1")),
    rule("event.status == 'cancelled' || own > 1e9"),
    facts=lambda every: {"own": replace(FACTS["own"], every=every)},
)
async def test_a_fact_that_is_answered_429_keeps_no_write_back_that_is_wanted_without_it(
    here: Town, times: int, within: float
) -> None:
    here.fault("answer_before", "GET", "/events/e1/statistics", times=times, status=429)
    await here.run(12)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"], "paused", limit=within)


NONE_LEFT = "rules: [{id: a, when: tenant_statistics.active == 0.0, do: [{notify: none}]}]"


@in_town(world(happening("e1")), NONE_LEFT)
async def test_what_no_rule_has_asked_for_meanwhile_is_read_before_a_rule_that_is_back_decides(here: Town) -> None:
    here.set("e1", status="archived")
    await here.run(6)
    assert here.texts == ["none"]
    here.use(PAUSE)
    here.set("e1", status="active")
    await here.run(60)
    here.use(NONE_LEFT.replace("id: a", "id: b"))
    await here.run(60)
    assert here.texts == ["none"], "what it was when it was read last says nothing of today"


@in_town(
    world(happening("e1", city="Ulm")),
    "rules: [{id: a, when: event.city == 'Ulm' && own == 0.0, do: [{notify: none}]}]",
    facts=FACTS,
)
async def test_what_is_asked_seldom_is_not_decided_on_once_it_is_older_than_that(here: Town) -> None:
    await here.run(9)
    assert here.texts == ["none"]
    here.set("e1", city="Bonn")
    here.change("e1", statistics={"tickets": 9})
    await here.run(60)
    here.set("e1", city="Ulm")
    await here.run(60)
    assert here.texts == ["none"], "it is not 0 any more"


ALONE = """
rules:
  - id: alone
    when: event.id == 'e1' && events.filter(e, e.city == 'Ulm').size() == 0
    do: [{notify: alone}]
"""


@pytest.mark.parametrize("restarted", [False, True])
@in_town(world(happening("e1"), happening("e2", city="Ulm"), *several(happening, 3, first=3)), ALONE, watched=6)
async def test_an_event_that_is_listed_no_more_is_one_of_all_until_it_is_gone(here: Town, restarted: bool) -> None:
    here.fault("vanish", "GET", "/events/$", times=9, eid="e2")
    await here.run(6)
    if restarted:
        await here.restart()
    here.fault("answer_before", "GET", "/events/e2$", times=9, status=500)
    await here.run(12)
    assert here.texts == [], "nobody knows whether it is there"
    here.twin.faults.clear()
    here.change("e2", remove=True)
    await here.run(12)
    assert here.texts == ["alone"]
