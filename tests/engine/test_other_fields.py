"""A list is read for the fields that rules look at. Rules that are edited while a look is under way look at others: a
field that nobody has asked for is not one that the event lacks, and nothing is decided on it."""

import asyncio

import pytest

from tests.worlds import PARTNER, Town, happening, in_town, world
from worker.rules.load import read_rules

WATCHING_TCS = """
rules:
  - id: pause-without-clusters
    when: size(suggested_tcs) > 5
    do: [pause]
"""
MOODLESS = """
rules:
  - id: pause-moodless
    when: "!has(event.mood)"
    do: [pause]
"""
MOOD_CHANGED = """
rules:
  - id: pause-when-the-mood-changes
    on_change: {fact: event, by: [mood]}
    do: [pause]
"""


def edited(here: Town, after_s: float, rules: str) -> "asyncio.Task[None]":
    async def edit() -> None:
        await asyncio.sleep(after_s)
        here.rules.current = read_rules({"rules.yaml": rules}).rules

    return asyncio.ensure_future(edit())


@pytest.mark.parametrize("slow", ["^/events/$", "suggested_tcs"])
@pytest.mark.parametrize("rules", [MOODLESS, MOOD_CHANGED])
@in_town(world(*(happening(f"e{number}", mood="glad") for number in range(3))), WATCHING_TCS)
async def test_rules_that_are_edited_during_a_look_are_judged_by_a_list_that_was_read_for_them(
    here: Town, rules: str, slow: str
) -> None:
    await here.run(30)
    here.suggest("e1", 7)
    here.fault("slow", "GET", slow, delay_s=2.0)
    edit = edited(here, 1.0, rules)
    await here.run(60)
    assert edit.done()
    assert here.log("fired") == [], here.story()
    here.set("e1", mood="sad")
    await here.run(30)
    assert [one["event"] for one in here.log("fired")] == (["e1"] if rules is MOOD_CHANGED else []), here.story()


@in_town(
    world(*(happening(f"e{number}", mood="glad") for number in range(3)), happening("e3")), WATCHING_TCS, page_size=2
)
async def test_an_event_whose_page_failed_since_is_judged_once_a_list_has_shown_it(here: Town) -> None:
    """Facts that are read between the pages of a later list must not be judged beside its old record."""
    await here.run(30)
    state = here.worker.states[PARTNER]
    here.rules.current = read_rules({"rules.yaml": MOODLESS}).rules
    here.fault("answer_before", "GET", "^/events/$", status=500, skip=1, times=20)
    here.reports.append(await here.worker.cycle.run(state))
    assert not here.reports[-1].complete
    assert state.lacking == {"e2", "e3"}
    await here.until(lambda: here.reports[-1].complete, "the list is had as a whole")
    assert state.lacking == set()
    await here.run(30)
    assert [one["event"] for one in here.log("fired")] == ["e3"], here.story()
