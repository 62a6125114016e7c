"""The daemon's own cycle over a world that is not the service: what rule tests and `backtest` run on.

Real code on real asyncio, on virtual time and a ledger in memory. A world says what the facts are, and takes the
effects of writes; quiet times are jumped over, as far as the next moment at which the clock alone can change anything.

The world of a rule test is facts that an operator wrote down, and answers to what is sent. They have the shapes that
the real service's have: an ill-typed documented field is a gap, an empty list of clusters is not computed yet, a run
"12" is the integer 12. What the test does not give is unknown. Only three things are there by themselves: an event
``e1`` where the test names none, ``setup`` as ``{state: NONE}``, because a setup always has a state, and of what no
rule under test looks at, values that stand in no write's way: most tests are about rules, and leave guards alone. A
write that meets no named answer is accepted and takes effect. Tasks of the service are not played.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from selectors import SelectorKey, SelectSelector
from typing import Protocol

from worker.api.answers import ill_typed, number_from, run_id_from
from worker.engine.changes import overlaid
from worker.engine.cycle import Cycle
from worker.engine.decide import Decision
from worker.engine.deciding import clocked, next_due, observed
from worker.engine.derived import NO_SETUP, effect_of
from worker.engine.episodes import JUST_AFTER
from worker.engine.execute import LIMITED_AGAIN
from worker.engine.observe import Polling
from worker.engine.ports import Clock, CycleReport, Ledger, Listing, Parts, Places, RulesInUse, Urgency
from worker.engine.state import EVENT, PartnerState
from worker.engine.views import EngineSettings, asks_sendings, policy_for, sendings_reach
from worker.model.actions import ACTIONS
from worker.model.commits import OF_PARTNER, MemoryChange, Record
from worker.model.errors import UsageError
from worker.model.exchange import Accepted, Answered, NotSent, Outcome, TaskState, Uncertain, WriteRequest
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
from worker.model.rules import Rule, RuleSet
from worker.model.writes import Intent, Write
from worker.rules.facts import BY_DEFAULT, looked_at
from worker.rules.registry import Registry
from worker.rules.tests import FIRST_EVENT, LOST_ANSWERS, Answer, Facts
from worker.writes.evidence import CONFIRM, SERIES, fact_key, judge
from worker.writes.intents import shown_value, wanted

POLLS_MAX = 2_000_000
"""The most polls of one play; more at full rate is a mistake of the test, or of a condition."""
OutcomeOf = Callable[[int], Outcome]
"""What an answer of this status tells of a write: the daemon's own classification, handed in by the wiring."""
RequestFor = Callable[[PartnerId, EventId, Intent, str], WriteRequest]
"""The request of a write, as the real client spells it."""

# Virtual time: an event loop whose clock jumps to the next timer, so that hours of the worker pass in no time.
#
# Nothing sleeps: where no callback is ready, "waiting" moves the loop's time. One that waits for what nobody will do is
# a defect of the caller, and raises.


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
    """The `Clock` port on a new virtual loop: it shows ``start`` at second 0."""

    def __init__(self, loop: VirtualLoop, start: datetime) -> None:
        self._loop = loop
        self.start = start

    def now(self) -> datetime:
        """The time of day."""
        return self.start + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        """See `Clock`."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Moves time, where nobody else has anything to do before."""
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.get_running_loop().create_future(), max(0.0, seconds))

    def move_to(self, at: timedelta) -> None:
        """So long after the start it is now."""
        self._loop.move_to(at.total_seconds())


# A world in place of the service.


class World(Protocol):
    """The facts of one partner as they are now. ``version`` counts what writes and the world itself have changed."""

    version: int

    @property
    def events(self) -> Iterable[EventId]: ...
    @property
    def listed(self) -> bool:
        """Whether the list of events can be read."""

    def fact(self, event: EventId, key: FactKey, now: datetime) -> Fact: ...
    def take_effect(self, event: EventId, intent: Intent) -> None: ...


class EveryPlace:
    """Room without end: nothing is asked over a network."""

    async def take(self, *, by: float | None = None) -> bool:  # noqa: ARG002 - nothing is waited for
        """Always."""
        return True

    def give_back(self) -> None:
        """Nothing was kept."""


