"""When an event is due, which rules have anything to do with it, and which the clock can bring to decide otherwise."""

from datetime import UTC, datetime, timedelta

import pytest

from worker.engine.deciding import Memories, Screen, clocked, horizon, plain, timed
from worker.engine.state import EVENT, PARTNER, PartnerState, Stored
from worker.model.commits import OF_PARTNER, PartnerMemory, RuleMemory
from worker.model.facts import EventId, FactKey, Json, Known, Observation, PartnerId, RuleId, Trace
from worker.model.rules import Rule
from worker.rules.load import read_rules

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
E1, E2, P = EventId("e1"), EventId("e2"), PartnerId("p")
LATER = NOW + timedelta(minutes=5)
AGAIN = timedelta(minutes=30)
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
    return Observation(partner=P, event=E1, facts=facts)


def ids(found: list[Rule]) -> list[str]:
    return [rule.id for rule in found]


def remembered(rule: str) -> Memories:
    return {(E1, RuleId(rule)): RuleMemory(partner=P, event=E1, rule=RuleId(rule))}


def test_a_rule_whose_condition_is_false_and_that_remembers_nothing_has_nothing_to_do() -> None:
    screen = Screen(rules(), AGAIN)

    assert ids(screen.concerned(event(), {})) == ["changed", "setup"], "a change is compared; setup was never read"
    assert ids(screen.concerned(event(status="cancelled"), {})) == ["cancelled", "changed", "setup"]
    assert ids(screen.concerned(event(), remembered("full"))) == ["changed", "full", "setup"]
    of_truth = Screen([rule for rule in rules() if plain(rule) and rule.id != "setup"], AGAIN)
    assert of_truth.concerned(event(), {}) == []


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
    later = Screen([rule], AGAIN).due(event(start_date_time="2026-06-01T12:00:00Z"), {}, {}, NOW)
    assert (timed(rule, clocked(rule))) is is_timed
    assert later <= horizon(E1, NOW, AGAIN)


@pytest.fixture
def state() -> PartnerState:
    found = PartnerState(partner=P, memory=PartnerMemory(partner=P), memories={}, stored=Stored(partner=P))
    found.under("these rules")
    return found


def fact(value: str, began: float = 0.0) -> Known:
    return Known(value={"status": value}, read_at=NOW, trace=Trace(get="", began=began))


def test_an_event_is_due_at_its_time_and_no_sooner(state: PartnerState) -> None:
    state.due[E1] = LATER

    assert state.stirred({E1, E2}, NOW) == [E2]
    assert state.stirred({E1}, LATER) == [E1]


def test_what_is_learnt_of_one_event_or_of_the_partner_makes_it_due(state: PartnerState) -> None:
    state.observe(E1, EVENT, fact("active"))
    state.due |= {E1: LATER, E2: LATER}
    assert not state.observe(E1, EVENT, fact("active", 2.0)), "it says the same"
    assert not state.observe(E1, EVENT, fact("cancelled", 1.0)), "it was read before"
    assert state.stirred({E1, E2}, NOW) == []
    assert state.observe(E1, EVENT, fact("cancelled", 3.0))
    assert state.stirred({E1, E2}, NOW) == [E1]
    state.observe(OF_PARTNER, PARTNER, fact("its record"))
    assert state.stirred({E1, E2}, NOW) == [E1, E2]


def test_other_circumstances_make_all_of_them_due(state: PartnerState) -> None:
    state.due[E1] = LATER
    state.under("these rules")
    assert state.stirred({E1}, NOW) == []
    state.under("others")
    assert state.stirred({E1}, NOW) == [E1]


def test_nothing_rests_for_ever_and_not_all_are_due_at_once() -> None:
    ends = {horizon(EventId(f"e{number}"), NOW, AGAIN) for number in range(100)}

    assert len(ends) > 50
    assert all(NOW + AGAIN <= at <= NOW + 2 * AGAIN for at in ends)
