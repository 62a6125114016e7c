"""CEL inside a rule file: compiled, checked, and every finding at its line and column in the file."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from worker.model.errors import Problem
from worker.model.findings import Code
from worker.model.rules import Watch
from worker.rules.cel import BadSyntax
from worker.rules.celtypes import ANY, DOUBLE, Type
from worker.rules.checks import check_condition
from worker.rules.conditions import CelCondition, ComputedValue, computed_of, condition
from worker.rules.evaluate import BY_DEFAULT
from worker.rules.fields import Form
from worker.rules.quotients import by_zero, nonzero, text_of
from worker.rules.registry import CHANGE, ITEM, Registry
from worker.rules.syntax import names_of, walk
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
        self.assumed = registry.assumed
        self._nonzero: frozenset[str] = frozenset()
        self.warnings: list[Problem] = []
        self._places: list[tuple[ComputedValue, Scalar]] = []

    def condition(self, value: Scalar) -> CelCondition | None:
        """A ``when``."""
        found = self._checked(value, 0, boolean=True)
        if found is not None:
            self._nonzero = nonzero(found.source, found.tree)
        return found

    def of_response(self, value: Scalar) -> CelCondition | None:
        """A condition on the answer of a GET, which it knows as ``response`` and nothing else."""
        return self._checked(value, 0, boolean=True, names=_RESPONSE)

    @property
    def list_watched(self) -> bool:
        """Whether ``added`` has items: a watched fact is a list, or may be one."""
        return any(self._names[watch.fact].kind in ("list", "any") for watch in self._watches)

    def knows(self, name: str) -> bool:
        """Whether there is a fact of that name."""
        return name in self._names

    def computed(self, value: Scalar, *, item: bool = False) -> ComputedValue | None:
        """A value that begins with ``=``. ``item``: it stands in an action with ``each``."""
        checked = self._checked(value, 1, boolean=False, item=item)
        if checked is None:
            return None
        found = computed_of(checked)
        self._places.append((found, value))
        return found

    def place_of(self, found: ComputedValue) -> Scalar:
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
    ) -> CelCondition | None:
        """What is written, compiled, after everything that is wrong in it was noted."""
        source = value.text[skip:].rstrip()
        try:
            found = condition(source)
        except BadSyntax as error:
            self._form.note(value, str(error), hint=error.hint, code="syntax", offset=error.offset + skip)
            return None
        before = len(self._form.problems)
        for finding in check_condition(found.tree, self._names if names is None else names, boolean=boolean):
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
        self._warn_of_zero(found, value, skip, item=item)
        self._change_names(found, value, skip)
        if not item:
            self._note_names(found, value, skip, _OF_ITEMS)
        return found if len(self._form.problems) == before else None

    def _warn_of_zero(self, found: CelCondition, value: Scalar, skip: int, *, item: bool) -> None:
        """A division by what may be 0. Where a value is computed, ``when`` was true; where it is computed for each item
        that was added, some were."""
        safe = self._nonzero | ({"size(added)", "added.size()"} if item else frozenset[str]())
        for divisor in by_zero(found.source, found.tree, safe):
            text = text_of(found.source, divisor)
            said, hint = f"{text} may be 0, and what is divided by 0 is unknown", f"ask first: {text} > 0.0 && …"
            if divisor.kind == "call":
                hint = f"ask first: {text} > 0 && …"
            elif skip:
                hint = f"ask for it in `when`: {text} > 0.0 && …"
            index = value.index_of(divisor.start + skip)
            self.warnings.append(value.document.problem(index, said, hint=hint, code="zero", severity="warning"))

    def _change_names(self, found: CelCondition, value: Scalar, skip: int) -> None:
        """``previous``, ``added`` and ``removed`` mean nothing where no change is watched."""
        if not self._watches:
            self._note_names(found, value, skip, _OF_CHANGES)

    def _note_names(self, found: CelCondition, value: Scalar, skip: int, misplaced: "_Misplaced") -> None:
        for node in walk(found.tree) if names_of(found.tree) & misplaced.names else ():
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
