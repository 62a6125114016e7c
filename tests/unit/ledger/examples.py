"""Writes, plans and moves for the ledger's tests: one place that knows how little a test has to say."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from worker.engine.ports import Ledger
from worker.ledger.database import SqliteStore, memory_store
from worker.ledger.mark import Mark, read_mark, write_mark
from worker.ledger.places import LedgerPlace
from worker.ledger.sql import SqlLedger, set_up
from worker.model.commits import Commit, Hold, Move, Record, RuleMemory, Sending, SendingView, of_write
from worker.model.facts import EventId, Json, PartnerId, RuleId
from worker.model.writes import Intent, Plan, State, Write, WriteKey

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
ACME = PartnerId("partner-id-acme")
E1 = EventId("e1")
RULE = RuleId("pause-cancelled")
URL = "sqlite:///worker.db"
OLDER = Path(__file__).parent / "older"
"""How the tables of each revision before were made, and rows of the last of them."""
FRAME, PAGE_AT = 24, 8
"""Of a write-ahead log: bytes of a frame's head, and where the file's head says how long a page is."""


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def place_in(folder: Path) -> LedgerPlace:
    return LedgerPlace(file=folder / "worker.db")


def in_memory_ledger(now: datetime) -> SqlLedger:
    """A new, empty ledger, created at ``now``, on a database that ends with the process: the real one's code, so that
    nothing can hold here and fail on a disk but the disk itself."""
    store = memory_store()
    with store.writing() as connection:
        set_up(connection, now)
    return SqlLedger(store, mark=Mark(ledger_id="in-memory"))


def open_ledger(folder: Path, now: datetime = NOW) -> SqlLedger:
    return SqlLedger.open(f"sqlite:///{folder}/worker.db", clock_now=lambda: now)


def commits(folder: Path) -> int:
    """How many commits stand in the write-ahead log: each ends with a frame that says how long the file is after it."""
    log = (folder / "worker.db-wal").read_bytes()
    page = int.from_bytes(log[PAGE_AT : PAGE_AT + 4], "big")
    salt = log[16:24]
    frames = [log[at : at + FRAME] for at in range(32, len(log) - page, FRAME + page)]
    return sum(1 for one in frames if one[8:16] == salt and int.from_bytes(one[4:8], "big"))


def mark_in(folder: Path) -> Mark:
    """The mark beside the ledger there."""
    mark = read_mark(place_in(folder))
    assert mark is not None
    return mark


def older_mark(folder: Path) -> None:
    """The mark in the form of an older program: the next one is then written as a new file."""
    mark = mark_in(folder)
    body = {"ledger": mark.ledger_id, "seq": mark.seq, "hash": mark.hash}
    place_in(folder).mark.write_text(json.dumps(body) + "\n")


def raw_of(connection: Connection) -> Any:  # noqa: ANN401 - the driver's own
    """SQLite's connection beneath SQLAlchemy's."""
    return connection.connection.driver_connection


def run_sql(folder: Path, statement: str) -> None:
    """What somebody does to the ledger there who goes past the program."""
    with closing(sqlite3.connect(folder / "worker.db")) as connection, connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.executescript(statement)


def run_alone(ledger: SqlLedger, statement: str) -> None:
    """One statement on a ledger's file, outside of a transaction."""
    assert isinstance(ledger._store, SqliteStore)
    ledger._store.run_alone(statement)


def older_ledger(folder: Path, revision: str) -> None:
    """A ledger as a program of that revision has left it, with its mark: open writes, an episode, a halt and a chain.

    The rows are those of revision 0005; of another one, as many of their columns as it has.
    """
    with closing(sqlite3.connect(folder / "rows.db")) as newest, newest:
        newest.executescript((OLDER / "0005.sql").read_text("utf-8"))
        newest.executescript((OLDER / "rows.sql").read_text("utf-8"))
    with closing(sqlite3.connect(folder / "worker.db")) as connection, connection:
        connection.executescript((OLDER / f"{revision}.sql").read_text("utf-8"))
        connection.execute("ATTACH ? AS newest", (str(folder / "rows.db"),))
        tables = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name != 'alembic_version'"
        for (table,) in connection.execute(tables).fetchall():
            there, known = (
                {f'"{column[1]}"' for column in connection.execute(f"PRAGMA {one}.table_info({table})")}
                for one in ("main", "newest")
            )
            names = ", ".join(sorted(there & known))
            if not names:
                continue  # one that came later
            connection.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM newest.{table}")  # noqa: S608 - ours
        (ledger_id,) = connection.execute("SELECT ledger_id FROM main.meta").fetchone()
        seq, last = connection.execute("SELECT seq, hash FROM main.action_log ORDER BY seq DESC LIMIT 1").fetchone()
    write_mark(place_in(folder), Mark(ledger_id=ledger_id, seq=seq, hash=last))


