"""Facts that the worker makes of what it keeps: what was, who set a field, and what another rule wrote.

What `ago(event.capacity, '24h')` names is the fact ``event@24h``, beside ``event`` in what a rule is given to look at.
A time that the record does not reach is unknown and says why: before the first known value, in a silence, before what
was kept, or while nobody read the fact. ``set_by`` is told by the log, and by what is not in it yet; ``write``, of a
rule that comes after another one, by the writes.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from worker.engine.ports import ReadableLedger
from worker.engine.whose import who_set
from worker.model.actions import ACTIONS
from worker.model.commits import KEPT, OF_PARTNER, SILENCE, Doing, Observed
from worker.model.facts import (
    EventId,
    Fact,
    FactKey,
    Json,
    Known,
    Observation,
    Unknown,
    parse_time,
    spelled,
)
from worker.model.rules import Rule, Scope, Truth
from worker.model.writes import Write
from worker.rules.cel import SINCE, THEN, WRITE
from worker.rules.facts import keys_for, since_then, windows_of
from worker.writes.intents import EACH
from worker.writes.undo import last_firing

EVENT, EVENTS, SET_BY = (FactKey(name=name) for name in ("event", "events", "set_by"))
_EVER = datetime.min.replace(tzinfo=UTC)
SILENT = "nobody looked then"
NOT_KEPT = "changes were not kept for so long then"
NAMED_MOST = 1_000
"""So many events are asked for by name; of more, all that the partner has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAsked:
    """What rules ask at a moment. ``gap``: a silence so long is a time of which nothing is known. ``listed_at``: when
    the list was had last before; ``changing``: events of which something is learnt that the ledger does not have yet;
    ``unstored``: the records of it."""

    rules: Sequence[Rule]
    now: datetime
    gap: timedelta
    listed_at: datetime | None = None
    changing: Collection[EventId] = ()
    unstored: Callable[[EventId], Sequence[Doing]] = lambda _event: ()


def derived(
    seen: Mapping[EventId, Observation], ledger: ReadableLedger, asked: PastAsked
) -> Mapping[EventId, Observation]:
    """The observations with what their facts were, and until when they are that; and with who set their fields."""
    found = with_writes(_with_past(seen, ledger, asked), ledger, asked.rules, asked.now)
    rules = [rule for rule in asked.rules if SET_BY.name in rule.names]
    return {event: _with_who(one, rules, ledger, asked) for event, one in found.items()} if rules else found


def _with_who(seen: Observation, rules: Sequence[Rule], ledger: ReadableLedger, asked: PastAsked) -> Observation:
    """The log is only asked where the rest of a condition can be true."""
    fact = seen.get(EVENT)
    scopes = ((rule, Scope(observation=seen, keys=keys_for(rule, seen, asked.now), now=asked.now)) for rule in rules)
    matters = any(rule.when is None or rule.when.judge(scope).truth is not Truth.FALSE for rule, scope in scopes)
    if not matters or not isinstance(fact, Known) or not isinstance(fact.value, dict):
        return seen
    doings = [one for one in ledger.doings(seen.partner, seen.event) if one.at <= asked.now]
    writes = ledger.writes(event=seen.event, partner=seen.partner)
    value: Json = who_set([*doings, *asked.unstored(seen.event)], writes, fact.value)
    return replace(seen, facts={**seen.facts, SET_BY: Known(value=value, read_at=fact.read_at)})


# What another rule wrote.


def with_writes(
    seen: Mapping[EventId, Observation], ledger: ReadableLedger, rules: Sequence[Rule], now: datetime
) -> Mapping[EventId, Observation]:
    """The observations with ``write``, for each rule that comes after another one."""
    following = [rule for rule in rules if rule.after is not None]
    if not following or not seen:
        return seen
    partner, events = next(iter(seen.values())).partner, list(seen)
    made: dict[EventId, list[Write]] = {}
    for first in range(0, len(events), NAMED_MOST):
        for write in ledger.confirmed(partner, events[first : first + NAMED_MOST]):
            if write.changed_at <= now:
                made.setdefault(write.key.event, []).append(write)
    found: dict[EventId, Observation] = {}
    for event, one in seen.items():
        facts = {**one.facts}
        for rule in following:
            facts[keys_for(rule, one, now)[WRITE]] = _last_write(made.get(event, ()), rule, one, now)
        found[event] = replace(one, facts=facts)
    return found


def _last_write(confirmed: Sequence[Write], rule: Rule, seen: Observation, now: datetime) -> Known:
    """The last write of the rule that this one comes after; null where none stands."""
    firing = last_firing(confirmed, str(rule.after))
    if not firing.standing:
        return Known(value=None, read_at=now)
    last = firing.standing[-1]
    beside = [one for one in firing.standing if one.key.position == last.key.position]
    at = max(one.changed_at for one in firing.standing)
    value: dict[str, Json] = {"at": spelled(at), "action": last.intent.action, "first": int(firing.first)}
    gaps: dict[str, str] = {}
    kept = last.intent.context.get(SINCE)
    if isinstance(kept, Mapping):
        value[SINCE] = since_then(rule, kept, seen, now)
    if EACH in last.intent.context and len(beside) > 1:
        gaps = dict.fromkeys(("before", "wanted"), f"it made {len(beside)} writes, and this is of one")
    else:
        value["wanted"] = _as_read(last, dict(last.intent.wanted))
        if last.before_known:
            value["before"] = last.before
        else:
            gaps["before"] = f"nobody had read it before write {last.id} was sent"
    return Known(value=value, read_at=now, gaps=gaps)


