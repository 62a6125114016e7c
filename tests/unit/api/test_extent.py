"""How much of a list an answer holds, by its own word."""

from typing import Any

import pytest

from tests.builders import cases
from worker.api.listing import full, lacking, leaf_of, next_page
from worker.model.facts import Json

ABC: list[Json] = ["a", "b", "c"]


def leaf(value: Any, **headers: str) -> Any:  # noqa: ANN401  # JSON of any shape
    return leaf_of(ABC, value, {name.replace("_", "-"): text for name, text in headers.items()})


@pytest.mark.parametrize(
    "value",
    [
        ABC,
        {"items": ABC},
        {"items": ABC, "total": 3, "limit": 3, "page": 1, "pages": 1, "nextPage": None, "prevPage": None},
        {"items": ABC, "total": 3, "limit": 3},
        {"items": ABC, "count": 3},
        {"items": ABC, "limit": 4},
        {"items": ABC, "limit": 3, "next": None},
        {"items": ABC, "has_more": False, "limit": 3},
        {"items": ABC, "links": {"next": ""}},
        {"items": ABC, "total": "many", "budget": {"total": 900}},
        {"data": {"campaigns": ABC, "total": 2}},
        {"items": ABC, "event": {"total": 9, "next": "e2"}},
    ],
)
def test_a_list_that_says_nothing_of_more_is_whole(value: Json) -> None:
    assert lacking([leaf(value)]) == ""


@cases(
    "value, words",
    ({"items": ABC, "total": 4}, "it holds 3 of 4"),
    ({"items": ABC, "totalCount": 4}, "it holds 3 of 4"),
    ({"data": {"campaigns": ABC, "total_items": 4}}, "it holds 3 of 4"),
    ({"campaigns": ABC, "meta": {"pagination": {"total": 4}}}, "it holds 3 of 4"),
    ({"items": ABC, "pages": 2}, "it is 1 of 2 pages"),
    ({"items": ABC, "nextPage": 2}, "it names a next page"),
    ({"items": ABC, "has_more": True}, "it names a next page"),
    ({"items": ABC, "_links": {"self": "/x", "next": {"href": "/x?p=2"}}}, "it names a next page"),
    ({"items": ABC, "limit": 3}, "it is as long as its limit of 3"),
    ({"items": ABC, "per_page": 2}, "it is as long as its limit of 2"),
    ({"items": ABC, "total": "4", "pages": "2", "limit": "3"}, "it holds 3 of 4"),
    ({"content": ABC, "totalElements": 4, "last": False}, "it holds 3 of 4"),
    ({"content": ABC, "last": False}, "it names a next page"),
    ({"value": ABC, "@odata.nextLink": "/x?skip=3"}, "it names a next page"),
    ({"value": ABC, "@odata.count": 4}, "it holds 3 of 4"),
    ({"items": ABC, "page": {"size": 3, "total": 4}}, "it holds 3 of 4"),
    ({"items": ABC, "truncated": True}, "it names a next page"),
    ({"items": ABC, "cursor": "abc"}, "it names a next page"),
    ({"items": ABC, "paging": {"cursors": {"after": "abc"}}}, "it names a next page"),
    ({"campaigns": {"items": ABC, "total": 4, "nextPage": 2}}, "it holds 3 of 4"),
    ({"response": {"payload": {"list": ABC, "pages": 4}}}, "it is 1 of 4 pages"),
    ({"campaigns": ABC, "total_campaigns": 4}, "it holds 3 of 4"),
    ({"campaigns": ABC, "campaigns_total": 4}, "it holds 3 of 4"),
    ({"campaigns": ABC, "grand_total": 4}, "it holds 3 of 4"),
    ({"campaigns": ABC, "found": 4}, "it holds 3 of 4"),
)
def test_a_list_that_tells_of_more_than_it_holds_lacks_something(value: Json, words: str) -> None:
    assert lacking([leaf(value)]) == words


