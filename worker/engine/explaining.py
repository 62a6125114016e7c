"""Why each rule did or did not fire for one event: the daemon's own `decide` on what the ledger holds, taken apart.

Nothing was stored for this. Facts, memory and writes are the ledger's as of the last poll, and the daemon would decide
the same; of an earlier time it has the facts, and the log's own word of what fired then and what was held. What is
remembered now is no part of that.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

from worker.engine.decide import Decision, decide
from worker.engine.derived import EVENTS, PastAsked, derived, of_all, recorded_memory
from worker.engine.ports import ReadableLedger
from worker.engine.views import DecidingSettings, PollView, sendings_reach
from worker.guards import as_of_now
from worker.model.commits import MEMORY, OF_PARTNER, Baseline, LogFilter, Observed, PartnerMemory, RuleMemory
from worker.model.facts import EventId, FactKey, Json, Known, Observation, PartnerId, RuleId, record_of, spelled
from worker.model.rules import Rule, RuleSet, Scope, Truth
from worker.model.writes import UNSENT, Write
from worker.rules.cel import Node
from worker.rules.evaluate import Expression, expression_of
from worker.rules.facts import missing_words, value_at
from worker.rules.registry import LOCAL
from worker.writes.evidence import fact_key
from worker.writes.intents import Wanted, shown_value, wanted

EVENT = FactKey(name="event")
MILLISECOND = timedelta(milliseconds=1)
"""Times are typed and printed so exactly: what came within one counts as being there."""

# A condition taken apart: each part with its own truth, and under it the values it saw and since when they are known.
#
# The parts are those of the syntax tree, and each is judged by the engine that judges the whole, so that an explanation
# cannot disagree with the decision.

PartKind: TypeAlias = Literal["and", "or", "not", "leaf"]
_KINDS: Mapping[str, PartKind] = {"and": "and", "or": "or", "not": "not"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenValue:
    """What stood at a path. ``missing`` says why there was nothing, and is empty where there was. ``read_at``: when the
    fact was read; None for what the worker knows by itself."""

    path: str
    value: Json = None
    missing: str = ""
    read_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One part of a condition: its text, where it stands in the whole, what it was and by which values. ``values`` only
    where the part combines no others."""

    kind: PartKind
    source: str
    offset: int
    truth: Truth
    why: str
    values: tuple[SeenValue, ...] = ()
    parts: "tuple[Explained, ...]" = ()


def explained(condition: Expression, scope: Scope) -> Explained:
    """The whole condition and all its parts over these facts."""
    return _apart(condition.source, condition.tree, scope)


def _apart(text: str, node: Node, scope: Scope) -> Explained:
    part = expression_of(text[node.start : node.end], node)
    kind = _KINDS.get(node.kind, "leaf")
    judgement = part.judge(scope)
    return Explained(
        kind=kind,
        source=part.source,
        offset=node.start,
        truth=judgement.truth,
        why=judgement.why,
        values=tuple(_seen_values(part, scope)) if kind == "leaf" else (),
        parts=() if kind == "leaf" else tuple(_apart(text, child, scope) for child in node.children),
    )


def _seen_values(condition: Expression, scope: Scope) -> Iterator[SeenValue]:
    for path in condition.paths:
        missing = missing_words(path, scope)
        fact = scope.fact(path.name) if path.name not in LOCAL else None
        value = None if missing else spelled(scope.now) if path.name == "now" else value_at(path, scope)
        read_at = fact.read_at if fact is not None else None
        yield SeenValue(path=path.text, value=value, missing=missing or "", read_at=read_at)


# What a write will do and spend, from the ledger's own facts: the words are `worker.writes.intents`'s.


