"""From news to what is stored: `decide` over the events that the news is of, in one commit.

The shell around the pure core. It collects what the core may know, stores the decision as one transaction with the
records of what was seen, and only then takes it over into this process's memory.
"""

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from zlib import crc32

from worker.engine.decide import Decision, decide
from worker.engine.derived import derived
from worker.engine.episodes import JUST_AFTER, next_poll
from worker.engine.observe import EventByEvent, News
from worker.engine.operators import undo_by_rule
from worker.engine.planning import asked_anew, edits_of, in_one, reopened_by
from worker.engine.ports import Parts, ReadableLedger
from worker.engine.state import PartnerState
from worker.engine.views import (
    ENFORCE_COOLDOWN,
    PollView,
    active_rules,
    asks_sendings,
    looked_by,
    sendings_reach,
    stamped_by,
)
from worker.guards import DAY
from worker.model.commits import OF_PARTNER, PartnerMemory, Record, RuleMemory
from worker.model.errors import LedgerUnwritable, WorkerError
from worker.model.facts import EventId, FactKey, Observation, RuleId, parse_time, record_of
from worker.model.rules import Rule, RuleSet, Truth
from worker.model.writes import Write
from worker.rules.cel import Node, walk
from worker.rules.evaluate import Expression, Verdicts, covers, leaves
from worker.rules.facts import DATES, scope_of
from worker.rules.registry import BUILT_IN, CHANGE

Memories = Mapping[tuple[EventId, RuleId], RuleMemory]
Sendings = Mapping[tuple[EventId, RuleId], Sequence[datetime]]

OURS = ("denied_at", "denied_until", "rules", "away", "back")
"""What of a partner's memory is not the poll's to say."""


