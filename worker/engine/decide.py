"""`decide`: from rules, memory and what was seen to the new memory and the writes to plan. Pure.

One pass over events of one partner at one moment. It judges each rule that may have something to do with them, lets
standing wishes and priorities sort out the candidates, counts surges over all of them, and only then plans. The daemon,
`plan`, the rule tests and the simulation call this very function; what it gives is recorded in one transaction or not
at all.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from worker.engine.changes import Watched, change_facts, decide_change, overlaid, to_compute_from, watch
from worker.engine.episodes import (
    closed,
    decide_condition,
    decide_times,
    due_now,
    ends_of,
    momentary,
    not_now,
    stamped_right,
)
from worker.engine.planning import (
    Edited,
    Planner,
    Standing,
    after_wait,
    begun,
    computed,
    in_force,
    judge_conflicts,
    later_messages,
    overruled,
    precedence,
    reopened_by,
    standing_wishes,
    wait_over,
)
from worker.engine.views import (
    Candidate,
    DecidingSettings,
    End,
    PollView,
    RuleResult,
    RuleView,
    active_rules,
    as_after_gap,
    products_off,
    quiet,
    silence_before,
    to_note,
)
from worker.model.commits import EPISODE_JUMP, Commit, Hold, Move, Record, RuleMemory
from worker.model.facts import EventId, FactKey, RuleId, WriteId
from worker.model.rules import Judgement, Rule, RuleSet, Scope, Truth
from worker.model.writes import UNSENT, Plan, Write
from worker.rules.facts import scope_of
from worker.rules.registry import CHANGE
from worker.writes.intents import NotComputable
from worker.writes.life import move
from worker.writes.undo import wish_ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one pass gives. ``commit`` holds what must be stored; ``memories`` the memory of every pair looked at, of
    which ``commit.memory`` is the part worth storing. For explaining: ``judged``, what each condition was; ``held``,
    what holds a firing back; ``scope``, what a rule was given to look at, made anew for the few who ask. ``looked_at``:
    events of which it has to be noted that they were; ``missed``: times that went by, told with the last piece."""

    commit: Commit
    memories: Mapping[tuple[EventId, RuleId], RuleMemory]
    judged: Mapping[tuple[EventId, RuleId], Judgement]
    held: Mapping[tuple[EventId, RuleId], Hold]
    scope: Callable[[EventId, Rule], Scope]
    events: Sequence[EventId] = ()
    looked_at: tuple[EventId, ...] = ()
    missed: Mapping[tuple[RuleId, datetime], Sequence[EventId]] = field(default_factory=dict)


def decide(rules: RuleSet, poll: PollView, settings: DecidingSettings) -> Decision:
    """Judges every rule for every observed event. Raises nothing for bad facts: those are unknown."""
    record = next((one.get(FactKey(name="partner")) for one in poll.observations.values()), None)  # all carry the same
    active, off = active_rules(rules, poll.partner, products_off(record))
    run = _Pass(poll=poll, settings=settings, rules=active)
    for event in poll.observations:
        run.unknown(event, [rule for rule in rules.rules if rule.id in off], off)
    return run.planned(rules, [one for event in poll.observations for one in run.event(event)])


