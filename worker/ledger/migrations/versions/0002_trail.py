"""What people ask afterwards: evaluations by their ending, the conditions' texts, observed facts and their changes.

Nothing of the first revision is touched: an upgraded ledger begins to keep these from its next look on.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Four tables beside the others."""
    op.create_table(
        "conditions",
        sa.Column("when_hash", sa.Text, primary_key=True),
        sa.Column("source", sa.Text, nullable=False),
    )
    _evaluations()
    op.create_table(
        "observed",
        sa.Column("partner", sa.Text, primary_key=True),
        sa.Column("event", sa.Text, primary_key=True),
        sa.Column("fact", sa.Text, primary_key=True),
        sa.Column("params", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "observations",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("partner", sa.Text, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("fact", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("before", sa.Text),
    )
    op.create_index("ix_observations_at", "observations", ["partner", "at"])


def _evaluations() -> None:
    op.create_table(
        "evaluations",
        sa.Column("partner", sa.Text, primary_key=True),
        sa.Column("event", sa.Text, primary_key=True),
        sa.Column("rule", sa.Text, primary_key=True),
        sa.Column("ending", sa.Text, primary_key=True),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("since", sa.Text, nullable=False),
        sa.Column("episode", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("until", sa.Text),
        sa.Column("when_hash", sa.Text, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("read", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
