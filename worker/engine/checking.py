"""Rules that can want opposite things of one target, or start each other: told by `check`, before it happens.

The wishes are the daemon's own (`worker.writes.intents`), and so is the order among them (`worker.engine.planning`).
A pair is told only if nothing keeps the two apart: both are enabled, some partner has both, and their conditions do not
exclude each other for certain. It is pure and decides nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import combinations, pairwise
from math import ceil
from typing import TypeAlias

from worker.engine.episodes import READ_WITHIN
from worker.engine.planning import Standing, loses
from worker.engine.views import PARTNER_FACTS_EVERY, EngineSettings, names_read
from worker.model.actions import ACTIONS
from worker.model.errors import Problem
from worker.model.facts import Json, RuleId
from worker.model.rules import Rule, RuleStep
from worker.reading.pacing import facts_per_poll, poll_s
from worker.rules.cel import WRITE, Node, parse
from worker.rules.evaluate import Expression
from worker.rules.expressions import names_in
from worker.rules.facts import decides, lacks_defaults
from worker.rules.lint import APART, exclude_each_other, fixed_values, narrowed, warning
from worker.rules.load import Loaded, Written
from worker.rules.registry import CHANGE, FactName, Registry
from worker.rules.spelling import counted, duration_text, few
from worker.writes.evidence import Wish
from worker.writes.intents import wishes_of

# How many requests a minute a rule set asks of a partner's budget, told by `check` before anything runs.
#
# The list of events is read every cycle, facts of the partner at the pace that rules name them, and what is left of
# the budget goes to facts that cost a request per event (`worker.reading.pacing`). How many events pass the parts of a
# condition that cost nothing cannot be known here: the estimate takes all of them, and says so. What the budget does
# not give is not lost, only later: the daemon reads in rotation. It is pure.

EVENTS = 200
"""How many events a partner is taken to have where nobody says."""
SLOW = timedelta(minutes=10)
"""A fact that is read less often than this is worth a warning."""
_MINUTE = timedelta(minutes=1)
_ANY_DAY = datetime(2026, 1, 5, tzinfo=UTC)
TIMES_MOST = 100
"""Of so many times of a rule the two that are nearest tell how long it has for one."""
VALUES_SHOWN = 4
"""So many stand for all."""
Claimed: TypeAlias = tuple[Written, Wish]
Seen: TypeAlias = Mapping[str, RuleStep]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One resource of each event: the fact with the parameters that rules give, and the rules that want it.

    ``narrowed``: no rule wants it of every event. ``share``: of so many polls it is asked in one, as 1 to them.
    """

    fact: str
    rules: tuple[RuleId, ...]
    narrowed: bool
    share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Requests a minute for one partner with so many events. ``budget`` is what there is.

    ``round``: how long it takes at most to read every fact of every event once; None where no rule needs one.
    ``unspared``: the same for the facts that nothing narrows. ``late``: rules with ``at`` for whose facts the time that
    they have is too short, with how long reading takes, and how long there is.
    """

    events: int
    budget: int
    listing: float
    shared: float
    of_each: float
    reads: tuple[Read, ...]
    round: timedelta | None
    unspared: timedelta | None
    late: tuple[tuple[RuleId, timedelta, timedelta], ...] = ()

    @property
    def needed(self) -> float:
        """All of it, if every event passed everything that narrows."""
        return self.listing + self.shared + sum(one.share for one in self.reads) * self.of_each

    @property
    def sentence(self) -> str:
        """The estimate for an operator: what these rules cost, or how often what they name is read."""
        with_so_many = f"with {counted(self.events, 'event')} a partner (--events N)"
        if self.round is None or self.needed <= self.budget:
            return f"{with_so_many}: at most {self.needed:.0f} of the {self.budget} requests a minute that are allowed"
        facts = few([one.fact for one in self.reads])
        return (
            f"{with_so_many}: the list is read at every poll, and {facts} of each event at least every "
            f"{duration_text(self.round)}, within the {self.budget} requests a minute that are allowed"
        )

    @property
    def warnings(self) -> tuple[tuple[str, str], ...]:
        """What is too slow to be meant so, each with what to do."""
        found: list[tuple[str, str]] = []
        if self.listing + self.shared > self.budget:
            message = (
                f"the list of {self.events} events and the partner's facts alone take {self.listing + self.shared:.0f} "
                f"requests a minute, and {self.budget} are allowed"
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
        for rule, takes, has in self.late:
            message = (
                f"rule '{rule}' asks at its times of {self.events} events (--events N) what takes up to "
                f"{duration_text(takes)} to read, and has {duration_text(has)}: of the others the time is missed"
            )
            hint = "narrow it first, as in event.status == 'active' && …, or raise requests.per_minute"
            found.append((message, hint))
        return tuple(found)

    def as_json(self) -> dict[str, Json]:
        """The estimate for a script."""
        reads: list[Json] = [
            {
                "fact": one.fact,
                "per_minute": round(self.of_each * one.share, 1),
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
    timed = [rule for rule in enabled if rule.at is not None and not rule.on_change and rule.hold_for is None]
    reads = _reads([rule for rule in enabled if rule.past or rule not in timed], registry, interval)
    room = facts_per_poll(settings.requests_per_minute, interval, pages)
    every = timedelta(seconds=poll_s(settings.requests_per_minute, interval, pages + room))

    def rotation(count: float) -> timedelta | None:
        polls = ceil(count * events / room)
        return timedelta(seconds=ceil(polls * every.total_seconds())) if count else None

    return Estimate(
        events=events,
        budget=settings.requests_per_minute,
        listing=pages * cycles,
        shared=_shared(enabled, registry, cycles),
        of_each=events * cycles,
        reads=reads,
        round=rotation(sum(one.share for one in reads)),
        unspared=rotation(sum(one.share for one in reads if not one.narrowed)),
        late=tuple(
            (rule.id, takes, has)
            for rule in timed
            if (takes := rotation(len(_asked(rule, registry)))) is not None and takes > (has := _window(rule))
        ),
    )


def _window(rule: Rule) -> timedelta:
    """How long the facts of a rule with ``at`` may take: until the next time, where two are nearest, and an hour at the
    most."""
    times = [_ANY_DAY]
    while len(times) < TIMES_MOST and rule.at is not None and (following := rule.at.next(times[-1])) is not None:
        times.append(following)
    return min([READ_WITHIN, *(later - time for time, later in pairwise(times[1:]))])


def _shared(rules: Iterable[Rule], registry: Registry, cycles: float) -> float:
    """Facts of the whole partner: its record always, the others where rules name them."""
    named = {name for rule in rules for name in rule.names if name in registry.facts}
    own = {name for name in named if registry.facts[name].level == "partner"}
    often = sum(min(cycles, _MINUTE / registry.every.get(name, _MINUTE / cycles)) for name in own)
    return often + (0.0 if "partner" in own else _MINUTE / PARTNER_FACTS_EVERY)


def _reads(rules: Iterable[Rule], registry: Registry, interval: timedelta) -> tuple[Read, ...]:
    found: dict[str, list[Rule]] = {}
    for rule in rules:
        for fact in _asked(rule, registry):
            found.setdefault(fact, []).append(rule)
    return tuple(
        Read(
            fact=fact,
            rules=tuple(rule.id for rule in wanting),
            narrowed=all(narrowed(rule, registry) for rule in wanting),
            share=min(1.0, interval / registry.every.get(fact, interval)),
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
        given = _given(rule, fact)
        found.add(f"{name}({given})" if given else name)
        if lacks_defaults(rule, name):
            found.add("defaults")
    return found


def _given(rule: Rule, fact: FactName) -> str:
    """The parameters with which the rule asks for a fact."""
    return ", ".join(f"{one} {rule.parameters[one]}" for one in fact.takes if one in rule.parameters)


def quarrels(loaded: Loaded, registry: Registry) -> tuple[Problem, ...]:
    """A warning for each target of which rules can want opposite things, at once or behind their waits, at the second
    rule's ``do``; and for each rule that enforces two values of one target."""
    wanting: dict[str, list[Claimed]] = {}
    for written in loaded.written:
        rule = written.rule
        for wish in dict.fromkeys((*wishes_of(rule), *wishes_of(rule, len(rule.do)))) if rule.enabled else ():
            wanting.setdefault(wish.target, []).append((written, wish))
    opposed = (_opposed(claims, registry) for claims in wanting.values())
    turning = [_in_turn(one) for one in loaded.written if one.rule.enabled and one.rule.repeat == "enforce"]
    return tuple(filter(None, (*turning, *(_told(claims) for claims in opposed if claims))))


