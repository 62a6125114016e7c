"""Facts that the worker makes of what it keeps: what was, who set a field, and what another rule wrote.

What `ago(event.capacity, '24h')` names is the fact ``event@24h``, beside ``event`` in what a rule is given to look at.
A time that the record does not reach is unknown and says why: before the first known value, in a silence, before what
was kept, or while nobody read the fact. ``set_by`` is told by the log, and by what is not in it yet; ``write``, of a
rule that comes after another one, by the writes.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeAlias

from worker.engine.ports import ReadableLedger
from worker.engine.views import of_another, reset_before
from worker.model.actions import ACTIONS
from worker.model.commits import KEPT, OF_PARTNER, SILENCE, Doing, Observed, PartnerMemory, memory_of
from worker.model.facts import (
    EventId,
    Fact,
    FactKey,
    Json,
    Known,
    Observation,
    PartnerId,
    Unknown,
    WriteId,
    parse_time,
    record_of,
    spelled,
)
from worker.model.rules import Rule
from worker.model.writes import Intent, Write
from worker.rules.cel import SINCE, THEN, WRITE
from worker.rules.facts import keys_for, scope_of, since_then, windows_of
from worker.rules.registry import SET_FIELDS
from worker.writes.evidence import SERIES, members
from worker.writes.intents import EACH
from worker.writes.undo import last_firing

# Who changed a field of an event: the worker or somebody else, told from the log and the writes of that event. Pure.
#
# A change after which one of our writes wanted that value, and had not yet been seen to land, is ours; any other is
# somebody else's. Order goes by the log's numbers, never by a clock. Computed when somebody asks, and stored nowhere.

# What a write that took effect makes of a fact: for worlds that are not the service, as rule tests and replays are.
#
# One table, by how an action's effect is shown. What the service would change beside it is not known, and not guessed.

NO_SETUP: Mapping[str, Json] = {"state": "NONE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A fact, and what becomes of it. ``whole``: the value takes the place of the old one; else its fields do."""

    fact: str
    value: Json
    whole: bool = False


def effect_of(intent: Intent, value_of: Callable[[str], Json]) -> Effect | None:
    """The effect on a fact; None where no fact shows it. ``value_of``: what a fact is now."""
    row = ACTIONS[intent.action]
    match row.shown:
        case "field":
            return Effect(fact="event", value=dict(intent.wanted))
        case "setup" if row.creates:
            return Effect(fact="setup", value={"state": "DRAFT", **intent.params}, whole=True)
        case "setup":
            return Effect(fact="setup", value=dict(intent.wanted))
        case "campaign":
            campaigns = _with_campaign(value_of("campaigns"), intent.params)
            return Effect(fact="campaigns", value=campaigns, whole=True)
        case "series":
            return Effect(fact="event", value={SERIES: _with_members(value_of("event"), intent.params, row.value)})
        case "answer" if row.target == "setup":
            return Effect(fact="setup", value=dict(NO_SETUP), whole=True)
        case _:
            return None


def _with_campaign(campaigns: Json, params: Mapping[str, Json]) -> Json:
    """The campaigns with one of this name that has these values."""
    known = [one for one in campaigns if isinstance(one, dict)] if isinstance(campaigns, list) else []
    name = (params["tc"], params["tc_run_id"])
    same = [one for one in known if (one.get("tc"), one.get("tc_run_id")) == name]
    others = [one for one in known if one not in same]
    changed: dict[str, Json] = {**(same[0] if same else {}), **params}
    return [*others, changed]


def _with_members(event: Json, params: Mapping[str, Json], way: str | None) -> Json:
    """The series with these events in it, or out of it."""
    now = event.get(SERIES) if isinstance(event, dict) else None
    others = [one for one in now if one not in members(params)] if isinstance(now, list) else []
    return [*others, *members(params)] if way == "in" else others


# Whose doing a change was.


WITHOUT_EFFECT = frozenset({"planned", "waiting", "rejected", "refused", "skipped", "cancelled"})
"""What a write that was sent becomes only where nothing came of it, or nothing more is expected."""
OURS, OTHERS = "by the worker's own write", "not by the worker"
NOBODY_KNOWS = WriteId(0)
"""Stands for a write of ours that the ledger does not name."""


