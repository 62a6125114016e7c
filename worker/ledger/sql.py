"""The ledger for those who write: the daemon, and operators' commands in short transactions of their own.

One commit is one transaction and one sync, for one write or for many at once. `record_sending` is the only door to
``sending``: halts and limits are read, the rows are stored and the mark is replaced before it returns, and only then
may a byte leave. Opening refuses a ledger that was restored, is newer or older, or cannot be made durable. It never
takes the sender's lock (see ``lock``), and never decides what a write's next state is.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    true,
    type_coerce,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.types import NullType

from worker.ledger.database import Store, Values, create_file, on_failure, reading_store, writing_store
from worker.ledger.log import OF_ALL, Head, Journal, end_of_chain, ends_of, recording
from worker.ledger.mark import Identity, Mark, compared, lost, mark_beside, read_mark, write_mark
from worker.ledger.migrations import NOTHING, migrate, require_current, revision_of
from worker.ledger.ownership import Membership
from worker.ledger.places import LedgerPlace, files_of, identity, sync
from worker.ledger.reading import (
    SERVICE,
    LedgerReader,
    active_halts,
    empty_store,
    newest_generation,
    server_store,
    store_of,
    view_of,
)
from worker.ledger.rows import (
    insert_plan,
    living,
    partner_memory_of,
    record_attempt,
    rule_memory_of,
    save_changes,
    save_memories,
    save_partner,
    settle_attempt,
    update_write,
    write_row,
)
from worker.ledger.tables import (
    action_log,
    attempts,
    daemon_status,
    halts,
    meta,
    metadata,
    observed,
    partners,
    rule_memory,
    rule_sets,
    upsert,
    writes,
)
from worker.model.commits import (
    WORKER,
    Commit,
    DaemonStatus,
    Doing,
    Halt,
    History,
    Hold,
    LogFilter,
    MemoryChange,
    Move,
    PartnerMemory,
    Record,
    Sending,
    SendingView,
    of_write,
)
from worker.model.errors import LedgerUnwritable, NotSafe, SendingUnmarked, StateConflict
from worker.model.facts import EventId, Json, PartnerId, RuleId
from worker.model.writes import FINAL, Write

NowClock = Callable[[], datetime]
_L, _P = action_log.c, partners.c

_NEW_ID = {
    "sqlite": "SELECT lower(hex(randomblob(16)))",
    "postgresql": "SELECT replace(gen_random_uuid()::text, '-', '')",
}
MAKING = 0x63616D7061
"""What whoever makes a ledger on a server holds meanwhile."""
_SAVE_STATUS = upsert(daemon_status, "id")
_SAVE_RECORD = upsert(partners, "partner", changed=("record",))
_LAST_WORD = (
    select(_L.seq, _L.hash)
    .where(_L.chain == OF_ALL, _L.seq > bindparam("after"), or_(_L.kind == "sending", _L.by != WORKER))
    .order_by(_L.seq.desc())
    .limit(1)
)


class SqlLedger(LedgerReader):
    """The `Ledger` port on a database. Made by `open`, or in memory, to rehearse on, by `draft_of`."""

    def __init__(self, store: Store, *, mark: Mark) -> None:
        super().__init__(store)
        self._mark = mark
        self._reached = mark
        self._words_seen: Head | None = None
        self._lock: tuple[int, int] | None = None
        self._generation: int | None = None
        self._identity: Identity | None = None
        self._membership: Membership | None = None

    def remember_in(self, folder: Path, service: str | None = None) -> None:
        """For a replica of a fleet: what it sends is remembered in this folder, and looked for at each connection.
        Raises `NotSafe` where the ledger is not the one that is remembered, or nothing may be sent from it."""
        self._identity = Identity(folder, service)
        self._store.meet = self._identity.meet
        self._store.close()  # the connection that is there was not looked at
        if (refused := self.refused()) is not None:
            raise refused

    def decides_under(self, generation: int) -> None:
        """From now on no decision is stored and nothing is sent unless these rules of a fleet are in force."""
        self._generation = generation

    def join(self) -> Membership:
        """For a replica of a fleet: from now on nothing is stored of a partner that is not its own."""
        self._membership = Membership(self._store)
        return self._membership

    def sends_under(self, lock: tuple[int, int]) -> None:
        """From now on nothing is sent unless this file lies where the ledger's lock does: whoever cannot see it held
        may start a second sender."""
        self._lock = lock

    @classmethod
    def open(cls, url: str, *, clock_now: NowClock) -> Self:
        """The ledger for writing: made if there is none, refused with `NotSafe` if it is not safe to send from."""
        place = files_of(url)
        if place is None:
            return cls(_on_a_server(url, clock_now()), mark=Mark(ledger_id=url))
        had_a_mark = place.mark.exists()  # before anything else: another process may be making both
        if stored_revision(place, marked=True) == NOTHING:
            if had_a_mark:
                raise lost(place)
            create(place, clock_now())
        store = writing_store(place)
        with on_failure(store.close):
            mark = check_mark(store, place)
        return cls(store, mark=mark)

    def in_a_loop(self) -> None:
        """For who must not stand while another process holds the ledger: see `Store`."""
        self._store.in_a_loop = True

    def tells(self, tell: Callable[[Record], None]) -> None:
        """From now on each record is told once it is stored: the log lines of the daemon and the progress of the demo
        are made from the very records, so that what an operator sees and what an auditor reads cannot differ."""
        self._store.tell = tell

    def apply(self, commit: Commit) -> tuple[Write, ...]:
        """One transaction; returns the new writes in the order of ``plans``. `StateConflict` undoes all of it."""
        if commit.empty:
            return ()
        for move in commit.moves:
            if move.after.state == "sending" and move.before.state != "sending":
                raise ValueError(f"write {move.before.id}: only record_sending records sending")
        decided = bool(commit.memory or commit.plans)
        with self._recording(commit.partners, self._store.begin_sending if decided else None) as (connection, journal):
            if decided:
                self._require_rules(connection)
            journal.add(commit.records)
            save_memories(connection, commit.memory)
            save_partner(connection, commit.partner)
            for move in commit.moves:
                make_move(connection, journal, move)
            planned: list[Write] = []
            for plan in commit.plans:
                write = insert_plan(connection, plan, commit.at, journal.end(plan.key.partner).seq + 1)
                record = of_write(write, at=commit.at, kind=write.state, reason=write.reason, why=write.why)
                journal.add([replace(record, by=commit.by)])
                planned.append(write)
            if commit.changes is not None:
                save_changes(connection, commit.changes, commit.at)
        return tuple(planned)

    def record_sending(self, sending: Sending) -> Hold | None:
        """Records the attempt durably, unless its check names a limit; then nothing is changed, and it is returned.

        Whatever this raises, nothing may be sent. After `SendingUnmarked` the row does say ``sending``, because only
        the mark could not be written: move it back to planned, as not sent, once the ledger can be written. Any other
        error left the row as it was, or, after a failing disk and a crash, in ``sending``, where recovery takes it for
        unknown.
        """
        move, after = sending.move, sending.move.after
        if after.state != "sending" or after.attempt != move.before.attempt + 1:
            raise ValueError(f"write {after.id}: a sending is a move to sending with the next attempt")
        self._require_lock()
        with self._recording([after.key.partner], self._store.begin_sending) as (connection, journal):
            self._require_rules(connection)
            if self._identity is not None:
                self._identity.require(connection)
            if (place := self._store.place) is not None:
                self._require_marked(connection, place, mark_beside(place))
            held = sending.check(view_of(connection, after, after.changed_at))
            if held is not None:
                return held
            try:
                make_move(connection, journal, move)
                record_attempt(connection, sending)
            except IntegrityError as error:  # whatever the guards saw: the rows allow one
                why = f"write {after.id}: another attempt of it, or on its target, is under way"
                raise StateConflict(why, hint="look at both with `campaign-worker writes`") from error
        self._remember(after, journal.end(after.key.partner))
        return None

    def sending_view(self, write: Write, now: datetime) -> SendingView:
        """What `record_sending` would show its check now; by the time of the sending it may be otherwise."""
        with self._store.reading() as connection:
            return view_of(connection, write, now)

    def identify(self, partner: PartnerId, record: str, named: Collection[PartnerId], now: datetime) -> PartnerId:
        """Which partner has this record: this one, unless another came first. One record under two names would have
        everything done twice, so the rows allow one; and nobody new has it before it is known who those are of all
        that are ``named`` that were watched already. A name that the service has replaced gives it up, once nobody
        watches that any more; what is true at the first poll of the new one then waits for approval."""
        with self._recording([partner]) as (connection, journal):
            first = connection.execute(select(_P.partner, _P.owner).where(_P.record == record)).first()
            if first and (first.partner in (partner, *named) or (first.owner and first.owner in living(connection))):
                return PartnerId(first.partner)
            body = connection.execute(select(_P.body).where(_P.partner == partner)).scalar()
            earlier = select(_P.partner).where(_P.partner.in_(named), _P.body.is_not(None), _P.record.is_(None))
            unsure = connection.execute(earlier).scalar() if body is None else None
            if unsure is not None:
                why = f"it may be the same as another partner: the record of {unsure} has not been read yet"
                raise StateConflict(why, hint="it is held until that is known")
            if first is not None:
                left = _P.owner.is_not_distinct_from(first.owner)
                connection.execute(update(partners).where(_P.partner == first.partner, left).values(record=None))
                memory = PartnerMemory(partner=partner) if body is None else partner_memory_of(body)
                save_partner(connection, replace(memory, restored_at=now))
                why = f"the service called it {first.partner} before: what is true at its first poll waits for approval"
                journal.add([Record(at=now, kind="held", reason="restored", why=why, partner=partner)])
            try:
                connection.execute(_SAVE_RECORD, {"partner": partner, "record": record})
            except IntegrityError as error:
                hint = "it is asked again"
                raise StateConflict(f"another partner has just shown the record {record}", hint=hint) from error
        return partner

    def note_task_read(self, write: Write) -> None:
        """Counts a read of the service's task behind the write's last attempt, before it is made."""
        this = (attempts.c.write == write.id, attempts.c.attempt == write.attempt)
        with self._store.writing() as connection:
            connection.execute(update(attempts).where(*this).values(task_reads=attempts.c.task_reads + 1))

    def reopen(self, changes: Sequence[MemoryChange], records: Sequence[Record]) -> None:
        """Replaces memories that still are as they were read, with the records of who wanted it; all or none.

        `StateConflict` where the daemon has decided meanwhile: what an operator saw is no longer what is there.
        """
        of = {change.after.partner for change in changes} | {record.partner for record in records}
        with self._recording(of) as (connection, journal):
            for one in (change.before for change in changes):
                this = (rule_memory.c[name] == getattr(one, name) for name in ("partner", "event", "rule"))
                found = connection.execute(select(rule_memory.c.body).where(*this)).first()
                if found is None or rule_memory_of(found.body) != one:
                    why = f"rule {one.rule} has looked at event {one.event} meanwhile, and its memory changed"
                    raise StateConflict(why, hint="look at it again with `campaign-worker writes`")
            save_memories(connection, [change.after for change in changes])
            journal.add(records)

    def save_status(self, status: DaemonStatus) -> None:
        """What the daemon says of itself, in place of what it said before."""
        row = {name: getattr(status, name) for name in ("pid", "since", "seen_at", "body")}
        with self._store.writing() as connection:
            if self._membership is not None:
                self._membership.say(connection, status.body)
                row["body"] = {SERVICE: status.body.get(SERVICE)}  # all say the same
            connection.execute(_SAVE_STATUS, {"id": 1, **row})

    def mark_words(self) -> None:
        """Moves the mark to an operator's last word, where it is behind that, or to what was sent since: a ledger that
        is put back to before a halt is noticed then, though nothing was sent. Where the mark was taken away or damaged,
        it is put back. For the process that sends: no other one moves the mark."""
        if self._identity is not None:
            with self._store.reading() as connection:
                refused, ends = connection.execute(select(meta.c.refused)).scalar(), ends_of(connection)
            self._identity.reached(() if refused else ends.values())  # the right one may come back
        place = self._store.place
        if place is None:
            return
        self._require_lock()
        mark, beside = self._mark, mark_beside(place)
        with self._store.reading() as connection:
            end = end_of_chain(connection)
            if end == self._words_seen and beside is not None and not beside.alone and beside == mark:
                return
            self._require_marked(connection, place, beside)
            seen = mark.seq if self._words_seen is None else self._words_seen.seq
            for seq, last_hash in connection.execute(_LAST_WORD, {"after": seen}):
                mark = Mark(ledger_id=mark.ledger_id, seq=seq, hash=last_hash)
        if mark != self._mark or beside is None or beside.alone or beside.seq < mark.seq:
            write_mark(place, mark, anew=True)
            self._mark = mark
        self._words_seen, self._reached = end, replace(self._reached, seq=end.seq, hash=end.hash)

    def append_halt(
        self,
        *,
        partner: str | None = None,
        rule: str | None = None,
        until: datetime | None = None,
        because: str,
        by: str,
        at: datetime,
    ) -> Halt:
        """Stops new writes. Once it has returned, no write is recorded as sending against it, in any process."""
        row: dict[str, Any] = {"partner": partner, "rule": rule, "until": until, "because": because, "by": by, "at": at}
        why = because if until is None else f"until {until:%Y-%m-%d %H:%M:%S} UTC: {because}"
        with self._recording([partner], self._store.begin_halt) as (connection, journal):
            number = connection.execute(insert(halts).returning(halts.c.id), row).scalar_one()
            journal.add(
                [Record(at=at, kind="halted", reason="halt", why=why, partner=row["partner"], rule=row["rule"], by=by)]
            )
        return Halt(id=number, **row)

    def resume_halts(
        self,
        *,
        partner: str | None = None,
        rule: str | None = None,
        shown: Collection[int] = (),
        because: str,
        by: str,
        at: datetime,
    ) -> tuple[Halt, ...]:
        """Ends the halts in force that name this partner and this rule; without either, all; of these only those with
        the numbers that were shown, where some were. Returns those ended."""

        def meant(connection: Connection) -> tuple[Halt, ...]:
            found = [one for one in active_halts(connection, at) if not shown or one.id in shown]
            return tuple(one for one in found if partner in (None, one.partner) and rule in (None, one.rule))

        with self._store.reading() as connection:
            if not meant(connection):  # nor is a partner made known by its name alone
                return ()
        with self._recording([partner]) as (connection, journal):
            ended = meant(connection)
            for halt in ended:
                connection.execute(update(halts).where(halts.c.id == halt.id).values(resumed_at=at))
                journal.add([Record(at=at, kind="resumed", why=because, partner=halt.partner, rule=halt.rule, by=by)])
        return ended

    def publish(self, files: Mapping[str, str], *, why: str, by: str, at: datetime) -> int:
        """Puts these rules into force for a whole fleet, and returns their generation. Once it has returned, no
        decision under older ones is stored, and nothing is sent under them."""
        with self._recording([None], self._store.begin_halt) as (connection, journal):
            generation = newest_generation(connection) + 1
            connection.execute(insert(rule_sets).values(generation=generation, files=dict(files), by=by, at=at))
            journal.add([Record(at=at, kind="rules_loaded", why=f"generation {generation}: {why}", by=by)])
        return generation

    def _require_rules(self, connection: Connection) -> None:
        """Raises `StateConflict` where other rules are in force than were decided under; they stay so to its end."""
        if self._generation is None:
            return
        newest = newest_generation(connection)
        if newest != self._generation:
            why = f"generation {newest} of the rules is in force, and this was decided under {self._generation}"
            hint = "nothing was stored; it is decided anew as soon as this worker has taken them up"
            raise StateConflict(why, hint=hint)

    def testify(self, records: Sequence[Record]) -> bool:
        """Stores what a replica has to say of a partner that is another's by now: evidence, which moves nothing. False
        where there is no fleet: then nothing is stored."""
        if self._membership is None:
            return False
        with recording(self._store, {one.partner for one in records}, self._membership.replica) as (_, journal):
            journal.add(records)
        return True

    @contextmanager
    def _recording(
        self, of: Iterable[str | None], begin: Callable[[Connection], None] | None = None
    ) -> Iterator[tuple[Connection, Journal]]:
        """A transaction that writes records after the last one that this process knows. A ledger that was put back
        beneath it lacks that one: nothing more is decided on what it still says, sent or not."""
        place, fleet = self._store.place, self._membership
        with recording(self._store, of, begin=begin) if fleet is None else fleet.recording(of, begin) as held:
            connection, journal = held
            if place is not None and journal.end(None).hash != self._reached.hash:  # a command's record, or a loss
                self._require_to_be_of(connection, place, [self._reached])
            if self._identity is not None:
                self._identity.require_whole(connection, journal.ends.values())
            yield held
        if self._identity is not None:
            self._identity.left(journal.ends.values())
        if place is not None:
            self._reached = replace(self._reached, seq=journal.end(None).seq, hash=journal.end(None).hash)

    def _remember(self, sent: Write, end: Head) -> None:
        """Keeps beside the ledger, or on the replica's own disk, how far it had come."""
        try:
            if self._identity is not None:
                self._identity.reached([end])
            elif self._store.place is not None:
                self._store.require_same()
                mark = Mark(ledger_id=self._mark.ledger_id, seq=end.seq, hash=end.hash)
                write_mark(self._store.place, mark)
                self._mark, self._words_seen = mark, end
        except LedgerUnwritable as error:
            raise SendingUnmarked(str(error), write=sent, hint=error.hint) from error

    def _require_lock(self) -> None:
        place = self._store.place
        if place is not None and self._lock not in (None, identity(str(place.lock))):
            why = f"the ledger's lock {place.lock} was removed or replaced while this process held it"
            hint = "nothing is sent; leave that file to the worker, stop this process and start it again"
            raise LedgerUnwritable(why, hint=hint)

    def _require_marked(self, connection: Connection, place: LedgerPlace, beside: Mark | None) -> None:
        """Raises `LedgerUnwritable`, from now on for good, where the ledger is not the one that had reached this
        process's mark and its last record, nor the mark beside it: somebody has put back another state of it meanwhile.
        The mark never goes back to that. One that is missing, damaged or older was taken from beneath us, and is put
        back."""
        marks = [self._mark, self._reached]
        if beside is not None and (beside.ledger_id != self._mark.ledger_id or beside.seq >= self._mark.seq):
            marks.append(beside)
        self._require_to_be_of(connection, place, marks)

    def _require_to_be_of(self, connection: Connection, place: LedgerPlace, marks: Iterable[Mark]) -> None:
        """Raises `LedgerUnwritable`, from now on for good, where the ledger is not the one that had reached these."""
        try:
            for mark in dict.fromkeys(marks):
                compared(connection, place, replace(mark, alone=False))
        except LedgerUnwritable:
            raise
        except NotSafe as error:
            self._store.refused = LedgerUnwritable(f"{error}, while process {os.getpid()} ran on it", hint=error.hint)
            raise self._store.refused from error


