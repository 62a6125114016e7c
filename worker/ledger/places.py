"""Where a ledger lives: its file, the mark and the lock beside it, and making a folder's entries durable.

A file is one of SQLite's; a ledger on a server has none, and is only named here. The paths are made from the URL here
and nowhere else, so that the command line, the daemon and the tests agree on them. Nothing here opens the ledger's file
itself: closing a second handle on it would drop the locks that SQLite holds for this process. A link in the path is
followed here, so that one file has one mark and one lock, whatever name it came by; a file with two names of its own
(hard links) is refused, because SQLite keeps a write-ahead log for each name.
"""

import fcntl
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from stat import S_ISREG
from urllib.parse import parse_qsl, unquote, urlsplit

from worker.model.errors import NotSafe, UsageError
from worker.model.facts import Json

MOUNTS = Path("/proc/self/mountinfo")
"""Where Linux tells what is mounted."""
OVER_A_NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "gluster", "lustre", "gpfs", "fuse.")
"""How the names of file systems begin whose disk is another machine's."""


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


def on_a_server(url: str) -> bool:
    """Whether a ledger URL names a database of PostgreSQL's, and no file."""
    return url.startswith("postgresql://")


def named(url: str) -> str:
    """The ledger as errors name it: its file, or its database and server."""
    place = files_of(url)
    if place is not None:
        return f"the ledger {place.file}"
    parts = urlsplit(url)
    said = {"dbname": unquote(parts.path[1:]), "host": parts.hostname, "port": parts.port or 5432}
    return "the ledger {dbname} on {host}:{port}".format(**{**said, **dict(parse_qsl(parts.query))})


def files_of(url: str, folder: Path | None = None) -> LedgerPlace | None:
    """The files of any ledger's URL; None for one on a server, which has none."""
    return None if on_a_server(url) else place_of(url, folder)


def place_of(url: str, folder: Path | None = None) -> LedgerPlace:
    """The files of the URL of a ledger that must be a file; a relative path counts from ``folder`` (default: the
    current one). SQLAlchemy could say it as well; but it takes as long to load as all of `check`, which asks nothing of
    a ledger."""
    kind, _, place = url.partition("://")
    host, _, file = place.partition("/")
    if kind != "sqlite" or host or not file or file == ":memory:" or "?" in file:
        raise UsageError(
            "ledger: the URL must name a file and nothing else: what is not on disk cannot keep a write from repeating",
            hint="write sqlite:///worker.db, or sqlite:////var/lib/worker.db for an absolute path",
        )
    path = (folder or Path()).joinpath(file)
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


def exposed(place: LedgerPlace | None) -> tuple[Path, ...]:
    """The files of a ledger that other users of this machine may read or change: those made before the worker kept
    them to itself, and copies beside them."""
    if place is None:
        return ()
    try:
        passes = place.file.parent.stat().st_mode
        found = sorted(path for path in place.file.parent.iterdir() if path.name.startswith(place.file.name))
        reach = (0o060 if passes & 0o010 else 0) | (0o006 if passes & 0o001 else 0)
        return tuple(path for path in found if path.is_file() and path.stat().st_mode & reach)
    except OSError:  # what this user cannot look at, no worker of this user's has made
        return ()


def network_disk(place: LedgerPlace) -> str:
    """The kind of file system where a ledger's folder is on another machine's disk; empty where it is not, or nobody
    can say. SQLite's log needs memory that all its readers share, and a lock over a network may be lost unheard."""
    try:
        device = place.file.parent.stat().st_dev
        mounts = MOUNTS.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    own = (line for line in mounts if f" {os.major(device)}:{os.minor(device)} " in line)
    kinds = (line.rpartition(" - ")[2].partition(" ")[0] for line in own)
    return next((kind for kind in kinds if kind.startswith(OVER_A_NETWORK)), "")


FOLDER_HINT = "create the folder, or correct `ledger:` in the config"