def wanted_of(ledger: ReadableLedger, write: Write) -> Wanted:
    """What the write will do, or did: against what was there before the attempt that may have had an effect, else as it
    was read last. What has ended is not looked up any more."""
    facts = {} if write.final else {one.key: one for one in ledger.observed(write.key.partner, write.key.event)}
    before = write.before
    own = facts.get(fact_key(write.intent))
    if (write.state in UNSENT or not write.before_known) and own is not None and own.event == write.key.event:
        _, before = shown_value(write.intent, own.fact)
    currencies = (record_of(one.fact).get("currency") for one in facts.values() if one.event == OF_PARTNER)
    return wanted(write.intent, write.key.item, before, str(next(filter(None, currencies), "")))


# Why a rule did or did not fire.

Standing = Literal[
    "fires", "held", "true", "false", "unchanged", "unknown", "removed", "disabled", "not_for_partner", "not_loaded"
]
STANDINGS: dict[Standing, str] = {
    "fires": "fires at the next poll",
    "held": "held",
    "true": "true, nothing to do",
    "false": "not true",
    "unchanged": "waits for a change",
    "unknown": "unknown",
    "removed": "removed: it stands in no rule file",
    "disabled": "disabled",
    "not_for_partner": "not for this partner",
    "not_loaded": "as the log has it",
}
"""How a rule stands for the event, in words: how its condition is, or why it is not asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWord:
    """What a ``fired`` or ``held`` record says. ``facts``: what the condition used, on a firing."""

    at: datetime
    kind: str
    episode: int
    reason: str
    why: str
    facts: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedFact:
    """One watched fact of ``on_change``: what is remembered, and what is pending since when."""

    key: str
    remembered: Baseline
    pending: Json = None
    pending_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleExplained:
    """One rule for one event at a moment. ``since``: since when it is held, or has fired and waits. ``until``: until
    when it is held; ``next_at``: the next time of its ``at``. ``change``: previous, added and removed. ``fired``,
    ``held``: the log's last such records up to then. ``writes``: those planned by then that are not final now, or came
    of the last firing. Of an earlier time there is no ``memory``, and nothing ``watched``."""

    rule: RuleId
    place: str
    description: str
    standing: Standing
    since: datetime | None = None
    reason: str = ""
    why: str = ""
    until: datetime | None = None
    next_at: datetime | None = None
    condition: Explained | None = None
    change: Mapping[str, Json] = field(default_factory=dict)
    fired: LogWord | None
    held: LogWord | None
    memory: RuleMemory | None
    watched: tuple[WatchedFact, ...]
    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventExplained:
    """``looked_at``: the partner's last complete list; ``at``: the moment that is explained; ``gone_at``: since when
    the event is out of sight."""

    partner: PartnerId
    event: EventId
    looked_at: datetime | None
    at: datetime
    gone_at: datetime | None
    rules: tuple[RuleExplained, ...]


def last_poll(ledger: ReadableLedger, partner: PartnerId) -> datetime | None:
    """The newest complete list that the ledger knows of."""
    said = ledger.status()
    partners = said.body.get("partners") if said is not None else None
    one = partners.get(partner) if isinstance(partners, dict) else None
    last = one.get("last_ok_at") if isinstance(one, dict) else None
    memory = ledger.partner_memory(partner)
    found = [datetime.fromisoformat(last)] if isinstance(last, str) else []
    if memory is not None and memory.listed_at is not None:
        found.append(memory.listed_at)
    return max(found, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked. ``at``: an earlier time than the last poll. ``only``: one rule. ``rules``: None where their folder
    does not load; then each is told as the ledger knows it."""

    partner: PartnerId
    event: EventId
    now: datetime
    rules: RuleSet | None
    settings: DecidingSettings
    at: datetime | None = None
    only: RuleId | None = None