def _on_a_server(url: str, now: datetime) -> Store:
    store = server_store(url)
    with on_failure(store.close), store.writing() as connection:
        connection.execute(select(func.pg_advisory_xact_lock(MAKING)))  # of two that make it, one waits
        set_up(connection, now)
        require_current(revision_of(connection, store.name), store.name)
    return store


def stored_revision(place: LedgerPlace, *, marked: bool = False) -> str:
    """The revision in the file, `NOTHING` where there is no file or no table. Raises `NotSafe` unless it is ours; with
    ``marked`` also for a ledger behind its mark, before anything opens it for writing.

    SQLite moves what is whole of a damaged write-ahead log into the file, and drops the rest of it, when whoever could
    write closes the file; then nobody can look any more at what was lost. Without a mark nothing is said here: another
    process may be making one.
    """
    if not place.file.exists():
        return NOTHING
    name = f"the ledger {place.file}"
    with closing(reading_store(place)) as store:
        with store.reading() as connection:
            revision = revision_of(connection, name)
        if revision == NOTHING:
            return NOTHING
        require_current(revision, name, place=place)
        mark = read_mark(place) if marked else None
        if mark is not None:
            with store.reading() as connection:  # begun after the mark was read, which the ledger may be ahead of
                compared(connection, place, mark)
    return revision


