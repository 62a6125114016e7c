"""A proxy between a client and a server, on a port of its own, that can go wrong as networks do."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress


class Link:
    """``silent``: it takes what it is given, and says nothing more. ``stopped``: it takes nothing either, and only the
    kernel acknowledges, until its buffers are full. ``cut``: it ends what there is, and whatever comes. ``to`` makes a
    connection to the server."""

    def __init__(self, to: Callable[[], socket.socket]) -> None:
        self.silent, self.stopped, self.is_cut = threading.Event(), threading.Event(), threading.Event()
        self._to = to
        self._open: list[socket.socket] = []
        self._listens = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listens.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Ends every connection; `is_cut` is cleared to mend it."""
        self.is_cut.set()
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        self._listens.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listens.accept()
                try:
                    far = self._to()
                except OSError:
                    near.close()
                    continue
                if self.is_cut.is_set():
                    near.close()
                    far.close()
                    continue
                self._open += [near, far]
                for one, other, back in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._pass, args=(one, other, back), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, back: bool) -> None:
        with suppress(OSError), one:
            while said := one.recv(65536):
                if self.stopped.is_set():
                    threading.Event().wait(20)
                if not (back and self.silent.is_set()):
                    other.sendall(said)
            other.shutdown(socket.SHUT_RDWR)


def tcp(host: str, port: int) -> Callable[[], socket.socket]:
    return lambda: socket.create_connection((host, port), timeout=None)


def unix(path: str) -> Callable[[], socket.socket]:
    def connected() -> socket.socket:
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(path)
        except OSError:
            far.close()
            raise
        return far

    return connected
