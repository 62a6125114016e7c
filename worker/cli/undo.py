"""``undo``: puts back what writes changed, as new writes, and names what it cannot or may not."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from worker.cli.app import app, invocation
from worker.cli.common import config_of, given, moment, operator
from worker.cli.deciding import stored
from worker.cli.output import Format, print_json, print_table, say
from worker.cli.wiring import operators_ledger
from worker.engine.operators import WITHOUT_EFFECT, Word
from worker.engine.undoing import Undo, undo_of
from worker.ledger.reading import LedgerReader
from worker.model.errors import NotFound, UsageError
from worker.model.facts import Json
from worker.model.ids import WriteId
from worker.model.writes import UNSENT, UNSETTLED, Write
from worker.rules.nearest import meant
from worker.system import utc_now
from worker.writes.undo import Kept, may_have_effect

TABLE = ("write", "event", "action", "becomes", "undone_by", "why")
LOOK = "campaign-worker writes lists them"


@app.command("undo")
def undo(
    context: typer.Context,
    because: Annotated[str, typer.Option(help="Why; it is kept in the log.")],
    ids: Annotated[list[int] | None, typer.Argument(help="The writes, by number, as `writes` shows them.")] = None,
    rule: Annotated[
        str | None, typer.Option("--rule", help="All that this rule has sent instead; with --since.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="With --rule: how long ago (10m, 2h) or a time (2026-03-01T02:00:00Z)."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    output: Annotated[Format, typer.Option("--format", help="table or json.")] = Format.table,
) -> None:
    """Put back what writes changed: the value recorded before each, as new writes with guards and log of their own.

    What another hand has changed since is left alone, and what cannot be undone (a boost) is named. Exits 1 where
    nothing is left to put back. The rule stays in force: halt or correct it first, or it may do the same again.

    Example: campaign-worker undo --rule pause-cancelled --since 30m --dry-run --because "the import was wrong"
    """
    word = Word(because=given(because), by=operator(), at=utc_now())
    asked = _asked(ids or [], rule, moment(since, "--since"))
    config = config_of(invocation(context))
    with operators_ledger(config) as ledger:
        chosen = _of_rule(ledger, *asked) if isinstance(asked, tuple) else [_one(ledger, number) for number in asked]
        found = undo_of(ledger, chosen, word, shadow=config.mode == "shadow")
        made: Sequence[Write] = ()
        if not dry_run:
            made = stored(lambda: ledger.apply(found.commit(word)), tries=1)
    rows = [*_undone(found, made, dry_run=dry_run), *map(_kept, found.kept)]
    if output is Format.json:
        print_json(rows)
    else:
        print_table("undo (dry run: nothing is changed)" if dry_run else "undo", TABLE, map(_cells, rows))
    if not found.plans:
        say("there is nothing to put back; nothing was changed")
        raise typer.Exit(1)


def _asked(ids: list[int], rule: str | None, since: datetime | None) -> list[int] | tuple[str, datetime]:
    if ids and rule is None and since is None:
        return list(dict.fromkeys(ids))
    if not ids and rule is not None and since is not None:
        return rule, since
    raise UsageError("name writes by number, or all that a rule sent with --rule and --since, and not both", hint=LOOK)


def _one(ledger: LedgerReader, number: int) -> Write:
    write = ledger.write(WriteId(number))
    if write is None:
        raise NotFound(f"there is no write {number}; nothing was changed", hint=LOOK)
    if may_have_effect(write):
        return write
    what, hint = _nothing_to_put_back(write)
    raise NotFound(f"write {number} is {write.state}{what}; nothing was changed", hint=hint)


def _nothing_to_put_back(write: Write) -> tuple[str, str]:
    """Why a write that does not pass `may_have_effect` is not undone, and what to do. Only of an end without effect is
    it said that there was none: one that a person must settle may have had one, whatever this ledger knows of it."""
    life = f"campaign-worker log --write {write.id}"
    if write.state in UNSENT:
        return ": there is nothing to put back yet", f"campaign-worker reject {write.id} drops it"
    if write.state in WITHOUT_EFFECT:
        return " and had no effect", f"{life} shows its life"
    if write.state in UNSETTLED:
        settle = f"settle it first: look at `{life}`, then `campaign-worker resolve {write.id}`"
        return ": whether it took effect is not known", settle
    return ": what it changed is not known here", f"{life} shows its life"


def _of_rule(ledger: LedgerReader, rule: str, since: datetime) -> list[Write]:
    writes = ledger.writes(rule=rule)
    unsent = [write for write in writes if write.state in UNSENT]
    if unsent:
        say(f"{len(unsent)} more are not sent yet: campaign-worker reject --rule {rule} drops them")
    sent = [write for write in writes if write.last_sent_at and write.last_sent_at >= since and may_have_effect(write)]
    if not sent:
        others = {write.key.rule for write in ledger.writes() if may_have_effect(write)}
        why = f"rule '{rule}' has sent nothing since {since:%Y-%m-%dT%H:%M:%SZ} that may have had an effect"
        raise NotFound(f"{why}{meant(rule, others)}; nothing was changed", hint=LOOK)
    return sent


def _undone(found: Undo, made: Sequence[Write], *, dry_run: bool) -> list[dict[str, Json]]:
    rows: list[dict[str, Json]] = []
    for put, at in found.undone:
        back = ", ".join(f"{name} {words}" for name, words in put.words().items())
        for write in put.undoes:
            becomes = "would be undone" if dry_run else "undone"
            rows.append(_row(write, becomes, int(made[at].id) if made else None, back))
    return rows


def _kept(kept: Kept) -> dict[str, Json]:
    return _row(kept.write, "cannot be undone" if kept.cannot else "left alone", None, kept.why)


def _row(write: Write, becomes: str, undone_by: int | None, why: str) -> dict[str, Json]:
    return {
        "write": int(write.id),
        "partner": write.key.partner,
        "event": write.key.event,
        "action": write.intent.action,
        "becomes": becomes,
        "undone_by": undone_by,
        "why": why,
    }


def _cells(row: dict[str, Json]) -> list[Json]:
    return [row[name] for name in TABLE]
