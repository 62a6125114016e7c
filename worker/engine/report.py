"""What one look at one partner came to, for log lines and figures."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from worker.model.ids import PartnerId, RuleId
from worker.model.rules import Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleReport:
    """One canonical line per cycle. ``judged``: how many conditions were evaluated, by rule and by what they were."""

    partner: PartnerId
    events: int
    complete: bool
    fired: int
    open_writes: int
    took_ms: int
    denied: bool = False
    error: str | None = None
    judged: Mapping[tuple[RuleId, Truth], int] = field(default_factory=dict)
