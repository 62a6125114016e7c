"""What goes into the ledger in one transaction: memory, new writes, moves of writes and records, or none of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Never, TypeVar, cast

from worker.model.facts import EventId, Fact, FactKey, Json, PartnerId, RuleId, WriteId, record_of, spelled
from worker.model.writes import Plan, Write

# The action log's words: kinds, reason codes and the shape of a record before it gets its number and hash.
#
# Both lists are closed: a record with another word cannot be made, and docs explain each one.

WORKER = "worker"
"""Who it was, where it was no person."""

KINDS: Mapping[str, str] = {
    "observed": "a field that some rule looks at changed; says whether it was the worker's doing",
    "fired": "a rule fired for an event",
    "held": "a firing or a write is held, or the reason changed",
    "planned": "a write was decided",
    "waiting": "a write waits for an operator's approval",
    "sending": "the next attempt is on disk; its request may leave now",
    "applied": "the service accepted the write",
    "unknown": "the write was sent and nobody knows whether it took effect",
    "needs_human": "only an operator can tell",
    "takeover": "in a fleet: the partner belonged to a replica that is gone, and is another's now",
    "confirmed": "the effect is there",
    "unconfirmed": "the service accepted it and reads never showed it",
    "rejected": "the service said no",
    "refused": "a guard said no for good",
    "skipped": "not sent: not needed or no longer wanted",
    "shadowed": "decided in shadow mode; nothing is sent",
    "cancelled": "ended by an operator or an edited rule",
    "evidence": "what one read said of an unsettled write",
    "approved": "an operator let a waiting write go",
    "resolved": "an operator's verdict on a write",
    "again": "an operator reopened what had ended without effect",
    "undone": "an operator, or a rule, asked to put back what a write changed",
    "halted": "an operator stopped new writes",
    "resumed": "an operator let writes go on",
    "started": "the daemon started",
    "stopped": "the daemon stopped",
    "rules_loaded": "a rule set was taken up",
    "rules_refused": "a rule folder failed to load; the last good set stays",
    "ledger_restored": "a restored ledger was accepted",
}

REASONS: Mapping[str, str] = {
    "condition": "the condition became true",
    "change": "a watched fact changed",
    "undo": "an operator, or a rule, asked to put back what another write changed",
    "no_undo": "what a write changed cannot be put back",
    "changed_since": "somebody else has changed the target since the write that is to be undone",
    "remind": "the condition still holds, and its message is said again",
    "ended": "the condition does not hold any more, and its message says so",
    "drift": "the target left the wanted value (repeat: enforce)",
    "at": "the rule is looked at only at its times",
    "missed": "a time of the rule went by: it was down or held for 5 minutes, or facts were unknown too long",
    "for": "the condition has not held long enough",
    "cooldown": "the rule acted on this event too recently",
    "between": "it is not within the hours of the rule",
    "limit": "the rule used up its actions for this event and day",
    "writes_per_hour": "the partner's writes of the last hour are used up",
    "surge": "the rule fires for unusually many events",
    "spend": "the budget allowed for sending is used up",
    "gap": "first poll after a long silence",
    "reset": "most events vanished at once and came back",
    "restored": "the ledger was restored or taken to another service, or the service has renamed the partner",
    "begun": "a step that was sent already would have its effect once more",
    "delete": "a DELETE always waits for an operator",
    "undocumented": "a request that the service's document does not name always waits for an operator",
    "mode": "the mode asks for approval or is shadow",
    "halt": "an operator halted writes",
    "conflict": "another rule wants the opposite",
    "shared": "an equal write of another rule stands for this one",
    "target_busy": "another write on this target is not settled",
    "target_unreadable": "the target's value could not be read",
    "fact_unknown": "a fact that the condition needs is unknown",
    "assumption": "the write depends on an assumption that nobody confirmed",
    "product_off": "the partner's product is off",
    "credentials": "the service refused the credentials",
    "backoff": "waiting after a refusal or failure",
    "no_draft": "there is no draft to act on",
    "not_published": "the setup is not published",
    "budget_range": "the budget is outside the allowed range",
    "bad_value": "a computed value is no value of its parameter",
    "wait": "the rule waits between two steps",
    "gone": "what it was for is gone",
    "already_so": "the target already has the value",
    "nothing_to_pause": "the event has no campaigns to pause",
    "moved": "the target no longer reads what the value was computed from",
    "no_longer_holds": "the condition no longer holds",
    "superseded": "a newer write takes its place",
    "sequence": "an earlier step is not final, or ended the sequence",
    "attempts": "no attempt is left",
    "no_evidence": "reads could not settle it in time",
    "no_readback": "this effect cannot be read back",
    "third_value": "the target shows neither the old nor the wanted value",
    "other_value": "something else than what was sent is there",
    "toggle": "the write is a toggle: a second one would undo the first",
    "ask": "unknown outcomes are put before an operator by configuration",
    "accepted": "the service accepted the write",
    "answer": "the answer itself is the confirmation",
    "read": "a read shows the effect",
    "refused_by_service": "the service refused the write",
    "ambiguous": "the answer may hide an effect",
    "not_sent": "no byte of the attempt left",
    "denied": "the service refused our credentials for this attempt",
    "task_failed": "the service's task for this write failed",
    "never_confirmed": "reads kept disagreeing with the accepted write",
    "crash": "the process ended while the write was being sent",
    "takeover": "in a fleet: the replica that owned the partner is gone",
    "resend": "proved absent; sent once more",
    "rule_edited": "the rule's action was edited",
    "rule_gone": "the rule was removed",
    "partner_gone": "the partner is no longer among those that are watched",
    "same_partner": "the partner is the same as another one that is watched, or may be",
    "person": "an operator decided",
    "overtaken": "the overtaken opposite write landed afterwards",
    "event_gone": "the event itself answers 404",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line of the action log, before the ledger gives it ``seq`` and its place in the chain."""

    at: datetime
    kind: str
    reason: str | None = None
    why: str = ""
    partner: PartnerId | None = None
    event: EventId | None = None
    rule: RuleId | None = None
    episode: int | None = None
    write: WriteId | None = None
    attempt: int | None = None
    action: str | None = None
    request: Mapping[str, Json] | None = None
    before: Json = None
    response: Mapping[str, Json] | None = None
    evidence: Mapping[str, Json] | None = None
    facts: Mapping[str, Json] | None = None
    by: str = WORKER

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r} is not a kind of record")
        if self.reason is not None and self.reason not in REASONS:
            raise ValueError(f"{self.reason!r} is not a reason code")


