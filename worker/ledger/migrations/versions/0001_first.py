"""The first ledger: log, writes, attempts, memory, halts, status.

Written out instead of derived from `tables`, because a migration says what was true when it was made and must go on
doing the same when the tables have moved on. There is no way down: a backup is.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Everything, from nothing."""
    _meta()
    _action_log()
    _writes()
    _attempts()
    _rule_memory()
    _partner_memory()
    _halts()
    _daemon_status()


def _meta() -> None:
    op.create_table(
        "meta",
        sa.Column("id", sa.Integer, sa.CheckConstraint("id = 1", name="one_row"), primary_key=True),
        sa.Column("ledger_id", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("restored_at", sa.Text),
    )


def _action_log() -> None:
    op.create_table(
        "action_log",
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("partner", sa.Text),
        sa.Column("event", sa.Text),
        sa.Column("rule", sa.Text),
        sa.Column("episode", sa.Integer),
        sa.Column("write", sa.Integer),
        sa.Column("attempt", sa.Integer),
        sa.Column("action", sa.Text),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("request", sa.Text),
        sa.Column("before", sa.Text),
        sa.Column("response", sa.Text),
        sa.Column("evidence", sa.Text),
        sa.Column("facts", sa.Text),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("prev", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.create_index("ix_action_log_at", "action_log", ["at"])
    op.create_index("ix_action_log_event", "action_log", ["partner", "event"])
    op.create_index("ix_action_log_write", "action_log", ["write"])
    op.create_index("ix_action_log_fired", "action_log", ["partner", "at"], sqlite_where=sa.text("kind = 'fired'"))


def _writes() -> None:
    op.create_table(
        "writes",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("partner", sa.Text, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("episode", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("item", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("wish", sa.Text, nullable=False),
        sa.Column("wanted", sa.Text, nullable=False),
        sa.Column("params", sa.Text, nullable=False),
        sa.Column("order", sa.Integer, nullable=False),
        sa.Column("spends", sa.Boolean, nullable=False),
        sa.Column("stops", sa.Boolean, nullable=False),
        sa.Column("do_hash", sa.Text, nullable=False),
        sa.Column("context", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("rules", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("uncounted", sa.Integer, nullable=False),
        sa.Column("planned_at", sa.Text, nullable=False),
        sa.Column("changed_at", sa.Text, nullable=False),
        sa.Column("first_sent_at", sa.Text),
        sa.Column("last_sent_at", sa.Text),
        sa.Column("unknown_since", sa.Text),
        sa.Column("held_by", sa.Text),
        sa.Column("held_until", sa.Text),
        sa.Column("confirmed_by", sa.Text),
        sa.Column("before", sa.Text),
        sa.Column("before_known", sa.Boolean, nullable=False),
        sa.Column("approved", sa.Boolean, nullable=False),
        sa.Column("extra_attempts", sa.Integer, nullable=False),
        sa.Column("denied", sa.Integer, nullable=False),
        sa.Column("absent_proved", sa.Boolean, nullable=False),
        sa.UniqueConstraint("partner", "event", "rule", "episode", "position", "item", name="natural_key"),
    )
    op.create_index("ix_writes_state", "writes", ["state"])
    op.create_index("ix_writes_target", "writes", ["partner", "event", "target"])


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("write", sa.Integer, primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("partner", sa.Text, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("episode", sa.Integer, nullable=False),
        sa.Column("stops", sa.Boolean, nullable=False),
        sa.Column("spends", sa.Boolean, nullable=False),
        sa.Column("amount", sa.Float),
        sa.Column("outcome", sa.Text, nullable=False),
    )
    op.create_index("ix_attempts_partner", "attempts", ["partner", "at"])
    op.create_index("ix_attempts_event", "attempts", ["partner", "event", "rule"])


def _rule_memory() -> None:
    op.create_table(
        "rule_memory",
        sa.Column("partner", sa.Text, primary_key=True),
        sa.Column("event", sa.Text, primary_key=True),
        sa.Column("rule", sa.Text, primary_key=True),
        sa.Column("episode", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )


def _partner_memory() -> None:
    op.create_table(
        "partner_memory",
        sa.Column("partner", sa.Text, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )


def _halts() -> None:
    op.create_table(
        "halts",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("partner", sa.Text),
        sa.Column("rule", sa.Text),
        sa.Column("until", sa.Text),
        sa.Column("because", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("resumed_at", sa.Text),
    )


def _daemon_status() -> None:
    op.create_table(
        "daemon_status",
        sa.Column("id", sa.Integer, sa.CheckConstraint("id = 1", name="one_row"), primary_key=True),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("since", sa.Text, nullable=False),
        sa.Column("seen_at", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
