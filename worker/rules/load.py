"""From a folder of YAML files to a rule set, or to every mistake in it at once.

A set is loaded whole or not at all: with half a folder, a rule that was to hold another back could be the missing half.
So nothing that could be a rule is passed over in silence: a link that leads nowhere, a folder that may not be read, one
that leads back into itself. Links are followed inside of the folder (as a ConfigMap has them); one that leads out of it
is an error: who writes a rule could have any file shown. What single keys say is judged by their models; here is what
spans several, and the conditions.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import cast

from worker.model.actions import ACTIONS, AFTER, UNDO, WAIT, WORDS, Param, ParamType, fault_of, uncounted
from worker.model.errors import InputErrors, Problem
from worker.model.facts import Json, PartnerId, RuleId
from worker.model.rules import Rule, RuleSet, RuleStep, SpendLimits, Surge, Template, Watch, computed_in
from worker.rules import remedies
from worker.rules.actions import ConfirmText, StepText, doubt_of_call, is_computed, is_fact
from worker.rules.binding import Form, Tree, bind, place_of
from worker.rules.evaluate import Expression
from worker.rules.expressions import RESPONSE, Defined, Definitions, Expressions, with_relative
from worker.rules.models import OF_OTHER_TOOLS, RulesText, RuleText, WithText
from worker.rules.registry import ADDED, BUILT_IN_REGISTRY, WITHOUT_DEFAULT, Kind, Registry
from worker.rules.spelling import CronTimes, instead, meant, nearest
from worker.rules.yaml import Document, Entries, Items, Scalar, Value, compose, not_utf8

ENFORCE_COOLDOWN_MIN = timedelta(minutes=1)
_IN_BRACES = re.compile(r"\{+\s*([a-z_]+(?:\.[a-z_]+)+)\s*\}+")
_TIME = re.compile(r"\d+ ?(ms|[smhdw])")
TESTS = "tests"
"""The name of the folders, among rules, in which their tests lie."""
ENDINGS = (".yaml",)
MISTAKEN = (".yml", ".YAML", ".YML")
"""Endings of files that somebody may take for files of rules."""
FILES_MAX = 1_000
FILE_BYTES_MAX = 5_000_000
FOLDER_BYTES_MAX = 20_000_000
EMPTY_HINT = "remove it, or write it anew: a file that was cut off (a full disk) must not take its rules out of force"
UNREADABLE = "unreadable "
"""What the hash of files begins with that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A rule with the text it was read from, for findings that need both."""

    rule: Rule
    entries: Entries = field(repr=False, compare=False)
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A rule set with what it was written as. ``errors``: a set with any is not to be used, and the rules are those
    that have none. ``warnings`` were found on the way; `worker.rules.lint` finds more."""

    rules: RuleSet
    written: tuple[Written, ...] = ()
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def without_errors(self) -> "Loaded":
        """The same. Raises `InputErrors` where it has any."""
        if self.errors:
            raise InputErrors(self.errors)
        return self


def load_rules(path: Path, registry: Registry = BUILT_IN_REGISTRY) -> RuleSet:
    """The rules of a folder or a file. Raises `InputErrors` with every mistake."""
    return examine(path, registry).without_errors().rules


def examine(path: Path, registry: Registry = BUILT_IN_REGISTRY) -> Loaded:
    """What of a folder or a file can be read, and every mistake in the rest. Raises nothing."""
    return examined(*texts_of(path), registry)


def read_rules(texts: Mapping[str, str], registry: Registry = BUILT_IN_REGISTRY) -> Loaded:
    """The rules of texts by file name. Raises `InputErrors` with every mistake."""
    return examined(texts, (), registry).without_errors()


