"""From bytes to records: whatever comes, it is a value, a gap or a Malformed, and nothing else."""

from contextlib import suppress

import pytest

from tests.builders import cases
from worker.api import answers
from worker.api.answers import Malformed
from worker.model.facts import EVENT_FIELDS, Field, Json


@cases(
    "content",
    (b"", "nothing"),
    (b"<html>", "a proxy's page"),
    (b'{"a": NaN}', "not JSON, though some libraries write it"),
    (b'{"a": -Infinity}', "neither"),
    (b'{"a": 1e999}', "a double cannot hold it"),
    (b'{"a": ' + b"9" * 400 + b"}", "nor this"),
    (b'{"a": 1', "cut short"),
    (b'[{"status": "active", "status": "cancelled"}]', "which of the two?"),
    (b"\xff\xfe{}", "not UTF-8"),
    (b"[" * 200 + b"]" * 200, "deeper than any record"),
    (b"[" * 100_000, "deep enough to break a parser"),
)
def test_what_is_no_json_is_malformed(content: bytes) -> None:
    with pytest.raises(Malformed):
        answers.parsed(content)


def test_what_other_programs_write_and_no_store_can_keep_is_read_all_the_same() -> None:
    assert answers.parsed(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}, "a byte order mark"
    assert answers.parsed(b'{"title": "a\\ud800b"}') == {"title": "a\ufffdb"}, "half a character"


@cases(
    "type_, value, fits",
    ("string", "x", True, "a text"),
    ("string", "", True, "an empty text is one"),
    ("string", 1, False, "a number is no text"),
    ("integer", 5, True, "whole"),
    ("integer", 500.0, True, "whole, spelled with a point"),
    ("integer", 5.5, False, "not whole"),
    ("integer", True, False, "a boolean is no number, though Python thinks so"),
    ("integer", "5", False, "a text, even if it looks like one"),
    ("number", 0.5, True, "a fraction"),
    ("number", 5, True, "a whole number is a number"),
    ("number", False, False, "a boolean is no number"),
    ("number", 10**400, False, "a double cannot hold it"),
    ("boolean", False, True, "a boolean"),
    ("boolean", 0, False, "a number is no boolean"),
    ("boolean", "false", False, "a text is no boolean, and would be true"),
    ("timestamp", "2030-05-01T19:00:00Z", True, "as documented"),
    ("timestamp", "2030-05-01T19:00:00.123+02:00", True, "another zone"),
    ("timestamp", "2030-05-01T19:00:00", True, "no zone: the document says UTC of all of them"),
    ("timestamp", "2030-05-01", False, "a day is no moment"),
    ("timestamp", "2030-13-01T19:00:00Z", False, "there is no such month"),
    ("timestamp", "soon", False, "no moment"),
    ("timestamp", 1900000000, False, "a number of seconds is not what the document says"),
    ("list", [], True, "an empty list is one"),
    ("list", {}, False, "an object is no list"),
    ("object", {}, True, "an empty object is one"),
    ("object", [], False, "a list is no object"),
)
def test_a_value_has_the_documented_type_or_not(type_: str, value: Json, fits: bool) -> None:
    field = Field(type=type_, section="2.3", about="")  # type: ignore[arg-type]  # a row of a table

    assert (answers.ill_typed(value, field) is None) is fits


def test_null_is_a_value_only_where_the_document_allows_it() -> None:
    assert answers.ill_typed(None, Field(type="string", nullable=True, section="2.3", about="")) is None
    fault = answers.ill_typed(None, Field(type="string", section="2.3", about=""))
    assert fault is not None
    assert fault.startswith("null"), "evidence tells a null from a missing field by this word"


def test_missing_and_ill_typed_fields_are_taken_out_and_named() -> None:
    eid, (record, gaps) = answers.event_from({"id": "e1", "status": "active", "capacity": "many", "more": {"a": [1]}})

    assert eid == "e1"
    assert record == {"id": "e1", "status": "active", "more": {"a": [1]}}
    assert gaps["capacity"] == "a text, where the document says integer"
    assert gaps["title"] == "missing in the answer"
    assert set(gaps) == set(EVENT_FIELDS) - {"id", "status"}


def test_a_status_that_the_document_does_not_list_is_kept() -> None:
    _, (record, _) = answers.event_from({"id": "e1", "status": "postponed", "campaign_status": "SOMETHING"})

    assert record["status"] == "postponed"
    assert record["campaign_status"] == "SOMETHING"


@pytest.mark.parametrize("eid", [None, 7, "", "  ", ["e1"], "e\0", "e" * 501])
def test_an_event_without_a_usable_id_is_malformed(eid: Json) -> None:
    with pytest.raises(Malformed):
        answers.event_from({"id": eid, "status": "active"})


def test_a_page_of_more_items_than_anybody_asks_for_is_malformed() -> None:
    items: list[Json] = [{"id": "e1"}] * (answers.ITEMS_MAX + 1)
    with pytest.raises(Malformed, match=f"{answers.ITEMS_MAX + 1} items"):
        answers.page_from({"total": 1, "limit": 1, "page": 1, "items": items})


@cases(
    "value, expected",
    ("1234.5", 1234.5, "as documented"),
    (" 12 ", 12.0, "with spaces around"),
    ("-3e2", -300.0, "an exponent"),
    ("1_000", None, "Python reads it, JSON's users do not"),
    ("nan", None, "not a number"),
    ("1e999", None, "beyond a double"),
    ("", None, "empty"),
    ("12 EUR", None, "a currency is no number"),
    (12.5, None, "the document says text"),
    (None, None, "null"),
)
def test_a_number_in_a_text(value: Json, expected: float | None) -> None:
    assert answers.decimal_from(value) == expected


def test_a_cluster_run_is_one_number_however_it_is_spelled() -> None:
    assert {answers.run_id_from(value) for value in (12, "12", "012", 12.0)} == {12}
    assert {answers.run_id_from(value) for value in ("12.0", "x", True, None, "")} == {None}


@pytest.mark.parametrize(
    ("path", "value"),
    [("a.b", {"a": 1}), ("abs(a)", {"a": "x"}), ("length(@)", 3), ("sort_by(@, &a)", [{"a": 1}, {"a": "x"}])],
)
def test_an_expression_that_does_not_fit_finds_nothing_or_is_malformed(path: str, value: Json) -> None:
    found: Json = None
    with suppress(Malformed):
        found = answers.found_at(path, value)

    assert found is None
