"""What `check` finds in rules: the loader's mistakes, the warnings about each rule, about pairs, and about the cost.

Put together here and nowhere else, so that the command, its golden messages and an editor's call all say the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from worker.engine.estimate import EVENTS, Estimate, estimate
from worker.engine.quarrels import ping_pongs, quarrels
from worker.engine.settings import EngineSettings
from worker.model.errors import Problem
from worker.model.rules import Rule
from worker.rules.lint import lint
from worker.rules.load import examine
from worker.rules.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found under one path. ``rules``: those that have no mistake."""

    rules: tuple[Rule, ...]
    problems: tuple[Problem, ...]
    estimate: Estimate


def checked(path: Path, registry: Registry, settings: EngineSettings, events: int = EVENTS) -> Checked:
    """Everything there is to say about the rules under a path, by file, line and column. Raises nothing."""
    loaded = examine(path, registry)
    needed = estimate(loaded.rules.rules, registry, settings, events)
    pairs = (*quarrels(loaded, registry), *ping_pongs(loaded))
    found = (*loaded.errors, *lint(loaded, path, registry), *pairs, *_too_slow(path, needed))
    if not loaded.written and not loaded.errors:
        found = (*found, _empty(path))
    return Checked(rules=loaded.rules.rules, problems=in_order(found), estimate=needed)


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Each finding once, in the order of the files."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda one: (one.file, one.line, one.column, one.message)))


def summary(rules: int, problems: Iterable[Problem]) -> str:
    """How many rules, errors and warnings."""
    severities = [problem.severity for problem in problems]
    errors = severities.count("error")
    counts = ((rules, "rule"), (errors, "error"), (len(severities) - errors, "warning"))
    return ", ".join(f"{count} {what}" if count == 1 else f"{count} {what}s" for count, what in counts)


def _empty(path: Path) -> Problem:
    where = path / "NAME.yaml" if path.is_dir() else path
    hint = f"write one in {where}: `rules:`, and below it `- id: NAME`, `when: CONDITION` and `do: [ACTION]`"
    message = "there are no rules here, so the worker would only look"
    return Problem(file=str(path), message=message, hint=hint, severity="warning", code="empty")


def _too_slow(path: Path, needed: Estimate) -> Iterable[Problem]:
    for message, hint in needed.warnings:
        yield Problem(file=str(path), message=message, hint=hint, severity="warning", code="budget")
