"""An event loop of our own: virtual time, one thread, and a seeded generator that picks which ready callback runs.

Every callback belongs to the process in whose context it was made, so that a simulated process can die between any two
steps (its callbacks are dropped, and none of its clean-up runs), or be stalled while the clock goes on (they are put
aside).
Nothing here knows the worker. When nothing is ready, time jumps to the next timer; where there is none, everybody waits
for something that nobody will do, and that is an error.
"""

import asyncio
import heapq
from collections import defaultdict
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
START_S = 1000.0
OWNER: ContextVar[str] = ContextVar("OWNER", default="")
"""The simulated process that a callback belongs to; empty for the world around them."""
_MASK = (1 << 64) - 1


class Killed(BaseException):
    """The simulated process is dead: raised out of the port through which it was about to touch the world."""


class Deadlock(RuntimeError):
    """Every task waits for something that nobody will do."""


class Step(asyncio.TimerHandle):
    """A callback with its owner. Only what the loop and asyncio ask of a handle is there: there are hundreds in each
    world, and the usual ones take four times as long to make."""

    __slots__ = ("owner",)

    def __init__(  # no super(): see above
        self, when: float, callback: Callable[..., object], args: Any, context: Context | None
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._context = copy_context() if context is None else context
        self.owner: str = self._context.get(OWNER, "")

    def cancel(self) -> None:
        """It does not run any more."""
        self._cancelled = True
        self._callback = None  # type: ignore[assignment]  # as asyncio does: nothing is held any more
        self._args = ()

    def cancelled(self) -> bool:
        return self._cancelled

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.owner or 'the world'} at {self._when}: {self._callback}>"


class SimLoop(asyncio.AbstractEventLoop):  # what nothing here asks for stays abstract
    """Runs callbacks one by one, in an order that follows from its seed."""

    def __init__(self, chance: Random) -> None:
        self.now = START_S
        self.steps = 0
        self.choices = 0
        self.between: Callable[[str], None] | None = None
        self.after: Callable[[], None] | None = None
        self.waking: Callable[[str], None] | None = None
        self.troubles: list[str] = []
        self.stalls: list[tuple[str, float, float]] = []
        self._chance = chance
        self._ready: list[Step] = []
        self._timers: list[tuple[float, int, Step]] = []
        self._number = 0
        self._dead: set[str] = set()
        self._parked: dict[str, list[Step]] = {}
        self._tasks: defaultdict[str, list[asyncio.Task[Any]]] = defaultdict(list)
        self._stopping = False
        self._closed = False

    # What asyncio asks of a loop

    def time(self) -> float:
        return self.now

    def call_soon(  # type: ignore[override]  # typeshed spells the types of all arguments
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        step = Step(self.now, callback, args, context)
        self._ready.append(step)
        return step

    def call_later(  # type: ignore[override]  # as above
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        step = Step(when, callback, args, context)
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, step))
        return step

    def call_soon_threadsafe(  # type: ignore[override]  # as above
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> "asyncio.Task[T]":
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        self._tasks[OWNER.get() if context is None else context.get(OWNER, "")].append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer stays in the heap until its time comes, and does nothing then."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._closed:
            return
        self.troubles.append(f"{context.get('message')}: {context.get('exception')!r}")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    # Running

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs until this has ended; whatever else there is stays where it is."""
        asyncio.events._set_running_loop(self)
        try:
            task = self.create_task(work)
            while not task.done():
                self._one()
            return task.result()
        finally:
            asyncio.events._set_running_loop(None)

    def _one(self) -> None:
        """One step of somebody who is alive and awake. What it raises is told as asyncio tells it."""
        ready, timers = self._ready, self._timers
        if not ready or (timers and timers[0][0] <= self.now):
            self._due()
        count = len(ready)
        which = self._chance.randrange(count) if count > 1 else 0
        step = ready[which]
        ready[which] = ready[-1]
        ready.pop()
        if step._cancelled or step.owner in self._dead:
            return
        if step.owner in self._parked:
            self._parked[step.owner].append(step)
            return
        self.steps += 1
        self.choices = (self.choices * 1099511628211 + (count << 16) + which) & _MASK
        if step.owner and self.between is not None:
            self.between(step.owner)
        if step.owner not in self._dead:
            try:
                step._context.run(step._callback, *step._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as problem:  # noqa: BLE001 - as asyncio does
                self.call_exception_handler({"message": repr(step._callback), "exception": problem})
        if self.after is not None:
            self.after()

    def _due(self) -> None:
        """What is due by now is ready; where nothing is, time moves on to what is due next."""
        timers = self._timers
        while not self._ready:
            if not timers:
                raise Deadlock("every task waits for something that nobody will do")
            self.now = max(self.now, timers[0][0])
            while timers and timers[0][0] <= self.now:
                self._ready.append(heapq.heappop(timers)[2])
        while timers and timers[0][0] <= self.now:
            self._ready.append(heapq.heappop(timers)[2])

    # Processes

    def alive(self, owner: str) -> bool:
        return owner not in self._dead

    def kill(self, owner: str) -> None:
        """From here on nothing of this process runs any more."""
        self._dead.add(owner)
        self._parked.pop(owner, None)

    def stall(self, owner: str, seconds: float, then: Callable[[], None] | None = None) -> None:
        """The process does nothing for so long, while time goes on for all others. ``then``: what it does next, in the
        very moment in which it wakes, if it does."""
        if owner in self._dead or owner in self._parked:
            return
        self._parked[owner] = []
        self.stalls.append((owner, self.now, self.now + seconds))
        Context().run(self.call_later, seconds, self._wake, owner, then)

    def stand(self, owner: str, seconds: float) -> None:
        """The same in the middle of a step, which goes on after that, or once who began to stand meanwhile goes on:
        nothing of the process runs beneath it. Raises `Killed` where it does not go on."""
        here, began, over = asyncio.current_task(self), self.now, list[bool]()
        if here is not None:
            asyncio.tasks._leave_task(self, here)
        try:
            if owner not in self._dead:
                self._parked[owner] = []
                Context().run(self.call_later, seconds, over.append, True)
            while not over and owner not in self._dead:
                self._one()
        finally:
            if here is not None:
                asyncio.tasks._enter_task(self, here)
        self.stalls.append((owner, began, self.now))
        if owner not in self._dead:
            self._wake(owner, None)
        if owner in self._dead:
            raise Killed(owner)

    def stalled(self, owner: str) -> bool:
        return owner in self._parked

    def _wake(self, owner: str, then: Callable[[], None] | None) -> None:
        if self.waking is not None:
            self.waking(owner)
        if then is not None and owner not in self._dead:
            then()
        self._ready.extend(self._parked.pop(owner, ()))

    def bury(self) -> None:
        """Lets go of everything at the end of a world; what clean-up runs now finds its ports closed."""
        self._closed = True
        asyncio.events._set_running_loop(self)
        try:
            for _ in range(50):  # clean-up may begin something once more
                tasks = [task for mine in self._tasks.values() for task in mine]
                self._tasks.clear()
                for task in tasks:
                    _let_go(task)
                if not self._tasks:
                    break
                tasks.clear()
        finally:
            asyncio.events._set_running_loop(None)
        self._ready.clear()
        self._timers.clear()


def _let_go(task: "asyncio.Task[Any]") -> None:
    if task.done():
        if not task.cancelled():
            task.exception()
        return
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own, for such ends
    work = task.get_coro()
    for _ in range(50):  # a clean-up that waits once more is ended there as well
        try:
            work.close()
        except RuntimeError:
            continue
        except BaseException:  # noqa: BLE001 - nobody is there to hear it
            return
        return