def examined(texts: Mapping[str, str], unreadable: tuple[Problem, ...], registry: Registry) -> Loaded:
    """What of these texts can be read, and every mistake in the rest, beside what `texts_of` could not read. The rules
    of all files are read by the names of all files."""
    problems, items, definitions = list[Problem](), list[Value](), Definitions(registry)
    for file, text in sorted(texts.items()):
        try:
            value = compose(Document(file=file, text=text))
        except InputErrors as errors:
            problems.extend(errors.problems)
            continue
        found, mistakes = (None, []) if value is None else bind(RulesText, value)
        problems.extend(one.problem for one in mistakes)
        rules, named = (value.get(key) if isinstance(value, Entries) else None for key in ("rules", "define"))
        items.extend(rules.items if isinstance(rules, Items) and found is not None and found.rules else ())
        if isinstance(named, Entries):
            definitions.take(named)
    written, ids, defined = list[Written](), list[Scalar](), definitions.read()
    problems.extend(definitions.form.errors)
    for item in items:
        bound, mistakes = bind(RuleText, item, registry)
        form = Form(mistakes)
        if bound is not None and isinstance(item, Entries):
            one = _RuleReader(bound, item, form, registry, defined).read()
            ids.extend((given,) if isinstance(given := item.get("id"), Scalar) else ())
            written.extend((one,) if not form.errors else ())
        problems.extend(form.errors)
    problems.extend((*_named(written, [one.text for one in ids]), *_duplicates(ids)))
    return Loaded(
        rules=RuleSet(
            rules=tuple(sorted((one.rule for one in written), key=lambda rule: rule.id)), hash=hash_of(texts)
        ),
        written=tuple(written),
        errors=(*unreadable, *sorted(problems, key=lambda one: (one.file, one.line, one.column))),
        warnings=tuple(warning for one in written for warning in one.warnings),
    )


def _duplicates(ids: Iterable[Scalar]) -> list[Problem]:
    """Ids that are used twice, at the second place, naming the first; also of rules that have other mistakes."""
    first: dict[str, Scalar] = {}
    found: list[Problem] = []
    for one in ids:
        earlier = first.get(one.text)
        first.setdefault(one.text, one)
        if earlier is not None:
            there = earlier.document.problem(earlier.start, "")
            message = f"the id '{one.text}' is used already, in {there.file}:{there.line}:{there.column}"
            hint = "give one of the two another id; a new id is a new rule with a memory of its own"
            found.append(one.document.problem(one.start, message, hint=hint, code="duplicate"))
    return found


def _named(written: Sequence[Written], ids: Sequence[str]) -> Iterator[Problem]:
    """What is wrong with the rules that others name. ``ids``: also of those with mistakes."""
    rules = {one.rule.id: one.rule for one in written}
    for one in written:
        rule, form = one.rule, Form()
        others = [other for other in ids if other != rule.id]
        undone: set[str] = set()
        if rule.after is not None:
            _followed(form, place_of(one.entries, ("after",)), rule, rules, others)
        for number, step in enumerate(rule.do):
            if step.action == WAIT:
                undone.clear()  # what has fired since may be put back as well
            elif step.action == UNDO:
                place, named = place_of(one.entries, ("do", number, UNDO)), str(step.params["value"])
                _undone(form, place, rule, named, rules, others)
                if named in undone:
                    form.note(place, f"'{named}' is put back already", hint="leave one of the two out", code="rule")
                undone.add(named)
        yield from form.errors


def _followed(form: Form, place: Value, rule: Rule, rules: Mapping[RuleId, Rule], others: Sequence[str]) -> None:
    """What is wrong with the rule that another one comes after."""
    way, first = [rule.id], rules.get(cast("RuleId", rule.after))
    while (following := rules[way[-1]].after if way[-1] in rules else None) is not None and following not in way:
        way.append(following)
    if rule.after == rule.id:
        form.note(place, "a rule does not come after itself", hint=_IN_STEPS, code="rule")
    elif rule.after not in others:
        _unknown_rule(form, place, str(rule.after), others)
    elif following == rule.id:
        hint = "leave `after` out of one of them"
        form.note(place, f"these come after each other: {' -> '.join((*way, rule.id))}", hint=hint, code="rule")
    elif first is not None and not any(ACTIONS[step.action].target or step.action == UNDO for step in first.do):
        said = f"rule '{rule.after}' writes nothing that another could come after"
        form.note(place, said, hint="name a rule that writes to the service", code="rule")


