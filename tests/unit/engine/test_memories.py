"""The memories of a partner: as a dict of them would be, and small where they are alike."""

import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.engine import state as module
from worker.engine.state import Memories, Pair
from worker.model.commits import Baseline, RuleMemory
from worker.model.facts import EventId, PartnerId, RuleId

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EVENTS, RULES = st.sampled_from(["e1", "e2", "e3"]), st.sampled_from(["r1", "r2"])
BASELINES = st.sampled_from([{}, {"suggested_tcs": Baseline(value=["a"], seen_at=NOON)}])
TIMES = st.sampled_from([None, NOON, NOON + timedelta(hours=1)])


def remembered(event: str, rule: str, looked_at: datetime | None = NOON) -> RuleMemory:
    return RuleMemory(partner=PartnerId("p"), event=EventId(event), rule=RuleId(rule), looked_at=looked_at)


ONE = st.builds(
    lambda event, rule, at, known, is_open: RuleMemory(
        partner=PartnerId("p"),
        event=EventId(event),
        rule=RuleId(rule),
        looked_at=at,
        baselines=known,
        open=is_open,
    ),
    EVENTS,
    RULES,
    TIMES,
    BASELINES,
    st.booleans(),
)


@given(st.lists(st.lists(ONE)))
def test_it_holds_what_a_dict_would_hold(looks: list[list[RuleMemory]]) -> None:
    plain: dict[Pair, RuleMemory] = {}
    kept = Memories()
    for look in looks:
        plain.update({(one.event, one.rule): one for one in look})
        kept.take(look)
    assert dict(kept) == plain
    assert len(kept) == len(plain)
    assert kept.events == {event for event, _ in plain}
    assert kept.get((EventId("e9"), RuleId("r1"))) is None
    first = {RuleId("r1")}
    assert kept.others(first) == {pair: one for pair, one in plain.items() if pair[1] not in first}
    assert Memories(plain.values()) == kept


def test_what_is_alike_is_kept_once() -> None:
    def at_rest() -> Iterator[RuleMemory]:
        for event in range(1000):
            for rule in range(20):
                yield remembered(f"e{event}", f"r{rule}")

    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = Memories(at_rest())
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(kept) == 20_000
    assert (after - before) / len(kept) < 20, "bytes a pair; a record of its own takes two hundred"


def test_what_new_ones_are_compared_with_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MAX", 3)
    given_ = [remembered(f"e{number}", "r1", NOON + timedelta(seconds=number)) for number in range(10)]
    kept = Memories(given_)
    assert list(kept.values()) == given_
    assert max(len(kept._shapes), len(kept._shared)) <= 3
