"""When two values of a field are one."""

import pytest

from worker.writes.evidence import alike, same, same_field


def test_budgets_are_the_same_in_cents_and_everything_else_to_the_letter() -> None:
    assert same_field("budget", 10.001, 10)
    assert not same_field("budget", 10.01, 10)
    assert same_field("budget", "10.00", 10), "a text that is the number"
    assert not same_field("budget", "10.01", 10)
    assert not same_field("budget", "ten", 10)
    assert not same_field("budget", None, "none")
    assert not same_field("share", "10.00", 10)
    assert not same_field("share", 10.001, 10)
    assert same_field("share", " x ", "x")


@pytest.mark.parametrize(
    ("one", "other", "so"),
    [
        ("Jazz", "jazz ", True),
        ("jazz", "ja\u200bzz", True),
        ("jazz", "ja\u00adzz", True),
        ("jazz", "jazz.", True),
        ("café", "cafe", True),
        ("jazz", "jazz 2", False),
        ("...", "!!!", False),
        ("", "", True),
    ],
)
def test_names_are_alike_that_a_person_would_take_for_one(one: str, other: str, so: bool) -> None:
    assert alike(one, other) == so
    assert not same(one, other) or one == other or one == other.strip()