def test_an_empty_list_is_not_taken_for_another_that_is_empty_too() -> None:
    assert lacking([leaf_of([], {"campaigns": [], "stats": {"tags": [], "total": 900}})]) == ""
    assert lacking([leaf_of([], {"campaigns": {"items": [], "total": 3}})]) == "it holds 0 of 3"


def test_headers_tell_of_more_too() -> None:
    assert lacking([leaf(ABC, link='</x?page=1>; rel="prev", </x?page=3>; rel="next"')]) == "it names a next page"
    assert lacking([leaf(ABC, x_total_count="4")]) == "it holds 3 of 4"
    assert lacking([leaf(ABC, x_total_count="3", link='</x>; rel="last"')]) == ""
    assert lacking([leaf(ABC, x_total_count="many")]) == ""
    assert lacking([leaf(ABC, link="</x?page=3>; rel='next'")]) == "it names a next page"
    assert lacking([leaf(ABC, link='</x?page=3>; rel="last next"')]) == "it names a next page"
    assert lacking([leaf(ABC, content_range="items 0-2/4")]) == "it holds 3 of 4"
    assert lacking([leaf(ABC, content_range="items 0-2/*")]) == ""
    assert lacking([leaf(ABC, x_total="4", x_next_page="2")]) == "it holds 3 of 4"
    assert lacking([leaf(ABC, x_next_page="2")]) == "it names a next page"
    assert lacking([leaf(ABC, x_next_page="")]) == ""
    assert lacking([leaf(ABC, x_pagination='{"total": 4}')]) == "it holds 3 of 4"
    assert lacking([leaf(ABC, x_pagination="page 1")]) == ""
    assert lacking([leaf(ABC, x_pagination="[" * 2000)]) == ""
    assert lacking([leaf(ABC, x_nextjs_cache="HIT", x_after="9")]) == ""
    assert lacking([leaf(ABC, x_has_more="true")]) == "it names a next page"
    assert lacking([leaf(ABC, x_has_more="false", x_next_cursor="null")]) == ""


@cases(
    "pages, words",
    ([(["a", "b"], {"total": 3}), (["c"], {"total": 3})], ""),
    ([(["a", "b"], {"nextPage": 2}), (["c"], {"nextPage": None})], ""),
    ([(["a", "b"], {"limit": 2}), (["c"], {"limit": 2})], ""),
    ([(["a", "b"], {"total": 3}), ([], {"total": 3})], "it holds 2 of 3"),
    ([(["a", "b"], {"total": 3}), (["c"], {"total": 4})], "it changed while it was read"),
    ([(["a", "b"], {"total": 4}), (["b", "d"], {"total": 4})], "it changed while it was read"),
    ([(["a", "b"], {"limit": 2}), (["c", "d"], {"limit": 2})], "it is as long as its limit of 2"),
    ([(["a", "b"], {"limit": 2}), ([], {"limit": 2})], ""),
    ([(["a", "b"], {"has_more": True}), ([], {"has_more": False})], "a page that it told of is empty"),
    ([(["a", "b"], {"totalPages": 2}), ([], {"totalPages": 2})], "a page that it told of is empty"),
)
def test_pages_together_are_whole_only_if_nothing_speaks_against_it(
    pages: list[tuple[list[Json], dict[str, Json]]], words: str
) -> None:
    assert lacking([leaf_of(items, said) for items, said in pages]) == words


def test_the_next_page_is_the_one_that_is_named() -> None:
    assert next_page([leaf({"nextPage": 7})]) == 7
    assert next_page([leaf({"next": "/x?cursor=q"})]) == 2
    assert next_page([leaf({"total": 9}), leaf({"total": 9})]) == 3


@pytest.mark.parametrize(("length", "so"), [(0, False), (5, False), (9, False), (10, True), (11, False), (25, True)])
def test_a_list_without_a_word_may_be_cut_off_where_it_is_as_long_as_a_page(length: int, so: bool) -> None:
    items: list[Json] = list(range(length))
    assert full(leaf_of(items, items)) is so
    assert not full(leaf_of(items, {"items": items, "total": length})), "it says how long it is"
