"""Which rules a partner's product flags keep from looking, and what is said of them."""

import pytest

from tests.builders import a_fact, cases, partner_fact, unreadable
from tests.worlds import rule_set
from worker.engine.views import products_off, shut
from worker.model.facts import Fact

RULES = rule_set("""
rules:
  - {id: writes, when: event.status == 'cancelled', do: [pause]}
  - {id: forecasts, when: size(tickets) > 0 && setup.state == 'DRAFT', do: [boost]}
  - {id: tells, when: event.status == 'cancelled', do: [{notify: off}, {wait: 2h}, {notify: still off}]}
  - {id: watches, on_change: lookout_prediction, do: [pause, {optimisation: "OFF"}]}
""")
FORECASTS, CAMPAIGNS = "demand_prediction", "campaign_recommendations"


@cases(
    "fact, expected",
    (partner_fact(demand_prediction=True), set(), "both are on"),
    (partner_fact(demand_prediction=False), {FORECASTS}, "one is off"),
    (partner_fact(campaign_recommendations=None), set(), "null says nothing"),
    (partner_fact(campaign_recommendations="off"), set(), "nor does a text"),
    (a_fact([]), set(), "no record says nothing"),
    (unreadable(), set(), "what could not be read says nothing"),
    (None, set(), "nothing was read yet"),
)
def test_only_a_flag_that_says_no_is_off(fact: Fact | None, expected: set[str]) -> None:
    assert products_off(fact) == expected


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