def _undone(
    form: Form, place: Value, rule: Rule, named: str, rules: Mapping[RuleId, Rule], others: Sequence[str]
) -> None:
    """What is wrong with the rule whose writes another one puts back."""
    if named == AFTER and rule.after is None:
        hint = "add `after: RULE`, or name the rule: undo: RULE"
        form.note(place, "'undo: after' is of the rule that this one comes after", hint=hint, code="rule")
        return
    other = RuleId(str(rule.after) if named == AFTER else named)
    undone = rules.get(other)
    if other == rule.id:
        form.note(place, "a rule does not undo itself", hint=_IN_STEPS, code="rule")
    elif named != AFTER and other not in others:
        _unknown_rule(form, place, other, others)
    elif undone is not None:
        does = [step.action for step in undone.do if ACTIONS[step.action].target or step.action == UNDO]
        lasting = {action: why for action in does if (why := ACTIONS[action].for_good)}
        said, hint = f"'{other}' writes nothing that could be put back", "name a rule that writes to the service"
        if lasting:
            said = f"'{other}' cannot be undone: {'; '.join(f'{action}: {why}' for action, why in lasting.items())}"
            hint = "give what can be put back a rule of its own, and undo that one"
        elif undone.repeat == "enforce":
            said, hint = f"'{other}' enforces its value, and would set it again", "leave `repeat` out of it"
        if lasting or not does or undone.repeat == "enforce":
            form.note(place, f"rule {said}", hint=hint, code="rule")


def _unknown_rule(form: Form, place: Value, named: str, others: Sequence[str]) -> None:
    hint = instead(named, others)
    if _TIME.fullmatch(named):
        hint = "a time between two steps is a step: do: [pause, {wait: 2d}, run]; `for` is how long it has held"
    form.note(place, f"there is no rule '{named}'{meant(named, others)}", hint=hint, code="rule")


_IN_STEPS = "write what is to follow as a step after a wait: do: [pause, {wait: 2d}, run]"


