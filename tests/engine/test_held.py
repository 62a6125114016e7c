"""Writes that cannot be sent: what holds them, for how long, and how they end."""

from pathlib import Path

from tests.worlds import Town, happening, town, world

MINUTE, HOUR = 60.0, 3600.0
CAMPAIGN = "/client_campaign_status$"


def test_connections_that_fail_for_longer_than_the_gap_put_the_write_before_a_person(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(10)
        here.fault("no_connection", "PUT", CAMPAIGN, times=1000)
        here.set("e1", status="cancelled")
        await here.run(HOUR + 5 * MINUTE)
        assert here.states() == ["waiting"], here.story()
        assert "not_sent" in here.only.why or "backoff" in here.only.why, here.only.why
        assert here.only.attempt > 20, "it was tried on, again and again"

    with town(tmp_path, world(happening("e1"))) as (_, play):
        play(script)
