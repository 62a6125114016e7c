"""Rules without ``on_change``: one stretch of true is one episode, and one episode fires once.

Opens at a definite true, closes at a definite false; unknown opens, closes, starts and resets nothing. With ``repeat:
enforce`` a new episode opens while the condition holds and the target has drifted from the wanted value.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

from worker.engine.views import (
    ENFORCE_COOLDOWN,
    REOBSERVED,
    Candidate,
    End,
    RuleResult,
    RuleView,
    approval,
    as_fired,
    held_by_pace,
    reobserves,
    waits_again,
    within,
)
from worker.model.commits import Hold, RuleMemory
from worker.model.facts import record_of
from worker.model.rules import MISSED_AFTER, Judgement, Rule, Times, Truth
from worker.model.writes import ENDED, UNSENT, Write
from worker.rules.cel import WRITE
from worker.rules.facts import windows_of
from worker.rules.spelling import duration_text
from worker.writes.evidence import already_so, fact_name
from worker.writes.intents import NotComputable, plan_steps, reads_back

BAD_ENDS = frozenset({"rejected", "refused", "unconfirmed"})
"""Ends after which ``enforce`` stops, as it does after an operator's reject: the service or a guard said no, or reads
never agreed. A write that was cancelled for another reason (an edited rule, a stronger wish) was nobody's no."""


def decide_condition(view: RuleView) -> RuleResult:
    """What one poll does to a rule without ``on_change``."""
    memory, judgement = view.memory, view.judgement
    if judgement.truth is Truth.UNKNOWN:
        if memory.open and not memory.fired:
            return RuleResult(memory=memory, held=Hold(reason="fact_unknown", why=judgement.why))
        return RuleResult(memory=memory)
    if judgement.truth is Truth.FALSE:
        return RuleResult(memory=closed(memory, view.now), ends=ends_of(view))
    if memory.open and memory.after < _comes_after(view):
        anew = while_true(replace(view, memory=closed(memory, view.now)))
        return replace(anew, ends=ends_of(view, f"rule {view.rule.after} has fired and written anew"))
    return while_true(view)


def _comes_after(view: RuleView) -> int:
    """What tells the firing of another rule that this one comes after; 0 where it comes after none."""
    fact = view.scope.fact(WRITE) if view.rule.after is not None else None
    first = record_of(fact).get("first")
    return first if isinstance(first, int) else 0


def closed(memory: RuleMemory, now: datetime) -> RuleMemory:
    """The memory after a definite false."""
    return replace(
        memory,
        open=False,
        fired=False,
        true_since=None,
        looked_at=now,
        forced=None,
        waited=None,
        asked=None,
        stopped=None,
        held=None,
    )


def ends_of(view: RuleView, why: str = "") -> tuple[End, ...]:
    """The writes that a closing episode ends: those not sent, and those for an operator whose absence is proved."""
    why = why or f"the condition no longer holds: {view.judgement.why}"
    return tuple(
        End(write=write, reason="no_longer_holds", why=why)
        for write in (*view.writes, *view.joined)
        if (write.state in UNSENT and write.key.item != ENDED) or (write.state == "needs_human" and write.absent_proved)
    )


def while_true(view: RuleView) -> RuleResult:
    memory = replace(view.memory, looked_at=view.now)
    if not memory.open:
        memory = replace(memory, open=True, fired=False, episode=memory.episode + 1, after=_comes_after(view))
    memory = replace(memory, true_since=view.since(memory.true_since), forced=view.silence or memory.forced)
    if memory.fired:
        return _enforced(view, memory) if view.rule.repeat == "enforce" else RuleResult(memory=memory)
    return _paced(view, memory, memory, "condition", view.judgement.why)


