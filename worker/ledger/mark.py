"""The mark beside the ledger: what it had reached when it last recorded ``sending``, or an operator's word.

A ledger that was restored from a backup has forgotten sends, and would make them again; or a halt, and would send what
an operator forbade. The mark is what it cannot forget: replaced atomically after each commit of ``sending`` and before
the byte, and soon after an operator's word, it names the ledger, the last seq and its hash. A ledger that is behind its
mark, belongs to another, or lacks one of the two is not safe to send from. The mark never replaces the ledger: it holds
no decision.

The file has two slots in two blocks of the disk. A new mark overwrites the older slot, so that one sync is enough and
the newest one is never touched: wherever a write is cut off, the file says what it said before, or the new mark. Only a
file that has no such slots yet, or a mark that does not follow the one that stands there, is written as a new file.

A slot that is not whole is either a mark that was just being written, and then its ``sending`` stands in the ledger,
where it came first; or the file was damaged, and what is left may be the older of two. So the ledger has to show it.

A ledger on a server has no file beside it. So each replica keeps on its own disk the ledger's id, the server's, and the
last record of each chain: of its own before the byte leaves, and of all every few seconds. It looks for them at each
connection, and in each transaction for what it stored last itself of the partner. What is missing is noted in the
ledger, and no replica sends until somebody has accepted it.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, select, text, tuple_, update

from worker.ledger.database import Store
from worker.ledger.log import GENESIS, Head
from worker.ledger.places import LedgerPlace, left_to_its_owner, sync
from worker.ledger.rows import living
from worker.ledger.tables import REVISION, action_log, attempts, damaged, meta, revision_table, rule_memory, writes
from worker.model.errors import LedgerDamaged, LedgerUnwritable, NotSafe

ACCEPT_HINT = (
    "find out what happened to it; if this ledger is the one to go on with, run `campaign-worker ledger "
    "accept-restore`: open writes are then put before an operator, and nothing is taken for new without approval"
)
SLOTS = 2
SEQ_MOST = 2**63 - 1
"""No record has a greater number: it is the most that SQLite counts to."""
SLOT_BYTES = 4096
"""A block of the disk: what a power cut spoils of one slot is never part of the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The ledger's id, the last seq and its hash; by itself that of a ledger that has recorded nothing yet.

    ``alone``: the slot beside it is not whole, so a newer one may have been there.
    """

    ledger_id: str
    seq: int = 0
    hash: str = GENESIS
    alone: bool = field(default=False, compare=False)


def read_mark(place: LedgerPlace) -> Mark | None:
    """The mark, or None where there is none. Raises `NotSafe` where it cannot be read."""
    try:
        body = place.mark.read_bytes()
        newest = _newest(body)
        return newest[1] if newest is not None else _of_one_line(body)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        hint = "make it this user's, with chown" if isinstance(error, PermissionError) else ACCEPT_HINT
        raise NotSafe(f"the ledger's mark {place.mark} cannot be read: {error}", hint=hint) from error


def mark_beside(place: LedgerPlace) -> Mark | None:
    """The mark beside the ledger; None where it is missing or damaged."""
    try:
        return read_mark(place)
    except NotSafe:
        return None


def write_mark(place: LedgerPlace, mark: Mark, *, anew: bool = False) -> None:
    """Replaces the mark durably: whole, or not at all. ``anew``: in both slots, for what is no ``sending``: a slot that
    is not whole stands for one."""
    try:
        if anew or not _written_in_place(place, mark):
            _write_anew(place.mark, _text(mark) * SLOTS)
    except OSError as error:
        why = f"the ledger's mark {place.mark} cannot be written: {error.strerror or error}"
        hint = "free some space, or make the ledger's folder writable; nothing is sent meanwhile"
        raise LedgerUnwritable(why, hint=hint) from error


def _newest(body: bytes) -> tuple[int, Mark] | None:
    """The newest whole slot's number, and its mark; None where there is none."""
    marks = [_whole(body[at : at + SLOT_BYTES]) for at in range(0, SLOTS * SLOT_BYTES, SLOT_BYTES)]
    slots = [(number, mark) for number, mark in enumerate(marks) if mark is not None]
    if len(slots) == 1:
        return slots[0][0], replace(slots[0][1], alone=True)
    return max(slots, key=lambda slot: slot[1].seq, default=None)


def _whole(slot: bytes) -> Mark | None:
    """The mark in a slot; None where it was not written whole: nothing was sent by it."""
    try:
        found = json.loads(slot.rstrip())
        mark = _mark_of(found)
        return mark if found["check"] == _check(mark) else None
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _of_one_line(body: bytes) -> Mark:
    """The mark as a program before the slots wrote it."""
    found = json.loads(body)
    if "check" in found:
        raise ValueError("it is damaged")
    return _mark_of(found)


