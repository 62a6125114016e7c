"""Which of two writes was sent later, and what came before what, no longer goes by the wall clock.

Each write keeps how far the log had come when its state last changed and when its last attempt was recorded. For what
is there the log tells both; one whose records the log lacks counts as the oldest, and its times decide.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

OF_ITS_STATE = """
UPDATE writes SET changed_seq = coalesce((
    SELECT max(seq) FROM action_log WHERE action_log."write" = writes.id AND action_log.kind = writes.state), 0)
"""
OF_ITS_SENDING = """
UPDATE writes SET sent_seq = coalesce((
    SELECT max(seq) FROM action_log WHERE action_log."write" = writes.id AND action_log.kind = 'sending'), 0)
"""


def upgrade() -> None:
    """Columns beside what is there, filled from the log, which has an index by write."""
    for name in ("changed_seq", "sent_seq"):
        op.add_column("writes", sa.Column(name, sa.Integer, nullable=False, server_default="0"))
    op.execute(OF_ITS_STATE)
    op.execute(OF_ITS_SENDING)
