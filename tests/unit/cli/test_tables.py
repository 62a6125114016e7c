"""What is printed: JSON, times, and tables that are readable where there is little room and no order to a terminal."""

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta

import pytest

from worker.cli.output import print_json, print_table, when
from worker.cli.sandbox import LOG_NAMES, log_row
from worker.model.facts import Json

WHY = "event.status is 'cancelled'; event.frontend_status is 'DEFAULT'; the partner's campaigns are switched on"
RECORD: dict[str, Json] = {
    "at": "2026-03-01T12:00:06.250Z",
    "kind": "needs_human",
    "partner": "partner-id-harbour-hall",
    "event": "e10",
    "write": 12,
    "attempt": 2,
    "action": "boost",
    "why": WHY,
}


def printed(names: Sequence[str], rows: Sequence[Sequence[Json]]) -> list[str]:
    out = io.StringIO()
    with redirect_stdout(out):
        print_table("a table", names, rows)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.parametrize("columns", [110, 120])
def test_the_demo_s_log_keeps_every_name_on_one_line(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    lines = printed(LOG_NAMES, [log_row(RECORD)])

    assert max(map(len, lines)) <= columns
    assert any(
        line.split()[:5] == ["12:00:06.2", "needs_human", "harbour-hall/e10", "12.2", "boost"] for line in lines
    ), lines
    assert len(lines) <= 8, "the words take few lines"


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    text = "\n".join(printed(("id", "why"), [["e1", "title is '\x1b[31mred\x07\x9b2J'"], ["[bold]e2[/bold]", "plain"]]))

    assert not set(text) & {"\x1b", "\x07", "\x9b"}
    assert "[bold]e2[/bold]" in text


@pytest.mark.parametrize(("is_one", "shown"), [(True, "e\ufffd2J"), (False, "e\x9b2J")], ids=["a terminal", "a file"])
def test_json_orders_a_terminal_about_as_little_and_is_in_a_file_as_it_is(*, is_one: bool, shown: str) -> None:
    out = io.StringIO()
    out.isatty = lambda: is_one  # type: ignore[method-assign]
    with redirect_stdout(out):
        print_json({"event": "e\x9b2J"})
    assert json.loads(out.getvalue()) == {"event": shown}


def test_a_state_keeps_its_colour_where_there_is_no_room_for_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured(monkeypatch)
    monkeypatch.setenv("COLUMNS", "40")

    lines = printed(("id", "state", "rule", "why"), [[7, "needs_human", "r" * 40, "confirmed"]])

    assert any("id 7" in line and "\x1b[1;31mneeds_human" in line for line in lines), lines
    assert not any("\x1b[32m" in line for line in lines), "a word elsewhere has no colour"


def test_a_state_has_its_colour_where_the_terminal_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured(monkeypatch)
    names = ("id", "state", "why")
    rows: list[list[Json]] = [[1, "needs_human", "confirmed"], [2, "confirmed", "as wanted"]]

    text = "\n".join(printed(names, rows))

    assert "\x1b[31mneeds_human" in text
    assert "\x1b[32mconfirmed" in text
    assert text.count("\x1b[32m") == 1, "a word elsewhere has no colour"
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in "\n".join(printed(names, rows))
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b" not in "\n".join(printed(names, rows)), "a pipe has none"


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
