"""Which rules have anything to do with an event, and which the clock can bring to decide otherwise."""

from datetime import UTC, datetime, timedelta

import pytest

from worker.engine.deciding import Memories, Screen, clocked, horizon, plain, timed
from worker.model.commits import RuleMemory
from worker.model.facts import EventId, FactKey, Json, Known, Observation, PartnerId, RuleId
from worker.model.rules import Rule
from worker.rules.load import read_rules

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
E1 = EventId("e1")
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
    return Observation(partner=PartnerId("p"), event=E1, facts=facts)


def ids(found: list[Rule]) -> list[str]:
    return [rule.id for rule in found]


def remembered(rule: str) -> Memories:
    return {(E1, RuleId(rule)): RuleMemory(partner=PartnerId("p"), event=E1, rule=RuleId(rule))}


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