class _RuleReader:
    """From one rule's text to the rule. ``item``: the rule as it is written; in the text, what is wrong is left out."""

    def __init__(self, text: RuleText, item: Entries, form: Form, registry: Registry, defined: Defined) -> None:
        self.form = form
        self._text = text
        self._item = item
        self._registry = registry
        self._watches = self._watched()
        given = item.get("on_change")
        read = len(text.on_change or ()) == (len(given.items) if isinstance(given, Items) else given is not None)
        watches = self._watches if read else None
        self._expressions = Expressions(form, registry, watches, defined, after=text.after is not None)

    def read(self) -> Written:
        """The rule; what is wrong is noted in the form."""
        text, item = self._text, self._item
        self._complete()
        when = self._expressions.condition(text.when)
        steps = self._steps()
        rule = Rule(
            id=RuleId(text.id or ""),
            file=item.document.file,
            line=item.document.line_of(item.start),
            description=text.description or "",
            when=when,
            on_change=self._watches,
            hold_for=text.hold_for,
            at=CronTimes(source=text.at, timezone=text.timezone or "UTC") if text.at is not None else None,
            between=text.between.hours_of() if text.between is not None else None,
            repeat=text.repeat or "once",
            cooldown=text.cooldown,
            per_event_per_day=text.limit.per_event_per_day if text.limit is not None else None,
            per_rule_per_day=text.limit.per_rule_per_day if text.limit is not None else None,
            spend=SpendLimits(**text.spend.model_dump()) if text.spend is not None else None,
            priority=text.priority or 0,
            partners=frozenset(map(PartnerId, text.partners)) if text.partners is not None else None,
            enabled=text.enabled is not False,
            mode=text.mode,
            surge=Surge(**text.surge.model_dump()) if text.surge is not None else None,
            after=None if text.after is None else RuleId(text.after),
            parameters=text.asked_with,
            do=steps,
            on_unknown=text.on_unknown or "settle",
            do_hash=_digest(*(self._expressions.put_in(_canonical(item.get(name))) for name in ("do", "with"))),
        )
        self._asked(rule)
        self._turning()
        self._paced(rule)
        rule = with_relative(rule, self.form, self._expressions, self._registry)
        return Written(rule=rule, entries=item, warnings=tuple(self.form.warnings))

    def _complete(self) -> None:
        """What a rule must have. What is misspelt is not missing as well."""
        known, given = RuleText.keys(), self._item.named.keys()
        meant = {OF_OTHER_TOOLS.get(name) or nearest(name, known) for name in given - known.keys()}
        for needed, message, hint in _NEEDED:
            if not needed & (given | meant):
                self.form.note(self._item, message, hint=hint, code="missing")

    def _watched(self) -> tuple[Watch, ...]:
        found: dict[str, Watch] = {}
        for number, one in enumerate(self._text.on_change or ()):
            if one.fact in found:
                place = place_of(self._item, ("on_change", number))
                both = ", ".join(dict.fromkeys((*found[one.fact].by, *(one.by or ()))))
                hint = f"compare several fields at once: by: [{both}]" if both else "remove one of the two"
                self.form.note(place, f"'{one.fact}' is watched twice", hint=hint)
            found[one.fact] = Watch(
                fact=one.fact,
                by=one.by or () if one.fact not in found else (),
                before=one.before or (),
                after=one.after or (),
                costly=self._registry.facts[one.fact].per_event_request,
            )
        return tuple(found.values())

    def _turning(self) -> None:
        """Values of ``from`` and ``to`` that the document does not know."""
        for one in self._text.on_change or ():
            field = one.field_of(self._registry.facts[one.fact].type)
            name = ".".join((one.fact, *(one.by or ())))
            for key, values in (("from", one.before), ("to", one.after)):
                for place, value in enumerate(values or ()):
                    unknown = field is not None and field.values and value not in (*field.values, None)
                    said = remedies.other_value(name, field, str(value)) if unknown and field else None
                    if said is not None:
                        self.form.warn(place_of(one.entries, (key, place)), said[0], hint=said[1], code="set")

    def _asked(self, rule: Rule) -> None:
        """Parameters that no fact can tell must stand in the rule."""
        given = self._item.get("with")
        written = given.named if isinstance(given, Entries) else {}  # also where what is written is wrong
        for name in sorted(rule.names):
            takes = self._registry.facts[name].takes if name in self._registry.facts else ()
            for lacking in sorted(WITHOUT_DEFAULT.intersection(takes) - written.keys()):
                said = f"{name} is asked with {lacking}, which the rule must give"
                hint = f"with: {{{lacking}: …}}; {WithText.keys()[lacking].description}"
                self.form.note(self._item, said, hint=hint, code="missing")

    def _paced(self, rule: Rule) -> None:
        """When a rule may fire: which keys go with which."""
        enforced = rule.repeat == "enforce"
        if enforced and rule.on_change:
            hint = "leave `repeat` out: each change is a firing of its own"
            self._note("repeat", "enforce goes with a condition, not with on_change", hint)
        if enforced and rule.at is not None:
            hint = "leave `repeat` out: each time is a firing of its own"
            self._note("repeat", "enforce looks all the time, and `at` only at its times", hint)
        if enforced and rule.cooldown is not None and rule.cooldown < ENFORCE_COOLDOWN_MIN:
            self._note("cooldown", "with repeat: enforce the cooldown is 1m or more", "write cooldown: 1m")
        if enforced and rule.do and all(ACTIONS[step.action].message for step in rule.do):
            hint = "leave `repeat` out, and say it again while the condition holds: notify: {text: …, remind: 1h}"
            self._note("repeat", "enforce restores a value, and a message leaves none to be looked at", hint)
        if rule.do and rule.do[-1].action == WAIT:
            hint = "write what is to follow after it, or leave it out; `for` is how long the condition must have held"
            self._note("do", "nothing follows the wait", hint)
        if enforced and any(step.action == WAIT for step in rule.do):
            self._note("repeat", "enforce restores a value at once, and does not wait", "leave `repeat` out")
        if enforced and any(step.action == UNDO for step in rule.do):
            self._note("repeat", "enforce restores a value of its own, and undoes none", "leave `repeat` out")
        if self._text.timezone is not None and self._item.get("at") is None:
            self._note("timezone", "timezone goes with `at`", "remove it, or add at: '0 8 * * *'")

    def _note(self, key: str, message: str, hint: str) -> None:
        self.form.note(place_of(self._item, (key,)), message, hint=hint)

    # actions

    def _steps(self) -> tuple[RuleStep, ...]:
        """The actions. Of those with mistakes, what is computed is looked at all the same."""
        kept = {step.place.start for step in self._text.do or ()}
        whole = self._item.get("do")
        for one in whole.items if isinstance(whole, Items) else ():
            if isinstance(one, Entries) and kept.isdisjoint(part.start for part in one.parts):
                for value in filter(is_computed, _scalars_in(one)):
                    self._expressions.computed(value, each=ADDED)
        return tuple(self._step(step) for step in self._text.do or ())

    def _step(self, step: StepText) -> RuleStep:
        """One action, with what is computed in it compiled."""
        each = self._each(step)
        params = {name: self._param(step, name, value) for name, value in step.params.items()}
        doubt = doubt_of_call(params, step.params["host"]) if step.action.shown == "confirm" else None
        if doubt is not None:
            self.form.warn(step.place, f"'{step.action.name}': {doubt[0]}", hint=doubt[1], code="path")
        ended = None if step.ended is None else self._template(step.ended)
        self._said_later(step)
        return RuleStep(
            action=step.action.name,
            params=params,
            each="" if step.each is None else step.each.of,
            where=each,
            remind=step.remind,
            ended=ended,
        )

    def _each(self, step: StepText) -> Expression | None:
        """What ``each`` goes through, and which items of it."""
        each, at = step.each, step.each_at
        if each is None or at is None:
            return None
        if each.of == ADDED and not self._expressions.list_watched:
            hint = "add on_change: suggested_tcs, write each: campaigns, or name tc and tc_run_id"
            self.form.note(at, f"'each: {ADDED}' goes with on_change of a list", hint=hint)
        if step.action.creates and each.of == step.action.own_fact:
            hint = "write each: clusters, or each: added"
            self.form.note(at, f"'{step.action.name}' makes what is not among the {each.of}", hint=hint)
        return None if each.where is None else self._expressions.checked(each.where, each=each.of)

    def _said_later(self, step: StepText) -> None:
        """What is said again, or at the end, needs a condition that goes on."""
        for key, given in (("remind", step.remind), ("ended", step.ended)):
            if given is not None and (self._watches or self._text.at is not None):
                other = "on_change" if self._watches else "at"
                hint = f"leave {key} out, or ask for it in a rule of its own, which has only `when`"
                message = f"'{key}' goes with a condition that lasts, not with {other}"
                self.form.note(step.places.get(key, step.place), message, hint=hint)

    def _param(self, step: StepText, name: str, value: Tree) -> Template:
        what = step.action.name if step.action.bare is not None else f"{step.action.name}.{name}"
        place, param = step.places.get(name, step.place), step.action.params.get(name)
        kinds = () if param is None else _KINDS.get(param.type, ())
        found = self._template(value, each="" if step.each is None else step.each.of, kinds=kinds)
        if param is not None and param.type == "string":
            self._warn_of_braces(place, what)
        if (text := uncounted({name: found})) is not None:
            message = f"{what}: {text!r} is money, and cannot be counted"
            hint = "write the number without separators and currency, as in 1500 or 1500.5"
            at = next((one for one in _scalars_in(place) if one.text == text), place)
            self.form.note(at, message, hint=hint)
        elif (param is None or param.type in _OF_ANY) and not any(computed_in(found)):
            fault = fault_of(name, param or _UNNAMED, cast("Json", found))
            if fault:
                self.form.note(place, f"{what} {fault}", hint="write a number that a request can carry")
        return found

    def _template(self, value: Tree, *, each: str = "", kinds: Sequence[Kind] = ()) -> Template:
        if isinstance(value, ConfirmText):
            when = self._expressions.checked(value.when, names=RESPONSE)
            found: dict[str, Template] = {"get": value.get, "when": "" if when is None else when.source}
            return found
        if is_computed(value):
            return self._expressions.computed(value, each=each, kinds=kinds)
        if isinstance(value, Entries):
            return {key: self._template(part, each=each) for key, (_, part) in value.named.items()}
        if isinstance(value, Items | list | tuple):
            return [self._template(part, each=each) for part in (value.items if isinstance(value, Items) else value)]
        plain: Json = value.json if isinstance(value, Scalar) else value
        return value.total_seconds() if isinstance(value, timedelta) else plain

    def _warn_of_braces(self, value: Value, what: str) -> None:
        """Other tools fill in what stands in braces."""
        found = _IN_BRACES.search(value.text) if isinstance(value, Scalar) and not is_computed(value) else None
        if found is not None and is_fact(found[1].partition(".")[0], self._registry):
            message = f"{what}: {found[0]} stays as it stands; nothing is filled in"
            hint = f"compute the text, as in \"='Now: ' + string({found[1]})\""
            self.form.warn(value, message, hint=hint, code="value")


