"""The service's task behind a PUT: read with waits of 2, 4, 8 … s and at most six times, whichever process reads."""

from tests.worlds import Town, happening, in_town, world
from worker.sandbox.settings import TwinSettings

CAMPAIGN = "/client_campaign_status$"
TASK = "/events/e1/client_campaign_status/task"


def reads(here: Town) -> int:
    return sum(one.method == "GET" and one.path == TASK for one in here.twin.books.requests)


@in_town(world(happening("e1")), twin=TwinSettings(task_duration_s=10_000.0, task_effect="when_done"))
async def test_a_task_that_never_ends_is_read_six_times_over_restarts_and_then_counts_no_more(here: Town) -> None:
    await here.run(10)
    here.fault("answer_after", "PUT", CAMPAIGN, status=500)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["unknown"], "the pause is unknown")
    for seconds in (5, 9, 20):
        await here.run(seconds)
        await here.kill()
        here.start()
        await here.clock.sleep(3)
    await here.run(60)
    assert here.states() == ["unknown"], "a task that runs makes every read one that cannot tell" + here.story()
    await here.until(lambda: reads(here) == 6, "the sixth read")
    await here.until(lambda: here.only.attempt == 2, "its state counts no more: absence is proved, it is sent again")
    assert reads(here) == 6, "the first PUT's task is read no seventh time"