class FieldChange(NamedTuple):
    """A field of a fact, what it was, and what it has become."""

    fact: str
    field: str
    was: Json
    now_is: Json

    @property
    def name(self) -> str:
        """As rules and records name it."""
        return f"{self.fact}.{self.field}"


def field_change(facts: Mapping[str, Json] | None) -> FieldChange | None:
    """The change that the facts of an ``observed`` record tell; None where they tell of no field that changed."""
    if facts is None or "before" not in facts:
        return None
    name = next((name for name in facts if name not in ("before", "ours")), "")
    fact, _, changed = name.partition(".")
    return FieldChange(fact, changed, facts["before"], facts[name]) if changed else None


def attributed(doings: Iterable[Doing], writes: Iterable[Write]) -> dict[int, WriteId | None]:
    """By the number of each record of a change, the write of ours that made it; None where somebody else did.

    ``doings``: oldest first; ``writes``: all of the event. A first-build record says itself whose doing it was, by what
    its process knew beside the log: that word counts.
    """
    course = _Course(makers={write.id: write for write in writes})
    found: dict[int, WriteId | None] = {}
    for one in doings:
        change = field_change(one.facts) if one.kind == "observed" else None
        if change is not None:
            found[one.seq] = course.changed(one, change)
        elif one.write is not None:
            course.written(one, WriteId(one.write))
    return found


def who_set(doings: Iterable[Doing], writes: Iterable[Write], now_is: Mapping[str, Json]) -> dict[str, Json]:
    """Who set the values that an event's fields have, and by which rules: what conditions know as ``set_by``."""
    doings, writes = list(doings), list(writes)
    made, makers = attributed(doings, writes), {write.id: write for write in writes}
    last: dict[str, tuple[Json, WriteId | None]] = {}
    for one in doings:
        change = field_change(one.facts) if one.seq in made else None
        if change is not None and change.fact == "event":
            last[change.field] = change.now_is, made[one.seq]
    found: dict[str, Json] = {}
    for name in (one for one in SET_FIELDS if one in now_is):
        value, maker = last.get(name, (None, None))
        seen = name in last and value == now_is[name]
        write = makers.get(maker) if seen and maker is not None else None
        found[name] = "unseen" if not seen else "external" if maker is None else "worker"
        found[f"{name}_rules"] = [*(write.rules or (write.key.rule,))] if write is not None else []
    return found


def told(ledger: ReadableLedger, records: Iterable[Mapping[str, Json]]) -> Iterator[dict[str, Json]]:
    """Records for an operator: of each change of an event's field with the ``maker``, the number of the write of ours
    that made it or None, and in words. The records themselves, which are chained, do not say it."""
    events: dict[tuple[str, str], dict[int, WriteId | None]] = {}
    for record in records:
        found, facts, event, seq = dict(record), record.get("facts"), record.get("event"), record.get("seq")
        if record.get("kind") == "observed" and event is not None and isinstance(facts, Mapping):
            place = str(record.get("partner")), str(event)
            if place not in events:
                owner, eid = PartnerId(place[0]), EventId(place[1])
                events[place] = attributed(ledger.doings(owner, eid), ledger.writes(event=eid, partner=owner))
            if isinstance(seq, int) and seq in events[place]:
                maker = events[place][seq]
                whose = "" if "ours" in facts else f", {OTHERS if maker is None else OURS}"
                found |= {"maker": maker, "why": f"{record.get('why')}{whose}"}
        yield found


