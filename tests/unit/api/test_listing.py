"""The list of events: any well-formed item is a fact, and absence means something only in a whole list."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.builders import cases
from tests.virtual import last
from worker.api import listing
from worker.api.exchanges import ReadResponse
from worker.api.listing import PAGES_MAX, EventLists, Query
from worker.model.exchange import Listing
from worker.model.facts import EVENT_FIELDS, EventId, Json, PartnerId, Trace

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LIMIT = 2
HALL = PartnerId("partner-id-hall")


def reply(content: Json, status: int | None = 200, *, denied: bool = False) -> ReadResponse:
    trace = Trace(get="/events/", status=status)
    why = "" if status == 200 else f"the service answered {status}"
    body = json.dumps(content).encode()
    return ReadResponse(status=status, read_at=NOW, trace=trace, body=body, why=why, denied=denied)


def envelope(ids: list[Json], page: Json, total: Json, limit: Json = LIMIT) -> dict[str, Json]:
    return {"total": total, "limit": limit, "page": page, "items": [{"id": eid} for eid in ids]}


def pages_of(ids: list[str], limit: int = LIMIT) -> Callable[[int], ReadResponse]:
    """A service that pages well."""

    def page(number: int) -> ReadResponse:
        part: list[Json] = list(ids[(number - 1) * limit : number * limit])
        return reply(envelope(part, number, len(ids), limit))

    return page


def lists(service: Callable[[int], ReadResponse], asked: list[int]) -> EventLists:
    async def ask(_partner: PartnerId, query: Query) -> ReadResponse:
        asked.append(int(dict(query).get("page", "1")))
        return service(asked[-1])

    return EventLists(ask=ask, page_size=LIMIT, page_parameter="page")


def listed(service: Callable[[int], ReadResponse]) -> tuple[Listing, list[int]]:
    asked: list[int] = []
    return asyncio.run(last(lists(service, asked).listing(HALL))), asked


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 11, 20])
def test_a_service_that_pages_well_gives_a_whole_list(count: int) -> None:
    ids = [f"e{number}" for number in range(count)]

    found, asked = listed(pages_of(ids))

    assert sorted(found.events) == sorted(ids)
    assert found.complete, found.why
    assert found.why == ""
    assert asked == list(range(1, max(1, -(-count // LIMIT)) + 1))


def test_the_page_count_follows_the_answers_limit_and_not_what_was_asked_for() -> None:
    found, asked = listed(pages_of(["e1", "e2", "e3"], limit=1))

    assert found.complete
    assert asked == [1, 2, 3]


TWO = envelope(["e1", "e2"], 1, 9)
"""The first of five pages: where the second is not one, no further page is worth a request, and there is none."""


@cases(
    "pages, words, events",
    ([envelope(["e1", "e2"], 1, 4), envelope(["e3", "e4"], 2, 5)], "changed while", 4, "one came in"),
    ([envelope(["e1", "e2"], 1, 4), envelope(["e3", "e4"], 2, 4, 3)], "changed while", 4, "other page size"),
    ([envelope(["e1", "e2"], 1, 4), envelope(["e2", "e3"], 2, 4)], "twice", 3, "one moved over the edge"),
    ([envelope(["e1", "e1"], 1, 2)], "twice", 1, "one twice on a page"),
    ([TWO, envelope(["e1", "e2"], 1, 9)], "events.page_parameter", 2, "the service does not know the parameter"),
    ([TWO, envelope(["e1", "e2"], 2, 9)], "events.page_parameter", 2, "the number is right, the events are not"),
    ([TWO, envelope(["e3", "e4"], 1, 9)], "events.page_parameter", 4, "the events are others, the number is not"),
    ([envelope(["e1", "e2"], 1, 4), envelope(["e3"], 2, 4)], "3 events where the total is 4", 3, "too few"),
    ([envelope(["e1", "e2", "e3"], 1, 2)], "3 events where the total is 2", 3, "too many"),
    ([envelope([], 1, 1)], "0 events where the total is 1", 0, "none where there is one"),
    ([envelope(["e1", None], 1, 2)], "item 2", 1, "an ill-formed item"),
    ([envelope(["e1"], 1, None)], "its total is None, and no number from 0 on", 1, "no total"),
    ([envelope(["e1"], 1, "3")], "its total is '3', and no number from 0 on", 1, "a total in a text"),
    ([envelope(["e1"], 1, 1.5)], "its total is 1.5, and no number from 0 on", 1, "no whole total"),
    ([envelope(["e1"], 1, 1, True)], "its limit is True, and no number from 1 on", 1, "a page size that is none"),
    ([envelope(["e1"], 1, 1, 0)], "its limit is 0, and no number from 1 on", 1, "no page size"),
    ([envelope(["e1"], None, 1)], "its page is None", 1, "no number"),
    ([envelope(["e1"], "1", 1)], "its page is '1', and no number", 1, "a text for a number"),
    ([envelope(["e1"], 0, 1)], "its page is 0", 1, "pages are counted from 1"),
    ([envelope(["e1"], 2, 1)], "page 1 calls itself 2; see the assumption", 1, "another page"),
    ([{**envelope(["e1"], 1, 1), "nextPage": 2}], "names a next page", 1, "the total counts the page alone"),
    ([{**envelope(["e1", "e2"], 1, 2), "pages": 2}, envelope(["e3"], 2, 2)], "the total is 2", 3, "the rest is read"),
    ([envelope(["e1"], 1, "many " * 10_000)], "total is 'many many", 1, "a text of any length, told briefly"),
)
def test_a_list_with_any_doubt_is_incomplete_and_its_events_are_facts_all_the_same(
    pages: list[Json], words: str, events: int
) -> None:
    found, _ = listed(lambda number: reply(pages[number - 1]))

    assert not found.complete
    assert words in found.why
    assert len(found.why) < 200
    assert len(found.events) == events


@cases(
    "answer, code, goes_on",
    (reply(None, 500), "unreadable", True, "one broken record must not hide all events behind it"),
    (reply("no page"), "malformed", True, "the same"),
    (reply([]), "malformed", True, "the same"),
    (reply({"total": 1}), "malformed", True, "the same"),
    (reply(None, None), "unreadable", False, "the service is not there"),
    (reply(None, 429), "unreadable", False, "it asks for patience"),
    (reply(None, 403, denied=True), "denied", False, "it refuses us"),
)
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_page_that_cannot_be_read_leaves_the_others_facts(
    answer: ReadResponse, code: str, goes_on: bool, failing: int
) -> None:
    good = pages_of([f"e{number}" for number in range(8)])

    found, asked = listed(lambda number: answer if number == failing else good(number))

    assert not found.complete
    assert found.code == code
    assert f"page {failing}" in found.why
    if failing == 1:
        assert asked == [1], "without the first, nobody knows how many there are"
    elif goes_on:
        assert (asked, len(found.events)) == ([1, 2, 3, 4], 6)
    elif failing == 2:
        assert (asked, len(found.events)) == ([1, 2], 2)


def test_a_list_without_end_is_cut() -> None:
    def endless(number: int) -> ReadResponse:
        return reply(envelope([f"e{number}"], number, 10**9, 1))

    found, asked = listed(endless)

    assert len(asked) == PAGES_MAX
    assert not found.complete
    assert "pages" in found.why


def test_a_list_of_large_pages_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "BYTES_MAX", 5 * len(reply(envelope(["e1"], 1, 10**9, 1)).body))
    found, asked = listed(lambda number: reply(envelope([f"e{number}"], number, 10**9, 1)))

    assert (len(asked), len(found.events)) == (6, 5)
    assert not found.complete
    assert "longer than" in found.why


def test_many_faults_are_told_briefly() -> None:
    found, _ = listed(lambda _: reply({"total": 20, "limit": 20, "page": 1, "items": [None] * 20}))

    assert "and 17 more" in found.why


WHOLE: dict[str, Json] = {"id": "e1", "status": "active", "capacity": 400, "mood": "good", "unheard_of": [1]}


def items(made: EventLists, needed: frozenset[str] | None = None) -> Json:
    return asyncio.run(last(made.listing(HALL, needed))).events[EventId("e1")].value


def test_an_item_has_the_fields_that_are_needed_as_soon_as_they_are() -> None:
    made = lists(lambda _: reply({"total": 1, "limit": 100, "page": 1, "items": [WHOLE]}), [])
    needed = frozenset(EVENT_FIELDS) | {"mood"}

    assert items(made, needed) == {name: value for name, value in WHOLE.items() if name != "unheard_of"}
    assert items(made, needed | {"unheard_of"}) == WHOLE
    assert items(made) == WHOLE


def test_a_page_that_is_what_it_was_is_not_read_again_and_another_one_is_never_old() -> None:
    said: list[Json] = ["good"]
    made = lists(lambda _: reply({"total": 1, "limit": 100, "page": 1, "items": [{**WHOLE, "mood": said[0]}]}), [])

    before = items(made)
    assert items(made) is before
    others: tuple[Json, ...] = (1, True, 1.0, "1", None, [1], [True], {"x": 0}, {"x": -0.0})
    for said[0] in others:
        now = items(made)
        assert isinstance(now, dict)
        assert repr(now["mood"]) == repr(said[0])
