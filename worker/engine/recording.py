"""Keeps the trail of the looks: observed facts as they change, and evaluations where they say something new.

Beside the decision and never in its way: it decides nothing, a quiet cycle writes nothing, and where the ledger cannot
take it, the decision is stored without it and recording rests for a while. What it knows of the ledger is a copy, read
once at start, so that most looks cost one comparison a fact.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice

from worker.engine.decide import Decision
from worker.engine.parts import Parts
from worker.model.commits import (
    MEMORY,
    OF_PARTNER,
    SILENCE,
    Change,
    Ending,
    Evaluation,
    Observed,
    PartnerMemory,
    SeenFact,
    Trail,
)
from worker.model.errors import LedgerUnwritable
from worker.model.facts import (
    EventId,
    Fact,
    FactKey,
    Json,
    Known,
    Observation,
    PartnerId,
    Place,
    RuleId,
    Unknown,
    spelled,
)
from worker.model.records import Record
from worker.model.rules import Rule, RuleSet, Truth
from worker.rules.mentions import Fields, decides, narrowed, worth_keeping

# How an evaluation ended, and whether that is worth storing. Pure.
#
# An evaluation is made from what `decide` has given, never from a second judgement. It is stored where its ending or
# the values that decided are others than those that stand in the ledger; the words, and when a fact was read, decide
# nothing.

Pair = tuple[EventId, RuleId]
JUST_AFTER = timedelta(microseconds=1)
_ENDINGS: Mapping[Truth, Ending] = {Truth.TRUE: "true", Truth.FALSE: "false", Truth.UNKNOWN: "unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """One decision, to be asked how the evaluation of a pair ended. ``fired``: the records of its firings."""

    partner: PartnerId
    now: datetime
    decision: Decision
    fired: Mapping[Pair, Record]

    def of(self, event: EventId, rule: Rule, names: Mapping[str, Fields]) -> Evaluation | None:
        """The evaluation of a pair; None where it was not judged. ``names``: what the rule's condition looks at."""
        pair = (event, rule.id)
        judgement = self.decision.judged.get(pair)
        if judgement is None:
            return None
        scope = self.decision.scope(event, rule)
        seen = {
            name: SeenFact(key=scope.keys[name], fact=undated(narrowed(scope.fact(name), fields)))
            for name, fields in sorted(names.items())
            if name in scope.keys
        }
        memory = self.decision.memories.get(pair)
        one = Evaluation(
            partner=self.partner,
            event=event,
            rule=rule.id,
            ending=_ENDINGS[judgement.truth],
            when_hash=rule.when_hash,
            at=self.now,
            since=self.now,
            episode=memory.episode if memory is not None else 0,
            why=judgement.why,
            facts=seen,
            extra=scope.extra,
        )
        record, brake = self.fired.get(pair), self.decision.held.get(pair)
        if record is not None:
            return replace(one, ending="fired", reason=record.reason, why=record.why, episode=record.episode or 0)
        if brake is not None:
            ending: Ending = "unknown" if judgement.truth is Truth.UNKNOWN else "held"
            return replace(one, ending=ending, reason=brake.reason, why=brake.why, until=brake.until)
        return one


def evaluated(partner: PartnerId, decision: Decision) -> Evaluated:
    """The decision, ready to be asked."""
    records = {
        (record.event, record.rule): record
        for record in decision.commit.records
        if record.kind == "fired" and record.event is not None and record.rule is not None
    }
    return Evaluated(partner=partner, now=decision.commit.at, decision=decision, fired=records)


def worth_storing(new: Evaluation, stored: Sequence[Evaluation]) -> Evaluation | None:
    """The evaluation as it is to be stored beside those of its pair, oldest first; None where it says nothing new."""
    if not stored:
        return new
    last = stored[-1]
    new = replace(new, at=max(new.at, last.at + JUST_AFTER))  # the newest, also where the clock was set back
    if new.ending == "fired" or last.ending != new.ending or last.reason != new.reason:
        return new
    if _deciding(last) == _deciding(new):
        return None
    return replace(new, since=last.since)


