"""The world of one rule test: facts that a person wrote down, on events that exist nowhere else.

Facts have the daemon's shapes, so that conditions and evidence cannot tell them from read ones: an ill-typed documented
field is a gap, an empty list of clusters is not computed yet, a run "12" is the integer 12. What the test does not give
is not known: a documented field that is absent stays absent. Only two things are there by themselves: an event ``e1``
where the test names none, and ``setup`` as ``{state: NONE}``, because a setup always has a state.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache

from worker.api.answers import ill_typed, number_from, run_id_from
from worker.engine.due import Clocked, Glanced, next_due
from worker.engine.whose import NO_SETUP, effect_of
from worker.model.commits import Booking, Move, RuleMemory, SendingView
from worker.model.facts import (
    RECORDS,
    SETUP_FIELDS,
    UNREAD,
    EventId,
    Fact,
    FactKey,
    Field,
    Json,
    Known,
    Observation,
    PartnerId,
    RuleId,
    Unknown,
    WriteId,
)
from worker.model.records import Record
from worker.model.rules import Rule
from worker.model.writes import Plan, Write
from worker.rules.evaluate import BY_DEFAULT, keys_for
from worker.rules.registry import Registry
from worker.rules.testfile_facts import FIRST_EVENT, Facts
from worker.writes.intents import holds_back
from worker.writes.life import IllegalMove

# What a rule test remembers: the ledger's part, in plain dictionaries that end with the test.
#
# It stores what `decide` and `advance` give and answers what they ask, in the ledger's own terms: open writes, the
# writes of an episode, first attempts, firings. A change that does not begin from the write as it stands is a defect
# and raises.

HOUR = timedelta(hours=1)
WITHOUT_EFFECT = frozenset({"rejected", "skipped", "cancelled"})
"""How a write that was sent ends only where it is known to have done nothing."""
Pair = tuple[EventId, RuleId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One attempt that left. ``stops``: it does nothing but stop spending."""

    write: WriteId
    event: EventId
    at: datetime
    amount: float | None
    stops: bool


@dataclass(slots=True)
class Books:
    """``reach``: how far back first attempts and firings matter. ``sent``: attempts whose bytes left, ever.
    ``changes``: how often a write was made or changed."""

    reach: timedelta
    memories: dict[Pair, RuleMemory] = field(default_factory=dict)
    writes: dict[WriteId, Write] = field(default_factory=dict)
    open: dict[WriteId, Write] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    sent: int = 0
    changes: int = 0
    _episodes: dict[tuple[EventId, RuleId, int], list[WriteId]] = field(default_factory=dict)
    _newest: dict[tuple[EventId, RuleId, int, str], WriteId] = field(default_factory=dict)
    _firsts: dict[Pair, dict[int, datetime]] = field(default_factory=dict)
    _firings: list[tuple[RuleId, EventId, datetime]] = field(default_factory=list)
    _attempts: list[Sent] = field(default_factory=list)

    def plan(self, plans: Iterable[Plan], now: datetime) -> list[Write]:
        """New writes."""
        made: list[Write] = []
        for plan in plans:
            write = plan.write(len(self.writes) + 1, now)
            key = plan.key
            self._newest[(key.event, key.rule, key.position, key.item)] = write.id
            self._episodes.setdefault((key.event, key.rule, key.episode), []).append(write.id)
            self._keep(write)
            made.append(write)
        return made

    def move(self, change: Move) -> None:
        """A change of one write. Raises `IllegalMove` where the write is not what the change begins from."""
        if self.writes[change.before.id] != change.before:
            raise IllegalMove(f"write {change.before.id} was changed by something else first")
        self.records.extend(change.records)
        self._keep(change.after)

    def note(self, records: Iterable[Record]) -> None:
        """Records of a look; firings are remembered by themselves."""
        for record in records:
            self.records.append(record)
            if record.kind == "fired" and record.rule is not None and record.event is not None:
                self._firings.append((record.rule, record.event, record.at))

    def attempted(self, sent: Sent, write: Write) -> None:
        """An attempt is made: it counts for cooldowns and brakes until it is proven not to have left."""
        pair = (write.key.event, write.key.rule)
        self._firsts.setdefault(pair, {}).setdefault(write.key.episode, sent.at)
        self._attempts.append(sent)

    def not_sent(self, write: Write) -> None:
        """The last attempt is proven not to have happened."""
        last = max(index for index, one in enumerate(self._attempts) if one.write == write.id)
        del self._attempts[last]
        others = self.episode(write.key.event, write.key.rule, write.key.episode)
        if not any(one.sent for one in others):
            self._firsts[(write.key.event, write.key.rule)].pop(write.key.episode, None)

    def episode(self, event: EventId, rule: RuleId, episode: int) -> tuple[Write, ...]:
        """The writes of one episode, final ones too."""
        return tuple(self.writes[one] for one in self._episodes.get((event, rule, episode), ()))

    def newest(self) -> list[Write]:
        """Of each place in a rule's ``do``, the newest write of each event."""
        return [self.writes[one] for one in self._newest.values()]

    def sendings(self, now: datetime) -> dict[Pair, list[datetime]]:
        """When each episode was first attempted, as far back as it matters."""
        found: dict[Pair, list[datetime]] = {}
        for pair, firsts in self._firsts.items():
            for episode in [one for one, at in firsts.items() if at < now - self.reach]:
                del firsts[episode]
            if firsts:
                found[pair] = list(firsts.values())
        return found

    def firings(self, now: datetime) -> list[tuple[RuleId, EventId, datetime]]:
        """Firings as far back as a surge looks."""
        if self._firings and self._firings[0][2] < now - self.reach:
            self._firings = [one for one in self._firings if one[2] >= now - self.reach]
        return self._firings

    def view(self, write: Write, now: datetime) -> SendingView:
        """What the brakes look at when an attempt is recorded."""
        counted = [one for one in self._attempts if self.writes[one.write].state not in WITHOUT_EFFECT]
        return SendingView(
            on_target=self.on_target(write),
            sent_last_hour=tuple(one.at for one in self._attempts if one.at > now - HOUR and not one.stops),
            booked=tuple(self._booking(one, one.amount) for one in counted if one.amount is not None),
        )

    def _booking(self, sent: Sent, amount: float) -> Booking:
        intent = self.writes[sent.write].intent
        return Booking(
            write=sent.write, event=sent.event, action=intent.action, target=intent.target, at=sent.at, amount=amount
        )

    def of_target(self, event: EventId, target: str) -> tuple[Write, ...]:
        """Every write of the target, final ones too."""
        place = (event, target)
        return tuple(one for one in self.writes.values() if (one.key.event, one.intent.target) == place)

    def on_target(self, write: Write) -> tuple[Write, ...]:
        """Other unsettled writes of the same target."""
        return tuple(one for one in self.open.values() if holds_back(one, write))

    def _keep(self, write: Write) -> None:
        self.changes += 1
        self.writes[write.id] = write
        if write.final:
            self.open.pop(write.id, None)
        else:
            self.open[write.id] = write


