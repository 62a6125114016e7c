"""Every guard, in the order in which they object: the last no before a write.

The first that objects wins; each gives a stable reason code. Guards are pure and know only a `Situation`. Those of
`BEFORE_READING` cost nothing and come first; those of `AFTER_READING` judge the fresh facts; `held_in_transaction`
runs inside the very transaction that records the attempt.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from worker.model.actions import ACTIONS, BUDGETS, money_in, money_text
from worker.model.commits import Booking, Halt, Hold, SendingView
from worker.model.facts import UNREAD, EventId, Fact, Json, Known, RuleId, Unknown, WriteId, number_of, record_of
from worker.model.rules import Judgement, SpendLimits, Truth
from worker.model.writes import Write
from worker.writes.evidence import (
    alike,
    already_so,
    fact_name,
    judge,
    named_so,
    own_values,
    same,
    same_field,
    target_value,
    unclear,
)
from worker.writes.intents import ADDED, COMPUTED_FROM, EACH, amount_of, amount_of_draft, budgets_of, reads_back
from worker.writes.life import CREDENTIALS_HOLD

# What a guard may look at, and the four ways of saying no.

# Which halt stops a write, for the guard that says no and for those who show what holds a write.
#
# A write keeps what it was held by when it was last judged. Once the halt is ended that is no longer so, and the daemon
# may not be running to say it: whoever shows a write asks here.


def halt_of(write: Write, halts: Iterable[Halt]) -> Halt | None:
    """The halt of everything, the partner or the rule that stops it. A write that several rules want goes on for those
    of them that are not halted."""
    of_partner = [halt for halt in halts if halt.partner in (None, write.key.partner)]
    rules = write.rules or (write.key.rule,)
    found = [next((halt for halt in of_partner if halt.rule in (None, rule)), None) for rule in rules]
    return None if None in found else found[0]


def as_of_now(write: Write, halts: Sequence[Halt]) -> Write:
    """The write to be shown where ``halts`` are in force: not as held by one that has ended."""
    if write.held_by != "halt" or halt_of(write, halts) is not None:
        return write
    return replace(write, held_by=None, held_until=None, why="no longer halted: the next poll judges it anew")


@dataclass(frozen=True, slots=True, kw_only=True)
class No(Hold):
    """A guard's no. ``hold``: the write stays as it is and says why; ``skip`` and ``refuse`` end it; ``ask``: an
    operator shall approve first; ``confirm``: it is there already, by its own earlier attempt.
    ``drop``: an unknown write that is proved absent and that nobody asks for any more."""

    way: Literal["hold", "skip", "refuse", "ask", "confirm", "drop"] = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of the ``safety`` section. ``of_rules``: the spending limits of the rules that a write stands for."""

    writes_per_hour: int = 120
    spend: SpendLimits = field(default_factory=SpendLimits)
    of_rules: Mapping[RuleId, SpendLimits] = field(default_factory=dict)
    held_longer_than: timedelta = timedelta(hours=1)


