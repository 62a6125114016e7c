"""Writes that were made beside writes that a rule folder would have made: new, gone, earlier, later, or the same. Pure.

They are told apart by what they do and not by who does it: a pause of an event is the same write under a renamed rule.
Of several that do the same, those nearest in time belong together. A skipped write did nothing, on either side.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from worker.model.writes import Write

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
    left, right = _by_effect(made), _by_effect(would)
    found: list[Difference] = []
    for effect in sorted({*left, *right}):
        found.extend(_matched(left.get(effect, []), right.get(effect, []), tolerance))
    return sorted(found, key=lambda one: (one.write.key.event, one.at, one.write.intent.order))


def _by_effect(writes: Iterable[Write]) -> dict[tuple[str, str, str, str, str], list[Write]]:
    found: dict[tuple[str, str, str, str, str], list[Write]] = {}
    for write in writes:
        if write.state != "skipped" and not write.undo:
            key, intent = write.key, write.intent
            place = (key.event, intent.target, intent.action, intent.wish, key.item)
            found.setdefault(place, []).append(write)
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
