"""When the clock alone can next change what a rule decides about an event. Pure.

A look at the same facts with the same memory decides the same, but for what the clock does. So after a look that
changed nothing, every look until the next of these moments would change nothing either:

- ``for`` runs out; ``cooldown`` (of ``repeat: enforce`` also the built-in one) runs out; an attempt leaves the 24 hours
  of ``limit``. These are times already known.
- A condition that names ``now`` turns. A comparison that is linear in ``now`` (``event.start_date_time - now <
  duration('7d')``) turns at most once, so its turn is found by halving; one that takes only the date, hour or minute of
  ``now`` turns at full hours or minutes only; for anything else every look is made.
- A time of ``at`` comes; while one is not dealt with, every look is made.
- The default ``runtime_in_days`` of ``budget_range`` drops by a day, or a ``today`` becomes another day: each asks for
  its fact by another key.

Surge windows and the age of a pending change matter only at a firing, and a firing is never quiet. The daemon passes
over events by this, and the rule tests jump over whole hours by it; writes under way are for the callers to mind.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zlib import crc32

from worker.engine.episodes import next_look
from worker.engine.looks import DAY, ENFORCE_COOLDOWN
from worker.model.commits import RuleMemory
from worker.model.facts import EventId, FactKey, Known, Observation, RuleId, parse_time
from worker.model.rules import Rule, Scope, Truth
from worker.rules.cel import Node, walk
from worker.rules.evaluate import Expression, Verdicts, covers, leaves
from worker.rules.facts import DATES, keys_for
from worker.rules.registry import BUILT_IN, CHANGE

_HOURLY = frozenset({"getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfYear", "getDayOfWeek", "getHours"})
_MINUTELY = frozenset({"getMinutes"})
_ORDERED = frozenset({"<", "<=", ">", ">="})
_HOUR, _MINUTE = timedelta(hours=1), timedelta(minutes=1)
JUST_AFTER = timedelta(microseconds=1)

Memories = Mapping[tuple[EventId, RuleId], RuleMemory]
Sendings = Mapping[tuple[EventId, RuleId], Sequence[datetime]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocked:
    """How a rule depends on the clock. ``restless``: in a way that only looking tells. ``every``: it can turn when the
    clock passes a multiple of this. ``linear``: comparisons that turn at most once."""

    restless: bool = False
    every: timedelta | None = None
    linear: tuple[Expression, ...] = ()


def clocked(rule: Rule) -> Clocked:
    """What the rule's text says of the clock."""
    names = [value.names for step in rule.do for value in step.computed] + [step.lists for step in rule.do]
    if any("now" in named for named in names):
        return Clocked(restless=True)
    if rule.when is None or "now" not in rule.when.names:
        return Clocked()
    if not isinstance(rule.when, Expression):
        return Clocked(restless=True)
    found = [_of_leaf(leaf) for leaf in leaves(rule.when) if "now" in leaf.names]
    if any(one.restless for one in found):
        return Clocked(restless=True)
    return Clocked(
        every=min((one.every for one in found if one.every is not None), default=None),
        linear=tuple(condition for one in found for condition in one.linear),
    )


def _of_leaf(leaf: Expression) -> Clocked:
    tree = leaf.tree
    if tree.kind == "compare" and tree.text in _ORDERED and not leaf.names & CHANGE:
        left, right = _slope(tree.children[0]), _slope(tree.children[1])
        if left is not None and right is not None:
            return Clocked(linear=(leaf,))
    taken = list(_taken(tree))
    if None in taken or not taken:
        return Clocked(restless=True)
    return Clocked(every=_MINUTE if any(one in _MINUTELY for one in taken) else _HOUR)


def _slope(node: Node) -> int | None:
    """How often ``now`` is added less how often it is taken away; None where it is used in any other way."""
    if node.kind == "ident":
        return 1 if node.text == "now" else 0
    if not any(one.kind == "ident" and one.text == "now" for one in walk(node)):
        return 0
    if node.kind != "arithmetic" or node.text not in ("+", "-"):
        return None
    left, right = _slope(node.children[0]), _slope(node.children[1])
    if left is None or right is None:
        return None
    return left + right if node.text == "+" else left - right


def _taken(node: Node) -> Iterator[str | None]:
    """What is taken of each ``now``: the method called on it, or None for anything else."""
    if node.kind == "call" and node.method and len(node.children) == 1 and node.children[0].kind == "ident":
        if node.children[0].text == "now":
            yield node.text if node.text in _HOURLY | _MINUTELY else None
        return
    if node.kind == "ident" and node.text == "now":
        yield None
    for child in node.children:
        yield from _taken(child)


@dataclass(frozen=True, slots=True, kw_only=True)
class Glanced:
    """What a look gave of one (rule, event): the memory it left, and when first attempts of the pair were made."""

    memory: RuleMemory | None
    sendings: Sequence[datetime] = ()


def next_due(
    rule: Rule, clock: Clocked, observation: Observation, glanced: Glanced, between: tuple[datetime, datetime]
) -> datetime:
    """The first moment after ``between[0]``, and at most ``between[1]``, at which the clock may change the decision."""
    now, horizon = between
    if clock.restless:
        return now
    at = next_look(rule, glanced.memory, now)
    if at == now:
        return now
    times = [*_paced(rule, glanced, now), *_days_turn(rule, observation, now), *([at] if at is not None else ())]
    if clock.every is not None:
        times.append(_next_multiple(now, clock.every))
    known = min((at for at in times if now < at < horizon), default=horizon)
    turns = (_turn(rule, condition, observation, (now, known)) for condition in clock.linear)
    return min([known, *(at for at in turns if at is not None)])


