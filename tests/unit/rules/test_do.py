"""What can stand in ``do``: every action with its parameters, computed values at any depth, and ``each``."""

import pytest

from tests.unit.rules.reading import mistakes, problems, the_rule
from worker.model.facts import Json
from worker.model.rules import Computed, RuleStep, Template
from worker.rules.registry import Registry, with_custom

HEAD = "rules:\n  - id: a\n    when: event.status == 'x'\n    do: [%s]\n"
WATCHING = "rules:\n  - id: a\n    on_change: suggested_tcs\n    do: [%s]\n"


def step(action: str, head: str = HEAD) -> RuleStep:
    return the_rule(head % action).do[0]


@pytest.mark.parametrize(
    ("written", "action", "params"),
    [
        ("reset_setup", "reset_setup", {}),
        ("update_draft: {total_budget: 750}", "update_draft", {"total_budget": 750.0}),
        (
            "update_draft: {goal: ROAS, tcs: [rock, 7], extra: {x: {y: true}}}",
            "update_draft",
            {"goal": "ROAS", "tcs": ["rock", "7"], "x": {"y": True}},
        ),
        (
            "edit_cluster: {tc: rock, tc_run_id: 7, budget: 5}",
            "edit_cluster",
            {"tc": "rock", "tc_run_id": 7, "budget": 5},
        ),
        ("create_campaign: {tc: rock, tc_run_id: 7}", "create_campaign", {"tc": "rock", "tc_run_id": 7}),
        ("series_add: [e7, 8]", "series_add", {"value": ["e7", "8"]}),
        ("series_remove: [e7]", "series_remove", {"value": ["e7"]}),
    ],
)
def test_each_action_is_read_with_what_it_takes(written: str, action: str, params: dict[str, Json]) -> None:
    assert step(written) == RuleStep(action=action, params=params)


@pytest.mark.parametrize(
    ("head", "written", "message"),
    [
        (HEAD, "{optimisation: 'ON', pause: }", "10: an action is a word, or one key with its value"),
        (
            HEAD,
            "create_draft: {goal: ROAS, total_budget: 5, extra: {x: {y: ['=defaults.z']}}}",
            "81: defaults has no documented field 'z'",
        ),
        (WATCHING, "edit_cluster: {each: added}, each: added", "39: unknown action 'each'"),
    ],
)
def test_what_an_action_cannot_take_is_told_at_its_place(head: str, written: str, message: str) -> None:
    found = mistakes(head % written)
    assert any(one.startswith(f"r.yaml:4:{message}") for one in found), found


@pytest.mark.parametrize(
    "written",
    [
        "edit_cluster: {each: added, budget: '=100.0 * double(size(added))'}",
        "{edit_cluster: {budget: '=100.0 * double(size(added))'}, each: added}",
        "{each: added, edit_cluster: {budget: '=100.0 * double(size(added))'}}",
    ],
)
def test_each_stands_among_the_parameters_or_beside_the_action(written: str) -> None:
    found = step(written, WATCHING)
    assert (found.action, found.each, list(found.params)) == ("edit_cluster", "added", ["budget"])


@pytest.mark.parametrize("watched", ["suggested_tcs", "clusters", "{fact: suggested_tcs, by: [tc]}"])
def test_a_value_may_speak_of_its_item_and_of_the_items_run(watched: str) -> None:
    do = "[edit_cluster: {each: added, extra: {x: '=each.tc_run_id'}}]"
    text = f"rules:\n  - {{id: a, on_change: {watched}, do: {do}}}"
    assert the_rule(text).names >= {"each"}


def test_values_are_computed_at_any_depth() -> None:
    found = step("update_draft: {tcs: ['=event.city', rock], extra: {x: {y: '=defaults.goal', z: 1}}}")
    assert [one.source for one in found.computed] == ["event.city", "defaults.goal"]
    assert _sources(dict(found.params)) == {"tcs": ["=event.city", "rock"], "x": {"y": "=defaults.goal", "z": 1}}
    assert the_rule(HEAD % "series_add: ['=event.id', e2]").names == {"event"}


