"""Each fact's request and decoder. A decoder gives Known or Unknown for any answer whatsoever."""

from typing import Any

import pytest

from tests.builders import cases
from tests.contract.malformed import PARAMS
from tests.unit.api.world import E1, HALL, World, answer, assumed
from worker.api.assumptions import Assumptions
from worker.api.facts import FACT_SOURCES, FactRequest, request_for_fact, sources_with
from worker.api.requests import spelled
from worker.model.facts import CustomFact, EventId, Fact, FactKey, FactKind, Json, Known, Scalar, Unknown
from worker.rules.registry import BUILT_IN

WITH_PARAMS = tuple(PARAMS.items())


def question(name: str, event: EventId | None = E1, **own: CustomFact) -> FactRequest:
    found = request_for_fact(sources_with(own), HALL, event, FactKey(name=name, params=WITH_PARAMS))
    assert isinstance(found, FactRequest), found
    return found


def fact(
    name: str,
    value: Json,
    assumptions: Assumptions | None = None,
    params: tuple[tuple[str, Scalar], ...] = WITH_PARAMS,
    **own: CustomFact,
) -> Fact:
    """What the client makes of this answer."""
    world = World(assumptions=assumptions or Assumptions(), facts=own)
    world.on(question(name, E1, **own).path, answer(value))
    return world.clock.run(world.read(name, params=params))


def known(name: str, value: Json, *more: Any, **own: Any) -> tuple[Json, set[str]]:  # noqa: ANN401 - as for a fact
    """What is known of this answer, and which fields are not."""
    found = fact(name, value, *more, **own)
    assert isinstance(found, Known), found
    return found.value, set(found.gaps)


def test_every_fact_that_a_rule_can_name_is_read() -> None:
    assert set(FACT_SOURCES) == {name for name, known in BUILT_IN.items() if known.get}


@cases(
    "name, event, params, words",
    ("weather", E1, (), "there is no fact weather", "no such fact"),
    ("event", None, (), "event is read for one event", "of no event"),
    ("suggested_tcs", E1, (("goal", "ROAS"),), "suggested_tcs needs budget", "a parameter is missing"),
)
def test_a_fact_that_cannot_be_asked_for_says_why(
    name: str, event: EventId | None, params: tuple[tuple[str, str], ...], words: str
) -> None:
    assert request_for_fact(FACT_SOURCES, HALL, event, FactKey(name=name, params=params)) == words


@pytest.mark.parametrize(
    ("value", "expected"),
    [(500.0, "500"), (0.1, "0.1"), (1e21, "1000000000000000000000"), (1e-7, "0.0000001"), (30, "30"), ("ROAS", "ROAS")],
)
def test_a_number_goes_into_a_query_plainly(value: float | str, expected: str) -> None:
    assert spelled(value) == expected


def test_the_setup_of_an_event_that_was_not_asked_for_is_malformed() -> None:
    found = fact("setup", {"eid": "e999", "state": "PUBLISHED", "goal": "ROAS", "total_budget": 5})
    assert isinstance(found, Unknown)
    assert (found.code, "e999" in found.why) == ("malformed", True)
    for whose in ({"eid": E1}, {"eid": None}, {}):
        assert isinstance(fact("setup", {**whose, "state": "PUBLISHED", "goal": "ROAS", "total_budget": 5}), Known)


@cases(
    "record, state",
    ({"state": "DRAFT"}, "DRAFT", "a draft"),
    ({"state": "PUBLISHED"}, "PUBLISHED", "published"),
    ({"state": "ARCHIVED"}, None, "a word nobody vouched for"),
    ({}, None, "no word at all"),
    ({"state": 1}, None, "not a word"),
    ({"state": "x" * 100_000}, None, "a text of any length, told briefly"),
    ({"state": "NONE"}, None, "only a 404 says that there is none"),
)
def test_the_setups_state_is_draft_or_published_or_a_gap(record: Json, state: str | None) -> None:
    found = fact("setup", record)

    assert isinstance(found, Known)
    assert isinstance(found.value, dict)
    assert found.value.get("state") == state
    assert ("state" in found.gaps) is (state is None)
    assert len(found.gaps.get("state", "")) < 300


def test_the_setups_state_stands_where_the_operator_says_and_in_his_words() -> None:
    words = assumed(setup__state_field="phase", setup__draft=["open"], setup__published=["live"])

    found = known("setup", {"phase": "live", "state": "whatever", "goal": "ROAS", "total_budget": 5}, words)

    assert found == ({"phase": "live", "state": "PUBLISHED", "goal": "ROAS", "total_budget": 5}, set())


