"""One parameter of an action, by its type in the table of actions: what is written, checked at its place.

A value that begins with ``=``, at any depth, is computed when the rule fires, except where it decides what the write is
about: that must be known when the rule is read.
"""

import re
from collections.abc import Mapping
from typing import cast

from worker.model.actions import WORDS, Action, Param, ParamType
from worker.model.facts import Json
from worker.model.rules import Template, computed_in
from worker.model.values import fault_of, uncounted
from worker.rules.calls import HOSTS, read_get, read_method, read_path, read_text_tree
from worker.rules.expressions import Expressions
from worker.rules.fields import Form, present
from worker.rules.yaml import Entries, Items, Scalar, Value

FIXED: frozenset[ParamType] = frozenset({"host", "method", "path", "flag", "confirm"})
"""Parameters that are never computed."""
_TAKE_NO_PATH: frozenset[ParamType] = frozenset({"number", "integer", *WORDS})
"""Parameters of which no value looks like a field of a fact."""
_OF_ANY: frozenset[ParamType] = frozenset({"any", "body", "query"})
"""Parameters of any form, which are judged as a whole."""
_PATH = re.compile(r"[a-z_]+(\.[a-z_]+)+\b")
_IN_BRACES = re.compile(r"\{+\s*([a-z_]+(?:\.[a-z_]+)+)\s*\}+")


class ParamReader:
    """Reads the parameters of one action. ``item``: its values may speak of the item that a write is for."""

    def __init__(self, action: Action, form: Form, expressions: Expressions, *, item: bool = False) -> None:
        self._action = action
        self._form = form
        self._expressions = expressions
        self._item = item

    def values(self, given: Mapping[str, tuple[Param, Value]]) -> dict[str, Template]:
        """The parameters by name; one that is wrong is noted and left out."""
        found: dict[str, Template] = {}
        for name, (param, value) in given.items():
            what = self._action.name if self._action.shape == "value" else f"{self._action.name}.{name}"
            if _is_computed(value) and param.type in FIXED:
                hint = "it decides what the write is about, which must be known when the rule is read"
                self._form.note(value, f"{what} cannot be computed", hint=hint)
            elif _is_computed(value):
                computed = self._tree(value)
                if computed is not None:
                    found[name] = computed
            elif param.type in _TAKE_NO_PATH and (path := self._path(value)):
                message = f"{what} is given the words '{path}', and not the value of that fact"
                self._form.note(value, message, hint=f'write "={path}": what begins with = is computed')
            else:
                read = self._plain(param, value, what)
                free = param.type in _OF_ANY and not any(computed_in(read))
                if (text := uncounted({name: read})) is not None:
                    message = f"{what}: {text!r} is money, and cannot be counted"
                    hint = "write the number without separators and currency, as in 1500 or 1500.5"
                    self._form.note(_place_of(text, value), message, hint=hint)
                elif free and (fault := fault_of(name, param, cast("Json", read))):
                    self._form.note(value, f"{what} {fault}", hint="write a number that a request can carry")
                elif read is not None or param.type == "any":
                    found[name] = read
        return found

    def _plain(self, param: Param, value: Value, what: str) -> Template:
        if param.type in WORDS:
            return self._form.word(value, what, WORDS[param.type])
        match param.type:
            case "number":
                return self._form.number(value, what)
            case "integer":
                return self._form.whole(value, what)
            case "string":
                self._warn_of_braces(value, what)
                return self._form.text(value, what)
            case "eids" | "texts":
                return self._texts(
                    value, what, ("event ids", "an event") if param.type == "eids" else ("texts", "an item")
                )
            case "any":
                return self._tree(value)
            case _:
                return self._of_call(param.type, value, what)

    def _path(self, value: Value) -> str:
        """The text of a value that looks like a field of a fact; empty if it does not."""
        text = value.text if isinstance(value, Scalar) else ""
        return text if _PATH.match(text) and self._expressions.knows(text.partition(".")[0]) else ""

    def _warn_of_braces(self, value: Value, what: str) -> None:
        """Other tools fill in what stands in braces."""
        found = _IN_BRACES.search(value.text) if isinstance(value, Scalar) else None
        if found is not None and self._expressions.knows(found[1].partition(".")[0]):
            message = f"{what}: {found[0]} stays as it stands; nothing is filled in"
            hint = f"compute the text, as in \"='Now: ' + string({found[1]})\""
            self._expressions.warn(value, message, hint=hint, code="value")

    def _of_call(self, kind: ParamType, value: Value, what: str) -> Template:
        """A part of a request that is made by hand."""
        form = self._form
        match kind:
            case "host":
                return form.word(value, what, tuple(HOSTS))
            case "method":
                return read_method(value, what, form)
            case "path":
                return read_path(value, what, form)
            case "flag":
                return form.flag(value, what)
            case "confirm":
                return self._confirm(value, what)
            case "query" if not isinstance(value, Entries):
                form.note(value, f"{what} must be a mapping of names to values", hint=f"write {what}: {{name: value}}")
                return None
            case _:
                return self._tree(value) if read_text_tree(value, what, form) else None

    def _confirm(self, value: Value, what: str) -> Template:
        """What to GET, and the condition on its answer. The condition is kept as text: it goes with the write."""
        entries = self._form.mapping(value, what, ("get", "when"), required=("get", "when"))
        given = present(entries) if entries is not None else {}
        get = read_get(given["get"], f"{what}.get", self._form) if "get" in given else None
        when = given.get("when")
        if when is not None and not isinstance(when, Scalar):
            self._form.note(when, f"{what}.when must be a condition in one text", hint="quote it")
            return None
        found = self._expressions.of_response(when) if when is not None else None
        if get is None or found is None:
            return None
        read: dict[str, Template] = {"get": get, "when": found.source}
        return read

    def _texts(self, value: Value, what: str, of: tuple[str, str]) -> Template:
        """A list of events, or of other texts; a number is an id too."""
        if not isinstance(value, Items) or not value.items:
            self._form.note(value, f"{what} must be a list of {of[0]}", hint=f"as in {self._action.example}")
            return None
        return [
            self._tree(item) if _is_computed(item) else self._form.text(item, f"{of[1]} of {what}")
            for item in value.items
        ]

    def _tree(self, value: Value) -> Template:
        """Any value, with what is computed in it compiled."""
        if isinstance(value, Items):
            return [self._tree(item) for item in value.items]
        if isinstance(value, Entries):
            return {key.text: self._tree(part) for key, part in value.entries}
        return self._expressions.computed(value, item=self._item) if _is_computed(value) else value.json


def _place_of(text: str, value: Value) -> Value:
    """Where in a value a text stands; the value itself where it is not found."""
    if isinstance(value, Scalar):
        return value
    parts = value.items if isinstance(value, Items) else tuple(part for _, part in value.entries)
    places = (_place_of(text, part) for part in parts)
    return next((one for one in places if isinstance(one, Scalar) and one.text == text), value)


def _is_computed(value: Value) -> bool:
    return isinstance(value, Scalar) and value.text.startswith("=")