def _as_read(write: Write, wanted: dict[str, Json]) -> Json:
    """What a write wants of its target, in the form in which its target is read."""
    if ACTIONS[write.intent.action].shown == "field":
        return wanted[write.intent.target]
    return {name: value for name, value in wanted.items() if name != "exists"}


def of_all(facts: Mapping[EventId, Fact | None], at: datetime) -> Known:
    """The partner's events as they were listed last."""
    values = (fact.value for _, fact in sorted(facts.items()) if isinstance(fact, Known))
    return Known(value=list(values), read_at=at)


# What was.


def _with_past(
    seen: Mapping[EventId, Observation], ledger: ReadableLedger, asked: PastAsked
) -> Mapping[EventId, Observation]:
    windows = windows_of(asked.rules)
    if not windows or not seen:
        return seen
    partner = next(iter(seen.values())).partner
    since = asked.now - max(windows.values())
    record, found = _Record(asked=asked), dict[EventId, Observation]()
    history = ledger.history(partner, since, seen.keys() if len(seen) <= NAMED_MOST else None)
    for one in (*history.start, *history.changes):
        record.take(one)
    record.end()
    for event, observation in seen.items():
        past, turns = record.past(event, windows)
        until = [*turns, *(asked.now + window for window in windows.values() if event in asked.changing)]
        found[event] = replace(observation, facts={**observation.facts, **past}, until=min(until, default=None))
    return found


@dataclass(slots=True, kw_only=True)
class _Record:
    """What the ledger tells of a time. ``blind``: from when to when nothing is known, and why."""

    asked: PastAsked
    facts: dict[EventId, dict[FactKey, list[Observed]]] = field(default_factory=dict)
    blind: list[tuple[datetime, datetime, str]] = field(default_factory=list)
    kept: timedelta | None = None

    def take(self, one: Observed) -> None:
        value = one.fact.value if isinstance(one.fact, Known) and isinstance(one.fact.value, dict) else {}
        if one.key == SILENCE:
            begun = parse_time(str(value.get("since")))
            if begun is not None and one.at - begun > self.asked.gap:
                self.blind.append((begun, one.at, SILENT))
        elif one.key == KEPT:
            kept, before = (timedelta(seconds=float(str(value[name]))) for name in ("seconds", "config"))
            self.blind.append((_EVER, one.at - min(kept, self.kept or before), NOT_KEPT))
            self.kept = kept
        self.facts.setdefault(one.event, {}).setdefault(one.key, []).append(one)

    def end(self) -> None:
        """What is so now is in no record yet."""
        now, listed_at = self.asked.now, self.asked.listed_at
        self.blind.append((_EVER, now - (self.kept or timedelta()), NOT_KEPT))
        if listed_at is not None and now - listed_at > self.asked.gap:
            self.blind.append((listed_at, now, SILENT))

    def past(self, event: EventId, windows: Mapping[str, timedelta]) -> tuple[dict[FactKey, Fact], list[datetime]]:
        """The event's facts as they were, and when they will be others."""
        facts, turns = dict[FactKey, Fact](), list[datetime]()
        known = {**self.facts.get(OF_PARTNER, {}), **self.facts.get(event, {})}
        for name, window in windows.items():
            fact, at = name.partition(THEN)[0], self.asked.now - window
            for key, states in known.items():
                if key.name == fact:
                    facts[replace(key, name=name)] = self._at(states, at, window)
                    turns += [one.at + window for one in states if one.at > at]
            facts.setdefault(FactKey(name=name), _nothing(self.asked.now, window))
            turns += [end + window for begun, end, _ in self.blind if end > at]
            turns += [begun + window for begun, _, _ in self.blind if begun > at]
        return facts, turns

    def _at(self, states: Sequence[Observed], at: datetime, window: timedelta) -> Fact:
        found = next((one for one in reversed(states) if one.at <= at), None)
        if found is None:
            first = next((one.at for one in states if isinstance(one.fact, Known)), None)
            return _nothing(first or self.asked.now, window)
        ends = [(end, why) for begun, end, why in self.blind if begun < at < end]
        if ends:
            end, why = max(ends)
            return Unknown(code="unread", why=f"{why}; it can be known from {_minute(end + window)} on")
        return replace(found.fact, read_at=at)


def _nothing(first: datetime, window: timedelta) -> Unknown:
    why = f"its record begins at {_minute(first)}; it can be known from {_minute(first + window)} on"
    return Unknown(code="unread", why=why)


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
