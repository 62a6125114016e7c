"""The hours of `between`: by the clock on the wall, over midnight, and over both changes of the clock."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import cases
from tests.unit.engine.ruletest_bench import a_bench, passes
from tests.unit.rules.reading import the_rule
from worker.model.rules import Hours
from worker.rules.lint import lint
from worker.rules.load import read_rules
from worker.rules.spelling import WEEKDAYS, LocalHours


def hours(text: str) -> Hours:
    found = the_rule(f"rules: [{{id: r, when: event.status == 'x', do: [pause], between: {{{text}}}}}]").between
    assert found is not None
    return found


def at(text: str, zone: str = "UTC") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


BERLIN = "Europe/Berlin"


@cases(
    "text, now, opens",
    ('hours: "09:00-18:00"', "2026-03-02 08:59", "2026-03-02 09:00", "before"),
    ('hours: "09:00-18:00"', "2026-03-02 09:00", None, "the beginning is in it"),
    ('hours: "09:00-18:00"', "2026-03-02 17:59", None, "within"),
    ('hours: "09:00-18:00"', "2026-03-02 18:00", "2026-03-03 09:00", "the end is not in it"),
    ('hours: "09:00-18:00", days: mon-fri', "2026-03-07 12:00", "2026-03-09 09:00", "a Saturday"),
    ("days: [sat, sun]", "2026-03-06 23:59", "2026-03-07 00:00", "whole days"),
    ("days: sat", "2026-03-07 23:59", None, "to their end"),
    ("days: fri-mon", "2026-03-03 00:00", "2026-03-06 00:00", "days over the end of the week"),
    ('hours: "20:00-24:00"', "2026-03-02 23:59", None, "to the end of the day"),
    ('hours: "22:00-06:00", days: fri', "2026-03-06 05:00", "2026-03-06 22:00", "that is Thursday's night"),
    ('hours: "22:00-06:00", days: fri', "2026-03-07 05:59", None, "a night is of its evening's day"),
    ('hours: "22:00-06:00", days: fri', "2026-03-07 06:00", "2026-03-13 22:00", "and ends in the morning"),
)
@pytest.mark.parametrize("zone", ["UTC", BERLIN, "Asia/Kolkata"])
def test_hours_are_those_of_the_wall(text: str, now: str, opens: str | None, zone: str) -> None:
    found = hours(f"{text}, timezone: {zone}").opens(at(now, zone))
    assert found == (None if opens is None else at(opens, zone))


@cases(
    "text, now, opens",
    ('hours: "09:00-18:00"', "2026-03-28T17:30:00+00:00", "2026-03-29T07:00:00+00:00", "an hour earlier in UTC"),
    ('hours: "09:00-18:00"', "2026-10-24T17:30:00+00:00", "2026-10-25T08:00:00+00:00", "an hour later in UTC"),
    ('hours: "02:30-04:00"', "2026-03-29T00:30:00+00:00", "2026-03-29T01:00:00+00:00", "2:30 is not: 3:00 is first"),
    ('hours: "02:00-02:30"', "2026-03-29T00:59:00+00:00", "2026-03-30T00:00:00+00:00", "that half hour is not at all"),
    ('hours: "02:30-04:00"', "2026-10-25T00:00:00+00:00", "2026-10-25T00:30:00+00:00", "2:30 for the first time"),
    ('hours: "02:30-02:45"', "2026-10-25T00:50:00+00:00", "2026-10-25T01:30:00+00:00", "2:30 comes again"),
    ('hours: "22:00-02:30"', "2026-10-25T00:45:00+00:00", "2026-10-25T01:00:00+00:00", "its end comes again"),
    ('hours: "22:00-06:00"', "2026-03-29T04:00:00+00:00", "2026-03-29T20:00:00+00:00", "a night of seven hours"),
    ('hours: "22:00-06:00"', "2026-10-25T04:59:00+00:00", None, "a night of nine"),
)
def test_hours_over_both_changes_of_the_clock(text: str, now: str, opens: str | None) -> None:
    found = hours(f"{text}, timezone: {BERLIN}").opens(datetime.fromisoformat(now))
    assert found == (None if opens is None else datetime.fromisoformat(opens))


@settings(max_examples=60)
@given(
    begin=st.integers(0, 1439),
    end=st.integers(1, 1440),
    days=st.frozensets(st.integers(0, 6), min_size=1),
    minutes=st.integers(0, 4 * 1440),
    autumn=st.booleans(),
    zone=st.sampled_from([BERLIN, "America/New_York", "Australia/Lord_Howe", "UTC"]),
)
def test_they_begin_at_the_first_minute_that_is_within_them(
    begin: int, end: int, days: frozenset[int], minutes: int, autumn: bool, zone: str
) -> None:
    """Against a search minute by minute."""
    if begin == end:
        return
    found = LocalHours(source="x", begin=begin, end=end, days=days, timezone=zone)
    changes = datetime(2026, 10, 23, tzinfo=UTC) if autumn else datetime(2026, 3, 27, tzinfo=UTC)
    moment = changes + timedelta(minutes=minutes, seconds=30)
    opens = found.opens(moment)
    minute = moment.replace(second=0, microsecond=0)
    if opens is None:
        assert found.lasts(moment)
        return
    assert not found.lasts(moment)
    while not found.lasts(minute):
        minute += timedelta(minutes=1)
    assert opens == minute


def test_days_are_those_of_the_week() -> None:
    assert WEEKDAYS[datetime(2026, 3, 2, tzinfo=UTC).weekday()] == "mon"
    never = LocalHours(source="never", begin=0, end=60, days=frozenset(), timezone="UTC")
    with pytest.raises(ValueError, match="never never begin"):
        never.opens(datetime(2026, 3, 2, tzinfo=UTC))


# In force.

WORK = "{hours: '09:00-18:00', days: mon-fri, timezone: Europe/Berlin}"
PAUSE = f"{{id: r, when: \"event.status == 'cancelled'\", between: {WORK}, do: [pause]}}"


def test_what_fires_outside_of_the_hours_is_held_and_not_lost() -> None:
    passes(
        a_bench(PAUSE),
        """given: {now: 2026-03-06T16:58:00Z, event: {id: e1, status: active, client_campaign_status: RUNNING}}