def test_clusters_carry_the_run_of_their_answer() -> None:
    value, gaps = known("clusters", {"tc_run_id": 7, "clusters": [{"tc": "a/b", "label": "L", "metric_pred": "high"}]})

    assert value == [{"tc": "a/b", "label": "L", "tc_run_id": 7}]
    assert gaps == {"clusters[0].metric_pred", "clusters[0].reach_estimate", "clusters[0].size_share"}


@cases(
    "name, value, code",
    ("clusters", {"tc_run_id": 7, "clusters": []}, "not_computed", "the computation is not finished"),
    ("clusters", {"clusters": []}, "not_computed", "a run may be missing as long as nothing is computed"),
    ("clusters", {"clusters": [{"tc": "a"}]}, "malformed", "clusters of which run?"),
    ("clusters", {"tc_run_id": 7, "clusters": [{"label": "a"}]}, "malformed", "a cluster without a name"),
    ("clusters", {"tc_run_id": 7, "clusters": [{"tc": "a\0"}]}, "malformed", "a name that no database can hold"),
    ("clusters", {"tc_run_id": 7}, "malformed", "no list"),
    ("suggested_tcs", [], "not_computed", "empty is no value"),
    ("suggested_tcs", [{"tc": "a", "tc_run_id": "1"}, {"tc": "b"}], "malformed", "one ill item, no list"),
    ("suggested_tcs", {"items": []}, "malformed", "not the documented shape"),
    ("suggested_tcs", None, "malformed", "null"),
    ("expected_value", {"expected_value": "n/a"}, "malformed", "no number"),
    ("expected_value", "12", "malformed", "no object"),
    ("campaigns", {"items": []}, "malformed", "not where the assumption looks"),
    ("campaigns", [{"tc": "a"}], "malformed", "a campaign is named by tc and tc_run_id"),
    ("permissions", {"a": True}, "malformed", "no array"),
    ("adplatform", {"connected": "yes"}, "malformed", "neither true nor false"),
    ("adplatform", {}, "malformed", "not there"),
    ("defaults", [], "malformed", "no object"),
    ("budget_range", None, "malformed", "null"),
    ("partner", [], "malformed", "no object"),
    ("tickets", None, "malformed", "null, where any form will do, says nothing"),
    ("suggested_radius", {"suggested_radius": 5}, "malformed", "not the documented list"),
    ("suggested_radius", [5], "malformed", "not a list of records"),
    ("lookout_prediction_benchmark", [0.5], "malformed", "no record with the two numbers"),
)
def test_what_is_not_understood_is_unknown(name: str, value: Json, code: str) -> None:
    found = fact(name, value)

    assert isinstance(found, Unknown)
    assert found.code == code
    assert found.why
    assert found.trace is not None


def test_a_run_is_a_number_in_every_list() -> None:
    assert fact("suggested_tcs", [{"tc": "a", "tc_run_id": "12"}]) == fact(
        "suggested_tcs", [{"tc": "a", "tc_run_id": 12}]
    )


def test_campaigns_are_found_where_the_operator_says() -> None:
    given: Json = {"items": [{"tc": "a", "tc_run_id": "3", "spend": 1.5}]}
    expected = [{"tc": "a", "tc_run_id": 3, "spend": 1.5}]
    assert known("campaigns", given, assumed(campaigns__items="items[]")) == (expected, set())


def test_a_field_of_no_documented_type_may_be_of_any() -> None:
    """Of these the document says only that they may be null (API section 2.5)."""
    given: Json = {"conversion_id": 4711, "custom_event_type": ["a"], "lead_form_id": None}
    assert known("defaults", given) == (given, {"total_budget", "goal", "tcs", "integration_details"})


def test_the_other_facts_in_their_usual_shape() -> None:
    assert known("expected_value", {"expected_value": "99.5"}) == (99.5, set())
    assert known("adplatform", {"connected": True, "x": 1}) == ({"connected": True}, set())
    assert known("features", ["a"]) == (["a"], set())
    assert known("campaigns", []) == ([], set()), "none are a value"
    assert known("budget_range", {"upper_limit": 900, "lower_limit": None}) == ({"upper_limit": 900}, {"lower_limit"})


