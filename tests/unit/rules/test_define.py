"""Names that stand for conditions, numbers, texts and lists, in every file of a folder."""

import re

import pytest

from tests.unit.engine.ruletest_bench import SETTINGS, bench_of, ran
from tests.unit.rules.reading import mistakes
from worker.model.errors import InputErrors
from worker.model.rules import Rule
from worker.rules.evaluate import Expression, leaves
from worker.rules.lint import lint
from worker.rules.load import Loaded, read_rules

NAMES = """define:
  small: event.capacity < limit
  limit: 300
  never: [e17, e20]
  home: "'Ulm'"
  quiet: small && !(event.id in never)
"""
RULES = "rules:\n  - id: r\n    when: >-\n      WHEN\n    do: [pause]\n"


def loaded(when: str, names: str = NAMES) -> Loaded:
    return read_rules({"names.yaml": names, "rules.yaml": RULES.replace("WHEN", when)})


def rule(when: str, names: str = NAMES) -> Rule:
    return loaded(when, names).rules.rules[0]


def condition(when: str, names: str = NAMES) -> Expression:
    found = rule(when, names).when
    assert isinstance(found, Expression)
    return found


@pytest.mark.parametrize(
    ("when", "means"),
    [
        ("quiet && event.city == home", '(event.capacity < 300.0) && !(event.id in ["e17", "e20"])'),
        ("event.capacity - limit > 1.0", "event.capacity - 300.0 > 1.0"),
        ("event.id in never || small", 'event.id in ["e17", "e20"] || (event.capacity < 300.0)'),
        ("clusters.exists(c, c.tc == home)", "clusters.exists(c, c.tc == 'Ulm')"),
        ("event.city == home // home", "event.city == 'Ulm' // home"),
    ],
)
def test_a_name_is_what_it_stands_for_wherever_it_stands(when: str, means: str) -> None:
    assert means in condition(when).source
    assert condition(when).paths == condition(condition(when).source, "define: {}").paths


def test_a_rule_fires_by_what_names_mean_and_the_parts_say_what_they_are() -> None:
    test = """given: {event: {id: e1, capacity: 500, city: Ulm}}
steps:
  - {at: 0s, expect: []}
  - {at: 3s, set: {event: {capacity: 299}}, expect: [{rule: r, action: pause}]}
"""
    assert ran(bench_of(loaded("quiet && event.city == home").rules, SETTINGS), test).passed
    never = test.replace("e1", "e17").replace("[{rule: r, action: pause}]", "[]")
    assert ran(bench_of(loaded("quiet && event.city == home").rules, SETTINGS), never).passed
    parts = [one.source for one in leaves(condition("quiet"))]
    assert parts == ["event.capacity < 300.0", 'event.id in ["e17", "e20"]']


def test_names_within_names_of_items_do_not_meet() -> None:
    names = "define: {others: 'campaigns.exists(x, x.tc == event.city)'}"
    inner = condition("clusters.exists(x, others && x.tc == event.title)", names)
    assert inner.source == "clusters.exists(x, campaigns.exists(x, x.tc == event.city) && x.tc == event.title)"


def test_an_edit_of_a_name_is_an_edit_of_each_rule_that_names_it() -> None:
    do = 'do: [{create_draft: {goal: ROAS, total_budget: "=limit * 2.0"}}]'
    text = f"rules:\n  - {{id: r, when: small, {do}}}\n  - {{id: s, when: 'true', do: [pause]}}"
    (r, s), (edited, same) = (
        read_rules({"a.yaml": names, "b.yaml": text}).rules.rules for names in (NAMES, NAMES.replace("300", "400"))
    )
    assert r.when != edited.when
    assert r.do_hash != edited.do_hash
    assert (s.when, s.do_hash) == (same.when, same.do_hash)


@pytest.mark.parametrize(
    ("names", "when", "said"),
    [
        ("{a: []}", "event.city in a", ""),
        ("[a]", "true", "define must be a mapping"),
        ("{a: -5}", "event.capacity > 3.0 -a", ""),
        ("{a: 0}", "event.capacity / a > 3.0", ""),
        ("{a: 0}", "campaigns[a].budget > 3.0", ""),
    ],
)
def test_what_a_name_cannot_be_is_told_at_its_place(names: str, when: str, said: str) -> None:
    found = mistakes(f"define: {names}\n{RULES.replace('WHEN', when)}")
    assert any(said in one for one in found) if said else found == [], found


