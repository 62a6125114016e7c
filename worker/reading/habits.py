"""How often facts change, learnt from whether each had changed at each visit. Pure.

At the start all facts of one name are taken to be alike. What is alike is learnt from all of them together: their
usual rate. What is learnt of a single one is set against that, and for so little that one visit which finds a change
already counts. Several changes between two visits look like one, so a fact that is always found changed is taken to
change more often than it is visited.
"""

from dataclasses import dataclass, field

from worker.model.facts import Place

CHANGES_TAKEN = 0.5
"""What is taken to have been seen of a fact before its first visit, at the usual rate. Less would take the first change
for a habit, more would need many visits to tell a lively fact from a still one."""
SECONDS_TAKEN_MAX = 24 * 3600.0
"""However seldom the others change, what one does is learnt within days."""
SECONDS_AT_FIRST = 3600.0
"""Before any visit, one change in so long is taken to be usual."""
SECONDS_REMEMBERED = 24 * 3600.0
"""Beyond this what was seen of a fact counts half, so that one which changes its habits is learnt anew."""
CHANGES_REMEMBERED = 1000.0
"""The same for what is usual."""


@dataclass(slots=True)
class Seen:
    """Changes found, and over how many seconds of visits."""

    changes: float = 0.0
    seconds: float = 0.0

    def add(self, *, changed: bool, after_s: float) -> None:
        """One more visit, so long after the one before it. A change is taken to have come half way."""
        self.changes += 1.0 if changed else 0.0
        self.seconds += after_s / 2.0 if changed else after_s

    def halve(self) -> None:
        """What was seen counts half from now on."""
        self.changes /= 2.0
        self.seconds /= 2.0


@dataclass(slots=True)
class Habits:
    """What was learnt of the facts of one partner."""

    _of_one: dict[Place, Seen] = field(default_factory=dict)
    _of_all: dict[str, Seen] = field(default_factory=dict)

    def visited(self, place: Place, *, changed: bool, after_s: float) -> None:
        """A fact was read again, so many seconds after it was read last, and said something else or not."""
        usual = self._of_all.setdefault(place[1].name, Seen())
        usual.add(changed=changed, after_s=after_s)
        if usual.changes > CHANGES_REMEMBERED:
            usual.halve()
        own = self._of_one.setdefault(place, Seen())
        own.add(changed=changed, after_s=after_s)
        if own.seconds > SECONDS_REMEMBERED:
            own.halve()

    def usual(self, name: str) -> float:
        """Changes a second of a fact of this name of which nothing else is known; never zero."""
        seen = self._of_all.get(name, _NOTHING)
        return (1.0 + seen.changes) / (SECONDS_AT_FIRST + seen.seconds)

    def rate(self, place: Place) -> float:
        """Changes a second of this fact; never zero."""
        seen = self._of_one.get(place, _NOTHING)
        taken_s = min(CHANGES_TAKEN / self.usual(place[1].name), SECONDS_TAKEN_MAX)
        return (CHANGES_TAKEN + seen.changes) / (taken_s + seen.seconds)


_NOTHING = Seen()
