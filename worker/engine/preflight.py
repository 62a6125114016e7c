"""The last poll before a write: every fact its condition uses, read just now, and its target with them.

All floors are waited for first, and the budget's places for all reads and the write are kept together, so that the
answers are of one moment also where the budget is short. What another reader has asked a moment ago is taken over. The
event comes last, so that it answers after a setup that is not there (a 404 alone proves nothing). What has
become older than the interval meanwhile is read again, a few times, and then the write is held: nothing is sent on an
old fact.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from math import inf
from typing import Literal

from worker.engine.changes import fields_of, left_so, undone_by_now, with_fields
from worker.engine.derived import EVENTS, derived
from worker.engine.planning import (
    Standing,
    overruled,
    reset_objection,
    standing_wishes,
    wanted_by,
)
from worker.engine.ports import Places, Stage, Urgency
from worker.engine.settle import as_judged
from worker.engine.state import EVENT, PARTNER, PartnerState
from worker.engine.views import held_by_hours, mode_of, off_fact, unconfirmed_for
from worker.guards import No, Situation, earlier_in_do, out_of_date
from worker.model.actions import ACTIONS
from worker.model.commits import Move, RuleMemory
from worker.model.facts import EventId, Fact, FactKey, Json, Known, Observation, RuleId, Unknown
from worker.model.rules import Judgement, Rule, Scope, Truth
from worker.model.writes import Write
from worker.reading.pacing import SENT_WITHIN
from worker.rules.facts import (
    kept_of,
    keys_for,
    normalised,
    runtime_in_days,
    scope_of,
    since_of,
    unless_reordered,
    watch_key,
)
from worker.rules.registry import LOCAL, MADE
from worker.writes.evidence import fact_key, target_value, wish_of
from worker.writes.intents import ADDED, EACH, asks_always, budgets_of, reads_back
from worker.writes.life import move
from worker.writes.undo import wish_ended

# Who asks for a write that is about to be sent: the rules in force, the config, other rules, and operators.
#
# A write was planned under the rules and the config of its time; what they say now decides whether it may still go.
# Reads memory and open writes, and changes nothing: an objection is handed back as a guard's no.


class WhoAsks(Stage):
    """Who asks for a write now."""

    def rules(self, state: PartnerState, write: Write) -> tuple[Rule, ...]:
        """The rules in force that still ask for this very write of this partner: of several only those whose firing
        stands, and of these those that decide by nothing unconfirmed, if there are any. So none goes out on behalf of
        a rule that may not send it, in the name of one that does not want it any more."""
        found = (self._rules.current.get(rule) for rule in (write.rules or (write.key.rule,)))
        asking = tuple(
            rule
            for rule in found
            if rule is not None
            and rule.applies_to(write.key.partner)
            and rule.do_hash == wanted_by(rule.id, write, state.memories)
        )
        event, known = write.key.event, state.memories
        standing = tuple(one for one in asking if (was := known.get((event, one.id))) and was.open and was.fired)
        sure = tuple(one for one in standing if not unconfirmed_for(write.intent.action, one, self._settings))
        return sure or standing or asking

    def objection(self, state: PartnerState, write: Write) -> No | None:
        """Why nobody asks for this write now, or not for now."""
        no = self._unwanted(state, write) or self._overruled(state, write)
        return no or reset_objection(state.memory, write, self._clock.now())

    def _unwanted(self, state: PartnerState, write: Write) -> No | None:
        """What config and rules say of a write that was planned under others: mode, partners, and the rule's text.

        An undo has no rule, and its person has let it go already; but in shadow mode nothing is sent.
        """
        if write.by_operator:
            shadow = self._settings.deciding.mode == "shadow"
            return No(way="hold", reason="mode", why="shadow mode: nothing is sent") if shadow else None
        rules = self.rules(state, write)
        if not rules:
            way: Literal["hold", "drop"] = "drop" if write.state == "unknown" else "hold"
            gone = not any(self._rules.current.get(rule) for rule in (write.rules or (write.key.rule,)))
            why = "no rule in force asks for this write any more"
            return No(way=way, reason="rule_gone" if gone else "rule_edited", why=why)
        modes = {mode_of(rule, self._settings.deciding) for rule in rules}
        if modes == {"shadow"}:
            return No(way="hold", reason="mode", why="shadow mode: nothing is sent")
        always = asks_always(write.intent)
        if always is not None and not write.approved and write.state == "planned" and not write.sent:
            return No(way="ask", reason=always[0], why=always[1])
        if "live" not in modes and not write.approved and not write.waits:
            asks = write.state == "planned" and not write.sent
            return No(way="ask" if asks else "hold", reason="mode", why="approve mode: an operator must let it go")
        closed = [held_by_hours(rule, self._clock.now()) for rule in rules]
        asked = write.approved or write.waits or write.state != "planned"
        held = None if asked or None in closed else closed[0]
        return None if held is None else No(way="hold", reason="between", why=held.why, until=held.until)

    def _overruled(self, state: PartnerState, write: Write) -> No | None:
        """A write is not sent again against a stronger standing wish: an unknown one ends, and one to which an operator
        has granted another attempt waits until that wish is gone. Those that were never sent end when the wish arises.

        An undo bows to no wish of a rule that fires once: it is there to go against what that rule did. One that
        enforces its wish would only set it back again, so against that it is held.
        """
        if write.by_operator:
            return self._enforced_against(state, write)
        if write.state != "unknown" and not write.sent:
            return None
        standing, behind = self._standing(state, write), {rule.id for rule in self.rules(state, write)}
        why = overruled([one for one in standing if one.rule.id in behind], standing, self._ended(write))
        if why is None:
            return None
        return No(way="drop" if write.state == "unknown" else "hold", reason="conflict", why=why)

    def _enforced_against(self, state: PartnerState, undo: Write) -> No | None:
        mine = wish_of(undo.intent.action, undo.intent.params)
        for other in self._standing(state, undo):
            if other.rule.repeat == "enforce" and not other.shadow and other.wish.opposes(mine):
                why = f"rule {other.rule.id} enforces the opposite, and would set it again: disable it first"
                return No(way="hold", reason="conflict", why=why)
        return None

    def _ended(self, write: Write) -> Callable[[Standing], bool]:
        found = partial(self._ledger.target_writes, write.key.partner, write.key.event)
        return lambda other: wish_ended(found(other.wish.target), other.rule.id, other.episode)

    def _standing(self, state: PartnerState, write: Write) -> list[Standing]:
        """The wishes in force for the write's event."""
        rules = [rule for rule in self._rules.current.rules if rule.enabled]
        partner, event = write.key.partner, write.key.event
        memories = {rule.id: memory for rule in rules if (memory := state.memories.get((event, rule.id)))}
        writes = [one for one in self._ledger.open_writes(partner) if one.key.event == event]
        writes_of = partial(self._ledger.episode_writes, partner)
        return standing_wishes(rules, memories, writes, self._settings.deciding, writes_of)


