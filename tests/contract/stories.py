"""Makes a story a test: it is given a world of its own, and runs in the time of that world's clock."""

from collections.abc import Callable
from typing import Any

from tests.unit.api.world import World
from tests.unit.reading.virtual import VirtualClock, virtually


def stories_in(make: Callable[..., Any]) -> Callable[..., Callable[[Callable[..., Any]], Any]]:
    """The decorator for stories in what is made so; it takes what that is made with."""

    def told(**of: Any) -> Callable[[Callable[..., Any]], Any]:  # noqa: ANN401 - whatever such a world takes
        def one() -> tuple[VirtualClock, tuple[Any, ...]]:
            world = make(**of)
            return world.clock, (world,)

        return virtually(one)

    return told


in_world = stories_in(World)
