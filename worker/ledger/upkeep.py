"""What an operator does to a ledger while no daemon runs: upgrading it, accepting a restored one, taking it elsewhere.

All take the sender's lock first, so neither can happen under a running daemon. An accepted ledger has forgotten what
it sent since the backup: whatever was open is put before an operator, nothing remembered is trusted, numbers of
episodes jump past any that the lost part may have used, and the ledger gets a new identity, so that the lost one cannot
come back unnoticed. So it is with one that is taken to another service. No command sends, and none resolves a write.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, Update, func, inspect, select, true, update

from worker.ledger.database import Store, writing_store
from worker.ledger.lock import SenderLock
from worker.ledger.log import recording
from worker.ledger.mark import Mark, refusal, write_mark
from worker.ledger.migrations import NOTHING, migrate, require_current, revision_of
from worker.ledger.places import LedgerPlace, files_of, named
from worker.ledger.reading import SERVICE, LedgerReader, server_store, store_of
from worker.ledger.rows import (
    ALL_WRITES,
    living,
    partner_memory_of,
    rule_memory_of,
    save_memories,
    save_partner,
    written,
)
from worker.ledger.sql import create, make_move, new_id, stored_revision
from worker.ledger.tables import (
    REVISIONS,
    daemon_status,
    meta,
    none_of,
    observed,
    partners,
    replicas,
    rule_memory,
    writes,
)
from worker.model.commits import EPISODE_JUMP, Move, Record, RuleMemory
from worker.model.errors import LedgerDamaged, NotFound, NotSafe
from worker.model.facts import WriteId
from worker.model.writes import FINAL, Write

Restored = Callable[[Write], Move]
NO_LEDGER_HINT = "check the path in `ledger:`"
EMPTY_HINT = "`campaign-worker run` makes it the config's"
KEPT = ("partner", "event", "rule", "do_hash", "stopped", "cleared")
"""What a memory keeps of itself where a ledger was restored."""
IN_STEP_HINT = "if it was put back together with what shows that, as by a snapshot of everything, add --in-step"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreAccepted:
    """What became of a restored ledger: the writes now before an operator, and how many memories start anew."""

    needs_human: tuple[WriteId, ...]
    memories: int


def upgrade(url: str, *, now: datetime) -> str:
    """Brings an older ledger to this program's revision in one transaction. The revision that it had."""
    with ExitStack() as stack:
        place = files_of(url)
        if place is None:
            store = stack.enter_context(closing(server_store(url)))
        else:
            _require_there(place, place.file)
            stack.enter_context(SenderLock.acquire(place, now=now))
            store = stack.enter_context(closing(writing_store(place)))
        connection = stack.enter_context(store.writing())
        before = revision_of(connection, store.name)
        if before == NOTHING:
            raise NotFound(f"{store.name} is empty; nothing was changed", hint=EMPTY_HINT)
        if before not in REVISIONS:
            require_current(before, store.name)
        if place is None and inspect(connection).has_table(replicas.name):
            _require_nobody(connection, store.name)
        migrate(connection, before)
    return before


def accept_restore(url: str, *, by: str, now: datetime, restored: Restored, in_step: bool = False) -> RestoreAccepted:
    """Makes a restored or lost ledger one to go on with. `NotFound` where nothing is amiss with it, unless it is said
    to be known that it and what shows that are both of another day.

    ``restored`` gives the move of each write that is not final: which states there are is not the ledger's business.
    """
    with _held(url, now, lost=True) as store:
        refused = refusal(store)
        if isinstance(refused, LedgerDamaged):
            raise refused
        if refused is None and not in_step:
            raise NotFound(f"nothing is amiss with {store.name}: there is nothing to accept", hint=IN_STEP_HINT)
        why = str(refused or f"{store.name} and what shows its age were put back together, as somebody says")
        record = Record(at=now, kind="ledger_restored", reason="restored", why=why, by=by)
        return _gone_on_with(store, record, restored)


