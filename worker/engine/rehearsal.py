"""What each rule would do now: the daemon's own cycle, up to the send, on a ledger that is thrown away.

There is no second implementation of anything: the cycle decides once, on all that was read, reads its pre-flights and
asks its guards; only the send never answers. What a rehearsal tells is read off the draft ledger afterwards: the writes
it planned or found open and where each of them came to stand, and the firings that something holds.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import cast

from worker.engine.decide import Decision
from worker.engine.execute import Outward
from worker.engine.observe import News, Reader
from worker.engine.operators import undo_by_rule
from worker.engine.playing import StagedCycle, WorldService
from worker.engine.ports import Clock, CycleReport, Listing, Parts, Places, Service, Urgency
from worker.engine.preflight import Preflight, WhoAsks
from worker.engine.settle import as_judged
from worker.engine.state import EVENT, PARTNER, PartnerState
from worker.model.actions import ACTIONS, UNDO
from worker.model.commits import OF_PARTNER, Hold
from worker.model.exchange import Outcome, WriteRequest
from worker.model.facts import UNREAD, EventId, Fact, FactKey, Json, Known, PartnerId, Place, RuleId, Unknown, WriteId
from worker.model.rules import Computed, Rule, RuleStep, Template, Truth
from worker.model.writes import UNSETTLED, Intent, Plan, State, Write, WriteKey
from worker.writes.evidence import Wish, fact_key
from worker.writes.intents import NotComputable, Planned, Wanted, plan_steps, reads_back, shown_value, wanted
from worker.writes.undo import undo_steps

# The service as it is remembered: facts that a running daemon has observed, or that were read just now.
#
# Two processes that read would together be faster than the service allows. So beside a running daemon `plan` goes by
# what that daemon has seen. Else it reads the service, each resource once, for as long as somebody waits; what was not
# read by then is unknown, and says so. Nothing is ever sent.


class Remembered(WorldService):
    """A `Service` over what is known of one partner, in a world that stands still. ``spelling``: spells requests, and
    is asked nothing; ``ask``: who is asked for what is not known, ``within`` so long after the list was read; without
    it nobody is. ``only``: the one event that is asked about. ``met``, ``read_now``: how many events were listed and
    how many facts read; ``not_read``: what was asked for in vain; ``requests``: of what would be sent."""

    version = 0
    listed = True

    def __init__(
        self, only: EventId | None, spelling: Service, clock: Clock, ask: Service | None, within: timedelta | None
    ) -> None:
        super().__init__(self, clock, spelling.request_for)
        self.url = spelling.url  # type: ignore[method-assign] # as the real client spells it
        self._facts: dict[Place, Fact] = {}
        self._ask = ask
        self._within = within
        self.only = only
        self._alone = ask is not None and only is not None
        self._ends: float | None = None
        self.met: int | None = None
        self.read_now = 0
        self.not_read: set[Place] = set()
        self.requests: dict[WriteId, WriteRequest] = {}

    def recall(self, state: PartnerState) -> None:
        """Takes what a daemon has seen, as the ledger holds it, where nobody is asked. Whether it still is so is that
        daemon's business."""
        if self._ask is not None:
            return
        for event, facts in state.stored.facts.items():
            self._facts.update({(event, key): fact for key, fact in facts.items()})
        for event in state.memory.gone:
            self._facts[event, EVENT] = Unknown(code="gone", why="the service answered 404")

    @property
    def events(self) -> Iterable[EventId]:
        """Those whose own record is known."""
        return [event for event, key in self._facts if key == EVENT]

    def _place(self, event: EventId, key: FactKey) -> Place | None:
        """Where the fact is, of the event or of the partner; None where nobody has read it."""
        return next((one for one in ((event, key), (OF_PARTNER, key)) if one in self._facts), None)

    def fact(self, event: EventId, key: FactKey, now: datetime) -> Fact:
        """One fact as it is known."""
        place = self._place(event, key)
        return replace(UNREAD, read_at=now) if place is None else self._facts[place]

    def take_effect(self, event: EventId, intent: Intent) -> None:
        """Never: nothing is sent."""

    async def attempt(self, write: Write, request: WriteRequest) -> Outcome:
        """What has passed every guard stands before its send, as an attempt whose answer never comes."""
        self.requests[write.id] = request
        raise asyncio.CancelledError

    async def listing(self, partner: PartnerId, needed: frozenset[str] | None = None) -> AsyncIterator[Listing]:
        """The list, or the one event that is read."""
        lists = super().listing(partner) if self._ask is None else self._ask.listing(partner, needed)
        async for found in self._one(partner) if self._alone else lists:
            self._facts.update({(event, EVENT): fact for event, fact in found.events.items()})
            self.met = len(found.events)
            if self._within is not None:
                self._ends = self._clock.monotonic() + self._within.total_seconds()
            yield found

    async def _one(self, partner: PartnerId) -> AsyncIterator[Listing]:
        """The one event, as if it were a list that says nothing of the others."""
        event = self.only or EventId("")
        fact = await cast(Service, self._ask).read(partner, event, EVENT, urgency=Urgency.FACT)
        events = {event: fact} if isinstance(fact, Known) else {}
        why = fact.why if isinstance(fact, Unknown) else ""
        yield Listing(events=events, complete=False, why=why)

    async def read(
        self,
        partner: PartnerId,
        event: EventId | None,
        key: FactKey,
        *,
        urgency: Urgency,
        max_age: timedelta = timedelta(0),
        places: Places | None = None,  # noqa: ARG002 - nothing is waited for but the answer
    ) -> Fact:
        """The fact as it is known, else as the service says now; unknown where nobody says so in time."""
        place = self._place(event or OF_PARTNER, key)
        if self._alone and event not in (None, self.only):
            return Unknown(code="unread", why="another event is asked about", read_at=self._clock.now())
        if place is None and self._ask is not None:
            place = (event or OF_PARTNER, key)
            left = None if self._ends is None else max(0.0, self._ends - self._clock.monotonic())
            with suppress(TimeoutError):
                asked = self._ask.read(partner, event, key, urgency=urgency, max_age=max_age)
                self._facts[place] = await asyncio.wait_for(asked, left)
                self.read_now += 1
        if place is None or place not in self._facts:
            self.not_read.add((event or OF_PARTNER, key))
            in_time = f"it was not read within {self._within.total_seconds() if self._within else 0:g} s"
            why = "the daemon has not read it" if self._ask is None else in_time
            return Unknown(code="unread", why=why, read_at=self._clock.now())
        return self._read(event or OF_PARTNER, key)


