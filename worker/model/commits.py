"""What goes into the ledger in one transaction: memory, new writes, moves of writes and records, or none of them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Never

from worker.model.facts import EventId, Fact, FactKey, Json, PartnerId, RuleId, WriteId
from worker.model.records import WORKER, Record
from worker.model.writes import Plan, Write

# What survives a restart besides writes: truth, episodes, baselines and pending changes of every (rule, event).
#
# Memory is written in the same transaction as the writes it planned, so no crash can leave one without the other. It is
# plain and frozen; `worker.engine.decide` returns a new one.

EPISODE_JUMP = 1_000_000
"""How far episode numbers jump over a restored ledger: past any that its lost part may have used."""

_NOTHING: Mapping[str, Never] = MappingProxyType({})
"""One for all: most memories have nothing in any of their lists, and there are very many of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The remembered value of one watched fact, normalised, with the moment it was first seen."""

    value: Json
    seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMemory:
    """Memory of one (partner, event, rule).

    ``episode``: the last number issued; numbers never go back. ``open``: an episode is open. ``fired``: it has fired.
    ``true_since``: first definite true look of this stretch. ``looked_at``: last look with a definite truth.
    ``baselines``: by the key text of the watched fact (name, parameters, ``by``). ``pending``: changed values by the
    same keys, since ``pending_since``; ``pending_unheld_since``: since when nothing but an unknown ``when`` keeps it.
    ``forced``: why a firing must wait for approval: what it rests on was first seen after a silence.
    ``waited``: why the last firing had to wait, kept until its writes are first sent; ``asked``: why the next one has
    to, because it takes the place of one that waited and was cancelled by an edit. ``do_hash``: what the rule did by
    its text at the last firing.
    ``before_firing``: the baselines before the last firing, kept until its writes are first sent.
    ``stopped``: why ``enforce`` stopped; ``cleared``: the episode up to which bad ends stop it no more.
    ``held``: the last logged reason for holding the firing.
    ``at_time``: of a rule with ``at``, the newest of its times that was dealt with.
    """

    partner: PartnerId
    event: EventId
    rule: RuleId
    do_hash: str = ""
    episode: int = 0
    open: bool = False
    fired: bool = False
    true_since: datetime | None = None
    looked_at: datetime | None = None
    fired_at: datetime | None = None
    baselines: Mapping[str, Baseline] = field(default_factory=lambda: _NOTHING)
    pending: Mapping[str, Json] = field(default_factory=lambda: _NOTHING)
    pending_since: datetime | None = None
    pending_unheld_since: datetime | None = None
    forced: str | None = None
    waited: str | None = None
    asked: str | None = None
    before_firing: Mapping[str, Baseline] = field(default_factory=lambda: _NOTHING)
    stopped: str | None = None
    cleared: int = 0
    held: str | None = None
    at_time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerMemory:
    """Memory of one partner. ``listed_at``: end of the last complete listing. ``after_gap_at``: looks before this are
    older than the last silence; ``reset_at``, ``restored_at``: when most events vanished at once, and when a restored
    ledger was accepted. ``gone``: known events that are out of sight, since when; ``returned``: those that came back,
    when. ``rules``: since when each rule looks here; ``away``: those that do not look now, since when; ``back``: those
    that look again, since when. ``denied_at``: when the service refused our credentials for a write, with no write let
    in since; ``denied_until``: until when that holds the partner's writes."""

    partner: PartnerId
    listed_at: datetime | None = None
    after_gap_at: datetime | None = None
    reset_at: datetime | None = None
    restored_at: datetime | None = None
    denied_at: datetime | None = None
    denied_until: datetime | None = None
    gone: Mapping[EventId, datetime] = field(default_factory=dict)
    returned: Mapping[EventId, datetime] = field(default_factory=dict)
    rules: Mapping[RuleId, datetime] = field(default_factory=dict)
    away: Mapping[RuleId, datetime] = field(default_factory=dict)
    back: Mapping[RuleId, datetime] = field(default_factory=dict)


# What the ledger keeps of the facts: what each is, and what it was before every change.

SILENCE = FactKey(name="#silence")
"""Not a fact of the service: since when no complete list had been had, where that was long. Its event is empty."""
MEMORY = FactKey(name="#memory")
"""Not a fact of the service: the partner's memory of silences, resets and events out of sight. Its event is empty."""
OF_PARTNER = EventId("")
"""The event of what belongs to the whole partner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A fact as it stands since ``at``. ``event`` is `OF_PARTNER` for facts of the whole partner. ``last``: what the
    fields of a record that cannot be read now were when they were read last. ``looked_at``: of an event itself, the
    last look at it that had to be noted (see `worker.engine.looks.to_note`)."""

    event: EventId
    key: FactKey
    fact: Fact
    at: datetime
    last: Mapping[str, Json] = field(default_factory=lambda: _NOTHING)
    looked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A fact that is another one from ``now.at`` on. ``before`` is None where it had never been seen."""

    now: Observed
    before: Observed | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What was seen since the last commit of the partner, in order; and which events were ``looked_at``, where that
    has to be noted. ``forget``: older changes are dropped."""

    partner: PartnerId
    changes: tuple[Change, ...] = ()
    looked_at: tuple[EventId, ...] = ()
    forget: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The observed facts of a partner over a time. ``begins``: when it begins, None where nothing is recorded;
    ``start``: how the facts were then; ``changes``: each fact as it was from a moment on, oldest first, to be gone
    through once."""

    begins: datetime | None
    start: tuple[Observed, ...]
    changes: Iterator[Observed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One write's change of state. The ledger updates only a row that still equals ``before`` in state, attempt and
    ``changed_at``; anything else is a `StateConflict` and undoes the whole commit."""

    before: Write
    after: Write
    records: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One transaction. Order inside: records, memory, moves, plans, changes. Every plan also gets a record of its
    state's kind, with the plan's reason and why, because only the ledger knows its number. ``by``: who planned them."""

    at: datetime
    records: tuple[Record, ...] = ()
    memory: tuple[RuleMemory, ...] = ()
    partner: PartnerMemory | None = None
    moves: tuple[Move, ...] = ()
    plans: tuple[Plan, ...] = ()
    changes: Changes | None = None
    by: str = WORKER

    @property
    def empty(self) -> bool:
        """Nothing to store."""
        return not (self.records or self.memory or self.partner or self.moves or self.plans or self.changes)


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
