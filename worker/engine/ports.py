"""What the engine needs of the world: a clock, the service and a ledger, as protocols; and which partners are its own.

Only `worker.cli.wiring` and the simulation build the real ones. A port says nothing of httpx, SQL or files.

In a fleet each replica sees the same rows and comes to the same sharing: what is free goes to whoever has least, in an
order that is a hash of partner and replica; who has two more than another gives one back, once nothing of it is under
way. The beat, once a second, runs in the loop that polls, so that a replica whose loop stands loses its partners. Of
two that differ all the same, the partner's row lets one have it.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from worker.engine.decide import Decision
from worker.engine.views import EngineSettings
from worker.model.commits import (
    Commit,
    DaemonStatus,
    Doing,
    Halt,
    History,
    Hold,
    LogFilter,
    Observed,
    PartnerMemory,
    PartnerNow,
    Record,
    RuleMemory,
    Sending,
    SendingView,
)
from worker.model.errors import LedgerUnwritable, StateConflict
from worker.model.exchange import (
    Clock,
    Listing,
    Outcome,
    Owner,
    Places,
    Shares,
    Taken,
    TaskState,
    Urgency,
    WriteRequest,
)
from worker.model.facts import EventId, Fact, FactKey, Json, PartnerId, RuleId, WriteId
from worker.model.rules import RuleSet, Truth
from worker.model.writes import Intent, Write

BEAT_S = 1.0
READS_FOR_S = 2.0
"""So long after its last beat a replica still asks the service: long enough before its lease is over that whoever takes
its partners then need not wait for the floor."""
AT_ONCE = 20
"""Of so many partners too many one is handed over in each beat, and of fewer one."""
NOBODY = Owner()
NOTHING_PUBLISHED = "generation 0"
"""What the rules' source says before there are any. A set without rules is one: what was sent is settled under it."""


class FleetRows(Protocol):
    """The rows of the fleet in the ledger. ``epochs``: the partners that are this replica's own."""

    replica: str
    epochs: Mapping[PartnerId, int]

    def beat(self, state: str, /) -> Shares: ...
    def take(self, partner: PartnerId, seen: Owner, /) -> Taken | None: ...
    def release(self, partner: PartnerId, pace: Mapping[str, Json], /) -> None: ...
    def save_pace(self, partner: PartnerId, pace: Mapping[str, Json], /) -> None: ...
    def leave(self) -> None: ...


class Paces(Protocol):
    """The paces of the partners, which go with them. ``lease``: until when requests may leave."""

    def lease(self, until: float) -> None: ...
    def said(self, partner: PartnerId) -> Mapping[str, Json]: ...
    def handed_over(self, partner: PartnerId) -> Mapping[str, Json]: ...
    def take_over(self, partner: PartnerId, said: Mapping[str, Json], *, ago_s: float, goodbye: bool) -> None: ...


class ServersClock:
    """Wall time by the clock of the ledger's server, which is one for all replicas: what each of them records, and what
    limits and halts go by. This machine's wall clock counts until the server was first heard, which is before anything
    is stored; its monotonic clock counts on from each time that it was. ``own``: this machine's clock."""

    def __init__(self, own: Clock) -> None:
        self.own = own
        self._began = own.now() - timedelta(seconds=own.monotonic())
        self.monotonic = own.monotonic
        self.sleep = own.sleep

    def now(self) -> datetime:
        """Between two words of the server it never goes back, whatever becomes of this machine's wall clock."""
        return self._began + timedelta(seconds=self.monotonic())

    def heard(self, at: datetime, after: float, before: float) -> None:
        """It was ``at`` on the server at some moment between these two monotonic seconds. What is known already stays
        wherever it can be so: an answer that was slow makes nothing less exact."""
        earliest, latest = (at - timedelta(seconds=one) for one in (before, after))
        self._began = min(max(self._began, earliest), latest)


def shares(named: Collection[PartnerId], standing: Shares) -> dict[str, list[PartnerId]]:
    """What each replica that can be counted on for them has now of the partners that are named. Pure."""
    found: dict[str, list[PartnerId]] = {replica: [] for replica in sorted(standing.alike)}
    for partner in sorted(named):
        owner = standing.owners.get(partner, NOBODY).replica
        if owner in found:
            found[owner].append(partner)
    return found


def given(named: Collection[PartnerId], standing: Shares) -> dict[PartnerId, str]:
    """Who is to take each partner that nobody has: whoever has least by then. Pure."""
    counts = {replica: len(own) for replica, own in shares(named, standing).items()}
    taken: dict[PartnerId, str] = {}
    for partner in sorted(named) if counts else ():
        if standing.owners.get(partner, NOBODY).replica not in standing.alive:
            taken[partner] = min(counts, key=lambda replica: (counts[replica], weight(partner, replica)))
            counts[taken[partner]] += 1
    return taken


