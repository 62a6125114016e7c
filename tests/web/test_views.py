"""What a page shows, from records as they are stored."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from tests.builders import cases
from worker.model.facts import Json, RuleId
from worker.model.writes import Outcomes, Settled
from worker.web.pictures import time_to_confirmed, timeline, writes_a_day
from worker.web.views import LINES_MAX, ago, answers, cut, log_asked, request_id, spelled, writes_asked

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RULE = RuleId("pause-cancelled")


def at(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def record(seq: int, kind: str, seconds: float, **more: Any) -> dict[str, Json]:  # noqa: ANN401 - fields of a record
    usual = {"partner": "p", "event": "e", "why": kind, "by": "worker"}
    return {"seq": seq, "kind": kind, "at": at(seconds), **usual, **more}


def of_the_pause(seq: int, kind: str, seconds: float, **more: Any) -> dict[str, Json]:  # noqa: ANN401 - as above
    return record(seq, kind, seconds, **{"rule": RULE, "episode": 1, "write": 7, "action": "pause", **more})


def observed(seq: int, seconds: float, value: Json, before: Json, *, maker: int | None) -> dict[str, Json]:
    facts = {"event.client_campaign_status": value, "before": before}
    return record(seq, "observed", seconds, facts=facts, maker=maker)


STORY = (
    record(1, "fired", 0, rule=RULE, episode=1, why="event.status is 'cancelled'"),
    of_the_pause(2, "planned", 0),
    of_the_pause(3, "sending", 1),
    of_the_pause(4, "unknown", 2),
    observed(5, 5, "PAUSED", "RUNNING", maker=7),
    of_the_pause(6, "evidence", 5, evidence={"says": "there", "x_request_id": "r1"}),
    of_the_pause(7, "confirmed", 5),
)


AGAIN = (*STORY, observed(8, 90, "RUNNING", "PAUSED", maker=None))


@cases(
    "records, said",
    (STORY, ["PAUSED", True, 7, RULE, "event.status is 'cancelled'"], "the worker, and what decided"),
    (AGAIN, ["RUNNING", False, 0, "", ""], "the last hand counts, and another hand has no rule"),
    ((observed(1, 0, "PAUSED", "RUNNING", maker=0),), ["PAUSED", True, 0, "", ""], "ours, of no known attempt"),
)
def test_whose_doing_a_value_is(records: Sequence[dict[str, Json]], said: list[Json]) -> None:
    (answer,) = answers(records)
    assert [answer[name] for name in ("value", "ours", "write", "rule", "because")] == said


def test_a_record_has_the_request_id_of_its_read_or_answer() -> None:
    assert [request_id(one) for one in STORY[4:6]] == ["", "r1"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s ago"),
        (59, "59 s ago"),
        (61, "1 min ago"),
        (7_300, "2 h ago"),
        (90_000, "1 day ago"),
        (-60, "in 1 min"),
    ],
)
def test_how_long_ago_is_said_in_one_unit(seconds: float, words: str) -> None:
    assert ago(at(-seconds), NOW) == words


def test_long_values_are_indented_and_short_ones_are_not() -> None:
    assert spelled({"a": 1}) == '{"a": 1}'
    assert "\n" in spelled({"a": "x" * 100})


def test_a_timeline_has_a_lane_for_each_field_rule_and_write() -> None:
    drawn = timeline(STORY, NOW + timedelta(hours=1))
    assert drawn is not None
    assert [(lane.kind, lane.name) for lane in drawn.lanes] == [
        ("field", "client_campaign_status"),
        ("rule", RULE),
        ("write", "write 7, pause"),
    ]
    field, rule, write = drawn.lanes
    assert [span.label for span in field.spans] == ["RUNNING", "PAUSED"]
    assert [mark.shape for mark in field.marks] == ["diamond"]
    assert [mark.shape for mark in rule.marks] == ["dot"]
    assert [span.label for span in write.spans] == ["planned", "sending", "unknown"]
    assert [mark.shape for mark in write.marks] == ["tick", "small", "dot"]
    assert drawn.ticks[0][1] == "03-01 12:00:00"
    assert drawn.ticks[-1][1] == "now"


def test_what_a_field_was_stands_in_its_picture_as_beside_it() -> None:
    changes = [observed(1, 5, "RUNNING", None, maker=None), observed(2, 9, None, "RUNNING", maker=None)]
    drawn = timeline(changes, NOW + timedelta(hours=1))
    assert drawn is not None
    (field,) = drawn.lanes
    assert [span.label for span in field.spans] == ["RUNNING", "null"]
    assert field.marks[0].label.endswith("null → RUNNING, not by the worker")
    assert answers(changes)[0]["value"] == "null"


def test_what_held_a_write_is_on_its_line() -> None:
    held = of_the_pause(8, "held", 0.5, reason="halt", why="halted by Ann")
    drawn = timeline([*STORY[:2], held, *STORY[2:]], NOW + timedelta(hours=1))
    assert drawn is not None
    rings = [mark.label for mark in drawn.lanes[-1].marks if mark.shape == "ring"]
    assert rings == ["2026-03-01 12:00:00 held halt halted by Ann"]


def test_a_timeline_runs_forwards_and_stays_within_its_bounds() -> None:
    many = [record(number, "held", 37 * number**2, rule=f"r{number % 3}") for number in range(400)]
    drawn = timeline(many, NOW + timedelta(days=400))
    assert drawn is not None
    for lane in drawn.lanes:
        places = [mark.x for mark in lane.marks]
        assert places == sorted(places)
        assert all(210 <= x <= drawn.width for x in places), "left of them stand the names"
    assert drawn.width <= 2_400
    gaps = [new[0] - old[0] for old, new in zip(drawn.ticks, drawn.ticks[1:], strict=False)]
    assert min(gaps) > 60


def test_of_many_writes_the_newest_are_drawn_and_the_rest_is_counted() -> None:
    many = [record(number, "planned", number, write=number, action="pause") for number in range(1, 31)]
    drawn = timeline(many, NOW + timedelta(hours=1))
    assert drawn is not None
    assert (len(drawn.lanes), drawn.left_out, drawn.lanes[-1].name) == (14, 16, "write 30, pause")


def test_without_records_there_is_no_timeline() -> None:
    assert timeline([], NOW) is None


def test_writes_are_stacked_by_day_and_every_one_is_counted() -> None:
    counts = [
        Outcomes(day="2026-03-01", state="confirmed", count=30),
        Outcomes(day="2026-03-01", state="needs_human", count=2),
        Outcomes(day="2026-02-27", state="rejected", count=1),
    ]
    chart = writes_a_day(counts, date(2026, 3, 1), 30)
    assert [bar.label for bar in chart.bars] == [
        "2026-02-27: 1 refused or unconfirmed",
        "2026-03-01: 30 confirmed",
        "2026-03-01: 2 needs an operator",
    ]
    assert [text for _, text in chart.up] == ["0", "10", "20", "30", "40"]
    assert chart.rows[0] == ("2026-03-01", "30", "0", "2", "0", "0")
    assert [row[0] for row in chart.rows] == ["2026-03-01", "2026-02-27"], (
        "no row of a day on which nothing was written"
    )
    for bar in chart.bars:
        assert bar.y >= 0
        assert bar.y + bar.height <= chart.up[0][0] + 0.11


@pytest.mark.parametrize("days", [7, 30, 90, 365])
def test_a_chart_of_any_range_stays_within_its_frame(days: int) -> None:
    counts = [
        Outcomes(day=(NOW.date() - timedelta(days=one)).isoformat(), state="confirmed", count=1) for one in range(days)
    ]
    chart = writes_a_day(counts, NOW.date(), days)
    assert len(chart.bars) == days
    assert all(bar.width > 0 and bar.x + bar.width <= chart.width for bar in chart.bars)
    assert 4 <= len(chart.across) <= 7


def test_the_middle_and_the_slow_end_of_confirming_are_drawn() -> None:
    settled = [Settled(day="2026-03-01", count=100, middle_s=50.5, slow_s=95.0)]
    chart = time_to_confirmed(settled, NOW.date(), 30)
    assert chart.rows == (("2026-03-01", "100", "50.5 s", "1 min"),)
    slow, middle = chart.bars
    assert (slow.height > middle.height, slow.width > middle.width) == (True, True)
    assert time_to_confirmed([], NOW.date(), 30).bars == ()


def test_what_a_filter_cannot_mean_is_said_and_left_out() -> None:
    asked = log_asked({"kind": "sent", "reason": "because", "write": "x", "since": "noon", "event": " e "}, NOW)
    assert len(asked.problems) == 4
    assert (asked.wanted.kind, asked.wanted.reason, asked.wanted.write, asked.wanted.since) == (None, None, None, None)
    assert asked.wanted.event == "e"
    assert writes_asked({"state": "done"}, NOW).problems == ("state: there is no state 'done'",)


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("2h", NOW - timedelta(hours=2), NOW - timedelta(hours=2)),
        ("2026-02-01", datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 2, 2, tzinfo=UTC)),
        ("2026-02-01T01:00+01:00", datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)),
        ("9999-12-31", datetime(9999, 12, 31, tzinfo=UTC), None),
    ],
)
def test_times_are_how_long_ago_or_when_and_a_day_is_all_of_it(
    text: str, since: datetime, until: datetime | None
) -> None:
    wanted = log_asked({"since": text, "until": text}, NOW).wanted
    assert (wanted.since, wanted.until) == (since, until)


def test_leafing_keeps_the_filters_of_the_address() -> None:
    asked = log_asked({"event": "a&b", "kind": "held", "before": "90"}, NOW)
    assert asked.query(before=40) == "event=a%26b&kind=held&before=40"
    assert asked.query(kind="") == "event=a%26b"
    assert asked.wanted.before_id == 90


FILE = """\
rules:
  - id: first
    when: "true"

    # a word about it
    do: [pause]

  # of the next
  -
    id: second
    do:
      - run
other: 1
"""


def test_a_rules_text_is_cut_out_of_its_file() -> None:
    assert cut(FILE, 2) == '- id: first\n  when: "true"\n\n  # a word about it\n  do: [pause]'
    assert cut(FILE, 10) == "-\n  id: second\n  do:\n    - run"
    assert cut(FILE, 99) == ""


@pytest.mark.parametrize("end", ["\u2028", "\x85", "\x0c", "\x1e"])
def test_another_end_of_a_line_than_the_loaders_moves_no_rules_text(end: str) -> None:
    """Pasted from a mail into a description, it made each later rule be shown with the text of one before it."""
    assert cut(FILE.replace("a word", f"a{end}word"), 10) == cut(FILE, 10)


def test_a_rules_text_goes_on_behind_a_comment_at_the_edge_and_says_where_it_is_cut_off() -> None:
    text = "rules:\n  - id: first\n# for now\n    when: 'true'\n    do: [pause]\n\n# of the next\n  - id: second\n"
    assert cut(text, 2) == "- id: first\n# for now\n  when: 'true'\n  do: [pause]"
    long = "- id: first\n  do:\n" + "    - run\n" * LINES_MAX
    assert cut(long, 1).splitlines()[LINES_MAX:] == ["… and 2 more lines"]
