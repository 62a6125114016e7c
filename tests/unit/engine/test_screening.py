"""Which rules a look needs when only a fact has changed, and what is known of an event's calm then."""

from datetime import UTC, datetime, timedelta

import pytest

from worker.engine.due import Calm, Screen, Stirred, plain
from worker.model.commits import RuleMemory
from worker.model.facts import EventId, FactKey, Json, Known, Observation, PartnerId, RuleId
from worker.model.rules import Rule
from worker.rules.load import read_rules

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
E1 = EventId("e1")
RULES = """
rules:
  - {id: cancelled, when: event.status == 'cancelled', do: [pause]}
  - {id: changed, on_change: setup, when: event.status == 'active', do: [pause]}
  - {id: full, when: event.predicted_sales_share > 0.9, do: [pause]}
  - {id: setup, when: setup.state == 'DRAFT', do: [boost]}
"""


def rules(text: str = RULES) -> tuple[Rule, ...]:
    return read_rules({"rules.yaml": text}).rules.rules


def event(**fields: Json) -> Observation:
    known = {"status": "active", "predicted_sales_share": 0.4, **fields}
    facts = {FactKey(name="event"): Known(value=known, read_at=NOW)}
    return Observation(partner=PartnerId("p"), event=E1, facts=facts)


def ids(found: list[Rule]) -> list[str]:
    return [rule.id for rule in found]


def test_what_changes_no_truth_asks_for_rules_of_other_kinds_and_those_that_may_stand_in_their_way() -> None:
    screen = Screen(rules())
    before = screen.verdict(event())

    assert ids(screen.needed(before, screen.verdict(event(predicted_sales_share=0.8)))) == ["changed", "setup"]
    plain_ones = Screen(rule for rule in rules() if plain(rule))
    assert plain_ones.needed(before, plain_ones.verdict(event(status="sold out"))) == []


def test_where_a_truth_changes_all_are_asked_that_are_or_were_anything_but_false() -> None:
    screen = Screen(rules())
    before = screen.verdict(event())
    after = screen.verdict(event(status="cancelled"))

    assert ids(screen.needed(before, after)) == ["cancelled", "changed", "setup"], "setup was never read: unknown"
    assert ids(screen.needed(after, before)) == ["cancelled", "changed", "setup"]


@pytest.mark.parametrize(
    ("memory", "settled"),
    [
        (None, True),
        (RuleMemory(partner=PartnerId("p"), event=E1, rule=RuleId("cancelled")), True),
        (RuleMemory(partner=PartnerId("p"), event=E1, rule=RuleId("cancelled"), open=True, fired=True), True),
        (RuleMemory(partner=PartnerId("p"), event=E1, rule=RuleId("cancelled"), open=True), False),
    ],
)
def test_a_rule_that_is_true_and_has_not_fired_waits_for_something(memory: RuleMemory | None, settled: bool) -> None:
    screen = Screen(rules())
    verdict = screen.verdict(event(status="cancelled"))
    memories = {} if memory is None else {(E1, memory.rule): memory}

    assert screen.settled(verdict, E1, memories) is settled
    assert screen.settled(screen.verdict(event()), E1, memories), "of one that is false nothing is asked"


@pytest.mark.parametrize(
    ("text", "is_plain", "is_timed"),
    [
        ("when: event.status == 'x'", True, False),
        ("when: event.status == 'x', for: 10m", True, True),
        ("when: event.status == 'x', cooldown: 1h", True, True),
        ("when: event.status == 'x', limit: {per_event_per_day: 1}", True, True),
        ("when: event.status == 'x', repeat: enforce", False, True),
        ("when: event.status == 'x', at: '0 8 * * *'", False, True),
        ("when: event.start_date_time - now < duration('7d')", False, True),
        ("when: budget_range.upper_limit > 5.0", False, True),
        ("when: daily_revenue_summary != null", False, True),
        ("on_change: setup", False, False),
    ],
)
def test_kinds_of_rules(text: str, is_plain: bool, is_timed: bool) -> None:
    (rule,) = rules(f"rules:\n  - {{id: r, {text}, do: [pause]}}")

    assert plain(rule) is is_plain
    assert bool(Screen([rule]).timed([rule])) is is_timed


def test_what_an_event_was_is_known_until_anything_but_a_fact_stirs_it() -> None:
    calm, later = Calm(), NOW + timedelta(minutes=5)
    calm.keep(E1, later, (1, 0))
    assert calm.rest(E1, NOW) is None, "it is calm"
    calm.learn(E1)
    calm.learn(E1)
    assert calm.rest(E1, NOW) == Stirred(until=later, verdict=(1, 0))
    assert calm.rest(E1, later) is None, "its calm has ended by itself"
    assert calm.stirred({E1}, NOW) == [E1]
    calm.stir(E1)
    assert calm.rest(E1, NOW) is None
    calm.keep(E1, later)
    calm.learn(E1)
    assert calm.rest(E1, NOW) is None, "its conditions were not all that mattered"


def test_how_often_an_event_was_calm_leaves_nothing_behind() -> None:
    calm = Calm()
    for turn in range(1000):
        calm.keep(E1, NOW + timedelta(seconds=turn))
    assert calm.stirred({E1}, NOW + timedelta(seconds=998)) == []
    assert calm.stirred({E1}, NOW + timedelta(seconds=999)) == [E1]


def test_calm_that_goes_on_ends_when_it_would_have_however_many_others_were_looked_at_meanwhile() -> None:
    calm, later = Calm(), NOW + timedelta(minutes=5)
    events = [EventId(f"e{number}") for number in range(200)]
    looked_at, passed = events[:100], events[100:]
    for one in events:
        calm.keep(one, later, (0, 0))
    for one in events:
        calm.learn(one)

    for one in looked_at:  # the portion of a long look that comes first
        calm.keep(one, later, (0, 0))
    for one in passed:
        calm.stay(one)

    assert calm.stirred(frozenset(events), NOW) == []
    assert calm.stirred(frozenset(events), later) == sorted(events)
