"""From an action to the writes it plans: target, wish, wanted values, and whether it spends."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.builders import a_fact, a_rule, a_scope, a_step, an_intent, cases
from worker.model.actions import ACTIONS
from worker.model.facts import Json, Known
from worker.model.rules import RuleStep, Scope
from worker.writes.evidence import wish_of
from worker.writes.intents import NotComputable, amount_of, asks_always, plan_steps, wishes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """A computed value: a default plus something, or an error."""

    plus: float = 0.0

    @property
    def source(self) -> str:
        return f"=defaults + {self.plus}"

    @property
    def names(self) -> frozenset[str]:
        return frozenset({"defaults"})

    def value(self, scope: Scope) -> Json:
        fact = scope.fact("defaults")
        default = fact.value if isinstance(fact, Known) else None
        if default is None:
            raise ValueError("defaults: not read yet")
        return float(str(default)) + self.plus


def a_computed_draft(plus: float = 0.0) -> RuleStep:
    return RuleStep(action="create_draft", params={"goal": "ROAS", "total_budget": Sum(plus=plus)})


@pytest.mark.parametrize(
    ("action", "params", "target", "wanted", "money"),
    [
        ("pause", {}, "client_campaign_status", {"client_campaign_status": "PAUSED"}, "only stops spending"),
        ("run", {}, "client_campaign_status", {"client_campaign_status": "RUNNING"}, "spends"),
        (
            "optimisation",
            {"value": "ON"},
            "campaign_optimisation_status",
            {"campaign_optimisation_status": "ON"},
            "spends",
        ),
        (
            "optimisation",
            {"value": "OFF"},
            "campaign_optimisation_status",
            {"campaign_optimisation_status": "OFF"},
            "only stops spending",
        ),
        (
            "ad_optimisation",
            {"value": "ON"},
            "ad_campaign_optimisation_status",
            {"ad_campaign_optimisation_status": "ON"},
            "spends",
        ),
        (
            "ad_optimisation",
            {"value": "OFF"},
            "ad_campaign_optimisation_status",
            {"ad_campaign_optimisation_status": "OFF"},
            "only stops spending",
        ),
        ("frontend_status", {"value": "HIDDEN"}, "frontend_status", {"frontend_status": "HIDDEN"}, "neither"),
        (
            "create_draft",
            {"goal": "ROAS", "total_budget": 500.0, "name": "x"},
            "setup",
            {"goal": "ROAS", "total_budget": 500.0},
            "spends",
        ),
        ("boost", {}, "setup", {"state": "PUBLISHED"}, "spends"),
    ],
)
def test_what_each_action_wants(
    action: str, params: Mapping[str, Json], target: str, wanted: object, money: str
) -> None:
    intent = an_intent(action, params)
    assert (intent.target, intent.wanted) == (target, wanted)
    assert (intent.spends, intent.stops) == (money == "spends", money == "only stops spending")


@pytest.mark.parametrize(
    ("params", "spends", "asks"),
    [
        ({"method": "PUT", "path": "/events/{eid}", "host": "cr"}, True, None),
        ({"method": "PUT", "path": "/events/{eid}", "host": "cr", "spends": False}, False, None),
        ({"method": "PUT", "path": "/events/%7Beid}/", "host": "cr", "spends": False}, False, None),
        ({"method": "PUT", "path": "/events/{eid}", "host": "cr", "spends": False, "body": {"cap": 9}}, True, None),
        ({"method": "PUT", "path": "/events/{eid}", "spends": False}, True, "undocumented"),
        ({"method": "PUT", "path": "/x", "spends": False}, True, "undocumented"),
        ({"method": "PUT", "path": "/x", "spends": True}, True, "undocumented"),
        ({"method": "DELETE", "path": "/x", "spends": False}, True, "delete"),
    ],
)
def test_a_write_by_hand_spends_unless_the_rule_says_otherwise_and_a_delete_asks(
    params: Mapping[str, Json], spends: bool, asks: str | None
) -> None:
    intent = an_intent("write", params)
    reason = asks_always(intent)
    assert (intent.target, intent.spends) == (f"{params['method']} {params['path']}", spends)
    assert (reason and reason[0]) == asks
    assert not asks_always(an_intent("series_remove", {"value": ["a"]})), "what can be put back need not ask"


def test_every_action_of_the_table_can_be_planned_but_an_undo_which_becomes_others() -> None:
    step = a_step("undo", {"value": "other"})
    planned = plan_steps(a_rule(a_step("pause"), step, a_step("boost")), a_scope(), {})
    assert [(one.position, one.intent.order) for one in planned] == [(0, 0), (2, 3)], "and has room for them"
    for action in ACTIONS.keys() - {"undo"}:
        assert an_intent(action, {"value": "ON"} if ACTIONS[action].shape == "value" else {}).action == action


def test_frontend_status_is_two_writes_in_order() -> None:
    planned = plan_steps(a_rule(a_step("frontend_status", {"value": "HIDDEN"}), a_step("pause")), a_scope(), {})
    assert [(one.position, one.item, one.intent.order) for one in planned] == [
        (0, "event", 0),
        (0, "cr", 1),
        (1, "", 2),
    ]
    assert planned[1].intent.wanted == {}, "what cannot be read back has no evidence"
    assert planned[0].intent.wish == planned[1].intent.wish


def test_a_computed_value_makes_no_standing_wish() -> None:
    rule = a_rule(a_step("pause"), a_computed_draft())
    assert [wish.target for wish in wishes_of(rule)] == ["client_campaign_status"], "it differs by event"


def test_numbers_too_large_for_a_double_are_still_told_apart() -> None:
    large = [
        wish_of("create_draft", {"goal": "ROAS", "total_budget": number}).text for number in (10**400, 10**400 + 1)
    ]
    assert len(set(large)) == 2


@cases(
    "action, params, amount",
    ("create_draft", {"total_budget": 500}, 500.0, "its own budget"),
    ("create_draft", {"total_budget": 12.5}, 12.5, "its own budget"),
    ("create_draft", {"total_budget": "500"}, 500.0, "a text that reads as one"),
    ("create_draft", {"total_budget": True}, None, "nor is a boolean"),
    ("boost", {}, None, "the draft's, which the guard reads"),
    ("pause", {}, None, "none"),
    ("write", {"body": {"total_budget": 70}}, 70.0, "a budget in its body"),
    ("write", {"query": {"budget": 7}}, 7.0, "or in its query"),
    ("write", {"body": ["total_budget"], "query": {"n": 7}}, None, "none"),
)
def test_the_budget_that_a_write_commits(action: str, params: Mapping[str, Json], amount: float | None) -> None:
    assert amount_of(an_intent(action, params)) == amount


def test_a_relative_value_is_kept_with_what_it_was_computed_from() -> None:
    """Each write of a firing has the fields of its own target, and the rest of the context as all others."""
    step = RuleStep(action="update_draft", params={"total_budget": 120.0}, relative=("bid", "total_budget"))
    facts = {"setup": a_fact({"state": "DRAFT", "total_budget": 100})}
    relative, plain = plan_steps(a_rule(step, a_step("pause")), a_scope(facts), {"written": {}})
    assert relative.intent.context == {"written": {}, "computed_from": {"total_budget": 100, "bid": None}}
    assert plain.intent.context == {"written": {}}
    with pytest.raises(NotComputable, match="setup is not known"):
        plan_steps(a_rule(step), a_scope({}), {})
