"""Files of rule tests: from positioned YAML to tests, with every mistake at its place.

A test is checked as strictly as a rule, because a test with a misspelt name passes for the wrong reason: a rule, fact,
field, action, reason or state that does not exist is an error with the nearest name that does. It reads texts that
are handed in and runs nothing.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, TypeVar, get_args

from worker.model.actions import ACTIONS, EXTRA
from worker.model.errors import InputErrors, Problem
from worker.model.facts import EventId, Json, RuleId
from worker.model.records import REASONS
from worker.model.rules import RuleSet
from worker.model.writes import State
from worker.rules.durations import duration_meant, parse_duration
from worker.rules.fields import Form, present
from worker.rules.nearest import instead, meant
from worker.rules.registry import Registry
from worker.rules.testfile_facts import FIRST_EVENT, Facts, FactsReader, Names
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
_Word = Literal["fact", "action", "rule", "reason", "state", "answer"]
_Claim = TypeVar("_Claim", "Expected", "Held", "Stands", "Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the next attempt of an action meets: a status or a word of `LOST_ANSWERS`, and when its effect comes after
    all (None: never)."""

    action: str
    answer: int | str
    effect_after: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One firing that must have happened."""

    rule: RuleId
    action: str
    event: EventId | None = None
    params: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One rule that must be held back, and why."""

    rule: RuleId
    reason: str
    event: EventId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stands:
    """One write that must be in this state."""

    action: str
    state: str
    rule: RuleId | None = None
    event: EventId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One moment of a test: what changes, and what is claimed. A claim that is None was not made."""

    at: timedelta
    line: int = 0
    change: Facts | None = None
    unknown: tuple[str, ...] = ()
    answers: tuple[Answer, ...] = ()
    approve: tuple[RuleId, ...] = ()
    reject: tuple[RuleId, ...] = ()
    expect: tuple[Expected, ...] | None = None
    held: tuple[Held, ...] | None = None
    states: tuple[Stands, ...] | None = None
    sent: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTest:
    """One test. ``rules`` None: all rules are under test. ``now``: the moment of 0s, where the test names it."""

    name: str
    file: str
    line: int = 0
    rules: tuple[RuleId, ...] | None = None
    given: Facts = field(default_factory=Facts)
    now: datetime | None = None
    answers: tuple[Answer, ...] = ()
    steps: tuple[Step, ...]


def read_tests(texts: Mapping[str, str], rules: RuleSet, registry: Registry) -> tuple[RuleTest, ...]:
    """The tests of texts by file name, in order. Raises `InputErrors` with every mistake."""
    reader = _Reader(rules, registry)
    problems: list[Problem] = []
    tests: list[RuleTest] = []
    for file, text in texts.items():
        try:
            value = compose(Document(file=file, text=text))
        except InputErrors as errors:
            problems.extend(errors.problems)
            continue
        if value is not None:
            tests.extend(reader.file(value))
    problems.extend(reader.form.problems)
    if problems:
        raise InputErrors(tuple(sorted(problems, key=lambda one: (one.file, one.line, one.column))))
    return tuple(tests)


class _Reader:
    """Reads the tests of files into one form."""

    def __init__(self, rules: RuleSet, registry: Registry) -> None:
        self.form = Form()
        self._names = Names(rules, registry)
        self._facts = FactsReader(self.form, self._names)
        self._named: list[Scalar] = []
        self._does = {rule.id: frozenset(step.action for step in rule.do) for rule in rules.rules}
        self._under_test: tuple[RuleId, ...] = ()

    def file(self, value: Value) -> list[RuleTest]:
        """The tests of one file."""
        if not isinstance(value, Entries):
            hint = "write `tests:` above it, and indent what follows by two spaces"
            self.form.note(value, "a file of rule tests begins with `tests:`", hint=hint)
            return []
        self.form.keys(value, "a file of rule tests", ("tests",))
        tests = present(value).get("tests")
        return [] if tests is None else [self._test(item) for item in self._list(tests, "tests") or ()]

    def _test(self, value: Value) -> RuleTest:
        self._facts.events, self._named = set(), []
        known = ("name", "rules", "given", "answers", "steps")
        entries = self.form.mapping(value, "a test", known, required=("name", "steps"))
        keys = present(entries) if entries is not None else {}
        named = self._list(keys["rules"], "rules") if "rules" in keys else None
        if named == ():
            hint = "leave it out: then all rules are under test"
            self.form.note(keys["rules"], "rules names at least one rule", hint=hint)
        rules = None if named is None else tuple(dict.fromkeys(self._rule(item) for item in named))
        self._under_test = tuple(self._does) if rules is None else rules
        test = RuleTest(
            name=(self.form.text(keys["name"], "name") or "") if "name" in keys else "",
            file=value.document.file,
            line=_line(value),
            rules=rules,
            given=self._facts.read(keys["given"], "given") if "given" in keys else Facts(),
            now=self._facts.now(keys["given"]) if "given" in keys else None,
            answers=self._answers(keys),
            steps=self._steps(keys["steps"]) if "steps" in keys else (),
        )
        events = self._facts.events | (set() if test.given.events else {FIRST_EVENT})
        for event in self._named:
            if event.text not in events:
                message = f"no event '{event.text}' in this test{meant(event.text, events)}"
                self.form.note(event, message, hint=instead(event.text, events), code="event")
        return test

    def _steps(self, value: Value) -> tuple[Step, ...]:
        steps: list[Step] = []
        for item in self._list(value, "steps") or ():
            step = self._step(item)
            if steps and step.at < steps[-1].at:
                hint = "`at` counts from the first look, not from the step before"
                self.form.note(item, "steps go on in time: this one is before the one above it", hint=hint)
            steps.append(step)
        if not steps:
            self.form.note(value, "a test has at least one step", hint="- {at: 0s, expect: []}")
        return tuple(steps)

    def _step(self, value: Value) -> Step:
        known = ("at", "set", "unknown", "answers", "approve", "reject", "expect", "held", "states", "sent")
        entries = self.form.mapping(value, "a step", known, required=("at",))
        keys = present(entries) if entries is not None else {}
        at = self.form.duration(keys["at"], "at", timedelta()) if "at" in keys else None
        unknown = self._list(keys["unknown"], "unknown") if "unknown" in keys else None
        change = self._facts.read(keys["set"], "set") if "set" in keys else None
        return Step(
            at=at or timedelta(),
            line=_line(value),
            change=change,
            unknown=tuple(self._word(item, "fact", self._names.settable) for item in unknown or ()),
            answers=self._answers(keys),
            approve=self._rules_named(keys, "approve"),
            reject=self._rules_named(keys, "reject"),
            expect=self._claims(keys, "expect", self._expected),
            held=self._claims(keys, "held", self._held),
            states=self._claims(keys, "states", self._stands),
            sent=self.form.whole(keys["sent"], "sent", 0) if "sent" in keys else None,
        )

    def _rules_named(self, keys: Mapping[str, Value], name: str) -> tuple[RuleId, ...]:
        return tuple(self._rule(item) for item in self._list(keys[name], name) or ()) if name in keys else ()

    def _claims(
        self, keys: Mapping[str, Value], name: str, read: Callable[[Mapping[str, Value]], _Claim]
    ) -> tuple[_Claim, ...] | None:
        """The items of a list of mappings; None where the key is not there."""
        if name not in keys:
            return None
        known, required = _KEYS[name]
        found: list[_Claim] = []
        for item in self._list(keys[name], name) or ():
            entries = self.form.mapping(item, f"an item of {name}", known, required)
            if entries is not None:
                found.append(read(present(entries)))
        return tuple(found)

    def _expected(self, keys: Mapping[str, Value]) -> Expected:
        action = self._word(keys["action"], "action", ACTIONS) if "action" in keys else ""
        params = keys.get("params")
        if isinstance(params, Entries) and action in ACTIONS and not ACTIONS[action].extra_params:
            self.form.keys(params, f"the parameters of {action}", ACTIONS[action].params)
        elif params is not None and not isinstance(params, Entries):
            self.form.note(params, "params must be a mapping", hint="write params: {total_budget: 500}")
        return Expected(
            rule=self._rule(keys["rule"]) if "rule" in keys else RuleId(""),
            action=action,
            event=self._event(keys),
            params=_flat(params) if isinstance(params, Entries) else {},
        )

    def _held(self, keys: Mapping[str, Value]) -> Held:
        return Held(
            rule=self._rule(keys["rule"]) if "rule" in keys else RuleId(""),
            reason=self._word(keys["reason"], "reason", REASONS) if "reason" in keys else "",
            event=self._event(keys),
        )

    def _stands(self, keys: Mapping[str, Value]) -> Stands:
        return Stands(
            action=self._word(keys["action"], "action", ACTIONS) if "action" in keys else "",
            state=self._word(keys["state"], "state", STATES) if "state" in keys else "",
            rule=self._rule(keys["rule"]) if "rule" in keys else None,
            event=self._event(keys),
        )

    def _answers(self, keys: Mapping[str, Value]) -> tuple[Answer, ...]:
        return self._claims(keys, "answers", self._answer) or ()

    def _answer(self, keys: Mapping[str, Value]) -> Answer:
        answer: int | str = 200
        given = keys.get("answer")
        if isinstance(given, Scalar) and given.integer is not None:
            answer = given.integer
            if not STATUS_MIN <= answer <= STATUS_MAX:
                message = f"an answer is a status from {STATUS_MIN} to {STATUS_MAX}, not {answer}"
                self.form.note(given, message, hint=f"write 200, 429, or one of {', '.join(LOST_ANSWERS)}")
        elif given is not None:
            answer = self._word(given, "answer", LOST_ANSWERS)
        effect = self._effect(keys["effect"]) if "effect" in keys else None
        accepted = isinstance(answer, int) and 200 <= answer <= 299
        return Answer(
            action=self._answered(keys["action"]) if "action" in keys else "",
            answer=answer,
            effect_after=timedelta() if accepted and "effect" not in keys else effect,
        )

    def _effect(self, value: Value) -> timedelta | None:
        spelled = value.text.split() if isinstance(value, Scalar) else []
        if spelled == ["hidden"]:
            return timedelta()
        if len(spelled) == 2 and spelled[0] == "late":
            try:
                return parse_duration(spelled[1])
            except ValueError as error:
                wrong = str(error).partition("; ")[0]
                self.form.note(value, f"effect: {wrong}", hint=f"write late {duration_meant(spelled[1])}")
        elif spelled != ["none"]:
            tail = meant(spelled[0], ("hidden", "none", "late")) if spelled else ""
            self.form.note(
                value, f"effect is hidden, none, or late and a duration{tail}", hint="write effect: late 40s"
            )
        return None

    def _answered(self, value: Value) -> str:
        """An action that some rule under test does: an answer to what nobody does would be met by nobody."""
        found = self._word(value, "action", ACTIONS)
        does = frozenset[str]().union(*(self._does.get(rule, ()) for rule in self._under_test))
        if found in ACTIONS and does and found not in does:
            hint = f"write {' or '.join(sorted(does))}"
            self.form.note(value, f"no rule under test does '{found}'", hint=hint, code="action")
        return found

    def _rule(self, value: Value) -> RuleId:
        return RuleId(self._word(value, "rule", self._names.rules))

    def _event(self, keys: Mapping[str, Value]) -> EventId | None:
        named = keys.get("event")
        if named is None:
            return None
        if isinstance(named, Scalar):
            self._named.append(named)
        return EventId(self.form.text(named, "event") or "")

    def _word(self, value: Value, what: _Word, known: Collection[str]) -> str:
        """A name that must be known."""
        found = self.form.text(value, what)
        if found is not None and found not in known:
            self.form.note(
                value, f"unknown {what} '{found}'{meant(found, known)}", hint=instead(found, known), code=what
            )
        return found or ""

    def _list(self, value: Value, what: str) -> tuple[Value, ...] | None:
        if isinstance(value, Items):
            return value.items
        item = value.text if isinstance(value, Scalar) and what not in _KEYS else ""
        if what in _KEYS:
            item = f"{{{', '.join(f'{name}: …' for name in _KEYS[what][1])}}}"
        self.form.note(value, f"{what} must be a list", hint=f"write {what}: [{item or '…'}]")
        return None


_KEYS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "expect": (("rule", "action", "event", "params"), ("rule", "action")),
    "held": (("rule", "reason", "event"), ("rule", "reason")),
    "states": (("action", "state", "rule", "event"), ("action", "state")),
    "answers": (("action", "answer", "effect"), ("action", "answer")),
}
"""The keys of each list's items, and those that must be there."""


def _flat(params: Entries) -> dict[str, Json]:
    """The parameters as they are sent: what stands under ``extra`` is beside the others."""
    found: dict[str, Json] = {}
    for key, value in params.entries:
        if key.text == EXTRA and isinstance(value, Entries):
            found.update((name.text, part.json) for name, part in value.entries)
        else:
            found[key.text] = value.json
    return found


def _line(value: Value) -> int:
    return value.document.line_of(value.start)
