"""Warnings of `check`: rules that are correct and probably not meant so.

A warning never keeps a rule from loading. It is for the person who writes rules: a condition that nothing can make
true, two rules that pull in opposite directions, a rule that no test has ever seen. Reading the names in the rule tests
is all it does to the world.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from worker.model.actions import ACTIONS
from worker.model.errors import InputErrors, Problem
from worker.model.ids import RuleId
from worker.model.rules import Computed, Rule, Step
from worker.rules.celtypes import Type
from worker.rules.conditions import CelCondition
from worker.rules.constants import constant_truth
from worker.rules.expressions import names_in
from worker.rules.load import FILE_BYTES_MAX, Loaded
from worker.rules.registry import BUILT_IN_REGISTRY, Registry
from worker.rules.rulefile import Written
from worker.rules.syntax import path_of, walk
from worker.rules.yamltext import Document, Entries, Items, Scalar, compose

_IMPLIED: Mapping[str, str] = {"pause": "PAUSED", "run": "RUNNING"}


def lint(loaded: Loaded, folder: Path | None = None, registry: Registry = BUILT_IN_REGISTRY) -> tuple[Problem, ...]:
    """All warnings about a rule set; with its folder, also those about files and tests beside it."""
    found = list(loaded.warnings)
    for written in loaded.written:
        found.extend(_constant(written, registry))
        found.extend(_own_writes(written))
        found.extend(_costs(written, registry))
        found.extend(_parameters(written, registry))
    found.extend(_opposites(loaded))
    if folder is not None and folder.is_dir():
        found.extend(_other_endings(folder))
        found.extend(_untested(loaded, folder))
    return tuple(sorted(dict.fromkeys(found), key=lambda one: (one.file, one.line, one.column)))


def _warning(written: Written, message: str, *, key: str = "id", offset: int = 0, hint: str = "") -> Problem:
    value = written.entries.get(key)
    start = written.entries.start if value is None else value.start
    index = value.index_of(offset) if isinstance(value, Scalar) and offset else start
    return written.entries.document.problem(index, message, hint=hint, code="lint", severity="warning")


def _constant(written: Written, registry: Registry) -> Iterator[Problem]:
    when = written.rule.when
    if not isinstance(when, CelCondition):
        return
    names: Mapping[str, Type] = names_in(registry, written.rule.on_change)
    truth = constant_truth(when.tree, names)
    if truth is not None:
        word = "always" if truth else "never"
        yield _warning(written, f"rule '{written.rule.id}': this condition is {word} true", key="when")
    elif not when.names:
        yield _warning(written, f"rule '{written.rule.id}': this condition names no fact", key="when")


def _own_writes(written: Written) -> Iterator[Problem]:
    """A condition that looks at what its own action changes ends its episode by acting, or never ends it."""
    when, rule = written.rule.when, written.rule
    if not isinstance(when, CelCondition) or rule.on_change:
        return
    writes = {f"{fact}.{field}": step.action for step in rule.do for fact, field in ACTIONS[step.action].writes}
    for node in walk(when.tree):
        path = path_of(node)
        if path is not None and path.text in writes:
            message = f"rule '{rule.id}' looks at {path.text}, which its own '{writes[path.text]}' writes"
            hint = (
                "once it has acted the condition changes by its own doing; `repeat: enforce` restores a drifted value"
            )
            yield _warning(written, message, key="when", offset=node.start, hint=hint)


def _costs(written: Written, registry: Registry) -> Iterator[Problem]:
    rule = written.rule
    costly = sorted(name for name in rule.names if name in registry.facts and registry.facts[name].per_event_request)
    free = isinstance(rule.when, CelCondition) and any(
        not _costly(name, registry) for name in rule.when.names - {"now"}
    )
    if costly and not free:
        message = f"rule '{rule.id}' reads {', '.join(costly)} of every event, at a request each"
        yield _warning(written, message, hint="narrow it first, as in event.status == 'active' && …")


def _costly(name: str, registry: Registry) -> bool:
    return name in registry.facts and registry.facts[name].per_event_request


def _parameters(written: Written, registry: Registry) -> Iterator[Problem]:
    """A key of ``with`` that no named fact takes."""
    taken = {key for name in written.rule.names if name in registry.facts for key in registry.facts[name].takes}
    for name in written.rule.parameters:
        if name not in taken:
            message = f"rule '{written.rule.id}': no fact that it names takes '{name}'"
            yield _warning(written, message, key="with")


def _opposites(loaded: Loaded) -> Iterator[Problem]:
    """Rules that can want opposite values of one field, for partners that both of them reach."""
    wishes = [(one, *wish) for one in loaded.written for step in one.rule.do if (wish := _wish(step)) is not None]
    for index, (first, target, value) in enumerate(wishes):
        for second, other_target, other in wishes[:index]:
            if first.rule.id == second.rule.id or target != other_target or value == other:
                continue
            if _meet(first.rule, second.rule):
                yield _warning(first, _clash(first.rule, second.rule, target, (value, other)), key="do")


def _wish(step: Step) -> tuple[str, str] | None:
    action = ACTIONS[step.action]
    value = _IMPLIED.get(step.action, step.params.get("value") if action.shape == "value" else None)
    return None if value is None or isinstance(value, Computed) else (action.target, str(value))


def _meet(first: Rule, second: Rule) -> bool:
    if not (first.enabled and second.enabled):
        return False
    return first.partners is None or second.partners is None or bool(first.partners & second.partners)


def _clash(first: Rule, second: Rule, target: str, values: tuple[str, str]) -> str:
    wins = max(first, second, key=lambda rule: rule.priority)
    order = (
        f"'{wins.id}' wins by priority"
        if first.priority != second.priority
        else "equal priority: the one that spends loses"
    )
    return (
        f"rule '{first.id}' wants {target} {values[0]} and rule '{second.id}' wants it {values[1]}; "
        f"where both are true, {order}"
    )


def _other_endings(folder: Path) -> Iterator[Problem]:
    for file in sorted(folder.rglob("*.yml")):
        yield Problem(file=str(file), message="is not read; name it .yaml", severity="warning", code="lint")


def _untested(loaded: Loaded, folder: Path) -> Iterator[Problem]:
    """Rules that no rule test can see. A test without ``rules`` sees all of them."""
    tests = folder / "tests"
    if not tests.is_dir():
        return
    named: set[RuleId] = set()
    for file in sorted(tests.rglob("*.yaml")):
        rules = _rules_of_tests(file)
        if rules is None:
            return
        named |= rules
    for written in loaded.written:
        if written.rule.id not in named:
            yield _warning(written, f"no rule test reaches rule '{written.rule.id}'", hint=f"add one under {tests}")


def _rules_of_tests(file: Path) -> set[RuleId] | None:
    """The rules that the tests of a file name; None if one of them sees all. What cannot be read names nothing."""
    try:
        text = file.read_bytes()[:FILE_BYTES_MAX].decode("utf-8-sig", errors="replace")
        value = compose(Document(file=str(file), text=text))
    except (OSError, InputErrors):
        return set()
    tests = value.get("tests") if isinstance(value, Entries) else None
    named: set[RuleId] = set()
    for test in tests.items if isinstance(tests, Items) else ():
        rules = test.get("rules") if isinstance(test, Entries) else None
        if not isinstance(rules, Items):
            return None
        named |= {RuleId(rule.text) for rule in rules.items if isinstance(rule, Scalar)}
    return named
