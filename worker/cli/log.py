"""``log``: the action log, filtered, followed, exported, verified; ``writes``: every write and what became of it."""

import csv
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, NoReturn, TextIO, cast

import typer

from worker.cli.common import (
    OnlyEvent,
    OnlyPartner,
    OnlyRule,
    beginning,
    clock_of,
    config_of,
    ledger_url,
    moment,
    no_ledger,
    reader_of,
    say_nothing_found,
    strangers,
)
from worker.cli.output import Format, LogFormat, going_on, print_json, print_table, put, say
from worker.config import Config
from worker.engine.derived import told
from worker.engine.explaining import wanted_of
from worker.guards import as_of_now
from worker.ledger.log import Head, csv_head, csv_lines, json_lines, read_export, verified
from worker.ledger.reading import LedgerReader, open_reading
from worker.model.commits import KINDS, WORKER, ChainBreak, LogFilter
from worker.model.errors import UsageError, printable
from worker.model.facts import Json, WriteId
from worker.model.writes import State
from worker.rules.spelling import counted, meant
from worker.system import pause
from worker.web.views import day_and_time, writes_json
from worker.writes.life import MOVES

app = typer.Typer()

FOLLOW_EVERY_S = 0.5
TABLE = ("seq", "at", "kind", "reason", "partner", "event", "rule", "write", "action", "why")
WRITE = ("id", "state", "reason", "partner", "event", "rule", "action")
WRITES_TABLE = (*WRITE, "wanted", "attempt", "held_by", "changed_at", "why")
STDIN = "-"


@app.command("writes")
def writes(
    context: typer.Context,
    state: Annotated[
        str | None, typer.Option(help="Only this state, for instance needs_human.", autocompletion=beginning(MOVES))
    ] = None,
    event: OnlyEvent = None,
    partner: OnlyPartner = None,
    rule: OnlyRule = None,
    output: Format = "table",
) -> None:
    """Print every write, oldest first: its state, what holds it, and why.

    Example: campaign-worker writes --state needs_human
    """
    _one_of("state", state, MOVES)
    config, asked = config_of(context), {"partner": partner, "event": event, "rule": rule, "state": state}
    with reader_of(config) as ledger:
        halts = ledger.halts(clock_of(config).now())
        found = ledger.writes(state=cast("State | None", state), event=event, partner=partner, rule=rule)
        known = bool(found) or say_nothing_found(ledger, config, asked, "write")
        shown = [(writes_json(as_of_now(write, halts)), wanted_of(ledger, write)) for write in found]
    if output == "json":
        print_json([{**row, **wanted.told} for row, wanted in shown])
    elif shown:
        rows = (
            {**row, "wanted": wanted.line, "changed_at": day_and_time(str(row["changed_at"]))} for row, wanted in shown
        )
        print_table("writes", WRITES_TABLE, ([row[name] for name in WRITES_TABLE] for row in rows))
    if not known:
        raise typer.Exit(1)


def _one_of(what: str, word: str | None, known: Collection[str]) -> None:
    """Raises `UsageError` for a word that there is not."""
    if word is not None and word not in known:
        hint = f"one of: {', '.join(known)}"
        raise UsageError(f"--{what}: there is no {what} '{word}'{meant(word, known)}", hint=hint)


@app.command("log")
def log(
    context: typer.Context,
    since: Annotated[str | None, typer.Option(help="How long ago (2h, 7d) or a time (2026-03-01T12:00:00Z).")] = None,
    partner: OnlyPartner = None,
    event: OnlyEvent = None,
    rule: OnlyRule = None,
    write: Annotated[int | None, typer.Option(help="Only this write: its whole life.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="Only this kind of record, for instance fired.", autocompletion=beginning(KINDS))
    ] = None,
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
        list[str] | None,
        typer.Option(help="With --verify: the head that the log must contain, SEQ:HASH; in a fleet one a chain."),
    ] = None,
    output: LogFormat = "table",
) -> None:
    """Print the action log: what was seen, decided, sent and proved, oldest first.

    Examples: campaign-worker log --event e42      campaign-worker log --write 7 --format jsonl

    For an auditor: campaign-worker log --format csv > log.csv prints the chain's head on stderr; keep it apart from the
    file. On any other machine, campaign-worker log --verify --from log.csv --against HEAD then says whether the file is
    what was exported: 0, or 1 where a record was changed, left out or added.
    """
    _one_of("kind", kind, KINDS)
    wanted = LogFilter(partner=partner, event=event, rule=rule, write=write, kind=kind)
    if verify and (follow or since is not None or wanted != LogFilter()):
        hint = "it takes every record, and ends; --from and --against go with it"
        raise UsageError("--verify looks at the whole log and cannot be narrowed or followed", hint=hint)
    if not verify and (source is not None or against):
        raise UsageError("--from and --against go with --verify", hint="campaign-worker log --verify --against HEAD")
    if verify:
        with going_on("the chain of hashes is recomputed"):
            if source is not None:
                verify_export(source, heads_of(against))  # an export needs no config
            else:
                verify_ledger(ledger_url(config_of(context)), heads_of(against))
        return
    config = config_of(context)
    wanted = replace(wanted, since=moment(config, since))
    with reader_of(config) as ledger:
        if follow:
            for line in strangers(ledger, config, {"partner": partner, "event": event, "rule": rule}):
                say(line)
            _follow(ledger, wanted, output)
        elif not _print(ledger, config, wanted, output):
            raise typer.Exit(1)


