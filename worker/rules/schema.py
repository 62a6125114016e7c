"""JSON Schema of rule files, made from the registry: what editors complete is what `check` accepts.

A schema cannot say everything (conditions, ids over files, which key goes with which): it is a help while typing, and
`check` is the judge. It is data and nothing else.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from worker.model.actions import ACTIONS, EXTRA, Action, Param
from worker.model.facts import EVENT_FIELDS, GOALS, QUERY_VALUES
from worker.rules.calls import HOSTS, METHODS
from worker.rules.durations import EXAMPLES
from worker.rules.parameters import DATES
from worker.rules.params import FIXED
from worker.rules.registry import BUILT_IN_REGISTRY, EACH, PARAMETERS, RULE_KEYS, FactName, Registry, RuleKey
from worker.rules.yaml import Document, Entries, compose

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
        "get": {
            "type": "string",
            "pattern": "^/",
            "description": "what to GET of the main API",
            "examples": ["/events/{eid}"],
        },
        "when": {
            "type": ["string", "boolean"],
            "description": "CEL on its answer, which is called response",
            "examples": ["response.status == 'archived'"],
        },
    },
}
_BESIDE: Mapping[str, Schema] = {
    EACH: {
        "enum": ["added"],
        "description": "one write for each item that the watched list has gained",
        "examples": ["added"],
    },
    "confirm": {
        **_CONFIRM,
        "description": "how a read can show the effect; without it an unknown outcome goes to a person",
        "examples": [{"get": "/events/{eid}", "when": "response.status == 'archived'"}],
    },
}
"""Keys that may stand among an action's parameters, or beside its name."""
_EXTRA: Schema = {
    "type": "object",
    "description": "parameters that neither the document nor an assumption names; they are sent beside the others",
    "examples": [{"daily_budget": 50}],
}
_OF_TYPE: Mapping[str, object] = {
    "string": "…",
    "number": 500,
    "integer": 12,
    "eids": ["e2"],
    "texts": ["rock"],
    "goal": "ROAS",
    "on_off": "OFF",
    "host": "api",
    "method": "PUT",
    "path": "/events/{eid}",
    "query": {"status": "archived"},
    "body": {},
    "flag": False,
    "any": None,
}
"""An example of a parameter of this type, for those that no example of an action shows."""


def rules_schema(registry: Registry = BUILT_IN_REGISTRY) -> Schema:
    """The schema of a rule file."""
    properties = {name: {**_rule_key(name), **_explained(key)} for name, key in RULE_KEYS.items()}
    rule = {
        **record(properties, required=("id", "do")),
        "anyOf": [{"required": ["when"]}, {"required": ["on_change"]}],
        "description": "one rule",
    }
    example = {"id": "pause-cancelled", "when": "event.status == 'cancelled'", "do": ["pause"]}
    rules = described(
        {"type": ["array", "null"], "items": {"$ref": "#/$defs/rule"}}, "the rules of this file", [example]
    )
    whole = record({"rules": rules}, required=("rules",))
    defs = {"rule": rule, "action": _actions(registry), "fact": _watchable(registry)}
    return {"$schema": DIALECT, "title": "Rules of campaign-worker", **whole, "$defs": defs}


def _rule_key(name: str) -> Schema:
    fact: Schema = {"$ref": "#/$defs/fact"}
    named = described(dict(fact), "the fact whose change counts", "suggested_tcs")
    by = described(_TEXTS, "the fields that are compared; others may change", ["tc"])
    watch = {"anyOf": [fact, record({"fact": named, "by": by}, required=("fact",))]}
    per_day = described(_COUNT, "firings in 24 rolling hours", 3)
    events = described(_COUNT, "distinct events", 5)
    within = {**DURATION, "description": "the window they are counted in"}
    shapes: Mapping[str, Schema] = {
        "id": {"type": "string", "pattern": r"^\S{1,100}$"},
        "when": {"type": ["string", "boolean"]},
        "on_change": {"anyOf": [*watch["anyOf"], {"type": "array", "items": watch, "minItems": 1}]},
        "for": DURATION,
        "cooldown": DURATION,
        "repeat": {"enum": ["once", "enforce"]},
        "limit": record({"per_event_per_day": per_day}, required=("per_event_per_day",)),
        "priority": {"type": "integer"},
        "partners": {**_TEXTS, "items": {"type": ["string", "integer"]}},
        "enabled": {"type": "boolean"},
        "mode": {"enum": ["shadow", "approve", "live"]},
        "surge": record({"events": events, "within": within}, required=("events", "within")),
        "with": record({key: _parameter(key, about) for key, about in PARAMETERS.items()}),
        "do": {"type": "array", "items": {"$ref": "#/$defs/action"}, "minItems": 1},
        "on_unknown": {"enum": ["settle", "ask"]},
    }
    return shapes.get(name, {"type": "string"})


