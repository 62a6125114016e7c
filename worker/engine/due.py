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

Surge windows and the age of a pending change matter only at a firing, and a firing is never quiet. The daemon skips
events by this, and the rule tests jump over whole hours by it; writes under way are for the callers to mind.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from zlib import crc32

from worker.engine.episodes import next_look
from worker.engine.looks import DAY, ENFORCE_COOLDOWN
from worker.model.commits import RuleMemory
from worker.model.facts import EventId, FactKey, Known, Observation, RuleId, parse_time
from worker.model.rules import Rule, Scope, Truth
from worker.rules.cel import Node, walk
from worker.rules.evaluate import Expression, Verdict, Verdicts, covers, leaves
from worker.rules.facts import DATES, keys_for
from worker.rules.registry import BUILT_IN, CHANGE

_HOURLY = frozenset({"getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfYear", "getDayOfWeek", "getHours"})
_MINUTELY = frozenset({"getMinutes"})
_ORDERED = frozenset({"<", "<=", ">", ">="})
_HOUR, _MINUTE = timedelta(hours=1), timedelta(minutes=1)
JUST_AFTER = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocked:
    """How a rule depends on the clock. ``restless``: in a way that only looking tells. ``every``: it can turn when the
    clock passes a multiple of this. ``linear``: comparisons that turn at most once."""

    restless: bool = False
    every: timedelta | None = None
    linear: tuple[Expression, ...] = ()


def clocked(rule: Rule) -> Clocked:
    """What the rule's text says of the clock."""
    computed = [value for step in rule.do for value in step.computed]
    if any("now" in value.names for value in computed):
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


# Which events a look may pass over, because it could not decide anything else about them than the last one did.
#
# An event is calm once a look at it changed nothing, no write of it is under way, and until the clock can change that.
# Whatever is learnt of it ends its calm: a fact that says something else, a memory that was changed, its absence from
# the list, another rule set. To look at a calm event costs time and finds nothing; to pass over one that is not loses
# a decision: where in doubt, there is no calm.
#
# Of an event that was calm until a fact said something else it is still known what its conditions were: see below.


class Stirred(NamedTuple):
    """What an event was that a fact has stirred: calm until then, its conditions so."""

    until: datetime
    verdict: Verdict


@dataclass(slots=True)
class Calm:
    """The calm events of one partner, each until a moment. ``under``: the rules and the state of the partner for which
    that was found out. ``learnt``: events that only a fact has stirred, with when their calm would have ended."""

    until: dict[EventId, datetime] = field(default_factory=dict)
    learnt: dict[EventId, datetime] = field(default_factory=dict)
    under: object = None
    _verdicts: dict[EventId, Verdict] = field(default_factory=dict)
    _ends: list[tuple[datetime, EventId]] = field(default_factory=list)

    def only_under(self, under: object) -> None:
        """Ends all calm that was found under anything else."""
        if under != self.under:
            self.stir_all()
            self.under = under

    def stir(self, event: EventId) -> None:
        """Something about the event is otherwise than it was."""
        self.until.pop(event, None)
        self.learnt.pop(event, None)

    def learn(self, event: EventId) -> None:
        """A fact of the event says something else; all else about it is as it was."""
        until = self.until.pop(event, None)
        if until is not None:
            self.learnt[event] = until

    def stir_all(self) -> None:
        """Something about the partner is otherwise than it was."""
        self.until.clear()
        self.learnt.clear()
        self._verdicts.clear()
        self._ends.clear()

    def keep(self, event: EventId, until: datetime, verdict: Verdict | None = None) -> None:
        """The event need not be looked at before then, as long as nothing stirs it. ``verdict``: what its conditions
        are, if nothing but that can matter when a fact of it changes."""
        self.learnt.pop(event, None)
        if verdict is None:
            self._verdicts.pop(event, None)
        else:
            self._verdicts[event] = verdict
        self._calm(event, until)

    def stay(self, event: EventId) -> None:
        """The event is as calm as it was before a fact of it changed, and its conditions are the same."""
        self._calm(event, self.learnt.pop(event))

    def _calm(self, event: EventId, until: datetime) -> None:
        """Calm until then, and no longer: its end is noted each time, because that of what was stirred is dropped."""
        self.until[event] = until
        heapq.heappush(self._ends, (until, event))
        if len(self._ends) > 2 * len(self.until) + 64:
            self._ends = [(at, one) for one, at in self.until.items()]
            heapq.heapify(self._ends)

    def ends(self) -> datetime | None:
        """When the first calm ends; None where no event is calm."""
        while self._ends and self.until.get(self._ends[0][1]) != self._ends[0][0]:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def rest(self, event: EventId, now: datetime) -> Stirred | None:
        """What the event was, if nothing but a fact of it has changed since."""
        until, verdict = self.learnt.get(event), self._verdicts.get(event)
        return None if until is None or verdict is None or until <= now else Stirred(until=until, verdict=verdict)

    def stirred(self, events: AbstractSet[EventId], now: datetime) -> list[EventId]:
        """Those that must be looked at, in order. Calm that has ended by now is over for good."""
        while self._ends and self._ends[0][0] <= now:
            at, event = heapq.heappop(self._ends)
            if self.until.get(event) == at:
                del self.until[event]
        calm = self.until  # asked one by one: to subtract two views builds the set of all events first
        return sorted([event for event in events if event not in calm])

    def portions(self, events: Sequence[EventId], rules: int, pairs: int, now: datetime) -> list[list[EventId]]:
        """The events in portions of at most so many pairs of a rule and an event to judge. One that only a fact has
        stirred counts as one pair: mostly it is passed over once its conditions were glanced at."""
        found: list[list[EventId]] = []
        room = 0
        for event in events:
            weight = max(1, rules) if self.rest(event, now) is None else 1
            if room < weight:
                found.append([])
                room = max(pairs, weight)
            room -= weight
            found[-1].append(event)
        return found


