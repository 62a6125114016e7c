"""Which rules a look at an event needs, when a fact of it has changed and nothing else. Pure.

For most rules only the truth of their condition matters, and most changes of a record change no truth. Where an event
was calm, every rule of this plain kind had nothing to do as long as its condition stays what it is: a false one is
closed, a true one has fired, an unknown one waits. So its conditions are judged together (`worker.rules.verdicts`), and
if they are what they were, the event stays calm. Rules of any other kind are looked at whenever a fact of the event
changes. Where there is anything to look at, the look takes in every plain rule whose condition is, or was, anything but
false, because it may stand in the way of another; a closed one neither acts nor does that.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from worker.engine.due import Clocked, clocked
from worker.model.facts import Observation
from worker.model.ids import EventId, RuleId
from worker.model.memory import RuleMemory
from worker.model.rules import Rule
from worker.rules.parameters import DATES
from worker.rules.registry import BUILT_IN
from worker.rules.verdicts import Verdict, Verdicts, covers


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

    def verdict(self, observation: Observation, now: datetime) -> Verdict:
        """What the conditions of the plain rules are."""
        return self._verdicts.of(observation, now)

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
    paced = rule.hold_for is not None or rule.cooldown is not None or rule.per_event_per_day is not None
    by_days = "budget_range" in rule.names or any(
        DATES.intersection(BUILT_IN[name].takes) for name in rule.names if name in BUILT_IN
    )
    return paced or by_days or rule.at is not None or rule.repeat == "enforce" or clock != Clocked()