def _in_turn(written: Written) -> Problem | None:
    """A warning of a rule that enforces two values of one target."""
    for one, other in combinations(wishes_of(written.rule), 2):
        if one.opposes(other):
            message = f"'{written.rule.id}' enforces {one.target} to be {_value(one)}, and {_value(other)}"
            hint = "it would write both in turn, without end: leave one of them out"
            return warning(written, message, key="do", hint=hint, code="conflict")
    return None


def _told_apart(rule: Rule, registry: Registry) -> Node:
    """A rule's condition, in which what is another thing in another rule has a name of its own: a fact that is asked
    with parameters, what is remembered of a change, the write of the rule that it comes after."""
    if not isinstance(rule.when, Expression):
        return parse("true")
    asked = {name: _given(rule, registry.facts[name]) for name in rule.when.names & registry.facts.keys()}
    apart = {**asked, WRITE: str(rule.after), **dict.fromkeys(CHANGE, str(rule.on_change))}

    def named(node: Node) -> Node:
        text = f"{node.text}{APART}{apart[node.text]}" if node.kind == "ident" and node.text in apart else node.text
        return replace(node, text=text, children=tuple(map(named, node.children)))

    return named(rule.when.tree)


def _opposed(claims: Sequence[Claimed], registry: Registry) -> tuple[Claimed, ...]:
    """Those of them that can meet an opposite one, where nobody has said by `priority` which one wins; a pair of which
    both are known already is not looked at."""
    found: dict[RuleId, Claimed] = {}
    trees = {one.rule.id: _told_apart(one.rule, registry) for one, _ in claims}
    fixed = {rule: fixed_values(tree) for rule, tree in trees.items()}
    names = names_in(registry, ())
    for first, second in combinations(claims, 2):
        (mine, wish), (others, other) = (first[0].rule, first[1]), (second[0].rule, second[1])
        if mine.id == others.id or {mine.id, others.id} <= found.keys():
            continue
        common = fixed[mine.id].keys() & fixed[others.id].keys()
        if any(not fixed[mine.id][subject] & fixed[others.id][subject] for subject in common):
            continue
        together = mine.priority == others.priority and _share_a_partner(mine, others) and wish.opposes(other)
        if together and not exclude_each_other(trees[mine.id], trees[others.id], names):
            found.setdefault(mine.id, first)
            found.setdefault(others.id, second)
    return tuple(found.values())


