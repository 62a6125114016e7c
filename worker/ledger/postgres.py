"""A ledger on PostgreSQL: how its server is reached, what it must be to be trusted, and a deadline for every call.

A driver alone waits for ever on a silent link, so each wait for an answer ends after `DEADLINE_S`, and with it the
connection. What the server must be is read when a connection is made: one that does not sync, or that only follows
another, is not safe to send from. A commit whose answer did not come, or came with a warning, is an error, also where
it is there afterwards: nothing was sent for it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, create_engine, func, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool

from worker.ledger.database import Store, on_failure
from worker.ledger.places import named
from worker.model.errors import LedgerUnwritable

SENDINGS = 0x73656E64
"""What sendings share and a halt has alone."""
DEADLINE_S = 10.0
"""So long any answer is waited for."""
CONNECT_S = 5
"""So long a connection may take to be made."""
SETTINGS = {
    "lock_timeout": "4s",  # whoever holds the row that this transaction waits for holds it for moments, or is stopped
    "idle_in_transaction_session_timeout": "3s",  # and who is stopped loses it: a halt waits no longer than 5 s
    "synchronous_commit": "on",
    "client_min_messages": "warning",  # else nobody hears that a commit may be lost
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
}
"""Asked for at the start of a session, and read back: a pooler that gives each transaction another session drops them,
where it would let a SET hold for one of these sessions, whoever has it next."""
TRUSTED = {"fsync": "on", "full_page_writes": "on", "server_encoding": "UTF8", "server": "a primary"}
"""What else the server must answer."""
IN_A_FILE = "give it in a file that PGPASSFILE names, or in PGPASSWORD"
HINTS = (
    ("password retrieved from file", "correct the password in that file"),
    ("password authentication failed", f"the password is wrong; {IN_A_FILE}"),
    ("password", f"there is none for this host, database and user; {IN_A_FILE}"),
    ("no pg_hba.conf entry", "let this host and user in, in the server's pg_hba.conf"),
    ("invalid connection option", "take it out of `ledger:`"),
    ("permission denied", "give this user the right to it"),
    ("does not exist", "create it, or correct `ledger:`"),
    ("unsupported startup parameter", "a pooler stands before the server: name the server itself in `ledger:`"),
    ("too many", "raise the server's max_connections, or close what holds them"),
    ("No space", "free some space on the server's disk"),
)
"""What to do, by a word of the cause."""
REACH_HINT = "check host and port in `ledger:`, and that the server runs and lets this host in"


class Bounded(psycopg.Connection[tuple[Any, ...]]):
    """A connection on which no answer is waited for without end. ``warned``: what the server warned of since the last
    transaction began."""

    warned: str | None = None

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:  # noqa: ANN401 - as psycopg has it
        """See `psycopg.Connection.wait`: with an end."""
        try:
            return super().wait(gen, interval, DEADLINE_S if timeout is None else timeout)
        except psycopg.OperationalError as error:
            if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
                raise
            self.pgconn.finish()  # the server may answer yet: nobody may take that for the answer to something else
            raise psycopg.OperationalError(f"no answer within {DEADLINE_S:g} s") from error


class PostgresStore(Store):
    """Transactions on a ledger in a PostgreSQL database."""

    def chains(self, partners: Iterable[str | None]) -> Sequence[str]:
        """See `Store`: each partner has one of its own. In one order, so that no two wait for each other."""
        return sorted({partner or "" for partner in partners})

    def begin_sending(self, connection: Connection) -> None:
        """See `Store`: whoever sends shares a lock, whatever partner it is for."""
        connection.execute(select(func.pg_advisory_xact_lock_shared(SENDINGS)))

    def begin_halt(self, connection: Connection) -> None:
        """See `Store`. Who stands in a transaction loses it, and the lock with it, before this gives up."""
        connection.execute(select(func.pg_advisory_xact_lock(SENDINGS)))

    def begin(self, connection: Connection, *, writing: bool) -> None:
        """One that reads sees one moment. One that writes sees what was committed before each of its statements: it
        takes hold of its row first (see `Journal`), and reads after that."""
        raw: Any = connection.connection.driver_connection
        raw.warned = None
        raw.read_only = not writing
        levels = psycopg.IsolationLevel
        raw.isolation_level = levels.READ_COMMITTED if writing else levels.REPEATABLE_READ

    def require_certain(self, connection: Connection) -> None:
        """See `Store`: the server warns of a commit that may be lost with its disk."""
        raw: Any = connection.connection.driver_connection
        if raw.warned is not None:
            hint = "nothing is sent; look at the server's standbys"
            raise LedgerUnwritable(f"{self.name} warned of a commit: {raw.warned}", hint=hint)

    def in_words(self, error: BaseException) -> LedgerUnwritable | None:
        """See `Store`."""
        if not isinstance(error, psycopg.Error):
            return None
        cause = " ".join(str(error).split()) or type(error).__name__
        usual = REACH_HINT if error.sqlstate is None else "look into the server's own log"
        hint = next((hint for word, hint in HINTS if word in cause), usual)
        return LedgerUnwritable(f"{self.name} cannot be used: {cause}", hint=f"{hint}; nothing is sent until it can be")


def postgres_store(url: str) -> PostgresStore:
    """For the database of a ledger's URL, which the config has checked. Nothing is asked of the server before the first
    transaction."""
    address, name = make_url(url).set(drivername="postgresql+psycopg"), named(url)
    engine = create_engine(
        "postgresql+psycopg://", creator=_connector(address, name), poolclass=NullPool, use_native_hstore=False
    )
    return PostgresStore(engine, name)


def _connector(address: URL, name: str) -> Callable[[], Bounded]:
    _, given = address.get_dialect()().create_connect_args(address)
    asked = ("-c {}={}".format(name, value.replace(" ", r"\ ")) for name, value in SETTINGS.items())
    given["options"] = " ".join([given.get("options", ""), *asked])

    def connect() -> Bounded:
        raw = Bounded.connect(make_conninfo("", **{**given, "connect_timeout": CONNECT_S}), autocommit=True)
        with on_failure(raw.close):
            _require_trusted(raw, name)
            raw.autocommit = False
            raw.add_notice_handler(lambda notice: _heard(raw, notice))
        return raw

    return connect


def _heard(raw: Bounded, notice: psycopg.errors.Diagnostic) -> None:
    if notice.severity_nonlocalized == "WARNING":
        raw.warned = notice.message_primary


def _require_trusted(raw: Bounded, name: str) -> None:
    """Raises `LedgerUnwritable` for a server that may lose what it has acknowledged, or cannot hold every text. A start
    is refused then; who runs, and meets a standby for a moment, waits."""
    needed = {**SETTINGS, **TRUSTED}
    answers = {name: f"current_setting('{name}')" for name in needed}
    answers["server"] = "CASE WHEN pg_is_in_recovery() THEN 'a standby' ELSE 'a primary' END"
    cursor = raw.execute(f"SELECT {', '.join(answers.values())}".encode())
    found = dict(zip(answers, cursor.fetchone() or (), strict=False))
    wrong = ", ".join(f"{what} is {found.get(what)}" for what, value in needed.items() if found.get(what) != value)
    if wrong:
        wanted = ", ".join(f"{what}: {value}" for what, value in needed.items())
        why = f"{name} cannot be trusted to keep what it has acknowledged: {wrong}"
        raise LedgerUnwritable(why, hint=f"it needs {wanted}, without a pooler that shares its sessions")
