"""Which facts a rule needs, and what counts as a change."""

from tests.builders import NOW, a_fact, a_rule, an_observation, cases
from tests.unit.rules.reading import the_rule
from worker.model.facts import FactKey, Json
from worker.model.rules import Watch
from worker.rules.evaluate import expression
from worker.rules.facts import difference, keys_for, normalised, watch_key


def test_rules_without_parameters_share_one_mapping_of_keys() -> None:
    first, second = (
        keys_for(the_rule(f"rules: [{{id: a, do: [boost], when: {when}}}]"), an_observation({}), NOW)
        for when in ("event.status == 'a'", "setup.state == 'DRAFT'")
    )
    assert first is second


def test_a_fact_of_the_config_has_its_own_name_for_a_key() -> None:
    made = a_rule(when=expression("ad_spend > 3.0"))
    assert keys_for(made, an_observation({}), NOW)["ad_spend"] == FactKey(name="ad_spend")


@cases(
    "watch, value, expected",
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
    (Watch(fact="clusters"), [], None, "not computed yet"),
    (Watch(fact="event", by=("status",)), {"status": "a", "x": 1}, {"status": "a"}, "only these fields"),
    (Watch(fact="event", by=("nope",)), {"status": "a"}, None, "a field that is not there is no value"),
    (Watch(fact="event"), {"status": "a"}, {"status": "a"}, "the whole record"),
    (Watch(fact="permissions"), ["b", "a"], ["b", "a"], "lists of scalars compare as they are"),
    (Watch(fact="expected_value"), 5.5, 5.5, "a number"),
)
def test_a_watched_value_is_compared_in_one_form(watch: Watch, value: Json, expected: Json) -> None:
    assert normalised(a_fact(value), watch) == expected


def test_a_record_with_gaps_is_no_value_to_compare() -> None:
    fact = a_fact({"status": "a"}, gaps={"city": "it is missing"})
    assert normalised(fact, Watch(fact="event")) is None, "the missing field has not been cleared"


def test_the_difference_of_two_lists() -> None:
    assert difference([{"tc": "a"}, {"tc": "b"}], [{"tc": "c"}, {"tc": "b"}]) == ([{"tc": "c"}], [{"tc": "a"}])


def test_a_baseline_belongs_to_fact_parameters_and_fields() -> None:
    key = FactKey(name="suggested_tcs", params=(("budget", 5.0),))
    assert watch_key(key, Watch(fact="suggested_tcs")) == "suggested_tcs?budget=5.0"
    assert watch_key(key, Watch(fact="suggested_tcs", by=("tc", "x"))) == "suggested_tcs?budget=5.0#by=tc,x"
