"""Rule tests of every action: what it plans, what becomes of the facts, and what an answer does to it."""

import pytest

from tests.unit.engine.ruletest_bench import a_bench, failing, passes

EDIT = (
    "{id: r, on_change: suggested_tcs, when: \"setup.state == 'PUBLISHED'\", "
    "do: [{edit_cluster: {each: added, budget: '=each.tc_run_id'}}]}"
)
CLUSTERS = "suggested_tcs: [{tc: a, tc_run_id: 1}]"


def rule(do: str, when: str = "event.status == 'cancelled'", more: str = "") -> str:
    return f'{{id: r, when: "{when}", do: {do}{more}}}'


EDIT_EXTRA = "[{edit_cluster: {tc: a, tc_run_id: 1, extra: {x: 2}}}]"
CREATE = "[{create_campaign: {tc: a, tc_run_id: 1}}]"
PUT = "[{write: {host: cr, method: PUT, path: '/events/{eid}'}}]"
CONFIRMED = "[{write: {host: cr, method: PUT, path: '/events/{eid}', confirm: {get: /y, when: response.ok}}}]"
NO_SETUP = "setup: {state: NONE}"


@pytest.mark.parametrize(
    ("do", "given", "then", "state"),
    [
        ("[{update_draft: {goal: ROAS}}]", "setup: {state: DRAFT}", "setup.goal == 'ROAS'", "confirmed"),
        ("[{update_draft: {goal: ROAS}}]", NO_SETUP, None, "refused"),
        ("[{update_draft: {total_budget: 5}}]", "setup: {state: DRAFT, total_budget: 5}", None, "skipped"),
        (
            "[{update_draft: {total_budget: 5}}]",
            "setup: {state: DRAFT}, budget_range: {lower_limit: 10, upper_limit: 90}",
            None,
            "refused",
        ),
        ("[reset_setup]", "setup: {state: PUBLISHED}", "setup.state == 'NONE'", "confirmed"),
        (EDIT_EXTRA, "setup: {state: DRAFT}", None, "refused"),
        (EDIT_EXTRA, "setup: {state: PUBLISHED}, campaigns: []", "campaigns.exists(c, c['x'] == 2.0)", "confirmed"),
        (CREATE, "campaigns: []", "campaigns.exists(c, c.tc == 'a')", "confirmed"),
        (CREATE, "campaigns: [{tc: a, tc_run_id: '1'}]", None, "skipped"),
        ("[{series_add: [e2]}]", NO_SETUP, "'e2' in event.campaign_event_series", "confirmed"),
        ("[{series_remove: [e9]}]", NO_SETUP, "size(event.campaign_event_series) == 0", "confirmed"),
        (PUT, NO_SETUP, None, "confirmed"),
        (CONFIRMED, NO_SETUP, None, "confirmed"),
        ("[{write: {method: DELETE, path: /x}}]", NO_SETUP, None, "waiting"),
        ("[{notify: look}]", NO_SETUP, None, "confirmed"),
    ],
)
def test_each_action_is_played_with_its_effect_on_the_facts(do: str, given: str, then: str | None, state: str) -> None:
    action = do.strip("[]{}").partition(":")[0]
    seen = [] if then is None else [f'{{id: s, when: "{then}", do: [pause]}}']
    after = "" if then is None else "{rule: s, action: pause}"
    body = f"""
given: {{event: {{id: e1, status: active, client_campaign_status: RUNNING, campaign_event_series: [e9]}}, {given}}}
steps:
  - {{at: 0s, expect: []}}
  - at: 3s
    set: {{event: {{status: cancelled}}}}
    expect: [{{rule: r, action: {action}}}]
    states: [{{action: {action}, state: {state}, rule: r}}]
  - {{at: 9s, expect: [{after}]}}
"""
    passes(a_bench(rule(do), *seen), body)


CLAIM = "{rule: r, action: edit_cluster}"


@pytest.mark.parametrize(
    ("expect", "reason"),
    [
        (f"[{CLAIM}]", "one claim stands for all of them"),
        (f"[{CLAIM}, {CLAIM}]", "or each has its own"),
        (
            "[{rule: r, action: edit_cluster, params: {budget: 3}}, {rule: r, action: edit_cluster, params: {tc: b}}]",
            "with its own values",
        ),
    ],
)
def test_each_added_cluster_fires_by_itself(expect: str, reason: str) -> None:
    assert passes(a_bench(EDIT), added(expect)).passed, reason


