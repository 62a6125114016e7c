"""A change that alters no truth is not looked at, and nothing is decided otherwise for it: drawn worlds, played
twice."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.worlds import PARTNER, Town, draft, happening, plays, world
from worker.engine.deciding import Memories, Screen
from worker.model.facts import Observation
from worker.model.rules import Rule

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


def played(folder: Path, seed: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    folder.mkdir()
    chance = Random(seed)
    rules, changes = drawn(chance)
    told: list[tuple[Any, ...]] = []
    remembered: list[tuple[Any, ...]] = []

    async def script(here: Town) -> None:
        state = here.worker.states[PARTNER]
        await here.run(12)
        for event, fields in changes:
            here.set(event, **fields)
            await here.run(chance.choice((3, 6, 24)))
        await here.run(60)
        told.extend((one["kind"], one["reason"], one["event"], one["rule"], one["episode"]) for one in here.log())
        remembered.extend(
            (*pair, one.open, one.fired, one.episode, one.held, one.true_since, one.fired_at, dict(one.baselines))
            for pair, one in sorted(state.memories.items())
        )

    events = [happening("e1"), draft("e2"), happening("e3", capacity=250), happening("e4", status="cancelled")]
    plays(script, folder, world(*events), rules)
    return sorted(told, key=repr), remembered


@pytest.mark.parametrize("seed", [3, 8])
def test_what_is_passed_over_would_have_changed_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    screened = played(tmp_path / "screened", seed)
    monkeypatch.setattr(Screen, "concerned", all_of_them)
    assert played(tmp_path / "all", seed) == screened