_NOTHING: Mapping[str, Fact] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One write about to be sent.

    ``on_target``: other unsettled writes of its target. ``earlier``: the writes of its sequence that come before it.
    ``unconfirmed``: assumptions it depends on that nobody confirmed. ``judgement``: its condition on fresh facts.
    ``facts``: the fresh facts by name; ``budget_range`` only where the write carries a budget. ``touched``: of an undo,
    in words, that polls have seen somebody else change its target since it was planned; ``left``: what those of the
    writes that it undoes left there which may have had an effect, and ``left_unread`` that no read has shown it yet.
    ``put_back_by``: the undo that is to put this write back. ``approved_amount``: what somebody who approved it was
    shown that it spends.
    """

    write: Write
    now: datetime
    limits: Limits
    halts: tuple[Halt, ...] = ()
    on_target: tuple[Write, ...] = ()
    earlier: tuple[Write, ...] = ()
    unconfirmed: tuple[str, ...] = ()
    credentials_until: datetime | None = None
    approved_amount: float | None = None
    judgement: Judgement = field(default_factory=lambda: Judgement(truth=Truth.UNKNOWN, why="not judged"))
    facts: Mapping[str, Fact] = field(default_factory=lambda: _NOTHING)
    touched: str | None = None
    left: Mapping[str, Json] | None = None
    left_unread: bool = False
    put_back_by: Write | None = None

    def fact(self, name: str) -> Fact:
        """The fresh fact, or unread."""
        return self.facts.get(name, UNREAD)


# How much money is booked: what the spending limits are compared with. Pure, and the only place that adds.
#
# Booked is what a write adds to the budget that was read before it, as it stood when its attempt was recorded; nothing
# else is ever looked up for it. An attempt counts until it is known to have had no effect; one whose outcome is unknown
# counts. A `boost` adds the budget of the draft that it publishes, but for what its own episode has booked for that
# draft (docs/decisions/0004-a-draft-is-booked-once.md). A write that several rules share counts for each of them.

HOUR, DAY, WEEK = timedelta(hours=1), timedelta(hours=24), timedelta(hours=168)


def held_by_spend(
    event: EventId, amount: float, booked: Sequence[Booking], limits: Limits, now: datetime
) -> Hold | None:
    """The limit that so much more for an event would pass. ``booked``: what other writes of the partner have booked."""
    sets = [("", booked, limits.spend)]
    for rule, of_rule in limits.of_rules.items():
        sets.append((f" by rule {rule}", [one for one in booked if rule in one.rules], of_rule))
    for whose, counted, limit in sets if amount > 0 else ():
        of_event = [one for one in counted if one.event == event]
        held = (
            _passed(amount, of_event, limit.per_event, f"for the event{whose}", None)
            or _passed(amount, _within(counted, now, DAY), limit.per_day, f"in 24 hours{whose}", DAY)
            or _passed(amount, _within(counted, now, WEEK), limit.per_week, f"in 7 days{whose}", WEEK)
        )
        if held is not None:
            return held
    return None


def _passed(
    amount: float, counted: Sequence[Booking], limit: float | None, words: str, window: timedelta | None
) -> Hold | None:
    """The limit, where it would be passed, and until when: as much must have left the window as is too much."""
    before = spent(counted)
    total = round(before + amount, 2)
    if limit is None or total <= limit:
        return None
    sent, adds, would_be, most = map(money_text, (before, amount, total, limit))
    why = f"{sent} sent {words}; with {adds} it would be {would_be}, and {most} is allowed"
    until, room = None, round(limit - amount, 2)
    if window is not None and counted and room >= 0:
        times = sorted(one.at for one in counted)
        first = bisect_left(times, -room, key=lambda at: -spent(one for one in counted if one.at > at))
        until = times[first] + window
    return Hold(reason="spend", why=why, until=until)


def _within(booked: Iterable[Booking], now: datetime, window: timedelta) -> list[Booking]:
    """Those of the window; not what a wrong clock stamped."""
    return [one for one in booked if now - window < one.at <= now + window]


def spent(booked: Iterable[Booking]) -> float:
    """The sum. A write that was sent again counts once, with the most that it carried."""
    each: dict[WriteId, float] = {}
    for one in booked:
        each[one.write] = max(each.get(one.write, 0.0), one.amount)
    return round(sum(each.values()), 2)


def added_by(situation: Situation, booked: Iterable[Booking], sent: Json = None) -> float | None:
    """What the write adds to the budget that was read before it, in the partner's currency: all of it where that is
    not known. None where it carries no money. ``sent``: its query and body as they go out, in which an assumption may
    name or add money."""
    write, intent = situation.write, situation.write.intent
    amount = budget_of(situation, sent)
    if amount is None:
        return None
    if ACTIONS[intent.action].budget == "draft":
        key = write.key
        mine = [one for one in booked if (one.event, one.rule, one.episode) == (key.event, key.rule, key.episode)]
        return max(0.0, amount - spent(one for one in mine if one.target == intent.target))
    unknown = write.state == "unknown" and write.before_known  # what is proved absent reads as it did before
    known = write.before if unknown else target_value(intent, situation.fact(fact_name(intent)))[1]
    there = known if isinstance(known, Mapping) else {}
    kept = sum(
        min(money_in({name: value}) or 0.0, money_in({name: there[name]}) or 0.0)
        for name, value in intent.params.items()
        if name in there
    )
    return round(max(0.0, amount - kept), 2)


# Guards that look at what the write would change: the target itself, the setup it needs, and the money it commits.


def _unread(fact: Fact, lacks: str, *names: str) -> str:
    """Why a fact does not say what is asked of it: it is unknown, or has these fields wrongly, or lacks that."""
    if not isinstance(fact, Known):
        return fact.why
    return "; ".join(f"{name}: {fact.gaps[name]}" for name in names if name in fact.gaps) or lacks


def seen_after_all(situation: Situation) -> No | None:
    """The effect of an earlier attempt of this very write is there: presence confirms, wanted still or not."""
    write = situation.write
    if not write.sent or not reads_back(write.intent, write.key.item) or others_unsettled(situation):
        return None
    if judge(write, situation.fact(fact_name(write.intent))).says != "there":
        return None
    return No(way="confirm", reason="read", why="the target reads as wanted after all")


def others_unsettled(situation: Situation) -> bool:
    """Whether another write on the target may still have an effect."""
    return any(not (other.state == "needs_human" and other.absent_proved) for other in situation.on_target)


def setup_state(situation: Situation) -> No | None:
    """The setup is in a state in which the service takes the write: a draft, or published (API section 3.2)."""
    needs = ACTIONS[situation.write.intent.action].needs
    if not needs:
        return None
    fact = situation.fact("setup")
    state = record_of(fact).get("state")
    if state is None:
        return No(reason="target_unreadable", why=f"setup: {_unread(fact, 'the answer lacks its state', 'state')}")
    if state in needs:
        return None
    if "DRAFT" in needs:
        why = "the event has no draft" if state == "NONE" else "the setup is published: it is no draft any more"
        return No(way="refuse", reason="no_draft", why=why)
    return No(way="refuse", reason="not_published", why=f"the setup is {state}, and must be published")


def item_there(situation: Situation) -> No | None:
    """The item that the write is for is still in its list."""
    write = situation.write
    of = write.intent.context.get(EACH)
    if of in (None, ADDED) or write.sent:
        return None
    fact = situation.fact(str(of))
    if not isinstance(fact, Known) or not isinstance(fact.value, list):
        return No(reason="target_unreadable", why=f"{of}: {_unread(fact, 'it is no list')}")
    name = write.intent.params.get("tc")
    if of == ACTIONS[write.intent.action].own_fact:
        there = bool(named_so(write.intent, fact.value))
    else:
        there = any(isinstance(one, Mapping) and same(one.get("tc"), name) for one in fact.value)
    if there:
        return None
    return No(way="refuse", reason="gone", why=f"{write.key.item} is not among the {of} any more")


def target_says(situation: Situation) -> No | None:
    """The target is readable, and does not have the wanted value already."""
    write = situation.write
    if not reads_back(write.intent, write.key.item):
        return None
    fact = situation.fact(fact_name(write.intent))
    so = already_so(write.intent, fact)
    if so is None:
        return No(reason="target_unreadable", why=unclear(write.intent, fact))
    value = target_value(write.intent, fact)[1]
    of_fields = value if isinstance(value, Mapping) else {}
    if so and not any(_may_be_as_left(situation, *field) for field in of_fields.items()):
        reason, why = "already_so", "the target already has the wanted value"
        if value is None:
            reason, why = "nothing_to_pause", "the event has no campaign status: nothing to pause"
        if others_unsettled(situation):
            return No(reason="target_busy", why=f"{why}; but another write that sets it is not settled")
        return No(way="skip", reason=reason, why=why)
    return None


def _may_be_as_left(situation: Situation, name: str, shown: Json) -> bool:
    """Whether what stands there may be what an undo undoes, shown rounded: no read has told the two apart."""
    left = (situation.left or {}).get(name)
    return situation.left_unread and alike(shown, left) and not same_field(name, shown, left)


def other_half(situation: Situation) -> No | None:
    """What no read shows of a pair goes only with the value that its other half has set (API section 3.2)."""
    intent, record = situation.write.intent, record_of(situation.fact("event"))
    reads, wanted = record.get(intent.target), intent.params.get("value")
    if situation.write.key.item not in ACTIONS[intent.action].unseen or reads == wanted:
        return None
    reason = "no_longer_holds" if intent.target in record else "target_unreadable"
    return No(reason=reason, why=f"{intent.target} reads {reads!r}, and this goes with {wanted!r}")


def as_computed_from(situation: Situation) -> No | None:
    """A relative value is sent only against the value that it was computed from, but for what earlier steps of its own
    sequence have written since: what somebody has set meanwhile stays."""
    write = situation.write
    computed_from = write.intent.context.get(COMPUTED_FROM)
    if not isinstance(computed_from, Mapping):
        return None
    own = ACTIONS[write.intent.action].own_fact
    now = own_values(write.intent, situation.fact(own), computed_from)
    if now is None:
        return No(reason="target_unreadable", why=f"{own}: what the value is computed from cannot be read")
    since = max((one.intent.order for one in situation.earlier if one.waits), default=-1)
    done = [one.intent for one in situation.earlier if one.intent.target == write.intent.target]
    done_since = [one for one in done if one.order > since]
    left, later = ({name: value for one in steps for name, value in one.wanted.items()} for steps in (done, done_since))
    expected = {**computed_from, **later}
    stands = (expected, {**expected, **left})  # what a step before a wait has left counted as it was before that step
    moved = [name for name in computed_from if not any(same_field(name, now[name], one[name]) for one in stands)]
    if not moved:
        return None
    said = ", ".join(f"{name} reads {now[name]!r}, computed from {expected[name]!r}" for name in moved)
    approved = "; it had been approved as it was" if write.approved else ""
    return No(way="skip", reason="moved", why=f"what the value was computed from has moved: {said}{approved}")


def as_approved(situation: Situation) -> No | None:
    """A boost publishes the draft as it is: where that spends more by now than somebody approved, it is asked again."""
    shown, now = situation.approved_amount, budget_of(situation)
    if shown is None or now is None or now <= shown:
        return None
    why = f"{money_text(shown)} was approved, and it spends {money_text(now)} by now"
    return No(way="ask", reason="moved", why=why)


def as_it_was_left(situation: Situation) -> No | None:
    """An undo puts back only what the undone writes left: what somebody else has set since stays, also where that hand
    has set it back to how it was left."""
    write = situation.write
    left = situation.left
    if left is None or not reads_back(write.intent, write.key.item):
        return None
    _, value = target_value(write.intent, situation.fact(fact_name(write.intent)))
    shown = value if isinstance(value, Mapping) else {write.intent.target: value}
    other = [
        name
        for name, was_left in left.items()
        if not same_field(name, shown.get(name), was_left) and not _may_be_as_left(situation, name, shown.get(name))
    ]
    if not other:
        touched = situation.touched
        return None if touched is None else No(way="skip", reason="changed_since", why=touched)
    said = ", ".join(f"{name} reads {shown.get(name)!r} and was left as {left[name]!r}" for name in other)
    return No(way="skip", reason="changed_since", why=f"somebody else has changed it since: {said}")


def created_here(situation: Situation) -> No | None:
    """After ``create_draft`` in the same ``do``, the draft that is boosted must be the one that was created, with what
    later steps have changed of it.

    Where a draft was there already, it must at least be as the rule would have created it: else the rule would publish
    a budget that it does not name.
    """
    if ACTIONS[situation.write.intent.action].budget != "draft":
        return None
    drafts = [one.intent for one in situation.earlier if ACTIONS[one.intent.action].shown == "setup"]
    if not any(ACTIONS[one.action].creates for one in drafts):
        return None
    made = {name: value for one in sorted(drafts, key=lambda one: one.order) for name, value in one.wanted.items()}
    draft = record_of(situation.fact("setup"))
    for name, wanted in made.items():
        if name in draft and not same_field(name, draft[name], wanted):
            why = f"the draft's {name} is {draft[name]!r}, not {wanted!r} as created: somebody changed it"
            return No(way="refuse", reason="other_value", why=why)
    missing = [name for name in made if name not in draft]
    if missing:
        why = f"the draft's {' and '.join(missing)} cannot be read: it may be another than the one created"
        return No(reason="target_unreadable", why=why)
    return None


def budget_in_range(situation: Situation) -> No | None:
    """The budgets that the write commits lie within the service's range for the event (API section 8)."""
    row, intent = ACTIONS[situation.write.intent.action], situation.write.intent
    draft = number_of(record_of(situation.fact("setup")).get("total_budget")) if row.budget == "draft" else None
    budgets = budgets_of(intent) if draft is None else (draft,)
    if not budgets:
        if row.budget == "draft" or not intent.params.keys().isdisjoint(BUDGETS):
            said = _unread(situation.fact("setup"), "it is no number", "total_budget")
            return No(reason="target_unreadable", why=f"the budget it would commit cannot be read: {said}")
        return None
    fact = situation.fact("budget_range")
    low, high = (number_of(record_of(fact).get(name)) for name in ("lower_limit", "upper_limit"))
    if low is None or high is None:
        return No(reason="fact_unknown", why=f"budget_range: {_unread(fact, 'no limit', 'lower_limit', 'upper_limit')}")
    outside = next((budget for budget in budgets if not low <= budget <= high), None)
    if outside is None:
        return None
    budget, least, most = map(money_text, (outside, low, high))
    return No(way="refuse", reason="budget_range", why=f"budget {budget} is outside {least} to {most}")


