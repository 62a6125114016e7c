"""Two rules on one target: standing wishes, priority, ties that stop spending.

A rule keeps its wish while its episode is open, also while something holds its firing; with ``on_change`` or ``at``
until its writes are final. No rule acts against a standing opposite wish of higher priority, in this look or a later
one. On a tie the wish that stops spending wins, otherwise neither acts. What a rule in shadow mode wishes moves no live
one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from worker.engine.looks import Candidate, Settings, mode_of
from worker.model.commits import Brake
from worker.model.ids import RuleId
from worker.model.memory import RuleMemory
from worker.model.rules import Rule
from worker.model.writes import Write
from worker.writes.intents import wishes_of
from worker.writes.wishes import Wish


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One wish in force, and the rule whose it is."""

    rule: Rule
    wish: Wish
    shadow: bool


def wishes_in_force(rule: Rule, settings: Settings) -> list[Standing]:
    """The wishes of a rule, as others meet them."""
    shadow = mode_of(rule, settings) == "shadow"
    return [Standing(rule=rule, wish=wish, shadow=shadow) for wish in wishes_of(rule)]


def standing_wishes(
    rules: Iterable[Rule], memories: Mapping[RuleId, RuleMemory], writes: Sequence[Write], settings: Settings
) -> list[Standing]:
    """The wishes in force for one event, whose open ``writes`` these are, before this look's firings."""
    wanted = {rule for write in writes for rule in write.rules}
    found: list[Standing] = []
    for rule in rules:
        memory = memories.get(rule.id)
        brief = rule.on_change or rule.at is not None
        if rule.id in wanted if brief else memory is not None and memory.open:
            found.extend(wishes_in_force(rule, settings))
    return found


def in_force(candidates: Iterable[Candidate]) -> list[Standing]:
    """The wishes of these candidates."""
    return [one for each in candidates for one in wishes_in_force(each.glimpse.rule, each.glimpse.settings)]


def judge_conflicts(
    candidates: Sequence[Candidate], standing: Sequence[Standing]
) -> tuple[list[Candidate], list[tuple[Candidate, Brake]]]:
    """Which candidates of one event may fire, and what holds the others."""
    fresh = in_force(candidates)
    winners: list[Candidate] = []
    losers: list[tuple[Candidate, Brake]] = []
    for candidate in sorted(candidates, key=order_of):
        mine = in_force([candidate])
        against = next((other for other in (*standing, *fresh) if any(loses(one, other) for one in mine)), None)
        if against is None:
            winners.append(candidate)
        else:
            losers.append((candidate, Brake(reason="conflict", why=_spelled(against))))
    return winners, losers


def overruled(mine: Sequence[Standing], standing: Sequence[Standing]) -> str | None:
    """Why a firing that already has unsent writes must not be sent after all: a stronger opposite wish has come.

    A tie that neither wins stops no write that was there first.
    """
    for other in standing:
        for one in mine:
            if loses(one, other) and not loses(other, one):
                return _spelled(other)
    return None


def order_of(candidate: Candidate) -> tuple[int, str]:
    """Who comes first: higher priority, then the smaller id."""
    return precedence(candidate.glimpse.rule)


def precedence(rule: Rule) -> tuple[int, str]:
    """Who comes first: higher priority, then the smaller id."""
    return (-rule.priority, rule.id)


def loses(mine: Standing, other: Standing) -> bool:
    """Whether a wish may not be acted on while the other stands."""
    if other.rule.id == mine.rule.id or not other.wish.opposes(mine.wish) or (other.shadow and not mine.shadow):
        return False
    if other.rule.priority != mine.rule.priority:
        return other.rule.priority > mine.rule.priority
    return not (mine.wish.stops and not other.wish.stops)


def _spelled(against: Standing) -> str:
    rule, wish = against.rule, against.wish
    return f"rule {rule.id} (priority {rule.priority}) wishes {wish.target} to be {wish.value}"
