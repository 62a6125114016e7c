"""Rules with ``on_change``: a remembered value, a pending change, and one firing per change.

The first value seen is the baseline and never fires. Another value is pending; a return drops it. It is judged at the
first poll of which ``for``, ``cooldown`` and ``limit`` let it go, and is the baseline from then on, fired or not: a
state that was seen once is a state. What costs a request per event is forgotten while the rest of ``when`` is false, so
that reading eagerly and reading lazily decide alike. What is unknown, unreadable or not computed yet is no value: it
keeps everything as it was.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from worker.engine.episodes import ends_of, held_by_times, told_by
from worker.engine.views import (
    REOBSERVED,
    Candidate,
    End,
    RuleResult,
    RuleView,
    approval,
    as_fired,
    held_by_pace,
    reobserves,
    waits,
    waits_again,
)
from worker.model.actions import ACTIONS, UNDO, WAIT
from worker.model.commits import Baseline, Hold, RuleMemory
from worker.model.facts import EventId, Fact, FactKey, Json, Known, Observation, RuleId, record_of
from worker.model.rules import Rule, Scope, Truth, Watch
from worker.model.writes import UNSENT, Write
from worker.rules.cel import WRITE
from worker.rules.facts import difference, normalised, unless_reordered, watch_key
from worker.writes.evidence import alike, named_so, same_field
from worker.writes.intents import ADDED, EACH
from worker.writes.undo import may_have_effect

WritesOf = Callable[[EventId, RuleId, int], Sequence[Write]]
"""The writes of one episode, final ones too."""

# While a sequence runs, its condition is judged without what the sequence itself has changed.
#
# A rule that creates a draft and then boosts it is true only while there is no draft; after its first step that would
# be false, and the second would never be sent. So the fields that an earlier, already sent action of the same ``do``
# writes keep the value they had at the firing, which stands in the context of every write of that firing.


def written_values(rule: Rule, scope: Scope) -> dict[str, Json]:
    """The fields that the rule's actions write, as they are now: ``{"setup.state": "NONE"}``; unreadable ones not."""
    return values_at(scope, [pair for step in rule.do for pair in ACTIONS[step.action].written(step.params)])


def values_at(scope: Scope, fields: Iterable[tuple[str, str]]) -> dict[str, Json]:
    """What stands at these (fact, field) pairs now; an empty field is the whole fact."""
    found: dict[str, Json] = {}
    for name, field in fields:
        fact = scope.fact(name)
        if isinstance(fact, Known) and not field:
            found[name] = fact.value
        elif field in record_of(fact):
            found[f"{name}.{field}"] = record_of(fact)[field]
    return found


def overlaid(
    seen: Observation, rule: Rule, memory: RuleMemory, writes: Iterable[Write], episode_writes: WritesOf
) -> Observation:
    """What the rule is judged by: while a firing of it runs, as that saw it in the fields that its sent actions write.
    ``writes``: those that are open."""
    steps = [step.action for step in rule.do] if memory.open else []
    if len(steps) < 2 and UNDO not in steps:
        return seen
    firing = memory.event, memory.rule, memory.episode
    running = [one for one in writes if one.step and (one.key.event, one.key.rule, one.key.episode) == firing]
    context = next((write.intent.context.get("written") for write in running), None)
    if not isinstance(context, Mapping):
        return seen
    pending = min(write.intent.order for write in running)
    fields = _fields_before(rule, running, pending)
    if UNDO in steps:
        undone = [one for one in episode_writes(*firing) if one.undo and (one.sent or one.intent.order < pending)]
        fields |= {pair for one in undone for pair in fields_of(one)} | undone_by_now(undone)
    if WAIT in steps:
        fields = left_so(seen, fields, episode_writes(*firing))
    return with_fields(seen, fields, context)


def to_compute_from(judged: Observation, seen: Observation, rule: Rule, done: Sequence[Write]) -> Observation:
    """What values after a wait are computed from: what the condition is ``judged`` by, but lists as they are ``seen``
    now. A field of an item that still is what one of these writes made of it counts as before that write."""
    lists = {name for step in rule.do for name, field in ACTIONS[step.action].written(step.params) if not field}
    facts = {key: _as_before(fact, done) for key, fact in seen.facts.items() if key.name in lists}
    return replace(judged, facts={**judged.facts, **facts})


