"""Which replica of a fleet a partner belongs to: rows that say who lives, and whose each partner is.

Nothing here makes a write safe: that is the row of the open attempt, the state in which a move finds its write, and the
last byte. This shares out the work. A replica says each second that it lives, by the server's clock; who was not heard
of for `LEASE` has lost its partners to whoever takes them first. Each change of owners counts up the partner's epoch,
and what is stored of a partner is stored only under the epoch in which it was begun (see `SqlLedger`).
"""

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from worker import __version__
from worker.ledger.database import Store
from worker.ledger.log import OF_ALL, Journal, recording
from worker.ledger.reading import server_store
from worker.ledger.rows import living, server_time
from worker.ledger.tables import partners, replicas, time_of, time_text
from worker.model.commits import Record
from worker.model.errors import OwnershipLost
from worker.model.exchange import LEASE, Owner, Shares, Taken
from worker.model.facts import Json, PartnerId

KEPT = timedelta(minutes=10)
"""The row of a replica that is gone is shown for so long."""
_P, _R = partners.c, replicas.c
# Made once: each replica asks these every second.
_SAID = select(func.clock_timestamp().label("now"), _R.id, _R.state, _R.beat)
_OF_REPLICA = update(replicas).where(_R.id == bindparam("of_replica"))
_DROP_SILENT = delete(replicas).where(_R.beat < bindparam("silent_since"))
_OWNERS = select(_P.partner, _P.owner, _P.epoch, _P.record.is_not(None).label("known")).where(_P.epoch > 0)
_OF_PARTNER = update(partners).where(_P.partner == bindparam("of_partner"))


class Membership:
    """One process's place in the fleet. ``replica``: its id, a new one each time that it had been given up.
    ``epochs``: the partners that are its own, and since which change of owners."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.replica = ""
        self.epochs: Mapping[PartnerId, int] = {}

    def beat(self, state: str) -> Shares:
        """Says that this replica lives and how it is, and looks who else runs, and who says the same. One that was not
        heard of for too long, or was never, goes on as another, which owns nothing."""
        replica = self.replica
        with self._store.writing() as connection:
            said = connection.execute(_SAID).all()
            now = said[0].now if said else server_time(connection)
            alive = {row.id: row.state for row in said if row.beat > now - LEASE}
            if len(said) > len(alive):
                connection.execute(_DROP_SILENT, {"silent_since": now - KEPT})
            if replica in alive:
                connection.execute(_OF_REPLICA, {"of_replica": replica, "beat": now, "state": state})
            else:
                replica = _joined(connection, now, state)
            alive[replica] = state
            running = frozenset(one for one, how in alive.items() if how.startswith("running"))
            alike = frozenset(one for one in running if alive[one] == state)
            rows = connection.execute(_OWNERS)
            owners = {PartnerId(name): Owner(replica=of, epoch=epoch, known=known) for name, of, epoch, known in rows}
            standing = Shares(at=now, alive=running, alike=alike, owners=owners)
        self.replica = replica  # only now: whoever hears no answer joins again, and is told that it was given up
        self.epochs = {one: owner.epoch for one, owner in owners.items() if owner.replica == self.replica}
        return standing

    def take(self, partner: PartnerId, seen: Owner) -> Taken | None:
        """Makes a partner this replica's own, where it still belongs to whom it was seen with, and nobody has heard of
        that one since, or it is this one itself, which had no answer when it took it; None where not."""
        with recording(self._store, [partner], self.replica) as (connection, journal):
            now = server_time(connection)
            alive = living(connection, now)
            others_own = seen.replica in alive and seen.replica != self.replica
            if journal.owners[partner] != seen or self.replica not in alive or others_own:
                return None
            here = _P.partner == partner
            own = update(partners).where(here).values(owner=self.replica, epoch=seen.epoch + 1, owned_since=now)
            connection.execute(own)
            pace = connection.execute(select(_P.pace).where(here)).scalar() or {}
            if seen.replica not in (None, self.replica):
                why = f"replica {seen.replica} was not heard of for {LEASE.total_seconds():g} s"
                journal.add([Record(at=now, kind="takeover", reason="takeover", why=why, partner=partner)])
        self.epochs = {**self.epochs, partner: seen.epoch + 1}
        ago = now - time_of(pace["at"]) if "at" in pace else timedelta(0)
        return Taken(goodbye=seen.replica is None, pace=pace, ago=max(timedelta(0), ago))  # the clock may be set back

    def release(self, partner: PartnerId, pace: Mapping[str, Json]) -> None:
        """Gives a partner back, with what the next one must know of its pace. Nothing of it may be under way."""
        self.save_pace(partner, pace, owner=None)
        self.epochs = {one: epoch for one, epoch in self.epochs.items() if one != partner}

    def save_pace(self, partner: PartnerId, pace: Mapping[str, Json], **also: None) -> None:
        """Stores what the service asked of the partner's pace, for whoever owns it next. Its times count from now."""
        with self.recording([partner]) as (connection, _):
            stored = {**pace, "at": time_text(server_time(connection))}
            connection.execute(_OF_PARTNER, {"of_partner": partner, "pace": stored, **also})

    @contextmanager
    def recording(
        self, of: Iterable[str | None], begin: Callable[[Connection], None] | None = None
    ) -> Iterator[tuple[Connection, Journal]]:
        """A transaction of partners that are this replica's own. Raises `OwnershipLost` where one is not."""
        with recording(self._store, of, self.replica, begin) as (connection, journal):
            for partner, owner in journal.owners.items():
                own = Owner(replica=self.replica, epoch=self.epochs.get(PartnerId(partner), -1))
                if partner != OF_ALL and owner != own:
                    why = f"{partner} is not this replica's any more: it belongs to {owner.replica or 'nobody'}"
                    raise OwnershipLost(why, hint="nothing was stored; its owner goes on with it")
            yield connection, journal

    def say(self, connection: Connection, body: Mapping[str, Json]) -> None:
        """What this replica says of itself, in place of what it said before, within the caller's transaction."""
        connection.execute(_OF_REPLICA, {"of_replica": self.replica, "body": dict(body)})

    def leave(self) -> None:
        """Says goodbye; what is not given back by then is anybody's at once."""
        with self._store.writing() as connection:
            connection.execute(delete(replicas).where(_R.id == self.replica))
        self.epochs = {}


def _joined(connection: Connection, now: datetime, state: str) -> str:
    """The id of a replica that begins to live."""
    replica = str(connection.execute(select(func.gen_random_uuid())).scalar_one())
    row = {"id": replica, "host": socket.gethostname(), "pid": os.getpid(), "version": __version__}
    connection.execute(insert(replicas).values(**row, state=state, since=now, beat=now))
    return replica


def server_time_of(url: str) -> datetime:
    """Now, by the clock of a ledger's server, whether or not the ledger was made."""
    with closing(server_store(url)) as store, store.reading() as connection:
        return server_time(connection)
