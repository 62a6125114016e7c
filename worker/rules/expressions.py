"""CEL inside a rule file: compiled, checked, and every finding at its line and column in the file."""

import json
import re
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from posixpath import normpath
from typing import TypeAlias, cast
from urllib.parse import unquote

from worker.model.actions import ACTIONS
from worker.model.facts import Json
from worker.model.rules import Rule, RuleStep, Watch
from worker.rules.binding import Form
from worker.rules.cel import (
    DEPTH_MAX,
    NAME,
    RECORDED,
    SINCE,
    THEN,
    WITH_NAMES_MAX,
    WRITE,
    BadSyntax,
    Node,
    Path,
    fields_in,
    free_idents,
    names_of,
    parse,
    path_of,
    walk,
)
from worker.rules.check import by_zero, check_condition, nonzero, type_of
from worker.rules.evaluate import Expression, expression_of
from worker.rules.facts import BY_DEFAULT
from worker.rules.functions import FUNCTIONS, MACRO_ABOUT
from worker.rules.registry import ADDED, ANY, BUILT_IN, CHANGE, DOUBLE, ITEM, WORDS, Kind, Registry, Type
from worker.rules.yaml import Entries, Items, Scalar, Value

RESPONSE: Mapping[str, Type] = {"response": ANY}
"""What a condition on an answer can name: the document does not show most of them, so it may be anything."""
_ONLY_RESPONSE = "here only `response` is known: what the GET beside it answers"


