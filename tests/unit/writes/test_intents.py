"""From an action to the writes it plans: what they want and spend, what is computed for them, which wishes conflict."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.builders import a_fact, a_rule, a_scope, a_step, an_intent, cases, unreadable
from worker.model.actions import ACTIONS
from worker.model.facts import Fact, Json
from worker.model.rules import RuleStep, Scope, Template
from worker.rules.evaluate import expression
from worker.writes.evidence import wish_of
from worker.writes.intents import (
    NotComputable,
    amount_of,
    asks_always,
    computed_params,
    each_of,
    judged,
    plan_steps,
    wishes_of,
)

STATUS, OPTIMISATION = "client_campaign_status", "campaign_optimisation_status"


@pytest.mark.parametrize(
    ("action", "params", "target", "wanted", "spends", "stops"),
    [
        ("pause", {}, STATUS, {STATUS: "PAUSED"}, False, True),
        ("run", {}, STATUS, {STATUS: "RUNNING"}, True, False),
        ("optimisation", {"value": "ON"}, OPTIMISATION, {OPTIMISATION: "ON"}, True, False),
        ("optimisation", {"value": "OFF"}, OPTIMISATION, {OPTIMISATION: "OFF"}, False, True),
        ("ad_optimisation", {"value": "ON"}, f"ad_{OPTIMISATION}", {f"ad_{OPTIMISATION}": "ON"}, True, False),
        ("ad_optimisation", {"value": "OFF"}, f"ad_{OPTIMISATION}", {f"ad_{OPTIMISATION}": "OFF"}, False, True),
        ("frontend_status", {"value": "HIDDEN"}, "frontend_status", {"frontend_status": "HIDDEN"}, False, False),
        ("create_draft", {"name": "x"}, "setup", {"goal": "ROAS", "total_budget": 500.0}, True, False),
        ("boost", {}, "setup", {"state": "PUBLISHED"}, True, False),
    ],
)
def test_what_each_action_wants(
    action: str, params: Mapping[str, Json], target: str, wanted: object, spends: bool, stops: bool
) -> None:
    intent = an_intent(action, params)
    assert (intent.target, intent.wanted, intent.spends, intent.stops) == (target, wanted, spends, stops)


def put(path: str = "/x", **more: Json) -> dict[str, Json]:
    return {"method": "PUT", "path": path, **more}


@cases(
    "params, spends, asks",
    (put("/events/{eid}", host="cr"), True, None, "it spends"),
    (put("/events/{eid}", host="cr", spends=False), False, None, "unless the rule says otherwise"),
    (put("/events/%7Beid}/", host="cr", spends=False), False, None, "the path spelled otherwise"),
    (put("/events/{eid}", host="cr", spends=False, body={"cap": 9}), True, None, "it does with money in its body"),
    (put("/events/{eid}", spends=False), True, "undocumented", "or on the other host"),
    (put(spends=False), True, "undocumented", "or on an undocumented path"),
    (put(spends=True), True, "undocumented", "which asks also where it is said to spend"),
    ({**put(spends=False), "method": "DELETE"}, True, "delete", "a delete asks"),
)
def test_when_a_write_by_hand_spends_and_asks(params: Mapping[str, Json], spends: bool, asks: str | None) -> None:
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


def test_numbers_too_large_for_a_double_are_still_told_apart() -> None:
    one, other = (wish_of("create_draft", {"total_budget": number}).text for number in (10**400, 10**400 + 1))
    assert one != other


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


ROCK: dict[str, Json] = {"tc": "rock", "tc_run_id": 7}
JAZZ: dict[str, Json] = {"tc": "jazz & soul", "tc_run_id": "8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OfItem:
    """A computed value: a field of the item, or an error."""

    name: str

    @property
    def source(self) -> str:
        return f"item.{self.name}"

    @property
    def names(self) -> frozenset[str]:
        return frozenset({"each"})

    def value(self, scope: Scope) -> Json:
        item = scope.extra.get("each")
        if not isinstance(item, dict) or self.name not in item:
            raise ValueError(f"item has no field '{self.name}'")
        return item[self.name]


def edit(each: str = "added", **params: Any) -> RuleStep:  # noqa: ANN401 - values of any kind
    return RuleStep(action="edit_cluster", params=params, each=each)


def after(*added: Json, **facts: Fact) -> Scope:
    return replace(a_scope(dict(facts)), extra={"added": list(added)})


def test_what_is_computed_stands_where_it_was_written() -> None:
    first: list[Template] = [OfItem(name="tc"), 1]
    inside: dict[str, Template] = {"y": first}
    step = RuleStep(action="update_draft", params={"x": inside, "z": OfItem(name="tc_run_id")})
    scope = replace(a_scope(), extra={"each": ROCK})
    assert computed_params("p", step, scope) == {"x": {"y": ["rock", 1]}, "z": 7}
    with pytest.raises(NotComputable, match=r"p\.x\.y\[0\] = item\.tc: item has no field 'tc'"):
        computed_params("p", step, a_scope())
    with pytest.raises(NotComputable, match=r"p\.x\.y\[0\] = item\.tc is null, which is not known"):
        computed_params("p", step, replace(a_scope(), extra={"each": {"tc": None}}))


def test_only_what_was_computed_is_judged_and_what_is_wrong_is_left_out() -> None:
    bid: list[Template] = [OfItem(name="b")]
    step = RuleStep(action="edit_cluster", params={"tc": 5, "budget": OfItem(name="a"), "bid": bid, "x": 1})
    fit, fault = judged("p", step, {"tc": 5, "budget": "9999", "bid": [float("inf")], "x": 1, "tc_run_id": 7})
    assert fit == {"tc": 5, "x": 1, "tc_run_id": 7}
    assert fault == "p.budget is the text '9999', and must be a number above 0; p.bid is [inf], which is not finite"
    good: dict[str, Json] = {"tc": 5, "budget": 50, "bid": [1], "x": 1}
    assert judged("p", step, good) == (good, "")


def test_a_write_with_a_fault_wants_nothing_that_it_may_not_send() -> None:
    scope = after({**ROCK, "price": "9999"}, {**JAZZ, "price": 12.345})
    bad, good = plan_steps(a_rule(edit(budget=OfItem(name="price"))), scope, {})
    assert (bad.item, bad.intent.wanted, "budget" in bad.intent.params) == ("rock:7", {"exists": True}, False)
    assert bad.fault.endswith("edit_cluster.budget is the text '9999', and must be a number above 0")
    assert (good.item, good.intent.params["budget"], good.fault) == ("jazz & soul:8", 12.35, "")


@pytest.mark.parametrize("run", ["x", 7.5, True])
def test_a_run_that_is_computed_and_is_none_is_a_fault(run: Json) -> None:
    rule = a_rule(edit(each="", tc="rock", tc_run_id=OfItem(name="run")))
    (planned,) = plan_steps(rule, replace(a_scope(), extra={"each": {"run": run}}), {})
    assert "tc_run_id is" in planned.fault
    assert "must be a whole number" in planned.fault


def test_twenty_added_clusters_are_twenty_writes_that_wait_for_none_of_each_other() -> None:
    added: list[Json] = [{"tc": f"cluster {number}", "tc_run_id": number} for number in range(20)]
    rule = a_rule(RuleStep(action="pause"), edit(budget=5), RuleStep(action="boost"))
    planned = plan_steps(rule, after(*added), {})
    assert [(one.position, one.intent.order) for one in planned] == [(0, 0), *[(1, 1)] * 20, (2, 2)]
    assert len({one.item for one in planned if one.position == 1}) == 20
    assert planned[1].intent.target == "campaign:cluster 0:0"
    assert planned[1].intent.wanted == {"exists": True, "budget": 5}
    assert all(one.intent.spends for one in planned if one.position == 1)


@cases(
    "step",
    (RuleStep(action="create_draft", params={"goal": "ROAS", "total_budget": OfItem(name="x")}), "it differs by event"),
    (edit(budget=5), "it goes through what was added"),
)
def test_what_is_known_only_at_the_firing_makes_no_standing_wish(step: RuleStep) -> None:
    assert [wish.target for wish in wishes_of(a_rule(a_step("pause"), step))] == [STATUS]


@pytest.mark.parametrize("name", ["suggested_tcs", "clusters"])
def test_a_cluster_of_which_only_the_name_was_compared_gets_its_run(name: str) -> None:
    facts = {name: a_fact([{"tc": "pop", "tc_run_id": 1}, "odd", {"tc": "rock"}, {"tc": "rock", "tc_run_id": 9}])}
    assert each_of("p", edit(), after({"tc": "rock"}, **facts)) == {"rock:9": {"tc": "rock", "tc_run_id": 9}}


@cases(
    "scope, message",
    (a_scope(), "nothing is known to have been added", "no change is pending"),
    (after({"tc": "rock"}), "an item has no tc_run_id", "no list tells its run"),
    (after({"tc": "rock"}, clusters=unreadable()), "an item has no tc_run_id", "the list cannot be read"),
    (after({"tc": "rock"}, clusters=a_fact([{"tc": "pop", "tc_run_id": 1}])), "no tc_run_id", "another cluster"),
    (after({"tc_run_id": 7}), "an item has no tc", "a run alone names no cluster"),
    (after("rock"), "an item has no tc", "no cluster at all"),
    (after({"tc": "rock", "tc_run_id": 7.5}), "7.5 is no run of clusters", "half a run"),
    (after({"tc": "rock", "tc_run_id": "x"}), "'x' is no run of clusters", "a word"),
    (after({"tc": "rock", "tc_run_id": True}), "True is no run of clusters", "a truth"),
    (after({"tc": "rock", "tc_run_id": float("inf")}), "inf is no run of clusters", "without end"),
)
def test_an_item_that_names_no_campaign_plans_nothing(scope: Scope, message: str) -> None:
    with pytest.raises(NotComputable, match=message):
        each_of("p", edit(), scope)


@pytest.mark.parametrize("run", [7, 7.0, "7"])
def test_a_run_is_a_whole_number_however_it_is_spelled(run: Json) -> None:
    assert computed_params("p", edit(each="", tc="rock", tc_run_id=run), a_scope()) == ROCK


def by_hand(**params: Any) -> RuleStep:  # noqa: ANN401 - values of any kind
    return RuleStep(action="write", params={"method": "PUT", **params})


@cases(
    "step, kept",
    (by_hand(path="/x/{client_id}"), "12", "in the path"),
    (by_hand(path="/x", body={"a": [1, "is {client_id}"]}), "12", "deep in the body"),
    (by_hand(path="/x/{eid}", query={"n": 7}), None, "nowhere"),
)
def test_the_partners_internal_id_is_kept_with_a_write_that_names_it(step: RuleStep, kept: str | None) -> None:
    assert computed_params("p", step, a_scope({"partner": a_fact({"id": 12})})).get("client_id") == kept


@pytest.mark.parametrize("partner", [unreadable(), a_fact([]), a_fact({})])
def test_a_write_that_names_an_internal_id_which_is_not_known_is_not_planned(partner: Fact) -> None:
    with pytest.raises(NotComputable, match="client_id"):
        computed_params("p", by_hand(path="/x/{client_id}"), a_scope({"partner": partner}))


def test_what_the_rule_writes_goes_before_what_the_item_says() -> None:
    assert list(each_of("p", edit(tc="pop"), after(ROCK))) == ["pop:7"]


def listed(*items: Json) -> Scope:
    return a_scope({"campaigns": a_fact(list(items))})


def test_each_item_of_a_fact_is_a_write_where_its_condition_is_true() -> None:
    jazz: Json = {"tc": "jazz", "tc_run_id": 7, "budget": 20.0}
    scope = listed({**ROCK, "budget": 5.0}, jazz)
    assert list(each_of("p", edit("campaigns"), scope)) == ["rock:7", "jazz:7"]
    some = replace(edit("campaigns"), where=expression("each.budget > 10.0"))
    assert list(each_of("p", some, scope)) == ["jazz:7"]
    assert some.lists == {"campaigns", "each"}
    with pytest.raises(NotComputable, match=r"p: each\.where: "):
        each_of("p", some, listed(ROCK))


@pytest.mark.parametrize(
    ("fact", "message"), [(unreadable(), "p: each: campaigns is not known: "), (a_fact({}), "it is no list")]
)
def test_a_list_that_is_not_known_holds_the_firing(fact: Fact, message: str) -> None:
    with pytest.raises(NotComputable, match=message):
        each_of("p", edit("campaigns"), a_scope({"campaigns": fact}))


def test_the_list_that_a_write_comes_from_is_kept_with_it() -> None:
    rule = a_rule(edit("campaigns", budget=5.0))
    (planned,) = plan_steps(rule, listed(ROCK), {"x": 1})
    assert planned.intent.context == {"x": 1, "each": "campaigns"}


PUT: Mapping[str, Json] = {"method": "PUT", "path": "/y"}
POST: Mapping[str, Json] = {"method": "POST", "path": "/y"}
ROCK_8: Mapping[str, Json] = {"tc": "rock", "tc_run_id": 8}


@cases(
    "one, other, opposite",
    (("update_draft", {"goal": "ROAS"}), ("update_draft", {"total_budget": 5}), False, "two fields"),
    (("update_draft", {"goal": "ROAS"}), ("update_draft", {"goal": "VISIBILITY"}), True, "two goals"),
    (("update_draft", {"total_budget": 5}), ("create_draft", {"total_budget": 6}), True, "a draft has one budget"),
    (("update_draft", {"total_budget": 5}), ("boost", {}), False, "a draft is changed in order to be published"),
    (("reset_setup", {}), ("boost", {}), True, "what is reset is not published"),
    (("reset_setup", {}), ("create_draft", {"total_budget": 6}), True, "nor is it a draft"),
    (("reset_setup", {}), ("reset_setup", {}), False, "equal"),
    (("reset_setup", {}), ("pause", {}), False, "another target"),
    (("edit_cluster", {**ROCK, "budget": 5}), ("edit_cluster", {**ROCK, "budget": 6}), True, "two budgets"),
    (("edit_cluster", {**ROCK, "budget": 5}), ("edit_cluster", {**ROCK, "bid": 6}), False, "two fields"),
    (("edit_cluster", {**ROCK, "budget": 5}), ("edit_cluster", {**ROCK_8, "budget": 6}), False, "two campaigns"),
    (("create_campaign", ROCK), ("edit_cluster", {**ROCK, "budget": 6}), False, "both want it to be there"),
    (("series_add", {"value": ["a"]}), ("series_remove", {"value": ["a", "b"]}), True, "in and out"),
    (("write", {**PUT, "body": {"x": 1}}), ("write", {**PUT, "body": {"x": 2}}), True, "one thing, two values"),
    (("write", {**PUT, "body": {"x": 1}}), ("write", {**PUT, "body": {"x": 1.0}}), False, "equal"),
    (("write", {**PUT, "body": {"x": 1}}), ("write", {**PUT, "path": "/z", "body": {"x": 2}}), False, "two things"),
    (("write", {**POST, "body": {"x": 1}}), ("write", {**POST, "body": {"x": 2}}), False, "each adds its own"),
    (("notify", {"value": "x"}), ("notify", {"value": "y"}), False, "messages go with everything"),
    (("series_add", {"value": ["a"]}), ("series_remove", {"value": ["b"]}), False, "two events"),
    (("pause", {}), ("run", {}), True, "two values of one field"),
    (("pause", {}), ("optimisation", {"value": "ON"}), False, "two fields"),
    (("update_draft", {"tcs": [{"a": 1.0}, 2]}), ("update_draft", {"tcs": [{"a": 1}, 2.0]}), False, "equal inside"),
    (("update_draft", {"flag": True}), ("update_draft", {"flag": 1}), True, "a boolean is no number"),
    (("series_add", {"value": ["a", "b"]}), ("series_add", {"value": ["b", "c"]}), False, "both in"),
)
def test_which_wishes_are_opposite(
    one: tuple[str, Mapping[str, Json]], other: tuple[str, Mapping[str, Json]], opposite: bool
) -> None:
    first, second = wish_of(*one), wish_of(*other)
    assert first.opposes(second) is opposite
    assert second.opposes(first) is opposite


def test_a_cluster_named_like_a_placeholder_is_only_a_name() -> None:
    odd = wish_of("edit_cluster", {"tc": "{tc_run_id}", "tc_run_id": 7})
    assert odd.target == "campaign:{tc_run_id}:7"
    assert wish_of("edit_cluster", {"tc": "rock"}).target == "campaign:rock:{tc_run_id}"