def _as_before(fact: Fact, done: Sequence[Write]) -> Fact:
    if not isinstance(fact, Known) or not isinstance(fact.value, list):
        return fact
    items = list(fact.value)
    for write in reversed(done):
        before = write.before if write.sent and isinstance(write.before, Mapping) else {}
        for index, item in enumerate(items):
            if isinstance(item, dict) and named_so(write.intent, [item]):
                made = {name: value for name, value in _made(write).items() if name in item and name in before}
                left = {name: before[name] for name, value in made.items() if same_field(name, item[name], value)}
                items[index] = {**item, **left}
    return replace(fact, value=items)


def undone_by_now(writes: Iterable[Write]) -> set[tuple[str, str]]:
    """Of a rule that undoes the one it comes after, ``write``: what it has put back stands no more."""
    return {(WRITE, "")} if any(one.undo for one in writes) else set()


def left_so(observation: Observation, fields: Iterable[tuple[str, str]], done: Sequence[Write]) -> set[tuple[str, str]]:
    """Those of the fields that still are what these writes made of them: over a wait, others may have changed them."""
    return {(name, field) for name, field in fields if not field or _left_so(observation, name, field, done)}


def _left_so(observation: Observation, name: str, field: str, done: Sequence[Write]) -> bool:
    record = record_of(observation.get(FactKey(name=name)))
    made = [wants[field] for one in done if (name, field) in fields_of(one) and field in (wants := _made(one))]
    return not made or (field in record and any(same_field(field, record[field], one) for one in made))


def with_fields(observation: Observation, fields: Iterable[tuple[str, str]], values: Mapping[str, Json]) -> Observation:
    """The observation with these (fact, field) pairs set to their values at the firing; what was unknown then is
    unknown again. An empty field is the whole fact."""
    facts = dict(observation.facts)
    for name, field in fields:
        # of other rules too, which are not looked at here
        for key in [one for one in facts if one.name == WRITE] if name == WRITE else [FactKey(name=name)]:
            fact = facts.get(key)
            if isinstance(fact, Known) and not field:
                facts.pop(key)
                if name in values:
                    facts[key] = replace(fact, value=values[name])
            elif isinstance(fact, Known) and isinstance(fact.value, dict):
                value = {part: old for part, old in fact.value.items() if part != field}
                if f"{name}.{field}" in values:
                    value[field] = values[f"{name}.{field}"]
                facts[key] = replace(fact, value=value)
    return replace(observation, facts=facts)


def _fields_before(rule: Rule, writes: Sequence[Write], pending: int) -> set[tuple[str, str]]:
    """What the sent actions write: those before the first unfinished one, and unfinished ones that were sent."""
    first = next(write for write in writes if write.intent.order == pending)
    done = {pair for step in rule.do[: first.key.position] for pair in ACTIONS[step.action].written(step.params)}
    return done | {pair for write in writes if write.sent for pair in fields_of(write)}


def fields_of(write: Write) -> tuple[tuple[str, str], ...]:
    """The (fact, field) pairs that a write changes."""
    return ACTIONS[write.intent.action].written(write.intent.params)


