"""What a rule test remembers: the ledger's part, in plain dictionaries that end with the test.

It stores what `decide` and `advance` give and answers what they ask, in the ledger's own terms: open writes, the writes
of an episode, first attempts, firings. A change that does not begin from the write as it stands is a defect and raises.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from worker.model.commits import Booking, Move, SendingView
from worker.model.ids import EventId, RuleId, WriteId
from worker.model.memory import RuleMemory
from worker.model.records import Record
from worker.model.writes import Plan, Write
from worker.writes.intents import holds_back
from worker.writes.states import IllegalMove

HOUR = timedelta(hours=1)
WITHOUT_EFFECT = frozenset({"rejected", "skipped", "cancelled"})
"""How a write that was sent ends only where it is known to have done nothing."""
Pair = tuple[EventId, RuleId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One attempt that left. ``stops``: it does nothing but stop spending."""

    write: WriteId
    event: EventId
    at: datetime
    amount: float | None
    stops: bool


@dataclass(slots=True)
class Books:
    """``reach``: how far back first attempts and firings matter. ``sent``: attempts whose bytes left, ever.
    ``changes``: how often a write was made or changed."""

    reach: timedelta
    memories: dict[Pair, RuleMemory] = field(default_factory=dict)
    writes: dict[WriteId, Write] = field(default_factory=dict)
    open: dict[WriteId, Write] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    sent: int = 0
    changes: int = 0
    _episodes: dict[tuple[EventId, RuleId, int], list[WriteId]] = field(default_factory=dict)
    _newest: dict[tuple[EventId, RuleId, int, str], WriteId] = field(default_factory=dict)
    _firsts: dict[Pair, dict[int, datetime]] = field(default_factory=dict)
    _firings: list[tuple[RuleId, EventId, datetime]] = field(default_factory=list)
    _attempts: list[Sent] = field(default_factory=list)

    def plan(self, plans: Iterable[Plan], now: datetime) -> list[Write]:
        """New writes."""
        made: list[Write] = []
        for plan in plans:
            write = plan.write(len(self.writes) + 1, now)
            key = plan.key
            self._newest[(key.event, key.rule, key.position, key.item)] = write.id
            self._episodes.setdefault((key.event, key.rule, key.episode), []).append(write.id)
            self._keep(write)
            made.append(write)
        return made

    def move(self, change: Move) -> None:
        """A change of one write. Raises `IllegalMove` where the write is not what the change begins from."""
        if self.writes[change.before.id] != change.before:
            raise IllegalMove(f"write {change.before.id} was changed by something else first")
        self.records.extend(change.records)
        self._keep(change.after)

    def note(self, records: Iterable[Record]) -> None:
        """Records of a look; firings are remembered by themselves."""
        for record in records:
            self.records.append(record)
            if record.kind == "fired" and record.rule is not None and record.event is not None:
                self._firings.append((record.rule, record.event, record.at))

    def attempted(self, sent: Sent, write: Write) -> None:
        """An attempt is made: it counts for cooldowns and brakes until it is proven not to have left."""
        pair = (write.key.event, write.key.rule)
        self._firsts.setdefault(pair, {}).setdefault(write.key.episode, sent.at)
        self._attempts.append(sent)

    def not_sent(self, write: Write) -> None:
        """The last attempt is proven not to have happened."""
        last = max(index for index, one in enumerate(self._attempts) if one.write == write.id)
        del self._attempts[last]
        others = self.episode(write.key.event, write.key.rule, write.key.episode)
        if not any(one.sent for one in others):
            self._firsts[(write.key.event, write.key.rule)].pop(write.key.episode, None)

    def episode(self, event: EventId, rule: RuleId, episode: int) -> tuple[Write, ...]:
        """The writes of one episode, final ones too."""
        return tuple(self.writes[one] for one in self._episodes.get((event, rule, episode), ()))

    def newest(self) -> list[Write]:
        """Of each place in a rule's ``do``, the newest write of each event."""
        return [self.writes[one] for one in self._newest.values()]

    def sendings(self, now: datetime) -> dict[Pair, list[datetime]]:
        """When each episode was first attempted, as far back as it matters."""
        found: dict[Pair, list[datetime]] = {}
        for pair, firsts in self._firsts.items():
            for episode in [one for one, at in firsts.items() if at < now - self.reach]:
                del firsts[episode]
            if firsts:
                found[pair] = list(firsts.values())
        return found

    def firings(self, now: datetime) -> list[tuple[RuleId, EventId, datetime]]:
        """Firings as far back as a surge looks."""
        if self._firings and self._firings[0][2] < now - self.reach:
            self._firings = [one for one in self._firings if one[2] >= now - self.reach]
        return self._firings

    def view(self, write: Write, now: datetime) -> SendingView:
        """What the brakes look at when an attempt is recorded."""
        counted = [one for one in self._attempts if self.writes[one.write].state not in WITHOUT_EFFECT]
        return SendingView(
            on_target=self.on_target(write),
            sent_last_hour=tuple(one.at for one in self._attempts if one.at > now - HOUR and not one.stops),
            booked=tuple(self._booking(one, one.amount) for one in counted if one.amount is not None),
        )

    def _booking(self, sent: Sent, amount: float) -> Booking:
        intent = self.writes[sent.write].intent
        return Booking(
            write=sent.write, event=sent.event, action=intent.action, target=intent.target, at=sent.at, amount=amount
        )

    def of_target(self, event: EventId, target: str) -> tuple[Write, ...]:
        """Every write of the target, final ones too."""
        place = (event, target)
        return tuple(one for one in self.writes.values() if (one.key.event, one.intent.target) == place)

    def on_target(self, write: Write) -> tuple[Write, ...]:
        """Other unsettled writes of the same target."""
        return tuple(one for one in self.open.values() if holds_back(one, write))

    def _keep(self, write: Write) -> None:
        self.changes += 1
        self.writes[write.id] = write
        if write.final:
            self.open.pop(write.id, None)
        else:
            self.open[write.id] = write
