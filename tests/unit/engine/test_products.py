"""Which rules a partner's product flags keep from looking, and what is said of them."""

from datetime import UTC, datetime

import pytest

from worker.engine.views import off_fact, products_off, shut
from worker.model.facts import Fact, Json, Known, Unknown
from worker.rules.load import read_rules

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RULES = read_rules(
    {
        "r.yaml": """
rules:
  - {id: writes, when: event.status == 'cancelled', do: [pause]}
  - {id: forecasts, when: size(tickets) > 0 && setup.state == 'DRAFT', do: [boost]}
  - {id: tells, when: event.status == 'cancelled', do: [{notify: off}, {wait: 2h}, {notify: still off}]}
  - {id: watches, on_change: lookout_prediction, do: [pause, {optimisation: "OFF"}]}
"""
    }
).rules


FORECASTS, CAMPAIGNS = "demand_prediction", "campaign_recommendations"


def partner(**flags: Json) -> Known:
    return Known(value={"campaign_recommendations": True, "demand_prediction": True, **flags}, read_at=NOW)


@pytest.mark.parametrize(
    ("fact", "expected", "reason"),
    [
        (partner(), set(), "both are on"),
        (partner(demand_prediction=False), {"demand_prediction"}, "one is off"),
        (partner(campaign_recommendations=None), set(), "null says nothing"),
        (partner(campaign_recommendations="off"), set(), "nor does a text"),
        (Known(value=[], read_at=NOW), set(), "no record says nothing"),
        (Unknown(code="unreadable", why="x"), set(), "what could not be read says nothing"),
        (None, set(), "nothing was read yet"),
    ],
)
def test_only_a_flag_that_says_no_is_off(fact: Fact | None, expected: set[str], reason: str) -> None:
    assert products_off(fact) == expected, reason


@pytest.mark.parametrize(
    ("off", "named", "needs"),
    [
        (set(), "", {}),
        ({FORECASTS}, FORECASTS, {"forecasts": "tickets", "watches": "lookout_prediction"}),
        (
            {FORECASTS, CAMPAIGNS},
            CAMPAIGNS,
            {"writes": "pause", "forecasts": "boost, setup", "watches": "pause, optimisation"},
        ),
    ],
)
def test_a_rule_rests_where_an_area_that_it_needs_is_off(off: set[str], named: str, needs: dict[str, str]) -> None:
    said = f"the partner's {named} is off, and the rule needs it: "
    assert shut(RULES.rules, frozenset(off)) == {rule: said + what for rule, what in needs.items()}


def test_a_fact_of_an_area_that_is_off_is_unknown() -> None:
    off = frozenset({"demand_prediction"})

    assert off_fact("tickets", off) == Unknown(code="product_off", why="the partner's demand_prediction is off")
    assert [off_fact(name, off) for name in ("setup", "event", "a_fact_of_the_config")] == [None, None, None]
