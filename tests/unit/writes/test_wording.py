"""What a write does and spends, in words."""

import pytest

from tests.builders import a_fact, an_intent, cases, unreadable
from worker.model.facts import Fact, Json
from worker.writes.intents import Wanted, in_all, shown_value, wanted

DRAFT: dict[str, Json] = {"state": "DRAFT", "goal": "ROAS", "total_budget": 500.0}
PUBLISHES = "DRAFT -> PUBLISHED, draft: total_budget 500, goal ROAS"
NO_BUDGET = "amount unknown: it names no budget of its own"
JAZZ: dict[str, Json] = {"tc": "jazz", "tc_run_id": 1}
MORE_JAZZ: dict[str, Json] = {**JAZZ, "budget": 24.0}
JAZZ_NOW: dict[str, Json] = {"exists": True, "budget": 20}
NEW: dict[str, Json] = {"goal": "ROAS", "total_budget": 500}
MUCH: dict[str, Json] = {"total_budget": 500.5, "goal": "CPM", "more": 1e300}
CAPPED: dict[str, Json] = {"state": "DRAFT", "total_budget": 500, "spend_cap": 70}
DRAFT_OF_500: dict[str, Json] = {"state": "DRAFT", "total_budget": 500}
CALL: dict[str, Json] = {"host": "cr", "method": "PUT", "path": "/events/{eid}", "query": {"a": 1}, "spends": False}
KEPT = [("goal", "ROAS", "ROAS"), ("total_budget", "500", "500")]
OTHER: dict[str, Json] = {"total_budget": 120.0, "goal": "CPM"}


@pytest.mark.parametrize(
    ("action", "params", "before", "line"),
    [
        ("pause", {}, None, "PAUSED"),
        ("pause", {}, "RUNNING", "RUNNING -> PAUSED"),
        ("run", {}, "PAUSED", f"PAUSED -> RUNNING; {NO_BUDGET}"),
        ("optimisation", {"value": "OFF"}, "ON", "ON -> OFF"),
        ("create_draft", NEW, {"state": "NONE"}, "goal ROAS, total_budget 500; spends 500 EUR"),
        ("update_draft", MUCH, None, "total_budget 500.5, goal CPM, more 1e+300; spends 500.5 EUR"),
        ("update_draft", {"total_budget": 120.0}, DRAFT, "total_budget 500 -> total_budget 120; spends 120 EUR"),
        ("update_draft", {"goal": "CPM"}, DRAFT, "goal ROAS -> goal CPM"),
        ("boost", {}, DRAFT, "DRAFT -> PUBLISHED, draft: total_budget 500, goal ROAS; spends 500 EUR"),
        ("boost", {}, CAPPED, "DRAFT -> PUBLISHED, draft: total_budget 500; spends 570 EUR"),
        ("boost", {}, None, "PUBLISHED; amount unknown: the draft has not been read yet"),
        ("boost", {}, {"state": "DRAFT"}, "DRAFT -> PUBLISHED; amount unknown: the draft shows no total_budget"),
        (
            "boost",
            {},
            {**DRAFT, "cap": "Infinity"},
            f"{PUBLISHES}; amount unknown: it shows money that cannot be counted",
        ),
        ("boost", {}, {"state": "NONE"}, "NONE -> PUBLISHED; amount unknown: there is no draft yet"),
        ("edit_cluster", MORE_JAZZ, JAZZ_NOW, "budget 20 -> tc jazz, tc_run_id 1, budget 24; spends 24 EUR"),
        ("create_campaign", JAZZ, {"exists": False}, f"tc jazz, tc_run_id 1; {NO_BUDGET}"),
        ("series_add", {"value": ["e2", "e3"]}, ["e2"], "e2, e3"),
        ("reset_setup", {}, None, NO_BUDGET),
        ("wait", {"value": 172800.0}, None, "2 days, 0:00:00"),
        ("notify", {"text": "look", "remind": 5400}, None, "text look, remind 1:30:00"),
        ("write", CALL, None, 'host cr, method PUT, path /events/{eid}, query {"a": 1}'),
        ("write", {"method": "PUT", "path": "/x", "body": {"budget": 7}}, None, "spends 7 EUR"),
    ],
)
def test_what_a_write_does_and_spends(action: str, params: dict[str, Json], before: Json, line: str) -> None:
    found = wanted(an_intent(action, params), "", before, "EUR").line
    assert found.endswith(line) if "body" in params else found == line


