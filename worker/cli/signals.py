"""What SIGINT and SIGTERM do before a command is ready for them: the process ends at once, and says nothing.

Loading a command takes a while, and an interrupt in the middle of an import would otherwise be a page of Python. Until
a command runs there is nothing to finish; a signal that is ignored (nohup, a background job) stays ignored. This is
loaded before everything else, so it imports next to nothing.
"""

import os
import signal

BOTH = (signal.SIGINT, signal.SIGTERM)


def stopping() -> tuple[signal.Signals, ...]:
    """What stops a daemon cleanly: both, and SIGHUP, which comes of a terminal that is closed and of who takes it for a
    reload. Left to itself it would end the process in mid-send. Not where it is ignored, as under nohup."""
    return BOTH if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*BOTH, signal.SIGHUP)


class _End:
    """Ends the process at once with a code: its own, or what a shell makes of the signal."""

    def __init__(self, code: int | None) -> None:
        self._code = code

    def __call__(self, number: int, _frame: object) -> None:
        os._exit(128 + number if self._code is None else self._code)


def end_at_once(code: int | None = None) -> None:
    """From now on either signal ends the process at once, with this code or by default with 130 and 143."""
    for number in BOTH:
        if isinstance(found := signal.getsignal(number), _End) or found in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _End(code))


def usual() -> None:
    """Takes `end_at_once` back: an interrupt is Python's again, and a command can clean up after itself."""
    if isinstance(signal.getsignal(signal.SIGINT), _End):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if isinstance(signal.getsignal(signal.SIGTERM), _End):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
