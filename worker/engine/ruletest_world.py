"""The world of one rule test: facts that a person wrote down, on events that exist nowhere else.

Facts have the daemon's shapes, so that conditions and evidence cannot tell them from read ones: an ill-typed documented
field is a gap, an empty list of clusters is not computed yet, a run "12" is the integer 12. What the test does not give
is not known: a documented field that is absent stays absent. Only two things are there by themselves: an event ``e1``
where the test names none, and ``setup`` as ``{state: NONE}``, because a setup always has a state.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache

from worker.api.wire import ill_typed, number_from, run_id_from
from worker.engine.effects import NO_SETUP, effect_of
from worker.model.document import RECORDS, SETUP_FIELDS, Field
from worker.model.facts import UNREAD, Fact, FactKey, Json, Known, Observation, Unknown
from worker.model.ids import EventId, PartnerId
from worker.model.rules import Rule
from worker.model.writes import Write
from worker.rules.evaluate import BY_DEFAULT, keys_for
from worker.rules.registry import Registry
from worker.rules.testfile_facts import FIRST_EVENT, Facts

PARTNER = PartnerId("partner-id-test")


@dataclass(slots=True)
class _Event:
    """One event: its values by the fact's name, and what they were made into."""

    values: dict[str, Json]
    made: dict[str, Fact] = field(default_factory=dict)
    observation: Observation | None = None


class World:
    """The facts as they are now. Everything that changes them makes the next observation a new one."""

    def __init__(self, given: Facts, registry: Registry) -> None:
        self._partner_wide = frozenset(name for name, fact in registry.facts.items() if fact.level == "partner")
        self._shared = _Event(values={})
        self._everywhere: dict[str, Json] = {"setup": dict(NO_SETUP)}
        self._events: dict[EventId, _Event] = {}
        self.unreadable: set[str] = set()
        self._done: set[tuple[EventId, str, str]] = set()
        for event in given.events or (FIRST_EVENT,):
            self._new_event(event)
        self.change(given)

    @property
    def events(self) -> Iterable[EventId]:
        """Every event, in the order in which the test names them."""
        return self._events

    @property
    def listed(self) -> bool:
        """Whether the list of events can be read."""
        return "event" not in self.unreadable

    def change(self, facts: Facts) -> None:
        """Records are merged, everything else is replaced; what is given is known again."""
        for event, record in facts.events.items():
            if event not in self._events:
                self._new_event(event)
            self._put(self._events[event], "event", record)
        for name, value in facts.others.items():
            self._set(name, value, facts.events)
        if facts.unnamed:
            for one in self._events.values():
                self._put(one, "event", facts.unnamed)
        if facts.events or facts.unnamed:
            self.unreadable.discard("event")
        self.unreadable -= facts.others.keys()
        self._look_anew()

    def lose(self, names: Iterable[str]) -> None:
        """These facts cannot be read until they are given again; what they were is what a later ``set`` merges into."""
        self.unreadable |= set(names)
        self._look_anew()

    def take_effect(self, write: Write) -> None:
        """What the write wants becomes so."""
        one, intent = self._events[write.key.event], write.intent
        effect = effect_of(intent, one.values.get)
        if effect is None:
            self._done.add((write.key.event, intent.target, intent.wish))
            return
        if effect.whole:
            one.values[effect.fact] = None
        self._put(one, effect.fact, effect.value)

    def confirmed(self, write: Write, now: datetime) -> Fact:
        """What a write's own ``confirm`` would show: whether it took effect. What it reads is no fact of a test."""
        done = (write.key.event, write.intent.target, write.intent.wish) in self._done
        return Known(value={"when": done, "response": None}, read_at=now)

    def fact(self, event: EventId, name: str, now: datetime) -> Fact:
        """One fact of an event or its partner."""
        if name in self.unreadable:
            return Unknown(code="unreadable", why="the test makes it unreadable", read_at=now)
        one = self._shared if name in self._partner_wide else self._events[event]
        if name not in one.values:
            return UNREAD
        if name not in one.made:
            one.made[name] = _fact(name, one.values[name], now)
        return one.made[name]

    def observations(self, rules: Iterable[Rule], now: datetime) -> dict[EventId, Observation]:
        """What a look sees. ``rules``: those whose facts take parameters; they get them under the keys they ask by."""
        for event, one in self._events.items():
            if one.observation is None:
                names = {*one.values, *self._shared.values, *self.unreadable}
                facts = {_key(name): self.fact(event, name, now) for name in sorted(names)}
                one.observation = Observation(partner=PARTNER, event=event, facts=facts)
            one.observation = _asked_by_parameters(one.observation, rules, now)
        return {event: one.observation for event, one in self._events.items() if one.observation is not None}

    def _new_event(self, event: EventId) -> None:
        self._events[event] = _Event(values={**self._everywhere, "event": {"id": event}})

    def _set(self, name: str, value: Json, events: Iterable[EventId]) -> None:
        if name in self._partner_wide:
            self._put(self._shared, name, value)
            return
        named = set(events)
        if not named:
            self._everywhere[name] = _merged(name, self._everywhere.get(name), value)
        for event, one in self._events.items():
            if not named or event in named:
                self._put(one, name, value)

    def _put(self, one: _Event, name: str, value: "Json | Mapping[str, Json]") -> None:
        one.values[name] = _merged(name, one.values.get(name), dict(value) if isinstance(value, Mapping) else value)
        one.made.pop(name, None)
        one.observation = None

    def _look_anew(self) -> None:
        for one in self._events.values():
            one.observation = None


@cache
def _key(name: str) -> FactKey:
    return FactKey(name=name)


def _asked_by_parameters(seen: Observation, rules: Iterable[Rule], now: datetime) -> Observation:
    """The observation with its facts under the keys that these rules ask by, too."""
    keys = {key for rule in rules for key in keys_for(rule, seen, now).values() if key.params}
    missing = {key: seen.facts[_key(key.name)] for key in keys - seen.facts.keys() if _key(key.name) in seen.facts}
    return replace(seen, facts={**seen.facts, **missing}) if missing else seen


def _merged(name: str, old: Json, new: Json) -> Json:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    merged: dict[str, Json] = {**old, **new}
    return dict(NO_SETUP) if name == "setup" and merged.get("state") == "NONE" else merged


def _fact(name: str, value: Json, now: datetime) -> Fact:
    if name in BY_DEFAULT and value == []:
        return Unknown(code="not_computed", why="the list is empty: not computed yet", read_at=now)
    if isinstance(value, list):
        return Known(value=[_with_run(item) for item in value], read_at=now)
    if name == "expected_value":
        return Known(value=number_from(value), read_at=now)
    documented = RECORDS.get(name)
    if documented is None or not isinstance(value, dict):
        return Known(value=value, read_at=now)
    gaps = {part: fault for part, found in value.items() if (fault := _fault(documented, part, found)) is not None}
    return Known(value={part: found for part, found in value.items() if part not in gaps}, read_at=now, gaps=gaps)


def _fault(documented: Mapping[str, Field], name: str, value: Json) -> str | None:
    known = documented.get(name)
    if known is None:
        return None
    if known is SETUP_FIELDS["state"] and value not in known.values:
        return f"{value!r} is no state of a setup"
    return ill_typed(value, known)


def _with_run(item: Json) -> Json:
    """A cluster's run is an integer that some lists spell as a text."""
    if not isinstance(item, dict) or "tc_run_id" not in item:
        return item
    run = run_id_from(item["tc_run_id"])
    return item if run is None else {**item, "tc_run_id": run}
