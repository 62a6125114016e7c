"""JSON Schema of rule files and rule tests, made from the registry: what editors complete is what `check` accepts.

A schema cannot say everything (conditions, ids over files, which key goes with which): it is a help while typing, and
`check` is the judge. It is data and nothing else.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from worker.model.action import Action, Param
from worker.model.actions import ACTIONS
from worker.model.document import EVENT_FIELDS, GOALS, QUERY_VALUES
from worker.rules.calls import HOSTS, METHODS
from worker.rules.durations import EXAMPLES
from worker.rules.parameters import DATES
from worker.rules.params import FIXED
from worker.rules.registry import BUILT_IN_REGISTRY, EACH, PARAMETERS, RULE_KEYS, FactName, Registry

Schema: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DURATION: Schema = {
    "type": "string",
    "pattern": r"^(\d+(\.\d+)?(ms|s|m|h|d))+$",
    "description": f"a duration: {EXAMPLES}",
    "examples": ["10m", "2h"],
}
_TEXT: Schema = {"type": "string", "minLength": 1}
_TEXTS: Schema = {"type": "array", "items": _TEXT, "minItems": 1}
_COUNT: Schema = {"type": "integer", "minimum": 1}
_DAY: Schema = {"type": "string", "pattern": r"^(\d{4}-\d{2}-\d{2}|today([+-]\d{1,4}d)?)$", "examples": ["today-30d"]}
_COMPUTED: Schema = {"type": "string", "pattern": "^=", "description": "CEL, computed when the rule fires"}
# YAML 1.1 reads a bare OFF as false; editors may, the loader does not. So a schema must let both pass.
_ON_OFF: Schema = {"enum": ["ON", "OFF", True, False]}

_CONFIRM: Schema = {
    "type": "object",
    "additionalProperties": False,
    "required": ["get", "when"],
    "properties": {
        "get": {"type": "string", "pattern": "^/", "description": "what to GET of the main API"},
        "when": {"type": ["string", "boolean"], "description": "CEL on its answer, which is called response"},
    },
}
_BESIDE: Mapping[str, Schema] = {
    EACH: {"enum": ["added"], "description": "one write for each item that the watched list has gained"},
    "confirm": _CONFIRM,
}
"""Keys that may stand among an action's parameters, or beside its name."""


def rules_schema(registry: Registry = BUILT_IN_REGISTRY) -> Schema:
    """The schema of a rule file."""
    properties = {name: {**_rule_key(name), **_explained(name)} for name in RULE_KEYS}
    rule = {
        **_record(properties, required=("id", "do")),
        "anyOf": [{"required": ["when"]}, {"required": ["on_change"]}],
        "description": "one rule",
    }
    whole = _record({"rules": {"type": ["array", "null"], "items": {"$ref": "#/$defs/rule"}}}, required=("rules",))
    defs = {"rule": rule, "action": _actions(), "fact": _watchable(registry)}
    return {"$schema": DIALECT, "title": "Rules of campaign-worker", **whole, "$defs": defs}


def rule_tests_schema(registry: Registry = BUILT_IN_REGISTRY) -> Schema:
    """The schema of a file of rule tests."""
    facts = {
        name: {"description": about_fact(fact)}
        for name, fact in sorted(registry.facts.items())
        if fact.level != "local"
    }
    given = {**_record(facts), "description": "facts by name; an event is known by its id"}
    action: Schema = {"enum": sorted(ACTIONS)}
    expected = _record(
        {"rule": _TEXT, "action": action, "event": _TEXT, "params": {"type": "object"}}, required=("rule", "action")
    )
    held = _record({"rule": _TEXT, "reason": _TEXT, "event": _TEXT})
    state = _record({"rule": _TEXT, "action": action, "state": _TEXT, "event": _TEXT})
    step = _record(
        {
            "at": {**DURATION, "description": "time since the first look; 0s is the first look itself"},
            "set": {**given, "description": "what changes right before this look"},
            "unknown": {"type": "array", "items": {"enum": sorted(facts)}, "description": "facts that cannot be read"},
            "expect": {"type": "array", "items": expected, "description": "exactly what fired since the step before"},
            "held": {"type": "array", "items": held, "description": "what is held back now; [] for nothing"},
            "states": {"type": "array", "items": state, "description": "states of the newest writes"},
            "sent": {"type": "integer", "minimum": 0, "description": "attempts sent so far"},
            "answers": {"type": "array", "items": _answer(action)},
        },
        required=("at",),
    )
    test = _record(
        {
            "name": {**_TEXT, "description": "what the test claims"},
            "rules": {**_TEXTS, "description": "ids of the rules under test; default: all"},
            "given": given,
            "answers": {"type": "array", "items": _answer(action)},
            "steps": {"type": "array", "items": step, "minItems": 1},
        },
        required=("name", "steps"),
    )
    whole = _record({"tests": {"type": "array", "items": test}}, required=("tests",))
    return {"$schema": DIALECT, "title": "Rule tests of campaign-worker", **whole}


