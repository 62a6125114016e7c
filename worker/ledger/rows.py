"""Rows: how memory, writes, attempts and facts are stored, and the single changes that a transaction is made of.

A write has one column for each field, so that operators can ask SQL what no command foresaw. Each change is made only
where it stands on what is there: memory whose episode would go back, a plan whose natural key exists and a move whose
row has changed meanwhile are a `StateConflict`, and undo the caller's transaction. Nothing here begins or ends one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any, cast, get_args

from sqlalchemy import (
    Connection,
    CursorResult,
    Executable,
    Integer,
    Row,
    RowMapping,
    Select,
    bindparam,
    delete,
    exists,
    false,
    func,
    insert,
    select,
    true,
    update,
)
from sqlalchemy.exc import IntegrityError

from worker.ledger.tables import (
    attempts,
    none_of,
    observations,
    observed,
    partners,
    readable,
    replicas,
    rule_memory,
    time_of,
    time_text,
    upsert,
    writes,
)
from worker.model.commits import (
    Change,
    Changes,
    History,
    Move,
    Observed,
    PartnerMemory,
    RuleMemory,
    Sending,
    body_of,
    memory_of,
)
from worker.model.errors import StateConflict
from worker.model.exchange import LEASE
from worker.model.facts import EventId, Fact, FactKey, Json, Known, PartnerId, Scalar, Unknown, UnknownCode, WriteId
from worker.model.writes import FINAL, Intent, Plan, State, Write, WriteKey

AnyRow = Row[*tuple[Any, ...]]


@readable
def rule_memory_of(body: Json) -> RuleMemory:
    """The memory that was stored, perhaps by an older program."""
    return memory_of(RuleMemory, body)


@readable
def partner_memory_of(body: Json) -> PartnerMemory:
    """The same of a partner's."""
    return memory_of(PartnerMemory, body)


def rules_that_looked(connection: Connection) -> set[str]:
    """Every rule that ever looked at a partner; of most pairs of a rule and an event nothing else is stored."""
    bodies = connection.execute(select(partners.c.body).where(partners.c.body.is_not(None))).scalars()
    return {rule for body in bodies for rule in body.get("rules", ())}


_SAVE_MEMORY = upsert(rule_memory, "partner", "event", "rule", where="episode").execution_options(
    preserve_rowcount=True
)
_SAVE_PARTNER = upsert(partners, "partner", changed=("body",))


def save_memories(connection: Connection, memories: Sequence[RuleMemory]) -> None:
    """Stores memories. An episode that would go back means a decision on old memory: nothing of it may stand."""
    rows = [
        {"partner": one.partner, "event": one.event, "rule": one.rule, "episode": one.episode, "body": body_of(one)}
        for one in memories
    ]
    if not rows or cast("CursorResult[Any]", connection.execute(_SAVE_MEMORY, rows)).rowcount == len(rows):
        return
    m = rule_memory.c
    query = select(m.partner, m.event, m.rule, m.episode).where(m.partner.in_({one.partner for one in memories}))
    stored = {(row.partner, row.event, row.rule): row.episode for row in connection.execute(query)}
    behind = next(one for one in memories if stored[one.partner, one.event, one.rule] > one.episode)
    raise StateConflict(
        f"episode {behind.episode} of rule {behind.rule} for event {behind.event} is behind the ledger's "
        f"{stored[behind.partner, behind.event, behind.rule]}: episode numbers never go back",
        hint="read the memory anew and decide again",
    )


def save_partner(connection: Connection, memory: PartnerMemory | None) -> None:
    """Stores the memory of a partner."""
    if memory is not None:
        connection.execute(_SAVE_PARTNER, {"partner": memory.partner, "body": body_of(memory)})


# Writes. Values that the worker compares later (what is wanted, what was there before) come back exactly as they were,
# integers and floats apart.


def _states_that_are_not_final() -> Select[tuple[str]]:
    """Each state that some write is in, found from one to the next in the index by state."""
    found = select(func.min(writes.c.state).label("state")).cte("found", recursive=True)
    following = select(func.min(writes.c.state)).where(writes.c.state > found.c.state).scalar_subquery()
    found = found.union_all(select(following).where(found.c.state.is_not(None)))
    return select(found.c.state).where(none_of(found.c.state, FINAL))


