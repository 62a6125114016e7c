"""`probe` names every difference that reading can show, in whatever dialect the service speaks, and writes nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import httpx
import pytest

from tests.builders import cases
from tests.contract.test_client_against_twin import FIRST, Meeting
from tests.unit.api.world import assumed
from worker.api.assumptions import Assumptions
from worker.api.probe import JUDGES, AssumptionFinding, Probed, Sights, findings, probed
from worker.model.errors import NotFound
from worker.model.facts import Json
from worker.sandbox.faults import Fault, Match
from worker.sandbox.settings import TwinSettings, changed_settings
from worker.sandbox.start import dialects

OTHERS = sorted(set(dialects()) - {"standard"})
READABLE = frozenset(JUDGES)


def told_by(dialect: str) -> Assumptions:
    return assumed(**cast("dict[str, Json]", dialects()[dialect].tells))


def probe(meeting: Meeting, assumptions: Assumptions | None = None, only: str = "") -> Probed:
    return meeting.clock.run(probed(meeting.api, meeting.clock, assumptions or Assumptions(), settle="2m", only=only))


def says(found: Probed, word: str) -> dict[str, Json]:
    return {one.key: one.value for one in found.findings if one.says == word}


def meeting_in(dialect: str, assumptions: Assumptions | None = None, **changes: Json) -> Meeting:
    settings = changed_settings(TwinSettings(), {**dialects()[dialect].settings, **changes})
    return Meeting(settings=settings, assumptions=assumptions or Assumptions(), page_size=100)


def test_the_standard_dialect_confirms_all_that_reading_can_show() -> None:
    meeting = meeting_in("standard")

    found = probe(meeting)

    assert set(says(found, "confirmed")) == READABLE
    assert set(says(found, "refuted")) == set()
    assert [one.resource for one in found.resources if one.why or one.gaps] == []
    assert found.partners == ("partner-id-aurora-live", "partner-id-harbour-hall")


@pytest.mark.parametrize("dialect", OTHERS)
def test_every_difference_of_a_dialect_is_named_with_the_line_to_write(dialect: str) -> None:
    tells = dialects()[dialect].tells
    wrong = {key: value for key, value in tells.items() if key in READABLE and key != "auth.refresh"}

    found = probe(meeting_in(dialect))

    assert says(found, "refuted") == wrong
    unseen = set(says(found, "cannot be seen by reading")) & READABLE
    assert unseen == ({"setup.published"} if "setup.after_publish" in tells else set()), "gone once published"
    assert all(one.line is not None for one in found.findings)


@pytest.mark.parametrize("dialect", OTHERS)
def test_once_the_config_says_so_a_dialect_has_nothing_to_refute(dialect: str) -> None:
    assumptions = told_by(dialect)
    meeting = meeting_in(dialect, assumptions)

    found = probe(meeting, assumptions)

    assert says(found, "refuted") == {}
    assert [one.resource for one in found.resources if one.why or one.gaps] == []


@pytest.mark.parametrize("dialect", sorted(dialects()))
def test_a_probe_writes_nothing_and_keeps_its_manners(dialect: str) -> None:
    meeting = meeting_in(dialect)

    probe(meeting)

    requests = meeting.twin.books.requests
    assert {seen.method for seen in requests if seen.path != "/auth"} == {"GET"}
    assert not any("task" in seen.path for seen in requests)
    assert meeting.twin.books.effects == []
    assert meeting.twin.violations() == []
    assert sum(seen.path == "/auth" for seen in requests) == 1


def finding(found: Probed, key: str) -> AssumptionFinding:
    return next(one for one in found.findings if one.key == key)


def test_a_refresh_that_the_operator_vouches_for_is_tried() -> None:
    renew: Json = {"path": "/auth/renew", "body": {"t": "{refresh_token}"}}
    right, wrong = told_by("terse"), assumed(auth__refresh=renew)

    works = finding(probe(meeting_in("terse", right), right), "auth.refresh")
    fails = finding(probe(meeting_in("terse", wrong), wrong), "auth.refresh")

    assert works.says == "confirmed"
    assert (fails.says, fails.value) == ("refuted", None)
    assert "404" in fails.seen


def test_a_refresh_that_fails_just_then_is_not_proposed_to_be_left_out() -> None:
    right, meeting = told_by("terse"), meeting_in("terse", told_by("terse"))
    at = Match(method="POST", path="^/auth/.")
    meeting.twin.faults.add(Fault(kind="answer_before", match=at, params={"status": 503}))

    found = finding(probe(meeting, right), "auth.refresh")

    assert (found.says, found.seen) == ("cannot be seen by reading", "the service answered 503")


def test_a_service_whose_pages_cannot_be_found_is_refuted_without_a_line() -> None:
    found = finding(probe(meeting_in("standard", page_parameter="Seite")), "events.page_parameter")

    assert (found.says, found.line) == ("refuted", None)
    assert "page, page_number" in found.seen


def test_a_status_that_may_hide_an_effect_is_never_proposed_as_a_denial() -> None:
    found = finding(probe(meeting_in("standard", denied_token_status=409)), "auth.denied")

    assert (found.says, found.line) == ("refuted", None)


@pytest.mark.parametrize("status", [429, 503])
def test_a_page_that_cannot_be_read_refutes_nothing(status: int) -> None:
    meeting = meeting_in("standard")
    lists = Match(method="GET", path="/events/$")
    params: dict[str, Json] = {"status": status, "retry_after": 1}
    meeting.twin.faults.add(Fault(kind="answer_before", match=lists, skip=2, times=None, params=params))

    found = finding(probe(meeting), "events.page_parameter")

    assert (found.says, found.seen) == ("cannot be seen by reading", "page 2 could not be read")


def test_what_cannot_be_read_is_unseen_and_says_so() -> None:
    meeting = meeting_in("standard")
    meeting.twin.faults.add(Fault(kind="answer_before", match=Match(method="GET"), times=None, params={"status": 503}))

    found = probe(meeting)

    assert says(found, "refuted") == {}
    assert set(says(found, "confirmed")) == {"auth.refresh"}, "it needs nothing of it"
    assert all(one.why for one in found.resources)


def test_what_one_page_and_empty_lists_cannot_show_is_not_told_as_unread() -> None:
    meeting = meeting_in("standard", denied_token_status=404)
    order = meeting.twin.world.order(FIRST)
    for eid in order[1:]:
        meeting.twin.world.put(FIRST, eid, None, 0.0)
    alone = meeting.twin.world.at(FIRST, order[0])
    assert alone is not None
    meeting.twin.world.put(FIRST, order[0], replace(alone, campaigns=()), 0.0)

    found = probe(meeting, only=FIRST)

    keys = ("events.page_parameter", "campaigns.items", "auth.denied")
    seen = {key: finding(found, key).seen for key in keys}
    assert seen["events.page_parameter"] == "1 events make only one page"
    assert seen["campaigns.items"] == "every list that was read is empty"
    assert seen["auth.denied"].startswith("a made-up token: 404")


def test_one_partner_can_be_asked_alone_and_must_be_known() -> None:
    found = probe(meeting_in("standard"), only="partner-id-harbour-hall")

    assert {one.partner for one in found.resources} == {"partner-id-harbour-hall"}
    with pytest.raises(NotFound, match="does not name partner-id-x"):
        probe(meeting_in("standard"), only="partner-id-x")


def test_a_second_partner_is_asked_for_what_the_first_cannot_show() -> None:
    """A partner without events shows no pages, no setups and no campaigns."""
    meeting = meeting_in("standard")
    for eid in meeting.twin.world.order(FIRST):
        meeting.twin.world.put(FIRST, eid, None, 0.0)

    found = probe(meeting)

    assert set(says(found, "confirmed")) == READABLE
    assert {one.partner for one in found.resources} == set(found.partners)


@cases(
    "answer, line",
    ({"adplatform": {"is_connected": True}}, "adplatform.is_connected", "its name says so"),
    ({"status": "CONNECTED"}, "status == 'CONNECTED'", "a word says so"),
    ({"status": "CONNECTED", "beta": False}, "status == 'CONNECTED'", "the one that is true or false is another"),
    ({"status": "DISCONNECTED", "is_admin": True}, None, "nobody knows the word for connected, nor the name"),
    ({"disconnected": True}, None, "it says the opposite"),
)
def test_whether_the_ad_platform_is_connected_is_told_by_what_says_so(answer: Json, line: str | None) -> None:
    (found,) = (
        one for one in findings(Sights(adplatform=answer), Assumptions(), "2m") if one.key == "adplatform.connected"
    )
    assert (found.says, found.value) == ("refuted", line)
    assert ("stands at" in found.seen) == (line == "adplatform.is_connected")


class Proxied(Meeting):
    """What stands between adds headers of its own."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.headers = headers
        super().__init__(page_size=100)

    def transport(self) -> httpx.AsyncBaseTransport:
        inner, headers = super().transport(), self.headers

        class Adding(httpx.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
                answer = await inner.handle_async_request(request)
                answer.headers.update(headers)
                return answer

        return Adding()


@cases(
    "headers, proxied",
    ({"Server": "nginx/1.25.3"}, {"server": "nginx/1.25.3"}, "a server"),
    ({"Via": "1.1 edge", "X-Cache": "MISS"}, {"via": "1.1 edge", "x-cache": "MISS"}, "a cache"),
    ({"Age": "0"}, {"age": "0"}, "a store"),
    ({"Server": "istio-envoy", "CF-Ray": "1"}, {"server": "istio-envoy", "cf-ray": "1"}, "a mesh"),
    ({"Server": "uvicorn"}, {}, "no proxy"),
    ({}, {}, "nothing"),
)
def test_a_proxy_that_shows_itself_is_named(headers: dict[str, str], proxied: dict[str, str]) -> None:
    assert probe(Proxied(headers)).proxied == proxied
