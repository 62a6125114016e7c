"""The ledger's tables, how their values are kept, and the revisions that this program knows.

SQLAlchemy Core without objects that track themselves: a row is read, judged elsewhere, and written by one statement.
Times are RFC 3339 UTC texts of one width, so that comparing texts compares times; JSON is text, so that integers and
floats stay apart, and what was hashed is what is stored. Nothing changes the tables but ``migrations``.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Dialect,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    and_,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from worker.model.errors import LedgerDamaged
from worker.model.facts import Json

# What is said where the ledger holds something that this program cannot have written.
#
# SQLite keeps no checksums of its file, so a disk that changes a bit is noticed only where the changed value makes no
# sense: JSON that is none, a time that is none, a state that no write can be in. Such a value is never repaired and
# never passed on; whoever asked is told that the ledger is damaged. What still makes sense is taken as it stands: in
# the action log the chain shows it (``log --verify``), in the other tables nothing does.

P = ParamSpec("P")
T = TypeVar("T")
DAMAGED_HINT: Final = (
    "nothing is sent. Keep the file, with its -wal and -shm, in another place, put the newest backup where it was, and "
    "go on with `campaign-worker ledger accept-restore`; never with an empty ledger, it would do again what was done"
)


def damaged(why: object, name: str = "the ledger") -> LedgerDamaged:
    """The error that says so."""
    return LedgerDamaged(f"{name} is damaged: {why}", hint=DAMAGED_HINT)


def readable(read: Callable[P, T]) -> Callable[P, T]:
    """For what makes values of a stored row: whatever such a row cannot be made into is damage, and no defect."""

    @wraps(read)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except LedgerDamaged:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise damaged(f"a stored value cannot be read: {error}") from error

    return reading


# Values and their columns.


@lru_cache(maxsize=512)  # what is stored together shares its moments
def time_text(moment: datetime) -> str:
    """``2026-01-31T12:00:00.000000Z``: always the same width, so that texts sort as times do."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


@readable
def time_of(stored: str) -> datetime:
    """The aware moment that `time_text` wrote."""
    return datetime.fromisoformat(stored)


def millis_text(moment: datetime) -> str:
    """As `time_text`, cut to milliseconds: the form that people read."""
    return time_text(moment)[:-4] + "Z"


_COMPACT = json.JSONEncoder(separators=(",", ":")).encode  # once: `json.dumps` would make one for every value


def json_text(value: object) -> str:
    """Compact JSON in ASCII: whatever text a service sends, lone surrogates included, can be stored and comes back."""
    return _COMPACT(value)


@readable
def json_of(stored: str) -> Json:
    """What `json_text` wrote."""
    return cast(Json, json.loads(stored))


