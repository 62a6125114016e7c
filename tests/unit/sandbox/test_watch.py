"""The twin notes bad manners, and does not accuse the polite."""

from collections.abc import Callable, Mapping

import pytest

from tests.builders import cases
from tests.unit.sandbox.desk import Desk
from worker.sandbox.faults import Fault, Match
from worker.sandbox.settings import TwinSettings
from worker.sandbox.start import SECOND_PARTNER

DO: Mapping[str, Callable[[Desk], object]] = {
    "read": lambda desk: desk.read("/events/e1"),
    "sign in": Desk.sign_in,
    "pause": Desk.pause,
    "task": lambda desk: desk.status("GET", "/events/e1/client_campaign_status/task"),
    "task of another": lambda desk: desk.status("GET", "/events/e2/client_campaign_status/task"),
}
GROWING = "pause; 2; task; 4; task; 8; task; 16; task; 32; task; 64; task"


def kinds(desk: Desk) -> list[str]:
    return [violation.kind for violation in desk.service.violations()]


@cases(
    "story, expected",
    ("read; read", ["read_floor"], "the same at once"),
    ("read; 2.999; read", ["read_floor"], "the same a little early"),
    ("read; 3; read", [], "exactly on time"),
    ("read; 60; read", [], "long after"),
    ("sign in; pause; sign in; pause; sign in; pause", [], "signing in and writing know no floor"),
    (GROWING, [], "a task may be read after its put with growing waits"),
    (f"{GROWING}; 128; task", ["task_too_often"], "but not for ever"),
    ("task", ["task_without_put"], "nor without a put"),
    ("pause; 2; task of another", ["task_without_put"], "nor with the put of another"),
    ("pause; 1.9; task", ["task_too_soon"], "nor too soon"),
    ("pause; 1.9; task; 3; task; 3; task", ["task_too_soon"] * 3, "nor in a loop"),
    ("pause; 2; task; pause; 2; task", [], "another put begins the reading of its task anew"),
)
def test_what_comes_too_soon_is_noted(story: str, expected: list[str]) -> None:
    """A number is a wait in seconds."""
    desk = Desk()
    for step in story.split("; "):
        if step in DO:
            DO[step](desk)
        else:
            desk.passes(float(step))

    assert kinds(desk) == expected


def test_no_rounding_accuses_a_client_that_waits_three_seconds_after_each_answer() -> None:
    desk = Desk()
    desk.now_s = 1000.1
    for _ in range(200):
        desk.read("/events/e1")
        desk.now_s = desk.now_s + 3.0

    assert kinds(desk) == []


@cases(
    "first, second, expected",
    ("/events/?limit=5", "/events/?limit=5&page=2", [], "another page"),
    ("/events/?limit=5", "/events/e1", [], "another resource"),
    ("/events/?limit=5&page=1", "/events/?page=1&limit=5", ["read_floor"], "another order"),
    ("/events/e1", "/events/%651", ["read_floor"], "another spelling"),
)
def test_what_is_another_read_does_not_go_by_its_spelling(first: str, second: str, expected: list[str]) -> None:
    desk = Desk()
    desk.read(first)
    desk.read(second)
    assert kinds(desk) == expected
    desk.partner = SECOND_PARTNER
    desk.read(second)
    assert kinds(desk) == expected, "another partner's is another one"


def test_the_floor_counts_from_the_answer_and_not_from_the_question() -> None:
    desk = Desk(faults=[Fault(kind="slow", params={"delay_s": 5.0})])
    desk.read("/events/e1")
    desk.passes(5.0 + 2.0)
    desk.read("/events/e1")

    assert kinds(desk) == ["read_floor"]


@pytest.mark.parametrize("kind", ["answer_before", "cut_before", "cut_after", "hang_before"])
def test_a_read_that_failed_is_no_leave_to_ask_again_at_once(kind: str) -> None:
    desk = Desk(faults=[Fault(kind=kind, match=Match(method="GET"))])  # type: ignore[arg-type]
    desk.send("GET", "/events/e1")
    desk.passes(1.0)
    desk.send("GET", "/events/e1")

    assert kinds(desk) == ["read_floor"]


def test_a_call_without_token_or_partner_is_noted_and_the_health_check_needs_neither() -> None:
    desk = Desk()
    desk.send_with({}, "GET", "/status/")
    assert kinds(desk) == []
    desk.send_with({}, "GET", "/events/e1")

    assert kinds(desk) == ["missing_authorization", "missing_partner"]


@pytest.mark.parametrize(
    ("limit", "expected"), [("1000", []), ("1001", ["limit_too_large"]), ("9" * 30, ["limit_too_large"])]
)
def test_a_very_large_page_is_noted(limit: str, expected: list[str]) -> None:
    desk = Desk()
    desk.answer("GET", f"/events/?limit={limit}")

    assert kinds(desk) == expected


def test_who_was_told_to_wait_waits_with_everything_of_that_partner() -> None:
    desk = Desk(faults=[Fault(kind="answer_before", params={"retry_after": 7})])
    desk.status("GET", "/events/e1")
    desk.passes(6.9)
    desk.pause("e2")
    assert kinds(desk) == ["retry_after"]
    desk.partner = SECOND_PARTNER
    desk.pause("e2")
    desk.partner = "partner-id-aurora-live"
    desk.passes(0.1)
    desk.pause("e3")

    assert kinds(desk) == ["retry_after"]


def test_what_was_under_way_when_the_429_was_given_is_not_held_against_anyone() -> None:
    desk = Desk(faults=[Fault(kind="answer_before", params={"retry_after": 7})])
    desk.status("GET", "/events/e1")
    desk.status("GET", "/events/e2")

    assert kinds(desk) == []


def test_the_budget_of_one_partner_is_not_the_budget_of_another() -> None:
    desk = Desk(settings=TwinSettings(rate_limit_per_minute=2, retry_after_s=3))
    first = [desk.answer("GET", f"/events/e{number}") for number in (1, 2, 3)]
    desk.partner = SECOND_PARTNER

    assert [answer.status for answer in first] == [200, 200, 429]
    assert first[2].headers["retry-after"] == "3"
    assert desk.status("GET", "/events/e1") == 200
    desk.partner = "partner-id-aurora-live"
    desk.passes(60.0)
    assert desk.status("GET", "/events/e1") == 200
