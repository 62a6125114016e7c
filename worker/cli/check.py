"""``check``: config and rules, without the network."""

from pathlib import Path
from typing import Annotated

import typer

from worker.cli.app import app, invocation
from worker.cli.common import config_of
from worker.cli.output import Format, print_json, say
from worker.cli.wiring import checked_rules, unvouched_lines, vouched_lines
from worker.model.errors import InputErrors, Problem
from worker.model.facts import Json


@app.command("check")
def check(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Rule files or folders. Default: the config's rules.")
    ] = None,
    output: Annotated[
        Format, typer.Option("--format", help="table (file:line:column: message) or json.")
    ] = Format.table,
) -> None:
    """Check config and rules without the network. Every mistake at once; errors exit 2, warnings alone 0."""
    problems: list[Problem] = []
    rules = 0
    vouched: tuple[str, ...] = ()
    try:
        config = config_of(invocation(context))
        problems.extend(config.warnings)
        problems.extend(
            Problem(file=str(config.file), message=f"{key} has no effect: {why}", severity="warning", code="unused")
            for key, why in config.unused_keys().items()
        )
        vouched = (*vouched_lines(config), *unvouched_lines(config))
        for path in paths or [config.rules]:
            count, found = checked_rules(path, config)
            rules += count
            problems.extend(found)
    except InputErrors as errors:
        problems.extend(errors.problems)
    if output is Format.json:
        print_json({"problems": [_json(problem) for problem in problems], "rules": rules, "assumptions": list(vouched)})
    else:
        for problem in problems:
            print(problem)
            if problem.hint:
                print(f"    {problem.hint}")
        for line in vouched:
            say(line)
    errors_found = sum(1 for problem in problems if problem.severity == "error")
    say(f"{rules} rules, {errors_found} errors, {len(problems) - errors_found} warnings")
    if errors_found:
        raise typer.Exit(2)


def _json(problem: Problem) -> dict[str, Json]:
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "severity": problem.severity,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
    }
