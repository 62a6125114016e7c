"""The door between the commands and the shell: every error is told here, and lost output ends a command quietly.

A reader that has had enough (``| head -1``) is no error. An output that cannot be written (a full disk) is one, and is
said in a line. Nothing here knows a command.
"""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer

from worker.model.errors import InputErrors, WorkerError, printable

LOST = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""How writing to stdout or stderr fails; a file that a command opened itself has its name in the error."""


@contextmanager
def guarded() -> Iterator[None]:
    """Everything printed in the block is really out at its end. A closed pipe ends it with exit code 0."""
    try:
        try:
            yield
        except BaseException:
            _let_go()  # what the command has to say for itself is worth more than where its output went
            raise
        sys.stdout.flush()
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):
            raise typer.Exit(0) from None  # rich has seen the closed pipe first, and would make it exit code 1
        raise
    except OSError as error:
        if error.errno == errno.EPIPE:
            _let_go()
            raise typer.Exit(0) from None
        if error.filename is None and error.errno in LOST:
            _let_go()
            raise WorkerError(
                f"the output cannot be written: {error.strerror}", hint="look where stdout and stderr go"
            ) from None
        raise


def open_streams() -> None:
    """A shell can close a stream (``>&-``); what is written there is to go nowhere. Its number is taken as well, or the
    next file that is opened, the ledger's lock for instance, would get it, and the output of a library would go there.
    """
    for name, how in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), how, encoding="utf-8"))


def tell_error(error: WorkerError) -> None:
    """What, where, and what to do now, on stderr."""
    if isinstance(error, InputErrors):
        lines = [line for problem in error.problems for line in problem.lines]
    else:
        lines = [f"error: {error}", *([f"    {error.hint}"] if error.hint else [])]
    with suppress(OSError):
        for line in lines:
            print(printable(line, "\n\t"), file=sys.stderr)


def in_our_words(error: Exception) -> None:
    """Puts what is wrong with an argument into words for a person: typer passes on those of the library that reads it,
    which speak of inputs and of parsing."""
    reasons = getattr(error.__cause__, "errors", None)
    if reasons is None or not hasattr(error, "message"):
        return
    first = reasons()[0]
    limits = first.get("ctx", {})
    words = {
        "int_parsing": f"'{first.get('input')}' is no whole number.",
        "greater_than_equal": f"It must be {limits.get('ge')} or more.",
        "less_than_equal": f"It must be {limits.get('le')} or less.",
        "value_error": str(limits.get("error", error.message)),
    }
    error.message = words.get(first.get("type"), error.message)


def _let_go() -> None:
    """Points each stream that cannot be written at nothing, or Python would complain of it once more at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