class WorldService:
    """A `Service` over a world, where nobody waits for a place; every attempt is taken by `attempt`. ``sent``: attempts
    whose bytes left; ``accepted``: writes that took effect in this poll, and are to be read back at once; ``landing``:
    those that are still to take effect, and when. ``reader``: who looks at the partner, where that is not the daemon's
    own reader, which asks for the list and for one fact after the other."""

    reader: Polling | None = None

    def __init__(self, world: World, clock: Clock, request_for: RequestFor) -> None:
        self.world = world
        self._clock = clock
        self._request_for = request_for
        self.landing: list[tuple[datetime, Write]] = []
        self.sent = 0
        self.accepted: set[WriteId] = set()

    async def keep_places(self, *_: object, **__: object) -> Places:
        """At once."""
        return EveryPlace()

    def budget(self, *_: object) -> float:
        """Without end."""
        return float(1_000_000)

    async def ready_to_write(self, *_: object, **__: object) -> None:
        """At once."""

    async def attempt(self, write: Write, _request: WriteRequest) -> Outcome:
        """What an attempt tells, at once: here, that it took effect."""
        self.sent += 1
        self.accepted.add(write.id)
        self.world.take_effect(write.key.event, write.intent)
        return Accepted(answer=Answered(status=200))

    def lands(self, write: Write, at: datetime) -> None:
        """The write will take effect then, or at the next poll after it."""
        self.landing.append((at, write))

    def known_to_land(self, _write: Write) -> bool:
        """Whether reads of this write are not worth a poll before it lands."""
        return False

    def begin(self) -> None:
        """A poll begins: late effects whose time has come are there."""
        self.accepted.clear()
        now = self._clock.now()
        for at, write in sorted(self.landing, key=lambda one: one[0]):
            if at <= now:
                self.world.take_effect(write.key.event, write.intent)
        self.landing = [one for one in self.landing if one[0] > now]

    async def partners(self) -> tuple[PartnerId, ...]:
        """Never asked: a play has one."""
        return ()

    async def listing(self, _partner: PartnerId, _needed: frozenset[str] | None = None) -> AsyncIterator[Listing]:
        """Every event of the world."""
        if not self.world.listed:
            why = "the test makes the events unreadable"
            yield Listing(events={}, complete=False, why=why, code="unreadable")
            return
        facts = {event: self._read(event, EVENT) for event in self.world.events}
        events = {event: fact for event, fact in facts.items() if isinstance(fact, Known)}
        yield Listing(events=events, complete=True)

    async def read(
        self,
        partner: PartnerId,  # noqa: ARG002 - a world is one partner's
        event: EventId | None,
        key: FactKey,
        *,
        urgency: Urgency,  # noqa: ARG002 - nothing is waited for
        max_age: timedelta = timedelta(0),  # noqa: ARG002 - all is as it is now
        places: Places | None = None,  # noqa: ARG002 - nothing is waited for
    ) -> Fact:
        """The fact as it is now."""
        return self._read(event or EventId(""), key)

    def _read(self, event: EventId, key: FactKey) -> Fact:
        now = self._clock.now()
        trace = Trace(get=key.text, began=self._clock.monotonic())
        return replace(self.world.fact(event, key, now), read_at=now, trace=trace)

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
        return NotSent(cause="connect", why=f"nothing is sent to {partner}")


# The play.


class Scratch(Ledger, Protocol):
    """A ledger in memory."""

    def clear(self) -> None:
        """Forgets everything."""

    def recall(self, known: Sequence[Write], sent: Sequence[Mapping[str, Json]]) -> None:
        """Takes over writes of another ledger, under their numbers, and what was sent of them."""

    def reopen(self, changes: list[MemoryChange], records: list[Record]) -> None:
        """Replaces memories, as an operator's `again` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What plays run on, one after the other."""

    rules: RuleSet
    registry: Registry
    settings: EngineSettings
    ledger: Scratch
    request_for: RequestFor
    outcome_of: OutcomeOf


