"""What an attempt begins with, what a guard's no makes of a write, and whether what it stands for still holds. Pure.

The daemon's executor and rule tests both go through here, so that a test can never send, hold or end a write where the
daemon would not. What differs between them, the reading and the storing, stays with them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from worker.engine.edits import let_go
from worker.engine.needs import scope_of
from worker.engine.overlay import fields_of, with_fields
from worker.guards.checks import too_old
from worker.guards.situation import Limits, No, Situation
from worker.model.commits import Move
from worker.model.facts import Fact, FactKey, Known, Observation
from worker.model.ids import EventId, RuleId
from worker.model.memory import RuleMemory
from worker.model.rules import Judgement, Rule, Truth
from worker.model.writes import State, Write
from worker.rules.evaluate import normalised, watch_key
from worker.rules.registry import LOCAL
from worker.writes.evidence import target_value
from worker.writes.inputs import Unwanted
from worker.writes.states import hold, move

Memories = Mapping[tuple[EventId, RuleId], RuleMemory]
_ENDS: Mapping[str, State] = {"skip": "skipped", "refuse": "refused", "ask": "waiting", "confirm": "confirmed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Objected:
    """What becomes of a write that a guard objects to: a change of it, or something for `advance` to judge. Neither:
    nothing changes. ``memories``: of the rules that it ended for, which may fire anew."""

    change: Move | None = None
    event: Unwanted | None = None
    memories: Memories | None = None


def earlier_in_do(write: Write, episode: Iterable[Write]) -> tuple[Write, ...]:
    """Of an episode's writes, those of the actions before this one."""
    return tuple(one for one in episode if one.intent.order < write.intent.order)


def sending(write: Write, fact: Fact | None, now: datetime, why: str) -> Move:
    """The write as it is recorded before its bytes leave. ``fact``: its target as it was just read, None if it was not;
    what it was before the first attempt is kept through all others."""
    changes: dict[str, object] = {
        "attempt": write.attempt + 1,
        "last_sent_at": now,
        "first_sent_at": write.first_sent_at or now,
    }
    if not write.before_known:
        readable, value = target_value(write.intent, fact) if fact is not None else (False, None)
        changes |= {"before": value, "before_known": readable}
    reason = "resend" if write.state == "unknown" else write.reason
    return move(write, "sending", at=now, reason=reason, why=f"attempt {write.attempt + 1}: {why}", **changes)


def objected(write: Write, no: No, now: datetime, limits: Limits, memories: Memories) -> Objected:
    """What a guard's no does to a write that has not been sent, or whose last attempt was proved absent."""
    no = too_old(Situation(write=write, now=now, limits=limits), no)
    if no.way == "drop":
        ended = move(
            write, "cancelled", at=now, reason=no.reason, why=f"proved absent, and {no.why}", absent_proved=True
        )
        return Objected(change=ended, memories=let_go(write, no.reason, memories))
    if write.state == "unknown" and no.reason in ("no_longer_holds", "moved"):
        return Objected(event=Unwanted(reason=no.reason, why=f"proved absent, and no longer wanted: {no.why}"))
    if no.way == "hold" or write.state == "unknown":
        until = no.until if no.way == "hold" else None
        return Objected(change=hold(write, at=now, reason=no.reason, why=no.why, until=until))
    to = _ENDS[no.way]
    changes: dict[str, object] = {"confirmed_by": "read"} if to == "confirmed" else {}
    return Objected(change=move(write, to, at=now, reason=no.reason, why=no.why, **changes))


def still_holds(
    write: Write, rules: Sequence[Rule], episode: Iterable[Write], seen: Observation, memories: Memories, now: datetime
) -> Judgement:
    """True where any of the rules that ask for the write still holds by these facts; unknown where none holds and one
    cannot be told. ``episode``: the writes of its episode."""
    if write.undo:
        return Judgement(truth=Truth.TRUE, why="an undo has no condition")
    if not rules:
        return Judgement(truth=Truth.FALSE, why="its rule is gone")
    earlier = earlier_in_do(write, episode)
    judged = [_of_rule(write, rule, earlier, seen, memories, now) for rule in rules]
    for truth in (Truth.TRUE, Truth.UNKNOWN, Truth.FALSE):
        for judgement in judged:
            if judgement.truth is truth:
                return judgement
    return judged[0]


def _of_rule(
    write: Write, rule: Rule, earlier: tuple[Write, ...], seen: Observation, memories: Memories, now: datetime
) -> Judgement:
    """One rule; where earlier actions of its ``do`` have changed facts, over these as they were at the firing."""
    written = write.intent.context.get("written")
    if rule.id == write.key.rule and earlier and isinstance(written, Mapping):
        fields = {pair for one in earlier for pair in fields_of(one)}
        seen = with_fields(seen, fields, written)
    scope = scope_of(rule, seen, now)
    if rule.on_change:
        extra = {name: write.intent.context[name] for name in LOCAL if name in write.intent.context}
        scope = replace(scope, extra=extra)
        moved = _moved_on(memories.get((write.key.event, rule.id)), rule, scope.keys, seen)
        if moved is not None:
            return moved
    return Judgement(truth=Truth.TRUE, why="no condition") if rule.when is None else rule.when.judge(scope)


def _moved_on(
    memory: RuleMemory | None, rule: Rule, keys: Mapping[str, FactKey], seen: Observation
) -> Judgement | None:
    """A watched value that has changed again since the firing: the next look decides what becomes of the write."""
    if memory is None:
        return None
    for watch in rule.on_change:
        key = keys.get(watch.fact)
        base = memory.baselines.get(watch_key(key, watch)) if key is not None else None
        if key is None or base is None:
            continue
        fact = seen.get(key)
        if not isinstance(fact, Known):
            return Judgement(truth=Truth.UNKNOWN, why=f"{watch.fact}: {fact.why}", unknown=(watch.fact,))
        if normalised(fact, watch) != base.value:
            return Judgement(truth=Truth.FALSE, why=f"{watch.fact} has changed again since the rule fired")
    return None