# --- what `define` says: names that stand for conditions, numbers, texts and lists, in every file of the folder ---
# A name is put in as it is written, before anything is evaluated: so all that reads a condition (what it costs, whether
# it can become true, why it is so, whether it was edited) sees what it says, and knows nothing of names.


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a name stands for: its text as a part of another, the facts that it names, its type, and its value where it
    is a number."""

    text: str
    names: frozenset[str]
    type: Type
    number: float = 0.0


Defined: TypeAlias = Mapping[str, Definition]


class Definitions:
    """Reads the names of all files, and what they stand for. ``form``: what is wrong with them."""

    def __init__(self, registry: Registry) -> None:
        self.form = Form()
        self.found: dict[str, Definition] = {}
        self._facts = names_in(registry, ())
        self._types = {name: known for name, known in self._facts.items() if name not in IN_SOME}
        self._written: dict[str, tuple[Scalar, Value]] = {}

    def take(self, entries: Entries) -> None:
        """The names of one file."""
        for name, (key, value) in entries.named.items():
            wrong = self._misnamed(name)
            if wrong is None:
                self._written[name] = key, value
            else:
                self.form.note(key, wrong[0], hint=wrong[1], code="define")

    def read(self) -> Defined:
        """All of them, each with those put in that it names itself."""
        for name in self._written:
            self._read(name, ())
        return self.found

    def _misnamed(self, name: str) -> tuple[str, str] | None:
        if name in self._written:
            there = self._written[name][0]
            place = there.document.problem(there.start, "")
            said = f"'{name}' is defined already, in {place.file}:{place.line}:{place.column}"
            return said, "give one of the two another name: a name is known in every file of the folder"
        if not NAME.fullmatch(name):
            plain = re.sub(r"\W+", "_", name, flags=re.ASCII).lstrip("_0123456789").rstrip("_") or "small"
            return f"'{name}' is no name that a condition can hold", f"write letters, digits and _: {plain}"
        what = "a fact" if name in self._facts else "a function" if name in {**FUNCTIONS, **MACRO_ABOUT} else ""
        if what or name in RESERVED:
            return f"'{name}' is {what or 'a word of its own'} already", f"give it another name, such as my_{name}"
        return None

    def _read(self, name: str, within: tuple[str, ...]) -> None:
        if name in self.found or name not in self._written:
            return
        if len(within) > DEPTH_MAX:
            raise BadSyntax(0, "too many names stand within each other", "write out what one of them means")
        key, value = self._written[name]
        if name in within:
            way = " -> ".join((*within[within.index(name) :], name))
            hint = "write out what one of them means"
            if within[-1:] == (name,):
                hint = f"a text has quotes of its own within those of the file: \"'{name}'\""
            self.form.note(key, f"'{name}' stands for itself: {way}", hint=hint)
            self.found[name] = _NOTHING_KNOWN
            return
        source = _source_of(value)
        if source is None:
            hint = f"write {name}: event.capacity < 300.0, a number, or a list such as [e17, e20]"
            self.form.note(value, f"{name} is a condition, a number, a text or a list of these", hint=hint)
            self.found[name] = _NOTHING_KNOWN
            return
        items = value.items if isinstance(value, Items) else ()
        if len({isinstance(one.json, str) for one in items if isinstance(one, Scalar)}) > 1:
            hint = "put each of them in quotes; an id is a text, also where it looks like a number"
            self.form.note(value, f"{name} is a list of texts and of others, which are never equal", hint=hint)
        self.found[name] = self._compiled(name, value, source, within)

    def _compiled(self, name: str, value: Value, source: str, within: tuple[str, ...]) -> Definition:
        at = value if isinstance(value, Scalar) and value.text.rstrip() == source else None
        try:
            if at is not None:
                _ask_for_comments(source, at, 0)
            tree = parse(source, WITH_NAMES_MAX)
            for node, _ in free_idents(tree):
                self._read(node.text, (*within, name))
            text = with_names(source, tree, self.found, self._written)
            whole = parse(text, WITH_NAMES_MAX)
        except BadSyntax as error:
            self.form.note(value, str(error), hint=error.hint, code="syntax", offset=error.offset if at else None)
            return _NOTHING_KNOWN
        types = {**self._types, **{name: one.type for name, one in self.found.items()}}
        for finding in check_condition(tree, types, boolean=False, whole=whole):
            local = any(node.text in IN_SOME and node.at == finding.offset for node in walk(tree))
            hint = "it exists in some rules only: write it there" if local else finding.hint
            self.form.note(value, finding.message, hint=hint, code=finding.code, offset=finding.offset if at else None)
        known = type_of(tree, types)
        number = float(tree.value) if known.kind in ("int", "double") and isinstance(tree.value, int | float) else 0.0
        alone = whole.kind in _UNBROKEN and not text.startswith("-") and _last_comment(text) is None
        return Definition(text=text if alone else _bracketed(text), names=names_of(whole), type=known, number=number)


def _bracketed(text: str) -> str:
    """As a part of another text, which a comment at its end does not swallow."""
    return f"({text})" if _last_comment(text) is None else f"({text}\n)"


def _last_comment(text: str) -> int | None:
    """Where a comment begins with which a text ends; None where it ends with none."""
    return next((one.start(1) for one in _COMMENTS.finditer(text) if one[1]), None)


def with_names(source: str, tree: Node, defined: Defined, written: Container[str]) -> str:
    """A text with what its names stand for in their places. ``written``: the names of all files. Raises `BadSyntax`
    where a macro's name means another, or is one of them."""
    for variable in (node.children[1] for node in walk(tree) if node.kind == "macro"):
        if variable.text in written:
            message = f"'{variable.text}' is a name under `define`, and here an item of the list"
            raise BadSyntax(variable.start, message, "give the items another name")
    parts, end = list[str](), 0
    for node, bound in free_idents(tree):
        meant = defined.get(node.text)
        if meant is None:
            continue
        hidden = sorted(meant.names & bound)
        if hidden:
            message = f"'{node.text}' is about {hidden[0]}, and here {hidden[0]} is an item of the list"
            raise BadSyntax(node.start, message, f"give the items another name than {hidden[0]}")
        parts += [source[end : node.start], meant.text]
        end = node.end
    return "".join((*parts, source[end:])) if parts else source


