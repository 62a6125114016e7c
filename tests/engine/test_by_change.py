"""Where the operator vouches that the list can be asked for what changed, a long list costs one request a look; and the
service's word is checked."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.virtual import EPOCH
from tests.worlds import PARTNER, QUICK, Script, Town, happening, town, world
from worker.engine.state import EVENT, PartnerState
from worker.model.exchange import Urgency
from worker.model.facts import EventId
from worker.rules.load import read_rules
from worker.sandbox.changes import EventChange
from worker.sandbox.settings import Settings as Twin

EVENTS = 200
SHORT = replace(QUICK, page_size=10, requests_per_minute=60, by_change=True)
"""Twenty pages: twenty seconds for one look at the whole list."""
ABLE = Twin(changed_since_parameter="updated_since", unix_time_of_zero=EPOCH.timestamp() - 1000.0)
"""The virtual clock of a town begins at second 1000."""


def play(tmp_path: Path, script: Script, twin: Twin = ABLE, value: str = "{value}") -> None:
    events = (happening(f"e{number:03}") for number in range(EVENTS))
    with town(tmp_path, world(*events), twin=twin, settings=SHORT) as (here, play_it):
        here.assumptions = {"events.changed_since": {"updated_since": value}}
        play_it(script)


def asked(here: Town) -> Counter[str]:
    """First pages of the list that were asked for: of the whole one, and of what changed."""
    found = [dict(one.query) for one in here.twin.books.requests if one.path.endswith("/events/")]
    return Counter("changed" if "updated_since" in query else "whole" for query in found if "page" not in query)


def state_of(here: Town) -> PartnerState:
    return here.worker.states[PARTNER]


def doubts(here: Town) -> list[str]:
    return [one["why"] for one in here.log("observed") if one["reason"] == "not_as_assumed"]


def test_a_cancelled_event_of_a_long_list_is_seen_in_the_next_look(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(60)
        before = asked(here)
        here.set("e177", status="cancelled")
        await here.run(8)
        assert here.states() == ["confirmed"], here.story()
        assert asked(here) - before == {"changed": 3}
        expected = state_of(here).expected
        assert expected is not None
        assert expected.of_list == 1.5

    play(tmp_path, script)


def test_the_whole_list_is_read_now_and_then_and_shows_what_has_vanished(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(60)
        before = asked(here)
        here.twin.change(EventChange(event="e007", partner=PARTNER, remove=True), here.loop.time())
        await here.run(900)
        assert "e007" in state_of(here).memory.gone
        now = asked(here) - before
        assert 1 <= now["whole"] <= 3, "twenty times as long as it takes lies between two"
        assert doubts(here) == []

    play(tmp_path, script)


def test_an_event_that_answers_404_by_itself_is_out_of_sight_although_no_short_answer_says_so(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(60)
        before = asked(here)
        here.twin.change(EventChange(event="e007", partner=PARTNER, remove=True), here.loop.time())
        fact = await here.worker.service.read(PARTNER, EventId("e007"), EVENT, urgency=Urgency.PREFLIGHT)
        state_of(here).observe(EventId("e007"), EVENT, fact)
        await here.run(12)
        assert "e007" in state_of(here).memory.gone
        assert asked(here) - before == {"changed": 4}

    play(tmp_path, script)


def test_a_service_that_hides_a_change_is_not_believed_any_more(tmp_path: Path) -> None:
    """Its clock stands an hour behind ours, so that what it calls changed since then is nothing."""

    async def script(here: Town) -> None:
        await here.run(60)
        here.set("e177", status="cancelled")
        await here.run(300)
        assert here.states() == [], "nothing shows it yet"
        await here.run(300)
        assert here.states() == ["confirmed"], "the whole list does"
        assert [why for why in doubts(here) if "1 events, as e177" in why] == doubts(here)
        assert len(doubts(here)) == 1
        before = asked(here)
        await here.run(100)
        assert (asked(here) - before)["changed"] == 0

    play(tmp_path, script, replace(ABLE, unix_time_of_zero=ABLE.unix_time_of_zero - 3600.0))


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_service_that_refuses_to_be_asked_so_is_asked_for_whole_lists(tmp_path: Path, status: int) -> None:
    async def script(here: Town) -> None:
        await here.run(60)
        here.set("e177", status="cancelled")
        await here.run(60)
        assert here.states() == ["confirmed"], here.story()
        said = f"the service answers {status} to ?updated_since="
        assert doubts(here) == [f"events.changed_since does not hold, and whole lists are read from now on: {said}"]

    play(tmp_path, script, replace(ABLE, invalid_status=status), value="since {value}")


def test_where_a_short_answer_fails_the_whole_list_is_read_next(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(60)
        before = asked(here)
        here.fault("answer_before", "GET", "/events/$", status=500, times=1)
        await here.run(60)
        assert (asked(here) - before)["whole"] == 1
        assert doubts(here) == []

    play(tmp_path, script)


def test_a_rule_that_looks_at_another_field_is_no_doubt_of_the_service(tmp_path: Path) -> None:
    """What the list was known by lacks that field, of every event; that does not mean that they have all changed."""

    async def script(here: Town) -> None:
        await here.run(60)
        here.set("e101", mood="glad")
        await here.run(8)
        naming = "rules:\n  - {id: r, when: \"event['mood'] == 'glad'\", do: [pause]}\n"
        here.rules.current = read_rules({"rules.yaml": naming}).rules
        await here.run(60)
        assert [write.key.event for write in here.writes()] == ["e101"], here.story()
        here.set("e102", mood="glad")
        await here.run(8)
        assert [write.key.event for write in here.writes()] == ["e101", "e102"], here.story()
        before = asked(here)
        await here.run(400)
        assert doubts(here) == []
        assert (asked(here) - before)["changed"] > 60

    play(tmp_path, script)


def test_rules_that_were_edited_there_and_back_are_judged_by_a_whole_list(tmp_path: Path) -> None:
    """The list in between was read for other fields and failed half way; what it showed lacks the field again."""

    async def script(here: Town) -> None:
        text = "rules:\n  - {id: r, when: \"event['mood'] == 'glad'\", do: [pause]}\n"
        naming = read_rules({"rules.yaml": text}).rules
        plain, here.rules.current = here.rules.current, naming
        await here.run(60)
        here.rules.current = plain
        here.fault("answer_before", "GET", "/events/$", status=500, skip=5, times=40)
        here.reports.append(await here.worker.cycle.run(state_of(here)))
        assert not here.reports[-1].complete
        here.twin.faults.clear()
        here.rules.current = naming
        before = asked(here)
        await here.run(60)
        assert (asked(here) - before)["whole"] == 1
        assert state_of(here).lacking == set()

    play(tmp_path, script)
