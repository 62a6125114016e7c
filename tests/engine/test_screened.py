"""What is passed over would have changed nothing: screened changes and events at rest, played twice."""

from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.worlds import MINUTE, PARTNER, Script, Town, draft, happening, in_town, plays, several, world
from worker.engine.deciding import Memories, Screen
from worker.model.facts import EventId, Observation
from worker.model.rules import Rule
from worker.sandbox.world import TwinWorld

EVENTS = ("e1", "e2", "e3", "e4")
WHEN = (
    "event.status == 'cancelled'",
    "event.status == 'cancelled' || event.frontend_status == 'CANCELLED'",
    "event.predicted_sales_share > 0.9 && event.status == 'active'",
    "!(event.capacity < 300.0)",
    "setup.state == 'DRAFT' && event.city != 'Oslo'",
    "event.start_date_time - now < duration('92d')",
)
MORE = ("", "", "for: 20s", "cooldown: 1m", "repeat: enforce", "priority: 3", "limit: {per_event_per_day: 2}")
DO = ("pause", "run", "{optimisation: 'ON'}", "{frontend_status: HIDDEN}")
CHANGES: tuple[dict[str, Any], ...] = (
    {"status": "cancelled"},
    {"status": "active"},
    {"status": "active", "title": "Another"},
    {"frontend_status": "CANCELLED"},
    {"predicted_sales_share": 0.95},
    {"predicted_sales_share": 0.5},
    {"predicted_sales_share": "much"},
    {"capacity": 200},
    {"capacity": 310},
    {"city": "Oslo"},
    {"client_campaign_status": "PAUSED"},
    {"start_date_time": "2026-05-20T20:00:00Z"},
)


def all_of_them(screen: Screen, _observation: Observation, _memories: Memories) -> list[Rule]:
    """Whatever is learnt of an event, every rule is decided on."""
    return list(screen.rules)


def drawn(chance: Random) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    rules = ["rules:"]
    for index in range(chance.randint(2, 5)):
        more = chance.choice(MORE)
        rules += [f"  - id: r{index}", f'    when: "{chance.choice(WHEN)}"', f"    do: [{chance.choice(DO)}]"]
        rules += [f"    {more}"] if more else []
    if chance.random() < 0.5:
        rules += ["  - {id: changed, on_change: {fact: event, by: [city]}, do: [pause]}"]
    return "\n".join(rules), [(chance.choice(EVENTS), chance.choice(CHANGES)) for _ in range(10)]


def log_of(folder: Path, place: TwinWorld, rules: str, story: Script) -> list[tuple[Any, ...]]:
    """What the log says of a story."""
    folder.mkdir()
    told: list[tuple[Any, ...]] = []

    async def script(here: Town) -> None:
        await story(here)
        told.extend((one["kind"], one["reason"], one["event"], one["rule"], one["episode"]) for one in here.log())

    plays(script, folder, place, rules)
    return told


def played(folder: Path, seed: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """What the log says of drawn changes under drawn rules, and what is remembered of them."""
    chance = Random(seed)
    rules, changes = drawn(chance)
    remembered: list[tuple[Any, ...]] = []

    async def story(here: Town) -> None:
        await here.run(12)
        for event, fields in changes:
            here.set(event, **fields)
            await here.run(chance.choice((3, 6, 24)))
        await here.run(60)
        remembered.extend(
            (*pair, one.open, one.fired, one.episode, one.held, one.true_since, one.fired_at, dict(one.baselines))
            for pair, one in sorted(here.worker.states[PARTNER].memories.items())
        )

    events = happening("e1"), draft("e2"), happening("e3", capacity=250), happening("e4", status="cancelled")
    return sorted(log_of(folder, world(*events), rules, story), key=repr), remembered


@pytest.mark.parametrize("seed", [3, 8])
def test_what_is_passed_over_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    screened = played(tmp_path / "screened", seed)
    monkeypatch.setattr(Screen, "concerned", all_of_them)
    assert played(tmp_path / "all", seed) == screened


CALM = """
rules:
  - {id: pause-after-a-while, when: event.status == 'cancelled', for: 40s, do: [pause]}
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


async def calm_story(here: Town) -> None:
    """Things that only the clock brings about, and things that happen to an event that is at rest."""
    await here.run(MINUTE)
    await here.becomes("e1", 2 * MINUTE, status="cancelled")
    await here.becomes("e3", 3 * MINUTE, campaign_optimisation_status="OFF")
    await here.becomes("e2", 2 * MINUTE, start_date_time="2026-05-20T20:00:00Z")
    await here.becomes("e1", MINUTE, status="active")
    await here.becomes("e1", 2 * MINUTE, status="cancelled")


def test_passing_over_calm_events_decides_what_looking_at_all_of_them_decides(tmp_path: Path) -> None:
    async def all_due(here: Town) -> None:
        here.worker.states[PARTNER].due = AlwaysDue()
        await calm_story(here)

    place = happening("e1"), draft("e2"), happening("e3")
    passed_over = log_of(tmp_path / "calm", world(*place), CALM, calm_story)
    looked_at = log_of(tmp_path / "all", world(*place), CALM, all_due)
    assert sorted(passed_over, key=repr) == sorted(looked_at, key=repr)
    assert {kind for kind, *_ in passed_over} >= {"fired", "held", "confirmed"}, "the story has something in it"


@in_town(world(*several(happening, 30)), watched=15)
async def test_events_at_rest_are_not_looked_at(here: Town) -> None:
    due = here.worker.states[PARTNER].due
    assert len(due) == 30, "a few polls are enough to find out"
    await here.becomes("e7", 3, title="Another title")
    assert len(due) >= 29
