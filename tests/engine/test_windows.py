"""What was, in a worker beside the twin: over restarts, silences, and before a write is sent."""

from datetime import timedelta

from tests.worlds import PARTNER, Town, happening, in_town, world
from worker.model.facts import EventId, FactKey, Known
from worker.rules.load import read_rules

HOUR, SLOW = 3600.0, timedelta(seconds=30)
FALL = "rules:\n  - {id: fall, when: \"delta(event.capacity, '2h') <= -100.0\", do: [pause]}\n"


@in_town(world(happening("e1")), FALL, interval=SLOW)
async def test_the_record_outlives_the_process(here: Town) -> None:
    await here.run(60)
    here.set("e1", capacity=300)
    await here.run(60)
    await here.kill()
    await here.clock.sleep(HOUR / 2)
    here.start()
    await here.run(1.4 * HOUR)
    assert here.writes() == [], "two hours ago nobody had looked yet"
    await here.run(0.2 * HOUR)
    assert here.states() == ["confirmed"]


@in_town(world(happening("e1")), FALL, interval=SLOW)
async def test_in_a_long_silence_nothing_is_known(here: Town) -> None:
    await here.run(60)
    await here.kill()
    await here.clock.sleep(3 * HOUR)
    here.set("e1", capacity=300)
    here.start()
    await here.run(1.9 * HOUR)
    assert here.writes() == [], "what it was two hours ago lies in the silence"
    here.set("e1", capacity=150)
    await here.run(0.2 * HOUR)
    assert here.states() == ["waiting"], "what it rests on was first seen after the silence"
    (fired,) = here.log("fired")
    assert "ago(event.capacity, '2h') is 300" in str(fired["why"])


@in_town(world(happening("e1")), FALL.replace("do: [pause]", "mode: approve, do: [pause]"), interval=SLOW)
async def test_before_a_write_is_sent_what_was_is_read_from_the_record_anew(here: Town) -> None:
    """The fall lies further back than the rule asks when the write may go at last."""
    await here.run(60)
    here.set("e1", capacity=300)
    await here.run(2 * HOUR)
    assert here.states() == ["waiting"]
    await here.run(0.2 * HOUR)
    assert here.states() == ["skipped"], "nothing has fallen in the last two hours"


@in_town(world(happening("e1")), FALL, interval=SLOW, observations_kept=timedelta(minutes=10))
async def test_changes_are_kept_as_long_as_a_rule_asks_back(here: Town) -> None:
    await here.run(60)
    here.set("e1", capacity=300)
    await here.run(1.9 * HOUR)
    then = here.clock.now() - timedelta(hours=1.85)
    found = {one.key: one.fact for one in here.ledger.observed_at(PARTNER, EventId("e1"), then)}
    event = found[FactKey(name="event")]
    assert isinstance(event, Known)
    assert isinstance(event.value, dict)
    assert event.value["capacity"] == 300
    await here.run(0.2 * HOUR)
    assert here.states() == ["confirmed"]


@in_town(world(happening("e1")), FALL.replace("'2h'", "'10m'"), interval=SLOW, observations_kept=timedelta(minutes=10))
async def test_a_rule_that_asks_further_back_than_was_kept_is_unknown_until_it_is(here: Town) -> None:
    await here.run(3 * HOUR)
    here.set("e1", capacity=350)
    await here.run(60)
    here.rules.current = read_rules({"r.yaml": FALL}).rules
    here.set("e1", capacity=200)
    await here.run(60)
    assert here.writes() == []
