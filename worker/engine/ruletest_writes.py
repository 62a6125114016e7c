"""The writes of a rule test: through the daemon's guards and `advance`, with answers that a person wrote down.

A write that meets no named answer is accepted, takes effect and is read back, all within its look: most tests are about
rules and not about a service that misbehaves. One that meets a named answer lives as in the daemon: the looks that
follow are its evidence, and `advance` says when it is settled, sent again, or for a person.

Guards object as in the daemon, but never for the want of a fact that the test does not give: a partner is taken to have
the campaign product, a budget to be in range, a target that was never given not to be as wanted. Assumptions nobody
vouched for hold nothing: they are about the service and not about rules. Tasks of the service are not played.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from worker.engine.episodes import momentary
from worker.engine.looks import EngineSettings, policy_for
from worker.engine.preflight import Asked, earlier_in_do, objected, objection, rules_for, sending, still_holds
from worker.engine.ruletest_world import PARTNER, Books, Sent, World
from worker.guards.checks import AFTER_READING, BEFORE_READING, brake_in_transaction, braked, budget_of, first_no
from worker.guards.situation import No, Situation
from worker.model.actions import ACTIONS
from worker.model.commits import PartnerMemory
from worker.model.exchange import Accepted, Answered, NotSent, Outcome, Uncertain
from worker.model.facts import UNREAD, EventId, Fact, Json, Known, Observation, WriteId
from worker.model.rules import RuleSet
from worker.model.writes import Write
from worker.rules.testfile import LOST_ANSWERS, Answer
from worker.writes.evidence import CONFIRM, SERIES, fact_name, judge, looked
from worker.writes.life import (
    Attempted,
    FoundSending,
    Input,
    Next,
    Settling,
    advance,
    after_outcome,
    attempts_left,
    in_a_row,
)

OutcomeOf = Callable[[int], Outcome]
"""What an answer of this status tells of a write: the daemon's own classification, handed in by the wiring."""
_OK = Accepted(answer=Answered(status=200))
_ANY_BUDGET: Mapping[str, Json] = {"lower_limit": float("-inf"), "upper_limit": float("inf")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One look, for what becomes of writes: what was seen. ``seconds`` since 0s are the monotonic clock."""

    now: datetime
    seconds: float
    seen: Mapping[EventId, Observation]


class Tending:
    """Brings every open write one step on at each look."""

    def __init__(
        self, *, books: Books, world: World, rules: RuleSet, settings: EngineSettings, outcome_of: OutcomeOf
    ) -> None:
        self._books = books
        self._world = world
        self._rules = rules
        self._settings = settings
        self._outcome_of = outcome_of
        self._answers: dict[str, list[Answer]] = {}
        self._settling: dict[WriteId, Settling] = {}
        self._late: list[tuple[datetime, Write]] = []
        self._memory = PartnerMemory(partner=PARTNER)

    def answer(self, answers: Sequence[Answer]) -> None:
        """The next attempts of these actions meet these answers, one each."""
        for one in answers:
            self._answers.setdefault(one.action, []).append(one)

    def late_effect(self) -> datetime | None:
        """When the next late effect comes."""
        return min((at for at, _ in self._late), default=None)

    def land(self, now: datetime) -> bool:
        """Late effects whose time has come; whether there were any."""
        before = len(self._late)
        for at, write in sorted(self._late, key=lambda one: (one[0], one[1].id)):
            if at <= now:
                self._world.take_effect(write)
        self._late = [one for one in self._late if one[0] > now]
        return len(self._late) < before

    def tend(self, moment: Moment) -> None:
        """One step for every open write."""
        for write_id in sorted(self._books.open):
            write = self._books.open.get(write_id)
            if write is None or write.state == "waiting":
                continue
            if write.state == "planned":
                self._attempt(write, moment)
            elif write.state == "sending":
                self._advance(write, FoundSending(), moment)
            else:
                self._settle(write, moment)

    def at_rest(self, write: Write, now: datetime) -> bool:
        """Whether time alone can do nothing to this write: only facts or a person can."""
        if write.state == "waiting":
            return True
        if write.state != "needs_human":
            return False
        policy = policy_for(write, self._rules.get(write.key.rule), self._settings)
        fact = self._seen(write, fact_name(write.intent), now)
        return not policy.reads_back or write.absent_proved or judge(write, fact).says == "cannot_tell"

    def _advance(self, write: Write, event: Input, moment: Moment) -> Next:
        policy = policy_for(write, self._rules.get(write.key.rule), self._settings)
        step = advance(write, self._settling.get(write.id), event, policy, (moment.now, moment.seconds))
        if step.settling is None:
            self._settling.pop(write.id, None)
        else:
            self._settling[write.id] = step.settling
        if step.move is not None:
            self._books.move(step.move)
        return step

    # attempts

    def _attempt(self, write: Write, moment: Moment) -> None:
        """Who asks for it, the guards, and then one attempt."""
        situation = self._situation(write, moment)
        no = (
            objection(write, self._asked()) or first_no(BEFORE_READING, situation) or first_no(AFTER_READING, situation)
        )
        if no is not None:
            if no.reason == "no_longer_holds" and write.state == "planned" and self._at_a_time(write):
                no = replace(no, way="skip")
            self._object(write, no, moment)
            return
        amount = budget_of(situation)
        view = self._books.view(write, moment.now)
        brake = brake_in_transaction(write, amount, self._settings.limits, moment.now, view)
        if brake is not None:
            self._object(write, braked(situation, brake), moment)
            return
        change = sending(write, self._fact(write, fact_name(write.intent), moment), moment.now, situation.judgement.why)
        self._books.move(change)
        sent = Sent(write=write.id, event=write.key.event, at=moment.now, amount=amount, stops=write.intent.stops)
        self._books.attempted(sent, change.after)
        waiting = self._answers.get(write.intent.action)
        if waiting and write.key.item not in ACTIONS[write.intent.action].unseen:
            self._meet(change.after, waiting.pop(0), moment)
        else:
            self._accepted(change.after, moment)

    def _at_a_time(self, write: Write) -> bool:
        found = (self._rules.get(one) for one in write.rules or (write.key.rule,))
        return momentary([rule for rule in found if rule is not None])

    def _accepted(self, write: Write, moment: Moment) -> None:
        """The ordinary way: accepted, there, and seen to be there."""
        self._books.sent += 1
        self._world.take_effect(write)
        step = self._attempted(write, _OK, moment)
        if step.move is not None and step.move.after.state == "applied":
            self._settle(step.move.after, moment)

    def _meet(self, write: Write, answer: Answer, moment: Moment) -> None:
        """An attempt that meets an answer of the test."""
        outcome = self._outcome(answer)
        left = not (isinstance(outcome, NotSent) and outcome.cause == "connect")
        self._books.sent += 1 if left else 0
        if answer.effect_after is not None and left:
            if answer.effect_after > timedelta():
                self._late.append((moment.now + answer.effect_after, write))
            else:
                self._world.take_effect(write)
        if outcome is None:
            return
        step = self._attempted(write, outcome, moment)
        if isinstance(outcome, NotSent) and step.move is not None:
            self._books.not_sent(step.move.after)

    def _attempted(self, write: Write, outcome: Outcome, moment: Moment) -> Next:
        """What the attempt tells, to the write and to the partner's memory."""
        event = Attempted(outcome=outcome, denied_before=in_a_row(self._memory, write))
        self._memory = after_outcome(self._memory, write, outcome, moment.now)
        return self._advance(write, event, moment)

    def _outcome(self, answer: Answer) -> Outcome | None:
        """What the attempt tells the worker; None where the worker ended before it could be told anything."""
        if isinstance(answer.answer, int):
            outcome = self._outcome_of(answer.answer)  # a test's reads are let in: a refused token had just worked
            return replace(outcome, accepted_ago=timedelta(0)) if isinstance(outcome, NotSent) else outcome
        if answer.answer == "crash":
            return None
        why = LOST_ANSWERS[answer.answer]
        return NotSent(cause="connect", why=why) if answer.answer == "no_connection" else Uncertain(why=why)

    # what settles a write

    def _settle(self, write: Write, moment: Moment) -> None:
        """One look as evidence."""
        policy = policy_for(write, self._rules.get(write.key.rule), self._settings)
        if not policy.reads_back:
            return
        fact = self._fact(write, fact_name(write.intent), moment)
        look = looked(
            write,
            fact,
            self._books.of_target(write.key.event, write.intent.target),
            began=moment.seconds,
            running=False,
            event_answered=self._world.listed,
        )
        step = self._advance(write, look, moment)
        if step.then == "send" and look.evidence.says == "not_there":
            current = self._books.writes[write.id]
            if attempts_left(current, policy):
                self._attempt(current, moment)

    def _object(self, write: Write, no: No, moment: Moment) -> None:
        """What a guard's no does to the write."""
        found = objected(write, no, moment.now, self._settings.limits, self._books.memories)
        if found.event is not None:
            self._advance(write, found.event, moment)
        if found.change is not None:
            self._books.move(found.change)
        self._books.memories.update(found.memories or {})

    def _asked(self) -> Asked:
        return Asked(
            rules=self._rules,
            memories=self._books.memories,
            open_writes=self._books.open.values(),
            deciding=self._settings.deciding,
        )

    # what the guards are shown

    def _situation(self, write: Write, moment: Moment) -> Situation:
        key = write.key
        episode = self._books.episode(key.event, key.rule, key.episode)
        rules = rules_for(write, self._rules, self._books.memories)
        seen = moment.seen[key.event]
        return Situation(
            write=write,
            now=moment.now,
            limits=self._settings.limits,
            on_target=self._books.on_target(write),
            earlier=earlier_in_do(write, episode),
            credentials_until=self._memory.denied_until,
            judgement=still_holds(write, rules, episode, seen, self._books.memories, moment.now),
            facts=self._facts(write, moment),
        )

    def _facts(self, write: Write, moment: Moment) -> dict[str, Fact]:
        """The facts that guards ask for; what the test leaves open is filled in so that nothing objects."""
        row = ACTIONS[write.intent.action]
        names = ("partner", "event", "setup", "budget_range", fact_name(write.intent), *row.reads)
        found = {name: self._fact(write, name, moment) for name in names}
        found["partner"] = _filled(found["partner"], {"campaign_recommendations": True}, moment)
        if row.shown in ("field", "series"):
            field = row.target if row.shown == "field" else SERIES
            nothing: Json = "" if row.shown == "field" else []
            if field not in _gaps(found["event"]):
                found["event"] = _filled(found["event"], {field: nothing}, moment)
        found["budget_range"] = _filled(found["budget_range"], _ANY_BUDGET, moment)
        setup = found["setup"]
        draft = isinstance(setup, Known) and isinstance(setup.value, dict) and setup.value.get("state") == "DRAFT"
        if row.budget == "draft" and draft and "total_budget" not in _value(setup):
            found["setup"] = _filled(setup, {"total_budget": 0.0}, moment)
            found["budget_range"] = Known(value=dict(_ANY_BUDGET), read_at=moment.now)
        return found

    def _fact(self, write: Write, name: str, moment: Moment) -> Fact:
        return self._seen(write, name, moment.now)

    def _seen(self, write: Write, name: str, now: datetime) -> Fact:
        if name == CONFIRM:
            return self._world.confirmed(write, now)
        fact = self._world.fact(write.key.event, name, now)
        return Known(value=[], read_at=now) if name == "campaigns" and fact == UNREAD else fact


def _value(fact: Fact) -> Mapping[str, Json]:
    return fact.value if isinstance(fact, Known) and isinstance(fact.value, Mapping) else {}


def _gaps(fact: Fact) -> Mapping[str, str]:
    return fact.gaps if isinstance(fact, Known) else {}


def _filled(fact: Fact, fields: Mapping[str, Json], moment: Moment) -> Fact:
    """The fact with these fields where the test gives none; one that the test makes unreadable stays so."""
    if fact == UNREAD:
        return Known(value=dict(fields), read_at=moment.now)
    if not isinstance(fact, Known):
        return fact
    missing = {name: value for name, value in fields.items() if name not in fact.gaps}
    return replace(fact, value={**missing, **_value(fact)})
