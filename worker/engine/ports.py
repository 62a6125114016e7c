"""What the engine needs of the world: a clock, the service and a ledger, as protocols.

Only `worker.cli.wiring` and the simulation build the real ones. A port says nothing of httpx, SQL or files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Protocol

from worker.model.commits import Brake, Commit, DaemonStatus, Halt, Move, SendingView
from worker.model.facts import Fact, FactKey, Json, Known
from worker.model.ids import EventId, PartnerId, RuleId, WriteId
from worker.model.memory import PartnerMemory, RuleMemory
from worker.model.outcomes import Outcome
from worker.model.writes import Intent, Write


class Clock(Protocol):
    """Time and sleep. ``monotonic`` (seconds) decides order and age; ``now`` (aware UTC) is for people and memory."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class Urgency(IntEnum):
    """Who goes first when the budget is short."""

    WRITE = 0
    EVIDENCE = 1
    PREFLIGHT = 2
    LISTING = 3
    FACT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One pass over ``GET /events/``. Well-formed items of any page are facts; absence needs ``complete``."""

    events: Mapping[EventId, Known]
    complete: bool
    why: str = ""
    began_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """One request to be sent, with its secrets left out: headers are added by the client. ``host`` is api or cr."""

    host: str
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Json = None

    def as_json(self, url: str) -> dict[str, Json]:
        """The form that the log keeps."""
        return {"method": self.method, "url": url, "body": self.body}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """``data.state`` of a task read: ``running`` for anything that is neither in task.succeeded nor task.failed."""

    state: str
    verdict: str
    """succeeded, failed, running or unreadable."""


class Service(Protocol):
    """The remote API for the engine. Reads return facts, never raise; writes return one of four outcomes."""

    async def partners(self) -> tuple[PartnerId, ...]:
        """Signed in, the partners that the token names now. Raises `NotSafe` where credentials are refused."""
        ...

    async def listing(self, partner: PartnerId) -> Listing: ...

    async def read(
        self,
        partner: PartnerId,
        event: EventId | None,
        key: FactKey,
        *,
        urgency: Urgency,
        max_age: timedelta = timedelta(0),
    ) -> Fact:
        """One fact; a stored answer younger than ``max_age`` will do, else the floor and the budget are waited for."""
        ...

    async def task_state(self, partner: PartnerId, event: EventId) -> TaskState: ...

    def request_for(self, partner: PartnerId, event: EventId, intent: Intent, item: str) -> WriteRequest:
        """The request of a write. Pure: leans on assumptions, not on state."""
        ...

    def url(self, request: WriteRequest) -> str: ...

    async def send(self, partner: PartnerId, request: WriteRequest, *, not_after: float) -> Outcome:
        """One attempt, on a connection of its own. Not sent (`NotSent`, stale) once monotonic time is past
        ``not_after``. The pace must have been waited for before: see ``ready_to_write``."""
        ...

    async def ready_to_write(self, partner: PartnerId) -> None:
        """Waits until the partner's back-off is over and its budget has room for one write."""
        ...


class Ledger(Protocol):
    """The store. Synchronous: a transaction is short and local. Every method may raise `LedgerUnwritable`."""

    def apply(self, commit: Commit) -> tuple[Write, ...]:
        """One transaction; returns the new writes in the order of ``plans``. `StateConflict` undoes all of it."""
        ...

    def record_sending(self, move: Move, check: Callable[[SendingView], Brake | None]) -> Brake | None:
        """Records ``sending`` durably unless ``check``, called inside the transaction, names a brake; then nothing is
        changed. The mark beside the ledger is replaced before this returns."""
        ...

    def partner_memory(self, partner: PartnerId) -> PartnerMemory | None: ...
    def rule_memories(self, partner: PartnerId) -> tuple[RuleMemory, ...]: ...
    def write(self, write_id: WriteId) -> Write | None: ...
    def open_writes(self, partner: PartnerId | None = None) -> tuple[Write, ...]:
        """Every write that is not final, oldest first."""
        ...

    def episode_writes(self, partner: PartnerId, event: EventId, rule: RuleId, episode: int) -> tuple[Write, ...]: ...

    def first_sendings(
        self, partner: PartnerId, since: datetime
    ) -> Mapping[tuple[EventId, RuleId], Sequence[datetime]]:
        """When the first attempt of each episode was recorded, by (event, rule), since a time; unsent ones do not
        count. Serves cooldown and limit."""
        ...

    def firings(self, partner: PartnerId, since: datetime) -> Sequence[tuple[RuleId, EventId, datetime]]:
        """Firings since a time, for surge."""
        ...

    def halts(self, now: datetime) -> tuple[Halt, ...]: ...
    def save_status(self, status: DaemonStatus) -> None: ...
