"""Attempts: what was sent, when, how much money it carried, and what came of it.

A table of its own, because brakes count requests on the wire, and a write that is sent again or proven unsent must
count once, or not at all. An attempt's outcome is set when its write leaves ``sending``. Nothing here allows or forbids
a sending; it only shows what the brakes judge by.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, Connection, exists, func, insert, or_, select, update

from worker.ledger.codec import maybe_text, maybe_time, time_of, time_text
from worker.ledger.rows import ALL_WRITES, write_of
from worker.ledger.tables import attempts, halts, writes
from worker.model.commits import Halt, Move, SendingView
from worker.model.facts import Json
from worker.model.ids import EventId, PartnerId, RuleId
from worker.model.writes import UNSETTLED, State, Write

HOUR = timedelta(hours=1)
OPEN, NOT_SENT, REJECTED = "open", "not_sent", "rejected"
OUTCOMES: Mapping[State, str] = {
    "planned": NOT_SENT,
    "rejected": REJECTED,
    "applied": "accepted",
    "confirmed": "accepted",
}
"""By the state that follows ``sending``; any other is ``unknown``."""
WITHOUT_EFFECT = (NOT_SENT, REJECTED)


def view_for(connection: Connection, write: Write, now: datetime) -> SendingView:
    """What a brake may look at before ``write`` is recorded as sending at ``now``. Its own attempts count nowhere."""
    key, a = write.key, attempts.c
    others = ALL_WRITES.where(
        writes.c.partner == key.partner,
        writes.c.event == key.event,
        writes.c.target == write.intent.target,
        writes.c.state.in_(UNSETTLED),
        writes.c.id != write.id,
    )
    last_hour = select(a.at).where(
        a.partner == key.partner, a.at > time_text(now - HOUR), ~a.stops, a.outcome != NOT_SENT
    )
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return SendingView(
        halts=active_halts(connection, now),
        on_target=tuple(write_of(row) for row in connection.execute(others)),
        sent_last_hour=tuple(time_of(at) for at in connection.execute(last_hour.order_by(a.at)).scalars()),
        spent_today=_spent(connection, write, a.at >= time_text(midnight)),
        spent_event=_spent(connection, write, a.event == key.event),
    )


def record_attempt(connection: Connection, write: Write, at: datetime) -> None:
    """Stores the attempt that a write in ``sending`` is about to make."""
    row = {
        "write": write.id,
        "attempt": write.attempt,
        "at": time_text(at),
        "partner": write.key.partner,
        "event": write.key.event,
        "rule": write.key.rule,
        "episode": write.key.episode,
        "stops": write.intent.stops,
        "spends": write.intent.spends,
        "amount": _amount(write),
        "outcome": OPEN,
    }
    connection.execute(insert(attempts), row)


def settle_attempt(connection: Connection, move: Move) -> None:
    """Notes what came of an attempt when its write leaves ``sending``."""
    if move.before.state != "sending" or move.after.state == "sending":
        return
    outcome = OUTCOMES.get(move.after.state, "unknown")
    this = (attempts.c.write == move.before.id, attempts.c.attempt == move.before.attempt)
    connection.execute(update(attempts).where(*this).values(outcome=outcome))


def note_task_read(connection: Connection, write: Write) -> None:
    """Counts one read of the service's task behind the write's last attempt."""
    this = (attempts.c.write == write.id, attempts.c.attempt == write.attempt)
    connection.execute(update(attempts).where(*this).values(task_reads=attempts.c.task_reads + 1))


def task_reads(connection: Connection, write: Write) -> int:
    """How often the task behind the write's last attempt was read."""
    this = (attempts.c.write == write.id, attempts.c.attempt == write.attempt)
    return connection.execute(select(attempts.c.task_reads).where(*this)).scalar_one_or_none() or 0


def first_sendings(
    connection: Connection, partner: PartnerId, since: datetime
) -> Mapping[tuple[EventId, RuleId], Sequence[datetime]]:
    """When each episode's first attempt was recorded, unsent ones left out, by (event, rule)."""
    a, earlier = attempts.c, attempts.alias("earlier")
    begun_before = exists().where(
        earlier.c.partner == a.partner,
        earlier.c.event == a.event,
        earlier.c.rule == a.rule,
        earlier.c.episode == a.episode,
        earlier.c.at < time_text(since),
        earlier.c.outcome != NOT_SENT,
    )
    first = func.min(a.at)
    query = (
        select(a.event, a.rule, first)
        .where(a.partner == partner, a.at >= time_text(since), a.outcome != NOT_SENT, ~begun_before)
        .group_by(a.event, a.rule, a.episode)
        .order_by(first)
    )
    found: dict[tuple[EventId, RuleId], list[datetime]] = defaultdict(list)
    for event, rule, at in connection.execute(query):
        found[EventId(event), RuleId(rule)].append(time_of(at))
    return dict(found)


def active_halts(connection: Connection, now: datetime) -> tuple[Halt, ...]:
    """Halts that nobody resumed and that have not run out."""
    holds = or_(halts.c.until.is_(None), halts.c.until > time_text(now))
    query = select(halts).where(halts.c.resumed_at.is_(None), holds).order_by(halts.c.id)
    return tuple(
        Halt(
            id=row.id,
            partner=row.partner,
            rule=row.rule,
            until=maybe_time(row.until),
            because=row.because,
            by=row.by,
            at=time_of(row.at),
        )
        for row in connection.execute(query)
    )


def insert_halt(connection: Connection, halt: Halt) -> int:
    """Stores a halt and gives it its number."""
    row = {
        "partner": halt.partner,
        "rule": halt.rule,
        "until": maybe_text(halt.until),
        "because": halt.because,
        "by": halt.by,
        "at": time_text(halt.at),
    }
    return int(connection.execute(insert(halts).returning(halts.c.id), row).scalar_one())


def _spent(connection: Connection, write: Write, narrowed: ColumnElement[bool]) -> float:
    """Each write counts once, however often it was sent: it is sent again only where it was proven absent."""
    a = attempts.c
    each = (
        select(func.max(a.amount).label("amount"))
        .where(a.partner == write.key.partner, narrowed, a.outcome.not_in(WITHOUT_EFFECT), a.write != write.id)
        .group_by(a.write)
        .subquery()
    )
    return float(connection.execute(select(func.coalesce(func.sum(each.c.amount), 0.0))).scalar_one())


def _amount(write: Write) -> float | None:
    """The budget that a request carries; a boost commits the one of the draft that it found."""
    if not write.intent.spends:
        return None
    own = _number(write.intent.params.get("total_budget"))
    if own is None and write.intent.action == "boost" and isinstance(write.before, dict):
        return _number(write.before.get("total_budget"))
    return own


def _number(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
