"""Why each rule did or did not fire for one event: the kept evaluations taken apart, beside memory and writes. Pure.

Everything comes from the ledger, so it works without the service, beside a running daemon, and years later. The
condition is taken apart in the text that was judged; where the rule says something else by now, that is said.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from worker.model.commits import OF_PARTNER, Baseline, Ending, Evaluation, Observed, RuleMemory
from worker.model.facts import EventId, Json, Known, PartnerId, RuleId
from worker.model.rules import Rule, RuleSet
from worker.model.writes import Write
from worker.rules.cel import BadSyntax
from worker.rules.conditions import CelCondition, condition
from worker.rules.explain import Explained, explained, scope_of
from worker.writes.evidence import fact_key, target_value
from worker.writes.intents import Wanted, wanted

# What a write will do and spend, from the ledger's own facts: the words are `worker.writes.intents`'s.


class Seen(Protocol):
    """Any ledger: it has the facts as they were read last."""

    def observed(self, partner: PartnerId, event: EventId | None = None) -> Sequence[Observed]: ...


def wanted_of(ledger: Seen, write: Write) -> Wanted:
    """What the write will do, or did: against what was there before its first attempt, else as it was read last. What
    has ended is not looked up any more."""
    facts = {} if write.final else {one.key: one for one in ledger.observed(write.key.partner, write.key.event)}
    before = write.before
    own = facts.get(fact_key(write.intent))
    if not write.before_known and own is not None and own.event == write.key.event:
        _, before = target_value(write.intent, own.fact)
    of_partner = [one.fact.value for one in facts.values() if one.event == OF_PARTNER and isinstance(one.fact, Known)]
    currency = next((one["currency"] for one in of_partner if isinstance(one, dict) and one.get("currency")), "")
    return wanted(write.intent, write.key.item, before, str(currency))


Standing = Ending | Literal["removed", "disabled", "not_for_partner", "not_looked_at"]
STANDINGS: dict[Standing, str] = {
    "fired": "fired",
    "held": "held",
    "true": "true, nothing to do",
    "false": "not true",
    "unknown": "unknown",
    "removed": "removed: it stands in no rule file",
    "disabled": "disabled",
    "not_for_partner": "not for this partner",
    "not_looked_at": "nobody has looked yet",
}
"""How a rule stands for the event, in words: how it was last evaluated, or why it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """One kept evaluation, taken apart. ``parts`` is None where there is no condition, or none that can be read."""

    evaluation: Evaluation
    parts: Explained | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One watched fact of ``on_change``: what is remembered, and what is pending since when."""

    key: str
    remembered: Baseline
    pending: Json = None
    pending_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleExplained:
    """One rule for one event. ``last``: the newest evaluation; ``others``: the newest of every other ending, newest
    first. ``edited``: the rule's condition has another text by now. ``writes``: those that are not final."""

    rule: RuleId
    place: str
    description: str
    standing: Standing
    last: Evaluated | None
    others: tuple[Evaluated, ...]
    edited: bool
    memory: RuleMemory | None
    watched: tuple[Watched, ...]
    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventKnown:
    """What the ledger holds of one event of one partner. ``text``: gives a condition by its hash, None for none."""

    partner: PartnerId
    event: EventId
    evaluations: Sequence[Evaluation]
    memories: Sequence[RuleMemory]
    writes: Sequence[Write]
    text: Callable[[str], str | None] = field(repr=False)


def explain(known: EventKnown, rules: RuleSet | None, only: RuleId | None = None) -> tuple[RuleExplained, ...]:
    """Every rule of the folder and every rule that the ledger remembers for the event, by id. Without rules, because
    their folder does not load, each as the ledger knows it."""
    by_id = {} if rules is None else {rule.id: rule for rule in rules.rules}
    ids = {*by_id, *(one.rule for one in known.evaluations), *(one.rule for one in known.memories)}
    loaded = rules is not None
    return tuple(_explained(known, one, by_id.get(one), loaded=loaded) for one in sorted(ids) if only in (None, one))


def _explained(known: EventKnown, rule_id: RuleId, rule: Rule | None, *, loaded: bool) -> RuleExplained:
    kept = [one for one in known.evaluations if one.rule == rule_id]
    taken = [Evaluated(evaluation=one, parts=_parts(known, one, rule)) for one in reversed(kept)]
    memory = next((one for one in known.memories if one.rule == rule_id), None)
    last = taken[0] if taken else None
    return RuleExplained(
        rule=rule_id,
        place="" if rule is None else f"{rule.file}:{rule.line}",
        description="" if rule is None else rule.description,
        standing=_standing(known, rule, last) if loaded else _ending(last),
        last=last,
        others=tuple(taken[1:]),
        edited=rule is not None and last is not None and last.evaluation.when_hash != rule.when_hash,
        memory=memory,
        watched=tuple(_watched(memory)),
        writes=tuple(one for one in known.writes if rule_id in (one.key.rule, *one.rules) and not one.final),
    )


def _standing(known: EventKnown, rule: Rule | None, last: Evaluated | None) -> Standing:
    if rule is None:
        return "removed"
    if not rule.enabled:
        return "disabled"
    if rule.partners is not None and known.partner not in rule.partners:
        return "not_for_partner"
    return _ending(last)


def _ending(last: Evaluated | None) -> Standing:
    return "not_looked_at" if last is None else last.evaluation.ending


def _parts(known: EventKnown, one: Evaluation, rule: Rule | None) -> Explained | None:
    found = _condition(known, one, rule)
    return None if found is None else explained(found, scope_of(one))


def _condition(known: EventKnown, one: Evaluation, rule: Rule | None) -> CelCondition | None:
    """The condition in the text that was judged."""
    if rule is not None and rule.when_hash == one.when_hash:
        return rule.when if isinstance(rule.when, CelCondition) else None
    source = known.text(one.when_hash)
    try:
        return None if source is None else condition(source)
    except BadSyntax:
        return None  # an older program took what this one does not read


def _watched(memory: RuleMemory | None) -> Iterable[Watched]:
    if memory is None:
        return
    for key, base in sorted(memory.baselines.items()):
        pending = key in memory.pending
        yield Watched(
            key=key,
            remembered=base,
            pending=memory.pending.get(key),
            pending_since=memory.pending_since if pending else None,
        )
