"""How fast one partner may be asked: a budget per minute, and the back-off that a 429 brings.

Rate limiting exists per partner, its numbers are not contractual, and no header tells them (API section 8). So the
budget is our own: it halves when the service says 429 and comes back slowly. A 429 on anything stops everything of
that partner until its wait is over: what was refused once would be refused again.

Policy and waiting are apart: `Pace` with its functions is pure and takes ``now``; `worker.reading.pacer` waits. It has
no clock and no randomness of its own: both are handed in.
"""

from dataclasses import dataclass
from datetime import timedelta

from worker.model.replacing import replace

BURST_S = 2.0
"""Seconds of budget that may be spent at once after a rest."""
FLOOR_PER_MINUTE = 10.0
"""Below this the budget does not halve: a worker that asks less often than every six seconds sees nothing."""
RECOVERY_PER_MINUTE = 0.05
"""Share of the nominal budget that comes back in each minute without a 429."""
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
    """The pace of one partner at one moment. Times are monotonic seconds, budgets are requests per minute.

    ``budget`` is as of ``budget_at`` and grows from there. ``strikes``: 429s in a row. ``struck_at``: when the last one
    was noted, so that answers to requests already under way then count as the same storm.
    """

    nominal: float
    budget: float
    budget_at: float
    room: float
    room_at: float
    blocked_until: float = float("-inf")
    strikes: int = 0
    struck_at: float = float("-inf")


def fresh(nominal: float, now: float) -> Pace:
    """A partner that was never asked: full budget, full burst."""
    return Pace(nominal=nominal, budget=nominal, budget_at=now, room=burst(nominal), room_at=now)


def burst(budget: float) -> float:
    """Requests that may leave at once."""
    return max(1.0, budget * BURST_S / 60.0)


def refill_per_s(budget: float) -> float:
    """So slow that burst and refill together stay within the budget in any 60 seconds, not only on average."""
    return (budget - burst(budget) + 1.0) / 60.0 if budget >= 1.0 else budget / 60.0


def budget_now(pace: Pace, now: float) -> float:
    """The budget after what has come back since the last 429's wait was over."""
    since = max(0.0, now - max(pace.budget_at, pace.blocked_until))
    return min(pace.nominal, pace.budget + pace.nominal * RECOVERY_PER_MINUTE * since / 60.0)


def settled(pace: Pace, now: float) -> Pace:
    """The same pace, counted up to ``now``."""
    budget, room = _left(pace, now)
    at = max(pace.room_at, now)
    return replace(pace, budget=budget, budget_at=at, room=room, room_at=at)


def _left(pace: Pace, now: float) -> tuple[float, float]:
    """Budget and room by now."""
    budget = budget_now(pace, now)
    return budget, min(burst(budget), pace.room + refill_per_s(budget) * max(0.0, now - pace.room_at))


def wait_s(pace: Pace, now: float) -> float:
    """Seconds until the next request may leave; 0.0 for now."""
    budget, room = _left(pace, now)
    lacking = 0.0 if room >= _WHOLE else (1.0 - room) / refill_per_s(budget)
    wait = max(0.0, lacking, pace.blocked_until - now)
    return max(wait, SHORTEST_SLEEP_S) if wait > 0.0 else 0.0


def taken(pace: Pace, now: float) -> Pace:
    """One request leaves."""
    current = settled(pace, now)
    return replace(current, room=max(0.0, current.room - 1.0))


def struck(pace: Pace, *, began: float, now: float, retry_after: timedelta | None, chance: float) -> Pace:
    """A 429 came back for a request begun at ``began``. ``chance`` is drawn from [0, 1)."""
    current = settled(pace, now)
    same_storm = began < current.struck_at
    strikes = current.strikes if same_storm else current.strikes + 1
    until = now + pause(max(1, strikes), retry_after, chance).total_seconds()
    if same_storm:
        return current if retry_after is None else replace(current, blocked_until=max(current.blocked_until, until))
    floor = min(current.nominal, FLOOR_PER_MINUTE)
    budget = max(floor, current.budget / 2.0)
    return replace(
        current,
        budget=budget,
        room=min(current.room, burst(budget)),
        strikes=strikes,
        struck_at=now,
        blocked_until=max(current.blocked_until, until),
    )


def pause(strikes: int, retry_after: timedelta | None, chance: float) -> timedelta:
    """What the service asked for, cut at a quarter of an hour; else 5 to 10 s, 10 to 20 s, … up to 60 s."""
    if retry_after is not None and retry_after > timedelta(0):
        return min(retry_after, LONGEST_RETRY_AFTER)
    least = min(FIRST_BACKOFF * (1 << min(strikes - 1, 8)), LONGEST_BACKOFF / 2)
    return min(least * (1.0 + chance), LONGEST_BACKOFF)


def eased(pace: Pace, *, began: float, now: float) -> Pace:
    """An answer that was no 429. Only a request begun after the back-off says that the storm is over."""
    current = settled(pace, now)
    return replace(current, strikes=0) if current.strikes and began >= current.blocked_until else current


def given_back(pace: Pace, requests: int, now: float) -> Pace:
    """Requests that were counted and did not leave after all."""
    current = settled(pace, now)
    return replace(current, room=min(burst(current.budget), current.room + requests))
