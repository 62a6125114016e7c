"""The schemas name what the loader knows, because both are made from one registry."""

import json
from dataclasses import replace

import pytest

from worker.config.models import schema
from worker.model.actions import ACTIONS
from worker.model.facts import CustomFact
from worker.rules.actions import example_of, example_of_action
from worker.rules.functions import FUNCTIONS
from worker.rules.models import rules_schema
from worker.rules.registry import BUILT_IN, with_custom
from worker.rules.tests import rule_tests_schema


def test_every_action_can_be_written() -> None:
    text = json.dumps(rules_schema()["$defs"])
    assert all(f'"{name}"' in text for name in ACTIONS)


def test_defaults_are_spelled_as_people_do() -> None:
    assert schema("config")["$defs"]["Poll"]["properties"]["interval"]["default"] == "3s"


def test_facts_of_a_config_are_completed_too() -> None:
    registry = with_custom({"spend": CustomFact(name="spend", get="/x")})
    assert "spend" in rule_tests_schema(registry)["$defs"]["facts"]["properties"]
    assert registry.facts["spend"].level == "partner", "without {eid} it is one for all events"


def test_the_registry_explains_every_name() -> None:
    assert all(fact.about and fact.example for fact in BUILT_IN.values())
    assert all(function.about for function in FUNCTIONS.values())


def test_an_example_that_does_not_show_its_key_or_action_is_found_out() -> None:
    with pytest.raises(ValueError, match="has no cooldown"):
        example_of("limit: 3", "cooldown")
    with pytest.raises(ValueError, match="does not show it"):
        example_of_action(replace(ACTIONS["optimisation"], example="do: [pause]"))
    with pytest.raises(ValueError, match="does not show it"):
        example_of_action(replace(ACTIONS["optimisation"], example="do: pause"))