def surplus(named: Collection[PartnerId], standing: Shares, replica: str) -> list[PartnerId]:
    """What a replica gives back now, so that another that has two fewer can have it. Pure."""
    found = shares(named, standing)
    own, least = found.get(replica, []), min(map(len, found.values()), default=0)
    if len(own) < least + 2:
        return []
    beyond = (len(own) - least) // 2
    return sorted(own, key=lambda partner: weight(partner, replica), reverse=True)[: max(1, beyond // AT_ONCE)]


def weight(partner: PartnerId, replica: str) -> bytes:
    """The least of a partner's is that of the replica which is to have it."""
    return hashlib.sha256(f"{partner} {replica}".encode()).digest()


class Fleet:
    """This replica's part. ``mine``: the partners that are its to watch; ``leaving``: those that are still its own and
    are given back as soon as nothing of them is under way; ``known``: the partners of the ledger of whom it is stored
    who they are. ``speaks``: it tells of what no replica has recorded."""

    def __init__(self, membership: FleetRows, paces: Paces, clock: ServersClock) -> None:
        self._membership = membership
        self._paces = paces
        self._clock = clock
        self._state = "starting"
        self._taken: set[PartnerId] = set()
        self.mine: frozenset[PartnerId] = frozenset()
        self.leaving: set[PartnerId] = set()
        self.known: set[PartnerId] = set()
        self.speaks = False

    @property
    def replica(self) -> str:
        """The id under which it lives; another one after it had been given up."""
        return self._membership.replica

    @property
    def owned(self) -> frozenset[PartnerId]:
        """Every partner that is its own, watched or not."""
        return frozenset(self._membership.epochs)

    def beat(self, named: Collection[PartnerId]) -> None:
        """Says that this replica lives, takes what is for it to take, and chooses what it gives back. ``named``: by the
        service, and none before there are rules. Raises `LedgerUnwritable`, and then what it has is its own for a
        moment only."""
        before, began = self.replica, self._clock.monotonic()
        if self._state != "stopping":  # whoever is told of no partner takes none, and must not be counted on
            self._state = "running" if named else "starting"
        owned = self.owned
        told_of = hashlib.sha256(" ".join(sorted(named)).encode()).hexdigest()
        standing = self._membership.beat(f"{self._state} {told_of[:12]}")
        self._clock.heard(standing.at, began, self._clock.monotonic())
        self.known = {partner for partner, owner in standing.owners.items() if owner.known}
        self.speaks = self.replica == min(standing.alive, default="")
        lost = owned - self.owned
        for partner in sorted(lost):  # what of it still waits to leave is asked by another
            self._paces.handed_over(partner)
        self._paces.lease(began + READS_FOR_S)
        self._taken &= self.owned
        self.leaving &= self._taken
        if before not in ("", self.replica):  # it was given up: what it knows of its partners ends here
            self.mine = frozenset()
            return
        for partner, replica in given(named, standing).items():
            if self._clock.monotonic() >= began + BEAT_S:
                break  # else it would be given up while it takes, with all it has
            if replica == self.replica and partner not in lost:  # what was known of it ends first
                self._take(partner, standing)
        if self._state == "running":
            for partner in sorted(self.owned - self._taken):  # no answer came when it was taken
                self._take(partner, standing)
        if not self.leaving:
            self.leaving.update(surplus(named, standing, self.replica))
        self.leaving.update(self.owned - set(named))
        self.mine = frozenset(self._taken) - self.leaving

    def stop(self) -> None:
        """Everything is to be given back, and nothing is taken."""
        self._state = "stopping"
        self.leaving.update(self.owned)
        self.mine = frozenset()

    def give_back(self, busy: Callable[[PartnerId], bool]) -> bool:
        """Gives back what is leaving and of which nothing is under way. Whether some of it is left for the next beat:
        without one the rest would be taken from a replica that says nothing, as from one that is gone."""
        began = self._clock.monotonic()
        for partner in [one for one in sorted(self.leaving) if not busy(one)]:
            if self._clock.monotonic() >= began + BEAT_S:
                return True
            self._membership.release(partner, self._paces.handed_over(partner))
            self.leaving.discard(partner)
        return False

    def leave(self) -> None:
        """Says goodbye."""
        self._membership.leave()

    def save_pace(self, partner: PartnerId) -> None:
        """Stores what the service has just asked of the partner's pace, for whoever takes it without a goodbye. What
        cannot be stored now ends no attempt, of whose answer this is said."""
        if partner in self.owned:
            with suppress(LedgerUnwritable, StateConflict):
                self._membership.save_pace(partner, self._paces.said(partner))

    def _take(self, partner: PartnerId, standing: Shares) -> None:
        if (taken := self._membership.take(partner, standing.owners.get(partner, NOBODY))) is not None:
            self._taken.add(partner)
            self._paces.take_over(partner, taken.pace, ago_s=taken.ago.total_seconds(), goodbye=taken.goodbye)


# What one poll of one partner came to, for log lines and figures.


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
        """The request of a write. Pure: depends on assumptions, not on state."""

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


class ReadableLedger(Protocol):
    """What a ledger can be asked, also one that is open for reading only."""

    def partner_memory(self, partner: PartnerId) -> PartnerMemory | None: ...
    def partners(self) -> Sequence[PartnerId]:
        """Every partner that the ledger remembers."""

    def write(self, write_id: WriteId) -> Write | None: ...
    def open_writes(self, partner: PartnerId | None = None) -> tuple[Write, ...]:
        """Every write that is not final, oldest first."""

    def episode_writes(self, partner: PartnerId, event: EventId, rule: RuleId, episode: int) -> tuple[Write, ...]: ...

    def target_writes(self, partner: PartnerId, event: EventId, *targets: str) -> tuple[Write, ...]:
        """Every write of a target, or of several, final ones too, oldest first."""

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

    def rule_memories(self, partner: PartnerId, event: EventId | None = None) -> Sequence[RuleMemory]: ...
    def status(self) -> DaemonStatus | None: ...


class Ledger(ReadableLedger, Protocol):
    """The store. Synchronous: a transaction is short and local. Every method may raise `LedgerUnwritable`."""

    def apply(self, commit: Commit) -> tuple[Write, ...]:
        """One transaction; returns the new writes in the order of ``plans``. `StateConflict` undoes all of it."""

    def record_sending(self, sending: Sending) -> Hold | None:
        """Records the attempt, unless its check, called inside of the transaction, names a limit; then nothing is
        changed, and the limit is returned. It is durable, and the mark beside the ledger is replaced, before this
        returns. Whatever it raises, nothing may be sent."""

    def sending_view(self, write: Write, now: datetime) -> SendingView:
        """What `record_sending` would show its check now: for a first opinion before anything is read for a write."""

    def all_rule_memories(self, partner: PartnerId) -> Iterable[RuleMemory]: ...
    def task_reads(self, write: Write) -> int:
        """How often the service's task behind the write's last attempt was read, by any process."""

    def late_s(self, write: Write) -> float:
        """So long after the write's last attempt was recorded a byte of it may still leave; 0 outside of a fleet."""
        ...

    def identified(self) -> Collection[PartnerId]:
        """The partners of whom it is known who they are by the service's word."""

    def identify(self, partner: PartnerId, record: str, named: Collection[PartnerId], now: datetime) -> PartnerId:
        """Which partner has this record: this one, or another that came first. Raises `StateConflict` where it is not
        known yet."""

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
        """Makes sure that a ledger which forgets what operators have said up to now is noticed when it is opened."""


__all__ = ["Clock", "Ledger", "Listing", "Places", "Service", "TaskState", "Urgency", "WriteRequest"]


# What every step of a cycle is built from, handed in as one: the three ports, the settings, the rules in force.


@dataclass(slots=True)
class RulesInUse:
    """The rule set in force; replaced as a whole by a successful load and by nothing else."""

    current: RuleSet


def _raised(_of: Mapping[str, Json], defect: Exception) -> None:
    """Where nobody is told, nothing goes on: `plan` says nothing of the rest."""
    raise defect


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """``stopping``: nothing new may be recorded any more. ``defect``: told of an exception that should not exist, and
    what it is of. ``scrubbed``: takes the secrets that the service's client has in hand out of a text. ``decided``:
    told of every decision once it is stored. ``instead``: takes every attempt in the place of the service, which sends
    nothing then: what `plan` and rule tests have. ``fleet``: this process's part in one."""

    clock: Clock
    service: Service
    ledger: Ledger
    settings: EngineSettings
    rules: RulesInUse = field(default_factory=lambda: RulesInUse(RuleSet()))
    stopping: Callable[[], bool] = lambda: False
    defect: Callable[[Mapping[str, Json], Exception], None] = _raised
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
        self._defect, self._scrubbed = parts.defect, parts.scrubbed


# Whether the daemon is well, from what it last said of itself. Pure.
#
# One judgement for the command, the page and the orchestrator that asks it: a complete poll of every partner, younger
# than three intervals, or than three polls where the list is so long that one takes longer. A poll that is older means
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
    found = ((partner, late(said, now, interval)) for partner, said in partners.items())
    return next((f"{partner}: {why}" for partner, why in found if why is not None), None)


def late(said: Json, now: datetime, interval: timedelta) -> str | None:
    """Why what is saved of a partner is no sign of life, or None. A poll that is still to come is none: the clock was
    set back since, and nobody knows how old it is. ``interval``: where nobody says by which it is polled."""
    one = said if isinstance(said, Mapping) else {}
    last, took_s = one.get("last_ok_at"), (one.get("look_s"), one.get("interval_s", interval.total_seconds()))
    if not isinstance(last, str):
        return "no complete cycle yet"
    age = now - datetime.fromisoformat(last)
    if abs(age) <= HEALTHY_INTERVALS * timedelta(seconds=max(one for one in took_s if isinstance(one, int | float))):
        return None
    whence = "old" if age > timedelta() else "ahead of the clock, which was set back"
    return f"the last complete cycle is {abs(age).total_seconds():.0f} s {whence}"