def too_early(new: Evaluation, names: Mapping[str, Fields]) -> bool:
    """Whether nothing can be told only because a fact has not been asked for yet: the list of events is decided on
    before the facts that cost a request each, and what they say then must not be forgotten for that."""
    unread = any(isinstance(one.fact, Unknown) and one.fact.code == "unread" for one in new.facts.values())
    return new.ending == "unknown" and (unread or new.facts.keys() != names.keys())


def undated(fact: Fact) -> Fact:
    """The fact without its trace, which is about the wire and not about the value."""
    return replace(fact, trace=None) if fact.trace is not None else fact


def same(old: Fact | None, new: Fact) -> bool:
    """Whether two facts say the same, whenever they were read, and in whatever words nothing is known."""
    if isinstance(new, Known):
        return isinstance(old, Known) and old.value == new.value and old.gaps == new.gaps
    return old is not None and not isinstance(old, Known) and old.code == new.code


def by_pair(found: Iterable[Evaluation]) -> dict[Pair, list[Evaluation]]:
    """Evaluations by (event, rule), in their order."""
    pairs: dict[Pair, list[Evaluation]] = {}
    for one in found:
        pairs.setdefault((one.event, one.rule), []).append(one)
    return pairs


def _deciding(one: Evaluation) -> tuple[object, ...]:
    values = {
        name: (seen.key, seen.fact.value, dict(seen.fact.gaps)) if isinstance(seen.fact, Known) else seen.fact.code
        for name, seen in one.facts.items()
    }
    return one.when_hash, one.until, one.episode, values, dict(one.extra)


PAIRS_AT_ONCE = 2_000
SHARE_AT_ONCE = 20
"""One look compares at most so many evaluations with the ledger, or one in so many of its own where that is more; what
has just fired or is newly held comes first and always, the rest in the looks that follow."""
SILENCE_LONGER_THAN = timedelta(minutes=1)
"""A time without a complete list that is kept as a silence."""
REST = timedelta(minutes=1)
"""How long recording rests after the ledger could not take it."""
FORGET_EVERY = timedelta(minutes=1)


