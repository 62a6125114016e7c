"""Every row of the document's tables is there, and nothing else is."""

from __future__ import annotations

import json

import pytest

from tests.unit.sandbox.desk import Desk
from worker.sandbox.service import ROWS
from worker.sandbox.settings import Host, TwinAnswer

DRAFT = {"goal": "ROAS", "total_budget": 500}
CLUSTER = {"eid": "e1", "tc": "late-night crowd", "tc_run_id": 42, "budget": 10}

# The document's tables, told again: method, target with what the row needs, body, status.
CALLS: list[tuple[Host, str, str, object, int]] = [
    ("api", "GET", "/status/", None, 200),
    ("api", "GET", "/partners/", None, 200),
    ("api", "GET", "/permissions", None, 200),
    ("api", "GET", "/features", None, 200),
    ("api", "GET", "/events/?limit=5&descending=true", None, 200),
    ("api", "GET", "/events/flagged/", None, 200),
    ("api", "GET", "/events/venues?city=Gent&city=Porto", None, 200),
    ("api", "GET", "/events/e1", None, 200),
    ("api", "GET", "/events/statistics", None, 200),
    ("api", "GET", "/events/e1/lookout_prediction_benchmark?type=capacity", None, 200),
    ("api", "GET", "/events/e1/lookout_prediction?type=ticket_count", None, 200),
    (
        "api",
        "GET",
        "/daily_revenue_summary/?event_id=e1&currency=EUR&start_date=2031-01-01&end_date=2031-02-01",
        None,
        200,
    ),
    ("api", "GET", "/events/e1/tickets", None, 200),
    ("api", "GET", "/events/e1/series", None, 200),
    ("api", "POST", "/events/e1/series?event_series=e2&event_series=e3", None, 200),
    ("api", "DELETE", "/events/e1/series?event_series=e2", None, 200),
    ("api", "GET", "/events/e1/available_events_for_series", None, 200),
    ("api", "PUT", "/events/e1/setup_frontend_status?frontend_status=HIDDEN", None, 200),
    ("cr", "PUT", "/events/last_updated_on_fe/e1?status=RUNNING", None, 200),
    ("cr", "PUT", "/events/e1?event_type=concert&partner_product=tickets&title=New", None, 200),
    ("api", "POST", "/ingest/transaction_summary", {"eid": "e1", "rows": [{"date": "2031-01-05", "tickets": 2}]}, 201),
    ("api", "POST", "/ingest/transaction_summary/from_excel?eid=e1", b"not opened", 201),
    ("api", "DELETE", "/daily_revenue_summary?eid=e1", None, 200),
    ("api", "GET", "/daily_revenue_summary/sales_edit_export", None, 200),
    ("api", "POST", "/daily_revenue_summary/sales_edit_export", b"sheet", 200),
    ("api", "GET", "/events/e1/clusters", None, 200),
    ("api", "GET", "/events/e1/suggested_tcs?budget=500&goal=ROAS", None, 200),
    ("api", "GET", "/events/e1/campaigns_expected_value?goal=ROAS&budget=500", None, 200),
    ("api", "GET", "/events/e1/default_campaigns_parameters", None, 200),
    ("api", "GET", "/events/e1/budget_min_max?runtime_in_days=10", None, 200),
    ("api", "GET", "/setup_processes/call_to_action/?goal=ROAS&has_pixel=true&lead_form_id=", None, 200),
    ("api", "GET", "/adplatform_targeting/suggested_radius?location=Porto%2C%20PT&distance_unit=mile", None, 200),
    ("api", "GET", "/setup_processes/e2", None, 200),
    ("api", "POST", "/setup_processes/e11", DRAFT, 404),
    ("api", "PUT", "/setup_processes/e2", DRAFT, 200),
    ("api", "POST", "/setup_processes/e2/boost", None, 200),
    ("api", "GET", "/setup_processes/event_types", None, 200),
    ("api", "POST", "/campaigns_setup", CLUSTER, 200),
    ("api", "POST", "/campaigns/?eid=e1&tc=x&tc_run_id=42", None, 201),
    ("api", "GET", "/events/e1/campaigns", None, 200),
    ("api", "PUT", "/events/e1/reset_campaigns_setup", None, 200),
    ("api", "PUT", "/events/e1/client_campaign_status?client_campaign_status=PAUSED", None, 204),
    ("api", "GET", "/events/e1/client_campaign_status/task", None, 404),
    ("api", "PUT", "/events/e1/campaign_optimisation_status?campaign_optimisation_status=OFF", None, 200),
    ("api", "PUT", "/events/e1/ad_campaign_optimisation_status?ad_campaign_optimisation_status=OFF", None, 200),
    ("api", "GET", "/events/e1/attribution_model", None, 200),
    ("api", "GET", "/integrations/connect/adplatform/status", None, 200),
    ("api", "GET", "/integrations/adplatform/events/e1/campaign_results", None, 200),
    ("api", "GET", "/integrations/adplatform/events/e1/adplatform_insights", None, 200),
    ("api", "GET", "/campaign_results/", None, 403),
    ("api", "GET", "/events/e1/statistics", None, 200),
    ("media", "POST", "/media", b"picture", 201),
]


