"""What an operator decides: `approve`, `reject`, `resolve`, `again`, `undo`, `halt`, `resume`.

Each is a short transaction of its own on the ledger, which a running daemon sees in its next cycle. All writes that
were meant are decided, or none: an unknown number or a write in another state changes nothing. The page decides by
the same functions.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from worker.cli.common import (
    OnlyEvent,
    OnlyPartner,
    OnlyRule,
    completing,
    config_file,
    config_of,
    duration,
    engine_settings,
    moment,
    strangers,
    word_of,
)
from worker.cli.output import Format, print_json, print_table, say
from worker.cli.wiring import mark_unattended, operators_ledger
from worker.config import Config, load_config
from worker.config.load import ledger_alone
from worker.engine.explaining import wanted_of
from worker.engine.operators import (
    NO_REASON,
    WITHOUT_EFFECT,
    Memories,
    Word,
    approved,
    ended_without_effect,
    last_of_its_rule,
    rejected,
    reopening,
    resolved,
    spoken,
    undo_of,
)
from worker.engine.ports import Ledger
from worker.ledger.reading import LedgerReader
from worker.model.actions import money_text
from worker.model.commits import Commit, Halt, Move
from worker.model.errors import InputErrors, NotAllowed, NotFound, UsageError
from worker.model.facts import Json, WriteId
from worker.model.writes import UNSENT, UNSETTLED, State, Write
from worker.writes.intents import in_all
from worker.writes.undo import Undo, may_have_effect

app = typer.Typer()

LOOK = "campaign-worker writes lists them"

Ids = Annotated[list[int] | None, typer.Argument(help="The writes, by number, as `writes` shows them.")]
OfRule = Annotated[
    str | None,
    typer.Option("--rule", help="All of this rule instead: a whole burst.", autocompletion=completing("rule")),
]
Because = Annotated[str, typer.Option("--because", help="Why; it is kept in the log.")]


# Approve, reject, resolve: an operator decides what waits or needs one.


@app.command("approve")
def approve(context: typer.Context, ids: Ids = None, rule: OfRule = None, because: Because = NO_REASON) -> None:
    """Let waiting writes go. They still pass every guard: what is no longer true is not sent.

    Example: campaign-worker approve --rule pause-cancelled --because "the storm is real"
    """
    config = config_of(context)
    _say(approve_writes(config, _chosen(ids, rule), word_of(config, because)))


@app.command("reject")
def reject(context: typer.Context, ids: Ids = None, rule: OfRule = None, because: Because = NO_REASON) -> None:
    """Drop writes that wait, are planned, or need an operator. The same episode plans them no more.

    Example: campaign-worker reject 12 13 --because "the import was wrong"
    """
    config = config_of(context)
    _say(reject_writes(config, _chosen(ids, rule), word_of(config, because)))


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
        hint = "look at `campaign-worker log --write ID` first"
        raise UsageError("say one of --applied and --not-applied", hint=hint)
    config = config_of(context)
    _say(resolve_writes(config, ids, word_of(config, because), applied=applied))


def _chosen(ids: Sequence[int] | None, rule: str | None) -> Sequence[int] | str:
    """Writes by number, or all of a rule: an empty name, as of an unset variable, is no rule, and not all undos."""
    if bool(ids) == bool(rule):
        hint = "campaign-worker writes lists both"
        raise UsageError("name writes by number, or all of a rule with --rule, and not both", hint=hint)
    return rule or ids or ()


def approve_writes(
    config: Config,
    chosen: Sequence[int] | str,
    word: Word,
    *,
    up_to: float | None = None,
    shown: Mapping[int, float] | None = None,
) -> list[str]:
    """Lets waiting writes go. Raises `NotAllowed` where one spends more than ``up_to``, or nobody knows how much.
    ``shown``: what somebody saw that each spends; one that spends more than that, or than ``up_to``, by the time it is
    sent asks again."""
    with operators_ledger(config) as ledger:
        moves = []
        for write in _writes_in(ledger, config, chosen, "waiting"):
            wanted = wanted_of(ledger, write)
            if up_to is not None and (wanted.unknown or (wanted.amount or 0.0) > up_to):
                why = f"{word.by} may approve up to {money_text(up_to)}, and write {write.id} {wanted.spends}"
                hint = "ask somebody who may approve more (web.users in the config); nothing was changed"
                raise NotAllowed(why, hint=hint)
            amount = (shown or {}).get(write.id, wanted.amount)
            amount = amount if amount is None or up_to is None else min(amount, up_to)
            moves.append(approved(write, because=word.because, by=word.by, now=word.at, amount=amount))
        return _decided(ledger, moves)


def reject_writes(config: Config, chosen: Sequence[int] | str, word: Word) -> list[str]:
    """Drops writes of which nothing is known to have been sent, or that an operator gives up."""
    with operators_ledger(config) as ledger:
        writes = _writes_in(ledger, config, chosen, "waiting", "planned", "needs_human")
        return _decided(ledger, [rejected(one, because=word.because, by=word.by, now=word.at) for one in writes])


def resolve_writes(config: Config, ids: Sequence[int], word: Word, *, applied: bool) -> list[str]:
    """An operator's verdict on writes that only an operator can settle."""
    settings = engine_settings(config)
    with operators_ledger(config) as ledger:
        moves = [
            resolved(write, word, applied=applied, settings=settings, late_s=ledger.late_s(write))
            for write in _writes_in(ledger, config, ids, "needs_human")
        ]
        return _decided(ledger, moves)


