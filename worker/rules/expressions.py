"""CEL inside a rule file: compiled, checked, and every finding at its line and column in the file."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from posixpath import normpath
from typing import cast
from urllib.parse import unquote

from worker.model.actions import ACTIONS
from worker.model.errors import Code, Problem
from worker.model.rules import Rule, RuleStep, Watch
from worker.rules.binding import Form
from worker.rules.cel import BadSyntax, Node, Path, names_of, parse, walk
from worker.rules.check import by_zero, check_condition, nonzero, text_of
from worker.rules.evaluate import Expression, expression_of
from worker.rules.facts import BY_DEFAULT
from worker.rules.registry import ANY, BUILT_IN, CHANGE, DOUBLE, ITEM, Registry, Type
from worker.rules.yaml import Scalar, Value

_RESPONSE: Mapping[str, Type] = {"response": ANY}
"""What a condition on an answer can name: the document does not show most of them, so it may be anything."""
_ONLY_RESPONSE = "here only `response` is known: what the GET beside it answers"


class Expressions:
    """Compiles the conditions and computed values of one rule. ``warnings`` are kept apart from the form's errors."""

    def __init__(self, form: Form, registry: Registry, watches: tuple[Watch, ...]) -> None:
        self._form = form
        self._watches = watches
        self._names = names_in(registry, watches)
        self._nonzero: frozenset[str] = frozenset()
        self.warnings: list[Problem] = []
        self._places: list[tuple[Expression, Scalar]] = []

    def condition(self, value: Scalar) -> Expression | None:
        """A ``when``."""
        found = self._checked(value, 0, boolean=True)
        if found is not None:
            self._nonzero = nonzero(found.source, found.tree)
        return found

    def of_response(self, value: Scalar) -> Expression | None:
        """A condition on the answer of a GET, which it knows as ``response`` and nothing else."""
        return self._checked(value, 0, boolean=True, names=_RESPONSE)

    @property
    def list_watched(self) -> bool:
        """Whether ``added`` has items: a watched fact is a list, or may be one."""
        return any(self._names[watch.fact].kind in ("list", "any") for watch in self._watches)

    def computed(self, value: Scalar, *, item: bool = False) -> Expression | None:
        """A value that begins with ``=``. ``item``: it stands in an action with ``each``."""
        found = self._checked(value, 1, boolean=False, item=item)
        if found is not None:
            self._places.append((found, value))
        return found

    def place_of(self, found: Expression) -> Scalar:
        """Where a computed value stands."""
        return next(value for one, value in self._places if one is found)

    def warn(self, value: Value, message: str, *, hint: str, code: Code) -> None:
        """Notes what is probably not meant so."""
        self.warnings.append(value.document.problem(value.start, message, hint=hint, code=code, severity="warning"))

    def _checked(
        self,
        value: Scalar,
        skip: int,
        *,
        boolean: bool,
        item: bool = False,
        names: Mapping[str, Type] | None = None,
    ) -> Expression | None:
        """What is written, compiled, after everything that is wrong in it was noted."""
        source = value.text[skip:].rstrip()
        try:
            tree = parse(source)
        except BadSyntax as error:
            self._form.note(value, str(error), hint=error.hint, code="syntax", offset=error.offset + skip)
            return None
        before = len(self._form.problems)
        for finding in check_condition(tree, self._names if names is None else names, boolean=boolean):
            if finding.severity == "error":
                hint = finding.hint if names is None or finding.code != "fact" else _ONLY_RESPONSE
                self._form.note(value, finding.message, hint=hint, code=finding.code, offset=finding.offset + skip)
            else:
                index = value.index_of(finding.offset + skip)
                self.warnings.append(
                    value.document.problem(
                        index, finding.message, hint=finding.hint, code=finding.code, severity="warning"
                    )
                )
        self._warn_of_zero(source, tree, value, skip, item=item)
        if not self._watches:
            self._note_names(tree, value, skip, _OF_CHANGES)
        if not item:
            self._note_names(tree, value, skip, _OF_ITEMS)
        return expression_of(source, tree) if len(self._form.problems) == before else None

    def _warn_of_zero(self, source: str, tree: Node, value: Scalar, skip: int, *, item: bool) -> None:
        """A division by what may be 0. Where a value is computed, ``when`` was true; where it is computed for each item
        that was added, some were."""
        safe = self._nonzero | ({"size(added)", "added.size()"} if item else frozenset[str]())
        for divisor in by_zero(source, tree, safe):
            text = text_of(source, divisor)
            said, hint = f"{text} may be 0, and what is divided by 0 is unknown", f"ask first: {text} > 0.0 && …"
            if divisor.kind == "call":
                hint = f"ask first: {text} > 0 && …"
            elif skip:
                hint = f"ask for it in `when`: {text} > 0.0 && …"
            index = value.index_of(divisor.start + skip)
            self.warnings.append(value.document.problem(index, said, hint=hint, code="zero", severity="warning"))

    def _note_names(self, tree: Node, value: Scalar, skip: int, misplaced: "_Misplaced") -> None:
        for node in walk(tree) if names_of(tree) & misplaced.names else ():
            if node.kind == "ident" and node.text in misplaced.names:
                message = f"'{node.text}' exists only in {misplaced.where}"
                self._form.note(value, message, hint=misplaced.hint, code="fact", offset=node.at + skip)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Misplaced:
    """Names that mean nothing outside of some place."""

    names: frozenset[str]
    where: str
    hint: str


