"""What rules name is read off their texts: whole facts, and single fields of records."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.builders import cases
from tests.polls import a_rule
from tests.unit.rules.reading import the_rule
from worker.model.facts import Json, Known, Unknown
from worker.model.rules import Judgement, Scope, Truth, Watch
from worker.rules.facts import Fields, decides, looked_at, narrowed, paths_named, worth_keeping

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Always:
    """A condition without a tree."""

    source = "?"
    names = frozenset({"event", "setup"})

    def judge(self, scope: Scope) -> Judgement:
        return Judgement(truth=Truth.TRUE, why=f"at {scope.now}")


@cases(
    "when, watches, expected",
    (None, [], {}, "nothing to look at"),
    (
        "event.status == 'x' && event['mood'] == 'y'",
        [],
        {"event": {"status", "mood"}},
        "fields, documented or not, in either spelling",
    ),
    ("event.benchmark.prediction.value > 0.5", [], {"event": {"benchmark"}}, "the first field of a chain"),
    ("event == previous.event", ["event"], {"event": None}, "a record as a whole"),
    ("clusters.exists(c, c.metric_pred > 4.0)", [], {"clusters": None}, "a list is one thing"),
    ("size(added) > 0", ["suggested_tcs"], {"suggested_tcs": None}, "what is watched, and nothing of our making"),
    ("now > event.start_date_time", [], {"event": {"start_date_time"}}, "the clock is no fact"),
    ("setup.state == 'DRAFT'", [("setup", "goal")], {"setup": {"state", "goal"}}, "watched fields join"),
    ("setup.state == 'DRAFT'", ["setup"], {"setup": None}, "a record watched as a whole"),
    ("ad_spend.total > 1.0", [], {"ad_spend": None}, "nobody knows the fields of a fact of one's own"),
)
def test_what_decides_is_what_the_condition_and_the_watches_name(
    when: str | None, watches: list[str | tuple[str, str]], expected: dict[str, set[str] | None]
) -> None:
    on_change = [Watch(fact=one) if isinstance(one, str) else Watch(fact=one[0], by=(one[1],)) for one in watches]
    found = decides(a_rule("r", when, on_change=on_change))
    assert {name: None if fields is None else set(fields) for name, fields in found.items()} == expected


def test_a_condition_without_a_tree_looks_at_everything_it_names() -> None:
    assert decides(replace(a_rule("r"), when=Always())) == {"event": None, "setup": None}


def test_computed_values_are_looked_at_as_well() -> None:
    rules = [
        a_rule("a", "event.status == 'x'", "create_draft =defaults.total_budget * 2.0"),
        a_rule("b", "event.title == 'y'", "pause"),
    ]
    expected = {"event": frozenset({"status", "title"}), "defaults": frozenset({"total_budget"})}
    assert looked_at(rules) == expected


def test_worth_keeping_are_documented_fields_and_named_ones() -> None:
    kept = worth_keeping([a_rule("r", "event['mood'] == 'y' && setup == setup")])
    event = kept["event"]
    assert event is not None
    assert {"mood", "status", "title"} <= event
    assert "noise" not in event
    assert kept["setup"] is None
    assert "clusters" not in kept, "lists are kept whole"


@pytest.mark.parametrize(
    "do",
    [
        "{update_draft: {extra: {note: {sold: \"=event['mood']\"}}}}",
        "{write: {method: POST, path: '/events/{eid}/x', body: {list: [\"=event['mood']\"]}}}",
        "{edit_cluster: {each: {of: campaigns, where: \"event['mood'] == 'y'\"}, budget: 70}}",
        "{notify: {text: hello, ended: \"=event['mood']\"}}",
    ],
)
def test_a_field_is_read_wherever_an_action_names_it(do: str) -> None:
    rules = [the_rule(f"rules: [{{id: r, when: event.status == 'x', do: [{do}]}}]")]
    assert "mood" in (worth_keeping(rules)["event"] or ())
    assert any(path.fields == ("mood",) for path in paths_named(rules)), "so that it is kept for `ago`"


@cases(
    "fields, expected",
    (frozenset({"a", "c"}), Known(value={"a": 1}, read_at=NOW, gaps={"c": "is null"}), "these fields, these gaps"),
    (None, Known(value={"a": 1, "b": 2}, read_at=NOW, gaps={"c": "is null", "d": "is null"}), "all of it"),
)
def test_a_record_is_narrowed_to_fields(fields: Fields, expected: Known) -> None:
    whole = Known(value={"a": 1, "b": 2}, read_at=NOW, gaps={"c": "is null", "d": "is null"})
    assert narrowed(whole, fields) == expected


@pytest.mark.parametrize(
    "fact", [Known(value=[1], read_at=NOW), Unknown(code="gone", why="404"), Known(value={"a": 1}, read_at=NOW)]
)
def test_what_is_no_record_or_has_no_other_fields_is_left_as_it_is(fact: Known | Unknown) -> None:
    assert narrowed(fact, frozenset({"a"})) is fact


def test_of_a_draft_all_money_is_kept_which_its_boost_commits() -> None:
    spends: dict[str, Json] = {"targeting": {"bid_cap": 3}, "daily_budget": "50"}
    draft: Json = {"state": "DRAFT", "goal": "ROAS", "name": "of no interest", **spends}
    kept = narrowed(Known(value=draft, read_at=NOW), frozenset({"state", "goal"}))
    assert kept == Known(value={"state": "DRAFT", "goal": "ROAS", **spends}, read_at=NOW)