def create(place: LedgerPlace, now: datetime) -> None:
    """Makes the file, its tables and its identity; of two that try at once, the second finds it made."""
    create_file(place)
    with closing(writing_store(place)) as store:
        with store.writing() as connection:
            set_up(connection, now)
        sync(place.file.parent)


def set_up(connection: Connection, now: datetime) -> None:
    """Tables and identity, within the caller's transaction."""
    if revision_of(connection, "the new ledger") != NOTHING:
        return
    migrate(connection)
    connection.execute(insert(meta).values(id=1, ledger_id=new_id(connection), created_at=now))


def new_id(connection: Connection) -> str:
    """An id that no other ledger has, drawn by the database: it decides nothing and stands in no record, so no seed has
    to reproduce it."""
    return str(connection.exec_driver_sql(_NEW_ID[connection.dialect.name]).scalar_one())


def check_mark(store: Store, place: LedgerPlace) -> Mark:
    """Compares ledger and mark, gives a new ledger its mark, and returns the mark.

    The mark is read first: the ledger may be ahead of it, never behind. All in one writing transaction, so that no
    other process can be between creating and marking; its first statement changes nothing but fails on a read-only
    file, on which SQLite begins a transaction all the same.
    """
    with store.writing() as connection:
        connection.execute(update(meta).values(id=meta.c.id))
        mark = read_mark(place)
        ledger_id = compared(connection, place, mark)
        if mark is None:
            mark = Mark(ledger_id=ledger_id)
            write_mark(place, mark)
    return mark


