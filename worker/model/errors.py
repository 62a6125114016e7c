"""The error tree, cut by what was known at that moment and by the exit code it ends in.

::

    WorkerError            what, where, and a hint: what to do now
    |- UsageError          exit 2: wrong usage, config or rule; nothing was started
    |  `- InputErrors      many at once, each with file, line and column
    |- NotFound            exit 1: an id is unknown or in the wrong state; nothing was changed
    |- NotAllowed          somebody is known, and may not do this; nothing was changed
    |- Unreachable         the service does not answer, or not sensibly; it is tried again
    `- NotSafe             exit 3: ledger held, read-only, newer or restored; credentials refused at start
       `- LedgerUnwritable a commit failed (disk full, read-only): nothing may be sent until one succeeds again
          |- SendingUnmarked  ``sending`` was committed, its mark was not: nothing may be sent, the row says sending
          `- LedgerDamaged    it holds a value that cannot have been written: nothing may be sent from it
"""

from dataclasses import dataclass, field
from unicodedata import combining, east_asian_width

from worker.model.findings import CODES, Code
from worker.model.writes import Write

SOURCE_SHOWN_MAX = 120
"""The most characters of a line that are shown with a finding in it."""


class WorkerError(Exception):
    """An error a person reads: ``str()`` says what and where, ``hint`` what to do now. Never carries a secret."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(WorkerError):
    """Wrong usage, config or rule. Nothing was started."""

    exit_code = 2


class NotFound(WorkerError):
    """What was asked about does not exist or is in the wrong state. Nothing was changed."""

    exit_code = 1


class NotAllowed(WorkerError):
    """Somebody is known, and may not do this. Nothing was changed."""


class Unreachable(WorkerError):
    """The service could not be reached or did not answer sensibly. Nothing was done; it is tried again."""


class NotSafe(WorkerError):
    """Not safe to run; nothing was sent."""

    exit_code = 3


class LedgerUnwritable(NotSafe):
    """The ledger could not be written. No ledger, no write: nothing is sent until a commit succeeds again."""


class SendingUnmarked(LedgerUnwritable):
    """``sending`` was committed, but the mark beside the ledger could not be replaced: nothing may be sent.

    ``write`` is the row as it now stands. Its attempt is proven unsent: it goes back to planned at the next commit.
    """

    def __init__(self, message: str, *, write: Write, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.write = write


class LedgerDamaged(LedgerUnwritable, ValueError):
    """The ledger holds a value that nobody can have written: its disk, or somebody's hand, changed it."""


class StateConflict(WorkerError):
    """A row was not in the state that the change expected; somebody else changed it first. Nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding in a text that a person wrote. ``line`` and ``column`` count from 1; 0 where there is none.

    ``source``: the line itself, empty where it must not be shown. ``hint``: what to do now.
    """

    file: str
    line: int = 0
    column: int = 0
    message: str
    hint: str = ""
    severity: str = "error"
    code: Code = "value"
    source: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"{self.code!r} is not a code of a finding")

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: "
        return place + ("" if self.severity == "error" else f"{self.severity}: ") + self.message

    @property
    def lines(self) -> tuple[str, ...]:
        """The finding for a person: what and where, the line with a mark under the place, and the remedy."""
        return (str(self), *self._excerpt(), *((f"    {self.hint}",) if self.hint else ()))

    def _excerpt(self) -> tuple[str, ...]:
        if not self.source.strip() or not self.column:
            return ()
        index = self.column - 1
        begin = max(0, min(index - SOURCE_SHOWN_MAX * 3 // 4, len(self.source) - SOURCE_SHOWN_MAX))
        shown = self.source[begin : begin + SOURCE_SHOWN_MAX]
        before, after = "…" if begin else "", "…" if begin + SOURCE_SHOWN_MAX < len(self.source) else ""
        blank = " " * len(before) + "".join(_blank(one) for one in shown[: index - begin])
        number = str(self.line)
        plain = printable(shown, "\t")
        return (f"  {number} | {before}{plain}{after}", f"  {' ' * len(number)} | {blank}^")


class InputErrors(UsageError):
    """Every mistake of a text at once."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


def _blank(char: str) -> str:
    """What stands under a character so that the mark comes to stand under its own: as wide, and nothing to see."""
    if char == "\t":
        return char
    return "" if combining(char) else "  " if east_asian_width(char) in "WF" else " "


def printable(text: str, keep: str = "\n") -> str:
    """The text without what a terminal would obey, what turns the direction of reading and what cannot be seen; some of
    it was written by the service, or by its users."""
    return "".join(one if one.isprintable() or one in keep else "\ufffd" for one in text)
