"""Attempts: what was sent, when, how much money it carried, and what came of it.

A table of its own, because brakes count requests on the wire, and a write that is sent again or proven unsent must
count once, or not at all. An attempt's outcome is set when its write leaves ``sending``. Nothing here allows or forbids
a sending; it only shows what the brakes judge by.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import exists, func, insert, select, update

from worker.ledger.codec import maybe_text, time_of, time_text
from worker.ledger.connections import Connection
from worker.ledger.prepared import Prepared, given
from worker.ledger.store import Store
from worker.ledger.tables import attempts, halts, writes
from worker.model.commits import Halt, Move
from worker.model.ids import EventId, PartnerId, RuleId
from worker.model.writes import State, Write

HOUR = timedelta(hours=1)
OPEN, NOT_SENT, REJECTED, UNKNOWN, ABSENT = "open", "not_sent", "rejected", "unknown", "absent"
OUTCOMES: Mapping[State, str] = {
    "planned": NOT_SENT,
    "rejected": REJECTED,
    "applied": "accepted",
    "confirmed": "accepted",
}
"""By the state that follows ``sending``; any other is ``unknown``."""
_A, _EARLIER = attempts.c, attempts.alias("earlier").c
WITHOUT_EFFECT = (NOT_SENT, REJECTED, ABSENT)
PROVE_ABSENCE: frozenset[tuple[State, State]] = frozenset(
    {
        ("unknown", "sending"),
        ("unknown", "skipped"),
        ("unknown", "cancelled"),
        ("needs_human", "skipped"),
        ("needs_human", "planned"),
    }
)
"""Moves that a write makes only where its unknown attempts are proved, or said by a person, to have done nothing."""
_RECORD = Prepared(insert(attempts), [column.name for column in _A if column.name != "task_reads"])
_OF_WRITE = update(attempts).where(_A.write == given("this"))
_SETTLE = Prepared(_OF_WRITE.where(_A.attempt == given("last")), ("outcome",))
_LOST = Prepared(_OF_WRITE.where(_A.outcome == given("was")), ("outcome",))
_TASK_READS = Prepared(select(_A.task_reads).where(_A.write == given("this"), _A.attempt == given("attempt")))
_BEGUN_BEFORE = exists().where(
    writes.c.partner == _A.partner,
    writes.c.event == _A.event,
    writes.c.rule == _A.rule,
    writes.c.episode == _A.episode,
    _EARLIER.write == writes.c.id,
    _EARLIER.at < given("since"),
    _EARLIER.outcome != NOT_SENT,
)
_FIRST = Prepared(
    select(_A.event, _A.rule, func.min(_A.at))
    .where(_A.partner == given("partner"), _A.stops.in_([False, True]), _A.at >= given("since"))
    .where(_A.outcome != NOT_SENT, ~_BEGUN_BEFORE)
    .group_by(_A.event, _A.rule, _A.episode)
    .order_by(func.min(_A.at))
)


def record_attempt(connection: Connection, write: Write, at: datetime, amount: float | None) -> None:
    """Stores the attempt that a write in ``sending`` is about to make, with the money that its brake was judged by."""
    row = {
        "write": write.id,
        "attempt": write.attempt,
        "at": time_text(at),
        "partner": write.key.partner,
        "event": write.key.event,
        "rule": write.key.rule,
        "episode": write.key.episode,
        "stops": write.intent.stops or not write.intent.target,
        "spends": write.intent.spends,
        "amount": amount,
        "outcome": OPEN,
    }
    _RECORD.run(connection, row)


def settle_attempt(connection: Connection, move: Move) -> None:
    """Notes what came of an attempt: when its write leaves ``sending``, and when it is known to have done nothing."""
    before, after = move.before, move.after
    if before.state == "sending" and after.state != "sending":
        outcome = OUTCOMES.get(after.state, UNKNOWN)
        _SETTLE.run(connection, {"outcome": outcome, "this": before.id, "last": before.attempt})
    if (before.state, after.state) in PROVE_ABSENCE:
        _LOST.run(connection, {"outcome": ABSENT, "this": before.id, "was": UNKNOWN})


def note_task_read(connection: Connection, write: Write) -> None:
    """Counts one read of the service's task behind the write's last attempt."""
    this = (attempts.c.write == write.id, attempts.c.attempt == write.attempt)
    connection.execute(update(attempts).where(*this).values(task_reads=attempts.c.task_reads + 1))


def task_reads(store: Store, write: Write) -> int:
    """How often the task behind the write's last attempt was read."""
    found = store.rows(_TASK_READS, {"this": write.id, "attempt": write.attempt})
    return int(found[0][0]) if found else 0


def first_sendings(
    store: Store, partner: PartnerId, since: datetime
) -> Mapping[tuple[EventId, RuleId], Sequence[datetime]]:
    """When each episode's first attempt was recorded, unsent ones left out, by (event, rule)."""
    found: dict[tuple[EventId, RuleId], list[datetime]] = defaultdict(list)
    for event, rule, at in store.rows(_FIRST, {"partner": partner, "since": time_text(since)}):
        found[EventId(event), RuleId(rule)].append(time_of(at))
    return dict(found)


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
