"""``again``: reopens what ended without effect, so that the next true look tries once more."""

from collections.abc import Iterable
from typing import Annotated

import typer

from worker.cli.app import app, invocation
from worker.cli.common import config_of, given, operator
from worker.cli.deciding import TRIES, stored
from worker.cli.output import say
from worker.cli.wiring import operators_ledger
from worker.engine.operators import WITHOUT_EFFECT, Memories, Word, last_of_its_rule, reopening, spoken
from worker.ledger.reading import LedgerReader
from worker.model.errors import NotFound, UsageError
from worker.model.ids import WriteId
from worker.model.writes import Write
from worker.rules.nearest import meant
from worker.system import utc_now

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
    with operators_ledger(config_of(invocation(context))) as ledger:

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
