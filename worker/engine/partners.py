"""Which partners are watched now, and what becomes of those that go away.

A partner that the token no longer names is not looked at, and sends nothing more: its unsent writes say so. An attempt
that is already on the wire is awaited like any other, also when the daemon stops meanwhile. When it comes back, its
first poll is one after a silence. Nothing here decides when to poll.

The account may have one partner under two groups, and both would do everything: so where several are named, each is
asked who it is (the ``id`` of its record), and of those that are one partner only one is watched. Which one, the ledger
says, to one process and to all replicas of a fleet: see `Ledger.identify`.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from worker.engine.ports import BEAT_S, Parts, Stage, Urgency
from worker.engine.state import PARTNER, PartnerState
from worker.model.commits import OF_PARTNER, Move
from worker.model.errors import OwnershipLost, StateConflict
from worker.model.facts import Fact, Json, Known, PartnerId, Unknown, record_of, spelled
from worker.model.writes import Write
from worker.writes.evidence import folded
from worker.writes.life import hold, move


def held_while_gone(
    writes: Iterable[Write],
    named: Collection[PartnerId],
    now: datetime,
    within: timedelta,
    same: Mapping[PartnerId, str],
) -> tuple[Move, ...]:
    """What becomes of writes whose partner is not among those that are watched: planned ones are held, and what no read
    has settled for so long is put before an operator. ``same``: why some that are named are not. Pure."""
    gone = "the partner is not among those that are watched: the service does not name it, or the config leaves it out"
    moves = list[Move | None]()
    for write in writes:
        partner = write.key.partner
        if partner in named and partner not in same:
            continue
        reason, why = ("same_partner", same[partner]) if partner in same else ("partner_gone", gone)
        if write.state == "planned":
            moves.append(hold(write, at=now, reason=reason, why=why))
        elif write.state in ("unknown", "applied") and now - write.changed_at >= within:
            moves.append(move(write, "needs_human", at=now, reason=reason, why=f"nobody reads whether it is so: {why}"))
    return tuple(one for one in moves if one is not None)


class Identities(Stage):
    """Who the named partners are by the service's own word. ``known``: those of whom that is stored; ``held``: why each
    of the others that may not be watched is held."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._records: dict[PartnerId, Fact] = {}
        self.known: set[PartnerId] = set()
        self.held: dict[PartnerId, str] = {}

    def watchable(
        self, mine: Collection[PartnerId], named: Collection[PartnerId], watched: Collection[PartnerId]
    ) -> tuple[PartnerId, ...]:
        """Those of whom it is known who they are, and those that are watched already, unless they are another's second
        name. Whom nobody knows is watched only where there is no other."""
        known = (self.known | set(watched)) - self.held.keys()
        return tuple(one for one in mine if one in known or self._alone(named))

    async def ask(
        self, mine: Collection[PartnerId], named: Collection[PartnerId], watched: Collection[PartnerId]
    ) -> None:
        """Learns who those are of whom that is not stored yet, first those that were watched before. One alone is asked
        nothing: who it is, is seen in its first poll."""
        self.known = set(self._ledger.identified())
        strangers = sorted(set(mine) - self.known, key=lambda one: (self._ledger.partner_memory(one) is None, one))
        unread = [one for one in strangers if one in named and self._record(one) is None and not self._alone(named)]
        self._records.update(zip(unread, await asyncio.gather(*map(self._read, unread)), strict=True))
        held: dict[PartnerId, str] = {}
        began = self._clock.monotonic()
        for partner in strangers:
            if self._clock.monotonic() >= began + BEAT_S:  # of many: in a fleet the beat must come through meanwhile
                await self._clock.sleep(BEAT_S / 10)
                began = self._clock.monotonic()
            record = self._record(partner)
            try:
                first = None if record is None else self._ledger.identify(partner, record, named, self._clock.now())
            except StateConflict as problem:
                if not isinstance(problem, OwnershipLost):
                    held[partner] = str(problem)
                continue
            if first == partner:
                self.known.add(partner)
            elif first is not None:
                held[partner] = f"it is the same partner as {first}: the record of both has the id {record}"
            elif partner in unread and partner not in watched:
                fact = self._records[partner]
                why = "has no id" if isinstance(fact, Known) else f"cannot be read: {fact.why}"
                held[partner] = f"it may be the same as another partner: the record of {partner} {why}"
        self.held = {partner: why for partner, why in held.items() if partner in named}

    def _alone(self, named: Collection[PartnerId]) -> bool:
        """Whether there is one partner, which the service cannot have called otherwise before."""
        return len(named) == 1 and set(self._ledger.partners()) <= set(named)

    def _record(self, partner: PartnerId) -> str | None:
        """The id in its record, also as an earlier process saw it last: who a partner is does not change."""
        seen = (one.fact for one in self._ledger.observed(partner, OF_PARTNER) if one.key == PARTNER)
        return next(filter(None, map(_id_in, (self._records.get(partner), *seen))), None)

    async def _read(self, partner: PartnerId) -> Fact:
        within_s = self._settings.timeout.total_seconds()
        try:
            async with asyncio.timeout(within_s):
                return await self._service.read(partner, None, PARTNER, urgency=Urgency.FACT)
        except TimeoutError:
            return Unknown(code="unread", why=f"no answer within {within_s:.0f} s")


