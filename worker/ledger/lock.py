"""The lock of the one process that sends.

The kernel holds it (``flock``), so it is gone with the process however that ended, and a recycled pid fools nobody: the
pid in the file is for people, the lock is the truth. The file is never deleted, because a lock on a deleted file keeps
nobody out; and where somebody else deletes it, or comes to the ledger by another name, the ledger's own file is locked
as well. Reading commands and operators' commands never take it: they look at it (see ``holding``).
"""

import fcntl
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Self

from worker.ledger.database import on_failure
from worker.ledger.places import (
    FOLDER_HINT,
    LedgerPlace,
    identity,
    left_to_its_owner,
    linked,
    no_folder,
    pid_in_the_kernel,
    tried,
    written_pid,
)
from worker.ledger.tables import millis_text
from worker.model.errors import NotSafe
from worker.model.facts import Json

STOP_HINT = "stop that process first; two senders on one ledger would send everything twice"
TRIES_MAX = 100
"""Against lookers only, who hold the lock for microseconds; a sender that holds it ends the trying at once."""


class SenderLock:
    """Held from `acquire` until `release`, the end of the process, or its death."""

    def __init__(self, handle: int, claimed: int, said: dict[str, Json]) -> None:
        self._handle = handle
        self._claimed = claimed
        self._said = said

    @property
    def identity(self) -> tuple[int, int]:
        """Which file the lock is on, whatever lies at its path by now."""
        found = os.fstat(self._handle)
        return found.st_dev, found.st_ino

    @classmethod
    def acquire(cls, place: LedgerPlace, *, now: datetime) -> Self:
        """Takes the lock, or raises `NotSafe` that names the holder's pid."""
        try:
            new = not place.lock.exists()
            handle = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            missing = no_folder(place)
            if missing is not None:
                raise NotSafe(missing, hint=FOLDER_HINT) from error
            hint = "make it, and the ledger's folder, writable for this user"
            raise NotSafe(f"the lock {place.lock} cannot be opened: {error.strerror}", hint=hint) from error
        with on_failure(lambda: os.close(handle)):
            if new:
                left_to_its_owner(place.lock)
            if not _exclusive(handle):
                why = f"the ledger {place.file} is held by process {written_pid(place) or '(just starting)'}"
                raise NotSafe(why, hint=STOP_HINT)
            claimed = _claimed(place)
        said: dict[str, Json] = {"pid": os.getpid(), "since": millis_text(now)}
        _write(handle, said)
        return cls(handle, claimed, said)

    def note(self, place: LedgerPlace, more: Mapping[str, Json]) -> None:
        """Says besides which files the holder has opened, and what else those who look should know of it. Not in the
        ledger: that may be another file by now, and a full disk must not keep anybody from being told. A ledger that
        was only made after the lock is locked now. Raises `NotSafe` where somebody else has it by another name."""
        if self._claimed < 0:
            self._claimed = _claimed(place)
        for name, path in (("file", place.file), ("wal", place.wal), ("shm", place.shm)):
            found = identity(str(path))
            more = {**more, name: None if found is None else list(found)}
        self._said |= more
        _write(self._handle, self._said)

    def release(self) -> None:
        """Gives the lock back; a second time does nothing. After the ledger was closed: SQLite's own locks of this
        process end with the first handle on the file that is closed."""
        for handle in (self._claimed, self._handle):
            if handle >= 0:
                os.close(handle)
        self._claimed = self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _claimed(place: LedgerPlace) -> int:
    """A handle that holds the ledger's own file, by whatever name; -1 where there is none yet. Only where ``flock`` and
    the locks of SQLite know nothing of each other, as on Linux. Raises `NotSafe` where another process has it."""
    several = linked(place)
    if several is not None:
        raise several
    if sys.platform != "linux":
        return -1
    try:
        handle = os.open(place.file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1  # there is none, or opening it as a ledger says what is wrong
    if _exclusive(handle):
        return handle
    pid = pid_in_the_kernel(place)
    os.close(handle)
    raise NotSafe(
        f"the ledger {place.file} is held by process {pid or '(of another container)'}, whose lock {place.lock.name} "
        "was removed, or which came by another path",
        hint=STOP_HINT,
    )


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
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(said).encode(), 0)
