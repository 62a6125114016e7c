"""docs/rules.md is true: the tests below each of its rules run. The cookbook is whole, and its rules are short."""

import re
from functools import cache

import pytest

from tests.broken_rules.__main__ import SETTINGS
from tests.reference.pages import ROOT, pages
from tests.unit.engine.ruletest_bench import bench_of
from worker.engine.checking import ping_pongs, quarrels
from worker.engine.ruletests import run_test
from worker.rules.lint import lint
from worker.rules.load import examine, read_rules
from worker.rules.registry import BUILT_IN_REGISTRY
from worker.rules.tests import read_tests

COOKBOOK = ROOT / "rules" / "cookbook"
BESIDES = re.compile(r"#|rules:|\s+description:")


@cache
def examples() -> tuple[tuple[str, str], ...]:
    """Each block of rules on the page, and the tests that follow it."""
    (page,) = [one for one in pages() if one.name == "docs/rules.md"]
    blocks = [block for block in page.fences("yaml") if re.match(r"(rules|tests):", block)]
    assert len(blocks) % 2 == 0, "each block of rules has a block of tests below it"
    return tuple(zip(blocks[::2], blocks[1::2], strict=True))


@pytest.mark.parametrize("number", range(len(examples())))
def test_every_rule_on_the_page_does_what_is_said_of_it(number: int) -> None:
    rules, tests = examples()[number]
    loaded = read_rules({"rules.yaml": rules})
    bench = bench_of(loaded.rules, SETTINGS)
    done = [run_test(test, bench) for test in read_tests({"tests.yaml": tests}, loaded.rules, BUILT_IN_REGISTRY)]
    assert not [line for one in done for failure in one.failures for line in failure.lines]
    fired = {rule for one in done for rule in one.fired}
    assert fired == {rule.id for rule in loaded.rules.rules}, "each rule is seen to fire"
    assert not [one for one in lint(loaded) if one.code not in ("own_write", "cost")]


def test_the_cookbook_has_its_rules_that_rest_until_somebody_wants_them() -> None:
    loaded = examine(COOKBOOK)
    assert len(loaded.rules.rules) == 33, "docs/cookbook.md and docs/rules.md tell this number"
    assert not [rule.id for rule in loaded.rules.rules if rule.enabled]
    assert not lint(loaded, COOKBOOK), "no warning, and every one has a test"
    page = (ROOT / "docs" / "cookbook.md").read_text("utf-8")
    assert not [rule.id for rule in loaded.rules.rules if page.count(f"cookbook/{rule.id}.yaml") != 1]


def test_a_rule_of_the_cookbook_is_eight_lines_and_three_are_longer() -> None:
    """The language is to say what the trade asks in few words. Comments and the description do not count."""
    lengths = {
        file.stem: len([line for line in file.read_text("utf-8").splitlines() if not BESIDES.match(line)])
        for file in COOKBOOK.glob("*.yaml")
    }
    assert len([name for name, lines in lengths.items() if lines > 8]) <= 3, lengths


def test_the_page_answers_twenty_five_tasks_by_rules_that_it_has() -> None:
    """Each row names at least one rule, under the heading that the link leads to."""
    _, _, page = (ROOT / "docs" / "cookbook.md").read_text("utf-8").partition("## Twenty-five tasks\n")
    table, *sections = page.split("\n## ")
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) == 25
    for row in rows:
        named = re.findall(r"\[([a-z-]+)\]\(#([a-z-]+)\)", row)
        assert named, row
        for rule, heading in named:
            (section,) = [one for one in sections if one.lower().startswith(heading.replace("-", " ") + "\n")]
            assert f"[{rule}](../rules/cookbook/{rule}.yaml)" in section, row


def test_nothing_that_is_shipped_quarrels_with_anything_else() -> None:
    assert not quarrels(examine(ROOT / "rules"), BUILT_IN_REGISTRY)
    assert not ping_pongs(examine(ROOT / "rules"))
