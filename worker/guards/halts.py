"""Which halt stops a write, for the guard that says no and for those who show what holds a write.

A write keeps what it was held by when it was last judged. Once the halt is ended that is no longer so, and the daemon
may not be running to say it: whoever shows a write asks here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from worker.model.commits import Halt
from worker.model.ids import RuleId
from worker.model.writes import Write


def halt_of(write: Write, halts: Iterable[Halt]) -> Halt | None:
    """The halt of everything, the partner or the rule that stops it. A write that several rules want goes on for those
    of them that are not halted."""
    of_partner = [halt for halt in halts if halt.partner in (None, write.key.partner)]
    found = [_of_rule(of_partner, rule) for rule in write.rules or (write.key.rule,)]
    return None if None in found else found[0]


def as_of_now(write: Write, halts: Sequence[Halt]) -> Write:
    """The write to be shown where ``halts`` are in force: not as held by one that has ended."""
    if write.held_by != "halt" or halt_of(write, halts) is not None:
        return write
    return replace(write, held_by=None, held_until=None, why="no longer halted: the next look judges it anew")


def _of_rule(halts: Iterable[Halt], rule: RuleId) -> Halt | None:
    return next((halt for halt in halts if halt.rule in (None, rule)), None)