# How far a rule test may jump: over every look that can change nothing.
#
# What the clock alone can change is told by `worker.engine.due`; here the late effects of scripted answers are added.
# While a write is planned, being sent, applied or unknown nothing is jumped over; one for a person is jumped over only
# where its reads can say nothing new, and one that waits for approval changes by facts alone.


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """Finds the next moment for the rules of one test. ``late_effect``: when the next one lands, if any."""

    rules: tuple[tuple[Rule, Clocked], ...]
    late_effect: Callable[[], datetime | None]

    def until(
        self, books: Books, observations: Mapping[EventId, Observation], now: datetime, horizon: datetime
    ) -> datetime:
        """The first moment after ``now`` at which a look may decide otherwise; ``horizon`` where there is none
        before it."""
        landing = self.late_effect()
        first = landing if landing is not None and now < landing < horizon else horizon
        sendings = books.sendings(now)
        for rule, clock in self.rules:
            for event, observation in observations.items():
                pair = (event, rule.id)
                glanced = Glanced(memory=books.memories.get(pair), sendings=sendings.get(pair, ()))
                first = next_due(rule, clock, observation, glanced, (now, first))
        return first


PARTNER = PartnerId("partner-id-test")


@dataclass(slots=True)
class _Event:
    """One event: its values by the fact's name, and what they were made into."""

    values: dict[str, Json]
    made: dict[str, Fact] = field(default_factory=dict)
    observation: Observation | None = None


