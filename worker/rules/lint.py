"""Warnings of `check` about single rules: correct, and probably not meant so.

A warning never keeps a rule from loading. It is for the person who writes rules: a condition that nothing can make
true, a fact that is read of every event, a rule that no test has ever seen. What rules do to each other is found by
`worker.engine.checking`, what they cost together by `worker.engine.checking`. Reading the names in the rule tests is
all it does to the world.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from worker.model.actions import ACTIONS
from worker.model.errors import InputErrors, Problem
from worker.model.facts import RuleId
from worker.model.findings import Code
from worker.rules.celtypes import Type
from worker.rules.conditions import CelCondition
from worker.rules.constants import constant_truth, only_value
from worker.rules.expressions import names_in
from worker.rules.files import FILE_BYTES_MAX, TESTS, walked
from worker.rules.load import Loaded
from worker.rules.narrowing import costly_names, narrowed
from worker.rules.registry import BUILT_IN_REGISTRY, Registry
from worker.rules.rulefile import Written
from worker.rules.syntax import path_of, walk
from worker.rules.yaml import Document, Entries, Items, Scalar, compose

_CONSTANT: Mapping[bool | None, tuple[str, str]] = {
    True: ("is always true", "the rule would fire once for every event; say for which ones it is meant"),
    False: ("is never true", "its parts contradict each other, or ask for a value that the field never has"),
}
_SHARES = frozenset({"event.predicted_sales_share"})
PERCENT = 100
_NO_FACT = ("names no fact", "it is the same for every event; name what it is about, as in event.status == 'cancelled'")


def lint(loaded: Loaded, folder: Path | None = None, registry: Registry = BUILT_IN_REGISTRY) -> tuple[Problem, ...]:
    """All warnings about a rule set; with its folder, also those about files and tests beside it."""
    found = list(loaded.warnings)
    for written in loaded.written:
        found.extend(_constant(written, registry))
        found.extend(_percents(written))
        found.extend(_never_changes(written))
        found.extend(_own_writes(written))
        found.extend(_costs(written, registry))
        found.extend(_parameters(written, registry))
    if folder is not None and folder.is_dir():
        found.extend(_other_endings(folder))
        found.extend(_untested(loaded, folder))
    return tuple(sorted(dict.fromkeys(found), key=lambda one: (one.file, one.line, one.column)))


def _warning(
    written: Written, message: str, *, code: Code, key: str = "id", offset: int = 0, hint: str = ""
) -> Problem:
    value = written.entries.get(key)
    start = written.entries.start if value is None else value.start
    index = value.index_of(offset) if isinstance(value, Scalar) and offset else start
    return written.entries.document.problem(index, message, hint=hint, code=code, severity="warning")


def _constant(written: Written, registry: Registry) -> Iterator[Problem]:
    when = written.rule.when
    if not isinstance(when, CelCondition):
        return
    names: Mapping[str, Type] = names_in(registry, written.rule.on_change)
    truth = constant_truth(when.tree, names)
    said = _CONSTANT.get(truth) if truth is not None or when.names else _NO_FACT
    if said is not None:
        message, hint = said
        whole = f"rule '{written.rule.id}': this condition {message}"
        yield _warning(written, whole, code="constant", key="when", hint=hint)


def _percents(written: Written) -> Iterator[Problem]:
    """A share of one that is compared with a number of percent."""
    when = written.rule.when
    for node in walk(when.tree) if isinstance(when, CelCondition) else ():
        paths = [
            path.text for child in node.children if node.kind == "compare" and (path := path_of(child)) is not None
        ]
        for child in node.children:
            number = child.value if child.kind == "literal" else None
            if paths and paths[0] in _SHARES and isinstance(number, int | float) and number > 1:
                message = f"{paths[0]} is a share of one: it is hardly ever {number:g}"
                hint = f"write {number / 100:g}" if number <= PERCENT else "write a number from 0 to 1"
                yield _warning(written, message, code="value", key="when", offset=child.start, hint=hint)


def _never_changes(written: Written) -> Iterator[Problem]:
    """A condition that allows the watched value to be one thing only: while it is another, nothing is remembered."""
    when, rule = written.rule.when, written.rule
    compared = [f"{watch.fact}.{field}" for watch in rule.on_change for field in watch.by]
    if not isinstance(when, CelCondition) or not all(watch.by for watch in rule.on_change):
        return
    values = {path: only_value(when.tree, path) for path in compared}
    if values and all(values.values()):
        path, value = next(iter(values.items()))
        only = f"its condition is false for any {path} but {value}, so no change is seen"
        hint = (
            f"while `when` is false nothing is remembered: leave out what it asks of {path} now, and ask what it was "
            f"before, as in previous.{path} == …"
        )
        yield _warning(written, f"rule '{rule.id}' never fires: {only}", code="constant", key="when", hint=hint)


def _own_writes(written: Written) -> Iterator[Problem]:
    """A condition that looks at what its own action changes ends its episode by acting, or never ends it."""
    when, rule = written.rule.when, written.rule
    if not isinstance(when, CelCondition) or rule.on_change:
        return
    writes = {
        f"{fact}.{field}".rstrip("."): step.action
        for step in rule.do
        if not step.relative  # a limit on what it reads is what stops such a one
        for fact, field in ACTIONS[step.action].written(step.params)
    }
    for node in walk(when.tree):
        path = path_of(node)
        if path is not None and path.text in writes:
            message = f"rule '{rule.id}' looks at {path.text}, which its own '{writes[path.text]}' writes"
            hint = (
                "leave that part out: what is so already is skipped, and once it has acted, its own doing changes the "
                "condition; `repeat: enforce` restores a value that drifts"
            )
            yield _warning(written, message, code="own_write", key="when", offset=node.start, hint=hint)


def _costs(written: Written, registry: Registry) -> Iterator[Problem]:
    rule = written.rule
    costly = costly_names(rule, registry)
    if costly and not narrowed(rule, registry):
        message = f"rule '{rule.id}' reads {', '.join(costly)} of every event, at a request each"
        key = "when" if rule.when is not None else "on_change"
        yield _warning(written, message, code="cost", key=key, hint="narrow it first: event.status == 'active' && …")


def _parameters(written: Written, registry: Registry) -> Iterator[Problem]:
    """A key of ``with`` that no named fact takes."""
    taken = {key for name in written.rule.names if name in registry.facts for key in registry.facts[name].takes}
    given = written.entries.get("with")
    for name in written.rule.parameters:
        key = given.key(name) if isinstance(given, Entries) else None
        if name not in taken and key is not None:
            takers = ", ".join(sorted(fact for fact, known in registry.facts.items() if name in known.takes))
            message = f"rule '{written.rule.id}': no fact that it names takes '{name}'"
            hint = f"it is a parameter of {takers}; remove it, or name one of these in the rule"
            document = written.entries.document
            yield document.problem(key.start, message, hint=hint, code="parameter", severity="warning")


def _other_endings(folder: Path) -> Iterator[Problem]:
    for file in walked(folder, ".yml").files:
        yield Problem(
            file=str(file),
            message="is not read",
            hint=f"rule files end in .yaml: rename it to {file.stem}.yaml",
            severity="warning",
            code="ending",
        )


def _untested(loaded: Loaded, folder: Path) -> Iterator[Problem]:
    """Rules that no rule test can see. A test without ``rules`` sees all that are enabled."""
    folders = sorted(one for one in folder.rglob(TESTS) if one.is_dir())
    if not folders and loaded.written:
        yield Problem(
            file=str(folder),
            message=f"no rule has a test: there is no folder {TESTS} here",
            hint=f"write tests in {folder / TESTS}/*.yaml and run them with `campaign-worker test`",
            severity="warning",
            code="untested",
        )
    reached: set[RuleId] = set()
    for file in sorted(file for one in folders for file in one.rglob("*.yaml")):
        rules = _rules_of_tests(file)
        reached |= {one.rule.id for one in loaded.written if one.rule.enabled} if rules is None else rules
    for written in loaded.written:
        if folders and written.rule.id not in reached:
            message = f"no rule test reaches rule '{written.rule.id}'"
            hint = f"add one to a file in {folders[0]}, with `rules: [{written.rule.id}]`"
            yield _warning(written, message, code="untested", hint=hint)


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