class Doing(NamedTuple):
    """What is needed of a record of an event to tell who changed what, and since when a write was planned."""

    seq: int
    at: datetime
    kind: str
    write: int | None
    reason: str | None
    facts: Mapping[str, Json] | None


DOINGS: tuple[str, ...] = (
    *("observed", "planned", "waiting", "sending", "confirmed"),
    *("rejected", "refused", "skipped", "cancelled"),
)
"""The kinds of such records."""
Says = Literal["there", "not_there", "cannot_tell"]


def of_write(write: Write, *, at: datetime, kind: str, reason: str | None, why: str) -> Record:
    """A record about a write, with all the ids filled in."""
    return Record(
        at=at,
        kind=kind,
        reason=reason,
        why=why,
        partner=write.key.partner,
        event=write.key.event,
        rule=write.key.rule or None,
        episode=write.key.episode,
        write=write.id,
        attempt=write.attempt or None,
        action=write.intent.action,
    )


# What somebody can ask to be told of: kinds and reasons of the log, what the daemon cries out, and what rules say.

ALARMS: Mapping[str, str] = {
    "service_unreachable": "the service cannot be reached",
    "partners_unknown": "who the partners are could not be asked",
    "partner_denied": "the service refuses a partner",
    "partner_failing": "no look at a partner has got through for a minute",
    "partner_well": "looks at a partner get through again",
    "retry_after_long": "the service asks to be left alone for longer than 15 minutes",
    "partner_lost": "a partner is gone from the sign-in",
    "partner_held": "a partner is not watched: it is the same as another, or may be",
    "cycle_failed": "a poll ended with an error",
    "ledger_unwritable": "the ledger cannot be written, so nothing is sent",
    "defect": "a fault of this program in one write or at one event",
    "page_failed": "the page fell over",
    "sign_ins_refused": "many wrong passwords or tokens came to the page from one place",
}
"""What the daemon cries out beside the log, as its log lines name it."""
MESSAGE = "notify"
"""What a rule itself says (the action ``notify``)."""
HANDED_OVER = "handed over: "
"""How the reason begins by which a message is confirmed in the log; what follows is its text."""
TOPICS = frozenset({*KINDS, *REASONS, *ALARMS, MESSAGE})
"""Everything that ``notify: on`` takes."""

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
    ``true_since``: first definite true poll of this episode. ``looked_at``: last poll with a definite truth.
    ``baselines``: by the key text of the watched fact (name, parameters, ``by``). ``pending``: changed values by the
    same keys, since ``pending_since``; ``pending_unheld_since``: since when nothing but an unknown ``when`` keeps it.
    ``forced``: why a firing must wait for approval: what it rests on was first seen after a silence.
    ``waited``: why the last firing had to wait, and one that takes its place, kept until its writes are first sent;
    ``asked``: why the next one has to, because it takes the place of one that waited and was cancelled by an edit.
    ``do_hash``: what the rule did by its text at the last firing.
    ``before_firing``: the baselines before the last firing, kept until its writes are first sent.
    ``stopped``: why ``enforce`` stopped; ``cleared``: the episode up to which bad ends stop it no more.
    ``held``: the last logged reason for holding the firing.
    ``at_time``: of a rule with ``at``, the newest of its times that was dealt with.
    ``after``: of a rule with ``after``, the first write of that rule's firing for which the episode was opened.
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
    after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerMemory:
    """Memory of one partner. ``listed_at``: end of the last complete listing, and ``listed``: how many events it
    showed, None where an older program did not say it. ``after_gap_at``: polls before this are older than the last
    silence; ``reset_at``, ``restored_at``: when most events vanished at once, and when a restored ledger was accepted.
    ``gone``: known events that are out of sight, since when; ``returned``: those that came back, when. ``rules``: since
    when each rule applies here; ``away``: those that do not now, since when; ``back``: those that do again, since when.
    ``denied_at``: when the service refused our credentials for a write, with no write let in since; ``denied_until``:
    until when that holds the partner's writes."""

    partner: PartnerId
    listed_at: datetime | None = None
    listed: int | None = None
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

    def ahead_of(self, now: datetime) -> bool:
        """Whether the last complete listing is still to come: the clock was set back since."""
        return self.listed_at is not None and now < self.listed_at