def _print(ledger: LedgerReader, config: Config, wanted: LogFilter, output: LogFormat) -> bool:
    """Whether what was asked about is known."""
    found = ledger.log(wanted)
    first = next(found, None)
    records: Iterable[dict[str, Json]] = () if first is None else chain((first,), found)
    whole = wanted == LogFilter()
    known = first is not None or _say_nothing(ledger, config, wanted)
    if output in ("jsonl", "csv"):
        _export(records, output, whole=whole)
    elif output == "json":
        listed = list(records)
        print_json(listed)
        if whole:
            _say_heads({one["chain"]: one for one in listed})
    elif first is not None:
        life = wanted.write is not None
        print_table(_title(ledger, wanted), TABLE, (_row(record, whole=life) for record in told(ledger, records)))
    return known


def _export(records: Iterable[dict[str, Json]], output: LogFormat, *, whole: bool) -> None:
    """A line a record. Of the whole log the head is said, which an auditor keeps apart from the file."""
    if output == "csv":
        sys.stdout.write(csv_head())
    ends: dict[Json, dict[str, Json]] = {}
    for record in records:
        put(csv_lines([record]) if output == "csv" else json_lines([record]))
        ends[record["chain"]] = record
    sys.stdout.flush()
    if whole:
        _say_heads(ends)


def _say_heads(ends: Mapping[Json, Mapping[str, Json]]) -> None:
    """Where each chain ends with the last record that was printed of it."""
    heads = [Head(seq=cast(int, one["seq"]), hash=str(one["hash"]), chain=str(one["chain"])) for one in ends.values()]
    for head in heads or [Head()]:
        say(f"head {head}")


def _say_nothing(ledger: LedgerReader, config: Config, wanted: LogFilter) -> bool:
    if wanted.write is not None and ledger.write(WriteId(wanted.write)) is None:
        say(f"there is no write {wanted.write}; campaign-worker writes lists them")
        return False
    asked = {name: getattr(wanted, name) for name in ("partner", "event", "rule", "write", "since", "kind")}
    return say_nothing_found(ledger, config, asked, "record")


def _title(ledger: LedgerReader, wanted: LogFilter) -> str:
    """Above a write's life stands what it wants, and how it stands."""
    write = ledger.write(WriteId(wanted.write)) if wanted.write is not None else None
    if write is None:
        return "action log"
    what = f"{write.intent.action} {wanted_of(ledger, write).line}".rstrip()
    return printable(f"write {write.id}, {write.state}: {what}")


def _row(record: dict[str, Json], *, whole: bool) -> list[Json]:
    """A row of the table; ``whole``: with what was sent, answered and read, which somebody must know to settle it."""
    shown = {**record, "at": day_and_time(str(record["at"]))}
    return [*(shown[name] for name in TABLE[:-1]), "\n".join([_why(record), *(exchanged(record) if whole else ())])]


def _why(record: dict[str, Json]) -> str:
    """Why; and by whom, where it was an operator."""
    by = "" if record["by"] == WORKER else f"(by {record['by']})"
    return f"{record['why'] or ''} {by}".strip()


def exchanged(record: Mapping[str, Json]) -> Iterator[str]:
    """What a record says of the wire, in lines for an operator: the request, the answer, the read. Who is asked whether
    a write took effect must know what was sent, and by which request id the service knows it."""
    request, response, evidence = record.get("request"), record.get("response"), record.get("evidence")
    if isinstance(request, Mapping):
        yield f"{request.get('method')} {request.get('url')}"
        if request.get("body") is not None:
            yield f"body {json.dumps(request['body'], ensure_ascii=False)}"
        yield f"before: {json.dumps(record.get('before'), ensure_ascii=False)}"
    if isinstance(response, Mapping) and "status" in response:
        waits = response.get("retry_after")
        more = "" if waits is None else f", Retry-After {waits} s"
        yield f"answered {response['status']} in {response.get('took_ms')} ms{_request_id(response)}{more}"
    if isinstance(evidence, Mapping) and evidence.get("get") is not None:
        yield f"GET {evidence['get']}: {evidence.get('status') or 'no answer'}{_request_id(evidence)}"


