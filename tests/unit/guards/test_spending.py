"""How money is added up: once for a write, once for a draft, and only within the event or the day."""

from datetime import datetime, timedelta

import pytest

from tests.builders import EVENT, NOW
from worker.guards.checks import Limits, spend_brake, spent
from worker.model.commits import Booking
from worker.model.facts import EventId, WriteId

YESTERDAY = NOW - timedelta(days=1)


def money(text: str) -> list[Booking]:
    """``1 create_draft e1 500, 2 boost e1 500``: write, action, event and amount, one minute after the other."""
    found: list[Booking] = []
    for index, part in enumerate(one.split() for one in text.split(", ") if one):
        number, action, event, amount = part
        target = "setup" if action in ("boost", "create_draft", "update_draft") else "campaign:a:1"
        at = NOW - timedelta(minutes=30 - index)
        found.append(booking(int(number), action, target, EventId(event), at, float(amount)))
    return found


def booking(write: int, action: str, target: str, event: EventId, at: datetime, amount: float) -> Booking:
    return Booking(write=WriteId(write), event=event, action=action, target=target, at=at, amount=amount)


@pytest.mark.parametrize(
    ("text", "total", "reason"),
    [
        ("", 0, "nothing was sent"),
        ("1 create_draft e1 500", 500, "a draft is booked when it is created"),
        ("1 create_draft e1 500, 2 boost e1 500", 500, "the boost commits the draft's money, and no other"),
        ("1 create_draft e1 500, 2 update_draft e1 700, 3 boost e1 700", 700, "however often the draft was changed"),
        ("1 create_draft e1 500, 2 update_draft e1 300", 500, "either may be what stands there: the larger one"),
        ("1 create_draft e1 500, 2 boost e1 900", 900, "a person changed it in between: what is committed counts"),
        ("1 create_draft e1 900, 2 boost e1 500", 900, "what the draft had beside its total budget stays booked"),
        ("1 boost e1 500, 2 create_draft e1 500", 1000, "a draft after a boost is another one"),
        ("1 boost e1 500, 2 create_draft e1 300, 3 boost e1 300", 800, "and its boost is other money"),
        ("1 create_draft e1 500, 2 boost e2 400", 900, "the draft of another event is another one"),
        ("1 boost e1 500, 1 boost e1 900", 900, "a write that was sent again counts once, with the most it carried"),
        ("1 boost e1 900, 1 boost e1 500", 900, "in whatever order"),
        ("1 create_draft e1 500, 2 edit_cluster e1 50, 3 edit_cluster e1 60", 610, "campaigns have their own money"),
    ],
)
def test_the_sum(text: str, total: float, reason: str) -> None:
    assert spent(money(text)) == total, reason


@pytest.mark.parametrize(
    ("before", "mine", "limits", "braked", "reason"),
    [
        (
            "1 create_draft e1 500",
            "2 boost e1 500",
            Limits(spend_per_event=500),
            False,
            "its own draft is no hindrance",
        ),
        ("1 create_draft e1 500", "2 boost e1 501", Limits(spend_per_event=500), True, "one that has grown is"),
        ("1 create_draft e1 500", "2 boost e2 1", Limits(spend_per_day=500), True, "money kept for a draft is kept"),
        ("1 boost e1 500", "1 boost e1 500", Limits(spend_per_event=500), False, "a write is not against itself"),
        ("1 boost e2 500", "2 boost e1 500", Limits(spend_per_event=500), False, "another event's money"),
        ("1 boost e2 500", "2 boost e1 500", Limits(spend_per_day=999), True, "the day is the partner's"),
        ("1 boost e2 500", "2 boost e1 500", Limits(), False, "no limit"),
    ],
)
def test_the_brake(before: str, mine: str, limits: Limits, braked: bool, reason: str) -> None:
    assert EVENT == "e1"
    (wanted,) = money(mine)
    assert (spend_brake(wanted, money(before), limits, NOW) is not None) is braked, reason


def test_the_brake_says_what_it_compared() -> None:
    (mine,) = money("2 boost e1 700")
    brake = spend_brake(mine, money("1 boost e1 500"), Limits(spend_per_event=1000), NOW)
    assert brake is not None
    assert brake.why == "500 sent for the event; with 700 it would be 1200, and 1000 is allowed"


def test_yesterdays_money_is_the_events_and_not_the_days() -> None:
    (mine,) = money("2 boost e1 700")
    old = booking(1, "boost", "setup", EVENT, YESTERDAY, 500)
    assert spend_brake(mine, [old], Limits(spend_per_day=700), NOW) is None
    assert spend_brake(mine, [old], Limits(spend_per_event=700), NOW) is not None


def test_a_limit_of_the_day_says_until_when_unless_tomorrow_is_no_better() -> None:
    (mine,) = money("2 boost e1 700")
    tomorrow = spend_brake(mine, money("1 boost e2 500"), Limits(spend_per_day=1000), NOW)
    never = spend_brake(mine, money("1 boost e2 500"), Limits(spend_per_day=600), NOW)
    for_ever = spend_brake(mine, money("1 boost e1 500"), Limits(spend_per_event=1000), NOW)
    assert tomorrow is not None
    assert tomorrow.until == NOW.replace(hour=0) + timedelta(days=1)
    assert [one.until for one in (never, for_ever) if one is not None] == [None, None]
