"""What writes do to the twin, under the defaults and under the other dialects that the document leaves possible."""

import json
from typing import Any, Literal

import pytest

from tests.builders import cases
from tests.unit.sandbox.desk import Desk
from worker.sandbox.settings import TwinSettings

DRAFT = {"goal": "ROAS", "total_budget": 500, "tcs": ["x"]}
BARE: dict[str, object] = {"setup": None, "campaigns": []}


def without_setup(**settings: Any) -> Desk:  # noqa: ANN401  # the fields of Settings
    desk = Desk(settings=TwinSettings(**settings))
    desk.change("e2", **BARE)
    return desk


# Status fields


def test_an_effect_can_wait_for_its_task() -> None:
    desk = Desk(settings=TwinSettings(task_effect="when_done", task_duration_s=5.0))
    desk.pause("e1")

    assert desk.read("/events/e1")["client_campaign_status"] == "RUNNING"
    assert desk.effects == []
    desk.passes(5.0)
    assert desk.read("/events/e1")["client_campaign_status"] == "PAUSED"
    assert [effect.at_s for effect in desk.service.books.effects] == [desk.now_s]


@pytest.mark.parametrize("how", ["setting", "event"])
def test_a_task_that_fails_leaves_the_field_as_it_was(how: str) -> None:
    desk = Desk(settings=TwinSettings(task_fails=how == "setting"))
    if how == "event":
        desk.change("e1", task_fails=True)
    desk.pause("e1")
    desk.passes(3.0)

    assert desk.read("/events/e1/client_campaign_status/task") == {"data": {"state": "FAILURE"}}
    assert desk.read("/events/e1")["client_campaign_status"] == "RUNNING"
    assert desk.effects == []


@pytest.mark.parametrize("query", ["", "?client_campaign_status=paused", "?status=PAUSED", "?client_campaign_status="])
def test_a_status_write_that_does_not_say_which_value_is_refused(query: str) -> None:
    desk = Desk()

    assert desk.status("PUT", f"/events/e1/client_campaign_status{query}") == 422
    assert desk.effects == []


def test_the_query_of_a_status_write_can_be_spelled_otherwise() -> None:
    desk = Desk(settings=TwinSettings(client_campaign_status_query={"to": "{value}", "scope": "all"}))

    assert desk.status("PUT", "/events/e1/client_campaign_status?to=PAUSED") == 422
    assert desk.status("PUT", "/events/e1/client_campaign_status?to=PAUSED&scope=all") == 204


def test_under_toggle_semantics_the_second_same_write_undoes_the_first() -> None:
    desk = Desk(settings=TwinSettings(client_campaign_status_semantics="toggle"))
    desk.pause("e1")
    desk.pause("e1")

    assert desk.read("/events/e1")["client_campaign_status"] == "RUNNING"
    assert desk.repeated == 1


@pytest.mark.parametrize("name", ["campaign_optimisation_status", "ad_campaign_optimisation_status"])
def test_the_optimisation_fields_are_independent(name: str) -> None:
    desk = Desk()
    before = desk.read("/events/e1")

    assert desk.status("PUT", f"/events/e1/{name}?{name}=OFF") == 200
    assert desk.read("/events/e1") == {**before, name: "OFF"}


def test_a_frontend_status_is_two_writes_on_two_services() -> None:
    desk = Desk()

    assert desk.status("PUT", "/events/e1/setup_frontend_status?frontend_status=HIDDEN") == 200
    assert desk.status("PUT", "/events/last_updated_on_fe/e1?status=RUNNING") == 404
    assert desk.status("PUT", "/events/last_updated_on_fe/e1?status=RUNNING", host="cr") == 200
    assert desk.status("PUT", "/events/last_updated_on_fe/e1?status=HIDDEN", host="cr") == 422
    assert desk.effects == [("set_frontend_status", "e1"), ("last_updated_on_fe", "e1")]


def test_a_frontend_status_can_come_in_the_body() -> None:
    desk = Desk(settings=TwinSettings(frontend_status_query=None, frontend_status_body={"value": "{value}"}))

    assert desk.status("PUT", "/events/e1/setup_frontend_status?frontend_status=HIDDEN") == 422
    assert desk.status("PUT", "/events/e1/setup_frontend_status", {"value": "FLAGGED"}) == 200
    assert desk.read("/events/flagged/")[0]["id"] == "e1"


# Setup processes


def test_a_draft_is_created_edited_and_published() -> None:
    desk = without_setup()

    assert desk.status("POST", "/setup_processes/e2", DRAFT) == 201
    assert desk.read("/setup_processes/e2") == {"eid": "e2", **DRAFT, "state": "DRAFT"}
    assert desk.status("PUT", "/setup_processes/e2", {"total_budget": 600}) == 200
    assert desk.read("/setup_processes/e2")["total_budget"] == 600
    assert desk.status("POST", "/setup_processes/e2/boost") == 200
    assert desk.read("/setup_processes/e2")["state"] == "PUBLISHED"
    assert [campaign["tc"] for campaign in desk.read("/events/e2/campaigns")] == ["x"]
    assert desk.read("/events/e2")["client_campaign_status"] == "RUNNING"


