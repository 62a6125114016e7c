"""The command line as a table: every command with its arguments and options, read from the Typer app itself.

The names come from the parser that really runs, the kinds of values from the functions' annotations; nothing is listed
by hand. Used by the reference and by the check that no page names a command or an option that does not exist.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from inspect import isclass
from pathlib import Path
from types import NoneType
from typing import Literal, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from worker.cli.app import COMMANDS, app, loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One argument or option. ``names``: as typed, none for an argument; ``value``: what it takes, empty for a flag."""

    names: tuple[str, ...]
    value: str
    about: str
    required: bool
    default: str

    @property
    def spelled(self) -> str:
        """As it is typed, with its value."""
        return f"{', '.join(self.names)} {self.value}".strip()

    @property
    def default_words(self) -> str:
        """How the default, or the want of one, is said behind the words."""
        if self.required:
            return " Required."
        return f" Default: `{self.default}`." if self.default else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command by its path, such as ``ledger backup``; the empty path is the program itself."""

    path: str
    about: str
    options: tuple[Option, ...]
    group: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Every spelling of every option."""
        return frozenset(name for option in self.options for name in option.names)

    @property
    def usage(self) -> str:
        """The command with its arguments and the options that must be there."""
        parts = [self.path]
        for option in self.options:
            if not option.names:
                parts.append(option.value if option.required else f"[{option.value}]")
            elif option.required:
                parts.append(f"{option.names[0]} {option.value}")
        return " ".join(parts)


def commands() -> tuple[Command, ...]:
    """The program, then its commands in the order of its help, groups before what they hold."""
    root = typer.main.get_command(app)
    if not isinstance(root, TyperGroup):
        raise TypeError("the app is not a group of commands")
    root.commands = {name: loaded(name) for name in COMMANDS}
    return tuple(_within(root, ""))


def _within(group: TyperGroup, path: str) -> Iterator[Command]:
    yield _one(group, path, group=True)
    for name, found in sorted(group.commands.items()):
        below = f"{path} {name}".strip()
        if isinstance(found, TyperGroup):
            yield from _within(found, below)
        elif isinstance(found, TyperCommand):
            yield _one(found, below)


def _one(command: TyperCommand | TyperGroup, path: str, *, group: bool = False) -> Command:
    hints = get_type_hints(command.callback) if command.callback is not None else {}
    options = tuple(
        _option(parameter, hints.get(parameter.name or ""))
        for parameter in command.params
        if isinstance(parameter, TyperOption | TyperArgument) and "completion" not in (parameter.name or "")
    )
    return Command(path=path, about=command.help or "", options=options, group=group)


def _option(parameter: TyperOption | TyperArgument, hint: object) -> Option:
    named = isinstance(parameter, TyperOption)
    default = parameter.default
    shown = "" if default is None or isinstance(default, bool) or callable(default) else str(default)
    return Option(
        names=tuple(parameter.opts) if named else (),
        value=_value(hint, "" if named else (parameter.name or "").upper()),
        about=parameter.help or "",
        required=parameter.required,
        default=shown,
    )


def _value(hint: object, name: str) -> str:
    """What is typed for a value of this type. ``name``: of an argument, which says more than its type."""
    parts = [part for part in get_args(hint) if part is not NoneType]
    if get_origin(hint) is Literal:
        return "|".join(str(part) for part in parts)
    if isclass(hint) and issubclass(hint, Enum):
        return "|".join(str(member.value) for member in hint)
    if get_origin(hint) is list:
        return f"{name.removesuffix('S') or _value(parts[0], '')}…"
    if parts:
        return _value(parts[0], name)
    if hint is bool:
        return ""
    return name or {int: "N", Path: "PATH"}.get(hint, "TEXT")  # type: ignore[call-overload]  # any type may be asked for
