"""A rule that comes after another one: what its condition is without a write, and what it says of one."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import NOW, a_fact, an_observation
from worker.model.errors import InputErrors
from worker.model.facts import FactKey, Json, Observation
from worker.model.rules import Judgement, Rule, Scope, Truth
from worker.rules.cel import BadSyntax
from worker.rules.evaluate import expression
from worker.rules.facts import kept_of, keys_for, since_then
from worker.rules.load import read_rules

FIRST = "rules: [{id: first, when: event.status == 'cancelled', do: [pause]},"


def the_rule(more: str) -> Rule:
    _, rule = read_rules({"a.yaml": f"{FIRST} {{id: then, after: first, {more}, do: [run]}}]"}).rules.rules
    return rule


def judged(rule: Rule, write: Json, **event: Json) -> Judgement:
    return judged_on(rule, write, observed(event=event))


def judged_on(rule: Rule, write: Json, observation: Observation) -> Judgement:
    key = FactKey(name="write", params=(("after", "first"), ("for", "then")))
    seen = replace(observation, facts={**observation.facts, key: a_fact(write)})
    assert rule.when is not None
    return rule.when.judge(Scope(observation=seen, keys=keys_for(rule, seen, NOW), now=NOW))


def observed(**facts: Json) -> Observation:
    return an_observation({name: a_fact(value) for name, value in facts.items()})


def written(hours: float, **more: Json) -> Json:
    at = (NOW - timedelta(hours=hours)).isoformat()
    return {"at": at, "action": "pause", "before": "RUNNING", "wanted": "PAUSED", **more}


@pytest.mark.parametrize(
    "when", ["now - write.at > duration('1h')", "event.capacity > 1.0 || now - write.at > duration('1h')"]
)
def test_without_a_write_the_condition_is_false_whatever_else_it_asks(when: str) -> None:
    rule = the_rule(f'when: "{when}"')
    none = judged(rule, None)
    assert none.truth is Truth.FALSE
    assert none.why.startswith("rule first has no confirmed write on the event that stands")
    some = judged(rule, written(2))
    assert some.truth is Truth.TRUE
    assert some.why.startswith("the last pause of rule first stands")


def test_a_rule_that_only_watches_has_the_write_for_its_condition() -> None:
    rule = the_rule("on_change: {fact: event, by: status}")
    assert judged(rule, None).truth is Truth.FALSE
    assert judged(rule, written(2)).truth is Truth.TRUE


def test_what_a_write_was_of_is_known_by_its_fields() -> None:
    rule = the_rule("when: write.action == 'pause' && write.before != write.wanted")
    assert judged(rule, written(1)).truth is Truth.TRUE
    assert judged(rule, written(1, before="PAUSED")).truth is Truth.FALSE


SINCE = the_rule(
    "with: {budget: 500, goal: ROAS}, when: since(statistics.sold.tickets) < since(statistics.seats)"
    " && since(expected_value) > 0.0 && known(since(event.capacity))"
)


def test_what_is_kept_are_the_numbers_that_are_known_by_fact_parameters_and_field() -> None:
    value = FactKey(name="expected_value", params=(("budget", 500.0), ("goal", "ROAS")))
    seen = observed(statistics={"sold": {"tickets": 5.0}, "seats": "many"}, event={"capacity": True})
    seen = replace(seen, facts={**seen.facts, value: a_fact(7)})
    kept = kept_of(SINCE, seen, NOW)
    assert kept == {"statistics.sold.tickets": 5.0, "expected_value?budget=500.0&goal=ROAS": 7.0}
    assert since_then(SINCE, kept, seen, NOW) == {"statistics": {"sold": {"tickets": 5.0}}, "expected_value": 7.0}


def test_parameters_that_cannot_be_had_yet_leave_nothing_to_keep_or_to_compare_with() -> None:
    rule = the_rule("when: since(expected_value) > 0.0")
    assert kept_of(rule, observed(), NOW) == {}
    assert since_then(rule, {"expected_value": 1.0}, observed(), NOW) == {}


@pytest.mark.parametrize(
    ("kept", "now", "truth"),
    [(100.0, 90.0, Truth.TRUE), (100.0, 110.0, Truth.FALSE), (None, 90.0, Truth.UNKNOWN), (100.0, None, Truth.UNKNOWN)],
)
def test_since_is_now_less_then_and_unknown_without_either(kept: Json, now: Json, truth: Truth) -> None:
    rule = the_rule("when: since(event.capacity) < 0.0")
    since: Json = {} if kept is None else {"event": {"capacity": kept}}
    found = judged(rule, written(1, since=since), **({} if now is None else {"capacity": now}))
    assert found.truth is truth
    if kept is None:
        assert "event.capacity at write.at is unknown: it was not read when that write was sent" in found.why


def test_whether_since_is_known_can_be_asked() -> None:
    rule = the_rule("when: known(since(event.capacity))")
    assert judged(rule, written(1, since={"event": {"capacity": 1.0}}), capacity=2.0).truth is Truth.TRUE
    assert judged(rule, written(1), capacity=2.0).truth is Truth.FALSE


@pytest.mark.parametrize("text", ["since(1.0)", "since(event.capacity, '2d')", "since()"])
def test_since_of_what_is_no_field_cannot_be_compiled(text: str) -> None:
    with pytest.raises(BadSyntax, match="takes a field of a fact"):
        expression(text)


def test_since_exists_where_after_does_and_not_in_a_name() -> None:
    with pytest.raises(InputErrors, match="'since' exists only in a rule with after"):
        read_rules({"a.yaml": "define: {sold: since(statistics.tickets)}\nrules: []"})


@settings(deadline=None, max_examples=60)
@given(values=st.tuples(*[st.one_of(st.none(), st.floats(-1e9, 1e9))] * 4))
def test_since_is_the_difference_of_what_was_kept_whatever_came_in_between(values: tuple[float | None, ...]) -> None:
    """Kept once, before the first attempt: of two facts, each known then and now or not."""
    rule = the_rule("when: since(event.capacity) < since(statistics.sold.tickets)")
    then, now = (
        observed(
            event={} if capacity is None else {"capacity": capacity},
            statistics={"sold": {} if tickets is None else {"tickets": tickets}},
        )
        for capacity, tickets in (values[:2], values[2:])
    )
    write = written(1, since=since_then(rule, kept_of(rule, then, NOW), then, NOW))
    found = judged_on(rule, write, now).truth
    was, sold, capacity, tickets = values
    if was is None or sold is None or capacity is None or tickets is None:
        assert found is Truth.UNKNOWN
    else:
        assert found is (Truth.TRUE if capacity - was < tickets - sold else Truth.FALSE)


def test_a_comment_at_the_end_of_a_condition_ends_with_it() -> None:
    rule = the_rule("when: \"event.status == 'active' // it is back\"")
    assert judged(rule, written(1), status="active").truth is Truth.TRUE
    assert judged(rule, written(1), status="cancelled").truth is Truth.FALSE
