"""Rule tests: values of the wrong type, quotients by 0, and money under any name, as the daemon takes them."""

import pytest

from tests.builders import spending
from tests.unit.engine.ruletest_bench import a_bench, passes


@pytest.mark.parametrize("value", ["='99999'", "=event.title", "=1e308 * 10.0"])
def test_a_value_of_the_wrong_type_fires_and_is_refused(value: str) -> None:
    do = f'{{edit_cluster: {{tc: a, tc_run_id: 1, budget: "{value}"}}}}'
    body = """
given: {event: {id: e1, status: cancelled, title: x, client_campaign_status: RUNNING}, setup: {state: PUBLISHED}}
steps:
  - at: 0s
    expect: [{rule: r, action: edit_cluster}, {rule: r, action: pause}]
    states: [{action: edit_cluster, state: refused}, {action: pause, state: skipped}]
    sent: 0
  - {at: 1d, expect: [], sent: 0}
"""
    passes(a_bench(f"{{id: r, when: \"event.status == 'cancelled'\", do: [{do}, pause]}}"), body)


def test_money_under_extra_is_held_by_the_limit_and_can_be_expected_as_it_is_written() -> None:
    do = "{edit_cluster: {tc: a, tc_run_id: 1, extra: {daily_budget: 99999}}}"
    body = """
given: {event: {id: e1, status: cancelled}, setup: {state: PUBLISHED}, campaigns: [{tc: a, tc_run_id: 1}]}
steps:
  - at: 0s
    expect: [{rule: r, action: edit_cluster, params: {extra: {daily_budget: 99999}}}]
    held: [{rule: r, reason: spend}]
    sent: 0
"""
    passes(
        a_bench(
            f"{{id: r, when: \"event.status == 'cancelled'\", do: [{do}]}}",
            limits=spending(per_event=1000.0),
        ),
        body,
    )
