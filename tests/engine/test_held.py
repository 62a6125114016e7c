"""Writes that cannot be sent: what holds them, for how long, and how they end."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.worlds import RUN, Town, draft, happening, in_town, plays, world
from worker.guards import Limits

MINUTE = 60.0
CAMPAIGN = "/client_campaign_status$"


@in_town(world(happening("e1")), limits=Limits(held_longer_than=timedelta(minutes=4)))
async def test_connections_that_fail_for_longer_than_the_gap_put_the_write_before_a_person(here: Town) -> None:
    await here.run(10)
    here.fault("no_connection", "PUT", CAMPAIGN, times=1000)
    here.set("e1", status="cancelled")
    await here.run(5 * MINUTE)
    assert here.states() == ["waiting"], here.story()
    assert "not_sent" in here.only.why or "backoff" in here.only.why, here.only.why
    assert here.only.attempt > 4, "it was tried on, again and again"


async def unknown_under_a_halt(here: Town) -> None:
    """A write whose answer hides whether it took effect, and a person who stops all sending."""
    await here.run(10)
    here.fault("answer_before", "PUT", CAMPAIGN, status=500)
    here.set("e1", frontend_status="FLAGGED")
    await here.until(lambda: here.states() == ["unknown"], "unknown")
    here.ledger.append_halt(because="stop", by="me", at=here.clock.now())


@in_town(world(happening("e1", client_campaign_status="PAUSED")), RUN)
async def test_what_is_proved_absent_and_no_longer_wanted_ends_under_a_halt_too(here: Town) -> None:
    """A halt stops sending, and nothing else: no person is asked about what nobody wants any more."""
    await unknown_under_a_halt(here)
    await here.run(2 * MINUTE)
    assert (here.only.state, here.only.held_by) == ("unknown", "halt"), "wanted still, and held"
    here.set("e1", frontend_status="DEFAULT")
    await here.until(lambda: here.only.final, "it ends", limit=2 * MINUTE)
    assert (here.only.state, here.only.reason) == ("skipped", "no_longer_holds"), here.story()
    assert here.only.attempt == 1


@in_town(world(happening("e1", client_campaign_status="PAUSED")), RUN)
async def test_what_is_held_after_its_proof_does_not_fill_the_log(here: Town) -> None:
    await unknown_under_a_halt(here)
    await here.run(10 * MINUTE)
    assert 5 <= len(here.log("evidence")) <= 15, "now and then, not at every look"
    here.ledger.resume_halts(because="go", by="me", at=here.clock.now())
    await here.until(lambda: here.states() == ["confirmed"], "sent again", limit=MINUTE)
    assert len(here.effects()) == 1


def test_what_nobody_vouched_for_holds_the_write_until_somebody_does(tmp_path: Path) -> None:
    """The action's own keys, and those of the facts that its rule decides by."""
    rules = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled' && adplatform.connected
    do: [pause]
"""

    async def script(here: Town) -> None:
        await here.run(10)
        here.set("e1", status="cancelled")
        await here.run(MINUTE)
        assert (here.only.state, here.only.held_by) == ("planned", "assumption"), here.story()
        assert "task.failed, adplatform.connected" in here.only.why
        assert here.effects() == []
        await here.kill()
        here.settings = replace(here.settings, unconfirmed={}, unconfirmed_facts={})
        here.start()
        await here.until(lambda: here.states() == ["confirmed"], "sent once it is vouched for", MINUTE)

    lacking: dict[str, Any] = {"unconfirmed": {"pause": ("task.failed",)}}
    lacking |= {"unconfirmed_facts": {"adplatform": ("adplatform.connected",)}}
    plays(script, tmp_path, world(happening("e1")), rules, **lacking)


BOOST_AND_PAUSE = """
rules:
  - {id: boost-new, on_change: {fact: suggested_tcs, by: [tc]}, when: setup.state == 'DRAFT', do: [boost]}
  - {id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}
"""


@in_town(world(happening("e1"), draft("e2")), BOOST_AND_PAUSE)
async def test_a_change_held_over_a_restart_keeps_no_other_event_from_its_write(here: Town) -> None:
    """The fact's parameters, an event's defaults, are not known at the first poll after a start."""
    await here.run(30)
    here.fault("answer_before", "GET", "/setup_processes/e2", times=1000, status=500)
    await here.run(30)
    here.suggest("e2", 7)
    await here.until(lambda: [one["reason"] for one in here.log("held")] == ["fact_unknown"], "held", limit=MINUTE)
    await here.kill()
    here.fault("answer_before", "GET", "default", times=10, status=500)
    here.start()
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"], "e1 is paused", limit=MINUTE)
    here.twin.faults.clear()
    await here.until(lambda: here.states() == ["confirmed"] * 2, "e2 is boosted", limit=10 * MINUTE)
