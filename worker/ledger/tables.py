"""The ledger's tables, and the revisions that this program knows.

SQLAlchemy Core without objects that track themselves: a row is read, judged elsewhere, and written by one statement.
Times are RFC 3339 UTC texts of one width, so that comparing texts compares times; JSON is text, so that what was hashed
is what is stored. The tables never change by themselves: see ``migrations``.
"""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

REVISIONS: tuple[str, ...] = ("0001", "0002", "0003", "0004", "0005")
"""Every revision, oldest first; the last is the one that this program reads and writes."""
REVISION = REVISIONS[-1]

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1", name="one_row"), primary_key=True),
    Column("ledger_id", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("restored_at", Text),
)

action_log = Table(
    "action_log",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("at", Text, nullable=False),
    Column("partner", Text),
    Column("event", Text),
    Column("rule", Text),
    Column("episode", Integer),
    Column("write", Integer),
    Column("attempt", Integer),
    Column("action", Text),
    Column("kind", Text, nullable=False),
    Column("reason", Text),
    Column("why", Text, nullable=False),
    Column("request", Text),
    Column("before", Text),
    Column("response", Text),
    Column("evidence", Text),
    Column("facts", Text),
    Column("by", Text, nullable=False),
    Column("prev", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Index("ix_action_log_event", "partner", "event"),
    Index("ix_action_log_write", "write"),
    Index("ix_action_log_fired", "partner", "at", sqlite_where=text("kind = 'fired'")),
)

writes = Table(
    "writes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("partner", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("episode", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("item", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("wish", Text, nullable=False),
    Column("wanted", Text, nullable=False),
    Column("params", Text, nullable=False),
    Column("order", Integer, nullable=False),
    Column("spends", Boolean, nullable=False),
    Column("stops", Boolean, nullable=False),
    Column("do_hash", Text, nullable=False),
    Column("context", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("rules", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("uncounted", Integer, nullable=False),
    Column("planned_at", Text, nullable=False),
    Column("changed_at", Text, nullable=False),
    Column("due_since", Text, nullable=False, server_default=""),
    Column("first_sent_at", Text),
    Column("last_sent_at", Text),
    Column("unknown_since", Text),
    Column("held_by", Text),
    Column("held_until", Text),
    Column("confirmed_by", Text),
    Column("before", Text),
    Column("before_known", Boolean, nullable=False),
    Column("approved", Boolean, nullable=False),
    Column("extra_attempts", Integer, nullable=False),
    Column("denied", Integer, nullable=False),
    Column("absent_proved", Boolean, nullable=False),
    Column("changed_seq", Integer, nullable=False, server_default="0"),
    Column("sent_seq", Integer, nullable=False, server_default="0"),
    UniqueConstraint("partner", "event", "rule", "episode", "position", "item", name="natural_key"),
    Index("ix_writes_state", "state"),
    Index("ix_writes_target", "partner", "event", "target"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("write", Integer, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("at", Text, nullable=False),
    Column("partner", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("episode", Integer, nullable=False),
    Column("stops", Boolean, nullable=False),
    Column("spends", Boolean, nullable=False),
    Column("amount", Float),
    Column("outcome", Text, nullable=False),
    Column("task_reads", Integer, nullable=False, server_default="0"),
    Index("ix_attempts_partner", "partner", "stops", "at"),
    Index("ix_attempts_money", "partner", "at", sqlite_where=text("amount IS NOT NULL")),
    Index("ix_attempts_money_event", "partner", "event", "at", sqlite_where=text("amount IS NOT NULL")),
    sqlite_with_rowid=False,
)

rule_memory = Table(
    "rule_memory",
    metadata,
    Column("partner", Text, primary_key=True),
    Column("event", Text, primary_key=True),
    Column("rule", Text, primary_key=True),
    Column("episode", Integer, nullable=False),
    Column("body", Text, nullable=False),
)

partner_memory = Table(
    "partner_memory",
    metadata,
    Column("partner", Text, primary_key=True),
    Column("body", Text, nullable=False),
)

halts = Table(
    "halts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("partner", Text),
    Column("rule", Text),
    Column("until", Text),
    Column("because", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("resumed_at", Text),
)

daemon_status = Table(
    "daemon_status",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1", name="one_row"), primary_key=True),
    Column("pid", Integer, nullable=False),
    Column("since", Text, nullable=False),
    Column("seen_at", Text, nullable=False),
    Column("body", Text, nullable=False),
)

conditions = Table(
    "conditions",
    metadata,
    Column("when_hash", Text, primary_key=True),
    Column("source", Text, nullable=False),
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("partner", Text, primary_key=True),
    Column("event", Text, primary_key=True),
    Column("rule", Text, primary_key=True),
    Column("ending", Text, primary_key=True),
    Column("at", Text, nullable=False),
    Column("since", Text, nullable=False),
    Column("episode", Integer, nullable=False),
    Column("reason", Text),
    Column("why", Text, nullable=False),
    Column("until", Text),
    Column("when_hash", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Column("read", Text, nullable=False),
    sqlite_with_rowid=False,
)

observed = Table(
    "observed",
    metadata,
    Column("partner", Text, primary_key=True),
    Column("event", Text, primary_key=True),
    Column("fact", Text, primary_key=True),
    Column("params", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("body", Text, nullable=False),
    sqlite_with_rowid=False,
)

observations = Table(
    "observations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("partner", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("fact", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("before", Text),
    Index("ix_observations_at", "partner", "at"),
)