def storable(text: str) -> str:
    """The text without what no file or no database could hold: half of a surrogate pair, a zero."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", errors="replace").decode("utf-8").replace("\0", "\ufffd")


_AS_PYTHON_SORTS = Text().with_variant(Text(collation="C"), "postgresql")


class Words(TypeDecorator[str]):
    """A text, whatever a service sends in it; sorted as Python sorts it, wherever it is kept."""

    impl = _AS_PYTHON_SORTS
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - for any
        return None if value is None else storable(value)


Number = BigInteger().with_variant(Integer, "sqlite")
"""A whole number of 64 bits, which SQLite calls an integer."""


def only_where(condition: str) -> dict[str, Any]:
    """Of an index: it holds only rows of this kind."""
    return {f"{database}_where": text(condition) for database in ("sqlite", "postgresql")}


class UtcTime(TypeDecorator[datetime]):
    """A time with its zone."""

    impl = _AS_PYTHON_SORTS
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - for any
        return None if value is None else time_text(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ANN401, ARG002 - stored
        return None if value is None else time_of(value)


class Jsons(TypeDecorator[Json]):
    """Any JSON value; what has none reads as null."""

    impl = _AS_PYTHON_SORTS
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ANN401, ARG002 - any JSON
        return None if value is None else json_text(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Json:  # noqa: ANN401, ARG002 - as it is stored
        return None if value is None else json_of(value)


def none_of(column: ColumnElement[str], words: Iterable[str]) -> ColumnElement[bool]:
    """The column is none of these words of ours. As comparisons: a list of values SQLAlchemy would spell anew at each
    use."""
    return and_(*(column != literal_column(f"'{word}'") for word in sorted(words)))


def upsert(table: Table, *keys: str, changed: Sequence[str] = (), where: str = "") -> Insert:
    """Inserts a row, or changes the one with the same ``keys``, in PostgreSQL's words, which are SQLite's too.
    ``changed``: these columns, or all others; ``where``: only if this column would not go back."""
    made = insert(table)
    others = changed or [column.name for column in table.c if column.name not in keys]
    return made.on_conflict_do_update(
        index_elements=list(keys),
        set_={name: made.excluded[name] for name in others},
        where=made.excluded[where] >= table.c[where] if where else None,
    )


REVISIONS: tuple[str, ...] = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008")
"""Every revision, oldest first; the last is the one that this program reads and writes."""
REVISION = REVISIONS[-1]

metadata = MetaData()

revision_table = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True))
"""Which revision the tables have. Called as a tool called it that made them once."""

meta = Table(
    "meta",
    metadata,
    Column("id", Number, CheckConstraint("id = 1", name="one_row"), primary_key=True),
    Column("ledger_id", Words, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("restored_at", UtcTime),
    Column("superseded", Jsons),
    Column("refused", Words),
)
"""What the ledger is. ``superseded``: ids that it had before it was accepted as restored; ``refused``: why no replica
of a fleet sends from it."""

action_log = Table(
    "action_log",
    metadata,
    Column("id", Number, primary_key=True),
    Column("chain", Words, nullable=False, server_default=""),
    Column("replica", Words, nullable=False, server_default=""),
    Column("seq", Number, nullable=False, server_default="0"),
    Column("at", Words, nullable=False),
    Column("partner", Words),
    Column("event", Words),
    Column("rule", Words),
    Column("episode", Number),
    Column("write", Number),
    Column("attempt", Number),
    Column("action", Words),
    Column("kind", Words, nullable=False),
    Column("reason", Words),
    Column("why", Words, nullable=False),
    Column("request", Words),
    Column("before", Words),
    Column("response", Words),
    Column("evidence", Words),
    Column("facts", Words),
    Column("by", Words, nullable=False),
    Column("prev", Words, nullable=False),
    Column("hash", Words, nullable=False),
    Index("ix_action_log_chain", "chain", "seq", unique=True),
    Index("ix_action_log_event", "partner", "event"),
    Index("ix_action_log_write", "write"),
    Index("ix_action_log_fired", "partner", "at", **only_where("kind = 'fired'")),
)

writes = Table(
    "writes",
    metadata,
    Column("id", Number, primary_key=True),
    Column("partner", Words, nullable=False),
    Column("event", Words, nullable=False),
    Column("rule", Words, nullable=False),
    Column("episode", Number, nullable=False),
    Column("position", Number, nullable=False),
    Column("item", Words, nullable=False),
    Column("action", Words, nullable=False),
    Column("target", Words, nullable=False),
    Column("wish", Words, nullable=False),
    Column("wanted", Jsons, nullable=False),
    Column("params", Jsons, nullable=False),
    Column("order", Number, nullable=False),
    Column("spends", Boolean, nullable=False),
    Column("stops", Boolean, nullable=False),
    Column("do_hash", Words, nullable=False),
    Column("context", Jsons, nullable=False),
    Column("state", Words, nullable=False),
    Column("reason", Words, nullable=False),
    Column("why", Words, nullable=False),
    Column("rules", Jsons, nullable=False),
    Column("attempt", Number, nullable=False),
    Column("uncounted", Number, nullable=False),
    Column("planned_at", UtcTime, nullable=False),
    Column("changed_at", UtcTime, nullable=False),
    Column("due_since", UtcTime, nullable=False, server_default=""),
    Column("first_sent_at", UtcTime),
    Column("last_sent_at", UtcTime),
    Column("unknown_since", UtcTime),
    Column("held_by", Words),
    Column("held_until", UtcTime),
    Column("confirmed_by", Words),
    Column("before", Jsons),
    Column("before_known", Boolean, nullable=False),
    Column("approved", Boolean, nullable=False),
    Column("extra_attempts", Number, nullable=False),
    Column("denied", Number, nullable=False),
    Column("absent_proved", Boolean, nullable=False),
    Column("changed_seq", Number, nullable=False, server_default="0"),
    Column("sent_seq", Number, nullable=False, server_default="0"),
    UniqueConstraint("partner", "event", "rule", "episode", "position", "item", name="natural_key"),
    Index("ix_writes_open", "state", "partner"),
    Index("ix_writes_target", "partner", "event", "target"),
    Index(
        *("ix_writes_one_open", "partner", "event", "target", "stops"),
        unique=True,
        **only_where("state = 'sending' AND target <> ''"),
    ),
)

attempts = Table(
    "attempts",
    metadata,
    Column("write", Number, primary_key=True),
    Column("attempt", Number, primary_key=True),
    Column("at", UtcTime, nullable=False),
    Column("partner", Words, nullable=False),
    Column("event", Words, nullable=False),
    Column("rule", Words, nullable=False),
    Column("episode", Number, nullable=False),
    Column("stops", Boolean, nullable=False),
    Column("spends", Boolean, nullable=False),
    Column("amount", Float),
    Column("outcome", Words, nullable=False),
    Column("task_reads", Number, nullable=False, server_default="0"),
    Column("late_s", Float, nullable=False, server_default="0"),
    Index("ix_attempts_partner", "partner", "stops", "at"),
    Index("ix_attempts_one_open", "write", unique=True, **only_where("outcome = 'open'")),
    Index("ix_attempts_money", "partner", "at", **only_where("amount IS NOT NULL")),
    Index("ix_attempts_money_event", "partner", "event", "at", **only_where("amount IS NOT NULL")),
    sqlite_with_rowid=False,
)

STANDS: Mapping[str, str] = {
    "true": """body LIKE '%"open"\\:true,"fired"%'""",
    "held": """body NOT LIKE '%"held"\\:null%'""",
    "stopped": """body NOT LIKE '%"stopped"\\:null%'""",
}
"""How a rule stands for an event, asked of the memory as it is stored. Each has an index: a page counts them, and there
are as many memories as pairs of a rule and an event."""
rule_memory = Table(
    "rule_memory",
    metadata,
    Column("partner", Words, primary_key=True),
    Column("event", Words, primary_key=True),
    Column("rule", Words, primary_key=True),
    Column("episode", Number, nullable=False),
    Column("body", Jsons, nullable=False),
    *(Index(f"ix_rule_memory_{name}", "rule", **only_where(condition)) for name, condition in STANDS.items()),
)

partners = Table(
    "partners",
    metadata,
    Column("partner", Words, primary_key=True),
    Column("seq", Number, nullable=False, server_default="0"),
    Column("hash", Words, nullable=False, server_default=""),
    Column("body", Jsons),
    Column("owner", Words),
    Column("epoch", Number, nullable=False, server_default="0"),
    Column("owned_since", UtcTime),
    Column("pace", Jsons),
    Column("record", Words),
    Index("ix_partners_record", "record", unique=True, **only_where("record IS NOT NULL")),
)
"""A partner's memory, and the id in the service's record of it, which is one partner's alone. The row without a name is
the ledger's own: the end of the log's chain, and what each transaction that writes takes hold of first. In a fleet each
partner's row is that for the partner: the end of its chain, which replica it belongs to, after how many changes of
owners and since when, and what the service asked of its pace."""

replicas = Table(
    "replicas",
    metadata,
    Column("id", Words, primary_key=True),
    Column("host", Words, nullable=False),
    Column("pid", Number, nullable=False),
    Column("version", Words, nullable=False),
    Column("state", Words, nullable=False),
    Column("since", UtcTime, nullable=False),
    Column("beat", UtcTime, nullable=False),
    Column("body", Jsons),
)
"""The processes of a fleet, each under an id that is used once; ``beat``: when it was last heard of, by the server's
clock; ``state``: how it is, and by a hash of which partners it is told; ``body``: what it says of itself."""

rule_sets = Table(
    "rule_sets",
    metadata,
    Column("generation", Number, primary_key=True),
    Column("files", Jsons, nullable=False),
    Column("by", Words, nullable=False),
    Column("at", UtcTime, nullable=False),
)
"""The rules of a fleet, as they were published; the newest are in force."""

halts = Table(
    "halts",
    metadata,
    Column("id", Number, primary_key=True),
    Column("partner", Words),
    Column("rule", Words),
    Column("until", UtcTime),
    Column("because", Words, nullable=False),
    Column("by", Words, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("resumed_at", UtcTime),
)

daemon_status = Table(
    "daemon_status",
    metadata,
    Column("id", Number, CheckConstraint("id = 1", name="one_row"), primary_key=True),
    Column("pid", Number, nullable=False),
    Column("since", UtcTime, nullable=False),
    Column("seen_at", UtcTime, nullable=False),
    Column("body", Jsons, nullable=False),
)

observed = Table(
    "observed",
    metadata,
    Column("partner", Words, primary_key=True),
    Column("event", Words, primary_key=True),
    Column("fact", Words, primary_key=True),
    Column("params", Jsons, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("body", Jsons, nullable=False),
    Column("looked_at", UtcTime),
    Column("title", Words),
    sqlite_with_rowid=False,
)

observations = Table(
    "observations",
    metadata,
    Column("id", Number, primary_key=True),
    Column("partner", Words, nullable=False),
    Column("event", Words, nullable=False),
    Column("fact", Words, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("before", Jsons),
    Index("ix_observations_at", "partner", "at"),
)