_OF_CHANGES = _Misplaced(
    names=CHANGE,
    where="a rule with on_change",
    hint="add `on_change: FACT`; it is about what that fact was before it changed",
)
_OF_ITEMS = _Misplaced(
    names=frozenset({ITEM}),
    where="an action with `each`",
    hint="add `each: added`; it is the item that the write is for",
)


def names_in(registry: Registry, watches: tuple[Watch, ...]) -> Mapping[str, Type]:
    """The names of a rule and their types; what is remembered of a change has the compared fields only."""
    names = {name: fact.type for name, fact in registry.facts.items()}
    if watches:
        remembered = {watch.fact: _remembered(names.get(watch.fact, ANY), watch) for watch in watches}
        names["previous"] = Type(kind="object", fields=remembered)
        lists = [found for found in remembered.values() if found.kind == "list"]
        if len(lists) == 1:
            names["added"] = names["removed"] = lists[0]
            names[ITEM] = _with_run(lists[0].items or ANY)
    return names


def _with_run(item: Type) -> Type:
    """A cluster that is acted on has its run, also where only its name was compared."""
    if item.fields is None or "tc" not in item.fields:
        return item
    return replace(item, fields={**item.fields, "tc_run_id": item.fields.get("tc_run_id", DOUBLE)})


def _remembered(whole: Type, watch: Watch) -> Type:
    by = watch.by or BY_DEFAULT.get(watch.fact, ())
    if not by:
        return whole
    if whole.kind == "list" and whole.items is not None:
        return replace(whole, items=_narrowed(whole.items, by))
    return _narrowed(whole, by)


def _narrowed(record: Type, by: tuple[str, ...]) -> Type:
    fields = record.fields or {}
    return replace(record, fields={name: fields.get(name, ANY) for name in by}) if record.kind == "object" else record


# --- relative values: computed from a field of the very target that the action writes, as setup.total_budget * 1.2 ---
# Each write of such a value is the ground of the next, so a rule that has one must say how often. Which fields were
# read is kept in the step: what was computed is sent only while the target still reads so (`worker.guards.checks`).

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
        for value in cast("tuple[Expression, ...]", step.computed) if own else ():
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


def _own_fields(step: RuleStep, value: Expression, path: Path, own: str, items: Collection[str]) -> frozenset[str]:
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


def _named(value: Expression) -> frozenset[str]:
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