def _sources(value: Template) -> Json:
    if isinstance(value, Computed):
        return f"={value.source}"
    if isinstance(value, dict):
        return {name: _sources(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_sources(part) for part in value]
    return value


@pytest.mark.parametrize(
    ("written", "message", "hint"),
    [
        (
            "create_draft: {goal: ROAS, total_budget: 1,000}",
            "53: unknown key '000' in create_draft",
            "write nothing between thousands: 1000.5",
        ),
        (
            "create_campaign: {each: clusters, where: each.metric_pred > 4.0}",
            "44: unknown key 'where' in create_campaign",
            "write each: {of: campaigns, where: each.budget < 100.0}",
        ),
        (
            "create_draft: {goal: ROAS, total_budget: 5, eid: e9}",
            "54: unknown key 'eid' in create_draft",
            "leave it out: the event is sent by itself",
        ),
        ("write: {method: PUT, path: /x, extra: {}}", "41: unknown key 'extra' in write", "known here: body"),
        ("update_draft: {extra: '=event'}", "32: update_draft.extra must be a mapping", "write extra: {"),
        (
            "update_draft: {goal: ROAS, extra: {daily_budget: '99,999'}}",
            "59: update_draft.daily_budget: '99,999' is money, and cannot be counted",
            "write the number without separators and currency",
        ),
        (
            "update_draft: {extra: {money: {cost: [99999 EUR, '=event.city']}}}",
            "48: update_draft.money: '99999 EUR' is money, and cannot be counted",
            "write the number",
        ),
        (
            "write: {method: PUT, path: /x, query: {a: b, budget.max: 99 999}, spends: false}",
            "67: write.query: '99 999' is money, and cannot be counted",
            "write the number",
        ),
    ],
)
def test_a_parameter_that_nobody_names_is_an_error_with_the_way_out(written: str, message: str, hint: str) -> None:
    (problem,) = problems(HEAD % written)
    assert str(problem).startswith(f"r.yaml:4:{message}")
    assert problem.hint.startswith(hint)


def test_an_assumption_names_parameters_too() -> None:
    query: dict[str, Json] = {"eid": "{eid}", "run": "{tc_run_id}", "tc": "{tc}", "kind": "new"}
    given: dict[str, Json] = {"create_campaign.query": query, "boost.body": ["x"], "task.failed": {"no": "name"}}
    registry = with_custom({}, given)
    assert registry.assumed["create_campaign"] == {"kind"}, "what the query fills in by itself is nobody's to give"
    assert registry.assumed["edit_cluster"] == frozenset()
    text = HEAD % "create_campaign: {tc: a, tc_run_id: 1, kind: '=event.city'}"
    assert set(the_rule(text, registry).do[0].params) == {"tc", "tc_run_id", "kind"}
    assert "unknown key 'kind'" in mistakes(text)[0]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("edit_cluster: {tc: a, tc_run_id: 1, budget: 5, extra: {daily: 9}}", "65: 'daily' does not stand under extra"),
        ("create_campaign: {tc: a, tc_run_id: 1, budget: 5, daily: 9}", "60: unknown key 'daily'"),
    ],
)
def test_the_service_s_own_name_for_a_budget_carries_no_second_one(written: str, message: str) -> None:
    """It was sent in place of the budget, in no range, and was never read back."""
    registry = with_custom({}, {"cluster.budget": "daily", "create_campaign.query": {"eid": "{eid}", "daily": "7"}})
    (problem,) = mistakes(HEAD % written, registry)
    assert problem.startswith(f"r.yaml:4:{message}")
    assert mistakes(HEAD % "update_draft: {extra: {daily: 9}}", registry) == []


@pytest.mark.parametrize("written", ["frontend_status: CANCELLED", "write: {method: DELETE, path: '/x', host: cr}"])
def test_what_needs_the_ingest_service_is_refused_where_its_address_is_not_known(written: str) -> None:
    (found,) = mistakes(HEAD % f"{{{written}}}", Registry(ingest=False))
    assert "needs the event-ingest service" in found