def budget_of(situation: Situation, sent: Json = None) -> float | None:
    """What the write spends: the money that it carries, or for a boost all that of the draft. ``sent``: its query
    and body as they go out, in which an assumption may name or add money."""
    intent = situation.write.intent
    draft = ACTIONS[intent.action].budget == "draft"
    own = amount_of_draft(record_of(situation.fact("setup"))) if draft else amount_of(intent)
    return max((amount for amount in (own, money_in(sent)) if amount is not None), default=None)


def held_back_off(situation: Situation) -> No | None:
    """A hold with a time of its own that is not over yet."""
    write = situation.write
    if write.held_by in ("backoff", "credentials") and _to_come(write.held_until, situation.now):
        return No(reason=write.held_by, why=write.why, until=write.held_until)
    return None


def _to_come(until: datetime | None, now: datetime) -> bool:
    """Whether a hold lasts on. None is longer than `CREDENTIALS_HOLD`: one that ends later than that from now was
    stamped by a clock that was wrong."""
    return until is not None and now < until <= now + CREDENTIALS_HOLD


def sequence(situation: Situation) -> No | None:
    """A step starts when every step before it is confirmed, or was skipped because it was so already; or where an
    operator has it put back, and this one is about something else."""
    for write in situation.earlier:
        if not write.final:
            return No(reason="sequence", why=f"write {write.id} comes before it")
        if write.state != "confirmed" and not _goes_on(write, situation.write):
            why = f"write {write.id} before it ended as {write.state}, which stops the sequence"
            return No(way="skip", reason="sequence", why=why)
    return None


