"""The program: its commands, its global options, and the one door at which every error is told.

Loading every command means loading the database, the client, a CEL engine and a web server, which takes seconds on a
small machine. So the help of the program is printed from the table here, and the module of a command, which knows
nothing of this one, is imported when the command is called. That the table says what the modules say is a test.
"""

import errno
import inspect
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from logging import ERROR
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from worker import __version__
from worker.cli import signals
from worker.model.errors import InputErrors, UsageError, WorkerError, printable

USAGE = 2
PANELS: Mapping[str, Mapping[str, str]] = {
    "Start here": {
        "demo": "Show the whole story on a sandbox: events change, rules fire, answers get lost, nothing is repeated.",
        "init": "Write what one starts from: a config, two rules with their tests, and schemas for an editor.",
        "run": "Run the worker: poll every poll.interval, decide by the rules, write with guards, and log it all.",
        "sandbox": "Serve a simulator of the service on loopback, which keeps its own record of what took effect.",
    },
    "Rules": {
        "check": "Check config and rules without the network. Every mistake at once; errors exit 2, warnings alone 0.",
        "test": "Run rule tests, without the network. Exits 1 if one fails or there is none, 2 for a mistake.",
        "plan": "Show what each rule would do now: every write before and after, what would hold it, what it costs.",
        "backtest": "Run a rule folder over what was observed: which writes would be new, gone, earlier or later.",
        "schema": "Print the JSON Schema of config, rule files or rule tests, for an editor to complete and check by.",
    },
    "Look": {
        "probe": "Read one of each resource; say of each assumption: confirmed, refuted, or cannot be seen by reading.",
        "status": "Print what the daemon does: partners, rules in force, writes by state, halts. Needs no credentials.",
        "log": "Print the action log: what was seen, decided, sent and proved, oldest first.",
        "writes": "Print every write, oldest first: its state, what holds it, and why.",
        "explain": "Say why each rule did or did not fire for an event: offline, from the ledger.",
    },
    "Decide": {
        "approve": "Let waiting writes go. They still pass every guard: what is no longer true is not sent.",
        "reject": "Drop writes that wait, are planned, or need an operator. The same episode plans them no more.",
        "resolve": "Say whether a write in needs_human took effect. All of the given writes, or none.",
        "again": "Reopen what ended without effect: rejected, refused, skipped, shadowed, cancelled. All or nothing.",
        "undo": "Put back what writes changed: the value recorded before each, as new writes with guards and log of "
        "their own.",
        "halt": "Stop new writes: once this has returned, a running daemon sends none. Reading and deciding go on.",
        "resume": "End halts: those that name this partner and this rule, or without either all of them.",
    },
    "Look after": {
        "fleet": "Print the workers that share the ledger, and whose each partner is. Needs no credentials.",
        "rules": "Put a rule folder into force for a whole fleet.",
        "ledger": "Back up, upgrade, accept a restored ledger, or take it to another service.",
    },
}
"""Every command with the first paragraph of its own help, in the order in which a newcomer meets them."""
COMMANDS: Mapping[str, str] = {name: about for panel in PANELS.values() for name, about in panel.items()}
MODULES: Mapping[str, str] = {
    **dict.fromkeys(("approve", "reject", "resolve", "again", "undo", "halt", "resume"), "decisions"),
    "demo": "sandbox",
    **dict.fromkeys(("fleet", "rules"), "ledger"),
    **dict.fromkeys(("init", "schema"), "check"),
    "writes": "log",
}
"""The module of `worker.cli` where a command is, unless it has the command's name."""
STOPPED_BY_SIGNALS = frozenset({"run", "sandbox"})
"""SIGINT and SIGTERM are their proper end, exit code 0, also before they have begun to wait for them."""


def loaded(name: str) -> Any:  # noqa: ANN401 - a command of typer's, which has no public type
    """A command, its module imported."""
    return typer.main.get_group(import_module(f"worker.cli.{MODULES.get(name, name)}").app).commands[name]


