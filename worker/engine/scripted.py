"""The service of a rule test: facts that a person wrote down, and answers to what is sent.

Facts have the shapes that the real service's have, so that conditions and evidence cannot tell them from read ones: an
ill-typed documented field is a gap, an empty list of clusters is not computed yet, a run "12" is the integer 12. What
the test does not give is unknown. Only three things are there by themselves: an event ``e1`` where the test names none,
``setup`` as ``{state: NONE}``, because a setup always has a state, and of what no rule under test looks at, values that
stand in no write's way: most tests are about rules, and leave guards alone.

A write that meets no named answer is accepted and takes effect. Tasks of the service are not played.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from selectors import SelectorKey, SelectSelector

from worker.api.answers import ill_typed, number_from, run_id_from
from worker.engine.ports import Clock, Listing, Places, Urgency
from worker.engine.remembered import Offline
from worker.engine.state import EVENT
from worker.engine.whose import NO_SETUP, effect_of
from worker.model.actions import ACTIONS
from worker.model.exchange import (
    Accepted,
    Answered,
    NotSent,
    Outcome,
    TaskState,
    TellPart,
    Uncertain,
    WriteRequest,
    told_nobody,
)
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
    PartnerId,
    Trace,
    Unknown,
    WriteId,
)
from worker.model.rules import Rule
from worker.model.writes import Intent, Write
from worker.rules.facts import BY_DEFAULT, looked_at
from worker.rules.registry import Registry
from worker.rules.tests import FIRST_EVENT, LOST_ANSWERS, Answer, Facts
from worker.writes.evidence import CONFIRM, SERIES, fact_key

# Virtual time: an event loop whose clock jumps to the next timer, so that hours of the worker pass in no time.
#
# Real code runs on real asyncio, and nothing sleeps: where no callback is ready, "waiting" moves the loop's time. One
# that waits for what nobody will do is a defect of the caller, and raises.


class _Jumping(SelectSelector):
    """Waits for no file: it moves the time of its loop by the time that it was asked to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Nothing is ever ready."""
        if timeout is None:
            raise RuntimeError("every task waits for something that nobody will do")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop under virtual time."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds of virtual time."""
        return self._jumping.now

    def move_to(self, second: float) -> None:
        """It is that second now, to the last digit; for who has seen to it that nobody waits for one before."""
        self._jumping.now = max(self._jumping.now, second)


class VirtualClock:
    """The `Clock` port on a virtual loop: it shows ``start`` now."""

    def __init__(self, loop: VirtualLoop, start: datetime) -> None:
        self._loop = loop
        self._start = start
        self._began = loop.time()

    def now(self) -> datetime:
        """The time of day."""
        return self._start + timedelta(seconds=self._loop.time() - self._began)

    def monotonic(self) -> float:
        """See `Clock`."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Moves time, where nobody else has anything to do before."""
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.get_running_loop().create_future(), max(0.0, seconds))


OutcomeOf = Callable[[int], Outcome]
"""What an answer of this status tells of a write: the daemon's own classification, handed in by the wiring."""
RequestFor = Callable[[PartnerId, EventId, Intent, str], WriteRequest]
"""The request of a write, as the real client spells it."""
NOT_GIVEN = replace(UNREAD, why="the test does not give it")
NO_LIMIT = 1e12


@dataclass(slots=True)
class _Event:
    """One event: its values by the fact's name, and what they were made into."""

    values: dict[str, Json]
    made: dict[str, Fact] = field(default_factory=dict)