@dataclass(slots=True, kw_only=True)
class _Course:
    """The events' records so far. ``sent``: writes that may land, in the order of their sending; ``landed``: when a
    read showed the effect of one; ``credited``: the fields that one has changed; ``last``: when each field changed."""

    makers: Mapping[WriteId, Write]
    sent: dict[WriteId, None] = field(default_factory=dict)
    landed: dict[WriteId, int] = field(default_factory=dict)
    credited: dict[WriteId, set[str]] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)

    def written(self, one: Doing, write: WriteId) -> None:
        """A write is sent, perhaps again; or a read has shown its effect; or it is known then to have had none."""
        if one.kind == "sending":
            self.sent.pop(write, None)
            self.sent[write] = None  # sent again, it comes after those that were sent meanwhile
            self.credited.pop(write, None)
            self.landed.pop(write, None)
        elif one.kind == "confirmed" and one.reason == "read":
            self.landed[write] = one.seq
        elif one.kind in WITHOUT_EFFECT:
            self.sent.pop(write, None)

    def changed(self, one: Doing, change: FieldChange) -> WriteId | None:
        """Whose doing a change was. Each write has made a field so once, the oldest first; and not any more where its
        effect was seen before the field was seen to be something else."""
        since = self.last.get(change.name, 0)
        self.last[change.name] = one.seq
        said = (one.facts or {}).get("ours")
        if said is False:
            return None
        maker = next(self._may_have_made(change, since), None)
        if maker is not None:
            self.credited.setdefault(maker, set()).add(change.name)
        return maker if maker is not None or said is None else NOBODY_KNOWS

    def _may_have_made(self, change: FieldChange, since: int) -> Iterator[WriteId]:
        for write in self.sent:
            known = self.makers.get(write)
            taken_back = write in self.landed and self.landed[write] < since
            over = taken_back or change.name in self.credited.get(write, ())
            if known is not None and not over and makes(known, change):
                yield write


def makes(write: Write, change: FieldChange) -> bool:
    """Whether the write's effect makes the field what it has become."""
    brought = ACTIONS[write.intent.action].brings
    if change.fact == "event" and change.field in brought:
        return brought[change.field] == change.now_is
    effect = effect_of(write.intent, lambda fact: {change.field: change.was} if fact == change.fact else None)
    made = effect.value if effect is not None and effect.fact == change.fact else None
    return isinstance(made, Mapping) and change.field in made and made[change.field] == change.now_is


# What facts were some time ago, and what another rule wrote.

EVENT, EVENTS, SET_BY = (FactKey(name=name) for name in ("event", "events", "set_by"))
_EVER, _NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
SILENT = "nobody looked then"
UNASKED = "nobody read it then"
NOT_KEPT = "changes were not kept for so long then"
ANOTHER = "another event may have had its id then"
Blind: TypeAlias = tuple[datetime, datetime, str]
NAMED_MOST = 1_000
"""So many events are asked for by name; of more, all that the partner has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAsked:
    """What rules ask at a moment. ``gap``: a silence so long is a time of which nothing is known. ``until``: of an
    earlier moment, what the ledger tells of later is not known then; of this one it tells nothing later, whatever a
    clock says that was set back since. ``listed_at``: when the list was had last before; ``changing``: events of which
    something is learnt that the ledger does not have yet; ``unstored``: the records of it. ``memory``: that of the
    partner, which tells of resets."""

    memory: PartnerMemory
    rules: Sequence[Rule]
    now: datetime
    gap: timedelta
    until: datetime = _NEVER
    listed_at: datetime | None = None
    changing: Collection[EventId] = ()
    unstored: Callable[[EventId], Sequence[Doing]] = lambda _event: ()


def derived(
    seen: Mapping[EventId, Observation], ledger: ReadableLedger, asked: PastAsked
) -> Mapping[EventId, Observation]:
    """The observations with what their facts were, and until when they are that; and with who set their fields."""
    found = with_writes(_with_past(seen, ledger, asked), ledger, asked)
    rules = [rule for rule in asked.rules if SET_BY.name in rule.names]
    return {event: _with_who(one, rules, ledger, asked) for event, one in found.items()} if rules else found


def _with_who(seen: Observation, rules: Sequence[Rule], ledger: ReadableLedger, asked: PastAsked) -> Observation:
    """The log is only asked where the rest of a condition can be true."""
    fact = seen.get(EVENT)
    matters = any(rule.may_hold(scope_of(rule, seen, asked.now)) for rule in rules)
    if not matters or not isinstance(fact, Known) or not isinstance(fact.value, dict):
        return seen
    doings = [one for one in ledger.doings(seen.partner, seen.event) if one.at <= asked.until]
    writes = ledger.writes(event=seen.event, partner=seen.partner)
    value: Json = who_set([*doings, *asked.unstored(seen.event)], writes, fact.value)
    return replace(seen, facts={**seen.facts, SET_BY: Known(value=value, read_at=fact.read_at)})


# What another rule wrote.


def with_writes(
    seen: Mapping[EventId, Observation], ledger: ReadableLedger, asked: PastAsked
) -> Mapping[EventId, Observation]:
    """The observations with ``write``, for each rule that comes after another one."""
    following, now = [rule for rule in asked.rules if rule.after is not None], asked.now
    if not following or not seen:
        return seen
    partner, events = next(iter(seen.values())).partner, list(seen)
    made: dict[EventId, list[Write]] = {}
    for first in range(0, len(events), NAMED_MOST):
        for write in ledger.confirmed(partner, events[first : first + NAMED_MOST]):
            if write.changed_at <= asked.until and not of_another(asked.memory, write):
                made.setdefault(write.key.event, []).append(write)
    found: dict[EventId, Observation] = {}
    for event, one in seen.items():
        last = {keys_for(rule, one, now)[WRITE]: _last_write(made.get(event, ()), rule, one, now) for rule in following}
        found[event] = replace(one, facts={**one.facts, **last})
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


def of_all(facts: Mapping[EventId, Fact | None], at: datetime) -> Fact:
    """The partner's events as they were listed last; unknown where one is not listed any more, and does not answer."""
    found = {event: fact.value for event, fact in sorted(facts.items()) if isinstance(fact, Known)}
    lost = min(facts.keys() - found, default=None)
    if lost is not None:
        why = f"event {lost} is not in the list any more, and its own read does not say whether it is there"
        return Unknown(code="unreadable", why=why, read_at=at)
    return Known(value=list(found.values()), read_at=at)


