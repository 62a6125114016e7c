"""The request of each write, to the letter; and that a name is one segment, whatever it holds."""

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.api import requests as addresses
from worker.api.assumptions import Assumptions, assumptions_from
from worker.api.requests import Hosts, exact_url, segment, target_of, write_request
from worker.model.actions import ACTIONS
from worker.model.endpoints import ENDPOINTS, endpoint, row_of
from worker.model.errors import UsageError
from worker.model.exchange import WriteRequest
from worker.model.facts import EventId, Json, PartnerId
from worker.model.writes import Intent

BASE = "https://api.example/api/v3"


def made(action: str, params: dict[str, Json] | None = None, item: str = "", **changes: Json) -> WriteRequest:
    assumptions, wrong = assumptions_from({key.replace("__", "."): value for key, value in changes.items()})
    assert not wrong
    intent = Intent(action=action, target="t", wish="w", params=params or {})
    return write_request(PartnerId("partner-id-x"), EventId("e 1"), intent, item, assumptions)


@pytest.mark.parametrize(
    ("action", "params", "item", "expected"),
    [
        ("pause", {}, "", "api PUT /events/e%201/client_campaign_status?client_campaign_status=PAUSED"),
        ("run", {}, "", "api PUT /events/e%201/client_campaign_status?client_campaign_status=RUNNING"),
        (
            "optimisation",
            {"value": "OFF"},
            "",
            "api PUT /events/e%201/campaign_optimisation_status?campaign_optimisation_status=OFF",
        ),
        (
            "ad_optimisation",
            {"value": "ON"},
            "",
            "api PUT /events/e%201/ad_campaign_optimisation_status?ad_campaign_optimisation_status=ON",
        ),
        (
            "frontend_status",
            {"value": "HIDDEN"},
            "event",
            "api PUT /events/e%201/setup_frontend_status?frontend_status=HIDDEN",
        ),
        ("frontend_status", {"value": "HIDDEN"}, "cr", "cr PUT /events/last_updated_on_fe/e%201?status=RUNNING"),
        ("frontend_status", {"value": "FLAGGED"}, "cr", "cr PUT /events/last_updated_on_fe/e%201?status=RUNNING"),
        ("frontend_status", {"value": "DEFAULT"}, "cr", "cr PUT /events/last_updated_on_fe/e%201?status=RUNNING"),
        ("frontend_status", {"value": "CANCELLED"}, "cr", "cr PUT /events/last_updated_on_fe/e%201?status=CANCELLED"),
        ("create_draft", {"goal": "ROAS", "total_budget": 500.0}, "", "api POST /setup_processes/e%201"),
        ("update_draft", {"total_budget": 500.0}, "", "api PUT /setup_processes/e%201"),
        ("boost", {}, "", "api POST /setup_processes/e%201/boost"),
        ("reset_setup", {}, "", "api PUT /events/e%201/reset_campaigns_setup"),
        ("edit_cluster", {"tc": "a/b", "tc_run_id": 7}, "", "api POST /campaigns_setup"),
        (
            "create_campaign",
            {"tc": "a/b", "tc_run_id": 7, "bid": 2.5, "on": True, "x": ["y", "z"]},
            "",
            "api POST /campaigns/?eid=e%201&tc=a%2Fb&tc_run_id=7&bid=2.5&on=true&x=y&x=z",
        ),
        (
            "series_add",
            {"value": ["e2", "e&3"]},
            "",
            "api POST /events/e%201/series?event_series=e2&event_series=e%263",
        ),
        ("series_remove", {"value": ["e2"]}, "", "api DELETE /events/e%201/series?event_series=e2"),
    ],
)
def test_each_write_is_the_documents_request(action: str, params: dict[str, Json], item: str, expected: str) -> None:
    request = made(action, params, item)

    assert f"{request.host} {request.method} {target_of(request.path, request.query)}" == expected
    bodies: dict[str, Json] = {
        "create_draft": params,
        "update_draft": params,
        "edit_cluster": {"eid": "e 1", "tc": "a/b", "tc_run_id": 7},
    }
    assert request.body == bodies.get(action)


