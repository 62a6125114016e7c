"""The reading side: what commands, the page and the daemon ask of the ledger.

Each answer is one short transaction, and the log comes in pages by seq, so that a slow reader never keeps the WAL from
being moved into the file and never holds up a sender. `open_reading` works beside a running daemon and on a read-only
disk; a ledger that does not exist reads as an empty one. Nothing here writes, locks or creates.
"""

import os
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self, cast, get_args

from sqlalchemy import (
    BindParameter,
    Connection,
    Row,
    Select,
    bindparam,
    exists,
    false,
    func,
    literal_column,
    or_,
    select,
    true,
    tuple_,
    type_coerce,
    union,
    union_all,
)

from worker.ledger import tables
from worker.ledger.database import SqliteStore, Store, Values, code_of, memory_store, on_failure, reading_store
from worker.ledger.log import (
    ALL_RECORDS,
    OF_ALL,
    Head,
    end_of_chain,
    ends_of,
    narrowed,
    printed,
    printed_or_broken,
    verified,
)
from worker.ledger.mark import lost, marked_to, refusal
from worker.ledger.migrations import NOTHING, require_current, revision_of
from worker.ledger.places import files_of, sync
from worker.ledger.rows import (
    ALL_WRITES,
    FACTS_BEGIN,
    FIRST_SENDINGS,
    HOUR,
    NOT_SENT,
    OF_FIRING,
    OPEN_WRITES,
    WEEK,
    WITHOUT_EFFECT,
    load_history,
    load_observed,
    partner_memory_of,
    rule_memory_of,
    rules_that_looked,
    server_time,
    written,
)
from worker.ledger.tables import (
    Jsons,
    UtcTime,
    action_log,
    attempts,
    daemon_status,
    damaged,
    halts,
    meta,
    metadata,
    millis_text,
    none_of,
    observed,
    partners,
    readable,
    replicas,
    rule_memory,
    rule_sets,
    writes,
)
from worker.model.actions import ACTIONS
from worker.model.commits import (
    DOINGS,
    Booking,
    ChainBreak,
    DaemonStatus,
    Doing,
    Halt,
    History,
    LogFilter,
    Observed,
    Owned,
    PartnerMemory,
    PartnerNow,
    PublishedRules,
    RuleMemory,
    SeenReplica,
    SendingView,
)
from worker.model.errors import LedgerUnwritable, NotFound, NotSafe, UsageError, WorkerError
from worker.model.exchange import LEASE
from worker.model.facts import EventId, Json, PartnerId, RuleId, WriteId, spelled
from worker.model.writes import UNSETTLED, State, Write, WriteFilter

# What a guard may look at before a write is recorded as sending. Everything is read in the caller's transaction, and
# nothing here allows or forbids a sending.

HOLDS_NOTHING = frozenset(get_args(State)) - UNSETTLED
"""States in which a write holds no target; one that there is not is found, and damage."""
_A, _H, _L, _M, _W = attempts.c, halts.c, action_log.c, rule_memory.c, writes.c


