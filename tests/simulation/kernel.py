"""What the kernel beneath a simulated process does by itself: it keeps bytes that were handed over, and ends processes.

What it was told about a connection is read off a real socket that the worker has prepared, so that nothing is claimed
here that no real one would do.
"""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

from tests.simulation.loop import OWNER, SimLoop
from worker.api import transport as connection
from worker.sandbox.settings import Delivery

MILLI = 1000.0
KEPT_S = 5.0
"""So long a connection that may be kept is kept after its last answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """What a write's connection was made with. ``discards``: what is not delivered when it is closed is thrown away;
    ``gives_up_s``: so long packets that nobody acknowledges are sent anew, None: for longer than a world lasts."""

    discards: bool
    gives_up_s: float | None


@dataclass(slots=True, kw_only=True)
class Kept:
    """A connection: when it was made, and used last. ``again``: an answer that came twice on it."""

    made_s: float
    used_s: float
    again: Delivery | None = None


def socket_of(timeout_s: float) -> Socket:
    """The connections that the worker hands its writes over to."""
    return _socket_of(timeout_s, connection._discard.__code__)


@lru_cache(maxsize=20)
def _socket_of(timeout_s: float, _code: CodeType) -> Socket:
    with socket.socket() as prepared:
        connection._discard(prepared, timeout_s)
        linger = struct.unpack("ii", prepared.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))
        gives_up = prepared.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    return Socket(discards=bool(linger[0]) and linger[1] == 0, gives_up_s=gives_up / MILLI if gives_up else None)


class Timers:
    """The kernel's timers: one that has run out while its process was stopped ends it when it wakes."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._runs_out_s: dict[str, float] = {}

    @contextmanager
    def fence(self) -> Iterator[None]:
        """What a write's bytes are handed over in."""
        owner = OWNER.get()
        self._runs_out_s[owner] = self._loop.now + connection.WINDOW_S
        try:
            yield
        finally:
            self._runs_out_s.pop(owner, None)

    def ran_out(self, owner: str) -> bool:
        """Whether the process has a signal that ends it, and is not ended yet only because it is stopped."""
        return self._runs_out_s.pop(owner, self._loop.now) < self._loop.now
