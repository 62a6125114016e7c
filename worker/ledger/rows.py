"""A write and its row: one column for each field, so that operators can ask SQL what no command foresaw.

Values that the worker compares later (what is wanted, what was there before) come back exactly as they were, integers
and floats apart. Nothing here decides which row may change: see `worker.ledger.rows`.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast, get_args

from sqlalchemy import Select, exists, func, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from worker.ledger.database import Connection, Prepared, Store, given
from worker.ledger.tables import (
    attempts,
    decode,
    encode,
    halts,
    json_of,
    json_text,
    maybe_text,
    maybe_time,
    millis_text,
    partner_memory,
    readable,
    rule_memory,
    time_of,
    time_text,
    writes,
)
from worker.model.commits import Halt, Move, PartnerMemory, RuleMemory
from worker.model.errors import StateConflict
from worker.model.facts import EventId, Json, PartnerId, RuleId, WriteId
from worker.model.writes import FINAL, ConfirmedBy, Intent, Plan, State, Write, WriteKey


def _states_that_are_not_final() -> Select[tuple[str]]:
    """Each state that some write is in, found from one to the next in the index by state."""
    found = select(func.min(writes.c.state).label("state")).cte("found", recursive=True)
    following = select(func.min(writes.c.state)).where(writes.c.state > found.c.state).scalar_subquery()
    found = found.union_all(select(following).where(found.c.state.is_not(None)))
    return select(found.c.state).where(found.c.state.not_in(sorted(FINAL)))


ALL_WRITES = select(writes).order_by(writes.c.id)
"""Every write, oldest first; to be narrowed."""
OPEN_WRITES = ALL_WRITES.where(writes.c.state.in_(_states_that_are_not_final()))
"""Those that are not final, also one in a state that cannot be. What has ended in years is not looked at."""
_STATES = frozenset(get_args(State))
_COLUMNS = tuple(column.name for column in writes.c)
LIFE: tuple[str, ...] = (
    *("state", "reason", "why", "rules", "attempt", "uncounted", "changed_at", "due_since", "first_sent_at"),
    *("last_sent_at", "unknown_since", "held_by", "held_until", "confirmed_by", "before", "before_known", "approved"),
    *("extra_attempts", "denied", "absent_proved"),
)
"""The columns of `life_row`, which a move may change."""
DECODED_MOST = 2_000
"""So many writes are kept as they were read; beyond them it is begun anew."""


def key_row(key: WriteKey) -> dict[str, object]:
    """The columns of the natural key."""
    return {
        "partner": key.partner,
        "event": key.event,
        "rule": key.rule,
        "episode": key.episode,
        "position": key.position,
        "item": key.item,
    }


def intent_row(intent: Intent) -> dict[str, object]:
    """The columns of what is wanted; they never change."""
    return {
        "action": intent.action,
        "target": intent.target,
        "wish": intent.wish,
        "wanted": json_text(dict(intent.wanted)),
        "params": json_text(dict(intent.params)),
        "order": intent.order,
        "spends": intent.spends,
        "stops": intent.stops,
        "do_hash": intent.do_hash,
        "context": json_text(dict(intent.context)),
    }


def life_row(write: Write) -> dict[str, object]:
    """The values of `LIFE`."""
    return {
        "state": write.state,
        "reason": write.reason,
        "why": text_safe(write.why),
        "rules": json_text(list(write.rules)),
        "attempt": write.attempt,
        "uncounted": write.uncounted,
        "changed_at": time_text(write.changed_at),
        "due_since": time_text(write.due_since),
        "first_sent_at": maybe_text(write.first_sent_at),
        "last_sent_at": maybe_text(write.last_sent_at),
        "unknown_since": maybe_text(write.unknown_since),
        "held_by": write.held_by,
        "held_until": maybe_text(write.held_until),
        "confirmed_by": write.confirmed_by,
        "before": json_text(write.before),
        "before_known": write.before_known,
        "approved": write.approved,
        "extra_attempts": write.extra_attempts,
        "denied": write.denied,
        "absent_proved": write.absent_proved,
    }


def text_safe(text: str) -> str:
    """Words for people, without what no file could hold (half a surrogate pair from a service's answer)."""
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode("utf-8")


@readable
def check_state(number: object, state: object) -> None:
    """Raises `LedgerDamaged` for a state that there is not: nobody knows whether such a write holds its target."""
    if state not in _STATES:
        raise ValueError(f"write {number} is in no state that there is: {state!r}")


@readable
def write_of(row: Sequence[Any]) -> Write:
    """The write in a row of `ALL_WRITES`, as SQLAlchemy or as SQLite itself gives it."""
    at = dict(zip(_COLUMNS, row, strict=True))
    check_state(at["id"], at["state"])
    return Write(
        id=WriteId(at["id"]),
        key=WriteKey(
            partner=PartnerId(at["partner"]),
            event=EventId(at["event"]),
            rule=RuleId(at["rule"]),
            episode=at["episode"],
            position=at["position"],
            item=at["item"],
        ),
        intent=Intent(
            action=at["action"],
            target=at["target"],
            wish=at["wish"],
            wanted=_object(at["wanted"]),
            params=_object(at["params"]),
            order=at["order"],
            spends=bool(at["spends"]),
            stops=bool(at["stops"]),
            do_hash=at["do_hash"],
            context=_object(at["context"]),
        ),
        state=cast(State, at["state"]),
        reason=at["reason"],
        why=at["why"],
        rules=tuple(RuleId(str(rule)) for rule in cast("list[Json]", json_of(at["rules"]))),
        attempt=at["attempt"],
        uncounted=at["uncounted"],
        planned_at=time_of(at["planned_at"]),
        changed_at=time_of(at["changed_at"]),
        due_since=time_of(at["due_since"]),
        first_sent_at=maybe_time(at["first_sent_at"]),
        last_sent_at=maybe_time(at["last_sent_at"]),
        unknown_since=maybe_time(at["unknown_since"]),
        held_by=at["held_by"],
        held_until=maybe_time(at["held_until"]),
        confirmed_by=cast("ConfirmedBy | None", at["confirmed_by"]),
        before=json_of(at["before"]),
        before_known=bool(at["before_known"]),
        approved=bool(at["approved"]),
        extra_attempts=at["extra_attempts"],
        denied=at["denied"],
        absent_proved=bool(at["absent_proved"]),
        changed_seq=at["changed_seq"],
        sent_seq=at["sent_seq"],
    )


class Decoded:
    """Writes as they were last read, each decoded again only when its row is another one: the same open writes are
    asked for several times in every look."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Sequence[Any], Write]] = {}

    def of(self, row: Sequence[Any]) -> Write:
        """The write in a row of `ALL_WRITES` as SQLite gives it."""
        known = self._known.get(row[0])
        if known is not None and known[0] == row:
            return known[1]
        if len(self._known) >= DECODED_MOST:
            self._known.clear()
        write = write_of(row)
        self._known[row[0]] = row, write
        return write


def writes_json(write: Write) -> dict[str, Json]:
    """A write as ``writes --format json`` prints it."""
    return {
        "id": write.id,
        "state": write.state,
        "reason": write.reason,
        "partner": write.key.partner,
        "event": write.key.event,
        "rule": write.key.rule or None,
        "rules": list(write.rules),
        "episode": write.key.episode,
        "position": write.key.position,
        "item": write.key.item,
        "action": write.intent.action,
        "attempt": write.attempt,
        "planned_at": millis_text(write.planned_at),
        "changed_at": millis_text(write.changed_at),
        "held_by": write.held_by,
        "held_until": None if write.held_until is None else millis_text(write.held_until),
        "confirmed_by": write.confirmed_by,
        "before": write.before,
        "why": write.why,
        "wanted": dict(write.intent.wanted),
        "params": dict(write.intent.params),
    }


def _object(text: str) -> Mapping[str, Json]:
    return cast("dict[str, Json]", json_of(text))


# The single changes that a transaction is made of: memory, plans, moves.
#
# Each is conditional: memory whose episode would go back, a plan whose natural key exists and a move whose row has
# changed meanwhile are refused with `StateConflict`, and the caller's transaction is undone as a whole. Nothing here
# begins or ends a transaction.

_MEMORY = upsert(rule_memory)
_SAVE_MEMORY = _MEMORY.on_conflict_do_update(
    index_elements=["partner", "event", "rule"],
    set_={"episode": _MEMORY.excluded.episode, "body": _MEMORY.excluded.body},
    where=_MEMORY.excluded.episode >= rule_memory.c.episode,
)
_PARTNER = upsert(partner_memory)
_SAVE_PARTNER = _PARTNER.on_conflict_do_update(index_elements=["partner"], set_={"body": _PARTNER.excluded.body})
_SAVE_MEMORIES = Prepared(_SAVE_MEMORY, ("partner", "event", "rule", "episode", "body"))
_PLAN = Prepared(insert(writes), [column.name for column in writes.c if column.name != "id"])
_IF_UNMOVED = update(writes).where(
    writes.c.id == given("was_id"),
    writes.c.state == given("was_state"),
    writes.c.attempt == given("was_attempt"),
    writes.c.changed_at == given("was_changed_at"),
)
_IN_ORDER = ("changed_seq", "sent_seq")
_IF_UNMOVED = _IF_UNMOVED.values({name: func.coalesce(given(f"new_{name}"), writes.c[name]) for name in _IN_ORDER})
_MOVE = Prepared(_IF_UNMOVED, LIFE)
_MOVE_BUT_RULES = Prepared(_IF_UNMOVED, [name for name in LIFE if name != "rules"])


def save_memories(connection: Connection, memories: Sequence[RuleMemory]) -> None:
    """Stores memories. An episode that would go back means a decision on old memory: nothing of it may stand."""
    if not memories:
        return
    rows = [
        {"partner": one.partner, "event": one.event, "rule": one.rule, "episode": one.episode, "body": encode(one)}
        for one in memories
    ]
    if _SAVE_MEMORIES.run_many(connection, rows).rowcount == len(rows):
        return
    stored = {
        (row.partner, row.event, row.rule): row.episode
        for row in connection.execute(
            select(rule_memory).where(rule_memory.c.partner.in_({one.partner for one in memories}))
        )
    }
    behind = next(one for one in memories if stored[one.partner, one.event, one.rule] > one.episode)
    raise StateConflict(
        f"episode {behind.episode} of rule {behind.rule} for event {behind.event} is behind the ledger's "
        f"{stored[behind.partner, behind.event, behind.rule]}: episode numbers never go back",
        hint="read the memory anew and decide again",
    )


def stored_memory(connection: Connection, like: RuleMemory) -> RuleMemory | None:
    """The memory of that pair as it is stored."""
    m = rule_memory.c
    query = select(m.body).where(m.partner == like.partner, m.event == like.event, m.rule == like.rule)
    body = connection.execute(query).scalar_one_or_none()
    return None if body is None else decode(RuleMemory, body)


def save_partner(connection: Connection, memory: PartnerMemory | None) -> None:
    """Stores the memory of a partner."""
    if memory is not None:
        connection.execute(_SAVE_PARTNER, {"partner": memory.partner, "body": encode(memory)})


def insert_plan(connection: Connection, plan: Plan, at: datetime, seq: int) -> Write:
    """Stores a new write and gives it its number. ``seq``: of the record that is to tell of it."""
    write = replace(replace(plan, why=text_safe(plan.why)).write(0, at), changed_seq=seq)
    row = {**key_row(write.key), **intent_row(write.intent), **life_row(write), "planned_at": time_text(at)}
    row |= {"changed_seq": write.changed_seq, "sent_seq": write.sent_seq}
    try:
        number = _PLAN.run(connection, row).lastrowid
    except sqlite3.IntegrityError as error:
        key = plan.key
        raise StateConflict(
            f"a write of rule {key.rule} for event {key.event}, episode {key.episode}, position {key.position}"
            f"{f', item {key.item}' if key.item else ''} exists already",
            hint="a decision is made once; read the memory anew and decide again",
        ) from error
    return replace(write, id=WriteId(cast(int, number)))


def update_write(connection: Connection, move: Move, seq: int) -> None:
    """Makes a move where the row still is what the move was decided on. ``seq``: of the last record that tells of it;
    what was decided on may be older than the row's own, which therefore is no part of the move."""
    before, after = move.before, move.after
    if (after.id, after.key, after.intent) != (before.id, before.key, before.intent):
        raise ValueError(f"write {before.id}: a move may not change what a write is, only where it stands")
    was: dict[str, object] = {
        "was_id": before.id,
        "was_state": before.state,
        "was_attempt": before.attempt,
        "was_changed_at": time_text(before.changed_at),
    }
    was |= {
        "new_changed_seq": seq if after.state != before.state else None,
        "new_sent_seq": seq if after.attempt != before.attempt else None,
    }
    same_rules = after.rules == before.rules  # a rule may have joined since the move was decided; then it stays
    if (_MOVE_BUT_RULES if same_rules else _MOVE).run(connection, {**life_row(after), **was}).rowcount == 1:
        return
    found = connection.execute(select(writes.c.state, writes.c.attempt).where(writes.c.id == before.id)).one_or_none()
    now = "does not exist" if found is None else f"is {found.state} (attempt {found.attempt}), changed meanwhile"
    raise StateConflict(
        f"write {before.id} {now}; expected {before.state} (attempt {before.attempt})",
        hint="look at it again with `campaign-worker writes` and decide on what stands there now",
    )


# Attempts: what was sent, when, how much money it carried, and what came of it.
#
# A table of its own, because brakes count requests on the wire, and a write that is sent again or proven unsent must
# count once, or not at all. An attempt's outcome is set when its write leaves ``sending``. Nothing here allows or
# forbids a sending; it only shows what the brakes judge by.

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
