"""Which files a folder of rules holds, and their texts; or, of each that cannot be had, why not.

Nothing that could be a rule is passed over in silence: a link that leads nowhere, a folder that may not be read or one
that leads back into itself may each be the rule that was to hold another back. Links are followed inside of the
folder (as a ConfigMap has them); one that leads out of it is an error: who writes a rule could have any file shown.
Reading is all it does to the world.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from worker.model.errors import InputErrors, Problem

TESTS = "tests"
"""The name of the folders, among rules, in which their tests lie."""
ENDING = ".yaml"
FILES_MAX = 1_000
FILE_BYTES_MAX = 5_000_000
EMPTY_HINT = "remove it, or write it anew: a file that was cut off (a full disk) must not take its rules out of force"
UNREADABLE = "unreadable "
"""What the hash of files begins with that cannot be read."""


def read_files(path: Path) -> Mapping[str, str]:
    """The text of each rule file by its name. Raises `InputErrors` for what cannot be read."""
    texts, unreadable = texts_of(path)
    if unreadable:
        raise InputErrors(unreadable)
    return texts


def files_hash(path: Path) -> str:
    """The hash that a rule set of what is on disk now would have; where it cannot be read, one of the trouble, so that
    whoever compares hashes sees a change and asks for the whole."""
    texts, unreadable = texts_of(path)
    if unreadable:
        return UNREADABLE + hashlib.sha256("\n".join(map(str, unreadable)).encode()).hexdigest()
    return hash_of(texts)


def texts_of(path: Path) -> tuple[Mapping[str, str], tuple[Problem, ...]]:
    """The texts that can be read, and why others cannot."""
    found = walked(path)
    problems = list(found.problems)
    texts: dict[str, str] = {}
    for file in found.files:
        try:
            with file.open("rb") as opened:
                raw = opened.read(FILE_BYTES_MAX + 1)
            if len(raw) > FILE_BYTES_MAX:
                message = f"larger than {FILE_BYTES_MAX} bytes"
                problems.append(Problem(file=str(file), message=message, hint="split it", code="file"))
            elif not raw.strip():
                problems.append(Problem(file=str(file), message="is empty", hint=EMPTY_HINT, code="empty"))
            else:
                texts[str(file)] = raw.decode("utf-8-sig")
        except OSError as error:
            problems.append(_cannot_be_read(file, error))
        except UnicodeDecodeError as error:
            problems.append(_not_utf8(file, error))
    return texts, tuple(problems)


@dataclass(slots=True)
class Walk:
    """What lies under ``root``: the files, and what could not be looked at. Names that begin with a dot do not count,
    nor does what stands in a folder ``tests`` below the path."""

    root: Path
    ending: str = ENDING
    files: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def enter(self, folder: Path, above: tuple[os.stat_result, ...]) -> None:
        """Takes up a folder and what is below it. ``above``: the folders that it stands in."""
        try:
            names = sorted(os.listdir(folder))  # noqa: PTH208 - an iteration of paths is not sorted
        except OSError as error:
            self.problems.append(_cannot_be_read(folder, error))
            return
        for name in names:
            if not name.startswith("."):
                self._take(folder / name, above)

    def _take(self, path: Path, above: tuple[os.stat_result, ...]) -> None:
        try:
            found = path.stat()
        except OSError as error:
            if path.suffix in ("", self.ending):  # what has another ending is no rule file, wherever it leads
                self.problems.append(_leads_nowhere(path) if path.is_symlink() else _cannot_be_read(path, error))
            return
        if path.is_symlink() and not path.resolve().is_relative_to(self.root.resolve()):
            if stat.S_ISDIR(found.st_mode) or path.suffix == self.ending:
                hint = "put the file itself here; a link may lead to what stands in this folder, and nowhere else"
                self.problems.append(_problem(path, "is a link that leads out of the folder", hint))
        elif stat.S_ISDIR(found.st_mode):
            if any(os.path.samestat(found, one) for one in above):
                hint = "remove the link: what it leads to is read already"
                self.problems.append(_problem(path, "leads back to a folder that it stands in", hint))
            elif path.name != TESTS:
                self.enter(path, (*above, found))
        elif path.suffix == self.ending:
            if stat.S_ISREG(found.st_mode):
                self.files.append(path)
            else:
                self.problems.append(_problem(path, "is no file that can be read", "put a file of rules in its place"))


def walked(path: Path, ending: str = ENDING) -> Walk:
    """What lies under a path, which may be a single file of any name. Raises nothing."""
    walk = Walk(root=path, ending=ending)
    try:
        found = path.stat()
    except OSError as error:
        walk.problems.append(_missing(path, error))
        return walk
    if not stat.S_ISDIR(found.st_mode):
        walk.files.append(path)
        return walk
    walk.enter(path, (found,))
    if len(walk.files) > FILES_MAX:
        hint = "join some of them, or name a folder below it"
        walk.problems.append(_problem(path, f"more than {FILES_MAX} rule files", hint))
        walk.files.clear()
    return walk


def _missing(path: Path, error: OSError) -> Problem:
    if os.path.islink(path):  # noqa: PTH114 - Path.is_symlink raises for a name that is too long
        return _leads_nowhere(path)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        hint = "name the folder of the rules under `rules` in the config, or on the command line"
        return _problem(path, "there is no such file or folder", hint)
    return _cannot_be_read(path, error)


def _leads_nowhere(path: Path) -> Problem:
    return _problem(path, "is a link that leads nowhere", "put back what it leads to, or remove it")


def _problem(path: Path, message: str, hint: str) -> Problem:
    return Problem(file=str(path), message=message, hint=hint, code="file")


def _cannot_be_read(path: Path, error: OSError) -> Problem:
    hint = "let the user who runs the worker read it"
    return Problem(file=str(path), message=f"cannot be read: {error.strerror}", hint=hint, code="file")


def _not_utf8(file: Path, error: UnicodeDecodeError) -> Problem:
    """Where in the file the first byte stands that is no UTF-8."""
    before = bytes(error.object[: error.start])
    return Problem(
        file=str(file),
        line=before.count(b"\n") + 1,
        column=len(before[before.rfind(b"\n") + 1 :].decode("utf-8", errors="replace")) + 1,
        message=f"is not UTF-8: the byte 0x{error.object[error.start]:02x} cannot be read",
        hint="save the file as UTF-8; most editors ask for the encoding under `Save as`",
        code="file",
        source=(before[before.rfind(b"\n") + 1 :] + error.object[error.start :].partition(b"\n")[0]).decode(
            "utf-8", "replace"
        ),
    )


def hash_of(texts: Mapping[str, str]) -> str:
    """A hash of names and texts; the folder they share is no part of it, so that a copy elsewhere has the same."""
    names = sorted(texts)
    shared = len(str(Path(names[0]).parent)) if names else 0
    while shared and any(name[:shared] != names[0][:shared] for name in names):
        shared -= 1
    digest = hashlib.sha256()
    for name in names:
        for part in (name[shared:], texts[name]):
            raw = part.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()