@cases(
    "body",
    ({"total_budget": 5}, "no goal"),
    ({"goal": "ROAS"}, "no budget"),
    ({"goal": "revenue", "total_budget": 5}, "not a goal value"),
    ({"goal": "ROAS", "total_budget": "5"}, "a budget is a number"),
    ({"goal": "ROAS", "total_budget": True}, "true is no number"),
    (b"{", "not JSON"),
    (b"[]", "not an object"),
    (b'{"goal": "ROAS", "total_budget": NaN}', "NaN is not JSON"),
    (b'{"goal": "ROAS", "total_budget": 5, "note": "\\ud800"}', "half a character cannot be given back"),
)
def test_a_draft_that_cannot_be_is_refused_and_leaves_nothing(body: object) -> None:
    desk = without_setup()

    assert desk.status("POST", "/setup_processes/e2", body) == 422
    assert desk.effects == []


@pytest.mark.parametrize(("settings", "status"), [({}, 409), ({"create_existing": "replace"}, 201)])
def test_a_second_draft_is_a_conflict_or_replaces_the_first_and_is_a_repetition(
    settings: dict[str, Any], status: int
) -> None:
    desk = without_setup(**settings)

    assert [desk.status("POST", "/setup_processes/e2", DRAFT) for _ in range(2)] == [201, status]
    assert desk.repeated == (status == 201)


def test_a_draft_cannot_be_edited_once_it_is_published_nor_before_it_exists() -> None:
    desk = without_setup()

    assert desk.status("PUT", "/setup_processes/e2", DRAFT) == 404
    assert desk.status("POST", "/setup_processes/e2/boost") == 404
    assert desk.status("PUT", "/setup_processes/e1", DRAFT) == 409


@pytest.mark.parametrize(("settings", "status"), [({}, 200), ({"boost_published": "conflict"}, 409)])
def test_a_second_publish_takes_effect_again_and_the_books_say_so_or_it_is_a_conflict(
    settings: dict[str, Any], status: int
) -> None:
    desk = Desk(settings=TwinSettings(**settings))
    desk.status("POST", "/setup_processes/e2/boost")
    once = len(desk.read("/events/e2/campaigns"))

    assert desk.status("POST", "/setup_processes/e2/boost") == status
    repeated = status == 200
    assert len(desk.read("/events/e2/campaigns")) == (2 * once if repeated else once)
    assert desk.repeated == repeated


def test_a_publish_can_mind_the_budget_range() -> None:
    desk = Desk(settings=TwinSettings(enforce_budget_range=True))
    desk.change("e2", upper_limit=1.0, lower_limit=0.5)

    assert desk.status("POST", "/setup_processes/e2/boost") == 422
    assert desk.effects == []


@pytest.mark.parametrize(("result", "expected"), [("none", 404), ("draft", 200)])
def test_a_reset_setup_is_gone_or_a_draft_again(result: Literal["none", "draft"], expected: int) -> None:
    desk = Desk(settings=TwinSettings(reset_setup_result=result))

    assert desk.status("PUT", "/events/e1/reset_campaigns_setup") == 200
    assert desk.status("GET", "/setup_processes/e1") == expected
    assert desk.read("/events/e1/campaigns") == []


# Campaigns


def test_one_cluster_of_a_published_setup_is_edited_and_no_other() -> None:
    desk = Desk()
    first, second = desk.read("/events/e1/campaigns")
    body = {"eid": "e1", "tc": first["tc"], "tc_run_id": str(first["tc_run_id"]), "budget": 70}

    assert desk.status("POST", "/campaigns_setup", body) == 200
    assert desk.read("/events/e1/campaigns") == [{**first, "budget": 70}, second]


@pytest.mark.parametrize(
    ("settings", "status", "kept"), [({}, 200, 3), ({"edit_unknown_cluster": "not_found"}, 404, 2)]
)
def test_an_unknown_cluster_becomes_a_campaign_or_is_refused(settings: dict[str, Any], status: int, kept: int) -> None:
    desk = Desk(settings=TwinSettings(**settings))

    assert desk.status("POST", "/campaigns_setup", {"eid": "e1", "tc": "new & bold", "tc_run_id": 42}) == status
    named = [each["tc"] for each in desk.read("/events/e1/campaigns")]
    assert (len(named), named[-1] == "new & bold") == (kept, status == 200)
    assert desk.status("POST", "/campaigns_setup", {"eid": "e2", "tc": "new", "tc_run_id": 42}) == 409, (
        "a draft has none"
    )
    assert desk.status("POST", "/campaigns_setup", {"eid": "e1"}) == 422


