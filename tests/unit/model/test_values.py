"""What a value may be, what of it is money, and budgets in cents."""

from math import inf, nan

import pytest

from tests.builders import cases
from worker.model.actions import Param, ParamType, budgets_in, cents, fault_of, in_cents, money_in, uncounted, words_in
from worker.model.facts import Json


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("string", ["rock"], ["", " ", 5, True, ["rock"], {}]),
        ("number", [5, 5.5, 0.005], ["5", True, [5], {}, inf, -inf, nan, 0, -0.0, 0.004, -1]),
        ("integer", [5, 5.0, "5"], [5.5, "x", "", "5.0", True, inf]),
        ("goal", ["ROAS"], ["roas", 5]),
        ("on_off", ["ON"], [True]),
        ("frontend_status", ["HIDDEN"], ["hidden"]),
        ("eids", [["e1"]], [[], ["e1", 5], "e1", [""]]),
        ("texts", [["rock", "pop"]], [[], [None], {"rock": 1}]),
        ("query", [{}, {"a": [1]}], [[], "a=1", {"a": inf}]),
        ("body", [{}, [1], "x", 5, True], [[{"a": nan}]]),
        ("any", [{}, [1], "x", 5, True, "inf", 10**400], [inf, {"a": [nan]}, {"max_bid": "inf"}, {"cost": 10**400}]),
    ],
)
def test_a_value_is_judged_by_the_type_of_its_parameter(kind: ParamType, good: list[Json], bad: list[Json]) -> None:
    param = Param(type=kind, about="")
    assert [fault_of("x", param, value) for value in good] == [""] * len(good)
    assert all(fault_of("x", param, value).startswith("is ") for value in bad)


def test_a_fault_shows_the_value_and_what_is_wanted() -> None:
    number = Param(type="number", about="")
    assert fault_of("budget", number, "9999") == "is the text '9999', and must be a number above 0"
    assert fault_of("x", Param(type="goal", about=""), 5).startswith("is 5, and is one of UTILIZATION, ROAS")
    assert fault_of("bid", Param(type="any", about=""), "nan") == "is the text 'nan', which is not finite"
    assert fault_of("x", number, "y" * 500).count("y") < 100, "a long one is cut"


@cases(
    "params, money",
    ({"total_budget": 500}, 500.0, "the budget of a draft"),
    ({"budget": 12.5}, 12.5, "a budget of a cluster"),
    ({"total_budget": 500, "budget": 12.5}, 512.5, "all of it is added up"),
    ({"total_budget": "500"}, 500.0, "a text that reads as a number"),
    ({"dailyBudget": 5, "bid_cap": 6, "spendCap": 7, "max-price": 8, "AMOUNT": 9, "costs": 10}, 45.0, "any word"),
    ({"targeting": {"x": [{"bid": 5}, {"bid": "6"}]}}, 11.0, "at any depth"),
    ({"budget": {"value": 5, "per": ["day", 7]}}, 12.0, "and below such a key"),
    ({"CPCBid": 5, "budget2": 6}, 11.0, "whatever stands beside the word"),
    ({"CAPs": 5, "dailyBIDs": 6}, 11.0, "in capitals, and several"),
    ({"budget": -5}, 0.0, "what is below zero gives nothing back"),
    ({"cost": 10**400}, inf, "more than any limit"),
    ({"budget": True}, None, "a boolean is no number"),
    ({"budget": "much"}, None, "nor is a word"),
    ({"budget": None}, None, "nor is null"),
    ({"capacity": 5, "bidder": 5, "escape": 5, "forbid": 5}, None, "bid and cap are no parts of words"),
    ({"dailybudget": 1, "ADSPEND": 2, "totalamount": 4, "costly": 8, "unitprice": 16}, 31.0, "the others are"),
    ({"goal": "ROAS"}, None, "none"),
)
def test_money_is_known_by_its_key(params: dict[str, Json], money: float | None) -> None:
    assert money_in(params) == money


@pytest.mark.parametrize(
    "text", ["99,999", "99 999", "99999 EUR", "\uff19\uff19", "99_999", "1e5", "9.999,5", "5.", "0x10", "$5", "1\n"]
)
def test_money_that_holds_a_digit_and_is_no_plain_decimal_cannot_be_counted(text: str) -> None:
    given: Json = {"a": [{"bid": 5}, {"daily": {"amount_cents": ["EUR", text]}}]}
    assert uncounted(given) == text
    assert fault_of("extra", Param(type="any", about=""), given).startswith("has money as the text ")
    assert fault_of("query", Param(type="query", about=""), {"budget.max": text}).endswith("which cannot be counted")


def test_what_can_be_counted_or_is_no_money_is_no_fault() -> None:
    for text in ("500", "500.25", "-5", "+5", "EUR", "much", ""):
        assert uncounted({"budget": text}) is None
    assert uncounted({"note": "99,999", "capacity": "5 seats", "budget": {"x": True, "y": None, "z": 5}}) is None


def test_the_words_of_a_key_are_told_apart_by_case_and_separators() -> None:
    assert words_in("daily_budget") == words_in("daily-budget") == words_in("dailyBudget") == ("daily", "budget")
    assert words_in("maxCPCBid2") == ("max", "cpc", "bid", "2")
    assert words_in("dailybudget") == ("dailybudget",)


def test_the_range_is_for_total_budgets_and_budgets_however_they_are_spelled() -> None:
    assert budgets_in({"total_budget": 5, "totalBudget": "6", "Budget": 7, "daily_budget": 8, "bid": 9}) == (5, 6, 7)
    assert budgets_in({"budget": {"value": 5}, "total_budget": "much"}) == ()


@pytest.mark.parametrize(
    ("value", "whole"),
    [(33.333, 33.33), (0.125, 0.13), (2.675, 2.68), (500.005, 500.01), (1e300, 1e300), (inf, inf), ("1.005", "1.005")],
)
def test_cents_are_whole_and_half_a_cent_goes_up(value: Json, whole: Json) -> None:
    assert cents(value) == whole
    assert (cents(500), cents(None)) == (500, None)


def test_only_budgets_are_in_cents() -> None:
    exact = in_cents({"total_budget": 1.005, "budget": 2.0, "share": 0.125})
    assert exact == {"total_budget": 1.01, "budget": 2.0, "share": 0.125}
