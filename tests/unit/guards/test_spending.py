"""How money is added up: what a write adds, once for a write, within the event, the day, the week and the rule."""

from datetime import datetime, timedelta
from typing import Any

from tests.builders import EVENT, NOW, a_fact, a_write, cases
from worker.guards import Limits, Situation, added_by, held_by_spend, spent
from worker.model.commits import Booking
from worker.model.facts import EventId, Fact, Json, RuleId, WriteId
from worker.model.rules import SpendLimits
from worker.model.writes import Write

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
RULE = RuleId("r")


def booking(write: int, action: str, event: EventId, at: datetime, amount: float, rule: str = "r") -> Booking:
    target = "campaign:a:1" if action == "edit_cluster" else "setup"
    return Booking(
        write=WriteId(write),
        event=event,
        rule=RuleId(rule),
        episode=1,
        rules=(RuleId(rule),),
        target=target,
        at=at,
        amount=amount,
    )


def money(text: str) -> list[Booking]:
    """``1 edit_cluster e1 50 r 3h``: write, action, event, amount, rule and how long ago."""
    found: list[Booking] = []
    for part in (one.split() for one in text.split(", ") if one):
        number, action, event, amount, rule, ago = [*part, "r", "1m"][:6] if len(part) == 4 else part
        unit = {"m": timedelta(minutes=1), "h": HOUR, "d": DAY}[ago[-1]]
        found.append(booking(int(number), action, EventId(event), NOW - int(ago[:-1]) * unit, float(amount), rule))
    return found


@cases(
    "text, total",
    ("", 0, "nothing was sent"),
    ("1 boost e1 500, 1 boost e1 900", 900, "a write that was sent again counts once, with the most it carried"),
    ("1 boost e1 900, 1 boost e1 500", 900, "in whatever order"),
    ("1 create_draft e1 500, 2 edit_cluster e1 50, 3 edit_cluster e1 60", 610, "each adds what it adds"),
    ("1 edit_cluster e1 0.1, 2 edit_cluster e1 0.2", 0.3, "in whole cents"),
)
def test_the_sum(text: str, total: float) -> None:
    assert spent(money(text)) == total


@cases(
    "before, mine, limits, held",
    ("1 boost e1 500", "1 boost e1 500", {"per_event": 500}, False, "a write is not against itself"),
    ("1 boost e2 500", "2 boost e1 500", {"per_event": 500}, False, "another event's money"),
    ("1 boost e2 500", "2 boost e1 500", {"per_day": 999}, True, "the day is the partner's"),
    ("1 boost e2 500 r 23h", "2 boost e1 500", {"per_day": 999}, True, "the last 24 hours, over midnight"),
    ("1 boost e2 500 r 25h", "2 boost e1 500", {"per_day": 999}, False, "and not longer"),
    ("1 boost e2 500 r 25h", "2 boost e1 500", {"per_week": 999}, True, "the week remembers"),
    ("1 boost e2 500 r 169h", "2 boost e1 500", {"per_week": 999}, False, "168 hours"),
    ("1 boost e1 500 r 900d", "2 boost e1 500", {"per_event": 999}, True, "the event never forgets"),
    ("1 boost e2 500 r -9d", "2 boost e1 500", {"per_week": 999}, False, "what a wrong clock stamped"),
    ("1 boost e1 500", "2 boost e1 0", {"per_event": 1}, False, "what adds nothing passes no limit"),
    ("1 boost e2 500", "2 boost e1 500", {}, False, "no limit"),
)
def test_the_brake(before: str, mine: str, limits: dict[str, float], held: bool) -> None:
    assert EVENT == "e1"
    (wanted,) = money(mine)
    found = held_by_spend(wanted, money(before), Limits(spend=SpendLimits(**limits)), NOW)
    assert (found is not None) is held


