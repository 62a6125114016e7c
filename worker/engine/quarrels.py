"""Rules that can want opposite things of one target: told by `check`, before the daemon has to hold one of them back.

The wishes are the daemon's own (`worker.writes.intents`), and so is the order among them (`worker.engine.conflicts`).
A pair is told only if nothing keeps the two apart: both are enabled, some partner has both, and their conditions do not
exclude each other for certain. It is pure and decides nothing.
"""

from itertools import combinations

from worker.engine.conflicts import Standing, loses
from worker.model.errors import Problem
from worker.model.rules import Rule
from worker.rules.conditions import CelCondition
from worker.rules.constants import exclude_each_other
from worker.rules.expressions import names_in
from worker.rules.load import Loaded
from worker.rules.registry import Registry
from worker.rules.rulefile import Written
from worker.writes.intents import wishes_of
from worker.writes.wishes import Wish


def quarrels(loaded: Loaded, registry: Registry) -> tuple[Problem, ...]:
    """A warning for each pair of rules and target, at the second rule's ``do``, naming the first."""
    wishes = [(written, wishes_of(written.rule)) for written in loaded.written if written.rule.enabled]
    return tuple(
        _told(first, second, pair)
        for (first, mine), (second, others) in combinations(wishes, 2)
        for pair in _opposite(mine, others)
        if first.rule.id != second.rule.id and _meet(first.rule, second.rule, registry)
    )


def _opposite(mine: tuple[Wish, ...], others: tuple[Wish, ...]) -> tuple[tuple[Wish, Wish], ...]:
    """One pair of opposite wishes for each target."""
    found = {(one.target, one.axis): (one, other) for one in mine for other in others if one.opposes(other)}
    return tuple(found.values())


def _meet(first: Rule, second: Rule, registry: Registry) -> bool:
    """Whether some event can be true for both."""
    if first.partners is not None and second.partners is not None and not first.partners & second.partners:
        return False
    if not isinstance(first.when, CelCondition) or not isinstance(second.when, CelCondition):
        return True
    names = {**names_in(registry, first.on_change), **names_in(registry, second.on_change)}
    return not exclude_each_other(first.when.tree, second.when.tree, names)


def _told(first: Written, second: Written, wishes: tuple[Wish, Wish]) -> Problem:
    mine, other = wishes
    place = second.entries.key("do")
    start = second.entries.start if place is None else place.start
    message = (
        f"rule '{second.rule.id}' wants {other.target} to be {_value(other)}, and rule '{first.rule.id}' "
        f"({first.rule.file}:{first.rule.line}) wants it to be {_value(mine)}; where both are true, "
        f"{_outcome(first.rule, second.rule, wishes)}"
    )
    hint = "let the conditions exclude each other, or give one of them a higher `priority`"
    return second.entries.document.problem(start, message, hint=hint, code="conflict", severity="warning")


def _outcome(first: Rule, second: Rule, wishes: tuple[Wish, Wish]) -> str:
    """What the daemon would do, by its own order."""
    left = Standing(rule=first, wish=wishes[0], shadow=False)
    right = Standing(rule=second, wish=wishes[1], shadow=False)
    if loses(left, right) and loses(right, left):
        return "neither acts"
    winner = first if loses(right, left) else second
    why = "by its priority" if first.priority != second.priority else "because it stops spending"
    return f"'{winner.id}' wins {why}"


def _value(wish: Wish) -> str:
    return wish.value if len(wish.value) <= 60 else wish.value[:59] + "…"
