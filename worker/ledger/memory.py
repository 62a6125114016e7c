"""A ledger in memory, for fast tests and the simulation: the real one's code on a database that ends with the process.

Not a second implementation, so nothing can hold here and fail on a disk but the disk itself: no file, no mark, no lock.
Never used by the daemon.
"""

from datetime import datetime

from worker.ledger.mark import first_mark
from worker.ledger.sql import SqlLedger, set_up
from worker.ledger.store import memory_store


def in_memory_ledger(now: datetime) -> SqlLedger:
    """A new, empty ledger, created at ``now``."""
    store = memory_store()
    with store.writing() as connection:
        set_up(connection, now)
    return SqlLedger(store, mark=first_mark("in-memory"))
