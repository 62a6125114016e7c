"""The brakes that are read in the very transaction that records the attempt."""

from datetime import datetime, timedelta

from tests.builders import EVENT, NOW, PARTNER, a_situation, a_write, cases, spending
from tests.unit.guards.test_spending import booking
from worker.guards import Limits, held_in_transaction, target_free
from worker.model.commits import Halt, Hold, SendingView
from worker.model.facts import EventId, RuleId, WriteId
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
def test_halts_and_busy_targets_are_read_again_in_the_transaction(
    action: str, view: SendingView, code: str | None
) -> None:
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


@cases(
    "limits, amount, spent_event, spent_today, passed",
    (Limits(), 1e9, 1e9, 1e9, False, "without a limit nothing is too much"),
    (spending(per_event=1000.0), 500.0, 500.0, 9999.0, False, "exactly the event's limit"),
    (spending(per_event=1000.0), 500.1, 500.0, 0.0, True, "beyond the event's limit"),
    (spending(per_day=1000.0), 500.0, 9999.0, 500.0, False, "exactly the day's limit"),
    (spending(per_day=1000.0), 500.1, 0.0, 500.0, True, "beyond the day's limit"),
    (spending(per_event=1.0, per_day=1.0), None, 9.0, 9.0, False, "a write without a budget"),
    (spending(per_event=1000.0, per_day=100.0), 500.0, 0.0, 0.0, True, "either is enough"),
    (spending(per_event=0.0), 1.0, 0.0, 0.0, True, "nothing may be spent"),
)
def test_spend(limits: Limits, amount: float | None, spent_event: float, spent_today: float, passed: bool) -> None:
    of_event = booking(7, "boost", EVENT, NOW - timedelta(days=2), spent_event)
    today = booking(8, "boost", EventId("e2"), NOW - timedelta(hours=1), spent_today)
    hold = held_in_transaction(a_write("boost"), amount, limits, NOW, SendingView(booked=(of_event, today)))
    assert (hold and hold.reason) == ("spend" if passed else None)


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