def with_items(text: str, of: str) -> str:
    """A text in which what an item was is looked for in what its list was, by the names of cluster and run."""
    parts, end = list[str](), 0
    for node in walk(parse(text, WITH_NAMES_MAX)):
        path = path_of(node.children[0]) if node.text in RECORDED and len(node.children) == 2 else None
        if path is None or path.name != ITEM or not path.fields:
            continue
        field = "".join(f"[{json.dumps(name)}]" for name in path.fields)
        window = text[node.children[1].start : node.end]
        same = f"{_THEN}.tc == {ITEM}.tc && {_THEN}.tc_run_id == {ITEM}.tc_run_id"
        then = f"ago({of}, {window}.filter({_THEN}, {same})[0]{field}"
        parts += [text[end : node.start], f"({ITEM}{field} - {then})" if node.text == "delta" else f"({then})"]
        end = node.end
    return "".join((*parts, text[end:]))


def _source_of(value: Value) -> str | None:
    """What a name stands for, as CEL; None where it is nothing that can be said so."""
    if isinstance(value, Scalar) and not value.is_null:
        plain = value.json
        return value.text.rstrip() if isinstance(plain, str) else _literal(plain)
    if isinstance(value, Items):
        found = [_literal(one.json) for one in value.items if isinstance(one, Scalar) and not one.is_null]
        return f"[{', '.join(found)}]" if len(found) == len(value.items) else None
    return None


def _literal(value: Json) -> str:
    """A number is a double: every number from the service is one."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(float(value))
    return json.dumps(value, ensure_ascii=False)


IN_SOME = CHANGE | {ITEM, WRITE}
"""Names that exist in some rules only."""
RESERVED = frozenset({"true", "false", "null", "in", "response"})
_STANDS = f"{WRITE} != null"
_THEN = "then"
_SWALLOWED = (
    "the lines are one here, so what follows // is all of it a comment, and is not asked",
    "write | in place of > before these lines, or take the comment out",
)
_COMMENTS = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|(//[^\n]*)\Z""")
_UNBROKEN = frozenset({"literal", "list", "ident", "select", "index", "call", "macro", "map"})
_NOTHING_KNOWN = Definition(text="[event][0]", names=frozenset({"event"}), type=ANY)


def _ask_for_comments(source: str, value: Scalar, skip: int) -> None:
    """Raises `BadSyntax` where a comment swallows what stands on further lines of the file."""
    begins = _last_comment(source)
    if begins is not None and "\n" in value.document.text[value.index_of(begins + skip) : value.end].rstrip():
        raise BadSyntax(begins, *_SWALLOWED)


