"""Rules with ``on_change``: a remembered value, a pending change, and one firing per change.

The first value seen is the baseline and never fires. Another value is pending; a return drops it. It is judged at the
first look at which ``for``, ``cooldown`` and ``limit`` let it go. A baseline holds only while ``when`` has not been
definitely false since: so reading eagerly and reading lazily decide alike. What is unknown, unreadable or not computed
yet is no value: it keeps everything as it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from worker.engine.episodes import ends_of
from worker.engine.looks import Candidate, End, Glance, Glimpse, pace_brake
from worker.model.actions import ACTIONS
from worker.model.commits import Brake
from worker.model.facts import Json, Known
from worker.model.memory import Baseline, RuleMemory
from worker.model.rules import Truth, Watch
from worker.model.writes import UNSENT
from worker.rules.evaluate import difference, normalised, watch_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The watched values that this look could see, by key text; and all key texts that could be resolved."""

    values: Mapping[str, Json]
    watches: Mapping[str, Watch]
    resolved: bool


def glance_at_change(glimpse: Glimpse) -> Glance:
    """What one look does to a rule with ``on_change``."""
    if glimpse.judgement.truth is Truth.FALSE:
        return Glance(memory=_forgotten(glimpse), ends=ends_of(glimpse))
    seen = _seen(glimpse)
    memory, ends = _settled(glimpse, _kept(glimpse.memory, seen), seen)
    memory = _compared(glimpse, memory, seen)
    if glimpse.judgement.truth is Truth.TRUE:
        memory = replace(memory, looked_at=glimpse.now)
    if not memory.pending:
        return Glance(memory=memory, ends=ends)
    brake = pace_brake(glimpse, memory.pending_since)
    if brake is not None:
        return Glance(memory=replace(memory, pending_unheld_since=None), held=brake, ends=ends)
    if glimpse.judgement.truth is Truth.UNKNOWN:
        since = memory.pending_unheld_since or glimpse.now
        held = Brake(reason="fact_unknown", why=glimpse.judgement.why)
        return Glance(memory=replace(memory, pending_unheld_since=since), held=held, ends=ends)
    return Glance(memory=memory, candidate=_candidate(glimpse, memory, seen), ends=ends)


def change_facts(memory: RuleMemory, watches: Mapping[str, Watch]) -> dict[str, Json]:
    """``previous``, ``added`` and ``removed`` against the baseline before the firing; empty without a pending change.

    ``previous`` maps each watched fact to its remembered value; ``added`` and ``removed`` list the items of list facts.
    """
    if not memory.pending:
        return {}
    previous: dict[str, Json] = {}
    added: list[Json] = []
    removed: list[Json] = []
    base = _base(memory)
    for key, watch in watches.items():
        if key not in base:
            continue
        old = base[key].value
        previous[watch.fact] = old
        new = memory.pending.get(key, old)
        if isinstance(old, list) and isinstance(new, list):
            plus, minus = difference(old, new)
            added.extend(plus)
            removed.extend(minus)
    return {"previous": previous, "added": added, "removed": removed}


def extra_facts(glimpse_memory: RuleMemory, glimpse: Glimpse) -> dict[str, Json]:
    """The change facts a condition is judged with at this look, before the look has changed the memory."""
    seen = _seen(glimpse)
    return change_facts(_compared(glimpse, _kept(glimpse_memory, seen), seen), seen.watches)


def _seen(glimpse: Glimpse) -> Seen:
    values: dict[str, Json] = {}
    watches: dict[str, Watch] = {}
    resolved = True
    for watch in glimpse.rule.on_change:
        key = glimpse.scope.keys.get(watch.fact)
        if key is None:
            resolved = False
            continue
        text = watch_key(key, watch)
        watches[text] = watch
        fact = glimpse.scope.observation.get(key)
        if isinstance(fact, Known):
            value = normalised(fact, watch)
            if value is not None:
                values[text] = value
    return Seen(values=values, watches=watches, resolved=resolved)


def _forgotten(glimpse: Glimpse) -> RuleMemory:
    return replace(
        glimpse.memory,
        open=False,
        fired=False,
        baselines={},
        pending={},
        pending_since=None,
        pending_unheld_since=None,
        before_firing={},
        forced=None,
        held=None,
        looked_at=glimpse.now,
    )


def _kept(memory: RuleMemory, seen: Seen) -> RuleMemory:
    """Baselines belong to their parameters: those of other parameters go, once the new ones are resolved."""
    if not seen.resolved or set(memory.baselines) <= set(seen.watches):
        return memory
    return replace(
        memory,
        baselines={key: value for key, value in memory.baselines.items() if key in seen.watches},
        pending={key: value for key, value in memory.pending.items() if key in seen.watches},
        before_firing={key: value for key, value in memory.before_firing.items() if key in seen.watches},
    )


