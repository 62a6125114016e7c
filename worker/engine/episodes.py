"""Rules without ``on_change``: one stretch of true is one episode, and one episode fires once.

Opens at a definite true, closes at a definite false; unknown opens, closes, starts and resets nothing. With ``repeat:
enforce`` a new episode opens while the condition holds and the target has drifted from the wanted value.
"""

from dataclasses import replace
from datetime import datetime
from typing import Literal

from worker.engine.looks import (
    ENFORCE_COOLDOWN,
    REOBSERVED,
    Candidate,
    End,
    Glance,
    Glimpse,
    approval,
    pace_brake,
    reobserves,
    waits_again,
    within,
)
from worker.model.actions import ACTIONS
from worker.model.commits import Brake
from worker.model.memory import RuleMemory
from worker.model.rules import Truth
from worker.model.writes import UNSENT, Intent, Write
from worker.rules.durations import duration_text
from worker.writes.computing import NotComputable
from worker.writes.evidence import already_so, fact_name, target_value
from worker.writes.intents import plan_steps, reads_back

BAD_ENDS = frozenset({"rejected", "refused", "unconfirmed"})
"""Ends after which ``enforce`` stops, as it does after a person's reject: the service or a guard said no, or reads
never agreed. A write that was cancelled for another reason (an edited rule, a stronger wish) was nobody's no."""


def glance_at_condition(glimpse: Glimpse) -> Glance:
    """What one look does to a rule without ``on_change``."""
    memory, judgement = glimpse.memory, glimpse.judgement
    if judgement.truth is Truth.UNKNOWN:
        if memory.open and not memory.fired:
            return Glance(memory=memory, held=Brake(reason="fact_unknown", why=judgement.why))
        return Glance(memory=memory)
    if judgement.truth is Truth.FALSE:
        return Glance(memory=closed(memory, glimpse.now), ends=ends_of(glimpse))
    return while_true(glimpse)


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


def ends_of(glimpse: Glimpse) -> tuple[End, ...]:
    """The writes that a closing episode ends: those not sent, and those for a person whose absence is proved."""
    why = f"the condition no longer holds: {glimpse.judgement.why}"
    return tuple(
        End(write=write, reason="no_longer_holds", why=why)
        for write in (*glimpse.writes, *glimpse.joined)
        if write.state in UNSENT or (write.state == "needs_human" and write.absent_proved)
    )


def while_true(glimpse: Glimpse) -> Glance:
    now, memory = glimpse.now, replace(glimpse.memory, looked_at=glimpse.now)
    if not memory.open:
        memory = replace(memory, open=True, fired=False, episode=memory.episode + 1)
    if glimpse.after is not None:
        memory = replace(memory, true_since=now, forced=glimpse.after)
    elif memory.true_since is None or memory.true_since > now:
        memory = replace(memory, true_since=now)
    if memory.fired:
        return _enforced(glimpse, memory) if glimpse.rule.repeat == "enforce" else Glance(memory=memory)
    return _paced(glimpse, memory, memory, "condition", glimpse.judgement.why)


def _paced(
    glimpse: Glimpse, memory: RuleMemory, firing: RuleMemory, reason: Literal["condition", "drift"], why: str
) -> Glance:
    """The firing, unless a key of the rule or a silence before holds it."""
    since = memory.true_since if reason == "condition" else None
    brake = pace_brake(glimpse, since) or (REOBSERVED if reobserves(memory, glimpse.settings) else None)
    if brake is not None:
        return Glance(memory=memory, held=brake)
    forced = approval(memory.forced, glimpse.settings) or waits_again(memory)
    candidate = Candidate(
        glimpse=glimpse,
        episode=firing.episode,
        reason=reason,
        why=why,
        fired=replace(
            firing,
            fired=True,
            fired_at=glimpse.now,
            held=None,
            do_hash=glimpse.rule.do_hash,
            waited=forced.reason if forced is not None else None,
            asked=None,
        ),
        dropped=memory,
        forced=forced,
    )
    return Glance(memory=memory, candidate=candidate)


def _enforced(glimpse: Glimpse, memory: RuleMemory) -> Glance:
    """The target may have drifted: open the next episode, unless something says to leave it alone."""
    so = _as_wanted(glimpse)
    if so is True:
        return Glance(memory=replace(memory, stopped=None, cleared=memory.episode, forced=None, waited=None, held=None))
    if so is None:
        return Glance(memory=memory)
    writes = glimpse.last_firing or _shared(glimpse)
    if any(not write.final for write in writes):
        return Glance(memory=memory)
    bad = _bad_end(writes) if memory.cleared < memory.episode else None
    if bad is not None:
        why = f"the last write ended as {bad.state}: {bad.why}; enforcing stops until the wanted value is read once"
        stopped = replace(memory, stopped=bad.state)
        return Glance(memory=stopped, held=Brake(reason="drift", why=why))
    cooldown = glimpse.rule.cooldown or ENFORCE_COOLDOWN
    moments = [at for at in (memory.fired_at, *glimpse.sendings) if at is not None]
    acted = within(moments, glimpse.now, cooldown)
    if acted:
        last = acted[-1]
        why = f"acted at {last:%H:%M:%S}, cooldown {duration_text(cooldown)}"
        brake = Brake(reason="cooldown", why=why, until=last + cooldown)
        return Glance(memory=memory, held=brake)
    again = replace(memory, episode=memory.episode + 1)
    return _paced(glimpse, memory, again, "drift", "the target no longer has the wanted value")


def _shared(glimpse: Glimpse) -> tuple[Write, ...]:
    """What came of a firing that has planned nothing of its own, because other rules' writes stood for its wishes, once
    those are final: of each target the newest of them."""
    rule, found = glimpse.rule, list[Write]()
    for target in sorted({one.intent.target for one in plan_steps(rule, glimpse.scope, {})}):
        others = (one for one in glimpse.target_writes(target) if one.key.rule != rule.id and rule.id in one.rules)
        found.extend(tuple(others)[-1:])
    return tuple(found)


def _bad_end(writes: tuple[Write, ...]) -> Write | None:
    return next((one for one in writes if one.state in BAD_ENDS or (one.state, one.reason) == _REJECTED), None)


_REJECTED = ("cancelled", "person")


def _as_wanted(glimpse: Glimpse) -> bool | None:
    """Whether every target of the rule has the wanted value now; None where any cannot be told."""
    try:
        planned = plan_steps(glimpse.rule, glimpse.scope, {})
    except NotComputable:
        return None
    if any(one.fault for one in planned):
        return None
    answers = [_so(glimpse, one.intent) for one in planned if reads_back(one.intent, one.item)]
    if any(answer is False for answer in answers):
        return False
    return None if any(answer is None for answer in answers) else True


def _so(glimpse: Glimpse, intent: Intent) -> bool | None:
    """An event without campaigns has nothing to pause, so that is no drift."""
    fact = glimpse.scope.fact(fact_name(intent))
    if ACTIONS[intent.action].null_is_so and target_value(intent, fact) == (True, None):
        return True
    return already_so(intent, fact)