class Decider(EventByEvent):
    """Decides for one partner after the other."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._decided = parts.decided
        self._screens: dict[tuple[str, ...], Screen] = {}
        self._screened: RuleSet | None = None

    def decide(self, state: PartnerState, news: News) -> tuple[Decision, tuple[Write, ...]]:
        """Decides and stores. The open writes after it. Raises `LedgerUnwritable` and `StateConflict`; then this
        process's memory is as it was.

        Where it fails at single events, the others are decided on, in the one commit. What was seen of those stays
        unstored: stored, it would be a baseline that nothing was decided on."""
        writes = self._taken_up(state)
        try:
            return self._decided_on(state, news, writes)
        except WorkerError:
            raise
        except Exception:
            broken = self.failing(state, lambda some: self._tried(state, news, some, writes), news.events)
            if not broken:
                raise
        return self._decided_on(state, replace(news, events=[one for one in news.events if one not in broken]), writes)

    def _tried(self, state: PartnerState, news: News, events: Sequence[EventId], writes: tuple[Write, ...]) -> None:
        """All that can fail before anything is stored."""
        self._judged(state, replace(news, events=events), writes)
        state.stored.records(state.stored.attempt(news.at, events).changes)

    def _judged(
        self, state: PartnerState, news: News, writes: tuple[Write, ...]
    ) -> tuple[PollView, Decision, "Screen", PartnerMemory]:
        """What is decided, with the commit that is to be stored. Stores nothing."""
        rules, now, before = self._rules.current, news.at, state.memory
        active, off = active_rules(rules, state.partner, state.products_off)
        screen = self._screen(rules, active)
        ours = replace(news.memory, **{name: getattr(before, name) for name in OURS})
        ours = stamped_by(ours, now) if before.ahead_of(now) else ours
        memory = looked_by(ours, [rule.id for rule in screen.rules], now)
        edits = asked_anew(memory, edits_of(rules, writes, state.memories, now), writes, now)
        reopen = reopened_by(edits, state.memories, partial(self._ledger.episode_writes, state.partner))
        edited = {one.write.id: one.change.after for one in edits}
        standing = tuple(one for write in writes if not (one := edited.get(write.id, write)).final)
        poll = self._poll_view(state, news, memory, screen, standing, reopen)
        decision = decide(rules, poll, self._settings.deciding)
        store = news.store or memory is not ours
        commit = replace(
            decision.commit,
            records=(*news.records, *_shut_records(state, off, now), *decision.commit.records),
            memory=tuple({**reopen, **{(one.event, one.rule): one for one in decision.commit.memory}}.values()),
            partner=memory if store else None,
            moves=in_one(edits, decision.commit.moves),
        )
        return poll, replace(decision, commit=commit), screen, memory

    def _decided_on(
        self, state: PartnerState, news: News, writes: tuple[Write, ...]
    ) -> tuple[Decision, tuple[Write, ...]]:
        state.stored.under(self._rules.current, state.known_facts())
        poll, decision, screen, memory = self._judged(state, news, writes)
        commit, undecided = decision.commit, state.undecided.difference(news.events)
        state.stored.polled(memory, news.at, complete=news.listing.complete)
        events = (
            {*news.events, OF_PARTNER} if news.more else state.stored.seen.keys() - undecided if undecided else None
        )
        state.stored.commit(self._ledger, commit, events, decision.looked_at)
        if self._decided is not None:
            self._decided(decision)
        _take(state, commit.memory)
        state.shut = active_rules(self._rules.current, state.partner, state.products_off)[1]
        state.missed = decision.missed
        state.undecided = undecided
        state.memory = memory if commit.partner is not None else replace(memory, listed_at=state.memory.listed_at)
        self._note_due(state, poll, decision, screen, writes)
        changed = commit.plans or commit.moves
        return decision, self._ledger.open_writes(state.partner) if changed else writes

    def reload(self, state: PartnerState) -> None:
        """Memory as it is stored: what this process believed was decided on something that is no longer so."""
        with suppress(LedgerUnwritable):
            self._read_memories(state)

    def _taken_up(self, state: PartnerState) -> tuple[Write, ...]:
        """The open writes. Memory that an operator has reopened in the ledger (`again`) since the last poll is read
        anew, and what a commit may have stored that was reported as failed."""
        standing = self._ledger.standing(state.partner, state.read_up_to)
        if standing.reopened or state.stored.trial is not None:
            self._read_memories(state)
        state.read_up_to = standing.seq
        return standing.writes

    def _read_memories(self, state: PartnerState) -> None:
        _take(state, self._ledger.all_rule_memories(state.partner))
        state.due.clear()

    def _poll_view(
        self,
        state: PartnerState,
        news: News,
        memory: PartnerMemory,
        screen: "Screen",
        writes: tuple[Write, ...],
        reopen: dict[tuple[EventId, RuleId], RuleMemory],
    ) -> PollView:
        rules, now, partner = screen.rules, news.at, state.partner
        memories = ChainMap(reopen, state.memories) if reopen else state.memories
        observations = observed(state, news.events, self._ledger, (rules, now, self._settings.deciding.gap))
        reach = sendings_reach(rules) if observations and asks_sendings(rules) else None
        return PollView(
            partner=partner,
            now=now,
            memory=memory,
            observations=observations,
            memories=memories,
            looked_at=state.stored.looked_at,
            writes=writes,
            sendings={} if reach is None else self._ledger.first_sendings(partner, now - reach),
            firings=lambda since: self._ledger.firings(partner, since),
            more=news.more,
            missed=state.missed,
            only={event: screen.concerned(seen, memories) for event, seen in observations.items()},
            episode_writes=lambda event, rule, episode: self._ledger.episode_writes(partner, event, rule, episode),
            target_writes=lambda event, target: self._ledger.target_writes(partner, event, target),
            rule_writes=lambda event, rule: self._ledger.writes(event=event, partner=partner, rule=rule),
            undo=lambda event, rule, undone: undo_by_rule(self._ledger, memory, event, rule, undone, now),
        )

    def _note_due(
        self, state: PartnerState, poll: PollView, decision: Decision, screen: "Screen", writes: Iterable[Write]
    ) -> None:
        """Notes when the events are due again: at once where this poll has changed anything, or a write is open."""
        commit = decision.commit
        lively = {
            *(write.key.event for write in writes),
            *(memory.event for memory in commit.memory),
            *(plan.key.event for plan in commit.plans),
            *(change.after.key.event for change in commit.moves),
        }
        for event, observation in poll.observations.items():
            state.due.pop(event, None)
            if event not in lively:
                state.due[event] = screen.due(observation, state.memories, poll.sendings, poll.now)

    def _screen(self, rules: RuleSet, active: list[Rule]) -> "Screen":
        """Partners with the same rules share one."""
        if self._screened is not rules:
            self._screened, self._screens = rules, {}
        ids = tuple(rule.id for rule in active)
        if ids not in self._screens:
            self._screens[ids] = Screen(active, self._settings.decided_again)
        return self._screens[ids]


def observed(
    state: PartnerState,
    events: Iterable[EventId],
    ledger: ReadableLedger,
    asked: tuple[Sequence[Rule], datetime, timedelta],
) -> Mapping[EventId, Observation]:
    """What these rules are given to look at then, with what the worker makes of what it keeps. The last of ``asked`` is
    how long a silence is a gap."""
    rules, now, gap = asked
    observations: Mapping[EventId, Observation] = {event: state.observation(event) for event in events}
    return derived(observations, ledger, state.past_asked(rules, now, gap))


def _take(state: PartnerState, memories: Iterable[RuleMemory]) -> None:
    state.memories.update({(one.event, one.rule): one for one in memories})


def _shut_records(state: PartnerState, off: Mapping[RuleId, str], now: datetime) -> list[Record]:
    """What is said once of each rule that a product keeps from looking."""
    new = {rule: why for rule, why in off.items() if state.shut.get(rule) != why}
    return [
        Record(at=now, kind="held", reason="product_off", why=why, partner=state.partner, rule=rule)
        for rule, why in new.items()
    ]


class Screen:
    """The rules that look at one partner, and which of them have anything to do with an event.

    Most have not: nothing is remembered of the pair, and the condition is false. Where nothing but the truth of its
    condition matters to a rule, a poll of such a pair changes nothing and stores nothing. So the conditions of those
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
        first = min(first, observation.until or first)
        for rule, clock in self._timed:
            pair = (event, rule.id)
            first = next_due(rule, clock, observation, memories.get(pair), sendings.get(pair, ()), (now, first))
        return first


