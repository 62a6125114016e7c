"""Which facts a rule needs, and what counts as a change."""

from datetime import UTC, datetime

import pytest

from worker.model.facts import Fact, FactKey, Json, Known, Observation, Unknown
from worker.model.ids import EventId, PartnerId
from worker.model.rules import Rule, Watch
from worker.rules.evaluate import difference, keys_for, needed, normalised, watch_key
from worker.rules.load import read_rules
from worker.rules.registry import CustomFact, with_custom

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ACTIVE: Json = {"status": "active", "start_date_time": "2026-01-09T00:00:00Z"}


def rule(text: str) -> Rule:
    custom = with_custom({"spend": CustomFact(name="spend", get="/x/{eid}")})
    return read_rules({"r.yaml": f"rules:\n  - {{id: a, do: [boost], {text}}}"}, custom).rules.rules[0]


def seen(**facts: Json | Fact) -> Observation:
    known = {
        FactKey(name=name): value if isinstance(value, Known | Unknown) else Known(value=value, read_at=NOW)
        for name, value in facts.items()
    }
    return Observation(partner=PartnerId("p"), event=EventId("e"), facts=known)


@pytest.mark.parametrize(
    ("text", "facts", "expected", "reason"),
    [
        ("when: setup.state == 'DRAFT'", {"event": ACTIVE}, ["setup"], "the condition is unknown without it"),
        (
            "when: event.status == 'cancelled' && setup.state == 'DRAFT'",
            {"event": ACTIVE},
            [],
            "it is false whatever the setup says",
        ),
        (
            "when: event.status == 'active' || setup.state == 'DRAFT'",
            {"event": ACTIVE},
            [],
            "it is true whatever the setup says",
        ),
        (
            "when: setup.state == 'DRAFT' && partner.name == 'x'",
            {"event": ACTIVE},
            ["partner", "setup"],
            "what costs no request per event comes first",
        ),
        (
            "when: spend > 1.0 && setup.state == 'x'",
            {"event": ACTIVE},
            ["setup", "spend"],
            "a fact of the config is last",
        ),
        (
            "when: setup.state == 'DRAFT'",
            {"event": ACTIVE, "setup": Unknown(code="unreadable", why="503")},
            [],
            "it was read, and could not be",
        ),
        (
            "on_change: suggested_tcs, with: {budget: 5, goal: ROAS}",
            {"event": ACTIVE},
            ["suggested_tcs?budget=5.0&goal=ROAS"],
            "the change cannot be seen without it",
        ),
        ("on_change: suggested_tcs", {"event": ACTIVE}, ["defaults"], "its parameters come from the defaults"),
        (
            "on_change: suggested_tcs",
            {"event": ACTIVE, "defaults": {"total_budget": 7, "goal": "ROAS"}},
            ["suggested_tcs?budget=7.0&goal=ROAS"],
            "resolved by the defaults",
        ),
        (
            "on_change: suggested_tcs",
            {"event": ACTIVE, "defaults": {"total_budget": True, "goal": "ROAS"}},
            [],
            "defaults of a wrong type resolve nothing, and reading them again would not help",
        ),
        ("when: budget_range.lower_limit < 5.0", {}, ["event"], "the runtime comes from the event's start"),
        (
            "when: budget_range.lower_limit < 5.0",
            {"event": ACTIVE},
            ["budget_range?runtime_in_days=7"],
            "7 whole days to the start",
        ),
        (
            "when: budget_range.lower_limit < 5.0",
            {"event": {"start_date_time": "2025-01-01T00:00:00"}},
            ["budget_range?runtime_in_days=1"],
            "at least one day, and a time without a zone is UTC",
        ),
        ("when: budget_range.lower_limit < 5.0", {"event": {"start_date_time": "soon"}}, [], "no start, no runtime"),
        ("when: budget_range.lower_limit < 5.0", {"event": {}}, [], "no start, no runtime"),
        (
            "when: event.status == 'active', on_change: clusters",
            {"event": ACTIVE},
            ["clusters"],
            "the condition is true, and the change still needs its fact",
        ),
    ],
)
def test_only_what_can_still_decide_is_read(
    text: str, facts: dict[str, Json | Fact], expected: list[str], reason: str
) -> None:
    assert [key.text for key in needed(rule(text), seen(**facts), NOW)] == expected, reason