ALL_WRITES = select(writes).order_by(writes.c.id)
"""Every write, oldest first; to be narrowed."""
OPEN_WRITES = ALL_WRITES.where(writes.c.state.in_(_states_that_are_not_final()))
"""Those that are not final, also one in a state that cannot be. What has ended in years is not looked at."""
_STATES = frozenset(get_args(State))
KEY: tuple[str, ...] = tuple(one.name for one in fields(WriteKey))
INTENT: tuple[str, ...] = tuple(one.name for one in fields(Intent))
LIFE: tuple[str, ...] = (
    *("state", "reason", "why", "rules", "attempt", "uncounted", "changed_at", "due_since", "first_sent_at"),
    *("last_sent_at", "unknown_since", "held_by", "held_until", "confirmed_by", "before", "before_known", "approved"),
    *("extra_attempts", "denied", "absent_proved"),
)
"""The columns that a move may change."""
_OWN = ("planned_at", "changed_seq", "sent_seq")
_IN_ORDER = ("changed_seq", "sent_seq")
_ADD_WRITE = insert(writes)
_UNMOVED = ("id", "state", "attempt", "changed_at")
_IF_UNMOVED = (
    update(writes)
    .where(*(writes.c[name] == bindparam(f"was_{name}") for name in _UNMOVED))
    .values({name: func.coalesce(bindparam(f"new_{name}", type_=Integer), writes.c[name]) for name in _IN_ORDER})
)


def life_row(write: Write) -> dict[str, Any]:
    """The values of `LIFE`."""
    return {name: getattr(write, name) for name in LIFE}


def write_row(write: Write) -> dict[str, Any]:
    """Every column but the number."""
    row = {name: getattr(write.key, name) for name in KEY} | {name: getattr(write.intent, name) for name in INTENT}
    return {**row, **life_row(write), **{name: getattr(write, name) for name in _OWN}}


@readable
def write_of(at: RowMapping) -> Write:
    """The write in a row of `ALL_WRITES`, as a mapping. Of one in a state that there is not nobody knows whether it
    holds its target."""
    if at["state"] not in _STATES:
        raise ValueError(f"write {at['id']} is in no state that there is: {at['state']!r}")
    life = {name: at[name] for name in (*LIFE, *_OWN)}
    return Write(
        id=at["id"],
        key=WriteKey(**{name: at[name] for name in KEY}),
        intent=Intent(**{name: at[name] for name in INTENT}),
        **{**life, "rules": tuple(life["rules"])},
    )


def written(connection: Connection, query: Executable, values: Mapping[str, object] | None = None) -> tuple[Write, ...]:
    """The writes that a query narrowed from `ALL_WRITES` finds."""
    return tuple(write_of(row._mapping) for row in connection.execute(query, values).all())  # noqa: SLF001 - SQLAlchemy's


def _aim(write: Write) -> tuple[str, str]:
    """What no computing anew may change of a write."""
    return write.intent.action, write.intent.target


def insert_plan(connection: Connection, plan: Plan, at: datetime, seq: int) -> Write:
    """Stores a new write and gives it its number. ``seq``: of the record that is to tell of it."""
    write = replace(plan.write(0, at), changed_seq=seq)
    try:
        made = cast("CursorResult[Any]", connection.execute(_ADD_WRITE, write_row(write)))
    except IntegrityError as error:
        key = plan.key
        raise StateConflict(
            f"a write of rule {key.rule} for event {key.event}, episode {key.episode}, position {key.position}"
            f"{f', item {key.item}' if key.item else ''} exists already",
            hint="a decision is made once; read the memory anew and decide again",
        ) from error
    return replace(write, id=WriteId(cast("tuple[int]", made.inserted_primary_key)[0]))


def update_write(connection: Connection, move: Move, seq: int) -> None:
    """Makes a move where the row still is what the move was decided on. ``seq``: of the last record that tells of it;
    what was decided on may be older than the row's own, which therefore is no part of the move."""
    before, after = move.before, move.after
    anew = after.intent != before.intent
    if (after.id, after.key) != (before.id, before.key) or (anew and (before.sent or _aim(after) != _aim(before))):
        raise ValueError(f"write {before.id}: a move may not change what a write is, only where it stands")
    row = life_row(after) | {f"was_{name}": getattr(before, name) for name in _UNMOVED}
    row |= {name: getattr(after.intent, name) for name in INTENT} if anew else {}
    row["new_changed_seq"] = seq if after.state != before.state else None
    row["new_sent_seq"] = seq if after.attempt != before.attempt else None
    if after.rules == before.rules:
        del row["rules"]  # a rule may have joined since the move was decided; then it stays
    if cast("CursorResult[Any]", connection.execute(_IF_UNMOVED, row)).rowcount == 1:
        return
    found = connection.execute(select(writes.c.state, writes.c.attempt).where(writes.c.id == before.id)).one_or_none()
    now = "does not exist" if found is None else f"is {found.state} (attempt {found.attempt}), changed meanwhile"
    hint = "look at it again with `campaign-worker writes` and decide on what stands there now"
    raise StateConflict(f"write {before.id} {now}; expected {before.state} (attempt {before.attempt})", hint=hint)


