"""Who holds the ledger's lock, and what that process says of itself: for those who only look.

The kernel says whether it is held; the text in the file says by whom, since when, on which file and with which config.
It is for people: a full disk may have kept it from being written, so nothing that must hold leans on it. Takes nothing
that could keep a sender out, but for the microseconds of a look.
"""

import fcntl
import json
import os
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from worker.ledger.codec import time_of
from worker.ledger.places import LedgerPlace, identity, linked
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


def torn(place: LedgerPlace) -> NotSafe | None:
    """The same where only what SQLite keeps beside the file is not what that process has open. Then nothing can be read
    here either; when that process ends, it puts what it knows into the file, unless somebody wrote here meanwhile."""
    pid, said = holder(place), said_by_holder(place)
    for name, path in (("wal", place.wal), ("shm", place.shm)):
        known, now = said.get(name), identity(str(path))
        if pid is not None and isinstance(known, list) and known != (None if now is None else list(now)):
            return NotSafe(
                f"{path} was removed or replaced beneath process {pid}, which runs on the ledger {place.file.name}",
                hint=f"that process sends nothing more; stop it (kill {pid}), and start it again",
            )
    return None


def unseen(place: LedgerPlace) -> int | None:
    """The pid of a process that runs on this very file though nobody holds the lock beside it; 0 where the pid is not
    to be had, None where there is no such process. For a process that has not opened the ledger: see ``places``."""
    pid = pid_in_the_kernel(place)
    if sys.platform != "linux" or pid == os.getpid():
        return pid or None  # the page of that very process may ask
    try:
        handle = os.open(place.file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        free = tried(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)
    return None if free or holder(place) is not None else pid


def unread(place: LedgerPlace) -> NotSafe | None:
    """Why what is written here might not be what the process that sends reads, or read by the next one; None where it
    is. For whoever has not opened the ledger yet."""
    if holder(place) is not None:
        return exchanged(place) or torn(place)
    pid = unseen(place)
    if pid is None:
        return linked(place)
    return NotSafe(
        f"process {pid or '(of another container)'} runs on the ledger {place.file}, and its lock {place.lock.name} "
        "was removed or replaced, or it came by another path: what is written here may not reach it",
        hint=f"stop it ({f'kill {pid}' if pid else f'find it with fuser {place.file}'}), and start it again",
    )


def pid_in_the_kernel(place: LedgerPlace) -> int:
    """Who holds the lock of the ledger's own file, for people; 0 where the kernel does not say."""
    try:
        locks = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
        inode = str(place.file.stat().st_ino)
        return next(int(one[4]) for one in locks if one[1] == "FLOCK" and one[5].rpartition(":")[2] == inode)
    except (OSError, ValueError, IndexError, StopIteration):
        return 0


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
