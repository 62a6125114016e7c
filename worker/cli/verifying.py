"""What ``log --verify`` does: the ledger's own chain, or an export's on a machine that has nothing but the file.

An export is compared with a head that was noted when it was made: without one, a log that somebody wrote anew from
beginning to end would hold as well. One from which records were left out does not hold, unless its reader says that it
is meant to be a part. The ledger is compared with its mark, as a start compares it: a chain shows no end that was cut
off, so it is never said to hold where nobody can know.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TextIO

import typer

from worker.cli.common import no_ledger
from worker.cli.output import counted, say
from worker.ledger.exporting import Head, Verified, read_export, verified
from worker.ledger.reading import open_reading
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


def verify_ledger(url: str, against: Head | None) -> None:
    """Says whether the ledger's chain holds, is as long as its mark says, and contains the head; exits 1 where not.

    Raises `NotFound` where there is no ledger: what was never made holds nothing.
    """
    with open_reading(url) as ledger:
        if not ledger.made:
            raise no_ledger(url)
        refused = ledger.refused()
        broken = ledger.verify()
        if broken is not None:
            _broken(broken.seq, broken.why)
        newest = ledger.last_seq()
        if against is not None and against.seq > 0:
            found = next(ledger.log(LogFilter(after_seq=against.seq - 1, limit=1)), None)
            if found is None or found["seq"] != against.seq:
                why = f"the log ends at record {newest} and has no record {against.seq}: its end was cut off"
                _broken(newest + 1, why)
            elif found["hash"] != against.hash:
                _broken(against.seq, f"record {against.seq} has another hash than the head: this is another log")
        last = next(ledger.log(LogFilter(after_seq=newest - 1, limit=1)), None) if newest else None
    if refused is not None:
        _unproved(f"the chain holds, but its end cannot be checked: {refused}", refused.hint)
    head = "" if last is None else f"; head {Head(seq=newest, hash=str(last['hash']))}"
    print(f"the chain holds: {counted(newest, 'record')}{head}")


def verify_export(file: str, against: Head | None, *, partial: bool = False) -> None:
    """Says whether an export's chain holds and reaches the head; exits 1 where it does not, or where it is not all
    that was exported. ``partial``: it need not be, and what is there is verified."""
    with _opened(file) as lines:
        try:
            first = next(lines, "")
            result = verified(read_export(chain([first] if first else [], lines)), against, partial=partial)
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"{file}: this is no export: {error}", hint="JSON lines, a JSON array or CSV, as `log` prints them"
            ) from error
    if not first and (against is None or partial):
        hint = "export the log anew; that a log was empty is shown by its head alone, as --against"
        raise UsageError(f"{file}: this is no export: it is empty", hint=hint)
    if result.broken is not None:
        _broken(result.broken.seq, result.broken.why)
    if result.gaps and not partial:
        _unproved(
            f"records are left out at {counted(result.gaps, 'place')}, the first of them is record {result.missing}: "
            f"this is not the whole log; what is there holds: {counted(result.count, 'record')}",
            "an export that was narrowed (--event, --since and the like) is verified with --partial",
        )
    if result.after and not partial:
        _unproved(
            f"{counted(result.after, 'record')} at the end came after the head, which says nothing of them: this is "
            f"not the export that the head was taken of, though its first {result.count - result.after} lead up to it",
            "give the head that was noted at this export; a later one than the head is verified with --partial",
        )
    print(_praise(result, against))


def _praise(result: Verified, against: Head | None) -> str:
    count = counted(result.count, "record")
    reached = against is None or result.count == result.tied
    if result.whole and reached:
        head = f"; head {result.head}" if result.head is not None else ""
        only = "; give the head that was noted at the export as --against: it alone shows that nothing was cut off"
        return f"the chain holds from the first record: {count}{head}{only if against is None else ''}"
    said = [f"what is there holds: {count}"]
    if result.gaps:
        said.append(f"at {counted(result.gaps, 'place')} others are not there, nothing is said of them")
    if result.tied:
        said.append(f"{counted(result.tied, 'record')} without a gap up to the head, and no more is tied to it")
    else:
        said.append("nothing ties them to a head: whoever makes such a file can make another")
    if result.after:
        said.append(f"{result.after} came after the head")
    return "; ".join(said)


def _broken(seq: int, why: str) -> None:
    print(f"the chain is broken at seq {seq}: {why}")
    raise typer.Exit(1)


def _unproved(why: str, hint: str) -> None:
    """What holds as far as it goes, and does not go as far as was asked."""
    print(why)
    say(hint)
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