def _answer(action: Schema) -> Schema:
    return _record(
        {
            "action": action,
            "answer": {"type": ["integer", "string"], "description": "a status, or how the connection fails"},
            "effect": {"type": "string", "description": "hidden, none, or late and a duration"},
        },
        required=("action", "answer"),
    )


def _rule_key(name: str) -> Schema:
    fact: Schema = {"$ref": "#/$defs/fact"}
    watch = {"anyOf": [fact, _record({"fact": fact, "by": _TEXTS}, required=("fact",))]}
    shapes: Mapping[str, Schema] = {
        "id": {"type": "string", "pattern": r"^\S{1,100}$"},
        "when": {"type": ["string", "boolean"]},
        "on_change": {"anyOf": [*watch["anyOf"], {"type": "array", "items": watch, "minItems": 1}]},
        "for": DURATION,
        "cooldown": DURATION,
        "repeat": {"enum": ["once", "enforce"]},
        "limit": _record({"per_event_per_day": _COUNT}, required=("per_event_per_day",)),
        "priority": {"type": "integer"},
        "partners": {**_TEXTS, "items": {"type": ["string", "integer"]}},
        "enabled": {"type": "boolean"},
        "mode": {"enum": ["shadow", "approve", "live"]},
        "surge": _record({"events": _COUNT, "within": DURATION}, required=("events", "within")),
        "with": _record({key: {**_parameter(key), "description": about} for key, about in PARAMETERS.items()}),
        "do": {"type": "array", "items": {"$ref": "#/$defs/action"}, "minItems": 1},
        "on_unknown": {"enum": ["settle", "ask"]},
    }
    return shapes.get(name, {"type": "string"})


def _parameter(key: str) -> Schema:
    shapes: Mapping[str, Schema] = {
        "budget": {"type": "number", "exclusiveMinimum": 0},
        "runtime_in_days": _COUNT,
        "has_pixel": {"enum": [True, False, "true", "false"]},
        "lead_form_id": {"type": "string"},
        **dict.fromkeys(DATES, _DAY),
    }
    words: Schema = {"enum": list(QUERY_VALUES[key])} if key in QUERY_VALUES else _TEXT
    return dict(shapes.get(key, words))


def _watchable(registry: Registry) -> Schema:
    names = sorted(registry.watchable())
    return {"anyOf": [{"const": name, "description": about_fact(registry.facts[name])} for name in names]}


def about_fact(fact: FactName) -> str:
    """What a fact is, and what it costs where that is not nothing."""
    return f"{fact.about}. One request for each event." if fact.per_event_request else fact.about


def _explained(name: str) -> Schema:
    key = RULE_KEYS[name]
    return {"description": f"{key.about} — {key.example}"}


def _actions() -> Schema:
    words = [name for name, action in ACTIONS.items() if action.shape == "word"]
    about = "; ".join(f"{name}: {ACTIONS[name].about}" for name in words)
    keyed = [_action(action) for action in ACTIONS.values() if action.shape != "word"]
    return {"anyOf": [{"enum": words, "description": about}, *keyed], "description": "one action"}


def _action(action: Action) -> Schema:
    if action.shape == "value":
        value = _param(next(iter(action.params.values())))
    else:
        fields = {name: {**_param(param), "description": param.about} for name, param in action.params.items()}
        required = tuple(name for name, param in action.params.items() if param.required and not action.each)
        fields |= {name: _BESIDE[name] for name in action.beside}
        value = {**_record(fields, required=required), "additionalProperties": action.extra_params}
    about = f"{action.about} — {action.example}"
    beside = {name: _BESIDE[name] for name in action.beside}
    return {**_record({action.name: value, **beside}, required=(action.name,)), "description": about}


def _param(param: Param) -> Schema:
    shapes: Mapping[str, Schema] = {
        "string": _TEXT,
        "number": {"type": "number", "exclusiveMinimum": 0},
        "integer": {"type": "integer"},
        "eids": {"type": "array", "items": {"type": ["string", "integer"]}, "minItems": 1},
        "goal": {"enum": list(GOALS)},
        "on_off": _ON_OFF,
        "frontend_status": {"enum": list(EVENT_FIELDS["frontend_status"].values)},
        "any": {},
        "host": {"enum": list(HOSTS)},
        "method": {"enum": list(METHODS)},
        "path": {"type": "string", "pattern": "^/"},
        "query": {"type": "object"},
        "body": {},
        "flag": {"type": "boolean"},
        "confirm": _CONFIRM,
    }
    shape = shapes[param.type]
    return shape if param.type in FIXED else {"anyOf": [shape, _COMPUTED]}


def _record(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    found: Schema = {"type": "object", "additionalProperties": False, "properties": dict(properties)}
    return {**found, "required": list(required)} if required else found