# What was.


def recorded_memory(partner: PartnerId, fact: Fact) -> PartnerMemory:
    """The partner's memory as it was kept with the changes."""
    return memory_of(PartnerMemory, {"partner": partner, **record_of(fact)})


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
    blind: list[Blind] = field(default_factory=list)
    kept: timedelta | None = None

    def take(self, one: Observed) -> None:
        value = record_of(one.fact)
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
        came = reset_before(self.asked.memory, event)
        blind = self.blind if came is None else [*self.blind, (_EVER, came, ANOTHER)]
        known = {**self.facts.get(OF_PARTNER, {}), **self.facts.get(event, {})}
        for name, window in windows.items():
            fact, at = name.partition(THEN)[0], self.asked.now - window
            for key, states in known.items():
                if key.name == fact:
                    facts[replace(key, name=name)] = self._at(states, blind, at, window)
                    turns += [one.at + window for one in states if one.at > at]
            facts.setdefault(FactKey(name=name), _nothing(self.asked.now, window))
            turns += [edge + window for begun, end, _ in blind for edge in (begun, end) if edge > at]
        return facts, turns

    def _at(self, states: Sequence[Observed], blind: Sequence[Blind], at: datetime, window: timedelta) -> Fact:
        found = next((one for one in reversed(states) if one.at <= at), None)
        if found is None:
            return _nothing(self._first(states, at), window)
        ends = [(end, why) for begun, end, why in blind if begun < at < end]
        if ends:
            end, why = max(ends)
            return Unknown(code="unread", why=_known_from(why, end + window))
        fact = found.fact
        if isinstance(fact, Unknown):
            why = UNASKED if fact.code == "unread" else fact.why
            return replace(fact, why=_known_from(why, self._first(states, at) + window))
        lacking = {name: _known_from(why, self._first(states, at, name) + window) for name, why in fact.gaps.items()}
        return replace(fact, gaps=lacking, read_at=at)

    def _first(self, states: Sequence[Observed], at: datetime, field: str = "") -> datetime:
        """When it, or a field of it, was known first after that."""
        known = (one.at for one in states if one.at > at and isinstance(one.fact, Known) and field not in one.fact.gaps)
        return next(known, self.asked.now)


def _nothing(first: datetime, window: timedelta) -> Unknown:
    return Unknown(code="unread", why=_known_from(f"its record begins at {_minute(first)}", first + window))


def _known_from(why: str, at: datetime) -> str:
    return f"{why}; it can be known from {_minute(at)} on"


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