def moved(url: str, *, service: str, because: str, by: str, now: datetime, restored: Restored) -> RestoreAccepted:
    """Gives the ledger to another service, which knows nothing of what was sent: as `accept_restore`. `NotFound` where
    it is the ledger's already; `NotSafe` beside a running process, and for a ledger that no start would take."""
    with _held(url, now) as store:
        refused = refusal(store)
        if refused is not None:
            raise refused
        said = LedgerReader(store).status()
        if said is None:
            raise NotFound(f"{store.name} belongs to no service yet", hint=EMPTY_HINT)
        own = said.body.get(SERVICE)
        if own == service:
            raise NotFound(f"{store.name} belongs to {service} already; nothing was changed")
        why = f"taken from the service {own or '(not known)'} to {service}: {because}"
        record = Record(at=now, kind="ledger_restored", reason="restored", why=why, by=by)
        service_now = update(daemon_status).values(body={**said.body, SERVICE: service})
        return _gone_on_with(store, record, restored, service_now)


@contextmanager
def _held(url: str, now: datetime, *, lost: bool = False) -> Iterator[Store]:
    """A ledger of this program's revision, of a file with the sender's lock. ``lost``: it is made anew where only its
    mark is there."""
    place = files_of(url)
    with ExitStack() as stack:
        if place is None:
            store = store_of(url)
            if store is None:
                raise NotFound(f"there is no ledger in {named(url).removeprefix('the ledger ')}", hint=NO_LEDGER_HINT)
        else:
            _require_there(place, place.file, *((place.mark,) if lost else ()))
            stack.enter_context(SenderLock.acquire(place, now=now))
            if stored_revision(place) == NOTHING:
                if not lost:
                    raise NotFound(f"the ledger {place.file} is empty", hint=EMPTY_HINT)
                create(place, now)
            store = writing_store(place)
        yield stack.enter_context(closing(store))


def _gone_on_with(store: Store, record: Record, restored: Restored, also: Update | None = None) -> RestoreAccepted:
    """The transaction that begins anew with what is there, and the mark of what comes of it. Whoever owns a partner in
    a fleet loses it, and what it remembers of it; nobody may run there but on a ledger from which nobody sends."""
    needs_human = []
    everybody = [None, *(name for (name,) in store.rows(select(partners.c.partner)))]
    with recording(store, everybody, begin=store.begin_halt) as (connection, journal):
        if store.place is None:
            endless = func.set_config("idle_in_transaction_session_timeout", "0", true())  # nobody waits for this one
            connection.execute(select(endless))
            if connection.execute(select(meta.c.refused)).scalar() is None:
                _require_nobody(connection, store.name)
        journal.add([record])
        for write in written(connection, ALL_WRITES.where(none_of(writes.c.state, FINAL))):
            move = restored(write)
            make_move(connection, journal, move)
            needs_human.append(move.after.id)
        memories = _forget(connection)
        _remember_restoring(connection, record.at)
        if also is not None:
            connection.execute(also)
        connection.execute(update(partners).values(owner=None, epoch=partners.c.epoch + 1))
        ledger_id = connection.execute(select(meta.c.ledger_id)).scalar_one()
    end = journal.end(None)
    if store.place is not None:
        write_mark(store.place, Mark(ledger_id=ledger_id, seq=end.seq, hash=end.hash))
    return RestoreAccepted(needs_human=tuple(needs_human), memories=memories)


def _require_nobody(connection: Connection, name: str) -> None:
    """Raises `NotSafe` while a replica runs on a ledger."""
    running = living(connection)
    if running:
        raise NotSafe(f"{len(running)} replicas run on {name}: {', '.join(running)}", hint="stop them first")


def _require_there(place: LedgerPlace, *files: Path) -> None:
    if not any(file.exists() for file in files):
        raise NotFound(f"there is no ledger {place.file}", hint=NO_LEDGER_HINT)


def _forget(connection: Connection) -> int:
    """Memory keeps its episode number, raised, and nothing that a poll could be compared with."""
    stored = [rule_memory_of(body) for (body,) in connection.execute(select(rule_memory.c.body))]
    anew = [
        RuleMemory(episode=old.episode + EPISODE_JUMP, **{name: getattr(old, name) for name in KEPT}) for old in stored
    ]
    save_memories(connection, anew)
    connection.execute(update(observed).values(looked_at=None))
    return len(anew)


def _remember_restoring(connection: Connection, now: datetime) -> None:
    for (body,) in connection.execute(select(partners.c.body).where(partners.c.body.is_not(None))).all():
        save_partner(connection, replace(partner_memory_of(body), restored_at=now))
    was = connection.execute(select(meta.c.ledger_id, meta.c.superseded)).one()
    superseded = [*(was.superseded or ()), was.ledger_id]
    values = {"ledger_id": new_id(connection), "restored_at": now, "superseded": superseded, "refused": None}
    connection.execute(update(meta).values(values))