# What an attempt begins with, and whether what it stands for still holds. Pure.

Memories = Mapping[tuple[EventId, RuleId], RuleMemory]


def sending(write: Write, fact: Fact | None, now: datetime, why: str) -> Move:
    """The write as it is recorded before its bytes leave. ``fact``: its target as it was just read, None if it was not.
    What it was before an attempt that may have had an effect is kept through all others."""
    changes: dict[str, object] = {
        "attempt": write.attempt + 1,
        "last_sent_at": now,
        "first_sent_at": write.first_sent_at or now,
    }
    if not write.before_known or (write.state == "planned" and write.reason != "overtaken"):
        readable, value = target_value(write.intent, fact) if fact is not None else (False, None)
        changes |= {"before": value, "before_known": readable}
    reason = "resend" if write.state == "unknown" else write.reason
    return move(write, "sending", at=now, reason=reason, why=f"attempt {write.attempt + 1}: {why}", **changes)


def still_holds(
    write: Write, rules: Sequence[Rule], episode: Iterable[Write], seen: Observation, memories: Memories, now: datetime
) -> Judgement:
    """True where any of the rules that ask for the write still holds by these facts; unknown where none holds and one
    cannot be told. ``episode``: the writes of its episode."""
    if write.by_operator:
        return Judgement(truth=Truth.TRUE, why="an undo has no condition")
    if not rules:
        return Judgement(truth=Truth.FALSE, why="its rule is gone")
    earlier = earlier_in_do(write, episode)
    judged = [_of_rule(write, rule, earlier, seen, memories, now) for rule in rules]
    return min(judged, key=lambda one: (Truth.TRUE, Truth.UNKNOWN, Truth.FALSE).index(one.truth))


