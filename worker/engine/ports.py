"""What the engine needs of the world: a clock, the service and a ledger, as protocols.

Only `worker.cli.wiring` and the simulation build the real ones. A port says nothing of httpx, SQL or files.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from worker.engine.decide import Decision
from worker.engine.fleet import Fleet
from worker.engine.looks import EngineSettings
from worker.model.commits import (
    Brake,
    Commit,
    DaemonStatus,
    Doing,
    Halt,
    History,
    LogFilter,
    Observed,
    PartnerMemory,
    PartnerNow,
    Record,
    RuleMemory,
    Sending,
    SendingView,
)
from worker.model.errors import UsageError
from worker.model.exchange import Clock, Listing, Message, Outcome, Places, TaskState, Urgency, WriteRequest
from worker.model.facts import EventId, Fact, FactKey, Json, PartnerId, RuleId, WriteId
from worker.model.rules import RuleSet, Truth
from worker.model.writes import Intent, Write

# What one look at one partner came to, for log lines and figures.


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


class Service(Protocol):
    """The remote API for the engine. Reads return facts, never raise; writes return one of four outcomes."""

    async def partners(self) -> tuple[PartnerId, ...]:
        """Signed in, the partners that the token names now. Raises `NotSafe` where credentials are refused."""

    def listing(self, partner: PartnerId, needed: frozenset[str] | None = None, /) -> AsyncIterator[Listing]:
        """The list of events, as far as it is read, again and again, and at last as a whole. ``needed``: the fields of
        an event that are wanted, None for all; others may be there."""

    async def read(
        self,
        partner: PartnerId,
        event: EventId | None,
        key: FactKey,
        *,
        urgency: Urgency,
        max_age: timedelta = timedelta(0),
        places: Places | None = None,
    ) -> Fact:
        """One fact; a stored answer younger than ``max_age`` will do, else the floor is waited for, and the budget
        unless ``places`` were kept."""

    async def keep_places(
        self, partner: PartnerId, event: EventId, keys: Iterable[FactKey], *, urgency: Urgency
    ) -> Places:
        """Waits until these facts may be read, and one write may leave, all together; what is not used of it must be
        given back."""

    async def task_state(self, partner: PartnerId, event: EventId) -> TaskState: ...

    def request_for(self, partner: PartnerId, event: EventId, intent: Intent, item: str) -> WriteRequest:
        """The request of a write. Pure: leans on assumptions, not on state."""

    def url(self, request: WriteRequest) -> str: ...

    async def send(self, partner: PartnerId, request: WriteRequest, *, not_after: float) -> Outcome:
        """One attempt, on a connection of its own. Not sent (`NotSent`, stale) once monotonic time is past
        ``not_after``. The pace must have been waited for before: see ``ready_to_write``."""

    def budget(self, partner: PartnerId) -> float:
        """Requests per minute that the partner may make now; it shrinks by itself on 429."""

    async def ready_to_write(
        self, partner: PartnerId, places: Places | None = None, *, by: float | None = None
    ) -> None:
        """Waits until the partner's back-off is over and its pace has room for one write. Where room was kept, the
        write leaves apart from the reads before it, but no later than ``by`` (monotonic) for that."""


class Notifier(Protocol):
    """Who takes the messages of rules (`notify`). What becomes of one after that is its own business."""

    async def hand_over(self, message: Message) -> None:
        """Takes the message, soon; raises where it cannot, and then it was not taken."""


class ReadableLedger(Protocol):
    """What a ledger can be asked, also one that is open for reading only."""

    def partner_memory(self, partner: PartnerId) -> PartnerMemory | None: ...
    def write(self, write_id: WriteId) -> Write | None: ...
    def open_writes(self, partner: PartnerId | None = None) -> tuple[Write, ...]:
        """Every write that is not final, oldest first."""

    def episode_writes(self, partner: PartnerId, event: EventId, rule: RuleId, episode: int) -> tuple[Write, ...]: ...

    def target_writes(self, partner: PartnerId, event: EventId, target: str) -> tuple[Write, ...]:
        """Every write of a target, final ones too, oldest first."""

    def confirmed(self, partner: PartnerId, events: Collection[EventId]) -> Sequence[Write]:
        """The confirmed writes of these events, oldest first, without messages."""

    def log(self, wanted: LogFilter) -> Iterator[dict[str, Json]]:
        """Records as they are printed, oldest first."""

    def doings(self, partner: PartnerId, event: EventId) -> Sequence[Doing]:
        """What tells who changed a field of the event, oldest first; see `worker.engine.derived`."""

    def writes(self, *, event: str | None = None, partner: str | None = None, rule: str | None = None) -> list[Write]:
        """Every write, oldest first, narrowed by what is given."""

    def observed(self, partner: PartnerId, event: EventId | None = None) -> Sequence[Observed]:
        """Every fact of the partner, or of one event and the partner as a whole, as it was seen last."""

    def history(
        self, partner: PartnerId, since: datetime | None = None, events: Collection[EventId] | None = None
    ) -> History:
        """The facts since a time, or as far back as they are kept; of all events, or of these and the partner."""

    def halts(self, now: datetime) -> tuple[Halt, ...]: ...
    def first_sendings(
        self, partner: PartnerId, since: datetime
    ) -> Mapping[tuple[EventId, RuleId], Sequence[datetime]]:
        """When the first attempt of each episode was recorded, by (event, rule), since a time; unsent ones do not
        count. Serves cooldown and limit."""

    def observed_at(self, partner: PartnerId, event: EventId, at: datetime) -> Sequence[Observed]: ...
    def rule_memories(self, partner: PartnerId, event: EventId | None = None) -> Sequence[RuleMemory]: ...
    def status(self) -> DaemonStatus | None: ...


class Ledger(ReadableLedger, Protocol):
    """The store. Synchronous: a transaction is short and local. Every method may raise `LedgerUnwritable`."""

    def apply(self, commit: Commit) -> tuple[Write, ...]:
        """One transaction; returns the new writes in the order of ``plans``. `StateConflict` undoes all of it."""

    def record_sending(self, sending: Sending) -> Brake | None:
        """Records the attempt, unless its check, called inside of the transaction, names a brake; then nothing is
        changed, and the brake is returned. It is durable, and the mark beside the ledger is replaced, before this
        returns. Whatever it raises, nothing may be sent."""

    def sending_view(self, write: Write, now: datetime) -> SendingView:
        """What `record_sending` would show its check now: for a first opinion before anything is read for a write."""

    def all_rule_memories(self, partner: PartnerId) -> Iterable[RuleMemory]: ...
    def task_reads(self, write: Write) -> int:
        """How often the service's task behind the write's last attempt was read, by any process."""

    def late_s(self, write: Write) -> float:
        """So long after the write's last attempt was recorded a byte of it may still leave; 0 outside of a fleet."""
        ...

    def note_task_read(self, write: Write) -> None:
        """Counts one such read, durably, before it is made."""

    def firings(self, partner: PartnerId, since: datetime) -> Sequence[tuple[RuleId, EventId, datetime]]:
        """Firings since a time, for surge."""

    def last_seq(self, partner: PartnerId | None = None) -> int:
        """The number of the newest record of the chain in which the partner's are; 0 for an empty one."""

    def standing(self, partner: PartnerId, after_seq: int) -> PartnerNow:
        """What a decision about the partner begins with; ``after_seq``: the newest record of the last one."""

    def testify(self, records: Sequence[Record]) -> bool:
        """Stores what a replica has to say of a partner that is another's by now. False where there is no fleet."""

    def save_status(self, status: DaemonStatus) -> None: ...
    def mark_words(self) -> None:
        """Makes sure that a ledger which forgets what persons have said up to now is noticed when it is opened."""


