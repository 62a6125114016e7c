"""Which revision a ledger has, and bringing it to the program's own.

A ledger is created or refused, never changed in passing: an older one waits for `campaign-worker ledger upgrade`, so
that a backup can be taken first, and a newer one is left alone, because a program cannot know what it would break.
Alembic runs from the package itself, without an ini file, inside a transaction that the caller owns.
"""

import os
from pathlib import Path
from typing import Final

from sqlalchemy import text

from worker.ledger.connections import Connection
from worker.ledger.damage import damaged
from worker.ledger.holding import holder
from worker.ledger.places import LedgerPlace
from worker.ledger.prepared import Prepared
from worker.ledger.tables import REVISION, REVISIONS
from worker.model.errors import NotSafe

MIGRATIONS: Final = Path(__file__).parent / "migrations"
NOTHING: Final = ""
"""The revision of a file without tables: one whose creation was cut short."""
_TABLES = Prepared(text("SELECT name FROM sqlite_master WHERE type = 'table'"))
_REVISION = Prepared(text("SELECT version_num FROM alembic_version"))


def revision_of(connection: Connection, name: str) -> str:
    """The revision stored in the file, `NOTHING` for an empty one. Raises `NotSafe` for somebody else's database."""
    tables = {name for (name,) in _TABLES.run(connection)}
    if not tables:
        return NOTHING
    if not {"alembic_version", "action_log", "meta"} <= tables:
        raise NotSafe(f"{name} is a database, but no ledger of campaign-worker", hint="check the path in `ledger:`")
    revision = next((str(found) for (found,) in _REVISION.run(connection)), None)
    if revision is None:
        raise damaged("it does not say which revision it has", name)
    return revision


def require_current(
    revision: str, name: str, known: tuple[str, ...] = REVISIONS, *, place: LedgerPlace | None = None
) -> None:
    """Raises `NotSafe` unless it is the program's own revision, the last of those it knows. ``place``: where to look
    for a daemon that an older program left running: nothing can be halted there, and it sends on."""
    if revision == known[-1]:
        return
    if revision in known:
        hint = "take a backup with `campaign-worker ledger backup FILE`, then run `campaign-worker ledger upgrade`"
        pid = None if place is None else holder(place)
        if pid is not None and pid != os.getpid():
            older = f"process {pid}, of the program from before, still runs on it and sends"
            hint = f"{older}: stop it (kill {pid}); {hint}"
        raise NotSafe(f"{name} has revision {revision}, this program needs {known[-1]}", hint=hint)
    raise NotSafe(
        f"{name} has revision {revision}, which is newer than this program's {known[-1]}",
        hint="install the version of campaign-worker that wrote it, or restore the backup taken before the upgrade",
    )


def ready_to_migrate() -> None:
    """Loads what `migrate` needs. On a busy machine that takes seconds, so it is done before the transaction begins
    that others wait for."""
    import alembic.command  # noqa: PLC0415 - a quarter of a second that reading a ledger need not wait for
    import alembic.config  # noqa: PLC0415
    import alembic.context  # noqa: PLC0415, F401


def migrate(connection: Connection) -> None:
    """Brings the tables to the program's revision, within the caller's transaction."""
    from alembic import command  # noqa: PLC0415 - see above
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection.core
    command.upgrade(config, REVISION)
