"""Files of rule tests: what is read, and that every wrong name is told with its place and the nearest right one."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from worker.model.errors import InputErrors
from worker.model.facts import CustomFact, EventId, Json
from worker.model.rules import Rule, RuleSet, RuleStep, Scope
from worker.rules.load import read_rules
from worker.rules.registry import BUILT_IN_REGISTRY, with_custom
from worker.rules.tests import Answer, Facts, RuleTest, read_tests

RULES = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled' && event['mood'] == 'bad'
    do: [pause]
  - id: make
    on_change: {fact: clusters, by: [tc, colour]}
    when: suggested_tcs.exists(t, t['weight'] > 2.0)
    do: [{create_draft: {goal: ROAS, total_budget: "=defaults.total_budget * 2.0", extra: {shape: wide}}}]
"""
REGISTRY = with_custom(
    {
        "ad_spend": CustomFact(name="ad_spend", get="/x/{eid}", value="spend"),
        "sold_out": CustomFact(name="sold_out", get="/x/{eid}", type="bool"),
        "tier": CustomFact(name="tier", get="/x/{eid}", type="text"),
    }
)


def rules() -> RuleSet:
    return read_rules({"r.yaml": RULES}, REGISTRY).rules


def read(text: str) -> tuple[RuleTest, ...]:
    return read_tests({"t.yaml": text}, rules(), REGISTRY)


def one(body: str) -> RuleTest:
    (found,) = read("tests:\n  - name: a\n" + "".join(f"    {line}\n" for line in body.splitlines()))
    return found


def problems(text: str) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        read(text)
    return [str(problem) for problem in caught.value.problems]


def met(answers: tuple[Answer, ...]) -> list[tuple[str, int | str, timedelta | None]]:
    return [(one.action, one.answer, one.effect_after) for one in answers]


def test_everything_that_a_test_can_say_is_read() -> None:
    test = one(
        """\
rules: [make, pause-cancelled, make]
given: {now: 2026-05-01T10:00:00Z, event: [{id: e1, status: active}, {id: 7, city: Ulm}], setup: {state: DRAFT}}
answers: [{action: create_draft, answer: 429, effect: late 40s}]
steps:
  - at: 0s
    expect: []
  - at: 1h30m
    set: {event: {id: e1, mood: bad}, ad_spend: {any: thing}}
    unknown: [clusters]
    answers:
      - {action: pause, answer: timeout}
      - {action: pause, answer: 200}
      - {action: pause, answer: 429, effect: none}
      - {action: create_draft, answer: 503, effect: hidden}
    expect: [{rule: make, action: create_draft, event: "7", params: {total_budget: 500, extra: {shape: wide}}},
             {rule: make, action: optimisation, params: {value: [ON]}}]
    held: [{rule: make, reason: cooldown, event: e1}]
    states: [{action: pause, state: unknown}, {action: boost, state: confirmed, rule: make, event: e1}]
    sent: 3
"""
    )
    assert (test.name, test.file, test.line) == ("a", "t.yaml", 2)
    assert test.rules == ("make", "pause-cancelled")
    assert test.given.now == datetime(2026, 5, 1, 10, tzinfo=UTC)
    assert test.given.events == {"e1": {"id": "e1", "status": "active"}, "7": {"id": "7", "city": "Ulm"}}
    assert test.given.others == {"setup": {"state": "DRAFT"}}
    assert met(test.answers) == [("create_draft", 429, timedelta(seconds=40))]
    first, second = test.steps
    assert (first.line, second.line) == (7, 9)
    assert (first.at, first.expect, first.held, first.states, first.sent) == (timedelta(), (), None, None, None)
    assert second.at == timedelta(hours=1, minutes=30)
    e1 = EventId("e1")
    record: Mapping[str, Json] = {"id": "e1", "mood": "bad"}
    assert second.change == Facts(events={e1: record}, others={"ad_spend": {"any": "thing"}})
    assert second.unknown == ("clusters",)
    assert met(second.answers) == [
        ("pause", "timeout", None),
        ("pause", 200, timedelta()),
        ("pause", 429, None),
        ("create_draft", 503, timedelta()),
    ]
    assert [(one.rule, one.action, one.event, one.params) for one in second.expect or ()] == [
        ("make", "create_draft", "7", {"total_budget": 500, "shape": "wide"}),
        ("make", "optimisation", None, {"value": ["ON"]}),
    ]
    assert [(one.rule, one.reason, one.event) for one in second.held or ()] == [("make", "cooldown", "e1")]
    assert [(one.action, one.state, one.rule, one.event) for one in second.states or ()] == [
        ("pause", "unknown", None, None),
        ("boost", "confirmed", "make", "e1"),
    ]
    assert second.sent == 3


