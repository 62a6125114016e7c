"""The ``do`` of a rule: actions in order, with parameters checked against the table of actions.

It knows no action by itself: the table is in the model, so that a rule can ask for nothing that guards and evidence do
not know. What a single parameter may be is said in `worker.rules.params`.
"""

from collections.abc import Iterator, Mapping

from worker.model.actions import ACTIONS, EXTRA, Action, Param
from worker.model.rules import RuleStep
from worker.rules.calls import check_call
from worker.rules.expressions import Expressions
from worker.rules.fields import Form
from worker.rules.nearest import instead, meant, nearest
from worker.rules.params import ParamReader
from worker.rules.registry import EACH
from worker.rules.yaml import Entries, Items, Scalar, Value

STEPS_MAX = 20
ADDED = "added"


def read_do(value: Value, form: Form, expressions: Expressions) -> tuple[RuleStep, ...]:
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


def _step(item: Value, form: Form, expressions: Expressions) -> RuleStep | None:
    if isinstance(item, Scalar):
        action = _action(item, form)
        if action is None:
            return None
        if action.shape != "word":
            form.note(item, f"'{action.name}' needs a value", hint=f"write {action.example}")
            return None
        return RuleStep(action=action.name)
    if not isinstance(item, Entries) or not item.entries:
        form.note(item, _NO_ACTION, hint=_ONE_EACH)
        return None
    named = next((pair for pair in item.entries if pair[0].text in ACTIONS), item.entries[0])
    action = _action(named[0], form)
    if action is None:
        return None
    beside = tuple(pair for pair in item.entries if pair is not named)
    if any(key.text not in action.beside for key, _ in beside):
        form.note(item, _NO_ACTION, hint=_ONE_EACH)
        return None
    return _with_values(action, named[1], beside, form, expressions)


_NO_ACTION = "an action is a word, or one key with its value"
_ONE_EACH = "write each action as an item of its own"


def _with_values(
    action: Action, value: Value, beside: tuple[tuple[Scalar, Value], ...], form: Form, expressions: Expressions
) -> RuleStep | None:
    if action.shape == "word":
        form.note(value, f"'{action.name}' takes nothing", hint=f"write {action.example}")
        return None
    if action.bare is not None:
        given = {action.bare: (action.params[action.bare], value)}
        return RuleStep(action=action.name, params=ParamReader(action, form, expressions).values(given))
    if not isinstance(value, Entries):
        form.note(value, f"'{action.name}' takes a mapping", hint=f"write {action.example}")
        return None
    return _mapping_step(action, value, beside, form, expressions)


def _action(name: Scalar, form: Form) -> Action | None:
    action = ACTIONS.get(name.text)
    if action is None:
        message = f"unknown action '{name.text}'{meant(name.text, ACTIONS)}"
        form.note(name, message, hint=instead(name.text, ACTIONS), code="action")
    return action


def _mapping_step(
    action: Action, value: Entries, beside: tuple[tuple[Scalar, Value], ...], form: Form, expressions: Expressions
) -> RuleStep:
    given: dict[str, tuple[Param, Value]] = {}
    each, wrong = False, len(form.problems)
    for key, part, extra in _flat(action, (*value.entries, *beside), form):
        param = action.params.get(key.text)
        if action.each and key.text == EACH and not extra:
            each = _each(key, part, form, expressions)
        elif key.text in given:
            form.note(key, f"'{key.text}' is given twice", hint="once, among the parameters or beside the action")
        elif param is not None and not extra:
            given[key.text] = (param, part)
        elif extra or key.text in expressions.assumed.get(action.name, ()):
            given[key.text] = (_UNNAMED, part)
        else:
            _unknown(action, key, form)
    if given or len(form.problems) == wrong:
        _complete(action, value, given, form, each=each)
    params = ParamReader(action, form, expressions, item=each).values(given)
    if action.shown == "confirm":
        params = {"host": "api", **params}
        said = check_call(value, params, form)
        if said is not None:
            hint = "the service may answer 404; nothing but the paths of its document is known"
            expressions.warn(value, f"'{action.name}': {said}", hint=hint, code="path")
    return RuleStep(action=action.name, params=params, each=each)


_UNNAMED = Param(type="any", about="what the document does not name")
EVENT = "eid"
_OWN = frozenset({EVENT, EACH, EXTRA})
"""What is no parameter: the event is sent by itself, and the others say how parameters are meant."""


def _flat(action: Action, pairs: tuple[tuple[Scalar, Value], ...], form: Form) -> Iterator[tuple[Scalar, Value, bool]]:
    """The parameters, with those that stand under ``extra`` beside the others, as they are sent."""
    for key, part in pairs:
        if key.text != EXTRA or not action.extra_params:
            yield key, part, False
        elif not isinstance(part, Entries):
            form.note(part, f"{EXTRA} must be a mapping of names to values", hint=f"write {EXTRA}: {{name: value}}")
        else:
            for name, one in part.entries:
                if name.text in action.params or name.text in _OWN:
                    hint = "write it beside extra" if name.text in action.params else "leave it out"
                    form.note(name, f"'{name.text}' does not stand under {EXTRA}", hint=hint, code="key")
                else:
                    yield name, one, True


def _unknown(action: Action, key: Scalar, form: Form) -> None:
    """A parameter that neither the document nor an assumption names. It could be money under another name."""
    name = key.text
    known = (*action.params, EACH) if action.each else tuple(action.params)
    message = f"unknown key '{name}' in {action.name}{meant(name, known)}"
    hint = instead(name, known)
    if action.extra_params and name == EVENT:
        hint = "leave it out: the event is sent by itself"
    elif action.extra_params:
        near = nearest(name, known)
        as_it_is = f"put it under {EXTRA}, and it is sent as it is: {EXTRA}: {{{name}: …}}"
        hint = as_it_is if near is None else f"write {near}; or, where the service knows {name}, {as_it_is}"
    form.note(key, message, hint=hint, code="key")


def _complete(action: Action, value: Entries, given: Mapping[str, object], form: Form, *, each: bool) -> None:
    """Every parameter that must be there is; what an item gives by itself need not be written."""
    for name, param in action.params.items():
        if param.required and name not in given and not (each and param.of_item):
            form.note(value, f"'{action.name}' lacks '{name}'", hint=f"as in {action.example}", code="missing")
    if action.extra_params and not given and not each:
        form.note(value, f"'{action.name}' changes nothing", hint=f"as in {action.example}", code="missing")


def _each(key: Scalar, value: Value, form: Form, expressions: Expressions) -> bool:
    """Whether one write is made for each item; only the items that a watched list has gained can be gone through."""
    if not isinstance(value, Scalar) or value.text != ADDED:
        form.note(
            value, f"each is {ADDED}: one write for each item that the watched list has gained", hint="each: added"
        )
    elif not expressions.list_watched:
        hint = "add on_change: suggested_tcs, or name tc and tc_run_id"
        form.note(key, f"'each: {ADDED}' goes with on_change of a list", hint=hint)
    return True
