"""What SIGINT and SIGTERM do before a command is ready for them: the process ends at once, and says nothing.

Loading a command takes a while, and an interrupt in the middle of an import would otherwise be a page of Python. Until
a command runs there is nothing to finish; a signal that is ignored (nohup, a background job) stays ignored. This is
loaded before everything else, so it imports next to nothing.

And what the first process of a container does: it leaves the work to a child, and passes signals on.
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
    for number, as_usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if isinstance(signal.getsignal(number), _End):
            signal.signal(number, as_usual)


def leave_process_1() -> None:
    """Goes on in a child where this is process 1, the first of a container: the kernel spares that one the signals that
    it does not handle, also the one that ends a worker stopped in mid-send. Process 1 passes on what stops a daemon,
    takes in whoever lost its parent, and ends as the child does, by a signal as a shell would say it."""
    if os.getpid() != 1:
        return
    passed = stopping()
    signal.pthread_sigmask(signal.SIG_BLOCK, passed)
    child = os.fork()
    if child:
        for number in passed:
            signal.signal(number, lambda number, _frame: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, passed)
    while child:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
