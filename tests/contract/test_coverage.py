"""docs/api-coverage.md is whole and true: no row is missing, and what it says is called is called.

Client and twin each have their own table of the document's rows, made apart; here they meet. Every claim of the page is
played: a fact's read arrives at its row of the twin, and so does every request of an action.
"""

import re

import pytest

from tests.contract.test_client_against_twin import FIRST, Meeting, meeting_of
from tests.reference import coverage
from worker.api.assumptions import ASSUMPTIONS, Assumptions
from worker.api.facts import FACT_SOURCES
from worker.api.probe import probed
from worker.model.actions import ACTIONS
from worker.model.endpoints import ENDPOINTS, Endpoint, row_of
from worker.model.exchange import Accepted, Urgency
from worker.model.facts import CustomFact, EventId, FactKey, Known, Unknown
from worker.sandbox.service import ROWS, Twin, find
from worker.sandbox.settings import TwinRequest

E1 = EventId("e1")
TEXT = coverage.FILE.read_text("utf-8")


def spelled(row: Endpoint) -> str:
    host = {"api": "", "cr": "[cr] ", "media": "[media] "}[row.host]
    return f"| {row.method or 'any method'} {host}`{row.path.replace('{rest}', '…')}` |"


def rows_asked(twin: Twin) -> set[Endpoint]:
    """The rows of the document that the twin's requests were for, by the twin's own table; none is for no row of it."""
    found: set[Endpoint] = set()
    for seen in twin.books.requests:
        if seen.path != "/auth":
            arrived, _ = find(TwinRequest(method=seen.method, host=seen.host, path=seen.path, query=seen.query))
            row = row_of(seen.method, arrived.path, seen.host)
            assert row is not None, seen
            found.add(row)
    return found


def test_the_page_is_what_the_code_says_now() -> None:
    assert coverage.text() == TEXT, "docs/api-coverage.md is stale: run `make docs`, and commit what it writes"


@pytest.mark.parametrize("row", ENDPOINTS, ids=lambda row: f"{row.method} {row.host} {row.path}")
def test_every_row_has_a_line_and_a_row_of_the_twin(row: Endpoint) -> None:
    assert TEXT.count(spelled(row)) == 1
    assert row.path == "/auth" or coverage.twin_row(row) is not None, "signing in has a door of its own at the twin"


def test_the_twin_has_no_row_that_the_document_lacks() -> None:
    known = [coverage.twin_row(row) for row in ENDPOINTS]

    assert [row.path for row in ROWS if row not in known] == []


def test_the_twin_never_calls_a_form_shown_that_the_document_leaves_open() -> None:
    wrong = [row.path for row in ENDPOINTS if "output" in row.open and (twin := coverage.twin_row(row)) and twin.shown]

    assert [path for path in wrong if path != "/campaign_results/"] == [], "its refusal is shown, its form is not"


@meeting_of()
async def test_every_fact_is_read_from_the_row_that_the_page_says(meeting: Meeting) -> None:
    for name in FACT_SOURCES:
        before = rows_asked(meeting.twin)
        fact = await meeting.fact(name)
        assert (isinstance(fact, Known), getattr(fact, "gaps", {})) == (True, {}), name
        new = rows_asked(meeting.twin) - before
        assert all(name in coverage.facts_of(row) for row in new), (name, new)

    said = {row for row in ENDPOINTS if coverage.facts_of(row)}
    assert (rows_asked(meeting.twin), meeting.twin.violations()) == (said, [])
    assert set(re.findall(r"fact `(\w+)`", TEXT)) == set(FACT_SOURCES)


@pytest.mark.parametrize("action", sorted(ACTIONS))
@meeting_of()
async def test_every_request_of_an_action_arrives_at_a_row_that_the_page_says(meeting: Meeting, action: str) -> None:
    for one in () if not ACTIONS[action].target else coverage.planned(action):
        request = meeting.service.request_for(FIRST, E1, one.intent, one.item)
        await meeting.service.send(FIRST, request, not_after=meeting.clock.monotonic() + 60)

    assert rows_asked(meeting.twin) == {row for row in ENDPOINTS if action in coverage.actions_of(row)}
    assert action in ("notify", "wait", "undo") or f"action `{action}`" in TEXT


BY_HAND = [row for row in ENDPOINTS if "action `write`" in coverage.called_by(row)]


@pytest.mark.parametrize("row", BY_HAND, ids=[f"{row.method} {row.path}" for row in BY_HAND])
@meeting_of()
async def test_a_row_without_an_action_of_its_own_is_reached_by_write(meeting: Meeting, row: Endpoint) -> None:
    one = coverage.by_hand(row)
    request = meeting.service.request_for(FIRST, E1, one.intent, one.item)
    outcome = await meeting.service.send(FIRST, request, not_after=meeting.clock.monotonic() + 60)

    assert rows_asked(meeting.twin) == {row}
    assert isinstance(outcome, Accepted), outcome


@meeting_of(page_size=100)
async def test_one_probe_reads_every_row_that_can_be_read(meeting: Meeting) -> None:
    unread = {path for _, path in coverage.FILES} | {"/events/{eid}/client_campaign_status/task"}

    await probed(meeting.api, meeting.clock, Assumptions(), settle="2m")

    assert rows_asked(meeting.twin) == {row for row in ENDPOINTS if row.method == "GET" and row.path not in unread}
    assert "a fact of the config |" not in TEXT, "every row that can be read has a fact, or is the worker's own"


@meeting_of(facts={"all": CustomFact(name="all", get="/campaign_results/", value="@")})
async def test_a_row_that_turns_partners_away_says_so_in_its_own_words(meeting: Meeting) -> None:
    fact = await meeting.service.read(FIRST, None, FactKey(name="all"), urgency=Urgency.FACT)

    assert isinstance(fact, Unknown)
    assert fact.code == "denied"
    assert "error.auth.not_authorized" in fact.why


def test_every_assumption_stands_beside_a_row() -> None:
    in_place_of_the_query = {"frontend_status.body", "last_updated_on_fe.body"}
    assert {key for key in ASSUMPTIONS if f"`{key}`" not in TEXT} - in_place_of_the_query == set(), (
        "it would lean on nothing"
    )
