"""Who set a field, and all of the partner's events, as facts of conditions."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.unit.engine.ruletest_bench import SETTINGS, a_bench, bench_of, passes
from worker.model.errors import InputErrors
from worker.model.facts import CustomFact
from worker.rules.cel import parse
from worker.rules.evaluate import compiled, expression
from worker.rules.facts import Run, looked_at
from worker.rules.functions import CannotEvaluate
from worker.rules.load import read_rules
from worker.rules.registry import SET_FIELDS, with_custom

GIVEN = "given: {event: {id: e1, status: active, client_campaign_status: RUNNING}}\n"


def rule(name: str, when: str, do: str = "{notify: x}") -> str:
    return f'{{id: {name}, when: "{when}", do: [{do}]}}'


PAUSE = rule("pause", "event.status == 'cancelled'", "pause")
PAUSED = "event.client_campaign_status == 'PAUSED'"


def test_a_hand_and_a_rule_are_told_apart() -> None:
    passes(
        a_bench(
            PAUSE,
            rule("ours", f"{PAUSED} && 'pause' in set_by.client_campaign_status_rules"),
            rule("theirs", f"{PAUSED} && set_by.client_campaign_status == 'external'"),
            rule("nobody", "set_by.client_campaign_status == 'unseen'"),
        ),
        GIVEN
        + """steps:
  - {at: 0s, expect: [{rule: nobody, action: notify}]}
  - {at: 6s, set: {event: {status: cancelled}}, expect: [{rule: pause, action: pause}]}
  - {at: 12s, expect: [{rule: ours, action: notify}]}
  - {at: 1h, set: {event: {client_campaign_status: RUNNING}}, expect: []}
  - {at: 2h, set: {event: {client_campaign_status: PAUSED}}, expect: [{rule: theirs, action: notify}]}
""",
    )


def test_who_set_a_field_is_unknown_while_the_field_is() -> None:
    passes(
        a_bench(rule("r", "set_by.client_campaign_status != 'worker'")),
        "given: {event: {id: e1, status: active}}\nsteps:\n  - {at: 0s, expect: []}\n"
        "  - {at: 6s, set: {event: {client_campaign_status: PAUSED}}, expect: [{rule: r, action: notify}]}\n",
    )


def test_a_field_of_whose_hand_a_rule_asks_is_watched() -> None:
    rules = read_rules({"r.yaml": f"rules:\n  - {rule('r', 'set_by.frontend_status_rules.size() > 0')}\n"}).rules.rules
    assert looked_at(rules)["event"] == frozenset({"frontend_status"})
    whole = read_rules({"r.yaml": f"rules:\n  - {rule('r', 'set_by == set_by')}\n"}).rules.rules
    assert looked_at(whole)["event"] == frozenset(SET_FIELDS)


def test_all_events_are_asked_about_and_any_change_of_one_is_news_for_all() -> None:
    body = """given:
  event: [{id: e1, status: active, city: Ulm, sold: 50}, {id: e2, status: active, city: Oslo, sold: 50}]
steps:
  - {at: 0s, expect: []}
  - at: 40m
    set: {event: [{id: e2, city: Ulm}]}
    expect: [{rule: crowded, action: notify, event: e1}, {rule: crowded, action: notify, event: e2}]
  - {at: 2h, set: {event: [{id: e2, sold: 51}]}, expect: [{rule: full, action: notify, event: e1}]}
"""
    passes(
        a_bench(
            rule("crowded", "events.filter(e, e.status == 'active' && e.city == event.city).size() >= 2"),
            rule("full", "event.id == 'e1' && sum(events.map(e, e['sold'])) > 100.0"),
        ),
        body,
    )


def test_what_is_about_all_events_is_evaluated_once_for_a_list() -> None:
    once = compiled(parse("sum(events.map(e, e.x)) > 1.0"))
    events = [{"x": 1.0}, {"x": 2.0}]
    first, second = Run({"events": events}), Run({"events": events})
    assert once(first) is True
    assert once(second) is True
    assert first.left < second.left == Run({}).left
    assert once(Run({"events": [{"x": 0.5}]})) is False
    for run in (Run({"events": [{}]}), Run({"events": []}), Run({})):
        if run.values.get("events") == []:
            assert once(run) is False
        else:
            with pytest.raises(CannotEvaluate):
                once(run)
            with pytest.raises(CannotEvaluate):
                once(run)


def test_a_condition_names_what_it_needs_of_all_events() -> None:
    named = expression("events.exists(e, e['x'] == event.city && e.status == 'a')")
    assert named.names == {"events", "event"}


@pytest.mark.parametrize("get", ["/x/{eid}", "/x"], ids=["of each event", "of the partner"])
def test_a_fact_that_is_seldom_asked_shows_a_change_at_its_next_reading(get: str) -> None:
    own = with_custom({"ad": CustomFact(name="ad", get=get, every=timedelta(minutes=10), type="number")})
    rules = read_rules({"r.yaml": f"rules:\n  - {rule('r', 'ad > 5.0')}\n"}, own).rules
    bench = bench_of(rules, replace(SETTINGS, every=own.every, shared=own.shared))
    body = """given: {event: {id: e1}, ad: 1}
steps:
  - {at: 0s, expect: []}
  - {at: 25m, set: {ad: 9}, expect: []}
  - {at: 29m, expect: []}
  - {at: 30m3s, expect: [{rule: r, action: notify}]}
"""
    passes(replace(bench, registry=own), body)
    with pytest.raises(InputErrors, match="can never be equal"):
        read_rules({"r.yaml": f"rules:\n  - {rule('r', 'ad == event.city')}\n"}, own)


def test_what_the_worker_makes_itself_cannot_be_set_in_a_test() -> None:
    for name in ("events", "set_by"):
        with pytest.raises(InputErrors, match=f"'{name}' is made by the worker itself") as caught:
            passes(a_bench(PAUSE), f"given: {{event: {{id: e1}}, {name}: []}}\nsteps: [{{at: 0s, expect: []}}]\n")
        assert "set the events themselves" in caught.value.problems[0].hint


EACH_DAY = "at: '0 12 * * *', when: \"setup.state == 'PUBLISHED'\""
RISING = "each: {of: campaigns, where: 'ago(each.budget, \"12h\") < each.budget'}"


def test_what_an_item_was_is_found_by_its_cluster_and_run() -> None:
    more = f"{{edit_cluster: {{budget: '=each.budget + delta(each.budget, \"12h\")'}}, {RISING}}}"
    body = """given:
  now: 2026-03-01T13:00:00Z
  event: {id: e1}
  setup: {state: PUBLISHED, goal: ROAS, total_budget: 500}
  campaigns: [{tc: a, tc_run_id: 1, budget: 100}, {tc: b, tc_run_id: 1, budget: 50}]
steps:
  - at: 12h
    set:
      campaigns:
        - {tc: b, tc_run_id: 1, budget: 50}
        - {tc: a, tc_run_id: 1, budget: 120}
  - {at: 23h3s, expect: [{rule: r, action: edit_cluster, params: {budget: 140}}]}
"""
    passes(a_bench(f"{{id: r, {EACH_DAY}, do: [{more}]}}"), body)


def test_what_an_added_item_was_is_not_known() -> None:
    do = "{edit_cluster: {budget: '=delta(each.size_share, \"12h\")'}, each: added}"
    with pytest.raises(InputErrors, match="what an item was that was added now is not known"):
        a_bench(f"{{id: r, on_change: {{fact: clusters, by: [tc, size_share]}}, do: [{do}]}}")
