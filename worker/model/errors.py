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

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from unicodedata import combining, east_asian_width

if TYPE_CHECKING:  # `--help` needs errors, and no shapes of writes
    from worker.model.writes import Write

# What `check` and `test` can find in a file that an operator wrote: one closed list of codes, with what each means.
#
# A script or an editor goes by the code, because words may be said better one day. It names kinds of mistakes and
# nothing that depends on a file.

Code: TypeAlias = str
CODES: Mapping[Code, str] = {
    "file": "a file or folder cannot be read",
    "yaml": "the file is not the YAML that it should be: its form, a key given twice, nesting without end",
    "config": "a key or a value of the config is wrong",
    "key": "a key that does not exist here",
    "missing": "something is missing that must be there",
    "value": "a value of the wrong form, or not one of the few that are possible",
    "duplicate": "an id that two rules have",
    "define": "a name under `define` that cannot be one, or is one already",
    "fact": "a fact that does not exist, or cannot be used so",
    "field": "a field that the fact does not have",
    "action": "an action that does not exist",
    "function": "a function that does not exist, or is written wrongly",
    "syntax": "a condition that cannot be read",
    "type": "values that cannot be compared, combined or used so",
    "integer": "arithmetic of a whole number with a number from the service; CEL does not mix them",
    "presence": "a test of whether a documented field is there, which takes an unknown one for false",
    "path": "a request that a rule must not make by hand, or that the service's document does not have so",
    "relative": "a value that is computed from what its own action writes, and would go on and on",
    "steps": "a condition that takes too many steps where lists are long; a warning if only where they are very long",
    "rule": "a rule that does not exist, or that cannot be named so",
    "event": "an event that the test does not have",
    "reason": "a reason that does not exist",
    "state": "a state that does not exist",
    "answer": "an answer that does not exist",
    "set": "a value that the field does not have by the service's document",
    "constant": "a condition that is always or never true",
    "drift": "a condition that asks how large a change is, and compares with the poll before only",
    "zone": "an hour or a day of the week without its time zone",
    "hours": "hours of a rule that may be taken for those in which something runs, or into which no time of it falls",
    "days": "a time of `at` on a day of the month or of the week, where both may be meant",
    "own_write": "a condition that looks at what its own rule writes",
    "zero": "a division by what may be 0",
    "conflict": "two rules that can want opposite things of one target, or one that enforces both",
    "ping_pong": "two rules that watch what the other writes, and may start each other without end",
    "cost": "a fact that costs a request for every event, with nothing to narrow it",
    "budget": "the rules need more requests than the request quota gives in good time",
    "parameter": "a parameter that no fact of the rule takes",
    "untested": "a rule that no rule test reaches",
    "ending": "a file that is not read for its name's ending",
    "empty": "a folder or file without any rule",
    "exposed": "files of the ledger that other users of the machine may read",
    "network_disk": "a ledger on a network file system",
}
"""Each code, and what it stands for. From ``set`` on they are warnings, as ``unused`` is."""

SOURCE_SHOWN_MAX = 120
"""The most characters of a line that are shown with a finding in it."""


class WorkerError(Exception):
    """An error an operator reads: ``str()`` says what and where, ``hint`` what to do now. Never carries a secret."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(WorkerError):
    """Wrong usage, config or rule. Nothing was started."""

    exit_code = 2


class NotFound(WorkerError):
    """What was asked about does not exist or is in the wrong state. Nothing was changed."""


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

    def __init__(self, message: str, *, write: "Write", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.write = write


class LedgerDamaged(LedgerUnwritable, ValueError):
    """The ledger holds a value that nobody can have written: its disk, or somebody's hand, changed it."""


class StateConflict(WorkerError):
    """A row was not in the state that the change expected; somebody else changed it first. Nothing was changed."""


class OwnershipLost(StateConflict):
    """In a fleet: the partner belongs to another replica, or to nobody. Nothing was changed, and nothing more is to be
    done for it here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding in a text that an operator wrote. ``line`` and ``column`` count from 1; 0 where there is none.

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
        """The finding for an operator: what and where, the line with a mark under the place, and the remedy."""
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


def shortened(text: str, most: int) -> str:
    """The text, cut where it is longer than that many letters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def printable(text: str, keep: str = "\n") -> str:
    """The text without what a terminal would obey, what turns the direction of reading and what cannot be seen; some of
    it was written by the service, or by its users."""
    return "".join(one if one.isprintable() or one in keep else "\ufffd" for one in text)
