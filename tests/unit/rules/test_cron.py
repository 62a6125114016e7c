"""The times of `at`: what is wrong with an expression, and when its times are, also where clocks change."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import cases
from worker.rules.spelling import CronTimes, cron_error


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("*/5 8-18 1,15 jan-mar mon-fri", ""),
        ("0 8 * * 7", ""),
        ("0 0 29 2 *", ""),
        ("60 * * * *", "'60' is no minute that ever comes (0 to 59)"),
        ("0 8 * mon *", "'mon' is no month that ever comes (1 to 12, or jan to dec)"),
        ("0 0 1-31/40 * *", "'1-31/40' comes once, as if it had no step: a day-of-month is 1 to 31"),
        ("*/59 */23 */31 */12 */7", ""),
        ("1-2-3 * * * *", "'1-2-3' is no minute that ever comes (0 to 59)"),
        ("50-10/5 * * * *", "'50-10/5' is no minute that ever comes (0 to 59)"),
        ("0 0 * * Fri-Sun", "'Fri-Sun' is no day-of-week that ever comes (0 to 7, or sun to sat)"),
        ("0 0 * * 5-7,0-0", ""),
        ("0 0 30,31 2,2 *", "'30,31' is no day-of-month that ever comes (1 to 31)"),
    ],
)
def test_a_cron_expression_is_checked(text: str, wrong: str) -> None:
    assert cron_error(text) == wrong


@cases(
    "source, zone, now, latest, following",
    ("0 8 * * *", "UTC", "2026-03-01T08:00", "2026-03-01T08:00", "2026-03-02T08:00", "exactly then, it has come"),
    ("0 8 * * *", "UTC", "2026-03-01T07:59:59", "2026-02-28T08:00", "2026-03-01T08:00", "a second before"),
    ("0 8 * * *", "UTC", "2026-03-01T08:00:01", "2026-03-01T08:00", "2026-03-02T08:00", "a second after"),
    ("*/15 * * * *", "UTC", "2026-03-01T08:16", "2026-03-01T08:15", "2026-03-01T08:30", "every quarter"),
    ("0 8 * * 1-5", "UTC", "2026-03-01T12:00", "2026-02-27T08:00", "2026-03-02T08:00", "a Sunday is passed over"),
    ("0 8 * * *", "Europe/Berlin", "2026-03-01T07:00", "2026-03-01T07:00", "2026-03-02T07:00", "winter in Berlin"),
    ("0 8 * * *", "Europe/Berlin", "2026-07-01T06:00", "2026-07-01T06:00", "2026-07-02T06:00", "summer in Berlin"),
    ("30 2 * * *", "Europe/Berlin", "2026-03-29T02:00", "2026-03-29T01:00", "2026-03-30T00:30", "2:30 is no time"),
    ("30 2 * * *", "Europe/Berlin", "2026-10-25T02:00", "2026-10-25T00:30", "2026-10-26T01:30", "2:30 comes twice"),
    ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:15", "2026-10-25T00:30", "2026-10-26T01:30", "and is not forgotten"),
    ("0 */2 * * *", "Europe/Berlin", "2026-10-25T01:30", "2026-10-25T00:00", "2026-10-25T03:00", "nor with a star"),
    ("*/30 2 * * *", "Europe/Berlin", "2026-03-29T02:00", "2026-03-29T01:00", "2026-03-30T00:00", "nor left out"),
    ("0 * * * *", "Europe/Berlin", "2026-10-25T01:30", "2026-10-25T01:00", "2026-10-25T02:00", "each hour is one"),
    ("0 0 29 2 *", "UTC", "2026-03-01T00:00", "2024-02-29T00:00", "2028-02-29T00:00", "leap years"),
)
def test_when_a_time_is(source: str, zone: str, now: str, latest: str, following: str) -> None:
    times = CronTimes(source=source, timezone=zone)
    assert times.latest(utc(now)) == utc(latest)
    assert times.next(utc(now)) == utc(following)


SOURCES = st.sampled_from(
    ["0 8 * * *", "*/7 * * * *", "30 2 * * *", "*/20 */2 * * *", "15 */6 * * 1-5", "0 0 1 * *", "59 23 31 12 *"]
)
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])


@settings(deadline=None, max_examples=80)
@given(SOURCES, ZONES, st.integers(0, 4 * 366 * 24 * 3600))
def test_no_time_is_left_out_and_none_comes_twice(source: str, zone: str, seconds: int) -> None:
    times, now = CronTimes(source=source, timezone=zone), utc("2024-01-01T00:00") + timedelta(seconds=seconds)
    latest, following = times.latest(now), times.next(now)
    assert latest is not None
    assert following is not None
    assert latest <= now < following
    assert times.latest(following) == following, "once it comes it is the latest"
    before = times.latest(following - timedelta(minutes=1))
    assert before == latest or (before is not None and latest < before < following), "nothing lies between"
