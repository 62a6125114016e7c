"""Which ledger on a server this is, and whether it has forgotten anything: what a replica keeps of it on its own disk.

A database that was put back to an earlier state has forgotten sends, and its replicas would make them again. So each
keeps the ledger's id, the server's, and the last record of each chain: of its own before the byte leaves, and of all
every few seconds. It looks for them at each connection. What is missing is noted in the ledger, and no replica sends
until somebody has accepted it.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sqlalchemy import Connection, select, text, tuple_, update

from worker.ledger.log import Head
from worker.ledger.mark import ACCEPT_HINT
from worker.ledger.places import sync_folder
from worker.ledger.rows import living
from worker.ledger.tables import action_log, attempts, meta
from worker.model.errors import LedgerUnwritable, NotSafe

FILE = "ledger.json"
_SERVER = text(
    "SELECT system_identifier || ', timeline ' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) "
    "FROM pg_control_system()"
)
_META = select(meta.c.ledger_id, meta.c.superseded, meta.c.refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a replica knows. ``chains``: number and hash of the last record in each that it sent by or has seen."""

    ledger_id: str
    server: str
    chains: Mapping[str, tuple[int, str]]


class Identity:
    """One replica's."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._kept = _read(self._file)
        self._met = False

    def meet(self, connection: Connection) -> None:
        """Looks whether the ledger behind a connection is the one that is known, and has forgotten nothing; what is
        amiss is noted in it, for all. Raises `NotSafe` at the first for another replica's folder."""
        with connection.begin():
            self._compare(connection)
        self._met = True

    def require(self, connection: Connection) -> None:
        """Raises `LedgerUnwritable` where nothing may be sent, within the transaction of a sending."""
        found = connection.execute(_META).one()
        if self._kept is None or self._kept.ledger_id != found.ledger_id:
            self._compare(connection)
            found = connection.execute(_META).one()
        if found.refused is not None:
            raise LedgerUnwritable(found.refused, hint=f"nothing is sent: {ACCEPT_HINT}")

    def reached(self, ends: Iterable[Head]) -> None:
        """Remembers the ends of chains, durably. Raises `LedgerUnwritable` where that cannot be done."""
        if self._kept is None:
            return
        chains = {**self._kept.chains, **{end.chain: (end.seq, end.hash) for end in ends}}
        if chains != self._kept.chains:
            self._keep(replace(self._kept, chains=chains))

    def _compare(self, connection: Connection) -> None:
        found, server = connection.execute(_META).one(), str(connection.execute(_SERVER).scalar_one())
        kept = self._kept
        if kept is None:
            self._require_company(connection)
        if kept is None or kept.ledger_id in (found.superseded or ()):
            self._keep(Kept(ledger_id=found.ledger_id, server=server, chains={}))
            return
        if kept.ledger_id == found.ledger_id:
            why = self._forgotten(connection, kept, server)
        elif self._met:
            why = f"it has the id {found.ledger_id}, and had {kept.ledger_id}"
        else:
            hint = (
                "name a `state_dir` that is this replica's alone; where this one was, the database may be the wrong one"
            )
            raise NotSafe(f"{self._file} is of another ledger, {kept.ledger_id}", hint=hint)
        if why is not None:
            said = f"the ledger was restored, or its server is another: {why}"
            connection.execute(update(meta).where(meta.c.refused.is_(None)).values(refused=said))

    def _require_company(self, connection: Connection) -> None:
        """Raises `NotSafe` where nobody can know whether the ledger has forgotten anything: this replica never saw it,
        no other one runs that found its own records, and something was sent."""
        since = connection.execute(select(meta.c.restored_at)).scalar_one()  # what was open then went to an operator
        sent = select(attempts.c.write).limit(1)
        if (
            living(connection)
            or connection.execute(sent if since is None else sent.where(attempts.c.at > since)).first() is None
        ):
            return
        raise NotSafe(
            f"{self._file} is missing, no other replica runs, and something was sent from the ledger: nobody can know "
            "whether it was restored since",
            hint="start first a replica with the `state_dir` that it had; where all are lost, run "
            "`campaign-worker ledger accept-restore --in-step`",
        )

    def _forgotten(self, connection: Connection, kept: Kept, server: str) -> str | None:
        """What shows that the ledger is not what it was; None where nothing does."""
        if kept.server != server:
            return f"its server is {server}, and was {kept.server}"
        ends = [(chain, seq, digest) for chain, (seq, digest) in kept.chains.items()]
        columns = (action_log.c.chain, action_log.c.seq, action_log.c.hash)
        there = {tuple(row) for row in connection.execute(select(*columns).where(tuple_(*columns).in_(ends)))}
        for end in ends:
            if end not in there:
                return f"record {end[1]} of {end[0] or 'the fleet'}, which a replica has seen, is not in it"
        return None

    def _keep(self, kept: Kept) -> None:
        fresh = self._file.with_name(self._file.name + ".new")
        try:
            with fresh.open("w", encoding="utf-8") as handle:
                json.dump(asdict(kept), handle)
                handle.flush()
                os.fsync(handle.fileno())
            fresh.replace(self._file)
            sync_folder(self._file.parent)
        except OSError as error:
            hint = "free some space, or make `state_dir` writable; nothing is sent meanwhile"
            raise LedgerUnwritable(f"{self._file} cannot be written: {error.strerror or error}", hint=hint) from error
        self._kept = kept


def _read(file: Path) -> Kept | None:
    try:
        found = json.loads(file.read_text("utf-8"))
        chains = {str(chain): (int(seq), str(digest)) for chain, (seq, digest) in found["chains"].items()}
        return Kept(ledger_id=str(found["ledger_id"]), server=str(found["server"]), chains=chains)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        hint = "it shows whether the database has forgotten anything; beside running replicas a new `state_dir` will do"
        raise NotSafe(f"{file} cannot be read: {error}", hint=hint) from error
