"""A pause is never held up by an unknown run, and has the last word whatever becomes of that run."""

from pathlib import Path

import pytest

from tests.worlds import PARTNER, QUICK, Town, happening, town, world
from worker.engine.operators import resolved
from worker.model.commits import Commit

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


def test_an_attempt_that_a_person_grants_waits_while_a_stronger_wish_stands(tmp_path: Path) -> None:
    """Found by the simulation: scene "stop overtakes", its first write with "hang after"."""

    async def script(here: Town) -> None:
        await here.run(6)
        here.fault("hang_after", "PUT", "/client_campaign_status$")
        here.set("e1", frontend_status="FLAGGED")
        await here.until(lambda: here.states() == ["sending"], "the run is under way")
        here.set("e1", status="cancelled")
        await here.until(lambda: here.states()[:1] == ["needs_human"], "a person is asked for the run")
        run = here.writes()[0]
        assert run.key.partner == PARTNER
        no = resolved(run, applied=False, because="it is paused", by="ann", now=here.clock.now(), settings=QUICK)
        here.ledger.apply(Commit(at=here.clock.now(), moves=(no,)))
        await here.run(30)
        assert here.states() == ["planned", "confirmed"], here.story()
        assert here.writes()[0].held_by == "conflict"
        here.set("e1", status="active")
        await here.until(lambda: here.states()[0] == "confirmed", "the run may act once the other ends")

    with town(
        tmp_path,
        world(happening("e1", client_campaign_status="PAUSED")),
        RULES.replace(" && event.status == 'active'", ""),
    ) as (_, play):
        play(script)
