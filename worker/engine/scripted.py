"""The world of a rule test: facts that a person wrote down, and answers to what is sent.

Facts have the shapes that the real service's have, so that conditions and evidence cannot tell them from read ones: an
ill-typed documented field is a gap, an empty list of clusters is not computed yet, a run "12" is the integer 12. What
the test does not give is unknown. Only three things are there by themselves: an event ``e1`` where the test names none,
``setup`` as ``{state: NONE}``, because a setup always has a state, and of what no rule under test looks at, values that
stand in no write's way: most tests are about rules, and leave guards alone.

A write that meets no named answer is accepted and takes effect. Tasks of the service are not played.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from worker.api.answers import ill_typed, number_from, run_id_from
from worker.engine.derived import NO_SETUP, effect_of
from worker.engine.playing import OutcomeOf, RequestFor, VirtualClock, WorldService
from worker.model.actions import ACTIONS
from worker.model.exchange import NotSent, Outcome, Uncertain, WriteRequest
from worker.model.facts import RECORDS, SETUP_FIELDS, UNREAD, EventId, Fact, FactKey, Field, Json, Known, Unknown
from worker.model.rules import Rule
from worker.model.writes import Intent, Write
from worker.rules.facts import BY_DEFAULT, looked_at
from worker.rules.registry import Registry
from worker.rules.tests import FIRST_EVENT, LOST_ANSWERS, Answer, Facts
from worker.writes.evidence import CONFIRM, SERIES, fact_key

NOT_GIVEN = replace(UNREAD, why="the test does not give it")
NO_LIMIT = 1e12


@dataclass(slots=True)
class _Event:
    """One event: its values by the fact's name, and what they were made into."""

    values: dict[str, Json]
    made: dict[str, Fact] = field(default_factory=dict)


class GivenWorld:
    """The facts as they are now. ``version`` counts what has changed them."""

    def __init__(self, given: Facts, rules: Sequence[Rule], registry: Registry) -> None:
        self._partner_wide = frozenset(name for name, fact in registry.facts.items() if fact.level == "partner")
        self._open_way = open_way(rules)
        self._shared = _Event(values={})
        self._everywhere: dict[str, Json] = {"setup": dict(NO_SETUP)}
        self._events: dict[EventId, _Event] = {}
        self.unreadable: set[str] = set()
        self._done: set[tuple[EventId, FactKey]] = set()
        self.version = 0
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
        self.version += 1

    def lose(self, names: Iterable[str]) -> None:
        """These facts cannot be read until they are given again; what they were is what a later ``set`` merges into."""
        self.unreadable |= set(names)
        self.version += 1

    def take_effect(self, event: EventId, intent: Intent) -> None:
        """What the write wants becomes so."""
        self.version += 1
        one = self._events[event]
        effect = effect_of(intent, one.values.get)
        if effect is None:
            self._done.add((event, fact_key(intent)))
            return
        if effect.whole:
            one.values[effect.fact] = None
        self._put(one, effect.fact, effect.value)

    def fact(self, event: EventId, key: FactKey, now: datetime) -> Fact:
        """One fact of an event or its partner, whatever parameters it is asked with."""
        name = key.name
        if name == CONFIRM:  # what it reads is no fact of a test: only whether the write took effect
            return Known(value={"when": (event, key) in self._done, "response": None}, read_at=now)
        if name in self.unreadable:
            return Unknown(code="unreadable", why="the test makes it unreadable", read_at=now)
        one = self._shared if name in self._partner_wide else self._events[event]
        if name not in one.made:
            one.made[name] = self._made(one, name, now)
        return one.made[name]

    def _made(self, one: _Event, name: str, now: datetime) -> Fact:
        default = self._open_way.get(name)
        if name not in one.values:
            return NOT_GIVEN if default is None else Known(value=default, read_at=now)
        fact = _fact(name, one.values[name], now)
        if not isinstance(fact, Known) or not isinstance(fact.value, dict) or not isinstance(default, dict):
            return fact
        if name == "setup":  # a draft whose budget nobody gives has one that the service would take
            draft, limits = fact.value.get("state") == "DRAFT", one.values.get("budget_range")
            low = limits.get("lower_limit") if isinstance(limits, dict) else None
            default = {name: default[name] if low is None else low for name in default if draft}
        missing = {name: value for name, value in default.items() if name not in fact.gaps}
        return replace(fact, value={**missing, **fact.value}) if missing else fact

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
        one.made.clear()


class Scripted(WorldService):
    """The service of a rule test: it gives the answers that the test names."""

    def __init__(self, world: GivenWorld, clock: VirtualClock, request_for: RequestFor, outcome_of: OutcomeOf) -> None:
        super().__init__(world, clock, request_for)
        self._outcome_of = outcome_of
        self._answers: dict[str, list[Answer]] = {}

    def answer(self, answers: Iterable[Answer]) -> None:
        """The next attempts of these actions meet these answers, one each."""
        for one in answers:
            self._answers.setdefault(one.action, []).append(one)

    async def attempt(self, write: Write, request: WriteRequest) -> Outcome:
        """What an attempt tells, at once. One that ends with the worker tells nobody, and its task ends with it."""
        waiting = self._answers.get(write.intent.action)
        if not waiting or write.key.item in ACTIONS[write.intent.action].unseen:
            return await super().attempt(write, request)
        answer = waiting.pop(0)
        outcome = self._outcome(answer)
        if isinstance(outcome, NotSent) and outcome.cause == "connect":
            return outcome
        self.sent += 1
        if answer.effect_after is not None and answer.effect_after > timedelta():
            self.lands(write, self._clock.now() + answer.effect_after)
        elif answer.effect_after is not None:
            self.world.take_effect(write.key.event, write.intent)
        if outcome is None:
            raise asyncio.CancelledError
        return outcome

    def _outcome(self, answer: Answer) -> Outcome | None:
        if isinstance(answer.answer, int):
            outcome = self._outcome_of(answer.answer)  # a test's reads are let in: a refused token had just worked
            return replace(outcome, accepted_ago=timedelta(0)) if isinstance(outcome, NotSent) else outcome
        if answer.answer == "crash":
            return None
        why = LOST_ANSWERS[answer.answer]
        return NotSent(cause="connect", why=why) if answer.answer == "no_connection" else Uncertain(why=why)


def open_way(rules: Sequence[Rule]) -> dict[str, Json]:
    """What guards ask for and no rule names, so that nothing is in a write's way: the campaign product is on, a budget
    in range, a target not yet as it is wanted."""
    named = {name: fields or frozenset[str]() for name, fields in looked_at(rules).items()}
    found: dict[str, dict[str, Json]] = {
        "partner": {"campaign_recommendations": True},
        "budget_range": {"lower_limit": 0.0, "upper_limit": NO_LIMIT},
        "setup": {"total_budget": 0.0},
    }
    rows = [ACTIONS[step.action] for rule in rules for step in rule.do]
    found["event"] = {row.target: "" for row in rows if row.shown == "field"}
    if any(row.shown == "series" for row in rows):
        found["event"][SERIES] = []
    way: dict[str, Json] = {} if "campaigns" in named else {"campaigns": []}
    for name, fields in found.items():
        unnamed = {one: value for one, value in fields.items() if one not in named.get(name, ())}
        if unnamed:
            way[name] = unnamed
    return way


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