# Statements that every poll or every write asks are made once: SQLAlchemy then knows them without looking at them anew.
_PARTNER: BindParameter[str] = bindparam("of_partner")
_EVENT: BindParameter[str] = bindparam("of_event")
_PARTNER_BODY = select(partners.c.body).where(partners.c.partner == _PARTNER).scalar_subquery()
_PARTNER_MEMORY = select(_PARTNER_BODY, select(meta.c.restored_at).scalar_subquery())
_PARTNERS = union(
    select(partners.c.partner).where(partners.c.body.is_not(None)), select(_M.partner), select(writes.c.partner)
)
_IDENTIFIED = select(partners.c.partner).where(partners.c.record.is_not(None))
_MEMORIES = select(_M.event, _M.rule, _M.body).where(_M.partner == _PARTNER).order_by(_M.event, _M.rule)
_AFTER = tuple_(_M.event, _M.rule) > tuple_(bindparam("event"), bindparam("rule"))
_MEMORIES_AFTER = _MEMORIES.where(_AFTER).limit(bindparam("most"))
_OF_EVENT = ALL_WRITES.where(_W.partner == _PARTNER, _W.event == _EVENT)
_WRITE = ALL_WRITES.where(_W.id == bindparam("this"))
_PARTNERS_OPEN = OPEN_WRITES.where(_W.partner == _PARTNER)
_EPISODE = _OF_EVENT.where(_W.rule == bindparam("of_rule"), _W.episode == bindparam("of_episode"))
_TARGETS = _OF_EVENT.where(_W.target.in_(bindparam("of_targets", expanding=True)))
_CONFIRMED = ALL_WRITES.where(
    _W.partner == _PARTNER,
    _W.event.in_(bindparam("of_events", expanding=True)),
    _W.state == literal_column("'confirmed'"),
    _W.target != literal_column("''"),
)
_HOLDING = _OF_EVENT.where(
    or_(_W.target == bindparam("of_target"), _W.action == bindparam("or_by")),
    none_of(_W.state, HOLDS_NOTHING),
    _W.id != bindparam("but"),
)
_SINCE = exists().where(_L.chain == partners.c.partner, _L.seq > bindparam("after"))
_REOPENED = _SINCE.where(_L.kind == literal_column("'again'"), _L.partner == _PARTNER)
_STANDING = select(partners.c.seq, _REOPENED).where(partners.c.partner == bindparam("of"))
_WAIT = writes.alias("wait").c
_FIRED = select(_L.rule, _L.event, type_coerce(_L.at, _A.at.type)).where(
    _L.partner == _PARTNER, _L.kind == literal_column("'fired'"), _L.at >= bindparam("since_as_said")
)
_AFTER_WAITS = (
    select(_A.rule, _A.event, _A.at)
    .join(writes, _W.id == _A.write)
    .where(_A.partner == _PARTNER, _A.stops.in_([false(), true()]), _A.at >= bindparam("since"), _W.target != "")
    .where(
        exists().where(
            *(_WAIT[name] == _W[name] for name in OF_FIRING),
            _WAIT.action == literal_column("'wait'"),
            _WAIT.position < _W.position,
        )
    )
)
_FIRINGS = union_all(_FIRED, _AFTER_WAITS)
_DOINGS = (
    select(_L.seq, type_coerce(_L.at, UtcTime), _L.kind, _L.write, _L.reason, type_coerce(_L.facts, Jsons))
    .where(_L.partner == _PARTNER, _L.event == _EVENT, or_(*(_L.kind == kind for kind in DOINGS)))
    .order_by(_L.seq)
)
_HALTS = (
    select(_H.id, _H.partner, _H.rule, _H.until, _H.because, _H.by, _H.at)
    .where(_H.resumed_at.is_(None), or_(_H.until.is_(None), _H.until > bindparam("now")))
    .order_by(_H.id)
)
_GENERATION = select(func.coalesce(func.max(rule_sets.c.generation), 0))
_SENT = (
    select(_A.at)
    .where(_A.partner == _PARTNER, _A.at > bindparam("since"), _A.at <= bindparam("latest"), ~_A.stops)
    .where(_A.outcome != NOT_SENT)
    .order_by(_A.at)
)
_MONEY = (
    select(_A.write, _A.event, _W.rule, _W.episode, _W.rules, _W.target, _A.at, _A.amount)
    .join(writes, _W.id == _A.write)
    .where(_A.partner == _PARTNER, _A.amount.is_not(None), none_of(_A.outcome, WITHOUT_EFFECT))
    .where(_A.write != bindparam("but"))
)
_ATTEMPT = select(_A.task_reads, _A.late_s).where(
    _A.write == bindparam("of_write"), _A.attempt == bindparam("of_attempt")
)
_BOOKED = union_all(
    _MONEY.where(_A.at >= bindparam("since")), _MONEY.where(_A.event == _EVENT, _A.at < bindparam("since"))
).order_by("at", "write")


