"""Facts: what one read said, when it was asked for, and what could not be known.

A fact is `Known` or `Unknown`, never half of both and never a default: a failed, malformed or missing answer is a value
of its own so that nothing can mistake it for "changed" or "cleared". What is *known to be absent* is a value (an event
without a draft has the setup ``{"state": "NONE"}``).
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import repeat
from operator import itemgetter
from types import MappingProxyType
from typing import Literal, TypeAlias, Union

from worker.model.ids import EventId, PartnerId

Json: TypeAlias = Union[bool, int, float, str, "list[Json]", "dict[str, Json]", None]
Scalar: TypeAlias = str | int | float

UnknownCode = Literal["unreadable", "malformed", "gone", "not_computed", "denied", "product_off", "unread"]
"""Why a fact is unknown. ``gone``: a 404 where one is not an answer; ``unread``: nobody has asked yet."""

NO_GAPS: Mapping[str, str] = MappingProxyType({})
"""Nothing is missing; one for all facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactKey:
    """A fact's name with the parameters it was asked with: other parameters are another fact.

    ``params`` is sorted by name and holds resolved values only (``(("budget", 500.0), ("goal", "ROAS"))``).
    """

    name: str
    params: tuple[tuple[str, Scalar], ...] = ()

    def __hash__(self) -> int:
        """Of the name alone, which is quick and nearly always enough: every fact of every look is found by it."""
        return hash(self.name)

    @property
    def text(self) -> str:
        """A stable spelling, used as the key in the ledger: ``suggested_tcs?budget=500.0&goal=ROAS``."""
        if not self.params:
            return self.name
        return self.name + "?" + "&".join(f"{name}={value}" for name, value in self.params)


Place = tuple[EventId, FactKey]
"""A fact of an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Where a fact came from, for the log: path and query asked, status answered, the service's request id.

    ``began`` is when its request began, in monotonic seconds: order and age are judged by it, never by ``read_at``.
    ``full``: a list as long as a page may be, of which nothing says whether there is more.
    """

    get: str
    began: float = 0.0
    status: int | None = None
    x_request_id: str | None = None
    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A well-formed answer.

    ``value`` holds JSON as the service gave it, less documented fields that were missing or ill-typed: those stand in
    ``gaps`` (field to reason), so that a condition that names one meets an error and not a wrong value.
    ``read_at`` is the moment the request *began* (UTC): what happened later may not be in it.
    """

    value: Json
    read_at: datetime
    gaps: Mapping[str, str] = field(default_factory=lambda: NO_GAPS)
    trace: Trace | None = field(default=None, compare=False)


def known_together(
    parts: Sequence[tuple[Json, Mapping[str, str]]], read_at: datetime, trace: Trace | None
) -> list[Known]:
    """A fact of each value and its gaps, all of one answer. A look makes thousands of them, and the constructor of a
    frozen record takes four times as long as these loops in C."""
    facts = list(map(_new, repeat(Known, len(parts))))
    for put, values in (
        (_PUT_VALUE, map(itemgetter(0), parts)),
        (_PUT_GAPS, map(itemgetter(1), parts)),
        (_PUT_READ_AT, repeat(read_at)),
        (_PUT_TRACE, repeat(trace)),
    ):
        deque(map(put, facts, values), maxlen=0)
    return facts


_new = object.__new__
_PUT_VALUE, _PUT_READ_AT, _PUT_GAPS, _PUT_TRACE = (
    getattr(Known, name).__set__ for name in ("value", "read_at", "gaps", "trace")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """No answer that can be used, and why, in words for a person. ``part``: what was read of a list that is not whole:
    it shows what is there, and never what is not."""

    code: UnknownCode
    why: str
    read_at: datetime | None = None
    trace: Trace | None = field(default=None, compare=False)
    part: Json = field(default=None, compare=False)


Fact: TypeAlias = Known | Unknown

UNREAD = Unknown(code="unread", why="not read yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All that is known of one event at one look. ``listed``: false where only single reads still show it."""

    partner: PartnerId
    event: EventId
    facts: Mapping[FactKey, Fact]
    listed: bool = True

    def get(self, key: FactKey) -> Fact:
        """The fact, or `UNREAD`."""
        return self.facts.get(key, UNREAD)
