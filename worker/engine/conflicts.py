"""Two rules on one target: standing wishes, priority, ties that stop spending, and equal wishes that share one write.

A rule that has fired keeps its wish while its episode is open (with ``on_change``: until its writes are final). No rule
acts against a standing opposite wish of higher priority, in this look or a later one. On a tie the wish that stops
spending wins, otherwise neither acts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from worker.engine.looks import Candidate
from worker.model.commits import Brake
from worker.model.ids import RuleId
from worker.model.memory import RuleMemory
from worker.model.rules import Rule
from worker.model.writes import Write
from worker.writes.intents import Wish, wishes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One wish in force. ``candidate``: its rule is only now about to fire."""

    rule: Rule
    wish: Wish
    candidate: bool


def standing_wishes(
    rules: Iterable[Rule], memories: Mapping[RuleId, RuleMemory], writes: Sequence[Write]
) -> tuple[Standing, ...]:
    """The wishes in force for one event before this look's firings."""
    found: list[Standing] = []
    for rule in rules:
        memory = memories.get(rule.id)
        if memory is None or not memory.open or not memory.fired:
            continue
        if rule.on_change and not any(
            write.key.rule == rule.id and write.key.episode == memory.episode for write in writes
        ):
            continue
        found.extend(Standing(rule=rule, wish=wish, candidate=False) for wish in wishes_of(rule))
    return tuple(found)


def judge_conflicts(
    candidates: Sequence[Candidate], standing: Sequence[Standing]
) -> tuple[list[Candidate], list[tuple[Candidate, Brake]]]:
    """Which candidates of one event may fire, and what holds the others."""
    fresh = [
        Standing(rule=candidate.glimpse.rule, wish=wish, candidate=True)
        for candidate in candidates
        for wish in wishes_of(candidate.glimpse.rule)
    ]
    winners: list[Candidate] = []
    losers: list[tuple[Candidate, Brake]] = []
    for candidate in sorted(candidates, key=order_of):
        against = _stronger(candidate.glimpse.rule, [*standing, *fresh])
        if against is None:
            winners.append(candidate)
        else:
            why = (
                f"rule {against.rule.id} (priority {against.rule.priority}) "
                f"wishes {against.wish.target} to be {against.wish.value}"
            )
            losers.append((candidate, Brake(reason="conflict", why=why)))
    return winners, losers


def order_of(candidate: Candidate) -> tuple[int, str]:
    """Who comes first: higher priority, then the smaller id."""
    return (-candidate.glimpse.rule.priority, candidate.glimpse.rule.id)


def _stronger(rule: Rule, others: Sequence[Standing]) -> Standing | None:
    for wish in wishes_of(rule):
        for other in others:
            if other.rule.id != rule.id and other.wish.opposes(wish) and _loses(rule, wish, other):
                return other
    return None


def _loses(rule: Rule, wish: Wish, other: Standing) -> bool:
    if other.rule.priority != rule.priority:
        return other.rule.priority > rule.priority
    return not (wish.stops and not other.wish.stops)
