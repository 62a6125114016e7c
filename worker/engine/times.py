"""Rules with `at`: looked at only at their times, and each time is an episode of its own. Pure.

A time is due from when it comes until it was dealt with, and for five minutes at the most: whatever keeps the rule from
being judged or fired for longer makes it a time missed, which is told and left. Between its times a rule is not looked
at, nothing is read for it, and it stands for no wish: an episode lasts until its writes are final. With `for` the
condition is looked at all the while, because only so is it known since when it holds; it fires at the times alone.

A rule with `on_change` watches as ever; what `at` does there is to hold a change until a time comes.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from worker.engine.episodes import closed, ends_of, while_true
from worker.engine.looks import REOBSERVED, Glance, Glimpse
from worker.model.commits import Brake
from worker.model.memory import RuleMemory
from worker.model.rules import Judgement, Rule, Truth

MISSED_AFTER = timedelta(minutes=5)


def looks_now(rule: Rule, memory: RuleMemory, now: datetime) -> bool:
    """Whether the condition of a rule is looked at now: always, but for one with ``at``."""
    return rule.at is None or bool(rule.on_change) or rule.hold_for is not None or due(rule, memory, now) is not None


def momentary(rules: Iterable[Rule]) -> bool:
    """Whether these rules ask for something at a time only: what is not true then any more is not waited for."""
    return all(rule.at is not None and not rule.on_change for rule in rules)


def may_be_due(rule: Rule, now: datetime) -> bool:
    """The same for one whose memory is not at hand: whether a time is so near that it may still be due."""
    if rule.at is None or rule.on_change or rule.hold_for is not None:
        return True
    time = rule.at.latest(now)
    return time is not None and now - time <= MISSED_AFTER


def due(rule: Rule, memory: RuleMemory, now: datetime) -> datetime | None:
    """The time that is to be dealt with now."""
    time = _new_time(rule, memory, now)
    return time if time is not None and now - time <= MISSED_AFTER else None


def next_look(rule: Rule, memory: RuleMemory | None, now: datetime) -> datetime | None:
    """When the clock may next change what a rule with ``at`` decides; now, while a time is not dealt with."""
    if rule.at is None:
        return None
    if memory is None or _new_time(rule, memory, now) is not None:
        return now
    return rule.at.next(now)


def glance_at_times(glimpse: Glimpse) -> Glance:
    """What one look does to a rule with ``at`` and without ``on_change``."""
    memory = _carried_out(glimpse)
    time = _new_time(glimpse.rule, memory, glimpse.now)
    if time is None:
        return _between(glimpse, memory)
    if glimpse.now - time > MISSED_AFTER:
        return _missed(glimpse, memory, time)
    if glimpse.judgement.truth is Truth.UNKNOWN:
        seen = replace(memory, looked_at=glimpse.now, forced=glimpse.after or memory.forced)
        return Glance(memory=seen, held=Brake(reason="fact_unknown", why=glimpse.judgement.why))
    if glimpse.judgement.truth is Truth.FALSE:
        return Glance(memory=replace(closed(memory, glimpse.now), at_time=time), ends=ends_of(glimpse))
    begun = memory.open and not memory.fired
    glance = while_true(replace(glimpse, memory=memory if begun else replace(memory, open=False, fired=False)))
    if glance.held is REOBSERVED:
        return replace(glance, memory=_dealt_with(glance.memory, time))
    if glance.candidate is None:
        return glance
    fired = replace(glance.candidate.fired, at_time=time)
    dropped = _dealt_with(glance.candidate.dropped, time)
    return replace(glance, candidate=replace(glance.candidate, fired=fired, dropped=dropped))


def at_brake(glimpse: Glimpse, memory: RuleMemory) -> Brake | None:
    """What holds a pending change until a time comes; None at a time, and for a rule without ``at``."""
    times = glimpse.rule.at
    if times is None or due(glimpse.rule, memory, glimpse.now) is not None:
        return None
    coming = times.next(glimpse.now)
    return Brake(reason="at", why=f"it waits for its time, {times.source} {times.timezone}", until=coming)


def told_by(glimpse: Glimpse, glance: Glance) -> Glance:
    """A look at a change under ``at``: the time that it dealt with, or that went by."""
    time = _new_time(glimpse.rule, glance.memory, glimpse.now)
    if time is None:
        return glance
    if glimpse.now - time > MISSED_AFTER:
        lost = time if glance.memory.pending and glimpse.memory.looked_at is not None else None
        return replace(glance, memory=replace(glance.memory, at_time=time), missed=lost)
    if glance.candidate is not None:
        fired = replace(glance.candidate.fired, at_time=time)
        dropped = replace(glance.candidate.dropped, at_time=time)
        return replace(glance, candidate=replace(glance.candidate, fired=fired, dropped=dropped))
    if glance.held is not None and glance.held is not REOBSERVED:
        return glance
    return replace(glance, memory=replace(glance.memory, at_time=time))


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


def _carried_out(glimpse: Glimpse) -> RuleMemory:
    """The memory, with an episode closed whose writes are all final."""
    memory = glimpse.memory
    over = memory.open and memory.fired and all(write.final for write in glimpse.last_firing)
    return replace(memory, open=False, fired=False) if over else memory


def _between(glimpse: Glimpse, memory: RuleMemory) -> Glance:
    """A look between two times: only with ``for`` does it see anything."""
    now, truth = glimpse.now, glimpse.judgement.truth
    memory = replace(memory, looked_at=now, forced=None, held=None)
    if glimpse.rule.hold_for is None or truth is Truth.UNKNOWN:
        return Glance(memory=memory)
    if truth is Truth.FALSE:
        return Glance(memory=replace(closed(memory, now)), ends=ends_of(glimpse))
    since = memory.true_since if memory.true_since is not None and glimpse.after is None else now
    return Glance(memory=replace(memory, true_since=since))


def _missed(glimpse: Glimpse, memory: RuleMemory, time: datetime) -> Glance:
    """A time that went by. Of those that went by before the rule was ever looked at, or while it rested, nothing is
    told."""
    known = glimpse.memory.looked_at is not None
    left = _dealt_with(replace(memory, looked_at=glimpse.now, forced=None), time)
    return Glance(memory=left if not memory.fired else replace(memory, at_time=time), missed=time if known else None)


def _dealt_with(memory: RuleMemory, time: datetime) -> RuleMemory:
    return replace(memory, open=False, fired=False, held=None, at_time=time)
