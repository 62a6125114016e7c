"""Which partners are watched now, and what becomes of those that go away.

A partner that the token no longer names is not looked at, and sends nothing more: its unsent writes say so. An attempt
that is already on the wire is awaited like any other, also when the daemon stops meanwhile. When it comes back, its
first poll is one after a silence. Nothing here decides when to poll.

The account may have one partner under two groups, and both would do everything: so where several are named, each is
asked who it is (the ``id`` of its record), and of those that are one partner only one is watched.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from worker.engine.ports import Parts, Stage, Urgency
from worker.engine.state import PARTNER, PartnerState
from worker.model.commits import OF_PARTNER, Commit, Move, PartnerMemory, Record
from worker.model.errors import LedgerUnwritable
from worker.model.facts import Fact, Json, Known, PartnerId, Unknown, record_of, spelled
from worker.model.writes import Write
from worker.writes.evidence import folded
from worker.writes.life import hold, move

UNASKED = "has not been read yet"
"""Why it is not known who a partner is, where nobody has asked."""


def held_while_gone(
    writes: Iterable[Write],
    named: Collection[PartnerId],
    now: datetime,
    within: timedelta,
    same: Mapping[PartnerId, str],
) -> tuple[Move, ...]:
    """What becomes of writes whose partner is not among those that are watched: planned ones are held, and what no read
    has settled for so long is put before an operator. ``same``: why some that are named are not, see `told_apart`.
    Pure."""
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


def told_apart(
    order: Collection[PartnerId],
    watched: Collection[PartnerId],
    records: Mapping[PartnerId, str],
    unreadable: Mapping[PartnerId, str],
) -> tuple[list[PartnerId], dict[PartnerId, str]]:
    """Of the partners that are named, in the order in which they come first: those to watch, and why each of the others
    is held. ``records``: the id in each one's record, as far as it is known; ``unreadable``: why that of another could
    not be read, last time. Pure.

    Nobody new is watched beside one of whom it is not known who it is. Where it is known of nobody, the first is
    watched: then at least nothing is done twice, and something is done.
    """
    chosen: list[PartnerId] = []
    held: dict[PartnerId, str] = {}
    taken: dict[str, PartnerId] = {}
    unsure = next((one for one in order if one in watched and one not in records), None) if len(order) > 1 else None
    for partner in order:
        record = records.get(partner)
        if record in taken:
            held[partner] = f"it is the same partner as {taken[record]}: the record of both has the id {record}"
        elif partner in watched or len(order) == 1:
            chosen.append(partner)
        elif unsure is not None or record is None:
            held[partner] = _unsure(partner if unsure is None else unsure, unreadable)
            continue
        else:
            chosen.append(partner)
        if record is not None:
            taken.setdefault(record, partner)
    if not chosen and order:
        chosen = [next(iter(order))]
        held.pop(chosen[0], None)
    return chosen, held


def _unsure(of: PartnerId, unreadable: Mapping[PartnerId, str]) -> str:
    return f"it may be the same as another partner: the record of {of} {unreadable.get(of, UNASKED)}"


class Identities(Stage):
    """Who the named partners are by the service's own word."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._records: dict[PartnerId, str] = {}
        self._unreadable: dict[PartnerId, str] = {}

    async def ask(self, named: Collection[PartnerId]) -> None:
        """Asks each of several partners of whom it is not known yet, and one that is new beside others of before, side
        by side, for no longer than one answer."""
        several = len(named) > 1
        with suppress(LedgerUnwritable):
            new = any(self._ledger.partner_memory(partner) is None for partner in named)
            several = several or (new and bool(self._ledger.partners()))
        await self.records(named if several else ())

    async def records(self, named: Collection[PartnerId]) -> dict[PartnerId, str]:
        """The ids in these partners' records, as far as they are known after asking for those that were not."""
        unknown = [partner for partner in named if partner not in self._records]
        if unknown:
            await self._ask(unknown)
        return {partner: self._records[partner] for partner in named if partner in self._records}

    def unsure(self, partner: PartnerId) -> str:
        """Why a partner of which it is not known who it is cannot be watched beside others."""
        return _unsure(partner, self._unreadable)

    async def _ask(self, unknown: Collection[PartnerId]) -> None:
        reads = {
            partner: asyncio.ensure_future(self._service.read(partner, None, PARTNER, urgency=Urgency.FACT))
            for partner in unknown
        }
        try:
            await asyncio.wait(reads.values(), timeout=self._settings.timeout.total_seconds())
        finally:
            heard: dict[PartnerId, Fact] = {one: read.result() for one, read in reads.items() if read.done()}
            for read in reads.values():
                read.cancel()
        for partner in unknown:
            why = f"no answer within {self._settings.timeout.total_seconds():.0f} s"
            self._note(partner, heard.get(partner, Unknown(code="unread", why=why)))

    def apart(
        self, named: tuple[PartnerId, ...], watched: Collection[PartnerId]
    ) -> tuple[list[PartnerId], dict[PartnerId, str]]:
        """See `told_apart`. Who was watched before comes first, also by an earlier process: it has done what the other
        would do again."""
        self._note_renamed(named)

        def rank(partner: PartnerId) -> int:
            return 0 if partner in watched else 1 if self._ledger.partner_memory(partner) is not None else 2

        order = sorted(named, key=lambda one: (rank(one), one))
        return told_apart(order, watched, self._records, self._unreadable)

    def _note_renamed(self, named: tuple[PartnerId, ...]) -> None:
        """What is true at the first poll of a partner that the service called otherwise before, or may have, waits for
        approval: it may have been done."""
        now = self._clock.now()
        for partner in (one for one in named if self._ledger.partner_memory(one) is None):
            record = self._records.get(partner)
            gone = ((one, self._seen(one)) for one in self._ledger.partners() if one not in named)
            before = next((one for one, seen in gone if seen is not None and record in (None, seen)), None)
            if before is not None:
                called = "may have called" if record is None else "called"
                why = f"the service {called} it {before} before: what is true at its first poll waits for approval"
                said = Record(at=now, kind="held", reason="restored", why=why, partner=partner)
                memory = PartnerMemory(partner=partner, restored_at=now)
                self._ledger.apply(Commit(at=now, partner=memory, records=(said,)))

    def _seen(self, partner: PartnerId) -> str | None:
        """The id in the partner's record as it was seen last, also by an earlier process."""
        seen = self._ledger.observed(partner, OF_PARTNER)
        return next((_id_in(one.fact) for one in seen if one.key == PARTNER), None)

    def _note(self, partner: PartnerId, fact: Fact) -> None:
        record = _id_in(fact)
        if record is None:  # as it was seen last, also by an earlier process: who a partner is does not change
            with suppress(LedgerUnwritable):
                record = self._seen(partner)
        if record is None:
            why = "has no id" if isinstance(fact, Known) else f"cannot be read: {fact.why}"
            self._unreadable[partner] = why
        else:
            self._records[partner] = record
            self._unreadable.pop(partner, None)


def _id_in(record: Fact) -> str | None:
    found = record_of(record).get("id")
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
    watched by nobody meanwhile."""

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
        return lost

    def take_up(self, named: Iterable[PartnerId]) -> Iterator[PartnerId]:
        """Takes up those of these that are not watched yet, one by one. Who comes back while an attempt of before is
        still under way is taken up later, so that its outcome is recorded first."""
        for partner in sorted(set(named) - self._watched.keys()):
            before = self._left.get(partner)
            if before is not None and before.in_flight:
                continue
            state = self._load(partner)
            if before is not None:
                if self._away:
                    state.memory = replace(state.memory, after_gap_at=self._now())
                del self._left[partner]
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