__all__ = ["Clock", "Ledger", "Listing", "Notifier", "Places", "Service", "TaskState", "Urgency", "WriteRequest"]


# What every step of a cycle is built from, handed in as one: the three ports, the settings, the rules in force.


@dataclass(slots=True)
class RulesInUse:
    """The rule set in force; replaced as a whole by a successful load and by nothing else."""

    current: RuleSet


def _nobody(_write: Write, _defect: Exception) -> None:
    """Nobody is told; for tests that look at the state instead."""


class Nowhere:
    """The notifier of a worker that was given none: it takes no message, so that none is called delivered."""

    async def hand_over(self, message: Message) -> None:
        """Raises `UsageError`: the message is held."""
        raise UsageError(f"nobody takes messages here: {message.text}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """``notifier``: who takes the messages of rules. ``stopping``: nothing new may be recorded any more. ``defect``:
    told of an exception that should not exist. ``scrubbed``: takes the secrets that the service's client has in hand
    out of a text. ``decided``: told of every decision once it is stored. ``instead``: takes every attempt in the place
    of service and notifier, which send nothing then: what `plan` and rule tests have. ``fleet``: this process's
    part in one."""

    clock: Clock
    service: Service
    ledger: Ledger
    settings: EngineSettings
    notifier: Notifier = field(default_factory=Nowhere)
    rules: RulesInUse = field(default_factory=lambda: RulesInUse(RuleSet()))
    stopping: Callable[[], bool] = lambda: False
    defect: Callable[[Write, Exception], None] = _nobody
    scrubbed: Callable[[str], str] = str
    decided: Callable[[Decision], None] | None = None
    fleet: Fleet | None = None
    instead: Callable[[Write, WriteRequest], Awaitable[Outcome]] | None = None


class Stage:
    """A stage of the cycle, with the parts at hand. One instance serves all partners: what differs between them is in
    the state that is handed in."""

    def __init__(self, parts: Parts) -> None:
        self._clock, self._service, self._ledger = parts.clock, parts.service, parts.ledger
        self._settings, self._rules, self._stopping = parts.settings, parts.rules, parts.stopping


# Whether the daemon is well, from what it last said of itself. Pure.
#
# One judgement for the command, the page and the orchestrator that asks it: a complete look at every partner, younger
# than three intervals, or than three looks where the list is so long that one takes longer. A look that is older means
# that nothing is decided on what is so now, whatever else still runs.

HEALTHY_INTERVALS = 3
RELOAD_EVERY = timedelta(seconds=2)
"""How often a daemon looks at its rule files; a change takes no longer than this to be in force, or refused."""


def unhealthy(body: Mapping[str, Json], now: datetime, interval: timedelta) -> str | None:
    """Why the worker is not well, or None. ``body``: what the daemon saved of itself."""
    partners = body.get("partners")
    if not isinstance(partners, Mapping) or not partners:
        unreachable = body.get("unreachable")
        return f"no partner is watched yet{f': {unreachable}' if unreachable else ''}"
    for partner, said in partners.items():
        one = said if isinstance(said, Mapping) else {}
        last, took = one.get("last_ok_at"), one.get("look_s")
        if not isinstance(last, str):
            return f"{partner}: no complete cycle yet"
        age = now - datetime.fromisoformat(last)
        look = timedelta(seconds=took) if isinstance(took, int | float) else interval
        if age > HEALTHY_INTERVALS * max(interval, look):
            return f"{partner}: the last complete cycle is {age.total_seconds():.0f} s old"
    return None