def _paced(rule: Rule, glanced: Glanced, now: datetime) -> Iterator[datetime]:
    """When ``for``, ``cooldown`` and ``limit`` let go of what they may be holding, and when a message is said again."""
    memory, sendings = glanced.memory, glanced.sendings
    if rule.hold_for is not None and memory is not None:
        yield from (at + rule.hold_for for at in (memory.true_since, memory.pending_since) if at is not None)
    cooldown = rule.cooldown or (ENFORCE_COOLDOWN if rule.repeat == "enforce" else None)
    if cooldown is not None:
        fired_at = memory.fired_at if memory is not None else None
        yield from (at + cooldown for at in (*sendings, fired_at) if at is not None)
    if memory is not None and memory.fired and memory.fired_at is not None:
        for remind in (step.remind for step in rule.do if step.remind is not None):
            yield memory.fired_at + ((now - memory.fired_at) // remind + 1) * remind
    if rule.per_event_per_day is not None:
        yield from (at + DAY for at in sendings)
    if rule.per_rule_per_day is not None and memory is not None and memory.held == "limit":
        yield _next_multiple(now, _MINUTE)  # what other events do lets it go


def _days_turn(rule: Rule, observation: Observation, now: datetime) -> Iterator[datetime]:
    """When the day is over, or the whole days until the event's start are one less, where the rule asks by them."""
    if any(DATES.intersection(BUILT_IN[name].takes) for name in rule.names if name in BUILT_IN):
        yield _next_multiple(now, DAY)
    if "budget_range" not in rule.names or "runtime_in_days" in rule.parameters:
        return
    event = observation.get(FactKey(name="event"))
    start = event.value.get("start_date_time") if isinstance(event, Known) and isinstance(event.value, dict) else None
    moment = parse_time(start) if isinstance(start, str) else None
    if moment is not None and moment > now:
        yield now + (moment - now) % DAY + JUST_AFTER


def _turn(
    rule: Rule, condition: Expression, observation: Observation, between: tuple[datetime, datetime]
) -> datetime | None:
    """The first moment at which the comparison is not what it is at the beginning; None where it does not turn."""
    early, late = between

    def truth(at: datetime) -> Truth:
        keys = keys_for(rule, observation, at)
        return condition.truth(Scope(observation=observation, keys=keys, now=at))

    first = truth(early)
    if truth(late) is first:
        return None
    while late - early > JUST_AFTER:
        middle = early + (late - early) / 2
        early, late = (middle, late) if truth(middle) is first else (early, middle)
    return late


def _next_multiple(now: datetime, period: timedelta) -> datetime:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + ((now - midnight) // period + 1) * period


def horizon(event: EventId, now: datetime, again: timedelta) -> datetime:
    """When an event is due at the latest; not the same for all, so that no poll has all of them at once."""
    return now + again * (1.0 + crc32(event.encode()) % 1000 / 1000.0)


class Screen:
    """The rules that look at one partner, and which of them have anything to do with an event.

    Most have not: nothing is remembered of the pair, and the condition is false. Where nothing but the truth of its
    condition matters to a rule, a look at such a pair changes nothing and stores nothing. So the conditions of those
    are judged together (`worker.rules.evaluate`), and only the others are decided on. ``again``: how soon every event
    is decided on again, whatever was learnt.
    """

    def __init__(self, rules: Sequence[Rule], again: timedelta) -> None:
        self.rules = tuple(rules)
        self._again = again
        of_truth = [rule for rule in self.rules if plain(rule)]
        bits = {rule.id: 1 << index for index, rule in enumerate(of_truth)}
        self._rules = [(rule, rule.id, bits.get(rule.id)) for rule in self.rules]
        self._verdicts = Verdicts(of_truth)
        clocks = ((rule, clocked(rule)) for rule in self.rules)
        self._timed = [(rule, clock) for rule, clock in clocks if timed(rule, clock)]

    def concerned(self, observation: Observation, memories: Memories) -> list[Rule]:
        """The rules that have to be decided on for this event."""
        event = observation.event
        true, unknown = self._verdicts.of(observation)
        open_ = true | unknown
        return [rule for rule, name, bit in self._rules if bit is None or bit & open_ or (event, name) in memories]

    def due(self, observation: Observation, memories: Memories, sendings: Sendings, now: datetime) -> datetime:
        """When the event has to be decided on again, if nothing is learnt of it until then."""
        event = observation.event
        first = horizon(event, now, self._again)
        for rule, clock in self._timed:
            glanced = Glanced(memory=memories.get((event, rule.id)), sendings=sendings.get((event, rule.id), ()))
            first = next_due(rule, clock, observation, glanced, (now, first))
        return first


def plain(rule: Rule) -> bool:
    """Whether nothing but the truth of the rule's condition matters, as long as nothing is remembered."""
    return not rule.on_change and rule.at is None and rule.repeat == "once" and covers(rule)


def timed(rule: Rule, clock: Clocked) -> bool:
    """Whether the clock alone can ever change what is decided."""
    limits = (rule.hold_for, rule.cooldown, rule.per_event_per_day, rule.per_rule_per_day)
    paced = any(limit is not None for limit in limits)
    by_days = "budget_range" in rule.names or any(
        DATES.intersection(BUILT_IN[name].takes) for name in rule.names if name in BUILT_IN
    )
    paced = paced or any(step.remind is not None for step in rule.do)
    return paced or by_days or rule.at is not None or rule.repeat == "enforce" or clock != Clocked()
