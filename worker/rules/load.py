"""From a folder of YAML files to a rule set, or to every mistake in it at once.

A set is loaded whole or not at all: with half a folder, a rule that was to hold another back could be the missing half.
What lies in the folder is found and read by `worker.rules.files`; `read_rules` does the same from texts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from worker.model.errors import InputErrors, Problem
from worker.model.rules import RuleSet
from worker.rules.files import hash_of, texts_of
from worker.rules.registry import BUILT_IN_REGISTRY, Registry
from worker.rules.rulefile import RuleReader, Written
from worker.rules.yaml import Document, Scalar, compose


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
    texts, unreadable = texts_of(path)
    found = _examined(texts, registry)
    return replace(found, errors=(*unreadable, *found.errors))


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
        rules=RuleSet(rules=tuple(rules), hash=hash_of(texts)),
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
