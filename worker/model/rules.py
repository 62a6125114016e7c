"""A rule as the core sees it: already checked, with its condition behind one small protocol.

Text, CEL and positions live in `worker.rules`; the core and the tests need only what stands here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Literal, Protocol, TypeAlias, Union, runtime_checkable

from worker.model.facts import UNREAD, Fact, FactKey, Json, Observation, PartnerId, RuleId
from worker.model.writes import Mode


class Truth(Enum):
    """Three-valued: unknown is a fact that could not be read, an evaluation error, or a result that is no boolean."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a condition is at one poll. ``why`` names the values or the fact that decided; ``unknown`` the missing."""

    truth: Truth
    why: str
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a condition or a computed value is judged in: one event's facts under one rule's parameters, at ``now``."""

    observation: Observation
    keys: Mapping[str, FactKey]
    now: datetime
    extra: Mapping[str, Json] = field(default_factory=dict)
    """``previous``, ``added`` and ``removed`` of an ``on_change`` rule; absent names are unknown."""

    def fact(self, name: str) -> Fact:
        """The fact of that name under this rule's parameters; unread where they cannot be resolved yet."""
        key = self.keys.get(name)
        return UNREAD if key is None else self.observation.get(key)

    def without(self, name: str) -> "Scope":
        """The same where nothing is known of that fact, nor of a change of it."""
        facts = {key: fact for key, fact in self.observation.facts.items() if key.name != name}
        return replace(self, observation=replace(self.observation, facts=facts), extra={})


class Formula(Protocol):
    """CEL, compiled. ``names`` are the facts that it mentions."""

    @property
    def source(self) -> str: ...
    @property
    def names(self) -> frozenset[str]: ...


class Condition(Formula, Protocol):
    """A compiled ``when``."""

    def judge(self, scope: Scope) -> Judgement: ...


@runtime_checkable
class Computed(Formula, Protocol):
    """A value in ``do`` that begins with ``=``: computed when the rule fires. Raises `ValueError` with the reason."""

    def value(self, scope: Scope) -> Json: ...


MISSED_AFTER = timedelta(minutes=5)
"""So long after a time of ``at`` its rule may still be looked at, and fire, where no fact was unknown."""


class Times(Protocol):
    """The times of ``at``. Aware UTC in and out; None where there is none."""

    @property
    def source(self) -> str: ...
    @property
    def timezone(self) -> str: ...
    def latest(self, now: datetime) -> datetime | None: ...
    def next(self, now: datetime) -> datetime | None: ...


class Hours(Protocol):
    """The hours of ``between``: when they begin next, None while they last. Aware UTC in and out."""

    @property
    def source(self) -> str: ...
    def opens(self, now: datetime) -> datetime | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """One fact of ``on_change``; ``by`` narrows the comparison to these fields. ``before`` and ``after``: the values
    between which the one field must change; empty where any will do. ``costly``: reading it costs a request for each
    event, so it is only read while the rest of the condition can be true."""

    fact: str
    by: tuple[str, ...] = ()
    before: tuple[Json, ...] = ()
    after: tuple[Json, ...] = ()
    costly: bool = False

    def asks_for(self, old: Json, new: Json) -> bool:
        """Whether the change of a compared value from ``old`` to ``new`` is one that the rule asks for."""
        old, new = (one[self.by[0]] if isinstance(one, dict) and self.by else one for one in (old, new))
        return (not self.before or old in self.before) and (not self.after or new in self.after)