@cases(
    "before, held",
    ("1 boost e2 500 r 1h", True, "its own"),
    ("1 boost e2 500 other 1h", False, "another rule's money"),
)
def test_a_rule_has_limits_of_its_own(before: str, held: bool) -> None:
    (mine,) = money("2 boost e1 500")
    found = held_by_spend(mine, money(before), Limits(of_rules={RULE: SpendLimits(per_day=999)}), NOW)
    assert (found is not None) is held
    assert found is None or found.why == "500 sent in 24 hours by rule r; with 500 it would be 1000, and 999 is allowed"


def test_the_brake_says_what_it_compared() -> None:
    (mine,) = money("2 boost e1 700")
    hold = held_by_spend(mine, money("1 boost e1 500"), Limits(spend=SpendLimits(per_event=1000)), NOW)
    assert hold is not None
    assert hold.why == "500 sent for the event; with 700 it would be 1200, and 1000 is allowed"


def test_the_brake_says_when_enough_of_it_is_long_ago() -> None:
    (mine,) = money("9 boost e1 700")
    before = money("1 boost e2 200 r 20h, 2 boost e2 200 r 10h, 3 boost e2 100 r 1h")

    def until(**limit: float) -> datetime | None:
        found = held_by_spend(mine, before, Limits(spend=SpendLimits(**limit)), NOW)
        assert found is not None
        return found.until

    assert until(per_day=1000) == NOW + 4 * HOUR
    assert until(per_day=999) == NOW + 14 * HOUR
    assert until(per_week=999) == NOW + 158 * HOUR
    assert until(per_day=700) == NOW + 23 * HOUR
    assert until(per_day=600) is None, "no time makes room for more than is allowed"
    assert held_by_spend(mine, money("1 boost e1 500"), Limits(spend=SpendLimits(per_event=1000)), NOW).until is None  # type: ignore[union-attr]


def situation(write: Write, **facts: Fact) -> Situation:
    return Situation(write=write, now=NOW, limits=Limits(), facts=facts)


def setup(**fields: Json) -> Fact:
    return a_fact({"state": "DRAFT", "goal": "ROAS", **fields})


def test_a_change_adds_what_it_is_more_than_what_was_there() -> None:
    def draft(budget: float) -> Write:
        return a_write("update_draft", params={"total_budget": budget})

    assert added_by(situation(draft(750.0), setup=setup(total_budget=500.0)), ()) == 250.0
    assert added_by(situation(draft(300.0), setup=setup(total_budget=500.0)), ()) == 0.0
    assert added_by(situation(draft(750.0), setup=setup()), ()) == 750.0, "nobody knows what was there"
    assert added_by(situation(draft(750.0)), ()) == 750.0
    assert added_by(situation(a_write("pause")), ()) is None


def test_what_was_there_before_an_attempt_that_may_have_had_an_effect_counts_for_all() -> None:
    before: dict[str, Any] = {
        "params": {"total_budget": 750.0},
        "before": {"total_budget": 500.0},
        "before_known": True,
    }
    again = a_write("update_draft", "unknown", **before)
    assert added_by(situation(again, setup=setup(total_budget=750.0)), ()) == 250.0
    void = a_write("update_draft", **before)
    assert added_by(situation(void, setup=setup(total_budget=100.0)), ()) == 650.0, "of one that had no effect"


def test_a_boost_adds_the_draft_but_for_what_its_own_episode_has_booked() -> None:
    boost = a_write("boost", id=WriteId(9))
    published = situation(boost, setup=setup(total_budget=500.0))
    key = boost.key
    made = booking(1, "create_draft", key.event, NOW - DAY, 500, key.rule)
    assert added_by(published, ()) == 500.0
    assert added_by(published, [made]) == 0.0
    assert added_by(situation(boost, setup=setup(total_budget=900.0)), [made]) == 400.0, "somebody has raised it since"
    assert added_by(published, [booking(1, "create_draft", key.event, NOW, 500, "other")]) == 500.0
    assert added_by(situation(boost, setup=setup()), [made]) is None
