"""Odd worlds: long lists, short tokens, bad answers, events that come and go, interference; and defects of our own."""

from collections.abc import Callable
from types import ModuleType

import pytest

from tests.worlds import BOOST, MINUTE, PARTNER, PAUSE, Town, draft, happening, in_town, several, world
from worker.api.client import ApiService
from worker.engine import observe
from worker.engine.decide import _Pass
from worker.engine.state import Stored
from worker.sandbox.faults import Kind
from worker.sandbox.settings import TwinSettings


@in_town(
    world(*several(happening, 250, first=0)),
    twin=TwinSettings(page_parameter="seite"),
    assumptions={"events.page_parameter": "seite"},
)
async def test_250_events_over_several_pages_under_another_page_parameter(here: Town) -> None:
    await here.run(10)
    assert here.reports[-1].events == 250
    here.set("e249", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"], "an event of the last page is paused")


@in_town(world(*several(happening, 250, first=0)), twin=TwinSettings(page_parameter="seite"), watched=10)
async def test_a_wrong_page_parameter_is_an_error_that_names_paging_and_never_a_short_list(here: Town) -> None:
    report = here.reports[-1]
    assert not report.complete
    assert "events.page_parameter" in (report.error or "")
    shown = min(here.worker.states[PARTNER].facts)
    here.set(shown, status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"], "what the first page shows is acted on all the same")


@in_town(world(happening("e1")), twin=TwinSettings(token_lifetime_s=8.0), watched=30)
async def test_a_token_that_lives_eight_seconds_is_renewed_in_time_and_nothing_fails(here: Town) -> None:
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"], "the pause is confirmed")
    await here.run(30)
    assert [one.error for one in here.reports if one.error] == []
    refused = [one for one in here.twin.books.requests if one.status in (401, 403)]
    assert refused == [], "a token is renewed before it ends"


BAD: list[tuple[Kind, str, dict[str, object], str]] = [
    ("garbage", "^/events/$", {}, "HTML instead of a list"),
    ("null_body", "^/events/$", {}, "null"),
    ("cut_json", "^/events/$", {}, "JSON that breaks off"),
    ("missing_fields", "^/events/$", {"fields": ["items.status", "items.frontend_status"]}, "events without a status"),
    ("wrong_types", "^/events/$", {"fields": {"items.status": 7, "items.frontend_status": None}}, "ill-typed statuses"),
    ("wrong_types", "^/events/$", {"fields": {"items.status": "postponed"}}, "a value that the document does not name"),
    ("half_page", "^/events/$", {}, "half a page"),
    ("vanish", "^/events/$", {"eid": "e2"}, "an event that is missing from the list"),
    ("garbage", "/setup_processes/", {}, "HTML instead of a setup"),
    ("null_body", "/suggested_tcs$", {}, "null instead of clusters"),
    ("answer_before", "^/events/$", {"status": 500}, "a list that fails"),
    ("cut_before", "^/events/$", {}, "a list that breaks off"),
]


@pytest.mark.parametrize(("kind", "path", "params", "reason"), BAD, ids=[f"{one[0]} {one[3]}" for one in BAD])
@in_town(world(draft("e1"), draft("e2"), happening("e3")), PAUSE + BOOST.removeprefix("\nrules:\n"), watched=15)
async def test_bad_answers_fire_and_stop_nothing(
    here: Town, kind: Kind, path: str, params: dict[str, object], reason: str
) -> None:
    here.fault(kind, "GET", path, times=8, **params)
    await here.run(30)
    assert here.writes() == [], reason
    await here.run(60)
    assert here.writes() == [], f"{reason}, and afterwards"
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"], f"{reason}: the worker goes on")


@in_town(world(happening("e1")), BOOST, watched=15)
async def test_a_setup_that_appears_days_after_a_change_does_not_fire_it(here: Town) -> None:
    here.suggest("e1", 2)
    await here.run(2 * MINUTE)
    assert here.writes() == [], "there is no draft to boost"
    setup = {"goal": "ROAS", "total_budget": 500}
    here.loop.jump(20 * MINUTE)
    await here.run(30)
    here.change("e1", setup=setup)
    await here.run(2 * MINUTE)
    assert here.writes() == [], "the value seen with the draft is the new baseline"
    here.suggest("e1", 3)
    await here.until(lambda: here.states() == ["confirmed"], "the next change fires")


@in_town(world(happening("e1"), happening("e2")), watched=10)
async def test_an_event_that_answers_404_is_frozen_and_its_return_waits_for_a_person(here: Town) -> None:
    here.change("e1", remove=True)
    await here.run(30)
    back = happening("e1", status="cancelled")
    here.change("e1", add=True, set=back.record)
    await here.run(60)
    assert [(one.state, one.reason) for one in here.writes()] == [("waiting", "gap")]
    assert here.effects() == []


@in_town(world(*several(happening, 7)), watched=10)
async def test_a_storm_of_429_slows_everything_and_ends_with_every_write_done_once(here: Town) -> None:
    for number in range(1, 6):
        here.set(f"e{number}", status="cancelled")
    here.fault("storm", None, None, for_s=30)
    await here.until(lambda: here.states() == ["confirmed"] * 5, "all are paused")
    assert here.twin.books.summary()["repeated"] == 0


BROKEN = "e2"


def broken(sound: Callable[..., object]) -> Callable[..., object]:
    """The same function, which fails at one event."""

    def failing(*given: object, **more: object) -> object:
        if BROKEN in (one[0] if isinstance(one, tuple) else getattr(one, "event", one) for one in given):
            raise KeyError("nobody thought of it")
        return sound(*given, **more)

    return failing


@pytest.mark.parametrize(("of", "name"), [(_Pass, "_result"), (_Pass, "event"), (Stored, "_changes")])
@in_town(world(*several(happening, 5, first=0)), PAUSE, watched=10)
async def test_beside_an_event_that_cannot_be_decided_on_a_dead_one_is_paused(
    here: Town, monkeypatch: pytest.MonkeyPatch, of: type, name: str
) -> None:
    told, here.worker.defects = here.worker.defects, []
    (state,) = here.worker.states.values()
    with monkeypatch.context() as patch:
        patch.setattr(of, name, broken(getattr(of, name)))
        for event in ("e1", BROKEN, "e3"):
            here.set(event, status="cancelled")
        await here.until(lambda: here.states() == ["confirmed"] * 2, "the others are paused")
        await here.run(10)
        assert {write.key.event for write in here.writes()} == {"e1", "e3"}
        assert [one for one, _ in told] == [{"partner": PARTNER, "event": BROKEN}], "once"
        assert state.last_error == here.reports[-1].error == "event e2: KeyError('nobody thought of it')"
        assert {one["event"] for one in here.log("observed")} == {"e1", "e3"}, "it is no fact yet"
    await here.until(lambda: here.states() == ["confirmed"] * 3, "and nothing was lost")
    await here.run(6)
    assert [one.error for one in here.reports[-2:]] == [None, None]
    assert BROKEN in {one["event"] for one in here.log("observed")}


@pytest.mark.parametrize(("of", "name"), [(ApiService, "read"), (observe, "wanted_keys")])
@in_town(world(*several(draft, 5, first=0)), BOOST, watched=10)
async def test_beside_an_event_whose_facts_cannot_be_had_another_is_boosted(
    here: Town, monkeypatch: pytest.MonkeyPatch, of: type | ModuleType, name: str
) -> None:
    told, here.worker.defects = here.worker.defects, []
    with monkeypatch.context() as patch:
        patch.setattr(of, name, broken(getattr(of, name)))
        for event in ("e1", BROKEN, "e3"):
            here.set(event, title="Another")
            here.suggest(event, 2)
        await here.until(lambda: here.states() == ["confirmed"] * 2, "the others are boosted")
        await here.run(10)
        assert [one for one, _ in told] == [{"partner": PARTNER, "event": BROKEN}], "once"
    await here.until(lambda: here.states() == ["confirmed"] * 3, "and nothing was lost")
