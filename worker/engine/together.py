"""What many writes want recorded in the same turn of the loop is one commit: one transaction, one sync, one mark.

A database calls it group commit. An attempt that is ready asks and waits; at the end of the turn all that asked are
looked at once more, recorded together in the order in which they asked, and let go only when the commit and the mark
are on the disk. While the disk is busy the next ones gather by themselves. A commit that fails fails all of its group,
and none of them sends. A single one that is in the way (its row was changed meanwhile, its guard has a defect) must
hold up no other: then each is recorded by itself. Nothing here judges or sends.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from worker.engine.ports import Clock, Ledger
from worker.model.commits import Brake, Commit, Move, Sending
from worker.model.errors import LedgerUnwritable

T = TypeVar("T")

GROUP = 100
"""How many one commit takes at most, so that the first of them does not wait long for the last."""

MaySend = Callable[[], Sending | None]
"""Called right before the commit, with nothing in between: what to record, or None where nothing is to be sent now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What became of one that asked: ``sending`` is on the disk unless there is a ``brake``. ``sending`` is None where
    nothing was asked for in the end. ``began_s``: monotonic, before the last look and the commit."""

    sending: Sending | None
    brake: Brake | None = None
    began_s: float


@dataclass(slots=True, kw_only=True)
class _Asked:
    ready: MaySend
    told: "asyncio.Future[Recorded]"


@dataclass(slots=True, kw_only=True)
class _Outcome:
    move: Move
    told: "asyncio.Future[None]"


class Together:
    """Gathers what is to be recorded until the end of a turn of the loop. One serves all partners."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._asked: list[_Asked] = []
        self._outcomes: list[_Outcome] = []
        self._turn: asyncio.Task[None] | None = None

    async def sending(self, ready: MaySend) -> Recorded:
        """Returns once the attempt is durably recorded, with its mark, or held by a brake. Raises as
        `Ledger.record_sendings` does; then nothing may be sent. Who is cancelled before is not recorded."""
        told: asyncio.Future[Recorded] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(ready=ready, told=told))
        self._at_the_end()
        return await told

    async def outcome(self, move: Move) -> None:
        """Returns once what came of an attempt is stored; it is stored even for who is cancelled meanwhile. Raises as
        `Ledger.apply` does."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._outcomes.append(_Outcome(move=move, told=told))
        self._at_the_end()
        await told

    def _at_the_end(self) -> None:
        if self._turn is None:
            self._turn = asyncio.ensure_future(self._end_of_turn())

    async def _end_of_turn(self) -> None:
        """Runs after all who were ready in this turn; outcomes are stored first, because brakes judge by them."""
        self._turn = None
        outcomes, self._outcomes = self._outcomes[:GROUP], self._outcomes[GROUP:]
        asked, self._asked = self._asked[:GROUP], self._asked[GROUP:]
        if self._outcomes or self._asked:
            self._at_the_end()
        if outcomes:
            self._store(outcomes)
        began_s = self._clock.monotonic()
        wanted = [(one, sending) for one in asked if (sending := _looked_at(one, began_s)) is not None]
        if wanted:
            self._record([one for one, _ in wanted], [sending for _, sending in wanted], began_s)

    def _store(self, group: Sequence[_Outcome]) -> None:
        """Stored also for those who no longer wait: an answer that was heard is not forgotten."""
        at = max(one.move.after.changed_at for one in group)
        try:
            self._ledger.apply(Commit(at=at, moves=tuple(one.move for one in group)))
        except Exception as problem:  # noqa: BLE001 - it is handed to those who asked, each of whom knows what it means
            if len(group) > 1 and not isinstance(problem, LedgerUnwritable):
                for one in group:
                    self._store([one])
                return
            for one in group:
                _fail(one.told, problem)
            return
        for one in group:
            _tell(one.told, None)

    def _record(self, group: Sequence[_Asked], sendings: Sequence[Sending], began_s: float) -> None:
        try:
            brakes = self._ledger.record_sendings(sendings)
        except Exception as problem:  # noqa: BLE001 - as above
            if len(group) > 1 and not isinstance(problem, LedgerUnwritable):
                for one, sending in zip(group, sendings, strict=True):
                    self._record([one], [sending], began_s)
                return
            for one in group:
                _fail(one.told, problem)
            return
        for one, sending, brake in zip(group, sendings, brakes, strict=True):
            _tell(one.told, Recorded(sending=sending, brake=brake, began_s=began_s))


def _looked_at(one: _Asked, began_s: float) -> Sending | None:
    """What is to be recorded for it; who no longer waits, or no longer wants, is let go."""
    if one.told.done():
        return None
    try:
        sending = one.ready()
    except Exception as problem:  # noqa: BLE001 - its own affair, and no reason to keep the others
        _fail(one.told, problem)
        return None
    if sending is None:
        _tell(one.told, Recorded(sending=None, began_s=began_s))
    return sending


def _tell(told: "asyncio.Future[T]", what: T) -> None:
    if not told.done():
        told.set_result(what)


def _fail(told: "asyncio.Future[T]", problem: Exception) -> None:
    if not told.done():
        told.set_exception(problem)
