"""What `advance` is told and what it answers: the closed set of inputs, the policy it judges by, and the step it gives.

Plain shapes without judgement, apart from the function so that those who only hand something in need not know it.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from worker.model.commits import Move
from worker.model.outcomes import Outcome
from worker.writes.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How long and how often to look before anything is concluded; the ``safety`` section for one kind of write.

    ``toggle``: a second send would undo the first, so an unknown outcome is always for a person. ``reads_back``: a read
    can show the effect. ``ask``: unknown outcomes are put before a person at once.
    """

    settle: timedelta
    evidence_reads: int
    evidence_within: timedelta
    confirm_within: timedelta
    max_attempts: int
    interval: timedelta
    ask: bool = False
    toggle: bool = False
    reads_back: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """What this process knows of an unsettled write; lost on a restart on purpose, so that the row begins anew.

    Times are monotonic seconds. ``ended``: end of the last attempt, or the start of the process. ``absent``: reads in a
    row that said *not there*. ``looked_at``: when, by the ledger, a process before this one first read the target after
    the time in which reads should have settled it; None where none did.
    """

    ended: float
    absent: int = 0
    last_read: float | None = None
    looked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """One attempt ended. ``denied_before``: the partner's credentials were refused already, and no write was let in
    since: a refusal of this one is the second in a row."""

    outcome: Outcome
    denied_before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One read of the target, begun at monotonic ``began``, said this; `worker.writes.readback` makes it from a fact.

    ``overtook``: the write went ahead of an opposite one that was not settled then; it is still ``unsettled``, or it
    has ``landed`` meanwhile. None where it overtook nothing, or nothing that came to anything.
    """

    evidence: Evidence
    began: float
    overtook: Literal["unsettled", "landed"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSending:
    """The row stood in ``sending`` when the process started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed:
    """The service's task for this write failed."""

    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A person says whether the write took effect."""

    applied: bool
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwanted:
    """The write is not wanted any more: its condition is definitely false, or a newer write takes its place."""

    reason: str
    why: str


Input: TypeAlias = Attempted | Looked | FoundSending | TaskFailed | Verdict | Unwanted
Then: TypeAlias = Literal["read", "send", "rest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What follows: the move to record (None: nothing changed), the new settling, and what to do next."""

    move: Move | None
    settling: Settling | None
    then: Then
