"""Rules that can want opposite things of one target, or start each other: told by `check`, before it happens.

The wishes are the daemon's own (`worker.writes.intents`), and so is the order among them (`worker.engine.conflicts`).
A pair is told only if nothing keeps the two apart: both are enabled, some partner has both, and their conditions do not
exclude each other for certain. It is pure and decides nothing.
"""

from itertools import combinations

from worker.engine.conflicts import Standing, loses
from worker.model.actions import ACTIONS
from worker.model.errors import Problem
from worker.model.findings import Code
from worker.model.rules import Rule, Step
from worker.rules.conditions import CelCondition
from worker.rules.constants import exclude_each_other
from worker.rules.expressions import names_in
from worker.rules.load import Loaded
from worker.rules.mentions import decides
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


def ping_pongs(loaded: Loaded) -> tuple[Problem, ...]:
    """A warning for each pair of rules that watch what the other writes, at the second rule's ``do``, naming the first:
    each may start the other, again and again. Two that write the same do not."""
    enabled = [written for written in loaded.written if written.rule.enabled]
    found: list[Problem] = []
    for first, second in combinations(enabled, 2):
        mine, others = _watched_by(second.rule, first.rule), _watched_by(first.rule, second.rule)
        if mine and others and mine != others and _share_a_partner(first.rule, second.rule):
            message = (
                f"rules '{second.rule.id}' and '{first.rule.id}' ({first.rule.file}:{first.rule.line}) watch what the "
                f"other writes: '{second.rule.id}' writes {', '.join(others)}, and '{first.rule.id}' {', '.join(mine)}"
            )
            hint = "each may start the other without end: take that part out of one condition, or pace both by `limit`"
            found.append(_warning(second, message, hint=hint, code="ping_pong"))
    return tuple(found)


def _watched_by(watcher: Rule, writer: Rule) -> dict[str, Step]:
    """What one rule writes of all that the other looks at, and by which step."""
    watched = decides(watcher)
    found: dict[str, Step] = {}
    for step in writer.do:
        row = ACTIONS[step.action]
        for fact, field in (*row.written(step.params), *(("event", name) for name, _ in row.brings)):
            fields = watched.get(fact, frozenset())
            if fact in watched and (fields is None or not field or field in fields):
                found[f"{fact}.{field}".rstrip(".")] = step
    return found


def _opposite(mine: tuple[Wish, ...], others: tuple[Wish, ...]) -> tuple[tuple[Wish, Wish], ...]:
    """One pair of opposite wishes for each target."""
    found = {(one.target, one.axis): (one, other) for one in mine for other in others if one.opposes(other)}
    return tuple(found.values())


def _meet(first: Rule, second: Rule, registry: Registry) -> bool:
    """Whether some event can be true for both."""
    if not _share_a_partner(first, second):
        return False
    if not isinstance(first.when, CelCondition) or not isinstance(second.when, CelCondition):
        return True
    names = {**names_in(registry, first.on_change), **names_in(registry, second.on_change)}
    return not exclude_each_other(first.when.tree, second.when.tree, names)


def _share_a_partner(first: Rule, second: Rule) -> bool:
    return first.partners is None or second.partners is None or bool(first.partners & second.partners)


def _told(first: Written, second: Written, wishes: tuple[Wish, Wish]) -> Problem:
    mine, other = wishes
    message = (
        f"rule '{second.rule.id}' wants {other.target} to be {_value(other)}, and rule '{first.rule.id}' "
        f"({first.rule.file}:{first.rule.line}) wants it to be {_value(mine)}; where both are true, "
        f"{_outcome(first.rule, second.rule, wishes)}"
    )
    hint = "let the conditions exclude each other, or give one of them a higher `priority`"
    return _warning(second, message, hint=hint, code="conflict")


def _warning(written: Written, message: str, *, hint: str, code: Code) -> Problem:
    place = written.entries.key("do")
    start = written.entries.start if place is None else place.start
    return written.entries.document.problem(start, message, hint=hint, code=code, severity="warning")


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
