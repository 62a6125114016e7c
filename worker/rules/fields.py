"""Reading typed values out of positioned YAML: each complaint with its place, and all of them at once.

A reader never raises for a wrong value: it notes the problem and gives None, so that one run shows every mistake. What
a key means is its caller's business.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta

from worker.model.errors import Problem
from worker.model.findings import Code
from worker.rules.durations import duration_meant, duration_text, parse_duration
from worker.rules.nearest import instead, meant, nearest
from worker.rules.yaml import Entries, Items, Scalar, Value

TEXT_LENGTH_MAX = 10_000


class Form:
    """Collects problems while values are read."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def note(
        self, value: Value, message: str, *, hint: str = "", code: Code = "value", offset: int | None = None
    ) -> None:
        """Notes an error at a value, or at a character inside its text."""
        index = value.start
        if offset is not None and isinstance(value, Scalar):
            index = value.index_of(offset)
        self.problems.append(value.document.problem(index, message, hint=hint, code=code))

    def text(self, value: Value, what: str) -> str | None:
        """A text that is not empty."""
        if not isinstance(value, Scalar) or value.is_null or not value.text.strip():
            self.note(value, f"{what} must be a text", hint=f"write {what}: and a text behind it")
            return None
        if len(value.text) > TEXT_LENGTH_MAX:
            self.note(value, f"{what} is longer than {TEXT_LENGTH_MAX} characters", hint="shorten it")
            return None
        return value.text

    def word(self, value: Value, what: str, allowed: Collection[str]) -> str | None:
        """One of a few words, taken as it is spelled: ``OFF`` is a word here."""
        if not isinstance(value, Scalar) or value.text not in allowed:
            spelled = f"'{value.text}'" if isinstance(value, Scalar) else "a list or mapping"
            tail = meant(value.text, allowed) if isinstance(value, Scalar) else ""
            near = nearest(value.text, allowed) if isinstance(value, Scalar) else None
            hint = f"write {near or ' or '.join(allowed)}"
            message = f"{what} is one of {', '.join(allowed)}, not {spelled}"
            self.note(value, message + (tail if near else ""), hint=hint)
            return None
        return value.text

    def duration(self, value: Value, what: str, least: timedelta = timedelta(milliseconds=1)) -> timedelta | None:
        """A duration with a unit."""
        if not isinstance(value, Scalar):
            self.note(value, f"{what} must be a duration", hint=f"write {what}: 10m")
            return None
        try:
            found = parse_duration(value.text)
        except ValueError as error:
            wrong = str(error).partition("; ")[0]
            self.note(value, f"{what}: {wrong}", hint=f"write {duration_meant(value.text)}")
            return None
        if found < least:
            self.note(value, f"{what}: '{value.text}' is too short", hint=f"write {duration_text(least)} or more")
            return None
        return found

    def whole(self, value: Value, what: str, least: int | None = None) -> int | None:
        """A whole number, perhaps with a least value."""
        found = value.integer if isinstance(value, Scalar) else None
        if found is None:
            hint = (
                f"write a number such as {least or 10}" if not isinstance(value, Items) else "write it without brackets"
            )
            self.note(value, f"{what} must be a whole number", hint=hint)
            return None
        if least is not None and found < least:
            self.note(value, f"{what} must be {least} or more, not {found}", hint=f"write {least} or more")
            return None
        return found

    def number(self, value: Value, what: str) -> float | None:
        """A number above zero."""
        found = value.number if isinstance(value, Scalar) else None
        if found is None or not 0 < found < float("inf"):
            said, hint = "", "write it in digits, such as 500 or 12.5"
            if isinstance(value, Scalar) and not value.plain and replace(value, plain=True).number is not None:
                said, hint = ", and this is a text", f"write {value.text} without quotes"
            self.note(value, f"{what} must be a number above 0{said}", hint=hint)
            return None
        return float(found)

    def flag(self, value: Value, what: str) -> bool | None:
        """True or false."""
        found = value.boolean if isinstance(value, Scalar) else None
        if found is None:
            self.note(value, f"{what} must be true or false", hint="write true or false")
        return found

    def texts(self, value: Value, what: str) -> tuple[str, ...] | None:
        """A list of texts, at least one."""
        if not isinstance(value, Items) or not value.items:
            item = value.text if isinstance(value, Scalar) and value.text else "…"
            self.note(value, f"{what} must be a list of texts", hint=f"write {what}: [{item}]")
            return None
        found = [self.text(item, f"an item of {what}") for item in value.items]
        whole = tuple(text for text in found if text is not None)
        return whole if len(whole) == len(found) else None

    def mapping(
        self, value: Value, what: str, known: Collection[str], required: Collection[str] = ()
    ) -> Entries | None:
        """A mapping with these keys and no others."""
        if not isinstance(value, Entries):
            digits = re.search(r"\d+", value.text) if isinstance(value, Scalar) and len(known) == 1 else None
            item = digits.group() if digits is not None else "…"
            hint = f"write {what}: {{{', '.join(f'{name}: {item}' for name in required or known)}}}"
            self.note(value, f"{what} must be a mapping with {', '.join(known)}", hint=hint)
            return None
        self.keys(value, what, known)
        for name in required:
            if value.get(name) is None:
                self.note(value, f"{what} lacks '{name}'", hint=f"add {name}: …", code="missing")
        return value

    def keys(self, value: Entries, what: str, known: Collection[str]) -> None:
        """Complains of every key that is not known."""
        for key, _ in value.entries:
            if key.text not in known:
                message = f"unknown key '{key.text}' in {what}{meant(key.text, known)}"
                self.note(key, message, hint=instead(key.text, known), code="key")


def present(entries: Entries) -> Mapping[str, Value]:
    """The keys that are given a value: ``key: null`` is as good as no key."""
    return {key.text: value for key, value in entries.entries if not (isinstance(value, Scalar) and value.is_null)}
