"""``log``: the action log, filtered, followed, exported, verified."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Annotated, cast

import typer

from worker.cli.app import app, invocation
from worker.cli.common import config_of, moment, reader_of
from worker.cli.exchanged import exchanged
from worker.cli.opening import ledger_url
from worker.cli.output import LogFormat, moment_shown, print_json, print_line, print_table, say
from worker.cli.searching import say_nothing_found
from worker.cli.verifying import head_of, verify_export, verify_ledger
from worker.engine.wanted import wanted_of
from worker.ledger.chain import GENESIS
from worker.ledger.exporting import Head, csv_head, csv_lines, json_lines
from worker.ledger.reading import LedgerReader
from worker.model.commits import LogFilter
from worker.model.errors import UsageError, printable
from worker.model.facts import Json
from worker.model.ids import WriteId
from worker.model.records import WORKER
from worker.system import pause

FOLLOW_EVERY_S = 0.5
TABLE = ("seq", "at", "kind", "reason", "partner", "event", "rule", "write", "action", "why")


@app.command("log")
def log(
    context: typer.Context,
    since: Annotated[str | None, typer.Option(help="How long ago (2h, 7d) or a time (2026-03-01T12:00:00Z).")] = None,
    partner: Annotated[str | None, typer.Option(help="Only this partner.")] = None,
    event: Annotated[str | None, typer.Option(help="Only this event.")] = None,
    rule: Annotated[str | None, typer.Option(help="Only this rule.")] = None,
    write: Annotated[int | None, typer.Option(help="Only this write: its whole life.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on printing new records until interrupted.")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Recompute the hash chain; exit 1 where it breaks, or its end cannot be checked."
        ),
    ] = False,
    source: Annotated[
        str | None, typer.Option("--from", help="With --verify: an export instead of the ledger; - for stdin.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="With --verify: the head that the log must contain, SEQ:HASH.")
    ] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="With --from: the export may lack records, as a narrowed one does, or be later than the head.",
        ),
    ] = False,
    output: Annotated[
        LogFormat, typer.Option("--format", help="table, json, jsonl (one record a line) or csv.")
    ] = LogFormat.table,
) -> None:
    """Print the action log: what was seen, decided, sent and proved, oldest first.

    Examples: campaign-worker log --event e42      campaign-worker log --write 7 --format jsonl

    For an auditor: campaign-worker log --format csv > log.csv prints the chain's head on stderr; keep it apart from the
    file. On any other machine, campaign-worker log --verify --from log.csv --against HEAD then says whether the file is
    what was exported: 0, or 1 where a record was changed, left out or added.
    """
    wanted = LogFilter(since=moment(since, "--since"), partner=partner, event=event, rule=rule, write=write)
    if verify and (follow or wanted != LogFilter()):
        hint = "it takes every record, and ends; --from and --against go with it"
        raise UsageError("--verify looks at the whole log and cannot be narrowed or followed", hint=hint)
    if verify:
        _verify(context, source, against, partial=partial)
        return
    if source is not None or against is not None or partial:
        hint = "campaign-worker log --verify --against HEAD"
        raise UsageError("--from, --against and --partial go with --verify", hint=hint)
    with reader_of(invocation(context)) as ledger:
        if follow:
            _follow(ledger, wanted, output)
        else:
            _print(ledger, wanted, output)


def _verify(context: typer.Context, source: str | None, against: str | None, *, partial: bool) -> None:
    """An export needs no config; the ledger is the config's."""
    if partial and source is None:
        raise UsageError("--partial goes with --from", hint="the ledger itself is never verified in part")
    head = head_of(against)
    if source is not None:
        verify_export(source, head, partial=partial)
    else:
        verify_ledger(ledger_url(config_of(invocation(context))), head)


