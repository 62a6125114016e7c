"""A clock that tests own: it stands still until everything waits, and then goes to the next wake-up."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from functools import wraps
from inspect import Signature, signature
from typing import Any, TypeVar

from tests.virtual import VirtualLoop, run_virtually

T = TypeVar("T")

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)


class VirtualClock:
    """Time from zero, moved by ``run`` only."""

    def __init__(self) -> None:
        self._at = 0.0
        self._loop: VirtualLoop | None = None

    @property
    def seconds(self) -> float:
        return self._at if self._loop is None else self._loop.time()

    @seconds.setter
    def seconds(self, at: float) -> None:
        if self._loop is None:
            self._at = at
        else:
            self._loop.put_back(at)

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))

    def run(self, story: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end in virtual time. A wait that nothing will end is an error."""
        self._loop = VirtualLoop()
        self._loop.put_back(self._at)
        try:
            return run_virtually(self._loop, story)
        finally:
            self._at = self._loop.time()
            self._loop.close()
            self._loop = None


def virtually(make: Callable[[], tuple[VirtualClock, tuple[Any, ...]]]) -> Callable[[Callable[..., Any]], Any]:
    """Makes a story a test, which runs in the time of a clock; ``make``: that clock, and what the story is given."""

    def made(story: Callable[..., Any]) -> Callable[..., None]:
        @wraps(story)
        def test(**cases: Any) -> None:  # noqa: ANN401 - what a table has
            clock, given = make()
            clock.run(story(*given, **cases))

        left = [one.replace(kind=one.KEYWORD_ONLY) for one in signature(story).parameters.values()]
        test.__signature__ = Signature(left[len(make()[1]) :])  # type: ignore[attr-defined] # what pytest is to give it
        return test

    return made


def stories_in(make: Callable[..., Any]) -> Callable[..., Callable[[Callable[..., Any]], Any]]:
    """The decorator for stories in what is made so and has a clock; it takes what that is made with."""

    def told(**of: Any) -> Callable[[Callable[..., Any]], Any]:  # noqa: ANN401 - whatever such a world takes
        def one() -> tuple[VirtualClock, tuple[Any, ...]]:
            world = make(**of)
            return world.clock, (world,)

        return virtually(one)

    return told


def no_chance() -> float:
    """The least that could be drawn."""
    return 0.0
