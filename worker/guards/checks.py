"""Every guard, in the order in which they object."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from worker.guards.situation import Limits, No, Situation
from worker.guards.spending import spend_brake
from worker.model.commits import Booking, Brake, Halt, SendingView
from worker.model.facts import Known
from worker.model.rules import Truth
from worker.model.writes import Write
from worker.writes.denials import CREDENTIALS_HOLD
from worker.writes.evidence import already_so, fact_name, target_value
from worker.writes.intents import amount_of, reads_back

HOUR = timedelta(hours=1)


def held_back_off(situation: Situation) -> No | None:
    """A hold with a time of its own that is not over yet."""
    write = situation.write
    if write.held_by in ("backoff", "credentials") and _to_come(write.held_until, situation.now):
        return No(way="hold", reason=write.held_by, why=write.why, until=write.held_until)
    return None


def _to_come(until: datetime | None, now: datetime) -> bool:
    """Whether a hold lasts on. None is longer than `CREDENTIALS_HOLD`: one that ends later than that from now was
    stamped by a clock that was wrong."""
    return until is not None and now < until <= now + CREDENTIALS_HOLD


def sequence(situation: Situation) -> No | None:
    """A step starts when every step before it is confirmed, or was skipped because it was so already."""
    for write in situation.earlier:
        if not write.final:
            return No(way="hold", reason="sequence", why=f"write {write.id} before it is {write.state}")
        if write.state != "confirmed" and not (write.state == "skipped" and write.reason in _SO_ALREADY):
            why = f"write {write.id} before it ended as {write.state}, which stops the sequence"
            return No(way="skip", reason="sequence", why=why)
    return None


_SO_ALREADY = frozenset({"already_so", "nothing_to_pause"})


def halted(situation: Situation) -> No | None:
    """A person's halt of everything, this partner or this rule."""
    for halt in situation.halts:
        if _covers(halt, situation.write):
            return No(way="hold", reason="halt", why=f"halted by {halt.by}: {halt.because}", until=halt.until)
    return None


def _covers(halt: Halt, write: Write) -> bool:
    return (halt.partner is None or halt.partner == write.key.partner) and (
        halt.rule is None or halt.rule == write.key.rule
    )


def vouched(situation: Situation) -> No | None:
    """Against the real service no write leans on a default that nobody has confirmed."""
    if not situation.unvouched:
        return None
    names = ", ".join(situation.unvouched)
    return No(way="hold", reason="assumption", why=f"write these into assumptions: once confirmed: {names}")


def credentials(situation: Situation) -> No | None:
    """The partner's writes are held after two refusals of our credentials in a row."""
    until = situation.credentials_until
    if not _to_come(until, situation.now):
        return None
    return No(way="hold", reason="credentials", why="the service refused the credentials twice in a row", until=until)


def target_free(situation: Situation) -> No | None:
    """One unsettled write per target; only a write that stops spending overtakes an opposite one."""
    for other in situation.on_target:
        if other.id != situation.write.id and not _may_overtake(situation.write, other):
            return No(way="hold", reason="target_busy", why=f"write {other.id} on the same target is {other.state}")
    return None


def _may_overtake(write: Write, other: Write) -> bool:
    if other.state == "needs_human" and other.absent_proved:
        return True
    return write.intent.stops and not other.intent.stops and other.intent.wish != write.intent.wish


def product_on(situation: Situation) -> No | None:
    """The partner's campaign product is on; unknown holds as well, because nothing is sent on a guess."""
    fact = situation.fact("partner")
    if not isinstance(fact, Known) or not isinstance(fact.value, Mapping):
        why = fact.why if not isinstance(fact, Known) else "the partner record has no usable form"
        return No(way="hold", reason="fact_unknown", why=f"partner: {why}")
    flag = fact.value.get("campaign_recommendations")
    if flag is True:
        return None
    if flag is False:
        return No(way="hold", reason="product_off", why="the partner's campaign_recommendations is off")
    return No(way="hold", reason="fact_unknown", why="the partner record lacks campaign_recommendations")