def test_every_action_has_a_request() -> None:
    for name in ACTIONS.keys() - {"notify", "undo", "wait"}:
        item = "event" if name == "frontend_status" else ""
        params: dict[str, Json] = {"value": "ON"} if ACTIONS[name].shape == "value" else {}
        assert made(name, {**params, "method": "PUT", "path": "/x"} if name == "write" else params, item).path


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
    started = made(
        "create_campaign", {"tc": "x", "tc_run_id": 7}, create_campaign__query={"cluster": "{tc}/{tc_run_id}"}
    )

    assert paused.query == (("action", "set"), ("to", "x-PAUSED"))
    assert (shown.query, shown.body) == ((), {"is": ["HIDDEN", 1]})
    assert boosted.body == {"event": "e 1", "now": True}
    assert started.query == (("cluster", "x/7"),)


def test_more_than_the_document_names_may_go_into_a_draft() -> None:
    assert made("create_draft", {"goal": "ROAS", "total_budget": 5, "name": "x"}).body == {
        "goal": "ROAS",
        "total_budget": 5,
        "name": "x",
    }


@pytest.mark.parametrize(
    ("action", "params", "item"),
    [("notify", {}, ""), ("frontend_status", {"value": "HIDDEN"}, ""), ("optimisation", {}, "")],
)
def test_what_makes_no_request_says_so(action: str, params: dict[str, Json], item: str) -> None:
    with pytest.raises(UsageError):
        made(action, params, item)


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
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
    ],
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


def test_an_array_repeats_its_key() -> None:
    assert target_of("/x", [("city", "a"), ("city", "b&c")]) == "/x?city=a&city=b%26c"


def test_a_value_with_braces_is_not_filled_in_again() -> None:
    assert addresses.filled({"a": "{value}-{eid}"}, {"value": "{eid}", "eid": "e1"}) == (("a", "{eid}-e1"),)


def test_a_host_that_is_not_configured_says_which_key_is_missing() -> None:
    with pytest.raises(UsageError) as caught:
        Hosts(api=BASE).base("cr")
    assert "api.cr_url" in caught.value.hint


def test_the_table_holds_every_row_of_the_document() -> None:
    sections = [row.section for row in ENDPOINTS]

    assert {section: sections.count(section) for section in sorted(set(sections))} == {
        "4.1": 9,
        "4.2": 16,
        "4.3": 5,
        "4.4": 7,
        "4.5": 20,
    }
    assert len({(row.method, row.path, row.host) for row in ENDPOINTS}) == len(ENDPOINTS)
    assert [row.path for row in ENDPOINTS if row.refused] == [
        "/partners/",
        "/partners/",
        "/auth/users/csv_export",
        "/rest_demo_data/{rest}",
        "/campaign_results/",
    ]


def test_a_row_that_does_not_exist_is_not_found() -> None:
    with pytest.raises(KeyError):
        endpoint("GET", "/nowhere")


@pytest.mark.parametrize(
    ("method", "path", "expected", "reason"),
    [
        ("GET", "/events/venues", "/events/venues", "fixed words win over a name"),
        ("GET", "/events/{eid}", "/events/{eid}", "a path of the document itself"),
        ("GET", "/events/e 1%2F2", "/events/{eid}", "a name in its place"),
        ("PUT", "/rest_demo_data/a/b", "/rest_demo_data/{rest}", "the rest of the path is not shown"),
        ("POST", "/auth/users/csv_export", "/auth/users/csv_export", "its method is not shown, so any is one of it"),
        ("GET", "/events", None, "a trailing slash counts"),
        ("GET", "/events//tickets", None, "no name stands there"),
        ("PATCH", "/events/e1", None, "another method"),
    ],
)
def test_a_request_is_found_in_the_document(method: str, path: str, expected: str | None, reason: str) -> None:
    row = row_of(method, path)

    assert (row.path if row is not None else None) == expected, reason


def test_defaults_make_a_request_without_any_vouching() -> None:
    intent = Intent(action="pause", target="t", wish="w")

    request = write_request(PartnerId("p"), EventId("e1"), intent, "", Assumptions())
    assert request.query == (("client_campaign_status", "PAUSED"),)
