"""Which partners are watched now, and what becomes of those that go away.

A partner that the token no longer names is not looked at, and sends nothing more: its unsent writes say so. An attempt
that is already on the wire is awaited like any other, also when the daemon stops meanwhile. When it comes back, its
first look is one after a silence. Nothing here decides when to look.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from worker.engine.state import PartnerState
from worker.model.commits import Move
from worker.model.errors import LedgerUnwritable
from worker.model.facts import Json
from worker.model.ids import PartnerId
from worker.model.moments import spelled
from worker.model.writes import Write
from worker.writes.states import hold


def held_while_gone(writes: Iterable[Write], named: Collection[PartnerId], now: datetime) -> tuple[Move, ...]:
    """The holds of planned writes whose partner is not among those that are watched. Pure."""
    why = "the partner is not among those that are watched: the service does not name it, or the config leaves it out"
    holds = (
        hold(write, at=now, reason="partner_gone", why=why)
        for write in writes
        if write.state == "planned" and write.key.partner not in named
    )
    return tuple(one for one in holds if one is not None)


def said_of(state: PartnerState, now: datetime) -> dict[str, Json]:
    """What the daemon saves of one partner. ``look_s``: how long its last complete look took. ``seen_after_s``: the
    mean time from a change to its reading at this pace; of ``list``, what the list of events shows, and of ``facts``,
    what costs a request per event. ``short``: the rules want more than the budget gives."""
    expected = state.expected
    found: dict[str, Json] = {
        "last_ok_at": spelled(state.last_ok_at),
        "last_error": state.trouble(now),
        "look_s": round(state.look_s, 3),
    }
    if expected is not None:
        found["short"] = expected.short
        found["seen_after_s"] = {"list": round(expected.of_list, 1), "facts": round(expected.of_facts, 1)}
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed:
    """Who is watched from now on, and who no longer is, in order. ``failed``: why somebody could not be taken up, which
    the next renewal tries again."""

    found: list[PartnerId]
    lost: list[PartnerId]
    failed: LedgerUnwritable | None


class Partners:
    """The states of all partners by id. ``load`` gives what the ledger remembers of one."""

    def __init__(self, load: Callable[[PartnerId], PartnerState], now: Callable[[], datetime]) -> None:
        self._load = load
        self._now = now
        self._watched: dict[PartnerId, PartnerState] = {}
        self._left: dict[PartnerId, PartnerState] = {}

    def __iter__(self) -> Iterator[PartnerState]:
        return iter(self._watched.values())

    def get(self, partner: PartnerId) -> PartnerState | None:
        """The state of a partner that is watched."""
        return self._watched.get(partner)

    def renew(self, named: Iterable[PartnerId]) -> Renewed:
        """Takes over whom the service names now.

        Who comes back while an attempt of before is still under way is taken up a renewal later, so that its outcome is
        recorded first.
        """
        now = set(named)
        lost = sorted(set(self._watched) - now)
        for partner in lost:
            self._leave(partner)
        found: list[PartnerId] = []
        failed: LedgerUnwritable | None = None
        for partner in sorted(now - set(self._watched)):
            try:
                if self._take_up(partner):
                    found.append(partner)
            except LedgerUnwritable as problem:
                failed = problem  # the others are looked at all the same
        return Renewed(found=found, lost=lost, failed=failed)

    def tasks(self) -> tuple[list["asyncio.Task[None]"], list["asyncio.Task[None]"]]:
        """The running tasks of all partners, also of those that left: those that send, and those that only prepare."""
        flying: list[asyncio.Task[None]] = []
        others: list[asyncio.Task[None]] = []
        for state in (*self._watched.values(), *self._left.values()):
            for write, task in state.running.items():
                (flying if write in state.in_flight else others).append(task)
        return flying, others

    def _leave(self, partner: PartnerId) -> None:
        state = self._watched.pop(partner)
        state.left = True
        for write, task in state.running.items():
            if write not in state.in_flight:
                task.cancel()
        self._left[partner] = state

    def _take_up(self, partner: PartnerId) -> bool:
        before = self._left.get(partner)
        if before is not None and before.in_flight:
            return False
        state = self._load(partner)
        if before is not None:
            state.memory = replace(state.memory, after_gap_at=self._now())
            del self._left[partner]
        self._watched[partner] = state
        return True
