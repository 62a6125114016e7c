"""Many writes at once: each is recorded before its own first byte, and all are under way side by side."""

from pathlib import Path
from typing import Any

from tests.worlds import Town, happening, in_town, plays, world
from worker.guards import Limits

MANY = 20
EVENTS = [f"e{number}" for number in range(1, MANY + 1)]


def records(here: Town, kind: str) -> list[dict[str, Any]]:
    return [one for one in here.log(kind) if one["write"] is not None]


@in_town(world(*map(happening, EVENTS)), requests_per_minute=20_000)
async def test_many_writes_at_once_are_each_sent_once_and_confirmed_by_their_own_evidence(here: Town) -> None:
    await here.run(10)
    for event in EVENTS:
        here.set(event, status="cancelled")
    await here.until(lambda: here.states().count("applied") == MANY, "all accepted")
    assert len(records(here, "sending")) == MANY, here.story()
    await here.until(lambda: here.states() == ["confirmed"] * MANY, "all confirmed")
    assert [one["kind"] for one in records(here, "evidence") + records(here, "confirmed")].count("evidence") == MANY
    shown = {one["write"]: one["seq"] for one in records(here, "evidence")}
    assert all(one["seq"] == shown[one["write"]] + 1 for one in records(here, "confirmed")), here.story()
    assert all(one.attempt == 1 for one in here.writes())


def test_a_cap_stops_many_at_once_where_it_stops_one_after_the_other(tmp_path: Path) -> None:
    run = "rules:\n  - {id: run-again, when: event.frontend_status == 'FLAGGED', do: [run]}\n"

    async def script(here: Town) -> None:
        await here.run(10)
        for event in EVENTS:
            here.set(event, frontend_status="FLAGGED")
        await here.run(60)
        assert len(records(here, "sending")) == 5, here.story()
        assert {one.held_by for one in here.writes() if one.state == "planned"} == {"writes_per_hour"}

    places = [happening(event, client_campaign_status="PAUSED") for event in EVENTS]
    limits = Limits(writes_per_hour=5)
    plays(script, tmp_path, world(*places), run, requests_per_minute=20_000, limits=limits)
