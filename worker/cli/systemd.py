"""Tells systemd how the daemon is: started, alive, stopping. A few lines to a socket, and nothing where there is none.

``READY=1`` says that the ledger is held and open, so that what waits for this unit may start; it does not wait for the
service, which is tried on while it cannot be reached. ``WATCHDOG=1`` comes with the beats of the daemon's own loop: a
loop that stands is started anew by the service manager, which is always safe.
"""

import os
import socket
from collections.abc import Mapping

SOCKET_ENV = "NOTIFY_SOCKET"


class Supervisor:
    """The service manager, as the environment names it; deaf where it names none."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get(SOCKET_ENV, "")
        self._address = "\0" + address[1:] if address.startswith("@") else address

    @property
    def listening(self) -> bool:
        """Somebody wants to be told."""
        return bool(self._address)

    def ready(self) -> None:
        """The daemon holds its ledger and begins to look."""
        self.tell("READY=1\nSTATUS=watching")

    def alive(self) -> None:
        """The loop moves."""
        self.tell("WATCHDOG=1")

    def stopping(self) -> None:
        """What is in flight is awaited; nothing new begins."""
        self.tell("STOPPING=1\nSTATUS=awaiting what is in flight")

    def tell(self, words: str) -> None:
        """Sends, and goes on if nobody takes it: a supervisor that is gone is no reason to stop."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
                line.sendto(words.encode(), socket.MSG_DONTWAIT, self._address)
        except OSError:
            return
