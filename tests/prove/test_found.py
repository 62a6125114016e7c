"""What the random worlds found, each as the shortest story that shows it."""

from pathlib import Path

from tests.worlds import RUN, Town, happening, town, world


def test_a_restart_does_not_read_a_task_sooner_or_oftener_than_its_put_allows(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        here.fault("answer_before", "PUT", "/client_campaign_status$", status=500, times=3)
        here.set("e1", frontend_status="FLAGGED")
        await here.until(lambda: here.states() == ["unknown"], "the run is unknown")
        await here.run(9)
        await here.kill()
        here.start()
        await here.clock.sleep(3)
        await here.run(12)
        found = [one.kind for one in here.twin.violations()]
        here.twin._watch.violations.clear()  # judged here, and not once more when the town closes
        assert found == [], "waits of 2, 4, 8 s from the PUT on, also over a restart"

    with town(tmp_path, world(happening("e1", client_campaign_status="PAUSED")), RUN) as (_, play):
        play(script)
