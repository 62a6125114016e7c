"""The lock of the one process that sends.

The kernel holds it (``flock``), so it is gone with the process however that ended, and a recycled pid fools nobody: the
pid in the file is for people, the lock is the truth. The file is never deleted, because a lock on a deleted file keeps
nobody out. Reading commands and operators' commands never take it: they look at it (see ``holding``).
"""

import fcntl
import json
import os
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Self

from worker.ledger.codec import millis_text
from worker.ledger.holding import tried, written_pid
from worker.ledger.places import FOLDER_HINT, LedgerPlace, identity, no_folder
from worker.model.errors import NotSafe
from worker.model.facts import Json

TRIES_MAX = 100
"""Against lookers only, who hold the lock for microseconds; a sender that holds it ends the trying at once."""


class SenderLock:
    """Held from `acquire` until `release`, the end of the process, or its death."""

    def __init__(self, handle: int, said: dict[str, Json]) -> None:
        self._handle = handle
        self._said = said

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
            pid = written_pid(handle)
            os.close(handle)
            raise NotSafe(
                f"the ledger {place.file} is held by process {pid or '(just starting)'}",
                hint="stop that process first; two senders on one ledger would send everything twice",
            )
        said: dict[str, Json] = {"pid": os.getpid(), "since": millis_text(now)}
        _write(handle, said)
        return cls(handle, said)

    def note(self, place: LedgerPlace, more: Mapping[str, Json]) -> None:
        """Says besides which file the holder has opened, and what else those who look should know of it. Not in the
        ledger: that may be another file by now, and a full disk must not keep anybody from being told."""
        file = identity(str(place.file))
        self._said |= {**more, "file": None if file is None else list(file)}
        _write(self._handle, self._said)

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


def _exclusive(handle: int) -> bool:
    """A shared lock that can be had shows that whoever refused the exclusive one was only looking."""
    for _ in range(TRIES_MAX):
        if tried(handle, fcntl.LOCK_EX):
            return True
        if not tried(handle, fcntl.LOCK_SH):
            return False
        fcntl.flock(handle, fcntl.LOCK_UN)
    return False


def _write(handle: int, said: Mapping[str, Json]) -> None:
    """A full disk must not keep the lock from being taken: the text is for people only."""
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(said).encode(), 0)
    except OSError:
        return