# Memory, as JSON: what the model gains is stored with the next change, and has its default until then; what it lost is
# passed over.

_MOMENTS = frozenset({"true_since", "fired_at", "pending_since", "pending_unheld_since", "at_time"})
_MOMENTS |= {"looked_at", "listed_at", "after_gap_at", "reset_at", "restored_at", "denied_at", "denied_until"}
_OF_EVENTS = frozenset({"gone", "returned", "rules", "away", "back"})
_OF_FACTS = frozenset({"baselines", "before_firing"})


MemoryT = TypeVar("MemoryT", bound=RuleMemory | PartnerMemory)


def body_of(memory: RuleMemory | PartnerMemory | Baseline) -> dict[str, Json]:
    """A memory as it is stored."""
    return {one.name: stored_form(getattr(memory, one.name)) for one in fields(memory)}


def stored_form(value: object) -> Json:
    """The value of one of its fields."""
    match value:
        case datetime():
            return spelled(value)
        case Baseline():
            return body_of(value)
        case Mapping():
            return {str(name): stored_form(item) for name, item in value.items()}
        case _:
            return cast(Json, value)


def memory_of(kind: type[MemoryT], body: Any) -> MemoryT:  # noqa: ANN401 - whatever is stored
    """The memory that `body_of` wrote, perhaps in an older program. Raises what its values raise."""
    known = {one.name for one in fields(kind)}
    return kind(**{name: _value(name, value) for name, value in body.items() if name in known})


def _value(name: str, value: Any) -> Any:  # noqa: ANN401 - whatever is stored
    moment = datetime.fromisoformat
    if name in _MOMENTS:
        return None if value is None else moment(value)
    if name in _OF_EVENTS:
        return {event: moment(at) for event, at in value.items()}
    if name in _OF_FACTS:
        return {key: Baseline(value=one["value"], seen_at=moment(one["seen_at"])) for key, one in value.items()}
    return value


# What the ledger keeps of the facts: what each is, and what it was before every change.

