"""A pause is never held up by an unknown run, and has the last word whatever becomes of that run."""

from pathlib import Path

import pytest

from tests.worlds import Town, happening, town, world

RULES = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled'
    priority: 10
    do: [pause]
  - id: run-flagged
    when: event.frontend_status == 'FLAGGED' && event.status == 'active'
    do: [run]
"""


@pytest.mark.parametrize("late_s", [4.0, 9.0, 17.0])
def test_a_late_run_that_lands_after_the_pause_is_paused_again(tmp_path: Path, late_s: float) -> None:
    async def script(here: Town) -> None:
        await here.run(6)
        here.fault("late_effect", "PUT", "/client_campaign_status$", status=429, after_s=late_s)
        here.set("e1", frontend_status="FLAGGED")
        await here.until(lambda: here.states() == ["unknown"], "the run is unknown")
        here.set("e1", status="cancelled")
        await here.run(120)
        values = [one.after for one in here.effects()]
        assert values[-1] in ("PAUSED", {"client_campaign_status": "PAUSED"}), here.story()
        assert {write.state for write in here.writes()} <= {"confirmed", "skipped"}, here.story()

    with town(tmp_path, world(happening("e1", client_campaign_status="PAUSED")), RULES) as (_, play):
        play(script)