def _of_rule(
    write: Write, rule: Rule, earlier: tuple[Write, ...], seen: Observation, memories: Memories, now: datetime
) -> Judgement:
    """One rule; where earlier actions of its ``do`` have changed facts, over these as they were at the firing."""
    if rule.id == write.key.rule:
        seen = as_at_firing(write, earlier, seen)
    scope = scope_of(rule, seen, now)
    if rule.on_change:
        extra = {name: write.intent.context[name] for name in LOCAL if name in write.intent.context}
        scope = replace(scope, extra=extra)
        moved = _moved_on(memories.get((write.key.event, rule.id)), rule, scope, seen)
        if moved is not None and not any(one.waits for one in earlier):  # a wait is ended by the firing of a newer one
            return moved
    return rule.judge(scope)


def as_at_firing(write: Write, earlier: tuple[Write, ...], seen: Observation) -> Observation:
    """What is seen, but what ``earlier`` steps of the write's ``do`` have changed as it was at the firing."""
    written = write.intent.context.get("written")
    if not earlier or not isinstance(written, Mapping):
        return seen
    fields = {pair for one in earlier for pair in fields_of(one)} | undone_by_now(earlier)
    if any(one.waits for one in earlier):
        fields = left_so(seen, fields, earlier)
    return with_fields(seen, fields, written)


def _moved_on(memory: RuleMemory | None, rule: Rule, scope: Scope, seen: Observation) -> Judgement | None:
    """A watched value that has changed again since the firing: the next poll decides what becomes of the write. Or one
    that is not any more what the rule asks for."""
    if memory is None:
        return None
    previous, asked = scope.extra.get("previous"), list[bool]()
    for watch in rule.on_change:
        key = scope.keys.get(watch.fact)
        base = memory.baselines.get(watch_key(key, watch)) if key is not None else None
        if key is None or base is None:
            continue
        fact = seen.get(key)
        if not isinstance(fact, Known):
            return Judgement(truth=Truth.UNKNOWN, why=f"{watch.fact}: {fact.why}", unknown=(watch.fact,))
        value = unless_reordered(normalised(fact, watch), [base.value])
        if value != base.value:
            return Judgement(truth=Truth.FALSE, why=f"{watch.fact} has changed again since the rule fired")
        if isinstance(previous, dict) and watch.fact in previous:
            asked.append(watch.asks_for(previous[watch.fact], value))
    if asked and not any(asked):
        return Judgement(truth=Truth.FALSE, why="the change is not any more the one that the rule asks for")
    return None


