"""Files of rule tests: the models that they are read by, which are the tests themselves.

A test is checked as strictly as a rule, because a test with a misspelt name passes for the wrong reason: a rule, fact,
field, action, reason or state that does not exist is an error with the nearest name that does. It runs nothing.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from math import inf
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, WithJsonSchema, model_validator
from pydantic_core import CoreSchema, core_schema

from worker.model.actions import ACTIONS, EXTRA, UNDO
from worker.model.commits import REASONS
from worker.model.errors import Code, InputErrors, Problem
from worker.model.facts import LISTS, RECORDS, EventId, Json, RuleId, number_of, parse_time
from worker.model.facts import Field as DocumentedField
from worker.model.rules import Computed, RuleSet
from worker.model.writes import State
from worker.rules.binding import (
    NAMED,
    TEXT,
    WHAT,
    WHOLE,
    AnyJson,
    SchemaOfFile,
    Section,
    Slip,
    Span,
    Text,
    Tree,
    all_of,
    bind,
    later,
    list_of,
    mistake_at,
    with_later,
)
from worker.rules.cel import fields_in
from worker.rules.evaluate import Expression
from worker.rules.models import DIALECT, about_fact
from worker.rules.registry import BUILT_IN_REGISTRY, LOCAL, MADE, FactName, Kind, Registry
from worker.rules.spelling import duration_meant, instead, meant, nearest, parse_duration
from worker.rules.yaml import Document, Entries, Items, Scalar, Value, compose

STATES: tuple[State, ...] = get_args(State)
LOST_ANSWERS: Mapping[str, str] = {
    "timeout": "sent, and no answer came in time",
    "cut": "sent, and the connection broke",
    "no_connection": "no connection was made: nothing was sent",
    "crash": "the worker ended while it was sending, and started again",
}
"""What can happen to an attempt instead of a status."""
STATUS_MIN, STATUS_MAX = 100, 599
FIRST_EVENT = EventId("e1")
"""The event of a test that gives its event no id."""
_OPEN_ITEMS = frozenset({"campaigns"})
"""Lists whose items have fields that the document does not show: only what resembles a known one is misspelt."""


class Names:
    """Every name that a test may use. A field counts as known if the document names it or some rule does, as in
    ``event['x']``."""

    def __init__(self, rules: RuleSet, registry: Registry) -> None:
        self.rules = tuple(str(rule.id) for rule in rules.rules)
        done = {rule.id: frozenset(step.action for step in rule.do) for rule in rules.rules}
        self.does = {rule: frozenset(ACTIONS) if UNDO in does else does for rule, does in done.items()}
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
            for path in source.paths:
                self._fields.setdefault(path.name, set()).update(path.fields[:1])
            if "events" in source.names:
                self._fields.setdefault("event", set()).update(fields_in(source.tree))
        if isinstance(source, Expression | Computed):
            self._words.update(re.findall(r"\w+", source.source))


# given and set


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What ``given`` or ``set`` says. ``events``: event records by id; the other facts are of each of these events, or
    of all where none is named by its id. ``unnamed``: fields for every event. ``now``: the moment of 0s."""

    events: Mapping[EventId, Mapping[str, Json]] = field(default_factory=dict)
    unnamed: Mapping[str, Json] = field(default_factory=dict)
    others: Mapping[str, Json] = field(default_factory=dict)
    now: datetime | None = None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, inner: object) -> CoreSchema:
        del source, inner
        return core_schema.with_info_plain_validator_function(_facts)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, inner: object) -> dict[str, Any]:
        del schema, inner
        return later("facts")


def _facts(value: Tree, asked: Any) -> Facts:  # noqa: ANN401 - as pydantic has it

    where: Literal["given", "set"] = "given" if asked.field_name == "given" else "set"
    if not isinstance(value, Entries):
        raise Slip(f"{WHAT} must be a mapping of facts", f"write {where}: {{event: {{status: active}}}}")
    reader = _FactsReader(asked.context, where)
    facts = reader.read(value)
    if reader.slips:
        raise all_of(reader.slips)
    return facts


