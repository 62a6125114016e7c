"""What people leaf through: the newest first, a page at a time, and the counts that charts are drawn from.

Commands print from the oldest record on and to the end; somebody who looks wants the last ones and then perhaps those
before. Each answer is one short transaction of bounded size on connections of its own, so that a page that is asked
often keeps no writer waiting and no WAL from being moved into the file. Nothing here writes, locks or creates.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast
from unicodedata import normalize

from sqlalchemy import Float, Text, case, func, literal_column, or_, select, text, tuple_, type_coerce, union
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from worker.ledger.log import ALL_RECORDS, narrowed, printed
from worker.ledger.reading import LedgerReader, narrowed_to, store_of
from worker.ledger.rows import ALL_WRITES, EVENT_FACT, fact_of, rule_memory_of, rules_that_looked
from worker.ledger.tables import STANDS, action_log, json_text, none_of, observed, rule_memory, time_of, writes
from worker.model.commits import EventFilter, EventSeen, LogFilter, RuleMemory, RuleNow
from worker.model.errors import NotSafe
from worker.model.facts import EventId, Json, PartnerId, RuleId
from worker.model.writes import FINAL, Outcomes, Settled, State, Write, WriteFilter

_NEWEST_RECORDS = ALL_RECORDS.order_by(None).order_by(action_log.c.id.desc())
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
        """Records as they are printed, with their numbers, newest first, at most ``limit``. Raises `NotSafe` where one
        cannot be read."""
        query = narrowed(_NEWEST_RECORDS, wanted)
        if wanted.event is not None and wanted.partner is None:  # the index begins with the partner; there are few
            query = query.where(action_log.c.partner.in_(self.partners()))
        return [{**printed(row), "id": row.id} for row in self._store.rows(query.limit(limit))]

    def newest_writes(self, wanted: WriteFilter, limit: int) -> tuple[Write, ...]:
        """Writes, newest first, at most ``limit``."""
        return self._writes(narrowed_to(_NEWEST_WRITES, wanted).limit(limit))

    def writes_in(self, states: Sequence[State], limit: int) -> tuple[Write, ...]:
        """Writes that are in one of these states, those of the first before all others, then who has waited longest."""
        ordered = ALL_WRITES.order_by(None).order_by(writes.c.state != states[0], writes.c.id)
        return self._writes(ordered.where(writes.c.state.in_(sorted(states))).limit(limit))

    def rule_ids(self) -> tuple[RuleId, ...]:
        """Every rule that is remembered or has planned a write, whether it is still in force or not."""
        query = union(select(rule_memory.c.rule), select(writes.c.rule))
        with self._store.reading() as connection:
            found = {*connection.execute(query).scalars(), *rules_that_looked(connection)}
        return tuple(sorted(RuleId(rule) for rule in found if rule))  # an undo has none

    def events(self, wanted: EventFilter, limit: int) -> tuple[tuple[EventSeen, ...], tuple[str, str] | None]:
        """Events as they were seen last, by partner and id, at most ``limit``; and after which one to go on, if any."""
        o = observed.c
        query = select(o.partner, o.event, o.at, o.body).where(
            o.fact == EVENT_FACT, tuple_(o.partner, o.event) > wanted.after
        )
        if wanted.partner:
            query = query.where(o.partner == wanted.partner)
        if part := wanted.text:  # of letters beyond ASCII SQLite knows no case, and an accent may be one of its own
            cases = (part,) if part.isascii() else (part, part.lower(), part.upper(), part.title())
            parts = {normalize(form, one) for form in ("NFC", "NFD") for one in cases}
            query = query.where(
                or_(*(at.icontains(one, autoescape=True) for at in (o.event, o.title) for one in parts))
            )
        for name, value in wanted.fields.items():  # nearly all that are not meant are left out here, the others below
            stored = json_text({name: value})[1:-1]
            query = query.where(type_coerce(o.body, Text).contains(stored, autoescape=True))
        rows = self._store.rows(query.order_by(o.partner, o.event).limit(limit))
        found = [
            EventSeen(partner=PartnerId(owner), event=EventId(event), fact=fact_of(body, at), since=at)
            for owner, event, at, body in rows
        ]
        meant = tuple(one for one in found if all(one.field(name) == value for name, value in wanted.fields.items()))
        return meant, (rows[-1].partner, rows[-1].event) if len(rows) == limit else None

    def open_pairs(self, events: Sequence[str]) -> tuple[tuple[PartnerId, EventId, RuleId], ...]:
        """Of these events, the rules whose episode is open: their condition is true."""
        m = rule_memory.c
        query = select(m.partner, m.event, m.rule).where(m.event.in_(events), text(STANDS["true"])).order_by(m.rule)
        return tuple((PartnerId(one), EventId(event), RuleId(rule)) for one, event, rule in self._store.rows(query))

    def open_states(self, events: Sequence[str]) -> dict[tuple[str, str], dict[State, int]]:
        """Of these events, how many writes are in each state that is not final."""
        w = writes.c
        query = select(w.partner, w.event, w.state, func.count()).where(w.event.in_(events), none_of(w.state, FINAL))
        found: dict[tuple[str, str], dict[State, int]] = {}
        for partner, event, state, count in self._store.rows(query.group_by(w.partner, w.event, w.state)):
            found.setdefault((partner, event), {})[cast(State, state)] = count
        return found

    def rules_now(self, since: datetime, only: str | None = None) -> dict[str, RuleNow]:
        """How each rule, or one, stands over all events, its last firing, and its writes by state: those that are open,
        and those that have ended ``since`` then."""
        m, w, a = rule_memory.c, writes.c, action_log.c
        fired = select(a.rule, func.max(a.at)).where(a.kind == literal_column("'fired'"))
        made = select(w.rule, w.state, func.count()).where(or_(none_of(w.state, FINAL), w.changed_at >= since))
        pairs = (select(m.rule, func.count()).where(text(condition)).group_by(m.rule) for condition in STANDS.values())
        asked = (fired.group_by(a.rule), a), (made.group_by(w.rule, w.state), w), *((one, m) for one in pairs)
        states: dict[str, dict[str, int]] = {}
        with self._store.reading() as connection:
            firings, counts, *stands = (
                connection.execute(query if only is None else query.where(of.rule == only)).all() for query, of in asked
            )
        true, held, stopped = (dict(rows) for rows in stands)
        last = {rule: time_of(at) for rule, at in firings}
        for rule, state, count in counts:
            states.setdefault(rule, {})[state] = count
        return {
            rule: RuleNow(
                true.get(rule, 0), held.get(rule, 0), stopped.get(rule, 0), last.get(rule), states.get(rule, {})
            )
            for rule in {*true, *held, *stopped, *last, *states}
        }

    def titles(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """The titles of events as they were seen last, where they are kept."""
        o = observed.c
        known = tuple_(o.partner, o.event).in_(pairs), o.fact == EVENT_FACT, o.title.is_not(None)
        found = self._store.rows(select(o.partner, o.event, o.title).where(*known))
        return {(partner, event): title for partner, event, title in found}

    def memories_of(self, rule: str, limit: int) -> tuple[RuleMemory, ...]:
        """What is remembered of a rule, event by event."""
        m = rule_memory.c
        query = select(m.body).where(m.rule == rule).order_by(m.partner, m.event).limit(limit)
        return tuple(rule_memory_of(body) for (body,) in self._store.rows(query))

    def daily(self, since: datetime, until: datetime) -> tuple[Outcomes, ...]:
        """Where the writes stand that changed last in that time, by the day of their last change."""
        day = func.substr(writes.c.changed_at, 1, 10)
        query = (
            select(day, writes.c.state, func.count())
            .where(writes.c.changed_at >= since, writes.c.changed_at < until)
            .group_by(day, writes.c.state)
            .order_by(day)
        )
        return tuple(
            Outcomes(day=at, state=cast(State, state), count=count) for at, state, count in self._store.rows(query)
        )

    def settled(self, since: datetime, until: datetime) -> tuple[Settled, ...]:
        """How long confirming took, day by day in that time. The database ranks them: they are too many to carry."""
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
            .where(w.state == "confirmed", w.changed_at >= since, w.changed_at < until)
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
        w = writes.c
        since = func.coalesce(w.unknown_since, w.changed_at) if state == "unknown" else w.changed_at
        found: datetime | None = self._store.rows(select(func.min(since)).where(w.state == state))[0][0]
        return found


def open_browser(url: str) -> LedgerBrowser:
    """The ledger for a page, beside its daemon. Raises `NotSafe` for another revision or no ledger."""
    store = store_of(url)
    if store is None:
        raise NotSafe("there is no ledger yet", hint="`campaign-worker run` makes it")
    return LedgerBrowser(store)
