"""Log lines: structlog, for a person on a terminal and as JSON otherwise, always on stderr.

Messages are constant and keys known, so that lines can be searched: one canonical line per cycle and one per change of
a write, made from the record that was stored. Values come from facts and records, which hold no secret.
"""

import logging
import sys
from contextlib import suppress
from io import TextIOBase
from typing import TextIO, cast

import structlog
from structlog.typing import FilteringBoundLogger, Processor

from worker.model.records import Record

QUIET_KINDS = frozenset({"evidence", "observed", "held"})
"""Kinds told at debug level on a terminal: the action log has them all."""


class _Lasting(TextIOBase):
    """A stream whose reader may go away, or whose disk may fill up: a line that cannot be written stops no work."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes what can be written."""
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """As far as it goes."""
        with suppress(OSError, ValueError):
            self._stream.flush()


def configure(*, verbose: bool = False, stream: TextIO | None = None) -> None:
    """Sets up logging for this process, once, at the start of a command."""
    stream = stream or sys.stderr
    level = logging.DEBUG if verbose else logging.INFO
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    lasting = cast("TextIO", _Lasting(stream))
    if stream.isatty():
        tail: list[Processor] = [structlog.dev.ConsoleRenderer()]
    else:
        tail = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
    structlog.configure(
        processors=[*shared, *tail],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=lasting),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.WARNING, stream=lasting, force=True)
    logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)  # a cycle that is late shows in its took_ms


def logger() -> FilteringBoundLogger:
    """The logger of this process."""
    log: FilteringBoundLogger = structlog.get_logger()
    return log


def tell(record: Record) -> None:
    """One line for one record of the action log."""
    log = logger()
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
    }
    if record.response is not None:
        keys["status"] = record.response.get("status")
        keys["x_request_id"] = record.response.get("x_request_id")
    shown = {name: value for name, value in keys.items() if value not in (None, "")}
    if record.kind in ("needs_human", "waiting", "unconfirmed", "rules_refused") or record.reason == "moved":
        log.warning("recorded", **shown)
    elif record.kind in QUIET_KINDS:
        log.debug("recorded", **shown)
    else:
        log.info("recorded", **shown)