def _goes_on(ended: Write, step: Write) -> bool:
    """Whether a later step follows one that ended without effect."""
    if ended.reason == "undo":
        return ended.intent.target != step.intent.target
    return ended.state == "skipped" and ended.reason in ("already_so", "nothing_to_pause")


def halted(situation: Situation) -> No | None:
    """An operator's halt of everything, this partner or this rule."""
    halt = halt_of(situation.write, situation.halts)
    return None if halt is None else No(reason="halt", why=f"halted by {halt.by}: {halt.because}", until=halt.until)


def defaults_confirmed(situation: Situation) -> No | None:
    """Against the real service no write depends on a default that nobody has confirmed."""
    if not situation.unconfirmed:
        return None
    names = ", ".join(situation.unconfirmed)
    return No(reason="assumption", why=f"write these into assumptions: once confirmed: {names}")


def credentials(situation: Situation) -> No | None:
    """The partner's writes are held after two refusals of our credentials in a row."""
    until = situation.credentials_until
    if not _to_come(until, situation.now):
        return None
    return No(reason="credentials", why="the service refused the credentials twice in a row", until=until)


def target_free(situation: Situation) -> No | None:
    """One unsettled write per target; only a write that stops spending overtakes an opposite one.

    A message has no target.
    """
    if not situation.write.intent.target:
        return None
    for other in situation.on_target:
        if not _may_overtake(situation.write, other):
            why = f"write {other.id} ({other.intent.action}) is {other.state}, and may change the same"
            return No(reason="target_busy", why=why)
    return None