def key(episode: int = 1, *, event: str = E1, rule: str = RULE, partner: str = ACME, position: int = 0) -> WriteKey:
    return WriteKey(
        partner=PartnerId(partner), event=EventId(event), rule=RuleId(rule), episode=episode, position=position
    )


def intent(action: str = "pause", *, budget: float | None = None, target: str | None = None) -> Intent:
    params: dict[str, Json] = {} if budget is None else {"total_budget": budget}
    stops = action == "pause"
    default = "client_campaign_status" if stops else "setup"
    return Intent(
        action=action, target=target or default, wish=f"{action}:x", params=params, stops=stops, spends=not stops
    )


def plan(write_key: WriteKey | None = None, wanted: Intent | None = None, state: State = "planned") -> Plan:
    return Plan(
        key=write_key or key(), intent=wanted or intent(), state=state, reason="condition", why="status is cancelled"
    )


def planned(ledger: SqlLedger, *plans: Plan) -> tuple[Write, ...]:
    return ledger.apply(Commit(at=NOW, plans=plans or (plan(),)))


def moved(write: Write, to: State, at: datetime, **changes: object) -> Move:
    new = replace(write, state=to, changed_at=at, **changes)  # type: ignore[arg-type] # fields of Write
    return Move(before=write, after=new, records=(of_write(new, at=at, kind=to, reason="condition", why="as asked"),))


def to_sending(write: Write, at: datetime) -> Move:
    return moved(write, "sending", at, attempt=write.attempt + 1, last_sent_at=at)


def record(
    ledger: Ledger, move: Move, check: Callable[[SendingView], Hold | None], *, amount: float | None
) -> Hold | None:
    """One attempt."""
    return ledger.record_sending(Sending(move=move, check=check, amount=amount))


def sent(ledger: SqlLedger, write: Write, at: datetime, amount: float | None = None) -> Write:
    """Records the next attempt of a write and returns the row as it then stands."""
    move = to_sending(write, at)
    assert record(ledger, move, no_brake, amount=amount) is None
    return as_stored(ledger, move.after)


def become(ledger: SqlLedger, write: Write, to: State, at: datetime, **changes: object) -> Write:
    move = moved(write, to, at, **changes)
    ledger.apply(Commit(at=at, moves=(move,)))
    return as_stored(ledger, move.after)


def as_stored(ledger: SqlLedger, wanted: Write) -> Write:
    """The write with what the ledger alone sets, once all else of it stands there."""
    stored = ledger.write(wanted.id)
    assert stored is not None
    full = replace(wanted, changed_seq=stored.changed_seq, sent_seq=stored.sent_seq)
    assert stored == full
    assert repr(stored) == repr(full), "1 and 1.0 are equal, but not the same"
    return full


def no_brake(_: SendingView) -> Hold | None:
    return None


class PollView:
    """A brake that lets everything pass and keeps what it was shown."""

    def __init__(self) -> None:
        self.view = SendingView()

    def __call__(self, view: SendingView) -> Hold | None:
        self.view = view
        return None


def memory(episode: int = 1, *, event: str = E1, rule: str = RULE) -> RuleMemory:
    return RuleMemory(partner=ACME, event=EventId(event), rule=RuleId(rule), episode=episode)


def fired(at: datetime = NOW, *, event: str = E1, why: str = "", facts: dict[str, Json] | None = None) -> Record:
    return Record(at=at, kind="fired", partner=ACME, event=EventId(event), rule=RULE, why=why, facts=facts)


def kinds(records: Sequence[dict[str, Json]]) -> list[Json]:
    return [record["kind"] for record in records]
