"""What people leaf through: the newest first, a page at a time, and the counts that charts are drawn from.

Commands print from the oldest record on and to the end; somebody who looks wants the last ones and then perhaps those
before. Each answer is one short transaction of bounded size on connections of its own, so that a page that is asked
often keeps no writer waiting and no WAL from being moved into the file. Nothing here writes, locks or creates.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Float, Select, and_, case, func, or_, select, union
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from worker.ledger.log import ALL_RECORDS, OF_ALL, printed
from worker.ledger.reading import LedgerReader, narrowed, store_of
from worker.ledger.rows import ALL_WRITES, EVENT_FACT, rule_memory_of, rules_that_looked
from worker.ledger.tables import (
    action_log,
    observed,
    partners,
    rule_memory,
    writes,
)
from worker.model.commits import LogFilter, RuleMemory
from worker.model.errors import NotSafe
from worker.model.facts import EventId, Json, PartnerId, RuleId
from worker.model.writes import Outcomes, Settled, State, Write, WriteFilter

_NEWEST_RECORDS = ALL_RECORDS.order_by(None).order_by(action_log.c.seq.desc())
_NEWEST_WRITES = ALL_WRITES.order_by(None).order_by(writes.c.id.desc())


class SecondsBetween(FunctionElement[float]):
    """How long after one stored time another is, as each database counts it."""

    inherit_cache = True
    type = Float()


@compiles(SecondsBetween, "sqlite")
def _in_sqlite(between: SecondsBetween, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401 - SQLAlchemy's own
    begun, ended = (compiler.process(one, **more) for one in between.clauses)
    return f"((julianday({ended}) - julianday({begun})) * 86400.0)"


@compiles(SecondsBetween, "postgresql")
def _in_postgres(between: SecondsBetween, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401 - the same
    begun, ended = (compiler.process(one, **more) for one in between.clauses)
    return f"extract(epoch from {ended}::timestamptz - {begun}::timestamptz)::float8"


class LedgerBrowser(LedgerReader):
    """The reading side with the questions that a page asks."""

    def newest(self, wanted: LogFilter, limit: int) -> list[dict[str, Json]]:
        """Records as they are printed, newest first, at most ``limit``. Raises `NotSafe` where one cannot be read."""
        query = self._of_any_partner(narrowed(_NEWEST_RECORDS, wanted), wanted)
        rows = self._store.rows(query.limit(limit))
        try:
            return [printed(row) for row in rows]
        except ValueError as error:
            hint = "somebody changed it: `campaign-worker log --verify` says where"
            raise NotSafe(f"the action log cannot be read: {error}", hint=hint) from error

    def newest_writes(self, wanted: WriteFilter, limit: int) -> tuple[Write, ...]:
        """Writes, newest first, at most ``limit``."""
        query = _NEWEST_WRITES
        for name in ("state", "partner", "event", "rule"):
            value = getattr(wanted, name)
            if value is not None:
                query = query.where(writes.c[name] == value)
        if wanted.before_id is not None:
            query = query.where(writes.c.id < wanted.before_id)
        return self._writes(query.limit(limit))

    def writes_in(self, states: Sequence[State], limit: int) -> tuple[Write, ...]:
        """The oldest writes that are in one of these states: who has waited longest comes first."""
        query = ALL_WRITES.where(writes.c.state.in_(sorted(states))).limit(limit)
        return self._writes(query)

    def partners(self) -> tuple[PartnerId, ...]:
        """Every partner that the ledger remembers or that a write was ever planned for."""
        remembered = select(partners.c.partner).where(partners.c.partner != OF_ALL)
        query = union(remembered, select(rule_memory.c.partner), select(writes.c.partner))
        return tuple(sorted(PartnerId(one) for (one,) in self._store.rows(query)))

    def rule_ids(self) -> tuple[RuleId, ...]:
        """Every rule that is remembered or has planned a write, whether it is still in force or not."""
        query = union(select(rule_memory.c.rule), select(writes.c.rule))
        with self._store.reading() as connection:
            found = {*connection.execute(query).scalars(), *rules_that_looked(connection)}
        return tuple(sorted(map(RuleId, found)))

    def events_like(self, text: str, limit: int) -> tuple[tuple[PartnerId, EventId], ...]:
        """Events whose id or title contains the text, those whose id begins with it first."""
        found: list[tuple[PartnerId, EventId]] = []
        o = observed.c
        like = or_(o.event.icontains(text, autoescape=True), o.title.icontains(text, autoescape=True))
        named = select(o.partner, o.event).where(o.fact == EVENT_FACT, like)
        with self._store.reading() as connection:
            found.extend((PartnerId(one), EventId(event)) for one, event in connection.execute(named.limit(limit)))
            for column, partner in (
                (rule_memory.c.event, rule_memory.c.partner),
                (writes.c.event, writes.c.partner),
                (action_log.c.event, action_log.c.partner),
            ):
                query = select(partner, column).where(column.icontains(text, autoescape=True)).distinct().limit(limit)
                found.extend((PartnerId(one), EventId(event)) for one, event in connection.execute(query))
                if len(found) >= limit:
                    break
        ordered = sorted(set(found), key=lambda pair: (not pair[1].startswith(text), pair[1], pair[0]))
        return tuple(ordered[:limit])

    def titles(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """The titles of events as they were seen last, where they are kept."""
        o = observed.c
        query = select(o.partner, o.event, o.title).where(
            o.fact == EVENT_FACT, o.event.in_([event for _, event in pairs]), o.partner.in_([one for one, _ in pairs])
        )
        query = query.where(o.title.is_not(None))
        found = self._store.rows(query)
        return {(partner, event): title for partner, event, title in found}

    def memories_of(self, rule: str, limit: int) -> tuple[RuleMemory, ...]:
        """What is remembered of a rule, event by event."""
        m = rule_memory.c
        query = select(m.body).where(m.rule == rule).order_by(m.partner, m.event).limit(limit)
        return tuple(rule_memory_of(body) for (body,) in self._store.rows(query))

    def counts_of(self, rule: str) -> dict[State, int]:
        """How many writes of a rule are in each state that occurs."""
        query = select(writes.c.state, func.count()).where(writes.c.rule == rule).group_by(writes.c.state)
        return {cast(State, state): count for state, count in self._store.rows(query)}

    def daily(self, since: datetime) -> tuple[Outcomes, ...]:
        """Where the writes that changed since then stand, by the day of their last change."""
        day = func.substr(writes.c.changed_at, 1, 10)
        query = (
            select(day, writes.c.state, func.count())
            .where(writes.c.changed_at >= since)
            .group_by(day, writes.c.state)
            .order_by(day)
        )
        return tuple(
            Outcomes(day=at, state=cast(State, state), count=count) for at, state, count in self._store.rows(query)
        )

    def settled(self, since: datetime) -> tuple[Settled, ...]:
        """How long confirming took, day by day since then. The database ranks them: they are too many to carry."""
        w = writes.c
        day = func.substr(w.changed_at, 1, 10)
        took = SecondsBetween(w.planned_at, w.changed_at)
        ranked = (
            select(
                day.label("day"),
                took.label("took"),
                func.row_number().over(partition_by=day, order_by=took).label("place"),
                func.count().over(partition_by=day).label("count"),
            )
            .where(w.state == "confirmed", w.changed_at >= since)
            .subquery()
        )
        r = ranked.c
        middle, slow = ((r.count * share + 99) // 100 for share in (50, 95))
        query = (
            select(
                r.day,
                func.max(r.count),
                func.max(case((r.place == middle, r.took))),
                func.max(case((r.place == slow, r.took))),
            )
            .group_by(r.day)
            .order_by(r.day)
        )
        return tuple(
            Settled(day=at, count=count, middle_s=round(max(0.0, half), 3), slow_s=round(max(0.0, most), 3))
            for at, count, half, most in self._store.rows(query)
        )

    def oldest(self, state: State) -> datetime | None:
        """Since when the write that has been longest in a state is in it; None where there is none."""
        since = (
            func.coalesce(writes.c.unknown_since, writes.c.changed_at) if state == "unknown" else writes.c.changed_at
        )
        query = select(func.min(since)).where(writes.c.state == state)
        found: datetime | None = self._store.rows(query)[0][0]
        return found

    def _of_any_partner(self, query: Select[tuple[object, ...]], wanted: LogFilter) -> Select[tuple[object, ...]]:
        """An event without its partner: the index begins with the partner, and there are few of them."""
        if wanted.event is None or wanted.partner is not None:
            return query
        return query.where(and_(action_log.c.partner.in_(self.partners()), action_log.c.event == wanted.event))


def open_browser(url: str, folder: Path | None = None) -> LedgerBrowser:
    """The ledger for a page, beside its daemon. Raises `NotSafe` for another revision or no ledger."""
    store = store_of(url, folder)
    if store is None:
        raise NotSafe("there is no ledger yet", hint="`campaign-worker run` makes it")
    return LedgerBrowser(store)
