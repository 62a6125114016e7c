"""`after`: a rule that looks only where another one has written, and what it knows of that write."""

from pathlib import Path
from typing import Any

import pytest

from tests.calling import call, settle_in
from tests.worlds import CAMPAIGN, Town, draft, happening, in_town, rule_set, world
from worker.sandbox.faults import Kind

SPELL = 300.0
TELL = """
rules:
  - {id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}
  - id: tell
    after: pause-cancelled
    when: now - write.at >= duration('5m')
    do: [{notify: "=write.action + ': ' + write.before + ' became ' + write.wanted"}]
"""


async def paused(here: Town, times: int = 1) -> None:
    await here.becomes("e1", 6, status="active", client_campaign_status="RUNNING")
    here.set("e1", status="cancelled")
    await here.until(lambda: [one.state for one in pauses(here)] == ["confirmed"] * times, "paused")


def pauses(here: Town) -> list[Any]:
    return [one for one in here.writes() if one.intent.action == "pause"]


@in_town(world(happening("e1"), happening("e2")), TELL)
async def test_it_looks_only_where_the_other_rule_has_written_and_knows_what_it_wrote(here: Town) -> None:
    await here.run(2 * SPELL)
    assert here.texts == []
    await paused(here)
    await here.run(SPELL - 60)
    assert here.texts == []
    await here.run(120)
    assert here.texts == ["pause: RUNNING became PAUSED"]
    await here.run(2 * SPELL)
    assert len(here.texts) == 1


@in_town(world(happening("e1")), TELL.replace("now - write.at >= duration('5m')", "event.capacity > 0.0"))
async def test_each_firing_of_the_other_rule_begins_a_new_episode_also_while_the_condition_holds(here: Town) -> None:
    await paused(here)
    await here.run(60)
    assert len(here.texts) == 1
    await here.restart(60)
    await here.run(60)
    assert len(here.texts) == 1
    await paused(here, 2)
    await here.run(60)
    assert len(here.texts) == 2
    fired = [one for one in here.log("fired") if one["rule"] == "tell"]
    assert [one["episode"] for one in fired] == [1, 2]


@pytest.mark.parametrize(("status", "kind", "counts"), [(429, "answer_after", 1), (422, "answer_before", 0)])
@in_town(world(happening("e1")), TELL)
async def test_only_what_is_confirmed_counts(here: Town, status: int, kind: Kind, counts: int) -> None:
    """A write that was refused is no ground for anything; one whose answer was lost is, once it is seen to be there."""
    here.fault(kind, "PUT", CAMPAIGN, status=status)
    await here.becomes("e1", 2 * SPELL, status="cancelled")
    assert len(here.texts) == counts


@in_town(world(draft("e1"), draft("e2")), TELL.replace("now - write.at >= duration('5m')", "setup.state == 'DRAFT'"))
async def test_facts_that_cost_a_request_are_read_only_where_the_other_rule_has_written(here: Town) -> None:
    await here.run(60)
    assert not [one for one in here.twin.books.requests if "setup_processes" in one.path]
    await paused(here)
    await here.run(60)
    asked = {one.path for one in here.twin.books.requests if "setup_processes" in one.path}
    assert asked == {"/setup_processes/e1"}
    assert len(here.texts) == 1


SINCE = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled'
    do: [pause]
  - id: tell
    after: pause-cancelled
    when: now - write.at >= duration('5m') && since(event.capacity) < -10.0
    do: [{notify: "='less by ' + string(since(event.capacity))"}]
"""


@pytest.mark.parametrize(("before", "then", "texts"), [(500, 480, ["less by -20"]), (500, 495, []), (470, 480, [])])
@in_town(world(happening("e1")), SINCE)
async def test_since_compares_with_what_was_read_at_the_send(
    here: Town, before: int, then: int, texts: list[str]
) -> None:
    """Not with what was before that, nor with what was seen last: it changes in small steps, over a restart."""
    await here.becomes("e1", 9, capacity=before)
    await paused(here)
    (write,) = pauses(here)
    assert write.intent.context["since"] == {"event.capacity": float(before)}
    for step in range(1, 5):
        await here.becomes("e1", 9, capacity=before + (then - before) * step / 4)
    await here.restart(SPELL)
    await here.run(30)
    assert here.texts == texts


@in_town(world(happening("e1")), SINCE)
async def test_since_keeps_the_value_before_the_first_attempt_where_the_write_is_sent_again(here: Town) -> None:
    here.set("e1", capacity=500)
    here.fault("answer_before", "PUT", CAMPAIGN, status=429)
    await here.cancelled("unknown")
    here.set("e1", capacity=300)
    await here.until(lambda: here.states() == ["confirmed"], "paused")
    assert here.only.attempt == 2
    assert here.only.intent.context["since"] == {"event.capacity": 500.0}
    await here.run(SPELL + 30)
    assert here.texts == ["less by -200"]


@in_town(world(happening("e1")), SINCE)
async def test_a_rule_that_came_later_does_not_know_what_was_then_and_says_so(here: Town, tmp_path: Path) -> None:
    asks, here.rules.current = here.rules.current, rule_set(SINCE.partition("  - id: tell")[0])
    await paused(here)
    here.rules.current = asks
    await here.becomes("e1", SPELL + 30, capacity=0)
    assert here.texts == []
    asked = ("--event", "e1", "--rule", "tell")
    found = call("explain", *asked, config=settle_in(tmp_path, rules=SINCE)).both
    assert "event.capacity at write.at is unknown: it was not read when that write was sent" in " ".join(found.split())


@in_town(
    world(draft("e1")),
    SINCE.replace("since(event.capacity) < -10.0", "since(setup.total_budget) < 0.0").replace(
        "since(event.capacity)", "since(setup.total_budget)"
    ),
    watched=9,
)
async def test_what_since_names_is_read_before_such_a_write_is_sent(here: Town) -> None:
    await paused(here)
    (write,) = pauses(here)
    assert write.intent.context["since"] == {"setup.total_budget": 500.0}
