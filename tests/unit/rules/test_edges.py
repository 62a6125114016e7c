"""Edges of the rules layer that no ordinary rule file reaches."""

from pathlib import Path

import pytest

from tests.builders import NOW, a_fact, a_rule, an_observation, cases
from tests.unit.rules.reading import the_rule
from worker.model.errors import InputErrors
from worker.model.facts import FactKey
from worker.model.rules import Rule
from worker.rules.evaluate import expression
from worker.rules.facts import keys_for
from worker.rules.load import read_files

ALWAYS_A_FILE_THAT_FAILS = Path("/proc/self/mem")


def rule_of(when: str) -> Rule:
    return the_rule(f"rules:\n  - id: a\n    when: {when}\n    do: [pause]\n")


def test_a_fact_of_the_config_has_its_own_name_for_a_key() -> None:
    made = a_rule(when=expression("ad_spend > 3.0"))
    assert keys_for(made, an_observation({}), NOW)["ad_spend"] == FactKey(name="ad_spend")


@cases(
    "facts",
    ({}, "the event was never read"),
    ({"event": a_fact([])}, "the event is no record"),
    ({"event": a_fact({})}, "the event has no start"),
    ({"event": a_fact({"start_date_time": "soon"})}, "its start is no time"),
)
def test_a_range_whose_days_are_not_known_has_no_key_yet(facts: dict[str, object]) -> None:
    made = rule_of("budget_range.upper_limit > 3.0")
    assert "budget_range" not in keys_for(made, an_observation(facts), NOW)  # type: ignore[arg-type]  # facts


def test_the_files_of_a_folder_are_given_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("rules: []", "utf-8")
    assert dict(read_files(tmp_path)) == {str(tmp_path / "a.yaml"): "rules: []"}


@pytest.mark.skipif(not ALWAYS_A_FILE_THAT_FAILS.is_file(), reason="needs a file that cannot be read by anybody")
def test_a_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(InputErrors) as caught:
        read_files(ALWAYS_A_FILE_THAT_FAILS)
    assert "cannot be read" in str(caught.value)


def test_anything_may_be_in_a_list_of_anything() -> None:
    assert rule_of("\"'vip' in event['tags']\"").when is not None
