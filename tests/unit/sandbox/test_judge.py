"""The built-in story tells a careful client from a blind one, by the books alone."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.sandbox.desk import Desk
from worker.sandbox.settings import TwinAnswer
from worker.sandbox.start import demo_story, demo_world

MOMENTS = 25
LOOK_S = 3.0


def stopped(desk: Desk, eid: str) -> bool:
    return bool(desk.read(f"/events/{eid}")["client_campaign_status"] == "PAUSED")


def watched(desk: Desk, may_send: Callable[[str, bool], bool]) -> None:
    """Looks every 3 s and pauses what is cancelled; `may_send` is told the event and whether a try is behind it."""
    tried: set[str] = set()
    done: set[str] = set()
    for _ in range(MOMENTS):
        desk.passes(LOOK_S)
        for event in desk.read("/events/")["items"]:
            eid = event["id"]
            over = "CANCELLED" in (event["status"].upper(), event["frontend_status"])
            if not over or eid in done or not may_send(eid, eid in tried):
                continue
            sent = desk.send("PUT", f"/events/{eid}/client_campaign_status?client_campaign_status=PAUSED")
            tried.add(eid)
            if isinstance(sent, TwinAnswer) and sent.status == 204:
                done.add(eid)


def telling() -> Desk:
    world = demo_world()
    return Desk(world=world, story=demo_story(world).steps)


def test_a_client_that_sends_again_blindly_is_found_out() -> None:
    desk = telling()
    watched(desk, lambda *_: True)

    assert [effect.eid for effect in desk.service.books.repeated] == ["e3"]


def test_a_client_that_looks_before_it_sends_again_repeats_nothing_and_misses_nothing() -> None:
    desk = telling()
    watched(desk, lambda eid, tried: not (tried and stopped(desk, eid)))

    assert desk.repeated == 0
    desk.passes(LOOK_S)
    assert all(stopped(desk, eid) for eid in ("e3", "e5", "e6"))
    assert desk.service.violations() == []