def _settled(glimpse: Glimpse, memory: RuleMemory, seen: Seen) -> tuple[RuleMemory, tuple[End, ...]]:
    """What became of the last firing: sent, ended, or unsent and perhaps no longer needed."""
    if not memory.open:
        return memory, ()
    writes = glimpse.episode_writes(memory.episode)
    own = any(write.sent for write in writes) and _writes_watched(glimpse, seen)
    if own:
        memory = _moved(memory, seen)
    if all(write.final for write in writes):
        return replace(memory, open=False, fired=False, before_firing={}), ()
    if any(write.sent for write in writes):
        return replace(memory, before_firing={}), ()
    before = memory.before_firing
    back = bool(before) and all(key in seen.values and seen.values[key] == base.value for key, base in before.items())
    if not back:
        return memory, ()
    why = "the watched value is back where it was before the change"
    ends = tuple(
        End(write=write, reason="no_longer_holds", why=why) for write in glimpse.sequence if write.state in UNSENT
    )
    returned = replace(
        memory, open=False, fired=False, baselines={**memory.baselines, **before}, before_firing={}, pending={}
    )
    return replace(returned, pending_since=None, pending_unheld_since=None), ends


def _writes_watched(glimpse: Glimpse, seen: Seen) -> bool:
    """Whether the rule's own actions write a fact that it watches."""
    written = {fact for step in glimpse.rule.do for fact, _ in ACTIONS[step.action].writes}
    return any(watch.fact in written for watch in seen.watches.values())


def _moved(memory: RuleMemory, seen: Seen) -> RuleMemory:
    """A change that the rule's own write made moves the baseline and fires nothing."""
    moved = {
        key: replace(base, value=seen.values[key]) if key in seen.values else base
        for key, base in memory.baselines.items()
    }
    return replace(memory, baselines=moved, pending={}, pending_since=None, pending_unheld_since=None)


def _compared(glimpse: Glimpse, memory: RuleMemory, seen: Seen) -> RuleMemory:
    baselines = dict(memory.baselines)
    pending = dict(memory.pending)
    since, forced = memory.pending_since, memory.forced
    for key, value in seen.values.items():
        base = baselines.get(key)
        if base is None:
            baselines[key] = Baseline(value=value, seen_at=glimpse.now)
        elif value == base.value:
            pending.pop(key, None)
        elif pending.get(key) != value:
            forced = forced if pending else None
            pending[key] = value
            since = glimpse.now
            forced = glimpse.after or forced
    if not pending:
        return replace(
            memory, baselines=baselines, pending={}, pending_since=None, pending_unheld_since=None, forced=None
        )
    if glimpse.after is not None and since is not None and since < glimpse.now:
        since, forced = glimpse.now, glimpse.after
    return replace(memory, baselines=baselines, pending=pending, pending_since=since, forced=forced)


def _base(memory: RuleMemory) -> Mapping[str, Baseline]:
    """The baselines that a firing is against: those before an unsent firing that this one replaces, else today's."""
    return {**memory.baselines, **memory.before_firing}


def _candidate(glimpse: Glimpse, memory: RuleMemory, seen: Seen) -> Candidate:
    now = glimpse.now
    base = _base(memory)
    moved = {
        key: Baseline(value=memory.pending[key], seen_at=now) if key in memory.pending else old
        for key, old in memory.baselines.items()
    }
    dropped = replace(
        memory,
        baselines=moved,
        pending={},
        pending_since=None,
        pending_unheld_since=None,
        before_firing={},
        forced=None,
        held=None,
    )
    fired = replace(
        dropped,
        open=True,
        fired=True,
        episode=memory.episode + 1,
        fired_at=now,
        before_firing={key: base[key] for key in moved if key in base},
        do_hash=glimpse.rule.do_hash,
    )
    forced = memory.forced
    unheld = memory.pending_unheld_since
    if forced is None and unheld is not None and now - unheld > glimpse.settings.gap:
        forced = "gap"
    names = ", ".join(sorted({seen.watches[key].fact for key in memory.pending if key in seen.watches}))
    return Candidate(
        glimpse=glimpse,
        episode=memory.episode + 1,
        reason="change",
        why=f"{names} changed; {glimpse.judgement.why}",
        fired=fired,
        dropped=dropped,
        extra=change_facts(memory, seen.watches),
        forced=forced,
    )