def _paced(
    view: RuleView, memory: RuleMemory, firing: RuleMemory, reason: Literal["condition", "drift"], why: str
) -> RuleResult:
    """The firing, unless a key of the rule or a silence before holds it."""
    since = memory.true_since if reason == "condition" else None
    held = held_by_pace(view, since) or (REOBSERVED if reobserves(memory, view.settings) else None)
    if held is not None:
        return RuleResult(memory=memory, held=held)
    forced = approval(memory.forced, view.settings) or waits_again(view.rule, memory)
    candidate = Candidate(
        view=view,
        episode=firing.episode,
        reason=reason,
        why=why,
        fired=as_fired(view, firing, forced),
        dropped=memory,
        forced=forced,
    )
    return RuleResult(memory=memory, candidate=candidate)


def _enforced(view: RuleView, memory: RuleMemory) -> RuleResult:
    """The target may have drifted: open the next episode, unless something says to leave it alone."""
    so = _as_wanted(view)
    if so is True:
        return RuleResult(
            memory=replace(memory, stopped=None, cleared=memory.episode, forced=None, waited=None, held=None)
        )
    if so is None:
        return RuleResult(memory=memory)
    writes = view.last_firing or _shared(view)
    if any(not write.final for write in writes):
        return RuleResult(memory=memory)
    bad = next((one for one in writes if one.state in BAD_ENDS or (one.state, one.reason) == _REJECTED), None)
    if bad is not None and memory.cleared < memory.episode:
        why = f"the last write ended as {bad.state}: {bad.why}; enforcing stops until the wanted value is read once"
        stopped = replace(memory, stopped=bad.state)
        return RuleResult(memory=stopped, held=Hold(reason="drift", why=why))
    cooldown = view.rule.cooldown or ENFORCE_COOLDOWN
    moments = [at for at in (memory.fired_at, *view.sendings) if at is not None]
    acted = within(moments, view.now, cooldown)
    if acted:
        last = acted[-1]
        why = f"acted at {last:%H:%M:%S}, cooldown {duration_text(cooldown)}"
        held = Hold(reason="cooldown", why=why, until=last + cooldown)
        return RuleResult(memory=memory, held=held)
    again = replace(memory, episode=memory.episode + 1)
    return _paced(view, memory, again, "drift", "the target no longer has the wanted value")


def _shared(view: RuleView) -> tuple[Write, ...]:
    """What came of a firing that has planned nothing of its own, because other rules' writes stood for its wishes, once
    those are final: of each target the newest of them."""
    rule, found = view.rule, list[Write]()
    for target in sorted({one.intent.target for one in plan_steps(rule, view.scope, {})}):
        others = (one for one in view.target_writes(target) if one.key.rule != rule.id and rule.id in one.rules)
        found.extend(tuple(others)[-1:])
    return tuple(found)


_REJECTED = ("cancelled", "person")


def _as_wanted(view: RuleView) -> bool | None:
    """Whether every target of the rule has the wanted value now; None where any cannot be told."""
    try:
        planned = plan_steps(view.rule, view.scope, {})
    except NotComputable:
        return None
    if any(one.fault for one in planned):
        return None
    shown = [one.intent for one in planned if reads_back(one.intent, one.item)]
    answers = [already_so(intent, view.scope.fact(fact_name(intent))) for intent in shown]
    if any(answer is False for answer in answers):
        return False
    return None if any(answer is None for answer in answers) else True


# Rules with `at`: looked at only at their times, and each time is an episode of its own. Pure.
#
# A time is due from when it comes until it was dealt with, and for five minutes at the most. Where the rule was looked
# at by then, and facts were not known, it is due until they are, for an hour or until the next time: the request quota
# may let them be read only later. Whatever keeps the rule from being judged or fired for longer makes it a time missed,
# which is told and left. Between its times a rule is not looked at, and it stands for no wish: an episode lasts until
# its writes are final. Nor is anything read for it, but for an hour what a time will look back to. With `for` the
# condition is looked at all the while, because only so is it known since when it holds; it fires at the times alone.
#
# A rule with `on_change` watches as ever; what `at` does there is to hold a change until a time comes.

READ_WITHIN = timedelta(hours=1)
"""How long a time waits for facts that were not known when it came."""
JUST_AFTER = timedelta(microseconds=1)