def make_move(connection: Connection, journal: Journal, move: Move) -> None:
    """Stores a move with its records, and what it says of the write's attempts."""
    journal.add(move.records)
    update_write(connection, move, journal.end(move.after.key.partner).seq)
    settle_attempt(connection, move)


# A ledger to rehearse on: what deciding and guarding look at, copied into memory, with the real ledger's code on top.
#
# `plan` runs the daemon's own cycle over it. The file is opened for reading only, so it cannot be changed by a slip,
# and what the rehearsal stores ends with the process. Not copied are the log, the changes of facts and most writes that
# have ended, which are long: what is asked of them is asked of the ledger itself.

_CLEAR = [delete(table) for table in reversed(metadata.sorted_tables)]


class ScratchLedger(SqlLedger):
    """One that was never on a disk, for one rule test after the other."""

    @classmethod
    def new(cls) -> Self:
        """An empty one."""
        return cls(empty_store(), mark=Mark(ledger_id="scratch"))

    def clear(self) -> None:
        """Forgets everything: numbers begin at 1 again."""
        with self._store.writing() as connection:
            for emptied in _CLEAR:
                connection.execute(emptied)

    def recall(self, known: Sequence[Write], sent: Sequence[Mapping[str, Json]]) -> None:
        """See `Scratch`. Whatever comes later comes after them, however long the log was that they were in."""
        stored = [{"id": write.id, **write_row(replace(write, changed_seq=0, sent_seq=0))} for write in known]
        with self._store.writing() as connection:
            for table, rows in ((writes, stored), (attempts, sent)):
                if rows:
                    connection.execute(insert(table), rows)


