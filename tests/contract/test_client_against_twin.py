"""The client against the embedded twin: two readings of one document, made apart, agree.

Each documented answer of the twin must come out as a whole fact, each write must land once in the twin's own books, and
what the twin counts as bad manners must never happen.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import httpx
import pytest

from tests.twin import BASE_URLS, TwinTransport
from tests.unit.reading.virtual import VirtualClock, no_chance
from tests.virtual import last
from worker.api.assumptions import Assumptions, assumptions_from
from worker.api.client import ApiService, ApiSettings
from worker.api.exchanges import ReadResponse
from worker.api.facts import FACT_SOURCES
from worker.api.requests import Account, Hosts
from worker.api.transport import Transports
from worker.engine.ports import Service as Port
from worker.model.exchange import Accepted, Listing, NotSent, Outcome, SecretValue, TaskState, Uncertain, Urgency
from worker.model.facts import CustomFact, EventId, Fact, FactKey, Known, PartnerId, Scalar, Unknown
from worker.model.writes import Intent
from worker.reading.gate import Gate, Pacer
from worker.sandbox.faults import Fault, Kind, Match
from worker.sandbox.service import Twin
from worker.sandbox.settings import TwinSettings
from worker.sandbox.start import FIRST_PARTNER, SECOND_PARTNER, demo_world

FIRST = PartnerId(FIRST_PARTNER)
RUNNING = EventId("e1")
PARAMS: Mapping[str, tuple[tuple[str, Scalar], ...]] = {
    "suggested_tcs": (("budget", 500.0), ("goal", "ROAS")),
    "expected_value": (("budget", 500.0), ("goal", "ROAS")),
    "budget_range": (("runtime_in_days", 30),),
    "lookout_prediction": (("type", "capacity"),),
    "lookout_prediction_benchmark": (("type", "capacity"),),
    "daily_revenue_summary": (("currency", "EUR"), ("end_date", "2030-05-02"), ("start_date", "2030-05-01")),
    "call_to_action": (("goal", "ROAS"), ("has_pixel", "true"), ("lead_form_id", "")),
    "suggested_radius": (("distance_unit", "kilometer"), ("location", "Gent")),
}
FACTS = tuple(FACT_SOURCES)


class Meeting:
    """The client and the twin, on one clock."""

    def __init__(
        self,
        *,
        settings: TwinSettings | None = None,
        assumptions: Assumptions | None = None,
        faults: tuple[Fault, ...] = (),
        page_size: int = 5,
        facts: Mapping[str, CustomFact] | None = None,
    ) -> None:
        self.clock = VirtualClock()
        world = demo_world(12, datetime(2030, 5, 1, tzinfo=UTC))
        self.twin = Twin(world, settings=settings, faults=faults, origin_s=0.0)
        self.pacer = Pacer(per_minute=600, clock=self.clock, chance=no_chance)
        self.gate: Gate[ReadResponse] = Gate(pacer=self.pacer, clock=self.clock, floor_s=3.0)
        transports = Transports(reads=self.transport, writes=self.transport)
        api = ApiService(
            settings=ApiSettings(
                hosts=Hosts(api=BASE_URLS["api"], cr=BASE_URLS["cr"], media=BASE_URLS["media"]),
                page_size=page_size,
                assumptions=assumptions or Assumptions(),
                facts=facts or {},
                transports=transports,
            ),
            account=Account(username=SecretValue("sandbox"), password=SecretValue("sandbox")),
            gate=self.gate,
            pacing=self.pacer,
            clock=self.clock,
            chance=no_chance,
        )
        self.api = api
        self.service: Port = api

    def transport(self) -> httpx.AsyncBaseTransport:
        return TwinTransport(self.twin, clock=self.clock.monotonic, sleep=self.clock.sleep)

    async def read(self, name: str, event: EventId = RUNNING) -> Fact:
        key = FactKey(name=name, params=PARAMS.get(name, ()))
        return await self.service.read(FIRST, event, key, urgency=Urgency.FACT)

    async def send(self, action: str, value: str = "", *, event: EventId = RUNNING, item: str = "") -> Outcome:
        intent = Intent(action=action, target="t", wish="w", params={"value": value} if value else {})
        request = self.service.request_for(FIRST, event, intent, item)
        await self.service.ready_to_write(FIRST)
        return await self.service.send(FIRST, request, not_after=self.clock.monotonic() + 10)


def draft_of(meeting: Meeting) -> EventId:
    """An event of the demo with a draft."""
    listing = meeting.clock.run(last(meeting.service.listing(FIRST)))
    drafts = [
        eid
        for eid, fact in listing.events.items()
        if isinstance(fact.value, dict) and fact.value["campaign_status"] == "OPEN"
    ]
    return drafts[0]


def test_the_partners_are_the_twins() -> None:
    meeting = Meeting()

    assert meeting.clock.run(meeting.service.partners()) == (FIRST_PARTNER, SECOND_PARTNER)


@pytest.mark.parametrize("page_size", [1, 3, 5, 100])
def test_the_list_of_events_is_whole(page_size: int) -> None:
    meeting = Meeting(page_size=page_size)

    listing = meeting.clock.run(last(meeting.service.listing(FIRST)))

    assert listing.complete, listing.why
    assert len(listing.events) == 8
    assert not any(fact.gaps for fact in listing.events.values())


def test_every_fact_is_known_and_whole() -> None:
    meeting = Meeting()

    async def story() -> dict[str, Fact]:
        return {name: await meeting.read(name) for name in FACTS}

    facts = meeting.clock.run(story())

    assert [name for name, fact in facts.items() if not isinstance(fact, Known) or fact.gaps] == []
    assert meeting.twin.violations() == []


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("answer_before", "a status"),
        ("no_connection", "no connection"),
        ("cut_before", "cut"),
        ("cut_after", "cut"),
        ("cut_body", "cut in the body"),
        ("hang_before", "no answer"),
        ("garbage", "not JSON"),
        ("null_body", "null"),
        ("cut_json", "half of it"),
    ],
)
def test_every_spoilt_answer_is_unknown(kind: Kind, reason: str) -> None:
    meeting = Meeting(faults=(Fault(kind=kind, match=Match(method="GET"), times=None),))

    async def story() -> dict[str, Fact]:
        return {name: await meeting.read(name) for name in FACTS}

    facts = meeting.clock.run(story())

    assert [name for name, fact in facts.items() if not isinstance(fact, Unknown)] == [], reason


@pytest.mark.parametrize("kind", ["half_page", "reordered_pages", "answer_before", "garbage", "cut_body"])
def test_a_spoilt_list_is_never_whole(kind: Kind) -> None:
    meeting = Meeting(page_size=3, faults=(Fault(kind=kind, match=Match(method="GET", path="/events/$"), times=None),))

    listing = meeting.clock.run(last(meeting.service.listing(FIRST)))

    assert not listing.complete
    assert listing.why


def test_another_name_for_the_page_is_noticed_and_can_be_vouched_for() -> None:
    settings = TwinSettings(page_parameter="p")
    named, wrong = assumptions_from({"events.page_parameter": "p"})
    unsure, sure = Meeting(settings=settings), Meeting(settings=settings, assumptions=named)

    first: Listing = unsure.clock.run(last(unsure.service.listing(FIRST)))
    second: Listing = sure.clock.run(last(sure.service.listing(FIRST)))

    assert not wrong
    assert not first.complete
    assert "events.page_parameter" in first.why
    assert second.complete


@pytest.mark.parametrize(
    ("action", "item", "field", "value"),
    [
        ("pause", "", "client_campaign_status", "PAUSED"),
        ("optimisation", "", "campaign_optimisation_status", "OFF"),
        ("ad_optimisation", "", "ad_campaign_optimisation_status", "OFF"),
        ("frontend_status", "event", "frontend_status", "HIDDEN"),
    ],
)
def test_a_write_takes_effect_once_and_reads_show_it(action: str, item: str, field: str, value: str) -> None:
    meeting = Meeting()

    async def story() -> tuple[Outcome, Fact]:
        outcome = await meeting.send(action, value, item=item)
        await meeting.clock.sleep(10.0)
        return outcome, await meeting.read("event")

    outcome, fact = meeting.clock.run(story())

    assert isinstance(outcome, Accepted)
    assert isinstance(fact, Known)
    assert isinstance(fact.value, dict)
    assert fact.value[field] == value
    assert len(meeting.twin.books.effects) == 1


def test_a_draft_is_made_and_published() -> None:
    meeting = Meeting(settings=TwinSettings(reset_setup_result="none"))
    event = draft_of(meeting)

    async def story() -> tuple[Outcome, Fact]:
        outcome = await meeting.send("boost", event=event)
        return outcome, await meeting.read("setup", event)

    outcome, fact = meeting.clock.run(story())

    assert isinstance(outcome, Accepted)
    assert isinstance(fact, Known)
    assert isinstance(fact.value, dict)
    assert fact.value["state"] == "PUBLISHED"


def test_the_second_call_of_a_frontend_status_reaches_the_ingest_service() -> None:
    meeting = Meeting()

    outcome = meeting.clock.run(meeting.send("frontend_status", "CANCELLED", item="cr"))

    assert isinstance(outcome, Accepted)
    assert [(effect.operation, effect.after) for effect in meeting.twin.books.effects] == [
        ("last_updated_on_fe", "CANCELLED")
    ]


@pytest.mark.parametrize(
    ("kind", "expected", "effects"),
    [
        ("no_connection", NotSent, 0),
        ("answer_before", Uncertain, 0),
        ("answer_after", Uncertain, 1),
        ("cut_before", Uncertain, 0),
        ("cut_after", Uncertain, 1),
        ("cut_body", Uncertain, 1),
        ("hang_before", Uncertain, 0),
        ("hang_after", Uncertain, 1),
        ("late_effect", Uncertain, 0),
    ],
)
def test_a_write_that_goes_wrong_tells_no_more_than_is_known(kind: Kind, expected: type, effects: int) -> None:
    meeting = Meeting(faults=(Fault(kind=kind, match=Match(method="PUT")),))

    outcome = meeting.clock.run(meeting.send("pause"))

    assert isinstance(outcome, expected), kind
    assert len(meeting.twin.books.effects) == effects


def test_a_setup_that_is_gone_once_published_is_told_from_its_campaigns() -> None:
    absent, wrong = assumptions_from({"setup.after_publish": "absent"})
    meeting = Meeting(settings=TwinSettings(setup_after_publish="absent"), assumptions=absent)

    fact = meeting.clock.run(meeting.read("setup"))

    assert not wrong
    assert isinstance(fact, Known)
    assert fact.value == {"state": "PUBLISHED"}


def test_an_expired_token_is_renewed_and_the_read_repeated() -> None:
    meeting = Meeting(faults=(Fault(kind="expired_token", match=Match(method="GET"), skip=1, times=1),))

    async def story() -> list[Fact]:
        first = await meeting.read("event")
        await meeting.clock.sleep(60.0)
        return [first, await meeting.read("event")]

    assert all(isinstance(fact, Known) for fact in meeting.clock.run(story()))


def test_the_task_of_a_pause_is_read_to_its_end() -> None:
    meeting = Meeting()

    async def story() -> list[TaskState]:
        await meeting.send("pause")
        await meeting.clock.sleep(2.0)
        first = await meeting.service.task_state(FIRST, RUNNING)
        await meeting.clock.sleep(4.0)
        return [first, await meeting.service.task_state(FIRST, RUNNING)]

    assert [state.verdict for state in meeting.clock.run(story())] == ["running", "succeeded"]
    assert meeting.twin.violations() == []