Template: TypeAlias = Union[Json, Computed, "list[Template]", "dict[str, Template]"]
"""A value as it is written: some of it, at any depth, may still have to be computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleStep:
    """One action of ``do``: its name and its parameters, some of them still to be computed. ``each``: one write for
    every item of this list for which ``where`` is true: ``added``, or the name of a fact. ``relative``: the fields of
    its own target that a value is computed from. ``remind``: after how long a message is said again; ``ended``: what is
    said when the condition ends."""

    action: str
    params: Mapping[str, Template] = field(default_factory=dict)
    each: str = ""
    where: Condition | None = None
    relative: tuple[str, ...] = ()
    remind: timedelta | None = None
    ended: Template = None

    @property
    def lists(self) -> frozenset[str]:
        """The facts that ``each`` goes through and ``where`` names."""
        return frozenset({self.each} - {"", "added"}) | (self.where.names if self.where is not None else frozenset())

    @property
    def computed(self) -> tuple[Computed, ...]:
        """Every value that is computed at the firing."""
        return tuple(computed_in([dict(self.params), self.ended]))


def computed_in(value: Template) -> Iterator[Computed]:
    """Everything in a value that is computed at the firing."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from computed_in(part)
    elif not isinstance(value, str | int | float | None):  # a protocol is slow to ask, and this is asked at every poll
        yield value


@dataclass(frozen=True, slots=True, kw_only=True)
class Surge:
    """More than ``events`` distinct events within ``within`` wait for approval."""

    events: int
    within: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendLimits:
    """The most that writes may add to budgets, in the partner's currency: for one event ever, and over the last 24 and
    168 hours. None: any amount."""

    per_event: float | None = None
    per_day: float | None = None
    per_week: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. ``when`` None is always true. ``after``: the rule of which a write must stand on the event; ``when``
    says so itself. ``do_hash``: of the texts of ``do`` and ``with``."""

    id: RuleId
    file: str
    line: int = 0
    description: str = ""
    when: Condition | None = None
    on_change: tuple[Watch, ...] = ()
    hold_for: timedelta | None = None
    at: Times | None = None
    between: Hours | None = None
    repeat: Literal["once", "enforce"] = "once"
    cooldown: timedelta | None = None
    per_event_per_day: int | None = None
    per_rule_per_day: int | None = None
    spend: SpendLimits | None = None
    priority: int = 0
    partners: frozenset[PartnerId] | None = None
    enabled: bool = True
    mode: Mode | None = None
    surge: Surge | None = None
    after: RuleId | None = None
    parameters: Mapping[str, "str | float | int"] = field(default_factory=dict)
    do: tuple[RuleStep, ...] = ()
    on_unknown: Literal["settle", "ask"] = "settle"
    do_hash: str = ""
    names: frozenset[str] = field(init=False, repr=False, compare=False)
    """Every fact that the rule names: in ``when``, ``on_change`` and computed values. Asked for at every poll."""
    past: frozenset[str] = field(init=False, repr=False, compare=False)
    """Every fact that it names as it was some time ago."""

    def __post_init__(self) -> None:
        names = set(self.when.names) if self.when else set()
        names |= {watch.fact for watch in self.on_change}
        for step in self.do:
            names |= {name for value in step.computed for name in value.names} | step.lists
        object.__setattr__(self, "names", frozenset(names))
        texts = (self.when, *(text for step in self.do for text in (step.where, *step.computed)))
        object.__setattr__(self, "past", frozenset[str]().union(*(getattr(one, "past", ()) for one in texts)))

    @property
    def paced(self) -> bool:
        """Whether it acts only at times, or so often a day."""
        return self.at is not None or self.per_event_per_day is not None or self.per_rule_per_day is not None

    def judge(self, scope: Scope) -> Judgement:
        """What its condition is."""
        return Judgement(truth=Truth.TRUE, why="no condition") if self.when is None else self.when.judge(scope)

    def may_hold(self, scope: Scope) -> bool:
        """Whether its condition is not definitely false."""
        return self.judge(scope).truth is not Truth.FALSE

    def applies_to(self, partner: PartnerId) -> bool:
        """Whether the rule is enabled, and for this partner."""
        return self.enabled and (self.partners is None or partner in self.partners)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """All rules of a folder, sorted by id. ``hash`` is of what was loaded, file by file."""

    rules: tuple[Rule, ...] = ()
    hash: str = ""

    def get(self, rule_id: RuleId) -> Rule | None:
        """The rule with that id, or None."""
        return next((rule for rule in self.rules if rule.id == rule_id), None)