@dataclass(slots=True)
class Kept:
    """What is known of one partner's trail. ``facts``: as they were seen last and are stored; ``since``: when an
    earlier process stored those of them that this one has not seen yet, and of which the log may tell more; ``told``:
    events of which the log may tell more, also where nothing of them is stored; ``due``:
    events whose evaluations are to be compared with the ledger, at a look at them; ``waited``: those of them that have
    waited once for a fact nobody had asked for; ``rules``: the set they were last due for."""

    facts: dict[EventId, dict[FactKey, Fact]] = field(default_factory=dict)
    since: dict[Place, datetime] = field(default_factory=dict)
    told: Container[EventId] = ()
    due: dict[EventId, None] = field(default_factory=dict)
    waited: set[EventId] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    rules: RuleSet | None = None
    names: Mapping[str, Mapping[str, Fields]] = field(default_factory=dict)
    fields: Mapping[str, Fields] = field(default_factory=dict)
    listed_at: datetime | None = None
    rests_until: datetime | None = None
    forgot_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One look, as far as it is recorded: the events of which it learnt anything, and those of them that every rule
    looked at. ``complete``: the list was had as a whole."""

    observations: Mapping[EventId, Observation]
    whole: AbstractSet[EventId]
    memory: PartnerMemory
    rules: RuleSet
    complete: bool


class Recorder:
    """Makes the trail of each look. One instance serves all partners."""

    def __init__(self, parts: Parts) -> None:
        self._ledger = parts.ledger
        self._shared = parts.settings.shared
        self._keep = parts.settings.observations_kept

    def load(self, partner: PartnerId, memory: PartnerMemory, told: Container[EventId] = ()) -> Kept:
        """What the ledger holds of the partner. ``told``: events of which the log may tell more than the trail."""
        kept = Kept(listed_at=memory.listed_at, told=told)
        for one in self._ledger.observed(partner):
            kept.facts.setdefault(one.event, {})[one.key] = one.fact
            if one.event in told:
                kept.since[one.event, one.key] = one.at
        return kept

    def next_due(self, kept: Kept, in_sight: Container[EventId], rules: int) -> list[EventId]:
        """Events that a look must look at though nothing else calls for it, so that what is due of them is compared."""
        waiting = (event for event in kept.due if event in in_sight)
        return list(islice(waiting, max(1, PAIRS_AT_ONCE // max(1, rules))))

    def trail(self, kept: Kept, sight: Sight, decision: Decision) -> Trail | None:
        """What this look leaves behind; None for nothing, which is most looks. Reads the ledger, writes nothing."""
        now = decision.commit.at
        if kept.rests_until is not None and now < kept.rests_until:
            return None
        self._under_rules(kept, sight)
        changes = tuple(_changes(kept, sight, self._shared, now))
        urgent = _touched(kept, decision, changes, sight.observations)
        try:
            evaluations = tuple(self._evaluations(kept, sight, decision, urgent))
        except LedgerUnwritable:
            self.rest(kept, now)
            return None
        if not changes and not evaluations:
            return None
        texts = {rule.when_hash: rule.when.source for rule in sight.rules.rules if rule.when is not None}
        named = {one.when_hash for one in evaluations} - kept.texts
        return Trail(
            partner=sight.memory.partner,
            evaluations=evaluations,
            texts={one: texts[one] for one in sorted(named) if one in texts},
            changes=changes,
            forget=self._forget(kept, now),
        )

    def stored(self, kept: Kept, trail: Trail) -> None:
        """The trail is in the ledger."""
        for change in trail.changes:
            kept.facts.setdefault(change.now.event, {})[change.now.key] = change.now.fact
        kept.texts |= trail.texts.keys()
        if trail.forget is not None:
            kept.forgot_at = trail.forget

    def rest(self, kept: Kept, now: datetime) -> None:
        """The ledger could not take it: nothing is recorded for a while, and then everything is compared anew."""
        kept.rests_until = now + REST
        kept.rules = None

    def _under_rules(self, kept: Kept, sight: Sight) -> None:
        """Under other rules every event is evaluated otherwise."""
        if kept.rules is sight.rules:
            return
        for facts in kept.facts.values() if kept.fields else ():
            facts.update({key: narrowed(fact, kept.fields.get(key.name)) for key, fact in facts.items()})
        kept.rules = sight.rules
        kept.names = {rule.id: decides(rule) for rule in sight.rules.rules}
        kept.fields = worth_keeping(sight.rules.rules)
        kept.due.update(dict.fromkeys(sight.observations))

    def _evaluations(
        self, kept: Kept, sight: Sight, decision: Decision, urgent: Iterable[EventId]
    ) -> Iterator[Evaluation]:
        rules = [rule for rule in sight.rules.rules if rule.looks_at(sight.memory.partner)]
        count = max(PAIRS_AT_ONCE // max(1, len(rules)), len(sight.whole) // SHARE_AT_ONCE)
        looked_at = [event for event in kept.due if event in sight.whole] if sight.whole else []
        events = list(dict.fromkeys((*urgent, *looked_at[: max(1, count)])))
        if not events:
            return
        stored = by_pair(self._ledger.evaluations(events, sight.memory.partner))
        ask = evaluated(sight.memory.partner, decision)
        for event in events:
            waits = False
            for rule in rules if event in sight.observations else ():
                new = ask.of(event, rule, kept.names[rule.id])
                if new is None:
                    continue
                if event not in kept.waited and too_early(new, kept.names[rule.id]):
                    waits = True
                    continue
                found = worth_storing(new, stored.get((event, rule.id), ()))
                if found is not None:
                    yield found
            if waits:
                kept.waited.add(event)
                kept.due.pop(event, None)  # behind the others
                kept.due[event] = None
            elif event not in sight.observations or event in sight.whole:
                kept.due.pop(event, None)
                kept.waited.discard(event)

    def _forget(self, kept: Kept, now: datetime) -> datetime | None:
        before = now - self._keep
        due = kept.forgot_at is None or before - kept.forgot_at >= FORGET_EVERY
        return before if due else None


def _changes(kept: Kept, sight: Sight, of_partner: frozenset[str], now: datetime) -> Iterator[Change]:
    """Every fact that is another one than when it was seen last."""
    shared: dict[FactKey, Fact] = {}
    for event, observation in sight.observations.items():
        known = kept.facts.get(event)
        if known is None:
            known = kept.facts[event] = {}
        for key, fact in observation.facts.items():
            if key.name in of_partner:
                shared[key] = fact
            elif known.get(key) is not fact:
                yield from _changed(kept, (event, key), fact, now)
    for key, fact in shared.items():
        yield from _changed(kept, (OF_PARTNER, key), fact, now)
    yield from _changed(kept, (OF_PARTNER, MEMORY), Known(value=_spelled(sight.memory), read_at=now), now)
    if sight.complete:
        if kept.listed_at is not None and now - kept.listed_at > SILENCE_LONGER_THAN:
            silence = Known(value={"since": spelled(kept.listed_at)}, read_at=now)
            yield from _changed(kept, (OF_PARTNER, SILENCE), silence, now)
        kept.listed_at = now


def _changed(kept: Kept, place: Place, fact: Fact, now: datetime) -> Iterator[Change]:
    """The change of one fact, if it is one in what is worth keeping of it."""
    event, key = place
    known = kept.facts.setdefault(event, {})
    old = known.get(key)
    if same(old, fact):
        known[key] = fact
        return
    fields = kept.fields.get(key.name)
    new = narrowed(fact, fields)
    before = None if old is None else narrowed(old, fields)
    if same(before, new):
        known[key] = fact
        return
    yield Change(now=Observed(event=event, key=key, fact=undated(new), at=now), before=before)


def _touched(kept: Kept, decision: Decision, changes: Iterable[Change], events: Iterable[EventId]) -> list[EventId]:
    """Notes which events are to be evaluated anew; gives those that cannot wait, because a rule fired or is held."""
    for change in changes:
        if change.now.event != OF_PARTNER:
            kept.due[change.now.event] = None
        elif change.now.key not in (MEMORY, SILENCE):
            kept.due.update(dict.fromkeys(events))
    kept.due.update(dict.fromkeys(memory.event for memory in decision.commit.memory))
    return [one.event for one in decision.commit.records if one.event is not None and one.kind in ("fired", "held")]


def memory_of(partner: PartnerId, fact: Fact) -> PartnerMemory:
    """The partner's memory as it was recorded, without when its events were listed last."""
    found = fact.value if isinstance(fact, Known) and isinstance(fact.value, dict) else {}
    return PartnerMemory(
        partner=partner,
        after_gap_at=_moment(found.get("after_gap_at")),
        reset_at=_moment(found.get("reset_at")),
        restored_at=_moment(found.get("restored_at")),
        gone=_moments(found.get("gone")),
        returned=_moments(found.get("returned")),
    )


def _spelled(memory: PartnerMemory) -> dict[str, Json]:
    """The partner's memory, but for when its events were listed last."""
    return {
        "after_gap_at": spelled(memory.after_gap_at),
        "reset_at": spelled(memory.reset_at),
        "restored_at": spelled(memory.restored_at),
        "gone": {event: spelled(at) for event, at in sorted(memory.gone.items())},
        "returned": {event: spelled(at) for event, at in sorted(memory.returned.items())},
    }


def _moment(text: Json) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None


def _moments(texts: Json) -> dict[EventId, datetime]:
    found = texts if isinstance(texts, dict) else {}
    return {EventId(event): at for event, text in found.items() if (at := _moment(text)) is not None}
