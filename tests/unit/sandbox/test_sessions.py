"""Signing in gives what the document says, and nothing works without it."""

import base64
import json
from typing import Any

import pytest

from tests.builders import cases
from tests.unit.sandbox.desk import Desk
from worker.sandbox.changes import SignOutChange
from worker.sandbox.settings import TwinSettings, User
from worker.sandbox.start import FIRST_PARTNER, SECOND_PARTNER


def claims(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def test_a_sign_in_gives_the_five_documented_fields() -> None:
    tokens = Desk().sign_in()

    assert set(tokens) == {"AccessToken", "IdToken", "RefreshToken", "ExpiresIn", "TokenType"}
    assert (tokens["ExpiresIn"], tokens["TokenType"]) == (3600, "Bearer")
    groups = claims(tokens["IdToken"])["idp:groups"]
    assert {FIRST_PARTNER, SECOND_PARTNER} < set(groups), "the partners among other groups"


def test_a_user_sees_and_reaches_only_the_partners_that_are_theirs() -> None:
    user = User(username="sandbox", password="sandbox", partners=(SECOND_PARTNER,), groups=())
    desk = Desk(settings=TwinSettings(users=(user,)))

    assert claims(desk.sign_in()["IdToken"])["idp:groups"] == [SECOND_PARTNER]
    assert desk.status("GET", "/partners/") == 403
    desk.partner = SECOND_PARTNER
    assert desk.status("GET", "/partners/") == 200


@cases(
    "body, expected",
    ({"username": "sandbox", "password": "wrong"}, 401, "another password"),
    ({"username": "nobody", "password": "sandbox"}, 401, "nobody of that name"),
    ({"username": "sandbox"}, 422, "no password"),
    (b"no json", 422, "no JSON"),
)
def test_a_wrong_sign_in_is_refused(body: object, expected: int) -> None:
    assert Desk().status("POST", "/auth", body) == expected


def test_a_token_works_until_its_last_moment_and_not_longer() -> None:
    desk = Desk(settings=TwinSettings(token_lifetime_s=60))
    desk.passes(59.999)
    assert desk.status("GET", "/partners/") == 200
    desk.passes(0.001)
    refused = desk.answer("GET", "/partners/")

    assert (refused.status, json.loads(refused.body)["error"]) == (401, "error.auth.missing_token")


@cases(
    "headers, status, code",
    ({}, 401, "error.auth.missing_token", "nothing"),
    ({"authorization": "Bearer made.up.token"}, 401, "error.auth.missing_token", "a token made up"),
    ({"authorization": "{token}", "x-preferred-partner-id": FIRST_PARTNER}, 401, "error.auth.missing_token", "bare"),
    ({"authorization": "Bearer {token}"}, 403, "error.auth.not_authorized", "no partner"),
    ({"authorization": "Bearer {token}", "x-preferred-partner-id": "x"}, 403, "error.auth.not_authorized", "another's"),
)
def test_a_call_without_a_valid_token_and_partner_is_refused_by_name(
    headers: dict[str, str], status: int, code: str
) -> None:
    desk = Desk()
    filled = {key: value.replace("{token}", desk.token) for key, value in headers.items()}
    answer = desk.send_with(filled, "GET", "/partners/")

    assert (answer.status, json.loads(answer.body)["error"]) == (status, code)


def test_a_refresh_token_does_not_rotate_and_dies_with_the_password() -> None:
    desk = Desk(settings=TwinSettings(refresh_path="/auth/refresh"))
    token = desk.sign_in()["RefreshToken"]
    answer = desk.answer("POST", "/auth/refresh", {"RefreshToken": token})

    assert json.loads(answer.body)["RefreshToken"] == token
    desk.service.change(SignOutChange(), desk.now_s)
    assert desk.status("POST", "/auth/refresh", {"RefreshToken": token}) == 401
    assert desk.status("GET", "/partners/") == 401


def test_signing_in_has_a_budget_of_its_own() -> None:
    desk = Desk(settings=TwinSettings(sign_in_limit_per_minute=2))
    body = {"username": "sandbox", "password": "sandbox"}

    assert [desk.status("POST", "/auth", body) for _ in range(2)] == [200, 429]
    assert desk.status("GET", "/events/e1") == 200


def test_the_statuses_of_refusals_can_be_others() -> None:
    settings = TwinSettings(denied_token_status=403, denied_partner_status=400)
    desk = Desk(settings=settings)

    assert desk.send_with({}, "GET", "/partners/").status == 403
    desk.partner = "partner-id-other"
    assert desk.status("GET", "/partners/") == 400


@pytest.mark.parametrize(
    ("method", "target"),
    [("POST", "/partners/"), ("PUT", "/partners/"), ("GET", "/auth/users/csv_export"), ("PUT", "/rest_demo_data/a/b")],
)
def test_an_admin_row_refuses_a_partner_by_name_and_says_where_the_token_is_missing(method: str, target: str) -> None:
    refused, unknown = Desk().answer(method, target), Desk().send_with({}, method, target)

    assert json.loads(refused.body)["error"] == "error.unauthorized"
    assert json.loads(unknown.body)["error"] == "error.auth.missing_token"