def test_a_claim_with_values_stands_for_one_cluster_only() -> None:
    words = failing(a_bench(EDIT), added("[{rule: r, action: edit_cluster, params: {tc: b}}]"))
    assert any("+ happened r: edit_cluster" in word and "tc: c" in word for word in words)


def added(expect: str) -> str:
    """Two clusters beside the one that was there."""
    return f"""
given: {{setup: {{state: PUBLISHED}}, {CLUSTERS}}}
steps:
  - {{at: 3s, set: {{suggested_tcs: [{{tc: a, tc_run_id: 1}}, {{tc: b, tc_run_id: '2'}}, {{tc: c, tc_run_id: 3}}]}},
     expect: {expect}, sent: 2}}
"""


RAISED = """
given:
  event: {id: e1, capacity: 9}
  setup: {state: PUBLISHED}
  campaigns: [{tc: a, tc_run_id: 1, budget: 10}, {tc: b, tc_run_id: 1, budget: 20}]
steps:
  - {at: 0s, expect: [{rule: r, action: edit_cluster}]}
  - {at: 1m, set: {event: {capacity: 3}}, expect: [CLAIM]}
"""


def test_a_claim_without_values_stands_for_all_that_an_undo_puts_back() -> None:
    raising = rule("[{edit_cluster: {each: campaigns, budget: 50}}]", when="setup.state == 'PUBLISHED'")
    bench = a_bench(raising, '{id: back, after: r, when: "event.capacity < 5.0", do: [{undo: after}]}')
    passes(bench, RAISED.replace("CLAIM", "{rule: back, action: edit_cluster}"))
    said = failing(bench, RAISED.replace("CLAIM", "{rule: back, action: edit_cluster, params: {tc: a, budget: 10}}"))
    assert any("budget: 20" in line for line in said), said


def test_a_change_that_adds_nothing_fires_no_write() -> None:
    body = f"""
given: {{setup: {{state: PUBLISHED}}, suggested_tcs: [{{tc: a, tc_run_id: 1}}, {{tc: b, tc_run_id: 2}}]}}
steps: [{{at: 3s, set: {{{CLUSTERS}}}, expect: [], sent: 0}}]
"""
    passes(a_bench(EDIT), body)


@pytest.mark.parametrize(
    ("do", "effect", "end"),
    [
        (EDIT_EXTRA, "hidden", "confirmed"),
        (EDIT_EXTRA, "none", "confirmed"),
        (CONFIRMED, "late 40s", "confirmed"),
        (PUT, "hidden", "needs_human"),
        ("[reset_setup]", "none", "needs_human"),
        ("[{notify: look}]", "none", "needs_human"),
    ],
)
def test_an_answer_that_may_hide_an_effect_is_settled_by_what_the_action_shows(do: str, effect: str, end: str) -> None:
    action = do.strip("[]{}").partition(":")[0]
    body = f"""
given: {{event: {{status: cancelled}}, setup: {{state: PUBLISHED}}}}
answers: [{{action: {action}, answer: 429, effect: {effect}}}]
steps: [{{at: 10m, states: [{{action: {action}, state: {end}}}]}}]
"""
    passes(a_bench(rule(do)), body)


def test_a_rule_with_at_is_looked_at_only_then() -> None:
    body = """
given: {now: "2026-07-01T05:00:00Z", event: {status: cancelled, client_campaign_status: RUNNING}}
steps:
  - {at: 0s, expect: [], held: []}
  - {at: 59m, expect: []}
  - {at: 60m, expect: [{rule: r, action: pause}], states: [{action: pause, state: confirmed}]}
  - {at: 2h, set: {event: {client_campaign_status: RUNNING}}, expect: []}
  - {at: 24h, expect: []}
  - {at: 25h, expect: [{rule: r, action: pause}]}
"""
    done = passes(a_bench(rule("[pause]", more=', at: "0 8 * * *", timezone: Europe/Berlin')), body)
    assert done.polls < 200, "what lies between its times is jumped over"


def test_a_wait_begins_when_the_step_before_is_over_also_where_somebody_else_did_it() -> None:
    rule = "{id: r, mode: approve, when: \"event.status == 'active'\", do: [pause, {wait: 2m}, run]}"
    body = """
given: {event: {status: active, client_campaign_status: RUNNING}}
steps:
  - {at: 0s, states: [{action: pause, state: waiting}]}
  - {at: 170s, set: {event: {client_campaign_status: PAUSED}}}
  - {at: 3m, approve: [r], states: [{action: pause, state: skipped}, {action: wait, state: planned}]}
  - {at: 297s, expect: [], held: [{rule: r, reason: wait}]}
"""
    passes(a_bench(rule), body)
