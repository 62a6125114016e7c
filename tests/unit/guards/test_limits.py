"""The brakes that are read in the very transaction that records the attempt, and how money is added up for them."""

from dataclasses import replace
from datetime import datetime, timedelta
from time import perf_counter

import pytest

from tests.builders import EVENT, NOW, PARTNER, a_fact, a_situation, a_write, cases, spending
from worker.guards import Limits, Situation, added_by, held_by_spend, held_in_transaction, spent, target_free
from worker.model.commits import Booking, Halt, Hold, SendingView
from worker.model.facts import EventId, Json, RuleId, WriteId
from worker.model.rules import SpendLimits
from worker.model.writes import State, Write
from worker.writes.intents import holds_back

LATER = NOW + timedelta(minutes=5)
HALT = Halt(id=1, partner=PARTNER, rule=None, until=LATER, because="review", by="ann", at=NOW)
BUSY = a_write("pause", "applied", id=WriteId(9))


def held(action: str, view: SendingView | None = None, limits: Limits | None = None) -> Hold | None:
    """What the brakes of the transaction say of a write without a budget."""
    return held_in_transaction(a_write(action), None, limits or Limits(), NOW, view or SendingView())


OTHER_HALT = Halt(id=2, partner=None, rule=RuleId("other"), until=None, because="x", by="ann", at=NOW)
OVERTAKEN = a_write("run", "unknown", id=WriteId(9))


@cases(
    "action, view, code",
    ("run", SendingView(halts=(HALT,)), "halt", "once halt has returned, nothing new is recorded as sending"),
    ("run", SendingView(on_target=(BUSY,)), "target_busy", "another write got there first"),
    ("run", SendingView(halts=(HALT,), on_target=(BUSY,)), "halt", "a person's word comes first"),
    ("pause", SendingView(halts=(OTHER_HALT,)), None, "the halt of another rule brakes nothing"),
    ("pause", SendingView(on_target=(OVERTAKEN,)), None, "nor does an overtaken write"),
)
def test_what_the_transaction_reads_again(action: str, view: SendingView, code: str | None) -> None:
    hold = held(action, view)
    assert (hold and hold.reason) == code


def test_no_writes_per_hour_at_all_holds_everything_that_does_not_stop_spending() -> None:
    hold = held("run", limits=Limits(writes_per_hour=0))
    assert hold is not None
    assert (hold.reason, hold.until) == ("writes_per_hour", None), "no time will make room"
    assert held("pause", limits=Limits(writes_per_hour=0)) is None


@cases(
    "limit, until",
    (2, NOW + timedelta(minutes=10), "when the first has left"),
    (1, NOW + timedelta(minutes=59), "when the first has left, the other still fills it"),
)
def test_the_brake_of_the_hour_says_when_there_is_room_again(limit: int, until: datetime) -> None:
    sent = (NOW - timedelta(minutes=1), NOW - timedelta(minutes=50))
    hold = held("run", SendingView(sent_last_hour=sent), Limits(writes_per_hour=limit))
    assert (hold and hold.until) == until


@pytest.mark.parametrize(("amount", "reason"), [(500.1, "spend"), (500.0, None), (None, None)])
def test_the_transaction_reads_again_what_is_booked(amount: float | None, reason: str | None) -> None:
    view = SendingView(booked=(booking(7, "boost", EVENT, NOW - timedelta(days=2), 500.0),))
    hold = held_in_transaction(a_write("boost"), amount, spending(per_event=1000.0), NOW, view)
    assert (hold and hold.reason) == reason


def test_a_message_waits_for_no_other_and_counts_among_no_writes_of_an_hour() -> None:
    message = a_write("notify", params={"value": "x"}, id=WriteId(5))
    other = a_write("notify", "needs_human", params={"value": "x"}, id=WriteId(3))
    assert not holds_back(other, message)
    assert target_free(a_situation(message, on_target=(other,))) is None
    many = SendingView(sent_last_hour=(NOW,) * 120)
    assert held_in_transaction(message, None, Limits(), NOW, many) is None
    assert held("run", many) is not None


