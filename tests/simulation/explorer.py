"""A second judge of another kind: every order of what can happen to one write, counted and not drawn.

The write is the real one and moves through `advance`; around it stands the smallest world that can hurt it. Its effect
may come at once, late, or never, whatever was answered; the process may die; another replica may take over while the
first one is still sending; reads may fail; somebody may change the target, or settle the write and be right. Two
orders that come to the same are followed once, so all orders up to a length are few enough to be walked.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from tests.builders import NOW, a_policy, a_write, event_fact, unreadable
from worker.model.actions import ACTIONS
from worker.model.exchange import Accepted, Answered, NotSent, Outcome, Refused, Uncertain
from worker.model.facts import Fact, Json
from worker.model.writes import State, Write
from worker.writes.evidence import (
    Attempted,
    FoundSending,
    Input,
    Next,
    Policy,
    Settling,
    TaskFailed,
    Then,
    Unwanted,
    Verdict,
    looked,
)
from worker.writes.life import MOVES, advance, move

TICK_S: Final = 3
"""One poll interval; all times of the model are whole ticks of it."""
SETTLE: Final = 2
LAST_BYTE: Final = 2
"""Ticks after a takeover in which a replica that lost its lease may still put its last byte on the wire."""
POLICY: Final = a_policy(
    settle=timedelta(seconds=SETTLE * TICK_S),
    evidence_reads=2,
    evidence_within=timedelta(seconds=7 * TICK_S),
    confirm_within=timedelta(seconds=4 * TICK_S),
    max_attempts=2,
    interval=timedelta(seconds=TICK_S),
)
FORGOTTEN: Final = 12
"""Ticks after which nothing tells one age from a greater one: every limit above is over."""
CAME_TO_NOTHING: Final[frozenset[State]] = frozenset({"skipped", "cancelled", "rejected", "refused"})

Shown = Literal["before", "there", "third"]
VALUES: Final[dict[str, dict[Shown, Json]]] = {
    "run": {"before": "PAUSED", "there": "RUNNING", "third": "STOPPED"},
    "pause": {"before": "RUNNING", "there": "PAUSED", "third": "STOPPED"},
}
OUTCOMES: Final[dict[str, tuple[Outcome, tuple[str, ...]]]] = {
    "2xx": (Accepted(answer=Answered(status=204)), ("now", "late", "never")),
    "400": (Refused(answer=Answered(status=400)), ("never",)),
    "429": (Uncertain(why="429", answer=Answered(status=429)), ("now", "late", "never")),
    "no connection": (NotSent(cause="connect", why="connection refused"), ("never",)),
    "401": (NotSent(cause="denied", why="401", answer=Answered(status=401)), ("now", "late", "never")),
}
"""Each answer, and what may become of the effect behind it. A service that accepts what never happens is one that
fails later; a 401 after which something happens is only allowed for what spends (assumption `auth.denied`)."""


UNWANTED: Final = Unwanted(reason="no_longer_holds", why="the condition is false")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The write, what its process knows, and what is true. ``late``: until which tick each effect under way may still
    come; ``landed``: effects that came; ``wanted``: the condition holds."""

    write: Write
    settling: Settling | None = None
    then: Then = "rest"
    tick: int = 0
    shown: Shown = "before"
    late: tuple[int, ...] = ()
    landed: int = 0
    wanted: bool = True

    @property
    def at(self) -> tuple[datetime, float]:
        """Now, as UTC and as monotonic seconds."""
        return NOW + timedelta(seconds=self.tick * TICK_S), float(self.tick * TICK_S)

    def age(self, seconds: float | None) -> int | None:
        """Ticks since then, and no more than matter."""
        return None if seconds is None else min(FORGOTTEN, self.tick - int(seconds // TICK_S))

    @property
    def final(self) -> bool:
        """Nothing moves it any more."""
        return not MOVES[self.write.state]

    @property
    def key(self) -> tuple[object, ...]:
        """All that can bear on what may happen from here."""
        one, known = self.write, self.settling
        ages = [None if at is None else (at - NOW).total_seconds() for at in (one.changed_at, one.unknown_since)]
        held = None if one.held_until is None else self.age((one.held_until - NOW).total_seconds())
        return (
            one.state, one.attempt, one.uncounted, one.denied, one.extra_attempts, one.absent_proved, held,
            *map(self.age, ages),
            known and (self.age(known.ended), known.absent, self.age(known.last_read)),
            self.then, self.shown, tuple(until - self.tick for until in self.late), self.landed, self.wanted,
        )  # fmt: skip


@dataclass(slots=True)
class Found:
    """What the walk came to: the worlds, the moves made, and of each complaint the shortest order of events."""

    worlds: int = 0
    events: int = 0
    moves: Counter[tuple[State, State]] = field(default_factory=Counter)
    complaints: dict[str, tuple[str, ...]] = field(default_factory=dict)


Step = Callable[[Write, Settling | None, Input, Policy, tuple[datetime, float]], Next]


def explore(
    action: str,
    depth: int,
    *,
    last_byte: int = 0,
    step: Step = advance,
    **changes: Any,  # noqa: ANN401 - of Policy
) -> Found:
    """Walks every order of up to ``depth`` events of one write of this action.

    ``last_byte``: ticks after its process is gone in which an attempt may still leave. None where the kernel ends both
    at once, as on one machine; `LAST_BYTE` in a fleet, where the one who takes over cannot see the one that lost.
    ``changes``: of the policy.
    """
    policy = replace(POLICY, spends=ACTIONS[action].spends == "always", **changes)
    return _Walk(policy=policy, step=step, last_byte=last_byte).walk(World(write=a_write(action)), depth)


@dataclass(slots=True, kw_only=True)
class _Walk:
    policy: Policy
    step: Step
    last_byte: int
    found: Found = field(default_factory=Found)

    def walk(self, first: World, depth: int) -> Found:
        """Breadth first, so that the first order found of each complaint is a shortest one."""
        orders: dict[tuple[object, ...], tuple[str, ...]] = {first.key: ()}
        front = [first]
        for _ in range(depth):
            reached = []
            for world in front:
                order = orders[world.key]
                for name, after in self._events(world):
                    self.found.events += 1
                    if after.write.state != world.write.state:
                        self.found.moves[world.write.state, after.write.state] += 1
                    for complaint in _complaints(world, after):
                        self.found.complaints.setdefault(complaint, (*order, name))
                    if after.key not in orders:
                        orders[after.key] = (*order, name)
                        reached.append(after)
                        if not self._comes_to_an_end(after):
                            self.found.complaints.setdefault("left alone, it comes to no end", orders[after.key])
            front = reached
        self.found.worlds = len(orders)
        return self.found

    def _comes_to_an_end(self, world: World) -> bool:
        """Whether reads that answer, a poll apart, bring it to an end, before a person, or to where it may be sent."""
        for _ in range(2 * FORGOTTEN):
            if world.final or world.write.state in ("sending", "planned", "needs_human") or self._may_send(world):
                return True
            world = _later(world)
            world = self._read(world, _read_of(world), world.at[1])
            if not world.wanted and not world.final:
                world = self._take(world, UNWANTED)
        return False

    def _events(self, world: World) -> Iterator[tuple[str, World]]:
        """Whatever can happen next."""
        yield "time passes", _later(world)
        if world.late:
            yield "a late effect comes", _lands(world, 0)
        if world.shown != "third":
            yield "somebody changes the target", replace(world, shown="third")
        if world.write.state == "sending":
            yield from self._ends(world)
        elif not world.final:
            yield "the process dies", self._anew(world)
            yield from self._settles(world)
        if self._may_send(world):
            yield "sent", self._sent(world)

    def _ends(self, world: World) -> Iterator[tuple[str, World]]:
        """The ways in which an attempt ends."""
        for said, (outcome, fates) in OUTCOMES.items():
            harmless = said == "401" and not self.policy.spends
            for fate in ("never",) if harmless else fates:
                yield f"{said}, effect {fate}", self._take(_fated(world, fate, 0), Attempted(outcome=outcome))
        for fate in ("now", "late", "never"):
            dead = self._take(_fated(world, fate, self.last_byte), FoundSending())
            yield f"the process dies, effect {fate}", self._anew(dead)

    def _settles(self, world: World) -> Iterator[tuple[str, World]]:
        """Reads, a person, and a condition that turns false."""
        write = world.write
        if write.state in ("applied", "unknown", "needs_human"):
            yield "a read", self._read(world, _read_of(world), world.at[1])
            yield "a read that fails", self._read(world, unreadable(), world.at[1])
            old = _read_of(replace(world, shown="before"))
            yield "a read from before it comes late", self._read(world, old, _ended(world) - TICK_S)
        if write.state == "applied" and not world.landed and not world.late:
            yield "the service's task fails", self._take(world, TaskFailed(state="FAILURE"))
        if write.state == "needs_human" and (world.landed or not world.late):
            name = "a person finds it there" if world.landed else "a person finds nothing there"
            yield name, self._take(world, Verdict(applied=world.landed > 0, because="looked it up"))
        if write.state in ("planned", "unknown", "needs_human"):
            yield "no longer wanted", self._take(replace(world, wanted=False), UNWANTED)

    def _anew(self, world: World) -> World:
        """Another process goes on, and counts from when the last byte of the one before can have left."""
        unsettled = world.write.state in ("applied", "unknown", "needs_human")
        ended = world.at[1] + self.last_byte * TICK_S
        return replace(world, settling=Settling(ended=ended) if unsettled else None, then="rest")

    def _read(self, world: World, fact: Fact, began: float) -> World:
        look = looked(world.write, fact, (), began=began, running=False, event_answered=True)
        return self._take(world, look)

    def _may_send(self, world: World) -> bool:
        """What the pre-flight asks: wanted still, held by nothing, and a fresh read that shows the value before."""
        write, now = world.write, world.at[0]
        if not world.wanted or world.shown != "before":
            return False
        if write.state == "unknown":
            return world.then == "send"
        return write.state == "planned" and (write.held_until is None or write.held_until <= now)

    def _sent(self, world: World) -> World:
        write, (now, _) = world.write, world.at
        change = move(write, "sending", at=now, reason="condition", why="sent", attempt=write.attempt + 1)
        before = VALUES[write.intent.action]["before"]
        row = replace(change.after, before=before, before_known=True, last_sent_at=now)
        return replace(world, write=row, settling=None, then="rest")

    def _take(self, world: World, event: Input) -> World:
        """The write takes it as the engine has it take everything: through `advance`."""
        said = self.step(world.write, world.settling, event, self.policy, world.at)
        after = said.move.after if said.move is not None else world.write
        return replace(world, write=after, settling=said.settling, then=said.then)


def _complaints(before: World, after: World) -> Iterator[str]:
    """What must never be, looked at after every event."""
    state, was = after.write.state, before.write.state
    if state == "sending" and was != "sending" and (after.landed or after.late):
        yield "sent again although its effect is there or may still come"
    if state in CAME_TO_NOTHING and (after.landed or after.late):
        yield f"{state}, and its effect is there or may still come"
    if state == "confirmed" and not after.landed and after.write.confirmed_by != "answer":
        yield "confirmed, and nothing happened"
    if state != was and state not in MOVES[was] and not _in_one(was, state):
        yield f"went from {was} to {state}"


def _in_one(was: State, state: State) -> bool:
    """Two moves of the table made at once."""
    return any(state in MOVES[between] for between in MOVES[was])


def _read_of(world: World) -> Fact:
    return event_fact(client_campaign_status=VALUES[world.write.intent.action][world.shown])


def _ended(world: World) -> float:
    return world.settling.ended if world.settling is not None else world.at[1]


def _fated(world: World, fate: str, last_byte: int) -> World:
    match fate:
        case "now" if not last_byte:
            return _lands(replace(world, late=(*world.late, world.tick)), len(world.late))
        case "now":
            return replace(world, late=(*world.late, world.tick + last_byte))
        case "late":
            return replace(world, late=(*world.late, world.tick + last_byte + SETTLE))
        case _:
            return world


def _lands(world: World, place: int) -> World:
    rest = (*world.late[:place], *world.late[place + 1 :])
    return replace(world, late=rest, landed=world.landed + 1, shown="there")


def _later(world: World) -> World:
    """One tick on: what had to come by then has come."""
    after = replace(world, tick=world.tick + 1)
    while due := [place for place, until in enumerate(after.late) if until <= after.tick]:
        after = _lands(after, due[0])
    return after
