"""The facts of a rule test: which names and fields there are, and what ``given`` and ``set`` say.

A field counts as known if the document names it or some rule does, as in ``event['x']``; any other is an error with the
nearest name, because a test with a misspelt field passes for the wrong reason.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from worker.model.actions import ACTIONS
from worker.model.facts import EventId, Json, parse_time
from worker.model.rules import Computed, RuleSet
from worker.rules.evaluate import Expression
from worker.rules.fields import Form
from worker.rules.nearest import instead, meant, nearest
from worker.rules.registry import LOCAL, Registry
from worker.rules.yaml import Entries, Items, Scalar, Value

FIRST_EVENT = EventId("e1")
"""The event of a test that gives its event no id."""
_OPEN_ITEMS = frozenset({"campaigns"})
"""Lists whose items have fields that the document does not show: only what resembles a known one is misspelt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What ``given`` or ``set`` says. ``events``: event records by id; the other facts are of each of these events, or
    of all where none is named by its id. ``unnamed``: fields for every event."""

    events: Mapping[EventId, Mapping[str, Json]] = field(default_factory=dict)
    unnamed: Mapping[str, Json] = field(default_factory=dict)
    others: Mapping[str, Json] = field(default_factory=dict)


class Names:
    """Every name that a test may use."""

    def __init__(self, rules: RuleSet, registry: Registry) -> None:
        self.rules = tuple(str(rule.id) for rule in rules.rules)
        self.facts = registry.facts
        self.settable = registry.watchable()
        self._fields: dict[str, set[str]] = {}
        self._words: set[str] = set()
        for rule in rules.rules:
            for one in (rule.when, *(value for step in rule.do for value in step.computed)):
                self._learn(one)
            for watch in rule.on_change:
                self._fields.setdefault(watch.fact, set()).update(watch.by)
            for step in rule.do:
                for fact, name in ACTIONS[step.action].written(step.params):
                    self._fields.setdefault(fact, set()).add(name)
                self._words.update(step.params)

    def fields(self, fact: str) -> frozenset[str] | None:
        """The known fields of a record; None where any will do."""
        documented = self.facts[fact].type.fields
        return None if documented is None else frozenset(documented) | self._fields.get(fact, set())

    def item_fields(self, fact: str) -> tuple[frozenset[str], frozenset[str]]:
        """The documented fields of a list's items, and those that some rule speaks of."""
        items = self.facts[fact].type.items
        documented = frozenset(items.fields or ()) if items is not None else frozenset()
        return documented, frozenset(self._words | self._fields.get(fact, set()))

    def _learn(self, source: object) -> None:
        if isinstance(source, Expression):
            self._words.update(re.findall(r"\w+", source.source))
            for path in source.paths:
                self._fields.setdefault(path.name, set()).update(path.fields[:1])
        elif isinstance(source, Computed):
            self._words.update(re.findall(r"\w+", source.source))


class FactsReader:
    """Reads ``given`` and ``set``. ``events``: the ids met so far."""

    def __init__(self, form: Form, names: Names) -> None:
        self._form = form
        self._names = names
        self.events: set[str] = set()

    def read(self, value: Value, where: str) -> Facts:
        """The facts of ``given`` or ``set``."""
        events: dict[EventId, Mapping[str, Json]] = {}
        unnamed: dict[str, Json] = {}
        others: dict[str, Json] = {}
        if not isinstance(value, Entries):
            hint = f"write {where}: {{event: {{status: active}}}}"
            self._form.note(value, f"{where} must be a mapping of facts", hint=hint)
            return Facts()
        for key, part in value.entries:
            if key.text not in self._names.settable:
                self._no_fact(key, where)
            elif isinstance(part, Scalar) and part.is_null:
                hint = f"write unknown: [{key.text}] in a step"
                self._form.note(part, f"'{key.text}' is given nothing; one that cannot be read is unknown", hint=hint)
            elif key.text == "event":
                for item in part.items if isinstance(part, Items) else (part,):
                    self._one_event(item, events, unnamed, several=isinstance(part, Items))
            elif self._shaped(key.text, part):
                others[key.text] = part.json
        return Facts(events=events, unnamed=unnamed, others=others)

    def _no_fact(self, key: Scalar, where: str) -> None:
        if key.text == "now" and where == "given":
            return
        if key.text in LOCAL:
            clock = key.text == "now"
            hint = (
                "give the moment of 0s as now, under given" if clock else "set the fact itself, and what it was before"
            )
            self._form.note(key, f"'{key.text}' is made by the worker itself and cannot be set here", hint=hint)
        else:
            message = f"unknown fact '{key.text}'{meant(key.text, self._names.settable)}"
            self._form.note(key, message, hint=instead(key.text, self._names.settable), code="fact")

    def _one_event(
        self,
        value: Value,
        events: dict[EventId, Mapping[str, Json]],
        unnamed: dict[str, Json],
        *,
        several: bool,
    ) -> None:
        if not self._shaped("event", value) or not isinstance(value, Entries):
            return
        record = {key.text: part.json for key, part in value.entries}
        named = value.get("id")
        if named is None:
            if several:
                self._form.note(value, "each event of a list has an id", hint="write {id: e1, …}", code="missing")
            unnamed.update(record)
            return
        event = EventId(self._form.text(named, "event.id") or FIRST_EVENT)
        self.events.add(event)
        events[event] = {**events.get(event, {}), **record, "id": event}

    def _shaped(self, fact: str, value: Value) -> bool:
        """Whether the value has the shape of the fact; its fields are checked on the way."""
        kind = self._names.facts[fact].type.kind
        wanted = {"object": Entries, "list": Items}.get(kind)
        if wanted is not None and not isinstance(value, wanted):
            record = kind == "object"
            hint = f"write {fact}: {{…}}" if record else f"write {fact}: […]"
            self._form.note(value, f"{fact} is a {'record' if record else 'list'}", hint=hint)
            return False
        if kind == "double" and (not isinstance(value, Scalar) or value.number is None):
            self._form.note(value, f"{fact} is a number", hint=f"write {fact}: 500")
            return False
        known = self._names.fields(fact)
        if isinstance(value, Entries) and known is not None:
            self._known(value, f"field '{fact}.", known, known)
        elif isinstance(value, Items) and kind == "list":
            documented, spoken_of = self._names.item_fields(fact)
            for item in value.items:
                if isinstance(item, Entries) and documented:
                    self._known(item, f"field '{fact}[].", documented, documented | spoken_of, near=fact in _OPEN_ITEMS)
        return True

    def _known(
        self, value: Entries, what: str, names: Collection[str], allowed: Collection[str], *, near: bool = False
    ) -> None:
        for key, _ in value.entries:
            if key.text not in allowed and not (near and nearest(key.text, names) is None):
                hint = "a field that the document does not name is known once a rule names it, as in event['x']"
                self._form.note(key, f"unknown {what}{key.text}'{meant(key.text, names)}", hint=hint, code="field")

    def now(self, value: Value) -> datetime | None:
        """The moment of 0s, where ``given`` names it."""
        given = value.get("now") if isinstance(value, Entries) else None
        if given is None:
            return None
        moment = parse_time(given.text) if isinstance(given, Scalar) else None
        if moment is None:
            self._form.note(given, "now is the moment of 0s", hint="write now: 2026-03-01T12:00:00Z")
        return moment