@cases(
    "action, setup, shown",
    ("boost", a_fact({**CAPPED, "name": "x"}), (True, CAPPED), "all the money of the draft, which it commits"),
    ("update_draft", a_fact(CAPPED), (True, DRAFT_OF_500), "what evidence compares"),
    ("boost", unreadable(), (False, None), "nothing"),
)
def test_who_is_asked_is_shown_what_is_there(action: str, setup: Fact, shown: tuple[bool, Json]) -> None:
    assert shown_value(an_intent(action, {"total_budget": 700.0} if action != "boost" else {}), setup) == shown


def test_of_an_action_of_two_calls_it_is_said_which_one_and_what_no_read_shows_has_no_value_before() -> None:
    params: dict[str, Json] = {"value": "HIDDEN"}
    changes = [wanted(an_intent("frontend_status", params, item), item, "DEFAULT").change for item in ("event", "cr")]
    assert changes == ["DEFAULT -> HIDDEN (event)", "HIDDEN (cr)"]
    assert wanted(an_intent("edit_cluster", {**JAZZ, "budget": 5}), "jazz:1", None).does.endswith("budget 5")


@pytest.mark.parametrize(
    ("action", "params", "before", "changes"),
    [
        ("pause", {}, "RUNNING", [("client_campaign_status", "RUNNING", "PAUSED")]),
        ("pause", {}, None, [("client_campaign_status", "", "PAUSED")]),
        ("update_draft", OTHER, DRAFT, [("total_budget", "500", "120"), ("goal", "ROAS", "CPM")]),
        ("boost", {}, DRAFT, [("state", "DRAFT", "PUBLISHED"), *KEPT]),
        ("edit_cluster", MORE_JAZZ, JAZZ_NOW, [("budget", "20", "24"), ("tc", "", "jazz"), ("tc_run_id", "", "1")]),
        ("series_add", {"value": ["e2", "e3"]}, ["e2"], [("campaign_event_series", "e2", "e2, e3")]),
        ("write", {"method": "PUT", "path": "/x", "spends": False}, None, [("method", "", "PUT"), ("path", "", "/x")]),
    ],
)
def test_what_a_write_changes_is_said_field_by_field(
    action: str, params: dict[str, Json], before: Json, changes: list[tuple[str, str, str]]
) -> None:
    found = wanted(an_intent(action, params), "", before)
    assert list(found.changes) == changes
    told = found.told
    assert (told["wants"], told["now"], told["spends"]) == (found.does, found.before, found.spends)
    assert told["changes"] == [{"field": name, "now": now, "then": then} for name, now, then in changes]


def an_amount(amount: float, currency: str = "") -> Wanted:
    return Wanted(does="a", amount=amount, currency=currency)


UNKNOWN = Wanted(does="c", unknown="?")


@cases(
    "together, words",
    ([], "", "nothing"),
    ([Wanted(does="PAUSED")], "", "no money"),
    ([an_amount(500.0, "EUR"), an_amount(0.5, "EUR")], "500.5 EUR in all", "one currency"),
    ([an_amount(5.0, "USD"), an_amount(1.0, "EUR")], "1 EUR + 5 USD in all", "two currencies"),
    ([an_amount(0.1), an_amount(0.2), UNKNOWN], "0.3 in all; amount unknown: 1 of them", "one of them unknown"),
    ([UNKNOWN, UNKNOWN], "amount unknown: 2 of them", "all unknown"),
)
def test_several_writes_are_summed_by_currency_and_the_unknown_are_counted(together: list[Wanted], words: str) -> None:
    assert in_all(together) == words