def _writes_in(ledger: LedgerReader, config: Config, chosen: Sequence[int] | str, *states: State) -> list[Write]:
    """The chosen writes, which must be in one of the states: by number each of them, of a rule all that are. Raises
    `NotFound` for an unknown number, a wrong state, or where there is none."""
    named = " or ".join(states)
    if not isinstance(chosen, str):
        writes = numbered(ledger, chosen)
        for write in writes:
            if write.state not in states:
                hint = f"campaign-worker log --write {write.id} shows its life"
                raise NotFound(f"write {write.id} is {write.state}, not {named}; nothing was changed", hint=hint)
        return writes
    writes = [write for write in ledger.open_writes() if write.state in states and write.key.rule == chosen]
    if not writes:
        raise _none(ledger, config, f"rule '{chosen}' has no write that is {named}", rule=chosen)
    return writes


def _none(ledger: LedgerReader, config: Config, why: str, **asked: str | None) -> NotFound:
    """That nothing is as asked for; of a name that there never was, that."""
    return NotFound(f"{'; '.join(strangers(ledger, config, asked)) or why}; nothing was changed", hint=LOOK)


def _decided(ledger: Ledger, moves: Sequence[Move]) -> list[str]:
    """Stores what was decided. Says it of each write, with what that does and spends, and what those that may go spend
    together."""
    ledger.apply(Commit(at=moves[0].after.changed_at, moves=tuple(moves)))
    wanted = [wanted_of(ledger, one.before) for one in moves]
    lines = []
    if len(moves) > 1 and moves[0].after.state == "planned" and (total := in_all(wanted)):
        lines.append(f"these {len(moves)} writes spend: {total}")
    for one, what in zip(moves, wanted, strict=True):
        does = f"{one.after.intent.action} {what.line}".rstrip()
        lines.append(f"write {one.after.id}: {one.before.state} -> {one.after.state}: {does}")
    return lines


def numbered(ledger: Ledger | LedgerReader, ids: Iterable[int]) -> list[Write]:
    """The writes of these numbers. Raises `NotFound` for one that there is not."""
    found = [(number, ledger.write(WriteId(number))) for number in dict.fromkeys(ids)]
    for number, write in found:
        if write is None:
            raise NotFound(f"there is no write {number}; nothing was changed", hint=LOOK)
    return [write for _, write in found if write is not None]


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


# Again: what ended without effect is reopened, so that the next true poll tries once more.