class _FactsReader:
    """Reads ``given`` or ``set``."""

    def __init__(self, names: Names, where: Literal["given", "set"]) -> None:
        self._names = names
        self._where = where
        self.slips: list[Slip] = []

    def read(self, value: Entries) -> Facts:
        """The facts; what is wrong is a slip."""
        events: dict[EventId, Mapping[str, Json]] = {}
        unnamed: dict[str, Json] = {}
        others: dict[str, Json] = {}
        now: datetime | None = None
        for name, (key, part) in value.named.items():
            if name == "now" and self._where == "given":
                now = self._moment(part)
            elif name not in self._names.settable:
                self._no_fact(key)
            elif isinstance(part, Scalar) and part.is_null:
                message = f"'{name}' is given nothing; one that cannot be read is unknown"
                self._slip(message, f"write unknown: [{name}] in a step", part)
            elif name == "event":
                for item in part.items if isinstance(part, Items) else (part,):
                    self._one_event(item, events, unnamed, several=isinstance(part, Items))
            elif self._shaped(name, part):
                others[name] = part.json
        return Facts(events=events, unnamed=unnamed, others=others, now=now)

    def _slip(self, message: str, hint: str, at: Value, code: Code = "value") -> None:
        self.slips.append(Slip(message, hint, code=code, at=at))

    def _moment(self, value: Value) -> datetime | None:
        moment = parse_time(value.text) if isinstance(value, Scalar) else None
        if moment is None or not 2000 <= moment.year < 2100:
            self._slip("now is the moment of 0s", "write now: 2026-03-01T12:00:00Z", value)
        return moment

    def _no_fact(self, key: Scalar) -> None:
        if key.text in LOCAL | MADE:
            events = "set the events themselves; several of them are a list, event: [{id: e1}, {id: e2}]"
            hints = {**dict.fromkeys(MADE, events), "now": "give the moment of 0s as now, under given"}
            hint = hints.get(key.text, "set the fact itself, and what it was before")
            self._slip(f"'{key.text}' is made by the worker itself and cannot be set here", hint, key)
        else:
            known, name = self._names.settable, key.text
            within = [f"{fact}: {{{name}: …}}" for fact in sorted(known) if name in (self._names.fields(fact) or ())]
            hint = f"write {' or '.join(within)}" if within else instead(name, known)
            self._slip(f"unknown fact '{name}'{'' if within else meant(name, known)}", hint, key, "fact")

    def _one_event(
        self, value: Value, events: dict[EventId, Mapping[str, Json]], unnamed: dict[str, Json], *, several: bool
    ) -> None:
        if not self._shaped("event", value) or not isinstance(value, Entries):
            return
        record = {key.text: part.json for key, part in value.named.values()}
        named = value.get("id")
        if named is None:
            if several:
                self._slip("each event of a list has an id", "write {id: e1, …}", value, "missing")
            unnamed.update(record)
        elif not isinstance(named, Scalar) or named.is_null or not named.text.strip():
            self._slip("event.id must be a text", "write one text in its place", named)
        else:
            event = EventId(named.text)
            events[event] = {**events.get(event, {}), **record, "id": event}

    def _shaped(self, fact: str, value: Value) -> bool:
        """Whether the value has the shape of the fact; its fields are checked on the way."""
        kind = self._names.facts[fact].type.kind
        noun, example, fits = _TYPES[_OF_KIND.get(kind, kind)]
        if not fits(value.json):
            self._slip(f"{fact} is {noun}", f"write {fact}: {example}", value)
            return False
        known = self._names.fields(fact)
        if isinstance(value, Entries) and known is not None:
            self._known(value, f"field '{fact}.", known, known)
            self._possible(fact, value)
        elif isinstance(value, Items) and kind == "list":
            documented, spoken_of = self._names.item_fields(fact)
            for item in value.items:
                if isinstance(item, Entries) and documented:
                    self._known(item, f"field '{fact}[].", documented, documented | spoken_of, near=fact in _OPEN_ITEMS)
                    self._possible(fact, item)
        return True

    def _known(
        self, value: Entries, what: str, names: Collection[str], allowed: Collection[str], *, near: bool = False
    ) -> None:
        for key, _ in value.named.values():
            if key.text not in allowed and not (near and nearest(key.text, names) is None):
                hint = "a field that the document does not name is known once a rule names it, as in event['x']"
                self._slip(f"unknown {what}{key.text}'{meant(key.text, names)}", hint, key, "field")

    def _possible(self, fact: str, value: Entries) -> None:
        """A value that a documented field cannot have is a slip of the pen, and a test would pass for it. Null is said
        on purpose: of a field that cannot be null it is what a broken answer has, and unknown."""
        for key, part in value.named.values():
            documented = _FIELDS.get(fact, {}).get(key.text)
            if documented is None or part.json is None or key.text in _OF_ANY_SPELLING:
                continue
            name, said = f"{fact}.{key.text}", part.text if isinstance(part, Scalar) else "that"
            noun, example, fits = _TYPES[documented.type]
            if not fits(part.json):
                hint = f"write {key.text}: {example}, or null for one that an answer got wrong"
                self._slip(f"{name} is {noun}, and cannot be {said!r}", hint, part)
            elif documented.values and not documented.open_set and part.json not in documented.values:
                message = f"{name} cannot be '{said}'{meant(said, documented.values)}"
                self._slip(message, instead(said, documented.values), part)