def ping_pongs(loaded: Loaded) -> tuple[Problem, ...]:
    """A warning of two rules that watch what the other writes, at the second rule's ``do``, naming the first: each may
    start the other, again and again. Two that write the same do not, nor does one that is paced. Others of the kind are
    counted."""
    free = [one for one in loaded.written if one.rule.enabled and not one.rule.paced]
    enabled = [(one, decides(one.rule), _written_by(one.rule)) for one in free]
    found: dict[tuple[frozenset[str], ...], list[tuple[Written, str]]] = {}
    for (first, watching, writing), (second, watched, written) in combinations(enabled, 2):
        mine, others = _seen(watched, writing), _seen(watching, written)
        if mine and others and mine != others and _share_a_partner(first.rule, second.rule):
            message = (
                f"rules '{second.rule.id}' and '{first.rule.id}' ({first.rule.file}:{first.rule.line}) watch what the "
                f"other writes: '{second.rule.id}' writes {', '.join(others)}, and '{first.rule.id}' {', '.join(mine)}"
            )
            found.setdefault((frozenset(mine), frozenset(others)), []).append((second, message))
    hint = "each may start the other without end: take that part out of one condition, or pace both by `limit`"
    told = partial(warning, key="do", hint=hint, code="ping_pong")
    return tuple(
        told(second, message + (f"; so do {len(more)} pairs more" if more else ""))
        for (second, message), *more in found.values()
    )


def _written_by(rule: Rule) -> tuple[tuple[str, str, RuleStep], ...]:
    """Each fact and field that a rule writes, and by which step."""
    found = []
    for step in rule.do:
        found += [(fact, field, step) for fact, field in ACTIONS[step.action].written(step.params)]
    return tuple(found)


def _seen(watched: Mapping[str, frozenset[str] | None], written: Iterable[tuple[str, str, RuleStep]]) -> Seen:
    """What of all that one rule writes another looks at."""
    return {
        f"{fact}.{field}".rstrip("."): step
        for fact, field, step in written
        if fact in watched and ((fields := watched[fact]) is None or not field or field in fields)
    }


def _share_a_partner(first: Rule, second: Rule) -> bool:
    return first.partners is None or second.partners is None or bool(first.partners & second.partners)


def _told(claims: Sequence[Claimed]) -> Problem:
    (first, mine), (second, other), *more = claims
    hint = "let the conditions exclude each other, or give one of them a higher `priority`"
    message = (
        f"rule '{second.rule.id}' wants {other.target} to be {_value(other)}, and rule '{first.rule.id}' "
        f"({first.rule.file}:{first.rule.line}) wants it to be {_value(mine)}; where both are true, "
        f"{_outcome(first.rule, second.rule, (mine, other))}"
    )
    if more:
        values: dict[str, list[str]] = {}
        for written, wish in claims:
            values.setdefault(_value(wish), []).append(written.rule.id)
        named = [f"{value} by {few(rules)}" for value, rules in list(values.items())[:VALUES_SHOWN]]
        left = len(values) - len(named)
        named += [f"{counted(left, 'other value')}"] if left else []
        message = f"{len(claims)} rules can want opposite things of {other.target}: {'; '.join(named)}"
        hint += "; without it what stops spending wins, and else neither acts"
    return warning(second, message, key="do", hint=hint, code="conflict")


def _outcome(first: Rule, second: Rule, wishes: tuple[Wish, Wish]) -> str:
    """What the daemon would do, by its own order."""
    left = Standing(rule=first, wish=wishes[0], shadow=False)
    right = Standing(rule=second, wish=wishes[1], shadow=False)
    if loses(left, right) and loses(right, left):
        return "neither acts"
    winner = first if loses(right, left) else second
    return f"'{winner.id}' wins because it stops spending"


def _value(wish: Wish) -> str:
    return wish.value if len(wish.value) <= 60 else wish.value[:59] + "…"