@app.command("again")
def again(
    context: typer.Context,
    because: Annotated[str, typer.Option(help="Why; it is kept in the log.")],
    ids: Ids = None,
    rule: OfRule = None,
    event: OnlyEvent = None,
) -> None:
    """Reopen what ended without effect: rejected, refused, skipped, shadowed, cancelled. All or nothing.

    The episode is closed, and the next poll at which the condition is true opens another, which fires and passes every
    guard as any other does. A change (`on_change`) is pending again against the value before it. Nothing is sent by
    this command.

    Example: campaign-worker again 12 --because "the budget range is corrected"
    """
    config = config_of(context)
    word = word_of(config, because)
    if bool(ids) == bool(rule) or (event is not None and not rule):
        why = "name writes by number, or all of a rule with --rule and perhaps --event, and not both"
        raise UsageError(why, hint=LOOK)
    with operators_ledger(config) as ledger:
        if not rule:
            writes = [_without_effect(write) for write in numbered(ledger, ids or ())]
        else:
            writes = [one for one in ledger.writes(rule=rule, event=event) if ended_without_effect(one)]
        memories = _memories(ledger, writes)
        last = [write for write in writes if last_of_its_rule(write, memories)]
        if not rule and last != writes:
            raise _not_the_last(next(write for write in writes if write not in last))
        if rule and not last:
            where = "" if event is None else f" for event '{event}'"
            why = f"rule '{rule}' has nothing{where} that ended without effect and can be reopened"
            raise _none(ledger, config, why, rule=rule, event=event)
        ledger.reopen(reopening(last, memories, ledger), [spoken(write, "again", word) for write in last])
    for write in last:
        say(f"write {write.id}, {write.intent.action} of {write.key.event}: rule {write.key.rule} may fire again")


def _without_effect(write: Write) -> Write:
    life = f"campaign-worker log --write {write.id} shows"
    if write.by_operator:
        hint = f"campaign-worker undo plans another one; {life} what it was for"
        raise NotFound(f"write {write.id} is an undo, which no look decides on; nothing was changed", hint=hint)
    if write.state in WITHOUT_EFFECT and not ended_without_effect(write):
        hint = f"{life}; where it had none, change the rule, or what it looks at, so that it fires anew"
        raise NotFound(f"write {write.id} was given up, and may have had its effect; nothing was changed", hint=hint)
    if write.state not in WITHOUT_EFFECT:
        states = ", ".join(sorted(WITHOUT_EFFECT))
        why = f"write {write.id} is {write.state}: only {states} ended without effect; nothing was changed"
        raise NotFound(why, hint=f"{life} its life")
    return write


def _memories(ledger: LedgerReader, writes: Iterable[Write]) -> Memories:
    partners = sorted({write.key.partner for write in writes})
    found = (one for partner in partners for one in ledger.rule_memories(partner))
    return {(one.partner, one.event, one.rule): one for one in found}


def _not_the_last(write: Write) -> NotFound:
    return NotFound(
        f"write {write.id} is of episode {write.key.episode}, which was reopened already or is not the last one "
        f"of rule {write.key.rule} for {write.key.event}; nothing was changed",
        hint=f"campaign-worker log --event {write.key.event} --rule {write.key.rule} shows what came after it",
    )


# Undo: what writes changed is put back by new writes, and what cannot or may not be is named.

UNDO_COLUMNS = ("write", "event", "action", "becomes", "undone_by", "why")


@app.command("undo")
def undo(
    context: typer.Context,
    because: Annotated[str, typer.Option(help="Why; it is kept in the log.")],
    ids: Ids = None,
    rule: OfRule = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="With --rule: how long ago (10m, 2h) or a time (2026-03-01T02:00:00Z)."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    output: Format = "table",
) -> None:
    """Put back what writes changed: the value recorded before each, as new writes with guards and log of their own.

    What somebody else has changed since is left alone, and what cannot be undone (a boost) is named. Exits 1 where
    nothing is left to put back. The rule stays in force: halt or correct it first, or it may do the same again.

    Example: campaign-worker undo --rule pause-cancelled --since 30m --dry-run --because "the import was wrong"
    """
    config = config_of(context)
    word, sent_since = word_of(config, because), moment(config, since)
    by_number, by_rule = ids and not rule and since is None, not ids and rule and since is not None
    if not by_number and not by_rule:
        why = "name writes by number, or all that a rule sent with --rule and --since, and not both"
        raise UsageError(why, hint=f"{LOOK}; of a rule say since when: --rule {rule or 'ID'} --since 30m")
    with operators_ledger(config) as ledger:
        if rule and sent_since is not None:
            writes = _sent_by(ledger, config, rule, sent_since)
        else:
            writes = [_undoable(write) for write in numbered(ledger, ids or ())]
        found = undo_of(ledger, writes, word, shadow=config.mode == "shadow")
        made = () if dry_run else ledger.apply(found.commit(word.by, word.at))
    rows = list(_undo_rows(found, made, dry_run=dry_run))
    if output == "json":
        print_json(rows)
    else:
        title = "undo (dry run: nothing is changed)" if dry_run else "undo"
        print_table(title, UNDO_COLUMNS, ([row[name] for name in UNDO_COLUMNS] for row in rows))
    if not found.plans:
        say("there is nothing to put back; nothing was changed")
        raise typer.Exit(1)


