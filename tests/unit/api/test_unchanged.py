"""What comes back the same is not decoded again, and what does not is."""

import json

import pytest

from worker.api import exchanges
from worker.api.exchanges import Decoder, Pages
from worker.api.wire import Malformed, Page, parsed
from worker.model.facts import Json


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
    monkeypatch.setattr(exchanges, "UNCHANGED_MAX", 2)
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


def listed(*items: dict[str, Json]) -> bytes:
    return json.dumps({"total": len(items), "limit": 100, "page": 1, "items": items}).encode()


def test_of_a_page_that_has_changed_the_events_that_have_not_are_the_objects_that_they_were() -> None:
    decoder, pages = Decoder(), Pages()

    def page(number: int, *items: dict[str, Json]) -> tuple[Json, Page]:
        content = decoder.content(number, listed(*items))
        assert not isinstance(content, Malformed)
        return content, pages.page(number, content)

    same: dict[str, Json] = {"id": "e1", "status": "active", "capacity": 5}
    _, before = page(1, same, {"id": "e2", "status": "active"})
    content, after = page(1, same, {"id": "e2", "status": "over"})
    assert after.records["e1"] is before.records["e1"]
    assert isinstance(content, dict)
    assert isinstance(content["items"], list)
    assert content["items"][0] is before.records["e1"].value or before.records["e1"].gaps, "nor is it kept twice"
    assert after.records["e2"].value["status"] == "over"

    _, moved = page(2, same)
    assert moved.records["e1"] is before.records["e1"], "another page of the same list"


@pytest.mark.parametrize(("was", "now_is"), [(1, True), (1, 1.0), (0, False), (2.0, 2)])
def test_what_is_equal_and_of_another_type_is_another_value(was: Json, now_is: Json) -> None:
    decoder, pages = Decoder(), Pages()
    for value in (was, now_is):
        content = decoder.content("/events/", listed({"id": "e1", "unheard_of": [value]}))
        assert not isinstance(content, Malformed)
        found = pages.page(1, content).records["e1"].value["unheard_of"]
        assert json.dumps(found) == json.dumps([value])


def test_events_that_are_no_longer_listed_are_forgotten() -> None:
    decoder, pages = Decoder(), Pages()
    for number in range(10):
        content = decoder.content("/events/", listed({"id": f"e{number}"}))
        assert not isinstance(content, Malformed)
        pages.page(1, content)
    assert len(pages._items) <= 2


def test_a_word_that_occurs_again_is_kept_once_and_a_long_text_is_not() -> None:
    cities: list[Json] = [{"city": "Leipzig"}, {"city": "Leipzig"}, {"city": "x" * 100}, {"city": "x" * 100}]
    content = Decoder().content("/", json.dumps(cities).encode())
    assert isinstance(content, list)
    first, second, long, longer = (one["city"] for one in content if isinstance(one, dict))
    assert first is second
    assert long is not longer
    assert (first, long) == ("Leipzig", "x" * 100)


def a_page(*items: str, more: str = '"total": 2') -> bytes:
    return f'{{"items": [{", ".join(items)}], {more}}}'.encode()


def test_of_an_answer_with_items_only_those_that_changed_are_decoded_anew() -> None:
    decoder = Decoder()
    first = decoder.content("here", a_page('{"id": "a", "x": 1}', '{"id": "b", "x": 1}'))
    second = decoder.content("here", a_page('{"id": "b", "x": 1}', '{"id": "a", "x": 1.0}', more='"total": 3'))
    elsewhere = decoder.content("there", a_page('{"id": "b", "x": 1}'))

    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert isinstance(elsewhere, dict)
    assert second == {"items": [{"id": "b", "x": 1}, {"id": "a", "x": 1.0}], "total": 3}
    assert second["items"][0] is first["items"][1]  # type: ignore[index]
    assert isinstance(second["items"][1]["x"], float)  # type: ignore[index, call-overload]
    assert elsewhere["items"][0] is not first["items"][1]  # type: ignore[index]


@pytest.mark.parametrize(
    "raw",
    [
        a_page('{"id": "a", "x": NaN}'),
        a_page('{"id": "a", "x": 1e999}'),
        a_page('{"id": "a"}', more='"total": 1e999'),
        a_page('{"id": "a"}', more='"total": 2} {'),
        a_page('{"id": "\\x"}'),
        b'{"items": {"id": "a"}, "total": 1}',
        b'{"items": [{"id": "\xff"}]}',
        b'{"items": [{"id": "\\ud800"}]}',
        b'{"it\xffems": 1, "items": []}',
        b'\xef\xbb\xbf{"items": [{"id": "a"}]}',
        b'["items"]',
        b'{"say": "items", "\\"items\\"": 1}',
        b'{"items": [1], "items": [null, "a"]}',
        b'{"items": ' + b"[" * 70 + b"]" * 70 + b"}",
        b'{"items": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
    ],
)
def test_taken_apart_or_as_a_whole_an_answer_says_the_same(raw: bytes) -> None:
    whole: object
    try:
        whole = parsed(raw)
    except Malformed as error:
        whole = str(error)
    apart = Decoder().content("here", raw)
    assert (str(apart) if isinstance(apart, Malformed) else apart) == whole
