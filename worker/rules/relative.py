"""Relative values: computed from a field of the very target that the action writes, as ``setup.total_budget * 1.2`` is.

Each write of such a value is the ground of the next, so a rule that has one must say how often. Which fields were read
is kept in the step: what was computed from them is sent only while the target still reads so (`worker.guards.checks`).
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from posixpath import normpath
from typing import cast
from urllib.parse import unquote

from worker.model.actions import ACTIONS
from worker.model.rules import Rule, RuleStep
from worker.rules.conditions import ComputedValue
from worker.rules.expressions import Expressions
from worker.rules.fields import Form
from worker.rules.registry import BUILT_IN, ITEM, Registry
from worker.rules.syntax import Path, walk

COOLDOWN_MIN = timedelta(hours=1)
"""The least ``cooldown`` that is pace enough by itself."""
_ADDED = "added"
_PREVIOUS = "previous"
_FOUND_BY = frozenset({"tc", "tc_run_id"})
"""What a campaign is found by; no write changes it."""


def with_relative(rule: Rule, form: Form, expressions: Expressions, registry: Registry) -> Rule:
    """The rule with the fields of their own targets that its steps read; notes each value that could run away."""
    items = frozenset({ITEM, _ADDED}) if "campaigns" in {watch.fact for watch in rule.on_change} else frozenset[str]()
    steps = []
    for step in rule.do:
        own = ACTIONS[step.action].own_fact
        read: set[str] = set()
        for value in cast("tuple[ComputedValue, ...]", step.computed) if own else ():
            fields = {path: _own_fields(step, value, path, own, items) for path in value.paths}
            read = read.union(*fields.values())
            wrong = _wrong(rule, fields, own, registry)
            if wrong is not None:
                name, message, hint = wrong
                start = next(node.start for node in walk(value.tree) if (node.kind, node.text) == ("ident", name))
                place = expressions.place_of(value)
                form.note(place, f"{step.action}: {message}", hint=hint, code="relative", offset=start + 1)
        steps.append(replace(step, relative=tuple(sorted(read))))
    return replace(rule, do=tuple(steps))


def _wrong(
    rule: Rule, fields: Mapping[Path, frozenset[str]], own: str, registry: Registry
) -> tuple[str, str, str] | None:
    """What is wrong with one value: the name in it, the message, and what to write instead."""
    for path, read in fields.items():
        fact = _as_now(path, own).name
        if fact not in BUILT_IN and fact in registry.facts and _read_from(registry, fact, own):
            source = BUILT_IN[own].get.removeprefix("GET ")
            hint = f"name it as a field of {own}: then the value is only sent while that field still reads so"
            return path.name, f"{fact} is read from {source}, which this action itself writes", hint
        said = _unpaced(rule, path) if read else None
        if said is not None:
            return path.name, *said
    return None


def _own_fields(step: RuleStep, value: ComputedValue, path: Path, own: str, items: Collection[str]) -> frozenset[str]:
    """The fields of its own target that a value reads by one path. Where a whole record or list is read, those that
    its text names anywhere, and those that the step writes."""
    path = _as_now(path, own)
    if path.name != own and not (own == "campaigns" and path.name in items):
        return frozenset()
    fields = frozenset(path.fields[:1])
    if own == "event":
        target = frozenset({ACTIONS[step.action].target})
        return target if not fields or fields == target else frozenset()
    return (fields or _named(value) | step.params.keys()) - _FOUND_BY


def _as_now(path: Path, own: str) -> Path:
    """What was remembered of a fact is as good a ground as the fact: ``previous.setup`` is ``setup``. The whole of
    ``previous`` has the target in it."""
    if path.name != _PREVIOUS:
        return path
    name, *fields = path.fields or (own,)
    return Path(name=name, fields=tuple(fields))


def _named(value: ComputedValue) -> frozenset[str]:
    """Every field that the text names, of whatever."""
    found = set[str]()
    for node in walk(value.tree):
        if node.kind == "select":
            found.add(node.text)
        elif node.kind == "index" and node.children[1].literal == "string":
            found.add(str(node.children[1].value))
    return frozenset(found)


def _read_from(registry: Registry, name: str, own: str) -> bool:
    """Whether a fact of the config is read from where the built-in one is, however the path is spelled."""
    path = registry.facts[name].get.removeprefix("GET ").partition("?")[0]
    return normpath("/" + unquote(path).lstrip("/")) == BUILT_IN[own].get.removeprefix("GET ")


def _unpaced(rule: Rule, path: Path) -> tuple[str, str] | None:
    """Why a relative value would go on and on, and what to write instead; None where the rule says how often."""
    message = f"this value is computed from {path.text}, which this action itself writes"
    if rule.repeat == "enforce":
        hint = "leave `repeat` out and say how often: at: '0 8 * * *', limit: {per_event_per_day: 1} or cooldown: 1h"
        return f"{message}: with `repeat: enforce` each write would be the ground of the next, without end", hint
    paced = rule.at is not None or rule.per_event_per_day is not None
    if paced or (rule.cooldown is not None and rule.cooldown >= COOLDOWN_MIN):
        return None
    return f"{message}, and nothing says how often", _HOW_OFTEN


_HOW_OFTEN = (
    "add at: '0 8 * * *', limit: {per_event_per_day: 1} or a cooldown of 1h or more; or write a value that does not "
    'lean on what is written, as in total_budget: 500 or "=defaults.total_budget * 1.2"'
)