def test_an_event_without_an_id_is_every_event() -> None:
    test = one("given: {event: {status: active}}\nsteps: [{at: 0s, expect: [{rule: make, action: run, event: e1}]}]")
    assert test.given == Facts(unnamed={"status": "active"})


def test_an_empty_file_and_an_empty_list_hold_no_tests() -> None:
    assert read("") == ()
    assert read("tests:\n") == ()
    assert read("tests: []\n") == ()


STEP = "steps: [{at: 0s}]"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("rules: [pause-canceled]", "13: unknown rule 'pause-canceled'; did you mean 'pause-cancelled'?"),
        ("steps: [{at: 0s, reject: [paus]}]", "31: unknown rule 'paus'"),
        ("steps: [{att: 0s}]", "14: unknown key 'att' in a step; did you mean 'at'?"),
        ("steps: [{at: 9s}, {at: 3s}]", "23: steps go on in time: this one is before the one above it"),
        ("steps: [{at: 0s, unknown: [setupp]}]", "32: unknown fact 'setupp'; did you mean 'setup'?"),
        ("steps: [{at: 0s, expect: [{rule: make, action: paws}]}]", "52: unknown action 'paws'; did you mean 'pause'?"),
        ("answers: [{action: pause, answer: 429}]\nrules: [make]", "24: no rule under test does 'pause'"),
        (
            "steps: [{at: 0s, expect: [{rule: make, action: optimisation, params: {valu: ON}}]}]",
            "75: unknown key 'valu' in the parameters of optimisation; did you mean 'value'?",
        ),
        ("steps: [{at: 0s, expect: [{rule: make, action: run, event: e9}]}]", "64: no event 'e9' in this test"),
        (
            "steps: [{at: 0s, held: [{rule: make, reason: cooldwn}]}]",
            "50: unknown reason 'cooldwn'; did you mean 'cooldown'?",
        ),
        (
            "steps: [{at: 0s, states: [{action: run, state: confirmd}]}]",
            "52: unknown state 'confirmd'; did you mean 'confirmed'?",
        ),
        ("answers: [{action: boost, answer: 700}]", "39: an answer is a status from 100 to 599, not 700"),
        ("answers: [{action: boost, answer: timeot}]", "39: unknown answer 'timeot'; did you mean 'timeout'?"),
        (
            "answers: [{action: boost, answer: 429, effect: hiden}]",
            "52: effect is hidden, none, or late and a duration; did you mean 'hidden'?",
        ),
        (
            "answers: [{action: boost, answer: 429, effect: [none]}]",
            "52: effect is hidden, none, or late and a duration",
        ),
        ("answers: [{action: boost, answer: 429, effect: late 40}]", "52: effect: '40' is not a duration"),
        ("given: {now: '9999-12-31T23:59:00Z'}", "18: now is the moment of 0s"),
        ("given: [event]", "12: given must be a mapping of facts"),
        ("given: {evnt: {}}", "13: unknown fact 'evnt'; did you mean 'event'?"),
        ("given: {event: {statuss: x}}", "21: unknown field 'event.statuss'; did you mean 'status'?"),
        ("given: {event: 3}", "20: event is a record"),
        ("given: {event: [{city: Ulm}]}", "21: each event of a list has an id"),
        ("given: {event: {id: []}}", "25: event.id must be a text"),
        ("given: {event: {id: null}}", "25: event.id must be a text"),
        ("steps: [{at: 0s, expect: [{rule: , action: run}]}]", "31: an item of expect lacks 'rule'"),
        ("given: {suggested_tcs: {}}", "28: suggested_tcs is a list"),
        ("given: {tier: 5}", "19: tier is a text"),
        ("given: {sold_out: 1}", "23: sold_out is true or false"),
        ("given: {expected_value: 1e400}", "29: expected_value is a number"),
        ("given: {suggested_tcs: [{tcc: jazz}]}", "30: unknown field 'suggested_tcs[].tcc'; did you mean 'tc'?"),
        ("given: {campaigns: [{tcs: jazz}]}", "26: unknown field 'campaigns[].tcs'; did you mean 'tc'?"),
        ("given: {expected_value: [1]}", "29: expected_value is a number"),
        ("given: {setup: {state: DRAFTT}}", "28: setup.state cannot be 'DRAFTT'; did you mean 'DRAFT'?"),
        ("given: {event: {id: e1, capacity: '400'}}", "39: event.capacity is a whole number, and cannot be '400'"),
        ("given: {setup: null}", "20: 'setup' is given nothing; one that cannot be read is unknown"),
        ("given: {now: noon}", "18: now is the moment of 0s"),
        ("given: {previous: {}}", "13: 'previous' is made by the worker itself and cannot be set here"),
        (
            "steps: [{at: 0s, set: {now: 2026-03-01T12:00:00Z}}]",
            "28: 'now' is made by the worker itself and cannot be set here",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place_and_the_nearest_name(body: str, expected: str) -> None:
    whole = body if "steps:" in body else f"{body}\n{STEP}"
    found = problems("tests:\n  - name: a\n" + "".join(f"    {line}\n" for line in whole.splitlines()))
    assert f"t.yaml:3:{expected}" in found


def test_a_field_without_its_fact_is_told_its_facts_and_none_that_takes_anything() -> None:
    with pytest.raises(InputErrors) as caught:
        read(f"tests:\n  - name: a\n    given: {{status: active}}\n    {STEP}")
    (found,) = caught.value.problems
    assert found.message == "unknown fact 'status'", "`statistics` would take the value, and the test pass"
    assert found.hint == "write event: {status: …} or partner: {status: …}"


@pytest.mark.parametrize(
    "given",
    [
        "{event: {mood: bad}}",
        "{clusters: [{tc: jazz, colour: red}]}",
        "{suggested_tcs: [{tc: jazz, weight: 3}]}",
        "{setup: {shape: wide}}",
        "{campaigns: [{tc: jazz, tc_run_id: 1, whatever: 3}]}",
        "{permissions: [{name: x}, y]}",
        "{ad_spend: 3.5}",
        "{event: {special_ad_category: null}}",
        "{expected_value: 12.5}",
    ],
)
def test_a_field_that_some_rule_names_is_known(given: str) -> None:
    assert one(f"given: {given}\n{STEP}").steps


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a\n", "t.yaml:1:1: a file of rule tests begins with `tests:`"),
        ("rules: []\n", "t.yaml:1:1: unknown key 'rules' in a file of rule tests; did you mean 'tests'?"),
        ("testz: []\n", "t.yaml:1:1: unknown key 'testz' in a file of rule tests"),
        ("tests: [\n", "t.yaml:2:1: not valid YAML"),
    ],
)
def test_a_file_of_another_shape_is_told_so(text: str, expected: str) -> None:
    assert any(found.startswith(expected.split(";", maxsplit=1)[0]) for found in problems(text))


def test_all_files_are_read_before_anything_is_told() -> None:
    with pytest.raises(InputErrors) as caught:
        read_tests({"b.yaml": "tests: [\n", "a.yaml": "- x\n"}, rules(), REGISTRY)
    assert [found.file for found in caught.value.problems] == ["a.yaml", "b.yaml"]


class _Twice:
    """A computed value of another kind than the loader's own, as the core's tests have them."""

    source = "defaults.total_budget * heft"
    names = frozenset({"defaults"})

    def value(self, scope: Scope) -> float:
        raise ValueError(f"never computed in {scope}")


def test_words_of_any_computed_value_are_known_to_items() -> None:
    rule = Rule(id=rules().rules[0].id, file="r.yaml", do=(RuleStep(action="boost", params={"x": _Twice()}),))
    text = "tests: [{name: a, given: {clusters: [{heft: 1}]}, steps: [{at: 0s}]}]\n"
    (found,) = read_tests({"t.yaml": text}, RuleSet(rules=(rule,)), BUILT_IN_REGISTRY)
    assert found.given.others == {"clusters": [{"heft": 1}]}
