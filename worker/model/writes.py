"""A write: the stored decision to make one effect, and everything its life is judged by.

The natural key (partner, event, rule, episode, position, item) can exist once; that is what makes a decision repeatable
without making its effect repeatable. States and their moves are in `worker.writes.life`; here is only the shape.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from worker.model.actions import WAIT
from worker.model.facts import EventId, Json, PartnerId, RuleId, WriteId

State = Literal[
    "planned",
    "waiting",
    "sending",
    "applied",
    "unknown",
    "needs_human",
    "confirmed",
    "unconfirmed",
    "rejected",
    "refused",
    "skipped",
    "shadowed",
    "cancelled",
]
FINAL: frozenset[State] = frozenset(
    {"confirmed", "unconfirmed", "rejected", "refused", "skipped", "shadowed", "cancelled"}
)
UNSETTLED: frozenset[State] = frozenset({"sending", "applied", "unknown", "needs_human"})
"""States in which the effect may exist without our knowing: these hold their target."""
UNSENT: frozenset[State] = frozenset({"planned", "waiting"})

NO_RULE = RuleId("")
"""Stands in the key of a write that no rule asked for: an operator's undo."""

UNDOES = "undoes"
"""In an intent's context: the numbers of the writes that it puts back."""
ENDED = "ended"
"""The item of the message that says that the condition does not hold any more; reminders have their number."""
ConfirmedBy = Literal["read", "answer", "person"]
Mode = Literal["shadow", "approve", "live"]
InOrder: TypeAlias = tuple[int, datetime]
"""When something happened to a write, to be compared: the length of the log, and for what stands in no log the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteKey:
    """The natural key of a write; it can exist once in a ledger. ``item`` tells the writes of one action apart.

    Of an undo ``rule`` is `NO_RULE`, and ``episode`` counts the undos of the event.
    """

    partner: PartnerId
    event: EventId
    rule: RuleId
    episode: int
    position: int
    item: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a write wants: enough to build its request, to find its target and to recognise its effect.

    ``target``: text of the target within the event (``client_campaign_status``, ``setup``, ``campaign:<tc>:<run>``).
    ``wish``: what the target shall become, comparable between rules; two wishes on one target are equal or opposite.
    ``wanted``: the values whose presence is the evidence. ``params``: what the request carries, computed at planning.
    ``order``: index in the flattened ``do`` of the episode: a write starts when all before it are done.
    ``do_hash``: hash of the rule's ``do`` and ``with`` texts, so that an edited rule's unsent writes are found.
    ``context``: previous, added and removed of the firing, the values its condition was judged with, what was
    ``remembered``, the fields of its own target that its values are ``computed_from``, and what rules that come after
    its own ask to know ``since`` it was sent; of an undo the numbers of the writes that it ``undoes``, and the values
    that they ``left``.
    """

    action: str
    target: str
    wish: str
    wanted: Mapping[str, Json] = field(default_factory=dict)
    params: Mapping[str, Json] = field(default_factory=dict)
    order: int = 0
    spends: bool = False
    stops: bool = False
    do_hash: str = ""
    context: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A write to be recorded. ``state`` is planned, waiting, shadowed or refused; ``rules`` also wish for it."""

    key: WriteKey
    intent: Intent
    state: State
    reason: str
    why: str
    rules: tuple[RuleId, ...] = ()

    def write(self, number: int, at: datetime) -> "Write":
        """The write as it is recorded then, under this number."""
        return Write(
            id=WriteId(number),
            key=self.key,
            intent=self.intent,
            state=self.state,
            reason=self.reason,
            why=self.why,
            rules=self.rules,
            planned_at=at,
            changed_at=at,
            due_since=at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A row of the ledger. ``attempt`` counts attempts recorded; ``uncounted`` those proven not to have been sent.

    ``due_since``: since when it could have been sent, had nothing held it. An attempt proven unsent does not move it.
    ``changed_seq`` and ``sent_seq``: how far the log had come when its state last changed, and when its last attempt
    was recorded. Only the ledger sets them. Times are for people: a wall clock that is set back turns them round.
    """

    id: WriteId
    key: WriteKey
    intent: Intent
    state: State
    reason: str
    why: str
    rules: tuple[RuleId, ...] = ()
    attempt: int = 0
    uncounted: int = 0
    planned_at: datetime
    changed_at: datetime
    due_since: datetime
    first_sent_at: datetime | None = None
    last_sent_at: datetime | None = None
    unknown_since: datetime | None = None
    held_by: str | None = None
    held_until: datetime | None = None
    confirmed_by: ConfirmedBy | None = None
    before: Json = None
    before_known: bool = False
    approved: bool = False
    extra_attempts: int = 0
    denied: int = 0
    absent_proved: bool = False
    changed_seq: int = 0
    sent_seq: int = 0

    @property
    def sending_order(self) -> InOrder | None:
        """Compares with that of other writes: which was sent later, whatever the wall clock did. None if never sent."""
        return None if self.last_sent_at is None else (self.sent_seq, self.last_sent_at)

    @property
    def change_order(self) -> InOrder:
        """Compares with `sending_order` of any write: which came later."""
        return self.changed_seq, self.changed_at

    @property
    def counted(self) -> int:
        """Attempts that may have had an effect."""
        return self.attempt - self.uncounted

    @property
    def undo(self) -> bool:
        """It puts back what other writes changed, because an operator or a rule asked."""
        return UNDOES in self.intent.context

    @property
    def by_operator(self) -> bool:
        """An operator asked for it: it has no rule and no condition."""
        return self.key.rule == NO_RULE

    @property
    def message(self) -> bool:
        """It is a message to people, and writes to nothing."""
        return not self.intent.target and not self.waits

    @property
    def waits(self) -> bool:
        """It is only a time between two steps."""
        return self.intent.action == WAIT

    @property
    def over(self) -> bool:
        """It is a wait that has ended, and what comes behind it is not planned yet."""
        return self.waits and self.state == "planned" and self.held_by == "wait" and self.held_until is None

    @property
    def step(self) -> bool:
        """It is of a step of its ``do``, and no message that is said again or at the end."""
        return not (self.message and self.key.item)

    @property
    def undoes(self) -> tuple[Json, ...]:
        """Of an undo, the numbers of the writes that it puts back."""
        numbers = self.intent.context.get(UNDOES)
        return tuple(numbers) if isinstance(numbers, list) else ()

    @property
    def final(self) -> bool:
        """No state follows."""
        return self.state in FINAL

    @property
    def sent(self) -> bool:
        """An attempt was made that is not proven unsent."""
        return self.counted > 0


# What somebody who leafs through the ledger asks for, and the counts that charts are drawn from.


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
    """The writes that were confirmed on a day (UTC), by a read, an answer or an operator: how many, and within how many
    seconds after the poll of which their rules fired half of them, and 95 of 100, were."""

    day: str
    count: int
    middle_s: float
    slow_s: float
