"""The brakes that are read in the very transaction that records the attempt."""

from datetime import timedelta

from tests.builders import EVENT, NOW, PARTNER, RULE, a_write, cases, spending
from tests.unit.guards.test_spending import booking
from worker.guards import HOUR, Limits, held_in_transaction
from worker.model.commits import Halt, SendingView
from worker.model.facts import EventId, RuleId, WriteId

LATER = NOW + timedelta(minutes=5)
HALT = Halt(id=1, partner=PARTNER, rule=None, until=LATER, because="review", by="ann", at=NOW)
BUSY = a_write("pause", "applied", id=WriteId(9))


@cases(
    "view, code",
    (SendingView(halts=(HALT,)), "halt", "once halt has returned, nothing new is recorded as sending"),
    (SendingView(on_target=(BUSY,)), "target_busy", "another write got there first"),
    (SendingView(halts=(HALT,), on_target=(BUSY,)), "halt", "a person's word comes first"),
)
def test_halts_and_busy_targets_are_read_again_in_the_transaction(view: SendingView, code: str) -> None:
    hold = held_in_transaction(a_write("run"), None, Limits(), NOW, view)
    assert hold is not None
    assert hold.reason == code


def test_a_halt_of_another_rule_and_an_overtaken_write_brake_nothing() -> None:
    other = Halt(id=2, partner=None, rule=RuleId("other"), until=None, because="x", by="ann", at=NOW)
    view = SendingView(halts=(other,), on_target=(a_write("run", "unknown", id=WriteId(9)),))
    assert other.rule != RULE
    assert held_in_transaction(a_write("pause"), None, Limits(), NOW, view) is None


def test_no_writes_per_hour_at_all_holds_everything_that_does_not_stop_spending() -> None:
    hold = held_in_transaction(a_write("run"), None, Limits(writes_per_hour=0), NOW, SendingView())
    assert hold is not None
    assert (hold.reason, hold.until) == ("writes_per_hour", None), "no time will make room"
    assert held_in_transaction(a_write("pause"), None, Limits(writes_per_hour=0), NOW, SendingView()) is None


def test_the_brake_of_the_hour_says_when_there_is_room_again() -> None:
    oldest = NOW - timedelta(minutes=50)
    view = SendingView(sent_last_hour=(NOW - timedelta(minutes=1), oldest))
    hold = held_in_transaction(a_write("run"), None, Limits(writes_per_hour=2), NOW, view)
    assert hold is not None
    assert hold.until == oldest + HOUR
    lowered = held_in_transaction(a_write("run"), None, Limits(writes_per_hour=1), NOW, view)
    assert lowered is not None
    assert lowered.until == view.sent_last_hour[0] + HOUR, "when the first has left, the other still fills it"


@cases(
    "limits, amount, spent_event, spent_today, held",
    (Limits(), 1e9, 1e9, 1e9, False, "without a limit nothing is too much"),
    (spending(per_event=1000.0), 500.0, 500.0, 9999.0, False, "exactly the event's limit"),
    (spending(per_event=1000.0), 500.1, 500.0, 0.0, True, "beyond the event's limit"),
    (spending(per_day=1000.0), 500.0, 9999.0, 500.0, False, "exactly the day's limit"),
    (spending(per_day=1000.0), 500.1, 0.0, 500.0, True, "beyond the day's limit"),
    (spending(per_event=1.0, per_day=1.0), None, 9.0, 9.0, False, "a write without a budget"),
    (spending(per_event=1000.0, per_day=100.0), 500.0, 0.0, 0.0, True, "either is enough"),
    (spending(per_event=0.0), 1.0, 0.0, 0.0, True, "nothing may be spent"),
)
def test_spend(limits: Limits, amount: float | None, spent_event: float, spent_today: float, held: bool) -> None:
    today, before = NOW - timedelta(hours=1), NOW - timedelta(days=2)
    booked = [booking(7, "boost", EVENT, before, spent_event), booking(8, "boost", EventId("e2"), today, spent_today)]
    view = SendingView(booked=tuple(booked))
    hold = held_in_transaction(a_write("boost"), amount, limits, NOW, view)
    assert (hold is not None) is held
    assert hold is None or hold.reason == "spend"