@pytest.mark.parametrize(("shape", "more"), [("list", None), ("limited", 2)])
def test_a_list_of_campaigns_can_be_cut_off_in_silence(shape: Any, more: int | None) -> None:  # noqa: ANN401  # a setting
    desk = Desk(settings=TwinSettings(campaigns_shape=shape, campaigns_limit=2))
    desk.change("e1", campaigns=[{"tc": tc, "tc_run_id": 1} for tc in "abc"])
    found = desk.read("/events/e1/campaigns?page=2")

    assert [one["tc"] for one in (found if more is None else found["items"])] == ["a", "b"]
    assert more is None or found["limit"] == more


def test_campaigns_can_come_in_pages() -> None:
    desk = Desk(settings=TwinSettings(campaigns_shape="page", campaigns_limit=2, page_parameter="p"))
    desk.change("e1", campaigns=[{"tc": tc, "tc_run_id": 1} for tc in "abc"])
    first, second = desk.read("/events/e1/campaigns"), desk.read("/events/e1/campaigns?p=2")

    assert (first["total"], first["pages"], first["nextPage"], second["nextPage"]) == (3, 2, 2, None)
    assert [one["tc"] for one in (*first["items"], *second["items"])] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("spelling", "kept"),
    [("trimmed", "Caf\u00e9"), ("decomposed", " Cafe\u0301"), ("lower", " caf\u00e9")],
)
def test_texts_can_be_kept_in_another_spelling(spelling: Any, kept: str) -> None:  # noqa: ANN401  # a setting
    desk = without_setup(text_spelling=spelling)
    assert desk.status("POST", "/campaigns/?eid=e1&tc=%20Caf%C3%A9&tc_run_id=7") == 201
    assert desk.status("POST", "/setup_processes/e2", {**DRAFT, "note": " Caf\u00e9"}) == 201

    assert desk.read("/events/e1/campaigns")[-1]["tc"] == kept
    setup = desk.read("/setup_processes/e2")
    assert (setup["goal"], setup["note"]) == ("ROAS", kept)
    assert desk.service.books.effects[0].target == "campaign: Caf\u00e9:7", "the books know it as it was sent"


def test_a_campaign_can_be_booked_under_the_newest_run() -> None:
    desk = Desk(settings=TwinSettings(campaign_run="newest"))
    desk.change("e1", tc_run_id=9)
    desk.status("POST", "/campaigns/?eid=e1&tc=late&tc_run_id=7")
    desk.status("POST", "/campaigns_setup", {"eid": "e1", "tc": "late", "tc_run_id": 7, "budget": 12})

    late = [one for one in desk.read("/events/e1/campaigns") if one["tc"] == "late"]
    assert [(one["tc_run_id"], one["budget"]) for one in late] == [(9, 12)]


def test_numbers_can_be_shown_rounded() -> None:
    desk = without_setup(numbers_shown="whole")
    desk.status("POST", "/setup_processes/e2", {**DRAFT, "total_budget": 500.4})

    assert desk.read("/setup_processes/e2")["total_budget"] == 500
    (effect,) = desk.service.books.effects
    assert isinstance(effect.after, dict)
    assert effect.after["total_budget"] == 500.4


# Series and sales


def test_a_series_takes_repeated_keys_in_and_out() -> None:
    desk = Desk()
    desk.status("POST", "/events/e1/series?event_series=e2&event_series=e3")
    desk.status("DELETE", "/events/e1/series?event_series=e2")

    assert desk.read("/events/e1")["campaign_event_series"] == ["e3"]
    assert desk.status("POST", "/events/e1/series") == 422
    assert desk.status("POST", "/events/e1/series?event_series=nobody") == 404


def test_sales_are_ingested_summed_and_cleared() -> None:
    desk = Desk()
    rows = [{"date": "2031-01-05", "tickets": 2, "revenue": 70}, {"date": "2031-03-05", "tickets": 1, "revenue": 35.0}]
    assert desk.status("POST", "/ingest/transaction_summary", {"eid": "e1", "rows": rows}) == 201
    target = "/daily_revenue_summary/?event_id=e1&currency=EUR&start_date=2031-01-01&end_date=2031-02-01"

    assert desk.read(target)["days"] == rows[:1]
    assert desk.read("/events/e1/statistics")["tickets"] == 3
    assert b"e1,2031-03-05,1,35.0" in desk.answer("GET", "/daily_revenue_summary/sales_edit_export").body
    desk.status("DELETE", "/daily_revenue_summary?eid=e1")
    assert desk.read(target)["days"] == []


def test_an_error_body_can_have_another_structure() -> None:
    nested = Desk(settings=TwinSettings(error_shape="nested")).answer("GET", "/events/none")
    text = Desk(settings=TwinSettings(error_shape="text")).answer("GET", "/events/none")

    assert json.loads(nested.body)["error"]["code"] == "error.not_found"
    assert text.body == b"error.not_found"