def explain(ledger: ReadableLedger, asked: Question) -> EventExplained:
    """Every rule of the folder, and every rule that the ledger remembers for the partner, by id."""
    looked_at = last_poll(ledger, asked.partner)
    at = asked.at or looked_at or asked.now
    words = _words(ledger, asked, at)
    past, until = asked.at is not None, at + MILLISECOND
    of = asked.partner, asked.event
    seen = ledger.history(asked.partner, until, [asked.event]).start if past else ledger.observed(*of)
    seen = [_as_of(one, at if looked_at is None else min(at, looked_at)) for one in seen]
    then = next((recorded_memory(asked.partner, one.fact) for one in seen if one.key == MEMORY), None)
    memory = (then if past else ledger.partner_memory(asked.partner)) or PartnerMemory(partner=asked.partner)
    memories = {} if past else {one.rule: one for one in ledger.rule_memories(*of)}
    unsettled = ledger.open_writes(asked.partner)
    last = (ledger.episode_writes(*of, rule, one.episode) for (rule, kind), one in words.items() if kind == "fired")
    made = {one.id: one for some in (unsettled, *last) for one in some if one.key.event == asked.event}
    loaded = {} if asked.rules is None else {rule.id: rule for rule in asked.rules.rules}
    halts = ledger.halts(asked.now)
    poll = PollView(
        partner=asked.partner,
        now=at,
        memory=memory,
        observations={},
        memories={(asked.event, rule): one for rule, one in memories.items()},
        writes=() if past else unsettled,
    )
    judged = _judged(ledger, asked, asked.rules, poll, seen) if asked.rules is not None else None
    writes = [as_of_now(one, halts) for _, one in sorted(made.items()) if not past or one.planned_at <= until]
    known = {*loaded, *memory.rules, *memories, *(rule for rule, _ in words)}
    return EventExplained(
        partner=asked.partner,
        event=asked.event,
        looked_at=looked_at,
        at=at,
        gone_at=memory.gone.get(asked.event),
        rules=tuple(
            _explained(
                loaded.get(rule_id) or rule_id,
                judged,
                (words.get((rule_id, "fired")), words.get((rule_id, "held"))),
                memories.get(rule_id),
                [one for one in writes if rule_id in (one.key.rule, *one.rules)],
            )
            for rule_id in sorted(known)
            if asked.only in (None, rule_id)
        ),
    )


class _Judged(NamedTuple):
    """What `decide` makes of the event at a moment."""

    asked: Question
    at: datetime
    decision: Decision


def _judged(
    ledger: ReadableLedger, asked: Question, rules: RuleSet, poll: PollView, seen: Sequence[Observed]
) -> _Judged:
    """Of an earlier time there is no memory: what fired and was held then is told by the log."""
    partner, event, until = asked.partner, asked.event, poll.now + MILLISECOND
    facts = {one.key: one.fact for one in seen if not one.key.name.startswith("#")}
    if any(EVENTS.name in rule.names for rule in rules.rules):
        listed = {one.event: one.fact for one in ledger.history(partner, until).start if one.key == EVENT}
        facts[EVENTS] = of_all({one: fact for one, fact in listed.items() if one not in poll.memory.gone}, poll.now)
    then = PastAsked(rules=rules.rules, now=until, until=until, gap=asked.settings.gap, memory=poll.memory)
    poll = replace(
        poll,
        observations=derived({event: Observation(partner=partner, event=event, facts=facts)}, ledger, then),
        looked_at={one.event: one.looked_at for one in seen if one.looked_at is not None},
        sendings={} if asked.at else ledger.first_sendings(partner, poll.now - sendings_reach(rules.rules)),
        episode_writes=lambda event, rule, episode: ledger.episode_writes(partner, event, rule, episode),
        target_writes=lambda event, target: ledger.target_writes(partner, event, target),
    )
    return _Judged(asked, poll.now, decide(rules, poll, asked.settings))


def _as_of(one: Observed, at: datetime) -> Observed:
    """The event itself is in every complete list: what the last one did not change it has shown again."""
    shown = one.key == EVENT and isinstance(one.fact, Known)
    return replace(one, fact=replace(one.fact, read_at=at)) if shown else one