def condition_holds(situation: Situation) -> No | None:
    """The condition holds on facts read just now. A write of a person (an undo) has none and passes."""
    judgement = situation.judgement
    event = situation.fact("event")
    if not isinstance(event, Known):
        reason = "event_gone" if event.code == "gone" else "fact_unknown"
        return No(way="hold", reason=reason, why=f"event: {event.why}")
    if judgement.truth is Truth.TRUE:
        return None
    reason = "no_longer_holds" if judgement.truth is Truth.FALSE else "fact_unknown"
    return No(way="hold", reason=reason, why=judgement.why)


def seen_after_all(situation: Situation) -> No | None:
    """The effect of an earlier attempt of this very write is there: presence confirms, wanted still or not."""
    write = situation.write
    if not write.sent or not reads_back(write.intent, write.key.item) or _others_unsettled(situation):
        return None
    if not already_so(write.intent, situation.fact(fact_name(write.intent))):
        return None
    return No(way="confirm", reason="read", why="the target reads as wanted after all")


def _others_unsettled(situation: Situation) -> bool:
    return any(
        other.id != situation.write.id and not (other.state == "needs_human" and other.absent_proved)
        for other in situation.on_target
    )


def target_says(situation: Situation) -> No | None:
    """The target is readable, and does not have the wanted value already."""
    write = situation.write
    if not reads_back(write.intent, write.key.item):
        return None
    fact = situation.fact(fact_name(write.intent))
    readable, value = target_value(write.intent, fact)
    if not readable:
        why = fact.why if not isinstance(fact, Known) else "the answer lacks the target's field"
        return No(way="hold", reason="target_unreadable", why=why)
    if already_so(write.intent, fact):
        return _so_already(situation)
    if write.intent.action == "pause" and value is None:
        if _others_unsettled(situation):
            why = "there is nothing to pause yet, but another write on the target is not settled"
            return No(way="hold", reason="target_busy", why=why)
        return No(way="skip", reason="nothing_to_pause", why="the event has no campaign status: nothing to pause")
    if write.intent.action == "boost" and isinstance(value, Mapping) and value.get("state") == "NONE":
        return No(way="refuse", reason="no_draft", why="the event has no draft to publish")
    return None


def _so_already(situation: Situation) -> No:
    if _others_unsettled(situation):
        why = "the target reads as wanted, but another write on it is not settled"
        return No(way="hold", reason="target_busy", why=why)
    return No(way="skip", reason="already_so", why="the target already has the wanted value")


def as_it_was_left(situation: Situation) -> No | None:
    """An undo puts back only what the undone writes left: what another hand has set since stays."""
    write = situation.write
    left = write.intent.context.get("left")
    if not isinstance(left, Mapping) or not reads_back(write.intent, write.key.item):
        return None
    _, value = target_value(write.intent, situation.fact(fact_name(write.intent)))
    shown = value if isinstance(value, Mapping) else {write.intent.target: value}
    other = [name for name, was_left in left.items() if shown.get(name) != was_left]
    if not other:
        return None
    said = ", ".join(f"{name} reads {shown.get(name)!r} and was left as {left[name]!r}" for name in other)
    return No(way="skip", reason="changed_since", why=f"another hand has changed it since: {said}")


def created_here(situation: Situation) -> No | None:
    """After ``create_draft`` in the same ``do``, the draft that is boosted must be the one that was created.

    Where a draft was there already, it must at least be as the rule would have created it: else the rule would publish
    a budget that it does not name.
    """
    write = situation.write
    if write.intent.action != "boost":
        return None
    made = next((one for one in situation.earlier if one.intent.action == "create_draft"), None)
    fact = situation.fact("setup")
    if made is None or not isinstance(fact, Known) or not isinstance(fact.value, Mapping):
        return None
    for name, wanted in made.intent.wanted.items():
        if name in fact.value and fact.value[name] != wanted:
            why = f"the draft's {name} is {fact.value[name]!r}, not {wanted!r} as created: somebody changed it"
            return No(way="refuse", reason="other_value", why=why)
    missing = [name for name in made.intent.wanted if name not in fact.value]
    if missing:
        why = f"the draft's {' and '.join(missing)} cannot be read: it may be another than the one created"
        return No(way="hold", reason="target_unreadable", why=why)
    return None


