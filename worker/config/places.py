"""Where each key of a config stands, and pydantic's findings in our words at those places."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from worker.config.sections import ConfigText, SecretText
from worker.model.errors import Problem
from worker.model.facts import Json
from worker.rules.fields import present
from worker.rules.nearest import instead, meant, nearest
from worker.rules.yaml import Document, Entries, Items, Scalar, Value

Loc = Sequence[str | int]
SECRET_SECTIONS = frozenset({"api", "credentials", "notify", "ledger"})
"""Sections whose values are never shown: sign-ins, and addresses that may hold some."""
TOO_LARGE = 2**63
"""No whole number of a config reaches this."""


class Places:
    """The values of a file by their path of keys and numbers."""

    def __init__(self, document: Document, root: Entries | None) -> None:
        self._document = document
        self._root = root

    def value(self, loc: Loc) -> Value | None:
        """The value at a path, or the nearest one around it."""
        found: Value | None = self._root
        for part in loc:
            inner = _inside(found, part)
            if inner is None:
                return found
            found = inner
        return found

    def problem(self, loc: Loc, message: str, hint: str = "", *, key: bool = False) -> Problem:
        """A finding at a value, or at the key itself."""
        found = self.value(loc)
        if key and loc and isinstance(around := self.value(loc[:-1]), Entries):
            found = around.key(str(loc[-1])) or found
        if found is None:
            return Problem(file=self._document.file, message=message, hint=hint, code="config")
        problem = self._document.problem(found.start, message, hint=hint, code="config")
        return replace(problem, source=self._shown(loc, found, problem.column))

    def _shown(self, loc: Loc, found: Value, column: int) -> str:
        """The line up to the value, or the key, that a finding is about; nothing where a secret could stand in it.

        Values are shown only outside of the sections that hold secrets, and only behind their own key: a line of a
        config may hold anything.
        """
        begin = found.start - column + 1
        before = self._document.text[begin : found.start]
        if not isinstance(found, Scalar) or not found.plain or "\n" in found.text:
            return ""
        if not before.strip():
            return f"{before}{found.text}: …"
        behind_its_key = before.strip() == f"{loc[-1]}:" if loc else False
        return before + found.text if behind_its_key and loc[0] not in SECRET_SECTIONS else ""

    def written(self) -> frozenset[str]:
        """The dotted paths of all keys that are given a value; those inside ``assumptions`` are dotted themselves."""
        return frozenset(_paths(self._root, "")) if self._root is not None else frozenset()

    def text(self, loc: Loc) -> str:
        """How the value at a path is spelled; empty where it is no scalar."""
        found = self.value(loc)
        return found.text if isinstance(found, Scalar) else ""


def given(root: Entries) -> dict[str, Json]:
    """The values of a file. A key of the first level without a value is as good as no key: its default holds."""
    return {name: value.json for name, value in present(root).items()}


def pydantic_problem(places: Places, error: ErrorDetails) -> Problem:
    """One of pydantic's findings, at its place and in our words."""
    loc = _plain(error["loc"])
    dotted = ".".join(str(part) for part in loc)
    context: Mapping[str, Any] = error.get("ctx", {})
    around = ".".join(str(part) for part in loc[:-1]) or "the config"
    if error["type"] == "extra_forbidden":
        name = str(loc[-1])
        known = known_keys(loc[:-1])
        message = f"unknown key '{name}' in {around}{meant(name, known)}"
        return places.problem(loc, message, instead(name, known), key=True)
    if error["type"] == "missing":
        return places.problem(loc[:-1], f"{around} lacks '{loc[-1]}'")
    if error["type"] == "literal_error":
        return _word_problem(places, loc, str(context.get("expected", "")))
    if error["type"] == "value_error":
        return places.problem(loc, f"{dotted}: {context.get('error', error['msg'])}")
    if error["type"] in ("int_type", "int_from_float") and places.text(loc).removeprefix("-").isdigit():
        large = abs(int(places.text(loc))) >= TOO_LARGE
        return places.problem(
            loc, f"{dotted} is {'too large a number' if large else 'a text: write it without quotes'}"
        )
    words = {
        "model_type": "must be a mapping" + (f" with {', '.join(keys)}" if (keys := known_keys(loc)) else ""),
        "model_attributes_type": "must be a mapping",
        "dict_type": "must be a mapping",
        "tuple_type": "must be a list",
        "string_type": "must be a text",
        "string_too_short": "must not be empty",
        "int_type": "must be a whole number",
        "int_from_float": "must be a whole number",
        "float_type": "must be a number",
        "float_parsing": "must be a number",
        "too_short": "must not be empty",
        "string_pattern_mismatch": "must be HOST:PORT, such as 127.0.0.1:8080",
        "greater_than": f"must be more than {context.get('gt')}",
        "greater_than_equal": f"must be {context.get('ge')} or more",
        "less_than_equal": f"must be {context.get('le')} or less",
    }
    return places.problem(loc, f"{dotted} {words.get(error['type'], error['msg'].lower())}")


def known_keys(loc: Loc) -> tuple[str, ...]:
    """The keys of the section at a path, from the models."""
    model: Any = ConfigText
    for part in _without_names(loc):
        known = model.model_fields.get(part) if isinstance(model, type) and issubclass(model, BaseModel) else None
        model = _section(known.annotation) if known is not None else None
    return tuple(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else ()


def _without_names(loc: Loc) -> list[str]:
    """The keys that the models know: not the numbers of items, and not the names of facts and users."""
    return [
        part
        for index, part in enumerate(loc)
        if isinstance(part, str) and (index == 0 or loc[index - 1] not in ("facts", "users"))
    ]


def _section(annotation: Any) -> Any:  # noqa: ANN401 - annotations have no common type
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _section(argument)
        if found is not None:
            return found
    return None


def _word_problem(places: Places, loc: Loc, expected: str) -> Problem:
    allowed = [word.strip("' ") for word in expected.replace(" or ", ",").split(",")]
    spelled = places.text(loc)
    near = nearest(spelled, allowed)
    tail = f"; did you mean '{near}'?" if near else ""
    dotted = ".".join(str(part) for part in loc)
    return places.problem(loc, f"{dotted} is one of {', '.join(allowed)}, not '{spelled}'{tail}")


def _plain(loc: Loc) -> tuple[str | int, ...]:
    """The path without the names that pydantic gives to the branches of a union."""
    branches = {SecretText.__name__, "constrained-str", "str", "tuple[constrained-str, ...]"}
    return tuple(part for part in loc if not (isinstance(part, str) and (part in branches or "[" in part)))


def _inside(value: Value | None, part: str | int) -> Value | None:
    if isinstance(value, Entries):
        return value.get(str(part))
    if isinstance(value, Items) and isinstance(part, int) and part < len(value.items):
        return value.items[part]
    return None


def _paths(value: Value, prefix: str) -> list[str]:
    if not isinstance(value, Entries):
        empty = (isinstance(value, Scalar) and value.is_null) or (isinstance(value, Items) and not value.items)
        return [] if empty or not prefix else [prefix]
    found = [prefix] if prefix and value.entries else []
    for key, inner in value.entries:
        found.extend(_paths(inner, f"{prefix}.{key.text}" if prefix else key.text))
    return found
