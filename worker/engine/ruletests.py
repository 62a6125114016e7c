"""Rule tests: the daemon's own cycle on a virtual clock, a ledger in memory and a service that a test scripts.

At every ``poll.interval``, and right after each step's ``set``, the cycle polls, decides, sends and settles as in the
daemon. Nothing of a rule's meaning or of a write's life is written down here a second time.

- 0s is the first poll, on 2026-01-01T12:00:00Z unless ``given`` names another ``now``. A step that changes
  nothing makes no poll of its own: it claims what the polls so far have shown.
- What a test does not give is unknown, but for an event ``e1``, a setup that is NONE, and what no rule looks at
  (`worker.engine.playing`).
- A fact is known as it is given, whatever parameters a rule asks with; where the test never gives ``defaults`` or the
  event's start, from which parameters without a ``with`` come, there are stand-ins for them.
- The mode is ``live``, unless a rule is stricter: a test is about the rules, also where the worker is still rolled out
  in shadow mode. ``partners`` of a rule is not looked at: the partner of a test is one that its rules are for.
- The numbers of ``safety`` and ``poll`` are the config's. A gap is a time in which ``event`` was unreadable.
- What a poll sends is answered within the poll, and what met no named answer is read back in it.
- Quiet times are jumped over, as far as the next moment at which the clock alone can change a decision.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TypeVar

from worker.engine.decide import Decision
from worker.engine.operators import approved, rejected
from worker.engine.planning import AFTER_WAIT
from worker.engine.playing import Bench, GivenWorld, Play, Scripted, VirtualClock, VirtualLoop, amount_shown
from worker.engine.views import EngineSettings
from worker.model.actions import UNDO, WAIT
from worker.model.commits import Commit, LogFilter, Move, Record, RuleMemory
from worker.model.errors import UsageError
from worker.model.facts import GOALS, EventId, Json, PartnerId, RuleId
from worker.model.rules import Judgement, Rule, RuleSet, Truth
from worker.model.writes import Write, WriteKey
from worker.rules.spelling import duration_text
from worker.rules.tests import Expected, Held, RuleTest, Stands, StepOfTest

MESSAGES_LATER = frozenset({"remind", "ended"})
"""Why a message is planned that is no firing's own."""

# What a step claims against what happened, in words that show the difference.
#
# ``expect`` is exactly what fired since the step before. ``held`` names what holds a rule at this poll, or came to
# hold it since the step before; an empty list says that nothing is held now. ``states`` names the newest writes of
# each place in a rule's ``do``. ``sent`` counts every attempt of the test so far whose bytes left.