@pytest.mark.parametrize(("host", "method", "target", "body", "expected"), CALLS)
def test_every_row_of_the_document_can_be_called(
    host: Host, method: str, target: str, body: object, expected: int
) -> None:
    assert Desk().status(method, target, body, host) == expected


def test_the_calls_above_reach_every_row_that_a_partner_can_reach() -> None:
    desk = Desk()
    reached = set()
    for host, method, target, body, _ in CALLS:
        request = desk.request(method, target, body, host)
        for row in ROWS:
            if row.host == host and method in row.methods and row.names(request.path) is not None:
                reached.add((row.host, row.methods, row.path))
                break

    assert reached == {(row.host, row.methods, row.path) for row in ROWS if row.who != "admin"}


@pytest.mark.parametrize(
    ("method", "target"),
    [("POST", "/partners/"), ("PUT", "/partners/"), ("GET", "/auth/users/csv_export"), ("PUT", "/rest_demo_data/a/b")],
)
def test_an_admin_row_refuses_a_partner_by_name(method: str, target: str) -> None:
    answer = Desk().answer(method, target)

    assert json.loads(answer.body)["error"] == "error.unauthorized"


def test_an_admin_row_without_a_token_says_that_the_token_is_missing() -> None:
    answer = Desk().send_with({}, "POST", "/partners/")

    assert json.loads(answer.body)["error"] == "error.auth.missing_token"


def test_the_generic_results_reject_partner_tokens_by_their_documented_code() -> None:
    assert json.loads(Desk().answer("GET", "/campaign_results/").body)["error"] == "error.auth.not_authorized"


@pytest.mark.parametrize(
    ("method", "target", "expected", "reason"),
    [
        ("GET", "/events", 404, "the document writes it with a slash"),
        ("GET", "/permissions/", 404, "and this one without"),
        ("GET", "/nothing/here", 404, "not in the tables"),
        ("GET", "/events/e99", 404, "no such event"),
        ("PATCH", "/events/e1", 405, "a known path, another method"),
        ("PUT", "/events/e1", 405, "editing is on the other service"),
    ],
)
def test_what_is_not_in_the_tables_is_not_there(method: str, target: str, expected: int, reason: str) -> None:
    assert Desk().status(method, target) == expected, reason


def test_an_id_with_a_slash_is_one_segment_when_it_is_encoded() -> None:
    desk = Desk()
    desk.change("a/b & ü", add=True, set={"title": "x"})

    assert desk.read("/events/a%2Fb%20%26%20%C3%BC")["id"] == "a/b & ü"
    assert desk.status("GET", "/events/a/b%20%26%20%C3%BC") == 404


def test_every_answer_carries_its_own_trace_id() -> None:
    desk = Desk()
    seen = [desk.answer(method, target, body, host).headers["x-request-id"] for host, method, target, body, _ in CALLS]

    assert len(set(seen)) == len(CALLS)


def test_a_no_content_answer_has_no_body() -> None:
    answer = Desk().answer("PUT", "/events/e1/client_campaign_status?client_campaign_status=PAUSED")

    assert (answer.status, answer.body) == (204, b"")
    assert isinstance(answer, TwinAnswer)
    assert "content-type" not in answer.headers
