"""Log lines: structlog, for an operator on a terminal and as JSON otherwise, always on stderr.

Messages are constant and keys known, so that lines can be searched: one canonical line per cycle and one per change of
a write, made from the record that was stored. Values come from facts and records, which hold no secret.
"""

import atexit
import logging
import os
import re
import sys
from contextlib import suppress
from io import TextIOBase
from queue import SimpleQueue
from threading import RLock, Thread
from typing import TextIO, cast

import structlog
from structlog import ReturnLogger, wrap_logger
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from worker.model.commits import MESSAGE, Record
from worker.model.errors import printable

QUIET_KINDS = frozenset({"evidence", "observed", "held"})
"""Kinds told at debug level on a terminal: the action log has them all."""
LOUD_KINDS = frozenset({"needs_human", "waiting", "unconfirmed", "rules_refused"})
"""Kinds told as a warning."""
LEVELS = {"warning": logging.WARNING, "error": logging.ERROR, "critical": logging.CRITICAL}
_LEVEL = re.compile(r"(?:[^:]*: |.*?:\d+: )?\w*(warning|error|critical):", re.IGNORECASE)
"""How a line begins that says its own level, as ours and those of libraries do: perhaps with a place."""
WAITING_MAX = 10_000
"""So many writes to a stalled stderr are kept, some megabytes; later ones are dropped and counted."""
END_WITHIN_S = 1.0
"""So long the end of the process waits for who reads its log."""


class Unhurried(TextIOBase):
    """A stream that nobody waits for: its reader may stall or go away, and its disk may fill up. A thread hands on what
    is written; what finds too much waiting is dropped, and a line says how much once it flows again.

    The thread writes past Python's own stream, whose lock it would hold for as long as its reader stalls: then the
    process could not end. The queue is one that may be written to in the middle of a write, as by a finalizer.
    """

    def __init__(self, stream: TextIO, file: int) -> None:
        stream.flush()
        self._tty, self._encoding, self._file = stream.isatty(), stream.encoding, file
        self._waiting: SimpleQueue[str | None] = SimpleQueue()
        self._dropped = 0
        self._lock = RLock()
        self._thread = Thread(target=self._hand_on, name="log", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def write(self, text: str) -> int:
        """Never waits, never raises."""
        with self._lock:
            if self._waiting.qsize() >= (WAITING_MAX // 2 if self._dropped else WAITING_MAX):
                self._dropped += 1
                return len(text)
            if self._dropped:
                lost, self._dropped = self._dropped, 0
                self._waiting.put(f"{wrap_logger(ReturnLogger()).warning('log_lines_dropped', lines=lost)}\n")
            self._waiting.put(text)
        return len(text)

    def isatty(self) -> bool:
        """Whether an operator reads it."""
        return self._tty

    def fileno(self) -> int:
        """The file behind it."""
        return self._file

    def writable(self) -> bool:
        """Always."""
        return True

    def _hand_on(self) -> None:
        while (text := self._waiting.get()) is not None:
            left = text.encode(self._encoding, "backslashreplace")
            with suppress(OSError):
                while left:
                    left = left[os.write(self._file, left) :]

    def _end(self) -> None:
        """What is waiting has a moment to be read; the process ends all the same."""
        self._waiting.put(None)
        self._thread.join(END_WITHIN_S)


class Worded(TextIOBase):
    """Stderr for all that is not the log's own, where a program reads it: a library's warning, a traceback, a word for
    an operator. Each line becomes a line of the log, so that the stream is JSON to its end. ``level``: of a line that
    does not say its own; an indented one has that of the line above it."""

    def __init__(self, beneath: TextIO) -> None:
        self.level = self._last = logging.INFO
        self._beneath, self._begun = beneath, ""

    def write(self, text: str) -> int:
        """Keeps what has no end yet."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in filter(str.strip, lines):
            if not line.startswith(" "):
                found = _LEVEL.match(line)
                self._last = self.level if found is None else LEVELS[found[1].lower()]
            logger().log(self._last, "said", text=line)
        return len(text)

    def fileno(self) -> int:
        """The file behind it."""
        return self._beneath.fileno()

    def writable(self) -> bool:
        """Always."""
        return True


def configure(*, verbose: bool = False, telling: bool = False) -> None:
    """Sets up logging for this process, once, at the start of a command. All that goes to stderr, a library's warning
    and a traceback too, goes through one door from then on, which keeps nobody waiting. ``telling``: what a command
    prints there is for an operator, whatever it goes to."""
    stream = sys.stderr
    with suppress(OSError):  # no file is behind it, as in a test
        if not isinstance(stream, Unhurried):
            stream = sys.stderr = cast("TextIO", Unhurried(stream, stream.fileno()))
    if not telling and not stream.isatty() and isinstance(stream, Unhurried):
        sys.stderr = cast("TextIO", Worded(sys.stderr))
    level = logging.DEBUG if verbose else logging.INFO
    if stream.isatty():
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        tail: list[Processor] = [_printable, structlog.dev.ConsoleRenderer(colors=not plain)]
    else:
        tail = [structlog.processors.JSONRenderer(ensure_ascii=False)]
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True), *tail],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, force=True)
    logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)  # a cycle that is late shows in its took_ms


def _printable(_log: object, _level: str, keys: EventDict) -> EventDict:
    """Without what a terminal would obey: an id or a reason may be the service's own text."""
    return {name: printable(one) if isinstance(one, str) else one for name, one in keys.items()}


def logger() -> FilteringBoundLogger:
    """The logger of this process."""
    log: FilteringBoundLogger = structlog.get_logger()
    return log


def tell(record: Record) -> None:
    """One line for one record of the action log."""
    keys: dict[str, object] = {
        "kind": record.kind,
        "reason": record.reason,
        "partner": record.partner,
        "event_id": record.event,
        "rule": record.rule,
        "write": record.write,
        "attempt": record.attempt,
        "action": record.action,
        "why": record.why,
        **{name: (record.response or {}).get(name) for name in ("status", "x_request_id")},
    }
    log = logger()
    say = log.debug if record.kind in QUIET_KINDS else log.info
    given = record.action == MESSAGE and record.kind == "confirmed"
    if given or record.kind in LOUD_KINDS or record.reason == "moved":
        say = log.warning
    say("message" if given else "recorded", **{name: value for name, value in keys.items() if value not in (None, "")})