def _undoable(write: Write) -> Write:
    """Raises `NotFound` for a write that cannot be undone, with what to do. Only of an end without effect is it said
    that there was none: one that an operator must settle may have had one, whatever this ledger knows of it."""
    life = f"campaign-worker log --write {write.id}"
    if may_have_effect(write):
        return write
    if write.state in UNSENT:
        what, hint = ": there is nothing to put back yet", f"campaign-worker reject {write.id} drops it"
    elif write.state in WITHOUT_EFFECT:
        what, hint = " and had no effect", f"{life} shows its life"
    elif write.state in UNSETTLED:
        what = ": whether it took effect is not known"
        hint = f"settle it first: look at `{life}`, then `campaign-worker resolve {write.id}`"
    else:
        what, hint = ": what it changed is not known here", f"{life} shows its life"
    raise NotFound(f"write {write.id} is {write.state}{what}; nothing was changed", hint=hint)


def _sent_by(ledger: LedgerReader, config: Config, rule: str, since: datetime) -> list[Write]:
    writes = ledger.writes(rule=rule)
    unsent = [write for write in writes if write.state in UNSENT]
    if unsent:
        say(f"{len(unsent)} more are not sent yet: campaign-worker reject --rule {rule} drops them")
    sent = [write for write in writes if write.last_sent_at and write.last_sent_at >= since and may_have_effect(write)]
    if not sent:
        why = f"rule '{rule}' has sent nothing since {since:%Y-%m-%dT%H:%M:%SZ} that may have had an effect"
        raise _none(ledger, config, why, rule=rule)
    return sent


def undo_writes(config: Config, ids: Sequence[int], word: Word) -> list[str]:
    """Puts back what these writes changed. Raises `NotFound` where nothing is left to put back."""
    with operators_ledger(config) as ledger:
        writes = [_undoable(write) for write in numbered(ledger, ids)]
        found = undo_of(ledger, writes, word, shadow=config.mode == "shadow")
        if not found.plans:
            raise NotFound("; ".join(f"write {one.write.id}: {one.why}" for one in found.kept))
        made = ledger.apply(found.commit(word.by, word.at))
    rows = _undo_rows(found, made, dry_run=False)
    return [f"write {row['write']}: {row['becomes']}, {row['why']}" for row in rows]


def _undo_rows(found: Undo, made: Sequence[Write], *, dry_run: bool) -> Iterator[dict[str, Json]]:
    for put, at in found.undone:
        becomes, undone_by = ("would be undone", None) if dry_run else ("undone", int(made[at].id))
        back = ", ".join(f"{name} {words}" for name, words in put.words().items())
        for write in put.undoes:
            yield _undo_row(write, becomes, undone_by, back)
    for kept in found.kept:
        yield _undo_row(kept.write, "cannot be undone" if kept.cannot else "left alone", None, kept.why)


def _undo_row(write: Write, becomes: str, undone_by: int | None, why: str) -> dict[str, Json]:
    return {
        "write": int(write.id),
        "partner": write.key.partner,
        "event": write.key.event,
        "action": write.intent.action,
        "becomes": becomes,
        "undone_by": undone_by,
        "why": why,
    }


# Halt and resume: no new write from now on, and the way back.


