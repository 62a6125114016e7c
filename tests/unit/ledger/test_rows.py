"""What is stored comes back exactly, and an older row does not stop a newer program."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.ledger.tables import json_of, json_text, millis_text, time_of, time_text

pytestmark = pytest.mark.timeout(20)  # a hundred examples each: slow under load and coverage, and never waiting

NOW = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)

moments = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(fold=0))  # UTC repeats no hour


@given(moments)
def test_a_time_comes_back_exactly_and_every_text_is_equally_long(moment: datetime) -> None:
    assert time_of(time_text(moment)) == moment
    assert len(time_text(moment)) == len(time_text(NOW))


@given(moments, moments)
def test_texts_of_times_sort_as_the_times_do(left: datetime, right: datetime) -> None:
    assert (time_text(left) < time_text(right)) == (left < right)


def test_a_time_is_stored_in_utc_whatever_zone_it_came_in() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5, minutes=30)))

    assert time_text(elsewhere) == "2026-01-31T12:00:00.123456Z"
    assert millis_text(elsewhere) == "2026-01-31T12:00:00.123Z"


def test_a_time_without_a_zone_is_refused_because_it_names_no_moment() -> None:
    with pytest.raises(ValueError, match="time zone"):
        time_text(datetime(2026, 1, 31))  # noqa: DTZ001 - that is the case


def test_half_a_surrogate_pair_from_a_service_can_be_stored_and_comes_back() -> None:
    text = json_text({"title": "\ud83d broken"})

    assert text.isascii()
    assert json_of(text) == {"title": "\ud83d broken"}
