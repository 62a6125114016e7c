"""What the twin answers to reads is what the document shows, to the letter."""

import pytest

from tests.builders import cases
from tests.unit.sandbox.desk import Desk
from worker.model.facts import EVENT_FIELDS
from worker.sandbox.settings import TwinSettings
from worker.sandbox.start import SECOND_PARTNER, demo_world


def test_an_event_has_more_than_the_documented_fields_and_no_currency() -> None:
    event = Desk().read("/events/e1")

    assert set(event) > set(EVENT_FIELDS)
    assert "currency" not in event


def test_the_partner_record_has_an_id_of_its_own() -> None:
    partner = Desk().read("/partners/")

    assert partner["id"] != Desk().partner
    assert partner["campaign_recommendations"] is True
    assert {"name", "domain", "currency", "vertical", "status", "pricing_tier", "ner_active"} <= set(partner)


def test_the_envelope_counts_pages_from_one_and_names_its_neighbours() -> None:
    desk = Desk()
    first, last = desk.read("/events/?limit=3"), desk.read("/events/?limit=3&page=3")

    assert {key: value for key, value in first.items() if key != "items"} == {
        "total": 8,
        "limit": 3,
        "page": 1,
        "pages": 3,
        "nextPage": 2,
        "prevPage": None,
    }
    assert (last["nextPage"], last["prevPage"], len(last["items"])) == (None, 2, 2)


def test_descending_turns_the_order_round() -> None:
    desk = Desk()
    up = [event["id"] for event in desk.read("/events/?limit=8")["items"]]
    down = [event["id"] for event in desk.read("/events/?limit=8&descending=true")["items"]]

    assert down == up[::-1]


def test_a_limit_over_the_maximum_is_cut_and_the_answer_says_so_or_it_is_refused() -> None:
    assert Desk(settings=TwinSettings(max_page_limit=4)).read("/events/?limit=100")["limit"] == 4
    assert Desk(settings=TwinSettings(max_page_limit=4, over_limit="refuse")).status("GET", "/events/?limit=5") == 422


def test_a_partner_without_events_has_no_pages() -> None:
    page = Desk(world=demo_world(0)).read("/events/")

    assert (page["total"], page["pages"], page["items"], page["nextPage"]) == (0, 0, [], None)


def test_the_same_event_id_at_two_partners_is_two_events() -> None:
    desk = Desk()
    desk.change("e1", set={"status": "cancelled"})
    desk.pause("e1")
    desk.partner = SECOND_PARTNER

    other = desk.read("/events/e1")

    assert (other["status"], other["client_campaign_status"]) == ("active", "RUNNING")
    assert desk.status("GET", "/events/e1/client_campaign_status/task") == 404


def test_a_larger_budget_suggests_more_clusters_and_the_goal_which_come_first() -> None:
    desk = Desk()
    small = desk.read("/events/e1/suggested_tcs?budget=200&goal=ROAS")
    large = desk.read("/events/e1/suggested_tcs?budget=700&goal=ROAS")
    reach = desk.read("/events/e1/suggested_tcs?budget=200&goal=VISIBILITY")

    assert (len(small), len(large)) == (1, 3)
    assert reach != small
    assert [sorted(small[0]), type(small[0]["tc_run_id"])] == [["tc", "tc_run_id"], str]


def test_suggestions_that_a_story_sets_are_given_as_they_are() -> None:
    desk = Desk()
    desk.change("e1", suggested_tcs=[{"tc": "x", "tc_run_id": 9}])

    assert desk.read("/events/e1/suggested_tcs?budget=1&goal=ROAS") == [{"tc": "x", "tc_run_id": "9"}]


@pytest.mark.parametrize(
    "target",
    [
        "/events/e1/suggested_tcs?budget=500&goal=tickets",
        "/events/e1/suggested_tcs?goal=ROAS",
        "/events/e1/suggested_tcs?budget=nan&goal=ROAS",
        "/events/e1/budget_min_max",
        "/events/e1/lookout_prediction?type=percent",
        "/adplatform_targeting/suggested_radius?location=x&distance_unit=km",
        "/setup_processes/call_to_action/?goal=ROAS&has_pixel=true",
        *(
            f"/events/?{page}"
            for page in ("limit=0", "limit=x", "limit=-1", "limit=" + "9" * 5000, "page=0", "page=1.5")
        ),
        *(f"/events/e1/campaigns_expected_value?goal=ROAS&budget={budget}" for budget in ("1e308", "nan", "-inf")),
    ],
)
def test_a_query_outside_the_document_is_invalid(target: str) -> None:
    assert Desk().status("GET", target) == 422


def test_clusters_of_a_new_event_are_an_empty_list_until_they_are_computed() -> None:
    desk = Desk()
    desk.change("new", add=True)

    assert desk.read("/events/new/clusters")["clusters"] == []
    assert desk.read("/events/new/suggested_tcs?budget=500&goal=ROAS") == []


def test_an_event_lists_its_siblings_and_who_could_become_one() -> None:
    desk = Desk()
    desk.status("POST", "/events/e1/series?event_series=e2")

    assert [event["id"] for event in desk.read("/events/e1/series")] == ["e2"]
    assert "e2" not in [event["id"] for event in desk.read("/events/e1/available_events_for_series")]


def test_an_event_that_comes_new_is_active_and_open_unless_said_otherwise() -> None:
    desk = Desk()
    desk.change("new", add=True)
    desk.change("other", add=True, set={"status": "cancelled"})

    found = [desk.read(f"/events/{eid}") for eid in ("new", "other")]
    assert [(one["id"], one["status"], one["campaign_status"]) for one in found] == [
        ("new", "active", "OPEN"),
        ("other", "cancelled", "OPEN"),
    ]


@cases(
    "method, target, expected",
    ("GET", "/events", 404, "the document writes it with a slash"),
    ("GET", "/permissions/", 404, "and this one without"),
    ("GET", "/nothing/here", 404, "not in the tables"),
    ("GET", "/events/e99", 404, "no such event"),
    ("PATCH", "/events/e1", 405, "a known path, another method"),
    ("PUT", "/events/e1", 405, "editing is on the other service"),
)
def test_what_is_not_in_the_tables_is_not_there(method: str, target: str, expected: int) -> None:
    assert Desk().status(method, target) == expected


def test_every_answer_carries_its_own_trace_id() -> None:
    desk = Desk()
    seen = {desk.answer("GET", target).headers["x-request-id"] for target in ("/events/e1", "/events/e1", "/nowhere")}

    assert len(seen) == 3
