"""How fast one partner may be asked, and what is read with that: a pace that finds the service's limit, the back-off
that a 429 brings, and the plan of reads.

Rate limiting exists per partner, its numbers are not contractual, and no header tells them (API section 8). So the pace
finds the limit by itself. Until the first 429 it is what the config allows. A 429 says that it was too fast: it goes
back, far where few requests had passed since the last 429 and a little where many had, and then returns quickly to just
below where the 429 came, stays there, and after a while tries whether more is allowed. Only a pace that is used grows:
one that nobody needed has proved nothing. Requests leave one by one, evenly spread, so that it hardly matters how the
service counts. docs/decisions/0012 has the reasons and the figures.

A 429 on anything stops everything of that partner until its wait is over: what was refused once would be refused again.

Policy and waiting are apart: `Pace` with its functions is pure and takes ``now``; `worker.reading.gate` waits. It has
no clock and no randomness of its own: both are handed in.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from heapq import nlargest
from math import exp, sqrt

from worker.model.facts import EventId, FactKey, Place

BURST_S = 0.8
"""Seconds of the pace that may leave at once after a rest, while no 429 has taught a lower one; at least a request."""
CATCH_UP_S = 0.25
"""The same of a lower pace: what a slow answer or disk has kept back."""
FLOOR_PER_MINUTE = 10.0
"""The pace goes no lower: a worker that asks less often than every six seconds sees nothing."""
REQUESTS_BEFORE = 8.0
"""The pace goes back by so many parts of what had passed since the last 429: 80 requests between two, a tenth."""
SECONDS_BEFORE = 3.0
"""The same in seconds: a limit by the minute lets many pass at once, and then none for long."""
LEAST_CUT, MOST_CUT = 0.1, 0.35
"""Shares of the pace; the most where both say that it was much too fast."""
RETURN_S = 75.0
"""After so many seconds of use the pace is back at just below the last 429; from then on it tries more, ever faster."""
TRIES_MORE = 2.7
"""After 1.7 times ``RETURN_S`` it has nearly doubled: a limit that was raised is found within minutes."""
STRAY_AFTER_S = 45.0
"""429s that come so far apart, before the pace is back where it was, come from something else than its limit."""
STRAY_RAISE = 1.25
"""So much higher is the limit taken to be then: else one such 429 a minute would keep the pace low for ever."""
USED_OVER_S = 10.0
USED_OVER_REQUESTS = 15.0
USED_AT_LEAST = 0.8
"""The pace grows while so much of it was used, over the last so many seconds or requests, whichever is longer."""
SENT_WITHIN = 0.9
"""The share of the interval within which a write leaves, counted from its oldest fact: the rest is for recording."""
FIRST_BACKOFF = timedelta(seconds=5)
"""Least wait after the first 429 without a ``Retry-After``; each wait is drawn between this and twice as much."""
LONGEST_BACKOFF = timedelta(seconds=60)
LONGEST_RETRY_AFTER = timedelta(minutes=15)
"""A longer ``Retry-After`` is cut to this: a service that asks for ten years has made a mistake."""
SHORTEST_SLEEP_S = 0.001
"""Sleeping for less could leave a clock of coarse steps where it was, for ever."""
_WHOLE = 1.0 - 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The pace of one partner at one moment. Times are monotonic seconds, paces are requests per minute.

    ``nominal``: what the config allows; ``budget``: what is allowed now. ``low`` and ``ceiling``: where the pace went
    back to at the last 429, and where the limit is taken to be since; ``tried_s``: for how long it was used since,
    ``passed``: by how many requests; ``between_s``: how far apart 429s come of late; ``used``: how many requests a
    minute left of late. ``strikes``: 429s in a row. ``struck_at``: when the last one was noted, so that answers to
    requests already under way then count as the same storm.
    """

    nominal: float
    budget: float
    room: float
    room_at: float
    low: float
    ceiling: float
    used: float = 0.0
    tried_s: float = 0.0
    passed: int = 0
    between_s: float = 0.0
    blocked_until: float = float("-inf")
    strikes: int = 0
    struck_at: float = float("-inf")


