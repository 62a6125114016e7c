"""What a guard may look at, and the four ways of saying no."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from worker.model.commits import Halt
from worker.model.facts import UNREAD, Fact, Json, RuleId
from worker.model.rules import Judgement, Truth
from worker.model.writes import Write

# Which halt stops a write, for the guard that says no and for those who show what holds a write.
#
# A write keeps what it was held by when it was last judged. Once the halt is ended that is no longer so, and the daemon
# may not be running to say it: whoever shows a write asks here.


def halt_of(write: Write, halts: Iterable[Halt]) -> Halt | None:
    """The halt of everything, the partner or the rule that stops it. A write that several rules want goes on for those
    of them that are not halted."""
    of_partner = [halt for halt in halts if halt.partner in (None, write.key.partner)]
    found = [_of_rule(of_partner, rule) for rule in write.rules or (write.key.rule,)]
    return None if None in found else found[0]


def as_of_now(write: Write, halts: Sequence[Halt]) -> Write:
    """The write to be shown where ``halts`` are in force: not as held by one that has ended."""
    if write.held_by != "halt" or halt_of(write, halts) is not None:
        return write
    return replace(write, held_by=None, held_until=None, why="no longer halted: the next look judges it anew")


def _of_rule(halts: Iterable[Halt], rule: RuleId) -> Halt | None:
    return next((halt for halt in halts if halt.rule in (None, rule)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class No:
    """A guard's no. ``hold``: the write stays as it is and says why; ``skip`` and ``refuse`` end it; ``ask``: a person
    shall approve first; ``confirm``: it is there already, by its own earlier attempt.
    ``drop``: an unknown write that is proved absent and that nobody asks for any more."""

    way: Literal["hold", "skip", "refuse", "ask", "confirm", "drop"]
    reason: str
    why: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The brakes of the ``safety`` section. Amounts are in the partner's currency."""

    writes_per_hour: int = 120
    spend_per_event: float | None = None
    spend_per_day: float | None = None
    held_longer_than: timedelta = timedelta(hours=1)


_NOTHING: Mapping[str, Fact] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One write about to be sent.

    ``on_target``: other unsettled writes of its target. ``earlier``: the writes of its sequence that come before it.
    ``unvouched``: assumptions it leans on that nobody vouched for. ``judgement``: its condition on fresh facts.
    ``facts``: the fresh facts by name; ``budget_range`` only where the write carries a budget. ``touched``: of an undo,
    in words, that looks have seen another hand change its target since it was planned; ``left``: what those of the
    writes that it undoes left there which may have had an effect. ``put_back_by``: the undo that is to put this write
    back. ``approved_amount``: what somebody who approved it was shown that it spends.
    """

    write: Write
    now: datetime
    limits: Limits
    halts: tuple[Halt, ...] = ()
    on_target: tuple[Write, ...] = ()
    earlier: tuple[Write, ...] = ()
    unvouched: tuple[str, ...] = ()
    credentials_until: datetime | None = None
    approved_amount: float | None = None
    judgement: Judgement = field(default_factory=lambda: Judgement(truth=Truth.UNKNOWN, why="not judged"))
    facts: Mapping[str, Fact] = field(default_factory=lambda: _NOTHING)
    touched: str | None = None
    left: Mapping[str, Json] | None = None
    put_back_by: Write | None = None

    def fact(self, name: str) -> Fact:
        """The fresh fact, or unread."""
        return self.facts.get(name, UNREAD)
