"""What Alembic runs for every migration: the caller's connection, the caller's transaction, and nothing of its own.

It reads no ini file and configures no logging, so that a migration behaves alike from a checkout and from a wheel.
"""

from alembic import context

from worker.ledger.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