def fresh(nominal: float, now: float) -> Pace:
    """A partner that was never asked: all that the config allows."""
    pace = Pace(nominal=nominal, budget=nominal, room=1.0, room_at=now, low=nominal, ceiling=nominal, blocked_until=now)
    return replace(pace, room=burst(pace))


def shrunken(pace: Pace) -> bool:
    """Whether a 429 has taught that less is allowed than the config says."""
    return pace.budget < pace.nominal


def burst(pace: Pace) -> float:
    """Requests that may leave at once."""
    seconds = CATCH_UP_S if shrunken(pace) else BURST_S
    return max(1.0, pace.budget * seconds / 60.0)


def refill_per_s(pace: Pace) -> float:
    """So slow that burst and refill together stay within the budget in any 60 seconds, not only on average."""
    return (pace.budget - burst(pace) + 1.0) / 60.0 if pace.budget >= 1.0 else pace.budget / 60.0


def room_now(pace: Pace, now: float) -> float:
    """Requests that may leave at ``now``. Nothing is caught up on after a back-off."""
    since = max(0.0, now - max(pace.room_at, pace.blocked_until))
    return min(burst(pace), pace.room + refill_per_s(pace) * since)


def wait_s(pace: Pace, now: float) -> float:
    """Seconds until the next request may leave; 0.0 for now."""
    begin = max(now, pace.blocked_until)
    room = room_now(pace, begin)
    lacking = 0.0 if room >= _WHOLE else (1.0 - room) / refill_per_s(pace)
    wait = begin - now + lacking
    return max(wait, SHORTEST_SLEEP_S) if wait > 0.0 else 0.0


def taken(pace: Pace, now: float) -> Pace:
    """One request leaves."""
    since = max(0.0, now - max(pace.room_at, pace.blocked_until))
    over_s = max(USED_OVER_S, USED_OVER_REQUESTS * 60.0 / pace.budget)
    used = pace.used * exp(-since / over_s) + 60.0 / over_s
    tried_s = pace.tried_s + since if used >= USED_AT_LEAST * pace.budget else pace.tried_s
    room = max(0.0, room_now(pace, now) - 1.0)
    after = replace(pace, room=room, room_at=now, used=used, tried_s=tried_s, passed=pace.passed + 1)
    return replace(after, budget=budget_after(after))


def budget_after(pace: Pace) -> float:
    """The pace after ``tried_s`` of use: up to the ceiling at ``RETURN_S``, there for a while, and then beyond."""
    x = pace.tried_s / RETURN_S - 1.0
    grown = (pace.ceiling - pace.low) * x**3 if x < 0.0 else pace.ceiling * TRIES_MORE * x**3
    return min(pace.nominal, pace.ceiling + grown)


def struck(
    pace: Pace, *, began: float, now: float, retry_after: timedelta | None, chance: float, close: bool = False
) -> Pace:
    """A 429 came back for a request begun at ``began``. ``chance`` is drawn from [0, 1). ``close``: the request had
    left closer to others than the pace wants, so that this says little of the pace."""
    same_storm = began < pace.struck_at
    strikes = pace.strikes if same_storm else pace.strikes + 1
    until = max(pace.blocked_until, now + pause(max(1, strikes), retry_after, chance).total_seconds())
    if same_storm:
        return pace if retry_after is None else replace(pace, blocked_until=until)
    if close:
        low = max(min(pace.nominal, FLOOR_PER_MINUTE), pace.budget * (1.0 - LEAST_CUT))
        return replace(
            pace, budget=low, low=low, tried_s=0.0, room=1.0, strikes=strikes, struck_at=now, blocked_until=until
        )
    run_s = max(0.1, began - pace.blocked_until)
    between_s = (pace.between_s + run_s) / 2.0
    stray = between_s >= STRAY_AFTER_S and pace.tried_s < RETURN_S
    cut = min(MOST_CUT, max(LEAST_CUT, REQUESTS_BEFORE / max(1, pace.passed), SECONDS_BEFORE / run_s))
    cut = LEAST_CUT if stray else cut
    was = min(pace.budget, max(pace.used, 60.0 * pace.passed / run_s, pace.budget / 2.0))
    low = max(min(pace.nominal, FLOOR_PER_MINUTE), was * (1.0 - cut))
    ceiling = min(pace.nominal, max(was, pace.ceiling) * STRAY_RAISE) if stray else was * (1.0 - cut / 2.0)
    if strikes > 1:  # nothing has passed since, which says little of where the limit is
        ceiling = min(pace.ceiling, 2.0 * low)
    return replace(
        pace,
        budget=low,
        low=low,
        ceiling=max(low, ceiling),
        tried_s=0.0,
        passed=0,
        between_s=between_s,
        room=1.0,
        strikes=strikes,
        struck_at=now,
        blocked_until=until,
    )