@app.command("halt")
def halt(
    context: typer.Context,
    because: Annotated[str, typer.Option(help="Why; it is kept in the log and shown with every held write.")],
    partner: OnlyPartner = None,
    rule: OnlyRule = None,
    lasting: Annotated[
        str | None, typer.Option("--for", help="Resume by itself after that long, for instance 2h.")
    ] = None,
) -> None:
    """Stop new writes: once this has returned, a running daemon sends none. Reading and deciding go on.

    A config with mistakes in it is no obstacle, as long as it says where the ledger is.

    Example: campaign-worker halt --rule boost-on-new-clusters --for 2h --because "wrong budget"
    """
    ends, config = duration(lasting, "--for"), _config_to_halt_by(config_file(context))
    _say(halt_writes(config, word_of(config, because), partner, rule, ends))


@app.command("resume")
def resume(
    context: typer.Context,
    because: Annotated[str, typer.Option(help="Why; it is kept in the log.")],
    partner: OnlyPartner = None,
    rule: OnlyRule = None,
) -> None:
    """End halts: those that name this partner and this rule, or without either all of them.

    Example: campaign-worker resume --rule boost-on-new-clusters --because "the budget is corrected"
    """
    config = config_of(context)
    _say(resume_writes(config, word_of(config, because), partner, rule))


def halt_writes(config: Config, word: Word, partner: str | None, rule: str | None, ends: timedelta | None) -> list[str]:
    """Halts, and says what it is too late for: the writes of its scope that are in flight or not settled."""
    until = None if ends is None else word.at + ends
    with operators_ledger(config) as ledger:
        if strange := strangers(ledger, config, {"partner": partner, "rule": rule}):  # it would hold nothing back
            hint = "without --partner and --rule everything is halted"
            raise NotFound(f"{'; '.join(strange)}; nothing was changed", hint=hint)
        made = ledger.append_halt(partner=partner, rule=rule, until=until, because=word.because, by=word.by, at=word.at)
        flying = [one for one in ledger.open_writes(made.partner) if one.state in UNSETTLED]
    mark_unattended(config, word.at)
    return [
        f"halted{'' if until is None else f' until {until:%Y-%m-%d %H:%M:%S} UTC'}: {_scope(made)}",
        *(
            f"in flight or not settled: write {one.id}, {one.intent.action} of {one.key.event}: {one.state}"
            for one in flying
            if rule in (None, one.key.rule, *one.rules)
        ),
    ]


def resume_writes(
    config: Config, word: Word, partner: str | None, rule: str | None, shown: Collection[int] = ()
) -> list[str]:
    """Ends halts; where only some were shown, of these. Raises `NotFound` where there is none like that, with those
    that are in force."""
    with operators_ledger(config) as ledger:
        ended = ledger.resume_halts(
            partner=partner, rule=rule, shown=shown, because=word.because, by=word.by, at=word.at
        )
        left = ledger.halts(word.at)
    if not ended:
        others = "; ".join(f"{_scope(one)} ({one.because})" for one in left)
        message = f"no such halt is in force; in force: {others}" if left else "no halt is in force"
        raise NotFound(message, hint="campaign-worker status shows the halts")
    return [f"resumed: halt of {_scope(one)} ({one.because})" for one in ended]


def _scope(one: Halt) -> str:
    return f"{one.partner or 'every partner'}, {one.rule or 'every rule'}"


def _config_to_halt_by(path: Path) -> Config:
    """The config of the worker to be stopped. Somebody may be in the middle of editing it, and a halt must not wait
    for that: of one with mistakes, which are said, the ledger is taken. Raises `InputErrors` where it is in doubt."""
    try:
        return load_config(path)
    except InputErrors as errors:
        config = ledger_alone(path)
        if config is None:
            say("nothing was halted: this config leaves in doubt where the ledger is")
            say("    correct it, name another one with --config, of which `ledger: sqlite:////PATH` is enough, or")
            say("    stop the daemon by its process id: kill PID")
            raise
        _say(line for problem in errors.problems for line in problem.lines)
        say("a halt needs nothing of the config but the ledger, and goes on")
        return config