def _made(write: Write) -> dict[str, Json]:
    """What it makes of its fields, as far as that is told."""
    return {**ACTIONS[write.intent.action].brings, **write.intent.wanted}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What this poll shows of the watched facts, before the condition is judged.

    ``values`` and ``watches`` are by key text; ``memory`` has compared them; ``ends`` are unsent writes of a change
    that was taken back.
    """

    values: Mapping[str, Json]
    watches: Mapping[str, Watch]
    memory: RuleMemory
    ends: tuple[End, ...]

    @property
    def complete(self) -> bool:
        """Whether every remembered value has been seen at this poll."""
        return self.memory.baselines.keys() <= self.values.keys()

    @property
    def unseen(self) -> tuple[str, ...]:
        """The pending values that this poll could not see: they may be gone again."""
        return tuple(sorted(self.memory.pending.keys() - self.values.keys()))


def watch(view: RuleView) -> Watched:
    """Sees the watched values and compares them with what is remembered."""
    values, watches, resolved = _seen(view)
    memory = _kept(view.memory, watches) if resolved else view.memory
    memory, ends = _settled(view, memory, values, watches)
    unasked = _unasked(memory, values, watches)
    before = memory.before_firing  # tells what the last firing came of, until something of it is sent
    over = any(key not in before or before[key].value != memory.baselines[key].value for key in unasked)
    memory = _compared(view, memory, values, unasked)
    if memory.baselines:
        memory = replace(memory, looked_at=view.now)
    watched = Watched(values=values, watches=watches, memory=memory, ends=ends)
    return _closed(view, watched, "the change is not any more the one that the rule asks for") if over else watched


def change_facts(watched: Watched) -> dict[str, Json]:
    """``previous``, ``added`` and ``removed`` against the baseline before the firing; empty without a pending change.

    ``previous`` maps each watched fact to its remembered value; ``added`` and ``removed`` list the items of list facts.
    """
    memory = watched.memory
    if not memory.pending:
        return {}
    previous: dict[str, Json] = {}
    added: list[Json] = []
    removed: list[Json] = []
    base = _base(memory)
    for key, one in watched.watches.items():
        if key not in base:
            continue
        old = base[key].value
        previous[one.fact] = old
        new = memory.pending.get(key, memory.baselines[key].value)
        if isinstance(old, list) and isinstance(new, list):
            plus, minus = difference(old, new)
            added.extend(plus)
            removed.extend(minus)
    return {"previous": previous, "added": added, "removed": removed}


def decide_change(view: RuleView, watched: Watched) -> RuleResult:
    """What one poll does to a rule with ``on_change``."""
    return told_by(view, _result(view, watched))


def _result(view: RuleView, watched: Watched) -> RuleResult:
    truth = view.judgement.truth
    if truth is Truth.FALSE:
        watched = _closed(view, watched)
    memory = watched.memory
    if not memory.pending:
        forced = None if watched.complete else memory.forced
        return RuleResult(memory=replace(memory, forced=forced, held=None), ends=watched.ends)
    held = held_by_times(view, memory) or held_by_pace(view, memory.pending_since)
    if held is not None:
        return RuleResult(memory=replace(memory, pending_unheld_since=None), held=held, ends=watched.ends)
    if truth is Truth.FALSE:
        return RuleResult(memory=_consumed(watched), ends=watched.ends)
    unheld = replace(memory, pending_unheld_since=memory.pending_unheld_since or view.now)
    if truth is Truth.UNKNOWN or watched.unseen:
        why = view.judgement.why if truth is Truth.UNKNOWN else f"not readable now: {', '.join(watched.unseen)}"
        return RuleResult(memory=unheld, held=Hold(reason="fact_unknown", why=why), ends=watched.ends)
    if reobserves(memory, view.settings):
        return RuleResult(memory=_consumed(watched), held=REOBSERVED, ends=watched.ends)
    return RuleResult(memory=unheld, candidate=_candidate(view, watched), ends=watched.ends)


def _closed(view: RuleView, watched: Watched, why: str = "") -> Watched:
    """A definite false ends the episode, and what is not read while it is so is forgotten."""
    memory = watched.memory
    kept = {
        key
        for key, one in watched.watches.items()
        if not one.costly or view.rule.may_hold(view.scope.without(one.fact))
    }
    pending = {key: value for key, value in memory.pending.items() if key in kept}
    memory = replace(
        memory,
        open=False,
        fired=False,
        baselines={key: value for key, value in memory.baselines.items() if key in kept},
        pending=pending,
        pending_since=memory.pending_since if pending else None,
        pending_unheld_since=memory.pending_unheld_since if pending else None,
        before_firing={},
        waited=None,
        asked=memory.asked if pending else None,
        looked_at=view.now,
    )
    return replace(watched, memory=memory, ends=ends_of(view, why))


def _seen(view: RuleView) -> tuple[dict[str, Json], dict[str, Watch], bool]:
    """The values that this poll could see, the watches by key text, and whether all their parameters are known."""
    values: dict[str, Json] = {}
    watches: dict[str, Watch] = {}
    resolved = True
    for one in view.rule.on_change:
        key = view.scope.keys.get(one.fact)
        if key is None:
            resolved = False
            continue
        text = watch_key(key, one)
        watches[text] = one
        fact = view.scope.observation.get(key)
        value = normalised(fact, one) if isinstance(fact, Known) else None
        if value is not None:
            values[text] = unless_reordered(value, _remembered(view.memory, text))
    return values, watches, resolved


def _remembered(memory: RuleMemory, text: str) -> list[Json]:
    """What the watched value was before the firing, when it was judged last, and when it changed."""
    known = [baselines[text].value for baselines in (memory.before_firing, memory.baselines) if text in baselines]
    return [*known, memory.pending[text]] if text in memory.pending else known


def _kept(memory: RuleMemory, watches: Mapping[str, Watch]) -> RuleMemory:
    """Baselines belong to their parameters: those of other parameters go, once the new ones are resolved."""
    if memory.baselines.keys() <= watches.keys():
        return memory
    return replace(
        memory,
        baselines={key: value for key, value in memory.baselines.items() if key in watches},
        pending={key: value for key, value in memory.pending.items() if key in watches},
        before_firing={key: value for key, value in memory.before_firing.items() if key in watches},
    )


def _settled(
    view: RuleView, memory: RuleMemory, values: Mapping[str, Json], watches: Mapping[str, Watch]
) -> tuple[RuleMemory, tuple[End, ...]]:
    """What became of the last firing: sent, ended, or unsent and perhaps no longer needed."""
    may_be_own = _may_be_own(view, memory, values, watches)
    writes = view.last_firing if memory.open or may_be_own else ()
    sent = [write for write in writes if write.sent and (memory.open or write.confirmed_by != "read")]
    own = [one for one in (*(_of_earlier(view, memory) if may_be_own else ()), *sent) if may_have_effect(one)]

    def moved(bases: Mapping[str, Baseline]) -> dict[str, Baseline]:
        made = {key: _with_own(view, bases[key].value, values[key], watches[key], own) for key in bases.keys() & values}
        return {**bases, **{key: replace(bases[key], value=value) for key, value in made.items()}}

    if own:
        memory = replace(memory, baselines=moved(memory.baselines), before_firing=moved(memory.before_firing))
    if sent:
        memory = replace(memory, before_firing=_without_unsent(memory.baselines, writes), waited=None)
    if not memory.open:
        return memory, ()
    if all(write.final for write in writes):
        return replace(memory, open=False, fired=False, before_firing={}), ()
    before = memory.before_firing
    changed = {key: base for key, base in before.items() if memory.baselines[key].value != base.value}
    if not changed or any(key not in values or values[key] != base.value for key, base in changed.items()):
        return memory, ()
    why = "the watched value is back where it was before the change"
    unsent = [write for write in (*view.sequence, *view.joined) if write.state in UNSENT]
    ends = tuple(End(write=write, reason="no_longer_holds", why=why) for write in unsent)
    begun, baselines = bool(sent), {**memory.baselines, **before}
    return replace(memory, open=begun, fired=begun, baselines=baselines, before_firing={}), ends


def _of_earlier(view: RuleView, memory: RuleMemory) -> Iterator[Write]:
    """What firings before the last one have sent, where no read had shown it by then."""
    for write in (*view.writes, *view.episode_writes(memory.episode - 1)):
        shown = write.confirmed_by == "read" and write.changed_at <= (memory.fired_at or view.now)
        if write.key.episode < memory.episode and not shown:
            yield write


def _without_unsent(baselines: Mapping[str, Baseline], writes: Iterable[Write]) -> dict[str, Baseline]:
    """The lists without what they had gained of which nothing was sent yet: to a newer change it is ``added`` still."""
    writes = [one for one in writes if one.intent.context.get(EACH) == ADDED]
    begun = {one.key.item for one in writes if one.state not in UNSENT or one.sent}
    unsent = [one.intent.params for one in writes if one.key.item not in begun]

    def names(params: Mapping[str, Json], item: Json) -> bool:
        run = params["tc_run_id"]
        return isinstance(item, Mapping) and (item.get("tc"), item.get("tc_run_id", run)) == (params["tc"], run)

    lists = {key: base.value for key, base in baselines.items() if unsent and isinstance(base.value, list)}
    left = {key: [one for one in value if not any(names(of, one) for of in unsent)] for key, value in lists.items()}
    return {key: replace(baselines[key], value=value) for key, value in left.items() if value != lists[key]}


def _may_be_own(view: RuleView, memory: RuleMemory, values: Mapping[str, Json], watches: Mapping[str, Watch]) -> bool:
    """Whether a change that this poll shows first may be what a firing that is over has made: its effect came after an
    operator had said so, or after nobody waited for it any more."""
    if not memory.episode:
        return False
    known = memory.baselines.keys() & values.keys()
    new = (key for key in known if values[key] not in (memory.baselines[key].value, memory.pending.get(key)))
    news = {watches[key].fact for key in new}
    return any(fact in news for step in view.rule.do for fact, _ in ACTIONS[step.action].written(step.params))


def _with_own(view: RuleView, base: Json, value: Json, watch: Watch, sent: Sequence[Write]) -> Json:
    """The baseline, moved by what the rule's own writes made; anything else that differs is still a change.

    Where whole records are compared, the record moves with the effect: the service changes more of it than was asked.
    """
    if isinstance(base, list) and isinstance(value, list) and watch.fact == "campaigns":
        return _campaigns_with_own(view.scope.fact(watch.fact), base, value, watch, sent)
    if not isinstance(base, dict) or not isinstance(value, dict):
        return base
    own: dict[str, Json] = {}
    for write in sent:
        wanted = _made(write)
        for fact, name in fields_of(write):
            landed = fact == watch.fact and name in value and alike(value[name], wanted.get(name, value[name]))
            if landed and value[name] != base.get(name):
                own[name] = value[name]
    return value if own and not watch.by else {**base, **own}


def _campaigns_with_own(fact: Fact, base: list[Json], value: list[Json], watch: Watch, sent: Sequence[Write]) -> Json:
    """The same of a list of campaigns: each is known by its name or, where that is not compared, by what it was."""
    found, campaigns = base, fact.value if isinstance(fact, Known) and isinstance(fact.value, list) else []
    for write in sent:
        wanted = {name: part for name, part in write.intent.wanted.items() if name != "exists"}
        before = write.before if isinstance(write.before, dict) else {}
        for item in named_so(write.intent, campaigns):
            if all(alike(item.get(name), part) for name, part in wanted.items()):
                old, new = ({name: one[name] for name in watch.by or item} for one in ({**item, **before}, item))
                was = [old, *named_so(write.intent, found)]
                found = [*(one for one in found if one in value or one not in was), *([] if new in found else [new])]
    return unless_reordered(found, [value])


def _unasked(memory: RuleMemory, values: Mapping[str, Json], watches: Mapping[str, Watch]) -> set[str]:
    """The values that have changed, but not from and to what the rule asks for. A change whose fact cannot be seen, as
    after a start, waits to be."""
    base = _base(memory)
    changed = {key for key in memory.baselines.keys() & values.keys() if values[key] != memory.baselines[key].value}
    return {key for key in changed if not watches[key].asks_for(base[key].value, values[key])}


def _compared(view: RuleView, memory: RuleMemory, values: Mapping[str, Json], unasked: AbstractSet[str]) -> RuleMemory:
    """The values, compared with the baselines. One that is not asked for is judged false, and so the baseline."""
    baselines = dict(memory.baselines)
    pending = dict(memory.pending)
    since = memory.pending_since
    for key, value in values.items():
        base = baselines.get(key)
        if base is None or key in unasked:
            baselines[key] = Baseline(value=value, seen_at=view.now)
            pending.pop(key, None)
        elif value == base.value:
            pending.pop(key, None)
        elif pending.get(key) != value:
            pending[key] = value
            since = view.now
    before = {key: baselines[key] if key in unasked else one for key, one in memory.before_firing.items()}
    forced = view.silence or memory.forced
    memory = replace(memory, baselines=baselines, pending=pending, forced=forced, before_firing=before)
    if not pending:
        return replace(memory, pending_since=None, pending_unheld_since=None, asked=None)
    return replace(memory, pending_since=view.since(since))


def _base(memory: RuleMemory) -> Mapping[str, Baseline]:
    """The baselines that a firing is against: those before an unsent firing that this one replaces, else today's."""
    return {**memory.baselines, **memory.before_firing}


