"""Three-valued truth, and words that a person can check."""

from dataclasses import replace

import pytest

from tests.builders import a_fact, a_scope, unreadable
from worker.model.facts import UNREAD, Fact, FactKey, Json
from worker.model.rules import Scope, Truth
from worker.rules.evaluate import expression, leaves

EVENT: dict[str, Json] = {
    "status": "active",
    "capacity": 100,
    "start_date_time": "2026-03-09T00:00:00Z",
    "special_ad_category": None,
    "extra": {"deep": [1, True, 10**400, -(10**400)]},
}


SEEN = a_fact(EVENT, gaps={"city": "it is missing"})


def scope(event: Fact = SEEN, **more: Fact) -> Scope:
    found = a_scope({"event": event, **more})
    return replace(found, keys={**found.keys, "setup": FactKey(name="setup")})


@pytest.mark.parametrize(
    ("source", "truth", "why"),
    [
        ("event.status == 'active'", Truth.TRUE, "event.status is 'active'"),
        ("event.status == 'cancelled'", Truth.FALSE, "event.status is 'active'"),
        ("event.capacity > 50", Truth.TRUE, "event.capacity is 100"),
        ("event.special_ad_category == null", Truth.TRUE, "event.special_ad_category is null"),
        ("event.start_date_time - now < duration('8d')", Truth.TRUE, "event.start_date_time is '2026-03-09T00:00:00Z'"),
        ("event.start_date_time - now > duration('7d12h')", Truth.FALSE, "now is 2026-03-01T12:00:00Z"),
        ("event.extra.deep[2] > 1e300 && event.extra.deep[3] < 0", Truth.TRUE, "event.extra.deep has 4 items"),
        ("event.extra.deep[1]", Truth.TRUE, "event.extra.deep has 4 items"),
        ("event.extra == event.extra", Truth.TRUE, "event.extra is a record of 1 fields"),
        ("event.city == 'x'", Truth.UNKNOWN, "event.city is unknown: it is missing"),
        ("event.city == 'x' || event.status == 'active'", Truth.TRUE, "event.city is unknown: it is missing"),
        ("event.city == 'x' && event.status == 'cancelled'", Truth.FALSE, "event.status is 'active'"),
        ("event.venue_name == 'x'", Truth.UNKNOWN, "event has no field 'venue_name'"),
        ("event.status.x == 'x'", Truth.UNKNOWN, "event.status is 'active' and has no field 'x'"),
        ("setup.state == 'DRAFT'", Truth.UNKNOWN, "setup is unknown: not read yet"),
        ("suggested_tcs.size() > 0", Truth.UNKNOWN, "suggested_tcs is unknown: its parameters are not known yet"),
        ("added.size() > 0", Truth.UNKNOWN, "added is unknown: no watched value has changed"),
        ("event.capacity", Truth.UNKNOWN, "the result is 100.0, neither true nor false"),
        ("event.start_date_time - now", Truth.UNKNOWN, "the result is 7 days, 12:00:00, neither true nor false"),
        ("event.capacity / 0.0 > 1.0", Truth.UNKNOWN, "a quotient is not a finite number: it is divided by 0"),
        ("1 / 0 == 1", Truth.UNKNOWN, "it is divided by 0"),
        ("1 == 1", Truth.TRUE, "'1 == 1' is constant"),
    ],
)
def test_a_condition_is_true_false_or_unknown_and_says_why(source: str, truth: Truth, why: str) -> None:
    judgement = expression(source).judge(scope())
    assert expression(source).truth(scope()) is truth, "the same without words"
    assert judgement.truth is truth
    assert why in judgement.why


def test_an_unreadable_fact_is_named_with_its_reason() -> None:
    judgement = expression("event.status == 'x'").judge(scope(unreadable("the service answered 503")))
    assert judgement.why == "event is unknown: the service answered 503"
    assert judgement.unknown == ("event.status",)


