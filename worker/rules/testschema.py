"""JSON Schema of files of rule tests: every key with what it is and an example, from the tables that the tests use.

Of facts it knows the documented fields and their values as proposals only: a test may give any value, a wrong one
above all, and any field that some rule names. It is data and nothing else.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias, get_args

from worker.model.actions import ACTIONS
from worker.model.facts import (
    BUDGET_RANGE_FIELDS,
    CLUSTER_FIELDS,
    DEFAULTS_FIELDS,
    EVENT_FIELDS,
    PARTNER_FIELDS,
    SETUP_FIELDS,
    SUGGESTED_TC_FIELDS,
    Field,
)
from worker.model.records import REASONS
from worker.model.writes import State
from worker.rules.registry import BUILT_IN_REGISTRY, FactName, Registry
from worker.rules.schema import DIALECT, DURATION, about_fact, described, record
from worker.rules.testfile import LOST_ANSWERS, STATUS_MAX, STATUS_MIN

Schema: TypeAlias = dict[str, Any]

_FIELDS: Mapping[str, Mapping[str, Field]] = {
    "event": EVENT_FIELDS,
    "partner": PARTNER_FIELDS,
    "setup": SETUP_FIELDS,
    "defaults": DEFAULTS_FIELDS,
    "budget_range": BUDGET_RANGE_FIELDS,
    "suggested_tcs": SUGGESTED_TC_FIELDS,
    "clusters": {**CLUSTER_FIELDS, "tc_run_id": SUGGESTED_TC_FIELDS["tc_run_id"]},
}
_OF_TYPE: Mapping[str, object] = {
    "string": "…",
    "integer": 500,
    "number": 0.5,
    "boolean": True,
    "timestamp": "2026-06-30T18:00:00Z",
    "list": [],
    "object": {},
}
_TEXT: Schema = {"type": "string", "minLength": 1}
_RULE = described(_TEXT, "the id of a rule", "pause-cancelled")
_EVENT = described(_TEXT, "the id of an event; without it, any", "e1")
_ACTION = described({"enum": sorted(ACTIONS)}, "an action of that rule's `do`", "pause")
_FIRING = {"rule": "pause-cancelled", "action": "pause"}


def rule_tests_schema(registry: Registry = BUILT_IN_REGISTRY) -> Schema:
    """The schema of a file of rule tests."""
    test = record(
        {
            "name": described(
                {"type": "string", "minLength": 1}, "what the test claims", "a cancelled event is paused"
            ),
            "rules": described(
                {"type": "array", "items": _RULE, "minItems": 1},
                "ids of the rules under test, disabled ones too; without it, all that are enabled",
                ["pause-cancelled"],
            ),
            "given": described(
                {"$ref": "#/$defs/facts"},
                "facts before the first look, by name, and `now` for the moment of 0s",
                {"event": {"id": "e1", "status": "active"}},
            ),
            "answers": _answers("what the next attempts meet instead of success, one each"),
            "steps": described(
                {"type": "array", "items": {"$ref": "#/$defs/step"}, "minItems": 1},
                "the moments of the test, in order of time",
                [{"at": "0s", "expect": []}],
            ),
        },
        required=("name", "steps"),
    )
    example = {"name": "a cancelled event is paused", "steps": [{"at": "0s", "expect": []}]}
    tests = described({"type": ["array", "null"], "items": test}, "the tests of this file", [example])
    whole = record({"tests": tests}, required=("tests",))
    defs = {"facts": _facts(registry), "step": _step(registry), "answer": _answer()}
    return {"$schema": DIALECT, "title": "Rule tests of campaign-worker", **whole, "$defs": defs}


def _facts(registry: Registry) -> Schema:
    facts = {name: _fact(fact) for name, fact in sorted(registry.facts.items()) if fact.level != "local"}
    now = described({"type": "string"}, "the moment of 0s; only in given", "2026-03-01T12:00:00Z")
    return {**record({**facts, "now": now}), "description": "facts by name"}


def _fact(fact: FactName) -> Schema:
    fields = {name: _field(field) for name, field in _FIELDS.get(fact.name, {}).items()}
    one: Schema = {"type": "object", "properties": fields} if fields else {}
    example: object = {name: shown["examples"][0] for name, shown in list(fields.items())[:2]}
    if fact.name == "event":
        several = {"type": "array", "items": one, "minItems": 1}
        return described(
            {"anyOf": [one, several]}, f"{fact.about}; or a list of events", {"id": "e1", "status": "active"}
        )
    if fact.type.kind == "list":
        example = [example] if fields else []
        return described({"type": "array", "items": one}, about_fact(fact), example)
    if fact.type.kind == "double":
        return described({"type": "number"}, about_fact(fact), 1000)
    return described(one, about_fact(fact), example)


def _field(field: Field) -> Schema:
    examples = field.values or (_OF_TYPE[field.type],)
    return described({}, field.about, *examples)


def _step(registry: Registry) -> Schema:
    readable = sorted(name for name, fact in registry.facts.items() if fact.level != "local")
    firing = {
        "rule": _RULE,
        "action": _ACTION,
        "event": _EVENT,
        "params": described(
            {"type": "object"}, "what it was planned with, as far as it matters", {"total_budget": 500}
        ),
    }
    reason = described({"enum": sorted(REASONS)}, "the code of the reason", "cooldown")
    state = described({"enum": list(get_args(State))}, "the state of the newest such write", "confirmed")
    rules: Schema = {"type": "array", "items": _RULE}
    held = {"rule": _RULE, "reason": reason, "event": _EVENT}
    stands = {"action": _ACTION, "state": state, "rule": _RULE, "event": _EVENT}
    return record(
        {
            "at": {
                **DURATION,
                "description": "time since the first look; 0s is the first look",
                "examples": ["6s", "1h"],
            },
            "set": described(
                {"$ref": "#/$defs/facts"},
                "facts that change right before this look",
                {"event": {"status": "cancelled"}},
            ),
            "unknown": described(
                {"type": "array", "items": {"enum": readable}},
                "facts that cannot be read until they are set",
                ["setup"],
            ),
            "answers": _answers("the same, from this step on"),
            "approve": described(rules, "rules whose waiting writes somebody lets go", ["pause-cancelled"]),
            "reject": described(rules, "rules whose waiting writes somebody drops", ["pause-cancelled"]),
            "expect": _list(firing, ("rule", "action"), "exactly what fired since the step before", [_FIRING]),
            "held": _list(
                held,
                ("rule", "reason"),
                "what holds rules back now, or came to since the step before; [] for nothing",
                [{"rule": "boost-on-new-clusters", "reason": "cooldown"}],
            ),
            "states": _list(
                stands, ("action", "state"), "states of the newest writes", [{"action": "pause", "state": "confirmed"}]
            ),
            "sent": described({"type": "integer", "minimum": 0}, "how many attempts have been sent so far", 1),
        },
        required=("at",),
    )


def _list(properties: Mapping[str, Schema], required: tuple[str, ...], about: str, example: object) -> Schema:
    return described({"type": "array", "items": record(properties, required=required)}, about, example)


def _answers(about: str) -> Schema:
    example = [{"action": "pause", "answer": 429, "effect": "hidden"}]
    return described({"type": "array", "items": {"$ref": "#/$defs/answer"}}, about, example)


def _answer() -> Schema:
    status: Schema = {"type": "integer", "minimum": STATUS_MIN, "maximum": STATUS_MAX}
    lost = [{"const": word, "description": about} for word, about in LOST_ANSWERS.items()]
    effect: Schema = {"type": "string", "pattern": r"^(hidden|none|late\s+\S+)$"}
    return record(
        {
            "action": _ACTION,
            "answer": described({"anyOf": [status, *lost]}, "a status, or how the answer is lost", 429, "timeout"),
            "effect": described(
                effect,
                "hidden: it took effect all the same; none: it did not; late and a duration: it will",
                "hidden",
                "late 40s",
            ),
        },
        required=("action", "answer"),
    )
