"""How an evaluation ended, and whether that is worth storing. Pure.

An evaluation is made from what `decide` has given, never from a second judgement. It is stored where its ending or the
values that decided are others than those that stand in the ledger; the words, and when a fact was read, decide nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from worker.engine.decide import Decision
from worker.model.facts import Fact, Known, Unknown
from worker.model.ids import EventId, PartnerId, RuleId
from worker.model.records import Record
from worker.model.rules import Rule, Truth
from worker.model.trail import Ending, Evaluation, SeenFact
from worker.rules.mentions import Fields, narrowed

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
