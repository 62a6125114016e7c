"""What the service's document leaves open and the worker has to assume: one register of named keys with defaults.

A key that the operator writes into the config is a fact he vouches for; a default is a guess, and in live mode against
the real service no write may lean on one. So each key says where the document is silent, what depends on it, and
whether reading alone can confirm it: `check`, `probe`, `run` and the docs all speak from this table.

Nothing here reads the config file: it judges a mapping, and the caller adds file and line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType

from worker.api.register import TABLE, Assumption
from worker.api.shapes import objection
from worker.model.facts import Json

SETTLE = "safety.settle"
"""Not a key of the register, but vouched for in the same way: the latest that a write may still take effect."""

ASSUMPTIONS: Mapping[str, Assumption] = MappingProxyType({row.key: row for row in TABLE})

_APART: tuple[tuple[str, str], ...] = (("task.succeeded", "task.failed"), ("setup.draft", "setup.published"))
"""Lists that must have no word in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """What is wrong with one key of the config's ``assumptions``; the caller knows file and line."""

    key: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """The values in force, and the keys that the operator vouches for by having written them."""

    values: Mapping[str, Json] = field(
        default_factory=lambda: MappingProxyType({row.key: row.default for row in TABLE})
    )
    vouched: frozenset[str] = frozenset()

    def text(self, key: str) -> str:
        """The value of a key whose shape is a word."""
        return str(self.values[key])

    def words(self, key: str) -> tuple[str, ...]:
        """The value of a key whose shape is a list of words."""
        found = self.values[key]
        return tuple(str(word) for word in found) if isinstance(found, list) else ()

    def template(self, key: str) -> Mapping[str, str] | None:
        """The value of a key whose shape is a query template; None where a body is used instead."""
        found = self.values[key]
        return {name: str(text) for name, text in found.items()} if isinstance(found, dict) else None

    def denied_statuses(self) -> frozenset[int]:
        """Statuses that mean: not authorised, nothing done."""
        return frozenset(status for status in self._denied("status") if isinstance(status, int))

    def denied_codes(self) -> frozenset[str]:
        """Error codes that mean the same, wherever in the body they stand."""
        return frozenset(code for code in self._denied("codes") if isinstance(code, str))

    def toggles(self, field_name: str) -> bool:
        """Whether a write of this field flips it instead of setting it."""
        return self.flips(f"{field_name}.semantics")

    def flips(self, key: str) -> bool:
        """The same, by the key that says so."""
        return self.values[key] == "toggle"

    def unvouched(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the keys that nobody vouched for."""
        return tuple(key for key in keys if key not in self.vouched)

    def _denied(self, part: str) -> list[Json]:
        denied = self.values["auth.denied"]
        found = denied.get(part) if isinstance(denied, dict) else None
        return found if isinstance(found, list) else []


def assumptions_from(given: Mapping[str, Json]) -> tuple[Assumptions, tuple[Objection, ...]]:
    """The assumptions that a config's mapping makes, and everything that is wrong with it. Wrong keys keep defaults."""
    wrong: list[Objection] = []
    values = dict(Assumptions().values)
    vouched: set[str] = set()
    for key, value in given.items():
        row = ASSUMPTIONS.get(key)
        said = _unknown(key) if row is None else _objection(row, value)
        if said is not None or row is None:
            wrong.extend([said] if said is not None else [])
            continue
        values[key] = _whole(row, value)
        vouched.add(key)
    for row in TABLE:
        if row.instead in vouched and values[row.instead] is not None and row.key not in vouched:
            values[row.key] = None
            vouched.add(row.key)
    wrong.extend(_together(values))
    return Assumptions(values=MappingProxyType(values), vouched=frozenset(vouched)), tuple(wrong)


def vouched_keys(assumptions: Assumptions, written_in_safety: Mapping[str, Json]) -> frozenset[str]:
    """All that the operator vouches for, ``safety.settle`` included where the config's ``safety`` writes it."""
    return assumptions.vouched | ({SETTLE} if "settle" in written_in_safety else set())


def _unknown(key: str) -> Objection:
    close = get_close_matches(key, ASSUMPTIONS, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else "known: " + ", ".join(ASSUMPTIONS)
    return Objection(key=key, message=f"there is no assumption {key!r}", hint=hint)


def _objection(row: Assumption, value: Json) -> Objection | None:
    said = objection(row.shape, value)
    return None if said is None else Objection(key=row.key, message=f"{row.key}: {said}", hint=row.about)


def _whole(row: Assumption, value: Json) -> Json:
    """A mapping that leaves out a part keeps that part's default."""
    if row.shape == "denied" and isinstance(value, dict) and isinstance(row.default, dict):
        return {**row.default, **value}
    return value


def _together(values: Mapping[str, Json]) -> list[Objection]:
    """What is wrong with two keys that each are right."""
    wrong: list[Objection] = []
    found = Assumptions(values=values)
    for one, other in _APART:
        if both := set(found.words(one)) & set(found.words(other)):
            message = f"{', '.join(sorted(both))} stands in {one} and in {other}"
            wrong.append(Objection(key=one, message=message, hint="one word cannot mean both"))
    for name in ("client_campaign_status", "campaign_optimisation_status", "ad_campaign_optimisation_status"):
        if not found.toggles(name) and not _carries_value(found.values[f"{name}.query"]):
            key = f"{name}.query"
            hint = f"write {{value}} where the value goes, or {name}.semantics: toggle"
            wrong.append(Objection(key=key, message=f"{key}: does not carry {{value}}", hint=hint))
    key = "events.changed_since"
    if values[key] is not None and not _carries_value(values[key]):
        wrong.append(Objection(key=key, message=f"{key}: does not carry {{value}}", hint=ASSUMPTIONS[key].about))
    for name in ("frontend_status", "last_updated_on_fe"):
        if not _carries_value(found.values[f"{name}.query"]) and not _carries_value(found.values[f"{name}.body"]):
            message = f"{name}.query: neither it nor {name}.body carries {{value}}"
            wrong.append(Objection(key=f"{name}.query", message=message, hint="write {value} where the value goes"))
    return wrong


def _carries_value(template: Json) -> bool:
    match template:
        case str():
            return "{value}" in template
        case dict():
            return any(_carries_value(part) for part in template.values())
        case list():
            return any(_carries_value(part) for part in template)
        case _:
            return False
