"""A pause is never held up by an unknown run, and has the last word whatever becomes of that run."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.worlds import PARTNER, QUICK, Town, happening, town, world
from worker.engine.operators import Word, resolved
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


def seconds_between(first: dict[str, Any], then: dict[str, Any]) -> float:
    return (datetime.fromisoformat(then["at"]) - datetime.fromisoformat(first["at"])).total_seconds()


def test_a_pause_that_a_late_run_held_goes_within_an_interval_after_that_run_is_confirmed(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(6)
        here.fault("late_effect", "PUT", "/client_campaign_status$", status=429, after_s=17.0)
        here.set("e1", frontend_status="FLAGGED")
        await here.until(lambda: here.states() == ["unknown"], "the run is unknown")
        here.set("e1", status="cancelled")
        await here.until(lambda: here.states() == ["confirmed", "confirmed"], "the pause came after the run")
        assert [one["reason"] for one in here.log("held")] == ["target_busy"], here.story()
        landed, paused = here.log("confirmed")[0], here.log("sending")[1]
        assert seconds_between(landed, paused) <= here.settings.interval.total_seconds(), here.story()

    with town(tmp_path, world(happening("e1", client_campaign_status="PAUSED")), RULES) as (_, play):
        play(script)


def test_a_pause_that_an_unknown_run_held_goes_on_within_an_interval_after_a_person_settled_that(
    tmp_path: Path,
) -> None:
    async def script(here: Town) -> None:
        await here.run(6)
        here.fault("answer_before", "PUT", "/client_campaign_status$", status=500)
        here.set("e1", frontend_status="FLAGGED")
        await here.until(lambda: here.states() == ["needs_human"], "a person is asked for the run")
        here.set("e1", status="cancelled")
        await here.until(lambda: len(here.log("held")) == 1, "the pause is held")
        await here.run(9)
        run = here.writes()[0]
        yes = resolved(run, Word(because="it ran", by="ann", at=here.clock.now()), applied=True, settings=here.settings)
        here.ledger.apply(Commit(at=here.clock.now(), moves=(yes,)))
        await here.until(lambda: here.states() == ["confirmed", "skipped"], "it is paused already", 30)
        settled, skipped = here.log("confirmed")[0], here.log("skipped")[0]
        assert seconds_between(settled, skipped) <= here.settings.interval.total_seconds(), here.story()

    place = world(happening("e1", client_campaign_status="PAUSED"))
    with town(tmp_path, place, RULES, ask=True, settle=timedelta(minutes=2)) as (_, play):
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
        no = resolved(run, Word(because="it is paused", by="ann", at=here.clock.now()), applied=False, settings=QUICK)
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