def pause(strikes: int, retry_after: timedelta | None, chance: float) -> timedelta:
    """What the service asked for, cut at a quarter of an hour; else 5 to 10 s, 10 to 20 s, … up to 60 s."""
    if retry_after is not None and retry_after > timedelta(0):
        return min(retry_after, LONGEST_RETRY_AFTER)
    least = min(FIRST_BACKOFF * (1 << min(strikes - 1, 8)), LONGEST_BACKOFF / 2)
    return min(least * (1.0 + chance), LONGEST_BACKOFF)


def eased(pace: Pace, *, began: float) -> Pace:
    """An answer that was no 429. Only a request begun after the back-off says that the storm is over."""
    return replace(pace, strikes=0) if pace.strikes and began >= pace.blocked_until else pace


def given_back(pace: Pace, requests: int, now: float) -> Pace:
    """Requests that were counted and did not leave after all; more than may leave at once are lost."""
    return replace(pace, room=min(burst(pace), room_now(pace, now) + requests), room_at=max(pace.room_at, now))


# What to read next under that pace. Pure.
#
# The list of events is read in every poll. What is planned here are the reads that cost a request per event: as many as
# the list leaves of the budget, and a third of it where the list alone would take more than there is.
#
# What was never read comes first. Of the rest, each has an urgency: its age times the square root of how much a change
# of it matters and how often it changes. Reading the most urgent first visits each at a rate proportional to that root,
# which is the sharing that makes the mean delay from a change to its reading the smallest for a budget. An age grows
# without end and no root is zero, so nothing starves. How often a fact changes is learnt (`Habits`).

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


def facts_per_poll(per_minute: float, interval: timedelta, pages: int) -> float:
    """How many facts are read in a poll whose list has so many pages: what the list leaves of the interval's budget.
    Writes, evidence and pre-flights need nothing kept for them: where they wait, they go first.

    Where it leaves little, still one for every two pages, so that rules which need such facts see them: then a poll
    takes longer than the interval, and both share the budget. At least one.
    """
    share = per_minute * interval.total_seconds() / 60.0
    return max(1.0, share - pages, pages / PAGES_PER_FACT)


def poll_s(per_minute: float, interval: timedelta, requests: float) -> float:
    """How long a poll takes that makes so many requests, and so how far apart two are. In seconds."""
    return max(interval.total_seconds(), requests * 60.0 / per_minute)


def choose(wants: Iterable[Want], room: int, now: float, interval: timedelta) -> list[Want]:
    """The next reads, the most urgent first; those asked within half the interval are left for later.

    The others wait for their floor at the gate: requests leave one by one, so that each is asked a little after the
    list, and would be too young when the next list has been read, and be read in every second poll only.
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
    facts = min(float(len(wants)), facts_per_poll(per_minute, interval, pages)) if wants else 0.0
    every = poll_s(per_minute, interval, pages + facts)
    return Delays(
        of_list=every / 2.0,
        of_facts=expected_delay_s(wants, facts / every, interval),
        wanted=len(wants),
        short=poll_s(per_minute, interval, pages + len(wants)) > interval.total_seconds(),
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
