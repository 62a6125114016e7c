"""``check``: config and rules, without the network."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from worker.cli.common import config_file, config_for, engine_settings, exposed_files, unvouched_lines, vouched_lines
from worker.cli.output import Format, print_json, say
from worker.config import Config
from worker.config.load import repaired
from worker.config.schema import schema as schema_of
from worker.engine.checking import EVENTS, Estimate, estimate, ping_pongs, quarrels
from worker.engine.looks import EngineSettings
from worker.model.errors import InputErrors, Problem
from worker.model.facts import Json
from worker.model.rules import Rule
from worker.rules.lint import lint
from worker.rules.load import examine
from worker.rules.registry import BUILT_IN_REGISTRY, Registry

app = typer.Typer()

# What `check` finds in rules: the loader's mistakes, the warnings about each rule, about pairs, and about the cost.
#
# Put together here and nowhere else, so that the command, its golden messages and an editor's call all say the same.


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


EVENTS_MAX = 100_000_000
"""No partner has so many; what is reckoned stays a number that can be printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What one call found. ``estimates``: what each path's rules cost; ``vouched``: assumptions, in words."""

    problems: tuple[Problem, ...]
    rules: int
    estimates: tuple[Estimate, ...]
    vouched: tuple[str, ...]


@app.command("check")
def check(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Rule files or folders. Default: the config's rules.")
    ] = None,
    events: Annotated[
        int,
        typer.Option(
            "--events", min=1, max=EVENTS_MAX, help="How many events a partner has, to reckon what the rules cost."
        ),
    ] = EVENTS,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 2 for warnings as well, as in a build.")] = False,
    output: Annotated[
        Format, typer.Option("--format", help="table (file:line:column: message) or json.")
    ] = Format.table,
) -> None:
    """Check config and rules without the network. Every mistake at once; errors exit 2, warnings alone 0.

    Each finding names its place, shows the line, and says what to do. At the end stands how many requests a minute
    these rules need of a partner, against the budget.

    Example: campaign-worker check --strict rules/summer.yaml
    """
    found = _found(context, paths, events)
    if output is Format.json:
        print_json(
            {
                "problems": [_json(problem) for problem in found.problems],
                "rules": found.rules,
                "requests": [one.as_json() for one in found.estimates],
                "assumptions": list(found.vouched),
            }
        )
    else:
        _print(found)
    say(summary(found.rules, found.problems))
    if any(strict or problem.severity == "error" for problem in found.problems):
        raise typer.Exit(2)


def _found(context: typer.Context, paths: list[Path] | None, events: int) -> _Found:
    """Config and rules, each looked at whatever is wrong with the other."""
    problems: list[Problem] = []
    whole: Config | None = None
    config: Config | None
    try:
        config = whole = config_for(context, paths)
    except InputErrors as errors:
        problems.extend(errors.problems)
        config = repaired(config_file(context))
        if config is None:
            say("the rules were not looked at: the config must be readable first")
    else:
        problems.extend((*config.warnings, *_unused(config), *exposed_files(config)))
    looked = [] if config is None else [_checked(path, config, events) for path in paths or [config.rules]]
    problems.extend(problem for one in looked for problem in one.problems)
    return _Found(
        problems=in_order(problems),
        rules=sum(len(one.rules) for one in looked),
        estimates=tuple(one.estimate for one in looked),
        vouched=() if whole is None else _assumed(whole, looked),
    )


def _assumed(config: Config, looked: Iterable[Checked]) -> tuple[str, ...]:
    rules = (rule for one in looked for rule in one.rules)
    return (*vouched_lines(config), *unvouched_lines(config, rules))


def _checked(path: Path, config: Config, events: int) -> Checked:
    return checked(path, config.registry, engine_settings(config), events)


def _unused(config: Config) -> Iterable[Problem]:
    for key, why in config.unused_keys().items():
        message = f"{key} has no effect: {why}"
        yield Problem(file=str(config.file), message=message, hint="leave it out", severity="warning", code="unused")


def _print(found: _Found) -> None:
    for number, problem in enumerate(found.problems):
        print(*(("",) if number else ()), *problem.lines, sep="\n")
    for line in (*(line for one in found.estimates for line in one.lines), *found.vouched):
        say(line)


def _json(problem: Problem) -> dict[str, Json]:
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "severity": problem.severity,
        "code": problem.code,
        "message": problem.message,
        "remedy": problem.hint,
        "source": problem.source,
    }


# ``schema``: JSON Schema of the files that people write, for editors.


@app.command("schema")
def schema(
    context: typer.Context,
    kind: Annotated[Literal["config", "rules", "tests"], typer.Argument(help="Which file's schema to print.")],
) -> None:
    """Print the JSON Schema of the config, of rule files or of rule tests, for an editor to complete and check by.

    Facts of the config's own are in it, where a config can be read.

    Example: campaign-worker schema rules > docs/schema/rules.json
    """
    config = repaired(config_file(context))
    print_json(schema_of(kind, config.registry if config is not None else BUILT_IN_REGISTRY))
