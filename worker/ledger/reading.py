"""The reading side: what commands, the page and the daemon ask of the ledger.

Each answer is one short transaction, and the log comes in pages by seq, so that a slow reader never keeps the WAL from
being moved into the file and never holds up a sender. `open_reading` works beside a running daemon and on a read-only
disk; a ledger that does not exist reads as an empty one. Nothing here writes, locks or creates.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, cast

from sqlalchemy import Select, func, literal_column, or_, select, tuple_, union

from worker.ledger import tables
from worker.ledger.database import (
    NOTHING,
    Connection,
    Prepared,
    Store,
    code_of,
    given,
    memory_store,
    reading_store,
    require_current,
    revision_of,
    unindexed,
)
from worker.ledger.log import ALL_RECORDS, FIELDS, printed, verify_to
from worker.ledger.mark import lost, marked_to, refusal
from worker.ledger.places import LedgerPlace, place_of, sync_folder
from worker.ledger.rows import (
    ALL_WRITES,
    HOUR,
    NOT_SENT,
    OPEN_WRITES,
    WITHOUT_EFFECT,
    Decoded,
    check_state,
    first_sendings,
    task_reads,
    write_of,
)
from worker.ledger.tables import (
    action_log,
    attempts,
    daemon_status,
    decode,
    halts,
    json_of,
    maybe_time,
    meta,
    metadata,
    millis_text,
    partner_memory,
    readable,
    rule_memory,
    time_of,
    time_text,
    writes,
)
from worker.ledger.trail import facts_begin, last_change, load_history, load_observed
from worker.model.commits import (
    Booking,
    ChainBreak,
    DaemonStatus,
    Halt,
    History,
    LogFilter,
    Observed,
    PartnerMemory,
    RuleMemory,
    SendingView,
)
from worker.model.errors import LedgerUnwritable, NotFound, NotSafe, WorkerError
from worker.model.facts import EventId, Json, PartnerId, RuleId, WriteId
from worker.model.records import DOINGS, Doing
from worker.model.writes import UNSETTLED, State, Write

_L = action_log.c
_DOINGS = Prepared(
    select(_L.seq, _L.at, _L.kind, _L.write, _L.reason, _L.facts)
    .where(_L.partner == given("partner"), _L.event == given("event"), _L.kind.in_(DOINGS))
    .order_by(_L.seq)
)

# What a brake may look at before a write is recorded as sending, for one write or for a group within one transaction.
#
# Everything is read in the caller's transaction. Of a group, what concerns the whole partner is read once, and each
# recorded attempt is added to it, so that the next write of the group is shown what it would be shown alone: a cap that
# has room for one lets one through, not the group. Nothing here allows or forbids a sending.

_HALTS = Prepared(
    select(halts.c.id, halts.c.partner, halts.c.rule, halts.c.until, halts.c.because, halts.c.by, halts.c.at)
    .where(halts.c.resumed_at.is_(None), or_(halts.c.until.is_(None), halts.c.until > given("now")))
    .order_by(halts.c.id)
)
_ON_TARGET = (
    writes.c.partner == given("of_partner"),
    writes.c.event == given("of_event"),
    writes.c.target == given("of_target"),
)
_STATES_ON_TARGET = Prepared(select(writes.c.id, writes.c.state).where(*_ON_TARGET))
_UNSETTLED_ON_TARGET = Prepared(ALL_WRITES.where(*_ON_TARGET, writes.c.state.in_(sorted(UNSETTLED))))
_SENT = Prepared(
    select(attempts.c.at, attempts.c.outcome)
    .where(attempts.c.partner == given("of_partner"), attempts.c.at > given("since"), ~attempts.c.stops)
    .order_by(attempts.c.at)
)
_MONEY = (
    select(attempts.c.write, attempts.c.event, writes.c.action, writes.c.target, attempts.c.at, attempts.c.amount)
    .join(writes, writes.c.id == attempts.c.write)
    .where(attempts.c.partner == given("of_partner"), attempts.c.amount.is_not(None))
    .where(attempts.c.outcome.not_in(WITHOUT_EFFECT))
    .order_by(attempts.c.at, attempts.c.write, attempts.c.attempt)
)
_MONEY_SINCE = Prepared(_MONEY.where(attempts.c.at >= given("since")))
_MONEY_OF_EVENT = Prepared(_MONEY.where(attempts.c.event == given("of_event"), attempts.c.at < given("since")))


def view_of(connection: Connection, write: Write, now: datetime) -> SendingView:
    """What a brake may look at before ``write`` is recorded as sending at ``now``. Its own attempts count nowhere but
    among those of the last hour."""
    midnight = time_text(now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0))
    partner, event = write.key.partner, write.key.event
    sent = _SENT.run(connection, {"of_partner": partner, "since": time_text(now - HOUR)})
    latest = now + HOUR  # what is stamped further ahead was stamped by a clock that was wrong
    money = [
        *_MONEY_OF_EVENT.run(connection, {"of_partner": partner, "of_event": event, "since": midnight}),
        *_MONEY_SINCE.run(connection, {"of_partner": partner, "since": midnight}),
    ]
    times = (time_of(at) for at, outcome in sent if outcome != NOT_SENT)
    return SendingView(
        halts=active_halts(connection, now),
        on_target=_on_target(connection, write),
        sent_last_hour=tuple(at for at in times if now - HOUR < at <= latest),
        booked=tuple(one for one in map(_booking, money) if one.write != write.id),
    )


def _on_target(connection: Connection, write: Write) -> tuple[Write, ...]:
    """Other writes that hold the target, oldest first. Mostly there is none, which their states alone show."""
    where = {"of_partner": write.key.partner, "of_event": write.key.event, "of_target": write.intent.target}
    states = _STATES_ON_TARGET.run(connection, where).fetchall()
    for number, state in states:
        check_state(number, state)
    if not any(state in UNSETTLED and number != write.id for number, state in states):
        return ()
    found = map(write_of, _UNSETTLED_ON_TARGET.run(connection, where).fetchall())
    return tuple(one for one in found if one.id != write.id)


def active_halts(connection: Connection, now: datetime) -> tuple[Halt, ...]:
    """Halts that nobody resumed and that have not run out."""
    return tuple(
        Halt(id=number, partner=partner, rule=rule, until=maybe_time(until), because=because, by=by, at=time_of(at))
        for number, partner, rule, until, because, by, at in _HALTS.run(connection, {"now": time_text(now)})
    )


def _booking(row: tuple[int, str, str, str, str, float]) -> Booking:
    number, event, action, target, at, amount = row
    return Booking(
        write=WriteId(number), event=EventId(event), action=action, target=target, at=time_of(at), amount=amount
    )


PAGE_RECORDS = 500
PAGE_MEMORIES = 2_000
BACKUP_HINT = "choose a folder that exists, with room, where this user may write; the ledger itself is as it was"
OF_THE_TARGET = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})
"""SQLite's errors that speak of the file that is written and not of the ledger, which is only read."""
SERVICE = "service"
"""In what the daemon says of itself: the service that the ledger belongs to from then on."""
LARGEST = 2**63 - 1
"""The largest number that SQLite holds: nothing in a ledger has a larger one, and it cannot be asked for."""
_M, _W = rule_memory.c, writes.c
_PARTNER = Prepared(select(partner_memory.c.body).where(partner_memory.c.partner == given("partner")))
_RESTORED = Prepared(select(meta.c.restored_at))
_MEMORIES = Prepared(select(_M.body).where(_M.partner == given("partner")).order_by(_M.event, _M.rule))
_EVENT_MEMORIES = Prepared(
    select(_M.body).where(_M.partner == given("partner"), _M.event == given("event")).order_by(_M.rule)
)
_WRITE = Prepared(ALL_WRITES.where(_W.id == given("this")))
_OPEN = Prepared(OPEN_WRITES)
_PARTNERS_OPEN = Prepared(OPEN_WRITES.where(unindexed(_W.partner) == given("partner")))
_OF_EVENT = ALL_WRITES.where(_W.partner == given("partner"), _W.event == given("event"))
_EPISODE = Prepared(_OF_EVENT.where(_W.rule == given("rule"), _W.episode == given("episode")))
_TARGET = Prepared(_OF_EVENT.where(_W.target == given("target")))
_FIRINGS = Prepared(
    select(_L.rule, _L.event, _L.at)
    .where(
        _L.partner == given("partner"),
        _L.kind == literal_column("'fired'"),
        _L.at >= given("since"),
    )
    .order_by(_L.seq)
)
_LAST_SEQ = Prepared(select(func.coalesce(func.max(_L.seq), 0)))
_MEMORIES_AFTER = Prepared(
    select(_M.event, _M.rule, _M.body)
    .where(_M.partner == given("partner"), tuple_(_M.event, _M.rule) > tuple_(given("event"), given("rule")))
    .order_by(_M.event, _M.rule)
    .limit(PAGE_MEMORIES)
)
_REOPENED = Prepared(
    select(_L.seq)
    .where(_L.seq > given("after"), _L.kind == "again", unindexed(_L.partner) == given("partner"))
    .limit(1)
)