_AFTER_ALL = 1 << 40
"""What is added to the number of a draft's own record, whose chain may be another one."""


class DraftLedger(SqlLedger):
    """The copy of a ledger, and the one that it was copied from, which has the log, what facts were, and old writes."""

    def __init__(self, draft: Store, stored: Store) -> None:
        super().__init__(draft, mark=Mark(ledger_id="draft"))
        self._stored = LedgerReader(stored)
        self._copied = self.heads()
        self._writes_copied = frozenset(number for (number,) in draft.rows(select(writes.c.id)))

    def close(self) -> None:
        """Gives the connections of both back."""
        super().close()
        self._stored.close()

    def log(self, wanted: LogFilter) -> Iterator[dict[str, Json]]:
        """See `LedgerReader`."""
        return chain(self._stored.log(wanted), super().log(wanted))

    def _writes(self, query: Select[tuple[object, ...]], values: Values | None = None) -> tuple[Write, ...]:
        found = self._stored._writes(query, values)  # noqa: SLF001 - of its own kind
        copied = self._writes_copied
        last = max(copied, default=0)  # a daemon may plan more meanwhile, with the numbers that the draft gives its own
        old = (one for one in found if one.final and one.id < last and one.id not in copied)
        return tuple(sorted((*old, *super()._writes(query, values)), key=attrgetter("id")))

    def firings(self, partner: PartnerId, since: datetime) -> Sequence[tuple[RuleId, EventId, datetime]]:
        """See `LedgerReader`."""
        return [*self._stored.firings(partner, since), *super().firings(partner, since)]

    def doings(self, partner: PartnerId, event: EventId) -> Sequence[Doing]:
        """See `LedgerReader`."""
        copied = self._copied.get(self._stored.head(partner).chain, Head())  # a daemon may go on meanwhile
        before = [one for one in self._stored.doings(partner, event) if one.seq <= copied.seq]
        return [*before, *(one._replace(seq=one.seq + _AFTER_ALL) for one in super().doings(partner, event))]

    def history(
        self, partner: PartnerId, since: datetime | None = None, events: Collection[EventId] | None = None
    ) -> History:
        """See `LedgerReader`."""
        before, own = self._stored.history(partner, since, events), super().history(partner, since, events)
        return replace(before, changes=(*before.changes, *own.changes))


