"""What ``log --verify`` does: the ledger's own chain, or an export's on a machine that has nothing but the file.

An export is compared with a head that was noted when it was made: without one, a log that somebody wrote anew from
beginning to end would hold as well.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TextIO

import typer

from worker.cli.output import counted
from worker.ledger.exporting import Head, Verified, read_export, verified
from worker.ledger.reading import LedgerReader
from worker.model.commits import LogFilter
from worker.model.errors import UsageError

STDIN = "-"


def head_of(text: str | None) -> Head | None:
    """The head that a person gives. Raises `UsageError`."""
    if text is None:
        return None
    try:
        return Head.parse(text)
    except ValueError as error:
        hint = (
            "take it from the export's last line on stderr, from its file name, or from `campaign-worker log --verify`"
        )
        raise UsageError(f"--against: {error}", hint=hint) from error


def verify_ledger(ledger: LedgerReader, against: Head | None) -> None:
    """Says whether the ledger's chain holds and contains the head; exits 1 where it does not."""
    broken = ledger.verify()
    if broken is not None:
        _broken(broken.seq, broken.why)
    newest = ledger.last_seq()
    if against is not None and against.seq > 0:
        found = next(ledger.log(LogFilter(after_seq=against.seq - 1, limit=1)), None)
        if found is None or found["seq"] != against.seq:
            _broken(newest + 1, f"the log ends at record {newest} and has no record {against.seq}: its end was cut off")
        elif found["hash"] != against.hash:
            _broken(against.seq, f"record {against.seq} has another hash than the head: this is another log")
    last = next(ledger.log(LogFilter(after_seq=newest - 1, limit=1)), None) if newest else None
    head = "" if last is None else f"; head {Head(seq=newest, hash=str(last['hash']))}"
    print(f"the chain holds: {newest} records{head}")


def verify_export(file: str, against: Head | None) -> None:
    """Says whether an export's chain holds and reaches the head; exits 1 where it does not."""
    with _opened(file) as lines:
        try:
            first = next(lines, "")
            result = verified(read_export(chain([first] if first else [], lines)), against)
        except (ValueError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{file}: this is no export: {error}", hint="JSON lines or CSV, as `log` prints them"
            ) from error
    if not first and against is None:
        hint = "export the log anew; that a log was empty is shown by its head alone, as --against"
        raise UsageError(f"{file}: this is no export: it is empty", hint=hint)
    if result.broken is not None:
        _broken(result.broken.seq, result.broken.why)
    print(_praise(result, against))


def _praise(result: Verified, against: Head | None) -> str:
    if result.gaps:
        places = counted(result.gaps, "place")
        return f"what is there holds: {result.count} records; at {places} others are not there, nothing is said of them"
    head = f"; head {result.head}" if result.head is not None else ""
    unbound = "" if against is not None else "; give the head that was noted at the export as --against"
    return f"the chain holds from the first record: {result.count} records{head}{unbound}"


def _broken(seq: int, why: str) -> None:
    print(f"the chain is broken at seq {seq}: {why}")
    raise typer.Exit(1)


@contextmanager
def _opened(file: str) -> Iterator[TextIO]:
    if file == STDIN:
        sys.stdin.reconfigure(encoding="utf-8", newline="")  # type: ignore[union-attr] # a text stream, outside of tests
        yield sys.stdin
        return
    try:
        with Path(file).open(encoding="utf-8-sig", newline="") as opened:
            yield opened
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint="name the file of an export") from error