def test_a_name_is_defined_once_in_all_files() -> None:
    with pytest.raises(InputErrors) as caught:
        read_rules({"a.yaml": "define: {x: 1}", "b.yaml": "define: {x: 2}"})
    assert "b.yaml:1:10: 'x' is defined already, in a.yaml:1:10" in str(caught.value.problems[0])


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("event.capacity / limit > 2.0", []),
        ("event.capacity / event['x'] > 2.0", ["event['x'] may be 0, and what is divided by 0 is unknown"]),
        ("small && event.capacity > 500.0", ["rule 'r': this condition is never true"]),
        (
            "small && event.predicted_sales_share > 5.0",
            ["event.predicted_sales_share is a share of one: it is hardly ever 5"],
        ),
    ],
)
def test_warnings_know_what_names_mean(when: str, said: list[str]) -> None:
    assert [one.message for one in lint(loaded(when))] == said


def test_too_long_with_its_names_is_told() -> None:
    names = "{a: ['" + "x" * 9_000 + "'], b: a + a + a, c: b + b + b, d: c + c + c}"
    shorter = names.replace(", d: c + c + c", "")
    for text in (names, f"{shorter}\n{RULES}".replace("WHEN", "'x' in c + c")):
        assert any("longer than 100000 characters" in one for one in mistakes(f"define: {text}"))


def test_names_within_names_without_end_are_told() -> None:
    names = "".join(f"  a{number}: a{number - 1}\n" for number in range(600, 0, -1))
    found = mistakes(f"define:\n{names}  a0: 1\n{RULES}".replace("WHEN", "event.capacity > a600"))
    assert found[0].endswith("too many names stand within each other")


@pytest.mark.parametrize(
    ("means", "when"),
    [
        ("\"['e1', 'e20'] // those that we promote\"", "event.id in it && event.status == 'cancelled'"),
        ("event.capacity // seats", "it < 300.0"),
        ("event.capacity < 300.0 // seats", "it && event.status == 'cancelled'"),
    ],
)
def test_a_comment_beside_what_a_name_means_ends_with_it(means: str, when: str) -> None:
    with_comment, without = (
        condition(when, f"define: {{it: {one}}}") for one in (means, re.sub(r" //[^\"]*", "", means))
    )
    assert [one.paths for one in leaves(with_comment)] == [one.paths for one in leaves(without)]


@pytest.mark.parametrize("asked", ["delta(spent, '3d') > 100.0", "ago(spent, '1d') > 5.0", "delta(limit, '3d') > 1.0"])
def test_only_a_field_can_be_looked_back_on(asked: str) -> None:
    with pytest.raises(InputErrors, match="takes a field of a fact"):
        loaded(asked, "define: {spent: event.capacity * 1.19, limit: 300}")


def test_a_name_by_which_items_are_chosen_is_part_of_what_the_rule_does() -> None:
    do = "edit_cluster: {each: {of: campaigns, where: each.budget < low}, budget: 70}"
    text = f"rules: [{{id: r, when: event.capacity > 1.0, do: [{{{do}}}]}}]"

    def digest(low: int) -> str:
        return read_rules({"n.yaml": f"define: {{low: {low}}}", "r.yaml": text}).rules.rules[0].do_hash

    assert digest(150) == digest(150) != digest(50)


@pytest.mark.parametrize(
    "do",
    [
        '{create_draft: {goal: ROAS, total_budget: "=low * 2.0"}}',
        "{edit_cluster: {each: {of: campaigns, where: each.budget < low}, budget: 70}}",
    ],
)
def test_another_name_for_the_same_is_no_edit(do: str) -> None:
    def read(name: str) -> Rule:
        rule = f"rules: [{{id: r, when: event.capacity > low, do: [{do}]}}]".replace("low", name)
        return read_rules({"n.yaml": f"define: {{{name}: 150}}", "r.yaml": rule}).rules.rules[0]

    assert (read("low").when, read("low").do_hash) == (read("small").when, read("small").do_hash)