# When the clock alone can next change what a rule decides about an event. Pure.
#
# A poll of the same facts with the same memory decides the same, but for what the clock does. So after a poll that
# changed nothing, every poll until the next of these moments would change nothing either:
#
# - ``for`` runs out; ``cooldown`` (of ``repeat: enforce`` also the built-in one) runs out; an attempt leaves the 24
#   hours of ``limit``. These are times already known.
# - A condition that names ``now`` turns. A comparison that is linear in ``now`` (``event.start_date_time - now <
#   duration('7d')``) turns at most once, so its turn is found by halving; one that takes only the date, hour or minute
#   of ``now`` turns at full hours, quarters of them or minutes only; for anything else every poll is made.
# - A time of ``at`` comes, or one that waits for facts is over; while any other is not dealt with, every poll is made.
# - The default ``runtime_in_days`` of ``budget_range`` drops by a day, or a ``today`` becomes another day: each asks
#   for its fact by another key.
#
# Surge windows and the age of a pending change matter only at a firing, and a firing is never quiet. The daemon passes
# over events by this, and the rule tests jump over whole hours by it; writes under way are for the callers to mind.

_HOURLY = frozenset({"getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfYear", "getDayOfWeek", "getHours"})
_MINUTELY = frozenset({"getMinutes"})
_ORDERED = frozenset({"<", "<=", ">", ">="})
_HOUR, _MINUTE = timedelta(hours=1), timedelta(minutes=1)
_OF_ZONES = timedelta(minutes=15)
"""In India it strikes the hour at half past, in Nepal at a quarter to, and in no zone that has a name in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocked:
    """How a rule depends on the clock. ``restless``: in a way that only looking tells. ``every``: it can turn when the
    clock passes a multiple of this. ``linear``: comparisons that turn at most once."""

    restless: bool = False
    every: timedelta | None = None
    linear: tuple[Expression, ...] = ()


def clocked(rule: Rule) -> Clocked:
    """What the rule's text says of the clock."""
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
    turns = list(_turning(tree))
    if not turns or None in turns:
        return Clocked(restless=True)
    return Clocked(every=min(every for every in turns if every is not None))


def _slope(node: Node) -> int | None:
    """How often ``now`` is added less how often it is taken away; None where it is used in any other way."""
    if node.kind == "ident":
        return 1 if _is_now(node) else 0
    if not any(map(_is_now, walk(node))):
        return 0
    if node.kind != "arithmetic" or node.text not in ("+", "-"):
        return None
    left, right = _slope(node.children[0]), _slope(node.children[1])
    if left is None or right is None:
        return None
    return left + right if node.text == "+" else left - right


