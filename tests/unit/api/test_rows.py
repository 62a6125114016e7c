"""A list is read for the fields that somebody needs: what they are is never old, and the rest of it costs nothing."""

import json

import pytest

from worker.api.decoding import Rows
from worker.api.exchanges import Pages
from worker.api.wire import Malformed, parsed
from worker.model.facts import EVENT_FIELDS, Json

NEEDED = frozenset(EVENT_FIELDS) | {"mood"}
WHOLE: dict[str, Json] = {
    "id": "e1",
    "title": "Größe \U0001f600",
    "start_date_time": "2026-06-01T19:00:00Z",
    "capacity": 400,
    "predicted_sales_share": 0.4,
    "special_ad_category": None,
    "campaign_event_series": ["a"],
    "benchmark": {"prediction": {"value": 1, "benchmark": 0.5}},
    "mood": "good",
}


def a_page(*items: dict[str, Json], total: Json = 1) -> bytes:
    return json.dumps({"total": total, "limit": 100, "page": 1, "items": items}).encode()


def read(rows: Rows, raw: bytes, needed: frozenset[str] = NEEDED) -> dict[str, Json]:
    content = rows.read(1, needed, raw)
    assert isinstance(content, dict), content
    return content


def items(content: dict[str, Json]) -> list[Json]:
    found = content["items"]
    assert isinstance(found, list)
    return found


def test_an_item_has_the_fields_that_are_needed_as_the_whole_answer_has_them() -> None:
    raw = a_page({**WHOLE, "unheard_of": [1], "another": "x"})

    assert items(read(Rows(), raw)) == [WHOLE]
    assert items(read(Rows(), raw, frozenset({"mood"}))) == [{"id": "e1", "mood": "good"}]
    assert items(read(Rows(), raw, frozenset({"no such"}))) == [{"id": "e1"}]


def test_a_page_that_is_other_only_where_nobody_looks_is_the_very_page_that_it_was() -> None:
    rows = Rows()
    first = read(rows, a_page({**WHOLE, "unheard_of": 1}))

    assert read(rows, a_page({**WHOLE, "unheard_of": 2})) is first
    assert read(rows, a_page(WHOLE)) is first
    assert read(rows, a_page(WHOLE, total=2)) is not first
    assert read(rows, a_page(WHOLE, WHOLE)) is not first


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("status", ["active", "over", None, 1, True, 1.0, "1", ["1"]]),
        ("capacity", [1, True, "1", 2, None, [1], 0, False, 2.5]),
        ("predicted_sales_share", [0.5, "0.5", None, False, 0, 1e300]),
        ("benchmark", [{"a": 1}, {"a": True}, {"a": 1.0}, {"a": [0]}, {"a": [False]}, None, 1, True]),
        ("mood", [1, True, 1.0, "1", 0, False, None, [1], [True], {"x": 0}, {"x": -0.0}]),
    ],
)
def test_what_a_needed_field_says_is_never_old_not_even_in_its_type(field: str, values: list[Json]) -> None:
    rows, pages = Rows(), Pages()
    for value in [*values, *reversed(values)]:
        content = read(rows, a_page({**WHOLE, field: value}))
        (item,) = items(content)
        assert isinstance(item, dict)
        assert repr(item[field]) == repr(value)
        fresh = Pages().page(1, parsed(a_page({**WHOLE, field: value}))).records["e1"]
        found = pages.page(1, content).records["e1"]
        assert (repr(found.value.get(field)), dict(found.gaps)) == (repr(fresh.value.get(field)), dict(fresh.gaps))


def test_a_field_that_is_gone_or_comes_is_another_record() -> None:
    rows = Rows()
    lacking = {name: value for name, value in WHOLE.items() if name not in ("capacity", "title", "mood", "benchmark")}

    assert items(read(rows, a_page(WHOLE))) == [WHOLE]
    assert items(read(rows, a_page(lacking))) == [lacking]
    assert items(read(rows, a_page(WHOLE))) == [WHOLE]


