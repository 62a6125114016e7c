"""What the log says of changes that were seen: every one of a field that a rule looks at, and whose doing it was."""

import re

import pytest

from tests.engine.test_undo import undo
from tests.worlds import (
    BOOST,
    CAMPAIGN,
    PAUSE,
    Disk,
    Town,
    draft,
    happening,
    has_told,
    in_town,
    paused_and_not_logged,
    world,
)

PARTIES = """
  - id: parties
    when: event.category == 'party' && event.frontend_status == 'HIDDEN'
    do: [pause]
"""
CHANGED = re.compile(r"\w+\.(\w+) changed from '?(.*?)'? to '?(.*?)'?, (by the worker's own write|not by the worker)")
TELLS = has_told("observed")
SHORT = {"client_campaign_status": "campaign", "frontend_status": "frontend"}


def told(here: Town, event: str = "e1") -> list[str]:
    """Every change that the log tells of an event, as ``field before>after``, and ``ours`` where it says so."""
    found = [record["why"] for record in here.log("observed") if record["event"] == event]
    return [CHANGED.sub(_shortly, why) for why in found]


def _shortly(change: re.Match[str]) -> str:
    field, before, after, whose = change.groups()
    return f"{SHORT.get(field, field)} {before}>{after}{' ours' if whose.startswith('by') else ''}"


def becomes(here: Town, state: str) -> None:
    """A person changes the state of the setup of e1."""
    here.change("e1", by="person", setup={"state": state})


@in_town(world(happening("e1")))
async def test_a_value_that_only_the_read_of_one_event_showed_is_not_passed_over(here: Town) -> None:
    """A list that fails logs nothing; the read that confirms the pause has shown it all the same. A person who reverses
    it before the next list made it look as if nothing had changed, and the next pause as if it were the worker's."""
    await paused_and_not_logged(here)
    for value in ("RUNNING", "PAUSED"):
        await here.becomes("e1", 6, by="person", client_campaign_status=value)
    assert told(here)[1:] == ["campaign RUNNING>PAUSED ours", "campaign PAUSED>RUNNING", "campaign RUNNING>PAUSED"]


@in_town(world(happening("e1")), watched=9)
async def test_an_effect_that_came_while_the_worker_was_down_is_its_own(here: Town) -> None:
    here.fault("hang_after", "PUT", CAMPAIGN)
    here.set("e1", status="cancelled")
    await here.until(lambda: bool(here.effects()), "it took effect, and no answer comes", 30)
    await here.restart()
    await here.run(30)
    assert told(here) == ["status active>cancelled", "campaign RUNNING>PAUSED ours"]


@in_town(world(happening("e1")), watched=6)
async def test_a_change_whose_record_could_not_be_stored_is_told_once_there_is_room(here: Town) -> None:
    disk = Disk(here, TELLS, full=True)
    await here.becomes("e1", 6, frontend_status="FLAGGED")
    await here.becomes("e1", 6, frontend_status="HIDDEN")
    assert disk.failed > 1
    assert told(here) == []
    disk.full = False
    await here.run(6)
    assert told(here) == ["frontend DEFAULT>FLAGGED", "frontend FLAGGED>HIDDEN"]


@in_town(world(happening("e1")), watched=6)
async def test_several_changes_whose_commit_seemed_to_fail_are_told_once(here: Town) -> None:
    """Two changes that wait for room are stored by a commit whose sync then fails; what came back was told twice."""
    disk = Disk(here, TELLS, full=True, unsure=1)
    for value in ("FLAGGED", "DEFAULT"):
        await here.becomes("e1", 6, frontend_status=value)
    disk.full = False
    await here.run(12)
    assert disk.unsure == 0
    await here.becomes("e1", 6, frontend_status="HIDDEN")
    assert told(here) == ["frontend DEFAULT>FLAGGED", "frontend FLAGGED>DEFAULT", "frontend DEFAULT>HIDDEN"]


@in_town(world(happening("e1")))
async def test_a_pause_that_somebody_took_back_unseen_is_not_the_author_of_the_next(here: Town) -> None:
    """It was confirmed before any list, its process died, and a person had the campaigns run again before the next one
    looked: that one saw no change. The person's pause, later, is the person's."""
    await paused_and_not_logged(here)
    here.set("e1", by="person", client_campaign_status="RUNNING")
    await here.restart()
    await here.run(40)
    await here.becomes("e1", 6, by="person", client_campaign_status="PAUSED")
    assert told(here)[1:] == ["campaign RUNNING>PAUSED ours", "campaign PAUSED>RUNNING", "campaign RUNNING>PAUSED"]


@in_town(world(happening("e1")), watched=6)
async def test_an_attempt_that_was_refused_made_nothing_so(here: Town) -> None:
    here.fault("answer_before", "PUT", CAMPAIGN, status=400)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["rejected"], "refused", 30)
    await here.becomes("e1", 6, by="person", client_campaign_status="PAUSED")
    assert told(here)[-1] == "campaign RUNNING>PAUSED"