def _turning(node: Node) -> Iterator[timedelta | None]:
    """How often what is taken of each ``now`` can change: its hour or its minute, here or in a zone; None for anything
    else."""
    taken = node.kind == "call" and node.method and _is_now(node.children[0])
    if taken:
        zones = node.children[1:]
        named = all(zone.kind == "literal" and ":" not in zone.text for zone in zones)
        hourly = _HOUR if not zones else _OF_ZONES if named else _MINUTE
        yield _MINUTE if node.text in _MINUTELY else hourly if node.text in _HOURLY else None
    elif _is_now(node):
        yield None
    for child in node.children[1 if taken else 0 :]:
        yield from _turning(child)


def _is_now(node: Node) -> bool:
    return node.kind == "ident" and node.text == "now"


def next_due(
    rule: Rule,
    clock: Clocked,
    observation: Observation,
    memory: RuleMemory | None,
    sendings: Sequence[datetime],
    between: tuple[datetime, datetime],
) -> datetime:
    """The first moment after ``between[0]``, and at most ``between[1]``, at which the clock may change the decision.
    ``memory``: what the last poll left, and ``sendings``: when first attempts of the pair were made."""
    now, horizon = between
    if clock.restless:
        return now
    at = next_poll(rule, memory, now)
    if at == now:
        return now
    whole = None if clock.every is None else _next_multiple(now, clock.every)
    times = (*_paced(rule, memory, sendings, now), *_days_turn(rule, observation, now), at, whole)
    known = min((one for one in times if one is not None and now < one < horizon), default=horizon)
    turns = (_turn(rule, condition, observation, (now, known)) for condition in clock.linear)
    return min([known, *(at for at in turns if at is not None)])


def _paced(rule: Rule, memory: RuleMemory | None, sendings: Sequence[datetime], now: datetime) -> Iterator[datetime]:
    """When ``for``, ``cooldown`` and ``limit`` let go of what they may be holding, and when a message is said again."""
    if rule.hold_for is not None and memory is not None:
        yield from (at + rule.hold_for for at in (memory.true_since, memory.pending_since) if at is not None)
    cooldown = rule.cooldown or (ENFORCE_COOLDOWN if rule.repeat == "enforce" else None)
    if cooldown is not None:
        fired_at = memory.fired_at if memory is not None else None
        yield from (at + cooldown for at in (*sendings, fired_at) if at is not None)
    if memory is not None and memory.fired and memory.fired_at is not None:
        for remind in (step.remind for step in rule.do if step.remind is not None):
            yield memory.fired_at + ((now - memory.fired_at) // remind + 1) * remind
    if rule.between is not None and (opens := rule.between.opens(now)) is not None:
        yield opens
    if rule.per_event_per_day is not None:
        yield from (at + DAY for at in sendings)
    if rule.per_rule_per_day is not None and memory is not None and memory.held == "limit":
        yield _next_multiple(now, _MINUTE)  # what other events do lets it go


def _days_turn(rule: Rule, observation: Observation, now: datetime) -> Iterator[datetime]:
    """When the day is over, or the whole days until the event's start are one less, where the rule asks by them."""
    if _asks_by_dates(rule):
        yield _next_multiple(now, DAY)
    if "budget_range" not in rule.names or "runtime_in_days" in rule.parameters:
        return
    start = record_of(observation.get(FactKey(name="event"))).get("start_date_time")
    moment = parse_time(start) if isinstance(start, str) else None
    if moment is not None and moment > now:
        yield now + (moment - now) % DAY + JUST_AFTER


def _asks_by_dates(rule: Rule) -> bool:
    return any(DATES.intersection(BUILT_IN[name].takes) for name in rule.names if name in BUILT_IN)


def _turn(
    rule: Rule, condition: Expression, observation: Observation, between: tuple[datetime, datetime]
) -> datetime | None:
    """The first moment at which the comparison is not what it is at the beginning; None where it does not turn."""
    early, late = between

    def truth(at: datetime) -> Truth:
        return condition.truth(scope_of(rule, observation, at))

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


def plain(rule: Rule) -> bool:
    """Whether nothing but the truth of the rule's condition matters, as long as nothing is remembered."""
    return not rule.on_change and rule.at is None and rule.repeat == "once" and covers(rule)


def timed(rule: Rule, clock: Clocked) -> bool:
    """Whether the clock alone can ever change what is decided."""
    limits = (rule.hold_for, rule.between, rule.cooldown, rule.per_event_per_day, rule.per_rule_per_day, rule.at)
    paced = any(limit is not None for limit in (*limits, *(step.remind for step in rule.do)))
    by_days = "budget_range" in rule.names or _asks_by_dates(rule)
    return paced or by_days or rule.repeat == "enforce" or clock != Clocked()