class World:
    """The facts as they are now. Everything that changes them makes the next observation a new one."""

    def __init__(self, given: Facts, registry: Registry) -> None:
        self._partner_wide = frozenset(name for name, fact in registry.facts.items() if fact.level == "partner")
        self._shared = _Event(values={})
        self._everywhere: dict[str, Json] = {"setup": dict(NO_SETUP)}
        self._events: dict[EventId, _Event] = {}
        self.unreadable: set[str] = set()
        self._done: set[tuple[EventId, str, str]] = set()
        for event in given.events or (FIRST_EVENT,):
            self._new_event(event)
        self.change(given)

    @property
    def events(self) -> Iterable[EventId]:
        """Every event, in the order in which the test names them."""
        return self._events

    @property
    def listed(self) -> bool:
        """Whether the list of events can be read."""
        return "event" not in self.unreadable

    def change(self, facts: Facts) -> None:
        """Records are merged, everything else is replaced; what is given is known again."""
        for event, record in facts.events.items():
            if event not in self._events:
                self._new_event(event)
            self._put(self._events[event], "event", record)
        for name, value in facts.others.items():
            self._set(name, value, facts.events)
        if facts.unnamed:
            for one in self._events.values():
                self._put(one, "event", facts.unnamed)
        if facts.events or facts.unnamed:
            self.unreadable.discard("event")
        self.unreadable -= facts.others.keys()
        self._look_anew()

    def lose(self, names: Iterable[str]) -> None:
        """These facts cannot be read until they are given again; what they were is what a later ``set`` merges into."""
        self.unreadable |= set(names)
        self._look_anew()

    def take_effect(self, write: Write) -> None:
        """What the write wants becomes so."""
        one, intent = self._events[write.key.event], write.intent
        effect = effect_of(intent, one.values.get)
        if effect is None:
            self._done.add((write.key.event, intent.target, intent.wish))
            return
        if effect.whole:
            one.values[effect.fact] = None
        self._put(one, effect.fact, effect.value)

    def confirmed(self, write: Write, now: datetime) -> Fact:
        """What a write's own ``confirm`` would show: whether it took effect. What it reads is no fact of a test."""
        done = (write.key.event, write.intent.target, write.intent.wish) in self._done
        return Known(value={"when": done, "response": None}, read_at=now)

    def fact(self, event: EventId, name: str, now: datetime) -> Fact:
        """One fact of an event or its partner."""
        if name in self.unreadable:
            return Unknown(code="unreadable", why="the test makes it unreadable", read_at=now)
        one = self._shared if name in self._partner_wide else self._events[event]
        if name not in one.values:
            return UNREAD
        if name not in one.made:
            one.made[name] = _fact(name, one.values[name], now)
        return one.made[name]

    def observations(self, rules: Iterable[Rule], now: datetime) -> dict[EventId, Observation]:
        """What a look sees. ``rules``: those whose facts take parameters; they get them under the keys they ask by."""
        for event, one in self._events.items():
            if one.observation is None:
                names = {*one.values, *self._shared.values, *self.unreadable}
                facts = {_key(name): self.fact(event, name, now) for name in sorted(names)}
                one.observation = Observation(partner=PARTNER, event=event, facts=facts)
            one.observation = _asked_by_parameters(one.observation, rules, now)
        return {event: one.observation for event, one in self._events.items() if one.observation is not None}

    def _new_event(self, event: EventId) -> None:
        self._events[event] = _Event(values={**self._everywhere, "event": {"id": event}})

    def _set(self, name: str, value: Json, events: Iterable[EventId]) -> None:
        if name in self._partner_wide:
            self._put(self._shared, name, value)
            return
        named = set(events)
        if not named:
            self._everywhere[name] = _merged(name, self._everywhere.get(name), value)
        for event, one in self._events.items():
            if not named or event in named:
                self._put(one, name, value)

    def _put(self, one: _Event, name: str, value: "Json | Mapping[str, Json]") -> None:
        one.values[name] = _merged(name, one.values.get(name), dict(value) if isinstance(value, Mapping) else value)
        one.made.pop(name, None)
        one.observation = None

    def _look_anew(self) -> None:
        for one in self._events.values():
            one.observation = None


@cache
def _key(name: str) -> FactKey:
    return FactKey(name=name)


def _asked_by_parameters(seen: Observation, rules: Iterable[Rule], now: datetime) -> Observation:
    """The observation with its facts under the keys that these rules ask by, too."""
    keys = {key for rule in rules for key in keys_for(rule, seen, now).values() if key.params}
    missing = {key: seen.facts[_key(key.name)] for key in keys - seen.facts.keys() if _key(key.name) in seen.facts}
    return replace(seen, facts={**seen.facts, **missing}) if missing else seen


def _merged(name: str, old: Json, new: Json) -> Json:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    merged: dict[str, Json] = {**old, **new}
    return dict(NO_SETUP) if name == "setup" and merged.get("state") == "NONE" else merged


def _fact(name: str, value: Json, now: datetime) -> Fact:
    if name in BY_DEFAULT and value == []:
        return Unknown(code="not_computed", why="the list is empty: not computed yet", read_at=now)
    if isinstance(value, list):
        return Known(value=[_with_run(item) for item in value], read_at=now)
    if name == "expected_value":
        return Known(value=number_from(value), read_at=now)
    documented = RECORDS.get(name)
    if documented is None or not isinstance(value, dict):
        return Known(value=value, read_at=now)
    gaps = {part: fault for part, found in value.items() if (fault := _fault(documented, part, found)) is not None}
    return Known(value={part: found for part, found in value.items() if part not in gaps}, read_at=now, gaps=gaps)


def _fault(documented: Mapping[str, Field], name: str, value: Json) -> str | None:
    known = documented.get(name)
    if known is None:
        return None
    if known is SETUP_FIELDS["state"] and value not in known.values:
        return f"{value!r} is no state of a setup"
    return ill_typed(value, known)


def _with_run(item: Json) -> Json:
    """A cluster's run is an integer that some lists spell as a text."""
    if not isinstance(item, dict) or "tc_run_id" not in item:
        return item
    run = run_id_from(item["tc_run_id"])
    return item if run is None else {**item, "tc_run_id": run}
