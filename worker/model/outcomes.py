"""What one attempt told us: four outcomes, and no exception.

A write never raises. What is not proven harmless is `Uncertain`: a 429, a 5xx or a broken connection may hide an effect
(API section 8), so only a failure before the first byte, or a refusal of our credentials, counts as not sent.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeAlias


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
    why: str = ""


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