def _may_overtake(write: Write, other: Write) -> bool:
    if other.state == "needs_human" and other.absent_proved:
        return True
    return write.intent.stops and not other.intent.stops and other.intent.wish != write.intent.wish


def put_back(situation: Situation) -> No | None:
    """A write that an operator is about to have put back is not sent once more, only to be undone after that: not where
    it is unknown and was proved absent, nor where its attempt never left, or a verdict grants it another. What holds
    it, as a halt does, comes first: then the undo is not about to be sent either, and may still be rejected. So it may
    while it waits for approval: that long the write is held."""
    undo = situation.put_back_by
    if undo is None:
        return None
    if undo.state == "waiting":
        return No(reason="undo", why=f"write {undo.id} is to put it back, and waits for approval")
    way: Literal["drop", "skip"] = "drop" if situation.write.state == "unknown" else "skip"
    return No(way=way, reason="undo", why=f"write {undo.id} puts it back")


def product_on(situation: Situation) -> No | None:
    """The partner's campaign product is on; unknown holds as well, because nothing is sent on a guess."""
    fact = situation.fact("partner")
    flag = record_of(fact).get("campaign_recommendations")
    if flag is True:
        return None
    if flag is False:
        return No(reason="product_off", why="the partner's campaign_recommendations is off")
    said = _unread(fact, "the answer lacks campaign_recommendations", "campaign_recommendations")
    return No(reason="fact_unknown", why=f"partner: {said}")


