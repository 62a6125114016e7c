"""What the ledger keeps so that people can ask afterwards: evaluations by their ending, and observed facts.

Nothing here decides anything. An evaluation is kept once for each ending, so that a thousand dull ones never push out
the one that matters. Of the facts only changes are kept: what each fact is, and what it was before every change.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from worker.model.facts import Fact, FactKey, Json
from worker.model.ids import EventId, PartnerId, RuleId

Ending = Literal["fired", "held", "true", "false", "unknown"]
"""How an evaluation ended. ``held``: it would have fired; ``true``: true, and nothing to do (it has fired, or nothing
that it watches has changed)."""
ENDINGS: Mapping[Ending, str] = {
    "fired": "the rule fired",
    "held": "the rule would have fired, and something held it",
    "true": "the condition is true and nothing is to be done: it has fired already, or nothing that it watches changed",
    "false": "the condition is not true",
    "unknown": "the condition cannot be told",
}
SILENCE = FactKey(name="#silence")
"""Not a fact of the service: since when no complete list had been had, where that was long. Its event is empty."""
MEMORY = FactKey(name="#memory")
"""Not a fact of the service: the partner's memory of silences, resets and events out of sight. Its event is empty."""
OF_PARTNER = EventId("")
"""The event of what belongs to the whole partner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFact:
    """A fact as a condition saw it: of a record only the fields that the rule names."""

    key: FactKey
    fact: Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One evaluation of a (partner, event, rule): how it ended, and everything that decided.

    ``at``: when its values last changed; ``since``: when this ending, with this reason, began. ``reason``, ``why`` and
    ``until`` say what holds it. ``facts``: by name, what the rule names; ``extra``: previous, added and removed.
    """

    partner: PartnerId
    event: EventId
    rule: RuleId
    ending: Ending
    when_hash: str
    at: datetime
    since: datetime
    episode: int = 0
    reason: str | None = None
    why: str = ""
    until: datetime | None = None
    facts: Mapping[str, SeenFact] = field(default_factory=dict)
    extra: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A fact as it stands since ``at``. ``event`` is `OF_PARTNER` for facts of the whole partner."""

    event: EventId
    key: FactKey
    fact: Fact
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A fact that is another one from ``now.at`` on. ``before`` is None where it had never been seen."""

    now: Observed
    before: Fact | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """What one look leaves behind, beside its decision. ``texts``: conditions by their hash, for evaluations that name
    it. ``forget``: changes of facts from before this moment are dropped."""

    partner: PartnerId
    evaluations: tuple[Evaluation, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    forget: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The observed facts of a partner over a time. ``begins``: when it begins, None where nothing is recorded;
    ``start``: how the facts were then; ``changes``: each fact as it was from a moment on, oldest first, to be gone
    through once."""

    begins: datetime | None
    start: tuple[Observed, ...]
    changes: Iterator[Observed]
