"""How fast one partner may be asked: a pace that finds the service's limit, and the back-off that a 429 brings.

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

from dataclasses import dataclass, replace
from datetime import timedelta
from math import exp

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
    ``passed``: by how many requests; ``used``: how many a minute left of late. ``strikes``: 429s in a row.
    ``struck_at``: when the last one was noted, so that answers to requests already under way then count as the same
    storm.
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
    cut = min(MOST_CUT, max(LEAST_CUT, REQUESTS_BEFORE / max(1, pace.passed), SECONDS_BEFORE / run_s))
    was = min(pace.budget, max(pace.used, 60.0 * pace.passed / run_s, pace.budget / 2.0))
    low = max(min(pace.nominal, FLOOR_PER_MINUTE), was * (1.0 - cut))
    ceiling = was * (1.0 - cut / 2.0)
    if strikes > 1:  # nothing has passed since, which says little of where the limit is
        ceiling = min(pace.ceiling, 2.0 * low)
    return replace(
        pace,
        budget=low,
        low=low,
        ceiling=max(low, ceiling),
        tried_s=0.0,
        passed=0,
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
