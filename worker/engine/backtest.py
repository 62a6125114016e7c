"""Writes that were made beside writes that a rule folder would have made: new, gone, earlier, later, or the same. Pure.

They are told apart by what they do and not by who does it: a pause of an event is the same write under a renamed rule.
Of several that do the same, those nearest in time belong together. A skipped write did nothing, on either side; but one
that was made at the same time and only ended before it could be sent is none that would be new: a replay sends at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from worker.model.writes import Write

ENDED_BEFORE = frozenset({"no_longer_holds", "sequence"})
"""Reasons of skipped writes that were wanted all the same when they were planned."""
Place = tuple[str, str, str, str, str]
Kind = Literal["new", "gone", "earlier", "later", "same"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One write as it was made, as it would be made, or both."""

    kind: Kind
    made: Write | None
    would: Write | None

    @property
    def write(self) -> Write:
        """Either of the two."""
        found = self.made if self.made is not None else self.would
        if found is None:
            raise ValueError("a difference between nothing and nothing")
        return found

    @property
    def at(self) -> datetime:
        """The earlier of the two moments."""
        return min(one.planned_at for one in (self.made, self.would) if one is not None)


def differences(made: Iterable[Write], would: Iterable[Write], tolerance: timedelta) -> list[Difference]:
    """All of them, by event and time. Within ``tolerance`` two moments are the same."""
    made = list(made)
    left, right = _by_effect(made), _by_effect(would)
    ended = [one for one in made if one.state == "skipped" and one.reason in ENDED_BEFORE]

    def was_planned(one: Difference) -> bool:
        """Whether a write that would be new was planned then, and came to nothing."""
        here = [other for other in ended if _place(other) == _place(one.write)]
        return one.kind == "new" and any(abs(other.planned_at - one.at) <= tolerance for other in here)

    found: list[Difference] = []
    for effect in sorted({*left, *right}):
        found.extend(_matched(left.get(effect, []), right.get(effect, []), tolerance))
    found = [one for one in found if not was_planned(one)]
    return sorted(found, key=lambda one: (one.write.key.event, one.at, one.write.intent.order))


def _place(write: Write) -> Place:
    key, intent = write.key, write.intent
    return (key.event, intent.target, intent.action, intent.wish, key.item)


def _by_effect(writes: Iterable[Write]) -> dict[Place, list[Write]]:
    found: dict[Place, list[Write]] = {}
    for write in writes:
        if write.state != "skipped" and not write.undo:
            found.setdefault(_place(write), []).append(write)
    return found


def _matched(made: Sequence[Write], would: Sequence[Write], tolerance: timedelta) -> Iterable[Difference]:
    """Nearest first, under the same rule before another one."""
    pairs = sorted(
        (abs(one.planned_at - other.planned_at), one.key.rule != other.key.rule, left, right)
        for left, one in enumerate(made)
        for right, other in enumerate(would)
    )
    lefts, rights = set(range(len(made))), set(range(len(would)))
    for distance, _, left, right in pairs:
        if left in lefts and right in rights:
            lefts.remove(left)
            rights.remove(right)
            later = would[right].planned_at > made[left].planned_at
            kind: Kind = "same" if distance <= tolerance else "later" if later else "earlier"
            yield Difference(kind=kind, made=made[left], would=would[right])
    yield from (Difference(kind="gone", made=made[left], would=None) for left in sorted(lefts))
    yield from (Difference(kind="new", made=None, would=would[right]) for right in sorted(rights))
