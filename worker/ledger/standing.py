"""How the ledger and its mark stand to each other: asked by a start, by a rehearsal, and by those who only look.

A start refuses a ledger that does not belong to its mark (see ``mark``). Whoever only reads gets the same answer in
the same words, so that nobody is told that all is well with a ledger that no daemon could be started on. Changes
nothing.
"""

from sqlalchemy import literal_column, select

from worker.ledger.chain import GENESIS
from worker.ledger.connections import Connection
from worker.ledger.damage import damaged
from worker.ledger.mark import Mark, Reached, compare, read_mark
from worker.ledger.places import LedgerPlace
from worker.ledger.prepared import Prepared, given
from worker.ledger.store import Store
from worker.ledger.tables import action_log, meta, rule_memory, writes
from worker.model.errors import LedgerDamaged, LedgerUnwritable, NotSafe

_ID = Prepared(select(meta.c.ledger_id))
_HELD = tuple(Prepared(select(1).select_from(table).limit(1)) for table in (action_log, writes, rule_memory))
_HASH_AT = Prepared(select(action_log.c.hash).where(action_log.c.seq == given("at_seq")))
_SENT_AFTER = Prepared(
    select(1).where(action_log.c.seq > given("at_seq"), action_log.c.kind == literal_column("'sending'")).limit(1)
)


def refusal(store: Store) -> NotSafe | None:
    """Why a start would refuse the ledger as it stands to its mark; None where it would not, and for one in memory.

    Holds beside a running daemon: the mark is read first, and the ledger may be ahead of it, never behind. Raises
    `LedgerUnwritable` where the ledger cannot be read at all.
    """
    place = store.place
    if place is None:
        return None
    try:
        mark = read_mark(place)
        with store.reading() as connection:
            compared(connection, place, mark)
    except LedgerDamaged as error:
        return error
    except LedgerUnwritable:
        raise
    except NotSafe as error:
        return error
    return None


def marked_to(store: Store) -> int:
    """The seq that the ledger's own mark had reached; 0 where there is none that says one (see `refusal`)."""
    if store.place is None:
        return 0
    try:
        mark = read_mark(store.place)
    except NotSafe:
        return 0
    own = mark is not None and mark.ledger_id in {str(found) for (found,) in store.rows(_ID)}
    return mark.seq if mark is not None and own else 0


def compared(connection: Connection, place: LedgerPlace, mark: Mark | None) -> str:
    """The ledger's id, where ledger and mark belong together. Raises `NotSafe`; changes nothing."""
    ledger_id = next((str(found) for (found,) in _ID.run(connection)), None)
    if ledger_id is None:
        raise damaged("it says nothing of itself", f"the ledger {place.file}")
    reached = Reached(
        ledger_id=ledger_id,
        hash_at_mark=None if mark is None else _hash_at(connection, mark.seq),
        sent_since=mark is not None and mark.alone and _sent_after(connection, mark.seq),
        blank=_blank(connection),
    )
    compare(place, mark, reached)
    return ledger_id


def _sent_after(connection: Connection, seq: int) -> bool:
    """Asked of a mark that has lost its other half, and of no other: it walks what was recorded since."""
    return _SENT_AFTER.run(connection, {"at_seq": seq}).fetchone() is not None


def _blank(connection: Connection) -> bool:
    """Nothing was ever recorded or remembered."""
    return not any(asked.run(connection).fetchone() for asked in _HELD)


def _hash_at(connection: Connection, seq: int) -> str | None:
    if seq == 0:
        return GENESIS
    return next((str(found) for (found,) in _HASH_AT.run(connection, {"at_seq": seq})), None)