def test_other_fields_are_needed_and_everything_is_read_anew() -> None:
    rows = Rows()
    read(rows, a_page({**WHOLE, "unheard_of": 1}))
    read(rows, a_page({**WHOLE, "unheard_of": 2}))

    more = {**WHOLE, "unheard_of": 2}
    assert items(read(rows, a_page(more), NEEDED | {"unheard_of"})) == [more]


def test_an_item_on_another_page_is_the_object_that_it_was_until_it_is_forgotten() -> None:
    rows = Rows()
    (before,) = items(read(rows, a_page(WHOLE)))
    content = rows.read(2, NEEDED, a_page(WHOLE))
    assert isinstance(content, dict)
    assert items(content)[0] is before

    rows.only([])
    content = rows.read(3, NEEDED, a_page(WHOLE))
    assert isinstance(content, dict)
    assert items(content) == [before]
    assert items(content)[0] is not before


LONG = "1" * 301


@pytest.mark.parametrize(
    "raw",
    [
        b'{"items": [{"id": "a", "capacity": NaN}]}',
        b'{"items": [{"id": "a", "other": NaN}]}',
        b'{"items": [{"id": "a", "capacity": 1e999}]}',
        b'{"items": [{"id": "a", "capacity": ' + LONG.encode() + b"}]}",
        b'{"items": [{"id": "a", "status": ' + LONG.encode() + b"}]}",
        b'{"items": [{"id": "a", "mood": ' + LONG.encode() + b"}]}",
        b'{"items": [{"id": "a", "mood": [1e999]}]}',
        b'{"items": [{"id": "a", "status": ' + b"[" * 70 + b"]" * 70 + b"}]}",
        b'{"items": [{"id": "a", "mood": ' + b"[" * 70 + b"]" * 70 + b"}]}",
        b'{"items": [{"id": "a", "mood": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
        b'{"items": [{"id": "a"}], "total": 1e999}',
        b'{"items": [{"id": "a"}], "total": 2} {',
        b'{"items": [{"id": "\\x"}]}',
        b'{"items": {"id": "a"}, "total": 1}',
        b'{"items": [{"id": "\xff"}]}',
        b'{"items": [{"id": "a", "mood": "\xff"}]}',
        b'{"items": [{"id": "\\ud800"}]}',
        b'{"items": [{"id": "a", "mood": "\\ud800"}]}',
        b'{"items": [{"id": 5}, {"id": null}, {"status": "x"}, {"id": true}]}',
        b'{"items": [{"id": "a", "status": 1, "status": 2, "mood": 1, "mood": 2}]}',
        b'{"items": [1, null, "a", [], {"id": "b"}]}',
        b'{"items": null}',
        b'{"total": 0, "limit": 100, "page": 1}',
        b'{"items": [], "total": "many", "limit": [1], "page": {"x": 1}}',
        b'\xef\xbb\xbf{"items": [{"id": "a"}]}',
        b'["items"]',
        b"<html>",
        b"",
    ],
)
def test_what_is_odd_is_read_as_the_whole_answer_is(raw: bytes) -> None:
    wanted: object
    try:
        wanted = parsed(raw)
    except Malformed as error:
        wanted = str(error)
    found = Rows().read(1, NEEDED, raw)
    if isinstance(wanted, dict) and isinstance(wanted.get("items"), list):
        found = {name: value for name, value in found.items() if name in wanted} if isinstance(found, dict) else found
    assert repr(str(found) if isinstance(found, Malformed) else found) == repr(_in_order(wanted, found))


def _in_order(wanted: object, found: object) -> object:
    """The whole answer with its needed fields, in the order in which the other has them, which says nothing."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        assert wanted.keys() == found.keys()
        return {name: _in_order(wanted[name], found[name]) for name in found}
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [_in_order(one, other) for one, other in zip(wanted, found, strict=True)]
    return wanted