def _mark_of(found: Mapping[str, Any]) -> Mark:
    """The mark that a line says. Raises `ValueError`, `TypeError` or `KeyError` where it says none."""
    seq = int(found["seq"])
    if not 0 <= seq <= SEQ_MOST:
        raise ValueError(f"no record has the number {seq}")
    return Mark(ledger_id=str(found["ledger"]), seq=seq, hash=str(found["hash"]))


def _written_in_place(place: LedgerPlace, mark: Mark) -> bool:
    """Overwrites the older slot, and leaves the newest as it is. False where the file does not allow that."""
    try:
        file = os.open(place.mark, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, PermissionError):
        return False  # one that another user made, as `sudo` does: its folder may be ours all the same
    try:
        body = os.pread(file, SLOTS * SLOT_BYTES + 1, 0)
        newest = _newest(body)
        if newest is None or newest[1].ledger_id != mark.ledger_id or newest[1].seq >= mark.seq:
            return False
        if len(body) != SLOTS * SLOT_BYTES:
            return False  # one that was cut off: the slot that is left would not be whole with a gap behind it
        text, older = _text(mark), SLOTS - 1 - newest[0]
        if os.pwrite(file, text, older * SLOT_BYTES) != len(text):
            return False  # what was cut off has no check, and the other slot still stands
        try:
            _sync(file)
        except OSError:
            return False  # reads show it from now on, and the disk may not have it: the other slot must not be next
    finally:
        os.close(file)
    return True


def _write_anew(file: Path, body: bytes) -> None:
    """A new file in the place of whatever is there."""
    fresh = file.with_name(file.name + ".new")
    with fresh.open("wb") as handle:
        left_to_its_owner(fresh)
        handle.write(body)
        handle.flush()
        os.fsync(handle.fileno())
    fresh.replace(file)
    sync(file.parent)


def _text(mark: Mark) -> bytes:
    """A slot: a line that people can read, as long as a block of a disk."""
    body = {"ledger": mark.ledger_id, "seq": mark.seq, "hash": mark.hash, "check": _check(mark)}
    return json.dumps(body).encode().ljust(SLOT_BYTES - 1) + b"\n"


def _check(mark: Mark) -> str:
    """Shows that a slot was written to its end."""
    return hashlib.sha256(f"{mark.ledger_id} {mark.seq} {mark.hash}".encode()).hexdigest()[:16]


_sync = getattr(os, "fdatasync", os.fsync)  # the file never changes its length, so its data is all there is to sync


def lost(place: LedgerPlace) -> NotSafe:
    """The error for a mark whose ledger is gone: what it remembered of writes is not known any more."""
    return NotSafe(f"the ledger {place.file} was lost: only its mark {place.mark.name} is there", hint=ACCEPT_HINT)


# How the ledger and its mark stand to each other: asked by a start, by a rehearsal, and by those who only look.
#
# A start refuses a ledger that does not belong to its mark (see ``mark``). Whoever only reads gets the same answer in
# the same words, so that nobody is told that all is well with a ledger that no daemon could be started on. Changes
# nothing.

_ID = select(meta.c.ledger_id)
_HERE = (action_log.c.chain == "", action_log.c.seq == bindparam("at"))  # a ledger with a mark beside it has one chain
_HASH_AT = select(action_log.c.hash).where(*_HERE).scalar_subquery()
_ID_AND_HASH = select(meta.c.ledger_id, _HASH_AT.label("hash"))


def refusal(store: Store) -> NotSafe | None:
    """Why a start would refuse the ledger as it stands to its mark, or as its replicas found it; None where it would
    not, and for one in memory.

    Holds beside a running daemon: the mark is read first, and the ledger may be ahead of it, never behind. Raises
    `LedgerUnwritable` where the ledger cannot be read at all.
    """
    place = store.place
    if place is None:
        said = next((why for (why,) in store.rows(select(meta.c.refused)) if why is not None), None)
        return None if said is None else NotSafe(said, hint=ACCEPT_HINT)
    try:
        mark = read_mark(place)
        with store.reading() as connection:
            compared(connection, place, mark)
    except NotSafe as error:
        if isinstance(error, LedgerUnwritable) and not isinstance(error, LedgerDamaged):
            raise
        return error
    return None