def stamped_right(rule: Rule, memory: RuleMemory, now: datetime) -> RuleMemory:
    """The memory without a time later than the next one, of which a clock that was ahead has said that it was dealt
    with: none before it would come any more."""
    if rule.at is None or (coming := rule.at.next(now)) is None or (memory.at_time or now) <= coming:
        return memory
    return replace(memory, at_time=rule.at.latest(now))


def due_now(rule: Rule, memory: RuleMemory, now: datetime) -> bool:
    """Whether the condition of a rule is looked at now: always, but for one with ``at``."""
    return rule.at is None or bool(rule.on_change) or rule.hold_for is not None or due(rule, memory, now) is not None


def momentary(rules: Iterable[Rule]) -> bool:
    """Whether these rules ask for something at a time only: what is not true then any more is not waited for."""
    return all(rule.at is not None and not rule.on_change for rule in rules)


def may_be_due(rule: Rule, now: datetime) -> bool:
    """The same for one whose memory is not at hand: whether a time is so near that it may still be due."""
    if rule.at is None or rule.on_change or rule.hold_for is not None:
        return True
    return _near(rule.at, now) or asks_later(rule, now)


def asks_later(rule: Rule, now: datetime) -> bool:
    """Whether a rule with ``at`` will ask at one of its times what facts are now: so far back it looks then."""
    times = rule.at
    return times is not None and any(_near(times, now + window) for window in windows_of([rule]).values())


def _near(times: Times, now: datetime) -> bool:
    time = times.latest(now)
    return time is not None and now - time <= READ_WITHIN


def due(rule: Rule, memory: RuleMemory, now: datetime) -> datetime | None:
    """The time that is to be dealt with now."""
    time = _new_time(rule, memory, now)
    if time is None:
        return None
    return time if now - time <= (READ_WITHIN if _lacked_facts(memory, time) else MISSED_AFTER) else None


def _lacked_facts(memory: RuleMemory, time: datetime) -> bool:
    """Whether the rule was looked at since that time, and facts were not known."""
    return memory.held == "fact_unknown" and memory.looked_at is not None and memory.looked_at >= time


def next_poll(rule: Rule, memory: RuleMemory | None, now: datetime) -> datetime | None:
    """When the clock alone may next change what a rule with ``at`` decides, or what is read for it; now, while a time
    is not dealt with. One that lacks facts waits for them until it is too late."""
    if rule.at is None:
        return None
    time = None if memory is None else _new_time(rule, memory, now)
    if memory is None or (time is not None and not (_lacked_facts(memory, time) and due(rule, memory, now))):
        return now
    edges = [rule.at.next(now), time and time + READ_WITHIN + JUST_AFTER]
    for window in windows_of([rule]).values():
        coming, last = rule.at.next(now + window), rule.at.latest(now + window)
        edges += [coming and coming - window, last and last + READ_WITHIN + JUST_AFTER - window]
    return min((at for at in edges if at is not None and at > now), default=None)


def decide_times(view: RuleView) -> RuleResult:
    """What one poll does to a rule with ``at`` and without ``on_change``."""
    memory = _carried_out(view)
    time = _new_time(view.rule, memory, view.now)
    if time is None:
        return _between(view, memory)
    before = _left_over(view.rule, memory, time)
    if before is not None:
        told = decide_times(replace(view, memory=replace(memory, at_time=before, held=None)))
        return replace(told, missed=told.missed or before)
    if due(view.rule, memory, view.now) is None:
        return _missed(view, memory, time)
    if view.judgement.truth is Truth.UNKNOWN:
        seen = replace(memory, looked_at=view.now, forced=view.silence or memory.forced)
        return RuleResult(memory=seen, held=Hold(reason="fact_unknown", why=view.judgement.why))
    if view.judgement.truth is Truth.FALSE:
        return RuleResult(memory=replace(closed(memory, view.now), at_time=time), ends=ends_of(view))
    begun, going = memory.open and not memory.fired, memory.open and memory.fired
    result = while_true(replace(view, memory=memory if begun else replace(memory, open=False, fired=False)))
    # Unless this time fires, what an earlier one began goes on, as what comes after a wait.
    left = replace(result.memory, episode=memory.episode, fired=True) if going else result.memory
    if result.held is REOBSERVED:
        return replace(result, memory=_dealt_with(left, time))
    if result.candidate is None:
        return replace(result, memory=left)
    fired = replace(result.candidate.fired, at_time=time)
    candidate = replace(result.candidate, fired=fired, dropped=_dealt_with(left, time))
    return replace(result, memory=left, candidate=candidate)