# Attempts: what was sent, when, how much money it carried, and what came of it.
#
# A table of its own, because limits count requests on the wire, and a write that is sent again or proven unsent must
# count once, or not at all. An attempt's outcome is set when its write leaves ``sending``. Nothing here allows or
# forbids a sending; it only shows what the limits judge by.

HOUR = timedelta(hours=1)
WEEK = timedelta(hours=168)
"""How far back the money of all events is counted."""
OPEN, NOT_SENT, REJECTED, UNKNOWN, ABSENT, ACCEPTED = "open", "not_sent", "rejected", "unknown", "absent", "accepted"
OUTCOMES: Mapping[State, str] = {
    "planned": NOT_SENT,
    "rejected": REJECTED,
    "applied": ACCEPTED,
    "confirmed": ACCEPTED,
}
"""By the state that follows ``sending``; any other is ``unknown``."""
WITHOUT_EFFECT = (NOT_SENT, REJECTED, ABSENT)
PROVE_ABSENCE: Mapping[State, tuple[State, ...]] = {
    "unknown": ("sending", "skipped", "cancelled"),
    "needs_human": ("skipped", "planned"),
}
"""Moves that a write makes only where its attempts are proved, or said by an operator, to have done nothing, also one
that the service had accepted."""
_A, _EARLIER, _BEGUN = attempts.c, attempts.alias("earlier").c, writes.alias("begun").c
_OUTCOME = update(attempts).where(_A.write == bindparam("of_write")).values(outcome=bindparam("comes_to"))
_OF_ONE = _OUTCOME.where(_A.attempt == bindparam("of_attempt"))
_OF_OPEN_END = _OUTCOME.where(_A.outcome.in_([UNKNOWN, ACCEPTED]))
_OF_ABSENT = _OUTCOME.where(_A.outcome == ABSENT)
_ADD_ATTEMPT = insert(attempts)
OF_FIRING = ("partner", "event", "rule", "episode")
"""What the writes and attempts of one firing have in common."""
_BEGUN_BEFORE = exists().where(
    *(_BEGUN[name] == _A[name] for name in OF_FIRING),
    _EARLIER.write == _BEGUN.id,
    _EARLIER.at < bindparam("since"),
    _EARLIER.outcome != NOT_SENT,
)
FIRST_SENDINGS = (
    select(_A.event, _A.rule, _A.episode, writes.c.rules, func.min(_A.at))
    .join(writes, writes.c.id == _A.write)
    .where(_A.partner == bindparam("of_partner"), _A.stops.in_([false(), true()]), _A.at >= bindparam("since"))
    .where(_A.outcome != NOT_SENT, ~_BEGUN_BEFORE)
    .group_by(_A.event, _A.rule, _A.episode, writes.c.rules)
    .order_by(func.min(_A.at))
)


def record_attempt(connection: Connection, sending: Sending) -> None:
    """Stores the attempt that a write in ``sending`` is about to make, with the money that its limit was judged by."""
    write = sending.move.after
    row = {
        "write": write.id,
        "attempt": write.attempt,
        "at": write.changed_at,
        **{name: getattr(write.key, name) for name in OF_FIRING},
        "stops": write.intent.stops or not write.intent.target,
        "spends": write.intent.spends,
        "amount": sending.amount,
        "outcome": OPEN,
        "late_s": sending.late_s,
    }
    connection.execute(_ADD_ATTEMPT, row)


def settle_attempt(connection: Connection, move: Move) -> None:
    """Notes what came of an attempt: when its write leaves ``sending``, and when it is known to have done nothing."""
    before, after = move.before, move.after
    if before.state == "sending" and after.state != "sending":
        outcome = OUTCOMES.get(after.state, UNKNOWN)
        connection.execute(_OF_ONE, {"of_write": before.id, "of_attempt": before.attempt, "comes_to": outcome})
    if after.state in PROVE_ABSENCE.get(before.state, ()):
        connection.execute(_OF_OPEN_END, {"of_write": before.id, "comes_to": ABSENT})
    if (before.state, after.state) == ("planned", "confirmed"):  # seen after all: an absence that was no proof
        connection.execute(_OF_ABSENT, {"of_write": before.id, "comes_to": ACCEPTED})