def marked_to(store: Store) -> Head:
    """How far the ledger's own mark says that it had come; 0 where there is none that says so (see `refusal`)."""
    mark = None if store.place is None else mark_beside(store.place)
    own = mark is not None and mark.ledger_id in {found for (found,) in store.rows(_ID)}
    return Head(seq=mark.seq, hash=mark.hash) if mark is not None and own else Head()


def compared(connection: Connection, place: LedgerPlace, mark: Mark | None) -> str:
    """The ledger's id, where ledger and mark belong together. A blank ledger without a mark is a new one, whose first
    start was cut short. Raises `NotSafe`; changes nothing."""
    found = connection.execute(_ID_AND_HASH, {"at": 0 if mark is None else mark.seq}).first()
    if found is None:
        raise damaged("it says nothing of itself", f"the ledger {place.file}")
    why = None
    if mark is None:
        if not _blank(connection):
            why = f"the ledger {place.file} was restored or lost its mark: {place.mark} is missing"
    elif mark.ledger_id != found.ledger_id:
        why = f"the ledger {place.file} was restored: {place.mark} belongs to another ledger"
    elif mark.hash != (found.hash if mark.seq else GENESIS):
        why = f"the ledger {place.file} was restored or lost records: it is not what had reached seq {mark.seq}"
    elif mark.alone and not _sent_after(connection, mark.seq):
        why = (
            f"the ledger's mark {place.mark} is damaged: what is left of it says seq {mark.seq}, and {place.file.name} "
            "shows no sending after that, so one may be lost"
        )
    if why is not None:
        raise NotSafe(why, hint=ACCEPT_HINT)
    return str(found.ledger_id)


def _sent_after(connection: Connection, seq: int) -> bool:
    """Asked of a mark that has lost its other half, and of no other: it walks what was recorded since."""
    query = select(action_log.c.seq).where(action_log.c.chain == "", action_log.c.seq > seq)
    return connection.execute(query.where(action_log.c.kind == "sending").limit(1)).first() is not None


def _blank(connection: Connection) -> bool:
    """Nothing was ever recorded or remembered."""
    tables = (action_log, writes, rule_memory)
    return not any(connection.execute(select(1).select_from(table).limit(1)).first() for table in tables)