def _print(ledger: LedgerReader, wanted: LogFilter, output: LogFormat) -> None:
    found = ledger.log(wanted)
    first = next(found, None)
    records: Iterable[dict[str, Json]] = () if first is None else chain((first,), found)
    if first is None:
        _nothing(ledger, wanted)
        if output is LogFormat.table:
            return
    if output in (LogFormat.jsonl, LogFormat.csv):
        _export(records, output, whole=wanted == LogFilter())
    elif output is LogFormat.json:
        listed = list(records)
        print_json(listed)
        if wanted == LogFilter():
            _say_head(listed[-1] if listed else None)
    else:
        whole_life = wanted.write is not None
        print_table(_title(ledger, wanted), TABLE, (_row(record, told=whole_life) for record in records))


def _export(records: Iterable[dict[str, Json]], output: LogFormat, *, whole: bool) -> None:
    """A line a record. Of the whole log the head is said, which an auditor keeps apart from the file."""
    if output is LogFormat.csv:
        sys.stdout.write(csv_head())
    last = None
    for record in records:
        line = csv_lines([record]) if output is LogFormat.csv else json_lines([record])
        sys.stdout.write(printable(line) if sys.stdout.isatty() else line)  # a file has it as it is, for its hash
        last = record
    sys.stdout.flush()
    if whole:
        _say_head(last)


def _say_head(last: dict[str, Json] | None) -> None:
    head = Head(seq=0, hash=GENESIS) if last is None else Head(seq=cast(int, last["seq"]), hash=str(last["hash"]))
    say(f"head {head}")


def _nothing(ledger: LedgerReader, wanted: LogFilter) -> None:
    if wanted.write is not None and ledger.write(WriteId(wanted.write)) is None:
        say(f"there is no write {wanted.write}; campaign-worker writes lists them")
        return
    asked = {"partner": wanted.partner, "event": wanted.event, "rule": wanted.rule}
    more = {"write": wanted.write, "since": wanted.since}
    say_nothing_found(ledger, {**asked, **{name: str(one) for name, one in more.items() if one is not None}}, "record")


def _title(ledger: LedgerReader, wanted: LogFilter) -> str:
    """Above a write's life stands what it wants, and how it stands."""
    write = ledger.write(WriteId(wanted.write)) if wanted.write is not None else None
    if write is None:
        return "action log"
    what = f"{write.intent.action} {wanted_of(ledger, write).line}".rstrip()
    return printable(f"write {write.id}, {write.state}: {what}")


def _row(record: dict[str, Json], *, told: bool) -> list[Json]:
    """A row of the table; ``told``: with what was sent, answered and read, which somebody must know to settle it."""
    row = [moment_shown(record[name]) if name == "at" else record[name] for name in TABLE[:-1]]
    return [*row, "\n".join([_why(record), *(exchanged(record) if told else ())])]


def _why(record: dict[str, Json]) -> str:
    """Why; and by whom, where it was a person."""
    by = "" if record["by"] == WORKER else f"(by {record['by']})"
    return f"{record['why'] or ''} {by}".strip()


def _follow(ledger: LedgerReader, wanted: LogFilter, output: LogFormat) -> None:
    if output in (LogFormat.json, LogFormat.csv):
        say(f"--follow prints records as they come: {output.value} has an end, so jsonl is printed")
        output = LogFormat.jsonl
    try:
        for record in _coming(ledger, wanted):
            if output is LogFormat.jsonl:
                print_line(record)
            else:
                named = (str(record[name]) for name in TABLE[:-1] if record[name] is not None)
                said = "  ".join((*named, _why(record)))
                print(printable(said), flush=True)
    except KeyboardInterrupt:
        return


def _coming(ledger: LedgerReader, wanted: LogFilter) -> Iterator[dict[str, Json]]:
    """Records for ever. The next look starts after the newest record of the last, whether it matched or not."""
    after = 0
    while True:
        newest = ledger.last_seq()
        for record in ledger.log(replace(wanted, after_seq=after)):
            seq = record["seq"]
            after = max(after, seq if isinstance(seq, int) else 0)
            yield record
        after = max(after, newest)
        pause(FOLLOW_EVERY_S)