_NEEDED = (
    ({"id"}, "a rule needs `id`", "give it a name of its own: id: pause-cancelled"),
    (
        {"when", "on_change"},
        "a rule needs `when`, `on_change` or both",
        "say for which events: when: event.status == 'cancelled'; with `after`, when: now - write.at > duration('2d')",
    ),
    ({"do"}, "a rule needs `do`", "say what to do: do: [pause]"),
)
_UNNAMED = Param(type="any", about="what the document does not name")
_KINDS: Mapping[ParamType, tuple[Kind, ...]] = {
    **dict.fromkeys(("string", *WORDS), ("string", "timestamp", "duration", "null")),
    **dict.fromkeys(("eids", "texts"), ("list", "null")),
    "number": ("double", "int", "null"),
}
"""What a computed value must be, where its parameter says so."""
_OF_ANY: frozenset[ParamType] = frozenset({"any", "body", "query"})
"""Parameters of any form, which are judged as a whole."""


def _scalars_in(value: Value) -> Iterator[Scalar]:
    if isinstance(value, Scalar):
        yield value
    for part in () if isinstance(value, Scalar) else value.parts:
        yield from _scalars_in(part)


def _canonical(value: Value | None) -> str:
    return "" if value is None else json.dumps(value.json, sort_keys=True, ensure_ascii=False)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


