"""What a step claims against what happened, in words that show the difference.

``expect`` is exactly what fired since the step before. ``held`` names what holds a rule at this look, or came to hold
it since the step before; an empty list says that nothing is held now. ``states`` names the newest writes of each place
in a rule's ``do``. ``sent`` counts every attempt of the test so far whose bytes left.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from worker.model.facts import Json
from worker.model.ids import EventId, RuleId
from worker.model.writes import Write
from worker.rules.durations import duration_text
from worker.rules.testfile import Expected, Held, Stands, Step

_Claimed = TypeVar("_Claimed")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """One action of one firing. ``each``: it is one of several, one for each item."""

    rule: RuleId
    action: str
    event: EventId
    at: timedelta
    params: Mapping[str, Json] = field(default_factory=dict)
    each: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Something that holds a rule's firing or its write. ``now``: at this look, not only since the step before."""

    rule: RuleId
    event: EventId
    reason: str
    why: str = ""
    now: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Because:
    """Why a rule did not fire for an event: what its condition is, and what holds it."""

    rule: RuleId
    event: EventId
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """What a step is compared with."""

    fired: Sequence[Fired]
    holding: Sequence[Holding]
    writes: Sequence[Write]
    sent: int
    because: Callable[[], tuple[Because, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One claim that did not hold: what was expected and what happened, each in words, and what of both has no match
    on the other side. ``because``: why rules did not fire."""

    at: timedelta
    line: int
    claim: str
    expected: tuple[str, ...]
    happened: tuple[str, ...]
    missing: tuple[str, ...]
    surplus: tuple[str, ...]
    because: tuple[Because, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """The difference, for a person."""
        whys = [f"{one.rule} did not fire for {one.event}: {one.why}" for one in self.because]
        return (
            f"step at {duration_text(self.at)} (line {self.line}), {self.claim}:",
            *(f"  - expected {line}" for line in self.missing or ("nothing more" if self.expected else "nothing",)),
            *(f"  + happened {line}" for line in self.surplus or ("nothing more" if self.happened else "nothing",)),
            *(f"    {line}" for line in whys),
        )


def failures_of(step: Step, happened: Happened) -> list[Failure]:
    """The claims of a step that do not hold."""
    found = (_of_expect(step, happened), _of_held(step, happened), _of_states(step, happened), _of_sent(step, happened))
    return [one for one in found if one is not None]


def _of_expect(step: Step, happened: Happened) -> Failure | None:
    """Exactly what fired. A claim without ``params`` stands for all the writes of an action with ``each``."""
    if step.expect is None:
        return None
    missing, surplus = _paired(step.expect, happened.fired, _is_expected)
    whole = [claim for claim in step.expect if not claim.params]
    surplus = [one for one in surplus if not (one.each and any(_is_expected(claim, one) for claim in whole))]
    if not missing and not surplus:
        return None
    named = {one.rule for one in missing}
    return Failure(
        at=step.at,
        line=step.line,
        claim="expect",
        expected=tuple(_spelled_expected(one) for one in step.expect),
        happened=tuple(_spelled_fired(one) for one in happened.fired),
        missing=tuple(_spelled_expected(one) for one in missing),
        surplus=tuple(_spelled_fired(one) for one in surplus),
        because=tuple(one for one in happened.because() if one.rule in named),
    )


def _of_held(step: Step, happened: Happened) -> Failure | None:
    """At least these; with an empty list, nothing now."""
    if step.held is None:
        return None
    missing, _ = _paired(step.held, happened.holding, _is_held)
    now = [one for one in happened.holding if one.now]
    if not missing and (step.held or not now):
        return None
    named = {one.rule for one in missing}
    return Failure(
        at=step.at,
        line=step.line,
        claim="held",
        expected=tuple(_spelled_held(one) for one in step.held),
        happened=tuple(_spelled_holding(one) for one in happened.holding),
        missing=tuple(_spelled_held(one) for one in missing),
        surplus=tuple(_spelled_holding(one) for one in (happened.holding if step.held else now)),
        because=tuple(one for one in happened.because() if one.rule in named),
    )


def _of_states(step: Step, happened: Happened) -> Failure | None:
    """At least these; with an empty list, no writes at all."""
    if step.states is None:
        return None
    missing, surplus = _paired(step.states, happened.writes, _stands)
    if not missing and (step.states or not surplus):
        return None
    return Failure(
        at=step.at,
        line=step.line,
        claim="states",
        expected=tuple(_spelled_stands(one) for one in step.states),
        happened=tuple(_spelled_write(one) for one in happened.writes),
        missing=tuple(_spelled_stands(one) for one in missing),
        surplus=tuple(_spelled_write(one) for one in surplus),
    )


def _of_sent(step: Step, happened: Happened) -> Failure | None:
    """How many attempts have left so far."""
    if step.sent is None or step.sent == happened.sent:
        return None
    expected, found = (f"{step.sent} sent",), (f"{happened.sent} sent",)
    return Failure(
        at=step.at, line=step.line, claim="sent", expected=expected, happened=found, missing=expected, surplus=found
    )


def _paired(
    claims: Sequence[_Claimed], found: Sequence[_Found], fits: Callable[[_Claimed, _Found], bool]
) -> tuple[list[_Claimed], list[_Found]]:
    """The claims that nothing of their own meets, and what no claim is about; as many pairs as can be made."""
    owner: dict[int, int] = {}

    def place(claim: int, tried: set[int]) -> bool:
        for index, one in enumerate(found):
            if index not in tried and fits(claims[claim], one):
                tried.add(index)
                if index not in owner or place(owner[index], tried):
                    owner[index] = claim
                    return True
        return False

    unmet = [claim for index, claim in enumerate(claims) if not place(index, set())]
    return unmet, [one for index, one in enumerate(found) if index not in owner]


def _is_expected(claim: Expected, fired: Fired) -> bool:
    return (
        claim.rule == fired.rule
        and claim.action == fired.action
        and claim.event in (None, fired.event)
        and all(name in fired.params and fired.params[name] == value for name, value in claim.params.items())
    )


def _is_held(claim: Held, holding: Holding) -> bool:
    return claim.rule == holding.rule and claim.reason == holding.reason and claim.event in (None, holding.event)


def _stands(claim: Stands, write: Write) -> bool:
    rules = (write.key.rule, *write.rules)
    return (
        claim.action == write.intent.action
        and claim.state == write.state
        and (claim.rule is None or claim.rule in rules)
        and claim.event in (None, write.key.event)
    )


def _of(event: EventId | None) -> str:
    return "" if event is None else f" for {event}"


def _spelled_expected(one: Expected) -> str:
    return f"{one.rule}: {one.action}{_params(one.params)}{_of(one.event)}"


def _spelled_fired(one: Fired) -> str:
    return f"{one.rule}: {one.action}{_params(one.params)}{_of(one.event)} at {duration_text(one.at)}"


def _spelled_held(one: Held) -> str:
    return f"{one.rule} held by {one.reason}{_of(one.event)}"


def _spelled_holding(one: Holding) -> str:
    when = "" if one.now else " (no longer)"
    return f"{one.rule} held by {one.reason} for {one.event}{when}: {one.why}"


def _spelled_stands(one: Stands) -> str:
    rule = "" if one.rule is None else f" of {one.rule}"
    return f"{one.action}{rule}{_of(one.event)} {one.state}"


def _spelled_write(write: Write) -> str:
    held = f", held by {write.held_by}" if write.held_by is not None else ""
    part = f" ({write.key.item})" if write.key.item else ""
    where = f"{write.intent.action}{part} of {write.key.rule} for {write.key.event}"
    return f"{where} {write.state}: {write.reason}{held}: {write.why}"


def _params(params: Mapping[str, Json]) -> str:
    return " {" + ", ".join(f"{name}: {value}" for name, value in params.items()) + "}" if params else ""