@in_town(
    world(draft("e1", client_campaign_status="PAUSED"), draft("e2")), BOOST + PAUSE.replace("rules:", ""), watched=9
)
async def test_a_publish_and_what_comes_with_it_are_told_from_a_persons(here: Town) -> None:
    """The document says that the campaigns run once they are published (3.2)."""
    here.suggest("e1", 7)
    here.change("e2", by="person", setup={"state": "PUBLISHED"})
    await here.until(lambda: here.states() == ["confirmed"], "published", 60)
    await here.run(15)
    assert sorted(told(here, "e1")) == [
        "campaign PAUSED>RUNNING ours",
        "state DRAFT>PUBLISHED ours",
        (
            "suggested_tcs changed: gained [{'tc': 'cluster 7', 'tc_run_id': 7}], "
            "lost [{'tc': 'cluster 1', 'tc_run_id': 1}]"
        ),
    ]
    assert "state DRAFT>PUBLISHED" in told(here, "e2")


@in_town(world(happening("e1")), watched=6)
async def test_a_change_that_a_read_of_its_own_saw_first_is_in_the_log(here: Town) -> None:
    """While the list fails, the reads for evidence go on, and see what others do."""
    here.fault("answer_before", "PUT", CAMPAIGN, status=500)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["unknown"], "unknown", 30)
    here.fault("answer_before", "GET", "^/events/$", times=4, status=500)
    await here.becomes("e1", 60, by="person", frontend_status="FLAGGED")
    assert told(here) == ["status active>cancelled", "frontend DEFAULT>FLAGGED", "campaign RUNNING>PAUSED ours"]


A = """
rules:
  - id: a
    when: event.category == 'party' && event['mood'] == 'good' && event.special_ad_category == null
    do: [pause]
"""


@in_town(world(happening("e1")), A, watched=6)
async def test_a_field_that_only_one_rule_names_is_watched_too(here: Town) -> None:
    await here.becomes("e1", 6, category="party", title="Another title", mood="bad")
    await here.becomes("e1", 6, mood="so so", special_ad_category="politics")
    await here.becomes("e1", 6, special_ad_category=None)
    assert told(here) == [
        "category concert>party",
        "mood bad>so so",
        "special_ad_category None>politics",
        "special_ad_category politics>None",
    ], "and the title is nobody's business"


def lacks(here: Town, times: int = 100) -> None:
    """The list lacks the campaign's status for a while."""
    here.fault("missing_fields", "GET", "/events/$", fields=["items.client_campaign_status"], times=times)


@pytest.mark.parametrize("restarted", [False, True])
@in_town(world(happening("e1")), PAUSE + PARTIES, watched=6)
async def test_what_a_field_became_while_a_list_lacked_it_is_told_when_read(here: Town, restarted: bool) -> None:
    """What it was before is in the trail: of two changes ago, since the last was that it was lacking."""
    lacks(here)
    await here.run(4)
    here.set("e1", category="party")  # another change meanwhile, which is told at once
    await here.becomes("e1", 6, by="person", client_campaign_status="PAUSED")
    if restarted:
        await here.restart()
        await here.run(9)
    assert [one for one in told(here) if "campaign" in one] == []
    here.twin.faults.clear()
    await here.run(6)
    once = "campaign RUNNING>PAUSED"
    assert [one for one in told(here) if "campaign" in one] == [once], here.story()
    await here.run(9)
    assert [one for one in told(here) if "campaign" in one] == [once]


@in_town(world(happening("e1")), watched=6)
async def test_a_field_that_comes_back_as_it_was_has_not_changed(here: Town) -> None:
    lacks(here, times=2)
    await here.run(12)
    assert told(here) == []


@pytest.mark.parametrize("stored", [False, True])
@in_town(world(happening("e1")), watched=6)
async def test_what_a_field_was_outlives_a_commit_that_fails_while_it_is_lacking(here: Town, stored: bool) -> None:
    """Also one that was reported as failed, and is there all the same."""
    disk = Disk(here, TELLS, full=not stored, unsure=99 if stored else 0)
    lacks(here, times=3)
    await here.becomes("e1", 6, frontend_status="FLAGGED")
    assert disk.failed
    disk.full, disk.unsure = False, 0
    await here.becomes("e1", 9, by="person", client_campaign_status="PAUSED")
    assert told(here) == ["frontend DEFAULT>FLAGGED", "campaign RUNNING>PAUSED"], here.story()


@in_town(world(draft("e1")), BOOST, watched=9)
async def test_what_nobody_reads_for_a_while_is_what_it_was_when_it_was_read_last(here: Town) -> None:
    """While no rule wants the setup of an idle event, nobody reads it."""
    becomes(here, "PUBLISHED")
    await here.run(9)
    published = "state DRAFT>PUBLISHED"
    assert told(here) == [published], here.story()
    await here.becomes("e1", 9, status="idle")
    becomes(here, "DRAFT")
    await here.becomes("e1", 15, status="active")
    assert told(here) == [published, "status active>idle", "status idle>active", "state PUBLISHED>DRAFT"], here.story()


