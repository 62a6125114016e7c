"""How money is added up: what a write adds, once for a write, within the event, the day, the week and the rule."""

from dataclasses import replace
from datetime import datetime, timedelta

from tests.builders import EVENT, NOW, a_fact, a_write, cases
from worker.guards import Limits, Situation, added_by, held_by_spend, spent
from worker.model.commits import Booking
from worker.model.facts import EventId, Json, RuleId, WriteId
from worker.model.rules import SpendLimits
from worker.model.writes import State, Write

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
    "before, limits, why",
    (
        "1 boost e2 500 r 1h",
        Limits(of_rules={RULE: SpendLimits(per_day=999)}),
        "500 sent in 24 hours by rule r; with 500 it would be 1000, and 999 is allowed",
        "a rule's own limit, and its own money",
    ),
    ("1 boost e2 500 other 1h", Limits(of_rules={RULE: SpendLimits(per_day=999)}), None, "another rule's money"),
    (
        "1 boost e1 700",
        Limits(spend=SpendLimits(per_event=1000)),
        "700 sent for the event; with 500 it would be 1200, and 1000 is allowed",
        "the event's",
    ),
)
def test_the_brake_says_what_it_compared_also_by_the_limits_of_a_rule(
    before: str, limits: Limits, why: str | None
) -> None:
    (mine,) = money("2 boost e1 500")
    found = held_by_spend(mine, money(before), limits, NOW)
    assert (found and found.why) == why


@cases(
    "limit, until",
    ({"per_day": 1000}, NOW + 4 * HOUR, "the oldest has left the day"),
    ({"per_day": 999}, NOW + 14 * HOUR, "and the next"),
    ({"per_week": 999}, NOW + 158 * HOUR, "both have left the week"),
    ({"per_day": 700}, NOW + 23 * HOUR, "all have left"),
    ({"per_day": 600}, None, "no time makes room for more than is allowed"),
    ({"per_event": 700}, None, "the event never forgets"),
)
def test_the_brake_says_when_enough_of_it_is_long_ago(limit: dict[str, float], until: datetime | None) -> None:
    (mine,) = money("9 boost e1 700")
    before = money("1 boost e2 200 r 20h, 2 boost e2 200 r 10h, 3 boost e2 100 r 1h, 4 boost e1 1 r 900d")
    found = held_by_spend(mine, before, Limits(spend=SpendLimits(**limit)), NOW)
    assert found is not None
    assert found.until == until


def situation(write: Write, there: float | None = None) -> Situation:
    """The write, where the setup was read with a budget of that, or without one."""
    draft: dict[str, Json] = {"state": "DRAFT", "goal": "ROAS"}
    setup = a_fact(draft if there is None else {**draft, "total_budget": there})
    return Situation(write=write, now=NOW, limits=Limits(), facts={"setup": setup})


def draft_of(budget: float, state: State = "planned") -> Write:
    """A change of the draft, which had a budget of 500 before it."""
    before: dict[str, Json] = {"total_budget": 500.0}
    return a_write("update_draft", state, params={"total_budget": budget}, before=before, before_known=True)


@cases(
    "of, amount",
    (situation(draft_of(750.0), 500.0), 250.0, "what it is more than what was there"),
    (situation(draft_of(300.0), 500.0), 0.0, "nothing where it is less"),
    (situation(draft_of(750.0)), 750.0, "all of it where the draft shows none"),
    (replace(situation(draft_of(750.0)), facts={}), 750.0, "all of it where nothing was read"),
    (situation(draft_of(750.0, "unknown"), 750.0), 250.0, "what may have had an effect, by what was there before it"),
    (situation(draft_of(750.0), 100.0), 650.0, "what had no effect, by what is there now"),
    (situation(a_write("pause")), None, "no money"),
)
def test_what_a_write_adds_to_what_was_there(of: Situation, amount: float | None) -> None:
    assert added_by(of, ()) == amount


BOOST = a_write("boost", id=WriteId(9))
MADE = booking(1, "create_draft", BOOST.key.event, NOW - DAY, 500, BOOST.key.rule)


@cases(
    "there, booked, amount",
    (500.0, [], 500.0, "the draft"),
    (500.0, [MADE], 0.0, "which its own episode has booked"),
    (900.0, [MADE], 400.0, "somebody has raised it since"),
    (500.0, [replace(MADE, rule=RuleId("other"), at=NOW)], 500.0, "another rule has booked it"),
    (None, [MADE], None, "a draft without a budget"),
)
def test_a_boost_adds_the_draft_but_for_what_its_own_episode_has_booked(
    there: float | None, booked: list[Booking], amount: float | None
) -> None:
    assert added_by(situation(BOOST, there), booked) == amount