class World:
    """The facts as they are now. ``version`` counts what has changed them."""

    def __init__(self, given: Facts, rules: Sequence[Rule], registry: Registry) -> None:
        self._partner_wide = frozenset(name for name, fact in registry.facts.items() if fact.level == "partner")
        self._open_way = _open_way(rules)
        self._shared = _Event(values={})
        self._everywhere: dict[str, Json] = {"setup": dict(NO_SETUP)}
        self._events: dict[EventId, _Event] = {}
        self.unreadable: set[str] = set()
        self._done: set[tuple[EventId, FactKey]] = set()
        self.version = 0
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
        self.version += 1

    def lose(self, names: Iterable[str]) -> None:
        """These facts cannot be read until they are given again; what they were is what a later ``set`` merges into."""
        self.unreadable |= set(names)
        self.version += 1

    def take_effect(self, event: EventId, intent: Intent) -> None:
        """What the write wants becomes so."""
        self.version += 1
        one = self._events[event]
        effect = effect_of(intent, one.values.get)
        if effect is None:
            self._done.add((event, fact_key(intent)))
            return
        if effect.whole:
            one.values[effect.fact] = None
        self._put(one, effect.fact, effect.value)

    def fact(self, event: EventId, key: FactKey, now: datetime) -> Fact:
        """One fact of an event or its partner, whatever parameters it is asked with."""
        name = key.name
        if name == CONFIRM:  # what it reads is no fact of a test: only whether the write took effect
            return Known(value={"when": (event, key) in self._done, "response": None}, read_at=now)
        if name in self.unreadable:
            return Unknown(code="unreadable", why="the test makes it unreadable", read_at=now)
        one = self._shared if name in self._partner_wide else self._events[event]
        if name not in one.made:
            one.made[name] = self._made(one, name, now)
        return one.made[name]

    def _made(self, one: _Event, name: str, now: datetime) -> Fact:
        default = self._open_way.get(name)
        if name not in one.values:
            return NOT_GIVEN if default is None else Known(value=default, read_at=now)
        fact = _fact(name, one.values[name], now)
        if not isinstance(fact, Known) or not isinstance(fact.value, dict) or not isinstance(default, dict):
            return fact
        if name == "setup":  # a draft whose budget nobody gives has one that the service would take
            draft, limits = fact.value.get("state") == "DRAFT", one.values.get("budget_range")
            low = limits.get("lower_limit") if isinstance(limits, dict) else None
            default = {name: default[name] if low is None else low for name in default if draft}
        missing = {name: value for name, value in default.items() if name not in fact.gaps}
        return replace(fact, value={**missing, **fact.value}) if missing else fact

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
        one.made.clear()