def test_values_to_be_computed_need_their_facts() -> None:
    text = (
        "rules:\n  - id: a\n    when: event.status == 'active'\n"
        "    do: [{create_draft: {goal: ROAS, total_budget: '=defaults.total_budget * 1.2'}}]"
    )
    made = read_rules({"r.yaml": text}).rules.rules[0]
    assert [key.text for key in needed(made, seen(event=ACTIVE), NOW)] == ["defaults"]


def test_rules_without_parameters_share_one_mapping_of_keys() -> None:
    first, second = rule("when: event.status == 'a'"), rule("when: setup.state == 'DRAFT'")
    assert keys_for(first, seen(), NOW) is keys_for(second, seen(), NOW)


@pytest.mark.parametrize(
    ("watch", "value", "expected", "reason"),
    [
        (
            Watch(fact="suggested_tcs"),
            [{"tc": "b", "tc_run_id": "12"}, {"tc": "a", "tc_run_id": 3.0}, {"tc": "a", "tc_run_id": 3}],
            [{"tc": "a", "tc_run_id": 3}, {"tc": "b", "tc_run_id": 12}],
            "a set of (tc, whole run): order, repetition and spelling are no change",
        ),
        (Watch(fact="suggested_tcs", by=("tc",)), [{"tc": "a", "tc_run_id": "1"}], [{"tc": "a"}], "by narrows"),
        (Watch(fact="suggested_tcs"), [], None, "not computed yet"),
        (Watch(fact="suggested_tcs"), [{"tc": "a"}], None, "an item without its run cannot be compared"),
        (Watch(fact="suggested_tcs"), ["a"], None, "an item that is no record cannot be compared"),
        (Watch(fact="suggested_tcs"), [{"tc": "a", "tc_run_id": "x"}], [{"tc": "a", "tc_run_id": "x"}], "as it is"),
        (Watch(fact="clusters"), [{"tc": "a", "label": "x"}], [{"tc": "a"}], "clusters compare by tc"),
        (Watch(fact="clusters"), {"clusters": [{"tc": "a"}]}, [{"tc": "a"}], "the answer as it came"),
        (Watch(fact="clusters"), {"clusters": []}, None, "not computed yet"),
        (Watch(fact="event", by=("status",)), {"status": "a", "x": 1}, {"status": "a"}, "only these fields"),
        (Watch(fact="event", by=("nope",)), {"status": "a"}, None, "a field that is not there is no value"),
        (Watch(fact="event"), {"status": "a"}, {"status": "a"}, "the whole record"),
        (Watch(fact="permissions"), ["b", "a"], ["b", "a"], "lists of scalars compare as they are"),
        (Watch(fact="expected_value"), 5.5, 5.5, "a number"),
    ],
)
def test_a_watched_value_is_compared_in_one_form(watch: Watch, value: Json, expected: Json, reason: str) -> None:
    assert normalised(Known(value=value, read_at=NOW), watch) == expected, reason


def test_a_record_with_gaps_is_no_value_to_compare() -> None:
    fact = Known(value={"status": "a"}, read_at=NOW, gaps={"city": "it is missing"})
    assert normalised(fact, Watch(fact="event")) is None, "the missing field has not been cleared"


def test_the_difference_of_two_lists() -> None:
    assert difference([{"tc": "a"}, {"tc": "b"}], [{"tc": "c"}, {"tc": "b"}]) == ([{"tc": "c"}], [{"tc": "a"}])


def test_a_baseline_belongs_to_fact_parameters_and_fields() -> None:
    key = FactKey(name="suggested_tcs", params=(("budget", 5.0),))
    assert watch_key(key, Watch(fact="suggested_tcs")) == "suggested_tcs?budget=5.0"
    assert watch_key(key, Watch(fact="suggested_tcs", by=("tc", "x"))) == "suggested_tcs?budget=5.0#by=tc,x"
