"""Rules that can want opposite things of one target, or start each other: told by `check`, before it happens.

The wishes are the daemon's own (`worker.writes.intents`), and so is the order among them (`worker.engine.planning`).
A pair is told only if nothing keeps the two apart: both are enabled, some partner has both, and their conditions do not
exclude each other for certain. It is pure and decides nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import combinations
from math import ceil

from worker.engine.factreads import names_read
from worker.engine.looks import EngineSettings
from worker.engine.observe import PARTNER_FACTS_EVERY
from worker.engine.planning import Standing, loses
from worker.model.actions import ACTIONS
from worker.model.errors import Code, Problem
from worker.model.facts import Json, RuleId
from worker.model.rules import Rule, RuleStep
from worker.reading.plan import facts_per_look, look_s
from worker.rules.durations import duration_text
from worker.rules.evaluate import Expression
from worker.rules.expressions import names_in
from worker.rules.facts import decides, lacks_defaults
from worker.rules.lint import exclude_each_other, narrowed
from worker.rules.load import Loaded, Written
from worker.rules.registry import Registry
from worker.writes.evidence import Wish
from worker.writes.intents import wishes_of

# How many requests a minute a rule set asks of a partner's budget, told by `check` before anything runs.
#
# The list of events is read every cycle, facts of the partner at the pace that rules name them, and what is left of
# the budget goes to facts that cost a request per event (`worker.reading.plan`). How many events pass the parts of a
# condition that cost nothing cannot be known here: the estimate takes all of them, and says so. What the budget does
# not give is not lost, only later: the daemon reads in rotation. It is pure.

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
        found = [head, f"{self.listing:8.0f}  the list of events: {_counted(self.pages, 'page')} every {every}"]
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
    pages = settings.pages(events)
    reads = _reads(enabled, registry)
    room = facts_per_look(settings.requests_per_minute, interval, pages)
    every = timedelta(seconds=look_s(settings.requests_per_minute, interval, pages + room))

    def rotation(count: int) -> timedelta | None:
        looks = ceil(count * events / room)
        return timedelta(seconds=ceil(looks * every.total_seconds())) if count else None

    return Estimate(
        events=events,
        pages=pages,
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


def quarrels(loaded: Loaded, registry: Registry) -> tuple[Problem, ...]:
    """A warning for each pair of rules and target, at the second rule's ``do``, naming the first."""
    wishes = [(written, wishes_of(written.rule)) for written in loaded.written if written.rule.enabled]
    return tuple(
        _told(first, second, pair)
        for (first, mine), (second, others) in combinations(wishes, 2)
        for pair in _opposite(mine, others)
        if first.rule.id != second.rule.id and _meet(first.rule, second.rule, registry)
    )


def ping_pongs(loaded: Loaded) -> tuple[Problem, ...]:
    """A warning for each pair of rules that watch what the other writes, at the second rule's ``do``, naming the first:
    each may start the other, again and again. Two that write the same do not."""
    enabled = [written for written in loaded.written if written.rule.enabled]
    found: list[Problem] = []
    for first, second in combinations(enabled, 2):
        mine, others = _watched_by(second.rule, first.rule), _watched_by(first.rule, second.rule)
        if mine and others and mine != others and _share_a_partner(first.rule, second.rule):
            message = (
                f"rules '{second.rule.id}' and '{first.rule.id}' ({first.rule.file}:{first.rule.line}) watch what the "
                f"other writes: '{second.rule.id}' writes {', '.join(others)}, and '{first.rule.id}' {', '.join(mine)}"
            )
            hint = "each may start the other without end: take that part out of one condition, or pace both by `limit`"
            found.append(_warning(second, message, hint=hint, code="ping_pong"))
    return tuple(found)


def _watched_by(watcher: Rule, writer: Rule) -> dict[str, RuleStep]:
    """What one rule writes of all that the other looks at, and by which step."""
    watched = decides(watcher)
    found: dict[str, RuleStep] = {}
    for step in writer.do:
        row = ACTIONS[step.action]
        for fact, field in (*row.written(step.params), *(("event", name) for name, _ in row.brings)):
            fields = watched.get(fact, frozenset())
            if fact in watched and (fields is None or not field or field in fields):
                found[f"{fact}.{field}".rstrip(".")] = step
    return found


def _opposite(mine: tuple[Wish, ...], others: tuple[Wish, ...]) -> tuple[tuple[Wish, Wish], ...]:
    """One pair of opposite wishes for each target."""
    found = {(one.target, one.axis): (one, other) for one in mine for other in others if one.opposes(other)}
    return tuple(found.values())


def _meet(first: Rule, second: Rule, registry: Registry) -> bool:
    """Whether some event can be true for both."""
    if not _share_a_partner(first, second):
        return False
    if not isinstance(first.when, Expression) or not isinstance(second.when, Expression):
        return True
    names = {**names_in(registry, first.on_change), **names_in(registry, second.on_change)}
    return not exclude_each_other(first.when.tree, second.when.tree, names)


def _share_a_partner(first: Rule, second: Rule) -> bool:
    return first.partners is None or second.partners is None or bool(first.partners & second.partners)


def _told(first: Written, second: Written, wishes: tuple[Wish, Wish]) -> Problem:
    mine, other = wishes
    message = (
        f"rule '{second.rule.id}' wants {other.target} to be {_value(other)}, and rule '{first.rule.id}' "
        f"({first.rule.file}:{first.rule.line}) wants it to be {_value(mine)}; where both are true, "
        f"{_outcome(first.rule, second.rule, wishes)}"
    )
    hint = "let the conditions exclude each other, or give one of them a higher `priority`"
    return _warning(second, message, hint=hint, code="conflict")


def _warning(written: Written, message: str, *, hint: str, code: Code) -> Problem:
    place = written.entries.key("do")
    start = written.entries.start if place is None else place.start
    return written.entries.document.problem(start, message, hint=hint, code=code, severity="warning")


def _outcome(first: Rule, second: Rule, wishes: tuple[Wish, Wish]) -> str:
    """What the daemon would do, by its own order."""
    left = Standing(rule=first, wish=wishes[0], shadow=False)
    right = Standing(rule=second, wish=wishes[1], shadow=False)
    if loses(left, right) and loses(right, left):
        return "neither acts"
    winner = first if loses(right, left) else second
    why = "by its priority" if first.priority != second.priority else "because it stops spending"
    return f"'{winner.id}' wins {why}"


def _value(wish: Wish) -> str:
    return wish.value if len(wish.value) <= 60 else wish.value[:59] + "…"
