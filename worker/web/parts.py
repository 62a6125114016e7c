"""What the page is built from: the ledger's reading side, and ports for everything that it may not do itself.

Deciding goes through `Decisions`, because only the wiring may open the ledger for writing; the rules in force are asked
of the daemon through a function, and so is the sign of life of its loop. The page cannot reach the service: nothing in
here could.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from worker.ledger.browsing import LedgerBrowser
from worker.model.errors import WorkerError
from worker.model.exchange import Clock
from worker.model.rules import RuleSet
from worker.web.door import Keys
from worker.web.ruletext import RulesShown


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An operator's word: why, who it was, and the most that a write may spend which this operator approves; None: any
    amount."""

    because: str
    by: str
    up_to: float | None = None


class NotAllowed(WorkerError):
    """Somebody is known, and may not do this."""


class Decisions(Protocol):
    """An operator's decisions, as the commands make them. Each returns what it did in words, or raises `WorkerError`
    with nothing changed."""

    def approve(self, ids: Sequence[int], said: Said) -> tuple[str, ...]: ...
    def reject(self, ids: Sequence[int], said: Said) -> tuple[str, ...]: ...
    def resolve(self, ids: Sequence[int], said: Said, *, applied: bool) -> tuple[str, ...]: ...
    def waiting_of(self, rule: str, *, up_to: int) -> tuple[int, ...]:
        """The waiting writes of a rule whose number is not above ``up_to``: what a person has seen, and no more."""
        ...

    def halt(self, said: Said, *, partner: str, rule: str, lasting: timedelta | None) -> tuple[str, ...]:
        """An empty partner or rule means every one."""
        ...

    def resume(self, said: Said, *, partner: str, rule: str) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The answer to a scrape."""

    body: bytes
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts:
    """``rules`` are the texts of those ``in_force``. ``entropy`` draws a secret text. ``silence`` tells for how long,
    in seconds, the daemon's loop has not moved. ``interval`` is the time between two looks. ``measured`` answers
    Prometheus. ``amiss`` says, as `status` does, what is wrong with the ledger as it lies there; None where nothing
    is. ``keys`` are those of now; ``refused`` is told of each wrong sign-in: from where, as whom, how manieth."""

    ledger: LedgerBrowser
    decisions: Decisions
    rules: Callable[[], RulesShown]
    in_force: Callable[[], RuleSet]
    clock: Clock
    entropy: Callable[[], str]
    silence: Callable[[], float]
    interval: timedelta
    measured: Callable[[], Measured]
    amiss: Callable[[], str | None]
    keys: Callable[[], Keys] = Keys
    refused: Callable[[str, str, int], None] = lambda _place, _name, _count: None
