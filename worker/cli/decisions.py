"""``undo``: puts back what writes changed, as new writes, and names what it cannot or may not."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated

import typer

from worker.cli.common import config_of, engine_settings, given, moment, operator
from worker.cli.deciding import TRIES, Chosen, decide, stored
from worker.cli.output import Format, print_json, print_table, say
from worker.cli.wiring import operators_ledger
from worker.engine.explaining import Seen, wanted_of
from worker.engine.operators import (
    WITHOUT_EFFECT,
    Memories,
    Undo,
    Word,
    approved,
    last_of_its_rule,
    rejected,
    reopening,
    resolved,
    spoken,
    undo_of,
)
from worker.ledger.reading import LedgerReader
from worker.model.commits import Move
from worker.model.errors import NotFound, UsageError
from worker.model.facts import Json, WriteId
from worker.model.writes import UNSENT, UNSETTLED, Write
from worker.rules.nearest import meant
from worker.system import utc_now
from worker.writes.undo import NotUndone, may_have_effect

app = typer.Typer()

# ``approve`` and ``reject``: a person decides what waits.

Ids = Annotated[list[int] | None, typer.Argument(help="The writes, by number, as `writes` shows them.")]
RuleOption = Annotated[str | None, typer.Option("--rule", help="All of this rule instead: a whole burst.")]
Because = Annotated[str, typer.Option("--because", help="Why; it is kept in the log.")]


@app.command("approve")
def approve(
    context: typer.Context, ids: Ids = None, rule: RuleOption = None, because: Because = "no reason given"
) -> None:
    """Let waiting writes go. They still pass every guard: what is no longer true is not sent.

    Example: campaign-worker approve --rule pause-cancelled --because "the storm is real"
    """
    by, now, why = operator(), utc_now(), given(because)
    chosen = Chosen(ids=tuple(ids or ()), rule=rule, states=("waiting",))

    def verdict(ledger: Seen, write: Write) -> Move:
        return approved(write, because=why, by=by, now=now, amount=wanted_of(ledger, write).amount)

    decide(config_of(context), chosen, verdict)


@app.command("reject")
def reject(
    context: typer.Context, ids: Ids = None, rule: RuleOption = None, because: Because = "no reason given"
) -> None:
    """Drop writes that wait, are planned, or need a person. They are not planned again in the same episode.

    Example: campaign-worker reject 12 13 --because "the import was wrong"
    """
    by, now, why = operator(), utc_now(), given(because)
    chosen = Chosen(ids=tuple(ids or ()), rule=rule, states=("waiting", "planned", "needs_human"))
    decide(config_of(context), chosen, lambda _, write: rejected(write, because=why, by=by, now=now))


# ``resolve``: a person's verdict on a write that only a person can settle.


@app.command("resolve")
def resolve(
    context: typer.Context,
    ids: Annotated[
        list[int], typer.Argument(help="The writes, by number, as `writes --state needs_human` shows them.")
    ],
    because: Annotated[str, typer.Option(help="Why you know; it is kept in the log.")],
    applied: Annotated[bool, typer.Option("--applied", help="It took effect: the write is confirmed.")] = False,
    not_applied: Annotated[
        bool, typer.Option("--not-applied", help="It did not: grants exactly one more attempt, through all guards.")
    ] = False,
) -> None:
    """Say whether a write in needs_human took effect. All of the given writes, or none.

    Look at the evidence first: campaign-worker log --write ID. Then for instance:

    campaign-worker resolve 7 --applied --because "the event page shows PAUSED"
    """
    if applied == not_applied:
        raise UsageError(
            "say one of --applied and --not-applied", hint="look at `campaign-worker log --write ID` first"
        )
    why = given(because)
    config = config_of(context)
    settings = engine_settings(config)
    by, now = operator(), utc_now()

    def verdict(_: Seen, write: Write) -> Move:
        return resolved(write, applied=applied, because=why, by=by, now=now, settings=settings)

    decide(config, Chosen(ids=tuple(ids), states=("needs_human",)), verdict)


# ``again``: reopens what ended without effect, so that the next true look tries once more.

LOOK = "campaign-worker writes lists them"


@app.command("again")
def again(
    context: typer.Context,
    because: Annotated[str, typer.Option(help="Why; it is kept in the log.")],
    ids: Annotated[list[int] | None, typer.Argument(help="The writes, by number, as `writes` shows them.")] = None,
    rule: Annotated[str | None, typer.Option("--rule", help="All of this rule instead, of its last episodes.")] = None,
    event: Annotated[str | None, typer.Option("--event", help="With --rule: only of this event.")] = None,
) -> None:
    """Reopen what ended without effect: rejected, refused, skipped, shadowed, cancelled. All of it, or nothing.

    The episode is closed, and the next look at which the condition is true opens another, which fires and passes every
    guard as any other does. A change (`on_change`) is pending again against the value before it. Nothing is sent by
    this command.

    Example: campaign-worker again 12 --because "the budget range is corrected"
    """
    word = Word(because=given(because), by=operator(), at=utc_now())
    if bool(ids) == (rule is not None) or (event is not None and rule is None):
        raise UsageError(
            "name writes by number, or all of a rule with --rule and perhaps --event, and not both", hint=LOOK
        )
    with operators_ledger(config_of(context)) as ledger:

        def reopened() -> list[Write]:
            found = _numbered(ledger, ids or ()) if rule is None else _of_rule(ledger, rule, event)
            memories = _memories(ledger, found)
            if rule is None:
                for write in found:
                    _must_be_last(write, memories)
            writes = [write for write in found if last_of_its_rule(write, memories)]
            if not writes:
                raise _nothing(ledger, rule or "", event)
            ledger.reopen(reopening(writes, memories), [spoken(write, "again", word) for write in writes])
            return writes

        writes = stored(reopened, tries=1 if rule is None else TRIES)
    for write in writes:
        say(f"write {write.id}, {write.intent.action} of {write.key.event}: rule {write.key.rule} may fire again")


def _numbered(ledger: LedgerReader, ids: Iterable[int]) -> list[Write]:
    return [_by_number(ledger, number) for number in dict.fromkeys(ids)]


def _of_rule(ledger: LedgerReader, rule: str, event: str | None) -> list[Write]:
    return [write for write in ledger.writes(rule=rule, event=event) if write.state in WITHOUT_EFFECT]


def _nothing(ledger: LedgerReader, rule: str, event: str | None) -> NotFound:
    where = "" if event is None else f" for event '{event}'"
    others = {write.key.rule for write in ledger.writes() if write.state in WITHOUT_EFFECT}
    message = f"rule '{rule}' has nothing{where} that ended without effect and can be reopened"
    return NotFound(f"{message}{meant(rule, others)}; nothing was changed", hint=LOOK)


def _by_number(ledger: LedgerReader, number: int) -> Write:
    write = ledger.write(WriteId(number))
    if write is None:
        raise NotFound(f"there is no write {number}; nothing was changed", hint=LOOK)
    if write.undo:
        hint = f"campaign-worker undo plans another one; campaign-worker log --write {number} shows what it was for"
        raise NotFound(f"write {number} is an undo, which no look decides on; nothing was changed", hint=hint)
    if write.state not in WITHOUT_EFFECT:
        raise NotFound(
            f"write {number} is {write.state}: only {', '.join(sorted(WITHOUT_EFFECT))} ended without effect; "
            "nothing was changed",
            hint=f"campaign-worker log --write {number} shows its life",
        )
    return write


def _memories(ledger: LedgerReader, writes: Iterable[Write]) -> Memories:
    partners = sorted({write.key.partner for write in writes})
    found = (one for partner in partners for one in ledger.rule_memories(partner))
    return {(one.partner, one.event, one.rule): one for one in found}


def _must_be_last(write: Write, memories: Memories) -> None:
    if not last_of_its_rule(write, memories):
        raise NotFound(
            f"write {write.id} is of episode {write.key.episode}, which was reopened already or is not the last one "
            f"of rule {write.key.rule} for {write.key.event}; nothing was changed",
            hint=f"campaign-worker log --event {write.key.event} --rule {write.key.rule} shows what came after it",
        )


TABLE = ("write", "event", "action", "becomes", "undone_by", "why")


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
    config = config_of(context)
    with operators_ledger(config) as ledger:
        chosen = _sent_by(ledger, *asked) if isinstance(asked, tuple) else [_one(ledger, number) for number in asked]
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


def _sent_by(ledger: LedgerReader, rule: str, since: datetime) -> list[Write]:
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


def _kept(kept: NotUndone) -> dict[str, Json]:
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
