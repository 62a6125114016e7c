"""Fewer pages change with each write: an attempt is in two trees in place of four, a record in one fewer.

Nothing that is stored becomes another. Attempts lose the row number that nobody asks for and the index by event: what
was sent for an episode is found by its writes. Those that carry money have indexes of their own, which most do not
enter. The log's index by time served one question, records between two times of everybody, which may walk the log.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

COLUMNS = '"write", attempt, at, partner, event, rule, episode, stops, spends, amount, outcome, task_reads'
WITH_MONEY = sa.text("amount IS NOT NULL")


def upgrade() -> None:
    """The attempts move into a table without row numbers."""
    op.drop_index("ix_action_log_at", "action_log")
    op.rename_table("attempts", "attempts_before")
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
        sa.Column("task_reads", sa.Integer, nullable=False, server_default="0"),
        sqlite_with_rowid=False,
    )
    op.execute(f"INSERT INTO attempts ({COLUMNS}) SELECT {COLUMNS} FROM attempts_before")  # noqa: S608 - words of ours
    op.drop_table("attempts_before")
    op.create_index("ix_attempts_partner", "attempts", ["partner", "stops", "at"])
    op.create_index("ix_attempts_money", "attempts", ["partner", "at"], sqlite_where=WITH_MONEY)
    op.create_index("ix_attempts_money_event", "attempts", ["partner", "event", "at"], sqlite_where=WITH_MONEY)