def _parameter(key: str, about: str) -> Schema:
    shapes: Mapping[str, tuple[Schema, object]] = {
        "budget": ({"type": "number", "exclusiveMinimum": 0}, 500),
        "runtime_in_days": (_COUNT, 14),
        "has_pixel": ({"enum": [True, False, "true", "false"]}, True),
        "lead_form_id": ({"type": "string"}, "form-1"),
        "currency": (_TEXT, "EUR"),
        "location": (_TEXT, "Leipzig"),
        **dict.fromkeys(DATES, (_DAY, "today-30d")),
    }
    values = QUERY_VALUES.get(key, ("…",))
    shape, example = shapes.get(key, ({"enum": list(values)} if key in QUERY_VALUES else _TEXT, values[0]))
    return described(shape, about, example)


def _watchable(registry: Registry) -> Schema:
    names = sorted(registry.watchable())
    return {"anyOf": [{"const": name, "description": about_fact(registry.facts[name])} for name in names]}


def about_fact(fact: FactName) -> str:
    """What a fact is, and what it costs where that is not nothing."""
    return f"{fact.about}. One request for each event." if fact.per_event_request else fact.about


def _explained(key: RuleKey) -> Schema:
    return {"description": f"{key.about} — {key.example}", "examples": [example_of(key.example, key.name)]}


def example_of(example: str, key: str) -> object:
    """The value of a key in an example that stands in the registry as a person would write it."""
    value = compose(Document(file=key, text=example))
    found = value.get(key) if isinstance(value, Entries) else None
    if found is None:
        raise ValueError(f"the example of {key} has no {key}: {example}")
    return found.json


def example_of_action(action: Action) -> object:
    """The action of its own example, with what stands beside it."""
    do = example_of(action.example, "do")
    mine = [one for one in do if isinstance(one, dict) and action.name in one] if isinstance(do, list) else []
    if not mine:
        raise ValueError(f"the example of {action.name} does not show it: {action.example}")
    return mine[0]


def _actions(registry: Registry) -> Schema:
    words = [name for name, action in ACTIONS.items() if action.shape == "word"]
    about = "; ".join(f"{name}: {ACTIONS[name].about}" for name in words)
    keyed = [
        _action(action, registry.assumed.get(action.name, frozenset()))
        for action in ACTIONS.values()
        if action.shape != "word"
    ]
    return {"anyOf": [{"enum": words, "description": about}, *keyed], "description": "one action"}


def _action(action: Action, assumed: frozenset[str]) -> Schema:
    shown = example_of_action(action)
    own = shown[action.name] if isinstance(shown, dict) else None
    if action.shape == "value":
        value = _param(next(iter(action.params.values())))
    else:
        fields = {
            name: described(_param(param), param.about, *_shown(param, name, own))
            for name, param in action.params.items()
        }
        required = () if action.each else action.required
        fields |= {name: _BESIDE[name] for name in action.beside}
        fields |= {name: described({}, "an assumption of the config names it") for name in sorted(assumed - {*fields})}
        value = record({**fields, **({EXTRA: _EXTRA} if action.extra_params else {})}, required=required)
    beside = {name: _BESIDE[name] for name in action.beside}
    whole = record({action.name: described(value, action.about, own), **beside}, required=(action.name,))
    return described(whole, f"{action.about} — {action.example}", shown)


def _shown(param: Param, name: str, example: object) -> tuple[object, ...]:
    """The parameter in the action's example; where it does not stand there, one of its type."""
    if isinstance(example, dict) and name in example:
        return (example[name],)
    return () if param.type not in _OF_TYPE else (_OF_TYPE[param.type],)


def _param(param: Param) -> Schema:
    shapes: Mapping[str, Schema] = {
        "string": _TEXT,
        "number": {"type": "number", "exclusiveMinimum": 0},
        "integer": {"type": "integer"},
        "eids": {"type": "array", "items": {"type": ["string", "integer"]}, "minItems": 1},
        "texts": {"type": "array", "items": {"type": ["string", "integer"]}, "minItems": 1},
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


def described(schema: Schema, about: str, *examples: object) -> Schema:
    """The schema with what it is for, and examples."""
    return {**schema, "description": about, **({"examples": list(examples)} if examples else {})}


def record(properties: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    """A mapping with these keys and no others."""
    found: Schema = {"type": "object", "additionalProperties": False, "properties": dict(properties)}
    return {**found, "required": list(required)} if required else found
