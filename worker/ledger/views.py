"""What a brake may look at before a write is recorded as sending, for one write or for a group within one transaction.

Everything is read in the caller's transaction. Of a group, what concerns the whole partner is read once, and each
recorded attempt is added to it, so that the next write of the group is shown what it would be shown alone: a cap that
has room for one lets one through, not the group. Nothing here allows or forbids a sending.
"""

from bisect import insort
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import or_, select

from worker.ledger.codec import maybe_time, time_of, time_text
from worker.ledger.connections import Connection
from worker.ledger.prepared import Prepared, given
from worker.ledger.rows import ALL_WRITES, check_state, write_of
from worker.ledger.sendings import HOUR, NOT_SENT, WITHOUT_EFFECT
from worker.ledger.tables import attempts, halts, writes
from worker.model.commits import Booking, Halt, Move, SendingView
from worker.model.ids import EventId, PartnerId, WriteId
from worker.model.writes import UNSETTLED, Write

_HALTS = Prepared(
    select(halts.c.id, halts.c.partner, halts.c.rule, halts.c.until, halts.c.because, halts.c.by, halts.c.at)
    .where(halts.c.resumed_at.is_(None), or_(halts.c.until.is_(None), halts.c.until > given("now")))
    .order_by(halts.c.id)
)
_ON_TARGET = (
    writes.c.partner == given("of_partner"),
    writes.c.event == given("of_event"),
    writes.c.target == given("of_target"),
)
_STATES_ON_TARGET = Prepared(select(writes.c.id, writes.c.state).where(*_ON_TARGET))
_UNSETTLED_ON_TARGET = Prepared(ALL_WRITES.where(*_ON_TARGET, writes.c.state.in_(sorted(UNSETTLED))))
_SENT = Prepared(
    select(attempts.c.at, attempts.c.outcome)
    .where(attempts.c.partner == given("of_partner"), attempts.c.at > given("since"), ~attempts.c.stops)
    .order_by(attempts.c.at)
)
_MONEY = (
    select(attempts.c.write, attempts.c.event, writes.c.action, writes.c.target, attempts.c.at, attempts.c.amount)
    .join(writes, writes.c.id == attempts.c.write)
    .where(attempts.c.partner == given("of_partner"), attempts.c.amount.is_not(None))
    .where(attempts.c.outcome.not_in(WITHOUT_EFFECT))
    .order_by(attempts.c.at, attempts.c.write, attempts.c.attempt)
)
_MONEY_SINCE = Prepared(_MONEY.where(attempts.c.at >= given("since")))
_MONEY_OF_EVENT = Prepared(_MONEY.where(attempts.c.event == given("of_event"), attempts.c.at < given("since")))


@dataclass(slots=True, kw_only=True)
class _Partner:
    """What is known of a partner's attempts: each that does more than stop spending since a time, and the money of each
    since a midnight."""

    sent_since: datetime
    sent: list[datetime]
    midnight: datetime
    money: list[Booking]


class Views:
    """The views of the writes of one transaction, in the order in which they are recorded."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._halts: tuple[datetime, tuple[Halt, ...]] | None = None
        self._partners: dict[PartnerId, _Partner] = {}

    def of(self, write: Write, now: datetime) -> SendingView:
        """What a brake may look at before ``write`` is recorded as sending at ``now``. Its own attempts count nowhere
        but among those of the last hour."""
        known = self._known(write.key.partner, now)
        latest = now + HOUR  # what is stamped further ahead was stamped by a clock that was wrong
        return SendingView(
            halts=self._halts_at(now),
            on_target=self._on_target(write),
            sent_last_hour=tuple(at for at in known.sent if now - HOUR < at <= latest),
            booked=tuple(one for one in self._money(write, known) if one.write != write.id),
        )

    def recorded(self, move: Move, amount: float | None) -> None:
        """The attempt of a view is on its way to the disk: it counts for those that come after it in the group."""
        write = move.after
        known = self._partners.get(write.key.partner)
        if known is None:
            return
        if move.before.attempt:
            del self._partners[write.key.partner]  # what its earlier attempts came to may just have been decided
            return
        at = write.changed_at
        if not (write.intent.stops or not write.intent.target):
            insort(known.sent, at)
        if amount is not None:
            key, intent = write.key, write.intent
            booking = Booking(
                write=write.id, event=key.event, action=intent.action, target=intent.target, at=at, amount=amount
            )
            insort(known.money, booking, key=lambda one: (one.at, one.write))

    def _on_target(self, write: Write) -> tuple[Write, ...]:
        """Other writes that hold the target, oldest first. Mostly there is none, which their states alone show."""
        where = {"of_partner": write.key.partner, "of_event": write.key.event, "of_target": write.intent.target}
        states = _STATES_ON_TARGET.run(self._connection, where).fetchall()
        for number, state in states:
            check_state(number, state)
        if not any(state in UNSETTLED and number != write.id for number, state in states):
            return ()
        found = map(write_of, _UNSETTLED_ON_TARGET.run(self._connection, where).fetchall())
        return tuple(one for one in found if one.id != write.id)

    def _known(self, partner: PartnerId, now: datetime) -> _Partner:
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        known = self._partners.get(partner)
        if known is not None and known.sent_since <= now - HOUR and known.midnight == midnight:
            return known
        since = {"of_partner": partner, "since": time_text(now - HOUR)}
        from_midnight = {"of_partner": partner, "since": time_text(midnight)}
        known = _Partner(
            sent_since=now - HOUR,
            sent=[time_of(at) for at, outcome in _SENT.run(self._connection, since) if outcome != NOT_SENT],
            midnight=midnight,
            money=[_booking(row) for row in _MONEY_SINCE.run(self._connection, from_midnight)],
        )
        self._partners[partner] = known
        return known

    def _money(self, write: Write, known: _Partner) -> list[Booking]:
        """The money of the partner's attempts since midnight, and of those for the event ever."""
        before = {
            "of_partner": write.key.partner,
            "of_event": write.key.event,
            "since": time_text(known.midnight),
        }
        earlier = [_booking(row) for row in _MONEY_OF_EVENT.run(self._connection, before)]
        return [*earlier, *known.money]

    def _halts_at(self, now: datetime) -> tuple[Halt, ...]:
        if self._halts is None or self._halts[0] > now:
            self._halts = now, active_halts(self._connection, now)
        return tuple(one for one in self._halts[1] if one.until is None or one.until > now)


def active_halts(connection: Connection, now: datetime) -> tuple[Halt, ...]:
    """Halts that nobody resumed and that have not run out."""
    return tuple(
        Halt(id=number, partner=partner, rule=rule, until=maybe_time(until), because=because, by=by, at=time_of(at))
        for number, partner, rule, until, because, by, at in _HALTS.run(connection, {"now": time_text(now)})
    )


def _booking(row: tuple[int, str, str, str, str, float]) -> Booking:
    number, event, action, target, at, amount = row
    return Booking(
        write=WriteId(number), event=EventId(event), action=action, target=target, at=time_of(at), amount=amount
    )
