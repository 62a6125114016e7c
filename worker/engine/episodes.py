"""Rules without ``on_change``: one stretch of true is one episode, and one episode fires once.

Opens at a definite true, closes at a definite false; unknown opens, closes, starts and resets nothing. With ``repeat:
enforce`` a new episode opens while the condition holds and the target has drifted from the wanted value.
"""

from dataclasses import replace
from datetime import datetime

from worker.engine.looks import ENFORCE_COOLDOWN, Candidate, End, Glance, Glimpse, pace_brake
from worker.model.commits import Brake
from worker.model.memory import RuleMemory
from worker.model.rules import Truth
from worker.model.writes import UNSENT, Write
from worker.writes.evidence import already_so, fact_name
from worker.writes.intents import NotComputable, plan_steps

BAD_ENDS = frozenset({"rejected", "refused", "unconfirmed", "cancelled"})
"""Ends after which ``enforce`` stops: the service, a guard or a person said no, or reads never agreed."""


def glance_at_condition(glimpse: Glimpse) -> Glance:
    """What one look does to a rule without ``on_change``."""
    memory, judgement = glimpse.memory, glimpse.judgement
    if judgement.truth is Truth.UNKNOWN:
        if memory.open and not memory.fired:
            return Glance(memory=memory, held=Brake(reason="fact_unknown", why=judgement.why))
        return Glance(memory=memory)
    if judgement.truth is Truth.FALSE:
        return Glance(memory=closed(memory, glimpse.now), ends=ends_of(glimpse))
    return _while_true(glimpse)


def closed(memory: RuleMemory, now: datetime) -> RuleMemory:
    """The memory after a definite false."""
    return replace(
        memory, open=False, fired=False, true_since=None, looked_at=now, forced=None, stopped=None, held=None
    )


def ends_of(glimpse: Glimpse) -> tuple[End, ...]:
    """The writes that a closing episode ends: those not sent, and those for a person whose absence is proved."""
    why = f"the condition no longer holds: {glimpse.judgement.why}"
    return tuple(
        End(write=write, reason="no_longer_holds", why=why)
        for write in glimpse.writes
        if write.state in UNSENT or (write.state == "needs_human" and write.absent_proved)
    )


def _while_true(glimpse: Glimpse) -> Glance:
    now, memory = glimpse.now, glimpse.memory
    if not memory.open:
        memory = replace(
            memory,
            open=True,
            fired=False,
            episode=memory.episode + 1,
            true_since=now,
            forced=glimpse.after,
        )
    elif glimpse.after is not None:
        memory = replace(memory, true_since=now, forced=glimpse.after if not memory.fired else memory.forced)
    memory = replace(memory, looked_at=now)
    if memory.fired:
        return _enforced(glimpse, memory) if glimpse.rule.repeat == "enforce" else Glance(memory=memory)
    brake = pace_brake(glimpse, memory.true_since)
    if brake is not None:
        return Glance(memory=memory, held=brake)
    return Glance(memory=memory, candidate=_candidate(glimpse, memory, "condition", glimpse.judgement.why))


def _candidate(glimpse: Glimpse, memory: RuleMemory, reason: str, why: str) -> Candidate:
    fired = replace(memory, fired=True, fired_at=glimpse.now, held=None, do_hash=glimpse.rule.do_hash)
    return Candidate(
        glimpse=glimpse,
        episode=memory.episode,
        reason="drift" if reason == "drift" else "condition",
        why=why,
        fired=fired,
        dropped=memory,
        forced=memory.forced,
    )


def _enforced(glimpse: Glimpse, memory: RuleMemory) -> Glance:
    """The target may have drifted: open the next episode, unless something says to leave it alone."""
    so = _as_wanted(glimpse)
    if so is True:
        return Glance(memory=replace(memory, stopped=None, cleared=memory.episode, held=None))
    writes = glimpse.episode_writes(memory.episode)
    if so is None or any(not write.final for write in writes):
        return Glance(memory=memory)
    bad = _bad_end(writes) if memory.cleared < memory.episode else None
    if bad is not None:
        why = f"the last write ended as {bad.state}: {bad.why}; enforcing stops until the wanted value is read once"
        stopped = replace(memory, stopped=bad.state)
        return Glance(memory=stopped, held=Brake(reason="drift", why=why))
    cooldown = glimpse.rule.cooldown or ENFORCE_COOLDOWN
    last = max((at for at in (memory.fired_at, *glimpse.sendings) if at is not None), default=None)
    if last is not None and glimpse.now < last + cooldown:
        brake = Brake(reason="cooldown", why=f"acted at {last:%H:%M:%S}, cooldown {cooldown}", until=last + cooldown)
        return Glance(memory=memory, held=brake)
    brake_now = pace_brake(glimpse, None)
    if brake_now is not None:
        return Glance(memory=memory, held=brake_now)
    again = replace(memory, episode=memory.episode + 1)
    return Glance(
        memory=memory, candidate=_candidate(glimpse, again, "drift", "the target no longer has the wanted value")
    )


def _bad_end(writes: tuple[Write, ...]) -> Write | None:
    return next((write for write in writes if write.state in BAD_ENDS), None)


def _as_wanted(glimpse: Glimpse) -> bool | None:
    """Whether every target of the rule has the wanted value now; None where any cannot be told."""
    try:
        planned = plan_steps(glimpse.rule, glimpse.scope, {})
    except NotComputable:
        return None
    answers = []
    for one in planned:
        if one.item == "cr":
            continue
        answers.append(already_so(one.intent, glimpse.scope.fact(fact_name(one.intent))))
    if any(answer is False for answer in answers):
        return False
    return None if any(answer is None for answer in answers) else True