def test_changes_of_a_draft_keep_their_order_also_while_one_is_held() -> None:
    older = a_write("update_draft", params={"total_budget": 1.0}, id=WriteId(3))
    newer = a_write("update_draft", params={"goal": "ROAS"}, id=WriteId(5))
    assert holds_back(older, newer)
    assert not holds_back(newer, older)
    assert not holds_back(newer, newer)
    assert not holds_back(a_write("boost", id=WriteId(3)), newer), "a boost that was not sent orders nothing"
    assert not holds_back(a_write("run", id=WriteId(3)), a_write("run", id=WriteId(5))), "only drafts have an order"
    assert holds_back(a_write("boost", "unknown", id=WriteId(9)), newer), "it may have an effect"


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
    ("1 boost e1 500", "2 boost e1 500", {"per_event": 1000}, False, "exactly the event's limit"),
    ("1 boost e2 500", "2 boost e1 500", {"per_day": 1000}, False, "exactly the day's limit"),
    ("1 boost e2 500", "2 boost e1 500.1", {"per_day": 1000}, True, "beyond the day's limit"),
    ("", "2 boost e1 500", {"per_event": 1000, "per_day": 100}, True, "either is enough"),
    ("", "2 boost e1 1", {"per_event": 0}, True, "nothing may be spent"),
)
def test_the_brake(before: str, mine: str, limits: dict[str, float], held: bool) -> None:
    assert EVENT == "e1"
    (wanted,) = money(mine)
    found = held_by_spend(wanted.event, wanted.amount, money(before), Limits(spend=SpendLimits(**limits)), NOW)
    assert (found is not None) is held


OF_RULE, PER_EVENT = Limits(of_rules={RULE: SpendLimits(per_day=999)}), Limits(spend=SpendLimits(per_event=999))
AND_500 = "with 500 it would be"


@cases(
    "before, limits, why",
    (
        "1 boost e2 500 r 1h",
        OF_RULE,
        f"in 24 hours by rule r; {AND_500} 1000, and 999 is allowed",
        "a rule's own limit",
    ),
    ("1 boost e2 500 other 1h", OF_RULE, None, "another rule's money"),
    ("1 boost e1 500", PER_EVENT, f"for the event; {AND_500} 1000, and 999 is allowed", "the event's"),
)
def test_the_brake_says_what_it_compared(before: str, limits: Limits, why: str | None) -> None:
    (mine,) = money("2 boost e1 500")
    found = held_by_spend(mine.event, mine.amount, money(before), limits, NOW)
    assert (found and found.why) == (why and f"500 sent {why}")


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
    found = held_by_spend(mine.event, mine.amount, before, Limits(spend=SpendLimits(**limit)), NOW)
    assert found is not None
    assert found.until == until


def test_a_week_of_many_small_writes_takes_no_time_to_look_through() -> None:
    """Within a transaction, on the loop, at each try of each write that is held."""
    (mine,) = money("9 boost e1 19000")
    each = money("1 boost e2 1 r 1m")[0]
    week = [replace(each, write=WriteId(10 + one), at=NOW - one * timedelta(seconds=30)) for one in range(20_000)]
    began = perf_counter()
    found = held_by_spend(mine.event, mine.amount, week, Limits(spend=SpendLimits(per_week=20_000)), NOW)
    assert perf_counter() - began < 2, "each time the sum of all, it was a minute"
    assert found is not None
    assert found.until == NOW - 1_000 * timedelta(seconds=30) + timedelta(days=7)


def test_a_large_amount_is_told_to_the_cent() -> None:
    (mine,) = money("2 boost e1 0.5")
    found = held_by_spend(
        mine.event, mine.amount, money("1 boost e1 1234567"), Limits(spend=SpendLimits(per_day=1234567.25)), NOW
    )
    assert (
        found and found.why
    ) == "1234567 sent in 24 hours; with 0.5 it would be 1234567.5, and 1234567.25 is allowed"


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
def test_what_a_boost_adds(there: float | None, booked: list[Booking], amount: float | None) -> None:
    assert added_by(situation(BOOST, there), booked) == amount
