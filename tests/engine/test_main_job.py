"""The main job, end to end in one process: events change, rules fire, writes are made once whatever is answered."""

from pathlib import Path

import pytest

from tests.worlds import BOOST, PAUSE, Town, draft, happening, in_town, plays, world


@in_town(world(happening("e1"), happening("e2")), PAUSE)
async def test_a_cancelled_event_is_paused_once_and_confirmed_by_reading(here: Town) -> None:
    await here.run(10)
    assert here.writes() == []
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"], "the pause is confirmed")
    await here.run(60)
    assert here.only.confirmed_by == "read"
    assert [one.operation for one in here.effects()] == ["set_client_campaign_status"]


@in_town(world(draft("e1")), BOOST)
async def test_a_draft_is_boosted_when_its_suggested_clusters_change(here: Town) -> None:
    await here.run(15)
    assert here.writes() == [], "the first value seen is the baseline"
    here.suggest("e1", 2)
    await here.until(lambda: here.states() == ["confirmed"], "the boost is confirmed")
    await here.run(30)
    assert len(here.effects("boost")) == 1


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        ("answer_after", 429, "a 429 that hid the effect is confirmed by reading"),
        ("answer_before", 429, "a 429 without effect is sent again once its absence is proved"),
        ("answer_after", 500, "so for 500"),
        ("answer_before", 503, "so for 503"),
        ("cut_after", None, "a connection cut after the effect"),
        ("cut_before", None, "a connection cut before the effect"),
        ("hang_after", None, "a time-out after the effect"),
        ("answer_after", 409, "a conflict that means nothing certain"),
        ("answer_after", 302, "a redirect is not followed"),
    ],
)
@pytest.mark.parametrize("action", ["pause", "boost"])
def test_an_ambiguous_answer_is_settled_by_reading_and_takes_effect_once(
    tmp_path: Path, kind: str, status: int | None, reason: str, action: str
) -> None:
    method, path = ("PUT", "/client_campaign_status$") if action == "pause" else ("POST", "/boost$")

    async def script(here: Town) -> None:
        await here.run(10)
        more = {} if status is None else {"status": status}
        here.fault(kind, method, path, **more)  # type: ignore[arg-type]
        if action == "pause":
            here.set("e1", status="cancelled")
        else:
            here.suggest("e1", 2)
        await here.until(lambda: here.states() == ["confirmed"], reason)
        await here.run(60)
        assert here.twin.books.summary()["repeated"] == 0, reason
        assert len(here.effects("boost" if action == "boost" else "set_client_campaign_status")) == 1, reason

    plays(script, tmp_path, world(draft("e1")), PAUSE if action == "pause" else BOOST)