class Expressions:
    """Compiles the conditions and computed values of one rule. ``watches``: None where they are wrong themselves; what
    a change tells may be anything then."""

    def __init__(
        self, form: Form, registry: Registry, watches: tuple[Watch, ...] | None, defined: Defined, *, after: bool
    ) -> None:
        self._form = form
        self._watches = watches
        self._after = after
        self._defined = defined
        of_changes = names_in(registry, watches) if watches is not None else dict.fromkeys((*CHANGE, ITEM), ANY)
        self._names = {**names_in(registry, ()), **of_changes, **{name: one.type for name, one in defined.items()}}
        self._nonzero: frozenset[str] = frozenset()
        self._places: list[tuple[Expression, Scalar]] = []
        self._meant: dict[str, str] = {}

    def condition(self, value: Scalar | None) -> Expression | None:
        """A ``when``, which with ``after`` is false where no write stands."""
        found = None if value is None else self.checked(value)
        if found is not None:
            self._nonzero = nonzero(found.tree)
        if not self._after or (found is None and value is not None):
            return found
        text = _STANDS if found is None else f"{_STANDS} && {_bracketed(found.source)}"
        return expression_of(text, parse(text, WITH_NAMES_MAX))

    @property
    def list_watched(self) -> bool:
        """Whether ``added`` has items: a watched fact is a list, or may be one."""
        return self._watches is None or any(self._names[one.fact].kind in ("list", "any") for one in self._watches)

    def computed(self, value: Scalar, *, each: str = "", kinds: Sequence[Kind] = ()) -> Expression | None:
        """A value that begins with ``=``. ``each``: what the action goes through; ``kinds``: what it must be."""
        found = self.checked(value, computed=True, each=each)
        if found is not None:
            self._places.append((found, value))
            kind = type_of(found.tree, self._names).kind
            if kinds and kind not in (*kinds, "any"):
                message = f"{WORDS[kinds[0]]} is needed, and this is {WORDS[kind]}: its write would be refused"
                hint = "string(…) makes a text of it" if kinds[0] == "string" else f"compute {WORDS[kinds[0]]}"
                self._form.warn(value, message, hint=hint, code="type")
        return found

    def place_of(self, found: Expression) -> Scalar:
        """Where a computed value stands."""
        return next(value for one, value in self._places if one is found)

    def checked(
        self, value: Scalar, *, computed: bool = False, each: str = "", names: Mapping[str, Type] | None = None
    ) -> Expression | None:
        """What is written, compiled, after everything that is wrong in it was noted: a condition, or what is
        ``computed``. ``each``: what the action goes through; ``names``: all there are, if not the rule's own."""
        skip = 1 if computed else 0
        source = value.text[skip:].rstrip()
        try:
            _ask_for_comments(source, value, skip)
            tree = whole = parse(source)
            defined = self._defined if names is None else {}
            text = named = with_names(source, tree, defined, defined)
            text = with_items(text, each) if each and each != ADDED else text
            if text != source:
                whole = parse(text, WITH_NAMES_MAX)
        except BadSyntax as error:
            cut = value.plain and value.document.text[value.end :].lstrip(" ").startswith("#")
            hint = "# behind a space begins a comment: put the whole value in double quotes" if cut else error.hint
            self._form.note(value, str(error), hint=hint, code="syntax", offset=error.offset + skip)
            return None
        before = len(self._form.errors)
        known = self._names if names is None else names
        if each and each != ADDED:
            known = {**known, ITEM: known[each].items or ANY}
        for finding in check_condition(tree, known, boolean=not computed, whole=None if whole is tree else whole):
            hint = finding.hint if names is None or finding.code != "fact" else _ONLY_RESPONSE
            place, kind = finding.offset + skip, finding.severity
            self._form.note(value, finding.message, hint=hint, code=finding.code, offset=place, severity=kind)
        if each == ADDED and any(name.startswith(f"{ITEM}{THEN}") for name in names_of(whole)):
            hint = "go through campaigns or clusters, which are recorded"
            self._form.note(value, "what an item was that was added now is not known", hint=hint, code="fact")
        self._warn_of_zero(source, tree, value, skip, each=each)
        here = {"on_change": self._watches != (), "each": bool(each), "after": self._after}
        for key, (misplaced, where, hint) in _ONLY_WITH.items():
            nodes = walk(tree) if not here[key] and names_of(tree) & misplaced else ()
            for node in (one for one in nodes if one.kind in ("ident", "call") and one.text in misplaced):
                said = f"'{node.text}' exists only in {where}"
                self._form.note(value, said, hint=hint, code="fact", offset=node.at + skip)
        if len(self._form.errors) > before:
            return None
        try:
            found = expression_of(text, whole)
        except BadSyntax as error:  # what a name stands for has no place in this function
            self._form.note(value, str(error), hint=error.hint, code="syntax")
            return None
        if named != source and (computed or each):
            self._meant[value.text] = value.text[:skip] + named
        return found

    def _warn_of_zero(self, source: str, tree: Node, value: Scalar, skip: int, *, each: str) -> None:
        """A division by what may be 0. Where a value is computed, ``when`` was true; where it is computed for each item
        that was added, some were."""
        safe = self._nonzero | ({f"call size {dot}({each})" for dot in ("", ".")} if each else frozenset[str]())
        safe |= {name for name, one in self._defined.items() if one.number}
        for divisor in by_zero(tree, safe):
            text = source[divisor.start : divisor.end]
            said, hint = f"{text} may be 0, and what is divided by 0 is unknown", f"ask first: {text} > 0.0 && …"
            if skip:
                hint = f"ask for it in `when`: {text} > 0.0 && …"
            self._form.warn(value, said, hint=hint, code="zero", offset=divisor.start + skip)

    def put_in(self, written: str) -> str:
        """What is written of actions, as JSON, with what names in it stand for: an edit of that is one of the rule, and
        another name for the same is none."""
        for value, meant in self._meant.items():
            said, says = (json.dumps(one, ensure_ascii=False) for one in (value, meant))
            written = written.replace(said, says)
        return written


