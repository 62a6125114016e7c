"""Alembic's folder: shipped inside the package, so that an installed worker can make and upgrade its ledger."""