# the files of a folder


def read_files(path: Path) -> Mapping[str, str]:
    """The text of each rule file by its name. Raises `InputErrors` for what cannot be read."""
    texts, unreadable = texts_of(path)
    if unreadable:
        raise InputErrors(unreadable)
    return texts


def files_hash(path: Path) -> str:
    """The hash that a rule set of what is on disk now would have; where it cannot be read, one of the trouble, so that
    whoever compares hashes sees a change and asks for the whole."""
    texts, unreadable = texts_of(path)
    return UNREADABLE + _digest(*map(str, unreadable)) if unreadable else hash_of(texts)


def texts_of(path: Path) -> tuple[Mapping[str, str], tuple[Problem, ...]]:
    """The texts that can be read, and why others cannot."""
    found = list(walked(path))
    problems = [one for one in found if isinstance(one, Problem)]
    files = [one for one in found if isinstance(one, Path)]
    if len(files) > FILES_MAX:
        hint = "join some of them, or name a folder below it"
        problems.append(_problem(path, f"more than {FILES_MAX} rule files", hint))
        files.clear()
    texts: dict[str, str] = {}
    left = FOLDER_BYTES_MAX
    for file in files:
        try:
            with file.open("rb") as opened:
                raw = opened.read(FILE_BYTES_MAX + 1)
            if len(raw) > FILE_BYTES_MAX:
                problems.append(_problem(file, f"larger than {FILE_BYTES_MAX} bytes", "split it"))
            elif (left := left - len(raw)) < 0:
                message = f"the files together are larger than {FOLDER_BYTES_MAX} bytes"
                problems.append(_problem(path, message, "take out what is no rule"))
                break
            elif not raw.strip():
                problems.append(Problem(file=str(file), message="is empty", hint=EMPTY_HINT, code="empty"))
            else:
                texts[str(file)] = raw.decode("utf-8-sig")
        except OSError as error:
            problems.append(_cannot_be_read(file, error))
        except UnicodeDecodeError as error:
            problems.append(not_utf8(file, error))
    return texts, tuple(problems)


