"""The lock of the one process that sends.

The kernel holds it (``flock``), so it is gone with the process however that ended, and a recycled pid fools nobody: the
pid in the file is for people, the lock is the truth. The file is never deleted, because a lock on a deleted file keeps
nobody out. Reading commands and operators' commands never take it.
"""

import fcntl
import json
import os
from datetime import datetime
from types import TracebackType
from typing import Self

from worker.ledger.codec import millis_text, time_of
from worker.ledger.places import FOLDER_HINT, LedgerPlace, no_folder
from worker.model.errors import NotSafe

TRIES_MAX = 100
"""Against lookers only, who hold the lock for microseconds; a sender that holds it ends the trying at once."""
TEXT_MAX = 4096


class SenderLock:
    """Held from `acquire` until `release`, the end of the process, or its death."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @classmethod
    def acquire(cls, place: LedgerPlace, *, now: datetime) -> Self:
        """Takes the lock, or raises `NotSafe` that names the holder's pid."""
        try:
            handle = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            missing = no_folder(place)
            if missing is not None:
                raise NotSafe(missing, hint=FOLDER_HINT) from error
            raise NotSafe(
                f"the lock {place.lock} cannot be opened: {error.strerror}", hint="make the ledger's folder writable"
            ) from error
        if not _exclusive(handle):
            pid = _written_pid(handle)
            os.close(handle)
            raise NotSafe(
                f"the ledger {place.file} is held by process {pid or '(just starting)'}",
                hint="stop that process first; two senders on one ledger would send everything twice",
            )
        _write(handle, {"pid": os.getpid(), "since": millis_text(now)})
        return cls(handle)

    def release(self) -> None:
        """Gives the lock back; a second time does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def holder(place: LedgerPlace) -> int | None:
    """The pid of the process that holds the lock, None where nobody does; 0 where it has not written its pid yet."""
    try:
        handle = os.open(place.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return None if _try(handle, fcntl.LOCK_SH) else _written_pid(handle)
    finally:
        os.close(handle)


def held_since(place: LedgerPlace) -> datetime | None:
    """When the process that holds the lock, or held it last, took it; None where that cannot be read."""
    try:
        return time_of(str(json.loads(place.lock.read_bytes()[:TEXT_MAX])["since"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _exclusive(handle: int) -> bool:
    """A shared lock that can be had shows that whoever refused the exclusive one was only looking."""
    for _ in range(TRIES_MAX):
        if _try(handle, fcntl.LOCK_EX):
            return True
        if not _try(handle, fcntl.LOCK_SH):
            return False
        fcntl.flock(handle, fcntl.LOCK_UN)
    return False


def _try(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _written_pid(handle: int) -> int:
    try:
        return int(json.loads(os.pread(handle, TEXT_MAX, 0))["pid"])
    except (OSError, ValueError, TypeError, KeyError):
        return 0


def _write(handle: int, said: dict[str, object]) -> None:
    """A full disk must not keep the lock from being taken: the text is for people only."""
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(said).encode(), 0)
    except OSError:
        return
