"""Which commands there are, in the order in which a newcomer meets them, and how each is found without loading all.

Loading every command means loading the database, the client, two CEL engines and a web server, which takes seconds on a
small machine. So the help of the program is printed from the table here, and a command's module is imported when that
command is called. That the table says what the modules say is a test.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from worker.cli import signals
from worker.cli.door import guarded

START, RULES, LOOK, DECIDE, KEEP = "Start here", "Rules", "Look", "Decide", "Look after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A command for the help of the program. ``about`` is the first paragraph of its own help."""

    panel: str
    about: str
    module: str = ""
    """Where it is built, in `worker.cli`; by default the module of its own name."""
    stops: bool = False
    """SIGINT and SIGTERM are its proper end, exit code 0, also before it has begun to wait for them."""


ENTRIES: Mapping[str, Entry] = {
    "demo": Entry(
        panel=START,
        module="sandbox",
        about="Show the whole story on the embedded sandbox: events change, rules fire, answers get lost, nothing is "
        "repeated.",
    ),
    "run": Entry(
        panel=START,
        about="Run the worker: look every poll.interval, decide by the rules, write with guards, and log it all.",
        stops=True,
    ),
    "sandbox": Entry(
        panel=START,
        about="Serve the embedded twin of the service on loopback, with its own books of what took effect.",
        stops=True,
    ),
    "check": Entry(
        panel=RULES,
        about="Check config and rules without the network. Every mistake at once; errors exit 2, warnings alone 0.",
    ),
    "test": Entry(
        panel=RULES,
        about="Run rule tests, without the network. Exits 1 if one fails, 2 for a mistake in a test or a rule.",
    ),
    "plan": Entry(
        panel=RULES,
        about="Show what each rule would do now: every write before and after, what would hold it, what it costs.",
    ),
    "backtest": Entry(
        panel=RULES,
        about="Run a rule folder over what was observed, and show which writes would be new, gone, earlier or later.",
    ),
    "schema": Entry(
        panel=RULES,
        module="check",
        about="Print the JSON Schema of the config, of rule files or of rule tests, for an editor to complete and "
        "check by.",
    ),
    "probe": Entry(
        panel=LOOK,
        about="Read one of each resource; say of each assumption: confirmed, refuted, or cannot be seen by reading.",
    ),
    "status": Entry(
        panel=LOOK,
        about="Print what the daemon does: partners, rules in force, writes by state, halts. Needs no credentials.",
    ),
    "log": Entry(panel=LOOK, about="Print the action log: what was seen, decided, sent and proved, oldest first."),
    "writes": Entry(panel=LOOK, about="Print every write, oldest first: its state, what holds it, and why."),
    "explain": Entry(panel=LOOK, about="Say why each rule did or did not fire for an event: offline, from the ledger."),
    "approve": Entry(
        panel=DECIDE,
        module="decisions",
        about="Let waiting writes go. They still pass every guard: what is no longer true is not sent.",
    ),
    "reject": Entry(
        panel=DECIDE,
        about="Drop writes that wait, are planned, or need a person. They are not planned again in the same episode.",
        module="decisions",
    ),
    "resolve": Entry(
        panel=DECIDE,
        module="decisions",
        about="Say whether a write in needs_human took effect. All of the given writes, or none.",
    ),
    "again": Entry(
        panel=DECIDE,
        module="decisions",
        about="Reopen what ended without effect: rejected, refused, skipped, shadowed, cancelled. All of it, or "
        "nothing.",
    ),
    "undo": Entry(
        panel=DECIDE,
        module="decisions",
        about="Put back what writes changed: the value recorded before each, as new writes with guards and log of "
        "their own.",
    ),
    "halt": Entry(
        panel=DECIDE,
        about="Stop new writes: once this has returned, none is sent, also by a running daemon. Reading and deciding "
        "go on.",
    ),
    "resume": Entry(
        panel=DECIDE,
        about="End halts: those that name this partner and this rule, or without either all of them.",
        module="halt",
    ),
    "ledger": Entry(panel=KEEP, about="Back up, upgrade, accept a restored ledger, or take it to another service."),
}


class Commands(TyperGroup):
    """The group of all commands; each is imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - typer's own signature
        """Every name, also of what nobody has imported yet."""
        return list(dict.fromkeys((*ENTRIES, *self.commands)))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - typer's own signature
        """The command, or what the help needs of one that is not imported."""
        if cmd_name not in self.commands and cmd_name in ENTRIES:
            return _announced(cmd_name)
        return self.commands.get(cmd_name)

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's own signature
        """The options of the program itself."""
        return _without_bool(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer's own signature
        """Imports the command that is called. Where there is none of that name, the nearest is suggested."""
        entry = ENTRIES.get(args[0])
        stops = entry is not None and entry.stops
        if stops:
            signals.end_at_once(0)
        if entry is not None and args[0] not in self.commands:
            import_module(f"worker.cli.{entry.module or args[0]}")
            self.commands = _registered()
        elif entry is None:
            self.commands = {name: _announced(name) for name in ENTRIES} | dict(self.commands)
        if not stops:
            signals.usual()
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            _without_bool(command.get_params(ctx))
            command.help = flowing(command.help or "")
        return name, command, rest

    def make_context(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 - typer's own signature
        """Reads the arguments, which may print the help."""
        with guarded():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's own signature
        """Runs the command."""
        with guarded():
            return super().invoke(ctx)


def _announced(name: str) -> TyperCommand:
    entry = ENTRIES[name]
    return TyperCommand(name, callback=None, help=entry.about, rich_help_panel=entry.panel)


def _registered() -> dict[str, Any]:
    """The commands that are imported by now, as typer builds them."""
    from worker.cli.app import app  # noqa: PLC0415 - the app is made of the group above

    return dict(typer.main.get_group(app).commands)


def _without_bool(params: Any) -> Any:  # noqa: ANN401 - typer's parameters, which have no public type
    """A flag takes no value, so its help must not show one."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def flowing(text: str) -> str:
    """A help whose lines are as long as the terminal is wide, not as they stand in the code: typer joins those of the
    first paragraph only, and the others came out in long and short lines by turns."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(line.strip() for line in one.split("\n")) for one in paragraphs)


def register() -> None:
    """Makes all commands known."""
    from worker.cli import (  # noqa: F401, PLC0415 - imported for what they register, and they import the app
        backtest,
        check,
        decisions,
        explain,
        halt,
        ledger,
        log,
        plan,
        probe,
        run,
        sandbox,
        status,
        test,
        writes,
    )