SILENCE = FactKey(name="#silence")
"""Not a fact of the service: since when no complete list had been had, where that was long. Its event is empty."""
MEMORY = FactKey(name="#memory")
"""Not a fact of the service: the partner's memory of silences, resets and events out of sight. Its event is empty."""
KEPT = FactKey(name="#kept")
"""Not a fact of the service: for how many seconds changes are kept. Its event is empty."""
OF_PARTNER = EventId("")
"""The event of what belongs to the whole partner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A fact as it stands since ``at``. ``event`` is `OF_PARTNER` for facts of the whole partner. ``last``: what the
    fields of a record that cannot be read now were when they were read last. ``looked_at``: of an event itself, the
    last poll of it that had to be noted (see `worker.engine.views.to_note`)."""

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
    has to be noted. ``forget``: older changes are dropped; ``set_back``: what is stored was stamped by a clock that was
    ahead."""

    partner: PartnerId
    changes: tuple[Change, ...] = ()
    looked_at: tuple[EventId, ...] = ()
    forget: datetime | None = None
    set_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The observed facts of a partner over a time. ``begins``: when it begins, None where nothing is recorded;
    ``start``: how the facts were then; ``changes``: each fact as it was from a moment on, oldest first."""

    begins: datetime | None
    start: tuple[Observed, ...]
    changes: tuple[Observed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One write's change of state. The ledger updates only a row that still equals ``before`` in state, attempt and
    ``changed_at``; anything else is a `StateConflict` and undoes the whole commit."""

    before: Write
    after: Write
    records: tuple[Record, ...] = ()

    def then(self, later: "Move") -> "Move":
        """Both as one: a ledger takes no second move of a write."""
        return Move(before=self.before, after=later.after, records=(*self.records, *later.records))


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

    @property
    def partners(self) -> frozenset[PartnerId | None]:
        """Whom it concerns; None for all."""
        found: set[PartnerId | None] = {one.partner for one in self.records}
        found.update(one.partner for one in self.memory)
        found.update(one.partner for one in (self.partner, self.changes) if one is not None)
        found.update(move.before.key.partner for move in self.moves)
        found.update(plan.key.partner for plan in self.plans)
        return frozenset(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChange:
    """One pair's memory that an operator's word replaces, where it still is what the person saw."""

    before: RuleMemory
    after: RuleMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """An operator's stop of new writes: for all, one partner or one rule, perhaps until a time."""

    id: int
    partner: PartnerId | None
    rule: RuleId | None
    until: datetime | None
    because: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """Money that one attempt adds, in the partner's currency: what its limit was judged by. ``rule`` and ``episode``:
    of the firing that planned it; ``rules``: all that it stands for."""

    write: WriteId
    event: EventId
    rule: RuleId
    episode: int
    rules: tuple[RuleId, ...]
    target: str
    at: datetime
    amount: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingView:
    """What a limit may look at inside the very transaction that records ``sending``.

    ``on_target``: other writes of the same (partner, event, target) in sending, applied, unknown or needs_human.
    ``sent_last_hour``: attempts recorded for the partner in the last hour that do more than stop spending, with times.
    ``booked``: the money of the partner's attempts in the last 168 hours, and of those for the event ever; unknown
    outcomes are among them, those that are known to have had no effect are not.
    """

    halts: tuple[Halt, ...] = ()
    on_target: tuple[Write, ...] = ()
    sent_last_hour: tuple[datetime, ...] = ()
    booked: tuple[Booking, ...] = ()


class PartnerNow(NamedTuple):
    """A partner at one moment. ``seq``: of the newest record; ``reopened``: since the one that was asked about, a
    person has reopened something of it: its memory changed in the ledger; ``writes``: all that are not final."""

    seq: int
    reopened: bool
    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A no to one attempt: the reason code, the words, and until when (None: until something changes)."""

    reason: str
    why: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """An attempt to be recorded: the move to ``sending``, the limit that has the last word, called within the
    transaction and looking at nothing but the view, and the money that the attempt carries or commits, None where there
    is none. ``late_s``: in a fleet, so long after this a byte of it may still leave, whoever has the partner then."""

    move: Move
    check: Callable[[SendingView], Hold | None]
    amount: float | None
    late_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenReplica:
    """A worker of a fleet as the ledger knows it. ``lag``: how long ago it was last heard of, by the server's clock;
    ``alive``: that is not long ago; ``said``: what it says of itself."""

    id: str
    host: str
    pid: int
    version: str
    state: str
    since: datetime
    lag: timedelta
    alive: bool
    said: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A partner of a fleet: whose it is and since when, and when its list was last complete."""

    partner: PartnerId
    owner: str | None
    since: datetime | None
    listed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRules:
    """The rule files of a fleet, by name, as somebody put them into force. ``generation`` counts from 1."""

    generation: int
    files: Mapping[str, str]
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFilter:
    """Which records to read; everything given must hold. ``after_seq``: behind this record of the ``chain``;
    ``before_id``: that came before this one, for leafing back."""

    since: datetime | None = None
    until: datetime | None = None
    partner: str | None = None
    event: str | None = None
    rule: str | None = None
    write: int | None = None
    kind: str | None = None
    reason: str | None = None
    chain: str | None = None
    after_seq: int = 0
    before_id: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events to show; everything given must hold. ``text``: a part of id or title; ``fields``: what fields of the
    event are now; ``after``: the partner and id that the page before ended with."""

    partner: str | None = None
    text: str = ""
    fields: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    after: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSeen:
    """An event as it was seen last, and ``since`` when it is so."""

    partner: PartnerId
    event: EventId
    fact: Fact
    since: datetime

    def field(self, name: str) -> Json:
        """A field of it; None where it is not known."""
        return record_of(self.fact).get(name)


@dataclass(frozen=True, slots=True)
class RuleNow:
    """How a rule stands over all events: for how many it is true, held, and stopped (``enforce``)."""

    true: int
    held: int
    stopped: int
    last_fired: datetime | None = None
    writes: Mapping[str, int] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainBreak:
    """The first place where the hash chain does not hold."""

    seq: int
    why: str
    chain: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    """What the daemon last said of itself, as the JSON of ``status`` without the parts read from tables."""

    pid: int
    since: datetime
    seen_at: datetime
    body: Mapping[str, Json] = field(default_factory=dict)
