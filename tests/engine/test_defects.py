"""A defect of this program at one event is told, and stops no other event of its partner."""

from collections.abc import Callable
from types import ModuleType

import pytest

from tests.worlds import BOOST, PARTNER, PAUSE, Town, draft, happening, in_town, world
from worker.api.client import ApiService
from worker.engine import observe
from worker.engine.decide import _Pass
from worker.engine.state import Stored

BAD = "e2"


def broken(sound: Callable[..., object]) -> Callable[..., object]:
    """The same function, which fails at one event."""

    def failing(*given: object, **more: object) -> object:
        if BAD in (one[0] if isinstance(one, tuple) else getattr(one, "event", one) for one in given):
            raise KeyError("nobody thought of it")
        return sound(*given, **more)

    return failing


@pytest.mark.parametrize(("of", "name"), [(_Pass, "_result"), (_Pass, "event"), (Stored, "_changes")])
@in_town(world(*(happening(f"e{number}") for number in range(5))), PAUSE)
async def test_beside_an_event_that_cannot_be_decided_on_a_dead_one_is_paused(
    here: Town, monkeypatch: pytest.MonkeyPatch, of: type, name: str
) -> None:
    await here.run(10)
    told, here.worker.defects = here.worker.defects, []
    (state,) = here.worker.states.values()
    with monkeypatch.context() as patch:
        patch.setattr(of, name, broken(getattr(of, name)))
        for event in ("e1", BAD, "e3"):
            here.set(event, status="cancelled")
        await here.until(lambda: here.states() == ["confirmed"] * 2, "the others are paused")
        await here.run(10)
        assert {write.key.event for write in here.writes()} == {"e1", "e3"}
        assert [one for one, _ in told] == [{"partner": PARTNER, "event": BAD}], "once"
        assert state.last_error == here.reports[-1].error == "event e2: KeyError('nobody thought of it')"
        assert {one["event"] for one in here.log("observed")} == {"e1", "e3"}, "it is no fact yet"
    await here.until(lambda: here.states() == ["confirmed"] * 3, "and nothing was lost")
    await here.run(6)
    assert [one.error for one in here.reports[-2:]] == [None, None]
    assert BAD in {one["event"] for one in here.log("observed")}


@pytest.mark.parametrize(("of", "name"), [(ApiService, "read"), (observe, "wanted_keys")])
@in_town(world(*(draft(f"e{number}") for number in range(5))), BOOST)
async def test_beside_an_event_whose_facts_cannot_be_had_another_is_boosted(
    here: Town, monkeypatch: pytest.MonkeyPatch, of: type | ModuleType, name: str
) -> None:
    await here.run(10)
    told, here.worker.defects = here.worker.defects, []
    with monkeypatch.context() as patch:
        patch.setattr(of, name, broken(getattr(of, name)))
        for event in ("e1", BAD, "e3"):
            here.set(event, title="Another")
            here.suggest(event, 2)
        await here.until(lambda: here.states() == ["confirmed"] * 2, "the others are boosted")
        await here.run(10)
        assert [one for one, _ in told] == [{"partner": PARTNER, "event": BAD}], "once"
    await here.until(lambda: here.states() == ["confirmed"] * 3, "and nothing was lost")
