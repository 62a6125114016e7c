"""The ledger: what was decided, what was sent, what came of it, durable before a byte leaves.

One SQLite file, or a PostgreSQL database, behind the port of `worker.engine.ports`. ``sql`` writes, ``reading`` reads
beside it, ``tables`` and ``migrations`` are its shape, ``log`` makes it tamper-evident, ``mark`` shows a restored file,
and ``lock`` keeps a second sender out. Nothing here decides, sends or reads a clock.
"""