class Gathered:
    """A reader that tells nothing before it has read everything: what a plan decides on is of one moment."""

    def __init__(self, parts: Parts) -> None:
        self._reader = Reader(parts)

    async def poll(self, state: PartnerState) -> AsyncIterator[News]:
        """The list and every fact that rules want, as one piece of news."""
        pieces = [news async for news in self._reader.poll(state)]
        events = {event for news in pieces for event in news.events}
        if pieces:
            yield replace(pieces[0], at=pieces[-1].at, events=sorted(events), more=False)


# What a plan tells, and how it comes to it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Requests, now or once nothing holds it: facts of the pre-flight, the write itself, the least that confirms it."""

    preflight: int
    write: int
    confirm: int

    @property
    def whole(self) -> int:
        """All of them."""
        return self.preflight + self.write + self.confirm


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One write that would be made, or is open already, or that a held firing would lead to. ``known``: the ledger has
    it. ``becomes``: the state it would come to; ``held`` for a firing that something holds. ``request``: what would be
    sent, where nothing holds it. ``wanted``: what it does and spends."""

    write: Write
    known: bool
    becomes: State | str
    reason: str
    before_known: bool
    before: Json
    request: Mapping[str, Json] | None
    cost: Cost
    wanted: Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsure:
    """A rule whose condition is unknown for so many events, and why for one of them."""

    rule: RuleId
    events: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """What came of one partner. ``seen_at``: when the daemon saw what this goes by; None where the service was read.
    ``not_read``: facts that were asked for and that nobody has read in time; ``unsure``: rules that can therefore not
    be judged, or for want of anything else."""

    partner: PartnerId
    seen_at: datetime | None
    report: CycleReport
    not_read: tuple[Place, ...]
    unsure: tuple[Unsure, ...]
    rows: tuple[Row, ...]


def _steps(decision: Decision, event: EventId, rule: Rule) -> tuple[Planned, ...]:
    """What the firing would lead to; where a value cannot be computed now, with the values as they are written."""
    try:
        return plan_steps(rule, decision.scope(event, rule), {})
    except NotComputable:
        return tuple(_unresolved(position, step) for position, step in enumerate(rule.do) if step.action != UNDO)


def _unresolved(position: int, step: RuleStep) -> Planned:
    params = {name: _text(value) for name, value in step.params.items()}
    intent = Intent(action=step.action, target=ACTIONS[step.action].target, wish="", params=params)
    wish = Wish(target=intent.target, axis=step.action, value="")
    return Planned(position=position, item="", intent=replace(intent, order=position), wish=wish)


def _text(value: Template) -> Json:
    """A parameter as the rule writes it."""
    match value:
        case Computed():
            return f"={value.source}"
        case list():
            return [_text(one) for one in value]
        case dict():
            return {name: _text(one) for name, one in value.items()}
        case _:
            return value


class Rehearsal(StagedCycle):
    """Rehearses one partner. ``parts``: the daemon's, with a draft for a ledger. ``service``: stands in the place of
    its own; ``seen_at``: when the daemon saw what that one goes by. ``beside``: a daemon is running, and what the
    ledger calls sending is in that one's hands."""

    def __init__(
        self, parts: Parts, partner: PartnerId, service: Remembered, *, seen_at: datetime | None, beside: bool
    ) -> None:
        parts = replace(parts, service=service, decided=self._take)
        self._rules = {rule.id: rule for rule in parts.rules.current.rules}
        self._holding: dict[tuple[EventId, RuleId], tuple[Hold, tuple[Planned, ...], int]] = {}
        self._planned: set[WriteKey] = set()
        self._unknown: dict[tuple[EventId, RuleId], str] = {}
        self.partner = partner
        self.service = service
        self._seen_at = seen_at
        self._beside = beside
        self._outward = Outward(parts)
        self._preflight = Preflight(parts)
        self._asking = WhoAsks(parts)
        self._clock = parts.clock
        self._before = {write.id: write for write in parts.ledger.open_writes(partner)}
        super().__init__(parts, service, partner, Gathered(parts))

    async def run(self) -> Rehearsed:
        """One poll of everything, and all that follows from it up to the sends."""
        self.service.recall(self.state)
        report = await self._round()
        rows = sorted([*self._writes(self.state), *self._held(self.state)], key=_order)
        not_read = [place for place in self.service.not_read if self._told(place[0])]
        if self.service.only is not None:
            there = isinstance(self.service.fact(self.service.only, EVENT, self._clock.now()), Known)
            report = replace(report, events=int(there))
        return Rehearsed(
            partner=self.partner,
            seen_at=self._seen_at,
            report=report,
            not_read=tuple(sorted(not_read, key=lambda one: (one[1].text, one[0]))),
            unsure=self._unsure(),
            rows=tuple(row for row in rows if self._told(row.write.key.event)),
        )

    def _told(self, event: EventId) -> bool:
        """Whether the event was asked about: all that are known are decided on, because they count for each other."""
        return self.service.only is None or event in (OF_PARTNER, self.service.only)

    def _take(self, decision: Decision) -> None:
        """What was decided: the hold of each pair, the writes that were planned, and what could not be judged."""
        for (event, rule_id), judged in decision.judged.items():
            self._holding.pop((event, rule_id), None)
            if judged.truth is Truth.UNKNOWN:
                self._unknown[event, rule_id] = judged.why
        for (event, rule_id), held in decision.held.items():
            memory, rule = decision.memories.get((event, rule_id)), self._rules[rule_id]
            undo = partial(undo_by_rule, self._ledger, self.state.memory, event, rule, now=self._clock.now())
            undone, _ = undo_steps(rule, undo, {})
            steps = (*_steps(decision, event, rule), *undone)
            self._holding[event, rule_id] = (held, steps, memory.episode if memory is not None else 0)
        self._planned.update(plan.key for plan in decision.commit.plans)

    def _unsure(self) -> tuple[Unsure, ...]:
        """The rules with unknown conditions."""
        whys: dict[RuleId, list[str]] = {}
        for (event, rule), why in sorted(self._unknown.items()):
            if self._told(event):
                whys.setdefault(rule, []).append(why)
        return tuple(Unsure(rule=rule, events=len(said), why=said[0]) for rule, said in sorted(whys.items()))

    def _writes(self, state: PartnerState) -> Sequence[Row]:
        before = self._before
        found = [
            one for one in self._ledger.writes(partner=self.partner) if one.id in before or one.key in self._planned
        ]
        in_flight = {one.id: one for one in before.values() if self._beside and one.state == "sending"}
        return [self._row(state, in_flight.get(one.id, one), known=one.id in before) for one in found]

    def _held(self, state: PartnerState) -> Sequence[Row]:
        """Firings that something holds: there is no write yet, but for what it would be."""
        now = self._clock.now()
        rows: list[Row] = []
        for (event, rule), (held, steps, episode) in sorted(self._holding.items(), key=lambda one: one[0]):
            for step in steps:
                key = WriteKey(
                    partner=state.partner,
                    event=event,
                    rule=rule,
                    episode=episode,
                    position=step.position,
                    item=step.item,
                )
                why = "; ".join(filter(None, (held.why, step.fault)))
                plan = Plan(key=key, intent=step.intent, state="planned", reason=held.reason, why=why, rules=(rule,))
                write = replace(plan.write(0, now), held_until=held.until)
                rows.append(replace(self._row(state, write, known=False), becomes="held"))
        return rows

    def _row(self, state: PartnerState, write: Write, *, known: bool) -> Row:
        readable, value = self._value_before(state, write)
        request = self.service.requests.get(write.id)
        return Row(
            write=write,
            known=known,
            becomes=write.state if request is None else "sending",
            reason=write.held_by if write.state == "planned" and write.held_by else write.reason,
            before_known=readable,
            before=value,
            request=None if request is None else self._outward.spelled(request),
            cost=self._cost(state, write),
            wanted=wanted(write.intent, write.key.item, value, self._currency(state)),
        )

    def _currency(self, state: PartnerState) -> str:
        fact = state.shared.get(PARTNER)
        record = fact.value if isinstance(fact, Known) else None
        return str(record.get("currency") or "") if isinstance(record, Mapping) else ""

    def _value_before(self, state: PartnerState, write: Write) -> tuple[bool, Json]:
        no_item = write.intent.target == ACTIONS["edit_cluster"].target  # could be told yet
        if write.before_known or no_item or not reads_back(write.intent, write.key.item):
            return write.before_known, write.before
        key = fact_key(write.intent)
        return shown_value(write.intent, as_judged(key, state.fact(write.key.event, key) or UNREAD))

    def _cost(self, state: PartnerState, write: Write) -> Cost:
        """What it costs from now on, or would once nothing holds it."""
        if write.final or write.state in UNSETTLED - {"sending"}:
            return Cost(preflight=0, write=0, confirm=0)
        keys = () if write.message else self._preflight.keys(state, write, self._asking.rules(state, write))
        sent, seen = bool(write.intent.target), reads_back(write.intent, write.key.item)
        return Cost(preflight=len(keys), write=int(sent), confirm=int(seen))


def _order(row: Row) -> tuple[str, str, int, int]:
    key = row.write.key
    return key.event, key.rule, key.episode, row.write.intent.order