def _consumed(watched: Watched) -> RuleMemory:
    """The memory after a change that was judged: what was pending is the baseline now."""
    memory = watched.memory
    moved = {
        key: Baseline(value=value, seen_at=memory.pending_since or memory.baselines[key].seen_at)
        for key, value in memory.pending.items()
        if key in memory.baselines
    }
    return replace(
        memory,
        baselines={**memory.baselines, **moved},
        pending={},
        pending_since=None,
        pending_unheld_since=None,
        before_firing={},
        forced=None if watched.complete else memory.forced,
        held=None,
    )


def _candidate(view: RuleView, watched: Watched) -> Candidate:
    memory, consumed = watched.memory, _consumed(watched)
    forced = approval(memory.forced, view.settings) or _overdue(view, memory) or _waits_on(view, memory)
    firing = replace(consumed, open=True, episode=memory.episode + 1, before_firing=_base(memory))
    names = ", ".join(sorted({watched.watches[key].fact for key in memory.pending}))
    return Candidate(
        view=view,
        episode=memory.episode + 1,
        reason="change",
        why=f"{names} changed; {view.judgement.why}",
        fired=as_fired(view, firing, forced),
        dropped=consumed,
        forced=forced,
    )


def _waits_on(view: RuleView, memory: RuleMemory) -> Hold | None:
    """A change that takes the place of a firing of which nothing was sent, and which waits for an operator, or had to,
    waits as well."""
    unsent = (memory.waited if memory.before_firing else None, *map(waits, view.sequence))
    return waits_again(view.rule, replace(memory, asked=memory.asked or next(filter(None, unsent), None)))


def _overdue(view: RuleView, memory: RuleMemory) -> Hold | None:
    """A change that only something unknown kept for too long goes to an operator, not off at an odd hour."""
    since = memory.pending_unheld_since
    if since is None or view.now - since <= view.settings.gap:
        return None
    why = f"it was kept for longer than {view.settings.gap} because its condition or a value was unknown"
    return Hold(reason="gap", why=why)
