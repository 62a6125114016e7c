"""From a folder of YAML files to a rule set, or to every mistake in it at once.

A set is loaded whole or not at all: with half a folder, a rule that was to hold another back could be the missing half.
Reading files is all it does to the world; `read_rules` does the same from texts.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from worker.model.errors import InputErrors, Problem
from worker.model.ids import RuleId
from worker.model.rules import RuleSet
from worker.rules.registry import BUILT_IN_REGISTRY, Registry
from worker.rules.rulefile import RuleReader, Written
from worker.rules.yamltext import Document, compose

FILES_MAX = 1_000
FILE_BYTES_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A rule set with what it was written as. ``warnings`` were found on the way; `worker.rules.lint` finds more."""

    rules: RuleSet
    written: tuple[Written, ...] = ()
    warnings: tuple[Problem, ...] = ()


def load_rules(path: Path, registry: Registry = BUILT_IN_REGISTRY) -> RuleSet:
    """The rules of a folder or a file. Raises `InputErrors` with every mistake."""
    return load(path, registry).rules


def load(path: Path, registry: Registry = BUILT_IN_REGISTRY) -> Loaded:
    """The same, with what `check` needs beside the rules."""
    return read_rules(read_files(path), registry)


def files_hash(path: Path) -> str:
    """The hash that a rule set of what is on disk now would have. Raises `InputErrors` where it cannot be read."""
    return _hash_of(read_files(path))


def read_files(path: Path) -> Mapping[str, str]:
    """The text of each rule file by its name. Raises `InputErrors` for what cannot be read."""
    files = rule_files(path)
    problems: list[Problem] = []
    texts: dict[str, str] = {}
    for file in files:
        try:
            raw = file.read_bytes()[: FILE_BYTES_MAX + 1]
            if len(raw) > FILE_BYTES_MAX:
                problems.append(Problem(file=str(file), message=f"larger than {FILE_BYTES_MAX} bytes", code="file"))
            texts[str(file)] = raw.decode("utf-8-sig")
        except OSError as error:
            problems.append(Problem(file=str(file), message=f"cannot be read: {error.strerror}", code="file"))
        except UnicodeDecodeError as error:
            message = f"is not UTF-8: byte {error.start + 1} cannot be read"
            problems.append(Problem(file=str(file), message=message, code="file"))
    if problems:
        raise InputErrors(tuple(problems))
    return texts


def rule_files(path: Path) -> tuple[Path, ...]:
    """The rule files under a path: ``*.yaml``, without what stands in ``tests`` or in something hidden."""
    try:
        if path.is_file():
            return (path,)
        if not path.is_dir():
            hint = "name the folder of the rules under `rules` in the config, or on the command line"
            raise InputErrors(
                (Problem(file=str(path), message="there is no such file or folder", hint=hint, code="file"),)
            )
        found = sorted(
            file for file in path.rglob("*.yaml") if file.is_file() and _counts(file.relative_to(path).parts)
        )
    except OSError as error:
        raise InputErrors(
            (Problem(file=str(path), message=f"cannot be read: {error.strerror}", code="file"),)
        ) from None
    if len(found) > FILES_MAX:
        raise InputErrors((Problem(file=str(path), message=f"more than {FILES_MAX} rule files", code="file"),))
    return tuple(found)


def read_rules(texts: Mapping[str, str], registry: Registry = BUILT_IN_REGISTRY) -> Loaded:
    """The rules of texts by file name. Raises `InputErrors` with every mistake."""
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
    problems.extend(_duplicates(written))
    if problems:
        raise InputErrors(tuple(sorted(problems, key=lambda one: (one.file, one.line, one.column))))
    rules = sorted((one.rule for one in written), key=lambda rule: rule.id)
    return Loaded(
        rules=RuleSet(rules=tuple(rules), hash=_hash_of(texts)),
        written=tuple(written),
        warnings=tuple(warning for one in written for warning in one.warnings),
    )


def _duplicates(written: Iterable[Written]) -> list[Problem]:
    """Ids that are used twice, at the second place, naming the first."""
    first: dict[RuleId, Written] = {}
    found: list[Problem] = []
    for one in written:
        earlier = first.setdefault(one.rule.id, one)
        place = one.entries.get("id")
        if earlier is not one and place is not None:
            message = f"the id '{one.rule.id}' is used already, in {earlier.rule.file}:{earlier.rule.line}"
            found.append(one.entries.document.problem(place.start, message, code="duplicate"))
    return found


def _counts(parts: tuple[str, ...]) -> bool:
    return "tests" not in parts[:-1] and not any(part.startswith(".") for part in parts)


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