def horizon(event: EventId, now: datetime, again: timedelta) -> datetime:
    """Until when an event is calm at the most; not the same for all, so that no look has all of them at once."""
    return now + again * (1.0 + crc32(event.encode()) % 1000 / 1000.0)


# Which rules a look at an event needs, when a fact of it has changed and nothing else. Pure.
#
# For most rules only the truth of their condition matters, and most changes of a record change no truth. Where an
# event was calm, every rule of this plain kind had nothing to do as long as its condition stays what it is: a false
# one is closed, a true one has fired, an unknown one waits. So its conditions are judged together
# (`worker.rules.evaluate`), and if they are what they were, the event stays calm. Rules of any other kind are looked
# at whenever a fact of the event changes. Where there is anything to look at, the look takes in every plain rule whose
# condition is, or was, anything but false, because it may stand in the way of another; a closed one neither acts nor
# does that.


class Screen:
    """The rules that look at one partner, ready to be asked."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._places = {rule.id: index for index, rule in enumerate(self.rules)}
        self._plain = [rule for rule in self.rules if plain(rule)]
        self._others = [rule for rule in self.rules if not plain(rule)]
        self._verdicts = Verdicts(self._plain)
        self.clocks: Mapping[RuleId, Clocked] = {rule.id: clocked(rule) for rule in self.rules}
        self._timed = frozenset(rule.id for rule in self.rules if _timed(rule, self.clocks[rule.id]))

    def verdict(self, observation: Observation) -> Verdict:
        """What the conditions of the plain rules are."""
        return self._verdicts.of(observation)

    def needed(self, before: Verdict, after: Verdict) -> list[Rule]:
        """The rules that a look takes in when the plain conditions were so and are so; none if there is no need."""
        if before == after and not self._others:
            return []
        concerned = before[0] | before[1] | after[0] | after[1]
        plain_ones = [rule for index, rule in enumerate(self._plain) if concerned >> index & 1]
        return sorted([*plain_ones, *self._others], key=lambda rule: self._places[rule.id])

    def settled(self, verdict: Verdict, event: EventId, memories: Mapping[tuple[EventId, RuleId], RuleMemory]) -> bool:
        """Whether no plain rule that is not false waits for anything: one that is true but has not fired does."""
        concerned = verdict[0] | verdict[1]
        while concerned:
            index = (concerned & -concerned).bit_length() - 1
            concerned &= concerned - 1
            memory = memories.get((event, self._plain[index].id))
            if memory is not None and memory.open and not memory.fired:
                return False
        return True

    def timed(self, rules: Iterable[Rule]) -> list[Rule]:
        """Those of the rules about which the clock alone can ever change a decision."""
        return [rule for rule in rules if rule.id in self._timed]


def plain(rule: Rule) -> bool:
    """Whether nothing but the truth of the rule's condition matters, once a look has dealt with it."""
    return not rule.on_change and rule.at is None and rule.repeat == "once" and covers(rule)


def _timed(rule: Rule, clock: Clocked) -> bool:
    limits = (rule.hold_for, rule.cooldown, rule.per_event_per_day, rule.per_rule_per_day)
    paced = any(limit is not None for limit in limits)
    by_days = "budget_range" in rule.names or any(
        DATES.intersection(BUILT_IN[name].takes) for name in rule.names if name in BUILT_IN
    )
    paced = paced or any(step.remind is not None for step in rule.do)
    return paced or by_days or rule.at is not None or rule.repeat == "enforce" or clock != Clocked()