@pytest.mark.parametrize("restarted", [False, True])
@in_town(world(draft("e1")), "rules:\n  - id: never\n    when: setup.state == 'NEVER'\n    do: [pause]\n", watched=15)
async def test_what_a_setup_became_while_it_could_not_be_read_is_told_once_it_can(here: Town, restarted: bool) -> None:
    here.fault("answer_before", "GET", "/setup", times=1000, status=403)
    await here.run(60)
    if restarted:
        await here.kill()
    becomes(here, "PUBLISHED")
    here.twin.faults.clear()
    if restarted:
        here.start()
    await here.run(60)
    assert told(here) == ["state DRAFT>PUBLISHED"], here.story()


EVENTS = [f"e{number}" for number in range(1, 9)]


@pytest.mark.parametrize("restarted", [False, True])
@in_town(world(*map(happening, EVENTS)), watched=9)
async def test_what_another_event_had_under_its_id_is_not_what_this_one_was(here: Town, restarted: bool) -> None:
    """A reset gives the ids to other events, whose campaign's status the list then lacks."""
    lacks(here, times=1000)
    for event in EVENTS:
        here.set(event, title=f"not {event}", start_date_time="2027-01-01T00:00:00Z", client_campaign_status="PAUSED")
    await here.run(9)
    assert [record["reason"] for record in here.log("observed")] == ["reset"]
    if restarted:
        await here.restart()
        await here.run(6)
    here.twin.faults.clear()
    await here.run(9)
    assert [record["reason"] for record in here.log("observed")] == ["reset"], here.story()


@in_town(world(happening("e1")), watched=6)
async def test_a_commit_that_fails_after_one_that_only_seemed_to_makes_nothing_told_again(here: Town) -> None:
    disk = Disk(here, TELLS, unsure=1)
    await here.becomes("e1", 3, frontend_status="FLAGGED")
    disk.full = True
    await here.becomes("e1", 6, frontend_status="HIDDEN")
    disk.full = False
    await here.run(9)
    assert disk.failed == 3
    assert told(here) == ["frontend DEFAULT>FLAGGED", "frontend FLAGGED>HIDDEN"], here.story()


@pytest.mark.parametrize("flips", [14, 16, 18])
@in_town(world(happening("e1")), watched=6)
async def test_more_changes_than_are_kept_do_not_hide_the_newest(here: Town, flips: int) -> None:
    """All of them are stored at last by a commit that seems to fail, and then comes one more."""
    disk = Disk(here, TELLS, full=True, unsure=1)
    for number in range(flips):
        await here.becomes("e1", 3, frontend_status=("FLAGGED", "DEFAULT")[number % 2])
    disk.full = False
    await here.until(lambda: disk.unsure == 0, "stored, and it seemed to fail", 120)
    await here.becomes("e1", 12, frontend_status="HIDDEN")
    assert told(here)[-1] == "frontend DEFAULT>HIDDEN"
    assert len(set(told(here)[-2:])) == 2, here.story()


@in_town(world(happening("e1")), watched=6)
async def test_a_write_its_undo_and_the_next_are_all_ours(here: Town) -> None:
    here.set("e1", status="cancelled")
    for number in (1, 2, 3):
        await here.until(lambda number=number: here.states() == ["confirmed"] * number, "done", 60)  # type: ignore[misc]
        if number < 3:
            undo(here, number)
    await here.run(9)
    assert told(here)[1:] == [
        "campaign RUNNING>PAUSED ours",
        "campaign PAUSED>RUNNING ours",
        "campaign RUNNING>PAUSED ours",
    ], here.story()


@in_town(world(draft("e1")), BOOST + PAUSE.replace("rules:", ""), watched=9)
async def test_a_publish_is_no_author_of_a_later_start_that_another_process_sees(here: Town) -> None:
    """The campaigns ran when it was confirmed; a person paused them, and ran them again while the worker was down."""
    here.suggest("e1", 7)
    await here.until(lambda: here.states() == ["confirmed"], "published", 60)
    await here.run(15)
    await here.becomes("e1", 9, by="person", client_campaign_status="PAUSED")
    here.set("e1", by="person", client_campaign_status="RUNNING")
    await here.restart()
    await here.run(9)
    assert told(here)[-2:] == ["campaign RUNNING>PAUSED", "campaign PAUSED>RUNNING"], here.story()


BY_WHOM = """
rules:
  - id: unseen
    when: event.client_campaign_status == 'PAUSED' && set_by.client_campaign_status == 'unseen'
    do: [{notify: unseen}]
  - id: external
    when: event.client_campaign_status == 'PAUSED' && set_by.client_campaign_status == 'external'
    do: [{notify: external}]
"""


@in_town(world(happening("e1")), BY_WHOM, watched=6)
async def test_a_change_that_the_first_poll_of_a_process_sees_is_seen(here: Town) -> None:
    here.set("e1", client_campaign_status="PAUSED")
    await here.restart()
    await here.run(9)
    assert here.texts == ["external"]
