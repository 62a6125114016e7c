"""How many requests a minute a rule set asks of a partner's budget, told by `check` before anything runs.

The list of events is read every cycle, facts of the partner at the pace that rules name them, and what is left of the
budget goes to facts that cost a request per event (`worker.reading.plan`). How many events pass the parts of a
condition that cost nothing cannot be known here: the estimate takes all of them, and says so. What the budget does not
give is not lost, only later: the daemon reads in rotation. It is pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from worker.engine.needs import names_read
from worker.engine.observe import PARTNER_FACTS_EVERY
from worker.engine.settings import EngineSettings
from worker.model.facts import Json
from worker.model.ids import RuleId
from worker.model.rules import Rule
from worker.reading.plan import facts_per_look, look_s
from worker.rules.durations import duration_text
from worker.rules.narrowing import narrowed
from worker.rules.parameters import lacks_defaults
from worker.rules.registry import Registry

EVENTS = 200
"""How many events a partner is taken to have where nobody says."""
SLOW = timedelta(minutes=10)
"""A fact that is read less often than this is worth a warning."""
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One resource of each event: the fact with the parameters that rules give, and the rules that want it.

    ``narrowed``: no rule wants it of every event.
    """

    fact: str
    rules: tuple[RuleId, ...]
    narrowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Requests a minute for one partner with so many events. ``budget`` is what there is.

    ``round``: how long it takes at most to read every fact of every event once; None where no rule needs one.
    ``unspared``: the same for the facts that nothing narrows.
    """

    events: int
    pages: int
    by_change: bool
    interval: timedelta
    budget: int
    listing: float
    shared: float
    of_each: float
    reads: tuple[Read, ...]
    round: timedelta | None
    unspared: timedelta | None

    @property
    def needed(self) -> float:
        """All of it, if every event passed everything that narrows."""
        return self.listing + self.shared + len(self.reads) * self.of_each

    @property
    def lines(self) -> tuple[str, ...]:
        """The estimate for a person, with how it was made."""
        every = duration_text(self.interval)
        head = (
            f"requests a minute and partner, taken that it has {self.events} events (--events N) and all of them pass "
            f"what narrows a fact: {self.needed:.0f} wanted, {self.budget} in the budget"
        )
        of_it = "what changed of " if self.by_change else ""
        found = [head, f"{self.listing:8.0f}  {of_it}the list of events: {_counted(self.pages, 'page')} every {every}"]
        found.append(f"{self.shared:8.0f}  facts of the partner")
        for one in self.reads:
            tail = "narrowed by the rest of the condition" if one.narrowed else "of every event"
            found.append(f"{self.of_each:8.0f}  {one.fact}, {tail}: {', '.join(one.rules)}")
        if self.round is not None and self.needed > self.budget:
            found.append(
                f"          more than there is: facts are read in rotation, each once in {duration_text(self.round)}; "
                f"a change is seen after {duration_text(self.round / 2)} on average, sooner where changes are frequent"
            )
        return tuple(found)

    @property
    def warnings(self) -> tuple[tuple[str, str], ...]:
        """What is too slow to be meant so, each with what to do."""
        found: list[tuple[str, str]] = []
        if self.listing + self.shared > self.budget:
            message = (
                f"the list of {self.events} events and the partner's facts alone take {self.listing + self.shared:.0f} "
                f"requests a minute, and the budget is {self.budget}"
            )
            found.append((message, "raise requests.per_minute, poll.page_size or poll.interval"))
        if self.unspared is not None and self.unspared > SLOW:
            names = ", ".join(one.fact for one in self.reads if not one.narrowed)
            message = (
                f"with {self.events} events, {names} would be read of each event only once in "
                f"{duration_text(self.unspared)}"
            )
            hint = "narrow the rules that name it, as in event.status == 'active' && …, or raise requests.per_minute"
            found.append((message, hint))
        return tuple(found)

    def as_json(self) -> dict[str, Json]:
        """The estimate for a script."""
        reads: list[Json] = [
            {
                "fact": one.fact,
                "per_minute": round(self.of_each, 1),
                "narrowed": one.narrowed,
                "rules": [str(rule) for rule in one.rules],
            }
            for one in self.reads
        ]
        return {
            "events": self.events,
            "per_minute": round(self.needed, 1),
            "budget": self.budget,
            "listing": round(self.listing, 1),
            "partner": round(self.shared, 1),
            "facts": reads,
            "round_s": None if self.round is None else self.round.total_seconds(),
        }


def estimate(rules: Iterable[Rule], registry: Registry, settings: EngineSettings, events: int = EVENTS) -> Estimate:
    """What the enabled rules need of a partner with that many events."""
    enabled = [rule for rule in rules if rule.enabled]
    interval = settings.interval
    cycles = _MINUTE / interval
    pages = 1 if settings.by_change else settings.pages(events)
    reads = _reads(enabled, registry)
    room = facts_per_look(settings.requests_per_minute, interval, pages)
    every = timedelta(seconds=look_s(settings.requests_per_minute, interval, pages + room))

    def rotation(count: int) -> timedelta | None:
        looks = ceil(count * events / room)
        return timedelta(seconds=ceil(looks * every.total_seconds())) if count else None

    return Estimate(
        events=events,
        pages=pages,
        by_change=settings.by_change,
        interval=interval,
        budget=settings.requests_per_minute,
        listing=pages * cycles,
        shared=_shared(enabled, registry, cycles),
        of_each=events * cycles,
        reads=reads,
        round=rotation(len(reads)),
        unspared=rotation(sum(1 for one in reads if not one.narrowed)),
    )


def _shared(rules: Iterable[Rule], registry: Registry, cycles: float) -> float:
    """Facts of the whole partner: its record always, the others where rules name them."""
    named = {name for rule in rules for name in rule.names if name in registry.facts}
    own = {name for name in named if registry.facts[name].level == "partner"}
    return len(own) * cycles + (0.0 if "partner" in own else _MINUTE / PARTNER_FACTS_EVERY)


def _reads(rules: Iterable[Rule], registry: Registry) -> tuple[Read, ...]:
    found: dict[str, list[Rule]] = {}
    for rule in rules:
        for fact in _asked(rule, registry):
            found.setdefault(fact, []).append(rule)
    return tuple(
        Read(
            fact=fact,
            rules=tuple(rule.id for rule in wanting),
            narrowed=all(narrowed(rule, registry) for rule in wanting),
        )
        for fact, wanting in sorted(found.items())
    )


def _asked(rule: Rule, registry: Registry) -> set[str]:
    """The facts of each event that the rule wants, told apart by the parameters it gives them."""
    found: set[str] = set()
    for name in names_read(rule):
        fact = registry.facts.get(name)
        if fact is None or not fact.per_event_request:
            continue
        given = _given(rule.parameters, fact.takes)
        found.add(f"{name}({given})" if given else name)
        if lacks_defaults(rule, name):
            found.add("defaults")
    return found


def _given(parameters: Mapping[str, object], takes: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {parameters[name]}" for name in takes if name in parameters)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