@pytest.mark.parametrize(
    ("source", "fact", "truth"),
    [
        ("known(event.status)", unreadable("the service answered 503"), Truth.FALSE),
        ("known(event.status)", UNREAD, Truth.UNKNOWN),
        ("!known(event.status)", replace(UNREAD, why="the daemon has not read it"), Truth.UNKNOWN),
    ],
)
def test_whether_a_field_is_known_cannot_be_said_while_nobody_has_read_it(
    source: str, fact: Fact, truth: Truth
) -> None:
    assert expression(source).judge(scope(fact)).truth is truth


def test_what_is_missing_in_an_item_of_a_list_is_named() -> None:
    clusters = a_fact([{"tc": "a"}], gaps={"clusters[0].label": "it is missing"})
    judgement = expression("clusters.exists(c, c.label == 'x')").judge(scope(clusters=clusters))
    assert judgement.truth is Truth.UNKNOWN
    assert "clusters[0].label is unknown: it is missing" in judgement.why


def test_the_change_is_seen_by_the_condition_and_named() -> None:
    changed: dict[str, Json] = {"added": [{"tc": "a"}], "previous": {"suggested_tcs": [{"tc": "b"}]}}
    condition = expression("added.exists(x, x.tc == 'a') && size(previous.suggested_tcs) == 1")
    judgement = condition.judge(replace(scope(), extra=changed))
    assert judgement.truth is Truth.TRUE
    assert judgement.why == "added has 1 item; previous.suggested_tcs has 1 item"


def test_a_time_that_is_none_is_unknown_and_not_a_text() -> None:
    judgement = expression("event.start_date_time != now").judge(scope(a_fact({"start_date_time": "soon"})))
    assert judgement.truth is Truth.UNKNOWN


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("event.capacity * 1.5", 150.0),
        ("event.status + '!'", "active!"),
        ("event.start_date_time", "2026-03-09T00:00:00Z"),
        ("event.start_date_time - now", "7d12h"),
        ("[event.status, null]", ["active", None]),
        ("{'a': event.capacity > 1.0}", {"a": True}),
    ],
)
def test_a_computed_value_is_json(source: str, value: Json) -> None:
    assert expression(source).value(scope()) == value


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("defaults.total_budget * 2.0", "defaults is unknown: its parameters are not known yet"),
        ("event.capacity * 2", "a number and a whole number cannot be combined by '\\*'"),
        ("now.getHours('Nowhere')", "'Nowhere' is no time zone"),
        ("event.city", "event.city is unknown: it is missing"),
    ],
)
def test_a_value_that_cannot_be_computed_says_why(source: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        expression(source).value(scope())


def test_the_parts_of_a_condition_are_judged_one_by_one() -> None:
    whole = expression("event.status == 'active' && !(event.capacity > 500 || setup.state == 'DRAFT')")
    judged = [(leaf.source, leaf.tree.start, leaf.judge(scope()).truth) for leaf in leaves(whole)]
    assert judged == [
        ("event.status == 'active'", 0, Truth.TRUE),
        ("event.capacity > 500", 30, Truth.FALSE),
        ("setup.state == 'DRAFT'", 54, Truth.UNKNOWN),
    ]
    assert next(leaves(whole)).names == {"event"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(event.flag == true) && (event.status == 'a')", ["event.flag == true", "event.status == 'a'"]),
        ("event.status == 'true' || (event.flag == (false))", ["event.status == 'true'", "event.flag == (false)"]),
        ("!(event.flag == false) && event['true'] == r'false'", ["event.flag == false", "event['true'] == r'false'"]),
        ("true // or false\n && event.flag", ["true", "event.flag"]),
    ],
)
def test_parts_that_end_with_a_truth_value_are_cut_out_where_they_end(text: str, expected: list[str]) -> None:
    assert [leaf.source for leaf in leaves(expression(text))] == expected