def condition_holds(situation: Situation) -> No | None:
    """The condition holds on facts read just now. A write of an operator (an undo) has none and passes."""
    judgement = situation.judgement
    event = situation.fact("event")
    if not isinstance(event, Known):
        reason = "event_gone" if event.code == "gone" else "fact_unknown"
        return No(reason=reason, why=f"event: {event.why}")
    if judgement.truth is Truth.TRUE:
        return None
    if judgement.truth is Truth.FALSE:
        return No(reason="no_longer_holds", why=judgement.why)
    facts = [situation.fact(path.partition(".")[0]) for path in judgement.unknown]
    off = any(isinstance(fact, Unknown) and fact.code == "product_off" for fact in facts)
    return No(reason="product_off" if off else "fact_unknown", why=judgement.why)


def held_over(situation: Situation) -> No | None:
    """A write that could not be sent for too long asks an operator also where nothing holds it any more."""
    no = too_old(situation, No(reason=situation.write.held_by or situation.write.reason, why=situation.write.why))
    return no if no.way == "ask" else None


HELD_UNASKED = frozenset({"spend", "writes_per_hour", "between"})
"""What may hold a write for as long as it likes: nobody is asked to let it go."""


def _held_long(situation: Situation) -> bool:
    """Whether it could have been sent long ago: a later step not before the one that it follows was, or ended."""
    before = [one.first_sent_at or one.changed_at for one in situation.earlier if one.sent or one.final]
    return abs(situation.now - max([situation.write.due_since, *before])) > situation.limits.held_longer_than


def out_of_date(situation: Situation) -> str | None:
    """Why the values of a write must be computed anew before it is sent; None where they need not: a spending limit has
    held it so long that what they were computed from is long ago."""
    write = situation.write
    if write.held_by != "spend" or write.state != "planned" or write.sent or not _held_long(situation):
        return None
    return f"a spending limit held it for longer than {situation.limits.held_longer_than}"


