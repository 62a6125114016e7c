"""What is stored comes back exactly, and an older row does not stop a newer program."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.ledger.rows import body_of, partner_memory_of, rule_memory_of
from worker.ledger.tables import json_of, json_text, millis_text, time_of, time_text
from worker.model.commits import Baseline, PartnerMemory, RuleMemory
from worker.model.errors import LedgerDamaged
from worker.model.facts import EventId, Json, PartnerId, RuleId

pytestmark = pytest.mark.timeout(20)  # a hundred examples each: slow under load and coverage, and never waiting

NOW = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)

moments = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(fold=0))  # UTC repeats no hour
maybe_moments = st.none() | moments
words = st.text(max_size=8)
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
baselines = st.dictionaries(words, st.builds(Baseline, value=values, seen_at=moments), max_size=3)
memories = st.builds(
    RuleMemory,
    partner=words.map(PartnerId),
    event=words.map(EventId),
    rule=words.map(RuleId),
    episode=st.integers(min_value=0),
    open=st.booleans(),
    true_since=maybe_moments,
    pending_since=maybe_moments,
    baselines=baselines,
    before_firing=baselines,
    pending=st.dictionaries(words, values, max_size=3),
    held=st.none() | words,
)
partners = st.builds(
    PartnerMemory,
    partner=words.map(PartnerId),
    listed_at=maybe_moments,
    gone=st.dictionaries(words.map(EventId), moments, max_size=3),
)


def stored(body: Json) -> Json:
    """As it is after a while on the disk."""
    return json_of(json_text(body))


def same(left: object, right: object) -> bool:
    """Equal in value and in type: 1, 1.0 and True are three things."""
    return left == right and json_text(repr(left)) == json_text(repr(right))


@given(memories)
def test_memory_of_a_rule_comes_back_exactly(memory: RuleMemory) -> None:
    assert same(rule_memory_of(stored(body_of(memory))), memory)


@given(partners)
def test_memory_of_a_partner_comes_back_exactly(memory: PartnerMemory) -> None:
    assert same(partner_memory_of(stored(body_of(memory))), memory)


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


def test_a_row_of_an_older_program_gets_the_defaults_of_what_it_lacks() -> None:
    old: Json = {"partner": "p", "event": "e", "rule": "r", "episode": 7}

    assert rule_memory_of(old) == RuleMemory(partner=PartnerId("p"), event=EventId("e"), rule=RuleId("r"), episode=7)


def test_a_field_that_the_model_has_no_more_is_passed_over() -> None:
    old: Json = {"partner": "p", "listed_at": None, "once_was": [1]}

    assert partner_memory_of(old) == PartnerMemory(partner=PartnerId("p"))


def test_half_a_surrogate_pair_from_a_service_can_be_stored_and_comes_back() -> None:
    text = json_text({"title": "\ud83d broken"})

    assert text.isascii()
    assert json_of(text) == {"title": "\ud83d broken"}


def test_what_is_no_object_is_refused_and_not_taken_for_empty_memory() -> None:
    with pytest.raises(LedgerDamaged, match="cannot be read"):
        rule_memory_of([])