def tests_below(folder: Path) -> list[Path]:
    """The folders of tests among rules, at any depth."""
    return sorted(one for one in folder.rglob(TESTS) if one.is_dir())


def walked(path: Path, endings: tuple[str, ...] = ENDINGS) -> Iterator[Path | Problem]:
    """The files under a path, which may be a single file of any name, and what could not be looked at. Names that begin
    with a dot do not count, nor does what stands in a folder ``tests`` below the path. Raises nothing."""
    try:
        found = path.stat()
    except OSError as error:
        yield _missing(path, error)
        return
    if stat.S_ISDIR(found.st_mode):
        yield from _below(path, (found,), path, endings)
    else:
        yield path


def _below(
    folder: Path, above: tuple[os.stat_result, ...], root: Path, endings: tuple[str, ...]
) -> Iterator[Path | Problem]:
    """The same of a folder. ``above``: it and the folders that it stands in."""
    if folder.suffix in endings:
        hint = "put the file in its place (a mount of a file that is not there leaves a folder), or name it otherwise"
        yield _problem(folder, "is a folder, and named like a file of rules", hint)
        return
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - an iteration of paths is not sorted
    except OSError as error:
        yield _cannot_be_read(folder, error)
        return
    for path in (folder / name for name in names if not name.startswith(".")):
        try:
            found = path.stat()
        except OSError as error:
            if path.suffix in ("", *endings):  # what has another ending is no rule file, wherever it leads
                yield _leads_nowhere(path) if path.is_symlink() else _cannot_be_read(path, error)
            continue
        is_folder, is_rules = stat.S_ISDIR(found.st_mode), path.suffix in endings
        if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
            if is_folder or is_rules:
                hint = "put the file itself here; a link may lead to what stands in this folder, and nowhere else"
                yield _problem(path, "is a link that leads out of the folder", hint)
        elif is_folder and any(os.path.samestat(found, one) for one in above):
            hint = "remove the link: what it leads to is read already"
            yield _problem(path, "leads back to a folder that it stands in", hint)
        elif is_folder and path.name != TESTS:
            yield from _below(path, (*above, found), root, endings)
        elif is_rules and not is_folder:
            is_file = stat.S_ISREG(found.st_mode)
            yield path if is_file else _problem(path, "is no file that can be read", "put a file of rules in its place")


def _missing(path: Path, error: OSError) -> Problem:
    if os.path.islink(path):  # noqa: PTH114 - Path.is_symlink raises for a name that is too long
        return _leads_nowhere(path)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        hint = "name one that is there: on the command line, or for the rules under `rules` in the config"
        return _problem(path, "there is no such file or folder", hint)
    return _cannot_be_read(path, error)


def _leads_nowhere(path: Path) -> Problem:
    return _problem(path, "is a link that leads nowhere", "put back what it leads to, or remove it")


def _problem(path: Path, message: str, hint: str) -> Problem:
    return Problem(file=str(path), message=message, hint=hint, code="file")


def _cannot_be_read(path: Path, error: OSError) -> Problem:
    return _problem(path, f"cannot be read: {error.strerror}", "let the user who runs the worker read it")


def hash_of(texts: Mapping[str, str]) -> str:
    """A hash of names and texts; the folder they share is no part of it, so that a copy elsewhere has the same."""
    names = sorted(texts)
    shared = max(names[0].rfind("/"), 0) if names else 0
    while shared and any(name[:shared] != names[0][:shared] for name in names):
        shared -= 1
    digest = hashlib.sha256()
    for name in names:
        for part in (name[shared:].lstrip("/"), texts[name]):
            raw = part.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()
