"""What the engine is told once at start: the config's numbers in the shapes that the core understands."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from worker.engine.looks import Settings
from worker.guards.situation import Limits
from worker.model.ids import PartnerId
from worker.model.rules import Rule
from worker.model.writes import Write
from worker.rules.registry import BUILT_IN_REGISTRY
from worker.writes.intents import reads_back
from worker.writes.life import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Numbers and switches of one daemon.

    ``unvouched``: by action, the assumptions it leans on that nobody vouched for; ``unvouched_facts``: those by fact,
    which a rule leans on that decides with it. Both are empty against sandbox and loopback.
    ``toggles``: actions whose write flips the field instead of setting it. ``ask_spending``: unknown outcomes of writes
    that spend go to a person at once, because ``safety.settle`` is not vouched for. ``requests_per_minute``: the budget
    per partner, from which it is estimated how often facts can be read. ``page_size``: events on one page of the list;
    ``by_change``: most looks ask only for what changed of it.
    ``shared``: the facts that are the whole partner's, the config's own among them; one read serves all events.
    ``observations_kept``: how long changes of facts are kept for `backtest`. ``pairs_at_once``: a look that has more
    rules to judge for events than this lets everything else go on between portions of so many.
    """

    deciding: Settings
    limits: Limits
    interval: timedelta
    timeout: timedelta
    stop_within: timedelta
    settle: timedelta
    evidence_reads: int
    evidence_within: timedelta
    confirm_within: timedelta
    max_attempts: int
    ask: bool = False
    ask_spending: bool = False
    toggles: frozenset[str] = frozenset()
    unvouched: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unvouched_facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    requests_per_minute: int = 300
    page_size: int = 100
    by_change: bool = False
    only_partners: frozenset[PartnerId] | None = None
    shared: frozenset[str] = BUILT_IN_REGISTRY.shared
    observations_kept: timedelta = timedelta(days=7)
    pairs_at_once: int = 2_000

    def pages(self, events: int) -> int:
        """How many pages a list of so many events has."""
        return max(1, -(-events // self.page_size))


def unvouched_for(action: str, rule: Rule | None, settings: EngineSettings) -> tuple[str, ...]:
    """What a write leans on that nobody vouched for: by how it is sent and read back, and by the facts that its rule
    decides with. An undo has no rule."""
    found = dict.fromkeys(settings.unvouched.get(action, ()))
    for name in sorted(rule.names) if rule is not None else ():
        found |= dict.fromkeys(settings.unvouched_facts.get(name, ()))
    return tuple(found)


def policy_for(write: Write, rule: Rule | None, settings: EngineSettings) -> Policy:
    """How this write is settled: the config's numbers, stricter where its rule or its kind asks for it."""
    return Policy(
        settle=settings.settle,
        evidence_reads=settings.evidence_reads,
        evidence_within=settings.evidence_within,
        confirm_within=settings.confirm_within,
        max_attempts=settings.max_attempts,
        interval=settings.interval,
        ask=settings.ask
        or (rule is not None and rule.on_unknown == "ask")
        or (settings.ask_spending and write.intent.spends),
        toggle=write.intent.action in settings.toggles,
        reads_back=reads_back(write.intent, write.key.item),
    )
