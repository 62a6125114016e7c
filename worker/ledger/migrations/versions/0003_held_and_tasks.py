"""How long a write is held, and how often a service's task was read: both must outlive the process.

Writes that are there count as held since their last change, which is what the program went by until now.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Columns beside what is there."""
    op.add_column("writes", sa.Column("due_since", sa.Text, nullable=False, server_default=""))
    op.execute("UPDATE writes SET due_since = changed_at")
    op.add_column("attempts", sa.Column("task_reads", sa.Integer, nullable=False, server_default="0"))
