"""Who holds the ledger's lock, and what that process says of itself: for those who only look.

The kernel says whether it is held; the text in the file says by whom, since when, on which file and with which config.
It is for people: a full disk may have kept it from being written, so nothing that must hold leans on it. Takes nothing
that could keep a sender out, but for the microseconds of a look.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from datetime import datetime

from worker.ledger.codec import time_of
from worker.ledger.places import LedgerPlace, identity
from worker.model.errors import NotSafe
from worker.model.facts import Json

TEXT_MAX = 4096


def holder(place: LedgerPlace) -> int | None:
    """The pid of the process that holds the lock, None where nobody does; 0 where it has not written its pid yet."""
    try:
        handle = os.open(place.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return None if tried(handle, fcntl.LOCK_SH) else written_pid(handle)
    finally:
        os.close(handle)


def held_since(place: LedgerPlace) -> datetime | None:
    """When the process that holds the lock, or held it last, took it; None where that cannot be read."""
    try:
        return time_of(str(said_by_holder(place)["since"]))
    except (ValueError, KeyError):
        return None


def said_by_holder(place: LedgerPlace) -> Mapping[str, Json]:
    """What the process that holds the lock, or held it last, says of itself; nothing where that cannot be read."""
    try:
        said: Json = json.loads(place.lock.read_bytes()[:TEXT_MAX])
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def exchanged(place: LedgerPlace) -> NotSafe | None:
    """What is to be said where a process runs on another file than the one that lies here now: what is written here
    reaches nobody, and what is read here is not what that one does. None where all is well, or nothing is known."""
    pid, file, now = holder(place), said_by_holder(place).get("file"), identity(str(place.file))
    if pid is None or not isinstance(file, list) or now is None or file == list(now):
        return None
    return NotSafe(
        f"the ledger {place.file} is not the file that process {pid} runs on: it was replaced beneath it",
        hint=f"that process sends nothing more; stop it (kill {pid}), put the right file back, and start again",
    )


def tried(handle: int, kind: int) -> bool:
    """Whether this kind of lock could be had at once."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def written_pid(handle: int) -> int:
    """The pid in the lock's file; 0 where there is none."""
    try:
        return int(json.loads(os.pread(handle, TEXT_MAX, 0))["pid"])
    except (OSError, ValueError, TypeError, KeyError):
        return 0
