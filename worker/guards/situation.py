"""What a guard may look at, and the four ways of saying no."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from worker.model.commits import Halt
from worker.model.facts import UNREAD, Fact, Json
from worker.model.rules import Judgement, Truth
from worker.model.writes import Write


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
