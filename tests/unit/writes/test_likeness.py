"""When two values of a field are one."""

from worker.writes.likeness import same_field


def test_budgets_are_the_same_in_cents_and_everything_else_to_the_letter() -> None:
    assert same_field("budget", 10.001, 10)
    assert not same_field("budget", 10.01, 10)
    assert not same_field("budget", "10.001", 10)
    assert not same_field("share", 10.001, 10)
    assert same_field("share", " x ", "x")