_Claimed = TypeVar("_Claimed")
_Found = TypeVar("_Found")
_Both = tuple[Sequence[object], Sequence[object]]
"""All there is of a kind, and what of it has no match on the other side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """One action of one firing. ``each``: it is one of several, one for each item or for each write that is undone."""

    rule: RuleId
    action: str
    event: EventId
    at: timedelta
    params: Mapping[str, Json] = field(default_factory=dict)
    each: bool = False

    def meets(self, claim: Expected) -> bool:
        """Whether the claim is about this firing."""
        return (
            (claim.rule, claim.action) == (self.rule, self.action)
            and claim.event in (None, self.event)
            and all(name in self.params and self.params[name] == value for name, value in claim.params.items())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Something that holds a rule's firing or its write. ``now``: at this poll, not only since the step before."""

    rule: RuleId
    event: EventId
    reason: str
    why: str = ""
    now: bool = True

    def meets(self, claim: Held) -> bool:
        """Whether the claim is about this hold."""
        return (claim.rule, claim.reason) == (self.rule, self.reason) and claim.event in (None, self.event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Because:
    """Why a rule did not fire for an event: what its condition is, and what holds it."""

    rule: RuleId
    event: EventId
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One claim that did not hold: what was expected and what happened, each in words, and what of both has no match
    on the other side. ``because``: why rules did not fire."""

    at: timedelta
    line: int
    claim: str
    expected: tuple[str, ...]
    happened: tuple[str, ...]
    missing: tuple[str, ...]
    surplus: tuple[str, ...]
    because: tuple[Because, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """The difference, for an operator."""
        whys = [f"{one.rule} did not fire for {one.event}: {one.why}" for one in self.because]
        return (
            f"step at {duration_text(self.at)} (line {self.line}), {self.claim}:",
            *(f"  - expected {line}" for line in self.missing or ("nothing more" if self.expected else "nothing",)),
            *(f"  + happened {line}" for line in self.surplus or ("nothing more" if self.happened else "nothing",)),
            *(f"    {line}" for line in whys),
        )


def _stands(claim: Stands, write: Write) -> bool:
    rules = (write.key.rule, *write.rules)
    return (
        (claim.action, claim.state) == (write.intent.action, write.state)
        and claim.rule in (None, *rules)
        and claim.event in (None, write.key.event)
    )


def _paired(
    claims: Sequence[_Claimed], found: Sequence[_Found], fits: Callable[[_Claimed, _Found], bool]
) -> tuple[list[_Claimed], list[_Found]]:
    """The claims that nothing of their own meets, and what no claim is about; as many pairs as can be made."""
    owner: dict[int, int] = {}

    def place(claim: int, tried: set[int]) -> bool:
        for index, one in enumerate(found):
            if index not in tried and fits(claims[claim], one):
                tried.add(index)
                if index not in owner or place(owner[index], tried):
                    owner[index] = claim
                    return True
        return False

    unmet = [claim for index, claim in enumerate(claims) if not place(index, set())]
    return unmet, [one for index, one in enumerate(found) if index not in owner]


def _spelled(one: object) -> str:
    """A claim, or what happened, in words."""
    match one:
        case Expected():
            return f"{one.rule}: {one.action}{_params(one.params)}{_of(one.event)}"
        case Fired():
            return f"{one.rule}: {one.action}{_params(one.params)}{_of(one.event)} at {duration_text(one.at)}"
        case Held():
            return f"{one.rule} held by {one.reason}{_of(one.event)}"
        case Holding():
            when = "" if one.now else " (no longer)"
            return f"{one.rule} held by {one.reason}{_of(one.event or None)}{when}: {one.why}"
        case Stands():
            rule = "" if one.rule is None else f" of {one.rule}"
            return f"{one.action}{rule}{_of(one.event)} {one.state}"
        case Write():
            held = "" if one.held_by is None else f", held by {one.held_by}"
            part = f" ({one.key.item})" if one.key.item else ""
            where = f"{one.intent.action}{part} of {one.key.rule} for {one.key.event}"
            return f"{where} {one.state}: {one.reason}{held}: {one.why}"
        case str():
            return f"a write of {one} that waits before this poll"
        case _:
            return f"{one} sent"


def _of(event: EventId | None) -> str:
    return "" if event is None else f" for {event}"


def _params(params: Mapping[str, Json]) -> str:
    return " {" + ", ".join(f"{name}: {value}" for name, value in params.items()) + "}" if params else ""


START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
PARTNER = PartnerId("partner-id-test")
SOMEBODY, SAID = "somebody", "the rule test says so"
"""Whose word lets go or drops what waits, and why."""
Pair = tuple[EventId, RuleId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of one test. ``fired`` and ``held_back``: rules that it saw do so; ``polls``: how many were made;
    ``took_s``: where somebody has timed it."""

    name: str
    file: str
    line: int
    failures: tuple[Failure, ...]
    fired: frozenset[RuleId]
    held_back: frozenset[RuleId]
    polls: int
    took_s: float = 0.0

    @property
    def passed(self) -> bool:
        """Every claim held."""
        return not self.failures


def run_test(test: RuleTest, bench: Bench) -> Ran:
    """Runs one test from 0s to its last step."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(_Run(test, bench, loop).through())
    except UsageError as error:
        raise UsageError(f"{test.file}:{test.line}: {error}", hint=error.hint) from None
    finally:
        loop.close()


def as_under_test(rules: RuleSet, test: RuleTest) -> RuleSet:
    """The rules that a test is about, for any partner, with stand-ins for parameters that the test cannot resolve.

    One that is named is tested as if it were enabled: what it says can be right long before somebody wants it.
    """
    stand_ins, named = _stand_ins(test), test.rules is not None
    chosen = (
        replace(rule, enabled=rule.enabled or named, partners=None, parameters={**stand_ins, **rule.parameters})
        for rule in rules.rules
        if test.rules is None or rule.id in test.rules
    )
    return replace(rules, rules=tuple(chosen))


def _stand_ins(test: RuleTest) -> dict[str, str | float | int]:
    """Parameters for which the test never gives the facts that they would come from."""
    given = [test.given, *(step.change for step in test.steps if step.change is not None)]
    records = [record for facts in given for record in (*facts.events.values(), facts.unnamed)]
    found: dict[str, str | float | int] = {}
    if not any("defaults" in facts.others for facts in given):
        found |= {"budget": 1.0, "goal": GOALS[0], "lead_form_id": ""}
    if not any("partner" in facts.others for facts in given):
        found["currency"] = "EUR"
    if not any("city" in record for record in records):
        found["location"] = "here"
    if not any("start_date_time" in record for record in records):
        found["runtime_in_days"] = 1
    return found


def tested_settings(settings: EngineSettings) -> EngineSettings:
    """The config's numbers, for a test: live, and without limits that are about the service and not about rules."""
    return replace(
        settings,
        deciding=replace(settings.deciding, mode="live"),
        unconfirmed={},
        unconfirmed_facts={},
        ask_spending=False,
    )


class _Run(Play):
    """One test on its way: the daemon's cycle, poll after poll, and what it came to."""

    def __init__(self, test: RuleTest, bench: Bench, loop: VirtualLoop) -> None:
        bench.ledger.clear()
        settings = replace(tested_settings(bench.settings), decided_again=timedelta(hours=1) + test.steps[-1].at)
        bench = replace(bench, rules=as_under_test(bench.rules, test), settings=settings)
        clock = VirtualClock(loop, test.given.now or START)
        self._test = test
        self._world = GivenWorld(test.given, bench.rules.rules, bench.registry)
        self._service = Scripted(self._world, clock, bench.request_for, bench.outcome_of)
        super().__init__(bench, self._service, clock, partner=PARTNER)
        self._judged: dict[Pair, Judgement] = {}
        self._why_held: dict[Pair, str] = {}
        self._keys: dict[tuple[EventId, RuleId, int, str], WriteKey] = {}
        self._since: list[Fired] = []
        self._seq = 0
        self._fired: set[RuleId] = set()
        self._held_back: set[RuleId] = set()
        self._waited: set[RuleId] = set()

    async def through(self) -> Ran:
        """Every step."""
        failures: list[Failure] = []
        self._service.answer(self._test.answers)
        for step in self._test.steps:
            failures.extend(await self._step(step))
        return Ran(
            name=self._test.name,
            file=self._test.file,
            line=self._test.line,
            failures=tuple(failures),
            fired=frozenset(self._fired),
            held_back=frozenset(self._held_back),
            polls=self.polls,
        )

    async def _step(self, step: StepOfTest) -> list[Failure]:
        changes = step.change is not None or bool(step.unknown or step.approve or step.reject)
        await self.until(step.at, including=not changes)
        self._service.answer(step.answers)
        if changes:
            self._change(step)
            await self.poll(step.at)
        failures = list(self._failures(step))
        if step.expect is not None:
            self._held_back.update(self._holding_back(step))
        self._held_back.update(claim.rule for claim in step.held or ())
        self._since.clear()
        self._seq = self._ledger.last_seq()
        return failures

    def _change(self, step: StepOfTest) -> None:
        """What a step sets is seen by the poll that follows: what was read before is too old, and no write rests."""
        state, seldom = self.state, self._settings.every
        self._jumped_to(step.at)
        if step.change is not None:
            self._world.change(step.change)
        self._world.lose(step.unknown)
        self._hear(step)
        changed = {*step.unknown, *(step.change.others if step.change is not None else ())}
        for facts in (state.shared, *state.facts.values()):
            old = {key: fact for key, fact in facts.items() if key.name in changed and key.name not in seldom}
            facts.update({key: replace(fact, trace=None) for key, fact in old.items()})
        state.rests.clear()

    def _hear(self, step: StepOfTest) -> None:
        """What somebody says of writes that wait for approval: of a rule's own, as `approve --rule` does."""
        at = self._clock.start + step.at
        waiting = [one for one in self.open if one.state == "waiting"]
        moves: list[Move] = []
        for write in waiting:
            if write.key.rule in step.approve:
                amount = amount_shown(self.state, write)
                moves.append(approved(write, because=SAID, by=SOMEBODY, now=at, amount=amount))
            elif write.key.rule in step.reject:
                moves.append(rejected(write, because=SAID, by=SOMEBODY, now=at))
        self._waited = {write.key.rule for write in waiting}
        self._ledger.apply(Commit(at=at, moves=tuple(moves)))

    # what was seen

    def _take(self, decision: Decision) -> None:
        super()._take(decision)
        commit = decision.commit
        for event in decision.events:
            for rule in self._rules.rules:
                if rule.enabled and (event, rule.id) not in decision.judged and rule.when is not None:
                    self._judged[event, rule.id] = rule.when.judge(decision.scope(event, rule))
        self._judged.update(decision.judged)
        self._why_held.update({pair: held.why for pair, held in decision.held.items()})
        for plan in commit.plans:
            key = plan.key
            self._keys[(key.event, key.rule, key.position, key.item)] = key
        for record in commit.records:
            if record.kind == "fired":
                self._since.extend(self._firing(record, commit))
        self._since.extend(self._said_later(commit))
        self._fired.update(one.rule for one in self._since)

    def _said_later(self, commit: Commit) -> Iterator[Fired]:
        """What is planned of an episode after its firing: a message once more, and what comes after a wait."""
        for plan in commit.plans:
            later = plan.reason in MESSAGES_LATER or AFTER_WAIT in plan.intent.context
            if later and self.at is not None:
                key, intent = plan.key, plan.intent
                yield Fired(rule=key.rule, action=intent.action, event=key.event, at=self.at, params=intent.params)

    def _firing(self, record: Record, commit: Commit) -> Iterator[Fired]:
        """The actions of a firing, with what they were planned with; some rules share the write of another."""
        rule, at = self._rules.get(record.rule) if record.rule is not None else None, self.at
        if rule is None or record.event is None or at is None:
            return
        planned = [(plan.key, plan.intent, plan.rules) for plan in commit.plans]
        written = [*planned, *((one.after.key, one.after.intent, one.after.rules) for one in commit.moves)]
        for position, step in enumerate(takewhile(lambda step: step.action != WAIT, rule.do)):
            place = (record.event, rule.id, position)
            for key, one, _ in planned if step.action == UNDO else ():
                if (key.event, key.rule, key.position) == place:
                    yield Fired(rule=rule.id, action=one.action, event=key.event, at=at, params=one.params, each=True)
            if step.action == UNDO:
                continue
            of_step = [one for one in written if one[0].event == record.event and one[1].action == step.action]
            own = [one for key, one, _ in of_step if (key.rule, key.position) == (rule.id, position)]
            given = [one.params for one in own or [one for _, one, rules in of_step if rule.id in rules]]
            for params in given if step.each else given[:1] or [{}]:
                event, each = record.event, bool(step.each)
                yield Fired(rule=rule.id, action=step.action, event=event, at=at, params=params, each=each)

    def _failures(self, step: StepOfTest) -> Iterator[Failure]:
        """The claims of a step that do not hold."""
        for claim, expected, happened in self._unmet(step):
            (wanted, missing), (found, surplus) = (
                [tuple(map(_spelled, part)) for part in both] for both in (expected, happened)
            )
            unmet = {one.rule for one in expected[1] if isinstance(one, Expected | Held)}
            yield Failure(
                at=step.at,
                line=step.line,
                claim=claim,
                expected=wanted,
                happened=found,
                missing=missing,
                surplus=surplus,
                because=tuple(one for one in self._because() if one.rule in unmet),
            )

    def _unmet(self, step: StepOfTest) -> Iterator[tuple[str, _Both, _Both]]:
        """Each claim that does not hold: what it expects and what happened, each with what of it has no match. A firing
        that is expected without ``params`` stands for all the writes of an action with ``each``, or of an ``undo``;
        with an empty list nothing is held now, and there are no writes at all. Nobody decides what did not wait."""
        for word, rules in (("approve", step.approve), ("reject", step.reject)):
            if none := [rule for rule in rules if rule not in self._waited]:
                yield word, (none, none), (self._newest(),) * 2
        if step.expect is not None:
            missing, surplus = _paired(step.expect, self._since, lambda claim, one: one.meets(claim))
            whole = [claim for claim in step.expect if not claim.params]
            surplus = [one for one in surplus if not (one.each and any(one.meets(claim) for claim in whole))]
            if missing or surplus:
                yield "expect", (step.expect, missing), (self._since, surplus)
        if step.held is not None:
            holding = list(self._holding())
            unmet, _ = _paired(step.held, holding, lambda claim, one: one.meets(claim))
            others = holding if step.held else [one for one in holding if one.now]
            if unmet or (others and not step.held):
                yield "held", (step.held, unmet), (holding, others)
        if step.states is not None:
            writes = self._newest()
            absent, more = _paired(step.states, writes, _stands)
            if absent or (more and not step.states):
                yield "states", (step.states, absent), (writes, more)
        if step.sent not in (None, self._service.sent):
            yield "sent", ([step.sent],) * 2, ([self._service.sent],) * 2

    def _newest(self) -> list[Write]:
        """Of each place in a rule's ``do``, the newest write of each event."""
        episodes = dict.fromkeys((key.event, key.rule, key.episode) for key in self._keys.values())
        found = [one for place in episodes for one in self._ledger.episode_writes(self.state.partner, *place)]
        return [one for one in found if one.key in self._keys.values()]

    def _holding(self) -> Iterator[Holding]:
        """What holds a firing or a write at this poll, and what came to hold one since the step before."""
        found: dict[tuple[str, str, str], Holding] = {}

        def note(rule: str, event: str, reason: str, why: str, *, now: bool = True) -> None:
            one = Holding(rule=RuleId(rule), event=EventId(event), reason=reason, why=why, now=now)
            found[(rule, event, reason)] = one

        for said in self._ledger.log(LogFilter(partner=self.state.partner, after_seq=self._seq)):
            if said["kind"] == "held":
                note(str(said["rule"]), str(said["event"] or ""), str(said["reason"]), str(said["why"]), now=False)
        for (event, rule), memory in self.state.memories.items():
            if memory.held is not None:
                note(rule, event, memory.held, self._why_held.get((event, rule), ""))
        for write in self.open:
            reason = write.reason if write.state == "waiting" else write.held_by
            for rule in write.rules or (write.key.rule,):
                if reason is not None:
                    note(rule, write.key.event, reason, write.why)
        yield from found.values()

    def _holding_back(self, step: StepOfTest) -> Iterator[RuleId]:
        """Rules that were looked at and did not fire since the step before, for another reason than that they have
        fired already or that the test does not give their facts."""
        fired = {one.rule for one in self._since}
        if not self._world.listed:
            yield from (rule.id for rule in self._rules.rules if rule.enabled and rule.id not in fired)
        for (event, rule_id), judged in self._judged.items():
            if rule_id in fired:
                continue
            memory = self.state.memories.get((event, rule_id))
            unknown = judged.truth is Truth.UNKNOWN and bool(self._world.unreadable)
            held = memory is not None and memory.held is not None
            unchanged = memory is not None and bool(memory.baselines) and step.at > timedelta()
            if judged.truth is Truth.FALSE or unknown or held or unchanged:
                yield rule_id

    def _because(self) -> tuple[Because, ...]:
        """Why each rule that did not fire did not."""
        fired = {(one.event, one.rule) for one in self._since}
        return tuple(
            Because(rule=rule.id, event=event, why=self._why(rule, event))
            for rule in self._rules.rules
            for event in self._world.events
            if (event, rule.id) not in fired
        )

    def _why(self, rule: Rule, event: EventId) -> str:
        judged = self._judged.get((event, rule.id))
        if not rule.enabled:
            return "the rule is disabled"
        if judged is None or not self._world.listed:
            return "nothing was judged: the events could not be read, or the rule does not look at this time"
        said = f"{judged.truth.value}: {judged.why}"
        memory = self.state.memories.get((event, rule.id))
        if judged.truth is Truth.FALSE:
            return said
        if memory is not None and memory.held is not None:
            return f"{said}; held by {memory.held}: {self._why_held.get((event, rule.id), '')}"
        if rule.on_change:
            return f"{said}; {self._unchanged(memory)}"
        return f"{said}; it has fired already in this episode" if memory is not None and memory.fired else said

    def _unchanged(self, memory: RuleMemory | None) -> str:
        """What keeps a watched value from being a change."""
        if memory is None or not memory.baselines:
            return "no watched value was seen yet"
        since = max(one.seen_at for one in memory.baselines.values()) - self._clock.start
        if since:
            before = "before that, `when` was false, or nothing known"
            return f"nothing has changed since {duration_text(since)}, when it was first remembered: {before}"
        return "no watched value has changed"