def _request_id(answer: Mapping[str, Json]) -> str:
    known = answer.get("x_request_id")
    return "" if known is None else f", x-request-id {known}"


def _follow(ledger: LedgerReader, wanted: LogFilter, output: LogFormat) -> None:
    """Records for ever. The next poll starts after the newest records of the last, whether they matched or not."""
    if not ledger.made:  # which was said; what is made later is another than what is open here
        raise typer.Exit(1)
    if output in ("json", "csv"):
        say(f"--follow prints records as they come: {output} has an end, so jsonl is printed")
        output = "jsonl"
    after: dict[str, int] = {}
    with suppress(KeyboardInterrupt):
        while True:
            heads = {chain: head.seq for chain, head in ledger.heads().items()}
            for record in ledger.log_after(after, wanted):
                heads[str(record["chain"])] = cast(int, record["seq"])
                if output == "jsonl":
                    put(json_lines([record]))
                else:
                    (shown,) = told(ledger, [record])
                    named = (str(record[name]) for name in TABLE[:-1] if record[name] is not None)
                    print(printable("  ".join((*named, _why(shown)))))
                sys.stdout.flush()
            after = heads
            pause(FOLLOW_EVERY_S)


# ``--verify``: the ledger's own chain, or an export's on a machine that has nothing but the file.
#
# An export is compared with a head that was noted when it was made: without one, a log that somebody wrote anew from
# beginning to end would hold as well. One from which records were left out does not hold. The ledger is compared with
# its mark, as a start compares it: a chain shows no end that was cut off, so it is never said to hold where nobody can
# know.


def heads_of(texts: Iterable[str] | None) -> list[Head]:
    """The heads that an operator gives. Raises `UsageError`."""
    try:
        return [Head.parse(text) for text in texts or ()]
    except ValueError as error:
        hint = (
            "take it from the export's last line on stderr, from its file name, or from `campaign-worker log --verify`"
        )
        raise UsageError(f"--against: {error}", hint=hint) from error


def verify_ledger(url: str, against: Collection[Head]) -> None:
    """Says whether the ledger's chains hold, are as long as they were known to be, and contain the heads; exits 1 where
    not.

    Raises `NotFound` where there is no ledger: what was never made holds nothing.
    """
    with open_reading(url) as ledger:
        if not ledger.made:
            raise no_ledger(url)
        refused, heads, broken = ledger.refused(), ledger.heads(), ledger.verify(against)
    if broken is not None:
        _say_broken(broken)
    if refused is not None:
        put(f"the chain holds, but its end cannot be checked: {refused}\n")
        say(refused.hint)
        raise typer.Exit(1)
    for end in heads.values() or [Head()]:
        put(f"{_named(end.chain)} holds: {counted(end.seq, 'record')}{f'; head {end}' if end.seq else ''}\n")


def _named(chain: str) -> str:
    return f"the chain of {chain}" if chain else "the chain"


def verify_export(file: str, against: Collection[Head]) -> None:
    """Says whether an export's chains hold from their first records to the heads; exits 1 where they do not."""
    with _opened(file) as lines:
        try:
            first = next(lines, "")
            ends, broken = verified(read_export(chain([first] if first else [], lines)), against)
        except (ValueError, RecursionError, csv.Error) as error:
            hint = "JSON lines, a JSON array or CSV, as `log` prints them"
            raise UsageError(f"{file}: this is no export: {error}", hint=hint) from error
    if not first and not against:
        hint = "export the log anew; that a log was empty is shown by its head alone, as --against"
        raise UsageError(f"{file}: this is no export: it is empty", hint=hint)
    if broken is not None:
        _say_broken(broken)
    only = "; give the head that was noted at the export as --against: it alone shows that nothing was cut off"
    for last in ends.values() or [Head()]:
        put(
            f"{_named(last.chain)} holds from the first record: {counted(last.seq, 'record')}; head {last}"
            f"{'' if any(head.chain == last.chain for head in against) else only}\n"
        )


def _say_broken(broken: ChainBreak) -> NoReturn:
    put(f"{_named(broken.chain)} is broken at seq {broken.seq}: {broken.why}\n")
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
