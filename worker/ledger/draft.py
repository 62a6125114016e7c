"""A ledger to rehearse on: what deciding and guarding look at, copied into memory, with the real ledger's code on top.

`plan` runs the daemon's own cycle over it. The file is opened for reading only, so it cannot be changed by a slip, and
what the rehearsal stores ends with the process. Left out is what no decision reads: the old log, writes that ended long
ago, and the trail, which a rehearsal does not leave.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import ColumnElement, Table, and_, exists, func, insert, or_, select

from worker.ledger.codec import millis_text, time_text
from worker.ledger.connections import Connection
from worker.ledger.mark import first_mark, lost, read_mark
from worker.ledger.places import LedgerPlace, place_of
from worker.ledger.revisions import NOTHING, require_current, revision_of
from worker.ledger.sql import SqlLedger
from worker.ledger.standing import compared
from worker.ledger.store import Store, memory_store, reading_store
from worker.ledger.tables import (
    action_log,
    attempts,
    halts,
    meta,
    metadata,
    partner_memory,
    rule_memory,
    writes,
)
from worker.model.commits import Commit
from worker.model.writes import FINAL, Write

RECENT = timedelta(days=2)
"""Firings and ended writes of this time count for surges, and for what was overtaken."""
ROWS_AT_ONCE = 1_000


class DraftLedger(SqlLedger):
    """The `Ledger` port in memory; nothing that it is told is kept."""

    def apply(self, commit: Commit) -> tuple[Write, ...]:
        """One transaction, without the trail."""
        return super().apply(replace(commit, trail=None))


def draft_of(url: str, *, now: datetime, reach: timedelta, folder: Path | None = None) -> DraftLedger:
    """The copy of a ledger; of none yet, an empty one. ``reach``: how far back first attempts matter.

    Raises `NotSafe` where the daemon would not start on it either: restored, lost, newer or older.
    """
    place = place_of(url, folder)
    store = memory_store()
    with store.writing() as target:
        metadata.create_all(target.core)
    if place.file.exists():
        _copy(place, store, now=now, reach=reach)
    elif place.mark.exists():
        raise lost(place)
    return DraftLedger(store, mark=first_mark("draft"))


def _copy(place: LedgerPlace, store: Store, *, now: datetime, reach: timedelta) -> None:
    mark = read_mark(place)  # before the ledger: a daemon may go on meanwhile, and a ledger ahead of its mark is fine
    file = reading_store(place)
    name = f"the ledger {place.file}"
    try:
        with file.reading() as source:
            revision = revision_of(source, name)
            if revision == NOTHING:
                return
            require_current(revision, name, place=place)
            compared(source, place, mark)
            with store.writing() as target:
                for table, wanted in _wanted(now, reach).items():
                    _copy_rows(source, target, table, wanted)
    finally:
        file.close()


def _copy_rows(source: Connection, target: Connection, table: Table, wanted: ColumnElement[bool] | None) -> None:
    query = select(table) if wanted is None else select(table).where(wanted)
    for rows in source.execute(query).mappings().partitions(ROWS_AT_ONCE):
        target.execute(insert(table), [dict(row) for row in rows])


def _wanted(now: datetime, reach: timedelta) -> Mapping[Table, ColumnElement[bool] | None]:
    """Of each table what can matter; None for all of it."""
    w, a, log, m = writes.c, attempts.c, action_log.c, rule_memory.c
    recent = time_text(now - RECENT)
    of_episode = exists().where(m.partner == w.partner, m.event == w.event, m.rule == w.rule, m.episode == w.episode)
    fired = and_(log.kind == "fired", log.at >= millis_text(now - RECENT))
    newest = log.seq == select(func.max(action_log.alias("whole").c.seq)).scalar_subquery()
    return {
        meta: None,
        rule_memory: None,
        partner_memory: None,
        halts: None,
        writes: or_(w.state.not_in(sorted(FINAL)), w.changed_at >= recent, of_episode),
        attempts: or_(a.at >= time_text(now - max(reach, RECENT)), a.amount.is_not(None)),
        action_log: or_(fired, newest),
    }
