"""``check``: config and rules, without the network."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from worker.cli.app import Invocation, app, invocation
from worker.cli.checking import Checked, checked, in_order, summary
from worker.cli.configs import config_for, engine_settings, unvouched_lines, vouched_lines
from worker.cli.output import Format, print_json, say
from worker.config import Config
from worker.config.load import repaired
from worker.engine.estimate import EVENTS, Estimate
from worker.model.errors import InputErrors, Problem
from worker.model.facts import Json

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
    found = _found(invocation(context), paths, events)
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


def _found(called: Invocation, paths: list[Path] | None, events: int) -> _Found:
    """Config and rules, each looked at whatever is wrong with the other."""
    problems: list[Problem] = []
    whole: Config | None = None
    config: Config | None
    try:
        config = whole = config_for(called, paths)
    except InputErrors as errors:
        problems.extend(errors.problems)
        config = repaired(called.config_path)
        if config is None:
            say("the rules were not looked at: the config must be readable first")
    else:
        problems.extend((*config.warnings, *_unused(config)))
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
