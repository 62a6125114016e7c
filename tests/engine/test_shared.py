"""A write that stands for the wishes of several rules: what befalls one of them must not befall the others."""

import pytest

from tests.worlds import Town, happening, in_town, world
from worker.model.facts import RuleId

CAMPAIGN = "/client_campaign_status$"
OPTIMISATION = "/campaign_optimisation_status$"
RULES = """
rules:
  - id: wind-down
    when: event.predicted_sales_share > 0.8
    do:
      - optimisation: "OFF"
      - pause
  - id: pause-cancelled
    priority: 100
    when: event.status == 'cancelled'
    do: [pause]
"""


@in_town(world(happening("e1", campaign_optimisation_status="ON")), RULES)
async def test_a_wish_does_not_fall_with_the_earlier_step_of_another_rule(here: Town) -> None:
    """The pause of the cancelled event joined the second step of the other rule, and was skipped with it when the
    service refused the first (found by somebody who tried to break the promise)."""
    await here.run(6)
    here.fault("answer_before", "PUT", OPTIMISATION, status=503)
    here.fault("answer_before", "PUT", OPTIMISATION, status=422, skip=1)
    here.set("e1", predicted_sales_share=0.9)
    await here.until(lambda: "unknown" in here.states(), "the first step is unknown")
    here.set("e1", status="cancelled")
    await here.until(lambda: len(here.effects("set_client_campaign_status")) == 1, "paused at once", limit=20)
    await here.run(90)
    ends = {(str(one.key.rule), one.intent.action): (one.state, one.reason) for one in here.writes()}
    assert ends["pause-cancelled", "pause"][0] == "confirmed"
    assert ends["wind-down", "pause"][0] in ("skipped", "planned"), here.story()
    assert len(here.effects("set_client_campaign_status")) == 1


@pytest.mark.parametrize("both", [False, True])
@in_town(world(happening("e1")), RULES.replace('      - optimisation: "OFF"\n', ""))
async def test_a_halt_of_one_rule_holds_a_shared_write_only_if_the_others_are_halted_too(
    here: Town, both: bool
) -> None:
    await here.run(6)
    halted = here.ledger.append_halt(rule=RuleId("wind-down"), because="look", by="ann", at=here.clock.now())
    if both:
        here.ledger.append_halt(rule=RuleId("pause-cancelled"), because="look", by="ann", at=here.clock.now())
    here.set("e1", predicted_sales_share=0.9)
    await here.until(lambda: here.states() == ["planned"], "held")
    here.set("e1", status="cancelled")
    await here.run(60)
    assert halted.rule == "wind-down"
    assert here.only.rules == ("wind-down", "pause-cancelled")
    assert here.only.state == ("planned" if both else "confirmed"), here.story()