def too_old(situation: Situation, no: No) -> No:
    """A write held for too long waits for an operator instead of going off at an odd hour.

    It counts from when the write could first have been sent: attempts proven unsent, and other reasons, begin nothing
    anew. A beginning that lies as far in the future tells of a clock that was wrong, and not of a short hold. A step is
    held as the one that it follows.
    """
    write = situation.write
    holds = {no.reason, *(one.held_by for one in situation.earlier if no.reason == "sequence" and not one.final)}
    unasked = not write.intent.target or holds & HELD_UNASKED or out_of_date(situation) is not None
    if no.way != "hold" or write.state != "planned" or unasked or not _held_long(situation):
        return no
    why = f"not sent for longer than {situation.limits.held_longer_than} ({no.reason}: {no.why})"
    return No(way="ask", reason="gap", why=why)


Guard = Callable[[Situation], No | None]

BEFORE_READING: tuple[Guard, ...] = (
    held_back_off,
    sequence,
    halted,
    defaults_confirmed,
    credentials,
    target_free,
    put_back,
    held_over,
)


def waited(situation: Situation) -> No:
    """What ends a wait is the next poll (`worker.engine.planning`). One that began further ahead than it is long was
    stamped by a clock that was wrong, and is over."""
    began, until = waits_from(situation.write, situation.earlier)
    over = began - situation.now > until - began
    return No(reason="wait", why=f"it waits since {began:%Y-%m-%dT%H:%M:%S}Z", until=None if over else until)


def earlier_in_do(write: Write, episode: Iterable[Write]) -> tuple[Write, ...]:
    """Of an episode's writes, those of the steps before this one's."""
    return tuple(one for one in episode if one.step and one.intent.order < write.intent.order)


def waits_from(wait: Write, earlier: Iterable[Write]) -> tuple[datetime, datetime]:
    """When a wait began, with the end of the step before, by whomever, and when it is over."""
    began = max((one.changed_at for one in earlier if one.final), default=wait.planned_at)
    seconds = wait.intent.params.get("value")
    return began, began + timedelta(seconds=float(seconds) if isinstance(seconds, int | float) else 0.0)


OF_WAITS: tuple[Guard, ...] = (sequence, waited)
"""What a step that is only a time waits for."""
OF_MESSAGES: tuple[Guard, ...] = (held_back_off, sequence, halted)
"""All that holds a message, beside the mode: it is no business of the service's, and costs nothing."""
AFTER_READING: tuple[Guard, ...] = (
    product_on,
    seen_after_all,
    condition_holds,
    setup_state,
    item_there,
    target_says,
    other_half,
    as_computed_from,
    as_approved,
    as_it_was_left,
    created_here,
    budget_in_range,
)


def as_no(situation: Situation, held: Hold) -> No:
    """A limit of the transaction as a guard's no: it holds, and a hold that lasts too long asks an operator."""
    return too_old(situation, No(reason=held.reason, why=held.why, until=held.until))


def first_no(guards: tuple[Guard, ...], situation: Situation) -> No | None:
    """The first objection, or None."""
    no = next(filter(None, (guard(situation) for guard in guards)), None)
    return None if no is None else too_old(situation, no)


def held_in_transaction(
    write: Write, amount: float | None, limits: Limits, now: datetime, view: SendingView
) -> Hold | None:
    """The limits that are read in the transaction that records the attempt: nothing can slip in between."""
    situation = Situation(write=write, now=now, limits=limits, halts=view.halts, on_target=view.on_target)
    if (no := halted(situation) or target_free(situation)) is not None:
        return no
    sent, most = sorted(view.sent_last_hour), limits.writes_per_hour
    if not write.intent.stops and write.intent.target and len(sent) >= most:
        until = sent[-most] + HOUR if sent and most else None
        why = f"{len(sent)} writes in the last hour, {most} are allowed"
        return Hold(reason="writes_per_hour", why=why, until=until)
    return None if amount is None else held_by_spend(write.key.event, amount, view.booked, limits, now)