# what a single key is checked for


def _known(
    what: Literal["fact", "action", "rule", "reason", "state"], names: Callable[[Names], Collection[str]]
) -> AfterValidator:
    def read(text: str, asked: ValidationInfo) -> str:
        known = names(asked.context)  # type: ignore[arg-type]  # as above
        if text not in known:
            raise Slip(f"unknown {what} '{text}'{meant(text, known)}", instead(text, known), code=what)
        return text

    return AfterValidator(read)


def _answer(value: Tree) -> int | str:
    status = value.integer if isinstance(value, Scalar) else None
    text = value.text if isinstance(value, Scalar) else ""
    if status is not None and not STATUS_MIN <= status <= STATUS_MAX:
        message = f"an answer is a status from {STATUS_MIN} to {STATUS_MAX}, not {status}"
        raise Slip(message, f"write 200, 429, or one of {', '.join(LOST_ANSWERS)}")
    if status is None and text not in LOST_ANSWERS:
        raise Slip(f"unknown answer '{text}'{meant(text, LOST_ANSWERS)}", instead(text, LOST_ANSWERS), code="answer")
    return text if status is None else status


def _effect(value: Tree) -> timedelta | None:
    """When an effect comes after all; None where it never does."""
    spelled = value.text.split() if isinstance(value, Scalar) else []
    if spelled in (["hidden"], ["none"]):
        return timedelta() if spelled == ["hidden"] else None
    if len(spelled) == 2 and spelled[0] == "late":
        try:
            return parse_duration(spelled[1])
        except ValueError as error:
            raise Slip(f"effect: {error}", f"write late {duration_meant(spelled[1])}") from None
    tail = meant(spelled[0], ("hidden", "none", "late")) if spelled else ""
    raise Slip(f"effect is hidden, none, or late and a duration{tail}", "write effect: late 40s")


def _flat(params: Mapping[str, Json]) -> Mapping[str, Json]:
    """The parameters as they are sent: what stands under ``extra`` is beside the others."""
    extra = params.get(EXTRA)
    return (
        {**{name: one for name, one in params.items() if name != EXTRA}, **extra} if isinstance(extra, dict) else params
    )


_A_RULE = _known("rule", lambda names: names.rules)
_ActionName = Annotated[str, TEXT, _known("action", lambda _names: ACTIONS), WithJsonSchema({"enum": sorted(ACTIONS)})]
_ReasonName = Annotated[str, TEXT, _known("reason", lambda _names: REASONS), WithJsonSchema({"enum": sorted(REASONS)})]
_StateName = Annotated[str, TEXT, _known("state", lambda _names: STATES), WithJsonSchema({"enum": [*STATES]})]
_OF_RULE = Field(description="the id of a rule", examples=["pause-cancelled"])
_OF_EVENT = Field(description="the id of an event; without it, any", examples=["e1"])
_OF_ACTION = Field(description="an action of that rule's `do`", examples=["pause"])
_EACH_ONCE = AfterValidator(lambda names: tuple(dict.fromkeys(names)))
_ANSWERS = [{"action": "pause", "answer": 429, "effect": "hidden"}]


