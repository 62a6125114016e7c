"""What is not in the document's tables is not there, and what turns partners away says so by name.

That every row of it is there is for tests/contract/test_coverage.py to tell.
"""

from __future__ import annotations

import json

import pytest

from tests.builders import cases
from tests.unit.sandbox.desk import Desk


@pytest.mark.parametrize(
    ("method", "target"),
    [("POST", "/partners/"), ("PUT", "/partners/"), ("GET", "/auth/users/csv_export"), ("PUT", "/rest_demo_data/a/b")],
)
def test_an_admin_row_refuses_a_partner_by_name_and_says_where_the_token_is_missing(method: str, target: str) -> None:
    refused, unknown = Desk().answer(method, target), Desk().send_with({}, method, target)

    assert json.loads(refused.body)["error"] == "error.unauthorized"
    assert json.loads(unknown.body)["error"] == "error.auth.missing_token"


@cases(
    "method, target, expected",
    ("GET", "/events", 404, "the document writes it with a slash"),
    ("GET", "/permissions/", 404, "and this one without"),
    ("GET", "/nothing/here", 404, "not in the tables"),
    ("GET", "/events/e99", 404, "no such event"),
    ("PATCH", "/events/e1", 405, "a known path, another method"),
    ("PUT", "/events/e1", 405, "editing is on the other service"),
)
def test_what_is_not_in_the_tables_is_not_there(method: str, target: str, expected: int) -> None:
    assert Desk().status(method, target) == expected


def test_every_answer_carries_its_own_trace_id() -> None:
    desk = Desk()
    seen = {desk.answer("GET", target).headers["x-request-id"] for target in ("/events/e1", "/events/e1", "/nowhere")}

    assert len(seen) == 3


def test_a_no_content_answer_has_no_body() -> None:
    answer = Desk().answer("PUT", "/events/e1/client_campaign_status?client_campaign_status=PAUSED")

    assert (answer.status, answer.body) == (204, b"")
    assert "content-type" not in answer.headers