@cases(
    "value, expected",
    ({"value": 0.4, "benchmark": 0.5}, {"value": 0.4, "benchmark": 0.5, "unit": "fraction"}, "both up to 1"),
    ({"value": 40, "benchmark": 55.0}, {"value": 0.4, "benchmark": 0.55, "unit": "percent"}, "both above"),
    ({"value": 0.5, "benchmark": 55}, {"value": 0.005, "benchmark": 0.55, "unit": "percent"}, "one of them tells"),
    ({"value": 1, "benchmark": 0}, {"value": 1.0, "benchmark": 0.0, "unit": "fraction"}, "sold out"),
    ({"value": 1.4, "benchmark": 0.9, "n": 7}, {"n": 7}, "neither can be said, so neither is"),
    ({"value": "40", "benchmark": 55}, {"benchmark": 0.55, "unit": "percent"}, "a text is no number"),
    ({"value": None}, {"unit": "fraction"}, "and nothing is none"),
)
def test_fractions_and_percents_are_told_apart(value: Json, expected: Json) -> None:
    contents: list[Json] = [value, {"benchmark": {"prediction": value}}, {"prediction": value}]
    for content in contents:
        gaps = {"value", "benchmark", "unit"} - set(expected if isinstance(expected, dict) else ())
        assert known("lookout_prediction_benchmark", content) == (expected, gaps)


def test_the_unit_of_a_benchmark_can_be_vouched_for() -> None:
    percent = assumed(lookout_benchmark__unit="percent", lookout_benchmark__at="b")

    found, _ = known("lookout_prediction_benchmark", {"b": {"value": 0.8, "benchmark": 1.5}}, percent)

    assert found == {"value": 0.008, "benchmark": 0.015, "unit": "percent"}


def test_tickets_are_counted_and_never_taken_for_shares() -> None:
    counted = (("type", "ticket_count"),)
    found, _ = known("lookout_prediction_benchmark", {"value": 1.5, "benchmark": 300}, params=counted)

    assert found == {"value": 1.5, "benchmark": 300.0, "unit": "count"}


def test_a_radius_keeps_what_is_well_formed_of_it() -> None:
    found = known("suggested_radius", [{"suggested_radius": "25", "distance_unit": "mile", "city_id": "c"}])

    assert found == ([{"distance_unit": "mile", "city_id": "c"}], {"[0].suggested_radius"})


def test_a_partners_id_may_be_a_number() -> None:
    assert known("partner", {"id": 42, "currency": "EUR"})[0] == {"id": "42", "currency": "EUR"}


def test_a_fact_of_ones_own_is_found_by_its_path() -> None:
    spend = CustomFact(name="ad_spend", get="/integrations/adplatform/events/{eid}/adplatform_insights", value="spend")

    asked = question("ad_spend", EventId("a/b"), ad_spend=spend)
    assert asked.path == "/integrations/adplatform/events/a%2Fb/adplatform_insights"
    assert known("ad_spend", {"spend": 12.5}, ad_spend=spend) == (12.5, set())
    assert isinstance(fact("ad_spend", {"spend": None}, ad_spend=spend), Unknown), "null or missing: nobody knows"


@cases(
    "kind, value, found",
    ("number", 12.5, "number"),
    ("number", 12, "number"),
    ("number", True, "bool"),
    ("number", "12", "text"),
    ("text", "x", "text"),
    ("bool", False, "bool"),
    ("list", [1], "list"),
    ("record", {"a": 1}, "record"),
    ("record", [1], "list"),
    (None, [1], None),
)
def test_a_fact_of_ones_own_has_the_type_that_was_said_or_is_unknown(
    kind: FactKind | None, value: Json, found: str | None
) -> None:
    own = fact("own", {"x": value}, own=CustomFact(name="own", get="/events/{eid}/x", value="x", type=kind))
    if kind == found:
        assert getattr(own, "value", None) == value
    else:
        assert isinstance(own, Unknown)
        assert f"x finds a {found} in the answer, and the config says {kind}" in own.why


def test_a_fact_of_ones_own_may_have_a_query() -> None:
    benchmark = CustomFact(name="b", get="/events/{eid}/lookout_prediction?type=capacity&x={partner_id}", value="@")

    assert question("b", b=benchmark).query == (("type", "capacity"), ("x", HALL))


def test_a_part_of_the_campaigns_tells_that_a_setup_that_is_gone_was_published() -> None:
    world = World(assumptions=assumed(campaigns__items="items", setup__after_publish="absent"))
    world.on("/events/e1/campaigns", answer({"items": [{"tc": "a", "tc_run_id": 1}], "total": 2}))

    assert getattr(world.clock.run(world.read("setup")), "value", None) == {"state": "PUBLISHED"}
