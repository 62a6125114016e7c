"""Every guard, in the order in which they object."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Literal

from worker.guards.halts import halt_of
from worker.guards.situation import Limits, No, Situation
from worker.guards.spending import spend_brake
from worker.guards.target import (
    as_approved,
    as_computed_from,
    as_it_was_left,
    budget_in_range,
    created_here,
    seen_after_all,
    setup_state,
    target_says,
)
from worker.model.commits import Booking, Brake, SendingView
from worker.model.facts import Known, Unknown
from worker.model.rules import Truth
from worker.model.writes import Write
from worker.writes.denials import CREDENTIALS_HOLD

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
    """A step starts when every step before it is confirmed, or was skipped because it was so already; or where a person
    has it put back, and this one is about something else."""
    for write in situation.earlier:
        if not write.final:
            return No(way="hold", reason="sequence", why=f"write {write.id} before it is {write.state}")
        if write.state != "confirmed" and not _goes_on(write, situation.write):
            why = f"write {write.id} before it ended as {write.state}, which stops the sequence"
            return No(way="skip", reason="sequence", why=why)
    return None


def _goes_on(ended: Write, step: Write) -> bool:
    """Whether a later step follows one that ended without effect."""
    if ended.reason == "undo":
        return ended.intent.target != step.intent.target
    return ended.state == "skipped" and ended.reason in _SO_ALREADY


_SO_ALREADY = frozenset({"already_so", "nothing_to_pause"})


def halted(situation: Situation) -> No | None:
    """A person's halt of everything, this partner or this rule."""
    halt = halt_of(situation.write, situation.halts)
    if halt is None:
        return None
    return No(way="hold", reason="halt", why=f"halted by {halt.by}: {halt.because}", until=halt.until)


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
    """One unsettled write per target; only a write that stops spending overtakes an opposite one.

    A message has no target.
    """
    if not situation.write.intent.target:
        return None
    for other in situation.on_target:
        if other.id != situation.write.id and not _may_overtake(situation.write, other):
            return No(way="hold", reason="target_busy", why=f"write {other.id} on the same target is {other.state}")
    return None


def _may_overtake(write: Write, other: Write) -> bool:
    if other.state == "needs_human" and other.absent_proved:
        return True
    return write.intent.stops and not other.intent.stops and other.intent.wish != write.intent.wish


def put_back(situation: Situation) -> No | None:
    """A write that a person is about to have put back is not sent once more, only to be undone after that: not where it
    is unknown and was proved absent, nor where its attempt never left, or a verdict grants it another. What holds it,
    as a halt does, comes first: then the undo is not about to be sent either, and may still be rejected. So it may
    while it waits for approval: that long the write is held."""
    undo = situation.put_back_by
    if undo is None:
        return None
    if undo.state == "waiting":
        return No(way="hold", reason="undo", why=f"write {undo.id} is to put it back, and waits for approval")
    way: Literal["drop", "skip"] = "drop" if situation.write.state == "unknown" else "skip"
    return No(way=way, reason="undo", why=f"a person has it put back, by write {undo.id}")


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
    if judgement.truth is Truth.FALSE:
        return No(way="hold", reason="no_longer_holds", why=judgement.why)
    facts = [situation.fact(path.partition(".")[0]) for path in judgement.unknown]
    off = any(isinstance(fact, Unknown) and fact.code == "product_off" for fact in facts)
    return No(way="hold", reason="product_off" if off else "fact_unknown", why=judgement.why)


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
    put_back,
    held_over,
)
AFTER_READING: tuple[Guard, ...] = (
    product_on,
    seen_after_all,
    condition_holds,
    setup_state,
    target_says,
    as_computed_from,
    as_approved,
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
    if not write.intent.stops and write.intent.target and len(view.sent_last_hour) >= limits.writes_per_hour:
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


__all__ = ["AFTER_READING", "BEFORE_READING", "brake_in_transaction", "first_no"]
