"""`plan`, `explain` and `backtest` of rules with `after`, `since`, `undo` and `wait`: they say what the worker does."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.calling import call, settle_in
from tests.engine.test_backtest import told as backtested
from tests.engine.test_plan import rows, stopped_and_rehearsed
from tests.rehearsing import rehearsed
from tests.worlds import HOUR, Town, happening, in_town, plays, world

RULES = """
rules:
  - id: rest
    when: event.category == 'tired'
    do: [pause, {wait: 1h}, {optimisation: "OFF"}]
  - id: roll-back
    after: rest
    when: since(event.capacity) < -10.0
    do: [{undo: after}]
  - id: tell
    after: rest
    when: now - write.at >= duration('30m')
    do: [{notify: "=write.action + ': ' + string(since(event.capacity))"}]
"""
SLOWLY = RULES.replace("    do: [{undo: after}]", "    for: 30m\n    do: [{undo: rest}]")
PAUSED, OFF, RUNS = ("e1", "pause"), ("e1", "optimisation"), ("e1", "run")


async def rested(here: Town) -> None:
    """The rule has paused the event, at a capacity of 500, and waits."""
    await here.becomes("e1", 9, capacity=500)
    await here.becomes("e1", 30, category="tired")
    assert [(one.intent.action, one.state) for one in here.writes()] == [("pause", "confirmed"), ("wait", "planned")]


# plan


@in_town(world(happening("e1"), happening("e2")), RULES, watched=9)
async def test_a_plan_goes_as_far_as_the_wait_and_says_until_when_it_waits(here: Town) -> None:
    here.set("e1", category="tired")
    found = await stopped_and_rehearsed(here)
    assert rows(found) == [("e1", "pause", "sent", "condition"), ("e1", "wait", "planned", "sequence")]
    assert [row.cost.write for row in found.rows] == [1, 0], "a wait asks the service for nothing"
    await rested(here)
    found = await rehearsed(here)
    assert rows(found) == [("e1", "wait", "planned", "wait")]
    assert found.rows[0].write.held_until == here.writes()[-1].held_until
    await here.kill()
    await here.clock.sleep(HOUR)
    found = await rehearsed(here)
    assert rows(found) == [("e1", "wait", "planned", "wait"), ("e1", "notify", "sent", "condition")]
    assert (found.rows[0].write.held_until, found.rows[1].write.intent.params["text"]) == (None, "pause: 0")
    assert found.rows[1].cost.preflight + found.rows[1].cost.write == 0
    here.start()
    await here.run(60)
    assert here.writes()[-1].intent.action == "optimisation"


@in_town(world(happening("e1"), happening("e2")), RULES)
async def test_a_plan_tells_what_an_undo_would_put_back_and_where_the_write_is_left_alone(here: Town) -> None:
    await rested(here)
    here.set("e1", capacity=400)
    found = await stopped_and_rehearsed(here)
    assert rows(found)[1] == ("e1", "runclient_campaign_status", "sent", "condition")
    back = found.rows[1]
    assert (back.write.key.rule, back.before) == ("roll-back", "PAUSED")
    assert back.write.intent.wanted == {"client_campaign_status": "RUNNING"}
    assert "event.capacity is 400; event.capacity at write.at is 500" in back.write.why
    await here.until(lambda: here.effects()[-1].after == "RUNNING", "put back, as it was said")
    assert rows(await rehearsed(here)) == [("e1", "wait", "planned", "wait")]


@in_town(world(happening("e1"), happening("e2")), SLOWLY)
async def test_a_held_undo_is_told_with_what_it_would_put_back(here: Town) -> None:
    await rested(here)
    await here.becomes("e1", 9, capacity=400)
    found = await rehearsed(here)
    assert rows(found)[1:] == [("e1", "runclient_campaign_status", "held", "for")]
    assert (found.rows[1].before, dict(found.rows[1].write.intent.wanted)) == (
        "PAUSED",
        {"client_campaign_status": "RUNNING"},
    )


@in_town(
    world(happening("e1"), happening("e2")),
    (RULES + SLOWLY[SLOWLY.index("  - id: roll-back") : SLOWLY.index("  - id: tell")].replace("roll-back", "slowly")),
)
async def test_what_another_rule_is_to_put_back_already_is_told_as_left_alone(here: Town) -> None:
    await rested(here)
    here.set("e1", capacity=400)
    held = (await stopped_and_rehearsed(here)).rows[-1]
    assert (held.write.key.rule, held.becomes, held.reason) == ("slowly", "held", "for")
    assert "write 1 is left as it is" in held.write.why


# explain and backtest, on what a worker has left


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """e1 was paused, put back when its capacity fell, and went on after the wait; e2 was left alone."""
    folder = tmp_path_factory.mktemp("home")
    settle_in(folder, rules=RULES)

    async def script(here: Town) -> None:
        await rested(here)
        here.set("e1", capacity=400)
        await here.until(lambda: here.writes()[-1].undo and here.writes()[-1].state == "confirmed", "put back")
        await here.run(300)
        await here.restart(HOUR)
        await here.run(90)
        assert [one.state for one in here.writes()] == ["confirmed"] * 4
        assert here.effects()[-1].after == "OFF"

    plays(script, folder, world(happening("e1"), happening("e2")), RULES)
    return folder


def explained(home: Path, rule: str, *arguments: str) -> dict[str, Any]:
    asked = ("explain", "--event", "e1", "--rule", rule, "--format", "json", *arguments)
    (one,) = json.loads(call(*asked, config=home / "config.yaml").out)[0]["rules"]
    return dict(one)


def values(part: dict[str, Any]) -> dict[str, Any]:
    """What stood at every path of a condition."""
    found = {one["path"]: one["value"] for one in part["values"]}
    for below in part["parts"]:
        found |= values(below)
    return found


def test_a_wait_is_explained_with_its_end(home: Path, tmp_path: Path) -> None:
    settle_in(tmp_path, rules=RULES)
    plays(rested, tmp_path, world(happening("e1"), happening("e2")), RULES)
    (write,) = [one for one in explained(tmp_path, "rest")["writes"] if one["state"] == "planned"]
    assert (write["action"], write["held_by"]) == ("wait", "wait")
    assert write["held_until"] is not None
    assert not [one for one in explained(home, "rest")["writes"] if one["state"] == "planned"]


def test_a_rule_that_comes_after_is_explained_by_the_write_that_stands(home: Path) -> None:
    """Now by the step after the wait, which was sent at the capacity of now; a minute in, by the pause."""
    now = explained(home, "roll-back")
    assert (now["standing"], values(now["condition"])["event.capacity"]) == ("false", 400)
    assert values(now["condition"])["write"]["action"] == "optimisation"
    said = call("explain", "--event", "e1", "--rule", "roll-back", config=home / "config.yaml").out
    assert "event.capacity at write.at is 400" in said
    for event, words in (("e1", 'write.at is "2026-'), ("e2", "rule rest has no confirmed write on the event")):
        call("explain", "--event", event, "--rule", "tell", config=home / "config.yaml").says(0, words)
    fired_at = now["fired"]["at"]
    then = explained(home, "roll-back", "--at", fired_at)
    assert (then["standing"], then["condition"]["truth"]) == ("true", "true")
    assert values(then["condition"])["write"]["action"] == "pause"
    later = json.loads(call("log", "--write", "3", "--format", "json", config=home / "config.yaml").out)[-1]["at"]
    undone = explained(home, "roll-back", "--at", later)
    assert undone["standing"] == "false"
    assert "rule rest has no confirmed write on the event that stands" in undone["why"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param("", "", {("same", *PAUSED), ("same", *RUNS), ("same", *OFF)}, id="the same rules"),
        pytest.param(
            "-10.0",
            "-200.0",
            {("same", *PAUSED), ("gone", *RUNS), ("same", *OFF), ("new", "e1", "notify")},
            id="another threshold",
        ),
        pytest.param(
            "wait: 1h",
            "wait: 2m",
            {("same", *PAUSED), ("same", *RUNS), ("earlier", *OFF), ("new", "e1", "notify")},
            id="a shorter wait",
        ),
        pytest.param(
            "after: rest\n    when: since(event.capacity) < -10.0\n    do: [{undo: after}]",
            "when: event.capacity < 450.0\n    do: [{undo: rest}]",
            {("same", *PAUSED), ("same", *RUNS), ("same", *OFF)},
            id="an undo of a named rule",
        ),
    ],
)
def test_backtest_replays_them(home: Path, old: str, new: str, told: set[tuple[str, str, str]]) -> None:
    assert {one for one in backtested(home, RULES.replace(old, new)) if one[2] != "wait"} == told
