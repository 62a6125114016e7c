"""The worker does its main job in every dialect of the twin, once the config says what is different there."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.worlds import QUICK, Town, draft, happening, plays, world
from worker.api.assumptions import assumptions_from
from worker.model.actions import ACTIONS
from worker.sandbox.settings import TwinSettings, changed_settings
from worker.sandbox.start import dialects

RULES = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled'
    do: [pause]
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


@pytest.mark.parametrize("name", sorted(set(dialects()) - {"standard"}))
def test_the_main_job_is_done_once_in_every_dialect(name: str, tmp_path: Path) -> None:
    dialect = dialects()[name]
    tells: Mapping[str, Any] = dialect.tells
    told = assumptions_from(tells)[0]
    toggles = frozenset(action for action, row in ACTIONS.items() if row.semantics and told.flips(row.semantics))
    settings = replace(QUICK, toggles=toggles)

    async def script(here: Town) -> None:
        await here.run(6)
        here.set("e1", status="cancelled")
        here.suggest("e2", 7)
        here.set("e3", status="archived")
        here.set("e4", predicted_sales_share=0.1)
        await here.until(lambda: here.states() == ["confirmed"] * 6, "every write is confirmed", 120)
        await here.run(6)
        assert sorted((effect.operation, effect.eid) for effect in here.effects()) == DONE

    clusters = tuple({"tc": tc, "label": tc, "metric_pred": 4.0} for tc in ("a", "b"))
    place = world(happening("e1"), replace(draft("e2"), clusters=clusters), happening("e3"), happening("e4"))
    twin = changed_settings(TwinSettings(), dialect.settings)
    plays(script, tmp_path, place, RULES, settings=settings, twin=twin, assumptions=tells)
