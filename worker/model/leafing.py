"""What somebody who leafs through the ledger asks for, and the counts that charts are drawn from."""

from dataclasses import dataclass
from datetime import datetime

from worker.model.writes import State


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Which records to show; everything given must hold. ``before_seq``: only older ones, for leafing back."""

    partner: str | None = None
    event: str | None = None
    rule: str | None = None
    write: int | None = None
    kind: str | None = None
    reason: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before_seq: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFilter:
    """Which writes to show; everything given must hold. ``before_id``: only older ones, for leafing back."""

    state: str | None = None
    partner: str | None = None
    event: str | None = None
    rule: str | None = None
    before_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """How many writes came to stand in a state on a day (UTC, ``2026-01-31``)."""

    day: str
    state: State
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The writes that were confirmed on a day (UTC), by a read, an answer or a person: how many, and within how many
    seconds after the look at which their rules fired half of them, and 95 of 100, were."""

    day: str
    count: int
    middle_s: float
    slow_s: float
