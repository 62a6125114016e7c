"""A second judge of another kind: every order of what can happen to one write, counted and not drawn.

The writes are real ones and move through `read_of` and `advance`; around them stands the smallest world that can hurt
them. An effect may come at once, late, or never, whatever was answered; the process may die; a replica may be given up
while its attempt is still leaving; reads may fail or come late; somebody may change the target, or settle a write and
be right; a pause may overtake a run. Two orders that come to the same are followed once, so all orders up to a length
are few enough to be walked.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from tests.builders import NOW, a_policy, a_situation, a_write, event_fact, unreadable
from worker.guards import target_free
from worker.model.actions import ACTIONS
from worker.model.exchange import Accepted, Answered, NotSent, Outcome, Refused, Uncertain
from worker.model.facts import Fact, WriteId
from worker.model.writes import UNSETTLED, State, Write
from worker.writes.evidence import read_of
from worker.writes.life import (
    MOVES,
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
    advance,
    move,
)

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
BEFORE: Final = {"run": "PAUSED", "pause": "RUNNING"}
WANTED: Final = {"run": "RUNNING", "pause": "PAUSED"}
OTHER: Final = "STOPPED"
OUTCOMES: Final[dict[str, tuple[Outcome, tuple[str, ...]]]] = {
    "2xx": (Accepted(answer=Answered(status=204)), ("now", "late", "never")),
    "400": (Refused(answer=Answered(status=400), why="no"), ("never",)),
    "429": (Uncertain(why="429", answer=Answered(status=429)), ("now", "late", "never")),
    "no connection": (NotSent(cause="connect", why="connection refused"), ("never",)),
    "401": (NotSent(cause="denied", why="401", answer=Answered(status=401)), ("now", "late", "never")),
}
"""Each answer, and what may become of the effect behind it. A service that accepts what never happens is one that
fails later; a 401 after which something happens is only allowed for what spends (assumption `auth.denied`)."""
UNWANTED: Final = Unwanted(reason="no_longer_holds", why="the condition is false")

At = tuple[datetime, float]
"""A moment by the wall clock, and by the monotonic one."""
Step = Callable[[Write, Settling | None, Input, Policy, At], Next]


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A write, what its process knows of it, and what is true of it. ``late``: until which tick each of its effects
    under way may still come; ``landed``: how many came; ``covered``: another write's effect came over the last one;
    ``wanted``: its condition holds."""

    write: Write
    wanted: bool = True
    settling: Settling | None = None
    then: Then = "rest"
    late: tuple[int, ...] = ()
    landed: int = 0
    covered: bool = False

    @property
    def final(self) -> bool:
        """Nothing moves it any more."""
        return not MOVES[self.write.state]

    @property
    def there(self) -> bool:
        """Its effect came and stands, or may still come."""
        return bool(self.late) or (self.landed > 0 and not self.covered)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All writes of one target, what it shows, and the time in ticks. ``touched``: somebody else has changed it."""

    lives: tuple[Life, ...]
    shown: str
    tick: int = 0
    touched: bool = False

    @property
    def at(self) -> tuple[datetime, float]:
        """Now, as UTC and as monotonic seconds."""
        return NOW + timedelta(seconds=self.tick * TICK_S), float(self.tick * TICK_S)

    @property
    def key(self) -> tuple[object, ...]:
        """All that can bear on what may happen from here."""
        writes = [life.write for life in self.lives]
        orders = tuple((a.sending_order or (0, NOW)) < (b.sending_order or (0, NOW)) for a in writes for b in writes)
        changes = tuple(a.change_order < (b.sending_order or (0, NOW)) for a in writes for b in writes)
        return self.shown, self.touched, orders, changes, *(self._key(life) for life in self.lives)

    def _key(self, life: Life) -> tuple[object, ...]:
        one, known = life.write, life.settling
        times = (one.changed_at, one.unknown_since, one.held_until)
        return (
            one.state, one.attempt, one.uncounted, one.denied, one.extra_attempts, one.absent_proved, one.before,
            *(None if time is None else self._age((time - NOW).total_seconds()) for time in times),
            known and (self._age(known.ended), known.late_s, known.absent, self._age(known.last_read)),
            life.then, tuple(until - self.tick for until in life.late), life.landed, life.covered, life.wanted,
        )  # fmt: skip

    def _age(self, seconds: float | None) -> int | None:
        """Ticks since then, and no more than matter."""
        return None if seconds is None else min(FORGOTTEN, self.tick - int(seconds // TICK_S))

    def with_life(self, place: int, life: Life) -> "World":
        """The same world with another life at this place."""
        return replace(self, lives=(*self.lives[:place], life, *self.lives[place + 1 :]))


@dataclass(slots=True)
class Found:
    """What the walk came to: the worlds, the moves made, and of each complaint the shortest order of events."""

    worlds: int = 0
    events: int = 0
    moves: Counter[tuple[State, State]] = field(default_factory=Counter)
    complaints: dict[str, tuple[str, ...]] = field(default_factory=dict)


def explore(
    *actions: str,
    depth: int,
    last_byte: int = 0,
    step: Step = advance,
    **changes: Any,  # noqa: ANN401 - fields of Policy
) -> Found:
    """Walks every order of up to ``depth`` events of one write, or of one and a second that wants the opposite from
    some moment on, when the first is no longer wanted.

    ``last_byte``: ticks after its process is gone in which an attempt may still leave. None where the kernel ends both
    at once, as on one machine; `LAST_BYTE` in a fleet, where the one who takes over cannot see the one that lost.
    ``changes``: of the policy.
    """
    lives = tuple(
        Life(write=replace(a_write(action), id=WriteId(place + 1)), wanted=place == 0)
        for place, action in enumerate(actions)
    )
    walk = _Walk(policy=replace(POLICY, **changes), step=step, last_byte=last_byte)
    return walk.all(World(lives=lives, shown=BEFORE[actions[0]]), depth)


@dataclass(slots=True, kw_only=True)
class _Walk:
    policy: Policy
    step: Step
    last_byte: int
    found: Found = field(default_factory=Found)

    def all(self, first: World, depth: int) -> Found:
        """Breadth first, so that the first order found of each complaint is a shortest one."""
        orders: dict[tuple[object, ...], tuple[str, ...]] = {first.key: ()}
        front = [first]
        for _ in range(depth):
            reached = []
            for world in front:
                order = orders[world.key]
                for name, after in self._events(world):
                    self.found.events += 1
                    for complaint in self._judged(world, after):
                        self.found.complaints.setdefault(complaint, (*order, name))
                    if after.key not in orders:
                        orders[after.key] = (*order, name)
                        reached.append(after)
                        if not self._comes_to_an_end(after):
                            self.found.complaints.setdefault("left alone, it comes to no end", orders[after.key])
            front = reached
        self.found.worlds = len(orders)
        return self.found

    def _events(self, world: World) -> Iterator[tuple[str, World]]:
        yield "time passes", _later(world)
        if world.shown != OTHER:
            yield "somebody changes the target", replace(world, shown=OTHER, touched=True)
        if not all(life.final for life in world.lives):
            for fate in ("now", "late", "never") if _sending(world) is not None else ("never",):
                yield f"the process dies, effect {fate}", self._dies(world, fate)
        if not world.lives[-1].wanted and len(world.lives) > 1:
            first, second = world.lives
            lives = replace(first, wanted=False), replace(second, wanted=True)
            yield "the event is cancelled", replace(world, lives=lives)
        for place, life in enumerate(world.lives):
            name = life.write.intent.action
            if life.late:
                yield f"{name}: a late effect comes", _lands(world, place, 0)
            if life.write.state == "sending":
                yield from self._ends(world, place)
            elif not life.final:
                yield from self._settles(world, place)
            if self._may_send(world, place):
                yield f"{name}: sent", self._sent(world, place)

    def _ends(self, world: World, place: int) -> Iterator[tuple[str, World]]:
        """The ways in which an attempt ends."""
        write = world.lives[place].write
        for said, (outcome, fates) in OUTCOMES.items():
            harmless = said == "401" and not self._policy(write).spends
            for fate in ("never",) if harmless else fates:
                world_then = _fated(world, place, fate, 0)
                yield (
                    f"{write.intent.action}: {said}, effect {fate}",
                    self._take(world_then, place, Attempted(outcome=outcome)),
                )

    def _dies(self, world: World, fate: str) -> World:
        """Another process goes on, and counts from when the last byte of the one before can have left."""
        place = _sending(world)
        if place is not None:
            world = self._take(_fated(world, place, fate, self.last_byte), place, FoundSending())
        ended = Settling(ended=world.at[1], late_s=float(self.last_byte * TICK_S))
        lives = (replace(one, settling=ended if one.write.state in UNSETTLED else None) for one in world.lives)
        return replace(world, lives=tuple(replace(one, then="rest") for one in lives))

    def _settles(self, world: World, place: int) -> Iterator[tuple[str, World]]:
        """Reads, a person, and a condition that turns false."""
        life, name = world.lives[place], world.lives[place].write.intent.action
        state = life.write.state
        if state in ("applied", "unknown", "needs_human"):
            yield f"{name}: a read", self._read(world, place, _fact(world.shown), world.at[1])
            yield f"{name}: a read that fails", self._read(world, place, unreadable(), world.at[1])
            began = (life.settling.ended if life.settling is not None else world.at[1]) - TICK_S
            old = self._read(world, place, _fact(str(life.write.before)), began)
            yield f"{name}: a read from before it comes late", old
        if state == "applied" and not life.landed and not life.late:
            yield f"{name}: the service's task fails", self._take(world, place, TaskFailed(state="FAILURE"))
        if state == "needs_human" and not life.late:
            said = "it there" if life.there else "nothing there"
            verdict = Verdict(applied=life.there, because="looked it up")
            yield f"{name}: a person finds {said}", self._take(world, place, verdict)
        if state in ("planned", "unknown", "needs_human") and (
            len(world.lives) == 1 or (place == 0 and not life.wanted)
        ):
            unwanted = world.with_life(place, replace(life, wanted=False))
            yield f"{name}: no longer wanted", self._take(unwanted, place, UNWANTED)

    def _comes_to_an_end(self, world: World) -> bool:
        """Whether reads that answer, a poll apart, bring each write to an end, before a person, or to where it may be
        sent; one that waits for a person, or for another one that does, has come to where it must."""
        for _ in range(2 * FORGOTTEN):
            states = [life.write.state for life in world.lives]
            if "sending" in states or "needs_human" in states:
                return True
            open_ones = [place for place, life in enumerate(world.lives) if life.write.state in UNSETTLED]
            if not open_ones or any(self._may_send(world, place) for place in open_ones):
                return True
            world = _later(world)
            for place in open_ones:
                world = self._read(world, place, _fact(world.shown), world.at[1])
                if not world.lives[place].wanted and not world.lives[place].final:
                    world = self._take(world, place, UNWANTED)
        return False

    def _read(self, world: World, place: int, fact: Fact, began: float) -> World:
        others = [life.write for life in world.lives]
        look = read_of(world.lives[place].write, fact, others, began=began, running=False, event_answered=True)
        return self._take(world, place, look)

    def _may_send(self, world: World, place: int) -> bool:
        """What the pre-flight asks: wanted still, held by nothing, its target free, and a fresh read that shows that it
        is not so already, unless it has overtaken another."""
        life, now = world.lives[place], world.at[0]
        others = tuple(one.write for one in world.lives if one is not life and one.write.state in UNSETTLED)
        if not life.wanted or target_free(a_situation(life.write, on_target=others)) is not None:
            return False
        if world.shown == OTHER or (world.shown == WANTED[life.write.intent.action] and not others):
            return False
        if life.write.state == "unknown":
            return life.then == "send"
        until = life.write.held_until
        return life.write.state == "planned" and (until is None or until <= now)

    def _sent(self, world: World, place: int) -> World:
        life, (now, _) = world.lives[place], world.at
        write = life.write
        change = move(write, "sending", at=now, reason="condition", why="sent", attempt=write.attempt + 1)
        before = write.before if write.before_known else world.shown
        row = replace(change.after, before=before, before_known=True, last_sent_at=now, sent_seq=_seq(world))
        row = replace(row, changed_seq=_seq(world))
        return world.with_life(place, replace(life, write=row, settling=None, then="rest"))

    def _take(self, world: World, place: int, event: Input) -> World:
        """The write takes it as the engine has it take everything: through `advance`."""
        life = world.lives[place]
        said = self.step(life.write, life.settling, event, self._policy(life.write), world.at)
        after = replace(said.move.after, changed_seq=_seq(world)) if said.move is not None else life.write
        return world.with_life(place, replace(life, write=after, settling=said.settling, then=said.then))

    def _policy(self, write: Write) -> Policy:
        return replace(self.policy, spends=ACTIONS[write.intent.action].spends == "always")

    def _judged(self, before: World, after: World) -> Iterator[str]:
        """What must never be, looked at after every event."""
        for was, life in zip(before.lives, after.lives, strict=True):
            if life.write.state != was.write.state:
                yield from self._moved(was, life, before.shown)
            if life.write.state in CAME_TO_NOTHING and life.there:
                yield f"{life.write.state}, and its effect is there or may still come"
        last = after.lives[-1].write
        over = all(life.final and not life.late for life in after.lives) and not after.touched
        if len(after.lives) > 1 and over and last.state == "confirmed" and after.shown != WANTED[last.intent.action]:
            yield "all is settled, and the target is not as the last write wants it"

    def _moved(self, was: Life, life: Life, shown: str) -> Iterator[str]:
        """What must not be true of a move."""
        old, state = was.write.state, life.write.state
        self.found.moves[old, state] += 1
        if state not in MOVES[old] and not _in_one(old, state):
            yield f"went from {old} to {state}"
        if state == "sending" and was.there:
            yield "sent again although its effect is there or may still come"
        if state == "confirmed" and life.write.confirmed_by == "read" and shown != WANTED[life.write.intent.action]:
            yield "confirmed, and nothing happened"


def _in_one(was: State, state: State) -> bool:
    """Two moves of the table made at once."""
    return any(state in MOVES[between] for between in MOVES[was])


def _fact(value: str) -> Fact:
    return event_fact(client_campaign_status=value)


def _sending(world: World) -> int | None:
    return next((place for place, life in enumerate(world.lives) if life.write.state == "sending"), None)


def _seq(world: World) -> int:
    """The next number of the log."""
    return 1 + max(max(life.write.changed_seq, life.write.sent_seq) for life in world.lives)


def _fated(world: World, place: int, fate: str, last_byte: int) -> World:
    """What becomes of the effect of an attempt that ends now, whose last byte may leave some ticks later."""
    if fate == "never":
        return world
    until = world.tick + last_byte + (SETTLE if fate == "late" else 0)
    life = world.lives[place]
    world = world.with_life(place, replace(life, late=(*life.late, until)))
    return _lands(world, place, len(life.late)) if until == world.tick else world


def _lands(world: World, place: int, which: int) -> World:
    """One of its effects comes, and stands until another write's does."""
    life = world.lives[place]
    late = (*life.late[:which], *life.late[which + 1 :])
    lives = tuple(replace(one, covered=one.landed > 0) for one in world.lives)
    here = replace(life, late=late, landed=life.landed + 1, covered=False)
    return replace(world, lives=lives, shown=WANTED[life.write.intent.action]).with_life(place, here)


def _later(world: World) -> World:
    """One tick on: what had to come by then has come."""
    after = replace(world, tick=world.tick + 1)
    for place in range(len(after.lives)):
        while due := [which for which, until in enumerate(after.lives[place].late) if until <= after.tick]:
            after = _lands(after, place, due[0])
    return after