def budget_in_range(situation: Situation) -> No | None:
    """The budget that the write commits lies within the service's range for the event (API section 8)."""
    amount = budget_of(situation)
    if amount is None:
        if situation.write.intent.action in ("boost", "create_draft"):
            return No(way="hold", reason="target_unreadable", why="the budget it would commit cannot be read")
        return None
    fact = situation.fact("budget_range")
    if not isinstance(fact, Known) or not isinstance(fact.value, Mapping):
        why = fact.why if not isinstance(fact, Known) else "the budget range has no usable form"
        return No(way="hold", reason="fact_unknown", why=f"budget_range: {why}")
    low, high = fact.value.get("lower_limit"), fact.value.get("upper_limit")
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return No(way="hold", reason="fact_unknown", why="budget_range lacks a limit")
    if low <= amount <= high:
        return None
    return No(way="refuse", reason="budget_range", why=f"budget {amount:g} is outside {low:g} to {high:g}")


def budget_of(situation: Situation) -> float | None:
    """What the write commits: its own budget, or for a boost the draft's."""
    write = situation.write
    if write.intent.action != "boost":
        return amount_of(write.intent)
    fact = situation.fact("setup")
    if isinstance(fact, Known) and isinstance(fact.value, Mapping):
        value = fact.value.get("total_budget")
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def held_over(situation: Situation) -> No | None:
    """A write that could not be sent for too long asks a person also where nothing holds it any more."""
    write = situation.write
    no = too_old(situation, No(way="hold", reason=write.held_by or write.reason, why=write.why))
    return no if no.way == "ask" else None


def too_old(situation: Situation, no: No) -> No:
    """A write held for too long waits for a person instead of going off at an odd hour.

    It counts from when the write could first have been sent: attempts proven unsent, and other reasons, begin nothing
    anew. A beginning that lies as far in the future tells of a clock that was wrong, and not of a short hold.
    """
    write = situation.write
    fresh = abs(situation.now - write.due_since) <= situation.limits.held_longer_than
    if no.way != "hold" or write.state != "planned" or fresh:
        return no
    why = f"not sent for longer than {situation.limits.held_longer_than} ({no.reason}: {no.why})"
    return No(way="ask", reason="gap", why=why)


Guard = Callable[[Situation], No | None]

BEFORE_READING: tuple[Guard, ...] = (
    held_back_off,
    sequence,
    halted,
    vouched,
    credentials,
    target_free,
    held_over,
)
AFTER_READING: tuple[Guard, ...] = (
    product_on,
    seen_after_all,
    condition_holds,
    target_says,
    as_it_was_left,
    created_here,
    budget_in_range,
)


def braked(situation: Situation, brake: Brake) -> No:
    """A brake of the transaction as a guard's no: it holds, and a hold that lasts too long asks a person."""
    return too_old(situation, No(way="hold", reason=brake.reason, why=brake.why, until=brake.until))


def first_no(guards: tuple[Guard, ...], situation: Situation) -> No | None:
    """The first objection, or None."""
    for guard in guards:
        no = guard(situation)
        if no is not None:
            return too_old(situation, no)
    return None


def brake_in_transaction(
    write: Write, amount: float | None, limits: Limits, now: datetime, view: SendingView
) -> Brake | None:
    """The brakes that are read in the transaction that records the attempt: nothing can slip in between."""
    situation = Situation(write=write, now=now, limits=limits, halts=view.halts, on_target=view.on_target)
    for guard in (halted, target_free):
        no = guard(situation)
        if no is not None:
            return Brake(reason=no.reason, why=no.why, until=no.until)
    if not write.intent.stops and len(view.sent_last_hour) >= limits.writes_per_hour:
        until = min(view.sent_last_hour) + HOUR if view.sent_last_hour else None
        why = f"{len(view.sent_last_hour)} writes in the last hour, {limits.writes_per_hour} are allowed"
        return Brake(reason="writes_per_hour", why=why, until=until)
    if amount is None:
        return None
    mine = Booking(
        write=write.id,
        event=write.key.event,
        action=write.intent.action,
        target=write.intent.target,
        at=now,
        amount=amount,
    )
    return spend_brake(mine, view.booked, limits, now)


__all__ = ["AFTER_READING", "BEFORE_READING", "brake_in_transaction", "budget_of", "first_no"]