steps:
  - {at: 0s, expect: []}
  - {at: 2m, set: {event: {status: cancelled}}, expect: [], held: [{rule: r, reason: between}]}
  - {at: 2d, expect: []}
  - {at: 2d15h1m, expect: []}
  - {at: 2d15h2m, expect: [{rule: r, action: pause}]}
""",
    )
    passes(
        a_bench(PAUSE),
        """given: {now: 2026-03-06T16:58:00Z, event: {id: e1, status: active, client_campaign_status: RUNNING}}
steps:
  - {at: 1m, set: {event: {status: cancelled}}, expect: [{rule: r, action: pause}]}
""",
    )


def test_what_is_over_before_the_hours_begin_fires_nothing_and_a_change_waits() -> None:
    change = PAUSE.replace("when: \"event.status == 'cancelled'\"", "on_change: {fact: event, by: city}").replace(
        "id: r", "id: c"
    )
    passes(
        a_bench(PAUSE, change),
        """given: {now: 2026-03-06T18:00:00Z, event: {id: e1, city: Ulm, client_campaign_status: RUNNING}}
steps:
  - {at: 0s, expect: []}
  - {at: 1m, set: {event: {status: cancelled}}, expect: []}
  - {at: 2h, set: {event: {status: active, city: Bonn}}, expect: []}
  - {at: 2d14h, expect: [{rule: c, action: pause}]}
""",
    )


def test_a_write_that_nobody_approved_is_held_too_and_one_that_somebody_did_goes() -> None:
    done = passes(
        a_bench(PAUSE.replace("do:", "mode: approve, do:")),
        """given: {now: 2026-03-06T16:00:00Z, event: {id: e1, status: active, client_campaign_status: RUNNING}}
steps:
  - {at: 1m, set: {event: {status: cancelled}}, states: [{action: pause, state: waiting}]}
  - {at: 2h, approve: [r], states: [{action: pause, state: confirmed}], sent: 1}
""",
    )
    assert done.passed
    passes(
        a_bench(PAUSE.replace("cancelled", "active").replace("09:00-18:00", "18:02-18:00")),
        """given: {now: 2026-03-05T16:59:48Z, event: {id: e1, status: archived, client_campaign_status: RUNNING}}
steps:
  - at: 9s
    set: {event: {status: active}}
    answers: [{action: pause, answer: no_connection}]
    sent: 0
  - {at: 1m, states: [{action: pause, state: planned}], held: [{rule: r, reason: between}]}
  - {at: 5m, states: [{action: pause, state: confirmed}]}
""",
    )


@pytest.mark.parametrize(
    ("at", "warned"), [("0 8 1 * mon", 1), ("0 8 1 * *", 0), ("0 8 * * mon", 0), ("0 8 */2 * mon", 0)]
)
def test_a_day_of_the_month_beside_one_of_the_week_is_told_to_be_either(at: str, warned: int) -> None:
    rule = f"{{id: r, at: '{at}', when: event.status == 'cancelled', do: [pause]}}"
    found = [one for one in lint(read_rules({"r.yaml": f"rules: [{rule}]"})) if one.code == "days"]
    assert len(found) == warned
    assert all("on day 1 of the month, and on each mon besides" in one.message for one in found)


@pytest.mark.parametrize(("do", "warned"), [("pause", False), ("run", True)])
def test_hours_that_somebody_may_take_for_those_in_which_something_runs_are_told(do: str, warned: bool) -> None:
    found = lint(read_rules({"r.yaml": f"rules:\n  - {PAUSE.replace('[pause]', f'[{do}]')}\n"}))
    assert any(one.code == "hours" for one in found) is warned


def test_hours_that_the_spring_leaves_out_begin_a_week_later() -> None:
    hours = LocalHours(source="sundays at two", begin=120, end=121, days=frozenset({6}), timezone="Europe/Berlin")
    after = datetime(2026, 3, 22, 1, 1, tzinfo=UTC)  # on the 29th there is no two o'clock
    assert hours.opens(after) == datetime(2026, 4, 5, 0, 0, tzinfo=UTC)
