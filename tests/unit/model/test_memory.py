"""Memory as it is stored comes back exactly, and what an older program stored does not stop a newer one."""

import json
from datetime import UTC

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.model.commits import Baseline, PartnerMemory, RuleMemory, body_of, memory_of
from worker.model.facts import EventId, Json, PartnerId, RuleId

pytestmark = pytest.mark.timeout(20)  # a hundred examples: slow under load and coverage, and never waiting

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


@settings(max_examples=200)
@given(memories | partners)
def test_memory_comes_back_exactly(memory: RuleMemory | PartnerMemory) -> None:
    """Equal in value and in type: 1, 1.0 and True are three things."""
    found = memory_of(type(memory), json.loads(json.dumps(body_of(memory))))
    assert found == memory
    assert repr(found) == repr(memory)


def test_a_row_of_an_older_program_gets_the_defaults_of_what_it_lacks() -> None:
    old: Json = {"partner": "p", "event": "e", "rule": "r", "episode": 7}
    new = RuleMemory(partner=PartnerId("p"), event=EventId("e"), rule=RuleId("r"), episode=7)
    assert memory_of(RuleMemory, old) == new


def test_a_field_that_the_model_has_no_more_is_passed_over() -> None:
    old: Json = {"partner": "p", "listed_at": None, "once_was": [1]}
    assert memory_of(PartnerMemory, old) == PartnerMemory(partner=PartnerId("p"))
