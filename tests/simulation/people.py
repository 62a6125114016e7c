"""The people around the worker, who speak to it through the functions behind its own commands."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Protocol

from tests.simulation.disk import Disk
from tests.simulation.loop import SimLoop
from tests.worlds import PARTNER
from worker.engine.operators import after_restore, approved, rejected, resolved
from worker.engine.settings import EngineSettings
from worker.ledger.sql import SqlLedger
from worker.ledger.upkeep import accept_restore
from worker.model.commits import Commit
from worker.model.errors import StateConflict, WorkerError
from worker.model.writes import Write
from worker.sandbox.world import Happening

WHO = "somebody"
FOR_EVER_S = 1e9


class Place(Protocol):
    """Where they live."""

    loop: SimLoop
    disk: Disk
    settings: EngineSettings
    halts: list[tuple[float, float]]

    def wall(self) -> datetime: ...
    def at(self, event: str) -> Happening | None: ...
    def tell(self, text: str) -> None: ...


class People:
    """They approve, halt, look at the service themselves, and say what they found."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._came_back = False

    @contextmanager
    def _ledger(self) -> Iterator[SqlLedger | None]:
        """The ledger, in a short transaction of a command's own; None where it cannot be used now."""
        if not self._place.disk.file.exists() or self._place.disk.full:
            yield None
            return
        try:
            ledger = SqlLedger.open(self._place.disk.url, clock_now=self._place.wall)
        except WorkerError:
            yield None
            return
        try:
            yield ledger
        finally:
            ledger.close()

    def open_writes(self) -> bool:
        """Whether anything is not final, as anybody sees who looks into the file; what was meant for an event that is
        gone is kept until that comes back, and does not count."""
        return any(
            state not in ("planned", "waiting") or self._place.at(event) is not None
            for event, state in self._place.disk.open_writes()
        )

    def _any(self, state: str) -> bool:
        return any(one == state for _, one in self._place.disk.open_writes())

    def decide(self, *, approve: bool) -> None:
        """Somebody lets go, or rejects, all that waits."""
        if not self._any("waiting"):
            return
        with self._ledger() as ledger:
            for write in ledger.open_writes() if ledger is not None else ():
                if ledger is not None and write.state == "waiting":
                    now = self._place.wall()
                    verdict = approved if approve else rejected
                    move = verdict(write, because="looked at it", by=WHO, now=now)
                    self._place.tell(f"somebody {'approves' if approve else 'rejects'} {write.id}")
                    try:
                        ledger.apply(Commit(at=now, moves=(move,)))
                    except StateConflict:
                        continue

    def resolve_all(self) -> None:
        """Somebody looks at the service for each write that nobody could settle, and says what is there."""
        if not self._any("needs_human"):
            return
        with self._ledger() as ledger:
            for write in ledger.open_writes() if ledger is not None else ():
                if ledger is not None and write.state == "needs_human":
                    now = self._place.wall()
                    there = self._is_there(write)
                    self._place.tell(f"somebody says that {write.id} is {'there' if there else 'not there'}")
                    move = resolved(
                        write, applied=there, because="looked", by=WHO, now=now, settings=self._place.settings
                    )
                    try:
                        ledger.apply(Commit(at=now, moves=(move,)))
                    except StateConflict:
                        continue

    def _is_there(self, write: Write) -> bool:
        found = self._place.at(write.key.event)
        if found is None:
            return True  # nobody wants to send that again
        if write.key.item == "cr":
            return found.last_updated_on_fe is not None
        if write.intent.target != "setup":
            return bool(found.record.get(write.intent.target) == write.intent.wanted[write.intent.target])
        return found.setup is not None and (write.intent.action == "create_draft" or found.published)

    def halt(self, seconds: float) -> None:
        with self._ledger() as ledger:
            if ledger is None:
                return
            now = self._place.wall()
            ledger.append_halt(partner=PARTNER, because="let me look", by=WHO, at=now, until=now + timedelta(days=400))
            began = self._place.loop.now
            self._place.halts.append((began, began + FOR_EVER_S))
        self._place.loop.call_later(seconds, self.resume)

    def resume(self) -> None:
        if not self._place.halts:
            return  # nobody has ever halted anything, so no backup that came back can hold a halt
        with self._ledger() as ledger:
            if ledger is None:
                return
            ledger.resume_halts(because="seen enough", by=WHO, at=self._place.wall())
        self._came_back = False
        ended = self._place.loop.now
        halts = self._place.halts
        halts[:] = [(began, min(until, ended)) for began, until in halts]

    def still_halted(self) -> bool:
        """Whether a halt could not be ended, because nobody could open the ledger, or came back with a restored one."""
        return self._came_back or any(until >= FOR_EVER_S for _, until in self._place.halts)

    def accept_restore(self) -> None:
        """Somebody has looked at what happened to the ledger, and says to go on with this one."""
        now = self._place.wall()
        self._came_back = bool(self._place.halts)
        self._place.tell("somebody accepts the ledger")
        try:
            accept_restore(
                self._place.disk.url,
                by=WHO,
                now=now,
                restored=lambda write: after_restore(write, by=WHO, now=now),
            )
        except WorkerError as problem:
            self._place.tell(f"it cannot be accepted: {problem}")