# Facts: how what is known of a partner is stored, and how the past is had back from it.
#
# The newest state of a fact is kept whole. A change keeps what the fact was *before* it, of a record only the fields
# that differ, so that old changes can be dropped without a second thought and a quiet field costs nothing. Nothing here
# is part of the action log or its chain: it explains decisions, it proves none.
#
# Facts as JSON, and the difference between two of them, so that a change of one field stores one field.
#
# A difference is what must be put on the newer fact to have the older one back. Only records are narrowed to the fields
# that differ; anything else is kept whole. When a fact was read is no part of what it is.

Body = Mapping[str, Json]


def fact_body(fact: Fact) -> dict[str, Json]:
    """What the fact is, without when it was read."""
    if isinstance(fact, Known):
        return {"value": fact.value, **({"gaps": dict(fact.gaps)} if fact.gaps else {})}
    return {"unknown": fact.code, "why": fact.why}


def stored_body(one: Observed) -> dict[str, Json]:
    """The same, with when it was read, and what it lacks as it was read last."""
    found: dict[str, Json] = {
        **fact_body(one.fact),
        "read_at": None if one.fact.read_at is None else time_text(one.fact.read_at),
    }
    return {**found, "last": dict(one.last)} if one.last else found


def fact_of(body: Body, otherwise: datetime) -> Fact:
    """The fact of a body. ``otherwise``: when a known one was read, where the body does not say."""
    stored = body.get("read_at")
    said = None if stored is None else time_of(str(stored))
    if "unknown" in body:
        return Unknown(code=cast(UnknownCode, body["unknown"]), why=str(body.get("why", "")), read_at=said)
    read_at = said or otherwise
    gaps = body.get("gaps")
    if isinstance(gaps, dict):
        return Known(value=body["value"], read_at=read_at, gaps={name: str(why) for name, why in gaps.items()})
    return Known(value=body["value"], read_at=read_at)


def difference(older: Fact, newer: Fact) -> Body:
    """What brings ``older`` back, put on ``newer``."""
    if not isinstance(older, Known) or not isinstance(newer, Known) or older.gaps != newer.gaps:
        return {"whole": fact_body(older)}
    old, new = older.value, newer.value
    if not isinstance(old, dict) or not isinstance(new, dict):
        return {"whole": fact_body(older)}
    other: dict[str, Json] = {name: value for name, value in old.items() if name not in new or new[name] != value}
    return {"set": other, "unset": [name for name in new if name not in old]}


@readable
def put_back(found: Body | None, newer: Fact | None, read_at: datetime) -> Fact | None:
    """The older fact; None where there was none."""
    if found is None:
        return None
    whole = found.get("whole")
    if isinstance(whole, dict):
        return fact_of(whole, read_at)
    if not isinstance(newer, Known) or not isinstance(newer.value, dict):
        raise ValueError("a difference of fields stands on something that is no record")  # noqa: TRY004 - of the text
    unset = cast("list[Json]", found["unset"])
    kept = {name: value for name, value in newer.value.items() if name not in unset}
    return Known(value={**kept, **cast("dict[str, Json]", found["set"])}, read_at=read_at, gaps=newer.gaps)


Place = tuple[EventId, str]
"""An event, or none, and the key of a fact as text."""
FORGET_AT_ONCE = 2_000
"""How many old changes one transaction drops at most, so that none takes long."""
ROWS_AT_ONCE = 500
"""So many changes are made ready for the database together: of a first list, all would be 9 MB, kept for good."""

_O, _C = observed.c, observations.c
EVENT_FACT = FactKey(name="event").text
_SAVE_OBSERVED = upsert(observed, "partner", "event", "fact", changed=("params", "at", "body", "title"))
_ADD_CHANGE = insert(observations)
FACTS_BEGIN = select(func.min(_C.at)).where(_C.partner == bindparam("of_partner"))
_OBSERVED = select(observed).where(_O.partner == bindparam("of_partner")).order_by(_O.event, _O.fact)
_FORGET = delete(observations).where(
    _C.id.in_(
        select(_C.id).where(_C.partner == bindparam("of_partner"), _C.at < bindparam("before")).limit(bindparam("most"))
    )
)
_LOOKED_AT = (
    update(observed)
    .where(_O.partner == bindparam("of_partner"), _O.event == bindparam("of_event"), _O.fact == EVENT_FACT)
    .values(looked_at=bindparam("looked"))
)