class StagedCycle:
    """One partner's cycle with a ``stage`` in the place of the service, which takes every attempt. An exception that
    should not exist ends it. ``open``: the writes that the last poll left open."""

    def __init__(self, parts: Parts, stage: WorldService, partner: PartnerId, reader: Polling | None) -> None:
        self._stage = stage
        self._ledger = parts.ledger
        self._cycle = Cycle(replace(parts, service=stage, instead=stage.attempt, defect=self._found), reader)
        self.state = self._cycle.load(partner)
        self.open: tuple[Write, ...] = ()
        self._defect: Exception | None = None

    async def _round(self) -> CycleReport:
        """One poll, and all that follows from it."""
        report = await self._cycle.run(self.state)
        self.open = await self._settled() if report.open_writes else ()
        if self._defect is not None:
            raise self._defect
        return report

    async def _settled(self) -> tuple[Write, ...]:
        """What took effect is read back at once, and what waits for it in its ``do`` goes on. The writes that are open
        then."""
        before: tuple[Write, ...] | None = None
        while True:
            await self._cycle.drain(self.state)
            writes = self._ledger.open_writes(self.state.partner)
            due = [write for write in writes if self._due_at_once(write)]
            if not due or writes == before:
                return writes
            before = writes
            for write in due:
                self._cycle.tend(self.state, write)

    def _due_at_once(self, write: Write) -> bool:
        if write.state == "applied":
            return write.id in self._stage.accepted
        return write.state == "planned" and write.held_by == "sequence"

    def _found(self, _of: Mapping[str, Json], defect: Exception) -> None:
        self._defect = defect


