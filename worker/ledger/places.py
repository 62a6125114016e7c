"""Where a ledger lives: its file, the mark and the lock beside it, and making a folder's entries durable.

Only SQLite files are ledgers. The paths are made from the URL here and nowhere else, so that the command line, the
daemon and the tests agree on them. Nothing here opens the ledger's file itself: closing a second handle on it would
drop the locks that SQLite holds for this process. A link in the path is followed here, so that one file has one mark
and one lock, whatever name it came by; a file with two names of its own (hard links) is refused, because SQLite keeps
a write-ahead log for each name.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from worker.model.errors import NotSafe, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlace:
    """The files of one ledger."""

    file: Path
    mark: Path = field(init=False)
    """What the ledger had reached when it last recorded ``sending``."""
    lock: Path = field(init=False)
    """What the sending process holds."""
    wal: Path = field(init=False)
    """What SQLite has committed and not yet moved into the file."""
    shm: Path = field(init=False)
    """What the processes that have the file open know of its write-ahead log."""

    def __post_init__(self) -> None:
        for name, end in (("mark", ".mark"), ("lock", ".lock"), ("wal", "-wal"), ("shm", "-shm")):
            object.__setattr__(self, name, self.file.with_name(self.file.name + end))


def place_of(url: str, folder: Path | None = None) -> LedgerPlace:
    """The files of a ledger URL; a relative path counts from ``folder`` (default: the current one)."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise UsageError("ledger: this is not a URL", hint="write sqlite:///worker.db") from error
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        backend = parsed.get_backend_name()
        raise UsageError(
            f"ledger: {backend} is not supported yet, only SQLite is",
            hint="write sqlite:///worker.db; one daemon writes, so a file beside it is enough",
        )
    if not parsed.database or parsed.database == ":memory:" or parsed.query or parsed.host:
        raise UsageError(
            "ledger: the URL must name a file and nothing else: what is not on disk cannot keep a write from repeating",
            hint="write sqlite:///worker.db, or sqlite:////var/lib/worker.db for an absolute path",
        )
    path = (folder or Path()).joinpath(parsed.database)
    try:
        return LedgerPlace(file=path.resolve())
    except (OSError, RuntimeError) as error:
        raise UsageError(f"ledger: {path} leads nowhere: {error}", hint="correct the link, or name the file") from error


def identity(file: str) -> tuple[int, int] | None:
    """Which file a name leads to, None where it leads to none: a ledger that was replaced is another one."""
    try:
        found = os.stat(file)  # noqa: PTH116 - at every commit: a path object takes ten times as long
    except OSError:
        return None
    return found.st_dev, found.st_ino


def linked(place: LedgerPlace) -> NotSafe | None:
    """What is to be said of a file that has several names; None where it has one, or is not there."""
    try:
        found = place.file.stat()
    except OSError:
        return None
    names = found.st_nlink
    if names < 2 or not S_ISREG(found.st_mode):
        return None
    return NotSafe(
        f"the ledger {place.file} has {names} names (hard links), and each would have a lock and a log of its own",
        hint=f"find the others with `find / -samefile {place.file}` and remove them, or stop the worker and give the "
        "ledger a file of its own: cp it to a new name, with its -wal, and rename that",
    )


def no_folder(place: LedgerPlace) -> str | None:
    """In words that the ledger's folder does not exist; None where it does. A slip of the pen in a path mostly."""
    folder = place.file.parent
    return None if folder.is_dir() else f"there is no folder {folder} for the ledger {place.file.name}"


FOLDER_HINT = "create the folder, or correct `ledger:` in the config"


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable: a new file is lost with its folder's entry, however well it was written."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
