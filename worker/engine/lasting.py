"""Takes what lasts out of the garbage collector's way.

After a first look at a partner, its events, facts and memories are some hundred thousand objects that stay for as long
as the process does. A full collection would go through all of them again and again, 50 ms and more with ten thousand
events, in which everything else waits; and it would find nothing, because what is replaced of them is freed at once.

Done once for each partner and rule set, never regularly: what happens to be under way at that moment (a request, its
task) is also kept from the collector, and must not become a leak.
"""

import gc
from collections.abc import Hashable

WORTH_IT = 1_000
"""Events met for the first time; the objects of fewer are gone through in no time."""
AT_MOST_EVERY_S = 60.0
"""Where many partners are looked at for the first time, they share one collection."""


class Lasting:
    """Knows which first looks there were since the last time. Moments are monotonic seconds."""

    def __init__(self) -> None:
        self._looks: set[Hashable] = set()
        self._events = 0
        self._done_at = float("-inf")

    def looked(self, look: Hashable, events: int, now: float) -> bool:
        """After each whole look at so many events; ``look`` is the same for looks of which only the first makes much
        that lasts. Whether anything was done."""
        if look not in self._looks:
            self._looks.add(look)
            self._events += events
        if self._events < WORTH_IT or now - self._done_at < AT_MOST_EVERY_S:
            return False
        self._events, self._done_at = 0, now
        keep()
        return True


def keep() -> None:
    """Collects what is garbage now; all the rest is not gone through any more."""
    gc.collect()
    gc.freeze()