def _words(ledger: ReadableLedger, asked: Question, at: datetime) -> dict[tuple[RuleId, str], LogWord]:
    """The last firing and the last hold of each rule that the log tells up to then."""
    found: dict[tuple[RuleId, str], LogWord] = {}
    wanted = LogFilter(partner=asked.partner, event=asked.event)
    records = (one for kind in ("fired", "held") for one in ledger.log(replace(wanted, kind=kind)))
    for record in records:
        said_at, episode = datetime.fromisoformat(str(record["at"])), record["episode"]
        if record["write"] is None and record["rule"] is not None and said_at <= at:
            found[RuleId(str(record["rule"])), str(record["kind"])] = LogWord(
                at=said_at,
                kind=str(record["kind"]),
                episode=episode if isinstance(episode, int) else 0,
                reason=str(record["reason"] or ""),
                why=str(record["why"]),
                facts=record["facts"],
            )
    return found


def _explained(
    rule: Rule | RuleId,
    judged: _Judged | None,
    words: tuple[LogWord | None, LogWord | None],
    memory: RuleMemory | None,
    writes: Iterable[Write],
) -> RuleExplained:
    fired, held = words
    known = rule if isinstance(rule, Rule) else None
    told = RuleExplained(
        rule=known.id if known is not None else RuleId(str(rule)),
        place="" if known is None else f"{known.file}:{known.line}",
        description="" if known is None else known.description,
        standing="removed" if judged is not None else "not_loaded",
        fired=fired,
        held=held,
        memory=memory,
        watched=tuple(_watched(memory)),
        writes=tuple(writes),
    )
    if known is None or judged is None:
        return told
    if not known.enabled:
        return replace(told, standing="disabled")
    if not known.applies_to(judged.asked.partner):
        return replace(told, standing="not_for_partner")
    return _stands(told, known, judged)


def _stands(told: RuleExplained, rule: Rule, judged: _Judged) -> RuleExplained:
    """How the condition is, and what holds the rule where it is true."""
    pair = (judged.asked.event, rule.id)
    judgement, held = judged.decision.judged.get(pair), judged.decision.held.get(pair)
    scope = judged.decision.scope(judged.asked.event, rule)
    if rule.when is not None and judgement is None:
        judgement = rule.when.judge(scope)  # a rule with `at`, between its times
    told = replace(
        told,
        standing={Truth.FALSE: "false", Truth.UNKNOWN: "unknown"}.get(judgement.truth, "true") if judgement else "true",  # type: ignore[arg-type] # literals
        why=judgement.why if judgement is not None else "",
        condition=explained(rule.when, scope) if isinstance(rule.when, Expression) else None,
        change=scope.extra,
        next_at=rule.at.next(judged.at) if rule.at is not None else None,
    )
    if told.standing == "false" and held is None:  # of a change nothing is decided before it may be
        return told
    if rule.on_change and not scope.extra and held is None:
        told = replace(told, standing="unchanged")
    if judged.asked.at is not None:
        last = max((one for one in (told.fired, told.held) if one is not None), key=lambda one: one.at, default=None)
        if told.standing == "unknown" or last is None:
            return told
        standing: Standing = "held" if last.kind == "held" else told.standing
        return replace(told, standing=standing, since=last.at, reason=last.reason, why=last.why)
    if held is not None:
        since = told.held.at if told.held is not None and told.held.reason == held.reason else judged.at
        standing = "unknown" if told.standing == "unknown" else "held"
        return replace(told, standing=standing, since=since, reason=held.reason, why=held.why, until=held.until)
    if told.standing == "true" and any(
        one.kind == "fired" and one.rule == rule.id for one in judged.decision.commit.records
    ):
        return replace(told, standing="fires")
    open_since = told.memory.fired_at if told.memory is not None and told.memory.open else None
    return replace(told, since=open_since if told.standing == "true" else None)


def _watched(memory: RuleMemory | None) -> Iterator[WatchedFact]:
    if memory is None:
        return
    for key, base in sorted(memory.baselines.items()):
        since = memory.pending_since if key in memory.pending else None
        yield WatchedFact(key=key, remembered=base, pending=memory.pending.get(key), pending_since=since)
