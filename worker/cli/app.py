"""The command line as a whole: the app, its one global option, and the one place where every error is caught."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from worker import __version__
from worker.cli.commands import Commands
from worker.cli.door import in_our_words, open_streams, tell_error
from worker.model.errors import WorkerError

CONFIG_ENV = "CAMPAIGN_WORKER_CONFIG"
USAGE = 2

app = typer.Typer(
    name="campaign-worker",
    cls=Commands,
    help=(
        "Watches events and their ad campaigns and acts by rules: pauses what is cancelled, boosts what has a new "
        "audience, and never lets an effect happen twice.\n\n"
        "Start with [bold]campaign-worker demo[/bold]. Then write rules, [bold]check[/bold] them, and [bold]run[/bold]."
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What every command knows: where the config is, and whether anybody named it."""

    config_path: Path
    named: bool


def _version(value: bool) -> None:  # noqa: FBT001 - the form that the option's callback must have
    if value:
        typer.echo(f"campaign-worker {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help=f"The config file. Default: ${CONFIG_ENV}, else ./config.yaml."),
    ] = None,
    _version_asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    named = config or (Path(os.environ[CONFIG_ENV]) if os.environ.get(CONFIG_ENV) else None)
    context.obj = Invocation(config_path=named or Path("config.yaml"), named=named is not None)


def invocation(context: typer.Context) -> Invocation:
    """The invocation that the root option made."""
    found = context.find_object(Invocation)
    if found is None:
        raise WorkerError("the command was called without its root", hint="call it through campaign-worker")
    return found


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits. The one door where errors are told. ``arguments``: by default the process's."""
    open_streams()
    try:
        result = app(args=arguments, standalone_mode=False)
    except WorkerError as error:
        tell_error(error)
        sys.exit(error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except typer.Exit as stop:
        sys.exit(stop.exit_code)
    except Exception as error:
        shown = getattr(error, "show", None)
        if shown is None:
            raise
        in_our_words(error)
        shown()
        sys.exit(getattr(error, "exit_code", USAGE))
    sys.exit(result if isinstance(result, int) else 0)