class LedgerReader:
    """Every question that the ledger answers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._decoded = Decoded()

    @property
    def made(self) -> bool:
        """Whether there is a ledger on the disk: what was never made reads as an empty one."""
        return self._store.place is not None

    def close(self) -> None:
        """Gives the connections back."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # memory

    def partner_memory(self, partner: PartnerId) -> PartnerMemory | None:
        """Memory of a partner. After a restored ledger was accepted, even an unknown partner's says so."""
        found = self._store.rows(_PARTNER, {"partner": partner})
        if found:
            return decode(PartnerMemory, found[0][0])
        restored = next((at for (at,) in self._store.rows(_RESTORED)), None)
        return None if restored is None else PartnerMemory(partner=partner, restored_at=maybe_time(restored))

    def rule_memories(self, partner: PartnerId, event: EventId | None = None) -> tuple[RuleMemory, ...]:
        """Memory of every (event, rule) of a partner, or of one event, in their order."""
        if event is None:
            found = self._store.rows(_MEMORIES, {"partner": partner})
        else:
            found = self._store.rows(_EVENT_MEMORIES, {"partner": partner, "event": event})
        return tuple(decode(RuleMemory, body) for (body,) in found)

    def all_rule_memories(self, partner: PartnerId) -> Iterator[RuleMemory]:
        """Memory of every (event, rule) of a partner, in their order, a page at a time: there may be very many."""
        event, rule = "", ""
        while True:
            rows = self._store.rows(_MEMORIES_AFTER, {"partner": partner, "event": event, "rule": rule})
            for _, _, body in rows:
                yield decode(RuleMemory, body)
            if len(rows) < PAGE_MEMORIES:
                return
            event, rule, _ = rows[-1]

    # writes

    def write(self, write_id: WriteId) -> Write | None:
        """One write by its number. None where there is none, also for a number that no ledger could hold."""
        if not 0 < write_id <= LARGEST:
            return None
        return next(map(self._decoded.of, self._store.rows(_WRITE, {"this": write_id})), None)

    def open_writes(self, partner: PartnerId | None = None) -> tuple[Write, ...]:
        """Every write that is not final, oldest first."""
        found = self._store.rows(_OPEN) if partner is None else self._store.rows(_PARTNERS_OPEN, {"partner": partner})
        return tuple(map(self._decoded.of, found))

    def episode_writes(self, partner: PartnerId, event: EventId, rule: RuleId, episode: int) -> tuple[Write, ...]:
        """The writes of one episode, oldest first."""
        found = self._store.rows(_EPISODE, {"partner": partner, "event": event, "rule": rule, "episode": episode})
        return tuple(map(self._decoded.of, found))

    def target_writes(self, partner: PartnerId, event: EventId, target: str) -> tuple[Write, ...]:
        """Every write of a target, final ones too, oldest first."""
        found = self._store.rows(_TARGET, {"partner": partner, "event": event, "target": target})
        return tuple(map(self._decoded.of, found))

    def task_reads(self, write: Write) -> int:
        """How often the service's task behind the write's last attempt was read."""
        return task_reads(self._store, write)

    def writes(
        self,
        *,
        state: State | None = None,
        event: str | None = None,
        partner: str | None = None,
        rule: str | None = None,
    ) -> list[Write]:
        """Every write, oldest first, narrowed by what is given."""
        query = ALL_WRITES
        for column, wanted in (("state", state), ("event", event), ("partner", partner), ("rule", rule)):
            if wanted is not None:
                query = query.where(writes.c[column] == wanted)
        return list(self._writes(query))

    def state_counts(self) -> dict[State, int]:
        """How many writes are in each state that occurs."""
        query = select(writes.c.state, func.count()).group_by(writes.c.state).order_by(writes.c.state)
        with self._store.reading() as connection:
            return {cast(State, state): count for state, count in connection.execute(query)}

    @readable
    def known(self, field: Literal["partner", "event", "rule"]) -> tuple[str, ...]:
        """Every partner, event or rule that the worker has dealt with, in order. A halt alone makes none known."""
        tables = [rule_memory, writes, action_log, *([partner_memory] if field == "partner" else [])]
        found: set[str] = set()
        with self._store.reading() as connection:
            for table in tables:
                query = select(table.c[field]).where(table.c[field].is_not(None), table.c[field] != "").distinct()
                if table is action_log:
                    query = query.where(table.c.kind.not_in(["halted", "resumed"]))
                found.update(connection.execute(query).scalars())
        return tuple(sorted(found))

    # pace

    def first_sendings(
        self, partner: PartnerId, since: datetime
    ) -> Mapping[tuple[EventId, RuleId], Sequence[datetime]]:
        """When the first attempt of each episode was recorded since a time; unsent ones do not count."""
        return first_sendings(self._store, partner, since)

    def firings(self, partner: PartnerId, since: datetime) -> Sequence[tuple[RuleId, EventId, datetime]]:
        """Firings since a time, oldest first, from the log itself."""
        found = self._store.rows(_FIRINGS, {"partner": partner, "since": millis_text(since)})
        return [(RuleId(rule), EventId(event), time_of(at)) for rule, event, at in found]

    # the log

    def log(self, wanted: LogFilter) -> Iterator[dict[str, Json]]:
        """Records as they are printed, oldest first; with ``limit`` the first that many after ``after_seq``."""
        try:
            yield from self._records(wanted)
        except ValueError as error:
            hint = "somebody changed it: `campaign-worker log --verify` says where"
            raise NotSafe(f"the action log cannot be read: {error}", hint=hint) from error

    def _records(self, wanted: LogFilter) -> Iterator[dict[str, Json]]:
        query, left = _narrowed(wanted), wanted.limit
        after = wanted.after_seq
        if after > LARGEST or (wanted.write is not None and not 0 < wanted.write <= LARGEST):
            return
        while left is None or left > 0:
            size = PAGE_RECORDS if left is None else min(left, PAGE_RECORDS)
            with self._store.reading() as connection:
                page = connection.execute(query.where(action_log.c.seq > after).limit(size)).all()
            yield from map(printed, page)
            if len(page) < size:
                return
            after = page[-1].seq
            left = None if left is None else left - size

    def last_seq(self) -> int:
        """The number of the newest record; 0 for an empty log."""
        return int(self._store.rows(_LAST_SEQ)[0][0])

    def reopened(self, partner: PartnerId, after_seq: int) -> bool:
        """Whether a person has reopened anything of the partner since that record, in the ledger's memory."""
        return bool(self._store.rows(_REOPENED, {"after": after_seq, "partner": partner}))

    @readable
    def doings(self, partner: PartnerId, event: EventId) -> Sequence[Doing]:
        """What tells who changed a field of the event, oldest first; see `worker.engine.whose`."""
        found = self._store.rows(_DOINGS, {"partner": partner, "event": event})
        return [
            Doing(seq, time_of(at), kind, write, reason, cast("Mapping[str, Json] | None", _maybe_json(facts)))
            for seq, at, kind, write, reason, facts in found
        ]

    def refused_for(self, service: str) -> NotSafe | None:
        """Why a start with this service would refuse the ledger; None where it is the ledger's own, or where the ledger
        knows of no partner of any."""
        said = self.status()
        own = None if said is None else said.body.get(SERVICE)
        if own in (None, service) or self._store.place is None or not self.known("partner"):
            return None
        return NotSafe(
            f"the ledger {self._store.place.file} belongs to the service {own}, and the config's api.base_url names "
            f"{service}: what was done for one says nothing of the other",
            hint="for another service name another `ledger:` in the config; where the same one has moved, run "
            f"`campaign-worker ledger moved --to {service} --because TEXT`: open writes are then put before a person, "
            "and what is true at the first look waits for approval",
        )

    def refused(self) -> NotSafe | None:
        """Why a start would refuse this ledger as it stands to its mark; None where it would not."""
        return refusal(self._store)

    def verify(self) -> ChainBreak | None:
        """Recomputes the whole chain. That its end was cut off is shown by its mark, unless `refused` says that the
        mark cannot."""
        marked = marked_to(self._store)  # first: a daemon may go on meanwhile
        return verify_to(self._records(LogFilter()), marked)

    # what explains

    def observed(self, partner: PartnerId, event: EventId | None = None) -> tuple[Observed, ...]:
        """Every fact as it was seen last: of the partner, or of one event and the partner as a whole."""
        with self._store.reading() as connection:
            return load_observed(connection, partner, event)

    def history(self, partner: PartnerId, since: datetime | None = None) -> History:
        """The observed facts since a time, or as far back as they are kept."""
        with self._store.reading() as connection:
            return load_history(connection, partner, since)

    def observed_at(self, partner: PartnerId, event: EventId, at: datetime) -> tuple[Observed, ...]:
        """The facts of one event, and of the partner as a whole, as they were at a time."""
        with self._store.reading() as connection:
            return load_history(connection, partner, at, event).start

    def facts_begin(self, partner: PartnerId) -> datetime | None:
        """How far back `observed_at` reaches; None where nothing is recorded."""
        with self._store.reading() as connection:
            return facts_begin(connection, partner)

    def last_change(self, partner: PartnerId) -> int:
        """The number of the newest change of the partner's facts; 0 where there is none."""
        with self._store.reading() as connection:
            return last_change(connection, partner)

    def partners_of(self, event: EventId) -> tuple[PartnerId, ...]:
        """The partners that have, or had, an event of this id."""
        places = (tables.observed, rule_memory, writes)
        found = union(*(select(table.c.partner).where(table.c.event == event) for table in places))
        with self._store.reading() as connection:
            return tuple(PartnerId(name) for name in sorted(connection.execute(found).scalars()))

    # the daemon

    def halts(self, now: datetime) -> tuple[Halt, ...]:
        """Halts in force."""
        with self._store.reading() as connection:
            return active_halts(connection, now)

    def status(self) -> DaemonStatus | None:
        """What the daemon last said of itself, None before its first word."""
        with self._store.reading() as connection:
            row = connection.execute(select(daemon_status)).first()
        if row is None:
            return None
        body = cast("dict[str, Json]", json_of(row.body))
        return DaemonStatus(pid=row.pid, since=time_of(row.since), seen_at=time_of(row.seen_at), body=body)

    def backup(self, target: Path) -> None:
        """A copy of one moment, taken beside a running daemon: whole or not there, and never over another file."""
        if self._store.place is None:
            raise NotFound("there is no ledger to back up", hint="check the path in `ledger:`")
        if target.is_dir():
            raise NotFound(f"{target} is a folder", hint="name a file in it that does not exist yet")
        fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
        try:
            fresh.unlink(missing_ok=True)
            # Made here first: the system says better than SQLite what is wrong.
            os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            self._store.run_alone("VACUUM INTO ?", str(fresh))
            _sync(fresh)
            os.link(fresh, target)
            sync_folder(target.absolute().parent)
        except FileExistsError as error:
            raise NotFound(f"{target} exists already", hint="name a file that does not exist yet") from error
        except OSError as error:
            raise WorkerError(f"the backup {target} cannot be written: {error.strerror}", hint=BACKUP_HINT) from error
        except LedgerUnwritable as error:
            if code_of(error.__cause__) not in OF_THE_TARGET:
                raise
            why = f"the backup {target} cannot be written: {error.__cause__}"
            raise WorkerError(why, hint=BACKUP_HINT) from error
        finally:
            fresh.unlink(missing_ok=True)

    def _writes(self, query: Select[tuple[object, ...]]) -> tuple[Write, ...]:
        with self._store.reading() as connection:
            return tuple(write_of(row) for row in connection.execute(query))


