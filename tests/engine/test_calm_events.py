"""Events at rest are passed over, and nothing is decided otherwise for it."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.worlds import PARTNER, Town, draft, happening, plays, world
from worker.model.facts import EventId

MINUTE = 60.0
RULES = """
rules:
  - id: pause-after-a-while
    when: event.status == 'cancelled'
    for: 40s
    do: [pause]
  - id: boost-soon
    when: setup.state == 'DRAFT' && event.start_date_time - now < duration('28d')
    do: [boost]
  - id: keep-optimising
    when: event.status == 'active'
    repeat: enforce
    cooldown: 1m
    do: [{optimisation: "ON"}]
"""


class AlwaysDue(dict[EventId, datetime]):
    """Every event is decided on in every cycle."""

    def __setitem__(self, event: EventId, at: datetime) -> None:
        pass


async def story(here: Town) -> None:
    """Things that only the clock brings about, and things that happen to an event that is at rest."""
    await here.run(MINUTE)
    here.set("e1", status="cancelled")
    await here.run(2 * MINUTE)
    here.set("e3", campaign_optimisation_status="OFF")
    await here.run(3 * MINUTE)
    here.set("e2", start_date_time="2026-05-20T20:00:00Z")
    await here.run(2 * MINUTE)
    here.set("e1", status="active")
    await here.run(MINUTE)
    here.set("e1", status="cancelled")
    await here.run(2 * MINUTE)


def played(folder: Path, *, all_due: bool) -> list[tuple[Any, ...]]:
    """What the log says of the story."""
    folder.mkdir()
    told: list[tuple[Any, ...]] = []

    async def script(here: Town) -> None:
        if all_due:
            here.worker.states[PARTNER].due = AlwaysDue()
        await story(here)
        told.extend((one["kind"], one["reason"], one["event"], one["rule"], one["episode"]) for one in here.log())

    events = [happening("e1"), draft("e2"), happening("e3")]
    plays(script, folder, world(*events), RULES)
    return told


def test_passing_over_calm_events_decides_what_looking_at_all_of_them_decides(tmp_path: Path) -> None:
    passed_over = played(tmp_path / "calm", all_due=False)
    looked_at = played(tmp_path / "all", all_due=True)

    assert sorted(passed_over, key=repr) == sorted(looked_at, key=repr)
    assert {kind for kind, *_ in passed_over} >= {"fired", "held", "confirmed"}, "the story has something in it"


@pytest.mark.parametrize("events", [30])
def test_events_at_rest_are_not_looked_at(tmp_path: Path, events: int) -> None:
    async def script(here: Town) -> None:
        await here.run(15)
        due = here.worker.states[PARTNER].due
        assert len(due) == events, "a few polls are enough to find out"
        here.set("e7", title="Another title")
        await here.run(3)
        assert len(due) >= events - 1

    plays(script, tmp_path, world(*(happening(f"e{number}") for number in range(events))))
