"""The world keeps its past, its partners apart and its reset; settings say no to what they are not."""

import string

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from tests.builders import cases
from tests.unit.sandbox.desk import START_S, Desk
from worker.sandbox.changes import ResetChange
from worker.sandbox.service import Twin
from worker.sandbox.settings import (
    Cut,
    Hang,
    Host,
    SandboxInputError,
    TwinAnswer,
    TwinRequest,
    TwinSettings,
    User,
    changed_settings,
)
from worker.sandbox.start import FIRST_PARTNER, demo_world
from worker.sandbox.world import MAX_VERSIONS


def test_the_past_can_be_asked_for() -> None:
    world = demo_world()
    for moment in (1.0, 2.0, 3.0):
        found = world.at(FIRST_PARTNER, "e1")
        assert found is not None
        world.put(FIRST_PARTNER, "e1", found.with_fields({"capacity": int(moment)}), moment)
    seen = [world.at(FIRST_PARTNER, "e1", as_of) for as_of in (0.5, 1.0, 2.5, 9.0)]

    assert [each.record["capacity"] for each in seen if each][1:] == [1, 2, 3]


def test_the_past_is_not_kept_without_end() -> None:
    world = demo_world()
    found = world.at(FIRST_PARTNER, "e1")
    for moment in range(3 * MAX_VERSIONS):
        world.put(FIRST_PARTNER, "e1", found, float(moment))

    assert world.at(FIRST_PARTNER, "e1", 1.0) is None
    assert world.at(FIRST_PARTNER, "e1", 3.0 * MAX_VERSIONS - 10) is found


@pytest.mark.parametrize(
    ("result", "ids"),
    [("initial", {"e1", "e8"}), ("empty", set()), ("new_ids", {"e1-r1", "e8-r1"})],
)
def test_the_weekly_reset_has_three_likely_ends(result: str, ids: set[str]) -> None:
    desk = Desk(settings=changed_settings(TwinSettings(), {"reset_result": result}))
    desk.pause("e1")
    desk.service.change(ResetChange(), desk.now_s)
    found = {event["id"]: event for event in desk.read("/events/")["items"]}

    assert ids <= set(found)
    assert {event["client_campaign_status"] for event in found.values()} <= {"RUNNING", "PAUSED"}
    assert all(found[eid]["client_campaign_status"] == "RUNNING" for eid in ids)


def test_the_weekly_reset_can_come_by_itself_again_and_again() -> None:
    desk = Desk(settings=TwinSettings(reset_every_s=100.0))
    for _ in range(3):
        desk.pause("e1")
        desk.passes(100.0)
        desk.sign_in()
        assert desk.read("/events/e1")["client_campaign_status"] == "RUNNING"

    assert desk.repeated == 0


def test_time_does_not_run_backwards_when_a_clock_does() -> None:
    desk = Desk()
    desk.passes(50.0)
    desk.pause("e1")
    desk.passes(-40.0)
    desk.pause("e2")

    assert [effect.at_s for effect in desk.service.books.effects] == [START_S + 50.0, START_S + 50.0]


@cases(
    "changes, message",
    ({"page_paramter": "p"}, "unknown key 'page_paramter' in settings, did you mean 'page_parameter'"),
    ({"task_fails": 1}, "expected a valid boolean"),
    ({"reset_result": "gone"}, "cannot be 'gone'; known: empty, initial, new_ids"),
    ({"rate_limit_per_minute": 1.5}, "cannot be 1.5"),
    ({"rate_limit_per_minute": True}, "cannot be True"),
    ({"create_campaign_query": {"a": 1}}, "cannot be"),
    ({"reset_every_s": 0}, "reset_every_s cannot be 0"),
    ({"default_page_limit": 0}, "default_page_limit cannot be 0"),
    ({"max_page_limit": 0}, "max_page_limit cannot be 0"),
    ({"token_lifetime_s": float("inf")}, "this cannot be read: Out of range float"),
    ({"users": "me"}, "settings.users cannot be 'me': expected"),
    ({"users": [{"name": "x"}]}, "unknown key 'name' in settings.users.0, did you mean 'username'"),
)
def test_a_setting_that_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(SandboxInputError, match=message):
        changed_settings(TwinSettings(), changes)


def test_settings_that_can_be_are_taken() -> None:
    users = [{"username": "a", "password": "b", "partners": ["p"]}]
    found = changed_settings(
        TwinSettings(), {"task_duration_s": 3, "frontend_status_query": None, "retry_after_s": None, "users": users}
    )

    assert found.users == (User(username="a", password="b", partners=("p",)),)
    assert found.frontend_status_query is None


TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=12)
WORDS = st.sampled_from(
    [
        *("events", "e1", "e2", "setup_processes", "boost", "campaigns_setup", "series", "auth", "", "task"),
        *("client_campaign_status", "suggested_tcs", "campaigns", "daily_revenue_summary", "%2F", "%ff"),
        *("clusters", "budget_min_max"),
    ]
)
NAMES = st.sampled_from(
    ["budget", "goal", "limit", "page", "eid", "tc", "tc_run_id", "runtime_in_days", "event_series"]
)
BODIES = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([b"{}", b'{"goal":"ROAS","total_budget":1e999}', b'{"eid":"e1","tc":["x"],"tc_run_id":{}}']),
    st.sampled_from([b'{"goal":"ROAS","total_budget":5,"tcs":7}', b'{"goal":["ROAS"],"total_budget":5}', b"[" * 9999]),
)


@profile(max_examples=100, deadline=None)
@given(
    method=st.sampled_from(["GET", "PUT", "POST", "DELETE", "PATCH"]),
    host=st.sampled_from(["api", "cr", "media"]),
    parts=st.lists(st.one_of(WORDS, st.text(alphabet=string.ascii_letters, max_size=5)), max_size=5),
    query=st.lists(st.tuples(st.one_of(NAMES, TEXT), st.one_of(TEXT, st.just("500"), st.just("ROAS"))), max_size=4),
    body=BODIES,
)
def test_whatever_is_asked_gets_a_delivery(
    method: str, host: Host, parts: list[str], query: list[tuple[str, str]], body: bytes
) -> None:
    desk = Desk()
    headers = desk.request("GET", "/").headers
    request = TwinRequest(
        method=method, host=host, path="/" + "/".join(parts), query=tuple(query), headers=headers, body=body
    )

    assert isinstance(desk.service.answer(request, desk.now_s), TwinAnswer | Cut | Hang)


def test_the_same_requests_give_the_same_run_to_the_byte() -> None:
    def run() -> list[object]:
        desk = Desk()
        found: list[object] = [desk.token]
        for _ in range(3):
            desk.passes(3.0)
            found += [desk.answer("GET", "/events/"), desk.pause("e1"), tuple(desk.service.books.effects)]
        return found

    assert run() == run()


def test_a_service_without_an_origin_begins_its_story_with_the_first_request() -> None:
    service = Twin(demo_world())
    request = TwinRequest(method="GET", host="api", path="/status/")
    service.answer(request, 5000.0)

    assert service.books.requests[0].at_s == 5000.0