def draft_of(url: str, *, now: datetime, reach: timedelta) -> SqlLedger:
    """The copy of a ledger; of none yet, an empty one. ``reach``: how far back first attempts matter.

    Raises `NotSafe` where the daemon would not start on it either: restored, lost, newer or older.
    """
    draft, stored = empty_store(), store_of(url)
    if stored is None:
        return SqlLedger(draft, mark=Mark(ledger_id="draft"))
    with on_failure(stored.close):
        _copy(stored, draft, _wanted(now - reach))
    return DraftLedger(draft, stored)


def _copy(stored: Store, draft: Store, wanted: Mapping[Table, ColumnElement[bool]]) -> None:
    # The mark before the ledger: a daemon may go on meanwhile, and a ledger ahead of its mark is fine.
    mark = None if stored.place is None else read_mark(stored.place)
    with stored.reading() as source:
        if stored.place is not None:
            compared(source, stored.place, mark)
        found = {table: source.execute(as_stored(table).where(those)).all() for table, those in wanted.items()}
    with draft.writing() as target:  # only now: a server ends a transaction in which nothing is asked for long
        for table, rows in found.items():
            if rows:
                places = ", ".join("?" * len(table.columns))
                added = f"INSERT INTO {table.name} VALUES ({places})"  # noqa: S608 - a name of ours
                target.exec_driver_sql(added, [tuple(row) for row in rows])


def as_stored(table: Table) -> Select[*tuple[Any, ...]]:
    """Its rows, no value read: to read ten thousand facts, and to spell them anew, takes longer than to plan."""
    return select(*(type_coerce(column, NullType()) for column in table.columns)).select_from(table)


def _wanted(since: datetime) -> Mapping[Table, ColumnElement[bool]]:
    """Of each table what deciding and guarding look at in one question with what the rehearsal stores: of the writes
    the open ones, those that spent or were sent since, and the last, after which numbers go on."""
    w, a = writes.c, attempts.c
    counted = or_(a.at >= since, a.amount.is_not(None))
    kept = exists().where(a.write == w.id, counted)
    newest = w.id == select(func.max(w.id)).scalar_subquery()
    whole = dict.fromkeys((meta, rule_memory, observed, partners, halts), true())
    return {**whole, writes: or_(w.state.not_in(sorted(FINAL)), kept, newest), attempts: counted}