FILE = "ledger.json"
_SERVER = text(
    "SELECT system_identifier || ', timeline ' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) "
    "FROM pg_control_system()"
)
_SERVICE = text("SELECT body FROM daemon_status")
_REVISION = select(revision_table.c.version_num).scalar_subquery().label("revision")
_META = select(meta.c.ledger_id, meta.c.superseded, meta.c.refused, _REVISION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a replica knows. ``chains``: the last record in each that it sent by or has seen."""

    ledger_id: str
    server: str
    chains: Mapping[str, Head]


class Identity:
    """One replica's. ``service``: the one that it works on."""

    def __init__(self, folder: Path, service: str | None) -> None:
        self._file, self._service = folder / FILE, service
        self._kept = _read(self._file)
        self._met = False
        self._other = ""
        """The id of another ledger that stands in the place of the one that is known: until somebody accepts it."""
        self._left: dict[str, Head] = {}

    def meet(self, connection: Connection) -> None:
        """Looks whether the ledger behind a connection is the one that is known, and has forgotten nothing; what is
        amiss is noted in it, for all. Raises `NotSafe` at the first for another replica's folder."""
        with connection.begin():
            self._compare(connection)
        self._met = True

    def require(self, connection: Connection) -> None:
        """Raises `LedgerUnwritable` where nothing may be sent, within the transaction of a sending."""
        found = connection.execute(_META).one()
        if self._kept is None or self._kept.ledger_id != found.ledger_id or found.revision != REVISION:
            self._compare(connection)
            found = connection.execute(_META).one()
            if found.refused is not None:  # what was noted ends with this transaction, and is noted anew at the next
                connection.invalidate()
        if found.refused is not None:
            raise LedgerUnwritable(found.refused, hint=f"nothing is sent: {ACCEPT_HINT}")

    def require_whole(self, connection: Connection, ends: Collection[Head]) -> None:
        """Raises `LedgerUnwritable` where a chain lacks what this process `left` in it: the ledger was put back beneath
        its connection. The next one is met, and what is missing is noted then."""
        known = [self._left.get(end.chain, end) for end in ends]
        moved_on = [one for one in known if one not in ends]
        if moved_on and (why := _missing(connection, moved_on)) is not None:
            self.reached(moved_on)
            connection.invalidate()
            raise LedgerUnwritable(f"the ledger was restored: {why}", hint="nothing is stored; it is looked at anew")

    def left(self, ends: Iterable[Head]) -> None:
        """Remembers, as long as the connection lasts, how this process left the chains of its partners."""
        self._left.update({end.chain: end for end in ends if end.chain and end.seq})

    def reached(self, ends: Iterable[Head]) -> None:
        """Remembers the ends of chains, durably, where they are further than what is known. Raises `LedgerUnwritable`
        where that cannot be done."""
        if self._kept is None:
            return
        known = self._kept.chains
        if further := {end.chain: end for end in ends if end.chain not in known or end.seq > known[end.chain].seq}:
            self._keep(replace(self._kept, chains={**known, **further}))

    def _compare(self, connection: Connection) -> None:
        self._left = {}
        found, server = connection.execute(_META).one(), str(connection.execute(_SERVER).scalar_one())
        kept = self._kept
        if found.revision != REVISION:
            said = f"the ledger was upgraded meanwhile: it has revision {found.revision}, this program needs {REVISION}"
            raise LedgerUnwritable(said, hint="nothing is sent; put the program that upgraded it in this one's place")
        if kept is None:
            self._require_company(connection)
        if kept is None or {kept.ledger_id, self._other}.intersection(found.superseded or ()):
            now = json.loads(connection.execute(_SERVICE).scalar() or "{}").get("service")
            if self._met and self._service is not None and now not in (None, self._service):
                connection.invalidate()
                said = f"the ledger was taken to the service {now} meanwhile, and this replica works on {self._service}"
                raise LedgerUnwritable(said, hint="nothing is sent; stop it, and write the new address into its config")
            self._keep(Kept(ledger_id=found.ledger_id, server=server, chains={}))
            return
        if kept.ledger_id == found.ledger_id:
            why = _missing(connection, kept.chains.values())
            if kept.server != server:
                why = f"its server is {server}, and was {kept.server}"
        elif self._met:
            self._other = found.ledger_id
            why = f"it has the id {found.ledger_id}, and had {kept.ledger_id}"
        else:
            hint = "name a `state_dir` of this replica's own; where this one is, the database may be the wrong one"
            raise NotSafe(f"{self._file} is of another ledger, {kept.ledger_id}", hint=hint)
        if why is not None:
            said = f"the ledger was restored, or its server is another: {why}"
            connection.execute(update(meta).where(meta.c.refused.is_(None)).values(refused=said))

    def _require_company(self, connection: Connection) -> None:
        """Raises `NotSafe` where nobody can know whether the ledger has forgotten anything: this replica never saw it,
        no other one runs that found its own records, and something was sent."""
        since = connection.execute(select(meta.c.restored_at)).scalar_one()  # what was open then went to an operator
        sent = select(attempts.c.write).limit(1)
        asked = sent if since is None else sent.where(attempts.c.at > since)
        if not living(connection) and connection.execute(asked).first() is not None:
            raise NotSafe(
                f"{self._file} is missing, no other replica runs, and something was sent from the ledger: nobody can "
                "know whether it was restored since",
                hint="start first a replica with the `state_dir` that it had; where all are lost, run "
                "`campaign-worker ledger accept-restore --in-step`",
            )

    def _keep(self, kept: Kept) -> None:
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # somebody may have taken it away
            chains = {chain: (end.seq, end.hash) for chain, end in kept.chains.items()}
            _write_anew(self._file, json.dumps({**asdict(kept), "chains": chains}).encode())
        except OSError as error:
            hint = "free some space, or make `state_dir` writable; nothing is sent meanwhile"
            raise LedgerUnwritable(f"{self._file} cannot be written: {error.strerror or error}", hint=hint) from error
        self._kept = kept


def _missing(connection: Connection, ends: Iterable[Head]) -> str | None:
    """What of these ends of chains the log lacks; None where it has them all."""
    columns = (action_log.c.chain, action_log.c.seq, action_log.c.hash)
    wanted = [(end.chain, end.seq, end.hash) for end in ends]
    there = {tuple(row) for row in connection.execute(select(*columns).where(tuple_(*columns).in_(wanted)))}
    said = "record {1} of {0}, which a replica has seen, is not in it"
    return next((said.format(one[0] or "the fleet", one[1]) for one in wanted if one not in there), None)


def _read(file: Path) -> Kept | None:
    try:
        found = json.loads(file.read_text("utf-8"))
        ends = found["chains"].items()
        chains = {chain: Head(seq=int(seq), hash=str(digest), chain=chain) for chain, (seq, digest) in ends}
        return Kept(ledger_id=str(found["ledger_id"]), server=str(found["server"]), chains=chains)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        hint = "it shows whether the database has forgotten anything; beside running replicas a new `state_dir` will do"
        raise NotSafe(f"{file} cannot be read: {error}", hint=hint) from error
