"""What goes into the ledger in one transaction: memory, new writes, moves of writes and records, or none of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from worker.model.facts import Json
from worker.model.ids import EventId, PartnerId, RuleId, WriteId
from worker.model.memory import PartnerMemory, RuleMemory
from worker.model.records import WORKER, Record
from worker.model.trail import Trail
from worker.model.writes import Plan, Write


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One write's change of state. The ledger updates only a row that still equals ``before`` in state, attempt and
    ``changed_at``; anything else is a `StateConflict` and undoes the whole commit."""

    before: Write
    after: Write
    records: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One transaction. Order inside: records, memory, moves, plans, trail. Every plan also gets a record of its state's
    kind, with the plan's reason and why, because only the ledger knows its number. ``by``: who planned them."""

    at: datetime
    records: tuple[Record, ...] = ()
    memory: tuple[RuleMemory, ...] = ()
    partner: PartnerMemory | None = None
    moves: tuple[Move, ...] = ()
    plans: tuple[Plan, ...] = ()
    trail: Trail | None = None
    by: str = WORKER

    @property
    def empty(self) -> bool:
        """Nothing to store."""
        return not (self.records or self.memory or self.partner or self.moves or self.plans or self.trail)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChange:
    """One pair's memory that a person's word replaces, where it still is what the person saw."""

    before: RuleMemory
    after: RuleMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """A person's stop of new writes: for all, one partner or one rule, perhaps until a time."""

    id: int
    partner: PartnerId | None
    rule: RuleId | None
    until: datetime | None
    because: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """Money that one attempt carried or committed, in the partner's currency: what its brake was judged by."""

    write: WriteId
    event: EventId
    action: str
    target: str
    at: datetime
    amount: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingView:
    """What a brake may look at inside the very transaction that records ``sending``.

    ``on_target``: other writes of the same (partner, event, target) in sending, applied, unknown or needs_human.
    ``sent_last_hour``: attempts recorded for the partner in the last hour that do more than stop spending, with times.
    ``booked``: the money of the partner's attempts since the last midnight UTC, and of those for the event ever;
    unknown outcomes are among them, those that are known to have had no effect are not.
    """

    halts: tuple[Halt, ...] = ()
    on_target: tuple[Write, ...] = ()
    sent_last_hour: tuple[datetime, ...] = ()
    booked: tuple[Booking, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Brake:
    """A no to one attempt: the reason code, the words, and until when (None: until something changes)."""

    reason: str
    why: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """An attempt to be recorded: the move to ``sending``, the brake that has the last word, called within the
    transaction and looking at nothing but the view, and the money that the attempt carries or commits, None where there
    is none."""

    move: Move
    check: Callable[[SendingView], Brake | None]
    amount: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFilter:
    """Which records to read. ``after_seq`` serves ``--follow``."""

    since: datetime | None = None
    partner: str | None = None
    event: str | None = None
    rule: str | None = None
    write: int | None = None
    after_seq: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainBreak:
    """The first place where the hash chain does not hold."""

    seq: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    """What the daemon last said of itself, as the JSON of ``status`` without the parts read from tables."""

    pid: int
    since: datetime
    seen_at: datetime
    body: Mapping[str, Json] = field(default_factory=dict)