class Answer(Section):
    """What the next attempt of an action meets: a status or a word of `LOST_ANSWERS`."""

    noun: ClassVar[str] = "an item of answers"
    action: Annotated[_ActionName, _OF_ACTION]
    answer: Annotated[
        int | str,
        PlainValidator(_answer),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "integer", "minimum": STATUS_MIN, "maximum": STATUS_MAX},
                    *({"const": word, "description": about} for word, about in LOST_ANSWERS.items()),
                ]
            }
        ),
    ] = Field(description="a status, or how the answer is lost", examples=[429, "timeout"])
    effect: Annotated[
        timedelta | None,
        PlainValidator(_effect),
        WithJsonSchema({"type": "string", "pattern": r"^(hidden|none|late\s+\S+)$"}),
    ] = Field(
        default=None,
        description="hidden: it took effect all the same; none: it did not; late and a duration: it will",
        examples=["hidden", "late 40s"],
    )

    @property
    def effect_after(self) -> timedelta | None:
        """When its effect comes after all; None: never."""
        accepted = isinstance(self.answer, int) and 200 <= self.answer <= 299
        return timedelta() if accepted and "effect" not in self.model_fields_set else self.effect


class Expected(Section):
    """One firing that must have happened."""

    noun: ClassVar[str] = "an item of expect"
    rule: Annotated[RuleId, TEXT, _A_RULE, _OF_RULE]
    action: Annotated[_ActionName, _OF_ACTION]
    event: Annotated[Annotated[EventId, TEXT] | None, _OF_EVENT] = None
    params: Annotated[Annotated[dict[str, AnyJson], NAMED], AfterValidator(_flat)] = Field(
        default_factory=dict,
        description="what it was planned with, as far as it matters",
        examples=[{"total_budget": 500}],
    )

    @model_validator(mode="after")
    def _of_the_action(self) -> Self:
        row = ACTIONS[self.action]
        given = self.entries.get("params") if "params" in self.model_fields_set else None
        for name, (key, _) in given.named.items() if isinstance(given, Entries) and not row.extra_params else ():
            if name not in row.params:
                message = f"unknown key '{name}' in the parameters of {row.name}{meant(name, row.params)}"
                raise Slip(message, instead(name, row.params), code="key", at=key)
        return self


class Held(Section):
    """One rule that must be held back, and why."""

    noun: ClassVar[str] = "an item of held"
    rule: Annotated[RuleId, TEXT, _A_RULE, _OF_RULE]
    reason: _ReasonName = Field(description="the code of the reason", examples=["cooldown"])
    event: Annotated[Annotated[EventId, TEXT] | None, _OF_EVENT] = None


class Stands(Section):
    """One write that must be in this state."""

    noun: ClassVar[str] = "an item of states"
    action: Annotated[_ActionName, _OF_ACTION]
    state: _StateName = Field(description="the state of the newest such write", examples=["confirmed"])
    rule: Annotated[Annotated[RuleId, TEXT, _A_RULE] | None, _OF_RULE] = None
    event: Annotated[Annotated[EventId, TEXT] | None, _OF_EVENT] = None


class StepOfTest(Section):
    """One moment of a test: what changes, and what is claimed. A claim that is None was not made."""

    noun: ClassVar[str] = "a step"
    at: Span = Field(description="time since the first poll; 0s is the first poll", examples=["6s", "1h"])
    change: Facts | None = Field(
        alias="set",
        default=None,
        description="facts that change right before this look",
        examples=[{"event": {"status": "cancelled"}}],
    )
    unknown: tuple[
        Annotated[str, TEXT, _known("fact", lambda names: names.settable), WithJsonSchema(later("readable"))], ...
    ] = Field(default=(), description="facts that cannot be read until they are set", examples=[["setup"]])
    answers: tuple[Answer, ...] = Field(default=(), description="the same, from this step on", examples=[_ANSWERS])
    approve: tuple[Annotated[RuleId, TEXT, _A_RULE], ...] = Field(
        default=(), description="rules whose waiting writes somebody lets go", examples=[["pause-cancelled"]]
    )
    reject: tuple[Annotated[RuleId, TEXT, _A_RULE], ...] = Field(
        default=(), description="rules whose waiting writes somebody drops", examples=[["pause-cancelled"]]
    )
    expect: tuple[Expected, ...] | None = Field(
        default=None,
        description="exactly what fired since the step before",
        examples=[[{"rule": "pause-cancelled", "action": "pause"}]],
    )
    held: tuple[Held, ...] | None = Field(
        default=None,
        description="what holds rules back now, or came to since the step before; [] for nothing",
        examples=[[{"rule": "boost-on-new-clusters", "reason": "cooldown"}]],
    )
    states: tuple[Stands, ...] | None = Field(
        default=None, description="states of the newest writes", examples=[[{"action": "pause", "state": "confirmed"}]]
    )
    sent: Annotated[int, Field(ge=0), WHOLE] | None = Field(
        default=None, description="how many attempts have been sent so far", examples=[1]
    )