class Play(StagedCycle):
    """One partner's cycles, poll after poll, at every ``poll.interval`` and whenever `poll` is called. What a poll
    sends is answered and read back within it. ``at``: the last poll. ``stride``: how far apart polls are made that only
    a condition on ``now`` asks for, of which nothing is foretold."""

    def __init__(
        self,
        bench: Bench,
        stage: WorldService,
        clock: VirtualClock,
        *,
        partner: PartnerId,
        stride: timedelta | None = None,
    ) -> None:
        rules = RulesInUse(bench.rules)
        parts = Parts(clock=clock, service=stage, ledger=bench.ledger, settings=bench.settings, rules=rules)
        super().__init__(replace(parts, decided=self._take), stage, partner, stage.reader)
        self._clock = clock
        self._settings = bench.settings
        self._rules = bench.rules
        self._stride = stride or bench.settings.interval
        self._clocks = {
            rule.id: (rule, clocked(rule)) for rule in self._rules.rules if rule.enabled and rule.applies_to(partner)
        }
        self._decided = False
        self._quiet = False
        self.at: timedelta | None = None
        self.polls = 0

    async def until(self, end: timedelta, *, including: bool) -> None:
        """The looks up to a moment, less those that are known to change nothing."""
        interval = self._settings.interval
        at = timedelta() if self.at is None else (self.at // interval + 1) * interval
        while at < end or (including and at == end):
            if self._quiet and self.at is not None:
                wake = self._wakes(self._clock.start + self.at, self._clock.start + end + interval)
                at = max(at, -(-(wake - self._clock.start) // interval) * interval)
                if at > end or (at == end and not including):
                    return
                self._jumped_to(at)
            await self.poll(at)
            at += interval

    def _jumped_to(self, at: timedelta) -> None:
        """Looks before this moment that were jumped over have listed the events too."""
        last = (at - JUST_AFTER) // self._settings.interval * self._settings.interval
        if self.at is not None and last > self.at and self._stage.world.listed:
            self.state.memory = replace(self.state.memory, listed_at=self._clock.start + last)
            self.state.stored.listed_at = self._clock.start + last

    async def poll(self, at: timedelta) -> None:
        """One cycle, and all that it starts."""
        self.polls += 1
        if self.polls > POLLS_MAX:
            hint = "a condition on `now` that is no comparison keeps every poll; move the steps closer together"
            raise UsageError(f"more than {POLLS_MAX} polls in one test", hint=hint)
        self._clock.move_to(at)
        self.at, self._decided = at, False
        self._stage.begin()
        version, before = self._stage.world.version, self.open
        await self._round()
        unchanged = (version, before) == (self._stage.world.version, self.open) and all(map(self._rests, self.open))
        calm = not self._decided or not self.state.stirred(self.state.known, self._clock.now())
        wanted, facts = self.state.wanted.items(), self.state.facts  # a fact of the partner may have asked for more
        unread = (one.keys - facts.get(event, {}).keys() for event, one in wanted)
        self._quiet = calm and unchanged and not (self._stage.world.listed and any(unread))

    def _take(self, decision: Decision) -> None:
        """What a pass of the cycle has decided and stored."""
        commit = decision.commit
        self._decided |= bool(commit.records or commit.memory or commit.moves or commit.plans)

    # jumping over polls that can change nothing: what the clock alone can change is told by `worker.engine.deciding`

    def _rests(self, write: Write) -> bool:
        """Whether only facts or an operator can do anything to this write, or time not before its next try."""
        if write.state == "planned":
            return write.held_by == "sequence" or self.state.resting(write, self._clock.monotonic())
        if write.state != "needs_human":
            return write.state == "waiting" or (write.state == "applied" and self._stage.known_to_land(write))
        policy = policy_for(write, self._rules, self._settings)
        fact = self.state.fact(write.key.event, fact_key(write.intent)) or UNREAD
        return not policy.reads_back or write.absent_proved or judge(write, fact).says == "cannot_tell"

    def _readings(self, now: datetime) -> Iterator[datetime]:
        """When facts that are seldom asked are read again, or not known any more: what has changed is seen then."""
        every = self._settings.every
        for facts in (self.state.shared, *self.state.facts.values()) if every else ():
            for key, fact in facts.items():
                if key.name in every and fact.trace is not None:
                    yield now + every[key.name] - timedelta(seconds=self._clock.monotonic() - fact.trace.began)

    def _wakes(self, now: datetime, horizon: datetime) -> datetime:
        """The first moment after ``now`` at which a poll may decide otherwise; ``horizon`` if none before it."""
        landings = [at for at, _ in self._stage.landing]
        resting = (self.state.rests.get(write.id) for write in self.open if write.state == "planned")
        soon = self._clock.monotonic() + LIMITED_AGAIN.total_seconds()
        rested = (self._clock.start + timedelta(seconds=rest.until if rest else soon) for rest in resting)
        due = (at for at in (*self.state.due.values(), *self._readings(now)) if at > now)
        first = min([horizon, *landings, *rested, *due])
        stirred = self.state.stirred(self.state.known - self.state.memory.gone.keys(), now)
        reach = now - sendings_reach(self._rules.rules)
        asked = stirred and asks_sendings(self._rules.rules)
        sendings = self._ledger.first_sendings(self.state.partner, reach) if asked else {}
        rules = [rule for rule, _ in self._clocks.values()]
        seen = observed(self.state, stirred, self._ledger, (rules, now, self._settings.deciding.gap))
        episode_writes = partial(self._ledger.episode_writes, self.state.partner)
        for event, observation in seen.items():
            first = min(first, observation.until or first)
            for rule, clock in self._clocks.values():
                pair = (event, rule.id)
                memory = self.state.memories.get(pair)
                judged = overlaid(observation, rule, memory, self.open, episode_writes) if memory else observation
                due_at = next_due(rule, clock, judged, memory, sendings.get(pair, ()), (now, first))
                first = min(first, due_at if due_at > now else now + self._stride)
        return first if first > now else now + self._stride


def amount_shown(state: PartnerState, write: Write) -> float | None:
    """What somebody who approves the write is shown that it spends."""
    fact = state.fact(write.key.event, fact_key(write.intent)) or UNREAD
    return wanted(write.intent, write.key.item, shown_value(write.intent, fact)[1]).amount


NOT_GIVEN = Unknown(code="unreadable", why="the test does not give it")
NO_LIMIT = 1e12


class GivenWorld:
    """The facts as they are now: values by the event that they are of, or `OF_PARTNER`, and what was made of them.
    ``version`` counts what has changed them."""

    def __init__(self, given: Facts, rules: Sequence[Rule], registry: Registry) -> None:
        self._shared = registry.shared
        self._open_way = open_way(rules)
        self._everywhere: dict[str, Json] = {"setup": dict(NO_SETUP)}
        self._values: dict[EventId, dict[str, Json]] = {OF_PARTNER: {}}
        self._made: dict[tuple[EventId, str], Fact] = {}
        self.unreadable: set[str] = set()
        self._done: set[tuple[EventId, FactKey]] = set()
        self.version = 0
        for event in given.events or (FIRST_EVENT,):
            self._meet(event)
        self.change(given)

    @property
    def events(self) -> Iterable[EventId]:
        """Every event, in the order in which the test names them."""
        return [event for event in self._values if event != OF_PARTNER]

    @property
    def listed(self) -> bool:
        """Whether the list of events can be read."""
        return "event" not in self.unreadable

    def change(self, facts: Facts) -> None:
        """Records are merged, everything else is replaced; what is given is known again."""
        for event, record in facts.events.items():
            self._meet(event)
            self._put(event, "event", dict(record))
        for name, value in facts.others.items():
            if name in self._shared:
                self._put(OF_PARTNER, name, value)
                continue
            if not facts.events:
                self._everywhere[name] = _merged(name, self._everywhere.get(name), value)
            for event in facts.events or self.events:
                self._put(event, name, value)
        for event in self.events if facts.unnamed else ():
            self._put(event, "event", dict(facts.unnamed))
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
        effect = effect_of(intent, self._values[event].get)
        if effect is None:
            self._done.add((event, fact_key(intent)))
            return
        if effect.whole:
            self._values[event][effect.fact] = None
        self._put(event, effect.fact, effect.value)

    def fact(self, event: EventId, key: FactKey, now: datetime) -> Fact:
        """One fact of an event or its partner, whatever parameters it is asked with."""
        name = key.name
        if name == CONFIRM:  # what it reads is no fact of a test: only whether the write took effect
            return Known(value={"when": (event, key) in self._done, "response": None}, read_at=now)
        if name in self.unreadable:
            return Unknown(code="unreadable", why="the test makes it unreadable", read_at=now)
        place = OF_PARTNER if name in self._shared else event, name
        if place not in self._made:
            self._made[place] = self._fact(self._values[place[0]], name, now)
        return self._made[place]

    def _fact(self, values: Mapping[str, Json], name: str, now: datetime) -> Fact:
        default = self._open_way.get(name)
        if name not in values:
            return NOT_GIVEN if default is None else Known(value=default, read_at=now)
        fact = _fact(name, values[name], now)
        if not isinstance(fact, Known) or not isinstance(fact.value, dict) or not isinstance(default, dict):
            return fact
        if name == "setup":  # a draft whose budget nobody gives has one that the service would take
            draft, limits = fact.value.get("state") == "DRAFT", values.get("budget_range")
            low = limits.get("lower_limit") if isinstance(limits, dict) else None
            default = {name: default[name] if low is None else low for name in default if draft}
        missing = {name: value for name, value in default.items() if name not in fact.gaps}
        return replace(fact, value={**missing, **fact.value}) if missing else fact

    def _meet(self, event: EventId) -> None:
        self._values.setdefault(event, {**self._everywhere, "event": {"id": event}})

    def _put(self, event: EventId, name: str, value: Json) -> None:
        values = self._values[event]
        values[name] = _merged(name, values.get(name), value)
        self._made.clear()


class Scripted(WorldService):
    """The service of a rule test: it gives the answers that the test names."""

    def __init__(self, world: GivenWorld, clock: VirtualClock, request_for: RequestFor, outcome_of: OutcomeOf) -> None:
        super().__init__(world, clock, request_for)
        self._outcome_of = outcome_of
        self._answers: dict[str, list[Answer]] = {}

    def answer(self, answers: Iterable[Answer]) -> None:
        """The next attempts of these actions meet these answers, one each."""
        for one in answers:
            self._answers.setdefault(one.action, []).append(one)

    async def attempt(self, write: Write, request: WriteRequest) -> Outcome:
        """What an attempt tells, at once. One that ends with the worker tells nobody, and its task ends with it."""
        waiting = self._answers.get(write.intent.action)
        if not waiting or write.key.item in ACTIONS[write.intent.action].unseen:
            return await super().attempt(write, request)
        answer = waiting.pop(0)
        outcome = self._outcome(answer)
        if isinstance(outcome, NotSent) and outcome.cause == "connect":
            return outcome
        self.sent += 1
        if answer.effect_after is not None and answer.effect_after > timedelta():
            self.lands(write, self._clock.now() + answer.effect_after)
        elif answer.effect_after is not None:
            self.world.take_effect(write.key.event, write.intent)
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


def open_way(rules: Sequence[Rule]) -> dict[str, Json]:
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
    if known is SETUP_FIELDS["state"] and value not in known.values:
        return f"{value!r} is no state of a setup"
    return None if known is None else ill_typed(value, known)


def _with_run(item: Json) -> Json:
    """A cluster's run is an integer that some lists spell as a text."""
    if not isinstance(item, dict) or "tc_run_id" not in item:
        return item
    run = run_id_from(item["tc_run_id"])
    return item if run is None else {**item, "tc_run_id": run}
