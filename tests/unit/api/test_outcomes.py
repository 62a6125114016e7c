"""What one attempt told us: only what is proven harmless is harmless."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import cases
from tests.unit.api.world import assumed
from worker.api import exchanges
from worker.api.assumptions import Assumptions
from worker.model.exchange import Accepted, Answered, NotSent, Outcome, Refused, Uncertain

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
CODE = b'{"error": {"code": "error.unauthorized"}}'


def outcome(status: int, content: bytes = b"", assumptions: Assumptions | None = None) -> Outcome:
    return exchanges.outcome_of_answer(Answered(status=status), content, assumptions or Assumptions())


@cases(
    "status, content, expected",
    *[(status, b"", Accepted, "every 2xx is a yes") for status in (200, 201, 202, 204, 299)],
    (200, CODE, Accepted, "a yes with strange words is a yes; reading shows whether it took effect"),
    (200, b"", Accepted, "also where it says nothing"),
    (200, b"OK", Accepted, "or something that is no JSON"),
    (200, b"\n<!DOCTYPE html><title>Sign in</title>", Uncertain, "a page of something before the service"),
    (204, b"<html>", Uncertain, "whatever its status"),
    *[(status, b"", Refused, "the service's own no") for status in (400, 404, 405, 410, 413, 415, 422)],
    (401, b"", NotSent, "not signed in, so nothing was done"),
    (403, b"", NotSent, "not allowed, so nothing was done"),
    (400, CODE, NotSent, "a refusal that names an authorisation code"),
    (422, b'["x", [{"c": "error.auth.missing_token"}]]', NotSent, "wherever the code stands"),
    (400, b"error.unauthorized", NotSent, "a code is one in plain text too"),
    (500, CODE, Uncertain, "a 5xx may have done something before it thought of that"),
    (429, CODE, Uncertain, "so may a 429"),
    (409, CODE, Uncertain, "and a conflict, maybe with our own first attempt"),
    *[(status, b"", Uncertain, "may hide an effect") for status in (408, 409, 425, 429)],
    *[(status, b"", Uncertain, "may hide an effect") for status in (500, 501, 502, 503, 504, 599)],
    *[(status, b"", Uncertain, "a redirect is not followed") for status in (300, 301, 302, 303, 307, 308)],
    *[(status, b"", Uncertain, "not listed, so nobody knows") for status in (402, 406, 411, 418, 451, 101, 700)],
)
def test_what_a_whole_answer_tells(status: int, content: bytes, expected: type) -> None:
    found = outcome(status, content)

    assert isinstance(found, expected)
    assert found.answer is not None
    assert found.answer.status == status


@settings(deadline=None, max_examples=50)
@given(st.integers(min_value=100, max_value=999), st.binary(max_size=40))
def test_only_listed_statuses_are_ever_harmless(status: int, content: bytes) -> None:
    found = outcome(status, content)
    if not isinstance(found, Uncertain):
        assert 200 <= status <= 299 or status in exchanges.REFUSALS | {401, 403}


def test_what_denies_is_an_assumption() -> None:
    only_401 = assumed(auth__denied={"status": [401], "codes": []})

    assert isinstance(outcome(403, b"", only_401), Uncertain)
    assert isinstance(outcome(400, CODE, only_401), Refused)


def test_a_refusal_is_kept_in_the_services_words_on_one_line() -> None:
    found = outcome(422, b'{"detail":\n "budget   too \x07 high"}' + b"x" * 5000)

    assert isinstance(found, Refused)
    said = 'the service answered 422, and nothing happened: {"detail": "budget too \ufffd high"}xxx'
    assert found.why.startswith(said)
    assert len(found.why) < 300
    assert "\n" not in found.why


@cases(
    "error, expected",
    (httpx.ConnectError("refused"), NotSent, "no connection, so no byte left; TLS refusals come so too"),
    (httpx.ConnectTimeout("x"), NotSent, "no connection in time"),
    (httpx.PoolTimeout("x"), NotSent, "not even a connection to try"),
    (httpx.ReadTimeout("x"), Uncertain, "the service may be working on it right now"),
    (httpx.WriteTimeout("x"), Uncertain, "part of it left, and that may have been enough"),
    (httpx.WriteError("x"), Uncertain, "the same"),
    (httpx.ReadError("x"), Uncertain, "the answer is lost, the effect perhaps not"),
    (httpx.CloseError("x"), Uncertain, "after the answer or before, nobody knows"),
    (httpx.RemoteProtocolError("x"), Uncertain, "an answer nobody understands"),
    (httpx.LocalProtocolError("x"), Uncertain, "not proven to come before the first byte"),
    (httpx.ProxyError("x"), Uncertain, "somebody between us may have passed it on"),
    (httpx.DecodingError("x"), Uncertain, "an answer in bad compression"),
    (httpx.TooManyRedirects("x"), Uncertain, "should not happen, so nobody knows"),
    (TimeoutError(), Uncertain, "the whole took too long"),
    (ConnectionRefusedError(), Uncertain, "not through the library, so not known when"),
    (RuntimeError("x"), Uncertain, "a fault of ours is no proof"),
    (MemoryError(), Uncertain, "nor is this"),
)
def test_only_a_failed_connection_is_known_to_be_harmless(error: Exception, expected: type) -> None:
    found = exchanges.outcome_of_error(error)

    assert isinstance(found, expected)
    if isinstance(found, NotSent):
        assert found.cause == "connect"


@pytest.mark.parametrize(
    "error",
    [httpx.LocalProtocolError("Illegal header value b'Bearer s3cret'"), ValueError("s3cret"), OSError("s3cret")],
)
def test_a_failure_is_told_without_what_it_may_hold(error: Exception) -> None:
    assert "s3cret" not in repr(exchanges.outcome_of_error(error))


@cases(
    "header, expected",
    ("7", timedelta(seconds=7), "seconds"),
    (" 7 ", timedelta(seconds=7), "with spaces"),
    ("Tue, 01 Jan 2030 12:01:00 GMT", timedelta(minutes=1), "a date, against the moment handed in"),
    ("Tue, 01 Jan 2030 14:01:00 +0200", timedelta(minutes=1), "in another zone"),
    ("Tue, 01 Jan 2030 12:01:00 -0000", timedelta(minutes=1), "in no zone, which is UTC"),
    ("Tue, 01 Jan 2030 11:59:00 GMT", None, "past"),
    ("Tue, 01 Jan 2030 12:00:00 GMT", None, "now"),
    ("0", None, "no wait is no answer"),
    ("-5", None, "negative"),
    ("1.5", timedelta(seconds=1.5), "some count in parts of a second"),
    ("30, 120, 90", timedelta(seconds=120), "a proxy has said it too: the longest"),
    ("0, 0", None, "and none of them a wait"),
    ("1.5.2", None, "not a count of seconds"),
    ("١٢", None, "digits, but not of this protocol"),
    ("soon", None, "no number, no date"),
    ("Tue, 99 Foo 2030", None, "no date"),
    ("", None, "empty"),
    (None, None, "no header"),
    ("315360000", timedelta(days=3650), "ten years; the pace decides how long is waited"),
    ("9" * 5000, timedelta(days=3650), "longer than any number"),
    ("0" * 5000 + "7", timedelta(seconds=7), "a small number all the same"),
    ("Tue, 01 Jan 9999 00:00:00 GMT", timedelta(days=3650), "far ahead"),
)
def test_the_wait_that_the_service_asks_for(header: str | None, expected: timedelta | None) -> None:
    assert exchanges.retry_after(header, NOW) == expected


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=40))
def test_any_header_is_a_wait_ahead_or_none(header: str) -> None:
    found = exchanges.retry_after(header, NOW)

    assert found is None or timedelta(0) < found <= exchanges.LONGEST_WAIT
