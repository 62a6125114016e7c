"""The client against the embedded twin: two readings of one document, made apart, agree.

Each documented answer of the twin must come out as a whole fact, each write must land once in the twin's own books, and
what the twin counts as bad manners must never happen.
"""

from datetime import UTC, datetime

import httpx
import pytest

from tests.contract.malformed import key_of
from tests.twin import BASE_URLS, TwinTransport
from tests.unit.api.world import FLOOR_S, World
from tests.unit.reading.virtual import stories_in
from tests.virtual import last
from worker.api.facts import FACT_SOURCES
from worker.api.requests import Hosts
from worker.model.exchange import Outcome
from worker.model.facts import EventId, Fact, PartnerId
from worker.model.writes import Intent
from worker.sandbox.service import Twin
from worker.sandbox.settings import TwinSettings
from worker.sandbox.start import FIRST_PARTNER, demo_world

FIRST = PartnerId(FIRST_PARTNER)
RUNNING = EventId("e1")
FACTS = tuple(FACT_SOURCES)


class Meeting(World):
    """The client and the twin, on one clock."""

    def __init__(self, *, settings: TwinSettings | None = None, page_size: int = 5, **changes: object) -> None:
        super().__init__(
            quiet_s=FLOOR_S,
            user=("sandbox", "sandbox"),
            hosts=Hosts(api=BASE_URLS["api"], cr=BASE_URLS["cr"], media=BASE_URLS["media"]),
            page_size=page_size,
            **changes,  # type: ignore[arg-type]  # fields of ApiSettings
        )
        world = demo_world(12, datetime(2030, 5, 1, tzinfo=UTC))
        self.twin = Twin(world, settings=settings, origin_s=0.0)

    def transport(self) -> httpx.AsyncBaseTransport:
        return TwinTransport(self.twin, clock=self.clock.monotonic, sleep=self.clock.sleep)

    async def fact(self, name: str) -> Fact:
        return await self.read(name, partner=FIRST, event=RUNNING, params=key_of(name).params)

    async def send(self, action: str, value: str = "", *, item: str = "") -> Outcome:
        intent = Intent(action=action, target="t", wish="w", params={"value": value} if value else {})
        request = self.service.request_for(FIRST, RUNNING, intent, item)
        await self.service.ready_to_write(FIRST)
        return await self.service.send(FIRST, request, not_after=self.clock.monotonic() + 10)


meeting_of = stories_in(Meeting)


@pytest.mark.parametrize("page_size", [1, 3, 5, 100])
def test_the_list_of_events_is_whole(page_size: int) -> None:
    meeting = Meeting(page_size=page_size)

    listing = meeting.clock.run(last(meeting.service.listing(FIRST)))

    assert listing.complete, listing.why
    assert len(listing.events) == 8
    assert not any(fact.gaps for fact in listing.events.values())


@meeting_of()
async def test_the_task_of_a_pause_is_read_to_its_end(meeting: Meeting) -> None:
    await meeting.send("pause")
    await meeting.clock.sleep(2.0)
    assert (await meeting.service.task_state(FIRST, RUNNING)).verdict == "running"
    await meeting.clock.sleep(4.0)
    assert (await meeting.service.task_state(FIRST, RUNNING)).verdict == "succeeded"
    assert meeting.twin.violations() == []
