"""The embedded twin of the service, for the commands that are to work without one.

A module of its own, imported where a config asks for the twin: it is a whole service with a web server, and a daemon
that works on the real one need not have either in its memory.
"""

from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from worker.sandbox.server import Address, Time, serving
from worker.sandbox.service import Service
from worker.sandbox.start import built
from worker.system import SystemClock

NOWHERE = Address(port=0)
"""Where the embedded twin of another process is: requests can be spelled, and nobody answers."""
FIRST_EVENT_IN = timedelta(days=30)
"""When the embedded sandbox's first event takes place, from today."""


def embedded(clock: SystemClock) -> AbstractAsyncContextManager[Address]:
    """A new twin on a free loopback port while the block lasts."""
    return twin_served(built(None, None, clock.now() + FIRST_EVENT_IN), clock)


def twin_served(twin: Service, clock: SystemClock) -> AbstractAsyncContextManager[Address]:
    """The twin on a free loopback port while the block lasts."""
    return serving(twin, time=Time(clock=clock.monotonic, sleep=clock.sleep))