def left_to_its_owner(file: Path) -> None:
    """Gives a new file to whose its folder is: what a command of root's has made is for the worker to open."""
    owner = file.parent.stat()
    with suppress(OSError):
        os.chown(file, owner.st_uid, owner.st_gid, follow_symlinks=False)


def sync(path: Path) -> None:
    """Makes a file durable, or the names in a folder: a new file is lost with its folder's entry, however well it was
    written."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# Who holds the ledger's lock, and what that process says of itself: for those who only look.
#
# The kernel says whether it is held; the text in the file says by whom, since when, on which file and with which
# config. It is for people: a full disk may have kept it from being written, so nothing that must hold depends on it.
# Takes nothing that could keep a sender out, but for the microseconds of a poll.

TEXT_MAX = 4096


def holder(place: LedgerPlace) -> int | None:
    """The pid of the process that holds the lock, None where nobody does; 0 where it has not written its pid yet."""
    return None if _free(place.lock) else written_pid(place)


def held_since(place: LedgerPlace) -> datetime | None:
    """When the process that holds the lock, or held it last, took it; None where that cannot be read."""
    try:
        return datetime.fromisoformat(str(said_by_holder(place)["since"]))
    except (ValueError, KeyError):
        return None


def said_by_holder(place: LedgerPlace) -> Mapping[str, Json]:
    """What the process that holds the lock, or held it last, says of itself; nothing where that cannot be read."""
    try:
        said: Json = json.loads(place.lock.read_bytes()[:TEXT_MAX])
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def exchanged(place: LedgerPlace | None) -> NotSafe | None:
    """What is to be said where a process runs on another file than the one that lies here now: what is written here
    reaches nobody, and what is read here is not what that one does. None where all is well, or nothing is known."""
    if place is None:
        return None
    pid, file, now = holder(place), said_by_holder(place).get("file"), identity(str(place.file))
    if pid is None or not isinstance(file, list) or now is None or file == list(now):
        return None
    why = f"the ledger {place.file} is not the file that process {pid} runs on: it was replaced beneath it"
    hint = f"that process sends nothing more; stop it (kill {pid}), put the right file back, and start again"
    return NotSafe(why, hint=hint)


def torn(place: LedgerPlace) -> NotSafe | None:
    """The same where only what SQLite keeps beside the file is not what that process has open. Then nothing can be read
    here either; when that process ends, it puts what it knows into the file, unless somebody wrote here meanwhile."""
    pid, said = holder(place), said_by_holder(place)
    for name, path in (("wal", place.wal), ("shm", place.shm)):
        known, now = said.get(name), identity(str(path))
        if pid is not None and isinstance(known, list) and known != (None if now is None else list(now)):
            why = f"{path} was removed or replaced beneath process {pid}, which runs on the ledger {place.file.name}"
            return NotSafe(why, hint=f"that process sends nothing more; stop it (kill {pid}), and start it again")
    return None


def unseen(place: LedgerPlace) -> int | None:
    """The pid of a process that runs on this very file though nobody holds the lock beside it; 0 where the pid is not
    to be had, None where there is no such process. For a process that has not opened the ledger: see ``places``."""
    pid = pid_in_the_kernel(place)
    if sys.platform != "linux" or pid == os.getpid():
        return pid or None  # the page of that very process may ask
    return None if _free(place.file) or holder(place) is not None else pid


def unread(place: LedgerPlace | None) -> NotSafe | None:
    """Why what is written here might not be what the process that sends reads, or read by the next one; None where it
    is. For whoever has not opened the ledger yet. What is on a server is the same for all."""
    if place is None:
        return None
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


def _free(file: Path) -> bool:
    """Whether nobody holds a lock on a file; also where it is not there, or not for this user to open."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        return tried(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def written_pid(place: LedgerPlace) -> int:
    """The pid in the lock's file; 0 where there is none."""
    pid = said_by_holder(place).get("pid")
    return pid if isinstance(pid, int) else 0
