"""What commands print for scripts, and how they tell a time."""

from datetime import UTC, datetime, timedelta

import pytest

from worker.cli.output import print_json, when


def test_what_people_write_is_printed_as_they_wrote_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"title": "Münster"})
    assert capsys.readouterr().out == '{\n  "title": "Münster"\n}\n'


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0s ago"), (125, "2m5s ago"), (7_513, "2h5m ago"), (18 * 86_400 + 7_513, "18d2h ago"), (-30, "in 30s")],
)
def test_a_time_is_shown_with_its_distance_the_less_exact_the_longer(seconds: float, words: str) -> None:
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert when(at, at + timedelta(seconds=seconds)) == f"2026-03-01 12:00:00 UTC ({words})"