class RuleTest(Section):
    """One test. ``rules`` None: all rules are under test."""

    noun: ClassVar[str] = "a test"
    name: Text = Field(description="what the test claims", examples=["a cancelled event is paused"])
    rules: Annotated[tuple[Annotated[RuleId, TEXT, _A_RULE], ...], Field(min_length=1), _EACH_ONCE] | None = Field(
        default=None,
        description="ids of the rules under test, disabled ones too; without it, all that are enabled",
        examples=[["pause-cancelled"]],
    )
    given: Facts = Field(
        default_factory=Facts,
        description="facts before the first poll, by name, and `now` for the moment of 0s",
        examples=[{"event": {"id": "e1", "status": "active"}}],
    )
    answers: tuple[Answer, ...] = Field(
        default=(), description="what the next attempts meet instead of success, one each", examples=[_ANSWERS]
    )
    steps: Annotated[tuple[StepOfTest, ...], Field(min_length=1)] = Field(
        description="the moments of the test, in order of time", examples=[[{"at": "0s", "expect": []}]]
    )

    @property
    def file(self) -> str:
        """The file that it stands in."""
        return self.entries.document.file


class TestsText(Section):
    """A file of rule tests, each of which is bound by itself."""

    noun: ClassVar[str] = "a file of rule tests"
    otherwise: ClassVar[tuple[str, str]] = (
        "a file of rule tests begins with `tests:`",
        "write `tests:` above it, and indent what follows by two spaces",
    )
    tests: Annotated[tuple[Annotated[Any, WithJsonSchema(later("test"))], ...], list_of("name")] | None = Field(
        default=None,
        description="the tests of this file",
        examples=[[{"name": "a cancelled event is paused", "steps": [{"at": "0s", "expect": []}]}]],
    )

    @classmethod
    def about_unknown(cls, name: str) -> tuple[str, str]:
        """A file of rules."""
        if name in ("rules", "define"):
            return (
                "; this is a file of rules",
                "check them: campaign-worker check PATH; tests stand in a folder `tests`",
            )
        return super().about_unknown(name)


# reading


def read_tests(texts: Mapping[str, str], rules: RuleSet, registry: Registry) -> tuple[RuleTest, ...]:
    """The tests of texts by file name, in order. Raises `InputErrors` with every mistake."""
    names = Names(rules, registry)
    problems: list[Problem] = []
    tests: list[RuleTest] = []
    for file, text in texts.items():
        try:
            value = compose(Document(file=file, text=text))
        except InputErrors as errors:
            problems.extend(errors.problems)
            continue
        found, mistakes = (None, []) if value is None else bind(TestsText, value)
        for item in (found.tests if found is not None else None) or ():
            test, wrong = bind(RuleTest, item, names)
            if test is not None:
                tests.append(test)
                wrong += [mistake_at(RuleTest, item, (), slip) for slip in _crosscheck(test, names, whole=not wrong)]
            mistakes += wrong
        problems.extend(one.problem for one in mistakes)
    if problems:
        raise InputErrors(tuple(sorted(problems, key=lambda one: (one.file, one.line, one.column))))
    return tuple(tests)