def _left_over(rule: Rule, memory: RuleMemory, time: datetime) -> datetime | None:
    """The time before this one, where facts were lacking until this one came."""
    before = _new_time(rule, memory, time - JUST_AFTER)
    left = before is not None and _lacked_facts(memory, before) and not _lacked_facts(memory, time)
    return before if left else None


def held_by_times(view: RuleView, memory: RuleMemory) -> Hold | None:
    """What holds a pending change until a time comes; None at a time, and for a rule without ``at``."""
    times = view.rule.at
    if times is None or due(view.rule, memory, view.now) is not None:
        return None
    coming = times.next(view.now)
    return Hold(reason="at", why=f"it waits for its time, {times.source} {times.timezone}", until=coming)


def told_by(view: RuleView, result: RuleResult) -> RuleResult:
    """A poll of a change under ``at``: the time that it dealt with, or that went by."""
    time = _new_time(view.rule, result.memory, view.now)
    if time is None:
        return result
    if due(view.rule, result.memory, view.now) is None:
        lost = time if result.memory.pending and view.memory.looked_at is not None else None
        return replace(result, memory=replace(result.memory, at_time=time), missed=lost)
    if result.candidate is not None:
        fired = replace(result.candidate.fired, at_time=time)
        dropped = replace(result.candidate.dropped, at_time=time)
        return replace(result, candidate=replace(result.candidate, fired=fired, dropped=dropped))
    if result.held is not None and result.held is not REOBSERVED:
        return result
    return replace(result, memory=replace(result.memory, at_time=time))


def not_now(rule: Rule) -> Judgement:
    """What is said of a rule between its times."""
    spelled = f"{rule.at.source} {rule.at.timezone}" if rule.at is not None else ""
    return Judgement(truth=Truth.UNKNOWN, why=f"looked at only at its times: {spelled}")


def _new_time(rule: Rule, memory: RuleMemory, now: datetime) -> datetime | None:
    """The last time that has come, if it was not dealt with."""
    time = rule.at.latest(now) if rule.at is not None else None
    if time is None or (memory.at_time is not None and time <= memory.at_time):
        return None
    return time


def _carried_out(view: RuleView) -> RuleMemory:
    """The memory, with an episode closed whose writes are all final."""
    memory = view.memory
    over = memory.open and memory.fired and all(write.final for write in view.last_firing)
    return replace(memory, open=False, fired=False) if over else memory


def _between(view: RuleView, memory: RuleMemory) -> RuleResult:
    """A poll between two times: only with ``for`` does it see anything."""
    now, truth = view.now, view.judgement.truth
    memory = replace(memory, looked_at=now, forced=None, held=None)
    if view.rule.hold_for is None or truth is Truth.UNKNOWN:
        return RuleResult(memory=memory)
    if truth is Truth.FALSE:
        return RuleResult(memory=closed(memory, now), ends=ends_of(view))
    return RuleResult(memory=replace(memory, true_since=view.since(memory.true_since)))


def _missed(view: RuleView, memory: RuleMemory, time: datetime) -> RuleResult:
    """A time that went by. Of those that went by before the rule was ever looked at, or while it rested, nothing is
    told."""
    known = view.memory.looked_at is not None
    left = _dealt_with(replace(memory, looked_at=view.now, forced=None), time)
    return RuleResult(memory=left, missed=time if known else None)


def _dealt_with(memory: RuleMemory, time: datetime) -> RuleMemory:
    return replace(memory, open=memory.open and memory.fired, held=None, at_time=time)