class _Pass:
    """The state of one pass: what was remembered, held and ended so far."""

    def __init__(self, *, poll: PollView, settings: DecidingSettings, rules: Sequence[Rule]) -> None:
        self._poll = poll
        self._settings = settings
        self._rules = rules
        self._writes: dict[EventId, list[Write]] = {}
        for write in poll.writes:
            self._writes.setdefault(write.key.event, []).append(write)
        self._memories: dict[tuple[EventId, RuleId], RuleMemory] = {}
        self._stored: dict[tuple[EventId, RuleId], RuleMemory] = {}
        self._judged: dict[tuple[EventId, RuleId], Judgement] = {}
        self._held: dict[tuple[EventId, RuleId], Hold] = {}
        self._records: list[Record] = []
        self._missed: dict[tuple[RuleId, datetime], list[EventId]] = {pair: [*of] for pair, of in poll.missed.items()}
        self._ended: dict[WriteId, Move] = {}
        self._messages: list[Plan] = []
        self._fired: Counter[RuleId] = Counter()
        self._acted_before: dict[RuleId, tuple[list[datetime], set[tuple[EventId, RuleId]]]] = {}

    def unknown(self, event: EventId, rules: Iterable[Rule], off: Mapping[RuleId, str]) -> None:
        """Says of rules whose product is off that nothing can be said."""
        for rule in rules:
            unknown = tuple(sorted(rule.names))
            self._judged[(event, rule.id)] = Judgement(truth=Truth.UNKNOWN, why=off[rule.id], unknown=unknown)

    def event(self, event: EventId) -> list[Candidate]:
        """Judges one event with every rule that is to; the candidates that fire."""
        rules = self._poll.only.get(event, self._rules)
        writes = self._writes.get(event, [])
        candidates: list[Candidate] = []
        ends: list[End] = []
        for rule in rules:
            candidate, ended = self._result(rule, event)
            ends.extend(ended)
            if candidate is not None:
                candidates.append(candidate)
        memories = {rule.id: memory for rule in rules if (memory := self._memories.get((event, rule.id)))}
        for end in ends:
            if not _wanting(end.write, memories):
                self._end(end)
        open_writes = [write for write in writes if write.id not in self._ended]
        if not candidates and not any(write.state in UNSENT for write in open_writes):
            return []
        standing = standing_wishes(rules, memories, open_writes, self._settings, self._poll.episode_writes)

        def put_back(other: Standing) -> bool:
            return wish_ended(self._poll.target_writes(event, other.wish.target), other.rule.id, other.episode)

        winners, losers = judge_conflicts(candidates, standing, put_back)
        for candidate, held in losers:
            self._hold(candidate.view, candidate.dropped, held)
        self._overrule(rules, memories, open_writes, [*standing, *in_force(winners)], put_back)
        winners = [one for one in winners if one.wait is None or one.wait.id not in self._ended]
        self._fired.update(one.view.rule.id for one in winners if one.wait is None)
        return winners

    def planned(self, rules: RuleSet, winners: Sequence[Candidate]) -> Decision:
        """The decision, with a plan for every firing."""
        wanted = [write for write in self._poll.writes if write.id not in self._ended]
        planner = Planner(poll=self._poll, rules=rules, settings=self._settings, writes=wanted)
        planner.plan(sorted(winners, key=lambda one: (one.event, precedence(one.view.rule))))
        for candidate in winners:
            self._remember(candidate.view, candidate.fired)
        return self._decision(planner)

    def _remember(self, view: RuleView, memory: RuleMemory) -> None:
        """Keeps the memory; it is stored if it says more than when the rule was last looked at."""
        key = (memory.event, memory.rule)
        known = self._poll.memories.get(key)
        if known is None:
            self._remember_new(view, memory)
            return
        self._memories[key] = memory
        ordinary = known.looked_at is not None and view.silence is None
        if memory != known and not (ordinary and replace(memory, looked_at=known.looked_at) == known):
            self._stored[key] = memory
        else:
            self._stored.pop(key, None)

    def _remember_new(self, view: RuleView, memory: RuleMemory) -> None:
        """The same of a pair of which nothing is stored: it stays unstored while it is quiet. After a
        silence whose end it cannot judge yet, the silence is stored, so that a later firing knows of it."""
        key = (memory.event, memory.rule)
        if view.silence is not None and memory.looked_at != view.now:
            self._memories[key] = self._stored[key] = replace(memory, looked_at=None, forced=view.silence)
        elif memory.looked_at is not None:
            self._memories[key] = memory
            if view.rule.at is not None or memory != replace(view.memory, looked_at=memory.looked_at, forced=None):
                self._stored[key] = memory

    def _decision(self, planner: Planner) -> Decision:
        """Everything, as one commit."""
        commit = Commit(
            at=self._poll.now,
            records=(*self._records, *self._times_missed(), *planner.records),
            memory=tuple(self._stored.values()),
            moves=(*self._ended.values(), *planner.moves),
            plans=(*planner.plans, *self._messages),
        )
        return Decision(
            commit=commit,
            memories=self._memories,
            judged=self._judged,
            held=self._held,
            scope=self.scope,
            events=tuple(self._poll.observations),
            looked_at=to_note(self._poll, [rule.id for rule in self._rules], self._settings.gap),
            missed=self._missed if self._poll.more else {},
        )

    def _times_missed(self) -> Iterator[Record]:
        """One record for each time that was missed, however many events it would have been for."""
        for (rule, time), events in self._missed.items() if not self._poll.more else ():
            named = ", ".join(events)
            yield Record(
                at=self._poll.now,
                kind="held",
                reason="missed",
                why=f"the time {time:%Y-%m-%dT%H:%M}Z went by, and is left: {len(events)} events ({named})",
                partner=self._poll.partner,
                rule=rule,
            )

    def scope(self, event: EventId, rule: Rule) -> Scope:
        """What the rule was given to look at."""
        return self._viewed(rule, event)[0].scope

    def _viewed(self, rule: Rule, event: EventId) -> tuple[RuleView, Watched | None]:
        """What the rule is given to look at, and what this poll shows of what it watches."""
        view = self._view(rule, event, self._writes.get(event, []))
        if not rule.on_change:
            return view, None
        watched = watch(view)
        wait = next((write.intent.context for write in view.sequence if write.waits), {})
        extra = change_facts(watched) or {name: wait[name] for name in CHANGE if name in wait}
        return replace(view, scope=replace(view.scope, extra=extra)), watched

    def _result(self, rule: Rule, event: EventId) -> tuple[Candidate | None, tuple[End, ...]]:
        """One rule's decision at one event: what may fire, with its values computed, and what it does not want now."""
        view, watched = self._viewed(rule, event)
        over = wait_over(view)
        if over is not None or due_now(rule, view.memory, view.now):
            view = replace(view, judgement=rule.judge(view.scope))
            self._judged[(event, rule.id)] = view.judgement
        result = _decided(view, watched)
        self._messages.extend(later_messages(view, view.memory))
        if over is not None and momentary([rule]) and view.judgement.truth is Truth.FALSE:
            result = replace(result, memory=closed(result.memory, view.now), ends=ends_of(view))
        if over is not None and over.id in {end.write.id for end in result.ends}:
            over = None  # what it waited for is not wanted any more
        if result.missed is not None:
            self._missed.setdefault((rule.id, result.missed), []).append(event)
        candidate, held = result.candidate, result.held
        try:
            if candidate is not None:
                candidate = computed(candidate)
            elif over is not None:  # also where a key of the rule holds its next firing
                judgement = rule.judge(replace(view.scope, extra=over.intent.context))
                view = replace(view, judgement=judgement, scope=self._scope_after(view))
                reason = None if held is None else held.reason
                candidate = after_wait(view, result.memory, over, self._poll.memory, reason)
        except NotComputable as error:
            candidate, held = None, Hold(reason="fact_unknown", why=str(error))
        if held is not None:
            self._hold(view, result.memory, held)
        else:
            self._remember(view, result.memory)
        return candidate, result.ends

    def _scope_after(self, view: RuleView) -> Scope:
        """What the steps after a wait are computed from."""
        rule, event, judged = view.rule, view.memory.event, view.scope.observation
        done = self._poll.episode_writes(event, rule.id, view.memory.episode)
        observation = to_compute_from(judged, self._poll.observations[event], rule, done)
        return replace(view.scope, observation=observation)

    def _view(self, rule: Rule, event: EventId, writes: list[Write]) -> RuleView:
        """What the rule is given to look at, before its condition is judged."""
        poll = self._poll
        first = EPISODE_JUMP if poll.memory.restored_at is not None else 0
        known = poll.memories.get((event, rule.id)) or quiet(poll, event, rule, first)
        known = known and stamped_right(rule, as_after_gap(poll.memory, known), poll.now)
        memory = known or RuleMemory(partner=poll.partner, event=event, rule=rule.id, episode=first)
        own = tuple(write for write in writes if write.key.rule == rule.id)
        observation = overlaid(poll.observations[event], rule, memory, own, poll.episode_writes)
        return RuleView(
            rule=rule,
            memory=memory,
            scope=scope_of(rule, observation, poll.now),
            judgement=not_now(rule),
            now=poll.now,
            settings=self._settings,
            writes=own,
            joined=tuple(write for write in writes if write.key.rule != rule.id and rule.id in write.rules),
            sendings=poll.sendings.get((event, rule.id), ()),
            rule_sendings=lambda: self._acted(rule.id, event),
            silence=silence_before(poll.memory, known, event, poll.now + self._settings.gap),
            episode_writes=lambda episode: poll.episode_writes(event, rule.id, episode),
            target_writes=lambda target: poll.target_writes(event, target),
            undo=lambda undone: poll.undo(event, rule, undone),
        )

    def _acted(self, rule: RuleId, event: EventId) -> list[datetime]:
        """When the rule acted, for any event; now for each of its firings of which nothing was sent yet, but for its
        own for this event, whose place another takes."""
        poll = self._poll
        if rule not in self._acted_before:
            sent = {of: times for (of, of_rule), times in poll.sendings.items() if of_rule == rule}
            waiting = {
                (write.key.event, write.key.rule)
                for write in poll.writes
                if rule in (write.key.rule, *write.rules) and write.state in UNSENT and not self._begun(write, sent)
            }
            self._acted_before[rule] = [at for times in sent.values() for at in times], waiting
        acted, waiting = self._acted_before[rule]
        events = {of for of, owner in waiting if (of, owner) != (event, rule)}
        return acted + [poll.now] * (len(events) + self._fired[rule])

    def _begun(self, write: Write, sent: Mapping[EventId, Sequence[datetime]]) -> bool:
        """Whether something of the firing that planned a write was sent."""
        memory = self._poll.memories.get((write.key.event, write.key.rule))
        fired_at = memory.fired_at if memory is not None and memory.episode == write.key.episode else None
        return any(at >= (fired_at or write.planned_at) for at in sent.get(write.key.event, ()))

    def _overrule(
        self,
        rules: Sequence[Rule],
        memories: Mapping[RuleId, RuleMemory],
        writes: list[Write],
        standing: list[Standing],
        ended: Callable[[Standing], bool],
    ) -> None:
        """Ends unsent writes against which a stronger wish stands now: of what fired before it came, nothing goes out.

        A ``when`` rule may fire again, in its next episode, once the other ends; a change is consumed. What would come
        after a wait that is over is held instead.
        """
        for write in writes:
            wanting = _wanting(write, memories)
            behind = [rule for rule in rules if rule.id in wanting]
            whys = [overruled([one for one in standing if one.rule is rule], standing, ended) for rule in behind]
            if write.state not in UNSENT or write.sent or write.over or not whys or None in whys:
                continue
            self._end(End(write=write, reason="conflict", why=str(whys[0])))
            for rule in behind:
                key = (write.key.event, rule.id)
                lost = replace(self._memories[key], open=False, fired=False, before_firing={})
                asked = begun(self._poll.episode_writes(*key, lost.episode))
                self._memories[key] = self._stored[key] = replace(lost, asked=asked)

    def _end(self, end: End) -> None:
        """Ends a write. A rule that stands behind it and does not look now has not acted: it may, once it is back."""
        ended = move(end.write, "skipped", at=self._poll.now, reason=end.reason, why=end.why)
        self._ended[end.write.id] = ended
        away = tuple(rule for rule in end.write.rules if (end.write.key.event, rule) not in self._memories)
        left = Edited(write=end.write, change=ended, left=away)
        self._stored.update(reopened_by([left], self._poll.memories, self._poll.episode_writes))

    def _hold(self, view: RuleView, memory: RuleMemory, held: Hold) -> None:
        """Remembers what holds the firing; a record is made only when the reason changes, or what it holds."""
        self._held[(memory.event, memory.rule)] = held
        before, now = view.memory, (held.reason, memory.episode, memory.at_time)
        if memory.held != held.reason and (before.held, before.episode, before.at_time) != now:
            until = f" until {held.until:%Y-%m-%dT%H:%M:%SZ}" if held.until is not None else ""
            said = Record(
                at=self._poll.now,
                kind="held",
                reason=held.reason,
                why=held.why + until,
                partner=memory.partner,
                event=memory.event,
                rule=memory.rule,
                episode=memory.episode or None,
            )
            self._records.append(said)
        self._remember(view, replace(memory, held=held.reason))


def _decided(view: RuleView, watched: Watched | None) -> RuleResult:
    if watched is not None:
        return decide_change(view, watched)
    return decide_condition(view) if view.rule.at is None else decide_times(view)


def _wanting(write: Write, memories: Mapping[RuleId, RuleMemory]) -> list[RuleId]:
    """The rules that stand behind a write: they have fired, and their episode is open."""
    return [rule for rule in write.rules if rule in memories and memories[rule].open and memories[rule].fired]
