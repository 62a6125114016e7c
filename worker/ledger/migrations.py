"""Brings a ledger's tables to this program's revision: one path from nothing, and from every revision before.

A ledger is created or refused, never changed in passing: an older one waits for `campaign-worker ledger upgrade`, so
that a backup can be taken first, and a newer one is left alone, because a program cannot know what it would break.
Rows stay where they are: columns that lack are added, and filled from what is there; what nobody asks for is dropped.
"""

import os
from typing import Final

from sqlalchemy import Column, Connection, Table, bindparam, delete, exists, func, insert, inspect, select, update
from sqlalchemy.schema import CreateColumn, DropIndex, Index

from worker.ledger.log import GENESIS, OF_ALL
from worker.ledger.places import LedgerPlace, holder
from worker.ledger.rows import EVENT_FACT, OPEN, UNKNOWN
from worker.ledger.tables import (
    REVISION,
    REVISIONS,
    action_log,
    attempts,
    damaged,
    metadata,
    observed,
    partners,
    revision_table,
    rule_memory,
    writes,
)
from worker.model.errors import NotSafe

NOTHING: Final = ""
"""The revision of a file without tables: one whose creation was cut short."""
GONE = ("evaluations", "conditions", "partner_memory")
"""Tables of revisions before, of which nothing is kept."""
OTHERS_TOO = 2
"""So many tables of these names another program's database may have as well."""
LONG_AGO = "1970-01-01T00:00:00.000Z"


def revision_of(connection: Connection, name: str) -> str:
    """The revision stored in the file, `NOTHING` for an empty one. Raises `NotSafe` for somebody else's database."""
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return NOTHING
    if missing := {revision_table.name, "action_log", "meta"} - tables:
        if len(tables.intersection(metadata.tables)) > OTHERS_TOO:
            raise damaged(f"it has no table {min(missing)}", name)
        raise NotSafe(f"{name} is a database, but no ledger of campaign-worker", hint="check the path in `ledger:`")
    revision = connection.execute(select(revision_table.c.version_num)).scalar()
    if revision is None:
        raise damaged("it does not say which revision it has", name)
    return str(revision)


def require_current(revision: str, name: str, *, place: LedgerPlace | None = None) -> None:
    """Raises `NotSafe` unless it is the program's own revision, the last of those it knows. ``place``: where to look
    for a daemon that an older program left running: nothing can be halted there, and it sends on. None: on a server."""
    if revision == REVISIONS[-1]:
        return
    if revision in REVISIONS:
        backup = "pg_dump" if place is None else "campaign-worker ledger backup FILE"
        hint = f"take a backup with `{backup}`, then run `campaign-worker ledger upgrade`"
        pid = None if place is None else holder(place)
        if pid is not None and pid != os.getpid():
            older = f"process {pid}, of the program from before, still runs on it and sends"
            hint = f"{older}: stop it (kill {pid}); {hint}"
        raise NotSafe(f"{name} has revision {revision}, this program needs {REVISIONS[-1]}", hint=hint)
    raise NotSafe(
        f"{name} has revision {revision}, which is newer than this program's {REVISIONS[-1]}",
        hint="install the version of campaign-worker that wrote it, or restore the backup taken before the upgrade",
    )


def migrate(connection: Connection, before: str = NOTHING) -> None:
    """Brings the tables from that revision to the program's, within the caller's transaction."""
    there = set(inspect(connection).get_table_names())
    if NOTHING < before < "0008":
        _prepare(connection)
    for table in metadata.sorted_tables:
        if table.name not in there:
            table.create(connection)
        else:
            _bring_up(connection, table)
    if before == NOTHING:
        connection.execute(insert(partners).values(partner=OF_ALL, seq=0, hash=GENESIS))
    else:
        _fill(connection, before)
    for name in there.intersection(GONE):
        connection.exec_driver_sql(f"DROP TABLE {name}")
    connection.execute(delete(revision_table))
    connection.execute(insert(revision_table).values(version_num=REVISION))


def _bring_up(connection: Connection, table: Table) -> None:
    """Adds the columns and indexes that a table lacks, and drops indexes that it does not have any more."""
    asked = inspect(connection)
    columns = {one["name"] for one in asked.get_columns(table.name)}
    for column in table.columns:
        if column.name not in columns:
            _add(connection, table, column)
    wanted = {str(one.name): one for one in table.indexes}
    for found in asked.get_indexes(table.name):
        if "duplicates_constraint" in found:  # PostgreSQL names the index of a constraint as well
            continue
        index = wanted.get(str(found["name"]))
        if index is not None and [one.name for one in index.columns] == found["column_names"]:
            del wanted[str(found["name"])]
        else:
            connection.execute(DropIndex(Index(str(found["name"]))))
    for index in wanted.values():
        index.create(connection)


def _prepare(connection: Connection) -> None:
    """What was a record's place in the only chain is its number in the log as well: now it has both. And what a
    restored ledger had in ``sending`` went to an operator, while its attempt stayed open."""
    connection.exec_driver_sql("ALTER TABLE action_log RENAME COLUMN seq TO id")
    _add(connection, action_log, action_log.c.seq)
    connection.execute(update(action_log).values(seq=action_log.c.id))
    last = (writes.c.id == attempts.c.write, writes.c.attempt == attempts.c.attempt)
    sending = exists().where(*last, writes.c.state == "sending")
    connection.execute(update(attempts).where(attempts.c.outcome == OPEN, ~sending).values(outcome=UNKNOWN))


def _add(connection: Connection, table: Table, column: Column[object]) -> None:
    spelled = CreateColumn(column).compile(dialect=connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {spelled}")


def _fill(connection: Connection, before: str) -> None:
    """What the new columns of the rows that are there say.

    A write counts as held since its last change, which is what the program went by then. The order of writes is had
    from the log; one whose records the log lacks counts as the oldest, and its times decide. A rule that is remembered
    has looked; where it has gone meanwhile, its return is to wait for an operator. The chain ends with its last record.
    """
    if before < "0007":
        connection.exec_driver_sql("INSERT INTO partners (partner, body) SELECT partner, body FROM partner_memory")
        last = select(action_log.c.seq, action_log.c.hash).order_by(action_log.c.seq.desc()).limit(1)
        seq, digest = connection.execute(last).one_or_none() or (0, GENESIS)
        connection.execute(insert(partners).values(partner=OF_ALL, seq=seq, hash=digest))
        title = func.json_extract(observed.c.body, "$.value.title")
        connection.execute(update(observed).where(observed.c.fact == EVENT_FACT).values(title=title))
    if before < "0003":
        connection.execute(update(writes).values(due_since=writes.c.changed_at))
    if before < "0005":
        newest = select(func.coalesce(func.max(action_log.c.seq), 0)).where(action_log.c.write == writes.c.id)
        connection.execute(
            update(writes).values(
                changed_seq=newest.where(action_log.c.kind == writes.c.state).scalar_subquery(),
                sent_seq=newest.where(action_log.c.kind == "sending").scalar_subquery(),
            )
        )
    if before < "0006":
        remembered = select(rule_memory.c.rule).where(rule_memory.c.partner == bindparam("of"))
        known = select(partners.c.partner, partners.c.body).where(partners.c.partner != OF_ALL)
        for partner, body in connection.execute(known).all():
            rules = dict.fromkeys(connection.execute(remembered, {"of": partner}).scalars(), LONG_AGO)
            here = update(partners).where(partners.c.partner == partner)
            connection.execute(here.values(body={**body, "rules": rules}))
