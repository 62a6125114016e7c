"""What an undo puts back: the values recorded before the writes that are to be undone, one undo for each target. Pure.

It goes field by field: a status is one, a draft and a campaign have several, and in a series each member is one. Writes
that follow each other are undone together, as far back as each found what the one before it had left; where another
hand came in between, that hand's value is put back. What was changed after the newest of them is not ours to touch:
such a write is left alone. An undo remembers what the writes ``left``, and is sent only while the target still reads so
(`worker.guards`). What the service cannot take back is named, never guessed at.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

from worker.model.actions import ACTIONS, BUDGETS, UNDO, WORDS, budgets_in
from worker.model.commits import Commit, Record
from worker.model.facts import Json, RuleId
from worker.model.rules import Rule, RuleStep
from worker.model.writes import UNSENT, InOrder, Intent, Plan, State, Write
from worker.writes.evidence import members, same_field, wish_of
from worker.writes.intents import COMPUTED_FROM, Planned, reads_back, steps_after

SENT_IN: frozenset[State] = frozenset(
    {"sending", "applied", "unknown", "needs_human", "confirmed", "unconfirmed", "cancelled"}
)
"""States in which a write that was sent may have had an effect; in any other it had none, or was never sent."""

WITHDRAWN = frozenset({"no_longer_holds", "superseded", "conflict", "sequence"})
"""Why the undo of a rule ends that was not sent, or came to nothing: its rule does not ask for it any more."""

_SETTERS: Mapping[tuple[str, str], RuleStep] = {
    (row.target, value): RuleStep(action=row.name, params={} if row.value else {"value": value})
    for row in ACTIONS.values()
    if row.shown == "field"
    for value in ([row.value] if row.value else WORDS[row.params["value"].type])
}
"""The action that sets a field of the event to a value (API section 3.1). No other value can be put back."""

_BELONGS = "no read shows its effect: undo the write before it, of which it is the second half"

Foreign: TypeAlias = Callable[[Write], "str | None"]
"""Whether somebody else has changed the write's target since it was sent: in words, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBack:
    """One undo to be planned. ``undoes``: the writes, newest first; ``left``: by field what they left on the target,
    ``back``: what it shall read; ``steps``: the actions that bring that about. ``guarded``: the target must still read
    as it was left; members of a series are each their own, and what somebody else has changed of them is so already."""

    undoes: tuple[Write, ...]
    left: Mapping[str, Json]
    back: Mapping[str, Json]
    steps: tuple[RuleStep, ...]
    guarded: bool

    def words(self) -> dict[str, str]:
        """What is put back, by field, for an operator."""
        if self.guarded:
            return {name: f"from {self.left[name]!r} to {value!r}" for name, value in self.back.items()}
        return {name: "into the series" if inside else "out of the series" for name, inside in self.back.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class NotUndone:
    """A write that is not undone, and why. ``cannot``: the service offers no way; else its target is left alone."""

    write: Write
    why: str
    cannot: bool = False


@dataclass(slots=True)
class Undo:
    """What is to be stored of an undo, and what is to be said. ``undone``: each with its place among ``plans``."""

    plans: list[Plan] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    undone: list[tuple[PutBack, int]] = field(default_factory=list)
    kept: list[NotUndone] = field(default_factory=list)

    def commit(self, by: str, at: datetime) -> Commit:
        """The transaction."""
        return Commit(at=at, records=tuple(self.records), plans=tuple(self.plans), by=by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """What becomes of the chosen writes of one target."""

    put_back: PutBack | None = None
    kept: tuple[NotUndone, ...] = field(default_factory=tuple)


def may_have_effect(write: Write) -> bool:
    """Whether there may be something to put back: an attempt was sent, and nothing proves that it came to nothing."""
    return write.sent and write.state in SENT_IN and not write.absent_proved


def once_only(write: Write) -> bool:
    """Whether its step, planned once more, would have its effect once more: its value is computed from what it wrote
    itself, or no read tells that it is so already. What a message says again costs nothing."""
    shown, context = ACTIONS[write.intent.action].shown, write.intent.context
    blind = shown in ("answer", "confirm") and not reads_back(write.intent, write.key.item)
    return may_have_effect(write) and (COMPUTED_FROM in context or blind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """One firing of a rule for an event. ``standing``: its writes that may have an effect and are not undone, oldest
    first; ``first``: the number by which it is told from others."""

    standing: tuple[Write, ...] = ()
    first: int = 0


def last_firing(writes: Iterable[Write], rule: str) -> Firing:
    """The last firing of the rule of which something stands, by the writes of one event that may have had an effect,
    oldest first. A write that another rule's stood for is that one's."""
    writes = [*writes]
    undone = {number for one in writes if one.state == "confirmed" for number in one.undoes}
    mine = [one for one in writes if rule in (one.key.rule, *one.rules) and one.intent.target and _seen(one)]
    standing = [one for one in mine if one.id not in undone]
    if not standing:
        return Firing()
    of = [(one.key.rule, one.key.episode) for one in standing][-1]
    firing = [one for one in mine if (one.key.rule, one.key.episode) == of]
    return Firing(standing=tuple(one for one in firing if one in standing), first=firing[0].id)


def wish_ended(history: Iterable[Write], rule: str, episode: int) -> bool:
    """Whether what a rule's firing wrote on a target is put back, or about to be: not while that waits for approval.
    ``history``: every write of it."""
    writes = [*history]
    own = {
        one.id
        for one in writes
        if (one.key.rule, one.key.episode) == (rule, episode) or (one.key.rule != rule and rule in one.rules)
    }
    let_go = (one for one in writes if one.state == "confirmed" or not (one.final or one.state == "waiting"))
    return any(not own.isdisjoint(one.undoes) for one in let_go if one.undo)


def undoing(chosen: Sequence[Write], history: Sequence[Write], foreign: Foreign) -> Undoing:
    """What an undo of these writes of one target would do. ``history``: every write of that target.

    Each chosen write must pass `may_have_effect`.
    """
    whole = [write for write in chosen if _seen(write)]
    halves = [write for write in chosen if not _seen(write) and _step(write) not in map(_step, whole)]
    kept = [NotUndone(write=write, why=_BELONGS, cannot=True) for write in halves]
    under_way = next((write for write in history if write.undo and write.state in UNSENT), None)
    if under_way is not None:
        why = f"write {under_way.id} is to put the target back already"
        return Undoing(kept=(*(NotUndone(write=write, why=why) for write in whole), *kept))
    chain = _Chain([write for write in history if may_have_effect(write) and _seen(write)], foreign)
    for write in sorted(whole, key=_sent_order, reverse=True):
        chain.take(write, {one.id for one in whole})
    return Undoing(put_back=chain.put_back(), kept=(*chain.kept, *kept))


def put_back_by(write: Write, history: Sequence[Write]) -> Write | None:
    """The undo that is about to put a write back, or waits for approval; or, of a write of which no attempt counts, one
    that was to, and was neither rejected nor given up by its rule. An undo of what earlier steps of its firing wrote
    there is one of it, too.

    ``history``: every write of the target.
    """
    own = {one.id for one in history if _step(one)[:2] == _step(write)[:2] and one.key.position <= write.key.position}
    undos = [one for one in history if not own.isdisjoint(one.undoes)]
    ended = [one for one in undos if one.final and one.state != "cancelled" and one.reason not in WITHDRAWN]
    return next((one for one in undos if one.state in UNSENT or (one in ended and not write.sent)), None)


def undone_by(undo: Write, history: Iterable[Write]) -> list[Write]:
    """The writes that an undo undoes, as far as they may have had an effect, newest first. ``history``: every write of
    the target."""
    undone = (write for write in history if write.id in undo.undoes and may_have_effect(write))
    return sorted(undone, key=_sent_order, reverse=True)


def left_now(undo: Write, history: Iterable[Write]) -> dict[str, Json] | None:
    """What an undo must find on its target, by field: what the newest of the writes that it undoes had left of those
    which may have had an effect, as far as is known by now; and where none may have, what it puts back. None where it
    asks nothing of the target: members of a series are each their own. ``history``: every write of the target."""
    left = undo.intent.context.get("left")
    if not isinstance(left, Mapping):
        return None
    found: dict[str, Json] = {}
    for write in undone_by(undo, history):
        changed = _changed(write)
        if not isinstance(changed, str):
            found = {**{name: after for name, (_, after) in changed.items()}, **found}
    return {name: found.get(name, undo.intent.wanted.get(name)) for name in left}


def undo_steps(
    rule: Rule, undo: Callable[[str], Undo], context: Mapping[str, Json], after: int = -1
) -> tuple[tuple[Planned, ...], tuple[Record, ...]]:
    """What the undo steps of a firing become, and what is said of the writes that are put back. ``after``: those that
    come after the wait at this position."""
    planned: list[Planned] = []
    records: list[Record] = []
    for order, position, step in steps_after(rule, after):
        found = undo(str(step.params["value"])) if step.action == UNDO else Undo()
        records += found.records
        for plan in found.plans:
            own, more = plan.intent, f" {plan.key.position}" if plan.key.position else ""
            intent = replace(own, order=order + own.order, do_hash=rule.do_hash, context={**context, **own.context})
            item, wish = plan.key.item or own.target + more, wish_of(own.action, own.params)
            planned.append(Planned(position=position, item=item, intent=intent, wish=wish, why=plan.why))
        for kept in found.kept:
            target, number = kept.write.intent.target, kept.write.id
            lacking = Intent(action=UNDO, target=target, wish="", order=order, do_hash=rule.do_hash)
            one = Planned(position=position, item=f"{target} of {number}", intent=lacking, wish=wish_of(UNDO, {}))
            planned.append(replace(one, fault=f"write {number} is left as it is: {kept.why}", reason="no_undo"))
    return tuple(planned), tuple(records)


class _Chain:
    """The writes of one target that are undone together, newest first, and those that are not."""

    def __init__(self, shown: Sequence[Write], foreign: Foreign) -> None:
        self._shown = sorted(shown, key=_sent_order)
        self._foreign = foreign
        self._done: list[Write] = []
        self._left: dict[str, Json] = {}
        self._back: dict[str, Json] = {}
        self.kept: list[NotUndone] = []

    def take(self, write: Write, chosen: set[int]) -> None:
        """The next older one of the chosen."""
        changed = _changed(write)
        if isinstance(changed, str):
            self.kept.append(NotUndone(write=write, why=changed, cannot=True))
            return
        why = self._against(write, changed, chosen)
        if why is not None:
            self.kept.append(NotUndone(write=write, why=why))
            return
        self._done.append(write)
        for name, (before, after) in changed.items():
            self._left.setdefault(name, after)
            self._back[name] = before

    def put_back(self) -> PutBack | None:
        """The undo, if anything can be undone."""
        back = {name: value for name, value in self._back.items() if value != self._left[name]}
        if not back:
            self.kept += [NotUndone(write=write, why="together they left it as it was") for write in self._done]
            return None
        row = ACTIONS[self._done[0].intent.action]
        return PutBack(
            undoes=tuple(self._done),
            left={name: self._left[name] for name in back},
            back=back,
            steps=tuple(_steps(self._done[0], back)),
            guarded=row.shown != "series",
        )

    def _against(self, write: Write, changed: "Changes", chosen: set[int]) -> str | None:
        """Why the write stays: something that is not undone has changed a field of it since."""
        follower: Write | None = None
        for later in self._shown[self._shown.index(write) + 1 :]:
            theirs = _changed(later)
            if not isinstance(theirs, str) and not theirs.keys() & changed.keys():
                continue
            if later not in self._done:
                return f"write {later.id} after it is not undone" if later.id in chosen else _since(later)
            follower = follower or later
        if follower is None:
            return self._foreign(write)
        found = _changed(follower)
        if isinstance(found, str) or all(
            same_field(name, found[name][0], changed[name][1]) for name in found.keys() & changed.keys()
        ):
            return None
        return f"the target was changed between it and write {follower.id}, and that is what is put back"


Changes: TypeAlias = Mapping[str, tuple[Json, Json]]


def _changed(write: Write) -> Changes | str:
    """What the write changed, by field: before and after; or why that cannot be put back, and nothing before it."""
    action = write.intent.action
    row = ACTIONS[action]
    if row.for_good or not reads_back(write.intent, write.key.item):
        return row.for_good or "no read shows what it changed"
    if not write.before_known:
        return "what was there before it is not known"
    if row.shown == "series":
        inside = write.before if isinstance(write.before, list) else []
        into = row.value == "in"
        moved = [one for one in members(write.intent.params) if (one in inside) is not into]
        return dict.fromkeys(moved, (not into, into)) if moved else "all of it was so before it"
    if row.shown == "field":
        if (row.target, str(write.before)) not in _SETTERS:
            return f"{row.target} was {write.before!r} before it, which no write can set"
        return {row.target: (write.before, write.intent.wanted[row.target])}
    before = write.before if isinstance(write.before, Mapping) else {}
    wanted = {name: value for name, value in write.intent.wanted.items() if name != "exists"}
    missing = [
        name for name in wanted if name not in before or (name in BUDGETS and not budgets_in({name: before[name]}))
    ]
    if missing:
        return f"what its {' and '.join(missing)} was before it is not known"
    back = {name: next(iter(budgets_in({name: before[name]})), before[name]) for name in wanted}
    return {name: (back[name], value) for name, value in wanted.items()}


def _steps(write: Write, back: Mapping[str, Json]) -> Iterator[RuleStep]:
    """The actions that give the fields of this write's target these values."""
    row = ACTIONS[write.intent.action]
    if row.shown == "field":
        yield from (_SETTERS[name, str(value)] for name, value in back.items())
    elif row.shown == "series":
        for action, into in (("series_remove", False), ("series_add", True)):
            these: list[Json] = [name for name, inside in sorted(back.items()) if inside is into]
            if these:
                yield RuleStep(action=action, params={"value": these})
    else:
        named = {name: write.intent.params[name] for name in row.required} if row.shown == "campaign" else {}
        yield RuleStep(action="edit_cluster" if named else "update_draft", params={**named, **back})


def _seen(write: Write) -> bool:
    """Whether it stands for a change of its own: the second half of a pair does not."""
    return write.key.item not in ACTIONS[write.intent.action].unseen


def _since(later: Write) -> str:
    whose = "an undo" if later.undo else f"rule {later.key.rule}"
    return f"write {later.id} of {whose} has set the target since"


def _step(write: Write) -> tuple[RuleId, int, int]:
    """The step that it was planned for, which is that of the other half of a pair, too."""
    return write.key.rule, write.key.episode, write.key.position


def _sent_order(write: Write) -> tuple[InOrder, int]:
    return write.sending_order or write.change_order, write.id
