"""The single changes that a transaction is made of: memory, plans, moves.

Each is conditional: memory whose episode would go back, a plan whose natural key exists and a move whose row has
changed meanwhile are refused with `StateConflict`, and the caller's transaction is undone as a whole. Nothing here
begins or ends a transaction.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import cast

from sqlalchemy import func, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from worker.ledger.codec import decode, encode, time_text
from worker.ledger.connections import Connection
from worker.ledger.prepared import Prepared, given
from worker.ledger.rows import LIFE, intent_row, key_row, life_row, text_safe
from worker.ledger.tables import partner_memory, rule_memory, writes
from worker.model.commits import Move
from worker.model.errors import StateConflict
from worker.model.ids import WriteId
from worker.model.memory import PartnerMemory, RuleMemory
from worker.model.writes import Plan, Write

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
