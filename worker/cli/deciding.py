"""What `approve`, `reject` and `resolve` share: which writes are meant, and all of them decided or none.

The decision is a short transaction of the command's own; a running daemon sees it in its next cycle. A write that is in
another state by then, or an unknown number, changes nothing at all.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from worker.cli.output import say
from worker.cli.wiring import operators_ledger
from worker.config import Config
from worker.engine.explaining import Seen, wanted_of
from worker.engine.ports import Ledger
from worker.model.commits import Commit, Move
from worker.model.errors import NotFound, StateConflict, UsageError
from worker.model.facts import WriteId
from worker.model.writes import State, Write
from worker.rules.nearest import meant
from worker.system import utc_now
from worker.writes.intents import in_all

T = TypeVar("T")
Verdict = Callable[[Seen, Write], Move]
"""What is decided of a write, with the ledger at hand."""
TRIES = 5
"""How often all of a rule is looked up again under a daemon that moves its writes at the same moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Writes by number, or all of one rule that are in one of the states."""

    ids: tuple[int, ...] = ()
    rule: str | None = None
    states: tuple[State, ...]


def decide(config: Config, chosen: Chosen, verdict: Verdict) -> None:
    """Decides every chosen write, or none. Raises `NotFound` for an unknown number or a wrong state."""
    with operators_ledger(config) as ledger:
        for line in told(ledger, decided(ledger, chosen, verdict)):
            say(line)


def told(ledger: Ledger, moves: Sequence[Move]) -> Iterator[str]:
    """What was decided of each write, what that write does and spends, and what those that may go spend together."""
    wanted = [wanted_of(ledger, one.before) for one in moves]
    if len(moves) > 1 and moves[0].after.state == "planned" and (total := in_all(wanted)):
        yield f"these {len(moves)} writes spend: {total}"
    for one, what in zip(moves, wanted, strict=True):
        does = f"{one.after.intent.action} {what.line}".rstrip()
        yield f"write {one.after.id}: {one.before.state} -> {one.after.state}: {does}"


def decided(ledger: Ledger, chosen: Chosen, verdict: Verdict) -> tuple[Move, ...]:
    """The same in a ledger that is open, without a word; returns what was stored."""

    def once() -> tuple[Move, ...]:
        moves = tuple(verdict(ledger, write) for write in _found(ledger, chosen))
        ledger.apply(Commit(at=utc_now(), moves=moves))
        return moves

    return stored(once, tries=1 if chosen.rule is None else TRIES)


def stored(decide_now: Callable[[], T], *, tries: int) -> T:
    """What one transaction gave. All of a rule is looked up anew where the daemon moved one of its writes meanwhile;
    what was named by number stands as the person saw it, or nothing is changed."""
    for left in reversed(range(tries)):
        try:
            return decide_now()
        except StateConflict as conflict:
            if not left:
                hint = "look again: campaign-worker writes"
                raise NotFound(f"nothing was changed: {conflict}", hint=hint) from conflict
    raise ValueError("a transaction is tried at least once")


def _found(ledger: Ledger, chosen: Chosen) -> list[Write]:
    if bool(chosen.ids) == (chosen.rule is not None):
        raise UsageError(
            "name writes by number, or all of a rule with --rule, and not both",
            hint="campaign-worker writes lists both",
        )
    if chosen.rule is None:
        return [_one(ledger, number, chosen.states) for number in dict.fromkeys(chosen.ids)]
    writes = [write for write in ledger.open_writes() if write.key.rule == chosen.rule and write.state in chosen.states]
    if not writes:
        states = " or ".join(chosen.states)
        others = {write.key.rule for write in ledger.open_writes() if write.state in chosen.states}
        message = f"rule '{chosen.rule}' has no write that is {states}{meant(chosen.rule, others)}; nothing was changed"
        raise NotFound(message, hint="campaign-worker writes lists them")
    return writes


def _one(ledger: Ledger, number: int, states: tuple[State, ...]) -> Write:
    write = ledger.write(WriteId(number))
    if write is None:
        raise NotFound(f"there is no write {number}; nothing was changed", hint="campaign-worker writes lists them")
    if write.state not in states:
        raise NotFound(
            f"write {number} is {write.state}, not {' or '.join(states)}; nothing was changed",
            hint=f"campaign-worker log --write {number} shows its life",
        )
    return write
