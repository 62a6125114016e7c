"""The request of each write, to the letter; and that a name is one segment, whatever it holds."""

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import cases
from tests.unit.api.world import assumed
from worker.api import requests as addresses
from worker.api.requests import exact_url, segment, target_of, write_request
from worker.model.endpoints import endpoint, row_of
from worker.model.errors import UsageError
from worker.model.exchange import WriteRequest
from worker.model.facts import EventId, Json, PartnerId
from worker.model.writes import Intent

BASE = "https://api.example/api/v3"


def made(action: str, params: dict[str, Json] | None = None, item: str = "", **changes: Json) -> WriteRequest:
    intent = Intent(action=action, target="t", wish="w", params=params or {})
    return write_request(PartnerId("partner-id-x"), EventId("e 1"), intent, item, assumed(**changes))


@pytest.mark.parametrize(
    ("value", "told"),
    [("HIDDEN", "RUNNING"), ("FLAGGED", "RUNNING"), ("DEFAULT", "RUNNING"), ("CANCELLED", "CANCELLED")],
)
def test_a_frontend_status_is_told_to_the_ingest_service_in_its_own_words(value: str, told: str) -> None:
    request = made("frontend_status", {"value": value}, "cr")

    assert (request.host, request.method, request.query) == ("cr", "PUT", (("status", told),))


def test_all_that_a_campaign_is_to_have_goes_into_its_query() -> None:
    request = made("create_campaign", {"tc": "a/b", "tc_run_id": 7, "bid": 2.5, "on": True, "x": ["y", "z"]})

    target = "/campaigns/?eid=e%201&tc=a%2Fb&tc_run_id=7&bid=2.5&on=true&x=y&x=z"
    assert (request.method, target_of(request.path, request.query), request.body) == ("POST", target, None)


def test_what_a_rule_gives_stands_in_place_of_what_the_assumption_gives() -> None:
    """What was approved is sent, and not a second value beside it; what is filled in stays."""
    query: Json = {"of": "{eid}", "cluster": "{tc}", "run": "{tc_run_id}", "budget": "100", "kind": "new"}
    request = made("create_campaign", {"tc": "a", "tc_run_id": 7, "budget": 250.0}, create_campaign__query=query)
    assert request.query == (("of", "e 1"), ("cluster", "a"), ("run", "7"), ("kind", "new"), ("budget", "250"))


def test_a_request_made_by_hand_has_each_name_as_one_segment() -> None:
    request = made(
        "write",
        {
            "host": "media",
            "method": "PATCH",
            "path": "/a/{eid}/{partner_id}/ü/{client_id}/",
            "query": {"x": ["{eid}", 2.5, True], "y": None},
            "body": {"z": ["{client_id}", 1]},
            "client_id": "c/1",
        },
    )
    assert (request.host, request.method) == ("media", "PATCH")
    assert request.path == "/a/e%201/partner-id-x/%C3%BC/c%2F1/"
    assert request.query == (("x", "e 1"), ("x", "2.5"), ("x", "true"), ("y", "null"))
    assert request.body == {"z": ["c/1", 1]}
    assert made("write", {"method": "PUT", "path": "/x"}).query == ()


def test_what_the_operator_vouches_for_goes_into_the_request() -> None:
    paused = made("pause", client_campaign_status__query={"action": "set", "to": "x-{value}"})
    shown = made("frontend_status", {"value": "HIDDEN"}, "event", frontend_status__body={"is": ["{value}", 1]})
    boosted = made("boost", boost__body={"event": "{eid}", "now": True})
    query: Json = {"cluster": "{eid}/{tc}/{tc_run_id}"}
    started = made("create_campaign", {"tc": "x", "tc_run_id": 7}, create_campaign__query=query)

    assert paused.query == (("action", "set"), ("to", "x-PAUSED"))
    assert (shown.query, shown.body) == ((), {"is": ["HIDDEN", 1]})
    assert boosted.body == {"event": "e 1", "now": True}
    assert made("boost").body is None, "what nobody vouches for is not made up"
    assert started.query == (("cluster", "e 1/x/7"),)


@pytest.mark.parametrize(
    ("action", "params", "item"),
    [("notify", {}, ""), ("frontend_status", {"value": "HIDDEN"}, ""), ("optimisation", {}, "")],
)
def test_what_makes_no_request_says_so(action: str, params: dict[str, Json], item: str) -> None:
    with pytest.raises(UsageError):
        made(action, params, item)


@cases(
    "name, encoded",
    ("e1", "e1"),
    ("a/b", "a%2Fb"),
    ("a%2Fb", "a%252Fb"),
    ("..", "%2E%2E"),
    (".", "%2E"),
    ("...", "..."),
    ("a&b=c?d#e", "a%26b%3Dc%3Fd%23e"),
    ("a b+c", "a%20b%2Bc"),
    ("München", "M%C3%BCnchen"),
    ("東京", "%E6%9D%B1%E4%BA%AC"),
    ("a\r\nb", "a%0D%0Ab"),
    ("{eid}", "%7Beid%7D"),
)
def test_a_name_is_one_segment_and_the_library_leaves_it_so(name: str, encoded: str) -> None:
    url = exact_url(BASE, target_of(f"/events/{segment(name)}/x", [("q", name)]))

    assert segment(name) == encoded
    assert url.raw_path.startswith(f"/api/v3/events/{encoded}/x?q=".encode())


@settings(deadline=None, max_examples=50)
@given(st.text(min_size=1, max_size=30))
def test_any_name_arrives_as_one_segment(name: str) -> None:
    url = exact_url(BASE, target_of(f"/events/{segment(name)}", [(name, name)]))

    assert url.raw_path.decode().partition("?")[0].count("/") == 4
    assert httpx.Request("PUT", url).url.raw_path == url.raw_path


def test_a_target_that_the_library_would_change_is_not_sent() -> None:
    with pytest.raises(UsageError, match="would not be sent as it is"):
        exact_url(BASE, "/events/../partners/")


def test_a_value_with_braces_is_not_filled_in_again() -> None:
    assert addresses.filled({"a": "{value}-{eid}"}, {"value": "{eid}", "eid": "e1"}) == (("a", "{eid}-e1"),)


def test_a_row_that_does_not_exist_is_not_found() -> None:
    with pytest.raises(KeyError):
        endpoint("GET", "/nowhere")


@cases(
    "method, path, expected",
    ("GET", "/events/venues", "/events/venues", "fixed words win over a name"),
    ("GET", "/events/{eid}", "/events/{eid}", "a path of the document itself"),
    ("GET", "/events/e 1%2F2", "/events/{eid}", "a name in its place"),
    ("PUT", "/rest_demo_data/a/b", "/rest_demo_data/{rest}", "the rest of the path is not shown"),
    ("POST", "/auth/users/csv_export", "/auth/users/csv_export", "its method is not shown, so any is one of it"),
    ("GET", "/events", None, "a trailing slash counts"),
    ("GET", "/events//tickets", None, "no name stands there"),
    ("PATCH", "/events/e1", None, "another method"),
)
def test_a_request_is_found_in_the_document(method: str, path: str, expected: str | None) -> None:
    row = row_of(method, path)

    assert (row.path if row is not None else None) == expected
