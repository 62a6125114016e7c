"""A rule that comes after another one: what its condition is without a write, and what it says of one."""

from datetime import timedelta

import pytest

from tests.builders import NOW, PARTNER
from worker.model.facts import EventId, FactKey, Json, Known, Observation
from worker.model.rules import Judgement, Rule, Scope, Truth
from worker.rules.facts import derives, keys_for
from worker.rules.load import read_rules

FIRST = "rules: [{id: first, when: event.status == 'cancelled', do: [pause]},"


def the_rule(more: str) -> Rule:
    (rule,) = [
        one
        for one in read_rules({"a.yaml": f"{FIRST} {{id: then, after: first, {more}, do: [run]}}]"}).rules.rules
        if one.after
    ]
    return rule


def judged(rule: Rule, write: Json, **event: Json) -> Judgement:
    key = FactKey(name="write", params=(("after", "first"), ("for", "then")))
    facts = {key: Known(value=write, read_at=NOW), FactKey(name="event"): Known(value=event, read_at=NOW)}
    seen = Observation(partner=PARTNER, event=EventId("e1"), facts=facts)
    assert rule.when is not None
    return rule.when.judge(Scope(observation=seen, keys=keys_for(rule, seen, NOW), now=NOW))


def written(hours: float, **more: Json) -> Json:
    at = (NOW - timedelta(hours=hours)).isoformat()
    return {"at": at, "action": "pause", "before": "RUNNING", "wanted": "PAUSED", **more}


@pytest.mark.parametrize(
    "when", ["now - write.at > duration('1h')", "event.missing > 1.0 || now - write.at > duration('1h')"]
)
def test_without_a_write_the_condition_is_false_whatever_else_it_asks(when: str) -> None:
    rule = the_rule(f'when: "{when.replace("event.missing", "event.capacity")}"')
    none = judged(rule, None)
    assert none.truth is Truth.FALSE
    assert none.why.startswith("rule first has no confirmed write on the event that stands")
    assert judged(rule, written(2)).truth is Truth.TRUE


def test_a_rule_that_only_watches_has_the_write_for_its_condition() -> None:
    rule = the_rule("on_change: {fact: event, by: status}")
    assert judged(rule, None).truth is Truth.FALSE
    assert judged(rule, written(2)).truth is Truth.TRUE


def test_what_a_write_was_of_is_known_by_its_fields() -> None:
    rule = the_rule("when: write.action == 'pause' && write.before != write.wanted")
    assert judged(rule, written(1)).truth is Truth.TRUE
    assert judged(rule, written(1, before="PAUSED")).truth is Truth.FALSE


def test_another_rule_to_come_after_is_another_condition() -> None:
    second = read_rules(
        {
            "a.yaml": f"{FIRST} {{id: other, when: event.status == 'cancelled', do: [pause]}}, "
            "{id: then, after: other, when: event.capacity > 1.0, do: [run]}]"
        }
    )
    (rule,) = [one for one in second.rules.rules if one.after]
    assert rule.when_hash != the_rule("when: event.capacity > 1.0").when_hash
    assert derives([rule])
    assert not derives([one for one in second.rules.rules if not one.after])