class Scripted(Offline):
    """A `Service` over a world, which takes the attempts itself. ``sent``: those whose bytes left; ``accepted``: writes
    that met no named answer in this look, and are to be read back at once."""

    def __init__(self, world: World, clock: Clock, request_for: RequestFor, outcome_of: OutcomeOf) -> None:
        self._world = world
        self._clock = clock
        self._request_for = request_for
        self._outcome_of = outcome_of
        self._answers: dict[str, list[Answer]] = {}
        self._late: list[tuple[datetime, EventId, Intent]] = []
        self.sent = 0
        self.accepted: set[WriteId] = set()

    def answer(self, answers: Iterable[Answer]) -> None:
        """The next attempts of these actions meet these answers, one each."""
        for one in answers:
            self._answers.setdefault(one.action, []).append(one)

    @property
    def late_effects(self) -> list[datetime]:
        """When those come that are still to come."""
        return [at for at, _, _ in self._late]

    def begin(self) -> None:
        """A look begins: late effects whose time has come are there."""
        self.accepted.clear()
        now = self._clock.now()
        for at, event, intent in sorted(self._late, key=lambda one: one[0]):
            if at <= now:
                self._world.take_effect(event, intent)
        self._late = [one for one in self._late if one[0] > now]

    async def partners(self) -> tuple[PartnerId, ...]:
        """Never asked: a test has one."""
        return ()

    async def listing(
        self, partner: PartnerId, _told: TellPart = told_nobody, _needed: frozenset[str] | None = None
    ) -> Listing:
        """Every event of the test."""
        now = self._clock.now()
        if not self._world.listed:
            why = "the test makes the events unreadable"
            return Listing(events={}, complete=False, why=why, code="unreadable", began_at=now, ended_at=now)
        facts = {event: self._read(partner, event, EVENT) for event in self._world.events}
        events = {event: fact for event, fact in facts.items() if isinstance(fact, Known)}
        return Listing(events=events, complete=True, began_at=now, ended_at=now)

    async def read(
        self,
        partner: PartnerId,
        event: EventId | None,
        key: FactKey,
        *,
        urgency: Urgency,  # noqa: ARG002 - nothing is waited for
        max_age: timedelta = timedelta(0),  # noqa: ARG002 - all is as it is now
        places: Places | None = None,  # noqa: ARG002 - nothing is waited for
    ) -> Fact:
        """The fact as it is now."""
        return self._read(partner, event or EventId(""), key)

    def _read(self, partner: PartnerId, event: EventId, key: FactKey) -> Fact:
        fact = self._world.fact(event, key, self._clock.now())
        trace = Trace(get=f"{partner} {event} {key.name}", began=self._clock.monotonic())
        return replace(fact, read_at=self._clock.now(), trace=trace)

    async def task_state(self, partner: PartnerId, event: EventId) -> TaskState:
        """Tasks are not played."""
        return TaskState(state=f"the task of {event} of {partner} is over", verdict="succeeded")

    def request_for(self, partner: PartnerId, event: EventId, intent: Intent, item: str) -> WriteRequest:
        """See `Service`."""
        return self._request_for(partner, event, intent, item)

    def url(self, request: WriteRequest) -> str:
        """See `Service`."""
        return f"{request.host}{request.path}"

    async def send(self, partner: PartnerId, request: WriteRequest, *, not_after: float) -> Outcome:  # noqa: ARG002
        """Never: every attempt is taken by `attempt`."""
        return NotSent(cause="connect", why=f"a rule test sends nothing to {partner}")

    async def attempt(self, write: Write, _request: WriteRequest) -> Outcome:
        """What an attempt tells, at once. One that ends with the worker tells nobody, and its task ends with it."""
        intent, event = write.intent, write.key.event
        waiting = self._answers.get(intent.action)
        if not waiting or write.key.item in ACTIONS[intent.action].unseen:
            self.sent += 1
            self.accepted.add(write.id)
            self._world.take_effect(event, intent)
            return Accepted(answer=Answered(status=200))
        answer = waiting.pop(0)
        outcome = self._outcome(answer)
        if isinstance(outcome, NotSent) and outcome.cause == "connect":
            return outcome
        self.sent += 1
        if answer.effect_after is not None and answer.effect_after > timedelta():
            self._late.append((self._clock.now() + answer.effect_after, event, intent))
        elif answer.effect_after is not None:
            self._world.take_effect(event, intent)
        if outcome is None:
            raise asyncio.CancelledError
        return outcome

    def _outcome(self, answer: Answer) -> Outcome | None:
        if isinstance(answer.answer, int):
            outcome = self._outcome_of(answer.answer)  # a test's reads are let in: a refused token had just worked
            return replace(outcome, accepted_ago=timedelta(0)) if isinstance(outcome, NotSent) else outcome
        if answer.answer == "crash":
            return None
        why = LOST_ANSWERS[answer.answer]
        return NotSent(cause="connect", why=why) if answer.answer == "no_connection" else Uncertain(why=why)


def _open_way(rules: Sequence[Rule]) -> dict[str, Json]:
    """What guards ask for and no rule names, so that nothing is in a write's way: the campaign product is on, a budget
    in range, a target not yet as it is wanted."""
    named = {name: fields or frozenset[str]() for name, fields in looked_at(rules).items()}
    found: dict[str, dict[str, Json]] = {
        "partner": {"campaign_recommendations": True},
        "budget_range": {"lower_limit": 0.0, "upper_limit": NO_LIMIT},
        "setup": {"total_budget": 0.0},
    }
    rows = [ACTIONS[step.action] for rule in rules for step in rule.do]
    found["event"] = {row.target: "" for row in rows if row.shown == "field"}
    if any(row.shown == "series" for row in rows):
        found["event"][SERIES] = []
    way: dict[str, Json] = {} if "campaigns" in named else {"campaigns": []}
    for name, fields in found.items():
        unnamed = {one: value for one, value in fields.items() if one not in named.get(name, ())}
        if unnamed:
            way[name] = unnamed
    return way


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