def view_of(connection: Connection, write: Write, now: datetime) -> SendingView:
    """What a limit may look at before ``write`` is recorded as sending at ``now``. Its own attempts count nowhere but
    among those of the last hour. Of one that only stops spending no limit is asked."""
    values: Values = {"of_partner": write.key.partner, "of_event": write.key.event, "but": write.id}
    same = {**values, "of_target": write.intent.target, "or_by": ACTIONS[write.intent.action].also_by}
    busy = tuple(one for one in written(connection, _HOLDING, same) if one.state in UNSETTLED)
    view = SendingView(halts=active_halts(connection, now), on_target=busy)
    if write.intent.stops:
        return view
    latest = now + HOUR  # what is stamped further ahead was stamped by a clock that was wrong
    sent = connection.execute(_SENT, {"of_partner": write.key.partner, "since": now - HOUR, "latest": latest})
    money = connection.execute(_BOOKED, {**values, "since": now - WEEK}).mappings()
    booked = tuple(Booking(**{**row, "rules": tuple(row["rules"])}) for row in money)
    return replace(view, sent_last_hour=tuple(sent.scalars()), booked=booked)


def active_halts(connection: Connection, now: datetime) -> tuple[Halt, ...]:
    """Halts that nobody resumed and that have not run out."""
    return tuple(Halt(**row) for row in connection.execute(_HALTS, {"now": now}).mappings())


def newest_generation(connection: Connection) -> int:
    """The number of the rule set in force; 0 where none was ever published."""
    return int(connection.execute(_GENERATION).scalar_one())


def narrowed_to(query: Select[Any], wanted: WriteFilter) -> Select[Any]:
    """The writes of a query that are wanted of it."""
    given = ((_W[name], getattr(wanted, name)) for name in ("state", "partner", "event", "rule"))
    query = query.where(*(column == value for column, value in given if value is not None))
    return query if wanted.before_id is None else query.where(_W.id < wanted.before_id)


PAGE_RECORDS = 500
PAGE_MEMORIES = 2_000
BACKUP_HINT = "choose a folder that exists, with room, where this user may write; the ledger itself is as it was"
OF_THE_TARGET = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})
"""SQLite's errors that speak of the file that is written and not of the ledger, which is only read."""
SERVICE = "service"
"""In what the daemon says of itself: the service that the ledger belongs to from then on."""
LARGEST = 2**63 - 1
"""The largest number that SQLite holds: nothing in a ledger has a larger one, and it cannot be asked for."""