_ONLY_WITH: Mapping[str, tuple[frozenset[str], str, str]] = {
    "on_change": (
        CHANGE,
        "a rule with on_change",
        "add `on_change: FACT`; it is about what that fact was before it changed",
    ),
    "each": (
        frozenset({ITEM}),
        "an action with `each`",
        "add each: campaigns, clusters or added; it is the item that the write is for",
    ),
    "after": (
        frozenset({WRITE, SINCE}),
        "a rule with after",
        "add `after: RULE`; it is about the last write of that rule on the event",
    ),
}
"""Names that mean nothing without a key: which, where they mean something, and the remedy."""


def names_in(registry: Registry, watches: tuple[Watch, ...]) -> Mapping[str, Type]:
    """The names of a rule and their types; what is remembered of a change has the compared fields only."""
    names = {name: fact.type for name, fact in registry.facts.items()}
    if watches:
        remembered = {watch.fact: _remembered(names.get(watch.fact, ANY), watch) for watch in watches}
        names["previous"] = Type(kind="object", fields=remembered, only=True)
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
    fields = {name: (record.fields or {}).get(name, ANY) for name in by}
    return replace(record, fields=fields, only=True) if record.kind == "object" else record


# --- relative values: computed from a field of the very target that the action writes, as setup.total_budget * 1.2 ---
# Each write of such a value is the ground of the next, so a rule that has one must say how often. Which fields were
# read is kept in the step: what was computed is sent only while the target still reads so (`worker.guards`).

COOLDOWN_MIN = timedelta(hours=1)
"""The least ``cooldown`` that is pace enough by itself."""
_PREVIOUS = "previous"
_FOUND_BY = frozenset({"tc", "tc_run_id"})
"""What a campaign is found by; no write changes it."""


def with_relative(rule: Rule, form: Form, expressions: Expressions, registry: Registry) -> Rule:
    """The rule with the fields of their own targets that its steps read; notes each value that could run away."""
    watched = "campaigns" in {watch.fact for watch in rule.on_change}
    steps = []
    for step in rule.do:
        items = frozenset({ITEM} if step.each == "campaigns" else {ITEM, ADDED} if watched else ())
        own = ACTIONS[step.action].own_fact
        read: set[str] = set()
        for value in cast("tuple[Expression, ...]", step.computed) if own else ():
            fields = {path: _own_fields(step, value, path, own, items) for path in value.paths}
            read = read.union(*fields.values())
            wrong = _wrong(rule, fields, own, registry)
            if wrong is not None:
                name, message, hint = wrong
                place = expressions.place_of(value)
                written = walk(parse(place.text[1:]))
                start = next((node.start for node in written if (node.kind, node.text) == ("ident", name)), 0)
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
    return (fields or fields_in(value.tree) | step.params.keys()) - _FOUND_BY


def _as_now(path: Path, own: str) -> Path:
    """What was remembered of a fact is as good a ground as the fact: ``previous.setup`` is ``setup``. The whole of
    ``previous`` has the target in it."""
    if path.name != _PREVIOUS:
        return path
    name, *fields = path.fields or (own,)
    return Path(name=name, fields=tuple(fields))


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
    if rule.paced or (rule.cooldown is not None and rule.cooldown >= COOLDOWN_MIN):
        return None
    return f"{message}, and nothing says how often", _HOW_OFTEN


_HOW_OFTEN = (
    "add at: '0 8 * * *', limit: {per_event_per_day: 1} or a cooldown of 1h or more; or write a value that does not "
    'depend on what is written, as in total_budget: 500 or "=defaults.total_budget * 1.2"'
)