def _id_in(record: Fact | None) -> str | None:
    found = None if record is None else record_of(record).get("id")
    known = isinstance(found, str | int) and not isinstance(found, bool) and found != ""
    return folded(str(found)) if known else None  # two that are alike are taken for one: that only holds the other


def said_of(state: PartnerState, now: datetime) -> dict[str, Json]:
    """What the daemon saves of one partner. ``poll_s``: how long its last complete poll took. ``seen_after_s``: the
    mean time from a change to its reading at this pace; of ``list``, what the list of events shows, and of ``facts``,
    what costs a request per event. ``first_list``: how many of how many pages of the first list are read. ``short``:
    the rules want more than the budget gives."""
    expected = state.expected
    found: dict[str, Json] = {
        "last_ok_at": spelled(state.last_ok_at),
        "last_error": state.trouble(now),
        "look_s": round(state.poll_s, 3),
    }
    if state.pages is not None and state.last_ok_at is None:
        found["first_list"] = list(state.pages)
    if expected is not None:
        found["short"] = expected.short
        found["seen_after_s"] = {"list": round(expected.of_list, 1), "facts": round(expected.of_facts, 1)}
    return found


class Partners:
    """The states of all partners by id. ``load`` gives what the ledger remembers of one. ``away``: who comes back was
    watched by nobody meanwhile; else what is known of one that left is forgotten once nothing of it runs."""

    def __init__(
        self, load: Callable[[PartnerId], PartnerState], now: Callable[[], datetime], *, away: bool = True
    ) -> None:
        self._load = load
        self._now = now
        self._away = away
        self._watched: dict[PartnerId, PartnerState] = {}
        self._left: dict[PartnerId, PartnerState] = {}

    def __iter__(self) -> Iterator[PartnerState]:
        return iter(self._watched.values())

    def get(self, partner: PartnerId) -> PartnerState | None:
        """The state of a partner that is watched."""
        return self._watched.get(partner)

    def leave(self, named: Collection[PartnerId]) -> list[PartnerId]:
        """Lets those go that are not among these."""
        lost = sorted(self._watched.keys() - set(named))
        for partner in lost:
            state = self._left[partner] = self._watched.pop(partner)
            state.left = True
            for write, task in state.running.items():
                if write not in state.in_flight:
                    task.cancel()
        self._left = {one: state for one, state in self._left.items() if self._away or state.running}
        return lost

    def take_up(self, named: Iterable[PartnerId]) -> Iterator[PartnerId]:
        """Takes up those of these that are not watched yet, one by one. Who comes back while an attempt of before is
        still under way is taken up later, so that its outcome is recorded first."""
        for partner in sorted(set(named) - self._watched.keys()):
            before = self._left.get(partner)
            if before is not None and before.in_flight:
                continue
            state = self._load(partner)
            if before is not None and self._away:
                state.memory = replace(state.memory, after_gap_at=self._now())
            self._left.pop(partner, None)
            self._watched[partner] = state
            yield partner

    def in_flight(self, partner: PartnerId) -> bool:
        """Whether an attempt of the partner is under way, also of one that left."""
        states = (self._watched.get(partner), self._left.get(partner))
        return any(state is not None and state.in_flight for state in states)

    def tasks(self) -> tuple[list["asyncio.Task[None]"], list["asyncio.Task[None]"]]:
        """The running tasks of all partners, also of those that left: those that send, and those that only prepare."""
        flying: list[asyncio.Task[None]] = []
        others: list[asyncio.Task[None]] = []
        for state in (*self._watched.values(), *self._left.values()):
            for write, task in state.running.items():
                (flying if write in state.in_flight else others).append(task)
        return flying, others