class LedgerReader:
    """Every question that the ledger answers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.made = store.lasting
        """Whether there is a ledger on the disk: what was never made reads as an empty one."""

    def close(self) -> None:
        """Gives the connections back."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # memory

    def partner_memory(self, partner: PartnerId) -> PartnerMemory | None:
        """Memory of a partner. After a restored ledger was accepted, even an unknown partner's says so."""
        ((body, restored),) = self._store.rows(_PARTNER_MEMORY, {"of_partner": partner})
        if body is not None:
            return partner_memory_of(body)
        return None if restored is None else PartnerMemory(partner=partner, restored_at=restored)

    def identified(self) -> frozenset[PartnerId]:
        """The partners of whom it is known who they are by the service's word."""
        return frozenset(PartnerId(name) for (name,) in self._store.rows(_IDENTIFIED))

    def restored_at(self) -> datetime | None:
        """When a restored ledger was last accepted; None where none was."""
        return next((at for (at,) in self._store.rows(select(meta.c.restored_at))), None)

    def rule_memories(self, partner: PartnerId, event: EventId | None = None) -> tuple[RuleMemory, ...]:
        """Memory of every (event, rule) of a partner, or of one event, in their order."""
        query = _MEMORIES if event is None else _MEMORIES.where(_M.event == event)
        return tuple(rule_memory_of(row.body) for row in self._store.rows(query, {"of_partner": partner}))

    def all_rule_memories(self, partner: PartnerId) -> Iterator[RuleMemory]:
        """Memory of every (event, rule) of a partner, in their order, a page at a time: there may be very many."""
        event, rule = "", ""
        while True:
            asked = {"of_partner": partner, "event": event, "rule": rule, "most": PAGE_MEMORIES}
            rows = self._store.rows(_MEMORIES_AFTER, asked)
            yield from (rule_memory_of(row.body) for row in rows)
            if len(rows) < PAGE_MEMORIES:
                return
            event, rule, _ = rows[-1]

    # writes

    def write(self, write_id: WriteId) -> Write | None:
        """One write by its number. None where there is none, also for a number that no ledger could hold."""
        if not 0 < write_id <= LARGEST:
            return None
        return next(iter(self._writes(_WRITE, {"this": write_id})), None)

    def open_writes(self, partner: PartnerId | None = None) -> tuple[Write, ...]:
        """Every write that is not final, oldest first."""
        return self._writes(OPEN_WRITES) if partner is None else self._writes(_PARTNERS_OPEN, {"of_partner": partner})

    def episode_writes(self, partner: PartnerId, event: EventId, rule: RuleId, episode: int) -> tuple[Write, ...]:
        """The writes of one episode, oldest first."""
        of = {"of_partner": partner, "of_event": event}
        return self._writes(_EPISODE, {**of, "of_rule": rule, "of_episode": episode})

    def target_writes(self, partner: PartnerId, event: EventId, *targets: str) -> tuple[Write, ...]:
        """Every write of a target, or of several, final ones too, oldest first."""
        return self._writes(_TARGETS, {"of_partner": partner, "of_event": event, "of_targets": [*targets]})

    def confirmed(self, partner: PartnerId, events: Collection[EventId]) -> tuple[Write, ...]:
        """The confirmed writes of these events, oldest first, without messages."""
        return self._writes(_CONFIRMED, {"of_partner": partner, "of_events": [*events]})

    def task_reads(self, write: Write) -> int:
        """How often the service's task behind the write's last attempt was read."""
        return next((row.task_reads for row in self._last_attempt(write)), 0)

    def late_s(self, write: Write) -> float:
        """So long after the write's last attempt was recorded a byte of it may still leave; 0 outside of a fleet."""
        return next((row.late_s for row in self._last_attempt(write)), 0.0)

    def _last_attempt(self, write: Write) -> Sequence[Row[Any]]:
        return self._store.rows(_ATTEMPT, {"of_write": write.id, "of_attempt": write.attempt})

    def writes(
        self,
        *,
        state: State | None = None,
        event: str | None = None,
        partner: str | None = None,
        rule: str | None = None,
    ) -> list[Write]:
        """Every write, oldest first, narrowed by what is given."""
        wanted = WriteFilter(state=state, event=event, partner=partner, rule=rule)
        return list(self._writes(narrowed_to(ALL_WRITES, wanted)))

    def attempts(self, partner: PartnerId, until: datetime) -> Sequence[Mapping[str, Json]]:
        """What was sent for a partner by then, as it is stored."""
        return [row._asdict() for row in self._store.rows(select(attempts).where(_A.partner == partner, _A.at < until))]

    def state_counts(self, rule: str | None = None) -> dict[State, int]:
        """How many writes, of all or of a rule, are in each state that occurs."""
        query = select(writes.c.state, func.count()).group_by(writes.c.state).order_by(writes.c.state)
        found = self._store.rows(query if rule is None else query.where(writes.c.rule == rule))
        return {cast(State, state): count for state, count in found}

    @readable
    def known(self, field: Literal["partner", "event", "rule"]) -> tuple[str, ...]:
        """Every partner, event or rule that the worker has dealt with, in order. A halt alone makes none known."""
        asked = [select(table.c[field]) for table in (rule_memory, writes)]
        asked.append(select(_L[field]).where(_L.kind.not_in(["halted", "resumed"])))
        if field == "partner":
            asked.append(select(partners.c.partner).where(partners.c.body.is_not(None)))
        if field == "event":
            asked.append(select(observed.c.event))
        with self._store.reading() as connection:
            found = {name for name in connection.execute(union(*asked)).scalars() if name}
            if field == "rule":
                found |= rules_that_looked(connection)
        return tuple(sorted(found))

    # pace

    def first_sendings(
        self, partner: PartnerId, since: datetime
    ) -> Mapping[tuple[EventId, RuleId], Sequence[datetime]]:
        """When the first attempt of each episode was recorded since a time, for each rule that its writes stand for;
        unsent ones do not count."""
        found: dict[tuple[EventId, RuleId], dict[tuple[str, int], datetime]] = defaultdict(dict)
        rows = self._store.rows(FIRST_SENDINGS, {"of_partner": partner, "since": since})
        for event, owner, episode, rules, at in rows:
            for rule in {owner, *rules}:
                found[event, rule].setdefault((owner, episode), at)
        return {pair: [*times.values()] for pair, times in found.items()}

    def firings(self, partner: PartnerId, since: datetime) -> Sequence[tuple[RuleId, EventId, datetime]]:
        """Firings since a time, from the log itself; and what was sent since of steps that came after a wait."""
        asked = {"of_partner": partner, "since": since, "since_as_said": millis_text(since)}
        return [(RuleId(rule), EventId(event), at) for rule, event, at in self._store.rows(_FIRINGS, asked)]

    # the log

    def log(self, wanted: LogFilter) -> Iterator[dict[str, Json]]:
        """Records as they are printed, in the order of their chain, those of several by time. ``limit``: so many."""
        one = wanted.chain is not None or wanted.partner is not None or wanted.write is not None
        chains = () if one else sorted(self.heads())
        each = [replace(wanted, chain=chain) for chain in chains] if len(chains) > 1 else [wanted]
        rows = map(self._records, each)
        yield from map(printed, islice(merge(*rows, key=lambda row: (row.at, row.id)), wanted.limit))

    def _records(self, wanted: LogFilter) -> Iterator[Row[Any]]:
        query, left = narrowed(ALL_RECORDS, wanted), LARGEST if wanted.limit is None else wanted.limit
        if wanted.after_seq > LARGEST or (wanted.write is not None and not 0 < wanted.write <= LARGEST):
            return
        place, after = _L.id if wanted.chain is None else _L.seq, 0
        query = query.order_by(None).order_by(place)
        while left > 0:
            size = min(left, PAGE_RECORDS)
            page = self._store.rows(query.where(place > after).limit(size))
            yield from page
            if len(page) < size:
                return
            after = page[-1].id if wanted.chain is None else page[-1].seq
            left -= size

    def last_seq(self, partner: PartnerId | None = None) -> int:
        """The number of the newest record of the chain in which the partner's are; 0 for an empty one."""
        return self.head(partner).seq

    def head(self, partner: PartnerId | None = None) -> Head:
        """The end of the chain in which the partner's records are, or those that concern all."""
        (chain,) = self._store.chains([partner])
        with self._store.reading() as connection:
            return end_of_chain(connection, chain)

    def heads(self) -> dict[str, Head]:
        """The end of every chain in which there are records."""
        with self._store.reading() as connection:
            return ends_of(connection)

    def log_after(self, known: Mapping[str, int], wanted: LogFilter) -> Iterator[dict[str, Json]]:
        """Records that came after these of each chain; with ``limit`` at most so many of each. The numbers of the whole
        log cannot tell: of two transactions the one with the lower numbers may end later."""
        grown = [chain for chain, head in sorted(self.heads().items()) if head.seq > known.get(chain, 0)]
        news = [self.log(replace(wanted, chain=chain, after_seq=known.get(chain, 0))) for chain in grown]
        return merge(*news, key=lambda one: str(one["at"]))

    def standing(self, partner: PartnerId, after_seq: int) -> PartnerNow:
        """What a decision about the partner begins with."""
        (chain,) = self._store.chains([partner])
        with self._store.reading() as connection:
            asked = {"of": chain, "of_partner": partner, "after": after_seq}
            seq, reopened = connection.execute(_STANDING, asked).first() or (0, False)
            return PartnerNow(seq, reopened, written(connection, _PARTNERS_OPEN, {"of_partner": partner}))

    def doings(self, partner: PartnerId, event: EventId) -> Sequence[Doing]:
        """What tells who changed a field of the event, oldest first; see `worker.engine.derived`."""
        return [Doing(*row) for row in self._store.rows(_DOINGS, {"of_partner": partner, "of_event": event})]

    def refused_for(self, service: str) -> NotSafe | None:
        """Why a start with this service would refuse the ledger; None where it is its own, or knows of no partner."""
        said = self.status()
        own = None if said is None else said.body.get(SERVICE)
        if own in (None, service) or not self.made or not self.known("partner"):
            return None
        return NotSafe(
            f"{self._store.name} belongs to the service {own}, and the config's api.base_url names "
            f"{service}: what was done for one says nothing of the other",
            hint="for another service name another `ledger:` in the config; where the same one has moved, run "
            f"`campaign-worker ledger moved --to {service} --because TEXT`: open writes are then put before an "
            "operator, and what is true at the first poll waits for approval",
        )

    def refused(self) -> NotSafe | None:
        """Why a start would refuse this ledger as it stands to its mark; None where it would not."""
        return refusal(self._store)

    def verify(self, against: Collection[Head] = ()) -> ChainBreak | None:
        """Recomputes every chain up to where the ledger and its mark say that it ends, and no further. ``against``:
        ends that it had before. Raises `LedgerDamaged` where SQLite finds its file damaged: an index may then tell
        another record's number than the record, which is walked by the one and printed by the other."""
        marked = marked_to(self._store)  # first: a daemon may go on meanwhile
        with self._store.reading() as connection:
            if isinstance(self._store, SqliteStore):
                said = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one()
                if said != "ok":
                    raise damaged(said, self._store.name)
            ends = ends_of(connection)
            longest = connection.execute(select(_L.chain, func.max(_L.seq)).group_by(_L.chain)).all()
        rows = (row for end in ends.values() for row in self._records(LogFilter(chain=end.chain, limit=end.seq)))
        beyond = [marked] if marked.seq > ends.get(OF_ALL, Head()).seq else []
        _, found = verified(map(printed_or_broken, rows), [*ends.values(), *beyond, *against])
        for chain, seq in longest if found is None else ():
            end = ends.get(chain, Head(chain=chain))
            if seq > end.seq:
                why = "there is more than its partner's row says: the row was put back, or somebody added to the log"
                return ChainBreak(seq=end.seq + 1, why=why, chain=chain)
        return found

    # what explains

    def observed(self, partner: PartnerId, event: EventId | None = None) -> tuple[Observed, ...]:
        """Every fact as it was seen last: of the partner, or of one event and the partner as a whole."""
        with self._store.reading() as connection:
            return load_observed(connection, partner, None if event is None else [event])

    def history(
        self, partner: PartnerId, since: datetime | None = None, events: Collection[EventId] | None = None
    ) -> History:
        """The observed facts since a time, or as far back as they are kept; of these events, or of all."""
        with self._store.reading() as connection:
            return load_history(connection, partner, since, events)

    def facts_begin(self, partner: PartnerId) -> datetime | None:
        """How far back `history` reaches; None where nothing is recorded."""
        found: datetime | None = self._store.rows(FACTS_BEGIN, {"of_partner": partner})[0][0]
        return found

    def partners(self) -> tuple[PartnerId, ...]:
        """Every partner that the ledger remembers or that a write was ever planned for."""
        return tuple(sorted(PartnerId(one) for (one,) in self._store.rows(_PARTNERS)))

    def partners_of(self, event: str) -> tuple[PartnerId, ...]:
        """Whose event this is: an id of one partner may be another one's too."""
        known = self.partners() if event else ()  # the indices begin with the partner, and there are few of them
        found = (
            select(table.c.partner).where(table.c.partner.in_(known), table.c.event == event)
            for table in (action_log, rule_memory, tables.observed)
        )
        return tuple(sorted(PartnerId(one) for (one,) in self._store.rows(union(*found))))

    # the daemon

    def halts(self, now: datetime) -> tuple[Halt, ...]:
        """Halts in force."""
        with self._store.reading() as connection:
            return active_halts(connection, now)

    def replicas(self) -> tuple[SeenReplica, ...]:
        """The workers of a fleet that the ledger knows, oldest first; of one that runs alone, none."""
        with self._store.reading() as connection:
            rows = connection.execute(select(replicas).order_by(replicas.c.since)).all()
            now = server_time(connection) if rows else None
        return tuple(
            SeenReplica(
                **{name: getattr(row, name) for name in ("id", "host", "pid", "version", "since")},
                state=row.state.partition(" ")[0],
                lag=now - row.beat,
                alive=now - row.beat < LEASE,
                said=row.body or {},
            )
            for row in rows
        )

    def owned(self) -> tuple[Owned, ...]:
        """Every partner, and which replica of a fleet it belongs to."""
        found = []
        for row in self._store.rows(select(partners).where(partners.c.partner != "").order_by(partners.c.partner)):
            listed_at = None if row.body is None else partner_memory_of(row.body).listed_at
            partner = PartnerId(row.partner)
            found.append(Owned(partner=partner, owner=row.owner, since=row.owned_since, listed_at=listed_at))
        return tuple(found)

    def published(self) -> PublishedRules | None:
        """The rules in force of a fleet; None where none were ever published."""
        for row in self._store.rows(select(rule_sets).order_by(rule_sets.c.generation.desc()).limit(1)):
            return PublishedRules(generation=row.generation, files=row.files, by=row.by, at=row.at)
        return None

    def generation(self) -> int:
        """Which rules of a fleet are in force; 0 where none were ever published."""
        with self._store.reading() as connection:
            return newest_generation(connection)

    @readable
    def status(self) -> DaemonStatus | None:
        """What the daemon last said of itself, in a fleet what all say together; None before the first word."""
        for row in self._store.rows(select(daemon_status)):
            replicas = self.replicas()
            body = together(replicas, self.owned()) if replicas else {}
            return DaemonStatus(pid=row.pid, since=row.since, seen_at=row.seen_at, body={**row.body, **body})
        return None

    def backup(self, target: Path) -> None:
        """A copy of one moment, taken beside a running daemon: whole or not there, and never over another file."""
        if not isinstance(self._store, SqliteStore):
            raise NotFound(f"{self._store.name} is no file", hint="back it up with PostgreSQL's own tools: pg_dump")
        if not self._store.lasting:
            raise NotFound("there is no ledger to back up", hint="check the path in `ledger:`")
        if target.is_dir():
            raise NotFound(f"{target} is a folder", hint="name a file in it that does not exist yet")
        fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
        try:
            fresh.unlink(missing_ok=True)
            # Made here first: the system says better than SQLite what is wrong.
            os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            self._store.run_alone("VACUUM INTO ?", str(fresh))
            sync(fresh)
            try:
                os.link(fresh, target)
            except OSError:  # it is there, or its disk knows no second name of a file, as a stick or a share
                os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
                fresh.replace(target)
            sync(target.absolute().parent)
        except FileExistsError as error:
            raise NotFound(f"{target} exists already", hint="name a file that does not exist yet") from error
        except OSError as error:
            raise WorkerError(f"the backup {target} cannot be written: {error.strerror}", hint=BACKUP_HINT) from error
        except LedgerUnwritable as error:
            if code_of(error.__cause__) not in OF_THE_TARGET:
                raise
            raise WorkerError(f"the backup {target} cannot be written: {error.__cause__}", hint=BACKUP_HINT) from error
        finally:
            fresh.unlink(missing_ok=True)

    def _writes(self, query: Select[tuple[object, ...]], values: Values | None = None) -> tuple[Write, ...]:
        with self._store.reading() as connection:
            return written(connection, query, values)


