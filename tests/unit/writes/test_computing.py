"""What the parameters of a step become at its firing, also once for each item that was added."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.builders import a_fact, a_rule, a_scope, cases, unreadable
from worker.model.facts import Fact, Json
from worker.model.rules import RuleStep, Scope, Template
from worker.rules.evaluate import expression
from worker.writes.intents import NotComputable, computed_params, each_of, judged, plan_steps, wishes_of

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
    assert judged("p", step, {"tc": 5, "budget": 50, "bid": [1], "x": 1}) == (
        {"tc": 5, "budget": 50, "bid": [1], "x": 1},
        "",
    )


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


def test_a_rule_that_goes_through_what_was_added_stands_for_no_wish_by_its_text() -> None:
    assert [wish.target for wish in wishes_of(a_rule(RuleStep(action="pause"), edit(budget=5)))] == [
        "client_campaign_status"
    ]


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


def test_a_run_is_a_whole_number_however_it_is_spelled() -> None:
    for spelled in (7, 7.0, "7"):
        step = edit(each="", tc="rock", tc_run_id=spelled)
        assert computed_params("p", step, a_scope()) == {"tc": "rock", "tc_run_id": 7}


@cases(
    "params, names",
    ({"method": "PUT", "path": "/x/{client_id}"}, True, "in the path"),
    ({"method": "PUT", "path": "/x", "body": {"a": [1, "is {client_id}"]}}, True, "deep in the body"),
    ({"method": "PUT", "path": "/x/{eid}", "query": {"n": 7}}, False, "nowhere"),
)
def test_the_partners_internal_id_is_kept_with_a_write_that_names_it(params: dict[str, Template], names: bool) -> None:
    step = RuleStep(action="write", params=params)
    scope = a_scope({"partner": a_fact({"id": 12})})
    assert computed_params("p", step, scope).get("client_id") == ("12" if names else None)
    if names:
        for fact in (unreadable(), a_fact([]), a_fact({})):
            with pytest.raises(NotComputable, match="client_id"):
                computed_params("p", step, a_scope({"partner": fact}))


def test_what_the_rule_writes_goes_before_what_the_item_says() -> None:
    assert list(each_of("p", edit(tc="pop"), after(ROCK))) == ["pop:7"]


def listed(*items: Json) -> Scope:
    fact = a_fact(list(items))
    return a_scope({"campaigns": fact})


def test_each_item_of_a_fact_is_a_write_where_its_condition_is_true() -> None:
    jazz: Json = {"tc": "jazz", "tc_run_id": 7, "budget": 20.0}
    scope = listed({**ROCK, "budget": 5.0}, jazz)
    assert list(each_of("p", edit("campaigns"), scope)) == ["rock:7", "jazz:7"]
    some = replace(edit("campaigns"), where=expression("each.budget > 10.0"))
    assert list(each_of("p", some, scope)) == ["jazz:7"]
    assert some.lists == {"campaigns", "each"}
    with pytest.raises(NotComputable, match=r"p: each\.where: "):
        each_of("p", some, listed(ROCK))


def test_a_list_that_is_not_known_holds_the_firing() -> None:
    with pytest.raises(NotComputable, match="p: each: campaigns is not known: "):
        each_of("p", edit("campaigns"), a_scope({"campaigns": unreadable()}))
    with pytest.raises(NotComputable, match="it is no list"):
        each_of("p", edit("campaigns"), a_scope({"campaigns": a_fact({})}))


def test_the_list_that_a_write_comes_from_is_kept_with_it() -> None:
    rule = a_rule(edit("campaigns", budget=5.0))
    (planned,) = plan_steps(rule, listed(ROCK), {"x": 1})
    assert planned.intent.context == {"x": 1, "each": "campaigns"}