def save_changes(connection: Connection, seen: Changes, at: datetime) -> None:
    """Stores what was seen, within the caller's transaction. No change is later than one that came after it: what was
    so at a time is found by going back from now."""
    for of in (observed, observations) if seen.set_back else ():
        connection.execute(update(of).where(of.c.partner == seen.partner, of.c.at > at).values(at=at))
    for first in range(0, len(seen.changes), ROWS_AT_ONCE):
        some = seen.changes[first : first + ROWS_AT_ONCE]
        connection.execute(_ADD_CHANGE, [_change_row(seen.partner, one) for one in some])
        connection.execute(_SAVE_OBSERVED, [_observed_row(seen.partner, one.now) for one in some])
    if seen.looked_at:
        rows = [{"of_partner": seen.partner, "of_event": event, "looked": at} for event in seen.looked_at]
        connection.execute(_LOOKED_AT, rows)
    if seen.forget is not None:
        connection.execute(_FORGET, {"of_partner": seen.partner, "before": seen.forget, "most": FORGET_AT_ONCE})


def load_observed(
    connection: Connection, partner: PartnerId, events: Collection[EventId] | None
) -> tuple[Observed, ...]:
    """Every fact of the partner, or of these events and the partner as a whole, as it was seen last."""
    query = _OBSERVED if events is None else _OBSERVED.where(_O.event.in_(["", *events]))
    return tuple(map(_observed, connection.execute(query, {"of_partner": partner})))


@readable
def load_history(
    connection: Connection, partner: PartnerId, since: datetime | None, events: Collection[EventId] | None = None
) -> History:
    """What was so at a time, or before the first change that is still kept, and every change after it; of all events,
    or of these and of the partner as a whole."""
    newest = load_observed(connection, partner, events)
    keys = {(one.event, one.key.text): one.key for one in newest}
    state: dict[Place, Fact] = {(one.event, one.key.text): one.fact for one in newest}
    begins = since or min((one.at for one in newest), default=None)
    query = select(_C.event, _C.fact, _C.at, _C.before).where(_C.partner == partner).order_by(_C.id.desc())
    if events is not None:
        query = query.where(_C.event.in_(["", *events]))
    changes: list[Observed] = []
    for row in connection.execute(query if since is None else query.where(_C.at >= since)):
        place = EventId(row.event), str(row.fact)
        after = state.pop(place)
        before = put_back(row.before, after, row.at)
        if before is not None:
            state[place] = before
        fact = replace(after, read_at=row.at) if isinstance(after, Known) else replace(after, read_at=None)
        changes.append(Observed(event=place[0], key=keys[place], fact=fact, at=row.at))
        begins = row.at if since is None else since
    start = tuple(
        Observed(event=place[0], key=keys[place], fact=fact, at=begins)
        for place, fact in sorted(state.items(), key=lambda one: one[0])
        if begins is not None
    )
    return History(begins=begins, start=start, changes=tuple(reversed(changes)))


def _change_row(partner: PartnerId, change: Change) -> dict[str, object]:
    return {
        "partner": partner,
        "event": change.now.event,
        "fact": change.now.key.text,
        "at": change.now.at,
        "before": None if change.before is None else difference(change.before.fact, change.now.fact),
    }


def _observed_row(partner: PartnerId, one: Observed) -> dict[str, object]:
    return {
        "partner": partner,
        "event": one.event,
        "fact": one.key.text,
        "params": {"name": one.key.name, "params": [list(pair) for pair in one.key.params]},
        "at": one.at,
        "body": stored_body(one),
        "title": _title(one),
    }


def _title(one: Observed) -> str | None:
    """What people find an event by."""
    fact = one.fact
    if one.key.text != EVENT_FACT or not isinstance(fact, Known) or not isinstance(fact.value, dict):
        return None
    title = fact.value.get("title")
    return title if isinstance(title, str) else None


@readable
def _observed(row: AnyRow) -> Observed:
    pairs = cast("list[tuple[str, Scalar]]", row.params["params"])
    return Observed(
        event=EventId(row.event),
        key=FactKey(name=row.params["name"], params=tuple((name, value) for name, value in pairs)),
        fact=fact_of(row.body, row.at),
        at=row.at,
        last=row.body.get("last", {}),
        looked_at=row.looked_at,
    )


# The replicas of a fleet, by the clock of their server, which is the same for all.


_SERVER_TIME = select(func.clock_timestamp())
_LIVING = select(replicas.c.id, replicas.c.state).where(replicas.c.beat > bindparam("since"))


def server_time(connection: Connection) -> datetime:
    """Now, by the server's clock."""
    now: datetime = connection.execute(_SERVER_TIME).scalar_one()
    return now


def living(connection: Connection, now: datetime | None = None) -> dict[str, str]:
    """The replicas that were heard of not long ago, and the state that each says it is in."""
    since = (now or server_time(connection)) - LEASE
    return {row.id: row.state for row in connection.execute(_LIVING, {"since": since})}