def together(replicas: Sequence[SeenReplica], owned: Iterable[Owned]) -> dict[str, Json]:
    """What a fleet says of itself: of each partner what its owner says, or where nobody has it, when its list was last
    complete; of all else what any says that runs. A partner that nobody has, and none of those that say whom they are
    told of, is left alone: it was taken from their config or account."""
    alive = {one.id: one.said for one in replicas if one.alive}
    said, by_owner = alive.values(), {one.id: part_of(one.said, "partners") for one in replicas}
    named = {name for body in said for name in cast("list[str]", body.get("named") or ())}
    nothing, partners = dict.fromkeys(("last_error", "requests_per_minute", "budget")), dict[str, Json]()
    for one in owned:
        if one.owner in alive or one.partner in named or not named:
            own = part_of(by_owner.get(one.owner or "", {}), one.partner)
            partners[one.partner] = {"last_ok_at": spelled(one.listed_at), **nothing, **own}
    return {
        "cycle_ms": max((ms for body in said if isinstance(ms := body.get("cycle_ms"), int)), default=None),
        "unreachable": next((body["unreachable"] for body in said if body.get("unreachable")), None),
        "rules": {name: value for body in said for name, value in part_of(body, "rules").items() if value},
        "partners": partners,
        "partners_held": {name: why for body in said for name, why in part_of(body, "partners_held").items()},
    }


