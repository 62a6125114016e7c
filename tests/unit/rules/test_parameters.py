"""With which parameters a fact is asked for: what the rule gives, and where the rest comes from."""

from datetime import UTC, datetime

import pytest

from tests.builders import a_fact, an_observation, cases
from tests.unit.rules.reading import problems, the_rule
from worker.engine.observe import wanted_keys
from worker.model.facts import FactKey, Json, Observation, Scalar
from worker.rules.facts import day_of, keys_for

NOW = datetime(2026, 3, 1, 23, 59, tzinfo=UTC)
EVENT: Json = {"id": "e1", "city": "Gent", "start_date_time": "2026-03-11T20:00:00Z"}
DEFAULTS: Json = {"total_budget": 500, "goal": "ROAS", "lead_form_id": None}
PARTNER: Json = {"currency": "SEK"}
EVERYTHING: dict[str, Json] = {"event": EVENT, "defaults": DEFAULTS, "partner": PARTNER}


def spelled(fact: str, parameters: str = "{}") -> str:
    return f"rules:\n  - {{id: a, on_change: {fact}, with: {parameters}, do: [pause]}}"


def seen(facts: dict[str, Json]) -> Observation:
    return an_observation({name: a_fact(value) for name, value in facts.items()})


def asked(fact: str, parameters: str, facts: dict[str, Json]) -> dict[str, Scalar] | None:
    key = keys_for(the_rule(spelled(fact, parameters)), seen(facts), NOW).get(fact)
    return None if key is None else dict(key.params)


@cases(
    "fact, parameters, expected",
    ("lookout_prediction", "{}", {"type": "capacity"}, "percentages, unless the rule says otherwise"),
    ("lookout_prediction", "{type: ticket_count}", {"type": "ticket_count"}, "as the rule says"),
    (
        "daily_revenue_summary",
        "{}",
        {"currency": "SEK", "start_date": "2026-01-30", "end_date": "2026-03-01"},
        "the partner's currency, and the last 30 days",
    ),
    (
        "daily_revenue_summary",
        "{currency: EUR, start_date: 2026-02-01, end_date: today+7d}",
        {"currency": "EUR", "start_date": "2026-02-01", "end_date": "2026-03-08"},
        "as the rule says; a day may count from today",
    ),
    (
        "call_to_action",
        "{has_pixel: true}",
        {"goal": "ROAS", "has_pixel": "true", "lead_form_id": ""},
        "an event without a lead form is asked for with an empty one",
    ),
    (
        "call_to_action",
        "{has_pixel: 'false', goal: VISIBILITY, lead_form_id: lf-1}",
        {"goal": "VISIBILITY", "has_pixel": "false", "lead_form_id": "lf-1"},
        "as the rule says",
    ),
    ("call_to_action", "{has_pixel: true, lead_form_id: ''}", {"lead_form_id": ""}, "empty is a value"),
    ("suggested_radius", "{}", {"location": "Gent", "distance_unit": "kilometer"}, "around the event's city"),
    (
        "suggested_radius",
        "{location: 'Porto, PT', distance_unit: mile}",
        {"location": "Porto, PT", "distance_unit": "mile"},
        "as the rule says",
    ),
    ("suggested_tcs", "{}", {"budget": 500.0, "goal": "ROAS"}, "the event's defaults"),
    ("budget_range", "{}", {"runtime_in_days": 9}, "whole days to the start"),
)
def test_a_parameter_is_the_rules_or_follows_from_facts(
    fact: str, parameters: str, expected: dict[str, Scalar]
) -> None:
    found = asked(fact, parameters, EVERYTHING)
    assert found is not None
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "expected"), [("lf-1", "lf-1"), (123, "123"), (" ", ""), (None, ""), (True, None), ([7], None)]
)
def test_a_lead_form_of_the_defaults_may_be_a_number(given: Json, expected: str | None) -> None:
    """The document says no more of it than that it may be null (API section 2.5)."""
    facts: dict[str, Json] = {**EVERYTHING, "defaults": {"goal": "ROAS", "lead_form_id": given}}
    found = asked("call_to_action", "{has_pixel: true}", facts)
    assert (None if found is None else found["lead_form_id"]) == expected


@cases(
    "fact, parameters, facts",
    ("daily_revenue_summary", "{}", {}, "the partner is not read yet"),
    ("daily_revenue_summary", "{}", {"partner": {"currency": ""}}, "an empty currency is none"),
    ("suggested_radius", "{}", {"event": {"city": None}}, "the event names no city"),
    ("suggested_radius", "{}", {"event": []}, "no record at all"),
    ("call_to_action", "{has_pixel: true, goal: ROAS}", {"defaults": {}}, "the defaults lack the field"),
    ("call_to_action", "{has_pixel: true, goal: ROAS}", {}, "the defaults are not read yet"),
    ("call_to_action", "{has_pixel: true, goal: ROAS}", {"defaults": []}, "no record at all"),
    ("suggested_tcs", "{goal: ROAS}", {"defaults": {"total_budget": True}}, "true is no budget"),
    ("budget_range", "{}", {"event": {"start_date_time": "soon"}}, "soon is no moment"),
    ("budget_range", "{}", {"event": {}}, "the event has no start"),
    ("budget_range", "{}", {"event": []}, "no record that could have one"),
    ("budget_range", "{}", {}, "the event was never read"),
)
def test_a_parameter_that_cannot_be_had_makes_no_request(fact: str, parameters: str, facts: dict[str, Json]) -> None:
    assert asked(fact, parameters, facts) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("today", "2026-03-01"),
        ("today-1d", "2026-02-28"),
        ("today+31d", "2026-04-01"),
        ("2026-02-28", "2026-02-28"),
        ("2026-02-30", None),
        ("today-9999d", None),
        ("yesterday", None),
    ],
)
def test_a_day_is_a_date_or_counts_from_today(text: str, expected: str | None) -> None:
    assert day_of(text, NOW) == expected


@cases(
    "fact, parameters, wanted",
    ("call_to_action", "{has_pixel: true}", True, "goal and lead form come from the defaults"),
    ("call_to_action", "{has_pixel: true, goal: ROAS, lead_form_id: ''}", False, "the rule gives them all"),
    ("lookout_prediction", "{}", False, "its parameter comes from nowhere"),
)
def test_the_defaults_are_read_only_where_a_parameter_comes_from_them(fact: str, parameters: str, wanted: bool) -> None:
    keys = wanted_keys(the_rule(spelled(fact, parameters)), seen({"event": EVENT}), NOW)
    assert (FactKey(name="defaults") in keys) is wanted


@pytest.mark.parametrize(
    ("fact", "parameters", "words"),
    [
        ("call_to_action", "{}", "call_to_action is asked with has_pixel, which the rule must give"),
        ("suggested_radius", "{distance_unit: km}", "with.distance_unit is one of mile, kilometer, not 'km'"),
        ("daily_revenue_summary", "{start_date: last week}", "with.start_date is a day, such as 2026-03-01"),
    ],
)
def test_a_wrong_parameter_is_refused_before_anything_is_asked(fact: str, parameters: str, words: str) -> None:
    assert [words in one.message for one in problems(spelled(fact, parameters))] == [True], "and told once"
