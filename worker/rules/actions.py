"""The ``do`` of a rule: actions in order, with parameters checked against the table of actions.

A parameter that begins with ``=`` is computed when the rule fires. It knows no action by itself: the table is in the
model, so that a rule can ask for nothing that guards and evidence do not know.
"""

import re
from collections.abc import Mapping

from worker.model.actions import ACTIONS, Action, Param
from worker.model.document import EVENT_FIELDS, GOALS
from worker.model.facts import Json
from worker.model.rules import Computed, Step
from worker.rules.expressions import Expressions
from worker.rules.fields import Form
from worker.rules.nearest import instead, meant
from worker.rules.registry import LATER_ACTIONS
from worker.rules.yamltext import Entries, Items, Scalar, Value

STEPS_MAX = 20
_WORDS: Mapping[str, tuple[str, ...]] = {
    "goal": GOALS,
    "on_off": ("ON", "OFF"),
    "frontend_status": EVENT_FIELDS["frontend_status"].values,
}


def read_do(value: Value, form: Form, expressions: Expressions) -> tuple[Step, ...]:
    """The steps of ``do``; what is wrong is noted in the form."""
    if not isinstance(value, Items):
        name = value.text if isinstance(value, Scalar) else "pause"
        form.note(value, "do must be a list of actions", hint=f"write do: [{name}]")
        return ()
    if not 0 < len(value.items) <= STEPS_MAX:
        form.note(value, f"do must have 1 to {STEPS_MAX} actions", hint="write do: [pause], or split the rule")
        return ()
    steps = [_step(item, form, expressions) for item in value.items]
    return tuple(step for step in steps if step is not None)


def _step(item: Value, form: Form, expressions: Expressions) -> Step | None:
    if isinstance(item, Scalar):
        action = _action(item, form)
        if action is None:
            return None
        if action.shape != "word":
            form.note(item, f"'{action.name}' needs a value", hint=f"write {action.example}")
            return None
        return Step(action=action.name)
    if not isinstance(item, Entries) or len(item.entries) != 1:
        form.note(
            item, "an action is a word, or one key with its value", hint="write each action as an item of its own"
        )
        return None
    key, value = item.entries[0]
    action = _action(key, form)
    if action is None:
        return None
    if action.shape == "word":
        form.note(value, f"'{action.name}' takes nothing", hint=f"write {action.example}")
        return None
    if action.shape == "value":
        (name, param) = next(iter(action.params.items()))
        return Step(action=action.name, params=_given({name: (param, value)}, action, form, expressions))
    return _mapping_step(action, value, form, expressions)


def _action(name: Scalar, form: Form) -> Action | None:
    action = ACTIONS.get(name.text)
    if action is None and name.text in LATER_ACTIONS:
        known = ", ".join(ACTIONS)
        form.note(
            name, f"the action '{name.text}' is not in this version", hint=f"in this version: {known}", code="later"
        )
    elif action is None:
        message = f"unknown action '{name.text}'{meant(name.text, ACTIONS)}"
        form.note(name, message, hint=instead(name.text, ACTIONS), code="action")
    return action


def _mapping_step(action: Action, value: Value, form: Form, expressions: Expressions) -> Step | None:
    if not isinstance(value, Entries):
        form.note(value, f"'{action.name}' takes a mapping", hint=f"write {action.example}")
        return None
    given: dict[str, tuple[Param, Value]] = {}
    for key, part in value.entries:
        param = action.params.get(key.text)
        if param is not None:
            given[key.text] = (param, part)
        elif action.extra_params:
            given[key.text] = (Param(type="any", about=""), part)
        else:
            message = f"unknown key '{key.text}' in {action.name}{meant(key.text, action.params)}"
            form.note(key, message, hint=instead(key.text, action.params), code="key")
    for name, param in action.params.items():
        if param.required and name not in given:
            form.note(value, f"'{action.name}' lacks '{name}'", hint=f"as in {action.example}", code="missing")
    return Step(action=action.name, params=_given(given, action, form, expressions))


def _given(
    given: Mapping[str, tuple[Param, Value]], action: Action, form: Form, expressions: Expressions
) -> dict[str, "Json | Computed"]:
    found: dict[str, Json | Computed] = {}
    for name, (param, value) in given.items():
        what = action.name if action.shape == "value" else f"{action.name}.{name}"
        if isinstance(value, Scalar) and value.text.startswith("="):
            computed = expressions.computed(value)
            if computed is not None:
                found[name] = computed
        else:
            read = _plain(param, value, what, form)
            if read is not None or param.type == "any":
                found[name] = read
    return found


def _plain(param: Param, value: Value, what: str, form: Form) -> Json:
    if param.type in _WORDS:
        return form.word(value, what, _WORDS[param.type])
    if param.type == "number":
        return form.number(value, what)
    if param.type == "integer":
        return form.whole(value, what)
    if param.type == "string":
        return form.text(value, what)
    if param.type == "list" and not isinstance(value, Items):
        form.note(value, f"{what} must be a list", hint=f"write {what}: […]")
        return None
    for inner in _scalars(value):
        if re.match(r"\s*=", inner.text):
            hint = f'compute all of it: {what}: "=[…]"'
            form.note(inner, f"{what}: only a whole value can be computed, not a part of one", hint=hint)
    return value.json


def _scalars(value: Value) -> list[Scalar]:
    if isinstance(value, Scalar):
        return [value]
    inside = value.items if isinstance(value, Items) else tuple(part for _, part in value.entries)
    return [scalar for part in inside for scalar in _scalars(part)]
