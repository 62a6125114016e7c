"""The worker does its main job in every dialect of the twin, once the config says what is different there."""

from dataclasses import replace
from typing import Any

import pytest

from tests.worlds import QUICK, Town, draft, happening, in_town, world
from worker.api.assumptions import assumptions_from
from worker.model.actions import ACTIONS
from worker.sandbox.settings import TwinSettings, changed_settings
from worker.sandbox.start import dialects

RULES = """
rules:
  - {id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}
  - id: boost-on-new-clusters
    on_change: suggested_tcs
    with: {budget: 500, goal: ROAS}
    when: event.status == 'active' && setup.state == 'DRAFT'
    do: [boost]
  - id: hide-archived
    when: event.status == 'archived'
    do: [{frontend_status: HIDDEN}, {optimisation: "OFF"}]
  - id: set-up-what-sells-badly
    when: event.predicted_sales_share < 0.2 && setup.state == 'NONE' && adplatform.connected && size(campaigns) == 0
    do: [{create_draft: {goal: ROAS, total_budget: 300}}]
"""
DONE = [
    ("boost", "e2"),
    ("create_setup", "e4"),
    ("last_updated_on_fe", "e3"),
    ("set_campaign_optimisation_status", "e3"),
    ("set_client_campaign_status", "e1"),
    ("set_frontend_status", "e3"),
]


def tells(name: str) -> Any:  # noqa: ANN401 - what a config file says under `assumptions`
    return dialects()[name].tells


@pytest.mark.parametrize("name", sorted(set(dialects()) - {"standard"}))
@in_town(
    world(
        happening("e1"),
        replace(draft("e2"), clusters=tuple({"tc": tc, "label": tc, "metric_pred": 4.0} for tc in ("a", "b"))),
        happening("e3"),
        happening("e4"),
    ),
    RULES,
    settings=lambda name: replace(
        QUICK,
        toggles=frozenset(
            action
            for action, row in ACTIONS.items()
            if row.semantics and assumptions_from(tells(name))[0].flips(row.semantics)
        ),
    ),
    twin=lambda name: changed_settings(TwinSettings(), dialects()[name].settings),
    assumptions=tells,
    watched=6,
)
async def test_the_main_job_is_done_once_in_every_dialect(here: Town) -> None:
    here.set("e1", status="cancelled")
    here.suggest("e2", 7)
    here.set("e3", status="archived")
    here.set("e4", predicted_sales_share=0.1)
    await here.until(lambda: here.states() == ["confirmed"] * 6, "every write is confirmed", 120)
    await here.run(6)
    assert sorted((effect.operation, effect.eid) for effect in here.effects()) == DONE
