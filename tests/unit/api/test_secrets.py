"""No secret comes back from the service into anything that is kept or shown, however it is spelled, cut or wrapped."""

import base64
import html
import json
from urllib.parse import quote, quote_plus

import httpx
import pytest

from tests.builders import cases
from tests.unit.api.world import HALL, Seen, World, answer, id_token
from worker.api.exchanges import BEGINNING, GONE, Redactor
from worker.model.exchange import Outcome, Refused, WriteRequest
from worker.model.facts import Known

PASSWORD = 'pä"ss w&rd/<1>'
TOKEN = "opaque-0123456789-abcdefghijklmnop-qrstuvwxyz"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJl"


def in_hand(*secrets: str) -> Redactor:
    made = Redactor()
    made.keep(*secrets)
    return made


@cases(
    "spelled",
    (PASSWORD, "as it is"),
    (json.dumps(PASSWORD)[1:-1], "in JSON"),
    (json.dumps(PASSWORD, ensure_ascii=False)[1:-1], "in JSON with its letters"),
    (quote(PASSWORD, safe=""), "in an address"),
    (quote_plus(PASSWORD), "in a form"),
    (html.escape(PASSWORD), "in a page"),
    (repr(PASSWORD)[1:-1], "as Python shows it"),
    (repr(PASSWORD.encode())[2:-1], "as Python shows its bytes"),
    (base64.b64encode(PASSWORD.encode()).decode(), "in base64"),
)
def test_a_secret_is_taken_out_however_it_is_spelled(spelled: str) -> None:
    assert in_hand(PASSWORD).scrubbed(f"you sent {spelled}, truly") == f"you sent {GONE}, truly"


@cases(
    "text, left",
    (f"bad token {TOKEN}.", f"bad token {GONE}.", "whole"),
    (f"bad token {TOKEN[:30]}...", f"bad token {GONE}", "cut off by somebody else"),
    (f"bad token {TOKEN[: BEGINNING - 1]}", f"bad token {TOKEN[: BEGINNING - 1]}", "no more than a beginning"),
    ("Authorization: Bearer something-new", f"Authorization: {GONE}", "a token that we never had"),
    ("authorization: basic bWU6czNjcmV0, x", f"authorization: {GONE}, x", "in another form"),
    (f"got {JWT} here", f"got {GONE} here", "what has the form of a token, known or not"),
    ("nothing to hide", "nothing to hide", "a text without any"),
)
def test_a_long_secret_is_known_by_its_beginning_and_a_token_by_its_form(text: str, left: str) -> None:
    assert in_hand(TOKEN).scrubbed(text) == left


def test_an_empty_secret_takes_nothing_out() -> None:
    assert in_hand("").scrubbed("nothing") == "nothing"


def test_the_last_secrets_are_known_however_often_they_are_renewed() -> None:
    made = in_hand(*(f"token-number-{number}" for number in range(100)))

    assert made.scrubbed("token-number-99 and token-number-0") == f"{GONE} and token-number-0"


def test_a_secret_that_is_used_again_is_one_of_the_last() -> None:
    made = in_hand("the-password")
    for number in range(100):
        made.keep("the-password", f"token-number-{number}")

    assert made.scrubbed("the-password") == GONE


def test_a_token_that_is_null_makes_no_word_a_secret() -> None:
    world = World()
    world.on("/auth", answer({"AccessToken": "short", "IdToken": None, "RefreshToken": None, "ExpiresIn": 3600}))

    world.clock.run(world.api.ready_to_write(HALL))

    assert world.api.scrubbed("short, and None") == f"{GONE}, and None"


def test_what_a_sign_in_sends_and_gets_is_secret_but_for_the_name() -> None:
    world = World()
    world.on("/auth", answer({"AccessToken": "short", "Session": TOKEN, "TokenType": "Bearer", "IdToken": id_token()}))

    world.clock.run(world.api.partners())

    assert world.api.scrubbed(f"me s3cret short {TOKEN} Bearer") == f"me {GONE} {GONE} {GONE} Bearer"


def echo(status: int) -> World:
    """A service that answers with what it was sent and knows, as a proxy's page of errors would."""
    world = World()

    def echoed(seen: Seen) -> httpx.Response:
        said = " ".join(f"{name}: {value}" for name, value in seen.headers.items())
        filler = "x" * 170  # so that what is kept ends in the middle of what must not be
        body = f"{filler} {said} s3cret"
        return httpx.Response(status, text=body, headers={"x-request-id": f"for {seen.headers['authorization']}"})

    world.rules["/odd"] = echoed
    return world


async def write(world: World) -> Outcome:
    await world.api.ready_to_write(HALL)
    return await world.api.send(HALL, WriteRequest(host="api", method="PUT", path="/odd"), not_after=1e9)


@pytest.mark.parametrize("status", [422, 404, 403, 500, 429])
def test_what_is_kept_of_an_error_holds_neither_token_nor_password(status: int) -> None:
    world = echo(status)

    outcome = world.clock.run(write(world))

    assert "access-1" not in repr(outcome)
    assert "s3cret" not in repr(outcome)
    assert outcome.answer is not None
    assert outcome.answer.x_request_id == f"for {GONE}"
    assert not isinstance(outcome, Refused) or "xxx" in outcome.why


def test_a_token_in_a_fact_is_taken_out_and_a_word_is_not() -> None:
    world = World()
    world.rules["/auth"] = lambda _: answer({"AccessToken": TOKEN, "ExpiresIn": 3600})
    world.on("/events/e1", answer({"id": "e1", "title": f"hello {TOKEN}", "city": "s3cret"}))

    fact = world.clock.run(world.read())

    assert isinstance(fact, Known)
    assert isinstance(fact.value, dict)
    assert (fact.value["title"], fact.value["city"]) == (f"hello {GONE}", "s3cret")


@pytest.mark.parametrize("short", ["er", "hbGciOi", "c2ln"])
def test_a_short_secret_within_a_token_does_not_hide_the_rest_of_it(short: str) -> None:
    hands = in_hand(short)

    assert hands.scrubbed("Authorization: Bearer abc-unknown-token-123") == f"Authorization: {GONE}"
    assert hands.scrubbed(f"got {JWT} h") == f"got {GONE} h"
