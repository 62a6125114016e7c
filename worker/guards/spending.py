"""How much money is booked: what the brake `safety.spend` compares with its limits. Pure, and the only place that adds.

Booked is what was compared: the amount that stood before the brake is recorded with the attempt, and nothing else is
ever looked up for it. An attempt counts until it is known to have had no effect; one whose outcome is unknown counts.

A budget is booked when it is first sent: a draft already when it is created, so that no more drafts come about than may
be published. It is one budget all the same: the `boost` that publishes the draft takes over what was booked for it
(docs/decisions/0004-a-draft-is-booked-once.md).
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from worker.guards.situation import Limits
from worker.model.actions import ACTIONS
from worker.model.commits import Booking, Brake
from worker.model.ids import EventId

DAY = timedelta(days=1)
PUBLISHES = "boost"
"""The action that commits the budget of the draft it finds."""


def spend_brake(mine: Booking, booked: Iterable[Booking], limits: Limits, now: datetime) -> Brake | None:
    """The limit that the write behind ``mine`` would pass. ``booked``: what other writes of the partner have booked."""
    others = tuple(one for one in booked if one.write != mine.write)
    of_event = [one for one in others if one.event == mine.event]
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    of_day = [one for one in others if midnight <= one.at < midnight + 2 * DAY]  # not what a wrong clock stamped
    for part, limit, words in (
        (of_event, limits.spend_per_event, "for the event"),
        (of_day, limits.spend_per_day, "today"),
    ):
        total = spent([*part, mine])
        if limit is not None and total > limit:
            why = f"{spent(part):g} sent {words}; with {mine.amount:g} it would be {total:g}, and {limit:g} is allowed"
            tomorrow = midnight + DAY if part is of_day and mine.amount <= limit else None
            return Brake(reason="spend", why=why, until=tomorrow)
    return None


def spent(booked: Iterable[Booking]) -> float:
    """The sum. A write that was sent again counts once, with the most that it carried; a draft counts once, too."""
    each: dict[object, Booking] = {}
    for one in sorted(booked, key=lambda one: one.at):
        known = each.get(one.write)
        each[one.write] = one if known is None or one.amount > known.amount else known
    drafts: dict[EventId, float] = {}
    total = 0.0
    for one in each.values():
        if one.target != ACTIONS[PUBLISHES].target:
            total += one.amount
        elif one.action == PUBLISHES:
            total += max(one.amount, drafts.pop(one.event, 0.0))
        else:
            drafts[one.event] = max(drafts.get(one.event, 0.0), one.amount)
    return total + sum(drafts.values())
