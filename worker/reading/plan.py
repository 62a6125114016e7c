"""What to read next under a budget. Pure.

The list of events is read in every look. What is planned here are the reads that cost a request per event: as many as
the list leaves of the budget, and a third of it where the list alone would take more than there is.

What was never read comes first. Of the rest, each has an urgency: its age times the square root of how much a change
of it matters and how often it changes. Reading the most urgent first visits each at a rate proportional to that root,
which is the sharing that makes the mean delay from a change to its reading the smallest for a budget. An age grows
without end and no root is zero, so nothing starves. How often a fact changes is learnt (`Habits`).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from heapq import nlargest
from math import sqrt

from worker.model.facts import EventId, FactKey, Place

PAGES_PER_FACT = 2.0
"""However long the list is, while facts of single events are wanted one is read for so many of its pages."""
RATE_AT_FIRST = 1.0 / 3600.0
"""Changes a second of a fact of which nothing is known; only the proportion between facts counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """A fact that some rule needs. ``read_at``: when it was last asked, in monotonic seconds; None for never.
    ``weight``: how much a change of it matters, against 1; ``rate``: how often it changes (`Habits`); ``every_s``: it
    is asked no more often."""

    event: EventId
    key: FactKey
    read_at: float | None = None
    weight: float = 1.0
    rate: float = RATE_AT_FIRST
    every_s: float = 0.0

    @property
    def place(self) -> tuple[EventId, FactKey]:
        """What is wanted, whenever it was asked last."""
        return self.event, self.key

    def urgency(self, now: float) -> float:
        """How badly it should be read: what was never read beyond all measure."""
        if self.read_at is None:
            return float("inf")
        return (now - self.read_at) * sqrt(self.weight * self.rate)


def requests_in(interval: timedelta, per_minute: float) -> float:
    """How many requests the budget gives in one interval."""
    return per_minute * interval.total_seconds() / 60.0


def facts_per_look(per_minute: float, interval: timedelta, pages: int) -> float:
    """How many facts are read in a look whose list has so many pages: what the list leaves of the interval's budget.
    Writes, evidence and pre-flights need nothing kept for them: where they wait, they go first.

    Where it leaves little, still one for every two pages, so that rules which need such facts see them: then a look
    takes longer than the interval, and both share the budget. At least one.
    """
    share = requests_in(interval, per_minute)
    return max(1.0, share - pages, pages / PAGES_PER_FACT)


def look_s(per_minute: float, interval: timedelta, requests: float) -> float:
    """How long a look takes that makes so many requests, and so how far apart two are. In seconds."""
    return max(interval.total_seconds(), requests * 60.0 / per_minute)


def choose(wants: Iterable[Want], room: int, now: float, interval: timedelta) -> list[Want]:
    """The next reads, the most urgent first; those asked within half the interval are left for later.

    The others wait for their floor at the gate: requests leave one by one, so that each is asked a little after the
    list, and would be too young when the next list has been read, and be read in every second look only.
    """
    floor_s = interval.total_seconds() / 2.0
    due = [one for one in wants if one.read_at is None or now - one.read_at >= max(floor_s, one.every_s)]
    due.sort(key=lambda one: (one.event, one.key.text))
    return nlargest(max(0, room), due, key=lambda one: (one.urgency(now), one.weight))


def expected_delay_s(wants: Iterable[Want], reads_per_s: float, interval: timedelta) -> float:
    """The mean time from a change to its reading when so many of these are read a second: what a short budget costs.

    By the same law as `choose`: each is visited at a rate proportional to its root, none more often than the interval.
    """
    roots = [sqrt(want.weight * want.rate) for want in wants]
    rates = [want.rate for want in wants]
    total = sum(roots)
    if not roots or reads_per_s <= 0.0:
        return 0.0
    least = (max(interval.total_seconds(), want.every_s) for want in wants)
    periods = [max(floor_s, total / (root * reads_per_s)) for floor_s, root in zip(least, roots, strict=True)]
    return sum(rate * period / 2.0 for rate, period in zip(rates, periods, strict=True)) / sum(rates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """How soon changes are seen at the pace of now, in mean seconds from a change to its reading.

    ``of_list``: of what the list shows; ``of_facts``: of the ``wanted`` facts that cost a request each, 0.0 where none
    is. ``short``: reading all of it in every interval would take more than the budget.
    """

    of_list: float
    of_facts: float
    wanted: int
    short: bool


def delays(wants: Collection[Want], pages: int, per_minute: float, interval: timedelta) -> Delays:
    """What to expect of a list of so many pages and these facts."""
    facts = min(float(len(wants)), facts_per_look(per_minute, interval, pages)) if wants else 0.0
    every = look_s(per_minute, interval, pages + facts)
    return Delays(
        of_list=every / 2.0,
        of_facts=expected_delay_s(wants, facts / every, interval),
        wanted=len(wants),
        short=look_s(per_minute, interval, pages + len(wants)) > interval.total_seconds(),
    )


# How often facts change, learnt from whether each had changed at each visit. Pure.
#
# At the start all facts of one name are taken to be alike. What is alike is learnt from all of them together: their
# usual rate. What is learnt of a single one is set against that, and for so little that one visit which finds a change
# already counts. Several changes between two visits look like one, so a fact that is always found changed is taken to
# change more often than it is visited.

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
class Visits:
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

    _of_one: dict[Place, Visits] = field(default_factory=dict)
    _of_all: dict[str, Visits] = field(default_factory=dict)

    def visited(self, place: Place, *, changed: bool, after_s: float) -> None:
        """A fact was read again, so many seconds after it was read last, and said something else or not."""
        usual = self._of_all.setdefault(place[1].name, Visits())
        usual.add(changed=changed, after_s=after_s)
        if usual.changes > CHANGES_REMEMBERED:
            usual.halve()
        own = self._of_one.setdefault(place, Visits())
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


_NOTHING = Visits()
