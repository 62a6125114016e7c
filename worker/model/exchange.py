"""What passes between the engine and the world: the clock, listings, requests, who goes first, whose a partner is.

These shapes stand in the model because the client, the pacing and the engine all speak of them, and those layers must
not know each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from types import MappingProxyType
from typing import Final, Literal, Protocol, TypeAlias

from worker.model.facts import EventId, Json, Known, PartnerId, UnknownCode


class Clock(Protocol):
    """Time and sleep. ``monotonic`` (seconds) decides order and age; ``now`` (aware UTC) is for people and memory."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class SecretValue:
    """A password or token in the clear. It never shows itself: ``reveal`` is the only way to it, and is called where a
    request is made and nowhere else."""

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """The secret itself."""
        return self._text

    def __str__(self) -> str:
        return "(secret)"


class Urgency(IntEnum):
    """Who goes first when the budget is short. ``STOPPING``: the pre-flight of a write that only stops spending, or of
    one that was proved absent and is sent again."""

    WRITE = 0
    EVIDENCE = 1
    STOPPING = 2
    PREFLIGHT = 3
    LISTING = 4
    FACT = 5


class Places(Protocol):
    """Room in a partner's budget, kept for requests that must leave together: a pre-flight and its write."""

    async def take(self, *, by: float | None = None) -> bool:
        """Waits until a request may leave on one of them, and counts it; False where none may. ``by``: the monotonic
        second by which the write must leave, because its facts grow old."""

    def give_back(self) -> None:
        """What was not needed is there for others again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One pass over ``GET /events/``. Well-formed items of any page are facts; absence needs ``complete``.

    ``code``: what kind of failure it was where a page could not be had at all; ``why`` says everything in words.
    ``pages``: how many requests the list takes; ``left``: how many of them are still to come.
    """

    events: Mapping[EventId, Known]
    complete: bool
    why: str = ""
    code: UnknownCode | None = None
    pages: int = 1
    left: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """One request to be sent, with its secrets left out: headers are added by the client. ``host`` is api or cr."""

    host: str
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """``data.state`` of a task read: ``running`` for anything that is neither in task.succeeded nor task.failed."""

    state: str
    verdict: Literal["succeeded", "failed", "running", "unreadable"]


# What one attempt told us: four outcomes, and no exception.
#
# A write never raises. What is not proven harmless is `Uncertain`: a 429, a 5xx or a broken connection may hide an
# effect (API section 8), so only a failure before the first byte, or a refusal of our credentials, counts as not sent.


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The part of an answer that the log keeps. ``retry_after`` is what the header asked for, if it could be read."""

    status: int
    x_request_id: str | None = None
    retry_after: timedelta | None = None
    took_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """2xx: the service took the write. Whether it took effect is shown by reading. ``why``: in words, where it was no
    service that took it."""

    answer: Answered
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The service said no (400, 404, 405, 410, 413, 415, 422): nothing happened, nothing will."""

    answer: Answered
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSent:
    """Proven not to have happened. ``denied``: 401 or 403; ``connect``: no byte left; ``stale``: the process slept
    between recording and sending for longer than the time-out, and did not send; ``ledger``: the attempt could not be
    recorded to the end, so it was not made. ``accepted_ago``: of a token that was refused, how long before this attempt
    the service had last accepted it; None where it never had."""

    cause: Literal["connect", "denied", "stale", "ledger"]
    why: str
    answer: Answered | None = None
    accepted_ago: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertain:
    """Sent, and nobody knows: an answer that may hide an effect, or no whole answer at all."""

    why: str
    answer: Answered | None = None


Outcome: TypeAlias = Accepted | Refused | NotSent | Uncertain


# Workers that share one ledger: who lives, and whose each partner is.

LEASE: Final = timedelta(seconds=5)
"""A replica that was not heard of for so long may be gone; its partners are anybody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The replica whose a partner is, None for nobody's, and how often that has changed. ``known``: it is stored who
    the partner is by the service's word."""

    replica: str | None = None
    epoch: int = 0
    known: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Which replicas live, and whose each partner is that ever had an owner, at one moment ``at`` of the server's
    clock. ``alike``: who of them is told of the same partners as the one that asks."""

    at: datetime
    alive: frozenset[str]
    alike: frozenset[str]
    owners: Mapping[PartnerId, Owner]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A partner that is ours now. ``goodbye``: its owner before, if it had one, had given it back. ``pace``: what that
    one left of its pace, so long ``ago``."""

    goodbye: bool
    pace: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    ago: timedelta = timedelta(0)