def _crosscheck(test: RuleTest, names: Names, *, whole: bool) -> Iterator[Slip]:
    """What no single key shows. ``whole``: nothing of the test was left out, so that its events are all there."""
    for earlier, later_one in pairwise(test.steps):
        if later_one.at < earlier.at:
            hint = "`at` counts from the first poll, not from the step before"
            message = "steps go on in time: this one is before the one above it"
            yield Slip(message, hint, at=later_one.entries)
    under_test = names.does if test.rules is None else test.rules
    does = frozenset[str]().union(*(names.does.get(rule, ()) for rule in under_test))
    for answer in (*test.answers, *(one for step in test.steps for one in step.answers)):
        if does and answer.action not in does:
            message, hint = f"no rule under test does '{answer.action}'", f"write {' or '.join(sorted(does))}"
            yield Slip(message, hint, code="action", at=answer.entries.get("action"))
    changes = [step.change for step in test.steps if step.change is not None]
    events = {event for facts in (test.given, *changes) for event in facts.events}
    events |= set() if test.given.events else {FIRST_EVENT}
    for step in test.steps if whole else ():
        claims: tuple[Expected | Held | Stands, ...] = (*(step.expect or ()), *(step.held or ()), *(step.states or ()))
        for claim in claims:
            if claim.event is not None and claim.event not in events:
                message = f"no event '{claim.event}' in this test{meant(claim.event, events)}"
                yield Slip(message, instead(claim.event, events), code="event", at=claim.entries.get("event"))


# the schema

_FIELDS: Mapping[str, Mapping[str, DocumentedField]] = {**RECORDS, **LISTS}
_TYPES: Mapping[str, tuple[str, object, Callable[[Json], bool]]] = {
    "string": ("a text", "…", lambda value: isinstance(value, str)),
    "integer": ("a whole number", 500, lambda value: isinstance(number_of(value), int)),
    "number": ("a number", 0.5, lambda value: (number := number_of(value)) is not None and abs(number) < inf),
    "boolean": ("true or false", True, lambda value: isinstance(value, bool)),
    "timestamp": (
        "a time",
        "2026-06-30T18:00:00Z",
        lambda value: isinstance(value, str) and parse_time(value) is not None,
    ),
    "list": ("a list", [], lambda value: isinstance(value, list)),
    "object": ("a record", {}, lambda value: isinstance(value, dict)),
    "any": ("anything", 500, lambda _value: True),
}
"""What a documented type is, an example of it, and whether a value is one."""
_OF_KIND: Mapping[Kind, str] = {"double": "number", "bool": "boolean"}
"""The kinds that the document calls otherwise."""
_OF_ANY_SPELLING = frozenset({"id", "tc_run_id"})
"""What some answers have as a number and others as a text."""


def rule_tests_schema(registry: Registry = BUILT_IN_REGISTRY) -> dict[str, Any]:
    """The JSON Schema of a file of rule tests. Of facts it knows the documented fields and their values as proposals
    only: a test may give null for what an answer got wrong, and any field that some rule names."""
    whole, test = (model.model_json_schema(schema_generator=SchemaOfFile) for model in (TestsText, RuleTest))
    readable = [fact for _, fact in sorted(registry.facts.items()) if fact.name not in LOCAL | MADE]
    now = {"type": "string", "description": "the moment of 0s; only in given", "examples": ["2026-03-01T12:00:00Z"]}
    facts = {
        "type": "object",
        "additionalProperties": False,
        "properties": {**{fact.name: _fact(fact) for fact in readable}, "now": now},
        "description": "facts by name",
    }
    parts = test.pop("$defs") | {"test": test, "facts": facts, "readable": {"enum": [fact.name for fact in readable]}}
    found = {"$schema": DIALECT, **whole, "title": "Rule tests of campaign-worker", "required": ["tests"]}
    return with_later({**found, "$defs": parts})


def _fact(fact: FactName) -> dict[str, Any]:
    fields = {
        name: {"description": one.about, "examples": list(one.values or (_TYPES[one.type][1],))}
        for name, one in _FIELDS.get(fact.name, {}).items()
    }
    record: dict[str, Any] = {"type": "object", "properties": fields} if fields else {}
    shown: object = {name: one["examples"][0] for name, one in list(fields.items())[:2]}
    about, many = about_fact(fact), {"type": "array", "items": record}
    if fact.name == "event":
        about, shown = f"{fact.about}; or a list of events", {"id": "e1", "status": "active"}
        record = {"anyOf": [record, {**many, "minItems": 1}]}
    elif fact.type.kind == "list":
        record, shown = many, [shown] if fields else []
    elif fact.type.kind == "double":
        record, shown = {"type": "number"}, 1000
    return {**record, "description": about, "examples": [shown]}