def flowing(text: str) -> str:
    """A help whose lines are as long as the terminal is wide, not as they stand in the code: typer joins those of the
    first paragraph only, and the others came out in long and short lines by turns."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(line.strip() for line in one.split("\n")) for one in paragraphs)


class Commands(TyperGroup):
    """The group of all commands: announced from the table, and imported when they are called."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - typer's own
        super().__init__(**settings)
        self.commands = {
            name: TyperCommand(name, callback=None, help=about, rich_help_panel=panel)
            for panel, found in PANELS.items()
            for name, about in found.items()
        }

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's own signature
        """The options of the program itself."""
        return _without_bool(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer's own signature
        """Imports the command that is called. Where there is none of that name, the nearest is suggested."""
        name = args[0]
        if name in STOPPED_BY_SIGNALS:
            signals.end_at_once(0)
        if name in COMMANDS:
            command = self.commands[name] = loaded(name)
            command.help = flowing(command.help or "")
            flags = [] if ctx.resilient_parsing else [one.partition("=")[0] for one in args if one.startswith("-")]
            if {"-c", "--config"}.intersection(flags):
                raise UsageError("--config stands before the command", hint=f"campaign-worker --config PATH {name} …")
            for one in (command, *getattr(command, "commands", {}).values()):
                for parameter in _without_bool(one.get_params(ctx)):
                    _given_once(parameter, flags)
        if name not in STOPPED_BY_SIGNALS:
            signals.usual()
        return super().resolve_command(ctx, args)


def _without_bool(parameters: Sequence[Any]) -> Sequence[Any]:
    """A flag takes no value, so its help must not show one."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


def _given_once(parameter: Any, flags: Sequence[str]) -> None:  # noqa: ANN401 - typer's own
    """The second of two names would stand for both: of ``halt --rule a --rule b`` only b was halted."""
    last_counts = getattr(parameter, "multiple", True) or parameter.required or parameter.default is not None
    if not last_counts and sum(flag in parameter.opts for flag in flags) > 1:
        raise UsageError(f"{parameter.opts[0]} is given twice", hint="run the command once for each")


app = typer.Typer(
    name="campaign-worker",
    cls=Commands,
    help=(
        "Watches events and their ad campaigns and acts by rules: pauses what is cancelled, boosts what has a new "
        "audience, and never lets an effect happen twice.\n\n"
        "Start with [bold]demo[/bold]. Then [bold]init[/bold] a folder, write rules, [bold]check[/bold] and "
        "[bold]test[/bold] them, and [bold]run[/bold]."
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:  # noqa: FBT001 - the form that the option's callback must have
    if value:
        typer.echo(f"campaign-worker {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            envvar="CAMPAIGN_WORKER_CONFIG",
            show_envvar=False,
            help="The config file. Default: $CAMPAIGN_WORKER_CONFIG, else ./config.yaml.",
        ),
    ] = None,
    _version_asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Every command asks for the config itself (`worker.cli.common.config_file`)."""


# The door to the shell. A reader that has had enough (``| head -1``) is no error; an output that cannot be written (a
# full disk) is one, and is said in a line.

LOST = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""How writing to stdout or stderr fails; a file that a command opened itself has its name in the error."""
SLIPS: Mapping[int | None, str] = {
    errno.ENAMETOOLONG: "",
    errno.EACCES: "let this user read it, and the folders above it, or call the command as who runs the worker",
}
"""What is no fault of the program, and what to do."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits. ``arguments``: by default the process's."""
    arguments = [_text_of(one) for one in (sys.argv[1:] if arguments is None else arguments)]
    _open_streams()
    streams = (sys.stdout, sys.stderr)  # typer exchanges them where a pipe is closed
    code: object = 0
    try:
        code = app(args=arguments, standalone_mode=False)
        if not code:
            sys.stdout.flush()
    except WorkerError as error:
        code = _tell(error)
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        code = 0
    except SystemExit as stop:  # rich or typer was there before
        code = 0 if isinstance(stop.__context__, BrokenPipeError) else stop.code
    except OSError as error:
        code = _tell(_worded(error))
    except Exception as error:
        show = getattr(error, "show", None)
        if show is None:
            raise
        if isinstance(error, typer.BadParameter):  # in a library's words
            said = error.message.removeprefix("Value error, ").replace("Input should be", "it must be")
            error.message = said.partition(", unable to parse")[0]
        show()
        code = getattr(error, "exit_code", USAGE)
    finally:
        _let_go(streams)
    sys.exit(code if isinstance(code, int) else 0)


def _text_of(argument: str) -> str:
    """What a terminal of another coding has typed is still a word that can be kept; a file's name stays as it is."""
    known = os.path.exists(argument)  # noqa: PTH110 - for `Path` a text of 300 letters is an error, and not no file
    return argument if known else os.fsencode(argument).decode("utf-8", errors="replace")


def _open_streams() -> None:
    """A shell can close a stream (``>&-``); what is written there is to go nowhere. Its number is taken as well, or the
    next file that is opened, the ledger's lock for instance, would get it, and the output of a library would go there.
    """
    for name, how in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), how, encoding="utf-8"))
    if isinstance(sys.stdout, TextIOWrapper):  # the name of a file, or of an event, may be more than it can say
        sys.stdout.reconfigure(errors="backslashreplace")
    if not os.environ.get("COLUMNS", "").strip("0").isdecimal():  # in 0 columns there is no room for a letter
        os.environ.pop("COLUMNS", None)


def _worded(error: OSError) -> WorkerError:
    """What an operator is told of it. Raises anything that is neither about the output nor a slip of theirs."""
    if error.filename is not None and error.errno in SLIPS:
        return UsageError(f"{error.filename}: {error.strerror}", hint=SLIPS[error.errno])
    if error.filename is None and error.errno in LOST:
        hint = "look where stdout and stderr go"
        return WorkerError(f"the output cannot be written: {error.strerror}", hint=hint)
    raise error


def _tell(error: WorkerError) -> int:
    """What, where, and what to do now, on stderr; the exit code."""
    from worker.logs import Worded  # noqa: PLC0415 - where there is an error

    if isinstance(sys.stderr, Worded):
        sys.stderr.level = ERROR
    if isinstance(error, InputErrors):
        lines = [line for problem in error.problems for line in problem.lines]
    else:
        lines = [f"error: {error}", *([f"    {error.hint}"] if error.hint else [])]
    _let_go((sys.stdout,))
    with suppress(OSError):
        for line in lines:
            print(printable(line, "\n\t"), file=sys.stderr)
    return error.exit_code


def _let_go(streams: Iterable[TextIO]) -> None:
    """Points each stream that cannot be written at nothing, or Python would complain of it once more at its end."""
    for stream in streams:
        try:
            stream.flush()
        except OSError:
            with suppress(OSError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