ROUNDS = 3
"""How often facts that have grown too old are read again before the write is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """The fresh facts by key and by name, and the condition on them. ``young_until``: the monotonic second by which the
    write must leave, with room for recording it. ``throttled``: a read met a 429: what was read with it will be too old
    when the back-off is over."""

    facts: Mapping[FactKey, Fact]
    named: Mapping[str, Fact]
    judgement: Judgement
    young_until: float
    throttled: bool = False


LEFT = Unknown(code="unread", why="not read, because the read before it was answered 429")
"""A fact that a pre-flight left out. Nothing is sent without it."""
UNASKED = Fresh(
    facts={},
    named={},
    judgement=Judgement(truth=Truth.TRUE, why="a message asks nothing of the service"),
    young_until=inf,
)
"""What a message is handed over with."""


class Preflight(Stage):
    """Reads what a write depends on, and judges its condition on it."""

    @asynccontextmanager
    async def together(self, state: PartnerState, write: Write, rules: tuple[Rule, ...]) -> AsyncIterator[Places]:
        """Within, the reads of this write's pre-flight and the write itself need not wait for floors or budget; and
        polls leave the facts of its event alone, which would raise the floors anew."""
        # Behind many first sends the evidence of one that is sent again would grow too old.
        first = write.intent.stops or write.state == "unknown"
        urgency = Urgency.STOPPING if first else Urgency.PREFLIGHT
        event = write.key.event
        keys = [key for key in self.keys(state, write, rules) if self._had(state, event, key) is None]
        state.claimed[event] += 1
        try:
            places = await self._service.keep_places(write.key.partner, event, keys, urgency=urgency)
            try:
                yield places
            finally:
                places.give_back()
        finally:
            state.claimed[event] -= 1

    async def read(
        self, state: PartnerState, write: Write, rules: tuple[Rule, ...], earlier: tuple[Write, ...], places: Places
    ) -> Fresh:
        """One pre-flight. ``rules`` are those the write stands for; one of them must still hold."""
        keys, event = self.keys(state, write, rules), write.key.event
        facts, throttled = {key: fact for key in keys if (fact := self._had(state, event, key)) is not None}, False

        def judged() -> Judgement:
            seen = self.seen(state, event, rules, facts)
            return still_holds(write, rules, earlier, seen, state.memories, self._clock.now())

        # A write that stops leaves out what was answered 429 the last time, where its rule says yes without it. Asked
        # again, it would keep all others from being read, perhaps for ever.
        last = [(key, state.fact(event, key)) for key in keys if key not in (EVENT, fact_key(write.intent))]
        limited = {key: fact for key, fact in last if fact and fact.trace and fact.trace.status == 429}
        if limited and write.intent.stops and judged().truth is Truth.TRUE:
            facts |= limited
        for _ in range(ROUNDS):
            stale = [key for key in keys if self._too_old(key, facts.get(key))]
            if not stale or throttled:
                break
            for part in ([key for key in stale if key != EVENT], [key for key in stale if key == EVENT]):
                for key, fact in [] if throttled else await self._read_all(state, write, part, places):
                    facts[key] = fact
                    state.observe(event, key, fact)
                    throttled = throttled or (fact.trace is not None and fact.trace.status == 429)
        facts = {**dict.fromkeys(keys, LEFT), **facts}
        named = {key.name: fact for key, fact in facts.items()}
        named.setdefault("partner", state.shared.get(PARTNER, Unknown(code="unread", why="not read yet")))
        read = [fact for key, fact in facts.items() if key.name not in self._settings.every]
        began = [fact.trace.began for fact in read if isinstance(fact, Known) and fact.trace is not None]
        oldest = min(began, default=self._clock.monotonic())
        return Fresh(
            facts=facts,
            named=named,
            judgement=judged(),
            young_until=oldest + SENT_WITHIN * self._settings.interval.total_seconds(),
            throttled=throttled,
        )

    def still(self, facts: Mapping[FactKey, Fact]) -> bool:
        """Whether every one of these facts is still younger than the interval."""
        return not any(self._too_old(key, fact) for key, fact in facts.items())

    def _had(self, state: PartnerState, event: EventId, key: FactKey) -> Fact | None:
        """What is asked no more often than so is taken as it was read last."""
        fact, every = state.fact(event, key), self._settings.every.get(key.name)
        if fact is None or fact.trace is None or every is None:
            return None
        return fact if self._clock.monotonic() - fact.trace.began < every.total_seconds() else None

    def _too_old(self, key: FactKey, fact: Fact | None) -> bool:
        if fact is None:
            return True
        if not isinstance(fact, Known):
            return fact is LEFT
        age = self._clock.monotonic() - (fact.trace.began if fact.trace else float("-inf"))
        return age >= self._settings.every.get(key.name, self._settings.interval).total_seconds()

    def keys(self, state: PartnerState, write: Write, rules: tuple[Rule, ...]) -> list[FactKey]:
        """The facts that this write depends on."""
        event = write.key.event
        seen = Observation(partner=write.key.partner, event=event, facts=state.merged(event))
        now = self._clock.now()
        keys = {EVENT}
        anew = out_of_date(Situation(write=write, now=now, limits=self._settings.limits)) is not None
        for rule in rules:
            scope = scope_of(rule, seen, now)
            in_when = rule.when.names if rule.when is not None else frozenset()
            names = rule.names if anew or write.waits else {*in_when, *(watch.fact for watch in rule.on_change)}
            keys |= {scope.keys[name] for name in names - LOCAL - MADE if name in scope.keys}
        for rule in self._following(write):
            given = keys_for(rule, seen, now)
            keys |= {given[path.name] for path in since_of(rule) if path.name in given}
        row = ACTIONS[write.intent.action]
        keys |= {FactKey(name=name) for name in row.reads}
        if (of := write.intent.context.get(EACH)) not in (None, ADDED):
            keys.add(FactKey(name=str(of)))
        if reads_back(write.intent, write.key.item):
            keys.add(fact_key(write.intent))
        if row.budget == "draft" or budgets_of(write.intent):
            keys.add(self._budget_key(rules, seen, now))
        return sorted(keys, key=lambda key: (key != EVENT, key.text))

    def _following(self, write: Write) -> list[Rule]:
        """The rules that come after one of the write's, and may ask what has changed since its first sending."""
        rules = self._rules.current.rules if write.intent.target and not write.sent else ()
        of = {write.key.rule, *write.rules}
        return [rule for rule in rules if rule.after in of and rule.applies_to(write.key.partner)]

    def kept(self, state: PartnerState, write: Write, fresh: Fresh) -> dict[str, Json]:
        """What those rules ask of it, as it was read just now."""
        facts, found = {**state.merged(write.key.event), **fresh.facts}, dict[str, Json]()
        seen = Observation(partner=write.key.partner, event=write.key.event, facts=facts)
        for rule in self._following(write):
            found |= kept_of(rule, seen, self._clock.now())
        return found

    def _budget_key(self, rules: tuple[Rule, ...], seen: Observation, now: datetime) -> FactKey:
        given = next(
            (rule.parameters["runtime_in_days"] for rule in rules if "runtime_in_days" in rule.parameters), None
        )
        days = given if given is not None else runtime_in_days(seen, now)
        return FactKey(name="budget_range", params=() if days is None else (("runtime_in_days", days),))

    async def _read_all(
        self, state: PartnerState, write: Write, keys: list[FactKey], places: Places
    ) -> list[tuple[FactKey, Fact]]:
        proof = self._proof(write) if write.state == "unknown" else frozenset[str]()

        async def one(key: FactKey) -> tuple[FactKey, Fact]:
            if (shut := off_fact(key.name, state.products_off)) is not None:
                return key, shut
            event = None if key in state.shared else write.key.event
            young = timedelta(0) if key.name in proof else self._settings.interval / 2
            fact = await self._service.read(
                write.key.partner, event, key, urgency=Urgency.PREFLIGHT, max_age=young, places=places
            )
            return key, as_judged(key, fact)

        return list(await asyncio.gather(*(one(key) for key in keys)))

    def _proof(self, write: Write) -> frozenset[str]:
        """The facts that must be read anew before an unknown write is sent again: its target, and the event after it,
        unless the two are one answer."""
        target = fact_key(write.intent)
        same = dict(target.params).get("get") == "/events/{eid}"
        return frozenset({target.name} if same else {target.name, EVENT.name})

    def seen(
        self, state: PartnerState, event: EventId, rules: tuple[Rule, ...], facts: Mapping[FactKey, Fact]
    ) -> Observation:
        """What these rules are given to look at: the fresh facts over all others, and what is made of the record."""
        seen = Observation(partner=state.partner, event=event, facts={**state.merged(event), **facts})
        now, old = self._clock.now(), seen.get(EVENTS)
        poll = max(self._settings.interval, timedelta(seconds=state.poll_s))
        if isinstance(old, Known) and now - old.read_at > 2 * poll:
            stale = Unknown(code="unread", why="the list of events is older than two polls")
            seen = replace(seen, facts={**seen.facts, EVENTS: stale})
        then = state.past_asked(rules, now, self._settings.deciding.gap)
        return derived({event: seen}, self._ledger, then)[event]
