"""What comes back the same is not decoded again, and what does not is."""

import json

import pytest

from worker.api import unchanged
from worker.api.unchanged import Decoder, Pages
from worker.api.wire import Malformed, Page


def bytes_of(status: str) -> bytes:
    items = [{"id": "e1", "status": status}]
    return json.dumps({"total": 1, "limit": 100, "page": 1, "pages": 1, "items": items}).encode()


def test_the_same_bytes_give_the_very_same_objects() -> None:
    decoder = Decoder()
    first = decoder.content("/events/?page=1", bytes_of("active"))

    assert decoder.content("/events/?page=1", bytes_of("active")) is first
    assert decoder.content("/events/?page=2", bytes_of("active")) is not first, "another place is another answer"


def test_other_bytes_are_decoded_anew_and_so_are_those_before_them() -> None:
    decoder = Decoder()
    first = decoder.content("/events/", bytes_of("active"))
    second = decoder.content("/events/", bytes_of("cancelled"))

    assert second != first
    assert decoder.content("/events/", bytes_of("active")) == first


def test_what_is_malformed_stays_malformed() -> None:
    decoder = Decoder()

    assert isinstance(decoder.content("/events/", b"<html>"), Malformed)
    assert isinstance(decoder.content("/events/", b"<html>"), Malformed)


def test_no_more_is_kept_than_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unchanged, "KEPT_MAX", 2)
    decoder = Decoder()
    first = decoder.content("/1", b"{}")
    decoder.content("/2", b"{}")
    decoder.content("/3", b"{}")

    assert decoder.content("/1", b"{}") is not first


def test_the_same_content_is_the_same_page() -> None:
    decoder, pages = Decoder(), Pages()

    def page(status: str) -> Page:
        content = decoder.content("/events/", bytes_of(status))
        assert not isinstance(content, Malformed)
        return pages.page(1, content)

    first = page("active")
    assert page("active") is first
    assert page("cancelled") is not first
    assert page("cancelled").records["e1"].value["status"] == "cancelled"
