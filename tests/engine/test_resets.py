"""A reset of the service gives ids to other events: nothing that was decided for the old ones reaches them unasked."""

from datetime import timedelta
from typing import Any

import pytest

from tests.worlds import CAMPAIGN, PAUSE, Town, happening, in_town, several, world
from worker.engine.operators import approved

EVENTS = several(happening, 7)
MOST = tuple(f"e{number}" for number in range(1, 6))


def another(event: str) -> dict[str, Any]:
    """The record of another event under the same id, cancelled and with running campaigns."""
    start = "2026-09-01T20:00:00Z"
    record = happening(event, title=f"Another {event}", start_date_time=start, status="cancelled").record
    return dict(record)


def cancel(here: Town) -> None:
    for event in MOST:
        here.set(event, status="cancelled")


def vanish(here: Town) -> None:
    for event in MOST:
        here.change(event, remove=True)


def come_back(here: Town) -> None:
    for event in MOST:
        here.change(event, add=True, set=another(event))


async def become_others(here: Town, *, at_once: bool) -> None:
    """Most events are gone and others come under their ids, or are there at the next look."""
    if at_once:
        for event in MOST:
            here.set(event, **{name: value for name, value in another(event).items() if name != "id"})
    else:
        vanish(here)
        await here.run(12)
        come_back(here)
    await here.run(12)
    assert [one["reason"] for one in here.log("observed") if one["event"] is None] == ["reset"]


def states(here: Town) -> list[tuple[str, str]]:
    return [(write.state, write.reason) for write in here.writes()]


@pytest.mark.parametrize("mode", ["live", "approve"])
@pytest.mark.parametrize("at_once", [False, True], ids=["gone for a while", "other events at once"])
@in_town(world(*EVENTS), lambda mode: f"{PAUSE}    mode: {mode}\n", watched=6)
async def test_what_was_planned_before_a_reset_reaches_no_other_event_unasked(
    here: Town, at_once: bool, mode: str
) -> None:
    here.halt()
    cancel(here)
    await here.run(9)
    here.decide(approved)
    assert here.states() == ["planned"] * 5
    assert {write.approved for write in here.writes()} == {mode == "approve"}
    await become_others(here, at_once=at_once)
    here.resume()
    await here.run(60)
    assert (states(here), here.effects()) == ([("waiting", "reset")] * 5, [])
    here.decide(approved)
    await here.until(lambda: here.states() == ["confirmed"] * 5, "a person has looked")


@in_town(world(*EVENTS), watched=6)
async def test_what_was_planned_goes_out_where_the_same_events_only_drop_out_of_the_list(here: Town) -> None:
    here.halt()
    cancel(here)
    await here.run(9)
    for event in MOST[:2]:
        here.set(event, title="Renamed", start_date_time="2026-09-01T20:00:00Z")
    await here.run(9)
    here.resume()
    await here.until(lambda: here.states() == ["confirmed"] * 5, "two are no reset")


@in_town(world(*EVENTS), evidence_within=timedelta(minutes=2))
async def test_an_unknown_write_of_before_a_reset_is_read_for_and_sent_again_only_by_a_person(here: Town) -> None:
    here.fault("answer_before", "PUT", CAMPAIGN, status=503)
    await here.cancelled("unknown")
    await become_others(here, at_once=True)
    await here.until(lambda: here.writes()[0].held_by == "reset", "proved absent, and held")
    await here.until(lambda: here.writes()[0].state == "needs_human", "a person is asked", limit=300)
    assert (here.effects(), here.writes()[0].attempt) == ([], 1)
    here.resolve(here.writes()[0], applied=False)
    await here.until(lambda: here.writes()[0].state == "confirmed", "the person's word lets it go")
    assert (len(here.effects()), here.writes()[0].attempt) == (1, 2)


REMEMBERS = """
rules:
  - {id: rest, when: event.category == 'tired', do: [pause]}
  - {id: put-back, when: event.city == 'Oslo', do: [{undo: rest}]}
  - {id: go-on, after: rest, when: event.city == 'Oslo', do: [{optimisation: "OFF"}]}
  - {id: shrunk, when: "delta(event.capacity, '1m') < -10.0 && event.city == 'Oslo'", do: [{ad_optimisation: "OFF"}]}
"""


@in_town(world(*EVENTS), REMEMBERS, watched=6)
async def test_what_another_event_was_and_what_was_done_to_it_is_no_ground_for_anything(here: Town) -> None:
    await here.becomes("e1", 60, category="tired", capacity=500)
    await become_others(here, at_once=False)
    await here.becomes("e1", 12, client_campaign_status="PAUSED")
    await here.becomes("e1", 30, city="Oslo")
    assert here.campaigns() == ["PAUSED"], here.story()
    assert [one.operation for one in here.effects()] == ["set_client_campaign_status"], here.story()
    await here.run(60)
    await here.becomes("e1", 30, category="tired", client_campaign_status="RUNNING")
    assert {one.operation for one in here.effects()} == {
        "set_client_campaign_status",
        "set_campaign_optimisation_status",
    }, "what is done to the new one counts"


async def leave_one_by_one(here: Town, events: list[str], polls: int) -> None:
    """Events drop out of the list, one every so many polls, and answer by themselves."""
    for count in range(1, len(events)):
        here.fault("vanish", "GET", "^/events/$", times=polls, eid=events[:count])
        await here.run(3 * polls)
    here.fault("vanish", "GET", "^/events/$", times=1_000, eid=events)


@in_town(world(*several(happening, 24)), watched=6, requests_per_minute=100)
async def test_events_that_leave_the_list_one_by_one_and_answer_by_themselves_are_no_reset(here: Town) -> None:
    await leave_one_by_one(here, [f"e{number}" for number in range(1, 20)], 2)
    await here.restart()
    await here.becomes("e1", 60, status="cancelled")
    assert here.log("observed")[0]["reason"] is None, here.story()
    assert here.states() == ["confirmed"], here.story()


@in_town(world(*several(happening, 24)), watched=6)
async def test_a_reset_is_told_by_what_the_list_shows_however_many_events_have_left_it(here: Town) -> None:
    await leave_one_by_one(here, [f"e{number}" for number in range(9, 25)], 1)
    await here.run(6)
    await become_others(here, at_once=True)
    assert (states(here), here.effects()) == ([("waiting", "reset")] * 5, []), here.story()
