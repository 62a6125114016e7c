"""The mark beside the ledger: what it had reached when it last recorded ``sending``.

A ledger that was restored from a backup has forgotten sends, and would make them again. The mark is what it cannot
forget: replaced atomically after each commit of ``sending`` and before the byte, it names the ledger, the last seq and
its hash. A ledger that is behind its mark, belongs to another, or lacks one of the two is not safe to send from. The
mark never replaces the ledger: it holds no decision.
"""

import json
import os
from dataclasses import dataclass

from worker.ledger.places import LedgerPlace, sync_folder
from worker.model.errors import LedgerUnwritable, NotSafe

ACCEPT_HINT = (
    "find out what happened to the file; if this ledger is the one to go on with, run `campaign-worker ledger "
    "accept-restore`: open writes are then put before a person, and nothing is taken for new without approval"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The ledger's id, the last seq and its hash (`chain.GENESIS` for seq 0)."""

    ledger_id: str
    seq: int
    hash: str


def read_mark(place: LedgerPlace) -> Mark | None:
    """The mark, or None where there is none. Raises `NotSafe` where it cannot be read."""
    try:
        body = json.loads(place.mark.read_text("utf-8"))
        return Mark(ledger_id=str(body["ledger"]), seq=int(body["seq"]), hash=str(body["hash"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise NotSafe(f"the ledger's mark {place.mark} cannot be read: {error}", hint=ACCEPT_HINT) from error


def write_mark(place: LedgerPlace, mark: Mark) -> None:
    """Replaces the mark durably: whole, or not at all."""
    text = json.dumps({"ledger": mark.ledger_id, "seq": mark.seq, "hash": mark.hash}) + "\n"
    fresh = place.mark.with_name(place.mark.name + ".new")
    try:
        with fresh.open("w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        fresh.replace(place.mark)
        sync_folder(place.mark.parent)
    except OSError as error:
        raise LedgerUnwritable(
            f"the ledger's mark {place.mark} cannot be written: {error.strerror or error}",
            hint="free some space, or make the ledger's folder writable; nothing is sent meanwhile",
        ) from error


def lost(place: LedgerPlace) -> NotSafe:
    """The error for a mark whose ledger is gone: what it remembered of writes is not known any more."""
    return NotSafe(f"the ledger {place.file} was lost: only its mark {place.mark.name} is there", hint=ACCEPT_HINT)


def compare(place: LedgerPlace, mark: Mark | None, *, ledger_id: str, hash_at_mark: str | None, blank: bool) -> None:
    """Raises `NotSafe` unless ledger and mark belong together.

    ``hash_at_mark``: the ledger's hash at the mark's seq, None where it has no such record. ``blank``: the ledger holds
    nothing at all; without a mark it is a new one whose first start was cut short.
    """
    if mark is None:
        if blank:
            return
        raise NotSafe(
            f"the ledger {place.file} was restored or lost its mark: {place.mark} is missing", hint=ACCEPT_HINT
        )
    if mark.ledger_id != ledger_id:
        raise NotSafe(f"the ledger {place.file} was restored: {place.mark} belongs to another ledger", hint=ACCEPT_HINT)
    if hash_at_mark != mark.hash:
        raise NotSafe(
            f"the ledger {place.file} was restored or lost records: it is not what had reached seq {mark.seq}",
            hint=ACCEPT_HINT,
        )
