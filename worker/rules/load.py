"""From a folder of YAML files to a rule set, or to every mistake in it at once.

A set is loaded whole or not at all: with half a folder, a rule that was to hold another back could be the missing half.
Reading files is all it does to the world; `read_rules` does the same from texts.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from worker.model.errors import InputErrors, Problem
from worker.model.rules import RuleSet
from worker.rules.registry import BUILT_IN_REGISTRY, Registry
from worker.rules.rulefile import RuleReader, Written
from worker.rules.yamltext import Document, Scalar, compose

TESTS = "tests"
"""The name of the folders, among rules, in which their tests lie."""
FILES_MAX = 1_000
FILE_BYTES_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A rule set with what it was written as. ``errors``: a set with any is not to be used, and the rules are those
    that have none. ``warnings`` were found on the way; `worker.rules.lint` finds more."""

    rules: RuleSet
    written: tuple[Written, ...] = ()
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def load_rules(path: Path, registry: Registry = BUILT_IN_REGISTRY) -> RuleSet:
    """The rules of a folder or a file. Raises `InputErrors` with every mistake."""
    return load(path, registry).rules


def load(path: Path, registry: Registry = BUILT_IN_REGISTRY) -> Loaded:
    """The same, with the texts that the rules were read from."""
    return _without_errors(examine(path, registry))


def examine(path: Path, registry: Registry = BUILT_IN_REGISTRY) -> Loaded:
    """What of a folder or a file can be read, and every mistake in the rest. Raises nothing."""
    texts, unreadable = _texts_of(path)
    found = _examined(texts, registry)
    return replace(found, errors=(*unreadable, *found.errors))


def files_hash(path: Path) -> str:
    """The hash that a rule set of what is on disk now would have. Raises `InputErrors` where it cannot be read."""
    return _hash_of(read_files(path))


def read_files(path: Path) -> Mapping[str, str]:
    """The text of each rule file by its name. Raises `InputErrors` for what cannot be read."""
    texts, unreadable = _texts_of(path)
    if unreadable:
        raise InputErrors(unreadable)
    return texts


def _texts_of(path: Path) -> tuple[Mapping[str, str], tuple[Problem, ...]]:
    """The texts that can be read, and why others cannot."""
    try:
        files = rule_files(path)
    except InputErrors as errors:
        return {}, errors.problems
    problems: list[Problem] = []
    texts: dict[str, str] = {}
    for file in files:
        try:
            raw = file.read_bytes()[: FILE_BYTES_MAX + 1]
            if len(raw) > FILE_BYTES_MAX:
                message = f"larger than {FILE_BYTES_MAX} bytes"
                problems.append(Problem(file=str(file), message=message, hint="split it", code="file"))
            else:
                texts[str(file)] = raw.decode("utf-8-sig")
        except OSError as error:
            problems.append(_cannot_be_read(file, error))
        except UnicodeDecodeError as error:
            problems.append(_not_utf8(file, error))
    return texts, tuple(problems)


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


def rule_files(path: Path, pattern: str = "*.yaml") -> tuple[Path, ...]:
    """The rule files under a path, without what stands in ``tests`` or in something hidden."""
    try:
        if path.is_file():
            return (path,)
        if not path.is_dir():
            hint = "name the folder of the rules under `rules` in the config, or on the command line"
            raise InputErrors(
                (Problem(file=str(path), message="there is no such file or folder", hint=hint, code="file"),)
            )
        found = sorted(file for file in path.rglob(pattern) if file.is_file() and _counts(file.relative_to(path).parts))
    except OSError as error:
        raise InputErrors((_cannot_be_read(path, error),)) from None
    if len(found) > FILES_MAX:
        hint = "join some of them, or name a folder below it"
        raise InputErrors(
            (Problem(file=str(path), message=f"more than {FILES_MAX} rule files", hint=hint, code="file"),)
        )
    return tuple(found)


def read_rules(texts: Mapping[str, str], registry: Registry = BUILT_IN_REGISTRY) -> Loaded:
    """The rules of texts by file name. Raises `InputErrors` with every mistake."""
    return _without_errors(_examined(texts, registry))


def _without_errors(found: Loaded) -> Loaded:
    if found.errors:
        raise InputErrors(found.errors)
    return found


def _examined(texts: Mapping[str, str], registry: Registry) -> Loaded:
    reader = RuleReader(registry)
    problems: list[Problem] = []
    written: list[Written] = []
    for file, text in sorted(texts.items()):
        try:
            value = compose(Document(file=file, text=text))
        except InputErrors as errors:
            problems.extend(errors.problems)
            continue
        if value is not None:
            written.extend(reader.file(value))
    problems.extend(reader.form.problems)
    problems.extend(_duplicates(reader.ids))
    rules = sorted((one.rule for one in written), key=lambda rule: rule.id)
    return Loaded(
        rules=RuleSet(rules=tuple(rules), hash=_hash_of(texts)),
        written=tuple(written),
        errors=tuple(sorted(problems, key=lambda one: (one.file, one.line, one.column))),
        warnings=tuple(warning for one in written for warning in one.warnings),
    )


def _duplicates(ids: Iterable[Scalar]) -> list[Problem]:
    """Ids that are used twice, at the second place, naming the first; also of rules that have other mistakes."""
    first: dict[str, Scalar] = {}
    found: list[Problem] = []
    for one in ids:
        earlier = first.setdefault(one.text, one)
        if earlier is not one:
            there = earlier.document.problem(earlier.start, "")
            message = f"the id '{one.text}' is used already, in {there.file}:{there.line}:{there.column}"
            hint = "give one of the two another id; a new id is a new rule with a memory of its own"
            found.append(one.document.problem(one.start, message, hint=hint, code="duplicate"))
    return found


def _counts(parts: tuple[str, ...]) -> bool:
    return TESTS not in parts[:-1] and not any(part.startswith(".") for part in parts)


def _hash_of(texts: Mapping[str, str]) -> str:
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