def open_for_backup(url: str, folder: Path | None = None) -> LedgerReader:
    """The ledger for nothing but `backup`, of whatever revision it is: a backup is what comes before an upgrade."""
    place = place_of(url, folder)
    return LedgerReader(reading_store(place)) if place.file.exists() else _nothing(place)


def open_reading(url: str, folder: Path | None = None) -> LedgerReader:
    """The ledger for reading. What does not exist yet is empty; `NotSafe` for another revision, no ledger, or one that
    was lost: its mark remembers that there was something to read."""
    place = place_of(url, folder)
    if not place.file.exists():
        return _nothing(place)
    store = reading_store(place)
    name = f"the ledger {place.file}"
    with store.reading() as connection:
        revision = revision_of(connection, name)
    if revision == NOTHING:
        store.close()
        return _nothing(place)
    require_current(revision, name, place=place)
    return LedgerReader(store)


def _nothing(place: LedgerPlace) -> LedgerReader:
    """A ledger that was never made; `NotSafe` for one that is gone."""
    if place.mark.exists():
        raise lost(place)
    store = memory_store()
    with store.writing() as connection:
        metadata.create_all(connection.core)
    return LedgerReader(store)


def _maybe_json(text: str | None) -> Json:
    return None if text is None else json_of(text)


def _narrowed(wanted: LogFilter) -> Select[tuple[object, ...]]:
    query = ALL_RECORDS
    for column in ("partner", "event", "rule", "write"):
        value = getattr(wanted, column)
        if value is not None:
            query = query.where(action_log.c[column] == value)
    return query if wanted.since is None else query.where(action_log.c.at >= millis_text(wanted.since))


def _sync(file: Path) -> None:
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


__all__ = ["FIELDS", "PAGE_RECORDS", "LedgerReader", "open_for_backup", "open_reading"]