def part_of(body: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    """A part of what was said, empty where there is none."""
    part = body.get(name)
    return part if isinstance(part, dict) else {}


def open_for_backup(url: str) -> LedgerReader:
    """The ledger for nothing but `backup`, of whatever revision it is: a backup is what comes before an upgrade."""
    place = files_of(url)
    if place is None:
        return LedgerReader(server_store(url))
    if place.mark.exists() and not place.file.exists():
        raise lost(place)
    return LedgerReader(reading_store(place) if place.file.exists() else empty_store())


def open_reading(url: str) -> LedgerReader:
    """The ledger for reading. What does not exist yet is empty; `NotSafe` for another revision, no ledger, or one that
    was lost: its mark remembers that there was something to read."""
    return LedgerReader(store_of(url) or empty_store())


def store_of(url: str) -> Store | None:
    """What there is of a ledger to be read, of this program's revision; None where it was never made."""
    place = files_of(url)
    had_a_mark = place is not None and place.mark.exists()  # before anything else: a daemon may be making both
    if place is None or place.file.exists():
        store = server_store(url) if place is None else reading_store(place)
        with on_failure(store.close):
            with store.reading() as connection:
                revision = revision_of(connection, store.name)
            if revision != NOTHING:
                require_current(revision, store.name, place=place)
                return store
        store.close()
    if place is not None and had_a_mark:
        raise lost(place)
    return None


def server_store(url: str) -> Store:
    """For a ledger on PostgreSQL. The driver is loaded here: who keeps the ledger in a file need not have it."""
    try:
        from worker.ledger.postgres import postgres_store  # noqa: PLC0415 - see above
    except ImportError as error:
        hint = "install it with the extra `postgres`: pip install 'campaign-worker[postgres]'"
        raise UsageError("ledger: PostgreSQL needs its driver, psycopg, which is not installed", hint=hint) from error
    return postgres_store(url)


def empty_store() -> Store:
    """What reads as a ledger in which nothing was ever written."""
    store = memory_store()
    with store.writing() as connection:
        metadata.create_all(connection)
    return store
