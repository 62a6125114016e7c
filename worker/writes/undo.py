"""What an undo puts back: the values recorded before the writes that are to be undone, one undo for each target. Pure.

Several writes on one target are undone together, as far back as each found what the one before it had left; where
another hand came in between, that hand's value is put back. What was changed after the newest of them is not ours to
touch: such a target is left alone. An undo remembers what the writes ``left``, and is sent only while the target still
reads so (`worker.guards.checks`). What the service cannot take back is named, never guessed at.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from worker.model.actions import ACTIONS
from worker.model.facts import Json
from worker.model.rules import Step
from worker.model.writes import UNSENT, State, Write
from worker.writes.intents import reads_back

SENT_IN: frozenset[State] = frozenset(
    {"sending", "applied", "unknown", "needs_human", "confirmed", "unconfirmed", "cancelled"}
)
"""States in which a write that was sent may have had an effect; in any other it had none, or was never sent."""

_SETTERS: Mapping[tuple[str, str], Step] = {
    ("client_campaign_status", "RUNNING"): Step(action="run"),
    ("client_campaign_status", "PAUSED"): Step(action="pause"),
    **{
        (ACTIONS[action].target, value): Step(action=action, params={"value": value})
        for action, values in (
            ("optimisation", ("ON", "OFF")),
            ("ad_optimisation", ("ON", "OFF")),
            ("frontend_status", ("DEFAULT", "FLAGGED", "HIDDEN", "CANCELLED")),
        )
        for value in values
    },
}
"""The action that sets a field of the event to a value (API section 3.1). No other value can be put back."""

_FOR_GOOD: Mapping[str, str] = {
    "boost": "what is published cannot be unpublished",
    "create_draft": "the service offers nothing that takes a draft away",
}

Foreign: TypeAlias = Callable[[Write], "str | None"]
"""Whether another hand has changed the write's target since it was sent: in words, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBack:
    """One undo to be planned. ``undoes``: the writes, newest first; ``left``: what they left on the target, which it
    must still read; ``back``: what it shall read; ``step``: the action that brings that about."""

    undoes: tuple[Write, ...]
    left: Mapping[str, Json]
    back: Mapping[str, Json]
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A write that is not undone, and why. ``cannot``: the service offers no way; else its target is left alone."""

    write: Write
    why: str
    cannot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """What becomes of the chosen writes of one target."""

    put_back: PutBack | None = None
    kept: tuple[Kept, ...] = field(default_factory=tuple)


def may_have_effect(write: Write) -> bool:
    """Whether there may be something to put back: an attempt was sent, and nothing proves that it came to nothing."""
    return write.sent and write.state in SENT_IN and not write.absent_proved


def undoing(chosen: Sequence[Write], history: Sequence[Write], foreign: Foreign) -> Undoing:
    """What an undo of these writes of one target would do. ``history``: every write of that target.

    Each chosen write must pass `may_have_effect`.
    """
    shown = [write for write in history if may_have_effect(write) and reads_back(write.intent, write.key.item)]
    shown.sort(key=_sent_order)
    wanted = {write.id for write in chosen}
    unseen = [write for write in chosen if not reads_back(write.intent, write.key.item)]
    seen = [write for write in chosen if write not in unseen]
    chain: list[Write] = []
    kept: list[Kept] = []
    if seen:
        newest = shown[-1]
        under_way = next((write for write in history if write.undo and write.state in UNSENT), None)
        if under_way is not None:
            why: str | None = f"write {under_way.id} is to put the target back already"
        else:
            why = _since(newest) if newest.id not in wanted else foreign(newest)
        if why is not None:
            kept = [Kept(write=write, why=why) for write in seen]
        else:
            chain, kept = _chain([write for write in shown if write.id in wanted], shown)
    kept += [Kept(write=one, why=_BELONGS, cannot=True) for one in unseen if not any(_pair(one, two) for two in seen)]
    return Undoing(put_back=_put_back(chain), kept=tuple(kept))


_BELONGS = "no read shows its effect: undo the write before it, of which it is the second half"


def _chain(chosen: Sequence[Write], shown: Sequence[Write]) -> tuple[list[Write], list[Kept]]:
    """The chosen writes, newest first, as far back as one found what the other had left; and what of them stays."""
    chain: list[Write] = []
    kept: list[Kept] = []
    between = ""
    for write in reversed(chosen):
        changed = _changed(write)
        if isinstance(changed, str):
            kept.append(Kept(write=write, why=changed, cannot=True))
            between = between or f"write {write.id} after it is not undone"
        elif between:
            kept.append(Kept(write=write, why=between))
        elif chain and not _continues(write, chain[-1], shown):
            between = f"the target was changed between it and write {chain[-1].id}, and that is what is put back"
            kept.append(Kept(write=write, why=between))
        else:
            chain.append(write)
    return chain, kept


def _continues(write: Write, newer: Write, shown: Sequence[Write]) -> bool:
    """The newer one came right after, and found what this one had left."""
    ids = [one.id for one in shown]
    if ids.index(newer.id) != ids.index(write.id) + 1:
        return False
    left, found = _changes(write), _changes(newer)
    return all(name not in found or found[name][0] == after for name, (_, after) in left.items())


def _put_back(chain: Sequence[Write]) -> PutBack | None:
    left: dict[str, Json] = {}
    back: dict[str, Json] = {}
    for write in chain:
        for name, (before, after) in _changes(write).items():
            left.setdefault(name, after)
            back[name] = before
    if not chain:
        return None
    return PutBack(undoes=tuple(chain), left=left, back=back, step=_step(back))


def _step(back: Mapping[str, Json]) -> Step:
    ((name, value),) = back.items()
    return _SETTERS[name, str(value)]


def _changes(write: Write) -> Mapping[str, tuple[Json, Json]]:
    changed = _changed(write)
    return {} if isinstance(changed, str) else changed


def _changed(write: Write) -> Mapping[str, tuple[Json, Json]] | str:
    """What the write changed, by field: before and after; or why that cannot be put back."""
    action = write.intent.action
    if ACTIONS[action].shown != "field":
        return _FOR_GOOD.get(action, f"no write takes back what {action} did")
    if not write.before_known:
        return "what was there before it is not known"
    name = ACTIONS[action].target
    if (name, str(write.before)) not in _SETTERS:
        return f"{name} was {write.before!r} before it, which no write can set"
    return {name: (write.before, write.intent.wanted[name])}


def _since(newest: Write) -> str:
    whose = "an undo" if newest.undo else f"rule {newest.key.rule}"
    return f"write {newest.id} of {whose} has set the target since"


def _pair(half: Write, whole: Write) -> bool:
    return (half.key.rule, half.key.episode, half.key.position) == (
        whole.key.rule,
        whole.key.episode,
        whole.key.position,
    )


def _sent_order(write: Write) -> tuple[datetime, int]:
    return write.last_sent_at or write.changed_at, write.id
